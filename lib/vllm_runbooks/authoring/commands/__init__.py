"""`catalog` and `releases`."""
