"""The pages that run in the browser: the command line's answers, nothing sent, nothing executed.

The pages are built once for all of these tests, and opened in a real Chromium; other tests run the
same core in this Python, with all modules that a browser lacks blocked.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from io import BytesIO, StringIO
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import browser as chrome
from pace import scaled
from rows import rest_full
from vllm_runbooks import cli
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.options import load as release_data
from vllm_runbooks.catalog.records import RuleExample, RuleNearMiss
from vllm_runbooks.core.errors import RunbooksError
from vllm_runbooks.core.evidence import CaseKind
from vllm_runbooks.core.redaction import redact
from vllm_runbooks.lint import knowledge
from vllm_runbooks.reading.arguments.typed import option_words
from vllm_runbooks.runbooks import case_files
from vllm_runbooks.site import browser as front
from vllm_runbooks.site import browser_pages
from vllm_runbooks.site.building import docs_dir

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SEED = 20261121
LACKING = (
    "pydantic", "subprocess", "socket", "sqlite3", "re2", "_ssl", "ssl", "multiprocessing", "psutil", "pynvml", "rich",
    "click", "nbformat", "IPython", "nh3", "fcntl",
)  # fmt: skip
"""Modules that no browser has, or that the core must not import."""
PAYLOADS = (
    "<script>window.PWN_1=1</script>",
    "<img src=x onerror='window.PWN_2=1'>",
    "<a href='javascript:window.PWN_3=1'>press</a>",
    "<iframe srcdoc='<script>parent.PWN_4=1</script>'></iframe>",
    "<svg onload='window.PWN_5=1'><rect width='1' height='1'/></svg>",
    "<div style='background:url(https://evil.example/a.png)'>a</div>",
    '"><script>window.PWN_6=1</script>',
    "' onmouseover='window.PWN_7=1' style='position:fixed;inset:0",
    '" style="background:url(https://evil.example/b.png)" onfocus="window.PWN_8=1" autofocus x="',
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=window.PWN_9=1&gt;'>",
    "<link rel=stylesheet href=https://evil.example/d.css><meta http-equiv=refresh content='0;url=//evil.example'>",
    "<base href=https://evil.example/><form><button onclick='window.PWN_10=1'>b</button></form>",
    "</div></section></main><script>window.PWN_11=1</script>",
    "<object data='data:text/html,<script>top.PWN_12=1</script>'></object><video src=https://evil.example/e>",
    "<details open ontoggle='window.PWN_13=1'>x</details>",
    "${window.PWN_14=1}{{window.PWN_14=1}}`window.PWN_14=1`",
)


@dataclass(frozen=True)
class Question:
    """The same question to the command line and to a page."""

    id: str
    command: tuple[str, ...]
    request: dict[str, Any]
    files: dict[str, str] = field(default_factory=dict)
    """Texts by name, which the command finds in its folder."""

    def by_command(self, folder: Path) -> str:
        """The output of the command, or its error."""
        for name, text in self.files.items():
            (folder / name).write_bytes(text.encode())
        redact.forget()
        out, err = StringIO(), StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(folder)
            # A page has no cache of the Hub.
            offline = ["--offline"] if self.command[0] == "plan" else []
            status = cli.run([*self.command, *offline, "--format", "json"])
        if status == 2:
            message = err.getvalue().strip().removeprefix("vllm-runbooks: ")
            return message.removesuffix(", or omit --offline to read it from the Hub")
        return f"{status}\n{out.getvalue().strip()}"

    @property
    def given(self) -> list[tuple[str, str]]:
        """The files as a page passes them on."""
        return list(self.files.items())


def said(told: dict[str, Any]) -> str:
    """The answer of a page in the form of `Question.by_command`."""
    return str(told["refused"]) if "refused" in told else f"{told['status']}\n{told['document'].strip()}"


def recorded() -> list[Question]:
    """A question for every recorded case that one of the three pages reads."""
    found = []
    for path in sorted(folders.cases_dir().glob("*/case.yaml")):
        case = case_files.load_case(path.parent)
        if case.kind is CaseKind.LOG:
            found.append(Question(case.id, ("diagnose", case.id), {"do": "diagnose", "case": case.id}))
        elif case.kind is CaseKind.SCRIPT:
            found.append(Question(case.id, ("lint", "--fix", case.id), {"do": "lint", "case": case.id}))
        elif case.plan is not None:
            asked = case.plan
            sizes = {"tp": asked.tp, "pp": asked.pp, "dp": asked.dp}
            sizes = {name: size for name, size in sizes.items() if size is not None}
            by_dest = release_data(asked.vllm).by_dest
            words = [word for dest, value in asked.options.items() for word in option_words(by_dest[dest], value)]
            command = ("plan", asked.model, "--gpus", asked.gpus, "--vllm", asked.vllm)
            split = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
            told: dict[str, Any] = {"do": "plan", "model": asked.model, "gpus": asked.gpus, "vllm": asked.vllm}
            found.append(Question(case.id, (*command, *split, *words), {**told, **sizes, "more": shlex.join(words)}))
    return found


def log_question(name: str, text: str, vllm: str | None = None) -> Question:
    more = () if vllm is None else ("--vllm", vllm)
    request = {"do": "diagnose", **({} if vllm is None else {"vllm": vllm})}
    return Question(name, ("diagnose", "example.log", *more), request, {"example.log": text})


def script_question(name: str, text: str, file: str, vllm: str | None, gpus: str | None) -> Question:
    given = {"vllm": vllm, "gpus": gpus}
    more = [word for key, value in given.items() if value is not None for word in (f"--{key}", value)]
    request = {"do": "lint", **{key: value for key, value in given.items() if value is not None}}
    return Question(name, ("lint", "--fix", file or "script", *more), request, {file or "script": text})


def examples() -> list[Question]:
    """A question for every example and near miss of the catalog."""
    shelf = catalog.load_catalog()
    found = []
    for symptom in shelf.symptoms.values():
        found += [log_question(f"{symptom.id}:{n}", e.text, e.vllm) for n, e in enumerate(symptom.examples, 1)]
        found += [log_question(f"{symptom.id}:not-{n}", e.text) for n, e in enumerate(symptom.near_misses, 1)]
    for line in shelf.lines:
        found += [log_question(f"{line.id}:{n}", e.text, e.vllm) for n, e in enumerate(line.examples, 1)]
    for rule in knowledge.knowledge().rules.values():
        samples: list[RuleExample | RuleNearMiss] = [*rule.examples, *rule.near_misses]
        found += [
            script_question(f"{rule.id}:{n}", e.text, e.file, e.vllm, e.gpus)
            for n, e in enumerate(samples, 1)
            # Reports of an installed vLLM need `--python`.
            if not rule.id.startswith("parser.")
        ]
    return found


def plan_question(model: str, gpus: str, *words: str, **more: Any) -> Question:
    name = f"plan-{model}-{gpus}-{'-'.join(words)}"
    return Question(name, ("plan", model, "--gpus", gpus, *words), {"do": "plan", "model": model, "gpus": gpus, **more})


REFUSED = [
    log_question("empty", ""),
    log_question("blank", " \n"),
    log_question("picture", "\x89PNG\r\n"),
    log_question("no-release", "x", "abc"),
    Question("no-case", ("diagnose", "tiny-cpu-port-in-us"), {"do": "diagnose", "case": "tiny-cpu-port-in-us"}),
    plan_question("Qwen/Qwen3-8B", "RTX3091"),
    plan_question("Qwen/Qwen9", "A40"),
    plan_question("Qwen/Qwen3-8B", "A40", "--tp", "0", tp=0),
    plan_question("Qwen/Qwen3-8B", "A40", "--max-model-len", "8x", context="8x"),
    plan_question("Qwen/Qwen3-8B", "A40", "--swap-spac", "1", more="--swap-spac 1"),
]
"""Unreadable input, rejected in the same line."""
_FULL = ("--pp", "2", "--gpu-memory-utilization", "0.8", "--max-model-len", "16k", "--max-num-seqs", "32")
CHINESE = [
    Question(f"zh-{case}", ("diagnose", case, "--lang", "zh"), {"do": "diagnose", "case": case, "lang": "zh"})
    for case in ("tiny-cpu-port-in-use", "autoglm-3090-video-oom")
]
CHINESE += [
    replace(each, id=f"zh-{each.id}", command=(*each.command, "--lang", "zh"), request={**each.request, "lang": "zh"})
    for each in (
        script_question("script", "vllm serve m --swap-space 4 --tensor-paralel-size 2\n", "a.sh", "0.19.0", "A40"),
        log_question("no-cause", "INFO 02-28 17:42:12 [core.py:1] nothing\n"),
    )
]
"""The same in another language."""
PLANS = [
    plan_question("Qwen/Qwen3-8B", "2xRTX3090"),
    plan_question("Qwen/Qwen3-8B", "RTX3090", "--find", "context", find="context"),
    plan_question("Qwen/Qwen3-32B", "4xA100-80GB", "--tp", "4", "--vllm", "0.11.0", tp=4, vllm="0.11.0"),
    plan_question(
        "Qwen/Qwen3-8B", "RTX4090@a,RTX4090@b", *_FULL, pp=2, utilization="0.8", context="16k", sequences="32"
    ),
]


# ---- on this Python


_ALONE = """
import json, sys
for name in %(lacking)r:
    sys.modules[name] = None
sys.path.insert(0, %(library)r)
from vllm_runbooks.site import browser
assert browser.__file__.startswith(%(library)r)
browser.warm()
asked = json.load(sys.stdin)
def told(request, files):
    return json.loads(browser.ask(json.dumps(request), [(name, text.encode()) for name, text in files]))
json.dump([told(*each) for each in asked], sys.stdout)
"""


def alone(library: Path, questions: list[Question]) -> list[dict[str, Any]]:
    """The core's answer in a process with only the archive and the standard library."""
    program = _ALONE % {"lacking": LACKING, "library": str(library)}
    asked = json.dumps([(each.request, each.given) for each in questions])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        input=asked, capture_output=True, check=False, text=True, timeout=60,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive's files in a folder."""
    folder = tmp_path_factory.mktemp("library")
    for name, raw in browser_pages.library().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    return folder


@pytest.mark.slow
def test_the_core_alone_answers_as_the_commands_do(library: Path, tmp_path: Path) -> None:
    """The same documents, without any module that a browser lacks.

    In Chinese, headings and prose say that they are; what is English all the same is after the
    mark.
    """
    folder = tmp_path / "here"
    folder.mkdir()
    cases = {each.id: each for each in recorded()}
    samples = catalog.load_catalog().symptoms["install.abi_mismatch.kernels_not_loaded"].examples
    names = ("tiny-cpu-port-in-use", "copied-launch-script")
    compose = "services:\n  vllm:\n    image: vllm/vllm-openai:v0.19.0\n    command: --model m --swap-space 4\n"
    questions = [
        *(cases[name] for name in names),
        *REFUSED[:4],
        REFUSED[-2],
        PLANS[2],
        *CHINESE,
        script_question("compose", compose, "compose.yaml", None, None),
        next(each for each in examples() if each.id == "edge10.setting-too-late:1"),
        log_question("left-out", samples[0].text),
    ]

    found = alone(library, questions)

    assert [said(each) for each in found] == [each.by_command(folder) for each in questions]
    assert all(each.get("sections") or "refused" in each for each in found)
    told = {asked.id: each for asked, each in zip(questions, found, strict=True) if each.get("lang") == "zh-Hans"}
    assert list(told) == [each.id for each in CHINESE]
    titles, shown = zip(*told["zh-autoglm-3090-video-oom"]["sections"], strict=True)
    assert titles[0] == "结果"
    assert [title for title in titles if "【英文】" in title] == ["【英文】日志"]
    assert shown[0].startswith('<div lang="zh-Hans">')
    assert told["zh-script"]["sections"][0][1].startswith('<div lang="zh-Hans">')
    cards = {name: re.sub("<[^>]*>", " ", each["sections"][0][1]) for name, each in told.items()}
    for words in ("失败", "多模态编码器显存不足", "解决办法", "--limit-mm-per-prompt", "✓ 通过", "完整命令"):
        assert words in cards["zh-autoglm-3090-video-oom"]
    for words in ("2 个 ERROR", "照此启动会失败", "已被移除", "因此", "第 1:14 行"):
        assert words in cards["zh-script"]
    assert not re.search(r"\b(?:passed|rejected|Fix|Cost|launch fails|The whole)\b", " ".join(cards.values()))
    assert '<a href="rules/option.removed.html"' in told["zh-script"]["sections"][0][1]


def test_without_npm_the_pages_name_the_missing_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cache and npm: one line with a fix in each page, and no reader is loaded."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    pyodide, lacking = browser_pages.found(docs_dir())
    browser_pages.write(docs_dir(), tmp_path, pyodide, lacking)

    assert pyodide is None
    assert "npm is not installed" in lacking
    assert "install Node.js" in lacking
    for page in browser_pages.PAGES:
        text = (tmp_path / page.file).read_text(encoding="utf-8")
        assert lacking in text
        assert "<form" not in text
        assert "page.mjs" not in text
    assert not (tmp_path / "_browser" / "library.zip").exists()


def test_files_with_another_digest_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cached files are compared with their digests each time; another download is rejected."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept = tmp_path / "cache" / "vllm-runbooks" / "pyodide-314.0.7"
    kept.mkdir(parents=True)
    for name in ("pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide.mjs", "python_stdlib.zip"):
        (kept / name).write_bytes(b"something else")
    npm = tmp_path / "npm"
    npm.write_text(
        f"#!{sys.executable}\nimport io, tarfile\n"
        "with tarfile.open('pyodide-314.0.7.tgz', 'w:gz') as made:\n"
        "    entry = tarfile.TarInfo('package/pyodide.mjs')\n"
        "    entry.size = 4\n"
        "    made.addfile(entry, io.BytesIO(b'evil'))\n",
        encoding="utf-8",
    )
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert browser_pages.found(docs_dir()) == (
        None,
        "npm gave other files than those of pyodide 314.0.7; ask who runs the registry",
    )


def an_npm(folder: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Replace all programs with this npm, and cache its downloads in this folder."""
    npm = folder / "npm"
    npm.write_text(f"#!{sys.executable}\n{program}", encoding="utf-8")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))


def test_a_damaged_archive_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken download leaves out the pages, with a line."""
    whole = BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as made:
        entry = tarfile.TarInfo("package/pyodide.mjs")
        entry.size = 100_000
        made.addfile(entry, BytesIO(random.Random(SEED).randbytes(100_000)))  # noqa: S311 - what cannot be packed
    for content in (b"no archive", whole.getvalue()[:50_000]):
        (tmp_path / "given").write_bytes(content)
        given = str(tmp_path / "given")
        an_npm(tmp_path, monkeypatch, f"import shutil\nshutil.copyfile({given!r}, 'pyodide-314.0.7.tgz')\n")
        pyodide, lacking = browser_pages.found(docs_dir())

        assert pyodide is None
        assert lacking.startswith("pyodide-314.0.7.tgz from npm is damaged (")
        assert lacking.endswith("; build again")


def test_a_download_is_cached_completely_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A concurrent build finds a complete folder; a folder that cannot be written is reported."""
    digests = {"a": hashlib.sha256(b"1").hexdigest()}
    new, kept = tmp_path / "new", tmp_path / "cache" / "package-1"
    new.mkdir()
    (new / "a").write_bytes(b"1")

    browser_pages._keep(new, kept, digests)
    assert (kept / "a").read_bytes() == b"1"
    (kept / "a").write_bytes(b"old")
    browser_pages._keep(new, kept, digests)
    assert (kept / "a").read_bytes() == b"1"
    assert [path.name for path in kept.parent.iterdir()] == ["package-1"]

    copy = shutil.copytree

    def slow(source: Path, target: Path) -> None:
        copy(source, target)
        if not kept.exists():
            copy(source, kept)  # the other build, meanwhile

    shutil.rmtree(kept)
    monkeypatch.setattr(shutil, "copytree", slow)
    browser_pages._keep(new, kept, digests)
    assert (kept / "a").read_bytes() == b"1"

    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    with pytest.raises(RunbooksError, match=r"cannot be stored .*; set XDG_CACHE_HOME"):
        browser_pages._keep(new, tmp_path / "file" / "package-1", digests)


_NO_EXAMPLE = "is not an example in the catalog; choose one from the list"
_NO_CASE = "is not a recorded case; choose one from the list"
_UNKNOWN: tuple[tuple[dict[str, str], str], ...] = (
    ({"do": "delete"}, "do: 'delete' is unknown; use one of case, choices, diagnose"),
    ({}, "do: 'None' is unknown; use one of case, choices, diagnose"),
    ({"do": "example", "name": f"port.in_use:{'9' * 5000}"}, _NO_EXAMPLE),
    ({"do": "example", "name": "port.in_use:x"}, f"port.in_use:x: {_NO_EXAMPLE}"),
    ({"do": "case", "name": "nonsense"}, f"nonsense: {_NO_CASE}"),
    ({"do": "case", "name": "../cases/tiny-cpu-port-in-use"}, _NO_CASE),
)
"""Questions in an address without an answer, with their message."""
_TABBED = "echo 'a\tb'\nvllm serve m --swap-space 4\n"
_OUTCOMES: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"do": "diagnose", "case": "tiny-cpu-port-in-use"}, "", "a cause was found"),
    ({"do": "diagnose"}, "nothing", "no cause was found"),
    ({"do": "plan", "model": "Qwen/Qwen3-8B", "gpus": "A100-80GB", "tp": 1}, "", "it fits"),
    ({"do": "plan", "model": "Qwen/Qwen3-32B", "gpus": "RTX3090", "tp": 1}, "", "it does not fit"),
    ({"do": "lint", "vllm": "0.19.0"}, _TABBED, "something is wrong"),
    ({"do": "lint", "vllm": "0.19.0"}, "vllm serve m --host 127.0.0.1\n", "nothing is wrong"),
)
"""Requests with a pasted text, and the resulting sentence of each."""


@pytest.mark.slow
def test_a_page_describes_its_answer(library: Path) -> None:
    """An invalid question is rejected in a line; other answers have no exit status.

    What is shown otherwise than it is, as a tab, is there as it is for whoever copies it.
    """
    asked = [Question("", (), request) for request, _ in _UNKNOWN]
    asked += [Question("", (), request, {"": text} if text else {}) for request, text, _ in _OUTCOMES]

    found = alone(library, asked)

    for (_, says), told in zip(_UNKNOWN, found, strict=False):
        assert says in told["refused"]
        assert len(told["refused"]) < 200
    answered = found[len(_UNKNOWN) :]
    assert [told.get("outcome") for told in answered] == [says for *_, says in _OUTCOMES]
    fixed = json.loads(answered[4]["document"])["fixed"]
    assert "\t" in fixed
    assert answered[4]["exact"] == {fixed.replace("\t", " "): fixed}
    assert answered[5]["exact"] == {}


def test_too_large_and_too_deep_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser has two memory limits with different errors."""

    def ends(error: type[Exception]) -> str:
        def fail(_: object) -> None:
            raise error

        monkeypatch.setattr(front, "_DO", {"plan": fail})
        return str(json.loads(front.ask('{"do": "plan"}'))["refused"])

    assert "nested too deeply" in ends(RecursionError)
    assert "needs more memory" in ends(MemoryError)


def test_the_pages_have_the_colors_of_the_site() -> None:
    """The style sheet of these pages contains the site's colors, light and dark."""

    def colours(text: str) -> list[tuple[str, str]]:
        return re.findall(r"--(rb-(?:red|amber|green|blue)): (#[0-9a-f]{6});", text)

    docs = docs_dir()
    site = colours((docs / "_static" / "custom.css").read_text(encoding="utf-8"))
    assert len(site) == 8
    assert colours((docs / "_browser" / "page.css").read_text(encoding="utf-8")) == site
    assert set(browser_pages._TONES.values()) == {name.removeprefix("rb-") for name, _ in site} | {"grey"}


# ---- in a real browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three pages with all that they load."""
    built = tmp_path_factory.mktemp("pages")
    pyodide, lacking = browser_pages.found(docs_dir())
    if pyodide is None:
        pytest.skip(lacking)
    browser_pages.write(docs_dir(), built, pyodide)
    return built


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all of these tests."""
    with chrome.chromium() as one:
        yield one


@contextmanager
def opened(browser: Browser, folder: Path, page: str, **more: Any) -> Iterator[chrome.Visit]:
    """A served page that has loaded, and answered the question in its address, if any."""
    with chrome.served(folder) as origin, chrome.opened(browser, f"{origin}/{page}", **more) as visit:
        wait(visit.page, "Ready", "Answered")
        yield visit


def status(page: Page) -> str:
    return page.locator("#status").inner_text()


def wait(page: Page, *begun: str, seconds: float = 120) -> str:
    """Wait for the page's message with one of these beginnings; its policy forbids eval."""
    until = time.monotonic() + scaled(seconds)
    while not status(page).startswith(begun):
        assert time.monotonic() < until, status(page)
        time.sleep(0.1)
    return status(page)


_LOAD = """async () => {
  const {Reader} = await import(new URL('_browser/reader.mjs', location.href));
  await new Promise((ready, failed) => {
    window.reader = new Reader({quietS: 60, on: {state() {}, progress() {}, ready, failed}});
    window.reader.start();
  });
}"""
_ASK = """async ([request, files]) => {
  const encoded = files.map(([name, text]) => ({name, bytes: new TextEncoder().encode(text).buffer}));
  return window.reader.ask(request, encoded);
}"""


def differences(page: Page, questions: list[Question], folder: Path) -> list[str]:
    """Differences between worker and command, with the first different line."""
    page.evaluate(_LOAD)
    wrong = []
    for each in questions:
        told = said(page.evaluate(_ASK, [each.request, each.given]))
        wanted = each.by_command(folder)
        if told != wanted:
            pairs = zip(told.splitlines(), wanted.splitlines(), strict=False)
            first = next(((a, b) for a, b in pairs if a != b), (told[-80:], wanted[-80:]))
            wrong.append(f"{each.id}: browser {first[0][:300]!r}, command {first[1][:300]!r}")
    return wrong


@pytest.mark.slow
def test_the_browser_answers_as_the_command_line_does(pages: Path, chromium: Browser, tmp_path: Path) -> None:
    """Every recorded case, some examples, invalid input: the same JSON, byte for byte."""
    some = random.Random(SEED).sample(examples(), 60)  # noqa: S311 - a part that is the same each time
    with opened(chromium, pages, "diagnose.html") as visit:
        wrong = differences(visit.page, [*recorded(), *PLANS, *CHINESE, *REFUSED, *some], tmp_path)

        assert wrong == []
        assert visit.troubles() == []


@pytest.mark.full
def test_the_browser_answers_every_example_as_the_command_line_does(
    pages: Path, chromium: Browser, tmp_path: Path
) -> None:
    """Every positive and negative example of symptoms, lines and rules."""
    with opened(chromium, pages, "diagnose.html") as visit:
        assert differences(visit.page, examples(), tmp_path) == []


@pytest.fixture(scope="module")
def long_log() -> str:
    """Two megabytes: hours of server output, and then the end of a recorded launch."""
    case = folders.cases_dir() / "tiny-cpu-port-in-use" / "startup.log"
    line = (
        "(APIServer pid=71) INFO 11-20 08:{:02}:{:02} [loggers.py:271] Engine 000: "
        "Avg prompt throughput: 812.4 tokens/s, "
        "Avg generation throughput: {}.2 tokens/s, Running: 12 reqs, Waiting: 3 reqs, GPU KV cache usage: 41.2%"
    )
    lines = [line.format(n // 60 % 60, n % 60, n) for n in range(10_500)]
    text = "\n".join([*lines, case.read_text(encoding="utf-8")])
    assert len(text) > 2_000_000
    return text


_TICK = """() => {
  window.gaps = [];
  let before = performance.now();
  window.ticking = setInterval(() => {
    const now = performance.now();
    window.gaps.push(now - before);
    before = now;
  }, 50);
}"""


_PASTE = """text => {
  const clipboardData = new DataTransfer();
  clipboardData.setData('text/plain', text);
  const event = new ClipboardEvent('paste', {clipboardData, bubbles: true, cancelable: true});
  document.querySelector('#text').dispatchEvent(event);
}"""


def upload(page: Page, name: str, text: str) -> None:
    """Choose a file of this name."""
    page.set_input_files("#file", files={"name": name, "mimeType": "text/plain", "buffer": text.encode()})


def answer(page: Page, **fields: str) -> str:
    """Fill in fields by id, press the button, wait for the answer, and return it."""
    for name, value in fields.items():
        page.locator(f"details:has(#{name})").evaluate_all("all => all.forEach(each => { each.open = true; })")
        page.fill(f"#{name}", value)
    page.click("#run")
    until = time.monotonic() + scaled(60)
    while page.locator("#asked").get_attribute("data-state") == "busy":
        assert time.monotonic() < until
        time.sleep(0.1)
    return status(page)


def shown_document(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.locator("#json").text_content() or "{}")
    return found


@pytest.mark.full
def test_a_log_of_two_megabytes_leaves_the_page_usable(
    pages: Path, chromium: Browser, long_log: str, tmp_path: Path
) -> None:
    """Pasted or dropped: the command's answer, and no timer of the page waits half a second."""
    wanted = log_question("long", long_log).by_command(tmp_path)
    with opened(chromium, pages, "diagnose.html") as visit:
        page = visit.page
        upload(page, "example.log", long_log)
        page.evaluate(_TICK)
        since = time.monotonic()
        answer(page)
        took = time.monotonic() - since
        gaps = page.evaluate("window.gaps")

        assert f"1\n{(page.locator('#json').text_content() or '').strip()}" == wanted
        assert len(gaps) > took * 10
        assert max(gaps) < 500

        page.click("button[type=reset]")
        page.evaluate(_PASTE, long_log)
        assert "pasted text (2." in page.locator("#files").inner_text()
        answer(page)
        assert shown_document(page)["files"] == ["pasted text"]
        assert shown_document(page)["root_cause"]["symptom"] == "port.in_use"
        assert visit.troubles() == []


@pytest.mark.full
def test_the_pages_work_offline(pages: Path, chromium: Browser) -> None:
    """Once a page is ready it requests nothing more: log, script, manifest and plan work."""
    script = "vllm serve Qwen/Qwen3-8B --max-model-length 4096 --swap-space 4\n"
    compose = "services:\n  a:\n    image: vllm/vllm-openai:v0.11.0\n    command: [--model, m, --swap-spac, '4']\n"
    asked: dict[str, list[tuple[dict[str, str], str]]] = {
        "diagnose.html": [({"text": "OSError: [Errno 98] Address already in use\n"}, "root_cause")],
        "check.html": [({"text": script, "vllm": "0.19.0"}, "issues"), ({"text": compose, "vllm": ""}, "issues")],
        "plan.html": [({"model": "Qwen/Qwen3-8B", "gpus": "2xRTX3090"}, "layouts")],
    }
    for name, questions in asked.items():
        with opened(chromium, pages, name) as visit:
            visit.page.context.set_offline(True)
            before = len(visit.requests)
            for fields, key in questions:
                assert answer(visit.page, **fields).startswith("Answered")
                assert shown_document(visit.page)[key]

            assert visit.requests[before:] == []
            assert visit.troubles() == []


@pytest.mark.slow
def test_cancel_ends_a_running_request(pages: Path, chromium: Browser, long_log: str) -> None:
    """A new worker starts without the network, and answers the next question."""
    with opened(chromium, pages, "diagnose.html") as visit:
        page = visit.page
        page.context.set_offline(True)
        before = len(visit.requests)
        upload(page, "long.log", long_log * 2)
        page.click("#run")
        page.click("#cancel")

        assert status(page).startswith(("Cancelled", "Loading"))
        wait(page, "Ready")
        assert visit.requests[before:] == []
        page.click("button[type=reset]")
        assert answer(page, text="OSError: [Errno 98] Address already in use\n").startswith("Answered")
        assert visit.troubles() == []


_NOT_READY = """async () => {
  const {Ended, Reader} = await import(new URL('_browser/reader.mjs', location.href));
  const said = async () => reader.ask({do: 'choices'}).catch(error => [error instanceof Ended, error.message]);
  let reader;
  const ready = new Promise((resolve, failed) => {
    reader = new Reader({quietS: 60, on: {state() {}, progress() {}, ready: resolve, failed}});
  });
  const found = [await said()];
  reader.start();
  found.push(await said());
  await ready;
  reader.stop();
  return found;
}"""
_UNREADABLE = """() => {
  const file = new File(['x'], 'gone.log');
  file.arrayBuffer = () => Promise.reject(new Error('it is gone'));
  const large = new File(['x'], 'large.log');
  Object.defineProperty(large, 'size', {value: 3e8});
  window.give = (which) => {
    const dataTransfer = new DataTransfer();
    const event = new DragEvent('drop', {dataTransfer, bubbles: true, cancelable: true});
    Object.defineProperty(event, 'dataTransfer', {value: {files: [which === 'gone' ? file : large]}});
    dispatchEvent(event);
  };
}"""
_SLOW_FILE = """() => {
  const file = new File(['x'], 'slow.log');
  file.arrayBuffer = () => new Promise(resolve => { window.arrive = () => resolve(new ArrayBuffer(1)); });
  const event = new DragEvent('drop', {bubbles: true, cancelable: true});
  Object.defineProperty(event, 'dataTransfer', {value: {files: [file]}});
  dispatchEvent(event);
}"""


@pytest.mark.full
def test_no_request_to_a_reader_is_lost(pages: Path, chromium: Browser) -> None:
    """A page that is not ready offers none and rejects them; cancelled ones never answer."""
    with opened(chromium, pages, "diagnose.html") as visit:
        page = visit.page
        line = "the reader is not ready; wait until this line says so"
        assert page.evaluate(_NOT_READY) == [[True, line], [True, line]]

        page.evaluate(_UNREADABLE)
        page.evaluate("window.give('gone')")
        assert answer(page) == "gone.log: cannot be read (it is gone); choose it again."
        page.click("button[type=reset]")
        page.evaluate("window.give('large')")
        assert answer(page).startswith("The files have 300.0 MB, and a page reads 200.0 MB at most")
        page.click("button[type=reset]")

        page.evaluate(_SLOW_FILE)
        page.click("#run")
        page.click("#cancel")
        assert page.locator("#recorded").is_disabled()
        page.evaluate("window.arrive()")
        wait(page, "Ready")
        time.sleep(1)
        assert status(page).endswith("Cancelled.")
        assert page.locator("#recorded").is_enabled()
        assert page.locator("#result").is_hidden()
        assert visit.troubles() == []


@pytest.mark.full
def test_a_choice_replaces_typed_text(pages: Path, chromium: Browser) -> None:
    """A recorded question is used as recorded; a field for one file replaces the old one."""
    with opened(chromium, pages, "plan.html") as visit:
        page = visit.page
        page.fill("#context", "512")
        assert not page.locator("#find").is_visible()
        page.get_by_text("More options").click()
        page.select_option("#find", "context")
        upload(page, "config.json", "{}")
        upload(page, "other.json", "{}")
        assert page.locator("#files li").count() == 1
        assert "other.json" in page.locator("#files").inner_text()
        chosen = next(each for each in recorded() if each.request["do"] == "plan")
        page.select_option("#recorded", f"case={chosen.id}")
        # A chosen example is answered without a press of the button.
        page.locator("#status", has_text="Answered").wait_for()

        kept = page.eval_on_selector_all("#context, #find, #utilization", "all => all.map(each => each.value)")
        assert kept == ["", "", ""]
        assert page.input_value("#gpus") == chosen.request["gpus"]
        assert page.locator("#files li").count() == 0
        assert answer(page).startswith("Answered")
        assert visit.troubles() == []


@pytest.mark.full
def test_a_click_while_loading_is_queued(pages: Path, chromium: Browser) -> None:
    """The question is answered when everything is loaded; an unknown GPU marks its field."""
    with chrome.served(pages) as origin, chrome.opened(chromium, f"{origin}/plan.html") as visit:
        page = visit.page
        page.fill("#model", "Qwen/Qwen3-8B")
        page.fill("#gpus", "A40")
        page.click("#run")
        wait(page, "Answered")
        assert answer(page, gpus="zzz9") == "zzz9: unknown GPU All GPUs"
        assert "did you mean RTX3090 or RTX3090Ti? All GPUs" in answer(page, gpus="RTX3091")
        assert page.locator("#gpus").get_attribute("aria-invalid") == "true"
        assert page.locator("#status a").get_attribute("href") == "gpus/index.html"
        assert answer(page, gpus="A40").startswith("Answered")
        assert page.locator("#gpus").get_attribute("aria-invalid") is None
        assert visit.troubles() == []


@pytest.mark.full
def test_an_invalid_address_is_reported(pages: Path, chromium: Browser) -> None:
    """A broken percent-encoding: one line, and a page that works."""
    with opened(chromium, pages, "diagnose.html") as visit:
        visit.page.evaluate("location.hash = '%'")
        wait(visit.page, "The end of the address cannot be read")
        assert answer(visit.page, text="OSError: [Errno 98] Address already in use\n").startswith("Answered")
        assert visit.troubles() == []


@pytest.mark.slow
def test_an_address_has_the_question_and_never_a_log(pages: Path, chromium: Browser) -> None:
    """Plan and check: the same answer, without secrets. Diagnose: cause, outcome, release."""
    secret = "hf_" + "abcdefghijKLMNOPQRST012345"
    with chrome.served(pages) as origin, chrome.opened(chromium, f"{origin}/plan.html") as visit:
        page = visit.page
        wait(page, "Ready")
        assert not page.locator("#tp").is_visible()
        assert answer(page, model="Qwen/Qwen3-8B", gpus="RTX3090", tp="1", context="16k").startswith("Answered")
        document = shown_document(page)
        with chrome.opened(chromium, page.url) as again:
            wait(again.page, "Answered")
            assert shown_document(again.page) == document
            assert again.page.input_value("#context") == "16k"
            assert again.page.locator("#tp").is_visible()
            assert again.troubles() == []

        page.goto(f"{origin}/check.html")
        wait(page, "Ready")
        script = f"export HF_TOKEN={secret}\nvllm serve m --swap-space 4\n"
        assert answer(page, text=script, vllm="0.19.0").startswith("Answered")
        assert "swap-space" in page.url
        assert secret not in page.url

        page.goto(f"{origin}/diagnose.html#symptom=port.in_use")
        wait(page, "Ready")
        assert page.locator("#about a").get_attribute("href") == "symptoms/port.in_use.html"
        log = f"{secret}\nOSError: [Errno 98] Address already in use\n"
        assert answer(page, text=log).startswith("Answered")
        assert page.url.partition("#")[2].startswith("symptom=port.in_use&outcome=")
        assert "Errno" not in page.url
        page.goto(f"{origin}/diagnose.html#symptom=<img src=x onerror=window.PWN_1=1>")
        page.wait_for_selector("#about", state="detached")
        assert visit.troubles() == []


@pytest.mark.full
def test_copied_text_is_unchanged(pages: Path, chromium: Browser) -> None:
    """Tabs and invisible characters are displayed differently, but copied as they are."""
    with opened(chromium, pages, "check.html", permissions=["clipboard-read", "clipboard-write"]) as visit:
        page = visit.page
        assert answer(page, text=_TABBED, vllm="0.19.0").startswith("Answered")
        page.locator("#parts section", has_text="Answer").locator("button.copy").first.click()
        page.get_by_role("button", name="Copied").wait_for()
        fixed = shown_document(page)["fixed"]
        assert "\t" in fixed
        assert page.evaluate("navigator.clipboard.readText()") == fixed
        assert visit.troubles() == []


@pytest.mark.slow
def test_a_page_without_a_reader_requests_none(chromium: Browser, tmp_path: Path) -> None:
    """Where Pyodide is lacking the page is whole all the same: nothing that it names is missing."""
    browser_pages.write(docs_dir(), tmp_path, None, "npm is not installed")
    with chrome.served(tmp_path) as origin, chrome.opened(chromium, f"{origin}/plan.html") as visit:
        visit.page.get_by_text("This page is not part of this build of the site").wait_for()
        assert visit.troubles() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken_file",
    rest_full(
        [
            pytest.param(("pyodide/pyodide.asm.wasm", None, "pyodide.asm.wasm is not there (status 404)")),
            pytest.param(
                ("pyodide/pyodide.asm.wasm", b"\x00asm\x01\x00\x00\x00\xff", "The reader could not be loaded: ")
            ),
            pytest.param(("library.zip", None, "library.zip is not there (status 404)")),
            pytest.param(("worker.mjs", None, "worker.mjs is not there (status 404)")),
        ],
        1,
    ),
)
def test_a_failed_load_is_reported_in_one_line(
    pages: Path, chromium: Browser, tmp_path: Path, broken_file: tuple[str, bytes | None, str]
) -> None:
    """For any missing or damaged file: in time, with a fix and a button to load again."""
    file, content, says = broken_file
    broken = tmp_path / "broken"
    shutil.copytree(pages, broken)
    path = broken / "_browser" / file
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    page_file = broken / "diagnose.html"
    page_file.write_text(page_file.read_text("utf-8").replace('data-quiet-s="30"', 'data-quiet-s="12"'), "utf-8")
    with chrome.served(broken) as origin, chrome.opened(chromium, f"{origin}/diagnose.html") as visit:
        line = wait(visit.page, "The reader could not be loaded", seconds=30)

        assert says in line
        assert "\n" not in line
        assert line.endswith("reload the page.")
        assert visit.page.locator("#again").is_visible()
        assert visit.page.locator("#run").is_disabled()
        assert visit.external() == []

        path.write_bytes((pages / "_browser" / file).read_bytes())
        visit.page.click("#again")
        wait(visit.page, "Ready")


@pytest.mark.slow
def test_a_hanging_load_times_out(pages: Path, chromium: Browser, tmp_path: Path) -> None:
    """A server that accepts and never answers is reported as such."""
    quick = tmp_path / "quick"
    shutil.copytree(pages, quick)
    page_file = quick / "check.html"
    page_file.write_text(page_file.read_text("utf-8").replace('data-quiet-s="30"', 'data-quiet-s="3"'), "utf-8")
    with chrome.served(quick) as origin, chrome.opened(chromium, "about:blank") as visit:
        visit.page.context.route("**/*.wasm", lambda _: None)
        visit.page.goto(f"{origin}/check.html")

        line = wait(visit.page, "The reader could not be loaded", seconds=30)
        assert "nothing has arrived for 3 s; check the connection" in line


@pytest.mark.slow
def test_no_payload_runs_in_any_field(pages: Path, chromium: Browser) -> None:
    """In logs, names, scripts, fields and the address: it is shown as text, or rejected."""
    told = "\n".join(
        line
        for n, payload in enumerate(PAYLOADS)
        for line in (
            f"(EngineCore pid=7) ERROR 11-20 08:00:{n:02} [core.py:88] ValueError: {payload}",
            f"OSError: [Errno 98] Address already in use {payload}",
            f"FileNotFoundError: [Errno 2] No such file or directory: '/m/{payload}'",
        )
    )
    script = "\n".join(
        shlex.join(["vllm", "serve", f"org/{payload}", "--served-model-name", payload, f"--no-{n}", payload])
        for n, payload in enumerate(PAYLOADS)
    )
    ours = "a:not([href^='rules/'])"
    hostile = f"#parts :is(script, img, iframe, object, embed, link, meta, base, form, video, {ours}, math, [srcdoc])"
    begin = "() => [...document.querySelectorAll('#parts *')].flatMap(e => [...e.attributes].map(a => a.name))"

    def harmless(visit: chrome.Visit) -> None:
        page = visit.page
        page.mouse.move(200, 400)
        assert page.locator(hostile).count() == 0
        assert not [name for name in page.evaluate(begin) if name.startswith("on")]
        assert visit.troubles() == []

    with opened(chromium, pages, "diagnose.html") as visit:
        for payload in PAYLOADS:
            upload(visit.page, f"{payload.replace('/', '|')[:80]}.log", told)
        visit.page.get_by_text("The command that started the server").click()
        assert answer(visit.page, command=script).startswith("Answered")
        assert "PWN_1" in (visit.page.locator("#parts").text_content() or "")
        harmless(visit)
        for payload in PAYLOADS[::2]:
            assert not answer(visit.page, gpus=payload, vllm="").startswith("Answered")
        for payload in PAYLOADS[1::2]:
            assert not answer(visit.page, vllm=payload, gpus="").startswith("Answered")
        visit.page.evaluate("said => { location.hash = 'case=' + said; }", PAYLOADS[0])
        wait(visit.page, PAYLOADS[0][:8])
        harmless(visit)
    with opened(chromium, pages, "check.html") as visit:
        assert answer(visit.page, text=script).startswith("Answered")
        assert "PWN_1" in (visit.page.locator("#parts").text_content() or "")
        harmless(visit)
    with opened(chromium, pages, "plan.html") as visit:
        for payload in PAYLOADS[::3]:
            assert not answer(visit.page, model=payload, gpus="A40", more="").startswith("Answered")
        for payload in PAYLOADS[1::3]:
            assert "org" in answer(visit.page, model=f"org/{payload}", gpus="A40")
        for payload in PAYLOADS[2::3]:
            answer(visit.page, model="Qwen/Qwen3-8B", more=f"--served-model-name {shlex.quote(payload)}")
        harmless(visit)


_INLINE = """() => {
  const script = document.createElement('script');
  script.textContent = 'window.PWN_30 = 1';
  document.body.append(script);
  const text = document.createElement('div');
  text.innerHTML = '<img src="data:," onerror="window.PWN_31 = 1"><p style="color:red">x</p>';
  document.body.append(text);
  setTimeout(() => { try { eval('window.PWN_32 = 1'); } catch (error) { window.caught = error.name; } });
  setTimeout(() => { fetch('https://evil.example/').catch(() => { window.unsent = true; }); });
}"""
_IN_WORKER = """() => new Promise(resolve => setTimeout(() => {
  let caught = null;
  try { (0, eval)('1'); } catch (error) { caught = error.name; }
  const names = [...Object.getOwnPropertyNames(self), ...Object.getOwnPropertyNames(WorkerGlobalScope.prototype)];
  const left = /fetch|xmlhttp|socket|transport|eventsource|worker|channel|import|cache|indexeddb|storage|filesystem/i;
  const kept = names.filter(name => left.test(name) && self[name] && !/^[A-Z]/.test(name));
  const made = ['XMLHttpRequest', 'WebSocket', 'WebSocketStream', 'WebTransport', 'EventSource', 'Worker',
    'SharedWorker', 'BroadcastChannel'].filter(name => self[name]);
  resolve([caught, kept, made, ['storage', 'storageBuckets', 'serviceWorker'].filter(name => navigator[name])]);
}))"""


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_full([page.file for page in browser_pages.PAGES], 1))
def test_the_policy_blocks_what_the_pages_do_not_need(pages: Path, chromium: Browser, name: str) -> None:
    """Inline scripts and styles, handlers, eval and foreign requests, on page and worker."""
    with opened(chromium, pages, name) as visit:
        assert visit.troubles() == []
        visit.page.evaluate(_INLINE)
        time.sleep(0.5)
        refused = " ".join(visit.refused())

        assert all(each in refused for each in ("script-src-elem", "script-src-attr", "style-src-attr", "connect-src"))
        assert visit.executed() == []
        assert visit.page.evaluate("[window.caught, window.unsent]") == ["EvalError", True]
        (worker,) = visit.page.workers
        assert worker.evaluate(_IN_WORKER) == ["EvalError", [], [], []]
        policy = visit.page.locator("meta[http-equiv]").get_attribute("content") or ""
        assert "unsafe-inline" not in policy
        assert "'unsafe-eval'" not in policy


_UNDER = """name => {
  const element = document.querySelector(name);
  element.scrollIntoView({block: 'start'});
  const {left, top, height} = element.getBoundingClientRect();
  return element.contains(document.elementFromPoint(left + 8, top + height / 2));
}"""


@pytest.mark.full
def test_the_header_covers_nothing(pages: Path, chromium: Browser) -> None:
    """With an answer shown, its heading and buttons are usable, on desktop and phone."""
    with opened(chromium, pages, "diagnose.html#case=autoglm-3090-video-oom") as visit:
        assert "a cause was found" in wait(visit.page, "Answered")
        for width in chrome.WIDTHS:
            visit.page.set_viewport_size({"width": width, "height": 700})
            for name in ("#run", "#parts h2", "#text"):
                assert visit.page.evaluate(_UNDER, name), (name, width)


_REMARKS = """() => [...document.querySelectorAll('.wide:has(td[colspan])')]
  .filter(wide => wide.scrollWidth > wide.clientWidth).map(wide => wide.innerText.slice(0, 40))"""
"""Tables with remarks below their rows that are wider than the page."""
_LONGEST = "case=autoglm-3090-video-oom"


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), rest_full(product(chrome.WIDTHS, chrome.THEMES), 1))
def test_the_pages_are_accessible(
    pages: Path, chromium: Browser, tmp_path: Path, width: int, theme: chrome.Theme
) -> None:
    """On desktop and phone, light and dark, with an answer: no axe issue, nothing cut off."""
    script = "vllm serve Qwen/Qwen3-8B \\\n  --max-model-length 8k \\  \n  --swap-space 4 --tensor-parallel-size 3\n"
    for name, fragment, fields in (
        ("diagnose.html", f"#{_LONGEST}", None),
        ("check.html", "", {"text": script, "vllm": "0.19.0", "gpus": "4xRTX3090"}),
        ("plan.html", "", {"model": "Qwen/Qwen3-8B", "gpus": "2xRTX3090", "context": "16k"}),
    ):
        with (
            chrome.served(pages) as origin,
            chrome.opened(chromium, f"{origin}/{name}{fragment}", width=width, theme=theme) as visit,
        ):
            wait(visit.page, "Answered" if fields is None else "Ready")
            if fields is not None:
                assert answer(visit.page, **fields).startswith("Answered")
            chrome.shot(visit.page, f"browser-{name.partition('.')[0]}-{theme}-{width}", tmp_path, whole=True)

            assert chrome.axe(visit.page) == []
            assert chrome.misfits(visit.page) == []
            assert visit.page.evaluate(_REMARKS) == []
            assert visit.troubles() == []


@pytest.mark.full
def test_the_switch_asks_again_in_the_other_language(pages: Path, chromium: Browser, tmp_path: Path) -> None:
    """By keyboard: the Chinese answer, focus still on the switch; the next page remembers."""
    wanted = CHINESE[0].by_command(tmp_path)
    with chrome.served(pages) as origin, chrome.opened(chromium, f"{origin}/diagnose.html") as visit:
        page = visit.page
        wait(page, "Ready")
        page.select_option("#recorded", "case=tiny-cpu-port-in-use")
        answer(page)
        assert "lang" not in shown_document(page)
        page.get_by_role("button", name="中文").focus()
        page.keyboard.press("Enter")
        page.locator("#parts h2[lang=zh-Hans]").first.wait_for()
        assert f"1\n{(page.locator('#json').text_content() or '').strip()}" == wanted
        assert page.evaluate("document.activeElement.dataset.told") == "zh"
        assert page.get_by_text("诊断、依据和解决办法为中文").is_visible()
        chrome.shot(page, "browser-diagnose-zh", tmp_path, whole=True)
        assert chrome.axe(page) == []

        page.goto(f"{origin}/check.html")
        wait(page, "Ready")
        assert answer(page, text="vllm serve m --swap-space 4\n", vllm="0.19.0").startswith("Answered")
        assert shown_document(page)["lang"] == "zh"
        page.goto(f"{origin}/plan.html")
        wait(page, "Ready")
        assert page.get_by_text("本页尚无中文翻译").is_visible()
        assert answer(page, model="Qwen/Qwen3-8B", gpus="A40").startswith("Answered")
        assert "lang" not in shown_document(page)
        assert visit.troubles() == []


@pytest.mark.full
def test_a_deeply_nested_text_is_answered_or_rejected(pages: Path, chromium: Browser) -> None:
    """WebAssembly's stack is small: each has its line, and the next question is answered."""

    def nested(depth: int) -> dict[str, str]:
        return {
            "a.sh": "vllm serve m " + "$(echo " * depth + ")" * depth,
            "b.sh": "vllm serve m --compilation-config '" + '{"a":' * depth + "1" + "}" * depth + "'",
            "compose.yaml": "x: " + "[" * depth + "]" * depth + "\nservices: {}\n",
            "a.py": "import vllm\nvllm.LLM(model=" + "(" * depth + "'m'" + ")" * depth + ")\n",
        }

    with opened(chromium, pages, "check.html") as visit:
        for text in nested(150).values():
            assert answer(visit.page, text=text).startswith("Answered")
        visit.page.fill("#text", "")
        for name, text in nested(20_000).items():
            upload(visit.page, name, text)
            line = answer(visit.page)
            assert line
            assert "\n" not in line
            if visit.page.locator("#run").is_disabled():
                assert "The reader broke off: the text is nested too deeply" in wait(visit.page, "Ready")
            visit.page.click("button[type=reset]")
        assert answer(visit.page, text="vllm serve m --swap-spac 4").startswith("Answered")
        assert visit.troubles() == []
