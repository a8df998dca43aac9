"""Random valid commands of a release's parser, and invalid ones with typical mistakes.

As a program it records the verdicts of a Python with vLLM on such commands:

    python tests/command_generator.py PYTHON [--seed N] [--count N] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.options import Option, ReleaseData
from vllm_runbooks.reading.arguments import json_keys

RECORDED = Path(__file__).parent / "benchmarks" / "parsers"
_ASK = Path(__file__).parents[1] / "lib" / "vllm_runbooks" / "lint" / "second_opinion" / "ask_parser.py"

_WORDS = ("auto", "abc", "qwen/qwen3-8b", "/data/models/x", "a b", "1", "none", "tiny.v2", "0.5", "x=y", "é")
_INTEGERS = (0, 1, 2, 3, 4, 8, 16, 64, 256, 1000, 8192, 32768)
_PATHS = ("chat_template",)
"""Options whose value the parser looks up on the disk."""
_MODELS = ("m", "org/model-7b", "/models/llama", "./tiny", "tiny.v2")


class Command(NamedTuple):
    """Words for an entry point, and the mutation applied to them ("valid": none)."""

    entry: str
    words: list[str]
    kind: str


class Generator:
    """Draws commands for one release; the same seed draws the same commands."""

    def __init__(self, release: ReleaseData, other_names: Sequence[str], seed: int) -> None:
        self.release, self.random = release, random.Random(seed)  # noqa: S311 - drawn to be repeated
        self.other_names = sorted(other_names)

    def command(self) -> Command:
        """The next command."""
        draw = self.random
        entry = "serve" if draw.random() < 0.8 or "api_server" not in self.release.entries else "api_server"
        options = [
            o
            for o in self.release.entries[entry]
            if o.strings and o.action != "_HelpAction" and o.dest not in ("config", "model")
        ]
        groups = [self.given(option) for option in draw.sample(options, draw.randrange(6))]
        kind = "valid"
        if draw.random() < 0.55:
            kind = draw.choice(sorted(_MUTATIONS))
            groups = _MUTATIONS[kind](self, options, groups)
            if draw.random() < 0.1:
                groups = _MUTATIONS[draw.choice(sorted(_MUTATIONS))](self, options, groups)
                kind += "+"
        draw.shuffle(groups)
        return Command(entry, self.with_model(entry, groups), kind)

    def with_model(self, entry: str, groups: list[list[str]]) -> list[str]:
        """The words with a model where the entry point accepts it."""
        draw = self.random
        words = [word for group in groups for word in group]
        if entry == "api_server":
            return words if draw.random() < 0.2 else ["--model", draw.choice(_MODELS), *words]
        chance = draw.random()
        if chance < 0.85:
            return [draw.choice(_MODELS), *words]
        if chance < 0.95:
            # After the options, if the last of them has a fixed number of values.
            flags = [group for group in groups if len(group) == 1 and group[0].startswith("--")]
            return (
                [*words, *(flags[0] if flags else []), draw.choice(_MODELS)]
                if flags
                else [draw.choice(_MODELS), *words]
            )
        return words

    def given(self, option: Option) -> list[str]:
        """An option in one of its forms, with a value of its type."""
        draw = self.random
        string = draw.choice(list(option.strings) if draw.random() < 0.4 else [option.name])
        if option.nargs == 0:
            return [string]
        if option.nargs == "?" and draw.random() < 0.3:
            return [string]
        count = (
            draw.randrange(1, 4) if option.nargs in ("+", "*") else option.nargs if isinstance(option.nargs, int) else 1
        )
        values = [self.value(option) for _ in range(count)]
        nested = _dataclass(option.type)
        if nested and self.release.features.get("dotted") and draw.random() < 0.3 and values[0].startswith("{"):
            return [
                word for key, value in json.loads(values[0]).items() for word in self.dotted(string, key, value)
            ] or [string, "{}"]
        if count == 1 and string.startswith("--") and draw.random() < 0.3:
            return [f"{string}={values[0]}"]
        return [string, *values]

    def dotted(self, string: str, key: str, value: Any) -> list[str]:
        """A key of a JSON option as a dotted option."""
        text = value if isinstance(value, str) else json.dumps(value)
        if isinstance(value, list) and value and all(isinstance(item, str) and "," not in item for item in value):
            return [f"{string}.{key}+", ",".join(value)]
        return [f"{string}.{key}", text] if self.random.random() < 0.6 else [f"{string}.{key}={text}"]

    def value(self, option: Option) -> str:
        """A text that the option takes."""
        draw = self.random
        if option.choices:
            choice = draw.choice(list(option.choices))
            return "None" if choice is None else str(choice)
        if option.dest in _PATHS:
            return "{{ messages }}"
        if option.action == "StoreBoolean":
            return draw.choice(["true", "false", "True"])
        if option.action in ("LoRAParserAction", "PromptAdapterParserAction"):
            texts = ["a=/x", "sql=/data/sql"]
            if option.action == "LoRAParserAction":
                texts.append('{"name": "a", "path": "/x", "base_model_name": "b"}')
            return draw.choice(texts)
        return self.of_type(option.type)

    def of_type(self, kind: Any) -> str:
        """A text of an option's type."""
        draw = self.random
        if isinstance(kind, str):
            drawn: dict[str, Callable[[], str]] = {
                "int": lambda: str(draw.choice(_INTEGERS)),
                "float": lambda: draw.choice(["0.9", "1", "0", "1e-3", "2.5", ".5", "inf"]),
                "json": lambda: json.dumps(self.any_json()),
                "human_int": lambda: draw.choice(["8192", "8k", "8K", "1.5k", "2M", " 16 ", "1_000"]),
                "human_int_or_auto": lambda: draw.choice(["8192", "32k", "auto", "-1", "8K"]),
                "int_pairs": lambda: draw.choice(["image=4", "image=4,video=1"]),
                "bool": lambda: "x",
            }
            return drawn.get(kind, lambda: draw.choice(_WORDS))()
        name = next(
            name for name in ("optional", "dataclass", "opaque", "json_or_str", "json_or_pairs") if name in kind
        )
        inner = kind[name]
        if name == "optional":
            return draw.choice(["None", ""]) if draw.random() < 0.1 else self.of_type(inner)
        if name == "dataclass":
            words = kind.get("via", {}).get("words", [])
            if words and draw.random() < 0.3:
                return str(draw.choice(words))
            value = self.json_object(inner)
            return repr(value) if kind.get("via", {}).get("reads") == "literal" else json.dumps(value)
        if name == "opaque":
            right = [text for text, outcome in self.release.conversions.get(inner, {}).items() if "value" in outcome]
            return str(draw.choice(right or ["abc"]))
        if name == "json_or_str" and draw.random() < 0.4:
            return draw.choice(_WORDS)
        return json.dumps(self.any_json())

    def any_json(self) -> Any:
        """A JSON object of no particular type."""
        draw = self.random
        values = [1, 2.5, "x", True, None, [1, 2], {"k": 1}]
        return {f"key{i}": draw.choice(values) for i in range(draw.randrange(3))}

    def json_object(self, name: str, depth: int = 0) -> dict[str, Any]:
        """A JSON object with some of the keys of a class."""
        keys = self.release.objects.get(name, {}).get("keys", {})
        usable = sorted(key for key, entry in keys.items() if entry.get("init", True) and _is_plain(entry["type"]))
        chosen = self.random.sample(usable, min(len(usable), self.random.randrange(4)))
        chosen += [key for key in keys if keys[key].get("required") and key not in chosen]
        return {key: self.json_value(keys[key]["type"], depth) for key in chosen}

    def json_value(self, kind: Any, depth: int = 0) -> Any:
        """A JSON value of a type."""
        draw = self.random
        name, inner = json_keys.form(kind)
        if depth > 6:
            return None
        if name == "optional":
            return None if draw.random() < 0.2 else self.json_value(inner, depth + 1)
        if name in ("union", "chain"):
            return self.json_value(inner[0] if name == "chain" else draw.choice(inner), depth + 1)
        if name == "checked":
            if kind.get("words") and kind.get("words_in", "value") == "value":
                return draw.choice(kind["words"])
            return self.json_value(inner, depth + 1)
        if name == "enum":
            return draw.choice(inner)
        if name == "object":
            return self.json_object(inner, depth + 1)
        if name == "dict":
            return {"k": self.json_value(inner[1], depth + 1)}
        if name in ("list", "set"):
            return [self.json_value(inner, depth + 1) for _ in range(draw.randrange(1, 3))]
        if name == "tuple":
            return [self.json_value(item, depth + 1) for item in inner]
        limits = inner or {}
        if name == "int":
            least = limits.get("ge", limits.get("gt", 0) + 1 if "gt" in limits else 0)
            return int(min(max(draw.choice([1, 2, 4, 16]), least), limits.get("le", 1 << 20)))
        if name == "float":
            return 0.5 if limits.get("le", 1) >= 0.5 else limits["le"]
        return {"bool": draw.random() < 0.5, "null": None, "str": "x"}.get(name, 1)


def _is_plain(kind: Any) -> bool:
    text = json.dumps(kind)
    return not any(word in text for word in ('"never"', '"opaque"', "is-instance"))


def _dataclass(kind: Any) -> str | None:
    if isinstance(kind, dict):
        return kind.get("dataclass") or _dataclass(kind.get("optional"))
    return None


# ---- typical mistakes

_Groups = list[list[str]]


def _one(generator: Generator, options: Sequence[Option], wanted: Callable[[Option], bool]) -> Option:
    return generator.random.choice([option for option in options if wanted(option)] or list(options))


def _misspelt(generator: Generator, options: Sequence[Option], groups: _Groups) -> _Groups:
    draw, option = generator.random, generator.random.choice(list(options))
    string, *values = generator.given(option)
    at = draw.randrange(3, max(len(string), 4))
    change = draw.choice([string[:at] + string[at + 1 :], string[:at] + "x" + string[at:], string + "s", string[:-1]])
    return [*groups, [change, *values]]


def _wrong_choice(generator: Generator, options: Sequence[Option], groups: _Groups) -> _Groups:
    option = _one(generator, options, lambda option: bool(option.choices))
    choice = str((option.choices or ["x"])[0])
    value = generator.random.choice(["fp17", choice.upper(), choice + "x", "", "None", choice[:2]])
    return [*groups, [option.name, value]]


def _missing_value(generator: Generator, options: Sequence[Option], groups: _Groups) -> _Groups:
    return [*groups, [_one(generator, options, lambda option: option.nargs != 0).name]]


def _other_release(generator: Generator, _: Sequence[Option], groups: _Groups) -> _Groups:
    string = generator.random.choice(generator.other_names)
    return [*groups, [string, "4"] if generator.random.random() < 0.6 else [string]]


def _abbreviated(generator: Generator, options: Sequence[Option], groups: _Groups) -> _Groups:
    string, *values = generator.given(generator.random.choice(list(options)))
    key, equals, value = string.partition("=")
    return [*groups, [key[: generator.random.randrange(3, max(len(key), 3) + 1)] + equals + value, *values]]


def _damaged(generator: Generator, options: Sequence[Option], groups: _Groups) -> _Groups:
    """JSON with quotes lost, a comma too many, a wrong key or a wrong type."""
    draw = generator.random
    option = _one(
        generator, options, lambda option: _dataclass(option.type) is not None or "json" in json.dumps(option.type)
    )
    name = _dataclass(option.type)
    value = generator.json_object(name) if name else generator.any_json()
    text = json.dumps(value)
    damage = draw.choice(["single", "comma", "cut", "key", "type", "word", "list", "lost"])
    if damage == "key":
        text = json.dumps({**value, "no_such_key": 1})
    elif damage == "type":
        text = json.dumps({key: draw.choice(["x", 1, [1], {"a": 1}, None, True, 1.5]) for key in value})
    else:
        text = {
            "single": text.replace('"', "'"),
            "comma": text[:-1] + ",}",
            "cut": text[:-1],
            "word": "abc",
            "list": f"[{text}]",
            "lost": text.replace('"', ""),
        }[damage]
    return [*groups, [option.name, text]]


def _wrong_type(generator: Generator, options: Sequence[Option], groups: _Groups) -> _Groups:
    option = _one(generator, options, lambda option: any(word in json.dumps(option.type) for word in ("int", "float")))
    value = generator.random.choice(
        ["abc", "1.5", "8k", "8K", "1.5K", "", "1e3", "0x10", " 8 ", "1_000", "-1", "-0.5", "True", "None", "1,000"]
    )
    return [*groups, [f"{option.name}={value}"] if generator.random.random() < 0.5 else [option.name, value]]


def _underscores(generator: Generator, options: Sequence[Option], groups: _Groups) -> _Groups:
    string, *values = generator.given(generator.random.choice(list(options)))
    key, equals, value = string.partition("=")
    return [*groups, ["--" + key[2:].replace("-", "_") + equals + value, *values]]


def _twice(generator: Generator, options: Sequence[Option], groups: _Groups) -> _Groups:
    option = generator.random.choice(list(options))
    return [*groups, generator.given(option), generator.given(option)]


def _negated(generator: Generator, options: Sequence[Option], groups: _Groups) -> _Groups:
    return [*groups, ["--no-" + generator.random.choice(list(options)).name[2:]]]


def _valued_flag(generator: Generator, options: Sequence[Option], groups: _Groups) -> _Groups:
    name = _one(generator, options, lambda option: option.nargs == 0).name
    value = generator.random.choice(["true", "false", "1", ""])
    return [*groups, [name, value] if generator.random.random() < 0.5 else [f"{name}={value}"]]


def _empty(generator: Generator, options: Sequence[Option], groups: _Groups) -> _Groups:
    return [*groups, [_one(generator, options, lambda option: option.nargs != 0).name, ""]]


def _extra(generator: Generator, _: Sequence[Option], groups: _Groups) -> _Groups:
    return [*groups, [generator.random.choice(["extra", "--", "-", "8000", "--port 8000", "-5", "-x"])]]


def _level(generator: Generator, _: Sequence[Option], groups: _Groups) -> _Groups:
    forms = (
        ["-O3"],
        ["-O", "3"],
        ["-O=2"],
        ["-O.level=3"],
        ["-O.mode", "3"],
        ["-O"],
        ["-tp4"],
        ["-tp=4"],
        ["-tp", "4"],
        ["-cc.mode=3"],
        ["-O9"],
    )
    return [*groups, generator.random.choice(forms)]


def _model_option(generator: Generator, _: Sequence[Option], groups: _Groups) -> _Groups:
    return [*groups, generator.random.choice([["--model", "other"], ["--model=other"], ["--model"], ["--model="]])]


_MUTATIONS: dict[str, Callable[[Generator, Sequence[Option], _Groups], _Groups]] = {
    "misspelt": _misspelt,
    "wrong choice": _wrong_choice,
    "missing value": _missing_value,
    "other release": _other_release,
    "abbreviated": _abbreviated,
    "damaged json": _damaged,
    "wrong type": _wrong_type,
    "underscores": _underscores,
    "twice": _twice,
    "negated": _negated,
    "valued flag": _valued_flag,
    "empty": _empty,
    "extra": _extra,
    "level": _level,
    "model option": _model_option,
}


def commands(release: ReleaseData, other_names: Sequence[str], seed: int, count: int) -> list[Command]:
    """This many commands for a release; `other_names` are options of other releases."""
    generator = Generator(release, other_names, seed)
    return [generator.command() for _ in range(count)]


def all_names() -> list[str]:
    """The long spellings of the options of all releases that are known."""
    known = (options.load(version) for version in options.known_releases())
    return sorted({text for data in known for text in data.by_string if text.startswith("--")})


# ---- verdicts of the real parser


class Judged(NamedTuple):
    """A command and the stage at which the real parser rejected it; None: accepted."""

    entry: str
    kind: str
    stage: str | None
    words: list[str]


def ask(python: str, drawn: Sequence[Command], environment: dict[str, str] | None = None) -> tuple[str, list[Judged]]:
    """The release of the vLLM of a Python, and its verdicts."""
    verdicts: dict[int, str | None] = {}
    version = ""
    for entry in sorted({command.entry for command in drawn}):
        places = [at for at, command in enumerate(drawn) if command.entry == entry]
        request = json.dumps({"entry": entry, "commands": [drawn[at].words for at in places]})
        done = subprocess.run(
            [python, str(_ASK)], input=request, capture_output=True, text=True, check=True, env=environment
        )
        answer = json.loads(done.stdout)
        version = answer["vllm"]
        verdicts |= {at: each["stage"] for at, each in zip(places, answer["verdicts"], strict=True)}
    return version, [Judged(each.entry, each.kind, verdicts[at], each.words) for at, each in enumerate(drawn)]


def record(folder: Path, version: str, judged: Sequence[Judged]) -> Path:
    """Store verdicts, compressed."""
    lines = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in judged]
    path = folder / f"{version}.jsonl.xz"
    path.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9))
    return path


def recorded(path: Path) -> Iterator[Judged]:
    """The verdicts of a file."""
    for line in lzma.decompress(path.read_bytes()).decode().split("\n"):
        yield Judged(*json.loads(line))


def main() -> None:
    """Record the verdicts of one installed vLLM."""
    reader = argparse.ArgumentParser(description=main.__doc__)
    reader.add_argument("python")
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--count", type=int, default=1000)
    reader.add_argument("--out", type=Path, default=RECORDED)
    given = reader.parse_args()
    version, _ = ask(given.python, [Command("serve", ["m"], "valid")])
    drawn = commands(options.load(version), all_names(), given.seed, given.count)
    print(record(given.out, version, ask(given.python, drawn)[1]))


if __name__ == "__main__":
    main()
