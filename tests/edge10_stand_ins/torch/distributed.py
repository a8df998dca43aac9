"""Fake of torch.distributed."""

from types import SimpleNamespace

constants = SimpleNamespace(default_pg_timeout=None)
