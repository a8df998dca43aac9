"""vLLM container images: the release of a tag, and which of them launch a server by default."""

from __future__ import annotations

import re
from typing import NamedTuple

_IMAGE = re.compile(
    r"(?:docker://|docker\.io/)?((?:[\w.-]{1,100}(?::\d{1,5})?/){0,6})([\w.-]{1,100})(?::([\w.-]{1,128}))?(?:@sha256:\w{1,64})?\Z",
    re.ASCII,
)
_RELEASE = re.compile(r"v?(\d(?:\.\d{1,3}){2,3}(?:\.?(?:post|rc|dev)\d{1,4}|(?:a|b)\d{1,3})?)(?![\d.])", re.ASCII)
_TAGGED = re.compile(r"vllm[_-]?v?(\d(?:\.\d{1,3}){2,3}(?:\.?post\d{1,3}|\.?rc\d{1,3})?)(?![\d.])", re.ASCII)
_OTHERS = {"lmcache"}
"""Publishers of images named like vLLM's with their own version numbers."""
_NOT_NVIDIA = ("cpu", "rocm", "tpu", "xpu", "hpu", "neuron")


class ImageName(NamedTuple):
    """The parts of an image's name; all empty if it is none."""

    folder: str = ""
    """Registry and owner, with a slash at the end."""
    name: str = ""
    tag: str = ""
    is_pinned: bool = False
    """Whether it has a digest, or a scheme."""

    @property
    def owner(self) -> str:
        return self.folder.rstrip("/").rsplit("/", 1)[-1]

    @property
    def is_server(self) -> bool:
        """Whether it launches vLLM's server by default: `vllm-openai…`, and copies of it."""
        return self.name.startswith("vllm-openai")


def parse(image: str | None) -> ImageName:
    """The parts of an image's name."""
    match = _IMAGE.match(image or "")
    return ImageName(match[1], match[2], match[3] or "", "@" in match[0] or "://" in match[0]) if match else ImageName()


def has_entry_point(image: str | None) -> bool:
    """Whether an image launches vLLM's server by default."""
    return parse(image).is_server


def is_for_gpus(image: str | None) -> bool:
    """Whether an image is vLLM's own for NVIDIA GPUs."""
    parts = parse(image)
    return parts.name == "vllm-openai" and not any(word in parts.tag for word in _NOT_NVIDIA)


def release_of(image: str | None) -> str | None:
    """Release of an image's tag; None if it has none, or another numbering."""
    parts = parse(image)
    if "vllm" not in (image or "").lower():
        return None
    if inner := _TAGGED.search(parts.tag) or _TAGGED.search(parts.name):
        return inner[1]
    if parts.owner in _OTHERS or not (parts.is_server or parts.owner == "vllm"):
        return None
    release = _RELEASE.match(parts.tag)
    return release[1] if release else None


def is_own(image: str) -> bool:
    """Whether an image is vLLM's own, from any registry that mirrors it."""
    return parse(image).owner == "vllm" and parse(image).is_server


def is_newest(image: str) -> bool:
    """Whether an image of a server follows the newest release: `latest`, `nightly` or no tag."""
    parts = parse(image)
    if not parts.tag:
        return parts.is_server and "@" not in image
    return parts.is_server and re.search(r"(?:\A|[-_.])(?:latest|nightly|main)(?:[-_.]|\Z)", parts.tag) is not None


def published_tag(image: str | None) -> str | None:
    """The tag of vLLM's own image for one of its releases, or for the newest; None for any other image."""
    parts = parse(image)
    if (parts.folder, parts.name, parts.is_pinned) != ("vllm/", "vllm-openai", False):
        return None
    tag = parts.tag or "latest"
    return tag if tag == "latest" or re.fullmatch(r"v\d[\w.]*", tag, re.ASCII) else None
