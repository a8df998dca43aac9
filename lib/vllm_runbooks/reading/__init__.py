"""Text to records: shell, manifests, Python, arguments, startup logs, recorded cases."""
