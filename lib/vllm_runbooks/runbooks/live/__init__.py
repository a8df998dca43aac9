"""What runbooks do on this host, one module a kind of step."""
