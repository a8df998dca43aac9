"""Layers of models with memory for their cache, and the results of vLLM's own planning code.

As a program it records the results of a Python's vLLM for the specifications, without a GPU:

    python tests/kv_specifications.py PYTHON            add or replace the answers of that release
    python tests/kv_specifications.py --draw            draw new specifications (drops all results)
    PYTHON tests/kv_specifications.py --answer < FILE   results of a Python with vLLM, as JSON

With `--answer` only vLLM and the standard library are imported.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import lzma
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

RECORDED = Path(__file__).parent / "benchmarks" / "kv_plans.json.xz"
SEED = 7
MIXES = 300
MODELS = 120
COMPRESSED = 16
_NAMED = 656
"""Bytes of a token in the named packed form."""

Specification = dict[str, Any]
"""`forms`: layers as fields of KvLayer; `stages`: of each pipeline stage its layers in order, as indices of forms;
`demand`: fields of Demand; `available`: bytes of each stage; `kind`: kind of the draw."""
Answer = dict[str, Any]
"""`groups` (layers of each, sorted), `blocks`, `tokens`, `concurrency`; or `short` if the startup check fails: the
longest context in its message (null: none); or `refused` (another error); or `unknown` (the release lacks
such a form)."""


# ---- drawing


class _Draw:
    """Draws specifications; the same seed draws the same."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - drawn to be repeated

    def mix(self) -> Specification:
        """Layers of a random mix."""
        draw = self.random
        kind = draw.choice(sorted(_MIXES))
        self.heads, self.size = draw.choice([1, 2, 4, 8]), draw.choice([64, 96, 128, 256])
        self.bytes = draw.choice([2, 2, 1])
        self.length = draw.choice([2048, 4096, 8192, 32768, 131072, 100_000, 777])
        demand = {
            "max_model_len": self.length,
            "batched_tokens": draw.choice([512, 2048, 8192, 16384]),
            "concurrent_batches": draw.choice([1, 2, 3]),
            "encoder_tokens": draw.choice([448, 1500]),
            "state_mode": "none",
            "mixes_groups": draw.random() < 0.8,
        }
        self.mode = draw.choice(["none", "align", "all"]) if kind.startswith("state") else "none"
        demand["state_mode"] = self.mode
        layers = _MIXES[kind](self)
        if kind.startswith(("values", "blocks")):
            demand["mixes_groups"] = draw.random() < 0.4
        if kind.startswith("hybrid") and draw.random() < 0.3:
            demand["retained_tokens"] = draw.choice([1, 3, 40])
        if kind in ("full", "sizes", "latent") and draw.random() < 0.3:
            demand |= {"decode_shards": draw.choice([1, 2, 4]), "prefill_shards": draw.choice([1, 2])}
        if draw.random() < 0.1:
            demand["blocks_override"] = draw.randint(100, 20_000)
        forms: list[dict[str, Any]] = []
        for layer in layers:
            if layer not in forms:
                forms.append(layer)
        order = [forms.index(layer) for layer in layers]
        stages = self.stages(order) if draw.random() < 0.35 else [order]
        available = [int(2 ** draw.uniform(27, 36.5)) for _ in stages]
        return {"kind": kind, "forms": forms, "stages": stages, "demand": demand, "available": available}

    def stages(self, order: list[int]) -> list[list[int]]:
        """Layers cut into two to four stages."""
        count = min(self.random.choice([2, 3, 4]), len(order))
        cuts = sorted(self.random.sample(range(1, len(order)), count - 1))
        return [order[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(order)], strict=True)]

    def form(self, kind: str, **fields: Any) -> dict[str, Any]:
        sizes = {"heads": self.heads, "key_size": self.size, "value_bytes": self.bytes}
        return {"kind": kind, "block_tokens": 16, **sizes, **fields}

    def sliding(self, **fields: Any) -> dict[str, Any]:
        return self.form("sliding", **{"window": self.random.choice([128, 512, 1024, 4096]), **fields})

    def many(self, form: dict[str, Any], most: int = 24) -> list[dict[str, Any]]:
        return [form] * self.random.randint(1, most)

    def shuffled(self, *parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        layers = [layer for part in parts for layer in part]
        if self.random.random() < 0.5:
            self.random.shuffle(layers)
        return layers

    def full(self) -> list[dict[str, Any]]:
        return self.many(self.form("full"), 80)

    def sizes(self) -> list[dict[str, Any]]:
        return self.shuffled(self.many(self.form("full")), self.many(self.form("full", key_size=self.size * 2), 9))

    def values(self) -> list[dict[str, Any]]:
        full = self.many(self.form("full", value_size=self.size // 2))
        if self.random.random() < 0.3:
            return full
        other = self.sliding() if self.random.random() < 0.6 else self.form("chunked", chunk=512)
        return self.shuffled(full, self.many({**other, "value_size": self.size // 2}))

    def blocks(self) -> list[dict[str, Any]]:
        """Windows in smaller blocks than full attention, and full attention that has a window all the same."""
        full = self.form("full", block_tokens=32)
        layers = self.shuffled(self.many(self.sliding()), self.many(full))
        return self.shuffled(layers, self.many({**full, "window": 512}, 9)) if self.random.random() < 0.5 else layers

    def states(self) -> list[dict[str, Any]]:
        state = {"kind": "state", "block_tokens": self.length, "state_bytes": 4096}
        return self.shuffled(self.many(state), self.many({**state, "state_bytes": 12_288}))

    def hybrid(self) -> list[dict[str, Any]]:
        heads = self.heads * self.random.choice([1, 2, 4])
        return self.shuffled(self.many(self.sliding(heads=heads), 50), self.many(self.form("full")))

    def uneven(self) -> list[dict[str, Any]]:
        can_pad = self.random.random() < 0.5
        sliding = self.sliding(key_size=self.size * 3 // 2, can_pad=can_pad)
        return self.shuffled(self.many(sliding), self.many(self.form("full", can_pad=can_pad)))

    def windows(self) -> list[dict[str, Any]]:
        full = self.many(self.form("full"), 5) if self.random.random() < 0.8 else []
        return self.shuffled(self.many(self.sliding(window=512), 9), self.many(self.sliding(window=1024), 9), full)

    def chunked(self) -> list[dict[str, Any]]:
        chunk = self.random.choice([512, 8192])
        return self.shuffled(self.many(self.form("chunked", chunk=chunk), 36), self.many(self.form("full")))

    def latent(self) -> list[dict[str, Any]]:
        latent = self.many(self.form("latent", heads=1, key_size=576), 61)
        indexer = self.form("latent", heads=1, key_size=132, value_bytes=1)
        return latent + [indexer] * len(latent) if self.random.random() < 0.4 else latent

    def beside_latent(self) -> list[dict[str, Any]]:
        return self.many(self.form("latent", heads=1, key_size=576)) + self.many(self.sliding(), 9)

    def state(self) -> list[dict[str, Any]]:
        content = self.random.randint(1, 40) * 4096
        token = self.heads * 2 * self.size * self.bytes
        block = 16 * -(-content // (16 * token))
        state = {
            "kind": "state",
            "block_tokens": self.length if self.mode == "none" else block,
            "state_bytes": content,
            "padded_bytes": block * token,
            "speculative_blocks": self.random.choice([0, 0, 1]),
        }
        layers = self.shuffled(self.many(state, 40), self.many(self.form("full", block_tokens=block)))
        if self.random.random() < 0.3:
            layers += self.many(self.form("full", block_tokens=block, heads=self.heads * 2), 2)
        return layers

    def cross(self) -> list[dict[str, Any]]:
        layers = self.many(self.form("full"))
        return layers + [self.form("cross")] * len(layers)


_MIXES = {
    "full": _Draw.full,
    "sizes": _Draw.sizes,
    "values": _Draw.values,
    "values again": _Draw.values,
    "blocks": _Draw.blocks,
    "blocks again": _Draw.blocks,
    "states": _Draw.states,
    "hybrid": _Draw.hybrid,
    "hybrid again": _Draw.hybrid,
    "uneven": _Draw.uneven,
    "windows": _Draw.windows,
    "chunked": _Draw.chunked,
    "latent": _Draw.latent,
    "beside latent": _Draw.beside_latent,
    "state": _Draw.state,
    "state again": _Draw.state,
    "cross": _Draw.cross,
}


def _of_models(draw: random.Random, count: int, organization: str = "", **cache: Any) -> Iterator[Specification]:
    """Models of the catalog with random splits and caches, in forms of any release."""
    from vllm_runbooks.catalog import options, specs
    from vllm_runbooks.catalog.authored import spec_files
    from vllm_runbooks.plan.kv_layers import CacheOptions, kv_layers
    from vllm_runbooks.plan.shape import shape
    from vllm_runbooks.plan.weights import Ranks
    from vllm_runbooks.plan.weights import stages as stage_layers

    files = sorted(specs.load(spec_files.compile_specs).files, key=lambda file: file.id)
    files = [file for file in files if file.id.startswith(organization)]
    left = count
    while left:
        file, version = draw.choice(files), draw.choice(options.known_releases())
        found = shape(file.config, is_partial=file.is_partial)
        length, stages = draw.choice([4096, 32768, 131072]), draw.choice([1, 1, 1, 2, 4])
        asked = CacheOptions(
            length,
            tensor_parallel=draw.choice([1, 2, 4, 8]),
            stage_layers=stage_layers(found.layers, Ranks(pipeline=stages), options.version_key(version))
            if stages > 1
            else (),
            cache_dtype=draw.choice(["auto", "auto", "fp8"]),
            capability=draw.choice([(8, 0), (8, 9), (9, 0), (10, 0)]),
            caches_prefixes=draw.choice([None, True, False]),
            speculative_tokens=draw.choice([0, 0, 0, 1]),
            **cache,
        )
        made = kv_layers(found, asked, version)
        if made.missing or not all(made.stages):
            continue
        left -= 1
        forms = list(dict.fromkeys(form for stage in made.stages for form in stage))
        yield {
            "kind": f"{file.id} as in {version}",
            "forms": [_told(form) for form in forms],
            "stages": [
                [forms.index(form) for form, each in stage.items() for _ in range(each)] for stage in made.stages
            ],
            "demand": {
                "max_model_len": length,
                "batched_tokens": draw.choice([2048, 8192]),
                "concurrent_batches": draw.choice([1, 2]),
                "encoder_tokens": 1500,
                "state_mode": made.state_mode,
                "mixes_groups": made.mixes_groups and draw.random() < 0.9,
            },
            "available": [int(2 ** draw.uniform(30, 37)) for _ in made.stages],
        }


def _told(form: Any) -> dict[str, Any]:
    """A layer's fields with other values than the defaults."""
    told = {each.name: getattr(form, each.name) for each in dataclasses.fields(form)}
    kept = {name: value for name, value in told.items() if name in ("kind", "block_tokens") or value}
    return {**kept, "kind": str(form.kind), "value_bytes": form.value_bytes}


def drawn(seed: int = SEED) -> list[Specification]:
    """Random mixes of layers, and the catalog's models."""
    draw = _Draw(seed)
    mixes = [draw.mix() for _ in range(MIXES)]
    return [*mixes, *_of_models(draw.random, MODELS), *compressed(draw.random)]


def compressed(draw: random.Random) -> Iterator[Specification]:
    """DeepSeek V4's latents of several sizes, with and without its draft module."""
    for layers in (0, 1):
        for drawn_one in _of_models(draw, COMPRESSED // 2, "deepseek-ai/DeepSeek-V4", draft_layers=layers):
            # Without the hybrid cache manager, some releases fail.
            yield {**drawn_one, "demand": {**drawn_one["demand"], "mixes_groups": True}}


# ---- comparing


def same(mine: Answer, real: Answer, specification: Specification) -> bool:
    """Whether two results are equal.

    If a launch fails for two reasons, releases report either one; only some print the context that
    would fit, and of several stages the first one without enough memory.
    """
    if "short" in real and ("short" in mine or "refused" in mine):
        is_told = real["short"] is not None and "short" in mine and len(specification["stages"]) == 1
        return not is_told or mine == real
    return mine == real


# ---- our results


def ours(specification: Specification, version: str) -> Answer:
    """The result of our rules for a release."""
    from vllm_runbooks.plan import kv_cache
    from vllm_runbooks.plan.kv_cache import Demand, Kind, KvLayer

    forms = [KvLayer(**{**form, "kind": Kind(form["kind"])}) for form in specification["forms"]]
    stages = []
    for order in specification["stages"]:
        counts: dict[KvLayer, int] = {}
        for index in order:
            counts[forms[index]] = counts.get(forms[index], 0) + 1
        stages.append(counts)
    try:
        pool = kv_cache.pool(stages, Demand(**specification["demand"]), kv_cache.rules(version))
    except kv_cache.KvRefusedError:
        return {"refused": True}
    except kv_cache.KvUnknownError:
        return {"unknown": True}
    available = specification["available"]
    if not pool.fits(available):
        return {"short": pool.longest_context(available)}
    blocks = pool.blocks(available)
    groups = sorted(group.layers for group in pool.groups)
    return {
        "groups": groups,
        "blocks": blocks,
        "tokens": pool.tokens(blocks),
        "concurrency": pool.concurrency(blocks),
    }


# ---- vLLM's results


class _Printed:
    """Replaces the module's logger, and stores the numbers of two lines."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.concurrency: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return self._keep

    def _keep(self, message: Any, *values: Any, **_: Any) -> None:
        if "KV cache size: %s tokens" in str(message):
            self.tokens.append(int(values[0].replace(",", "")))
        if "Maximum concurrency for %s tokens" in str(message):
            self.concurrency.append(float(values[-1]))


def _names(form: type) -> set[str]:
    return {each.name for each in dataclasses.fields(form)}


def _real_form(form: Mapping[str, Any], interface: Any, torch: Any) -> Any:
    """A layer as the release's own class; None if it lacks one."""
    kind = form["kind"]
    by_kind = {
        "full": "FullAttentionSpec",
        "sliding": "SlidingWindowSpec",
        "chunked": "ChunkedLocalAttentionSpec",
        "latent": "MLAAttentionSpec",
        "latent_window": "SlidingWindowMLASpec",
        "cross": "CrossAttentionSpec",
        "state": "MambaSpec",
    }
    made = getattr(interface, by_kind[kind], None)
    if made is None and kind in ("latent", "chunked"):
        # Earlier releases had no classes for these, only fields of this one.
        made = interface.FullAttentionSpec
    if made is None:
        return None
    names = _names(made)
    given: dict[str, Any] = {"block_size": form["block_tokens"], "page_size_padded": form.get("padded_bytes")}
    if kind == "state":
        given |= {
            "shapes": ((form["state_bytes"] // 2,),),
            "dtypes": (torch.bfloat16,),
            "dtype": torch.bfloat16,
            "num_speculative_blocks": form.get("speculative_blocks", 0),
            "num_prefill_checkpoint_blocks": form.get("checkpoint_blocks", 0),
        }
        return made(**{name: value for name, value in given.items() if name in names})
    given |= {
        "num_kv_heads": form["heads"],
        "head_size": form["key_size"],
        "dtype": {1: torch.uint8, 2: torch.bfloat16, 4: torch.float32}[form["value_bytes"]],
        "use_mla": kind == "latent",
        "indexes_kv_by_block_stride": form.get("can_pad", False),
    }
    if kind == "latent_window" or form.get("compression", 1) > 1:
        ratio = form.get("compression", 1)
        given |= {"page_size_padded": None, "alignment": 576, "compress_ratio": ratio, "tokens_per_state": ratio}
        given |= {"cache_dtype_str": "fp8_ds_mla", "sliding_window": form.get("window")}
        if form.get("token_bytes"):
            given |= {"model_version": "deepseek_v4", "state_content_bytes": form["token_bytes"]}
        elif kind == "latent":
            given["cache_dtype_str"] = None
        return made(**{name: value for name, value in given.items() if name in names})
    if form.get("token_bytes"):
        # Packed forms were marked by the dtype's name, later by the bytes.
        given |= {"cache_dtype_str": "fp8_ds_mla", "state_content_bytes": form["token_bytes"]}
        if "state_content_bytes" not in names and (form["token_bytes"] != _NAMED or "cache_dtype_str" not in names):
            return None
    elif kind == "latent":
        # The indexer's cache has no separate dtype name.
        given["cache_dtype_str"] = None if form["key_size"] == 132 else "auto"
    if kind != "latent":
        given["head_size_v"] = form.get("value_size") or form["key_size"]
    if form.get("window"):
        given["sliding_window"] = form["window"]
    if kind == "chunked":
        given["attention_chunk_size"] = form["chunk"]
    return made(**{name: value for name, value in given.items() if name in names})


def _speculation(retained: int) -> Any:
    """Speculative modules that need this many tokens after a window."""
    return SimpleNamespace(
        method="mtp",
        num_speculative_tokens=retained + 1,
        use_multi_module_mtp=lambda: True,
        use_eagle=lambda: False,
        use_eagle_block_drop=lambda: False,
    )


def _real_config(demand: Mapping[str, Any], block_tokens: int, layout: Any) -> Any:
    """The parts of a configuration that vLLM's planning code reads."""
    length, batched, encoder = demand["max_model_len"], demand["batched_tokens"], demand["encoder_tokens"]
    retained = demand.get("retained_tokens", 0)
    return SimpleNamespace(
        scheduler_config=SimpleNamespace(
            disable_hybrid_kv_cache_manager=not demand["mixes_groups"],
            max_num_batched_tokens=batched,
            max_num_encoder_input_tokens=encoder,
            max_num_seqs=8,
        ),
        model_config=SimpleNamespace(
            is_encoder_decoder=True,
            encoder_tokens=encoder,
            max_model_len=length,
            original_max_model_len=length,
            use_mla=False,
            supports_kv_cache_grouping=False,
        ),
        parallel_config=SimpleNamespace(
            decode_context_parallel_size=demand.get("decode_shards", 1),
            prefill_context_parallel_size=demand.get("prefill_shards", 1),
            tensor_parallel_size=1,
            pipeline_parallel_size=1,
        ),
        cache_config=SimpleNamespace(
            block_size=block_tokens,
            num_gpu_blocks_override=demand.get("blocks_override"),
            mamba_cache_mode=demand["state_mode"],
            prefix_cache_retention_interval=0,
            get_resolved_kv_cache_layout=lambda: layout,
            kv_cache_size_tokens=None,
        ),
        attention_config=SimpleNamespace(hisparse_config=None),
        speculative_config=_speculation(retained) if retained else None,
        max_in_flight_tokens=batched * demand["concurrent_batches"],
        num_prefill_lookahead_tokens=retained + 1,
        kv_transfer_config=None,
        device_config=SimpleNamespace(device_type="cuda"),
    )


def _module(name: str) -> Any:
    """A module of this name, if any."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None


class _Release:
    """The planning code of the vLLM that can be imported."""

    def __init__(self) -> None:
        self.torch: Any = import_module("torch")
        self.planning: Any = import_module("vllm.v1.core.kv_cache_utils")
        self.interface: Any = import_module("vllm.v1.kv_cache_interface")
        self.later: Any = _module("vllm.v1.core.kv_cache_planning")
        if hasattr(self.interface, "MULTIMODAL_REGISTRY"):
            registry = SimpleNamespace(get_encdec_max_encoder_len=lambda model: model.encoder_tokens)
            vars(self.interface)["MULTIMODAL_REGISTRY"] = registry
        places = (_module("vllm.v1.kv_cache_layout"), self.interface, self.planning)
        layouts = next((place.KVCacheLayout for place in places if hasattr(place, "KVCacheLayout")), None)
        # The layout of common attention backends, in releases that have several.
        self.layout = layouts and layouts.LBNHC
        self.packed_layout = layouts and layouts.BLHNC

    def answer(self, specification: Specification) -> Answer:
        forms = [_real_form(form, self.interface, self.torch) for form in specification["forms"]]
        if None in forms:
            return {"unknown": True}
        at, stages = 0, []
        for order in specification["stages"]:
            # Some releases change the padding of a layer's form in place.
            stages.append({f"layers.{at + offset}": copy(forms[index]) for offset, index in enumerate(order)})
            at += len(order)
        blocks = [form["block_tokens"] for form in specification["forms"] if form["kind"] != "state"]
        packed = any(form["kind"] == "latent_window" for form in specification["forms"])
        layout = self.packed_layout if packed else self.layout
        config = _real_config(specification["demand"], min(blocks, default=16), layout)
        try:
            return self._planned(config, stages, specification["available"])
        except ValueError as error:
            if not re.search(r"KV\s+cache is needed|No available memory", str(error)):
                return {"refused": True}
            longest = re.search(r"estimated\s+max(?:imum)?\s+model\s+len(?:gth)?\s+is\s+(\d+)", str(error))
            return {"short": int(longest[1]) if longest else None}
        except (NotImplementedError, AssertionError):
            return {"refused": True}

    def _planned(self, config: Any, stages: Sequence[Mapping[str, Any]], available: Sequence[int]) -> Answer:
        planning, printed = self.planning, _Printed()
        planning.logger = printed
        given = [dict(stage) for stage in stages]
        if self.later:
            self.later.logger = printed
            groups = self.later.get_global_kv_cache_groups(config, given)
            plans = self.later.get_kv_cache_configs(config, given, list(available), groups)
        elif hasattr(planning, "get_kv_cache_config"):
            made = zip(given, available, strict=True)
            plans = [planning.get_kv_cache_config(config, stage, have) for stage, have in made]
            planning.unify_kv_cache_configs(plans)
        else:
            plans = planning.get_kv_cache_configs(config, given, list(available))
        if not printed.tokens:
            capacity = planning.get_kv_cache_capacity(config, planning.generate_scheduler_kv_cache_config(plans))
            printed.tokens, printed.concurrency = [capacity[0]], [capacity[1]]
        grouped = [[group.layer_names for group in plan.kv_cache_groups] for plan in plans]
        return {
            "groups": sorted(sum(map(len, names)) for names in zip(*grouped, strict=True)),
            "blocks": plans[0].num_blocks,
            # If each rank prints its own line, the smallest one applies.
            "tokens": min(printed.tokens),
            "concurrency": min(printed.concurrency),
        }


def _answers() -> None:
    """Read specifications from standard input, write the release and its results."""
    logging.disable(logging.CRITICAL)
    out, sys.stdout = sys.stdout, sys.stderr
    specifications = json.load(sys.stdin)
    release = _Release()
    answers = [release.answer(each) for each in specifications]
    json.dump({"vllm": import_module("vllm.version").__version__.partition("+")[0], "answers": answers}, out)


def ask(
    python: str, specifications: Sequence[Specification], environment: dict[str, str] | None = None
) -> tuple[str, list[Answer]]:
    """The release of a Python's vLLM, and its results."""
    done = subprocess.run(
        [python, __file__, "--answer"],
        input=json.dumps(specifications),
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    told = json.loads(done.stdout[done.stdout.index('{"vllm"') :])
    return told["vllm"], told["answers"]


# ---- the record


def recorded() -> tuple[list[Specification], dict[str, list[Answer]]]:
    """The recorded specifications, and the results by release."""
    found = json.loads(lzma.decompress(RECORDED.read_bytes()))
    return found["specifications"], found["answers"]


def _record(specifications: Sequence[Specification], answers: Mapping[str, Sequence[Answer]]) -> None:
    text = json.dumps({"specifications": specifications, "answers": answers}, separators=(",", ":"))
    RECORDED.write_bytes(lzma.compress(text.encode(), preset=9))


def main() -> None:
    """Record one release's answers, or draw the specifications."""
    reader = argparse.ArgumentParser(description=main.__doc__)
    reader.add_argument("python", nargs="?")
    reader.add_argument("--draw", action="store_true")
    reader.add_argument("--answer", action="store_true")
    given = reader.parse_args()
    if given.answer:
        _answers()
    elif given.draw:
        _record(drawn(), {})
    elif given.python:
        specifications, answers = recorded()
        version, told = ask(given.python, specifications)
        _record(specifications, {**answers, version: told})
        print(version)
    else:
        reader.error("name a Python with vLLM, or --draw")


if __name__ == "__main__":
    main()
