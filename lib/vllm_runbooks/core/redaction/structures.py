"""Secrets of whole documents: values of Kubernetes Secrets, PuTTY's keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_runbooks.core.redaction.parts import LazyPattern

_PUTTY = LazyPattern(r"Private-Lines: \d{1,3}[ \t]*\r?\n(?P<value>(?:[A-Za-z0-9+/=]{1,90}\r?\n){1,200})", re.ASCII)
_MAC = LazyPattern(r"Private-MAC: (?P<value>[0-9a-f]{32,64})", re.ASCII)
_KIND_LINE = LazyPattern(
    r"^(?P<lead>[ \t]*(?:-[ \t]{1,4})?)kind:[ \t]*[\"']?Secret(?P<list>List)?[\"']?[ \t]*(?:#[^\n]*)?\r?$",
    re.ASCII | re.MULTILINE,
)
_DATA_LINE = LazyPattern(r"[ \t]*(?:-[ \t]{1,4})?[\"']?(?:data|stringData)[\"']?:(?P<rest>[^\r\n]*)", re.ASCII)
_COMMENT = r"[ \t]*(?:(?<=[ \t])#.*)?\Z"
_ENTRY = LazyPattern(
    r"[ \t]*(?:\"[^\"\n]{1,253}\"|'[^'\n]{1,253}'|[^\s:#][^:\n]{0,252}|):(?:[ \t]+(?:!\S{1,40}[ \t]+)?"
    rf"(?:[|>][+-]?\d?[+-]?{_COMMENT}|\"(?P<quoted>(?:[^\"\\]|\\.)*)\"{_COMMENT}|'(?P<single>(?:[^']|'')*)'{_COMMENT}"
    rf"|(?P<plain>[^\s#](?:[^\n]*?\S)??){_COMMENT}))?",
)
"""A key with its value, which may go on in the lines below; the key is empty after an explicit one (`? key`)."""
_FLOW_FIELD = LazyPattern(r":\s{1,8}(?:\"(?P<quoted>[^\"]+)|'(?P<single>[^']+)|(?P<plain>[^\s\"',{}][^,}]*))")
_QUOTE = r"\\{0,7}[\"']"
_SIGN = LazyPattern(
    rf"(?P<brace>[{{}}])|{_QUOTE}(?:(?P<data>data|stringData){_QUOTE}\s{{0,8}}:\s{{0,8}}\{{"
    rf"|kind{_QUOTE}\s{{0,8}}:\s{{0,8}}{_QUOTE}Secret(?P<list>List)?{_QUOTE})",
    re.ASCII,
)
"""Braces and relevant keys of JSON, which may be escaped in another text."""
_PAIR = LazyPattern(
    rf"[\s,]{{0,200}}(?:\\{{1,4}}n)?\s{{0,40}}{_QUOTE}[^\"'\\\n]{{1,253}}{_QUOTE}\s{{0,8}}:\s{{0,8}}"
    rf"(?:null|(?P<mark>{_QUOTE})(?P<value>[^\n]{{0,200000}}?)(?<!\\)(?P=mark))",
    re.ASCII,
)
_FLOW_SIGN = LazyPattern(
    r"(?P<brace>[{}])|(?<![\w.\"'-])(?:(?P<data>data|stringData):\s{1,8}\{"
    r"|kind:\s{1,8}[\"']?Secret(?P<list>List)?[\"']?(?=\s{0,40}[,}]))",
    re.ASCII,
)
"""The same of YAML in flow style, whose keys have no quotes."""
_FLOW_PAIR = LazyPattern(
    r"[\s,]{0,200}(?:\"[^\"\n]{1,253}\"|'[^'\n]{1,253}'|[^\s:#,{}\"'\[\]][^:,{}\n]{0,252}):\s{1,200}"
    r"(?:\"(?P<quoted>(?:[^\"\\]|\\.|\\\n){0,20000}+)\"|'(?P<single>(?:[^']|''){0,20000}+)'"
    r"|(?P<plain>[^\s\"',{}\[\]](?:[^\s,{}]|[ \t]{1,8}(?=[^\s,{}#])){0,20000}+))",
)
_MAX_MANIFEST = 100_000
"""Characters between a manifest's kind and its data."""


def structural(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and kind of these secrets."""
    if "Private-" in text:
        for pattern in (_PUTTY, _MAC):
            yield from ((*match.span("value"), "private_key") for match in pattern.finditer(text))
    if "Secret" not in text or "ata" not in text:
        return
    listed = 0
    for kind in _KIND_LINE.finditer(text):
        if kind["list"] is None:
            span = _mapping(text, kind.start(), len(kind["lead"]))
        elif kind.start() < listed:
            continue
        else:
            span = _document(text, kind.start())
            listed = span[1]
        values = _manifest(text, span, len(kind["lead"]), is_list=kind["list"] is not None)
        yield from ((start, end, "key") for start, end in values)
    for sign, pair in ((_SIGN, _PAIR), (_FLOW_SIGN, _FLOW_PAIR)):
        yield from ((start, end, "key") for start, end in _json_values(text, sign, pair))


def _json_values(text: str, of_sign: LazyPattern, of_pair: LazyPattern) -> Iterator[tuple[int, int]]:
    """Values of `data` and `stringData` in the objects that have `"kind": "Secret"`."""
    objects, secrets, lists, position = [-1], set[int](), set[int](), 0
    values: list[tuple[int, int, int, int]] = []
    while sign := of_sign.search(text, position):
        position = sign.end()
        if sign["data"]:
            while pair := of_pair.match(text, position):
                group = pair.lastgroup or ("value" if of_pair is _PAIR else "plain")
                values.append((objects[-1], objects[max(len(objects) - 2, 0)], *pair.span(group)))
                position = pair.end()
        elif not sign["brace"]:
            (lists if sign["list"] else secrets).add(objects[-1])
        if sign["data"] or sign["brace"] == "{":
            objects.append(sign.start())
        elif sign["brace"] and len(objects) > 1:
            objects.pop()
    for owner, outer, start, end in values:
        if (owner in secrets or outer in lists) and start < end:
            yield start, end


def _manifest(text: str, span: tuple[int, int], column: int, *, is_list: bool) -> Iterator[tuple[int, int]]:
    """Values of `data` and `stringData` in the mapping of a Secret, or in the items of a SecretList."""
    data_column, entry_column, position, at = None, None, span[0], span[0]
    for line in text[slice(*span)].splitlines(keepends=True):
        start, position = position, position + len(line)
        if start < at:
            continue  # read with the flow mapping that began above
        bare = line.strip()
        indent = len(line) - len(line.lstrip(" \t")) + (2 if bare.startswith("- ") else 0)
        outer = column if data_column is None else data_column
        if not bare or (indent <= outer and bare.startswith(("#", "{{"))):
            continue
        if data_column is None or indent <= data_column:
            data = _DATA_LINE.match(line) if is_list or indent <= column else None
            data_column, entry_column = indent if data else None, None
            if data and data["rest"].lstrip().startswith("{"):
                at = start + line.index("{", data.start("rest")) + 1
                while (pair := _FLOW_PAIR.match(text, at, span[1])) and pair.lastgroup:
                    at = pair.end()
                    yield pair.span(pair.lastgroup)
            entries = _FLOW_FIELD.finditer(line, *data.span("rest")) if data and "{" in data["rest"] else ()
        elif entry_column is not None and indent > entry_column:
            yield start + len(line) - len(line.lstrip()), start + len(line.rstrip())
            continue
        else:
            entry_column = indent
            entries = filter(None, [_ENTRY.match(line.rstrip())])
        for entry in entries:
            if entry.lastgroup is not None and entry[entry.lastgroup]:
                yield start + entry.start(entry.lastgroup), start + entry.end(entry.lastgroup)


def _document(text: str, at: int) -> tuple[int, int]:
    """Start and end of the YAML document around a place."""
    begin, end = text.rfind("\n---", max(at - _MAX_MANIFEST, 0), at) + 1, text.find("\n---", at, at + _MAX_MANIFEST) + 1
    return begin or max(at - _MAX_MANIFEST, 0), end or min(at + _MAX_MANIFEST, len(text))


def _mapping(text: str, at: int, column: int) -> tuple[int, int]:
    """Start and end of the lines around a place that are indented as much as it or more."""
    begin = end = at
    while begin > 0 and at - begin < _MAX_MANIFEST:
        before = text.rfind("\n", 0, begin - 1) + 1
        if text.startswith("- ", begin + max(column - 2, 0)) or _is_outside(text[before : begin - 1], column):
            break
        begin = before
    while end < len(text) and end - at < _MAX_MANIFEST:
        after = text.find("\n", end) + 1 or len(text)
        line = text[end:after]
        if end > at and (_is_outside(line, column) or line.startswith("- ", max(column - 2, 0))):
            break
        end = after
    return begin, end


def _is_outside(line: str, column: int) -> bool:
    """Whether a line ends a mapping: a separator, less indentation, or another object's kind in its place."""
    bare, indent = line.strip(), len(line) - len(line.lstrip(" \t-"))
    return bare.startswith(("---", "...")) or (
        bool(bare) and (indent < column or (indent == column and bare.lstrip("- ").startswith("kind:")))
    )
