"""Checks of a node before its part of a server is launched, and locks against other launches."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.host import card_locks
from vllm_runbooks.probe.starts import Check, LaunchResult


class NodeChecks:
    """Checks of one node, and its locks."""

    def __init__(self) -> None:
        self._held = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._is_cancelled = False

    def check(self, request: Mapping[str, Any]) -> list[Any]:
        """Run the checks in `names`, each as a document; with `is_check` all locks are released."""
        from vllm_runbooks.host import gpu_memory
        from vllm_runbooks.serve import preflight
        from vllm_runbooks.serve.subject import ServedLaunch

        environment = {**os.environ, **{str(k): str(v) for k, v in request["environment"].items()}}
        subject = ServedLaunch(tuple(str(word) for word in request["command"]), environment, request.get("vllm"))
        steady = preflight.Steady(*request["steady"])
        source, why_none = gpu_memory.source_of(str(request.get("gpu_memory") or ""))
        host = preflight.host_of(subject, source, why_none, None)
        self._is_cancelled = False
        names = {str(result) for result in request["names"]}

        def locked() -> Check:
            cards = [] if source is None else [card.key for card in source.read().of(host.numbers)]
            return self._locked([node_key(), *cards], steady.wait_s, is_check=bool(request.get("is_check")))

        made = preflight.checks(
            subject,
            host,
            steady=steady,
            left_out=[name for name in preflight.NAMES if name not in names],
            say=lambda _: None,
            lock=locked,
            is_cancelled=lambda: self._is_cancelled,
        )
        documents = []
        for result in made:
            if result.name in names:
                documents.append(document(result))
            if result.result is LaunchResult.FAILED:
                break
        return documents

    def _locked(self, keys: list[str], wait_s: float, *, is_check: bool) -> Check:
        began = time.monotonic()
        try:
            if is_check:
                holders = sorted({*card_locks.holders(keys).values()})
                if holders:
                    says = f"{', '.join(holders)} is starting; a launch would wait for it"
                    return Check("lock", LaunchResult.UNKNOWN, says)
            else:
                with contextlib.ExitStack() as locks:
                    locks.enter_context(
                        card_locks.held(
                            keys, wait_s=wait_s, told=lambda _, __: None, is_cancelled=lambda: self._is_cancelled
                        )
                    )
                    with self._lock:
                        self._held.close()
                        self._held = locks.pop_all()
        except InputError as error:
            return Check("lock", LaunchResult.FAILED, str(error), time.monotonic() - began)
        seconds = time.monotonic() - began
        return Check("lock", LaunchResult.PASSED, "no other supervised launch is starting on this node", seconds)

    def unlock(self, _asked: Mapping[str, Any]) -> dict[str, Any]:
        """Release all locks, and stop waiting."""
        self._is_cancelled = True
        with self._lock:
            self._held.close()
        return {}


def node_key() -> str:
    """Lock key of this node: hosts that are network namespaces of one host have separate keys."""
    try:
        return f"{card_locks.NODE}-{Path('/proc/self/ns/net').stat().st_ino}"
    except OSError:
        return card_locks.NODE
