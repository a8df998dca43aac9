"""`vllm-runbooks probe`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.history import kept

if TYPE_CHECKING:
    from vllm_runbooks.probe.records import Health

_LIVE = ("key_env", "model", "log", "command", "seconds", "load", "at_once", "prompt_tokens", "answer_tokens")
_TIME = given.Span("0.1s", "1h")
_PATIENCE_S = 60.0
_TEXTS = ("key_env", "model", "log", "command", "gpu_memory")
_LOADED = ("at_once", "prompt_tokens", "answer_tokens")


@click.command(
    epilog=given.examples(
        "probe http://127.0.0.1:8000",
        "probe https://llm.example.org --key-env LLM_KEY --model qwen3 --load 30s --at-once 8",
        "probe http://127.0.0.1:8000 --command launch.sh --record cases/slow-evening",
    )
)
@click.argument("server", metavar="URL|FILE|CASE", type=complete.SERVER)
@given.value(
    "--key-env NAME",
    "Environment variable with the API key (default: VLLM_API_KEY, on this host or with a valid certificate).",
)
@given.value("--model NAME", "Model name for the requests (default: the first one served).")
@given.value("--log FILE", "The server's log, which is diagnosed too; fixes use its arguments.", complete.LOG)
@given.value(
    "--command FILE", "Script or manifest that launches the server; fixes are shown as changes to it.", complete.SCRIPT
)
@given.value(
    "--gpus SPEC", "GPUs of the server, to plan fixes: 2xA100-80GB, a snapshot file, or local.", complete.CARDS
)
@given.value("--seconds TIME", "How long to read the metrics (default: 2s).", _TIME)
@given.value("--load TIME", "Send a small load for this long, as in 30s, and measure it.", _TIME)
@given.value("--at-once N", "Concurrent requests of the load (default: 4).", click.IntRange(1, 1024))
@given.value(
    "--prompt-tokens N",
    "Words per prompt, at least a token each (default: 128).",
    click.IntRange(1, 1_000_000),
)
@given.value("--answer-tokens N", "Tokens per answer (default: 64).", click.IntRange(1, 1_000_000))
@given.value("--record DIR", "Write a case to DIR, without secrets.", given.NEW_FOLDER)
@given.value(
    "--gpu-memory SOURCE",
    "Source of GPU memory readings: this host's driver (nvml), or a recorded series (a file).",
    default="nvml",
)
@given.value("--patience TIME", "Timeout per request (default: 10s for the port and /health, then 60s).", _TIME)
@click.option("--insecure", is_flag=True, help="Accept any certificate.")
@kept.NO_HISTORY
@given.EXPLAIN
@given.FORMAT
def probe(
    *,
    server: str,
    gpus: str | None,
    record: Path | None,
    patience: float | None,
    no_history: bool,
    explain: bool,
    form: str,
    **live: Any,
) -> int:
    """Diagnose a running server, or a recorded one.

    Tests the server step by step, from the open port to a tool call, and reads its metrics for a few seconds. Each
    problem is shown with the check or figure that proves it, and with a fix and its cost. A file written by
    `--record` or `--format json`, or a recorded case, is diagnosed the same way.

    Exit status: 0 if no problem is found, 1 if there is a problem, 2 for invalid input.
    """
    from vllm_runbooks.host import loading as host_loading
    from vllm_runbooks.probe import checking
    from vllm_runbooks.probe import history_entry as probe_history
    from vllm_runbooks.probe.address import is_address, target_of
    from vllm_runbooks.runbooks import recording

    if live["load"] is None and (needless := [name for name in _LOADED if live[name] is not None]):
        raise click.UsageError(f"--{needless[0].replace('_', '-')} requires --load TIME.")
    for name, text in {"gpus": gpus, **{text_option: live[text_option] for text_option in _TEXTS}}.items():
        if text is not None and not text.strip():
            raise click.UsageError(f"--{name.replace('_', '-')} is empty; set a value, or remove it.")
    if record is not None:
        recording.check_folder(record)
    if not is_address(server) or Path(server).exists():
        if (needless := [name for name in _LIVE if live[name] is not None]) or live["insecure"]:
            option = "--insecure" if not needless else f"--{needless[0].replace('_', '-')}"
            raise click.UsageError(
                f"{option} applies to a running server (http://HOST:PORT or HOST:PORT); a recorded server "
                "is checked as recorded."
            )
        return _tell(checking.health(_recorded(server), gpus=gpus or ""), form, record, explain=explain)
    if gpus:
        host_loading.cards(gpus)  # reject invalid GPUs before the server is queried
    inputs = {**live, "gpus": gpus, "patience": _PATIENCE_S if patience is None else patience}
    with (
        kept.opened(no_history=no_history) as history,
        probe_history.look(history, target_of(server).place, inputs) as store_health,
    ):
        with terminal.waiting(_waiting(server, live), piped_after_s=_PIPED_AFTER_S):
            health = checking.health(_observed(server, patience, live), gpus=gpus or "")
        store_health(health)
    return _tell(health, form, record, explain=explain)


_PIPED_AFTER_S = 4.0
"""A live server is probed in less, without a load."""


def _waiting(server: str, live: dict[str, Any]) -> str:
    seconds = max(live["seconds"] or 2.0, live["load"] or 0.0)
    how = "requests of a load" if live["load"] else "some requests"
    return f"sending {how} to {server}, reading its metrics for {seconds:.0f} s"


def _tell(health: Health, form: str, record: Path | None, *, explain: bool) -> int:
    from vllm_runbooks.catalog import load as catalog
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.errors import RunbooksError
    from vllm_runbooks.core.views.summary import summary_view
    from vllm_runbooks.probe import render as render_health
    from vllm_runbooks.probe.summaries import summarize
    from vllm_runbooks.runbooks import recording

    if form == "json":
        output.write_json(to_json(health))
    elif explain:
        terminal.show(render_health.view(health, catalog.serving()))
    else:
        terminal.show(summary_view(summarize(health, catalog.serving(), again=terminal.again("--explain"))))
    if record is not None:
        try:
            case = recording.record_health(record, health)
        except RunbooksError as error:
            output.say(f"no case was written: {error}")
            return int(health.cause is not None)
        output.say(f"{record}: written ({', '.join([*case.files, 'case.yaml'])}); run it: vllm-runbooks check --cases "
             f"{shlex.quote(str(record))}")  # fmt: skip
    return int(health.cause is not None)


def _recorded(name: str) -> Any:
    from vllm_runbooks.core.errors import InputError, WrongFileError
    from vllm_runbooks.reading import sources

    try:
        return sources.load_files([name])
    except WrongFileError as error:
        raise InputError(f"{error}; a server address is http://HOST:PORT, https://HOST or HOST:PORT") from None


def _observed(url: str, patience: float | None, live: dict[str, Any]) -> Any:
    from vllm_runbooks.runbooks.live import probing

    chosen = {name: live[name] for name in _LOADED if live[name] is not None}
    return probing.probe(
        url,
        key_env=live["key_env"] or "",
        model=live["model"] or "",
        log=live["log"] or "",
        command=live["command"] or "",
        seconds=live["seconds"] or 2.0,
        load_seconds=live["load"] or 0.0,
        **chosen,
        memory=live["gpu_memory"],
        patience_s=_PATIENCE_S if patience is None else patience,
        first_s=patience,
        is_verified=not live["insecure"],
        say=output.say,
    )
