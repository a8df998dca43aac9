"""A log tells the release that wrote it by the source lines it names, and says how sure that is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from vllm_runbooks import session, sites, startup_log
from vllm_runbooks.catalog import data_dir
from vllm_runbooks.records import Document, Evidence, Frame, Release
from vllm_runbooks.sites import Book, Fit, Site, Span, Wordings
from vllm_runbooks.startup_log import log_lines

BOOK = Book(
    """\
# A comment is no file.
releases 1.0.0 1.1.0 1.1.1 2.0.0
v1/core.py
 names start stop begin
 1.0.0 100 50 200 300 = 0 90 100 1 110 30
 1.1.0 130 50 200 310 = 0 120 100 1 110 30
 2.0.0 140 55 210 330 = 2 130 100 1 110 30
v1/engine.py
 names run
 1.0.0 20 400 7 30 = 0 10 500
 1.1.0 31 409 8 31 = 0 20 500
 2.0.0 -
old/engine.py
 1.0.0 900
 1.1.0 -
"""
)


def told(*lines: str, frames: Iterable[tuple[str, int, str]] = ()) -> Fit:
    """The fit of log lines, given by where they stand, and of frames."""
    return sites.fit(filter(None, map(sites.site, lines)), [Frame(*frame) for frame in frames], book=BOOK)


def test_a_release_is_told_by_its_lines() -> None:
    """All of them stand where this release has them, and none other has them all."""
    assert told("core.py:100", "core.py:150", "core.py:350", "engine.py:420", "engine.py:900") == Fit(
        "1.0.0", (), 5, 5, "2.0.0", 0
    )


def test_releases_with_the_same_lines_are_all_named() -> None:
    """A patch that changed none of these files cannot be told from the release before."""
    fit = told("core.py:130", "core.py:180", "core.py:380", "engine.py:31", "engine.py:440")

    assert (fit.release, fit.candidates) == (None, ("1.1.0", "1.1.1"))


def test_a_development_build_has_a_closest_release() -> None:
    """Some of its lines stand where a release has them, too many do not."""
    fit = told("core.py:100", "core.py:150", "core.py:350", "core.py:666", "engine.py:421", "engine.py:428")

    assert (fit.release, fit.candidates, fit.matched, fit.total) == (None, ("1.0.0",), 3, 6)


@pytest.mark.parametrize(
    "lines",
    [(), ("core.py:100",), ("plugin.py:1", "plugin.py:2", "mine.py:3"), ("core.py:1", "core.py:2", "engine.py:3")],
    ids=["nothing", "one line", "another program's", "no release's"],
)
def test_little_evidence_tells_nothing(lines: tuple[str, ...]) -> None:
    """One line may be an accident, and other programs write in this form as well."""
    fit = told(*lines)

    assert (fit.release, fit.candidates) == (None, ())


def test_frames_of_a_traceback_tell_too() -> None:
    """A frame stands for its release where the function has that line; another package's frames say nothing."""
    frames = [
        ("/usr/lib/python3/site-packages/vllm/v1/core.py", 150, "start"),
        ("C:\\site-packages\\vllm\\v1\\core.py", 210, "stop"),
        ("/usr/lib/python3/site-packages/torch/v1/core.py", 1, "start"),
        ("/usr/lib/python3/site-packages/vllm/v1/core.py", 9, "<module>"),
    ]

    fit = told("core.py:100", "core.py:350", frames=frames)

    assert (fit.release, fit.matched, fit.total) == ("1.0.0", 4, 4)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("core.py:12", Site("core.py", 12)),
        ("v1/engine/core.py:12", Site("core.py", 12)),
        ("model_executor/.../utils/fp8.py:7]", Site("fp8.py", 7)),
        ("v1\\engine\\core.py:12", Site("core.py", 12)),
        ("core.py", None),
        ("core.py:1234567", None),
    ],
)
def test_a_source_is_read_in_every_form(source: str, expected: Site | None) -> None:
    """With or without its folders, as vLLM prints them at different log levels."""
    assert sites.site(source) == expected


@pytest.mark.parametrize("text", ["", "releases", "releases 1.0.0\na.py\n 1.0.0 x y = f 1\n", "a.py\n 9 1\n"])
def test_damaged_data_tells_nothing(text: str) -> None:
    """No release is better than a wrong one."""
    assert sites.fit([Site("a.py", 1), Site("a.py", 2)], book=Book(text)).release is None


def test_releases_are_ordered_as_they_came() -> None:
    """By number, with what follows a release behind it."""
    releases = ["0.10.2", "0.9.0.1", "0.8.5.post1", "0.9.0", "0.8.5"]

    assert sorted(releases, key=sites.order) == ["0.8.5", "0.8.5.post1", "0.9.0", "0.9.0.1", "0.10.2"]


def test_wordings_span_the_releases_that_have_them() -> None:
    """A release that was not read neither ends a span nor begins one."""
    wordings = Wordings(("1", "2", "3", "4", "5"), {sites.digest("a"): "11?10", sites.digest("b"): "00001"})

    assert wordings.spans(["a"]) == (Span("1", "4"),)
    assert wordings.spans(["a", "b"]) == (Span("1", "5"),)
    assert wordings.spans(["b"]) == (Span("5", "5"),)
    assert wordings.spans(["c"]) == ()


# ---- the shipped data, on real logs


def without_version(text: str) -> str:
    """The log without the lines that print a version."""
    return "\n".join(line for line in text.splitlines() if "ersion" not in line and "LLM engine (v" not in line)


def release_of(text: str, given: str | None = None) -> Release:
    """The release of the first start in a log."""
    starts = startup_log.read(Evidence((Document("a.log", text),), vllm=given), session.load_catalog())
    return starts[0].release if starts else Release()


CASES = sorted((data_dir() / "catalog" / "cases").glob("*/startup.log"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.parent.name)
def test_a_shipped_case_is_never_told_to_be_of_another_release(path: Path) -> None:
    """Without the lines that print it, the release is found, or one of several, or none."""
    text = path.read_text(encoding="utf-8")
    printed = release_of(text)
    found = release_of(without_version(text))

    if printed.source == "printed" and found.source == "call-sites":
        assert printed.version in (found.version, *found.candidates)


def test_the_log_of_the_first_document_is_of_one_release(seeds: Path) -> None:
    """Its two log lines stand in one release alone."""
    text = (seeds / "single-gpu-oom-and-8x3090-split.md").read_text(encoding="utf-8")

    assert release_of(text) == Release("0.16.0", "call-sites", (), release_of(text).data)


def test_the_logs_of_the_third_document_are_of_one_release(seeds: Path) -> None:
    """With the lines that print the version removed."""
    text = (seeds / "gpt-oss-and-gemma-on-a100.md").read_text(encoding="utf-8")
    starts = startup_log.read(Evidence((Document("a.md", without_version(text)),)), session.load_catalog())

    assert {(start.release.version, start.release.source) for start in starts} == {("0.19.0", "call-sites")}


def test_what_is_printed_counts_more_than_what_the_lines_tell(seeds: Path) -> None:
    """A fork that prints a version of its own keeps it, and the release it is closest to is named."""
    text = (seeds / "gpt-oss-and-gemma-on-a100.md").read_text(encoding="utf-8")
    own = text.replace("version 0.19.0", "version 0.18.2.dev7+g0123abc").replace("(v0.19.0)", "(v0.18.2.dev7)")

    release = release_of(own)

    assert (release.version, release.source) == ("0.18.2.dev7+g0123abc", "printed")
    assert release.candidates == ("0.19.0",)


def test_lines_without_a_source_tell_nothing() -> None:
    """Nor do the lines of another program."""
    release = release_of("INFO 11-20 08:00:00 vLLM is here\nKeyError: 'x'\n")

    assert (release.version, release.source) == (None, "unknown")
    assert next(log_lines.read_lines("a.log", ["INFO 11-20 08:00:00 [core.py:9] x\n"]))[0].source == "core.py:9"


def frames_of(release: str) -> list[Frame]:
    """A frame in the middle of functions of a release's start, as its traceback would name them."""
    modules = sites.read_book(sites.data_folder() / sites.SITES).modules(release)
    return [
        Frame(f"/usr/lib/vllm/{path}", (function.first + function.last) // 2, function.name)
        for path in ("engine/arg_utils.py", "engine/llm_engine.py", "worker/worker.py", "executor/executor_base.py")
        for function in modules[path].functions[:12]
    ]


@pytest.mark.parametrize(
    ("release", "alike"),
    [("0.8.5", ("0.8.5", "0.8.5.post1")), ("0.6.6", ("0.6.6", "0.6.6.post1"))],
)
def test_patch_releases_that_are_alike_are_all_named(release: str, alike: tuple[str, ...]) -> None:
    """Where only kernels or pins were mended, the release stands for its post-releases too."""
    told = sites.fit([], frames_of(release))

    assert told.release == release
    assert told.is_known
    assert set(alike) <= set(told.candidates)


@pytest.mark.parametrize("release", ["0.2.7", "0.4.2", "0.5.3.post1", "0.6.2"])
def test_releases_that_differ_are_told_apart(release: str) -> None:
    """Also where the data of options does not reach."""
    book = sites.read_book(sites.data_folder() / sites.SITES)
    places = [
        Site(path.rpartition("/")[2], line)
        for path, module in book.modules(release).items()
        for line in module.sites[:3]
    ]

    assert sites.fit(places[:60]).release == release
