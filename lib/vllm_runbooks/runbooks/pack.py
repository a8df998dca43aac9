"""Make an evidence pack without secrets: logs, command, inventory, answers and the text of an issue."""

from __future__ import annotations

import codecs
import hashlib
import re
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_runbooks.catalog import compiled, folders, languages
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core import archives
from vllm_runbooks.core.display import to_json
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import PIECE, Document, Evidence
from vllm_runbooks.core.packs import INVENTORY, ISSUE, KIND, MANIFEST, Gap, Manifest, Member, MemberRole
from vllm_runbooks.core.redaction.redact import Redactor
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.host.records import GpuFacts, GpuProcess, Inventory
from vllm_runbooks.runbooks.recording import OutputBuffer

if TYPE_CHECKING:
    from vllm_runbooks.catalog.specs import HostGpu
    from vllm_runbooks.core.records import Answer
    from vllm_runbooks.lint.records import Linted

_MAX_LAID_ASIDE = 4 << 30
_ODD = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
_MAX_STEM = 80
_UNNAMED = "-"


@dataclass(frozen=True)
class Packed:
    raw: bytes
    manifest: Manifest
    issue: str


@dataclass(frozen=True)
class PackedGpus:
    """GPUs of the launch, and the inventory for the pack."""

    named: str | None = None
    inventory: Inventory | None = None
    is_of_start: bool = False


def cards_of(spec: str | None, *, is_inventoried: bool = True) -> PackedGpus:
    """GPUs of `--gpus`, by name or snapshot; by default this host's, maybe not the launch's."""
    from vllm_runbooks.catalog.specs import LOCAL
    from vllm_runbooks.host import inspection as inventories
    from vllm_runbooks.host import inventory

    if spec is None:
        return PackedGpus(inventory=inventory.collect() if is_inventoried else None)
    if spec.casefold() == LOCAL:
        if not is_inventoried:
            return PackedGpus(named=_by_name(host_loading.cards(spec)))
        snapshot = inventory.collect()
        inventories.cards(snapshot, catalog.specs(), LOCAL)  # report missing GPUs now
        return PackedGpus(inventory=snapshot, is_of_start=True)
    if Path(spec).is_file() or host_loading.is_snapshot(spec):
        if not is_inventoried:
            raise InputError(f"{spec}: is excluded by --no-inventory; name the GPUs, as in 8xRTX3090")
        return PackedGpus(inventory=host_loading.read_snapshot(spec), is_of_start=True)
    try:
        catalog.specs().gpus(spec)
    except InputError as error:
        raise InputError(f"{error}; use GPU names, or one snapshot") from None
    return PackedGpus(named=spec)


def _by_name(cards: Iterable[HostGpu]) -> str:
    counted = Counter(card.gpu.name for card in cards)
    spec = ",".join(f"{count}x{name}" for name, count in counted.items())
    try:
        catalog.specs().gpus(spec)
    except InputError as error:
        raise InputError(f"{error}; to use this host's GPUs, remove --no-inventory") from None
    return spec


def pack(evidence: Evidence, cards: PackedGpus, *, start: int | None = None, tool: str) -> Packed:
    """Make a pack: redact everything, cut the logs, then diagnose them as they are in the pack."""
    diagnosing.check_log(evidence)
    if len(evidence.documents) > archives.MAX_LOGS:
        raise InputError(
            f"{len(evidence.documents)} logs, but a pack can contain at most {archives.MAX_LOGS}; "
            "use the logs of one launch"
        )
    return _Packing(evidence, cards, start, tool).packed()


def laid_aside(document: Document) -> Document:
    """Copy a document that can be read once to an unnamed temporary file."""
    import tempfile

    file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the document is
    size = 0
    for piece in document.pieces():
        raw = piece.encode("utf-8", "backslashreplace")
        size += len(raw)
        if size > _MAX_LAID_ASIDE:
            raise InputError(f"the text is larger than {_MAX_LAID_ASIDE >> 30} GiB; use a file")
        file.write(raw)

    def pieces() -> Iterator[str]:
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        while block := file.read(PIECE):
            yield decoder.decode(block)

    copy = Document(document.name, pieces)
    weakref.finalize(copy, file.close)
    return copy


class _Packing:
    def __init__(self, evidence: Evidence, cards: PackedGpus, start: int | None, tool: str) -> None:
        self._evidence, self._cards, self._start, self._tool = evidence, cards, start, tool
        self._redactor = Redactor()
        self._raw: dict[str, bytes] = {}
        self._members: list[Member] = []
        self._notes: list[str] = []

    def packed(self) -> Packed:
        inventory, personal = (None, Counter[str]())
        if self._cards.inventory is not None:
            inventory, personal = impersonal(self._cards.inventory)
        evidence = self._evidence
        for text in (evidence.command or "", "" if inventory is None else to_json(inventory), self._cards.named or ""):
            self._redactor.learn([text])
        self._redactor.learn_names(document.name for document in evidence.documents)
        for document in evidence.documents:
            self._redactor.learn(document.pieces())
        documents = tuple(self._logs())
        command = evidence.command
        if command is not None:
            command = self._add("command.txt", MemberRole.COMMAND, command)
        snapshot = None
        if inventory is not None:
            snapshot = self._add(INVENTORY, MemberRole.INVENTORY, to_json(inventory) + "\n", more=personal)
        kept = Evidence(
            documents,
            vllm=evidence.vllm,
            command=command,
            gpus=self._cards.named,
            snapshot=snapshot if self._cards.is_of_start else None,
        )
        answer = diagnosing.diagnose(kept, start=self._start, lang=languages.ENGLISH) if documents else None
        linted = None if command is None else self._linted(command, answer)
        self._add_answers(answer, linted)
        hidden = _sum(member.hidden for member in self._members)
        issue = self._issue(answer, inventory, kept, linted, hidden)
        return self._whole(answer, issue)

    def _logs(self) -> Iterator[Document]:
        room = archives.MAX_KEPT // max(len(self._evidence.documents), 1)
        names = _names(self._redactor.name(document.name) for document in self._evidence.documents)
        for name, document in zip(names, self._evidence.documents, strict=True):
            shown_name = self._redactor.name(document.name)
            before = Counter(self._redactor.counts)
            text, left_out = _ends(self._redactor.pieces(document.pieces()), room)
            hidden = Counter(self._redactor.counts) - before
            self._store(f"logs/{name}", MemberRole.LOG, text, source=shown_name, hidden=hidden, left_out=left_out)
            if left_out is not None:
                self._notes.append(
                    f"{shown_name}: the middle is omitted: {left_out.lines:,} lines after line "
                    f"{left_out.after_line:,}; lines after the gap are numbered as in the pack's copy"
                )
            yield Document(shown_name, text)

    def _linted(self, command: str, answer: Answer | None) -> Linted:
        from vllm_runbooks.lint import checking

        release = self._evidence.vllm or (answer.vllm.version if answer else None)
        return checking.lint_text(
            command, name="command.txt", vllm=release, gpus=self._cards.named, lang=languages.ENGLISH
        )

    def _add_answers(self, answer: Answer | None, linted: Linted | None) -> None:
        from vllm_runbooks.diagnosis.render import answers as render_answers
        from vllm_runbooks.lint import render as render_issues
        from vllm_runbooks.plan.render import plans as render_plans

        if answer is not None:
            self._add("diagnosis.json", MemberRole.DIAGNOSIS, to_json(answer) + "\n", is_ours=True)
            self._add("diagnosis.txt", MemberRole.DIAGNOSIS, render_answers.text(answer), is_ours=True)
            if answer.plan is not None:
                self._add("plan.json", MemberRole.PLAN, to_json(answer.plan) + "\n", is_ours=True)
                self._add("plan.txt", MemberRole.PLAN, render_plans.text_compared(answer.plan), is_ours=True)
        if linted is not None:
            self._add("lint.json", MemberRole.LINT, to_json(linted) + "\n", is_ours=True)
            self._add("lint.txt", MemberRole.LINT, render_issues.text(linted, "command.txt") + "\n", is_ours=True)

    def _issue(
        self,
        answer: Answer | None,
        inventory: Inventory | None,
        kept: Evidence,
        linted: Linted | None,
        hidden: Mapping[str, int],
    ) -> str:
        from vllm_runbooks.runbooks import bug_report

        excerpts = []
        for number, spans in sorted((bug_report.wanted(answer) if answer else {}).items()):
            lines = [
                (at, line)
                for at, line in enumerate(kept.documents[number].text.split("\n"), 1)
                if any(at in span for span in spans)
            ]
            excerpts.append(bug_report.Excerpted(kept.documents[number].name, lines))
        return self._add(
            ISSUE,
            MemberRole.ISSUE,
            bug_report.text(
                answer=answer,
                inventory=inventory,
                is_of_start=self._cards.is_of_start,
                cards=kept.gpus,
                command=kept.command,
                linted=linted,
                excerpts=excerpts,
                hidden=hidden,
                tool=self._tool,
            ),
            is_ours=True,
        )

    def _whole(self, answer: Answer | None, issue: str) -> Packed:
        inventoried = None if self._cards.inventory is None else self._cards.is_of_start
        if inventoried is False:
            self._notes.append(
                "the inventory is of the host that created the pack, which may differ from that of the launch"
            )
        manifest = Manifest(
            kind=KIND,
            tool=self._tool,
            catalog=compiled.key(folders.catalog_dir()),
            vllm=self._evidence.vllm,
            gpus=None if self._cards.named is None else self._redactor.text(self._cards.named),
            start=self._start,
            is_inventory_of_start=inventoried,
            outcome=None if answer is None else answer.outcome.value,
            root_cause=None if answer is None or answer.root_cause is None else answer.root_cause.symptom,
            members=tuple(self._members),
            hidden=_sum(member.hidden for member in self._members),
            notes=tuple(self._notes),
        )
        self._raw[MANIFEST] = (to_json(manifest) + "\n").encode()
        return Packed(archives.written(self._raw), manifest, issue)

    def _add(
        self, name: str, role: MemberRole, text: str, more: Mapping[str, int] | None = None, *, is_ours: bool = False
    ) -> str:
        """Add a redacted text; in our own text only known secrets are replaced.

        Words after an option's name are no values there.
        """
        before = Counter(self._redactor.counts)
        redacted = self._redactor.known(text) if is_ours else self._redactor.text(text)
        hidden = Counter(self._redactor.counts) - before + Counter(more or {})
        self._store(name, role, redacted, hidden=hidden)
        return redacted

    def _store(
        self,
        name: str,
        role: MemberRole,
        text: str,
        *,
        hidden: Mapping[str, int],
        source: str | None = None,
        left_out: Gap | None = None,
    ) -> None:
        raw = text.encode("utf-8", "backslashreplace")
        digest = hashlib.sha256(raw).hexdigest()
        counts = dict(sorted(hidden.items()))
        self._members.append(Member(name, role, source, len(raw), digest, counts, left_out))
        self._raw[name] = raw


def _ends(pieces: Iterable[str], most: int) -> tuple[str, Gap | None]:
    """Beginning and end of a text, in whole lines, around a line with the omitted amount."""
    kept, step = OutputBuffer(most // 4, most - most // 4), max(most // 64, 1)
    for piece in pieces:
        for at in range(0, len(piece), step):
            kept.take(piece[at : at + step].encode("utf-8", "backslashreplace"))
    first, last, lines, size = kept.ends()
    if not size:
        return (first + last).decode(), None
    head, tail = first.decode(), last.decode()
    mark = f"[vllm-runbooks pack: {lines} lines, {size} bytes left out here]\n"
    return head + mark + tail, Gap(head.count("\n"), lines, size)


def impersonal(inventory: Inventory) -> tuple[Inventory, Counter[str]]:
    """The inventory without users, command lines and UUIDs, without unknown fields.

    Counts by kind.
    """
    hidden: Counter[str] = Counter()
    gpus = tuple(_impersonal(gpu, hidden) for gpu in inventory.gpus)
    base = {name: getattr(inventory, name) for name in Inventory.__dataclass_fields__}
    return Inventory(**{**base, "gpus": gpus}), +hidden


def _impersonal(gpu: GpuFacts, hidden: Counter[str]) -> GpuFacts:
    parts = tuple(replace(part, uuid=None) for part in gpu.mig_instances)
    hidden["gpu_uuid"] += (gpu.uuid is not None) + sum(part.uuid is not None for part in gpu.mig_instances)
    processes = None if gpu.processes is None else tuple(_unnamed(process, hidden) for process in gpu.processes)
    return replace(gpu, uuid=None, mig_instances=parts, processes=processes)


def _unnamed(process: GpuProcess, hidden: Counter[str]) -> GpuProcess:
    words = (process.command or "").split()
    program = None if process.command is None else " ".join(Path(word).name for word in words[:1])
    hidden["user"] += process.user is not None
    hidden["command_line"] += len(words) > 1 or program != process.command
    hidden["container"] += bool(process.container)
    container = "hidden" if process.container else process.container
    return replace(process, user=None, command=program, container=container)


def _names(log_names: Iterable[str]) -> list[str]:
    """Unique plain names for the logs, whatever the case of letters."""
    names: list[str] = []
    used: set[str] = set()
    for name in log_names:
        plain = "standard-input.log" if name == _UNNAMED else _ODD.sub("_", name).lstrip(".-")
        stem, suffix = Path(plain).stem[:_MAX_STEM] or "log", Path(plain).suffix[:20]
        suffix = "" if suffix.casefold() in (".gz", ".bz2", ".xz", ".zip") else suffix  # they are unpacked
        made, number = f"{stem}{suffix}", 1
        while made.casefold() in used:
            number += 1
            made = f"{stem}-{number}{suffix}"
        used.add(made.casefold())
        names.append(made)
    return names


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return dict(sorted(sum(map(Counter, counts), Counter[str]()).items()))
