"""The release data as it is asked for: nearest release, options, keys, variables, defaults, history."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vllm_runbooks import options
from vllm_runbooks.errors import InputError

NEWEST = options.known_releases()[-1]


def test_the_releases_known_are_the_last_patch_of_each_minor_and_those_of_the_documents() -> None:
    """Every minor release from the oldest to the newest is there, and the four that documents and logs came from."""
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
def test_any_version_is_judged_by_the_nearest_release(asked: str, version: str) -> None:
    """The same minor release is taken, its patch at or below the one asked for where there is one."""
    found = options.load(asked)

    assert version == found.version
    assert asked.strip() == found.asked
    assert not found.is_beyond
    assert not found.is_before


@pytest.mark.parametrize("asked", ["nightly", "latest", " Main "])
def test_a_name_for_the_newest_release_stands_for_its_number(asked: str) -> None:
    """A sentence about a command names a release that a reader can look up."""
    assert options.load(asked).asked == NEWEST


def test_a_version_outside_of_what_is_known_says_so() -> None:
    """The newest and the oldest release stand in for what is beyond them, and are marked as doing so."""
    newer, older = options.load("99.0"), options.load("0.4.3")

    assert newer.version == NEWEST
    assert newer.is_beyond
    assert older.version == options.known_releases()[0]
    assert older.is_before


@pytest.mark.parametrize(
    "text", ["", "junk", "1", "0.x", "0.1; rm -rf /", "\u0660.\u0661", "0." + "1" * 300, "0.1" + "-a" * 5000]
)
def test_what_is_no_version_is_refused_in_one_line(text: str) -> None:
    """A text that is no version is named, cut to a length that fits a line."""
    with pytest.raises(InputError, match="is no version of vLLM") as refused:
        options.load(text)

    assert len(str(refused.value)) < 150


@pytest.mark.parametrize("version", options.known_releases())
def test_every_release_has_what_a_command_is_judged_by(version: str) -> None:
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


def test_an_option_is_told_as_the_parser_has_it() -> None:
    """Spellings, type, choices and default of a release are those of its parser."""
    by_string = options.load("0.19.0").by_string

    assert by_string["-tp"].name == "--tensor-parallel-size"
    assert by_string["--max-model-len"].type == "human_int_or_auto"
    assert by_string["--compilation-config"].type["dataclass"] == "CompilationConfig"
    assert by_string["--dtype"].choices == ("auto", "bfloat16", "float", "float16", "float32", "half")
    assert by_string["--gpu-memory-utilization"].default == 0.9
    assert by_string["--enforce-eager"].flag_values == {"--enforce-eager": True, "--no-enforce-eager": False}
    assert not by_string["--enforce-eager"].takes_value


def test_json_keys_are_told_with_types_and_names() -> None:
    """A key's type comes from the class that validates it, with the words that its own check takes."""
    keys = options.load("0.33.0").objects["CompilationConfig"]["keys"]

    assert keys["cudagraph_mode"]["type"]["words"][:3] == ["NONE", "PIECEWISE", "FULL"]
    assert "backend" in keys


def test_history_tells_when_an_option_came_changed_and_went() -> None:
    """An option that went is told with the last release that had it; one that was renamed still has its history."""
    swap = options.history("--swap-space")
    utilization = [change for change in options.history("--gpu-memory-utilization") if "default" in change.fields]

    assert [change.kind for change in swap if change.kind != "changed"] == ["came", "went"]
    assert swap[0].after is None
    assert swap[-1].after in options.known_releases()
    assert [change.fields["default"] for change in utilization] == [(0.9, 0.92)]
    assert options.history("--no-such-option") == ()
    assert options.history("-tp") == options.history("--tensor-parallel-size")
    assert [(c.kind, c.release) for c in options.history("-cc") if c.kind != "changed"] == [("came", "0.12.0")]
    assert [(c.kind, c.release) for c in options.history("-O") if c.kind != "changed"][-1] == ("went", "0.12.0")
    quiet = options.history("--disable-log-requests")
    assert [change.kind for change in quiet if change.kind != "changed"] == ["came", "went", "came"]
    assert options.history("VLLM_USE_V1")[-1].kind == "went"


def test_history_and_releases_agree() -> None:
    """An option is in a release exactly when its history says so."""
    releases = options.known_releases()
    for name, changes in options.histories("option").items():
        at = None
        alive = []
        for release in releases:
            at = next((change.kind for change in changes if change.release == release), at)
            if at in ("came", "changed"):
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


def test_a_default_that_cannot_be_known_says_what_it_depends_on() -> None:
    """Without the GPU, or with an argument that the release does not have, no number is made up."""
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


def test_a_release_has_bounds_and_each_is_about_arguments_that_it_has() -> None:
    """Every known release was read; a bound of an argument that nobody can give would never be told."""
    for version in options.known_releases():
        data = options.load(version)
        given = data.parameters["EngineArgs"]

        assert len(data.bounds) >= 10
        assert [bound for bound in data.bounds if not set(bound.dests) <= given.keys()] == []


_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-|\b[0-9a-f]{16,}\b|vllm_mm_.")


def test_no_default_is_one_that_a_process_made_for_itself() -> None:
    """What is drawn anew by each process, or is the host's own, is no default: it is kept as computed."""
    for version in options.known_releases():
        data = options.load(version)
        told = {name: one.default for name, one in data.environment.items()}
        told |= {dest: one.default for dest, one in data.by_dest.items()}

        assert [name for name, default in told.items() if _RANDOM.search(json.dumps(default))] == [], version
    drawn = options.load(NEWEST).environment["VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME"]

    assert drawn.default == {"repr": "computed"}


def test_data_that_is_damaged_or_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken file is named with what makes it anew; so is a folder without data."""
    monkeypatch.setenv("VLLM_RUNBOOKS_DATA", str(tmp_path))
    (tmp_path / "catalog" / "releases").mkdir(parents=True)

    with pytest.raises(InputError, match="holds no release data"):
        options.load("0.19.0")

    options._files.cache_clear()
    (tmp_path / "catalog" / "releases" / "0.19.0.json").write_text('{"set": []}', encoding="utf-8")
    with pytest.raises(InputError, match=re.escape("0.19.0.json: is no release data")):
        options.load("0.19.0")


def test_loading_a_release_takes_milliseconds() -> None:
    """The newest release, which all files are read for, is loaded in less than 60 ms of a fresh process's own time."""
    code = (
        "import time; from vllm_runbooks import options; t = time.process_time(); "
        f"d = options.load({NEWEST!r}); d.entries, d.environment, d.objects; print(time.process_time() - t)"
    )
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]

    assert min(times) < 0.06


def test_files_hold_no_paths_of_the_host_and_no_help() -> None:
    """What was generated says nothing of the machine that generated it."""
    for path in options.releases_dir().glob("0.*.json"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(?:root|home|work|mnt|opt)/|/tmp/\w", text), path.name
        assert '"help"' not in text
        assert json.loads(text)["version"] == path.stem
