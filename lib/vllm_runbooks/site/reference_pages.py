"""The reference as pages of the site: what the package offers, by signature and docstring; every command, by click.

Both are read from the program itself, so that neither can fall behind it. Sphinx's autodoc would do the first, at the
price of its Python domain, which costs this site more seconds than all of these pages.
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
    """The pages of the package's public names, by file name: the package, and each of its public modules."""
    package = importlib.import_module(PACKAGE)
    modules = {name: value for name in _names(package) if isinstance(value := getattr(package, name), ModuleType)}
    rows = [(f"[{code(f'{PACKAGE}.{name}')}]({name}.md)", prose(_first(module))) for name, module in modules.items()]
    said = "The names that the package promises to keep, as the program itself describes them. All else may change."
    parts = [
        "# The library",
        said,
        _described(inspect.getdoc(package) or ""),
        "## Modules",
        table(["Module", "What it is for"], rows, "35 65"),
        "## Functions and errors",
        *_members({name: getattr(package, name) for name in _names(package) if name not in modules}, level=3),
        contents(modules),
    ]
    found = {"api/index.md": _joined(parts)}
    for name, module in modules.items():
        found[f"api/{name}.md"] = _joined(_module_page(f"{PACKAGE}.{name}", module))
    return found


def _module_page(name: str, module: ModuleType) -> Iterator[str]:
    yield f"# {code(name)}"
    yield _described(inspect.getdoc(module) or "")
    offered = {each: getattr(module, each) for each in _names(module)}
    yield from _members({k: v for k, v in offered.items() if not isinstance(v, ModuleType)}, level=2)
    for each, inner in offered.items():
        if isinstance(inner, ModuleType):
            yield f"## {code(f'{name}.{each}')}"
            yield _described(inspect.getdoc(inner) or "")
            yield from _members({n: getattr(inner, n) for n in _names(inner)}, level=3)


def _names(module: ModuleType) -> list[str]:
    """What a module offers: what it says so of, else its own functions and classes without underscore."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__)
    return sorted(name for name in own if not name.startswith("_"))


def _members(values: Mapping[str, Any], *, level: int) -> Iterator[str]:
    for name, value in values.items():
        yield f"{'#' * level} {code(name)}"
        yield f"```python\n{signature(name, value)}\n```"
        yield _described(inspect.getdoc(value) or "")


def signature(name: str, value: Any) -> str:
    """How a function is called or a class is made, in Python; in several lines where one is too long."""
    if isinstance(value, type) and issubclass(value, (Exception, Enum)):
        return f"class {name}({value.__mro__[1].__name__})"
    try:
        told = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    parts, kind = [], None
    for parameter in told.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and kind not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            parts.append("*")
        parts.append(_parameter(parameter))
        kind = parameter.kind
    lead = f"class {name}" if isinstance(value, type) else f"def {name}"
    ending = "" if isinstance(value, type) or told.return_annotation is told.empty else f" -> {told.return_annotation}"
    line = f"{lead}({', '.join(parts)}){ending}"
    if len(line) <= _COLUMNS:
        return line
    return f"{lead}(\n" + "".join(f"    {part},\n" for part in parts) + f"){ending}"


def _parameter(told: inspect.Parameter) -> str:
    stars = "*" if told.kind is told.VAR_POSITIONAL else "**" if told.kind is told.VAR_KEYWORD else ""
    kind = "" if told.annotation is told.empty else f": {told.annotation}"
    default = "" if told.default is told.empty else f"{' = ' if kind else '='}{_default(told.default)}"
    return f"{stars}{told.name}{kind}{default}"


def _default(value: Any) -> str:
    """A default as Python; what is no literal, as its name: it may have an address in memory."""
    shown = repr(value)
    return getattr(value, "__name__", "…") if shown.startswith("<") or " at 0x" in shown else shown


def _first(module: ModuleType) -> str:
    return (inspect.getdoc(module) or "").partition("\n\n")[0]


def _described(text: str) -> str:
    """A docstring as Markdown: paragraphs, its sections as lists, what is indented below `::` as Python."""
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
    """The entries of a section, each with the lines that are indented below it."""
    yield from (" ".join(entry.split()) for entry in re.split(r"\n(?=\S)", text))


def _entry(text: str) -> str:
    match = _ENTRY.fullmatch(text)
    return f"{code(match[1])} — {prose(match[2])}" if match else prose(text)


def _joined(parts: Any) -> str:
    return "\n\n".join(filter(None, parts)) + "\n"


# ---- the command line


def command_sources(group: click.Group | None) -> dict[str, str]:
    """The pages of the command line by file name, one a command; without a `group` a page that names the help."""
    if group is None:
        said = "This site was built without the command line at hand; `vllm-runbooks --help` lists every command."
        return {"commands/index.md": f"# Commands\n\n{said}\n"}
    import click

    root = click.Context(group, info_name="vllm-runbooks", max_content_width=100)
    names = group.list_commands(root)
    made = {name: group.get_command(root, name) for name in names}
    rows = [
        (f"[{code(f'vllm-runbooks {name}')}]({name}.md)", prose(command.get_short_help_str(200)))
        for name, command in made.items()
        if command is not None
    ]
    said = (
        "Every command with all of its options, as `--help` tells them. Exit status: 0 read and nothing wrong; 1 read, "
        "and something is wrong or could not be established; 2 the request could not be read: one line on standard "
        "error says why, and standard output stays empty."
    )
    pages = {
        "commands/index.md": _joined(
            ["# Commands", said, table(["Command", "What it does"], rows, "35 65"), contents(names)]
        )
    }
    for name, command in made.items():
        if command is not None:
            context = click.Context(command, info_name=name, parent=root)
            pages[f"commands/{name}.md"] = _joined(_command(command, context, level=1))
    return pages


def _command(command: click.Command, context: click.Context, *, level: int) -> Iterator[str]:
    """A command's section, and those of the commands below it."""
    mark = "#" * level
    yield f"{mark} {code(context.command_path)}"
    yield from (_help(part) for part in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")))
    usage = " ".join(command.collect_usage_pieces(context))
    yield literal(f"{context.command_path} {usage}")
    shown = inspect.cleandoc(command.epilog or "").replace("\b", "")
    if examples := [line.strip() for line in _EXAMPLES.sub("", shown).splitlines() if line.strip()]:
        yield "```console\n" + "\n".join(f"$ {line}" for line in examples) + "\n```"
    rows = [row for parameter in command.get_params(context) if (row := _option(parameter, context))]
    if rows:
        yield table(["Option", "What it does"], rows, "38 62")
    below = getattr(command, "commands", {})
    for name in sorted(below):
        yield from _command(below[name], type(context)(below[name], info_name=name, parent=context), level=level + 1)


def _help(paragraph: str) -> str:
    """A paragraph of help; one whose lines click leaves as they are is shown so."""
    if paragraph.startswith("\b"):
        return literal(paragraph.lstrip("\b\n"))
    return prose(paragraph)


def _option(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    told = parameter.get_help_record(context)
    if told is None or parameter.param_type_name != "option" or parameter.name == "help":
        return None
    return code(told[0]), prose(sentence(told[1]))
