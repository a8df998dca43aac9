"""Jobs of a toolchain for edge chips, for a terminal: what was made, and what is wrong with a description."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_runbooks.core.display import visible
from vllm_runbooks.core.views.styled import (
    BLANK,
    Block,
    Line,
    Loose,
    Prose,
    Table,
    Tone,
    Words,
    bulleted,
    headed,
    parted,
    styled,
)
from vllm_runbooks.edge10.jobs.records import Job, JobProblem, MadeIssue, MadeJob

_WRITTEN, _SAME = styled("written", Tone.GOOD), styled("as it was", Tone.FAINT)


def made_shown(found: MadeJob) -> list[Block]:
    """What was made of a job, what was taken for what it leaves out, and what nobody knows."""
    if found.job is None:
        lines = [Loose(problem_line(found.description, problem)) for problem in found.problems]
        return [*parted([lines, *_listed("NOT TOLD", found.doubts), [Line("Nothing was made.")]]), BLANK]
    return [*parted(_parts(found, found.job)), BLANK]


def _parts(found: MadeJob, job: Job) -> Iterator[list[Block]]:
    head = f"{job.listed} for {found.toolchain}: {job.dies} {'die' if job.dies == 1 else 'dies'}"
    yield [
        Line(styled(head, Tone.HEADING)),
        Prose(f"  compiled into {visible(found.compiled_folder)}/{found.dies_folder}"),
    ]
    rows: list[list[Words]] = [
        [file.name, _WRITTEN if file.name in found.written else _SAME, file.says] for file in found.files
    ]
    yield headed("FILES", [Table([styled(name, Tone.FAINT) for name in ("file", "", "what it does")], rows)])
    yield from _listed("REMOVED, since this job has no such file", found.removed)
    yield from _listed("TAKEN, since the job does not say it", [f"{name}: {why}" for name, why in job.taken.items()])
    yield from _listed("NOT TOLD", found.doubts)
    yield from _listed("FOUND BY THE LINTER", judged(found.issues))
    if found.room:
        yield headed("ROOM", [Prose(f"  {visible(found.room)}")])
    yield [Loose(styled(f"What to do, in which order: {visible(found.folder)}/README.md", Tone.FAINT))]


def _listed(name: str, said: tuple[str, ...] | list[str]) -> Iterator[list[Block]]:
    if said:
        yield headed(name, [bulleted(visible(each)) for each in said])


def judged(found: Sequence[MadeIssue]) -> list[str]:
    """What the linters say of made files, a line each."""
    return [f"{each.file}:{each.issue.line}: {each.issue.message} [{each.issue.rule}]" for each in found]


def problem_line(description: str, problem: JobProblem) -> str:
    """What is wrong with a description in one line: where, what it is, what to do."""
    where = "standard input" if description == "-" else description
    field = f"{problem.field}: " if problem.field else ""
    return visible(f"{where}:{problem.line}: {field}{problem.text}; {problem.do}")
