"""Build hook: put the catalog with its compiled index, the runbooks and the pages into the wheel."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class IndexBuildHook(BuildHookInterface):  # type: ignore[misc] # hatchling publishes no types
    """Adds `_data/` to a wheel; a catalog with problems stops the build."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files are collected; an editable install reads the checkout instead."""
        if version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root / "lib"))
        from vllm_runbooks.catalog.authored import (
            compiling,
            entrances_file,
            rule_files,
            serving_file,
            spec_files,
            table_files,
            toolchain_files,
        )

        compilers = {
            "index": compiling.compile_index,
            "rules": rule_files.compile_rules,
            "specs": spec_files.compile_specs,
            "serving": serving_file.compile_serving,
            "entrances": entrances_file.compile_entrances,
            "toolchains": toolchain_files.compile_toolchains,
            **table_files.compilers(),
        }

        self._folder = tempfile.mkdtemp(prefix="vllm-runbooks-index-")
        for name, compiler in compilers.items():
            index, problems = compiler(root / "catalog")
            if problems:
                raise SystemExit("the catalog has problems:\n" + "\n".join(problems))
            target = Path(self._folder) / f"{name}.json"
            target.write_text(json.dumps(index, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
            build_data["force_include"][str(target)] = f"vllm_runbooks/_data/catalog/{name}.json"
        # `catalog schemas` makes the schemas again.
        parts = [path for path in (root / "catalog").iterdir() if path.name != "schema"]
        for path in (*parts, root / "runbooks", root / "docs"):
            build_data["force_include"][str(path)] = f"vllm_runbooks/_data/{path.relative_to(root)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatch's
        """Remove what `initialize` wrote for the wheel."""
        if version != "editable":
            shutil.rmtree(self._folder, ignore_errors=True)
