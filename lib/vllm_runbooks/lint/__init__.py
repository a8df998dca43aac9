"""`lint`, `migrate` and `convert`: checks and fixes of commands, manifests and scripts."""
