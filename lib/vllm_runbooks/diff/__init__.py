"""`diff`: differences between two runs, launches or probes."""
