"""Check programs of any step: names that nothing imports, options that accept no list, variables, comments."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping

from vllm_runbooks.catalog.languages import Phrase
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.edge10.scripts.compile_rules import Tables, words_of
from vllm_runbooks.edge10.scripts.compiled import CompileSettings
from vllm_runbooks.edge10.scripts.program import ScriptProgram
from vllm_runbooks.edge10.scripts.readings import FilePart, ScriptSet
from vllm_runbooks.edge10.scripts.values import ScriptOption
from vllm_runbooks.lint.hits import Hit

_NAMES = "edge10.name-not-imported"
_STATEMENT = re.compile(r"(?:from (?P<module>[\w.]+) )?import (?P<name>[\w.]+)(?: as (?P<alias>\w+))?")
_ONE_WORD = frozenset(f"builtins.{name}" for name in ("int", "float", "str", "list", "tuple", "bool"))
"""Types that make one item, or letters, of a word of the command line."""
_GPU_TO_CPU = re.compile(
    r"(?:\b(?:if|when|on|with|have|has|having|using|use|uses|for)\b|如果|若|使用|有|用|在)[^\n.;。；]{0,40}?"
    r"(?<![\"'(=.:])(?P<word>gpus?|cuda)(?![a-z])(?P<rest>[^\n;。；]{0,200}?"
    r"(?:\b(?:change|changed|replace|replaced|use|set|switch|becomes?|make)\b|改|换|设)[^\n;。；]{0,60}[\"'(]?\bcpu\b)"
    r"(?P<after>.{0,200})",
    re.IGNORECASE,
)
"""Comment that tells those who have a GPU to use the CPU."""
_NEGATED = re.compile(r"\b(?:no|not|without|lacks?|never|isn't|n't)\b|没有|没|无|非|不|cpu", re.IGNORECASE)
_KEPT = re.compile(r"\b(?:cuda|gpus?)\b", re.IGNORECASE)
_MAX_COMMENT = 400


def find(part: FilePart, scripts: ScriptSet, tables: Tables) -> Iterator[Hit]:
    if part.program is not None:
        yield from _find_unbound(part, part.program, tables.get(_NAMES, {}).get("names", {}))
        yield from _find_list_options(CompileSettings(part, part.program, scripts.facts))
        yield from _find_comments(part, part.program)


def known_imports(tables: Tables) -> dict[str, str]:
    """Dotted names of what programs forget to import, by name."""
    imports = {}
    for name, statement in tables.get(_NAMES, {}).get("names", {}).items():
        match = _STATEMENT.fullmatch(statement)
        if match is not None:
            imports[name] = f"{match['module']}.{match['name']}" if match["module"] else match["name"]
    return imports


def _find_unbound(part: FilePart, program: ScriptProgram, statements: Mapping[str, str]) -> Iterator[Hit]:
    for name, node in program.unbound.items():
        message = {"name": name, "late": "", "never": Phrase("anywhere"), "import": statements[name]}
        yield part.hit(_NAMES, node, message, _import_edit(part, program, node, statements[name]))


def _import_edit(part: FilePart, program: ScriptProgram, use: ast.Name, statement: str) -> tuple[Replacement, ...]:
    """Edit that adds an import behind the first ones, or before the first statement."""
    body = [node for node in program.text.tree.body if node.lineno <= use.lineno]
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:] or body  # the docstring stays first
    imports = []
    for node in body:
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            break
        imports.append(node)
    if not body:
        return ()
    anchor = imports[-1] if imports else body[0]
    start, source = program.text.span(anchor)[0], program.text.source
    if source.text[program.text.lines[anchor.lineno - 1] : start].strip():
        return ()  # it follows another statement on its line
    at = source.at[start]
    lead = part.file[part.file.rfind("\n", 0, at) + 1 : at]
    lead = "" if lead.strip(" \t>") else lead
    if not imports:
        return (Replacement(at, at, f"{statement}{_line_end(part.file, at)}{lead}"),)
    end = program.text.places(anchor)[1]
    return (Replacement(end, end, f"{_line_end(part.file, end)}{lead}{statement}"),)


def _line_end(file: str, offset: int) -> str:
    at = file.find("\n", offset)
    at = file.find("\n") if at < 0 else at
    return "\r\n" if at > 0 and file[at - 1] == "\r" else "\n"


def _find_list_options(settings: CompileSettings) -> Iterator[Hit]:
    """Options whose default is a list, and that accept one word."""
    program = settings.program
    for option in program.options:
        if program.items(option.default) is None or not _accepts_one_word(option, program):
            continue
        node = option.keyword_node("default")
        words = words_of(settings, option)
        nargs = 'nargs="+"' if words is None else f"nargs={words}"
        kind = option.keywords.get("type")
        name = str(kind.data).removeprefix("builtins.") if kind is not None else "str"
        edits: tuple[Replacement, ...] = ()
        # A type that splits a word into letters is replaced by no number of words.
        if name not in ("list", "tuple") and node is not option.node:
            start = program.text.places(node)[0]
            edits = (Replacement(start, start, f"{nargs}, "),)
        message = {"option": option.flags[0], "type": name, "how": nargs}
        yield settings.part.hit("edge10.list-option", node, message, edits)


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
