"""`diagnose`: log to root cause and fixes."""
