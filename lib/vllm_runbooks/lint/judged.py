"""A text with all that is wrong in it: its starts read, parsed as their releases do, and judged by every rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from vllm_runbooks.catalog import options, support
from vllm_runbooks.catalog.compiled import RulesById
from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.catalog.options import CALLS, ENTRIES, SERVERS, ReleaseData
from vllm_runbooks.catalog.records import Rule
from vllm_runbooks.catalog.specs import Card, Specs
from vllm_runbooks.core.excerpt import Changed, Replacement
from vllm_runbooks.core.records import Edit, IssueSeverity
from vllm_runbooks.lint import calls, config_files, environment_rules, meaning, option_rules
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.lint.records import CommandRelease
from vllm_runbooks.lint.secrecy import Reading
from vllm_runbooks.lint.several_launches import together
from vllm_runbooks.reading import arguments, deployment, documents
from vllm_runbooks.reading.arguments import Parsed
from vllm_runbooks.reading.arguments.conditions import UNKNOWN
from vllm_runbooks.reading.arguments.words import config_words
from vllm_runbooks.reading.deployment import editing
from vllm_runbooks.reading.documents.starts import Found, Loose
from vllm_runbooks.reading.shell import Trouble, Word

_IDLE = "option.without-effect"
_NOT_PYTHON, _OTHER_VLLM = "file.not-python", "file.other-vllm"
_IN_ARGUMENTS = "safety.secret-in-arguments"

_LIMITED = {"size": IssueSeverity.WARNING, "grammar": IssueSeverity.INFO}
"""How serious it is that a program is not read which may be right, by why."""


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
    lang: str | None = None
    """Language of the messages; None: English."""

    @cached_property
    def tables(self) -> dict[str, Mapping[str, Any]]:
        """The tables of the rules, by rule."""
        if isinstance(self.rules, RulesById):
            return self.rules.tables
        return {name: rule.values for name, rule in self.rules.items()}


@dataclass(frozen=True)
class Asked:
    """What is asked about a text."""

    name: str = ""
    """Of the file: it tells the format where the text does not."""
    vllm: str | None = None
    """The release to judge by; None: the one that an image's tag names, else the newest that is known."""
    cards: tuple[Card, ...] | None = None
    """There are; None: not known."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts of the configuration files that the commands name, as far as the caller has them; see `config_names`."""
    apart: Callable[[str, str], Apart | None] | None = None
    """Of a text and its file's name: the programs for which no release is right; None: there are none."""


class Apart(Protocol):
    """The programs of a text that run with a vLLM which is none of the releases that are known."""

    @property
    def says(self) -> Mapping[str, str]:
        """What is told of them."""

    def holds(self, offset: int) -> bool:
        """Whether a place is within one."""


def severity(rule: Rule, hit: Hit) -> IssueSeverity:
    """How serious a hit is: what stands apart from a command is no error, nor is what only this reader cannot read."""
    limit = _LIMITED.get(hit.says.get("of", "")) if hit.rule == "file.not-python" else None
    if limit is not None:
        return limit
    return IssueSeverity.WARNING if hit.is_loose and rule.severity is IssueSeverity.ERROR else rule.severity


class Judged:
    """A text with all that is wrong in it."""

    def __init__(self, text: str, knowledge: Knowledge, asked: Asked, ask: Ask | None = None) -> None:
        self.text, self.knowledge, self.asked, self.ask = text, knowledge, asked, ask
        self.cards = asked.cards
        self.page = documents.read(text, asked.name)
        self._data: dict[str, ReleaseData] = {}

    @cached_property
    def meant(self) -> tuple[Judged, Changed] | None:
        """The script as it was meant, where the shell cuts a command: what stands behind the cut is judged as well."""
        edits = [edit for trouble in self.page.troubles if trouble.kind in _CUTS for edit in trouble.edits]
        changed = Changed(self.text, edits)
        if changed.text == self.text:
            return None
        return Judged(changed.text, self.knowledge, self.asked, self.ask), changed

    @cached_property
    def readings(self) -> list[Reading]:
        """The text as it is read, and as it was meant where the shell cuts a command."""
        own = Reading(self.page, self._read)
        return [own, *self.meant[0].readings] if self.meant is not None else [own]

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
        return [(start, parsed) for start, parsed in self._read if not self._is_apart(start.start)]

    @cached_property
    def _read(self) -> list[tuple[Found, Parsed]]:
        """The starts, those of programs with another vLLM among them."""
        return [
            (start, parsed_by(start, self.data(start), self._config(start)))
            for start in self.page.starts
            if start.entry in _STARTS
        ]

    @cached_property
    def _apart(self) -> Apart | None:
        """The programs with another vLLM; a release that is asked for is what they are judged by."""
        is_asked = self.asked.vllm is None and self.asked.apart is not None
        return self.asked.apart(self.text, self.asked.name) if is_asked and self.asked.apart is not None else None

    def _is_apart(self, offset: int) -> bool:
        return self._apart is not None and self._apart.holds(offset)

    @cached_property
    def configs(self) -> dict[str, config_files.Config | None]:
        """What the configuration files say that the caller has, by name; None for one that is no YAML mapping."""
        return {name: config_files.read(text) for name, text in self.asked.files.items()}

    def has_unknown_file(self, start: Found) -> bool:
        """Whether a configuration file may set more than is seen, which an option of the command would override."""
        return config_files.word_of(start) is not None and self._config(start) is None

    def _config(self, start: Found) -> config_files.Config | None:
        """What the configuration file of a start says, where that is known."""
        word = config_files.word_of(start) if self.asked.files else None
        return self.configs.get(word.value or "") if word is not None else None

    @cached_property
    def faults(self) -> Counter[str]:
        """How often each rule is broken that makes a start wrong."""
        rules = self.knowledge.rules
        told = [hit.rule for hit in self.hits if severity(rules[hit.rule], hit) is not IssueSeverity.INFO]
        return Counter(told)

    def row_of_idle(self, option: str, data: ReleaseData) -> Mapping[str, Any] | None:
        """What is known of an option that a release takes and that controls nothing there; None for any other."""
        told: Mapping[str, Any] | None = self.knowledge.tables.get(_IDLE, {}).get("options", {}).get(option.lstrip("-"))
        return told if told is not None and options.is_within(data.version, told) else None

    @cached_property
    def hits(self) -> list[Hit]:
        """Every broken rule, in the order of the text; of the same rule at the same place one."""
        found: dict[tuple[str, int, int, str], Hit] = {}
        for hit in (*self._all(), *self._other_vllm()):
            if hit.rule in self.knowledge.rules:
                found.setdefault((hit.rule, hit.start, hit.end, hit.where), hit)
        return sorted(found.values(), key=lambda hit: (hit.start, hit.end, hit.rule))

    def _other_vllm(self) -> Iterator[Hit]:
        """The starts that no release is right for."""
        for start, _ in self._read if self._apart is not None else ():
            if self._apart is not None and self._apart.holds(start.start):
                yield Hit(_OTHER_VLLM, start.start, start.end, self._apart.says)

    def _all(self) -> Iterator[Hit]:
        """Every broken rule, but for those of releases in a program with another vLLM."""
        for hit in self._of_text():
            if hit.rule == _NOT_PYTHON or not self._is_apart(hit.start):
                yield hit

    def _of_text(self) -> Iterator[Hit]:
        for trouble in self.page.troubles:
            yield Hit(_rule_of(trouble), trouble.start, trouble.end, trouble.says, trouble.edits)
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
        cut = [trouble for trouble in self.page.troubles if trouble.edits]
        told: set[int] = set()
        for start, parsed in self.parsed:
            data = self.data(start)
            if start.entry in CALLS:
                problems = arguments.parse_call(_literals(start), data, start.entry)
                for hit in option_rules.of_call(start, problems, data, tables):
                    made = hit.edits or calls.edits(self.page, start, hit, data, tables)
                    yield replace(hit, edits=made, is_call=True)
            else:
                for hit in option_rules.of_start(self.page, start, parsed, data, tables):
                    # What the shell makes of a fault in the script is told as that fault: nobody meant those words.
                    # Where a command may run with the fault, it is told once that this one does not.
                    by = next((each for each in cut if hit.start < each.end and each.start < hit.end), None)
                    if by is None:
                        yield hit
                    elif by.start not in told and self._is_graver(hit, by):
                        told.add(by.start)
                        yield replace(hit, edits=())
                yield from self._of_config(start, data)
            yield from self._of_idle(start, parsed)
        for loose in self.page.loose:
            yield from option_rules.of_loose(loose, self.data(), tables)
        hosts = Counter(card.node for card in self.cards) if self.cards is not None else None
        yield from environment_rules.of_page(self.page, self.data, tables, max(hosts.values()) if hosts else None)
        yield from self._of_meaning()
        if self.ask is not None:
            yield from self._of_opinion(self.ask)

    def _is_graver(self, hit: Hit, trouble: Trouble) -> bool:
        """Whether a start ends where the trouble that is the reason for it is only a warning."""
        told, reason = (self.knowledge.rules.get(name) for name in (hit.rule, _rule_of(trouble)))
        if told is None or reason is None:
            return False
        return told.severity is IssueSeverity.ERROR and reason.severity is not IssueSeverity.ERROR

    def _of_config(self, start: Found, data: ReleaseData) -> Iterator[Hit]:
        """What is wrong in the configuration file of a start, told at the word that names it."""
        word = config_files.word_of(start)
        if word is None:
            return
        config, name = self._config(start), word.value or word.raw
        if config is None and word.value is not None and not word.value.endswith(config_files.SUFFIXES):
            return  # refused for its name
        if config is None:
            note = "It is no YAML mapping." if name in self.configs else ""
            yield Hit("option.config-unknown", word.start, word.end, {"value": name, "note": note})
            return
        entry = deployment.parser_entry(start.entry, [each.value for each in start.words], data)
        known = {text for option in data.entries[entry] for text in option.strings}
        for key, value in config.values.items():
            texts = config_words({key: value}, data.features, known.__contains__)
            loose = Loose(tuple(Word(text, word.start, word.end, "") for text in texts), "bare", word.start, word.end)
            for hit in option_rules.of_loose(loose, data, self.knowledge.tables):
                where = Wording(self.knowledge.lang)("{file}, line {number}: ", file=name, number=config.lines[key])
                yield replace(hit, where=where, edits=())

    def _of_idle(self, start: Found, parsed: Parsed) -> Iterator[Hit]:
        """Options that the release takes and that control nothing there."""
        data = self.data(start)
        for dest in parsed.flags:
            option = data.by_dest.get(dest)
            told = self.row_of_idle(option.name, data) if option else None
            if option is not None and told is not None and parsed.given.get(dest):
                says = {"option": option.name, "note": told.get("note", ""), "first": told["first"]}
                yield self._placed(start, parsed, meaning.Judgement(_IDLE, (dest,), says))

    def _of_meaning(self) -> Iterator[Hit]:
        commands = [self._command(start, parsed) for start, parsed in self.parsed]
        for (start, parsed), command in zip(self.parsed, commands, strict=True):
            for judgement in meaning.judge(command):
                if not self._is_private(start, parsed, judgement):
                    yield self._placed(start, parsed, judgement)
        for loose in self.page.loose:
            yield from self._of_option(loose)
        for group in together(self.page, [start for start, _ in self.parsed]):
            for index, judgement in meaning.judge_together([commands[index] for index in group]):
                yield self._placed(*self.parsed[group[index]], judgement)

    def _of_option(self, loose: Loose) -> Iterator[Hit]:
        """What an option that stands on a line of its own means by itself: of its command nothing is known."""
        if loose.where != "bare":
            return
        data = self.data()
        parsed = arguments.parse([word.value for word in loose.words], data)
        command = meaning.Command(
            parsed.flags,
            support.load(data.version),
            cards=self.cards,
            entry="",
            methods=self._quantization["methods"],
            formats=self._quantization["formats"],
        )
        for judgement in meaning.judge(command):
            if judgement.rule in meaning.OF_ONE_OPTION:
                yield Hit(judgement.rule, loose.start, loose.end, {**judgement.says, "vllm": data.asked})

    @cached_property
    def _quantization(self) -> dict[str, Mapping[str, Mapping[str, Any]]]:
        """What the rules know of methods of quantisation and formats of checkpoints."""
        table = self.knowledge.tables.get("meaning.quantization-differs", {})
        return {name: table.get(name, {}) for name in ("methods", "formats")}

    def _command(self, start: Found, parsed: Parsed) -> meaning.Command:
        data = self.data(start)
        return meaning.Command(
            flags=parsed.flags,
            support=support.load(data.version),
            model=self.knowledge.specs.model(parsed.model) if parsed.model else None,
            name=parsed.model,
            has_own_network=start.kind != "shell",
            is_local=start.is_local,
            cards=self.cards,
            devices=start.gpus.devices if start.gpus else None,
            device_count=start.gpus.count if start.gpus else None,
            environment={name: setting.value.value for name, setting in start.environment.items()},
            entry=start.entry,
            is_elided=start.is_elided or any(role.option == "--config" for role in parsed.roles),
            unknown=frozenset(
                problem.option.lstrip("-").replace("-", "_")
                for problem in parsed.problems
                if problem.kind == "unknown" and problem.option
            ),
            defaults=_Defaults(data),
            fits=self.knowledge.specs.fits,
            methods=self._quantization["methods"],
            formats=self._quantization["formats"],
        )

    def _placed(self, start: Found, parsed: Parsed, judgement: meaning.Judgement) -> Hit:
        """A judgement at the option, else the variable, that it is about, else at the start itself."""
        from_, to = start.start, start.end
        if start.prefix:
            from_, to = start.prefix[0].start, start.prefix[-1].end
        given = next((parsed.given[dest][-1] for dest in judgement.dests if parsed.given.get(dest)), None)
        variable = next((start.environment[name] for name in judgement.variables if name in start.environment), None)
        if given is not None and start.entry in CALLS:
            from_, to = start.keywords[given].name_start, start.keywords[given].end
        elif given is not None:
            from_, to = start.words[given].start, start.words[deployment.behind(parsed, given) - 1].end
        elif variable is not None:
            from_, to = variable.start, variable.end
        edits: tuple[Replacement, ...] = ()
        if given is not None and self.knowledge.tables.get(judgement.rule, {}).get("removes"):
            edits = editing.edits(self.page, start, [Edit("remove", judgement.dests[0])], self.data(start))
        where = self._where(start, given, judgement) if given is not None else ""
        says = {**judgement.says, "vllm": self.data(start).asked}
        return Hit(judgement.rule, from_, to, says, edits, where=where, is_call=start.entry in CALLS)

    def _is_private(self, start: Found, parsed: Parsed, judgement: meaning.Judgement) -> bool:
        """Whether a secret on the command line in truth stands in the configuration file."""
        if judgement.rule != _IN_ARGUMENTS:
            return False
        given = [index for dest in judgement.dests for index in parsed.given.get(dest, ())]
        return bool(given) and all(self._in_config(start, index) for index in given)

    def _in_config(self, start: Found, index: int) -> bool:
        """Whether a word of a start stands for what its configuration file says."""
        word = config_files.word_of(start)
        return self._config(start) is not None and word is not None and start.words[index] is word

    def _where(self, start: Found, given: int, judgement: meaning.Judgement) -> str:
        """The place in the configuration file of what a judgement is about; empty where that is not in the file."""
        config = self._config(start)
        if config is None or start.entry in CALLS or not self._in_config(start, given):
            return ""
        lines = {key.replace("-", "_"): line for key, line in config.lines.items()}
        line = next((lines[dest] for dest in judgement.dests if dest in lines), None)
        return f"{start.words[given].value}, line {line}: " if line is not None else ""

    def _of_opinion(self, ask: Ask) -> Iterator[Hit]:
        """What an installed vLLM says of the starts whose words are all known."""
        for entry in ENTRIES:
            known = [
                (start, parsed)
                for start, parsed in self.parsed
                if start.entry not in CALLS and _is_for(entry, start, self.data(start))
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
_STARTS = (*SERVERS, *CALLS)
"""Starts whose arguments are judged; others, as a benchmark, take options of their own."""


def _rule_of(trouble: Trouble) -> str:
    """The rule that a trouble breaks: a shell script's are named without their group."""
    return trouble.kind if "." in trouble.kind else f"shell.{trouble.kind}"


def _literals(start: Found) -> dict[str, Any]:
    """Values of a call's arguments; UNKNOWN where they cannot be known."""
    return {keyword.name: keyword.value if keyword.is_known else UNKNOWN for keyword in start.keywords}


def parsed_by(start: Found, data: ReleaseData, config: config_files.Config | None = None) -> Parsed:
    """A start's arguments as a release's parser understands them, those of its configuration file among them.

    What is wrong in that file is told apart, by its own lines.
    """
    if start.entry in CALLS:
        return _called(start)
    words = [word.value for word in start.words]
    environment = {name: setting.value.value for name, setting in start.environment.items()}
    entry = deployment.parser_entry(start.entry, words, data)
    parsed = arguments.parse(words, data, entry, config.values if config else None, environment)
    if config is None:
        return parsed
    at = words.index("--config") + 1
    own = tuple(
        problem
        for problem in parsed.problems
        if problem.option == "--config" or (problem.word != at and problem.says.get("first") != str(at))
    )
    return replace(parsed, problems=own)


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
