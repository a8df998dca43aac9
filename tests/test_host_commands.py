"""The table of commands that are run or printed: each with effect and undo, and no hostile value gets into one."""

from __future__ import annotations

import re
import shlex

import pytest

from vllm_runbooks import authoring, host_commands
from vllm_runbooks.errors import InputError

HOSTILE = [
    "", " ", "-", "--", "-rf", "--all", "-9", "--help", "a b", "a\tb", "a\nb", "a\x00b", "\x1b[2J", "a\x7f",
    "; rm -rf /", "a;b", "a&b", "a&&b", "a|b", "a||b", "`id`", "$(id)", "${HOME}", "$HOME", "a>b", "a<b", "*", "?",
    "[a]", "{a,b}", "~", "~root", "!!", "#", "a#", "'", '"', "\\", "a\\b", "%s", "{pid}", "{0}", "../x", "..",
    "/etc/passwd\n", "0", "00", "-1", "1e9", "0x1", "99999999999", "65536", "١٢", "1 2", "1;2", "é", "\uff41",
    "a\u202eb", "a\u2028b", "http://x", "https://x/y?z=$(id)", "file:///etc/passwd", "@x", "a" * 2000,
]  # fmt: skip
"""What might be handed over in place of a value."""
GOOD = {
    "pid": "4711", "port": "8000", "number": "100", "container": "vllm", "namespace": "ml", "pod": "vllm-0",
    "pod_container": "server", "unit": "vllm@a.service", "package": "torch", "requirement": "ray>=2.9",
    "path": "/a b/c",
    "folder": ".", "repository": "Qwen/Qwen3-8B", "address": "10.0.0.1", "url": "https://huggingface.co",
    "module": "vllm._C", "word": "vllm", "setting": "net.ipv4.ip_forward",
}  # fmt: skip


def test_there_are_sixty_hostile_values() -> None:
    """At least, and each is another."""
    assert len(set(HOSTILE)) == len(HOSTILE) >= 60


@pytest.mark.parametrize("name", list(host_commands.TABLE))
def test_a_row_says_what_it_does_and_how_it_is_undone(name: str) -> None:
    """And its words, printed as a line, are read back as the same words."""
    row = host_commands.TABLE[name]
    values = {kind: GOOD[kind] for kind in row.places}

    assert row.effect
    assert row.undo
    assert shlex.split(host_commands.line(name, **values)) == list(host_commands.argv(name, **values))
    assert host_commands.row_of(host_commands.line(name, **values)) is not None
    assert host_commands.row_of(" ".join(row.argv)) is not None


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_value_is_refused_or_one_harmless_word(value: str) -> None:
    """Of every kind: it is never an option, never two words, never more to a shell than itself."""
    for name, row in host_commands.TABLE.items():
        for kind in row.places:
            values = {**{each: GOOD[each] for each in row.places}, kind: value}
            if not host_commands.is_of_kind(kind, value):
                with pytest.raises(InputError, match=r"\A[^\n]+\Z"):
                    host_commands.argv(name, **values)
                continue
            words = host_commands.argv(name, **values)
            assert len(words) == len(row.argv)
            assert shlex.split(host_commands.line(name, **values)) == list(words)
            assert not value.startswith("-")
            assert value.isprintable()
            assert kind in ("path", "folder") or re.fullmatch(r"[\w.@:\\/<>=!~-]+", value)


@pytest.mark.parametrize(
    "printed",
    [
        "rm -rf /",
        "kill -9 1 2",
        "pip install -r https://x/y",
        "docker run x",
        "python -c 'import os; os.system(1)'",
        "x 'y",
    ],
)
def test_what_is_not_in_the_table_has_no_row(printed: str) -> None:
    """However it begins."""
    assert host_commands.row_of(printed) is None


def test_a_symptom_that_prints_another_command_is_refused() -> None:
    """By `catalog check`, with what to do."""
    assert list(authoring._command_problems("Look with `docker logs vllm`, `pip list | grep -i vllm`.")) == []
    (said,) = authoring._command_problems("Then run `docker system prune -a`.")
    assert "`docker system prune -a` is no command of host_commands.py" in said
