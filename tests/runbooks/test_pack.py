"""An evidence pack: its contents, what it excludes, reading it back, hostile archives."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import re
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import call, measured, run
from vllm_runbooks import render
from vllm_runbooks.catalog import folders
from vllm_runbooks.core import archives
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.packs import MANIFEST, MemberRole
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.host import inventory
from vllm_runbooks.host.records import GpuFacts, GpuProcess, HostFacts, Inventory
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks import bug_report, pack

CASES = folders.cases_dir()
LOGS = sorted(path.parent.name for path in CASES.glob("*/*.log"))
TOKEN = "hf_" + "abcdefghijklmnopqrstuvwxyz01234567"  # in two pieces, so that this file contains no token
LOG = CASES / "autoglm-3090-video-oom" / "startup.log"
COMMAND = f"export HF_TOKEN={TOKEN}\nvllm serve zai-org/AutoGLM-Phone-9B --max-model-length 4096\n"
QUICK = ("autoglm-3090-video-oom", "gpt-oss-gemma-a100-four-starts", "tiny-cpu-tp2-small-shm")
NO_CARDS = pack.PackedGpus()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a log that failed, and its script."""
    shutil.copy(LOG, tmp_path / "startup.log")
    (tmp_path / "launch.sh").write_text(COMMAND)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("case", [pytest.param(case, marks=() if case in QUICK else pytest.mark.slow) for case in LOGS])
def test_every_recorded_case_is_answered_from_its_pack_as_from_its_log(case: str, tmp_path: Path) -> None:
    """`diagnose PACK` prints the document that `diagnose LOG` prints, to the letter."""
    evidence = replace(sources.load(case), case=None)  # values from a case identify it
    made = pack.pack(evidence, NO_CARDS, tool="0")
    (tmp_path / "a.zip").write_bytes(made.raw)

    again = sources.load(str(tmp_path / "a.zip"))

    answer = render.to_json(diagnosing.diagnose(again))
    assert answer == render.to_json(diagnosing.diagnose(evidence))
    assert members(tmp_path / "a.zip")["diagnosis.json"].decode() == answer + "\n"


@pytest.mark.usefixtures("here")
def test_a_log_its_command_and_its_gpus_are_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    """The pack replaces the log, `--command` and `--gpus` in `diagnose` and `plan --from-log`."""
    asked = ("startup.log", "--command", "launch.sh", "--gpus", "8xRTX3090", "--vllm", "0.16.0")
    status, out, err = run(capsys, "pack", *asked)

    assert (status, err) == (0, "vllm-runbooks: wrote startup-pack.zip\n")
    assert "failed: oom.multimodal_encoder" in out
    whole = run(capsys, "diagnose", *asked, "--format", "json")
    packed = run(capsys, "diagnose", "startup-pack.zip", "--format", "json")
    assert packed[0] == whole[0] == 1
    # The log does not contain the script's token.
    assert json.loads(packed[1]) == json.loads(whole[1].replace(TOKEN, "[secret-1]"))
    planned = [run(capsys, "plan", "--from-log", name)[0] for name in ("startup.log", "startup-pack.zip")]
    assert planned[0] == planned[1]


def test_a_pack_of_an_earlier_launch_keeps_the_choice(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`diagnose PACK` uses the `--start` of `pack`, unless another one is given."""
    shutil.copy(CASES / "tiny-cpu-two-starts" / "startup.log", here / "two.log")
    run(capsys, "pack", "two.log", "--start", "1", "--no-inventory", "-o", "two.zip")

    first = run(capsys, "diagnose", "two.zip", "--format", "json")[1]
    second = run(capsys, "diagnose", "two.zip", "--start", "2", "--format", "json")[1]

    assert first == members(here / "two.zip")["diagnosis.json"].decode()
    assert first == run(capsys, "diagnose", "two.log", "--start", "1", "--format", "json")[1]
    assert second == run(capsys, "diagnose", "two.log", "--start", "2", "--format", "json")[1] != first


def test_a_packs_command_is_linted_fixed_and_converted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands for scripts accept a pack; one without a command and other archives are rejected."""
    run(capsys, "pack", "startup.log", "--command", "launch.sh", "--no-inventory", "-o", "a.zip")
    run(capsys, "pack", "startup.log", "--no-inventory", "-o", "bare.zip")
    (here / "command.txt").write_bytes(members(here / "a.zip")["command.txt"])
    with zipfile.ZipFile(here / "mine.zip", "w") as mine:
        mine.write("startup.log", "my logs/rank 0.log")

    to_another = (("convert", "--to", "compose"), ("migrate", "--from", "0.11.0", "--to", "0.19.0"))
    for asked in (("lint",), ("lint", "--fix"), *to_another):
        status, out, _ = run(capsys, *asked, "a.zip")
        plain = run(capsys, *asked, "command.txt")
        assert (status, out) == (plain[0], plain[1].replace("command.txt", "a.zip"))
        for name, said in (("bare.zip", "is a pack without a command; "), ("mine.zip", "not an evidence pack")):
            status, out, err = run(capsys, *asked, name)
            assert (status, out, err.count("\n")) == (2, "", 1)
            assert said in err


def test_the_members_and_the_manifest_match(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every member has its size and digest; replacements are counted by kind, without values."""
    with (here / "startup.log").open("a") as log:
        log.write(f"\nAuthorization: Bearer {TOKEN}\nthe same {TOKEN} again\n")
    run(capsys, "pack", "startup.log", "--command", "launch.sh", "--gpus", "host-8xa100-shared", "-o", "a.zip")

    held = members(here / "a.zip")
    manifest = json.loads(held.pop(MANIFEST))

    assert {m["name"]: (m["bytes"], m["sha256"]) for m in manifest["members"]} == {
        name: (len(raw), hashlib.sha256(raw).hexdigest()) for name, raw in held.items()
    }
    hidden = {m["name"]: sum(m["hidden"].values()) for m in manifest["members"] if m["hidden"]}
    assert hidden["logs/startup.log"] == 2
    assert hidden["command.txt"] == 1
    assert sum(manifest["hidden"].values()) == sum(hidden.values())
    assert TOKEN.encode() not in (here / "a.zip").read_bytes()
    assert not any(TOKEN.encode() in raw for raw in held.values())
    assert manifest["is_inventory_of_start"] is True
    assert {"lint.json", "lint.txt", "inventory.json", "diagnosis.txt", "issue.md"} <= held.keys()


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Archives of two processes at different times are equal, without time or place."""
    asked = ("pack", "startup.log", "--command", "launch.sh", "--no-inventory", "-o")
    assert run(capsys, *asked, "a.zip")[0] == 0
    os.utime(here / "startup.log", (1, 1))
    assert call(*asked, "b.zip", cwd=here).returncode == 0

    assert (here / "a.zip").read_bytes() == (here / "b.zip").read_bytes()
    assert str(here).encode() not in (here / "a.zip").read_bytes()
    assert stat.S_IMODE((here / "a.zip").stat().st_mode) & 0o111 == 0


def test_the_issue_follows_vllms_form(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Environment, bug, checklist; error and traceback are quoted, unknown facts are marked."""
    status, out, err = run(capsys, "pack", "startup.log", "--command", "launch.sh", "--issue", "--no-inventory")

    assert (status, err) == (0, "")
    assert [line for line in out.splitlines() if line.startswith("### ")] == [
        "### Your current environment", "### 🐛 Describe the bug", "### Before submitting a new issue...",
    ]  # fmt: skip
    assert "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 698.00 MiB" in out
    assert "Traceback (most recent call last):" in out
    assert "HF_TOKEN=[secret-" in out
    assert TOKEN not in out
    assert "unknown: no inventory was packed" in out
    assert "memory per GPU, from the log" in out
    assert "unexplained error" not in out
    assert "vLLM 0.16.0 has no option --max-model-length" in out
    assert not list(here.glob("*.zip"))


def issue(**given: Any) -> str:
    """The text of an issue with these facts."""
    known: dict[str, Any] = {
        "is_of_start": True,
        "cards": None,
        "command": None,
        "linted": None,
        "excerpts": (),
        "hidden": {},
    }
    return bug_report.text(**{"answer": None, "inventory": None, "tool": "1.0", **known, **given})


@pytest.mark.parametrize(("kernel", "said"), [("6.1.0-18-amd64", "6.1.0-18-amd64"), (None, "unknown")])
def test_the_kernel_of_the_host_is_in_the_issue(kernel: str | None, said: str) -> None:
    """Unknown if the snapshot lacks it."""
    written = issue(inventory=Inventory(host=HostFacts(kernel=kernel)))

    assert re.findall(r"^kernel +: (.*)$", written, re.MULTILINE) == [said]


def test_logs_share_the_room_that_an_issue_has() -> None:
    """Of each the last lines are kept, and the others counted; the site of the issues takes only so long a text."""
    lines = [(number, f"{number:x<99}") for number in range(1, 401)]
    excerpts = [bug_report.Excerpted(name, lines) for name in ("a.log", "b.log", "c.log")]
    answer = diagnosing.diagnose(sources.load("tiny-cpu-port-in-use"))

    written = issue(answer=answer, excerpts=excerpts)

    assert written.count("[300 lines omitted]\n301x") == 3
    assert written.count("\n400x") == 3


def test_a_log_cannot_break_out_of_its_block_in_the_issue(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The fence is longer than any backticks of the log, and encloses its comments and HTML."""
    hostile = "ValueError: ```` </details> @somebody --> <script>alert(1)</script> ![x](http://evil/)\n"
    (here / "startup.log").write_text(
        "INFO 01-01 00:00:00 [api_server.py:1] vLLM API server version 0.16.0\nTraceback (most recent call last):\n"
        + hostile
    )
    _, out, _ = run(capsys, "pack", "startup.log", "--issue", "--no-inventory")

    before, fence, rest = out.partition("`````text\n")
    assert fence
    assert hostile.rstrip() in rest.partition("\n`````\n")[0]
    assert before.split("\n", 1)[0].endswith(
        "@somebody -- > <script>alert(1)</script> ![x](http://evil/) (vLLM 0.16.0) -->"
    )
    shown = re.sub("<!--.*?-->", "", before)
    assert "<script>" not in shown
    assert "@somebody" not in shown


@pytest.mark.slow
def test_the_pack_of_standard_input_equals_that_of_the_file(here: Path) -> None:
    """The stream is stored first, so that secrets before their names are replaced too."""
    text = f"{TOKEN}\n{LOG.read_text()}\nHF_TOKEN={TOKEN}\n"

    done = call("pack", "-", "--no-inventory", cwd=here, input=text.encode())

    assert (done.returncode, done.stderr) == (0, b"vllm-runbooks: wrote startup-pack.zip\n")
    log = members(here / "startup-pack.zip")["logs/standard-input.log"].decode()
    assert log.startswith("[secret-1]\n")
    assert TOKEN not in log
    again = json.loads(call("diagnose", "startup-pack.zip", "--format", "json", cwd=here).stdout)
    assert (again["files"], again["root_cause"]["symptom"]) == (["-"], "oom.multimodal_encoder")


def test_a_folder_of_rank_logs_is_one_launch(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rank 2 before rank 10, in `pack` and in `diagnose`; other files are ignored."""
    folder = here / "ranks"
    folder.mkdir()
    for rank in (10, 2):
        shutil.copy(LOG, folder / f"rank_{rank}.log")
    (folder / "notes.md").write_text("not a log")
    (folder / ".hidden.log").write_text("not a log")

    assert json.loads(run(capsys, "diagnose", "ranks", "--format", "json")[1])["files"] == ["rank_2.log", "rank_10.log"]
    assert run(capsys, "pack", "ranks", "--no-inventory")[0] == 0
    assert json.loads(run(capsys, "diagnose", "ranks-pack.zip", "--format", "json")[1])["files"] == [
        "rank_2.log", "rank_10.log",
    ]  # fmt: skip


def test_logs_with_one_name_are_distinguished(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two `startup.log` of two hosts are two members, and unusual names are replaced."""
    names = ["a/startup.log", "b/startup.log", "c/Stärtup ../x.log", f"d/{TOKEN}.log"]
    for name in names:
        (here / name).parent.mkdir(parents=True)
        shutil.copy(LOG, here / name)

    assert run(capsys, "pack", *names, "--no-inventory", "-o", "a.zip")[0] == 0

    held = [name for name in members(here / "a.zip") if name.startswith("logs/")]
    assert held == ["logs/_secret-1_.log", "logs/startup-2.log", "logs/startup.log", "logs/x.log"]
    assert run(capsys, "diagnose", "a.zip")[0] == 1


def test_the_middle_of_a_long_log_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size is bounded with a note; secrets from the omitted part are replaced everywhere."""
    monkeypatch.setattr(archives, "MAX_KEPT", 1 << 20)
    lines = LOG.read_text().splitlines()
    filler = "".join(
        f"INFO 01-01 00:00:00 [loggers.py:1] Engine 000: tick {n:07d} of a long day\n" for n in range(10_000)
    )
    text = "\n".join([*lines[:40], TOKEN, filler, f"HF_TOKEN={TOKEN}", filler, TOKEN, *lines[40:]])

    made = pack.pack(Evidence((Document("long.log", text),)), NO_CARDS, tool="0")

    (log,) = [member for member in made.manifest.members if member.role == "log"]
    assert log.left_out is not None
    assert log.bytes <= (1 << 20) + 200
    (tmp_path / "a.zip").write_bytes(made.raw)
    kept = members(tmp_path / "a.zip")["logs/long.log"].decode()
    assert f"{log.left_out.lines} lines, {log.left_out.bytes} bytes left out here]" in kept
    assert kept.split("\n")[log.left_out.after_line].startswith("[vllm-runbooks pack: ")
    assert text.count("\n") == kept.count("\n") - 1 + log.left_out.lines
    assert TOKEN not in kept
    assert made.manifest.root_cause == "oom.multimodal_encoder"


def test_other_users_of_the_host_are_not_packed() -> None:
    """GPU UUIDs, users, containers and arguments of other programs are left out and counted."""
    process = GpuProcess(
        7, user="ann", command="/home/ann/bin/python train.py --project secret-plan", container="c0ffee"
    )
    found = Inventory(gpus=(GpuFacts(0, name="A100", uuid="GPU-1", processes=(process,)),))

    left, hidden = pack.impersonal(found)

    assert left.gpus[0] == GpuFacts(0, name="A100", processes=(GpuProcess(7, command="python", container="hidden"),))
    assert dict(hidden) == {"gpu_uuid": 1, "user": 1, "command_line": 1, "container": 1}


def test_json_is_the_manifest(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One document on standard output, equal to the one in the archive."""
    _, out, _ = run(capsys, "pack", "startup.log", "--no-inventory", "--format", "json")

    assert out == members(here / "startup-pack.zip")[MANIFEST].decode()
    assert out.startswith('{\n  "schema": 2,')
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((folders.catalog_dir() / "schema" / "pack.json").read_text())
    assert [e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(json.loads(out))] == []


def test_the_pack_of_a_running_server_says_that_it_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server without a problem has no unknown cause."""
    log = folders.cases_dir() / "tiny-cpu-served" / "startup.log"
    out = run(capsys, "pack", str(log), "--no-inventory", "-o", str(here / "a.zip"))[1]

    assert "running: the server runs" in out
    assert "unknown cause" not in out


def test_without_a_cause_there_is_a_pack(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown failures need it most; a command alone can be packed too."""
    (here / "odd.log").write_text("ValueError: something that no catalog knows\n")

    assert run(capsys, "pack", "odd.log", "--no-inventory")[0] == 0
    assert "The log also contains an unexplained error" in members(here / "odd-pack.zip")["issue.md"].decode()
    assert run(capsys, "pack", "--command", "launch.sh", "--no-inventory")[0] == 0
    assert "issue.md" in members(here / "launch-pack.zip")
    refused = run(capsys, "diagnose", "launch-pack.zip")
    assert (refused[0], refused[1]) == (2, "")
    assert "is a pack without a log" in refused[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "use a log file"),
        (("startup.log", "-o", "there.zip"), "there.zip: already exists; replace it with --force"),
        (("startup.log", "-o", "nowhere/a.zip"), "nowhere is not a folder"),
        (("startup.log", "-o", "a.tar"), "a.tar: a pack is a zip archive; name it a.zip"),
        (("startup.log", "--gpus", "host-8xa100-shared", "--no-inventory"), "name the GPUs, as in 8xRTX3090"),
        (("no-logs",), "use a log file, or a folder of logs (*.log, *.out or *.err)"),
        (("chance.log",), "chance.log: is binary, not text"),
        (("nothing.log",), "nothing.log: no such file"),
        (("startup.log", "--gpus", "X9000"), "X9000"),
        (("startup.log", "--start", "7"), "7"),
        (("startup.log", "--issue", "--format", "json"), "remove --format json"),
        (("-", "--command", "-"), "standard input can be read only once"),
        (("host-8x3090",), "without a log"),
        (("pack.zip",), "is already a pack; share it as it is"),
    ],
)
def test_input_that_cannot_be_packed_is_one_line(
    arguments: tuple[str, ...],
    said: str,
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit 2, no output, and no file written or replaced."""
    (here / "there.zip").write_text("mine")
    (here / "pack.zip").write_bytes(archive(good))
    (here / "no-logs").mkdir()
    (here / "chance.log").write_bytes(random.Random(4).randbytes(1 << 20))  # noqa: S311 - no secret

    status, out, err = run(capsys, "pack", *arguments)

    assert (status, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert sorted(path.name for path in here.glob("**/*.zip")) == ["pack.zip", "there.zip"]
    assert (here / "there.zip").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_reported(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a line, before a log is read."""
    (here / "locked").mkdir(mode=0o500)

    status, out, err = run(capsys, "pack", "nothing.log", "-o", "locked/a.zip")

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "locked: cannot be written to" in err


@pytest.mark.slow
def test_a_pack_of_many_logs_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The maximum number of logs at maximum size is read back; more are rejected early."""
    monkeypatch.setattr(archives, "MAX_KEPT", 4 << 20)
    monkeypatch.setattr(archives, "_MAX_UNPACKED", (4 << 20) + (1 << 18))
    monkeypatch.setattr(archives, "MAX_MEMBERS", 40)
    monkeypatch.setattr(archives, "MAX_LOGS", 20)
    text = "INFO 01-01 00:00:00 [loggers.py:1] Engine 000: a line of a long day\n" * 5000
    documents = tuple(Document(f"rank_{number}.log", text) for number in range(20))

    made = pack.pack(Evidence(documents), NO_CARDS, tool="0")
    (tmp_path / "a.zip").write_bytes(made.raw)

    read = archives.read(tmp_path / "a.zip")
    assert len(read.of(MemberRole.LOG)) == 20
    assert max(len(part.raw) for part in read.of(MemberRole.LOG)) <= (4 << 20) // 20 + 100
    with pytest.raises(InputError, match="21 logs, but a pack can contain at most 20"):
        pack.pack(Evidence((*documents, Document("more.log", text))), NO_CARDS, tool="0")
    with pytest.raises(InputError, match="which is not read"):
        archives.written({f"logs/{number}.log": b"" for number in range(41)})


def test_a_pack_is_in_english_for_any_reader(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issues are in English; the reader of a pack selects the language again."""
    asked = ("pack", "startup.log", "--command", "launch.sh", "--no-inventory", "-o")
    run(capsys, *asked, "a.zip")
    monkeypatch.setenv("VLLM_RUNBOOKS_LANG", "zh")
    run(capsys, *asked, "b.zip")

    assert (here / "a.zip").read_bytes() == (here / "b.zip").read_bytes()


def test_messages_about_a_command_are_packed_unchanged(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence about an option with a secret's name is neither changed nor counted."""
    (here / "launch.sh").write_text(
        "vllm serve zai-org/AutoGLM-Phone-9B --tensor-parallel-size 2 --api-key s3cr3tvalue99\n"
    )
    run(
        capsys,
        "pack",
        "startup.log",
        "--command",
        "launch.sh",
        "--gpus",
        "8xRTX3090",
        "--no-inventory",
        "-o",
        "my a.zip",
    )
    shown = capsys.readouterr().out + run(capsys, "pack", "startup.log", "--no-inventory", "-o", "my b.zip")[1]
    held = members(here / "my a.zip")
    (here / "command.txt").write_bytes(held["command.txt"])

    linted = run(capsys, "lint", "command.txt", "--vllm", "0.16.0", "--gpus", "8xRTX3090")[1]

    assert "Every user of the host can read the value of --api-key on the command line" in " ".join(linted.split())
    # In a pipe its lines are wrapped, and the last one names the command that checks memory.
    assert held["lint.txt"].decode().split() == linted.rpartition("Memory was not checked")[0].split()
    assert json.loads(held[MANIFEST])["hidden"] == {"key": 1}
    assert b"s3cr3tvalue99" not in b"".join(held.values())
    assert "vllm-runbooks diagnose 'my b.zip'" in shown
    issue = held["issue.md"].decode()
    assert "zai-org/AutoGLM-Phone-9B (from the command)" in issue
    assert "2 (from the command), unknown, unknown" in issue
    assert "8xRTX3090 (as given)" in issue


def test_gpus_of_this_host_are_packed_by_name_without_its_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--gpus local --no-inventory` keeps the names; GPUs outside the catalog are rejected."""
    monkeypatch.setattr(inventory, "gpus_alone", lambda: Inventory(gpus=(GpuFacts(0, name="A100-SXM4-80GB"),) * 2))

    assert pack.cards_of("local", is_inventoried=False) == pack.PackedGpus(named="2xA100-80GB-SXM")

    unknown = GpuFacts(0, name="X9000", total_mib=9000)
    monkeypatch.setattr(inventory, "gpus_alone", lambda: Inventory(gpus=(unknown,)))
    with pytest.raises(InputError, match="remove --no-inventory"):
        pack.cards_of("local", is_inventoried=False)


def test_an_existing_file_is_replaced_on_request(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--force` rewrites it completely."""
    (here / "startup-pack.zip").write_text("mine")

    assert run(capsys, "pack", "startup.log", "--no-inventory", "--force")[0] == 0
    assert zipfile.is_zipfile(here / "startup-pack.zip")


# Foreign archives


def archive(change: Callable[[zipfile.ZipFile, bytes], None], *, manifest: dict[str, object] | None = None) -> bytes:
    """A pack's bytes with something added or wrong."""
    log = LOG.read_bytes()
    told = {
        "schema": 2, "kind": "pack", "vllm": None, "gpus": None, "is_inventory_of_start": None,
        "members": [
            {"name": "logs/a.log", "role": "log", "source": "a.log", "sha256": hashlib.sha256(log).hexdigest()},
        ],
        **(manifest or {}),
    }  # fmt: skip
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("manifest.json", json.dumps(told))
        change(made, log)
    return whole.getvalue()


def good(made: zipfile.ZipFile, log: bytes) -> None:
    made.writestr("logs/a.log", log)


def linked(made: zipfile.ZipFile, _: bytes) -> None:
    info = zipfile.ZipInfo("logs/a.log")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    made.writestr(info, b"/etc/passwd")


def twice(made: zipfile.ZipFile, log: bytes) -> None:
    good(made, log)
    made.writestr("logs/A.log", log)


def many(made: zipfile.ZipFile, _: bytes) -> None:
    for number in range(400):
        made.writestr(f"logs/{number}.log", b"x")


def bomb(made: zipfile.ZipFile, _: bytes) -> None:
    with made.open("logs/a.log", "w", force_zip64=True) as file:
        for _mib in range(80):
            file.write(bytes(1 << 20))


def named(name: str) -> Callable[[zipfile.ZipFile, bytes], None]:
    def change(made: zipfile.ZipFile, log: bytes) -> None:
        good(made, log)
        made.writestr(name, b"x")

    return change


def encrypted(raw: bytes) -> bytes:
    """The flag of encryption set in the list of members."""
    at = raw.rindex(b"PK\x01\x02")
    return raw[: at + 8] + bytes([raw[at + 8] | 1]) + raw[at + 9 :]


def listed(entry: bytes, count: int) -> bytes:
    """An archive that consists of its list of members."""
    listed = len(entry) * count
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count & 0xFFFF, count & 0xFFFF, listed, 4, 0)
    return b"PK\x03\x04" + entry * count + end


def shorter(raw: bytes) -> bytes:
    """An archive whose last member declares a size of 3 bytes."""
    at = raw.rindex(b"PK\x01\x02")
    return raw[: at + 24] + (3).to_bytes(4, "little") + raw[at + 28 :]


HOSTILE: list[tuple[str, bytes, str]] = [
    ("wrong hash", archive(lambda made, _: made.writestr("logs/a.log", b"other")), "does not match its manifest"),
    ("too much", archive(bomb), "unpacks to more than the limit of a pack"),
    ("too many", archive(many), "contains more than 300 files"),
    ("traversal", archive(named("../../evil.log")), "has an invalid name for a pack"),
    ("absolute", archive(named("/etc/evil.log")), "has an invalid name for a pack"),
    ("backslash", archive(named("..\\evil.log")), "has an invalid name for a pack"),
    ("deep", archive(named("a/b/c.log")), "has an invalid name for a pack"),
    ("folder", archive(named("logs/")), "has an invalid name for a pack"),
    ("device", archive(named("a\x1b[31m.log")), "has an invalid name for a pack"),
    ("link", archive(linked), "is a link, or not a regular file"),
    ("twice", archive(twice), "contains logs/A.log twice"),
    ("nested", archive(lambda made, _: made.writestr("logs/a.log", archive(good))), "is itself an archive"),
    ("unnamed", archive(named("more.log")), "its manifest and its files differ, as in more.log"),
    ("missing", archive(lambda *_: None), "its manifest and its files differ, as in logs/a.log"),
    ("encrypted", encrypted(archive(good)), "is encrypted"),
    ("lying", shorter(archive(good)), "is a damaged or truncated archive"),
    ("truncated", archive(good)[:-40], "is a damaged or truncated archive"),
    ("cut in half", archive(good)[:900], "is a damaged or truncated archive"),
    ("other zip", archive(good).replace(b"manifest.json", b"manifest.jsox"), "no manifest.json; unpack it"),
    ("other manifest", archive(good, manifest={"kind": "wheel"}), "has another kind; unpack it"),
    ("newer", archive(good, manifest={"schema": 3}), "is a pack with an unsupported schema"),
    ("no members", archive(good, manifest={"members": [1]}), "its manifest.json cannot be read"),
    ("gpus", archive(good, manifest={"gpus": 8}), "its manifest.json cannot be read"),
    ("start", archive(good, manifest={"start": True}), "its manifest.json cannot be read"),
    ("no such start", archive(good, manifest={"start": 99}), "99"),
    ("other file's cards", archive(good, manifest={"gpus": "/etc/host.json"}), "a.zip: its GPUs name a file"),
    ("this host's cards", archive(good, manifest={"gpus": "RTX3090,local"}), "a.zip: its GPUs name a file"),
    ("no release", archive(good, manifest={"vllm": "\x1b[31mevil"}), "a.zip: '\\x1b[31mevil' is not a vLLM version"),
    ("a long list of members", listed(b"PK\x01\x02" + bytes(42), 100_000), "contains more than 300 files"),
    ("a long list of one member", listed(bytes(5 << 20), 1), "contains more than 300 files"),
    ("another end", archive(good)[:-22] + b"PK\x06\x07" + bytes(16) + archive(good)[-22:], "is a damaged or truncated"),
    ("a comment", archive(good) + b"x", "is a damaged or truncated archive, or was not created by vllm-runbooks pack"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "said"), [each[1:] for each in HOSTILE], ids=[each[0] for each in HOSTILE])
def test_a_hostile_archive_is_rejected_in_one_line(
    raw: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 2, without terminal controls, and without files on disk."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.zip").write_bytes(raw)

    status, out, err = run(capsys, "diagnose", "a.zip")

    assert (status, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert err.strip().isprintable()
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_the_unmodified_archive_of_these_tests_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The negative example of every rejection above."""
    (tmp_path / "a.zip").write_bytes(archive(good))

    assert run(capsys, "diagnose", str(tmp_path / "a.zip"))[0] == 1


def test_damaged_bytes_never_cause_a_traceback(tmp_path: Path) -> None:
    """Any changed byte or length: the archive is rejected, or read as before."""
    log = b"x\n"
    member = {"name": "logs/a.log", "role": "log", "source": "a.log", "sha256": hashlib.sha256(log).hexdigest()}
    told = {"schema": 2, "kind": "pack", "members": [member]}
    raw = archives.written({"manifest.json": json.dumps(told).encode(), "logs/a.log": log})
    path = tmp_path / "a.zip"
    path.write_bytes(raw)
    whole = archives.read(path)
    assert [part.raw for part in whole.parts] == [log]
    refused = 0
    for at in range(len(raw)):
        for damaged in (raw[:at], raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :]):
            path.write_bytes(damaged)
            try:
                assert archives.read(path) == whole  # for example the time of a member is ignored
            except InputError:
                refused += 1
    assert refused > 1.5 * len(raw)


def test_gpus_outside_the_catalog_are_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pack of a newer catalog is read without its GPUs, with a note."""
    (tmp_path / "a.zip").write_bytes(archive(good, manifest={"gpus": "8xX9000"}))
    (tmp_path / "b.zip").write_bytes(archive(good))

    status, out, err = run(capsys, "diagnose", str(tmp_path / "a.zip"), "--format", "json")
    other = json.loads(run(capsys, "diagnose", str(tmp_path / "b.zip"), "--format", "json")[1])

    assert (status, err) == (1, "")
    assert json.loads(out)["notes"] == [diagnosing.UNKNOWN_CARDS, *other["notes"]]
    assert "该证据包给出的显卡不在此目录中" in run(capsys, "diagnose", str(tmp_path / "a.zip"), "--lang", "zh")[1]


@pytest.mark.usefixtures("here")
def test_a_pack_is_alone_on_a_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Next to other logs, its command and GPUs would be ignored silently."""
    run(capsys, "pack", "startup.log", "--no-inventory")

    status, out, err = run(capsys, "diagnose", "startup-pack.zip", "startup.log")

    assert (status, out) == (2, "")
    assert "startup-pack.zip: is an archive; several inputs must be log files of one launch, so use it alone" in err


@pytest.mark.full
def test_a_log_of_200_megabytes_is_packed_in_bounded_memory(tmp_path: Path) -> None:
    """At most 400 MB, and twice the time of its diagnosis."""
    lines = LOG.read_text().splitlines(keepends=True)
    periodic = "(APIServer pid=7) INFO 02-28 17:42:17 [loggers.py:1] Engine 000: Avg prompt throughput:"
    with (tmp_path / "big.log").open("w") as file:
        file.writelines(lines[:40])
        for number in range(1_300_000):
            file.write(f"{periodic} {number} tokens/s, Running: 3 reqs, Waiting: 0 reqs\n")
        file.writelines(lines[40:])
    done = measured("pack", "big.log", "--no-inventory", cwd=tmp_path)

    assert done.status == 0, done.err
    assert done.peak_mib * 1024 < 400_000
    assert (tmp_path / "big-pack.zip").stat().st_size < 64 << 20
