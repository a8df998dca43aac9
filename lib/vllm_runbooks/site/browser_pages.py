"""Pages that diagnose, check and plan in the browser: the core, its data and Pyodide.

Pyodide comes from npm. It is read from this user's cache, or fetched once; each file is compared
with the digest in `docs/package.json`. Pages fetch none of it from elsewhere.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import html
import json
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from vllm_runbooks.catalog import compiled, folders, host_commands, specs
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.authored import rule_files, spec_files, table_files, toolchain_files
from vllm_runbooks.core import user_folders
from vllm_runbooks.core.errors import RunbooksError
from vllm_runbooks.core.files import replace_folder
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.views import elements
from vllm_runbooks.runbooks import case_files
from vllm_runbooks.site import bilingual, browser, header

FOLDER = "_browser"
"""Folder of the scripts, next to the pages; authored in `docs/`."""
_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src blob:; connect-src 'self'; style-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'"
)
_SCRIPT = '<script type="module" src="_browser/page.mjs"></script>\n'
_TONES = {
    elements.RED: "red", elements.AMBER: "amber", elements.GREEN: "green", elements.GREY: "grey", elements.BLUE: "blue",
}  # fmt: skip
"""Colors in the library's HTML, with their names in the page's style sheet."""
_BUTTONS = "<!-- buttons -->\n"
"""Place of the buttons among a page's fields."""
_MOST_GIVEN = 200_000_000
"""Most bytes that a page reads at a time: WebAssembly memory is limited to a few times that."""
_FETCH_S = 180.0
"""Timeout for npm in seconds."""
_MOST = 64 << 20
"""Most bytes of a file of a package; Pyodide's largest has 10 million."""
_WHEN = (1980, 1, 1, 0, 0, 0)
"""Date of every file in the archive, for reproducible archives."""


class _BrowserPage(NamedTuple):
    """One of the pages."""

    file: str
    title: str
    does: str
    """The `do` of its requests to `browser.ask`."""
    command: str
    """The command that prints the same document."""
    verb: str
    summary: str
    note: str
    """Note for readers of other languages: which texts are still English."""


PAGES = (
    _BrowserPage(
        "diagnose.html", "Diagnose a log", "diagnose", "diagnose", "Diagnose",
        "Find out why a vLLM launch failed, from its log. The log is read in this browser and is not uploaded.",
        "Diagnosis, evidence and fixes are translated; the form, logs and texts marked as such are in English.",
    ),
    _BrowserPage(
        "check.html", "Check a command", "lint", "lint --fix", "Check",
        "Check a vLLM command for a release, and get the corrected text. Nothing is uploaded.",
        "The problems are translated; the form and rules without a translation are in English, marked as such.",
    ),
    _BrowserPage(
        "plan.html", "Plan a deployment", "plan", "plan", "Plan",
        "What a model needs on which GPUs, before anything is launched. Nothing is uploaded.",
        bilingual.UNTRANSLATED,
    ),
)  # fmt: skip
_SHARED = (bilingual.SCRIPT, "theme.js", "lookup.js", "header.css")
"""Files of Sphinx's pages that these have as well, in `docs/_static`."""


def found(docs: Path) -> tuple[Path | None, str]:
    """Folder with Pyodide's files, or one line with the reason for a missing one."""
    try:
        return fetched(docs, "pyodide"), ""
    except RunbooksError as error:
        return None, str(error)


def write(docs: Path, built: Path, pyodide: Path | None, lacking: str = "") -> None:
    """Write the three pages with all their files into a built site; without Pyodide they say so."""
    target = built / FOLDER
    target.mkdir()
    for name in _SHARED:
        shutil.copyfile(docs / "_static" / name, target / name)
    if pyodide is None:
        note = html.escape(f"This page is not part of this build of the site: {lacking}.")
        for page in PAGES:
            _write_page(docs, built, page, f'<p class="state">{note}</p>')
        shutil.copyfile(docs / FOLDER / "page.css", target / "page.css")
        return
    shutil.copytree(pyodide, target / "pyodide")
    for path in (docs / FOLDER).iterdir():
        if path.suffix != ".html":
            shutil.copyfile(path, target / path.name)
    write_library(target / "library.zip")
    lock = {"info": _listed(docs)["built"]["pyodide"], "packages": {}}
    (target / "pyodide" / "pyodide-lock.json").write_text(json.dumps(lock), encoding="utf-8")
    loaded = [target / "library.zip", target / "worker.mjs", *(target / "pyodide").iterdir()]
    size = sum(path.stat().st_size for path in loaded)
    frame = Template((docs / FOLDER / "reader.html").read_text(encoding="utf-8"))
    for page in PAGES:
        fields = (docs / FOLDER / page.file).read_text(encoding="utf-8")
        before, _, after = fields.partition(_BUTTONS)
        body = frame.substitute(do=page.does, command=page.command, verb=page.verb, fields=before, more=after)
        _write_page(docs, built, page, body, size)


def _listed(docs: Path) -> Any:
    """Packages that the site uses from npm."""
    return json.loads((docs / "package.json").read_text(encoding="utf-8"))


def _write_page(docs: Path, built: Path, page: _BrowserPage, body: str, size: int | None = None) -> None:
    """Write one page; with `size` it runs the reader, whose files have that many bytes."""
    frame = Template((docs / FOLDER / "page.html").read_text(encoding="utf-8"))
    icon = base64.b64encode((docs / "_static" / "favicon.svg").read_bytes()).decode()
    values = {
        # In the page itself: browsers fetch an icon again when the fragment changes, also offline.
        "icon": f"data:image/svg+xml;base64,{icon}",
        "policy": _POLICY,
        "title": page.title,
        "summary": page.summary,
        "header": header.header(lambda to: to, lambda to: ' aria-current="page"' if to == page.file else ""),
        "language": bilingual.buttons(),
        "notes": bilingual.notes(page.note),
        "body": body,
        "script": "" if size is None else _SCRIPT,
        "bytes": size or 0,
        "most": _MOST_GIVEN,
        "tones": html.escape(json.dumps(_TONES)),
    }
    (built / page.file).write_text(frame.substitute(values), encoding="utf-8")


# ---- the library as an archive


def write_library(target: Path) -> None:
    """Write the core with its compiled data and YAML reader as one archive."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, raw in sorted(library().items()):
            archive.writestr(zipfile.ZipInfo(name, _WHEN), raw, zipfile.ZIP_DEFLATED, 9)


def library() -> dict[str, bytes]:
    """Files of that archive by name."""
    return {**_code(), **_yaml(), **_data()}


def modules(first: str = "vllm_runbooks.site.browser") -> set[str]:
    """Our modules that a module imports, directly or not, anywhere in its code."""
    names: set[str] = set()
    waiting = [first]
    while waiting:
        name = waiting.pop()
        # The package's names are imported lazily: no core module needs them.
        if name in names or name == "vllm_runbooks":
            continue
        names.add(name)
        tree = ast.parse(_file(name).read_bytes())
        waiting += [imported for imported in _imported(tree) if _file(imported).is_file()]
    return names


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "vllm_runbooks":
                yield from (".".join(parts[:end]) for end in range(2, len(parts) + 1))


def _file(name: str) -> Path:
    """File of one of our modules; that of the package for a name in it."""
    base = Path(browser.__file__).parents[1].joinpath(*name.split(".")[1:])
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def _code() -> dict[str, bytes]:
    package = Path(browser.__file__).parents[1]
    files = [package / "__init__.py", *map(_file, modules())]
    return {path.relative_to(package.parent).as_posix(): path.read_bytes() for path in files}


def _yaml() -> dict[str, bytes]:
    """The installed ruamel.yaml, which is pure Python."""
    spec = find_spec("ruamel.yaml")
    if spec is None or spec.origin is None:
        raise RunbooksError("ruamel.yaml is not installed; reinstall the package")
    folder = Path(spec.origin).parent
    return {f"ruamel/yaml/{path.name}": path.read_bytes() for path in sorted(folder.glob("*.py"))}


def _data() -> dict[str, bytes]:
    """The catalog as the core loads it: compiled indexes, data of releases, recorded cases with their records."""
    root = folders.catalog_dir()
    shelf = catalog.load_catalog(folders.own_catalogs())
    symptoms = {
        "symptoms": [document(item) for item in shelf.symptoms.values()],
        "lines": [document(item) for item in shelf.lines],
        "policies": [document(item) for item in shelf.policies.values()],
        "words": dict(shelf.words),
    }
    indexes: dict[str, Any] = {
        "index": symptoms,
        "rules": compiled.indexed("rules", root, compiled.rules_key, rule_files.compile_rules, lambda index: index),
        "specs": compiled.indexed("specs", root, specs.key, spec_files.compile_specs, lambda index: index),
    }
    for name, compiler in {**table_files.compilers(), "toolchains": toolchain_files.compile_toolchains}.items():
        indexes[name], problems = compiler(root)
        if problems:
            raise RunbooksError("; ".join(problems))
    files = {f"{name}.json": json.dumps(index, ensure_ascii=False).encode() for name, index in indexes.items()}
    files["calibration.json"] = (root / "calibration.json").read_bytes()
    for path in sorted((root / "releases").rglob("*")):
        if path.is_file():
            files[path.relative_to(root).as_posix()] = path.read_bytes()
    for path in sorted((root / "cases").glob("*/case.yaml")):
        case = case_files.load_case(path.parent)
        for name in ("case.yaml", *case.files, *([case.command] if case.command else ())):
            files[f"cases/{path.parent.name}/{name}"] = (path.parent / name).read_bytes()
        files[f"cases/{path.parent.name}/{browser.CASE}"] = json.dumps(document(case), ensure_ascii=False).encode()
    return {f"vllm_runbooks/_data/catalog/{name}": raw for name, raw in files.items()}


# ---- what comes from npm


def fetched(docs: Path, package: str) -> Path:
    """Folder with a package's files, verified by digest: cached, or fetched by npm.

    Raises:
        RunbooksError: It is not cached, and npm is missing, does not answer, or returns other
            files.
    """
    package_file = _listed(docs)
    version, digests = package_file["dependencies"][package], package_file["sha256"][package]
    kept = user_folders.cache() / f"{package}-{version}"
    if not _is_as_listed(kept, digests):
        with tempfile.TemporaryDirectory(prefix="vllm-runbooks-npm-") as folder:
            new = _unpacked(_packed(Path(folder), f"{package}@{version}"), digests, Path(folder) / "files")
            if not _is_as_listed(new, digests):
                raise RunbooksError(
                    f"npm gave other files than those of {package} {version}; ask who runs the registry"
                )
            _keep(new, kept, digests)
    return kept


def _keep(new: Path, kept: Path, digests: Mapping[str, str]) -> None:
    """Move fetched files into place atomically: another build finds all of them or none.

    Raises:
        RunbooksError: The cache cannot be written.
    """
    try:
        replace_folder(new, kept)
    except OSError as error:
        if _is_as_listed(kept, digests):  # another process was faster, with the same files
            return
        reason = error.strerror or error
        raise RunbooksError(f"{kept}: cannot be stored ({reason}); set XDG_CACHE_HOME to a writable folder") from None


def _is_as_listed(folder: Path, digests: Mapping[str, str]) -> bool:
    """Whether a folder contains exactly these files; false if one is replaced meanwhile."""
    try:
        return {path.name for path in folder.iterdir()} == set(digests) and all(
            hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest for name, digest in digests.items()
        )
    except OSError:
        return False


def _packed(folder: Path, package: str) -> Path:
    """The archive of a package, fetched by npm."""
    if shutil.which("npm") is None:
        raise RunbooksError(
            f"npm is not installed, but is required to download {package}; install Node.js, and build again"
        )
    argv = host_commands.argv("npm-package", path=str(folder), npm_package=package)
    try:
        done = subprocess.run(  # noqa: S603 - a row of the table
            argv, check=False, capture_output=True, text=True, timeout=_FETCH_S, cwd=folder, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise RunbooksError(f"npm did not download {package} within {_FETCH_S:.0f} s; build again") from None
    archive = next(iter(folder.glob("*.tgz")), None)
    if done.returncode or archive is None:
        reason = next((line for line in done.stderr.splitlines() if "code" in line), "no output")
        raise RunbooksError(f"npm could not download {package} ({reason[:80]}); check its registry, and build again")
    return archive


def _unpacked(archive: Path, names: Mapping[str, str], target: Path) -> Path:
    """A folder with only these files of the archive.

    Raises:
        RunbooksError: the archive is damaged.
    """
    target.mkdir()
    try:
        with tarfile.open(archive) as packed:
            for name in names:
                member = packed.extractfile(f"package/{name}") if f"package/{name}" in packed.getnames() else None
                if member is not None:
                    (target / name).write_bytes(member.read(_MOST))
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise RunbooksError(f"{archive.name} from npm is damaged ({error}); build again") from None
    return target
