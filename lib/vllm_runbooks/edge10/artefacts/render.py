"""Folders between the steps to an edge chip, for a terminal: what they are, what is wrong, and what would be mended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vllm_runbooks.core.display import visible
from vllm_runbooks.core.views.elements import beyond, cut
from vllm_runbooks.core.views.styled import BLANK, Block, Loose, Tone, Words, bulleted, headed, parted, styled
from vllm_runbooks.edge10.artefacts.records import CheckedFolder, Mend
from vllm_runbooks.edge10.findings_render import blocks, one_line, path

STANDINGS = {
    True: ("ok", "nothing was found that is missing or wrong", Tone.GOOD),
    False: ("not ok", "something is missing or wrong", Tone.BAD),
    None: ("unknown", "nothing wrong was found, and something that was asked for could not be established", Tone.WARN),
}
_WHAT = {"compiled": "a compiled model", "checkpoint": "a checkpoint"}
_KINDS = {"llm": "language model", "vlm": "model with pictures"}
_MOST = 60
_MAX_TEXT = 600


def view(found: CheckedFolder) -> list[Block]:
    """The folder, for a terminal."""
    word, why, tone = STANDINGS[found.ok]
    parts: list[list[Block]] = [[Loose(styled(word, tone) + f": {why}"), *map(Loose, about(found))]]
    if found.repaired is not None:
        parts.append(headed("DONE", [*map(_mend, found.repaired.done), *_said(found.repaired.failed.items())]))
    if found.findings:
        shown = [block for each in found.findings[:_MOST] for block in blocks(each)]
        parts.append(headed("WHAT IS WRONG", [*shown, *_beyond(found.findings)]))
    if found.mends:
        parts.append(headed("WHAT --repair WOULD DO", [*map(_mend, found.mends[:_MOST]), *_beyond(found.mends)]))
    for name, said in (
        ("LEFT TO YOU", found.left),
        ("NOT ESTABLISHED", found.unchecked),
        ("NOT JUDGED", found.remarks),
    ):
        if said:
            shown = [bulleted(visible(cut(one_line(each), _MAX_TEXT))) for each in said[:_MOST]]
            parts.append(headed(name, [*shown, *_beyond(said)]))
    return [*parted(parts), BLANK]


def _beyond(rows: Sequence[object]) -> list[Block]:
    return [bulleted(line) for line in beyond(rows, _MOST)]


def about(found: CheckedFolder) -> Iterator[str]:
    name = path(found.name or found.listing.name) or "a folder whose name is not told"
    kind = f" of a {_KINDS[found.kind]}" if found.kind else ""
    yield f"{name}: {_WHAT[found.what]}{kind}, by {found.toolchain}"
    if found.dies is not None:
        lengths = ", ".join(map(str, found.lengths or ())) or "none"
        dies = f"{found.dies} {'die' if found.dies == 1 else 'dies'}"
        yield f"{dies} (by {found.dies_told_by}), lengths {lengths} (by {found.lengths_told_by})"
    files = [each for each in found.listing.files if each.kind == "file"]
    sizes = [each.bytes for each in files]
    told = sum(size for size in sizes if size is not None)
    size = f", {told:,} bytes" if sizes and None not in sizes else ""
    yield f"{len(files):,} {'file' if len(files) == 1 else 'files'}{size}"


def _mend(each: Mend) -> Block:
    origin: Words = styled("of the float model ", Tone.FAINT) if each.is_float else ""
    return bulleted(styled(each.does, Tone.COMMAND) + " " + origin + f"{path(each.source)} to {path(each.target)}")


def _said(failed: Iterable[tuple[str, str]]) -> list[Block]:
    return [bulleted(styled("not done", Tone.BAD) + f" {path(target)}: {why}") for target, why in failed]
