"""What a shell offers while a command is typed: commands, options, and names that the catalog has.

The shell asks the program for every press of the key, so nothing here compiles the catalog or imports what a command
does: names are those of files, or lines of one. Where anything is wrong, nothing is offered and nothing is said.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import ClassVar

import click
from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

from vllm_runbooks.catalog import folders
from vllm_runbooks.core import evidence as evidence_records

VARIABLE = "_VLLM_RUNBOOKS_COMPLETE"
"""By which click is asked for completions."""
_GPU = re.compile(r"^ {0,4}- name: [\"']?([A-Za-z0-9][A-Za-z0-9._ -]{0,60}?)[\"']?\s*$", re.MULTILINE)
_COUNTED = re.compile(r"(.*,)?(\d{1,4}[xX])?", re.ASCII)
_VALUE = re.compile(r"--[\w-]{1,60}=", re.ASCII)
_MAX_READ = 1 << 20

_BASH = """\
%(complete_func)s() {
    local kind value help name IFS=$'\\n'
    COMPREPLY=()
    while IFS=$'\\t' read -r kind value help; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            file | dir)
                compopt -o filenames 2>/dev/null
                while read -r name; do
                    COMPREPLY+=("$name")
                done < <(compgen -"${kind:0:1}" -- "${COMP_WORDS[COMP_CWORD]}")
                ;;
        esac
    done < <(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete "$1" 2>/dev/null)
}

complete -F %(complete_func)s %(prog_name)s
"""
_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local kind value help
    local -a offered
    while IFS=$'\\t' read -r kind value help; do
        case $kind in
            plain) offered+=("${value//:/\\\\:}:$help") ;;
            file) _path_files -f ;;
            dir) _path_files -/ ;;
        esac
    done < <(COMP_WORDS="${(pj:\\n:)words}" COMP_CWORD=$((CURRENT - 1)) \\
        %(complete_var)s=zsh_complete "${words[1]}" 2>/dev/null)
    (( $#offered )) && _describe -V '%(prog_name)s' offered
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
_FISH = """\
function %(complete_func)s
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l joined (string join -- \\n $words $current | string collect)
    for line in (env COMP_WORDS=$joined COMP_CWORD=(count $words) %(complete_var)s=fish_complete $words[1] 2>/dev/null)
        set -l parts (string split -- \\t $line)
        switch $parts[1]
            case plain
                printf '%%s\\t%%s\\n' $parts[2] $parts[3]
            case file
                __fish_complete_path $current
            case dir
                __fish_complete_directories $current
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""The script of each shell. They read one form: a line for each thing offered, its kind, its value, what it is."""


class _Shell(ShellComplete):
    """What all shells have in common."""

    name: ClassVar[str] = "shell"
    _before = ""
    """What the shell takes for a part of the word, and is none of the value: an option and its sign."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words in front of the one that is completed, and that one."""
        words = [" ".join(split_arg_string(word)) for word in os.environ["COMP_WORDS"].split("\n")]
        at = int(os.environ["COMP_CWORD"])
        before, word = words[1:at], words[at] if at < len(words) else ""
        if self.name == "bash":  # it parts a word at each sign of equality, and completes what stands behind it
            return [word_before for word_before in before if word_before != "="], "" if word == "=" else word
        begun = _VALUE.match(word)
        self._before = begun[0] if begun else ""
        return before, word

    def format_completion(self, item: CompletionItem) -> str:
        """A line of what is offered."""
        return f"{item.type}\t{self._before}{item.value}\t{' '.join((item.help or '').split())}".rstrip()


def install() -> None:
    """Have click use these scripts and this form."""
    for name, script in SCRIPTS.items():
        add_completion_class(type(f"_{name}", (_Shell,), {"name": name, "source_template": script}), name)


def script(shell: str, commands: click.Command) -> str:
    """What makes a shell ask this program."""
    made = type(f"_{shell}", (_Shell,), {"name": shell, "source_template": SCRIPTS[shell]})
    return str(made(commands, {}, "vllm-runbooks", VARIABLE).source())


Names = Callable[[], Iterable[str]]


def cases(kind: str = "*") -> list[str]:
    """Ids of recorded cases that hold a file of such a name."""
    return sorted({path.parent.name for path in folders.cases_dir().glob(f"*/{kind}")})


def logs() -> list[str]:
    return cases("*.log")


def snapshots() -> list[str]:
    return cases(evidence_records.SNAPSHOT)


def servers() -> list[str]:
    return cases(evidence_records.OBSERVATION)


def nodes() -> list[str]:
    return cases(evidence_records.NODES)


def runbooks() -> list[str]:
    return sorted(path.stem for path in folders.runbooks_dir(None).glob("*.ipynb"))


def runbooks_and_cases() -> list[str]:
    return [*runbooks(), *cases("case.yaml")]


def symptoms() -> list[str]:
    return sorted(path.stem for path in (folders.catalog_dir() / "symptoms").glob("*.yaml"))


def classes() -> list[str]:
    """Classes of root causes, and what stands for none."""
    return [*dict.fromkeys(".".join(name.split(".")[:2]) for name in symptoms()), "ok"]


def policies() -> list[str]:
    return sorted(path.stem for path in (folders.catalog_dir() / "policies").glob("*.yaml"))


def models() -> list[str]:
    root = folders.catalog_dir() / "models"
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.glob("*/*.yaml"))


def releases() -> list[str]:
    """Known releases, the newest first."""
    versions = [path.stem for path in (folders.catalog_dir() / "releases").glob("*.json")]
    versions = [name for name in versions if re.fullmatch(r"\d{1,4}(?:\.\d{1,4}){1,3}", name, re.ASCII)]
    return sorted(versions, key=lambda name: [int(part) for part in name.split(".")], reverse=True)


def engine_options(incomplete: str) -> list[CompletionItem]:
    """Options of the newest release's engine that begin as typed; those that turn one off only behind `--no-`."""
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
    """Names of cards, as their file lists them."""
    with (folders.catalog_dir() / "gpus.yaml").open(encoding="utf-8") as file:
        return [name.replace(" ", "-") for name in _GPU.findall(file.read(_MAX_READ))]


class CompletedName(click.ParamType[str]):
    """A word that is one of some names, or a file where files are offered as well; any other is taken, too."""

    name = "text"

    def __init__(self, names: Names, *, is_file: bool = False) -> None:
        self._names, self._is_file = names, is_file

    def shell_complete(self, _context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names that begin so, and files."""
        items: list[CompletionItem] = []
        with suppress(Exception):
            items = [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]
        return [*items, *([CompletionItem(incomplete, type="file")] if self._is_file else [])]


class GpuNames(CompletedName):
    """Names of cards behind a number and behind commas, as in `8xRTX3090` and `A100-80GB@node1,A100-80GB@node2`."""

    def __init__(self) -> None:
        super().__init__(gpus, is_file=True)

    def shell_complete(self, _context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names of cards that begin so, whatever the case of their letters, snapshots, and files."""
        begun = _COUNTED.match(incomplete)
        before = begun[0] if begun else ""
        typed = incomplete[len(before) :].casefold()
        items: list[CompletionItem] = []
        with suppress(Exception):
            named = gpus() if before else [*gpus(), *snapshots(), "local"]
            items = [CompletionItem(f"{before}{name}") for name in named if name.casefold().startswith(typed)]
        return [*items, CompletionItem(incomplete, type="file")]


def _files() -> list[str]:
    return []


LOG = CompletedName(logs, is_file=True)
SCRIPT = CompletedName(_files, is_file=True)
SNAPSHOT = CompletedName(snapshots, is_file=True)
SERVER = CompletedName(servers, is_file=True)
NODES = CompletedName(nodes, is_file=True)
RUNBOOK = CompletedName(runbooks, is_file=True)
RUNBOOK_OR_CASE = CompletedName(runbooks_and_cases)
RELEASE = CompletedName(releases)
MODEL = CompletedName(models, is_file=True)
SYMPTOM = CompletedName(symptoms)
CLASS = CompletedName(classes)
POLICY = CompletedName(policies)
LANGUAGE = CompletedName(languages)
CARDS = GpuNames()


def is_asked() -> bool:
    """Whether a shell asks for completions."""
    return bool(os.environ.get(VARIABLE))
