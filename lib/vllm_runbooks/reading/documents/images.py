"""vLLM container images: the release of a tag, and which of them launch a server by default."""

from __future__ import annotations

import re

_IMAGE = re.compile(
    r"(?:docker://|docker\.io/)?((?:[\w.-]{1,100}(?::\d{1,5})?/){0,6})([\w.-]{1,100})(?::([\w.-]{1,128}))?(?:@sha256:\w{1,64})?\Z",
    re.ASCII,
)
_RELEASE = re.compile(r"v?(\d\.\d{1,3}\.\d{1,3}(?:\.?(?:post|rc|dev)\d{1,4}|(?:a|b)\d{1,3})?)(?![\d.])", re.ASCII)
_TAGGED = re.compile(r"vllm[_-]v?(\d\.\d{1,3}\.\d{1,3}(?:\.?post\d{1,3}|\.?rc\d{1,3})?)(?![\d.])", re.ASCII)
_OTHERS = {"lmcache"}
"""Publishers of images named like vLLM's with their own version numbers."""


def has_entry_point(image: str | None) -> bool:
    """Whether an image launches vLLM's server by default: `vllm-openai…`, and copies of it."""
    match = _IMAGE.match(image or "")
    return match is not None and match[2].startswith("vllm-openai")


def is_for_gpus(image: str | None) -> bool:
    """Whether an image is vLLM's own for NVIDIA GPUs."""
    match = _IMAGE.match(image or "")
    others = ("cpu", "rocm", "tpu", "xpu", "hpu", "neuron")
    return match is not None and match[2] == "vllm-openai" and not any(word in (match[3] or "") for word in others)


def release_of(image: str | None) -> str | None:
    """Release of an image's tag; None if it has none, or another numbering."""
    match = _IMAGE.match(image or "")
    if not match or "vllm" not in (image or "").lower():
        return None
    owner, name, tag = match[1].rstrip("/").rsplit("/", 1)[-1], match[2], match[3] or ""
    inner = _TAGGED.search(tag)
    if inner:
        return inner[1]
    if owner in _OTHERS or not (name.startswith("vllm-openai") or owner == "vllm"):
        return None
    release = _RELEASE.match(tag)
    return release[1] if release else None


def is_own(image: str) -> bool:
    """Whether an image is vLLM's own, from any registry that mirrors it."""
    match = _IMAGE.match(image)
    owner = match[1].rstrip("/").rsplit("/", 1)[-1] if match is not None else ""
    return match is not None and owner == "vllm" and match[2].startswith("vllm-openai")


def is_newest(image: str) -> bool:
    """Whether an image of a server follows the newest release: `latest`, `nightly` or no tag."""
    match = _IMAGE.match(image)
    if match is None or not match[2].startswith("vllm-openai") or (match[3] is None and "@" in image):
        return False
    return match[3] is None or re.search(r"(?:\A|[-_.])(?:latest|nightly|main)(?:[-_.]|\Z)", match[3]) is not None


def published_tag(image: str | None) -> str | None:
    """The tag of vLLM's own image for one of its releases, or for the newest; None for any other image."""
    match = _IMAGE.match(image or "")
    if match is None or (match[1], match[2]) != ("vllm/", "vllm-openai") or "@" in match[0] or "://" in match[0]:
        return None
    tag = match[3] or "latest"
    return tag if tag == "latest" or re.fullmatch(r"v\d[\w.]*", tag, re.ASCII) else None
