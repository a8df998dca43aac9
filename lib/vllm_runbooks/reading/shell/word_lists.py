"""Word lists for the readers, from `catalog/tables/word_lists.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.record_forms import Authored


@dataclass(frozen=True)
class WordList(Authored):
    """One list."""

    words: tuple[str, ...]


@cache
def word_list(name: str) -> frozenset[str]:
    """Words of a list by its id."""
    return frozenset(load_table("word_lists", WordList)[name].words)


@cache
def kinds_by_word(prefix: str) -> Mapping[str, str]:
    """For each word of the lists whose id begins with a prefix, the rest of that id."""
    lists = load_table("word_lists", WordList)
    return {word: name.removeprefix(prefix) for name in lists if name.startswith(prefix) for word in lists[name].words}
