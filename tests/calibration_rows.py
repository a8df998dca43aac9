"""Write the catalog's calibration rows from the recorded cases: python tests/calibration_rows.py."""

from __future__ import annotations

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.records import Residual
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.answer import answer
from vllm_runbooks.lint import knowledge
from vllm_runbooks.plan import calibration
from vllm_runbooks.reading import sources


def rows_of_cases() -> tuple[Residual, ...]:
    """Rows of the recorded cases, each launch with the GPUs that the catalog's file names."""
    named = {one.case: one.gpus for one in calibration.shipped().cards}
    rows: list[Residual] = []
    for path in sorted((folders.cases_dir()).glob("*/startup.log")):
        evidence = sources.load(path.parent.name)
        cards = catalog.specs().gpus(named[path.parent.name]) if path.parent.name in named else ()
        for number, start in enumerate(diagnosing.read(evidence), 1):
            if start.facts.weights_gib is None:
                continue
            found = answer(
                evidence, catalog.load_catalog(()), knowledge.knowledge, start=number, cards=cards, specs=catalog.specs
            )
            rows += found.plan.residuals if found.plan is not None else ()
    return tuple(rows)


if __name__ == "__main__":
    shipped = calibration.shipped()
    new = calibration.written(rows_of_cases(), shipped.cards)
    (folders.catalog_dir() / calibration.FILE).write_text(new, encoding="utf-8")
    print(new, end="")
