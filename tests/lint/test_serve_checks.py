"""Checks of a release are read from its sources, limited to those of parsed values."""

from __future__ import annotations

from pathlib import Path

from vllm_runbooks.authoring.releases.serve_checks import object_checks, serve_checks
from vllm_runbooks.reading.arguments.conditions import UNKNOWN, Values, holds

_CLI_ARGS = """
from vllm.elsewhere import validate_more, KNOWN

class Kind(Enum):
    SLOW = "c"

def validate_parsed_serve_args(args):
    if hasattr(args, "subparser") and args.subparser != "serve":
        return
    validate_chat_template(args.chat_template)
    if args.tools and not args.parser:
        raise TypeError("Error: --tools requires "
                        "--parser")
    if getattr(args, "interval", 0) < 0:
        raise ValueError(f"interval {args.interval} is negative")
    if os.path.exists(args.file):
        raise ValueError("cannot be known")
    if args.many:
        validate_more(args)
    if args.kind not in get_args(KNOWN):
        raise ValueError("kind")
    if args.kind == Kind.SLOW:
        raise ValueError("slow")
    if args.kind == Kind.UNKNOWN or args.kind == KNOWN.SLOW:
        raise ValueError("not told: it has no such value")
    if hasattr(args, "plan"):
        raise ValueError("plan")
"""
_ELSEWHERE = """
KNOWN = Literal["a", "b"]

def validate_more(args):
    size = args.size
    if size is None or size < 2:
        raise ValueError("size")
    if args.quick:
        return
    if not envs.VLLM_FLAG:
        raise ValueError("flag")
"""
_CONFIG = """
class Cache:
    def __post_init__(self):
        if self.role is not None and self.role not in ("a", "b"):
            raise ValueError("role")
        self.mode = self.mode or "x"
        if self.mode == "y":
            raise ValueError("changed before it is checked")
        for op in self.ops:
            if op not in {"all", "none"} and len(op) < 2:
                raise ValueError("op")

    @field_validator("size", "count")
    @classmethod
    def positive(cls, value):
        if value <= 0:
            raise ValueError("positive")
        return value

    @field_validator("text", mode="before")
    @classmethod
    def text(cls, value):
        raise ValueError("not told: it may turn the value into another")
"""


def _release(folder: Path) -> Path:
    sources = folder / "vllm"
    (sources / "entrypoints" / "openai").mkdir(parents=True)
    (sources / "config").mkdir()
    (sources / "entrypoints" / "openai" / "cli_args.py").write_text(_CLI_ARGS)
    (sources / "elsewhere.py").write_text(_ELSEWHERE)
    (sources / "config" / "cache.py").write_text(_CONFIG)
    return sources


def test_checks_are_read_with_the_functions_they_call(tmp_path: Path) -> None:
    """Their messages in order; checks that cannot be evaluated are left out."""
    checks = serve_checks(_release(tmp_path))
    assert [(check["error"], check["says"]) for check in checks] == [
        ("TypeError", "--tools requires --parser"),
        ("ValueError", "interval … is negative"),
        ("ValueError", "size"),
        ("ValueError", "flag"),
        ("ValueError", "kind"),
        ("ValueError", "slow"),
        ("ValueError", "plan"),
    ]


def test_checks_apply_where_the_release_would_reject(tmp_path: Path) -> None:
    """Conditions, early returns and environment variables count as in the source."""
    checks = {check["says"]: check["when"] for check in serve_checks(_release(tmp_path))}
    given = {"many": True, "size": 4, "quick": False, "kind": "c", "tools": True, "parser": None, "interval": 0}
    given["plan"] = False
    values = Values(lambda name: given.get(name, UNKNOWN), given.__contains__, lambda _: False)
    quick = Values(lambda name: {**given, "quick": True}.get(name, UNKNOWN), given.__contains__)
    assert {says: bool(holds(when, values)) for says, when in checks.items()} == {
        "--tools requires --parser": True,
        "interval … is negative": False,
        "size": False,
        "flag": True,
        "kind": True,
        "slow": True,
        "plan": True,
    }
    assert holds(checks["flag"], quick) is False
    other = {**given, "kind": "a", "interval": -1, "plan": None}
    values = Values(lambda name: other.get(name, UNKNOWN), other.__contains__)
    names = ("interval … is negative", "kind", "slow", "plan")
    assert [bool(holds(checks[says], values)) for says in names] == [True, False, False, False]


def test_checks_of_changed_values_are_left_out(tmp_path: Path) -> None:
    """So are checks before a conversion."""
    checks = object_checks(_release(tmp_path))["Cache"]
    assert [check["says"] for check in checks] == ["role", "op", "positive", "positive"]
    given = {"role": "c", "ops": ["all", "x"], "size": 0, "count": 1}
    values = Values(lambda name: given.get(name, UNKNOWN), given.__contains__)
    assert [bool(holds(check["when"], values)) for check in checks] == [True, True, True, False]
