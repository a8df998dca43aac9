"""The front door: the core's functions with the data found, the catalog compiled where needed, and cases read.

What only some questions need is imported where they are asked: the reading of YAML where an index is stale or a case is
read, that of logs where there is a log, the rules where there is a command.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_runbooks.catalog import languages
from vllm_runbooks.catalog import load as _catalog
from vllm_runbooks.catalog.load import Catalog
from vllm_runbooks.catalog.records import Entrance
from vllm_runbooks.core.errors import InputError, WrongFileError
from vllm_runbooks.core.evidence import JOB, SNAPSHOT, Case, CaseKind, Document, Evidence, PlanAsked
from vllm_runbooks.core.records import Answer, JudgedClaim, Judgement, Start
from vllm_runbooks.reading import evidence as _evidence

if TYPE_CHECKING:
    from vllm_runbooks.catalog.specs import Card, Specs
    from vllm_runbooks.catalog.toolchains import Toolchain
    from vllm_runbooks.edge10.host.records import EdgeHost
    from vllm_runbooks.host.nodes.records import CheckedCluster, Cluster
    from vllm_runbooks.host.records import Inspected, Inventory
    from vllm_runbooks.lint.linting import Knowledge
    from vllm_runbooks.plan.budget import Subject
    from vllm_runbooks.plan.plans import Request
    from vllm_runbooks.plan.records import Layouts, Plan
    from vllm_runbooks.probe.records import Health, Observation, Serving


MAX_SCRIPT = _evidence.MAX_SCRIPT
"""Characters of a file that is checked for commands."""
_MAX_BESIDE = 1_000_000
"""Bytes of a configuration file that is read; no such file is written by hand."""
_WRITE_NODES = "give what vllm-runbooks cluster check --out FILE wrote, or a folder of such files"
_WRITE_A_SNAPSHOT = "give a snapshot, as vllm-runbooks inventory -o FILE writes it"


def _compile(root: Path) -> tuple[dict[str, Any], list[str]]:
    from vllm_runbooks.authoring import checks as authoring

    return authoring.compile_index(root)


def _read_case(path: Path) -> Case:
    from vllm_runbooks.authoring import checks as authoring

    return authoring.read_case(path, str(path))


def own_catalogs() -> tuple[str, ...]:
    """The user's own catalog folders, as `VLLM_RUNBOOKS_CATALOG` lists them."""
    return tuple(part for part in os.environ.get(_catalog.CATALOGS, "").split(os.pathsep) if part)


@cache
def load_catalog(own: tuple[str, ...] | None = None) -> Catalog:
    """The catalog with the user's own folders on top (default: those that `VLLM_RUNBOOKS_CATALOG` lists)."""
    return _catalog.load(_compile, own=own_catalogs() if own is None else own)


def language(lang: str | None = None) -> str | None:
    """The language to tell in: the one given, else that of `VLLM_RUNBOOKS_LANG`; None: English.

    Raises:
        InputError: there is none of that name.
    """
    if lang is None:
        return languages.chosen(os.environ.get(languages.LANG), languages.LANG)
    return languages.chosen(lang)


def _told(shelf: Catalog, lang: str | None) -> Catalog:
    """The catalog in the language that is asked for."""
    found = language(lang)
    return shelf if found is None or found == shelf.lang else shelf.told_in(found)


def load(
    name: str,
    *,
    pasted: str = "",
    vllm: str | None = None,
    cases: str | Path | None = None,
    more: str = "",
    command: str = "",
) -> Evidence:
    """Load evidence: a recorded case's id, its folder, or a log file; a pasted log takes precedence.

    `more` names further logs or cases, separated by commas: what is said of a recorded case then no longer applies.
    `command` names the script or manifest that the log belongs to.

    Raises:
        InputError: no such thing, or it cannot be read.
    """
    check_texts(evidence=name, pasted_log=pasted, vllm=vllm, more_logs=more, command=command)
    check_release(vllm)
    found = _checked(_loaded(name, pasted, vllm or None, cases, more))
    return replace(found, command=read_text(command)) if command.strip() else found


def _loaded(name: str, pasted: str, vllm: str | None, cases: str | Path | None, more: str) -> Evidence:
    if pasted.strip():
        return _evidence.pasted(pasted, vllm=vllm)
    named = [name, *(part.strip() for part in more.split(",") if part.strip())]
    found = [_evidence.load(one, read_case=_read_case, cases=_cases(cases), vllm=vllm) for one in named]
    if len(found) == 1:
        return found[0]
    return Evidence(tuple(document for one in found for document in one.documents), vllm=vllm)


def check_texts(**given: object) -> None:
    """See that what a runbook hands over is text: a scheduler makes a number of 0.10, which is then another release.

    Raises:
        InputError: one of them is a number.
    """
    for name, value in given.items():
        if value is not None and not isinstance(value, (str, Path)):
            raise InputError(f"{name}: {value!r} is no text; quote it, or hand it over as text (papermill -r {name} …)")


def check_release(vllm: str | None) -> None:
    """Refuse, before a log is read, what is no release at all."""
    if vllm:
        from vllm_runbooks.catalog import options

        options.nearest(vllm)


def load_case(folder: Path) -> Case:
    """Read and check a case's folder, its files included.

    Raises:
        InputError: the case is broken.
    """
    case = _evidence.load_case(folder, read_case=_read_case).case
    if case is None:
        raise InputError(f"{folder}: holds no case.yaml")
    return case


def is_job(name: str) -> bool:
    """Whether a folder holds a job for an edge chip that is no recorded case."""
    folder = Path(name)
    return (folder / JOB).is_file() and not (folder / "case.yaml").is_file()


def read_text(name: str, instead: str = _evidence.NAME_A_SCRIPT) -> str:
    """The text of a script as it is, its line ends included: of a file, a recorded case, a pack's command, or `-`.

    Args:
        name: Of the file.
        instead: What to give in its place where it is none.

    Raises:
        InputError: it cannot be read, is too large, or is no text.
    """
    if name != "-" and Path(name).is_file() and not Path(name).stat().st_size:
        return ""  # a script that starts nothing, as an empty __init__.py among the files of a commit
    if _is_pack(name):
        return _evidence.packed_command(Path(name))
    if name != "-" and Path(name).is_dir() and not (Path(name) / "case.yaml").is_file():
        raise InputError(f"{name}: holds no case.yaml; {instead}")  # and logs in it are no scripts
    with _evidence.wanted_script(instead):
        documents = load_files([name]).documents
    if len(documents) != 1:
        raise InputError(f"{name}: holds {len(documents)} files; name one of them")
    return _evidence.script(documents[0], name)


def _is_pack(name: str) -> bool:
    return name != "-" and Path(name).is_file() and _evidence.is_pack(Path(name))


def read_rewritable(name: str, instead: str = _evidence.NAME_A_SCRIPT) -> str:
    """As `read_text`, of a text that is written anew: nothing of it may be lost, so it is in UTF-8.

    Raises:
        InputError: as `read_text`, or it is in another encoding.
    """
    if _is_pack(name):
        return _evidence.packed_command(Path(name))
    where = "standard input" if name == "-" else name
    raw = _evidence.standard_input().read(4 * MAX_SCRIPT) if name == "-" else b""
    _evidence.check_rewritable(Path(name).read_bytes() if Path(name).is_file() else raw, where)
    if name != "-":
        return read_text(name, instead)
    if not raw.strip():
        raise InputError(f"{where}: is empty; {instead}")
    text = _evidence.decode(raw, where)
    if len(text) > MAX_SCRIPT:
        raise InputError(f"{where}: is larger than {MAX_SCRIPT} characters; give the part that starts vLLM")
    return text


def read_beside(folder: Path, name: str) -> str | None:
    """The text of a configuration file that a script in a folder names; None where there is none that can be read.

    It is a plain file in that folder or below it, no link and not too large: a script of somebody else's chooses its
    name, and what the file says is told. So a name that leads out of the folder is refused.
    """
    given = Path(name)
    if given.drive or given.root or ".." in given.parts:
        return None
    path = folder / given
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            return None  # by a folder that is a link
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(descriptor, "rb") as file:
            told = os.fstat(descriptor)
            if not stat.S_ISREG(told.st_mode) or told.st_size > _MAX_BESIDE:
                return None
            return file.read(_MAX_BESIDE).decode("utf-8")
    except (OSError, ValueError, RuntimeError):  # the last where links lead in a circle
        return None


def load_files(names: Sequence[str], *, vllm: str | None = None) -> Evidence:
    """Load what a command line names; `-` is standard input.

    Raises:
        InputError: one of them cannot be read, or the release is no version.
    """
    check_release(vllm)
    return _checked(_evidence.load_files(names, read_case=_read_case, cases=_cases(None), vllm=vllm))


def _checked(found: Evidence) -> Evidence:
    """Evidence whose release is one, where a pack names it: that was never an option of a command line.

    Raises:
        InputError: it is none.
    """
    if found.pack is not None:
        try:
            check_release(found.vllm)
        except InputError as error:
            raise InputError(f"{found.pack}: {error}") from None
    return found


def _cases(override: str | Path | None) -> Path:
    return _catalog.cases_dir(None if override is None else str(override))


def paste(text: str, *, vllm: str | None = None) -> Evidence:
    """Evidence of a pasted log."""
    return _evidence.pasted(text, vllm=vllm)


def diagnose(
    evidence: Evidence,
    *,
    start: int | None = None,
    catalog: Catalog | None = None,
    policy: str = "",
    gpus: str | None = None,
    model: Callable[[], Subject | None] | None = None,
    lang: str | None = None,
) -> Answer:
    """Read and diagnose the evidence.

    `start` chooses one of several starts by number, from 1; None or 0: that of the evidence, else the last.
    `policy` names a policy of the catalog, whose steps are added to the remedies where they can help. `gpus` names the
    cards of the start, as in `8xRTX3090`, where they are known: plans need them. `model` tells its model where that is
    none of the catalog: whoever has started it may read its folder, which a log of somebody else must not decide.
    `lang` is the language of the texts, as in `zh`; None is that of `VLLM_RUNBOOKS_LANG`, else English.

    Raises:
        InputError: there is no such start, policy, card or language, or the evidence is a question without a log.
    """
    from vllm_runbooks.diagnosis import answer as _answer

    check_texts(policy=policy, gpus=gpus, lang=lang)
    if start is not None and (isinstance(start, bool) or not isinstance(start, int)):
        raise InputError(f"start: {start!r} is no whole number; give one from 1, or 0 for the last start")
    check_log(evidence)
    shelf = _told(catalog or load_catalog(), lang)
    asked = shelf.policy(policy) if policy.strip() else None
    found, note = (cards(gpus), None) if gpus else _own_cards(evidence)
    answer = _answer.answer(
        evidence, shelf, knowledge, start=start or evidence.start, policy=asked, cards=found, specs=specs, model=model
    )
    return answer if note is None else replace(answer, notes=(languages.Wording(shelf.lang)(note), *answer.notes))


def check_log(evidence: Evidence) -> None:
    """Refuse a recorded case that is of something else than a log.

    Raises:
        InputError: it is.
    """
    if evidence.case and evidence.case.kind in _WITHOUT_A_LOG:
        raise InputError(f"{evidence.case.id}: is {_WITHOUT_A_LOG[evidence.case.kind]}")


UNKNOWN_CARDS = "The pack names cards that this catalog does not know; name them with --gpus."


def _own_cards(evidence: Evidence) -> tuple[tuple[Card, ...], str | None]:
    """The cards that the evidence itself names, and what is to be said of those that are not known here.

    Raises:
        InputError: they are none by name, but a file's or this host's.
    """
    if evidence.snapshot is not None:
        from vllm_runbooks.host import inspection as inventories

        return inventories.cards(inventories.read(evidence.snapshot, "the pack's inventory"), specs(), "the pack"), None
    if not evidence.gpus:
        return (), None
    from vllm_runbooks.catalog.specs import is_by_name

    if not is_by_name(evidence.gpus):  # what somebody else wrote down opens no file of this host
        raise InputError(f"{evidence.pack}: names cards by a file or as this host's, which no pack does; give --gpus")
    try:
        return specs().gpus(evidence.gpus), None
    except InputError:
        return (), UNKNOWN_CARDS


_WITHOUT_A_LOG = {
    CaseKind.QUESTION: "a recorded question and holds no log; vllm-runbooks plan answers it",
    CaseKind.SNAPSHOT: "a host's snapshot and holds no log; vllm-runbooks inventory reads it",
    CaseKind.NODES: "several nodes and holds no log; vllm-runbooks cluster check compares them",
    CaseKind.JOB: "a job for an edge chip; the runbook edge10-toolchain reads it",
    CaseKind.SERVER: "a running server as observed; vllm-runbooks probe judges it",
}


def knowledge(lang: str | None = None) -> Knowledge:
    """The rules, GPUs and models that commands are judged by; `lang` as for `diagnose`.

    Raises:
        InputError: there is no such language.
    """
    return _knowledge(language(lang))


@cache
def _knowledge(lang: str | None) -> Knowledge:
    from vllm_runbooks.lint import linting as lint

    return lint.Knowledge(_catalog.load_rules(_compile_rules).by_id, specs(), lang)


def toolchain(version: str | None = None) -> Toolchain:
    """The facts of a toolchain for edge chips: of a version as in `1.1.7`, else of the newest that is known.

    Raises:
        InputError: that version is not known.
    """
    known = _catalog.load_toolchains(_compile_toolchains)
    if version is None:
        return known[-1]
    wanted = version.strip().removeprefix("v")
    for each in known:
        if wanted in (each.version, each.id):
            return each
    raise InputError(
        f"{version}: this version of the toolchain is not known; known: {', '.join(each.version for each in known)}"
    )


def edge_host(name: str) -> EdgeHost:
    """The host that a file, or for `-` standard input, records for the steps of a toolchain.

    Raises:
        InputError: it cannot be read, or is no recorded host.
    """
    from vllm_runbooks.edge10.host import snapshots as host_snapshots

    wanted = "give what vllm-runbooks edge10 preflight STEP --out FILE wrote"
    try:
        documents = load_files([name]).documents
    except WrongFileError as error:
        raise InputError(f"{error.wrong}; {wanted}") from None
    if len(documents) != 1:
        raise InputError(f"{name}: holds {len(documents)} files; {wanted}")
    return host_snapshots.read(_begun(documents[0], host_snapshots.MAX_TEXT), "standard input" if name == "-" else name)


@cache
def serving() -> Serving:
    """The metrics, figures and conditions of running servers."""
    return _catalog.load_serving(_compile_serving)


@cache
def entrances() -> tuple[Entrance, ...]:
    """What people see, in their words, and where it leads: to runbooks, symptoms and commands."""
    return _catalog.load_entrances(_compile_entrances)


@cache
def specs() -> Specs:
    """The GPUs and models alone."""
    from vllm_runbooks.catalog import specs as _specs

    return _specs.load(_compile_specs)


def cards(spec: str) -> tuple[Card, ...]:
    """The cards that a request names, those of a snapshot's file or case, or for `local` those of this host.

    Raises:
        InputError: a card is not known, a file is no snapshot, or no driver answers on this host.
    """
    return specs().gpus(spec, _read_cards, is_snapshot)


def is_snapshot(name: str) -> bool:
    """Whether a name is that of a recorded case with a snapshot."""
    return bool(name) and (_cases(None) / name / SNAPSHOT).is_file()


def _read_cards(name: str, node: str | None) -> tuple[Card, ...]:
    from vllm_runbooks.catalog.specs import LOCAL
    from vllm_runbooks.host import inspection as inventories

    if name.casefold() != LOCAL:
        return inventories.cards(read_snapshot(name), specs(), name, node)
    from vllm_runbooks.host import inventory

    return inventories.cards(inventory.gpus_alone(), specs(), LOCAL, node)


def read_snapshot(name: str) -> Inventory:
    """The snapshot of a host in a file, in a recorded case, or for `-` on standard input.

    Raises:
        InputError: it cannot be read, or is no snapshot.
    """
    from vllm_runbooks.host import inspection as inventories

    try:
        documents = load_files([name]).documents
    except WrongFileError as error:
        raise InputError(f"{error.wrong}; {_WRITE_A_SNAPSHOT}") from None
    if len(documents) != 1:
        raise InputError(f"{name}: holds {len(documents)} files; {_WRITE_A_SNAPSHOT}")
    return inventories.read(_begun(documents[0]), "standard input" if name == "-" else name)


def _begun(document: Document, most: int = MAX_SCRIPT) -> str:
    """The text of a document, or so much of its beginning that whoever reads it refuses it for its size."""
    text, size = [], 0
    for piece in document.pieces():
        text.append(piece)
        size += len(piece)
        if size > most:
            break
    return "".join(text)


def inventory(snapshot: str | Evidence = "", *, need_gib: float | None = None) -> Inspected:
    """A host with what its facts mean for vLLM, and the card for the next start.

    `snapshot` is a file, a recorded case, one that was loaded, or empty, which is this host. `need_gib` is the memory
    that the start needs; without it it is the share that a server takes by default.

    Raises:
        InputError: it is no snapshot.
    """
    from vllm_runbooks.host import inspection as inventories

    if isinstance(snapshot, Evidence):
        (document,) = snapshot.documents
        return inventories.inspect(inventories.read(_begun(document), document.name), specs(), need_gib=need_gib)
    check_texts(snapshot=snapshot)
    if snapshot.strip():
        return inventories.inspect(read_snapshot(snapshot), specs(), need_gib=need_gib)
    from vllm_runbooks.host import inventory as here

    return inventories.inspect(here.collect(), specs(), need_gib=need_gib)


def judge_inventory(found: Inspected, evidence: Evidence) -> Judgement:
    """The verdict on a host: against what a case expects, else on whether anything is wrong."""
    from vllm_runbooks.runbooks import verdicts

    return verdicts.judge_inventory(found, evidence.case)


def read_nodes(given: Sequence[str | Evidence]) -> Cluster:
    """The nodes of snapshots as one cluster; each is a file, a folder of files, a recorded case, `-`, or was loaded.

    Raises:
        InputError: one cannot be read, or holds no node.
    """
    from vllm_runbooks.host import nodes as clusters

    spared = {file for one in given if isinstance(one, str) for file in snapshots_in(one) or ()}
    return clusters.read((text for one in given for text in _node_texts(one)), spared=spared)


def snapshots_in(name: str) -> list[str] | None:
    """The snapshots in a folder, by name; None: it is no folder, or a recorded case."""
    folder = Path(name)
    is_named = bool(name.strip()) and "\0" not in name
    if not is_named or not folder.is_dir() or (folder / "case.yaml").is_file():
        return None
    return sorted(map(str, folder.glob("*.json")))


def _node_texts(name: str | Evidence) -> Iterator[tuple[str, str]]:
    """The recorded nodes that a name stands for, each with the name that messages begin with."""
    from vllm_runbooks.host.nodes import MAX_TEXT

    if isinstance(name, Evidence):
        yield from ((each.name, _begun(each, MAX_TEXT)) for each in name.documents)
        return
    check_texts(snapshot=name)
    files = [name] if (held := snapshots_in(name)) is None else held
    if not files:
        raise InputError(f"{name}: holds no *.json; {_WRITE_NODES}")
    for file in files:
        try:
            loaded = load_files([file])
        except WrongFileError as error:
            raise InputError(f"{error.wrong}; {_WRITE_NODES}") from None
        if loaded.case is not None and loaded.case.kind not in (CaseKind.NODES, CaseKind.SNAPSHOT):
            raise InputError(f"{file}: is a recorded case, and none of nodes; {_WRITE_NODES}")
        documents = loaded.documents
        if len(documents) != 1:
            raise InputError(f"{file}: holds {len(documents)} files; {_WRITE_NODES}")
        yield "standard input" if file == "-" else file, _begun(documents[0], MAX_TEXT)


def nodes(*snapshots: str | Evidence, model: str = "") -> CheckedCluster:
    """Several nodes with what differs between them, and what a server over all of them would meet.

    Each snapshot is a file that `cluster check --out` or `inventory -o` wrote, a folder of such files, a recorded case,
    or one that was loaded. `model` is the path of the model that every node must have.

    Raises:
        InputError: one of them cannot be read, or holds no node.
    """
    from vllm_runbooks.host import nodes as clusters

    check_texts(model=model)
    return clusters.check(read_nodes(snapshots), specs(), model=model)


def judge_nodes(found: CheckedCluster, evidence: Evidence) -> Judgement:
    """The verdict on several nodes: against what a case expects, else on whether a start over them would work."""
    from vllm_runbooks.runbooks import verdicts

    return verdicts.judge_nodes(found, evidence.case)


def _compile_rules(root: Path) -> tuple[dict[str, Any], list[str]]:
    from vllm_runbooks.catalog.authored import rule_files

    return rule_files.compile_rules(root)


def _compile_serving(root: Path) -> tuple[dict[str, Any], list[str]]:
    from vllm_runbooks.catalog.authored import serving_file

    return serving_file.compile_serving(root)


def _compile_toolchains(root: Path) -> tuple[dict[str, Any], list[str]]:
    from vllm_runbooks.catalog.authored import toolchain_files

    return toolchain_files.compile_toolchains(root)


def _compile_entrances(root: Path) -> tuple[dict[str, Any], list[str]]:
    from vllm_runbooks.catalog.authored import entrances_file

    return entrances_file.compile_entrances(root)


def _compile_specs(root: Path) -> tuple[dict[str, Any], list[str]]:
    from vllm_runbooks.catalog.authored import spec_files

    return spec_files.compile_specs(root)


def follow(
    name: str, *, interrupts: Callable[[], int], vllm: str | None = None, catalog: Catalog | None = None
) -> Iterator[Answer]:
    """Diagnose a log while it is written: an answer whenever it pauses, and the last one at its end.

    `name` is a file, which ends with an interrupt, or `-`, standard input; `interrupts` counts the user's interrupts.

    Raises:
        InputError: the file cannot be read, or is no text.
    """
    from vllm_runbooks.diagnosis import answer as _answer

    with _evidence.opened(name) as descriptor:
        document = _evidence.growing(descriptor, Path(name), interrupts)
        shelf = _told(catalog or load_catalog(), None)
        yield from _answer.follow(Evidence((document,), vllm=vllm), shelf, knowledge, specs=specs)


def read(evidence: Evidence) -> list[Start]:
    """Every start in the evidence, as read: phases, figures, tracebacks."""
    from vllm_runbooks.diagnosis import answer as _answer

    return _answer.read_starts(evidence, load_catalog())[0]


def judge_claims(evidence: Evidence) -> tuple[JudgedClaim, ...]:
    """What a document says about a recorded case, judged on the case's own log; none for any other evidence."""
    from vllm_runbooks.diagnosis import claims as _claims

    authored = evidence.case.claims if evidence.case else None
    if authored is None:
        return ()
    found, starts = (diagnose(evidence), read(evidence)) if evidence.documents else (None, [])
    return _claims.judge(authored, found, starts, evidence, planned=planned, card=lambda name: specs().gpu(name))


def question(asked: PlanAsked) -> Request:
    """What a recorded question or a claim asks the planner, read and checked; nothing corrects the plan.

    Raises:
        InputError: the model, a card or the release is not known.
    """
    from vllm_runbooks.plan import plans
    from vllm_runbooks.plan.budget import drafted, subject_in_catalog
    from vllm_runbooks.plan.drafts import draft_in_catalog

    told = subject_in_catalog(asked.model, specs())
    if told is None:
        raise InputError(f"{asked.model}: is no model of the catalog; a recorded question names one that is")
    sizes = {"tensor_parallel_size": asked.tp, "pipeline_parallel_size": asked.pp, "data_parallel_size": asked.dp}
    return plans.Request(
        drafted(told, asked.options, lambda name: draft_in_catalog(name, specs())),
        specs().gpus(asked.gpus),
        plans.release_of(asked.vllm),
        {**asked.options, **{name: size for name, size in sizes.items() if size is not None}},
    )


def planned(asked: PlanAsked) -> Plan | Layouts:
    """The answer to such a question: a plan where sizes are given, else every layout.

    Raises:
        InputError: as `question`, or nothing can be planned.
    """
    from vllm_runbooks.plan import plans

    is_split = any(size is not None for size in (asked.tp, asked.pp, asked.dp))
    return plans.plan(question(asked)) if is_split else plans.layouts(question(asked))


def observation(evidence: Evidence) -> Observation:
    """What was observed of a running server, as recorded: a case's `probe.json`, or what `probe --format json` prints.

    Raises:
        InputError: the evidence is no such record.
    """
    from vllm_runbooks.authoring import checks as authoring

    if len(evidence.documents) != 1:
        raise InputError("give one recorded observation of a server, as `vllm-runbooks probe --record` writes it")
    document = evidence.documents[0]
    text = _begun(document)
    if len(text) > MAX_SCRIPT:
        raise InputError(f"{document.name}: is larger than {MAX_SCRIPT} characters; no probe writes so much")
    return authoring.read_observation(text, document.name)


def health(seen: Evidence | Observation, *, gpus: str = "") -> Health:
    """A running server judged by what was observed of it, recorded or live; `gpus` names its cards, as for `cards`.

    Raises:
        InputError: the evidence is no such record, or as `cards`.
    """
    from vllm_runbooks.probe import vitals

    check_texts(gpus=gpus)
    found = observation(seen) if isinstance(seen, Evidence) else seen
    return vitals.judge(found, serving(), knowledge, cards=cards(gpus) if gpus.strip() else ())


def judge_health(found: Health, evidence: Evidence | None = None) -> Judgement:
    """The verdict on a running server: against the evidence's case, else on whether anything is wrong."""
    from vllm_runbooks.runbooks import verdicts

    return verdicts.judge_health(found, evidence.case if evidence is not None else None)


def judge(found: Answer, evidence: Evidence) -> Judgement:
    """The verdict on an answer: against the evidence's case and its claims, else on whether anything is wrong."""
    from vllm_runbooks.runbooks import verdicts

    return verdicts.judge(found, evidence.case, judge_claims(evidence))
