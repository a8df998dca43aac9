from vllm_runbooks.catalog.host_commands import *
