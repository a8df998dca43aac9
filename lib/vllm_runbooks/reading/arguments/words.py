"""Rewrite the words of a command like vLLM before argparse, with their positions, by `features`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vllm_runbooks.reading.arguments import json_keys
from vllm_runbooks.reading.arguments.conditions import UNKNOWN
from vllm_runbooks.reading.arguments.values import human_number

HOLE = "\ufffc"
"""An unknown value after `--option=`."""
_MAX_KEYS = 60
"""Deepest path of keys; deeper ones are accepted."""
_MODEL = re.compile(r"--model(?:=.+|$)")
_CONFIG = re.compile(r"--config(?:=.+|$)")
_SERVED = re.compile(r"--served[-_]model[-_]name(?:=.+|$)")


class KeyPart(NamedTuple):
    """A dotted key of a JSON option."""

    path: tuple[str, ...]
    word: int
    value_word: int


@dataclass(frozen=True)
class Token:
    text: str | None
    """None if unknown."""
    word: int
    shift: int = 0
    """Offset in that word."""
    made: Any = UNKNOWN
    """Value of JSON put together from keys."""
    parts: tuple[KeyPart, ...] = ()

    @property
    def is_made(self) -> bool:
        return bool(self.parts)


class Remark(NamedTuple):
    """A problem found while rewriting arguments; `kind` and `says` as in `Problem`."""

    kind: str
    word: int
    option_word: int
    option: str
    says: Mapping[str, str]


@dataclass
class Rewritten:
    tokens: list[Token] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    consumed: dict[int, tuple[str, str, int]] = field(default_factory=dict)
    """Role, option and option's word of the words that vLLM removes before argparse."""
    has_unread_file: bool = False

    def tell(self, kind: str, word: int, option: str, option_word: int | None = None, **says: str) -> None:
        self.remarks.append(Remark(kind, word, word if option_word is None else option_word, option, says))


class _Settings(NamedTuple):
    features: Mapping[str, Any]
    entry: str
    config: Mapping[str, Any] | None
    negations: Callable[[str], bool]


def rewrite(
    words: Sequence[str | None],
    features: Mapping[str, Any],
    entry: str,
    config: Mapping[str, Any] | None,
    negations: Callable[[str], bool],
) -> Rewritten:
    """Rewrite the arguments like the release's parser.

    `negations` tests whether it has `--no-KEY`.
    """
    done = Rewritten()
    tokens = [Token(word, index) for index, word in enumerate(words)]
    if entry == "serve":
        tokens = _with_model(tokens, features, done)
        _require_model_first(tokens, features, done)
    tokens = _with_config(tokens, _Settings(features, entry, config, negations), done)
    tokens = list(_spelled(tokens, features, done))
    done.tokens = _with_keys(tokens, features, done) if features.get("dotted") else tokens
    return done


def _with_model(tokens: list[Token], features: Mapping[str, Any], done: Rewritten) -> list[Token]:
    at = next((i for i, token in enumerate(tokens) if token.text is not None and _is_model(token.text, features)), None)
    if at is None:
        return tokens
    how, text, word = features.get("serve_model"), tokens[at].text or "", tokens[at].word
    apart = next((token.word for token in tokens if token.text == "--model"), None)
    if how == "refused" and apart is not None:
        message = "the model is the first argument of vllm serve"
        done.tell("conflict", apart, "--model", message=message, dests="model")
        return tokens
    effects = {"late": "refused when started", "moved": "taken as the first argument"}
    done.tell("model-option", word, "--model", effect=effects.get(str(how), "taken as an option"))
    if how != "moved":
        return tokens
    if text == "--model" and at + 1 == len(tokens):
        done.tell("missing-value", word, "--model", expected="one value")
        return tokens[:at]
    done.consumed[word] = ("option", "--model", word)
    is_apart = text == "--model"
    given = text[len("--model=") :]
    model = tokens[at + 1] if is_apart else Token(None if given == HOLE else given, word, len("--model="))
    return [model, *tokens[:at], *tokens[at + (2 if is_apart else 1) :]]


def _require_model_first(tokens: list[Token], features: Mapping[str, Any], done: Rewritten) -> None:
    """Some releases accept a served name only after a model."""
    texts = [token.text or "" for token in tokens]
    if not features.get("served_name_needs_model") or not texts or not texts[0].startswith("-"):
        return
    named = next((i for i, text in enumerate(texts) if _SERVED.match(text)), None)
    if named is not None and not any(_CONFIG.match(text) for text in texts):
        message, dests = "the model must be the first argument of vllm serve", "model served_model_name"
        done.tell("conflict", tokens[named].word, "--served-model-name", message=message, dests=dests)


def _is_model(text: str, features: Mapping[str, Any]) -> bool:
    # Releases that look for the equals sign alone differ from the others in `--model=` without a value only.
    return _MODEL.match(text) is not None or (text == "--model=" and not features.get("served_name_needs_model"))


def _with_config(tokens: list[Token], settings: _Settings, done: Rewritten) -> list[Token]:
    places = [i for i, token in enumerate(tokens) if token.text == "--config"]
    for token in tokens:
        if token.text is not None and token.text.startswith("--config="):
            done.tell("not-read", token.word, "--config", message="only --config FILE in two words is read")
    if not places:
        return tokens
    at = places[0]
    word = tokens[at].word
    if len(places) > 1:
        again = tokens[places[1]].word
        done.tell("conflict", again, "--config", message="more than one configuration file", dests="config")
    if at + 1 == len(tokens):
        done.tell("missing-value", word, "--config", expected="one value")
        return tokens[:at]
    file = tokens[at + 1]
    done.consumed[word] = ("option", "--config", word)
    done.consumed[file.word] = ("value", "--config", word)
    if file.text is not None and file.text.split(".")[-1] not in ("yaml", "yml"):
        expected = "a .yaml or .yml file"
        done.tell("wrong-type", file.word, "--config", word, expected=expected, value=file.text[:120], at="0")
    if settings.config is None:
        done.has_unread_file = True
        more = []
    else:
        more = [Token(text, file.word) for text in config_words(settings.config, settings.features, settings.negations)]
    head = _config_head(tokens, at, more, settings, done)
    return tokens[:head] + more + tokens[head:at] + tokens[at + 2 :]


def _config_head(tokens: list[Token], at: int, more: list[Token], settings: _Settings, done: Rewritten) -> int:
    """Number of words before those of the file; reports a missing model."""
    text = tokens[0].text
    has_first = text is None or not text.startswith("-")
    if settings.entry != "serve":
        return 0 if settings.features.get("config_without_command") and not has_first else min(1, at)
    if settings.features.get("config_model"):
        if not has_first and settings.config is not None and not any(token.text == "--model" for token in more):
            done.tell("required", tokens[at].word, "--config", what="model_tag")
        return 1 if has_first else 0
    if at == 0:
        done.tell("required", tokens[at].word, "--config", what="model_tag")
    return min(1, at)


def config_words(
    config: Mapping[str, Any], features: Mapping[str, Any], negations: Callable[[str], bool]
) -> Iterator[str]:
    """Words for the content of a config file."""
    for key, value in config.items():
        if isinstance(value, bool):
            if value or (features.get("config_no") and negations(f"--no-{key}")):
                yield f"--{key}" if value else f"--no-{key}"
        elif isinstance(value, list) and features.get("config_lists"):
            yield from [f"--{key}", *map(str, value)] if value else ()
        else:
            is_json = isinstance(value, dict) and features.get("config_objects")
            yield from (f"--{key}", json.dumps(value) if is_json else str(value))


def _spelled(tokens: list[Token], features: Mapping[str, Any], done: Rewritten) -> Iterator[Token]:
    """Replace underscores by dashes and `-O` levels by options."""
    level = features.get("level", "")
    for at, token in enumerate(tokens):
        text = token.text
        if text is None or not text.startswith("-"):
            yield token
        elif features.get("help_search") and text.startswith("--help="):
            yield Token("--help", token.word)
        elif text.startswith("--"):
            dashed = _dashed(text, features)
            if dashed != text:
                done.tell("underscore", token.word, dashed.split("=", 1)[0], written=text.split("=", 1)[0])
            yield Token(dashed, token.word, token.shift)
        elif level and text.startswith("-O") and text != "-O":
            yield from _leveled(token, text, features, level, done)
        elif level and text == "-O" and at + 1 < len(tokens) and tokens[at + 1].text in ("0", "1", "2", "3"):
            yield Token(level, token.word)
        else:
            yield token


def _dashed(text: str, features: Mapping[str, Any]) -> str:
    key, equals, value = text.partition("=")
    # The releases' pattern starts after the first two dashes, wherever they are.
    start, dot, keys = key.partition(".") if features.get("underscores") == "before_dot" else (key, "", "")
    return start.replace("_", "-") + dot + keys + equals + value


def _leveled(token: Token, text: str, features: Mapping[str, Any], level: str, done: Rewritten) -> Iterator[Token]:
    if text[2] == ".":
        how = features.get("level_dot")
        if how == "kept":
            yield token
            return
        if how == "-cc":
            done.tell("deprecated", token.word, "-O", near="-cc" + text[2:])
            yield Token("-cc" + text[2:], token.word, token.shift)
            return
    shift = 3 if text[2] == "=" else 2
    if level.startswith("--"):
        yield Token(level, token.word)
        yield Token(text[shift:], token.word, shift)
    else:
        yield Token(f"{level}={text[shift:]}", token.word, shift - len(level) - 1)


def _with_keys(tokens: list[Token], features: Mapping[str, Any], done: Rewritten) -> list[Token]:
    """Move the dotted JSON keys to the end, as one JSON value per option."""
    kept: list[Token] = []
    made: dict[str, tuple[dict[str, Any], list[KeyPart], int]] = {}
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        split = _keyed(token)
        if split is None:
            kept.append(token)
            continue
        keys, equals, text = split
        value_word = token.word
        value_text: str | None = text
        if not equals:
            if at == len(tokens):
                is_number = keys.lstrip("-.").replace(".", "").isdigit()
                hint: dict[str, Any] = {"hint": "negative-number"} if is_number else {}
                done.tell("missing-value", token.word, keys.split(".")[0], expected="one value", **hint)
                break
            value_text, value_word = tokens[at].text, tokens[at].word
            done.consumed.setdefault(value_word, ("value", keys.split(".")[0], token.word))
            at += 1
        done.consumed.setdefault(token.word, ("option", keys.split(".")[0], token.word))
        is_list = keys.endswith("+")
        option, *path = (keys[:-1] if is_list else keys).split(".")
        value = _key_value(value_text, is_list=is_list, reads_units=bool(features.get("dotted_human_numbers")))
        whole, parts, _ = made.setdefault(option, ({}, [], token.word))
        if _put(whole, path, value):
            done.tell("duplicate", token.word, option, key=json_keys.dotted(path))
        parts.append(KeyPart(tuple(path), token.word, value_word))
    for option, (whole, parts, word) in made.items():
        kept.append(Token(option, word))
        kept.append(Token(_text(whole), word, 0, whole, tuple(parts)))
    return kept


def _keyed(token: Token) -> tuple[str, str, str] | None:
    """Split `--option.key=value`; None for any other word."""
    text = token.text
    if text is None or token.is_made or not text.startswith("-") or "." not in text:
        return None
    keys, equals, value = text.partition("=")
    return (keys, equals, value) if "." in keys else None


def _key_value(text: str | None, *, is_list: bool, reads_units: bool) -> Any:
    if text is None or text == HOLE:
        return UNKNOWN
    if is_list:
        return text.split(",")
    value, fault = json_keys.read(text)
    if fault is None:
        return value
    number = human_number(text) if reads_units else None
    return text if number is None else number


def _put(whole: dict[str, Any], path: list[str], value: Any) -> bool:
    """Set a value at a path; lists are extended. Return whether another value was replaced."""
    if len(path) > _MAX_KEYS:
        return False
    is_replaced = False
    level = whole
    for key in path[:-1]:
        inner = level.get(key)
        if not isinstance(inner, dict):
            is_replaced |= key in level
            inner = level[key] = {}
        level = inner
    key = path[-1]
    if isinstance(value, list) and isinstance(level.get(key), list):
        level[key].extend(value)
    elif isinstance(value, dict) and isinstance(level.get(key), dict):
        level[key] = _merged(level[key], value)
    else:
        is_replaced |= key in level
        level[key] = value
    return is_replaced


def _merged(old: dict[str, Any], new: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    merged = {**old, **new}
    for key in old.keys() & new.keys():
        if isinstance(old[key], dict) and isinstance(new[key], dict) and depth < _MAX_KEYS:
            merged[key] = _merged(old[key], new[key], depth + 1)
        elif isinstance(old[key], list) and isinstance(new[key], list):
            merged[key] = old[key] + new[key]
    return merged


def _text(value: Any) -> str | None:
    try:
        return json.dumps(value)
    except (TypeError, RecursionError):
        return None
