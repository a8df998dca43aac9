"""Text for people avoids the phrases of `prose.yaml`: README, docs, catalog, runbooks, messages."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
PHRASES = [
    (re.compile(rf"(?<![\w`{{-])(?:{row['phrase']})(?![\w`-])", re.IGNORECASE), row["use"])
    for row in YAML(typ="safe").load((ROOT / "tests" / "prose.yaml").read_text("utf-8"))
]
_CODE = re.compile(r'`[^`\n]*`|\]\([^)\s]*\)|<[a-z/][^>]*>|\{[^{}]*\}|\w+="[^"]*"|"\w+":')
_SPOKEN = {
    *("title", "cause", "explanation", "do_first", "confirm", "refute", "cost", "says", "why", "message", "fix"),
    *("summary", "note", "notes", "fact", "so", "do", "sees", "meaning"),
}
"""Keys of the catalog whose values a person reads."""
_QUOTING = {"translations", "examples", "near_misses", "signatures", "references", "source", "of"}
"""Keys of the catalog below which nothing is ours: log lines, sources and other languages."""


class Passage(NamedTuple):
    place: str
    text: str


def of_markdown(path: Path) -> Iterator[Passage]:
    """Lines of prose, without blocks of code."""
    is_code = False
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield Passage(f"{path.relative_to(ROOT)}:{number}", line)


def of_notebook(path: Path) -> Iterator[Passage]:
    """Markdown, and the strings and comments of code, which become titles of the output."""
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        for number, line in enumerate(cell["source"], 1):
            shown = line if cell["cell_type"] == "markdown" else " ".join(re.findall(r'"[^"]*"|# .*', line))
            yield Passage(f"{path.relative_to(ROOT)}:{cell['id']}:{number}", shown)


def of_catalog(path: Path) -> Iterator[Passage]:
    """Texts of the catalog by their keys."""

    def texts(value: Any, key: str) -> Iterator[str]:
        if isinstance(value, dict):
            for name, inner in value.items():
                if name not in _QUOTING:
                    yield from texts(inner, str(name))
        elif isinstance(value, list):
            for inner in value:
                yield from texts(inner, key)
        elif isinstance(value, str) and key in _SPOKEN:
            yield value

    data = YAML(typ="safe").load(path.read_text("utf-8"))
    return (Passage(str(path.relative_to(ROOT)), text) for text in texts(data, ""))


def of_module(path: Path) -> Iterator[Passage]:
    """Strings of more than one word that are neither docstrings nor patterns; fields of an f-string are left out."""
    tree = ast.parse(path.read_text("utf-8"))
    apart: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            apart.add(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
            apart.update(ast.walk(node))
    for node in ast.walk(tree):
        if node in apart:
            continue
        if isinstance(node, ast.JoinedStr):
            apart.update(node.values)
            text = "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if " " in text.strip() and "\\" not in text and not re.match(r"\s*(?:edge10 |[a-z-]+:)", text):
            yield Passage(f"{path.relative_to(ROOT)}:{node.lineno}", text)


_KINDS: dict[str, tuple[Callable[[Path], Iterator[Passage]], list[Path]]] = {
    "docs": (
        of_markdown,
        [ROOT / "README.md", *(p for p in (ROOT / "docs").rglob("*.md") if not {"decisions", "_build"} & {*p.parts})],
    ),
    "runbooks": (of_notebook, [*(ROOT / "runbooks").glob("*.ipynb")]),
    "catalog": (of_catalog, [p for p in (ROOT / "catalog").rglob("*.yaml") if "cases" not in p.parts]),
    "messages": (of_module, [*(ROOT / "lib").rglob("*.py")]),
}


@pytest.mark.parametrize("kind", _KINDS)
def test_nothing_that_a_person_reads_has_a_phrase_of_the_list(kind: str) -> None:
    """Each place is named, with the better word."""
    passages, paths = _KINDS[kind]
    wrong = [
        f"{passage.place}: {match[0]!r}; use {better}: {text[max(0, match.start() - 40) : match.end() + 30].strip()}"
        for path in sorted(paths)
        for passage in passages(path)
        for text in [_CODE.sub("` `", passage.text)]
        for pattern, better in PHRASES
        for match in pattern.finditer(text)
    ]

    assert paths
    assert not wrong, "\n" + "\n".join(wrong)


def test_a_phrase_is_found_in_prose_and_not_in_code() -> None:
    """A part of a word, an option or code does not count."""
    said = [
        pattern for pattern, _ in PHRASES if pattern.search(_CODE.sub("` `", "One ways out; see `told` and --beside."))
    ]
    assert len(said) == 1
