"""The MCP server: the tools with their descriptions, and the pages as resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context, ListRoots, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.mcpserver.resources import FunctionResource
from mcp_types import CallToolResult, InputRequiredResult, ListRootsResult, TextContent, ToolAnnotations
from pydantic import Field, ValidationError

from vllm_runbooks.core.display import one_line
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.redaction import redact
from vllm_runbooks.mcp import tools
from vllm_runbooks.mcp.roots import Roots
from vllm_runbooks.mcp.tools import Reply

if TYPE_CHECKING:
    import click

_INSTRUCTIONS = """\
Finds out why a vLLM launch failed, and checks launches before they run. Nothing is written or launched.
Failed or hanging launch: diagnose with the log; add the launch command and the GPUs, and the fix is checked and written
out. A command, script or manifest: lint; for another vLLM release: migrate. Does a model fit: plan. A running server:
probe. An id (oom.weights), rule or option: explain; words: search.
Every fix comes with its cost and with checks: "passed" or "unknown: why". Where the cause is unknown, the answer says
which output to get instead; don't guess one."""
_LONGEST_ERROR = 1_000
_SCHEME = "vllm-runbooks://"

_Path = Annotated[str, Field(description="Path below a granted folder. Pass either this or text.")]
_Gpus = Annotated[str, Field(description="GPUs by name, as in 2xRTX3090 or A100-80GB, or local for this host's.")]
_Release = Annotated[str, Field(description="vLLM release, as in 0.19.0; default: that of the input, else the newest.")]
_Details = Annotated[bool, Field(description="Return everything instead of the summary.")]


def _requested_roots(context: Context[Any, Any], names: Iterable[str]) -> ListRoots | ListRootsResult:
    """Ask the client for its roots if a path is given and the client has roots."""
    capabilities = context.client_capabilities
    has_roots = capabilities is not None and capabilities.roots is not None
    return ListRoots() if has_roots and any(name.strip() for name in names) else ListRootsResult(roots=[])


async def _for_path(context: Context[Any, Any], path: str) -> ListRoots | ListRootsResult:
    return _requested_roots(context, [path])


async def _for_log(context: Context[Any, Any], path: str, command_path: str) -> ListRoots | ListRootsResult:
    return _requested_roots(context, [path, command_path])


async def _for_model(context: Context[Any, Any], model: str) -> ListRoots | ListRootsResult:
    return _requested_roots(context, [model])


_RootsForPath = Annotated[ListRootsResult, Resolve(_for_path)]
_RootsForLog = Annotated[ListRootsResult, Resolve(_for_log)]
_RootsForModel = Annotated[ListRootsResult, Resolve(_for_model)]


class _Server(MCPServer[Any]):
    """A server whose errors are one line, and which rejects arguments that a tool does not have."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        for tool in await self.list_tools():
            known = tool.input_schema["properties"]
            if tool.name == name and (unknown := sorted(set(arguments) - set(known))):
                return _error(f"{name} has no argument {unknown[0]!r}; use {', '.join(known)}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            first = error.__cause__.errors()[0]
            message = first["msg"].replace("valid tuple", "list")  # JSON has no tuples
            return _error(f"{name}: {'.'.join(map(str, first['loc']))}: {message}")


def server(folders: Sequence[Path], group: click.Group | None) -> MCPServer[Any]:
    """The server; tools may read files below `folders` and below the roots of the client.

    `group` is the command line, whose commands the search finds.
    """
    served = _Server(
        "vllm-runbooks",
        title="vLLM runbooks",
        instructions=_INSTRUCTIONS,
        version=metadata.version("vllm-runbooks"),
        log_level="ERROR",
    )
    _add_tools(served, lambda granted: Roots.of(folders, (str(root.uri) for root in granted.roots)), group)
    _add_resources(served)
    return served


def _add_tools(served: MCPServer[Any], roots: Callable[[ListRootsResult], Roots], group: click.Group | None) -> None:
    def tool(*, is_open: bool = False) -> Callable[[Any], Any]:
        hints = ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=is_open
        )
        return served.tool(annotations=hints)

    @tool()
    async def diagnose(
        *,
        granted: _RootsForLog,
        path: Annotated[str, Field(description="Log file, folder of logs of one launch, or evidence pack.")] = "",
        text: Annotated[str, Field(description="The log itself, if it is not a file.")] = "",
        command: Annotated[str, Field(description="Launch command or script of this log, as text.")] = "",
        command_path: Annotated[str, Field(description="The same as a path.")] = "",
        gpus: _Gpus = "",
        vllm: _Release = "",
        start: Annotated[int, Field(description="Launch in the log, from 1; default: the last.", ge=0)] = 0,
        details: _Details = False,
    ) -> CallToolResult:
        """Find the root cause in the log of a vLLM launch, and its fixes.

        The summary names the cause with its line and the first fix; details add the explanation, how to verify it, all
        fixes and figures. With command and gpus, the fix is checked and the whole new command written out.
        """
        return await _called(
            partial(
                tools.diagnose, roots(granted), path=path, text=text, command=command, command_path=command_path,
                gpus=gpus, vllm=vllm, start=start, details=details,
            )
        )  # fmt: skip

    @tool()
    async def lint(
        *,
        granted: _RootsForPath,
        path: _Path = "",
        text: Annotated[str, Field(description="Script, command, manifest, unit, page or Python program.")] = "",
        vllm: _Release = "",
        gpus: _Gpus = "",
        details: _Details = False,
    ) -> CallToolResult:
        """Check vLLM commands in a script, manifest, program or page against a release; shows the safe fixes as a diff.

        Without vllm or gpus, those in the lint settings of the file's project apply. Details add what is launched, and
        issues of style. The file is not changed; secrets are shown as [secret-1].
        """
        return await _called(
            partial(tools.lint, roots(granted), path=path, text=text, vllm=vllm, gpus=gpus, details=details)
        )

    @tool()
    async def migrate(
        *,
        granted: _RootsForPath,
        from_release: Annotated[str, Field(description="Release that the script was written for.")],
        to_release: Annotated[str, Field(description="Release to move it to.")],
        path: _Path = "",
        text: Annotated[str, Field(description="The script or manifest itself.")] = "",
        gpus: _Gpus = "",
        details: _Details = False,
    ) -> CallToolResult:
        """Move a script to another vLLM release: what breaks, which defaults changed, and the diff.

        The new text is `fixed` in the structured result. The file is not changed.
        """
        return await _called(
            partial(
                tools.migrate, roots(granted), path=path, text=text, from_release=from_release, to_release=to_release,
                gpus=gpus, details=details,
            )
        )  # fmt: skip

    @tool(is_open=True)
    async def plan(
        *,
        granted: _RootsForModel,
        model: Annotated[str, Field(description="Name as on the Hub, or path of a folder with config.json.")],
        gpus: _Gpus,
        options: Annotated[
            tuple[str, ...], Field(description="Options of vllm serve, one word each: ['--max-model-len', '16k'].")
        ] = (),
        vllm: _Release = "",
        find: Annotated[str, Field(description="Or: context, concurrency, gpus or utilization.")] = "",
        online: Annotated[
            bool, Field(description="Ask the Hub for a model that neither the catalog nor this host's cache has.")
        ] = False,
        details: _Details = False,
    ) -> CallToolResult:
        """Check whether a model fits the GPUs; without a parallel size, all layouts are ranked.

        If it does not fit, the cheapest changes that make it fit are listed. Details: memory per GPU, sources.
        """
        return await _called(
            partial(
                tools.plan, roots(granted), model=model, gpus=gpus, options=options, vllm=vllm, find=find,
                online=online, details=details,
            )
        )  # fmt: skip

    @tool(is_open=True)
    async def probe(
        *,
        url: Annotated[str, Field(description="As http://127.0.0.1:8000.")],
        model: Annotated[str, Field(description="Model for the requests; default: the first one served.")] = "",
        gpus: _Gpus = "",
        details: _Details = False,
    ) -> CallToolResult:
        """Check a running vLLM server: this calls the URL with health, metrics and a few short completion requests.

        VLLM_API_KEY is sent to this host alone.
        """
        return await _called(partial(tools.probe, url=url, model=model, gpus=gpus, details=details))

    @tool()
    async def explain(
        *,
        name: Annotated[str, Field(description="Symptom (oom.weights), lint rule, option or environment variable.")],
        vllm: Annotated[str, Field(description="Release for an option; default: the newest.")] = "",
        details: Annotated[bool, Field(description="Add the examples and references.")] = False,
    ) -> CallToolResult:
        """Describe a symptom, a lint rule, or an option of vLLM by release: values, default, history, replacement.

        The first word of an id (oom) lists its members.
        """
        return await _called(lambda: _pages().explain(name, vllm=vllm, details=details))

    @tool()
    async def search(
        *,
        query: Annotated[str, Field(description="Words, or a printed line.")],
    ) -> CallToolResult:
        """Find symptoms, rules, options, models, GPUs, commands and pages by words."""
        return await _called(lambda: _pages().search(query, group))


def _add_resources(served: MCPServer[Any]) -> None:
    def page(name: str) -> str:
        try:
            reply: Reply = _pages().explain(name, vllm="", details=True)
        except InputError as error:
            raise ResourceNotFoundError(one_line(str(error))) from None
        return reply.text

    for kind, word in (("symptom", "symptoms"), ("rule", "rules")):
        about, text = f"All {word} with their titles.", partial(lambda kind: _pages().index(kind), kind)
        served.add_resource(FunctionResource(uri=f"{_SCHEME}{word}", name=word, description=about, fn=text))
        template = served.resource(
            f"{_SCHEME}{kind}/{{name}}", name=kind, description=f"The page of a {kind}.", mime_type="text/markdown"
        )
        template(page)


def _pages() -> ModuleType:
    """The module, which loads the catalog, when it is needed."""
    from vllm_runbooks.mcp import pages

    return pages


_LOCK = anyio.Lock()
"""One call at a time: the redaction has a state for each answer."""


async def _called(make: Callable[[], Reply]) -> CallToolResult:
    async with _LOCK:
        return await anyio.to_thread.run_sync(_result, make)


def _result(make: Callable[[], Reply]) -> CallToolResult:
    redact.forget()
    try:
        reply = make()
    except RunbooksError as error:
        return _error(str(error))
    except OSError as error:
        return _error(f"{error.filename or 'the input'}: {error.strerror or 'cannot be read'}; check the path")
    except (RecursionError, MemoryError):
        return _error("the text is nested too deeply, or too large; pass the part that matters")
    return CallToolResult(content=[TextContent(type="text", text=reply.text)], structured_content=reply.document)


def _error(message: str) -> CallToolResult:
    text = one_line(redact.redact_text(message))[:_LONGEST_ERROR]
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
