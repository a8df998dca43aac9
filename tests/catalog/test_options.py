"""Queries on release data: nearest release, options, keys, variables, defaults, history."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks.catalog import options
from vllm_runbooks.core.errors import InputError

NEWEST = options.known_releases()[-1]


def test_the_releases_are_the_last_patches_and_those_of_the_documents() -> None:
    """Every minor release from the oldest to the newest, and four from documents and logs."""
    known = [tuple(int(part) for part in version.split(".")) for version in options.known_releases()]

    assert known == sorted(known)
    assert {minor for _, minor, _ in known} == set(range(6, known[-1][1] + 1))
    assert {(0, 6, 6), (0, 7, 2), (0, 11, 0), (0, 16, 0), (0, 19, 0)} <= set(known)


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        ("0.16", "0.16.0"),
        ("v0.16.0", "0.16.0"),
        ("0.16.0rc1", "0.16.0"),
        ("0.11.1rc2.dev3+g1234", "0.11.0"),
        ("0.11.1", "0.11.0"),
        ("0.11.2", "0.11.2"),
        ("0.8.5.post1", "0.8.5"),
        ("v0.11.0-aarch64", "0.11.0"),
        ("0.19.0-cu128", "0.19.0"),
        (" 0.7.0 ", "0.7.2"),
        ("0.10.0", "0.10.2"),
    ],
)
def test_any_version_uses_the_nearest_release(asked: str, version: str) -> None:
    """The same minor release, with its patch at or below the requested one if possible."""
    found = options.load(asked)

    assert version == found.version
    assert asked.strip() == found.asked
    assert not found.is_beyond
    assert not found.is_before


@pytest.mark.parametrize("asked", ["nightly", "latest", " Main "])
def test_a_name_for_the_newest_release_becomes_its_number(asked: str) -> None:
    """A sentence about a command names a release that a reader can look up."""
    assert options.load(asked).asked == NEWEST


def test_a_version_outside_the_known_range_is_marked() -> None:
    """The newest or oldest release is used instead, and marked as such."""
    newer, older = options.load("99.0"), options.load("0.4.3")

    assert newer.version == NEWEST
    assert newer.is_beyond
    assert older.version == options.known_releases()[0]
    assert older.is_before


@pytest.mark.parametrize(
    "text", ["", "junk", "1", "0.x", "0.1; rm -rf /", "\u0660.\u0661", "0." + "1" * 300, "0.1" + "-a" * 5000]
)
def test_an_invalid_version_is_rejected_in_one_line(text: str) -> None:
    """The text is named, cut to fit the line."""
    with pytest.raises(InputError, match="is not a vLLM version; use") as refused:
        options.load(text)

    assert len(str(refused.value)) < 150


@in_one_test("version", options.known_releases())
def test_every_release_has_the_data_to_check_a_command(version: str) -> None:
    """Both programs have options, each spelling once, with types and defaults in the documented terms."""
    data = options.load(version)

    assert data.made["origin"] == "parser"
    for entry in options.ENTRIES:
        strings = [text for option in data.entries[entry] for text in option.strings]
        assert sorted(set(strings)) == sorted(strings)
        assert {"--model", "--max-model-len", "--tensor-parallel-size", "--port"} <= set(strings)
    assert "model_tag" in {option.dest for option in data.entries["serve"]}
    assert data.environment["VLLM_HOST_IP"].is_listed
    assert "gpu_memory_utilization" in data.parameters["EngineArgs"]
    assert "model" in data.parameters["LLM"]
    assert {"underscores", "dotted", "level", "serve_model", "config_lists"} <= set(data.features)
    for option in data.by_string.values():
        assert _classes(option.type) <= set(data.objects)


def _classes(kind: object) -> set[str]:
    if isinstance(kind, dict):
        own = {kind["dataclass"]} if "dataclass" in kind else set()
        return own.union(*map(_classes, kind.values()))
    return set()


def test_an_option_is_described_as_in_the_parser() -> None:
    """Spellings, type, choices and default equal the release's parser."""
    by_string = options.load("0.19.0").by_string

    assert by_string["-tp"].name == "--tensor-parallel-size"
    assert by_string["--max-model-len"].type == "human_int_or_auto"
    assert by_string["--compilation-config"].type["dataclass"] == "CompilationConfig"
    assert by_string["--dtype"].choices == ("auto", "bfloat16", "float", "float16", "float32", "half")
    assert by_string["--gpu-memory-utilization"].default == 0.9
    assert by_string["--enforce-eager"].flag_values == {"--enforce-eager": True, "--no-enforce-eager": False}
    assert not by_string["--enforce-eager"].takes_value


def test_json_keys_have_types_and_names() -> None:
    """A key's type is its class's, with the words that its check accepts."""
    keys = options.load("0.33.0").objects["CompilationConfig"]["keys"]

    assert keys["cudagraph_mode"]["type"]["words"][:3] == ["NONE", "PIECEWISE", "FULL"]
    assert "backend" in keys


def test_history_has_additions_changes_and_removals() -> None:
    """A removed option has its last release, and a renamed one keeps its history."""
    swap = options.history("--swap-space")
    utilization = [change for change in options.history("--gpu-memory-utilization") if "default" in change.fields]

    assert [change.kind for change in swap if change.kind != "changed"] == ["added", "removed"]
    assert swap[0].after is None
    assert swap[-1].after in options.known_releases()
    assert [change.fields["default"] for change in utilization] == [(0.9, 0.92)]
    assert options.history("--no-such-option") == ()
    assert options.history("-tp") == options.history("--tensor-parallel-size")
    assert [(c.kind, c.release) for c in options.history("-cc") if c.kind != "changed"] == [("added", "0.12.0")]
    assert [(c.kind, c.release) for c in options.history("-O") if c.kind != "changed"][-1] == ("removed", "0.12.0")
    quiet = options.history("--disable-log-requests")
    assert [change.kind for change in quiet if change.kind != "changed"] == ["added", "removed", "added"]
    assert options.history("VLLM_USE_V1")[-1].kind == "removed"


def test_history_and_releases_are_consistent() -> None:
    """An option is in a release exactly if its history says so."""
    releases = options.known_releases()
    for name, changes in options.histories("option").items():
        at = None
        alive = []
        for release in releases:
            at = next((change.kind for change in changes if change.release == release), at)
            if at in ("added", "changed"):
                alive.append(release)
        assert alive == [release for release in releases if f"option {name}" in options.load(release).records]


@pytest.mark.parametrize(
    ("version", "context", "device", "tokens"),
    [
        ("0.16.0", "serve", ("NVIDIA H100 80GB HBM3", 79.6, "9.0"), 8192),
        ("0.16.0", "llm", ("NVIDIA H100 80GB HBM3", 79.6, "9.0"), 16384),
        ("0.16.0", "serve", ("NVIDIA A100-SXM4-80GB", 79.3, "8.0"), 2048),
        ("0.16.0", "serve", (None, 24.0, None), 2048),
        ("0.33.0", "serve", ("NVIDIA B200", 178.4, "10.0"), 16384),
        ("0.33.0", "serve", ("NVIDIA H100 80GB HBM3", 79.6, "9.0"), 8192),
        ("0.33.0", "serve", ("NVIDIA GB10", 119.6, "12.1"), 2048),
    ],
)
def test_a_default_that_moves_with_the_gpu_is_read_from_the_table_of_the_release(
    version: str, context: str, device: tuple[str | None, float, str | None], tokens: int
) -> None:
    """Batched tokens depend on memory, name and capability of the GPU and on the program."""
    gpu, memory, capability = device

    found = options.load(version).default(
        "max_num_batched_tokens", context=context, gpu=gpu, memory_gib=memory, capability=capability
    )

    assert options.Default(tokens, is_known=True) == found


def test_an_unknown_default_names_its_dependency() -> None:
    """Without the GPU, or for an argument outside the release, no value is invented."""
    data = options.load("0.16.0")

    assert data.default("max_num_seqs") == options.Default(None, False, ("the GPU",))
    assert not data.default("enable_prefix_caching").is_known
    assert data.default("gpu_memory_utilization") == options.Default(0.9, is_known=True)
    assert not data.default("no_such_argument").is_known


@pytest.mark.parametrize(
    ("version", "dest", "limits", "at"),
    [
        ("0.13.0", "max_model_len", {"gt": 0}, "config/model.py"),
        ("0.14.1", "max_model_len", {"ge": -1}, "config/model.py"),
        ("0.19.0", "gpu_memory_utilization", {"gt": 0, "le": 1}, "config/cache.py"),
        ("0.8.5", "gpu_memory_utilization", {}, "config.py"),
        ("0.33.0", "tensor_parallel_size", {"ge": 1}, "config/parallel.py"),
    ],
)
def test_a_bound_is_that_of_the_release(version: str, dest: str, limits: dict[str, float], at: str) -> None:
    """Numbers and their place in the sources are each release's own."""
    [bound] = [bound for bound in options.load(version).bounds if bound.dests == (dest,)]

    assert limits == bound.limits
    assert re.fullmatch(rf"{re.escape(at)}:\d+", bound.at)
    assert bool(bound.says) is not bool(limits)


def test_the_bounds_of_a_release_are_about_its_arguments() -> None:
    """Every known release was read; a bound of a missing argument would never apply."""
    for version in options.known_releases():
        data = options.load(version)
        given = data.parameters["EngineArgs"]

        assert len(data.bounds) >= 10
        assert [bound for bound in data.bounds if not set(bound.dests) <= given.keys()] == []


_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-|\b[0-9a-f]{16,}\b|vllm_mm_.")


def test_no_default_is_process_specific() -> None:
    """Random and host-specific values are stored as computed."""
    for version in options.known_releases():
        data = options.load(version)
        told = {name: one.default for name, one in data.environment.items()}
        told |= {dest: one.default for dest, one in data.by_dest.items()}

        assert [name for name, default in told.items() if _RANDOM.search(json.dumps(default))] == [], version
    drawn = options.load(NEWEST).environment["VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME"]

    assert drawn.default == {"repr": "computed"}


def test_damaged_or_missing_data_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken file or a missing folder, with the command that generates it."""
    monkeypatch.setenv("VLLM_RUNBOOKS_DATA", str(tmp_path))
    (tmp_path / "catalog" / "releases").mkdir(parents=True)

    with pytest.raises(InputError, match="no release data"):
        options.load("0.19.0")

    options._files.cache_clear()
    (tmp_path / "catalog" / "releases" / "0.19.0.json").write_text('{"set": []}', encoding="utf-8")
    with pytest.raises(InputError, match=re.escape("0.19.0.json: not release data")):
        options.load("0.19.0")


def test_loading_a_release_takes_milliseconds() -> None:
    """The newest release, which all files are read for, is loaded in less than 60 ms of a fresh process's own time."""
    code = (
        "import time; from vllm_runbooks.catalog import options; t = time.process_time(); "
        f"d = options.load({NEWEST!r}); d.entries, d.environment, d.objects; print(time.process_time() - t)"
    )
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]

    assert min(times) < 0.06


def test_files_contain_no_host_paths_and_no_help() -> None:
    """Generated files say nothing about the machine."""
    for path in options.releases_dir().glob("0.*.json"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(?:root|home|work|mnt|opt)/|/tmp/\w", text), path.name
        assert '"help"' not in text
        assert json.loads(text)["version"] == path.stem


# ---- the functions by themselves


@in_one_test(
    ("text", "key"),
    [
        ("0.19.0", (0, 19, 0, 1)), ("v0.19.1", (0, 19, 1, 1)), ("0.19", (0, 19, 0, 1)), (" 1.2.3\n", (1, 2, 3, 1)),
        ("0.8.5.post1", (0, 8, 5, 1)), ("0.11.1rc2", (0, 11, 1, 0)), ("0.11.1.rc2", (0, 11, 1, 0)),
        ("0.11.1a1", (0, 11, 1, 0)), ("0.11.1b", (0, 11, 1, 0)), ("0.11.1.dev3+g12", (0, 11, 1, 0)),
        ("0.11.1-preview", (0, 11, 1, 0)), ("0.11.1-aarch64", (0, 11, 1, 1)), ("0.11.1-cu128", (0, 11, 1, 1)),
        ("0.11.1-beta.2", (0, 11, 1, 0)), ("0.1-" + "x" * 79, (0, 1, 0, 1)),
        ("0.1-" + "x" * 80, None), ("1", None), ("1.x", None), ("latest", None),
        ("1234567.1", None), ("0.9.2x", None), ("0.9x", None), ("0.9.2banana", None), ("0.9.2post1", (0, 9, 2, 1)),
        ("0.9.2cu128", (0, 9, 2, 1)), ("0.11.1.1", (0, 11, 1, 1)),
    ],
)  # fmt: skip
def test_versions_are_ordered_as_in_pep_440(text: str, key: options.Key | None) -> None:
    """Pre-releases precede the release, later builds do not (PEP 440)."""
    assert options.version_key(text) == key


@pytest.mark.parametrize(
    ("version", "row", "is_within"),
    [
        ("0.9.2", {}, True),
        ("0.9.2", {"first": "0.9.2", "last": "0.9.2"}, True),
        ("0.9.1", {"first": "0.9.2"}, False),
        ("0.9.3", {"first": "0.9.2"}, True),
        ("0.9.3", {"last": "0.9.2"}, False),
        ("0.9.1", {"last": "0.9.2"}, True),
        ("0.10.0", {"first": "0.9.2", "last": "0.11.0"}, True),
    ],
)
def test_a_row_of_a_table_includes_both_releases(version: str, row: dict[str, str], *, is_within: bool) -> None:
    """Either end may be open."""
    assert options.is_within(version, row) is is_within


@pytest.mark.parametrize(
    ("sign", "number", "limit", "holds"),
    [
        ("ge", 1, 1, True), ("ge", 0, 1, False), ("gt", 1, 1, False), ("gt", 2, 1, True), ("le", 1, 1, True),
        ("le", 2, 1, False), ("lt", 1, 1, False), ("lt", 0, 1, True),
    ],
)  # fmt: skip
def test_a_limit_follows_its_operator(sign: str, number: int, limit: int, *, holds: bool) -> None:
    """At the number and next to it."""
    assert options.LIMITS[sign].holds(number, limit) is holds


def test_a_type_inside_nested_optionals() -> None:
    """For any number of them."""
    assert options.inner_type({"optional": {"optional": {"int": {"ge": 1}}}}) == {"int": {"ge": 1}}
    assert options.inner_type("str") == "str"
    assert options.inner_type({"list": {"optional": "str"}}) == {"list": {"optional": "str"}}


# ---- releases of a folder of our own


def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **releases: dict[str, Any]) -> Path:
    """Release files with these records set and removed."""
    folder = tmp_path / "catalog" / "releases"
    folder.mkdir(parents=True)
    for name, told in releases.items():
        said = {"set": told.get("set", {}), "unset": told.get("unset", []), **told}
        (folder / f"{name.replace('_', '.')[1:]}.json").write_text(json.dumps(said), encoding="utf-8")
    monkeypatch.setenv("VLLM_RUNBOOKS_DATA", str(tmp_path))
    return folder


_RECORDS: dict[str, dict[str, Any]] = {
    "v0_1_0": {
        "made": {"origin": "parser"},
        "set": {
            "option --plain": {"type": "int", "default": 5},
            "option --switch": {"nargs": 0, "strings": ["--switch", "--no-switch", "-s"], "default": False},
            "option --moved": {"nargs": 0, "default": False, "by_device": ["default"]},
            "option --computed": {"nargs": 0, "default": False},
            "default computed": {"depends_on": ["what is loaded"]},
            "option --served": {"only": "serve"},
            "option tag": {"dest": "model_tag", "nargs": "?", "required": True},
            "option --keyed": {"type": {"optional": {"dataclass": "Kind"}}, "choices": ["a"]},
            "option --two": {"type": "int", "default": 3},
            "api_server --two": {"type": "int", "default": 4},
            "object Kind": {"extra": "forbid"},
            "key Kind.a": {"type": "int"},
            "environment A": {"default": "1"},
            "environment B": {
                "kind": "choice", "choices": ["x"], "case_sensitive": False, "listed": False, "true": ["1"],
                "refused": ["2"],
            },
            "parameter EngineArgs.plain": {"default": 7},
            "parameter EngineArgs.own": {"default": 8},
            "parameter LLM.model": {},
            "parameter LLM.kwargs": {},
            "parameter Other.model": {},
            "bound plain": {"ge": 1, "lt": 9},
            "bound own": {"gt": 0, "if": ["given", "own"]},
            "bound a+b 2": {"when": ["given", "a"], "says": "no"},
            "place bounds": {"plain": "x.py:1"},
        },
    },
    "v0_2_0": {
        "set": {"option --plain": {"type": "int", "default": 50}, "environment C": {}},
        "unset": ["environment A", "option --never"],
    },
    "v0_2_1": {"set": {"environment A": {"default": "2"}}},
}  # fmt: skip


def test_options_are_read_with_their_omitted_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record only has differences from an option with one string."""
    _data(tmp_path, monkeypatch, **_RECORDS)
    data = options.load("0.1.0")
    plain = data.by_string["--plain"]
    assert (plain.dest, plain.action, plain.nargs, plain.default, plain.type) == (
        "plain",
        "_StoreAction",
        None,
        5,
        "int",
    )
    assert (plain.required, plain.deprecated, plain.choices, plain.flag_values) == (False, False, None, {})
    assert plain.takes_value
    switch = data.by_string["-s"]
    assert switch.flag_values == {"--switch": True, "--no-switch": False, "-s": True}
    assert (switch.takes_value, switch.type, switch.name) == (False, None, "--switch")
    tag = data.by_dest["model_tag"]
    assert (tag.strings, tag.name, tag.required, tag.type) == ((), "model_tag", True, "str")
    assert data.by_dest["plain"].default == 5
    assert [len(data.entries[entry]) for entry in options.ENTRIES] == [8, 7]
    two = [one.default for entry in options.ENTRIES for one in data.entries[entry] if one.dest == "two"]
    assert two == [3, 4]
    assert data.switches_off == {"switch"}
    assert data.keys("--keyed") == {"a": {"type": "int"}}
    assert data.keys("--plain") is None
    assert data.keys("--none") is None


def test_variables_and_bounds_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Omitted fields of a variable have defaults; a bound's condition is built from its limits."""
    _data(tmp_path, monkeypatch, **_RECORDS)
    data = options.load("0.1.0")
    one, other = data.environment["A"], data.environment["B"]
    assert (one.kind, one.choices, one.is_case_sensitive, one.is_listed, one.true, one.refused) == (
        "str", None, True, True, (), (),
    )  # fmt: skip
    assert (other.choices, other.is_case_sensitive, other.is_listed) == (("x",), False, False)
    assert (other.true, other.refused) == (("1",), ("2",))
    plain, own, both = data.bounds
    assert plain == options.Bound(
        ("plain",),
        ["not", ["and", [">=", ["arg", "plain"], ["const", 1]], ["<", ["arg", "plain"], ["const", 9]]]],
        {"ge": 1, "lt": 9},
        "",
        "x.py:1",
    )
    assert own.refused == ["and", ["given", "own"], ["not", ["and", [">", ["arg", "own"], ["const", 0]]]]]
    assert both == options.Bound(("a", "b"), ["given", "a"], {}, "no", "")


def test_a_default_is_the_options_or_the_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument in neither form has none."""
    _data(tmp_path, monkeypatch, **_RECORDS)
    data = options.load("0.1.0")
    assert data.default("plain") == options.Default(5, is_known=True)
    assert data.default("own") == options.Default(8, is_known=True)
    assert data.default("none") == options.Default(None, False, ("this release has no such argument",))
    assert data.default("computed") == options.Default(False, is_known=True)
    assert set(data.taken_by("LLM")) == {"plain", "own", "model"}
    assert set(data.taken_by("Other")) == {"model"}
    assert set(data.taken_by("EngineArgs")) == {"plain", "own"}
    assert data.taken_by("None") == {}


_ROWS = {
    "rows": [
        {"if": [{"memory_gib": 70}, {"name_lacks": ["a100"]}], "value": {"OPENAI_API_SERVER": 8, "LLM_CLASS": 16}},
        {"if": [{"capability_has": ["10."]}], "value": 4},
        {"if": [{"strange": 1}], "value": 3},
        {"if": [], "value": 2},
    ],
    "depends_on": ["more"],
}


@pytest.mark.parametrize(
    ("device", "context", "value"),
    [
        (("H100", 70.0, "9.0"), "serve", 8),
        (("H100", 70.0, "9.0"), "llm", 16),
        (("H100", 69.9, "10.0"), "serve", 4),
        (("NVIDIA A100", 80.0, "10.0"), "serve", 4),
        ((None, 80.0, None), "serve", None),
        (("H100", None, None), "serve", None),
        (("A100", None, None), "serve", None),
        (("A100", None, "8.0"), "serve", None),
    ],
)
def test_rows_are_tried_until_one_applies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: tuple[Any, Any, Any], context: str, value: int | None
) -> None:
    """A row with an unknown condition leaves the value open; a false one is skipped."""
    _data(tmp_path, monkeypatch, v0_1_0={"set": {"default moved": _ROWS}})
    gpu, memory, capability = device
    found = options.load("0.1.0").default("moved", context=context, gpu=gpu, memory_gib=memory, capability=capability)
    wanted = options.Default(None, False, ("the GPU",)) if value is None else options.Default(value, is_known=True)
    assert found == wanted


def test_a_table_without_a_matching_row_names_its_dependency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does one without a value for the program."""
    rows = {"rows": [{"if": [{"memory_gib": 70}], "value": {"LLM_CLASS": 1}}], "depends_on": ["more"]}
    _data(tmp_path, monkeypatch, v0_1_0={"set": {"default moved": rows, "default bare": {}}})
    data = options.load("0.1.0")
    assert data.default("moved", memory_gib=10) == options.Default(None, False, ("more",))
    assert data.default("moved", memory_gib=80) == options.Default(None, False, ("the program",))
    assert data.default("bare") == options.Default(None, False, ())


def test_the_history_of_a_name_is_listed_by_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Added, changed, removed and restored; removing an absent option is not a change."""
    folder = _data(tmp_path, monkeypatch, **_RECORDS)
    assert options.history("A") == (
        options.OptionChange("0.1.0", None, "added"), options.OptionChange("0.2.0", "0.1.0", "removed"),
        options.OptionChange("0.2.1", "0.2.0", "added"),
    )  # fmt: skip
    assert options.history("--plain") == (
        options.OptionChange("0.1.0", None, "added"),
        options.OptionChange("0.2.0", "0.1.0", "changed", {"default": (5, 50)}),
    )
    assert "--never" not in options.histories("option")
    assert options.histories("environment")["C"] == (options.OptionChange("0.2.0", "0.1.0", "added"),)
    assert options.known_releases() == ("0.1.0", "0.2.0", "0.2.1")
    names = options.names(folder)
    assert names.variables == {"A", "B", "C"}
    assert {"plain", "switch", "model_tag", "own", "model"} <= names.arguments
    assert options.names(tmp_path / "none") == options.Names(frozenset(), frozenset())
    told = options.past()
    standing = {
        release: options.standing("A", options.load(release), told).kind for release in ("0.1.0", "0.2.0", "0.2.1")
    }
    assert standing == {"0.1.0": "known", "0.2.0": "gone", "0.2.1": "known"}
    gone = options.standing("A", options.load("0.2.0"), told)
    assert (gone.last, gone.gone, gone.owner) == ("0.1.0", "0.2.0", "A")
    to_come = options.standing("C", options.load("0.1.0"), told)
    assert (to_come.kind, to_come.first) == ("to come", "0.2.0")
    assert options.standing("D", options.load("0.1.0"), told).kind == "never"
    more = [options.NameLifetime(0, 0)]
    assert options.standing("D", options.load("0.1.0"), told, more).kind == "known"
    assert options.standing("D", options.load("0.2.1"), told, more) == options.NameStatus("gone", "", "0.1.0", "0.2.0")


@pytest.mark.parametrize(
    ("asked", "version", "is_beyond", "is_before"),
    [
        ("0.0.9", "0.1.0", False, True), ("0.1.0", "0.1.0", False, False), ("0.1.0rc1", "0.1.0", False, False),
        ("0.1.5", "0.1.0", False, False), ("0.2.0", "0.2.0", False, False), ("0.2.9", "0.2.1", False, False),
        ("0.2.0rc1", "0.2.0", False, False), ("0.3.0", "0.2.1", True, False), ("1.0", "0.2.1", True, False),
        ("latest", "0.2.1", False, False),
    ],
)  # fmt: skip
def test_a_version_between_releases_uses_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, version: str, *, is_beyond: bool, is_before: bool
) -> None:
    """The same minor release, else the previous one; versions outside the range are marked."""
    _data(tmp_path, monkeypatch, **_RECORDS)
    (tmp_path / "catalog" / "releases" / "x.json").write_text("{", encoding="utf-8")
    (tmp_path / "catalog" / "releases" / "support.json").write_text("{", encoding="utf-8")
    assert options.nearest(asked) == options.Nearest(version, is_beyond, is_before)
    data = options.load(asked)
    assert (data.version, data.is_beyond, data.is_before) == (version, is_beyond, is_before)
    assert data.asked == ("0.2.1" if asked == "latest" else asked)


@pytest.mark.parametrize("text", ["[]", "{", '{"set": {}}', '{"set": {}, "unset": {}}', '{"set": [], "unset": []}'])
def test_data_in_another_format_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """With the command that generates it."""
    folder = _data(tmp_path, monkeypatch)
    (folder / "0.1.0.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"0\.1\.0\.json: not release data; create it again"):
        options.load("0.1.0")
