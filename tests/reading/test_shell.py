"""How bash would run a script, what is probably not intended, and how to fix it."""

# ruff: noqa: RUF001 - characters that no keyboard has are tested
from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shell_scripts
from cost import LIMIT, growth
from rows import in_one_test
from vllm_runbooks.core.excerpt import Excerpt, LineIndex, applied
from vllm_runbooks.reading import shell


def read(text: str, **known: str) -> shell.Script:
    """A script, read."""
    return shell.read(Excerpt.whole(text), known=known)


def commands(text: str, **known: str) -> list[list[str | None]]:
    """The words of all commands that bash reaches."""
    return [[word.value for word in i.words] for i in read(text, **known).invocations if i.is_reached]


def with_fixes(text: str) -> str:
    """Apply all fixes until none is left; an edit may uncover another issue."""
    for _ in range(6):
        edits = [edit for trouble in read(text).troubles for edit in trouble.edits]
        if not edits:
            break
        text = applied(text, edits)
    return text


def kinds(text: str) -> list[str]:
    """The kinds of all issues."""
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


@in_one_test("text", WORDS)
def test_words_match_bash(text: str) -> None:
    """One word per argument after all expansions; None if unknown."""
    assert WORDS[text] == commands(text)


def said(text: str) -> str:
    """The arguments of each `v` that bash reaches, in brackets; `[?]` if one is unknown."""
    runs = (run for run in read(text, HOME="/home/user").invocations if run.is_reached and run.words[0].value == "v")
    return " ".join("".join(f"[{'?' if w.value is None else w.value}]" for w in run.words[1:]) for run in runs)


# By topic: what a script passes to `v`, recorded from bash 5.2.
SAID: dict[str, str] = {
    # Tests
    r"""for o in -eq -ne -lt -le -gt -ge; do for n in 1 2 3 -2; do [ $n $o 2 ] && v $o $n; done; done""": (
        "[-eq][2] [-ne][1] [-ne][3] [-ne][-2] [-lt][1] [-lt][-2] [-le][1] [-le][2] [-le][-2] [-gt][3] [-ge][2] [-ge][3]"
    ),
    r"""for o in = == != "<" ">"; do for n in a b c; do [ $n "$o" b ] && v $o $n; done; done""": (
        "[=][b] [==][b] [!=][a] [!=][c] [<][a] [>][c]"
    ),
    r"""for n in 1 2 3; do [[ $n -eq 2 ]] && v e $n; [[ $n -ne 2 ]] && v n $n; [[ $n -lt 2 ]] && v l $n
[[ $n -le 2 ]] && v le $n; [[ $n -gt 2 ]] && v g $n; [[ $n -ge 2 ]] && v ge $n; done""": (
        "[n][1] [l][1] [le][1] [e][2] [le][2] [ge][2] [n][3] [g][3] [ge][3]"
    ),
    r"""for n in a b c; do [[ $n < b ]] && v l $n; [[ $n > b ]] && v g $n; [[ $n != b ]] && v n $n
[[ $n = b ]] && v e $n; done""": "[l][a] [n][a] [e][b] [g][c] [n][c]",
    r"""[ ]; v $?; [ x ]; v $?; [ "" ]; v $?; [ -n ]; v $?; [ ! ]; v $?; [ ! x ]; v $?; [ ! "" ]; v $?""": (
        "[1] [0] [1] [0] [0] [1] [0]"
    ),
    r"""[ -n "" ]; v $?; [ -n x ]; v $?; [ -z "" ]; v $?; [ -z x ]; v $?; [ ! -n x ]; v $?; [ ! -z x ]; v $?""": (
        "[1] [0] [0] [1] [1] [0]"
    ),
    r"""[ x -a "" ]; v $?; [ x -a y ]; v $?; [ x -o "" ]; v $?; [ "" -o "" ]; v $?; [ "(" x ")" ]; v $?
[ "(" "" ")" ]; v $?""": "[1] [0] [0] [1] [0] [1]",
    r"""[ ! a = a ]; v $?; [ ! a = b ]; v $?; [ "(" -n x ")" ]; v $?; [ "(" -n "" ")" ]; v $?; [ "(" ! "" ")" ]
v $?""": "[1] [0] [0] [1] [0]",
    r"""[ a = a -a b = c ]; v $?; [ a = a -a b = b ]; v $?; [ a = b -o b = b ]; v $?; [ a = b -o b = c ]; v $?""": (
        "[1] [0] [0] [1]"
    ),
    r"""[ a = b -a b = b -o c = c ]; v $?; [ c = c -o a = b -a b = a ]; v $?
[ "(" c = c -o a = a ")" -a b = a ]; v $?""": "[0] [0] [1]",
    r"""[ ! a = a -o b = b ]; v $?; [ ! ! a = a -a b = b ]; v $?; [ ! "(" a = a -a b = c ")" ]; v $?
[ x -a -n y -a 1 -lt 2 ]; v $?""": "[0] [0] [0] [0]",
    r"""[ a = a; v $?; [ a b ]; v $?; [ a b c ]; v $?; [ 1 -eq x ]; v $?; [ a = a b ]; v $?; [ "(" a = a -a b ]
v $?""": "[2] [2] [2] [2] [2] [2]",
    r"""test 1 -eq 1; v $?; test; v $?; test ""; v $?; test x = y; v $?; [ " 7 " -eq +7 ]; v $?; [ -3 -lt -2 ]
v $?""": "[0] [1] [1] [1] [0] [0]",
    r"""X=1; E=; L=(a b); declare -A M=([k]=1); [ -v X ]; v $?; [ -v E ]; v $?; [[ -v L ]]; v $?; [[ -v L[1] ]]
v $?; [[ -v L[2] ]]; v $?; [[ -v M[k] ]]; v $?; [[ -v M[j] ]]; v $?""": "[0] [0] [0] [0] [1] [0] [1]",
    r"""unset X; [ -v X ]; v $?; [[ ! -v X ]]; v $?; [[ -z ${X:-} && -n a ]]; v $?""": "[1] [0] [0]",
    r"""[[ a == a && b == c ]]; v $?; [[ a == b || c == c ]]; v $?; [[ ! a == a ]]; v $?
[[ ( a == b || c == c ) && d ]]; v $?; [[ ! ( a == b ) ]]; v $?; [[ "" ]]; v $?; [[ x ]]; v $?""": (
        "[1] [0] [1] [0] [0] [1] [0]"
    ),
    r"""X='a*'; [[ abc == $X ]]; v $?; [[ abc == "$X" ]]; v $?; [[ abc != a\* ]]; v $?; [[ 'a*' == a\* ]]; v $?
[[ abc == 'a'* ]]; v $?""": "[0] [1] [0] [0] [0]",
    r"""[[ 3+1 -eq 4 ]]; v $?; N=4; [[ N -eq 4 ]]; v $?; [[ 0x10 -gt 15 ]]; v $?; [[ a -eq 0 ]]; v $?
[[ 1+ -eq 1 ]]; v $?""": "[0] [0] [0] [0] [1]",
    r"""(( 0 )); v $?; (( 1 )); v $?; (( -1 )); v $?; ((  )); v $?; (( 1 + )); v $?""": "[1] [0] [0] [1] [1]",
    r"""! true; v $?; ! false; v $?; ! ! false; v $?; true && false || true; v $?; false || false && true; v $?""": (
        "[1] [0] [1] [0] [1]"
    ),
    r"""if false; then v 1; elif false; then v 2; elif true; then v 3; elif true; then v 4; else v 5; fi; v $?""": (
        "[3] [0]"
    ),
    r"""if false; then v 1; fi; v $?; if true; then false; fi; v $?; while false; do v 1; done; v $?; until true
do v 1; done; v $?""": "[0] [1] [0] [0]",
    r"""case abc in a) v 1 ;; a?c) v 2 ;& x) v 3 ;;& *c) v 4 ;; *) v 5 ;; esac; v $?""": "[2] [3] [4] [0]",
    r"""case "" in "") v e ;; *) v o ;; esac; case a in b) ;; esac; v $?; case 'a b' in 'a b') v q; false ;
esac; v $?; case x in (x|y) v p ;; esac""": "[e] [0] [q] [1] [p]",
    r"""false; case a in b) v 1 ;; esac; v $?; false; case a in a) ;; esac; v $?""": "[0] [0]",
    # Control
    r"""(exit 300); v $?; (exit -1); v $?; (exit); v $?; (false; exit); v $?; f() { return 258; }; f; v $?
f() { false; return; }; f; v $?""": "[44] [255] [0] [1] [2] [1]",
    r"""f() { v in; return 3; v never; }; f; v $?; f || v failed; f && v never; g() { f; v $?; return 0; }; g
v $?""": "[in] [3] [in] [failed] [in] [in] [3] [0]",
    r"""return 5; v $?; v after""": "[2] [after]",
    r"""for a in 1 2 3; do for b in 1 2 3; do [ $b = 2 ] && continue 2; [ $a = 3 ] && break 2; v $a $b; done
v never; done; v $?""": "[1][1] [2][1] [0]",
    r"""for a in 1 2 3; do for b in 1 2; do [ $a$b = 21 ] && break; v $a $b; done; done""": (
        "[1][1] [1][2] [3][1] [3][2]"
    ),
    r"""for a in 1 2 3; do [ $a = 2 ] && continue; v $a; done; for a in 1 2; do for b in x y; do break 9; done
v never; done; v end""": "[1] [3] [end]",
    r"""i=0; while true; do i=$((i+1)); [ $i -eq 2 ] && continue; [ $i -gt 3 ] && break; v $i; done; v $i $?""": (
        "[1] [3] [4][0]"
    ),
    r"""i=3; until [ $i -eq 0 ]; do v $i; i=$((i-1)); done; v $?""": "[3] [2] [1] [0]",
    r"""for ((i=0, j=9; i<3; i++, j--)); do [ $i = 1 ] && continue; v $i $j; done; for ((i=0;;i++))
do ((i > 1)) && break; v $i; done; v $i""": "[0][9] [2][7] [0] [1] [2]",
    r"""for ((i=2; i>0; i--)) { v $i; }; for x in a b; { v $x; }; for x in; do v never; done; v $?""": (
        "[2] [1] [a] [b] [0]"
    ),
    r"""set -- a b; for x; do v $x; done; for x in "$@" c; do v "$x"; done; v $x""": "[a] [b] [a] [b] [c] [c]",
    r"""eval v a "'b c'" '"$@"'; eval; v $?; false; eval ''; v $?; false; eval "  "; v $?; eval 'exit_() { v f
}'; exit_; eval false; v $?""": "[a][b c] [0] [0] [0] [f] [1]",
    r"""set -- a b c d; shift; v $1 $#; shift 2; v $1 $#; shift 0; v $? $#; shift 2; v $? $#; shift; v $? $#
shift; v $? $#""": "[b][3] [d][1] [0][1] [1][1] [0][0] [1][0]",
    r'''set -- 1 2 3 4 5 6 7 8 9 10 11; v $10 ${10} ${11} $# "${@:10}" "${*:2:2}" "${@: -2}"''': (
        "[10][10][11][11][10][11][2 3][10][11]"
    ),
    r"""set a b; v $# $2; set - c; v $# $1; set -- -x; v $1; set -u -- d e; v $2; set --; v $#; set +u z; v $1""": (
        "[2][b] [1][c] [-x] [e] [0] [z]"
    ),
    r"""set -e; if false; then v 1; fi; false || v 2; ! true; v 3; false && v never; v 4; (v 5; false; v never)
v never""": "[2] [3] [4] [5]",
    r"""set -e; f() { false; v in; }; if f; then v yes; fi; f || v never; v on; f; v never""": ("[in] [yes] [in] [on]"),
    r"""set -e -o pipefail; true | true; v 1; set +e; false; v 2; set -o errexit; false; v never""": "[1] [2]",
    r"""set -e; set +o errexit; false; v 1; set -eu; set +u; set -e; (exit 3) || v $?; v a; $(false) ; v never""": (
        "[1] [3] [a]"
    ),
    r"""set -o pipefail; false | true; v $?; set +o pipefail; false | true; v $?; (exit 3) | (exit 4); v $?
! false | true; v $?""": "[1] [0] [4] [1]",
    r"""set -a; A=1; bash -c 'v $A'; set +a; B=2; bash -c 'v b${B-n}'; C=3 bash -c 'v $C'; v c${C-n}
export -n A; bash -c 'v a${A-n}'""": "[1] [bn] [3] [cn] [an]",
    r"""set -f; v *; set +f; v a; set -x; v b; set -o noglob; v [a]*""": "[*] [a] [b] [[a]*]",
    r"""f() { v f $1; }; f a; unset -f f; unset f; f() { v g; }; g=1; f; unset -v g; v ${g-gone}; X=1; unset X
v ${X-gone}; readonly R=1; unset R; v $? $R""": "[f][a] [g] [gone] [gone] [1][1]",
    r"""L=(a b c); unset 'L[1]'; v "${L[@]}" ${#L[@]} "${!L[@]}"; declare -A M=([a]=1 [b]=2); unset 'M[a]'
v "${M[@]}"; unset L M; v ${L[0]-none}""": "[a][c][2][0][2] [2] [none]",
    r"""trap 'v bye $?' EXIT; v a; exit 4; v never""": "[a] [bye][4]",
    r"""trap 'v one' EXIT; trap - EXIT; v a; trap 'v two' 0; (trap 'v inner' EXIT; v b)
bash -c 'trap "v nested" EXIT; v c'""": "[a] [b] [inner] [c] [nested] [two]",
    r"""trap 'v err $?' ERR; false; v a; true; if false; then :; fi; false || v b; f() { false; }; f; (exit 7)
trap - ERR; false; v c""": "[err][1] [a] [b] [err][1] [err][7] [c]",
    r"""set -e; trap 'v bye' EXIT; false; v never""": "[bye]",
    r"""f() { local X=1 Y; Y=2; g; v $X $Y; }; g() { X=3; Y=4; }; X=0; f; v $X ${Y-none}""": "[3][4] [0][none]",
    r"""f() { local X=in; unset X; v ${X-out}; }; X=o; f; v $X; f() { declare X=l; declare -g Y=g; }; f; v $X $Y
f() { export X=l; }; f; v $X""": "[out] [o] [o][g] [l]",
    r"""f() { v $# "$1"; shift; v $# "$1"; set -- q; v $1; }; set -- x y; f a b; v $1 $#; f() { g "$@" z; }
g() { v "$@"; }; f 1""": "[2][a] [1][b] [q] [x][2] [1][z]",
    r"""f() ( X=1; exit 3; ); f; v $? ${X-none}; f() { [ $1 -gt 2 ] && return; v $1; f $(($1+1)); }; f 0
f() if true; then v $1; fi; f q""": "[3][none] [0] [1] [2] [q]",
    r"""{ v a; false; }; v $?; ( v b; false ); v $?; { v c; exit 2; }; v never""": "[a] [1] [b] [1] [c]",
    r"""v a & wait; v b; (v c) ; { v d; } & wait $!; v e; false & wait; v f""": "[a] [b] [c] [d] [e] [f]",
    r"""true | v a; X=1; X=2 | X=3; v $X; echo b | { read X; v $X; }; v $X; v a | cat""": "[a] [1] [b] [1] [a]",
    r"""X=1 Y=2; X=3 v $X; X=4 eval 'v $X'; v $X; f() { v $X; }; X=5 f; v $X; X=6 :; v $X; Y=$X X=7; v $X $Y""": (
        "[1] [4] [1] [5] [1] [1] [7][1]"
    ),
    r"""command v 2>/dev/null; builtin eval 'v a'; command eval 'v b'; command export Z=3; v $Z
builtin echo >/dev/null; command true; v $?""": "[a] [b] [3] [0]",
    r"""true; v $? | cat; X=$(false); v $?; X=$(exit 3); v $?; X=$(exit 3) Y=; v $?; X=1; v $?
export X=$(false); v $?; local_() { local X=$(false); v $?; }; local_""": "[0] [1] [3] [3] [0] [0] [0]",
    r"""false; X=; v $?; $(exit 4); v $?; $(:); v $?; "" 2>/dev/null; v $?; v $(exit 3)$?""": ("[0] [4] [0] [127] [3]"),
    r"""bash -c 'v "$0" "$@"' a b c; bash -c 'v $0 $#' z; bash -ec 'false; v never'; v $?; bash -c 'exit 5'
v $?; bash -s p q <<< 'v $1 $2 $#'; bash <<< 'v in'""": "[a][b][c] [z][0] [1] [5] [p][q][2] [in]",
    r"""X=1; bash -c 'v x${X-n}'; export X; bash -c 'v x$X; X=2; v $X'; v $X; bash -c 'f() { v f; }; f'
f() { v o; }""": "[xn] [x1] [2] [1] [f]",
    # Input
    r'''read A B C <<< "1 2 3 4"; v "$A" "$B" "$C"; read A B <<< "  x  "; v "$A" "$B"; read -r A <<< '  a b  '
v "$A"; read -r <<< '  a b  '; v "$REPLY"''': "[1][2][3 4] [x][] [a b] [  a b  ]",
    r'''read A B <<< 'a\ b c\d'; v "$A" "$B"; read -r A B <<< 'a\ b c\d'; v "$A" "$B"; read A <<< $'x\\\ny'
v "$A"; read -r A <<< $'x\\\ny'; v "$A"''': "[a b][cd] [a\\][b c\\d] [xy] [x\\]",
    r'''IFS=: read A B C <<< "1::3"; v "$A" "$B" "$C"; IFS=: read A B <<< "1:2:"; v "$A" "$B"
IFS=: read A B <<< "1:2:3:"; v "$A" "$B"; IFS=: read -a L <<< ":a::"; v ${#L[@]} "${L[@]}"''': (
        "[1][][3] [1][2] [1][2:3:] [3][][a][]"
    ),
    r'''IFS=' ,' read A B C <<< " a , b,, c "; v "$A" "$B" "$C"; IFS= read -r A <<< '  a '; v "$A"
IFS=, read -ra L <<< "a, b,c"; v "${L[@]}"; IFS=x read A B <<< 'axb c'; v "$A" "$B"''': (
        "[a][b][, c] [  a ] [a][ b][c] [a][b c]"
    ),
    r"""read -d , A <<< "a b,c"; v "$A" $?; read -d : A <<< "x"; v "$A" $?; read -n 2 A <<< abcd; v "$A" $?
read -N 3 A <<< " ab cd"; v "$A"; read -n 9 A <<< abc; v "$A" $?; read -n1 A <<< xyz; v $A""": (
        "[a b][0] [x][1] [ab][0] [ ab] [abc][0] [x]"
    ),
    r'''{ read A; read -r B; read C; v $? "$A" "$B" "$C"; } <<< $'1\n2'; printf 'x y' | { read A B; v $? $A $B
}; read A < /dev/null; v $? "$A"''': "[1][1][2][] [1][x][y] [1][]",
    r'''{ read -n 2 A; read -n 2 B; read C; v "$A" "$B" "$C"; } <<< abcdef; { read -d '' A; v "$A" $?
} <<< $'a\nb'; read -rd '' A B <<< $'p\nq r\n'; v "$A" "$B"''': "[ab][cd][ef] [a\nb][1] [p][q r]",
    r'''while read -r A B; do v "$A" "$B"; done <<< $'1 2\n3\n\n4 5 6'; while read A || [ -n "$A" ]; do v "$A"
done < <(printf 'a\nb'); while read A; do v "$A"; done < <(printf 'a\nb'); v "$A"''': (
        "[1][2] [3][] [][] [4][5 6] [a] [b] [a] [b]"
    ),
    r'''mapfile L <<< $'a\nb'; v ${#L[@]} "${L[@]}"; mapfile -t L <<< $'a\n\nb'; v ${#L[@]} "${L[@]}"
mapfile -t < <(printf 'x\ny'); v "${MAPFILE[@]}"; readarray -t -n 2 L <<< $'1\n2\n3'; v "${L[@]}"
mapfile -t -s 1 L <<< $'1\n2\n3'; v "${L[@]}"; mapfile -td , L <<< 'a,b,c'; v "${L[@]}"
mapfile -t -s 1 -n 1 L <<< $'1\n2\n3'; v "${L[@]}"''': (
        "[2][a\n][b\n] [3][a][][b] [x][y] [1][2] [2][3] [a][b][c\n] [2]"
    ),
    r"""A=1; cat <<E | while read X; do v "$X"; done
a $A `echo b` $(echo c) \$A \\ \a "q" 'r'
  $((1+1)) ${A}x
E""": "[a 1 b c $A  a \"q\" 'r'] [2 1x]",
    r"""cat <<'E' | while read -r X; do v "$X"; done
a $A \\ `b`
E""": "[a $A \\\\ `b`]",
    r"""while read -r X; do v "$X"; done <<-E
	a
		b	c
	E""": "[a] [b\tc]",
    r"""v x""": "[x]",
    r"""{ read A; read B; v $A "$B" $?; } <<E
1
E""": "[1][][1]",
    r"""read A <<E; read B <<F; v $A $B
a
E
b
F""": "[a][b]",
    r'''X=$(cat <<< "a  b"); v "$X"; X=$(cat - <<< q); v $X; X=$(echo a; echo; echo b; echo; echo); v "$X"
X=$(printf 'a\n\nb\n\n'); v "$X"; v $(echo a b; echo c) "$(echo; echo x)"''': (
        "[a  b] [q] [a\n\nb] [a\n\nb] [a][b][c][\nx]"
    ),
    r"""X=$(< /dev/null); v "$X"; X=`echo \`echo n\` '\$A' \\\\`; v "$X"; X="`echo \"q r\"`"; v "$X"
X=$(echo $(echo $(echo deep))); v $X; Y=$(X=in; echo $X); v $X $Y""": ("[] [n $A \\] [q r] [deep] [deep][in]"),
    r'''X=$(echo -n a; echo b); v "$X"; X=$(echo -e 'a\tb\x41\u00e9\0101\\n'); v "$X"; X=$(echo -E 'a\tb')
v "$X"; X=$(echo -ne 'a\n'; echo c); v "$X"; X=$(echo -eE 'a\tb'); v "$X"; X=$(echo -Ee 'a\tb'); v "$X"
X=$(echo -x a); v "$X"; X=$(echo - -n); v "$X"; X=$(echo -e -E 'a\tb'); v "$X"; X=$(echo); v "$X"''': (
        "[ab] [a\tbAéA\\n] [a\\tb] [a\nc] [a\\tb] [a\tb] [-x a] [- -n] [a\\tb] []"
    ),
    r"""v $(basename /a/b/c.txt .txt) $(basename a/) $(basename x.y y) $(basename .y .y) $(basename a b) \
  $(dirname /a/b/c) $(dirname a) $(dirname /a) $(dirname a/b/) $(dirname /) $(dirname a//b)""": (
        "[c][a][x.][.y][a][/a/b][.][/][a][/][a]"
    ),
    r"""v $(seq 3) $(seq 2 4) $(seq 1 2 6) $(seq 5 -2 1) $(seq 3 1) $(seq -1 1) $(seq 0 0)
v $(seq 0 5 20 | cat)""": "[1][2][3][2][3][4][1][3][5][5][3][1][-1][0][1][0] [0][5][10][15][20]",
    r'''printf -v X '%s|%5s|%-5s|%.2s|%c|%%' a b c def ghi; v "$X"
printf -v X '%d %i %5d|%-4d|%05d|%+d|%x|%X|%o|%#x|% d' 1 2 3 4 5 6 255 255 8 255 7; v "$X"
printf -v X '%.3d|%5.3d|%u' 7 8 9; v "$X"''': (
        "[a|    b|c    |de|g|%] [1 2     3|4   |00005|+6|ff|FF|10|0xff| 7] [007|  008|9]"
    ),
    r'''printf -v X '%f %.2f %e %g %G %5.1f' 1 2.345 3 0.5 1e10 2.25; v "$X"; printf -v X '%s,' a b c; v "$X"
printf -v X '%s=%d;' a 1 b; v "$X"; printf -v X 'x'; v "$X"; printf -v X 'n' a b; v "$X"
printf -v X '%*d|%-*s|%.*s' 4 7 3 a 1 xyz; v "$X"''': (
        "[1.000000 2.35 3.000000e+00 0.5 1E+10   2.2] [a,b,c,] [a=1;b=0;] [x] [n] [   7|a  |x]"
    ),
    r"""printf -v X '%d %d %d %d %d' 0x1f 010 "'A" '"B' -5; v "$X" $?; printf -v X '%d' 3x; v "$X" $?
printf -v X '%d'; v "$X" $?; printf -v X '%d' ''; v "$X" $?; printf -v X '%s'; v "$X"
printf -v X '%d' ' 12'; v "$X" $?; printf -v X '%d' 08; v "$X" $?""": (
        "[31 8 65 66 -5][0] [3][1] [0][0] [0][0] [] [12][0] [0][1]"
    ),
    r"""printf -v X '%b|%s' 'a\tb' 'a\tb'; v "$X"; printf -v X '\x41\101\u0041\n\\\a\q'; v "$X"
printf -v X '%q|%q|%q|%q|%q' 'a b' "it's" '' a.b '$x~'; v "$X"; printf -v X %q $'a\nb'; v "$X"
printf -v X -- '%s' a; v "$X"; printf -v 'L[2]' %s z; v "${!L[@]}" "${L[@]}"; printf -v 'M x' a; v $?""": (
        "[a\tb|a\\tb] [AAA\n\\\x07\\q] [a\\ b|it\\'s|''|a.b|\\$x~] [$'a\\nb'] [a] [2][z] [2]"
    ),
    r"""X=$(printf '%s\n' a b); v "$X"; X=$(printf '%s' 'a b'); v "$X"; X=$(printf '%03d-%s' 7 x); v $X
X=$(printf -- '-%s' y); v $X; printf '%s %s\n' 1 2 3 | while read A B; do v "$A" "$B"; done""": (
        "[a\nb] [a b] [007-x] [-y] [1][2] [3][]"
    ),
    r'''set -- -a -bx -c y rest; while getopts ab:c: o; do v $o "${OPTARG-none}" $OPTIND; done; v $o $OPTIND $?
shift $((OPTIND-1)); v "$@"''': "[a][none][2] [b][x][3] [c][y][5] [?][5][0] [rest]",
    r"""set -- -xyz -w; while getopts xz o; do v $o ${OPTARG-none} $OPTIND; done 2>/dev/null; OPTIND=1
while getopts :xa: o -x -q -a; do v $o ${OPTARG-none} $OPTIND; done; OPTIND=1; getopts a: o -a v1 -a v2
v $o $OPTARG $OPTIND; getopts a: o -a v1 -a v2; v $OPTARG $OPTIND""": (
        "[x][none][1] [?][none][1] [z][none][2] [?][none][3] [x][none][2] [?][q][3] [:][a][4] [a][v1][3] [v2][5]"
    ),
    r"""OPTIND=1; while getopts ab o -a -- -b; do v $o; done; v $OPTIND; OPTIND=1; getopts a o b
v $? $o $OPTIND; OPTIND=1; getopts a o -; v $? $OPTIND; OPTIND=1; getopts :a: o -a; v $o $OPTARG $OPTIND
OPTIND=1; getopts a: o -a 2>/dev/null; v $o ${OPTARG-none}; f() { local OPTIND; getopts q o "$@"
v $o $OPTIND; }; f -q; f -q""": "[a] [3] [1][?][1] [1][1] [:][a][2] [?][none] [q][2] [q][2]",
    r"""shopt -s nocasematch; case ABC in abc) v ic ;; esac; [[ A == a ]] && v t; [[ aB =~ Ab ]] && v r; X=aAb
v ${X//a/x}; shopt -u nocasematch; [[ A == a ]] || v n; shopt -s nullglob; v a *.none b?none
shopt -u nullglob; v *.none; shopt -s extglob""": "[ic] [t] [r] [xxb] [n] [a] [*.none]",
    r"""let A=1+2 B=A*2; v $A $B $?; let 0; v $?; let 'A += 4' 'A -= 1'; v $A $?; let 1 0; v $?
let '1 +' 2>/dev/null; v $?; ((A++)); v $A $?; ((A=0)); v $?; ((++A, A*=5)); v $A""": (
        "[3][6][0] [1] [6][0] [1] [1] [7][0] [1] [5]"
    ),
    # Variables
    r"""declare -i N=3+4; v $N; N=N*2; v $N; N+=1; v $N; declare -i M; x=3; M=x; v $M; M='2 ** 5'; v $M
declare -i K=0x1F; v $K; N=1+; v $N""": "[7] [14] [15] [3] [32] [31]",
    r"""declare -l L=ABc; declare -u U=abC; v $L $U; L=XY; U=xy; v $L $U; U+=z; v $U; declare -l Q; Q=QQ; v $Q""": (
        "[abc][ABC] [xy][XY] [XYZ] [qq]"
    ),
    r'''declare -a L=(a b); declare -A M=([x]=1 ['y z']=2); v "${L[@]}" "${M[x]}" "${M[y z]}" ${#M[@]}
declare L2=q; v ${L2[0]} ${#L2[@]}; declare -a E; v ${#E[@]}; E[2]=z; v "${!E[@]}"''': (
        "[a][b][1][2][2] [q][1] [0] [2]"
    ),
    r"""export A=1 B; B=2; bash -c 'v $A $B'; declare -x C=3; bash -c 'v $C'; declare +x C; bash -c 'v c${C-n}'
export -n A; bash -c 'v a${A-n}'; v $A; typeset -x D=4; bash -c 'v $D'; E=5; export E; bash -c 'v $E'
export X='a b' Y=c; v "$X" $Y""": "[1][2] [3] [cn] [an] [1] [4] [5] [a b][c]",
    r"""V='P=1'; export $V; v $P; export Q{1,2}=x; v $Q1 $Q2; N=Z; declare $N=5; v $Z; export W+=a; W+=b
export W+=c; v $W; declare "Y=p q"; v "$Y"; export 1x=2; v $?""": "[1] [x][x] [5] [abc] [p q] [1]",
    r"""declare -n R=T; T=1; v $R; R=2; v $T; unset R; v ${T-gone}; unset -n R; f() { local -n o=$1; o=$2; }
f X y; v $X; declare -n A=B; B=(1 2); v "${A[1]}" "${A[@]}"; A[1]=3; v ${B[1]}; A+=(4); v ${#B[@]}""": (
        "[1] [2] [gone] [y] [2][1][2] [3] [3]"
    ),
    r'''L=(a b c); L[1]=x; L[5]=f
v "${L[@]}" "${!L[@]}" ${#L[@]} "${L[-1]}" "${L[-2]-none}" "${L[1+1]}" ${#L[0]}; L+=(g h); v "${!L[@]}"
L[0]+=z; v ${L[0]}; L=; v "${L[@]}"; L[-1]=end; v "${L[@]}"''': (
        "[a][x][c][f][0][1][2][5][4][f][none][c][1] [0][1][2][5][6][7] [az] [][x][c][f][g][h] [][x][c][f][g][end]"
    ),
    r"""L=([2]=c [0]=a b); v "${L[@]}" "${!L[@]}"; L=([1]=x y [5]=z w); v "${!L[@]}"; i=2; L[i]=q; L[$i+1]=r
L["4"]=s; v "${!L[@]}" "${L[i]}" "${L[$((i+1))]}"; X=s; X[2]=t; v "${X[@]}" $X; X+=u; v $X""": (
        "[a][b][c][0][1][2] [1][2][5][6] [1][2][3][4][5][6][q][r] [s][t][s] [su]"
    ),
    r'''L=(a 'b c' "" d); v "${L[@]}"; v ${L[@]}; v "${L[*]}"; IFS=,; v "${L[*]}"; v ${L[*]}; IFS=
v "${L[*]}" ${L[*]}; unset IFS; v "${L[*]}"; v "x${L[@]}y"; v x${L[@]}y; E=()
v "${E[@]}" "a${E[@]}b" "${E[*]}"''': (
        "[a][b c][][d] [a][b][c][d] [a b c  d] [a,b c,,d] [a][b c][][d] [ab cd][a][b c][d] [a b c  d] [xa][b "
        "c][][dy] [xa][b][c][dy] [ab][]"
    ),
    r'''L=(a b c d e)
v "${L[@]:1}" - "${L[@]:1:2}" - "${L[@]: -2}" - "${L[@]: -3:2}" - "${L[*]:3}" - "${L[@]:9}" - \
  "${L[@]:0:0}" - "${L[@]: -9}"
S=([1]=p [4]=q [6]=r); v "${S[@]:2}" - "${S[@]:1:1}" - "${S[@]: -3}" - "${S[@]:4:1}"''': (
        "[b][c][d][e][-][b][c][-][d][e][-][c][d][-][d e][-][-][-] [q][r][-][p][-][q][r][-][q]"
    ),
    r"""set -- a b c d
v "${@:2}" - "${@:2:2}" - "${@: -1}" - "${@: -3:2}" - "${*:3}" - "${@:5}" - "${@:1:0}" - "${@#a}" - \
  "${@/b/x}" - "${@^}" - "${#@}" ${#*} ${##}""": (
        "[b][c][d][-][b][c][-][d][-][b][c][-][c d][-][-][-][][b][c][d][-][a][x][c][d][-][A][B][C][D][-][4][4][1]"
    ),
    r'''L=(ab.c db.e)
v "${L[@]#a}" "${L[@]%.*}" "${L[@]/b/X}" "${L[@]//[a-d]/_}" "${L[@]^}" "${L[@]^^}" "${L[@]/#/p-}" \
  "${L[@]/%/-s}" "${L[*]#?}"
M="${L[@]}"; v "$M"; M=${L[*]/b/Q}; v "$M"; M="${L[@]%.*}"; v "$M"''': (
        "[b.c][db.e][ab][db][aX.c][dX.e][__._][__.e][Ab.c][Db.e][AB.C][DB.E][p-ab.c][p-db.e][ab.c-s][db.e-s][b.c "
        "b.e] [ab.c db.e] [aQ.c dQ.e] [ab db]"
    ),
    r'''declare -A M; M[a]=1; M[b c]=2; k=d; M[$k]=3; M["$k e"]=4
v ${M[a]} "${M[b c]}" "${M[d]}" "${M[d e]}" ${#M[@]}; M+=([f]=6); M[a]+=x
v ${M[f]} ${M[a]} ${M[z]-none} ${#M[a]}; M=([q]=1); v ${#M[@]} "${!M[@]}" "${M[@]}"''': (
        "[1][2][3][4][4] [6][1x][none][2] [1][q][1]"
    ),
    r'''X=L; L=(p q); v ${!X}; Y='L[1]'; v ${!Y}; Z='L[@]'; v "${!Z}"; set -- m n; i=2; v ${!i} "${!#}"; Pq1=a
Pq2=b; v ${!Pq*} "${!Pq@}"; v "${!X:-d}" ${!X#p}.; v "${!L[@]}" "${!L[*]}"; Q=abc; v "${!Q[@]}"''': (
        "[p] [q] [p][q] [n][n] [Pq1][Pq2][Pq1][Pq2] [p][.] [0][1][0 1] [0]"
    ),
    r"""X=abcdef
v ${X:2} ${X:1:2} ${X: -2} ${X: -3:2} ${X:0:-1} ${X:1:-2} "${X:9}" "${X:6}" "${X:3:0}" ${X:(-2)} \
  ${X:1+1:1+1} "${X: -9}" ${#X}
i=1; v ${X:i:i+1} ${X:$i}; v ${X:2:-9}; v after""": ("[cdef][bc][ef][de][abcde][bcd][][][][ef][cd][][6] [bc][bcdef]"),
    r"""X=a.b.c
v ${X#*.} ${X##*.} ${X%.*} ${X%%.*} ${X#x} ${X#a} ${X%c} ${X#"a."} ${X##*} "${X%%*}" ${X#?} ${X%??} \
  ${X#[a-c].}""": "[b.c][c][a.b][a][a.b.c][.b.c][a.b.][b.c][][.b.c][a.b][b.c]",
    r"""X=a/b/a
v ${X/a/x} ${X//a/x} ${X/#a/x} ${X/%a/x} ${X/#b/x} ${X/%b/x} ${X//\//-} ${X/a} ${X//a} ${X////.} \
  ${X/*b/q} ${X/b*/q} ${X//[ab]/&&} ${X//[ab]/"&"} ${X/z/y} ${X//?/-} ${X/a/\&} ${X//a/$X}""": (
        ""
        "[x/b/a][x/b/x][x/b/a][a/b/x][a/b/a][a/b/a][a-b-a][/b/a][/b/][a.b.a][q/a][a/q][aa/bb/aa][&/&/&][a/b/a][-----][&/b/a][a/b/a/b/a/b/a]"
    ),
    r'''X=aBcD; v ${X^} ${X^^} ${X,} ${X,,} ${X^^[a-c]} ${X,,[D]} ${X^b} ${X^^?} ${X@U} ${X@u} ${X@L} ${X@Q}
Y="it's"; v "${Y@Q}"; Z=$'a\n\t\x01'; v "${Z@Q}"; E=; v "${E@Q}" "${E^^}." "${E#a}." "${E/a/b}."''': (
        "[ABcD][ABCD][aBcD][abcd][ABCD][aBcd][aBcD][ABCD][ABCD][ABcD][abcd]['aBcD'] ['it'\\''s'] "
        "[$'a\\n\\t\\001'] [''][.][.][.]"
    ),
    r"""X=; v ${X:-a} "${X-b}" ${X:+c} "${X+d}" ${X:=e} $X; unset X
v ${X-f} "${X:-g h}" ${X:-g h} ${X+i} "${X:+j}" ${X=k} $X ${X:+l m} "${X:+l m}" ${X:+"l m"} ${X:-"q"} \
  "${X:-'q'}" ${Y:-'q r'} "${Y:-'q r'}" "${Y:-"s t"}" ${Y:-${Z:-deep}} "${Y:-a}b"${Z-c}""": (
        "[a][][d][e][e] [f][g h][g][h][][k][k][l][m][l m][l m][k][k][q r]['q r'][s t][deep][abc]"
    ),
    r'''unset Y
v ${Y:-*.none} ${Y:-a:b} "${Y:-\}}" "${Y:-\a\$\"}" ${Y:-\ x} ${Y:-a\ b} ${Y:-$(echo c d)} "${Y:-$(echo \
  c  d)}" ${Y:-`echo e`} ${Y-$((1+1))} x${Y:-a b}y "x${Y:-a b}y"''': (
        '[*.none][a:b][}][\\a$"][ x][a b][c][d][c d][e][2][xa][by][xa by]'
    ),
    r"""X='a  b'; v $X; v "$X"; v x$X; v $X"y"; v ' '$X' '; Y=' a '; v $Y$Y x${Y}y; Z=; v $Z "" "$Z" ''$Z
E='  '; v $E x$E; IFS=:; X=a:b::c:; v $X; X=:a; v $X; X=' a : b '; v $X; IFS=' :'; v $X; IFS='x '
X='1x2 x 3'; v $X; IFS=; v $X""": (
        "[a][b] [a  b] [xa][b] [a][by] [ a][b ] [a][a][x][a][y] [][][] [x] [a][b][][c] [][a] [ a ][ b ] [a][b] "
        "[1][2][3] [1x2 x 3]"
    ),
    r"""f() { A=o; local A=1 B=$A; v "$A" "$B"; local L=(x "$@"); v "${L[@]}"; local -i N=1+1; local -r R=c; R=d
v $N $R; local C; C=q; v $C; }; f p 'q r'; v ${A-n} ${L-n}; f() { local X; v "${X-unset}"; X+=1; v $X
}; X=o; f; v $X""": "[1][o] [x][p][q r]",
    r'''v ${U1-a}${U2:-b}; A=${U1:-x y}; v "$A"; A="${U1:-x  y}"; v "$A"; A=$A$A; v "$A"; A=~; v ${A:+home}
A=a=b; v $A; A+=c; v $A; A= ; v "[$A]"; A=*; v "$A"; A={1,2}; v $A; A="a"'b'c\ d$'\x65'; v "$A"; A=(1 2)
v "${A[@]}"''': "[ab] [x y] [x  y] [x  yx  y] [home] [a=b] [a=bc] [[]] [*] [{1,2}] [abc de] [1][2]",
    # Arithmetic
    r"""v $((1+2*3-4)) $((7/2)) $((-7/2)) $((7/-2)) $((-7%3)) $((7%-3)) $((2**10)) $((2**3**2)) $((-2**2)) \
  $((1-2-3)) $((100/10/5)) $((2*3%4)) $((7%4*2))""": "[3][3][-3][-3][-1][1][1024][512][4][-4][2][2][6]",
    r"""v $((1<<4)) $((256>>2)) $((-1>>1)) $((1<<64)) $((1<<63)) $((1<<65)) $((5&3)) $((5|3)) $((5^3)) $((~5)) \
  $((!5)) $((!0)) $((- -5)) $((-+5)) $((!!7)) $((~~3))""": (
        "[16][64][-1][1][-9223372036854775808][2][1][7][6][-6][0][1][5][-5][1][3]"
    ),
    r"""v $((1<2)) $((2<1)) $((2<2)) $((1<=1)) $((2<=1)) $((2>1)) $((1>1)) $((1>=1)) $((0>=1)) $((1==1)) \
  $((1==2)) $((1!=1)) $((1!=2)) $((1<2==1)) $((1|2^3&4))""": ("[1][0][0][1][0][1][0][1][0][1][0][0][1][1][3]"),
    r"""v $((1&&2)) $((1&&0)) $((0||0)) $((0||5)) $((5||0)) $((0&&1)) $((1?2:3)) $((0?2:3)) $((0?1:0?2:3)) \
  $((1?0?4:5:6)) $((1,2,3)) $(((1,2)+3)) $((1||0&&0)) $((1+1==2&&3>2))""": (
        "[1][0][0][1][1][0][2][3][3][5][3][5][1][1]"
    ),
    r"""v $((0x1F)) $((0XfF)) $((017)) $((2#1011)) $((16#ff)) $((36#Zz)) $((64#_)) $((64#@)) $((64#Z)) \
  $((37#A)) $((010+1)) $((0)) $((9223372036854775807+1)) $((9223372036854775807)) \
  $((-9223372036854775808-1)) $((3*6148914691236517206))""": (
        ""
        "[31][255][15][11][255][1295][63][62][61][36][9][0][-9223372036854775808][9223372036854775807][9223372036854775807][2]"
    ),
    r"""A=5
v $((A)) $(($A)) $((A++)) $A $((++A)) $A $((A--)) $((--A)) $A $((A+=3)) $((A-=1)) $((A*=2)) $((A/=3)) \
  $((A%=3)) $((A<<=3)) $((A>>=1)) $((A|=3)) $((A&=6)) $((A^=5)) $A $((A=B=7)) $A $B""": (
        "[5][5][5][6][7][7][7][5][5][8][7][14][4][1][8][4][7][6][3][3][7][7][7]"
    ),
    r"""unset A B
v $((A)) $((A++)) $A $((0&&A++)) $A $((1||A++)) $A $((1?A:A++)) $A $((0?A++:9)) $A $((B=A?4:5)) $B \
  $((A == 1 ? B : 0))
X=A+1; v $((X)) $((X*2)) $((-X)); Y='(A+1)*2'; v $((Y)); Z=; v $((Z)) $((Z+1)); W=' 3 '; v $((W+1))
O=010; v $((O))""": "[0][0][1][0][1][1][1][1][1][9][1][4][4][4] [2][4][-2] [4] [0][1] [4] [8]",
    r"""L=(3 4 5); i=1
v $((L[1])) $((L[i]+1)) $((L)) $((L[i+1])) $((L[2]++)) ${L[2]} $((L[0]+=7)) ${L[0]} $((${L[1]}*2)) \
  $((${#L[@]}-1)) $((L[-1]))
declare -A M=([k]=6); v $((M[k]+1)) $((M[k]++)) ${M[k]}""": ("[4][5][3][5][5][6][10][10][8][2][6] [7][6][7]"),
    r"""v $(( 1 +
 2 )) $(( (1) )) $(((3))) $[4+1] $(( "2" + 3 )) $((1+$(echo 2))) $((${X:-4}+1)) "$((1+1))" $((5#10)) \
  a$((1))b
v $(echo $((1+1)))""": "[3][1][3][5][5][3][5][2][5][a1b] [2]",
    r"""v $((0&&1/0)) $((1||1/0)) $((1?2:1/0)) $((0?1/0:3)); v k""": "[0][1][2][3] [k]",
    r"""A=1; v $((+ +1)) $((1+ +1)) $((1- -1)) $((1+++A)) $((A+++1)) $((--1)) $((++1)); v l""": (
        "[1][2][2][3][3][1][1] [l]"
    ),
    r"""(( A = 3, B = A > 2 )); v $A $B $?; (( A > 5 )) || v no; (( A == 3 && B )) && v yes; if (( A < 2 ))
then v never; elif (( B )); then v b; fi; while (( A-- > 0 )); do v $A; done; ((X=1<<3)); v $X
for ((;X>6;X--)); do v x$X; done""": "[3][1][0] [no] [yes] [b] [2] [1] [0] [8] [x8] [x7]",
    # Braces
    r"""v {a,b}{1,2} {a,{b,c}d}e {1..4} {4..1} {1..9..3} {9..1..4} {a..e..2} {e..a} {-1..1} {01..3} {1..003} \
  {1..3..0} {1..5..-2} {a..c}x x{,y} {,} a{b}c {} {a {,b""": (
        ""
        "[a1][a2][b1][b2][ae][bde][cde][1][2][3][4][4][3][2][1][1][4][7][9][5][1][a][c][e][e][d][c][b][a][-1][0][1][01][02][03][001][002][003][1][2][3][1][3][5][ax][bx][cx][x][xy][a{b}c][{}][{a][{,b]"
    ),
    r"""v {a,b c} {a,"b c"} {a\,b,c} '{a,b}' "{a,b}" \{a,b} {a,b\} {1.. 3} {1..a} {a..1} {1...3} {a,b}} {{a,b} \
  {{a,b}} {a,b}{} ${X:-{a,b}} ${X:-q}{a,b} {a$((1+1)),b} {x,$(echo c d)}""": (
        "[{a,b][c}][a][b "
        "c][a,b][c][{a,b}][{a,b}][{a,b}][{a,b}][{1..][3}][{1..a}][{a..1}][{1...3}][a}][b}][{a][{b][{a}][{b}][a{}][b{}][{a,b}][qa][qb][a2][b][x][c][d]"
    ),
    r"""A=1; B=2; Ab=z
v {$A,$B} ${A}{b,c} "$A"{b,c} {A,B}=$A A={1,2} --x={a,b} {a,b}={c,d} {-05..05..5} {z..x}{0..1} \
  {1,2,{3,4}} x{a,b,}y {..} {1..} {A..C} {0..-2} {10..8}""": (
        ""
        "[1][2][1b][1c][1b][1c][A=1][B=1][A=1][A=2][--x=a][--x=b][a=c][a=d][b=c][b=d][-05][000][005][z0][z1][y0][y1][x0][x1][1][2][3][4][xay][xby][xy][{..}][{1..}][A][B][C][0][-1][-2][10][9][8]"
    ),
    r"""v a*b [x]y q? "*" \* '?' ~+x a~ x=~y:~z "~" \~ ~nobody_here/q a:~ --p=~; X=a*b; v $X "$X"
v a'*'b {a,*}.none""": (
        "[a*b][[x]y][q?][*][*][?][~+x][a~][x=~y:~z][~][~][~nobody_here/q][a:~][--p=~] [a*b][a*b] [a*b][a.none][*.none]"
    ),
    # Patterns
    r"""for x in a b - ] 1 A ^ '!' '\' ; do r=; case $x in [a-c]) r+=1 ;; esac; case $x in [!a-c]) r+=2 ;; esac
case $x in [^a]) r+=3 ;; esac; case $x in []-]) r+=4 ;; esac; case $x in [\]b]) r+=5 ;; esac
case $x in [[:alpha:]]) r+=6 ;; esac; case $x in [[:digit:]-]) r+=7 ;; esac; case $x in [a\-c]) r+=8 ;
esac; case $x in ["a-c"]) r+=9 ;; esac; case $x in [1[:upper:]]) r+=u ;; esac
case $x in [![:punct:]]) r+=p ;; esac; case $x in [!]a]) r+=n ;; esac; case $x in [a!^]) r+=x ;; esac
v "$x" $r; done""": (
        "[a][1689px] [b][1356pn] [-][234789n] []][2345] [1][237upn] [A][236upn] [^][23nx] [!][23nx] [\\][23n]"
    ),
    r"""for x in a Z 5 ' ' . $'\t' g F _; do r=; for c in alpha digit alnum upper lower space blank punct xdigit
do eval "case \$x in [[:$c:]]) r+=\" $c\" ;; esac"; done; v "$x" $r; done""": (
        "[a][alpha][alnum][lower][xdigit] [Z][alpha][alnum][upper] [5][digit][alnum][xdigit] [ ][space][blank] "
        "[.][punct] [\t][space][blank] [g][alpha][alnum][lower] [F][alpha][alnum][upper][xdigit] [_][punct]"
    ),
    r"""case '[a' in [a) v 1 ;; esac; case a in [a) v 2 ;; [[:nope:]]) v 3 ;; *) v 4 ;; esac
case '[' in [[]) v 5 ;; esac; case a-c in a[-]c) v 6 ;; esac; case ab in a*b*) v 7 ;; esac
case a in a*) v 8 ;; esac; case abc in *c*b*) v 9 ;; *b*c) v 10 ;; esac; case '*' in \*) v 11 ;; esac
case x in '*') v 12 ;; "?") v 13 ;; ?) v 14 ;; esac; case ab in ?) v 15 ;; ??) v 16 ;; esac
case '' in *) v 17 ;; esac; case '' in ?*) v 18 ;; '') v 19 ;; esac""": (
        "[1] [4] [5] [6] [7] [8] [10] [11] [14] [16] [17] [19]"
    ),
    r"""shopt -s extglob
for x in a ab aab abab b '' c abc; do r=; case $x in ?(a)b) r+=1 ;; esac; case $x in *(ab)) r+=2 ;; esac
case $x in +(a)b) r+=3 ;; esac; case $x in @(a|b)) r+=4 ;; esac; case $x in !(a|b)) r+=5 ;; esac
case $x in a!(b)) r+=6 ;; esac; case $x in @(a|ab)?(c)) r+=7 ;; esac; case $x in +(a|b)) r+=8 ;; esac
case $x in *(a|+(b))c) r+=9 ;; esac; v "$x" $r; done""": (
        "[a][4678] [ab][123578] [aab][3568] [abab][2568] [b][148] [][25] [c][59] [abc][5679]"
    ),
    r"""shopt -s extglob
X=aabbcc
v ${X##+(a)} ${X#+(a)} ${X%%+(c)} ${X%+(c)} ${X/+(b)/-} ${X//@(a|c)/-} ${X%%!(a)} ${X##*(a|b)} \
  ${X##!(b)} ${X/#?(a)/x} ${X/%*(c)/x}
shopt -u extglob; [[ abc == a+(b|c) ]] && v in; X=foo.tar.gz
v ${X%%.*} ${X%.*} ${X#*.} ${X##*.} ${X%.tar*} ${X%%[.t]*}""": (
        "[bbcc][abbcc][aabb][aabbc][aa-cc][--bb--][cc][xabbcc][aabbx] [in] [foo][foo.tar][tar.gz][gz][foo][foo]"
    ),
    r"""[[ v0.10.2 =~ ^v([0-9]+)\.([0-9]+)(\.([0-9]+))?$ ]]; v $? "${BASH_REMATCH[@]}" ${#BASH_REMATCH[@]}
[[ ab =~ b ]]; v "${BASH_REMATCH[0]}"; [[ ab =~ x ]]; v $? ${#BASH_REMATCH[@]}; [[ ab =~ ^a.$ ]]; v $?
[[ a.b =~ a\.b ]]; v $?; [[ axb =~ a\.b ]]; v $?; [[ axb =~ "a.b" ]]; v $?; [[ a =~ (a)|(b) ]]
v "${BASH_REMATCH[@]}" ${#BASH_REMATCH[@]}""": ("[0][v0.10.2][0][10][.2][2][5] [b] [1][0] [0] [0] [1] [1] [a][a][][3]"),
    r"""R='^[a-z]+-([0-9]{2,3})[bB]$'; [[ qwen-32b =~ $R ]]; v $? ${BASH_REMATCH[1]}; [[ qwen-2b =~ $R ]]; v $?
[[ qwen-1234b =~ $R ]]; v $?; [[ 'a b' =~ a[[:space:]]b ]]; v $?; [[ a]b =~ a[]]b ]]; v $?
[[ ab =~ a[^b] ]]; v $?; [[ abcabc =~ (abc){2} ]]; v $? ${BASH_REMATCH[1]}; [[ aXb =~ [[:upper:]] ]]
v ${BASH_REMATCH[0]}; [[ 'x(y' =~ \( ]]; v $?; [[ aab =~ a+ ]]; v ${BASH_REMATCH[0]}; [[ ac =~ ab?c ]]
v $?; [[ '' =~ ^$ ]]; v $?; [[ $'a\n' =~ a$ ]]; v $?; [[ a =~ [[:digit:][:lower:]] ]]; v $?
[[ aa =~ ^(a){3}$ ]]; v $?; [[ ab =~ (a(b)) ]]; v "${BASH_REMATCH[@]}"; [[ ! ab =~ c ]] && v no
[[ ab =~ a|c && -n ${BASH_REMATCH[0]} ]] && v ${BASH_REMATCH[0]}""": (
        "[0][32] [1] [1] [0] [0] [1] [0][abc] [X] [0] [aa] [0] [0] [1] [0] [1] [ab][ab][b] [no] [a]"
    ),
    # Syntax
    r'''v $'a\tb\\\'\"\x41\101\u00e9\U1F600\cA\e\?\a\b\f\n\r\vz' | cat -v
v $'\x4g' $'\18' $'\z' $'a\0b' $'\E' $'\u41' $'\1234' $'a'b; v "\$ \` \\ \" \a \
z" '\a' \a "a\
b" a\
b "c"''': (
        '[a\tb\\\'"AAé😀\x01\x1b?\x07\x08\x0c\n\r\x0bz] [\x04g][\x018][\\z][a][\x1b][A][S4][ab] [$ ` \\ " \\a '
        "z][\\a][a][ab][ab][c]"
    ),
    r"""v a#b '#c' "#d" \#e # comment v f""": "[a#b][#c][#d][#e]",
    r"""v g;v h;# v i""": "[g] [h]",
    r"""{ v j; }; (v k); ( (v l) ); ((1)) && v m; { { v n; } }; if v o; then v p; fi""": (
        "[j] [k] [l] [m] [n] [o] [p]"
    ),
    r"""v {; v }; v [ x; v !; v if then; v a{ b}; v = ==; v a=b c; v -- -; v ]; v 1 2>/dev/null
v in do done | cat""": ("[{] [}] [[][x] [!] [if][then] [a{][b}] [=][==] [a=b][c] [--][-] []] [1] [in][do][done]"),
    r"""v a>/dev/null b; >/dev/null v c; v d 2>&1 e >/dev/null 2>/dev/null f; v 2 >/dev/null; v g 2>/dev/null1
v a1>/dev/null; v x&>/dev/null y; v x >&2 z; v >| /dev/null w; v <<<a q; v {fd}>/dev/null r
v 3<>/dev/null s; v </dev/null t; v a>>/dev/null; v &>>/dev/null b; v 12>/dev/null
v x 0</dev/null <&- u; { v bb; } >/dev/null 2>&1; while read x; do v $x; done <<< c >/dev/null""": (
        "[a][b] [c] [d][e][f] [2] [g] [a1] [x][y] [x][z] [w] [q] [r] [s] [t] [a] [b]  [x][u] [bb] [c]"
    ),
    r"""if true
then v a
fi""": "[a]",
    r"""if true; then
  # comment
  v b # c
fi; for x in 1 \
  2; do v $x
done""": "[b] [1] [2]",
    r"""for x in a
do v $x; done; for x
in b
do v $x; done""": "[a] [b]",
    r"""while v c
do break
done; until v d; do break; done""": "[c] [d]",
    r"""case a in a) v 1; esac; case b in (a) ;; b ) v 2 ;; esac; case c
in
a|c)
v 3
;;
esac; case d in d) ;; esac; case "e f" in e\ f) v 4; v 5;; esac""": "[1] [2] [3] [4] [5]",
    r"""{
f() { v $1; }
g () { v $1; }
function h { v $1; }
function i() { v $1; }
j()
{
v $1
}
k() (v $1); l() if true; then v $1; fi; function m() { v $1; }; n-o() { v $1; }
f 1; g 2; h 3; i 4; j 5; k 6; l 7; m 8; n-o 9
}""": "[1] [2] [3] [4] [5] [6] [7] [8] [9]",
    r"""v a &&
v b ||
v c""": "[a] [b]",
    r"""v d |
cat""": "[d]",
    r"""v e && # comment
v f; ! v g; ! ! v h; time v i; time -p v j 2>/dev/null; coproc v k 2>/dev/null; wait""": (
        "[e] [f] [g] [h] [i] [j] [k]"
    ),
    r"""[[ -n a
&& -n b ]] && v a; [[ a == a ]]; v $?; [[ ( -z '' ) ]] && v b; [[ ! -z a ]] && v c
[[ -n a && ! -z b || x ]] && v d; [[ a = *a* ]] && v e; [[ -z -n ]]; v $?; [[ ! ! a ]] && v g
[[ a && ( b || c ) ]] && v h; [[ x == [a-z] ]] && v i; [[ 'a b' == a\ b ]] && v j; [[ a<b ]] && v l
[[ a =~ a ]]&& v m""": "[a] [0] [b] [c] [d] [e] [1] [g] [h] [i] [j] [l] [m]",
    r"""X=1;Y=2 Z=3;v $X$Y$Z; X= Y=; v "$X$Y"; X=a#b; v $X; X=a;v $X; A[0]=q;v ${A[0]}; A[1 + 1]=r; v "${!A[@]}"
A=( # comment
a 'b c' # d
"e"
$X `echo f` {g,h} *.none [7]=z ); v "${A[@]}" "${!A[@]}"; A+=( ); v ${#A[@]}; A=(); v ${#A[@]}
B=([a]=1); v ${B[0]};""": (
        "[123] [] [a#b] [a] [q] [0][2] [a][b c][e][a][f][g][h][z][0][1][2][3][4][5][6][7] [8] [0] [1]"
    ),
    r"""X=q
v ${X} "${X}" ${X}y $X.y $X. "$X"y $X-1 $# "$#" "a$" $ "$ " $'' "" '' x'' ""y $"l" "${#X}" ${#} | cat""": (
        "[q][q][qy][q.y][q.][qy][q-1][0][0][a$][$][$ ][][][][x][y][l][1][0]"
    ),
    r"""X=p
v `echo a` "`echo b c`" `echo "d e"` "`echo \"f g\"`" `echo \`echo h\`` "`echo 'i  j'`" `echo \$X` \
  `echo '\\'` `` "``" x`echo`y""": "[a][b c][d][e][f g][h][i  j][p][\\][][xy]",
    r"""v $(echo a) "$(echo "b c")" $(echo $(echo d)) "$(echo ")")" $(echo '(' ) $( (echo e) ) $(case x in x) \
  echo f;
esac) $(case x in (x) echo g;; esac) $(echo h # comment )
) "$(
echo i
)" $() x$(echo)y""": "[a][b c][d][)][(][e][f][g][h][i][xy]",
    r'''v "a $(echo "b $(echo "c d") e") f" "${X:-"a b"}" "${X:-$(echo "c")}" "a${U:-"b"c}d" ${U:-"a b"} \
  "${U:-\"q\"}" ${U:-'a}b'} "${U:-{}}" ${U:-\}} "${U:-a\}b}"''': (
        '[a b c d e f][a b][c][abcd][a b]["q"][a}b][{}][}][a}b]'
    ),
    r"""v a;v b	c ; v	d  """: "[a] [b][c] [d]",
    r"""  v e""": "[e]",
    # Loops, nested shells
    r"""L=(a b); [[ -v L[1] ]]; v $?; [[ -v L[2] ]]; v $?; S=([2]=x); [[ -v S ]]; v $?; [ -v 'S[2]' ]; v $?
[ -v 'S[0]' ]; v $?; [ -v 'S[@]' ]; v $?; [[ -v S[-1] ]]; v $?; i=1; [[ -v L[i] ]]; v $?
[[ -v L[i+1] ]]; v $?; set -- a; [[ -v 1 ]]; v $?; [[ -v 2 ]]; v $?""": ("[0] [1] [1] [0] [1] [0] [0] [0] [1] [0] [1]"),
    r"""[[ a]b =~ a[]]b ]]; v $?; [[ a]b =~ a[^]]b ]]; v $?; [[ axb =~ a[^]]b ]]; v $?; [[ axb =~ a[]x]b ]]
v $?; [[ a-b =~ a[x-]b ]]; v $?""": "[0] [1] [0] [0] [0]",
    r"""f() { break; v in; }; for x in 1 2; do f; v $x; done; break; v $?; continue 2; v a""": (
        "[in] [1] [in] [2] [0] [a]"
    ),
    r"""for x in 1 2; do (break; v subshell); v $x; done; for x in 1 2; do { v a; break 5; }; done; v b
for y in 1; do for x in 1; do break 7; done; v never; done; v z""": ("[subshell] [1] [subshell] [2] [a] [b] [z]"),
    r"""for x in 1; do eval 'break 3'; v n; done; v z; for x in 1 2; do bash -c 'break; v in'; v $x; done""": (
        "[z] [in] [1] [in] [2]"
    ),
    r'''L=(1 2); declare -n R=L; unset R; v ${L[@]-gone}; declare -n Q=X; X=1; unset -n Q; v $X; declare -n P=T
T=(1 2); unset 'P[0]'; v "${T[@]}"''': "[gone] [1] [2]",
    r"""bash -ec 'false; v never'; v $?; bash -euc 'v a; false; v b'; bash -c 'set -e; false; v b'; v $?
bash -e -c 'false; v b'; bash +e -c 'false; v n'""": "[1] [a] [1] [n]",
    r"""C=3 D=$C bash -c 'v $C $D; E=4; bash -c "v ${E}x"'; v ${C-n}; C=1; C=2 bash -c 'C=3; v $C'; v $C
C=5 D=6 bash <<< 'v $C$D'""": "[3][3] [4x] [n] [3] [1] [56]",
    r"""v $(dirname /) $(dirname //) $(dirname /a) $(dirname a) $(dirname a/b//c/)""": "[/][/][/][.][a/b]",
    # Errors
    r"""for e in '1+' 08 1/0 1%0 2**-1 5=6 '1 2' 2#12 65#1 1?2 '(1' '1)' 5++ 1#1 '~' '2 @ 3' 'a b' '++5=1'
do (v $(($e))) || v "$e"; done""": (
        "[1+] [08] [1/0] [1%0] [2**-1] [5=6] [1 2] [2#12] [65#1] [1?2] [(1] [1)] [5++] [1#1] [~] [2 @ 3] [a b] [++5=1]"
    ),
    r"""v $((1+)); v skipped
v a $?
X=abc; v ${X:1:-9}; v skipped
v b $?
v ${L!}; v skipped
v c $?""": "[a][1] [b][1] [c][1]",
    r"""declare -r R=1
R=2; v skipped
v $R $?
readonly S=3 T L=(a b)
v $S "${L[1]}"
X=4; readonly X
X=5 v in
v $X $?
X+=1; v skipped
v $X $?
export X=6; v $?
v $X""": "[1][1] [3][b] [in] [4][0] [4][1] [1] [4]",
    r"""set -e
v a; (R=1; readonly R; v $R; R=2; v never)
v never""": "[a] [1]",
    r"""set -u
v ${U-d} ${U:-e} ${U+f} "${U:+g}" $# "$@" ${*}
L=(a); v ${L[0]} "${L[@]:1}" ${#L[@]}
E=; v "$E" ${E:-x}
unset W
v $W
v never""": "[d][e][][0] [a][1] [][x]",
    r"""set -eu; L=(); v "${L[@]}" ${#L[@]} x; unset L; v ${#L}; v never""": "[0][x]",
    r"""set -u; f() { v ${1-none} $#; }; f; f a; g() { v $1; v never; }; (g); v $?; g; v never""": (
        "[none][0] [a][1] [1]"
    ),
    # Together
    r"""printf -v P '%s%s' a '*'; [[ abc == $P ]]; v $?; case abc in $P) v m ;; esac; X=abcabc
v ${X#$P}. "${X//$P/x}" ${X%"$P"}""": "[0] [m] [bcabc.][x][abcabc]",
    r'''unset X; v ${#X} x; v "${X}" ${X}z; E=; v ${#E} "${#E}"; L=(); v ${#L} ${#L[0]} "${L[0]}"''': (
        "[0][x] [][z] [0][0] [0][0][]"
    ),
    r"""export A=1; f() { local A=2; bash -c 'v ${A-n}'; }; f; bash -c 'v $A'; unset A; bash -c 'v ${A-n}'""": (
        "[2] [1] [n]"
    ),
    r"""A=1; f() { v $A ${B-n}; bash -c 'v $A ${B-n}'; A=9; }; A=2 B=3 f; v $A ${B-n}; A=4 A=5 bash -c 'v $A'
A=x A+=y bash -c 'v $A'; export C=c; C+=d bash -c 'v $C'; bash -c 'v $C'; C=z; bash -c 'v $C'""": (
        "[2][3] [2][3] [1][n] [5] [xy] [cd] [c] [z]"
    ),
    r"""f() { g; v $A; }; g() { local A=g; h; v $A; }; h() { A=h; v $A; }; A=0; f; v $A""": "[h] [h] [0] [0]",
    r"""X=a,b; f() { local IFS=,; v $X; g; }; g() { v $X; }; f; v $X; (IFS=,; v $X); v $X; IFS=, g; v $X
IFS=, eval 'v $X'; IFS=,; unset IFS; v $X; Y='p q'; IFS=; v $Y; IFS=$' \t\n'; v $Y""": (
        "[a][b] [a][b] [a,b] [a][b] [a,b] [a][b] [a,b] [a][b] [a,b] [p q] [p][q]"
    ),
    r'''L=(a b); L+=x; v "${L[@]}"; L[1]+=y; v "${L[@]}"; declare -i N=1; N+=2; v $N; declare -A M
M+=([a]=1 [b]=2); M[a b]=c; M[a b]+=d; v "${M[a b]}" ${M[b]} ${#M[@]}; L[7]=z
v ${#L[@]} ${L[7]} ${L[-1]} "${L[6]-n}"; unset 'L[7]'; L+=(q); v "${!L[@]}"''': (
        "[ax][b] [ax][by] [3] [cd][2][3] [3][z][z][n] [0][1][2]"
    ),
    r'''E=(); L=(a 'b c')
v ${E[@]:-d} "${E[@]:-d e}" "${E[*]-f}" ${L[@]:-d} "${L[@]:-d}" "${L[@]:+s}" "${E[@]:+s}" x${E[@]+s}y
set --; v ${@:-d} "${@:-d e}" "$@"x "y$@" ${*:-g} "${@+s}"; set -- ''
v "${@:-d}" "${@-e}" "${@+s}" "$@"''': ("[d][d e][f][a][b][c][a][b c][s][xy] [d][d e][x][y][g] [d][][s][]"),
    r"""L=(a 'b c'); set -- 1 '2 3'; X="${L[@]}"; v "$X"; X=${L[@]}; v "$X"; X=$*; v "$X"; X="$@"; v "$X"; IFS=,
X="$*"; v "$X"; X=$*; v "$X"; X="${L[*]}"; v "$X"; X="$@"; v "$X"; X=${L[*]}; v "$X"; v $* "$*" x"$*"y
[[ "$*" == "1,2 3" ]]; v $?; case "${L[*]}" in a,*) v m ;; esac""": (
        "[a b c] [a b c] [1 2 3] [1 2 3] [1,2 3] [1,2 3] [a,b c] [1 2 3] [a,b c] [1][2 3][1,2 3][x1,2 3y] [0] [m]"
    ),
    r'''L=(a b)
v "p${L[@]}s" p${L[@]}s "p${L[*]}s" "${L[@]}${L[@]}" ${L[@]}${L[@]} "$@${L[@]}" "${L[@]/a/x}y" \
  "-${L[@]#a}-" "${L[@]:1}z" "${L[@]:5}" x"${L[@]:5}"y ""${E[@]} "${E[@]}"'' "${E[@]}${E[@]}"''': (
        "[pa][bs][pa][bs][pa bs][a][ba][b][a][ba][b][a][b][x][by][-][b-][bz][xy][][]"
    ),
    r"""A=~/x:~/y; v $A; export P=~/a; v $P; v --x=~ x:~ ~/b "~/c" ~"/d" \~/e ~/'f g'; B=(~/h ~); v "${B[@]}"
C=x:~; v $C; D="~"; v $D; declare E=~/i; v $E; case ~ in /home/user) v home ;; esac
[[ ~/z == /home/* ]] && v z; v ${X:-~/j} "${X:-~/k}"; for x in ~ ~/l; do v $x; done; Y=~; v $Y$Y""": (
        "[/home/user/x:/home/user/y] [/home/user/a] [--x=~][x:~][/home/user/b][~/c][~/d][~/e][/home/user/f g] "
        "[/home/user/h][/home/user] [x:/home/user] [~] [/home/user/i] [home] [z] [/home/user/j][~/k] "
        "[/home/user] [/home/user/l] [/home/user/home/user]"
    ),
    r""": ${X:=a b}; v $X "$X"; : "${Y:="c d"}" ${Z:=$((1+1))}; v "$Y" $Z; v ${W:=~/q}; v "${V:=p  q}" $V; X=
v ${X:=n} $X; unset X; v ${X=m}${X=k}; L=(); v ${X:+${Y:+"$Z $Y"}} "${X:+$Y}" ${X+"${Y}"z}""": (
        "[a][b][a b] [c d][2] [/home/user/q] [p  q][p][q] [n][n] [mm] [2 c d][c d][c dz]"
    ),
    r"""v ${U:-$(echo a)} ${U:-${T:-$(echo 'b c')}} "${U:-${T:-"d e"}}" "${U:-$((2*3))}" ${U:-{a,b}} ${U:+x}y \
  "${U:+x}"y ${U:-"$@"}z ${U:-'$x'} "${U:-'y'}" ${U:-\$x} "${U:-\$x}" ${U:-a}${T:-b}""": (
        "[a][b][c][d e][6][{a,b}][y][y][z][$x]['y'][$x][$x][ab]"
    ),
    r"""cat <<E | { read -r A; read -r B; read -r C; v "$A" "$B" "$C"; }
\$x \` \\ \q "\"" '$((1+1))' ${U:-d e} ${U:-"f"}
$(echo "a b")`echo c`\
joined
last
E""": '[$x ` \\ \\q "\\"" \'2\' d e f][a bcjoined][last]',
    r"""f() { trap 'v t $?' EXIT; }; f; (exit 3); v $?; trap '' INT; trap 'v i' INT TERM; exit 5""": ("[3] [t][5]"),
    r"""trap 'v one; exit 7' EXIT; bash -c 'trap "v x" EXIT; exit 2'; v $?; (trap 'v sub' EXIT; exit 3); v $?
trap 'v two' EXIT; false""": "[x] [2] [sub] [3] [two]",
    r"""trap 'v e' ERR; false; f() { false; v in; }; f; (false); v a; false | true; true | false; ! true
if ! false; then v b; fi; set -e; false; v never""": "[e] [in] [e] [a] [e] [b] [e]",
    r"""set -e; f() { false; v in; }; f || true; f && v and; if ! f; then v n; fi; v a; { false; v b; } || v c
while false; do :; done; v d; f; v never""": "[in] [in] [and] [in] [a] [b] [d]",
    r"""set -e; ((0)) || true; [[ a == b ]] || v a; for x in 1 2; do [ $x = 2 ] && v x$x; done; v b
false | true; v c; X=1 true; ((0)); v never""": "[a] [x2] [b] [c]",
    r"""set -e; X=$(false) || v a; Y=1 Z=$(true); v b; local_() { local X=$(false); v c; }; local_
export E=$(false); v d; X=$(false); v never""": "[a] [b] [c] [d]",
    r"""set -e; (v a; false; v never) || v b; (set +e; false; v c); set +e; (set -e; false; v never); v $?
set -e; [[ a == b ]]; v never""": "[a] [never] [c] [1]",
    r"""set -e; if true; then false || :; fi; case a in a) false || v a ;; esac; for x in 1; do false; v never
done; v never""": "[a]",
    r"""set -eo pipefail; true | true; v a; false | true || v b; ! false | true; v c; false | v d; v never""": (
        "[a] [b] [c] [d]"
    ),
    r"""while :; do v a; break; done; v $?; i=0; until ((i++ >= 2)); do v $i; done; while ((i-- > 1)); do v $i
continue; done; for i in; do :; done; v $?; while false; do :; done; v $?; for x in 1; do (exit 4); done
v $?; while true; do false; break; done; v $?""": "[a] [0] [1] [2] [2] [1] [0] [0] [4] [0]",
    r"""f() { v $# $*; shift 2; v $# $*; f2 "$@"; v $1; return $#; }; f2() { v $1; set -- x y; v $#; }
f a b c d; v $? $#; f() { f() { v second; }; v first; }; f; f; f() { case $1 in 0) return 4 ;; esac
f $(($1-1)); v $?; }; f 2; v $?""": ("[4][a][b][c][d] [2][c][d] [c] [2] [c] [2][0] [first] [second] [4] [0] [0]"),
    r"""X=$(f() { echo in; }; f; f); v $X; f() { echo "$1 $#"; return 3; }; X=$(f a b); v "$X" $?
v "$(f q)" $(f r s); Y=$(f x) || v $? "$Y"; if Z=$(f z); then v never; else v "$Z"; fi
echo $(exit 3) > /dev/null; v $?; X=`exit 5`; v $?""": ("[in][in] [a 2][3] [q 1][r][2] [3][x 1] [z 1] [0] [5]"),
    r"""v a; { v b; } | cat; { read X; v "$X"; } <<< "$(printf 'l1\nl2')"; X=1; { X=2; }; v $X; (X=3); v $X
X=4 | cat; v $X; if X=5; then v $X; fi; v $X; ! X=6; v $X; time X=7; v $X; X=8 && v $X; eval X=9; v $X
for X in 10; do :; done; v $X; read X <<< 11; v $X""": ("[a] [b] [l1] [2] [2] [2] [5] [5] [6] [7] [8] [9] [10] [11]"),
    r"""declare -A M=([z]=1 [a]=2); M[z]=3; unset 'M[a]'; v ${M[z]} ${#M[@]}; k=z
v ${M[$k]} "${M[${k}]}" ${M["z"]} ${M[q]-none} ${M[z]+set}; for k in "${!M[@]}"; do v "$k=${M[$k]}"
done; [[ -v M[z] && ! -v M[y] ]] && v ok; M=(); v ${#M[@]}; declare -A K=([p]=$X [q]="r s"); v "${K[q]}"
v $((K[n]+1))""": "[3][1] [3][3][3][none][set] [z=3] [ok] [0] [r s] [1]",
    r"""set -- -p 80 --model=m pos -v; while [[ $# -gt 0 ]]; do case "$1" in -p|--port) P="$2"
shift 2 ;; --*=*) N="${1%%=*}" V="${1#*=}"; v "$N" "$V"; shift ;; -*) v flag "$1"; shift ;; *) R+=("$1")
shift ;; esac; done; v $P "${R[@]}" $#""": "[--model][m] [flag][-v] [80][pos][0]",
    r"""S=a:b:c; v ${S%%:*} ${S#*:} ${S//:/ } "${S//:/ }" ${S/:/}; IFS=: read -r A B <<< "$S"; v $A $B
IFS=: read -ra L <<< "$S"; v ${#L[@]} ${L[2]}; L=(${S//:/ }); v ${L[1]}; for x in ${S//:/ }; do v $x
done; H=${S%:*}; T=${S##*:}; v $H $T; V=v0.10.2; V=${V#v}; v ${V%%.*} $((${V%%.*}+1)) ${V//[!0-9]/}""": (
        "[a][b:c][a][b][c][a b c][ab:c] [a][b:c] [3][c] [b] [a] [b] [c] [a:b][c] [0][1][0102]"
    ),
    r"""shopt -s nocasematch; X=AbA; v ${X//a/x} ${X/#a/x} ${X%a} ${X^^[B]} ${X##[a]} ${X/%a/q}
[[ QWEN =~ ^q(w) ]]; v "${BASH_REMATCH[@]}"; case Zz in [y-z]z) v c ;; esac; [[ a == A && a != b ]]
v $?; [ a = A ]; v $?""": "[xbx][xbA][AbA][AbA][AbA][Abq] [QW][W] [c] [0] [1]",
    r"""shopt -s extglob; shopt -u extglob; v $?; shopt -s nullglob extglob; v *.none x; for f in *.none
do v never; done; L=(*.none); v ${#L[@]}; set -f; v *.none; set +f""": "[0] [x] [0] [*.none]",
    r"""f() { v "${FUNCNAME[0]:+x}"; }; unset -f f; f2() { echo "$@"; }; v $(f2 a b) "$(f2 'c  d')"
g() { local -a L=("$@"); L+=(z); v "${L[@]}" ${#L[@]}; local -A M=([k]="$1"); v "${M[k]}"; local x y=2 z
v "${x-}" $y "${z:-e}"; }; g 'p q' r; v ${L-n} ${y-n}""": ("[a][b][c  d] [p q][r][z][3] [p q] [][2][e] [n][n]"),
    r"""for x in a b; do for y in 1 2; do v $x$y; done; done; for x in "a b" 'c'; do v "$x" $x; done
for x in {a,b}{1..2}; do v $x; done; for x in $(echo p q) "r s"; do v "$x"; done
for ((i=0,j=5;i<j;i+=2,j--)); do v $i$j; done; for ((;;)); do break; done; v $i $j""": (
        "[a1] [a2] [b1] [b2] [a b][a][b] [c][c] [a1] [a2] [b1] [b2] [p] [q] [r s] [05] [24] [4][3]"
    ),
    r"""X=5; ((X > 3 && X < 10)) && v in; ((X == 5)) || v never; ((X = X * 2)); v $X; ((X -= 10)) || v zero $X
((Y = X ? 1 : 2)); v $Y; if ((Y & 1)); then v even; else v odd; fi; ((A[2] = 7, A[0]++))
v "${A[@]}" "${!A[@]}"; let X=3 X++ "X <<= 1"; v $X; v $((X--)) $((--X)); : $((X=9)); v $X
v $((X=1)),$((X+=1))""": "[in] [10] [zero][0] [2] [odd] [1][7][0][2] [8] [8][6] [9] [1,2]",
    r"""R='^a\.b\.c$'; [[ a.b.c =~ $R ]]; v $?; [[ a.b.cd =~ $R ]]; v $?; [[ axb.c =~ $R ]]; v $?
[[ 'a b' =~ $(echo '^a b$') ]]; v $?""": "[0] [1] [1] [0]",
    r"""unset X; v "${X:-}" "${X-}" z ${X:-}; [[ abc == "${X:-a*}" ]]; v $?; [[ abc == ${X:-a*} ]]; v $?
case abc in "${X-a*}") v never ;; ${X-a*}) v m ;; esac; Y='a*'; [[ abc == "${X:-$Y}" ]]; v $?""": (
        "[][][z] [1] [0] [m] [1]"
    ),
    r"""read A B <<< 'a\ b\ c\ d e'; v "$A" "$B"; read A B <<< '\\\a \b'; v "$A" "$B"
IFS=: read A B C <<< 'a\:b:c\:\:d:e'; v "$A" "$B" "$C"; read -a L <<< 'a\ b c\\ \d'
v "${L[@]}" ${#L[@]}""": "[a b c d][e] [\\a][b] [a:b][c::d][e] [a b][c\\][d][3]",
    r"""v $((5/-1)) $((-5/-1)) $((-5/1)) $((5%-1)) $((-5%2)) $((0/5)) $((0%-3)) $((6/4)) $((-6/4)) $((-6%4)) \
  $((1/1)) $((0-1/2))
set '' b; v $# "$2"; set x ''; v $#; set -; v $#""": ("[-5][5][-5][0][-1][0][0][1][-1][-2][1][0] [2][b] [2] [2]"),
    r"""[ "(" -n x "(" ]; v $?; [ "(" a = b ")" ]; v $?; [ "(" "(" x ")" ")" ]; v $?; [ a "(" x ")" ]; v $?
[ "(" -z x ")" ]; v $?""": "[2] [1] [0] [2] [1]",
    r"""v x "`echo \"a\" '\`' \\\\ b`" `echo "\$(echo c)" \\\` d`; X=e; v `echo "$X" '$X' \$X`z""": (
        "[x][a ` \\ b][c][`][d] [e][$X][ez]"
    ),
    r"""v $'\101\x41\501'; L=(xa xb); IFS=,; X=${L[@]#x}; Y="${L[@]%a}"; v "$X" "$Y"; X=${L[@]}; v "$X" """: (
        "[AAA] [a,b][x,xb] [xa xb]"
    ),
    r"""L=(a b c d); unset 'L[-1]'; v "${L[@]}"; i=0; unset 'L[i]' 'L[i + 2]' 'L[9]'; v "${L[@]}" "${!L[@]}"
unset 'L[@]'; v ${#L[@]}; declare -A M=([k]=1 [m]=2); unset 'M[k]'; v "${M[@]}" """: "[a][b][c] [b][1] [0] [2]",
    r"""X='a[['; v ${X#*[[} ${X%[[}; case 'a[[' in a[[) v m ;; esac""": "[a] [m]",
    r"""IFS=:; set -- ab cb; X="${@/b/x}"; v "$X"; L=(ab cb); X="${L[@]:0:2}"; Y="${L[@]^}"; v "$X" "$Y"
X="${L[@]}"; Y="${L[@]:-d}"; v "$X" "$Y" """: "[ax:cx] [ab:cb][Ab:Cb] [ab cb][ab cb]",
}


@in_one_test("text", SAID)
def test_arguments_match_recorded_bash(text: str) -> None:
    """Tests, control flow, input, variables, arithmetic, braces, patterns and syntax."""
    assert SAID[text] == said(text)


@pytest.mark.benchmark
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_still_prints_the_recorded_output(tmp_path: Path) -> None:
    """The installed bash agrees with the recorded output."""
    (tmp_path / "empty").mkdir()
    prints = "if [ $# -gt 0 ]; then builtin printf '[%s]' \"$@\"; fi; builtin printf '\\0';"
    (tmp_path / "v").write_text(f"v() {{ {{ {prints} }} >&9; }}\n", "utf-8")
    environment = {
        "BASH_ENV": str(tmp_path / "v"),
        "PATH": os.environ["PATH"],
        "LC_ALL": "C.UTF-8",
        "HOME": "/home/user",
    }
    for text, expected in SAID.items():
        (tmp_path / "script").write_text(text, "utf-8")
        subprocess.run(
            ["bash", "-c", "exec 9> ../said; exec bash ../script"], cwd=tmp_path / "empty", env=environment,
            check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30,
        )  # fmt: skip
        told = (tmp_path / "said").read_bytes().decode().removesuffix("\0").replace("\0", " ")
        assert (text, expected) == (text, told)


def test_an_unknown_word_has_its_reason_and_its_expansions() -> None:
    """It keeps its source text."""
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


def test_a_reference_through_an_unknown_name_is_unknown_for_the_same_reason() -> None:
    """The word has the name's reason."""
    words = read('X=$(date); read Y; v "${!X}" "${!Y}" "${!U}"').invocations[-1].words

    assert [word.why for word in words[1:]] == ["command substitution", "input", "unset variable U"]


@pytest.mark.parametrize(("size", "branches"), [(200, "[y]"), (201, "maybe[y] maybe[n]")])
def test_an_expression_of_more_than_200_characters_is_not_matched(size: int, branches: str) -> None:
    """Matching may take long, so either branch may run."""
    assert told(f"R='b|{'a' * (size - 2)}'; if [[ b =~ $R ]]; then v y; else v n; fi") == branches


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


def test_every_word_has_its_places() -> None:
    """Each character of a known value has its place, also after case changes and escapes."""
    for text in (*WORDS, *SAID, *UNCERTAIN):
        for word in (word for run in read(text).invocations for word in run.words):
            if word.value is None or word.at is None:
                continue
            assert len(word.value) == len(word.at)
            for sign, offset in zip(word.value, word.at, strict=True):
                is_made = text[offset] == "\\" or ".." in text[offset : offset + 5]
                assert is_made or text[offset].lower() == sign.lower(), (text, word)


def test_every_command_has_its_places() -> None:
    """Its words lie inside it, in order and as written."""
    nests = ("eval", "bash", "`", "trap", "<<", "$(", "f()")
    for text in (each for each in (*WORDS, *SAID) if not any(sign in each for sign in nests)):
        for run in read(text).invocations:
            places = [*dict.fromkeys((word.start, word.end) for word in run.words)]
            written = text[run.start : run.end]
            assert [text[start:end] for start, end in places] == [*{w.start: w.raw for w in run.words}.values()]
            assert run.start <= places[0][0] <= places[-1][1] <= run.end
            assert written == written.strip()
            assert all(one[1] <= two[0] for one, two in itertools.pairwise(places))


def test_the_environment_matches_the_exports_of_the_script() -> None:
    """Assignments before a command are added; a variable that is only set is not exported."""
    script = read("export A=1\nB=2\nA=$X\nC=3 v\nexport B\nunset A\nw\n")

    assert [dict(i.environment) for i in script.invocations] == [{"A": None, "C": "3"}, {"B": "2"}]
    assert [(a.name, a.value.value, a.exported) for a in script.assignments] == [
        ("A", "1", True),
        ("B", "2", False),
        ("A", None, True),
        ("B", "2", True),
    ]


def test_a_conditional_export_is_unknown() -> None:
    """Neither exported nor unexported."""
    script = read("B=1; if grep x y; then export A=1 B; fi; v $B\nexport B; v\n")

    assert [dict(i.environment) for i in script.invocations[1:]] == [{"A": None, "B": None}, {"A": None, "B": "1"}]
    assert script.invocations[1].words[1].value == "1"


def test_assignments_before_a_command_see_each_other() -> None:
    """As in bash, a substitution sees earlier ones in its first command only."""
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
def test_both_branches_of_an_undecided_condition_are_read(text: str) -> None:
    """The path with nothing set is distinguished from other possible paths."""
    read_ = [(i.words[0].value, i.is_conditional, i.is_reached) for i in read(text).invocations]

    assert CIRCUMSTANCES[text] == read_


def told(text: str) -> str:
    """Known arguments of each `v`, and whether bash reaches it.

    `maybe` before the arguments: undecided; `else`: not reached if nothing is set from outside;
    `lost`: the script then ends before it.
    """
    marks = {(False, True): "", (True, True): "maybe", (True, False): "else", (False, False): "lost"}
    return " ".join(
        marks[run.is_conditional, run.is_reached]
        + "".join(f"[{'?' if word.value is None else word.value}]" for word in run.words[1:])
        for run in read(text).invocations
        if run.words[0].value == "v"
    )


# `$U` and `$W` are unset; `x` succeeds and is otherwise unknown; `grep`'s output is unknown.
UNCERTAIN: dict[str, str] = {
    r"""if grep q z; then X=1; Y=s; else X=2; Y=s; fi; v $X $Y "$X$Y" ${X:-d} ${#X} ${Y:+t}""": ("[?][s][?][?][?][t]"),
    r"""if grep q z; then X=1; elif grep r z; then X=2; else X=3; fi; v $X; if grep q z; then X=ab; else X=ac
fi; v $X ${X:0:1}""": "[?] [?][?]",
    r"""set -- $U b c; [ "$1" = b ] && v 1; [ "$1" = c ] && v 2; [ "$2" = c ] && v 3""": "maybe[1] else[2] maybe[3]",
    r"""bash -c "eval \"v ab$(x)cd\"; v e" """: "[?] [e]",
    r"""read X; L=(p [X]=a b); v "${L[-1]}"; L[0]=c; v "${L[@]}"; L=(p q); L[X]=a; L[1]=b; v "${L[@]}"
L=(p [X]=a b); unset 'L[0]'; v "${L[@]}"; L=(p q); unset 'L[X]'; v "${L[@]}"
L=([X]=a); unset 'L[-1]'; v "${L[@]}"
L=([X]=a [0]=b); v "${L[@]}"; L=(p $X q); L[0]=z; v "${L[@]}"; L[1]=y; v "${L[@]}"; L+=(e); v "${L[@]}" """: (
        "[?] [?] [?] [?] [?] [?] [?] [z][?][q] [z][?] [z][?][e]"
    ),
    r"""if [ -n "$U" ]; then v a; elif [ "$W" = x ]; then v b; else v c; fi; v d""": ("else[a] else[b] maybe[c] [d]"),
    r"""if [ -z "$U" ]; then v a; else v b; fi; [ "$U" = x ] && v c || v d; [ -n "$U" ] || v e
[[ $U == a* ]] && v f; [[ -z $U ]] && v g; ! [ "$U" ] && v h""": (
        "else[b] maybe[a] else[c] maybe[d] maybe[e] else[f] maybe[g] maybe[h]"
    ),
    r"""case $U in "") v a ;; x) v b ;; *) v c ;; esac; case $(x) in a) X=1; v a ;; b) X=2; v b ;; esac; v $X
v z""": "maybe[a] else[b] else[c] maybe[a] maybe[b] [?] [z]",
    r"""for x in $U; do v $x; done; for x in a $U b; do v $x; done; for x in $(x); do v $x; done; for x in "$U"
do v "$x"; done; for x; do v $x; done; v end""": "else[?] [a] else[?] [b] maybe[?] [?] else[?] [end]",
    r"""while grep q z; do v b; X=1; done; v $X; until curl -s x; do v c; done; while sleep 1; do v d; done; v e""": (
        "maybe[b] [?] maybe[c] maybe[d] [e]"
    ),
    r"""while read -r X Y; do v $X $Y; done; while read X; do v $X; done < file; while read X; do v $X
done < <(x); x | while read X; do v "$X" a; done; read X Y; v $X $Y $?; read -a L
v ${L[0]} ${#L[@]} "${L[@]}"; mapfile -t M < f; v "${M[@]}" ${#M[@]}""": (
        "maybe[?][?] maybe[?] maybe[?] maybe[?][a] [?][?][?] [?][?][?] [?][?]"
    ),
    r"""X=$(x)
v "$X" $X a$X ${X%.*} ${X:-d} "${X-d}" "${X:+s}" ${X+s} ${#X} ${X:1} ${X^^} ${X/a/b} ${X@Q} $((X+1))
X+=b; v $X; Y="a$X"; v $Y ${Y:0:1}""": "[?][?][?][?][?][?][?][s][?][?][?][?][?][?] [?] [?][?]",
    r"""v $((U+1)) $((U)) $((U?2:3)) $((1||U)) $((0&&U)) ${A[U]} ${X:U}; ((U)) && v a; ((U == 0)) && v b
(( $(x) )) && v c; let "Z = $(x)"; v $Z; N=$((U+8000)); v $N; ((N > 1)) || v d; Z=3; let Z+=1; v $Z""": (
        "[?][?][?][1][0][?][?] else[a] maybe[b] maybe[c] [?] [?] else[d] [4]"
    ),
    r"""L=(a $(x) b); v "${L[0]}" "${L[1]}" "${L[2]}" "${#L[@]}"; v "${L[@]}"; v "${L[*]}"; v ${L[@]:1}
v "${L[@]:0:1}"; L+=(c); v "${L[@]}"; L[0]=z; v "${L[0]}"; v "${L[-1]}"; v "${!L[@]}"; M=("$(x)" b)
v ${M[0]} ${M[1]} ${#M[@]}""": "[a][?][?][?] [a][?][b] [?] [?] [?] [a][?][b][c] [z] [?] [?] [?][b][2]",
    r"""L=(a $U b); v "${L[@]}" ${#L[@]} "${L[1]}" "${L[@]:1}"; L[$U]=q; v "${L[@]}"; M=(a "$U" b)
v "${M[@]}" ${#M[@]} ${M[2]}; M=(p q); M[$(x)]=r; v "${M[@]}"; declare -A D; D[k]=2; v ${D[k]} ${#D[@]}
D[$(x)]=3; v ${D[k]}""": "[a][?][b][?][?][?] [q][?][b] [a][?][b][3][b] [?] [2][1] [?]",
    r"""set -- $(x) b; v $1 $2 $# "$@"; shift; v $1 $#; set -- a $U b; v $1 $2 $# "$@"; shift; v $1 $# "$@"
shift 2; v $?; set -- a b; shift $(x); v $1 $#; set -- "$(x)" b; v $1 $2 $#; set $(x); v $#""": (
        "[?][?][?][?][b] [?][?] [a][?][?][a][?][b] [?][?][?][?] [1] [?][?] [?][b][2] [?]"
    ),
    r"""v $1 ${1:-d} ${2-e} "$@" $# "${@:-f}" ${1:+g}; shift; v $?; [ $# -eq 0 ] && v a; [ $# -gt 0 ] || v b
[ "$1" = x ] && v c; while [ $# -gt 0 ]; do v d; shift; done; for x in "$@"; do v $x; done; set -- z
v $1 $#""": "[?][d][e][0][f] [1] maybe[a] maybe[b] else[c] else[d] [z][1]",
    r"""IFS=$(x); X=a,b; v $X "$X" c; read A B <<< "1 2"; v $A; L=(a b); v "${L[*]}" "${L[@]}"; IFS=,; v $X
if grep q z; then IFS=:; fi; v $X "$X"; unset IFS; v $X""": ("[?][a,b][c] [?] [a b][a][b] [a][b] [?][a,b] [a,b]"),
    r""". ./env; v $A ${B:-d} ${C-e} "$D" ${#A}; A=1; v $A; f() { v f; }; f; source env2; v $A; f
[ -n "$Q" ] && v q || v r; . ~/.bashrc; . venv/bin/activate; v s""": (
        "[?][?][?][?][?] [1] [f] [?] [f] maybe[q] maybe[r] [s]"
    ),
    r"""A=1; B=2; source x.sh; v $A $B; A=3; v $A; unset B; v ${B-n}; source "$U/activate"; v $A; source "$U"
v $A; set -u; v $Z; v t""": "[?][?] [3] [n] [3] [?] [?] [t]",
    r"""set -e; grep q z; v a; curl x || v b; [ -n "$U" ]; v c""": "[a] maybe[b] lost[c]",
    r"""set -e; X=$(x); v $X; [ -f y ] && v a; [ "$U" = b ] && v b; v c; false || true; v d; $(false); v e""": (
        "[?] maybe[a] else[b] [c] [d]"
    ),
    r"""f() { if grep q z; then return 1; fi; v a; }; f; v $?; f && v b; f || v c; g() { [ -f x ] || return 2
v d; }; g; v e; h() { return $U; }; h; v $?; h && v f""": ("[a] [0] [a] maybe[b] [a] else[c] [d] [e] [?] maybe[f]"),
    r"""f() { if [ -z "$U" ]; then v a; return 1; fi; v b; }; f; v c $?; f || v d; if f; then v e; fi; v g""": (
        "maybe[a] lost[b] [c][1] maybe[a] lost[b] maybe[d] maybe[a] lost[b] else[e] [g]"
    ),
    r"""if grep q z; then exit 1; fi; v a; [ -f x ] || exit 2; v b; if [ -z "$U" ]; then exit 3; fi; v c""": (
        "[a] [b] lost[c]"
    ),
    r"""if grep q z; then v a; exit; else v b; exit; fi; v c""": "maybe[a] maybe[b]",
    r"""for x in 1 2 3; do if grep $x z; then break; fi; v $x; done; v end; for x in 1 2; do if [ -n "$U" ]
then continue; fi; v $x; done; for x in 1 2; do [ -z "$U" ] && continue; v $x; done; v z""": (
        "[1] maybe[2] maybe[3] [end] [1] [2] [z]"
    ),
    r"""for x in 1 2; do if [ -f x ]; then Y=$x; continue; fi; v $x; done; v $Y; for ((i=0; i<U; i++)); do v $i
done; for ((i=0; i<$(x); i++)); do v $i; done; v $i; for ((i=0; i<2; i++)); do if grep q z; then break
fi; v $i; done; v e""": "[1] maybe[2] [?] else[0] maybe[0] [?] [0] [e]",
    r"""if grep q z; then set -u; set -- a b; f() { v f; }; unset X; export E=1; fi; v $1 $# ${X-n} $E; f; v $U
v a""": "[?][?][n][?] [f] [?] [a]",
    r'''X=1; if grep q z; then unset X; fi; v ${X-n} ${X:-m}; if grep q z; then Y=1; fi; v $Y ${Y-n}; L=(a b c)
if grep q z; then L=(a b); fi; v "${L[@]}" ${#L[@]}; if grep q z; then L+=(z); else L+=(z); fi; M=(a b)
if grep q z; then M[1]=c; fi; v "${M[@]}"''': "[?][?] [?][?] [a][b][?][?] [a][?]",
    r"""declare -A D=([a]=1); if grep q z; then D[b]=2; fi; v ${D[a]} ${#D[@]}; X=s; if grep q z; then X=(l m)
fi; v $X "${X[@]}"; S="--a"; if grep q z; then S="$S --b"; fi; v $S; v "$S"; T=ab; if grep q z
then T=ac; fi; v $T""": "[?][?] [?][?] [--a][?] [?] [?]",
    r"""[ -f x ] && X=1; v $X; [ -f x ] || Y=2; v $Y; grep q z && { Z=1; v a; }; v $Z
[ -d y ] && [ -n "$U" ] && v b; [ -d y ] || [ -z "$U" ] || v c; ! grep q z && v d
[ -f x -a -n "" ] && v e; [ -f x -o -n "y" ] && v f""": ("[?] [?] maybe[a] [?] maybe[b] maybe[c] maybe[d] [f]"),
    r"""[[ -f x && -n "" ]] && v a; [[ -f x || -n y ]] && v b; [[ -f x || -n "" ]] && v c
[[ $(x) == y ]] && v d; [[ a == $(x) ]] && v e; [[ $(x) =~ (a) ]] && v "${BASH_REMATCH[1]}"
[[ a =~ $(x) ]] && v f; [[ $(x) -gt 1 ]] && v g; [[ -n $(x) ]] && v h; [[ -n a$(x) ]] && v i
[[ -z a$(x) ]] && v j; [ -n "a$(x)" ] && v k; [[ x -nt y ]] && v l; [[ ! -e x ]] && v m
[[ $(x) < y ]] && v n""": (
        "[b] maybe[c] maybe[d] maybe[e] maybe[?] maybe[f] maybe[g] maybe[h] [i] [k] maybe[l] maybe[m] maybe[n]"
    ),
    r"""[ $(x) -eq 1 ] && v a; [ "$(x)" = y ] && v b; [ $(x) ] && v c; [ -z "$(x)" ] && v d; [ $U -eq 1 ] && v e
[ "$U" -eq 1 ] && v f; [ $U ] && v g; [ ! $U ] && v h; [ a = $U ] && v i; [ -n $U ] && v j
[ x -ot y ] && v k; [ -e a -a b = c ] && v l; [ b = c -o -e a ] && v m; [ $(x) = $(x) -a a ] && v n""": (
        "maybe[a] maybe[b] maybe[c] maybe[d] else[e] else[f] else[g] maybe[h] else[i] maybe[j] maybe[k] maybe[m] "
        "maybe[n]"
    ),
    r"""${U:-v} a; $U v b; $(x) v c; U=v; $U d; "$U" e; X='v f'; $X g; "$(x)" v; $U; eval "$U h"; eval "$(x)"
eval "v i $(x) j"; eval "X=$(x)"; v $X; bash -c "v k $W"; bash -c "$(x)"; bash -c 'v $1 $0' $(x) l
bash -c "$W"; bash script.sh; v $?""": "[a] [d] [e] [f][g]  [h] [i][?][j] [?] [k][?] [l][?] [0]",
    r'''f() { v "$1" ${2:-d} $#; }; f $(x); f "$U"; f $U; f "$U" a; f $(x) a; f "$(x)" a; g() { local X=$1
X=${X:-e}; v $X; }; g; g $U; g "$U"; g $(x); h() { v "$@"; }; h a $U b; h $(x); h "$(x)"''': (
        "[?][?][?] [?][d][1] [?][d][?] [?][a][2] [?][?][?] [?][a][2] [e] [e] [e] [?] [a][?][b] [?] [?]"
    ),
    r"""printf -v X '%s-%s' a "$(x)"; v $X; printf -v X "$(x)" a; v $X; printf -v X %s "$U"; v "$X"
printf -v X '%d' "$U"; v $X
v $(echo $U a) "$(echo "$U")" $(printf '%s-' "$U") $(basename "$U") $(basename a/$(x)) $(dirname $U) \
  $(cat f) $(cat < f) $(< f) $(seq $U) $(seq $(x)) $(echo a
x) "$(echo a; x >&2)" $(x > /dev/null)""": "[?] [?] [?] [?] [?][?][?][?][?][?][?][?][?][?][?][a]",
    r"""trap 'v a' EXIT; if [ -n "$U" ]; then trap 'v b' EXIT; fi; [ -z "$U" ] && exit 1; v c""": "lost[c] [a]",
    r"""trap 'v e $?' ERR; grep q z; v a; [ -n "$U" ]; v b; false; v c""": "[a] [e][1] [b] [e][1] [c]",
    r"""v $? $!; x; v $?; grep q; v $?; X=$(x); v $?; X=$(grep q); v $?; -x; v $?; x | false; v $?; false | x
v $?; ! x; v $?; (x; exit 3); v $?; x &  v $? $!; v $$ $- $0 $PPID $RANDOM $HOME $_ ${LINENO}""": (
        "[0][?] [0] [?] [0] [?] [127] [1] [0] [1] [3] [0][?] [?][?][?][?][?][?][?][?]"
    ),
    r"""alias a=b; ulimit -n 1; umask 022; cd x; v $PWD; cd y && v a || v b; pushd z; popd; v $OLDPWD
v ~ ~/x ~u/y ~+/z x=~/q; X=~/m; v $X; HOME=/h; v ~ ~/a "$HOME"; unset HOME; v ~ ${HOME-none}""": (
        "[?] maybe[a] else[b] [?] [?][?][~u/y][?][?] [?] [/h][/h/a][/h] [?][none]"
    ),
    r"""export A=$(x); bash -c 'v $A ${A:-d}'; export B=$U; bash -c 'v $B'; if grep q z; then export C=1; fi
bash -c 'v $C'; C=2; bash -c 'v $C'; declare -i N=$(x); v $N; N=U; v $N; declare -u W=$(x)a; v $W
readonly R=$(x); v $R; local_() { local A=$(x) B; v $A $B; }; local_; v $A; declare -l Q=$U; v $Q""": (
        "[?][?] [?] [?] [?] [?] [?] [?] [?] [?] [?] [?]"
    ),
    r"""x > $(y) 2> "$U"; v a > $U; v b < $(x); v c <<< $(x); v d >&$U; { v e; } > $(x); v f <(x) >(y)
cat <(x) | v g; v "$(cat <<E
$U $(x) t
E
)"; cat <<E | while read X; do v "$X"; done
a $U
$(x)
E""": "[a] [b] [c] [d] [e] [f][?][?] [g] [?] maybe[?]",
    r"""v h""": "[h]",
    r"""if grep q z; then false; else true; fi; v $?; if x; then false; fi; v $?; if x; then false; else true
fi && v a; if [ -f y ]; then x; fi; v $?; if grep q z; then x; else y; fi; v $?""": ("[?] [1] else[a] [?] [?]"),
    r"""set -- a $U; [ "$2" = x ] && v a; [ -z "$3" ] && v b; case $2 in q) v c ;; esac; v ${#U} ${#}
[ ${#U} -eq 0 ] && v d; [ ${#2} -gt 0 ] && v e; L=(a $U); [ "${L[1]}" = x ] && v f
[ ${#L[@]} -eq 1 ] && v g; [ -n "${L[5]}" ] && v h; unset W; [ ${#W} -gt 0 ] && v i; v j""": (
        "else[a] maybe[b] else[c] [?][?] maybe[d] else[e] maybe[f] maybe[g] maybe[h] [j]"
    ),
    r"""[ "$U$W" = x ] && v a; X="$U"; [ "$X" ] && v b; X="a$U"; [ "$X" = a ] && v c; Y=${U:-d}
[ "$Y" = d ] && v d; Z=${U:+e}; [ -z "$Z" ] && v e; [ "${U%x}" ] && v f; [ "${U,,}" = on ] && v g
N=${U:-1}; [ $N -gt 1 ] && v h; ((N > 1)) && v i; [ "$(echo $U)" ] && v j""": (
        "else[a] else[b] maybe[c] maybe[d] maybe[e] else[f] else[g] else[h] else[i] maybe[j]"
    ),
    r'''until x; do v a; done; until grep q z; do v b; done; until ! x; do v c; done; while ! x; do v d; done
set -- a b; v "${@:0:2}" "${*:0:1}"; v $0 "${@:0:9}"''': ("else[a] maybe[b] maybe[c] else[d] [?][a][?] [?][?][a][b]"),
    r"""if [ ${#@} -eq 0 ]; then v a; else v b; fi; L=(a b); if [ ${#L[@]} -eq 2 ]; then v c; else v d; fi
set -- a b; if [ ${#@} -eq 2 ]; then v e; else v f; fi""": "else[b] maybe[a] [c] [e]",
    r"""X=1; printf -v X "$(x)"; v $X; declare "${U}N=1"; v $N; eval "set -- $(x) b"; v $2 $#
eval "L=($(x) b)"; v ${L[1]} ${#L[@]}""": "[?] [?] [?][?] [?][?]",
}


@in_one_test("text", UNCERTAIN)
def test_values_outside_the_script_are_unknown(text: str) -> None:
    """So are values derived from them; everything else stays known."""
    assert UNCERTAIN[text] == told(text)


def test_a_value_that_differs_after_a_condition_is_unknown() -> None:
    """Values common to both branches stay known."""
    text = 'A=(--x 1); P=1; S=\'--a\'; if grep q z; then A+=(--y); P=2; S="$S --b"; fi; v "${A[@]}" $P $S'

    assert commands(text)[-1] == ["v", "--x", "1", None, None, "--a", None]


def test_a_sourced_file_may_set_anything() -> None:
    """But files that set up a shell leave a script's variables alone."""
    assert commands("P=1; . ./env.sh; v $P") == [["v", None]]
    assert commands("P=1; source venv/bin/activate; v $P") == [["v", "1"]]


def test_loops_and_background_jobs_are_distinguished() -> None:
    """Each iteration is an invocation; awaited and unattended jobs differ."""
    script = read("for p in 1 2; do v $p & done\nwait\nw &\n")

    assert [(i.round, i.is_background, i.is_waited) for i in script.invocations] == [
        ((("p", "1"),), True, True),
        ((("p", "2"),), True, True),
        ((), True, False),
    ]
    assert kinds("w &\n") == ["background-unwatched"]
    assert [dict(t.says) for t in read("cd x && A=1 w 2>&1 | tee l &\nsleep 9 &\n").troubles] == [{"program": "w"}]
    assert kinds("w &\nPID=$!\n") == []
    assert kinds("trap 'kill 0' EXIT\nw &\nv\n") == []


def test_here_documents_are_passed_on() -> None:
    """With their places, so that a script in one can be read."""
    text = "bash <<EOF\nv --x\nEOF\n"
    (document,) = read(text).invocations[0].documents

    assert [document.text, document.at[0]] == ["v --x\n", 11]


# Issues: the script, what is found (kind, line, column), and the intended script.
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


@in_one_test("name", TROUBLES)
def test_issues_are_found_and_fixed(name: str) -> None:
    """Places are exact, and the edits yield the intended script with its comments."""
    text, places, meant = TROUBLES[name]
    troubles = read(text).troubles
    place = LineIndex(text)

    assert places == [(trouble.kind, *place(trouble.start)) for trouble in troubles]
    fixed = applied(text, [edit for trouble in troubles for edit in trouble.edits])
    assert meant == fixed
    assert [trouble for trouble in read(fixed).troubles if trouble.edits] == []
    assert meant == with_fixes(text)


def complaints(text: str) -> list[str]:
    """Each issue with the line and column of its begin and end, and its details."""
    place = LineIndex(text)
    return [
        " ".join(
            (
                trouble.kind,
                *(":".join(map(str, place(offset))) for offset in (trouble.start, trouble.end)),
                *(f"{name}={detail}" for name, detail in trouble.says.items()),
            )
        )
        for trouble in read(text).troubles
    ]


# What is found, and the intended script.
TOLD: dict[str, tuple[list[str], str]] = {
    "vllm serve m –a 1 –b 2\nvllm serve m —c 3\n": (
        ["typographic-dash 1:14 1:15 signs=U+2013 count=2", "typographic-dash 2:14 2:15 signs=U+2014 count=1"],
        "vllm serve m -a 1 -b 2\nvllm serve m -c 3\n",
    ),
    "v 'a' –x 'b –c'\xa0–y 'd' # –e\n": (
        ["typographic-dash 1:7 1:8 signs=U+2013 count=2", "no-break-space 1:16 1:17 signs=U+00A0 count=1"],
        "v 'a' -x 'b –c' -y 'd' # –e\n",
    ),
    "v\xa0m\xa0--x\nv\u3000m\n": (
        ["no-break-space 1:2 1:3 signs=U+00A0 count=2", "no-break-space 2:2 2:3 signs=U+3000 count=1"],
        "v m --x\nv m\n",
    ),
    "v “a --x ‘c’\n": (["typographic-quotes 1:3 1:4 signs=U+2018 U+2019 U+201C"], "v “a --x ‘c’\n"),
    "v “a b” --x ‘c\n": (["typographic-quotes 1:3 1:4 signs=U+2018 U+201C U+201D"], "v “a b” --x ‘c\n"),
    "v “a“\nv ‘b’\n": (
        ["typographic-quotes 1:3 1:4 signs=U+201C", "typographic-quotes 2:3 2:4 signs=U+2018 U+2019"],
        "v \"a\"\nv 'b'\n",
    ),
    "v \\#x\nw\n": ([], "v \\#x\nw\n"),
    "a && \\\n\n  b\n": ([], "a && \\\n\n  b\n"),
    "a | \\\n# c\nb\n": ([], "a | \\\n# c\nb\n"),
    "if a; then \\\n\n  b\nfi\n": ([], "if a; then \\\n\n  b\nfi\n"),
    "v m \\\n\nw\n": (["dangling-continuation 2:1 3:1"], "v m \\\n\nw\n"),
    "v m \\\n\n  w\n": (["empty-line-after-continuation 2:1 3:1 lost=w runs=w"], "v m \\\n  w\n"),
    "v m \\\n# c \\\nw\n": (["comment-line-after-continuation 2:1 2:6 lost=w runs=w"], "# c\nv m \\\nw\n"),
    "v m \\\n# c\nw\n": (["dangling-continuation 2:1 2:4"], "v m \\\n# c\nw\n"),
    "{\n  v m \\\n\n}\n": (["dangling-continuation 3:1 4:1"], "{\n  v m \\\n\n}\n"),
    "if a; then\n  v m \\\n\nfi\n": (["dangling-continuation 3:1 4:1"], "if a; then\n  v m \\\n\nfi\n"),
    "--a 1\n--b 2\n": ([], "--a 1\n--b 2\n"),
    "v m\n--b 2\n": (["missing-continuation 2:1 2:4 lost=--b 2 runs=--b"], "v m \\\n--b 2\n"),
    "v m; --b 2\n": ([], "v m; --b 2\n"),
    "X=1\n--b 2\n": (["missing-continuation 2:1 2:4 lost=--b 2 runs=--b"], "X=1 \\\n--b 2\n"),
    "v m\n\n# c\n\n--b 2\n": (["missing-continuation 5:1 5:4 lost=--b 2 runs=--b"], "# c\nv m \\\n--b 2\n"),
    "v m\nX=1 --b 2\n": ([], "v m\nX=1 --b 2\n"),
    "v m\n-- b\n": ([], "v m\n-- b\n"),
    "v m\n-p 1\n--q 2\n": (
        ["missing-continuation 2:1 2:3 lost=-p 1 runs=-p", "missing-continuation 3:1 3:4 lost=--q 2 runs=--q"],
        "v m \\\n-p 1 \\\n--q 2\n",
    ),
    "  \\\nv m\n": (["lone-backslash 1:3 1:4"], "v m\n"),
    "v m \\\n  \\\n  \\\n  --a\n": (["lone-backslash 2:3 2:4", "lone-backslash 3:3 3:4"], "v m \\\n  --a\n"),
    "v m \\\n \\ \n  --a\n": (["blank-after-continuation 2:2 2:4 lost=--a runs=--a"], "v m \\\n  --a\n"),
    "export A=1 vllm serve m\n": (["command-as-names 1:1 1:7 declares=export lost=vllm serve m"], "A=1 vllm serve m\n"),
    "export A=1 nohup v\n": (["command-as-names 1:1 1:7 declares=export lost=nohup v"], "A=1 nohup v\n"),
    "export A=1 B\n": ([], "export A=1 B\n"),
    "declare -x A=1 vllm serve m\n": ([], "declare -x A=1 vllm serve m\n"),
    "export A vllm serve m\n": ([], "export A vllm serve m\n"),
    "X =y\n": (["not-an-assignment 1:1 1:5 name=X runs=X meant=X"], "X=y\n"),
    "x = y\n": (["not-an-assignment 1:1 1:6 name=x runs=x meant=x"], "x = y\n"),
    "X = \n": (["not-an-assignment 1:1 1:4 name=X runs=X meant=X"], "X = \n"),
    "Model = y z\n": (["not-an-assignment 1:1 1:12 name=Model runs=Model meant=Model"], "Model = y z\n"),
    "export X =y\n": (["not-an-assignment 1:8 1:12 name=X runs=export meant=X"], "export X=y\n"),
    "X == y\n": ([], "X == y\n"),
    "1X=y v\n": (["not-an-assignment 1:1 1:4 name=1X runs=1X=y meant=X"], "1X=y v\n"),
    "a.b=c\n": (["not-an-assignment 1:1 1:5 name=a.b runs=a.b=c meant=A_B"], "a.b=c\n"),
    "$X=y\n": (["not-an-assignment 1:1 1:4 name=$X runs=$X=y meant=X"], "$X=y\n"),
    "-x=y\n": ([], "-x=y\n"),
    "./a=b\n": ([], "./a=b\n"),
    "A= 1,2 v\n": (["not-an-assignment 1:1 1:7 name=A runs=1,2 meant=A"], "A=1,2 v\n"),
    "A= 0.5\n": (["not-an-assignment 1:1 1:7 name=A runs=0.5 meant=A"], "A=0.5\n"),
    "A= true\n": (["not-an-assignment 1:1 1:8 name=A runs=true meant=A"], "A=true\n"),
    'A= "x y"\n': (['not-an-assignment 1:1 1:9 name=A runs="x y" meant=A'], 'A="x y"\n'),
    "A= x\n": ([], "A= x\n"),
    "A= v m\n": ([], "A= v m\n"),
    "export A= 1\nexport A= -x\nexport A= 'b c'\n": (
        [
            "not-an-assignment 1:8 1:12 name=A runs=export meant=A",
            "not-an-assignment 3:8 3:16 name=A runs=export meant=A",
        ],
        "export A=1\nexport A= -x\nexport A='b c'\n",
    ),
    "export A= 1 B= 2\n": (
        [
            "not-an-assignment 1:8 1:12 name=A runs=export meant=A",
            "not-an-assignment 1:13 1:17 name=B runs=export meant=B",
        ],
        "export A=1 B=2\n",
    ),
    "v \\ --x\n": (["blank-after-continuation 1:3 1:5 adds= --x lost="], "v --x\n"),
    "v a\\ b --x\n": ([], "v a\\ b --x\n"),
    "v \\  --x 1 \\ -y\n": (
        ["blank-after-continuation 1:3 1:6 adds=  lost=", "blank-after-continuation 1:12 1:14 adds= -y lost="],
        "v --x 1 -y\n",
    ),
    'v --x {"a":1,"b":[1,2]}\n': (
        ['unquoted-expansion 1:7 1:24 written={"a":1,"b":[1,2]} delivered=a:1 b:[1 2]'],
        'v --x \'{"a":1,"b":[1,2]}\'\n',
    ),
    "v --x {\"a\": 'b'}\n": (['unquoted-expansion 1:7 1:12 written={"a": delivered={a:'], "v --x {\"a\": 'b'}\n"),
    'v --x={"a":1}\n': (['unquoted-expansion 1:7 1:14 written={"a":1} delivered=--x={a:1}'], "v --x='{\"a\":1}'\n"),
    'v X={"a":1}\n': (['unquoted-expansion 1:5 1:12 written={"a":1} delivered=X={a:1}'], "v X='{\"a\":1}'\n"),
    'v --x ["a","b"]\n': (['unquoted-expansion 1:7 1:16 written=["a","b"] delivered=[a,b]'], 'v --x \'["a","b"]\'\n'),
    'v --x {"a":1\n': (['unquoted-expansion 1:7 1:13 written={"a":1 delivered={a:1'], 'v --x {"a":1\n'),
    "v --x [1,2]\n": ([], "v --x [1,2]\n"),
    "v --x {'a':1}\n": ([], "v --x {'a':1}\n"),
    "v --x {a:1}\n": ([], "v --x {a:1}\n"),
    'v --x {"a":1} --y {"b":2, "c":3}\n': (
        [
            'unquoted-expansion 1:7 1:14 written={"a":1} delivered={a:1}',
            'unquoted-expansion 1:19 1:33 written={"b":2, "c":3} delivered={b:2, c:3}',
        ],
        'v --x \'{"a":1}\' --y \'{"b":2, "c":3}\'\n',
    ),
    'v --x {\\"a\\":1}\n': (
        ['unquoted-expansion 1:7 1:16 written={\\"a\\":1} delivered={"a":1}'],
        'v --x {\\"a\\":1}\n',
    ),
    'v {"a":$X}\n': (['unquoted-expansion 1:3 1:11 written={"a":$X} delivered=?'], 'v {"a":$X}\n'),
    "v --x *.y\n": (
        ["unquoted-expansion 1:7 1:10 written=*.y delivered=the names of files that match, if any do"],
        "v --x '*.y'\n",
    ),
    "v *.y\n": ([], "v *.y\n"),
    "v --x=*.y --z a[bc]\n": (
        ["unquoted-expansion 1:7 1:10 written=*.y delivered=the names of files that match, if any do"],
        "v --x='*.y' --z a[bc]\n",
    ),
    "v -x *.y\n": ([], "v -x *.y\n"),
    'v --x="a"*\n': (
        ['unquoted-expansion 1:7 1:11 written="a"* delivered=the names of files that match, if any do'],
        'v --x="a"*\n',
    ),
    "v --x \"*\" --y '*'\n": ([], "v --x \"*\" --y '*'\n"),
    "v --x=$X*\n": (
        ["unquoted-expansion 1:7 1:10 written=$X* delivered=the names of files that match, if any do"],
        "v --x=$X*\n",
    ),
    "v --x=1 *\n": ([], "v --x=1 *\n"),
    "cd a &\n": ([], "cd a &\n"),
    "/usr/bin/tail -f x &\n": ([], "/usr/bin/tail -f x &\n"),
    "vllm serve m | tee l &\n": (["background-unwatched 1:1 1:13 program=vllm"], "vllm serve m | tee l &\n"),
    "nohup vllm serve m &\nwait\n": ([], "nohup vllm serve m &\nwait\n"),
    "v a &\nv b &\nkill $!\n": ([], "v a &\nv b &\nkill $!\n"),
    "f() { v; }; f &\n": (["background-unwatched 1:7 1:8 program=v"], "f() { v; }; f &\n"),
    "for x in 1 2; do v $x & done\n": (["background-unwatched 1:18 1:22 program=v"], "for x in 1 2; do v $x & done\n"),
    "(v a; v b) &\n": (
        ["background-unwatched 1:2 1:5 program=v", "background-unwatched 1:7 1:10 program=v"],
        "(v a; v b) &\n",
    ),
    "v m &\n --x &\n": (
        ["background-unwatched 1:1 1:4 program=v", "background-unwatched 1:1 1:4 program=v"],
        "v m &\n --x &\n",
    ),
    "$ v m\n> x\n": (["prompt 1:1 1:3 prompt=$"], "v m\n> x\n"),
    "% v m\n": (["prompt 1:1 1:3 prompt=%"], "v m\n"),
    "# v m\n": ([], "# v m\n"),
    ">>> v m\n": (["prompt 1:1 1:5 prompt=>>>", "unexpected-token 1:3 1:4 found=>"], "v m\n"),
    "(base) $ v m\n": (["prompt 1:1 1:10 prompt=(base) $", "unexpected-token 1:8 1:9 found=$"], "v m\n"),
    "u@h:~/x$ v m\n": (["prompt 1:1 1:10 prompt=u@h:~/x$"], "v m\n"),
    "[u@h x]$ v m\n": (["prompt 1:1 1:10 prompt=[u@h x]$"], "v m\n"),
    "$ v 'a\n$ b'\n": (["prompt 1:1 1:3 prompt=$"], "v 'a\n$ b'\n"),
    "> vllm serve m\n> vllm serve n\n": (
        ["prompt 1:1 1:3 prompt=>", "prompt 2:1 2:3 prompt=>"],
        "vllm serve m\nvllm serve n\n",
    ),
    "> export A=1\n> vllm serve m\n": (
        ["prompt 1:1 1:3 prompt=>", "prompt 2:1 2:3 prompt=>"],
        "export A=1\nvllm serve m\n",
    ),
    "> x\n> y\n": ([], "> x\n> y\n"),
    "> vllm serve m \\\n>   --a 1 \\\n>   b\n>\n> ls\n": (
        [
            "prompt 1:1 1:3 prompt=>",
            "prompt 2:1 2:3 prompt=>",
            "prompt 3:1 3:3 prompt=>",
            "unexpected-token 4:2 5:1 found=newline",
        ],
        "vllm serve m \\\n  --a 1 \\\n  b\n>\n> ls\n",
    ),
    "$ v m \\\n> --a\n> --b\n": (["prompt 1:1 1:3 prompt=$", "prompt 2:1 2:3 prompt=>"], "v m \\\n--a\n> --b\n"),
    "$ v m \\\n> a\n": (["prompt 1:1 1:3 prompt=$"], "v m \\\n> a\n"),
    "$X m\n": ([], "$X m\n"),
    "$ X=1 v\n": (["prompt 1:1 1:3 prompt=$"], "X=1 v\n"),
    "$ = a\n": ([], "$ = a\n"),
    "  $ v m\n": (["prompt 1:3 1:5 prompt=$"], "  v m\n"),
    "> docker run x\n> cd y\n> # z\n> pip install q\n": (
        ["prompt 1:1 1:3 prompt=>", "prompt 2:1 2:3 prompt=>", "prompt 3:1 3:3 prompt=>", "prompt 4:1 4:3 prompt=>"],
        "docker run x\ncd y\n# z\npip install q\n",
    ),
    "> python3 -m vllm.x\n": (["prompt 1:1 1:3 prompt=>"], "python3 -m vllm.x\n"),
    "> sudo vllm serve m\n> A=1 nohup vllm bench x\n": (
        ["prompt 1:1 1:3 prompt=>", "prompt 2:1 2:3 prompt=>"],
        "sudo vllm serve m\nA=1 nohup vllm bench x\n",
    ),
    "> vllm\n": ([], "> vllm\n"),
}


@in_one_test("text", TOLD)
def test_an_issue_states_what_bash_does_instead(text: str) -> None:
    """Typographic characters, prompts, cut commands and misread assignments; valid uses stay."""
    assert TOLD[text] == (complaints(text), with_fixes(text))


# Bash names the same tokens as unexpected.
REFUSED: dict[str, list[str]] = {
    "v 'a\n": ["unclosed-quote 1:3 1:4 quote='"],
    'v "a\n': ['unclosed-quote 1:3 1:4 quote="'],
    "v `a\n": ["unclosed-quote 1:3 1:4 quote=`"],
    "v $(a\n": ["unclosed-bracket 1:3 1:5 open=$( wanted=)"],
    "v ${a\n": ["unclosed-bracket 1:3 1:5 open=${ wanted=}"],
    "v ((\n": ["unexpected-token 1:3 1:4 found=("],
    "v )\n": ["unexpected-token 1:3 1:4 found=)"],
    "if a\nfi\n": ["unexpected-token 2:1 2:3 found=fi"],
    "if a; then b; fi; done\n": ["unexpected-token 1:19 1:23 found=done"],
    "case a in\n": ["unclosed-bracket 1:1 1:5 open=case wanted=esac"],
    "case a\n": ["unclosed-bracket 1:1 1:5 open=case wanted=in"],
    "for x in a\n": ["unclosed-bracket 1:1 1:4 open=for wanted=do"],
    "while a; do b\n": ["unclosed-bracket 1:1 1:6 open=while wanted=done"],
    "{ a\n": ["unclosed-bracket 1:1 1:2 open={ wanted=}"],
    "( a\n": ["unclosed-bracket 1:1 1:2 open=( wanted=)"],
    "[[ a\n": ["unclosed-bracket 1:1 1:3 open=[[ wanted=]]"],
    "[[ a b ]]\n": ["unexpected-token 1:6 1:7 found=b"],
    "((1\n": ["unclosed-bracket 1:2 1:3 open=( wanted=)"],
    "A=(1 2\n": ["unclosed-bracket 1:3 1:4 open=( wanted=)"],
    "v <\n": ["unexpected-token 1:4 2:1 found=newline"],
    "v > \n": ["unexpected-token 1:5 2:1 found=newline"],
    "v <<\n": ["unexpected-token 1:5 2:1 found=newline"],
    "a &&\n": ["unclosed-bracket 2:1 2:1 found=end of file"],
    "| a\n": ["unexpected-token 1:1 1:2 found=|"],
    "a;;b\n": ["unexpected-token 1:2 1:4 found=;;"],
    "f() a\n": ["unexpected-token 1:5 1:6 found=a"],
    "function\n": ["unexpected-token 1:9 2:1 found=newline"],
    "for 1\n": ["unclosed-bracket 1:1 1:4 open=for wanted=do"],
    "v ${a[}\n": [],
    "v $((1+2)\n": ["unclosed-bracket 1:3 1:5 open=$( wanted=)"],
    "cat <<E\nx\n": [],
    "a\nb )\nc (\nd\n": ["unexpected-token 2:3 2:4 found=)", "unexpected-token 3:3 3:4 found=("],
    "! | a\n": ["unexpected-token 1:3 1:4 found=|"],
    "v $[1\n": ["unclosed-bracket 1:3 1:4 open=[ wanted=]"],
    "a <(b\n": ["unclosed-bracket 1:3 1:5 open=<( wanted=)"],
    "[[ ( a ]]\n": ["unexpected-token 1:8 1:10 found=]]"],
    "select x in a\n": ["unclosed-bracket 1:1 1:7 open=select wanted=do"],
    "coproc\n": ["unexpected-token 1:7 2:1 found=newline"],
    "x=(a (b))\n": ["unexpected-token 1:6 1:7 found=("],
    "case a in b\n c ;; esac\n": ["unexpected-token 1:12 2:1 found=newline", "unexpected-token 2:4 2:6 found=;;"],
    "[[ -n ]]\n": ["unexpected-token 1:7 1:9 found=]]"],
    "[[ a == ]]\n": ["unclosed-bracket 1:1 1:3 open=[[ wanted=]]"],
    "[[ a =~ ]]\n": ["unclosed-bracket 1:1 1:3 open=[[ wanted=]]"],
    "if ; then a; fi\n": ["unexpected-token 1:4 1:5 found=;"],
    "while do a; done\n": ["unexpected-token 1:7 1:9 found=do"],
    "{ }\n": ["unexpected-token 1:3 1:4 found=}"],
    "()\n": ["unexpected-token 1:2 1:3 found=)"],
    "for ((i=0;i<2)); do a; done\n": ["unexpected-token 1:14 1:15 found=)"],
    "a & & b\n": ["unexpected-token 1:5 1:6 found=&"],
    "a ; ; b\n": ["unexpected-token 1:5 1:6 found=;"],
    "if a; then b; else fi\n": ["unexpected-token 1:20 1:22 found=fi"],
    "f() {\n": ["unclosed-bracket 2:1 2:1 found=end of file"],
    "'\n": ["unclosed-quote 1:1 1:2 quote='"],
    "a | | b\n": ["unexpected-token 1:5 1:6 found=|"],
    "a ||| b\n": ["unexpected-token 1:5 1:6 found=|"],
    "do\n": ["unexpected-token 1:1 1:3 found=do"],
    "esac\n": ["unexpected-token 1:1 1:5 found=esac"],
    "}\n": ["unexpected-token 1:1 1:2 found=}"],
    "]]\n": ["unexpected-token 1:1 1:3 found=]]"],
    "time\n": [],
    "!\n": [],
    "a >& \n": ["unexpected-token 1:6 2:1 found=newline"],
    "case a in b|) c;; esac\n": ["unexpected-token 1:13 1:14 found=)"],
    "case a in |b) c;; esac\n": ["unexpected-token 1:11 1:12 found=|"],
    "case in a) b;; esac\n": ["unexpected-token 1:9 1:10 found=a"],
}


@in_one_test("text", REFUSED)
def test_a_syntax_error_is_reported_with_its_place(text: str) -> None:
    """The unexpected token, or the bracket that is never closed."""
    assert REFUSED[text] == complaints(text)


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
def test_intended_uses_are_not_issues(text: str) -> None:
    """Comments, quoted text, lists and here-documents may contain anything."""
    assert kinds(text) == []


def test_bash_runs_the_lines_before_an_error() -> None:
    """Later lines are read as well, and marked."""
    script = read("a\nb )\nc 'd'\n")

    assert [(i.words[0].value, i.is_reached) for i in script.invocations] == [("a", True), ("c", False)]


SEEDED = 150


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_cost_is_linear(name: str) -> None:
    """Doubling any repeated text little more than doubles the cost."""
    assert growth(read, HOSTILE[name]) <= LIMIT


ENDLESS = (
    pytest.param(
        "for a in {1..999}; do for b in {1..999}; do for c in {1..999}; do :; done; done; done", marks=pytest.mark.slow
    ),
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
def test_an_endless_script_is_abandoned(text: str) -> None:
    """An issue reports it, or bash fails with the same error."""
    script = read(text + "\n")

    assert {"too-much"} >= {trouble.kind for trouble in script.troubles if trouble.kind != "background-unwatched"}


@pytest.mark.slow
def test_a_line_of_a_megabyte_is_read() -> None:
    """Word by word."""
    count = 45_000
    script = read("v " + "--option value-of-it " * count)

    assert len(script.invocations[0].words) == 2 * count + 1


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200) | st.lists(st.sampled_from(shell_scripts.SOUP), max_size=30).map("".join))
def test_any_text_can_be_read(text: str) -> None:
    """Places lie inside the text, and fixing it ends."""
    script = read(text)

    for trouble in script.troubles:
        assert 0 <= trouble.start <= trouble.end <= len(text) + 1
    for invocation in script.invocations:
        assert 0 <= invocation.start <= invocation.end <= len(text)
    fixed = with_fixes(text)
    assert fixed == with_fixes(fixed)


@pytest.mark.slow
def test_any_damaged_script_can_be_read() -> None:
    """With characters removed, inserted and replaced."""
    for script in itertools.islice(shell_scripts.mutated(3), 150):
        fixed = with_fixes(script)

        assert fixed == with_fixes(fixed)


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


@pytest.mark.slow
def test_all_fixable_issues_are_fixed() -> None:
    """Comments stay, and a second round changes nothing."""
    chance = random.Random(7)  # noqa: S311 - repeatable, not secret
    for script in itertools.islice(shell_scripts.launch(7), 100):
        text = damaged(script, chance)
        fixed = with_fixes(text)

        assert ([], text) == ([t for t in read(fixed).troubles if t.edits], text)
        for comment in ("# why", "# note"):
            assert text.count(comment) == fixed.count(comment)
