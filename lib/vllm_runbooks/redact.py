"""Replace secrets in any text that leaves the library, each by a placeholder that stays the same within one process.

What is replaced: tokens that name their issuer (Hugging Face, OpenAI-style, NVIDIA, GitHub, GitLab, AWS, Google, Slack,
JSON Web Tokens), values of options, variables and fields whose name says that they are secret, `Bearer` and `Basic`
credentials, passwords in URLs, and private keys. Counts, hashes, UUIDs, versions and token *ids* stay.
"""

from __future__ import annotations

import re

_ISSUED = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,200}|sk-[A-Za-z0-9_-]{16,200}|nvapi-[A-Za-z0-9_-]{16,200}|gh[pousr]_[A-Za-z0-9]{16,200}"
    r"|github_pat_[A-Za-z0-9_]{16,200}|glpat-[A-Za-z0-9_-]{16,200}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,60}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,200}|eyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{0,2000})",
    re.ASCII,
)
_NAMED = re.compile(
    r"(?P<name>(?<![A-Za-z0-9])[A-Za-z0-9_-]{0,40}?(?:api[_-]?key|apikey|auth[_-]?token|access[_-]?token|hf[_-]?token"
    r"|hub[_-]?token|bearer[_-]?token|secret(?:[_-]?(?:access[_-]?)?key)?|access[_-]?key(?:[_-]?id)?|private[_-]?key"
    r"|passw(?:or)?d|passphrase|(?<![A-Za-z_-])token))"
    r"(?P<between>[\"']?\s{0,4}(?:[=:]\s{0,4}|\s{1,4}))(?P<quote>[\"']?)(?P<value>\[[^\]\n]{0,2000}\]|[^\s\"',;)\]}]{1,2000})",
    re.ASCII | re.IGNORECASE,
)
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@]{0,200}):(?P<value>[^\s/@]{1,200})@", re.ASCII)
_BEARER = re.compile(r"\b(?P<scheme>[Bb]earer|[Bb]asic)(?P<between>\s{1,4})(?P<value>[A-Za-z0-9._~+/=-]{8,2000})", re.ASCII)
_PEM = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?s:.{0,8000}?)(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)")
_TRIGGER = re.compile(
    r"hf_|sk-|nvapi-|gh[pousr]_|github_pat_|glpat-|AKIA|ASIA|AIza|xox|eyJ|PRIVATE KEY|://|bearer|basic"
    r"|api[_-]?key|token|secret|access[_-]?key|private[_-]?key|passw|passphrase",
    re.ASCII | re.IGNORECASE,
)
_HARMLESS = re.compile(r"(?:none|null|true|false|\*+|<.*|\$.*|\.\.\.|\[\]|\[none\]|\d{1,9})\Z", re.I)
_PROSE = re.compile(r"[a-z]{1,14}\Z")

_placeholders: dict[str, str] = {}


def _placeholder(secret: str) -> str:
    return _placeholders.setdefault(secret, f"[secret-{len(_placeholders) + 1}]")


def _named(match: re.Match[str]) -> str:
    value = match["value"]
    spoken = match["between"].isspace() and not match["name"].startswith("-")
    is_prose = spoken and (not any(c.isdigit() for c in value) or _PROSE.match(value))
    is_short_token = match["name"].lower().endswith("token") and len(value) < 8
    if "[secret-" in value or _HARMLESS.match(value) or is_prose or is_short_token:
        return match[0]
    return f"{match['name']}{match['between']}{match['quote']}{_placeholder(value)}"


def redact_text(text: str) -> str:
    """Return the text with every recognised secret replaced; a text without any comes back unchanged."""
    if not _TRIGGER.search(text):
        return text
    text = _PEM.sub(lambda m: _placeholder(m[0]), text)
    text = _URL.sub(lambda m: m[0] if _HARMLESS.match(m["value"]) else f"{m['scheme']}:{_placeholder(m['value'])}@", text)
    text = _ISSUED.sub(lambda m: _placeholder(m[0]), text)
    text = _BEARER.sub(
        lambda m: (
            m[0]
            if _HARMLESS.match(m["value"]) or (_PROSE.match(m["value"]) and "uthorization" not in text)
            else f"{m['scheme']}{m['between']}{_placeholder(m['value'])}"
        ),
        text,
    )
    return _NAMED.sub(_named, text)
