"""`serve`: a start with a guard."""
