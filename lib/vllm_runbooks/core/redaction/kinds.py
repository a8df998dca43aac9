"""Kinds of secrets that no name or form tells: arguments of programs, sentences, markup, vendors' files.

Each kind has an example and a look-alike that is not a secret; the tests read both. Kinds that gitleaks, detect-secrets
and the manuals of the programs list.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

from vllm_runbooks.core.redaction.parts import LazyPattern, is_telling, turns

_WORD = r"[\"']?(?P<value>[^\s\"'|<>$`-][^\s\"'|<>`]{2,300})"
"""An argument that is neither an option nor a variable."""
_ECHOED = (
    r"\b(?:echo|printf)(?:[ \t]{1,8}-\w{1,4}){0,3}(?:[ \t]{1,8}[\"']%s(?:\\n)?[\"'])?[ \t]{1,8}"
    r"(?:[\"']?[\w.-]{1,60}:)?[\"']?(?P<value>[^\s\"'|$`:]{3,300})[\"']?[ \t]{0,8}\|[ \t]{0,8}"
)
_LANGUAGES = (
    "passwort|kennwort|mot de passe|contraseña|senha|wachtwoord|hasło|parola|пароль|パスワード|비밀번호|mật khẩu"
)
_VERBS = ("is", "was")
_ENGLISH = r"pass(?:word|phrase|code)|(?:api |access |secret |private )?(?:key|token)|secret"


def _is_mixed(value: str) -> bool:
    return is_telling(value) and any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _is_random(value: str) -> bool:
    return _is_mixed(value) and len(value) >= 12 and turns(value) >= 4


def _is_any(value: str) -> bool:
    return bool(value)


class Kind(NamedTuple):
    """Where a secret is, as the group `value` of a pattern."""

    triggers: tuple[str, ...]
    """Lower-case words; every text with such a secret has one."""
    pattern: LazyPattern
    example: str
    """Text with the secret Zk9-Qw4x8Rt2Lm6Vb1."""
    harmless: str
    """Text that is like it, without a secret."""
    is_one: Callable[[str], bool] = _is_any
    kind: str = "password"


def _pattern(source: str) -> LazyPattern:
    return LazyPattern(source, re.ASCII | re.IGNORECASE)


def _of_program(program: str, options: str) -> LazyPattern:
    """Argument of an option of a program, on its line or on lines that a backslash joins."""
    return LazyPattern(
        rf"\b(?:{program})\b(?:[^\n\\;|&]|\\\r?\n){{0,300}}?\s(?:{options})(?:=|\s{{1,4}}){_WORD}", re.ASCII
    )


KINDS = (
    Kind(
        ("from-literal",), _pattern(rf"--from-literal(?:=|\s{{1,4}})[\"']?[\w.-]{{1,100}}={_WORD}"),
        "kubectl create secret generic s --from-literal=color=Zk9-Qw4x8Rt2Lm6Vb1",
        "kubectl create secret generic s --from-literal=color=$COLOR",
    ),
    Kind(
        ("login",), _of_program(r"az\s{1,4}login", "-p"),
        "az login -u me -p Zk9-Qw4x8Rt2Lm6Vb1", "az login -u me && mkdir -p /data/models",
    ),
    Kind(
        ("mc ",), _pattern(
            r"\bmc\s{1,4}(?:alias\s{1,4}set|config\s{1,4}host\s{1,4}add)"
            rf"(?:\s{{1,4}}\S{{1,200}}){{3}}\s{{1,4}}{_WORD}"
        ),
        "mc alias set store http://10.0.0.1:9000 me Zk9-Qw4x8Rt2Lm6Vb1", "mc alias list store http://10.0.0.1:9000 a b",
    ),
    Kind(
        ("htpasswd",), _pattern(
            rf"\bhtpasswd(?=[ \t]{{1,8}}[^\n]{{0,40}}?-\w{{0,5}}b)(?:[ \t]{{1,8}}-\w{{1,9}}){{1,5}}"
            rf"(?:(?<=n)|(?<=n\w)|(?<=n\w\w)|[ \t]{{1,8}}[^\s-]\S{{0,200}})[ \t]{{1,8}}\S{{1,100}}[ \t]{{1,8}}{_WORD}"
        ),
        "htpasswd -b -c users me Zk9-Qw4x8Rt2Lm6Vb1", "htpasswd -c users me # asks",
    ),
    Kind(
        ("chpasswd", "sudo", "secret create", "with-token"), _pattern(
            rf"{_ECHOED}(?:sudo\s{{1,4}}(?:-\w{{1,4}}\s{{1,4}}){{0,3}}?-\w{{0,4}}S\b|(?:sudo[ \t]{{1,8}})?(?:chpasswd"
            r"|(?:docker|podman)\s{1,4}secret\s{1,4}create|gh\s{1,4}auth\s{1,4}login[^\n]{0,80}--with-token))"
        ),
        "echo 'me:Zk9-Qw4x8Rt2Lm6Vb1' | sudo chpasswd", "echo options | sudo tee /etc/modprobe.d/nvidia.conf",
    ),
    Kind(
        ("sudo -", "with-token"),
        _pattern(rf"\b(?:sudo\s{{1,4}}-\w{{0,4}}S|auth\s{{1,4}}login)\b[^\n]{{0,80}}?<<<\s{{0,4}}{_WORD}"),
        "gh auth login --with-token <<< Zk9-Qw4x8Rt2Lm6Vb1", "gh auth login --with-token <<< $GITHUB_TOKEN",
    ),
    Kind(
        ("useradd", "usermod"), _of_program("useradd|usermod", "-p"),
        "useradd -m -p Zk9-Qw4x8Rt2Lm6Vb1 me", "useradd -m me; mkdir -p /home/me",
    ),
    Kind(
        ("ipmitool",), _of_program("ipmitool", "-P"),
        "ipmitool -H 10.0.0.1 -U me -P Zk9-Qw4x8Rt2Lm6Vb1 power on", "ipmitool -H 10.0.0.1 -p 623 power on",
    ),
    Kind(
        ("pass:",), _pattern(rf"-pass(?:in|out)?\s{{1,4}}[\"']?pass:{_WORD}"),
        "openssl rsa -in key.pem -passin pass:Zk9-Qw4x8Rt2Lm6Vb1", "openssl rsa -in key.pem -passin env:NAME",
    ),
    Kind(
        ("login",), _pattern(
            r"\b(?:wandb|hf\s{1,4}auth|huggingface-cli|modelscope|vault)\s{1,4}login"
            rf"(?:\s{{1,4}}--?[a-z-]{{1,20}}(?:=\S{{1,100}}|\s{{1,4}}https?://\S{{1,100}})?){{0,4}}\s{{1,4}}{_WORD}"
        ),
        "wandb login --relogin Zk9-Qw4x8Rt2Lm6Vb1", "wandb login --relogin and paste the key", _is_mixed, "key",
    ),
    Kind(
        ("ossutil", "obsutil", "coscmd"), _of_program(r"ossutil(?:64)?|obsutil|coscmd", "-k|-s"),
        "ossutil config -e oss.example -i me -k Zk9-Qw4x8Rt2Lm6Vb1", "ossutil cp -r models oss://bucket/x", kind="key",
    ),
    Kind(
        ("ftp",), _pattern(rf"\bl?ftp\b[^\n]{{0,100}}?\s-u\s{{1,4}}[\"']?[^\s,\"']{{1,100}},{_WORD}"),
        "lftp -u me,Zk9-Qw4x8Rt2Lm6Vb1 sftp://host", "lftp -u me sftp://host",
    ),
    *(
        Kind(
            ("snmp",), _of_program(r"snmp[a-z]{2,10}", option),
            f"snmpwalk -v3 -u me {option} Zk9-Qw4x8Rt2Lm6Vb1 host", "snmpwalk -v3 -u me host",
        )
        for option in ("-A", "-X", "-c")
    ),
    Kind(
        ("ldap",), _of_program(r"ldap[a-z]{3,10}", "-w"),
        "ldapsearch -x -D cn=me -w Zk9-Qw4x8Rt2Lm6Vb1 -b dc=x", "ldapsearch -x -D cn=me -W -b dc=x",
    ),
    Kind(
        tuple(f"{name} {verb}" for name in ("word", "phrase", "code", "token", "key", "secret") for verb in _VERBS),
        _pattern(
            rf"\b(?:{_ENGLISH})[ \t]{{1,4}}(?:{'|'.join(_VERBS)})(?:[ \t]{{0,4}}:)?[ \t]{{1,4}}[\"'`]?"
            r"(?P<value>[^\s\"'`<|{\[(/]{8,300}[^\s\"'`.,;)])"
        ),
        "Your token is: Zk9-Qw4x8Rt2Lm6Vb1", "the next token is sampled_with_top-p-0.95 of 32000", _is_random,
    ),
    Kind(
        tuple(_LANGUAGES.split("|")),
        LazyPattern(
            rf"(?:{_LANGUAGES})[\"']?[ \t]{{0,4}}[:=\uff1a][ \t]{{0,4}}[\"']?"
            r"(?P<value>[^\s\"',;]{4,300})",
            re.IGNORECASE,
        ),
        "Passwort: Zk9-Qw4x8Rt2Lm6Vb1", "Das Passwort ist falsch",
    ),
    Kind(
        ("</",), _pattern(
            r"<(?:[\w.-]{1,40}:)?[\w.-]{0,40}?(?:passw(?:or)?d|passphrase|api-?_?key|access-?_?key|private-?_?key|secret|token)"
            r"(?:[ \t][^<>\n]{0,200})?>\s{0,40}(?P<value>[^<>\s$]{4,400})\s{0,40}</"
        ),
        "<apiKey>Zk9-Qw4x8Rt2Lm6Vb1</apiKey>", "<tokenizer>slow2-Fast4</tokenizer> <password></password>",
    ),
    Kind(
        ("key=",), _pattern(r"https?://[^\s\"'<>?]{1,400}\?(?:[^\s\"'<>]{0,200}&)?key=(?P<value>[\w-]{16,200})"),
        "https://api.example/v1/models?alt=json&key=Zk9-Qw4x8Rt2Lm6Vb1", "https://docs.example/page?key=tensor-parallel-size-2",
        _is_random, "key",
    ),
    Kind(
        ("ltai", "akid"), LazyPattern(
            r"\b(?P<value>LTAI(?=[A-Za-z0-9]{0,20}\d)[A-Za-z0-9]{12,30}|AKID(?=[A-Za-z0-9]{0,40}\d)[A-Za-z0-9]{32,40})\b",
            re.ASCII,
        ),
        "id LTAI5tZk9Qw4x8Rt2Lm6Vb1a", "LTAI is a prefix", kind="key",
    ),
    Kind(
        ("webhook.office.com",), _pattern(r"webhook\.office\.com/webhookb2/(?P<value>[\w@/-]{30,400})"),
        "https://a.webhook.office.com/webhookb2/1b2c3d4e-0000-1111-2222-333344445555@1b2c3d4e/IncomingWebhook/0a1b2c3d",
        "https://a.webhook.office.com/webhookb2/", kind="webhook",
    ),
    Kind(
        (":aa",), LazyPattern(r"(?<![\w.:])(?P<value>\d{8,10}:AA[A-Za-z0-9_-]{32,35})(?![\w-])", re.ASCII),
        "bot 123456789:AAEZk9Qw4x8Rt2Lm6Vb1Zk9Qw4x8Rt2Lm6V", "port 12345678:AA", kind="token",
    ),
    Kind(
        ('"username"',), _pattern(r"\"username\"\s{0,4}:[^{}]{1,200}\"key\"\s{0,4}:\s{0,4}\"(?P<value>[0-9a-f]{32})\""),
        '{"username": "me", "key": "0a1b2c3d4e5f60718293a4b5c6d7e8f9"}', '{"username": "me", "key": "x"}', kind="key",
    ),
)  # fmt: skip
"""Searched on the lines with a trigger."""
_VALUE = r"(?:\"(?P<quoted>[^\"\n]+)\"|'(?P<single>[^'\n]+)'|(?P<plain>[^\s\"'#](?:[^\n]*[^\s\"'])?)[\"']?)"
_PUTTY = LazyPattern(r"Private-Lines: \d{1,3}[ \t]*\r?\n(?P<value>(?:[A-Za-z0-9+/=]{1,90}\r?\n){1,200})", re.ASCII)
_MAC = LazyPattern(r"Private-MAC: (?P<value>[0-9a-f]{32,64})", re.ASCII)
_KIND_LINE = LazyPattern(
    r"^(?P<lead>[ \t]*(?:-[ \t]{1,4})?)kind:[ \t]*[\"']?Secret[\"']?[ \t]*\r?$", re.ASCII | re.MULTILINE
)
_ENTRY = LazyPattern(
    rf"[ \t]*[\"']?[\w.-]{{1,253}}[\"']?:[ \t]*(?:(?P<block>[|>][+-]?\d?)|{_VALUE})?[ \t]*\r?\Z", re.ASCII
)
_DATA = LazyPattern(r"[\"'](?:data|stringData)[\"']\s{0,8}:\s{0,8}\{(?P<entries>[^{}]{1,200000})\}", re.ASCII)
_KIND_FIELD = LazyPattern(r"[\"']kind[\"']\s{0,8}:\s{0,8}[\"']Secret[\"']", re.ASCII)
_FIELD = LazyPattern(r":\s{0,8}[\"'](?P<value>[^\"'\n]{1,200000})[\"']", re.ASCII)
_MAX_MANIFEST = 100_000
"""Characters between a manifest's kind and its data."""


def find(text: str, lowered: str) -> Iterator[tuple[re.Match[str], str]]:
    """Secrets in some lines as the group `value` of a match, with their kind; `lowered` is the text in lower case."""
    for kind in KINDS:
        if any([trigger in lowered for trigger in kind.triggers]):
            for match in kind.pattern.finditer(text):
                if kind.is_one(match["value"]):
                    yield match, kind.kind


TRIGGERS = tuple(dict.fromkeys(trigger for kind in KINDS for trigger in kind.triggers))


def structural(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and kind of the secrets of whole documents: values of Kubernetes Secrets, PuTTY's keys."""
    if "Private-" in text:
        for pattern in (_PUTTY, _MAC):
            yield from ((*match.span("value"), "private_key") for match in pattern.finditer(text))
    if "Secret" not in text or "ata" not in text:
        return
    for kind in _KIND_LINE.finditer(text):
        yield from ((start, end, "key") for start, end in _manifest(text, kind))
    kinds = [match.start() for match in _KIND_FIELD.finditer(text)]
    for data in _DATA.finditer(text) if kinds else ():
        after = bisect_left(kinds, data.start())
        if any(_is_one_object(text, data.start(), at) for at in kinds[max(after - 1, 0) : after + 1]):
            yield from ((*m.span("value"), "key") for m in _FIELD.finditer(text, *data.span("entries")))


def _is_one_object(text: str, first: int, other: int) -> bool:
    first, other = min(first, other), max(first, other)
    if other - first > _MAX_MANIFEST:
        return False
    depth = 0
    for sign in re.findall(r"[{}]", text[first:other]):
        depth += 1 if sign == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def _manifest(text: str, kind: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Values of `data` and `stringData` in the mapping that has a line `kind: Secret`."""
    column = len(kind["lead"])
    begin, end = _mapping(text, kind.start(), column)
    is_data, block = False, None
    position = begin
    for line in text[begin:end].splitlines(keepends=True):
        start, position = position, position + len(line)
        bare = line.strip()
        indent = len(line) - len(line.lstrip(" \t")) + (2 if bare.startswith("- ") else 0)
        if not bare or bare.startswith("#"):
            continue
        if indent <= column:
            is_data, block = bare.removeprefix("- ").rstrip(": ").strip("\"'") in ("data", "stringData"), None
        elif is_data and block is not None and indent > block:
            yield start + len(line) - len(line.lstrip()), start + len(line.rstrip())
        elif is_data and (entry := _ENTRY.match(line.rstrip("\r\n"))) is not None:
            block = indent if entry["block"] else None
            for group in ("quoted", "single", "plain"):
                if entry[group]:
                    yield start + entry.start(group), start + entry.end(group)


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
