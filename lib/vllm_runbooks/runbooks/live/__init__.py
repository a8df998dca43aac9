"""What runbooks do on this host, one module for each kind of step."""
