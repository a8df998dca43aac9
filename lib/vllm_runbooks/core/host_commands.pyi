from vllm_runbooks.catalog.host_commands import *  # noqa: F403
