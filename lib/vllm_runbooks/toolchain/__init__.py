"""A toolchain for edge chips: what its scripts, files and figures mean; texts and listings come in, records go out."""
