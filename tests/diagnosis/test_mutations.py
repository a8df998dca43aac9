"""Randomly damaged logs are read quickly and without an exception."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from vllm_runbooks import render
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.lint import knowledge
from vllm_runbooks.reading import evidence

SEED = 20261120
MOST_SECONDS = 1.0
LOGS = [
    path.read_bytes()
    for path in sorted([*folders.cases_dir().glob("*/*.log"), *(Path(__file__).parents[1] / "logs").glob("*.log")])
]
Mutation = Callable[[bytes, random.Random], bytes]


def cut(log: bytes, chance: random.Random) -> bytes:
    """Only a part of it, from any byte to any byte."""
    start, end = sorted(chance.randrange(len(log) + 1) for _ in range(2))
    return log[start:end]


def splice(log: bytes, chance: random.Random) -> bytes:
    """The beginning of one log and the end of another, joined inside of a line."""
    other = chance.choice(LOGS)
    return log[: chance.randrange(len(log) + 1)] + other[chance.randrange(len(other)) :]


def interleave(log: bytes, chance: random.Random) -> bytes:
    """The lines of two logs, each in its order."""
    queues = [log.splitlines(keepends=True), chance.choice(LOGS).splitlines(keepends=True)]
    mixed = []
    while all(queues):
        queue = chance.choice(queues)
        taken = chance.randrange(1, 5)
        mixed += queue[:taken]
        del queue[:taken]
    return b"".join([*mixed, *queues[0], *queues[1]])


PREFIXES: list[Callable[[int, bytes], bytes]] = [
    lambda _, line: b"vllm-1  | " + line,
    lambda n, line: b"2026-11-20T08:%02d:%02d.123456789Z " % (n // 60 % 60, n % 60) + line,
    lambda n, line: b"2026-11-20T08:%02d:%02d.123456789Z stderr F " % (n // 60 % 60, n % 60) + line,
    lambda n, line: b"Nov 20 08:%02d:%02d host vllm[812]: " % (n // 60 % 60, n % 60) + line,
    lambda _, line: b"[pod/vllm-0/server] " + line,
    lambda _, line: b"> " + line,
    lambda _, line: b"    " + line,
    lambda _, line: b"0: " + line,
    lambda n, line: b"\x1b[36m(RayWorkerWrapper pid=%d)\x1b[0m " % (n % 3) + line,
    lambda _, line: json.dumps({"log": line.decode("utf-8", "replace"), "stream": "stderr"}).encode() + b"\n",
]


def prefix(log: bytes, chance: random.Random) -> bytes:
    """As something that carries logs hands it on."""
    carried = chance.choice(PREFIXES)
    return b"".join(carried(number, line) for number, line in enumerate(log.splitlines(keepends=True)))


def flip(log: bytes, chance: random.Random) -> bytes:
    """Some bytes are others."""
    damaged = bytearray(log)
    for _ in range(chance.randrange(1, 2 + len(damaged) // 50)):
        if damaged:
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged)


def swell(log: bytes, chance: random.Random) -> bytes:
    """One line, or a part of one, is repeated without a line's end until it is huge."""
    lines = log.splitlines(keepends=True) or [b"\n"]
    index = chance.randrange(len(lines))
    start = chance.randrange(len(lines[index]))
    piece = lines[index][start : start + chance.choice((1, 2, 7, 40, 4000))].replace(b"\n", b"") or b" "
    lines[index] = (piece * (200_000 // len(piece)))[: chance.choice((5000, 70_000, 200_000))] + lines[index]
    return b"".join(lines)


def glue(log: bytes, chance: random.Random) -> bytes:
    """Line ends are lost, or have become something else."""
    return log.replace(b"\n", chance.choice((b"", b" ", b"\r", b"\r\n", b"\n\n", b"\\n", b"\x00")))


def encode(log: bytes, chance: random.Random) -> bytes:
    """Encode the text differently, or declare a wrong encoding."""
    text = log.decode("utf-8", "replace")
    encoding = chance.choice(("utf-16", "utf-16-le", "gb18030", "utf-8-sig", "mojibake"))
    return log.decode("latin-1").encode("utf-8") if encoding == "mojibake" else text.encode(encoding)


def shuffle(log: bytes, chance: random.Random) -> bytes:
    """Lines out of order, as from several writers without a lock."""
    lines = log.splitlines(keepends=True)
    for _ in range(len(lines) // 4):
        one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[one], lines[two] = lines[two], lines[one]
    return b"".join(lines)


def read(raw: bytes) -> str | None:
    """The text, or None if the bytes are rejected as binary."""
    with contextlib.suppress(InputError):
        return evidence.decode(raw, "damaged.log")
    return None


MUTATIONS: list[Mutation] = [cut, splice, interleave, prefix, flip, swell, glue, encode, shuffle]


@pytest.mark.parametrize(
    "count",
    [
        20,
        pytest.param(100, marks=pytest.mark.slow),
        pytest.param(10_000, marks=pytest.mark.full),
    ],
)
def test_damaged_logs_are_read(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    """No exception except for binary data, at most a second each; a third are diagnosed."""
    chance = random.Random(SEED)  # noqa: S311 - repeatable, not secret
    shelf = catalog.load_catalog()
    told: Counter[str] = Counter()
    knowledge.knowledge()  # compiled and read once, in the first run of a process
    slowest = 0.0
    for number in range(count):
        raw = chance.choice(LOGS)
        names = []
        for mutation in chance.choices(MUTATIONS, k=chance.randrange(1, 4)):
            raw = mutation(raw, chance)[:400_000]
            names.append(mutation.__name__)
        text = read(raw)
        if text is None:
            told["refused"] += 1
            continue
        spent = MOST_SECONDS
        for _ in range(3):  # other users of the machine's caches cost processor time as well
            begun = time.process_time()
            answer = diagnosing.diagnose(Evidence((Document("damaged.log", read(raw) or ""),)), catalog=shelf)
            json.loads(render.to_json(answer))
            assert render.answers.text(answer).replace("\n", "").isprintable()
            spent = min(spent, time.process_time() - begun)
            if spent < MOST_SECONDS:
                break
        slowest = max(slowest, spent)
        assert spent < MOST_SECONDS, f"mutation {number} ({', '.join(names)}) took {spent:.2f} s"
        told["finding" if answer.findings else "nothing"] += 1

    with capsys.disabled():
        print(f"\n{count} damaged logs: {dict(told)}, slowest {slowest:.2f} s")
    assert told["finding"] >= 0.3 * count
