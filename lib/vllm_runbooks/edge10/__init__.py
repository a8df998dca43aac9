"""`edge10`: the Edge10 toolchain, a package per step."""
