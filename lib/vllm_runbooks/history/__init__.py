"""`history` and `diff`: what was checked, run, started and probed here."""
