"""List translated symptoms and rules, and missing or outdated translations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from vllm_runbooks.catalog import languages
from vllm_runbooks.catalog.authored import translations
from vllm_runbooks.catalog.authored.rule_files import read_rule
from vllm_runbooks.catalog.authored.symptom_files import read_symptom
from vllm_runbooks.catalog.records import Rule, Symptom
from vllm_runbooks.core.errors import CatalogError, InputError


def translatable(root: Path) -> Iterator[tuple[Path, Symptom | Rule]]:
    kinds: tuple[tuple[str, Callable[[Path, str], Symptom | Rule]], ...] = (
        ("symptoms", read_symptom),
        ("rules", read_rule),
    )
    for kind, read in kinds:
        for path in sorted((root / kind).glob("*.yaml")):
            with suppress(CatalogError):
                yield path, read(path, str(path.relative_to(root)))


def _read_translatable(path: Path) -> Symptom | Rule:
    is_rule = path.absolute().parent.name == "rules"
    try:
        return read_rule(path, str(path)) if is_rule else read_symptom(path, str(path))
    except CatalogError as error:
        raise InputError("; ".join(str(error).splitlines())) from None


def stamped(path: Path) -> str:
    """Text of a file with digests that mark its translations as current; raises InputError if it has none."""
    record = _read_translatable(path)
    if not record.translations:
        raise InputError(f"{path}: no translation; add one under translations (see docs/languages.md)")
    return translations.stamped(path, record)


def translated(files: Sequence[Path], root: Path, *, is_missing: bool = False) -> tuple[list[str], bool]:
    """Outdated translations in files or a catalog folder, or missing ones with `is_missing`.

    Returns lines with counts, and whether any translation is outdated.
    """
    records = [(path, _read_translatable(path)) for path in files] or [
        (path.relative_to(root), record) for path, record in translatable(root)
    ]
    lines, counts, is_stale = [], [], False
    for lang, language in languages.LANGUAGES.items():
        done = 0
        for path, record in records:
            old, lacking = languages.stale(record, lang), languages.missing(record, lang)
            done += lang in record.translations
            is_stale |= bool(old)
            if old:
                lines.append(f"{path}: {lang}: the English text has changed: {', '.join(old)}")
            if is_missing and lacking:
                is_all = lang not in record.translations
                lines.append(f"{path}: {lang}: not translated: {'all' if is_all else ', '.join(lacking)}")
        counts.append(f"{lang} ({language.name}): {done} of {len(records)} symptoms and rules translated")
    return [*lines, *counts], is_stale
