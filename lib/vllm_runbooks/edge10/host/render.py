"""A toolchain for edge chips, for a terminal and a notebook: the models it takes, and hosts before its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from vllm_runbooks.catalog.toolchains import AskedModel, AskedModels
from vllm_runbooks.core import host_commands
from vllm_runbooks.core.display import Shown, to_json, visible
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.views.elements import AMBER, GREEN, RED, Headline, cut, heading, html_table, remark, verdict
from vllm_runbooks.core.views.styled import (
    BLANK,
    Block,
    Loose,
    Table,
    Tone,
    Words,
    bulleted,
    headed,
    parted,
    plain,
    styled,
)
from vllm_runbooks.edge10 import findings_render as edge10_findings
from vllm_runbooks.edge10.host.records import CheckedHost, DockerFacts, DockerState, EdgeHost, HostNeed

_SAID = {True: styled("yes", Tone.GOOD), False: styled("no", Tone.BAD), None: styled("unknown", Tone.WARN)}
_HEAD = ("model", "quantise", "compile", "kind", "why")
_MAX_NAME = 60


def models(found: AskedModels) -> list[Block]:
    """Which models may be quantised and compiled, for a terminal."""
    rows = [_row(each) for each in found.models]
    parts: list[list[Block]] = [[Table([styled(name, Tone.FAINT) for name in _HEAD], rows)]]
    near = [said for each in found.models for said in _near(each)]
    if near:
        parts.append(headed("NEAREST NAMES", [bulleted(said) for said in near]))
    parts.append([Loose(styled(f"{found.toolchain}: {found.source}", Tone.FAINT))])
    return [*parted(parts), BLANK]


def _row(model: AskedModel) -> Sequence[Words]:
    kind = model.listed.kind if model.listed is not None else "unknown"
    name = visible(cut(model.name, _MAX_NAME))
    return name, _SAID[model.quantise], _SAID[model.compile], kind, styled(model.why, Tone.FAINT)


def _near(model: AskedModel) -> Iterator[Words]:
    if model.near:
        yield f"{visible(cut(model.name, _MAX_NAME))}: {', '.join(model.near)}"


# ---- a host before a step

_STANDINGS = {
    True: ("ok", "nothing that can be known beforehand stands in the way", GREEN, Tone.GOOD),
    False: ("not ok", "the step would fail or suffer", RED, Tone.BAD),
    None: ("unknown", "nothing was found that stands in the way, and not everything is known", AMBER, Tone.WARN),
}
_NEEDS = ("what", "at least", "there", "enough")
_ENOUGH = {True: styled("yes", Tone.GOOD), False: styled("no", Tone.BAD), None: styled("unknown", Tone.WARN)}
_UNKNOWN = "unknown"


def host_snapshot(found: EdgeHost) -> str:
    """The host alone, as it is kept in a file."""
    base = {name: value for name, value in document(found).items() if name in EdgeHost.__dataclass_fields__}
    return to_json(base) + "\n"


def _headline(found: CheckedHost) -> Headline:
    word, why, _, _ = _STANDINGS[found.ok]
    return Headline(word, f"before the step {found.asked.step}, {why}")


def host(found: CheckedHost) -> list[Block]:
    """A host with what it means for a step, for a terminal."""
    lead, tone = _headline(found), _STANDINGS[found.ok][3]
    parts: list[list[Block]] = [[Loose(styled(lead.verdict, tone) + f": {lead.why}")]]
    if found.constructed:
        parts[0].append(
            Loose(cut(f"constructed, not read on a host: {visible(found.source or 'from no source')}", 400))
        )
    parts.append(headed("HOST", [bulleted(said) for said in _of_host(found)]))
    if found.needs:
        blocks: list[Block] = [Table([styled(name, Tone.FAINT) for name in _NEEDS], [_need(n) for n in found.needs])]
        for need in found.needs:
            blocks += [bulleted(f"{need.what}: {said}") for said in _terms(need)]
        parts.append(headed("WHAT THE STEP TAKES", blocks))
    if found.findings:
        blocks = [block for each in found.findings for block in edge10_findings.blocks(each)]
        parts.append(headed("WHAT IT MEANS", blocks))
    commands = [bulleted(said) for said in _commands(found)]
    if commands:
        parts.append(headed("WHAT THE COMMANDS CHANGE", commands))
    if found.unknown:
        parts.append(headed("NOT KNOWN", [bulleted(visible(f"{each.what} ({each.why})")) for each in found.unknown]))
    parts.append([Loose(styled(f"{found.toolchain}", Tone.FAINT))])
    return [*parted(parts), BLANK]


def host_shown(found: CheckedHost) -> Shown:
    """The same, for a notebook."""
    ground = _STANDINGS[found.ok][2]
    html = verdict(_headline(found), ground) + "".join(remark(said) for said in _of_host(found))
    if found.needs:
        rows = [[escape(str(cell)) for cell in _need(need)] for need in found.needs]
        terms = [f"terms, each at least: {'; '.join(_terms(need))}" for need in found.needs]
        html += heading("What the step takes") + html_table(_NEEDS, rows, below=terms)
    if found.findings:
        html += edge10_findings.table(found.findings)
        html += "".join(map(remark, _commands(found)))
    if found.unknown:
        html += heading("Not known") + "".join(remark(f"{each.what} ({each.why})") for each in found.unknown)
    return Shown(plain(host(found)), html)


def _commands(found: CheckedHost) -> Iterator[str]:
    """What the commands do that are advised and change something, and how each is undone."""
    for printed in dict.fromkeys(said for each in found.findings for said in host_commands.printed(each.do)):
        row = host_commands.row_of(printed)
        if row is not None and row.changes:
            yield visible(f"{printed}: {row.effect}; to undo it: {host_commands.undo(printed)}")


def _need(need: HostNeed) -> tuple[Words, ...]:
    least = sum(term.gib for term in need.terms if term.gib is not None)
    is_whole = need.least_gib is not None
    return (
        f"{need.what}, {visible(cut(need.where, 60))}",
        f"{least:,.1f} GiB{'' if is_whole else ' and what is unknown'}",
        _gib(need.there_gib),
        _ENOUGH[need.is_enough],
    )


def _terms(need: HostNeed) -> Iterator[str]:
    for term in need.terms:
        yield visible(f"{term.what} {_gib(term.gib)} ({term.source})")
    if need.uncounted:
        yield f"not counted: {need.uncounted}"


def _gib(size: float | None) -> str:
    return _UNKNOWN if size is None else f"{size:,.1f} GiB"


def _of_host(found: CheckedHost) -> Iterator[str]:
    inventory = found.inventory
    names = ", ".join(dict.fromkeys(visible(cut(gpu.name or "unnamed", 40)) for gpu in inventory.gpus))
    count = f"{len(inventory.gpus)} GPU{'s' * (len(inventory.gpus) != 1)}"
    why = f" ({visible(cut(inventory.why_none, 200))})" if inventory.why_none else ""
    yield f"{count}{f': {names}' if names else ''}{why}; driver {visible(inventory.driver or _UNKNOWN)}"
    yield _docker(found.docker)
    toolkit = found.toolkit
    if toolkit is not None:
        there = visible(f"{toolkit.version or 'of an unknown release'} ({', '.join(toolkit.programs)})")
        yield f"container toolkit: {there if toolkit.programs else 'not found'}"
    if found.folder is not None:
        room = f"{_gib(found.folder.free_gib)} free of {_gib(found.folder.total_gib)}"
        yield visible(f"folder {cut(found.folder.path, 200)}: {room}{'' if found.folder.is_there else ', not there'}")
    memory = inventory.host.memory_available_mib
    yield f"memory free: {_gib(None if memory is None else memory / 1024)}"


def _docker(docker: DockerFacts | None) -> str:
    if docker is None:
        return f"docker: {_UNKNOWN}"
    said = [docker.state.value]
    if docker.client or docker.server:
        said.append(f"program {docker.client or _UNKNOWN}, service {docker.server or _UNKNOWN}")
    if docker.state is DockerState.ANSWERS:
        said.append(f"runtimes {', '.join(docker.runtimes or ()) or _UNKNOWN}")
        said.append(f"{_gib(docker.root_free_gib)} free for images at {docker.root_folder or _UNKNOWN}")
    for image in docker.images:
        there = {True: f"is there ({_gib(image.size_gib)})", False: "is not there", None: "is there or not: unknown"}
        said.append(f"image {image.name} {there[image.is_there]}")
    return visible(cut(f"docker: {'; '.join(said)}", 600))
