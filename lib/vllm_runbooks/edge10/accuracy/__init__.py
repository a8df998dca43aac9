"""`edge10 judge`: accuracy loss of quantising."""
