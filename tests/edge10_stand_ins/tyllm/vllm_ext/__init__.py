"""Fake of the compiler's part in vLLM."""
