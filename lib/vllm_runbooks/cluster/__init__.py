"""`cluster`, and `serve` over several nodes: checks and launches over ssh or Ray."""
