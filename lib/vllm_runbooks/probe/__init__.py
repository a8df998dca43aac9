"""`probe`: health and load of a running server."""
