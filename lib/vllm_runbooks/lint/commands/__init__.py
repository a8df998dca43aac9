"""`lint`, `migrate` and `convert`."""
