"""`lab`: panels for JupyterLab."""
