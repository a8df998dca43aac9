"""Stands in for the settings of quantising."""
