"""`list`, `show`, `run`, `check`, `record`, `case` and `pack`."""
