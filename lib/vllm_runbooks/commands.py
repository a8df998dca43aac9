"""Ways out of a failure as commands: the start's own command, edited, and judged by the linter for its release."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from vllm_runbooks import arguments, deployment, documents, lint, options
from vllm_runbooks.conditions import UNKNOWN
from vllm_runbooks.deployment import Deployment
from vllm_runbooks.documents import Page
from vllm_runbooks.errors import InputError
from vllm_runbooks.lint import Asked, Knowledge
from vllm_runbooks.options import ReleaseData
from vllm_runbooks.records import IssueSeverity, Remedy
from vllm_runbooks.starts import Found

_WRITERS: Mapping[str, Callable[[Deployment], str]] = {
    "docker": deployment.to_docker,
    "compose": deployment.to_compose,
    "systemd": deployment.to_systemd,
}
"""How the command is written: as it was given where that is one of these, else for a shell."""
_NOT_COMPARED = frozenset({"model", "model_tag", "config", "api_key", "subparser", "dispatch_function"})
"""Arguments whose two forms need not be alike: paths of the model are mounted elsewhere, secrets are replaced."""
_MAX_TOLD = 12


class Difference(NamedTuple):
    """An argument that a command and a log of it state differently."""

    name: str
    given: str
    """In the command; "not set" where it is not."""
    ran: str
    """In the log."""


class Base:
    """The command that remedies are edits of."""

    def __init__(
        self, command: str | None, logged: Mapping[str, Any], vllm: str | None, knowledge: Callable[[], Knowledge]
    ) -> None:
        """The command of the text that was given, else what the log prints of its arguments."""
        self.logged = {name: value for name, value in logged.items() if not name.startswith("_")}
        self.found = self._chosen(None if command is None else documents.read(command))
        self.vllm = vllm or (self.found.release if self.found else None)
        self._knowledge = knowledge

    def _chosen(self, page: Page | None) -> Found | None:
        """Of several starts the one that says most of what the log says."""
        if page is None:
            return documents.from_arguments(self.logged) if self.logged else None
        starts = [start for start in page.starts if not start.keywords]
        if not starts:
            return None
        said = {str(value) for value in self.logged.values()}
        return max(starts, key=lambda start: sum(word.value in said for word in start.words))

    @cached_property
    def data(self) -> ReleaseData | None:
        """Data of the release; None where it is not known."""
        if self.vllm is None:
            return None
        try:
            return options.load(self.vllm)
        except InputError:
            return None

    def offered(self, remedies: Sequence[Remedy]) -> tuple[Remedy, ...]:
        """The remedies with their commands; one whose command the release would refuse is left out."""
        return tuple(checked for remedy in remedies if (checked := self._checked(remedy)) is not None)

    def _checked(self, remedy: Remedy) -> Remedy | None:
        if not remedy.edits:
            return self._unknown(remedy, "no command is changed")
        if self.found is None:
            return self._unknown(remedy, "the log does not show the arguments; give the command with --command")
        if self.data is None:
            return self._unknown(remedy, "the release is not known; name it with --vllm")
        edited = Deployment.of(self.found).edited(remedy.edits, self.data)
        command, errors = self._written(edited)
        own = self._written(Deployment.of(self.found))[1]
        if set(errors) - set(own):
            return None
        if errors:
            return self._unknown(remedy, f"the command itself has errors ({', '.join(sorted(set(errors)))})")
        return replace(remedy, command=command, checks=replace(remedy.checks, lint="passed"))

    def _written(self, edited: Deployment) -> tuple[str, list[str]]:
        """The command with what can be mended, and the rules by which the release refuses it all the same."""
        asked = Asked(vllm=self.vllm)
        writer = _WRITERS.get(self.found.kind if self.found else "", deployment.to_shell)
        command = lint.mended(writer(edited), self._knowledge(), asked)
        issues = lint.lint(command, self._knowledge(), asked).issues
        return command, [issue.rule for issue in issues if issue.severity is IssueSeverity.ERROR]

    @staticmethod
    def _unknown(remedy: Remedy, why: str) -> Remedy:
        return replace(remedy, checks=replace(remedy.checks, lint=f"unknown: {why}"))

    def differences(self) -> list[Difference]:
        """Arguments that the command given states otherwise than the log of the start."""
        if self.found is None or self.data is None or not self.logged or self.found.kind == "log":
            return []
        return list(self._compared(self.flags))[:_MAX_TOLD]

    @cached_property
    def flags(self) -> Mapping[str, Any]:
        """What the command sets, by argparse destination; what cannot be known is left out."""
        if self.found is None or self.data is None:
            return {}
        words = [word.value for word in self.found.words]
        parsed = arguments.parse(words, self.data, deployment.parser_entry(self.found.entry, words, self.data))
        return {name: value for name, value in parsed.flags.items() if value is not UNKNOWN}

    def _compared(self, flags: Mapping[str, Any]) -> Iterator[Difference]:
        for name in sorted({*flags, *self.logged} - _NOT_COMPARED):
            given, ran = flags.get(name, _UNSET), self.logged.get(name, _UNSET)
            if _normal(given) == _normal(ran):
                continue
            known = self.data.default(name) if self.data else None
            default = _normal(known.value) if known and known.is_known else _UNSET
            if ran is _UNSET and (default is _UNSET or _normal(given) == default):
                continue
            if given is _UNSET and (name not in (self.data.by_dest if self.data else {}) or _normal(ran) == default):
                continue
            yield Difference(name, _shown(given), _shown(ran))


class _Unset:
    """Stands for an argument that is not given."""


_UNSET = _Unset()


def _normal(value: Any) -> Any:
    """A value as it compares: numbers as numbers, objects by their content, a list of one as its item."""
    if isinstance(value, (list, tuple)):
        return _normal(value[0]) if len(value) == 1 else [_normal(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _normal(item) for key, item in value.items() if item is not None}
    return value


def _shown(value: Any) -> str:
    return "not set" if value is _UNSET else str(value)[:80]
