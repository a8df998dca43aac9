"""`cluster` and its parts, and `serve` over several nodes."""
