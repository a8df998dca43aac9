"""The former place of `catalog.host_commands`."""

from vllm_runbooks.catalog.host_commands import *  # noqa: F403
