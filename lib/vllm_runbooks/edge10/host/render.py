"""The toolchain's models, and hosts before its steps, for a terminal and a notebook."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_runbooks.catalog import host_commands
from vllm_runbooks.catalog.toolchains import ModelSupportReport
from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.views.elements import AMBER, GREEN, RED, Headline, cut, heading, remark, verdict
from vllm_runbooks.core.views.styled import (
    BLANK,
    SentenceLines,
    Table,
    TextBlock,
    Tone,
    Words,
    bulleted,
    headed,
    parted,
    plain,
    styled,
)
from vllm_runbooks.core.views.summary import count_of, sentence_of
from vllm_runbooks.edge10 import findings_render
from vllm_runbooks.edge10.host.records import CheckedHost, DockerFacts, DockerState, EdgeHost
from vllm_runbooks.host import finding_views

_UNKNOWN = "unknown"
_ANSWERS = {True: styled("yes", Tone.GOOD), False: styled("no", Tone.BAD), None: styled(_UNKNOWN, Tone.WARN)}
_MODELS_HEAD = ("model", "quantise", "compile", "kind", "why")
_VERDICTS = {
    True: ("ok", "no problems found", GREEN, Tone.GOOD),
    False: ("not ok", "the step would fail or give poor results", RED, Tone.BAD),
    None: (_UNKNOWN, "no problems found, but some facts are unknown", AMBER, Tone.WARN),
}


def models(answer: ModelSupportReport) -> list[TextBlock]:
    """Models that the toolchain quantises and compiles, for a terminal."""
    names = [visible(cut(model.name, 60)) for model in answer.models]
    rows: list[tuple[Words, ...]] = [
        (
            name,
            _ANSWERS[model.quantise],
            _ANSWERS[model.compile],
            model.listed.kind if model.listed is not None else _UNKNOWN,
            styled(model.reason, Tone.FAINT),
        )
        for name, model in zip(names, answer.models, strict=True)
    ]
    near = [
        f"{name}: {', '.join(model.similar)}" for name, model in zip(names, answer.models, strict=True) if model.similar
    ]
    parts: list[list[TextBlock]] = [[Table([styled(name, Tone.FAINT) for name in _MODELS_HEAD], rows)]]
    parts += [headed("NEAREST NAMES", list(map(bulleted, near)))] if near else []
    parts.append([SentenceLines(styled(f"{answer.toolchain}: {answer.source}", Tone.FAINT))])
    return [*parted(parts), BLANK]


def host_snapshot(checked: EdgeHost) -> str:
    """The facts of a host as JSON, without the findings."""
    return finding_views.snapshot_json(checked, EdgeHost)


def _headline(checked: CheckedHost) -> Headline:
    word, why, _, _ = _VERDICTS[checked.ok]
    return Headline(word, f"{checked.request.step}: {why}")


def host(checked: CheckedHost) -> list[TextBlock]:
    """A checked host for a terminal."""
    headline, tone = _headline(checked), _VERDICTS[checked.ok][3]
    lead: list[TextBlock] = [SentenceLines(styled(headline.verdict.upper(), tone) + f"  {sentence_of(headline.why)}")]
    if checked.constructed:
        text = f"Synthetic example: {visible(checked.source or 'from no source')}"
        lead.append(SentenceLines(cut(text, 400)))
    sections: tuple[tuple[str, list[TextBlock]], ...] = (
        ("HOST", list(map(bulleted, _facts(checked)))),
        ("FINDINGS", [block for finding in checked.findings for block in findings_render.blocks(finding)]),
        ("WHAT THE COMMANDS CHANGE", list(map(bulleted, _commands(checked)))),
        ("UNKNOWN", [bulleted(visible(f"{unknown.fact} ({unknown.reason})")) for unknown in checked.unknown]),
    )
    parts = [lead, *(headed(name, blocks) for name, blocks in sections if blocks)]
    return [*parted([*parts, [SentenceLines(styled(checked.toolchain, Tone.FAINT))]]), BLANK]


def host_shown(checked: CheckedHost) -> RenderedView:
    """A checked host for a notebook."""
    html = verdict(_headline(checked), _VERDICTS[checked.ok][2]) + "".join(map(remark, _facts(checked)))
    if checked.findings:
        html += findings_render.table(checked.findings) + "".join(map(remark, _commands(checked)))
    if checked.unknown:
        html += heading("Unknown") + "".join(
            remark(f"{unknown.fact} ({unknown.reason})") for unknown in checked.unknown
        )
    return RenderedView(plain(host(checked)), html)


def _commands(checked: CheckedHost) -> Iterator[str]:
    """The effect and undo of each advised command that changes something."""
    for command in dict.fromkeys(text for finding in checked.findings for text in host_commands.printed(finding.do)):
        row = host_commands.row_of(command)
        if row is not None and row.changes:
            yield visible(f"{command}: {row.effect}; to undo it: {host_commands.undo(command)}")


def _gib(size: float | None) -> str:
    return _UNKNOWN if size is None else f"{size:,.1f} GiB"


def _facts(checked: CheckedHost) -> Iterator[str]:
    inventory = checked.inventory
    names = ", ".join(dict.fromkeys(visible(cut(gpu.name or "unnamed", 40)) for gpu in inventory.gpus))
    count = count_of(len(inventory.gpus), "GPU")
    why = f" ({visible(cut(inventory.no_gpus_reason, 200))})" if inventory.no_gpus_reason else ""
    yield f"{count}{f': {names}' if names else ''}{why}; driver {visible(inventory.driver or _UNKNOWN)}"
    yield _docker(checked.docker)
    if checked.toolkit is not None:
        programs = ", ".join(checked.toolkit.programs)
        yield f"container toolkit: {visible(programs) or 'not found'}"
    if checked.folder is not None:
        space = f"{_gib(checked.folder.free_gib)} free of {_gib(checked.folder.total_gib)}"
        yield visible(f"folder {cut(checked.folder.path, 200)}: {space}{'' if checked.folder.exists else ', missing'}")
    memory = inventory.host.memory_available_mib
    yield f"memory free: {_gib(None if memory is None else memory / 1024)}"


def _docker(docker: DockerFacts | None) -> str:
    if docker is None:
        return f"docker: {_UNKNOWN}"
    parts = [docker.state.value]
    if docker.client or docker.server:
        parts.append(f"client {docker.client or _UNKNOWN}, server {docker.server or _UNKNOWN}")
    if docker.state is DockerState.ANSWERS:
        parts.append(f"runtimes {', '.join(docker.runtimes or ()) or _UNKNOWN}")
        parts.append(f"{_gib(docker.root_free_gib)} free for images at {docker.root_folder or _UNKNOWN}")
    for image in docker.images:
        states = {True: f"exists ({_gib(image.size_gib)})", False: "is missing", None: "unknown"}
        parts.append(f"image {image.name} {states[image.exists]}")
    return visible(cut(f"docker: {'; '.join(parts)}", 600))
