"""Hosts that are asked over ssh, with their settings, and addresses of Ray clusters.

# one host a line
ubuntu@10.0.0.1 name=head python=/opt/vllm/bin/python GLOO_SOCKET_IFNAME=eth1
ubuntu@10.0.0.2:2222 agent=/opt/runbooks/bin/python
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from vllm_runbooks.catalog.host_commands import VALUES
from vllm_runbooks.core.display import visible
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.redaction.places import names_secret

_HOST = re.compile(
    r"(?:(?P<user>[A-Za-z_][\w.-]{0,31})@)?"
    r"(?:\[(?P<six>[0-9A-Fa-f:.]{2,45})\]|(?P<address>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?))"
    r"(?::(?P<port>[1-9]\d{0,4}))?",
    re.ASCII,
)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,80}", re.ASCII)
_HARMLESS = re.compile(r"[\w.,:/^=@%+-]{0,400}", re.ASCII)
_MAX_TEXT = 1 << 20
_MAX_HOSTS = 2000
_SETTINGS = ("name", "python", "agent")
_NO_ADDRESS = frozenset(" /?#@'\"")
_FORM = "write [USER@]HOST[:PORT] [name=NAME] [python=PATH] [agent=PATH] [VARIABLE=VALUE …]"


@dataclass(frozen=True)
class SshHost:
    """A host of a list."""

    name: str
    address: str
    """Destination for ssh: an address, or a name in its configuration."""
    user: str | None = None
    port: int | None = None
    agent: str = "/usr/bin/python3"
    """The Python there that has this package."""
    python: str | None = None
    """Python of vLLM on the host; None for the same as here."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of vLLM on the host that a login does not set."""


def check_ray(address: str) -> None:
    """Check the address of a Ray cluster, `10.0.0.1:6379` or `auto` for that of this host; raises InputError."""
    host, _, port = address.rpartition(":")
    is_one = host and port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16
    is_odd = address.startswith("-") or not address.isprintable() or not _NO_ADDRESS.isdisjoint(address)
    if address != "auto" and (not is_one or is_odd):
        raise InputError(
            f"--ray {visible(address[:80])!r}: is not a Ray cluster address; write HOST:PORT, as in 10.0.0.1:6379, "
            "or auto"
        )


def read_hosts(text: str, where: str) -> tuple[SshHost, ...]:
    """Read a list of hosts, one per line, with comments after `#`; raises InputError."""
    if len(text) > _MAX_TEXT:
        raise InputError(f"{where}: is larger than {_MAX_TEXT >> 20} MiB, not a host list; {_FORM}")
    hosts = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            hosts.append(_host(words, f"{where}:{number}"))
    return _checked(hosts, where)


def parse_hosts(text: str) -> tuple[SshHost, ...]:
    """Parse hosts as in `10.0.0.1,10.0.0.2 agent=/o/python`, or their file; raises InputError."""
    path = Path(text)
    try:
        if path.is_file():
            with path.open(encoding="utf-8") as file:
                return read_hosts(file.read(_MAX_TEXT + 1), visible(text[:200]))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is not text"
        raise InputError(f"{visible(text[:200])}: cannot be read: {reason}; use a host list") from None
    if "," not in text and ("/" in text or text.endswith((".txt", ".list", ".hosts", ".yaml"))):
        raise InputError(f"{visible(text[:200])}: no such file; use a host list, or HOST,HOST")
    return _checked([_host(word.split() or [""], "--hosts") for word in text.split(",")], "--hosts")


def _host(words: list[str], where: str) -> SshHost:
    match = _HOST.fullmatch(words[0])
    if match is None:
        raise InputError(f"{where}: {visible(words[0][:80])!r} is not a host; {_FORM}")
    address = match["six"] or match["address"]
    settings, variables = dict[str, str](), dict[str, str]()
    for word in words[1:]:
        name, sign, value = word.partition("=")
        if not sign or (name not in _SETTINGS and not _VARIABLE.fullmatch(name)):
            raise InputError(f"{where}: {visible(word[:80])!r} is not a host setting; {_FORM}")
        if names_secret(name):
            raise InputError(
                f"{where}: the value of {name} would be visible in the process list; set it on the host, or with --env"
            )
        if not _HARMLESS.fullmatch(value):
            raise InputError(f"{where}: {name}: its value contains a shell character; remove it")
        (settings if name in _SETTINGS else variables)[name] = value
    for name in ("python", "agent"):
        if name in settings and not re.fullmatch(VALUES["remote_path"], settings[name], re.ASCII):
            raise InputError(f"{where}: {name}={settings[name][:80]}: is not an absolute program path")
    name = settings.get("name", address.replace(":", "-"))
    if not re.fullmatch(VALUES["word"], name, re.ASCII):
        raise InputError(
            f"{where}: name={visible(name[:80])}: is not a valid name; use letters, digits, dots and hyphens"
        )
    port = None if match["port"] is None else int(match["port"])
    if port is not None and port >= 1 << 16:
        raise InputError(f"{where}: {port} is not a port; use 1 to 65535")
    agent, python = settings.get("agent", SshHost.agent), settings.get("python")
    return SshHost(name, address, match["user"], port, agent, python, tuple(variables.items()))


def _checked(hosts: list[SshHost], where: str) -> tuple[SshHost, ...]:
    if not hosts:
        raise InputError(f"{where}: no hosts; {_FORM}")
    if len(hosts) > _MAX_HOSTS:
        raise InputError(f"{where}: more than {_MAX_HOSTS} hosts; use the hosts of one cluster")
    twice, count = Counter(host.name for host in hosts).most_common(1)[0]
    if count > 1:
        raise InputError(f"{where}: {twice} is listed twice; list each host once, or set different names with name=")
    return tuple(hosts)
