"""Plans as text, HTML and charts."""
