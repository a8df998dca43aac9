"""The site's search without a browser: entries of `search_index`, ranked by words as `lookup.js` does, more simply."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vllm_runbooks.site.search_index import SearchEntry
from vllm_runbooks.site.symptom_pages import without_prefix

_WORD = re.compile(r"[a-z0-9]{1,60}|[\u3400-\u9fff]{2}")
_EMPTY = frozenset(
    re.findall(
        r"\w+",
        "a an and at be by can do does error for how i in is it many my need needs of on or that the to too vllm what "
        "when which why with you",
    )
)
_ALIKE = {"bf16": "bfloat16", "fp16": "float16", "oom": "memory", "tp": "tensor", "pp": "pipeline", "card": "gpu"}
_MOST = 4_000
"""Characters of a query that are read."""


@dataclass(frozen=True)
class _Indexed:
    entry: SearchEntry
    weights: Mapping[str, float]
    """Words by the best place that has them: the name and title before printed lines, before the rest."""
    heads: tuple[str, ...]
    texts: tuple[str, ...]


class Ranking:
    """Entries that can be searched."""

    def __init__(self, entries: Iterable[SearchEntry]) -> None:
        self._rows = [_indexed(entry) for entry in entries]
        counts: dict[str, int] = {}
        for row in self._rows:
            for word in row.weights:
                counts[word] = counts.get(word, 0) + 1
        self._rarity = {word: math.log(1 + len(self._rows) / count) for word, count in counts.items()}

    def best(self, query: str, most: int) -> list[SearchEntry]:
        """The entries for a query, the best one first."""
        all_words = _words(without_prefix(query[:_MOST]))
        words = [word for word in dict.fromkeys(all_words) if word not in _EMPTY][:60]
        phrase = _spaced(all_words)
        scores = [(self._score(row, words, phrase), row.entry) for row in self._rows] if words else []
        found = sorted((pair for pair in scores if pair[0]), key=lambda pair: (-pair[0], pair[1].page))
        return [entry for _, entry in found[:most]]

    def _score(self, row: _Indexed, words: list[str], phrase: str) -> float:
        unknown = math.log(1 + len(self._rows)) / 2
        points = met = whole = 0.0
        for word in words:
            value = self._rarity.get(word) or self._rarity.get(_ALIKE.get(word, ""), unknown)
            weight = row.weights.get(word) or row.weights.get(_ALIKE.get(word, ""), 0.0)
            whole += value
            met += value if weight else 0.0
            points += value * weight
        share = met / whole
        head = max(
            (3.0 if text == phrase else 1 + len(phrase) / len(text) for text in row.heads if phrase in text),
            default=0.0,
        )
        is_printed = len(words) > 1 and any(phrase in text for text in row.texts)
        if not head and not is_printed and share < 0.5:
            return 0.0
        return points * share**2 * (1 + head + 0.6 * is_printed) * row.entry.rank


def _words(text: str) -> list[str]:
    """Words and numbers in small letters, without the `s` of a plural."""
    words = _WORD.findall(text.lower())
    return [word[:-1] if re.fullmatch(r"[a-z]{3,}[a-rt-z]s", word) else word for word in words]


def _spaced(words: Iterable[str]) -> str:
    return f" {' '.join(words)} "


def _indexed(entry: SearchEntry) -> _Indexed:
    weights: dict[str, float] = {}
    heads = (entry.title, *entry.names, *entry.titles.values())
    for weight, texts in ((4.0, heads), (2.5, entry.lines), (1.5, entry.seen[:-1]), (1.0, entry.seen[-1:])):
        for text in texts:
            for word in _words(text):
                for part in (word, *re.findall(r"[a-z]{2,}|\d{2,}[a-z]*", word)):
                    weights.setdefault(part, weight)
    heads_spaced, texts_spaced = (
        tuple(_spaced(_words(text)) for text in texts) for texts in (heads, (*entry.lines, *entry.seen))
    )
    return _Indexed(entry, weights, heads_spaced, texts_spaced)
