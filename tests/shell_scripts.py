"""Seeded scripts for comparing our reading with real bash, and the comparison itself.

Programs are fakes that write their arguments and chosen variables to a file. Kinds of scripts: built
from the grammar (every feature of the reader), typical launch scripts, scripts by productions of
typical launch scripts, and random tokens that mostly fail.
"""

# ruff: noqa: E501 - a script stays on one line, as it is generated
from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading import shell

PROGRAMS = (
    "vllm",
    "python3",
    "python",
    "docker",
    "nohup",
    "ray",
    "torchrun",
    "env",
    "mkdir",
    "sleep",
    "numactl",
    "pip",
)
EXPORTED = ("CUDA_VISIBLE_DEVICES", "VLLM_HOST_IP", "NCCL_DEBUG", "HF_HOME", "PORT", "A", "B", "C", "D")
STAND_IN = """#!/bin/sh
printf '%s\\0' "$#" "${{0##*/}}" "$@" {environment} >> "$RECORD"
"""
SECONDS = 3
"""Timeout of a script, and the processor time of each of its processes."""
UNSET = "\x01"
HOME = "/home/user"
ALLOWED = (
    "command substitution",
    "unset variable",
    "sourced file",
    "process substitution",
)


class Run(NamedTuple):
    """One program that ran: its arguments and its environment."""

    words: tuple[str | None, ...]
    exported: tuple[str | None, ...]


class Bash:
    """Runs scripts in bash with fakes for all programs."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.record = folder / "record"
        self.place = folder / "empty"
        self.place.mkdir()
        (folder / "venv" / "bin").mkdir(parents=True)
        (folder / "venv" / "bin" / "activate").write_text("VIRTUAL_ENV=x\n", "utf-8")
        environment = " ".join(f'"${{{name}-{UNSET}}}"' for name in EXPORTED)
        for name in PROGRAMS:
            program = self.programs / name
            program.write_text(STAND_IN.format(environment=environment), "utf-8")
            program.chmod(0o755)
        for name in ("bash", "sh", "cat", "date", "hostname", "grep", "true", "basename", "dirname", "seq"):
            found = shutil.which(name)
            if found:
                (self.programs / name).symlink_to(found)
        # Programs that are not there succeed, as we assume; none is called like an option.
        handler = folder / "handler"
        handler.write_text(
            f'command_not_found_handle() {{ case "$1" in -*|"") return 127;; esac; }}\nulimit -t {SECONDS}\n',
            "utf-8",
        )
        self.environment = {
            "BASH_ENV": str(handler),
            "PATH": str(self.programs), "HOME": HOME, "RECORD": str(self.record), "LC_ALL": "C.UTF-8",
        }  # fmt: skip

    def run(self, script: str) -> list[Run] | None:
        """The programs that a script runs, in order; None if it does not end."""
        self.record.write_bytes(b"")
        path = self.place.parent / "script.sh"
        path.write_text(script, "utf-8", newline="")
        # `timeout` ends the whole group even without us; background processes end at their limit.
        with subprocess.Popen(
            ["/usr/bin/timeout", "--signal=KILL", str(SECONDS), "/usr/bin/bash", str(path)],
            cwd=self.place, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        ) as running:  # fmt: skip
            try:
                if running.wait() == -signal.SIGKILL:
                    return None
                for _ in range(200):
                    # Background processes have finished when their group has ended.
                    os.killpg(running.pid, 0)
                    time.sleep(0.005)
            except ProcessLookupError:
                pass
            finally:
                stop(running.pid)
        for left in self.place.iterdir():
            left.unlink() if not left.is_dir() else shutil.rmtree(left)
        fields = self.record.read_bytes().decode("utf-8", "replace").split("\0")
        runs, index = [], 0
        while index < len(fields) - 1:
            count = int(fields[index]) + 1
            words = fields[index + 1 : index + 1 + count]
            index += 1 + count
            exported = fields[index : index + len(EXPORTED)]
            index += len(EXPORTED)
            runs.append(Run(tuple(words), tuple(None if value == UNSET else value for value in exported)))
        return runs

    def accepts(self, script: str) -> bool:
        """Whether bash reads the script to its end."""
        done = subprocess.run(
            ["/usr/bin/bash", "-n"], input=script.encode(), capture_output=True, check=False, env=self.environment,
            timeout=SECONDS,
        )  # fmt: skip
        # An error in [[ ]] is printed, but not in the status.
        return done.returncode == 0 and not any(told in done.stderr for told in (b"expected", b"syntax error"))


def stop(group: int) -> None:
    """End the remaining processes of a script's group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def ours(script: str) -> list[shell.Invocation]:
    """The programs that bash runs according to us."""
    read = shell.read(Excerpt.whole(script), known={"HOME": HOME})
    return [
        invocation
        for invocation in read.invocations
        if invocation.is_reached and program(invocation)[0].value in (None, *PROGRAMS)
    ]


def program(invocation: shell.Invocation) -> tuple[shell.Word, ...]:
    """The words without `exec` and `command`, which bash does itself."""
    words = invocation.words
    while len(words) > 1 and words[0].value in ("exec", "command"):
        words = words[1:]
        while len(words) > 1 and words[0].value in ("-a", "-c", "-l", "-p"):
            words = words[2 if words[0].value == "-a" else 1 :]
    return words


class Difference(NamedTuple):
    """Where our reading and bash part."""

    what: str
    ours: object
    bash: object


def compare(script: str, runs: list[Run]) -> tuple[list[Difference], int, int]:
    """Differences; how many invocations; of how many something cannot be known."""
    said = ours(script)
    differences: list[Difference] = []
    unknown = 0
    for invocation in said:
        whys = [word.why for word in program(invocation) if word.value is None]
        unknown += bool(whys)
        differences += [Difference("why", why, script) for why in whys if not why.startswith(ALLOWED)]
    loose = any(sign in script for sign in ("UNSET", "`", "$(d", "$(v", "$(c", "<("))
    if any(invocation.is_background for invocation in said):
        runs = in_our_order(said, runs)
    pairs, missed = aligned(said, runs, loose=loose)
    differences += missed
    for invocation, run in pairs:
        for name, value in zip(EXPORTED, run.exported, strict=True):
            if name not in invocation.environment and value is None:
                continue
            mine = invocation.environment.get(name)
            if mine is None and name in invocation.environment:
                continue
            if mine != value:
                differences.append(Difference(f"${name}", mine, value))
    return differences, len(said), unknown


def aligned(
    said: list[shell.Invocation], runs: list[Run], *, loose: bool
) -> tuple[list[tuple[shell.Invocation, Run]], list[Difference]]:
    """Which of ours is which of bash's, in order; an uncertain one may not have run."""
    after: list[dict[int, int | None]] = [{0: None}]
    doubtful = False
    for invocation in said:
        words = program(invocation)
        reached: dict[int, int | None] = {}
        for place in after[-1]:
            if place < len(runs) and fits(words, runs[place].words):
                reached[place + 1] = place
            doubtful |= loose and invocation.is_conditional
            if doubtful or any(word.value is None for word in words):
                reached.setdefault(place, None)
        if not reached:
            furthest = max(after[-1])
            run = runs[furthest].words if furthest < len(runs) else None
            return [], [Difference("words", tuple(word.value for word in words), run)]
        after.append(reached)
    if len(runs) not in after[-1]:
        return [], [Difference("missed", None, runs[max(after[-1])].words)]
    pairs, place = [], len(runs)
    for invocation, reached in zip(reversed(said), reversed(after[1:]), strict=True):
        before = reached[place]
        if before is not None:
            pairs.append((invocation, runs[before]))
            place = before
    return pairs[::-1], []


def in_our_order(said: list[shell.Invocation], runs: list[Run]) -> list[Run]:
    """Background programs run in any order: sort them into ours."""
    left, ordered = list(runs), []
    places: list[shell.Invocation | Run] = []
    for invocation in said:
        values = tuple(word.value for word in program(invocation))
        same = [run for run in left if run.words == values] if None not in values else []
        run = next((run for run in same if finds(invocation, run)), same[0] if same else None)
        if run:
            left.remove(run)
        places.append(run or invocation)
    for place in places:
        if isinstance(place, shell.Invocation):
            fitting = next((run for run in left if fits(program(place), run.words) and finds(place, run)), None)
            if fitting:
                left.remove(fitting)
                ordered.append(fitting)
        else:
            ordered.append(place)
    return [*ordered, *left]


def finds(invocation: shell.Invocation, run: Run) -> bool:
    """Whether a program's environment is the one that we predict."""
    told = invocation.environment
    return all(
        (name in told and told[name] in (None, value)) or (name not in told and value is None)
        for name, value in zip(EXPORTED, run.exported, strict=True)
    )


def fits(words: tuple[shell.Word, ...], run: tuple[str | None, ...]) -> bool:
    """Whether words match a run: an unquoted unknown word may be any number of arguments."""
    places = {0}
    for word in words:
        if word.value is not None:
            places = {place + 1 for place in places if place < len(run) and run[place] == word.value}
        elif word.expands:
            places = set(range(min(places), len(run) + 1)) if places else set()
        else:
            places = {place + 1 for place in places if place < len(run)}
    return len(run) in places


# Scripts from the grammar

NAMES = ("A", "B", "C", "D", "PORT", "HF_HOME", "CUDA_VISIBLE_DEVICES", "NCCL_DEBUG", "VLLM_HOST_IP")
LISTS = ("ARGS", "MORE")
PLAIN = (
    "serve", "--port", "8000", "Qwen/Qwen3-8B", "--tensor-parallel-size=2", "a", "b.c", "x-y", "0.9", "--flag", "1",
    "key=value", "a:b", "/data/models", "file.txt", "@", "%", "+x", "a,b", "-", "--", "é", "模型", "=", "a=b", "]", "^", "!",
    "100%", "k8s", "x@y", ".", "..", "10", "007", "-1", "-p", "-n",
)  # fmt: skip
QUOTED = (
    "", "a b", "  two  ", '{"image": 10}', "x;y", "a|b", "#no", "$", "a\\b", "*", "?", "~", "(x)", "<y>", "&", "a'b", 'c"d',
    "!", "`", "tab\there", "ü", "{a,b}", "$X", "\\n", "a=b c",
)  # fmt: skip
BRACES = (
    "{a,b}", "x{1..3}y", "{01..03}", "{a..c}", "{3..1}", "{1..9..4}", "{a,b}{c,d}", "{a,{b,c}}", "{}", "{a}", "{a,}", "{,b}",
    "a{b", "a}b", "{a,b", "{1..}", "{a..3}", '{"a",b}', "{'x y',z}", "{a,b}$A", "{{a,b}", "{a,b}}", "--x={1,2}", "{10..1..3}",
    "{-2..2}", "{z..w}", "{1..2}{x,}", "$A{x,y}", "{$A,$B}", "{A..C}", "{1..1}", "x{,}y", "{a,b},c", "{-01..3}",
)  # fmt: skip
TILDES = ("~", "~/models", "a~", "x/~", "HF_HOME=~/hf", "--x=~/y", "'~'/x", "~/a:~/b", "P=a:~/b")
ANSI = (
    "$'a\\nb'",
    "$'\\x41'",
    "$'it\\'s'",
    "$'\\t'",
    "$'\\101'",
    "$'\\u00e9'",
    '$"text"',
    "$'a\\\\b'",
    "$'\\q'",
    "$'\\e[0m'",
)
ESCAPED = (
    "a\\ b",
    "\\$A",
    "\\*",
    "\\#",
    "\\\\",
    "\\a",
    "\\'",
    '\\"',
    "\\{a,b\\}",
    "x\\\ny",
    "\\~",
    "\\;",
    "\\|",
    "\\&",
)
OPERATORS = (
    ":-d", "-d", ":-a b", ":-'a b'", ':-"x y"', ":+s", "+s", ":=e", "=e", "%.*", "%%.*", "#*/", "##*/", "/a/X", "//a/X", "/#a/X",
    "/%b/X", "//[0-9]/n", ":1", ":1:2", ": -2", ":0:1", ":2:-1", "^", "^^", ",", ",,", ":-", "-", ":-${B}", ":-$C", ":-${B:-z}",
    "%b", "#a", "%%*", "##*", "//b", "/ /_", "// /_", ":-{x}", ":+$A", ":+--f $A", "%[a-z]", "#?", "/?/y", "//[!a]/.", "^^[ab]",
    "/\\//|", "//\\//-", ":-\\}", ":-a\\ b", ":-~", ":-*",
)  # fmt: skip


class Grammar:
    """Scripts made of every construct that the reader knows."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.depth = 0
        self.functions: list[str] = []
        self.count = 0

    def pick(self, *choices: object) -> object:
        return self.chance.choice(choices)

    def often(self, share: float) -> bool:
        return self.chance.random() < share

    def script(self) -> str:
        self.functions, self.depth, self.count = [], 0, 0
        lines = ["#!/bin/bash"] if self.often(0.5) else []
        if self.often(0.3):
            lines.append(
                str(self.pick("set -e", "set -eo pipefail", "set -a", "set -x", "IFS=,", "IFS=$'\\n'", "IFS=:"))
            )
        lines += ["N=3", "M=5", "REF=PORT"]
        lines += [
            f"{name}={self.pick('one', '2', 'a/b.c', repr('x y'), repr(''))}" for name in NAMES if self.often(0.98)
        ]
        lines += [f"{name}=(l1 'l 2' l3)" for name in LISTS if self.often(0.993)]
        for name in NAMES:
            if self.often(0.4):
                lines.append(self.assignment(name).replace("+=", "="))

        for name in LISTS:
            if self.often(0.4):
                lines.append(self.list_assignment(name))
        lines += [self.statement() for _ in range(self.chance.randint(2, 7))]
        lines.append("wait")
        end = "" if self.often(0.1) else "\n"
        text = re.sub(r"\$+(\$|(?=\(x\)))", r"\1", "\n".join(lines) + end).replace("[*]^^", "[*]")
        # A comment hides the continuation after it: as separate lines it would run as another
        # command.
        return re.sub(r"  # a comment with 'quotes(?=.)", "", text)

    def name(self) -> str:
        return self.chance.choice(NAMES)

    def parameter(self) -> str:
        roll = self.chance.random()
        if roll < 0.4:
            return str(self.pick("$" + self.name(), "${" + self.name() + "}"))
        if roll < 0.7:
            return "${" + self.name() + self.chance.choice(OPERATORS) + "}"
        if roll < 0.75:
            return "${#" + self.name() + "}"
        if roll < 0.8:
            return str(self.pick("$#", "$@", "$*", "${@}", "${*}", "$1", "${2:-two}", "${@:1}", "${#@}", "${@:2:1}"))
        if roll < 0.97:
            name = self.chance.choice(LISTS)
            suffix = self.pick(
                "[@]",
                "[*]",
                "[0]",
                "[1]",
                "[-1]",
                "[@]:1",
                "[@]:0:1",
                "[@]%b",
                "[@]/a/X",
                "",
                "[@]:-none",
                "[*]^^",
                "[9]",
            )
            return (
                "${"
                + str(self.pick("", "", "", "#")) * (suffix in ("[@]", "[*]", "[0]", ""))
                + name
                + str(suffix)
                + "}"
            )
        return "${!" + str(self.pick("REF", "ARGS[@]")) + "}"

    def arithmetic(self, depth: int = 0) -> str:
        roll = self.chance.random()
        if depth > 2 or roll < 0.35:
            return str(self.pick("1", "2", "10", "0x1f", "010", "3", "7", "N", "$N", "M", "${N}"))
        if roll < 0.45:
            return f"({self.arithmetic(depth + 1)})"
        if roll < 0.5:
            return f"{self.pick('-', '!', '~', '+')}{self.arithmetic(depth + 1)}"
        if roll < 0.55:
            return f"{self.arithmetic(depth + 1)} ? {self.arithmetic(depth + 1)} : {self.arithmetic(depth + 1)}"
        if roll < 0.6:
            return str(self.pick("N++", "++N", "M--", "N+=2", "M=N*2", "--M"))
        operator = self.pick(
            "+", "-", "*", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "&", "|", "^", "<<", ">>", "%", "/"
        )
        right = self.pick("1", "2", "3") if operator in ("<<", ">>", "/", "%") else self.arithmetic(depth + 1)
        return f"{self.arithmetic(depth + 1)}{self.pick('', ' ')}{operator}{self.pick('', ' ')}{right}"

    def piece(self) -> str:
        roll = self.chance.random()
        if roll < 0.35:
            return self.chance.choice(PLAIN)
        if roll < 0.45:
            return "'" + self.chance.choice(QUOTED).replace("'", "") + "'"
        if roll < 0.6:
            return self.double()
        if roll < 0.8:
            return self.parameter()
        if roll < 0.85:
            return self.chance.choice(BRACES)
        if roll < 0.88:
            return self.chance.choice(TILDES)
        if roll < 0.91:
            return self.chance.choice(ANSI)
        if roll < 0.95:
            return self.chance.choice(ESCAPED)
        if roll < 0.997:
            return f"$(({self.arithmetic()}))"
        return str(
            self.pick(
                "$(date +%s)",
                "`hostname`",
                '"$(cat /dev/null)"',
                "$(vllm nested $A)",
                "$UNSET",
                '"$UNSET/x"',
                "<(cat x)",
            )
        )

    def double(self) -> str:
        pieces = []
        for _ in range(self.chance.randint(0, 3)):
            roll = self.chance.random()
            if roll < 0.4:
                text = self.chance.choice(QUOTED)
                pieces.append("".join("\\" + c if c in '"\\$`' else c for c in text).replace("!", ""))
            elif roll < 0.8:
                pieces.append(self.parameter())
            elif roll < 0.9:
                pieces.append(f"$(({self.arithmetic()}))")
            else:
                pieces.append(str(self.pick("\\x", "'", "a\\\nb", " ", "{a,b}", "~", "*", "$", "\\'")))
        return '"' + "".join(pieces) + '"'

    def word(self) -> str:
        return "".join(self.piece() for _ in range(self.chance.choice((1, 1, 1, 1, 2, 2, 3))))

    def assignment(self, name: str) -> str:
        roll = self.chance.random()
        value = (
            self.word()
            if roll < 0.6
            else str(self.pick("8000", "a b c", "a,b,c", "x:y", "/a/b.c.d", "'a  b'", "''", '"  x y "', "abcab"))
        )
        if " " in value and value[0] not in "\"'$":
            value = f"'{value}'" if "'" not in value else "plain"
        prefix = (
            self.pick("", "", "", "export ", "declare ", "readonly ", "declare -x ", "typeset ")
            if name not in ("A", "B")
            else self.pick("", "export ")
        )
        if prefix == "readonly ":
            prefix = "export "
        return f"{prefix}{name}{self.pick('=', '=', '=', '+=')}{value}"

    def list_assignment(self, name: str) -> str:
        words = [self.word() for _ in range(self.chance.randint(0, 4))]
        gap = self.pick(" ", "\n  ", " \\\n  ")
        comment = "  # comment\n" if gap == "\n  " and self.often(0.3) else ""
        return f"{name}{self.pick('=', '=', '+=')}({str(gap).join(words)}{comment})"

    def command(self) -> str:
        self.count += 1
        prefix = "".join(f"{self.name()}={self.word()} " for _ in range(self.chance.choice((0, 0, 0, 1, 2))))
        wrapper = self.pick("", "", "", "", "nohup ", "command ", "env X=1 ", "! ", "time ") if not prefix else ""
        name = self.chance.choice(("vllm", "vllm", "python3", "docker", "ray", "torchrun"))
        words = [self.word() for _ in range(self.chance.randint(0, 5))]
        gap = str(self.pick(" ", " ", "  ", " \\\n    ", "\t"))
        redirect = str(
            self.pick(
                "",
                "",
                "",
                "",
                " > ../out.log",
                " 2>&1",
                " >/dev/null 2>&1",
                " <<< text",
                " 2> ../e.log",
                " &> ../all.log",
                " < /dev/null",
            )
        )
        comment = "  # a comment with 'quotes" if self.often(0.05) else ""
        return f"{prefix}{wrapper}{gap.join([name, *words])}{redirect}{comment}"

    def condition(self) -> str:
        left, right = self.operand(), self.operand()
        roll = self.chance.random()
        if roll < 0.15:
            return str(self.pick("true", "false", ":", "! true", "! false"))
        if roll < 0.45:
            operator = self.pick("=", "==", "!=")
            return str(
                self.pick(f"[ {left} {operator} {right} ]", f"test {left} {operator} {right}", f"[ -z {left} ]", f"[ -n {left} ]",
                          f"[ ! -z {left} ]", f"[ {left} ]", f"[ {left} = x -o {right} = y ]", f"[ {left} != x -a -n {right} ]")
            )  # fmt: skip
        if roll < 0.8:
            return str(
                self.pick(f"[[ {left} == {right} ]]", f"[[ {left} != {right} ]]", f"[[ -z {left} ]]", f"[[ -n {left} && {right} ]]",
                          f"[[ {left} == *{self.pick('a', 'b', '1')}* ]]", f"[[ {left} = [a-z]* || {right} == ? ]]",
                          f"[[ ! {left} == {right} ]]", f"[[ ( {left} < {right} ) ]]", f"[[ {left} =~ ^[0-9]+$ ]]", f"[[ -v {self.name()} ]]",
                          f'[[ {left} == "*" ]]', "[[ $N -gt 2 ]]", f"[[ N -le $M && {left} ]]")
            )  # fmt: skip
        return str(
            self.pick(
                f"(( {self.arithmetic()} ))",
                f'[ "$N" -gt {self.pick("1", "3")} ]',
                "[ $# -eq 0 ]",
                f"let {self.pick('N+=1', 'N-=N', 'M=0')}",
            )
        )

    def operand(self) -> str:
        return str(
            self.pick(
                f'"${self.name()}"',
                f'"${{{self.name()}:-x}}"',
                "x",
                "y",
                "'a b'",
                '"$N"',
                "a",
                f'"${{{self.name()}%%.*}}"',
                "''",
            )
        )

    def body(self) -> str:
        self.depth += 1
        lines = [self.statement() for _ in range(self.chance.choice((1, 1, 2)))]
        self.depth -= 1
        return "\n".join(lines)

    def statement(self) -> str:
        choices: list[Callable[[], str]] = [self.command] * 8
        choices += [lambda: self.assignment(self.name()), lambda: self.list_assignment(self.chance.choice(LISTS))]
        choices += [self.small] * 2
        if self.depth < 3:
            choices += [self.compound] * 5
        return self.chance.choice(choices)()

    def small(self) -> str:
        return str(
            self.pick(
                f"N={self.chance.randint(0, 5)}", f"M=$(({self.arithmetic()}))", f"(( {self.arithmetic()} ))",
                f"unset {self.name()}", f"export {self.name()}", f"export {self.assignment('C').rpartition(' ')[2]}",
                f"set -- {self.word()} {self.word()}", "shift", f"REF={self.name()}", ":", "echo hello", "true",
                f"{self.command()} && {self.command()}", f"{self.command()} || {self.command()}",
                f"{self.command()} & ", f"true && {self.command()}", f"false || {self.command()}", f"false && {self.command()}",
                f"{self.command()}; {self.command()}", f"cat <<EOF\nvllm not run $A\n{self.pick('', 'x', '$(true)')}\nEOF",
                "cat <<'EOF' >/dev/null\nvllm not $(vllm x) run '\nEOF", 'cat <<-EOT\n\tx "\n\tEOT', "read X <<< 'a b'",
                "eval 'vllm eval $A \"$B\"'", f"bash -c 'vllm inner \"$A\" \"$1\"' zero {self.word()}",
                f"eval \"vllm e {self.chance.choice(('x', '$N', 'a b', '${N}'))}\"", f"declare -i K={self.chance.randint(1, 9)}+1; vllm $K",
                "declare -A MAP=([a]=1 [b]='x y'); vllm \"${MAP[b]}\" ${MAP[a]} ${#MAP[@]}",
                f"{self.chance.choice(LISTS)}[1]={self.word()}", f"ARGS[${{#ARGS[@]}}]={self.word()}", f"PORT=${{PORT:-{self.word()}}}",
                "set +e", "shopt -s expand_aliases", "trap 'echo end' EXIT", f": ${{{self.name()}:={self.word()}}}", "IFS=' '",
                f"{{ {self.command()}; }}", f"( {self.assignment(self.name())}; {self.command()}\n)", f"local_x={self.word()}",
                f"time {self.command()}", f"if true; then {self.command()}\nfi", f"{self.command()} | cat",
            )
        )  # fmt: skip

    def compound(self) -> str:
        roll = self.chance.random()
        if roll < 0.3:
            text = f"if {self.condition()}; then\n{self.body()}\n"
            if self.often(0.3):
                text += f"elif {self.condition()}\nthen {self.body()}\n"
            if self.often(0.5):
                text += f"else\n  {self.body()}\n"
            return text + "fi"
        if roll < 0.5:
            variable = self.pick("i", "p", "A", "N")
            words = " ".join(self.word() for _ in range(self.chance.randint(0, 3)))
            extra = self.pick(
                "", "", "", f'[ "${variable}" = a ] && continue\n', f"if {self.condition()}; then break; fi\n"
            )
            return f'for {variable} in {words}; do\n{extra}vllm loop ${variable} "${variable}"\n{self.body()}\ndone'
        if roll < 0.58:
            return f"for ((i=0; i<{self.chance.randint(0, 4)}; i++)); do\n{self.body()}\nvllm c $i $((8000+i))\ndone"
        if roll < 0.68:
            head = self.pick(
                "while [ $w -lt 3 ]",
                "until [[ $w -ge 2 ]]",
                "while (( w < 3 ))",
                "while ((w++ < 2))",
                "while test $w != 3",
            )
            step = "" if "++" in str(head) else "w=$((w+1))\n"
            return f"w=0\n{head}; do\n{step}{self.body()}\nvllm while $w\ndone"
        if roll < 0.8:
            branches = "".join(self.branch() for _ in range(self.chance.randint(1, 3)))
            return f"case {self.word()} in\n{branches}esac"
        if roll < 0.92:
            name = f"f{len(self.functions)}"
            local = self.pick(
                "",
                f"local {self.name()}={self.word()}\n",
                "local x=$1\n",
                "shift\n",
                "local A B=2\n",
                'local -a ARGS=(q "$@")\n',
            )
            extra = self.pick("", "", f"if {self.condition()}; then return{self.pick('', ' 1', ' 0')}; fi\n")
            body = self.body()
            self.functions.append(name)
            calls = "\n".join(
                f"{name} {self.word()} {self.word()}{self.pick('', ' || vllm failed', ' && vllm ok')}"
                for _ in range(self.chance.choice((1, 1, 2)))
            )
            head = self.pick(f"{name}() {{", f"function {name} {{", f"{name} ()\n{{", f"function {name}() {{")
            return f'{head}\n{local}{extra}vllm in-{name} "$@" $1 $#\n{body}\n}}\n{calls}'
        if roll < 0.96:
            return f"( {self.body()}\n)"
        return f"{{\n{self.body()}\n}}{self.pick('', ' > ../out.txt', ' 2>&1', ' &')}"

    def branch(self) -> str:
        pattern = self.pick("a", "a|b", "*.c", "[0-9]*", "?", '"$B"', "$C", "*", "x*|y*", "8000")
        return f"  {self.pick('', '(')}{pattern})\n{self.body()}\n{self.pick(';;', ';;', ';;', ';&', ';;&')}\n"


def grammar(seed: int) -> Iterator[str]:
    """Scripts from the grammar, without end."""
    made = Grammar(seed)
    while True:
        yield made.script()


# Launch scripts as people write them

MODELS = (
    "Qwen/Qwen3-8B",
    "/data/models/Qwen2.5-VL-7B",
    "meta-llama/Llama-3.1-8B-Instruct",
    "openai/gpt-oss-20b",
    "./model",
)
OPTIONS = (
    "--port 8000", "--host 0.0.0.0", "--tensor-parallel-size 2", "-tp 4", "--gpu-memory-utilization 0.9", "--max-model-len 32768",
    "--dtype bfloat16", "--trust-remote-code", "--enforce-eager", "--served-model-name qwen", "--api-key sk-123",
    "--limit-mm-per-prompt '{\"image\":10,\"video\":0}'", '--limit-mm-per-prompt {"image":10}', "--limit-mm-per-prompt image=2",
    '--mm-processor-kwargs \'{"max_pixels": 1280}\'', '--override-generation-config "{\\"temperature\\": 0.1}"',
    "--rope-scaling '{\"rope_type\":\"yarn\",\"factor\":4.0}'", "--chat-template ./t.jinja", "--lora-modules a=/x b=/y",
    "--allowed-origins '[\"*\"]'", "--allowed-origins [*]", '--compilation-config={"level":3}', "-O3", "--cuda-graph-sizes 1 2 4",
    "--speculative-config '{\"model\": \"x\", \"num_speculative_tokens\": 5}'", "--download-dir ~/hf", "--download-dir=~/hf",
    "--kv-cache-dtype fp8", "--max-num-seqs=256", "--max-num-seqs $((64*4))", "--hf-overrides.x.y 3", "--seed 0", "--tokenizer-mode auto",
    "--disable-log-requests", "--enable-auto-tool-choice --tool-call-parser hermes", "--guided-decoding-backend xgrammar",
)  # fmt: skip
SETTINGS = (
    "export CUDA_VISIBLE_DEVICES=0,1", "export CUDA_VISIBLE_DEVICES=$GPU", "export NCCL_DEBUG=INFO", "PORT=8000", "MODEL={model}",
    'MODEL="{model}"', "MODEL=${{MODEL:-{model}}}", 'export HF_HOME="/data/hf"', "export VLLM_HOST_IP=10.0.0.1", "TP=2", "TP=${{TP:-4}}",
    "export HF_HOME=$BASE/hf PORT=9000", "set -e", "set -euo pipefail", "GPU=0", "BASE=/data", "LEN=$((32*1024))", "export HF_HOME",
    ': "${{PORT:=8000}}"', "MODEL_NAME=${{MODEL##*/}}", "NAME=$(basename {model})", "unset HF_HOME", "LOG=logs/${{NAME:-x}}.log",
    "GPUS=(0 1 2 3)", 'GPU="${{GPUS[0]}}"', 'export CUDA_VISIBLE_DEVICES=$(IFS=,; echo "0,1")', 'export PORT="$PORT"', "echo starting $MODEL",
    "mkdir -p logs", "pip install vllm", "sleep 1", "# a comment", "", "shopt -s nocasematch", "true",
    "source ../venv/bin/activate", 'DIR="$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)"', 'COMMON_ARGS="--dtype auto --seed 1"',
)  # fmt: skip
BREAKS = (
    " \\\n  ", " \\\n    ", " ", " \\\n", " \\  # why\n  ", " \\ \n  ", " \\\n  # note\n  ", " \\\n\n  ", "\n  ", " \\\n  \\\n  ", " \\#x\n",
    " \\\r\n  ", "\u00a0\\\n  ",
)  # fmt: skip


class Launch:
    """Launch scripts with typical mistakes."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def arguments(self) -> str:
        count = self.chance.randint(1, 6)
        gap = self.chance.choice(BREAKS[:3])
        parts = self.chance.sample(OPTIONS, count)
        text = ""
        for part in parts:
            if self.chance.random() < 0.06:
                text += self.chance.choice(BREAKS)
            else:
                text += gap
            text += part
        return text

    def start(self) -> str:
        model = self.chance.choice(('"$MODEL"', "$MODEL", "${MODEL}", *MODELS))
        port = self.chance.choice(("$PORT", "${PORT}", '"$PORT"', "8001", "$((PORT + 1))", "${PORT:-8000}"))
        command = self.chance.choice(
            (
                f"vllm serve {model} --port {port}", f"vllm serve {model}", f"python3 -m vllm.entrypoints.openai.api_server --model {model}",
                f"python -m vllm.entrypoints.openai.api_server --model {model} --port {port}",
                f"docker run --gpus all -v ~/.cache:/root/.cache -p {port}:8000 --env HF_TOKEN=$HF_HOME vllm/vllm-openai:v0.9.0 --model {model}",
                f'docker run -d --rm --name "vllm-{port}" -e NCCL_DEBUG=INFO vllm/vllm-openai --model={model}',
                f'docker exec -it node bash -c "vllm serve {self.chance.choice(MODELS)} --port $PORT"',
                f"numactl -N 0 -m 0 vllm serve {model}", f"torchrun --nproc-per-node 2 serve.py {model}",
                f"ray start --head --port {port}",
            )
        )  # fmt: skip
        prefix = self.chance.choice(
            (
                "",
                "",
                "",
                "CUDA_VISIBLE_DEVICES=0 ",
                "CUDA_VISIBLE_DEVICES=$GPU NCCL_DEBUG=WARN ",
                "nohup ",
                "exec ",
                "env A=1 ",
                "VLLM_HOST_IP=10.1.2.3 ",
            )
        )
        if prefix == "exec ":
            prefix = self.chance.choice(("", "", "exec "))
        extra = self.chance.choice(
            (
                "",
                "",
                ' "${ARGS[@]}"',
                " ${ARGS[@]}",
                " $COMMON_ARGS",
                ' "$@"',
                " ${EXTRA_ARGS:-}",
                ' ${API_KEY:+--api-key "$API_KEY"}',
            )
        )
        tail = self.chance.choice(
            (
                "",
                "",
                " > ../v.log 2>&1",
                " 2>&1 | cat",
                " &> ../v.log &",
                " &",
                " >> ../v.log 2>&1 &\nPID=$!",
                " || exit 1",
                " && echo up",
                "  # run",
            )
        )
        return prefix + command + self.arguments() + extra + tail

    def block(self) -> str:
        roll = self.chance.random()
        start = self.start()
        if roll < 0.45:
            return start
        if roll < 0.55:
            return f"for PORT in 8000 8001; do\n  {start}\ndone"
        if roll < 0.62:
            return "for i in {0..1}; do\n  CUDA_VISIBLE_DEVICES=$i vllm serve $MODEL --port $((8000 + i)) &\ndone\nwait"
        if roll < 0.67:
            return 'for i in "${!GPUS[@]}"; do\n  CUDA_VISIBLE_DEVICES=${GPUS[$i]} vllm serve $MODEL --port $((8000+i)) > ../l-$i 2>&1 &\ndone'
        if roll < 0.74:
            test = self.chance.choice(
                (
                    '[ -z "$MODEL" ]',
                    '[[ "$TP" -gt 1 ]]',
                    '[ "$TP" == "2" ]',
                    "[[ $MODEL == *Qwen* ]]",
                    '[ -n "${PORT}" ]',
                    "[[ ${MODEL,,} =~ ^qwen ]]",
                    "(( TP > 2 ))",
                )
            )
            return f"if {test}; then\n  ARGS+=(--x 1)\n  {start}\nelse\n  ARGS+=(--y '2 3')\n  {self.start()}\nfi"
        if roll < 0.8:
            return f'start() {{\n  local model=$1 port=${{2:-8000}}\n  shift 2\n  vllm serve "$model" --port "$port" "$@"\n  {start}\n}}\nstart {self.chance.choice(MODELS)} 8001 --seed 2'
        if roll < 0.86:
            return f'case "$MODEL" in\n  *Qwen*|*qwen*) EXTRA_ARGS="--x 1" ;;\n  /data/*) EXTRA_ARGS=\'--y 2\' ;;\n  *)\n    {start}\n    ;;\nesac\nvllm serve $MODEL $EXTRA_ARGS'
        if roll < 0.9:
            return 'CMD="vllm serve $MODEL --port $PORT"\nCMD="$CMD --seed 1"\nCMD+=" --x \'a b\'"\n$CMD\neval "$CMD"'
        if roll < 0.94:
            return 'ARGS=(\n  --model "$MODEL"\n  --port $PORT  # the port\n  # --eager\n  --json \'{"a": 1}\'\n)\nvllm serve "${ARGS[@]}"\necho "${ARGS[*]}"'
        if roll < 0.97:
            return f"cat > ../run.sh <<'EOF'\nvllm serve not-run \\\n  --x 1\nEOF\n{start}"
        return f"bash -c 'vllm serve {self.chance.choice(MODELS)} --port 8000'\n(cd . && {start}\n)"

    def script(self) -> str:
        lines = [self.chance.choice(("#!/bin/bash", "#!/usr/bin/env bash", "# launch", ""))]
        lines += [
            setting.format(model=self.chance.choice(MODELS))
            for setting in (
                "MODEL={model}",
                "PORT=8000",
                "GPU=1",
                "TP=2",
                "BASE=/data",
                "API_KEY=",
                "ARGS=(--common 1)",
                "HF_HOME=/hf",
                "COMMON_ARGS=",
                "GPUS=(0 1)",
            )
            if self.chance.random() < 0.97
        ]
        count = self.chance.randint(2, 8)
        lines += [self.chance.choice(SETTINGS).format(model=self.chance.choice(MODELS)) for _ in range(count)]
        lines += [self.block() for _ in range(self.chance.randint(1, 3))]
        return "\n".join([*lines, "wait", ""])


def launch(seed: int) -> Iterator[str]:
    """Launch scripts, without end."""
    made = Launch(seed)
    while True:
        yield made.script()


# Scripts by grammar productions: typical launch scripts

PRODUCTIONS: dict[str, tuple[str, ...]] = {
    "script": ("<head>\n<settings>\n<lines>\n<lines>\n<lines>\nwait\n",),
    "head": ("#!/bin/bash", "#!/usr/bin/env bash\nset -e", "#!/usr/bin/env bash\nset -euo pipefail", "set -u", "# launch", "set -eu\nshopt -s extglob"),
    "settings": (
        "MODEL=<model>; PORT=<port>; N=<digit>; A='x y'; B=<plain>\nL=(a 'b c' --d=1)\nS='a,b,c'",
        "export MODEL=\"<model>\" PORT=<port>\ndeclare -i N=<digit>\nreadonly A=\"x y\"\nB=$'t\\tb'\nL=( # list\n  --a 1  # one\n  'b c'\n)\ndeclare -r S=1:2:3",
        'MODEL=${MODEL:-<model>}\n: "${PORT:=<port>}" ${N:=2}\nA="$MODEL x" B="${MODEL##*/}"\nL=("$A" "$B")\nL+=(z)\nS="${L[*]}"',
    ),
    "model": ("Qwen/Qwen3-8B", "/data/models/m.gguf", "org/name-v0.1", "./m"),
    "port": ("8000", "8001", "30000"), "digit": ("1", "2", "3", "4"), "plain": ("abc", "x.y", "k=v", "a:b", "--flag"),
    "name": ("A", "B", "MODEL", "PORT", "S"), "newname": ("X", "Y", "Z"),
    "lines": ("<line>", "<line>\n<line>", "<line>\n<line>\n<line>", "# comment 'with' \"quotes\n<line>"),
    "line": ("<run>", "<run>", "<run>", "<set>", "<set>", "<list>", "<if>", "<case>", "<loop>", "<function>", "<input>", "<nest>", "<odd>", "<options>"),
    "run": (
        "<program><args>", "<program><args>", "<program><gap><word><args><after>", "CUDA_VISIBLE_DEVICES=<word> <program><args>", "exec 3>&1; <program><args>",
        "env A=b <program><args>", "nohup <program><args> > ../log 2>&1 &", "<program><args> & pid=$!", "> ../out <program><args> 2>&1", '<program> "${L[@]}"<args>',
        "( <program><args> )", "{ <program><args>; } 2>/dev/null", "<program><args> && <program> ok || <program> failed", "! <program><args>", "time <program><args>",
        "if <program><args>; then <program> up; fi", "echo starting; <program><args>", "command <program><args>", 'A=<word> B=<word> <program> "$A"<args>',
        '2>&1 <program> >../o<args> <<< "$A"', "<program> --json '{\"a\": 1}' --b \"{\\\"c\\\": \\\"$A\\\"}\" {\"d\":2,\"e\":3}", "eval \"<program> <plain> '$B'\"", "bash -c '<program> \"$1\" $0' zero <word>",
        '{ CMD=(<program> <word>); CMD+=(<word>); "${CMD[@]}"; }', "CMD=\"<program> $B\"; CMD+=\" --x '1 2'\"; $CMD; eval \"$CMD\"",
    ),
    "program": ("vllm", "vllm serve", "python3 -m vllm.entrypoints.openai.api_server", "ray start", "docker run"),
    "after": ("", "", " 2>&1 | cat", " # done", "  &>../all", " || true", ";"),
    "args": ("", "<gap><word>", "<gap><word><gap><word>", "<gap>--port<gap><word><gap><word>"),
    "gap": (" ", " ", "  ", " \\\n  ", "\t", " \\\n\\\n ", " `# note` "),
    "word": ("<plain>", "<quoted>", "<quoted>", "<value>", "<value>", "<value>", "<value><plain>", '"<inside>"', '"<inside>-<inside>"', "'<plain>'<value>", "<brace>", "<glob>", "$((<sum>))", "$(<prints>)", '"$(<prints>)"'),
    "quoted": ("'a b'", '"c  d"', "$'e\\nf\\x41\\'g'", "''", '""', "a\\ b", '\\"q\\"', "'it'\"'\"'s'", '"\\$x \\\\ \\`"', '"!"', "'$A'", '"a\nb"', "x'y'\"z\""),
    "inside": ("<value>", "a b", "<value>/<value>", '\\"', "'<value>'", "$((<sum>))", "{x,y}", "~", "*"),
    "value": (
        "$<name>", "${<name>}", "${<name>:-<default>}", "${<name>%%<cut>}", "${<name>##<cut>}", "${<name>%<cut>}", "${<name>#<cut>}", "${<name>/<cut>/<put>}", "${<name>//<cut>/<put>}", "${#<name>}",
        "${<name>:<digit>}", "${<name>:0:<digit>}", "${<name>: -<digit>}", "${<name>^^}", "${<name>^}", "${<name>,,}", "${<newname>:-<default>}", "${<newname>-<default>}", "${<name>:+<default>}", "${<newname>:+<default>}",
        "${L[@]}", "${L[*]}", "${L[0]}", "${L[-1]}", "${#L[@]}", "${L[@]:1}", "${L[@]:0:1}", "${L[@]/#/--x=}", "${L[@]%b}", "${!L[@]}", "$#", "$@", "$*", "${1:-<default>}", "${L[N-1]:-<default>}", "${<name>@Q}", "${L[$((N-1))]-<default>}", "$?",
    ),
    "default": ("d", "d e", '"d e"', "'d e'", "$B", '"$B"', "${B:-z}", "", "~/x", "a/b:c", "$((1+1))"),
    "cut": ("*/", "/*", ".*", "*.", "a", "[a-z]", "?", "*", " ", "\\/", '"$B"', "[[:space:]]*", "<plain>", ":*", ","),
    "put": ("", "_", "<plain>", "\\/", '"&"', "-$N", "'y z'"),
    "brace": ("{1..3}", "{a,b}", "p{0,1}.x", "{01..03}", "{a,b}{1,2}", "{$A,$B}", "{x}", "{a,b c}", "--{p,q}=1", "{3..1}", "{1..$N}", "a{,b}", "{a..c}{,x}", "'{a,b}'", '{"a b",c}'),
    "glob": ("*.none", "a?z", "[q]x", "~", "~/m", "--dir=~/m", "x~", "no/*/where", "~/$B", "\\*", "'*'"),
    "sum": ("N", "N + 1", "N*2", "$N+<digit>", "(N + 2) * <digit>", "N > 2 ? 1 : 0", "N % 2", "2 ** N", "N << 1", "N == <digit> && 1", "16#ff", "0x1f", "-N", "N += 1", "++N", "N--", "${#S}", "${#L[@]} - 1", "8000 + $N", "!N", "N / 2 * 2", "1 , N"),
    "prints": ('echo "$A"', "echo -n <plain>", "echo a  b", "printf '%s\\n' <plain> \"$B\"", "printf '%02d' \"$N\"", 'basename "$MODEL"', "dirname /a/b/c", "seq 1 $N", 'echo "${L[@]}"', "printf '%s,' \"${L[@]}\"", 'cat <<< "$A"', "echo $(echo <plain>)", 'IFS=,; echo "${L[*]}"', "echo -e 'a\\tb'", ":", "vllm inner >&2"),
    "set": (
        "<newname>=<word>", '<newname>="<inside>"', "export <newname>=<word>", "B=<plain> PORT=<port>", "N=$((<sum>))", "((<sum>)) || true", 'let "N = N % 3 + 1"', "B+=<word>", '<newname>=<value>; vllm "$<newname>" $<newname>',
        "printf -v X '%s-%03d' <word> \"$N\"; vllm \"$X\"", "printf -v X '%s ' \"${L[@]}\"; vllm $X", "unset <newname>; vllm ${<newname>-gone}", 'declare <newname>=<word>; vllm "$<newname>"', "X='<plain> $A'; vllm $X \"$X\"", "X=N; vllm ${!X}",
        "declare -n R=B; R=new; vllm $B; unset -n R", "OLD=$IFS; IFS=,; X=a,b; vllm $X; IFS=$OLD", "IFS=: ; X=a:b::c; vllm $X; unset IFS", 'X="a b" Y=$X; vllm "$Y"', "readonly Q=<plain>", 'X=(); vllm "${X[@]}" ${#X[@]}', "set -- a 'b c'; vllm \"$@\" $#; shift; vllm \"$1\"", "set --",
    ),
    "list": (
        "L+=(<word>)", 'L=("${L[@]}" <word>)', "L[<digit>]=<word>", 'args=(--m "$MODEL"\n  --p $PORT # port\n\n  <word>)\nvllm "${args[@]}"', 'vllm ${#L[@]} "${L[@]: -1}" "${!L[@]}"', "unset 'L[0]'; vllm \"${L[@]}\"",
        'declare -A M=([a]=1 [b c]="$A"); M[d]=<word>; vllm "${M[a]}" "${M[b c]}" ${#M[@]} "${M[d]}"', 'IFS=, read -ra P <<< "$S"; vllm "${P[@]}" ${#P[@]}', 'P=(${S//,/ }); vllm "${P[0]}" ${#P[@]}', "mapfile -t P <<< $'x y\\nz'; vllm \"${P[@]}\"",
        'for i in "${!L[@]}"; do vllm $i "${L[$i]}"; done', 'for ((i = 0; i < ${#L[@]}; i++)); do vllm "$i:${L[i]}"; done', "[[ <test> ]] && L+=(--yes)", "(( ${#L[@]} > 1 )) && vllm many",
    ),
    "if": (
        "if [ <old> ]; then\n  <run>\nfi", "if [[ <test> ]]; then\n  <line>\nelse\n  <run>\nfi", "if (( <sum> )); then <run>\nelif [[ <test> ]]\nthen <run>\nelse <run>\nfi", "[ <old> ] && <run>", "[[ <test> ]] || { <run>\n}",
        "if ! [ <old> ]; then <run>\nfi", "test <old> && vllm t", "if [[ <test> && ! <test> ]]; then <run>\nfi", "if [ <old> ] || [ <old> ]; then <run>\nfi",
    ),
    "old": ('-n "$B"', '-z "${X:-}"', '"$N" -gt 2', "\"$A\" = 'x y'", '"$B" != "$PORT"', "$# -eq 0", '"${B:0:1}" == a', '-z "$A" -o -n "$B"', '! -n "$S"', '"$N" -le 2 -a "$N" -ge 1'),
    "test": ("$B == a*", '$A == "x y"', "-n ${X:-}", "$MODEL =~ ^[A-Za-z]+/", "$MODEL =~ ([^/]+)$ && -n ${BASH_REMATCH[1]}", "$N -gt 1", "$S == *,*", "$S != *[0-9]*", "-z $B || $N -eq 2", "$PORT =~ ^[0-9]+$", "( $N < 3 )", "$MODEL == *@(gguf|8B)", "-v N", "$B == $B", "$A == *' '*", "${B,,} == abc"),
    "case": (
        'case "$MODEL" in\n  *Qwen*|org/*) <run> ;;\n  /data/*)\n    <run>\n    ;;\n  *) <run>\nesac', "case $N in 1) <run>\n;; [23]) <run>\n;; (*) :;; esac", 'case "$B" in "$A") <run>\n;; a*) vllm a ;& b) vllm b ;; esac', "case <word> in -*) vllm dash;; [!a-z]*) vllm other;;& ?*) vllm some;; '') vllm empty;; esac",
    ),
    "loop": (
        'for x in <word> <word>; do\n  vllm "$x"\n  <run>\ndone', "for x in {1..3}; do [ $x = 2 ] && continue; <run>\ndone", "for ((i = 0; i < <digit>; i++)); do\n  CUDA_VISIBLE_DEVICES=$i vllm --port $((8000 + i)) &\ndone", "i=0; while [ $i -lt <digit> ]; do i=$((i + 1)); vllm $i; done", "i=3; until (( i <= 1 )); do ((i--)); <run>\ndone",
        'for x in "${L[@]}"; do vllm "${x%%:*}" "${x##*:}"; done', "for x in $S; do vllm $x; [[ $x == b ]] && break; done", 'for x; do vllm "$x"; done', "while true; do <run>\nbreak; done", "for g in ${S//,/ }; do vllm $g & done; wait", "for x in $(seq 0 $N); do vllm $x; done", "for x in a b; do for y in 1 2; do [ $y = 2 ] && continue 2; vllm $x$y; done; done",
    ),
    "function": (
        'f() {\n  local m=$1; shift\n  vllm "$m" "$@" $#\n}\nf <word> <word>', 'function g {\n  local -r p="${1:-80}"\n  local q; q=$((p + 1))\n  vllm $p $q\n  return ${2:-0}\n}\ng <port> || vllm bad', 'h() ( cd /tmp && vllm "$@"; exit 3; ); h <word> || vllm $?', 'k() { echo "$1-$N"; }; vllm "$(k <word>)"',
        'u() { [[ $# -gt 0 ]] || return 0; for a in "$@"; do case $a in --p=*) p=${a#--p=};; *) vllm "$a";; esac; done; vllm ${p:-none}; }\nu --p=7 <word>', 'e() { local -n out=$1; out="$2 x"; }; e Z <word>; vllm "$Z"', 't() { A1=in; local L=(q "$@"); vllm "${L[@]}"; }; t <word>; vllm $A1 "${L[0]:-}"',
    ),
    "input": (
        'read -r X Y <<< "$A"; vllm "$X" "$Y"', 'while read -r X Y; do vllm "$X" "$Y"; done <<EOF\na 1\n$A\n\nlast\nEOF', "while IFS=: read -r X Y; do [[ $X == \\#* ]] && continue; vllm \"$X\" \"$Y\"; done <<'EOF'\n# no\nm:1\nn:2:3\nEOF", "cat > ../c.yaml <<EOF\nvllm: $A\nEOF\nvllm <word>", "X=$(cat <<'EOF'\n{\"a\": 1}\nEOF\n)\nvllm --json \"$X\"",
        'IFS=. read -r X Y Z <<< "0.10.2"; vllm $X $Y "$Z"', "printf '%s\\n' <word> b | while read -r X; do vllm \"$X\"; done", "while read -r X; do vllm \"$X\"; done < <(printf 'a b\\nc\\n')", "read -r -d '' X <<'EOF' || true\na\n  b\nEOF\nvllm \"$X\"", "vllm <<-EOF <word>\n\tbody $A\n\tEOF", "{ read -r X; read -r Y; } <<< $'1 2\\n3'; vllm \"$X\" $Y",
    ),
    "nest": ("(\n<lines>\n)", "{\n<line>\n} > ../o 2>&1", "( X=1; <run>\n)", "bash -c \"vllm '$B' \\$0\" <plain>", "eval 'X=e; vllm \"$X\"'", "if true; then\n<line>\nfi"),
    "odd": ("alias vllm2=vllm", "trap 'vllm end' EXIT", "trap '' INT TERM", "set -x", "set -o pipefail", "shopt -s nullglob; vllm *.none x; shopt -u nullglob", "set -f; vllm *; set +f", "true # vllm", ": vllm", "vllm \\\n  --a \\\n  --b # c\n", "vllm a;vllm b&&vllm c", "command -v vllm >/dev/null 2>&1 || exit 1", "sleep 0; wait", "mkdir -p ../logs && vllm <word>", '[[ -n "$B" ]]&&vllm b', "export -n A", "vllm a&\nwait", "vllm$'\\x20'x || vllm no", "pushd . > /dev/null; vllm x; popd > /dev/null"),
    "options": (
        'set -- -p 1 --model=m -x y\nwhile [[ $# -gt 0 ]]; do\n  case "$1" in\n    -p|--port) PORT="$2"; shift 2 ;;\n    --model=*) MODEL="${1#*=}"; shift ;;\n    *) REST+=("$1"); shift ;;\n  esac\ndone\nvllm $PORT $MODEL "${REST[@]}"',
        "OPTIND=1; while getopts 'p:vm:' o -p 80 -vm <plain> rest; do case $o in p) vllm p $OPTARG;; v) vllm v;; m) vllm m \"$OPTARG\";; esac; done; vllm $OPTIND", 'o() { local OPTIND=1 c; while getopts ":a:b" c; do case $c in a) vllm a "$OPTARG";; \\?) vllm bad "$OPTARG";; :) vllm want $OPTARG;; *) vllm $c;; esac; done; shift $((OPTIND - 1)); vllm "$@"; }; o -b -a <word> <word>; o -c; o -a',
    ),
}  # fmt: skip
"""Possible values of each `<name>` in a script."""


def habits(seed: int) -> Iterator[str]:
    """Scripts made by the productions, without end."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def made(name: str, depth: int) -> str:
        choices = PRODUCTIONS[name] if depth < 12 or name != "line" else PRODUCTIONS["run"]
        return re.sub(r"<([a-z]+)>", lambda found: made(found[1], depth + 1), chance.choice(choices))

    while True:
        yield made("script", 0)


# Soups of tokens

SOUP = (
    "vllm", "serve", " ", " ", " ", " ", "\n", "\n", ";", "&&", "||", "|", "&", "(", ")", "{", "}", "'", '"', "$A", "${B}", "${C:-d}", "$(", "`",
    "if", "then", "else", "fi", "for", "in", "do", "done", "while", "case", "esac", ";;", "true", "false", "A=1", "B='x y'", "C=(1 2)", "${C[@]}",
    '"${C[@]}"', "\\", "\\\n", "#", "</dev/null ", ">../o", "2>&1", "<<EOF", "EOF", "<<<", "[[", "]]", "[", "]", "==", "=", "!", "$((", "))", "1", "+", "-n", "-z",
    "*", "?", "~", "a,b", "{a,b}", "x", "python3", "ray", "function f", "f()", "f", "return", "shift", "$1", "$@", "set -- p q", "export ", "eval ",
    "vllm x\n", "vllm y;", "\nvllm z\n", "${", ":", "..", "((", "time", "until", "elif", "select", "coproc", "\t", "\r", "$'", '$"', "\u00a0",
)  # fmt: skip


def soup(seed: int) -> Iterator[str]:
    """Tokens thrown together, without end; many of these bash does not read."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    while True:
        words = (chance.choice(SOUP) + (" " if chance.random() < 0.5 else "") for _ in range(chance.randint(3, 25)))
        yield "A=a; B=b\n" + "".join(words) + "\n"


def mutated(seed: int) -> Iterator[str]:
    """Endless scripts with characters removed, inserted and exchanged."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    sources = (grammar(seed), launch(seed))
    signs = "'\"`\\$(){}[];&|<>#\n \t=!*?~-a1,:%+"
    while True:
        text = list(next(chance.choice(sources)))
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(text))
            if chance.random() < 0.4:
                del text[place]
            elif chance.random() < 0.5:
                text.insert(place, chance.choice(signs))
            else:
                text[place] = chance.choice(signs)
        yield "".join(text)
