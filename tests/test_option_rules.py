"""What is told of options that a release does not have, and which changes are offered."""

from __future__ import annotations

import time

import pytest

from vllm_runbooks import arguments, deployment, documents, options, session
from vllm_runbooks.excerpt import applied
from vllm_runbooks.lint import option_rules
from vllm_runbooks.lint.hits import Hit

TABLES = session.knowledge().tables


def hits(text: str, vllm: str) -> list[Hit]:
    """What the option rules find in a script."""
    page, data = documents.read(text, "run.sh"), options.load(vllm)
    found: list[Hit] = []
    for start in page.starts:
        words = [word.value for word in start.words]
        parsed = arguments.parse(words, data, deployment.parser_entry(start.entry, words, data))
        found += option_rules.of_start(page, start, parsed, data, TABLES)
    for loose in page.loose:
        found += option_rules.of_loose(loose, data, TABLES)
    return found


def fixed(text: str, vllm: str) -> str:
    """The text with the first change that is offered made, until none is."""
    for _ in range(12):
        edits = next((hit.edits for hit in hits(text, vllm) if hit.edits), ())
        if not edits:
            break
        text = applied(text, edits)
    return text


@pytest.mark.parametrize(
    ("vllm", "before", "after"),
    [
        # Keys of a JSON option: by themselves where the release reads such, else in one value.
        ("0.9.2", "--speculative-model x", "--speculative-config.model x"),
        (
            "0.8.5",
            "--speculative-model x --seed 1 --num-speculative-tokens 5",
            """--seed 1 --speculative-config '{"model": "x", "num_speculative_tokens": 5}'""",
        ),
        (
            "0.16.0",
            """--structured-outputs-config '{"disable_any_whitespace": true}' --guided-decoding-backend xgrammar""",
            """--structured-outputs-config '{"disable_any_whitespace": true, "backend": "xgrammar"}'""",
        ),
        # A key that the release no longer has: nothing takes the option's place.
        ("0.10.2", "--spec-decoding-acceptance-method rejection_sampler --seed 1", "--seed 1"),
        # An object given key by key keeps its keys.
        ("0.16.0", "--override-pooler-config.pooling_type MEAN", "--pooler-config.pooling_type MEAN"),
        ("0.16.0", "--task embed", "--runner pooling"),
        ("0.16.0", "--task draft", "--task draft"),
        # The option stays, the spelling went.
        ("0.11.0", "--no-disable-mm-preprocessor-cache --seed 1", "--seed 1"),
        # Several values, and flags that were given none.
        ("0.16.0", "--cuda-graph-sizes 1 2 4", "--cudagraph-capture-sizes 1 2 4"),
        ("0.10.2", "--num-scheduler-steps=8 --seed 1", "--seed 1"),
        # A value that the new option refuses is not written.
        ("0.16.0", "--tp two", "--tp two"),
        ("0.16.0", "--max-modle-len abc", "--max-modle-len abc"),
        # The opposite is not meant.
        ("0.32.0", "--disable-log-request", "--disable-log-request"),
        # A switch is given a yes or a no as a word of its own.
        ("0.19.0", "--enforce-eager True --seed 1", "--enforce-eager --seed 1"),
        ("0.19.0", "--trust-remote-code false --seed 1", "--seed 1"),
        ("0.19.0", "--enable-prefix-caching off", "--no-enable-prefix-caching"),
        ("0.19.0", "--enforce-eager maybe", "--enforce-eager maybe"),
        # docker's own options are left for their writer to move.
        ("0.16.0", "--shm-size 8g", "--shm-size 8g"),
        # Read as -n with a value, and meant as llama.cpp's.
        ("0.16.0", "-ngl 99 --seed 1", "--seed 1"),
    ],
)
def test_an_option_becomes_what_the_release_takes(vllm: str, before: str, after: str) -> None:
    """What is written is accepted by the release's parser, or nothing is written."""
    assert f"vllm serve /m {after}\n" == fixed(f"vllm serve /m {before}\n", vllm)


@pytest.mark.parametrize(
    ("vllm", "words", "expected"),
    [
        ("0.32.0", "--device cuda", {"option.removed"}),
        ("0.26.0", "--device 0", {"option.abbreviation"}),
        ("0.19.0", "--disable-log-requests", {"option.removed"}),
        ("0.33.0", "--disable-log-requests", set()),
        ("0.11.0", "--nnodes 2", {"option.not-there-yet"}),
        ("0.16.0", "--engine-use-ray", {"option.removed"}),
        ("0.16.0", "--zzz 1", {"option.unknown"}),
    ],
)
def test_the_history_of_a_name_tells_its_rule(vllm: str, words: str, expected: set[str]) -> None:
    """A name may have gone, come back, be still to come, or be read as the beginning of another."""
    assert expected == {hit.rule for hit in hits(f"vllm serve /m {words}\n", vllm)}


def test_only_what_the_release_has_is_named_instead() -> None:
    """A release between two forms of an option is not told of either."""
    says = {
        vllm: hits("vllm serve /m --attention-backend FLASHINFER\n", vllm)[0].says.get("instead")
        for vllm in ("0.11.0", "0.8.5")
    }

    assert says == {"0.11.0": "VLLM_ATTENTION_BACKEND", "0.8.5": "VLLM_ATTENTION_BACKEND"}
    assert "instead" not in hits("vllm serve /m --mm-encoder-tp-mode data\n", "0.7.3")[0].says


def test_a_comment_may_speak_of_another_program() -> None:
    """Unknown and foreign names in comments are not told; vLLM's own former ones are, with reserve."""
    text = "# ray stop --force; torchrun --nproc-per-node 2\n# was: --swap-space 4\nvllm serve /m\n"

    assert [(hit.rule, hit.is_loose) for hit in hits(text, "0.19.0")] == [("option.removed", True)]


def test_many_faults_cost_no_more_than_their_number() -> None:
    """A command of thousands of unknown options is told without trying a change for each."""
    text = "vllm serve /m " + "--ray-namespace x --max-modle-len 3 " * 2000
    begin = time.perf_counter()

    assert len(hits(text, "0.19.0")) == 4000
    assert time.perf_counter() - begin < 20
