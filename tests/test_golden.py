"""One runbook's executed form is kept and compared, so that a change of what people see is seen in review."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_notebook.nb_regression import NBRegressionFixture

GOLDEN = Path(__file__).resolve().parent / "golden" / "single-gpu-oom.ipynb"


def test_the_executed_runbook_is_the_one_that_was_reviewed(nb_regression: NBRegressionFixture) -> None:
    """Every output of `single-gpu-oom` on its recorded case equals the kept one.

    After a wanted change: `pytest tests/test_golden.py --nb-force-regen` writes it anew (and fails once); review the
    difference.
    """
    nb_regression.diff_ignore = (
        "/metadata/language_info",
        "/metadata/widgets",
        "/cells/*/execution_count",
        "/cells/*/outputs/*/execution_count",
        "/cells/*/metadata/execution",
    )
    nb_regression.check(str(GOLDEN))


def test_the_golden_notebook_has_the_runbooks_cells() -> None:
    """The kept copy is of today's runbook: same cells, same code, same prose."""
    import json

    source = json.loads((GOLDEN.parents[2] / "runbooks" / GOLDEN.name).read_text(encoding="utf-8"))
    kept = json.loads(GOLDEN.read_text(encoding="utf-8"))

    assert [(c["id"], "".join(c["source"])) for c in kept["cells"]] == [
        (c["id"], "".join(c["source"])) for c in source["cells"]
    ], "copy the runbook to tests/golden/ and run pytest tests/test_golden.py --nb-force-regen"


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
