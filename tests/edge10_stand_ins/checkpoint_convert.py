"""Fake of the program that converts a checkpoint."""

import sys
from pathlib import Path

from recorded import call

call("checkpoint_convert", *sys.argv[1:])
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
target = Path(arguments["--dst"])
target.mkdir(exist_ok=True)
for path in Path(arguments["--src"]).iterdir():
    (target / path.name).write_bytes(path.read_bytes())
