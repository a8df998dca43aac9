"""Of many kinds of secrets none is left in any artefact, and harmless text is unchanged."""

from __future__ import annotations

import json
import random
import re
import string
from pathlib import Path

import click
import pytest
from ruamel.yaml import YAML

from test_secret_artefacts import COMMANDS
from vllm_runbooks import cli
from vllm_runbooks.catalog import folders
from vllm_runbooks.core.display import live
from vllm_runbooks.core.redaction import issuers, kinds
from vllm_runbooks.core.redaction.redact import Redactor

ROOT = Path(__file__).parents[2]
SAMPLES = YAML(typ="safe").load(Path(__file__).with_name("secret_samples.yaml").read_text(encoding="utf-8"))


def texts(sample: str) -> dict[str, str]:
    """The sample alone, between lines, and in a notebook's parameter."""
    return {
        "a line": sample,
        "a log": f"INFO 11-01 10:00:00 [api_server.py:1] started\n{sample}\nINFO 11-01 10:00:01 [x.py:2] ready\n",
        "a parameter": "pasted_log = " + json.dumps(f"first line\n{sample}\nlast line", ensure_ascii=False),
        "escaped": "pasted_log = " + json.dumps(f"first line\n{sample}\nlast line"),
    }


def test_no_planted_secret_leaks() -> None:
    """Neither whole nor in part, in a line, a log, and a parameter with escaped line ends."""
    choose = random.Random(1).choices  # noqa: S311 - repeatable
    pieces = ((string.ascii_letters, 6), (string.digits, 4), (string.ascii_letters, 8))
    leaks = []
    for sample in SAMPLES["secrets"]:
        secret = "".join("".join(choose(letters, k=length)) for letters, length in pieces)
        redacted = {place: Redactor().text(text) for place, text in texts(sample.format(secret)).items()}
        leaks += [(place, sample) for place, text in redacted.items() if secret[:8] in text or secret[-6:] in text]
    assert leaks == []


def test_harmless_text_is_unchanged() -> None:
    """What is unset, a reference, a path, a model, a version or a sentence about a secret."""
    changed = [
        (place, redacted)
        for sample in SAMPLES["harmless"]
        for place, text in texts(sample).items()
        if (redacted := Redactor().text(text)) != text
    ]
    assert changed == []


def test_there_are_enough_samples() -> None:
    """At least 150 secrets and 200 harmless texts, none twice."""
    for kind, least in (("secrets", 150), ("harmless", 200)):
        assert len(set(SAMPLES[kind])) == len(SAMPLES[kind]) >= least


@pytest.mark.parametrize(
    "value", ["EMPTY", "Qwen3-8B", "token-abc123", "llama3.1", "sk-none", "vllm-0.19.0", "Passw0rd"]
)
def test_a_common_word_is_replaced_only_where_it_is_a_secret(value: str) -> None:
    """A short word or a model's name once followed `--api-key`: in other text it stays."""
    other = f"\nloading {value} for {value}/weights\n"
    redacted = Redactor().text(f"vllm serve m --api-key {value}{other}")
    assert redacted.endswith(other)
    assert (f"--api-key {value}" in redacted) == (value == "EMPTY")


def test_a_random_value_is_replaced_everywhere() -> None:
    """Unlike a word: it is the same secret in every line."""
    assert "Zk9Qw4x8Rt2Lm6" not in Redactor().text("--api-key Zk9Qw4x8Rt2Lm6\nkeys are Zk9Qw4x8Rt2Lm6 and others")


def test_the_page_of_tests_has_their_counts() -> None:
    """Of samples, kinds, prefixes, artefacts and recorded cases."""
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")

    for text in (
        f"{len(SAMPLES['secrets'])} kinds of planted secrets",
        f"{len(kinds.KINDS)} kinds that their context identifies",
        f"{sum(len(prefixes.split()) for _, prefixes, _ in issuers.ISSUERS)} prefixes of issuers",
        f"{len(COMMANDS) + 1} artefacts",
        f"{len(SAMPLES['harmless'])} harmless texts",
        f"{sum(path.is_dir() for path in folders.cases_dir().iterdir())} recorded cases",
    ):
        assert text in page


def test_the_commands_of_the_security_page_exist() -> None:
    """Each command in its table."""
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    table = page.partition("| command |")[2].partition("\n\n")[0]
    commands = {
        words.split()[0] for row in table.splitlines()[2:] for words in re.findall(r"`([^`]+)`", row.split("|")[1])
    }

    assert commands
    assert commands <= set(cli.commands.list_commands(click.Context(cli.commands)))


def test_a_pasted_text_as_a_name_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Only its first line, shortened: a path has no double slash, so an address with a password is no longer one."""
    text = "INFO started\nhttps://me:Zk9Qw4x8Rt2Lm6Vb1@host.example/\n" * 200

    assert cli.run(["run", "single-gpu-oom", "-p", "evidence", text]) == 2
    err = capsys.readouterr().err
    assert "INFO started" in err
    assert "Zk9Qw4x8Rt2Lm6Vb1" not in err


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 200))])
def test_damaged_and_mixed_secrets_end_no_redaction(seed: int) -> None:
    """Pieces of samples in random order, cut and joined by any sign: no error, and nothing controls a terminal."""
    chance = random.Random(seed)  # noqa: S311 - repeatable
    samples = [
        sample.format("".join(chance.choices(string.ascii_letters, k=12)) + "7x9") for sample in SAMPLES["secrets"]
    ]
    for _ in range(40):
        pieces = chance.sample(samples, 4) + chance.sample(SAMPLES["harmless"], 2)
        pieces = [piece[: chance.randrange(len(piece) + 1)] if chance.random() < 0.3 else piece for piece in pieces]
        text = chance.choice(("\n", " ", "\\n", "\r\n", "\x1b[31m", '"', "\0", "\u202e")).join(pieces)
        redacted = Redactor().text(text)
        assert isinstance(redacted, str)
        assert live(redacted).replace("\x1b", "").replace("\r", "").replace("\t", "").replace("\n", "").isprintable()
