"""Names of a job's folders, formatted and parsed by the facts' templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from vllm_runbooks.catalog.toolchains import KINDS, Toolchain
from vllm_runbooks.edge10.folder_names import HOLE, LISTED, pattern_of
from vllm_runbooks.edge10.jobs.records import EdgeJob, FolderName

_MAX_NAME = 255
"""Longest name of a file on common file systems, in bytes."""
_MAX_DIES = 10
"""Maximum number of dies in a readable order: with more, the digits are ambiguous."""


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
    return of.names[f"quantised_{job.kind}"].format(model=model_name(job.model))


def converted(job: EdgeJob, of: Toolchain) -> str:
    """Checkpoint that vLLM and the compiler read: a folder of the job, or the path of `quantised`."""
    return job.quantised or of.names["converted"].format(model=model_name(job.model))


def compiled(job: EdgeJob, of: Toolchain) -> str:
    width, height = job.picture or (0, 0)
    return of.names[f"compiled_{job.kind}"].format(
        model=model_name(converted(job, of)),
        prefill=LISTED.join(map(str, job.prefill)),
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
    """Parse the name or path of a compiled model's folder; None if it matches no template.

    A name that ends after the model, such as `Qwen3-4B-AWQ-AOT`, has no settings.
    """
    folder = model_name(name)
    if len(folder) > _MAX_NAME:
        return None
    for kind in KINDS:
        match = pattern_of(of.names[f"compiled_{kind}"]).fullmatch(folder)
        if match is not None:
            return settings_of_name(folder, kind, match.groupdict())
    return next((settings for kind in KINDS if (settings := _begun(folder, of.names[f"compiled_{kind}"]))), None)


def dies_of(name: str, of: Toolchain) -> int | None:
    """Number of dies in the name of the folder below; None if it has none."""
    match = pattern_of(of.names["dies"]).fullmatch(name) if len(name) <= _MAX_NAME else None
    return None if match is None or match["rest"] else int(match["dies"])


def orders(text: str, dies: int) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Orders of the vision and of the language part that the digits of a name may mean.

    For up to ten dies. Each order has every die once, and drops a trailing zero. Empty if the
    digits are not such orders.
    """
    pairs = []
    for end in (dies - 1, dies):
        vision, language = (part + "0" * (len(part) < dies) for part in (text[:end], text[end:]))
        has_zeros = text[:end].endswith("0") or text[end:].endswith("0")
        if not has_zeros and sorted(vision) == sorted(language) == [str(die) for die in range(dies)]:
            pairs.append((tuple(map(int, vision)), tuple(map(int, language))))
    return tuple(dict.fromkeys(pairs))


def settings_of_name(name: str, kind: str, groups: Mapping[str, str | None]) -> FolderName:
    def number(hole: str) -> int | None:
        digits_text = groups.get(hole)
        return int(digits_text) if digits_text else None

    dies, width, height = number("dies"), number("width"), number("height")
    prefill = groups.get("prefill")
    remap = groups.get("remap") if dies is None or dies <= _MAX_DIES else None
    return FolderName(
        name=name,
        kind=kind,
        model=groups.get("model") or "",
        context_tokens=number("context"),
        prefill=tuple(map(int, prefill.split(LISTED))) if prefill else None,
        picture=None if width is None or height is None else (width, height),
        dies=dies,
        modality=groups.get("modality"),
        remap=remap,
        orders=() if remap is None or dies is None else orders(remap, dies),
        rest=(groups.get("rest") or "").removeprefix("_"),
    )


def _begun(name: str, template: str) -> FolderName | None:
    """Model of a name that ends before the settings."""
    head, hole, tail = template.partition("{model}")
    mark = HOLE.split(tail)[0].rstrip("_")
    model = name.removeprefix(head).removesuffix(mark)
    if not hole or not mark or not name.startswith(head) or not name.endswith(mark) or not model:
        return None
    return FolderName(name=name, kind=None, model=model)
