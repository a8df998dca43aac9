"""`python -m vllm_runbooks` is the command line."""

from vllm_runbooks.cli import main

main()
