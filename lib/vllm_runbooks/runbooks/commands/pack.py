"""`vllm-runbooks pack`."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Outcome

if TYPE_CHECKING:
    from vllm_runbooks.core.evidence import Evidence
    from vllm_runbooks.core.packs import Manifest
    from vllm_runbooks.core.views.styled import TextBlock
    from vllm_runbooks.runbooks.pack import Packed


@click.command(
    epilog=given.examples(
        "pack startup.log --command launch.sh --gpus 8xRTX3090",
        "pack logs/ -o evidence.zip --no-inventory",
        "pack startup.log --issue",
    )
)
@click.argument("logs", nargs=-1, type=complete.LOG, metavar="[LOG…|FOLDER|CASE|-]")
@given.value("--command FILE", "Launch script or manifest of this log.", complete.SCRIPT)
@given.value(
    "--gpus SPEC",
    "GPUs of the launch: 8xRTX3090, a snapshot file or case, or local.",
    complete.CARDS,
)
@given.value("--vllm VERSION", "Release that wrote the log, if the log does not print it.", complete.RELEASE)
@given.value(
    "--start N", "Which launch to use if there are several, from 1 (default: the last).", click.IntRange(min=1)
)
@click.option("--no-inventory", is_flag=True, help="Leave out this host's inventory.")
@given.value("-o --output out FILE.zip", "Output file (default: LOG-pack.zip in this folder).", given.FILE)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--issue", is_flag=True, help="Print the text of the issue; write an archive only with -o.")
@given.FORMAT
@terminal.waiting("diagnosing, replacing secrets, reading this host")
def pack(
    *,
    logs: tuple[str, ...],
    command: str | None,
    gpus: str | None,
    vllm: str | None,
    start: int | None,
    no_inventory: bool,
    out: Path | None,
    force: bool,
    issue: bool,
    form: str,
) -> int:
    """Pack logs, command, inventory and diagnosis into one archive to share, and draft an issue.

    Pass a log file, several logs of one launch or their folder, a recorded case, or `-` for standard input. Secrets are
    replaced everywhere; a manifest counts the replacements by kind and file. `diagnose` reads the archive.

    Exit status: 0 if the archive is written, whatever the diagnosis; 2 if it is not.
    """
    from importlib import metadata

    from vllm_runbooks.catalog.load import load_catalog
    from vllm_runbooks.core import files
    from vllm_runbooks.runbooks import pack as packing

    if not logs and command is None:
        raise click.UsageError("no log; use a log file, a folder of logs, a recorded case, or - for standard input.")
    if "-" in logs and command == "-":
        raise click.UsageError("standard input can be read only once; use a file for the log or the command.")
    if start is not None and not logs:
        raise click.UsageError("--start selects a launch in a log; add the log.")
    if issue and form == "json":
        raise click.UsageError("--issue prints the issue's text; remove --format json.")
    target = out if out is not None or issue else Path(_name(logs, command))
    if target is not None:
        _check(target, is_forced=force)
    shelf = load_catalog()
    evidence = _evidence(logs, command, vllm)
    tool = metadata.version("vllm-runbooks")
    made = packing.pack(evidence, packing.cards_of(gpus, is_inventoried=not no_inventory), start=start, tool=tool)
    if target is not None:
        files.store(target, made.raw)
        output.say(f"wrote {target}")
    output.name_left_out(shelf.problems)
    if form == "json":
        from vllm_runbooks.core.display import to_json

        output.write_json(to_json(made.manifest))
    elif issue:
        output.write(made.issue)
    elif target is not None:
        terminal.show(_view(made, target))
    return 0


def _evidence(logs: tuple[str, ...], command: str | None, vllm: str | None) -> Evidence:
    from vllm_runbooks.core.evidence import Evidence
    from vllm_runbooks.reading import sources
    from vllm_runbooks.reading.evidence import is_pack
    from vllm_runbooks.runbooks import pack as packing

    if not logs:
        sources.check_release(vllm)
        evidence = Evidence((), vllm=vllm)
    else:
        evidence = sources.load_files(logs, vllm=vllm)
        if Path(logs[0]).is_file() and is_pack(Path(logs[0])):
            raise InputError(f"{logs[0]}: is already a pack; share it as it is")
        if any(name == "-" or Path(name).is_fifo() for name in logs):
            evidence = replace(evidence, documents=tuple(map(packing.laid_aside, evidence.documents)))
    return evidence if command is None else replace(evidence, command=sources.read_text(command))


def _name(logs: tuple[str, ...], command: str | None) -> str:
    from vllm_runbooks.core.redaction.redact import redact_name

    name = Path(logs[0] if logs else command or "").resolve().name if logs != ("-",) else "startup"
    stem = Path(redact_name(name)).stem.replace("[", "").replace("]", "")
    return f"{stem[:100] or 'startup'}-pack.zip"


def _check(target: Path, *, is_forced: bool) -> None:
    """Reject a file that exists or cannot be written, before anything is read."""
    if target.suffix.casefold() != ".zip":
        raise InputError(f"{target}: a pack is a zip archive; name it {target.stem}.zip")
    if target.is_dir():
        raise InputError(f"{target}: is a folder; set a file with -o")
    if target.exists() and not is_forced:
        raise InputError(f"{target}: already exists; replace it with --force, or set another file with -o")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"{target.absolute().parent}: cannot be written to; set another file with -o")


def _outcome(manifest: Manifest) -> str:
    """How the packed launch ended, and its cause."""
    if manifest.outcome is None:
        return "no log"
    if manifest.root_cause is None and Outcome(manifest.outcome).is_healthy:
        return f"{manifest.outcome}: the server runs"
    return f"{manifest.outcome}: {manifest.root_cause or 'unknown cause'}"


def _view(made: Packed, target: Path) -> list[TextBlock]:
    from vllm_runbooks.core.views.styled import BLANK, Line, Prose, Table, Tone, bulleted, headed, parted, styled

    manifest = made.manifest
    outcome = _outcome(manifest)
    rows = [
        (member.name, f"{member.bytes:,}", ", ".join(f"{count} {kind}" for kind, count in member.hidden.items()))
        for member in manifest.members
    ]
    head = [styled(name, Tone.FAINT) for name in ("file", "bytes", "redacted")]
    counts = ", ".join(f"{count} {kind}" for kind, count in manifest.hidden.items())
    replaced = f"Redacted: {counts or 'nothing'}. Check the logs before you share the pack."
    parts: list[list[TextBlock]] = [
        [Line(styled(str(target), Tone.HEADING) + f"  ·  {outcome}")],
        [Table(head, rows, numeric=frozenset({1}), indent="  ")],
        [Prose(replaced, "")],
    ]
    if manifest.notes:
        parts.append(headed("NOTES", [bulleted(note) for note in manifest.notes]))
    read = styled(f"  vllm-runbooks diagnose {shlex.quote(str(target))}", Tone.COMMAND)
    return [*parted([*parts, headed("READ THE PACK", [Line(read)])]), BLANK]
