"""Find secrets with a short, common or missing name, by the text around them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from vllm_runbooks.core.redaction.parts import LazyPattern, escaped, is_telling, turns

_WORDS = ("密码", "密碼", "口令", "密钥", "密鑰", "令牌")
_PASSWORDS = _WORDS[:3]


_CODED = {escaped(word): word for word in _WORDS}
TRIGGERS = (
    *_WORDS, *_CODED, "api_base", "api_url", "base_url", "assword", "assphrase", "spawn ", "sendline", "user:",
    "username",
)  # fmt: skip
"""Lower-case words of which every line with such a secret has one, unless it has `pass` or `pw`."""
_BEGUN = r"(?<=\\[nrt])"
"""After an escape within quoted text: its letter is not part of the word."""
_QUOTE = r"\\{0,3}[\"']"
_SHORT = LazyPattern(
    rf"(?:(?<![\w./$@-])|{_BEGUN})(?:{_QUOTE})?(?P<name>pass|pwd|pw)(?:{_QUOTE})?"
    rf"(?::[ \t]{{0,4}}(?:str|bytes|SecretStr)\b)?"
    rf"[ \t]{{0,8}}(?P<sign>[=:])(?![=:])[ \t]{{0,8}}[bruf]{{0,2}}(?P<quote>{_QUOTE})?"
    r"(?P<value>(?(quote)[^\"'\n\\]{1,200}|[^\s\"',;)\]}\\]{1,200}))",
    re.ASCII | re.IGNORECASE,
)
_IS = r"(?:[为為是]|\\u(?:4e3a|70ba|662f))"
_CHINESE = LazyPattern(
    rf"(?P<name>{'|'.join((*_WORDS, *map(re.escape, _CODED)))})(?:{_QUOTE})?"
    rf"(?P<sign>[ \t]{{0,4}}(?:{_IS}[ \t]{{0,4}})?(?:[=:：（(]|\\uff1a|\\uff08)|{_IS}|[ \t])"
    rf"[ \t]{{0,4}}(?P<quote>{_QUOTE})?"
    # No quote, bracket, comma or semicolon, and no non-ASCII letter: Chinese text follows without a
    # blank.
    r"(?P<value>(?(quote)[^\"'\n\\]{1,200}|[!#-&*+\--:<-\[^-z|~]{3,200}))"
)
_KEY = LazyPattern(
    rf"(?:(?<![\w.-])|{_BEGUN})(?:{_QUOTE})?(?P<name>key)(?:{_QUOTE})?[ \t]{{0,4}}(?P<sign>[=:])(?![=:])[ \t]{{0,4}}"
    rf"(?P<quote>{_QUOTE})?"
    r"(?P<value>(?(quote)[^\"'\n\\]{1,400}|[^\s\"',;)\]}\\]{1,400}))",
    re.ASCII,
)
_BASE = LazyPattern(r"(?<![\w.-])(?:openai_)?(?:api_base|api_url|base_url)\b", re.ASCII)
_ANSWERED = tuple(
    LazyPattern(source, re.ASCII)
    for source in (
        (
            r"(?:ass(?:word|phrase|wd)|ASSWORD)[^\n\"']{0,40}[\"']?[ \t]{0,4}[)\]}]{0,2}[ \t;{]{0,8}"
            r"(?:\r?\n[ \t]{0,40}){0,2}(?:[a-z_]{1,20}\.)?(?:exp_)?send(?:line)?(?:[ \t]{1,4}--)?[ \t(]{1,4}"
            r"b?[\"'](?P<value>[^\"'\n\\]{1,200})(?=[\"'\\])"
        ),
        (
            r"\bspawn[ \t](?>[^\n;]{0,200}?\b(?:login|ssh|scp|sftp|su|sudo)\b)[^\n;]{0,200}[;\n]"
            r"[ \t]{0,40}(?:exp_)?send(?:[ \t]{1,4}--)?[ \t]{1,4}[\"'](?P<value>[^\"'\n\\]{1,200})(?=[\"'\\])"
        ),
    )
)
_FORMATTED = LazyPattern(
    r"[\"'](?P<before>(?>[^\"'\n]{0,200}?\blogin\b)[^\"'\n]{0,200}?[ \t]-p ?)\{\}[^\"'\n]{0,200}[\"']\.format\("
    r"(?P<given>[^\n()]{1,400})\)",
    re.ASCII,
)
_LITERAL = re.compile(r"[ \t]{0,8}[\"'](?P<value>[^\"'\n]{1,200})[\"'][ \t]{0,8}(?:,|\Z)|[^,]{0,200}(?:,|\Z)")
_NO_PASSWORD = re.compile(r"[\d.,:/%-]*\Z|(?:/|\.{1,2}/|~|[A-Za-z]:\\)|(?i:yes|no|y|n|exit|quit)\Z")
"""Counts, shares and dates; paths; answers to other prompts."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,60}(?:[-_.][A-Za-z0-9]{1,60}){1,8}\Z")
"""A model's or a module's name."""
_BESIDE = re.compile(
    r"(?:\b(?:user(?:_?name)?|login|account|registry)|用户名?|账号|帐号|账户)[\"']{0,2}[ \t]{0,4}[:：=]", re.IGNORECASE
)
_AT_FIELD = re.compile(r"(?:^|[{,(\[]|\\n)[ \t]{0,60}(?:-[ \t]{1,4}){0,3}\Z", re.MULTILINE)
_FIELD_ENDS = re.compile(r"\\{1,3}[nr]|[\"'\\]{0,4}[ \t]{0,8}(?:[,;)\]}，。；）\r\n]|#|\Z)")
_AROUND, _MAX_MAPPING, _MAX_LINE = 200, 600, 400
_CODE = re.compile(r"[A-Za-z_][\w.]{0,80}[(\[]")


def find(text: str, lowered: str) -> Iterator[tuple[re.Match[str], str]]:
    """Possible secrets as the group `value` of a match, with their kind.

    `lowered` is the text in lower case.
    """
    if "pass" in lowered or "pw" in lowered:
        yield from ((match, "password") for match in _SHORT.finditer(text) if _is_password(match))
    if any(name in text for name in (*_WORDS, *_CODED)):
        yield from ((match, "password") for match in _CHINESE.finditer(text) if _is_said(match))
    if "key" in text and ("api_base" in text or "_url" in text):
        yield from ((match, "key") for match in _keys(text))
    if "send" in text:
        for pattern in _ANSWERED:
            yield from (
                (match, "password") for match in pattern.finditer(text) if not _NO_PASSWORD.match(match["value"])
            )
    if ".format(" in text and "login" in text:
        for login in _FORMATTED.finditer(text):
            number = login["before"].count("{}")
            for index, argument in enumerate(_LITERAL.finditer(text, *login.span("given"))):
                if index == number and argument["value"]:
                    yield argument, "password"


def _is_password(match: re.Match[str]) -> bool:
    text, value = match.string, match["value"]
    if _NO_PASSWORD.match(value) or not (match["quote"] or not _CODE.match(text, match.start("value"))):
        return False
    if match["sign"] == ":" or not match["quote"]:
        lead = text[max(text.rfind("\n", 0, match.start()) + 1, match.start() - _AROUND) : match.start()]
        is_text = match[0][0] in "\"'"  # one that begins with the name
        is_field = match["sign"] == "=" or is_text or _AT_FIELD.search(lead) is not None
        if not is_field or not _FIELD_ENDS.match(text, match.end()):
            return False
    elif match["name"].lower() != "pass":
        return True
    return (
        _is_like_one(value) or _BESIDE.search(text, max(match.start() - _AROUND, 0), match.end() + _AROUND) is not None
    )


def _is_like_one(value: str) -> bool:
    return is_telling(value) and turns(value) >= 3 and not _NAME.match(value)


def _is_said(match: re.Match[str]) -> bool:
    value = match["value"]
    if match["quote"]:
        return True
    if _CODE.match(match.string, match.start("value")):
        return False
    is_sure = _CODED.get(match["name"], match["name"]) in _PASSWORDS and match["sign"].strip(" \t") != ""
    return is_telling(value) or (is_sure and _FIELD_ENDS.match(match.string, match.end()) is not None)


def _keys(text: str) -> Iterator[re.Match[str]]:
    bases = [base_match.start() for base_match in _BASE.finditer(text)]
    for match in _KEY.finditer(text) if bases else ():
        if match["value"].isdigit() or not (match["quote"] or match["sign"] == ":"):
            continue
        if not match["quote"] and not _FIELD_ENDS.match(text, match.end()):
            continue
        near = bisect_left(bases, match.start())
        if any(_is_together(text, match.start("name"), base) for base in bases[max(near - 1, 0) : near + 1]):
            yield match


def _is_together(text: str, offset: int, other_offset: int) -> bool:
    """Whether two names are in one mapping: the same column of a block, or the same brackets."""
    first, last = min(offset, other_offset), max(offset, other_offset)
    if last - first > _MAX_MAPPING:
        return False
    columns = [at - max(text.rfind("\n", 0, at), at - _MAX_LINE) for at in (first, last)]
    between = text[first:last]
    if "\n" in between and columns[0] == columns[1]:
        # A dash before their column begins another item.
        begun = [line for line in between.split("\n")[1:] if line.lstrip().startswith("- ")]
        return not any(len(line) - len(line.lstrip()) + 1 < columns[0] for line in begun)
    if "\n" in between and text[max(first - _AROUND, 0) : first].rstrip(" \t\r\n\"'\\")[-1:] not in ("{", "(", ","):
        return False
    depth = 0
    for sign in between:
        depth += (sign in "{[(") - (sign in "}])")
        if depth < 0:
            return False
    return depth == 0
