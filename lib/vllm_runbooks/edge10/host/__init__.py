"""`edge10 preflight`: the host before a step."""
