"""What the nodes themselves mean: their software, environment, model, cards, clocks and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median

from vllm_runbooks.core.records import Severity
from vllm_runbooks.host import inspection as inventories
from vllm_runbooks.host.nodes import compared
from vllm_runbooks.host.nodes.compared import Fact, listed
from vllm_runbooks.host.nodes.records import NodeFinding
from vllm_runbooks.host.nodes.view import Said, View, Words, together
from vllm_runbooks.host.records import SHARED, HostFacts

_CLOCK_S = 1.0
"""Seconds by which a clock may be off, beyond what the question itself leaves open."""
_TOKEN = "RAY_AUTH_TOKEN"  # noqa: S105 - a name
_MAX_FILES = 4
_COVERED = ("host.shm_small", "host.memlock", "host.open_files", "gpu.unequal")
"""Findings about a host that rules of several nodes make in their own way."""
_ON_THE_NODE = "it fails or suffers of this as a server of one host would, on that node alone; the others wait for it"


_REMEDIES = (
    (("No module named",), (
        "install this package in the Python that answers there, in the same release as here, or name the one that has "
        "it: agent=PATH behind the host (--hosts)")),
    (("Host key verification failed",), (
        "log in there once by hand, compare the key that is shown with the host's own, and accept it; where the key "
        "has changed, find out why first")),
    (("Permission denied",), (
        "have the host let ssh in without a password: the right USER@HOST, and a public key of yours among its "
        "authorized_keys")),
    (("Could not resolve hostname",), "write the host's address, or have its name resolve here"),
    (("currently not available",), "name a user that may run programs there: USER@HOST"),
    (("not found", "No such file or directory"), (
        "name a Python that is there and has this package: agent=PATH behind the host (--hosts)")),
    (("no Ray cluster at",), "start Ray there, or give the address that its head printed when it was started"),
    (("nothing answers at",), (
        "give the address that Ray's head printed when it was started, and let its port through")),
    (("has no Ray",), "run the command by a Python with the Ray of the cluster"),
    (("AuthenticationError", "AuthToken"), (
        "give the command the cluster's token, in RAY_AUTH_TOKEN or in the file that RAY_AUTH_TOKEN_PATH names, with "
        "RAY_AUTH_MODE=token")),
    (("ersion mismatch",), "run the command by the Python and the Ray that the cluster has"),
    (("Ray lists it as dead",), "start Ray on that node again, or ask those that are left over ssh (--hosts)"),
    (("Connection refused",), "see that sshd runs there, and name its port where it is another: HOST:PORT"),
    (("timed out", "No route to host"), (
        "see that the host is up, and that no firewall between drops its port of ssh")),
)  # fmt: skip
"""Words by which a reason is known, and what to do about it; the first that fits counts."""


def unread(view: View) -> Iterator[Said]:
    """Nodes that could not be asked."""
    for each in view.found.unread:
        why = " ".join(each.why.split())[:300]
        do = next((do for words, do in _REMEDIES if any(word in each.why for word in words)), "")
        yield Said((each.name,), f"{each.name} could not be asked: {why}", do=do)


def same(fact: Fact) -> Callable[[View], Iterator[Said]]:
    """A fact that has to be the same on all nodes."""

    def says(view: View) -> Iterator[Said]:
        found = compared.values(fact, view.nodes)
        if compared.differ(found):
            yield Said(compared.odd(found), f"{fact.what} differs: {compared.told(found)}", facts=(fact.what,))

    return says


def python(view: View) -> Iterator[Said]:
    """Versions of Python: it is Ray that refuses another; ranks that find each other by themselves may do with one."""
    has_ray = any(compared.RAY.of(node) not in (None, compared.ABSENT) for node in view.nodes)
    for said in same(compared.PYTHON)(view):
        yield replace(said, severity=None if has_ray else Severity.DEGRADED)


def environment(view: View) -> Iterator[Said]:
    """Variables that the ranks have to agree on."""
    for name, found in view.variables.items():
        if compared.is_binding(name) and name != _TOKEN:
            yield Said(compared.odd(found), f"{name} differs: {compared.told(found)}", facts=(name,))


def token(view: View) -> Iterator[Said]:
    """Tokens of Ray, by their marks."""
    found = view.variables.get(_TOKEN)
    if found:
        yield Said(compared.odd(found), f"the token of Ray differs: {compared.told(found)}", facts=(_TOKEN,))


def of_single_nodes(view: View) -> Iterator[NodeFinding]:
    """What the inventory of a node alone means, as far as it stands in the way of a start there."""
    by_text: dict[tuple[str, Severity, str, str, str], list[str]] = {}
    for node, found in view.of_hosts.items():
        for each in found:
            if each.severity is not Severity.HINT and each.id not in _COVERED:
                cards = f"GPU {', '.join(map(str, each.gpus))}: " if each.gpus else ""
                key = (each.id, each.severity, f"{cards}{each.text}", each.do, each.source)
                by_text.setdefault(key, []).append(node)
    for (id_, severity, text, do, source), names in by_text.items():
        yield NodeFinding(id_, severity, tuple(names), f"on {listed(names)}: {text}", _ON_THE_NODE, do, source)


# ---- the cards


def gpus_unequal(view: View) -> Iterator[Said]:
    """Kinds of cards, by the catalog where it knows them; one without a name is no kind of its own."""
    kinds = {
        node.name: frozenset(
            known.name if (known := inventories.known(gpu, view.specs)) else gpu.name
            for gpu in node.inventory.gpus
            if gpu.name
        )
        for node in view.nodes
    }
    if len({each for each in kinds.values() if each}) > 1:
        found = {name: value for name, value in compared.values(compared.GPUS, view.nodes).items() if kinds[name]}
        yield Said(tuple(found), f"the cards differ: {compared.told(found)}", facts=(compared.GPUS.what,))


def gpus_missing(view: View) -> Iterator[Said]:
    """Nodes without a card beside others."""
    found = compared.values(compared.GPUS, view.nodes)
    without = tuple(name for name, value in found.items() if value == compared.NO_GPUS)
    if without and len(without) < sum(value is not None for value in found.values()):
        why = view.ways.nodes[without[0]].inventory.why_none
        yield Said(without, f"no card on {listed(without)} ({why}), and cards on others", facts=(compared.GPUS.what,))


def gpu_counts(view: View) -> Iterator[Said]:
    """Numbers of cards, of the nodes that have any."""
    found = {node.name: str(len(node.inventory.gpus)) for node in view.nodes if node.inventory.gpus}
    if compared.differ(found):
        yield Said(compared.odd(found), f"numbers of cards differ: {compared.told(found)}")


# ---- the model


def model_missing(view: View) -> Iterator[Said]:
    """Nodes on which the model's path is not there."""
    found = []
    for node in view.nodes:
        if node.model is not None and not node.model.is_there:
            why = f" ({' '.join(node.model.why.split())[:200]})" if node.model.why else ""
            found.append((node.name, Words(f"{node.model.path} is not there on", why)))
    yield from together(found, compared.MODEL.what)


def model_path(view: View) -> Iterator[Said]:
    """Paths of the model."""
    found = {node.name: node.model.path for node in view.nodes if node.model is not None}
    if compared.differ(found):
        text = f"the model's path differs: {compared.told(found)}"
        yield Said(compared.odd(found), text, facts=(compared.MODEL.what,))


def model_differs(view: View) -> Iterator[Said]:
    """Files of the model that are not those of most nodes."""
    by_faults: dict[tuple[str, ...], list[str]] = {}
    for name, faults in view.files.items():
        by_faults.setdefault(tuple(faults), []).append(name)
    for texts, names in by_faults.items():
        more = f"; and {len(texts) - _MAX_FILES} more files" if len(texts) > _MAX_FILES else ""
        shown = "; ".join(texts[:_MAX_FILES])
        text = f"the model's files on {listed(names)} are not those of the others: {shown}{more}"
        yield Said(tuple(names), text, facts=(compared.MODEL.what,))


# ---- clocks and limits


def clock(view: View) -> Iterator[Said]:
    """Clocks beside that of most nodes; of two beside that of the head."""
    told = {node.name: (offset, node) for node in view.nodes if (offset := node.clock_offset_s) is not None}
    if len(told) < 2:
        return
    offset, head = told.get(view.found.head or "", next(iter(told.values())))
    has_most = len(told) > 2
    right = median(each for each, _ in told.values()) if has_most else offset
    for name, (each, node) in told.items():
        off = each - right
        if abs(off) - (node.clock_error_s or 0) - (head.clock_error_s or 0) > _CLOCK_S:
            which = "ahead of" if off > 0 else "behind"
            than = "most others'" if has_most else f"that of {head.name}"
            yield Said((name,), f"the clock of {name} is {abs(off):,.1f} s {which} {than}")


def _below(view: View, limit: Callable[[HostFacts], float | None], least: float) -> dict[str, float]:
    """Nodes of which a limit is known and too low, with it; one below zero is none."""
    found = {node.name: limit(node.inventory.host) for node in view.nodes}
    return {name: value for name, value in found.items() if value is not None and 0 <= value < least}


def shm(view: View) -> Iterator[Said]:
    """Little shared memory."""
    small = {
        name: f"{size:,.0f} MiB" for name, size in _below(view, lambda h: h.shm_mib, inventories.SMALL_SHM_MIB).items()
    }
    if small:
        yield Said(tuple(small), f"{SHARED} has {compared.told(small)}", facts=(compared.SHM.what,))


def memlock(view: View) -> Iterator[Said]:
    """Little memory that may be locked, beside devices for which it is."""
    least = inventories.LEAST_MEMLOCK_MIB
    low = _below(view, lambda host: host.memlock_mib if host.rdma_devices else None, least)
    if low:
        told = compared.told({name: f"{limit:g} MiB" for name, limit in low.items()})
        text = f"a process may lock {told}, and there are RDMA devices"
        yield Said(tuple(low), text, facts=(compared.MEMLOCK.what,))


def open_files(view: View) -> Iterator[Said]:
    """Few files that a process may open."""
    low = _below(view, lambda host: host.open_files_max, inventories.OPEN_FILES)
    if low:
        told = compared.told({name: f"{most:,.0f}" for name, most in low.items()})
        yield Said(tuple(low), f"files that a process may open: {told}", facts=(compared.OPEN_FILES.what,))
