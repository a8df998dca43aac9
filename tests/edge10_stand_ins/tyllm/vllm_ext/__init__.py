"""Stands in for the compiler's part in vLLM."""
