"""Host memory of a launch on a CPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vllm_runbooks.serve import preflight


@pytest.mark.parametrize(
    ("space", "ranks", "result"),
    [("4000", 1, "failed"), ("2", 2, "failed"), ("1", 2, "unknown"), ("", 1, "unknown"), ("many", 1, "unknown")],
)
def test_a_kv_cache_larger_than_the_host_fails(
    monkeypatch: pytest.MonkeyPatch, space: str, ranks: int, result: str
) -> None:
    """`VLLM_CPU_KVCACHE_SPACE` counts for each rank; without GPUs the rest is unknown."""
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 3 << 18}.get)
    subject: Any = SimpleNamespace(variables={"VLLM_CPU_KVCACHE_SPACE": space}, cards=ranks)
    host = preflight.LaunchHost(None, "no GPU", (), None)
    steady: Any = None
    check = preflight.memory(subject, host, steady, print, lambda: False)
    assert check.result.name.lower() == result
    if result == "failed":
        gib = int(space) * ranks
        assert check.message == (
            f"VLLM_CPU_KVCACHE_SPACE={space} reserves {gib:,} GiB of KV cache, but this host has 3.0 GiB; lower it"
        )
