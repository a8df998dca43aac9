"""The output of `ray status` in a text: nodes, usage, and pending demands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from vllm_runbooks.core.printed import number
from vllm_runbooks.core.records import Quote, RayCluster, RayDemand
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.reading.startup_log import log_lines
from vllm_runbooks.reading.startup_log.log_lines import LogLine

BEGINS = ("===", "Node status")
"""The heading, or the line after it."""
_HEADING = re.compile(r"={3,20} {0,2}(?:Autoscaler|Cluster) status: (?P<at>.{0,60}?) ?={3,20}\s{0,8}\Z")
_PARTS = {
    "Active:": "active", "Healthy:": "active", "Idle:": "active", "Recent failures:": "lost",
    "Usage:": "usage", "Total Usage:": "usage",
    "Demands:": "demands", "Total Demands:": "demands", "Pending Demands:": "demands",
}  # fmt: skip
_OTHER_PART = re.compile(r"Node status|Resources|-{3,400}|(?! )[^{}]{1,80}:")
_NODES = re.compile(r" ?(?P<count>\d{1,6}) [^\s,]{1,200}\s{0,8}\Z")
_LOST = re.compile(r" ?(?P<said>[^\s(]\S{0,120}: .{1,160})")
_AMOUNT = r"[\d.]{1,18}(?:B|KiB|MiB|GiB|TiB)?"
_USAGE = re.compile(
    rf" ?(?P<used>{_AMOUNT})/(?P<total>{_AMOUNT}) (?P<resource>[\w.:/-]{{1,120}})"
    rf"(?: \((?P<working>{_AMOUNT}) used of (?P<reserved>{_AMOUNT}) reserved in placement groups\))?"
)
"""Reserved but idle resources are not counted as used there, and are not free."""
_DEMAND = re.compile(r" ?\{.{1,4000}: \d{1,9}\+? pending.{0,60}")
_BUNDLE = re.compile(r"\{(?P<shape>[^{}]{1,400})\}(?: \* (?P<count>\d{1,6}))?")
_ASKED = re.compile(r"'(?P<resource>[\w.:/-]{1,120})': (?P<amount>[\d.e+-]{1,20})")
_UNITS = {"KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 1024.0, "B": 2.0**-30}
"""In GiB, the longer ones first."""
_IN_BYTES = dict.fromkeys(("memory", "object_store_memory"), _UNITS["B"])
"""Resources that demands print in bytes."""
_MAX_KEPT = 200


@dataclass
class _StatusDraft:
    quote: Quote
    at: str | None
    part: str | None = ""
    """Empty if of no interest, None after the totals, where nodes follow."""
    active: int | None = None
    lost: list[str] = field(default_factory=list)
    used: dict[str, float] = field(default_factory=dict)
    total: dict[str, float] = field(default_factory=dict)
    demands: list[RayDemand] = field(default_factory=list)

    def take_row(self, file: int, line: LogLine) -> None:
        if self.part == "active" and (nodes := _NODES.match(line.text)):
            self.active = (self.active or 0) + int(nodes["count"])
        elif self.part == "lost" and (lost := _LOST.match(line.text)) and len(self.lost) < _MAX_KEPT:
            self.lost.append(redact_text(lost["said"]))
        elif self.part == "usage" and (usage := _USAGE.match(line.text)) and len(self.total) < _MAX_KEPT:
            used, total, working, reserved = (_amount(usage[name]) for name in ("used", "total", "working", "reserved"))
            if used is not None and total is not None:
                idle = (reserved or 0.0) - (working or 0.0)
                self.used[usage["resource"]], self.total[usage["resource"]] = used + idle, total
        elif self.part == "demands" and _DEMAND.match(line.text) and len(self.demands) < _MAX_KEPT:
            self.demands.append(RayDemand(_requests(line.text), log_lines.quote(file, line)))


@dataclass
class RayStatus:
    """Reads the last `ray status` of a launch."""

    read: _StatusDraft | None = None

    def take(self, file: int, line: LogLine) -> None:
        stripped, heading = line.text.strip(), _HEADING.match(line.text)
        if heading or (self.read is None and stripped == "Node status"):
            self.read = _StatusDraft(log_lines.quote(file, line), heading["at"] if heading else None)
        elif self.read is None or self.read.part is None or line.level is not None:
            return
        elif stripped.startswith("Node: "):
            self.read.part = None
        elif stripped in _PARTS or _OTHER_PART.fullmatch(line.text):
            self.read.part = _PARTS.get(stripped, "")
        else:
            self.read.take_row(file, line)

    def record(self) -> RayCluster | None:
        read = self.read
        if read is None:
            return None
        kept = (tuple(read.lost), dict(read.used), dict(read.total), tuple(read.demands))
        return RayCluster(read.quote, read.at, read.active, *kept)


def _requests(text: str) -> dict[str, float]:
    totals: dict[str, float] = {}
    for bundle in _BUNDLE.finditer(text):
        for request in _ASKED.finditer(bundle["shape"]):
            amount = number(request["amount"])
            if amount is not None:
                name = request["resource"]
                sized = amount * int(bundle["count"] or 1) * _IN_BYTES.get(name, 1.0)
                totals[name] = totals.get(name, 0.0) + sized
    return totals


def _amount(printed: str | None) -> float | None:
    unit = next((unit for unit in _UNITS if (printed or "").endswith(unit)), "")
    value = number((printed or "").removesuffix(unit))
    return None if value is None else value * _UNITS.get(unit, 1.0)
