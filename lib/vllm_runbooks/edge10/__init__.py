"""The Edge10 toolchain on this host and this disk: what is asked of docker, listed, copied and renamed."""
