"""Plans as text, HTML and pictures."""
