"""Groups, blocks, tokens and concurrency of given layers by the rules of a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost import seconds
from rows import in_one_test
from vllm_runbooks.catalog.release_rules import ValueHistory
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan import kv_cache
from vllm_runbooks.plan.kv_cache import Demand, Kind, KvLayer, KvPool, KvRules, pool, rules

GIB = 2**30
_FULL = KvLayer(Kind.FULL, 16, heads=8, key_size=64)
_SLIDING = KvLayer(Kind.SLIDING, 16, heads=8, key_size=64, window=128)
_LATENT = KvLayer(Kind.LATENT, 16, heads=1, key_size=576)
_STATE = KvLayer(Kind.STATE, 4096, state_bytes=30_000, padded_bytes=32_768)
_DEMAND = Demand(max_model_len=4096, batched_tokens=2048)


def _pool(version: str, *stages: dict[KvLayer, int], demand: Demand = _DEMAND) -> KvPool:
    return pool(stages, demand, rules(version))


@pytest.mark.parametrize(
    ("versions", "differs"),
    [
        (("0.8.0", "0.8.5", "v0.8.5.post1"), "0.9.0"),
        (("0.10.1", "0.10.1.1"), "0.10.2"),
        (("0.11.0", "0.11.0rc1"), "0.11.1"),
        (("0.11.1", "0.11.2"), "0.12.0"),
        (("0.19.0", "0.19.1", "0.19.1+cpu"), "0.20.0"),
        (("0.20.1", "0.20.2"), "0.20.0"),
        (("0.29.0", "0.30.0", "0.31.9"), "0.32.0"),
        (("0.33.0", "0.33.7", "0.99", "nightly"), "0.28.0"),
    ],
)
def test_a_version_follows_the_release_before_it(versions: Sequence[str], differs: str) -> None:
    """Versions between two releases have the older one's rules, later ones the newest rules."""
    assert len({str(rules(version)) for version in versions}) == 1
    assert rules(versions[0]) != rules(differs)


def test_an_invalid_version_is_rejected() -> None:
    """The text is named and not replaced by a release."""
    with pytest.raises(InputError, match="'newish' is not a vLLM version"):
        rules("newish")


def test_every_rule_is_changed_by_some_release() -> None:
    """No field of the rules is equal in all releases."""
    assert set(load_table("kv_cache_rules", ValueHistory)) == {each.name for each in fields(KvRules)}


_GPT_OSS = {_SLIDING: 12, _FULL: 12}
_GEMMA_4 = {
    KvLayer(Kind.SLIDING, 16, heads=8, key_size=256, window=1024): 25,
    KvLayer(Kind.FULL, 16, heads=2, key_size=512): 5,
}
_LONG = Demand(max_model_len=131_072, batched_tokens=2048)


@in_one_test(
    ("version", "layers", "demand", "available", "expected"),
    [
        # The logs of two launches, within the rounding of their GiB.
        ("0.19.0", _GPT_OSS, _LONG, 36.56 * GIB, ([12, 12], 393_216, 99_833, 798_656, 11.99)),
        ("0.19.0", _GEMMA_4, _LONG, 21.5 * GIB, ([5] * 6, 655_360, 35_225, 93_920, 6.96)),
        # Releases that count what requests need print more tokens for the same memory; 0.20.0 does not.
        ("0.20.0", _GPT_OSS, _LONG, 36.56 * GIB, ([12, 12], 393_216, 99_833, 798_656, 11.99)),
        ("0.20.2", _GPT_OSS, _LONG, 36.56 * GIB, ([12, 12], 393_216, 99_833, 1_571_054, 11.99)),
        # Asynchronous batches enlarge a window if the release counts them.
        (
            "0.26.0",
            _GPT_OSS,
            replace(_LONG, concurrent_batches=2),
            36.56 * GIB,
            ([12, 12], 393_216, 99_833, 1_547_275, 11.8),
        ),
        # Without the hybrid cache manager a window costs as much as everything.
        (
            "0.19.0",
            _GPT_OSS,
            replace(_LONG, mixes_groups=False),
            36.56 * GIB,
            ([24], 786_432, 49_916, 798_656, 6.09),
        ),
        # Eleven and twelve layers are padded to twelve, ten and fifteen are not before 0.18.
        ("0.12.0", {_SLIDING: 11, _FULL: 12}, _LONG, GIB, ([11, 12], 393_216, 2730, 21_840, 0.33)),
        ("0.17.1", {_SLIDING: 14, _FULL: 10}, _LONG, GIB, ([7, 7, 10], 327_680, 3276, 17_472, 0.39)),
        ("0.18.1", {_SLIDING: 14, _FULL: 10}, _LONG, GIB, ([14, 10], 458_752, 2340, 18_720, 0.28)),
        # A latent and its indexer need the same blocks: one group, pages side by side.
        (
            "0.32.0",
            {_LATENT: 61, KvLayer(Kind.LATENT, 16, heads=1, key_size=132, value_bytes=1): 61},
            _LONG,
            10 * GIB,
            ([122], 1_253_184, 8568, 137_088, 1.05),
        ),
        # Blocks of equal bytes were one kind regardless of their heads.
        (
            "0.9.2",
            {replace(_FULL, heads=2, key_size=256): 25, replace(_FULL, heads=1, key_size=512): 5},
            _DEMAND,
            1_984_300_749,
            ([30], 983_040, 2018, 32_288, 7.88),
        ),
        # The first layer's values counted for all, up to 0.27.
        ("0.27.1", {replace(_FULL, value_size=32): 2, _FULL: 2}, _DEMAND, GIB, ([4], 98_304, 10_922, 174_752, 42.66)),
        ("0.28.0", {replace(_FULL, value_size=32): 2, _FULL: 2}, _DEMAND, GIB, ([4], 114_688, 9362, 149_792, 36.57)),
        # A state is one block of each request.
        (
            "0.19.0",
            {_STATE: 9, replace(_FULL, block_tokens=16): 3},
            _DEMAND,
            GIB,
            ([3, 3, 3, 3], 98_304, 10_922, 43_680, 42.17),
        ),
        # Ranks that share a context hold a part of it each.
        ("0.19.0", {_FULL: 4}, replace(_LONG, decode_shards=2), GIB, ([4], 131_072, 8192, 262_144, 2.0)),
        # The number of blocks can be given.
        ("0.19.0", {_FULL: 4}, replace(_DEMAND, blocks_override=300), GIB, ([4], 131_072, 300, 4800, 1.17)),
    ],
)
def test_memory_becomes_blocks_tokens_and_requests(
    version: str, layers: dict[KvLayer, int], demand: Demand, available: float, expected: tuple[Any, ...]
) -> None:
    """Groups, bytes per block, blocks, printed tokens and concurrency match the release."""
    made = _pool(version, layers, demand=demand)
    blocks = made.blocks([int(available)])
    groups = [group.layers for group in made.groups]
    shown = (groups, made.bytes_per_block[0], blocks, made.tokens(blocks), round(made.concurrency(blocks), 2))
    assert shown == expected


@pytest.mark.parametrize(
    ("layers", "length", "expected"),
    [({_FULL: 28}, 128, (40_269, 644_304, 5033.62)), ({_SLIDING: 14, _FULL: 14}, 128, (40_269, 644_304, 5033.62))],
)
def test_the_older_engine_counts_tokens(layers: dict[KvLayer, int], length: int, expected: tuple[Any, ...]) -> None:
    """V0 keeps all tokens of all layers in one table, and its concurrency is tokens over the longest request."""
    demand = Demand(length, 2048)
    made = pool(
        [{replace(form, heads=1, key_size=128): count for form, count in layers.items()}],
        demand,
        rules("0.7.2", is_v0=True),
    )
    blocks = made.blocks([40_269 * 229_376 + 1])
    assert (blocks, made.tokens(blocks), round(made.concurrency(blocks), 2)) == expected


@pytest.mark.parametrize(
    ("version", "stages", "available", "expected"),
    [
        # The poorest rank decides.
        ("0.19.0", [{_FULL: 10}, {_FULL: 10}], [10 * GIB, 4 * GIB], ((327_680, 327_680), 13_107)),
        # A stage with fewer layers has cheaper blocks.
        ("0.19.0", [{_FULL: 12}, {_FULL: 8}], [4 * GIB, 3 * GIB], ((393_216, 262_144), 10_922)),
        # Groups are dealt out over the model, so each stage has a part of each group.
        (
            "0.19.0",
            [{_SLIDING: 4, _FULL: 2}, {_SLIDING: 2, _FULL: 1}],
            [GIB, GIB],
            ((65_536, 32_768), 16_384),
        ),
        # Up to 0.16 a rank of layers of several sizes paid for the pages of all stages.
        ("0.16.0", [{_FULL: 2}, {replace(_FULL, key_size=128): 2}], [GIB, GIB], ((196_608, 196_608), 5461)),
        ("0.17.1", [{_FULL: 2}, {replace(_FULL, key_size=128): 2}], [GIB, GIB], ((65_536, 131_072), 8192)),
        # Each rank made its own groups up to 0.10, in any order of its layers.
        ("0.10.2", [{_SLIDING: 2, _FULL: 2}, {_FULL: 3, _SLIDING: 3}], [GIB, GIB], ((65_536, 98_304), 10_922)),
    ],
)
def test_every_rank_has_the_blocks_of_the_smallest(
    version: str, stages: list[dict[KvLayer, int]], available: list[int], expected: tuple[tuple[int, ...], int]
) -> None:
    """Each pipeline stage counts its own layers; the smallest number of blocks applies to all."""
    made = _pool(version, *stages)
    assert (made.bytes_per_block, made.blocks(available)) == expected


@pytest.mark.parametrize(
    ("version", "layers", "demand", "reason"),
    [
        ("0.11.2", _GEMMA_4, _DEMAND, "blocks of several sizes"),
        ("0.25.1", {_FULL: 2, replace(_SLIDING, key_size=96): 2}, _DEMAND, "cannot unify"),
        ("0.8.5", {_FULL: 2, replace(_FULL, key_size=128): 2}, _DEMAND, "one kind"),
        ("0.19.0", {_FULL: 2, _STATE: 2}, replace(_DEMAND, mixes_groups=False), "without the hybrid KV cache manager"),
        (
            "0.19.0",
            {_FULL: 2, _SLIDING: 2, replace(_SLIDING, window=256): 2},
            replace(_DEMAND, mixes_groups=False),
            "windows of several sizes",
        ),
    ],
)
def test_layers_that_a_release_rejects_are_rejected(
    version: str, layers: dict[KvLayer, int], demand: Demand, reason: str
) -> None:
    """The release's error replaces the number."""
    with pytest.raises(kv_cache.KvRefusedError, match=reason):
        _pool(version, layers, demand=demand)


@pytest.mark.parametrize(
    ("stages", "by"),
    [
        ([{_STATE: 2}], rules("0.10.2", is_v0=True)),
        ([{replace(_FULL, kind=Kind.CROSS): 2}], rules("0.9.2")),
        ([{_FULL: 2}, {}], rules("0.19.0")),
        ([], rules("0.19.0")),
    ],
)
def test_underived_layouts_are_unknown(stages: list[dict[KvLayer, int]], by: KvRules) -> None:
    """Layers whose handling was not read have neither a number nor an error."""
    with pytest.raises(kv_cache.KvUnknownError):
        pool(stages, _DEMAND, by)


@pytest.mark.parametrize(
    ("version", "available", "expected"),
    [
        # 0.14 to 0.18 only needed the first group's blocks; 0.29 reserves one block.
        ("0.13.0", 12 * 32_768 * (137 + 256), (True, 4096)),
        ("0.18.1", 12 * 32_768 * 137, (True, 4096)),
        ("0.19.0", 12 * 32_768 * (137 + 256) - 1, (False, 4080)),
        ("0.28.0", 12 * 32_768 * (137 + 256), (True, 4096)),
        ("0.29.0", 12 * 32_768 * (137 + 256), (False, 4080)),
        ("0.29.0", 12 * 32_768 * (138 + 256), (True, 4096)),
        ("0.29.0", 0, (False, 0)),
    ],
)
def test_a_launch_needs_room_for_one_request(version: str, available: int, expected: tuple[bool, int]) -> None:
    """The startup check and the longest context that passes it follow the release."""
    made = _pool(version, _GPT_OSS)
    assert (made.fits([available]), made.longest_context([available])) == expected


_VERSIONS = ["0.7.3", "0.10.2", "0.11.0", "0.13.0", "0.16.0", "0.19.0", "0.24.0", "0.29.0", "0.33.0"]


@given(
    version=st.sampled_from(_VERSIONS),
    full=st.integers(1, 40),
    sliding=st.integers(0, 60),
    length=st.integers(1, 200_000),
    available=st.integers(0, 80 * GIB),
)
@settings(max_examples=200, deadline=None)
def test_the_longest_context_is_the_last_that_fits(
    version: str, full: int, sliding: int, length: int, available: int
) -> None:
    """One token more does not fit, unless the limit is reached; and more memory never gives less."""
    layers = {_FULL: full, _SLIDING: sliding} if sliding else {_FULL: full}
    made = _pool(version, layers, demand=replace(_DEMAND, max_model_len=length))
    longest = made.longest_context([available])
    assert longest == 0 or made.fits([available], longest)
    assert longest == length or not made.fits([available], longest + 1)
    assert made.blocks([available]) <= made.blocks([available + GIB])


@pytest.mark.benchmark
def test_a_plan_takes_microseconds() -> None:
    """All figures of a 64-layer model take less than 200 microseconds."""

    def plan(version: str) -> None:
        for _ in range(100):
            made = _pool(version, {_SLIDING: 48, _FULL: 16})
            blocks = made.blocks([GIB])
            made.tokens(blocks)
            made.fits([GIB])

    assert seconds(plan, "0.33.0") / 100 < 200e-6
