"""The site's search without a browser: entries of `search_index` in a full-text index of SQLite, ranked by BM25."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable

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
_PHRASE = 2.5
"""Factor for an entry whose name or title contains the whole query."""


class Ranking:
    """Entries that can be searched."""

    def __init__(self, entries: Iterable[SearchEntry]) -> None:
        self._entries = list(entries)
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._index.execute("CREATE VIRTUAL TABLE pages USING fts5(heads, lines, seen, page, tokenize='porter ascii')")
        columns = (((e.title, *e.names, *e.titles.values()), e.lines, e.seen[:-1], e.seen[-1:]) for e in self._entries)
        rows = ([" . ".join(" ".join(_words(text)) for text in texts) for texts in row] for row in columns)
        self._index.executemany("INSERT INTO pages VALUES (?, ?, ?, ?)", rows)

    def best(self, query: str, most: int) -> list[SearchEntry]:
        """The entries for a query, the best one first."""
        words = _words(without_prefix(query[:_MOST]))
        terms = [f'("{word}" OR "{_ALIKE.get(word, word)}")' for word in dict.fromkeys(words) if word not in _EMPTY][
            :60
        ]
        if not terms:
            return []
        named = self._matches(f'heads : "{" ".join(words)}"').keys()
        counts = Counter(row for term in terms for row in self._matches(term))
        # Of a few words half must be there; of a printed line, with its names and numbers, three.
        least = min(-(-len(terms) // 2), 3)
        scores = [
            (score * (_PHRASE if row in named else 1) * self._entries[row - 1].rank, self._entries[row - 1])
            for row, score in self._matches(" OR ".join(terms)).items()
            if row in named or counts[row] >= least
        ]
        scores.sort(key=lambda pair: (pair[0], pair[1].page))
        return [entry for _, entry in scores[:most]]

    def _matches(self, query: str) -> dict[int, float]:
        """Scores of the rows that match; the better, the lower."""
        return dict(
            self._index.execute("SELECT rowid, bm25(pages, 4, 2.5, 1.5, 1) FROM pages WHERE pages MATCH ?", [query])
        )


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
