"""`edge10 check`: contents of a folder between two steps."""
