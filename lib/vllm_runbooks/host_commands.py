"""Every command other than vLLM's own that is run or printed: its words, its effect, and how it is undone.

A value that stands for a placeholder is of its kind or refused: none is an option, and nothing of a command is text for
a shell. What symptoms and rules print is held against the table when the catalog is checked.
"""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vllm_runbooks.errors import InputError

_DNS_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
VALUES: Mapping[str, str] = {
    "pid": r"[1-9]\d{0,9}",
    "port": r"[1-9]\d{0,4}",
    "number": r"\d{1,9}",
    "container": r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}",
    "namespace": _DNS_LABEL,
    "pod": r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?",
    "pod_container": _DNS_LABEL,
    "unit": r"[A-Za-z0-9_][A-Za-z0-9_.:@\\-]{0,254}",
    "package": r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,80}[A-Za-z0-9])?",
    "requirement": r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,80}[A-Za-z0-9])?(?:[<>=!~]=?[0-9][0-9A-Za-z.]{0,20})?",
    "path": r"(?:/|\./|[A-Za-z0-9_])[^\x00-\x1f\x7f]{0,1000}",
    "folder": r"(?:/|\./|\.|[A-Za-z0-9_])[^\x00-\x1f\x7f]{0,1000}",
    "repository": r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}",
    "address": r"[A-Za-z0-9](?:[A-Za-z0-9.:-]{0,252}[A-Za-z0-9])?",
    "url": r"https://[A-Za-z0-9.-]{1,253}",
    "module": r"[A-Za-z_]\w{0,80}(?:\.\w{1,80}){0,8}",
    "word": r"[A-Za-z0-9_][\w.-]{0,80}",
    "setting": r"[a-z][a-z0-9_]{0,40}(?:\.[a-z0-9_-]{1,60}){1,6}",
}
"""By kind of placeholder the whole pattern of its values."""
_READS = "reads and prints; changes nothing"
_NOTHING = "nothing: it only reads"


@dataclass(frozen=True)
class HostCommand:
    """A row of the table."""

    argv: tuple[str, ...]
    """Its words; `{kind}` is a placeholder. In print the last ones may be missing."""
    effect: str = _READS
    undo: str = _NOTHING

    @property
    def changes(self) -> bool:
        """Whether it changes anything on the host."""
        return self.undo != _NOTHING

    @property
    def places(self) -> tuple[str, ...]:
        """Its placeholders."""
        return tuple(field for word in self.argv for _, field, _, _ in string.Formatter().parse(word) if field)


def _row(text: str, effect: str = _READS, undo: str = _NOTHING) -> HostCommand:
    return HostCommand(tuple(text.split(" ")), effect, undo)


_INSTALLS = "installs or replaces packages of this Python"
_REINSTALL = "pip install {requirement} with the version that `pip show` told before"
_LOGS_IN = "stores an access token for this user"
TABLE: Mapping[str, HostCommand] = {
    # logs of servers
    "docker-logs": _row("docker logs {container}", "reads what the container has printed, changes nothing"),
    "podman-logs": _row("podman logs {container}", "reads what the container has printed, changes nothing"),
    "pod-logs": _row(
        "kubectl logs --namespace={namespace} {pod} --container={pod_container}",
        "reads what the container has printed since it started, changes nothing",
    ),
    "pod-logs-first": _row(
        "kubectl logs --namespace={namespace} {pod}",
        "reads what the container has printed since it started, changes nothing",
    ),
    "pod-logs-before": _row(
        "kubectl logs --namespace={namespace} {pod} --container={pod_container} --previous",
        "reads what the container printed before its last restart, changes nothing",
    ),
    "pod-logs-before-first": _row(
        "kubectl logs --namespace={namespace} {pod} --previous",
        "reads what the container printed before its last restart, changes nothing",
    ),
    "unit-log": _row(
        # "cat" is the message alone, as the server wrote it: vLLM prints its own times.
        "journalctl --unit={unit} --boot --output=cat --no-pager",
        "reads what the unit has printed since this host booted, changes nothing",
    ),
    "kernel-log": _row("journalctl -k"),
    "kernel-ring": _row("dmesg -T"),
    # processes
    "go-on": _row("kill -CONT {pid}", "lets a stopped process go on", "kill -STOP {pid}"),
    "kill": _row("kill -9 {pid}", "ends a process at once; it cannot clean up", "start it again"),
    "processes": _row("ps -ef"),
    "process-states": _row("ps -o pid,stat,cmd"),
    "stacks": _row("py-spy dump --pid {pid}", "stops the process for a moment and prints its stacks"),
    "container-stop": _row("docker stop {container}", "ends the container", "docker start {container}"),
    "container-inspect": _row("docker inspect {container}"),
    "unit-status": _row("systemctl status {unit}"),
    # network
    "listeners": _row("ss -ltnp"),
    "addresses": _row("ip -br addr"),
    "addresses-long": _row("ip -brief address"),
    "reach": _row("curl -I {url}", "asks for a page's head; nothing is sent"),
    "setting": _row("sysctl {setting}"),
    # memory, disks, limits
    "memory": _row("free -g"),
    "disks": _row("df -h {path}"),
    "inodes": _row("df -i {path}"),
    "quota": _row("quota -s"),
    "address-space": _row("ulimit -v"),
    # GPUs
    "gpus": _row("nvidia-smi -L"),
    "gpus-all": _row("nvidia-smi -q"),
    "gpus-now": _row("nvidia-smi"),
    "gpu-holders": _row("fuser -v /dev/nvidia*"),
    "driver": _row("cat /proc/driver/nvidia/version"),
    "compiler": _row("nvcc -V"),
    "kernel-module": _row("modinfo {word}"),
    # files
    "sizes": _row("ls -l {path}"),
    "sizes-all": _row("ls -la {path}"),
    "characters": _row("cat -A {path}"),
    "head": _row("head -c {number} {path}"),
    "target": _row("readlink -f {path}"),
    "strings": _row("strings -a {path}"),
    "select": _row("grep {word}"),
    "select-any-case": _row("grep -i {word}"),
    "json": _row("python -m json.tool {path}"),
    "large-files": _row(
        "git lfs pull", "fetches the files that pointers stand for", "git lfs checkout of the pointers"
    ),
    # models on the hub
    "hub-download": _row("hf download {repository}", "fetches a model into the cache", "hf cache rm {repository}"),
    "hub-cache": _row("hf cache ls"),
    "hub-cache-old": _row("huggingface-cli scan-cache"),
    "hub-login": _row("hf auth login", _LOGS_IN, "hf auth logout"),
    "hub-login-old": _row("huggingface-cli login", _LOGS_IN, "huggingface-cli logout"),
    "hub-who": _row("hf auth whoami"),
    "hub-who-old": _row("huggingface-cli whoami"),
    # Python
    "packages-check": _row("pip check"),
    "package": _row("pip show {package} {package} {package}"),
    "package-of": _row("python -m pip show {package}"),
    "packages": _row("pip list"),
    "install": _row("pip install {requirement}", _INSTALLS, _REINSTALL),
    "install-newest": _row("pip install {requirement} -U", _INSTALLS, _REINSTALL),
    "install-here": _row("pip install -e {folder}", _INSTALLS, "pip uninstall {package}"),
    "install-with-uv": _row("uv pip install --upgrade {requirement}", _INSTALLS, _REINSTALL),
    "system-packages": _row("dpkg -l"),
    "system-packages-rpm": _row("rpm -qa"),
    "environment": _row("env"),
    "print": _row("echo $CUDA_VISIBLE_DEVICES"),
    "which": _row("which {word}"),
    "libc": _row("getconf GNU_LIBC_VERSION"),
    # Ray
    "ray-start": _row("ray start", "starts Ray's processes on this host", "ray stop, which ends every Ray on the host"),
    "ray-status": _row("ray status"),
    "ray-nodes": _row("ray list nodes"),
    "ray-actors": _row("ray list actors"),
    # proxies
    "nginx-test": _row("nginx -t -c {path}"),
    "nginx-run": _row("nginx -c {path}", "starts the proxy", "nginx -s quit -c {path}"),
}
_PYTHON = re.compile(
    r"import [A-Za-z_][\w.]{0,80}(?:, [A-Za-z_][\w.]{0,80}){0,2}(?: as [a-z])?(?:\.<module>)?"
    r"(?:; (?:print\([\w.()'\", \[\]]{1,120}\)|torch\.zeros\(1\)\.cuda\(\)))?"
)
"""What a printed `python -c` may hold: it imports, prints, and makes one tensor at most."""


def argv(name: str, **values: str) -> tuple[str, ...]:
    """The words of a command with its values.

    Raises:
        InputError: a value is not of its kind.
        KeyError: there is no such command, or a value is missing.
    """
    return tuple(_filled(word, values) for word in TABLE[name].argv)


def _filled(word: str, values: Mapping[str, str]) -> str:
    made = []
    for text, field, _, _ in string.Formatter().parse(word):
        made.append(text)
        if field:
            if not is_of_kind(field, values[field]):
                shown = "".join(c if c.isprintable() else "?" for c in str(values[field])[:80])
                raise InputError(
                    f"{shown or '(nothing)'}: is no {field.replace('_', ' ')}, so no command is made of it"
                )
            made.append(values[field])
    return "".join(made)


def is_of_kind(kind: str, value: str) -> bool:
    """Whether a value may stand for a placeholder."""
    if not value.isprintable() or not re.fullmatch(VALUES[kind], value, re.ASCII):
        return False
    return kind != "port" or int(value) < 1 << 16


def line(name: str, **values: str) -> str:
    """The command as one would type it.

    Raises:
        InputError: as `argv`.
    """
    return shlex.join(argv(name, **values))


def row_of(printed: str) -> HostCommand | None:
    """The row that a printed command is of; its last words may be missing, and `{name}` stands for a value."""
    try:
        words = shlex.split(printed)
    except ValueError:
        return None
    if words[:2] == ["python", "-c"] and len(words) == 3:
        return HostCommand(("python", "-c", words[2])) if _PYTHON.fullmatch(words[2]) else None
    return next((row for row in TABLE.values() if _fits(words, row.argv)), None)


def _fits(words: Sequence[str], argv: Sequence[str]) -> bool:
    if not words or len(words) > len(argv):
        return False
    return all(map(_is_word, words, argv))


def _is_word(word: str, asked: str) -> bool:
    parts = list(string.Formatter().parse(asked))
    if all(field is None for _, field, _, _ in parts):
        return word == asked
    (text, field, _, _), *_ = parts
    value = word.removeprefix(text)
    is_placed = re.fullmatch(r"\{[a-z_]+\}|<[\w ]+>", value) is not None
    return word.startswith(text) and (is_placed or is_of_kind(field or "word", value))


def programs() -> frozenset[str]:
    """First words of all commands."""
    return frozenset({*(row.argv[0] for row in TABLE.values()), "python"})
