"""`inventory` and `leftovers`: this host and its snapshots, its GPUs, limits, ports and processes."""
