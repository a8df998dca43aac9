"""What bash would run of a script, what is not meant that way, and how it is mended."""

# ruff: noqa: RUF001 - signs that no keyboard has are what is tested
from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shell_scripts
from cost import LIMIT, growth
from vllm_runbooks import shell
from vllm_runbooks.excerpt import Excerpt, Places, applied


def read(text: str, **known: str) -> shell.Script:
    """A script, read."""
    return shell.read(Excerpt.whole(text), known=known)


def commands(text: str, **known: str) -> list[list[str | None]]:
    """The words of all commands that bash comes to."""
    return [[word.value for word in i.words] for i in read(text, **known).invocations if i.is_reached]


def kinds(text: str) -> list[str]:
    """The kinds of all troubles."""
    return [trouble.kind for trouble in read(text).troubles]


WORDS: dict[str, list[list[str | None]]] = {
    "a 'b c' \"d e\" f\\ g $'h\\ti' $\"j\"": [["a", "b c", "d e", "f g", "h\ti", "j"]],
    "a \\\n  --b \\\n  --c": [["a", "--b", "--c"]],
    "a # comment": [["a"]],
    "a#b '#c'": [["a#b", "#c"]],
    "X=1; a $X ${X} ${X:-d} ${X:+s}": [["a", "1", "1", "1", "s"]],
    'a ${X:-d e} "${X:-d e}" ${X-} ${X:=q} $X': [["a", "d", "e", "d e", "q", "q"]],
    "M=org/name.gguf; a ${M##*/} ${M%.*} ${M%%/*} ${M/o/0} ${M^^} ${#M} ${M:4:4}": [
        ["a", "name.gguf", "org/name", "org", "0rg/name.gguf", "ORG/NAME.GGUF", "13", "name"]
    ],
    'ARGS=(--a "b c"); ARGS+=(d); v "${ARGS[@]}" ${#ARGS[@]} "${ARGS[*]}" "${ARGS[1]}" "${!ARGS[@]}"': [
        ["v", "--a", "b c", "d", "3", "--a b c d", "b c", "0", "1", "2"]
    ],
    "declare -A M=([k]='v w'); a \"${M[k]}\"": [["a", "v w"]],
    "X='a  b'; v $X \"$X\"; IFS=,; Y=1,2; v $Y": [["v", "a", "b", "a  b"], ["v", "1", "2"]],
    "a $((1 + 2 * 3)) $(( 2 ** 10 )) $((7 / 2)) $((5 > 3 ? 8 : 9)) $((0x10))": [["a", "7", "1024", "3", "8", "16"]],
    "a {b,c}d {1..3} {01..03} {a..c} {x} {1,2}{3,4}": [
        ["a", "bd", "cd", "1", "2", "3", "01", "02", "03", "a", "b", "c", "{x}", "13", "14", "23", "24"]
    ],
    'a --x {"image":10} {"image":1,"video":0}': [["a", "--x", "{image:10}", "image:1", "video:0"]],
    'v "$@" x "$#"': [["v", "x", "0"]],
    'set -- p \'q r\'; v "$@" $1 $#; shift; v "$*"': [["v", "p", "q r", "p", "2"], ["v", "q r"]],
    "for p in 80 81; do v --port $p; done": [["v", "--port", "80"], ["v", "--port", "81"]],
    "for ((i = 0; i < 2; i++)); do v $((8000 + i)); done": [["v", "8000"], ["v", "8001"]],
    "i=0; while [ $i -lt 2 ]; do v $i; i=$((i + 1)); done": [["v", "0"], ["v", "1"]],
    "if [ 1 -eq 1 ]; then a; elif true; then b; else c; fi": [["a"]],
    "if [[ abc == a* && -n x ]]; then a; fi; [[ a == b ]] || b": [["a"], ["b"]],
    "case x.y in *.z) a ;; *.y|q) b ;; *) c ;; esac": [["b"]],
    'f() { local m=$1; shift; v $m "$@"; return; w; }; f a b c; f d': [["v", "a", "b", "c"], ["v", "d"]],
    '( X=1; v $X ); v "[$X]"': [["v", "1"], ["v", None]],
    "eval 'X=1; v $X'; bash -c 'v \"$1\"' x y": [["v", "1"], ["bash", "-c", 'v "$1"', "x", "y"], ["v", "y"]],
    "cat <<EOF\nv not\nEOF\nv yes": [["cat"], ["v", "yes"]],
    "cat <<-'E F'\n\tv not '\n\tE F\nv yes": [["cat"], ["v", "yes"]],
    "a > out 2>&1 <<< text; b &> all": [["a"], ["b"]],
    "a; exit; b": [["a"]],
    "exec a --x; b": [["exec", "a", "--x"]],
    "set -e; false; a": [],
    'v $(date) "$(date)" x': [["date"], ["date"], ["v", None, None, "x"]],
    "v $HOME ~/x": [["v", None, None]],
    "a *.py": [["a", "*.py"]],
    "a | b && c": [["a"], ["b"], ["c"]],
    "--x y || a": [["--x", "y"], ["a"]],
    "IFS=, read -r a b <<< 1,2,3; v $a $b": [["v", "1", "2,3"]],
    "while IFS=: read -r n p; do v $n --port $p; done <<EOF\nm:1\nn:2\nEOF": [
        ["v", "m", "--port", "1"],
        ["v", "n", "--port", "2"],
    ],
    "mapfile -t L <<< $'a b\\nc'; v \"${L[@]}\"": [["v", "a b", "c"]],
    "read -r X; v $X": [["v", None]],
    "printf -v X '%s-%03d' m 7; v $X": [["v", "m-007"]],
    'set -- -p 80 -v x; while getopts p:v o; do v $o $OPTARG; done; shift $((OPTIND - 1)); v "$@"': [
        ["v", "p", "80"],
        ["v", "v"],
        ["v", "x"],
    ],
    "[[ v0.10.2 =~ ([0-9]+)\\.([0-9]+) ]] && v ${BASH_REMATCH[1]} ${BASH_REMATCH[2]}": [["v", "0", "10"]],
    "[[ a.tar == *.@(zip|tar) ]] && v; [[ b == !(b) ]] || w": [["v"], ["w"]],
    "shopt -s nocasematch; [[ QWEN == q* ]] && v": [["v"]],
    "shopt -s nullglob; v *.none": [["v"]],
    "v --a `# why` --b": [["v", "--a", "--b"]],
    'X=$(echo a b); v $X; Y=$(cat <<\'E\'\n{"a": 1}\nE\n)\nv "$Y"': [
        ["echo", "a", "b"],
        ["v", "a", "b"],
        ["cat"],
        ["v", '{"a": 1}'],
    ],
    "A=x; v ${A/x/y&} ${A@Q}; readonly A\nA=z\nv $A": [["v", "yx", "'x'"], ["v", "x"]],
    "declare -n R=T; T=1; v $R; R=2; v $T": [["v", "1"], ["v", "2"]],
    "set -u\nv $X\nw": [],
    "trap 'v $?' EXIT; false": [["v", "1"]],
    "trap 'v 1' EXIT; set -u; a $X; trap 'v 2' EXIT": [["v", "1"]],
    "if false; then a; else v $?; fi; if a; then false; fi; v $?": [["v", "1"], ["a"], ["v", "1"]],
    'X="a.b$U"; [ "${X%.*}" = a ] && v "${X%.*}"': [["v", None]],
    'eval "v $U --p \'$U\' q"; bash -c "w $(date) x"': [
        ["v", None, "--p", None, "q"],
        ["date"],
        ["bash", "-c", None],
        ["w", None, "x"],
    ],
    'CMD="v $(x) a"; eval "$CMD"; eval "$(x)"': [["x"], ["v", None, "a"], ["x"]],
    'A=(1 $U 2 3 $U); for x in "p${A[@]}s"; do v "$x"; done': [["v", "p1"], ["v", "2"], ["v", None]],
    'A=(1 $U); A[${#A[@]}]=2; v "${A[@]}"': [["v", "1", None, "2"]],
    'v "$@${U:+x}" "${U:-}$@" "${E:-a\\ b}$@"': [["v", "a\\", "b"]],
    "if [ -z $U ]; then while read x; do v $x; done < <(echo 1; echo 2); fi": [
        ["echo", "1"],
        ["echo", "2"],
        ["v", "1"],
        ["v", "2"],
    ],
    "false; case a in a) v $?; esac; false; for x in 1; do v $?; false; done; v $?": [
        ["v", "1"],
        ["v", "1"],
        ["v", "1"],
    ],
    'bash -c "exit 3" || v $?; eval "a \'" || v $?': [["bash", "-c", "exit 3"], ["v", "3"], ["v", "2"]],
    "printf '%s\\n' $U.y b | while read X; do v x $X; done; mapfile -t L <<< $U; w ${#L[@]}": [
        ["printf", "%s\\n", None, "b"],
        ["v", "x", None],
        ["v", "x", None],
        ["w", "1"],
    ],
    "f() { while [ $# -gt 0 ]; do v; shift; done; }; f $U b": [["v"]],
    "a $(": [],
}


@pytest.mark.parametrize("text", WORDS)
def test_words_are_those_that_bash_delivers(text: str) -> None:
    """One word for each argument, after every expansion; None where it cannot be known."""
    assert WORDS[text] == commands(text)


def test_a_word_says_why_it_cannot_be_known_and_what_is_expanded_in_it() -> None:
    """And keeps how it is written."""
    words = read('v $(date) $UNSET "$(x)" ~/m a* {b,c}').invocations[-1].words

    assert [(word.why, sorted(word.expands)) for word in words] == [
        ("", []),
        ("command substitution", ["command"]),
        ("unset variable UNSET", ["parameter"]),
        ("command substitution", []),
        ("unset variable HOME", ["tilde"]),
        ("", ["glob"]),
        ("", ["brace"]),
        ("", ["brace"]),
    ]
    assert [word.raw for word in words][-3:] == ["a*", "{b,c}", "{b,c}"]


def test_every_character_of_a_value_has_its_place() -> None:
    """Through quotes, variables, lists and nested scripts; an excerpt of the value can be read in its turn."""
    text = 'J=\'{"a": 1}\'\nA=(--x "$J")\nbash -c "v ${A[0]} ${A[1]}"\n'
    whole, inner = read(text).invocations

    assert whole.words[2].excerpt == Excerpt('v --x {"a": 1}', [35, 36, 16, 17, 18, 44, *range(3, 12)])
    assert [(w.value, list(w.at or ())) for w in inner.words] == [
        ("v", [35]),
        ("--x", [16, 17, 18]),
        ("{a:", [3, 5, 7]),
        ("1}", [9, 10]),
    ]

    listed = read('A=(--x \'{"a": 1}\'); v "${A[@]}"').invocations[0].words
    assert [listed[2].value, list(listed[2].at or ())] == ['{"a": 1}', list(range(8, 16))]


def test_the_environment_is_what_the_script_exports() -> None:
    """Assignments before a command are added; a variable that is only set is not exported."""
    script = read("export A=1\nB=2\nA=$X\nC=3 v\nexport B\nunset A\nw\n")

    assert [dict(i.environment) for i in script.invocations] == [{"A": None, "C": "3"}, {"B": "2"}]
    assert [(a.name, a.value.value, a.exported) for a in script.assignments] == [
        ("A", "1", True),
        ("B", "2", False),
        ("A", None, True),
        ("B", "2", True),
    ]


def test_what_is_exported_in_some_cases_only_cannot_be_known() -> None:
    """Neither that it is exported nor that it is not."""
    script = read("B=1; if grep x y; then export A=1 B; fi; v $B\nexport B; v\n")

    assert [dict(i.environment) for i in script.invocations[1:]] == [{"A": None, "B": None}, {"A": None, "B": "1"}]
    assert script.invocations[1].words[1].value == "1"


def test_assignments_before_a_command_see_each_other() -> None:
    """A substitution in one sees those before it in its first command only, and no redirection does, as in bash."""
    script = read('A=o; A=n B=$A C=$(echo $A; echo $A) D=$(cat <<< "$A") v $A\n')

    assert dict(script.invocations[-1].environment) == {"A": "n", "B": "n", "C": "n\no", "D": "o"}
    assert script.invocations[-1].words[1].value == "o"


CIRCUMSTANCES: dict[str, list[tuple[str, bool, bool]]] = {
    # program, depends on circumstances, is reached with nothing set from outside
    'if [ -z "$TOKEN" ]; then a; exit 1; fi; b': [("a", True, True), ("b", False, False)],
    'if [ -n "$X" ]; then a; else b; fi; c': [("a", True, False), ("b", True, True), ("c", False, True)],
    "if grep x y; then a; else b; fi; c": [
        ("grep", False, True),
        ("a", True, True),
        ("b", True, True),
        ("c", False, True),
    ],
    "if [ -f x ]; then a; fi": [("a", True, True)],
    "a && b || c": [("a", False, True), ("b", True, True), ("c", True, False)],
    "[ $# -lt 1 ] && exit 1; a": [("a", False, False)],
    "case $1 in start) a ;; *) b ;; esac": [("a", True, False), ("b", True, True)],
    "until curl x; do sleep 1; done; a": [("curl", False, True), ("sleep", True, True), ("a", False, True)],
    "while true; do a; sleep 1; done; b": [("a", False, True), ("sleep", False, True)],
    "a ${X:?is needed}; b": [("a", False, False), ("b", False, False)],
    "if a; then exit; fi; b": [("a", False, True), ("b", False, False)],
    "f() { if a; then return 3; fi; b; }; f || c; d": [
        ("a", False, True),
        ("b", False, False),
        ("c", True, True),
        ("d", False, True),
    ],
    "set -u; if a $X; then b; fi; c": [("a", False, False), ("b", True, False), ("c", False, False)],
}


@pytest.mark.parametrize("text", CIRCUMSTANCES)
def test_both_sides_of_what_cannot_be_decided_are_read(text: str) -> None:
    """What bash comes to with nothing set is told from what it might come to otherwise."""
    read_ = [(i.words[0].value, i.is_conditional, i.is_reached) for i in read(text).invocations]

    assert CIRCUMSTANCES[text] == read_


def test_what_differs_after_a_condition_cannot_be_known() -> None:
    """What both sides have in common stays known."""
    text = 'A=(--x 1); P=1; S=\'--a\'; if grep q z; then A+=(--y); P=2; S="$S --b"; fi; v "${A[@]}" $P $S'

    assert commands(text)[-1] == ["v", "--x", "1", None, None, "--a", None]


def test_a_sourced_file_may_set_anything() -> None:
    """But files that set up a shell leave a script's variables alone."""
    assert commands("P=1; . ./env.sh; v $P") == [["v", None]]
    assert commands("P=1; source venv/bin/activate; v $P") == [["v", "1"]]


def test_loops_and_background_are_told() -> None:
    """Each round is an invocation; what is waited for is told from what nobody watches."""
    script = read("for p in 1 2; do v $p & done\nwait\nw &\n")

    assert [(i.round, i.is_background, i.is_waited) for i in script.invocations] == [
        ((("p", "1"),), True, True),
        ((("p", "2"),), True, True),
        ((), True, False),
    ]
    assert kinds("w &\n") == ["background-unwatched"]
    assert [dict(t.says) for t in read("cd x && A=1 w 2>&1 | tee l &\nsleep 9 &\n").troubles] == [{"program": "w"}]
    assert kinds("w &\nPID=$!\n") == []


def test_here_documents_are_handed_on() -> None:
    """With their places, so that a script in one can be read."""
    text = "bash <<EOF\nv --x\nEOF\n"
    (document,) = read(text).invocations[0].documents

    assert [document.text, document.at[0]] == ["v --x\n", 11]


# Troubles: the script, what is found (kind, line, column), and the script that is meant.
TROUBLES: dict[str, tuple[str, list[tuple[str, int, int]], str]] = {
    "comment after a continuation": (
        "v serve m \\  # the model\n  --port 1\n",
        [("comment-after-continuation", 1, 11)],
        "# the model\nv serve m \\\n  --port 1\n",
    ),
    "glued to the backslash": (
        "v serve m \\# the model\n  --port 1\n",
        [("comment-after-continuation", 1, 11)],
        "# the model\nv serve m \\\n  --port 1\n",
    ),
    "blanks after a continuation": (
        "v serve m \\ \n  --port 1\n",
        [("blank-after-continuation", 1, 11)],
        "v serve m \\\n  --port 1\n",
    ),
    "a last backslash with a blank": (
        "v serve m --port 1 \\ \n\necho done\n",
        [("blank-after-continuation", 1, 20)],
        "v serve m --port 1\n\necho done\n",
    ),
    "an empty line": (
        "v serve m \\\n\n  --port 1\n",
        [("empty-line-after-continuation", 2, 1)],
        "v serve m \\\n  --port 1\n",
    ),
    "a comment line": (
        "  v serve m \\\n    # the port \\\n    --port 1\n",
        [("comment-line-after-continuation", 2, 5)],
        "  # the port\n  v serve m \\\n    --port 1\n",
    ),
    "several in one command": (
        "if x; then\n  v m \\ # one\n    --a 1 \\\n    # two\n    # three \\\n    --b 2 \\ \n    --c 3\nfi\n",
        [
            ("comment-after-continuation", 2, 7),
            ("comment-line-after-continuation", 4, 5),
            ("blank-after-continuation", 6, 11),
        ],
        "if x; then\n  # one\n  # two\n  # three\n  v m \\\n    --a 1 \\\n    --b 2 \\\n    --c 3\nfi\n",
    ),
    "a comment at the end loses nothing": (
        "v m \\\n  --a 1 \\\n  # --b 2\n\necho x\n",
        [("dangling-continuation", 3, 3)],
        "v m \\\n  --a 1 \\\n  # --b 2\n\necho x\n",
    ),
    "nothing but a backslash": ("v m \\\n  \\\n  --a 1\n", [("lone-backslash", 2, 3)], "v m \\\n  --a 1\n"),
    "a missing backslash": (
        "v m --a 1  # one\n  --b 2\n",
        [("missing-continuation", 2, 3)],
        "# one\nv m --a 1 \\\n  --b 2\n",
    ),
    "in a list": (
        'A=(\n  --a 1 \\ # one\n  --b 2\n)\nv "${A[@]}"\n',
        [("comment-after-continuation", 2, 9)],
        'A=(\n  --a 1  # one\n  --b 2\n)\nv "${A[@]}"\n',
    ),
    "Windows line ends": ("v m \\\r\n  --a 1\r\n", [("carriage-returns", 1, 6)], "v m \\\n  --a 1\n"),
    "typographic quotes": (
        "v “a b” --x ‘c’\n",
        [("typographic-quotes", 1, 3)],
        "v \"a b\" --x 'c'\n",
    ),
    "typographic quotes in JSON": (
        "v --x '{“a”:1}'\n",
        [("typographic-quotes", 1, 9), ("typographic-quotes", 1, 11)],
        "v --x '{\"a\":1}'\n",
    ),
    "typographic dashes": ("v –port 1 —host x ‑p 2\n", [("typographic-dash", 1, 3)], "v --port 1 --host x -p 2\n"),
    "blanks that are none": (
        "v\u00a0m \\\n\u3000--a\u200b 1\n",
        [("no-break-space", 1, 2), ("no-break-space", 2, 1)],
        "v m \\\n --a 1\n",
    ),
    "prompts": (
        "$ v m \\\n>   --a 1\n(base) u@host:~$ w\n[root@h ~]# x\n",
        [("prompt", 1, 1), ("prompt", 2, 1), ("prompt", 3, 1), ("unexpected-token", 3, 8), ("prompt", 4, 1)],
        "v m \\\n  --a 1\nw\nx\n",
    ),
    "blanks around =": (
        "X = y\nexport Y = z\n",
        [("not-an-assignment", 1, 1), ("not-an-assignment", 2, 8)],
        "X=y\nexport Y=z\n",
    ),
    "no name": ("nccl-debug=info v\n", [("not-an-assignment", 1, 1)], "nccl-debug=info v\n"),
    "a blank after =": ("PORT= 8000\n", [("not-an-assignment", 1, 1)], "PORT=8000\n"),
    "a blank after = before a command": (
        "A=1 GPUS= 0,1 v m\nIFS= read -r x\n",
        [("not-an-assignment", 1, 5)],
        "A=1 GPUS=0,1 v m\nIFS= read -r x\n",
    ),
    "a blank after = of an export": (
        "export GPUS= 0,1 B=2\nexport A= B\n",
        [("not-an-assignment", 1, 8)],
        "export GPUS=0,1 B=2\nexport A= B\n",
    ),
    "a backslash in the middle of a line": (
        "v serve m \\ --host x \\  -q\nv /my\\ dir\n",
        [("blank-after-continuation", 1, 11), ("blank-after-continuation", 1, 22)],
        "v serve m --host x -q\nv /my\\ dir\n",
    ),
    "a byte order mark": ("\ufeff#!/bin/bash\nv m\n", [("no-break-space", 1, 1)], "#!/bin/bash\nv m\n"),
    "JSON without quotes": (
        'v --x {"a": 1, "b": 2} --y={"c":3}\n',
        [("unquoted-expansion", 1, 7), ("unquoted-expansion", 1, 28)],
        'v --x \'{"a": 1, "b": 2}\' --y=\'{"c":3}\'\n',
    ),
    "a pattern as a value": (
        "v --origins * --x=a?\n",
        [("unquoted-expansion", 1, 13), ("unquoted-expansion", 1, 19)],
        "v --origins '*' --x='a?'\n",
    ),
    "an open quote": ("v 'a\n", [("unclosed-quote", 1, 3)], "v 'a\n"),
    "an open bracket": ("v $(a\n", [("unclosed-bracket", 1, 3)], "v $(a\n"),
    "an open block": ("if a; then\nb\n", [("unclosed-bracket", 1, 1)], "if a; then\nb\n"),
    "a stray word": ("a\nfi\nb\n", [("unexpected-token", 2, 1)], "a\nfi\nb\n"),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_troubles_are_found_and_mended(name: str) -> None:
    """At their exact places; the edits give the script that is meant, with its comments."""
    text, places, meant = TROUBLES[name]
    troubles = read(text).troubles
    place = Places(text)

    assert places == [(trouble.kind, *place(trouble.start)) for trouble in troubles]
    fixed = applied(text, [edit for trouble in troubles for edit in trouble.edits])
    assert meant == fixed
    assert [trouble for trouble in read(fixed).troubles if trouble.edits] == []
    assert meant == shell.mended(text)


SOUND = (
    "# v \\\n# --x “a”\nv m \\\n  --x 1\n",
    "cat <<'EOF'\n$ v “a” \\ # b\n  –x\nEOF\n",
    "echo '“quoted” – text' \"a\u00a0b\"\n",
    "A=(\n  --a  # one\n\n  # two\n  --b\n)\n",
    "a && \\\n\nb\n",
    "a |\n  # comment\n  b\n",
    "echo \\# 5\nb\n",
    'v --x \'{"a": 1}\' "[1]" a=b\n',
    "X=y v\nIFS= read -r line\n",
    "rm *.log; for f in *; do a; done\n",
)


@pytest.mark.parametrize("text", SOUND)
def test_what_is_meant_is_no_trouble(text: str) -> None:
    """Comments, quoted text, lists and here-documents may hold what they like."""
    assert kinds(text) == []


def test_bash_reads_what_stands_before_an_error() -> None:
    """What stands after it is read all the same, and marked."""
    script = read("a\nb )\nc 'd'\n")

    assert [(i.words[0].value, i.is_reached) for i in script.invocations] == [("a", True), ("c", False)]


SEEDED = 150


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_real_bash_runs_the_same(tmp_path: Path) -> None:
    """Arguments, order and environment of generated scripts; the benchmark compares thousands."""
    bash = shell_scripts.Bash(tmp_path)
    scripts = [
        *itertools.islice(shell_scripts.grammar(1), SEEDED // 3),
        *itertools.islice(shell_scripts.launch(1), SEEDED // 3),
        *itertools.islice(shell_scripts.soup(1), SEEDED // 3),
    ]
    for script in scripts:
        runs = bash.run(script)
        if runs is not None:
            assert ([], script) == (shell_scripts.compare(script, runs)[0], script)


_MANY = 600
HOSTILE = {
    "quotes": '"' * _MANY,
    "substitutions": '"$(' * _MANY,
    "arithmetic": "$((" * _MANY,
    "parentheses": "(" * _MANY,
    "parameters": "${a:-" * _MANY,
    "braces": "a " + "{a,b}" * _MANY,
    "nested braces": "a " + "{a," * _MANY + "}" * _MANY,
    "backticks": "`\\" * _MANY,
    "words": "a " * _MANY,
    "continuations": "\\\n" * _MANY,
    "cut commands": "a \\ # c\n" * _MANY,
    "missing": "a\n" + "--b\n" * _MANY,
    "JSON": 'a --x {"a":1} ' * _MANY,
    "open JSON": 'a --x {"a":' * _MANY,
    "prompts": "$ a\n" * _MANY,
    "dashes": "a –b\n" * _MANY,
    "returns": "a\r\n" * _MANY,
    "errors": ")\n" * _MANY,
    "pipes": "a | " * _MANY + "a",
    "documents": "a " + "<<A " * _MANY + "\n",
    "tests": "[ " + "! " * _MANY + "a ]",
    "sums": "a $((" + "1+" * _MANY + "1))",
    "appends": "A+=(x)\n" * _MANY,
    "subshells": "".join(f"A{i}=1\n" for i in range(_MANY // 50)) + "(a)\n" * (_MANY // 10),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_cost_is_linear(name: str) -> None:
    """Whatever is repeated, twice as much of it costs at most some more than twice."""
    assert growth(read, HOSTILE[name]) <= LIMIT


ENDLESS = (
    "for a in {1..999}; do for b in {1..999}; do for c in {1..999}; do :; done; done; done",
    "for ((;;)); do :; done",
    "f() { f; f; }; f",
    ":(){ :|:& };:",
    "X=aaaaaaaaaa\n" + "X=$X$X\n" * 200,
    "a {1..1000000000}",
    "X=" + "a" * 5000 + "\na ${X//" + "*a" * 50 + "b/x}",
    'X=\'eval "$X"; eval "$X"\'; eval "$X"',
    "A=A; a $((A))",
    "while true; do X=$X-; done",
)


@pytest.mark.parametrize("text", ENDLESS)
def test_what_never_ends_is_left(text: str) -> None:
    """With a trouble that says so, or at an error that bash finds as well."""
    script = read(text + "\n")

    assert {"too-much"} >= {trouble.kind for trouble in script.troubles if trouble.kind != "background-unwatched"}


def test_a_line_of_a_megabyte_is_read() -> None:
    """Word by word."""
    script = read("v " + "--option value-of-it " * 45_000)

    assert len(script.invocations[0].words) == 90_001


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200) | st.lists(st.sampled_from(shell_scripts.SOUP), max_size=30).map("".join))
def test_no_text_is_too_odd(text: str) -> None:
    """Any text is read, its places lie in it, and mending it comes to an end."""
    script = read(text)

    for trouble in script.troubles:
        assert 0 <= trouble.start <= trouble.end <= len(text) + 1
    for invocation in script.invocations:
        assert 0 <= invocation.start <= invocation.end <= len(text)
    fixed = shell.mended(text)
    assert fixed == shell.mended(fixed)


def test_no_damaged_script_is_too_odd() -> None:
    """Signs taken out, put in and exchanged."""
    for script in itertools.islice(shell_scripts.mutated(3), 150):
        fixed = shell.mended(script)

        assert fixed == shell.mended(fixed)


def damaged(text: str, chance: random.Random) -> str:
    """A script as copying it from a page damages it."""
    changes: tuple[tuple[str, str], ...] = (
        *((" \\\n", cut) for cut in (" \\ \n", " \\  # why\n", " \\\n\n", " \\\n  # note \\\n", "\n", " \\\n  \\\n")),
        *((" --", dash) for dash in (" –", " —")),
        *(("'", "‘"), ('"', "“"), (" ", "\u00a0"), ("\n", "\r\n"), ("\n", "\n$ ")),
    )
    for _ in range(chance.randint(1, 4)):
        old, new = chance.choice(changes)
        places = [i for i in range(len(text)) if text.startswith(old, i)]
        if places:
            place = chance.choice(places)
            text = text[:place] + new + text[place + len(old) :]
    return text


def test_nothing_that_can_be_mended_is_left() -> None:
    """Every comment is still there, and mending again changes nothing."""
    chance = random.Random(7)  # noqa: S311 - repeatable, not secret
    for script in itertools.islice(shell_scripts.launch(7), 100):
        text = damaged(script, chance)
        fixed = shell.mended(text)

        assert ([], text) == ([t for t in read(fixed).troubles if t.edits], text)
        for comment in ("# why", "# note"):
            assert text.count(comment) == fixed.count(comment)
