"""`run`, `check`, `list`, `show`, `record`, `case`, `pack`: runbooks, cases and what notebooks call."""
