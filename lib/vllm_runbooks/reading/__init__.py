"""Text to records: shell, documents, arguments, deployments, logs."""
