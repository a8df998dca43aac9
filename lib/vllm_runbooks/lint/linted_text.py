"""Apply all rules to a text: parse its launches for their releases and collect the hits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Protocol

from vllm_runbooks.catalog import options, support
from vllm_runbooks.catalog.compiled import RulesById
from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.catalog.options import CALLS, ENTRIES, SERVERS, ReleaseData
from vllm_runbooks.catalog.records import Rule
from vllm_runbooks.catalog.specs import HostGpu, Model, Specs, model_from_config
from vllm_runbooks.core.excerpt import EditedText, Replacement
from vllm_runbooks.core.records import Edit, IssueSeverity
from vllm_runbooks.lint import (
    builds,
    calls,
    config_files,
    container_rules,
    environment_rules,
    ignore_comments,
    meaning,
    moves,
    named_values,
    option_rules,
)
from vllm_runbooks.lint.hits import Hit, ParserVerdict
from vllm_runbooks.lint.records import CommandRelease
from vllm_runbooks.lint.secrecy import TextVersion
from vllm_runbooks.lint.selection import EVERYTHING, Selection
from vllm_runbooks.lint.several_launches import together
from vllm_runbooks.reading import arguments, deployment, documents
from vllm_runbooks.reading.arguments import Parsed
from vllm_runbooks.reading.arguments.conditions import UNKNOWN
from vllm_runbooks.reading.arguments.words import config_words
from vllm_runbooks.reading.deployment import editing
from vllm_runbooks.reading.documents import images, placeholders, pods
from vllm_runbooks.reading.documents.starts import Gpus, LooseOption, WrittenLaunch
from vllm_runbooks.reading.shell import Trouble, Word
from vllm_runbooks.reading.shell.troubles import Spans

_MAX_BLOCK = 4000  # characters of a code block before and after a launch
_GLUED = re.compile(r"(--[A-Za-z][\w-]{0,80})[ \t]")
"""An option in one word with its value."""
_IDLE = "option.without-effect"
_SCRIPT = re.compile(r"```[^\n]{0,40}\n[ \t]{0,20}#(?:!/|[^\n]{0,80}\.sh\b)", re.ASCII)
"""Start of a block of a page that is a script: an interpreter, or a comment with the file's name."""
_NOT_PYTHON, _OTHER_VLLM = "file.not-python", "file.other-vllm"
_IN_ARGUMENTS = "safety.secret-in-arguments"
_OPEN_PORT, _IMAGE_STAYS = "safety.open-port", "file.image-stays"
_NETWORKS = frozenset({"kubernetes", "compose", "dockerfile"})
_HOST_NETWORK = re.compile(r"\bhostNetwork:[ \t]*[\"']?true|\bnetwork_mode:[ \t]*[\"']?host|--net(?:work)?[= ]host")

_CONFIG_MAP = re.compile(r"^kind:[ \t]*[\"']?ConfigMap", re.MULTILINE)
"""A document whose scripts pods run."""
_SCRIPT_ARGUMENTS = re.compile(r"\$\{?[@*]")
_LISTED = re.compile(rf"{_SCRIPT_ARGUMENTS.pattern}|\$\{{\w{{1,80}}\[[@*]\]")
"""A list of arguments in a command: those of its script, or an array, which may be made of them."""
_REFUSING = frozenset(("option.wrong-choice", "environment.refused-value"))
_LIMITED = {"size": IssueSeverity.WARNING, "grammar": IssueSeverity.INFO}
"""Severity, by cause, of a program that is unreadable but may be correct."""


Ask = Callable[[str, Sequence[Sequence[str]]], Sequence[ParserVerdict]]
"""Validates commands with an installed vLLM, for an entry point."""


@dataclass(frozen=True)
class Knowledge:
    """Rules, models and GPUs; releases' data is separate."""

    rules: Mapping[str, Rule]
    specs: Specs
    lang: str | None = None
    cached_config: Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None] | None = None
    """Reads the config.json of a launch's model if the catalog does not have it."""

    def model(self, name: str, options: Mapping[str, Any]) -> Model | None:
        """Facts of a model of the catalog, or of this host's cache of the Hub; None if unknown."""
        known = self.specs.model(name)
        if known is not None or self.cached_config is None:
            return known
        config = self.cached_config(name, options)
        return None if config is None else model_from_config(config, self.specs.architectures, name=name)

    @cached_property
    def tables(self) -> dict[str, Mapping[str, Any]]:
        if isinstance(self.rules, RulesById):
            return self.rules.tables
        return {name: rule.values for name, rule in self.rules.items()}


@dataclass(frozen=True)
class LintRequest:
    name: str = ""
    """File name; it decides the format if the text does not."""
    vllm: str | None = None
    """Release; None for the tag of the image, else the newest."""
    cards: tuple[HostGpu, ...] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts of the config files by name; see `config_names`."""
    apart: Callable[[str, str], OtherPrograms | None] | None = None
    """Finds the programs for which no release is right, by text and file name."""
    selection: Selection = EVERYTHING
    reads_comments: bool = False
    """Whether ignore comments count."""
    is_migration: bool = False
    """Whether launches whose image stays keep their options."""
    cpu_gib: float | None = None
    """Memory of a host without GPUs; None if it has GPUs, or if it is unknown."""


class OtherPrograms(Protocol):
    """Programs of a text that run with a vLLM of no known release."""

    @property
    def says(self) -> Mapping[str, str]: ...
    def holds(self, offset: int) -> bool: ...


def _is_in_network(launch: WrittenLaunch) -> bool:
    """Whether it is in the network of a cluster, a compose file or a container, which is not the host's.

    The last is that of a task or CI job with an image, or of a container in Terraform's or Nomad's language.
    """
    if launch.kind in _NETWORKS:
        return True
    is_task = launch.kind == "shell" and bool(launch.within)
    return launch.image is not None and launch.container is None and (is_task or launch.language == "code")


def _is_of_value(refusal: Hit, guess: Hit) -> bool:
    """Whether both are about the same value at the same place."""
    is_inside = refusal.where == guess.where and guess.start <= refusal.start and refusal.end <= guess.end
    return is_inside and refusal.says.get("value", "").casefold() in map(str.casefold, guess.says.values())


def severity(rule: Rule, hit: Hit) -> IssueSeverity:
    """Severity of a hit: at most a warning outside a command, info if only this reader fails."""
    limit = _LIMITED.get(hit.says.get("of", "")) if hit.rule == "file.not-python" else None
    if limit is not None:
        return limit
    if hit.is_information:
        return IssueSeverity.INFO
    return IssueSeverity.WARNING if hit.is_loose and rule.severity is IssueSeverity.ERROR else rule.severity


class LintedText:
    def __init__(self, text: str, knowledge: Knowledge, request: LintRequest, ask: Ask | None = None) -> None:
        self.text, self.knowledge, self.asked, self.ask = text, knowledge, request, ask
        self.cards, self.cpu_gib = request.cards, request.cpu_gib
        self.page = documents.read(text, request.name)

    @cached_property
    def intended(self) -> tuple[LintedText, EditedText] | None:
        """The script without the errors that make the shell end a command early.

        None without errors.
        """
        edits = [edit for trouble in self.page.troubles if trouble.kind in _CUTS for edit in trouble.edits]
        changed = EditedText(self.text, edits)
        if changed.text == self.text:
            return None
        request = replace(self.asked, selection=EVERYTHING, reads_comments=False)
        return LintedText(changed.text, self.knowledge, request, self.ask), changed

    @cached_property
    def readings(self) -> list[TextVersion]:
        version = TextVersion(self.page, self._read)
        return [version, *self.intended[0].readings] if self.intended is not None else [version]

    @cached_property
    def release(self) -> CommandRelease:
        if self.asked.vllm is not None:
            version, source = self.asked.vllm, "given"
        else:
            builds_of_file = [self.build(launch) for launch in self.page.starts] or [builds.Build(self.pin, "newest")]
            build = next((build for build in builds_of_file if build.release), builds_of_file[0])
            version, source = build.release or options.known_releases()[-1], build.source
        return CommandRelease(version, source, options.load(version).version)

    @cached_property
    def other_releases(self) -> tuple[CommandRelease, ...]:
        """Releases for which other launches are checked."""
        found = {self.release.version: self.release}
        for launch in self.page.starts:
            data = self.data(launch)
            if data.asked not in found:
                found[data.asked] = CommandRelease(data.asked, self.build(launch).source, data.version)
        return tuple(found.values())[1:]

    def data(self, launch: WrittenLaunch | None = None) -> ReleaseData:
        """Data of the launch's release: the tag of its image or a pin, else the newest, or the file's."""
        if launch is None or self.asked.vllm is not None:
            return options.load(self.release.version)
        # A command in a file of another language runs beside its containers, not in one of them.
        is_apart = launch.image is not None or (self.page.kind == "code" and self.release.source == "image")
        newest = options.known_releases()[-1] if is_apart else self.release.version
        return options.load(self.build(launch).release or newest)

    @cached_property
    def pin(self) -> str | None:
        """Release that the file installs."""
        return builds.pinned(self.page)

    def build(self, launch: WrittenLaunch) -> builds.Build:
        """The vLLM of a launch; a requested release is the launch's."""
        build = builds.build_of(launch, self.pin)
        if self.asked.vllm is None:
            return build
        return build._replace(release=self.asked.vllm, source="given")

    @cached_property
    def _uncertain(self) -> Mapping[str, Spans]:
        return builds.uncertain_spans(self.page, self.build)

    def is_unmoved(self, launch: WrittenLaunch) -> bool:
        """Whether a migration leaves the launch's vLLM as it is: an image that it cannot change, or a pin."""
        if not self.asked.is_migration:
            return False
        is_pinned = builds.build_of(launch, self.pin).source == "pin"
        return self._keeps_image(launch) or (is_pinned and not builds.repinned(self.page, ""))

    def _keeps_image(self, launch: WrittenLaunch) -> bool:
        """Whether the image has another release than the requested one, or an unknown one, and no tag to change."""
        source = builds.build_of(launch, self.pin).source
        if self.asked.vllm is None or launch.image is None or launch.image.value is None or source in ("newest", "pin"):
            return False
        is_same = images.is_own(launch.image.value) and launch.release == self.asked.vllm
        return not is_same and not moves.retagged(launch, self.asked.vllm)

    @cached_property
    def _unmoved(self) -> Spans:
        unmoved = [launch for launch in self.page.starts if self.is_unmoved(launch)]
        settings = (setting for launch in unmoved for setting in launch.environment.values())
        return Spans([*((one.start, one.end) for one in unmoved), *((one.start, one.end) for one in settings)])

    def _with_certainty(self, hit: Hit) -> Hit:
        """The hit without fixes if its launch runs, or may run, another vLLM than the checked one."""
        if self._unmoved.around(hit.start) is not None:
            hit = replace(hit, edits=())
        is_uncertain = any(
            hit.rule in builds.UNCERTAIN[kind] and at.around(hit.start) is not None
            for kind, at in self._uncertain.items()
        )
        if not is_uncertain or (hit.rule in builds.OF_VALUES and self._is_always_refused(hit)):
            return hit
        return replace(hit, is_information=True, edits=())

    def _is_always_refused(self, hit: Hit) -> bool:
        """Whether every release refuses what a hit is about, in a launch that another program builds."""
        launch = next((one for one in self.page.starts if one.builder and one.start <= hit.start < one.end), None)
        return launch is not None and all(
            any(other.start == hit.start for other in self._of_options(launch, options.load(release)))
            for release in reversed(options.known_releases())
        )

    def _of_options(self, launch: WrittenLaunch, data: ReleaseData) -> Iterator[Hit]:
        """Hits of a launch's options in a release."""
        if launch.entry in CALLS:
            problems = arguments.parse_call(_literals(launch), data, launch.entry)
            return option_rules.of_call(launch, problems, data, self.knowledge.tables)
        parsed = parsed_by(launch, data, self._config(launch))
        return option_rules.of_start(self.page, launch, parsed, data, self.knowledge.tables)

    @cached_property
    def parsed(self) -> list[tuple[WrittenLaunch, Parsed]]:
        return [(launch, parsed) for launch, parsed in self._read if not self._is_apart(launch.start)]

    @cached_property
    def _read(self) -> list[tuple[WrittenLaunch, Parsed]]:
        """All launches, including those with another vLLM."""
        return [
            (launch, parsed_by(launch, self.data(launch), self._config(launch)))
            for launch in self.page.starts
            if launch.entry in _STARTS
        ]

    @cached_property
    def _apart(self) -> OtherPrograms | None:
        find = self.asked.apart if self.asked.vllm is None else None
        return find(self.text, self.asked.name) if find is not None else None

    def _is_apart(self, offset: int) -> bool:
        return self._apart is not None and self._apart.holds(offset)

    @cached_property
    def configs(self) -> dict[str, config_files.Config | None]:
        """Config files by name; None for one that is no YAML mapping."""
        return {name: config_files.read(text) for name, text in self.asked.files.items()}

    def has_unknown_file(self, launch: WrittenLaunch) -> bool:
        """Whether an unread config file may set more options."""
        return config_files.word_of(launch) is not None and self._config(launch) is None

    def _config(self, launch: WrittenLaunch) -> config_files.Config | None:
        word = config_files.word_of(launch) if self.asked.files else None
        return self.configs.get(word.value or "") if word is not None else None

    @cached_property
    def faults(self) -> Counter[str]:
        """Number of errors and warnings by rule."""
        rules = self.knowledge.rules
        return Counter(hit.rule for hit in self.hits if severity(rules[hit.rule], hit) is not IssueSeverity.INFO)

    def row_of_idle(self, option: str, data: ReleaseData) -> Mapping[str, Any] | None:
        """Table row of an option that has no effect in this release."""
        row: Mapping[str, Any] | None = self.knowledge.tables.get(_IDLE, {}).get("options", {}).get(option.lstrip("-"))
        return row if row is not None and options.is_within(data.version, row) else None

    @cached_property
    def hits(self) -> list[Hit]:
        """The selected hits in text order, without repetitions."""
        hits = self._without_guesses(self.selected(self.all_hits))
        return sorted(hits, key=lambda hit: (hit.start, hit.end, hit.rule))

    def _without_guesses(self, hits: list[Hit]) -> Iterator[Hit]:
        """Drop what a rule expects of a value when another rule reports that vLLM refuses the value."""
        refused = [hit for hit in hits if hit.rule in _REFUSING]
        for hit in hits:
            if hit.rule not in builds.UNKNOWN_NAMES or not any(_is_of_value(other, hit) for other in refused):
                yield hit

    @cached_property
    def all_hits(self) -> list[Hit]:
        """Also those that the request or a comment ignores."""
        hits: dict[tuple[str, int, int, str, str], Hit] = {}
        for hit in self._all():
            if hit.rule in self.knowledge.rules:
                place = (hit.rule, hit.start, hit.end, hit.where, hit.says.get("key", ""))
                hits.setdefault(place, self._with_certainty(hit))
        return [*hits.values()]

    def selected(self, hits: list[Hit]) -> list[Hit]:
        """Drop hits that the request or a comment ignores.

        Comments without effect are hits, too.
        """
        if self.asked.reads_comments:
            hits = ignore_comments.without_ignored(
                hits, self.text, self._intended_launches, self.knowledge.rules, Wording(self.knowledge.lang)
            )
        return [hit for hit in hits if self.asked.selection.applies(hit.rule)]

    @property
    def _intended_launches(self) -> Sequence[WrittenLaunch]:
        """All launches, including the parts that the shell cuts off."""
        if self.intended is None:
            return self.page.starts
        judged, changed = self.intended
        return [
            replace(
                launch,
                start=changed.back(launch.start),
                end=changed.back(launch.end),
                keys={key: (changed.back(start), changed.back(end)) for key, (start, end) in launch.keys.items()},
            )
            for launch in judged.page.starts
        ]

    def _all(self) -> Iterator[Hit]:
        for hit in self._of_text():
            if hit.rule == _NOT_PYTHON or not self._is_apart(hit.start):
                yield hit
        for launch, _ in self._read:
            if self._apart is not None and self._apart.holds(launch.start):
                yield Hit(_OTHER_VLLM, launch.start, launch.end, self._apart.says)

    def _of_text(self) -> Iterator[Hit]:
        for trouble in self.page.troubles:
            if trouble.kind == "background-unwatched" and (self._is_typed(trouble) or not self._has_launch(trouble)):
                continue
            if not self._may_launch and trouble.kind != "file.too-much":
                continue
            yield Hit(_rule_of(trouble), trouble.start, trouble.end, trouble.says, trouble.edits)
        if self.intended is None:
            yield from self._of_starts()
            return
        judged, changed = self.intended
        for hit in judged.hits:
            if not hit.rule.startswith("shell."):
                keeps = all(changed.keeps(edit.start, edit.end) for edit in hit.edits)
                back = changed.back
                edits = [Replacement(back(edit.start), back(edit.end), edit.new_text) for edit in hit.edits if keeps]
                yield replace(hit, start=back(hit.start), end=back(hit.end), edits=tuple(edits))

    @cached_property
    def _may_launch(self) -> bool:
        """Whether the text launches vLLM, or a fault may hide that it does."""
        return bool(self.page.starts or self.page.loose) or "vllm" in self.text.lower()

    def _of_starts(self) -> Iterator[Hit]:
        tables = self.knowledge.tables
        cut = [fault for fault in self.page.troubles if fault.edits]
        reported: set[int] = set()
        for launch, parsed in self.parsed:
            data = self.data(launch)
            if launch.image is not None and self._keeps_image(launch):
                says = {"image": launch.image.value or "", "vllm": data.checked}
                yield Hit(_IMAGE_STAYS, launch.image.start, launch.image.end, says)
            if launch.entry in CALLS:
                problems = arguments.parse_call(_literals(launch), data, launch.entry)
                hits = option_rules.of_call(launch, problems, data, tables)
                for hit in filter(None, (builds.of_built(hit, launch) for hit in hits)):
                    made = hit.edits or calls.edits(self.page, launch, hit, data, tables)
                    yield replace(hit, edits=made, is_call=True)
            else:
                hits = option_rules.of_start(self.page, launch, parsed, data, tables)
                for hit in filter(None, (builds.of_built(hit, launch) for hit in hits)):
                    if message := hit.says.get("message"):
                        needed = meaning.needed_values(self._command(launch, parsed), message, data)
                        hit = replace(hit, says={**hit.says, **needed})  # noqa: PLW2901 - the same hit, with more to say
                    # Report the error in the script rather than the misread words. If the command
                    # may run with the error, report once that this one does not.
                    cause = next((fault for fault in cut if hit.start < fault.end and fault.start < hit.end), None)
                    if cause is None:
                        yield hit
                    elif cause.start not in reported and self._is_graver(hit, cause):
                        reported.add(cause.start)
                        yield replace(hit, edits=())
                yield from self._of_config(launch, data)
            yield from self._of_idle(launch, parsed)
        for loose in option_rules.own_groups(self.page.loose):
            yield from option_rules.of_loose(loose, self.data(), tables)
        hosts = Counter(map(attrgetter("node"), self.cards)) if self.cards is not None else None
        yield from environment_rules.of_page(self.page, self.data, tables, max(hosts.values()) if hosts else None)
        yield from self._of_meaning()
        if self.ask is not None:
            yield from self._of_opinion(self.ask)

    def _is_typed(self, trouble: Trouble) -> bool:
        """Whether a reader types the command into a shell that stays open: a page shows it outside a script."""
        fence = max(self.text.rfind("```", 0, trouble.start), 0)
        return self.page.kind == "page" and _SCRIPT.match(self.text, fence) is None

    def _has_launch(self, trouble: Trouble) -> bool:
        return any(launch.start < trouble.end and trouble.start < launch.end for launch in self.page.starts)

    def _is_graver(self, hit: Hit, trouble: Trouble) -> bool:
        rule, cause = (self.knowledge.rules.get(name) for name in (hit.rule, _rule_of(trouble)))
        is_error = rule is not None and rule.severity is IssueSeverity.ERROR
        return is_error and cause is not None and cause.severity is not IssueSeverity.ERROR

    def _of_config(self, launch: WrittenLaunch, data: ReleaseData) -> Iterator[Hit]:
        word = config_files.word_of(launch)
        if word is None:
            return
        config, name = self._config(launch), word.value or word.raw
        if config is None and word.value is not None and not word.value.endswith(config_files.SUFFIXES):
            return  # rejected because of its name
        if config is None:
            note = "It is not a YAML mapping." if name in self.configs else ""
            yield Hit("option.config-unknown", word.start, word.end, {"value": name, "note": note})
            return
        entry = deployment.parser_entry(launch.entry, [argument.value for argument in launch.words], data)
        spellings = {text for option in data.entries[entry] for text in option.strings}
        for key, value in config.values.items():
            texts = config_words({key: value}, data.features, spellings.__contains__)
            words = tuple(Word(text, word.start, word.end, "") for text in texts)
            loose = LooseOption(words, "bare", word.start, word.end)
            for hit in option_rules.of_loose(loose, data, self.knowledge.tables):
                where = Wording(self.knowledge.lang)("{file}, line {number}: ", file=name, number=config.lines[key])
                yield replace(hit, where=where, edits=())

    def _of_idle(self, launch: WrittenLaunch, parsed: Parsed) -> Iterator[Hit]:
        data = self.data(launch)
        for dest in parsed.flags:
            option = data.by_dest.get(dest)
            row = self.row_of_idle(option.name, data) if option else None
            if option is not None and row is not None and parsed.places.get(dest):
                says = {"option": option.name, "note": row.get("note", ""), "first": row["first"]}
                yield self._placed(launch, parsed, meaning.BrokenRule(_IDLE, (dest,), says))

    def _of_meaning(self) -> Iterator[Hit]:
        commands = [self._command(launch, parsed) for launch, parsed in self.parsed]
        for (launch, parsed), command in zip(self.parsed, commands, strict=True):
            for broken in meaning.rules_broken(command):
                if not self._is_private(launch, parsed, broken):
                    yield self._placed(launch, parsed, broken)
            yield from container_rules.of_launch(self.page, launch, parsed, command)
            yield from container_rules.of_cpu_memory(launch, command, self.cpu_gib)
            has_release = self.build(launch).source != "unknown"
            yield from named_values.of_launch(
                launch, parsed, command, self.data(launch), self.knowledge.tables, has_release=has_release
            )
        for loose in option_rules.own_groups(self.page.loose):
            yield from self._of_option(loose)
        for group in together(self.page, [launch for launch, _ in self.parsed]):
            for index, broken in meaning.rules_broken_together([commands[index] for index in group]):
                yield self._placed(*self.parsed[group[index]], broken)

    def _of_option(self, loose: LooseOption) -> Iterator[Hit]:
        if loose.where != "bare":
            return
        data = self.data()
        parsed = arguments.parse(placeholders.without_values(loose.words), data)
        command = meaning.LaunchFacts(
            parsed.flags,
            support.load(data.version),
            cards=self.cards,
            entry="",
            methods=self._quantization["methods"],
            formats=self._quantization["formats"],
        )
        for broken in meaning.rules_broken(command):
            if broken.rule in meaning.OF_ONE_OPTION:
                yield Hit(broken.rule, loose.start, loose.end, {**broken.says, "vllm": data.checked})

    @cached_property
    def _quantization(self) -> dict[str, Mapping[str, Mapping[str, Any]]]:
        table = self.knowledge.tables.get("meaning.quantization-differs", {})
        return {name: table.get(name, {}) for name in ("methods", "formats")}

    def _command(self, launch: WrittenLaunch, parsed: Parsed) -> meaning.LaunchFacts:
        data = self.data(launch)
        return meaning.LaunchFacts(
            flags=parsed.flags,
            support=support.load(data.version),
            model=self.knowledge.model(parsed.model, parsed.flags) if parsed.model else None,
            name=parsed.model,
            has_own_network=launch.kind != "shell",
            is_local=launch.is_local,
            cards=self.cards,
            devices=launch.gpus.devices if launch.gpus else None,
            device_count=launch.gpus.count if launch.gpus else None,
            group_count=launch.group.count if launch.group else None,
            has_more_hosts=launch.group is not None or self._has_more_hosts(launch),
            devices_origin=self._origin(launch.group or launch.gpus),
            environment={name: setting.value.value for name, setting in launch.environment.items()},
            has_more_variables=launch.has_more_variables,
            entry=launch.entry,
            is_elided=self._has_more_arguments(launch) or any(role.option == "--config" for role in parsed.roles),
            unknown=_unknown(launch, parsed),
            defaults=_Defaults(data),
            fits=self.knowledge.specs.fits,
            methods=self._quantization["methods"],
            formats=self._quantization["formats"],
        )

    def _has_more_arguments(self, launch: WrittenLaunch) -> bool:
        """Whether the launch gets arguments that are not in the text, such as those of its script."""
        invocation = launch.invocation
        if launch.is_elided or invocation is None or not self._has_script_arguments:
            return launch.is_elided
        return _LISTED.search(self.text, invocation.start, invocation.end) is not None

    @cached_property
    def _has_script_arguments(self) -> bool:
        return _SCRIPT_ARGUMENTS.search(self.text) is not None

    def _has_more_hosts(self, launch: WrittenLaunch) -> bool:
        """Whether the file joins several hosts or pods; of a page, the code block of the launch."""
        if self.page.kind != "page":
            return self._joins_hosts
        begin = self.text.rfind("```", max(launch.start - _MAX_BLOCK, 0), launch.start) + 1 or launch.start
        end = self.text.find("```", launch.end, launch.end + _MAX_BLOCK)
        return pods.SEVERAL_HOSTS.search(self.text, begin, launch.end if end < 0 else end) is not None

    @cached_property
    def _joins_hosts(self) -> bool:
        return pods.SEVERAL_HOSTS.search(self.text) is not None

    def _origin(self, gpus: Gpus | None) -> str:
        """Text that sets the GPUs of a launch; empty for a bare number, unclear without context."""
        text = " ".join(self.text[gpus.start : gpus.end].split()) if gpus is not None else ""
        return text if any(sign.isalpha() for sign in text) else ""

    def _placed(self, launch: WrittenLaunch, parsed: Parsed, broken: meaning.BrokenRule) -> Hit:
        """Locate a broken rule: at its option, else its variable, else the launch."""
        from_, to = launch.start, launch.end
        if launch.prefix:
            from_, to = launch.prefix[0].start, launch.prefix[-1].end
        index = next((parsed.places[dest][-1] for dest in broken.dests if parsed.places.get(dest)), None)
        variable = next((launch.environment[name] for name in broken.variables if name in launch.environment), None)
        if index is not None and launch.entry in CALLS:
            from_, to = launch.keywords[index].name_start, launch.keywords[index].end
        elif index is not None:
            from_, to = launch.words[index].start, launch.words[deployment.behind(parsed, index) - 1].end
        elif variable is not None:
            from_, to = variable.start, variable.end
        edits: tuple[Replacement, ...] = ()
        if index is not None and self.knowledge.tables.get(broken.rule, {}).get("removes"):
            edits = editing.edits(self.page, launch, [Edit("remove", broken.dests[0])], self.data(launch))
        where = self._where(launch, index, broken) if index is not None else ""
        says = {**broken.says, "vllm": self.data(launch).checked}
        is_inside = _is_in_network(launch) or (bool(launch.within) and _CONFIG_MAP.search(self.text) is not None)
        is_behind = broken.rule == _OPEN_PORT and is_inside and not self._is_on_host(launch)
        is_call = launch.entry in CALLS
        return Hit(broken.rule, from_, to, says, edits, where=where, is_call=is_call, is_information=is_behind)

    def _is_on_host(self, launch: WrittenLaunch) -> bool:
        """Whether the launch uses the network of its host."""
        if launch.kind == "compose" and launch.container is not None:
            return launch.container.network == "host"
        return self._names_host_network

    @cached_property
    def _names_host_network(self) -> bool:
        return _HOST_NETWORK.search(self.text) is not None

    def _is_private(self, launch: WrittenLaunch, parsed: Parsed, broken: meaning.BrokenRule) -> bool:
        """Whether a secret is in the config file rather than on the command line."""
        if broken.rule != _IN_ARGUMENTS:
            return False
        indices = [index for dest in broken.dests for index in parsed.places.get(dest, ())]
        return bool(indices) and all(self._in_config(launch, index) for index in indices)

    def _in_config(self, launch: WrittenLaunch, index: int) -> bool:
        word = config_files.word_of(launch)
        return self._config(launch) is not None and word is not None and launch.words[index] is word

    def _where(self, launch: WrittenLaunch, index: int, broken: meaning.BrokenRule) -> str:
        """Prefix with the line of the config file that a hit is about."""
        config = self._config(launch)
        if config is None or launch.entry in CALLS or not self._in_config(launch, index):
            return ""
        lines = {key.replace("-", "_"): line for key, line in config.lines.items()}
        line = next((lines[dest] for dest in broken.dests if dest in lines), None)
        return f"{launch.words[index].value}, line {line}: " if line is not None else ""

    def _of_opinion(self, ask: Ask) -> Iterator[Hit]:
        for entry in ENTRIES:
            launches = [
                (launch, parsed)
                for launch, parsed in self.parsed
                if launch.entry not in CALLS and _is_for(entry, launch, self.data(launch))
            ]
            if not launches:
                continue
            opinions = ask(entry, [[word.value or "" for word in launch.words] for launch, _ in launches])
            for (launch, parsed), opinion in zip(launches, opinions, strict=True):
                says = {"asked": opinion.vllm, "says": opinion.says, "vllm": self.data(launch).checked}
                if opinion.stage is not None:
                    yield Hit("parser.refuses", launch.start, launch.end, says)
                is_comparable = options.load(opinion.vllm).version == self.data(launch).version
                if is_comparable and parsed.is_refused != (opinion.stage in ("parse", "validate")):
                    ours = "refused" if parsed.is_refused else "accepted"
                    yield Hit("parser.disagrees", launch.start, launch.end, says | {"ours": ours})


@dataclass(frozen=True, eq=False)
class _Defaults(Mapping[str, Any]):
    _data: ReleaseData

    def __getitem__(self, dest: str) -> Any:
        default = self._data.default(dest)
        if not default.is_known:
            raise KeyError(dest)
        return default.value

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
"""Errors that make the shell end a command early."""
_STARTS = (*SERVERS, *CALLS)
"""Launches whose arguments are checked; a benchmark, for example, has its own options."""


def _unknown(launch: WrittenLaunch, parsed: Parsed) -> frozenset[str]:
    """Destinations of unknown options, and of those that are in one word with their value."""
    names = [problem.option for problem in parsed.problems if problem.kind == "unknown" and problem.option]
    names += [match[1] for word in launch.words if (match := _GLUED.match(word.value or ""))]
    return frozenset(name.lstrip("-").replace("-", "_") for name in names)


def _rule_of(trouble: Trouble) -> str:
    return trouble.kind if "." in trouble.kind else f"shell.{trouble.kind}"


def _literals(launch: WrittenLaunch) -> dict[str, Any]:
    return {keyword.name: keyword.value if keyword.is_known else UNKNOWN for keyword in launch.keywords}


def parsed_by(launch: WrittenLaunch, data: ReleaseData, config: config_files.Config | None = None) -> Parsed:
    """Parse the arguments of a launch; problems in its config file are reported separately, by the file's lines."""
    if launch.entry in CALLS:
        return _called(launch)
    words = placeholders.without_values(launch.words)
    environment = {name: setting.value.value for name, setting in launch.environment.items()}
    entry = deployment.parser_entry(launch.entry, [word.value for word in launch.words], data)
    parsed = arguments.parse(words, data, entry, config.values if config else None, environment)
    if config is None:
        return parsed
    at = words.index("--config") + 1
    problems = tuple(
        problem
        for problem in parsed.problems
        if problem.option == "--config" or (problem.word != at and problem.says.get("first") != str(at))
    )
    return replace(parsed, problems=problems)


def _called(launch: WrittenLaunch) -> Parsed:
    values = _literals(launch)
    model = values.get("model")
    indices = {keyword.name: (index,) for index, keyword in enumerate(launch.keywords)}
    return Parsed(values, model if isinstance(model, str) else None, (), (), indices)


def _is_for(entry: str, launch: WrittenLaunch, data: ReleaseData) -> bool:
    words = [word.value for word in launch.words]
    return None not in words and deployment.parser_entry(launch.entry, words, data) == entry
