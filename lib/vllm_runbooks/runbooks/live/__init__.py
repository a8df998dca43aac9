"""Actions of runbooks on this host, one module for each kind of step."""
