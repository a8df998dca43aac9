"""Names that settings of a job give to folders, by the facts' templates, and what such a name tells of the settings.

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
from vllm_runbooks.edge10.jobs.records import Job, NameTold

_MAX_NAME = 255
"""Bytes of a file's name on common file systems."""
_HOLE = re.compile(r"\{(\w{1,40})\}", re.ASCII)
_LISTED = "-"
"""Between the lengths of a prompt's pieces, where there are several."""
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
"""By hole what stands in it. Digits and free words do not meet in a template without a literal between them."""
_REST = r"(?P<rest>_[A-Za-z][A-Za-z0-9-]{0,40})?"
_MAX_STEPS = 20_000
_MAX_MEANINGS = 8


# ---- from settings


def model_name(model: str) -> str:
    """What a model is called in the names of its folders: the last part of its name or path."""
    return PurePosixPath(model.strip().replace("\\", "/")).name


def padded(dies: Sequence[int], of: Toolchain) -> tuple[int, ...]:
    """An order of dies with zeros behind it, as many entries as the toolchain takes."""
    return (*dies, *(0,) * (of.limits.remap_entries - len(dies)))


def digits(remap: Sequence[int]) -> str:
    """An order of dies as it stands in a name: without its trailing zeros, and without signs between its entries."""
    last = max((index for index, die in enumerate(remap) if die), default=-1)
    return "".join(map(str, remap[: last + 1]))


def quantised(job: Job, of: Toolchain) -> str:
    """The folder that quantising writes."""
    return of.names[f"quantised_{job.kind}"].format(model=model_name(job.model))


def converted(job: Job, of: Toolchain) -> str:
    """The checkpoint that vLLM and the compiler read: its folder below that of the job, or the path that was given."""
    return job.quantised or of.names["converted"].format(model=model_name(job.model))


def compiled(job: Job, of: Toolchain) -> str:
    """The folder of the compiled model."""
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
    """The folder below that of the compiled model."""
    return of.names["dies"].format(dies=dies)


# ---- to settings


def read(name: str, of: Toolchain) -> NameTold | None:
    """What the name of a compiled model's folder tells; None: it is none by the facts' templates.

    A name that stops behind the model, as in `Qwen3-4B-AWQ-AOT`, tells the model and that it is compiled, no more.

    Args:
        name: Of the folder; of a path its last part.
        of: The facts.
    """
    own = model_name(name)
    if len(own) > _MAX_NAME:
        return None
    for kind in KINDS:
        found = _reader(of.names[f"compiled_{kind}"]).fullmatch(own)
        if found is not None:
            return _told(own, kind, found.groupdict(), of)
    return next((told for kind in KINDS if (told := _begun(own, of.names[f"compiled_{kind}"]))), None)


def dies_of(name: str, of: Toolchain) -> int | None:
    """How many dies the folder below a compiled model's is of, by its name; None: it is none of dies."""
    found = _reader(of.names["dies"]).fullmatch(name) if len(name) <= _MAX_NAME else None
    return None if found is None or found["rest"] else int(found["dies"])


def orders(text: str, dies: int) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """The orders of so many dies, of the vision and of the language part, that the digits of a name may stand for.

    Each has every die once, the zeros at its end put back. One pair: they are told. No pair: the digits are of no such
    orders. Several, as from eleven dies on where entries have two digits: they are not told; a handful is given.
    """
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    left = [_MAX_STEPS if dies > 0 else 0]
    for end, first in _orders(text, 0, dies, left):
        for stop, second in _orders(text, end, dies, left):
            if stop == len(text) and (first, second) not in found and len(found) < _MAX_MEANINGS:
                found.append((first, second))
    return tuple(found)


def _orders(text: str, begin: int, dies: int, left: list[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Where an order that begins at a place may end, and the order."""
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
    """What reads a template's names; a name is short, so that what its one free word costs is bounded."""
    parts, seen, at = [], set(), 0
    for hole in _HOLE.finditer(template):
        parts.append(re.escape(template[at : hole.start()]))
        parts.append(f"(?P={hole[1]})" if hole[1] in seen else f"(?P<{hole[1]}>{_FORMS[hole[1]]})")
        seen.add(hole[1])
        at = hole.end()
    return re.compile("".join([*parts, re.escape(template[at:]), _REST]), re.ASCII)


def _told(name: str, kind: str, found: Mapping[str, str | None], of: Toolchain) -> NameTold:
    def number(hole: str) -> int | None:
        said = found.get(hole)
        return int(said) if said else None

    dies, width, height = number("dies"), number("width"), number("height")
    remap, prefill = found.get("remap"), found.get("prefill")
    return NameTold(
        name=name,
        kind=kind,
        model=found.get("model") or "",
        context_tokens=number("context"),
        prefill=tuple(map(int, prefill.split(_LISTED))) if prefill else None,
        picture=None if width is None or height is None else (width, height),
        dies=dies,
        modality=found.get("modality"),
        remap=remap,
        orders=() if remap is None or dies is None or dies > of.limits.remap_entries else orders(remap, dies),
        rest=(found.get("rest") or "").removeprefix("_"),
    )


def _begun(name: str, template: str) -> NameTold | None:
    """What a name tells that ends where the settings would begin; its kind is not told."""
    head, hole, tail = template.partition("{model}")
    mark = _HOLE.split(tail)[0].rstrip("_")
    model = name.removeprefix(head).removesuffix(mark)
    if not hole or not mark or not name.startswith(head) or not name.endswith(mark) or not model:
        return None
    return NameTold(name=name, kind=None, model=model)
