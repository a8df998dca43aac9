"""Rules for options that a release lacks, and the changes they offer."""

from __future__ import annotations

import time

import pytest

from rows import in_one_test
from vllm_runbooks.catalog import options
from vllm_runbooks.core.excerpt import applied
from vllm_runbooks.lint import knowledge, option_rules
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.reading import arguments, deployment, documents
from vllm_runbooks.reading.shell import Word

TABLES = knowledge.knowledge().tables


def hits(text: str, vllm: str) -> list[Hit]:
    """The issues of the option rules in a script."""
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


@in_one_test(
    ("vllm", "before", "after"),
    [
        # Keys of a JSON option: dotted if the release reads them, else in one value.
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
        # An object with dotted keys keeps its keys.
        ("0.16.0", "--override-pooler-config.pooling_type MEAN", "--pooler-config.pooling_type MEAN"),
        ("0.16.0", "--task embed", "--runner pooling"),
        ("0.16.0", "--task draft", "--task draft"),
        # The option stays, the spelling went.
        ("0.11.0", "--no-disable-mm-preprocessor-cache --seed 1", "--seed 1"),
        (
            "0.33.0",
            """-O '{"cudagraph_mode": "NONE"}'""",
            """--compilation-config '{"cudagraph_mode": "NONE"}'""",
        ),
        # Several values, and flags without a value.
        ("0.16.0", "--cuda-graph-sizes 1 2 4", "--cudagraph-capture-sizes 1 2 4"),
        ("0.10.2", "--num-scheduler-steps=8 --seed 1", "--seed 1"),
        # A value that the new option rejects is not written.
        ("0.16.0", "--tp two", "--tp two"),
        ("0.16.0", "--max-modle-len abc", "--max-modle-len abc"),
        # The opposite is not suggested.
        ("0.32.0", "--disable-log-request", "--disable-log-request"),
        # A switch has a separate boolean word.
        ("0.19.0", "--enforce-eager True --seed 1", "--enforce-eager --seed 1"),
        ("0.19.0", "--trust-remote-code false --seed 1", "--seed 1"),
        ("0.19.0", "--enable-prefix-caching off", "--no-enable-prefix-caching"),
        ("0.19.0", "--enforce-eager maybe", "--enforce-eager maybe"),
        # docker's own options are left for their writer to move.
        ("0.16.0", "--shm-size 8g", "--shm-size 8g"),
        # Read as -n with a value, but intended as llama.cpp's option.
        ("0.16.0", "-ngl 99 --seed 1", "--seed 1"),
    ],
)
def test_an_option_becomes_one_that_the_release_accepts(vllm: str, before: str, after: str) -> None:
    """The release's parser accepts the change, or there is none."""
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
def test_the_history_of_a_name_selects_the_rule(vllm: str, words: str, expected: set[str]) -> None:
    """A name may be removed, restored, planned, or read as an abbreviation."""
    assert expected == {hit.rule for hit in hits(f"vllm serve /m {words}\n", vllm)}


def test_only_options_of_the_release_are_suggested() -> None:
    """A release between two forms of an option has neither."""
    says = {
        vllm: hits("vllm serve /m --attention-backend FLASHINFER\n", vllm)[0].says.get("instead")
        for vllm in ("0.11.0", "0.8.5")
    }

    assert says == {"0.11.0": "VLLM_ATTENTION_BACKEND", "0.8.5": "VLLM_ATTENTION_BACKEND"}
    assert "instead" not in hits("vllm serve /m --mm-encoder-tp-mode data\n", "0.7.3")[0].says


def test_a_comment_may_be_about_another_program() -> None:
    """Only former options of vLLM are reported in comments, as hints."""
    text = "# ray stop --force; torchrun --nproc-per-node 2\n# was: --swap-space 4\nvllm serve /m\n"

    assert [(hit.rule, hit.is_loose) for hit in hits(text, "0.19.0")] == [("option.removed", True)]


@in_one_test(
    ("vllm", "words", "expected", "after"),
    [
        # Repeated: the later one counts, the earlier one is removed with its values.
        ("0.19.0", "--max-model-len 4096 --seed 1 --max-model-len 8192",
         [("option.duplicate", "--max-model-len", {"first": "1"})], "--seed 1 --max-model-len 8192"),
        ("0.19.0", "--seed 1 --seed 2 --seed 3",
         [("option.duplicate", "--seed", {"first": "1"}), ("option.duplicate", "--seed", {"first": "3"})], "--seed 3"),
        # Another spelling of the name, with its value in the same word or the next.
        ("0.19.0", "--max_model_len 4096", [("option.underscore", "--max_model_len", {"option": "--max-model-len"})],
         "--max-model-len 4096"),
        ("0.19.0", "--max_model_len=4096", [("option.underscore", "--max_model_len=4096",
         {"written": "--max_model_len"})],
         "--max-model-len=4096"),
        ("0.19.0", "--compilation_config.cudagraph_mode NONE",
         [("option.underscore", "--compilation_config.cudagraph_mode", {})],
         "--compilation-config.cudagraph_mode NONE"),
        ("0.19.0", "--max-model-l 4096", [("option.abbreviation", "--max-model-l", {"full": "--max-model-len"})],
         "--max-model-len 4096"),
        ("0.19.0", "--max-modle-len 4096",
         [("option.unknown", "--max-modle-len", {"nearest": "--max-model-len", "option": "--max-modle-len",
         "vllm": "0.19.0"})],
         "--max-model-len 4096"),
        ("0.19.0", "--max-modle-len=4096", [("option.unknown", "--max-modle-len=4096", {"written": "--max-modle-len"})],
         "--max-model-len=4096"),
        ("0.19.0", "--chat-templat x", [("option.ambiguous", "--chat-templat", {})], None),
        ("0.19.0", "--port8000", [("option.unknown", "--port8000", {"option": "--port8000"})], None),
        # A switch with a value: the switch alone, its contrary, or neither.
        ("0.19.0", "--enforce-eager=true", [("option.unexpected-value", "--enforce-eager=true", {"value": "true"})],
         "--enforce-eager"),
        ("0.19.0", "--enforce-eager=FALSE --seed 1",
         [("option.unexpected-value", "--enforce-eager=FALSE", {"value": "FALSE"})],
         "--no-enforce-eager --seed 1"),
        ("0.19.0", "--no-enable-prefix-caching=no", [("option.unexpected-value", "--no-enable-prefix-caching=no", {})],
         "--enable-prefix-caching"),
        ("0.19.0", "--enforce-eager=maybe", [("option.unexpected-value", "--enforce-eager=maybe", {})], None),
        ("0.19.0", "--enforce_eager=true",
         [("option.underscore", "--enforce_eager=true", {}), ("option.unexpected-value", "--enforce_eager=true", {})],
         "--enforce-eager"),
        ("0.19.0", "--no-enforce-eager true", [("option.extra-positional", "true", {"switch": "--no-enforce-eager"})],
         "--no-enforce-eager"),
        ("0.19.0", "--no-enable-prefix-caching off", [("option.extra-positional", "off", {})],
         "--enable-prefix-caching"),
        # Values.
        ("0.19.0", "--dtype bfloat61", [("option.wrong-choice", "bfloat61", {"near": "bfloat16"})], "--dtype bfloat16"),
        ("0.19.0", "--dtype=bfloat61 --seed 1", [("option.wrong-choice", "--dtype=bfloat61", {"at": "8"})],
         "--dtype=bfloat16 --seed 1"),
        ("0.19.0", "--dtype zzz", [("option.wrong-choice", "zzz", {"value": "zzz", "written": "--dtype"})], None),
        ("0.19.0", "--max-model-len", [("option.missing-value", "--max-model-len", {"expected": "one value"})], None),
        ("0.19.0", "a b", [("option.extra-positional", "a", {"model": "/m"}),
         ("option.extra-positional", "b", {"model": "/m"})], None),
        ("0.19.0", "--max-num-seqs 0", [("option.refused-value", "0",
         {"bound": "at least 1", "written": "--max-num-seqs"})], None),
        ("0.19.0", "--limit-mm-per-prompt image=4", [("option.bad-json", "image=4", {"value": "image=4"})], None),
        # Names of another program: with its values, in one word or two.
        ("0.16.0", "--ctx-size 4096", [("option.foreign", "--ctx-size",
         {"program": "llama.cpp", "instead": "--max-model-len"})],
         "--max-model-len 4096"),
        ("0.16.0", "--ctx-size=4096", [("option.foreign", "--ctx-size=4096", {"written": "--ctx-size"})],
         "--max-model-len=4096"),
        ("0.16.0", "--tp 2 3",
         [("option.foreign", "--tp", {"program": "SGLang"}), ("option.extra-positional", "3", {"model": "/m"})],
         "--tensor-parallel-size 2 3"),
        # Names of former releases.
        ("0.16.0", "--task=embed", [("option.removed", "--task=embed",
         {"last": "0.12.0", "gone": "0.13.0", "instead": "--runner"})],
         "--runner=pooling"),
        ("0.16.0", "--task", [("option.removed", "--task", {})], None),
        ("0.16.0", "--cuda-graph-sizes=4", [("option.removed", "--cuda-graph-sizes=4", {})],
         "--cudagraph-capture-sizes=4"),
        ("0.10.2", "--num-scheduler-steps --seed 1", [("option.removed", "--num-scheduler-steps", {"gone": "0.10.2"})],
         "--seed 1"),
        ("0.10.2", "--num-scheduler-steps -8 --seed 1", [("option.removed", "--num-scheduler-steps", {})], "--seed 1"),
        ("0.10.2", "--num-scheduler-steps 8 9 --seed 1",
         [("option.removed", "--num-scheduler-steps", {}), ("option.extra-positional", "9", {})], "9 --seed 1"),
        ("0.19.0", "--disable-log-requests", [("option.removed", "--disable-log-requests", {"last": "0.16.0"})], ""),
        ("0.19.0", "--seed 1 --swap-space=4 --max-num-seqs 8", [("option.removed", "--swap-space=4", {})],
         "--seed 1 --max-num-seqs 8"),
        ("0.11.0", "--disable-log-requests --seed 1", [("option.deprecated", "--disable-log-requests", {})], None),
        # Keys of one object: existing keys agree, or nothing is written.
        ("0.16.0", "--guided-decoding-backend=xgrammar",
         [("option.removed", "--guided-decoding-backend=xgrammar", {"instead": "--structured-outputs-config.backend"})],
         "--structured-outputs-config.backend=xgrammar"),
        ("0.8.5", "--num-speculative-tokens=5 --speculative-model=x",
         [("option.removed", "--num-speculative-tokens=5", {}), ("option.removed", "--speculative-model=x", {})],
         """--speculative-config '{"num_speculative_tokens": 5, "model": "x"}'"""),
        ("0.8.5", """--speculative-model x --speculative-config '{"model": "y"}'""",
         [("option.removed", "--speculative-model", {"instead": "--speculative-config.model"})], None),
        ("0.8.5", """--speculative-model x --speculative-config '{"num_speculative_tokens": 5}'""",
         [("option.removed", "--speculative-model", {})],
         """--speculative-config '{"num_speculative_tokens": 5, "model": "x"}'"""),
        ("0.8.5", "--speculative-model $M", [("option.removed", "--speculative-model", {})], None),
    ],
)  # fmt: skip
def test_each_error_has_its_place(
    vllm: str, words: str, expected: list[tuple[str, str, dict[str, str]]], after: str | None
) -> None:
    """The rule, its words, the message, and the fixed command; None: unchanged."""
    text = f"vllm serve /m {words}\n"
    found = hits(text, vllm)

    assert [(hit.rule, text[hit.start : hit.end]) for hit in found] == [(rule, at) for rule, at, _ in expected]
    for hit, (_, _, says) in zip(found, expected, strict=True):
        assert says.items() <= hit.says.items()
    assert fixed(text, vllm).rstrip() == f"vllm serve /m {words if after is None else after}".rstrip()


@pytest.mark.parametrize(
    ("name", "near", "is_clear"),
    [
        ("--max-modle-len", ["--max-model-len"], True),
        ("--len-model-max", ["--max-model-len"], True),
        ("--enable-x-cache", ["--disable-x-cache"], False),
        ("--x-cache", ["--no-x-cache"], False),
        ("--no-x-cach", ["--no-x-cache"], True),
        ("--swap", ["--swap-space"], False),
        # As near to one as to another.
        ("--abcd-x", ["--abcd-y", "--abcd-z"], False),
        ("--abcdefgh-xy", ["--abcdefgh-xyz", "--abcdefgh"], True),
    ],
)
def test_a_name_is_corrected_to_one_clearly_nearest_name(name: str, near: list[str], *, is_clear: bool) -> None:
    """The same words or nearly the same letters, and never the opposite."""
    assert option_rules._is_clear(name, near) is is_clear


@pytest.mark.parametrize(
    ("text", "is_value"),
    [("4", True), ("x", True), ("", True), (None, True), ("-", True), ("-1", True), ("-.5", True), ("-x", False),
    ("--x", False), ("--", False)],
)  # fmt: skip
def test_values_after_an_unknown_option(text: str | None, *, is_value: bool) -> None:
    """A negative number is a value, and so is an unknown word."""
    assert option_rules._is_value(text) is is_value


def word(value: str | None, at: list[int] | None) -> Word:
    return Word(value, 10, 20, "", at=at)


@pytest.mark.parametrize(
    ("value", "at", "length", "expected"),
    [
        ("abc", [10, 11, 12], 3, [(10, 13, "new")]), ("abc", [10, 11, 12], 2, [(10, 12, "new")]),
        ("abc", [10, 11, 12], 1, [(10, 11, "new")]), ("abc", [10, 11, 12], 0, []), ("abc", [10, 11, 12], 4, []),
        ("abc", [10, 12, 13], 1, [(10, 11, "new")]), ("abc", [10, 12, 13], 2, []), ("abc", None, 1, []),
    ],
)  # fmt: skip
def test_the_beginning_of_a_word_is_replaced(
    value: str, at: list[int] | None, length: int, expected: list[tuple[int, int, str]]
) -> None:
    """If its characters are adjacent in the file."""
    assert [tuple(edit) for edit in option_rules.renamed(word(value, at), length, "new")] == expected


@pytest.mark.parametrize(
    ("value", "at", "start", "new", "expected"),
    [
        ("abc", [10, 11, 12], 0, "new", [(10, 13, "new")]), ("abc", [10, 11, 12], 2, "new", [(12, 13, "new")]),
        ("abc", [10, 11, 12], 3, "new", []), ("abc", [10, 12, 13], 0, "new", []),
         ("abc", [10, 12, 13], 1, "new", [(12, 14, "new")]),
        ("abc", [10, 11], 0, "new", []), ("abc", None, 0, "new", []), ("abc", [10, 11, 12], 0, "a b", []),
        ("abc", [10, 11, 12], 0, "", []), ("abc", [10, 11, 12], 0, "x" * 400, [(10, 13, "x" * 400)]),
        ("abc", [10, 11, 12], 0, "x" * 401, []),
    ],
)  # fmt: skip
def test_the_end_of_a_word_is_replaced(
    value: str, at: list[int] | None, start: int, new: str, expected: list[tuple[int, int, str]]
) -> None:
    """With text that needs no quotes in any language."""
    assert [tuple(edit) for edit in option_rules.put(word(value, at), start, new)] == expected


@pytest.mark.slow
def test_many_errors_cost_no_more_than_their_number() -> None:
    """For thousands of unknown options no change is tried for each."""
    text = "vllm serve /m " + "--ray-namespace x --max-modle-len 3 " * 2000
    begin = time.process_time()

    assert len(hits(text, "0.19.0")) == 4000
    assert time.process_time() - begin < 20
