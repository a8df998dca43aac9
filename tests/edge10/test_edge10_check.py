"""Trees and checkpoints between the steps to an Edge10 chip: whole ones pass, damage is named."""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import subprocess
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from rows import in_one_test
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.toolchains import TreeFile
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.artefacts import findings, folders, listings
from vllm_runbooks.edge10.artefacts import kinds as artefacts
from vllm_runbooks.edge10.artefacts.kinds import ExpectedArtefact, ScannedFolder
from vllm_runbooks.edge10.artefacts.records import CheckedFolder, Contents, ListedFile, Listing

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "edge10_trees"
SIZE = 4096
VLM = "vlm-4die"


def _rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((HERE / f"{name}.yaml").read_text("utf-8"))
    return found


def _named(rows: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(row, id=f"{number}: {row['what']}"[:80]) for number, row in enumerate(rows)]


@cache
def _document(name: str) -> Listing:
    return listings.read((HERE / f"{name}.txt").read_text("utf-8"), name)


def _asked(row: Mapping[str, Any]) -> ExpectedArtefact:
    asks = row.get("asks", {})
    lengths = asks.get("lengths")
    return ExpectedArtefact(dies=asks.get("dies"), lengths=tuple(lengths) if lengths else None, step=asks.get("step"))


def _judged(paths: dict[str, int | None], name: str, row: Mapping[str, Any]) -> CheckedFolder:
    """The check of a tree after this change."""
    removed = [re.compile(each) for each in row.get("remove", ())]
    renamed = {re.compile(old): new for old, new in row.get("rename", {}).items()}
    held: dict[str, int | None] = {}
    for path, size in paths.items():
        if any(each.fullmatch(path) for each in removed):
            continue
        new = next((each.sub(to, path) for each, to in renamed.items() if each.fullmatch(path)), path)
        held[new] = size
    held |= dict.fromkeys(row.get("add", ()))
    if "sizes" in row:
        told = {re.compile(path): size for path, size in row["sizes"].items()}
        held = {path: next((size for each, size in told.items() if each.fullmatch(path)), SIZE) for path in held}
    if root := row.get("root"):
        held = {path.removeprefix(f"{root}/"): size for path, size in held.items() if path.startswith(f"{root}/")}
    files = tuple(ListedFile(path, size) for path, size in held.items())
    texts, damaged = {}, {}
    for path, text in row.get("texts", {}).items():
        try:
            json.loads(text)
            texts[path] = text
        except ValueError:
            damaged[path] = "is cut off"
    given = ScannedFolder(Listing(row.get("name", name), files), Contents(texts, {}, damaged))
    return artefacts.check(given, catalog.toolchain(), _asked(row))


def _found(checked: CheckedFolder) -> list[list[str | None]]:
    return sorted([[each.id, each.path] for each in checked.findings], key=str)


@pytest.mark.parametrize(
    ("name", "kind", "dies", "lengths"), [("llm-1die", "llm", 1, (1, 8)), ("vlm-4die", "vlm", 4, (1, 8, 96))]
)
def test_trees_of_the_guide_pass(name: str, kind: str, dies: int, lengths: tuple[int, ...]) -> None:
    """Listings of a compile's output are complete and recognized."""
    found = artefacts.check(ScannedFolder(_document(name), Contents()), catalog.toolchain(), ExpectedArtefact())

    assert _found(found) == []
    assert (found.ok, found.artefact, found.kind, found.dies, found.lengths) == (True, "compiled", kind, dies, lengths)


@in_one_test("row", _named(_rows("damages")))
def test_damage_of_a_guides_tree_is_named(row: dict[str, Any]) -> None:
    """Exactly the predicted findings."""
    document = _document(row["of"])
    found = _judged({each.path: each.bytes for each in document.files if each.kind == "file"}, document.name, row)

    assert _found(found) == sorted(row["finds"], key=str)
    assert found.ok is False


def _made(row: Mapping[str, Any]) -> dict[str, int | None]:
    """The files of a tree that its settings describe."""
    facts = catalog.toolchain()
    phases = row["lengths"]
    stems = {"visual": "784_1536_[float16]", "mrope": "3_8192_[int32]"}
    context = re.search(r"_(\d+)_\ddie", row["name"])
    stems["mrope"] = f"3_{context[1]}_[int32]" if context else stems["mrope"]
    found: dict[str, int | None] = {}
    for each in facts.trees[row["kind"]]:
        for die in range(row["dies"]) if "{die}" in each.path else (0,):
            for length in phases if "{length}" in each.path else (0,):
                if _is_made(each, phases.get(length, [])):
                    path = each.path.replace("{die}", str(die)).replace("{length}", str(length))
                    stem = stems.get(path.partition("/")[0], "")
                    found[f"{row['dies']}die/{path.replace('*', stem)}"] = None
    return found


def _is_made(each: TreeFile, phases: list[str]) -> bool:
    return each.phase is None or each.phase in phases


@in_one_test("row", _named(_rows("trees")))
def test_a_tree_with_other_settings_has_its_predicted_findings(row: dict[str, Any]) -> None:
    """Other models, dies, lengths and damage than the guide's follow the same rules."""
    found = _judged(_made(row), row["name"], row)

    assert _found(found) == sorted(row["finds"], key=str)
    assert found.ok is not bool(row["finds"])


@in_one_test("row", _named(_rows("listings")))
def test_a_listing_of_any_program_is_read(row: dict[str, Any]) -> None:
    """Each program's output has the same files and sizes."""
    found = listings.read(row["text"], "listing")
    above = "1die/" if found.name == "1die" else ""

    assert {f"{above}{each.path}": each.bytes for each in found.files if each.kind == "file"} == row["files"]


# ---- checkpoints

QUANTISED = {"llm": "Qwen3-1.7B-AMTC-AWQ", "vlm": "Qwen3-VL-4B-AMTC-LM-AWQ", "float": "Qwen3-1.7B"}
MODULES = {
    "self_attn.q_proj": (64, 64), "self_attn.k_proj": (64, 32), "self_attn.v_proj": (64, 32),
    "self_attn.o_proj": (64, 64),
    "mlp.gate_proj": (64, 128), "mlp.up_proj": (64, 128), "mlp.down_proj": (128, 64),
}  # fmt: skip
GROUP = 32
WIDTHS = {"F16": 2, "BF16": 2, "F32": 4, "I32": 4}
PACKED = {"qweight": ("I32", (64, 24)), "qzeros": ("I32", (2, 24)), "scales": ("F16", (2, 192))}
Tensors = dict[str, tuple[str, tuple[int, ...]]]


def _save(path: Path, tensors: Tensors) -> None:
    """Write a file in the published format; its weights are zeros."""
    header: dict[str, object] = {}
    end = 0
    for name, (dtype, shape) in tensors.items():
        size = WIDTHS[dtype]
        for side in shape:
            size *= side
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))


def _tensors(kind: str, *, is_packed: bool) -> list[Tensors]:
    """Tensors of a tiny model in two files."""
    layers: list[Tensors] = [{"model.embed_tokens.weight": ("F16", (512, 64))}, {"model.norm.weight": ("F16", (64,))}]
    for layer, held in enumerate(layers):
        held[f"model.layers.{layer}.input_layernorm.weight"] = ("F16", (64,))
        for module, (rows, columns) in MODULES.items():
            name = f"model.layers.{layer}.{module}"
            if is_packed:
                held[f"{name}.qweight"] = ("I32", (rows, columns // 8))
                held[f"{name}.qzeros"] = ("I32", (rows // GROUP, columns // 8))
                held[f"{name}.scales"] = ("F16", (rows // GROUP, columns))
            else:
                held[f"{name}.weight"] = ("F16", (columns, rows))
    if kind == "vlm":
        layers[1]["lm_head.weight"] = ("F16", (512, 64))
        layers[1]["model.visual.blocks.0.attn.qkv.weight"] = ("F16", (192, 64))
        layers[1]["model.visual.patch_embed.proj.weight"] = ("F16", (64, 3, 2, 14, 14))
    return layers


def _checkpoint(folder: Path, kind: str, row: Mapping[str, Any], *, is_packed: bool) -> Path:
    """A complete checkpoint after this change."""
    folder.mkdir()
    config: dict[str, Any] = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2,
        "intermediate_size": 128, "vocab_size": 512, "tie_word_embeddings": kind == "llm", "torch_dtype": "float16",
    }  # fmt: skip
    if kind == "vlm":
        config |= {"vision_config": {"hidden_size": 64}, "model_type": "qwen3_vl"}
    if is_packed:
        quantised = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm"}
        config["quantization_config"] = quantised | ({"modules_to_not_convert": ["visual"]} if kind == "vlm" else {})
    for key, value in row.get("config", {}).items():
        joined = {**config[key], **value} if isinstance(value, dict) else value
        if isinstance(joined, dict):
            joined = {name: one for name, one in joined.items() if one is not None}
        config[key] = joined
        if value is None:
            del config[key]
    tokenizer = {"tokenizer_class": "Qwen2Tokenizer"}
    files: dict[str, object] = {
        "config.json": config, "generation_config.json": {}, "tokenizer.json": {}, "tokenizer_config.json": tokenizer,
        "vocab.json": {"a": 0},
    }  # fmt: skip
    if kind == "vlm":
        files |= {"preprocessor_config.json": {}, "chat_template.json": {}}
    for name, held in files.items():
        (folder / name).write_text(json.dumps(held))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    shards = _tensors(kind, is_packed=is_packed)
    dropped = [re.compile(each) for each in row.get("drop", ())]
    for number, held_tensors in enumerate(shards):
        for name in [name for name in held_tensors if any(each.fullmatch(name) for each in dropped)]:
            del held_tensors[name]
        for name, (dtype, shape) in row.get("put", {}).items():
            if (number == 0) is (".layers.0." in name or "embed" in name):
                held_tensors[name] = (dtype, tuple(shape))
    places: dict[str, str] = {}
    for number, held_tensors in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        _save(folder / file, held_tensors)
        places |= dict.fromkeys(held_tensors, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    for name in row.get("remove", ()):
        (folder / name).unlink()
    for name, share in row.get("cut", {}).items():
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: int(len(whole) * share)])
    for name, text in row.get("texts", {}).items():
        (folder / name).write_text(text)
    return folder


def _given(folder: Path) -> ScannedFolder:
    listing = folders.list_folder(folder)
    return ScannedFolder(listing, folders.read_contents(folder, listing))


@pytest.mark.parametrize("row", _named(_rows("checkpoints")))
def test_a_checkpoint_has_its_predicted_findings(tmp_path: Path, row: dict[str, Any]) -> None:
    """A whole checkpoint passes; each damage is named, and nothing else."""
    kind = "llm" if row["of"] == "float" else row["of"]
    folder = _checkpoint(tmp_path / QUANTISED[row["of"]], kind, row, is_packed=row["of"] != "float")
    float_ = None
    if row.get("with_float"):
        float_ = _given(_checkpoint(tmp_path / "float", kind, {}, is_packed=False))
    asked = ExpectedArtefact(step=row.get("step"))
    facts = catalog.toolchain()
    found = artefacts.check(_given(folder), facts, asked, float_=float_, is_same=row.get("same", False))

    assert _found(found) == sorted(row["finds"], key=str)
    assert found.ok is not bool(row["finds"])


@pytest.mark.parametrize(("blocks", "said"), [(1, "contains {first}: "), (2, "contains {first} and 1 more: ")])
def test_packed_weights_of_the_vision_part_are_named_and_counted(tmp_path: Path, blocks: int, said: str) -> None:
    """The first by its name, further ones as a number."""
    names = [f"model.visual.blocks.{number}.attn.qkv" for number in range(blocks)]
    put = {f"{name}.{part}": held for name in names for part, held in PACKED.items()}
    folder = _checkpoint(tmp_path / QUANTISED["vlm"], "vlm", {"put": put}, is_packed=True)
    found = artefacts.check(_given(folder), catalog.toolchain(), ExpectedArtefact())

    assert [each.id for each in found.findings] == ["edge10.checkpoint_vision_quantised"]
    assert said.format(first=f"{names[0]}.qweight") in found.findings[0].text


# ---- the command


def _tree(folder: Path, name: str = "vlm-4die") -> Path:
    """A document's tree on the disk."""
    document = _document(name)
    root = folder / document.name
    for each in document.files:
        if each.kind == "file":
            path = root / each.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"" if path.name == "empty.bin" else b"{}" if path.suffix == ".json" else b"x" * 99)
    return root


def _ids(text: str) -> list[str]:
    return [each["id"] for each in json.loads(text)["findings"]]


def test_a_folder_and_its_listing_have_the_same_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tree on disk and the output of `ls -lR`."""
    root = _tree(tmp_path)
    (root / "4die" / "batch_1" / "common_die2.params").unlink()
    status, out, _ = run(capsys, "edge10", "check", str(root), "--format", "json")
    printed = subprocess.run(["ls", "-lR", str(root)], capture_output=True, text=True, check=True).stdout
    (tmp_path / "ls.txt").write_text(printed)

    told, listed, _ = run(capsys, "edge10", "check", str(tmp_path / "ls.txt"), "--format", "json")

    assert (status, told) == (1, 1)
    assert _ids(out) == _ids(listed) == ["edge10.tree_file_missing"]
    assert json.loads(out)["findings"][0]["path"] == "4die/batch_1/common_die2.params"


def test_the_document_matches_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--format json` is valid for the generated schema."""
    jsonschema = pytest.importorskip("jsonschema")
    root = _tree(tmp_path)
    (root / "4die" / "tokenizer.json").unlink()
    _, out, _ = run(capsys, "edge10", "check", str(root), "--format", "json")

    jsonschema.validate(json.loads(out), json.loads((ROOT / "catalog" / "schema" / "edge10-check.json").read_text()))


def test_a_job_defines_the_expected_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its dies and lengths are compared with the tree."""
    job = tmp_path / "job.yaml"
    job.write_text("model: Qwen/Qwen3-1.7B\ndies: 2\nprefill: 8\n")
    root = _tree(tmp_path, "llm-1die")

    status, out, _ = run(capsys, "edge10", "check", str(root), "--job", str(job), "--format", "json")

    assert (status, _ids(out)) == (1, ["edge10.tree_dies_contradict"])


def test_a_single_file_is_in_the_singular() -> None:
    """A folder that should contain one file has its own sentence."""
    files = tuple(ListedFile(path, None) for path in _made({"kind": "llm", "dies": 1, "lengths": {}, "name": "m"}))
    gone = [each for each in files if not each.path.startswith("1die/batch_1/")]
    found = artefacts.check(
        ScannedFolder(Listing("m", tuple(gone)), Contents()), catalog.toolchain(), ExpectedArtefact(dies=1)
    )

    assert [each.text for each in found.findings] == ["is empty, but one file belongs"]


BAD: dict[str, tuple[str, str]] = {
    "prose": ("The model was compiled yesterday.\nIt took four hours and went well.\n", "is not a folder listing"),
    "another folder": (".\n├── a\n│   └── b.txt\n└── c\n", "contains neither a compiled model"),
    "JSON": ('{"schema": 2, "findings": []}', "is not a folder listing"),
    "deep JSON": ("[" * 100_000, "is not a folder listing"),
    "paths alone": ("./4die/batch_1/common_die0.params\n./4die/config.json\n", "is not a folder listing"),
    "a log with times": ("worker started\nworker-1 2025-11-28 10:00:00 ready\n", "is not a folder listing"),
    "a folder's name above nothing": ("/data/m-AWQ-AOT_8_4096:\n", "is not a folder listing"),
}


@pytest.mark.parametrize("what", BAD)
def test_input_that_is_not_a_listing_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    """Exit status 2, with the expected input."""
    text, said = BAD[what]
    (tmp_path / "given").write_text(text)

    status, out, err = run(capsys, "edge10", "check", str(tmp_path / "given"))

    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert said in err


def test_a_missing_or_empty_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that is not there, and a folder without a file, are named."""
    for name, said in ((tmp_path / "gone", "gone"), (tmp_path, "is empty")):
        status, out, err = run(capsys, "edge10", "check", str(name))
        assert (status, out, err.count("\n")) == (2, "", 1), err
        assert said in err


def test_file_names_cannot_control_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Line ends, escapes and markup in names are visible, in text and JSON."""
    root = _tree(tmp_path, "llm-1die")
    (root / "1die" / "a\nnot ok: \x1b[31m<b>.so").write_bytes(b"x")

    _, text, _ = run(capsys, "edge10", "check", str(root))
    status, out, _ = run(capsys, "edge10", "check", str(root), "--format", "json")

    assert "\x1b" not in text
    assert not any(line.startswith("not ok") for line in text.splitlines())
    assert (status, _ids(out)) == (0, ["edge10.tree_unknown_file"])


def test_secret_in_a_name_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a text nor a document has it."""
    token = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY"
    root = _tree(tmp_path, "llm-1die")
    (root / "1die" / f"{token}.so").write_bytes(b"x")
    (root / "1die" / "alice:Pl4nted5ecret@reg.onnx").write_bytes(b"x")
    for form in ("text", "json"):
        summary = run(capsys, "edge10", "check", str(root), "--format", form)
        _, out, err = run(capsys, "edge10", "check", str(root), "--format", form, "--explain")
        for shown in (out + err, summary[1] + summary[2]):
            assert token not in shown
            assert "Pl4nted" not in shown
        assert "alice:[secret-" in out


def test_an_unreadable_folder_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are neither present nor missing."""
    root = _tree(tmp_path)
    scan = os.scandir

    def refused(path: Path) -> Any:
        if Path(path).name == "seqlen_8":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refused)
    found = artefacts.check(_given(root), catalog.toolchain(), ExpectedArtefact())

    assert _found(found) == [["edge10.tree_unread", "4die/batch_1/seqlen_8"]]


def test_links_cause_no_cycle(tmp_path: Path) -> None:
    """Linked folders are skipped, linked files are read, broken links are reported."""
    root = _tree(tmp_path, "llm-1die")
    (root / "1die" / "again").symlink_to(root)
    (root / "1die" / "nothing.so").symlink_to(root / "gone")
    config = root / "1die" / "config.json"
    config.rename(tmp_path / "config.json")
    config.symlink_to(tmp_path / "config.json")

    found = artefacts.check(_given(root), catalog.toolchain(), ExpectedArtefact())

    assert _found(found) == [["edge10.tree_link", "1die/nothing.so"]]
    assert {each.source for each in found.findings} == {"error message of the file system"}


def test_the_guide_is_the_source_only_of_its_own_facts() -> None:
    """Of a compiled model's files; the loader's sources are those of its behavior."""
    facts = catalog.toolchain()
    notes = findings.FolderNotes(facts.source)
    for name in ("edge10.tree_file_missing", "edge10.checkpoint_bits", "edge10.checkpoint_shard_missing"):
        notes.add(name, None, "text")
    told = {finding.id: finding.source for finding in notes.findings}

    assert told["edge10.tree_file_missing"] == f"{facts.source}: list of the compiler's output files"
    assert not any(facts.source in told[name] for name in told if "checkpoint" in name)


def test_options_for_compiled_models_are_unknown_for_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option without effect is named, and the result is not a pass."""
    root = _checkpoint(tmp_path / "Qwen3-1.7B-AWQ", "llm", {}, is_packed=True)

    status, out, _ = run(capsys, "edge10", "check", str(root), "--dies", "4", "--lengths", "1,8", "--format", "json")

    assert status == 1
    assert [each.split(":")[0] for each in json.loads(out)["unchecked"]] == [
        "--dies",
        "--lengths",
    ]


def test_too_many_files_are_reported_and_none_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder above the limit is incomplete, so no file of it is called missing."""
    monkeypatch.setattr(folders, "MAX_FILES", 20)
    found = artefacts.check(_given(_tree(tmp_path)), catalog.toolchain(), ExpectedArtefact())

    assert _found(found) == [["edge10.tree_cut", None]]


def test_a_listing_of_too_many_lines_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further lines are not read, and the listing is reported as truncated."""
    text = "4die\n" + "".join(f"├── llm_die{number}.params\n" for number in range(3_000))
    monkeypatch.setattr(listings, "MAX_FILES", 1_000)
    few = listings.read(text, "many")
    monkeypatch.setattr(listings, "_MAX_LINES", 500)
    fewer = listings.read(text, "many")

    assert [(len(each.files), each.is_truncated) for each in (few, fewer)] == [(1_000, True), (500, True)]


@pytest.mark.parametrize(
    "text",
    ["│" * 200_000, "[" * 200_000, "a " * 200_000, "└── " * 50_000, "-rw-r--r-- " * 40_000, "28-11-25 10:00 " * 30_000],
)
def test_hostile_lines_cost_no_time(text: str) -> None:
    """No pattern takes more than its length."""
    begun = time.process_time()
    with contextlib.suppress(InputError):
        listings.read(text + "\n" + text, "hostile")
    assert time.process_time() - begun < 2
