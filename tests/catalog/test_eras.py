"""Values by release, including releases between, before and after the listed ones."""

from __future__ import annotations

import pytest

from vllm_runbooks.catalog.eras import AT_NO_TIME, Era, EraValue, Key, in_release


@pytest.mark.parametrize(
    ("release", "holds"),
    [((0, 7, 3), False), ((0, 8), True), ((0, 8, 5), True), ((0, 10, 99), True), ((0, 11), False), (None, False)],
)
def test_an_era_excludes_its_end(release: Key | None, holds: bool) -> None:  # noqa: FBT001 - what is expected
    """It begins with one release and ends before another; an unknown release is the newest."""
    assert Era((0, 8), (0, 11)).holds(release) is holds
    assert Era((0, 8)).holds(None)
    assert Era().holds(release)
    assert not AT_NO_TIME.holds((0, 33))


def test_a_value_applies_until_the_next_begins() -> None:
    """The last value that has begun; for an unknown release the last of all."""
    rules = (EraValue("old"), EraValue("middle", (0, 8)), EraValue("new", (0, 11, 1)))

    assert [in_release(rules, key) for key in ((0, 6), (0, 8), (0, 11), (0, 11, 1), (0, 33, 0, 0), None)] == [
        "old", "middle", "middle", "new", "new", "new",
    ]  # fmt: skip
