"""Every input becomes text to read, or a one-line error."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Case, Evidence, Expectation
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.reading import evidence
from vllm_runbooks.runbooks import case_files

LOG = "INFO 11-20 08:29:25 [api_server.py:1] vLLM API server version 0.19.0\n"
CASE = """\
id: {id}
title: A case of a test
source: written by the test
vllm: 0.19.0
files: [{files}]
expect: {{outcome: unknown}}
"""


def make_case(root: Path, files: str = "a.log", name: str = "one") -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "case.yaml").write_text(CASE.format(id=name, files=files), encoding="utf-8")
    (folder / "a.log").write_text(LOG, encoding="utf-8")
    return folder


def told(found: Evidence) -> list[tuple[str, str]]:
    """Name and text of each document."""
    return [(document.name, document.text) for document in found.documents]


def reader_without_checks(files: list[str]) -> Case:
    """Return what a reader of `case.yaml` without checks would."""
    return Case("one", "A case of a test", "written by the test", files, Expectation())


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain\n", "plain\n"),
        (b"\xef\xbb\xbfwith mark", "with mark"),
        ("with mark".encode("utf-16"), "with mark"),
        (b"\xfe\xff\x00h\x00i", "hi"),
        (b"stray \xff\xfe bytes", "stray \\xff\\xfe bytes"),
        ("GB \u663e\u5b58\n\u6a21\u578b\n".encode("gb18030"), "GB \u663e\u5b58\n\u6a21\u578b\n"),
        (
            b"stray \xe9t\n" + "utf-8 \u663e\n".encode() + "gbk \u663e\u5b58\n".encode("gbk"),
            "stray \\xe9t\nutf-8 \u663e\ngbk \u663e\u5b58\n",
        ),
        ("no mark".encode("utf-16-le"), "no mark"),
        ("no mark".encode("utf-16-be"), "no mark"),
        (b"\x1b[31mred\x1b[0m\r\n", "\x1b[31mred\x1b[0m\r\n"),
        (b"no final newline", "no final newline"),
    ],
)
def test_bytes_become_text(raw: bytes, text: str) -> None:
    """Marks are obeyed, stray bytes stay visible, nothing is lost."""
    assert evidence.decode(raw, "x.log") == text


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"", "empty"), (b" \n\t ", "empty"), (b"\xef\xbb\xbf", "empty"), (b"\xff\xfe", "empty"),
        (b"\xef\xbb\xbf \n", "empty"),
        (b"\x7fELF\x02\x01", "a program"), (b"\x89PNG\r\n", "an image"), (b"PK\x03\x04xx", "an archive"),
(b"%PDF-1.7", "a PDF"), (b"SQLite format 3\0", "a database"),
        (bytes(range(256)) * 4, "binary"),
    ],
)  # fmt: skip
def test_input_that_is_not_text_is_rejected_in_one_line(raw: bytes, what: str) -> None:
    """The message names the input, its kind and the alternative."""
    with pytest.raises(InputError) as caught:
        evidence.decode(raw, "x.log")

    assert "\n" not in str(caught.value)
    assert f"x.log: is {what}" in str(caught.value)
    assert "use" in str(caught.value)


@pytest.mark.parametrize(
    ("noise", "lines"),
    [(bytes(1 << 20), 0), (bytes(5), 0), (bytes(range(256)) * 20 + b"\n", 21), (b"\x00\x01\x02" * 900 + b"\n", 1)],
)
def test_a_log_is_read_behind_binary_noise(noise: bytes, lines: int, tmp_path: Path) -> None:
    """Zeros of a truncated file are left out; other noise becomes blank lines, so that line numbers stay."""
    path = tmp_path / "a.log"
    path.write_bytes(noise + LOG.encode() * 20)

    assert told(evidence.load(path, read_case=case_files.read_case)) == [("a.log", "\n" * lines + LOG * 20)]


def test_a_file_is_one_document(tmp_path: Path) -> None:
    """A log is read under its base name, with the release that the caller gives."""
    path = tmp_path / "a.log"
    path.write_text(LOG, encoding="utf-8")

    found = evidence.load(path, read_case=case_files.read_case, vllm="0.19.0")

    assert told(found) == [("a.log", LOG)]
    assert (found.case, found.vllm) == (None, "0.19.0")


def test_a_case_is_found_by_its_folder_and_by_its_id(tmp_path: Path) -> None:
    """Both give the case's files and release; the caller's release takes precedence."""
    folder = make_case(tmp_path)

    by_folder = evidence.load(folder, read_case=case_files.read_case)
    by_id = evidence.load("one", read_case=case_files.read_case, cases=tmp_path, vllm="0.20.2")

    assert told(by_folder) == told(by_id) == [("a.log", LOG)]
    assert by_folder.case == by_id.case
    assert (by_folder.vllm, by_id.vllm) == ("0.19.0", "0.20.2")


@pytest.mark.parametrize("files", ["../secret.log", "/etc/hostname", "a.log, ../secret.log"])
def test_a_case_reads_its_own_files_only(tmp_path: Path, files: str) -> None:
    """A case that someone sent cannot have other files of this host quoted."""
    (tmp_path / "secret.log").write_text(LOG, encoding="utf-8")

    with pytest.raises(InputError, match="is not a file in the case's folder"):
        evidence.load(make_case(tmp_path, files), read_case=case_files.read_case)
    with pytest.raises(InputError, match="is outside its folder"):
        evidence.load(tmp_path / "one", read_case=lambda _: reader_without_checks(files.split(", ")))


def test_a_case_may_not_link_to_other_files(tmp_path: Path) -> None:
    """A link out of the folder is a file outside of it."""
    folder = make_case(tmp_path, "link.log")
    (tmp_path / "secret.log").write_text(LOG, encoding="utf-8")
    (folder / "link.log").symlink_to(tmp_path / "secret.log")

    with pytest.raises(InputError, match="is outside its folder"):
        evidence.load(folder, read_case=case_files.read_case)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "the name '' is empty"), ("  ", "the name '  ' is empty"),
        ("a\0b", r"the name 'a\x00b' contains a NUL"),
        ("nowhere.log", "no such file"),
        ("~nobody-at-all/x", "cannot be read"),
        ("x" * 5000, "cannot be read"), ("INFO first line\nsecond" + "y" * 400, "INFO first line: cannot be read"),
        ("a.log/b", "cannot be read"),
    ],
)  # fmt: skip
def test_unknown_names_are_rejected_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    """A wrong name and a pasted text are distinguished, without a traceback."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.log").write_text(LOG, encoding="utf-8")

    with pytest.raises(InputError) as caught:
        evidence.load(name, read_case=case_files.read_case)

    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_case_is_answered_with_a_near_one(tmp_path: Path) -> None:
    """The message names a recorded case that a mistyped name is close to, and not all of them."""
    make_case(tmp_path)

    with pytest.raises(InputError, match=r"\bone\b"):
        evidence.load("onne", read_case=case_files.read_case, cases=tmp_path)
    with pytest.raises(InputError, match="check the path"):
        evidence.load("two", read_case=case_files.read_case, cases=tmp_path)
    with pytest.raises(InputError, match="check the path"):
        evidence.load("some/tow", read_case=case_files.read_case, cases=tmp_path)


def test_a_folder_without_a_case_is_rejected(tmp_path: Path) -> None:
    """A folder of other files is not evidence."""
    with pytest.raises(InputError, match=r"no case\.yaml"):
        evidence.load(tmp_path, read_case=case_files.read_case)


PACKINGS = [gzip.compress, partial(bz2.compress, compresslevel=1), partial(lzma.compress, preset=0)]


@pytest.mark.parametrize("pack", PACKINGS)
def test_a_compressed_log_is_unpacked(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Rotated logs are unpacked; a truncated one is read as far as possible."""
    text = "".join(f"{number} {number * 7919 % 100_003}\n" for number in range(40_000))
    path = tmp_path / "a.log"
    packed = pack(text.encode())
    path.write_bytes(packed)
    assert told(evidence.load(path, read_case=case_files.read_case)) == [("a.log", text)]

    path.write_bytes(packed[: len(packed) * 3 // 4])
    [(_, cut)] = told(evidence.load(path, read_case=case_files.read_case))
    assert text.startswith(cut)
    assert len(cut) > len(text) // 3


@pytest.mark.slow
@pytest.mark.parametrize("pack", PACKINGS)
def test_a_damaged_or_hostile_compressed_log_is_rejected(
    tmp_path: Path, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one-line message suggests a fix, and an endless archive is not unpacked."""
    path = tmp_path / "a.log"
    path.write_bytes(pack(b"text")[:9] + b"\xff" * 40)
    with pytest.raises(InputError, match=r"a\.log: cannot be unpacked: .*; use a complete file"):
        evidence.load(path, read_case=case_files.read_case)

    monkeypatch.setattr(evidence, "MAX_UNPACKED", 1 << 20)
    path.write_bytes(pack(b"text " * (1 << 20)))
    found = evidence.load(path, read_case=case_files.read_case)
    with pytest.raises(InputError, match="unpacks to more than 0 GiB; unpack it and cut out the launch"):
        told(found)


def test_a_file_of_a_case_that_is_missing_is_named(tmp_path: Path) -> None:
    """With its path."""
    with pytest.raises(InputError, match=r"gone\.log: cannot be read: No such file"):
        evidence.load(make_case(tmp_path), read_case=lambda _: reader_without_checks(["gone.log"]))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "gb18030"])
def test_pieces_do_not_cut_characters(size: int, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is the same for any number of bytes per read."""
    text = (
        "\u663e\u5b58 KV \u7f13\u5b58 \U0001f600\n\u6a21\u578b"
        if encoding != "gb18030"
        else "\u663e\u5b58 KV\n\u6a21\u578b"
    )
    raw = text.encode(encoding)
    if encoding == "utf-8":
        monkeypatch.setattr(evidence, "PIECE", max(size, 4))  # as for a line without an end
    head, *blocks = [raw[:8], *(raw[start : start + size] for start in range(8, len(raw), size))]

    assert "".join(evidence._decoded([head, *blocks], "x")).rstrip() == text


def test_several_logs_are_one_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files keep their order on the command line; `-` is standard input."""
    for name in ("b.log", "a.log"):
        (tmp_path / name).write_text(LOG, encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from a pipe")))

    found = evidence.load_files(
        [str(tmp_path / "b.log"), "-", str(tmp_path / "a.log")], read_case=case_files.read_case, vllm="0.19.0"
    )

    assert [document.name for document in found.documents] == ["b.log", "-", "a.log"]
    assert found.documents[1].text == "from a pipe"
    assert found.vllm == "0.19.0"


def test_standard_input_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` alone reads the pipe; an empty pipe is rejected."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LOG.encode())))
    assert told(evidence.load_files(["-"], read_case=case_files.read_case)) == [("-", LOG)]

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InputError, match="standard input: is empty"):
        evidence.load_files(["-"], read_case=case_files.read_case)


def test_one_name_may_be_a_case_but_several_are_logs(tmp_path: Path) -> None:
    """A folder among several inputs is rejected."""
    folder = make_case(tmp_path)
    assert evidence.load_files([str(folder)], read_case=case_files.read_case).case is not None

    with pytest.raises(InputError, match="is a folder"):
        evidence.load_files([str(folder / "a.log"), str(folder)], read_case=case_files.read_case)


def test_a_pipe_with_a_name_is_read(tmp_path: Path) -> None:
    """Process substitution hands over a FIFO."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(LOG,))
    writer.start()
    found = told(evidence.load(path, read_case=case_files.read_case))
    writer.join()

    assert found == [("fifo", LOG)]


def test_a_pipe_without_a_writer_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command does not wait for it."""
    monkeypatch.setattr(evidence, "_WRITER_SECONDS", 0.05)
    os.mkfifo(tmp_path / "fifo")

    with pytest.raises(InputError, match="fifo: is a pipe without a writer; use a log file"):
        evidence.load(tmp_path / "fifo", read_case=case_files.read_case)


def test_a_pause_of_a_growing_log_is_an_empty_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data is passed on as it arrives, and the last piece is the end."""
    monkeypatch.setattr(evidence, "_PAUSE", 0.01)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0) as writer:
        pieces = evidence.growing(reading, Path("a.log"), lambda: 0).pieces()
        writer.write(b"one\n")
        begun = [next(pieces), next(pieces)]
        writer.write(b"two\n")
        writer.close()
        rest = list(pieces)

    assert begun == ["one\n", ""]
    assert rest == ["two\n", ""]


def test_a_process_substitution_is_read() -> None:
    """The shell passes an open pipe, and its writer may be slow."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb") as writer:
        writer.write(LOG.encode())
        writer.close()
        found = evidence.load(f"/dev/fd/{reading}", read_case=case_files.read_case)

    assert found.documents[0].text == LOG


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null"])
def test_a_device_is_rejected(name: str) -> None:
    """One has no end, another no text."""
    with pytest.raises(InputError, match=f"{name}: is a device, not a regular file"):
        evidence.load(name, read_case=case_files.read_case)


def test_an_input_that_is_not_a_log_is_named(tmp_path: Path) -> None:
    """An empty one by its number, a recorded case by its kind."""
    folder = make_case(tmp_path)

    with pytest.raises(InputError, match=r"name 2 of 2 is empty \(''\)"):
        evidence.load_files([str(folder / "a.log"), ""], read_case=case_files.read_case)
    with pytest.raises(InputError, match="one: is a recorded case; several inputs must be log files"):
        evidence.load_files([str(folder / "a.log"), "one"], read_case=case_files.read_case, cases=tmp_path)


def test_a_pasted_text_is_evidence() -> None:
    """It needs no file, a lone surrogate becomes visible, and empty text is accepted."""
    found = evidence.pasted("text \udc9f", vllm="0.19.0")

    assert told(found) == [("pasted text", "text \\udc9f")]
    assert found.vllm == "0.19.0"
    with pytest.raises(InputError, match="the pasted text: is empty"):
        evidence.pasted("  \n")


def test_logs_of_a_folder_are_sorted_by_name_and_number(tmp_path: Path) -> None:
    """Rank 10 follows rank 2, and longer names do not follow shorter ones."""
    for name in ("zz.log", "aaa.log", "rank10.log", "rank2.log"):
        (tmp_path / name).write_text("INFO 01-01 00:00:00 [x.py:1] y\n")

    found = evidence.load_files([str(tmp_path)], read_case=lambda _: pytest.fail("there is no case"))

    assert [one.name for one in found.documents] == ["aaa.log", "rank2.log", "rank10.log", "zz.log"]


def test_an_empty_log_is_reported_and_skipped(tmp_path: Path) -> None:
    """Ray leaves many empty logs; if all are empty, there is no evidence."""
    for name, text in (("node0.log", LOG), ("node1.log", ""), ("dashboard.err", "")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    names = [str(tmp_path / name) for name in ("node0.log", "node1.log")]

    folder = evidence.load(tmp_path, read_case=case_files.read_case)
    several = evidence.load_files(names, read_case=case_files.read_case)

    assert [document.name for document in folder.documents] == ["node0.log"]
    assert folder.empty == ("dashboard.err", "node1.log")
    assert several.empty == ("node1.log",)
    assert "Skipped empty files: node1.log." in diagnosing.diagnose(several).notes[0]
    with pytest.raises(InputError, match=r"node1\.log: is empty"):
        evidence.load_files([names[1], str(tmp_path / "dashboard.err")], read_case=case_files.read_case)
