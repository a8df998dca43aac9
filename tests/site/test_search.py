"""The search of the site: what people type, and the page that has to come first."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser import chromium, opened, served
from vllm_runbooks.site import building, search_index

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[2]
QUERIES = {
    "cuda out of memory": r"symptoms/oom\.[\w.]+\.html",
    "engine core initialization failed": r"symptoms/engine\.dead_wrapper\.html",
    "kv cache max model len": r"symptoms/kv\.max_len_too_large\.html",
    "port already in use": r"symptoms/port\.in_use\.html",
    "nccl timeout": r"symptoms/dist\.nccl_timeout\.html",
    "no kv cache blocks": r"symptoms/kv\.no_blocks\.html",
    "trust remote code": r"symptoms/model\.trust_remote_code\.html",
    "gpu memory utilization": r"options/group-\w+\.html#option-gpu-memory-utilization",
    "flash attention not supported": r"symptoms/attn\.backend_unsupported(\.gpu_too_old)?\.html",
    "bf16 not supported": r"symptoms/cli\.bad_value\.dtype\.html",
    "tensor parallel size must divide": r"symptoms/dist\.tp_not_divisible\.html",
    "model not found huggingface": r"symptoms/model\.missing_file\.html",
    "chat template missing": r"symptoms/model\.chat_template_missing\.html",
    "tool call parser": r"options/group-[\w-]+\.html#option-tool-call-parser",
    "ray placement group": r"symptoms/ray\.placement_group_pending\.html",
    "xid": r"symptoms/cuda\.illegal_access\.hardware\.html",
    "connection refused": r"symptoms/dist\.wrong_interface\.html",
    "llama 3.3 70b": r"models/meta-llama/Llama-3\.3-70B-Instruct\.html",
    "rtx 3090": r"gpus/RTX3090\.html",
    "a100": r"gpus/A100-(40|80)GB\.html",
}
"""What people type, and the address of the right page; of several alike any is right."""
LEAST = 18
"""Queries that the right page has to answer first."""
