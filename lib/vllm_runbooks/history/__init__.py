"""`history`: what was checked, run, launched and probed here."""
