"""`lab`: panels in JupyterLab."""
