"""Rule selection, report and exit status of `lint`: options, and settings of a project."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from vllm_runbooks.catalog.records import Rule
from vllm_runbooks.core.display import one_line
from vllm_runbooks.core.errors import InputError, suggestion
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.lint.ignore_comments import is_matched, nearest_rule
from vllm_runbooks.lint.records import Issue

PROFILES = ("min", "default", "strict")
SEVERITIES = tuple(severity.value for severity in IssueSeverity)
FILES = (".vllm-runbooks.toml", "pyproject.toml")
_TABLE = "vllm-runbooks"
_LISTS = ("select", "ignore")
_LARGEST = 1 << 20
"""Bytes of a settings file."""


@dataclass(frozen=True)
class Selection:
    """Rules to apply, by id or group."""

    select: tuple[str, ...] = ()
    """Empty: all."""
    ignore: tuple[str, ...] = ()

    def applies(self, rule: str) -> bool:
        """Whether a rule is selected: the longer name wins, for equal ones `ignore`."""
        selected = max((len(name) for name in self.select if is_matched(name, rule)), default=-1 if self.select else 0)
        ignored = max((len(name) for name in self.ignore if is_matched(name, rule)), default=-1)
        return selected > ignored


EVERYTHING = Selection()


@dataclass(frozen=True)
class LintSettings:
    """Settings of a project, or of a command line; None for unset ones."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    fail_on: str | None = None
    profile: str | None = None
    vllm: str | None = None
    gpus: str | None = None
    baseline: str | None = None
    """File with the known issues."""
    file: str | None = None
    """Name of the file with these settings."""

    def over(self, other: LintSettings) -> LintSettings:
        """These settings, with unset ones from the other."""
        return replace(other, **{key: value for key, value in vars(self).items() if value is not None})

    @property
    def selection(self) -> Selection:
        return Selection(self.select or (), self.ignore or ())

    def reported(self, issues: Iterable[Issue], rules: Mapping[str, Rule]) -> tuple[Issue, ...]:
        """Return the issues that the profile reports: errors, all but style, or all.

        A rule that is selected by its id is reported by the default profile, too.
        """
        if self.profile == "min":
            return tuple(issue for issue in issues if issue.severity is IssueSeverity.ERROR)
        if self.profile == "strict":
            return tuple(issues)
        selected = self.select or ()
        return tuple(issue for issue in issues if issue.rule in selected or not rules[issue.rule].is_style)

    def is_failed(self, issues: Iterable[Issue]) -> bool:
        """Return whether an issue is as severe as `fail_on`: by default an error, in the strict profile a warning."""
        least = self.fail_on or ("warning" if self.profile == "strict" else "error")
        return any(SEVERITIES.index(issue.severity.value) <= SEVERITIES.index(least) for issue in issues)


def check_names(names: Iterable[str], rules: Collection[str], where: str) -> tuple[str, ...]:
    """Return names of rules and groups, also several in one by comma.

    Raises:
        InputError: one is neither.
    """
    split = tuple(filter(None, (name.strip() for item in names for name in item.split(","))))
    for name in split:
        if not any(is_matched(name, rule) for rule in rules):
            hint = nearest_rule(name, rules)
            raise InputError(f"{where}: unknown rule or group of rules {one_line(name[:60])!r}; {hint}")
    return split


def find_settings(
    folder: Path,
    rules: Collection[str],
    checks: Mapping[str, Callable[[str], object]],
    is_readable: Callable[[Path], bool] = lambda _: True,
) -> LintSettings:
    """Load the settings for a file in this folder: the nearest upwards, as far as the repository or the home folder.

    `checks` has functions that raise an `InputError` for a value of a setting, by the setting's name. A file that is
    not readable is not opened.

    Raises:
        InputError: a settings file cannot be read, or has a setting that is unknown or not valid.
    """
    try:
        # Not resolved, so that a link does not lead to the settings of another project.
        start = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() follows links
    except OSError:  # the working folder was removed
        return LintSettings()
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - without a home it stays as it is
    for parent in (start, *start.parents):
        for name in FILES:
            table = _table(parent / name) if is_readable(parent / name) else None
            if table is not None:
                settings = _settings(table, parent / name, rules)
                for key, check in checks.items():
                    if value := getattr(settings, key):
                        _check(check, value, f"{parent / name}: {key}")
                return settings
        if parent == home or os.path.lexists(parent / ".git"):
            break
    return LintSettings()


def _check(check: Callable[[str], object], value: str, where: str) -> None:
    try:
        check(value)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _table(path: Path) -> Mapping[str, Any] | None:
    """Our settings in a file; None if it has none."""
    import tomllib

    if not os.path.isfile(path):  # noqa: PTH113 - where a folder cannot be entered there is none, too
        return None
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise InputError(f"{path}: is larger than 1 MiB, not a settings file")
        document = tomllib.loads(content.decode())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); make it readable, or move it") from None
    except (ValueError, RecursionError) as error:
        what = one_line(str(error))[:200] if isinstance(error, tomllib.TOMLDecodeError) else "it is not UTF-8 text"
        raise InputError(f"{path}: invalid TOML: {what}; fix that line") from None
    tool = document.get("tool")
    table = tool.get(_TABLE) if isinstance(tool, dict) else None
    if path.name != FILES[1]:
        # The header of pyproject.toml is not needed here, but harmless.
        return table if document.keys() == {"tool"} and isinstance(table, dict) else document
    if table is not None and not isinstance(table, dict):
        raise InputError(f"{path}: tool.{_TABLE} is not a table; write [tool.{_TABLE}]")
    return table


def _settings(table: Mapping[str, Any], path: Path, rules: Collection[str]) -> LintSettings:
    keys = [field.name.replace("_", "-") for field in fields(LintSettings) if field.name != "file"]
    values: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{path}: {one_line(key[:60])}"
        if key not in keys:
            hint = suggestion(key, keys, f"valid settings: {', '.join(keys)}")
            raise InputError(f"{where}: unknown setting; {hint}")
        if key in _LISTS:
            items = value if isinstance(value, list) else [value]
            if not all(isinstance(item, str) for item in items):
                raise InputError(f'{where}: is not a list of rules; write {key} = ["option", "meaning.context-odd"]')
            values[key] = check_names(items, rules, where)
            continue
        choices = {"fail-on": SEVERITIES, "profile": PROFILES}.get(key, ())
        if not isinstance(value, str) or (choices and value not in choices):
            hint = " or ".join(f'"{choice}"' for choice in choices) or f'a string, such as {key} = "…"'
            raise InputError(f"{where}: {one_line(repr(value)[:60])} is not valid; use {hint}")
        values[key.replace("-", "_")] = value
    if "gpus" in values and os.path.isfile(path.parent / values["gpus"]):  # noqa: PTH113 - a long value is no file
        values["gpus"] = str(path.parent / values["gpus"])
    if "baseline" in values:
        values["baseline"] = str(path.parent / values["baseline"])
    return LintSettings(**values, file=path.name)
