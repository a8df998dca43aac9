"""Facts of a toolchain for edge chips, for a terminal: which models it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_runbooks.display import visible
from vllm_runbooks.render.elements import cut
from vllm_runbooks.render.styled import (
    BLANK,
    Block,
    Loose,
    Table,
    Tone,
    Words,
    bulleted,
    headed,
    parted,
    styled,
)
from vllm_runbooks.toolchain_records import AskedModel, AskedModels

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
