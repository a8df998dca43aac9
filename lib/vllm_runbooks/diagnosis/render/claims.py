"""What a document says, with the verdict on each statement."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from vllm_runbooks.catalog.templates import value_of
from vllm_runbooks.core.display import Shown
from vllm_runbooks.core.records import Facts, JudgedClaim
from vllm_runbooks.core.views.elements import TRUTHS, badge, cut, prose, quoted, tag, wrap


def judged(claims: Sequence[JudgedClaim]) -> Shown:
    """What a document says, each statement with its verdict, its numbers and the lines that they come from."""
    if not claims:
        said = "No claims are judged here: they belong to the recorded case that this runbook is for."
        return Shown(said, tag("p", said))
    plain, blocks = [], []
    for claim in claims:
        numbers = " · ".join(_figure(name, printed) for name, printed in claim.figures.items())
        why = f"Not decided: {claim.undecided}." if claim.undecided else ""
        other = "" if claim.verdict is claim.expected else f"Expected: {claim.expected.value}."
        lines = [(f"line {quote.line}", quote.text) for quote in claim.quotes]
        basis = [said[:1].upper() + said[1:] for said in claim.basis]
        plain.append(
            "\n".join(
                [
                    f"{claim.verdict.value.upper()}  {claim.says}",
                    *(wrap(said, "    ") for said in (numbers, why, claim.because, other, *basis) if said),
                    *(f"    {place}: {cut(said)}" for place, said in lines),
                ]
            )
        )
        head = f"{badge(claim.verdict.value, TRUTHS[claim.verdict])} <b>{prose(claim.says)}</b>"
        blocks.append(
            tag("div", head, "font-size:15px;margin-top:18px;max-width:80ch")
            + (tag("div", escape(numbers), "font-size:13px;opacity:.75;margin-top:4px") if numbers else "")
            + tag("p", prose(" ".join(filter(None, [why, claim.because, other]))), "max-width:80ch;margin:4px 0")
            + "".join(
                tag("div", escape(said), "font-size:13px;opacity:.75;max-width:80ch;overflow-wrap:anywhere")
                for said in basis
            )
            + "".join(quoted(place, cut(said), "#8886") for place, said in lines)
        )
    return Shown("\n\n".join(plain), "".join(blocks))


def _figure(name: str, printed: str) -> str:
    """A named number with its unit: needed_gib is "needed 53.49 GiB"."""
    stem = name.rpartition("_")[0]
    measured = value_of(stem, {name: printed}, Facts()) if stem else None
    return f"{(stem if measured else name).replace('_', ' ')} {measured or printed}"
