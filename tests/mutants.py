"""Change the core on purpose to check whether its tests fail.

python tests/mutants.py --sample 500 --jobs 2 -o results.jsonl     tries a seeded sample, resumes
python tests/mutants.py --report results.jsonl                     the score by module, and each survivor's difference

Places are drawn evenly from all places of the core that an operator of cosmic-ray can change, with one
change at each. A mutant is killed when a test fails or takes five times its usual time: the default
tests that run its line, in forks of one process; then the slow tests of its package; then, in a separate
process, the default tests of its package, those that name its module and those of every module.
Annotations and caches, which do not run, are excluded.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import grimp

from pages import write_between

ROOT = Path(__file__).resolve().parent.parent
SEED = 20261120
PACKAGE = Path("lib/vllm_runbooks")
_HOST = "what touches processes, sockets and devices"
_OPTIONAL = {"re2", "ruamel"}
"""Libraries that the core can do without."""
_CACHES = {"cache", "lru_cache", "cached_property"}
_PAGE = ROOT / "docs" / "measurements.md"
_BEGIN, _END = "<!-- mutants: written by tests/mutants.py --docs -->", "<!-- end of mutants -->"
_OF_ALL = "tests/core/test_frozen.py"
"""Tests for definitions in any module."""
_PATIENCE = 5
"""How many times as long as unchanged code a mutant's tests may take."""

_DEFAULT, _SLOW = "not (slow or full or live or benchmark)", "slow and not (full or live or benchmark)"


class Place(NamedTuple):
    """A place that operators can change."""

    module: str
    """Below the package, with slashes."""
    start: tuple[int, int]
    end: tuple[int, int]


class Change(NamedTuple):
    """One of the changes at a place, as counted by cosmic-ray."""

    operator: str
    arguments: tuple[tuple[str, Any], ...]
    occurrence: int


def core() -> list[Path]:
    """The modules of the core, which use no process, socket, device or library."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (contract,) = (each for each in project["tool"]["importlinter"]["contracts"] if each["name"] == _HOST)
    graph = grimp.build_graph("vllm_runbooks", include_external_packages=True)
    external = {name for name in graph.modules if name.partition(".")[0] != "vllm_runbooks"}
    kept_out = (external - sys.stdlib_module_names - _OPTIONAL) | set(contract["protected_modules"])
    reaching = {found for name in kept_out for found in graph.find_downstream_modules(name)}
    files = sorted((ROOT / PACKAGE).glob("*/**/*.py"))
    return [path for path in files if _module(path) not in reaching and not _is_command(path)]


def _is_command(path: Path) -> bool:
    return path.stem == "command" or path.parent.name in ("commands", "cli")


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "lib").with_suffix("").parts).removesuffix(".__init__")


def idle(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Spans that never run, or whose absence no test of behaviour can see."""
    spans = []
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.expr | None] = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts.append(node.returns)
            spans += [
                ((each.lineno, each.col_offset - 1), ((each.end_lineno or each.lineno) + 1, 0))  # "@" to newline
                for each in node.decorator_list
                if _CACHES & _names(each)
            ]
        elif isinstance(node, (ast.arg, ast.AnnAssign)):
            parts.append(node.annotation)
        spans += [
            ((part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset))
            for part in parts
            if part is not None and part.end_lineno is not None and part.end_col_offset is not None
        ]
    return spans


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def places(only: str = "") -> dict[Place, list[Change]]:
    """All places of the core, or of modules whose path begins with `only`, with the changes that each allows."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    found: dict[Place, list[Change]] = defaultdict(list)
    for path in core():
        source = path.read_text("utf-8")
        module, spans = path.relative_to(ROOT / PACKAGE).as_posix(), idle(source)
        if not module.startswith(only):
            continue
        nodes = list(ast_nodes(get_ast(source)))
        for name in sorted(operator_names()):
            kind = get_operator(name)
            if kind.arguments() or name.endswith("/NoOp"):
                continue
            operator = kind()
            positions = [position for node in nodes for position in operator.mutation_positions(node)]
            for occurrence, (start, end) in enumerate(positions):
                if not any(begin <= start and end <= stop for begin, stop in spans):
                    found[Place(module, tuple(start), tuple(end))].append(Change(name, (), occurrence))
    return dict(found)


def drawn(count: int, *, only: str = "", seed: int = SEED) -> list[tuple[Place, Change]]:
    """A seeded sample: places evenly, then one change at each."""
    every = places(only)
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    chosen = chance.sample(sorted(every), min(count, len(every)))
    return [(place, chance.choice(every[place])) for place in chosen]


def mutated(source: str, change: Change) -> str:
    """The source with the change; unchanged if the operator made none."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    return mutate_code(source, get_operator(change.operator)(**dict(change.arguments)), change.occurrence) or source


def tests_of(module: str) -> list[str]:
    """Test files in the folder of a module's package, then those that name the module."""
    package, name = module.partition("/")[0], Path(module).stem
    dotted = ".".join(Path("vllm_runbooks", module).with_suffix("").parts).removesuffix(".__init__")
    parent = dotted.rpartition(".")[0]
    importing = re.compile(rf"{re.escape(dotted)}\b|from {re.escape(parent)} import [^\n]*\b{name}\b")
    files = sorted((ROOT / "tests").glob("*/test_*.py"), key=lambda path: (path.parent.name != package, path))
    named = [path for path in files if path.parent.name == package or importing.search(path.read_text("utf-8"))]
    return [path.relative_to(ROOT).as_posix() for path in named]


def lines_of(source: str, place: Place) -> tuple[int, int]:
    """First line of the innermost statement around a place, and the line after its last or before its body."""
    lines = place.start[0], place.end[0] + 1
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= place.start[0] and place.end[0] <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            last = body[0].lineno if body and place.end[0] < body[0].lineno else (node.end_lineno or 0) + 1
            if not body or place.end[0] < body[0].lineno:
                lines = node.lineno, last
    return lines


class Bench:
    """A copy of the project in which one mutant at a time is tried."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True,
        )  # fmt: skip
        for name in listed.stdout.decode().split("\0"):
            if name and (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        if (ROOT.parent / "shared").is_dir():
            with suppress(FileExistsError):
                (folder.parent / "shared").symlink_to(ROOT.parent / "shared")
        self.written = time.time_ns()
        self.known = {**os.environ, "PYTHONPATH": str(self.root / "lib")}

    def path(self, module: str) -> Path:
        """A module of the copy."""
        return self.root / PACKAGE / module

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, "utf-8")
        # Python compares compiled code by whole seconds: each write advances the time.
        self.written += 2 * 10**9
        os.utime(path, ns=(self.written, self.written))

    def screened(self, mutants: Mapping[int, Mutant], ring: str, folders: Sequence[str]) -> set[int]:
        """The mutants that tests of a ring notice, in forks of one process."""
        orders = self.root / "orders.jsonl"
        lines = (
            json.dumps({"number": number, "path": str(self.path(mutant.place.module)), "source": mutant.source,
                        "lines": mutant.lines})
            for number, mutant in mutants.items()
        )  # fmt: skip
        orders.write_text("\n".join(lines) + "\n", "utf-8")
        ran = subprocess.run(
            [sys.executable, str(self.root / "tests" / "mutant_screen.py"), str(orders), "-m", ring, *folders],
            cwd=self.root, env=self.known, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, text=True,
        )  # fmt: skip
        told = [json.loads(line) for line in ran.stdout.splitlines()]
        if not told:
            return set()
        print(
            f"{told[0]['ran']} tests ran in {' '.join(folders)}; these take no part: {told[0]['left_out']}", flush=True
        )
        return {line["number"] for line in told[1:]}

    def seconds(self, files: Sequence[str]) -> float:
        """Duration of the default tests of some files.

        Raises:
            OwnTestsFailError: The unchanged code fails one of them.
        """
        begun = time.monotonic()
        if self._fails(files, None):
            raise OwnTestsFailError(f"unchanged code fails its own tests ({' '.join(files)})")
        return time.monotonic() - begun

    def _fails(self, files: Sequence[str], limit: float | None) -> bool:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-m", _DEFAULT, *files]
        with subprocess.Popen(
            command, cwd=self.root, env=self.known, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as ran:  # fmt: skip
            try:
                return ran.wait(limit) != 0
            except subprocess.TimeoutExpired:
                os.killpg(ran.pid, 9)
                return True

    def is_killed(self, mutant: Mutant, files: Sequence[str], limit: float) -> bool:
        """Whether a default test fails, in a separate process that imports the mutant."""
        path = self.path(mutant.place.module)
        unchanged = path.read_text("utf-8")
        self._write(path, mutant.source)
        try:
            return self._fails(files, limit)
        finally:
            self._write(path, unchanged)


class OwnTestsFailError(Exception):
    """The unchanged code fails its own tests, so mutants cannot be tested."""


class Mutant(NamedTuple):
    """A change, made."""

    place: Place
    change: Change
    source: str
    lines: tuple[int, int]
    """First line of the changed statement, and the line after it."""
    difference: str


def made(place: Place, change: Change) -> Mutant | None:
    """A module's source with the change; None if the code is the same."""
    source = (ROOT / PACKAGE / place.module).read_text("utf-8")
    changed = mutated(source, change)
    try:
        if ast.dump(ast.parse(source)) == ast.dump(ast.parse(changed)):
            return None
    except SyntaxError:
        return None
    shown = difflib.unified_diff(source.splitlines(), changed.splitlines(), lineterm="", n=0)
    difference = "\n".join(line for line in shown if not line.startswith(("---", "+++")))
    return Mutant(place, change, changed, lines_of(source, place), difference)


def _tried(bench: Bench, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, bool]]:
    left = dict(enumerate(mutants))

    def screened(numbers: Sequence[int], ring: str, folders: Sequence[str]) -> Iterator[tuple[Mutant, bool]]:
        noticed = bench.screened({number: left[number] for number in numbers}, ring, folders)
        yield from ((left.pop(number), True) for number in sorted(noticed))

    yield from screened([*left], _DEFAULT, ["tests"])
    by_package: dict[str, list[int]] = defaultdict(list)
    for number, mutant in left.items():
        by_package[_package(mutant.place.module)].append(number)
    for package, numbers in sorted(by_package.items()):
        yield from screened(numbers, _SLOW, [f"tests/{package}"])
    seconds: dict[tuple[str, ...], float] = {}
    for mutant in left.values():
        files = tuple(dict.fromkeys((*tests_of(mutant.place.module), _OF_ALL)))
        if files not in seconds:
            seconds[files] = bench.seconds(files)
        yield mutant, bench.is_killed(mutant, files, _PATIENCE * seconds[files] + 10)


def run(chosen: Sequence[tuple[Place, Change]], jobs: int, out: Path) -> None:
    """Try some, and write a line of JSON for each mutant; those in the file are skipped."""
    done = {(r["module"], tuple(r["start"]), r["operator"], r["occurrence"]) for r in _results(out)}
    mutants = [
        mutant
        for place, change in chosen
        if (place.module, place.start, change.operator, change.occurrence) not in done
        and (mutant := made(place, change)) is not None
    ]
    # Shares of whole packages, as the slow tests of each are traced once.
    mutants.sort(key=lambda mutant: mutant.place.module)
    share = -(-len(mutants) // jobs)

    def work(number: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Path(folder) / "project")
            for mutant, killed in _tried(bench, mutants[number * share : (number + 1) * share]):
                line = {
                    "module": mutant.place.module, "start": mutant.place.start, "operator": mutant.change.operator,
                    "occurrence": mutant.change.occurrence, "killed": killed, "difference": mutant.difference,
                }  # fmt: skip
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")

    with ThreadPoolExecutor(jobs) as pool:
        deque(pool.map(work, range(jobs)), maxlen=0)


def _results(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_text("utf-8").splitlines():
            yield json.loads(line)


def _package(module: str) -> str:
    return module.partition("/")[0]


def table(path: Path) -> str:
    """The score of each package, as a table in Markdown."""
    every = list(_results(path))
    tried, killed = Counter[str](), Counter[str]()
    for result in every:
        for name in (_package(result["module"]), "all"):
            tried[name] += 1
            killed[name] += result["killed"]
    rows = (f"| {name} | {tried[name]} | {killed[name]} | {killed[name] / tried[name]:.1%} |" for name in sorted(tried))
    return "\n".join(("| package | mutants | killed | share |", "|---|---|---|---|", *rows))


def survivors(path: Path) -> str:
    """The changes that no test noticed."""
    return "\n\n".join(
        f"{result['module']}:{result['start'][0]} {result['operator'].rpartition('/')[2]}\n{result['difference']}"
        for result in _results(path)
        if result["killed"] is False
    )


def write_page(path: Path) -> None:
    """Write the score into the page of measurements."""
    every = [result["killed"] for result in _results(path)]
    score = f"{sum(every)} of {len(every)} mutants were killed ({sum(every) / len(every):.1%})."
    write_between(_PAGE, _BEGIN, _END, score)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=500, help="how many mutants")
    parser.add_argument("--only", default="", metavar="PATH", help="modules whose path in the package begins so")
    parser.add_argument("--seed", type=int, default=SEED, help="of the sample")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("-o", "--out", type=Path, default=Path("mutants.jsonl"), help="file of the results")
    parser.add_argument("--report", type=Path, metavar="FILE", help="print what a file of results holds, and end")
    parser.add_argument("--docs", action="store_true", help="write the score into docs/measurements.md")
    asked = parser.parse_args()
    if asked.report is None:
        run(drawn(asked.sample, only=asked.only, seed=asked.seed), asked.jobs, asked.out)
    found = asked.report or asked.out
    print(f"{table(found)}\n\n{survivors(found)}")
    if asked.docs:
        write_page(found)


if __name__ == "__main__":
    main()
