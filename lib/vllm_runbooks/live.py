"""What runbooks do on this host: start servers, prove a way out; each leaves its log, its report and a case."""

from __future__ import annotations

from vllm_runbooks.cluster.named import nodes
from vllm_runbooks.edge10.chain.chains import chain
from vllm_runbooks.runbooks.live.checking import check
from vllm_runbooks.runbooks.live.confirming import confirmed, of_split
from vllm_runbooks.runbooks.live.fleets import fleet, split
from vllm_runbooks.runbooks.live.judging import is_ready, judge, judge_chain, judge_pair, judge_split
from vllm_runbooks.runbooks.live.probing import probe
from vllm_runbooks.runbooks.live.starting import apply, evidence, start
from vllm_runbooks.runbooks.live.watching import watched
from vllm_runbooks.serve.load import Load

__all__ = [
    "Load",
    "apply",
    "chain",
    "check",
    "confirmed",
    "evidence",
    "fleet",
    "is_ready",
    "judge",
    "judge_chain",
    "judge_pair",
    "judge_split",
    "nodes",
    "of_split",
    "probe",
    "split",
    "start",
    "watched",
]
