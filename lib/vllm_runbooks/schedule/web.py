"""A request to an untrusted server: with a time limit, without redirections, with short errors."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reply:
    """The server's answer."""

    status: int
    body: bytes
    """Body of an answer with a status below 300, as far as requested."""
    again_s: float
    """Seconds after which to retry, according to the server; 0 if not given."""


class NoReplyError(Exception):
    """No answer; the message has the reason, and never the address, which may be a secret."""


def ask(method: str, url: str, body: bytes | None, headers: Mapping[str, str], *, within_s: float, most: int) -> Reply:
    """Send a request. Redirects are not followed, so that keys only reach their address.

    Args:
        method: HTTP method.
        url: A checked address of http or https.
        body: Body of the request.
        headers: Headers in addition to the usual ones.
        within_s: Timeout in seconds from the name look-up to the last byte.
        most: Maximum bytes of the answer's body.

    Raises:
        NoReplyError: There was no answer, or not in time.
    """
    future: Future[Reply] = Future()

    def exchange() -> None:
        try:
            future.set_result(_exchanged(method, url, body, headers, within_s=within_s, most=most))
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            future.set_exception(error)

    # A socket's timeout applies to each read; an abandoned thread ends with this process.
    threading.Thread(target=exchange, daemon=True).start()
    from http.client import HTTPException

    try:
        return future.result(within_s)
    except (OSError, HTTPException, ValueError) as error:
        raise NoReplyError(_why(error, within_s)) from None


def _why(error: Exception, within_s: float) -> str:
    """Why a request failed: an error's own text may quote the address."""
    import ssl
    from urllib.error import URLError

    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError):
        return f"no answer within {within_s:g} s"
    if isinstance(reason, ssl.SSLError):
        return f"no TLS connection ({reason.reason or 'unknown reason'})"
    return reason.strerror if isinstance(reason, OSError) and reason.strerror else type(reason).__name__


def _exchanged(
    method: str, url: str, body: bytes | None, headers: Mapping[str, str], *, within_s: float, most: int
) -> Reply:
    import urllib.error
    import urllib.request

    class Stay(urllib.request.HTTPRedirectHandler):
        """Follows no redirection."""

        def redirect_request(self, *_: Any) -> None:
            """Return the redirection as the answer."""

    request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)  # noqa: S310 - see above
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=within_s) as answer:
            return Reply(answer.status, answer.read(most) if most else b"", 0.0)
    except urllib.error.HTTPError as error:
        error.close()
        retry_after = error.headers.get("Retry-After", "")
        return Reply(error.code, b"", float(retry_after) if retry_after.isdecimal() and len(retry_after) < 6 else 0.0)
