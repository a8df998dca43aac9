"""The folders that an MCP client lets the server read; nothing outside of them is opened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from vllm_runbooks.core.errors import InputError


@dataclass(frozen=True)
class Roots:
    """Folders with the files that tools may read, without links."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, folders: Iterable[Path], uris: Iterable[str] = ()) -> Roots:
        """Roots of `--root`, and those of a client as `file:` addresses; others are ignored."""
        parts = [part for part in map(urlsplit, uris) if part.scheme == "file" and part.netloc in ("", "localhost")]
        named = [url2pathname(part.path) for part in parts if part.path.startswith("/") and "%00" not in part.path]
        return cls(tuple(dict.fromkeys(path.resolve() for path in (*folders, *map(Path, named)))))

    def existing(self, name: str) -> Path:
        """The file or folder of this name, without links; a relative name belongs to the first root that has it.

        Raises:
            InputError: It is outside the roots, does not exist, is a device, or is a folder with a link to the outside.
        """
        if not self.folders:
            raise InputError(
                "no folder is granted: the client has no roots; pass the text, or start the server with --root DIR"
            )
        try:
            paths = [path for path in ((root / name).resolve() for root in self.folders) if self.contains(path)]
            path = next((path for path in paths if path.exists()), None)
            if path is not None and (path.is_dir() or path.is_file()):
                links = path.iterdir() if path.is_dir() else ()
                if outside := next((link for link in links if not self.contains(link)), None):
                    raise InputError(f"{name}: contains {outside.name}, a link to outside of {self}; name the files")
                return path
        except (OSError, RuntimeError, ValueError):  # too long, a circle of links, or a NUL character
            raise InputError(f"{name[:80]}: cannot be read; check the path") from None
        if not paths:
            raise InputError(f"{name[:200]}: is outside of {self}; use a file there, or pass the text")
        raise InputError(f"{name[:200]}: no such file in {self}; check the path")

    def contains(self, path: Path) -> bool:
        """Whether a file or folder is in a root, also if links lead to it; one with a circle of links is in none."""
        try:
            target = path.resolve()
        except (OSError, RuntimeError):
            return False
        return any(target.is_relative_to(root) for root in self.folders)

    def __str__(self) -> str:
        return " and ".join(map(str, self.folders))
