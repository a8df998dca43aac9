"""Fake of the quantization settings."""
