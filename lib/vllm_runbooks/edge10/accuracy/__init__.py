"""`edge10 compare`: whether quantising cost accuracy."""
