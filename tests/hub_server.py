"""A stand-in for the Hugging Face Hub: the parts of its protocol that the client uses to read a model."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_API = re.compile(r"/api/models/([\w.-]+/[\w.-]+)(?:/revision/([^/?]+))?")
_MODELSCOPE = re.compile(r"/api/v1/models/([\w.-]+/[\w.-]+)/repo(/files)?")
_FILE = re.compile(r"(?:/cdn)?/([\w.-]+/[\w.-]+)/resolve/([^/?]+)/([^?]+)")


@dataclass
class StandInModel:
    """A repository."""

    files: dict[str, bytes]
    revisions: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    is_gated: bool = False
    sizes: dict[str, int | None] = field(default_factory=dict)
    """Sizes that the API reports in place of the files' own; None for no size."""


@dataclass
class StandInHub:
    """The server's repositories, its behaviour, and what it was asked."""

    models: dict[str, StandInModel] = field(default_factory=dict)
    requests: list[tuple[str, str, str, str | None]] = field(default_factory=list)
    """Port, method and path of each request, with its Authorization."""
    sent: int = 0
    """Bytes of weight files."""
    delay_s: float = 0.0
    drips: bool = False
    """Send weight files byte by byte."""
    cuts: str = ""
    """Name of a file that ends in the middle."""
    ignores_ranges: bool = False
    status: int = 0
    """Status of every answer; 0 for the right one."""
    page: bytes = b""
    """Every answer, like that of a captive portal; empty for the right one."""
    address: str = ""
    cdn: str = ""
    """Address of the other host, which has the weight files; empty if they are on the same."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: ClassVar[StandInHub]

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub = self.hub
        path = unquote(urlsplit(self.path).path)
        port = str(self.server.server_port)  # type: ignore[attr-defined]
        hub.requests.append((port, self.command, path, self.headers.get("Authorization")))
        time.sleep(hub.delay_s)
        if hub.page:
            self._send(200, hub.page, {"Content-Type": "text/html"})
        elif hub.status:
            self._send(hub.status, b"{}")
        elif api := _API.fullmatch(path):
            self._model(api[1], api[2] or "main")
        elif asked := _MODELSCOPE.fullmatch(path):
            self._modelscope(asked[1], dict(parse_qsl(urlsplit(self.path).query)), is_list=bool(asked[2]))
        elif file := _FILE.fullmatch(path):
            self._file(file[1], file[2], file[3], is_cdn=path.startswith("/cdn"))
        else:
            self._send(404, b"{}")

    def _model(self, name: str, revision: str) -> None:
        model = self.hub.models.get(name)
        if model is None:
            self._send(401, b'{"error": "Invalid username or password."}', {"X-Error-Code": "RepoNotFound"})
            return
        commit = model.revisions.get(revision)
        if commit is None:
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            return
        siblings = [
            {"rfilename": file, "size": model.sizes.get(file, len(content))} for file, content in model.files.items()
        ]
        info = {"id": name, "modelId": name, "sha": commit, "siblings": siblings, "gated": model.is_gated and "manual"}
        self._send(200, json.dumps({**info, "private": False, "tags": [], "downloads": 1}).encode())

    def _modelscope(self, name: str, query: dict[str, str], *, is_list: bool) -> None:
        model = self.hub.models.get(name)
        revisions = {"master": COMMIT, COMMIT: COMMIT}
        if model is None or query["Revision"] not in revisions:
            self._send(404, b'{"Code": 10010205001, "Message": "record not found"}')
        elif not is_list:
            self._file(name, COMMIT, query["FilePath"], is_cdn=True)
        else:
            files = [
                {"Path": file, "Size": len(content), "Type": "blob", "Revision": COMMIT, "CommittedDate": 1_700_000_000}
                for file, content in model.files.items()
            ]
            files[0] |= {"Revision": "f" * 40, "CommittedDate": 1_600_000_000}
            files.append({"Path": "folder", "Size": 0, "Type": "tree", "Revision": "e" * 40, "CommittedDate": 2})
            self._send(200, json.dumps({"Code": 200, "Data": {"Files": files}}).encode())

    def _file(self, name: str, revision: str, file: str, *, is_cdn: bool) -> None:
        model = self.hub.models[name]
        if model.is_gated and not is_cdn and not self.headers.get("Authorization"):
            self._send(401, b"{}", {"X-Error-Code": "GatedRepo"})
            return
        content = model.files.get(file)
        commit = model.revisions.get(revision, revision)
        if content is None:
            self._send(404, b"{}", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
            return
        more = {"X-Repo-Commit": commit, "ETag": f'"{abs(hash(content)):x}"'}
        is_weights = file.endswith(".safetensors")
        if is_weights and self.hub.cdn and not is_cdn:
            more |= {"Location": f"{self.hub.cdn}/cdn{self.path}", "X-Linked-Size": str(len(content))}
            self._send(302, b"", more)
            return
        status, body = 200, content
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked and not self.hub.ignores_ranges:
            first, last = int(asked[1]), min(int(asked[2]), len(content) - 1)
            status, body = 206, content[first : last + 1]
            more["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        self._send(status, body, more, is_weights=is_weights, is_cut=file == self.hub.cuts)

    def _send(
        self,
        status: int,
        body: bytes,
        more: dict[str, str] | None = None,
        *,
        is_weights: bool = False,
        is_cut: bool = False,
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(more or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        step = 1 if self.hub.drips and is_weights else 1 << 14
        with_end = body[: len(body) // 2] if is_cut else body
        try:
            for start in range(0, len(with_end), step):
                self.wfile.write(with_end[start : start + step])
                self.hub.sent += step * is_weights
                time.sleep(0.5 if step == 1 else 0)
        except OSError:  # the client closed the connection
            self.close_connection = True
        self.close_connection = self.close_connection or is_cut


@contextmanager
def serve_hub(*, has_cdn: bool = False) -> Iterator[StandInHub]:
    """Run the server, and with `has_cdn` the other host of the weight files."""
    hub = StandInHub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(1 + has_cdn)]
    for server in servers:
        server.daemon_threads = True
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    hub.address = f"http://127.0.0.1:{servers[0].server_address[1]}"
    hub.cdn = f"http://127.0.0.1:{servers[1].server_address[1]}" if has_cdn else ""
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
