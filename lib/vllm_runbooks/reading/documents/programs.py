"""Words of a command that launch vLLM, and their context: wrappers, containers, nested scripts."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

from vllm_runbooks.catalog import options
from vllm_runbooks.core.excerpt import Excerpt, Replacement
from vllm_runbooks.reading import shell
from vllm_runbooks.reading.arguments.spelling import misspelt
from vllm_runbooks.reading.documents import engine_programs, gpus, images, launchers, placed_words, placeholders
from vllm_runbooks.reading.documents.placeholders import filled
from vllm_runbooks.reading.documents.starts import (
    Around,
    ContainerOptions,
    DocumentReading,
    LaunchContext,
    LooseOption,
    Setting,
    Within,
    WrittenLaunch,
)
from vllm_runbooks.reading.shell import Assignment, Invocation, Trouble, Word
from vllm_runbooks.reading.shell.word_lists import word_list

_MAX_WITHIN = 6  # depth of nested scripts, and of nested container launches
_MAX_KEPT = 100  # commands in variables that are read
_MAX_BEFORE = 12  # words before another that are searched for its program
_MIN_TEXT = 8  # minimum characters of a word with a command in it
_LEAD = re.compile(
    r"([ \t>]*)(?:(?:\([\w.-]{1,60}\)[ \t]*)?"
    r"(?:\[?[\w.-]{1,64}@[^\"'\n]{1,200}[#$%]\]?|[$%\u276f\u279c]|>{3})[ \t]+|![ \t]*)?"
)
"""Text before a line of a script in a page: indentation or quotation marks, and a prompt."""
_FAULTS = {"unexpected-token", "unclosed-bracket", "unclosed-quote"}
"""Troubles of a text that is no shell script."""
_HIDING = {"prompt", "command-as-names"}
"""Troubles that make a shell run another command; those that hide the command are fixed before
reading."""
_MAX_SEEN = 1000  # invocations, and words of each, that are searched for their program
_SUBCOMMANDS = {"serve", "run-batch"}
_BENCHMARKS = {"latency", "throughput", "startup"}
_MODULES = {
    "vllm.entrypoints.openai.api_server": "api_server",
    "vllm.entrypoints.openai.run_batch": "run-batch",
}
_CLI_MODULES = {"vllm.entrypoints.cli.main", "vllm.entrypoints.cli", "vllm.scripts", "vllm"}
_SHELLS = {"sh", "bash", "zsh", "dash", "ksh", "ash"}
_NAMES_NEXT = {
    **{program: {"-u", "-g", "--user", "--group"} for program in ("sudo", "doas", "runuser")},
    **{program: {"-n", "--name"} for program in ("conda", "mamba", "micromamba")},
    **{program: {"--name", "-u", "--user"} for program in ("docker", "podman", "nerdctl", "enroot")},
    "systemd-run": {"-u", "--unit"},
    "tmux": {"-n", "-s", "-t"},
    "screen": {"-S", "-t"},
}
"""Options of programs whose value may be the word `vllm`."""
_SUBSTITUTION = re.compile(
    r"[\"']?(?:\$\(|`)(?:which|command[ \t]+-v|type[ \t]+-[pP]+)[ \t]+([\w./-]{1,200})[^|;&)`]{0,40}[)`][\"']?"
)
"""A command substitution that finds a program."""
_VARIABLE_PROGRAM = re.compile(
    r"[\"']?\$\{?\w{0,40}?(?i:(vllm)(?:_?(?:bin|cmd|exe|executable|path|command))?|(python)3?(?:_?(?:bin|cmd|exe|executable|path))?)\}?[\"']?"
)
"""A variable named after the program it contains."""
_NAMED = re.compile(r"(?:--[A-Za-z][\w-]{0,60}|[A-Za-z_]\w{0,60})=")
"""Beginning of a word that may name a command."""
_START = re.compile(
    r"(?<![\w.-])vllm[ \t\\\n]{1,40}(?:serve|run-batch|bench|launch)\b|vllm\.entrypoints\.|\bapi_server\.py\b"
    r"|\$\{?\w{0,40}(?i:vllm)\w{0,40}\}?[\"']?[ \t]{1,8}serve\b"
    r"|\b(?:docker|podman|nerdctl)[ \t]{1,8}(?:container[ \t]{1,8})?run\b|\brun_cluster\.sh\b"
)
"""Text that may contain a launch."""
_OWN = ("--served-model-name", "--tensor-parallel-size", "--max-model-len", "--gpu-memory-utilization", "--model=")
_TELLING = 2  # number of vLLM options that identify a vLLM command


def may_start(text: str) -> bool:
    """Whether a text may contain a command that launches vLLM; a cheap check."""
    return _START.search(text) is not None or engine_programs.may_run(text)


def read_script(source: Excerpt, around: Around, reading: DocumentReading) -> None:
    """Add what a shell script starts and sets."""
    text = placeholders.marked(source.text, is_page=around.is_page)
    around = replace(around, language="shell")
    whole = Excerpt(text, source.at)
    script, count = shell.read(whole, known=around.known), len(reading.starts)
    visible = _without_hidden(whole, script.troubles)
    if visible is not None:
        script = replace(shell.read(visible, known=around.known), troubles=script.troubles)
    settings = [_assigned(assignment, is_exported=assignment.exported) for assignment in script.assignments]
    reading.settings += settings
    by_name: dict[str, list[Setting]] = {}
    for setting in sorted(settings, key=lambda setting: setting.start):
        by_name.setdefault(setting.name, []).append(setting)
    followed: Word | None = None
    is_read = False
    scripts: dict[int, int] = {}
    for invocation in script.invocations:
        words = tuple(filled(word) for word in invocation.words)
        prefix = [_assigned(assignment) for assignment in invocation.assignments]
        reading.settings += prefix
        inner = replace(around, environment=_environment(invocation, prefix, by_name, around), invocation=invocation)
        if followed is not None and followed.start <= invocation.start and invocation.end <= followed.end:
            if is_read:
                continue
            inner = replace(inner, within=(*inner.within, Within(around.language, followed.start, followed.end)))
        else:
            followed = None
        script_word = read_command(words, inner, reading)
        if script_word is not None and followed is None:
            followed, is_read = script_word, not _has_arguments(words, script_word)
            scripts[followed.start] = followed.end
    for trouble in _without_repeated(script.troubles, scripts):
        reading.troubles.append(replace(trouble, edits=_indented(trouble.edits, source, reading.file)))
    _read_kept(script, around, reading, is_launched=len(reading.starts) > count)


def _assigned(assignment: Assignment, *, is_exported: bool = True) -> Setting:
    value = filled(assignment.value)
    return Setting(assignment.name, value, assignment.start, assignment.end, "assignment", is_exported)


def _environment(
    invocation: Invocation, prefix: Sequence[Setting], by_name: Mapping[str, Sequence[Setting]], around: Around
) -> dict[str, Setting]:
    """Environment of a program, each variable with its last assignment.

    `prefix` is the assignments before the command.
    """
    environment = dict(around.environment)
    before = {setting.name: setting for setting in prefix}
    for name, value in invocation.environment.items():
        setting = before.get(name) or _last_before(by_name.get(name, ()), invocation.start)
        setting = environment.get(name) if setting is None else replace(setting, is_exported=True)
        if setting is None:
            continue
        if setting.value.value != value:
            setting = replace(setting, value=replace(setting.value, value=value, at=None))
        environment[name] = setting
    return environment


def _without_hidden(source: Excerpt, troubles: Sequence[Trouble]) -> Excerpt | None:
    """The script without the parts that hide its commands from a shell; None if there are none."""
    spans = [
        (bisect_left(source.at, edit.start), bisect_left(source.at, edit.end))
        for trouble in troubles
        if trouble.kind in _HIDING
        for edit in trouble.edits
        if not edit.new_text
    ]
    if not spans:
        return None
    kept, done = [], 0
    for start, end in sorted(spans):
        if start >= done:
            kept.append((done, start))
            done = end
    return source.joined([*kept, (done, len(source.text))])


def _indented(edits: Sequence[Replacement], source: Excerpt, file: str) -> tuple[Replacement, ...]:
    """Edits of a script as edits of the file: new lines get the indentation of the others."""
    if not any("\n" in edit.new_text for edit in edits) or not file:
        return tuple(edits)
    made = []
    for edit in edits:
        if "\n" not in edit.new_text:
            made.append(edit)
            continue
        begin, lead = _lead(edit.end, source, file)
        indentation = _LEAD.fullmatch(lead) if lead is not None else None
        if lead is None or indentation is None or _lead(edit.start, source, file)[1] is None:
            return ()  # the line end is written in another way
        if edit.start == edit.end == begin and edit.new_text.endswith("\n"):
            # A line inserted before another one also precedes its prompt.
            at = begin - len(lead)
            lines = edit.new_text.removesuffix("\n").split("\n")
            made.append(Replacement(at, at, "".join(f"{indentation[1]}{line}\n" for line in lines)))
        else:
            made.append(edit._replace(new_text=edit.new_text.replace("\n", f"\n{lead}")))
    return tuple(made)


def _lead(offset: int, source: Excerpt, file: str) -> tuple[int, str | None]:
    """Start of the script line at an offset and the text before it; None if not a line."""
    begin = source.text.rfind("\n", 0, bisect_left(source.at, offset)) + 1
    if begin and file[source.at[begin - 1]] != "\n":
        return begin, None
    at = source.at[begin]
    return at, file[file.rfind("\n", 0, at) + 1 : at]


def _without_repeated(troubles: Iterable[Trouble], scripts: Mapping[int, int]) -> Iterator[Trouble]:
    """The troubles without those of a command in a script that has the same trouble as a whole."""
    begins = sorted(scripts)
    for trouble in troubles:
        at = bisect_right(begins, trouble.start) - 1
        if trouble.kind != "background-unwatched" or at < 0 or trouble.end > scripts[begins[at]]:
            yield trouble


def _has_arguments(words: Sequence[Word], script: Word) -> bool:
    """Whether `bash -c SCRIPT` has further arguments: then the shell reader's result is used."""
    return script.value is not None and words[-1].start >= script.end


def _last_before(settings: Sequence[Setting], offset: int) -> Setting | None:
    at = bisect_right(settings, offset, key=lambda setting: setting.start)
    return settings[at - 1] if at else None


def _read_kept(script: shell.Script, around: Around, reading: DocumentReading, *, is_launched: bool) -> None:
    """Read commands in partly unknown variables that no command runs, or that are not read where one does."""
    kept = [item for item in script.assignments if item.value.value is None and may_start(item.value.raw)]
    if not kept or around.depth >= _MAX_WITHIN:
        return
    used, handed = [], []
    for invocation in script.invocations[:_MAX_SEEN]:
        head = _program(invocation.words[0]) if invocation.words else "eval"
        raw = [word.raw for word in invocation.words[:_MAX_SEEN]]
        used += raw if head != "eval" else []  # which parses a text that is partly unknown
        handed += raw if head in _SHELLS or head in word_list("hands-to-shell") else []
    run, parsed = " ".join(used), "" if is_launched else " ".join(handed)
    exported = {item.name: _assigned(item) for item in script.assignments if item.exported}
    around = replace(around, environment={**around.environment, **exported}, is_certain=False, language="shell")
    count = len(reading.starts)
    for item in kept[:_MAX_KEPT]:
        names = (f"${item.name}", f"${{{item.name}")
        if not any(name in run for name in names) or any(name in parsed for name in names):
            _read_word(item.value, around, reading)
    reading.change_starts(count, lambda start: replace(start, is_elided=True))


def read_command(words: tuple[Word, ...], around: Around, reading: DocumentReading) -> Word | None:
    """Add the launch of one command, given by the words a program receives.

    Returns the word that is a script, if any.
    """
    if not words or around.depth > _MAX_WITHIN:
        return None
    first = words[0].value or ""
    if first.startswith("--") and re.match(r"--[A-Za-z]", first):
        reading.loose += options_of(words, "bare")
        return None
    return _Command(words, around, reading).read()


def options_of(words: Sequence[Word], where: str) -> list[LooseOption]:
    """The words as options, each with its value."""
    groups: list[list[Word]] = []
    for word in words:
        if word.value is not None and re.match(r"--?[A-Za-z]", word.value):
            groups.append([word])
        elif groups and not placed_words.is_escaped_blank(word):
            groups[-1].append(word)
    return [LooseOption(tuple(group), where, group[0].start, group[-1].end) for group in groups]


class _Command:
    def __init__(self, words: tuple[Word, ...], around: Around, reading: DocumentReading) -> None:
        words = tuple(map(filled, words))
        self.words, self.around, self.reading = words, around, reading
        self.values = [word.value or "" for word in words]
        self.heads = [_program(word) for word in words]

    def read(self) -> Word | None:
        head = self.heads[0]
        if head in word_list("runs-nothing"):
            return None
        if head in {"parallel", "xargs"} and self._read_for_each():
            return None
        launcher = launchers.launcher(self.values, self.heads)
        if launcher is not None and not any(self._begun(index) for index in range(launcher.at)):
            self._read_container(launcher)
            return None
        for index in range(len(self.words)):
            begun = self._begun(index)
            if begun:
                self._add(index, *begun)
                return None
            script = self._script_at(index)
            if script is not None:
                return self._read_within(script, index)
            if self._read_code(index):
                return None
        if not self._node():
            self._read_strings()
        return None

    def _read_for_each(self) -> bool:
        """Read `parallel COMMAND ::: …` or `xargs COMMAND`.

        The replacement of `{}`, or the last argument, is unknown.
        """
        end = next((at for at, value in enumerate(self.values) if re.fullmatch(r":{3,4}\+?", value)), len(self.words))
        words = [
            replace(word, value=None, why="placeholder", at=None)
            if "{}" in (word.value or "") and not may_start(word.value or "")
            else word
            for word in self.words[1:end]
        ]
        inner = _Command(tuple(words), replace(self.around, is_certain=False), self.reading)
        count = len(self.reading.starts)
        index = next((index for index in range(len(words)) if inner._begun(index)), None)
        begun = None if index is None else inner._begun(index)
        if index is None or begun is None:
            return False
        inner._add(index, *begun)
        is_filled = any(word.why == "placeholder" for word in words)
        self.reading.change_starts(
            count,
            lambda start: replace(
                start, start=self.words[0].start, prefix=(self.words[0], *start.prefix),
                is_elided=start.is_elided or not is_filled,
            ),
        )  # fmt: skip
        return True

    def _read_code(self, index: int) -> bool:
        """Whether `python -c CODE` is at this index; passes the code to the Python reader."""
        if not _is_python(self.heads[index]):
            return False
        at = index + 1
        while at < len(self.words) and re.fullmatch(r"-[bBdEiIOPqsSuvx]+", self.values[at]):
            at += 1
        if at + 1 >= len(self.words) or not re.fullmatch(r"-[bBdEiIOPqsSuvx]*c", self.values[at]):
            return False
        word = self.words[at + 1]
        around = self._with_settings(index)
        self.reading.parts.append(("python", placed_words.excerpt_of(word), around.inside(word)))
        return True

    def _begun(self, index: int) -> tuple[str, int] | None:
        """The entry that begins at a word, and its number of words."""
        values, head = self.values, self.heads[index]
        following = values[index + 1 : index + 3]
        if head == "vllm" and following and not self._is_name(index):
            if (program := engine_programs.of_command([head, *following])) is not None:
                return program, engine_programs.size_of(program)
            if following[0] == "--":  # `pm2 start vllm -- serve …`
                return _subcommand(values[index + 2 : index + 4], 2)
            return _subcommand(following, 1) or self._misspelt(index)
        if head != "vllm" and (program := engine_programs.of_command([head, *following])) is not None:
            return program, engine_programs.size_of(program)
        if values[index] == "-m" and following:
            if following[0] in _MODULES:
                return _MODULES[following[0]], 2
            if following[0] in _CLI_MODULES:
                return _subcommand(values[index + 2 : index + 4], 2)
            if (program := engine_programs.of_module(following[0])) is not None:
                return program, 2
        if values[index].startswith("-mvllm.") and values[index][2:] in _MODULES:
            return _MODULES[values[index][2:]], 1
        is_script = "vllm" in head and head.endswith((".py", ".sh"))
        if is_script and following[:1] == ["serve"] and are_own(self.words[index + 2 :]):
            return "serve", 2  # it passes its arguments on
        if head == "api_server.py" and (
            index == 0 or _is_python(self.heads[index - 1]) or values[index - 1][:1] == "-"
        ):
            return ("api_server" if "vllm/entrypoints/api_server" not in values[index] else "demo_server"), 1
        return None

    def _misspelt(self, index: int) -> tuple[str, int] | None:
        """Recognize a typo of `serve`, as in `vllm srve MODEL`, which vLLM rejects."""
        is_command = index == 0 or self.heads[0] in word_list("wrappers")
        is_whole = len(self.words) > index + 2
        return ("serve", 2) if is_command and is_whole and misspelt(self.values[index + 1], ["serve"]) else None

    def _is_name(self, index: int) -> bool:
        """Whether a word is the value of an option with a name: `conda run -n vllm serve`."""
        option = self.values[index - 1] if index else ""
        return option.startswith("-") and any(
            option in _NAMES_NEXT.get(head, ()) for head in self.heads[max(index - _MAX_BEFORE, 0) : index - 1]
        )

    def _with_settings(self, until: int) -> Around:
        """Context of the command, with the settings of the wrappers (`env`, `sudo`) before it."""
        words = self.words[:until] if self.heads[0] in word_list("wrappers") else ()
        settings = {
            setting.name: setting for word in words if (setting := placed_words.setting_of(word, "option")) is not None
        }
        self.reading.settings += settings.values()
        return replace(self.around, environment={**self.around.environment, **settings}) if settings else self.around

    def _add(self, index: int, entry: str, size: int) -> None:
        words, begin = self.words, index + size
        prefix = words[:begin]
        written = prefix[-1]
        if entry == "serve" and written.value not in (None, "serve") and self.heads[index] == "vllm":
            says = {"written": written.value or ""}
            edits = (Replacement(written.start, written.end, "serve"),) if written.at is not None else ()
            self.reading.troubles.append(Trouble("misspelt-subcommand", written.start, written.end, says, edits))
        is_certain = index == 0 or self.heads[0] in word_list("wrappers") or _is_python_run(self.heads[:index])
        images_before = (
            word
            for word in prefix
            if word.value and "vllm" in word.value and ":" in word.value and images.release_of(word.value)
        )
        around = self._with_settings(index)
        image = around.image or next(images_before, None)
        around = replace(around, image=image, is_certain=is_certain and around.is_certain)
        _add_start(entry, words[begin:], words, around, self.reading, prefix=prefix)

    def _script_at(self, index: int) -> int | None:
        if self.heads[index] not in _SHELLS or self.values[index][:1] == "-":
            return None
        at, is_script = index + 1, False
        while at < len(self.words):
            value = self.values[at]
            if not value.startswith(("-", "+")) or value == "-":
                return at if is_script else None
            is_script = is_script or (not value.startswith("--") and "c" in value)
            # `-o pipefail` has a value, also at the end of `-euo`.
            at += 2 if re.fullmatch(r"[-+][a-zA-Z]*[oO]|--(?:rcfile|init-file)", value) else 1
        return None

    def _read_within(self, at: int, index: int) -> Word:
        around, word = self._with_settings(index), self.words[at]
        if self.around.invocation is None or not _has_arguments(self.words, word) or index:
            _read_word(word, around, self.reading)
        return word

    def _read_strings(self) -> None:
        """Read words of other programs that are commands: `tmux new -d 'vllm serve …'`."""
        is_shell = any(head in word_list("hands-to-shell") for head in self.heads[:_MAX_SEEN])
        seen = pairwise(self.heads[:_MAX_SEEN])
        is_ours = is_shell or any(what == "bench" and head in _CLI_MODULES for head, what in seen)
        for before, word in pairwise(self.words):
            value = word.raw if word.value is None else word.value
            is_value = re.fullmatch(r"--[A-Za-z][\w-]*", before.value or "") or re.match(r"--[A-Za-z][\w-]*=", value)
            if is_value and not is_ours:
                continue  # the other program decides what its option means
            if len(value) <= _MIN_TEXT or not may_start(value) or not any(blank in value for blank in " \n"):
                continue
            name = _NAMED.match(value)  # `sbatch --wrap="…"`
            inner = DocumentReading(file=self.reading.file)
            is_cut = name is not None and word.value is not None and not _is_set_in_front(value[name.end() :])
            text = placed_words.cut(word, name.end()) if name is not None and is_cut else word
            _read_word(text, replace(self.around, is_certain=False), inner)
            if not is_shell:
                inner.loose.clear()
                inner.starts = [start for start in inner.starts if start.words]  # `is_running "vllm serve"`
                if any(trouble.kind in _FAULTS for trouble in inner.troubles):
                    inner.troubles.clear()
            self.reading.add(inner)

    def _node(self) -> bool:
        """Whether this script launches a node of a Ray cluster in a container; adds it."""
        at = next((index for index, head in enumerate(self.heads[:4]) if head == "run_cluster.sh"), None)
        if at is None or len(self.words) < at + 2:
            return False
        image = self.words[at + 1]
        options = launchers.container_options(self.words[at + 1 :], is_all=True)
        self.reading.images.append(image)
        self._add_node(image, options, self._inside(options))
        return True

    def _inside(self, options: ContainerOptions) -> Around:
        """Context in a container with these options, which are added to the reading."""
        self.reading.settings += options.settings
        if options.image is not None:
            self.reading.images.append(options.image)
        environment = {setting.name: setting for setting in options.settings}
        return replace(self.around, environment=environment, image=options.image, depth=self.around.depth + 1)

    def _add_node(self, image: Word, options: ContainerOptions, around: Around) -> None:
        around = replace(around, kind="docker", image=image, gpus=options.gpus, name="", keys={}, container=options)
        self.reading.starts.append(_start("node", (), self.words, around, prefix=self.words))

    def _read_container(self, launcher: launchers.ContainerLauncher) -> None:
        readers = {
            "kubectl": self._read_kubectl,
            "sandbox": self._read_sandbox,
            "run": self._read_run,
            "compose": self._read_service,
            "exec": self._read_exec,
        }
        if launcher.how in readers:
            readers[launcher.how](launcher.begin)

    def _read_service(self, begin: int) -> None:
        """Read `docker compose run [options] SERVICE COMMAND`."""
        options = launchers.container_options(self.words[begin:])
        entry = (options.entrypoint,) if options.entrypoint is not None else ()
        around = replace(self._inside(replace(options, image=None)), image=self.around.image)
        words = (*entry, *options.rest)
        if words and not (words[0].value or "").startswith("-"):
            read_command(words, around, self.reading)

    def _read_run(self, begin: int) -> None:
        options = launchers.container_options(self.words[begin:])
        image, around = options.image, self._inside(options)
        if image is None:
            return
        around = replace(
            around,
            kind="docker" if around.kind == "shell" else around.kind,
            environment=self._passed(options.settings),
            gpus=options.gpus,
            job=None,
            container=options,
            memory=options.memory,
            depth=self.around.depth,
        )
        before = self.words[: begin + options.size]
        count = len(self.reading.starts)
        entry = (options.entrypoint,) if options.entrypoint is not None else None
        run_image(entry, options.rest, image, around, self.reading, before=before)
        self._put_before(count, before)
        if count == len(self.reading.starts) and "vllm" in (image.value or "") and launchers.is_node(options):
            self._add_node(image, options, around)

    def _put_before(self, first: int, before: tuple[Word, ...]) -> None:
        """Prepend the container's command to the launches from index `first` on."""
        places = {(word.start, word.end) for word in before}
        self.reading.change_starts(
            first,
            lambda start: replace(
                start,
                start=min(self.words[0].start, start.start),
                end=max(self.words[-1].end, start.end),
                prefix=(*before, *(word for word in start.prefix if (word.start, word.end) not in places)),
                invocation=self.around.invocation,
            ),
        )

    def _passed(self, settings: list[Setting]) -> dict[str, Setting]:
        """The container's environment; a name alone hands on the shell's own value."""
        environment = {}
        for setting in settings:
            outer = self.around.environment.get(setting.name)
            if setting.value.why == "handed on" and outer is not None:
                value = replace(outer.value, start=setting.start, end=setting.end, at=None)
                setting = replace(setting, value=value)  # noqa: PLW2901
            environment[setting.name] = setting
        return environment

    def _read_sandbox(self, begin: int) -> None:
        sandbox = launchers.sandbox(self.words, begin)
        around = self._inside(sandbox)
        around = replace(around, environment={**self.around.environment, **around.environment})
        count = len(self.reading.starts)
        before = self.words[: sandbox.size]
        rest = self.words[len(before) :]
        if sandbox.is_run:
            around = replace(around, kind="docker" if around.kind == "shell" else around.kind)
            run_image(None, rest, sandbox.image, around, self.reading, before=before)
        else:
            first = _Command(rest, around, self.reading).command_at()
            if first is not None:
                read_command(rest[first:], around, self.reading)
                before = (*before, *rest[:first])
        self._put_before(count, before)

    def command_at(self) -> int | None:
        """Start of a launch, or of a script that may contain one, with the `env` before it."""
        for index in range(len(self.words)):
            if self._begun(index) or self._script_at(index) is not None:
                return next((at for at in range(index) if self.heads[at] == "env"), index)
        return None

    def _read_exec(self, begin: int) -> None:
        """Read `docker exec [options] NAME COMMAND`; COMMAND begins at the first launch found."""
        words = self.words[begin:]
        first = _Command(words, replace(self.around, environment={}), self.reading).command_at()
        if first is not None:
            options = replace(launchers.container_options(words[:first]), image=None)
            read_command(words[first:], replace(self._inside(options), image=self.around.image), self.reading)

    def _read_kubectl(self, begin: int) -> None:
        pod = launchers.pod(self.words[begin:])
        around = replace(self._inside(pod), kind="kubernetes")
        end = len(self.words) - len(pod.rest)
        if pod.image is None:
            self._read_exec(end)
        elif not pod.is_run:
            read_command(pod.rest, around, self.reading)
        else:
            run_image(None, pod.rest, pod.image, around, self.reading, before=self.words[:end])


_TAG_UNKNOWN = re.compile(r"[\"']?([\w./-]{1,200}):[^/\s]{1,500}\Z", re.ASCII)
"""An image of which only the tag is unknown."""


def run_image(
    entrypoint: tuple[Word, ...] | None,
    rest: tuple[Word, ...],
    image: Word | None,
    around: Around,
    reading: DocumentReading,
    *,
    before: tuple[Word, ...] = (),
    is_ours: bool = False,
) -> None:
    """Add the launch of a container; `is_ours` if it is vLLM regardless of image and arguments."""
    count = len(reading.starts)
    if entrypoint is not None:
        # An empty entry point removes the image's own.
        words = (*(word for word in entrypoint if word.value != ""), *rest)
        read_command(words, replace(around, depth=around.depth + 1), reading)
        is_script = [head.endswith(".sh") and "vllm" in head for head in map(_program, entrypoint)] == [True]
        if is_script and len(reading.starts) == count and are_own(rest):  # it passes its arguments on
            around = replace(around, image=image, is_certain=False)
            _add_start("image", rest, [*before, *words], around, reading, prefix=(*before, *entrypoint))
        return
    name = image.value if image is not None else None
    if image is not None and name is None and (tagged := _TAG_UNKNOWN.match(image.raw)):
        name = tagged[1]
    first = rest[0].value if rest else None
    is_option = (rest[0].raw.lstrip("\"'") if first is None else first).startswith("-") if rest else False
    is_command = bool(rest) and not is_option and (is_program(first) or not images.has_entry_point(name))
    if is_command:
        read_command(rest, replace(around, depth=around.depth + 1), reading)
        if len(reading.starts) > count and images.has_entry_point(name) and is_program(first):
            first_argument = [word.start for word in reading.starts[count].words[:1]]
            # A command precedes its arguments; a script is a single argument.
            end = next((index for index, word in enumerate(rest) if [word.start] == first_argument), len(rest))
            details = {"image": name or ""}
            reading.troubles.append(Trouble("file.entry-point-again", rest[0].start, rest[:end][-1].end, details))
        is_ours = "vllm" in (name or "").lower()
        if len(reading.starts) == count and is_ours and _is_model(first) and are_own(rest):
            _add_start("image", rest, [*before, *rest], replace(around, image=image), reading, prefix=before)
            return
        if len(reading.starts) > count or first != "serve" or not (is_ours or are_own(rest)):
            return
        # The image's entry point is `vllm`, or a script that passes its arguments on.
        _add_start(
            "serve", rest[1:], [*before, *rest], replace(around, image=image), reading, prefix=(*before, rest[0])
        )
        return
    program = engine_programs.of_image(name)
    if program is not None and rest:
        _add_start(program, rest, [*before, *rest], replace(around, image=image), reading, prefix=before)
        return
    if not is_ours and "vllm" not in (name or "").lower() and not are_own(rest):
        return
    if not rest and not images.has_entry_point(name):
        return
    places = [*before, *rest] or ([image] if image is not None else [])
    around = replace(around, image=image, is_certain=around.is_certain and images.has_entry_point(name))
    _add_start("image", rest, places, around, reading, prefix=before)


def add_built(
    entry: str,
    words: Sequence[Word],
    around: Around,
    reading: DocumentReading,
    *,
    places: Sequence[Word] = (),
    is_elided: bool = False,
) -> None:
    """Add a launch that a chart, operator or server builds from these words, `is_elided` besides others."""
    count = len(reading.starts)
    _add_start(entry, words, places or words, around, reading, prefix=())
    if is_elided:
        reading.change_starts(count, lambda start: replace(start, is_elided=True))


def _add_start(
    entry: str,
    words: Sequence[Word],
    places: Sequence[Word],
    around: Around,
    reading: DocumentReading,
    *,
    prefix: tuple[Word, ...],
) -> None:
    """Add a launch with these arguments, unless it only requests help; `places` are its words."""
    arguments, is_elided = placeholders.arguments(words, is_page=around.is_page)
    if arguments is None:
        return
    arguments, is_pasted = placed_words.without_escaped_blanks(arguments)
    if is_pasted:
        around = replace(around, is_reconstructed=True)
    program = engine_programs.by_id().get(entry)
    if program is not None:
        is_pinned = around.image is not None and images.release_of(around.image.value) is not None
        is_strict = program.rejects_unknown and (program.is_vllm or is_pinned)
        around = replace(around, builder=entry, has_own_options=not is_strict)
        entry, arguments = program.entry, engine_programs.of_vllm(program, arguments)
    if around.builder and entry == "serve" and arguments and (arguments[0].value or "").startswith("-"):
        if any((word.value or "").partition("=")[0] == "--model" for word in arguments):
            entry = "api_server"  # or an image's entry point, which has the same options
        else:
            first = arguments[0].start
            arguments.insert(0, Word(None, first, first, "", "given by the builder"))
    start = _start(entry, tuple(arguments), places, around, prefix=prefix)
    reading.starts.append(replace(start, is_elided=True) if is_elided or around.builder else start)


def _start(
    entry: str,
    words: tuple[Word, ...],
    places: Sequence[Word],
    around: Around,
    *,
    prefix: tuple[Word, ...],
) -> WrittenLaunch:
    seen = gpus.seen(around.environment, around.gpus)
    is_step = any((word.value or word.raw).partition("=")[0] in gpus.OF_STEP for word in prefix)
    context: dict[str, Any] = {item.name: getattr(around, item.name) for item in fields(LaunchContext)}
    if around.job is not None and seen is None and not is_step:
        context["group"] = around.group or around.job
    return WrittenLaunch(
        entry,
        words,
        min((word.start for word in places), default=0),
        max((word.end for word in places), default=0),
        prefix,
        images.release_of(around.image.value) if around.image is not None else None,
        seen,
        around.gpus,
        **context,
    )


def _read_word(word: Word, around: Around, reading: DocumentReading) -> None:
    read_script(placed_words.excerpt_of(word), around.inside(word), reading)


def _program(word: Word) -> str:
    """Program name of a word, if known: also of `$(which vllm)` and `$BIN/vllm`."""
    if word.value is not None:
        return word.value.rsplit("/", 1)[-1]
    substitution = _SUBSTITUTION.fullmatch(word.raw)
    if substitution:
        return substitution[1].rsplit("/", 1)[-1]
    named = _VARIABLE_PROGRAM.fullmatch(word.raw)
    if named:
        return (named[1] or named[2]).lower()
    tail = word.raw.rsplit("/", 1)
    return tail[1].strip("\"'") if len(tail) > 1 and re.fullmatch(r"[\w.-]{1,60}[\"']?", tail[1]) else ""


def _subcommand(following: Sequence[str], size: int) -> tuple[str, int] | None:
    if following and following[0] in _SUBCOMMANDS:
        return following[0], size + 1
    if following and following[0] == "bench" and len(following) > 1 and following[1] in _BENCHMARKS:
        return f"bench {following[1]}", size + 2
    return None


def _is_python(head: str) -> bool:
    return re.fullmatch(r"(?:python|pypy)[\d.]{0,6}(?:\.exe)?", head) is not None


def _is_python_run(heads: Sequence[str]) -> bool:
    """Whether the words before `-m` or a script are Python with options, possibly wrapped."""
    at = next((index for index, head in enumerate(heads) if _is_python(head)), None)
    if at is None:
        return False
    return all(head.startswith("-") or head in {"ignore", "default", "error"} for head in heads[at + 1 :]) and (
        at == 0 or heads[0] in word_list("wrappers")
    )


def _is_set_in_front(text: str) -> bool:
    """Whether `NAME=` is followed by a variable's value and a command, rather than by a command."""
    value, _, behind = text.partition(" ")
    return not is_program(value) and may_start(behind)


def is_program(value: str | None) -> bool:
    """Whether the first argument of a container is a program rather than a model."""
    head = (value or "").rsplit("/", 1)[-1]
    return head in _SHELLS or head in word_list("wrappers") or _is_python(head) or head in {"vllm", "ray", "torchrun"}


def _is_model(value: str | None) -> bool:
    """Whether the first argument of an image that may be vLLM's own is a model of the Hub rather than a program."""
    return value is not None and re.fullmatch(r"[\w.-]{1,100}/[\w.-]{1,200}", value) is not None


def are_own(words: Sequence[Word]) -> bool:
    """Whether the arguments are specific to vLLM's server."""
    values = [word.raw.lstrip("\"'") if word.value is None else word.value for word in words]
    if any(value.startswith(_OWN) for value in values):
        return True
    names = {value.partition("=")[0].replace("_", "-") for value in values if re.match(r"--[a-z]", value)}
    names -= word_list("common-options")
    if len(names) < _TELLING:
        return False
    options_of_vllm = options.load(options.known_releases()[-1]).by_string
    count = sum(name in options_of_vllm for name in names)
    return count >= _TELLING and (len(names) - count) * 2 <= count
