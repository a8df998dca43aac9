"""Read JSON with the same error messages in every Python version."""

from __future__ import annotations

import json
from json import JSONDecodeError
from typing import Any


def loaded(text: str) -> Any:
    """Value of a JSON text; raises ValueError with the line and a brief reason."""
    try:
        return json.loads(text)
    except JSONDecodeError as error:
        error = same_words(error)
        raise ValueError(f"line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError):
        raise ValueError("too deep or too long") from None


def same_words(error: JSONDecodeError) -> JSONDecodeError:
    """The error as Python before 3.13 reports it: for a trailing comma, at the bracket after it."""
    if not error.msg.startswith("Illegal trailing comma"):
        return error
    behind = error.doc[error.pos + 1 :]
    message = "Expecting value" if error.msg.endswith("array") else "Expecting property name enclosed in double quotes"
    return type(error)(message, error.doc, error.pos + 1 + len(behind) - len(behind.lstrip(" \t\n\r")))
