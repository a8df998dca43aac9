"""Names of metrics, data sets and models as releases of evaluation tools write them, brought to one name each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from vllm_runbooks.core.redaction.redact import redact_text

MAX_NAME = 120
_SHARES = frozenset({
    "accuracy", "exact-match", "em", "hit", "inclusion", "prompt-level-strict", "prompt-level-loose", "pass-1",
})  # fmt: skip
"""Metrics that count questions answered rightly."""
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
_STATISTICS = {"recall": "r", "precision": "p", "f1": "f", "r": "r", "p": "p", "f": "f"}
_SEVERAL = re.compile(r"(?:pass|vote|max|avg|mean|best)(?:-hat|-at)?-(\d{1,4})\b|(?:pass|vote|bayes)-(?:at|hat)-[kn]\b")
_QUANTISED = re.compile(
    r"(?:^|[^a-z0-9])(?:awq|gptq|quant(?:ised|ized)?|int[348]|fp8|fp4|nvfp4|mxfp4|nf4|bnb|gguf|[348]-?bits?|w[348]a\d{1,2}|w[348]|q[348]"
    r"|marlin|smoothquant)(?:$|[^a-z0-9])"
)


class Metric(NamedTuple):
    """What a metric's name tells."""

    name: str
    is_share: bool | None
    higher_is_better: bool | None


def shown(name: object) -> str:
    """A name out of a report: one line, bounded, without secrets."""
    return redact_text(" ".join(str(name).split())[:MAX_NAME])


def key(name: str) -> str:
    """What names of one thing have in common: `General-MCQ` and `general_mcq`."""
    return re.sub(r"[\s_/-]+", "-", name.casefold()).strip("-")


def metric(name: str) -> Metric:
    """What a metric of any release is called here: `mean_acc`, `AverageAccuracy` and `Accuracy ↑` are `accuracy`."""
    is_up, is_down = "↑" in name, "↓" in name
    parts = [key(part.replace("↑", "").replace("↓", "")) for part in re.split(r"[·:|]", name[:MAX_NAME])]
    parts = [part for part in parts if part]
    base = parts[0] if parts else "metric"
    if base in ("rouge", "bleu") and len(parts) > 1:
        base = "-".join([base, *(part.removeprefix("n-gram-") for part in parts[1:])])
    elif len(parts) > 1:
        base = "-".join(parts)
    for prefix in ("mean-", "avg-"):
        if base.startswith(prefix) and not base[len(prefix) :].isdigit():
            base = base.removeprefix(prefix)
    base = _ALIASES.get(base.replace("@", "-"), base.replace("@", "-"))
    if base.startswith("rouge-"):
        head, _, last = base.rpartition("-")
        base = f"{head}-{_STATISTICS[last]}" if last in _STATISTICS else base
    return _judged(base, is_up=is_up, is_down=is_down)


def identified(identity: Mapping[str, Any]) -> Metric:
    """The same of the identity that EvalScope writes since its reports have a `schema_version`."""
    name, aggregation = str(identity.get("name", "")), str(identity.get("aggregation", ""))
    told = identity.get("dimensions")
    dimensions: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    base = metric(name).name
    if base in ("rouge", "bleu"):
        parts = [base, dimensions.get("variant") or dimensions.get("ngram"), dimensions.get("statistic")]
        return metric("-".join(str(part) for part in parts if part is not None))
    if aggregation not in ("", "mean", "identity"):
        base = f"{base}-{key(aggregation)}"
    base += "".join(f"-{key(str(name))}-{key(str(value))}" for name, value in sorted(dimensions.items()))
    return _judged(base[:MAX_NAME], is_up=False, is_down=False)


def _judged(name: str, *, is_up: bool, is_down: bool) -> Metric:
    is_share = True if name in _SHARES else None
    if is_up or is_down:
        return Metric(name, is_share, is_up)
    if _LOWER.search(name):
        return Metric(name, False, False)
    return Metric(name, is_share, True if is_share or _HIGHER.search(name) else None)


def is_of_several(name: str) -> bool:
    """Whether a metric sums up several answers to one question, as pass@5 does."""
    found = _SEVERAL.search(name.replace("@", "-"))
    return found is not None and found[1] != "1"


def looks_quantised(model: str) -> bool:
    """Whether a model's name says that its weights were quantised."""
    return _QUANTISED.search(model.casefold()) is not None
