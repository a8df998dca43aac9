"""Judge every start of vLLM in a file on a release: what is wrong, where, why, and the change that mends it."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

from vllm_runbooks import arguments, deployment, documents, options, support
from vllm_runbooks.arguments import Parsed
from vllm_runbooks.arguments.conditions import UNKNOWN
from vllm_runbooks.deployment import editing
from vllm_runbooks.documents.starts import Found, Loose
from vllm_runbooks.excerpt import Changed, Places, Replacement, applied
from vllm_runbooks.lint import environment_rules, meaning, option_rules
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.options import ReleaseData
from vllm_runbooks.printed import masked
from vllm_runbooks.records import (
    Case,
    ChangedDefault,
    CommandRelease,
    Edit,
    Fix,
    Issue,
    IssueSeverity,
    Judgement,
    Launch,
    Linted,
    Migrated,
    Rule,
    Verdict,
)
from vllm_runbooks.redact import Redactor
from vllm_runbooks.secret_places import names_secret
from vllm_runbooks.shell import Word
from vllm_runbooks.specs import Specs

MAX_ISSUES = 500
"""Issues of one file; what follows is not told: nobody reads it."""
_MAX_ROUNDS = 8
"""Times that a file is mended: a command that was cut shows its other faults once it is whole."""
_MAX_TEXT = 400
_MAX_MOVED = 40
"""Starts that are rewritten when a file is moved to another release: the file is read again for each, to be sure."""
_MAX_BITS = 1024
_TOO_MUCH = "file.too-much"
_QUOTES = "\"'\u2018\u2019\u201c\u201d"
_TELLING = 8
"""Characters from which a value is replaced wherever it stands; a shorter word may be a part of others."""
_REFERENCE = re.compile(r"\$|<|\{\{|[A-Z_]{1,60}\Z")
"""What stands for a secret and is none."""
_GLUED = re.compile(r"[^\s-]--([A-Za-z][A-Za-z-]{1,60})\Z", re.ASCII)
"""An option that lost the blank in front of it."""
_BEHIND = re.compile(r"[ \t]{0,40}(?:\\?[ \t]{0,40}(?:#[^\n]{0,400})?\n[ \t]{0,40})?(\S{1,400})")
"""The word behind an option that lacks its value, on its line or the next."""
_HOLE = re.compile(r"\{(\w+)\}")


class Opinion(Protocol):
    """What an installed vLLM makes of one command."""

    @property
    def vllm(self) -> str:
        """The release that was asked."""

    @property
    def stage(self) -> str | None:
        """Where it refuses the command; None: it does not."""

    @property
    def says(self) -> str:
        """Its message."""


Ask = Callable[[str, Sequence[Sequence[str]]], Sequence[Opinion]]
"""Asks an installed vLLM: the entry, and commands as the words its parser gets."""


@dataclass(frozen=True)
class Knowledge:
    """What commands are judged by, beside the data of the releases."""

    rules: Mapping[str, Rule]
    specs: Specs

    @cached_property
    def tables(self) -> dict[str, Mapping[str, Any]]:
        """The tables of the rules, by rule."""
        return {name: rule.values for name, rule in self.rules.items()}


@dataclass(frozen=True)
class Asked:
    """What is asked about a text."""

    name: str = ""
    """Of the file: it tells the format where the text does not."""
    vllm: str | None = None
    """The release to judge by; None: the one that an image's tag names, else the newest that is known."""
    gpus: str | None = None


def lint(text: str, knowledge: Knowledge, asked: Asked, *, fix: bool = False, ask: Ask | None = None) -> Linted:
    """Judge a script, manifest, Python program or page of text; with `fix`, `fixed` is the whole text mended.

    Raises:
        InputError: the release or a GPU is not known, or the installed vLLM does not answer.
    """
    judged = _Judged(text, knowledge, asked, ask)
    secrets = _Secrets(judged)
    fixed = secrets.hidden(_mended(judged).text) if fix else None
    return Linted(judged.release, tuple(_issues(judged, secrets)), tuple(_launches(judged)), fixed)


def judge(found: Linted, case: Case | None) -> Judgement:
    """The verdict on commands: against what a case expects, else on whether anything is wrong."""
    wrong = [issue for issue in found.issues if issue.severity is not IssueSeverity.INFO]
    if case is not None and case.expect.issues is not None:
        expected = {(each.rule, each.line) for each in case.expect.issues}
        got = {(issue.rule, issue.line) for issue in wrong}
        differences = [f"line {line}: {rule}: expected, not found" for rule, line in sorted(expected - got)]
        differences += [f"line {line}: {rule}: found, not expected" for rule, line in sorted(got - expected)]
        reason = "; ".join(differences) or f"as expected: {len(expected)} issues"
        verdict = Verdict.FAIL if differences else Verdict.PASS
    elif wrong:
        verdict, reason = Verdict.FAIL, f"line {wrong[0].line}: {wrong[0].message} ({wrong[0].rule})"
    elif not found.deployments:
        verdict, reason = Verdict.FAIL, "no start of vLLM was found, so nothing was checked"
    else:
        verdict, reason = Verdict.PASS, f"nothing wrong on vLLM {found.vllm.version}"
    return Judgement(verdict, reason, case.id if case else None, None, None, ())


def mended(text: str, knowledge: Knowledge, asked: Asked) -> str:
    """The text with every fix made, and those that show only then. Secrets are left as they are: show it to nobody.

    Raises:
        InputError: as `lint`.
    """
    return _mended(_Judged(text, knowledge, asked)).text


def _mended(judged: _Judged) -> _Judged:
    """The text with every fix made, judged as far as that was needed."""
    for _ in range(_MAX_ROUNDS):
        changed = applied(judged.text, _apart(judged.hits))
        if changed == judged.text:
            break
        judged = _Judged(changed, judged.knowledge, judged.asked)
    return judged


def migrate(text: str, knowledge: Knowledge, asked: Asked, *, from_: str) -> tuple[Migrated, str]:
    """Move a text from one release to the one that is asked about: what is found, and the text rewritten.

    What is wrong on the new release is mended where a fix is certain; a setting that was left to a default which has
    changed is set to the former value where an option can say it. Secrets are left in the text: show it to nobody.

    Raises:
        InputError: as `lint`.
    """
    before = options.load(from_)
    judged = _Judged(text, knowledge, asked)
    moved = _mended(judged)
    changes: dict[str, ChangedDefault] = {}
    edits: list[Replacement] = []
    for number, (start, parsed) in enumerate(moved.parsed):
        data = moved.data(start)
        found = list(_changed_defaults(parsed, before, data))
        wanted = [Edit("set", change.option, change.from_) for change in found if change.explicit]
        made: tuple[Replacement, ...] = ()
        if wanted and start.entry not in _CALLS and start.is_certain and number < _MAX_MOVED:
            made = editing.edits(moved.page, start, wanted, data)
        edits += made
        for change in found:
            explicit = change.explicit and bool(made)
            changes[change.option] = replace(change, explicit=explicit or _is_explicit(changes, change.option))
    rewritten = applied(moved.text, edits)
    secrets = _Secrets(judged)
    shown = secrets.hidden(rewritten)
    diff = "".join(
        difflib.unified_diff(
            secrets.hidden(text).splitlines(keepends=True),
            shown.splitlines(keepends=True),
            f"{from_}",
            f"{judged.release.version}",
        )
    )
    told = Migrated(
        judged.release,
        tuple(_issues(judged, secrets)),
        tuple(_launches(judged)),
        shown,
        tuple(changes[name] for name in sorted(changes)),
        diff,
    )
    return told, rewritten


def hidden(text: str, knowledge: Knowledge, asked: Asked) -> str:
    """The text as it may be shown: its secrets replaced, also those that only reading its commands tells."""
    return _Secrets(_Judged(text, knowledge, asked)).hidden(text)


def _is_explicit(changes: Mapping[str, ChangedDefault], option: str) -> bool:
    return option in changes and changes[option].explicit


def _changed_defaults(parsed: Parsed, before: ReleaseData, after: ReleaseData) -> Iterator[ChangedDefault]:
    """Settings left to their default, which is known in both releases and differs."""
    for dest, option in after.by_dest.items():
        if dest in parsed.flags or dest not in before.by_dest:
            continue
        old, new = before.default(dest), after.default(dest)
        if old.is_known and new.is_known and old.value != new.value and not _is_nothing(old.value, new.value):
            # A text without choices names a class or a path of its own release, and what is left open by either release
            # is no value: where it was not asked for it must not become a demand.
            is_plain = isinstance(old.value, (int, float)) or (
                isinstance(old.value, str) and option.choices is not None
            )
            is_plain = is_plain and new.value is not None and not option.deprecated and _is_accepted(option, old.value)
            yield ChangedDefault(dest, old.value, new.value, explicit=is_plain)


def _is_nothing(*values: Any) -> bool:
    """Whether all of several defaults say that nothing is set."""
    return all(value is None or value in ("", {}, [], "None") for value in values)


def _is_accepted(option: options.Option, value: Any) -> bool:
    """Whether an option can be given a value."""
    if isinstance(value, bool):
        return value in option.flag_values.values()
    return option.takes_value and (option.choices is None or value in option.choices)


class _Secrets:
    """What of a text must not be shown: what looks like a secret, and what a start is given as one."""

    def __init__(self, judged: _Judged) -> None:
        self._redactor = Redactor()
        self._redactor.learn([judged.text])
        self._placeholders: dict[str, str] = {}
        for written in _given_secrets(judged):
            value = written.strip(_QUOTES)
            is_telling = len(value) >= _TELLING or (len(value) >= _TELLING - 2 and any(c.isdigit() for c in value))
            if is_telling and _REFERENCE.match(value) is None:
                self._redactor.learn([f"api_key={value}\n"])
                self._placeholders[value] = self._redactor.value(value)

    def hidden(self, text: str) -> str:
        """The text with placeholders for the secrets."""
        text = self._redactor.text(text)
        for value in sorted(self._placeholders, key=len, reverse=True):
            text = text.replace(value, self._placeholders[value])
        return text


def _given_secrets(judged: _Judged) -> Iterator[str]:
    """Texts that are secret for what they are given to: an option or a variable with such a name, or a misspelt one."""
    for setting in judged.page.settings:
        if names_secret(setting.name):
            yield from _texts(setting.value)
    for start, parsed in judged.parsed:
        for word, role in zip(start.words, parsed.roles, strict=False):
            if role.kind == "value" and names_secret(_plain_name(role.option)):
                yield from _texts(word)
        for glued, word in pairwise(start.words):
            if (name := _GLUED.search(glued.value or "")) and names_secret(_plain_name(name[1])):
                yield (word.value or "").partition("--")[0]
        for keyword in start.keywords:
            if isinstance(keyword.value, str) and names_secret(keyword.name):
                yield keyword.value
        for problem in parsed.problems:
            names = (problem.option, *problem.says.get("near", "").split())
            if problem.option_word is None or not any(names_secret(_plain_name(name)) for name in names):
                continue
            option = start.words[problem.option_word]
            yield (option.value or "").partition("=")[2]
            if problem.option_word + 1 < len(start.words):
                yield from _texts(start.words[problem.option_word + 1])
            if behind := _BEHIND.match(judged.text, option.end):
                yield behind[1]
    if judged.meant is not None:
        yield from _given_secrets(judged.meant[0])


def _texts(word: Word) -> Iterator[str]:
    """A word as it is delivered, and where that differs as it is written."""
    if word.value:
        yield word.value
        if word.value not in word.raw:
            yield word.raw


def _plain_name(option: str | None) -> str:
    return (option or "").lstrip("-").replace("-", "_")


def _apart(hits: Iterable[Hit]) -> Iterator[Replacement]:
    """The edits of hits that do not touch one another; what is left is found again when these are made."""
    taken: list[tuple[int, int]] = []
    for hit in hits:
        if not hit.edits:
            continue
        start, end = _span(hit.edits)
        at = bisect_left(taken, (start, end))
        before, behind = taken[max(at - 1, 0) : at], taken[at : at + 1]
        if all(start > done for _, done in before) and all(end < begun for begun, _ in behind):
            taken.insert(at, (start, end))
            yield from hit.edits


def _span(edits: Sequence[Replacement]) -> tuple[int, int]:
    return min(edit.start for edit in edits), max(edit.end for edit in edits)


def _issues(judged: _Judged, secrets: _Secrets) -> Iterator[Issue]:
    places = Places(judged.text)
    for hit in _most_serious(judged):
        rule = judged.knowledge.rules[hit.rule]
        line, column = places(hit.start)
        yield Issue(
            rule=rule.id,
            severity=_severity(rule, hit),
            line=line,
            column=column,
            text=secrets.hidden(judged.text[hit.start : min(hit.end, hit.start + _MAX_TEXT)])[:_MAX_TEXT],
            message=message(rule, {name: secrets.hidden(said) for name, said in hit.says.items()}),
            fix=_fix(judged.text, hit.edits, places, secrets) if hit.edits else None,
        )


def _severity(rule: Rule, hit: Hit) -> IssueSeverity:
    return IssueSeverity.WARNING if hit.is_loose and rule.severity is IssueSeverity.ERROR else rule.severity


def _most_serious(judged: _Judged) -> list[Hit]:
    """The hits that are told, in the order of the text: of very many the most serious ones, and that there are more."""
    if len(judged.hits) <= MAX_ISSUES:
        return judged.hits
    order = list(IssueSeverity)
    rules = judged.knowledge.rules
    kept = sorted(judged.hits, key=lambda hit: order.index(_severity(rules[hit.rule], hit)))[:MAX_ISSUES]
    more = Hit(_TOO_MUCH, 0, 0, {"what": f"{len(judged.hits) - MAX_ISSUES} more issues"})
    told = [more] if _TOO_MUCH in rules else []
    return [*told, *sorted(kept, key=lambda hit: (hit.start, hit.end, hit.rule))]


def message(rule: Rule, says: Mapping[str, str]) -> str:
    """The rule's sentences with what was found; one that needs what is not known is left out."""
    return " ".join(
        _HOLE.sub(lambda hole: says[hole[1]], sentence)
        for sentence in rule.message
        if all(says.get(name) for name in _HOLE.findall(sentence))
    )


def _fix(text: str, edits: Sequence[Replacement], places: Places, secrets: _Secrets) -> Fix | None:
    """The edits as one replacement; None where a secret stands in between, which a placeholder would destroy."""
    start, end = _span(edits)
    inside = [Replacement(edit.start - start, edit.end - start, edit.new_text) for edit in edits]
    new_text = applied(text[start:end], inside)
    return Fix(*places(start), *places(end), new_text) if secrets.hidden(new_text) == new_text else None


def _launches(judged: _Judged) -> Iterator[Launch]:
    for start, parsed in judged.parsed:
        flags = {
            dest: masked(_known(value), dest)
            for dest, value in parsed.flags.items()
            if value is not UNKNOWN and dest != "model"
        }
        env = {
            name: None if setting.value.value is None else masked(setting.value.value, name)
            for name, setting in start.environment.items()
        }
        yield Launch(None if parsed.model is None else masked(parsed.model), flags, env)


def _known(value: Any) -> Any:
    """A value with None for what in it cannot be known, and numbers of a size that JSON's readers take."""
    if isinstance(value, Mapping):
        return {str(key): _known(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_known(inner) for inner in value]
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return None
    return value if value is None or isinstance(value, (str, int, float)) else None


class _Judged:
    """A text with all that is wrong in it."""

    def __init__(self, text: str, knowledge: Knowledge, asked: Asked, ask: Ask | None = None) -> None:
        self.text, self.knowledge, self.asked, self.ask = text, knowledge, asked, ask
        self.cards = knowledge.specs.gpus(asked.gpus) if asked.gpus else None
        self.page = documents.read(text, asked.name)
        self._data: dict[str, ReleaseData] = {}

    @cached_property
    def meant(self) -> tuple[_Judged, Changed] | None:
        """The script as it was meant, where the shell cuts a command: what stands behind the cut is judged as well."""
        edits = [edit for trouble in self.page.troubles if trouble.kind in _CUTS for edit in trouble.edits]
        changed = Changed(self.text, edits)
        if changed.text == self.text:
            return None
        return _Judged(changed.text, self.knowledge, self.asked, self.ask), changed

    @cached_property
    def release(self) -> CommandRelease:
        """The release that the file as a whole is judged by."""
        if self.asked.vllm is not None:
            version, source = self.asked.vllm, "given"
        else:
            tagged = next((start.release for start in self.page.starts if start.release), None)
            version, source = (tagged, "image") if tagged else (options.known_releases()[-1], "newest")
        return CommandRelease(version, source, self._loaded(version).version)

    def data(self, start: Found | None = None) -> ReleaseData:
        """The data that a start is judged by: an image of its own tells its own release."""
        own = start.release if start and self.asked.vllm is None else None
        return self._loaded(own or self.release.version)

    def _loaded(self, version: str) -> ReleaseData:
        if version not in self._data:
            self._data[version] = options.load(version)
        return self._data[version]

    @cached_property
    def parsed(self) -> list[tuple[Found, Parsed]]:
        """The starts, as their release's parser understands them."""
        return [(start, self._parse(start)) for start in self.page.starts if start.entry in _STARTS]

    def _parse(self, start: Found) -> Parsed:
        data = self.data(start)
        if start.entry in _CALLS:
            return _called(start)
        words = [word.value for word in start.words]
        environment = {name: setting.value.value for name, setting in start.environment.items()}
        return arguments.parse(words, data, deployment.parser_entry(start.entry, words, data), environment=environment)

    @cached_property
    def hits(self) -> list[Hit]:
        """Every broken rule, in the order of the text; of the same rule at the same place one."""
        found: dict[tuple[str, int, int], Hit] = {}
        for hit in self._all():
            if hit.rule in self.knowledge.rules:
                found.setdefault((hit.rule, hit.start, hit.end), hit)
        return sorted(found.values(), key=lambda hit: (hit.start, hit.end, hit.rule))

    def _all(self) -> Iterator[Hit]:
        for trouble in self.page.troubles:
            rule = trouble.kind if "." in trouble.kind else f"shell.{trouble.kind}"
            yield Hit(rule, trouble.start, trouble.end, trouble.says, trouble.edits)
        if self.meant is None:
            yield from self._of_starts()
            return
        judged, changed = self.meant
        for hit in judged.hits:
            if not hit.rule.startswith("shell."):
                keeps = all(changed.keeps(edit.start, edit.end) for edit in hit.edits)
                edits = tuple(
                    Replacement(changed.back(edit.start), changed.back(edit.end), edit.new_text)
                    for edit in hit.edits
                    if keeps
                )
                yield replace(hit, start=changed.back(hit.start), end=changed.back(hit.end), edits=edits)

    def _of_starts(self) -> Iterator[Hit]:
        tables = self.knowledge.tables
        cut = [(trouble.start, trouble.end) for trouble in self.page.troubles if trouble.edits]
        for start, parsed in self.parsed:
            data = self.data(start)
            if start.entry in _CALLS:
                problems = arguments.parse_call(_literals(start), data, start.entry)
                yield from option_rules.of_call(start, problems, data, tables)
            else:
                for hit in option_rules.of_start(self.page, start, parsed, data, tables):
                    # What the shell makes of a fault in the script is told as that fault: nobody meant those words.
                    if not any(hit.start < end and begin < hit.end for begin, end in cut):
                        yield hit
        for loose in self.page.loose:
            yield from option_rules.of_loose(loose, self.data(), tables)
        yield from environment_rules.of_page(self.page, self.data, tables)
        yield from self._of_meaning()
        if self.ask is not None:
            yield from self._of_opinion(self.ask)

    def _of_meaning(self) -> Iterator[Hit]:
        commands = [self._command(start, parsed) for start, parsed in self.parsed]
        for (start, parsed), command in zip(self.parsed, commands, strict=True):
            for judgement in meaning.judge(command):
                yield self._placed(start, parsed, judgement)
        for loose in self.page.loose:
            yield from self._of_option(loose)
        together = [index for index, (start, _) in enumerate(self.parsed) if self._runs_beside_others(start)]
        for index, judgement in meaning.judge_together([commands[index] for index in together]):
            yield self._placed(*self.parsed[together[index]], judgement)

    def _of_option(self, loose: Loose) -> Iterator[Hit]:
        """What an option that stands on a line of its own means by itself: of its command nothing is known."""
        if loose.where != "bare":
            return
        data = self.data()
        parsed = arguments.parse([word.value for word in loose.words], data)
        command = meaning.Command(parsed.flags, support.load(data.version), cards=self.cards, entry="")
        for judgement in meaning.judge(command):
            if judgement.rule in meaning.OF_ONE_OPTION:
                yield Hit(judgement.rule, loose.start, loose.end, {**judgement.says, "vllm": data.asked})

    def _runs_beside_others(self, start: Found) -> bool:
        """Whether a start runs at the same time as the others like it: a page may hold alternatives."""
        if self.page.kind == "yaml":
            return start.kind in ("compose", "kubernetes")
        return self.page.kind == "shell" and start.invocation is not None and start.invocation.is_background

    def _command(self, start: Found, parsed: Parsed) -> meaning.Command:
        data = self.data(start)
        return meaning.Command(
            flags=parsed.flags,
            support=support.load(data.version),
            model=self.knowledge.specs.model(parsed.model) if parsed.model else None,
            cards=self.cards,
            devices=start.gpus.devices if start.gpus else None,
            device_count=start.gpus.count if start.gpus else None,
            environment={name: setting.value.value for name, setting in start.environment.items()},
            entry=start.entry,
            is_elided=start.is_elided,
            defaults=_Defaults(data),
            fits=self.knowledge.specs.fits,
        )

    def _placed(self, start: Found, parsed: Parsed, judgement: meaning.Judgement) -> Hit:
        """A judgement at the option, else the variable, that it is about, else at the start itself."""
        from_, to = start.start, start.end
        if start.prefix:
            from_, to = start.prefix[0].start, start.prefix[-1].end
        given = next((parsed.given[dest][-1] for dest in judgement.dests if parsed.given.get(dest)), None)
        variable = next((start.environment[name] for name in judgement.variables if name in start.environment), None)
        if given is not None and start.entry in _CALLS:
            from_, to = start.keywords[given].name_start, start.keywords[given].end
        elif given is not None:
            from_, to = start.words[given].start, start.words[_last(parsed, given)].end
        elif variable is not None:
            from_, to = variable.start, variable.end
        edits: tuple[Replacement, ...] = ()
        if given is not None and self.knowledge.tables.get(judgement.rule, {}).get("removes"):
            edits = editing.edits(self.page, start, [Edit("remove", judgement.dests[0])], self.data(start))
        return Hit(judgement.rule, from_, to, {**judgement.says, "vllm": self.data(start).asked}, edits)

    def _of_opinion(self, ask: Ask) -> Iterator[Hit]:
        """What an installed vLLM says of the starts whose words are all known."""
        for entry in ("serve", "api_server"):
            known = [
                (start, parsed)
                for start, parsed in self.parsed
                if start.entry not in _CALLS and _is_for(entry, start, self.data(start))
            ]
            if not known:
                continue
            said = ask(entry, [[word.value or "" for word in start.words] for start, _ in known])
            for (start, parsed), opinion in zip(known, said, strict=True):
                says = {"asked": opinion.vllm, "says": opinion.says, "vllm": self.data(start).asked}
                if opinion.stage is not None:
                    yield Hit("parser.refuses", start.start, start.end, says)
                is_comparable = options.load(opinion.vllm).version == self.data(start).version
                if is_comparable and parsed.is_refused != (opinion.stage in ("parse", "validate")):
                    ours = "refused" if parsed.is_refused else "accepted"
                    yield Hit("parser.disagrees", start.start, start.end, says | {"ours": ours})


class _Defaults(Mapping[str, Any]):
    """The defaults of a release, looked up when asked for."""

    def __init__(self, data: ReleaseData) -> None:
        self._data = data

    def __getitem__(self, dest: str) -> Any:
        found = self._data.default(dest)
        if not found.is_known:
            raise KeyError(dest)
        return found.value

    def __iter__(self) -> Iterator[str]:
        return iter(self._data.by_dest)

    def __len__(self) -> int:
        return len(self._data.by_dest)


_CUTS = (
    "comment-after-continuation",
    "blank-after-continuation",
    "empty-line-after-continuation",
    "comment-line-after-continuation",
    "missing-continuation",
    "carriage-returns",
)
"""Faults by which the shell ends a command before it was meant to end."""
_CALLS = ("LLM", "EngineArgs", "AsyncEngineArgs")
_STARTS = ("serve", "api_server", "image", *_CALLS)
"""Starts whose arguments are judged; others, as a benchmark, take options of their own."""


def _literals(start: Found) -> dict[str, Any]:
    """Values of a call's arguments; UNKNOWN where they cannot be known."""
    return {keyword.name: keyword.value if keyword.is_known else UNKNOWN for keyword in start.keywords}


def _called(start: Found) -> Parsed:
    """A Python call as its arguments are: nothing is converted there."""
    values = _literals(start)
    model = values.get("model")
    given = {keyword.name: (index,) for index, keyword in enumerate(start.keywords)}
    return Parsed(values, model if isinstance(model, str) else None, (), (), given)


def _is_for(entry: str, start: Found, data: ReleaseData) -> bool:
    """Whether a parser gets a start's words, and all of them are known."""
    words = [word.value for word in start.words]
    return None not in words and deployment.parser_entry(start.entry, words, data) == entry


def _last(parsed: Parsed, option_word: int) -> int:
    """The last word that belongs to an option."""
    return max((i for i, role in enumerate(parsed.roles) if role.option_word == option_word), default=option_word)
