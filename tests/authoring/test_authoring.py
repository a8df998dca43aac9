"""A broken catalog file is named by file, line and field; a good one compiles."""

from __future__ import annotations

import random
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from vllm_runbooks.authoring import checks as authoring
from vllm_runbooks.authoring import symptom_trials
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog.authored import compiling, symptom_files, tables
from vllm_runbooks.catalog.authored import located as authored
from vllm_runbooks.catalog.records import Symptom
from vllm_runbooks.core import scan
from vllm_runbooks.core.errors import CatalogError
from vllm_runbooks.core.evidence import Case
from vllm_runbooks.runbooks import case_files

GOOD = """\
id: port.in_use.mine
title: Another port is taken
severity: fatal
signatures:
  - origin: python
    pattern: 'my port (?P<port>\\d{1,5}) is taken'
examples:
  - text: 'OSError: my port 8000 is taken'
    source: ours
    captures: {port: '8000'}
near_misses:
  - text: my port is free
    why: it is not taken
cause: |
  Somebody took it.
explanation:
  - 'Port {port} was asked for.'
  - 'It was taken.'
conditions:
  - says: 'the start failed'
    outcome: [failed]
do_first: Look.
confirm: It is.
refute: It is not.
remedies:
  - title: Take another
    cost: none
    edits:
      - {op: set, name: port, value: 8001}
verified: {date: '2026-11-20'}
"""


def write(folder: Path, text: str | bytes, name: str = "port.in_use.mine") -> Path:
    path = folder / "symptoms" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def problems(path: Path, read: Any = symptom_trials.check_symptom) -> list[str]:
    with pytest.raises(CatalogError) as caught:
        read(path)
    return str(caught.value).splitlines()


def test_a_good_symptom_is_read(tmp_path: Path) -> None:
    """With every field, and its class from its id."""
    read = symptom_trials.check_symptom(write(tmp_path, GOOD))

    assert isinstance(read, Symptom)
    assert (read.id, read.class_, read.remedies[0].edits[0].value) == ("port.in_use.mine", "port.in_use", 8001)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title: Another", "tilte: Another", "2: tilte: is not a known field"),
        ("title: Another port is taken\n", "", "1: title: is missing"),
        ("severity: fatal", "severity: deadly", "3: severity: input should be 'fatal', 'degraded' or 'hint'"),
        ("severity: fatal", "severity: 3", "3: severity: input should be 'fatal'"),
        ("confirm: It is.", "confirm: 0.10", "23: confirm: input should be a valid string, not 0.1"),
        ("confirm: It is.", "confirm: [a]", "23: confirm: input should be a valid string"),
        ("examples:\n", "examples: 3\nexample:\n", "7: examples: input should be a valid array"),
        ("id: port.in_use.mine", "id: port.in_use.other", "1: id: is 'port.in_use.other'; the file's name says"),
        ("origin: python", "origin: somebody", "5: signatures.0.origin: is 'somebody'; use one of vllm,"),
        ("origin: python", "phases: [lunch]", "5: signatures.0.phases: 'lunch' is not a phase; use one of configure,"),
        ("my port (?P<port>", "my port [[a]?(?P<port>", "6: signatures.0.pattern: the pattern uses a set operation"),
        ("origin: python", "frames: ['[[a]']", "5: signatures.0.frames: '[[a]' uses a set operation"),
        ("origin: python", "frames: ['(?:a']", "5: signatures.0.frames: '(?:a' is not a regular expression"),
        ("origin: python", "frames: ['(\\w+)+x']", "5: signatures.0.frames: '(\\\\w+)+x' uses groups without a name"),
        ("outcome: [failed]", "phase: [late]", "21: conditions.0.phase: 'late' is not a phase; use one of configure,"),
        ("my port (?P<port>", "my port.* (?P<port>", "6: signatures.0.pattern: the pattern "),
        ("my port (?P<port>", "(?=my) port (?P<port>", "6: signatures.0.pattern: the pattern "),
        ("'my port (?P<port>\\d{1,5}) is taken'", "'@nobody'", "6: signatures.0.pattern: '@nobody' is not in patterns"),
        ("'my port (?P<port>\\d{1,5}) is taken'", "['my port', 3]", "6: signatures.0.pattern"),
        ("(?P<port>", "(?P<width>", "4: signatures: the group 'width' has no unit in its name"),
        ("captures: {port: '8000'}", "captures: {pid: '8000'}", "10: examples.0.captures.pid: is not a group of any"),
        (
            "captures: {port: '8000'}",
            "captures: {port: '1'}",
            "10: examples.0.captures.port: is '8000' in the text, not",
        ),
        (
            "captures: {port: '8000'}",
            "captures: {port: 8000}",
            "10: examples.0.captures.port: input should be a valid str",
        ),
        ("OSError: my port 8000 is taken", "all is well", "8: examples.0.text: is not found by any signature"),
        ("my port is free", "my port 8 is taken", "12: near_misses.0.text: matches the symptom"),
        (
            "Port {port} was",
            "Port {prot} was",
            "17: explanation.0: {prot} is neither a capture of this symptom nor a fact",
        ),
        ("do_first: Look.", "do_first: Look at {it}.", "22: do_first: {it} is neither a capture"),
        ("cost: none", "cost: '{it}'", "27: remedies.0.cost: {it} is neither a capture"),
        (
            "cost: none",
            "cost: none\n    unless: [{says: s, capture: port/it}]",
            "28: remedies.0.unless.0.capture: 'it' is not a capture of this symptom",
        ),
        (
            "cost: none",
            "cost: none\n    unless: [{says: s, outcome: [failed]}]",
            "28: remedies.0.unless.0.says: tests outcome; name one of argument, fact, capture",
        ),
        ("do_first: Look.", "do_first: 'Look at {port}.'", "22: do_first: must make sense without any figure"),
        ("do_first: Look.", "do_first: 'Look. Otherwise go.'", "22: do_first: must make sense without any figure"),
        ("cost: none", "cost: none\n    needs: [it]", "28: remedies.0.needs: 'it' is neither a capture"),
        ("op: set", "op: put", "29: remedies.0.edits.0: op is 'put'; write set, remove or env"),
        ("value: 8001", "value: null", "29: remedies.0.edits.0: sets no value; add one"),
        ("value: 8001", "value: {lower_to: some}", "29: remedies.0.edits.0: lower_to is 'some'; write a number"),
        ("value: 8001", "value: {share: port}", "29: remedies.0.edits.0: share is 'port'; write two captures"),
        ("value: 8001", "value: {share: port/it}", "29: remedies.0.edits.0: share is 'port/it'; write two captures"),
        ("value: 8001", "value: {'{it}': 0}", "29: remedies.0.edits.0: {it} is neither a capture"),
        ("    outcome: [failed]\n", "", "20: conditions.0.says: tests nothing; name one of argument,"),
        (
            "outcome: [failed]",
            "outcome: [failed]\n    fact: model",
            "20: conditions.0.says: tests fact, outcome; name one",
        ),
        (
            "outcome: [failed]",
            "outcome: [dead]",
            "21: conditions.0.outcome: 'dead' is not an outcome; use one of ready,",
        ),
        ("outcome: [failed]", "fact: model\n    equals: [1]", "22: conditions.0.equals."),
        ("outcome: [failed]", "fact: weight", "21: conditions.0.fact: 'weight' is not a fact"),
        ("{date: '2026-11-20'}", "{date: 'today'}", "30: verified.date: 'today' is not a date; write '2026-11-20'"),
        (
            "explanation:\n  - 'Port {port} was asked for.'\n  - 'It was taken.'",
            "explanation: []",
            "16: explanation: is empty",
        ),
        ("\n  - 'It was taken.'", "", "16: explanation: needs a sentence without a figure"),
        ("title: Another", "title: a\ntitle: Another", "3:1: not YAML: found duplicate key"),
        ("cause: |\n", "cause: &c |\n", None),
        ("Look.", "*c", "22: aliases (*name) are not allowed; write it out"),
        ("Look.", "!!python/name:os.system ''", "22: tags (!name) are not allowed; write plain YAML"),
        ("Look.", "!x ''", "22: tags (!name) are not allowed; write plain YAML"),
        ("Look.", "\tLook.\n\tback", "22:11: not YAML: found character"),
        ("Look.", "[a, b", "23:8: not YAML: "),
        ("Look.", "Lo\x01ok.", "22: not YAML: special characters are not allowed"),
        ("Look.", "TODO one action.", "22: do_first: still says TODO; fill it in"),
        ("Look.", "[" * 40 + "]" * 40, "22: nested deeper than 24 levels; flatten it"),
        ("title: Another", "---\ntitle: Another", "2:1: not YAML: "),
    ],
)
def test_errors_are_reported_by_file_line_and_field(tmp_path: Path, old: str, new: str, said: str | None) -> None:
    """One line each, beginning with the place."""
    assert GOOD.count(old) == 1
    path = write(tmp_path, GOOD.replace(old, new))

    if said is None:
        assert symptom_trials.check_symptom(path).id == "port.in_use.mine"
        return
    found = problems(path)
    assert [line for line in found if line.startswith(f"port.in_use.mine.yaml:{said}")], found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ":1: not a mapping; `vllm-runbooks catalog new` writes a scaffold"),
        ("just words\n", ":1: not a mapping"),
        ("- a\n- b\n", ":1: (file): input should be an object"),
        (b"id: \xff\n", ":1: byte 4 is not UTF-8; save the file as UTF-8"),
        (b"a: 1\nb: \x80\n", ":2: byte 8 is not UTF-8"),
        ("x" * (authored.MAX_BYTES + 1), f": {authored.MAX_BYTES + 1} bytes; a catalog file has at most"),
        ("{a: 1}\x00", ":1: not YAML: "),
        ("? [a, b]\n: c\n", ":1: "),
        ("a: 2026-11-20\n", ":1: a: is not a known field"),
        ("a: " + "9" * 6000 + "\n", ":1: "),
        ("a: 0x" + "F" * 5000 + "\n", ":1: (file): "),
        ("&a [*a]\n", ":1: aliases"),
        ("a: .nan\n", ":1: a: is not a known field"),
    ],
)
def test_other_files_than_symptoms(tmp_path: Path, text: str | bytes, said: str) -> None:
    """Each is rejected with its place."""
    found = problems(write(tmp_path, text))

    assert any(line.startswith(f"port.in_use.mine.yaml{said}") for line in found), found


def test_a_warning_of_the_engine_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`re` warns if a later Python may read the pattern differently."""
    monkeypatch.setattr(scan, "faults", lambda _: warnings.warn("Possible nested set", FutureWarning, stacklevel=1))

    assert problems(write(tmp_path, GOOD))[0] == (
        "port.in_use.mine.yaml:6: signatures.0.pattern: the pattern is ambiguous: Possible nested set; escape the sign"
    )


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A folder of that name, for instance."""
    (tmp_path / "x.yaml").mkdir()

    assert problems(tmp_path / "x.yaml") == ["x.yaml: cannot be read: Is a directory; check the path"]


@pytest.mark.parametrize(
    ("id_", "severity", "said"),
    [
        ("port.taken", "fatal", "id: 'port.taken' is not in classes.yaml"),
        ("lunch.late", "hint", "id: 'lunch' is not a group; use one of api,"),
        ("port", "fatal", "id: must be <group>.<word> or finer"),
        ("Port.In_Use", "fatal", "id: must be <group>.<word> or finer"),
        ("port.taken", "hint", None),
    ],
)
def test_an_id_is_a_known_class_and_a_hint_a_known_group(
    tmp_path: Path, id_: str, severity: str, said: str | None
) -> None:
    """The words of classes.yaml; hints may add to a group."""
    text = GOOD.replace("port.in_use.mine", id_).replace("severity: fatal", f"severity: {severity}")
    path = write(tmp_path, text, id_)

    if said is None:
        assert symptom_files.read_symptom(path).id == id_
    else:
        assert problems(path)[0].startswith(f"{id_}.yaml:1: {said}")


def test_your_own_folder_may_add_classes_and_patterns(tmp_path: Path) -> None:
    """Next to its symptoms/: classes, captures, and shared patterns with several wordings."""
    (tmp_path / "classes.yaml").write_text("lunch.late: It is late.\n")
    (tmp_path / "captures.yaml").write_text("dish: What was eaten.\n")
    (tmp_path / "patterns.yaml").write_text(
        "lunch:\n  - ['my port ', '(?P<port>\\d{1,5}) is taken']\n  - 'cold (?P<dish>\\w{1,9})'\n"
    )
    text = GOOD.replace("port.in_use.mine", "lunch.late").replace("'my port (?P<port>\\d{1,5}) is taken'", "'@lunch'")
    read = symptom_trials.check_symptom(write(tmp_path, text, "lunch.late"))

    assert [s.pattern for s in read.signatures] == [r"my port (?P<port>\d{1,5}) is taken", r"cold (?P<dish>\w{1,9})"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "1: (file): must map each name to a list of patterns"),
        ("a: b\n", "1: a: must be a list of patterns"),
        ("a: []\n", "1: a: must be a list of patterns"),
        ("a:\n  - 3\n", "1: a: must be a list of patterns"),
        ("a:\n  - 'abc.*'\n", "2: a.0: the pattern "),
    ],
)
def test_shared_patterns_are_checked(tmp_path: Path, text: str, said: str) -> None:
    """Also when a symptom of that folder is read."""
    path = tmp_path / "patterns.yaml"
    path.write_text(text)

    assert problems(path, tables.read_patterns)[0].startswith(f"patterns.yaml:{said}")
    assert problems(write(tmp_path, GOOD))[0].startswith(f"patterns.yaml:{said}")


@pytest.mark.parametrize(
    ("text", "said"),
    [("- a\n", "1: (file): must map each word to its description"), ("a: b\nc: 3\n", "2: c: needs a description")],
)
def test_vocabularies_are_checked(tmp_path: Path, text: str, said: str) -> None:
    """Every word has its meaning."""
    path = tmp_path / "classes.yaml"
    path.write_text(text)

    assert problems(path, tables.read_words) == [f"classes.yaml:{said}"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}\n", "1: (file): input should be a valid array"),
        ("- id: a\n  patterns: ['abc.*']\n  examples: []\n", "2: 0.patterns.0: the pattern "),
        ("- id: a\n  patterns: [abc]\n  examples: []\n  phase: lunch\n", "4: 0.phase: is not a phase"),
        ("- id: a\n  patterns: [3]\n  examples: []\n", "2: 0.patterns.0: input should be a valid string, not 3"),
    ],
)
def test_line_formats_are_checked(tmp_path: Path, text: str, said: str) -> None:
    """Patterns, phases and types."""
    path = tmp_path / "lines.yaml"
    path.write_text(text)

    assert problems(path, tables.read_line_formats)[0].startswith(f"lines.yaml:{said}")


CASE = """\
id: mine
title: A start of mine
source: ours
files: [startup.log]
expect:
  outcome: failed
  class: port.in_use
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("files: [startup.log]", "files: [other.log]", "4: files.0: 'other.log' is not a file in the case's folder"),
        ("files: [startup.log]", "files: [../case/startup.log]", "4: files.0: '../case/startup.log' is not a file"),
        ("files: [startup.log]", "files: []", "4: files: is empty; list the recorded files"),
        (
            "expect:\n  outcome: failed\n  class: port.in_use",
            "expect: {}",
            "5: expect: compares nothing; set an outcome",
        ),
        ("class: port.in_use", "class: port.taken", "7: expect.class: 'port.taken' is not in classes.yaml"),
        ("class: port.in_use", "class_: port.in_use", "7: expect.class_: is not a known field"),
        ("class: port.in_use", "captures: {port: '1'}", "7: expect.captures: require a root cause; set its class"),
        ("class: port.in_use", "facts: {weight: 1}", "7: expect.facts.weight: is not a fact"),
        ("outcome: failed", "outcome: dead", "6: expect.outcome: input should be 'ready', 'running'"),
        ("source: ours\n", "", "1: source: is missing"),
    ],
)
def test_broken_cases_are_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    """By folder, line and field."""
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "startup.log").write_text("x")
    (folder / "case.yaml").write_text(CASE.replace(old, new))

    found = problems(folder / "case.yaml", case_files.read_case)
    assert [line for line in found if line.startswith(f"case/case.yaml:{said}")], found


def test_a_valid_case_is_read(tmp_path: Path) -> None:
    """`class` is a Python keyword, but a plain key in the file."""
    (tmp_path / "startup.log").write_text("x")
    (tmp_path / "case.yaml").write_text(CASE + "  captures: {class: 'x'}\n")
    read = case_files.read_case(tmp_path / "case.yaml")

    assert isinstance(read, Case)
    assert (read.expect.class_, read.expect.captures) == ("port.in_use", {"class": "x"})


def test_a_folder_is_checked_as_a_whole(tmp_path: Path) -> None:
    """Doubles, missing runbooks and examples that do not fire; a broken file does not hide the next."""
    (tmp_path / "runbooks").mkdir()
    root = tmp_path / "catalog"
    write(root, GOOD)
    write(root, GOOD.replace("port.in_use.mine", "port.in_use.yours"), "port.in_use.yours")
    write(
        root,
        GOOD.replace("port.in_use.mine", "dist.nccl_init").replace("'my port", "'the port")
        + "runbook: none\ninstead_of: [port.in_use, port.none]\n",
        "dist.nccl_init",
    )
    write(root, "[", "broken")
    index, broken = compiling.compile_index(root)
    found = symptom_trials.cross_check(root)

    assert [data["id"] for data in index["symptoms"]] == ["dist.nccl_init", "port.in_use.mine", "port.in_use.yours"]
    assert [line.split(":")[0] for line in broken] == ["symptoms/broken.yaml"]
    double = "4: signatures: the same title or pattern as in symptoms/{}.yaml; merge the two"
    assert [line.removeprefix("symptoms/") for line in found] == [
        "dist.nccl_init.yaml:8: examples.0.text: is not found by any signature",
        "dist.nccl_init.yaml:6: signatures.0.pattern: no example has this wording; add one as the software prints it",
        "dist.nccl_init.yaml:32: instead_of.1: 'port.none' is not a symptom; use another, or remove it",
        "dist.nccl_init.yaml:31: runbook: 'none' is not in runbooks/; add it or remove the field",
        "port.in_use.mine.yaml:" + double.format("dist.nccl_init"),
        "port.in_use.yours.yaml:" + double.format("dist.nccl_init"),
        "port.in_use.yours.yaml:" + double.format("port.in_use.mine"),
    ]


@pytest.mark.full
def test_the_shipped_catalog_has_no_problem() -> None:
    """Neither a file by itself nor several together; in CI, `catalog check` tests the same."""
    root = folders.catalog_dir()

    assert compiling.compile_index(root)[1] == []
    assert symptom_trials.cross_check(root) == []


def _mutated(text: str, rng: random.Random) -> bytes:
    raw = bytearray(text.encode())
    for _ in range(rng.randint(1, 4)):
        place, kind = rng.randrange(len(raw)), rng.randrange(7)
        if kind == 0:
            del raw[place : place + rng.randint(1, 40)]
        elif kind == 1:
            raw[place:place] = rng.choice(
                [b"\t", b"\n", b": ", b"- ", b"*a", b"&a ", b"!!", b"{", b"[" * 30, b"\x00", b"\xff"]
            )
        elif kind == 2:
            raw[place] = rng.randrange(256)
        elif kind == 3:
            other = rng.randrange(len(raw))
            raw[place:place] = raw[other : other + rng.randint(1, 200)]
        elif kind == 4:
            raw[place:place] = rng.choice(
                [
                    b"null",
                    b"true",
                    b"1e999",
                    b".inf",
                    b"0x",
                    b"2026-13-45",
                    b"<<: ",
                    b"? ",
                    b"|",
                    b">",
                    b"%",
                    b"@",
                    b"`",
                ]
            )
        elif kind == 5:
            lines = bytes(raw).split(b"\n")
            rng.shuffle(lines) if rng.random() < 0.2 else lines.insert(rng.randrange(len(lines)), rng.choice(lines))
            raw = bytearray(b"\n".join(lines))
        else:
            raw = raw[:place] or bytearray(b"a")
        raw = raw or bytearray(b"a")
    return bytes(raw)


@pytest.mark.slow
def test_mutations_end_in_a_catalog_error_or_a_record(tmp_path: Path) -> None:
    """Never another exception, never long."""
    count = 2000
    rng = random.Random(20261120)  # noqa: S311 - repeatable, not secret
    sources = [path.read_text() for path in sorted((folders.catalog_dir() / "symptoms").glob("*.yaml"))]
    path = tmp_path / "symptoms" / "port.in_use.yaml"
    path.parent.mkdir()
    refused, slowest = 0, 0.0
    nameless: list[str] = []
    for number in range(count):
        path.write_bytes(_mutated(sources[number % len(sources)] if number % 4 == 0 else GOOD, rng))
        began = time.process_time()
        try:
            symptom_files.read_symptom(path)
        except CatalogError as error:
            refused += 1
            nameless += [line for line in str(error).splitlines() if not line.startswith("port.in_use.yaml")]
        slowest = max(slowest, time.process_time() - began)

    assert nameless == []
    assert refused > count / 2
    assert slowest < 2


@pytest.mark.slow
def test_mutations_of_cases_and_tables_end_the_same_way(tmp_path: Path) -> None:
    """The other three kinds of file."""
    rng = random.Random(7)  # noqa: S311 - repeatable, not secret
    root = folders.catalog_dir()
    lines = (root / "lines.yaml").read_text()[:3000]
    kinds: list[tuple[str, str, Any]] = [
        ("case.yaml", CASE, case_files.read_case),
        ("lines.yaml", lines[: lines.rindex("\n- id")], tables.read_line_formats),
        ("patterns.yaml", (root / "patterns.yaml").read_text(), tables.read_patterns),
        ("classes.yaml", (root / "classes.yaml").read_text(), tables.read_words),
    ]
    nameless: list[str] = []
    for name, text, read in kinds * 60:
        path = tmp_path / name
        path.write_bytes(_mutated(text, rng))
        try:
            read(path)
        except CatalogError as error:
            nameless += [str(error)] if name not in str(error) else []

    assert nameless == []


def test_shared_files_are_read_anew_when_they_change(tmp_path: Path) -> None:
    """A long-lived process would otherwise keep an old compilation under the new content's name."""
    path = write(tmp_path, GOOD.replace("'my port (?P<port>\\d{1,5}) is taken'", "'@mine'"))
    compiled = []
    for wording in ("my port (?P<port>\\d{1,5}) is taken", "my port (?P<port>\\d{1,4}) is taken"):
        (tmp_path / "patterns.yaml").write_text(f"mine:\n  - '{wording}'\n")
        compiled.append(symptom_files.read_symptom(path).signatures[0].pattern)
    (tmp_path / "classes.yaml").write_text("port.own: mine\n")
    before = tables.words("classes", tmp_path)
    (tmp_path / "classes.yaml").write_text("port.other: mine\n")

    assert compiled == ["my port (?P<port>\\d{1,5}) is taken", "my port (?P<port>\\d{1,4}) is taken"]
    assert "port.own" in before
    assert {"port.own", "port.other"} & {*tables.words("classes", tmp_path)} == {"port.other"}


@pytest.mark.parametrize(
    "name", ["models/Qwen/Qwen3-4B.yaml", "gpus.yaml", "fits.yaml", "architectures.yaml", "defaults.yaml"]
)
def test_a_file_of_specifications_can_be_checked(name: str) -> None:
    """A model or a table is validated by its folder's schema."""
    authoring.check_file(folders.catalog_dir() / name)
