"""`edge10 make`: a job and its steps."""
