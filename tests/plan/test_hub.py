"""Models of the Hub: the real client reads configurations and headers from a stand-in server."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from command_line import run
from hub_server import COMMIT, StandInHub, StandInModel, serve_hub
from vllm_runbooks.catalog import load
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.host import model_cache
from vllm_runbooks.plan import hub as hub_files
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.drafts import DraftModel
from vllm_runbooks.plan.hub import HubAccess
from vllm_runbooks.plan.planned import plan
from vllm_runbooks.plan.reading import OTHER_FILES

constants = pytest.importorskip("huggingface_hub.constants")

NAME = "acme/tiny-llama"
HIDDEN, INNER, LAYERS, VOCABULARY = 256, 512, 2, 1000
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER,
    "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
    "vocab_size": VOCABULARY, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "rope_theta": 10000.0,
}  # fmt: skip
_WIDTHS = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "F8_E4M3": 1}
Tensors = dict[str, tuple[str, tuple[int, ...]]]


def weights(tensors: Tensors) -> bytes:
    """A safetensors file of zeros."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        size = _WIDTHS[dtype]
        for side in shape:
            size *= side
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


def tensors_of(index: int) -> Tensors:
    """Tensors of a layer."""
    shapes = {
        "self_attn.q_proj": (256, HIDDEN), "self_attn.k_proj": (128, HIDDEN), "self_attn.v_proj": (128, HIDDEN),
        "self_attn.o_proj": (HIDDEN, 256), "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN),
        "mlp.down_proj": (HIDDEN, INNER), "input_layernorm": (HIDDEN,), "post_attention_layernorm": (HIDDEN,),
    }  # fmt: skip
    return {f"model.layers.{index}.{name}.weight": ("BF16", shape) for name, shape in shapes.items()}


ENDS: Tensors = {
    "model.embed_tokens.weight": ("BF16", (VOCABULARY, HIDDEN)),
    "lm_head.weight": ("BF16", (VOCABULARY, HIDDEN)),
    "model.norm.weight": ("BF16", (HIDDEN,)),
}


def model(config: Mapping[str, object] = CONFIG, tensors: Tensors | None = None) -> StandInModel:
    """A repository with one weights file."""
    every = {**ENDS, **tensors_of(0), **tensors_of(1)} if tensors is None else tensors
    return StandInModel({"config.json": json.dumps(config).encode(), "model.safetensors": weights(every)})


def sharded() -> StandInModel:
    """The same model in two files with an index."""
    shards = {
        f"model-0000{number}-of-00002.safetensors": part
        for number, part in enumerate(({**ENDS, **tensors_of(0)}, tensors_of(1)), start=1)
    }
    index = {
        "metadata": {"total_size": 1},
        "weight_map": {name: file for file, part in shards.items() for name in part},
    }
    return StandInModel({
        "config.json": json.dumps(CONFIG).encode(),
        "model.safetensors.index.json": json.dumps(index).encode(),
        **{file: weights(part) for file, part in shards.items()},
        "consolidated.safetensors": weights({"all": ("BF16", (9999,))}),
    })  # fmt: skip


@pytest.fixture(params=[False, True], ids=["one host", "redirect"])
def hub(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StandInHub]:
    """A running stand-in, which the client in this process uses; the user's caches are empty."""
    with serve_hub(has_cdn=request.param) as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.address)
        template = running.address + "/{repo_id}/resolve/{revision}/{filename}"
        for module in ("huggingface_hub.constants", "huggingface_hub.file_download"):
            name = f"{module}.HUGGINGFACE_CO_URL_TEMPLATE"
            monkeypatch.setattr(name, template, raising=False)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.delenv("HF_HUB_OFFLINE")
        monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
        monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
        monkeypatch.setattr(model_cache, "our_cache", lambda: tmp_path / "ours")
        yield running


one_host = pytest.mark.parametrize("hub", [False], indirect=True)


def in_folder(repository: StandInModel, folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, content in repository.files.items():
        (folder / name).write_bytes(content)
    return folder


def planned_gib(name: str, access: HubAccess = HubAccess.NETWORK) -> float | None:
    """Planned weights on one GPU."""
    made = plan(planner.request(name, "L40S", tp=1, vllm="0.33.0", access=access))
    return next(term.expected_gib for term in made.per_gpu[0].terms if term.name == "weights")


@pytest.mark.parametrize("repository", [model, sharded])
def test_a_model_of_the_hub_equals_its_folder(hub: StandInHub, tmp_path: Path, repository: object) -> None:
    """Headers give the bytes of the complete files, and no weights are read."""
    made = hub.models[NAME] = repository()  # type: ignore[operator]
    found = planner.model(NAME, access=HubAccess.NETWORK)
    local = planner.model(str(in_folder(made, tmp_path / "local")))

    if repository is model:
        assert (
            found.checkpoint_bytes
            == local.checkpoint_bytes
            == sum(map(_size, ({**ENDS, **tensors_of(0)}, tensors_of(1))))
        )
    assert found.config == local.config
    assert found.name == NAME
    assert found.source == "config.json and safetensors headers from the Hub, revision 0123456"
    assert planned_gib(NAME) == planned_gib(str(tmp_path / "local"))
    assert hub.sent <= 3 * (1 << 16)


def _size(tensors: Tensors) -> int:
    file = weights(tensors)
    return len(file) - 8 - int.from_bytes(file[:8], "little")


def test_a_token_stays_with_the_hub(hub: StandInHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other host of the weight files gets none, and no file of the cache has it."""
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecret")
    hub.models[NAME] = model()
    hub.models[NAME].is_gated = True
    planner.model(NAME, access=HubAccess.NETWORK)

    by_host = {
        is_cdn: {token for _, _, path, token in hub.requests if path.startswith("/cdn") is is_cdn}
        for is_cdn in (True, False)
    }
    assert "Bearer hf_secretsecret" in by_host[False]
    assert by_host[True] <= {None}
    assert all(b"hf_secret" not in path.read_bytes() for path in model_cache.our_cache().rglob("*") if path.is_file())


def _refused(**more: object) -> str:
    with pytest.raises(InputError) as refused:
        planner.model(NAME, access=HubAccess.NETWORK, **more)  # type: ignore[arg-type]
    line = str(refused.value)
    assert "\n" not in line
    assert len(line) < 300
    return line


@one_host
def test_a_gated_or_missing_model_is_one_line(hub: StandInHub) -> None:
    """The line has the reason and what to do."""
    assert "unknown model: 127.0.0.1" in _refused()
    assert "set HF_TOKEN" in _refused()
    hub.models[NAME] = model()
    hub.models[NAME].is_gated = True
    assert "the repository is gated; accept its license on 127.0.0.1" in _refused()
    assert "does not have this revision; correct --revision" in _refused(options={"revision": "v9"})
    assert "not a branch, tag or commit" in _refused(options={"revision": "../../etc"})
    hub.models[NAME] = StandInModel({"model.gguf": b"GGUF"})
    assert "the repository has no config.json" in _refused()
    hub.status = 500
    assert "cannot be read" in (line := _refused()) or "HTTP 500" in line


@one_host
@pytest.mark.parametrize(
    ("content", "base"),
    [
        (b'{"base_model_name_or_path": "Qwen/Qwen3-8B", "peft_type": "LORA"}', "Qwen/Qwen3-8B"),
        (b'{"base_model_name_or_path": "/data/a model"}', "its base model"),
        (b'{"base_model_name_or_path": null}', "its base model"),
        (b"[", "its base model"),
    ],
)
def test_an_adapter_names_its_base(hub: StandInHub, content: bytes, base: str) -> None:
    """A LoRA repository has no config.json; its adapter_config.json names the model to plan."""
    hub.models[NAME] = StandInModel({"adapter_config.json": content, "adapter_model.safetensors": b""})
    assert _refused() == f"{NAME}: an adapter of {base} (adapter_config.json); plan {base} with --enable-lora"


@one_host
def test_a_diffusers_pipeline_is_named(hub: StandInHub) -> None:
    """It was converted from nothing, so no other model is asked for."""
    hub.models[NAME] = StandInModel({"model_index.json": b"{}"})
    assert _refused() == (
        f"{NAME}: a diffusers pipeline (model_index.json); vllm serve loads language models with a config.json"
    )


@one_host
def test_an_unreadable_hub_is_explained_without_class_names(hub: StandInHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A captive portal's page, an address without https://, and a closed port, each with what to check."""
    hub.models[NAME] = model()
    hub.page = b"<html>Sign in</html>"
    portal = _refused()
    assert "cannot be read: its answer is not the Hub's, as behind a captive portal or proxy; check the net" in portal
    monkeypatch.setattr(constants, "ENDPOINT", "foo")
    scheme = _refused()
    assert "HF_ENDPOINT is no address of the Hub; begin it with https://, or unset it" in scheme
    with pytest.raises(InputError) as refused:
        hub_files._in_time(lambda _: _connect_to_closed_port(), NAME, "127.0.0.1:1")
    closed = str(refused.value)
    assert "127.0.0.1:1 cannot be read (Connection refused); check the network and" in closed
    assert not re.search(r"\w(?:Error|Protocol)\b", portal + scheme + closed)


def _connect_to_closed_port() -> model_cache.CachedModel:
    """Fail as the client does."""
    from huggingface_hub import utils

    utils.get_session().get("http://127.0.0.1:1", timeout=5)
    raise AssertionError("unreachable")


@one_host
def test_a_near_name_is_suggested(hub: StandInHub) -> None:
    """A name that neither the Hub nor the catalog has, also if the Hub cannot be read."""
    with pytest.raises(InputError, match=r"Qwen/Qwen3-8BB: unknown model.*similar: Qwen/Qwen3-8B"):
        planner.model("Qwen/Qwen3-8BB", access=HubAccess.NETWORK)
    assert hub.requests
    hub.models["Qwen/Qwen3-8BB"] = model()
    hub.cuts = "config.json"
    with pytest.raises(
        InputError, match=r"Qwen/Qwen3-8BB: unknown model, and .* cannot be read.*similar: Qwen/Qwen3-8B"
    ):
        planner.model("Qwen/Qwen3-8BB", access=HubAccess.NETWORK)


@one_host
def test_a_revision_is_read(hub: StandInHub) -> None:
    """`--revision` names a branch, and each revision keeps its own files."""
    hub.models[NAME] = model()
    hub.models[NAME].revisions["wide"] = "f" * 40
    found = planner.model(NAME, {"revision": "wide"}, access=HubAccess.NETWORK)
    assert found.source is not None
    assert found.source.endswith("revision fffffff")
    assert planner.cached_model(NAME, {"revision": "wide"}) is not None
    assert planner.cached_model(NAME) is None


@pytest.mark.parametrize(
    ("file", "content", "line"),
    [
        ("model.safetensors", b"\x00\x00\x00\x00\x00\x01\x00\x00{}", "declares a header of 1099511627776 bytes"),
        ("model.safetensors", b"\x08\x00\x00\x00\x00\x00\x00\x00{}", "on the Hub is damaged or cut off"),
        ("model.safetensors", b"", "header of model.safetensors on the Hub is damaged"),
        ("model.safetensors", weights({"a": ("F32", (4, 4))})[:-1], "bytes on the Hub, but its header says"),
        ("model.safetensors.index.json", b"[]", "is not a safetensors index"),
        ("model.safetensors.index.json", b'{"weight_map": {"a": "../../x"}}', "is not a safetensors index"),
        ("model.safetensors.index.json", b'{"weight_map": {"a": "b.safetensors"}}', "lacks 1 of the 1 files"),
        (
            "model.safetensors.index.json",
            json.dumps({"weight_map": {str(number): f"{number}.safetensors" for number in range(2001)}}).encode(),
            "its weights are in 2001 files, more than the 2000 allowed",
        ),
        ("config.json", b"[1]", "contains no JSON object"),
    ],
)  # fmt: skip
@one_host
def test_a_hostile_file_is_one_line(hub: StandInHub, file: str, content: bytes, line: str) -> None:
    """A damaged, huge or incomplete header or index."""
    hub.models[NAME] = model()
    hub.models[NAME].files[file] = content
    assert line in _refused()


@one_host
def test_a_huge_index_is_not_downloaded(hub: StandInHub) -> None:
    """The size that the Hub lists decides."""
    hub.models[NAME] = sharded()
    hub.models[NAME].sizes["model.safetensors.index.json"] = 1 << 30
    assert "has 1073741824 bytes, more than the 67108864 allowed" in _refused()


@one_host
def test_a_file_of_unlisted_size_is_read_up_to_the_limit(hub: StandInHub) -> None:
    """The rest of it stays on the Hub."""
    hub.models[NAME] = model()
    hub.models[NAME].sizes["config.json"] = None
    hub.models[NAME].files["config.json"] = b" " * 9_000_000
    hub.ignores_ranges = True
    assert "config.json has 8000001 bytes, more than the 8000000 allowed" in _refused()


@one_host
def test_a_short_file_is_not_kept(hub: StandInHub) -> None:
    """A file without its end is read again by the next plan."""
    hub.models[NAME] = model()
    hub.models[NAME].sizes["config.json"] = 9000
    assert "config.json has 9000 bytes on the Hub, " in _refused()
    del hub.models[NAME].sizes["config.json"]
    assert planner.model(NAME, access=HubAccess.NETWORK).checkpoint_bytes


@one_host
def test_shards_without_an_index_are_limited(hub: StandInHub) -> None:
    """2,000 weight files, also without an index that names them."""
    hub.models[NAME] = StandInModel({"config.json": b"{}", **{f"{number}.safetensors": b"" for number in range(2001)}})
    assert "its weights are in 2001 files, more than the 2000 allowed" in _refused()


@one_host
def test_a_deeply_nested_configuration_is_one_line(hub: StandInHub) -> None:
    """Python's limit of recursion is a fault of the file."""
    hub.models[NAME] = model()
    hub.models[NAME].files["config.json"] = b'{"a":' * 200_000
    assert "config.json: invalid JSON" in _refused()


@one_host
def test_mistrals_copy_of_the_weights_is_not_counted(hub: StandInHub, tmp_path: Path) -> None:
    """A repository with the same weights in two formats and no index, on the Hub and in a folder."""
    both = model()
    plain = planned_gib(str(in_folder(both, tmp_path / "plain")))
    both.files["consolidated.safetensors"] = both.files["model.safetensors"]
    hub.models[NAME] = both
    size = planner.model(NAME, access=HubAccess.NETWORK).checkpoint_bytes
    local = in_folder(both, tmp_path / "both")
    assert planner.model(str(local)).checkpoint_bytes == size
    assert planned_gib(str(local)) == plain
    (local / "model.safetensors").unlink()
    assert planner.model(str(local)).checkpoint_bytes == size


@one_host
def test_a_download_folder_is_a_cache(hub: StandInHub, tmp_path: Path) -> None:
    """`--download-dir` names the cache that plan, lint and diagnose read."""
    place = model_cache.place(NAME, tmp_path)
    in_folder(model(), place / "snapshots" / COMMIT)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(COMMIT)
    options = {"download_dir": str(tmp_path)}
    assert planner.cached_model(NAME) is None
    assert planner.cached_model(NAME, options) is not None
    assert model_cache.cached_config(NAME, options) is not None
    assert planner.model(NAME, options).is_downloaded
    assert hub.requests == []


@one_host
def test_a_long_header_is_read_whole(hub: StandInHub) -> None:
    """Also from a server that ignores ranges, of whose file no more than the header is read."""
    tensors: Tensors = {f"model.layers.0.mlp.experts.{index}.up_proj.weight": ("BF16", (1,)) for index in range(2000)}
    hub.models[NAME] = model(tensors={**tensors, "big": ("BF16", (1 << 23,))})
    hub.ignores_ranges = True
    assert planner.model(NAME, access=HubAccess.NETWORK).checkpoint_bytes == 2 * (2000 + (1 << 23))
    assert hub.sent < 1 << 23


@one_host
def test_a_slow_or_cut_off_server_is_one_line(hub: StandInHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that sends byte after byte."""
    hub.models[NAME] = model()
    monkeypatch.setattr(hub_files, "_DEADLINE_S", 1.5)
    hub.cuts = "model.safetensors"
    assert re.search(r"127.0.0.1:\d+ cannot be read(?: \(.*\))?; check the network and HF_ENDPOINT", _refused())
    hub.cuts, hub.drips = "", True
    begin = time.monotonic()
    assert "did not send the model's files in 1.5 s" in _refused()
    assert time.monotonic() - begin < 5
    hub.drips, hub.delay_s = False, 30
    assert "did not send the model's files in 1.5 s" in _refused()
    hub.delay_s = 0
    assert planner.model(NAME, access=HubAccess.NETWORK).checkpoint_bytes


@one_host
def test_the_cache_is_read_first(hub: StandInHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A complete copy of vLLM's needs no network; a plan's headers serve when the Hub does not answer."""
    cache = model_cache.hub_cache()
    assert cache is not None
    place = model_cache.place(NAME, cache)
    in_folder(model(), place / "snapshots" / COMMIT)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(COMMIT)
    found = planner.model(NAME, access=HubAccess.NETWORK)
    assert found.source == "config.json and safetensors headers from this host's cache of the Hub, revision 0123456"
    assert hub.requests == []

    (place / "snapshots" / COMMIT / "model.safetensors").unlink()
    hub.status = 503
    monkeypatch.setattr(hub_files, "_DEADLINE_S", 1)
    assert planner.model(NAME, access=HubAccess.NETWORK).source == (
        "config.json from this host's cache of the Hub, revision 0123456"
    )
    hub.status, hub.models[NAME] = 0, model()
    monkeypatch.setattr(hub_files, "_DEADLINE_S", 60)
    size = planner.model(NAME, access=HubAccess.NETWORK).checkpoint_bytes
    hub.requests.clear()
    cached = planner.cached_model(NAME)
    assert cached is not None
    assert cached.checkpoint_bytes == size
    assert hub.requests == []


@one_host
def test_offline_the_hub_is_not_asked(hub: StandInHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--offline` also ignores caches; each refusal names the reason."""
    hub.models[NAME] = model()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "not in this host's cache of the Hub; HF_HUB_OFFLINE is set" in _refused()
    monkeypatch.delenv("HF_HUB_OFFLINE")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "huggingface_hub", None)
        patch.setattr("vllm_runbooks.core.extras.find_spec", lambda _: None)
        assert "run: pip install 'vllm-runbooks[hub]'" in _refused()
    assert [path for _, _, path, _ in hub.requests if "models" in path] == []
    planner.model(NAME, access=HubAccess.NETWORK)
    with pytest.raises(InputError, match="unknown model"):
        planner.model(NAME, access=HubAccess.NONE)


@pytest.fixture
def modelscope(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StandInHub]:
    """A running stand-in of ModelScope; the Hub is not reachable."""
    with serve_hub() as running:
        monkeypatch.setenv("VLLM_USE_MODELSCOPE", "True")
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.delenv("HF_HUB_OFFLINE")
        monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
        monkeypatch.setattr(model_cache, "modelscope", lambda _: running.address)
        monkeypatch.setattr(model_cache, "our_cache", lambda: tmp_path / "ours")
        yield running


@pytest.mark.parametrize("repository", [model, sharded])
def test_a_model_of_modelscope_equals_its_folder(modelscope: StandInHub, tmp_path: Path, repository: object) -> None:
    """With VLLM_USE_MODELSCOPE files are listed and read by ModelScope's API, without the Hub's token."""
    made = modelscope.models[NAME] = repository()  # type: ignore[operator]
    found = planner.model(NAME, access=HubAccess.NETWORK)

    assert found.config == planner.model(str(in_folder(made, tmp_path / "local"))).config
    assert found.source == "config.json and safetensors headers from ModelScope, revision 0123456"
    assert planned_gib(NAME) == planned_gib(str(tmp_path / "local"))
    assert modelscope.sent <= 3 * (1 << 16)
    assert {token for *_, token in modelscope.requests} == {None}
    assert planner.model(NAME, access=HubAccess.CACHE).config == found.config


def test_errors_of_modelscope_are_one_line(modelscope: StandInHub) -> None:
    """An unknown model or revision, and an answer that is no list of files."""
    unknown = r"does not have it; correct the name or --revision"
    with pytest.raises(InputError, match=unknown):
        planner.model(NAME, access=HubAccess.NETWORK)
    modelscope.models[NAME] = model()
    with pytest.raises(InputError, match=unknown):
        planner.model(NAME, {"revision": "v9"}, access=HubAccess.NETWORK)
    modelscope.models[NAME].files.clear()
    modelscope.status = 200
    with pytest.raises(InputError, match=r"sent no list of files for revision main"):
        planner.model(NAME, access=HubAccess.NETWORK)


def test_the_address_of_modelscope() -> None:
    """MODELSCOPE_DOMAIN replaces the Chinese site; without VLLM_USE_MODELSCOPE there is none."""
    uses = {"VLLM_USE_MODELSCOPE": "True"}
    assert model_cache.modelscope({}) is None
    assert model_cache.modelscope(uses) == "https://www.modelscope.cn"
    assert model_cache.modelscope(uses | {"MODELSCOPE_DOMAIN": "www.modelscope.ai"}) == "https://www.modelscope.ai"


@one_host
def test_python_reads_the_hub_on_request(hub: StandInHub) -> None:
    """By default a plan in Python reads only the catalog and the caches."""
    hub.models[NAME] = model()
    with pytest.raises(InputError, match="unknown model"):
        planner.plan_model(NAME, "L40S", tp=1)
    assert hub.requests == []
    with pytest.raises(InputError, match="'web' is unknown; use network, cache, none"):
        planner.plan_model(NAME, "L40S", tp=1, access="web")
    assert planner.plan_model(NAME, "L40S", tp=1, access="network").fits


@one_host
def test_a_separate_quantization_file_counts(hub: StandInHub) -> None:
    """ModelOpt's own file is read if config.json has no quantization."""
    hub.models[NAME] = model()
    quantization = {
        "quant_algo": "NVFP4",
        "group_size": 16,
        "kv_cache_quant_algo": "FP8",
        "exclude_modules": ["lm_head"],
    }
    told = {"producer": {"name": "modelopt", "version": "0.29"}, "quantization": quantization}
    hub.models[NAME].files["hf_quant_config.json"] = json.dumps(told).encode()
    found = planner.model(NAME, access=HubAccess.NETWORK).shape.quantization
    assert found is not None
    assert (found.method, found.kv_cache, found.formats[0][1].bits) == ("modelopt", "fp8", 4)


@one_host
def test_the_command_uses_the_environment(hub: StandInHub) -> None:
    """`HF_ENDPOINT` and `HF_TOKEN` are the client's; the text names the source, and no output the token."""
    hub.models[NAME] = sharded()
    hub.models[NAME].is_gated = True
    variables = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment = {**variables, "HF_ENDPOINT": hub.address, "HF_TOKEN": "hf_secretsecret"}
    command = [sys.executable, "-m", "vllm_runbooks", "plan", NAME, "--gpus", "L40S", "--explain"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    text = " ".join(ran.stdout.split())
    assert "Planned from config.json and safetensors headers from the Hub, revision 0123456." in text
    assert "hf_secret" not in ran.stdout + ran.stderr
    assert ran.stderr == ""


def test_the_headers_decide_what_is_quantized(hub: StandInHub) -> None:
    """A module that the configuration does not exempt, but the files have unquantized, counts with its size."""
    scheme = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    config = {**CONFIG, "quantization_config": scheme}
    layers: Tensors = {}
    for name, (_, shape) in {**tensors_of(0), **tensors_of(1)}.items():
        is_linear = len(shape) == 2
        layers[name] = ("F8_E4M3" if is_linear else "F32", shape)
        if is_linear:
            layers[f"{name}_scale_inv"] = ("F32", (shape[0] // 128, shape[1] // 128))
    unused: Tensors = {
        f"model.layers.{name}": ("F32", (999, 999)) for name in ("2.mtp.weight", "0.self_attn.attn.bias")
    }
    hub.models[NAME] = model(config, {**ENDS, **layers, **unused})
    listed = planner.model(NAME, access=HubAccess.NETWORK)
    assert listed.unlisted == 0

    plain = {name: ("BF16", shape) for name, (_, shape) in layers.items() if "mlp" in name and not name.endswith("inv")}
    hub.models["acme/mixed"] = model(config, {**ENDS, **layers, **plain})
    mixed = planner.model("acme/mixed", access=HubAccess.NETWORK)
    assert mixed.unlisted == LAYERS * 3 * HIDDEN * INNER
    made, base = (planned_gib(name) for name in ("acme/mixed", NAME))
    assert made is not None
    assert base is not None
    assert made - base == pytest.approx(mixed.unlisted / 2**30)


@pytest.mark.parametrize(
    ("stored", "layers", "text"),
    [
        ((0, 1), 2, ""),
        ((0, 1, 2), 2, ""),
        ((), 2, ""),
        ((0, 1), 3, "lacks layer 2 of the 3 in config.json"),
        ((0, 1), 8, "lacks layers 2 to 7 of the 8 in config.json"),
        ((0, 2), 4, "lacks 2 layers from layer 1 on of the 4 in config.json"),
    ],
)
def test_layers_that_the_files_lack_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stored: tuple[int, ...], layers: int, text: str
) -> None:
    """A configuration with more layers than the headers gets a note; more layers in the files are for other uses."""
    tensors = {name: tensor for layer in stored for name, tensor in tensors_of(layer).items()}
    made = model({**CONFIG, "num_hidden_layers": layers}, {**ENDS, **tensors})
    for name, content in made.files.items():
        (tmp_path / name).write_bytes(content)
    shown = " ".join(run(capsys, "plan", str(tmp_path), "--gpus", "L40S", "--vllm", "0.33.0", "--offline")[1].split())
    assert ("The checkpoint lacks" in shown) is bool(text)
    assert text in shown


@one_host
def test_an_incomplete_model_of_the_catalog_is_completed(hub: StandInHub) -> None:
    """The Hub has the whole configuration; without an answer the catalog's part is used."""
    known = next(file.id for file in load.specs().files if file.is_partial)
    part = planner.model(known, access=HubAccess.NETWORK)
    assert part.is_partial
    assert hub.requests
    hub.models[known] = model()
    whole = planner.model(known, access=HubAccess.NETWORK)
    assert (whole.name, whole.is_partial, whole.is_downloaded) == (known, False, True)

    complete = next(file.id for file in load.specs().files if not file.is_partial)
    hub.requests.clear()
    assert not planner.model(complete, access=HubAccess.NETWORK).is_downloaded
    assert hub.requests == []


@one_host
@pytest.mark.parametrize(
    ("status", "what"),
    [
        (0, "127.0.0.1.* does not have it; correct the name, or set HF_TOKEN if it is private"),
        (401, "answered with HTTP 401; check HF_TOKEN"),
        (403, "answered with HTTP 403; check HF_TOKEN"),
        (404, "does not have it; correct the name or --revision"),
        (503, "answered with HTTP 503"),
    ],
)
def test_a_hub_that_was_not_read_is_noted(
    hub: StandInHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int, what: str
) -> None:
    """A plan by a part of the configuration says in one line what the Hub answered, and what to do."""
    known = "01-ai/Yi-34B-Chat"
    monkeypatch.setattr(hub_files, "_DEADLINE_S", 2)
    hub.status = status
    words = ("plan", known, "--gpus", "2xA100-80GB", "--format", "json")
    (note, *_) = json.loads(run(capsys, *words)[1])["notes"]
    assert note["text"].startswith("The catalog has a part of this model's configuration, and 127.0.0.1")
    assert re.search(what, note["text"]), note
    assert note["text"].endswith("--offline plans without the Hub.")
    assert "part of" not in run(capsys, *words, "--offline")[1]


@one_host
def test_a_revision_of_a_known_model_is_read(hub: StandInHub, capsys: pytest.CaptureFixture[str]) -> None:
    """The catalog has the default revision: another one is the Hub's, and offline the difference is noted."""
    known = "Qwen/Qwen3-8B"
    assert not planner.model(known, access=HubAccess.NETWORK).is_downloaded
    words = ("plan", known, "--gpus", "H100-80GB", "--format", "json", "--revision", "wide")
    (note,) = json.loads(run(capsys, *words, "--offline")[1])["notes"]
    default = "The catalog has this model's configuration at the default revision, not at that of --revision, and"
    assert note["text"] == f"{default} --offline reads no other."
    assert planner.model(known, {"revision": "wide"}).unread.endswith("no cache of this host has another")

    hub.models[known] = model()
    status, _, error = run(capsys, *words)
    assert (status, "does not have this revision; correct --revision" in error) == (2, True)
    hub.models[known].revisions["wide"] = "f" * 40
    assert planner.model(known, {"revision": "wide"}, access=HubAccess.NETWORK).layer_bytes
    document = json.loads(run(capsys, *words)[1])
    assert "from the Hub, revision fffffff" in document["summary"]
    assert document["notes"] == []


@one_host
@pytest.mark.parametrize("method", ["awq", "gptq"])
def test_zero_points_are_not_a_difference(hub: StandInHub, method: str) -> None:
    """GPTQ's files have them, and the order of the channels, whether they are used or not."""
    scheme = {"quant_method": method, "bits": 4, "group_size": 32, "sym": True, "desc_act": False}
    layers: Tensors = {}
    for name, (dtype, shape) in {**tensors_of(0), **tensors_of(1)}.items():
        module = name.removesuffix(".weight")
        if len(shape) == 1:
            layers[name] = (dtype, shape)
            continue
        rows, columns = shape
        layers[f"{module}.qweight"] = ("I32", (columns // 8, rows))
        layers[f"{module}.qzeros"] = ("I32", (columns // 32, rows // 8))
        layers[f"{module}.scales"] = ("F16", (columns // 32, rows))
        layers[f"{module}.g_idx"] = ("I32", (columns,))
    hub.models[NAME] = model({**CONFIG, "quantization_config": scheme}, {**ENDS, **layers})
    found = planner.model(NAME, access=HubAccess.NETWORK)
    assert found.shape.quantization is not None
    assert sum(found.layer_bytes.values()) > 0
    assert found.unlisted == 0


def test_a_model_without_attention_heads_is_not_planned(tmp_path: Path) -> None:
    """Zero heads, which no attention has, are an unknown size."""
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "num_attention_heads": 0}), encoding="utf-8")
    with pytest.raises(InputError, match="cannot be planned; unknown: num_attention_heads"):
        planner.plan_model(str(tmp_path), "L40S", tp=1)


@one_host
def test_an_unknown_architecture_is_named(hub: StandInHub) -> None:
    """With the size of the weights, which the headers have."""
    hub.models[NAME] = model({**CONFIG, "model_type": "new", "architectures": ["NewForCausalLM"]})
    with pytest.raises(InputError, match=r"unknown: architecture NewForCausalLM; its files have 0\.00 GiB of weights"):
        planner.plan_model(NAME, "L40S", tp=1, access="network")


@pytest.mark.slow
@one_host
def test_each_complete_model_of_the_catalog_is_planned_from_the_hub(hub: StandInHub) -> None:
    """Under a name that the catalog lacks it has the same layers; an unknown class is named."""
    unknown = set()
    for file in load.specs().files:
        if file.is_partial:
            continue
        name = f"copy-{file.id}"
        config = {key: value for key, value in file.config.items() if key not in OTHER_FILES}
        files = {key: value for key, value in file.config.items() if key in OTHER_FILES} | {"config": config}
        contents = {f"{key}.json": json.dumps(value).encode() for key, value in files.items()}
        hub.models[name] = StandInModel({**contents, "model.safetensors": weights(ENDS)})
        found, known = planner.model(name, access=HubAccess.NETWORK), planner.model(file.id)
        assert found.shape == known.shape, file.id
        if not found.shape.pattern:
            with pytest.raises(InputError, match="unknown: architecture ") as named:
                plan(planner.request(name, "H100", tp=1, access=HubAccess.NETWORK))
            unknown.add(re.split("[;,]", str(named.value).partition("architecture ")[2])[0])
    assert unknown == UNKNOWN_CLASSES


UNKNOWN_CLASSES = {"DeepseekV4ForCausalLM with model_type deepseek_ref"}
"""That of checkpoints with a `model_type` that vLLM rejects."""


@one_host
def test_a_draft_model_of_the_hub_is_planned(hub: StandInHub) -> None:
    """Its tensors' names are those of its headers; a draft model that the Hub lacks stays unknown."""
    arguments = [
        "--speculative-config",
        json.dumps({"method": "draft_model", "model": NAME, "num_speculative_tokens": 3}),
    ]

    def planned() -> DraftModel | None:
        made = planner.request("Qwen/Qwen3-8B", "L40S", arguments=arguments, access=HubAccess.NETWORK)
        return made.model.draft

    assert planned() is None
    hub.models[NAME] = model()
    found = planned()
    assert found is not None
    assert found.has("lm_head")
    assert not found.has("vision")
