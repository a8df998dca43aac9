"""Secrets that a file holds, whatever gives them to whom: whoever gets the file has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vllm_runbooks.catalog.languages import Phrase
from vllm_runbooks.core.redaction import parts as secret_parts
from vllm_runbooks.core.redaction import places as secret_places
from vllm_runbooks.core.redaction.places import Secret
from vllm_runbooks.lint.hits import Hit

_RULE = "edge10.secret-in-file"
_TOLD = frozenset(("edge10.password-in-command", "safety.secret-in-arguments"))
"""Rules that tell of the same secret, and of more."""
_NOT_TOLD = frozenset(("encoded", "repeated"))
_PASSWORD, _OTHER = Phrase("password"), Phrase("key or token")
_WORDS = {
    "password": _PASSWORD,
    "url": _PASSWORD,
    "private_key": Phrase("private key"),
    "cookie": Phrase("cookie"),
    "webhook": Phrase("address of a webhook, which is a secret,"),
}
_NAMED = frozenset(("key", "token", "authorization"))
"""Kinds that a name alone tells: what servers that ask for none are given (`EMPTY`, `sk-local`) is no secret."""
_LEAST = 12
_PUBLIC = frozenset(("token-abc123",))
"""What vLLM's own documentation gives as an example."""
_MAX_NAME, _MAX_LOOKED_AT = 80, 1_000_000


def find(text: str, others: Sequence[Hit], shown: Iterable[str]) -> Iterator[Hit]:
    """The secrets of a file, each where it stands first.

    Args:
        text: Of the file.
        others: What else is told of the file.
        shown: The passwords that its commands show, which are told with them.
    """
    told = [(hit.start, hit.end) for hit in others if hit.rule in _TOLD]
    known = set(shown)
    for secret in secret_places.find(text[:_MAX_LOOKED_AT]):
        value = secret_places.value_of(text[secret.start : secret.end])
        if not _is_told(secret, value) or value in known:
            continue
        known.add(value)
        if not any(start < secret.end and secret.start < end for start, end in told):
            yield Hit(_RULE, _name_at(text, secret), secret.end, {"what": _WORDS.get(secret.kind, _OTHER)})


def _is_told(secret: Secret, value: str) -> bool:
    if secret.kind in _NOT_TOLD or value in _PUBLIC:
        return False
    return secret.kind not in _NAMED or (len(value) >= _LEAST and secret_parts.is_telling(value))


def _name_at(text: str, secret: Secret) -> int:
    """Where the word begins that tells of a secret."""
    start = secret.begin
    while start > max(secret.begin - _MAX_NAME, 0) and (text[start - 1].isalnum() or text[start - 1] in "_-"):
        start -= 1
    return start
