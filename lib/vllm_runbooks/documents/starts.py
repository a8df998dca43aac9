"""Which words of a command start vLLM, and what surrounds them: wrappers, containers, scripts within words.

The records here are what every kind of document is read into.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from vllm_runbooks import options, shell
from vllm_runbooks.excerpt import Excerpt, Replacement
from vllm_runbooks.shell import Invocation, Trouble, Word

_MAX_WITHIN = 6
"""How deep a script may stand within a word of a script, and a container's start within one's."""


class Within(NamedTuple):
    """What a command stands in, where that is not the file itself: a quoted string, a scalar."""

    language: str
    """Of whatever it is quoted in: "shell", "compose", "yaml", "systemd", "python" or "json"."""
    start: int
    """Offsets in the file, quotes included."""
    end: int


@dataclass(frozen=True)
class Setting:
    """An environment variable that is given a value."""

    name: str
    value: Word
    start: int
    """Offsets of the whole setting, from its name or list item to the end of its value."""
    end: int
    form: str
    """How it is written: "assignment" (shell), "option" (of a container's start), "map" or "list" (YAML), "entry"
    (`name:` and `value:` of Kubernetes), "unit", "python", "dockerfile", "table"."""
    is_exported: bool = True
    """False for a variable of the shell alone, which no program sees."""
    pair: tuple[int, int] | None = None
    """Offsets of the word `NAME=value`, quotes included, where it is written as one."""


@dataclass(frozen=True)
class Keyword:
    """An argument of a Python call."""

    name: str
    value: Any
    """The literal, None also where it is unknown."""
    is_known: bool
    start: int
    """Offsets of the value's expression."""
    end: int
    name_start: int
    """Offset where the argument begins; that of the value where it stands without its name."""
    why: str = ""
    """Why it is unknown."""


@dataclass(frozen=True)
class Gpus:
    """GPUs that a start is given, as far as they are written."""

    devices: tuple[str, ...] | None = None
    """Numbers or UUIDs; None where only their count is written."""
    count: int | None = None
    """How many; None: all of the host."""
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class Found:
    """A start of vLLM."""

    kind: str
    """"shell", "docker", "compose", "kubernetes", "systemd", "dockerfile", "python", "argv" or "log"."""
    entry: str
    """"serve", "api_server", "image" (whatever the image starts), "LLM", "EngineArgs", "AsyncEngineArgs", "run-batch",
    "bench latency" and such; "node": a host of a Ray cluster, which is given an environment and no arguments."""
    words: tuple[Word, ...]
    """What vLLM's parser is given."""
    start: int
    end: int
    prefix: tuple[Word, ...] = ()
    """The words in front: wrappers, `docker run` with its options and image, `vllm serve`."""
    environment: Mapping[str, Setting] = field(default_factory=dict)
    """What the start sees of the settings in this document."""
    image: Word | None = None
    release: str | None = None
    """The release that the image's tag names."""
    gpus: Gpus | None = None
    name: str = ""
    """Of the service, container or unit."""
    keywords: tuple[Keyword, ...] = ()
    """Arguments of a Python call."""
    language: str = "shell"
    """How the words are written: "shell", "compose" (a text that compose splits), "yaml", "json" or "python" (lists),
    "systemd", "glued", "argv"."""
    within: tuple[Within, ...] = ()
    """What the words stand in, from the file inwards."""
    keys: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """In a manifest: the keys of the container, each with where its pair begins and ends."""
    is_certain: bool = True
    """False where something in front of the command is not known, or where it stands in the middle of a sentence."""
    is_reconstructed: bool = False
    """Whether blanks or line ends that a paste lost were put back."""
    is_elided: bool = False
    """Whether `...` stands for arguments that the text leaves out."""
    invocation: Invocation | None = None
    """What the shell runs, where one does: background, waiting, loop."""
    container: Sequence[Word] = ()
    """The options of `docker run`."""


@dataclass(frozen=True)
class Loose:
    """An option that stands apart from any command."""

    words: tuple[Word, ...]
    """The option, and its value where one is certain."""
    where: str
    """"bare" (a line of its own), "comment" or "table"."""
    start: int
    end: int


@dataclass
class Reading:
    """What was found so far."""

    starts: list[Found] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    loose: list[Loose] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    images: list[Word] = field(default_factory=list)
    code: list[tuple[Excerpt, Around]] = field(default_factory=list)
    """Python that a command is given (`python -c …`), to be read as such."""
    file: str = ""
    """The text of the file, as far as it is read."""


@dataclass(frozen=True)
class Around:
    """What a command is run in."""

    kind: str = "shell"
    name: str = ""
    environment: Mapping[str, Setting] = field(default_factory=dict)
    image: Word | None = None
    gpus: Gpus | None = None
    language: str = "shell"
    within: tuple[Within, ...] = ()
    keys: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    is_page: bool = False
    """In a page `<model>` is a placeholder and `...` an omission, whatever a shell would make of them."""
    is_certain: bool = True
    is_reconstructed: bool = False
    depth: int = 0

    @property
    def known(self) -> dict[str, str]:
        """Variables with a value that is known."""
        return {name: one.value.value for name, one in self.environment.items() if one.value.value is not None}


_MAX_KEPT = 100
"""Commands kept in variables that are read."""
_MAX_BEFORE = 12
"""Words in front of another that are looked at for the program that it is given to."""
_MIN_TEXT = 8
"""Characters that a word with a command in it has at least."""
_FAULTS = {"unexpected-token", "unclosed-bracket", "unclosed-quote"}
"""By which a shell tells that a text is not meant for it."""
_MAX_SEEN = 1000
"""Invocations, and words of each, that are looked through for what runs them."""
_SUBCOMMANDS = {"serve", "run-batch"}
_BENCHMARKS = {"latency", "throughput", "startup"}
_MODULES = {
    "vllm.entrypoints.openai.api_server": "api_server",
    "vllm.entrypoints.api_server": "demo_server",
    "vllm.entrypoints.openai.run_batch": "run-batch",
}
_CLI_MODULES = {"vllm.entrypoints.cli.main", "vllm.entrypoints.cli", "vllm.scripts", "vllm"}
_SHELLS = {"sh", "bash", "zsh", "dash", "ksh", "ash"}
_RUNTIMES = {"docker", "podman", "nerdctl", "nvidia-docker", "docker.exe"}
_WRAPPERS = {
    *("sudo", "doas", "nohup", "exec", "env", "time", "command", "builtin", "setsid", "nice", "ionice", "chrt"),
    *("stdbuf", "taskset", "numactl", "timeout", "unbuffer", "dumb-init", "tini", "uv", "uvx", "poetry", "pdm"),
    *("pixi", "pipenv", "conda", "mamba", "micromamba", "nsys", "ncu", "strace", "catchsegv", "srun", "setpriv"),
    *("gosu", "su-exec", "pipx", "rye", "hatch", "systemd-run", "flock", "unshare", "nsenter", "chroot", "cgexec"),
    *("prlimit", "runuser", "mpirun", "mpiexec", "ltrace", "perf", "apptainer", "singularity", "enroot", "watch"),
    *("torchrun", "accelerate", "firejail", "s6-setuidgid", "chpst", "systemd-inhibit", "caffeinate"),
}
_NOT_RUN = {
    *("echo", "printf", "grep", "egrep", "fgrep", "rg", "pkill", "pgrep", "killall", "kill", "cat", "tee", "which"),
    *("type", "man", "pip", "pip3", "apt", "apt-get", "git", "curl", "wget", "sed", "awk", "test", "[", "[["),
    *("history", "help", "ls", "cd", "source", ".", "mkdir", "cp", "mv", "rm", "chmod", "touch", "read", "set"),
    *("declare", "systemctl", "hash", "journalctl", "alias", "whereis", "export", "unset", "local", "head", "tail"),
    *("less", "vim", "nano", "hf", "huggingface-cli", "modelscope", "helm", "logger", "trap", "complete", "dpkg"),
    *("rpm", "yum", "dnf", "brew", "ps"),
}
"""Programs whose arguments may look like a start and are none."""
_NAMES_NEXT = {
    **{program: {"-u", "-g", "--user", "--group"} for program in ("sudo", "doas", "runuser")},
    **{program: {"-n", "--name"} for program in ("conda", "mamba", "micromamba")},
    **{program: {"--name", "-u", "--user"} for program in ("docker", "podman", "nerdctl", "enroot")},
    "systemd-run": {"-u", "--unit"},
    "tmux": {"-n", "-s", "-t"},
    "screen": {"-S", "-t"},
}
"""Options of programs whose value may be the word `vllm`."""
_SANDBOXES = {"apptainer", "singularity"}
_SANDBOX_IMAGE = re.compile(r"(?:docker|oras|library|shub|docker-daemon|docker-archive)://|.*\.(?:sif|simg|img|sqsh)\Z")
_COMPOSERS = {"docker-compose", "podman-compose"}
_HANDS_TO_SHELL = {
    *("ssh", "tmux", "screen", "script", "watch", "su", "runuser", "parallel", "sbatch", "xterm", "gnome-terminal"),
    *("pdsh", "clush", "mosh", "flock", "at", "bsub"),
}
"""Programs that hand a word to a shell, so that the shell's rules hold for it."""
_HELP = re.compile(r"-h\Z|--help(?:=|\Z)")
_SYNOPSIS = re.compile(r"\[(?:-{1,2}[A-Za-z]|<[A-Za-z])")
"""How a word of a description begins: `[--port PORT]`."""
_OMITTED = re.compile(
    r"\[(?:[a-z]*[-_ ]?(?:options|args|arguments|flags|params|parameters)|\.{3}|\u2026)(?:\.{3}|\u2026)?\](?:\.{3})?",
    re.IGNORECASE,
)
"""What stands for further arguments in a description."""
_STANDS_FOR = re.compile(r"\{[A-Za-z_]\w{0,60}\}|%[A-Za-z_]\w{0,60}%|[A-Z](?:[A-Z_]{0,60}[A-Z])?")
"""What in a page may stand for a value that is to be filled in: `{port}`, `PORT`, `N`."""
_NAMING = re.compile(
    r"(?:.*_)?(?:N|X|NUM|INT|INTEGER|FLOAT|NUMBER|SIZE|COUNT|VALUE|PORT|HOST|MODEL|NAME|PATH|LEN|LENGTH|TP|PP|DP|KEY|TOKEN"
    r"|YOUR|GPUS?|ID|DIR|FILE|IP|ADDRESS|URL)(?:_.*)?"
)
"""Words in the name of a value."""
_HELD = re.compile(
    r"[\"']?(?:\$\(|`)(?:which|command[ \t]+-v|type[ \t]+-[pP]+)[ \t]+([\w./-]{1,200})[^|;&)`]{0,40}[)`][\"']?"
)
"""A command substitution that finds a program."""
_VARIABLE_PROGRAM = re.compile(
    r"[\"']?\$\{?\w{0,40}?(?i:(vllm)(?:_?(?:bin|cmd|exe|executable|path|command))?|(python)3?(?:_?(?:bin|cmd|exe|executable|path))?)\}?[\"']?"
)
"""A variable that is named for the program that it holds."""
_START = re.compile(
    r"(?<![\w.-])vllm[ \t\\\n]{1,40}(?:serve|run-batch|bench)\b|vllm\.entrypoints\.|\bapi_server\.py\b"
    r"|\b(?:docker|podman|nerdctl)[ \t]{1,8}(?:container[ \t]{1,8})?run\b|\brun_cluster\.sh\b"
)
"""Where a text may hold a start."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,200})=")
_BOOLEAN = {
    *("--rm", "--init", "--privileged", "--detach", "--interactive", "--tty", "--read-only", "--no-healthcheck"),
    *("--oom-kill-disable", "--publish-all", "--sig-proxy", "--disable-content-trust", "--use-api-socket", "--quiet"),
    *("--replace", "--rmi", "--no-hosts", "--no-hostname", "--env-host", "--http-proxy", "--passwd", "--tls-verify"),
    *("--read-only-tmpfs", "--rootfs", "--unsetenv-all", "--help", "--all"),
}
"""Options of `docker run` (and of podman) without a value: all others take one."""
_SHORT_BOOLEAN = "Pditq"
_GLOBAL_VALUED = {"-H", "--host", "-c", "--context", "--config", "-l", "--log-level", "--namespace", "--connection"}
_IMAGE = re.compile(
    r"(?:docker://|docker\.io/)?((?:[\w.-]{1,100}(?::\d{1,5})?/){0,6})([\w.-]{1,100})(?::([\w.-]{1,128}))?(?:@sha256:\w{1,64})?\Z",
    re.ASCII,
)
_RELEASE = re.compile(r"v?(\d\.\d{1,3}\.\d{1,3}(?:\.?(?:post|rc|dev)\d{1,4}|(?:a|b)\d{1,3})?)(?![\d.])", re.ASCII)
_TAGGED = re.compile(r"vllm[_-]v?(\d\.\d{1,3}\.\d{1,3}(?:\.?post\d{1,3}|\.?rc\d{1,3})?)(?![\d.])", re.ASCII)
_OTHERS = {"lmcache"}
"""Who publishes images named as vLLM's with a numbering of their own."""
_OWN = ("--served-model-name", "--tensor-parallel-size", "--max-model-len", "--gpu-memory-utilization", "--model=")
_COMMON = {
    *("--host", "--port", "--config", "--seed", "--root-path", "--log-level", "--uvicorn-log-level", "--api-key"),
    *("--device", "--help", "--version", "--workers", "--ssl-keyfile", "--ssl-certfile", "--revision"),
}
"""Options that other servers have as well."""
_TELLING = 2
"""Options of vLLM's that tell a command as its own."""
_ELISION = {"...", "…", "[...]", "[…]", "……"}
_PLACEHOLDER = re.compile(r"<(?=[^\W\d_][^<>\n|&;$\"'`]{0,80}>)([^<>\n|&;$\"'`]{0,79}[^<>\n|&;$\"'`\s])>")
_TEMPLATE = re.compile(r"(?:\{\{|\u2983{2})[^{}\n\u2983\u2984]{1,500}(?:\}\}|\u2984{2})")
"""An expression that a template fills in, as it is written and as `yaml_places` hands it on."""
_PLACEHOLDER_SIGNS = str.maketrans("<>", "\ue0b2\ue0b0")
"""Signs without a meaning, which are characters like any other to a shell."""


def may_start(text: str) -> bool:
    """Whether a text may hold a start of vLLM by command; cheap."""
    return _START.search(text) is not None


def literal(source: Excerpt, *, start: int | None = None, end: int | None = None, why: str = "") -> Word:
    """A word whose value stands as it is in the file; `start` and `end` (offsets) take its quotes in."""
    first = source.at[0] if start is None else start
    last = source.at[len(source.text)] if end is None else end
    return Word(None if why else source.text, first, last, source.text, why, None if why else source.at[:-1])


def unknown(start: int, end: int, why: str) -> Word:
    """A word that cannot be known."""
    return Word(None, start, end, "", why)


def read_script(source: Excerpt, around: Around, reading: Reading) -> None:
    """Add what a shell script starts and sets."""
    text = source.text
    if around.is_page:
        # In a page that is a name to fill in, not a redirection.
        text = _PLACEHOLDER.sub(lambda match: match[0].translate(_PLACEHOLDER_SIGNS), text)
    if around.is_page or around.within:
        text = _TEMPLATE.sub(lambda match: f"\ue0b2{'x' * (len(match[0]) - 2)}\ue0b0", text)
    around = replace(around, language="shell")
    script = shell.read(Excerpt(text, source.at), known=around.known)
    settings = [
        Setting(one.name, _filled(one.value), one.start, one.end, "assignment", one.exported)
        for one in script.assignments
    ]
    reading.settings += settings
    by_name: dict[str, list[Setting]] = {}
    for one in sorted(settings, key=lambda setting: setting.start):
        by_name.setdefault(one.name, []).append(one)
    followed: Word | None = None
    """The script of the last `bash -c SCRIPT`: the commands in it come next, and are not read twice."""
    is_read = False
    scripts: dict[int, int] = {}
    for invocation in script.invocations:
        words = tuple(_filled(word) for word in invocation.words)
        prefix = [
            Setting(one.name, _filled(one.value), one.start, one.end, "assignment") for one in invocation.assignments
        ]
        reading.settings += prefix
        environment = dict(around.environment)
        own = {one.name: one for one in prefix}
        for name, value in invocation.environment.items():
            written = own.get(name) or _last_before(by_name.get(name, ()), invocation.start)
            if written is not None:
                same = written.value
                word = same if same.value == value else replace(same, value=value, at=None)
                environment[name] = replace(written, value=word, is_exported=True)
            elif name in environment and environment[name].value.value != value:
                environment[name] = replace(
                    environment[name], value=replace(environment[name].value, value=value, at=None)
                )
        inner = replace(around, environment=environment)
        if followed is not None and followed.start <= invocation.start and invocation.end <= followed.end:
            if is_read:
                continue
            inner = replace(inner, within=(*inner.within, Within(around.language, followed.start, followed.end)))
        else:
            followed = None
        script_word = read_command(words, inner, reading, invocation=invocation)
        if script_word is not None and followed is None:
            followed, is_read = script_word, not _is_given_arguments(words, script_word)
            scripts[followed.start] = followed.end
    for trouble in _without_repeated(script.troubles, scripts):
        reading.troubles.append(replace(trouble, edits=_indented(trouble.edits, source, reading.file)))
    _read_kept(script, around, reading)


def _indented(edits: Sequence[Replacement], source: Excerpt, file: str) -> tuple[Replacement, ...]:
    """Edits of a script as those of the file: a line that they begin has what is in front of the others there."""
    if not any("\n" in edit.new_text for edit in edits) or not file:
        return tuple(edits)
    made = []
    for edit in edits:
        index = bisect_left(source.at, edit.start)
        begin = source.text.rfind("\n", 0, index) + 1
        if begin and file[source.at[begin - 1]] != "\n":
            return ()  # the line end is written in another way
        line = file.rfind("\n", 0, source.at[begin]) + 1
        lead = file[line : source.at[begin]]
        if not lead or "\n" not in edit.new_text:
            made.append(edit)
        elif re.fullmatch(r"[ \t>]*", lead):
            made.append(_led(edit, lead))
        else:
            return ()
    return tuple(made)


def _led(edit: Replacement, lead: str) -> Replacement:
    """The edit with something in front of each line that it begins."""
    return edit._replace(new_text=edit.new_text.replace("\n", f"\n{lead}"))


def _without_repeated(troubles: Iterable[Trouble], scripts: Mapping[int, int]) -> Iterator[Trouble]:
    """The troubles without those of a command in a script, where that one as a whole is in the same trouble."""
    begins = sorted(scripts)
    for trouble in troubles:
        at = bisect_right(begins, trouble.start) - 1
        if trouble.kind != "background-unwatched" or at < 0 or trouble.end > scripts[begins[at]]:
            yield trouble


def _is_given_arguments(words: Sequence[Word], script: Word) -> bool:
    """Whether `bash -c SCRIPT` has arguments behind: what the shell's own reading makes of them is kept."""
    return script.value is not None and words[-1].start >= script.end


def _last_before(settings: Sequence[Setting], offset: int) -> Setting | None:
    """Of settings in order, the last that begins before an offset."""
    at = bisect_right(settings, offset, key=lambda setting: setting.start)
    return settings[at - 1] if at else None


def _read_kept(script: shell.Script, around: Around, reading: Reading) -> None:
    """Commands kept in variables of which a part is not known, where nothing is seen to run them."""
    kept = [one for one in script.assignments if one.value.value is None and may_start(one.value.raw)]
    if not kept or around.depth >= _MAX_WITHIN:
        return
    run = " ".join(word.raw for invocation in script.invocations[:_MAX_SEEN] for word in invocation.words[:_MAX_SEEN])
    for one in kept[:_MAX_KEPT]:
        if f"${one.name}" in run or f"${{{one.name}" in run:
            continue
        within = (*around.within, Within("shell", one.value.start, one.value.end))
        read_script(
            excerpt_of(one.value),
            replace(around, within=within, is_certain=False, depth=around.depth + 1),
            reading,
        )


def read_command(
    words: tuple[Word, ...], around: Around, reading: Reading, *, invocation: Invocation | None = None
) -> Word | None:
    """Add what one command starts, whose words are those that a program is given; the word that is a script, if any."""
    if not words or around.depth > _MAX_WITHIN:
        return None
    first = words[0].value or ""
    if first.startswith("--") and re.match(r"--[A-Za-z]", first):
        reading.loose += options_of(words, "bare")
        return None
    return _Command(words, around, reading, invocation).read()


def _filled(word: Word) -> Word:
    """The word, unknown where a placeholder stands in it."""
    if word.value is not None and "\ue0b2" in word.value and "\ue0b0" in word.value:
        return replace(word, value=None, why="placeholder", at=None)
    return word


def options_of(words: Sequence[Word], where: str) -> list[Loose]:
    """The words as options, each with what follows it."""
    groups: list[list[Word]] = []
    for word in words:
        if word.value is not None and re.match(r"--?[A-Za-z]", word.value):
            groups.append([word])
        elif groups and not _is_escaped_blank(word):
            groups[-1].append(word)
    return [Loose(tuple(group), where, group[0].start, group[-1].end) for group in groups]


class _Command:
    """One command being taken apart."""

    def __init__(
        self, words: tuple[Word, ...], around: Around, reading: Reading, invocation: Invocation | None
    ) -> None:
        self.words, self.around, self.reading, self.invocation = words, around, reading, invocation
        self.values = [word.value or "" for word in words]
        self.heads = [_program(word) for word in words]

    def read(self) -> Word | None:
        head = self.heads[0]
        if head in _NOT_RUN:
            return None
        if head in {"parallel", "xargs"} and self._read_for_each():
            return None
        container = self._container_at()
        if container is not None:
            self._read_container(container)
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
        """Read `parallel COMMAND ::: …` or `xargs COMMAND`: what is put in place of `{}`, or behind, is not known."""
        end = next((at for at, value in enumerate(self.values) if re.fullmatch(r":{3,4}\+?", value)), len(self.words))
        words = [
            replace(word, value=None, why="placeholder", at=None)
            if "{}" in (word.value or "") and may_start(word.value or "") is False
            else word
            for word in self.words[1:end]
        ]
        inner = _Command(tuple(words), replace(self.around, is_certain=False), self.reading, self.invocation)
        count = len(self.reading.starts)
        at = next((index for index in range(len(words)) if inner._begun(index)), None)
        if at is None:
            return False
        inner._add(at, *(inner._begun(at) or ("", 0)))
        is_filled = any(word.why == "placeholder" for word in words)
        for index in range(count, len(self.reading.starts)):
            one = self.reading.starts[index]
            prefix = (self.words[0], *one.prefix)
            self.reading.starts[index] = replace(
                one, start=self.words[0].start, prefix=prefix, is_elided=one.is_elided or not is_filled
            )
        return True

    def _read_code(self, index: int) -> bool:
        """Whether `python -c CODE` stands here; hands the code on to whoever reads Python."""
        if not _is_python(self.heads[index]):
            return False
        at = index + 1
        while at < len(self.words) and re.fullmatch(r"-[bBdEiIOPqsSuvx]+", self.values[at]):
            at += 1
        if at + 1 >= len(self.words) or not re.fullmatch(r"-[bBdEiIOPqsSuvx]*c", self.values[at]):
            return False
        word = self.words[at + 1]
        within = (*self.around.within, Within(self.around.language, word.start, word.end))
        around = replace(self.around, within=within, depth=self.around.depth + 1)
        self.reading.code.append((excerpt_of(word), around))
        return True

    def _begun(self, index: int) -> tuple[str, int] | None:
        """The entry that begins at a word and how many words it takes."""
        values, head = self.values, self.heads[index]
        following = values[index + 1 : index + 3]
        if head == "vllm" and following and not self._is_name(index):
            if following[0] == "--":  # `pm2 start vllm -- serve …`
                return _subcommand(values[index + 2 : index + 4], 2)
            return _subcommand(following, 1)
        if values[index] == "-m" and following:
            if following[0] in _MODULES:
                return _MODULES[following[0]], 2
            if following[0] in _CLI_MODULES:
                return _subcommand(values[index + 2 : index + 4], 2)
        if values[index].startswith("-mvllm.") and values[index][2:] in _MODULES:
            return _MODULES[values[index][2:]], 1
        is_script = head == "api_server.py" and (
            index == 0 or _is_python(self.heads[index - 1]) or values[index - 1][:1] == "-"
        )
        return (
            ("api_server" if "vllm/entrypoints/api_server" not in values[index] else "demo_server", 1)
            if is_script
            else None
        )

    def _is_name(self, index: int) -> bool:
        """Whether a word is the value of an option that names something: `conda run -n vllm serve`."""
        option = self.values[index - 1] if index else ""
        return option.startswith("-") and any(
            option in _NAMES_NEXT.get(head, ()) for head in self.heads[max(index - _MAX_BEFORE, 0) : index - 1]
        )

    def _settings(self, until: int) -> dict[str, Setting]:
        """Settings that wrappers (`env`, `sudo`) are given in front of the command."""
        found = {}
        for word in self.words[:until]:
            match = _ASSIGNMENT.match(word.value or "")
            if match and self.heads[0] in _WRAPPERS:
                found[match[1]] = _of_pair(word, match.end(), "option")
        return found

    def _add(self, index: int, entry: str, taken: int) -> None:
        around, words = self.around, self.words
        begin = index + taken
        prefix = words[:begin]
        is_certain = index == 0 or self.heads[0] in _WRAPPERS or _is_python_run(self.heads[:index])
        settings = self._settings(index)
        self.reading.settings += settings.values()
        own, is_elided = _given(words[begin:], around)
        if own is None:
            return
        own, is_pasted = _without_escaped_blanks(own)
        image = around.image or next(
            (
                word
                for word in prefix
                if word.value and "vllm" in word.value and ":" in word.value and release_of(word.value)
            ),
            None,
        )
        last = max((word.end for word in words), default=words[0].end)
        environment = {**around.environment, **settings}
        self.reading.starts.append(
            Found(
                kind=around.kind,
                entry=entry,
                words=tuple(own),
                start=min(word.start for word in words),
                end=last,
                prefix=prefix,
                environment=environment,
                image=image,
                release=release_of(image.value) if image is not None and image.value else None,
                gpus=visible(environment) or around.gpus,
                name=around.name,
                language=around.language,
                within=around.within,
                keys=around.keys,
                is_certain=is_certain and around.is_certain,
                is_reconstructed=around.is_reconstructed or is_pasted,
                is_elided=is_elided,
                invocation=self.invocation,
            )
        )

    def _script_at(self, index: int) -> int | None:
        """Index of the script in `bash -c SCRIPT`."""
        if self.heads[index] not in _SHELLS or self.values[index][:1] == "-":
            return None
        at, is_script = index + 1, False
        while at < len(self.words):
            value = self.values[at]
            if not value.startswith(("-", "+")) or value == "-":
                return at if is_script else None
            is_script = is_script or (not value.startswith("--") and "c" in value)
            # `-o pipefail` takes a word, also as the end of `-euo`.
            at += 2 if re.fullmatch(r"[-+][a-zA-Z]*[oO]|--(?:rcfile|init-file)", value) else 1
        return None

    def _read_within(self, at: int, index: int) -> Word:
        settings = self._settings(index)
        self.reading.settings += settings.values()
        word = self.words[at]
        if self.invocation is None or not _is_given_arguments(self.words, word) or index:
            around = replace(self.around, environment={**self.around.environment, **settings})
            _read_word(word, around, self.reading)
        return word

    def _read_strings(self) -> None:
        """Words of other programs that hold a command: `tmux new -d 'vllm serve …'`, `ssh host "…"`."""
        is_shell = any(head in _HANDS_TO_SHELL for head in self.heads[:_MAX_SEEN])
        for word in self.words[1:]:
            value = word.raw if word.value is None else word.value
            if len(value) <= _MIN_TEXT or not may_start(value) or not any(blank in value for blank in " \n"):
                continue
            name = re.match(r"(?:--[A-Za-z][\w-]{0,60}|[A-Za-z_]\w{0,60})=", value)  # `sbatch --wrap="…"`
            inner = Reading(file=self.reading.file)
            text = _cut(word, name.end()) if name and word.value is not None else word
            _read_word(text, replace(self.around, is_certain=False), inner)
            if is_shell or not any(one.kind in _FAULTS for one in inner.troubles):
                self.reading.troubles += inner.troubles
            self.reading.starts += inner.starts
            self.reading.settings += inner.settings
            self.reading.loose += inner.loose if is_shell else ()
            self.reading.images += inner.images
            self.reading.code += inner.code

    def _node(self) -> bool:
        """Whether this is the script that starts a node of a Ray cluster in a container; adds it."""
        at = next((index for index, head in enumerate(self.heads[:4]) if head == "run_cluster.sh"), None)
        if at is None or len(self.words) < at + 2:
            return False
        options = _container_options(self.words[at + 1 :], is_all=True)
        self._add_node(self.words[at + 1], options)
        return True

    def _add_node(self, image: Word | None, options: _Options) -> None:
        settings = {one.name: one for one in options.settings}
        self.reading.settings += options.settings
        if image is not None:
            self.reading.images.append(image)
        self.reading.starts.append(
            Found(
                kind="docker",
                entry="node",
                words=(),
                start=self.words[0].start,
                end=self.words[-1].end,
                prefix=self.words,
                environment=settings,
                image=image,
                release=release_of(image.value) if image is not None and image.value else None,
                gpus=options.gpus or visible(settings),
                is_certain=self.around.is_certain,
                is_reconstructed=self.around.is_reconstructed,
                language=self.around.language,
                within=self.around.within,
                invocation=self.invocation,
                container=self.words,
            )
        )

    def _container_at(self) -> tuple[int, str] | None:
        """Where the options of a container's start begin and which command it is (run, exec, kubectl)."""
        for index, head in enumerate(self.heads):
            if head in _COMPOSERS:
                return index + 1, "exec"
            if head in _SANDBOXES:
                return index + 1, "sandbox"
            if head in _RUNTIMES or head == "kubectl":
                at = index + 1
                while at < len(self.values) and self.values[at].startswith("-"):
                    at += 2 if self.values[at] in _GLOBAL_VALUED else 1
                if at < len(self.values) and self.values[at] == "container":
                    at += 1
                if at < len(self.values) and self.values[at] == "compose":
                    return at + 1, "exec"
                command = self.values[at] if at < len(self.values) else ""
                if head == "kubectl":
                    return (at + 1, "kubectl") if command in {"run", "exec"} else None
                if command in {"run", "create"}:
                    return at + 1, "run"
                return (at + 1, "exec") if command == "exec" else None
            if self._begun(index):
                return None
        return None

    def _read_container(self, container: tuple[int, str]) -> None:
        begin, how = container
        words = self.words
        if how == "exec":
            self._read_inside(words[begin:])
            return
        if how == "kubectl":
            self._read_kubectl(begin)
            return
        if how == "sandbox":
            self._read_sandbox(begin)
            return
        options = _container_options(words[begin:])
        self.reading.settings += options.settings
        image = options.image
        if image is None:
            return
        self.reading.images.append(image)
        around = replace(
            self.around,
            kind="docker" if self.around.kind == "shell" else self.around.kind,
            environment=self._passed(options.settings),
            image=image,
            gpus=options.gpus,
        )
        before = words[: begin + options.taken]
        count = len(self.reading.starts)
        entry = (options.entrypoint,) if options.entrypoint is not None else None
        run_image(entry, options.rest, image, around, self.reading, invocation=self.invocation, before=before)
        for index in range(count, len(self.reading.starts)):
            one = self.reading.starts[index]
            self.reading.starts[index] = replace(
                one,
                start=min(words[0].start, one.start),
                end=max(words[-1].end, one.end),
                prefix=(*before, *(word for word in one.prefix if word not in before))
                if one.prefix != before
                else before,
                container=words[begin : begin + options.taken - 1],
                invocation=self.invocation,
            )
        if count == len(self.reading.starts) and "vllm" in (image.value or "") and _is_node(options):
            self._add_node(image, options)

    def _passed(self, settings: list[Setting]) -> dict[str, Setting]:
        """The container's environment; a name alone hands on the shell's own value."""
        found = {}
        for one in settings:
            outer = self.around.environment.get(one.name)
            if one.value.why == "handed on" and outer is not None:
                found[one.name] = replace(one, value=replace(outer.value, start=one.start, end=one.end, at=None))
            else:
                found[one.name] = one
        return found

    def _read_sandbox(self, begin: int) -> None:
        """`apptainer run [options] IMAGE [arguments]`, and `exec`, which begins none by itself."""
        at = next((i for i in range(begin, len(self.words)) if _SANDBOX_IMAGE.match(self.values[i])), None)
        verb = next((value for value in self.values[begin:at] if value in {"run", "exec", "shell", "instance"}), "")
        image = self.words[at] if at is not None else None
        around = replace(self.around, image=image, depth=self.around.depth + 1)
        count = len(self.reading.starts)
        before = self.words[: (begin if at is None else at) + 1]
        rest = self.words[len(before) :]
        if image is not None:
            self.reading.images.append(image)
        if verb == "run" and image is not None:
            around = replace(around, kind="docker" if around.kind == "shell" else around.kind)
            run_image(None, rest, image, around, self.reading, invocation=self.invocation, before=before)
        else:
            inner = _Command(rest, around, self.reading, self.invocation)
            for index in range(len(rest)):
                if inner._begun(index) or inner._script_at(index) is not None:
                    read_command(rest[index:], around, self.reading, invocation=self.invocation)
                    before = (*before, *rest[:index])
                    break
        for index in range(count, len(self.reading.starts)):
            one = self.reading.starts[index]
            prefix = one.prefix if one.prefix[: len(before)] == before else (*before, *one.prefix)
            self.reading.starts[index] = replace(
                one, start=min(self.words[0].start, one.start), prefix=prefix, invocation=self.invocation
            )

    def _read_inside(self, words: tuple[Word, ...]) -> None:
        """The command of `docker exec [options] NAME COMMAND`: it begins where a start is found."""
        inner = _Command(words, replace(self.around, environment={}), self.reading, self.invocation)
        for index in range(len(words)):
            begun = inner._begun(index)
            script = inner._script_at(index)
            if begun or script is not None:
                options = _container_options(words[:index])
                settings = {one.name: one for one in options.settings}
                around = replace(self.around, environment=settings, depth=self.around.depth + 1)
                self.reading.settings += options.settings
                read_command(words[index:], around, self.reading, invocation=self.invocation)
                return

    def _read_kubectl(self, begin: int) -> None:
        words, image, settings = self.words[begin:], None, []
        rest: tuple[Word, ...] = ()
        is_command = False
        for index, word in enumerate(words):
            value = word.value or ""
            if value == "--":
                rest = words[index + 1 :]
                break
            if value.startswith("--image="):
                image = _cut(word, len("--image="))
            elif value == "--image" and index + 1 < len(words):
                image = words[index + 1]
            elif value.startswith("--env=") and "=" in value[6:]:
                pair = _cut(word, len("--env="))
                settings.append(_of_pair(pair, (pair.value or "").index("=") + 1, "option"))
            elif value == "--command":
                is_command = True
        environment = {one.name: one for one in settings}
        self.reading.settings += settings
        if image is None:
            self._read_inside(rest)
            return
        self.reading.images.append(image)
        around = replace(
            self.around, kind="kubernetes", environment=environment, image=image, depth=self.around.depth + 1
        )
        if is_command:
            read_command(rest, around, self.reading, invocation=self.invocation)
        else:
            before = self.words[: len(self.words) - len(rest)]
            run_image(None, rest, image, around, self.reading, invocation=self.invocation, before=before)


def run_image(
    entrypoint: tuple[Word, ...] | None,
    rest: tuple[Word, ...],
    image: Word | None,
    around: Around,
    reading: Reading,
    *,
    invocation: Invocation | None = None,
    before: tuple[Word, ...] = (),
    is_ours: bool = False,
) -> None:
    """Add what a container starts: its own entry point, else that given, with the arguments behind it.

    `is_ours`: it is vLLM, whatever its image and arguments.
    """
    if entrypoint is not None:
        # An empty one takes the image's own away.
        words = (*(word for word in entrypoint if word.value != ""), *rest)
        read_command(words, replace(around, depth=around.depth + 1), reading, invocation=invocation)
        return
    name = image.value if image is not None else None
    count = len(reading.starts)
    first = rest[0].value if rest else None
    is_option = first is not None and first.startswith("-")
    is_command = bool(rest) and not is_option and (_is_program(first) or not has_entry_point(name))
    if is_command:
        read_command(rest, replace(around, depth=around.depth + 1), reading, invocation=invocation)
        if len(reading.starts) > count and has_entry_point(name) and _is_program(first):
            own = reading.starts[count]
            given = rest[: len(rest) - len(own.words)] if own.words else rest
            if given:
                reading.troubles.append(
                    Trouble("file.entry-point-again", given[0].start, given[-1].end, {"image": name or ""}, ())
                )
        return
    if not is_ours and "vllm" not in (name or "").lower() and not are_own(rest):
        return
    if not rest and not has_entry_point(name):
        return
    own_words, is_elided = _given(rest, around)
    if own_words is None:
        return
    own_words, is_pasted = _without_escaped_blanks(own_words)
    places = [*before, *rest] or ([image] if image is not None else [])
    reading.starts.append(
        Found(
            kind=around.kind,
            entry="image",
            words=tuple(own_words),
            start=min((word.start for word in places), default=0),
            end=max((word.end for word in places), default=0),
            prefix=before,
            environment=around.environment,
            image=image,
            release=release_of(name) if name else None,
            gpus=around.gpus or visible(around.environment),
            name=around.name,
            language=around.language,
            within=around.within,
            keys=around.keys,
            is_certain=around.is_certain and has_entry_point(name),
            is_reconstructed=around.is_reconstructed or is_pasted,
            is_elided=is_elided,
            invocation=invocation,
        )
    )


def has_entry_point(image: str | None) -> bool:
    """Whether an image starts vLLM's server by itself: those that vLLM publishes as `vllm-openai…`, and copies."""
    match = _IMAGE.match(image or "")
    return match is not None and match[2].startswith("vllm-openai")


def release_of(image: str | None) -> str | None:
    """The release that an image's tag names; None where the tag names none, or counts in another way."""
    match = _IMAGE.match(image or "")
    if not match or "vllm" not in (image or "").lower():
        return None
    owner, name, tag = match[1].rstrip("/").rsplit("/", 1)[-1], match[2], match[3] or ""
    inner = _TAGGED.search(tag)
    if inner:
        return inner[1]
    if owner in _OTHERS or not (name.startswith("vllm-openai") or owner == "vllm"):
        return None
    release = _RELEASE.match(tag)
    return release[1] if release else None


def visible(environment: Mapping[str, Setting]) -> Gpus | None:
    """GPUs that the environment lets a start see."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        setting = environment.get(name)
        value = setting.value.value if setting else None
        if setting and value and value not in {"all", "void", "none"}:
            devices = tuple(part.strip() for part in value.split(",") if part.strip())
            return Gpus(devices, len(devices), setting.start, setting.end)
    return None


def excerpt_of(word: Word) -> Excerpt:
    """A word's value as a text with places; where they are not known, all at the word's beginning.

    Of a word with a variable in it that is not known, what is written between its quotes: a script in it is read with
    the variable unknown.
    """
    value = word.value
    if value is None:
        return _between_quotes(word)
    is_placed = word.at is not None and len(word.at) == len(value) and bool(value)
    at = list(word.at) if is_placed and word.at is not None else [word.start] * len(value)
    return Excerpt(value, [*at, at[-1] + 1 if is_placed else word.end])


def _between_quotes(word: Word) -> Excerpt:
    raw = word.raw
    places = range(word.start, word.end) if word.end - word.start == len(raw) else [word.start] * len(raw)
    kept = list(enumerate(raw))
    if len(raw) > 1 and raw[0] == raw[-1] and raw[0] in "\"'":
        kept = kept[1:-1]
    if raw[:1] == '"':
        unescaped = []
        is_escaped = False
        for index, character in kept:
            if is_escaped and character not in '"\\`\n':
                unescaped.append((index - 1, "\\"))
            is_escaped = character == "\\" and not is_escaped
            if not is_escaped and not (character == "\n" and raw[index - 1] == "\\"):
                unescaped.append((index, character))
        kept = unescaped
    return Excerpt("".join(one for _, one in kept), [*(places[index] for index, _ in kept), word.end])


def _read_word(word: Word, around: Around, reading: Reading) -> None:
    """Read a word as a script of its own."""
    within = (*around.within, Within(around.language, word.start, word.end))
    read_script(excerpt_of(word), replace(around, within=within, depth=around.depth + 1), reading)


def _given(words: Sequence[Word], around: Around) -> tuple[list[Word] | None, bool]:
    """The arguments without what stands for others, and whether anything does; None where nothing is started.

    That is so for a question for help and for a description (`vllm serve MODEL [--port PORT]`).
    """
    own: list[Word] = []
    is_elided = False
    for index, word in enumerate(words):
        value = word.value
        if value is None:
            own.append(word)
        elif _HELP.match(value) or _SYNOPSIS.match(value) or (index == 0 and re.fullmatch(r"\[[\w <>|-]+\]", value)):
            return None, False
        elif value in _ELISION or _OMITTED.fullmatch(value):
            is_elided = True
        elif around.is_page and ("..." in value or "\u2026" in value):
            own.append(replace(word, value=None, why="left out", at=None))
        elif around.is_page and _is_to_be_filled(value, own[-1].value if own else None):
            own.append(replace(word, value=None, why="placeholder", at=None))
        else:
            own.append(word)
    return own, is_elided


def _is_to_be_filled(value: str, option: str | None) -> bool:
    """Whether a word in a page is the name of a value rather than the value."""
    if not _STANDS_FOR.fullmatch(value):
        return False
    if value[0] in "{%":
        return True
    name = (option or "").lstrip("-").replace("-", "_").upper()
    return (option or "").startswith("-") and (bool(_NAMING.fullmatch(value)) or value in name)


def _program(word: Word) -> str:
    """The name of the program that a word is, as far as it can be told: of `$(which vllm)` and `$BIN/vllm`, too."""
    if word.value is not None:
        return word.value.rsplit("/", 1)[-1]
    held = _HELD.fullmatch(word.raw)
    if held:
        return held[1].rsplit("/", 1)[-1]
    named = _VARIABLE_PROGRAM.fullmatch(word.raw)
    if named:
        return (named[1] or named[2]).lower()
    tail = word.raw.rsplit("/", 1)
    return tail[1].strip("\"'") if len(tail) > 1 and re.fullmatch(r"[\w.-]{1,60}[\"']?", tail[1]) else ""


def _subcommand(following: Sequence[str], taken: int) -> tuple[str, int] | None:
    if not following:
        return None
    if following[0] in _SUBCOMMANDS:
        return following[0], taken + 1
    if following[0] == "bench" and len(following) > 1 and following[1] in _BENCHMARKS:
        return f"bench {following[1]}", taken + 2
    return None


def _is_python(head: str) -> bool:
    return re.fullmatch(r"(?:python|pypy)[\d.]{0,6}(?:\.exe)?", head) is not None


def _is_python_run(heads: Sequence[str]) -> bool:
    """Whether the words in front of `-m` or a script are Python with its own options, behind known wrappers or not."""
    at = next((index for index, head in enumerate(heads) if _is_python(head)), None)
    if at is None:
        return False
    return all(head.startswith("-") or head in {"ignore", "default", "error"} for head in heads[at + 1 :]) and (
        at == 0 or heads[0] in _WRAPPERS
    )


def _is_program(value: str | None) -> bool:
    """Whether the first argument of a container is a program rather than a model."""
    head = (value or "").rsplit("/", 1)[-1]
    return head in _SHELLS or head in _WRAPPERS or _is_python(head) or head in {"vllm", "ray", "torchrun"}


def are_own(words: Sequence[Word]) -> bool:
    """Whether arguments are such as only vLLM's server has."""
    values = [word.value or "" for word in words]
    if any(value.startswith(_OWN) for value in values):
        return True
    names = {value.partition("=")[0].replace("_", "-") for value in values if re.match(r"--[a-z]", value)} - _COMMON
    if len(names) < _TELLING:
        return False
    known = options.load(options.known_releases()[-1]).by_string
    own = sum(name in known for name in names)
    return own >= _TELLING and (len(names) - own) * 2 <= own


def _without_escaped_blanks(words: list[Word]) -> tuple[list[Word], bool]:
    r"""Words of a command whose line ends were lost: `\ --port` is the word ` --port` to a shell."""
    found, is_pasted = [], False
    for word in words:
        value = word.value
        if (
            value is not None
            and value.lstrip(" ").startswith("--")
            and value != value.lstrip(" ")
            and "\\ " in word.raw
        ):
            cut = len(value) - len(value.lstrip(" "))
            found.append(_cut(word, cut))
            is_pasted = True
        elif not _is_escaped_blank(word):
            found.append(word)
    return found, is_pasted


def _is_escaped_blank(word: Word) -> bool:
    """Whether a word is nothing but an escaped blank: a backslash that was to end the line and does not."""
    return bool(word.value) and not (word.value or "").strip(" ") and word.raw.startswith("\\")


def _cut(word: Word, index: int) -> Word:
    """The word without its first characters."""
    at = word.at[index:] if word.at is not None else None
    start = at[0] if at is not None and len(at) else word.start
    value = None if word.value is None else word.value[index:]
    return replace(word, value=value, start=start, at=at)


def _of_pair(word: Word, index: int, form: str) -> Setting:
    """The setting that a word `NAME=value` makes; the value begins at an index."""
    value = word.value or ""
    return Setting(value[: index - 1], _cut(word, index), word.start, word.end, form, pair=(word.start, word.end))


@dataclass
class _Options:
    """The options of `docker run`, read."""

    settings: list[Setting] = field(default_factory=list)
    image: Word | None = None
    entrypoint: Word | None = None
    gpus: Gpus | None = None
    rest: tuple[Word, ...] = ()
    taken: int = 0
    """Words up to the image, and with it."""


def _container_options(words: Sequence[Word], *, is_all: bool = False) -> _Options:
    """Read the options in front of the image; with `is_all`, those anywhere, as a script hands them on."""
    found = _Options()
    index = 0
    while index < len(words):
        word = words[index]
        value = word.value or ""
        if not value.startswith("-") or value == "-":
            if is_all:
                index += 1
                continue
            if word.value is None and "[@]" in word.raw:
                index += 1  # an array of further options
                continue
            break
        name, given, index = _option(words, index)
        _take(found, name, given, word)
    if index < len(words) and not is_all:
        found.image = words[index]
        found.rest = tuple(words[index + 1 :])
        found.taken = index + 1
    return found


def _option(words: Sequence[Word], index: int) -> tuple[str, Word | None, int]:
    """Name and value of the option at an index, and the index behind both."""
    word = words[index]
    value = word.value or ""
    if value.startswith("--"):
        name, equals, _ = value.partition("=")
        if equals:
            return name, _cut(word, len(name) + 1), index + 1
        if name in _BOOLEAN or index + 1 >= len(words):
            return name, None, index + 1
        return name, words[index + 1], index + 2
    at = 1
    while at < len(value) and value[at] in _SHORT_BOOLEAN:
        at += 1
    if at >= len(value):
        return value, None, index + 1
    name = "-" + value[at]
    if at + 1 < len(value):
        return name, _cut(word, at + 1 + (value[at + 1] == "=")), index + 1
    return (name, words[index + 1], index + 2) if index + 1 < len(words) else (name, None, index + 1)


def _take(found: _Options, name: str, given: Word | None, word: Word) -> None:
    if given is None:
        return
    value = given.value
    if name in {"-e", "--env"} and value is not None:
        match = _ASSIGNMENT.match(value)
        if match:
            found.settings.append(replace(_of_pair(given, match.end(), "option"), start=word.start))
        elif re.fullmatch(r"[A-Za-z_]\w*", value):
            handed = Word(None, given.start, given.end, given.raw, "handed on")
            found.settings.append(Setting(value, handed, word.start, given.end, "option"))
    elif name in {"-e", "--env"}:
        match = re.match(r"[\"']?([A-Za-z_]\w{0,200})=", given.raw)
        if match:
            found.settings.append(Setting(match[1], given, word.start, given.end, "option"))
    elif name == "--entrypoint":
        found.entrypoint = given
    elif name in {"--gpus", "--device"} and value is not None:
        found.gpus = _gpus(value, word.start, given.end) or found.gpus


def _gpus(value: str, start: int, end: int) -> Gpus | None:
    """GPUs of `--gpus` and of podman's `--device`."""
    text = value.strip().strip("\"'")
    if text.startswith("nvidia.com/gpu="):
        text = text.removeprefix("nvidia.com/gpu=")
        return Gpus(None, None, start, end) if text == "all" else Gpus((text,), 1, start, end)
    if text.startswith("/"):
        return None
    match = re.search(r"device=([\w,:.-]{1,400})", text)
    if match:
        devices = tuple(part for part in match[1].split(",") if part and "=" not in part)
        return Gpus(devices, len(devices), start, end)
    match = re.match(r"(?:count=)?(\d{1,4})\b", text)
    if match:
        return Gpus(None, int(match[1]), start, end)
    return Gpus(None, None, start, end) if text == "all" or "count=all" in text or "count=-1" in text else None


def _is_node(options: _Options) -> bool:
    """Whether a container is there to join a cluster, or is left to be used from within."""
    return any("ray start" in (word.value or word.raw) or "RAY" in word.raw for word in options.rest)


def settings_of(pairs: Iterable[tuple[Word, int]], form: str) -> list[Setting]:
    """Settings of words `NAME=value`, each with the index where the value begins."""
    return [_of_pair(word, index, form) for word, index in pairs]
