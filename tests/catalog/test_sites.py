"""The source lines in a log identify the release that wrote it, with a certainty."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog import sites
from vllm_runbooks.catalog.folders import data_dir
from vllm_runbooks.catalog.sites import Book, Fit, Module, ModuleFunction, Site, Wordings
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import Frame, Release
from vllm_runbooks.reading import startup_log
from vllm_runbooks.reading.startup_log import log_lines

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
    """The fit of log lines, given by file and line, and of frames."""
    return sites.fit(filter(None, map(sites.site, lines)), [Frame(*frame) for frame in frames], book=BOOK)


def test_a_release_is_identified_by_its_lines() -> None:
    """All of them are in this release, and not all in any other."""
    assert told("core.py:100", "core.py:150", "core.py:350", "engine.py:420", "engine.py:900") == Fit("1.0.0", (), 5, 5)


def test_releases_with_the_same_lines_are_all_named() -> None:
    """A patch without changes in these files equals the previous release."""
    fit = told("core.py:130", "core.py:180", "core.py:380", "engine.py:31", "engine.py:440")

    assert (fit.release, fit.candidates) == (None, ("1.1.0", "1.1.1"))


def test_a_development_build_has_a_closest_release() -> None:
    """Some of its lines match a release, too many do not."""
    fit = told("core.py:100", "core.py:150", "core.py:350", "core.py:666", "engine.py:421", "engine.py:428")

    assert (fit.release, fit.candidates, fit.matched, fit.total) == (None, ("1.0.0",), 3, 6)


def test_a_modified_build_is_of_the_release_that_it_is_based_on() -> None:
    """Most lines are those of one release, and none comes near it."""
    lines = ("core.py:100", "core.py:150", "core.py:350", "engine.py:420", "engine.py:900")

    assert (told(*lines, "core.py:666").release, told(*lines, "core.py:666").closest) == (None, "1.0.0")
    assert told(*lines).closest is None
    assert told(*lines[:3], "core.py:666", "engine.py:421", "engine.py:428").closest is None


@pytest.mark.parametrize(
    "lines",
    [(), ("core.py:100",), ("plugin.py:1", "plugin.py:2", "mine.py:3"), ("core.py:1", "core.py:2", "engine.py:3")],
    ids=["nothing", "one line", "another program's", "no release's"],
)
def test_little_evidence_identifies_nothing(lines: tuple[str, ...]) -> None:
    """A single line may be an accident, and other programs use this format too."""
    fit = told(*lines)

    assert (fit.release, fit.candidates) == (None, ())


def test_frames_of_a_traceback_count() -> None:
    """If the function contains the line in a release; frames of other packages do not count."""
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
def test_damaged_data_identifies_nothing(text: str) -> None:
    """No release is better than a wrong one."""
    assert sites.fit([Site("a.py", 1), Site("a.py", 2)], book=Book(text)).release is None


def test_releases_are_sorted() -> None:
    """By number, with post-releases after their release."""
    releases = ["0.10.2", "0.9.0.1", "0.8.5.post1", "0.9.0", "0.8.5"]

    assert sorted(releases, key=sites.order) == ["0.8.5", "0.8.5.post1", "0.9.0", "0.9.0.1", "0.10.2"]


# ---- the shipped data, on real logs


def without_version(text: str) -> str:
    """The log without the lines that print a version."""
    return "\n".join(line for line in text.splitlines() if "ersion" not in line and "LLM engine (v" not in line)


def release_of(text: str, given: str | None = None) -> Release:
    """The release of the first launch in a log."""
    starts = startup_log.read(Evidence((Document("a.log", text),), vllm=given), catalog.load_catalog())
    return starts[0].release if starts else Release()


CASES = sorted((data_dir() / "catalog" / "cases").glob("*/startup.log"))


@pytest.mark.slow
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.parent.name)
def test_a_shipped_case_is_never_assigned_another_release(path: Path) -> None:
    """Without the lines that print it: the release, one of several, or none."""
    text = path.read_text(encoding="utf-8")
    printed = release_of(text)
    found = release_of(without_version(text))

    if printed.source == "printed" and found.source == "call-sites":
        assert printed.version in (found.version, *found.candidates)


def test_the_log_of_the_first_document_has_one_release(seeds: Path) -> None:
    """Its two log lines match a single release."""
    text = (seeds / "single-gpu-oom-and-8x3090-split.md").read_text(encoding="utf-8")

    assert release_of(text) == Release("0.16.0", "call-sites", (), release_of(text).data)


def test_the_logs_of_the_third_document_are_of_one_release(seeds: Path) -> None:
    """With the lines that print the version removed."""
    text = (seeds / "gpt-oss-and-gemma-on-a100.md").read_text(encoding="utf-8")
    starts = startup_log.read(Evidence((Document("a.md", without_version(text)),)), catalog.load_catalog())

    assert {(start.release.version, start.release.source) for start in starts} == {("0.19.0", "call-sites")}


def test_a_printed_version_takes_precedence_over_lines(seeds: Path) -> None:
    """A fork keeps its printed version, with the closest release."""
    text = (seeds / "gpt-oss-and-gemma-on-a100.md").read_text(encoding="utf-8")
    own = text.replace("version 0.19.0", "version 0.18.2.dev7+g0123abc").replace("(v0.19.0)", "(v0.18.2.dev7)")

    release = release_of(own)

    assert (release.version, release.source) == ("0.18.2.dev7+g0123abc", "printed")
    assert release.candidates == ("0.19.0",)


def test_lines_without_a_source_identify_nothing() -> None:
    """Nor do the lines of another program."""
    release = release_of("INFO 11-20 08:00:00 vLLM is here\nKeyError: 'x'\n")

    assert (release.version, release.source) == (None, "unknown")
    assert next(log_lines.read_lines("a.log", ["INFO 11-20 08:00:00 [core.py:9] x\n"]))[0].source == "core.py:9"


def frames_of(release: str) -> list[Frame]:
    """A frame in the middle of startup functions, as in a traceback of the release."""
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
def test_equal_patch_releases_are_all_named(release: str, alike: tuple[str, ...]) -> None:
    """Post-releases that only change kernels or pins share the release's lines."""
    told = sites.fit([], frames_of(release))

    assert told.release == release
    assert told.is_known
    assert set(alike) <= set(told.candidates)


@pytest.mark.parametrize("release", ["0.2.7", "0.4.2", "0.5.3.post1", "0.6.2"])
def test_different_releases_are_distinguished(release: str) -> None:
    """Also without option data."""
    book = sites.read_book(sites.data_folder() / sites.SITES)
    places = [
        Site(path.rpartition("/")[2], line)
        for path, module in book.modules(release).items()
        for line in module.sites[:3]
    ]

    assert sites.fit(places[:60]).release == release


# ---- the contents of a data file, and damaged ones


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("core.py:100", Site("core.py", 100)), ("[core.py:100]", Site("core.py", 100)),
        ("/usr/lib/vllm/v1/core.py:7", Site("core.py", 7)), (r"vllm\v1\core.py:7", Site("core.py", 7)),
        ("core.py", None), ("core.py:x", None), ("core.py:1234567", None), ("a b.py:1", None), ("", None),
        ("x" * 120 + ":1", Site("x" * 120, 1)), ("x" * 121 + ":1", None),
    ],
)  # fmt: skip
def test_a_site_is_a_file_and_a_line(source: str, wanted: Site | None) -> None:
    """The base name of any path."""
    assert sites.site(source) == wanted


def test_a_release_extends_the_previous_rows() -> None:
    """Distances become lines; a missing row equals the previous release's; `-` ends a file."""
    first, patch, last = (BOOK.modules(release) for release in ("1.0.0", "1.1.1", "2.0.0"))
    assert first["v1/core.py"].sites == (100, 150, 350, 650)
    assert first["v1/core.py"].functions == (
        ModuleFunction("start", 90, 190), ModuleFunction("stop", 200, 230),
    )  # fmt: skip
    assert patch["v1/core.py"] == BOOK.modules("1.1.0")["v1/core.py"]
    assert last["v1/core.py"].functions == (ModuleFunction("begin", 130, 230), ModuleFunction("stop", 240, 270))
    assert [sorted(each) for each in (first, patch, last)] == [
        ["old/engine.py", "v1/core.py", "v1/engine.py"], ["v1/core.py", "v1/engine.py"], ["v1/core.py"],
    ]  # fmt: skip
    assert first["old/engine.py"] == Module((900,), ())


def test_sites_of_files_with_one_name_are_merged() -> None:
    """In each release, ascending; an unknown name has none."""
    assert BOOK.sites("engine.py") == [(20, 420, 427, 457, 900), (31, 440, 448, 479), (31, 440, 448, 479), ()]
    assert BOOK.sites("core.py")[0] == (100, 150, 350, 650)
    assert BOOK.sites("none.py") == []
    assert BOOK.ranges("v1/engine.py") == [{"run": [(10, 510)]}, {"run": [(20, 520)]}, {"run": [(20, 520)]}, {}]
    assert BOOK.ranges("none.py") == [{}, {}, {}, {}]


@pytest.mark.parametrize(
    ("row", "module"),
    [
        ("1 x = 0 1 2", Module((), (ModuleFunction("run", 1, 3),))),
        ("1 2 = 0 1", Module((1, 3), ())),
        ("1 2 = 5 1 2", Module((1, 3), ())),
        ("1 2 = x 1 2", Module((1, 3), ())),
        ("1 2", Module((1, 3), ())),
        ("= 0 1 2", Module((), (ModuleFunction("run", 1, 3),))),
    ],
)
def test_a_damaged_row_has_its_readable_part(row: str, module: Module) -> None:
    """Lines or functions, never an error."""
    book = Book(f"releases 1.0\na.py\n names run\n 1.0 {row}\n")
    assert book.modules("1.0") == {"a.py": module}


def test_a_book_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """And so are wordings of another form."""
    assert sites.read_book(tmp_path / "none").releases == ()
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    assert sites.read_book(tmp_path / "bytes").releases == ()
    for number, text in enumerate(
        ("", "[]", "{}", '{"patterns": 3, "releases": []}', '{"patterns": {"a": 3}, "releases": 1}')
    ):
        path = tmp_path / f"{number}.json"
        path.write_text(text, encoding="utf-8")
        assert sites.read_wordings(path) == Wordings()
    assert sites.read_wordings(tmp_path / "none") == Wordings()
    good = tmp_path / "good.json"
    good.write_text('{"patterns": {"s": {"ab": "10"}, "t": {"cd": "01"}}, "releases": ["1", "2"]}', encoding="utf-8")
    assert sites.read_wordings(good) == Wordings(("1", "2"), {"ab": "10", "cd": "01"})


# ---- weighing


def test_files_that_no_release_has_are_not_counted() -> None:
    """Neither for nor against, and neither are frames of other packages and of code without a name."""
    fit = told(
        "core.py:100",
        "other.py:1",
        frames=[
            ("/x/vllm/v1/core.py", 150, "start"), ("/x/vllm/v1/none.py", 150, "start"), ("/x/torch/core.py", 1, "f"),
            ("/x/vllm/v1/core.py", 0, "start"), ("/x/vllm/v1/core.py", 150, "<module>"),
        ],
    )  # fmt: skip
    assert fit.total == 2


@pytest.mark.parametrize(("line", "matched"), [(89, 0), (90, 1), (190, 1), (191, 0)])
def test_a_frame_is_inside_its_function(line: int, matched: int) -> None:
    """From first to last line: `start` of 1.0.0 is 90 to 190."""
    book = Book("releases 1.0.0\nv1/core.py\n names start\n 1.0.0 = 0 90 100\n")
    found = sites.fit([], [Frame("/x/vllm/v1/core.py", line, "start")], book=book)
    assert (found.matched, found.total) == (matched, 1)
    assert sites.fit([], [Frame("/x/vllm/v1/core.py", 100, "stop")], book=book).matched == 0


def test_the_required_fit_of_a_release() -> None:
    """Nine or ten of ten; with eight a release is only the closest, with two there is none."""
    lines = " ".join(["10"] * 10)
    book = Book(f"releases 1.0 2.0\na.py\n 1.0 {lines}\n 2.0 5000\n")
    for hits, release, candidates in (
        (10, "1.0", ()), (9, "1.0", ()), (8, None, ("1.0",)), (3, None, ("1.0",)), (2, None, ()),
    ):  # fmt: skip
        asked = [Site("a.py", 10 * number + (0 if number <= hits else 1)) for number in range(1, 11)]
        found = sites.fit(asked, book=book)
        assert (found.release, found.candidates) == (release, candidates), hits
        assert (found.matched, found.total) == (hits, 10)
        assert found.is_known is (release is not None)
    far = [Site("a.py", 10 * number) for number in (1, 2, 3)] + [Site("a.py", 11 + 10 * number) for number in range(12)]
    assert sites.fit(far, book=book).candidates == ("1.0",)
    farther = [Site("a.py", 10 * number) for number in (1, 2, 3)] + [Site("a.py", 201 + number) for number in range(13)]
    assert sites.fit(farther, book=book).candidates == ()


def test_only_so_many_sites_are_weighed() -> None:
    """A thousand of a log made to use up time."""
    assert sites.fit([Site("core.py", number) for number in range(2000)], book=BOOK).total == sites.MAX_SITES


@pytest.mark.parametrize(
    ("said", "line", "matches"),
    [
        ("took 3.5 GiB", "took 12,345.75 GiB", True),
        ("took 3.5 GiB", "took x GiB", False),
        ("found … cards", "found some old cards", True),
        ("found … cards", "found " + "x" * 80 + " cards", True),
        ("found … cards", "found " + "x" * 81 + " cards", False),
        ("a.b (c)", "a.b (c)", True),
        ("a.b (c)", "axb (c)", False),
        ("  padded  ", "padded", True),
        ("id 7", "id 42", True),
        ("id 7", "id " + "4" * 21, False),
    ],
)
def test_a_line_matches_any_number_and_omission(said: str, line: str, *, matches: bool) -> None:
    """Placeholders match anything of their kind; other text matches exactly."""
    assert bool(re.fullmatch(sites.wording(said), line)) is matches


def test_the_presence_of_a_wording() -> None:
    """1 and 0; other values, releases and wordings are unknown."""
    wordings = Wordings(("1", "2", "3"), {sites.digest("a"): "10?"})
    assert [wordings.has("a", release) for release in ("1", "2", "3", "4")] == [True, False, None, None]
    assert wordings.has("b", "1") is None
    assert len(sites.digest("a")) == 10
