"""`vllm-runbooks edge10 compare`."""

from __future__ import annotations

from pathlib import Path

import click

from vllm_runbooks.core.console import given, output, terminal

_RESULTS = click.Path(path_type=Path)


@click.command(
    epilog=given.examples(
        "edge10 compare outputs/float outputs/awq",
        "edge10 compare float.txt awq.txt --threshold 0.02",
        "edge10 compare mmlu-float.json mmlu-awq.json --format json",
    )
)
@click.argument("float_", type=_RESULTS, metavar="ORIGINAL")
@click.argument("quantised", type=_RESULTS, metavar="QUANTISED")
@given.value("--threshold X", "Largest acceptable loss, as a fraction: 0.01 is one point of 100.", float, default=0.01)
@given.value("--confidence P", "Confidence of the intervals, below 1.", float, default=0.95)
@given.EXPLAIN
@given.FORMAT
def compare(*, float_: Path, quantised: Path, threshold: float, confidence: float, explain: bool, form: str) -> int:
    """Test whether quantization made the model less accurate.

    ORIGINAL (float) and QUANTISED are each a report of EvalScope, its work folder, the table that it prints, or results
    of VLMEvalKit. If both have the individual answers, they are compared question by question.

    Exit status: 0 if the loss is below the threshold, at the requested confidence; 1 if it is not, or if the result is
    inconclusive; 2 for invalid input.
    """
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.views.summary import summary_view
    from vllm_runbooks.edge10 import summaries
    from vllm_runbooks.edge10.accuracy import comparing as accuracy
    from vllm_runbooks.edge10.accuracy import render as render_accuracy
    from vllm_runbooks.edge10.accuracy import results
    from vllm_runbooks.edge10.accuracy.records import Accuracy

    results.distinct(float_, quantised)
    comparison = accuracy.compare(
        results.read(float_), results.read(quantised), threshold=threshold, confidence=confidence
    )
    if form == "json":
        output.write_json(to_json(comparison))
    elif explain:
        terminal.show(render_accuracy.view(comparison))
    else:
        terminal.show(summary_view(summaries.summarize_accuracy(comparison, again=terminal.again("--explain"))))
    return int(comparison.verdict is not Accuracy.KEPT)
