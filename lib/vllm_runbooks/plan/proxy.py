"""nginx configuration for several servers of one model.

Choices with risks are explained in comments of the generated file. Only hosts, ports and numbers of
the input are written into it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import indent, wrap

from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import Authored

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z", re.ASCII)
_MAX_NAME = 253
_MAX_PORT = 65535
_WIDTH = 100
_STEP = "    "
_PROTECTED = "127.0.0.1", "::1", "localhost"


@dataclass(frozen=True)
class NginxText(Authored):
    """A part of the configuration, with `{name}` where something is filled in."""

    text: str


@dataclass(frozen=True)
class ProxyServer:
    """Address of one instance.

    Raises:
        InputError: The host is not a name or address, or the port is invalid.
    """

    host: str
    """Name, IPv4 or IPv6 address, without brackets."""
    port: int

    def __post_init__(self) -> None:
        """Reject a host or port that nginx would parse as something else."""
        if type(self.port) is not int or not 0 < self.port <= _MAX_PORT:
            raise InputError(f"{str(self.port)[:40]!r} is not a port; use a number from 1 to {_MAX_PORT}")
        if not self.is_address and not self.is_name:
            raise InputError(
                f"{self.host[:80]!r} is not a host; use a name or an IP address without scheme, port or path"
            )

    @property
    def is_address(self) -> bool:
        """Whether the host is an IP address."""
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return "%" not in self.host

    @property
    def is_name(self) -> bool:
        """Whether the host is a name, not an address.

        Digits and dots alone are no name, and `unix:` is nginx's prefix of a path.
        """
        is_word = self.host.lower() != "unix" and re.search(r"[A-Za-z]", self.host) is not None
        return is_word and len(self.host) <= _MAX_NAME and _NAME.match(self.host) is not None

    def __str__(self) -> str:
        """Format as in an nginx configuration."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


_LISTEN = ProxyServer("127.0.0.1", 8080)


def free_address(servers: Sequence[ProxyServer]) -> ProxyServer:
    """Address of the proxy in front of these servers: its usual port, else the next one after or before theirs."""
    ports = {server.port for server in servers}
    free = (port for port in (_LISTEN.port, max(ports) + 1, min(ports) - 1) if port not in ports and port <= _MAX_PORT)
    return replace(_LISTEN, port=next(free))


def nginx(
    servers: Sequence[ProxyServer],
    *,
    listen: ProxyServer = _LISTEN,
    retries_posts: bool = False,
    is_whole: bool = True,
) -> str:
    """Configuration that sends each request to the server with the fewest in flight.

    Args:
        servers: Addresses of the instances, seen from the proxy.
        listen: Address of the proxy.
        retries_posts: Whether a request is retried on another server if its server fails.
        is_whole: Generate a file for `nginx -c`; else the contents of `http {}`, for a folder
            such as conf.d.

    Raises:
        InputError: There is no server, or a server is listed twice.
    """
    if not servers:
        raise InputError("no servers given; a proxy needs at least one")
    if len({str(server).lower() for server in (*servers, listen)}) != len(servers) + 1:
        raise InputError("two servers, or a server and the proxy, have the same port; give each a separate port")
    texts = load_table("nginx", NginxText)
    retried = "error timeout non_idempotent" if retries_posts else "error timeout"
    body = texts["servers"].text.replace("{listen}", str(listen)).replace("{retried}", retried)
    body = body.replace("{servers}", indent("\n".join(_upstream(servers)), _STEP)).rstrip()
    if is_whole:
        body = texts["frame"].text.replace("{servers}", indent(body, _STEP)).rstrip()
    return "\n".join([*_head(servers, listen, retries_posts=retries_posts), "", body]) + "\n"


def _head(servers: Sequence[ProxyServer], listen: ProxyServer, *, retries_posts: bool) -> list[str]:
    remarks = [f"{len(servers)} server{'s' * (len(servers) > 1)} of one model behind {listen}."]
    if retries_posts:
        remarks.append(
            "If a server dies, requests without a response yet are sent to another server. RISK: the same request may "
            "run twice, and more often with more servers; side effects outside vLLM may happen twice, and a request "
            "that crashes servers is passed from one to the next. A response that has begun (its header counts) is "
            "never resent: it is cut off."
        )
    else:
        remarks.append(
            "If a server dies, its requests in flight are lost, and no others. A request without a response gets "
            "status 502; a response that has begun is cut off. Later requests go to the other servers, including "
            "those that were sent to the dead server first and could not connect. The client may retry."
        )
    if any(not entry.is_address for entry in servers):
        remarks.append("Names are looked up once, when nginx starts or reloads.")
    if listen.host not in _PROTECTED:
        remarks.append(
            "This port is open to the network in clear text. vLLM's API key protects only its paths under /v1: "
            "limit which clients can reach this port."
        )
    return [line for entry in remarks for line in _comment(entry)]


def _upstream(servers: Sequence[ProxyServer]) -> list[str]:
    if len(servers) == 1:
        return [f"server {servers[0]};"]
    health = (
        "Open-source nginx has no active health checks. After a failed request a server is skipped for "
        "fail_timeout, then tried again with the next request. A server that is loading its model does not "
        "listen, so it gets no requests."
    )
    return [*_comment(health), *(f"server {server} max_fails=1 fail_timeout=10s;" for server in servers)]


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)]
