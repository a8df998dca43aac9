"""Commands other than vLLM's own that are run or printed, from `catalog/tables/host_commands.yaml`.

A value for a placeholder is of its kind or rejected: none is an option, and nothing of a command is text for a shell.
"""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from vllm_runbooks.catalog.tables import LazyTable
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import Authored

_DNS_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_CARD = r"(?:\d{1,3}|(?:GPU|MIG)-[0-9A-Za-z-]{1,80})"
_CARDS = rf"{_CARD}(?:,{_CARD}){{0,63}}"
VALUES: Mapping[str, str] = {
    "pid": r"[1-9]\d{0,9}",
    "port": r"[1-9]\d{0,4}",
    "number": r"\d{1,9}",
    "size": r"\d{1,9}[KMG]?",
    "span": r"\d{1,6}[smh]",
    "cards": _CARDS,
    "gpus": rf'all|\d{{1,3}}|"device={_CARDS}"',
    "container": r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}",
    "namespace": _DNS_LABEL,
    "pod": r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?",
    "pod_container": _DNS_LABEL,
    "unit": r"[A-Za-z0-9_][A-Za-z0-9_.:@\\-]{0,254}",
    "package": r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,80}[A-Za-z0-9])?",
    "requirement": r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,80}[A-Za-z0-9])?(?:\[[a-z,]{1,40}\])?"
    r"(?:[<>=!~]=?[0-9][0-9A-Za-z.]{0,20})?",
    "npm_package": r"[a-z][a-z0-9-]{0,80}@\d{1,6}\.\d{1,6}\.\d{1,6}",
    "path": r"(?:/|\./|[A-Za-z0-9_])[^\x00-\x1f\x7f]{0,1000}",
    "folder": r"(?:/|\./|\.|[A-Za-z0-9_])[^\x00-\x1f\x7f]{0,1000}",
    "repository": r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}",
    "address": r"[A-Za-z0-9](?:[A-Za-z0-9.:-]{0,252}[A-Za-z0-9])?",
    "url_host": r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\]",
    "login": r"(?:[A-Za-z_][\w.-]{0,31}@)?[A-Za-z0-9](?:[A-Za-z0-9.:-]{0,252}[A-Za-z0-9])?",
    "image": r"(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?::\d{1,5})?/)?[a-z0-9][a-z0-9._-]{0,127}"
    r"(?:/[a-z0-9][a-z0-9._-]{0,127}){0,8}(?::\w[\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    "user": r"[a-z_][a-z0-9_-]{0,31}",
    "url": r"https://[A-Za-z0-9.-]{1,253}(?:/[A-Za-z0-9._/-]{0,200})?",
    "remote_path": r"/[A-Za-z0-9._@/-]{1,200}",
    "module": r"[A-Za-z_]\w{0,80}(?:\.\w{1,80}){0,8}",
    "word": r"[A-Za-z0-9_][\w.-]{0,80}",
    "setting": r"[a-z][a-z0-9_]{0,40}(?:\.[a-z0-9_-]{1,60}){1,6}",
}
"""Pattern of the values by kind of placeholder; a `remote_path` is parsed again by the shell of
another host."""
_READS = "read-only"
_NOTHING = "nothing (read-only)"


@dataclass(frozen=True)
class HostCommand(Authored):
    """A command that is run or printed."""

    command: str
    """The command as typed; `{kind}` is a placeholder. Printed commands may lack the last words."""
    effect: str = _READS
    undo: str = _NOTHING

    @cached_property
    def argv(self) -> tuple[str, ...]:
        return tuple(shlex.split(self.command))

    @property
    def changes(self) -> bool:
        return self.undo != _NOTHING

    @property
    def is_expanded(self) -> bool:
        """Whether it is text that a shell expands: such a row has no placeholder."""
        return any(sign in word for word in self.argv for sign in "$*")

    @cached_property
    def places(self) -> tuple[str, ...]:
        return tuple(field for word in self.argv for _, field, _, _ in string.Formatter().parse(word) if field)


TABLE: Mapping[str, HostCommand] = LazyTable("host_commands", HostCommand)
_PLACED = r"\{[a-z_]+\}|<[\w ]+>|[A-Z]{3,20}"
"""Placeholders in printed commands: `{name}`, `<name>` or `NAME`."""
_PYTHON = re.compile(
    r"import [A-Za-z_][\w.]{0,80}(?:, [A-Za-z_][\w.]{0,80}){0,2}(?: as [a-z])?(?:\.<module>)?"
    r"(?:; (?:print\([\w.()'\", \[\]]{1,120}\)|torch\.zeros\(1\)\.cuda\(\)))?"
)
"""Allowed content of a printed `python -c`: imports, prints, and at most one tensor."""


def argv(name: str, **values: str) -> tuple[str, ...]:
    """Words of a command; raises InputError for an invalid value or text for a shell."""
    if TABLE[name].is_expanded:
        raise InputError(f"`{' '.join(TABLE[name].argv)}` needs a shell; type it")
    return tuple(_filled(word, values) for word in TABLE[name].argv)


def _filled(word: str, values: Mapping[str, str]) -> str:
    made = []
    for text, field, _, _ in string.Formatter().parse(word):
        made.append(text)
        if field:
            if not is_of_kind(field, values[field]):
                printable = "".join(c if c.isprintable() else "?" for c in str(values[field])[:80])
                raise InputError(
                    f"{printable or '(nothing)'}: is no {field.replace('_', ' ')}, no command is built from it"
                )
            made.append(values[field])
    return "".join(made)


def is_of_kind(kind: str, value: str) -> bool:
    """Whether a value is valid for a placeholder."""
    if not value.isprintable() or not re.fullmatch(VALUES[kind], value, re.ASCII):
        return False
    return kind != "port" or int(value) < 1 << 16


def line(name: str, **values: str) -> str:
    """The command as one types it; raises InputError if a value is not of its kind."""
    if TABLE[name].is_expanded:
        return " ".join(TABLE[name].argv)
    return shlex.join(argv(name, **values))


def row_of(printed: str) -> HostCommand | None:
    """Row of a printed command, possibly without its last words; `{name}` matches any value."""
    try:
        words = shlex.split(printed)
    except ValueError:
        return None
    if words[:2] == ["python", "-c"] and len(words) == 3:
        return HostCommand(printed) if _PYTHON.fullmatch(words[2]) else None
    return next((row for row in TABLE.values() if _fits(words, row.argv)), None)


def undo(printed: str) -> str:
    """Command that undoes a printed command, with its values; empty if it has no row.

    Of several values of one kind the first is used.
    """
    row = row_of(printed)
    if row is None:
        return ""
    values: dict[str, str] = {}
    for word, template in zip(shlex.split(printed), row.argv, strict=False):
        match = re.fullmatch(_pattern(template), word, re.ASCII)
        kinds = [field for _, field, _, _ in string.Formatter().parse(template) if field]
        for kind, value in zip(kinds, match.groups() if match else (), strict=False):
            values.setdefault(kind, value)
    return re.sub(r"\{([a-z_]+)\}", lambda hole: values.get(hole[1], hole[0]), row.undo)


def _fits(words: Sequence[str], argv: Sequence[str]) -> bool:
    if not words or len(words) > len(argv):
        return False
    return all(map(_is_word, words, argv))


def _is_word(word: str, template: str) -> bool:
    parts = list(string.Formatter().parse(template))
    if all(field is None for _, field, _, _ in parts):
        return word in (template, "".join(text for text, _, _, _ in parts))
    match = re.fullmatch(_pattern(template), word, re.ASCII)
    kinds = [field for _, field, _, _ in parts if field]
    return match is not None and all(
        re.fullmatch(_PLACED, value) or is_of_kind(kind, value)
        for kind, value in zip(kinds, match.groups(), strict=True)
    )


def _pattern(template: str) -> str:
    """Pattern of a row's word; each value is a group."""
    parts = string.Formatter().parse(template)
    return "".join(re.escape(text) + (f"({_PLACED}|{VALUES[field]})" if field else "") for text, field, _, _ in parts)


def printed(text: str) -> list[str]:
    """Texts between backticks."""
    return re.findall(r"`([^`\n]{1,200})`", text)


def unknown(text: str) -> Iterator[str]:
    """Commands between backticks that are in no row, split at pipes."""
    for span in printed(text):
        for part in span.split(" | "):
            words = part.split()
            if words and words[0] in programs() and row_of(part) is None:
                yield part


@cache
def programs() -> frozenset[str]:
    """First words of commands: of the table, and of other programs on hosts."""
    return frozenset({*(row.argv[0] for row in TABLE.values()), "python", *_OTHERS})


_OTHERS = frozenset(
    {
        *("apt", "apt-get", "awk", "bash", "chmod", "chown", "conda", "cp", "crontab", "dd", "dnf", "du", "gdb"),
        *("helm", "htop", "iptables", "ipcrm", "ipcs", "killall", "ln", "lsmod", "lsof", "lspci", "mkdir", "mknod"),
        *("modprobe", "mount", "nc", "numactl", "nvidia-ctk", "nvidia-persistenced", "ping", "pip3", "pkill"),
        *("reboot", "rm", "rmdir", "rmmod", "rsync", "scp", "sed", "sh", "shutdown", "strace", "su", "sudo"),
        *("swapoff", "swapon", "taskset", "truncate", "ufw", "umount", "wget", "xargs", "yum"),
    }
)
