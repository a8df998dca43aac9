"""`history`: checks, runs, launches and probes on this host."""
