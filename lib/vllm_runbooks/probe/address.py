"""Parse the address of a server; nothing secret is accepted in it or shown."""

from __future__ import annotations

import ipaddress
import re

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.probe.asking import Target

_MAX = 2000
_ADDRESS = re.compile(
    r"(https?)://(\[[^\]\[/]{2,60}\]|[^:/\[\]]{1,253})(?::(\d{1,6}))?(/.*)?\Z", re.ASCII | re.IGNORECASE
)
_BARE = re.compile(r"(?:\[[0-9A-Fa-f:.]{2,60}\]|[A-Za-z0-9_.-]{1,253}):\d{1,6}(?:/[^@?#\s]{0,1000})?", re.ASCII)
"""HOST:PORT, read as http://HOST:PORT."""
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?", re.ASCII)
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~%-]{1,200}){0,16}", re.ASCII)
_LIKE = "use one such as http://127.0.0.1:8000"
_PORTS = {"http": 80, "https": 443}
_LOCAL = ("localhost", "ip6-localhost")


def is_address(text: str) -> bool:
    """Whether a text is an address with a scheme, or HOST:PORT."""
    return "://" in text[:20] or _BARE.fullmatch(text) is not None


def target_of(text: str, *, is_verified: bool = True) -> Target:
    """Parse `http://host:8000`, `https://host/prefix`, `http://[::1]:8000` or `unix:///path`; a last `/v1` is cut.

    `host:8000` is `http://host:8000`.
    """
    if len(text) > _MAX or not text.isprintable() or " " in text:
        raise InputError(f"the address is too long, or contains spaces or control characters; {_LIKE}")
    if _BARE.fullmatch(text):
        text = f"http://{text}"
    if text.lower().startswith("unix://"):
        path = text[len("unix://") :]
        if not path.startswith("/") or len(path) < 2 or len(path.encode()) > 107:
            raise InputError("unix://: needs an absolute socket path of at most 107 bytes; use unix:///run/vllm.sock")
        return Target(uds=path)
    authority = text.partition("://")[2].split("/", 1)[0]
    if "@" in authority:
        raise InputError(
            "the address contains a user or password before @, which is never sent; remove it, put the key into a "
            "variable, and set it with --key-env"
        )
    if "?" in text or "#" in text:
        raise InputError(f"the address contains a query or fragment; remove everything from ? or #, and {_LIKE}")
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise InputError(f"{text[:100]!r} is not a server address; {_LIKE}")
    scheme, host, port, rest = match[1].lower(), match[2], match[3], (match[4] or "").rstrip("/")
    prefix = rest.removesuffix("/v1")
    if not _PREFIX.fullmatch(prefix):
        raise InputError(f"{prefix[:100]!r} is not a valid path prefix; {_LIKE}")
    if port is not None and not 1 <= int(port) <= 65535:
        raise InputError(f"{port} is not a port; use 1 to 65535")
    return Target(
        host=_host(host),
        port=_PORTS[scheme] if port is None else int(port),
        is_tls=scheme == "https",
        is_verified=scheme == "https" and is_verified,
        prefix=prefix,
    )


def _host(text: str) -> str:
    if text.startswith("["):
        try:
            return str(ipaddress.IPv6Address(text[1:-1]))
        except ValueError:
            raise InputError(f"{text} is not an IPv6 address; use one such as http://[::1]:8000") from None
    if not _NAME.fullmatch(text) or ".." in text:
        raise InputError(f"{text[:100]!r} is not a host name; {_LIKE}")
    if re.fullmatch(r"[\d.]+", text, re.ASCII):
        try:
            ipaddress.IPv4Address(text)
        except ValueError:
            raise InputError(f"{text[:100]!r} is not an IPv4 address; {_LIKE}") from None
    return text


def is_local(target: Target) -> bool:
    if target.uds is not None or target.host.lower() in _LOCAL:
        return True
    try:
        return ipaddress.ip_address(target.host).is_loopback
    except ValueError:
        return False
