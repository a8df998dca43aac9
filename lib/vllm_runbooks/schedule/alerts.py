"""Prometheus alert rules on the metrics of jobs and of running vLLM servers.

The rules on servers come from `catalog/serving.yaml`: the same figures and limits as for a probe.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vllm_runbooks.catalog.serving import Serving, ServingCondition, ServingFact, ServingTest, is_measured
from vllm_runbooks.core.records import Severity, Verdict
from vllm_runbooks.probe.records import MOST
from vllm_runbooks.schedule.reports import METRICS

WINDOW = "5m"
"""Window of rates; scrapes every minute give five samples."""
_STEP = "1m"
"""Interval of the samples, most of which must meet the condition."""
_SERVER = "instance"
"""The label by which Prometheus distinguishes servers."""
_LATE_S = 900
"""Delay of a run beyond its timeout: timers wake us every few minutes."""
_UNPASSED_S = 26 * 3600
"""Longest time without a passing run: time for the second run of a daily job."""
_SEVERITIES = {Severity.FATAL: "critical", Severity.DEGRADED: "warning", Severity.HINT: "info"}


@dataclass(frozen=True)
class AlertRule:
    """An alert."""

    name: str
    expression: str
    hold_s: float
    severity: str
    summary: str
    description: str


def job_rules() -> tuple[AlertRule, ...]:
    """Alerts on jobs."""
    bad = "|".join(v.value for v in Verdict if v not in (Verdict.PASS, Verdict.SKIPPED))
    verdict, following, timeout, missed, last, success = (
        METRICS[name].name
        for name in (
            "verdict",
            "next_run_timestamp_seconds",
            "timeout_seconds",
            "missed_total",
            "last_run_timestamp_seconds",
            "last_success_timestamp_seconds",
        )
    )
    return (
        AlertRule(
            "RunbooksJobFailing",
            f'max by (instance, name) ({verdict}{{verdict=~"{bad}"}}) > 0',
            0,
            "warning",
            "The last run of {{ $labels.name }} did not pass",
            "Read its output: `vllm-runbooks history` prints the run's folder.",
        ),
        AlertRule(
            "RunbooksJobOverdue",
            f"time() - ({following} + {timeout}) > {_LATE_S}",
            0,
            "critical",
            "{{ $labels.name }} did not run when due",
            "The timer is not running, or the job cannot start. Check the timer or cron.",
        ),
        AlertRule(
            "RunbooksJobUnpassed",
            f"{last} > {success} or ({last} unless {success})",
            _UNPASSED_S,
            "warning",
            "No run of {{ $labels.name }} has passed recently",
            "The job fails or is skipped. `vllm-runbooks history` prints the reason.",
        ),
        AlertRule(
            "RunbooksJobMissed",
            f"increase({missed}[1h]) > 0",
            0,
            "info",
            "{{ $labels.name }} missed planned runs",
            "The host was off, the previous run was still active, or one run replaced several.",
        ),
    )


def server_rules(serving: Serving) -> tuple[AlertRule, ...]:
    """Alerts on running servers: every condition that metrics alone decide."""
    return tuple(_rule(serving, condition) for condition in serving.conditions if is_measured(condition))


def _rule(serving: Serving, condition: ServingCondition) -> AlertRule:
    better = [graver for graver in serving.conditions if condition.id in graver.instead_of and is_measured(graver)]
    return AlertRule(
        "Vllm" + "".join(word.capitalize() for word in re.split(r"[._]", condition.id.removeprefix("serving."))),
        " unless ".join([_tests(serving, condition), *(f"({_tests(serving, graver)})" for graver in better)]),
        condition.hold_s,
        _SEVERITIES[condition.severity],
        f"{condition.title} ({{{{ $labels.instance }}}})",
        f"{condition.do_first} Limits: {' '.join(condition.why_limits.split())}",
    )


def _tests(serving: Serving, condition: ServingCondition) -> str:
    return " and ".join(f"({_test(serving, test)})" for test in condition.when)


def _test(serving: Serving, test: ServingTest) -> str:
    fact = serving.facts[test.fact or ""]
    figure = expression(serving, fact, is_any=test.over == "any")
    if test.than is None:
        limit = f"{test.limit:g}"
    else:
        limit = f"{test.times:g} * {expression(serving, serving.facts[test.than])}"
    if test.over == "most":
        return f"avg_over_time(({figure} {test.op} bool {limit})[{WINDOW}:{_STEP}]) >= {MOST:g}"
    return f"{figure} {test.op} {limit}"


def expression(serving: Serving, fact: ServingFact, *, is_any: bool = False) -> str:
    """A figure of each server in PromQL.

    Args:
        serving: vLLM's metrics.
        fact: The figure.
        is_any: Whether one sample in the window is enough for a comparison from above.
    """
    match fact.kind:
        case "gauge":
            form = "max_over_time({})" if is_any else "{}"
            return f"{fact.join} by ({_SERVER}) ({_names(serving, fact.series, form, labels=fact.labels, over=is_any)})"
        case "rate":
            return f"sum by ({_SERVER}) ({_names(serving, fact.series, 'rate({})', labels=fact.labels, over=True)})"
        case "share":
            part = _names(serving, fact.series, "increase({})", labels=fact.labels, over=True)
            whole = _names(serving, fact.of or fact.series, "increase({})", over=True)
            return f"sum by ({_SERVER}) ({part}) / sum by ({_SERVER}) ({whole})"
        case _:
            buckets = _names(serving, fact.series, "rate({})", suffix="_bucket", over=True)
            return f"histogram_quantile({fact.quantile:g}, sum by ({_SERVER}, le) ({buckets}))"


def _names(
    serving: Serving,
    series: str,
    form: str,
    *,
    labels: Mapping[str, Sequence[str]] | None = None,
    suffix: str = "",
    over: bool = False,
) -> str:
    """A series by every name that a release exports it under, each in the given form."""
    matchers = ",".join(
        f"{label}=~{json.dumps('|'.join(re.escape(value) for value in values))}"
        for label, values in (labels or {}).items()
    )
    selector = (f"{{{matchers}}}" if matchers else "") + (f"[{WINDOW}]" if over else "")
    return " or ".join(form.format(f"{metric.name}{suffix}{selector}") for metric in serving.series[series].names)


def rules_file(serving: Serving) -> str:
    """The rules as a Prometheus file."""
    from ruamel.yaml import YAML

    groups = [("vllm-runbooks-jobs", job_rules()), ("vllm-servers", server_rules(serving))]
    data = {"groups": [{"name": name, "rules": [_written(rule) for rule in rules]} for name, rules in groups]}
    text = io.StringIO()
    writer = YAML()
    writer.width = 120
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.dump(data, text)
    return f"# Written by `vllm-runbooks schedule alerts`.\n{text.getvalue()}"


def _written(rule: AlertRule) -> dict[str, Any]:
    hold = {"for": f"{int(rule.hold_s)}s"} if rule.hold_s else {}
    return {
        "alert": rule.name,
        "expr": rule.expression,
        **hold,
        "labels": {"severity": rule.severity},
        "annotations": {"summary": rule.summary, "description": rule.description},
    }
