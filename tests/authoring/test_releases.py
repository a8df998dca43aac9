"""The generator of release data: files between their neighbours, and facts from sources."""

from __future__ import annotations

import ast
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from vllm_runbooks.authoring import releases
from vllm_runbooks.authoring.commands import releases as releases_cli
from vllm_runbooks.authoring.releases import supported
from vllm_runbooks.authoring.releases.bounds import argument_bounds
from vllm_runbooks.authoring.releases.call_sites import Reworded
from vllm_runbooks.catalog import options
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


def test_only_changed_wordings_are_listed() -> None:
    """A line per added or removed one; the others are counted, and listed on request."""
    lone = Reworded("a.c", "Never said")
    changed = (Reworded("a.b", "Hello", is_printed=True), Reworded("a.b", "Bye", is_printed=False))
    added = releases.Added("0.34.0", 1, (), (lone,), changed)

    told = list(releases_cli._wordings(added, are_listed=False))

    assert told == [
        "0.34.0 now prints this wording of a.b: Hello",
        "0.34.0 no longer prints this wording of a.b: Bye",
        "wordings in the catalog that no known release prints: 1; --unworded lists them",
    ]
    assert list(releases_cli._wordings(added, are_listed=True))[2:] == [
        "no known release prints this wording of a.c: Never said"
    ]
    assert list(releases_cli._wordings(releases.Added("0.34.0", 1, ()), are_listed=False)) == []


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
