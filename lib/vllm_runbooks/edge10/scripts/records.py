"""Records of linted scripts: what they do, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_runbooks.lint.records import Linted


@dataclass(frozen=True)
class ScriptStep:
    """Step of the toolchain that a script does."""

    file: str
    step: str
    """"host", "quantise", "convert", "serve", "evaluate", "compile-llm" or "compile-vlm"."""
    line: int
    vllm: str | None
    """Release of vLLM that it is judged by; None: it runs none, or one of a release that is not told."""


@dataclass(frozen=True)
class LintedScripts(Linted):
    """What `edge10 lint --format json` prints: what `lint` does, and what the scripts are."""

    steps: tuple[ScriptStep, ...] = ()
    """What the scripts do, as their imports, calls and commands tell; empty: nothing of the toolchain's."""
    toolchain: str = ""
    """Id of the facts."""
