"""The variables of a job that are secrets: read from its `.env` file by us, so that all who wake us read it alike.

One line is one variable, `NAME=value`; empty lines and those that begin with `#` say nothing. The value is the rest of
the line without blanks around it. One that begins with a quotation mark ends with the same, and is what lies between.
Nothing in it is replaced or run.
"""

from __future__ import annotations

import os
import stat

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.schedule import jobs

_LARGEST = 64 << 10


def read(name: str) -> dict[str, str]:
    """The variables of a job; none where it has no such file.

    Raises:
        InputError: the file cannot be read, or others than its owner can read it. No value is shown.
    """
    file = jobs.environment(name)
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}; check its permissions") from None
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{file}: is no file; write one of lines NAME=value")
        if status.st_mode & 0o077:
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            raise InputError(f"{file}: has the mode {mode}, so that others than its owner may use it; make that 0600")
        raw = opened.read(_LARGEST + 1)
    if len(raw) > _LARGEST:
        raise InputError(f"{file}: is larger than {_LARGEST >> 10} KiB; leave in it what the job needs")
    try:
        lines = raw.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not UTF-8; save it as UTF-8") from None
    variables = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            variable, value = _parsed(line.strip())
            if variable is None:
                raise InputError(f"{file}:{number}: {value}")
            variables[variable] = value
    return variables


def _parsed(line: str) -> tuple[str | None, str]:
    """The name and value of a line; without a name, what is wrong with it."""
    variable, sign, value = line.partition("=")
    value = value.strip()
    if not sign or not jobs.VARIABLE.fullmatch(variable):
        return None, "is no line NAME=value; write one, without `export`, and without blanks before the ="
    if not all(c.isprintable() or c == "\t" for c in value):
        return None, "holds a character that no value has; write plain text"
    if value[:1] in ("'", '"'):
        quote, value = value[0], value[1:]
        if value.count(quote) != 1 or not value.endswith(quote):
            return None, f"begins with {quote}, and does not end with the next one; write the value without quotes"
        value = value[:-1]
    return variable, value
