"""The vocabulary that a tokenizer's file holds, in a form that can be compared."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from vllm_runbooks.edge10.artefacts.records import Vocabulary

FILES = ("tokenizer.json", "vocab.json")
"""Files that hold one."""


def of(told: object) -> Vocabulary | None:
    """The vocabulary of a parsed file; None: it holds none.

    Args:
        told: Of `tokenizer.json` (that of its model; added tokens stand elsewhere) or of `vocab.json`.
    """
    held: object = told
    if isinstance(held, Mapping) and isinstance(model := held.get("model"), Mapping):
        held = model.get("vocab")
    if isinstance(held, Mapping) and held and all(isinstance(number, int) for number in held.values()):
        rows = sorted(f"{number} {token!r}" for token, number in held.items())
    elif isinstance(held, list) and held and all(isinstance(each, list) and each for each in held):
        # By its place a token has its number; the score beside it is one that may be written in several ways.
        rows = [repr(each[0])[:1_000] for each in held]
    else:
        return None
    return Vocabulary(len(rows), hashlib.sha256("\n".join(rows).encode("utf-8", "backslashreplace")).hexdigest())
