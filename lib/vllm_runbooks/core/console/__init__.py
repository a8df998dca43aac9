"""Options, output and terminal of commands."""
