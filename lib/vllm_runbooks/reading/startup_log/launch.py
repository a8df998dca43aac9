"""Find the command or call that launched vLLM in a log, and read its arguments verbatim.

A log arrives line by line and may never end, so a single look at a line decides whether a launch begins or continues.
"""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from vllm_runbooks.core.printed import literal, masked, pairs

MAX_LENGTH = 16_000
_MAX_LINES = 200
_MAX_WORD = 1000
"""Longest word: shlex is quadratic."""

_PROMPT = re.compile(
    r"(?:\([\w.-]{1,60}\) ?)?(?:[\w.-]{1,64}@[\w.-]{1,64}[^#$%>\n]{0,120}|\+{1,3}|>{1,3}|)\s{0,3}[#$%>+] ?(?=\S)",
    re.ASCII,
)
_VLLM = re.compile(
    r"(?:^|[\s;&|(/'\"])(?:vllm (?:serve|bench)\b|vllm\.entrypoints\.[\w.]{1,60}|api_server\.py\b"
    r"|benchmark_(?:latency|throughput)\.py\b|\S{0,80}vllm-openai\b)",
    re.ASCII,
)
_RUNNERS = r"(?:sudo|nohup|exec|time|env|uv run|stdbuf -\w{1,4}|numactl(?: -\S{1,40}){0,4}|CMD|ENTRYPOINT)"
_BARE = re.compile(
    rf"\s{{0,8}}(?:(?:{_RUNNERS}|[A-Za-z_]\w{{0,60}}=(?:\"[^\"\n]{{0,200}}\"|[^\s\"]{{0,200}})) {{1,4}}){{0,20}}"
    r"(?:(?:[\w./~-]{0,200}/)?"
    r"(?:vllm (?:serve|bench (?:latency|throughput))\b(?!:)|python[\d.]{0,5} (?:-u )?"
    r"(?:-m vllm\.entrypoints\.|\S{0,200}api_server\.py\b|\S{0,200}benchmark_(?:latency|throughput)\.py\b))"
    r"|(?:docker|podman|nerdctl) run\b)",
    re.ASCII,
)
_CALL = re.compile(
    r"\s{0,40}(?:[\w.]{1,60} {0,2}= {0,2}|return )?(?:vllm\.)?(?:LLM|EngineArgs|AsyncEngineArgs)\(", re.ASCII
)
_COMPOSE = re.compile(r"\s{0,40}command: ?[>|][-+]?\s{0,8}\Z", re.ASCII)
_COMMENT = re.compile(r"(?:^|\s)#[^'\"]{0,400}\Z")
_OPTION = re.compile(r"\s{0,16}--?[A-Za-z][\w.-]{0,80}(?:[ =]|\s{0,4}\\?\Z)", re.ASCII)
_SHORT = {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size", "q": "quantization"}
_COMMANDS = {"serve": 1, "bench": 2}
"""Commands of `vllm`, and the number of words before their options."""
_SCRIPTS = ("api_server.py", "benchmark_latency.py", "benchmark_throughput.py")
_END = re.compile(r"[&|;>]|\d>|<(?![^<>]{1,200}>\Z)")
"""End of a command's own words, but not a `<placeholder>`."""


@dataclass
class ShownLaunch:
    """A shell command or Python call, as far as read."""

    line: int
    text: str
    lines: int = 1
    is_call: bool = False
    """Whether it is `LLM(…)` rather than a command."""

    def takes(self, text: str) -> bool:
        """Append a further line of the launch; False if it does not belong to it."""
        if self.lines >= _MAX_LINES or len(self.text) + len(text) > MAX_LENGTH or not self._goes_on(text):
            return False
        text = _COMMENT.sub("", text) if self.is_call else text
        self.text = f"{self.text.rstrip().removesuffix(chr(92)).rstrip()} {text.strip()}"
        self.lines += 1
        return True

    def _goes_on(self, text: str) -> bool:
        if self.is_call:
            return self.text.count("(") > self.text.count(")")
        return self.text.rstrip().endswith("\\") or _OPTION.match(text) is not None

    @property
    def command(self) -> str | None:
        """Shell command; None for a call, or a container without vLLM."""
        return None if self.is_call or not _VLLM.search(self.text) else self.text.strip()

    @property
    def arguments(self) -> dict[str, Any]:
        return _of_call(self.text) if self.is_call else _of_command(self.text)


def at_prompt(text: str) -> str | None:
    """VLLM command after a shell prompt, or None."""
    prompt = _PROMPT.match(text)
    if prompt and _VLLM.search(text):
        return text[prompt.end() :].strip()
    return None


def begun(number: int, text: str) -> ShownLaunch | None:
    """Launch that begins on a line: after a prompt, as a bare command, or as a call."""
    command = at_prompt(text) or (text.strip() if _BARE.match(text) else None)
    if command is not None:
        return ShownLaunch(number, command[:MAX_LENGTH])
    if _COMPOSE.match(text):
        return ShownLaunch(number, "vllm serve")
    if _CALL.match(text):
        return ShownLaunch(number, text.strip()[:MAX_LENGTH], is_call=True)
    return None


def _of_call(text: str) -> dict[str, Any]:
    """Keyword arguments of `LLM(…)`, without variables; the first may be positional."""
    inside = text[text.index("(") :]
    arguments = {}
    for name, value in pairs(inside).items():
        is_name = isinstance(value, str) and re.search(rf"\b{name}\s{{0,4}}=\s{{0,4}}[\"']", inside) is None
        if not is_name:
            arguments[name] = value
    first = re.match(r"\(\s{0,40}[\"']([^\"'\n]{1,400})[\"']", inside)
    return {"model": masked(first[1]), **arguments} if first else arguments


def _of_command(text: str) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    name = ""
    for word in _vllm_words(text):
        if _END.match(word):
            break
        option = re.match(r"--([A-Za-z][\w.-]{0,80})(?:=(.*))?\Z|-([A-Za-z]{1,2})(?:=(.*))?\Z", word, re.DOTALL)
        if option:
            name = (_SHORT.get(option[3]) if option[3] else option[1].replace("-", "_")) or ""
            value = option[2] if option[1] else option[4]
            if name:
                arguments[name] = True if value is None else masked(literal(value), name)
                name = name if value is None else ""
        elif name:
            arguments[name] = masked(literal(word), name)
            name = ""
        elif not arguments:
            arguments["model_tag"] = masked(word)
    return arguments


def _vllm_words(text: str) -> list[str]:
    words = text.split()
    if max(map(len, words), default=0) <= _MAX_WORD:
        with suppress(ValueError):  # a quote that is never closed
            words = shlex.split(text, comments=True)
    for index, word in enumerate(words):
        if word in _COMMANDS and index and words[index - 1].rsplit("/", 1)[-1] == "vllm":
            return words[index + _COMMANDS[word] :]
        if word.startswith("vllm.entrypoints.") or word.endswith(_SCRIPTS):
            return words[index + 1 :]
    from vllm_runbooks.reading import documents  # for a container's image alone: most logs need no other reader

    launches = documents.read_kind(text, "shell", is_page=True).starts
    return [word.raw if word.value is None else word.value for word in launches[0].words] if launches else []
