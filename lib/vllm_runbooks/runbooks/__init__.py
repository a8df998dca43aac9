"""`run`, `check`, `list`, `show`, `record`, `case` and `pack`: runbooks, recorded cases, reports and packs."""
