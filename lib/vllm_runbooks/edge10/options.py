"""Options that several commands of `vllm-runbooks edge10` share."""

from __future__ import annotations

from vllm_runbooks.core.console import given

VERSION = given.value("--toolchain version V", "Toolchain version, as in 1.1.7 (default: the newest known).")
