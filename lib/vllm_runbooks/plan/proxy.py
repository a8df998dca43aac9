"""An nginx configuration in front of several servers of one model.

Every choice that costs something if it is wrong is said in a comment of the file itself: whoever edits it later reads
it there. Nothing of what is given goes in unless it is a host, a port or a number.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

from vllm_runbooks.core.errors import InputError

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z", re.ASCII)
_MAX_NAME = 253
_MAX_PORT = 65535
_WIDTH = 100
_SILENCE_S = 3600
"""Seconds that a server may stay silent: at least the longest answer that is not streamed."""
_UPLOAD_MIB = 64
"""MiB of the largest request: pictures, audio and video are sent within it."""
_PROTECTED = "127.0.0.1", "::1", "localhost"


@dataclass(frozen=True)
class ProxyServer:
    """Where one instance listens.

    Raises:
        InputError: The host is no name or address, or the port is none.
    """

    host: str
    """Name, IPv4 or IPv6 address, without brackets."""
    port: int

    def __post_init__(self) -> None:
        """Refuse what nginx would read as anything but a host and a port."""
        if type(self.port) is not int or not 0 < self.port <= _MAX_PORT:
            raise InputError(f"{str(self.port)[:40]!r} is no port; give a number from 1 to {_MAX_PORT}")
        if not self.is_address and not self.is_name:
            raise InputError(
                f"{self.host[:80]!r} is no host; give a name or an IP address, without scheme, port or path"
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
        """Whether the host is a name; digits and dots alone are none, and with `unix:` nginx begins a path."""
        is_word = self.host.lower() != "unix" and re.search(r"[A-Za-z]", self.host) is not None
        return is_word and len(self.host) <= _MAX_NAME and _NAME.match(self.host) is not None

    def __str__(self) -> str:
        """As nginx writes it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def nginx(
    servers: Sequence[ProxyServer],
    *,
    listen: ProxyServer = ProxyServer("127.0.0.1", 8080),
    retries_posts: bool = False,
    is_whole: bool = True,
) -> str:
    """The configuration that shares requests among servers, each to the one with the fewest in flight.

    Args:
        servers: Where the instances listen, seen from the proxy.
        listen: Where the proxy listens.
        retries_posts: Whether a request that was sent to a server which then failed is sent to another one.
        is_whole: A file for `nginx -c`; else what stands inside of `http {}`, for a folder such as conf.d.

    Raises:
        InputError: There is no server, or one is there twice.
    """
    if not servers:
        raise InputError("no server is given; a proxy needs one at least")
    if len({str(server).lower() for server in (*servers, listen)}) != len(servers) + 1:
        raise InputError("a server is given twice, or is where the proxy itself listens; give each a port of its own")
    lines = [
        *_upstream(servers),
        "",
        "server {",
        *_indented(_server(listen, retries_posts=retries_posts)),
        "}",
    ]
    head = _head(servers, listen, retries_posts=retries_posts)
    if not is_whole:
        return "\n".join([*head, "", *lines]) + "\n"
    main = [
        "worker_processes auto;",
        "worker_rlimit_nofile 16384;",
        "events {",
        *_indented(["# A request holds two connections for as long as its answer takes.", "worker_connections 8192;"]),
        "}",
        "http {",
        *_indented(lines),
        "}",
    ]
    return "\n".join([*head, "", *main]) + "\n"


def _head(servers: Sequence[ProxyServer], listen: ProxyServer, *, retries_posts: bool) -> list[str]:
    remarks = [f"{len(servers)} server{'s' * (len(servers) > 1)} of one model behind {listen}."]
    if retries_posts:
        remarks.append(
            "A server dies: a request that was sent to it and got no answer yet is sent to another one. THE RISK: the "
            "same request may run twice, and more often with more servers. What it caused outside of vLLM may then "
            "have happened twice, and a request that makes servers fail is carried from one to the next. An answer "
            "that has begun (its header counts) is never sent again: it is cut off."
        )
    else:
        remarks.append(
            "A server dies: every request that it holds at that moment is lost, and no other. One without an answer "
            "gets status 502; an answer that has begun is cut off. Requests that come later go to the others, those "
            "included that were offered to the dead server first and could not connect. The client may ask again."
        )
    if any(not entry.is_address for entry in servers):
        remarks.append("Names are looked up once, when nginx starts or reloads.")
    if listen.host not in _PROTECTED:
        remarks.append(
            "This port is open to the network, in clear text. A key given to vLLM guards its paths under /v1 alone: "
            "let strangers reach only what they may use."
        )
    return [line for entry in remarks for line in _comment(entry)]


def _upstream(servers: Sequence[ProxyServer]) -> list[str]:
    health = (
        "nginx of the open edition does not ask servers whether they are well. It learns it from requests: after one "
        "that fails, a server is left out for fail_timeout, then tried with the next. One that loads its model "
        "refuses connections, so that nothing is sent to it."
    )
    kept = (
        "Connections are kept for less time than vLLM keeps them (5 s, VLLM_HTTP_TIMEOUT_KEEP_ALIVE): one that the "
        "server is about to close would lose the request that is sent on it."
    )
    fails = " max_fails=1 fail_timeout=10s" if len(servers) > 1 else ""
    inside = [
        *_comment("All workers count together: fewest requests in flight means those of the whole proxy."),
        "zone vllm 64k;",
        "least_conn;",
        *(_comment(health) if len(servers) > 1 else ()),
        *(f"server {server}{fails};" for server in servers),
        *_comment(kept),
        "keepalive 16;",
        "keepalive_timeout 3s;",
    ]
    return ["upstream vllm {", *_indented(inside), "}"]


def _server(listen: ProxyServer, *, retries_posts: bool) -> list[str]:
    retried = "error timeout non_idempotent" if retries_posts else "error timeout"
    return [
        f"listen {listen};",
        *_comment("Pictures, audio and video are part of the request. nginx's own limit is 1 MiB."),
        f"client_max_body_size {_UPLOAD_MIB}m;",
        "",
        "proxy_http_version 1.1;",
        'proxy_set_header Connection "";',
        "proxy_set_header Host $http_host;",
        "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
        "proxy_set_header X-Forwarded-Proto $scheme;",
        *_comment("Each piece of an answer is handed on as it comes."),
        "proxy_buffering off;",
        *_comment(
            "A request is taken in whole before a server gets it, also one that is sent in pieces: a slow client holds "
            "no server, and only what is at hand can be sent to another one."
        ),
        "proxy_request_buffering on;",
        *_comment("A server that is up takes a connection at once."),
        "proxy_connect_timeout 5s;",
        *_comment(
            "An answer that is not streamed comes in one piece after waiting, prefill and all its tokens: until then "
            "the server is silent."
        ),
        f"proxy_read_timeout {_SILENCE_S}s;",
        f"proxy_send_timeout {_SILENCE_S}s;",
        f"send_timeout {_SILENCE_S}s;",
        *_comment("A client that goes away ends its request on the server as well, and frees its KV cache."),
        "proxy_ignore_client_abort off;",
        f"proxy_next_upstream {retried};",
        "",
        *_comment(
            "200 as long as one server is well. One whose engine died answers 503: the next is asked, and the "
            "failed one is left out for a while. Asked every few seconds, this finds such a server before requests do."
        ),
        "location = /health {",
        *_indented(
            [
                "access_log off;",
                "proxy_read_timeout 10s;",
                "proxy_next_upstream error timeout http_500 http_502 http_503 http_504;",
                "proxy_pass http://vllm;",
            ]
        ),
        "}",
        *_comment("Figures of one server, another at each call, mean nothing: collect them from each server itself."),
        "location = /metrics {",
        *_indented(["return 404;"]),
        "}",
        "location / {",
        *_indented(["proxy_pass http://vllm;"]),
        "}",
    ]


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]
