"""Find secrets in a text by their form, by an adjacent name, and by known values.

The forms are tokens with a known prefix, values with a secret's name, credentials in headers and
URLs, and private keys; also coloured, escaped, in base64, and wrapped over lines. Counts, hashes,
UUIDs, versions and token *ids* are not secrets: looking random is not enough.
"""

from __future__ import annotations

import binascii
import re
import string
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from html import unescape
from itertools import islice
from typing import NamedTuple

from vllm_runbooks.core.redaction import context as secret_context
from vllm_runbooks.core.redaction import issuers, structures
from vllm_runbooks.core.redaction import kinds as secret_kinds
from vllm_runbooks.core.redaction.parts import LazyPattern, is_common, is_telling, turns
from vllm_runbooks.core.scan import WordSet

MAX_KEY = 20_000
"""Characters of a private key."""
FOLLOWING = 4
"""Lines after a secret's name on which its value may be."""
TURNS = 64
"""Lines that a wrapped secret may go on in: a token of 4,000 characters has 50 in a terminal of 80 columns."""
_ROW = 16
"""Characters of a row of a wrapped secret that is not its last, at the least."""
_MAX_COUNT = 7
"""Maximum digits of a count; a longer number may be a secret."""
PART = 8
"""Length of the part of such a value that identifies it if a text begins or ends within it."""

_SK = re.compile(rf"{issuers.APART}sk-(?P<value>[A-Za-z0-9_-]{{16,250}})", re.ASCII)
"""A key in OpenAI's form, which may be a model name: `_is_key` decides."""
_HOOK = LazyPattern(
    r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/|api\.telegram\.org/bot"
    r"|/webhook/send\?key=|api\.softlayer\.com/soap/v3(?:\.1)?/|oapi\.dingtalk\.com/robot/send\?access_token=|open\.feishu\.cn/open-apis/bot/v2/hook/)"
    r"(?P<value>[A-Za-z0-9_/:-]{16,300})",
    re.ASCII,
)
_HEAD = re.compile(
    rf"{issuers.APART}(?:hf_|api_org_|sk-|nvapi-|gh[pousr]_|github_pat_|glpat-|AKIA|ASIA|AIza|xox[abeoprs]-|eyJ)",
    re.ASCII,
)
_END_OF_WORD = re.compile(r"(?<=[A-Za-z0-9_.-])[ \t│|]{0,200}\r?\n", re.ASCII)
_OF_HEAD, _MAX_HEAD = string.ascii_letters + string.digits + "_.-", 400
"""Token that begins at a line's end: only the word before it is searched, so that each is read
once."""
_ISSUED_FOR = (
    "auth|access|hf|hub|hf_?hub|bearer|refresh|session|security|id|identity|registry|api|csrf|xsrf|github|gitlab|git|slack|job"
    "|secret|my|user|admin|bot|app|client|deploy|hugging_?face|jwt|login|npm|oauth|personal|private|pypi|service|wandb"
    "|modelscope|ms|vault|docker|sas|openai|anthropic|nvidia|ngc|ray|redis|kube|cluster|consul|webhook|server|vllm|azure|aws"
    "|gcp|google|s3|read|write|upload|push|pull"
)
_NO_TOKEN = "".join(
    f"(?<!{word})"
    for word in (
        "EOS", "BOS", "PAD", "UNK", "SEP", "CLS", "MASK", "IMAGE", "VIDEO", "AUDIO", "STOP", "NEXT", "MAX", "MIN",
        "PER", "START", "END", "SPECIAL", "LAST", "FIRST", "NUM", "DRAFT", "IMG", "EOT", "EOD",
    )
)  # fmt: skip
_NO_KEY = "".join(
    f"(?<!{word})"
    for word in (
        "PUBLIC", "CACHE", "PRIMARY", "FOREIGN", "SORT", "HASH", "PREFIX", "BLOCK", "KV", "INDEX", "LOOKUP",
        "PARTITION", "ROUTING", "GROUP", "STATE", "CONFIG", "LAYER", "DICT", "NUM", "ORDER",
    )
)  # fmt: skip
_SENSITIVE = (
    r"(?:(?:api[_-]?keys?|app[_-]?key|auth[_-]?key|(?:signing|encryption|storage|deploy|master|ssh|license|subscription|shared[_-]?access"
    r"|functions?|admin|service[_-]account)[_-]?key|account[_-]?key|access[_-]?key(?:[_-]?id)?"
    r"|private[_-]?key|secrets?(?:[_-]?(?:access[_-]?)?key(?:[_-]base)?)?|passw(?:or)?ds?|[_-]pass|passphrase|credentials?"
    r"|requirepass|masterauth|(?<=[A-Za-z0-9])[_-]pwd|sshpass(?==)|(?<=[?&;])pwd(?==)|(?-i:(?<![A-Za-z_-])PASS(?==|\Z))|(?<=[?&])sig(?==)"
    rf"|(?-i:(?<=[A-Z0-9]){_NO_KEY}_KEY)"
    r"|authorization|(?:set-)?cookie|x-(?:amz|goog|oss)-(?:signature|credential)|(?<=[?&])signature|webhook[_-]?url"
    r"|(?<![A-Za-z0-9])_auth"
    rf"|(?<![A-Za-z])(?:{_ISSUED_FOR})[_-]?token|(?<=[_-])(?:{_ISSUED_FOR})[_-]?token"
    rf"|(?:{_ISSUED_FOR})[_-]token|(?-i:(?<=[a-z0-9])(?:Auth|Access|Api|Refresh|Session|Id|Bearer)Token)"
    rf"|(?<![A-Za-z_-])token|(?<=--)token|(?-i:(?<=[A-Z0-9]){_NO_TOKEN}_TOKEN))(?:_?v?\d{{1,2}})?)"
)
"""Ends of sensitive names. A lower-case `…_token` is a tokenizer's (`eos_token`) unless its kind is listed."""
_NAME = LazyPattern(rf"[A-Za-z0-9_-]{{0,80}}?{_SENSITIVE}\Z", re.ASCII | re.IGNORECASE)
_QUOTE = r"\\{0,3}[\"']"
_WORD = r"(?:[^\s\x00-\x1f\"',;)\]}]|[,;)\]}](?![\s\"',;)\]}]|\Z|[\w-]{1,60}[=:])){1,2000}"
"""An unquoted value: up to a blank, or to a comma or bracket before the next field."""
_GAP = r"[ \t]{0,8}"
_BREAK = r"\r?\n[ \t]{1,60}(?:-[ \t]{1,4})?"
"""Line end before an indented value, or before the first item of a list."""
_ANNOTATION = r"(?::[ \t]{0,4}(?:str|bytes|SecretStr|Optional\[(?:str|SecretStr)\])(?:[ \t]{0,4}\|[ \t]{0,4}None)?)?"
_NAMED = LazyPattern(
    rf"(?P<name>{_SENSITIVE})"
    rf"(?P<between>{_ANNOTATION}(?:{_QUOTE})?{_GAP}"
    rf"(?:(?:=>|:[=-]|[=:：]|\\uff1a|%3[AaDd]){_GAP}(?:[|>][+-]?{_GAP}(?={_BREAK}))?(?:{_BREAK})?"
    rf"|\\\s{{1,40}}|[ \t]{{1,8}}(?:\\\s{{1,40}})?|(?<=[\"']),\s{{0,40}}(?={_QUOTE})|{_BREAK}(?<=- )))"
    rf"(?:(?:{_QUOTE})?(?P<scheme>Bearer|Basic|Digest|Token|Api-?Key)\s{{1,4}})?"
    rf"(?:(?:[A-Za-z_]\w{{0,30}}\()?[bruf@]{{0,2}}(?P<quote>{_QUOTE})"
    rf"(?P<quoted>(?:(?!(?P=quote))(?:\\[^\n]|[^\n\\])){{1,4000}})"
    rf"|(?P<several>\[[^\]]{{0,4000}}\]|\([^)\n]{{0,4000}}\))|(?P<value>{_WORD}))",
    re.ASCII | re.IGNORECASE,
)
_ENDS = re.compile(r"[\s\x00-\x1f\"',;)\]}]")
_ITEM = re.compile(
    rf"(?P<quote>{_QUOTE})(?P<quoted>[^\"'\\\n]{{1,2000}})(?P=quote)?|(?P<value>[^\s\"',\[\]()\\]{{1,2000}})", re.ASCII
)
_MORE = re.compile(
    r"(?:[ \t]{1,8}|[ \t]{0,8}\\\r?\n[ \t]{0,40})(?P<quote>[\"']?)(?P<value>(?!-)[^\s\"'\\;|&<>`]{1,2000})"
)
"""Additional word after an option that accepts several keys."""
_MORE_QUOTED = re.compile(r"[\"'],\s{0,40}[\"'](?P<value>(?!-)[^\s\"'\\]{1,2000})(?=[\"'])")
_MORE_LISTED = re.compile(
    r"[\"']?\r?\n[ \t]{1,60}-[ \t]{1,4}[\"']?(?P<value>(?!-)[^\s\"'\\:]{1,2000})(?=[\"']?[ \t]{0,8}(?:\r?\n|\Z))"
)
_FAULT = re.compile(r"(?:Invalid|Missing|Expired|Unknown)\Z")
"""Words before a secret's name in error names: `InvalidAuthToken: Authentication token is
missing`."""
_VERBS = frozenset({"is", "was", "not", "must", "has"})
"""Words after a variable's name in a message: `VLLM_API_KEY: is not set`."""
_GOES_ON = re.compile(r" [a-z]{2,20}(?:[ ,.;]|\s|\Z)")
"""Continuation of a sentence after its first word."""
_COMMAND = re.compile(r"vllm|api_server|docker |podman |python|\$ |--model|serve ")
_PAIR_BEGUN = re.compile(r"[(\[][ \t]{0,4}[bB]?[\"']")
_PAIRED = LazyPattern(
    rf"[(\[][ \t]{{0,4}}b?[\"'][A-Za-z0-9_-]{{0,60}}?{_SENSITIVE}[\"'],[ \t]{{0,4}}"
    r"b?[\"'](?P<value>[^\"'\n]{1,4000})[\"'][ \t]{0,4}[)\]]",
    re.ASCII | re.IGNORECASE,
)
"""A name and its value as a pair, in a list of headers or variables."""
_VARIABLE = LazyPattern(
    rf"\bname(?:{_QUOTE})?\s{{0,4}}[:=]\s{{0,4}}(?:{_QUOTE})?[A-Za-z0-9_-]{{0,60}}?{_SENSITIVE}(?:{_QUOTE})?,?\s{{0,60}}"
    rf"(?:{_QUOTE})?value(?:{_QUOTE})?\s{{0,4}}[:=][ \t]{{0,4}}(?P<quote>{_QUOTE})?(?P<value>[^\s\"'\\]{{1,4000}})",
    re.ASCII | re.IGNORECASE,
)
"""A container's variable as two fields, `name` and `value`."""
_VALUE_FIRST = LazyPattern(
    rf"\bvalue(?:{_QUOTE})?[ \t]{{0,4}}:[ \t]{{0,4}}(?:{_QUOTE})?(?P<value>[^\s\"'\\,]{{1,4000}})"
    rf"(?:{_QUOTE})?,?\s{{1,60}}(?:{_QUOTE})?name(?:{_QUOTE})?\s{{0,4}}:\s{{0,4}}(?:{_QUOTE})?[A-Za-z0-9_-]{{0,60}}?"
    rf"{_SENSITIVE}(?![\w-])",
    re.ASCII | re.IGNORECASE,
)
_AUTHORIZATION = LazyPattern(
    rf"authorization(?:{_QUOTE})?\s{{0,4}}[=:]\s{{0,4}}(?:{_QUOTE})?[A-Za-z][\w-]{{0,30}}"
    r"(?:[ \t]{1,4}|\r?\n[ \t]{1,60})(?P<value>[^\s\"',;)\]}]{4,4000})",
    re.ASCII | re.IGNORECASE,
)
"""The header with any scheme."""
_COOKIES = LazyPattern(
    rf"cookie(?:{_QUOTE})?\s{{0,4}}[=:]\s{{0,4}}(?:{_QUOTE})?[^\s\"'\\;]{{1,4000}}"
    r"(?:; ?[^\s\"'\\;]{1,4000}){0,4}",
    re.IGNORECASE,
)
_COOKIE = LazyPattern(
    r"[:;=\s\"'](?!(?:path|domain|expires|max-age|samesite|version)=)[\w.-]{1,80}=(?P<value>[^\s;,\"']{1,4000})",
    re.ASCII | re.IGNORECASE,
)
_NAME_PART = (
    r"(?:keys?|[_-]id|passw(?:or)?ds?|pass|passphrase|secrets?|credentials?|token|authorization|cookie|signature|pwd?|sig"
    r"|_auth|masterauth|url)(?:_base|_?v?\d{1,2})?"
)
_AFTER_NAME = r"[\\\"']{0,4}(?:[\s=:：%,\\\]]|\Z)"
_MAYBE_NAMED = re.compile(_NAME_PART + _AFTER_NAME, re.ASCII)
"""Parts of all named secrets in lower-cased text: much faster to search than the names."""
_URL = LazyPattern(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,20}://)"
    r"(?:(?P<user>[^\s/:@\"'<>]{0,200}):(?P<value>[^\s/@]{1,200}(?:@[^\s/@?#,;\"']{1,200}){0,3})|(?P<only>[^\s/:@]{16,300}))@",
    re.ASCII,
)
_BEARER = re.compile(r"\b(?:[Bb]earer|BEARER|[Bb]asic)\s{1,4}(?P<value>[A-Za-z0-9._~+/=-]{8,4000})", re.ASCII)
_REGISTRY = r"(?:docker|podman|nerdctl|helm|crane|skopeo|oras|buildah)"
_LOGIN = LazyPattern(
    r"\blogin\s{1,8}\S{1,200}\s{1,8}password\s{1,8}(?P<netrc>\S{1,400})"
    r"|\b(?:curl|wget|http)\b[^\n]{0,300}?\s(?:-u|--user|--proxy-user)[ =]{1,2}"
    r"[\"']?[^\s:\"']{0,100}:(?P<curl>[^\s\"']{1,400})"
    r"|\b(?:wandb|hf auth|huggingface-cli|modelscope) login (?!-)[\"']?(?P<cli>[A-Za-z0-9_-]{16,200})"
    r"|\bsshpass\b[^\n]{0,20}?\s-p ?[\"']?(?P<ssh>[^\s\"']{1,200})"
    r"|\bredis-cli\b[^\n]{0,100}?\s-a [\"']?(?P<redis>[^\s\"']{1,200})"
    r"|\bmysql\b[^\n]{0,100}?\s-p(?P<mysql>[^\s\"'-][^\s\"']{0,200})",
    re.ASCII,
)
"""Logins whose secret has no name: `.netrc` and the command lines of clients."""
_REGISTRY_LOGIN = LazyPattern(rf"\b{_REGISTRY}\b(?>[^\n]{{0,80}}?\blogin\b)", re.ASCII)
_AFTER_LOGIN = 400
"""Maximum distance of a password from its login, on the same line or on lines joined by a
backslash."""
_OF_LOGIN = tuple(
    LazyPattern(source, re.ASCII)
    for source in (
        r"\s-p[ =]?[\"']?(?P<value>[^\s\"'-][^\s\"']{0,400})",
        r"<<<[ \t]{0,8}[\"']?(?P<value>[^\s\"'$`][^\s\"']{0,400})",
        r"[\"']-p[\"'],[ \t]{0,8}[\"'](?P<value>[^\"'\n]{1,400})[\"']",
        r"\][^\n]{0,80}?\binput[ \t]{0,4}=[ \t]{0,4}b?[\"'](?P<value>[^\"'\n]{1,400})[\"']",
    )
)
"""Password of a registry on the line of its login: as an option, in a here-string, in a list of
words, passed on."""
_HERE_DOCUMENT = LazyPattern(
    r"<<-?[ \t]{0,4}[\"']?[A-Za-z_]\w{0,30}[\"']?[ \t]{0,8}\r?\n[ \t]{0,40}(?P<value>[^\s$`<]{1,400})[ \t]{0,8}\r?\n",
    re.ASCII,
)
"""One that follows the line of its login."""
_PIPED = (
    r"\b(?:echo|printf)(?:[ \t]{1,8}-\w{1,4}){0,3}(?:[ \t]{1,8}[\"']%s(?:\\n)?[\"'])?[ \t]{1,8}[\"']?"
    r"(?P<value>[^\s\"'|$`]{1,400})[\"']?[ \t]{0,8}\|[ \t]{0,8}(?:sudo[ \t]{1,8})?"
    rf"{_REGISTRY}\b[^\n]{{0,300}}?--password-stdin"
)
_CREDENTIALS = r"--(?:src-|dest-)?(?:registry-)?creds(?:=|[ \t]{1,8})[\"']?[^\s:\"']{1,100}:(?P<value>[^\s\"']{1,400})"
_IN_IMAGE = (
    rf"\b{_REGISTRY}\b[^\n]{{0,200}}?[ \t][\"']?[\w.+-]{{1,100}}:(?P<value>[^\s/:\"']{{1,200}})"
    r"@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}(?::\d|/)"
)
_REGISTRIES = tuple(LazyPattern(source, re.ASCII) for source in (_PIPED, _CREDENTIALS, _IN_IMAGE))
"""Password of a registry without an option: piped, in a here-document, in a list of words, within a
word."""
_ADDRESSED = LazyPattern(
    r"(?<![\w.+/@:-])(?!(?:mailto|cc|bcc|to|from|sip|xmpp|acct|ssh|git|by|user|author):)[A-Za-z][\w.-]{1,60}"
    r":(?P<value>(?=[^\s@]{0,200}?[^A-Za-z@])[^\s/@:\"'<>$]{4,200})@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}(?::\d{2,5}\b|/)",
    re.ASCII | re.IGNORECASE,
)
"""`user:password@host.domain` without a scheme, followed by a port or a path."""
_TEXT = r"[bruf]{0,2}[\"'](?P<value>[^\"'\n]{1,400})[\"']"
_FIRST = r"[\"'][^\"'\n]{0,200}[\"'],\s{0,20}"
"""User name as the argument before the password."""
_DEFAULT = rf"(?:[^()]|\([^()]{{0,80}}\)){{0,200}}?\bdefault[ \t]{{0,4}}=[ \t]{{0,4}}{_TEXT}"
"""Default of an option, among its other arguments."""
_IN_CODE = tuple(
    LazyPattern(source, re.ASCII | re.IGNORECASE)
    for source in (
        rf"[\"'][A-Za-z0-9_-]{{0,60}}?{_SENSITIVE}[\"']\][ \t]{{0,4}}=[ \t]{{0,4}}{_TEXT}",
        rf"[\"']--[A-Za-z0-9_-]{{0,60}}?{_SENSITIVE}[\"'],{_DEFAULT}",
        rf"[\"']--?(?:pw|pwd)[\"'],{_DEFAULT}",
        rf"\b(?:auth[ \t]{{0,4}}=[ \t]{{0,4}}|HTTP(?:Basic|Digest|Proxy)Auth)\(\s{{0,20}}{_FIRST}{_TEXT}",
        rf"\.login\(\s{{0,20}}{_FIRST}{_TEXT}",
        rf"\b(?:huggingface_hub|wandb|modelscope)\.login\(\s{{0,20}}{_TEXT}",
        rf"\blogin\b[^\n\"']{{0,200}}?\s-p ?(?:%s)?[\"']\s{{0,4}}[+%]\s{{0,4}}{_TEXT}",
        rf"\blogin\b[^\n\"']{{0,200}}?\s-p ?\{{{_TEXT}\}}",
        (
            r"\b(?:regctl|ctr|crictl)\b[^\n]{0,200}?\s(?:-u|--user|--creds)[ =][\"']?[^\s:\"']{1,100}:"
            r"(?P<value>[^\s\"']{1,400})"
        ),
        r"\bregctl\b[^\n]{0,80}?\blogin\b[^\n]{0,200}?\s-p[ =]?[\"']?(?P<value>[^\s\"'-][^\s\"']{0,400})",
        (
            r"\b(?:image[\"']?[ \t]{0,4}[:=]|from)[ \t]{0,4}[\"']?[\w.+-]{1,100}:(?P<value>[^\s/:@\"']{1,200})"
            r"@(?!sha256:)[\w.-]{1,200}(?::\d|/)"
        ),
    )
)
"""Secrets of programs and of registry clients that are apart from their name or have none."""
_AUTH_FIELD = re.compile(
    rf"{_QUOTE}auth{_QUOTE}\s{{0,4}}:\s{{0,8}}{_QUOTE}(?P<value>[A-Za-z0-9+/_-]{{6,4000}}={{0,2}})", re.ASCII
)
"""A registry's login in Docker's configuration: base64 of `user:password`."""
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY = re.compile(r"(?:(?:\\{1,2}[rn]|[^\w+/\\]){1,80}[A-Za-z0-9+/]{16,200}={0,2}){0,400}", re.ASCII)
_PEM_LINE = LazyPattern(
    r"[ \t│|]{0,40}(?:(?P<head>(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash): [^\n]{1,200})"
    r"|(?P<body>=?[A-Za-z0-9+/]{1,200}={0,2})|)(?=[ \t│|]{0,200}\r?(?:\n|\Z))",
    re.ASCII,
)
"""Private key whose end is missing: the text after its beginning, and each further line."""
_PEM_TAIL = re.compile(r"[\s│|>]{0,8}(?P<body>[A-Za-z0-9+/]{2,200}={0,2})[ \t\r]{0,4}\n", re.ASCII)
_PEM_LINE_REACH = 260
"""Characters within which a line of a key begins: the longest one, with its frame."""
_MAX_KEY_LINES, _SHORTEST_KEY_LINE = 400, 16
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]{32,200}={0,2}", re.ASCII)
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])(?=[a-z0-9+/_-]{0,64}[A-Z])[A-Za-z0-9+/_-]{20,12000}={0,2}", re.ASCII)
"""Requires a capital letter: lower-case identifiers and hexadecimal ids have none, and encoded ASCII text has many."""
_MARKS = bytes(ord("x" if re.match(r"[A-Za-z0-9+/_-]", chr(code)) else " ") for code in range(256))
_LONG = b"x" * 20
_UNPRINTED = re.compile(r"[\x00-\x08\x0e-\x1a\x7f\ufffd]")
"""Characters that decoded base64 text rarely contains, unlike random words."""
_HEX = re.compile(r"[0-9a-fA-F-]+\Z|[0-9_]+\Z")

_HOOK_TRIGGERS = ("softlayer", "hooks.slack.com", "/webhook", "api.telegram.org", "dingtalk", "feishu")
_LOGIN_TRIGGERS = ("login", "sshpass", "curl ", "wget ", "http ", "redis-cli", "mysql ", "creds")
_REGISTRY_WORDS = ("docker", "podman", "nerdctl", "helm", "crane", "skopeo", "oras", "buildah", "creds")
_CODE_TRIGGERS = (
    "login", "auth=(", "auth = (", "basicauth(", "digestauth(", "ctr ", "regctl ", "crictl ", "@", '"]', "']", "--",
)  # fmt: skip
_NAME_TRIGGERS = (
    "key", "token", "secret", "pass", "masterauth", "credential", "cookie", "authorization", "_auth", "signature",
    "pwd", "sig=", "webhook", "pw",
)  # fmt: skip
_TRIGGERS = (
    *issuers.TRIGGERS, "sk-", *_HOOK_TRIGGERS, *_LOGIN_TRIGGERS, *_CODE_TRIGGERS[1:8], *secret_context.TRIGGERS,
    *secret_kinds.TRIGGERS,
    "@", "bearer", "basic", '"auth', "'auth", "private key",
    *_NAME_TRIGGERS,
)  # fmt: skip
"""Lower-case words of which every text with a secret has one."""
_TRIGGER_WORDS = WordSet(_TRIGGERS)
_FORM_WORDS = WordSet((*issuers.TRIGGERS, *secret_kinds.TRIGGERS))
_KEYWORD = re.compile(
    r"(?<=[\w-])key|token|secret|pass|credential|authorization|cookie|signature|pwd|sig|_auth(?!orization)|masterauth|webhook",
    re.ASCII,
)
_BEFORE = 32
"""Characters before such a word within which its name begins."""
_OF_NAME = string.ascii_lowercase + string.digits + "_-"
"""Characters of a lower-cased name before its keyword."""
_NAME_END = re.compile(f"(?P<name>[a-z0-9_-]{{0,60}}?{_NAME_PART}){_AFTER_NAME}", re.ASCII)
"""From such a word to the end of its name, in lower-cased text."""
_TOKEN = re.compile(r"token(?!(?:s|_ids)(?![a-z0-9_-]))", re.ASCII)
"""Any `token` except the frequent names of token counts, which are not secrets."""
_BEFORE_WORD = re.compile(
    r"[ \t]{1,8}(?!(?:bearer|basic|digest|token|api)\b)[a-z]{1,40}(?=[.,;:!?]?(?:[ \t\r\n]|\Z))", re.ASCII
)
"""What follows a name in prose, as in `token counts.`: a word without a digit, which is a value only of an option."""
_DASH = re.compile(r"-(?:(?<![\w-]-)|(?<=\\[nrt]-))", re.ASCII)
_COLOUR = r"\d{0,3}(?:;\d{1,3}){0,6}m"
_CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u200b-\u200f\u2060\ufeff"
_CODE = LazyPattern(
    # A single set of first characters: the search skips all others.
    rf"[{_CONTROLS}%\\&\[^](?:(?<=\x1b)(?:\[[0-?]{{0,32}}[ -/]{{0,4}}[@-~]|[@-Z\\-_])"
    r"|(?<=%)(?:25){0,3}(?P<percent>[2-7][0-9A-Fa-f])"
    rf"|(?<=\\)\\{{0,2}}(?:u00(?P<unicode>[2-7][0-9A-Fa-f])|(?:u001[bB]|x1[bB]|033|e)\[{_COLOUR}|(?P<quote>[\"']))"
    rf"|(?<=&)(?P<entity>quot|apos|amp|lt|gt|#34|#39|#x27|#x22);|(?<=\[){_COLOUR}|(?<=\^)\[\[{_COLOUR}|(?<=[{_CONTROLS}]))"
)
"""Separators between the characters of a text, or codes for them: colours, percent signs, escapes,
entities."""
_MAYBE_CODED = LazyPattern(
    rf"[{_CONTROLS}%\\&\[](?:(?<=[{_CONTROLS}])|(?<=%)[2-7][0-9A-Fa-f]|(?<=%)25|(?<=\\)[uxe0\\\"']|(?<=&)[qalg#]|(?<=\[){_COLOUR})"
)
_BARE_COLOUR = LazyPattern(rf"\[{_COLOUR}")
_UNCODED = bytes(code for code in range(128) if not re.match(rf"[{_CONTROLS}%\\&]", chr(code)))
"""ASCII characters that begin no code, but for the bracket of a colour."""
_TURN = LazyPattern(
    r"[ \t│|]{0,200}\r?\n(?P<margin>[ \t│|]{0,200})(?P<rest>[A-Za-z0-9_+/~-]{3,2000}={0,2})"
    r"(?![\w:=.(\[\\/@])(?P<box>[ \t]{0,200}│)?",
    re.ASCII,
)
"""From a line's end to the end of the first word of the next line."""
_TURN_OF_WEB_TOKEN = LazyPattern(
    r"[ \t│|]{0,200}\r?\n(?P<margin>[ \t│|]{0,200})(?P<rest>[A-Za-z0-9_.-]{1,2000})(?=[ \t│|]{0,200}(?:\r?\n|\Z))",
    re.ASCII,
)
"""Like `_TURN` for a web token, whose parts are separated by dots: it fills the line."""
_WEB_TOKEN = "eyJ"  # noqa: S105 - how its first part begins
_OF_TURN, _MAX_MARGIN, _MIN_TURN = string.ascii_letters + string.digits + "_+/~=-", 160, 3
"""Characters of the last line of a wrapped secret, the widest margin, and their least number."""
_MARGIN = re.compile(r"[^\n]{0,160}?(?:\]|\||│|:)[ \t│|]{1,8}")
"""Prefix of every line by a logger or a box."""
_OBJECT = (
    r"(?:self|args|os|config|settings|cls|kwargs|options|request|envs?|app|ctx|get_[A-Za-z_]{1,40}|getenv|getpass)"
)
_SHUT = LazyPattern(
    r"<(?:[^<>\s]{1,200}|[A-Za-z_.,'/ -]{1,80}(?: at 0x[0-9a-f]{1,16})?(?<![ -]))>|\$\([^()\n]{1,200}\)"
    rf"|{_OBJECT}(?:\.[A-Za-z_]{{1,80}}|\((?:[^()\n]|\([^()\n]{{0,80}}\)){{0,200}}\)|\[[^\[\]\n]{{0,200}}\]){{1,8}}",
    re.IGNORECASE,
)
"""Bracketed text that is not a value: a placeholder, a shell command, a call or an index in
code."""
_CALLED = re.compile(r"[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60}){1,8}\((?:[A-Za-z_]\w{0,60}=)?\Z", re.ASCII)
"""A method call up to its first quote: the secret is within the quotes."""
_ARGUMENT = re.compile(r"(?P<quote>[\"'])(?P<value>(?:\\[^\n]|(?!(?P=quote))[^\n\\]){1,4000})")
_HARMLESS = LazyPattern(
    r"(?:none|null|nil|true|false|empty|undefined|unset|redacted|inherit|required|optional|missing|invalid"
    r"|\(?(?:not[ _-])?set|\(not|\*+|x{3,}"
    r"|(?:~|\.{0,2})(?:/[a-z][a-z_.]{1,40}){2,8}"
    r"|\.{3}|…|-|\\|<|\$\{?[A-Za-z_]\w{0,80}(?::?-)?\}?|\$\{[A-Za-z_]\w{0,80}:?\?[^{}]{0,80}\}?|\$\("
    r"|%[A-Za-z_]\w{0,80}%|(?:(?:bearer|basic|token) )?\{\{?[^{}]{0,80}\}{0,2}|(?:bearer )?%(?:\(\w{1,40}\))?[sr]"
    r"|\[\]|\(\)|\{\}|\[none\]|\[?redacted\]?|\[secret[^\]]{0,20}\]|[|>][+-]?"
    r"|(?:str|bytes|int|bool|any|secretstr|(?:optional|union|list|sequence)\[[A-Za-z_.,| \[\]\"']{0,80})"
    rf"|{_OBJECT}(?:\.[A-Za-z_]{{1,80}}){{0,8}}[.\[(]"
    r"|your[ _-][A-Za-z _-]{0,80}|f?[\"'])\Z",
    re.IGNORECASE,
)
"""Values that are not secrets: unset, already masked, a variable, a type, a line of code."""
_PROSE = re.compile(r"[a-z]{1,14}\Z")
_REFERENCE = re.compile(r"\$\{?[A-Za-z0-9_]{0,80}\Z", re.ASCII)
"""A shell variable that is read: the text after it is not its value, unless it is its default."""
_ASSIGNED = re.compile(r"=|%3d|:(?!\Z)", re.IGNORECASE)
_OPTION = re.compile(r"(?:(?<![\w-])|(?<=\\[nrt]))--?[\w-]{0,60}\Z", re.ASCII)


class Secret(NamedTuple):
    """Location of a secret."""

    start: int
    end: int
    kind: str
    begin: int
    """Start of the text that identifies it as a secret, such as its name."""


def names_secret(name: str) -> bool:
    """Whether the value of an option, variable or field of this name is secret."""
    return _KEYWORD.search(_lower(name)) is not None and _NAME.match(name) is not None


def tellings(secret: Secret, printed: str) -> list[str]:
    """Values that identify a secret without its name or form."""
    if secret.kind in ("encoded", "repeated"):
        return []
    values = _KEY_LINE.findall(printed)[:_MAX_KEY_LINES] if secret.kind == "private_key" else [value_of(printed)]
    return [value for value in values if is_telling(value) and not is_common(value) and not _is_none(value)]


def key_begun(text: str) -> int | None:
    """Start of the line of a private key that continues after the text; None if there is none."""
    begin = _PEM.match(text, max(text.rfind("-----BEGIN", max(len(text) - MAX_KEY, 0)), 0))
    if begin is None or _PEM_END.search(text, begin.end()) or text[_end_of_key(text, begin) :].strip(" \t\r\n│|"):
        return None
    return text.rfind("\n", max(begin.start() - 400, 0), begin.start()) + 1


def value_of(printed: str) -> str:
    """Value of a secret without colours and escapes, with wrapped lines joined."""
    if _MAYBE_CODED.search(printed):
        printed = _CODE.sub(_meant, printed)
    if "\n" in printed and "PRIVATE KEY" not in printed:
        before, _, line = printed.rpartition("\n")
        margin = line.rstrip(_OF_TURN)
        if len(margin) <= _MAX_MARGIN and len(line) - len(margin) >= _MIN_TURN:
            printed = before.removesuffix("\r").rstrip(" \t│|") + line[len(margin) :]
    return printed


def places_of(value: str, text: str) -> Iterator[Secret]:
    position = text.find(value)
    while position >= 0:
        yield Secret(position, position + len(value), "repeated", position)
        position = text.find(value, position + len(value))


def parts_of(value: str, text: str) -> Iterator[Secret]:
    position = text.rfind(value[:PART])
    if position >= 0 and value.startswith(text[position:].rstrip()):
        yield Secret(position, len(text.rstrip()), "repeated", position)
    position = text.find(value[-PART:])
    if position >= 0 and value.endswith(text[: position + PART].lstrip()):
        yield Secret(len(text) - len(text.lstrip()), position + PART, "repeated", 0)


def merged(secrets: list[Secret]) -> list[Secret]:
    result: list[Secret] = []
    for secret in sorted(secrets, key=lambda secret: (secret.start, -secret.end)):
        if result and secret.start < result[-1].end:
            last = result[-1]
            result[-1] = last._replace(end=max(last.end, secret.end), begin=min(last.begin, secret.begin))
        else:
            result.append(secret)
    return result


_QUOTED_MANIFEST = re.compile(r"[\"'](?=(?:apiVersion|kind|metadata|data|stringData):)")


_BRACED = re.compile(r"\{[^{%](?!\w{0,80}\}?\Z)")
"""A file of JSON as a value, unlike `{name}`."""


_PREFIXED = LazyPattern(
    r"^(?P<prefix>[^\n]{0,80}?(?:[#>|│]|//)[ \t]?)[ \t]{0,40}(?:-[ \t]{1,4})?"
    r"(?:kind:[ \t]{0,4}[\"']?Secret|(?:name|value):)",
    re.MULTILINE,
)
"""Manifest whose lines begin with a comment's sign, a quotation's, or a container's name."""


def find(text: str, values: Iterable[str] = ()) -> list[Secret]:
    """Secrets of a text by form or name; `values` are also searched in encoded forms."""
    secrets = _with_prefixes(text, values)
    if "\\n" in text:
        # A text within a text, such as a log in a notebook's parameter: of the same length, so offsets stay valid.
        inner = _with_prefixes(_QUOTED_MANIFEST.sub("\n", text.replace("\\n", " \n")), values)
        starts = sorted((secret.start, secret.end) for secret in inner)
        secrets = [secret for secret in secrets if not _is_joined(text, secret, starts)] + inner
    return secrets


def _with_prefixes(text: str, values: Iterable[str]) -> list[Secret]:
    secrets = _found(text, values)
    if "value:" in text or ("kind:" in text and "Secret" in text):
        prefixes = dict.fromkeys(match["prefix"] for match in islice(_PREFIXED.finditer(text), 100))
        for prefix in islice(prefixes, 8):
            secrets += _found("\n".join(_without(prefix, line) for line in text.split("\n")), values)
    return secrets


def _without(prefix: str, line: str) -> str:
    """A line of the same length with blanks in place of a prefix."""
    length = len(prefix) if line.startswith(prefix) else len(line) if line.rstrip() == prefix.rstrip() else 0
    return " " * length + line[length:]


def _is_joined(text: str, secret: Secret, inner: list[tuple[int, int]]) -> bool:
    """Whether a secret is a word joined to the next line by an escaped line end, and the word alone is harmless."""
    end = text.find("\\n", secret.start, secret.end)
    if end < 0 or secret.kind in ("private_key", "encoded") or text[secret.start - 1 : secret.start] in ("'", '"'):
        return False
    before = bisect_right(inner, (end, 0)) - 1
    return before < 0 or inner[before][1] <= secret.start


def _found(text: str, values: Iterable[str]) -> list[Secret]:
    secrets: list[Secret] = []
    for start, end in _stretches(text, values):
        secrets += [
            Secret(secret.start + start, secret.end + start, secret.kind, secret.begin + start)
            for secret in _look(text[start:end], values)
        ]
    for start, end, kind in structures.structural(text):
        if not _is_none(text[start:end]) or _BRACED.match(text, start, end):
            secrets.append(Secret(start, end, kind, start))
    if "value" in text and "name" in text:
        secrets += _of_values(_VALUE_FIRST.finditer(text), "key", names_secret)
    return secrets


def _stretches(text: str, values: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Start and end of the stretches of lines that can contain a secret."""
    worth = deque(sorted(_worth(text, values)))
    end = 0
    while worth:
        begun, done, following = worth[0], end, FOLLOWING
        end = begun
        while end < len(text):
            start, end = end, text.find("\n", end) + 1 or len(text)
            if worth and worth[0] == start:
                following = FOLLOWING
                if text.find("PRIVATE KEY", start, end) < 0:
                    pass
                elif pem := _PEM.search(text, start, end):
                    end = text.find("\n", max(_end_of_key(text, pem), end) - 1) + 1 or len(text)
                elif pem := _PEM_END.search(text, start, end):
                    begun = min(begun, max(_start_of_key(text, pem.start()), done))
            elif following:
                following -= not is_row(text[start:end])
            else:
                end = start
                break
            while worth and worth[0] < end:
                worth.popleft()
        yield begun, end


def _worth(text: str, values: Iterable[str]) -> set[int]:
    """Starts of the lines that have a sign of a secret."""
    lowered = _lower(text)
    is_coded = _is_coded(text)
    present = _TRIGGER_WORDS.present(_CODE.sub(_meant, text).lower() if is_coded else lowered)
    present, names = [t for t in present if t not in _NAME_TRIGGERS], [t for t in present if t in _NAME_TRIGGERS]
    starts = set[int]()
    for word in present:
        _add_lines_with(word, lowered, starts)
    for word in names:
        _add_lines_with(word, lowered, starts, _name_of_value)
    start = before = 0
    for _, end in _encoded(text, values):
        start, before = text.rfind("\n", before, end - 1) + 1 or start, end - 1
        starts.add(start)
    stop = 0
    while is_coded and (coded := _MAYBE_CODED.search(text, stop)):
        start = text.rfind("\n", stop, coded.start()) + 1 or stop
        stop = text.find("\n", coded.start()) + 1 or len(text)
        line = _CODE.sub(_meant, text[start:stop]).lower()
        if _is_worth(line, present, names) or any(value.lower() in line for value in values):
            starts.add(start)
    return starts


def _is_coded(text: str) -> bool:
    """Whether some of a text may be coded; faster than the pattern if no sign but the bracket occurs."""
    if text.isascii() and not text.encode().translate(None, _UNCODED):
        return _BARE_COLOUR.search(text) is not None
    return _MAYBE_CODED.search(text) is not None


def _lower(text: str) -> str:
    """Text in lower case, with every character in its place."""
    return text.replace("\u0130", "i").lower()  # the only letter whose lower case is longer


def _name_of_value(text: str, position: int) -> re.Match[str] | None:
    """The rest of a name in lower-cased text, unless it is a word of prose."""
    name = _NAME_END.match(text, position)
    if name and _BEFORE_WORD.match(text, name.end("name")):
        return name if _DASH.search(text, max(position - _BEFORE - 60, 0), position) else None
    return name


def _add_lines_with(
    word: str, text: str, starts: set[int], is_worth: Callable[[str, int], object] | None = None
) -> None:
    """Add the starts of the lines with a word that is worth a closer look."""

    def next_place(start: int) -> int:
        if word != "token":
            return text.find(word, start)
        token = _TOKEN.search(text, start)
        return token.start() if token else -1

    start = end = 0
    position = next_place(0)
    while position >= 0:
        if position >= end:
            start = text.rfind("\n", end, position) + 1 or end
            end = text.find("\n", position) + 1 or len(text)
        if start in starts or is_worth is None or is_worth(text, position):
            starts.add(start)
            position = next_place(end)
        else:
            position = next_place(position + 1)


def is_row(line: str) -> bool:
    """Whether a line ends in a possible row of a wrapped secret, which then continues."""
    word = line[-4000:].rstrip().rpartition(" ")[2]
    return len(word) >= _ROW and any(c.isdigit() for c in word) and any(c.isalpha() for c in word)


def _is_worth(line: str, words: Iterable[str], names: Iterable[str]) -> bool:
    """Whether a lower-cased line can contain a secret.

    A name alone, such as that of counted tokens, is not enough.
    """
    return _holds(line, words) or (_holds(line, names) and _MAYBE_NAMED.search(line) is not None)


def _holds(text: str, words: Iterable[str]) -> bool:
    for word in words:  # noqa: SIM110 - a generator costs more than the search
        if word in text:
            return True
    return False


def _look(text: str, values: Iterable[str]) -> list[Secret]:
    secrets = _plain(text, values)
    if _MAYBE_CODED.search(text):
        view = _DecodedText(text)
        if view.text != text:
            secrets += [view.back(secret) for secret in _plain(view.text, values)]
            secrets += [view.back(secret) for value in values for secret in places_of(value, view.text)]
    return merged(secrets)


def _meant(match: re.Match[str]) -> str:
    """Character of an escape; empty for a colour."""
    if not match.lastgroup:
        return ""
    if match["quote"]:
        return match["quote"]
    return unescape(f"&{match['entity']};") if match["entity"] else chr(int(match[match.lastgroup], 16))


class _DecodedText:
    """Text with decoded escapes and without colours, and each character's original offset."""

    def __init__(self, text: str) -> None:
        pieces: list[str] = []
        self._starts, self._ends, self._at, length, position = [0], [0], [0], 0, 0
        for match in _CODE.finditer(text):
            if match.start() > position:
                length = self._add(pieces, text[position : match.start()], position, length)
            position = match.end()
            if character := _meant(match):
                pieces.append(character)
                self._at.append(length)
                self._starts.append(match.start())
                self._ends.append(match.end())
                length += 1
        self._add(pieces, text[position:], position, length)
        self.text = "".join(pieces)

    def _add(self, pieces: list[str], piece: str, position: int, length: int) -> int:
        pieces.append(piece)
        self._at.append(length)
        self._starts.append(position)
        self._ends.append(0)
        return length + len(piece)

    def back(self, secret: Secret) -> Secret:
        return secret._replace(
            start=self._place(secret.start)[0], end=self._place(secret.end - 1)[1], begin=self._place(secret.begin)[0]
        )

    def _place(self, offset: int) -> tuple[int, int]:
        index = bisect_right(self._at, offset) - 1
        if self._ends[index]:
            return self._starts[index], self._ends[index]
        start = self._starts[index] + offset - self._at[index]
        return start, start + 1


def _plain(text: str, values: Iterable[str] = (), *, encoded: bool = True) -> list[Secret]:
    secrets: list[Secret] = []
    for match in _PEM.finditer(text):
        if not secrets or match.start() >= secrets[-1].end:
            secrets.append(Secret(match.start(), _end_of_key(text, match), "private_key", match.start()))
    begun = [secret.start for secret in secrets]
    for match in _PEM_END.finditer(text) if "-----END" in text else ():
        before = bisect_right(begun, match.start()) - 1
        start = _start_of_key(text, match.start())
        if start < match.start() and (before < 0 or secrets[before].end <= match.start()):
            secrets.append(Secret(start, match.end(), "private_key", start))
    lowered = text.lower()
    for match in _URL.finditer(text) if "@" in text and "://" in text else ():
        group = "value" if match["value"] else "only"
        value = match[group]
        is_port = match["scheme"].endswith("ssh://") and value.isdigit()
        if not (_is_unset(match, group) or is_port or (group == "only" and not any(c.isdigit() for c in value))):
            secrets.append(_secret(match, group, "url"))
    present = set(_FORM_WORDS.present(lowered))
    if not present.isdisjoint(issuers.TRIGGERS):
        secrets += [_secret(match, 0, issuers.kind_of(match)) for match in issuers.ISSUED.finditer(text)]
    if "sk-" in text:
        secrets += [_secret(match, 0, "openai") for match in _SK.finditer(text) if _is_key(match["value"])]
    if _holds(lowered, _HOOK_TRIGGERS):
        secrets += [_secret(match, "value", "webhook") for match in _HOOK.finditer(text)]
    if _holds(lowered, ("bearer", "basic")):
        secrets += _of_values(_BEARER.finditer(text), "authorization", _PROSE.match)
    for match in _LOGIN.finditer(text) if _holds(lowered, _LOGIN_TRIGGERS) else ():
        if not _is_unset(match, match.lastgroup or 0):
            secrets.append(_secret(match, match.lastgroup or 0, "password"))
    if _holds(lowered, _REGISTRY_WORDS):
        secrets += _of_registries(text)
    if "@" in text:
        secrets += _of_values(_ADDRESSED.finditer(text), "url")
    if _MAYBE_NAMED.search(lowered):
        secrets += _named(text)
    for pattern in _IN_CODE if _holds(lowered, _CODE_TRIGGERS) else ():
        secrets += _of_values(pattern.finditer(text), "password", names_secret)
    for match, kind in secret_context.find(text, lowered):
        secrets += _of_values((match,), kind, names_secret)
    for match, kind in secret_kinds.find(text, present):
        secrets += _of_values((match,), kind)
    for match in _AUTH_FIELD.finditer(text):
        if b":" in _decoded(match["value"]):
            secrets.append(_secret(match, "value", "authorization"))
    if encoded:
        secrets += [Secret(start, end, "encoded", start) for start, end in _encoded(text, values)]
    return _turned(text, merged([_within_quotes(text, secret) for secret in secrets]))


_ESCAPED_END = re.compile(r"(?:\\{1,3}[nrt]){0,4}\\{1,3}\Z|(?:\\{1,3}[nrt]){1,4}\Z")


def _within_quotes(text: str, secret: Secret) -> Secret:
    """Trim the escape of the closing quote, and of the line's end before it, in a text within a text."""
    if text[secret.end : secret.end + 1] not in ('"', "'"):
        return secret
    escaped = _ESCAPED_END.search(text, max(secret.end - 20, secret.start + 1), secret.end)
    return secret._replace(end=escaped.start()) if escaped else secret


def _of_registries(text: str) -> Iterator[Secret]:
    for pattern in _REGISTRIES:
        yield from _of_values(pattern.finditer(text), "password")
    for login in _REGISTRY_LOGIN.finditer(text):
        start, most = login.end(), min(login.end() + _AFTER_LOGIN, len(text))
        end = text.find("\n", start, most)
        while end > start and text[end - 1] == "\\":
            end = text.find("\n", end + 1, most)
        end = most if end < 0 else end
        matches = [pattern.search(text, start, end) for pattern in _OF_LOGIN]
        opened = _HERE_DOCUMENT.search(text, start, most)
        matches.append(opened if opened is not None and opened.start() < end else None)
        for password in matches:
            if password is not None and not _is_unset(password, "value"):
                yield Secret(*password.span("value"), "password", login.start())


def _of_values(
    matches: Iterable[re.Match[str]], kind: str, is_other: Callable[[str], object] = lambda _: None
) -> Iterator[Secret]:
    """Secrets in the group `value`, if it matched and `is_other` does not reject it."""
    for match in matches:
        if not (_is_unset(match, "value") or is_other(match["value"])):
            yield _secret(match, "value", kind)


def _secret(match: re.Match[str], group: int | str, kind: str) -> Secret:
    return Secret(match.start(group), match.end(group), kind, match.start())


def _is_none(value: str) -> bool:
    if _MAYBE_CODED.search(value):
        # A value ends before its last entity's semicolon; its quotes may be entities as well.
        value = _CODE.sub(_meant, f"{value};").rstrip(";").strip("\"'")
    if (escaped := _ESCAPED_END.search(value, max(len(value) - 20, 1))) is not None:
        value = value[: escaped.start()]
    return (
        "[secret" in value
        or _is_shut(value, 0, len(value.rstrip(",;:")))
        or _HARMLESS.match(value) is not None
        or _HARMLESS.match(value.rstrip(",;:)]}")) is not None
    )


def _is_shut(text: str, start: int, end: int) -> bool:
    shut = _SHUT.match(text, start)
    return shut is not None and shut.end() >= end


def _is_unset(match: re.Match[str], group: int | str) -> bool:
    return _is_none(match[group]) or _is_shut(match.string, *match.span(group))


def _is_key(value: str) -> bool:
    """Whether a text is a random key rather than a model's name: one long piece with digits throughout."""
    return any(
        len(piece) >= 12
        and (sum(c.isdigit() for c in piece) >= 3 or (turns(piece) >= 4 and any(c.isdigit() for c in piece)))
        for piece in re.split(r"[_-]", value)
    )


def _start_of_key(text: str, end: int) -> int:
    """Start of a private key without its first line: all lines but the last have one length."""
    start, length = end, 0
    for number in range(_MAX_KEY_LINES):
        before = text.rfind("\n", max(start - _PEM_LINE_REACH, 0), max(start - 1, 0)) + 1
        if not before and start > _PEM_LINE_REACH:
            break
        line = _PEM_TAIL.fullmatch(text, before, start)
        if line is None or (number > 1 and len(line["body"]) != length):
            break
        length = len(line["body"]) if number else 0
        start = before
    return start


def _end_of_key(text: str, begin: re.Match[str]) -> int:
    """End of a private key: its last line, or the last line that can be of its body."""
    last = text.find("-----END", begin.end(), begin.end() + MAX_KEY)
    if last >= 0 and (end := _PEM_END.match(text, last)):
        return end.end()
    body = _PEM_BODY.match(text, begin.end())
    return _end_of_lines(text, begin.start(), body.end() if body else begin.end())


def _end_of_lines(text: str, begin: int, end: int) -> int:
    margin = begin - text.rfind("\n", max(begin - 400, 0), begin) - 1
    mark, is_last = text[begin - min(margin, 2) : begin], False
    length = end - max(text.rfind(sign, begin, end) for sign in "-\n") - 1
    for _ in range(_MAX_KEY_LINES):
        start = text.find("\n", end, end + 200) + 1
        if start in (0, len(text)) or text[end:start].strip(" \t\r\n│|"):
            break
        behind = start + margin if text.startswith(mark, start + margin - len(mark)) else start
        line = _PEM_LINE.match(text, behind)
        if line is None or (length and not line["body"]):
            break
        if line["body"]:
            is_check = line["body"].startswith("=")
            if (is_last and not is_check) or (not length and len(line["body"]) < _SHORTEST_KEY_LINE):
                break
            is_last, length = is_check or len(line["body"]) < length, len(line["body"])
        end = line.end()
    return end


def _named(text: str) -> Iterator[Secret]:
    lowered = _lower(text)
    if "authorization" in lowered:
        yield from _of_values(_AUTHORIZATION.finditer(text), "authorization", _PROSE.match)
    for cookies in _COOKIES.finditer(text) if "cookie" in lowered else ():
        yield from _of_values(_COOKIE.finditer(text, cookies.start(), cookies.end()), "cookie")
    patterns = [_PAIRED] if _PAIR_BEGUN.search(text) else []
    for pattern in [*patterns, _VARIABLE] if "value" in lowered and "name" in lowered else patterns:
        yield from _of_values(pattern.finditer(text), "key", names_secret)
    tried = 0
    for word in _KEYWORD.finditer(lowered):
        first, last = max(tried, word.start() - _BEFORE), word.start()
        tried = max(tried, last + 1)
        ends = _NAME_END.match(lowered, last)
        if ends is None:
            continue
        if _BEFORE_WORD.match(lowered, ends.end("name")) and not _DASH.search(text, max(first - 60, 0), last):
            continue
        for start in range(first + len(lowered[first:last].rstrip(_OF_NAME)), last + 1):
            if named := _NAMED.match(text, start):
                values = list(_values(named))
                yield from values
                tried = max(tried, values[-1].end if values else 0, named.end("name"))
                break


def _values(match: re.Match[str]) -> Iterator[Secret]:
    text, kind = match.string, _kind(match["name"])
    if _REFERENCE.search(text, max(match.start() - 90, 0), match.start()) and not _ASSIGNED.search(match["between"]):
        return
    option = _OPTION.search(text, max(match.start() - 60, 0), match.start())
    if match["several"]:
        if _is_none(match["several"]):
            return
        for item in _ITEM.finditer(text, *match.span("several")):
            group = "quoted" if item["quoted"] else "value"
            if not _is_none(item[group]) and not item[group].isdigit() and not _is_its_name(match, item[group]):
                yield Secret(item.start(group), item.end(group), kind, match.start())
        return
    group = "quoted" if match["quoted"] else "value"
    value = match[group]
    if "," in match["between"] and not option:
        return
    if _is_unset(match, group) or _is_its_name(match, value) or _is_other(match, value, is_option=option is not None):
        return
    end = match.end(group)
    if not match["quoted"] and _CALLED.match(value) and text.startswith(("'", '"', "\n", "\r"), end):
        argument = _ARGUMENT.match(text, end)
        if argument is not None and not _is_unset(argument, "value"):
            yield Secret(*argument.span("value"), kind, match.start())
        return
    if not match["quoted"] and len(value) == 2000:
        end = min(next((m.start() for m in _ENDS.finditer(text, end)), len(text)), end + 16_000)
    yield Secret(match.start(group), end, kind, match.start())
    if option and match["name"].lower().replace("_", "-").rstrip("s").endswith("api-key"):
        yield from _further(match, end)


def _further(match: re.Match[str], end: int) -> Iterator[Secret]:
    text = match.string
    line = text.rfind("\n", max(match.start() - 2000, 0), match.start()) + 1
    is_command = _COMMAND.search(text, max(line, match.start() - 2000), match.start()) is not None
    is_quoted = match["quote"] and "," not in match["between"] and "\n" not in match["between"]
    end += 1 if is_quoted and text[end : end + 1] in "\"'" else 0
    for _ in range(16):
        more = _MORE_QUOTED.match(text, end) or _MORE_LISTED.match(text, end) or _MORE.match(text, end)
        if more is None or _is_unset(more, "value"):
            return
        value = more["value"]
        is_spoken = more.re is _MORE and not (is_command and not value.endswith((",", ".")))
        if is_spoken and not (
            len(value) >= 6 and any(c.isdigit() for c in value) and value.replace("-", "").replace("_", "").isalnum()
        ):
            return
        yield Secret(more.start("value"), more.end("value"), "key", match.start())
        end = more.end("value")
        end += 1 if more.re is _MORE and more["quote"] and text[end : end + 1] == more["quote"] else 0


def _kind(name: str) -> str:
    name = name.lower()
    for kind, words in (
        ("password", ("pass", "pwd", "masterauth")), ("cookie", ("cookie",)), ("authorization", ("auth", "sig")),
        ("token", ("token",)),
    ):  # fmt: skip
        if any(word in name for word in words) and "key" not in name:
            return "token" if kind == "authorization" and "token" in name else kind
    return "key"


def _is_its_name(match: re.Match[str], value: str) -> bool:
    bare = re.sub(r"[^a-z]", "", value.lower())
    name = re.sub(r"[^a-z]", "", match["name"].lower())
    return bool(bare) and (bare == name or (bare.endswith(name) and value.replace("_", "").isalpha()))


def _is_other(match: re.Match[str], value: str, *, is_option: bool) -> bool:
    name = match["name"].lower().rstrip("0123456789")
    between = match["between"].strip("\\\"'")
    if between.isspace() and "\n" not in match["between"] and not match["scheme"] and not is_option:
        return len(value) < 8 or not any(c.isdigit() for c in value) or not value.isalnum()
    if is_option or match["scheme"]:
        return False
    is_number = value.isdigit() and name in ("token", "_token", "secrets", "secret")
    if is_number and (name == "token" or len(value) <= _MAX_COUNT):
        return True
    is_fault = _FAULT.search(match.string, max(match.start() - 8, 0), match.start()) is not None
    if value in _VERBS or (is_fault and value.istitle() and value.isalpha()):
        return _GOES_ON.match(match.string, match.end()) is not None
    is_parameter = match.string[match.start() - 1 : match.start()] in ("?", "&")
    if name == "token" and not is_parameter and match["name"] != "TOKEN":
        is_random = any(c.isdigit() for c in value) or turns(value) >= 4 or len(value) >= 24
        return not (len(value) >= 8 and value.isascii() and is_random)
    if name == "passwd" and match.string[match.start() - 1 : match.start()] == "/":
        return True  # a mount, /etc/passwd:/etc/passwd:ro
    if value in _STATES:
        return _BARE_NAME.match(match.string, max(match.start() - 1, 0)) is not None
    return name.startswith(("credential", "secret")) and value.startswith(("/", "./", "~", "../"))


_BARE_NAME = re.compile(r"(?:\A|[^\w-])(?:credential|secret)s?:[ \t]{1,8}[a-z]", re.ASCII | re.IGNORECASE)
_STATES = frozenset((
    "created", "deleted", "detached", "expired", "loaded", "missing", "mounted", "redacted", "removed", "required",
    "revoked", "rotated", "updated",
))  # fmt: skip
"""Words that report on a secret, as in "secret: mounted"."""


def _decoded(value: str) -> bytes:
    bare = value.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return binascii.a2b_base64(bare + "=" * (-len(bare) % 4), strict_mode=True)
    except ValueError:
        return b""


def _long_words(text: str) -> Iterator[re.Match[str]]:
    """Find words that may be base64 by their bytes, which is many times faster than by the pattern."""
    raw = text.encode("ascii", "replace")
    marks = raw.translate(_MARKS)
    start = marks.find(_LONG)
    while start >= 0:
        end = marks.find(b" ", start)
        # Identifiers of requests are frequent: the pattern rejects them too, but takes longer.
        if not raw[start : end if end >= 0 else None].islower() and (match := _BASE64.match(text, start)):
            yield match
        start = marks.find(_LONG, end) if end >= 0 else -1


def _encoded(text: str, values: Iterable[str]) -> list[tuple[int, int]]:
    spans = []
    for match in _long_words(text):
        value = match[0]
        if _HEX.match(value):
            continue
        raw = _decoded(value)
        inside = raw.decode("utf-8", "replace")
        if len(_UNPRINTED.findall(inside)) * 5 >= len(inside):
            continue
        lowered = inside.lower()
        if any(value in inside for value in values) or (
            any(trigger in lowered for trigger in _TRIGGERS) and _plain(inside, encoded=False)
        ):
            spans.append(match.span())
    return spans


def _turned(text: str, secrets: list[Secret]) -> list[Secret]:
    if "\n" not in text:
        return secrets
    starts = [secret.start for secret in secrets]
    heads = []
    for start, end in _heads(text):
        index = bisect_right(starts, start) - 1
        if index < 0 or secrets[index].end <= start:
            heads.append(Secret(start, end, "token", start))
    kept, originals = list[Secret](), set(secrets)
    reach = 0
    for secret in sorted((*secrets, *heads)):
        end = secret.end
        # Matches within another secret's further lines were handled.
        is_web_token = text.startswith(_WEB_TOKEN, secret.start)
        for _ in range(TURNS if secret.start >= reach else 0):
            turn = _turn(text, end, _TURN_OF_WEB_TOKEN if is_web_token and _is_full(text, end) else _TURN)
            if turn is None:
                break
            end = turn
        reach = max(reach, end)
        if end > secret.end or secret in originals:
            kept.append(secret._replace(end=end))
    return merged(kept)


def _heads(text: str) -> Iterator[tuple[int, int]]:
    for line in _END_OF_WORD.finditer(text):
        end = line.start()
        words = text[max(end - _MAX_HEAD, 0) : end]
        if head := _HEAD.search(text, end - len(words) + len(words.rstrip(_OF_HEAD)), end):
            yield head.start(), end


def _is_full(text: str, end: int) -> bool:
    """Whether a wrapped line is as long as its terminal or box: the next row is as long, or is the last."""
    start = text.rfind("\n", max(end - 4000, 0), end) + 1
    newline = text.find("\n", end, end + 202)
    following = text.find("\n", newline + 1, newline + 4000)
    length = (len(text) if following < 0 else following) - newline - 1
    return newline >= 0 and end - start >= _ROW and length <= newline - start


def _turn(text: str, end: int, of: LazyPattern = _TURN) -> int | None:
    """End of the word that continues a secret in the next line; None if there is none."""
    newline = text.find("\n", end, end + 202)
    if newline < 0:
        return None
    start = text.rfind("\n", max(end - 4000, 0), end) + 1
    margin = _MARGIN.match(text, start)
    after = newline + 1
    if margin and margin.end() <= end and text.startswith(margin[0], after):
        # The same prefix of a logger or a box: the text after it continues.
        line = text[end : newline + 1] + text[after + len(margin[0]) : after + len(margin[0]) + 2200]
        turn, shift = of.match(line), end + len(margin[0])
    else:
        turn, shift = of.match(text, end), 0
    if turn is None:
        return None
    rest = turn["rest"]
    first = re.match(r"[\w+/~-]{1,200}", text[start : start + 200])
    is_margin = first is not None and first[0] == rest
    if of is _TURN_OF_WEB_TOKEN and (not rest.isalpha() or not rest.islower()):
        return turn.end("rest") + shift
    has_digit = any(c.isdigit() for c in rest)
    is_mixed = has_digit and any(c.isalpha() for c in rest) and (turns(rest) >= 3 or len(rest) >= 16)
    goes_on = is_mixed or turns(rest) >= 6
    if is_margin or not goes_on or _HEX_DATE.match(rest):
        return None
    return turn.end("rest") + shift


_HEX_DATE = re.compile(r"\d{4}-\d\d-\d\d|0x")
