"""Components of views: styles, shapes, tables, columns."""
