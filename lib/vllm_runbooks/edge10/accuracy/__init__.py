"""`edge10 compare`: accuracy loss of quantising."""
