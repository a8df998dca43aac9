"""Bash grammar: a script as a tree of commands and words with offsets, up to bash's first error.

Nothing is evaluated. Parsing is linear in the text, and nesting is limited to `MOST_NESTED` levels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from vllm_runbooks.core.excerpt import Excerpt

MOST_NESTED = 40
"""Levels of brackets, quotes and compound commands in each other that are followed."""
MOST_WORDS = 150_000
MOST_COMMANDS = 30_000
_MOST_JOINED = 256  # characters before a continued line end to which the next line is joined
_MOST_RESUMED = 200  # faults after which reading resumes on the next line


class SyntaxFault(Exception):  # noqa: N818 - what bash calls an error of syntax is an ordinary answer here
    """A syntax error of bash: `kind`, start and end index, and details."""

    def __init__(self, kind: str, start: int, end: int, **says: str) -> None:
        super().__init__(kind)
        self.kind, self.start, self.end, self.says = kind, start, end, says


class Literal(NamedTuple):
    """Literal characters; quoted ones are neither split nor expanded."""

    text: str
    at: Sequence[int]
    quoted: bool


class ParameterNode(NamedTuple):
    """A parameter, `$name` or `${name…}`.

    `operator` is the text after the name, `arguments` the words after it.
    """

    name: str
    quoted: bool
    start: int
    end: int
    subscript: tuple[Part, ...] | None = None
    operator: str = ""
    arguments: tuple[tuple[Part, ...], ...] = ()
    is_length: bool = False
    is_indirect: bool = False
    is_beside_list: bool = False
    """Whether a list, `$@`, is in the same quotes: if both are empty, there is no argument."""


class Substitution(NamedTuple):
    """Output of commands, `$(…)` or backticks; or a file with it, `<(…)` (`is_file`)."""

    script: tuple[Item, ...]
    quoted: bool
    start: int
    end: int
    is_file: bool = False


class Arithmetic(NamedTuple):
    """`$((…))`."""

    parts: tuple[Part, ...]
    quoted: bool
    start: int
    end: int


Part = Literal | ParameterNode | Substitution | Arithmetic
Parts = tuple[Part, ...]


class WordNode(NamedTuple):
    """One word as written."""

    parts: Parts
    start: int
    end: int
    raw: str


class Element(NamedTuple):
    """A word of a list in brackets, `(a b [key]=c)`; `subscript` is the key."""

    subscript: Parts | None
    word: WordNode


class AssignmentNode(NamedTuple):
    """`NAME=value`, `NAME+=value`, `NAME[i]=value` or `NAME=(…)`."""

    name: str
    subscript: Parts | None
    is_appended: bool
    value: WordNode
    elements: tuple[Element, ...] | None
    start: int
    end: int


class Redirection(NamedTuple):
    """`2>file`; a here-document has its body instead of a file."""

    operator: str
    target: WordNode
    body: Callable[[], Excerpt | None]
    """Called after the script is read, because the body is below the line."""
    is_literal: bool
    descriptor: str
    """The number before the sign; empty: standard input or output."""


class Simple(NamedTuple):
    """Assignments, words and redirections.

    A word of `declare` or similar may be an assignment as well.
    """

    assignments: tuple[AssignmentNode, ...]
    words: tuple[WordNode | AssignmentNode, ...]
    redirections: tuple[Redirection, ...]
    start: int
    end: int


class GroupNode(NamedTuple):
    """`{ …; }` or `( … )`."""

    items: tuple[Item, ...]
    is_subshell: bool


class If(NamedTuple):
    """Conditions, each with its commands; `otherwise` is the `else`."""

    clauses: tuple[tuple[tuple[Item, ...], tuple[Item, ...]], ...]
    otherwise: tuple[Item, ...]


class While(NamedTuple):
    """`while` or `until`."""

    condition: tuple[Item, ...]
    body: tuple[Item, ...]
    is_until: bool


class For(NamedTuple):
    """`for name in words` or `select`; words are None for the positional parameters."""

    name: str
    words: tuple[WordNode, ...] | None
    body: tuple[Item, ...]
    is_select: bool


class ForArithmetic(NamedTuple):
    """`for ((begin; test; step))`."""

    steps: tuple[Parts, Parts, Parts]
    body: tuple[Item, ...]


class CaseNode(NamedTuple):
    """`case word in`: patterns, commands and the end of each branch (`;;`, `;&`, `;;&`)."""

    word: WordNode
    branches: tuple[tuple[tuple[WordNode, ...], tuple[Item, ...], str], ...]


class FunctionNode(NamedTuple):
    """The definition of a function."""

    name: str
    body: Command


class Calculation(NamedTuple):
    parts: Parts


class ConditionNode(NamedTuple):
    """`[[ … ]]`: an operator with operands that are conditions or words."""

    operator: str
    operands: tuple[ConditionNode | WordNode, ...]


class Redirected(NamedTuple):
    """A compound command with the redirections after it."""

    command: Command
    redirections: tuple[Redirection, ...]


Command = (
    Simple
    | GroupNode
    | If
    | While
    | For
    | ForArithmetic
    | CaseNode
    | FunctionNode
    | Calculation
    | ConditionNode
    | Redirected
)


class Pipeline(NamedTuple):
    """Commands joined by `|`."""

    commands: tuple[Command, ...]
    is_negated: bool


class Item(NamedTuple):
    """Pipelines joined by `&&` and `||`, with the operator before each (none before the first)."""

    pipelines: tuple[tuple[str, Pipeline], ...]
    is_background: bool
    start: int
    end: int


class Syntax(NamedTuple):
    """A script up to bash's first error, the rest, and its lines, as indexes of the text."""

    lines: tuple[tuple[Item, ...], ...]
    """Lines that bash reads before it stops, in the pieces in which it reads and runs them."""
    rest: tuple[tuple[Item, ...], ...]
    """Readable lines after the first error, which bash never reaches."""
    faults: tuple[SyntaxFault, ...]
    commands: tuple[Simple, ...]
    """Every simple command of the text itself, in order. Their places, as all places of nodes, are of the file."""
    fresh_lines: tuple[int, ...]
    """Beginnings of the lines on which a command may begin."""
    continuations: tuple[int, ...]
    broken: tuple[int, ...]
    """Backslashes outside of quotes with only blanks, or blanks and a comment, after them on the line."""
    comments: tuple[tuple[int, int], ...]
    quotes: tuple[tuple[int, int], ...]
    documents: tuple[tuple[int, int], ...]
    lists: tuple[tuple[int, int], ...]
    """Lists in brackets, `(a b)`: a line end in them ends nothing."""
    at: Sequence[int]
    """Offset in the file of each index."""


_PLAIN = re.compile(r"[^ \t\n|&;()<>\\'\"$`]+")
_PLAIN_DOUBLE = re.compile(r"[^\"\\$`]+")
_PLAIN_BRACE = re.compile(r"[^}\\'\"$`]+")
_PLAIN_PIECE = re.compile(r"[^}\\'\"$`/:\[\]]+")
_PLAIN_DOCUMENT = re.compile(r"[^\\$`]+")
_PLAIN_ARITHMETIC = re.compile(r"[^()\\'\"$`;]+")
_PLAIN_SUBSCRIPT = re.compile(r"[^\]\[\\'\"$`]+")
_PLAIN_REGEX = re.compile(r"[^ \t\n|()\\'\"$`]+")
_EASY_WORD = re.compile(r"[\w./:@%+,^-]+(?=[ \t\n|&;()]|[<>](?!\()|\Z)")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_NAME = re.compile(r"(?:\\\n)*[A-Za-z_](?:\w|\\\n)*", re.ASCII)
_SPECIAL = re.compile(r"(?:\\\n)*[0-9@*#?$!-]")
_ASSIGNS = re.compile(r"([A-Za-z_]\w*)(?:(\+?=)|(\[))", re.ASCII)
_REDIRECTS = re.compile(r"(?:[0-9]+|\{[A-Za-z_]\w*\})?(<<<|<<-|<<|<>|<&|>>|>&|>\||<|>)|(&>>|&>)", re.ASCII)
_RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|do|done|case|esac|while|until|for|select|in|function|time|coproc|\{|\}|!|\[\[|\]\])"
    r"(?=[ \t\n;&|()<>]|\\\n|\Z)"
)
_TIME_OPTION = re.compile(r"(?:-p|--)(?=[ \t\n;&|()]|\Z)")
_COPROCESS = re.compile(r"[A-Za-z_]\w*[ \t]+(?=[{(])", re.ASCII)
_NO_PARAMETERS = re.compile(r"\([ \t]*\)")
_LENGTH = re.compile(r"#(?=[#?!$-]\})|#(?=[A-Za-z_0-9@*!$])")
_INDIRECT = re.compile(r"!(?=[A-Za-z_0-9@*#])")
_DOTTED = re.compile(r"(?:\.[A-Za-z_*][\w*-]{0,100}){1,10}(?=\}|:?[-=?+])", re.ASCII)
"""A name with dots is no variable of a shell: another program fills it in before the script runs."""
_SPECIAL_NAME = re.compile(r"[0-9]+|[@*#?$!-]")
_OPERATOR = re.compile(r":[-=?+]|[-=?+]|##?|%%?|//|/[#%]?|\^\^?|,,?|:|@[A-Za-z]|[@*]")
_NOT = re.compile(r"!(?=[ \t\n(])")
_COMPARISON = re.compile(r"=~|==|!=|=|<|>|-(?:eq|ne|lt|le|gt|ge|nt|ot|ef)(?=[ \t])")
_EQUALS = re.compile(r"\+?=")
_WORD_END = " \t\n|&;()<>"
_ANSI = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ANSI |= {sign: sign for sign in "\\'\"?"}
_ANSI_CODE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.))", re.DOTALL
)
_BROKEN = re.compile(r"\\[ \t\r]*(?:#[^\n]*)?(?=\n|\Z)")
_DECLARES = frozenset({"declare", "typeset", "export", "readonly", "local"})
_CONDITION_UNARY = frozenset(f"-{letter}" for letter in "abcdefghknoprstuvwxzGLNORS")
_DEFAULTS = frozenset({"-", ":-", "+", ":+", "=", ":=", "?", ":?"})
_CLOSES = {"if": "fi", "while": "done", "until": "done", "for": "done", "select": "done", "case": "esac", "{": "}"}


def read(source: Excerpt, *, takes_groups: bool = False) -> Syntax:
    """The tree of a script; with `takes_groups`, `extglob` is set."""
    reader = _SyntaxReader(source)
    reader.takes_groups = takes_groups
    lines: list[tuple[Item, ...]] = []
    rest: list[tuple[Item, ...]] = []
    faults: list[SyntaxFault] = []
    while True:
        begun = reader.index
        try:
            line = reader.line()
        except SyntaxFault as fault:
            faults.append(fault)
            if not reader.resume(fault, begun) or len(faults) >= _MOST_RESUMED:
                break
            continue
        if line is None:
            break
        (rest if faults else lines).append(tuple(line))
    notes = (tuple(sorted(set(noted))) for noted in reader.notes()[1:-1])
    return Syntax._make([*(tuple(nodes) for nodes in (lines, rest, faults, reader.commands)), *notes, source.at])


def read_document(body: Excerpt) -> Parts:
    """Expansions in the text of a here-document with an unquoted end mark."""
    reader = _SyntaxReader(body)
    try:
        return reader.parts("document", 0)
    except SyntaxFault:
        return (Literal(body.text, body.at[: len(body.text)], quoted=True),)


class _SyntaxReader:
    """A recursive descent parser; `index` is its position in the text."""

    def __init__(self, source: Excerpt, depth: int = 0) -> None:
        self.text, self.at = source.text, source.at
        self.source = source
        self.index = 0
        self.depth = depth
        self.commands: list[Simple] = []
        self.fresh_lines: list[int] = [0]
        self.continuations: list[int] = []
        self.broken: list[int] = []
        self.comments: list[tuple[int, int]] = []
        self.quotes: list[tuple[int, int]] = []
        self.documents: list[tuple[int, int]] = []
        self.lists: list[tuple[int, int]] = []
        self._pending: list[tuple[str, bool, list[Excerpt | None]]] = []
        self._no_arithmetic: set[int] = set()
        self.takes_groups = self._will_take_groups = False
        self._words = 0

    # Lines and places

    def line(self) -> list[Item] | None:
        """The commands of the next line that has any; None at the end."""
        self._linebreaks()
        if self.index >= len(self.text):
            return None
        items = self._list(frozenset(), one_line=True)
        if not items:
            raise self._unexpected()
        self.takes_groups |= self._will_take_groups
        return items

    def resume(self, fault: SyntaxFault, begun: int) -> bool:
        """Go on with the line after a fault; whether there is one."""
        self.depth = 0
        self._pending.clear()
        place = min(begun if fault.kind in ("unclosed-quote", "unclosed-bracket") else fault.start, len(self.text))
        while begun < len(self.text) and self.text[begun] in " \t\n":
            begun += 1
        end = self.text.find("\n", max(place, begun))
        if fault.kind == "too-much" or end < 0:
            return False
        self.index = end + 1
        self.fresh_lines.append(self.index)
        return True

    def notes(self) -> tuple[list[Any], ...]:
        """Collected notes, restored before a second attempt."""
        places = (self.comments, self.quotes, self.documents, self.lists)
        return (self.commands, self.fresh_lines, self.continuations, self.broken, *places, self._pending)

    def _try_arithmetic(self, begun: int) -> Parts | None:
        """Text between `((` and `))`; None, without reading anything, if it is not arithmetic."""
        if not self.text.startswith("((", self.index) or begun in self._no_arithmetic:
            return None
        place, depth, sizes = self.index, self.depth, [len(notes) for notes in self.notes()]
        self.index += 2
        parts = self._arithmetic()
        if parts is None:
            self._no_arithmetic.add(begun)
            self.index, self.depth = place, depth
            for notes, size in zip(self.notes(), sizes, strict=True):
                del notes[size:]
        return parts

    def _span(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in the file of a piece that is not empty."""
        return self.at[start], (self.at[end - 1] + 1 if end > start else self.at[start])

    def _word(self, parts: Sequence[Part], start: int, end: int) -> WordNode:
        return WordNode(tuple(parts), *self._span(start, end), self.text[start:end])

    def _missing(self, begun: int, opener: str, closer: str) -> SyntaxFault:
        """Error for a missing closing sign, or another sign in its place."""
        return _unclosed(begun, opener, closer) if self.index >= len(self.text) else self._unexpected()

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Skip a match of a pattern; empty without one."""
        match = pattern.match(self.text, self.index)
        if match is None:
            return ""
        self.index = match.end()
        return match[0]

    def _skip(self, sign: str) -> bool:
        """Skip a sign; returns whether it was there."""
        is_there = self.text.startswith(sign, self.index)
        self.index += len(sign) * is_there
        return is_there

    def _at_word(self) -> bool:
        if self.index >= len(self.text):
            return False
        return self.text[self.index] not in _WORD_END or self.text.startswith(("<(", ">("), self.index)

    def _unexpected(self) -> SyntaxFault:
        sign = self._token()
        if not sign:
            return SyntaxFault("unclosed-bracket", self.index, self.index, found="end of file")
        return SyntaxFault(
            "unexpected-token", self.index, self.index + len(sign), found="newline" if sign == "\n" else sign
        )

    def _token(self) -> str:
        match = re.compile(r"\n|;;&|;;|;&|&&|\|\||\|&|[;&|()<>]|[^\s;&|()<>]{1,80}").match(self.text, self.index)
        return match[0] if match else self.text[self.index : self.index + 1]

    def _count_word(self) -> None:
        self._words += 1
        if self._words > MOST_WORDS:
            raise self._too_much("words", MOST_WORDS)

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise self._too_much("nesting", MOST_NESTED)

    def _too_much(self, what: str, limit: int) -> SyntaxFault:
        return SyntaxFault("too-much", self.index, self.index + 1, what=what, limit=str(limit))

    # Blanks

    def _blanks(self) -> None:
        match = _BLANKS.match(self.text, self.index)
        if match:
            self.index = match.end()
            if "\n" in match[0]:
                joints = re.finditer(r"\\\n", match[0])
                self.continuations.extend(match.start() + joint.start() for joint in joints)

    def _comment(self) -> bool:
        if not self.text.startswith("#", self.index):
            return False
        end = self.text.find("\n", self.index)
        end = len(self.text) if end < 0 else end
        self.comments.append((self.index, end))
        self.index = end
        return True

    def _newline(self) -> bool:
        self._blanks()
        self._comment()
        if not self.text.startswith("\n", self.index):
            return False
        self.index += 1
        pending, self._pending = self._pending, []
        for mark, is_indented, body in pending:
            self._document(mark, is_indented, body)
        self.fresh_lines.append(self.index)
        return True

    def _linebreaks(self) -> None:
        while self._newline():
            pass

    def _document(self, mark: str, is_indented: bool, body: list[Excerpt | None]) -> None:  # noqa: FBT001 - as queued
        start = self.index
        pieces: list[tuple[int, int]] = []
        while self.index < len(self.text):
            end = self.text.find("\n", self.index)
            end = len(self.text) if end < 0 else end
            begin = self.index
            if is_indented:
                while begin < end and self.text[begin] == "\t":
                    begin += 1
            self.index = min(end + 1, len(self.text))
            if self.text[begin:end] == mark:
                break
            pieces.append((begin, self.index))
        body[0] = self.source.joined(pieces)
        self.documents.append((start, self.index))

    # Lists of commands

    def _list(self, ends: frozenset[str], *, one_line: bool = False) -> list[Item]:
        """Commands up to a terminating word or bracket, or to the end of the line."""
        items: list[Item] = []
        while True:
            if one_line:
                self._blanks()
                self._comment()
            else:
                self._linebreaks()
            if self._at_end(ends):
                return items
            if one_line and self.text[self.index] == "\n":
                self._newline()
                return items
            begun = self.index
            pipelines = self._and_or()
            end = self.index
            self._blanks()
            is_background = self.text.startswith("&", self.index) and not self.text.startswith(("&&", "&>"), self.index)
            items.append(Item(tuple(pipelines), is_background, *self._span(begun, end)))
            if is_background or (
                self.text.startswith(";", self.index) and not self.text.startswith((";;", ";&"), self.index)
            ):
                self.index += 1
                continue
            self._comment()
            if self.text.startswith("\n", self.index):
                self._newline()
                if one_line:
                    return items
                continue
            if self._at_end(ends) and not (one_line and self.text.startswith(")", self.index)):
                return items
            raise self._unexpected()

    def _at_end(self, ends: frozenset[str]) -> bool:
        if self.index >= len(self.text) or self.text[self.index] == ")" or self._reserved() in ends:
            return True
        return ";;" in ends and self.text.startswith((";;", ";&"), self.index)

    def _body(self, ends: frozenset[str]) -> tuple[Item, ...]:
        items = self._list(ends)
        if not items:
            raise self._unexpected()
        return tuple(items)

    def _reserved(self) -> str:
        match = _RESERVED.match(self.text, self.index)
        return match[0] if match else ""

    def _expect(self, word: str, opener: str, begun: int) -> None:
        if self._reserved() != word:
            raise self._missing(begun, opener, word)
        self.index += len(word)

    def _and_or(self) -> list[tuple[str, Pipeline]]:
        pipelines = [("", self._pipeline())]
        while True:
            self._blanks()
            if not self.text.startswith(("&&", "||"), self.index):
                return pipelines
            operator = self.text[self.index : self.index + 2]
            self.index += 2
            self._linebreaks()
            pipelines.append((operator, self._pipeline()))

    def _pipeline(self) -> Pipeline:
        negated = False
        prefixed = False
        while (word := self._reserved()) in ("!", "time"):
            prefixed = True
            negated ^= word == "!"
            self.index += len(word)
            self._blanks()
            if word == "time":
                while self._take(_TIME_OPTION):
                    self._blanks()
        if prefixed and (self.index >= len(self.text) or self.text[self.index] in "\n;&|)"):
            if self.text[self.index : self.index + 1] in ("&", "|", ")"):
                raise self._unexpected()
            return Pipeline((), negated)
        commands = [self._command()]
        while True:
            self._blanks()
            if not self.text.startswith("|", self.index) or self.text.startswith("||", self.index):
                return Pipeline(tuple(commands), negated)
            self.index += 2 if self.text.startswith("|&", self.index) else 1
            self._linebreaks()
            commands.append(self._command())

    def _command(self) -> Command:
        word = self._reserved()
        if not word and not self.text.startswith("(", self.index):
            return self._simple()
        if word and word not in _CLOSES and word not in ("function", "coproc", "[["):
            raise self._unexpected()
        self._deeper()
        command = self._compound(word, self.index) if word else self._bracketed()
        self.depth -= 1
        redirections = self._redirections()
        return Redirected(command, redirections) if redirections else command

    def _bracketed(self) -> Command:
        """`((…))` or `( … )`."""
        begun = self.index
        parts = self._try_arithmetic(begun)
        if parts is not None:
            return Calculation(parts)
        self.index += 1
        items = self._body(frozenset())
        if not self._skip(")"):
            raise self._missing(begun, "(", ")")
        return GroupNode(items, is_subshell=True)

    def _compound(self, word: str, begun: int) -> Command:
        self.index += len(word)
        if word == "[[":
            return self._condition(begun)
        if word == "function":
            return self._function(begun)
        if word == "coproc":
            self._blanks()
            self._take(_COPROCESS)
            return GroupNode(
                (Item((("", Pipeline((self._command(),), False)),), True, *self._span(begun, self.index)),), True
            )
        if word == "{":
            items = self._body(frozenset({"}"}))
            self._expect("}", "{", begun)
            return GroupNode(items, is_subshell=False)
        if word == "if":
            return self._if(begun)
        if word in ("while", "until"):
            condition_items = self._body(frozenset({"do"}))
            return While(condition_items, self._loop_body(word, begun), word == "until")
        return self._case(begun) if word == "case" else self._for(word, begun)

    def _if(self, begun: int) -> If:
        clauses = []
        while True:
            condition = self._body(frozenset({"then"}))
            self._expect("then", "if", begun)
            clauses.append((condition, self._body(frozenset({"elif", "else", "fi"}))))
            if self._reserved() != "elif":
                break
            self.index += len("elif")
        otherwise: tuple[Item, ...] = ()
        if self._reserved() == "else":
            self.index += len("else")
            otherwise = self._body(frozenset({"fi"}))
        self._expect("fi", "if", begun)
        return If(tuple(clauses), otherwise)

    def _loop_body(self, opener: str, begun: int) -> tuple[Item, ...]:
        self._expect("do", opener, begun)
        body = self._body(frozenset({"done"}))
        self._expect("done", opener, begun)
        return body

    def _for(self, opener: str, begun: int) -> Command:
        self._blanks()
        if opener == "for" and self.text.startswith("((", self.index):
            return self._for_arithmetic(begun)
        name = self._take(_PLAIN)
        if not name:
            raise self._unexpected()
        words: list[WordNode] | None = None
        self._linebreaks()
        if self._reserved() == "in":
            self.index += 2
            words = []
            while True:
                self._blanks()
                self._comment()
                if self.index >= len(self.text) or self.text[self.index] in "\n;":
                    break
                if not self._at_word():
                    raise self._unexpected()
                words.append(self._a_word())
        body = self._braced_body(opener, begun)
        return For(name, tuple(words) if words is not None else None, body, opener == "select")

    def _for_arithmetic(self, begun: int) -> ForArithmetic:
        self.index += 2
        steps = []
        for last in (False, False, True):
            parts = self._arithmetic(last=last)
            if parts is None and self.index >= len(self.text):
                raise SyntaxFault("unclosed-bracket", begun, begun + 3, open="for ((", wanted="))")
            if parts is None:
                raise self._unexpected()
            steps.append(parts)
        self._blanks()
        return ForArithmetic((steps[0], steps[1], steps[2]), self._braced_body("for", begun))

    def _braced_body(self, opener: str, begun: int) -> tuple[Item, ...]:
        """The body of a `for`: between `do` and `done`, or in braces."""
        if self.text.startswith(";", self.index) and not self.text.startswith(";;", self.index):
            self.index += 1
        self._linebreaks()
        if self._reserved() != "{":
            return self._loop_body(opener, begun)
        self.index += 1
        body = self._body(frozenset({"}"}))
        self._expect("}", opener, begun)
        return body

    def _case(self, begun: int) -> CaseNode:
        self._blanks()
        if self.index >= len(self.text) or self.text[self.index] in "\n;|&)":
            raise self._unexpected()
        word = self._a_word()
        self._linebreaks()
        self._expect("in", "case", begun)
        branches = []
        while True:
            self._linebreaks()
            if self._reserved() == "esac":
                break
            if self.index >= len(self.text):
                raise _unclosed(begun, "case", "esac")
            if self._skip("("):
                self._blanks()
            patterns = []
            while True:
                self._blanks()
                if self.index >= len(self.text) or self.text[self.index] in _WORD_END:
                    raise self._unexpected()
                patterns.append(self._a_word())
                self._blanks()
                if not self.text.startswith("|", self.index) or self.text.startswith("||", self.index):
                    break
                self.index += 1
            if not self._skip(")"):
                raise self._unexpected()
            body = self._list(frozenset({";;", "esac"}))
            end = next((e for e in (";;&", ";;", ";&") if self.text.startswith(e, self.index)), "")
            self.index += len(end)
            branches.append((tuple(patterns), tuple(body), end or ";;"))
            if not end:
                self._linebreaks()
                if self._reserved() != "esac":
                    raise self._missing(begun, "case", "esac")
        self.index += len("esac")
        return CaseNode(word, tuple(branches))

    def _function(self, begun: int) -> FunctionNode:
        self._blanks()
        name = self._take(_PLAIN)
        if not name:
            raise self._unexpected()
        self._blanks()
        self._take(_NO_PARAMETERS)
        return self._function_body(name, begun)

    def _function_body(self, name: str, begun: int) -> FunctionNode:
        self._linebreaks()
        if self.index >= len(self.text):
            raise SyntaxFault("unclosed-bracket", begun, begun + 1, open=f"{name}()", wanted="{")
        if not self.text.startswith("(", self.index) and self._reserved() not in (*_CLOSES, "[["):
            raise self._unexpected()
        return FunctionNode(name, self._command())

    # Simple commands

    def _simple(self) -> Command:
        begun = end = self.index
        assignments: list[AssignmentNode] = []
        words: list[WordNode | AssignmentNode] = []
        redirections: list[Redirection] = []
        while True:
            self._blanks()
            if self.index >= len(self.text):
                break
            sign = self.text[self.index]
            if sign == "#" or sign in "\n;)":
                break
            redirection = self._redirection()
            if redirection is not None:
                redirections.append(redirection)
                end = self.index
                continue
            if sign in "&|":
                break
            if sign == "(":
                name = words[0] if len(words) == 1 and not assignments and not redirections else None
                if not isinstance(name, WordNode) or not self._take(_NO_PARAMETERS):
                    raise self._unexpected()
                self._deeper()
                function = self._function_body(name.raw, begun)
                self.depth -= 1
                return function
            declares = bool(words) and isinstance(words[0], WordNode) and words[0].raw in _DECLARES
            assigns = _ASSIGNS.match(self.text, self.index) if declares or not words else None
            if assigns and assigns[3] and words:
                assigns = None  # an index is one before a command only
            assigned = self._assignment(assigns) if assigns else self._a_word()
            if isinstance(assigned, AssignmentNode) and not words:
                assignments.append(assigned)
            else:
                words.append(assigned)
            end = self.index
        if end == begun:
            raise self._unexpected()
        command = Simple(tuple(assignments), tuple(words), tuple(redirections), *self._span(begun, end))
        self.commands.append(command)
        raws = {word.raw for word in words if isinstance(word, WordNode)}
        self._will_take_groups |= {"shopt", "-s", "extglob"} <= raws
        if len(self.commands) > MOST_COMMANDS:
            raise SyntaxFault("too-much", begun, end, what="commands", limit=str(MOST_COMMANDS))
        return command

    def _redirection(self) -> Redirection | None:
        match = _REDIRECTS.match(self.text, self.index)
        if not match or (match[1] in ("<", ">") and self.text.startswith("(", match.end())):
            return None
        operator = match[1] or match[2]
        descriptor = match[0].removesuffix(operator)
        self.index = match.end()
        self._blanks()
        if self.index >= len(self.text):
            raise SyntaxFault("unexpected-token", match.start(), match.end(), found="newline")
        if not self._at_word():
            raise self._unexpected()
        if operator not in ("<<", "<<-"):
            return Redirection(operator, self._a_word(), lambda: None, False, descriptor)
        start, sizes = self.index, [len(notes) for notes in self.notes()]
        target = self._a_word()
        for notes, size in zip(self.notes(), sizes, strict=True):
            del notes[size:]  # nothing is expanded in it
        raw = target.raw.replace("\\\n", "")
        is_literal = any(sign in raw for sign in "'\"\\")
        body: list[Excerpt | None] = [None]
        text = "".join(part.text for part in target.parts if isinstance(part, Literal)) if is_literal else raw
        self._pending.append((text, operator == "<<-", body))
        word = self._word(target.parts, start, self.index)
        return Redirection(operator, word, lambda: body[0], is_literal, descriptor)

    def _redirections(self) -> tuple[Redirection, ...]:
        redirections: list[Redirection] = []
        while True:
            self._blanks()
            redirection = self._redirection() if self.index < len(self.text) else None
            if redirection is None:
                return tuple(redirections)
            redirections.append(redirection)

    def _assignment(self, match: re.Match[str]) -> AssignmentNode | WordNode:
        """`NAME=…` or `NAME[i]=…`; a word if no `=` follows the index, which may contain blanks."""
        begun = self.index
        subscript: Parts | None = None
        self.index = match.end()
        sign = match[2]
        if sign is None:
            subscript = self.parts("subscript", match.start(3))
            self.index += 1
            sign = self._take(_EQUALS)
            if not sign:
                name = Literal(self.text[begun : match.end()], self.at[begun : match.end()], quoted=False)
                close = Literal("]", self.at[self.index - 1 : self.index], quoted=False)
                return self._word((name, *subscript, close, *self.parts("word", begun)), begun, self.index)
        is_appended = sign == "+="
        elements: tuple[Element, ...] | None = None
        value_start = self.index
        if self.text.startswith("(", self.index) and subscript is None:
            elements = self._elements()
            if self.index < len(self.text) and self.text[self.index] not in _WORD_END:
                self._a_word()  # text joined to a list is dropped
            value = self._word((), value_start, self.index)
        elif self._at_word():
            value = self._a_word()
        else:
            value = WordNode((), self.at[self.index], self.at[self.index], "")
        return AssignmentNode(match[1], subscript, is_appended, value, elements, *self._span(begun, self.index))

    def _elements(self) -> tuple[Element, ...]:
        begun = self.index
        self.index += 1
        self._deeper()
        elements: list[Element] = []
        while True:
            self._linebreaks()
            if self.index >= len(self.text):
                raise _unclosed(begun, "(", ")")
            if self.text[self.index] == ")":
                self.index += 1
                self.depth -= 1
                self.lists.append((begun, self.index))
                return tuple(elements)
            if not self._at_word():
                raise self._unexpected()
            subscript: Parts | None = None
            key = re.compile(r"\[(?:[^\[\]\n`\\]|\\.)*\]\+?=").match(self.text, self.index)
            if key:
                self.index += 1
                subscript = self.parts("subscript", self.index)
                self.index = key.end()
                if self.index >= len(self.text) or self.text[self.index] in _WORD_END:
                    elements.append(Element(subscript, WordNode((), self.at[self.index], self.at[self.index], "")))
                    continue
            elements.append(Element(subscript, self._a_word()))

    # Words

    def _a_word(self) -> WordNode:
        start = self.index
        self._count_word()
        match = _EASY_WORD.match(self.text, start)
        if match and not (self.takes_groups and self.text.startswith("(", match.end())):
            self.index = end = match.end()
            literal = Literal(match[0], self.at[start:end], False)
            return WordNode((literal,), self.at[start], self.at[end - 1] + 1, match[0])
        parts = self.parts("word", start)
        if self.index == start:
            raise self._unexpected()
        return self._word(parts, start, self.index)

    def parts(self, kind: str, opened: int) -> Parts:
        """Parts of a word up to its end.

        `kind` is the context that ends it: a "word", a "double" quote, a "brace" (`${X:-…`,
        "quoted-brace" within a double quote), its pieces up to `/` ("slash") or `:` ("colon"), its
        "index"), a "subscript", a "document", a "regex" of `[[ =~ ]]`.
        """
        parts: list[Part] = []
        text, size = self.text, len(self.text)
        plain, ends = _KINDS[kind]
        quoted = kind in _QUOTING
        is_arithmetic = kind in ("arithmetic", "step")
        brackets = 0
        while self.index < size:
            match = plain.match(text, self.index)
            if match:
                self._plain(parts, match, quoted=quoted)
                continue
            sign = text[self.index]
            if sign in ends:
                if kind == "word" and sign in "<>" and text.startswith("(", self.index + 1) and not brackets:
                    self.index += 1
                    parts.append(self._substitution(self.index - 1, quoted=True, is_file=True))
                    continue
                if kind == "word" and sign != "\n" and (brackets or self._opens_group(opened)):
                    brackets += (sign == "(") - (sign == ")")
                elif brackets and sign == _CLOSERS.get(kind):
                    brackets -= 1
                elif is_arithmetic and (sign == "(" or (brackets and sign == ";")):
                    brackets += sign == "("
                    if brackets > MOST_NESTED:
                        raise self._too_much("nesting", MOST_NESTED)
                else:
                    break
            elif kind == "regex" and sign in "(|":
                brackets += sign == "("
            elif kind in ("subscript", "index") and sign == "[":
                brackets += 1
            elif sign == "\\":
                self._escape(parts, kind)
                continue
            elif (special := self._special_parts(kind, sign, quoted=quoted)) is not None:
                parts += special
                continue
            parts.append(Literal(sign, self.at[self.index : self.index + 1], quoted))
            self.index += 1
        else:
            if kind == "double":
                raise SyntaxFault("unclosed-quote", opened, opened + 1, quote='"')
            if kind not in ("word", "document", "regex", "arithmetic", "step"):
                raise _unclosed(opened, "[", "]") if kind == "subscript" else _unclosed(opened, "${", "}")
        return tuple(parts)

    def _special_parts(self, kind: str, sign: str, *, quoted: bool) -> Sequence[Part] | None:
        """Parts that begin with a special character; None for an ordinary one."""
        if sign == "$":
            return self._dollar(quoted=quoted)
        if sign == "`":
            return (self._backticks(quoted=quoted),)
        if sign == "'" and not quoted:
            return (self._single(),)
        return self._double() if sign == '"' and kind != "document" else None

    def _plain(self, parts: list[Part], match: re.Match[str], *, quoted: bool) -> None:
        """Add plain text; text around a line continuation is one piece."""
        start, self.index = match.span()
        literal = Literal(match[0], self.at[start : self.index], quoted)
        last = parts[-1] if parts else None
        if isinstance(last, Literal) and not last.quoted and not quoted and len(last.text) < _MOST_JOINED:
            parts[-1] = Literal(last.text + literal.text, [*last.at, *literal.at], quoted=False)
        else:
            parts.append(literal)

    def _opens_group(self, start: int) -> bool:
        """Whether a bracket of a pattern, `@(a|b)`, opens here."""
        before = self.text[self.index - 1 : self.index] if self.index > start else ""
        return self.takes_groups and self.text[self.index] == "(" and before != "" and before in "@?*+!"

    def _escape(self, parts: list[Part], kind: str) -> None:
        begun = self.index
        following = self.text[begun + 1 : begun + 2]
        quoted = kind in _QUOTING
        if following == "\n":
            if not quoted:
                self.continuations.append(begun)
            self.index += 2
            return
        if not following:
            parts.append(Literal("\\", self.at[begun : begun + 1], quoted=True))
            self.index += 1
            return
        if quoted:
            special = "$`\\" + ('"' if kind != "document" else "") + ("}" if kind == "quoted-brace" else "")
            if following not in special:
                parts.append(Literal("\\", self.at[begun : begun + 1], quoted=True))
                self.index += 1
                return
        elif kind == "word" and following in " \t#\r" and _BROKEN.match(self.text, begun):
            self.broken.append(begun)
        parts.append(Literal(following, self.at[begun + 1 : begun + 2], quoted=True))
        self.index += 2

    def _single(self) -> Literal:
        begun = self.index
        end = self.text.find("'", begun + 1)
        if end < 0:
            raise SyntaxFault("unclosed-quote", begun, begun + 1, quote="'")
        self.index = end + 1
        self.quotes.append((begun, self.index))
        return Literal(self.text[begun + 1 : end], self.at[begun + 1 : end], quoted=True)

    def _double(self) -> Parts:
        begun = self.index
        self.index += 1
        self._deeper()
        parts = self.parts("double", begun)
        self.depth -= 1
        self.index += 1
        self.quotes.append((begun, self.index))
        if len(parts) > 1 and any(isinstance(part, ParameterNode) and _is_list(part) for part in parts):
            return tuple(
                part._replace(is_beside_list=True) if isinstance(part, ParameterNode) else part for part in parts
            )
        return parts or (Literal("", (), quoted=True),)

    def _ansi(self, begun: int) -> Literal:
        """`$'…'`: C escapes."""
        text, at = [], []
        index = self.index
        while True:
            sign = self.text[index : index + 1]
            if not sign:
                raise SyntaxFault("unclosed-quote", begun, begun + 2, quote="'")
            if sign == "'":
                break
            value, step = sign, 1
            if sign == "\\":
                following = self.text[index + 1 : index + 2]
                code = _ANSI_CODE.match(self.text, index)
                if following in _ANSI and following:
                    value, step = _ANSI[following], 2
                elif code:
                    value, step = _ansi_code(code), len(code[0])
            text.append(value)
            at.extend([self.at[index]] * len(value))
            index += step
        self.index = index + 1
        self.quotes.append((begun, self.index))
        joined = "".join(text)
        cut = joined.find("\0")
        joined = joined if cut < 0 else joined[:cut]
        return Literal(joined, at[: len(joined)], quoted=True)

    def _dollar(self, *, quoted: bool) -> Sequence[Part]:
        begun = self.index
        self._count_word()
        text = self.text
        after = begun + 1
        while text.startswith("\\\n", after):
            after += 2
        self.index = after
        sign = text[after : after + 1]
        if sign == "{":
            return (self._braced(begun, quoted=quoted),)
        if sign == "(":
            return (self._commands_or_arithmetic(begun, quoted=quoted),)
        if sign == "[":
            return (self._old_arithmetic(begun, quoted=quoted),)
        if sign == "'" and not quoted:
            self.index += 1
            return (self._ansi(begun),)
        if sign == '"' and not quoted:
            return self._double()
        match = _NAME.match(text, after) or _SPECIAL.match(text, after)
        if match:
            self.index = match.end()
            return (ParameterNode(match[0].replace("\\\n", ""), quoted, *self._span(begun, self.index)),)
        self.index = begun + 1
        return (Literal("$", self.at[begun : begun + 1], quoted),)

    def _commands_or_arithmetic(self, begun: int, *, quoted: bool) -> Part:
        self._deeper()
        parts = self._try_arithmetic(begun)
        self.depth -= 1
        if parts is not None:
            return Arithmetic(parts, quoted, *self._span(begun, self.index))
        return self._substitution(begun, quoted=quoted)

    def _substitution(self, begun: int, *, quoted: bool, is_file: bool = False) -> Part:
        self._deeper()
        self.index += 1
        items = self._list(frozenset())
        if not self._skip(")"):
            raise _unclosed(begun, f"{self.text[begun]}(" if is_file else "$(", ")")
        self.depth -= 1
        return Substitution(tuple(items), quoted, *self._span(begun, self.index), is_file)

    def _old_arithmetic(self, begun: int, *, quoted: bool) -> Part:
        self._deeper()
        self.index += 1
        parts = self.parts("subscript", begun)
        self.index += 1
        self.depth -= 1
        return Arithmetic(parts, quoted, *self._span(begun, self.index))

    def _backticks(self, *, quoted: bool) -> Part:
        begun = self.index
        match = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL).match(self.text, begun)
        if not match:
            raise SyntaxFault("unclosed-quote", begun, begun + 1, quote="`")
        undone = '`\\$"' if quoted else "`\\$"
        pieces, last = [], begun + 1
        for escape in re.compile(r"\\.", re.DOTALL).finditer(self.text, begun + 1, match.end() - 1):
            if escape[0][1] in undone:
                pieces.append((last, escape.start()))
                last = escape.start() + 1
        pieces.append((last, match.end() - 1))
        self._deeper()
        inner = _SyntaxReader(self.source.joined(pieces), self.depth)
        items = inner.whole()
        self.depth -= 1
        self.index = match.end()
        return Substitution(tuple(items), quoted, *self._span(begun, self.index))

    def whole(self) -> list[Item]:
        """All commands of a text up to the first error."""
        items: list[Item] = []
        try:
            while (line := self.line()) is not None:
                items += line
        except SyntaxFault as fault:
            if fault.kind == "too-much":
                raise
        return items

    def _arithmetic(self, *, last: bool = True) -> Parts | None:
        """Parts up to `))` (`last`) or `;`; None if it is not arithmetic."""
        parts = self.parts("arithmetic" if last else "step", self.index)
        closer = "))" if last else ";"
        return parts if self._skip(closer) else None

    def _braced(self, begun: int, *, quoted: bool) -> Part:
        """`${…}`."""
        self._deeper()
        self.index += 1
        # ${#} and ${#:-x} are the number of arguments; ${#X} is a length.
        is_length = bool(self._take(_LENGTH))
        is_indirect = not is_length and bool(self._take(_INDIRECT))
        name = self._take(_NAME) or self._take(_SPECIAL_NAME)
        if not name:
            return self._bad_braced(begun, quoted=quoted)
        name += self._take(_DOTTED)
        subscript: Parts | None = None
        if self._skip("["):
            subscript = self.parts("index", begun)
            if not self._skip("]"):
                return self._bad_braced(begun, quoted=quoted)
        operator = ""
        arguments: tuple[Parts, ...] = ()
        if not self.text.startswith("}", self.index):
            operator = self._take(_OPERATOR)
            if not operator:
                return self._bad_braced(begun, quoted=quoted)
            arguments = self._arguments(operator, begun, quoted=quoted)
        if not self._skip("}"):
            return self._bad_braced(begun, quoted=quoted)
        self.depth -= 1
        name = name.replace("\\\n", "")
        return ParameterNode(
            name, quoted, *self._span(begun, self.index), subscript, operator, arguments, is_length, is_indirect
        )

    def _arguments(self, operator: str, begun: int, *, quoted: bool) -> tuple[Parts, ...]:
        if operator in ("/", "//", "/#", "/%"):
            pattern: Parts = ()
            if operator == "//" and self._skip("/"):
                pattern = (Literal("/", self.at[self.index - 1 : self.index], quoted=False),)
            pattern += self.parts("slash", begun)
            return (pattern, self.parts("brace", begun)) if self._skip("/") else (pattern,)
        if operator == ":":
            offset = self.parts("colon", begun)
            return (offset, self.parts("brace", begun)) if self._skip(":") else (offset,)
        is_pattern = operator[0] in "#%^,"
        return (self.parts("quoted-brace" if quoted and not is_pattern else "brace", begun),)

    def _bad_braced(self, begun: int, *, quoted: bool) -> Part:
        """A bad substitution, an error at run time: skipped up to its closing bracket."""
        self.parts("quoted-brace" if quoted else "brace", begun)
        self.index += 1
        self.depth -= 1
        return ParameterNode("", quoted, *self._span(begun, self.index), operator="bad")

    # Conditions

    def _condition(self, begun: int) -> ConditionNode:
        condition = self._junction(begun, "||")
        self._linebreaks()
        if not self._skip("]]"):
            raise self._missing(begun, "[[", "]]")
        if self.index < len(self.text) and self.text[self.index] not in _WORD_END:
            raise self._unexpected()
        return condition

    def _junction(self, begun: int, sign: str) -> ConditionNode:
        operands: list[ConditionNode] = []
        while True:
            operands.append(self._junction(begun, "&&") if sign == "||" else self._not(begun))
            self._linebreaks()
            if not self._skip(sign):
                return operands[0] if len(operands) == 1 else ConditionNode(sign, tuple(operands))

    def _not(self, begun: int) -> ConditionNode:
        negated = False
        self._linebreaks()
        while self._take(_NOT):
            negated = not negated
            self._linebreaks()
        condition = self._primary(begun)
        return ConditionNode("!", (condition,)) if negated else condition

    def _primary(self, begun: int) -> ConditionNode:
        if self.index >= len(self.text):
            raise _unclosed(begun, "[[", "]]")
        if self._skip("("):
            self._deeper()
            condition = self._junction(begun, "||")
            self._linebreaks()
            if not self._skip(")"):
                raise self._unexpected()
            self.depth -= 1
            return condition
        if self.text.startswith("]]", self.index) or self.text[self.index] in _WORD_END:
            raise self._unexpected()
        first = self._a_word()
        self._blanks()
        if first.raw in _CONDITION_UNARY:
            if self.index >= len(self.text) or self.text[self.index] in _WORD_END or self._reserved() == "]]":
                raise self._missing(begun, "[[", "]]")
            return ConditionNode(first.raw, (self._a_word(),))
        operator = self._take(_COMPARISON)
        if not operator:
            following = re.compile(r"\]\](?=[ \t\n|&;()<>]|\Z)|&&|\|\||\)|\n").match(self.text, self.index)
            if self.index < len(self.text) and not following:
                raise self._unexpected()
            return ConditionNode("-n", (first,))
        self._blanks()
        if self.index >= len(self.text):
            raise _unclosed(begun, "[[", "]]")
        if operator == "=~":
            start = self.index
            second = self._word(self.parts("regex", start), start, self.index)
            if self.index == start:
                raise self._unexpected()
        else:
            if self.text[self.index] in _WORD_END:
                raise self._unexpected()
            takes_groups, self.takes_groups = self.takes_groups, True
            second = self._a_word()
            self.takes_groups = takes_groups
        return ConditionNode("=" if operator == "==" else operator, (first, second))


def _unclosed(begun: int, opener: str, closer: str) -> SyntaxFault:
    """The end of the text where something should be closed."""
    return SyntaxFault("unclosed-bracket", begun, begun + len(opener), open=opener, wanted=closer)


def _is_list(part: ParameterNode) -> bool:
    if part.is_length or part.operator in _DEFAULTS:
        return False
    return (part.name == "@" and part.subscript is None) or (
        part.subscript is not None and len(part.subscript) == 1 and part.subscript[0][0] == "@"
    )


def _ansi_code(code: re.Match[str]) -> str:
    if code[5]:
        return chr(ord(code[5]) & 0x1F) if code[5].isascii() else code[5]
    number = int(code[2], 8) & 0xFF if code[2] else int(code[1] or code[3] or code[4], 16)
    if code[1] or code[2]:
        return chr(number)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"


_CLOSERS = {"regex": ")", "subscript": "]", "index": "]", "arithmetic": ")", "step": ")"}
"""Closing bracket by kind of parts."""
_QUOTING = frozenset({"double", "document", "quoted-brace", "arithmetic", "step"})
"""Kinds of parts in which characters are quoted."""
_KINDS: dict[str, tuple[re.Pattern[str], str]] = {
    "word": (_PLAIN, _WORD_END),
    "double": (_PLAIN_DOUBLE, '"'),
    "document": (_PLAIN_DOCUMENT, ""),
    "brace": (_PLAIN_BRACE, "}"),
    "quoted-brace": (_PLAIN_BRACE, "}"),
    "slash": (_PLAIN_PIECE, "}/"),
    "colon": (_PLAIN_PIECE, "}:"),
    "arithmetic": (_PLAIN_ARITHMETIC, "()"),
    "step": (_PLAIN_ARITHMETIC, "();"),
    "subscript": (_PLAIN_SUBSCRIPT, "]"),
    "index": (_PLAIN_PIECE, "]}"),
    "regex": (_PLAIN_REGEX, " \t\n)"),
}
