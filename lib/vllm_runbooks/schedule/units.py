"""Timers for wake-ups: systemd units and a crontab line.

Both run `schedule wake NAME` every few minutes, which determines due runs and reads the job's
secrets itself.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from vllm_runbooks.catalog import folders, languages
from vllm_runbooks.core import user_folders
from vllm_runbooks.history import store as history
from vllm_runbooks.host import card_locks
from vllm_runbooks.schedule import cron
from vllm_runbooks.schedule.records import ScheduledJob

FEW_MINUTES = 5
DELAY_S = 20
"""Random delay in seconds, so that hosts which share a server do not wake together."""
_MARGIN_S = 300
"""Seconds of a wake-up in addition to the run: reports, and killing remaining processes."""
_KEPT = (*user_folders.VARIABLES, history.PLACE, folders.DATA, folders.CATALOGS, card_locks.FOLDER, languages.LANG)
"""Variables that locate our files, and the language: a timer finds what its user finds."""


def minutes(job: ScheduledJob) -> int:
    """Minutes between two wake-ups, so that no planned time waits longer."""
    return FEW_MINUTES if cron.parse(job.at).closest_s >= 60 * FEW_MINUTES else 1


def command(job: ScheduledJob) -> list[str]:
    """The command of a wake-up."""
    return [sys.executable, "-P", "-m", "vllm_runbooks", "schedule", "wake", "--quiet", job.name]


def _variables() -> dict[str, str]:
    """Current values of these variables, with absolute paths."""
    variables = {name: value for name in _KEPT if (value := os.environ.get(name))}
    return {name: value if name == languages.LANG else _wholes(name, value) for name, value in variables.items()}


def _wholes(name: str, value: str) -> str:
    return os.pathsep.join(map(_whole, value.split(os.pathsep))) if name == folders.CATALOGS else _whole(value)


def _whole(path: str) -> str:
    return str(Path(path).absolute()) if path and not path.startswith("~") else path


def service_name(job: ScheduledJob) -> str:
    """Name of both units, without suffix."""
    return f"vllm-runbooks-{job.name}"


def systemd(job: ScheduledJob) -> dict[str, str]:
    """The user's units of a job, by file name."""
    words = ["/usr/bin/env", *command(job)]
    name = service_name(job)
    environment = "".join(f"Environment={_quoted(f'{key}={value}')}\n" for key, value in _variables().items())
    service = (
        "[Unit]\n"
        f"Description=vllm-runbooks: run the job {job.name} if due\n"
        "\n"
        "[Service]\n"
        "Type=oneshot\n"
        # Through env: a program's own path is the one word in which systemd does not replace $$.
        f"ExecStart={' '.join(_quoted(word, is_command=True) for word in words)}\n"
        f"{environment}"
        "KillMode=control-group\n"
        f"TimeoutStartSec={int(job.timeout_s) + _MARGIN_S}\n"
    )
    timer = (
        "[Unit]\n"
        f"Description=vllm-runbooks: check every {minutes(job)} min whether the job {job.name} is due\n"
        "\n"
        "[Timer]\n"
        f"OnCalendar={calendar(job)}\n"
        "AccuracySec=5\n"
        "Persistent=true\n"
        f"RandomizedDelaySec={DELAY_S}\n"
        f"Unit={name}.service\n"
        "\n"
        "[Install]\n"
        "WantedBy=timers.target\n"
    )
    return {f"{name}.service": service, f"{name}.timer": timer}


def calendar(job: ScheduledJob) -> str:
    """Calendar expression of the wake-ups, for systemd."""
    return f"*-*-* *:0/{minutes(job)}:00"


def _percent(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str, *, is_command: bool = False) -> str:
    """A word quoted for systemd, with its special characters doubled; only commands expand variables."""
    text = _percent(word.replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{text.replace("$", "$$") if is_command else text}"'


def crontab(job: ScheduledJob) -> str:
    """The line for a user's crontab; cron's special character `%` is escaped."""
    settings = [f"{key}={shlex.quote(value)}" for key, value in _variables().items()]
    line = " ".join(["exec", "env", *settings, shlex.join(command(job))])
    step = "*" if minutes(job) == 1 else f"*/{minutes(job)}"
    return f"{step} * * * * {line.replace('%', chr(92) + '%')}\n"


def user_units() -> Path:
    """Folder of this user's systemd units."""
    return user_folders.every_config() / "systemd" / "user"
