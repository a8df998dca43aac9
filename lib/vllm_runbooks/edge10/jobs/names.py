"""Names of a job's folders, made by the facts' templates and read back by them.

A name is read by the template that made it, so another version of a toolchain is another template. The order of the
dies loses its trailing zeros on its way into a name, and its entries stand without a sign between them: what the digits
may mean is worked out, and where they may mean more than one thing all of it is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath

from vllm_runbooks.catalog.toolchains import KINDS, Toolchain
from vllm_runbooks.edge10.jobs.records import EdgeJob, FolderName

_MAX_NAME = 255
"""Longest name of a file on common file systems, in bytes."""
_HOLE = re.compile(r"\{(\w{1,40})\}", re.ASCII)
_LISTED = "-"
"""Separates the lengths of a prompt's pieces."""
_FORMS = {
    "model": r"[^/]{1,200}",
    "prefill": rf"\d{{1,7}}(?:{_LISTED}\d{{1,7}}){{0,7}}",
    "context": r"\d{1,9}",
    "width": r"\d{1,6}",
    "height": r"\d{1,6}",
    "dies": r"\d{1,3}",
    "modality": r"[a-z]{1,20}",
    "remap": r"\d{0,60}",
}
"""Patterns of a template's fields; digits and free words never touch in a template."""
_REST = r"(?P<rest>_[A-Za-z][A-Za-z0-9-]{0,40})?"
_MAX_STEPS = 20_000
_MAX_MEANINGS = 8


# ---- from settings


def model_name(model: str) -> str:
    """Name of a model in the names of its folders: the last part of its name or path."""
    return PurePosixPath(model.strip().replace("\\", "/")).name


def padded(dies: Sequence[int], of: Toolchain) -> tuple[int, ...]:
    """Order of dies, filled with zeros to the entries that the toolchain needs."""
    return (*dies, *(0,) * (of.limits.remap_entries - len(dies)))


def digits(remap: Sequence[int]) -> str:
    """Order of dies as it is in a name: without trailing zeros and separators."""
    last = max((index for index, die in enumerate(remap) if die), default=-1)
    return "".join(map(str, remap[: last + 1]))


def quantised(job: EdgeJob, of: Toolchain) -> str:
    """Folder that quantising writes."""
    return of.names[f"quantised_{job.kind}"].format(model=model_name(job.model))


def converted(job: EdgeJob, of: Toolchain) -> str:
    """Checkpoint that vLLM and the compiler read: a folder of the job, or the path of `quantised`."""
    return job.quantised or of.names["converted"].format(model=model_name(job.model))


def compiled(job: EdgeJob, of: Toolchain) -> str:
    """Folder of the compiled model."""
    width, height = job.picture or (0, 0)
    return of.names[f"compiled_{job.kind}"].format(
        model=model_name(converted(job, of)),
        prefill=_LISTED.join(map(str, job.prefill)),
        context=job.context_tokens if job.kv_cache_tokens is None else job.kv_cache_tokens,
        width=width,
        height=height,
        dies=job.dies,
        modality=job.modality,
        remap=digits(job.vision_remap) + digits(job.language_remap),
    )


def dies_folder(dies: int, of: Toolchain) -> str:
    """Folder below that of the compiled model."""
    return of.names["dies"].format(dies=dies)


# ---- to settings


def read(name: str, of: Toolchain) -> FolderName | None:
    """Read the name of a compiled model's folder; None if it matches no template.

    A name that stops behind the model, as in `Qwen3-4B-AWQ-AOT`, tells the model and that it is compiled, no more.

    Args:
        name: Of the folder; of a path its last part.
        of: The facts.
    """
    folder = model_name(name)
    if len(folder) > _MAX_NAME:
        return None
    for kind in KINDS:
        match = _reader(of.names[f"compiled_{kind}"]).fullmatch(folder)
        if match is not None:
            return settings_of_name(folder, kind, match.groupdict(), of)
    return next((settings for kind in KINDS if (settings := _begun(folder, of.names[f"compiled_{kind}"]))), None)


def dies_of(name: str, of: Toolchain) -> int | None:
    """Number of dies in the name of the folder below; None if it has none."""
    match = _reader(of.names["dies"]).fullmatch(name) if len(name) <= _MAX_NAME else None
    return None if match is None or match["rest"] else int(match["dies"])


def orders(text: str, dies: int) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Orders of the vision and of the language part that the digits of a name may mean.

    Each has every die once, the zeros at its end put back. One pair: they are told. No pair: the digits are of no such
    orders. Several, as from eleven dies on where entries have two digits: they are not told; a handful is given.
    """
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    left = [_MAX_STEPS if dies > 0 else 0]
    for end, first in _orders(text, 0, dies, left):
        for stop, second in _orders(text, end, dies, left):
            if stop == len(text) and (first, second) not in pairs and len(pairs) < _MAX_MEANINGS:
                pairs.append((first, second))
    return tuple(pairs)


def _orders(text: str, begin: int, dies: int, left: list[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Orders that begin at a place, each with where it ends."""
    open_: list[tuple[int, tuple[int, ...]]] = [(begin, ())]
    while open_ and left[0] > 0:
        left[0] -= 1
        at, so_far = open_.pop()
        if len(so_far) == dies and so_far[-1]:
            yield at, so_far
        if len(so_far) == dies - 1 and 0 not in so_far:
            yield at, (*so_far, 0)
        for width in (1, 2):
            number = text[at : at + width]
            if len(number) < width or (width > 1 and number.startswith("0")):
                continue
            die = int(number)
            if die < dies and die not in so_far:
                open_.append((at + width, (*so_far, die)))


@cache
def _reader(template: str) -> re.Pattern[str]:
    """Pattern of a template's names, which are short enough for its one free word."""
    parts, seen, at = [], set(), 0
    for hole in _HOLE.finditer(template):
        parts.append(re.escape(template[at : hole.start()]))
        parts.append(f"(?P={hole[1]})" if hole[1] in seen else f"(?P<{hole[1]}>{_FORMS[hole[1]]})")
        seen.add(hole[1])
        at = hole.end()
    return re.compile("".join([*parts, re.escape(template[at:]), _REST]), re.ASCII)


def settings_of_name(name: str, kind: str, groups: Mapping[str, str | None], of: Toolchain) -> FolderName:
    def number(hole: str) -> int | None:
        digits_text = groups.get(hole)
        return int(digits_text) if digits_text else None

    dies, width, height = number("dies"), number("width"), number("height")
    remap, prefill = groups.get("remap"), groups.get("prefill")
    return FolderName(
        name=name,
        kind=kind,
        model=groups.get("model") or "",
        context_tokens=number("context"),
        prefill=tuple(map(int, prefill.split(_LISTED))) if prefill else None,
        picture=None if width is None or height is None else (width, height),
        dies=dies,
        modality=groups.get("modality"),
        remap=remap,
        orders=() if remap is None or dies is None or dies > of.limits.remap_entries else orders(remap, dies),
        rest=(groups.get("rest") or "").removeprefix("_"),
    )


def _begun(name: str, template: str) -> FolderName | None:
    """Model of a name that ends where the settings would begin."""
    head, hole, tail = template.partition("{model}")
    mark = _HOLE.split(tail)[0].rstrip("_")
    model = name.removeprefix(head).removesuffix(mark)
    if not hole or not mark or not name.startswith(head) or not name.endswith(mark) or not model:
        return None
    return FolderName(name=name, kind=None, model=model)
