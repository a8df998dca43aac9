"""What is wrong in a program of whichever step: names that nothing imports, options that take no list, comments."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping

from vllm_runbooks.catalog.languages import Phrase
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.edge10.scripts.compile_rules import Tables, hit, words_of
from vllm_runbooks.edge10.scripts.compiled import Compiled
from vllm_runbooks.edge10.scripts.events import Option
from vllm_runbooks.edge10.scripts.program import Program
from vllm_runbooks.edge10.scripts.readings import Job, Part
from vllm_runbooks.lint.hits import Hit

NAMES, _LIST, _TEXT = "edge10.name-not-imported", "edge10.list-option", "edge10.environment-not-text"
_COMMENT = "edge10.comment-reversed"
_ONE_ITEM = frozenset(f"builtins.{name}" for name in ("int", "float", "str", "list", "tuple", "bool"))
"""What makes of a word of the command line one item, or letters."""
_CONDITION = re.compile(
    r"(?P<lead>(?:\b(?:if|when|on|with|have|has|having|using|use|uses|for)\b|如果|若|使用|有|用|在)[^\n.;。；]{0,40}?)"
    r"(?<![\"'(=.:])(?P<word>gpus?|cuda)(?![a-z])",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"\b(?:no|not|without|lacks?|never|isn't|n't)\b|没有|没|无|非|不", re.IGNORECASE)
_CHANGE = re.compile(r"\b(?:change|changed|replace|replaced|use|set|switch|becomes?|make)\b|改|换|设", re.IGNORECASE)
_TO_CPU = re.compile(r"[\"'(]?\bcpu\b", re.IGNORECASE)
_CPU = re.compile(r"cpu", re.IGNORECASE)
_CUDA = re.compile(r"cuda|\bgpu", re.IGNORECASE)
_LINK = re.compile(r"\b(?:to|with|by|into)\b|为|成|->|\u2192", re.IGNORECASE)
_ENDS = re.compile(r"[;。；]|\.\s")
_MAX_COMMENT = 400


def find(part: Part, job: Job, tables: Tables) -> Iterator[Hit]:
    """What is wrong in a part that is a program of the toolchain's."""
    if part.program is None or part.text is None:
        return
    yield from _names(part, part.program, tables.get(NAMES, {}).get("names", {}))
    yield from _options(part, Compiled(part, part.program, job.facts))
    yield from _environment(part, part.program)
    yield from _comments(part)


def dotted(tables: Tables) -> dict[str, str]:
    """What names stand for that programs forget to import, by the statement that would import each."""
    found = {}
    for name, statement in tables.get(NAMES, {}).get("names", {}).items():
        match = re.fullmatch(r"(?:from (?P<module>[\w.]+) )?import (?P<what>[\w.]+)(?: as (?P<alias>\w+))?", statement)
        if match is not None:
            found[name] = f"{match['module']}.{match['what']}" if match["module"] else match["what"]
    return found


# Names


def _names(part: Part, program: Program, known: Mapping[str, str]) -> Iterator[Hit]:
    is_fragment = part.piece.is_part and not any(
        isinstance(node, (ast.Import, ast.ImportFrom)) for node in (part.text.tree.body if part.text else ())
    )
    for name, missing in program.missing.items():
        if is_fragment and name not in known:
            continue  # a page shows a piece of a program, and what stands before it elsewhere
        late, never = (Phrase("further down"), "") if missing.is_late else ("", Phrase("anywhere"))
        says = {"name": name, "late": late, "never": never, "import": known.get(name, "")}
        edits = () if missing.is_late or name not in known else _imported(part, missing.node, known[name])
        yield hit(part, NAMES, missing.node, says, edits)


def _imported(part: Part, used: ast.Name, statement: str) -> tuple[Replacement, ...]:
    """The statement, put behind the first imports of a program or in front of its first statement."""
    if part.text is None:
        return ()
    body = [node for node in part.text.tree.body if node.lineno <= used.lineno]
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:] or body  # what the program says of itself stays in front
    last: ast.stmt | None = None
    for node in body:
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            break
        last = node
    first = last or (body[0] if body else None)
    if first is None:
        return ()
    text, source = part.text, part.text.source
    start = text.span(first)[0]
    line = text.lines[first.lineno - 1]
    if source.text[line:start].strip():
        return ()  # it stands behind another one on the line
    file_start = source.at[start]
    lead = _lead(part, file_start)
    if last is None:
        return (Replacement(file_start, file_start, f"{statement}{_line_end(part.file, file_start)}{lead}"),)
    end = text.places(last)[1]
    return (Replacement(end, end, f"{_line_end(part.file, end)}{lead}{statement}"),)


def _line_end(file: str, offset: int) -> str:
    """How the line of a file ends that a place is on; of the last line, how its first one does."""
    at = file.find("\n", offset)
    at = file.find("\n") if at < 0 else at
    return "\r\n" if at > 0 and file[at - 1] == "\r" else "\n"


def _lead(part: Part, offset: int) -> str:
    """What stands in the file in front of a statement on its line: the indentation of a block in a page."""
    found = part.file[part.file.rfind("\n", 0, offset) + 1 : offset]
    return found if not found.strip(" \t>") else ""


# Options


def _options(part: Part, one: Compiled) -> Iterator[Hit]:
    """Options whose default is a list, and that take one word."""
    program = one.program
    for option in program.options:
        default = option.default
        if default is None or program.items(default) is None or not _takes_one(option, program):
            continue
        node = option.places.get("default", option.node)
        words = words_of(one, option) if option.maker == "argparse" else None
        how = _HOW[option.maker] if words is None else f"nargs={words}"
        says = {"option": option.flags[0], "type": _type(option), "how": how}
        edits: tuple[Replacement, ...] = ()
        # A type that splits a word into letters is replaced by no number of words.
        if part.text is not None and _type(option) not in ("list", "tuple"):
            start = part.text.places(node)[0]
            edits = (Replacement(start, start, f"{how}, "),)
        yield hit(part, _LIST, node, says, edits if node is not option.node else ())


_HOW = {"argparse": 'nargs="+"', "click": "multiple=True"}
"""What has an option take several words, or be given several times."""


def _takes_one(option: Option, program: Program) -> bool:
    given = option.keywords
    if "nargs" in given or ("action" in given and program.python(given["action"]) != "store"):
        return False
    if option.maker == "click" and "multiple" in given and program.python(given["multiple"]) is not False:
        return False
    kind = given.get("type")
    return kind is None or (kind.kind == "symbol" and kind.data in _ONE_ITEM)


def _type(option: Option) -> str:
    kind = option.keywords.get("type")
    return str(kind.data).removeprefix("builtins.") if kind is not None else "str"


# The environment


def _environment(part: Part, program: Program) -> Iterator[Hit]:
    """Variables that are given something else than a text, which is an error as soon as it runs."""
    for event in program.events:
        value = event.args[0] if event.kind == "environ" and event.args else None
        if value is None or value.kind != "plain" or isinstance(value.data, str) or value.options:
            continue
        edits: tuple[Replacement, ...] = ()
        if part.text is not None and isinstance(value.node, ast.Constant) and value.data is not None:
            start, end = part.text.places(value.node)
            edits = (Replacement(start, end, f'"{value.data}"'),)
        yield hit(part, _TEXT, event.node, {"name": event.name, "value": str(value.data)}, edits)


# Comments


def _comments(part: Part) -> Iterator[Hit]:
    """Comments that tell those who have a GPU to use the CPU."""
    source = part.piece.text
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source.text).readline))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return
    for token in tokens:
        if token.type != tokenize.COMMENT or part.text is None:
            continue
        text = token.string[:_MAX_COMMENT]
        word = _reversed(text)
        if word is None:
            continue
        start = part.text.lines[token.start[0] - 1] + token.start[1]
        begin, end = source.at[start], source.at[start + len(text) - 1] + 1
        edit = Replacement(source.at[start + word[0]], source.at[start + word[1] - 1] + 1, "CPU")
        yield Hit(_COMMENT, begin, end, {}, (edit,))


def _reversed(text: str) -> tuple[int, int] | None:
    """Where a comment names the GPU whose owners it tells to use the CPU; None: it does not."""
    condition = _CONDITION.search(text)
    if condition is None or _NEGATED.search(text, 0, condition.end()):
        return None
    if _CPU.search(text, 0, condition.start("word")):
        return None  # the first device that is named is the condition's; the GPU is what it is changed from
    rest = text[condition.end() :]
    change = _CHANGE.search(rest)
    target = None
    for match in _TO_CPU.finditer(rest):
        target = match
    if change is None or target is None or target.start() < change.start():
        return None
    between = rest[change.end() : target.start()]
    named = _CUDA.search(between)
    is_kept = named is not None and not _LINK.search(between, named.end())
    # What comes last is what it is changed to.
    if is_kept or _CUDA.search(rest, target.end()) or _NEGATED.search(rest[: target.start()]) or _ENDS.search(between):
        return None
    return condition.span("word")
