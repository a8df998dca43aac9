"""Records of linted scripts: their actions, and their problems."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_runbooks.lint.records import Linted


@dataclass(frozen=True)
class ScriptStep:
    """Step of the toolchain in a script."""

    file: str
    step: str
    """"host", "quantise", "convert", "serve", "evaluate", "compile-llm" or "compile-vlm"."""
    line: int
    vllm: str | None
    """Release of vLLM that it is checked for; None if it runs none or an unknown one."""


@dataclass(frozen=True)
class LintedScripts(Linted):
    """Output of `edge10 lint --format json`: that of `lint`, and the steps of the scripts."""

    steps: tuple[ScriptStep, ...] = ()
    """Steps of the scripts, by their imports, calls and commands; empty for none of the
    toolchain's."""
    toolchain: str = ""
    """Id of the facts."""
