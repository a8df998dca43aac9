"""Answers as text, HTML and charts."""
