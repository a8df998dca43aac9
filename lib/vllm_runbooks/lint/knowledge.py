"""Rules, GPUs and models of the linter."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from vllm_runbooks.catalog.load import language, rules, specs
from vllm_runbooks.host.model_cache import cached_config

if TYPE_CHECKING:
    from vllm_runbooks.lint.linting import Knowledge


def knowledge(lang: str | None = None) -> Knowledge:
    """Load the rules, GPUs and models; `lang` as for `diagnose`."""
    return _knowledge(language(lang))


@cache
def _knowledge(lang: str | None) -> Knowledge:
    from vllm_runbooks.lint import linting as lint

    return lint.Knowledge(rules().by_id, specs(), lang, cached_config)
