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
_FIELD = (
    r"[\w.-]{0,40}?(?:passw(?:or)?d|passphrase|(?:api|access|private)[._-]?key|secret(?:[._-]?key)?"
    r"|(?<!pad_)(?<!eos_)(?<!bos_)(?<!unk_)(?<!next_)token)"
)
"""Name of a secret in XML."""
_VERBS = ("is", "was")
_WHOSE = ("for", "of", "to", "on")
_FEW_WORDS = 2
"""Words of a quoted passphrase, at the least, without those of `_WHOSE`."""
_MAX_TOKEN = 5
"""Letters of a tokenizer's token between tags, such as "bos"."""
_PART = r"[A-Za-z]{0,40}+\d{0,6}+(?:[a-z]{1,2}+\d{0,2}+)?+"
_HYPHENATED = re.compile(rf"{_PART}(?:[-_]{_PART}){{1,8}}", re.ASCII)
"""A name of words, each with at most one number, as in "vllm-0-19-0-cu128"."""
_SAID = r"[\"'`]?(?P<value>[^\s\"'`<|{\[(/\\]{7,300}[^\s\"'`.,;)\\])"
"""A value in a sentence, without the sign that ends it."""


def _is_mixed(value: str) -> bool:
    return is_telling(value) and any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _is_said(value: str) -> bool:
    """Whether a value in a sentence is a password rather than a word with a number, as in "sha256-hashed"."""
    return _is_mixed(value) and not _HYPHENATED.fullmatch(value)


def _is_phrase(value: str) -> bool:
    return _is_said(value) or sum(word not in _WHOSE for word in value.split()) >= _FEW_WORDS


def _is_random(value: str) -> bool:
    return _is_mixed(value) and len(value) >= 12 and turns(value) >= 4


def _is_irregular(value: str) -> bool:
    """Whether a value is hardly a word with a number, as far as its length allows."""
    return _is_mixed(value) and len(value) >= 10 and turns(value) >= 3 and not _HYPHENATED.fullmatch(value)


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


_PROGRAMS = (
    ("login", r"az\s{1,4}login", "-p", "az login -u me"),
    ("useradd", "useradd", "-p", "useradd -m me"),
    ("usermod", "usermod", "-p", "usermod me"),
    ("ipmitool", "ipmitool", "-P", "ipmitool -H 10.0.0.1 -U me"),
    ("sqlcmd", "sqlcmd", "-P", "sqlcmd -S host -U me"),
    ("mosquitto_", r"mosquitto_\w{2,3}", "-P", "mosquitto_pub -u me"),
    ("zip -", "(?:un)?zip", "-P", "unzip"),
    ("openssl", r"openssl\s{1,4}(?:enc|aes\S{0,20})", "-k", "openssl enc -aes-256-cbc"),
    ("ossutil", "ossutil(?:64)?", "-k", "ossutil config -i me"),
    ("obsutil", "obsutil", "-k", "obsutil config -i=me"),
    ("coscmd", "coscmd", "-s", "coscmd config -a me"),
    ("ldap", r"ldap[a-z]{3,10}", "-w", "ldapsearch -x -D cn=me"),
    *(("snmp", r"snmp[a-z]{2,10}", option, "snmpwalk -v3 -u me") for option in ("-A", "-X", "-c")),
)
"""Trigger, program, option with a secret, and a command: on one line, or on lines that a backslash joins."""
_NAMED_SO = rf"\b(?:key|name|id)=[\"']{_FIELD}[\"']"
_OPENED = r"<\w{1,40}[ \t]"
_CONTENT = r"\s{0,40}(?P<value>[^<>\s$]{3,400})\s{0,40}</"
_VALUE_OF = r"\bvalue=(?P<quote>[\"'])(?P<value>[^\"'<>\n]{3,400})(?P=quote)"
_MARKUP = (
    (
        "</",
        # A tokenizer's tokens are short words.
        (
            rf"<(?:[\w.-]{{1,40}}:)?{_FIELD}(?:[ \t][^<>\n]{{0,200}})?>"
            rf"(?:(?<!<token>)|(?!\s{{0,40}}(?-i:[a-z]{{1,{_MAX_TOKEN}}})\s{{0,40}}<)){_CONTENT}"
        ),
        "<apiKey>Zk9-Qw4x8Rt2Lm6Vb1</apiKey>",
        "<tokenizer>slow2-Fast4</tokenizer> <password></password> <token>bos</token>",
    ),
    (
        "</",
        rf"<name>{_FIELD}</name>\s{{0,60}}<value>{_CONTENT}value>",
        "<name>fs.secret.key</name> <value>Zk9-Qw4x8Rt2Lm6Vb1</value>",
        "<name>fs.path</name> <value>x/y9</value>",
    ),
    (
        "</",
        rf"{_OPENED}(?>[^<>\n]{{0,200}}?{_NAMED_SO})[^<>/\n]{{0,200}}>{_CONTENT}",
        '<string name="api_key">Zk9-Qw4x8Rt2Lm6Vb1</string>',
        '<string name="key_color">slow2-Fast4</string>',
    ),
    (
        "value=",
        rf"{_OPENED}(?>[^<>\n]{{0,200}}?{_NAMED_SO})[^<>\n]{{0,200}}?{_VALUE_OF}",
        '<add key="password" value="Zk9-Qw4x8Rt2Lm6Vb1"/>',
        '<add key="tokenizer" value="slow2-Fast4"/>',
    ),
    (
        "value=",
        rf"<(?:[\w.-]{{1,40}}:)?{_FIELD}[ \t][^<>\n]{{0,200}}?{_VALUE_OF}",
        '<secret value="Zk9-Qw4x8Rt2Lm6Vb1"/>',
        '<tokenizer value="slow2-Fast4"/>',
    ),
    (
        "value=",
        rf"{_OPENED}[^<>\n]{{0,200}}?{_VALUE_OF}[^<>\n]{{0,200}}?{_NAMED_SO}",
        '<add value="Zk9-Qw4x8Rt2Lm6Vb1" key="apiKey"/>',
        '<add value="slow2-Fast4" key="tokenizer"/>',
    ),
)
"""Trigger, pattern, example and look-alike in XML."""
_HEX_EXAMPLE = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
_LETTERS = "Zk9Qw4x8Rt2Lm6Vb1" * 5
_SHAPES = (
    ("twilio", "(?:SK|AC)[0-9a-f]{32}", f"SK{_HEX_EXAMPLE}"),
    ("airtable", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", f"patZk9Qw4x8Rt2Lm6.{_HEX_EXAMPLE * 2}"),
    ("mailgun", "key-[0-9a-f]{32}|[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}", f"{_HEX_EXAMPLE}-0a1b2c3d-4e5f6071"),
    ("-us", r"[0-9a-f]{32}-us\d{1,2}", f"{_HEX_EXAMPLE}-us12"),
    ("discord", r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}", f"M{_LETTERS[:23]}.Zk9Qw4.{_LETTERS[:27]}"),
    ("facebook", r"\d{15,16}\|[\w-]{27,40}", f"140304523381895|{_LETTERS[:27]}"),
    ("clickhouse", "4b1d[A-Za-z0-9]{38}", f"4b1d{_LETTERS[:38]}"),
    ("launchdarkly", r"(?:api|sdk|mob)-[0-9a-f]{8}(?:-[0-9a-f]{4,12}){4}", "sdk-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"),
    *((name, "[A-Za-z0-9]{84}", _LETTERS[:84]) for name in ("ngc", "nvcr.io")),
    ("atlasv1", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}", f"Zk9Qw4x8Rt2Lm6.atlasv1.{_LETTERS[:64]}"),
    ("_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", f"Zk9Qw4_{_LETTERS[:29]}_mmk"),
    ("q~", r"[\w.]{3}\dQ~[\w.~-]{31,34}", f"Zk98Q~{_LETTERS[:32]}"),
    (
        ".acc",
        r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}\.[\w+/=-]{30,120}",
        f"sc_zk9qw4x8.zk9qw.acc-zk9qw4x8rt2.{_LETTERS[:34]}",
    ),
)
"""Trigger, such as the issuer's name, and shape of tokens without a prefix that is rare enough; an example."""


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
    *(
        Kind(
            (trigger,), LazyPattern(
                rf"\b(?:{program})\b(?:[^\n\\;|&]|\\\r?\n){{0,300}}?\s(?:{option})(?:=|\s{{1,4}}){_WORD}", re.ASCII
            ),
            f"{command} {option} Zk9-Qw4x8Rt2Lm6Vb1 x", f"{command}; mkdir -p /data/models",
        )
        for trigger, program, option, command in _PROGRAMS
    ),
    Kind(
        ("chpasswd",),
        _pattern(r"\bchpasswd\b[^\n<]{0,80}<<<[ \t]{0,4}[\"']?[\w.-]{1,60}:(?P<value>[^\s\"'$`|]{3,300})"),
        "sudo chpasswd <<< root:Zk9-Qw4x8Rt2Lm6Vb1", "sudo chpasswd <<< root:$PASS",
    ),
    *(
        Kind(
            ("kv put", "kv patch"), _pattern(
                rf"\bkv\s{{1,4}}(?:put|patch)(?:\s{{1,4}}\S{{1,200}}){{{before}}}\s{{1,4}}[\w.-]{{1,100}}="
                r"(?P<quote>[\"'])?" + _VALUE.replace("$`-]", "$`@-]")
            ),
            f"vault kv put secret/app{' a=1' * (before - 1)} color=Zk9-Qw4x8Rt2Lm6Vb1",
            f"vault kv put secret/app{' a=1' * (before - 1)} color=@file.txt",
        )
        for before in range(1, 6)
    ),
    Kind(
        ("net user",), _pattern(
            r"\bnet[ \t]{1,4}user[ \t]{1,4}[^\s/]\S{0,60}[ \t]{1,4}\"?"
            r"(?P<value>[^\s\"'$%/*<>|][^\s\"'<>|]{2,300})"
        ),
        "net user bob Zk9-Qw4x8Rt2Lm6Vb1 /add", "net user bob /delete", _is_mixed,
    ),
    Kind(
        ("file=<(", "file <("), _pattern(
            r"pass(?:word|phrase|wd)?-file[= ]<\([ \t]{0,4}(?:echo|printf)(?:[ \t]{1,4}-\w{1,4}){0,3}[ \t]{1,4}"
            r"(?:[\"']%s(?:\\n)?[\"'][ \t]{1,4})?[\"']?(?P<value>[^\s\"'$`|()]{3,300})"
        ),
        "restic --password-file=<(echo Zk9-Qw4x8Rt2Lm6Vb1) backup", "restic --password-file=<(echo $PASS) backup",
    ),
    Kind(
        tuple(f"api{sign}key {verb}" for sign in "_-" for verb in (*_VERBS, "'", '"')) + tuple(
            f"{word} {start}" for word in ("api key", "password", "token") for start in ("'", '"', "`", "for ")
        ) + ("_key is", "_key was", "_token was", "_password is", "_password was"), _pattern(
            r"(?:api[ _-]?key|access[ _-]?key|_key|_token|password)(?:[ \t]{1,4}for[ \t]{1,4}[\w.@-]{1,60})?"
            r"(?:[ \t]{1,4}(?:is|was)(?:[ \t]{0,4}:)?[ \t]{1,4}[\"'`]?|[ \t]{1,4}[\"'`])"
            r"(?P<value>[^\s\"'`<|{\[(/\\]{8,300}[^\s\"'`.,;)\\])"
        ),
        "NGC_API_KEY is Zk9-Qw4x8Rt2Lm6Vb1", "VLLM_API_KEY is not set, api_key is None", _is_random, "key",
    ),
    Kind(
        ("schl\u00fcssel", r"schl\u00fcssel"), LazyPattern(
            r"schl(?:\u00fc|\\u00fc)ssel(?:[ \t]{1,4}(?:lautet|ist))?[\"']?[ \t]{0,4}[:= ][ \t]{0,4}[\"']?"
            r"(?P<value>[^\s\"'`<|{\[(/\\]{8,300}[^\s\"'`.,;)\\])", re.IGNORECASE,
        ),
        "API-Schl\u00fcssel: Zk9-Qw4x8Rt2Lm6Vb1", "API-Schl\u00fcssel: nicht gesetzt", _is_mixed, "key",
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
        ("ftp",), _pattern(rf"\bl?ftp\b[^\n]{{0,100}}?\s-u\s{{1,4}}[\"']?[^\s,\"']{{1,100}},{_WORD}"),
        "lftp -u me,Zk9-Qw4x8Rt2Lm6Vb1 sftp://host", "lftp -u me sftp://host",
    ),
    Kind(
        tuple(f"{name} {verb}" for name in ("word", "phrase", "code") for verb in _VERBS),
        _pattern(rf"\bpass(?:word|phrase|code)[ \t]{{1,4}}(?:{'|'.join(_VERBS)})(?:[ \t]{{0,4}}:)?[ \t]{{1,4}}{_SAID}"),
        "my password is Zk9-Qw4x8Rt2Lm6Vb1", "the password is sha256-hashed", _is_said,
    ),
    Kind(
        tuple(f"{name} {word}" for name in ("word", "phrase", "code") for word in _WHOSE),
        _pattern(
            rf"\bpass(?:word|phrase|code)[ \t]{{1,4}}(?:{'|'.join(_WHOSE)})[ \t](?>[^\n.,;:\"']{{1,80}}?[ \t]"
            rf"(?:{'|'.join(_VERBS)})\b)(?:[ \t]{{0,4}}:)?[ \t]{{1,4}}{_SAID}"
        ),
        "the password for the admin account is Zk9-Qw4x8Rt2Lm6Vb1",
        "the password for the admin account is sha256-hashed", _is_said,
    ),
    *(
        Kind(
            (f'{name} "', f"{name} '"),
            _pattern(rf"\b{name}[ \t]{{1,4}}(?P<quote>[\"'])(?P<value>[^\"'\n]{{8,300}})(?P=quote)"),
            f'with the {name} "Zk9-Qw4x8Rt2Lm6Vb1"', f'the {name} "min-length-8" or "for keys"', is_one,
        )
        for name, is_one in (
            ("password", _is_said),
            ("passphrase", _is_phrase),
        )
    ),
    Kind(
        tuple(f"{name} {verb}" for name in ("token", "key", "secret") for verb in _VERBS),
        _pattern(
            r"\b(?:(?:api |access |secret |private )?(?:key|token)|secret)[ \t]{1,4}"
            rf"(?:{'|'.join(_VERBS)})(?:[ \t]{{0,4}}:)?[ \t]{{1,4}}{_SAID}"
        ),
        "Your token is: Zk9-Qw4x8Rt2Lm6Vb1", "the next token is sampled_with_top-p-0.95 of 32000", _is_irregular,
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
    *(
        Kind(
            triggers, LazyPattern(
                rf"(?:{words})(?:[ \t]{{1,4}}(?:lautet|ist|es|est|\u00e9|\\u00e9|\u00e8|jest|is)(?=[ \t:\uff1a])"
                rf"|[ \t]{{0,4}}(?:\u306f|\ub294|\\u306f|\\ub294))[ \t:\uff1a]{{0,4}}{_SAID}",
                re.IGNORECASE,
            ),
            f"{word} lautet Zk9-Qw4x8Rt2Lm6Vb1", f"{word} ist falsch", is_one,
        )
        for triggers, words, word, is_one in (
            (_IN_LANGUAGES, _ALL_LANGUAGES, "Kennwort", _is_said),
            (("token es", "token é", "token lautet", "token ist", "jeton"), "token|jeton", "Token", _is_irregular),
        )
    ),
    *(Kind((trigger,), _pattern(source), example, harmless) for trigger, source, example, harmless in _MARKUP),
    Kind(
        ("key=",), _pattern(r"\?(?:[^\s\"'<>?]{0,200}&)?key=(?P<value>[\w-]{12,200})"),
        "https://api.example/v1/models?alt=json&key=Zk9-Qw4x8Rt2Lm6Vb1", "https://docs.example/page?key=tensor-parallel-size-2",
        _is_irregular, "key",
    ),
    Kind(
        ("ltai", "akid"), LazyPattern(
            r"\b(?P<value>LTAI(?=[A-Za-z0-9]{0,20}\d)[A-Za-z0-9]{12,30}|AKID(?=[A-Za-z0-9]{0,40}\d)[A-Za-z0-9]{32,40})\b",
            re.ASCII,
        ),
        "id LTAI5tZk9Qw4x8Rt2Lm6Vb1a", "LTAI is a prefix", kind="key",
    ),
    *(
        Kind(
            (trigger,), LazyPattern(rf"(?<![\w.-])(?P<value>{shape})(?![\w-])", re.ASCII),
            f"{trigger} said '{example}'", f"{trigger} said 'tensor-parallel-size-2'", kind="token",
        )
        for trigger, shape, example in _SHAPES
    ),
    Kind(
        tuple(f"{sign}token{end}" for sign in "_-" for end in ("=", ":", '"', "'", " =")), _pattern(
            r"[a-z0-9]{2,30}(?<!eos)(?<!bos)(?<!pad)(?<!unk)(?<!next)(?<!page)[_-]token[\"']{0,2}[ \t]{0,4}[=:]"
            r"[ \t]{0,4}[\"']?(?P<value>[\w.+/=~-]{15,400})"
        ),
        "codecov_token: Zk9-Qw4x8Rt2Lm6Vb1", "eos_token: Zk9-Qw4x8Rt2Lm6Vb1 image_token: image-placeholder-token",
        _is_random, "token",
    ),
    Kind(
        ("' ==", '" ==', "' !=", '" !='), _pattern(
            r"[\"'](?P<value>[^\s\"']{8,300})[\"']\s{0,4}[=!]==?\s{0,4}\$?[\w.]{0,60}(?:passw(?:or)?d|secret|token|api_?key)\b"
        ),
        "if 'Zk9-Qw4x8Rt2Lm6Vb1' == my_password:", "if 'AddedToken' == type_of_token:", _is_mixed,
    ),
    Kind(
        ("'] =", '"] =', "']=", '"]=', "[] ="), _pattern(
            r"(?:passw(?:or)?d|secret|token|credential)s?\[(?:\d{0,5}|[\"'][^\"'\n]{1,60}[\"'])\][ \t]{0,4}=[ \t]{0,4}"
            r"[\"'](?P<value>[^\s\"']{8,300})[\"']"
        ),
        'secrets["prod"] = "Zk9-Qw4x8Rt2Lm6Vb1"', 'tokens["eos"] = "<|endoftext|>"', _is_mixed,
    ),
    Kind(
        ("bundle_",), _pattern(r"\bBUNDLE_\w{3,80}[=:][ \t]{0,4}[\"']?[^\s:\"']{1,100}:(?P<value>[^\s\"'/$]{4,200})"),
        "BUNDLE_GEMS__EXAMPLE__COM=me:Zk9-Qw4x8Rt2Lm6Vb1", "BUNDLE_PATH=/usr/local/bundle",
    ),
    Kind(
        ("_session=",), _pattern(r"\b_[a-z]{2,30}_session=(?P<value>[\w%-]{16,400})"),
        "_gitlab_session=Zk9-Qw4x8Rt2Lm6Vb1", "start_new_session=True",
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


def find(text: str, present: set[str]) -> Iterator[tuple[re.Match[str], str]]:
    """Secrets in some lines as the group `value` of a match, with their kind; `present` are their triggers."""
    for kind in KINDS:
        if not present.isdisjoint(kind.triggers):
            for match in kind.pattern.finditer(text):
                if kind.is_one(match["value"]):
                    yield match, kind.kind


TRIGGERS = tuple(dict.fromkeys(trigger for kind in KINDS for trigger in kind.triggers))
