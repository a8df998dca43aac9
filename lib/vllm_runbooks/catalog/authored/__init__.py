"""Read the authored files of the catalog: YAML to records, every problem with file, line and field."""
