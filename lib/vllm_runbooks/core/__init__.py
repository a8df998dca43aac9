"""What has no subject: errors, text, files, views and the toolkit of commands."""
