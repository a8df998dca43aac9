"""`vllm-runbooks edge10 lint`."""

from __future__ import annotations

from pathlib import Path

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.catalog import console as catalog_options
from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.core.files import store
from vllm_runbooks.edge10.options import VERSION
from vllm_runbooks.lint.commands.lint import folder_of, scripts_in

_INSTEAD = "use a script, settings or a page of a step, a folder of them, or - for standard input"


@click.command(
    epilog=given.examples(
        "edge10 lint quantise.py",
        "edge10 lint job/ --format json",
        "edge10 lint serve.sh evaluate.py compile.py",
        "edge10 lint compile.py --fix -o fixed.py",
    )
)
@click.argument("files", nargs=-1, metavar="FILE|FOLDER|-…", type=complete.SCRIPT)
@VERSION
@click.option("--fix", is_flag=True, help="Print the fixed text; FILE is not changed.")
@given.value("-o --output out FILE", "With --fix: write the fixed text to FILE.", given.FILE)
@given.FORMAT
@catalog_options.LANG
def lint(*, files: tuple[str, ...], version: str | None, fix: bool, out: Path | None, form: str) -> int:
    """Check scripts that quantize, convert, serve, evaluate or compile.

    FILE is a program, a script, settings in YAML, a notebook or a page with several of them; - is standard input. Files
    given together, or in one FOLDER, are checked together. Nothing is executed.

    Exit status: 0 if there is no error; 1 if there is one, or no toolchain step is recognized; 2 for invalid input.
    """
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.redaction import redact
    from vllm_runbooks.edge10.scripts import checking as script_checking
    from vllm_runbooks.edge10.scripts import render as render_edge10_scripts
    from vllm_runbooks.lint import render as render_issues
    from vllm_runbooks.lint.selection import LintSettings
    from vllm_runbooks.reading import sources

    if not files:
        raise click.UsageError("no input; use a file, a folder, or - for standard input.")
    if files.count("-") > 1:
        raise click.UsageError("- is used twice, but standard input can be read only once.")
    if out is not None and not fix:
        raise click.UsageError("-o requires --fix.")
    names = list(dict.fromkeys(name for path in files for name in scripts_in(path)))
    if fix and len(names) > 1:
        raise click.UsageError("--fix requires exactly one file.")
    read = sources.read_rewritable if fix else sources.read_text
    texts = {(output.STDIN if name == "-" else name): read(name, _INSTEAD) for name in names}
    folders = {name: folder for name in texts if (folder := folder_of(name)) is not None}
    checked = script_checking.lint_scripts(texts, toolchain=version, folders=folders, fix=fix)
    view = render_edge10_scripts
    checked = view.shown(checked, redact.redact_name)
    if fix:
        corrected = script_checking.fixed_script(texts, next(iter(texts)), toolchain=version, folders=folders)
        if out is not None:
            # The user's own file: a secret in it stays, or the script would no longer run.
            store(out, corrected)
            output.say(f"wrote {out}")
        elif form == "text":
            output.write_script(view.merged(checked).fixed or "")
        again = script_checking.lint_scripts(dict.fromkeys(texts, corrected), toolchain=version, folders=folders)
        ((path, rest),), linted = view.shown(again, redact.redact_name).items(), next(iter(checked.values()))
        name = f"{path} (fixed)" if out is None else redact.redact_name(str(out))
        fixed = render_issues.fixed_line(linted.issues, rest.issues, linted.lang)
        terminal.remark([*render_issues.left_view(rest, name), fixed])
    if form == "json":
        output.write_json(to_json(view.merged(checked)))
    elif not fix:
        terminal.show(view.view(checked))
    unknown = view.unknown(checked)
    if form != "text" or fix:
        for name in unknown:
            output.say(f"{name}: {view.UNKNOWN}")
    return int(
        any(LintSettings().is_failed(linted.issues) for linted in checked.values()) or len(unknown) == len(checked)
    )
