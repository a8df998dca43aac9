"""`diagnose`: from log to root cause and fixes."""
