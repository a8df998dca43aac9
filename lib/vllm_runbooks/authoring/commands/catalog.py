"""The commands `catalog check`, `catalog new`, `catalog list` and `catalog schemas`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from vllm_runbooks.catalog import complete, folders
from vllm_runbooks.catalog import console as catalog_options
from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.core.display import SCHEMA
from vllm_runbooks.core.errors import CatalogError, InputError
from vllm_runbooks.core.files import store

_SCAFFOLD = (Path(__file__).parents[1] / "symptom_scaffold.txt").read_text(encoding="utf-8")


def _folder_option(says: str, **attributes: Any) -> Callable[[Any], Any]:
    return click.option("--dir", "folder", metavar="DIR", type=given.FOLDER, help=says, **attributes)


@click.group()
def catalog() -> None:
    """Check the catalog's files, add a symptom, or list symptoms, models and GPUs."""


@catalog.command(epilog=given.examples("catalog check symptoms/port.in_use.yaml", "catalog check --dir mycatalog"))
@click.argument("files", nargs=-1, metavar="[FILE…]", type=click.Path(path_type=Path))
@_folder_option("A complete catalog folder of your own (default: the packaged one).")
@terminal.waiting("checking the catalog")
def check(files: tuple[Path, ...], folder: Path | None) -> int:
    """Check FILEs, or the whole catalog.

    Each problem is reported with file, line and field.

    Exit status: 1 if the catalog has problems, 2 if a single FILE is broken.
    """
    from vllm_runbooks.authoring import checks as authoring

    if files and folder is not None:
        raise click.UsageError("give either files or --dir, not both.")
    if len(files) == 1:
        try:
            authoring.check_file(files[0])
        except CatalogError as error:
            raise InputError("; ".join(str(error).splitlines())) from None
        output.write(f"{files[0]}: good")
        return 0
    problems: list[str] = []
    checked = len(files)
    for path in files:
        try:
            authoring.check_file(path)
        except CatalogError as error:
            problems += str(error).splitlines()
    if not files:
        root = folder or folders.catalog_dir()
        if not root.is_dir():
            raise InputError(f"{root}: no such folder; name a catalog folder")
        checked, problems = authoring.check_folder(root)
    output.write("\n".join([*problems, f"{checked} files checked, {len(problems)} problems"]))
    return int(bool(problems))


@catalog.command(epilog=given.examples("catalog new port.in_use_by_us --dir mycatalog/symptoms"))
@click.argument("symptom", type=complete.SYMPTOM)
@_folder_option("Folder for the new file; created if missing.", default=Path("symptoms"), show_default=True)
def new(symptom: str, folder: Path) -> int:
    """Write a scaffold for a new symptom.

    SYMPTOM is its id: `<group>.<word>` or finer.
    """
    from vllm_runbooks.catalog.authored import tables

    if not re.fullmatch(r"[a-z][a-z0-9_]{1,30}(\.[a-z][a-z0-9_]{1,40}){1,3}", symptom):
        raise InputError(f"{symptom}: is not a symptom id; use <group>.<word>, as in port.in_use")
    classes = tables.words("classes", folder.absolute().parent)
    groups = sorted({word.partition(".")[0] for word in classes})
    group = symptom.partition(".")[0]
    if group not in groups:
        near = get_close_matches(group, groups, n=1)
        hint = f"did you mean {near[0]}? There are" if near else "use one of"
        raise InputError(f"{symptom}: {group!r} is not a group; {hint} {', '.join(groups)}")
    severity = "fatal" if ".".join(symptom.split(".")[:2]) in classes else "hint"
    path = folder / f"{symptom}.yaml"
    if path.exists():
        raise InputError(f"{path}: already exists; edit it, or choose another id")
    schema = "../schema/symptom.json" if (folder.absolute().parent / "schema").is_dir() else "symptom.json"
    today = datetime.now(tz=UTC).date().isoformat()
    folder.mkdir(parents=True, exist_ok=True)
    store(path, _SCAFFOLD.format(id=symptom, schema=schema, severity=severity, date=today))
    output.write(f"{path}: written; replace each TODO, then run `vllm-runbooks catalog check {path}`")
    return 0


def _listed(kind: str) -> list[dict[str, Any]]:
    from vllm_runbooks.catalog import load as catalog

    shelf, specs = catalog.load_catalog(), catalog.specs()
    output.name_left_out(shelf.problems)
    if kind == "models":
        endings = {True: ", incomplete configuration", False: ""}
        return [
            {
                "id": model.id,
                "title": f"{' '.join(model.config.get('architectures', ()))}{endings[model.is_partial]}",
                "is_partial": model.is_partial,
            }
            for model in specs.files
        ]
    if kind == "gpus":
        gpus = specs.table.gpus
        return [{"id": gpu.name, "title": f"{gpu.memory_gib:g} GiB", "memory_gib": gpu.memory_gib} for gpu in gpus]
    if kind == "policies":
        policies = shelf.policies.values()
        return [{"id": p.id, "title": p.title, "steps": [step.title for step in p.steps]} for p in policies]
    symptoms = shelf.symptoms.values()
    return [{"id": s.id, "title": s.title, "severity": s.severity, "role": s.role} for s in symptoms]


@catalog.command("list", epilog=given.examples("catalog list --models qwen3 8b", "catalog list --policies"))
@click.argument("words", nargs=-1, metavar="[WORD…]")
@catalog_options.CATALOG
@given.FORMAT
@click.option("--models", "kinds", multiple=True, flag_value="models", help="List the models that `plan` knows.")
@click.option(
    "--policies", "kinds", multiple=True, flag_value="policies", help="List the policies for `diagnose --policy`."
)
@click.option("--gpus", "kinds", multiple=True, flag_value="gpus", help="List the GPUs for `--gpus` of any command.")
def list_(words: tuple[str, ...], form: str, *, kinds: tuple[str, ...]) -> int:
    """List the symptoms in the catalog, its models, GPUs or policies.

    With WORDs, only those whose line has all of them.
    """
    if len(set(kinds)) > 1:
        raise click.UsageError(f"{' and '.join(f'--{kind}' for kind in kinds)} are separate lists; pass one of them.")
    key = kinds[0] if kinds else "symptoms"
    wanted = [word.casefold() for word in words]
    rows = [row for row in _listed(key) if all(word in f"{row['id']} {row['title']}".casefold() for word in wanted)]
    if form == "json":
        output.write_json(json.dumps({"schema": SCHEMA, key: rows}, ensure_ascii=False, indent=2))
        return 0
    if not rows:
        output.say(f"none of the catalog's {key} has {' '.join(words)}")
    width = max((len(row["id"]) for row in rows), default=0)
    severities = [f"{row['severity'].value:<8}  " if "severity" in row else "" for row in rows]
    lines = (f"{row['id']:<{width}}  {extra}{row['title']}" for row, extra in zip(rows, severities, strict=True))
    output.write("\n".join(lines))
    return 0


@catalog.command(
    epilog=given.examples(
        "catalog translations",
        "catalog translations --missing",
        "catalog translations --stamp symptoms/oom.weights.yaml",
    )
)
@click.argument("files", nargs=-1, metavar="[FILE…]", type=click.Path(path_type=Path))
@_folder_option("A catalog folder of your own (default: the packaged one).")
@click.option("--missing", is_flag=True, help="Include texts without a translation.")
@click.option("--stamp", is_flag=True, help="Mark the translations in FILEs as up to date.")
@terminal.waiting("reading the catalog's translations")
def translations(files: tuple[Path, ...], folder: Path | None, *, missing: bool, stamp: bool) -> int:
    """List translations whose English text has changed.

    Such a text is shown in English. Exit status: 1 if any is out of date.
    """
    from vllm_runbooks.authoring import translated_files

    if stamp and not files:
        raise click.UsageError("--stamp needs the files that you have compared with their English texts.")
    if files and (folder is not None or missing):
        raise click.UsageError("give either files or a folder with what to list of it, not both.")
    if stamp:
        for path in files:
            store(path, translated_files.stamped(path))
            output.write(f"{path}: its translations fit")
        return 0
    lines, is_stale = translated_files.translated(files, folder or folders.catalog_dir(), is_missing=missing)
    output.write("\n".join(lines))
    return int(is_stale)


@catalog.command(epilog=given.examples("catalog schemas --check", "catalog schemas --vllm 0.19.0 --dir schemas"))
@_folder_option("Where to write them (default: the catalog's schema/).")
@given.value(
    "--vllm release RELEASE", "Instead write those for vLLM's options in YAML: of a release, or of `all`, to --dir."
)
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit with 1 if a file is out of date.")
@terminal.waiting("making the JSON Schemas")
def schemas(folder: Path | None, *, release: str | None, only_check: bool) -> int:
    """Write the JSON Schemas of catalog files and JSON output, or those by which editors check vLLM's options."""
    from vllm_runbooks.authoring import json_schemas, option_schemas
    from vllm_runbooks.catalog import options

    if release is not None and folder is None:
        raise click.UsageError("--vllm requires --dir.")
    root = folder or folders.catalog_dir() / "schema"
    if release is None:
        texts = {
            name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
            for name, schema in json_schemas.schemas().items()
        }
    else:
        known = options.known_releases()
        if release != "all":
            data = options.load(release)
            if options.version_key(data.asked) != options.version_key(data.version):
                raise InputError(f"the catalog has no release {data.asked}; the nearest is {data.version}")
            known = (data.version,)
        texts = dict(option_schemas.files(known))
    stale = []
    for name, text in texts.items():
        path = root / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not only_check:
                root.mkdir(parents=True, exist_ok=True)
                store(path, text)
    verb = "stale" if only_check else "written"
    output.write(f"{root}: {', '.join(stale)} {verb}" if stale else f"{root}: up to date")
    return int(only_check and bool(stale))
