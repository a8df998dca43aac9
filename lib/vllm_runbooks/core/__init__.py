"""What several packages share: errors, records, text, redaction, files, console, charts."""
