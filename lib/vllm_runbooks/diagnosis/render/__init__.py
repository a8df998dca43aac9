"""Answers as text, HTML and pictures."""
