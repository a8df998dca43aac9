"""Validate commands with the vLLM of this Python; a stand-alone program, never imported.

    PYTHON ask_parser.py < request.json > verdicts.json

Request: {"entry": "serve" | "api_server", "commands": [["MODEL", "--port", "8000"], ...],
"check_config": false}.

Answer: {"vllm": "0.11.0", "python": "3.12.3", "verdicts": [{"stage": S, "error": null |
"TypeError", "says": "the message"}, ...]}, where S is null (accepted), "parse", "validate" (the
checks of `vllm serve`) or "config" (the engine's configuration, only with check_config). Code of a
model's repository or named by the command is never run: then the stage is null and the message
begins with "not checked".

Exit status: 0 with verdicts, 2 for an invalid request, 3 if vLLM can't be imported.
"""

# ruff: noqa: T201 - a stand-alone program prints its output
from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

_SAYS = 2000
_CLI_ARGS = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.openai.cli_args",
)
_NOT_CHECKED = "not checked: uses plugins or custom classes"
_NOT_TRUSTED = "not checked: the model's configuration is code of its repository"
_CODE = ("middleware", "logits_processors", "model_class_overrides")
_CODE_ENDINGS = ("_plugin", "_cls", "_module_path")
"""Options and keys that name code to import."""
_EXECUTORS = ("ray", "mp", "uni", "external_launcher")
"""vLLM's own executors; any other name is a class to import."""
_MAX_NESTED = 4
_PARSERS = ("vllm.utils.argparse_utils", "vllm.utils")
_COMMAND_LINES = ("vllm.entrypoints.cli.main", "vllm.scripts")
"""Modules of several releases, the newest first."""


class _Built(BaseException):
    """Raised instead of parsing, with the parser that vLLM's command line has built."""

    def __init__(self, parser: Any) -> None:
        self.parser = parser


def _first(modules: tuple[str, ...], name: str) -> Any:
    error: Exception = ImportError(f"no {name}")
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as found:
            # The module's own error is more useful than that it does not exist at an older path.
            error = error if isinstance(found, ModuleNotFoundError) and found.name in modules else found
    raise error


def _command_line() -> Any:
    parser_class = _first(_PARSERS, "FlexibleArgumentParser")
    main = _first(_COMMAND_LINES, "main")

    def built(self: Any, *_: Any) -> None:
        raise _Built(self)

    parse_args, argv = parser_class.parse_args, sys.argv
    parser_class.parse_args, sys.argv = built, ["vllm", "serve"]
    try:
        main()
    except _Built as caught:
        return caught.parser
    finally:
        parser_class.parse_args, sys.argv = parse_args, argv
    raise ImportError("vLLM's command line builds no parser")


def _parser(entry: str) -> Any:
    if entry == "api_server":
        return _first(_CLI_ARGS, "make_arg_parser")(_first(_PARSERS, "FlexibleArgumentParser")())
    try:
        return _command_line()
    except (Exception, SystemExit):  # noqa: BLE001 - any subcommand may fail to import: `serve` alone, then
        parser = _first(_PARSERS, "FlexibleArgumentParser")(description="vLLM CLI")
        serve = importlib.import_module("vllm.entrypoints.cli.serve")
        serve.ServeSubcommand().subparser_init(parser.add_subparsers(required=False, dest="subparser"))
        return parser


def _defaults(parser: Any, words: list[str]) -> dict[str, Any]:
    """Values of the options without arguments: some defaults are classes of vLLM."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return dict(vars(parser.parse_args(words)))
    except (Exception, SystemExit):  # noqa: BLE001 - then nothing counts as a default
        return {}


def _names_code(options: dict[str, Any], defaults: dict[str, Any], depth: int = 0) -> bool:
    for name, value in options.items():
        if not value:
            continue
        is_code = str(name) in _CODE or str(name).endswith(_CODE_ENDINGS)
        is_code |= name == "distributed_executor_backend" and value not in _EXECUTORS
        if is_code and value != defaults.get(name):
            return True
        inner = value if isinstance(value, dict) else getattr(value, "__dict__", None)
        if isinstance(inner, dict) and depth < _MAX_NESTED:
            default = defaults.get(name)
            default = default if isinstance(default, dict) else getattr(default, "__dict__", {})
            if _names_code(inner, default, depth + 1):
                return True
    return False


def _verdict(parser: Any, validate: Any, words: list[str], *, defaults: dict[str, Any] | None) -> dict[str, str | None]:
    """Validate one command; with the options' defaults also build its configuration."""
    stage = "parse"
    is_trusting = False
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            args = parser.parse_args(words)
            stage = "validate"
            validate(args)
            if defaults is not None:
                stage = "config"
                if _names_code(vars(args), defaults):
                    return {"stage": None, "error": None, "says": _NOT_CHECKED}
                is_trusting = bool(getattr(args, "trust_remote_code", False))
                args.trust_remote_code = False
                if getattr(args, "model_tag", None) is not None:
                    args.model = args.model_tag
                engine_args = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs
                engine_args.from_cli_args(args).create_engine_config()
    except SystemExit as end:
        if not end.code:
            return {"stage": None, "error": None, "says": ""}
        lines = printed.getvalue().strip().splitlines()
        return {"stage": stage, "error": "SystemExit", "says": lines[-1][:_SAYS] if lines else ""}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a refusal, of whatever kind, is the answer
        if is_trusting and "trust_remote_code" in str(error):
            return {"stage": None, "error": None, "says": _NOT_TRUSTED}
        return {"stage": stage, "error": type(error).__name__, "says": str(error)[:_SAYS]}
    return {"stage": None, "error": None, "says": ""}


def main() -> int:
    """Answer the request on standard input; returns the exit status."""
    # A program's own folder is searched first: its modules must not shadow others of the same name.
    folder = Path(__file__).resolve().parent
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != folder]
    # vLLM and its libraries print to standard output: only the answer goes to the real one.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        request = json.load(sys.stdin)
        entry, commands = request["entry"], request["commands"]
        check_config = bool(request.get("check_config"))
        is_right = entry in ("serve", "api_server")
        is_right &= all(isinstance(word, str) for words in commands for word in words)
    except (ValueError, KeyError, TypeError):
        is_right = False
    if not is_right:
        print("cannot read the request: it is described at the head of ask_parser.py", file=sys.stderr)
        return 2
    try:
        parser = _parser(entry)
        validate = _first(_CLI_ARGS, "validate_parsed_serve_args")
        version = importlib.import_module("vllm").__version__
    except Exception as error:  # noqa: BLE001 - an installation may be broken in any way
        print(f"cannot import vLLM: {type(error).__name__}: {error}".splitlines()[0], file=sys.stderr)
        return 3
    first = ["serve"] if entry == "serve" else []
    defaults = _defaults(parser, [*first, "m"] if first else []) if check_config else None
    verdicts = [_verdict(parser, validate, first + words, defaults=defaults) for words in commands]
    with answer:
        json.dump({"vllm": version, "python": sys.version.split()[0], "verdicts": verdicts}, answer)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    # vLLM may have started threads that never end.
    os._exit(status)
