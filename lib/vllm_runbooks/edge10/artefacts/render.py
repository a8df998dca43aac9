"""A checked folder for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_runbooks.core.display import one_line
from vllm_runbooks.core.views.elements import beyond, cut
from vllm_runbooks.core.views.styled import BLANK, SentenceLines, TextBlock, Tone, bulleted, headed, parted, styled
from vllm_runbooks.core.views.summary import count_of, sentence_of
from vllm_runbooks.edge10.artefacts.records import CheckedFolder
from vllm_runbooks.edge10.findings_render import blocks, path

STANDINGS = {
    True: ("ok", "no problems found", Tone.GOOD),
    False: ("not ok", "something is missing or wrong", Tone.BAD),
    None: ("unknown", "no problems found, but not everything requested could be checked", Tone.WARN),
}
ARTEFACT_NAMES = {"compiled": "a compiled model", "checkpoint": "a checkpoint"}
KIND_NAMES = {"llm": " of a language model", "vlm": " of a vision-language model"}
_MAX_ROWS = 60
_MAX_TEXT = 600


def view(checked: CheckedFolder) -> list[TextBlock]:
    """Render the verdict and the findings."""
    word, why, tone = STANDINGS[checked.ok]
    sections: list[list[TextBlock]] = [
        [SentenceLines(styled(word.upper(), tone) + f"  {sentence_of(why)}"), *map(SentenceLines, about(checked))]
    ]

    def add(name: str, items: Sequence[object], rows: Sequence[TextBlock]) -> None:
        if items:
            sections.append(headed(name, [*rows, *map(bulleted, beyond(items, _MAX_ROWS))]))

    findings = [block for finding in checked.findings[:_MAX_ROWS] for block in blocks(finding)]
    add("PROBLEMS", checked.findings, findings)
    for name, texts in (("UNKNOWN", checked.unchecked), ("NOT CHECKED", checked.notes)):
        add(name, texts, [bulleted(one_line(cut(text, _MAX_TEXT))) for text in texts[:_MAX_ROWS]])
    return [*parted(sections), BLANK]


def about(checked: CheckedFolder) -> Iterator[str]:
    """Description of the folder: its kind, dies, lengths and size."""
    name = path(checked.name or checked.listing.name) or "unnamed folder"
    yield f"{name}: {ARTEFACT_NAMES[checked.artefact]}{KIND_NAMES.get(checked.kind or '', '')}, by {checked.toolchain}"
    if checked.dies is not None:
        lengths = ", ".join(map(str, checked.lengths or ())) or "none"
        dies = f"{checked.dies} {'die' if checked.dies == 1 else 'dies'}"
        yield f"{dies} (by {checked.dies_source}), lengths {lengths} (by {checked.lengths_source})"
    sizes = [file.bytes for file in checked.listing.files if file.kind == "file"]
    total = f", {sum(size or 0 for size in sizes):,} bytes" if sizes and None not in sizes else ""
    yield f"{count_of(len(sizes), 'file')}{total}"
