"""Tracebacks as notebooks print them give the same frames as the interpreter's own."""

from __future__ import annotations

import pytest

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import Outcome, ServerRun
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.reading import sources, startup_log

RECENT = """\
---------------------------------------------------------------------------
OutOfMemoryError                          Traceback (most recent call last)
Cell In[3], line 2
      1 from vllm import LLM
----> 2 llm = LLM("tiny")

File ~/env/lib/python3.11/site-packages/vllm/entrypoints/llm.py:177, in LLM.__init__(self, model, **kwargs)
    175     usage_context=1,
    176 )
--> 177 self.llm_engine = LLMEngine.from_engine_args(args)

File ~/env/lib/python3.11/site-packages/vllm/worker/worker.py:183, in Worker.load_model(self)
--> 183     self.model_runner.load_model()

OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 21.99 GiB
"""
LINKED = RECENT.replace(
    "runbooks/worker.py:183,", "runbooks/worker.py:183](http://10.0.0.1:8888/lab/tree/worker.py#line=182),"
).replace("File ~/env/lib/python3.11/site-packages/vllm/worker", "File [~/env/lib/python3.11/site-packages/vllm/worker")
OLD = """\
OutOfMemoryError                          Traceback (most recent call last)
<ipython-input-2-3e1f> in <module>()
----> 1 llm = LLM("tiny")

~/env/lib/python3.8/site-packages/vllm/worker/worker.py in load_model(self)
     66         self.model_runner.load_model()

OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 21.99 GiB
"""
SUMMARY = """\
OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 21.99 GiB
File <command-1108>, line 1
----> 1 llm = LLM("tiny")
File /databricks/lib/python3.11/site-packages/vllm/entrypoints/llm.py:177, in LLM.__init__(self, model, **kwargs)
    175     usage_context=1,
--> 177 self.llm_engine = LLMEngine.from_engine_args(args)
File /databricks/lib/python3.11/site-packages/vllm/worker/worker.py:183, in Worker.load_model(self)
--> 183     self.model_runner.load_model()
"""


FORMS = [RECENT, LINKED, OLD, SUMMARY]


def read(text: str) -> ServerRun:
    [start] = startup_log.read(Evidence((Document("a.log", text),)), catalog.load_catalog())
    return start


@pytest.mark.parametrize("text", FORMS, ids=["IPython 8", "links", "IPython 7", "frames behind the error"])
def test_a_notebook_s_traceback_is_read(text: str) -> None:
    """One exception, with the function in which it was raised innermost."""
    [traceback] = read(text).tracebacks

    [raised] = traceback.chain
    assert raised.type == "OutOfMemoryError"
    assert raised.frames[-1].function == "load_model"
    assert raised.frames[-1].path.endswith("worker.py")


@pytest.mark.parametrize("text", FORMS, ids=["IPython 8", "links", "IPython 7", "frames behind the error"])
def test_the_phase_of_the_error_is_found(text: str) -> None:
    """Out of memory while the weights load, not in another phase."""
    answer = diagnosing.diagnose(sources.paste(text))

    assert answer.root_cause is not None
    assert answer.root_cause.symptom == "oom.weights"


def test_an_exception_before_an_ordinary_traceback_keeps_its_own_frames() -> None:
    """The frames after it belong to the next exception."""
    text = (
        "ValueError: first\nTraceback (most recent call last):\n"
        '  File "/opt/vllm/worker.py", line 3, in load_model\nRuntimeError: second\n'
    )
    first, second = read("Traceback (most recent call last):\n" + text).tracebacks

    assert first.chain[0].frames == ()
    assert second.chain[0].frames[-1].function == "load_model"


def test_a_truncated_traceback_keeps_the_raised_message() -> None:
    """A paste cut before the exception's own line still has its message and place."""
    text = (
        "Traceback (most recent call last):\n"
        '  File "/opt/vllm/lora/utils.py", line 112, in parse_fine_tuned_lora_name\n'
        '    raise ValueError(f"{name} is unsupported LoRA weight")'
    )
    start = read(text)

    [raised] = start.tracebacks[0].chain
    assert (raised.type, raised.message) == ("ValueError", "{name} is unsupported LoRA weight")
    assert text.splitlines()[2][raised.quote.column - 1 + len("ValueError: ") :].startswith("{name} is")
    assert start.outcome is Outcome.FAILED


def test_code_inside_a_whole_traceback_raises_nothing() -> None:
    """Only code at the end of the text counts as the exception."""
    text = (
        'Traceback (most recent call last):\n  File "/opt/a.py", line 1, in f\n'
        '    raise ValueError("quoted words")\nValueError: real words\n'
    )

    [raised] = read(text).tracebacks[0].chain
    assert raised.message == "real words"
