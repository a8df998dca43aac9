"""`vllm-runbooks lint` and `vllm-runbooks migrate`."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.catalog import console as catalog_options
from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import store
from vllm_runbooks.lint import baseline as baselines
from vllm_runbooks.lint import selection, trees
from vllm_runbooks.lint.commands import GPUS, release
from vllm_runbooks.lint.records import Linted
from vllm_runbooks.lint.selection import LintSettings

_BEHIND = "vllm_runbooks.lint.behind"


class _WithCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_BEHIND] = "--" in args
        is_hinted = "vllm" in args and "--" not in args
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if not is_hinted:
                raise
            raise click.UsageError(
                f"No such option '{error.option_name}'. Put the command after --, as in lint -- vllm serve MODEL.",
                ctx,
            ) from None


@click.command(
    cls=_WithCommand,
    epilog=given.examples(
        "lint launch.sh --vllm 0.19.0 --gpus 8xRTX3090",
        "lint --fix launch.sh -o fixed.sh",
        "lint --fix deploy -o deploy",
        "lint . --baseline vllm-baseline.json",
        "lint -- vllm serve Qwen/Qwen3-8B --max-model-len 8k",
    ),
)
@click.argument("files", nargs=-1, metavar="[FILE|FOLDER…|-] [-- COMMAND…]", type=complete.SCRIPT)
@release("--vllm", text="Release to check against (default: the image's tag, else the newest).")
@GPUS
@click.option("--select", metavar="RULE…", multiple=True, help="Rules or groups to apply, as in option.unknown,shell.")
@click.option("--ignore", metavar="RULE…", multiple=True, help="Rules or groups to skip.")
@click.option(
    "--fail-on",
    type=click.Choice(selection.SEVERITIES),
    help="Lowest severity that causes exit status 1 (default: error).",
)
@click.option(
    "--profile", type=click.Choice(selection.PROFILES), help="min: errors only; strict: everything, and warnings fail."
)
@click.option("--baseline", metavar="FILE", type=given.FILE, help="Report only issues that are not in FILE.")
@click.option("--write-baseline", metavar="FILE", type=given.FILE, help="Write all issues to FILE, and report none.")
@click.option("--statistics", is_flag=True, help="Print the number of issues by rule instead of each issue.")
@click.option("--fix", is_flag=True, help="Print the fixed text; FILE is not changed.")
@click.option(
    "-o",
    "--output",
    "out",
    metavar="FILE|FOLDER",
    type=given.FILE_OR_FOLDER,
    help="With --fix: write the fixed text to FILE, or the changed files of a folder to FOLDER, which may be the same.",
)
@click.option("--diff", is_flag=True, help="Print what --fix would change, as a unified diff.")
@click.option("--python", metavar="PATH", help="Python with vLLM installed: its parser also checks the commands.")
@click.option("--config-check", is_flag=True, help="With --python: vLLM also checks the whole configuration.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@catalog_options.LANG
@click.pass_context
def lint(
    context: click.Context,
    /,
    *,
    files: tuple[str, ...],
    vllm: str | None,
    gpus: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    profile: str | None,
    baseline: Path | None,
    write_baseline: Path | None,
    statistics: bool,
    fix: bool,
    out: Path | None,
    diff: bool,
    python: str | None,
    config_check: bool,
    form: str,
) -> int:
    """Check vLLM commands in scripts, manifests, programs and pages against a release.

    Pass files, folders, `-` for standard input, or the command itself as `-- vllm serve …`. In a folder, it reads the
    files that mention vLLM and that git does not ignore. Settings come from .vllm-runbooks.toml or pyproject.toml in
    the file's folder or above.

    Exit status: 0 if there is no error, 1 if there is one (see --fail-on), 2 for invalid input.
    """
    from vllm_runbooks.catalog import options as release_data
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.redaction import redact
    from vllm_runbooks.host import loading as host_loading
    from vllm_runbooks.lint import checking, knowledge
    from vllm_runbooks.lint import render as render_issues
    from vllm_runbooks.reading import sources

    named, is_command = _read_inputs(files, is_rewritten=fix)
    is_sarif, several = form in ("sarif", "github"), len(named) > 1
    _reject((
        (several and form == "json", "pass one file for --format json."),
        (
            several and fix and (out is None or out.is_file() or "-" in files),
            "--fix of several files requires -o FOLDER.",
        ),
        (out is not None and not fix, "-o requires --fix."),
        (fix and is_sarif, "--fix prints the corrected text; pass it without --format, or with --format json."),
        (diff and (fix or form != "text"), "--diff prints the changes of --fix; pass it without --fix and --format."),
        (
            statistics and (fix or diff or form != "text"),
            "--statistics counts issues; pass it without --fix and --format.",
        ),
        (write_baseline is not None and (fix or diff), "--write-baseline writes issues; pass it without --fix."),
        (baseline is not None and write_baseline is not None, "give --baseline or --write-baseline."),
        (config_check and python is None, "--config-check requires --python."),
    ))  # fmt: skip
    rules = knowledge.knowledge().rules
    command_line = LintSettings(
        selection.check_names(select, rules, "--select") if select else None,
        selection.check_names(ignore, rules, "--ignore") if ignore else None,
        fail_on,
        profile,
        vllm,
        gpus,
        str(baseline) if baseline is not None else None,
    )
    loaders: dict[str, Callable[[str], object]] = {"vllm": release_data.load, "gpus": host_loading.check}
    checks = {key: load for key, load in loaders.items() if getattr(command_line, key) is None}
    settings = {
        name: command_line.over(selection.find_settings(folder_of(name) or Path(), rules, checks)) for name in named
    }
    options: dict[str, dict[str, Any]] = {
        name: {
            "name": name,
            "vllm": settings[name].vllm,
            "gpus": settings[name].gpus,
            "folder": folder_of(name),
            "selection": settings[name].selection,
        }
        for name in named
    }
    checked = checking.lint_texts(
        {
            name: (text, {**options[name], "python": python, "is_config_checked": config_check, "fix": fix or diff})
            for name, text in named.items()
        }
    )
    if command_line.vllm is None:
        checked = {name: _with_file_of_release(linted, settings[name]) for name, linted in checked.items()}
    if is_command and not checked[_COMMAND].deployments and not checked[_COMMAND].issues:
        if not context.meta[_BEHIND]:
            sources.read_text(files[0])  # it was meant as a file: report why it cannot be read
        raise InputError("the command after -- does not launch vLLM; write it as vllm serve MODEL …")
    _refuse_logs(files, named, checked)
    if write_baseline is not None:
        return _write_baseline(checked, write_baseline)
    checked, in_baseline = _without_known(checked, settings)
    hidden, is_failed = 0, False
    for name, linted in checked.items():
        reported = settings[name].reported(linted.issues, rules)
        is_failed = is_failed or settings[name].is_failed(reported)  # the same for all formats
        if form == "text" or settings[name].profile:
            hidden += len(linted.issues) - len(reported) if settings[name].profile != "min" else 0
            checked[name] = replace(linted, issues=reported)
    results = {redact.redact_name(name): linted for name, linted in checked.items()}
    if diff:
        for name, linted in checked.items():
            _show_diff(redact.redact_name(name), named[name], linted, options[name])
    elif fix:
        _show_fixed(files, named, checked, options, out, form=form, settings=settings)
    elif form == "json":
        output.write_json(to_json(next(iter(checked.values()))))
    elif form == "sarif":
        from importlib import metadata

        output.write_json(render_issues.sarif(results, rules, metadata.version("vllm-runbooks")))
    elif form == "github":
        annotations = "\n".join(filter(None, (render_issues.github(linted, name) for name, linted in results.items())))
        output.write(annotations) if annotations else None
    else:
        terminal.show(
            render_issues.view(
                results,
                hidden=hidden,
                known=in_baseline,
                plan=_plan_command(checked, settings),
                fix="" if statistics else _fix_command(files, checked),
                by_rule="only" if statistics else "also" if any(map(os.path.isdir, files)) else "",
            )
        )
    return int(is_failed)


def _reject(combinations: Iterable[tuple[bool, str]]) -> None:
    for is_wrong, message in combinations:
        if is_wrong:
            raise click.UsageError(message)


def _write_baseline(checked: Mapping[str, Linted], path: Path) -> int:
    store(path, baselines.written({name: linted.issues for name, linted in checked.items()}, path))
    output.say(f"wrote {path}")
    return 0


def _without_known(
    checked: Mapping[str, Linted], settings: Mapping[str, LintSettings]
) -> tuple[dict[str, Linted], int]:
    """Leave out the issues of the baselines, and count them."""
    known = {path: baselines.read(Path(path)) for item in settings.values() if (path := item.baseline) is not None}
    new = dict(checked)
    for name, linted in checked.items():
        if (path := settings[name].baseline) is not None:
            entries = known[path].get(baselines.relative(name, Path(path)), Counter())
            new[name] = replace(linted, issues=baselines.without_known(linted.issues, entries))
    return new, sum(len(checked[name].issues) - len(linted.issues) for name, linted in new.items())


def _fix_command(files: tuple[str, ...], checked: Mapping[str, Linted]) -> str:
    """The command that writes the corrected file, or prints the changes if there are several or no files.

    Empty if nothing is fixable.
    """
    if not any(issue.fix for linted in checked.values() for issue in linted.issues):
        return ""
    if len(files) == 1 and Path(files[0]).is_file():
        return terminal.again("--fix", "-o", files[0])
    return terminal.again("--diff", is_repeatable="-" not in files)


def _plan_command(checked: Mapping[str, Linted], settings: Mapping[str, LintSettings]) -> str:
    """The command that checks the memory of the launches on their GPUs; empty if no GPUs were given."""
    from vllm_runbooks.host import loading as host_loading

    launches = {
        (launch.model, settings[name].gpus) for name, linted in checked.items() for launch in linted.deployments
    }
    specs = {spec for _, spec in launches if spec and host_loading.cpu_memory(spec) is None}
    if not specs:
        return ""
    model = next(iter(launches))[0] if len(launches) == 1 else None
    spec = specs.pop() if len(specs) == 1 else "GPUS"
    return terminal.command_line("plan", model or "MODEL", "--gpus", spec) or "vllm-runbooks plan MODEL --gpus GPUS"


_COMMAND = "command"
"""Name of a command after `--` in messages."""


def _read_inputs(files: tuple[str, ...], *, is_rewritten: bool) -> tuple[dict[str, str], bool]:
    """Return texts by name, and whether they are a command: the first word is not a file."""
    from vllm_runbooks.reading import sources

    if not files:
        raise click.UsageError("no input; use a file, - for standard input, or -- and a command.")
    if files.count("-") > 1:
        raise click.UsageError("- is used twice, but standard input can be read only once.")
    is_behind = click.get_current_context().meta[_BEHIND]
    are_files = Path(files[0]).is_file() or files[0] == "-" or all(Path(name).exists() for name in files)
    if (is_behind or len(files) > 1) and not are_files:
        text = f"{shlex.join(files)}\n"
        if text.encode("utf-8", "replace").decode() != text:
            raise InputError("the command after -- is not valid UTF-8; rewrite it, or use a file")
        return {_COMMAND: text}, True
    is_case = len(files) == 1 and Path(files[0], "case.yaml").is_file()
    folders = [] if is_case else [name for name in files if name != "-" and Path(name).is_dir()]
    texts = {name: text for folder in folders for name, text in _texts_in(folder).items()}
    read = sources.read_rewritable if is_rewritten and len(files) == 1 else sources.read_text
    texts |= {(output.STDIN if name == "-" else name): read(name) for name in files if name not in folders}
    if is_rewritten and folders and len(texts) == 1:
        texts = {name: sources.read_rewritable(name) for name in texts}
    return texts, False


_MOST_SCRIPTS = 200
"""Scripts of one job."""


def scripts_in(name: str) -> list[str]:
    """Scripts in a folder and its subfolders; a name that is not a folder is returned itself."""
    return [name] if name == "-" or not Path(name).is_dir() else trees.files_in(name, _MOST_SCRIPTS)


def _texts_in(folder: str) -> dict[str, str]:
    """Texts of a folder that mention vLLM; one of the others if there is none."""
    from vllm_runbooks.reading import sources

    texts: dict[str, str] = {}
    first: dict[str, str] = {}
    for name in trees.files_in(folder):
        with contextlib.suppress(InputError):  # not a text
            text = sources.read_text(name)
            first = first or {name: text}
            if trees.may_launch(text):
                texts[name] = text
    return texts or first


def _refuse_logs(files: tuple[str, ...], named: dict[str, str], checked: dict[str, Linted]) -> None:
    """Reject a file without a launch that is the log of one, unless its name has another suffix."""
    from vllm_runbooks.lint import checking

    for path in files:
        name = output.STDIN if path == "-" else path
        linted = checked.get(name)
        if linted is None or linted.deployments or linted.issues:
            continue
        if checking.log_starts(named[name], name):
            diagnose = terminal.command_line("diagnose", path) or "vllm-runbooks diagnose"
            raise InputError(f"{name}: is a log, not a script; use {diagnose}")


def _with_file_of_release(linted: Linted, settings: LintSettings) -> Linted:
    return replace(linted, vllm=replace(linted.vllm, file=settings.file)) if settings.vllm is not None else linted


def folder_of(name: str) -> Path | None:
    """Folder of a script, where its config files are; None if it is no file."""
    return Path(name).parent if Path(name).is_file() else None


def _show_diff(name: str, text: str, linted: Linted, options: Mapping[str, Any]) -> None:
    """Print what the fixes of a file change; with a note if the diff cannot be applied to it."""
    from vllm_runbooks.lint import checking
    from vllm_runbooks.lint import render as render_issues

    safe = checking.hidden(text, options)
    if linted.fixed in (None, safe):
        return
    fixed = checking.fixed_text(text, **options)
    diff, is_exact = render_issues.diff_view(safe, linted.fixed or "", name, private=(text, fixed))
    terminal.show(diff)
    if not is_exact:
        output.say(
            f"{name}: this diff cannot be applied (secrets or control characters are replaced); use --fix -o FILE"
        )


def _show_fixed(
    files: tuple[str, ...],
    named: Mapping[str, str],
    checked: Mapping[str, Linted],
    options_of: Mapping[str, dict[str, Any]],
    out: Path | None,
    *,
    form: str,
    settings: Mapping[str, LintSettings],
) -> None:
    """Print the corrected text; remaining issues go to standard error."""
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.redaction import redact
    from vllm_runbooks.lint import checking, knowledge
    from vllm_runbooks.lint import render as render_issues

    is_folder = any(Path(name).is_dir() and name not in named for name in files)
    if out is not None and (len(named) > 1 or out.is_dir() or (is_folder and not out.is_file())):
        _write_fixed(files, named, options_of, out, settings)
        return
    ((file, text),) = named.items()
    linted, options, rules = checked[file], options_of[file], knowledge.knowledge().rules
    corrected = checking.fixed_text(text, **options)
    if out is not None:
        # The user's own file: a secret in it stays, or the script would no longer run.
        store(out, corrected, like=Path(file))
        output.say(f"wrote {out}")
    if form == "json":
        output.write_json(to_json(linted))
    elif out is None:
        output.write_script(linted.fixed or "")
        if linted.fixed != corrected:
            output.say("secrets are redacted in the output; -o FILE writes the script with its secrets")
    again = checking.lint_text(corrected, **options)
    rest = replace(again, issues=settings[file].reported(again.issues, rules))
    name = options["name"] + " (fixed)" if out is None else str(out)
    is_written = out is not None
    summary = render_issues.fixed_line(
        settings[file].reported(linted.issues, rules), rest.issues, linted.lang, is_written=is_written
    )
    unknown = render_issues.unknown_releases([rest])
    terminal.remark([*unknown, *render_issues.left_view(rest, redact.redact_name(name)), summary])


def _write_fixed(
    files: tuple[str, ...],
    named: Mapping[str, str],
    options: Mapping[str, dict[str, Any]],
    folder: Path,
    settings: Mapping[str, LintSettings],
) -> None:
    """Write the files that fixes change to a folder with the same subfolders, and print a line for each."""
    from vllm_runbooks.core.redaction import redact
    from vllm_runbooks.lint import checking, knowledge
    from vllm_runbooks.lint import render as render_issues
    from vllm_runbooks.reading import evidence, sources

    if unnamed := next((name for name in named if not Path(name).is_file() or evidence.is_pack(Path(name))), None):
        raise InputError(f"{unnamed}: is not a script or manifest; use -o FILE")
    rules = knowledge.knowledge().rules
    root = Path(os.path.commonpath([(path if path.is_dir() else path.parent).resolve() for path in map(Path, files)]))
    fixed = {name: checking.fixed_text(text, **options[name]) for name, text in named.items()}
    changed = {name: sources.read_rewritable(name) for name, text in named.items() if fixed[name] != text}
    for name, text in changed.items():
        target = folder / Path(name).parent.resolve().relative_to(root) / Path(name).name
        target.parent.mkdir(parents=True, exist_ok=True)
        store(target, fixed[name], like=Path(name))
        before, after = (
            settings[name].reported(checking.lint_text(version, **options[name]).issues, rules)
            for version in (text, fixed[name])
        )
        output.say(f"wrote {redact.redact_name(str(target))}: {render_issues.fixed_text(before, after)}")
    output.say(f"{len(changed)} of {len(named)} files changed")


@click.command(epilog=given.examples("migrate launch.sh --from 0.11.0 --to 0.19.0 -o launch-0.19.sh"))
@click.argument("file", metavar="FILE|-", type=complete.SCRIPT)
@release("--from", "from_", text="Release that the script was written for.", is_required=True)
@release("--to", text="Release to move the script to.", is_required=True)
@GPUS
@click.option("-o", "--output", "out", metavar="FILE", type=given.FILE, help="Write the migrated script to FILE.")
@catalog_options.LANG
@given.FORMAT
def migrate(*, file: str, from_: str, to: str, gpus: str | None, out: Path | None, form: str) -> int:
    """Move a script to another release: what breaks, what is renamed, which defaults changed.

    Exit status: 0 if there is no error on the new release, 1 if there is one, 2 for invalid input.
    """
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.redaction import redact
    from vllm_runbooks.lint import checking
    from vllm_runbooks.lint import render as render_issues
    from vllm_runbooks.reading import sources

    name = output.STDIN if file == "-" else file
    text = sources.read_rewritable(file)
    migrated, rewritten = checking.migrate_text(text, name=name, from_=from_, to=to, gpus=gpus, folder=folder_of(name))
    if out is not None:
        store(out, rewritten, like=Path(file))
        output.say(f"wrote {out}")
    if form == "json":
        output.write_json(to_json(migrated))
    else:
        terminal.show(
            [*render_issues.view({redact.redact_name(name): migrated}), *render_issues.changes_view(migrated)]
        )
    return int(LintSettings().is_failed(migrated.issues))
