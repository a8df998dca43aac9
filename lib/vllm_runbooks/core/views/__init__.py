"""Parts that views are made of: styles, shapes, tables, columns."""
