"""Whether a toolchain accepts a model: yes, no, or unknown with the nearest names."""

from __future__ import annotations

import re
from difflib import get_close_matches

from vllm_runbooks.catalog.toolchains import EdgeModel, ModelSupport, Toolchain

_MOST_NEAR = 4
_ALIKE = 0.6
"""Similarity (difflib) from which a name is suggested."""
_MAX_NAME = 200
_BREAKS = re.compile(r"[-_ .]+")


def find_model(name: str, of: Toolchain) -> ModelSupport:
    """Look a model up in the toolchain's list.

    Names are compared without case, and with dashes, underscores, blanks and dots as equal;
    organisations are compared if both names have one. `of.suffixes` may follow a listed name. Any
    other suffix means another, unknown model.

    Args:
        name: As on the Hub, in the list, or the name of a folder; of a path the last part.
        of: The facts.
    """
    model = listed(name, of)
    if model is None:
        return ModelSupport(name, None, None, None, "the toolchain's list has no such model", _near(name, of))
    organisation, _, _ = _parts(name)
    if organisation and not _parts(model.name)[0]:
        why = f"listed as {model.name}, without an organisation"
    elif _plain(name) != _plain(model.name):
        why = f"listed as {model.name}"
    else:
        why = "listed"
    return ModelSupport(name, model, model.quantise, model.compile, "; ".join(filter(None, (why, model.note))))


def listed(name: str, of: Toolchain) -> EdgeModel | None:
    """Listed model of this name; None if there is none."""
    organisation, last, path = _parts(name)
    base = _without_suffixes(last, of)
    for model in of.models:
        for alias in _names(model):
            its, name_of_it, _ = _parts(alias)
            if name_of_it in (base, last) and (path or not organisation or not its or its == organisation):
                return model
    return None


def weights(name: str, of: Toolchain) -> str:
    """Repository on the Hub of a model's weights as the facts have it, or the name itself.

    A path is a folder. A suffix makes a name another repository's, so that only the names of the facts are met.
    """
    organisation, last, is_path = _parts(name)
    if is_path or name.strip().startswith(("/", ".", "~")):
        return name
    for model in of.models:
        for its, name_of_it, _ in map(_parts, _names(model)):
            if model.hub and last == name_of_it and (not organisation or not its or its == organisation):
                return model.hub
    return name


def _names(model: EdgeModel) -> tuple[str, ...]:
    return (model.name, *model.aliases, *filter(None, (model.hub,)))


def _parts(name: str) -> tuple[str, str, bool]:
    """Organisation and name, and whether it is a path, whose folders are not an organisation."""
    words = [word for word in name.strip()[:_MAX_NAME].replace("\\", "/").split("/") if word not in ("", ".", "..")]
    if not words:
        return "", "", False
    is_path = len(words) != 2 or name.strip()[:1] in ("/", ".", "~")
    return "" if is_path else words[0].lower(), _plain(words[-1]), is_path and len(words) > 1


def _plain(name: str) -> str:
    return _BREAKS.sub("-", name.strip().lower().rpartition("/")[2]).strip("-")


def _without_suffixes(last: str, of: Toolchain) -> str:
    endings = sorted((f"-{_plain(suffix)}" for suffix in of.suffixes), key=len, reverse=True)
    while ending := next((candidate for candidate in endings if last.endswith(candidate) and last != candidate), None):
        last = last.removesuffix(ending)
    return last


def _near(name: str, of: Toolchain) -> tuple[str, ...]:
    names = {_parts(model.name)[1]: model.name for model in of.models}
    base = _without_suffixes(_parts(name)[1], of)
    return tuple(names[model] for model in get_close_matches(base, names, n=_MOST_NEAR, cutoff=_ALIKE))
