"""Data from a release's sources: log calls, startup functions and wordings."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_runbooks.authoring.releases import call_sites
from vllm_runbooks.authoring.releases.call_sites import Matcher, Template
from vllm_runbooks.catalog import sites
from vllm_runbooks.catalog.records import LineFormat, Symptom
from vllm_runbooks.catalog.sites import Module, ModuleFunction
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.record_forms import record

CORE = '''\
"""A module that says: nothing in a docstring counts."""
from vllm.logger import init_logger

logger = init_logger(__name__)
HINT = "Try a smaller one."


class Core:
    def start(self, size, path):
        logger.info(
            "Loading from %s took %.2f seconds",
            path,
            1.5,
        )
        log_fn = logger.debug if size else logger.info
        log_fn("size %d", size)
        math.log(2)
        print_warning_once(f"Size {size} is large. {HINT}")
        if size < 0:
            raise ValueError(f"Free memory {size:.2f} GiB is less than " "wanted. " + HINT)

    async def stop(self):
        def inner():
            logger.warning_once("stopped")
        assert inner, "must not stop on {}".format(1)
'''
LOGGER = """\
def print_warning_once(msg):
    logger.warning(msg, stacklevel=2)
"""
MODEL = """\
def forward(x):
    logger.error("no kernel for %s" % x)
"""
BROKEN = "def ("
MESSAGES = {
    r"Loading from (?P<path>\S{1,80}) took (?P<load_seconds>[\d.]{1,12}) seconds": True,
    r"^ValueError: Free memory (?P<free_gib>[\d.]{1,12}) GiB is less than wanted\. Try a smaller one": True,
    r"Size \d{1,9} is large\. Try": True,
    r"(?:must|may) not stop on (?:one|two)": True,
    r"nothing in a docstring counts": False,
    r"no kernel for (?P<kernel>\w{1,40}) at all": False,
}
"""Patterns, and whether a message of the release matches."""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package of a release."""
    root = tmp_path / "vllm"
    for path, text in {
        "v1/engine/core.py": CORE,
        "logger.py": LOGGER,
        "model_executor/models/llama.py": MODEL,
        "broken.py": BROKEN,
    }.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root


def shelf() -> Catalog:
    """A catalog of two symptoms, one of them not vLLM's, and a line."""
    symptoms = [
        {"id": "a.b", "signatures": [{"pattern": pattern} for pattern in MESSAGES]},
        {"id": "c.d", "signatures": [{"pattern": "CUDA says", "origin": "cuda"}]},
    ]
    rest = {
        "title": "t", "severity": "fatal", "examples": [], "near_misses": [], "cause": "c", "explanation": [],
        "do_first": "d", "confirm": "c", "refute": "r", "verified": {"date": "2026-11-20", "vllm": "1.0.0"},
    }  # fmt: skip
    made = [record(Symptom, {**rest, **symptom}) for symptom in symptoms]
    lines = (LineFormat("sizes", ("size (?P<some_tokens>\\d{1,9})",), ()),)
    return Catalog({symptom.id: symptom for symptom in made}, lines)


def test_sites_are_the_lines_that_logging_reports(package: Path) -> None:
    """The first line of a call; of a wrapper that logs for its caller, the caller's line; of other calls, none."""
    modules = call_sites.read_sources(package).modules

    assert modules["v1/engine/core.py"] == Module(
        (10, 16, 18, 24),
        (ModuleFunction("start", 9, 20), ModuleFunction("stop", 22, 25), ModuleFunction("inner", 23, 24)),
    )
    assert modules["logger.py"] == Module((2,), (ModuleFunction("print_warning_once", 1, 2),))


def test_functions_are_kept_of_startup_code_only(package: Path) -> None:
    """Model modules keep only log lines; a module with a syntax error is skipped."""
    modules = call_sites.read_sources(package).modules

    assert modules["model_executor/models/llama.py"] == Module((2,))
    assert "broken.py" not in modules


def test_messages_are_matched_with_their_holes_filled(package: Path) -> None:
    """From f-strings, percent formats, `format`, joined parts and constants, not docstrings."""
    found = Matcher(list(MESSAGES)).found(call_sites.read_sources(package).templates)

    assert {pattern: pattern in found for pattern in MESSAGES} == MESSAGES


def test_inserted_values_have_the_shape_of_the_pattern() -> None:
    """A tensor size, a quoted name, a negative number, one of several words."""
    patterns = [
        r"size torch\.Size\(\[(?P<weight_shape>[\d, ]{0,60})\]\) is",
        r"unknown '(?P<name>[-\w]{1,40})' given",
        r"free: (?P<free_gib>-[\d.]{1,12}) GiB",
        r"backend (?P<backend>PALLAS|FLASH) failed",
        r"version (?P<version>\d[\w.+-]{1,40}) of (?P<name>\w{4,40}) is",
    ]
    hole = "\ue000"
    texts = [
        f"size {hole} is",
        f"unknown {hole} given",
        f"free: {hole} GiB",
        f"backend {hole} failed",
        f"version {hole} of {hole} is",
    ]

    assert Matcher(patterns).found([Template(text, None) for text in texts]) == set(patterns)


def test_releases_are_written_and_read_back(package: Path, tmp_path: Path) -> None:
    """A second run writes the same, and adding an older release keeps the newer one's data."""
    folder = tmp_path / "logs"
    call_sites.write({"1.1.0": package}, shelf(), folder)
    first = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    call_sites.write({"1.1.0": package}, shelf(), folder)
    again = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    newer = sites.read_book(folder / sites.SITES).modules("1.1.0")
    (package / "logger.py").unlink()
    call_sites.write({"1.0.0": package}, shelf(), folder)
    both = sites.read_book(folder / sites.SITES)

    assert first == again
    assert both.releases == ("1.0.0", "1.1.0")
    assert both.modules("1.1.0") == newer
    assert "logger.py" not in both.modules("1.0.0")


def test_lines_claimed_by_documents_are_searched(package: Path, tmp_path: Path) -> None:
    """Which releases print them is stored; a line that none prints is not an error."""
    printed = next(pattern for pattern, is_there in MESSAGES.items() if is_there)
    claimed = {"claims:mine": [printed, sites.wording("World size: 2")]}
    call_sites.write({"1.0.0": package}, shelf(), tmp_path / "logs", claimed)
    wordings = sites.read_wordings(tmp_path / "logs" / sites.WORDINGS)

    assert [wordings.has(pattern, "1.0.0") for pattern in claimed["claims:mine"]] == [True, False]


def test_wordings_of_vllm_are_searched(package: Path, tmp_path: Path) -> None:
    """Those of a release's messages, which are returned; words of other programs are not searched."""
    messages = call_sites.write({"1.0.0": package}, shelf(), tmp_path / "logs")
    wordings = sites.read_wordings(tmp_path / "logs" / sites.WORDINGS)

    assert Template("stopped", None) in messages
    assert {pattern: wordings.has(pattern, "1.0.0") for pattern in MESSAGES} == MESSAGES
    assert wordings.has("CUDA says", "1.0.0") is None
