"""Stands in for Pillow."""
# ruff: noqa: N999 - Pillow's names
