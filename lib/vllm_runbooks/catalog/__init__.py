"""The data of `catalog/`, loaded."""
