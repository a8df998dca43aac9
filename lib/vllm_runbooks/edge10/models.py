"""Whether a toolchain takes a model: yes, no, or unknown with the names that are nearest."""

from __future__ import annotations

import re
from difflib import get_close_matches

from vllm_runbooks.catalog.toolchains import AskedModel, EdgeModel, Toolchain

_MOST_NEAR = 4
_ALIKE = 0.6
"""How alike names are (see difflib) for one to be offered in place of the other."""
_MAX_NAME = 200
_BREAKS = re.compile(r"[-_ .]+")


def asked(name: str, of: Toolchain) -> AskedModel:
    """What the toolchain's list says of a model.

    A name is compared without case, and dashes, underscores, blanks and dots are one; an organisation counts where both
    have one. `of.suffixes` may stand behind a listed name. Anything else behind it is another model: unknown.

    Args:
        name: As on the Hub, in the list, or the name of a folder; of a path the last part.
        of: The facts.
    """
    found = listed(name, of)
    if found is None:
        return AskedModel(name, None, None, None, "the toolchain's list has no such model", _near(name, of))
    organisation, _, _ = _parts(name)
    if organisation and not _parts(found.name)[0]:
        why = f"listed as {found.name}, without an organisation"
    elif _plain(name) != _plain(found.name):
        why = f"listed as {found.name}"
    else:
        why = "listed"
    return AskedModel(name, found, found.quantise, found.compile, "; ".join(filter(None, (why, found.note))))


def listed(name: str, of: Toolchain) -> EdgeModel | None:
    """The model of the list that a name means; None: none."""
    organisation, own, path = _parts(name)
    wanted = _without_suffixes(own, of)
    for model in of.models:
        for known in _names(model):
            its, name_of_it, _ = _parts(known)
            if name_of_it in (wanted, own) and (path or not organisation or not its or its == organisation):
                return model
    return None


def weights(name: str, of: Toolchain) -> str:
    """Where the weights of a model are that is named: its repository on the Hub as the facts have it, or as given.

    A path is a folder. A suffix makes a name another repository's, so that only the names of the facts are met.
    """
    organisation, own, is_path = _parts(name)
    if is_path or name.strip().startswith(("/", ".", "~")):
        return name
    for model in of.models:
        for its, name_of_it, _ in map(_parts, _names(model)):
            if model.hub and own == name_of_it and (not organisation or not its or its == organisation):
                return model.hub
    return name


def is_one(first: str, second: str, of: Toolchain) -> bool:
    """Whether two names are of one repository, or of one folder as far as names tell."""
    return _place(first, of) == _place(second, of)


def _place(name: str, of: Toolchain) -> str:
    found = weights(name.strip(), of)
    words = [word for word in found.split("/") if word not in ("", ".")]
    return f"/{'/'.join(words)}" if found.startswith("/") else "/".join(words).lower()


def _names(model: EdgeModel) -> tuple[str, ...]:
    return (model.name, *model.aliases, *filter(None, (model.hub,)))


def _parts(name: str) -> tuple[str, str, bool]:
    """Organisation, own name, and whether it is a path, whose folders tell no organisation."""
    words = [word for word in name.strip()[:_MAX_NAME].replace("\\", "/").split("/") if word not in ("", ".", "..")]
    if not words:
        return "", "", False
    is_path = len(words) != 2 or name.strip()[:1] in ("/", ".", "~")
    return "" if is_path else words[0].lower(), _plain(words[-1]), is_path and len(words) > 1


def _plain(name: str) -> str:
    return _BREAKS.sub("-", name.strip().lower().rpartition("/")[2]).strip("-")


def _without_suffixes(own: str, of: Toolchain) -> str:
    """The name without what may stand behind it, whatever the number of such words."""
    endings = sorted((f"-{_plain(suffix)}" for suffix in of.suffixes), key=len, reverse=True)
    while ending := next((each for each in endings if own.endswith(each) and own != each), None):
        own = own.removesuffix(ending)
    return own


def _near(name: str, of: Toolchain) -> tuple[str, ...]:
    names = {_parts(each.name)[1]: each.name for each in of.models}
    wanted = _without_suffixes(_parts(name)[1], of)
    return tuple(names[each] for each in get_close_matches(wanted, names, n=_MOST_NEAR, cutoff=_ALIKE))
