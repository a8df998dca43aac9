"""`site`: the documentation site and the pages that run in the browser."""
