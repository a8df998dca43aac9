"""`catalog` and `releases`: checks the catalog and adds releases of vLLM to it."""
