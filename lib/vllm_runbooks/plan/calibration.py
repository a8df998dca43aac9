"""Residuals of printed against planned memory, and the correction of later plans.

A residual corrects a plan of the same term, model class and number of tensor ranks (one or
several), of releases between which no rule of the term changed, and mostly of the same GPU. The
median of the residuals shifts the expected value. Fewer than three residuals leave the band
unchanged; more of them narrow it to half at most, and never below the scatter of the residuals.
"""

from __future__ import annotations

import json
import math
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog.eras import Key
from vllm_runbooks.catalog.options import version_key
from vllm_runbooks.catalog.specs import name_key
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Residual
from vllm_runbooks.plan.budget import Budget, Calibrate, PlannedModel
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.settings import LaunchSettings
from vllm_runbooks.plan.terms import GIB, Band, Term

FILE = "calibration.json"
"""In the catalog: rows of the recorded cases."""
ENOUGH_ROWS = 3
"""Rows from which a band may become narrower than the rules have it."""
LEAST_SHARE = 0.5
"""Smallest share of the rules' band that remains, however little the residuals scatter."""
_MAX_SIZE = 8_000_000
_MAX_ROWS = 20_000
_MAX_GIB = 100_000.0
_CHANGES = ((0, 8), (0, 9), (0, 11), (0, 17), (0, 18), (0, 20), (0, 21), (0, 27), (0, 29))
"""Releases that changed a rule of profiled or reserved memory, as in `costs`."""
NEWER_ENGINE = (0, 8)
"""Rows of releases before it are of the older engine, later ones of the newer."""


class _CalibrationRule(NamedTuple):
    """Use of a term's rows to correct a plan."""

    shifts: str
    of: tuple[str, ...]
    """Terms that were printed as one figure; the difference is a share of their sum. Empty: it is an amount."""
    levels: tuple[frozenset[str], ...]
    """Fields that must match in addition to era and ranks, the most specific set first."""
    within: float = math.inf
    """Share beyond which a row is of something else: another checkpoint, another quantization."""
    rest: tuple[str, ...] = ()
    """Terms that share what is left of a negative difference after `shifts` became 0."""


_SAME = frozenset({"minor", "gpu", "architecture"})
_CLASS_ON_CARD = frozenset({"gpu", "architecture"})
_CLASS = frozenset({"architecture"})
_CARD = frozenset({"gpu"})
_PEAK = ("activation", "encoder")
RULES: Mapping[str, _CalibrationRule] = {
    "weights": _CalibrationRule("weights", ("weights",), (_SAME, _CLASS), within=0.02),
    "activation": _CalibrationRule("activation", _PEAK, (_SAME, _CLASS_ON_CARD, _CLASS)),
    "non_torch": _CalibrationRule("non_torch", (), (_SAME, _CLASS_ON_CARD, _CARD)),
    "beside_weights": _CalibrationRule("non_torch", (), (_SAME, _CLASS_ON_CARD), rest=_PEAK),
    "beside_weights_and_graphs": _CalibrationRule(
        "non_torch", (), (_SAME, _CLASS_ON_CARD), rest=(*_PEAK, "cuda_graphs")
    ),
    "cuda_graphs": _CalibrationRule("cuda_graphs_captured", ("cuda_graphs_captured",), (_SAME, _CLASS_ON_CARD, _CLASS)),
    "cuda_graphs_estimated": _CalibrationRule("cuda_graphs", ("cuda_graphs",), (_SAME, _CLASS_ON_CARD, _CLASS)),
}
"""By a row's term. `beside_weights` is the sum of activation, encoder, non-torch memory and
communication, if a log prints only the cache and the weights, and `beside_weights_and_graphs` includes
the CUDA graph estimate, if the log does not print it; they correct the part that no rule derives first."""
_TOGETHER = {
    "beside_weights": ("activation", "non_torch"),
    "beside_weights_and_graphs": ("activation", "non_torch", "beside_weights", "cuda_graphs_estimated"),
}
"""Rows of several terms together, with the more specific rows that are used instead where they exist."""
_NAMES = {
    "beside_weights": "activation and non-torch memory together",
    "beside_weights_and_graphs": "activation, non-torch memory and the CUDA graph estimate together",
    "non_torch": "non-torch memory",
    "cuda_graphs": "CUDA graphs",
    "cuda_graphs_estimated": "the CUDA graph estimate",
}


# ---- reading and writing


@dataclass(frozen=True)
class RecordedCards:
    """GPUs of a recorded case whose log does not name them."""

    case: str
    gpus: str
    source: str


class Shipped(NamedTuple):
    """The catalog's calibration."""

    cards: tuple[RecordedCards, ...]
    rows: tuple[Residual, ...]


def read(text: str, where: str) -> tuple[Residual, ...]:
    """Rows of a calibration file.

    Raises:
        InputError: It is something else; in one line.
    """
    if len(text) > _MAX_SIZE:
        raise InputError(f"{where}: not a calibration file: larger than {_MAX_SIZE} characters")
    rows = _parsed(text, where).get("rows")
    if not isinstance(rows, list):
        raise InputError(f"{where}: has no list `rows`; `plan --from-log LOG -o FILE` writes one")
    if len(rows) > _MAX_ROWS:
        raise InputError(f"{where}: has more than {_MAX_ROWS} rows")
    return tuple(_row(row, f"{where}: row {number}") for number, row in enumerate(rows, 1))


def _parsed(text: str, where: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{where}: invalid JSON; `plan --from-log LOG -o FILE` writes one") from None
    if not isinstance(data, Mapping):
        raise InputError(f"{where}: not a mapping with a list `rows`")
    return data


_TEXTS = ("release", "term", "source")
_KNOWN = {field.name for field in fields(Residual)}


def _row(row: Any, where: str) -> Residual:
    if not isinstance(row, Mapping):
        raise InputError(f"{where}: not a mapping")
    other = next((str(name)[:60] for name in row if name not in _KNOWN), None)
    if other is not None:
        raise InputError(f"{where}: unknown field {other!r}; known fields: {', '.join(sorted(_KNOWN))}")
    release, term, source = ("" if row.get(name) is None else str(row[name]) for name in _TEXTS)
    if version_key(release) is None:
        raise InputError(f"{where}: release {release[:40]!r} is not a version; write it as '0.19.0', in quotes")
    if term not in RULES:
        raise InputError(f"{where}: unknown term {term[:40]!r}; use one of {', '.join(RULES)}")
    if not source:
        raise InputError(f"{where}: source is empty; name the launch that printed the figures")
    planned, actual = (_size(row.get(name), f"{where}: {name}") for name in ("planned_gib", "actual_gib"))
    ranks = row.get("tensor_parallel_size", 1)
    if not isinstance(ranks, int) or isinstance(ranks, bool) or not 1 <= ranks <= 4096:
        raise InputError(f"{where}: tensor_parallel_size must be a number of ranks")
    for name in ("gpu", "architecture"):
        if not isinstance(row.get(name), (str, type(None))):
            raise InputError(f"{where}: {name} must be a string")
    return Residual(release, row.get("gpu"), row.get("architecture"), term, planned, actual, source, ranks)


def _size(value: Any, where: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < _MAX_GIB:
        raise InputError(f"{where} must be a number of GiB")
    return float(value)


def written(rows: Iterable[Residual], cards: Iterable[RecordedCards] = ()) -> str:
    """A calibration file with these rows, figures rounded to four decimals."""
    lines = [
        json.dumps(
            {
                name: round(value, 4) if isinstance(value, float) else value
                for name, value in asdict(row).items()
                if value is not None
            },
            ensure_ascii=False,
        )
        for row in rows
    ]
    kept = [json.dumps(asdict(gpus), ensure_ascii=False) for gpus in cards]
    head = f'  "cards": [\n    {_JOINT.join(kept)}\n  ],\n' if kept else ""
    body = f"[\n    {_JOINT.join(lines)}\n  ]" if lines else "[]"
    return f'{{\n{head}  "rows": {body}\n}}\n'


_JOINT = ",\n    "


def shipped() -> Shipped:
    """The rows of the recorded cases.

    Raises:
        InputError: The catalog's file is missing or damaged.
    """
    path = folders.catalog_dir() / FILE
    text = _text(path)
    recorded = json.loads(text).get("cards", ())
    return Shipped(tuple(RecordedCards(**fields) for fields in recorded), read(text, FILE))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_SIZE:
            raise InputError(f"{path}: not a calibration file: larger than {_MAX_SIZE} bytes")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a calibration file: not UTF-8 text") from None


def load(user_file: str | Path | None = None) -> Calibrate:
    """Load the calibration: rows of the user's file first, then those of the catalog.

    Raises:
        InputError: The user's file cannot be read or is not a calibration file.
    """
    return calibrator(shipped().rows, () if user_file is None else read(_text(Path(user_file)), str(user_file)))


# ---- correcting


class _CalibrationTarget(NamedTuple):
    key: Key
    is_v0: bool
    gpu: str
    architecture: str | None
    has_ranks: bool


def _matches(row: Residual, target: _CalibrationTarget, level: frozenset[str]) -> bool:
    key = (version_key(row.release) or ())[:3]
    return (
        bisect(_CHANGES, key[:2]) == bisect(_CHANGES, target.key[:2])
        and (key < NEWER_ENGINE) == target.is_v0
        and (row.tensor_parallel_size > 1) == target.has_ranks
        and ("minor" not in level or key[:2] == target.key[:2])
        and ("gpu" not in level or (row.gpu is not None and name_key(row.gpu) == name_key(target.gpu)))
        and ("architecture" not in level or (row.architecture is not None and row.architecture == target.architecture))
    )


def chosen(
    rows: Sequence[Residual], user_rows: Sequence[Residual], target: _CalibrationTarget, name: str
) -> tuple[Residual, ...]:
    """Most specific residuals of a term for the target, the user's rows first."""
    rule = RULES[name]
    for level in rule.levels:
        for source in (user_rows, rows):
            fitting = tuple(row for row in source if row.term == name and _matches(row, target, level))
            if rule.of:
                fitting = tuple(row for row in fitting if row.planned_gib > 0 and abs(_share(row)) <= rule.within)
            if fitting:
                return fitting
    return ()


def _share(row: Residual) -> float:
    return row.actual_gib / row.planned_gib - 1


def calibrator(rows: Sequence[Residual], user_rows: Sequence[Residual] = ()) -> Calibrate:
    """Build a calibration function from these rows, the user's own first."""
    own = frozenset(user_rows)
    matches: dict[_CalibrationTarget, Mapping[str, tuple[Residual, ...]]] = {}

    def calibrate(
        model: PlannedModel, terms: tuple[Term, ...], device: Device, settings: LaunchSettings
    ) -> tuple[tuple[Term, ...], tuple[str, ...]]:
        ranks = settings.ranks
        if ranks.pipeline > 1 or ranks.data > 1:
            return terms, ()
        target = _CalibrationTarget(
            settings.key, settings.is_v0, device.name, model.shape.architecture, ranks.tensor > 1
        )
        if target not in matches:
            matched = {name: chosen(rows, user_rows, target, name) for name in RULES}
            for together, apart in _TOGETHER.items():
                is_own = own.issuperset(matched[together]) and own.isdisjoint(
                    row for name in apart for row in matched[name]
                )
                if matched[together] and is_own:
                    matched.update(dict.fromkeys(apart, ()))
                elif any(matched[name] for name in apart):
                    matched[together] = ()
            matches[target] = {name: fitting for name, fitting in matched.items() if fitting}
        return apply(terms, matches[target])

    return calibrate


def printed_by(calibrate: Calibrate, launch: Budget, cache: Band) -> Calibrate:
    """Like `calibrate`, for the changes of a launch that printed its KV cache, `cache` bytes.

    Only terms that a change affects keep their range; what the launch used beyond the plan, every change of it uses.

    Args:
        calibrate: Corrects the terms by residuals.
        launch: The plan of the unchanged launch, corrected; the memory for its cache is known.
        cache: Bytes of the printed KV cache, with its rounding.
    """
    terms_before = {(term.name, term.band) for rank in launch.ranks for term in rank.terms}
    planned = min(rank.available.expected for rank in launch.ranks if rank.available is not None)
    beyond = Band(*(planned - side for side in reversed(cache)))
    unplanned = Term("unplanned", beyond, "difference to the KV cache that the launch printed")

    def calibrate_changed(
        model: PlannedModel, terms: tuple[Term, ...], device: Device, settings: LaunchSettings
    ) -> tuple[tuple[Term, ...], tuple[str, ...]]:
        (*corrected, captured), sentences = calibrate(model, terms, device, settings)
        exact = (
            replace(term, band=term.band.exact())
            if term.band is not None and (term.name, term.band) in terms_before
            else term
            for term in corrected
        )
        return (*exact, unplanned, captured), sentences

    return calibrate_changed


def apply(
    terms: tuple[Term, ...], matched: Mapping[str, Sequence[Residual]]
) -> tuple[tuple[Term, ...], tuple[str, ...]]:
    """The terms corrected by rows of each name of `RULES`, and a sentence for each correction."""
    if not matched:
        return terms, ()
    made = {term.name: term for term in terms}
    corrections = []
    for name, rows in matched.items():
        rule = RULES[name]
        bands = {part: term.band for part, term in made.items() if term.band is not None}
        band = bands.get(rule.shifts)
        whole = sum(bands[part].expected for part in rule.of if part in bands)
        if band is None or (rule.of and not whole):
            continue
        by = [_share(row) * whole if rule.of else (row.actual_gib - row.planned_gib) * GIB for row in rows]
        corrected = {rule.shifts: shifted(band, by)}
        left = band.expected + median(by)
        rest = {part: bands[part].expected for part in rule.rest if part in bands} if left < 0 else {}
        whole = sum(rest.values())
        corrected |= {part: shifted(bands[part], [left * size / whole]) for part, size in rest.items() if whole}
        sentence = _sentence(name, rows, sum(new.expected - bands[part].expected for part, new in corrected.items()))
        for part, new in corrected.items():
            term = made[part]
            made[part] = replace(term, band=new, source=f"{term.source}; corrected: {sentence}")
        corrections.append(sentence)
    return tuple(made[term.name] for term in terms), tuple(corrections)


def shifted(band: Band, by: Sequence[float]) -> Band:
    """Shift a band by differences in bytes, printed minus planned."""
    middle = median(by)
    least = 1.0 if len(by) < ENOUGH_ROWS else LEAST_SHARE
    below = max(middle - min(by), least * (band.expected - band.low))
    above = max(max(by) - middle, least * (band.high - band.expected))
    expected = max(0, round(band.expected + middle))
    return Band(max(0, math.floor(expected - below)), expected, math.ceil(expected + above))


def _sentence(name: str, rows: Sequence[Residual], by: int) -> str:
    count = f"{len(rows)} launches" if len(rows) > 1 else "one launch"
    sources = dict.fromkeys(f"{row.source} (vLLM {row.release}, {row.gpu or 'unknown GPU'})" for row in rows)
    return f"{_NAMES.get(name, name)} {by / GIB:+.3f} GiB, the median of {count}: {'; '.join(sources)}"
