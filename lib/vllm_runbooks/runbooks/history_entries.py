"""Record the runs of a suite in the history."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import RunResult, Verdict

if TYPE_CHECKING:
    from vllm_runbooks.history.store import History
    from vllm_runbooks.host.nodes.records import NodePart
    from vllm_runbooks.runbooks.suite import Progress, RunbookRequest


_MOST_HASHED = 64 << 20
"""Larger evidence gets no digest."""


class RunNodes(Protocol):
    nodes: tuple[NodePart, ...]
    """All nodes, lost ones included."""

    @property
    def facts(self) -> Mapping[str, Mapping[str, Any]]: ...


class Runs:
    """Records runs of a suite: each when it starts, and before its verdict is shown."""

    def __init__(
        self,
        kept: History,
        requests: Sequence[RunbookRequest],
        *,
        whole: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        cluster: RunNodes | None = None,
    ) -> None:
        self._kept, self._requests = kept, requests
        self._whole, self._asked = whole, inputs or {}
        self._cluster = cluster
        self._began = time.monotonic()
        self._whole_id: str | None = None
        self._open: dict[int, str] = {}
        self._done: set[int] = set()
        self._inputs = _Inputs()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None:
            return
        verdict, reason = Verdict.INTERRUPTED, "the command was stopped"
        if isinstance(error, RunbooksError):
            verdict, reason = Verdict.ERROR, str(error)
        for number in self._open.keys() - self._done:
            self._kept.end(self._open[number], verdict, reason, seconds=None, results={})
        self._end_whole(verdict, reason, {})

    def progress(self, show: Progress | None) -> Progress:
        numbers = {id(request): number for number, request in enumerate(self._requests)}

        def told(request: RunbookRequest, result: RunResult | None) -> None:
            number = numbers[id(request)]
            if result is None:
                self._begin(number)
            else:
                self._end(number, result)
            if show is not None:
                show(request, result)

        return told

    def finish(self, results: Sequence[RunResult]) -> None:
        for number, result in enumerate(results):
            is_judged = result.verdict is not Verdict.INTERRUPTED
            if number not in self._done and (is_judged or number in self._open):
                self._end(number, result)
        if self._whole_id is None:
            return
        counts = Counter(result.verdict for result in results)
        runs = list(zip(self._requests, results, strict=True))
        nodes = () if self._cluster is None else self._cluster.nodes
        lost = [f"node {node.name} lost" for node in nodes if node.is_lost]
        self._end_whole(
            next((verdict for verdict in _WORST if counts[verdict]), Verdict.SKIPPED),
            ", ".join([*(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]), *lost]),
            {
                "runs": {
                    subject(result.runbook, result.case, request.node): result.verdict.value for request, result in runs
                },
                **({} if self._cluster is None else {"nodes": document(nodes)}),
            },
        )

    def _end_whole(self, verdict: Verdict, reason: str, results: Mapping[str, Any]) -> None:
        if self._whole_id is not None:
            seconds = time.monotonic() - self._began
            self._kept.end(self._whole_id, verdict, reason, seconds=seconds, results=results)

    def _begin(self, number: int) -> str:
        from vllm_runbooks.history import store as history

        if self._whole is not None and self._whole_id is None:
            check_inputs = {**self._asked, "catalog": self._inputs.catalog}
            self._whole_id = self._kept.begin("check", self._whole, inputs=check_inputs)
        request = self._requests[number]
        inputs = self._inputs.of(request)
        about = request.case or _evidence(inputs.get("parameters") or {})
        is_live = (inputs.get("parameters") or {}).get("live") is True
        self._open[number] = self._kept.begin(
            "run",
            subject(request.runbook, about),
            inputs=inputs,
            part_of=self._whole_id,
            environment=history.surroundings(with_cards=True) if is_live else None,
        )
        return self._open[number]

    def _end(self, number: int, result: RunResult) -> None:
        id_ = self._open.get(number) or self._begin(number)
        data = document(result)
        results = {name: data[name] for name in ("case", "outcome", "root_cause", "facts")}
        results["findings"] = [finding["symptom"] for finding in data["findings"]]
        results |= {name: data[name] for name in ("node", "lost_on") if name in data}
        self._kept.end(
            id_,
            result.verdict,
            result.reason,
            seconds=result.seconds,
            results=results,
            vllm=result.facts.get("vllm"),
            environment=None if self._cluster is None else self._cluster.facts.get(result.node or ""),
        )
        self._done.add(number)


_WORST = (Verdict.INTERRUPTED, Verdict.ERROR, Verdict.FAIL, Verdict.PASS)


def _evidence(parameters: Mapping[str, Any]) -> str | None:
    named = parameters.get("evidence")
    return Path(named).name[:200] or None if isinstance(named, str) and parameters.get("live") is not True else None


def subject(runbook: str, case: str | None, node: str | None = None) -> str:
    return f"{runbook}{f' on {case}' if case else ''}{f' at {node}' if node else ''}"


class _Inputs:
    def __init__(self) -> None:
        self._digest, self._defaults = cache(_digest), cache(_defaults)

    @cached_property
    def catalog(self) -> str:
        from vllm_runbooks.catalog import compiled, folders

        roots = [folders.catalog_dir(), *map(Path, folders.own_catalogs())]
        return "+".join(key for root in roots for key in (compiled.key(root), compiled.rules_key(root)))

    def of(self, request: RunbookRequest) -> dict[str, Any]:
        if request.is_alone:
            return {"case": request.case, "case_digest": self._digest(request.path), "catalog": self.catalog}
        parameters = {**self._defaults(request.path), **request.parameters} if request.refused is None else {}
        evidence = parameters.get("evidence")
        return {
            "case": request.case,
            "case_digest": self._of_evidence(evidence) if isinstance(evidence, str) and evidence else None,
            "runbook_digest": self._digest(request.path) if request.refused is None else None,
            "parameters": parameters,
            "catalog": self.catalog,
        }

    def _of_evidence(self, name: str) -> str | None:
        from vllm_runbooks.catalog.folders import cases_dir

        with contextlib.suppress(OSError, ValueError, InputError):
            shipped = cases_dir() / name
            return self._digest(shipped if shipped.is_dir() else Path(name))
        return None


def _defaults(path: Path) -> dict[str, Any]:
    from vllm_runbooks.runbooks.notebook import load_runbook

    with contextlib.suppress(InputError):
        return {parameter.name: parameter.default for parameter in load_runbook(path).parameters}
    return {}


def _digest(path: Path) -> str | None:
    with contextlib.suppress(OSError, ValueError):
        files = sorted(filter(Path.is_file, path.rglob("*"))) if path.is_dir() else [path]
        if all(map(Path.is_file, files)) and sum(file.stat().st_size for file in files) <= _MOST_HASHED:
            digest = hashlib.sha256()
            for file in files:
                digest.update(file.relative_to(path).as_posix().encode("utf-8", "surrogateescape") + b"\0")
                digest.update(hashlib.sha256(file.read_bytes()).digest())
            return digest.hexdigest()[:20]
    return None
