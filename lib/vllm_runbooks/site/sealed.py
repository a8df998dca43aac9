"""A content security policy for each page: the site's scripts and the theme's inline ones, no others.

The policy is in the page, as a site that is opened from a folder or a plain server has no headers. An inline script is
allowed by its digest if the search page, which contains no authored text, has it too.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from vllm_runbooks.core.errors import RunbooksError

_REFERENCE = "search.html"
_INLINE = re.compile(r"<script(?![^>]{0,400}\bsrc=)[^>]{0,400}>(.*?)</script>", re.DOTALL | re.IGNORECASE)
_NAMED = "DOCUMENTATION_OPTIONS.pagename = '{}';"
"""The one script that differs by page."""


def policy(scripts: Iterable[str]) -> str:
    """The policy for these inline scripts: nothing from elsewhere, no plug-ins, no frames, no base."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(["'self'", *(f"'sha256-{digest}'" for digest in digests)])
    # Charts and tables of executed runbooks have inline styles.
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "font-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'"
    )


def seal(folder: Path) -> None:
    """Write its policy into every page of a built site.

    Raises:
        RunbooksError: a page has no head for it.
    """
    inline = {_NAMED.format("search"), *_INLINE.findall((folder / _REFERENCE).read_text(encoding="utf-8"))}
    for path in folder.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        name = path.relative_to(folder)
        if name.parts[0] == "_static":
            continue
        if "<head>" not in page:
            raise RunbooksError(f"{name}: has no head for the content security policy; the site was not built")
        allowed = inline | {_NAMED.format(name.with_suffix("").as_posix())}
        scripts = dict.fromkeys(script for script in _INLINE.findall(page) if script in allowed)
        meta = f'<meta http-equiv="Content-Security-Policy" content="{policy(scripts)}" />'
        path.write_text(page.replace("<head>", f"<head>\n    {meta}", 1), encoding="utf-8")
