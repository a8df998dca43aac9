"""Fake of Pillow."""
# ruff: noqa: N999 - Pillow's names
