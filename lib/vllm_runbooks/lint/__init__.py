"""`lint`, `migrate` and `convert`: what is wrong with commands, and the change that mends it."""
