"""`serve`: a supervised launch."""
