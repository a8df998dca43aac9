"""Functions of higher packages, by name."""

from __future__ import annotations

import pytest

from vllm_runbooks.core import extensions


@pytest.mark.parametrize("name", [name for name in vars(extensions) if name.isupper()])
def test_each_extension_is_a_function_that_exists(name: str) -> None:
    """A name that a move left behind fails here, not in use."""
    assert callable(extensions.extension(getattr(extensions, name)))
