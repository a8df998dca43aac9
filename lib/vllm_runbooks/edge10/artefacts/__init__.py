"""`edge10 check`: what lies in a folder between two steps."""
