"""What lies in a folder between two steps: a quantised checkpoint or a compiled tree, and what is wrong with it.

How many dies and which lengths a tree is of comes from the folder's name, the job, the options or the files themselves,
in this order; where two of them contradict each other that is said, and what the files show decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from vllm_runbooks.catalog.toolchains import MODALITIES, Toolchain, ToolchainFinding
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Severity
from vllm_runbooks.edge10.artefacts import meanings, trees, weights_files
from vllm_runbooks.edge10.artefacts.records import CheckedFolder, Contents, ListedFile, Listing, Mend
from vllm_runbooks.edge10.artefacts.tree_forms import Form, Tree
from vllm_runbooks.edge10.artefacts.trees import Lengths, Wanted
from vllm_runbooks.edge10.artefacts.weights_files import Checkpoint
from vllm_runbooks.edge10.jobs import names
from vllm_runbooks.edge10.jobs.records import Job, NameTold
from vllm_runbooks.edge10.models import listed

_T = TypeVar("_T")
_FILES = "the files themselves"
_NAME = "the folder's name"
_COMPILED = frozenset(("compile",))


@dataclass(frozen=True)
class Asked:
    """What a folder should be of; None: that is not asked."""

    job: Job | None = None
    dies: int | None = None
    lengths: tuple[int, ...] | None = None
    step: str | None = None


class Given(NamedTuple):
    """A folder, as it was listed and read."""

    listing: Listing
    contents: Contents


def check(
    given: Given, facts: Toolchain, asked: Asked, *, float_: Given | None = None, is_same: bool = False
) -> CheckedFolder:
    """Judge a folder of artefacts.

    Args:
        given: The folder.
        facts: Of the toolchain.
        asked: What it should be of.
        float_: The float model's folder; None: it is not at hand.
        is_same: Whether both are one folder.

    Raises:
        InputError: it is neither a compiled tree nor a checkpoint, and nothing in it says what it should be.
    """
    listing = given.listing
    broken = list(_general(listing, facts))
    if listing.is_cut:
        return _answer(given, facts, asked, "compiled", findings=broken)
    bases = _bases(listing, facts)
    where = _checkpoint(listing)
    if asked.step in ("quantise", "convert") or (asked.step is None and not bases and where is not None):
        return _checked_checkpoint(given, facts, asked, where or "", float_, is_same=is_same, broken=broken)
    if not bases:
        level = _level(listing, facts)
        if level is not None:
            finding = meanings.finding("edge10.tree_level", None, level, source=facts.source)
            return _answer(given, facts, asked, "compiled", findings=[*broken, finding])
        if asked.step not in _COMPILED or not any(each.kind == "file" for each in listing.files):
            shown = listing.name or "the listing"
            raise InputError(
                f"{shown}: holds neither a compiled model (4die/batch_1/…) nor a checkpoint (config.json, "
                "*.safetensors); name the folder that holds one"
            )
        bases = [""]
    return _with_float(_checked_trees(given, facts, asked, bases, broken), float_)


def _answer(given: Given, facts: Toolchain, asked: Asked, what: str, **more: object) -> CheckedFolder:
    empty = CheckedFolder(
        toolchain=facts.id, name=given.listing.name, what=what, kind=asked.job.kind if asked.job else None, dies=None,
        dies_told_by="", lengths=None, lengths_told_by="", listing=given.listing, findings=(),
    )  # fmt: skip
    held = {name: tuple(value) if isinstance(value, list) else value for name, value in more.items()}
    found = _with_room(replace(empty, **held))  # type: ignore[arg-type]
    is_wrong = any(each.severity is not Severity.HINT for each in found.findings)
    return replace(found, ok=False if is_wrong else None if found.unchecked else True)


def _with_room(found: CheckedFolder) -> CheckedFolder:
    """The answer with copies and renames only to names that nothing has."""
    kinds = {each.path: each.kind for each in found.listing.files}
    taken = [each for each in found.mends if each.target in kinds]
    left = (
        f"{each.target}: {_IN_THE_WAY[kinds[each.target]]} has this name; remove it, and check again" for each in taken
    )
    return replace(found, mends=tuple(each for each in found.mends if each not in taken), left=(*found.left, *left))


_IN_THE_WAY = {
    "file": "a file", "folder": "a folder", "broken link": "a link that leads nowhere",
    "linked folder": "a link to a folder", "other": "what is no file",
}  # fmt: skip


def _general(listing: Listing, facts: Toolchain) -> Iterator[ToolchainFinding]:
    """What is wrong with any folder."""
    if listing.is_cut:
        said = f"holds more than {len(listing.files):,} files, or folders too deep inside of each other"
        yield meanings.finding("edge10.tree_cut", None, said, source=facts.source)
    for path, why in listing.unread.items():
        yield meanings.finding("edge10.tree_unread", path or None, f"could not be listed: {why}", source=facts.source)
    for each in listing.files:
        if each.kind == "broken link":
            yield meanings.finding("edge10.tree_link", each.path, "is a link that leads nowhere", source=facts.source)
        elif each.kind == "linked folder":
            yield meanings.finding("edge10.tree_linked_folder", each.path, "is a link to a folder", source=facts.source)
        elif each.kind == "other":
            said = "is no file to be read: a pipe, a socket or a device"
            yield meanings.finding("edge10.tree_no_file", each.path, said, source=facts.source)


# ---- what it is


def _bases(listing: Listing, facts: Toolchain) -> list[str]:
    """Folders of dies, each with a slash behind it; empty text: the folder itself."""
    tops = {top for files in facts.trees.values() for each in files if (top := _top(each.path))}
    by_name: dict[str, None] = {}
    by_top: dict[str, set[str]] = {}
    for each in listing.files:
        parts = each.path.split("/")
        folders = parts if each.kind in ("folder", "linked folder") else parts[:-1]
        for end, part in enumerate(folders):
            if names.dies_of(part, facts) is not None:
                by_name["/".join(parts[: end + 1]) + "/"] = None
                break
            if part in tops:
                by_top.setdefault("".join(f"{one}/" for one in parts[:end]), set()).add(part)
                break
    if by_name:
        return list(by_name)
    main = {_top(each.path) for files in facts.trees.values() for each in files if "{length}" in each.path}
    return [base for base, found in by_top.items() if found & main or len(found) > 1]


def _top(path: str) -> str:
    return path.partition("/")[0] if "/" in path else ""


def _checkpoint(listing: Listing) -> str | None:
    """The folder of a checkpoint, with a slash behind it; None: there is none."""
    files = [each.path for each in listing.files if each.kind != "folder"]
    marks = [path for path in files if path.endswith(".safetensors") or path.rpartition("/")[2] == weights_files.INDEX]
    marks = marks or [path for path in files if path.rpartition("/")[2] in ("config.json", "tokenizer_config.json")]
    if not marks:
        return None
    least = min(path.count("/") for path in marks)
    folder = min(path for path in marks if path.count("/") == least).rpartition("/")[0]
    return f"{folder}/" if folder else ""


def _level(listing: Listing, facts: Toolchain) -> str | None:
    """What part of a compiled tree a folder is; None: it is none."""
    files = [each.path for each in listing.files if each.kind == "file"]
    best: tuple[int, bool, str] = (0, False, "")
    for templates in facts.trees.values():
        for depth in (1, 2):
            forms: dict[str, list[Form]] = {}
            for each in templates:
                for path in filter(None, (each.path, each.renamed_from)):
                    parts = path.split("/")
                    if len(parts) > depth:
                        forms.setdefault("/".join(parts[:depth]), []).append(Form("/".join(parts[depth:])))
            for folder, held in forms.items():
                count = sum(any(form.read(path) is not None for form in held) for path in files[:2_000])
                is_named = Form(folder.rpartition("/")[2]).read(listing.name) is not None
                best = max(best, (count, is_named, folder.replace("{length}", "…")))
    count, _, folder = best
    if not count or 2 * count < len(files[:2_000]):
        return None
    return f"is {folder} of a compiled model, not the whole of it"


# ---- a compiled tree


def _checked_trees(
    given: Given, facts: Toolchain, asked: Asked, bases: Sequence[str], broken: list[ToolchainFinding]
) -> CheckedFolder:
    listing = given.listing
    above = {_parent(base) for base in bases}
    if len(above) > 1:
        shown = ", ".join(sorted(one or "." for one in above)[:4])
        said = f"holds {len(above)} compiled models ({shown}); give one of them"
        finding = meanings.finding("edge10.tree_level", None, said, source=facts.source)
        return _answer(given, facts, asked, "compiled", findings=[*broken, finding])
    name = _name(listing, bases[0], facts)
    read = names.read(name, facts) if name else None
    wanted = [n for n in (read.dies if read else None, asked.job.dies if asked.job else None, asked.dies) if n]
    chosen = [base for base in bases if _dies_of(base, listing, facts) in wanted]
    findings = list(broken)
    if len(bases) > 1 and chosen:
        findings += [
            meanings.finding(
                "edge10.tree_other_dies", base.rstrip("/"), f"lies beside {chosen[0].rstrip('/')}, which is wanted",
                source=facts.source,
            )
            for base in bases if base not in chosen
        ]  # fmt: skip
        bases = chosen
    answers = [_one_tree(given, facts, asked, base, read) for base in bases]
    findings += _of_name(read, facts, kind=answers[0].kind, dies=answers[0].dies)
    own = {one.id for each in answers for one in each.findings}
    findings += _of_job(read, asked.job, facts, skip=_PIECES if "edge10.tree_lengths_contradict" in own else "")
    first = answers[0]
    return _answer(
        given, facts, asked, "compiled",
        name=name, kind=first.kind, dies=first.dies, dies_told_by=first.dies_told_by, lengths=first.lengths,
        lengths_told_by=first.lengths_told_by,
        findings=[*findings, *(one for each in answers for one in each.findings)],
        mends=[one for each in answers for one in each.mends],
        left=[one for each in answers for one in each.left],
        remarks=list(dict.fromkeys([*_uncompared(read, asked.job, facts), *_remarks(answers)])),
    )  # fmt: skip


def _with_float(found: CheckedFolder, float_: Given | None) -> CheckedFolder:
    """The answer with files to copy only where the float model is known to have them."""
    base = "" if float_ is None else _checkpoint(float_.listing) or ""
    there = set() if float_ is None else {each.path for each in float_.listing.files if each.kind == "file"}
    mends, left = [], list(found.left)
    for each in found.mends:
        if not each.is_float:
            mends.append(each)
        elif f"{base}{each.source}" in there:
            mends.append(replace(each, source=f"{base}{each.source}"))
        elif float_ is None:
            left.append(f"{each.target}: --float FOLDER names the model to copy it from")
        else:
            left.append(f"{each.target}: the float model has none either")
    return replace(found, mends=tuple(mends), left=tuple(left))


def _parent(base: str) -> str:
    return base.rstrip("/").rpartition("/")[0]


def _name(listing: Listing, base: str, facts: Toolchain) -> str:
    """The name of the compiled model's folder: the one above that of its dies; empty: it is not told."""
    above = _parent(base)
    if above:
        return above.rpartition("/")[2]
    return "" if not base and names.dies_of(listing.name, facts) is not None else listing.name


def _dies_of(base: str, listing: Listing, facts: Toolchain) -> int | None:
    return names.dies_of(base.rstrip("/").rpartition("/")[2] or listing.name, facts)


def _kind(files: Sequence[ListedFile], read: NameTold | None, asked: Asked, facts: Toolchain) -> tuple[str, str]:
    """The kind of model of a tree, and the kind that somebody told of it, which may be another."""
    own: dict[str, set[str]] = {
        kind: {_top(each.path) or each.path for each in templates if each.is_needed or kind == "llm"}
        for kind, templates in facts.trees.items()
    }
    there = {_top(each.path) or each.path for each in files}
    more = {kind: (parts - own["llm"]) & there for kind, parts in own.items() if kind != "llm"}
    model = listed(read.model, facts) if read is not None and read.model else None
    said = asked.job.kind if asked.job else (read.kind if read else None) or (model.kind if model else "")
    # A file more than a language model has is one that was left or moved; a folder or two files are no accident.
    by_files = next((kind for kind, parts in more.items() if len(parts) > 1), "")
    return by_files or said or "llm", said or by_files or "llm"


def _one_tree(given: Given, facts: Toolchain, asked: Asked, base: str, read: NameTold | None) -> CheckedFolder:
    listing = given.listing
    files = [replace(each, path=each.path.removeprefix(base)) for each in listing.files if each.path.startswith(base)]
    above = [
        each for each in listing.files
        if base and _parent(base) == each.path.rpartition("/")[0] and not each.path.startswith(base)
    ]  # fmt: skip
    kind, said_kind = _kind(files, read, asked, facts)
    findings: list[ToolchainFinding] = []
    remarks: list[str] = []
    if any(_is_weights(each.path) for each in files):
        own = {name for each in facts.checkpoint for name in each.names} - {each.path for each in facts.trees[kind]}
        files = [each for each in files if not _is_weights(each.path) and each.path not in own]
        remarks.append("a checkpoint lies in the same folder, which --step convert judges")
    tree = Tree(files, facts.trees[kind])
    if said_kind != kind:
        text = f"its files are those of {_KINDS[kind]}, and it is said to be {_KINDS[said_kind]}"
        findings.append(
            meanings.finding("edge10.tree_kind_contradicts", base.rstrip("/") or None, text, source=facts.source)
        )
    about = _About(listing, asked, base, read, facts, findings, remarks)
    dies, dies_by = _dies(tree, about)
    if dies not in facts.limits.dies:
        shown = ", ".join(map(str, facts.limits.dies))
        remarks.append(f"the source shows {shown} dies; whether {dies} are possible is not told")
    findings += _of_folder(about, dies)
    lengths = Lengths(tree, facts, dies)
    wanted_lengths, by = _lengths(lengths, about)
    contents = given.contents
    out = trees.check(
        tree,
        Wanted(
            dies=dies,
            lengths=wanted_lengths,
            context=(read.context_tokens if read else None) or (asked.job.context_tokens if asked.job else None),
            digits=read.remap if read else None,
            texts=_below(base, contents.texts),
            damaged=_below(base, contents.damaged),
            unread=[path.removeprefix(base) for path in listing.unread if path.startswith(base)],
            above=above,
        ),
        lengths,
        base,
        facts,
    )
    if not contents.texts and not contents.damaged:
        remarks.append("what stands in the files is not told, and not judged")
    return _answer(
        given, facts, asked, "compiled",
        kind=kind, dies=dies, dies_told_by=dies_by, lengths=wanted_lengths, lengths_told_by=by,
        findings=[*findings, *out.findings], mends=_once(out.mends), left=out.left, remarks=[*remarks, *out.remarks],
    )  # fmt: skip


def _is_weights(path: str) -> bool:
    return "/" not in path and (path.endswith(".safetensors") or path == weights_files.INDEX)


_KINDS = {"llm": "a language model", "vlm": "a model with pictures"}


def _once(mends: Sequence[Mend]) -> list[Mend]:
    return list({each.target: each for each in mends}.values())


def _below(base: str, held: Mapping[str, _T]) -> dict[str, _T]:
    return {path.removeprefix(base): one for path, one in held.items() if path.startswith(base)}


class _About(NamedTuple):
    """What is known of a tree besides its files, and where is noted what contradicts itself."""

    listing: Listing
    asked: Asked
    base: str
    read: NameTold | None
    facts: Toolchain
    findings: list[ToolchainFinding]
    remarks: list[str]


def _dies(tree: Tree, about: _About) -> tuple[int, str]:
    """How many dies a tree is of, and what says so."""
    said = {
        "the name of the folder of dies": _dies_of(about.base, about.listing, about.facts),
        _NAME: about.read.dies if about.read else None,
        "the job": about.asked.job.dies if about.asked.job else None,
        "--dies": about.asked.dies,
    }
    said_of = {by: number for by, number in said.items() if number}
    there = tree.dies()
    if not said_of:
        return there or 1, _FILES
    by, number = next(iter(said_of.items()))
    if len(set(said_of.values())) > 1:
        by, number = next(((by, number) for by, number in said_of.items() if number == there), (by, number))
        text = "; ".join(f"{by} tells {number}" for by, number in said_of.items())
        about.findings.append(
            meanings.finding(
                "edge10.tree_dies_contradict",
                about.base.rstrip("/") or None,
                f"number of dies: {text}",
                source=about.facts.source,
            )
        )
    return number, by


def _of_folder(about: _About, dies: int) -> Iterator[ToolchainFinding]:
    """What is wrong with the name of the folder in which the dies' files lie."""
    own = about.base.rstrip("/").rpartition("/")[2] or about.listing.name
    if not own or names.dies_of(own, about.facts) is not None:
        return
    wanted = names.dies_folder(dies, about.facts)
    path = about.base.rstrip("/") or None
    if path is None and names.read(own, about.facts) is not None:
        text, do = f"its files lie in it, and not in {wanted} below it", f"make {wanted} in it, and move them there"
    else:
        text, do = f"is no name of a folder of dies, which is {wanted} here", f"rename the folder to {wanted}"
    yield meanings.finding("edge10.tree_misnamed", path, text, do=do, source=about.facts.source)


def _lengths(found: Lengths, about: _About) -> tuple[tuple[int, ...], str]:
    """Which lengths a tree is of, and what says so."""
    there = list(found.there)
    said = {
        _NAME: (1, *about.read.prefill) if about.read is not None and about.read.prefill else None,
        "the job": about.asked.job.lengths if about.asked.job else None,
        "--lengths": about.asked.lengths,
    }
    said_of = {by: tuple(sorted(set(numbers))) for by, numbers in said.items() if numbers}
    wanted = sorted({length for numbers in said_of.values() for length in numbers})
    renumbered = found.renumbered()
    if renumbered is not None:
        bare, odd = renumbered
        there.remove(bare if odd in wanted and bare not in wanted else odd)
    if not wanted:
        return tuple(there), _FILES
    by = " and ".join(said_of)
    missing, more = [each for each in wanted if each not in there], [each for each in there if each not in wanted]
    sets = [set(numbers) for numbers in said_of.values()]
    is_chain = all(one <= other or other <= one for one in sets for other in sets)
    if there and ((missing and more) or (missing and not is_chain)):
        text = "; ".join(f"{by} tells {_listed(numbers)}" for by, numbers in said_of.items())
        path = f"{about.base}{found.folder.rpartition('/')[0]}".rstrip("/")
        about.findings.append(
            meanings.finding(
                "edge10.tree_lengths_contradict",
                path or None,
                f"{text}; the files are of {_listed(there)}",
                source=about.facts.source,
            )
        )
        return tuple(there), _FILES
    if more:
        about.remarks.append(f"length {_listed(more)} is there too, complete or nearly so, and was not asked for")
    return tuple(sorted({*wanted, *there})), by


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _of_name(
    read: NameTold | None, facts: Toolchain, *, kind: str | None, dies: int | None
) -> Iterator[ToolchainFinding]:
    """What is wrong with the name of the folder."""
    if read is None:
        return
    if read.rest:
        text = f"its name goes on with _{read.rest}"
        do = f"rename the folder to {read.name.removesuffix(f'_{read.rest}')}"
        yield meanings.finding("edge10.tree_name_rest", None, text, do=do, source=facts.source)
    if kind == "vlm" and "_" in read.model:
        text = f"its name has an underscore in that of the model: {read.model}"
        yield meanings.finding("edge10.tree_name_model", None, text, source=facts.source)
    if read.modality is not None and read.modality not in MODALITIES:
        text = f"its name tells the modality {read.modality}, and there are {' and '.join(MODALITIES)}"
        yield meanings.finding("edge10.tree_name_modality", None, text, source=facts.source)
    if read.remap is not None and read.dies is not None and read.dies == dies and not _orders(read):
        text = f"its name ends in {read.remap or '(nothing)'}, which is no order of {read.dies} dies for both parts"
        yield meanings.finding("edge10.tree_remap", None, text, source=facts.source)


_ORDER = "order of the dies"
_PIECES = "lengths of a prompt's pieces"
_SETTINGS: Mapping[str, Callable[[NameTold], object]] = {
    "context or KV cache": lambda told: told.context_tokens,
    _PIECES: lambda told: told.prefill and _listed(told.prefill),
    "picture": lambda told: told.picture and "{}x{}".format(*told.picture),
    "modality": lambda told: told.modality,
    _ORDER: lambda told: told.remap,
}
"""By what it is a setting that the name of a compiled model's folder may tell; dies are compared elsewhere."""


def _of_job(read: NameTold | None, job: Job | None, facts: Toolchain, *, skip: str) -> Iterator[ToolchainFinding]:
    """What the folder's name tells of model and settings, but for one, against the name that the job's would have."""
    if read is None or job is None:
        return
    made = names.compiled(job, facts)
    told = names.read(made, facts)
    if told is None:
        return
    do = f"give the job's folder, {made}; else correct the job or compile again"
    if not _is_model(read.model, told.model, job, facts):
        text = f"model: {_NAME} tells {read.model}, the job {told.model}"
        yield meanings.finding("edge10.tree_job_differs", None, text, do=do, source=facts.source)
    if read.kind != told.kind:
        return
    for what, of in _SETTINGS.items():
        mine, its = of(read), of(told)
        if what == skip or mine is None or its is None or mine == its:
            continue
        if what == _ORDER:
            # Of other dies, or of no order at all, it is said already.
            if read.dies == told.dies and _orders(read) and read.remap not in _digits(job):
                text = f"its name says the order {mine or '0'}, and the job {its or '0'}"
                yield meanings.finding("edge10.tree_remap", None, text, do=do, source=facts.source)
            continue
        text = f"{what}: {_NAME} tells {mine}, the job {its}"
        yield meanings.finding("edge10.tree_job_differs", None, text, do=do, source=facts.source)


def _is_model(name: str, made: str, job: Job, facts: Toolchain) -> bool:
    """Whether a name is that of the job's model, as it would be made or as the toolchain's list takes it."""
    known = listed(name, facts)
    return name.lower() == made.lower() or (known is not None and known.name == job.listed)


def _digits(job: Job) -> set[str]:
    """How the job's order of dies may stand in a name: each part without its trailing zeros, or with them."""
    parts = [
        (names.digits(remap), "".join(map(str, remap[: job.dies]))) for remap in (job.vision_remap, job.language_remap)
    ]
    return {vision + language for vision in parts[0] for language in parts[1]}


def _uncompared(read: NameTold | None, job: Job | None, facts: Toolchain) -> Iterator[str]:
    """What of a job the folder's name does not tell, so that it is not known of the tree."""
    told = names.read(names.compiled(job, facts), facts) if job is not None else None
    if told is None:
        return
    missing = [what for what, of in _SETTINGS.items() if of(told) is not None and (read is None or of(read) is None)]
    missing = ["model", *missing] if read is None else missing
    if missing:
        yield f"{_NAME} does not tell {', '.join(missing)}, which were not compared with the job ({told.name})"


def _remarks(answers: Sequence[CheckedFolder]) -> list[str]:
    return [one for each in answers for one in each.remarks]


def _orders(read: NameTold) -> bool:
    """Whether the digits of a name are two orders of its dies, with or without their trailing zeros."""
    text, dies = read.remap or "", read.dies or 0
    halves = (text[:dies], text[dies:])
    return bool(read.orders) or all(sorted(half) == [str(die) for die in range(dies)] for half in halves)


# ---- a checkpoint


def _checked_checkpoint(
    given: Given, facts: Toolchain, asked: Asked, base: str, float_: Given | None, *, is_same: bool,
    broken: list[ToolchainFinding],
) -> CheckedFolder:  # fmt: skip
    found = _as_checkpoint(given, base)
    beside = None if float_ is None else _as_checkpoint(float_, _checkpoint(float_.listing) or "")
    known = listed(found.name, facts) if found.name else None
    own = weights_files.kind(found) or (weights_files.kind(beside) if beside else None)
    kind = own if own == "vlm" else (asked.job.kind if asked.job else None) or (known.kind if known else None) or own
    out = weights_files.check(found, facts, kind=kind, step=asked.step, float_=beside, is_same=is_same)
    findings = [replace(each, path=f"{base}{each.path}" if each.path else each.path) for each in out.findings]
    unchecked = list(out.unchecked)
    for option, value in (("--dies", asked.dies), ("--lengths", asked.lengths)):
        if value is not None:
            unchecked.append(f"what {option} says: it is of a compiled model, and this is a checkpoint")
    above = "" if float_ is None else _checkpoint(float_.listing) or ""
    mends = [replace(each, source=f"{above}{each.source}", target=f"{base}{each.target}") for each in out.mends]
    return _answer(
        given, facts, asked, "checkpoint", name=found.name, kind=kind, findings=[*broken, *findings], mends=mends,
        left=out.left, unchecked=unchecked, remarks=out.remarks,
    )  # fmt: skip


def _as_checkpoint(given: Given, base: str) -> Checkpoint:
    files = {
        each.path.removeprefix(base): each
        for each in given.listing.files
        if each.path.startswith(base) and each.kind == "file"
    }
    held = given.contents
    contents = Contents(
        _below(base, held.texts), _below(base, held.tensors), _below(base, held.damaged),
        _below(base, held.vocabularies),
    )  # fmt: skip
    return Checkpoint(files, contents, base.rstrip("/").rpartition("/")[2] or given.listing.name)
