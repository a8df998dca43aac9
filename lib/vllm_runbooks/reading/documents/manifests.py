"""Launches of vLLM in YAML files: Docker Compose services, Kubernetes containers, scripts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import islice

from vllm_runbooks.core.excerpt import Excerpt, Replacement
from vllm_runbooks.reading.arguments.as_typed import option_of
from vllm_runbooks.reading.arguments.words import HOLE
from vllm_runbooks.reading.documents import (
    launch_forms,
    launchers,
    placed_words,
    placeholders,
    pods,
    programs,
    unit_files,
    yaml_places,
)
from vllm_runbooks.reading.documents.launch_forms import plain_word
from vllm_runbooks.reading.documents.placed_words import Characters, word_of_characters
from vllm_runbooks.reading.documents.starts import (
    Around,
    ContainerOptions,
    DocumentReading,
    Gpus,
    PublishedPort,
    Setting,
    Within,
)
from vllm_runbooks.reading.documents.yaml_places import Node, Scalar, YamlError
from vllm_runbooks.reading.shell import Trouble, Word
from vllm_runbooks.reading.shell.word_lists import word_list

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")
_LATER = re.compile(f"{placeholders.EXPRESSION.pattern}|{placeholders.VARIABLE.pattern}", re.ASCII)
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][-A-Za-z0-9_.]{0,200})\)")
_PAIR = re.compile(
    r"(--?[A-Za-z][\w.-]{0,200})[ \t]+(\S.*)|(--[A-Za-z][\w.-]{0,200}=[^\s\"'{\[]{1,400})[ \t]+(--[A-Za-z].*)",
    re.DOTALL,
)
"""An option and its value in one text, possibly followed by a further option."""
_NUMBER = re.compile(
    r"[-+]?(?:0x[\da-fA-F_]+|0o?[0-7_]+|[\d_]*\d[\d_]*(?:\.[\d_]*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\.inf|\.nan)"
)
_BOOLEANS = {
    "compose": re.compile(r"true|True|TRUE|false|False|FALSE"),
    "kubernetes": re.compile(r"(?i:true|false|yes|no|on|off)"),
}
"""Plain texts that are no text: Kubernetes still reads `yes` as its older YAML did."""
_PLAIN = re.compile(r"[A-Za-z/][\w./@+-]{0,400}")
"""Text that needs no quotes in YAML, unless it is a reserved word."""
_FURTHER = re.compile(r"(?i)(?:extra|additional|vllm|engine|server|serve|more)_?(?:args|arguments|flags)")
"""Chart keys whose list is appended to the arguments of a launch."""
_CONTAINERS = re.compile(
    r"^(?P<indent>[ ]*+)(?:containers|initContainers):[ ]*+\n(?:(?P=indent)(?:[ ]|-[ ])[^\n]*+(?:\n|\Z)|[ \t]*+\n)++",
    re.MULTILINE,
)
"""A list of containers with its key."""
_MAX_PARTS = 50  # lists of containers that are read in a document that is no YAML
_NESTED = (".yaml", ".yml", ".json", "serveConfigV2", "values", "patch")
"""Ends of keys whose value is a YAML document: files of a ConfigMap, KubeRay's configuration of Ray Serve, values of
Argo CD, patches of Kustomize."""
_FENCED = re.compile(r"^[ \t]{0,8}```", re.MULTILINE)
_UNIT = re.compile(r"^\[(?:Service|Container)\][ \t\r]*$", re.MULTILINE)
_ONE_COMMAND = re.compile(r"\s*[^\s#][^\n#]*\n[ \t]*-[^\n#]*(?:\n[ \t]*(?:[-\d'\"{$][^\n#]*)?)*\Z")
"""A command whose second line is an option."""
_SCRIPT = re.compile(
    r"\s*(?:#!|(?:[A-Za-z_]\w*=\S*\s+)*(?:[\w./-]*/)?(?:vllm|python[\d.]*|docker|podman|sudo|exec|nohup|env|uv|bash|sh|cd|set"
    r"|export|source|pip|apt-get)\s)"
)
"""Beginning of a script."""
_IMAGE_PLACES = (
    ("image",),
    ("image", "name"),
    ("container",),
    ("container", "image"),
    ("resources", "image_id"),
    ("base_image", "image"),
)
"""Keys of the image in which scripts of a task run: dstack, GitLab, GitHub, SkyPilot, Truss."""
_VARIABLES = {"run": ("env", "envs", "secrets"), "script": ("variables",)}
"""Keys of the variables of a script, by the script's key: GitHub and SkyPilot, GitLab."""
_INTEREST = re.compile(
    r"(?i:vllm)|--[a-z]|CUDA_|NCCL_|GLOO_|engine_kwargs|modelURL|modelCommand"
    r"|max[-_]model[-_]len|gpu[-_]memory[-_]util|tensor[-_]parallel|served[-_]model|^model:",
    re.MULTILINE,
)
_MAX_DOCUMENTS = 300  # documents of one stream that are read
_SERVICE = re.compile(r"^[\"']?kind[\"']?:[ \t]*[\"']?Service\b", re.MULTILINE)
_MAX_SERVICES = 20
_DURATION = re.compile(r"(\d{1,7}(?:\.\d{1,9})?)(us|ms|h|m|s)", re.ASCII)
_SECONDS = {"h": 3600, "m": 60, "s": 1, "ms": 0.001, "us": 0.000001}
_MAX_NESTED = 8  # defaults within defaults (`${A:-${B:-…}}`)


def _owners(path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Paths of the mappings around a place that are not in a list, the innermost first."""
    keys = path[: path.index("-")] if "-" in path else path
    return [keys[:size] for size in range(len(keys), -1, -1)]


def read(source: Excerpt, around: Around, reading: DocumentReading, *, file: str = "") -> None:
    """Add the launches of a YAML stream; invalid documents become a trouble.

    `file` is the name of a file within another one.
    """
    count, services = 0, list[Excerpt]()
    for document in yaml_places.documents(source):
        if not _INTEREST.search(document.text):  # YAML is slow to read
            services += [document] if len(services) < _MAX_SERVICES and _SERVICE.search(document.text) else []
            continue
        if count >= _MAX_DOCUMENTS:
            details = {"says": f"more than {_MAX_DOCUMENTS} documents"}
            reading.troubles.append(Trouble("file.not-yaml", document.at[0], document.at[0], details))
            return
        count += 1
        written = document
        if around.is_rendered and not around.within:  # with the statements of the template
            written = Excerpt.whole(reading.file).part(document.at[0], document.at[-1])
        try:
            root = _root(document, written)
        except YamlError as error:
            if not yaml_places.is_near_template(written, error.at):
                reading.troubles.append(Trouble("file.not-yaml", error.at, error.at, {"says": str(error)}))
            _read_parts(document, around, reading)
            continue
        if root is not None:
            manifest = _Manifest(root, around, reading, file)
            if not around.within:
                manifest.read_pods()
            manifest.read()
    for document in services if reading.starts else ():
        with suppress(YamlError):
            reading.services += filter(None, map(pods.service_of, yaml_places.roots(document)))


def _read_parts(document: Excerpt, around: Around, reading: DocumentReading) -> None:
    """Add the launches of the lists of containers in a document that is no YAML as a whole."""
    for match in islice(_CONTAINERS.finditer(document.text), _MAX_PARTS):
        try:
            root = yaml_places.read(document.part(*match.span()))
        except YamlError:
            continue
        if root is not None:
            _Manifest(root, around, reading, "").read()


def _root(document: Excerpt, written: Excerpt) -> Node | None:
    """Root of a document; one that only looks like a template, such as a chat template in it, is read as it is."""
    try:
        return yaml_places.read(document)
    except YamlError:
        if document is written:
            raise
    return yaml_places.read(written, is_template=False)


class _Manifest:
    def __init__(self, root: Node, around: Around, reading: DocumentReading, file: str) -> None:
        self.root, self.around, self.reading, self.file = root, around, reading, file
        self.is_applied = yaml_places.at(root, "apiVersion") is not None and yaml_places.at(root, "kind") is not None
        """Whether the document is handed to Kubernetes as it is, rather than to a template."""
        self.done: set[int] = set()
        self.groups = pods.gpus_of_groups(root)
        self.containers: Mapping[int, pods.PodContainer] = {}
        self.steps: dict[int, Node] = {}
        """Steps of a workflow, by the id of their script."""

    def read_pods(self) -> None:
        """Read the pods and the Service of a whole document of the file."""
        self.containers = pods.containers_of(self.root, is_template=self._is_template(self.root))
        self.reading.services += filter(None, [pods.service_of(self.root)])

    def _is_template(self, node: Node) -> bool:
        return any(mark in self.reading.file[node.start : node.end] for mark in ("{{", "{%"))

    def read(self) -> None:
        root = self.root
        keys = {key.value for key, _ in root.items()} if isinstance(root, yaml_places.Mapping) else set()
        is_compose = "services" in keys and "kind" not in keys
        if words := launch_forms.config(root, self.reading.file):
            around = replace(self.around, kind="config", language="yaml", is_certain=False)
            programs.add_built("serve", words, around, self.reading, is_elided=True)
            return
        count = 0
        for count, (path, node) in enumerate(yaml_places.walk(root), 1):  # noqa: B007 - read behind the loop
            if id(node) in self.done:
                continue
            if isinstance(node, yaml_places.Mapping):
                if is_compose or not self._built(path, node):
                    self._mapping(path, node, is_compose=is_compose)
            elif isinstance(node, Scalar) and (programs.may_start(node.value) or "\n" in node.value):
                self._scalar(path, node)
            elif isinstance(node, yaml_places.Sequence) and path:
                self._list(path, node)
        if count >= yaml_places.MAX_VISITED:
            details = {"what": "values, aliases counted each time"}
            self.reading.troubles.append(Trouble("file.too-much", root.start, root.start + 1, details))

    def _mapping(self, path: tuple[str, ...], node: yaml_places.Mapping, *, is_compose: bool) -> None:
        values = {key.value: value for key, value in node.items()}
        self.steps |= {id(values[key]): node for key in _VARIABLES if key in values}
        if "entryPoint" in values:  # as Amazon ECS spells it
            values["entrypoint"] = values["entryPoint"]
        uses = values.get("uses")
        if isinstance(uses, Scalar) and uses.value.startswith("docker://"):  # a container as a step of GitHub
            places = {"command": ("with", "args"), "entrypoint": ("with", "entrypoint"), "environment": ("env",)}
            found = {key: yaml_places.at(node, *place) for key, place in places.items()}
            values = {"image": uses} | {key: value for key, value in found.items() if value is not None}
        is_service = is_compose and len(path) == 2 and path[0] == "services" and "args" not in values  # as Akash has
        is_container = bool(values.keys() & {"command", "args", "entrypoint"}) and self._is_container(path, values)
        if not is_service and not is_container:
            if values.keys() >= {"op", "path", "value"}:
                self._patch(values)
            image = self._image(node, is_interpolated=False) if {"repository", "tag"} <= values.keys() else None
            if image is not None and all(known.start != image.start for known in self.reading.images[-1:]):
                self.reading.images.append(image)  # of a chart, whose arguments are next to it
            return
        self._report_repeated(node)
        for key in ("command", "args", "entrypoint", "environment", "env"):
            if key in values:
                self.done |= {id(inner) for _, inner in yaml_places.walk(values[key])}
        if (
            is_service
            or (not is_compose and ("entrypoint" in values or "environment" in values))
            or (
                "image" in values
                and _is_of_arguments(values.get("command"))
                and not yaml_places.scalars(values.get("args"))
            )
        ):
            self._service(path[-1] if path else "", values, node, is_service=is_service)
        else:
            self._container(values, node)

    def _built(self, path: tuple[str, ...], node: yaml_places.Mapping) -> bool:
        """Add the launch that a chart, operator or runtime builds from a mapping, if it has such a form."""
        match = launch_forms.matching(path, node, self.root, self.file)
        if match is None:
            return False
        words, form = launch_forms.words(match), match.form
        if form.command:
            words = launch_forms.command(match)
            programs.read_command(words, replace(self.around, language="shell", is_certain=False), self.reading)
            self.done |= {id(part) for part in match.nodes(form.command)}
            return True
        image = self._image_of(match) or self.around.image
        if not words and not form.is_launch_alone:
            return False
        if image is not None:
            self.reading.images.append(image)
        environment: dict[str, Setting] = {}
        handed = len(self.reading.settings)
        for variables in match.nodes(form.env):
            environment |= self._environment(variables, is_interpolated=False)
        for variable in form.variables:  # it holds arguments, which the builder's script passes on
            environment.pop(variable, None)
        self.reading.settings[handed:] = [
            setting for setting in self.reading.settings[handed:] if setting.name not in form.variables
        ]
        name = node.get("name")
        around = replace(
            self.around,
            kind="kubernetes",
            name=name.value if isinstance(name, Scalar) else "",
            environment=environment,
            image=image,
            gpus=_of_form(match.at(form.gpus)) if form.gpus else None,
            language="yaml",
            keys=_keys(node),
            pod=self.containers.get(id(node)),
            builder=match.name,
        )
        for parts in (form.args, form.env, form.settings, form.known_settings):
            for part in match.nodes(parts):
                if part is not node:
                    self.done |= {id(inner) for _, inner in yaml_places.walk(part)}
        whole = Word("", node.start, node.end, "")
        programs.add_built(form.program or "serve", words, around, self.reading, places=[whole, *words])
        return True

    def _image_of(self, match: launch_forms.FormMatch) -> Word | None:
        for path in match.form.image:
            first, _, second = path.partition(":")
            name, tag = match.at(first), match.at(second) if second else None
            if isinstance(name, Scalar) and isinstance(tag, Scalar) and not (name.has_template or tag.has_template):
                text = f"{name.value}:{tag.value}"
                return Word(text, name.start, name.end, text)
            if name is not None and (image := self._image(name, is_interpolated=False)) is not None:
                return image
        return None

    def _patch(self, values: Mapping[str, Node]) -> None:
        """Arguments that a JSON patch of Kustomize puts into a container."""
        target, value = values["path"], values["value"]
        if not isinstance(target, Scalar) or not re.search(r"/args(?:/[-\d]+)?\Z", target.value):
            return
        words = tuple(_expanded(item, {}, is_partial=True) for item in yaml_places.scalars(value))
        if isinstance(value, yaml_places.Sequence) and programs.are_own(words):
            around = replace(self.around, kind="kubernetes", language="yaml", builder="kustomize")
            programs.add_built("image", words, around, self.reading)
            self.done |= {id(item) for item in value.items}

    def _further(self, path: tuple[str, ...], node: yaml_places.Sequence) -> None:
        """Arguments that a chart appends to its own launch."""
        words = [plain_word(item) for item in node.items if isinstance(item, Scalar)]
        if any("vllm" in key.lower() for key in path) or programs.are_own(words):
            self.reading.loose += programs.options_of(words, "bare")

    def _report_repeated(self, node: yaml_places.Mapping) -> None:
        for key in node.repeated():
            self.reading.troubles.append(Trouble("file.key-again", key.start, key.end, {"key": key.value}))

    def _is_container(self, path: tuple[str, ...], values: Mapping[str, Node]) -> bool:
        is_listed = path[-1:] == ("-",) and not {"containers", "initContainers"}.isdisjoint(path)
        if "image" in values or _is_served_by_vllm(values) or is_listed:
            return True
        words = [item.value for key in ("command", "args") for item in yaml_places.scalars(values.get(key))]
        return any(
            "vllm" in word or word.startswith(("--served-model-name", "--tensor-parallel-size")) for word in words
        )

    def _scalar(self, path: tuple[str, ...], node: Scalar) -> None:
        """A text within: a script (`run: |`), a file of a ConfigMap, a unit that a task writes."""
        key = next((part for part in reversed(path) if part != "-"), "")
        around = replace(self.around, within=(*self.around.within, Within("yaml", node.start, node.end)))
        is_text = "\n" in node.value
        if is_text and key.endswith(_NESTED):
            if len(self.around.within) < _MAX_NESTED and not node.has_template:
                inner = DocumentReading(file=self.reading.file)
                cluster = yaml_places.at(self.root, *path[:-1], "rayClusterConfig") if key == "serveConfigV2" else None
                if cluster is not None:
                    around = self._in_cluster(around, cluster)
                read(node.text, around, inner, file=key)
                if inner.starts:
                    self.reading.add(inner)
        elif is_text and (kind := _kind_of(key, node.value)):
            within = replace(around, is_certain=False, depth=around.depth + 1)
            self.reading.parts.append((kind, node.text, within))
        elif is_text and _UNIT.search(node.value):
            unit_files.read(node.text, replace(around, is_certain=False), self.reading)
        elif programs.may_start(node.value) and (path[:1] == ("scripts",) or self._is_script(key, node.value)):
            image = self.around.image or self._image_near(path)
            around = replace(around, environment=self._variables_near(path, key, node), is_certain=False, image=image)
            is_split = key.lower() not in word_list("script-keys") and key.endswith(("_cmd", "command"))
            is_one = is_split and _ONE_COMMAND.match(node.value) is not None and "\\\n" not in node.value
            script = node.text.text.replace("\n", " ") if is_one else node.text.text  # a program splits it, no shell
            programs.read_script(Excerpt(script, node.text.at), around, self.reading)

    def _variables_near(self, path: tuple[str, ...], key: str, script: Node) -> dict[str, Setting]:
        """Variables of a script: of its step or task, of a job or of the whole file; an empty one may be set later."""
        environment: dict[str, Setting] = {}
        owners = [yaml_places.at(self.root, *keys) for keys in reversed(_owners(path))]
        for owner in (*owners, self.steps.get(id(script)) if "-" in path else None):
            for places in _VARIABLES.get(key, ()):
                variables = self._environment(yaml_places.at(owner, places), is_interpolated=False)
                environment |= {name: setting for name, setting in variables.items() if setting.value.value != ""}
        return environment

    def _in_cluster(self, around: Around, cluster: Node) -> Around:
        """Context of the engines of Ray Serve, which run on the workers of a cluster."""
        workers = yaml_places.items(yaml_places.at(cluster, "workerGroupSpecs"))
        specs = [yaml_places.at(worker, "template", "spec", "containers") for worker in workers]
        named = [yaml_places.at(container, "image") for spec in specs for container in yaml_places.items(spec)[:1]]
        image = self._image(named[0], is_interpolated=False) if named else None
        total = self.groups.get(id(cluster))
        group = Gpus(None, total, cluster.start, cluster.start) if total is not None else around.group
        return replace(around, image=image or around.image, group=group)

    def _is_script(self, key: str, text: str) -> bool:
        """Whether a text is run rather than shown: by its key, or because it begins like a script."""
        name = key.lower()
        if name in word_list("script-keys") or name.endswith((".sh", ".bash", "command", "_cmd", "script")):
            return True
        return "\n" in text and name not in word_list("prose-keys") and _SCRIPT.match(text) is not None

    def _list(self, path: tuple[str, ...], node: yaml_places.Sequence) -> None:
        """A list outside a container: a command (`argv:`), or further arguments."""
        if not self._argv(path, node) and _FURTHER.fullmatch(path[-1]):
            self._further(path, node)

    def _argv(self, path: tuple[str, ...], node: yaml_places.Sequence) -> bool:
        words = tuple(plain_word(item) for item in node.items if isinstance(item, Scalar))
        is_flat = len(words) == len(node.items) > 1 and not any("\n" in (word.value or "") for word in words)
        if path[-1].lower() not in word_list("script-keys") or not is_flat:
            return False
        if not programs.may_start(" ".join(word.value or "" for word in words)) or " " in (words[0].value or ""):
            return False
        count = len(self.reading.starts)
        programs.read_command(words, replace(self.around, language="yaml", is_certain=False), self.reading)
        self.done |= {id(item) for item in node.items}
        return len(self.reading.starts) > count

    def _image_near(self, path: tuple[str, ...]) -> Word | None:
        """Image in which a script runs: of the task, of a job or of the whole file."""
        for keys in _owners(path):
            node = yaml_places.at(self.root, *keys)
            for place in _IMAGE_PLACES:
                image = yaml_places.at(node, *place)
                if isinstance(image, Scalar) and "vllm" in image.value:
                    word = self._filled(plain_word(image), is_interpolated=False)
                    is_docker = (word.value or "").startswith("docker:")
                    return placed_words.cut(word, len("docker:")) if is_docker else word
        return None

    def _service(self, name: str, values: Mapping[str, Node], node: yaml_places.Mapping, *, is_service: bool) -> None:
        text = values.get("command") or values.get("entrypoint")
        environment = self._environment(values.get("environment") or values.get("env"), is_interpolated=True)
        image = self._image(values.get("image"), is_interpolated=True)
        around = replace(
            self.around,
            kind="compose",
            name=name,
            environment=environment,
            image=image,
            gpus=_reserved(node, values),
            memory=_memory(values),
            container=self._options(name, values, node, is_service=is_service),
            language="compose" if isinstance(text, Scalar) else "yaml",
            within=(Within("yaml", text.start, text.end),) if isinstance(text, Scalar) else (),
            keys=_keys(node),
        )
        entry = self._compose_words(values.get("entrypoint"))
        words = self._compose_words(values.get("command"))
        # An empty list or text removes the image's entry point; a missing key keeps it.
        is_own = not entry and not _is_emptied(values.get("entrypoint"))
        if is_own and not is_service and isinstance(text, Scalar) and words and programs.is_program(words[0].value):
            is_own, entry, words = False, words, []  # a chart puts it in place of the image's own
        self._run(None if is_own else tuple(entry), tuple(words), image, around, node)

    def _options(
        self, name: str, values: Mapping[str, Node], node: yaml_places.Mapping, *, is_service: bool
    ) -> ContainerOptions:
        """Convert a service to container options; of other programs' tasks, only the ports are certain."""
        names = set(map(option_of, values))
        devices = yaml_places.at(values.get("deploy"), "resources", "reservations")
        if any(yaml_places.at(devices, key) is not None for key in ("devices", "generic_resources")):
            names.add("--gpus")
        ipc, network = (
            value.value if isinstance(value, Scalar) else "?" if value is not None else ""
            for value in (values.get("ipc"), values.get("network_mode"))
        )
        ports = values.get("ports") or values.get("published_ports")  # the second of Ansible
        health = values.get("healthcheck") if is_service else None
        return ContainerOptions(
            names=names,
            is_complete=is_service and "extends" not in values and not self._is_template(node),
            mounts=[text for key in ("volumes", "tmpfs") for text in pods.text_of(values.get(key))],
            ports=[_port(port) for port in yaml_places.items(ports)],
            network=network,
            ipc=ipc,
            health=self._health(name, values, health) if isinstance(health, yaml_places.Mapping) else None,
        )

    def _health(self, name: str, values: Mapping[str, Node], check: yaml_places.Mapping) -> pods.Probe:
        """Parse the health check of a service; its time is known only if another service or autoheal uses it."""
        test, retries = check.get("test"), check.get("retries")
        is_awaited = name in self._awaited or any("autoheal" in text for text in pods.text_of(values.get("labels")))
        count, interval = pods.number(retries, 3), _seconds(check.get("interval"), 30)
        grace, place = _seconds(check.get("start_period"), 0), retries or test or check
        is_known = is_awaited and isinstance(test, (Scalar, yaml_places.Sequence)) and "NONE" not in pods.text_of(test)
        allowed = (
            int(grace + count * interval)
            if is_known and count is not None and interval is not None and grace is not None
            else None
        )
        return pods.Probe("healthcheck", test, None, allowed, place.start, place.end)

    @cached_property
    def _awaited(self) -> frozenset[str]:
        """Services that others wait for until they are healthy."""
        services = yaml_places.at(self.root, "services")
        needs = [yaml_places.at(node, "depends_on") for _, node in yaml_places.pairs(services)]
        awaited = (
            (key.value, yaml_places.at(need, "condition")) for item in needs for key, need in yaml_places.pairs(item)
        )
        return frozenset(name for name, how in awaited if isinstance(how, Scalar) and how.value == "service_healthy")

    def _container(self, values: Mapping[str, Node], node: yaml_places.Mapping) -> None:
        environment = self._environment(values.get("env"), is_interpolated=False)
        variables = {key: setting.value.value for key, setting in environment.items()}
        name = values.get("name")
        image = self._image(values.get("image") or values.get("container"), is_interpolated=False)
        around = replace(
            self.around,
            kind="kubernetes",
            name=name.value if isinstance(name, Scalar) else "",
            environment=environment,
            image=image,
            gpus=_limits(values.get("resources")),
            memory=_memory(values),
            group=Gpus(None, self.groups[id(node)]) if id(node) in self.groups else None,
            pod=self.containers.get(id(node)),
            language="yaml",
            keys=_keys(node),
        )
        command = values.get("command")
        if isinstance(command, Scalar) and re.search(r"\s", command.value.strip()) and "args" not in values:
            script = replace(around, language="shell", within=(Within("yaml", command.start, command.end),))
            programs.read_script(command.text, script, self.reading)  # Kubernetes has lists: a program's own recipe
            return
        is_partial = "envFrom" in values or "image" not in values
        entry, words = (
            tuple(
                _expanded(scalar, variables, is_partial=is_partial) for scalar in yaml_places.scalars(values.get(key))
            )
            for key in ("command", "args")
        )
        count, is_served = len(self.reading.starts), _is_served_by_vllm(values)
        self._run(entry or None, words, image, around, node, is_served=is_served)
        if is_served:
            self.reading.change_starts(count, lambda start: replace(start, is_elided=True))

    def _run(
        self,
        entry: tuple[Word, ...] | None,
        words: tuple[Word, ...],
        image: Word | None,
        around: Around,
        node: yaml_places.Mapping,
        *,
        is_served: bool = False,
    ) -> None:
        count = len(self.reading.starts)
        if image is not None:
            self.reading.images.append(image)
        programs.run_image(entry, words, image, around, self.reading, is_ours=is_served)
        self.reading.change_starts(
            count,
            lambda start: start if start.words or start.prefix else replace(start, start=node.start, end=node.end),
        )
        if count == len(self.reading.starts):
            return
        places = {(word.start, word.end) for start in self.reading.starts[count:] for word in start.words}
        for key in ("entrypoint", "command", "args"):
            if isinstance(listed := node.get(key), yaml_places.Sequence):
                self._report_items(listed, places, around.kind)
        if around.kind == "kubernetes":
            self._report_values(node.get("env"))

    def _report_items(self, listed: yaml_places.Sequence, places: set[tuple[int, int]], kind: str) -> None:
        for item in listed.items:
            if not isinstance(item, Scalar):
                self._report_collection(item, kind)
                continue
            if item.has_template:
                continue
            pair = _PAIR.match(item.value) if (item.start, item.end) in places else None
            if pair:
                option, value = pair[1] or pair[3], (pair[2] or pair[4]).strip()
                details = {"option": option, "value": value[:80]}
                edits = self._parted(listed, item, option, value)
                self.reading.troubles.append(Trouble("file.two-words-in-item", item.start, item.end, details, edits))
            elif self.is_applied or kind == "compose":
                self._report_type(item, kind)

    def _report_collection(self, item: yaml_places.Mapping | yaml_places.Sequence, kind: str) -> None:
        """An item that YAML reads as a mapping, such as unquoted JSON."""
        text = self.reading.file[item.start : item.end].rstrip()
        if kind not in _READERS or not text.startswith("-") or "\n" in text:
            return
        details = {"value": text[:80], "type": "mapping", "by": _READERS[kind]}
        end = item.start + len(text)
        edits = (Replacement(item.start, item.start, "'"), Replacement(end, end, "'")) if "'" not in text else ()
        self.reading.troubles.append(Trouble("file.not-a-text", item.start, end, details, edits))

    def _report_values(self, listed: Node | None) -> None:
        for item in yaml_places.items(listed) if self.is_applied else []:
            value = yaml_places.at(item, "value")
            if isinstance(value, Scalar):
                self._report_type(value, "kubernetes")

    def _report_type(self, item: Scalar, kind: str) -> None:
        """A number or boolean where only text is accepted."""
        is_number = _NUMBER.fullmatch(item.value) is not None
        if item.style != "plain" or item.has_template or not (is_number or _BOOLEANS[kind].fullmatch(item.value)):
            return
        details = {"value": item.value[:80], "type": "number" if is_number else "boolean", "by": _READERS[kind]}
        edits = (Replacement(item.start, item.start, '"'), Replacement(item.end, item.end, '"'))
        self.reading.troubles.append(Trouble("file.not-a-text", item.start, item.end, details, edits))

    def _parted(self, listed: yaml_places.Sequence, item: Scalar, option: str, value: str) -> tuple[Replacement, ...]:
        """The item split into several, if certain."""
        values = [value]
        if value[:1] in {"'", '"'} and value[:1] == value[-1:] and len(value) > 1:
            values = [value[1:-1]]
        elif value[:1] not in {"{", "["}:
            values = value.split()
        if item.style in {"literal", "folded"} or any(re.search(r"[\\'\"\n]", text) for text in values):
            return ()
        words = [option, *(text if _PLAIN.fullmatch(text) and not _is_typed(text) else f'"{text}"' for text in values)]
        if listed.is_flow:
            quoted = [text if text[:1] == '"' else f'"{text}"' for text in words]
            return (Replacement(item.start, item.end, ", ".join(quoted)),)
        line = self.reading.file.rfind("\n", 0, item.start) + 1
        lead = self.reading.file[line : item.start]
        if not re.fullmatch(r"[ \t]*-[ \t]+", lead):
            return ()
        return (Replacement(item.start, item.end, f"\n{lead}".join(words)),)

    def _image(self, node: Node | None, *, is_interpolated: bool) -> Word | None:
        if isinstance(node, yaml_places.Mapping):
            name, tag = node.get("repository"), node.get("tag")
            if not isinstance(name, Scalar) or not isinstance(tag, Scalar) or name.has_template or tag.has_template:
                return None
            return Word(f"{name.value}:{tag.value}", name.start, name.end, f"{name.value}:{tag.value}")
        if not isinstance(node, Scalar):
            return None
        return self._filled(plain_word(node), is_interpolated=is_interpolated)

    def _environment(self, node: Node | None, *, is_interpolated: bool) -> dict[str, Setting]:
        settings: list[Setting] = []
        if isinstance(node, yaml_places.Mapping):
            for key, value in node.items():
                if isinstance(value, Scalar):
                    word = self._value(value, is_interpolated=is_interpolated)
                    settings.append(Setting(key.value, word, key.start, value.end, "map"))
            self._report_repeated(node)
        elif isinstance(node, yaml_places.Sequence):
            for item in node.items:
                settings += self._item(item, is_interpolated=is_interpolated)
        self.reading.settings += settings
        return {setting.name: setting for setting in settings}

    def _item(self, item: Node, *, is_interpolated: bool) -> list[Setting]:
        if isinstance(item, Scalar):
            name, equals, _ = item.value.partition("=")
            if not equals:
                handed = Word(None, item.start, item.end, item.value, "handed on")
                return [Setting(item.value, handed, item.start, item.end, "list")] if _NAME.fullmatch(name) else []
            cut = len(name) + 1
            text = item.text.part(cut, len(item.value))
            last = item.end - (item.style in {"single", "double"})
            word = Word(text.text, text.at[0], last, text.text, "", text.at[:-1])
            filled = self._filled(word, is_interpolated=is_interpolated)
            return [Setting(name, filled, item.start, item.end, "list", pair=(item.start, item.end))]
        if isinstance(item, yaml_places.Mapping):
            named, value = item.get("name"), item.get("value")
            if isinstance(named, Scalar):
                if isinstance(value, Scalar):
                    word = self._value(value, is_interpolated=is_interpolated)
                else:
                    word = Word(None, named.start, named.end, "", "given by the cluster")
                return [Setting(named.value, word, item.start, max(named.end, word.end), "entry")]
        return []

    def _value(self, scalar: Scalar, *, is_interpolated: bool) -> Word:
        if scalar.style == "plain" and scalar.value in {"", "~", "null"}:
            return Word(None, scalar.start, scalar.end, scalar.value, "handed on")
        return self._filled(plain_word(scalar), is_interpolated=is_interpolated)

    def _filled(self, word: Word, *, is_interpolated: bool) -> Word:
        if word.value is None or "$" not in word.value or word.at is None:
            return word
        if not is_interpolated:
            return _without_placeholders(word)
        characters, why = self._interpolated(Excerpt(word.value, [*word.at, word.end]))
        made = word_of_characters(characters, word.start, word.end, word.raw, why or "unset variable")
        if made.value is None and "$$" in word.value:  # a script, whose text is what compose hands on
            kept = [(character, place) for character, place in characters if character]
            return replace(made, raw="".join(sign for sign, _ in kept), at=tuple(place for _, place in kept))
        return made

    def _interpolated(self, text: Excerpt) -> tuple[Characters, str]:
        """A compose file's text with its variables replaced, and why a part is unknown."""
        characters: Characters = []
        reasons: list[str] = []
        bad = _interpolate(text, 0, len(text.text), characters, reasons, depth=0)
        if bad is not None:
            start, end = text.at[bad], text.at[min(bad + 1, len(text.text))]
            self.reading.troubles.append(Trouble("file.compose-interpolation", start, end, {}))
        return characters, reasons[0] if reasons else ""

    def _compose_words(self, node: Node | None) -> list[Word]:
        """The arguments that compose makes of a command: a list's items, or a text split by its own rules."""
        if isinstance(node, yaml_places.Sequence):
            return [
                self._filled(plain_word(item), is_interpolated=True) for item in node.items if isinstance(item, Scalar)
            ]
        if not isinstance(node, Scalar) or (node.style == "plain" and node.value in {"", "~", "null"}):
            return []
        if node.has_template:
            return _split(_without_templates(node.text), "template", [])
        characters, why = self._interpolated(node.text)
        troubles: list[Trouble] = []
        words = _split(characters, why, troubles)
        self.reading.troubles += troubles
        return words


_READERS = {"compose": "docker compose", "kubernetes": "Kubernetes"}


def _kind_of(key: str, text: str) -> str:
    """The format of a text with launches that is neither YAML nor a script; empty for any other text."""
    if key.endswith(".py"):
        return "python"
    return "page" if _FENCED.search(text) and programs.may_start(text) else ""


def _is_typed(text: str) -> bool:
    """Whether YAML reads a plain text as another type."""
    return bool(_NUMBER.fullmatch(text) or re.fullmatch(r"(?i:true|false|yes|no|on|off|y|n|null)", text))


def _is_served_by_vllm(values: Mapping[str, Node]) -> bool:
    """Whether a model of KServe's is served by a runtime with vLLM, which the arguments are added to."""
    names = (
        yaml_places.at(values.get("modelFormat"), "name"),
        values.get("runtime") if "modelFormat" in values else None,
    )
    return "args" in values and any(isinstance(name, Scalar) and "vllm" in name.value.lower() for name in names)


def _without_templates(text: Excerpt) -> Characters:
    """The characters of a text with one that is unknown for each expression of a template."""
    characters: Characters = []
    done = 0
    for match in _LATER.finditer(text.text):
        characters += zip(text.text[done : match.start()], text.at[done : match.start()], strict=True)
        characters.append((HOLE, text.at[match.start()]))
        done = match.end()
    return [*characters, *zip(text.text[done:], text.at[done:-1], strict=True)]


def _without_placeholders(word: Word) -> Word:
    """A word of a manifest that another program fills in before it is applied: `${NAME}` is unknown."""
    if word.value is None or word.at is None or not placeholders.VARIABLE.search(word.value):
        return word
    characters = _without_templates(Excerpt(word.value, [*word.at, word.end]))
    return word_of_characters(characters, word.start, word.end, word.raw, "placeholder")


def _is_of_arguments(node: Node | None) -> bool:
    """Whether a command replaces the image's arguments: it is text, or begins with an option."""
    if isinstance(node, Scalar):
        return True
    return isinstance(node, yaml_places.Sequence) and any(
        item.value.startswith("-") for item in yaml_places.scalars(node)[:1]
    )


def _is_emptied(node: Node | None) -> bool:
    if isinstance(node, Scalar):
        return not node.value and node.style != "plain"
    return isinstance(node, yaml_places.Sequence) and not node.items


def _keys(node: yaml_places.Mapping) -> dict[str, tuple[int, int]]:
    if node.is_flow:
        return {}
    return {key.value: (key.start, value.end) for key, value in node.pairs if isinstance(key, Scalar)}


def _interpolate(
    text: Excerpt, start: int, end: int, made: Characters, reasons: list[str], *, depth: int
) -> int | None:
    """Append the text with its variables replaced.

    Returns the index of a `$` that Compose rejects, or None.
    """
    index, bad = start, None
    whole = text.text
    while index < end:
        character = whole[index]
        if character != "$":
            made.append((character, text.at[index]))
            index += 1
            continue
        following = whole[index + 1 : index + 2]
        name = _NAME.match(whole, index + 1, end)
        if following == "$":
            made.append(("$", text.at[index]))
            index += 2
        elif name:
            made.append((HOLE, text.at[index]))
            reasons.append(f"unset variable {name[0]}")
            index = name.end()
        elif following == "{":
            stop = _closing(whole, index + 1, end)
            name = _NAME.match(whole, index + 2, stop)
            if stop >= end or not name or depth >= _MAX_NESTED:
                return index
            if whole[name.end() : name.end() + 1] == ".":  # no variable of compose: another program fills it in
                made.append((HOLE, text.at[index]))
                reasons.append("placeholder")
                index = stop + 1
                continue
            operator = re.match(r":?[-?+]|\Z", whole[name.end() : stop][:2] if name.end() < stop else "")
            if not operator:
                return index
            if operator[0] in {":-", "-"}:
                made.append(("", text.at[index]))  # start of the word; its characters follow
                inner = _interpolate(text, name.end() + len(operator[0]), stop, made, reasons, depth=depth + 1)
                bad = bad if inner is None else inner
                made.append(("", text.at[stop]))  # and ends here
            else:
                made.append((HOLE, text.at[index]))
                reasons.append(f"unset variable {name[0]}")
            index = stop + 1
        else:  # `$(`, `$@` and a lone `$` stay as they are
            made.append(("$", text.at[index]))
            index += 1
    return bad


def _closing(text: str, start: int, end: int) -> int:
    depth = 0
    for match in re.compile(r"\$\{|[{}]").finditer(text, start, end):
        if match[0] == "}":
            depth -= 1
            if depth <= 0:
                return match.start()
        elif match[0] == "${" or match.start() == start:
            depth += 1
    return end


def _split(characters: Characters, why: str, troubles: list[Trouble]) -> list[Word]:
    """Split a command like Compose.

    An escaped line end is part of a word, and an operator ends the command.
    """
    words: list[Word] = []
    word: Characters = []
    begun: int | None = None
    """Index of the first character of the word."""
    quote = ""
    is_escaped = False

    def finish(index: int) -> None:
        nonlocal begun
        if begun is not None:
            raw = "".join(character for character, _ in characters[begun:index])
            start, end = characters[begun][1], characters[index - 1][1] + 1
            words.append(word_of_characters(word, start, end, raw, why or "unset variable"))
            word.clear()
            begun = None

    index = 0
    for index, (character, place) in enumerate(characters):
        is_blank = not quote and not is_escaped and bool(character) and character in " \t\r\n"
        if is_blank:
            finish(index)
            continue
        if begun is None:
            begun = index
            if character == "#":
                troubles.append(Trouble("file.compose-comment", place, place + 1, {}))
        if is_escaped:
            is_escaped = False
            if character in "\r\n":
                troubles.append(Trouble("file.compose-backslash", place - 1, place, {}))
            word.append((character, place))
        elif character == "\\" and quote != "'":
            is_escaped = True
        elif quote or not character:
            if character and character == quote:
                quote = ""
            elif character:
                word.append((character, place))
        elif character in "\"'":
            quote = character
        elif character in ";&|<>":
            troubles.append(Trouble("file.compose-operator", place, place + 1, {"operator": character}))
            if begun == index:
                begun = None
            break
        else:
            word.append((character, place))
    else:
        index = len(characters)
    if quote and begun is not None:
        at = characters[begun][1]
        troubles.append(Trouble("file.compose-quote", at, characters[-1][1] + 1, {"quote": quote}))
    finish(index)
    return words


def _expanded(scalar: Scalar, variables: Mapping[str, str | None], *, is_partial: bool) -> Word:
    """A Kubernetes argument: `$(NAME)` becomes the container's own variable, else it stays.

    With `is_partial` the container has further variables elsewhere.
    """
    word = plain_word(scalar)
    if word.value is not None and placeholders.VARIABLE.search(word.value):
        return _without_placeholders(word)
    if word.value is None or "$" not in word.value or word.at is None:
        return word
    characters: Characters = []
    done, why = 0, ""
    for match in _REFERENCE.finditer(word.value):
        characters += zip(word.value[done : match.start()], word.at[done : match.start()], strict=True)
        value = "$" if match[0] == "$$" else variables.get(match[1], None if is_partial else match[0])
        if value is None:
            why, value = why or f"unset variable {match[1]}", HOLE
        characters += [(character, word.at[match.start()]) for character in value]
        done = match.end()
    characters += zip(word.value[done:], word.at[done:], strict=True)
    return word_of_characters(characters, word.start, word.end, word.raw, why or "unset variable")


def _count(node: Scalar) -> int | None:
    return int(node.value) if node.value.isdecimal() and len(node.value) < 5 else None


def _reserved(node: yaml_places.Mapping, values: Mapping[str, Node]) -> Gpus | None:
    gpus = values.get("gpus")
    if isinstance(gpus, Scalar):
        return Gpus(None, _count(gpus), gpus.start, gpus.end)
    for device in yaml_places.items(values.get("resourceRequirements")):  # of an ECS task
        count = yaml_places.at(device, "value")
        if isinstance(count, Scalar) and pods.text_of(yaml_places.at(device, "type")) == ["GPU"]:
            return Gpus(None, _count(count), count.start, count.end)
    for device in (
        *yaml_places.items(yaml_places.at(node, "deploy", "resources", "reservations", "devices")),
        *yaml_places.items(gpus),
    ):
        if not isinstance(device, yaml_places.Mapping):
            continue
        ids, count = yaml_places.scalars(device.get("device_ids")), device.get("count")
        if any("$" in item.value or "," in item.value for item in ids):  # a variable may hold several
            return Gpus(None, None, ids[0].start, ids[-1].end)
        if ids:
            return Gpus(tuple(item.value for item in ids), len(ids), ids[0].start, ids[-1].end)
        if isinstance(count, Scalar):
            return Gpus(None, _count(count), count.start, count.end)
        return Gpus(None, None, device.start, device.end)
    return None


def _port(port: Node) -> PublishedPort:
    """A published port of a service, in its short or its long form."""
    if isinstance(port, Scalar):
        return launchers.published(port.value, port.start, port.end)
    address, target = yaml_places.at(port, "host_ip"), yaml_places.at(port, "target")
    protocol, place = yaml_places.at(port, "protocol"), target or port
    return PublishedPort(
        address.value if isinstance(address, Scalar) else "",
        pods.number(yaml_places.at(port, "published")),
        pods.number(target),
        protocol is None or pods.text_of(protocol) == ["tcp"],
        place.start,
        place.end,
    )


def _seconds(node: Node | None, default: float) -> float | None:
    """A duration of compose, such as `1m30s`."""
    if node is None:
        return default
    text = node.value if isinstance(node, Scalar) else ""
    parts = _DURATION.findall(text)
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        return None
    return sum(float(amount) * _SECONDS[unit] for amount, unit in parts)


def _of_form(node: Node | None) -> Gpus | None:
    """The GPUs of a value: a number, a profile with one (`l4:2`), or a container's resources."""
    if isinstance(node, yaml_places.Mapping):
        return _limits(node)
    count = re.fullmatch(r"(?:[\w.-]{1,100}:)?(\d{1,4})", node.value) if isinstance(node, Scalar) else None
    return Gpus(None, int(count[1]), node.start, node.end) if count and node is not None else None


def _memory(values: Mapping[str, Node]) -> str:
    """Memory limit of a Compose service or of a container of a pod, as written."""
    deployed = yaml_places.at(values.get("deploy"), "resources", "limits", "memory")
    limits = (values.get("mem_limit"), deployed, yaml_places.at(values.get("resources"), "limits", "memory"))
    return next((limit.value for limit in limits if isinstance(limit, Scalar)), "")


def _limits(resources: Node | None) -> Gpus | None:
    limit = pods.gpu_limit(resources)
    count = _count(limit) if limit is not None else None
    return Gpus(None, count, limit.start, limit.end) if limit is not None and count is not None else None
