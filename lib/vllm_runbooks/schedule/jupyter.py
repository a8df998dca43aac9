"""Jobs for JupyterLab's scheduler, as files and created in a running server.

That scheduler finds due runs itself, and only while its server runs. It copies the notebook, so the
library must be installed where its kernel runs; it writes `name = value` into a cell, so values are
Python.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.schedule import web
from vllm_runbooks.schedule.records import ScheduledJob

TIMEOUT_S = 30.0
"""Timeout of an answer, up to its last byte, in seconds."""
_LARGEST = 8 << 20
_LONGEST_ID = 100
_HINTS = {
    403: "the token is rejected; check the variable set with --token-env",
    404: "it has no scheduler; install jupyter-scheduler and restart it",
    **dict.fromkeys((301, 302, 303, 307, 308), "it redirects; use the target address"),
}
"""Hint by HTTP status."""


def definition(job: ScheduledJob, parameters: Mapping[str, Any], *, environment: str = "python") -> dict[str, Any]:
    """The body of `POST /scheduler/job_definitions`; the notebook must be in the server's folder.

    Args:
        job: The job.
        parameters: Parameters of the types that the notebook expects.
        environment: Name of the server's runtime environment.
    """
    return {
        "name": job.name,
        "input_uri": f"vllm-runbooks-{job.name}.ipynb",
        "runtime_environment_name": environment,
        "output_formats": ["ipynb"],
        "parameters": {name: repr(_whole_path(job, value)) for name, value in parameters.items()},
        "schedule": job.at,
        "timezone": job.zone,
        "tags": ["vllm-runbooks"],
    }


def _whole_path(job: ScheduledJob, value: Any) -> Any:
    """The absolute path of a file in the job's folder: the scheduler runs the notebook elsewhere."""
    if isinstance(value, str) and value and not Path(value).is_absolute() and Path(job.folder, value).exists():
        return str(Path(job.folder, value))
    return value


def create(
    job: ScheduledJob, notebook: Path, parameters: Mapping[str, Any], *, url: str, token_env: str, is_now: bool = False
) -> str:
    """Upload the notebook to a running server and create the job there; returns the server's id.

    Args:
        job: The job.
        notebook: The notebook.
        parameters: Its parameters.
        url: Address of the server.
        token_env: Name of the variable with its token.
        is_now: Whether it runs once, now, instead of by its schedule.

    Raises:
        InputError: the server does not answer, or rejects the request.
    """
    token = os.environ.get(token_env, "")
    if not token:
        raise InputError(f"--token-env {token_env}: is not set; set it to the server's token")
    server = _Server(url, token)
    try:
        content = json.loads(notebook.read_text("utf-8")) if notebook.stat().st_size <= _LARGEST else None
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InputError(f"{notebook}: is not a notebook of at most {_LARGEST >> 20} MiB; use another")
    environments = server.ask("GET", "/scheduler/runtime_environments")
    listed = environments if isinstance(environments, list) else []
    names = [str(row["name"]) for row in listed if isinstance(row, dict) and "name" in row]
    if not names:
        raise InputError(f"{server.shown}: has no runtime environment; check that jupyter-scheduler is installed")
    body = definition(job, parameters, environment=names[0])
    server.ask("PUT", f"/api/contents/{body['input_uri']}", {"type": "notebook", "format": "json", "content": content})
    if is_now:
        body = {key: value for key, value in body.items() if key not in ("schedule", "timezone")}
        return server.create("/scheduler/jobs", body, "job_id")
    return server.create("/scheduler/job_definitions", body, "job_definition_id")


class _Server:
    """A JupyterLab server."""

    def __init__(self, url: str, token: str) -> None:
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(url)
            port = f":{parts.port}" if parts.port is not None else ""
        except ValueError:
            parts, port = urlsplit(""), ""
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.query
            or parts.username
            or not url.isprintable()
        ):
            raise InputError(
                "--post: is not a server address; use one such as http://localhost:8888, without its token"
            )
        self.shown = f"{parts.scheme}://{parts.hostname}{port}"
        self._base = url.rstrip("/")
        self._token = token

    def create(self, path: str, body: Mapping[str, Any], name: str) -> str:
        """Create something there, and return the id in the answer's field of that name."""
        made = self.ask("POST", path, body)
        id_ = made.get(name) if isinstance(made, dict) else None
        if not isinstance(id_, str) or not id_.isprintable() or not 0 < len(id_) <= _LONGEST_ID:
            raise InputError(f"{self.shown}: sent no {name} for POST {path}; check its log")
        return id_

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The server's answer, as JSON."""
        headers = {"Authorization": f"token {self._token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            reply = web.ask(method, f"{self._base}{path}", data, headers, within_s=TIMEOUT_S, most=_LARGEST)
        except web.NoReplyError as error:
            raise InputError(f"{self.shown}: cannot be reached: {error}; check that the server is running") from None
        if reply.status >= 300:
            hint = _HINTS.get(reply.status, "check its log")
            raise InputError(f"{self.shown}: returned {reply.status} for {method} {path}; {hint}")
        try:
            return json.loads(reply.body)
        except (ValueError, RecursionError):
            raise InputError(
                f"{self.shown}: returned no JSON for {method} {path}; check that it is JupyterLab"
            ) from None
