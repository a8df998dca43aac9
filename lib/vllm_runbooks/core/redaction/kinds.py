"""Secrets that only their context identifies: arguments of programs, sentences, markup, vendors' files.

Each kind has an example and a look-alike that is not a secret; the tests read both. Kinds that gitleaks, detect-secrets
and the manuals of the programs list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from vllm_runbooks.core.redaction.parts import LazyPattern, escaped, is_telling, turns

_VALUE = r"(?P<value>(?(quote)(?![$`-])(?:(?!(?P=quote))[^\n]){3,300}|[^\s\"'|<>$`-][^\s\"'|<>`]{2,300}))"
_WORD = rf"(?P<quote>[\"'])?{_VALUE}"
"""An argument that is neither an option nor a variable."""
_ECHOED = (
    r"\b(?:echo|printf)(?:[ \t]{1,8}-\w{1,4}){0,3}(?:[ \t]{1,8}[\"']%s(?:\\n)?[\"'])?[ \t]{1,8}"
    r"(?:[\"']?[\w.-]{1,60}:)?[\"']?(?P<value>[^\s\"'|$`:]{3,300})[\"']?[ \t]{0,8}\|[ \t]{0,8}"
)
_LANGUAGES = (
    "passwort|kennwort|mot de passe|contraseña|senha|wachtwoord|hasło|parola|пароль|パスワード|비밀번호|mật khẩu"
)
_WORDS = tuple(_LANGUAGES.split("|"))
_ESCAPED = tuple(
    dict.fromkeys(escaped(form) for word in _WORDS if not word.isascii() for form in (word, word.capitalize()))
)
_ALL_LANGUAGES = "|".join(map(re.escape, (*_WORDS, *_ESCAPED)))
"""The words, also as JSON escapes them."""
_IN_LANGUAGES = tuple(dict.fromkeys(word.lower() for word in (*_WORDS, *_ESCAPED)))
_FIELD = r"[\w.-]{0,40}?(?:passw(?:or)?d|passphrase|(?:api|access|private)[._-]?key|secret(?:[._-]?key)?|token)"
"""Name of a secret in XML."""
_VERBS = ("is", "was")
_ENGLISH = r"pass(?:word|phrase|code)|(?:api |access |secret |private )?(?:key|token)|secret"


def _is_mixed(value: str) -> bool:
    return is_telling(value) and any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _is_random(value: str) -> bool:
    return _is_mixed(value) and len(value) >= 12 and turns(value) >= 4


class Kind(NamedTuple):
    """Where a secret is, as the group `value` of a pattern."""

    triggers: tuple[str, ...]
    """Lower-case words, one of which is in every text with such a secret."""
    pattern: LazyPattern
    example: str
    """Text with the secret Zk9-Qw4x8Rt2Lm6Vb1."""
    harmless: str
    """Text that is like it, without a secret."""
    is_one: Callable[[str], bool] = bool
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
        ("from-literal",), _pattern(
            r"--from-literal(?:=|\s{1,4})(?P<name>[\w.-]{1,100}=)?(?P<quote>[\"'])?(?(name)|[\w.-]{1,100}=)"
            + _VALUE.replace("`-", "`")  # a value may begin with a dash
        ),
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
    *(
        Kind((program,), _of_program(source, "-P"), f"{command} -P Zk9-Qw4x8Rt2Lm6Vb1 x", f"{command} -p 623 x")
        for program, source, command in (
            ("ipmitool", "ipmitool", "ipmitool -H 10.0.0.1 -U me"), ("sqlcmd", "sqlcmd", "sqlcmd -S host -U me"),
            ("mosquitto_", r"mosquitto_\w{2,3}", "mosquitto_pub -u me"), ("zip -", "zip", "zip -r"),
        )
    ),
    Kind(
        ("7z",), _pattern(r"\b7z[ar]?[ \t][^\n|;&]{0,200}?[ \t]-p(?P<quote>[\"'])?" + _VALUE),
        "7z a -pZk9-Qw4x8Rt2Lm6Vb1 out.7z x", "7z a -p out.7z x # asks",
    ),
    Kind(
        ("storepass", "keypass"), _pattern(rf"\s-(?:store|key)pass\s{{1,4}}(?:pass:)?{_WORD}"),
        "keytool -list -storepass Zk9-Qw4x8Rt2Lm6Vb1", "keytool -list -storepass $PASS",
    ),
    Kind(
        ("smb", "rpcclient"), _pattern(
            r"\b(?:smb[a-z]{3,9}|rpcclient)[ \t][^\n]{0,200}?[ \t]-U[ \t]{0,4}[\"']?[^\s%\"']{1,100}%"
            r"(?P<value>[^\s\"'$]{3,300})"
        ),
        "smbclient //host/share -U me%Zk9-Qw4x8Rt2Lm6Vb1", "smbclient //host/share -U me -m SMB3",
    ),
    Kind(
        ("freerdp", "net use"), _pattern(
            r"\b(?:[xw]l?freerdp3?[ \t][^\n]{0,200}?[ \t]/p:|net[ \t]use[ \t][^\n]{0,200}?[ \t]/user:\S{1,100}[ \t])"
            r"(?P<value>[^\s\"'$%/*][^\s\"']{2,300})"
        ),
        "xfreerdp /u:me /p:Zk9-Qw4x8Rt2Lm6Vb1 /v:host", "net use x: \\\\host\\share /user:me /persistent:yes",
    ),
    Kind(
        ("on >",), _pattern(
            r"\buser[ \t]{1,4}[\w-]{1,60}[ \t](?>[^\n>]{0,200})(?<=[ \t]on[ \t])>"
            r"(?P<value>[^\s\"'$>&][^\s\"'>&]{2,300})(?=[ \t]{1,4}[~&+@%-])"
        ),
        "user me on >Zk9-Qw4x8Rt2Lm6Vb1 ~* +@all", "create user me now >/dev/null",
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
            r"(?P<value>[^\s\"'`<|{\[(/\\]{8,300}[^\s\"'`.,;)\\])"
        ),
        "Your token is: Zk9-Qw4x8Rt2Lm6Vb1", "the next token is sampled_with_top-p-0.95 of 32000", _is_random,
    ),
    Kind(
        _IN_LANGUAGES,
        LazyPattern(
            rf"(?:{_ALL_LANGUAGES})[\"']?[ \t]{{0,4}}(?:[:=\uff1a]|\\uff1a)[ \t]{{0,4}}[\"']?"
            r"(?P<value>[^\s\"',;\\]{4,300})",
            re.IGNORECASE,
        ),
        "Passwort: Zk9-Qw4x8Rt2Lm6Vb1", "Passwort: (nicht gesetzt)", lambda value: not value.strip("().:!").isalpha(),
    ),
    Kind(
        (*_IN_LANGUAGES, "token es", "token é"),
        LazyPattern(
            rf"(?:{_ALL_LANGUAGES}|token)"
            r"(?:[ \t]{1,4}(?:lautet|ist|es|est|\u00e9|\\u00e9|\u00e8|jest|is)[ \t:]{1,4}"
            r"|[ \t]{0,4}(?:\u306f|\ub294|\\u306f|\\ub294)[ \t:]{0,4})[\"'`]?"
            r"(?P<value>[^\s\"'`<|{\[(/\\]{8,300}[^\s\"'`.,;)\\])",
            re.IGNORECASE,
        ),
        "Kennwort lautet Zk9-Qw4x8Rt2Lm6Vb1", "Das Passwort ist falsch", _is_random,
    ),
    Kind(
        ("</",), _pattern(
            rf"<(?:[\w.-]{{1,40}}:)?{_FIELD}(?:[ \t][^<>\n]{{0,200}})?>"
            r"\s{0,40}(?P<value>[^<>\s$]{4,400})\s{0,40}</"
        ),
        "<apiKey>Zk9-Qw4x8Rt2Lm6Vb1</apiKey>", "<tokenizer>slow2-Fast4</tokenizer> <password></password>",
    ),
    Kind(
        ("value=",), _pattern(
            rf"<\w{{1,40}}[ \t](?>[^<>\n]{{0,200}}?\b(?:key|name|id)=[\"']{_FIELD}[\"'])[^<>\n]{{0,200}}?\bvalue="
            r"(?P<quote>[\"'])(?P<value>[^\"'<>\n]{3,400})(?P=quote)"
        ),
        '<add key="password" value="Zk9-Qw4x8Rt2Lm6Vb1"/>', '<add key="tokenizer" value="slow2-Fast4"/>',
    ),
    Kind(
        ("value=",), _pattern(
            r"<\w{1,40}[ \t][^<>\n]{0,200}?\bvalue=(?P<quote>[\"'])(?P<value>[^\"'<>\n]{3,400})(?P=quote)"
            rf"[^<>\n]{{0,200}}?\b(?:key|name|id)=[\"']{_FIELD}[\"']"
        ),
        '<add value="Zk9-Qw4x8Rt2Lm6Vb1" key="apiKey"/>', '<add value="slow2-Fast4" key="tokenizer"/>',
    ),
    Kind(
        ("</",), _pattern(
            rf"<name>{_FIELD}</name>\s{{0,60}}<value>\s{{0,40}}(?P<value>[^<>\s$]{{3,400}})\s{{0,40}}</value>"
        ),
        "<name>fs.secret.key</name> <value>Zk9-Qw4x8Rt2Lm6Vb1</value>", "<name>fs.path</name> <value>x/y9</value>",
    ),
    Kind(
        ("</",), _pattern(
            rf"<\w{{1,40}}[ \t](?>[^<>\n]{{0,200}}?\b(?:key|name|id)=[\"']{_FIELD}[\"'])[^<>/\n]{{0,200}}>"
            r"\s{0,40}(?P<value>[^<>\s$]{3,400})\s{0,40}</"
        ),
        '<string name="api_key">Zk9-Qw4x8Rt2Lm6Vb1</string>', '<string name="key_color">slow2-Fast4</string>',
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
_PUTTY = LazyPattern(r"Private-Lines: \d{1,3}[ \t]*\r?\n(?P<value>(?:[A-Za-z0-9+/=]{1,90}\r?\n){1,200})", re.ASCII)
_MAC = LazyPattern(r"Private-MAC: (?P<value>[0-9a-f]{32,64})", re.ASCII)
_KIND_LINE = LazyPattern(
    r"^(?P<lead>[ \t]*(?:-[ \t]{1,4})?)kind:[ \t]*[\"']?Secret(?P<list>List)?[\"']?[ \t]*(?:#[^\n]*)?\r?$",
    re.ASCII | re.MULTILINE,
)
_DATA_LINE = LazyPattern(r"[ \t]*(?:-[ \t]{1,4})?[\"']?(?:data|stringData)[\"']?:(?P<rest>[^\r\n]*)", re.ASCII)
_COMMENT = r"[ \t]*(?:(?<=[ \t])#.*)?\Z"
_ENTRY = LazyPattern(
    r"[ \t]*(?:\"[^\"\n]{1,253}\"|'[^'\n]{1,253}'|[^\s:#][^:\n]{0,252}):(?:[ \t]+(?:!\S{1,40}[ \t]+)?"
    rf"(?:[|>][+-]?\d?[+-]?{_COMMENT}|\"(?P<quoted>(?:[^\"\\]|\\.)*)\"{_COMMENT}|'(?P<single>(?:[^']|'')*)'{_COMMENT}"
    rf"|(?P<plain>[^\s#](?:[^\n]*?\S)??){_COMMENT}))?",
)
"""A key with its value, which may go on in the lines below."""
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
    yield from ((start, end, "key") for start, end in _json_values(text))


def _json_values(text: str) -> Iterator[tuple[int, int]]:
    """Values of `data` and `stringData` in the objects that have `"kind": "Secret"`."""
    objects, secrets, lists, position = [-1], set[int](), set[int](), 0
    values: list[tuple[int, int, int, int]] = []
    while sign := _SIGN.search(text, position):
        position = sign.end()
        if sign["data"]:
            while pair := _PAIR.match(text, position):
                values.append((objects[-1], objects[max(len(objects) - 2, 0)], *pair.span("value")))
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
    data_column, entry_column, position = None, None, span[0]
    for line in text[slice(*span)].splitlines(keepends=True):
        start, position = position, position + len(line)
        bare = line.strip()
        indent = len(line) - len(line.lstrip(" \t")) + (2 if bare.startswith("- ") else 0)
        outer = column if data_column is None else data_column
        if not bare or (indent <= outer and bare.startswith(("#", "{{"))):
            continue
        if data_column is None or indent <= data_column:
            data = _DATA_LINE.match(line) if is_list or indent <= column else None
            data_column, entry_column = indent if data else None, None
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
