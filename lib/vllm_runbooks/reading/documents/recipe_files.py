"""Makefiles and justfiles: each line of a recipe is a script of its own, after its variables are filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.arguments.words import HOLE
from vllm_runbooks.reading.documents import programs
from vllm_runbooks.reading.documents.placed_words import Characters, excerpt_of_characters
from vllm_runbooks.reading.documents.starts import Around, DocumentReading

_ASSIGNED = {
    "make": re.compile(
        r"^(?:(?:export|override)[ \t]+)?([A-Za-z_][\w.-]{0,100})[ \t]*[:?]{0,3}=[ \t]*(.*)$", re.MULTILINE
    ),
    "just": re.compile(
        r"^(?:export[ \t]+)?([A-Za-z_][\w-]{0,100})[ \t]*:=[ \t]*[\"']([^\"'\n]*)[\"'][ \t]*$", re.MULTILINE
    ),
}
_REFERENCE = {
    "make": re.compile(r"\$(?:\$|\(([^()\n]{0,400})\)|\{([^{}\n]{0,400})\}|([A-Za-z@<^*?]))|(?s:.)"),
    "just": re.compile(r"\{\{[ \t]*([^{}\n]{0,400}?)[ \t]*\}\}|(?s:.)"),
}
_HEAD = {
    "make": re.compile(r"[^\s#:=][^:=\n]{0,1000}:(?!=)"),
    "just": re.compile(r"[@A-Za-z_][\w-]{0,100}(?:[ \t][^\n]{0,1000})?:(?!=)"),
}
_SIGNS = {"make": re.compile(r"[ \t]*[@+-]*[ \t]*"), "just": re.compile(r"[ \t]*@?-?@?")}
_COMMENT = re.compile(r"(?<!\\)#.*")
"""A comment behind the value of a variable of make."""
_MAX_VALUE = 400  # characters of a variable's value that are filled in


def read(source: Excerpt, around: Around, reading: DocumentReading, kind: str) -> None:
    """Add what the recipes of a Makefile ("make") or justfile ("just") start."""
    assigned = _ASSIGNED[kind].finditer(source.text)
    variables = {match[1]: _COMMENT.sub("", match[2]).strip() if kind == "make" else match[2] for match in assigned}
    for line in _recipe_lines(source, kind):
        if programs.may_start(line.text):
            end = len(line.text.removesuffix("\\"))  # make drops the continuation at the end of a file
            programs.read_script(_filled(line.part(0, end), variables, kind), around, reading)


def _recipe_lines(source: Excerpt, kind: str) -> Iterator[Excerpt]:
    """The logical lines of the recipes; a recipe with `#!` as a whole."""
    parts: list[tuple[int, int]] = []
    begin, is_recipe, is_script = 0, False, False
    for line in [*source.text.split("\n"), ""]:
        end = begin + len(line)
        stop = min(end + 1, len(source.text))
        is_indented = line[:1] == "\t" or (kind == "just" and line[:1] == " ")
        is_joined = (
            bool(parts) and not is_script and source.text[parts[-1][0] : parts[-1][1]].rstrip("\n").endswith("\\")
        )
        if is_script and line.strip() and not is_indented:
            yield source.joined(parts)
            parts, is_script = [], False
        if is_script or (is_joined and is_recipe):
            parts.append((begin + (line[:1] == "\t"), stop))
        elif is_indented and is_recipe:
            signs = _SIGNS[kind].match(line)
            at = begin + (signs.end() if signs else 0)
            is_script = kind == "just" and line.lstrip().startswith("#!")
            parts = [(at, stop)]
        elif line.strip() and line.lstrip()[:1] != "#":
            is_recipe = _HEAD[kind].match(line) is not None
        if parts and not is_script and not line.endswith("\\"):
            yield source.joined(parts)
            parts = []
        begin = end + 1
    if parts:
        yield source.joined(parts)


def _filled(line: Excerpt, variables: Mapping[str, str], kind: str) -> Excerpt:
    """A line as the shell gets it: variables that the file assigns are replaced, others are unknown."""
    made: Characters = []
    for match in _REFERENCE[kind].finditer(line.text):
        at = line.at[match.start()]
        if len(match[0]) == 1:
            made.append((match[0], at))
        elif match[0] == "$$":
            made.append(("$", at))
        else:
            name = next((group for group in match.groups() if group is not None), "")
            value = variables.get(name, "$")
            is_known = len(value) <= _MAX_VALUE and "$" not in value and "{{" not in value
            made += [(character, at) for character in (value if is_known else HOLE)]
    return excerpt_of_characters(made, line.at[len(line.text)])
