"""The authored files of the catalog: YAML to records, every problem named by file, line and field."""
