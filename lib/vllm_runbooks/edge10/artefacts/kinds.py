"""Check a folder between two steps: a quantised checkpoint or a compiled model.

The number of dies and the lengths of a compiled model come from the folder's name, the job, the
options or the files, in this order. A contradiction is a finding, and the files decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Severity
from vllm_runbooks.edge10.artefacts import weights_files
from vllm_runbooks.edge10.artefacts.findings import FolderNotes
from vllm_runbooks.edge10.artefacts.records import CheckedFolder, Contents, Listing
from vllm_runbooks.edge10.artefacts.tree_forms import CompiledTree
from vllm_runbooks.edge10.artefacts.trees import CompiledLengths, TreeCheck
from vllm_runbooks.edge10.artefacts.weights_files import Checkpoint, CheckpointCheck
from vllm_runbooks.edge10.jobs import names
from vllm_runbooks.edge10.jobs.records import EdgeJob, FolderName
from vllm_runbooks.edge10.models import listed

_T = TypeVar("_T")
_FILES = "the files themselves"
_NAME = "the folder's name"


@dataclass(frozen=True)
class ExpectedArtefact:
    """Expected contents of a folder; None for any."""

    job: EdgeJob | None = None
    dies: int | None = None
    lengths: tuple[int, ...] | None = None
    step: str | None = None


class ScannedFolder(NamedTuple):
    """A folder as it was listed and read."""

    listing: Listing
    contents: Contents


def check(
    folder: ScannedFolder,
    facts: Toolchain,
    request: ExpectedArtefact,
    *,
    float_: ScannedFolder | None = None,
    is_same: bool = False,
) -> CheckedFolder:
    """Check a folder of artefacts; raises InputError."""
    notes = FolderNotes(facts.source)
    context = _Context(folder, facts, request, notes)
    listing = folder.listing
    if listing.is_truncated:
        text = f"contains more than {len(listing.files):,} files, or too deeply nested folders"
        notes.add("edge10.tree_cut", None, text)
    for path, reason in listing.unread.items():
        notes.add("edge10.tree_unread", path or None, f"could not be listed: {reason}")
    for file in listing.files:
        if file.kind == "broken link":
            notes.add("edge10.tree_link", file.path, "is a broken link")
    if listing.is_truncated:
        return context.result("compiled")
    bases = _dies_folders(listing, facts)
    checkpoint = _checkpoint_folder(listing)
    if request.step in ("quantise", "convert") or (request.step is None and not bases and checkpoint is not None):
        return _check_checkpoint(context, checkpoint or "", float_, is_same=is_same)
    if not bases:
        if request.step != "compile" or not any(file.kind == "file" for file in listing.files):
            raise InputError(
                f"{listing.name or 'the listing'}: contains neither a compiled model (4die/batch_1/…) nor a "
                "checkpoint (config.json, *.safetensors); use the folder that contains one"
            )
        bases = [""]
    return _check_trees(context, bases)


class _FolderSettings(NamedTuple):
    """Purpose of a folder, and how it was determined."""

    kind: str | None = None
    dies: int | None = None
    dies_source: str = ""
    lengths: tuple[int, ...] | None = None
    lengths_source: str = ""


class _Context(NamedTuple):
    """A check in progress."""

    folder: ScannedFolder
    facts: Toolchain
    request: ExpectedArtefact
    notes: FolderNotes

    def result(self, what: str, name: str | None = None, settings: _FolderSettings | None = None) -> CheckedFolder:
        """The verdict."""
        notes, listing = self.notes, self.folder.listing
        is_wrong = any(finding.severity is not Severity.HINT for finding in notes.findings)
        return CheckedFolder(
            toolchain=self.facts.id,
            name=listing.name if name is None else name,
            artefact=what,
            **(settings or _FolderSettings())._asdict(),
            listing=listing,
            findings=tuple(notes.findings),
            unchecked=tuple(notes.unchecked),
            notes=tuple(dict.fromkeys(notes.remarks)),
            ok=False if is_wrong else None if notes.unchecked else True,
        )


# ---- which kind of folder it is


def _dies_folders(listing: Listing, facts: Toolchain) -> list[str]:
    """Folders of dies with a trailing slash; empty text for the checked folder itself."""
    templates = [template.path for files in facts.trees.values() for template in files]
    tops = {_top(path) for path in templates} - {""}
    main = {_top(path) for path in templates if "{length}" in path}
    by_name: dict[str, None] = {}
    by_content: dict[str, set[str]] = {}
    for file in listing.files:
        parts = file.path.split("/")
        folders = parts if file.kind in ("folder", "linked folder") else parts[:-1]
        for end, part in enumerate(folders):
            if names.dies_of(part, facts) is not None:
                by_name["/".join(parts[: end + 1]) + "/"] = None
                break
            if part in tops:
                by_content.setdefault("".join(f"{parent}/" for parent in parts[:end]), set()).add(part)
                break
    return list(by_name) or [base for base, parts in by_content.items() if parts & main or len(parts) > 1]


def _top(path: str) -> str:
    return path.partition("/")[0] if "/" in path else ""


def _checkpoint_folder(listing: Listing) -> str | None:
    """The folder of a checkpoint with a trailing slash; None if there is none."""
    files = [file.path for file in listing.files if file.kind != "folder"]
    marks = [path for path in files if path.endswith(".safetensors") or path.rpartition("/")[2] == weights_files.INDEX]
    marks = marks or [path for path in files if path.rpartition("/")[2] in ("config.json", "tokenizer_config.json")]
    if not marks:
        return None
    folder = min(marks, key=lambda path: (path.count("/"), path)).rpartition("/")[0]
    return f"{folder}/" if folder else ""


# ---- a compiled model


def _check_trees(context: _Context, bases: Sequence[str]) -> CheckedFolder:
    listing, facts, notes = context.folder.listing, context.facts, context.notes
    parents = {_parent(base) for base in bases}
    if len(parents) > 1:
        folders = ", ".join(sorted(parent or "." for parent in parents)[:4])
        notes.add("edge10.tree_level", None, f"contains {len(parents)} compiled models ({folders}); use one of them")
        return context.result("compiled")
    name = _model_folder(listing, bases[0], facts)
    settings = names.read(name, facts) if name else None
    trees = [_check_tree(context, base, settings) for base in bases]
    notes.base = ""
    if settings is not None:
        _check_name(notes, settings, trees[0])
    return context.result("compiled", name, trees[0])


def _parent(base: str) -> str:
    return base.rstrip("/").rpartition("/")[0]


def _model_folder(listing: Listing, base: str, facts: Toolchain) -> str:
    """Name of the compiled model's folder, which contains that of the dies; empty if unknown."""
    if parent := _parent(base):
        return parent.rpartition("/")[2]
    return "" if not base and names.dies_of(listing.name, facts) is not None else listing.name


def _kind(paths: Sequence[str], settings: FolderName | None, request: ExpectedArtefact, facts: Toolchain) -> str:
    """The kind of model: by its files, else by the job, else by the folder's name."""
    parts = {
        kind: {_top(template.path) or template.path for template in templates if template.is_needed or kind == "llm"}
        for kind, templates in facts.trees.items()
    }
    seen = {_top(path) or path for path in paths}
    # A single file that a language model does not have may be a leftover.
    by_files = next((kind for kind in parts if len((parts[kind] - parts["llm"]) & seen) > 1), "")
    model = listed(settings.model, facts) if settings is not None and settings.model else None
    by_name = (settings.kind if settings else None) or (model.kind if model else None)
    return by_files or (request.job.kind if request.job else None) or by_name or "llm"


def _check_tree(context: _Context, base: str, settings: FolderName | None) -> _FolderSettings:
    listing, contents = context.folder
    facts, notes = context.facts, context.notes
    notes.base = base
    files = [replace(file, path=file.path.removeprefix(base)) for file in listing.files if file.path.startswith(base)]
    kind = _kind([file.path for file in files], settings, context.request, facts)
    if any(_is_weights(file.path) for file in files):
        # Without an artifacts_path the compiler writes into the checkpoint's folder.
        small_files = {name for row in facts.checkpoint for name in row.names} - {row.path for row in facts.trees[kind]}
        files = [file for file in files if not _is_weights(file.path) and file.path not in small_files]
        notes.remarks.append("the same folder contains a checkpoint, which --step convert checks")
    tree = CompiledTree(files, facts.trees[kind])
    dies, dies_source = _find_dies(context, tree, settings)
    if dies not in facts.limits.dies:
        numbers = ", ".join(map(str, facts.limits.dies))
        notes.remarks.append(f"the source shows {numbers} dies; unknown whether {dies} are possible")
    _check_dies_folder(context, dies)
    compiled = CompiledLengths(tree, facts, dies)
    lengths, lengths_source = _find_lengths(context, compiled, settings)
    unread = [path.removeprefix(base) for path in listing.unread if path.startswith(base)]
    if not contents.texts and not contents.damaged:
        notes.remarks.append("the files' content is unknown and not checked")
    TreeCheck(tree, compiled, lengths, unread, notes).run(_below(base, contents.damaged))
    return _FolderSettings(kind, dies, dies_source, lengths, lengths_source)


def _is_weights(path: str) -> bool:
    return "/" not in path and (path.endswith(".safetensors") or path == weights_files.INDEX)


def _below(base: str, by_path: Mapping[str, _T]) -> dict[str, _T]:
    return {path.removeprefix(base): value for path, value in by_path.items() if path.startswith(base)}


def _dies_name(context: _Context) -> str:
    """Name of the folder of the dies; empty if unknown."""
    return context.notes.base.rstrip("/").rpartition("/")[2] or context.folder.listing.name


def _find_dies(context: _Context, tree: CompiledTree, settings: FolderName | None) -> tuple[int, str]:
    request = context.request
    sources = {
        "the name of the folder of dies": names.dies_of(_dies_name(context), context.facts),
        _NAME: settings.dies if settings else None,
        "the job": request.job.dies if request.job else None,
        "--dies": request.dies,
    }
    stated = {source: number for source, number in sources.items() if number}
    counted = tree.count_dies()
    if not stated:
        return counted or 1, _FILES
    source, number = next(iter(stated.items()))
    if len(set(stated.values())) > 1:
        source, number = next((pair for pair in stated.items() if pair[1] == counted), (source, number))
        text = "; ".join(f"{by}: {count}" for by, count in stated.items())
        context.notes.add("edge10.tree_dies_contradict", "", f"number of dies: {text}")
    return number, source


def _check_dies_folder(context: _Context, dies: int) -> None:
    name, notes = _dies_name(context), context.notes
    if not name or names.dies_of(name, context.facts) is not None:
        return
    expected = names.dies_folder(dies, context.facts)
    if not notes.base and names.read(name, context.facts) is not None:
        text, do = f"its files are in it, not in {expected} below it", f"make {expected} in it, and move them there"
    else:
        text, do = f"is not the expected folder name of the dies, {expected}", f"rename the folder to {expected}"
    notes.add("edge10.tree_misnamed", "", text, do=do)


def _find_lengths(
    context: _Context, compiled: CompiledLengths, settings: FolderName | None
) -> tuple[tuple[int, ...], str]:
    request = context.request
    sources = {
        _NAME: (1, *settings.prefill) if settings is not None and settings.prefill else None,
        "the job": request.job.lengths if request.job else None,
        "--lengths": request.lengths,
    }
    stated = {source: tuple(sorted(set(numbers))) for source, numbers in sources.items() if numbers}
    expected = {length for numbers in stated.values() for length in numbers}
    present = set(compiled.complete)
    if not expected:
        return compiled.complete, _FILES
    if present and expected - present and present - expected:
        text = "; ".join(f"{source}: {_joined(numbers)}" for source, numbers in stated.items())
        text = f"{text}; the files are of {_joined(compiled.complete)}"
        context.notes.add("edge10.tree_lengths_contradict", _parent(compiled.folder), text)
        return compiled.complete, _FILES
    if more := sorted(present - expected):
        text = f"length {_joined(more)} is also present, complete or nearly so, but was not requested"
        context.notes.remarks.append(text)
    return tuple(sorted(expected | present)), " and ".join(stated)


def _joined(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


# ---- the name of a compiled model's folder


def _check_name(notes: FolderNotes, settings: FolderName, tree: _FolderSettings) -> None:
    if settings.rest:
        do = f"rename the folder to {settings.name.removesuffix(f'_{settings.rest}')}"
        notes.add("edge10.tree_name_rest", None, f"its name ends with _{settings.rest}", do=do)
    if tree.kind == "vlm" and "_" in settings.model:
        text = f"its model name contains an underscore: {settings.model}"
        notes.add("edge10.tree_name_model", None, text)
    if settings.remap is not None and settings.dies == tree.dies and not _is_order(settings):
        end = settings.remap or "(nothing)"
        text = f"its name ends in {end}, which is not an order of {settings.dies} dies for both parts"
        notes.add("edge10.tree_remap", None, text)


def _is_order(settings: FolderName) -> bool:
    """Whether the digits of a name are two orders of its dies, with or without their trailing zeros."""
    digits, dies = settings.remap or "", settings.dies or 0
    halves = (digits[:dies], digits[dies:])
    return bool(settings.orders) or all(sorted(half) == [str(die) for die in range(dies)] for half in halves)


# ---- a checkpoint


def _check_checkpoint(context: _Context, base: str, float_: ScannedFolder | None, *, is_same: bool) -> CheckedFolder:
    facts, request, notes = context.facts, context.request, context.notes
    notes.base = base
    checkpoint = _as_checkpoint(context.folder, base)
    float_model = None if float_ is None else _as_checkpoint(float_, _checkpoint_folder(float_.listing) or "")
    model = listed(checkpoint.name, facts) if checkpoint.name else None
    by_files = checkpoint.kind or (float_model.kind if float_model else None)
    by_name = (request.job.kind if request.job else None) or (model.kind if model else None)
    kind = by_files if by_files == "vlm" else by_name or by_files
    if is_same:
        notes.add("edge10.checkpoint_is_float", None, "is the folder of the float model itself")
    else:
        CheckpointCheck(checkpoint, facts, notes, kind=kind, step=request.step, float_model=float_model).run()
    for option, value in (("--dies", request.dies), ("--lengths", request.lengths)):
        if value is not None:
            notes.unchecked.append(f"{option}: applies to a compiled model, but this is a checkpoint")
    return context.result("checkpoint", checkpoint.name, _FolderSettings(kind))


def _as_checkpoint(folder: ScannedFolder, base: str) -> Checkpoint:
    files = {file.path: file for file in folder.listing.files if file.kind == "file"}
    read = folder.contents
    contents = Contents(_below(base, read.texts), _below(base, read.tensors), _below(base, read.damaged))
    name = base.rstrip("/").rpartition("/")[2] or folder.listing.name
    return Checkpoint(_below(base, files), contents, name)
