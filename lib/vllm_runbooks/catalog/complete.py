"""Shell completion: commands, options, and names in the catalog.

The shell calls the program for every key press, so this module compiles no catalog and imports no
command: names are those of files, or lines of one. On any error there are no completions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

import click
from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

from vllm_runbooks.catalog import folders
from vllm_runbooks.core import files

VARIABLE = "_VLLM_RUNBOOKS_COMPLETE"
"""Variable by which click requests completions."""
_GPU = re.compile(r"^ {0,4}- name: [\"']?([A-Za-z0-9][A-Za-z0-9._ -]{0,60}?)[\"']?\s*$", re.MULTILINE)
_COUNTED = re.compile(r"(.*,)?(\d{1,4}[xX])?", re.ASCII)
_VALUE = re.compile(r"--[\w-]{1,60}=", re.ASCII)
_MAX_READ = 1 << 20


class _Shell(ShellComplete):
    name: ClassVar[str] = "shell"
    _before = ""
    """Part of the completed word that is not part of the value: an option and its sign."""

    def get_completion_args(self) -> tuple[list[str], str]:
        words = [" ".join(split_arg_string(word)) for word in os.environ["COMP_WORDS"].split("\n")]
        at = int(os.environ["COMP_CWORD"])
        before, word = words[1:at], words[at] if at < len(words) else ""
        if self.name == "bash":  # it splits words at `=`, and completes the part after it
            return [word_before for word_before in before if word_before != "="], "" if word == "=" else word
        begun = _VALUE.match(word)
        self._before = begun[0] if begun else ""
        return before, word

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type}\t{self._before}{item.value}\t{' '.join((item.help or '').split())}".rstrip()


SCRIPTS = ("bash", "zsh", "fish")


def _shell_class(shell: str) -> type[_Shell]:
    """Completion for a shell, by its script: it reads a line for each item, with its type, value and help."""
    script = Path(__file__).with_name("completion").joinpath(f"{shell}.txt").read_text(encoding="utf-8")
    return type(f"_{shell}", (_Shell,), {"name": shell, "source_template": script})


def install() -> None:
    """Have click use these scripts and this form."""
    for shell in SCRIPTS:
        add_completion_class(_shell_class(shell), shell)


def script(shell: str, commands: click.Command) -> str:
    """Shell script that makes a shell call this program for completions."""
    return str(_shell_class(shell)(commands, {}, "vllm-runbooks", VARIABLE).source())


Names = Callable[[], Iterable[str]]


def cases(kind: str = "*") -> list[str]:
    """Ids of recorded cases that have a file of this name."""
    return sorted({path.parent.name for path in folders.cases_dir().glob(f"*/{kind}")})


logs = partial(cases, "*.log")
snapshots = partial(cases, files.SNAPSHOT)
servers = partial(cases, files.OBSERVATION)
nodes = partial(cases, files.NODES)


def runbooks() -> list[str]:
    return sorted(path.stem for path in folders.runbooks_dir(None).glob("*.ipynb"))


def symptoms() -> list[str]:
    return sorted(path.stem for path in (folders.catalog_dir() / "symptoms").glob("*.yaml"))


def classes() -> list[str]:
    """Classes of root causes, and "ok" for none."""
    return [*dict.fromkeys(".".join(name.split(".")[:2]) for name in symptoms()), "ok"]


def policies() -> list[str]:
    return sorted(path.stem for path in (folders.catalog_dir() / "policies").glob("*.yaml"))


def models() -> list[str]:
    root = folders.catalog_dir() / "models"
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.glob("*/*.yaml"))


def releases() -> list[str]:
    versions = [path.stem for path in (folders.catalog_dir() / "releases").glob("*.json")]
    versions = [name for name in versions if re.fullmatch(r"\d{1,4}(?:\.\d{1,4}){1,3}", name, re.ASCII)]
    return sorted(versions, key=lambda name: [int(part) for part in name.split(".")], reverse=True)


def engine_options(incomplete: str) -> list[CompletionItem]:
    """Options of the newest release that begin as typed; negations only after `--no-`."""
    if not incomplete.startswith("--"):
        return []
    from vllm_runbooks.catalog import options

    with suppress(Exception):
        engine = options.load("latest").by_dest.values()
        names = sorted({name for option in engine for name in option.strings if name.startswith(incomplete)})
        return [CompletionItem(n) for n in names if incomplete.startswith("--no-") or not n.startswith("--no-")]
    return []


def languages() -> list[str]:
    from vllm_runbooks.catalog.languages import ENGLISH, LANGUAGES

    return [ENGLISH, *LANGUAGES]


def gpus() -> list[str]:
    with (folders.catalog_dir() / "gpus.yaml").open(encoding="utf-8") as file:
        return [name.replace(" ", "-") for name in _GPU.findall(file.read(_MAX_READ))]


class CompletedName(click.ParamType[str]):
    """A name or a file that completes; any other word is accepted, too."""

    name = "text"

    def __init__(self, names: Names, *, is_file: bool = False) -> None:
        self._names, self._is_file = names, is_file

    def shell_complete(self, _context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        items: list[CompletionItem] = []
        with suppress(Exception):
            items = [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]
        return [*items, *([CompletionItem(incomplete, type="file")] if self._is_file else [])]


class GpuNames(CompletedName):
    def __init__(self) -> None:
        super().__init__(gpus, is_file=True)

    def shell_complete(self, _context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        begun = _COUNTED.match(incomplete)
        before = begun[0] if begun else ""
        typed = incomplete[len(before) :].casefold()
        items: list[CompletionItem] = []
        with suppress(Exception):
            named = gpus() if before else [*gpus(), *snapshots(), "local"]
            items = [CompletionItem(f"{before}{name}") for name in named if name.casefold().startswith(typed)]
        return [*items, CompletionItem(incomplete, type="file")]


LOG = CompletedName(logs, is_file=True)
SCRIPT = CompletedName(list, is_file=True)
SNAPSHOT = CompletedName(snapshots, is_file=True)
SERVER = CompletedName(servers, is_file=True)
NODES = CompletedName(nodes, is_file=True)
RUNBOOK = CompletedName(runbooks, is_file=True)
RUNBOOK_OR_CASE = CompletedName(lambda: [*runbooks(), *cases("case.yaml")])
RELEASE = CompletedName(releases)
MODEL = CompletedName(models, is_file=True)
SYMPTOM = CompletedName(symptoms)
CLASS = CompletedName(classes)
POLICY = CompletedName(policies)
LANGUAGE = CompletedName(languages)
CARDS = GpuNames()


def is_asked() -> bool:
    return bool(os.environ.get(VARIABLE))
