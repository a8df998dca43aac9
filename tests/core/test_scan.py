"""Patterns are found the same by both engines, at any place of a long text, in linear time."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost import LIMIT, growth, seconds
from rows import in_one_test
from vllm_runbooks.catalog import compiled, folders
from vllm_runbooks.catalog import symptoms as catalog_symptoms
from vllm_runbooks.catalog.authored import compiling
from vllm_runbooks.core import scan
from vllm_runbooks.core.evidence import Document
from vllm_runbooks.core.scan import OVERLAP, WINDOW, PatternSet, faults

re2 = pytest.importorskip("re2")


@pytest.fixture(scope="module")
def shelf() -> catalog_symptoms.Catalog:
    return compiled.load(compiling.compile_index)


def found(patterns: PatternSet, text: str) -> list[tuple[int, int, int, tuple[tuple[str, str], ...]]]:
    return sorted((f.pattern, f.start, f.end, tuple(sorted(f.groups.items()))) for f in patterns.find(text))


def documents() -> list[Document]:
    """Every text of the recorded cases."""
    return [
        Document(str(path.relative_to(folders.cases_dir())), path.read_text(encoding="utf-8"))
        for path in sorted(folders.cases_dir().glob("*/*.log"))
    ]


def ways(patterns: tuple[str, ...]) -> list[PatternSet]:
    """RE2 for rare patterns, `re` for frequent ones, and `re` alone."""
    often = PatternSet(patterns)
    often._searches = {index: scan._Search(scan.expand(p), scan._OFTEN) for index, p in enumerate(patterns)}
    return [PatternSet(patterns), often, PatternSet(patterns, engine="re")]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("KV cache size: 5", "KV cache size: 5"),
        ("KV cache size: 5", "KVcachesize:5"),
        ("KV cache size: 5", "KV  cache\tsize:    5"),
        ("a[ ]b foo", "a b foo"),
        (r"foo \(bar\)", "foo(bar)"),
        ("x[] ]yes", "x yes"),
    ],
)
def test_a_blank_matches_any_white_space(pattern: str, text: str) -> None:
    """A blank in a pattern matches up to four blanks or none; in a class only a blank."""
    for engine in (None, "re"):
        assert [f.pattern for f in PatternSet([pattern], engine=engine).find(text)] == [0]


def test_a_blank_does_not_match_a_word() -> None:
    """Nor five blanks."""
    assert list(PatternSet(["KV cache"]).find("KV     cache KV x cache")) == []


@in_one_test(
    "pattern",
    [
        "(?i)word", "a(?=word)", "(word)", "word$", r"word\Z", r"\Aword", "(?P<a>word)(?P=a)", r"(?P<a>wo)rd\1",
        "wordy.*", "wordy.+x", r"wordy\d+", r"wordy\d{3,}", "wordy[a-z]+", "(?:wordy)+", "wordy+", "word +",
        "word.{0,400}x",
        "word.{,5}", "wordy?+", "wordy{1,3}+", r"word\pL", r"word\A", "word[[:alpha:]]", "word[a&&b]",
        "word(", "[bad", "(?:word)?", "a.b", "[abc]d", "(?:foo|bar)", "foo|bar", "word(?:a{1,5}){1,9}b",
        "word.{0,200}word.{0,200}word.{0,200}word", r"\d{1,200} ?", "w" * 2000, "word {0,5}",
    ],
)  # fmt: skip
def test_unsupported_and_slow_patterns_are_rejected(pattern: str) -> None:
    """Differences between the engines, and exponential patterns, have an error message."""
    assert [fault for fault in faults(pattern) if fault.strip()]


@pytest.mark.parametrize(
    "pattern",
    [
        "plain words", r"^(?:Killed|Aborted)", r"took (?P<x_gib>[\d.]{1,12}) GiB", r"a \$HOME and \* star",
        "non-default args: {",
        "error[?*+] at", r"(?:V1 |vLLM ){0,2}engine", "colou?r word", "word.{0,200}word.{0,200}end",
    ],
)  # fmt: skip
def test_harmless_patterns_have_no_error(pattern: str) -> None:
    """Patterns with equal meaning and bounded time compile in both engines."""
    assert faults(pattern) == []
    re2.compile(scan.expand(pattern))
    re.compile(scan.expand(pattern), re.ASCII)


def test_every_pattern_of_the_catalog_is_valid(shelf: catalog_symptoms.Catalog) -> None:
    """The shipped patterns obey the rules that a user's own must obey."""
    assert {p: faults(p) for p in shelf.patterns.patterns if faults(p)} == {}


def test_the_maximum_width_of_a_pattern_is_exact(shelf: catalog_symptoms.Catalog) -> None:
    """Windows overlap by the longest match."""
    for pattern in shelf.patterns.patterns:
        width, _ = scan._size(scan._signs(pattern))
        parsed: Any = re._parser  # type: ignore[attr-defined] # the only independent count there is
        assert parsed.parse(scan.expand(pattern)).getwidth()[1] == width <= OVERLAP


@pytest.mark.parametrize("step", [60, pytest.param(1, marks=pytest.mark.slow)])
def test_the_engines_find_the_same_in_every_case_and_example(shelf: catalog_symptoms.Catalog, step: int) -> None:
    """RE2 and `re` agree on pattern, place and captures; by default in one of 60 lines."""
    sets = ways(shelf.patterns.patterns)
    texts = list(dict.fromkeys(line for document in documents() for line in document.text.splitlines()))[::step]
    texts += [e.text for s in shelf.symptoms.values() for e in s.examples]
    texts += [miss.text for s in shelf.symptoms.values() for miss in s.near_misses]
    texts += [e.text for known in shelf.lines for e in known.examples]

    for text in dict.fromkeys(texts):
        first, *others = (found(patterns, text) for patterns in sets)
        assert all(other == first for other in others)


def test_the_engines_find_the_same_in_mutated_logs(shelf: catalog_symptoms.Catalog) -> None:
    """Cut, spliced and overwritten lines do not divide the engines."""
    chance = random.Random(20261120)  # noqa: S311 - repeatable, not secret
    sets = ways(shelf.patterns.patterns)
    lines = [e.text for s in shelf.symptoms.values() for e in s.examples] + [
        e.text for known in shelf.lines for e in known.examples
    ]
    for _ in range(400):
        one, two = chance.choice(lines), chance.choice(lines)
        text = one[: chance.randrange(len(one) + 1)] + chance.choice(" \t.:é(\0") + two[chance.randrange(len(two)) :]
        first, *others = (found(patterns, text) for patterns in sets)
        assert all(other == first for other in others)


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(codec=None), max_size=300))
def test_any_text_can_be_searched(text: str) -> None:
    """Any text, with lone surrogates: no exception, and places inside the text."""
    for engine in (None, "re"):
        for f in PatternSet(["foo", "^x", r"(?P<a>\d{1,9}) GiB"], engine=engine).find(text + "3 GiB"):
            assert 0 <= f.start < f.end <= len(text) + 5


@in_one_test("engine", [None, "re"])
@in_one_test("place", [0, 1, WINDOW - OVERLAP - 1, WINDOW - OVERLAP, WINDOW - 5, WINDOW, 3 * WINDOW - 7, 20_000])
def test_long_texts_are_searched_in_windows_without_gaps(engine: str | None, place: int) -> None:
    """A match is found whole, once, at its place."""
    text = "x" * place + "size 123456789 GiB" + "y" * 9000

    matches = list(PatternSet([r"size (?P<size>\d{1,12})"], engine=engine).find(text))

    assert [(0, place, place + 14, {"size": "123456789"})] == [tuple(match) for match in matches]


@pytest.mark.parametrize("engine", [None, "re"])
def test_the_beginning_is_the_text_s_not_a_window_s(engine: str | None) -> None:
    r"""`^` and `\b` apply to the text, not to the begin of a window."""
    step = WINDOW - OVERLAP
    text = "-" * step + "Killed" + "-" * WINDOW
    inside = "-" * (step - 1) + "aKilled" + "-" * WINDOW

    assert list(PatternSet(["^Killed"], engine=engine).find(text)) == []
    assert list(PatternSet([r"\bKilled"], engine=engine).find(inside)) == []
    assert [step] == [f.start for f in PatternSet([r"\bKilled"], engine=engine).find(text)]


def test_without_re2_the_results_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where google-re2 is not installed `re` serves."""
    monkeypatch.setattr(scan, "_re2", lambda: None)
    patterns = PatternSet(["Killed by signal"])

    assert [f.pattern for f in patterns.find("Killed by signal 9")] == [0]


def test_re2_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed import of re2 is ignored."""
    monkeypatch.setitem(__import__("sys").modules, "re2", None)

    assert scan._re2.__wrapped__() is None


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_candidates_of_a_block_apply_to_its_lines(shelf: catalog_symptoms.Catalog, step: int) -> None:
    """Patterns for a line are among those for a larger text, with the same matches."""
    texts = [e.text for s in shelf.symptoms.values() for e in s.examples]
    texts += [e.text for known in shelf.lines for e in known.examples]
    for patterns in (shelf.patterns, PatternSet(shelf.patterns.patterns, engine="re")):
        among = patterns.candidates("\n".join(texts))
        for text in texts[::step]:
            assert set(patterns.candidates(text)) <= set(among)
            assert (
                patterns.find(text, among) == patterns.find(text) == patterns.find(text, range(len(patterns.patterns)))
            )


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("^(?:Killed|Aborted by)", ("Killed", "Aborted")),
        ("^(?:Killed|No)", ()),
        ("^(?:Killed|Aborted)?x", ()),
        ("^a (?:(?:Killed|x) more|Aborted)", ("more", "Aborted")),
        ("^(?:ab|cd)(?:Killed|Aborted)", ("Killed", "Aborted")),
        ("^(?:Killed|Aborted)|x", ("Killed", "Aborted")),
        ("^x|(?:Killed|Aborted)", ()),
    ],
)
def test_a_pattern_with_branches_is_prefiltered_by_several_words(pattern: str, words: tuple[str, ...]) -> None:
    """One word for each branch; without one the pattern is always tried."""
    assert scan._alternatives(pattern) == words
    assert PatternSet([pattern], engine="re").find("Killed") == PatternSet([pattern]).find("Killed")


def test_no_patterns_find_nothing() -> None:
    """An empty set is a set."""
    assert list(PatternSet([]).find("text")) == []


def test_groups_without_a_match_are_left_out() -> None:
    """Captures contain only matched groups."""
    assert [f.groups for f in PatternSet([r"word (?:(?P<a>\d)|(?P<b>x))"]).find("word 1")] == [{"a": "1"}]


@in_one_test(
    ("pattern", "size"),
    [
        # Maximum characters, and the number of divisions of wide gaps.
        ("abc", (3, 1)), ("a b", (6, 1)), ("a[ xyz]b", (3, 1)), (r"\d\.\bx", (3, 1)), ("^ab", (2, 1)), ("ab?c", (3, 1)),
        ("a{3}", (3, 1)), ("a{2,5}", (5, 1)), (r"\d{1,40}", (40, 1)), ("[a-z]{1,40}", (40, 1)),
        ("x.{0,9}", (10, 1)), ("x.{0,10}", (11, 11)), (r"x\S{0,10}", (11, 11)), (r"x\D{0,10}", (11, 11)),
         (r"x\W{1,11}", (12, 11)),
        (r"x\w{0,10}", (11, 1)), ("x[^a]{0,10}", (11, 11)), ("x[a]{0,10}", (11, 1)), ("x.{10}", (11, 1)),
        ("x.{0,10}y.{0,20}", (32, 11 * 21)), ("a|bcd|ef", (3, 1)), ("(?:a.{0,10}|b.{0,20})", (21, 21)),
        # An optional group is tried once and skipped; a group repeated more than twice must not
        # vary.
        ("x(?:a.{0,10})?", (12, 1)), ("x(?:a.{0,10}){0,1}", (12, 1)), ("x(?:a.{0,10}){0,2}", (23, 11)),
        ("x(?:a.{0,10}){1}", (12, 11)),
         ("x(?:a.{0,10}){1,2}", (23, 11)),
        ("(?:ab){1,9}", (18, 1)), ("(?:ab?){1,2}", (4, 1)), ("(?:ab?){1,3}", (6, scan.MAX_WAYS + 1)),
        ("(?P<n>a{2}){1,3}", (6, 1)), ("(?P<n>a{1,2}){1,3}", (6, scan.MAX_WAYS + 1)), ("(?:a(?:b|c)d){2}", (6, 1)),
    ],
)  # fmt: skip
def test_the_size_of_a_pattern(pattern: str, size: tuple[int, int]) -> None:
    """Its longest match, a blank counted as four characters, and how hard it can be made to try."""
    assert scan._size(scan._signs(pattern)) == size


@in_one_test(
    ("pattern", "faulty"),
    [
        ("word" + "a{200}" * 7 + "a{132}", False), ("word" + "a{200}" * 7 + "a{133}", True),
        ("word a{0,200}", False), ("word a{0,201}", True),
        ("abc", False), ("ab", True), ("^ab", False), ("(?:abc)x", True), ("abc?de", True), ("abcd?e", False),
         ("abc{2}", True),
        ("word.{0,199}a.{0,199}a.{0,1}", False), ("word.{0,99}a.{0,99}a.{0,9}", False),
         ("word.{0,99}a.{0,99}a.{0,10}", True),
    ],
)  # fmt: skip
def test_the_bounds_of_a_pattern(pattern: str, *, faulty: bool) -> None:
    """1536 characters, repeats of 200, 100 000 divisions, and a word of three characters."""
    assert bool(faults(pattern)) is faulty


@in_one_test(
    ("pattern", "words"),
    [
        ("KV cache size", ("cache", "size")), ("abc", ("abc",)), ("ab", ()), ("abc|def", ()), ("a(?:bcd)efg", ("efg",)),
        (r"foo\.bar", ("foo.bar",)), ("abcd?ef", ("abc",)), ("abcd{2}", ("abc",)), ("abc[de]fgh", ("abc", "fgh")),
        ("abc(?:x|y)defgh", ("defgh", "abc")), ("abc abcd abcde abcdef", ("abcdef", "abcde", "abcd")),
         (r"abc\ddef", ("abc", "def")),
        ("((?:abc))def", ("def",)), ("abc.def^", ("abc", "def")),
    ],
)  # fmt: skip
def test_the_words_of_a_pattern(pattern: str, words: tuple[str, ...]) -> None:
    """At least three letters, the longest three, outside optional parts."""
    found = scan.literals(pattern)

    assert sorted(found) == sorted(words)
    assert [len(word) for word in found] == sorted(map(len, words), reverse=True)


def test_a_window_s_matches_are_found_once_and_in_order() -> None:
    """If several patterns match, and if the first match of one is in a later window."""
    text = "b" * 10 + "aaa" + "-" * (2 * WINDOW) + "bbbc" + "aaa"
    for engine in (None, "re"):
        found = PatternSet(["bbbc", "aaa", "never"], engine=engine).find(text)
        assert [(one.pattern, one.start, one.end) for one in found] == [
            (1, 10, 13),
            (0, 2 * WINDOW + 13, 2 * WINDOW + 17),
        ]


@pytest.mark.parametrize("length", [WINDOW, WINDOW + 1, 2 * WINDOW - OVERLAP, 2 * WINDOW - OVERLAP + 1])
def test_a_match_at_the_very_end_is_found(length: int) -> None:
    """Also in texts as long as the windows, or one character longer."""
    text = "-" * (length - 3) + "aaa"
    for engine in (None, "re"):
        assert [(one.start, one.end) for one in PatternSet(["aaa"], engine=engine).find(text)] == [(length - 3, length)]


@pytest.mark.parametrize(
    ("uses", "length", "is_re2"), [(63, 512, True), (64, 512, False), (64, 513, True), (0, 1, True)]
)
def test_frequent_searches_in_short_lines_use_re(uses: int, length: int, *, is_re2: bool) -> None:
    """From the 65th search, up to 512 characters."""
    patterns = PatternSet(["aaa"])
    for _ in range(uses):
        patterns._search(0, length)
    search, names = patterns._search(0, length)

    assert (search is patterns._searches[0].by_re) is not is_re2
    assert list(names) == []


def worst(pattern: str) -> list[str]:
    """Texts that try a pattern's patience: its words again and again, cut off before the end."""
    words = [
        re.sub(r"\\(.)", r"\1", w)
        for w in re.findall(
            r"(?:\\[^\w]|[A-Za-z0-9 _:./,='-])+", re.sub(r"\(\?P<\w+>|\[[^\]]*\]|\{[\d,]*\}|\?", " ", pattern)
        )
    ]
    joined = " ".join(words)[:200]
    return [
        ((words or ["x"])[0] + " ") * 400,
        (joined + " ") * 30,
        joined + " 1" * 2000,
        joined + "1" * 4000,
        joined + " " * 4000,
    ]


@pytest.mark.slow
def test_every_pattern_is_quick_on_its_own_worst_text(shelf: catalog_symptoms.Catalog) -> None:
    """One window of a pattern's own words costs at most 20 ms in `re`, where nothing but bounds protects."""
    for pattern in shelf.patterns.patterns:
        search = re.compile(scan.expand(pattern), re.ASCII).search
        for text in worst(pattern):
            assert seconds(search, text[:WINDOW]) < 0.02, pattern


@pytest.mark.slow
@pytest.mark.parametrize("engine", [None, "re"])
@pytest.mark.parametrize("unit", ["CUDA out of memory. Tried to allocate ", "x", " ", "GiB 1.0 (", "max seq len (1), "])
def test_the_whole_set_is_linear_in_the_text(shelf: catalog_symptoms.Catalog, engine: str | None, unit: str) -> None:
    """Twice the text costs at most three times."""
    patterns = PatternSet(shelf.patterns.patterns, engine=engine)

    assert growth(lambda text: list(patterns.find(text)), (unit * 20_000)[:20_000]) <= LIMIT


@pytest.mark.parametrize("engine", [None, "re"])
@pytest.mark.parametrize("share", [0.02, pytest.param(1.0, marks=pytest.mark.full)])
def test_each_pattern_is_linear_in_its_own_worst_text(
    shelf: catalog_symptoms.Catalog, engine: str | None, share: float
) -> None:
    """Doubling a pattern's worst input at most triples the time, in either engine."""
    every = shelf.patterns.patterns
    chosen = random.Random(20261120).sample(every, round(len(every) * share))  # noqa: S311 - repeatable, not secret
    for pattern in chosen:
        patterns = PatternSet([pattern], engine=engine)
        for text in worst(pattern):
            # A line is tried window by window: so long that the first and the last window weigh little in the ratio.
            long = (text * (48_000 // len(text) + 1))[:48_000]
            assert growth(patterns.find, long) <= LIMIT, pattern


@pytest.mark.parametrize(
    ("text", "shown"), [("", ""), ("abc", "abc"), ("é", "é"), ("a\ud800b", "a?b"), ("é\udfff", "é?")]
)
def test_invalid_text_is_replaced(text: str, shown: str) -> None:
    """Each lone surrogate by one character, so places stay."""
    assert scan._encodable(text) == shown


@pytest.mark.parametrize("engine", [None, "re"])
def test_words_contained_in_a_text(engine: str | None) -> None:
    """Each once, at any place, with any characters."""
    words = scan.WordSet(["abc", "b.c", "(", "é"], engine=engine)

    assert [sorted(words.present(text)) for text in ("", "xabcabc", "b.c", "bxc", "(é abc", "a\ud800b.c")] == [
        [], ["abc"], ["b.c"], [], ["(", "abc", "é"], ["b.c"],
    ]  # fmt: skip
    assert (words._set is None) is (engine == "re")
    assert scan.WordSet([]).present("abc") == []
    assert scan.WordSet([])._set is None


def test_words_beyond_the_memory_limit_are_searched_individually(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is 64 MiB; with a lower limit the results are the same."""
    words = [f"word{number:05}" for number in range(300)]
    assert (scan._options(re2).max_mem, scan._options(re2).log_errors) == (64 * 1024 * 1024, False)
    monkeypatch.setattr(scan, "_MAX_MEM", 4096)
    few = scan.WordSet(words)

    assert few._set is None
    assert few.present("word00007 word00300") == ["word00007"]


def test_candidates_are_named_by_their_words() -> None:
    """Prefiltered patterns for their words, others always; each once, in order."""
    for engine in (None, "re"):
        patterns = PatternSet(["^ab", "word", "^(?:Killed|Aborted)", "some word"], engine=engine)

        assert [
            patterns.candidates(text) for text in ("", "word", "Killed", "Aborted Killed", "some", "some word")
        ] == [[0], [0, 1], [0, 2], [0, 2], [0, 3], [0, 1, 3]]
        assert [one.pattern for one in patterns.find("some word", [1, 2])] == [1]
        assert patterns.find("some word", []) == []


def test_the_rarest_word_of_a_pattern_is_searched() -> None:
    """The word in the fewest patterns; of equally rare ones the longest."""
    patterns = PatternSet(["common rare", "common other", "^ab", "common"])

    assert patterns._words == [("rare", "common"), ("other", "common"), (), ("common",)]
    assert patterns._first_words == ["rare", "other", "", "common"]
    assert PatternSet(["abcd abcde abc"])._words == [("abcde", "abcd", "abc")]


@in_one_test(
    ("pattern", "told"),
    [
        ("a(?=word)", "uses groups other than (?:…) and (?P<name>…), look-around and flags"),
        (r"(?P<a>wo)rd\1", "uses back-references"),
        (r"word\Z", r"uses an escape that re and RE2 read differently, such as \A, \Z, \Q or \u"),
        ("word$", "uses the anchor $"), ("(word)", "uses groups without a name: write (?:…) or (?P<name>…)"),
        ("worda{,3}", "uses a repeat without a lower bound: write {0,80}"),
        ("worda?+", "uses a possessive repeat, which RE2 lacks"),
        ("word[ab]*", "uses an unbounded repeat of a group or class: bound it, {1,80} for example"),
        ("word.*", "uses an unbounded gap: write .{0,80}"), ("worda+", "uses an unbounded repeat"),
        ("worda{2,}", "uses an unbounded repeat"),
        ("word {1,3}x", "uses a repeated blank: one blank already matches any blank space"),
        ("word[a--b]", "uses a set operation or a named class, which re and RE2 read differently"),
        ("worda{0,201}", "a repeat of up to 201: at most 200"), ("a?b?", "matches the empty text"),
        ("word" + "a{200}" * 7 + "a{133}", "matches up to 1537 characters: at most 1536"),
        ("word.{0,99}a.{0,99}a.{0,10}", "has too many wide gaps: narrow them, or keep at most two of {0,200}"),
        ("ab", "needs a word of at least three signs outside of groups, to look for first (or a leading ^)"),
        ("word(?:a", "is not a regular expression: missing ), unterminated subpattern at position 4"),
    ],
)  # fmt: skip
def test_an_error_in_a_pattern_is_reported(pattern: str, told: str) -> None:
    """With the replacement."""
    assert faults(pattern) == [told]
    assert r"uses an unbounded repeat: bound it, \d{1,12} for example" in faults(r"word\d+")


@pytest.mark.parametrize(
    "pattern", [r"word\$", r"word\.\*", "word[$*+]", "word[(?)]", r"word\(a\)", "word[]a]", r"word[\]a]"]
)
def test_escaped_characters_are_valid(pattern: str) -> None:
    """After a backslash or in a class."""
    assert faults(pattern) == []


@pytest.mark.parametrize(
    ("pattern", "signs"),
    [
        ("", []), ("ab", ["a", "b"]), (r"\d\.", [r"\d", r"\."]), ("[]a]b", ["[]a]", "b"]), ("[^]a]", ["[^]a]"]),
        (r"[\]a]", [r"[\]a]"]), ("[a", ["[", "a"]), ("(?:a)", ["(?:", "a", ")"]), ("(?P<n>a)", ["(?P<n>", "a", ")"]),
        ("a{2}b{1,3}c{2,}", ["a", "{2}", "b", "{1,3}", "c", "{2,}"]), ("a{x}", ["a", "{", "x", "}"]),
        ("(a)", ["(", "a", ")"]),
    ],
)  # fmt: skip
def test_the_characters_of_a_pattern(pattern: str, signs: list[str]) -> None:
    """Escapes, classes, openings of groups and repeats are one each."""
    assert scan._signs(pattern) == signs


def test_window_sizes() -> None:
    """A window is longer than two longest matches; short or rare texts are searched differently."""
    assert (WINDOW, OVERLAP, scan.MAX_WAYS) == (4096, 1536, 100_000)
    assert (scan._SHORT, scan._OFTEN, scan._WIDE) == (512, 64, 9)
