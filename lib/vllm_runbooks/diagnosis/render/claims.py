"""The claims of a document, each with its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from vllm_runbooks.catalog.templates import value_of
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.records import CheckedClaim, Facts
from vllm_runbooks.core.views.elements import TRUTHS, badge, cut, prose, quoted, tag, wrap


def table(claims: Sequence[CheckedClaim]) -> RenderedView:
    """The claims of a document, each with its verdict, figures and source lines."""
    if not claims:
        text = "No claims to check: they belong to the recorded case of this runbook."
        return RenderedView.nothing(text)
    plain, blocks = [], []
    for claim in claims:
        numbers = " · ".join(_figure(name, printed) for name, printed in claim.figures.items())
        why = f"Not decided: {claim.undecided}." if claim.undecided else ""
        other = "" if claim.verdict is claim.expected else f"Expected: {claim.expected.value}."
        lines = [(f"line {quote.line}", quote.text) for quote in claim.quotes]
        basis = [text[:1].upper() + text[1:] for text in claim.basis]
        plain.append(
            "\n".join(
                [
                    f"{claim.verdict.value.upper()}  {claim.says}",
                    *(wrap(text, "    ") for text in (numbers, why, claim.because, other, *basis) if text),
                    *(f"    {place}: {cut(text)}" for place, text in lines),
                ]
            )
        )
        head = f"{badge(claim.verdict.value, TRUTHS[claim.verdict])} <b>{prose(claim.says)}</b>"
        blocks.append(
            tag("div", head, "font-size:15px;margin-top:18px;max-width:80ch")
            + (tag("div", escape(numbers), "font-size:13px;opacity:.75;margin-top:4px") if numbers else "")
            + tag("p", prose(" ".join(filter(None, [why, claim.because, other]))), "max-width:80ch;margin:4px 0")
            + "".join(
                tag("div", escape(text), "font-size:13px;opacity:.75;max-width:80ch;overflow-wrap:anywhere")
                for text in basis
            )
            + "".join(quoted(place, cut(text), "#8886") for place, text in lines)
        )
    return RenderedView("\n\n".join(plain), "".join(blocks))


def _figure(name: str, printed: str) -> str:
    """A named number with its unit: needed_gib is "needed 53.49 GiB"."""
    stem = name.rpartition("_")[0]
    measured = value_of(stem, {name: printed}, Facts()) if stem else None
    return f"{(stem if measured else name).replace('_', ' ')} {measured or printed}"
