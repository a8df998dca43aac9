"""Replace secrets in any text that leaves the library, each by a placeholder that stays the same within one process.

What is replaced: tokens that name their issuer (Hugging Face, OpenAI-style, NVIDIA, GitHub, GitLab, AWS, Google, Slack,
JSON Web Tokens), values of options, variables and fields whose name says that they are secret, `Bearer` and `Basic`
credentials, user information in URLs, and private keys. Counts, hashes, UUIDs, versions and token *ids* stay.
"""

from __future__ import annotations

import re

_ISSUED = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{16,200}|sk-[A-Za-z0-9_-]{16,200}|nvapi-[A-Za-z0-9_-]{16,200}"
    r"|gh[pousr]_[A-Za-z0-9]{16,200}|github_pat_[A-Za-z0-9_]{16,200}|glpat-[A-Za-z0-9_-]{16,200}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,60}|xox[abeprs]-[A-Za-z0-9-]{10,200}"
    r"|eyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{0,2000})",
    re.ASCII,
)
_SENSITIVE = (
    r"(?:(?:api[_-]?keys?|auth[_-]?key|(?:signing|encryption|storage|deploy|master|ssh)[_-]key|account[_-]?key|access[_-]?key(?:[_-]?id)?"
    r"|private[_-]?key|secrets?(?:[_-]?(?:access[_-]?)?key(?:[_-]base)?)?|passw(?:or)?ds?|[_-]pass|passphrase|credentials?"
    r"|(?<=[A-Za-z0-9])[_-]pwd|(?-i:(?<![A-Za-z_-])PASS(?==|\Z))|(?<=[?&])sig(?==)"
    r"|(?-i:(?<=[A-Z0-9])(?<!PUBLIC)(?<!CACHE)(?<!PRIMARY)(?<!FOREIGN)(?<!SORT)(?<!HASH)_KEY)"
    r"|authorization|(?:set-)?cookie|x-amz-signature"
    r"|(?:auth|access|hf|hub|bearer|refresh|session|security|id|api|csrf|github|gitlab|slack|job|secret"
    r"|my|user|admin|bot|client|deploy|hugging_?face|jwt|login|npm|oauth|personal|private|pypi|service|wandb)[_-]?token"
    r"|(?<![A-Za-z_-])token|(?<=--)token|(?-i:(?<=[A-Z0-9])_TOKEN))(?-i:_V?\d{1,2})?)"
)
"""Ends of sensitive names. A lower-case `…_token` is a tokenizer's (`eos_token`) unless its kind is listed."""
_NAME = re.compile(rf"[A-Za-z0-9_-]{{0,80}}?{_SENSITIVE}\Z", re.ASCII | re.IGNORECASE)
_QUOTE = r"\\{0,3}[\"']"
_WORD = r"(?:[^\s\"',;)\]}]|[,;)\]}](?![\s\"',;)\]}]|\Z|[\w-]{1,60}[=:])){1,2000}"
"""A value without quotes: up to a blank, or to a comma or bracket behind which the next field begins."""
_NAMED = re.compile(
    rf"(?P<name>{_SENSITIVE})"
    rf"(?P<between>(?:{_QUOTE})?\s{{0,4}}(?:(?:=>|[=:]|%3[AaDd])\s{{0,4}}|\\\s{{1,40}}|\s{{1,4}}(?:\\\s{{1,40}})?))"
    rf"(?:(?:{_QUOTE})?(?P<scheme>Bearer|Basic|Digest|Token|Api-?Key)\s{{1,4}})?"
    rf"(?:(?:[A-Za-z_]\w{{0,30}}\()?[bru]{{0,2}}(?P<quote>{_QUOTE})"
    rf"(?P<quoted>(?:(?!(?P=quote))(?:\\[^\n]|[^\n\\])){{1,2000}})"
    rf"|(?P<value>\[[^\]\n]{{0,2000}}\]|\([^)\n]{{0,2000}}\)|{_WORD}))",
    re.ASCII | re.IGNORECASE,
)
_AUTHORIZATION = re.compile(
    rf"(?P<before>authorization(?:{_QUOTE})?\s{{0,4}}[=:]\s{{0,4}}(?:{_QUOTE})?[A-Za-z][\w-]{{0,30}}\s{{1,4}})"
    r"(?P<value>[^\s\"',;)\]}]{4,2000})",
    re.ASCII | re.IGNORECASE,
)
"""The header with any scheme."""
_COOKIES = re.compile(
    rf"cookie(?:{_QUOTE})?\s{{0,4}}[=:]\s{{0,4}}(?:{_QUOTE})?[^\s\"'\\;]{{1,4000}}"
    r"(?:; ?[^\s\"'\\;]{1,4000}){0,100}",
    re.IGNORECASE,
)
_COOKIE = re.compile(
    r"(?P<before>[:;=\s\"'](?!(?:path|domain|expires|max-age|samesite|version)=)[\w.-]{1,80}=)(?P<value>[^\s;,\"']{1,4000})",
    re.ASCII | re.IGNORECASE,
)
_MAYBE_NAMED = re.compile(
    r"(?:keys?|[_-]id|passw(?:or)?ds?|pass|passphrase|secrets?|credentials?|token|authorization|cookie|signature|pwd|sig)"
    r"(?:_base|_v?\d{1,2})?[\\\"']{0,4}[\s=:%\\]",
    re.ASCII,
)
"""What every lower-cased text with a named secret holds: far quicker to look for than the name itself."""
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,20}://)"
    r"(?:(?P<user>[^\s/:@]{0,200}):(?P<value>[^\s/@]{1,200}(?:@[^\s/@?#,;\"']{1,200}){0,3})|(?P<only>[^\s/:@]{16,200}))@",
    re.ASCII,
)
_BEARER = re.compile(
    r"\b(?P<scheme>[Bb]earer|[Bb]asic)(?P<between>\s{1,4})(?P<value>[A-Za-z0-9._~+/=-]{8,2000})", re.ASCII
)
_PEM = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[^-]|-(?!----)){0,8000}(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
)
_TRIGGERS = (
    "hf_", "sk-", "nvapi-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "akia", "asia", "aiza",
    "xox", "eyj", "://", "bearer", "basic", "key", "token", "secret", "passw", "_pass", "-pass", "passphrase",
    "credential", "authorization", "cookie", "signature", "pwd", "sig=", "pass=",
)  # fmt: skip
"""Lower-case words one of which is in every text with a secret."""
_HARMLESS = re.compile(
    r"(?:none|null|true|false|empty|\*+|<[^<>]{0,200}>?|\$\{?[A-Za-z_]\w{0,80}\}?|\.\.\.|\[\]|\[none\]|\[secret[^\]]{0,20}\])\Z",
    re.IGNORECASE,
)
_MAX_COUNT = 7
"""Digits of a count; a longer number may be a secret."""
_PROSE = re.compile(r"[a-z]{1,14}\Z")

_OPTION = re.compile(r"(?<![\w-])--?[\w-]{0,40}\Z", re.ASCII)

_PLACEHOLDER = re.compile(r"\[secret-\d{1,9}\]")
_MIN_AGAIN, _MAX_AGAIN = 8, 20
"""Shortest secret that is looked for wherever else it stands in its text, and for how many of them."""
_placeholders: dict[str, str] = {}
_secrets: dict[str, str] = {}
"""Secrets by placeholder."""


def _placeholder(secret: str) -> str:
    placeholder = _placeholders.setdefault(secret, f"[secret-{len(_placeholders) + 1}]")
    _secrets[placeholder] = secret
    return placeholder


def _again(text: str) -> str:
    """The text without the secrets that it shows elsewhere without a name."""
    for placeholder in list(dict.fromkeys(_PLACEHOLDER.findall(text)))[:_MAX_AGAIN]:
        secret = _secrets.get(placeholder, "")
        if len(secret) >= _MIN_AGAIN:
            text = text.replace(secret, placeholder)
    return text


def names_secret(name: str) -> bool:
    """Whether the value of an option, variable or field of this name is secret."""
    return _NAME.match(name) is not None


def _named(match: re.Match[str]) -> str:
    value = match["quoted"] or match["value"]
    is_spoken = match["between"].isspace() and not match["scheme"] and not _is_option(match)
    is_prose = is_spoken and (len(value) < 8 or not any(c.isdigit() for c in value) or not value.isalnum())
    name = match["name"].lower()
    is_count = name == "token" or (name in ("_token", "secrets") and len(value) <= _MAX_COUNT)
    is_count = is_count and value.isdigit() and not _is_option(match)
    if "[secret-" in value or _HARMLESS.match(value) or is_prose or is_count:
        return match[0]
    start, end = match.span("quoted" if match["quoted"] else "value")
    before, after = match[0][: start - match.start()], match[0][end - match.start() :]
    return f"{before}{_placeholder(value)}{after}"


def _is_option(match: re.Match[str]) -> bool:
    """Whether the name is that of a command's option."""
    return _OPTION.search(match.string, max(match.start() - 60, 0), match.start()) is not None


def _in_url(match: re.Match[str]) -> str:
    value = match["value"] or match["only"]
    is_port = match["scheme"].endswith("ssh://") and value.isdigit()
    if _HARMLESS.match(value) or is_port or (match["only"] and not any(c.isdigit() for c in value)):
        return match[0]
    return f"{match['scheme']}{'' if match['only'] else match['user'] + ':'}{_placeholder(value)}@"


def _bearer(match: re.Match[str]) -> str:
    if _HARMLESS.match(match["value"]) or _PROSE.match(match["value"]):
        return match[0]
    return f"{match['scheme']}{match['between']}{_placeholder(match['value'])}"


def _valued(match: re.Match[str]) -> str:
    value = match["value"]
    return match[0] if "[secret-" in value or _HARMLESS.match(value) else f"{match['before']}{_placeholder(value)}"


def redact_text(text: str) -> str:
    """Return the text with every recognised secret replaced; a text without any comes back unchanged."""
    lowered = text.lower()
    if not any(trigger in lowered for trigger in _TRIGGERS):
        return text
    text = _PEM.sub(lambda match: _placeholder(match[0]), text)
    text = _URL.sub(_in_url, text)
    text = _ISSUED.sub(lambda match: _placeholder(match[0]), text)
    text = _BEARER.sub(_bearer, text)
    if _MAYBE_NAMED.search(lowered):
        text = _AUTHORIZATION.sub(lambda match: match[0] if _PROSE.match(match["value"]) else _valued(match), text)
        text = _COOKIES.sub(lambda match: _COOKIE.sub(_valued, match[0]), text)
        text = _NAMED.sub(_named, text)
    return _again(text)
