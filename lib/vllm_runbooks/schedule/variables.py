"""Secret variables of a job, read from its `.env` file here, so that every timer reads them alike.

A line is a variable, `NAME=value`; empty lines and those that begin with `#` are ignored. The value
is the rest of the line without surrounding blanks. One that begins with a quotation mark ends with
the same mark. Nothing in it is expanded or run.
"""

from __future__ import annotations

import os
import stat

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.schedule import jobs

_LARGEST = 64 << 10


def read(name: str) -> dict[str, str]:
    """The variables of a job; empty without such a file.

    Raises:
        InputError: The file cannot be read, or other users can read it. No value is printed.
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
            raise InputError(f"{file}: is not a file; write one with NAME=value lines")
        if status.st_mode & 0o077:
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            raise InputError(f"{file}: has mode {mode}, so other users can read it; change it to 0600")
        raw = opened.read(_LARGEST + 1)
    if len(raw) > _LARGEST:
        raise InputError(f"{file}: is larger than {_LARGEST >> 10} KiB; keep only what the job needs")
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
    """Name and value of a line; or no name and the problem."""
    variable, sign, value = line.partition("=")
    value = value.strip()
    if not sign or not jobs.VARIABLE.fullmatch(variable):
        return None, "is not a NAME=value line; write one without `export` and without spaces before the ="
    if not all(c.isprintable() or c == "\t" for c in value):
        return None, "contains a character that is not allowed; write plain text"
    if value[:1] in ("'", '"'):
        quote, value = value[0], value[1:]
        if value.count(quote) != 1 or not value.endswith(quote):
            return None, f"starts with {quote} but does not end with it; write the value without quotes"
        value = value[:-1]
    return variable, value
