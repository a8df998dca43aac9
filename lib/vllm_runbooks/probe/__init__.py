"""`probe`: what is wrong with a running server."""
