"""`plan`: memory per GPU, layouts that fit, deployment files."""
