"""Read recorded observations of a server."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter, ValidationError

from vllm_runbooks.core.earlier_schema import SERVER, upgrade
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.redaction.redact import redact_record
from vllm_runbooks.probe.records import Observation

_OBSERVATION: TypeAdapter[Any] = TypeAdapter(Observation)


def read_observation(text: str, where: str) -> Observation:
    """Read a recorded observation; secrets in it are replaced."""
    how = "use the output of `vllm-runbooks probe --record` or `probe --format json`"
    try:
        data = upgrade(json.loads(text, parse_constant=_no_number), SERVER)
        data = data.get("observation", data)
        if data.get("kind") != "probe":
            raise InputError(f"{where}: is not a server observation; {how}")
        inner = json.dumps({name: value for name, value in data.items() if name != "schema"})
        observation: Observation = _OBSERVATION.validate_json(inner, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))[:100]
        raise InputError(f"{where}: {field}: {first['msg'][:100]}; {how}") from None
    except (ValueError, AttributeError, RecursionError):
        raise InputError(f"{where}: is not a JSON document of a probe; {how}") from None
    times = [sample.at_s for sample in observation.samples]
    if times != sorted(times):
        raise InputError(f"{where}: samples: are not sorted by time; {how}")
    return redact_record(observation)


def _no_number(name: str) -> float:
    raise ValueError(name)
