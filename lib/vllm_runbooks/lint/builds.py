"""Which vLLM a launch runs: a release, the newest, or somebody's own build, whose options are not all known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.reading.arguments.spelling import misspelt
from vllm_runbooks.reading.documents import LaunchFile, engine_programs, images, launch_forms
from vllm_runbooks.reading.documents.starts import WrittenLaunch
from vllm_runbooks.reading.shell.troubles import Spans

_VERSION = r"v?(\d{1,2}(?:\.\d{1,3}){2,3}(?:\.?(?:post|rc|dev)\d{1,4})?)"
_PIN = re.compile(
    rf"(?<![\w./-])vllm(?:\[[\w, -]{{1,60}}\])?[ \t]?(?:==|@)[ \t]?{_VERSION}(?![\w.])"
    rf"|\bvllm-{_VERSION}[+-][\w.+-]{{1,80}}\.whl",
    re.ASCII,
)
_PIN_BY_NAME = re.compile(r"(?<![\w./-])vllm(?:\[[\w, -]{1,60}\])?==v?\$\{?([A-Z_]{1,60})\}?", re.ASCII)
_INSTALLER = re.compile(r"\b(?:pip|pip3|uv|uvx|pipx|conda|poetry|pdm)\b")
_COMMENT = re.compile(r"(?:^|[ \t])(?:#|//)")
_MAX_LINE = 2000
_MAX_NAMES = 5

UNKNOWN_NAMES = (
    "meaning.backend-unknown", "meaning.backend-variable-unknown",
    "meaning.tool-parser-unknown", "meaning.reasoning-parser-unknown",
)  # fmt: skip
"""Rules about values that vLLM looks up when the engine starts."""
_NAMES_OF_RELEASES = ("option.unknown-key", "option.wrong-choice", *UNKNOWN_NAMES)
OF_VALUES = frozenset(("option.wrong-choice", "option.wrong-key-type", "option.wrong-type", "option.refused-value"))
"""Rules about a value, which may be wrong in every release."""
UNCERTAIN = {
    "unknown": frozenset((
        *_NAMES_OF_RELEASES, *OF_VALUES,
        "option.removed", "option.not-there-yet", "option.deprecated",
        "option.unexpected-value", "option.extra-positional", "option.model-ignored", "option.conflict",
        "option.required", "option.ambiguous", "option.without-effect",
        "environment.removed", "environment.not-there-yet", "environment.refused-value", "environment.wrong-value",
        "meaning.backend-unsupported", "meaning.architecture-unknown", "meaning.quantization-absent",
        "meaning.quantization-unsupported",
    )),
    "fork": frozenset((*_NAMES_OF_RELEASES, "option.unknown", "option.foreign", "environment.unknown")),
}  # fmt: skip
"""Rules that are information at most for launches of an unknown release, and for forks, which may add names."""
_OF_OTHERS = frozenset((
    "option.unknown", "option.foreign", "option.ambiguous", "option.abbreviation", "option.extra-positional",
    "option.model-ignored", "option.model-as-option",
))  # fmt: skip
"""Rules about option names, which a launch's builder may define itself."""


class Build(NamedTuple):
    """The vLLM of a launch."""

    release: str | None
    """None if unknown, and for the newest."""
    source: str
    """As in `CommandRelease`: "image", "pin", "newest" or "unknown"."""
    is_fork: bool = False


def build_of(launch: WrittenLaunch, pin: str | None) -> Build:
    """The vLLM of a launch; `pin` is the release that its file installs."""
    name = launch.image.value if launch.image is not None else None
    is_base = "vllm" not in (name or "").lower() and (pin is not None or launch.kind == "dockerfile")
    program = engine_programs.by_id().get(launch.builder)
    is_set_elsewhere = _is_in_cluster(launch) or (launch.builder and (program is None or not program.is_vllm))
    if is_set_elsewhere and launch.image is None and pin is None:
        return Build(None, "unknown")  # by a server, an operator, a chart or another layer of a kustomization
    if launch.image is not None and name is None and pin is None:
        return Build(None, "unknown")  # an expression that is filled in later
    if name is None or is_base:
        return Build(pin, "pin" if pin else "newest")
    return _of_image(name)


def _is_in_cluster(launch: WrittenLaunch) -> bool:
    """Whether a pod runs the launch: in a container, or as Python in a ConfigMap."""
    is_file = launch.kind == "python" and any(part.language == "yaml" for part in launch.within)
    return launch.kind == "kubernetes" or is_file


def _of_image(name: str) -> Build:
    release, is_fork = images.release_of(name), not images.is_own(name)
    if release is not None:
        return Build(release, "image", is_fork)
    return Build(None, "newest" if images.is_newest(name) else "unknown", is_fork)


def of_built(hit: Hit, launch: WrittenLaunch) -> Hit | None:
    """Return the hit if it applies whatever the builder adds; a typo is information unless the builder rejects it."""
    if not launch.builder:
        return hit
    if launch.has_own_options and hit.rule in _OF_OTHERS:
        nearest, written = hit.says.get("nearest", ""), hit.says.get("written") or hit.says.get("option", "")
        program = engine_programs.by_id().get(launch.builder)
        is_misspelt = bool(nearest and misspelt(written.lstrip("-"), [nearest.lstrip("-")]))
        is_ignored, is_rejected = (program.ignores_unknown, program.rejects_unknown) if program else (False, False)
        if hit.rule != "option.unknown" or not (is_misspelt or is_ignored):
            return None
        return replace(hit, edits=(), is_information=not (is_misspelt and is_rejected))
    return None if hit.rule == "option.required" else hit


def uncertain_spans(page: LaunchFile, build_of_launch: Callable[[WrittenLaunch], Build]) -> Mapping[str, Spans]:
    """Text of the launches of unknown releases ("unknown") and of forks ("fork")."""
    spans: dict[str, list[tuple[int, int]]] = {"unknown": [], "fork": []}
    builds = [build_of_launch(launch) for launch in page.starts]
    if builds and all(build.source == "unknown" for build in builds):  # and options around them, as in a table
        spans["unknown"] += [(loose.start, loose.end) for loose in page.loose]
    for launch, build in zip(page.starts, builds, strict=True):
        texts = [(launch.start, launch.end), *((one.start, one.end) for one in launch.environment.values())]
        spans["unknown"] += texts if build.source == "unknown" else []
        spans["fork"] += texts if build.is_fork else []
    if page.loose and not page.starts:  # arguments of a chart, whose image is next to them
        others = [_of_image(word.value) for word in page.images if word.value and "vllm" in word.value]
        texts = [(loose.start, loose.end) for loose in page.loose]
        texts += [(setting.start, setting.end) for setting in page.settings]
        spans["unknown"] += texts if others and all(build.source == "unknown" for build in others) else []
        spans["fork"] += texts if others and all(build.is_fork for build in others) else []
    return {kind: Spans(texts) for kind, texts in spans.items()}


def pinned(page: LaunchFile) -> str | None:
    """The only release that a file installs, or whose schema it names; comments do not count, nor does prose."""
    schema = launch_forms.schema_release(page.text) if page.kind != "page" else None
    releases = {schema} if schema and schema != "latest" else set[str]()
    names: set[str] = set()
    for _, code in _installing(page):
        releases.update(match[1] or match[2] for match in _PIN.finditer(code))
        names.update(match[1] for match in _PIN_BY_NAME.finditer(code))
    for name in sorted(names)[:_MAX_NAMES]:
        value = re.search(rf"\b{name}=[\"']?{_VERSION}", page.text, re.ASCII)
        releases.update([value[1]] if value else [])
    return releases.pop() if len(releases) == 1 else None


def repinned(page: LaunchFile, to: str) -> list[Replacement]:
    """The edits that let a file install another release."""
    return [
        Replacement(begin + match.start(1), begin + match.end(1), to)
        for begin, code in _installing(page)
        for match in _PIN.finditer(code)
        if match[1]
    ]


def _installing(page: LaunchFile) -> Iterator[tuple[int, str]]:
    """Offsets and texts of the lines that may install vLLM, without comments."""
    begin = 0
    for line in page.text.split("\n") if "vllm" in page.text else ():
        if "vllm" in line and len(line) <= _MAX_LINE:
            code = _code(line)
            if page.kind != "page" or _INSTALLER.search(code):
                yield begin, code
        begin += len(line) + 1


def _code(line: str) -> str:
    """A line without its comment."""
    comment = _COMMENT.search(line)
    return line[: comment.start()] if comment else line
