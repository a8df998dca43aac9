"""Launches that a chart, an operator or a runtime builds from YAML values, by `catalog/tables/launch_forms.yaml`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.core.record_forms import Authored
from vllm_runbooks.reading import shell
from vllm_runbooks.reading.documents import yaml_places
from vllm_runbooks.reading.documents.yaml_places import Node, Scalar
from vllm_runbooks.reading.shell import Word
from vllm_runbooks.reading.shell.word_lists import word_list

_MAX_OPTIONS = 500  # words of one launch
_TELLING = 2  # options that identify a configuration of vLLM
_FULL = 4  # options that do, if one is the model's name and every key is an option
_REPOSITORY = re.compile(r"[\w.-]{1,100}/[\w.-]{1,100}", re.ASCII)
_MAX_HEAD = 2000
_SCHEMA = re.compile(
    r"^#[ \t]{0,4}yaml-language-server:[ \t]{0,4}\$schema=\S{0,400}\bvllm-serve-"
    r"(\d{1,4}(?:\.\d{1,4}){1,3}|latest)\.json",
    re.ASCII | re.MULTILINE,
)
_NEAR, _NEARER = 0.8, 0.92
"""Least similarity (see difflib) of a misspelt name."""
_STEP = re.compile(r"[^.]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SCHEME = re.compile(r"([a-z0-9+.-]{1,20})://(.*)", re.DOTALL)
_TRUE, _FALSE = frozenset(("true", "yes", "on")), frozenset(("false", "no", "off"))
_NOTHING = frozenset(("", "~", "null"))
_LOADED_BY_VLLM = frozenset(("s3", "gs"))
"""Schemes that vLLM's model loaders read themselves."""


@dataclass(frozen=True)
class LaunchForm(Authored):
    """Where a form of document keeps the parts of a launch that another program builds.

    A path has keys separated by dots; in a list of named items a key selects the item of that name. A path that
    starts with `/` begins at the root of the document, and `{key}` is the key that `*` matched.
    """

    source: str = ""
    """The public rule by which the launch is built: repository and file, or page."""
    like: str = ""
    """Id of another form, whose fields count where this one has none."""
    at: tuple[str, ...] = ()
    """Last keys of the path to the mapping: `-` is an item of a list, `*` any key. Empty for the root."""
    when: Mapping[str, str] = field(default_factory=dict)
    """Pattern of the whole value by path; with `?` before the path the value may also be missing."""
    has: tuple[str, ...] = ()
    """Paths of which at least one exists."""
    without: tuple[str, ...] = ()
    """Paths that do not exist."""
    file: str = ""
    """Pattern of the name of the embedded file, such as a key of a ConfigMap."""
    program: str = ""
    """Id of the program in `engine_programs` that gets the arguments, or `image`; empty for `vllm serve`."""
    model: tuple[str, ...] = ()
    """Paths of the model; the first known value counts."""
    image: tuple[str, ...] = ()
    """Paths of the image; `repository:tag` for two paths that are joined by a colon."""
    args: tuple[str, ...] = ()
    """Paths of lists of arguments, or of one text with several."""
    command: tuple[str, ...] = ()
    """Paths of a command as one text, which the builder splits at blanks and line ends."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The option that a value at a path becomes."""
    settings: tuple[str, ...] = ()
    """Paths of mappings whose keys are options; `.` for the mapping itself."""
    known_settings: tuple[str, ...] = ()
    """Paths of mappings of which only the keys that are options count."""
    own: tuple[str, ...] = ()
    """Keys of settings that are not vLLM's."""
    env: tuple[str, ...] = ()
    """Paths of environment variables."""
    variables: tuple[str, ...] = ()
    """Environment variables that only the builder's script reads."""
    gpus: str = ""
    """Path of the number of GPUs, or of the resources of the container."""
    is_launch_alone: bool = False
    """Whether the mapping is a launch even without a model and arguments."""
    schema_at: tuple[str, ...] = ()
    """Path of the mapping from the root of a file that editors check by a schema; empty for no schema."""


def _completed(table: Mapping[str, LaunchForm], name: str) -> LaunchForm:
    """A form with the fields of the forms that it is like."""
    form, seen = table[name], {name}
    while form.like and form.like not in seen:
        seen.add(form.like)
        other = table[form.like]
        missing = (item.name for item in fields(form) if not getattr(form, item.name) and item.name != "at")
        form = replace(form, **{field: getattr(other, field) for field in missing}, like=other.like)
    return form


@cache
def _by_last_key() -> Mapping[str, tuple[tuple[str, LaunchForm], ...]]:
    """The forms by the last key of their path, `*` for any, "" for the root."""
    forms: dict[str, tuple[tuple[str, LaunchForm], ...]] = {}
    table = load_table("launch_forms", LaunchForm)
    for name in table:
        form = _completed(table, name)
        last = form.at[-1] if form.at else ""
        forms[last] = (*forms.get(last, ()), (name, form))
    return forms


@dataclass(frozen=True)
class FormMatch:
    """A mapping of a document that has a form."""

    name: str
    form: LaunchForm
    node: yaml_places.Mapping
    root: Node
    key: str
    """The key that `*` matched."""

    def at(self, path: str) -> Node | None:
        """The node at a path."""
        path = path.replace("{key}", self.key)
        node: Node | None = self.root if path.startswith("/") else self.node
        for step in _STEP.findall(path.lstrip("/")):
            node = _step(node, step)
        return node

    def scalar(self, paths: tuple[str, ...]) -> Scalar | None:
        """The first scalar with a value at some paths; one that a template fills in only if there is no other."""
        nodes = [node for path in paths if isinstance(node := self.at(path), Scalar) and node.value not in _NOTHING]
        return next((node for node in nodes if not node.has_template), nodes[0] if nodes else None)

    def nodes(self, paths: tuple[str, ...]) -> Iterator[Node]:
        """The nodes that exist at some paths."""
        for path in paths:
            if (node := self.at(path)) is not None:
                yield node

    def is_met(self, file: str) -> bool:
        """Whether the conditions of the form hold."""
        form = self.form
        if form.file and not re.fullmatch(form.file, file):
            return False
        if any(self.at(path) is not None for path in form.without):
            return False
        if form.has and not any(self.at(path) is not None for path in form.has):
            return False
        for path, pattern in form.when.items():
            node = self.at(path.lstrip("?"))
            if node is None and path.startswith("?"):
                continue
            if not isinstance(node, Scalar) or not re.fullmatch(pattern, node.value):
                return False
        return True


def _step(node: Node | None, key: str) -> Node | None:
    if isinstance(node, yaml_places.Mapping):
        return node.get(key)
    for item in node.items[: yaml_places.MAX_VISITED] if isinstance(node, yaml_places.Sequence) else ():
        name = item.get("name") if isinstance(item, yaml_places.Mapping) else None
        if isinstance(name, Scalar) and name.value == key:
            return item
    return None


def matching(path: tuple[str, ...], node: yaml_places.Mapping, root: Node, file: str) -> FormMatch | None:
    """The first form of the catalog that a mapping at a path has."""
    forms = _by_last_key()
    candidates = (*forms.get(path[-1], ()), *forms.get("*", ())) if path else forms.get("", ())
    for name, form in candidates:
        steps = path[len(path) - len(form.at) :]
        if len(steps) != len(form.at) or any(
            expected not in ("*", step) for expected, step in zip(form.at, steps, strict=True)
        ):
            continue
        key = next((step for expected, step in zip(form.at, steps, strict=True) if expected == "*"), "")
        match = FormMatch(name, form, node, root, key)
        if match.is_met(file):
            return match
    return None


def words(match: FormMatch) -> tuple[Word, ...]:
    """The arguments of the launch: the model, then options from values, then the lists of arguments."""
    form = match.form
    made: list[Word] = []
    model = match.scalar(form.model)
    if model is not None:
        made.append(_model(model))
    for path, option in form.options.items():
        value = match.at(path)
        if value is not None:
            made += _option_words(option, _key_of(match, path) or value, value)
    for path in form.settings:
        made += _settings(match.at(path), own=form.own, is_known=False)
    for path in form.known_settings:
        made += _settings(match.at(path), own=form.own, is_known=True)
    for node in match.nodes(form.args):
        made += arguments(node, is_known=bool(form.known_settings))
    return tuple(made[:_MAX_OPTIONS])


def _key_of(match: FormMatch, path: str) -> Scalar | None:
    """The key of the pair at a path."""
    above, _, last = path.rpartition(".")
    mapping = match.at(above) if above else match.root if path.startswith("/") else match.node
    if isinstance(mapping, yaml_places.Mapping):
        return next((key for key, _ in mapping.items() if key.value == last.lstrip("/")), None)
    return None


def _model(scalar: Scalar) -> Word:
    """A model as vLLM gets it: `hf://OWNER/NAME` is OWNER/NAME, and what is mounted has another path."""
    word = plain_word(scalar)
    scheme = _SCHEME.fullmatch(word.value or "")
    if scheme is None or scheme[1] in _LOADED_BY_VLLM:
        return word
    value, _, _ = scheme[2].partition("?")
    is_name = scheme[1] in {"hf", "huggingface"} and re.fullmatch(r"[\w.-]{1,100}/[\w.-]{1,200}", value)
    if not is_name or word.at is None:
        return Word(None, word.start, word.end, word.raw, "mounted")
    begin = len(scheme[1]) + len("://")
    return Word(value, word.at[begin], word.end, word.raw, "", word.at[begin : begin + len(value)])


def plain_word(scalar: Scalar) -> Word:
    """A scalar as a single argument, unknown if a template fills it in."""
    if scalar.has_template:
        return Word(None, scalar.start, scalar.end, scalar.value, "template")
    quote = {"single": "'", "double": '"'}.get(scalar.style, "")
    return Word(scalar.value, scalar.start, scalar.end, f"{quote}{scalar.value}{quote}", "", scalar.text.at[:-1])


def arguments(node: Node, *, is_known: bool) -> list[Word]:
    """The arguments of a list, of a text that a shell or chart splits, or of a mapping by option.

    With `is_known`, only the keys that are options count.
    """
    if isinstance(node, Scalar):
        if node.has_template or node.value in _NOTHING:
            return []
        invocations = shell.read(node.text).invocations
        return list(invocations[0].words) if invocations else []
    if isinstance(node, yaml_places.Mapping):
        return _settings(node, own=(), is_known=is_known)
    return [word for item in node.items if isinstance(item, Scalar) for word in _item(item)]


def command(match: FormMatch) -> tuple[Word, ...]:
    """The command of the form, split at blanks and line ends."""
    text = match.scalar(match.form.command)
    if text is None:
        return ()
    line = Excerpt(re.sub(r"\\\n|\n", lambda end: " " * len(end[0]), text.value), text.text.at)
    invocations = shell.read(line).invocations
    return tuple(invocations[0].words) if invocations else ()


def _item(item: Scalar) -> list[Word]:
    """An item of a list of arguments: a chart that writes it into a script passes `--option value` as two."""
    word = plain_word(item)
    pair = re.fullmatch(r"(--?[A-Za-z][\w.-]{0,200})[ \t]+(\S.*?)\s*", word.value or "", re.DOTALL)
    if not pair or word.at is None:
        return [word]
    begin, end = pair.span(2)
    value = pair[2]
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        begin, end, value = begin + 1, end - 1, value[1:-1]
    name = Word(pair[1], word.at[0], word.at[pair.end(1) - 1] + 1, pair[1], "", word.at[: pair.end(1)])
    return [name, Word(value, word.at[begin], word.at[end - 1] + 1, value, "", word.at[begin:end])]


def _settings(node: Node | None, *, own: tuple[str, ...], is_known: bool) -> list[Word]:
    """Words of a mapping from names of options to values."""
    made: list[Word] = []
    pairs = yaml_places.pairs(node)
    is_dashed = all(key.value.startswith("-") for key, _ in pairs)
    for key, value in pairs:
        option = key.value if is_dashed else option_of_key(key.value)
        if key.value in own or (is_known and (not is_option(option) or isinstance(value, yaml_places.Mapping))):
            continue
        made += _option_words(option, key, value, is_flag_if_empty=not is_known, is_switched=is_known)
    return made


def option_of_key(key: str) -> str:
    """The option that a key in snake, kebab or camel case names."""
    return f"--{_HUMP.sub('-', key).replace('_', '-').lower()}" if _HUMP.search(key) else f"--{key.replace('_', '-')}"


def is_option(option: str) -> bool:
    """Whether some release of vLLM has an option of this spelling."""
    return option in options.past().lives


def schema_release(text: str) -> str | None:
    """Release of the schema that a file for `vllm serve --config` names for editors; None if it names none."""
    match = _SCHEMA.search(text, 0, _MAX_HEAD)
    return match[1] if match else None


def config(root: Node, text: str) -> tuple[Word, ...]:
    """The arguments of a file for `vllm serve --config`.

    Empty unless it names its schema or its keys identify vLLM: two options that only vLLM has, a model's name and one
    such option, or a model's name and three other options. At most one key is misspelt.
    """
    if not isinstance(root, yaml_places.Mapping) or len(root.pairs) > _MAX_OPTIONS or not (pairs := root.items()):
        return ()
    names = [f"--{key.value.replace('_', '-')}" for key, _ in pairs]
    model = next((value for key, value in pairs if key.value in {"model", "model_tag"}), None)
    if schema_release(text) is None and not _is_config(names, model):
        return ()
    begin = pairs[0][0].start
    first = plain_word(model) if isinstance(model, Scalar) else Word(None, begin, begin, "", "on the command line")
    made = [first]
    for (key, value), name in zip(pairs, names, strict=True):
        made += _option_words(name, key, value) if value is not model else []
    return tuple(made)


def _is_config(names: Sequence[str], model: Node | None) -> bool:
    known = [name for name in names if is_option(name)]
    others = [name for name in names if name not in known]
    near = get_close_matches(others[0], options.past().lives, 1, _NEAR) if len(others) == 1 else []
    if len(others) > len(near):
        return False
    # Another program's plural is no typo.
    sure = [name for name in near if get_close_matches(name, others, 1, _NEARER) and others[0] != f"{name}s"]
    telling = {*known, *sure}.difference(word_list("common-options"), ("--model", "--name", "--config"))
    is_named = isinstance(model, Scalar) and _REPOSITORY.fullmatch(model.value) is not None
    return len(telling) + is_named >= _TELLING or (is_named and not others and len(names) >= _FULL)


def _option_words(
    option: str, key: Node, value: Node, *, is_flag_if_empty: bool = False, is_switched: bool = False
) -> list[Word]:
    """An option with its value, as a program makes them of a YAML value.

    An empty text leaves the option out, or is a flag; with `is_switched` also `false` leaves it out.
    """
    name = Word(option, key.start, key.end, option)
    if isinstance(value, Scalar):
        text = value.value
        is_plain = value.style == "plain"
        if not text or (is_plain and text in _NOTHING):
            return [name] if is_flag_if_empty and not is_plain and not _takes_text(option) else []
        if text.lower() in _TRUE and (is_plain or not _takes_text(option)):
            return [name]
        if text.lower() in _FALSE and (is_plain or not _takes_text(option)):
            negated = "" if is_switched else f"--no-{option.removeprefix('--')}"
            return [Word(negated, key.start, key.end, negated)] if is_option(negated) else []
        return [name, plain_word(value)]
    if isinstance(value, yaml_places.Sequence) and all(isinstance(item, Scalar) for item in value.items):
        return [name, *(plain_word(item) for item in value.items if isinstance(item, Scalar))] if value.items else []
    text = json.dumps(_plain(value, [yaml_places.MAX_VISITED]), ensure_ascii=False)
    return [name, Word(text, value.start, value.end, text)]


def _takes_text(option: str) -> bool:
    data = options.load(options.known_releases()[-1])
    known = data.by_string.get(option)
    return known is not None and known.takes_value


def _plain(node: Node, left: list[int]) -> object:
    """A node as JSON; what a template fills in is null."""
    left[0] -= 1
    if left[0] < 0:
        return None
    if isinstance(node, yaml_places.Mapping):
        return {key.value: _plain(value, left) for key, value in node.items()}
    if isinstance(node, yaml_places.Sequence):
        return [_plain(item, left) for item in node.items]
    if node.has_template or (node.style == "plain" and node.value in _NOTHING):
        return None
    if node.style == "plain":
        if node.value.lower() in {"true", "false"}:
            return node.value.lower() == "true"
        for kind in (int, float):
            try:
                return kind(node.value)
            except ValueError:
                continue
    return node.value
