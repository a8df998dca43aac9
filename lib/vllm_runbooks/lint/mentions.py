"""Words of vLLM in a text without a launch, so that "nothing found" is not read as "nothing wrong"."""

from __future__ import annotations

import re

from vllm_runbooks.catalog import options
from vllm_runbooks.lint.records import VllmMention
from vllm_runbooks.lint.secrecy import Secrets
from vllm_runbooks.reading.shell.word_lists import word_list

_WORD = re.compile(r"(?i)(?<![\w-])(?:vllm(?![a-z])[\w./:-]{0,80}|--[a-z][a-z0-9-]{4,60})")
_MAX_TEXT = 8_000_000


def mentioned(text: str, secrets: Secrets) -> VllmMention | None:
    """The first word of vLLM in a text: its name, an image, a module, or an option that only vLLM has."""
    names = options.past().lives
    for match in _WORD.finditer(text, 0, _MAX_TEXT):
        word = match[0].rstrip(".:/")
        if word[:2] == "--" and (word not in names or word in word_list("common-options")):
            continue
        return VllmMention(text.count("\n", 0, match.start()) + 1, secrets.hidden(word))
    return None
