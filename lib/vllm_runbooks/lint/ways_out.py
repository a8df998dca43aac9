"""Fixes as commands: the launch's own command, edited, and linted for its release."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.options import ReleaseData
from vllm_runbooks.core.display import unknown_reason
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.excerpt import LineIndex
from vllm_runbooks.core.records import IssueSeverity, Remedy
from vllm_runbooks.lint import fixing
from vllm_runbooks.lint.linted_text import Knowledge, LintedText, LintRequest
from vllm_runbooks.lint.secrecy import Secrets
from vllm_runbooks.lint.told import issues
from vllm_runbooks.reading import arguments, deployment, documents
from vllm_runbooks.reading.arguments import Parsed
from vllm_runbooks.reading.arguments.as_typed import option_of
from vllm_runbooks.reading.arguments.conditions import UNKNOWN
from vllm_runbooks.reading.deployment import Deployment, EditRefusedError, editing, to_shell
from vllm_runbooks.reading.documents import LaunchFile
from vllm_runbooks.reading.documents.starts import WrittenLaunch

_SUBCOMMAND = "subparser"
"""The destination of vLLM's subcommand, such as serve."""
_NOT_COMPARED = frozenset({"model", "model_tag", "config", "api_key", _SUBCOMMAND, "dispatch_function"})
"""Arguments that may differ between command and log: model paths are mounted elsewhere, secrets are replaced."""
_HUB_NAME = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}", re.ASCII)
_MAX_TOLD = 12
_MOST_ERRORS = 5
"""Most errors of a command that is still edited; with more it is hardly a command."""
_WHOLE_LINES, _WHOLE_CHARACTERS = 200, 20_000
"""A text of at most this size is shown whole if the edited part alone is not enough."""
_GOES_ON = re.compile(r"(?:\\|\||&&)[ \t\r]*\Z")
_MAX_GOING_ON = 1000
_IN_LINES = ("shell", "docker")
"""Kinds of launches that are commands on their own lines."""


class ArgumentDifference(NamedTuple):
    """An argument that differs between a command and its log."""

    name: str
    given: str
    """Value in the command; "not set" if absent."""
    ran: str


class LaunchCommand:
    """The command that remedies edit."""

    def __init__(
        self,
        command: str | None,
        logged: Mapping[str, Any],
        vllm: str | None,
        knowledge: Callable[[], Knowledge],
        *,
        logged_command: str | None = None,
        model: str | None = None,
    ) -> None:
        """Use the given command, else the one in the log, else the arguments that it prints.

        `model` is the model that the log names in any line.
        """
        self.logged = {name: value for name, value in logged.items() if not name.startswith("_")}
        self.model = str(self.logged.get("model_tag") or self.logged.get("model") or model or "")
        self.is_given = command is not None
        self.page = documents.read(command) if command is not None else _shown_start(logged_command)
        self.found = self._chosen(self.page)
        self.vllm = vllm or (self.found.release if self.found else None)
        self._knowledge = knowledge
        self._judged_texts: dict[str, LintedText] = {}

    def _chosen(self, page: LaunchFile | None) -> WrittenLaunch | None:
        """The launch that agrees best with the log."""
        if page is None:
            return documents.from_arguments(self.logged) if self.logged else None
        starts = starts_of(page)
        return starts[self._nearest(starts)[0]] if starts else None

    def _nearest(self, starts: Sequence[WrittenLaunch]) -> tuple[int, bool]:
        """Index of the launch that agrees best with the log, and whether no other agrees as well."""
        values = {*map(str, self.logged.values()), *filter(None, [self.model])}
        agreed = [
            (not self._names_another(start), sum(word.value in values for word in start.words)) for start in starts
        ]
        best = max(agreed)
        return agreed.index(best), agreed.count(best) == 1

    def _names_another(self, start: WrittenLaunch) -> bool:
        """Whether all Hub names of a launch are of other models than the log's."""
        names = [word.value for word in start.words if word.value and _HUB_NAME.fullmatch(word.value)]
        is_comparable = bool(names and _HUB_NAME.fullmatch(self.model))
        return is_comparable and _last_part(self.model) not in map(_last_part, names)

    @property
    def choice(self) -> str | None:
        """Which of several launches in a text is the log's, and why; None for a single launch."""
        starts = starts_of(self.page) if self.page is not None else []
        if len(starts) < 2 or self.page is None:
            return None
        if self.is_another:
            return (
                f"The command's text contains {len(starts)} launches, and the log is of none of them: none is changed."
            )
        index, is_sure = self._nearest(starts)
        line = LineIndex(self.page.text)(starts[index].start).line
        why = "it matches the log's arguments best" if is_sure else "the log does not show which one it is"
        return f"The command's text contains {len(starts)} launches; the one in line {line} is used: {why}."

    @cached_property
    def data(self) -> ReleaseData | None:
        if self.vllm is None:
            return None
        try:
            return options.load(self.vllm)
        except InputError:
            return None

    @cached_property
    def _edited_as(self) -> ReleaseData:
        """Options by which the command is edited: the release's, or the newest known ones."""
        return self.data or options.load(options.known_releases()[-1])

    def offered(self, remedies: Sequence[Remedy]) -> tuple[Remedy, ...]:
        """Remedies with their commands, without those that the release rejects."""
        return tuple(checked for remedy in remedies if (checked := self._checked(remedy)) is not None)

    def _checked(self, remedy: Remedy) -> Remedy | None:
        if not remedy.edits:
            return self._unknown(remedy, "the command does not change")
        if self._is_useless(remedy):
            return None
        if self.found is None:
            return self._unknown(remedy, "the log does not show the arguments; pass the command with --command")
        if self._is_damaged:
            return self._unknown(remedy, f"the command itself has more than {_MOST_ERRORS} errors")
        if self._given is None:
            try:
                edited = Deployment.of(self.found).edited(remedy.edits, self._edited_as)
            except EditRefusedError:
                return self._unknown(remedy, "unknown release; set --vllm")
            text = self._with_fixes(to_shell(edited))
        else:
            page, launch = self._given
            made = editing.edits(page, launch, remedy.edits, self._edited_as)
            is_fixed = self.page is not None and page is not self.page and self._is_made_in(launch, remedy)
            if not made and not is_fixed:
                return self._unknown(remedy, "the change cannot be made in this text without doubt")
            text = self._with_fixes(page.changed(made)) if made else page.text
        errors = self._errors(text)
        if errors - self._own_errors:
            return None
        if errors:
            return self._unknown(remedy, f"the command itself has errors ({', '.join(sorted({e[0] for e in errors}))})")
        command = text if self._given is None else self._shown(text)
        if command is None:
            return self._unknown(remedy, "the command cannot be shown apart from its text, which is long")
        if self.data is None:
            return replace(self._unknown(remedy, "unknown release; set --vllm"), command=command)
        return replace(remedy, command=command, checks=replace(remedy.checks, lint="passed"))

    def _is_made_in(self, launch: WrittenLaunch, remedy: Remedy) -> bool:
        """Whether the safe fixes of a text already remove what a remedy removes, or set the subcommand."""
        if [(edit.name, edit.value) for edit in remedy.edits] == [(_SUBCOMMAND, launch.entry)]:
            return True
        words = [(word.value or "").partition("=")[0] for word in launch.words]
        removed = [option_of(edit.name) for edit in remedy.edits if edit.op == "remove"]
        return len(removed) == len(remedy.edits) and not set(removed).intersection(words)

    def _is_useless(self, remedy: Remedy) -> bool:
        """Whether the release lacks an option or a variable of a remedy, or the command sets all its variables."""
        environment = {} if self.found is None else self.found.environment
        values = {name: setting.value.value for name, setting in environment.items()}
        if all(
            edit.op == "env"
            and (edit.name not in values if edit.value is None else values.get(edit.name) == str(edit.value))
            for edit in remedy.edits
        ):
            return True
        if self.data is None:
            return False
        options_known = {"model", "model_tag", _SUBCOMMAND, *self.data.by_dest}
        return any(
            edit.name not in (options_known if edit.op == "set" else self.data.environment)
            for edit in remedy.edits
            if edit.op == "set" or (edit.op == "env" and edit.name.startswith("VLLM_"))
        )

    @cached_property
    def _is_damaged(self) -> bool:
        """Whether the words are too damaged for a command: repairing them is slow and useless."""
        problems = self._parsed.problems if self._parsed else ()
        return sum(problem.is_refusal for problem in problems) > _MOST_ERRORS

    @cached_property
    def _parsed(self) -> Parsed | None:
        """The words as the release's parser reads them; None without words."""
        return None if self.found is None else self._read(self.found)

    def _read(self, start: WrittenLaunch) -> Parsed:
        words = [word.value for word in start.words]
        return arguments.parse(words, self._edited_as, deployment.parser_entry(start.entry, words, self._edited_as))

    @cached_property
    def _given(self) -> tuple[LaunchFile, WrittenLaunch] | None:
        """The given text with its safe fixes applied, and its launch; None if only the log shows the command."""
        if self.page is None or self.found is None:
            return None
        text = self._with_fixes(self.page.text)
        page = self.page if text == self.page.text else documents.read(text, kind=self.page.kind)
        launch = self._chosen(page)
        return None if launch is None else (page, launch)

    @cached_property
    def _own_errors(self) -> Counter[tuple[str, str]]:
        if self._given is not None:
            return self._errors(self._given[0].text)
        return Counter() if self.found is None else self._errors(self._with_fixes(to_shell(Deployment.of(self.found))))

    def _judged(self, text: str) -> LintedText:
        if text not in self._judged_texts:
            self._judged_texts[text] = LintedText(
                text, self._knowledge(), LintRequest(vllm=self.vllm if self.data is not None else None)
            )
        return self._judged_texts[text]

    def _with_fixes(self, text: str) -> str:
        judged = fixing.with_fixes(self._judged(text))
        return self._judged_texts.setdefault(judged.text, judged).text

    def _errors(self, text: str) -> Counter[tuple[str, str]]:
        judged = self._judged(text)
        issues_found = issues(judged, Secrets(*judged.readings))
        return Counter((issue.rule, issue.message) for issue in issues_found if issue.severity is IssueSeverity.ERROR)

    def _shown(self, text: str) -> str | None:
        """The part of an edited text to show, without secrets: the launch with all changes, or the whole."""
        if self._given is None or self.page is None:
            return None
        page, launch = self._given
        again = documents.read(text, kind=page.kind)
        if len(again.starts) != len(page.starts):
            return None
        start = again.starts[page.starts.index(launch)]
        first, last = _extent(start)
        before = _alike(self.page.text, text)
        after = _alike(self.page.text[before:][::-1], text[before:][::-1])
        parts = [_lines(text, min(first, before), max(last, len(text) - after))]
        if start.kind in _IN_LINES:
            parts += [(begin, parts[0][1]) for begin in _assignments(text, *parts[0])]
        head = ""
        if start.kind == "compose":  # a service needs its parent key
            head = "services:\n"
            parts = [(text.rfind("\n", 0, max(begin - 1, 0)) + 1, end) for begin, end in parts]
        if len(text) <= _WHOLE_CHARACTERS and text.count("\n") <= _WHOLE_LINES:
            parts.insert(len(parts) if start.kind in _IN_LINES else 0, (0, len(text)))
        secrets = Secrets(*self._judged(text).readings)
        for is_exact in (True, False):
            for begin, end in parts:
                part = (head if begin else "") + text[begin:end]
                if _is_start_of(part, start, is_exact=is_exact) and not self._errors(part):
                    return (head if begin else "") + secrets.part(begin, end)
        return None

    @staticmethod
    def _unknown(remedy: Remedy, why: str) -> Remedy:
        return replace(remedy, checks=replace(remedy.checks, lint=f"unknown: {unknown_reason(why)}"))

    @cached_property
    def is_another(self) -> bool:
        """Whether the log is certainly of another launch.

        It names another model, or every one of several launches sets other arguments and none agrees best.
        """
        starts = starts_of(self.page) if self.is_given and self.page is not None else []
        if self.other_model or len(starts) < 2 or not self.logged or self.data is None or self._nearest(starts)[1]:
            return bool(self.other_model)
        return all(any(self._compared(self._flags_of(start))) for start in starts)

    def differences(self) -> list[ArgumentDifference]:
        is_compared = self.is_given and self.found is not None and self.data is not None and bool(self.logged)
        compared = self._compared(self.flags) if is_compared else ()
        return [*self.other_model, *compared][:_MAX_TOLD]

    @cached_property
    def other_model(self) -> Sequence[ArgumentDifference]:
        """The models of command and log if both are named as on the Hub and end differently."""
        if not self.is_given:
            return ()
        given, ran = str(self.flags.get("model_tag") or self.flags.get("model") or ""), self.model
        both = _HUB_NAME.fullmatch(given) and _HUB_NAME.fullmatch(ran)
        is_same = _last_part(given) == _last_part(ran)
        return [ArgumentDifference("model", given, ran)] if both and not is_same else ()

    @cached_property
    def flags(self) -> Mapping[str, Any]:
        """Options that the command sets, by argparse destination, without unknown values."""
        return self._flags_of(self.found) if self.found is not None else {}

    def _flags_of(self, start: WrittenLaunch) -> Mapping[str, Any]:
        parsed = self._parsed if start is self.found else self._read(start)
        flags = parsed.flags if parsed else {}
        return {name: value for name, value in flags.items() if value is not UNKNOWN}

    def _compared(self, flags: Mapping[str, Any]) -> Iterator[ArgumentDifference]:
        for name in sorted({*flags, *self.logged} - _NOT_COMPARED):
            in_command, ran = flags.get(name, _UNSET), self.logged.get(name, _UNSET)
            if _normal(in_command) == _normal(ran):
                continue
            default_known = self.data.default(name) if self.data else None
            default = _normal(default_known.value) if default_known and default_known.is_known else _UNSET
            if ran is _UNSET and (default is _UNSET or _normal(in_command) == default):
                continue
            is_unknown = self.data is None or name not in self.data.by_dest
            if in_command is _UNSET and (is_unknown or _normal(ran) == default):
                continue
            yield ArgumentDifference(name, _shown(in_command), _shown(ran))


def _shown_start(text: str | None) -> LaunchFile | None:
    """A command that a log shows; None unless it is exactly one launch."""
    page = None if text is None else documents.read(text, kind="shell")
    return page if page is not None and len(starts_of(page)) == 1 else None


def check_starts(text: str, name: str) -> None:
    """Check that a text given as a log's command launches a server.

    Raises:
        InputError: It does not.
    """
    if not starts_of(documents.read(text, name)):
        raise InputError(f"{name}: no vLLM launch found; use the script or manifest that produced the log")


def starts_of(page: LaunchFile) -> list[WrittenLaunch]:
    """Launches of a text that may have written a log."""
    return [start for start in page.starts if not start.keywords]


def _last_part(model: str) -> str:
    """A model's name without its organization or folder, in lower case."""
    return model.rpartition("/")[2].casefold()


def _alike(left: str, right: str) -> int:
    """Length of the common beginning of two texts."""
    pairs = zip(left, right, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def _extent(start: WrittenLaunch) -> tuple[int, int]:
    """Range of a launch with its context: its shell command, or its service."""
    spans = [(start.start, start.end), *((layer.start, layer.end) for layer in start.within), *start.keys.values()]
    if start.invocation is not None:
        spans.append((start.invocation.start, start.invocation.end))
        spans += [(document.at[0], document.at[-1]) for document in start.invocation.documents]
    return min(first for first, _ in spans), max(last for _, last in spans)


def _lines(text: str, start: int, end: int) -> tuple[int, int]:
    """The whole lines of a stretch, with the continuation of the last one."""
    start = text.rfind("\n", 0, start) + 1
    while True:
        stop = text.find("\n", end)
        if stop < 0:
            return start, len(text)
        if not _GOES_ON.search(text, max(stop - _MAX_GOING_ON, start), stop):
            return start, stop + 1
        end = stop + 1


def _assignments(text: str, begin: int, end: int) -> list[int]:
    """Where the lines begin that assign a variable of a part of a script, the nearest above it first."""
    names = set(_VARIABLE.findall(text, begin, end))
    lines = ((match[1], text.rfind("\n", 0, match.start(1)) + 1) for match in _ASSIGNED.finditer(text, 0, begin))
    return sorted({line for name, line in lines if name in names}, reverse=True)[:_MOST_ASSIGNMENTS]


_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)", re.ASCII)
_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)=", re.ASCII)
_MOST_ASSIGNMENTS = 10


def _is_start_of(part: str, start: WrittenLaunch, *, is_exact: bool) -> bool:
    """Whether a part of a text contains the same launch; unless exact, its variables may be set elsewhere."""
    return any(
        candidate.entry == start.entry
        and len(candidate.words) == len(start.words)
        and all(
            word.value == same.value or (word.value is None and not is_exact)
            for word, same in zip(candidate.words, start.words, strict=True)
        )
        for candidate in documents.read(part).starts
    )


_UNSET = object()
"""Marks an absent argument."""


def _normal(value: Any) -> Any:
    """A value in a comparable form: numbers as numbers, objects by content, a list of one as its item."""
    if isinstance(value, (list, tuple)):
        return _normal(value[0]) if len(value) == 1 else [_normal(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _normal(item) for key, item in value.items() if item is not None}
    return value


def _shown(value: Any) -> str:
    return "not set" if value is _UNSET else str(value)[:80]
