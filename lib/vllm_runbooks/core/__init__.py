"""Shared code: errors, records, text, redaction, files, console, charts."""
