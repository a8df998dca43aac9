"""Randomly damaged scripts, manifests and pages are checked quickly and without effects."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rows import in_one_test
from vllm_runbooks.catalog import folders
from vllm_runbooks.lint import checking, knowledge

SEED = 20261120
MOST_SECONDS = 2.0
CONTROLS = [
    "\x00",
    "\r",
    "\r\n",
    "\t",
    "\x0b",
    "\x1b[31m",
    "\u00a0",
    "\u2028",
    "\ufeff",
    "\u201c",
    "\u2013",
    "\ud83d\ude00",
]
SIGNS = [
    "'", '"', "`", "$(", "$((", "${", "}", ")", "(", "{", "\\", "\\\n", "\\ ", "#", "<<EOF", "&", "|", ";", "&&", "!",
    "$X", "${X:-", "[[", "]]", "=", "--", "-", "*", "?", "[", "~", ">", "2>&1", "do", "done", "if", "fi", "for", "case",
    "&a", "*a", "<<:", "- ", ": ", "|\n", ">\n", "```", "~~~", "|---|", "%", "@", "\\u0000", "]}", '"{',
]  # fmt: skip
Mutation = Callable[[str, random.Random], str]


def texts() -> list[tuple[str, str]]:
    """Everything that the rules show, and the scripts among the cases: file name and text."""
    found = [(example.file, example.text) for rule in knowledge.knowledge().rules.values() for example in rule.examples]
    found += [("launch.sh", path.read_text("utf-8")) for path in sorted(folders.cases_dir().glob("*/*.sh"))]
    return found


def cut(text: str, chance: random.Random) -> str:
    """Only a part of it."""
    start, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
    return text[start:end]


def put(text: str, chance: random.Random) -> str:
    """Insert characters with a meaning in shell, YAML, Markdown or an editor anywhere."""
    for _ in range(chance.randrange(1, 8)):
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice([*SIGNS, *CONTROLS]) + text[at:]
    return text


def drop(text: str, chance: random.Random) -> str:
    """Some characters are missing."""
    for _ in range(chance.randrange(1, 8)):
        at = chance.randrange(len(text) + 1)
        text = text[:at] + text[at + 1 :]
    return text


def repeat(text: str, chance: random.Random) -> str:
    """A piece of it, very often."""
    start = chance.randrange(len(text) + 1)
    piece = text[start : start + chance.randrange(1, 12)] or "'"
    return text[:start] + piece * chance.choice([2, 50, 3000]) + text[start:]


def splice(text: str, chance: random.Random) -> str:
    """The beginning of one, the end of another."""
    other = chance.choice(TEXTS)[1]
    return text[: chance.randrange(len(text) + 1)] + other[chance.randrange(len(other) + 1) :]


def nest(text: str, chance: random.Random) -> str:
    """Within quotes, brackets or substitutions, many of them."""
    begin, end = chance.choice(
        [("'", "'"), ('"', '"'), ("$(", ")"), ("{", "}"), ("`", "`"), ("[", "]"), ("${X:-", "}")]
    )
    depth = chance.choice([1, 3, 60, 2000])
    return begin * depth + text + end * depth


MUTATIONS: list[Mutation] = [cut, put, drop, repeat, splice, nest]
TEXTS = texts()
NAMES = ["", "run.sh", "compose.yaml", "unit.service", "page.md", "start.py", "Dockerfile", "book.ipynb"]


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(40, id="40"),
        pytest.param(700, id="700", marks=pytest.mark.slow),
        pytest.param(10_000, id="10000", marks=pytest.mark.full),
    ],
)
def test_damaged_scripts_are_checked(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No exception, none is slow; some are also fixed."""
    chance = random.Random(SEED + count)  # noqa: S311 - a repeatable choice, no secret
    monkeypatch.chdir(tmp_path)
    told: Counter[str] = Counter()
    slowest = 0.0
    for number in range(count):
        name, text = chance.choice(TEXTS)
        for mutation in chance.choices(MUTATIONS, k=chance.randrange(1, 4)):
            text = mutation(text, chance)[:200_000]
        began = time.process_time()
        found = checking.lint_text(text, name=name or chance.choice(NAMES), vllm="0.19.0", fix=number % 10 == 0)
        slowest = max(slowest, time.process_time() - began)
        told["issues" if found.issues else "nothing"] += 1
    print(f"\n{count} damaged scripts: {dict(told)}, slowest {slowest:.2f} s")

    assert slowest < MOST_SECONDS * 10
    assert list(tmp_path.iterdir()) == []


def _names_in_names(begin: str, between: str, end: str) -> str:
    """Python whose values are short to write and long to work out."""
    made = "a = 'a'\n"
    for name, inner in (("b", "a"), ("c", "b"), ("d", "c")):
        made += f"{name} = {begin}{between.join([inner] * (2000 if begin else 25))}{end}\n"
    return made.replace("'a'", f"'{'a' * 100_000}'")


MADE_TO_BE_SLOW = [
    ("run.sh", "vllm serve m " + "--port 8000 " * 20_000),
    ("run.sh", "vllm serve m --x '" + "a" * 1_000_000),
    ("run.sh", "vllm serve m " + "'\"" * 50_000),
    ("run.sh", "vllm serve m " + "$(" * 50_000),
    ("run.sh", "vllm serve m " + "{a,b}" * 2_000),
    ("run.sh", "for a in 1 2 3 4 5 6 7 8 9; do " * 40 + "vllm serve m;" + " done;" * 40),
    ("run.sh", "f() { f; f; }; f; vllm serve m"),
    ("run.sh", "X=a\n" + "X=$X$X\n" * 60 + "vllm serve $X"),
    ("run.sh", "vllm serve m --limit-mm-per-prompt '" + "[" * 100_000 + "'"),
    ("run.sh", "vllm serve m \\\n" * 5_000),
    ("run.sh", "docker run a " * 5_000),
    ("run.sh", "parallel vllm serve {} ::: " * 4_000),
    ("", "for x in vllm\n" * 20_000),
    ("page.md", "services: vllm\n" * 20_000),
    ("page.md", "docker run a \\\n\nSome text.\n" * 5_000),
    ("unit.service", "[Service]\nExecStart=vllm " + "> " * 50_000),
    ("compose.yaml", "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a, *a, *a]\n" for n in range(60))),
    (
        "compose.yaml",
        "a0: &a0 {command: vllm serve m}\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(40)),
    ),
    ("compose.yaml", "[" * 50_000),
    ("compose.yaml", "services:\n" + "  a:\n" * 30_000),
    ("page.md", "```\n" * 50_000),
    ("page.md", "| --max-model-len | x |\n" * 5_000),
    ("start.py", "LLM(" * 5_000),
    ("start.py", "x = " + "(" * 5_000),
    ("book.ipynb", '{"cells": [' + "[" * 100_000),
    ("unit.service", "ExecStart=vllm serve m \\\n" * 10_000),
    ("page.html", "<html><body>" + "<svg></svg><SCRIPT></Script>" * 20_000),
    ("page.html", "<html><body>" + "<svg>" * 100_000),
    ("page.md", ":vllm serve m --a " * 277),
    ("page.md", ':docker run --gpus all vllm/vllm-openai:v0.19.0 bash -c "vllm serve m --a ' * 2_000),
    ("start.py", _names_in_names("[", ",", "]") + "LLM('m', x=d)"),
    ("start.py", _names_in_names("", "+", "") + "LLM('m', x=d)"),
]


def _judged_quickly(name: str, text: str, seconds: float) -> None:
    """Check a text within this processor time."""
    began = time.process_time()
    checking.lint_text(text, name=name, vllm="0.19.0")

    assert time.process_time() - began < seconds


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), MADE_TO_BE_SLOW)
def test_a_prefix_of_a_slow_text_is_fast(name: str, text: str) -> None:
    """So is the whole, if it is short or rejected by its end, as in Python."""
    _judged_quickly(name, text if name == "start.py" else text[:12_000], 3)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), MADE_TO_BE_SLOW)
def test_texts_that_are_made_to_be_slow_are_not(name: str, text: str) -> None:
    """Long lines, nesting, multiplying aliases: seconds of processor time at most."""
    _judged_quickly(name, text, 10)


@in_one_test("vllm", ["0.8.5", "0.19.0", "0.33.0"])
@in_one_test(
    ("name", "text"),
    [
        (name, before + number + after)
        for name, before, after in [
            ("run.sh", "vllm serve m --max-model-len ", ""),
            ("run.sh", "vllm serve m --max-model-len ", "k"),
            ("run.sh", "vllm serve m --seed ", ""),
            ("run.sh", "vllm serve m --port ", ""),
            ("run.sh", "vllm serve m --gpu-memory-utilization ", ""),
            ("run.sh", 'vllm serve m --limit-mm-per-prompt \'{"image": ', "}'"),
            ("run.sh", "CUDA_VISIBLE_DEVICES=0,1 vllm serve m -pp " + "9" * 4000 + " --tensor-parallel-size ", ""),
            ("run.sh", "docker run --gpus ", " vllm/vllm-openai:v0.19.0 --model m"),
            ("start.py", "LLM('m', seed=", ")"),
            ("start.py", "LLM('m', max_model_len=-", ")"),
            ("start.py", "LLM('m', tensor_parallel_size=", "*3 - 1)"),
            ("start.py", "LLM('m', mm_processor_kwargs={", ": 1})"),
            ("start.py", "os.environ['VLLM_PORT'] = str(", ")\nLLM('m')"),
            ("start.py", "subprocess.run(['vllm', 'serve', 'm', '--seed', ", "])"),
        ]
        for number in ("9" * 400, "9" * 4000, "9" * 5000, "0x" + "f" * 6000)
    ],
)
def test_numbers_of_any_length_are_checked(name: str, text: str, vllm: str) -> None:
    """Including those that Python cannot print or convert to a fraction."""
    checking.lint_text(text, name=name, vllm=vllm, gpus="2xA100-80GB", fix=True)


@pytest.mark.slow
def test_nothing_in_a_script_is_run(tmp_path: Path) -> None:
    """Checking and fixing start no process and write no file."""
    victim = tmp_path / "made"
    text = (
        f"touch {victim}\nX=$(touch {victim})\n`touch {victim}`\neval 'touch {victim}'\nvllm serve $(touch {victim})"
        f" --x ${{Y:-$(touch {victim})}} <(touch {victim})\n"
    )
    audit = (
        "import sys; sys.addaudithook(lambda name, _: name in ('subprocess.Popen', 'os.exec', 'os.posix_spawn',"
        " 'os.fork', 'os.system') and sys.exit('ran something: ' + name))\n"
        "from vllm_runbooks.lint import checking\nchecking.lint_text(sys.stdin.read(), vllm='0.19.0', fix=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", audit], input=text, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert not victim.exists()
