"""`inventory` and `leftovers`."""
