"""Fake of torch: EDGE10_GPU decides whether a device exists."""

from __future__ import annotations

import os
from types import SimpleNamespace

from recorded import call

float16 = "float16"
cuda = SimpleNamespace(is_available=lambda: os.environ.get("EDGE10_GPU") == "1")
_dynamo = SimpleNamespace(reset=lambda: call("torch._dynamo.reset"))
