"""Scripts are analyzed statically: their calls, values and order."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.edge10.scripts.program import ScriptProgram
from vllm_runbooks.edge10.scripts.values import MISSING, ScriptEvent
from vllm_runbooks.reading.documents.python_text import PythonText

PROGRAMS = Path(__file__).parents[1].joinpath("edge10_programs.txt").read_text("utf-8").split("\n\n")[1:]
"""Programs, each with its last output."""


def followed(code: str, imports: Mapping[str, str] = MappingProxyType({}), **options: Any) -> ScriptProgram:
    text = PythonText(Excerpt.whole(f"from own import show\n{code}\n"))
    return ScriptProgram(text, imports, **options)


def shown(program: ScriptProgram) -> list[ScriptEvent]:
    return [event for event in program.events if event.kind == "call" and event.name == "own.show"]


def last_value(code: str) -> str:
    """The last output of a program."""
    program = followed(code)
    events = shown(program)
    if not events:
        return "nothing"
    value = program.python(events[-1].args[0])
    return "unknown" if value is MISSING else repr(value)


@in_one_test("program", [program for program in PROGRAMS if program.strip()])
def test_a_program_has_its_runtime_values_or_none(program: str) -> None:
    """An unknown value is never guessed, and unreachable code has no output."""
    code, _, expected = program.rpartition("\n#= ")

    assert last_value(code) == expected.strip()


ENVIRONMENT = """import os
from os import environ as e
os.environ["A"] = "1"
e["B"] = "2"
os.environ.update({"C": "3"}, D="4")
os.environ.setdefault("E", "5")
os.environ[unknown] = "8"
os.environ.get("H")
"""


def test_variables_are_found_in_every_form() -> None:
    """In the order of the program."""
    program = followed(ENVIRONMENT)
    variables = [(event.name, program.python(event.args[0])) for event in program.events if event.kind == "environ"]

    assert variables == [("A", "1"), ("B", "2"), ("C", "3"), ("D", "4"), ("E", "5")]


PATCHES = """import vllm.config as c
from vllm.config import ParallelConfig as P
P.__post_init__ = None
setattr(c.ModelConfig, "verify", None)
"""


def test_patches_are_found_in_every_form() -> None:
    """By the dotted name of the replaced object, for any import name."""
    patches = [event.name for event in followed(PATCHES).events if event.kind == "assign"]

    assert patches == ["vllm.config.ParallelConfig.__post_init__", "vllm.config.ModelConfig.verify"]


@in_one_test(
    ("code", "is_one"),
    [
        ("if a:\n    show(1)\nelse:\n    show(2)", True),
        ("if a:\n    show(1)\nif b:\n    show(2)", False),
        ("if a:\n    show(1)\nshow(2)", False),
        ("def f():\n    show(1)\ndef g():\n    show(2)", True),
        ("try:\n    show(1)\nexcept ValueError:\n    show(2)", False),
        ("def f():\n    if a:\n        show(1)\n        return\n    show(2)\nf()", True),
        ("def f():\n    if a:\n        show(1)\n        return\nf()\nshow(2)", False),
        ("import sys\nif a:\n    show(1)\n    sys.exit()\nshow(2)", True),
        ("if a:\n    if b:\n        raise c\n    show(1)\nshow(2)", False),
        ("while True:\n    if a:\n        show(1)\n        break\nshow(2)", False),
        ("for a in (1,):\n    if b:\n        show(1)\n        continue\n    show(2)", True),
    ],
)  # fmt: skip
def test_only_one_branch_runs(code: str, is_one: bool) -> None:  # noqa: FBT001 - a column
    """Also for early exits and uncalled functions."""
    first, *_, second = shown(followed(code))

    assert first.excludes(second) == is_one


@pytest.mark.parametrize(
    ("code", "unbound"),
    [
        ("use(1)", {"use"}),
        ("def f():\n    return use\n", {"use"}),
        ("from x import *\nuse(1)", set()),
        ("if a:\n    import use\nuse(1)", set()),
        ("[use for use in [1]]", set()),
        ("try:\n    pass\nexcept E as use:\n    use", set()),
        (
            "match 1:\n    case use:\n        use\n    case {**rest}:\n        rest\n    case [*more]:\n        more",
            set(),
        ),
        ("print(other)", set()),
        ("def f():\n    global use\n    use = 1\nuse", set()),
        ("class A:\n    pass\nlambda use: use", set()),
    ],
)
def test_forgotten_imports_are_found(code: str, unbound: set[str]) -> None:
    """Names of the table that no statement binds, and no others."""
    assert followed(code, imports={"use": "own.use"}).unbound.keys() == unbound


def test_a_forgotten_import_is_treated_as_present() -> None:
    """So settings through this name are still checked."""
    program = followed("edge.set(1)\nother.set(2)", imports={"edge": "own.edge"}, outer=frozenset({"other"}))

    assert [event.name for event in program.events if event.kind == "call"] == ["own.edge.set", ".set"]
    assert list(program.unbound) == ["edge"]


HOSTILE = {
    "rounds": "for a in range(150):\n for b in range(150):\n  for c in range(150):\n   show(a)",
    "calls": "def f(n):\n    f(n + 1)\n    f(n + 2)\nf(0)",
    "text": "s = 'a'\nfor i in range(200):\n    s = s + s",
    "replaced": "s = 'a' * 9999\nfor i in range(200):\n    s = s.replace('a', 'aa')",
    "numbers": "n = 9\nfor i in range(200):\n    n = n * n\nshow(n)",
    "list": "s = [1]\nfor i in range(200):\n    s = s + s\n    s += s",
    "nested": "s = [1]\nfor i in range(200):\n    s = [s] * 50\nshow(len(s))\nshow(s == s)\nshow(str(s))",
    "operators": "x = " + "+".join(["1"] * 2_000),
    "functions": "".join(f"def f{n}():\n    f{n + 1}()\n" for n in range(500)) + "f0()",
    "sides": "".join(f"if x{n}():\n    y{n} = 1\n" for n in range(800)),
    "nested sides": "".join(" " * n + f"if x{n}:\n" for n in range(60)) + " " * 60 + "y = 1",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_expensive_program_is_abandoned(name: str) -> None:
    """For any runtime cost."""
    begun = time.process_time()
    followed(HOSTILE[name])

    assert time.process_time() - begun < 5
