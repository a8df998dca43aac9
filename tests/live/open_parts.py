"""Set up llm-compressor and EvalScope once: python tests/live/open_parts.py [DIR].

A .pth file adds the packages of the vLLM from `set_up.py`, so that torch with its 2 GB is installed
once. Version conflicts with vLLM reported by pip are harmless: its environment is not changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import set_up as live

LLM_COMPRESSOR, EVALSCOPE = "0.14.0.1", "1.14.1"
_PACKAGES = "import sysconfig; print(sysconfig.get_paths()['purelib'])"


def place() -> Path:
    """The path of the environment; VLLM_RUNBOOKS_OPEN_PARTS names another folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    own = cache / "vllm-runbooks" / f"open-parts-{LLM_COMPRESSOR}-{EVALSCOPE}"
    return Path(os.environ.get("VLLM_RUNBOOKS_OPEN_PARTS") or own)


def is_ready(folder: Path) -> bool:
    """Whether it is whole."""
    return (folder / "whole").is_file()


def set_up(folder: Path, vllm: Path) -> None:
    """Create it next to the environment of a vLLM; an existing one is kept.

    Raises:
        SystemExit: This vLLM does not exist.
    """
    if not live.is_ready(vllm):
        raise SystemExit(f"{vllm}: vLLM is not set up there; python tests/live/set_up.py does it")
    folder.mkdir(parents=True, exist_ok=True)
    base, python = vllm / "venv" / "bin" / "python", folder / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([str(base), "-m", "venv", str(folder / "venv")], check=True)
    (_packages(python) / "vllm.pth").write_text(f"{_packages(base)}\n")
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, f"llmcompressor=={LLM_COMPRESSOR}", f"evalscope=={EVALSCOPE}"], check=True)
    (folder / "whole").touch()


def _packages(python: Path) -> Path:
    """The package folder of a Python."""
    return Path(subprocess.run([str(python), "-c", _PACKAGES], check=True, capture_output=True, text=True).stdout[:-1])


if __name__ == "__main__":
    where = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else place()
    if not is_ready(where):
        set_up(where, live.place())
    print(where)
