"""Check a running server by its observation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_runbooks.catalog.load import serving
from vllm_runbooks.core.errors import InputError, check_texts
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.records import RunbookVerdict
from vllm_runbooks.host.loading import cards
from vllm_runbooks.lint.knowledge import knowledge
from vllm_runbooks.probe import expected
from vllm_runbooks.reading.sources import MAX_SCRIPT, beginning

if TYPE_CHECKING:
    from vllm_runbooks.probe.records import Health, Observation


def observation(evidence: Evidence) -> Observation:
    """Recorded observation of a server: `probe.json`, or output of `probe --format json`."""
    from vllm_runbooks.probe import observations

    if len(evidence.documents) != 1:
        raise InputError("use one recorded observation of a server, written by `vllm-runbooks probe --record`")
    document = evidence.documents[0]
    text = beginning(document)
    if len(text) > MAX_SCRIPT:
        raise InputError(f"{document.name}: is larger than {MAX_SCRIPT} characters, which is not a probe document")
    return observations.read_observation(text, document.name)


def health(seen: Evidence | Observation, *, gpus: str = "") -> Health:
    """Check a running server by its recorded or live observation; `gpus` as for `cards`.

    Raises:
        InputError: The evidence is not an observation, or as for `cards`.
    """
    from vllm_runbooks.probe import vitals

    check_texts(gpus=gpus)
    observed = observation(seen) if isinstance(seen, Evidence) else seen
    return vitals.check(observed, serving(), knowledge, cards=cards(gpus) if gpus.strip() else ())


def health_verdict(health_record: Health, evidence: Evidence | None = None) -> RunbookVerdict:
    """The verdict on a server: compared with the evidence's case, else whether anything is wrong."""
    return expected.health_verdict(health_record, evidence.case if evidence is not None else None)
