"""`catalog` and `releases`: authored YAML and released packages to the catalog."""
