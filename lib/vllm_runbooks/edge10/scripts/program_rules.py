"""Check programs of any step: names that nothing imports, options that accept no list, variables, comments."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Mapping

from vllm_runbooks.catalog.languages import Phrase
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.edge10.scripts.compile_rules import Tables
from vllm_runbooks.edge10.scripts.program import ScriptProgram
from vllm_runbooks.edge10.scripts.readings import FilePart, ScriptSet
from vllm_runbooks.edge10.scripts.values import ScriptOption
from vllm_runbooks.lint.hits import Hit

_NAMES = "edge10.name-not-imported"
_STATEMENT = re.compile(r"(?:from (?P<module>[\w.]+) )?import (?P<name>[\w.]+)(?: as (?P<alias>\w+))?")
_ONE_WORD = frozenset(f"builtins.{name}" for name in ("int", "float", "str", "list", "tuple", "bool"))
"""Types that convert a word of the command line to one item, or to letters."""
_GPU_TO_CPU = re.compile(
    r"(?:\b(?:if|when|on|with|have|has|having|using|use|uses|for)\b|如果|若|使用|有|用|在)[^\n.;。；]{0,40}?"
    r"(?<![\"'(=.:])(?P<word>gpus?|cuda)(?![a-z])(?P<rest>[^\n;。；]{0,200}?"
    r"(?:\b(?:change|changed|replace|replaced|use|set|switch|becomes?|make)\b|改|换|设)[^\n;。；]{0,60}[\"'(]?\bcpu\b)"
    r"(?P<after>.{0,200})",
    re.IGNORECASE,
)
"""Comment that recommends the CPU to users with a GPU."""
_NEGATED = re.compile(r"\b(?:no|not|without|lacks?|never|isn't|n't)\b|没有|没|无|非|不|cpu", re.IGNORECASE)
_KEPT = re.compile(r"\b(?:cuda|gpus?)\b", re.IGNORECASE)
_MAX_COMMENT = 400


def find(part: FilePart, scripts: ScriptSet, tables: Tables) -> Iterator[Hit]:
    if part.program is not None:
        yield from _find_unbound(part, part.program, tables.get(_NAMES, {}).get("names", {}))
        yield from _find_list_options(part, part.program, scripts.facts.limits.remap_entries)
        yield from _find_comments(part, part.program)


def known_imports(tables: Tables) -> dict[str, str]:
    """Dotted names of frequently forgotten imports, by name."""
    imports = {}
    for name, statement in tables.get(_NAMES, {}).get("names", {}).items():
        match = _STATEMENT.fullmatch(statement)
        if match is not None:
            imports[name] = f"{match['module']}.{match['name']}" if match["module"] else match["name"]
    return imports


def _find_unbound(part: FilePart, program: ScriptProgram, statements: Mapping[str, str]) -> Iterator[Hit]:
    for name, node in program.unbound.items():
        message = {"name": name, "late": "", "never": Phrase("anywhere"), "import": statements[name]}
        yield part.hit(_NAMES, node, message)


def _find_list_options(part: FilePart, program: ScriptProgram, needed: int) -> Iterator[Hit]:
    """Options with a list as default that accept a single word."""
    for option in program.options:
        if program.items(option.default) is None or not _accepts_one_word(option, program):
            continue
        nargs = f"nargs={needed}" if "remap" in option.name.lower() else 'nargs="+"'
        kind = option.keywords.get("type")
        name = str(kind.data).removeprefix("builtins.") if kind is not None else "str"
        message = {"option": option.flags[0], "type": name, "how": nargs}
        yield part.hit("edge10.list-option", option.keyword_node("default"), message)


def _accepts_one_word(option: ScriptOption, program: ScriptProgram) -> bool:
    keywords = option.keywords
    if "nargs" in keywords or ("action" in keywords and program.python(keywords["action"]) != "store"):
        return False
    kind = keywords.get("type")
    return kind is None or (kind.kind == "symbol" and kind.data in _ONE_WORD)


def _find_comments(part: FilePart, program: ScriptProgram) -> Iterator[Hit]:
    source = part.piece.text
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source.text).readline))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return
    for token in tokens:
        text = token.string[:_MAX_COMMENT]
        match = _GPU_TO_CPU.search(text) if token.type == tokenize.COMMENT else None
        if match is None or _NEGATED.search(text, 0, match.end("word")) or _KEPT.search(match["after"]):
            continue
        at = source.at[program.text.lines[token.start[0] - 1] + token.start[1] :]
        edit = Replacement(at[match.start("word")], at[match.end("word") - 1] + 1, "CPU")
        yield Hit("edge10.comment-reversed", at[0], at[len(text) - 1] + 1, {}, (edit,))
