"""What is wrong with evaluations: servers and names that are not there, addresses, sampling, another vLLM."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vllm_runbooks.catalog.languages import Phrase
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.edge10.scripts import evaluations
from vllm_runbooks.edge10.scripts.commands import Command
from vllm_runbooks.edge10.scripts.evaluations import LOCAL, Asked, Said
from vllm_runbooks.edge10.scripts.readings import Job, Part, ReadFile, Server, installs
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.reading.shell import Word

_RELEASE = "edge10.vllm-release"
_REQUIREMENT = re.compile(r"(?P<name>vllm)(?:\[[\w,-]{0,60}\])?(?P<pin>(?:[=<>!~]=?=?[^;@\s]{0,60})?)", re.IGNORECASE)
_SUFFIX = re.compile(r"(?:\.post\d{1,3}|\+[\w.]{1,40})\Z")
_STOPS = re.compile(
    r"\b(?:p?kill|killall|fuser|terminate|send_signal|down)\b|\b(?:docker|podman|systemctl)[ \t]{1,4}(?:stop|rm)\b"
)
"""What stops a server."""
_CHAT = "/chat/completions"


def shared(file: ReadFile, job: Job) -> Iterator[Hit]:
    """Servers of a file on the port of one that is there before: in a file before it, or left running by this one.

    Those in the background of one script are the ordinary linter's. Where something stops a server, the next one may
    have its port.
    """
    if any(_STOPS.search(each.text) for each in job.files):
        return
    before = [each for other in job.files[: job.files.index(file)] for each in other.servers]
    for server in file.servers:
        others = [each for each in before if server.is_alone and _is_in_the_way(each, server)]
        if others:
            where = Phrase("above") if others[0].file == file.name else Phrase("in another of these files")
            says = {"port": str(server.port), "names": ", ".join(sorted(others[0].names or ())), "where": where}
            yield Hit("edge10.port-taken", *server.port_at, says)
        before.append(server)


def _is_in_the_way(one: Server, other: Server) -> bool:
    """Whether two servers are two, open the same port, and the first one goes on while the other starts."""
    if one.port is None or one.port != other.port or one.names is None or other.names is None:
        return False
    is_beside = one.file != other.file or one.is_detached or other.is_detached
    goes_on = one.file != other.file or one.is_detached or one.is_behind
    return one.is_alone and is_beside and goes_on and not one.names & other.names and one.model != other.model


def find(part: Part, job: Job) -> Iterator[Hit]:
    """What is wrong in one part."""
    for command in part.commands:
        yield from _installed(command, job)
    for asked in part.asked:
        yield from _address(asked, job)
        yield from _sampled(asked)
        yield from _answers(asked, job)


def _installed(command: Command, job: Job) -> Iterator[Hit]:
    """Another release of vLLM installed than the evaluation needs, or whichever is the newest."""
    needed = job.facts.steps["evaluate"].vllm
    first = installs(command)
    if needed is None or first is None:
        return
    for word in command.words[first:]:
        match = _REQUIREMENT.fullmatch(word.value or "")
        if match is None:
            continue
        pin = match["pin"]
        if _SUFFIX.sub("", pin.lstrip("=")) == needed and pin.startswith("=="):
            continue
        says = {"needed": needed, "pin": pin, "newest": "" if pin else Phrase("whichever release is the newest")}
        yield Hit(_RELEASE, word.start, word.end, says, () if pin else _pinned(word, match["name"], needed))


def _pinned(word: Word, name: str, needed: str) -> tuple[Replacement, ...]:
    """The requirement with its release behind the name."""
    if word.at is None or len(word.at) != len(word.value or "") or (word.value or "").lower() != name.lower():
        return ()
    end = word.at[-1] + 1
    return (Replacement(end, end, f"=={needed}"),)


def _address(asked: Asked, job: Job) -> Iterator[Hit]:
    said = asked.address
    found = evaluations.parts(str(said.value)) if said is not None and isinstance(said.value, str) else None
    if said is None or found is None:
        return
    path = found.path.rstrip("/")
    if not path.endswith(_CHAT) and (asked.needs_whole_path or not path.endswith("/v1")):
        missing = _CHAT if path.endswith("/v1") else f"/v1{_CHAT}"
        says = {"address": said.value, "path": f"/v1{_CHAT}"}
        edits = (_behind(said, missing),) if said.is_literal and (not path or path.endswith("/v1")) else ()
        yield Hit("edge10.api-path", said.start, said.end, says, edits)
    if found.host not in LOCAL or not job.servers:
        return
    port = 80 if found.port is None else found.port
    yield from _server(asked, said, port, job.servers)


def _behind(said: Said, text: str) -> Replacement:
    """A text put behind an address, in front of its closing quote."""
    value = str(said.value)
    end = said.end - (1 if said.end - said.start > len(value) else 0) - (len(value) - len(value.rstrip("/")))
    return Replacement(end, said.end - (1 if said.end - said.start > len(value) else 0), text)


def _server(asked: Asked, said: Said, port: int, servers: Sequence[Server]) -> Iterator[Hit]:
    """A port that no server listens on, or a name that the one there does not have."""
    ports = {server.port for server in servers}
    is_certain = None not in ports
    there = [server for server in servers if server.port == port]
    if is_certain and not there:
        shown = ", ".join(str(each) for each in sorted(each for each in ports if each is not None))
        yield Hit("edge10.no-such-server", said.start, said.end, {"port": str(port), "ports": shown})
    model = asked.model
    if model is None or not isinstance(model.value, str):
        return
    possible = there or list(servers)
    if any(server.names is None for server in possible) or (not there and not is_certain):
        return
    names = sorted({name for server in possible for name in server.names or ()})
    if model.value not in names:
        where = Phrase("No server of port {port}", port=str(port)) if there else Phrase("No server here")
        says = {"name": model.value, "names": ", ".join(names), "where": where}
        yield Hit("edge10.no-such-name", model.start, model.end, says)


def _sampled(asked: Asked) -> Iterator[Hit]:
    """Answers that chance has a part in."""
    said = asked.temperature
    if said is None or isinstance(said.value, bool) or not isinstance(said.value, (int, float)) or said.value <= 0:
        return
    edits = (Replacement(said.start, said.end, "0.0"),) if said.is_literal else ()
    yield Hit("edge10.sampled-accuracy", said.start, said.end, {"temperature": f"{said.value:g}"}, edits)


def _answers(asked: Asked, job: Job) -> Iterator[Hit]:
    """Answers that may be as long as the whole context, so that every question is refused."""
    said = asked.max_tokens
    if said is None or not isinstance(said.value, (int, float)) or asked.model is None:
        return
    own = [each for each in job.servers if each.names is not None and asked.model.value in each.names]
    lengths = [each.max_model_len for each in own if each.max_model_len is not None]
    if own and len(lengths) == len(own) and said.value >= max(lengths):
        says = {"tokens": f"{said.value:g}", "context": str(max(lengths))}
        yield Hit("edge10.answer-too-long", said.start, said.end, says)
