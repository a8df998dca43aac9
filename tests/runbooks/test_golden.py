"""Executed runbooks are stored and compared, so that visible changes are reviewed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_notebook.nb_regression import NBRegressionFixture

GOLDEN = sorted((Path(__file__).resolve().parents[1] / "golden").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_the_executed_runbook_is_the_one_that_was_reviewed(nb_regression: NBRegressionFixture, golden: Path) -> None:
    """Every output of a runbook on its recorded case equals the stored one.

    After an intended change run `pytest tests/runbooks/test_golden.py --nb-force-regen`, which
    rewrites it (and fails once), and review the difference.
    """
    nb_regression.diff_ignore = (
        "/metadata/language_info",
        "/metadata/widgets",
        "/cells/*/execution_count",
        "/cells/*/outputs/*/execution_count",
        "/cells/*/metadata/execution",
    )
    nb_regression.check(str(golden))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_the_golden_notebook_has_the_runbooks_cells(golden: Path) -> None:
    """The kept copy is of today's runbook: same cells, same code, same prose."""
    import json

    source = json.loads((golden.parents[2] / "runbooks" / golden.name).read_text(encoding="utf-8"))
    kept = json.loads(golden.read_text(encoding="utf-8"))

    assert [(c["id"], "".join(c["source"])) for c in kept["cells"]] == [
        (c["id"], "".join(c["source"])) for c in source["cells"]
    ], "copy the runbook to tests/golden/ and run pytest tests/runbooks/test_golden.py --nb-force-regen"


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
