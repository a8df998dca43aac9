"""Every command other than vLLM's own that is run or printed: its words, its effect, and how it is undone.

A value that stands for a placeholder is of its kind or refused: none is an option, and nothing of a command is text for
a shell. What symptoms print is held against the table when the catalog is checked; tests hold everything else against
it: rules, runbooks, pages, messages, written files, and every process that is started.
"""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from vllm_runbooks.core.errors import InputError

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
"""By kind of placeholder the whole pattern of its values; the shell of another host reads a `remote_path` once more."""
_AS_JSON = ("--format", "{{{{json .}}}}")
"""For docker, whose releases before 23.0 print the word where they are asked for `--format json`."""
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
    def is_expanded(self) -> bool:
        """Whether it is text for a shell, which puts something in place of a part: such a row has no placeholder."""
        return any(sign in word for word in self.argv for sign in "$*")

    @property
    def places(self) -> tuple[str, ...]:
        """Its placeholders."""
        return tuple(field for word in self.argv for _, field, _, _ in string.Formatter().parse(word) if field)


def _row(text: str, effect: str = _READS, undo: str = _NOTHING) -> HostCommand:
    return HostCommand(tuple(text.split(" ")), effect, undo)


_WHEELS = (
    "--python-version=3.12", "--only-binary=:all:", "--no-deps", "--platform=manylinux1_x86_64",
    *(f"--platform=manylinux_2_{minor}_x86_64" for minor in (17, 28, 31, 34, 35)), "--platform=manylinux2014_x86_64",
    "--platform=linux_x86_64",
)  # fmt: skip
"""Options of pip for the packages that vLLM releases, on whatever host it runs."""
_INSTALLS = "installs or replaces packages of this Python"
_REINSTALL = "pip install {requirement} with the version that `pip show` told before"
_LOGS_IN = "stores an access token for this user"
_FOLDER = "remove the folder"
_RAY_HEAD = "starts the first host of a Ray cluster"
_RAY_JOIN = "joins this host to a Ray cluster"
_RAY_BLOCK = "stays in front until it is ended"
_RAY_ENDED = "end the command: its Ray ends with it"
_RAY_STOP = "`ray stop`, which ends every Ray of this host"
_HEALTH = "import urllib.request; urllib.request.urlopen('http://{url_host}:{port}/health', timeout=10)"
TABLE: Mapping[str, HostCommand] = {
    # logs of servers
    "docker-logs": _row("docker logs {container}", "reads what the container has printed, changes nothing"),
    "docker-logs-on": _row(
        "docker logs -f {container}", "reads what the container prints until it ends, changes nothing"
    ),
    "podman-logs": _row("podman logs {container}", "reads what the container has printed, changes nothing"),
    "pod-logs": _row(
        "kubectl logs --namespace={namespace} {pod} --container={pod_container}",
        "reads what the container has printed since it started, changes nothing",
    ),
    "pod-logs-first": _row(
        "kubectl logs --namespace={namespace} {pod}",
        "reads what the container has printed since it started, changes nothing",
    ),
    "pod-logs-since": _row("kubectl logs --since={span}", "reads what a container has printed lately, changes nothing"),
    "pod-logs-before": _row(
        "kubectl logs --namespace={namespace} {pod} --container={pod_container} --previous",
        "reads what the container printed before its last restart, changes nothing",
    ),
    "pod-logs-before-first": _row(
        "kubectl logs --namespace={namespace} {pod} --previous",
        "reads what the container printed before its last restart, changes nothing",
    ),
    "pod": _row("kubectl describe pod"),
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
    "end-jobs": _row("kill $(jobs -p)", "ends what this script has started", "start the script again"),
    "container-run": _row(
        "docker run --rm --gpus {gpus} --ipc=host",
        "starts a container that is removed at its end",
        "docker stop {container}",
    ),
    "container-stop": _row("docker stop {container}", "ends the container", "docker start {container}"),
    "container-inspect": _row("docker inspect {container}"),
    "unit-status": _row("systemctl status {unit}"),
    "user-units-reload": _row(
        "systemctl --user daemon-reload",
        "has this user's systemd read its units anew",
        "the same, with the files of before",
    ),
    "user-timer-on": _row(
        "systemctl --user enable --now {unit}",
        "starts a timer of this user, now and at every login",
        "systemctl --user disable --now {unit}",
    ),
    "user-timer-off": _row(
        "systemctl --user disable --now {unit}",
        "stops a timer of this user, and starts it no more",
        "systemctl --user enable --now {unit}",
    ),
    "crontab-edit": _row(
        "crontab -e", "opens this user's plan of cron in an editor", "crontab -e, and remove the line"
    ),
    "unit-start": _row("systemctl start {unit}", "starts the unit, as root", "systemctl stop {unit}"),
    "unit-restart": _row(
        "systemctl restart {unit}",
        "stops the unit and starts it again, as root; docker's containers end with it, unless it keeps them alive",
        "start again what has ended",
    ),
    # docker and its cards
    "docker-program": _row("docker --version"),
    "docker-context": HostCommand(("docker", "context", "inspect", *_AS_JSON)),
    "docker-service": HostCommand(("docker", "info", *_AS_JSON)),
    "docker-image": HostCommand(("docker", "image", "inspect", *_AS_JSON, "{image}")),
    "docker-context-here": _row(
        "docker context use default",
        "has docker's program talk to this host",
        "docker context use, with the former name",
    ),
    "docker-pull": _row("docker pull {image}", "fetches an image onto docker's disk", "docker image rm {image}"),
    "docker-login": _row(
        "docker login {url_host}:{port}",
        "asks for a login, and stores it for this user",
        "docker logout {url_host}:{port}",
    ),
    "docker-group": _row(
        "usermod -aG docker {user}",
        "lets a user talk to docker from the next login on, as root: whoever may is as good as root there",
        "gpasswd -d {user} docker",
    ),
    "toolkit-program": _row("nvidia-ctk --version"),
    "toolkit-for-docker": _row(
        "nvidia-ctk runtime configure --runtime=docker",
        "writes a runtime into docker's daemon.json, as root; it counts when docker is restarted",
        "take the runtime out of daemon.json, and restart docker",
    ),
    "system-package": _row(
        "apt install {package}", "installs a package of the system, as root", "apt remove {package}"
    ),
    # network
    "listeners": _row("ss -ltnp"),
    "addresses": _row("ip -br addr"),
    "addresses-long": _row("ip -brief address"),
    "reach": _row("curl -I {url}", "asks for a page's head; nothing is sent"),
    "fetch": _row("curl -LO {url}", "stores a file in this folder", "remove the file"),
    "health": _row("curl -fsS -m {number} http://{url_host}:{port}/health"),
    "health-by-python": HostCommand(("python3", "-c", _HEALTH)),
    "read-elsewhere": _row("ssh {url_host} cat {remote_path}", "logs in to another host and reads a file"),
    "agent-elsewhere": _row(
        "ssh -T -o BatchMode=yes -o ConnectTimeout=8 -o ServerAliveInterval=10 -- {login} {remote_path} -P "
        "-m vllm_runbooks.cluster.agent {word}",
        "logs in to another host and runs a program of ours there until it is left: it reads, opens ports for "
        "seconds to be reached, and runs what it is told to",
        "end the command: the program ends with it, and what it started",
    ),
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
    "gpus-memory": _row(
        "nvidia-smi --id={cards} --query-gpu=index,uuid,memory.used,memory.total --format=csv",
    ),
    "gpus-use": _row(
        "nvidia-smi --query-gpu=index,memory.used,memory.free,utilization.gpu --format=csv -l {number}",
        "reads and prints every few seconds until it is interrupted; changes nothing",
    ),
    "gpus-table": _row("nvidia-smi --query-gpu=index,name,memory.total,memory.used --format=csv"),
    "gpu-processes": _row("nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv"),
    "gpus-of-amd": _row("rocm-smi"),
    "cores-of-neuron": _row("neuron-ls"),
    "gpu-holders": _row("fuser -v /dev/nvidia*"),
    "driver": _row("cat /proc/driver/nvidia/version"),
    "compiler": _row("nvcc -V"),
    "kernel-module": _row("modinfo {word}"),
    # files
    "sizes": _row("ls -l {path}"),
    "sizes-all": _row("ls -la {path}"),
    "sizes-below": _row("ls -lR {folder}"),
    "tree": _row("tree -s {folder}"),
    "held-by-tar": _row("tar -tv"),
    "held-by-zip": _row("unzip -l {path}"),
    "characters": _row("cat -A {path}"),
    "head": _row("head -c {number} {path}"),
    "tail": _row("tail -c {size}"),
    "keep": _row("tee {path}", "writes what it reads into a file as well", "remove the file"),
    "rename": _row("mv {path} {path}", "gives a file another name", "mv, with the names in the other order"),
    "changed-at": _row("date -r {path} +%Y%m%d-%H%M%S"),
    "libraries": _row("ldd {path}"),
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
    "install-two": _row("pip install {requirement} {requirement}", _INSTALLS, _REINSTALL),
    "install-listed": _row("pip install -r requirements-evaluate.txt", _INSTALLS, _REINSTALL),
    "script": _row("python3 {path}", "runs a script that was made here", "what it writes says it itself"),
    "install-newest": _row("pip install {requirement} -U", _INSTALLS, _REINSTALL),
    "install-here": _row("pip install -e {folder}", _INSTALLS, "pip uninstall {package}"),
    "install-with-uv": _row("uv pip install --upgrade {requirement}", _INSTALLS, _REINSTALL),
    "install-tested": _row("pip install -q -c {path} -e {folder}", _INSTALLS, "pip uninstall {package}"),
    "install-constrained": _row("pip install -c {path} -e {folder}", _INSTALLS, "pip uninstall {package}"),
    "install-beside": _row(
        "pip install --no-deps --target {folder} {requirement}", "puts a package into a folder of its own", _FOLDER
    ),
    "npm-package": _row("npm pack --silent --pack-destination={path} {npm_package}", "downloads an archive", _FOLDER),
    "package-download": _row(
        f"python -m pip download --quiet {' '.join(_WHEELS)} --dest={{path}} {{requirement}}",
        "fetches a released package into a temporary folder; nothing of it is run",
        _FOLDER,
    ),
    "environment-new": _row("python3 -m venv {folder}", "makes a folder with a Python of its own", _FOLDER),
    "environment-of-python": _row("python -m venv {folder}", "makes a folder with a Python of its own", _FOLDER),
    "environment-on": _row(
        "source {folder}/bin/activate", "puts an environment's programs first in this shell", "deactivate"
    ),
    "site": _row(
        "python -P -m sphinx -b html -q -W -n --keep-going -j auto -d {path} {path} {path}",
        "writes pages into a temporary folder",
        _FOLDER,
    ),
    "notebook": _row(
        "papermill {path} {path} -p {word} {path}", "runs a notebook and writes it with its outputs", "remove the file"
    ),
    "tests-all": _row("pytest -q", "runs tests in temporary folders", "nothing: what they write is removed"),
    "tests-ring": _row(
        "pytest -q -n {number} -m {word} {path}",
        "runs tests, with real servers",
        "nothing: what they start is ended",
    ),
    "tests": _row("pytest -q {path} {path}", "runs tests in temporary folders", "nothing: what they write is removed"),
    "benchmarks": _row(
        "pytest {path} -n {number} -m {word} --figures={path}", "runs measurements; writes the file", "git checkout"
    ),
    "tests-some": _row(
        "pytest -q {path} -k {word}", "runs tests in temporary folders", "nothing: what they write is removed"
    ),
    "system-packages": _row("dpkg -l"),
    "system-packages-rpm": _row("rpm -qa"),
    "environment": _row("env"),
    "print": _row("echo $CUDA_VISIBLE_DEVICES"),
    "which": _row("which {word}"),
    "libc": _row("getconf GNU_LIBC_VERSION"),
    # Ray
    "ray-head": _row("ray start --head --port={port} --num-gpus={number}", _RAY_HEAD, _RAY_STOP),
    "ray-join": _row("ray start --address={url_host}:{port} --num-gpus={number}", _RAY_JOIN, _RAY_STOP),
    "ray-head-at": _row(
        "ray start --head --node-ip-address={address} --port={port} --num-gpus={number}", _RAY_HEAD, _RAY_STOP
    ),
    "ray-join-at": _row(
        "ray start --address={url_host}:{port} --node-ip-address={address} --num-gpus={number}", _RAY_JOIN, _RAY_STOP
    ),
    "ray-head-block": _row(
        "ray start --head --port={port} --num-gpus={number} --block", f"{_RAY_HEAD}; {_RAY_BLOCK}", _RAY_ENDED
    ),
    "ray-join-block": _row(
        "ray start --address={url_host}:{port} --num-gpus={number} --block", f"{_RAY_JOIN}; {_RAY_BLOCK}", _RAY_ENDED
    ),
    "ray-head-at-block": _row(
        "ray start --head --node-ip-address={address} --port={port} --num-gpus={number} --block",
        f"{_RAY_HEAD}; {_RAY_BLOCK}",
        _RAY_ENDED,
    ),
    "ray-join-at-block": _row(
        "ray start --address={url_host}:{port} --node-ip-address={address} --num-gpus={number} --block",
        f"{_RAY_JOIN}; {_RAY_BLOCK}",
        _RAY_ENDED,
    ),
    "ray-stop": _row("ray stop", "ends every Ray of this host, with what runs in it", "ray start, as it was started"),
    "ray-status": _row("ray status"),
    "ray-nodes": _row("ray list nodes"),
    "ray-actors": _row("ray list actors"),
    # proxies
    "nginx-test": _row("nginx -t -c {path}"),
    "nginx-run": _row("nginx -c {path}", "starts the proxy", "nginx -s quit -c {path}"),
}
_PLACED = r"\{[a-z_]+\}|<[\w ]+>|[A-Z]{3,20}"
"""How print names what is to be put in: `{name}`, `<name>` or `NAME`."""
_PYTHON = re.compile(
    r"import [A-Za-z_][\w.]{0,80}(?:, [A-Za-z_][\w.]{0,80}){0,2}(?: as [a-z])?(?:\.<module>)?"
    r"(?:; (?:print\([\w.()'\", \[\]]{1,120}\)|torch\.zeros\(1\)\.cuda\(\)))?"
)
"""What a printed `python -c` may hold: it imports, prints, and makes one tensor at most."""


def argv(name: str, **values: str) -> tuple[str, ...]:
    """The words of a command with its values.

    Raises:
        InputError: a value is not of its kind; or the command is text for a shell.
        KeyError: there is no such command, or a value is missing.
    """
    if TABLE[name].is_expanded:
        raise InputError(f"`{' '.join(TABLE[name].argv)}` is text for a shell; type it")
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
        InputError: a value is not of its kind.
        KeyError: as `argv`.
    """
    if TABLE[name].is_expanded:
        return " ".join(TABLE[name].argv)
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


def undo(printed: str) -> str:
    """How a printed command is undone, with its own values; empty: it is of no row.

    Of several values of one kind the first is put in.
    """
    row = row_of(printed)
    if row is None:
        return ""
    found: dict[str, str] = {}
    for word, asked in zip(shlex.split(printed), row.argv, strict=False):
        match = re.fullmatch(_pattern(asked), word, re.ASCII)
        kinds = [field for _, field, _, _ in string.Formatter().parse(asked) if field]
        for kind, value in zip(kinds, match.groups() if match else (), strict=False):
            found.setdefault(kind, value)
    return re.sub(r"\{([a-z_]+)\}", lambda hole: found.get(hole[1], hole[0]), row.undo)


def _fits(words: Sequence[str], argv: Sequence[str]) -> bool:
    if not words or len(words) > len(argv):
        return False
    return all(map(_is_word, words, argv))


def _is_word(word: str, asked: str) -> bool:
    parts = list(string.Formatter().parse(asked))
    if all(field is None for _, field, _, _ in parts):
        return word in (asked, "".join(text for text, _, _, _ in parts))
    match = re.fullmatch(_pattern(asked), word, re.ASCII)
    kinds = [field for _, field, _, _ in parts if field]
    return match is not None and all(
        re.fullmatch(_PLACED, value) or is_of_kind(kind, value)
        for kind, value in zip(kinds, match.groups(), strict=True)
    )


def _pattern(asked: str) -> str:
    """Of a word of a row, what may stand in its place; each value is a group."""
    parts = string.Formatter().parse(asked)
    return "".join(re.escape(text) + (f"({_PLACED}|{VALUES[field]})" if field else "") for text, field, _, _ in parts)


def printed(text: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`\n]{1,200})`", text)


def unknown(text: str) -> Iterator[str]:
    """Commands between backticks that are in no row, pipes taken apart."""
    for each in printed(text):
        for part in each.split(" | "):
            words = part.split()
            if words and words[0] in programs() and row_of(part) is None:
                yield part


@cache
def programs() -> frozenset[str]:
    """First words of what is a command: of those in the table, and of others that hosts have."""
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
