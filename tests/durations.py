"""Write the catalog's table of phase durations; run `python tests/durations.py`."""

from __future__ import annotations

import json
from collections import defaultdict

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog.records import PHASES
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.reading import sources
from vllm_runbooks.serve.durations import FILE


def table() -> str:
    """By phase, case to seconds by its log's clock; of several launches of a case the longest."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for folder in sorted(folders.cases_dir().iterdir()):
        try:
            starts = diagnosing.read(sources.load(str(folder)))
        except InputError:
            continue  # a question has no log
        for phase in (each for start in starts for each in start.timeline if each.clock_seconds is not None):
            if phase.name != PHASES[-1]:
                found[phase.name][folder.name] = max(
                    found[phase.name].get(folder.name, 0.0), phase.clock_seconds or 0.0
                )
    return json.dumps({name: found[name] for name in PHASES if name in found}, indent=1) + "\n"


if __name__ == "__main__":
    path = folders.catalog_dir() / FILE
    path.write_text(table(), "utf-8")
    print(path)
