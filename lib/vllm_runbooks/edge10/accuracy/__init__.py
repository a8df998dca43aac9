"""`edge10 judge`: whether quantising cost accuracy."""
