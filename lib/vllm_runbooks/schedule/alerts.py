"""Alert rules for Prometheus and a dashboard for Grafana, of our jobs' metrics and of those that vLLM exports.

What is asked of vLLM's metrics is read from `catalog/serving.yaml`: the same figures and limits as for a probe.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vllm_runbooks.catalog.serving import Serving, ServingCondition, ServingFact, ServingTest, is_measured
from vllm_runbooks.core.records import Severity, Verdict
from vllm_runbooks.probe.records import MOST
from vllm_runbooks.schedule.reports import METRICS

WINDOW = "5m"
"""Over which rates are taken; scrapes every minute give five samples."""
_STEP = "1m"
"""How far apart the samples are, in most of which something has to hold."""
_SERVER = "instance"
"""The label by which Prometheus tells one server from another."""
_LATE_S = 900
"""How late a run may be beside its own time limit: whoever wakes us comes every few minutes."""
_UNPASSED_S = 26 * 3600
"""How long no run may have passed: time for the second run of a job that runs each day."""
_SEVERITIES = {Severity.FATAL: "critical", Severity.DEGRADED: "warning", Severity.HINT: "info"}
_UNITS = {"share": "percentunit", "s": "s", "1/s": "reqps", "tokens/s": "short", "requests": "short"}
"""By the unit of a figure what Grafana calls it."""
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3
"""Of a panel, in units of a grid that is 24 wide."""


@dataclass(frozen=True)
class Rule:
    """One alert."""

    name: str
    expression: str
    hold_s: float
    severity: str
    summary: str
    description: str


def job_rules() -> tuple[Rule, ...]:
    """Alerts on the jobs themselves."""
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
        Rule(
            "RunbooksJobFailing",
            f'max by (instance, name) ({verdict}{{verdict=~"{bad}"}}) > 0',
            0,
            "warning",
            "The last run of {{ $labels.name }} did not pass",
            "Read its output with `vllm-runbooks history`; the run's folder is named there.",
        ),
        Rule(
            "RunbooksJobOverdue",
            f"time() - ({following} + {timeout}) > {_LATE_S}",
            0,
            "critical",
            "{{ $labels.name }} should have run and has not",
            "Nobody wakes it, or it cannot start: look at its timer, or at cron.",
        ),
        Rule(
            "RunbooksJobUnpassed",
            f"{last} > {success} or ({last} unless {success})",
            _UNPASSED_S,
            "warning",
            "No run of {{ $labels.name }} has passed for long",
            "It fails, or is skipped and checks nothing: `vllm-runbooks history` says what it lacks.",
        ),
        Rule(
            "RunbooksJobMissed",
            f"increase({missed}[1h]) > 0",
            0,
            "info",
            "{{ $labels.name }} had planned times without a run",
            "The host was off, the last run was still going on, or several were made up for by one.",
        ),
    )


def server_rules(serving: Serving) -> tuple[Rule, ...]:
    """Alerts on running servers: every condition that metrics alone decide."""
    return tuple(_rule(serving, each) for each in serving.conditions if is_measured(each))


def _rule(serving: Serving, condition: ServingCondition) -> Rule:
    better = [each for each in serving.conditions if condition.id in each.instead_of and is_measured(each)]
    return Rule(
        "Vllm" + "".join(word.capitalize() for word in re.split(r"[._]", condition.id.removeprefix("serving."))),
        " unless ".join([_tests(serving, condition), *(f"({_tests(serving, each)})" for each in better)]),
        condition.hold_s,
        _SEVERITIES[condition.severity],
        f"{condition.title} ({{{{ $labels.instance }}}})",
        f"{condition.do_first} Limits: {' '.join(condition.why_limits.split())}",
    )


def _tests(serving: Serving, condition: ServingCondition) -> str:
    return " and ".join(f"({_test(serving, test)})" for test in condition.when)


def _test(serving: Serving, test: ServingTest) -> str:
    fact = serving.facts[test.fact or ""]
    found = expression(serving, fact, is_any=test.over == "any")
    if test.than is None:
        limit = f"{test.limit:g}"
    else:
        limit = f"{test.times:g} * {expression(serving, serving.facts[test.than])}"
    if test.over == "most":
        return f"avg_over_time(({found} {test.op} bool {limit})[{WINDOW}:{_STEP}]) >= {MOST:g}"
    return f"{found} {test.op} {limit}"


def expression(serving: Serving, fact: ServingFact, *, is_any: bool = False) -> str:
    """A figure in PromQL, of each server.

    Args:
        serving: What is known of vLLM's metrics.
        fact: The figure.
        is_any: Whether one sample in the window suffices for a comparison from above.
    """
    match fact.kind:
        case "gauge":
            each = "max_over_time({})" if is_any else "{}"
            return f"{fact.join} by ({_SERVER}) ({_names(serving, fact.series, each, labels=fact.labels, over=is_any)})"
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
    """A series under whatever name a release exports it, each name in the form given."""
    held = ",".join(
        f"{label}=~{json.dumps('|'.join(re.escape(value) for value in values))}"
        for label, values in (labels or {}).items()
    )
    selector = (f"{{{held}}}" if held else "") + (f"[{WINDOW}]" if over else "")
    return " or ".join(form.format(f"{each.name}{suffix}{selector}") for each in serving.series[series].names)


def rules_file(serving: Serving) -> str:
    """The rules as a file of Prometheus."""
    from ruamel.yaml import YAML

    groups = [("vllm-runbooks-jobs", job_rules()), ("vllm-servers", server_rules(serving))]
    data = {"groups": [{"name": name, "rules": [_written(rule) for rule in rules]} for name, rules in groups]}
    text = io.StringIO()
    writer = YAML()
    writer.width = 120
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.dump(data, text)
    return f"# Written by `vllm-runbooks schedule alerts`.\n{text.getvalue()}"


def _written(rule: Rule) -> dict[str, Any]:
    held = {"for": f"{int(rule.hold_s)}s"} if rule.hold_s else {}
    return {
        "alert": rule.name,
        "expr": rule.expression,
        **held,
        "labels": {"severity": rule.severity},
        "annotations": {"summary": rule.summary, "description": rule.description},
    }


@dataclass(frozen=True)
class Panel:
    """One picture of the dashboard."""

    title: str
    unit: str
    expressions: tuple[tuple[str, str], ...]
    """Each with the words of its legend."""
    limits: tuple[tuple[float, str], ...] = ()
    """From which value on which colour."""
    kind: str = "timeseries"


def panels(serving: Serving) -> tuple[tuple[str, tuple[Panel, ...]], ...]:
    """The rows of the dashboard with their panels."""
    short = {name: metric.name for name, metric in METRICS.items()}
    of_jobs = (
        Panel(
            "Verdict of the last run", "short", ((f"{short['verdict']} == 1", "{{name}}: {{verdict}}"),), kind="stat"
        ),
        Panel(
            "Time since the last run that passed",
            "s",
            ((f"time() - {short['last_success_timestamp_seconds']}", "{{name}}"),),
        ),
        Panel("Duration of the last run", "s", ((short["duration_seconds"], "{{name}}"),)),
        Panel(
            "Planned times without a run, by hour", "short", ((f"increase({short['missed_total']}[1h])", "{{name}}"),)
        ),
        Panel(
            "Time until the next run is overdue",
            "s",
            ((f"{short['next_run_timestamp_seconds']} + {short['timeout_seconds']} + {_LATE_S} - time()", "{{name}}"),),
        ),
        Panel("Parts that do not pass", "short", ((_failing(short["run_verdict"]), "{{name}}: {{run}}: {{verdict}}"),)),
    )
    of_servers = tuple(
        Panel(
            f"{fact.says[:1].upper()}{fact.says[1:]}",
            _UNITS.get(fact.unit, "short"),
            ((expression(serving, fact), f"{{{{{_SERVER}}}}}"),),
            tuple(_limits(serving, name)),
        )
        for name, fact in serving.facts.items()
    )
    return ("Jobs", of_jobs), ("Servers", of_servers)


def _failing(metric: str) -> str:
    return f'{metric}{{verdict!~"{Verdict.PASS}|{Verdict.SKIPPED}"}}'


def _limits(serving: Serving, name: str) -> Iterator[tuple[float, str]]:
    """The upper limits of a figure that an alert has by itself."""
    for condition in serving.conditions:
        if is_measured(condition) and len(condition.when) == 1:
            (test,) = condition.when
            if test.fact == name and test.limit is not None and test.op in (">", ">="):
                yield test.limit, "red" if condition.severity is Severity.FATAL else "orange"


def dashboard(serving: Serving) -> str:
    """The dashboard as Grafana imports it."""
    made: list[dict[str, Any]] = []
    top = 0
    for title, row in panels(serving):
        made.append(
            {
                "id": len(made) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": top, "w": 24, "h": 1},
            }
        )
        for number, panel in enumerate(row):
            x, y = number % _COLUMNS * _WIDTH, top + 1 + number // _COLUMNS * _HEIGHT
            made.append(_panel(panel, len(made) + 1, {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT}))
        top += 1 + -(-len(row) // _COLUMNS) * _HEIGHT
    data = {
        "title": "vLLM runbooks",
        "uid": "vllm-runbooks",
        "tags": ["vllm"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0}
            ]
        },
        "panels": made,
    }
    return json.dumps(data, indent=2) + "\n"


def _panel(panel: Panel, id_: int, place: Mapping[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    steps += [{"color": color, "value": limit} for limit, color in sorted(set(panel.limits))]
    custom = {"thresholdsStyle": {"mode": "line" if panel.limits else "off"}} if panel.kind == "timeseries" else {}
    return {
        "id": id_,
        "type": panel.kind,
        "title": panel.title,
        "datasource": source,
        "gridPos": dict(place),
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}, "custom": custom},
            "overrides": [],
        },
        "options": {"textMode": "name"} if panel.kind == "stat" else {},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expr, "legendFormat": legend, "datasource": source}
            for number, (expr, legend) in enumerate(panel.expressions)
        ],
    }
