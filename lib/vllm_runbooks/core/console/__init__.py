"""What commands share: options, output, the terminal."""
