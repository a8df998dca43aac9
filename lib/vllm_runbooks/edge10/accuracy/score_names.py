"""One name for each metric, data set and model, whatever releases of the evaluation tools call it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from vllm_runbooks.core.redaction.redact import redact_text

_MAX_NAME = 120
_SHARES = frozenset(
    "accuracy exact-match em hit inclusion prompt-level-strict prompt-level-loose pass-1".split()  # noqa: SIM905
)
"""Metrics that are shares of correct answers."""
_HIGHER = re.compile(
    r"(?:^|-)(?:accuracy|acc|match|em|f1|bleu|rouge|meteor|cider|score|pass|hit|recall|precision|average|win|iou|map|"
    r"inclusion|strict|loose|correct|correctness|ndcg|overall|norm)(?:-|$)"
)
_LOWER = re.compile(
    r"(?:^|-)(?:wer|cer|ter|ppl|perplexity|mae|mse|rmse|loss|error|errors|distance|latency|toxicity|hallucination)(?:-|$)"
)
_ALIASES = {
    "acc": "accuracy",
    "averageaccuracy": "accuracy",
    "weightedaverageaccuracy": "accuracy",
    "average-accuracy": "accuracy",
    "pass-at-1": "pass-1",
}
_STATISTIC = re.compile(r"-([rpf])(?:ecall|recision|1)$")
"""The last part of the name of a ROUGE, which answers have in short: `rouge-l-r`."""
_QUANTISED = re.compile(
    r"(?:^|[^a-z0-9])(?:awq|gptq|quant(?:ised|ized)?|int[348]|fp8|fp4|nvfp4|mxfp4|nf4|bnb|gguf|[348]-?bits?|w[348]a\d{1,2}|w[348]|q[348]"
    r"|marlin|smoothquant)(?:$|[^a-z0-9])"
)


class EvaluationMetric(NamedTuple):
    """Metric parsed from its name."""

    name: str
    is_share: bool | None
    higher_is_better: bool | None


def shown(name: object) -> str:
    """A name from a report: one line, bounded, without secrets."""
    return redact_text(" ".join(str(name).split())[:_MAX_NAME])


def key(name: str) -> str:
    """Normalized key, equal for spellings such as `General-MCQ` and `general_mcq`."""
    return re.sub(r"[\s_/-]+", "-", name.casefold()).strip("-")


def metric(name: str) -> EvaluationMetric:
    """The metric of a name: `mean_acc`, `AverageAccuracy` and `Accuracy ↑` are `accuracy`."""
    parts = [key(re.sub("[↑↓]", "", part)) for part in re.split(r"[·:|]", name[:_MAX_NAME])]
    base = "-".join(part for part in parts if part) or "metric"
    if base.startswith(("bleu", "rouge")):
        base = _STATISTIC.sub(r"-\1", base.replace("n-gram-", ""))
    for prefix in ("mean-", "avg-"):
        if base.startswith(prefix) and not base[len(prefix) :].isdigit():
            base = base.removeprefix(prefix)
    base = base.replace("@", "-")
    base = _ALIASES.get(base, base)
    if "↑" in name or "↓" in name:
        return EvaluationMetric(base, True if base in _SHARES else None, "↑" in name)
    return _named(base)


def identified(identity: Mapping[str, Any]) -> EvaluationMetric:
    """The metric of an identity, as reports with a `schema_version` have it."""
    aggregation, dimensions = str(identity.get("aggregation", "")), identity.get("dimensions")
    dimensions = dimensions if isinstance(dimensions, Mapping) else {}
    base = metric(str(identity.get("name", ""))).name
    if base in ("bleu", "rouge"):
        parts = (base, dimensions.get("variant"), dimensions.get("ngram"), dimensions.get("statistic"))
        return metric("-".join(str(part) for part in parts if part is not None))
    if aggregation not in ("", "mean", "identity"):
        base = f"{base}-{key(aggregation)}"
    base += "".join(f"-{key(str(name))}-{key(str(value))}" for name, value in sorted(dimensions.items()))
    return _named(base[:_MAX_NAME])


def _named(name: str) -> EvaluationMetric:
    is_share = True if name in _SHARES else None
    if _LOWER.search(name):
        return EvaluationMetric(name, False, False)
    return EvaluationMetric(name, is_share, True if is_share or _HIGHER.search(name) else None)


def looks_quantised(model: str) -> bool:
    """Whether a model's name indicates quantised weights."""
    return _QUANTISED.search(model.casefold()) is not None
