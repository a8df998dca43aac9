"""Programs followed by reading them: what they call, with which values, in which order; nothing is executed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.edge10.scripts.events import Event
from vllm_runbooks.edge10.scripts.program import Program
from vllm_runbooks.edge10.scripts.values import MISSING, arm
from vllm_runbooks.reading.documents.python_text import PythonText

PROGRAMS = Path(__file__).parents[1].joinpath("edge10_programs.txt").read_text("utf-8").split("\n\n")[1:]
"""Programs, each with what it shows last."""


def followed(code: str, **more: Any) -> Program:
    program = Program(PythonText(Excerpt.whole(f"from own import show\n{code}\n")), more.pop("known", {}), **more)
    program.run()
    return program


def shown(program: Program) -> list[Event]:
    return [event for event in program.events if event.kind == "call" and event.name == "own.show"]


def values(code: str) -> list[str]:
    """What a program shows, in words."""
    program = followed(code)
    found = []
    for event in shown(program):
        value = event.args[0]
        if value.kind in ("either", "gpu"):
            sides = [program.python(arm(value, has_gpu=has_gpu)) for has_gpu in (True, False)]
            found.append("with {!r} without {!r}".format(*sides))
        else:
            told = program.python(value)
            found.append("unknown" if told is MISSING else repr(told))
    return found


@in_one_test("program", [each for each in PROGRAMS if each.strip()])
def test_a_program_has_the_values_that_running_it_would_give_it_or_none(program: str) -> None:
    """What cannot be known is unknown, and never a guess; what is never reached shows nothing."""
    code, _, expected = program.rpartition("\n#= ")
    found = values(code)

    assert (found[-1] if found else "nothing") == expected.strip()


ENVIRONMENT = """import os
from os import environ as e
os.environ["A"] = "1"
e["B"] = "2"
os.environ.update({"C": "3"}, D="4")
os.environ.setdefault("E", "5")
os.putenv("F", "6")
os.environ |= {"G": "7"}
os.environ[unknown] = "8"
os.environ.get("H")
os.environ.copy()["I"] = "9"
"""


def test_variables_are_seen_however_they_are_set() -> None:
    """In the order of the program, and only those that are."""
    program = followed(ENVIRONMENT)
    found = [(event.name, program.python(event.args[0])) for event in program.events if event.kind == "environ"]

    assert found == [("A", "1"), ("B", "2"), ("C", "3"), ("D", "4"), ("E", "5"), ("F", "6"), ("G", "7")]


PARSER = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--x', default=1)\n"
GROUP = "import click\n@click.group()\ndef g(): pass\n"
TYPER = "import typer\nt = typer.Typer()\n"
PATCHES = """from unittest import mock
import vllm.config as c
from vllm.config import ParallelConfig as P
P.__post_init__ = None
setattr(c.ModelConfig, "verify", None)
mock.patch.object(P, "check", None)
"""


def test_patches_are_seen_however_they_are_made() -> None:
    """By the dotted name of what is replaced, whatever it was imported as."""
    found = [event.name for event in followed(PATCHES).events if event.kind == "assign"]

    names = ("ParallelConfig.__post_init__", "ModelConfig.verify", "ParallelConfig.check")

    assert found == [f"vllm.config.{name}" for name in names]


@in_one_test(
    ("code", "is_one"),
    [
        ("if a:\n    show(1)\nelse:\n    show(2)", True),
        ("if a:\n    show(1)\nif b:\n    show(2)", False),
        ("if a:\n    show(1)\nshow(2)", False),
        (f"{PARSER}if p.parse_args().x:\n    show(1)\nelse:\n    show(2)", True),
        ("def f():\n    show(1)\ndef g():\n    show(2)", True),
        ("try:\n    show(1)\nexcept ValueError:\n    show(2)", False),
        ("match a:\n    case 1:\n        show(1)\n    case 2:\n        show(2)", True),
        ("match a:\n    case 1:\n        show(1)\nshow(2)", False),
        ("def f():\n    match a:\n        case 1:\n            return show(1)\n    show(2)\nf()", True),
        ("def f():\n    if a:\n        show(1)\n        return\n    show(2)\nf()", True),
        ("def f():\n    if a:\n        show(1)\n        return\nf()\nshow(2)", False),
        (f"{PARSER}def f(x):\n    if not x:\n        return show(1)\n    show(2)\nf(p.parse_args().x)", True),
        ("import sys\nif a:\n    show(1)\n    sys.exit()\nshow(2)", True),
        ("if a:\n    if b:\n        raise c\n    show(1)\nshow(2)", False),
        ("for a in b:\n    show(1)\n    break\nshow(2)", False),
        ("while True:\n    if a:\n        show(1)\n        break\nshow(2)", False),
        ("for a in (1,):\n    if b:\n        show(1)\n        continue\n    show(2)", True),
        (f"{GROUP}@g.command()\ndef f():\n    show(1)\n@g.command()\ndef h():\n    show(2)\ng()", True),
        (f"{TYPER}@t.command()\ndef f():\n    show(1)\n@t.command()\ndef h():\n    show(2)\nt()", True),
    ],
)  # fmt: skip
def test_of_two_sides_only_one_happens(code: str, is_one: bool) -> None:  # noqa: FBT001 - a column
    """Also of those that an option's default does not take, of what is left early, and of what nothing calls."""
    first, *_, second = shown(followed(code))

    assert first.is_beside(second) == is_one


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("use(1)", {"use": False}),
        ("def f():\n    return use\n", {"use": False}),
        ("use(1)\nimport use", {"use": True}),
        ("def f():\n    use()\nimport use\nf()", {}),
        ("from x import *\nuse(1)", {}),
        ("if a:\n    import use\nuse(1)", {"a": False}),
        ("use = 1\nuse", {}),
        ("[use for use in [1]]", {}),
        ("try:\n    pass\nexcept E as use:\n    use", {"E": False}),
        ("match 1:\n    case use:\n        use\n    case {**rest}:\n        rest\n    case [*more]:\n        more", {}),
        ("print(__file__, display(1), get_ipython())", {}),
        ("def f():\n    global use\n    use = 1\nuse", {}),
        ("class A:\n    pass\nlambda use: use", {}),
    ],
)
def test_names_without_a_meaning_are_known(code: str, missing: dict[str, bool]) -> None:
    """Those that nothing binds anywhere, and those that an import further down would have bound; no others."""
    assert {name: one.is_late for name, one in followed(code).missing.items()} == missing


def test_a_name_that_is_forgotten_is_followed_as_what_it_would_be() -> None:
    """So that what is set through it is judged all the same."""
    program = followed("edge.set(1)\nother.set(2)", known={"edge": "own.edge"}, outer=frozenset({"other"}))

    assert [event.name for event in program.events if event.kind == "call"] == ["own.edge.set", ".set"]
    assert list(program.missing) == ["edge"]


HOSTILE = {
    "rounds": "for a in range(150):\n for b in range(150):\n  for c in range(150):\n   show(a)",
    "calls": "def f(n):\n    f(n + 1)\n    f(n + 2)\nf(0)",
    "text": "s = 'a'\nfor i in range(200):\n    s = s + s",
    "list": "s = [1]\nfor i in range(200):\n    s = s + s\n    s += s",
    "operators": "x = " + "+".join(["1"] * 2_000),
    "functions": "".join(f"def f{n}():\n    f{n + 1}()\n" for n in range(500)) + "f0()",
    "sides": "".join(f"if x{n}():\n    y{n} = 1\n" for n in range(800)),
    "commands": "import click\n@click.group()\ndef g(): g()\ng()",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_program_that_was_made_to_keep_its_reader_busy_is_left_in_time(name: str) -> None:
    """Whatever it would take to run it."""
    begun = time.process_time()
    followed(HOSTILE[name])

    assert time.process_time() - begun < 5
