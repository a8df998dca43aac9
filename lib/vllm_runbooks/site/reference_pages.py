"""Reference pages: the package by signature and docstring, and every command, by click.

Both are read from the program itself, so they stay current. Sphinx's autodoc needs its Python domain, which takes
longer to load than all of these pages take to build.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from types import ModuleType
from typing import TYPE_CHECKING, Any

from vllm_runbooks.site.myst import code, contents, listed, literal, prose, sentence, table

if TYPE_CHECKING:
    import click

PACKAGE = "vllm_runbooks"
_SECTION = re.compile(r"(Args|Returns|Yields|Raises|Attributes):")
_ENTRY = re.compile(r"\*{0,2}(\w[\w.]{0,80}): (.*)", re.DOTALL)
_COLUMNS = 96
_EXAMPLES = re.compile(r"^Examples?:$", re.MULTILINE)


# ---- the package


def api_sources() -> dict[str, str]:
    """Pages of the package's public names by file name: the package, and each of its public modules."""
    package = importlib.import_module(PACKAGE)
    modules = {name: value for name in _names(package) if isinstance(value := getattr(package, name), ModuleType)}
    rows = [(f"[{code(f'{PACKAGE}.{name}')}]({name}.md)", prose(_first(module))) for name, module in modules.items()]
    intro = "The names that the package promises to keep, as the program itself describes them. All else may change."
    parts = [
        "# The library",
        intro,
        _described(inspect.getdoc(package) or ""),
        "## Modules",
        table(["Module", "What it is for"], rows, "35 65"),
        "## Functions and errors",
        *_members({name: getattr(package, name) for name in _names(package) if name not in modules}, level=3),
        contents(modules),
    ]
    pages = {"api/index.md": _joined(parts)}
    for name, module in modules.items():
        pages[f"api/{name}.md"] = _joined(_module_page(f"{PACKAGE}.{name}", module))
    return pages


def _module_page(name: str, module: ModuleType) -> Iterator[str]:
    yield f"# {code(name)}"
    yield _described(inspect.getdoc(module) or "")
    offered = {member_name: getattr(module, member_name) for member_name in _names(module)}
    yield from _members({k: v for k, v in offered.items() if not isinstance(v, ModuleType)}, level=2)
    for member_name, inner in offered.items():
        if isinstance(inner, ModuleType):
            yield f"## {code(f'{name}.{member_name}')}"
            yield _described(inspect.getdoc(inner) or "")
            yield from _members({n: getattr(inner, n) for n in _names(inner)}, level=3)


def _names(module: ModuleType) -> list[str]:
    """Names that a module offers: its `__all__`, else its own functions and classes without underscore."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    names = (name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__)
    return sorted(name for name in names if not name.startswith("_"))


def _members(values: Mapping[str, Any], *, level: int) -> Iterator[str]:
    for name, value in values.items():
        yield f"{'#' * level} {code(name)}"
        yield f"```python\n{signature(name, value)}\n```"
        yield _described(inspect.getdoc(value) or "")


def signature(name: str, value: Any) -> str:
    """A function's or class's signature in Python, over several lines if it is long."""
    if isinstance(value, type) and issubclass(value, (Exception, Enum)):
        return f"class {name}({value.__mro__[1].__name__})"
    try:
        parsed = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    parts, kind = [], None
    for parameter in parsed.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and kind not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            parts.append("*")
        parts.append(_parameter(parameter))
        kind = parameter.kind
    lead = f"class {name}" if isinstance(value, type) else f"def {name}"
    ending = (
        "" if isinstance(value, type) or parsed.return_annotation is parsed.empty else f" -> {parsed.return_annotation}"
    )
    line = f"{lead}({', '.join(parts)}){ending}"
    if len(line) <= _COLUMNS:
        return line
    return f"{lead}(\n" + "".join(f"    {part},\n" for part in parts) + f"){ending}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = (
        "*" if parameter.kind is parameter.VAR_POSITIONAL else "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    )
    kind = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
    default = "" if parameter.default is parameter.empty else f"{' = ' if kind else '='}{_default(parameter.default)}"
    return f"{stars}{parameter.name}{kind}{default}"


def _default(value: Any) -> str:
    """A default as Python; if it is no literal, its name, as it may have an address in memory."""
    text = repr(value)
    return getattr(value, "__name__", "…") if text.startswith("<") or " at 0x" in text else text


def _first(module: ModuleType) -> str:
    return (inspect.getdoc(module) or "").partition("\n\n")[0]


def _described(text: str) -> str:
    """A docstring as Markdown: paragraphs, sections as lists, indented text below `::` as Python."""
    return "\n\n".join(_paragraphs(text))


def _paragraphs(text: str) -> Iterator[str]:
    is_code = False
    for block in re.split(r"\n\s*\n", text):
        if is_code and block.startswith(" "):
            yield f"```python\n{textwrap.dedent(block)}\n```"
            continue
        is_code = block.rstrip().endswith("::")
        head, _, rest = block.partition("\n")
        if _SECTION.fullmatch(head.strip()) and rest:
            yield f"**{head.strip().removesuffix(':')}**"
            yield listed(_entry(entry) for entry in _entries(textwrap.dedent(rest)))
        else:
            yield prose(re.sub(r"::\s*$", ":", block))


def _entries(text: str) -> Iterator[str]:
    """Entries of a section, each with the lines indented below it."""
    yield from (" ".join(entry.split()) for entry in re.split(r"\n(?=\S)", text))


def _entry(text: str) -> str:
    match = _ENTRY.fullmatch(text)
    return f"{code(match[1])} — {prose(match[2])}" if match else prose(text)


def _joined(parts: Any) -> str:
    return "\n\n".join(filter(None, parts)) + "\n"


# ---- the command line


def command_sources(group: click.Group | None) -> dict[str, str]:
    """Pages of the command line by file name, one per command; without a `group` one page that refers to the help."""
    if group is None:
        intro = "This site was built without the command line at hand; `vllm-runbooks --help` lists every command."
        return {"commands/index.md": f"# Commands\n\n{intro}\n"}
    import click

    root = click.Context(group, info_name="vllm-runbooks", max_content_width=100)
    names = group.list_commands(root)
    made = {name: group.get_command(root, name) for name in names}
    rows = [
        (f"[{code(f'vllm-runbooks {name}')}]({name}.md)", prose(command.get_short_help_str(200)))
        for name, command in made.items()
        if command is not None
    ]
    intro = (
        "All commands and options, as in `--help`. Exit status: 0 if there is no "
        "problem; 1 if there is one, or if a result is unknown; 2 for invalid input: one line on standard "
        "error states the reason, and standard output is empty."
    )
    pages = {
        "commands/index.md": _joined(
            ["# Commands", intro, table(["Command", "What it does"], rows, "35 65"), contents(names)]
        )
    }
    for name, command in made.items():
        if command is not None:
            context = click.Context(command, info_name=name, parent=root)
            pages[f"commands/{name}.md"] = _joined(_command(command, context, level=1))
    return pages


def _command(command: click.Command, context: click.Context, *, level: int) -> Iterator[str]:
    """Section of a command, and of its subcommands."""
    mark = "#" * level
    yield f"{mark} {code(context.command_path)}"
    yield from (_help(part) for part in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")))
    usage = " ".join(command.collect_usage_pieces(context))
    yield literal(f"{context.command_path} {usage}")
    epilog = inspect.cleandoc(command.epilog or "").replace("\b", "")
    if examples := [line.strip() for line in _EXAMPLES.sub("", epilog).splitlines() if line.strip()]:
        yield "```console\n" + "\n".join(f"$ {line}" for line in examples) + "\n```"
    rows = [row for parameter in command.get_params(context) if (row := _option(parameter, context))]
    if rows:
        yield table(["Option", "What it does"], rows, "38 62")
    below = getattr(command, "commands", {})
    for name in sorted(below):
        yield from _command(below[name], type(context)(below[name], info_name=name, parent=context), level=level + 1)


def _help(paragraph: str) -> str:
    """A paragraph of help; one that click does not rewrap keeps its lines."""
    if paragraph.startswith("\b"):
        return literal(paragraph.lstrip("\b\n"))
    return prose(paragraph)


def _option(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    record = parameter.get_help_record(context)
    if record is None or parameter.param_type_name != "option" or parameter.name == "help":
        return None
    return code(record[0]), prose(sentence(record[1]))
