"""Every rule finds its own examples, and nothing else: families of tests made from the catalog's files."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import vllm_runbooks
from rows import run_checks
from vllm_runbooks.catalog import compiled, folders
from vllm_runbooks.catalog.authored import rule_files
from vllm_runbooks.catalog.records import Rule, RuleExample, RuleNearMiss
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.edge10.scripts import checking as script_checking
from vllm_runbooks.lint import checking
from vllm_runbooks.lint.records import Issue, Linted

ROOT = folders.catalog_dir()
SOURCES = Path(vllm_runbooks.__file__).parent
FILES = {path.stem: path for path in compiled.rule_sources(ROOT)}
"""Tests are created from names; only workers read the files, not each process that collects."""
_ID = re.compile(rf'"((?:{"|".join(rule_files.GROUPS)})\.[a-z][a-z0-9]*(?:-[a-z0-9]+)*)"')
_TROUBLE = re.compile(r'\bTrouble\(\s*"([a-z.-]+)"')
_SHELL_TROUBLE = re.compile(r'\b(?:Fault|_Found|_Break|_by_line)\(\s*(?:\w+, )?"([a-z-]+)"')
"""The issues of a shell script, and the kind that precedes others."""


@cache
def read_rule(name: str) -> Rule:
    """The rule of a file, whose name is the rule's."""
    return rule_files.read_rule(FILES[name])


@cache
def lint(text: str, name: str, vllm: str | None, gpus: str | None) -> Linted:
    """Lint a text, and apply its fixes."""
    return checking.lint_text(text, name=name, vllm=vllm, gpus=gpus, fix=True)


@cache
def lint_script(text: str, name: str) -> Linted:
    """The same, of a script for an edge chip's toolchain."""
    return script_checking.lint_scripts({name: text}, fix=True)[name]


def found(rule: Rule, sample: RuleExample | RuleNearMiss) -> Linted:
    if rule.id.startswith("edge10."):
        return lint_script(sample.text, sample.file)
    return lint(sample.text, sample.file, sample.vllm, sample.gpus)


def place(text: str, words: str) -> tuple[int, int]:
    """Line and column of these words, from 1."""
    before = text[: text.index(words)]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def at_its_place(rule: Rule, example: RuleExample) -> Issue:
    """The issue that the example is there for."""
    issues = [issue for issue in found(rule, example).issues if issue.rule == rule.id]
    expected = place(example.text, example.at)

    assert expected in [(issue.line, issue.column) for issue in issues]
    return next(issue for issue in issues if (issue.line, issue.column) == expected)


def a_rule_finds_its_examples(rule: Rule) -> None:
    """The issue is at the words of the example, and has its message without placeholders."""
    holes = {hole for sentence in rule.message for hole in re.findall(r"\{\w+\}", sentence)}
    for example in rule.examples:
        issue = at_its_place(rule, example)
        first = issue.text.split("\n")[0]

        assert example.text.count(example.at) == 1
        assert example.at.startswith(first) or first.startswith(example.at.split("\n")[0])
        assert issue.message
        assert example.says in issue.message
        assert not [hole for hole in holes if hole in issue.message]


def an_example_is_fixed_as_it_says(rule: Rule) -> None:
    """With `fixed` the text becomes this and stays so; without it there is no fix."""
    for example in rule.examples:
        issue = at_its_place(rule, example)
        if example.fixed is None:
            assert issue.fix is None
            continue
        again = found(rule, replace(example, text=example.fixed))

        assert issue.fix is not None
        assert example.fixed == found(rule, example).fixed
        assert not [i.rule for i in again.issues if i.severity is IssueSeverity.ERROR and i.fix]
        assert again.fixed in (None, example.fixed)


def an_example_has_no_error_of_another_rule(rule: Rule) -> None:
    """One mistake has one error."""
    for example in rule.examples:
        errors = {issue.rule for issue in found(rule, example).issues if issue.severity is IssueSeverity.ERROR}

        assert errors <= {rule.id}, example.text


def a_rule_is_silent_on_its_near_misses(rule: Rule) -> None:
    """The text most easily confused with a fault is left alone."""
    for miss in rule.near_misses:
        assert rule.id not in {issue.rule for issue in found(rule, miss).issues}, miss.why


def a_rule_has_examples_enough(rule: Rule) -> None:
    """At least two positive and two negative ones."""
    assert len(rule.examples) >= 2
    assert len(rule.near_misses) >= 2


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("parser.")])
def test_rule_passes_all_checks(name: str) -> None:
    """The functions above that have a rule as their only parameter."""
    run_checks(globals(), "rule", read_rule(name))


def sources(pattern: str) -> str:
    """The modules whose names match, as one text."""
    return "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob(pattern))


def test_every_rule_is_used_in_the_code() -> None:
    """Rules for shell scripts and arguments are named there without their group."""
    code = sources("*.py")
    without_group = {
        "shell.": sources("reading/shell/*.py") + sources("reading/documents/programs.py"),
        "option.": sources("reading/arguments/*.py"),
    }
    named = {name for name in FILES if f'"{name}"' in code}
    named |= {
        name
        for group, texts in without_group.items()
        for name in FILES
        if name.startswith(group) and f'"{name.removeprefix(group)}"' in texts
    }

    assert not {*FILES} - named


def test_every_issue_has_its_rule() -> None:
    """Issues with a rule's name and those of the shell reader."""
    code = sources("*.py")
    kinds = _TROUBLE.findall(code) + _SHELL_TROUBLE.findall(sources("reading/shell/*.py"))
    # Other names with the toolchain's prefix are symptoms or findings.
    elsewhere = {name for name in _ID.findall(code) if name.startswith("edge10.")} - set(
        _ID.findall(sources("*_rules.py"))
    )
    named = (set(_ID.findall(code)) - elsewhere) | {kind if "." in kind else f"shell.{kind}" for kind in kinds}

    assert sorted(named - set(FILES)) == []


def test_only_infos_are_about_style(tmp_path: Path) -> None:
    """Issues hidden by most profiles must not block a launch."""
    path = tmp_path / "option.underscore.yaml"
    text = FILES["option.underscore"].read_text("utf-8")
    path.write_text(text)
    assert rule_files.read_rule(path).is_style
    path.write_text(text.replace("severity: info", "severity: error"))
    with pytest.raises(InputError, match="is_style: is only for severity info; this is error"):
        rule_files.read_rule(path)
