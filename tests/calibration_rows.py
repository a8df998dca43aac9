"""Write the catalog's calibration rows from the recorded cases: python tests/calibration_rows.py."""

from __future__ import annotations

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.records import Residual
from vllm_runbooks.diagnosis import session
from vllm_runbooks.diagnosis.answer import answer
from vllm_runbooks.plan import calibration


def rows_of_cases() -> tuple[Residual, ...]:
    """What the recorded cases give, each start with the cards that the catalog's file names for it."""
    named = {one.case: one.gpus for one in calibration.shipped().cards}
    rows: list[Residual] = []
    for path in sorted((catalog.cases_dir()).glob("*/startup.log")):
        evidence = session.load(path.parent.name)
        cards = session.specs().gpus(named[path.parent.name]) if path.parent.name in named else ()
        for number, start in enumerate(session.read(evidence), 1):
            if start.facts.weights_gib is None:
                continue
            found = answer(
                evidence, session.load_catalog(()), session.knowledge, start=number, cards=cards, specs=session.specs
            )
            rows += found.plan.residuals if found.plan is not None else ()
    return tuple(rows)


if __name__ == "__main__":
    shipped = calibration.shipped()
    new = calibration.written(rows_of_cases(), shipped.cards)
    (catalog.catalog_dir() / calibration.FILE).write_text(new, encoding="utf-8")
    print(new, end="")
