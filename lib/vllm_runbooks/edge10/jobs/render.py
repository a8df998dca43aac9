"""Show jobs in a terminal: the generated files, and the problems of a description."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_runbooks.core.display import visible
from vllm_runbooks.core.views.styled import (
    BLANK,
    Line,
    Prose,
    SentenceLines,
    Table,
    TextBlock,
    Tone,
    Words,
    bulleted,
    headed,
    parted,
    styled,
)
from vllm_runbooks.edge10.jobs.records import EdgeJob, JobProblem, MadeIssue, MadeJob

_WRITTEN, _SAME = styled("written", Tone.GOOD), styled("unchanged", Tone.FAINT)


def made_shown(result: MadeJob) -> list[TextBlock]:
    """Show the generated files of a job, its defaults, and unknown facts."""
    if result.job is None:
        lines = [SentenceLines(problem_line(result.description, problem)) for problem in result.problems]
        return [*parted([lines, *_listed("UNKNOWN", result.doubts), [Line("No files made.")]]), BLANK]
    return [*parted(_parts(result, result.job)), BLANK]


def _parts(result: MadeJob, job: EdgeJob) -> Iterator[list[TextBlock]]:
    head = f"{job.listed} for {result.toolchain}: {job.dies} {'die' if job.dies == 1 else 'dies'}"
    yield [
        Line(styled(head, Tone.HEADING)),
        Prose(f"  compiled into {visible(result.compiled_folder)}/{result.dies_folder}"),
    ]
    rows: list[list[Words]] = [
        [file.name, _WRITTEN if file.name in result.written else _SAME, file.description] for file in result.files
    ]
    yield headed("FILES", [Table([styled(name, Tone.FAINT) for name in ("file", "", "description")], rows)])
    yield from _listed("DEFAULTS", [f"{name}: {why}" for name, why in job.defaults.items()])
    yield from _listed("UNKNOWN", result.doubts)
    yield from _listed("LINT", judged(result.issues))
    yield [SentenceLines(styled(f"Steps: {visible(result.folder)}/README.md", Tone.FAINT))]


def _listed(name: str, texts: tuple[str, ...] | list[str]) -> Iterator[list[TextBlock]]:
    if texts:
        yield headed(name, [bulleted(visible(text)) for text in texts])


def judged(made_issues: Sequence[MadeIssue]) -> list[str]:
    """Issues of the linters in generated files, a line each."""
    return [
        f"{made_issue.file}:{made_issue.issue.line}: {made_issue.issue.message} [{made_issue.issue.rule}]"
        for made_issue in made_issues
    ]


def problem_line(description: str, problem: JobProblem) -> str:
    """A problem of a description in one line: location, problem, action."""
    where = "standard input" if description == "-" else description
    field = f"{problem.field}: " if problem.field else ""
    return visible(f"{where}:{problem.line}: {field}{problem.text}; {problem.do}")
