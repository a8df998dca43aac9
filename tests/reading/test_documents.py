"""Find every vLLM launch in every kind of file, with the place of each word, and never crash."""

from __future__ import annotations

import ast
import itertools
import random
from textwrap import indent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from cost import LIMIT, growth
from rows import in_one_test
from vllm_runbooks.core.excerpt import Excerpt, LineIndex, applied
from vllm_runbooks.reading import documents
from vllm_runbooks.reading.arguments import as_typed
from vllm_runbooks.reading.documents import (
    LaunchFile,
    formats,
    glued,
    images,
    manifests,
    pages,
    programs,
    python_calls,
    starts,
    unit_files,
    yaml_places,
)
from vllm_runbooks.reading.documents.starts import Around, DocumentReading, WrittenLaunch
from vllm_runbooks.reading.shell import Trouble, Word
from vllm_runbooks.reading.shell.troubles import Spans
from vllm_runbooks.reading.shell.word_lists import word_list
from written_documents import WRITTEN

SHELL = r"""#!/bin/bash
export CUDA_VISIBLE_DEVICES=0,1
PORT=${PORT:-8000}
nohup vllm serve org/model --port $PORT --limit-mm-per-prompt '{"image": 4}' > log 2>&1 &
for i in 0 1; do
  CUDA_VISIBLE_DEVICES=$i python3 -m vllm.entrypoints.openai.api_server --model org/m --port 900$i &
done
"""
DOCKER = r"""docker run --rm -it --gpus '"device=2,3"' -e HF_TOKEN -e VLLM_LOGGING_LEVEL=DEBUG -p 8000:8000 \
  -v /data:/root/.cache --ipc=host --name vllm vllm/vllm-openai:v0.9.2 \
  --model org/model --max-model-len 8192
sudo docker run --entrypoint /bin/bash image -c "export NCCL_DEBUG=INFO; vllm serve org/m2 --port 1"
podman run --device nvidia.com/gpu=all rocm/vllm:rocm6.3_vllm_0.8.5_2025 vllm serve org/m3
"""
COMPOSE = r"""x-env: &env
  HF_TOKEN: ${HF_TOKEN}
  VLLM_LOGGING_LEVEL: "INFO"
services:
  one:
    image: vllm/vllm-openai:v0.9.2
    environment: *env
    command: --model org/model --port ${PORT:-8000} --kv-transfer-config '{"a":1}'
    deploy: {resources: {reservations: {devices: [{driver: nvidia, device_ids: ["0", "1"], capabilities: [gpu]}]}}}
  two:
    image: vllm/vllm-openai:latest
    environment:
      - CUDA_VISIBLE_DEVICES=2
      - HF_TOKEN
    command: >
      org/model
      --limit-mm-per-prompt "{\"image\": 4}"
      --gpu-memory-utilization 0.9
  three:
    image: other
    entrypoint: ["bash", "-c"]
    command:
      - |
        export NCCL_DEBUG=WARN
        vllm serve $${MODEL} \
          --port 8002
"""
KUBERNETES = r"""apiVersion: v1
kind: ConfigMap
data:
  run.sh: |
    vllm serve org/in-a-file --port 1
---
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  leaderWorkerTemplate:
    leaderTemplate:
      spec:
        containers:
        - name: leader
          image: vllm/vllm-openai:v0.8.5.post1
          command: ["/bin/sh", "-c"]
          args: ["vllm serve org/model --max-model-len $LEN"]
          env:
          - {name: LEN, value: "4096"}
          - name: HF_TOKEN
            valueFrom: {secretKeyRef: {name: a, key: b}}
          resources: {limits: {nvidia.com/gpu: "2"}}
        {{- if .Values.second }}
        - name: second
          image: "{{ .Values.image }}"
          command: [vllm, serve, "$(MODEL)", '--port=8000']
          args: [--max-model-len={{ .Values.length }}]
          env: [{name: MODEL, value: org/other}]
        {{- end }}
"""
UNIT = r"""[Unit]
Description=vLLM
[Service]
Environment="HF_HOME=/data/hf cache" PORT=8000
Environment=VLLM_LOGGING_LEVEL=DEBUG
ExecStartPre=-/usr/bin/docker pull vllm/vllm-openai:v0.9.0
ExecStart=/opt/venv/bin/vllm serve org/model \
    --port ${PORT} \
    # a comment between
    --kv-transfer-config '{"a": 1}' --served-model-name %i a\x41\sb 100%%
"""
UNIT_BASH = r"""[Service]
ExecStart=/bin/bash -c 'source env && exec vllm serve org/model --override "{\\"a\\": 1}"'
"""
PYTHON = r"""import os, subprocess, sys
from vllm import LLM as Engine
os.environ["VLLM_LOGGING_LEVEL"] = "DEBUG"
os.environ.setdefault('CUDA_VISIBLE_DEVICES', "0,1")
ünï = 1; MODEL = "org/model"; more = {"dtype": "half", "max_model_len": 4 * 1024}
llm = Engine(MODEL, tensor_parallel_size=2, **more, seed=ünï)
subprocess.Popen([sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL, "--port", str(80)])
os.system('A=b vllm serve org/é '
          '--port 2')
class LLM: ...
LLM("mine")
"""
DOCKERFILE = r"""ARG TAG=v0.9.1
FROM vllm/vllm-openai:${TAG}
ENV HF_HOME=/data NAME="a b"
# a comment
ENTRYPOINT ["python3", "-m", \
    "vllm.entrypoints.openai.api_server"]
CMD ["--model", "org/model", "--kv-transfer-config", "{\"a\": 1}"]
"""
PAGE = r"""# 部署

使用以下命令启动:vllm serve org/inline --port 80 然后访问。 `vllm serve` is a command; vllm serve is one too.
Parameters: `vllm serve org/span --port 81`

>我用的命令是:
>python3 -m vllm.entrypoints.openai.api_server \
  --model org/quoted \
  --port 82

1. In a list:

   ```console
   $ export HF_HOME=/data
   $ vllm serve org/listed \
   >   --port 83
   INFO started on --port 1
   ```

    vllm serve org/indented --port 84

~~~
vllm serve <model> --port 85 ...
~~~

```bash
--tensor-parallel-size 2   # bare
# --swap-space 4 was here
```

| Option | Meaning |
|---|---|
| `--enable-thing on` | `VLLM_USE_V1` | `0` |

```python
engine = AsyncEngineArgs(model=path, gpu_memory_utilization=0.75, ...)
```
"""
HTML = """<!DOCTYPE html><html><body><pre class="language-bash"><code><span>vllm</span> serve org/model \\
  --limit-mm-per-prompt &#39;{&quot;image&quot;: 4}&#39; &amp;
</code></pre><p>$ vllm serve org/second --port 4</p></body></html>
"""
REST = """Title
=====

.. code-block:: console
   :linenos:

   $ vllm serve org/model --port 1

Then::

   vllm serve org/second \\
     --port 2
"""
NOTEBOOK = (
    r'{"cells": [{"cell_type": "markdown", "source": ["Run `vllm serve org/m --port 1`\n"]}, {"cell_type": "code", '
    r'"source": ["from vllm import LLM\n", "LLM(\"org/model\", dtype=\"half\")\n", "!vllm serve org/n --port 2\n"], '
    r'"outputs": [{"text": ["vllm serve org/no\n"]}]}, {"cell_type": "code", "source": "%%bash\nvllm serve org/o '
    r'--port 3 &"}], "nbformat": 4}'
)
GLUED = (
    "节点 1:vllm/vllm-openai:v0.7.2 镜像。bash run_cluster.sh vllm/vllm-openai:v0.7.2192.168.1.1--head /data -e "
    "VLLM_HOST_IP=192.168.1.1-e NCCL_SOCKET_IFNAME=eth0 -e GLOO_SOCKET_IFNAME=eth1docker exec -ti node bash"
    'cd /models# 目录vllm serve "Qwen2.5-1.5B"--tensor-parallel-size 2--max-model-len 128--gpu_memory_utilization=0.5'
    'root@user:~# vllm serve "Qwen2.5-1.5B" --max-model-len 128 --gpu_memory_utilization 0.5INFO 02-2321:55:00 x.py\n'
)
TEXTS = {
    "run.sh": SHELL,
    "docker.sh": DOCKER,
    "compose.yaml": COMPOSE,
    "k.yaml": KUBERNETES,
    "vllm.service": UNIT,
    "bash.service": UNIT_BASH,
    "start.py": PYTHON,
    "Dockerfile": DOCKERFILE,
    "page.md": PAGE,
    "page.html": HTML,
    "page.rst": REST,
    "n.ipynb": NOTEBOOK,
    "glued.md": GLUED,
}


def seen(found: WrittenLaunch) -> tuple[Any, ...]:
    """Kind, entry point and words of a launch; an unknown word is `?`."""
    words = " ".join("?" if word.value is None else word.value for word in found.words)
    return found.kind, found.entry, words


FOUND = {
    "run.sh": [
        ("shell", "serve", 'org/model --port 8000 --limit-mm-per-prompt {"image": 4}'),
        ("shell", "api_server", "--model org/m --port 9000"),
        ("shell", "api_server", "--model org/m --port 9001"),
    ],
    "docker.sh": [
        ("docker", "image", "--model org/model --max-model-len 8192"),
        ("docker", "serve", "org/m2 --port 1"),
        ("docker", "serve", "org/m3"),
    ],
    "compose.yaml": [
        ("compose", "image", '--model org/model --port 8000 --kv-transfer-config {"a":1}'),
        ("compose", "image", 'org/model --limit-mm-per-prompt {"image": 4} --gpu-memory-utilization 0.9'),
        ("compose", "serve", "? --port 8002"),
    ],
    "k.yaml": [
        ("shell", "serve", "org/in-a-file --port 1"),
        ("kubernetes", "serve", "org/model --max-model-len 4096"),
        ("kubernetes", "serve", "org/other --port=8000 ?"),
    ],
    "vllm.service": [
        (
            "systemd",
            "serve",
            'org/model --port 8000 --kv-transfer-config {"a": 1} --served-model-name ? aA b 100%',
        )
    ],
    "bash.service": [("systemd", "serve", 'org/model --override {"a": 1}')],
    "start.py": [
        ("python", "LLM", ""),
        ("python", "api_server", "--model org/model --port 80"),
        ("python", "serve", "org/é --port 2"),
    ],
    "Dockerfile": [("dockerfile", "api_server", '--model org/model --kv-transfer-config {"a": 1}')],
    "page.md": [
        ("shell", "serve", "org/inline --port 80"),
        ("shell", "serve", "org/span --port 81"),
        ("shell", "api_server", "--model org/quoted --port 82"),
        ("shell", "serve", "org/listed --port 83"),
        ("shell", "serve", "org/indented --port 84"),
        ("shell", "serve", "? --port 85"),
        ("python", "AsyncEngineArgs", ""),
    ],
    "page.html": [
        ("shell", "serve", 'org/model --limit-mm-per-prompt {"image": 4}'),
        ("shell", "serve", "org/second --port 4"),
    ],
    "page.rst": [("shell", "serve", "org/model --port 1"), ("shell", "serve", "org/second --port 2")],
    "n.ipynb": [
        ("shell", "serve", "org/m --port 1"),
        ("python", "LLM", ""),
        ("shell", "serve", "org/n --port 2"),
        ("shell", "serve", "org/o --port 3"),
    ],
    "glued.md": [
        ("shell", "serve", "Qwen2.5-1.5B --tensor-parallel-size 2 --max-model-len 128 --gpu_memory_utilization=0.5"),
        ("shell", "serve", "Qwen2.5-1.5B --max-model-len 128 --gpu_memory_utilization 0.5"),
    ],
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_launch_is_found(name: str) -> None:
    """Each kind of file yields its launches once, in order, with the words that vLLM parses."""
    assert FOUND[name] == [seen(one) for one in documents.read(TEXTS[name], name).starts]


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "page.rst"])
def test_the_format_is_detected_from_the_content(name: str) -> None:
    """Without a file name, as on a pipe, the same launches are found."""
    assert FOUND[name] == [seen(one) for one in documents.read(TEXTS[name]).starts]


@pytest.mark.parametrize("name", TEXTS)
def test_places_are_those_of_the_file(name: str) -> None:
    """The recorded place of each character points at that character, or at the escape for it."""
    text = TEXTS[name]
    checked = 0
    for found in documents.read(text, name).starts:
        for word in (*found.prefix, *found.words):
            if word.at is None or word.value is None:
                continue
            assert len(word.value) == len(word.at)
            for character, place in zip(word.value, word.at, strict=True):
                assert character == text[place] or text[place] in "\\&$%" or word.raw.startswith("$("), (word, place)
                checked += character == text[place]
    assert checked > 10 or name == "start.py"


def environment(found: WrittenLaunch) -> dict[str, str | None]:
    return {name: one.value.value for name, one in found.environment.items()}


@pytest.mark.parametrize(
    ("name", "index", "expected"),
    [
        ("run.sh", 0, {"CUDA_VISIBLE_DEVICES": "0,1"}),
        ("run.sh", 2, {"CUDA_VISIBLE_DEVICES": "1"}),
        ("docker.sh", 0, {"HF_TOKEN": None, "VLLM_LOGGING_LEVEL": "DEBUG"}),
        ("docker.sh", 1, {"NCCL_DEBUG": "INFO"}),
        ("compose.yaml", 0, {"HF_TOKEN": None, "VLLM_LOGGING_LEVEL": "INFO"}),
        ("compose.yaml", 1, {"CUDA_VISIBLE_DEVICES": "2", "HF_TOKEN": None}),
        ("compose.yaml", 2, {"NCCL_DEBUG": "WARN"}),
        ("k.yaml", 1, {"LEN": "4096", "HF_TOKEN": None}),
        ("vllm.service", 0, {"HF_HOME": "/data/hf cache", "PORT": "8000", "VLLM_LOGGING_LEVEL": "DEBUG"}),
        ("start.py", 0, {"VLLM_LOGGING_LEVEL": "DEBUG", "CUDA_VISIBLE_DEVICES": "0,1"}),
        ("start.py", 2, {"VLLM_LOGGING_LEVEL": "DEBUG", "CUDA_VISIBLE_DEVICES": "0,1", "A": "b"}),
        ("Dockerfile", 0, {"HF_HOME": "/data", "NAME": "a b"}),
        ("page.md", 3, {"HF_HOME": "/data"}),
    ],
)
def test_a_launch_has_its_own_environment(name: str, index: int, expected: dict[str, str | None]) -> None:
    """Variables come from exports, prefixes, containers, units and code."""
    assert expected == environment(documents.read(TEXTS[name], name).starts[index])


@pytest.mark.parametrize(
    ("name", "index", "release", "devices", "count"),
    [
        ("run.sh", 0, None, ("0", "1"), 2),
        ("docker.sh", 0, "0.9.2", ("2", "3"), 2),
        ("docker.sh", 2, "0.8.5", None, None),
        ("compose.yaml", 0, "0.9.2", ("0", "1"), 2),
        ("compose.yaml", 1, None, ("2",), 1),
        ("k.yaml", 1, "0.8.5.post1", None, 2),
        ("Dockerfile", 0, "0.9.1", None, None),
    ],
)
def test_release_and_gpus_are_read_from_their_places(
    name: str, index: int, release: str | None, devices: tuple[str, ...] | None, count: int | None
) -> None:
    """The image's tag gives the release; options, reservations and variables the GPUs."""
    found = documents.read(TEXTS[name], name).starts[index]
    gpus = found.gpus or starts.Gpus()
    assert (release, devices, count) == (found.release, gpus.devices, gpus.count)


@in_one_test("entry", ["{} --model m", "--entrypoint vllm {} serve m", "{} sh -c 'vllm serve m'"])
@in_one_test(
    ("given", "variable", "seen", "count"),
    [
        ("--gpus all", "", None, None),
        ("--gpus 2", "", None, 2),
        ("--gpus all", "-e CUDA_VISIBLE_DEVICES=2,3", ("2", "3"), 2),
        ("--gpus device=4", "-e CUDA_VISIBLE_DEVICES=0", ("4",), 1),
        ("""--gpus '"device=4,5"'""", "-e CUDA_VISIBLE_DEVICES=1", ("5",), 1),
        ("""--gpus '"device=4,5"'""", "-e CUDA_VISIBLE_DEVICES=4,5", ("4", "5"), 2),
        ("""--gpus '"device=4,5"'""", "-e NVIDIA_VISIBLE_DEVICES=all", ("4", "5"), 2),
        ("--gpus 2", "-e CUDA_VISIBLE_DEVICES=1", None, 1),
        ("--gpus 2", "-e CUDA_VISIBLE_DEVICES=GPU-1a", ("GPU-1a",), 1),
        ("", "-e NVIDIA_VISIBLE_DEVICES=3", ("3",), 1),
    ],
)
def test_a_variable_selects_from_the_gpus_of_a_container(
    entry: str, given: str, variable: str, seen: tuple[str, ...] | None, count: int | None
) -> None:
    """A variable counts the container's GPUs from 0; other names are reported separately."""
    command = f"docker run {given} {variable} {entry.format('vllm/vllm-openai:v0.9.1')}\n"
    (found,) = documents.read(command, "run.sh").starts
    gpus = found.gpus or starts.Gpus()
    alone = documents.read(command.replace(f" {variable} ", " "), "run.sh").starts[0].gpus or starts.Gpus()
    own = found.given or starts.Gpus()

    assert (gpus.devices, gpus.count) == (seen, count)
    assert (own.devices, own.count) == ((alone.devices, alone.count) if given else (None, None))


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("vllm/vllm-openai:v0.7.2", "0.7.2"),
        ("registry.example.com:5000/mirror/vllm-openai:v0.11.0-x86_64", "0.11.0"),
        ("docker.io/vllm/vllm-openai:v0.6.3.post1@sha256:00", "0.6.3.post1"),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai", None),
        ("lmcache/vllm-openai:v0.3.7", None),
        ("nvcr.io/nvidia/vllm:25.09-py3", None),
        ("redis:7.2.1", None),
    ],
)
def test_only_tags_that_count_as_vllm_does_name_a_release(image: str, release: str | None) -> None:
    """Images of other publishers have their own version numbers."""
    assert release == images.release_of(image)


@pytest.mark.parametrize(
    ("options", "service", "is_local"),
    [
        ("-p 127.0.0.1:8000:8000", 'ports: ["127.0.0.1:8000:8000"]', True),
        ("--publish=127.1.2.3::8000", "ports: [{target: 8000, host_ip: 127.1.2.3}]", True),
        ("-p [::1]:8000:8000", 'ports: ["[::1]:8000:8000"]', True),
        ("-p 8000:8000", 'ports: ["8000:8000"]', False),
        ("-p 10.0.0.5:8000:8000", "ports: [{target: 8000, host_ip: 10.0.0.5}]", False),
        ("-p 127.0.0.1:8000:8000 -p 9000:9000", 'ports: ["127.0.0.1:8000:8000", {target: 9000}]', False),
        ("-p 127.0.0.1:8000:8000 -P", 'ports: ["127.0.0.1:8000:8000", [9000]]', False),
        ("-p $AT:8000:8000", 'ports: ["${AT}:8000:8000"]', False),
        ("--net host -p 127.0.0.1:8000:8000", 'network_mode: host\n    ports: ["127.0.0.1:8000:8000"]', False),
        ("", "ports: 8000", False),
    ],
)
def test_ports_of_a_container_are_published_to_its_host_or_to_all(options: str, service: str, is_local: bool) -> None:  # noqa: FBT001
    """Published ports are local in docker and in compose; so are all ports without a container."""
    image = "vllm/vllm-openai:v0.11.0"
    (run,) = documents.read(f"docker run {options} {image} --model org/m\n").starts
    (composed,) = documents.read(
        f"services:\n  chat:\n    image: {image}\n    command: --model org/m\n    {service}\n", "compose.yaml"
    ).starts

    assert (run.is_local, composed.is_local) == (is_local, is_local)


def test_arguments_of_a_call_are_read_as_literals() -> None:
    """Names set once, unpacked mappings and simple arithmetic are resolved; the rest is unknown."""
    call = documents.read(PYTHON, "start.py").starts[0]
    values = {one.name: one.value for one in call.keywords if one.is_known}
    assert values == {
        "model": "org/model",
        "tensor_parallel_size": 2,
        "dtype": "half",
        "max_model_len": 4096,
        "seed": 1,
    }
    places = {one.name: PYTHON[one.start : one.end] for one in call.keywords}
    assert places == {"model": "MODEL", "tensor_parallel_size": "2", "dtype": '"half"', "max_model_len": "4 * 1024"} | {
        "seed": "ünï"
    }


def test_options_outside_commands_are_found_in_lines_comments_and_tables() -> None:
    """A bare line, a comment and a table row yield their options, with certain values."""
    page = documents.read(PAGE, "page.md")
    found = [(one.where, [word.value for word in one.words], LineIndex(PAGE)(one.start).line) for one in page.loose]
    assert found == [
        ("bare", ["--tensor-parallel-size", "2"], 27),
        ("comment", ["--swap-space", "4"], 28),
        ("table", ["--enable-thing", "on"], 33),
    ]
    assert [(one.name, one.value.value) for one in page.settings if one.form == "table"] == [("VLLM_USE_V1", "0")]


def test_a_paste_without_blanks_is_split_where_that_is_certain() -> None:
    """Joined words are split and marked; a cluster host becomes a node with its environment."""
    page = documents.read(GLUED, "page.md")
    assert [one.is_reconstructed for one in page.starts] == [True, True]
    (node,) = page.nodes
    assert (
        node.release,
        environment(node),
    ) == ("0.7.2", {"VLLM_HOST_IP": "192.168.1.1", "NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth1"})


def test_an_address_that_ran_into_a_tag_stays_unknown_without_a_second_witness() -> None:
    """If the tag occurs nowhere else, both readings are possible; the image keeps its place."""
    text = 'run: bash run_cluster.sh vllm/vllm-openai:v0.7.2192.168.1.1--head /data -e A=1-e B=2 和 "x"\n'
    (node,) = documents.read(text, "page.md").nodes
    assert node.image is not None
    assert (node.image.value, node.release) == (None, None)
    assert text[node.image.start : node.image.end] == "vllm/vllm-openai:v0.7.2192.168.1.1"


@pytest.mark.parametrize(
    ("command", "words", "kinds"),
    [
        ('"a b" c\\ d', ["a b", "c d"], []),
        ("'it''s' \"\\\"q\\\"\" ''", ["its", '"q"', ""], []),
        ("a $$B ${C:-d e}", ["a", "$B", "d", "e"], []),
        ("a ${B}", ["a", None], []),
        ("a ${B:-${C:-x}}y", ["a", "xy"], []),
        ("a ; b", ["a"], ["file.compose-operator"]),
        ("a # b", ["a", "#", "b"], ["file.compose-comment"]),
        ("a \\\n  b", ["a", "\n", "b"], ["file.compose-backslash"]),
        ("a 'b", ["a", "b\n"], ["file.compose-quote"]),
        ("a $(b)", ["a", "$(b)"], []),
    ],
)
def test_compose_splits_a_command_by_its_own_rules(command: str, words: list[str | None], kinds: list[str]) -> None:
    """Quotes, backslashes and `$` are read as compose does, and surprises are reported."""
    block = "".join(f"      {line}\n" for line in command.split("\n"))
    text = f"services:\n  a:\n    image: vllm/vllm-openai\n    command: |\n      --model m\n{block}"
    page = documents.read(text, "compose.yaml")
    assert words == [word.value for word in page.starts[0].words][2:]
    assert kinds == [one.kind for one in page.troubles]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a  'b c' \"d e\"", ["a", "b c", "d e"]),
        ("--x='{\"a\": 1}'", ['--x={"a": 1}']),
        ("a\\x20b \\t\\\\ \\101 \\u00e9", ["a b", "\t\\", "A", "é"]),
        ("$A ${A} x${A}y x$A", ["1", "2", "1 2", "x1 2y", "x$A"]),
        ("$$A %% %i", ["$A", "%", None]),
        ("$NONE ${NONE}z", ["z"]),
    ],
)
def test_systemd_splits_a_command_by_its_own_rules(line: str, words: list[str | None]) -> None:
    """Quotes, C escapes, specifiers and variables are read as systemd documents them."""
    text = f'[Service]\nEnvironment="A=1 2"\nExecStart=/bin/vllm serve {line}\n'
    assert words == [word.value for word in documents.read(text, "a.service").starts[0].words]


@in_one_test(
    ("command", "expected"),
    [
        ("sudo -E env A=b nohup /opt/bin/vllm serve org/m", ("serve", "org/m", True)),
        ("sudo -u vllm vllm serve org/m", ("serve", "org/m", True)),
        ("uv run --with vllm vllm serve org/m", ("serve", "org/m", True)),
        (
            "taskset -c 0-3 python3.11 -u -m vllm.entrypoints.openai.api_server --model m",
            ("api_server", "--model m", True),
        ),
        ("python -m vllm.entrypoints.cli.main serve org/m", ("serve", "org/m", True)),
        ("python /x/vllm/entrypoints/openai/api_server.py --model m", ("api_server", "--model m", True)),
        ("tmux new -d -s v 'vllm serve org/m --port 1'", ("serve", "org/m --port 1", False)),
        ('ssh host "vllm serve org/m --port 1"', ("serve", "org/m --port 1", False)),
        ("docker exec -it c bash -lc 'vllm serve org/m'", ("serve", "org/m", True)),
        ("vllm bench latency --model m", ("bench latency", "--model m", True)),
        ("kubectl run v --image=vllm/vllm-openai:v0.9.0 -- --model m", ("image", "--model m", True)),
        ("docker run $OPTIONS $IMAGE --model m --max-model-len 8", ("image", "--model m --max-model-len 8", False)),
        ("echo vllm serve org/m", None),
        ("pip install vllm", None),
        ("vllm bench serve --model m", None),
        ("grep 'vllm serve org/m' log", None),
        ("systemd-run --user vllm serve org/m", ("serve", "org/m", True)),
        ("conda run -n vllm vllm serve org/m", ("serve", "org/m", True)),
        ("$(which vllm) serve org/m", ("serve", "org/m", True)),
        ('"$(command -v vllm)" serve org/m', ("serve", "org/m", True)),
        ("$VENV/bin/vllm serve org/m", ("serve", "org/m", True)),
        ("$VLLM_BIN serve org/m", ("serve", "org/m", True)),
        ("$PYTHON -m vllm.entrypoints.openai.api_server --model m", ("api_server", "--model m", True)),
        ("apptainer exec --nv x.sif vllm serve org/m", ("serve", "org/m", True)),
        ("apptainer run docker://vllm/vllm-openai:v0.9.0 --model m --port 1", ("image", "--model m --port 1", True)),
        ("bash -euxo pipefail -c 'vllm serve org/m'", ("serve", "org/m", True)),
        ("bash -c 'vllm serve $1' _ org/m", ("serve", "org/m", True)),
        ("bash -c 'cd x; vllm serve org/m'", ("serve", "org/m", True)),
        ('sh -c "exec vllm serve org/m --port $PORT"', ("serve", "org/m --port ?", True)),
        ('sbatch --gres=gpu:1 --wrap="vllm serve org/m"', ("serve", "org/m", False)),
        ("parallel vllm serve {} --port 1 ::: a b", ("serve", "? --port 1", False)),
        ("echo org/m | xargs vllm serve --port 1", ("serve", "--port 1", False)),
        ("pm2 start vllm -- serve org/m", ("serve", "org/m", False)),
        ("python -c \"import os; os.system('vllm serve org/m')\"", ("serve", "org/m", True)),
        ("docker compose run svc vllm serve org/m", ("serve", "org/m", True)),
        ("docker-compose run svc vllm serve org/m", ("serve", "org/m", True)),
        ('docker run --entrypoint "" vllm/vllm-openai:v0.9.0 vllm serve org/m', ("serve", "org/m", True)),
        ("docker run --entrypoint bash vllm/vllm-openai -c 'vllm serve org/m'", ("serve", "org/m", True)),
        ("docker run --entrypoint vllm vllm/vllm-openai serve org/m", ("serve", "org/m", True)),
        ("vllm serve --help=listgroup", None),
        ("docker run vllm/vllm-openai:v0.9.0 --help", None),
        ("vllm chat --url http://localhost:8000/v1", None),
        ("vllm serve MODEL [--port PORT] [--host HOST]", None),
        ("vllm serve [model_tag] [options]", None),
        ("vllm serve org/m [OPTIONS]", ("serve", "org/m", True)),
    ],
)
def test_wrappers_are_removed(command: str, expected: tuple[str, str, bool] | None) -> None:
    """A program that runs another is unwrapped; a text that only mentions a launch is ignored."""
    found = documents.read(command + "\n", "a.sh").starts
    assert ([expected] if expected else []) == [(one.entry, seen(one)[2], one.is_certain) for one in found]


LOOP = "for port in 1 2; do\n  vllm serve m --port $port &\ndone\nwait\n"
ARRAY = 'ARGS=(--port 1 --seed 2)\nvllm serve m "${ARGS[@]}"\n'


@in_one_test(
    ("text", "kind", "words"),
    [
        (LOOP, "shell", ["m --port 1", "m --port 2"]),
        (ARRAY, "shell", ["m --port 1 --seed 2"]),
        ("serve() {\n  vllm serve m --port $1\n}\nserve 1\n", "shell", ["m --port 1"]),
        ('if [ -z "$X" ]; then\n  exit 1\nfi\nexec vllm serve "$X" --port 1\n', "shell", ["? --port 1"]),
        ('srun -N1 -n 1 bash -c "vllm serve m --port 1"\n', "shell", ["m --port 1"]),
        ("export A=1\nexport B=0,1\nvllm serve m -tp 2\n", "shell", ["m -tp 2"]),
        ("cat <<EOF\nThis is a help text. It is long.\nOne more line of it.\nEOF\nvllm serve m\n", "shell", ["m"]),
        ("cat > c.yml <<EOF\nservices:\n  a:\n    image: vllm/vllm-openai\nEOF\nvllm serve m\n", "shell", None),
        ("To start it, run this:\n\nvllm serve m --port 1\n\nThen use it.\n", "page", ["m --port 1"]),
        ("Server command:\nvllm serve m --port 1\n", "page", ["m --port 1"]),
        ("Title\n=====\n\nvllm serve m --port 1\n", "page", ["m --port 1"]),
        (f"First install it.\nThen run this loop:\n\n{LOOP}\nThat is all there is.\nEnjoy!\n", "page", None),
        (f"First install it.\nThen use a list:\n\n{ARRAY}\nThat is all.\n", "page", ["m --port 1 --seed 2"]),
        ("I use this: vllm serve m --port 1. It's slow, but it works.\n", "page", ["m --port 1"]),
        ('args = ["--model", "m"]\nimage = "vllm/vllm-openai"\n', "page", []),
        ("vllm serve m--port 1--seed 2\n", "page", ["m --port 1 --seed 2"]),
        ("vllm serve /x/models--a--b/snapshots/c --port 1\n", "shell", ["/x/models--a--b/snapshots/c --port 1"]),
        ("docker run `\n  vllm/vllm-openai `\n  --model m\nThis is for PowerShell only.\n", "page", ["--model m"]),
    ],
)
def test_scripts_and_pages_are_distinguished(text: str, kind: str, words: list[str] | None) -> None:
    """Without a file name most lines decide; in a page, parts of scripts are read too."""
    page = documents.read(text)

    assert kind == page.kind
    if words is not None:
        assert words == [seen(one)[2] for one in page.starts]
    elif "loop" in text:
        assert [seen(one)[2] for one in page.starts] == ["m --port 1", "m --port 2"]


def test_a_letter_begins_a_sentence_only_if_it_is_a_word() -> None:
    """`a` and `I` begin a sentence; a program with a one-letter name begins a command."""
    assert {"a", "i"} == {word for word in word_list("sentence-openings") if len(word) == 1}
    assert documents.read("r --quiet\no -x 1\nu --yes\nvllm serve m --port 1\n").kind == "shell"


def test_a_here_document_does_not_make_a_script_a_page() -> None:
    """A fence in a here-document belongs to the other file."""
    fence = "```bash\nvllm serve other\n```\n"
    script = f"cat > README.md <<'EOF'\n# Title\n{fence}EOF\nvllm serve m --port 1\n"

    assert [documents.read(text).kind for text in (script, fence)] == ["shell", "page"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("main.tf", "code"), ("a.toml", "code"), ("run.ps1", "page"), ("run.bat", "page"), ("pod.json", "yaml")],
)
def test_other_languages_are_not_scripts(name: str, kind: str) -> None:
    """Text in another language is not checked as a shell script."""
    assert kind == documents.read('image = "vllm/vllm-openai"\ncommand = ["--model", "m"]\n', name).kind


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("vllm serve <model> [options]", "?"),
        ("vllm serve <model> --tensor-parallel-size <N>", "? --tensor-parallel-size ?"),
        ("vllm serve MODEL --port PORT", "MODEL --port ?"),
        ("vllm serve {model} --port {port}", "? --port ?"),
        ("vllm serve m --hf-overrides '{...}'", "m --hf-overrides ?"),
        ("vllm serve m --attention-backend FLASH_ATTN", "m --attention-backend FLASH_ATTN"),
    ],
)
def test_placeholders_are_unknown(command: str, words: str) -> None:
    """In a page or a typed command they are placeholders; in a script they are plain words."""
    for text, name in ((command + "\n", ""), (f"```bash\n{command}\n```\n", "a.md")):
        page = documents.read(text, name)
        assert [words] == [seen(one)[2] for one in page.starts]
        assert page.troubles == ()


def test_a_here_document_is_read_as_the_shell_writes_it() -> None:
    """If the delimiter is unquoted, the shell removes quoting backslashes."""
    text = (
        "cat > a.sh <<EOF\nvllm serve \\$M \\\\\n  --port 1\nEOF\ncat > b.sh <<'EOF'\nvllm serve m \\\n --port 2\nEOF\n"
    )
    page = documents.read(text, "run.sh")

    assert [seen(one)[2] for one in page.starts] == ["? --port 1", "m --port 2"]
    assert page.troubles == ()


def test_options_of_a_batch_system_are_not_options_of_vllm() -> None:
    """`#SBATCH --nodes=1` is not an option of vLLM."""
    page = documents.read("#!/bin/bash\n#SBATCH --nodes=1\n# --seed 2 was here\nvllm serve m\n", "a.slurm")

    assert [[word.value for word in one.words] for one in page.loose] == [["--seed", "2"]]


@pytest.mark.slow
def test_nested_docker_commands_end() -> None:
    """For any number of repeats of `docker run` in a command."""
    for again in ("docker run a ", "apptainer exec a.sif ", "docker exec a ", "kubectl exec a -- "):
        assert documents.read(again * 3000, "a.sh").starts == ()


def test_a_repeated_entry_point_is_an_issue() -> None:
    """After an image that runs `vllm serve` itself, the words `vllm serve` become arguments."""
    page = documents.read("docker run vllm/vllm-openai:v0.11.2 vllm serve org/m --port 1\n", "a.sh")
    assert [one.kind for one in page.troubles] == ["file.entry-point-again"]
    assert page.text[page.troubles[0].start : page.troubles[0].end] == "vllm serve"


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        ("services:\n  a:\n\timage: vllm\n", "file.not-yaml", 3),
        ("services:\n  a:\n    command: --x {a: b: c}\n    image: vllm/vllm-openai\n", "file.not-yaml", 3),
        ("services:\n  a:\n    image: vllm/vllm-openai\n    image: b\n    command: --x 1\n", "file.key-again", 4),
        ("services: {a: *b}\n# vllm\n", "file.not-yaml", 1),
    ],
)
def test_broken_yaml_is_one_issue_with_its_line(text: str, kind: str, line: int) -> None:
    """Tabs, wrong nesting, repeated keys and unknown aliases are reported with their place."""
    (trouble,) = documents.read(text, "compose.yaml").troubles
    assert (kind, line) == (trouble.kind, LineIndex(text)(trouble.start).line)


def pod(arguments: str, more: str = "") -> str:
    return (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: vllm/vllm-openai\n"
        f"    args: {arguments}\n{more}"
    )


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (pod("[--model, m, --port, '1']"), []),
        (pod("[--model, m, --port, 1]"), ["file.not-a-text"]),
        (pod("[--model, m, '--port 1']"), ["file.two-words-in-item"]),
        (pod('["--model=m --port 1"]'), ["file.two-words-in-item"]),
        (
            pod("[--model, m]", "    env:\n    - {name: A, value: 1}\n    - {name: B, value: yes}\n"),
            ["file.not-a-text"] * 2,
        ),
        (pod('\n    - --model=m\n    - --hf-overrides={"a": 1}'), ["file.not-a-text"]),
        (pod("[--model, m, '--x={{ .Values.a }}', {{ .Values.b | quote }}]"), []),
        ("services:\n  a:\n    image: vllm/vllm-openai\n    command: [--model, m, --port, 1]\n", ["file.not-a-text"]),
        ("services:\n  a:\n    image: b\n    command: [serve, --port, 1, '--x y']\n", []),
        ("services:\n  a:\n    entrypoint: [sh, -c]\n    command: ['vllm serve m --port 1']\n", []),
    ],
)
def test_an_item_of_a_list_is_one_string(text: str, kinds: list[str]) -> None:
    """Items that are not strings, or contain several words, are reported for containers of vLLM."""
    assert kinds == [one.kind for one in documents.read(text, "a.yaml").troubles]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "services: {a: {build: ., command: --model m --dtype half}}",
            [("compose", "image", "--model m --dtype half")],
        ),
        ("services: {a: {build: ., command: --host a --port 1}}", []),
        ("services: {a: {build: ., command: --model m --ctx-size 1 --n-gpu-layers 9 --jinja}}", []),
        (
            "services: {a: {image: vllm/vllm-openai, entrypoint: [], command: vllm serve m}}",
            [("compose", "serve", "m")],
        ),
        (
            "kind: InferenceService\nspec: {predictor: {model: {modelFormat: {name: vLLM}, args: [--seed=1]}}}",
            [("kubernetes", "image", "--seed=1")],
        ),
        (
            'containerDefinitions: [{image: vllm/vllm-openai, command: ["--model", "m"]}]',
            [("compose", "image", "--model m")],
        ),
        ("tasks: {serve: {cmds: ['vllm serve {{.M}} --port 1']}}", [("shell", "serve", "? --port 1")]),
        (
            (
                "kind: Pod\nspec:\n  containers:\n  - image: '{{ default \"a\" .x }}'\n    name: a\n"
                '    command: [vllm, serve, {{ .m | quote }}, --port, "1"]\n'
            ),
            [("kubernetes", "serve", "? --port 1")],
        ),
    ],
)
def test_containers_are_found_in_manifests_of_all_kinds(text: str, found: list[tuple[str, str, str]]) -> None:
    """If the image is built or named elsewhere, the arguments decide whether it is vLLM."""
    page = documents.read(text + "\n", "a.yaml")

    assert found == [seen(one) for one in page.starts]
    assert page.troubles == ()


def test_further_arguments_of_a_chart_are_options() -> None:
    """Arguments that a chart appends to its own launch belong to no command."""
    page = documents.read("vllmConfig:\n  extraArgs: [--seed, '1']\n", "values.yaml")

    assert [[word.value for word in one.words] for one in page.loose] == [["--seed", "1"]]


@pytest.mark.parametrize(
    "body", ["vllm serve m \\ \n  --port 1", "vllm serve m\n  --port 1", "vllm serve m \\\n# c\n--port 1"]
)
def test_a_fixed_script_stays_in_its_manifest(body: str) -> None:
    """An edit of a script inside YAML keeps the indentation, so the file stays valid."""
    lines = "".join(f"      {line}\n" for line in body.split("\n"))
    text = pod("\n    - |\n" + lines.rstrip("\n")).replace("    args:", "    command: [sh, -c]\n    args:")
    page = documents.read(text, "a.yaml")
    edits = [edit for one in page.troubles for edit in one.edits]
    again = documents.read(applied(text, edits), "a.yaml")

    assert edits
    assert [seen(one)[2] for one in again.starts] == ["m --port 1"]
    assert again.troubles == ()


@pytest.mark.parametrize(
    ("lines", "kinds", "words"),
    [
        ("ExecStart=/bin/vllm serve m >> /var/log/x 2>&1", ["file.systemd-operator"], ["m"]),
        ("ExecStart=-/bin/vllm serve m --port $(cat p)", ["file.systemd-operator"], ["m --port"]),
        ("ExecStart=/bin/bash -c 'vllm serve m > x'", [], ["m"]),
        ("ExecStart=/bin/vllm serve m --served-model-name 'a > b'", [], ["m --served-model-name a > b"]),
        ("Environment=A=1 2\nExecStart=/bin/vllm serve m", ["file.systemd-assignment"], ["m"]),
        ('Environment="A=1 2" B=3\nExecStart=/bin/vllm serve m', [], ["m"]),
    ],
)
def test_a_unit_runs_no_shell(lines: str, kinds: list[str], words: list[str]) -> None:
    """Shell syntax and words that set nothing are reported."""
    page = documents.read(f"[Service]\n{lines}\n", "a.service")

    assert kinds == [one.kind for one in page.troubles]
    assert words == [seen(one)[2] for one in page.starts]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[Container]\nImage=vllm/vllm-openai:v0.9.0\nExec=--model m --port 1\n", ("image", "--model m --port 1")),
        ("[program:vllm]\ncommand=/bin/vllm serve m --port 1\n", ("serve", "m --port 1")),
    ],
)
def test_units_of_other_programs_are_read(text: str, found: tuple[str, str]) -> None:
    """Podman's and supervisord's files are read as well."""
    assert [found] == [seen(one)[1:] for one in documents.read(text).starts]


def test_an_argument_vector_is_read_as_it_is() -> None:
    """Arguments passed to a program need no quotes; their places refer to the joined text."""
    page = documents.from_argv(["A=b", "vllm", "serve", "org/m", "--limit", '{"a": 1}'])
    (found,) = page.starts
    assert [word.value for word in found.words] == ["org/m", "--limit", '{"a": 1}']
    assert [page.text[word.start : word.end] for word in found.words] == ["org/m", "--limit", "'{\"a\": 1}'"]
    assert environment(found) == {"A": "b"}


def test_arguments_in_a_log_are_a_launch() -> None:
    """Keys become options: flags without a value, lists as several words, mappings as JSON."""
    arguments = {
        "model_tag": "org/m",
        "enforce_eager": True,
        "x": False,
        "served_model_name": ["a", "b"],
        "y": {"a": 1},
    }
    found = documents.from_arguments({**arguments, "none": None, "port": 8000})
    assert " ".join(word.value or "" for word in found.words) == (
        'org/m --enforce-eager --no-x --served-model-name a b --y {"a": 1} --port 8000'
    )


@pytest.mark.parametrize("text", ["", "\n", "nothing here\n", "\ufeff", "a: b\n", "print(1)\n"])
def test_a_text_without_a_launch_is_an_empty_page(text: str) -> None:
    """A file without a launch is reported as having nothing to check."""
    page = documents.read(text)

    assert (page.starts, page.nodes, page.loose, page.settings) == ((), (), (), ())


# YAML


def scalars(node: Any) -> list[yaml_places.Scalar]:
    if isinstance(node, yaml_places.Scalar):
        return [node]
    inner = node.items if isinstance(node, yaml_places.Sequence) else [one for pair in node.pairs for one in pair]
    return [scalar for one in inner for scalar in scalars(one)]


def test_scalars_have_their_yaml_value_and_its_places() -> None:
    """In every style, with folding, escapes and indentation, each character has its place."""
    chance = random.Random(7)  # noqa: S311 - a sample
    pieces = ["a", "b c", " ", "\n", "\n\n", "\n ", "x: y", "#c", '"', "'", "\\n", "--port 8000", "\\", "\n   "]
    read = placed = 0
    for _ in range(600):
        body = "".join(chance.choice(pieces) for _ in range(chance.randrange(1, 9)))
        style = chance.choice(["|", ">", "|-", ">-", ">+", "|+", '"', "'", ""])
        if style[:1] in {"|", ">"}:
            text = f"k: {style}\n" + "".join(f"  {line}\n" for line in body.split("\n"))
        else:
            text = f"k: {style}{body}{style}\n".replace("\n", "\n  ").rstrip(" ")
        try:
            expected = YAML(typ="safe", pure=True).compose(text)
            (_, value) = expected.value[0]
            node = yaml_places.read(Excerpt.whole(text))
        except Exception:  # noqa: BLE001, S112 - what is no YAML to the one is none to the other
            continue
        if not isinstance(value.value, str) or not isinstance(node, yaml_places.Mapping):
            continue
        found = scalars(node)[1]
        read += 1
        assert value.value == found.value
        at = found.text.at[:-1]
        exact = [
            text[place] == character for character, place in zip(found.value, at, strict=True) if character.isalnum()
        ]
        placed += all(exact)
        assert all(exact) or style == '"', text
    assert read > 240
    assert placed > read * 0.95


# Hostile input


def hostile(size: int) -> dict[str, str]:
    return {
        "a": "a" * size,
        "starts": "vllm serve a/b --port 1\n" * (size // 24),
        "quotes": "vllm serve " + '"' * size,
        "glue": 'vllm serve "x"' + "--port 8000" * (size // 11),
        "fences": "```\n" * (size // 4),
        "tables": "| `--a b` | VLLM_X=1 | " * (size // 23),
        "quotation": "> " * (size // 2) + "vllm serve a --b",
        "spans": "使用 vllm serve a/b --x 1 `vllm serve a --b` " * (size // 45),
        "brackets": "services: " + "[" * size,
        "mappings": "vllm: " + "{a: " * (size // 4),
        "references": "services:\n a:\n  image: vllm/vllm-openai\n  command: " + "${A:-" * (size // 5),
        "calls": "LLM(" * (size // 4),
        "minus": "x = " + "-" * size + "1\nLLM(x)",
        "html": "<html><pre>" + "<b>&amp;" * (size // 8) + "vllm serve a --b",
        "json": '{"cells":[' + '{"cell_type":"code","source":["vllm serve a"]},' * (size // 47),
        "heredocs": "cat <<EOF > a.sh\n" * (size // 17) + "vllm serve a",
        "environment": "FROM vllm\nENV A=" + '"\\"' * (size // 3),
        "shells": 'bash -c "' * (size // 9) + "vllm serve a",
        "run in": "A_B=1vllm serve a/b --x " * (size // 24),
        "session": "```console\n" + "$ vllm serve m \\ # x\n  --a 1\n" * (size // 28),
        "comments": "```console\n$ vllm serve m \\ # x\n" + "# x\n" * (size // 4) + "  --a 1\n",
    }


BOMB = "a: &a [vllm, vllm, vllm]\n" + "".join(
    f"{chr(98 + level)}: &{chr(98 + level)} [{', '.join([f'*{chr(97 + level)}'] * 9)}]\n" for level in range(20)
)
SELF = "a: &a\n  image: vllm\n  command: *a\n  <<: *a\n"
POWERS = "from vllm import LLM\na = 9**9**9\nLLM(model='x' * 10**12, b=a, c=(1 << 60) << 60)\n"
DOUBLING = (
    "from vllm import LLM\na0 = ['x']\n" + "".join(f"a{i + 1} = [a{i}, a{i}]\n" for i in range(99)) + "LLM(a99)\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "a.sh", "a.yaml", "a.py", "a.md", "a.html", "a.service", "Dockerfile", "a.ipynb"])
def test_any_text_can_be_read_without_errors(name: str) -> None:
    """Deep nesting, alias bombs, open quotes and huge numbers never crash the reader."""
    for text in (*hostile(3000).values(), BOMB, SELF, POWERS, DOUBLING):
        page = documents.read(text, name)
        assert isinstance(page, LaunchFile)


@pytest.mark.slow
@pytest.mark.parametrize("kind", hostile(0))
def test_the_cost_grows_with_the_text(kind: str) -> None:
    """Doubling the text roughly doubles the cost, for any repeated text."""
    name = {"brackets": "a.yaml", "mappings": "a.yaml", "references": "a.yaml", "calls": "a.py", "minus": "a.py"}.get(
        kind, {"html": "a.html", "json": "a.ipynb", "environment": "Dockerfile"}.get(kind, "a.md")
    )
    texts = {len(hostile(size)[kind]): hostile(size)[kind] for size in (6000, 12_000)}
    small, large = sorted(texts)
    assert (
        growth(lambda text: documents.read(texts[large if len(text) > small else small], name), texts[small]) <= LIMIT
    )


def mutated(text: str, chance: random.Random) -> str:
    bits = [
        '"',
        "'",
        "\\",
        "\n",
        "$(",
        "${",
        "}",
        "{",
        "[",
        "|",
        "<<EOF\n",
        "`",
        "```\n",
        "#",
        "\t",
        "\r\n",
        "--",
        "&a ",
    ]
    bits += [": ", "\x00", "\u2028", "é", "\ud800", "%", "(", "!", "&amp;", "<pre>", '"""', "docker run ", 'bash -c "']
    characters = list(text)
    for _ in range(chance.randrange(1, 12)):
        at = chance.randrange(len(characters) + 1)
        if chance.random() < 0.6:
            characters[at:at] = chance.choice(bits) * chance.choice([1, 1, 1, 200])
        else:
            del characters[at : at + chance.randrange(1, 30)]
    return "".join(characters)


@pytest.mark.slow
def test_damaged_documents_are_read_with_places_inside_the_text() -> None:
    """Damaged scripts, manifests and pages raise nothing, and every place is inside the text."""
    chance = random.Random(3)  # noqa: S311 - a sample
    for _ in range(400):
        name = chance.choice(list(TEXTS))
        text = mutated(TEXTS[name], chance)
        page = documents.read(text, name if chance.random() < 0.7 else "")
        for found in (*page.starts, *page.nodes):
            assert 0 <= found.start <= found.end <= len(text)
            for word in found.words:
                assert word.at is None or all(0 <= place <= len(text) for place in word.at)
        others = [(one.start, one.end) for one in page.settings]
        others += [(one.start, one.end) for one in page.loose]
        others += [(one.start, one.end) for one in page.troubles]
        assert all(0 <= start <= end <= len(text) for start, end in others)


@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("run.sh", "vllm serve m\n" + "#" * documents.MAX_LENGTH, documents.MAX_LENGTH),
        ("page.md", "```python\nx = (\n" + "LLM('m')\n" * 120 + "```\n", None),
        ("page.md", "Try `vllm serve m --port 1` " * 220, None),
        ("page.md", "Try: vllm serve m --port 1 " * 220, None),
        (
            "compose.yaml",
            "# vllm\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9 * (n > 0)}]\n" for n in range(7)),
            None,
        ),
    ],
    ids=["characters", "calls", "spans", "commands", "aliases"],
)
def test_the_skipped_part_of_a_large_file_is_reported(name: str, text: str, kept: int | None) -> None:
    """If reading stops early, an issue marks the place."""
    [trouble] = [one for one in documents.read(text, name).troubles if one.kind == "file.too-much"]

    assert trouble.says["what"]
    assert 0 <= trouble.start < len(text)
    assert kept in (None, trouble.start)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_indented_block_keeps_its_lines(end: str) -> None:
    """A block keeps the page's lines without their indentation, for any line ends."""
    text = end.join(
        [".. code-block:: python", "", "   from vllm import LLM", "   LLM('a',", "       seed=3)", "", "Text"]
    )
    [block] = [one for one in pages.blocks(Excerpt.whole(text)) if one.kind == "python"]

    assert block.text.text == end.join(["from vllm import LLM", "LLM('a',", "    seed=3)", "", ""])
    assert [one.keywords[1].value for one in documents.read(text, "a.rst").starts] == [3]


def meant(text: str, name: str) -> str:
    """Apply the edits of all issues until none is left."""
    for _ in range(4):
        text = applied(text, [edit for one in documents.read(text, name).troubles for edit in one.edits])
    return text


SESSION = "# page\n```console\n{}```\n"
CUT_SESSIONS = {
    "comment": (
        "$ vllm serve m --port 1 \\ # two cards\n    --seed 2\nINFO up\n",
        "comment-after-continuation",
        "# two cards\n$ vllm serve m --port 1 \\\n    --seed 2\nINFO up\n",
    ),
    "comments and prompts": (
        "(v) u@h:~$ vllm serve m \\ # one\n>   --port 1 \\ # two\n>   --seed 2\n  INFO up\n",
        "comment-after-continuation",
        "# one\n# two\n(v) u@h:~$ vllm serve m \\\n>   --port 1 \\\n>   --seed 2\n  INFO up\n",
    ),
    "comment line": (
        "$ vllm serve m --port 1 \\\n    # x\n    --seed 2\n",
        "comment-line-after-continuation",
        "# x\n$ vllm serve m --port 1 \\\n    --seed 2\n",
    ),
    "empty line": (
        "$ vllm serve m --port 1 \\\n\n    --seed 2\n$ ls\n",
        "empty-line-after-continuation",
        "$ vllm serve m --port 1 \\\n    --seed 2\n$ ls\n",
    ),
    "blank": (
        "$ vllm serve m --port 1 \\ \n    --seed 2\nINFO up\n",
        "blank-after-continuation",
        "$ vllm serve m --port 1 \\\n    --seed 2\nINFO up\n",
    ),
    "nothing": (
        "$ vllm serve m --port 1\n    --seed 2\nINFO up\n",
        "missing-continuation",
        "$ vllm serve m --port 1 \\\n    --seed 2\nINFO up\n",
    ),
}


@pytest.mark.parametrize("name", CUT_SESSIONS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_command_cut_in_a_recorded_session_is_joined(name: str, end: str) -> None:
    """Lines after the prompt that continue the command keep its options; they are not output."""
    text, kind, expected = CUT_SESSIONS[name]
    text, expected = (SESSION.format(one).replace("\n", end) for one in (text, expected))
    fixed = meant(text, "a.md")

    assert kind in {one.kind for one in documents.read(text, "a.md").troubles}
    assert expected.replace("\r", "") == fixed.replace("\r", "")
    assert [[word.value for word in one.words] for one in documents.read(fixed, "a.md").starts] == [
        ["m", "--port", "1", "--seed", "2"]
    ]


@pytest.mark.parametrize(
    "output",
    [
        "INFO up\n  --seed 2\n",
        "  indented output\n",
        "$ vllm serve --help\n  --seed SEED  A number.\n",
        "\n  --seed SEED  A number.\nINFO up\n",
    ],
)
def test_output_after_a_command_is_not_part_of_it(output: str) -> None:
    """Output of a program is not run."""
    text = SESSION.format(f"$ vllm serve m --port 1\n{output}")

    assert [[word.value for word in one.words] for one in documents.read(text, "a.md").starts if one.words] == [
        ["m", "--port", "1"]
    ]
    assert documents.read(text, "a.md").troubles == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("> vllm serve m \\\n>   --port 1 \\\n>   --seed 2\n", "vllm serve m \\\n  --port 1 \\\n  --seed 2\n"),
        ("> vllm serve m --port 1 --seed 2\n", "vllm serve m --port 1 --seed 2\n"),
        (
            "> export HF_HOME=/x\n> cd /x\n> vllm serve \\\n>   m --port 1 --seed 2\n",
            "export HF_HOME=/x\ncd /x\nvllm serve \\\n  m --port 1 --seed 2\n",
        ),
        (
            "export HF_HOME=/x vllm serve m --port 1 --seed 2\n",
            "HF_HOME=/x vllm serve m --port 1 --seed 2\n",
        ),
        (
            "bash -c 'export A=1 B=\"x y\" nohup vllm serve m --port 1 --seed 2'\n",
            "bash -c 'A=1 B=\"x y\" nohup vllm serve m --port 1 --seed 2'\n",
        ),
    ],
)
@pytest.mark.parametrize("name", ["run.sh", ""])
def test_a_command_hidden_from_the_shell_is_read_as_intended(text: str, expected: str, name: str) -> None:
    """A launch after the prompt `>` or inside an `export` is checked, and its fix is a launch."""
    for one in (text, meant(text, name)):
        (found,) = documents.read(one, name).starts
        assert [word.value for word in found.words] == ["m", "--port", "1", "--seed", "2"]
    assert expected == meant(text, name)


@pytest.mark.parametrize(
    "text",
    [
        "> out.log vllm serve m --port 1\n",
        "vllm serve m \\\n  > vllm 2>&1\n",
        "> vllm echo serve\nvllm serve m\n",
        "export MODEL=m && vllm serve $MODEL\n",
        "export VLLM_HOST_IP=10.0.0.1; vllm serve m\n",
    ],
)
def test_intended_redirections_and_exports_stay(text: str) -> None:
    """A redirection's file may have any name except that of a program followed by its arguments."""
    page = documents.read(text, "run.sh")

    assert page.troubles == ()
    assert [one.words[0].value for one in page.starts] == ["m"]


@pytest.mark.parametrize(
    ("text", "words", "environment"),
    [
        ("vllmserve org/M--tensor-parallel-size 2--swap-space 4", "org/M --tensor-parallel-size 2 --swap-space 4", {}),
        ("vllm serveorg/M --swap-space 4", "org/M --swap-space 4", {}),
        ("vllm serve--model org/M --port 1", "--model org/M --port 1", {}),
        (
            "export NCCL_DEBUG=WARNINGvllm serve org/M--tensor-parallel-size 2--swap-space 4",
            "org/M --tensor-parallel-size 2 --swap-space 4",
            {"NCCL_DEBUG": "WARNING"},
        ),
        ("A_B=1 CUDA_VISIBLE_DEVICES=0,1vllm serve org/M --port 1", "org/M --port 1", {"A_B": "1"}),
        ("The vllmserve wrapper reads configs/serving.", None, {}),
        ("He says that vllm serves org/M with --port 1 and more.", None, {}),
        ("My-vllm serve org/M--port 1 is another program, I say.", None, {}),
        ("A vllm server/client pair takes --port 1 for both.", None, {}),
    ],
)
def test_a_command_joined_to_its_neighbours_is_found(text: str, words: str | None, environment: dict[str, str]) -> None:
    """So is one that lost the blank inside `vllm serve`, or was joined to a variable's value."""
    for name in ("a.txt", ""):
        starts = documents.read(text + "\n", name).starts
        assert [words] * (words is not None) == [" ".join(word.value or "" for word in one.words) for one in starts]
        for one in starts:
            assert environment.items() <= {name: each.value.value for name, each in one.environment.items()}.items()


@pytest.mark.parametrize("cut", ["", "]", "]}", "]}]", "]}],"])
def test_a_truncated_notebook_is_reported_and_read(cut: str) -> None:
    """The readable part is read, and the end of the valid JSON is reported."""
    page = documents.read('{"cells":[{"cell_type":"code","source":["!vllm serve m --port 1"' + cut, "n.ipynb")

    assert [one.kind for one in page.troubles] == ["file.not-json"]
    assert [[word.value for word in one.words] for one in page.starts] == [["m", "--port", "1"]]


def test_a_command_of_several_lines_in_a_cell_is_one() -> None:
    """A backslash continues the command as in a shell; the next lines are Python."""
    text = "!vllm serve m \\\n    --port 1\nimport os\nos.environ['A'] = '1'\n"
    page = documents.read(f"```python\n{text}```\n", "a.md")

    assert [[word.value for word in one.words] for one in page.starts] == [["m", "--port", "1"]]
    assert [one.name for one in page.settings] == ["A"]
    assert page.troubles == ()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ('os.system(f"vllm serve {m} --port {p}")', ["org/M", "--port", "8000"]),
        ('os.system(f"vllm serve {m} --port {q()}")', ["org/M", "--port", None]),
        ('os.system(f"vllm serve {m} --host {host:>8} --port 1")', ["org/M", "--host", None, "--port", "1"]),
        ('subprocess.run(f"vllm serve {m} --port {q}".split())', ["org/M", "--port", None]),
        ('subprocess.run(["vllm", "serve", m, f"--port={p}"])', ["org/M", "--port=8000"]),
        (
            'subprocess.run(("vllm serve " f"{m} --x \'{{\\"a\\": 1}}\'"), shell=True)',
            ["org/M", "--x", '{"a": 1}'],
        ),
    ],
)
def test_formatted_strings_are_resolved_as_far_as_possible(call: str, expected: list[str | None]) -> None:
    """Known names are replaced by their values; others become unknown words with a place."""
    text = f'import os, subprocess\nm = "org/M"; p = 8000\n{call}\n'
    (found,) = documents.read(text, "a.py").starts

    assert expected == [word.value for word in found.words]
    for word in found.words:
        if word.value and word.value.startswith("--"):
            assert text[word.start :].startswith(("--", 'f"--'))


def test_a_file_of_very_many_launches_is_read_up_to_a_limit() -> None:
    """The skipped part is reported with its place, and costs nothing."""
    line = "vllm serve a/b --port 1\n"
    page = documents.read(line * (documents.MAX_STARTS + 5), "a.sh")

    assert len(page.starts) == documents.MAX_STARTS
    assert [(one.kind, one.start) for one in page.troubles] == [("file.too-much", len(line) * documents.MAX_STARTS)]


def test_each_character_of_a_python_string_has_its_place() -> None:
    """Quotes, prefixes and escapes are resolved; adjacent literals form one string."""
    chance = random.Random(11)  # noqa: S311 - a sample
    pieces = [
        "a",
        "Z",
        " ",
        "é",
        "😀",
        r"\n",
        r"\x41",
        r"\101",
        r"\7",
        r"\u00e9",
        r"\U0001F600",
        r"\\",
        r"\'",
        r"\"",
        r"\q",
    ]
    placed = 0
    for _ in range(400):
        literals = []
        for _ in range(chance.randrange(1, 3)):
            quote = chance.choice(["'", '"', "'''", '"""'])
            more = ["\n", "\r\n", "\\\n", "\\\r\n"] if len(quote) > 1 else []
            body = "".join(chance.choices(pieces + more, k=chance.randrange(1, 7)))
            literals.append(f"{chance.choice(['', 'r', 'u', 'R'])}{quote}{body}{quote}")
        between = ' # é "\n  '
        text = f"subprocess.run(['vllm', 'serve', {between.join(literals)}])\n"
        try:
            value = ast.literal_eval(f"({' '.join(literals)})")
        except SyntaxError:
            continue
        (word,) = documents.read(text, "a.py").starts[0].words
        assert (text, word.value) == (text, value)
        assert word.at is not None
        places = list(word.at)
        assert places == sorted(set(places)) or not value, text
        for character, at in zip(value, places, strict=True):
            written = text[at]
            assert written in {character, "\\"} or (written, character) == ("\r", "\n"), (text, at)
            placed += written == character
    assert placed > 500


def test_the_characters_of_a_json_string_have_their_places() -> None:
    """JSON escapes are resolved; a surrogate pair is one character."""
    head = "FROM vllm/vllm-openai\n"
    text = head + 'CMD ["--model", "a\\ud83d\\ude00\\u00e9\\n\\t\\r\\b\\f\\/\\\\\\"\\ud83dz\\ud83d\\u0041"]\n'
    word = documents.read(text, "Dockerfile").starts[0].words[1]

    assert word.value == 'a😀é\n\t\r\b\f/\\"\ud83dz\ud83dA'
    assert word.at is not None
    sizes = [after - before for before, after in itertools.pairwise([*word.at, word.end - 1])]
    assert sizes == [1, 12, 6, *([2] * 8), 6, 1, 6, 6]
    assert (text[word.at[0]], text[word.end - 1]) == ("a", '"')


def told(page: LaunchFile, text: str) -> list[tuple[str, str]]:
    return [(one.kind.removeprefix("file."), text[one.start : one.end]) for one in page.troubles]


@in_one_test(
    ("lines", "words", "troubles"),
    [
        (
            r"ExecStart=-+/bin/vllm serve a\x41\101\u00e9\U0001F600\a\b\f\n\r\t\v\\\"\'\s",
            ["aAAé😀\a\b\f\n\r\t\v\\\"' "],
            [],
        ),
        ("ExecStart=:/bin/vllm serve $A ${A}", ["$A ${A}"], []),
        ("ExecStart=/bin/vllm serve m ; /bin/vllm serve n", ["m", "n"], []),
        ("ExecStart=/bin/vllm serve m ';' n", ["m ; n"], []),
        ("ExecStart=/bin/vllm serve a\nExecStart=\nExecStart=/bin/vllm serve b", ["b"], []),
        ("Environment=A=1\nExecStart=/bin/vllm serve $A\nEnvironment=\nEnvironment=B=2", [""], []),
        ("EnvironmentFile=/x\nExecStart=/bin/vllm serve $B ${C} $HOME", ["? ? ?"], []),
        ("ExecStart=/bin/vllm serve $HOME $NOPE${NOPE}x $NOPE y", ["? $NOPEx y"], []),
        ("ExecStart=/bin/vllm serve %i$A a%%b $$ 5%", ["? a%b $ 5%"], []),
        (r"ExecStart=/bin/vllm serve \q \xzz", [r"\q \xzz"], [("systemd-escape", r"\q"), ("systemd-escape", r"\x")]),
        ("ExecStart=/bin/vllm serve 'a b", ["a b"], [("systemd-quote", "'a b")]),
        ("Environment=A=1 2 3 4\nExecStart=/bin/vllm serve $A", ["1"], [("systemd-assignment", "2 3 4")]),
        ("ExecStart=/bin/vllm serve m | tee log", ["m"], [("systemd-operator", "| tee log")]),
        ("ExecStart=/bin/vllm serve m 2>&1", ["m"], [("systemd-operator", "2>&1")]),
        (
            "[Unit]\nExecStart=/bin/vllm serve x\n[Service]\nExecStart=/bin/vllm serve \\\n; c\n# d\n y \\\n z",
            ["y z"],
            [],
        ),
        ("ExecStart=/bin/vllm serve \\\r\n  m\r\nType=simple", ["m"], []),
        ("Type=simple\nExecStartPost=/bin/vllm serve q \\", ["q"], []),
        ("ExecStop=/bin/vllm serve q", [], []),
    ],
)
def test_a_unit_is_read_as_systemd_documents_it(lines: str, words: list[str], troubles: list[tuple[str, str]]) -> None:
    """Prefixes, several commands, resets, escapes, specifiers, variables, comments, long lines."""
    text = f"[Service]\n{lines}\n"
    page = documents.read(text, "a.service")

    assert (words, troubles) == ([seen(one)[2] for one in page.starts], told(page, text))


@in_one_test(
    ("lines", "found", "variables"),
    [
        (
            "ENV A=1 B='2 3' C=\"4 \\\"5\\\"\" D=a\\ b E=\nCMD [\"m\"]", ("image", "m"),
            {"A": "1", "B": "2 3", "C": '4 "5"', "D": "a b", "E": ""},
        ),
        ("ENV A=$X B='$X' C=\"\\$X\" D=\"a\nCMD [\"m\"]", ("image", "m"), {"A": None, "B": "$X", "C": "$X", "D": ""}),
        ('ENV A  1 2  \nCMD ["m"]', ("image", "m"), {"A": "1 2"}),
        ('env A=1\nFROM vllm/vllm-openai\nCMD ["m"]', ("image", "m"), {}),
        ('CMD ["m"]\nENTRYPOINT ["vllm","serve"]', ("serve", "m"), {}),
        ('ENTRYPOINT ["vllm","serve"]\nCMD ["m"]', ("serve", "m"), {}),
        ('ENTRYPOINT ["vllm","serve"]\nFROM vllm/vllm-openai\nCMD ["m"]', ("image", "m"), {}),
        ('CMD ["m"]\nCMD ["n"]', ("image", "n"), {}),
        ("ENTRYPOINT vllm serve m --port 1", ("serve", "m --port 1"), {}),
        ("CMD exec vllm serve m", ("serve", "m"), {}),
        ('entrypoint ["vllm", \\\n# c\n\n  "serve", \\\n  "m"]', ("serve", "m"), {}),
        ('ENV A=1 \\\n  # c\n  B=2\nENTRYPOINT ["vllm", "serve", "m"]\n', ("serve", "m"), {"A": "1", "B": "2"}),
        ('CMD ["--model", 3]', None, {}),
        ("CMD [vllm, serve, m]", None, {}),
    ],
)  # fmt: skip
def test_a_container_file_is_read_as_docker_builds_it(
    lines: str, found: tuple[str, str] | None, variables: dict[str, str | None]
) -> None:
    """The last stage counts, and CMD follows ENTRYPOINT wherever it is written."""
    page = documents.read(f"FROM vllm/vllm-openai\n{lines}\n", "Dockerfile")

    assert ([found] if found else []) == [seen(one)[1:] for one in page.starts]
    assert [variables] * len(page.starts) == [environment(one) for one in page.starts]


@pytest.mark.parametrize(
    ("lines", "image"),
    [
        ("ARG T=v0.9.1\nFROM vllm/vllm-openai:$T", "vllm/vllm-openai:v0.9.1"),
        ("ARG T\nFROM vllm/vllm-openai:${T:-v0.9.2} AS a", "vllm/vllm-openai:v0.9.2"),
        ('ARG O=vllm\nARG T="v1"\nFROM --platform=linux/amd64 ${O}/vllm-openai:x-${T}-y', "vllm/vllm-openai:x-v1-y"),
        ("FROM vllm/vllm-openai:${T}", None), ("FROM vllm/vllm-openai:v0.9.3", "vllm/vllm-openai:v0.9.3"),
    ],
)  # fmt: skip
def test_arguments_in_the_base_image_are_resolved(lines: str, image: str | None) -> None:
    """Defaults of ARG are used, else the image is unknown. Only literal text has a place."""
    (word,) = documents.read(f"{lines}\n", "Dockerfile").images

    assert word.value == image
    assert (word.excerpt is not None) is (image is not None and image in lines)


@in_one_test(
    ("item", "value", "trouble"),
    [
        ("$$A", "$A", ""),
        ("${A}", "?", ""),
        ("x$A.y", "?", ""),
        ("x${A:-b}y", "xby", ""),
        ("${A-b}", "b", ""),
        ("${A:?e}", "?", ""),
        ("${A?e}", "?", ""),
        ("${A:+b}", "?", ""),
        ("${A+b}", "?", ""),
        ("${A:-}", "", ""),
        ("a${A:-${B:-c}}d", "acd", ""),
        ("a${A:-{b}}d", "a{b}d", ""),
        ("${A:-$$b$C}", "?", ""),
        ("$ b", "$ b", ""),
        ("$1", "$1", ""),
        ("ab${1}", "ab", "$"),
        ("${A", "", "$"),
        ("${A!b}", "", "$"),
        (f"{'${A:-' * 8}b{'}' * 8}", "b", ""),
    ],
)
def test_compose_fills_in_its_variables(item: str, value: str, trouble: str) -> None:
    """Every form of interpolation is resolved; an invalid one is reported at the `$`."""
    text = f"services:\n  a:\n    image: vllm/vllm-openai\n    command:\n    - '{item}'\n"
    page = documents.read(text, "compose.yaml")

    assert [value] == [seen(one)[2] for one in page.starts]
    assert ([("compose-interpolation", trouble)] if trouble else []) == told(page, text)


@pytest.mark.parametrize(
    ("item", "value"),
    [
        *(("$(A)", "1"), ("a$(A)b$(A)", "a1b1"), ("$$(A)", "$(A)"), ("$(NO)", "$(NO)"), ("$A", "$A"), ("a$$", "a$")),
        *(("$(D)", "q$(A)"), ("x$(B)", "?"), ("$(A", "$(A"), ("$$$(A)", "$1")),
    ],
)
def test_kubernetes_inserts_the_containers_own_variables(item: str, value: str) -> None:
    """Only `$(NAME)` is replaced, once, and only for variables of the container."""
    given = "[{name: A, value: '1'}, {name: B}, {name: D, value: 'q$(A)'}]"
    page = documents.read(pod(f"['{item}']", f"    env: {given}\n"), "pod.yaml")

    assert [value] == [seen(one)[2] for one in page.starts]


RESERVE = "deploy: {{resources: {{reservations: {{devices: [{}]}}}}}}"


@in_one_test(
    ("name", "more", "expected"),
    [
        ("compose", "gpus: all", (None, None)),
        ("compose", "gpus: 2", (None, 2)),
        ("compose", "gpus: 99999", (None, None)),
        ("compose", "gpus: [{count: 9999}]", (None, 9999)),
        ("compose", "gpus: [{device_ids: ['3', '5']}]", (("3", "5"), 2)),
        ("compose", RESERVE.format("{count: all}"), (None, None)),
        ("compose", RESERVE.format("{count: 4, capabilities: [gpu]}"), (None, 4)),
        ("compose", RESERVE.format("a, {device_ids: ['1']}"), (("1",), 1)),
        ("compose", RESERVE.format("{driver: nvidia}"), (None, None)),
        ("compose", "deploy: {resources: {limits: {cpus: 1}}}", None),
        ("pod", "resources: {limits: {cpu: 4, nvidia.com/gpu: 2}}", (None, 2)),
        ("pod", "resources: {requests: {amd.com/gpu: '3'}}", (None, 3)),
        ("pod", "resources: {limits: {nvidia.com/gpu: x}}", None),
        ("pod", "resources: {limits: {nvidia.com/gpu: 12345}}", None),
        ("pod", "resources: {limits: {nvidia.com/gpu: 1234}}", (None, 1234)),
        ("pod", "resources: {limits: {nvidia.com/gpu: [2], amd.com/gpu: 3}}", (None, 3)),
        ("pod", "resources: {limits: {cpu: 4}, requests: {nvidia.com/gpu: 2}}", (None, 2)),
        ("compose", "gpus: [{count: 12345}]", (None, None)),
        ("compose", "gpus: 1234", (None, 1234)),
        ("pod", "resources: {limits: {cpu: 4}}", None),
    ],
)
def test_gpus_of_a_container_are_read_from_its_manifest(
    name: str, more: str, expected: tuple[tuple[str, ...] | None, int | None] | None
) -> None:
    """A count or devices; all if a reservation has no count; None without a reservation."""
    compose = f"services:\n  a:\n    image: vllm/vllm-openai\n    command: m\n    {more}\n"
    (found,) = documents.read(compose if name == "compose" else pod("[m]", f"    {more}\n"), f"{name}.yaml").starts

    assert (found.gpus and (found.gpus.devices, found.gpus.count)) == expected


@in_one_test(
    ("options", "variables", "expected"),
    [
        ("-itde A=1", {"A": "1"}, None),
        (
            "-eA=1 -e=B=2 --env C=3 --env=D=4 -e 'E=5 6' -e F=$NO",
            {"A": "1", "B": "2", "C": "3", "D": "4", "E": "5 6", "F": None}, None,
        ),
        ("--rm --init -P --name vllm -v a:b --shm-size 1g", {}, None),
        ("-v a:b --", {}, None),
        ("-e A -e 1", {"A": None}, None),
        ('"${OPTIONS[@]}"', {}, None),
        ("--gpus '\"device=0,2\"'", {}, (("0", "2"), 2)),
        ("--gpus device=GPU-a1", {}, (("GPU-a1",), 1)),
        ("--gpus count=2", {}, (None, 2)),
        ("--gpus=3", {}, (None, 3)),
        ("--gpus all,capabilities=utility", {}, (None, None)),
        ("--gpus '\"count=-1\"'", {}, (None, None)),
        ("--device nvidia.com/gpu=1", {}, (("1",), 1)),
        ("--device nvidia.com/gpu=all --device /dev/dri", {}, (None, None)),
        ("--device /dev/dri", {}, None),
    ],
)  # fmt: skip
def test_options_of_docker_run_are_read_with_their_values(
    options: str, variables: dict[str, str | None], expected: tuple[tuple[str, ...] | None, int | None] | None
) -> None:
    """Short options may be joined or have `=`; a switch has no value, any other option has one."""
    (found,) = documents.read(f"docker run {options} vllm/vllm-openai m --port 1\n", "a.sh").starts

    assert (seen(found)[1:], environment(found)) == (("image", "m --port 1"), variables)
    assert (found.gpus and (found.gpus.devices, found.gpus.count)) == expected


@in_one_test(
    ("command", "expected"),
    [
        ("docker -H x --context=c container run vllm/vllm-openai m", [("docker", "image", "m")]),
        ("docker create vllm/vllm-openai m", [("docker", "image", "m")]),
        ("docker logs vllm/vllm-openai m", []),
        ("docker --context c exec -e A=1 x vllm serve m", [("shell", "serve", "m")]),
        ("kubectl -n x run v --image vllm/vllm-openai --env=A=1 -- m", [("kubernetes", "image", "m")]),
        ("kubectl run v --image=i --command -- vllm serve m", [("kubernetes", "serve", "m")]),
        ("kubectl exec -it p -- vllm serve m", [("shell", "serve", "m")]),
        ("python -mvllm.entrypoints.openai.api_server --model m", [("shell", "api_server", "--model m")]),
        ("./api_server.py --model m", [("shell", "api_server", "--model m")]),
        ("python -u api_server.py --model m", [("shell", "api_server", "--model m")]),
        ("cat api_server.py --model m", []),
        ("python /x/vllm/entrypoints/api_server.py --model m", [("shell", "api_server", "--model m")]),
        ("conda run --name vllm serve x", []),
        ("conda run -n vllm vllm serve x", [("shell", "serve", "x")]),
        ("sudo -u vllm serve m", []),
        ("tmux new -s vllm serve m", []),
        ("foo -u vllm serve m", [("shell", "serve", "m")]),
        ("vllm run-batch -i a", [("shell", "run-batch", "-i a")]),
        ("vllm bench throughput --model m", [("shell", "bench throughput", "--model m")]),
        ("python -m vllm.entrypoints.openai.run_batch -i x", [("shell", "run-batch", "-i x")]),
        ("xargs -I{} vllm serve {} --port 1", [("shell", "serve", "? --port 1")]),
        ("bash --rcfile x -c 'vllm serve m'", [("shell", "serve", "m")]),
        ("python -c 'from vllm import LLM; LLM(1)'", [("python", "LLM", "")]),
        ("python -u -Wc 'from vllm import LLM; LLM(1)'", []),
        ("python -uc 'from vllm import LLM; LLM(1)'", [("python", "LLM", "")]),
        (
            "singularity run -B /a vllm.simg --model m --max-model-len 8 --port 1",
            [("docker", "image", "--model m --max-model-len 8 --port 1")],
        ),
        ("vllm chat serve m", []),
        ("vllm", []),
    ],
)  # fmt: skip
def test_arguments_of_a_program_are_not_commands(command: str, expected: list[tuple[str, str, str]]) -> None:
    """An option's value may be `vllm`; Python runs modules, scripts and code."""
    assert expected == [seen(one) for one in documents.read(command + "\n", "a.sh").starts]


HEREDOCS = """cat > a.yaml <<-'X'
\tservices:
\t  a: {image: vllm/vllm-openai, command: --model a}
\tX
tee -a "b.sh" <<Y
vllm serve b
 Y
Y
ssh host <<Z
vllm serve c
Z
sudo python3 - <<W
from vllm import LLM
LLM('d')
W
bash <<-U
\tvllm serve \\$e --port \\\\
\t1 # \\`
\tU
tee f.sh <<'T'
vllm serve "\\$f"
T
cat <<<"x" >> g.sh
vllm serve g
"""


def test_files_that_a_script_writes_are_read_by_their_kind() -> None:
    """The file name or the reading program decides the kind; `<<-` removes tabs."""
    found = [(one.kind, seen(one)[2] or one.keywords[0].value) for one in documents.read(HEREDOCS, "a.sh").starts]

    assert found == [
        ("compose", "--model a"), ("shell", "b"), ("shell", "c"), ("python", "d"), ("shell", "? --port 1"),
        ("shell", "$f"), ("shell", "g"),
    ]  # fmt: skip
    assert documents.read(HEREDOCS, "a.sh").troubles == ()


OTHER_GRAMMAR = "server {\n  listen 8888;\n  location / { proxy_pass http://127.0.0.1:8000; }\n}\nupstream a 'b\n"


@pytest.mark.parametrize(
    ("line", "is_shell"),
    [
        ("cat > nginx.conf <<'EOF'", False),
        ("cat <<'EOF' > /etc/nginx/sites-enabled/vllm", False),
        ("sudo tee /etc/nginx/conf.d/vllm.conf <<'EOF' > /dev/null", False),
        ("cat <<'EOF' | sudo tee Caddyfile", False),
        ("cat <<'EOF'", False),
        ("python3 client.py --stdin <<'EOF'", False),
        ("sudo sh -c 'cat > /etc/nginx/nginx.conf' <<'EOF'", False),
        ("ssh node2 sudo tee /etc/nginx/nginx.conf <<'EOF'", False),
        ("cat > run.sh <<'EOF'", True),
        ("cat <<'EOF' | sudo tee -a run.bash", True),
        ("cat <<'EOF' | ssh node2 bash -s", True),
        ("docker exec -i box bash <<'EOF' | tee out", True),
        ("sudo -u vllm /bin/sh -s <<'EOF'", True),
    ],
)
def test_only_text_for_a_shell_is_checked_against_shell_grammar(line: str, *, is_shell: bool) -> None:
    """Settings written for other programs are not reported as shell errors."""
    page = documents.read(f"{line}\n{OTHER_GRAMMAR}EOF\nvllm serve m --port 1\n", "a.sh")

    assert [seen(one)[2] for one in page.starts] == ["m --port 1"]
    assert bool(page.troubles) is is_shell


@pytest.mark.parametrize(
    ("line", "is_python"),
    [
        ("python3 <<'EOF'", True),
        ("python3 -u - a b <<'EOF'", True),
        ("python3 client.py <<'EOF'", False),
        ("python3 -m client <<'EOF'", False),
    ],
)
def test_standard_input_of_a_python_program_is_not_a_program(line: str, *, is_python: bool) -> None:
    """Python runs its standard input only if it has no script."""
    page = documents.read(f"{line}\ntell me of a = = b\nEOF\nvllm serve m\n", "a.sh")

    assert [one.kind for one in page.troubles] == (["file.not-python"] if is_python else [])


@pytest.mark.parametrize(
    ("line", "starts"),
    [
        ("cat > notes.conf <<'EOF'", ["m"]),
        ("cat > /usr/local/bin/start <<'EOF'", ["n --port 2", "m"]),
        ("cat > start.in <<'EOF'\n#!/bin/bash", ["n --port 2", "m"]),
    ],
)
def test_a_script_without_a_suffix_is_read(line: str, starts: list[str]) -> None:
    """Its lines or its shebang identify a script; the name of another kind of file rules it out."""
    page = documents.read(f"{line}\nexport HF_HOME=/data\nvllm serve n --port 2\nEOF\nvllm serve m\n", "a.sh")

    assert starts == [seen(one)[2] for one in page.starts]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("| `--a-b` | x |", ["--a-b"]),
        ("| `--a-b 1` |", ["--a-b 1"]),
        ("| --long-name 5, or so | --other-name is for x |", ["--long-name 5", "--other-name"]),
        ("> | `--in-quote=5` |", ["--in-quote=5"]),
        ("| --path /a/b. | b |", ["--path"]),
        ('| --q-r "x \\" y" | --s-t \'u v\' |', ['--q-r x " y', "--s-t u v"]),
        ('| --j-k {"a":1} more | x |', ['--j-k {"a":1}']),
        ("| --a-b | -1 | --c-d=e, |", ["--a-b", "--c-d=e"]),
        ("| `--a-b text` | `--c-d` text |", ["--a-b text", "--c-d"]),
        ("| `--a-b text more` | `--c-d` |", ["--a-b", "--c-d"]),
        ("| x--not-one | ----nor-this |", []),
        ("a | --no-table | b", []),
    ],
)  # fmt: skip
def test_options_in_a_table_have_the_values_that_are_certain(line: str, expected: list[str]) -> None:
    """A number, a quoted text or a final word is a value; a word of a sentence is not."""
    loose = documents.read(f"# T\n{line}\n", "a.md").loose

    assert [("table", each) for each in expected] == [
        (one.where, " ".join(word.value or "?" for word in one.words)) for one in loose
    ]
    assert all(
        word.at is None or f"# T\n{line}\n"[word.start] in "-\"'{" + (word.value or "")
        for one in loose
        for word in one.words
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("| `VLLM_X_Y` | text | `0` |", [("VLLM_X_Y", "0")]),
        ("| VLLM_HOST=1 | `2` |", [("VLLM_HOST", "1")]),
        ("| `NCCL_DEBUG` | `VLLM_A_B` |", [("NCCL_DEBUG", "VLLM_A_B"), ("VLLM_A_B", None)]),
        ("| `VLLM_DEBUG` | some `x` |", [("VLLM_DEBUG", None)]),
        ("| MY_VLLM_X | $HF_HOME |", []),
    ],
)
def test_variables_in_a_table_have_the_value_of_the_last_cell(row: str, expected: list[tuple[str, str | None]]) -> None:
    """Or the value after their `=`; otherwise only the name is read."""
    assert expected == [(one.name, one.value.value) for one in documents.read(f"# T\n{row}\n", "a.md").settings]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--seed 1", "--seed 1"),
        ("--port=2 \\", "--port=2"),
        ('--name "a b"', "--name a b"),
        ("> --quoted-one 'x'", "--quoted-one x"),
        ("* --list-one 5  # c", "--list-one 5"),
        ("12. --flag-only", "--flag-only"),
        ("$ --prompt-one 1", "--prompt-one 1"),
        ("--two words here", None),
        ("-x 1", None),
    ],
)
def test_a_line_with_only_an_option_is_an_option(line: str, expected: str | None) -> None:
    """Also after a list mark or a prompt; with more than a value after it, it is a sentence."""
    loose = documents.read(f"Set:\n\n{line}\n", "a.md").loose

    assert ([expected] if expected else []) == [" ".join(word.value or "?" for word in one.words) for one in loose]


PAGES = {
    "console": (
        (
            "```console\n(v) u@h:~/x$ vllm serve m \\\n    --port 1\nINFO: x\n$ export A=1\n# comment\nexport B=2\n"
            "[root@h x]# vllm serve n --port 2\n\u276f vllm serve o\n```\n"
        ),
        ["m --port 1", "n --port 2", "o"],
    ),
    "fence in a list": (
        "- item\n\n   ~~~~sh\n   vllm serve m \\\n      --port 1\n   ~~~\n   ~~~~\nvllm serve n --port 2\n",
        ["m --port 1", "n --port 2"],
    ),
    "fence in a quotation": ("> ```\n> vllm serve m --port 1\nvllm serve n --port 2\n", ["m --port 1", "n --port 2"]),
    "fence without an end": ("````\n```\nvllm serve m\n```\nvllm serve n\n", ["m", "n"]),
    "fence of a log": ("```log\nvllm serve m --port 1\n```\n``` bash\nvllm serve n\n```\n", ["n"]),
    "fence with attributes": (
        "```{.python .x}\nfrom vllm import LLM\nLLM(1)\n```\n```PyCon\n>>> LLM(2)\n```\n",
        ["", ""],
    ),
    "loop and list": (
        (
            "Do this:\n\nfor i in 1 2; do\n  vllm serve m --port $i\ndone\n\nA=(--port 5)\n"
            'vllm serve m \\\n  "${A[@]}"\n'
            "This is all of it.\nexport B=1\n# c\nA_B=1 vllm serve q --port 7\n"
        ),
        ["m --port 1", "m --port 2", "m --port 5", "q --port 7"],
    ),
    "manifest": (
        "Write:\n\nservices:\n  a:\n    image: vllm/vllm-openai\n    command: --model m\n\nThen text.\n",
        ["--model m"],
    ),
    "spans": (
        (
            'Run `vllm serve m --port 1` or: vllm serve a/b --port 2, and see. 用:vllm serve c/d --port 3。"vllm serve '
            'e/f --port 4" 或者vllm serve g/h --port 5 是\n'
        ),
        ["m --port 1", "a/b --port 2", "c/d --port 3", "e/f --port 4", "g/h --port 5"],
    ),
    "no commands": (
        (
            "vllm serve is a command, vllm serve (new), `vllm serve` and vllm serve, too.\n"
            "Use the vllm serve --help now.\n"
        ),
        [],
    ),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_split_into_its_parts(name: str) -> None:
    """Fences mark blocks, prompts mark sessions, and the surroundings mark inline commands."""
    text, expected = PAGES[name]

    assert expected == [seen(one)[2] for one in documents.read(text, "a.md").starts]


WEB = (
    "<html><head><style>vllm serve no --port 1</style></head><body><script>vllm serve no --port 1</script>"
    "<!-- vllm serve no --port 2 --><pre class='lang-bash'>vllm serve m \\<br>--port 3 &lt;x&gt;</pre><p>a</p>"
    "<table><tr><td>--seed-x</td><td><code>VLLM_USE_V1</code></td></tr></table>$ vllm serve n --port 4<br>x"
    "<div>Use <code>vllm serve o --port 5</code>!</div><pre>vllm serve p"
)


def test_a_web_page_is_read_as_displayed() -> None:
    """Scripts, styles and comments are removed; tags delimit lines, cells and code."""
    page = documents.read(WEB, "a.html")

    assert [seen(one)[2] for one in page.starts] == ["m --port 3 ?", "n --port 4", "o --port 5", "p"]
    assert [one.words[0].value for one in page.loose] == ["--seed-x"]
    assert [one.name for one in page.settings] == ["VLLM_USE_V1"]
    assert [WEB[one.start : one.words[0].end].rsplit(maxsplit=1)[-1] for one in page.starts] == ["m", "n", "o", "p"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("cmd += ['--a']\ncmd.append('--b')\ncmd.extend(('--c',))", "m --a --b --c"),
        ("if x:\n    cmd += ['--a']\ncmd += ['--b']", "m --b"),
        ("cmd.clear()\ncmd += ['--a']", "m"),
        ("cmd, other = ['ls'], 1\ncmd += ['--a']", "m"),
        ("cmd: list = ['ls']\ncmd += ['--a']", "m"),
        ("for cmd in x:\n    pass\ncmd += ['--a']", "m"),
        ("Popen(cmd)\ncmd.append('&')", "m"),
        ("self.cmd += ['--a']", "m"),
        ("cmd += '--a'", "m"),
        ("cmd += ['--a'] if x else []", "m"),
        ("cmd = cmd + ['--a'] + ['--b']\ncmd = [*cmd, '--c']", "m --a --b --c"),
        ("more = ['--a']\ncmd.extend(more)\ncmd += [*more, '--b']", "m --a --a --b"),
        ("more = ['--a']\nif x:\n    more += ['--b']\ncmd += more", "m"),
        ("for one in ('--a', '--b'):\n    cmd.append(one)", "m --a --b"),
        ("for k, v in {'a': 1, 'b': 'c'}.items():\n    cmd += [f'--{k}', str(v)]", "m --a 1 --b c"),
        ("for one in ('--a', '--b'):\n    if one in x:\n        cmd.append(one)\ncmd += ['--c']", "m --c"),
        ("for one in more:\n    cmd.append(one)", "m"),
        ("for one, two in ('--a', '--b'):\n    cmd.append(one)", "m"),
        ("args = cmd\nargs += ['--a']\nargs.append('--b')", "m --a --b"),
        ("args = cmd\nargs = args + ['--a']", "m"),
        ("args = cmd\nif x:\n    args = []\nargs += ['--a']", "m"),
    ],
)
@pytest.mark.parametrize("around", ["{}", "def f(self):\n{}", "try:\n    pass\nexcept OSError:\n{}"])
def test_what_is_always_added_to_a_list_belongs_to_its_command(code: str, words: str, around: str) -> None:
    """Until the list is used for anything else; in every kind of block."""
    text = f"cmd = ['vllm', 'serve', 'm']\n{code}"
    (found,) = documents.read(around.format(text if around == "{}" else indent(text, "    ")), "a.py").starts

    assert seen(found)[2] == words


_METHOD = "class C:\n    def f(self):\n        self.cmd = ['vllm', 'serve', 'm']\n"


@pytest.mark.parametrize(
    ("code", "words", "unread"),
    [
        ("self.cmd = ['vllm', 'serve', 'm']\nself.cmd += ['--a']", "m --a", None),
        ("cmd: list[str] = ['vllm', 'serve', 'm']\ncmd += ['--a']", "m --a", None),
        ("a = ['--a']\nrun(['vllm', 'serve', 'm', *a])", "m --a", None),
        ("a = ['--a']\nrun(['vllm', 'serve'] + ['m'] + a)", "m --a", None),
        ("run(['vllm', 'serve', 'm', *rest])", "m", "rest"),
        ("run(['vllm', 'serve', 'm'] + more(x))", "m", "more(x)"),
        ("cmd = ['vllm', 'serve', 'm']\nfor x in y:\n    cmd += x", "m", "x"),
        ("cmd = ['vllm', 'serve', 'm']\nif x:\n    cmd.append('--a')", "m", None),
        ("cmd = ['vllm', 'serve', 'm']\nfor k in x:\n    cmd += [f'--{k}', x[k]]", "m", "f'--{k}'"),
        ("def f():\n    cmd = ['vllm', 'serve', 'm']\ndef g(x):\n    cmd = ['ls']\n    cmd += x", "m", None),
        ("def f():\n    cmd = ['vllm', 'serve', 'm']\n    def g(x):\n        cmd.extend(x)", "m", "x"),
        ("cmd = ['vllm', 'serve', 'm']\ncmd.insert(3, x)", "m", "cmd.insert(3, x)"),
        ("cmd = ['vllm', 'serve', 'm', '--a']\ncmd[3] = '--b'", "m --a", "cmd[3]"),
        ("cmd = ['vllm', 'serve', 'm', '--a']\ndel cmd[3:]", "m --a", "cmd[3:]"),
        ("cmd = ['vllm', 'serve', 'm']\nx and cmd.append('--a')", "m", "cmd.append('--a')"),
        ("more = ['--a']\nmore.remove('--a')\nrun(['vllm', 'serve', 'm', *more])", "m", "more"),
        ("more = ['--a', '1']\nmore[1] = '9'\nrun(['vllm', 'serve', 'm'] + more)", "m", "more"),
        ("more = ['--a']\ncmd = ['vllm', 'serve', 'm']\nfor x in more:\n    cmd.append(x)\nmore.pop()", "m", "x"),
        ("more = ['--a', '1']\nmore.index('1')\nrun(['vllm', 'serve', 'm'] + more)", "m --a 1", None),
        (f"{_METHOD}    def g(self, x):\n        self.cmd[0] = x", "m", "self.cmd[0]"),
        (f"{_METHOD}    def g(self, x):\n        self.cmd += x", "m", "x"),
        (f"{_METHOD}    @staticmethod\n    def g(self, x):\n        self.cmd += x", "m", None),
        (
            "if x:\n    cmd = ['vllm', 'serve', 'm']\nelse:\n    cmd = ['ls']\ncmd += y\nif z:\n    cmd.append('--a')",
            "m",
            "y",
        ),
    ],
)
def test_options_that_code_adds_are_read_or_reported(code: str, words: str, unread: str | None) -> None:
    """Known lists, sums and attributes are followed; the first unknown addition to a command is reported."""
    page = documents.read(code, "a.py")

    assert [seen(one)[2] for one in page.starts] == [words]
    assert [code[one.start : one.end] for one in page.troubles] == ([unread] if unread else [])
    assert page.starts[0].is_elided is (unread is not None)


_TERMS = st.lists(st.sampled_from(["['--a']", "['--b', '1']", "[*['--c']]", "(['--d'] if x else [])", "more(x)"]))
_READ = {"['--a']": ["--a"], "['--b', '1']": ["--b", "1"], "[*['--c']]": ["--c"]}


@settings(max_examples=50, deadline=None)
@given(terms=_TERMS, count=st.integers(0, 60), is_right=st.booleans())
def test_sums_of_lists_are_read_in_full(terms: list[str], count: int, is_right: bool) -> None:  # noqa: FBT001
    """Whatever their length and brackets; unknown terms are reported."""
    settings_before = [f"['A{number}=1']" for number in range(count)]
    terms = ["['env']", *settings_before, "['vllm', 'serve', 'm']", *terms]
    code = " + (".join(terms) + ")" * (len(terms) - 1) if is_right else " + ".join(terms)
    page = documents.read(f"cmd = {code}\n", "a.py")
    known = [word for term in terms[count + 2 :] for word in _READ.get(term, [])]

    assert [seen(one)[2] for one in page.starts] == [" ".join(["m", *known])]
    assert page.starts[0].is_elided is any(term not in _READ for term in terms[count + 2 :])
    assert len(page.troubles) == page.starts[0].is_elided


def test_pairs_of_a_mapping_have_a_place() -> None:
    """An element that is not a word is reported where its key is."""
    code = "cmd = ['vllm', 'serve', 'm']\nfor pair in {'--a': 'b'}.items():\n    cmd.append(pair)\n"

    assert [seen(one)[2] for one in documents.read(code, "a.py").starts] == ["m ?"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('C="vllm serve $(x) --port 1"\n', [("? --port 1", False)]),
        ('C="vllm serve $(x) --port 1"\n$C\n', [("? --port 1", True)]),
        ('C="vllm serve m --port 1"\n$C\n', [("m --port 1", True)]),
        ('C="vllm serve $(x) --port 1"\nD="vllm serve $(y) --port 2"\necho h ${D}\n', [("? --port 1", False)]),
    ],
)
def test_a_command_kept_in_a_variable_is_read_once(text: str, expected: list[tuple[str, bool]]) -> None:
    """At its use if there is one, else at its assignment, as uncertain."""
    found = [(seen(one)[2], one.is_certain) for one in documents.read(text, "a.sh").starts]

    assert [one for one in found if one[0]] == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("subprocess.run('vllm serve m', shell=True)", True),
        ("subprocess.run('vllm serve m', shell=False)", False),
        ("subprocess.run('vllm serve m', check=True)", False),
        ("subprocess.run('vllm serve m', shell=yes)", False),
        ("os.system('vllm serve m')", True),
    ],
)
def test_a_string_is_certainly_a_command_if_a_shell_runs_it(call: str, expected: bool) -> None:  # noqa: FBT001
    """Without a shell it would be the name of a program."""
    (found,) = documents.read(f"import os, subprocess\n{call}\n", "a.py").starts

    assert (seen(found)[2], found.is_certain) == ("m", expected)


def test_options_of_docker_run_are_kept_separate() -> None:
    """They precede the image; the words before vLLM's own include all of them."""
    (found,) = documents.read("sudo docker run --rm -e A=1 vllm/vllm-openai --model m\n", "a.sh").starts

    assert found.container is not None
    assert [word.value for word in found.container.words] == ["--rm", "-e", "A=1"]
    assert [word.value for word in found.prefix] == ["sudo", "docker", "run", "--rm", "-e", "A=1", "vllm/vllm-openai"]


@pytest.mark.parametrize("lead", ["", "> ", "> > ", "   ", "- ", "> 1. "])
@pytest.mark.parametrize("mark", ["```", "~~~~"])
def test_code_in_a_fence_keeps_its_own_indentation(lead: str, mark: str) -> None:
    """Only quote marks and the indentation of the enclosing list are removed."""
    below = lead.replace("- ", "  ").replace("1. ", "   ")
    lines = ["from vllm import LLM", "if 1:", "    LLM('a',", "        seed=3)"]
    text = "\n".join([f"{lead}{mark}python", *(f"{below}{line}" for line in lines), f"{below}{mark}", ""])
    (block,) = (one for one in pages.blocks(Excerpt.whole(text)) if one.kind == "python")

    assert block.text.text == "\n".join([*lines, ""])
    assert all(text[at] == character for character, at in zip(block.text.text, block.text.at, strict=False))


def written(page: LaunchFile, text: str) -> str:
    """Describe everything on a page in the format of `written_documents`."""
    lines: list[str] = []

    def cut(one: Any) -> str:
        return text[one.start : one.end].replace("\n", "⏎")

    def shown(word: Word) -> str:
        value = "?" if word.value is None else word.value
        return cut(word) if cut(word) == value else f"{cut(word)} = {value}"

    def add(what: str, *parts: str) -> None:
        if parts:
            lines.append(f"{what}: {' | '.join(parts)}")

    for one in (*page.starts, *page.nodes):
        told = ("certain" * one.is_certain, "reconstructed" * one.is_reconstructed, "elided" * one.is_elided)
        lines.append(" ".join(["-", one.kind, one.entry, one.language, *(each for each in told if each)]))
        add("name", *[one.name] * bool(one.name))
        add("whole", cut(one))
        add("prefix", *map(shown, one.prefix))
        add("words", *map(shown, one.words))
        for keyword in one.keywords:
            whole = text[keyword.name_start : keyword.end]
            add("keyword", f"{whole} : {cut(keyword)} {keyword.why}".rstrip())
        for setting in one.environment.values():
            add("variable", f"{cut(setting)} : {shown(setting.value)}")
        add("image", *[shown(one.image)] if one.image else [])
        add("gpus", *[cut(one.gpus)] if one.gpus else [])
        add("within", *(f"{each.language} {cut(each)}" for each in one.within))
        for span in one.keys.values():
            add("key", text[slice(*span)].replace("\n", "⏎") + "‖")
        add("container", *map(cut, one.container.words if one.container is not None else ()))
        for word in (*one.prefix, *one.words):
            at = word.at and "".join(text[place] for place in word.at)
            if at != (word.value or None):
                add("at", f"{word.value} {at}")
    if lines:
        lines.append("-")
    for setting in page.settings:
        add("setting", f"{setting.form} {cut(setting)}")
    add("images", *map(cut, page.images))
    add("loose", *(f"{one.where} {' + '.join(map(shown, one.words))}" for one in page.loose))
    add("troubles", *(f"{one.kind} {cut(one)}" for one in page.troubles))
    return "".join(f"{line}\n" for line in lines)


@in_one_test("case", WRITTEN)
def test_all_parts_of_a_text_have_their_places(case: str) -> None:
    """Each launch, its words, variables, image and context have a begin and an end."""
    name, text, expected = WRITTEN[case]

    assert expected == written(documents.read(text, name), text)


BIG = 1 << 1023
"""A number of 1024 binary digits."""


@in_one_test(
    ("expression", "value"),
    [
        *(("3 + 1", 4), ("2 - 3", -1), ("-(-7 // 2)", 4), ("2 * 2", 4), ("3 ** 3", 27), ("3 << 1", 6)),
        *(("1 + 2", 3), ("7 - 2", 5), ("3 * 4", 12), ("7 // 2", 3), ("7 / 2", 3.5), ("2 ** 10", 1024), ("1 << 4", 16)),
        *(("-3", -3), ("+3", 3), ("-1.5", -1.5), ("not 0", True), ("'a' + 'b'", "ab"), ("2 ** 0", 1), ("1 << 0", 1)),
        *(("[1, (2, 'a')]", [1, [2, "a"]]), ("{1}", [1]), ("{'a': 1, 2: None}", {"a": 1, 2: None}), ("None", None)),
        *(("dict(a=1, b=[2])", {"a": 1, "b": [2]}), ("f'{1}a{{'", "1a{"), ("f'{b}-{b!s}'", "x-x"), ("b", "x")),
        *(("65535 ** 63", 65535**63), ("1 << 63", 1 << 63), ("4294967295 << 1", 8589934590), ("-2 ** 2", -4)),
        *((str(BIG), BIG), (f"{BIG} * 1", BIG), ("[" * 40 + "1" + "]" * 40, None), ("a3", 1), ("2.0 ** 2", 4.0)),
    ],
)
def test_arguments_of_a_call_are_evaluated(expression: str, value: object) -> None:
    """Simple arithmetic, collections and names set once evaluate as in Python."""
    if value is None and expression != "None":
        value = ast.literal_eval(expression)
    text = f"from vllm import LLM\nb = 'x'\na0 = 1\na1 = a0\na2 = a1\na3 = a2\na4 = a3\nLLM('m', seed={expression})\n"
    keyword = documents.read(text, "a.py").starts[0].keywords[1]

    assert (keyword.is_known, repr(keyword.value), keyword.why) == (True, repr(value), "")


@in_one_test(
    ("expression", "why"),
    [
        *(("'a' * 3", "expression"), ("5 % 2", "expression"), ("1 / 0", "expression"), ("-'a'", "expression")),
        *(("1 << 64", "expression"), ("65535 ** 64", "expression"), ("65536 ** 2", "expression")),
        *(("4294967296 << 1", "expression"), ("1.5 << 2", "expression"), ("2 ** -1", "expression")),
        *(
            ("1 << -1", "expression"),
            ("1 + 'a'", "expression"),
            ("'a' + 1", "expression"),
            ("-65536 ** 1", "expression"),
        ),
        *(
            ("a.b.c", "variable c"),
            ("x", "variable x"),
            ("f()", "call"),
            ("dict(1)", "call"),
            ("lambda: 1", "expression"),
        ),
        *(
            ("{**x}", "unpacked mapping"),
            ("dict(a=1, **x)", "unpacked mapping"),
            ("{(1,): 2}", "key of no simple type"),
        ),
        *(("f'{1!r}'", "formatted text"), ("f'{1:2}'", "formatted text"), ("f'{1.5}'", "formatted text")),
        *(("[" * 41 + "1" + "]" * 41, "nested too deep"), ("a4", "nested too deep"), ("b[0]", "expression")),
        *((str(BIG * 2), "a number with too many digits"), (f"{BIG} * 2", "a number with too many digits")),
    ],
)
def test_values_that_cannot_be_evaluated_are_reported(expression: str, why: str) -> None:
    """These need a run, or too much work."""
    text = f"from vllm import LLM\nb = 'x'\na0 = 1\na1 = a0\na2 = a1\na3 = a2\na4 = a3\nLLM('m', seed={expression})\n"
    keyword = documents.read(text, "a.py").starts[0].keywords[1]

    assert (keyword.is_known, keyword.value, keyword.why) == (False, None, why)


@in_one_test(
    ("code", "value"),
    [
        *(("x = 1", 1), ("x: int = 1", 1), ("x = 1\nx = 2", None), ("x: int", None), ("x = 1\nx += 1", None)),
        *(("for x in y: pass", None), ("def f(x): pass\nx = 1", 1), ("def f(*, x): pass\nx = 1", 1)),
        *(("def f(x, /): pass\nx = 1", 1), ("async def f(x): pass\nx = 1", 1), ("x = y = 1", None)),
        *(("x = 1\ndel x", None), ("x, y = 1, 2", None), ("with y as x: pass", None), ("def f(y): pass\nx = 1", 1)),
        *(("x.y = 2\nx = 1", 1), ("x = 1\ny = x", 1), ("x = 1\nx: int = 2", None)),
    ],
)
def test_a_name_that_is_set_once_is_resolved(code: str, value: int | None) -> None:
    """A name that a loop or a second assignment sets is unknown."""
    (found,) = documents.read(f"from vllm import LLM\n{code}\nLLM('m', seed=x)\n", "a.py").starts

    assert found.keywords[1].value == value


def test_additions_to_one_of_two_commands_are_reported_once() -> None:
    """Both launches may have them, and each known option is noted once."""
    made = "if x:\n    cmd = ['vllm', 'serve', 'm']\nelse:\n    cmd = ['vllm', 'serve', 'n']\n"
    page = documents.read(f"{made}cmd += y\nif z:\n    cmd.append('--seed=1')\n", "a.py")

    assert [(seen(one)[2], one.is_elided) for one in page.starts] == [("m", True), ("n", True)]
    assert [[word.value for word in one.words] for one in page.loose] == [["--seed=1"]]
    assert len(page.troubles) == 1


@pytest.mark.parametrize(
    ("change", "is_known"),
    [
        ("opts['seed'] = 2", False),
        ("opts['seed'] += 2", False),
        ("opts['a']['b'] = 2", False),
        ("del opts['seed']", False),
        ("opts.update(args)", False),
        ("opts.setdefault('a', 2)", False),
        ("print(opts['seed'], opts.get('seed'), opts.items())", True),
        ("def f(opts):\n    opts['seed'] = 2", True),
    ],
)
@pytest.mark.parametrize("made", ["{'seed': 1}", "dict(seed=1)"])
def test_arguments_of_a_changed_mapping_are_unknown(made: str, change: str, is_known: bool) -> None:  # noqa: FBT001
    """Whatever changes it; the launch then has arguments that are not in the text."""
    code = f"from vllm import LLM\nopts = {made}\n{change}\nLLM('m', **opts)\n"
    (found,) = documents.read(code, "a.py").starts

    assert [item.name for item in found.keywords] == (["model", "seed"] if is_known else ["model"])
    assert found.is_elided is not is_known


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("opts['--a'] = '2'", "m"),
        ("opts.update(args)", "m"),
        ("opts.keys()", "m --a 1"),
    ],
)
def test_items_of_a_changed_mapping_are_unknown(code: str, words: str) -> None:
    """A loop over them adds options that are not read."""
    loop = "cmd = ['vllm', 'serve', 'm']\nfor k, v in opts.items():\n    cmd += [k, v]\n"
    (found,) = documents.read(f"opts = {{'--a': '1'}}\n{code}\n{loop}", "a.py").starts

    assert (seen(found)[2], found.is_elided) == (words, words == "m")


@pytest.mark.parametrize("change", ["x.append(2)", "x[0] = 2", "if y:\n    x.extend(y)"])
def test_values_that_code_changes_are_unknown(change: str) -> None:
    """A list that is one argument's value is read only if nothing else changes it."""
    code = f"from vllm import LLM\nx = [1]\n{change}\nLLM('m', seed=x)\n"
    (found,) = documents.read(code, "a.py").starts

    assert not found.keywords[1].is_known


@in_one_test(
    ("code", "value"),
    [
        ("def f(x):\n    {}\nx = 1", None),
        ("async def f(*, x):\n    {}\nx = 1", None),
        ("def f(*x):\n    {}\nx = 1", None),
        ("f = lambda x: {}\nx = 1", None),
        ("f = lambda x=x: None\n{}\nx = 1", 1),
        ("def f(y={}): pass\nx = 1", 1),
        ("def f():\n    x = 1\n    {}\ndef g():\n    x = 2", 1),
        ("def f():\n    def g():\n        {}\n    x = 1\nx = 2", 1),
        ("def f():\n    x = 2\n{}", None),
        ("def f():\n    global x\n    x = 2\n{}\nx = 1", None),
        ("def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n    {}", None),
        ("class C:\n    x = 1\n    {}\nx = 2", 1),
        ("class C:\n    x = 1\n    def f(self):\n        {}\nx = 2", 2),
    ],
)
def test_a_name_is_that_of_its_function_or_class(code: str, value: int | None) -> None:
    """Another variable with its name does not change it; parameters are unknown."""
    call = "LLM('m', seed=x)"
    (found,) = documents.read(f"from vllm import LLM\n{code.format(call)}\n", "a.py").starts

    assert found.keywords[1].value == value
    assert found.keywords[1].why == ("" if value else "variable x")
    assert found.keywords[1].why == ("" if value else "variable x")


@in_one_test(
    ("code", "entry"),
    [
        *(("import vllm\nvllm.LLM('m')", "LLM"), ("import vllm as v\nv.LLM('m')", "LLM"), ("LLM('m')", "LLM")),
        *(("from vllm import LLM as E\nE('m')", "LLM"), ("import vllm.x.y\nvllm.x.y.EngineArgs('m')", "EngineArgs")),
        *(("from vllm.engine.arg_utils import AsyncEngineArgs\nAsyncEngineArgs('m')", "AsyncEngineArgs"),),
        *(("from other import LLM\nLLM('m')", None), ("class LLM: ...\nLLM('m')", None), ("LLM = 1\nLLM('m')", None)),
        *(("def LLM(x): ...\nLLM('m')", None), ("other.LLM('m')", None), ("f().LLM('m')", None)),
        *(("from vllm import x as LLM\nLLM('m')", None), ("import other.vllm\nother.vllm.LLM('m')", None)),
        *(("vllm.LLM('m')", "LLM"), ("x[0]('m')", None), ("from . import LLM\nLLM('m')", None)),
    ],
)
def test_a_vllm_class_is_identified_by_its_import(code: str, entry: str | None) -> None:
    """An unimported name counts as uncertain, unless the text defines it."""
    found = documents.read(f"{code}\n", "a.py").starts

    assert [one.entry for one in found] == [entry] * (entry is not None)
    assert [one.is_certain for one in found] == ["import" in code] * len(found)


@in_one_test(
    ("code", "expected"),
    [
        *(
            ("os.environ['A'] = '1'", {"A": "1"}),
            ("environ['A'] = '1'", {"A": "1"}),
            ("os.environ['A'] = 2", {"A": "2"}),
        ),
        *(("os.environ.setdefault('A', '1')", {"A": "1"}), ("monkeypatch.setenv('A', '1')", {"A": "1"})),
        *(
            ("os.putenv('A', str(1))", {"A": "1"}),
            ("os.environ.update({'A': '1', b: '2'}, C='3')", {"A": "1", "C": "3"}),
        ),
        *(("os.environ.update([('A', '1')], **x)", {}), ("d.update({'A': '1'})", {}), ("d.setdefault('A', '1')", {})),
        *(("os.environ.setdefault('A')", {}), ("os.environ[k] = '1'", {}), ("os.environ[1] = '1'", {})),
        *(("os.environ['A'] = x", {"A": None}), ("os.environ['A'] = True", {"A": None}), ("d['A'] = '1'", {})),
        *(
            ("os.environ['A'] = y = '1'", {"A": "1"}),
            ("os.environ['A'] = 1.5", {"A": "1.5"}),
            ("setdefault('A', '1')", {}),
        ),
        *(("os.environ['A'] = str()", {"A": None}), ("os.environ['A'] = sys.executable", {"A": "python"})),
    ],
)
def test_variables_that_a_program_sets_are_its_environment(code: str, expected: dict[str, str | None]) -> None:
    """Every way to set `os.environ` counts; other mappings and unknown names do not."""
    page = documents.read(f"import os\nfrom vllm import LLM\n{code}\nLLM('m')\n", "a.py")

    assert expected == environment(page.starts[0])
    assert expected == {one.name: one.value.value for one in page.settings}


@in_one_test(
    ("code", "words", "variables"),
    [
        ("subprocess.run(['vllm', 'serve', 'm'])", "m", {}),
        ("subprocess.Popen(('vllm', 'serve', 'm', x))", "m ?", {}),
        ("subprocess.run(args)", None, {}),
        ("subprocess.run()", None, {}),
        ("c = ['vllm', 'serve', 'm']\nsubprocess.run(c, env={'A': '1'})", "m", {"A": "1"}),
        ("e = dict(A='1')\nsubprocess.check_call(['vllm', 'serve', 'm'], env=e)", "m", {"A": "1"}),
        ("subprocess.call(['vllm', 'serve', 'm'], env=dict(os.environ, A='1', **b))", "m", {"A": "1"}),
        ("subprocess.call(['vllm', 'serve', 'm'], env={**os.environ, 'A': '1'})", "m", {"A": "1"}),
        ("subprocess.call(['vllm', 'serve', 'm'], env=f())", "m", {}),
        (
            "e = {'A': '1', 'B': '2'}\ne['B'] = '3'\nsubprocess.run(['vllm', 'serve', 'm'], env=e)",
            "m",
            {"A": "1", "B": "3"},
        ),
        ("e = os.environ.copy()\ne['A'] = '1'\nsubprocess.run(['vllm', 'serve', 'm'], env=e)", "m", {"A": "1"}),
        ("e = {'A': '1'}\nsubprocess.run(['vllm', 'serve', 'm'], env=e)\ne['A'] = '2'", "m", {"A": "1"}),
        ("e = {'A': '1'}\ne['A'] = '2'\ne.pop('A')\nsubprocess.run(['vllm', 'serve', 'm'], env=e)", "m", {}),
        (
            "e = {'A': '1'}\nf = e\nf['B'] = '2'\nsubprocess.run(['vllm', 'serve', 'm'], env=e)",
            "m",
            {"A": "1", "B": "2"},
        ),
        ("subprocess.run('vllm serve m'.split())", "m", {}),
        ("c = 'vllm serve m'\nsubprocess.run(shlex.split(c), env={'A': '1'})", "m", {"A": "1"}),
        ("subprocess.run('vllm serve m'.join())", None, {}),
        ("c = 'A=1 vllm serve m'\nos.popen(c)", "m", {"A": "1"}),
        ("subprocess.getoutput('vllm serve m')", "m", {}),
        ("asyncio.create_subprocess_shell('vllm serve m')", "m", {}),
        ("subprocess.run([python, '-m', 'vllm.entrypoints.openai.api_server', '--model', 'm'])", "--model m", {}),
        ("subprocess.run(['vllm'])", None, {}),
        ("subprocess.run(['python', '-c', 'from vllm import LLM; LLM(2)'])", "", {}),
        ("subprocess.run(['bash', '-c', 'A=1 vllm serve m'])", "m", {"A": "1"}),
        ("x = [*y, 'vllm', 'serve', 'm']", "m", {}),
        ("x = ['python', 'api_server.py', '--model', 'm']", "--model m", {}),
        ("x = ['a', 'b']", None, {}),
        ("x = ['api_server.py']", None, {}),
    ],
)
def test_commands_that_a_program_runs_are_found(code: str, words: str | None, variables: dict[str, str]) -> None:
    """Commands may be lists or strings, inline or named, with their environment."""
    found = documents.read(f"import os, shlex, subprocess\n{code}\n", "a.py").starts

    assert [words] * (words is not None) == [seen(one)[2] for one in found]
    assert [variables] * len(found) == [environment(one) for one in found]


@in_one_test(
    ("code", "expected"),
    [
        ("e = {'A': '1', 'B': '2'}\nif x:\n    e['A'] = '3'\nCALL", [{"A": None, "B": "2"}]),
        ("e = os.environ.copy()\nif x:\n    e['A'] = '1'\n    CALL\nelse:\n    CALL", [{"A": "1"}, {"A": None}]),
        ("e = os.environ.copy()\ndef f():\n    e['A'] = '1'\ndef g():\n    CALL", [{"A": None}]),
        ("e = {'A': '1'}\ndef f(): CALL\ne['A'] = '2'\nf()", [{"A": None}]),
        ("e = {'A': '1'}\nf = lambda: CALL\ne['A'] = '2'\nf()", [{"A": None}]),
        ("e = {'A': '1'}\ne['A'] = '2'\ndef f(): CALL", [{"A": "2"}]),
        ("e = {'A': '1'}\nfor x in y:\n    CALL\n    e['A'] = '2'", [{"A": None}]),
        ("for x in y:\n    e = {'A': '1'}\n    CALL\n    e['A'] = '2'\n    CALL", [{"A": "1"}, {"A": "2"}]),
        ("e = {'A': '1'}\ntry:\n    e['A'] = '2'\nexcept E:\n    CALL", [{"A": None}]),
        ("e = {'A': '1'}\ne[k] = '2'\nCALL", [{}]),
        ("e = {'A': '1'}\ne['A'] = '2'\ne = {'A': '3'}\nCALL", [{}]),
        ("x['y']['A'] = '1'\nsubprocess.run(['vllm', 'serve', 'm'], env={'B': '2'})", [{"B": "2"}]),
    ],
)
def test_an_item_counts_if_it_is_always_set_before_the_call(code: str, expected: list[dict[str, str | None]]) -> None:
    """A variable that another branch, function or turn of a loop may set is unknown."""
    call = "subprocess.run(['vllm', 'serve', 'm'], env=e)"
    found = documents.read(f"import os, subprocess\n{code.replace('CALL', call)}\n", "a.py").starts

    assert expected == [environment(one) for one in found]


def test_an_environment_of_several_calls_is_reported_once() -> None:
    """Each statement that sets variables counts once, however many launches have them."""
    call = "subprocess.run(['vllm', 'serve', 'm'], env=e)\n"
    reading = DocumentReading()
    text = f"import subprocess\ne = {{'A': '1'}}\n{call}e['B'] = '2'\n{call}{call}"
    python_calls.read(Excerpt.whole(text), Around(), reading)

    assert [one.name for one in reading.settings] == ["A", "B"]
    assert [environment(one) for one in reading.starts] == [{"A": "1"}, {"A": "1", "B": "2"}, {"A": "1", "B": "2"}]


def test_environments_of_python_take_linear_time() -> None:
    """Also where each of many calls has the variables of all calls before it."""
    unit = "e['A'] = 'x'\nsubprocess.run(['vllm', 'serve', 'm'], env=e)\n"

    def read(more: str) -> None:
        text = f"import os, subprocess\ne = os.environ.copy()\n{more}"
        python_calls.read(Excerpt.whole(text), Around(), DocumentReading())

    assert growth(read, unit * 400) < LIMIT


@in_one_test(
    ("scalar", "style", "value", "at"),
    [
        ("ab c  # d\n", "plain", "ab c", "ab c"),
        ("ab\n  cd\n\n  ef\n", "plain", "ab cd\nef", "ab\ncd\nef"),
        ("\n", "plain", "", ""),
        ("'it''s'\n", "single", "it's", "it's"),
        ("'ab\n\n  cd'\n", "single", "ab\ncd", "ab\ncd"),
        ("'ab \r\n  cd'\r\n", "single", "ab cd", "ab\rcd"),
        ("'ab\r\n\r\n\r\n  cd'\r\n", "single", "ab\n\ncd", "ab\r\rcd"),
        ("'ab\r  cd\r\r  ef'\n", "single", "ab cd\nef", "ab\rcd\ref"),
        ("''\n", "single", "", ""),
        (r'"a\x41\u00e9\U0001F600\n\t\\\"\/b"' + "\n", "double", 'aAé😀\n\t\\"/b', "a" + "\\" * 8 + "b"),
        (r'"\0\a\b\v\f\r\e\N\_\L\P\ "' + "\n", "double", "\0\a\b\v\f\r\x1b\x85\xa0\u2028\u2029 ", "\\" * 12),
        ('"ab \\\n   cd"\n', "double", "ab cd", "ab cd"),
        ('"ab\\\r\n  cd"\r\n', "double", "abcd", "abcd"),
        ('"ab  \n  cd"\n', "double", "ab cd", "ab\ncd"),
        ('"ab\n\n\n  cd"\n', "double", "ab\n\ncd", "ab\n\ncd"),
        ('"a\\t \n b"\n', "double", "a\t b", "a\\\nb"),
        ('""\n', "double", "", ""),
        ("|\n  ab\n   c\n\n  d\n", "literal", "ab\n c\n\nd\n", "ab\n c\n\nd\n"),
        ("|-\n  ab\n\n", "literal", "ab", "ab"),
        ("|+\n  ab\n\n\n", "literal", "ab\n\n\n", "ab\n\n\n"),
        ("|\n  ab\n\n\n", "literal", "ab\n", "ab\n"),
        ("|\n\n  ab\n", "literal", "\nab\n", "\nab\n"),
        ("|\n", "literal", "", ""),
        ("|+\n\n\n", "literal", "\n\n", "\n\n"),
        ("|2\n   ab\n", "literal", " ab\n", " ab\n"),
        ("|1-\n  ab\n", "literal", " ab", " ab"),
        ("| # 9 - c\n  ab\n", "literal", "ab\n", "ab\n"),
        ("|\n  ab\n# c\n", "literal", "ab\n", "ab\n"),
        ("|\n  \tab\n", "literal", "\tab\n", "\tab\n"),
        ("|\r\n  ab\r\n  cd\r\n", "literal", "ab\ncd\n", "ab\ncd\n"),
        (">\n  ab\n  cd\n\n  ef\n", "folded", "ab cd\nef\n", "ab\ncd\nef\n"),
        (">\n  ab\n   cd\n  ef\n", "folded", "ab\n cd\nef\n", "ab\n cd\nef\n"),
        (">\n  ab\n\n   cd\n\n  ef\n", "folded", "ab\n\n cd\n\nef\n", "ab\n\n cd\n\nef\n"),
        (">-\n\n  ab\n\n\n  cd\n", "folded", "\nab\n\ncd", "\nab\n\ncd"),
        (">+\n  ab\n\n", "folded", "ab\n\n", "ab\n\n"),
        (">2-\n    ab\n  cd\n", "folded", "  ab\ncd", "  ab\ncd"),
        (">\r\n  ab\r\n  cd\r\n", "folded", "ab cd\n", "ab\ncd\n"),
    ],
)
@in_one_test("lead", ["k: ", "# c\n- - k: "])
def test_characters_of_a_scalar_have_their_places(lead: str, scalar: str, style: str, value: str, at: str) -> None:
    """In each style of YAML 1.2, with folding, escapes and line ends."""
    indent = " " * (len(lead.rsplit("\n", 1)[-1]) - 3)
    text = lead + scalar.replace("\n ", f"\n{indent} ").replace("\r ", f"\r{indent} ")
    node = yaml_places.read(Excerpt.whole(text))
    assert node is not None
    found = scalars(node)[1]
    whole = text[found.start : found.end]

    assert (found.value, found.style) == (value, style)
    assert "".join(text[place] for place in found.text.at[:-1]) == at
    assert list(found.text.at) == sorted(found.text.at)
    assert found.text.at[-1] == found.end
    assert whole.rstrip() == text[len(lead) :].split("# c\n")[0].split("  # d")[0].rstrip()


def test_merged_keys_follow_the_keys_of_a_mapping() -> None:
    """The last of repeated keys counts; merged mappings add missing keys."""
    text = (
        "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc: {<<: [*a, *b], y: 5, y: 6, [k]: 7}\n"
        "d: {<<: *b, w: 8}\ne: {'<<': *a, v: 9}\n"
    )
    root = yaml_places.read(Excerpt.whole(text))
    assert isinstance(root, yaml_places.Mapping)
    found: dict[str, dict[str, str]] = {}
    for key in "abcde":
        node = root.get(key)
        assert isinstance(node, yaml_places.Mapping)
        items = {one.value: value for one, value in node.items()}
        assert all(node.get(name) is value for name, value in items.items())
        found[key] = {name: value.value for name, value in items.items() if isinstance(value, yaml_places.Scalar)}
        assert [one.value for one in node.repeated()] == ["y"] * (key == "c")

    assert found["c"] == {"y": "6", "x": "1", "z": "4"}
    assert list(found["c"]) == ["y", "x", "z"]
    assert found["d"] == {"w": "8", "y": "3", "z": "4"}
    assert found["e"] == {"v": "9"}
    assert root.get("f") is None
    assert [path for path, _ in yaml_places.walk(root)][:6] == [(), ("a",), ("a", "x"), ("a", "y"), ("b",), ("b", "y")]


@pytest.mark.parametrize(
    ("text", "documents_"),
    [
        ("a: 1\n", ["a: 1\n"]),
        ("---\na: 1\n---\nb: 2\n...\nc: 3", ["\na: 1\n", "\nb: 2\n", "\nc: 3"]),
        ("--- a\n---\n\n---b: 1\n", [" a\n", "\n\n---b: 1\n"]),
        ("a: |\n  ---\nb: 1\n... \n", ["a: |\n  ---\nb: 1\n"]),
        ("\n \n", []),
        ("--- # x\n", [" # x\n"]),
        ("a\n---", ["a\n"]),
    ],
)
def test_a_stream_is_split_into_its_documents(text: str, documents_: list[str]) -> None:
    """A mark begins a line, alone or before a blank; empty documents are dropped."""
    found = list(yaml_places.documents(Excerpt.whole(text)))

    assert documents_ == [one.text for one in found]
    assert all(text[one.at[0] :].startswith(one.text) for one in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n{{ x }}\nb: ^\n", True),
        ("{{ x }}\na\nb: ^\nc\n", False),
        ("b: ^ {% x\n", True),
        ("b: ^\n{{ x\n", True),
        ("b: ^\nc\n{{ x\n", False),
        ("b: ^\nc {{", True),
        ("b: ^\n{ {\n", False),
    ],
)
def test_template_syntax_counts_on_a_line_and_its_neighbours(text: str, expected: bool) -> None:  # noqa: FBT001
    """Near a template, invalid YAML may be valid after rendering."""
    assert yaml_places.is_near_template(Excerpt.whole(text), text.index("^")) is expected


@pytest.mark.parametrize(
    ("text", "says", "at"),
    [
        ("a: *b\n", "unknown alias b", 3),
        ("[" * 62, "too large or too deep", 61),
        ("a" * 200_001, "longer than 200000 characters", 0),
        ("a: b: c\n", "mapping values are not allowed here", 4),
    ],
    ids=["alias", "deep", "long", "wrong"],
)
def test_invalid_yaml_is_reported_with_its_place(text: str, says: str, at: int) -> None:
    """So is a document above the limits."""
    with pytest.raises(yaml_places.YamlError) as caught:
        yaml_places.read(Excerpt.whole(text))

    assert (str(caught.value), caught.value.at) == (says, at)


@pytest.mark.parametrize(
    ("arguments", "is_own"),
    [
        ("--served-model-name a", True),
        ("--served-model-name=a", True),
        ("--model=m", True),
        ("--model m", False),
        ("--model m --dtype half", True),
        ("--max_num_seqs 1 --enable_lora", True),
        ("--model m --host h --port 1 --api-key k", False),
        ("--model m --dtype half --ctx 1", True),
        ("--model m --dtype half --ctx 1 --jinja", False),
        ("--model m --dtype half --enable-lora --max-num-seqs 2 --ctx 1 --jinja", True),
        ("--model m --dtype half --seed 1 --ctx 1 --jinja 1", False),
        ("-tp 2 -pp 3", False),
        ("serve m", False),
    ],
)
def test_arguments_identify_a_container_of_vllm(arguments: str, is_own: bool) -> None:  # noqa: FBT001
    """One option that only vLLM has, or two of vLLM's with at most one unknown, are enough."""
    found = documents.read(f"services: {{a: {{build: ., command: {arguments}}}}}\n", "compose.yaml").starts

    assert bool(found) is is_own
    assert [one.is_certain for one in found] == [False] * is_own


@in_one_test(
    ("command", "expected"),
    [
        ("docker run vllm/vllm-openai:v0.9.0", [("image", "")]),
        ("docker run rocm/vllm:x", []),
        ("docker run rocm/vllm:x --model m", [("image", "--model m")]),
        ("docker run rocm/vllm:x m", []),
        ("docker run other --model m --dtype half", [("image", "--model m --dtype half")]),
        ("docker run other --port 1", []),
        ("docker run vllm/vllm-openai m --port 1", [("image", "m --port 1")]),
        ("docker run vllm/vllm-openai ./m --port 1", [("image", "./m --port 1")]),
        ("docker run vllm/vllm-openai python3 -m vllm.entrypoints.openai.api_server", [("api_server", "")]),
        ("docker run vllm/vllm-openai ray start", []),
        ("docker run vllm/vllm-openai torchrun x", []),
        ("docker run x/vllm-openai-cpu:v1 m", [("image", "m")]),
        ("docker run --entrypoint '' vllm/vllm-openai", []),
        ("docker run", []),
    ],
)
def test_an_image_runs_its_entry_point(command: str, expected: list[tuple[str, str]]) -> None:
    """`vllm-openai` images run a server; others run their command."""
    assert expected == [seen(one)[1:] for one in documents.read(f"{command}\n", "a.sh").starts]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("vllm serve m", "vllm serve"),
        ("python3 -m vllm.entrypoints.openai.api_server --model m", "python3 -m vllm.entrypoints.openai.api_server"),
        ("bash -c 'vllm serve m'", "bash -c 'vllm serve m'"),
        ("vllm bench latency", "vllm bench latency"),
        ("m --port 1", None),
        ("vllm serve --help", None),
    ],
)
def test_a_repeated_entry_point_is_reported_as_a_whole(command: str, told: str | None) -> None:
    """All words from the program to its command would become arguments."""
    text = f"docker run vllm/vllm-openai:v0.9.0 {command}\n"
    troubles = documents.read(text, "a.sh").troubles

    assert [text[one.start : one.end] for one in troubles] == [told] * (told is not None)
    assert all(one.says == {"image": "vllm/vllm-openai:v0.9.0"} for one in troubles)


@in_one_test(
    ("value", "option", "is_known"),
    [
        *(("PORT", "--port", False), ("N", "-tp", False), ("SEED", "--seed", False), ("EED", "--seed", False)),
        *(("PORT", "x", True), ("AUTO", "--dtype", True), ("MY_MODEL", "--model", False), ("A", "--a-b", False)),
        *(("PORTS", "--host", True), ("NUM_X", "--host", False), ("port", "--port", True), ("P0RT", "--port", True)),
        *(("{port}", "--port", False), ("%port%", "--port", False), ("{port", "x", True)),
        *(("{x}", "y", False), ("GPUS", "--x", False), ("NAMES_", "--x", True), ("MAX_LEN", "--max-len", False)),
    ],
)
def test_a_placeholder_in_a_page_is_reported_by_its_name(value: str, option: str, is_known: bool) -> None:  # noqa: FBT001
    """Names in braces, and capitals after an option that name a kind of value."""
    (found,) = documents.read(f"```bash\nvllm serve m {option} {value}\n```\n", "a.md").starts

    assert (found.words[-1].value == value) is is_known
    assert found.words[-1].why == ("" if is_known else "placeholder")


@pytest.mark.parametrize(
    ("words", "expected", "is_elided"),
    [
        ("m ...", "m", True),
        ("m [options]", "m", True),
        ("m [VLLM_ARGS]...", "m", True),
        ("m …", "m", True),
        ("m --x a...b", "m --x ?", False),
        ("m [1,2]", "m [1,2]", False),
        ("m -h", None, False),
        ("m --help=x", None, False),
        ("m --helper", "m --helper", False),
        ("m [--port PORT]", None, False),
        ("[model] --x 1", None, False),
        ("m [model]", "m [model]", False),
    ],
)
def test_omissions_in_a_description_are_reported(words: str, expected: str | None, is_elided: bool) -> None:  # noqa: FBT001
    """`...` and `[options]` are further arguments; a synopsis and `--help` launch nothing."""
    found = documents.read(f"```bash\nvllm serve {words}\n```\n", "a.md").starts

    assert [(expected, is_elided)] * (expected is not None) == [(seen(one)[2], one.is_elided) for one in found]


def test_a_script_has_no_placeholders() -> None:
    """In a shell script, capitals, braces and three dots are plain words."""
    (found,) = documents.read("vllm serve MODEL --port PORT --x a...b {y}\n", "a.sh").starts

    assert seen(found)[2] == "MODEL --port PORT --x a...b {y}"


@pytest.mark.parametrize(
    ("text", "words", "at", "is_pasted"),
    [
        (r"vllm serve m \ --port 1", "m --port 1", "--port", True),
        (r"vllm serve m \  --port 1", "m --port 1", "--port", False),
        (r"vllm serve m \ ", "m", "m", False),
        ("vllm serve m ' --port' 1", "m  --port 1", " --port", False),
        (r"vllm serve m a\ b", "m a b", "a b", False),
    ],
)
def test_a_backslash_without_its_line_end_is_not_a_word(text: str, words: str, at: str, is_pasted: bool) -> None:  # noqa: FBT001
    r"""A shell reads `\ --port` as the word ` --port`; the intended option is read and marked."""
    (found,) = documents.read(f"{text}\n", "a.sh").starts
    word = found.words[1] if len(found.words) > 1 else found.words[0]

    assert (" ".join(one.value or "" for one in found.words), found.is_reconstructed) == (words, is_pasted)
    assert word.at is not None
    assert "".join(text[place] for place in word.at) == at


@in_one_test(
    ("text", "kind"),
    [
        *(("#!/usr/bin/env python3\nx\n", "python"), ("#!/bin/sh\nx\n", "shell"), ("\ufeff#!/bin/sh\nx\n", "shell")),
        *(('{"cells": [], "nbformat": 4}', "notebook"), ('{"a": 1}', "yaml"), ('[{"image": 1}]', "yaml")),
        *(("[Unit]\nA=1\n", "unit"), ("# c\n\n[Service]\nA=1\n", "unit"), ("[other]\nA=1\n", "page")),
        *(("[program:x y]\ncommand=a\n", "unit"), ("; c\n[Container]\nImage=a\n", "unit")),
        *(("x\n```\ny\n```\n", "page"), ("<!DOCTYPE html>\n", "page"), ("  <html>\n", "page")),
        *(("ARG A=1\nFROM x\n", "dockerfile"), ("FROM x\nRUN y\n", "dockerfile"), ("ARG A=1\n", "shell")),
        *(("services:\n  a:\n", "yaml"), ("# c\nkind: Pod\n", "yaml"), ("- image: a\n", "yaml")),
        *(("image: a\n", "yaml"), ("vllm serve \\\nimage: a\n", "page"), ("import os\n", "python")),
        *(("from a.b import c\n", "python"), ("def f(x):\n  pass\n", "python"), ("class A:\n  x\n", "python")),
        *(("x = LLM('a')\n", "python"), ("vllm.EngineArgs(1)\n", "python")),
        *(("> export A=1\n> vllm serve m --x\n", "shell"), ("> I said that.\n> And this.\n", "page")),
    ],
)
def test_a_format_is_detected_by_its_own_syntax(text: str, kind: str) -> None:
    """The first non-empty line, or a line that only one format has, decides."""
    assert formats.kind_of(text) == kind


@in_one_test(
    ("name", "kind"),
    [
        *(("a/Dockerfile", "dockerfile"), ("Dockerfile.gpu", "dockerfile"), ("Containerfile", "dockerfile")),
        *(("x.dockerfile", "dockerfile"), (r"c:\x\run.SH", "shell"), ("a.env", "shell"), (".envrc", "shell")),
        *(("a.yml", "yaml"), ("a.json", "yaml"), ("a.container", "unit"), ("a.py", "python"), ("a.ipynb", "notebook")),
        *(("README.md", "page"), ("a.log", "page"), ("a.tf", "code"), ("a.log1", None), ("a.txt", None), ("sh", None)),
        *(("a.sh/b", None), ("", None), ("a.h", None)),
    ],
)
def test_a_file_name_gives_the_format(name: str, kind: str | None) -> None:
    """The suffix decides, for any case and folder; otherwise the content does."""
    assert formats.is_named(name) is (kind is not None)
    assert formats.kind_of("FROM x\n", name) == (kind or "dockerfile")


@in_one_test(
    ("line", "kind"),
    [
        *(("for i in 1 2; do", "structure"), ("done", "structure"), ("fi; x", "structure"), ("}", "structure")),
        *(("f() {", "structure"), ("if [ -z x ]; then", "structure"), ("case x in", "structure"), ("donate", "")),
        *(("a = 1", "other"), ("[table]", "other"), ('"a": {', "other"), ("name {", "other"), ("],", "other")),
        *(("* item", "sentence"), ("- item", "sentence"), ("1. item", "sentence"), ("INFO x", "sentence")),
        *(("====", "sentence"), ("部署 x", "sentence"), ("A=1 b", "command")),
        *(
            ("Server command: x", "sentence"),
            ("The server", "sentence"),
            ("then, x", "sentence"),
            ("Done!", "sentence"),
        ),
        *(
            ("vllm serve --x", "command"),
            ("ls > a", "command"),
            ("ls a", ""),
            ("cd x && y", "command"),
            ("ls x; \\", "command"),
        ),
        *(("it works well here, it does", "sentence"), ("ls works here.", "sentence"), ("ls here.", "")),
        *(("one two three four five", "sentence"), ("'a b'", ""), ("# c", ""), ("", ""), ("A[1]+=2", "command")),
        *(
            ("ls 2>&1", "command"),
            ("ls &", "command"),
            ("ls $(x)", "command"),
            ("ls $x", "command"),
            ("x -y", "command"),
        ),
    ],
)
def test_a_line_is_classified_as_script_or_sentence(line: str, kind: str) -> None:
    """Syntax of scripts, commands, sentences or other languages decides; "" if undecided."""
    assert formats.kind_of_line(line) == kind


@in_one_test(
    ("text", "words", "rest"),
    [
        ("vllm serve a/b--port 1", ["a/b", "--port", "1"], ""),
        ("vllm serve a/b --x 1--port 2", ["a/b", "--x", "1", "--port", "2"], ""),
        ("vllm serve a/b\\--port 2", ["a/b", "--port", "2"], ""),
        ("vllm serve 'a b'--port=2", ["a b", "--port=2"], ""),
        ('vllm serve a/b --x="c d"--port 2', ["a/b", "--x=c d", "--port", "2"], ""),
        ('vllm serve a/b --x="$c"--port 2', ["a/b", None, "--port", "2"], ""),
        ("vllm serve a/b --x $c --port 2--seed 1", ["a/b", "--x", None, "--port", "2", "--seed", "1"], ""),
        ("vllm serve a/b--port 10.0.0.1--seed 1", ["a/b", "--port", "10.0.0.1", "--seed", "1"], ""),
        ("vllm serve a/b--host=10.0.0.1--seed 1", ["a/b", "--host=10.0.0.1", "--seed", "1"], ""),
        ("vllm serve a/b --port 1.5k--seed 1", ["a/b", "--port", "1.5k", "--seed", "1"], ""),
        ("vllm serve a/b-tp 2--port 1", ["a/b-tp", "2", "--port", "1"], ""),
        ("vllm serve a/b -tp 2--port 1", ["a/b", "-tp", "2", "--port", "1"], ""),
        ("vllm serve a/b -q 2--port 1", ["a/b", "-q", "2", "--port", "1"], ""),
        ("vllm serve a/b--port 1 && ls --seed 2", ["a/b", "--port", "1"], ""),
        ("vllm serve a/b--port 1;ls --seed 2", ["a/b", "--port", "1"], ""),
        ("vllm serve a/b--port 1# c --seed 2", ["a/b", "--port", "1"], ""),
        ("vllm serve a/b--port 1 2>x --seed 2", ["a/b", "--port", "1"], ""),
        ("vllm serve a/b--port 1 INFO x --seed 2", ["a/b", "--port", "1"], ""),
        ("vllm serve a/b--port 1 u@h: --seed 2", ["a/b", "--port", "1"], ""),
        ("vllm serve a/b--port 1 curl x --seed 2", ["a/b", "--port", "1"], ""),
        ("vllm serve a/b--port 1然后 --seed 2", ["a/b", "--port", "1"], ""),
        ("vllm serve a/b--port 1vllm serve c/d--port 2", ["a/b", "--port", "1"], "c/d --port 2"),
        ('vllm serve "a\\"b"--port 1', ['a\\"b', "--port", "1"], ""),
        ('vllm serve a/b--port "c', ["a/b", "--port", '"c'], ""),
    ],
)
def test_a_paste_is_split_at_the_ends_of_words(text: str, words: list[str | None], rest: str) -> None:
    """Quotes, addresses, numbers and options end a word; a log line ends the paste."""
    found = documents.read(f"I ran: {text}\n", "a.md").starts

    assert words == [word.value for word in found[0].words]
    assert [rest] * bool(rest) == [seen(one)[2] for one in found[1:]]
    assert all(one.is_reconstructed and not one.is_certain for one in found)
    for word in found[0].words:
        cut = f"I ran: {text}\n"[word.start : word.end]
        assert cut == word.raw
        assert word.value is None or (word.at is not None and len(word.at) == len(word.value))


@pytest.mark.parametrize(
    ("tag", "image", "address"),
    [
        ("v0.7.2192.168.1.1", "vllm/vllm-openai:v0.7.2", "192.168.1.1"),
        ("v0.7.210.0.0.1", "vllm/vllm-openai:v0.7.2", "10.0.0.1"),
        ("v0.7.2256.1.1.1", None, None),
        ("v0.7.201.1.1.1", None, None),
        ("v0.7.2255.255.255.255", "vllm/vllm-openai:v0.7.2", "255.255.255.255"),
        ("v0.7.20.0.0.1", "vllm/vllm-openai:v0.7.2", "0.0.0.1"),
        ("v0.7.31.1.1.1", None, None),
    ],
)
def test_an_address_is_split_from_a_tag_that_occurs_elsewhere(tag: str, image: str | None, address: str | None) -> None:
    """Four numbers up to 255 without leading zeros; the rest must occur alone elsewhere."""
    text = f"vllm/vllm-openai:v0.7.2 works: bash run_cluster.sh vllm/vllm-openai:{tag}--head /data --x 1--seed 2\n"
    (node,) = documents.read(text, "a.md").nodes

    assert (node.image and node.image.value) == image
    assert [word.value for word in node.prefix[3:4]] == [address or "--head"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('["!vllm serve m\\n", "LLM(1)"]', ["m", "python"]),
        ('"!vllm serve m"', ["m"]),
        ('["%%bash\\nvllm serve m"]', ["m"]),
        ('["%%script bash\\n", "!vllm serve m"]', ["m"]),
        ('["%pip install vllm\\n", "LLM(1)"]', ["python"]),
        ('[">>> LLM(1)\\n", "... \\n", "out"]', ["python"]),
        ('["  !vllm serve m \\\\\\n", "   --port 1\\n", "LLM(1)"]', ["m --port 1", "python"]),
        ('["!vllm serve m \\\\ # c\\n", "  --port 1\\n", "LLM(1)"]', ["m  # c", "python"]),
        ('["!vllm serve m \\\\"]', ["m \\"]),
        ('["!vllm serve m\\n\\n!vllm serve n"]', ["m", "n"]),
        ('["x = \\"a\\\\u00e9\\"; LLM(1)"]', ["python"]),
    ],
)
def test_a_cell_is_read_as_jupyter_runs_it(source: str, expected: list[str]) -> None:
    """Lines with `!` are shell commands, with continuations; magics are skipped."""
    others = '{"cell_type": "raw", "x": {"source": "LLM(2)"}}, {"cell_type": "code", "outputs": [{"source": "LLM(3)"}]}'
    text = f'{{"nbformat": 4, "cells": [{others}, {{"source": {source}, "cell_type": "code"}}], "source": ["LLM(4)"]}}'
    page = documents.read(text, "a.ipynb")

    assert expected == [seen(one)[2] or one.kind for one in page.starts]
    assert {one.kind for one in page.troubles} <= {"comment-after-continuation", "continuation-at-end"}
    for one in page.starts:
        assert text[one.start :].startswith(("vllm", "LLM"))


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ('{"cells": [1 2]}', 13, "Expecting ',' delimiter"),
        ('\ufeff{"cells": [] "a"}', 14, "Expecting ',' delimiter"),
        ("[" * 100_000, 0, "no JSON"),
    ],
    ids=["item", "mark", "deep"],
)
def test_invalid_json_in_a_notebook_is_reported(text: str, at: int, says: str) -> None:
    """The issue is at the place where the parser stops."""
    (trouble,) = documents.read(text, "a.ipynb").troubles

    assert (trouble.kind, trouble.start, trouble.end) == ("file.not-json", at, at)
    assert trouble.says == {"says": says}


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("x = (\nLLM('m', seed=1, ...)\n", [1]),
        ("x = (\nLLM('m',\n  seed=2,\n  ...  # more\n)\n", [2]),
        ("x = (\nLLM('m)', f(')]}'), seed=[3][0] # )\n)\n", [None]),
        ('x = (\nLLM(\'m\', x="\\")", seed=4)\n', [4]),
        ("x = (\nLLM('m', seed=5\n", []),
        ("x = (\nLLM('m' seed=6)\nEngineArgs('m', seed=7)\n", [7]),
        ("x = (\nLLM('m', seed={'a': (8)})\n", [{"a": 8}]),
    ],
)
def test_a_call_in_a_fragment_is_read_alone(code: str, values: list[object]) -> None:
    """Code on a page may be cut; each call is parsed up to its closing bracket."""
    found = documents.read(f"```python\n{code}```\n", "a.md").starts

    assert values == [{one.name: one.value for one in start.keywords}.get("seed") for start in found]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        *(("--a", None, []), ("--a", True, ["--a"]), ("--a-b", False, ["--no-a-b"]), ("--a", 0, ["--a", "0"])),
        *(("--a", "x y", ["--a", "x y"]), ("--a", ["x", 1, None], ["--a", "x", "1", "null"]), ("--a", (), ["--a"])),
        *(("--a", {"ä": True}, ["--a", '{"ä": true}']), ("--a", 1.5, ["--a", "1.5"]), ("--a", 1, ["--a", "1"])),
    ],
)
def test_an_option_of_a_log_is_written_as_words(option: str, value: object, words: list[str]) -> None:
    """Flags by name only, lists item by item, mappings as JSON."""
    assert as_typed.option_words(option, value) == words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model_tag": "m", "port": 1}, "m --port 1"),
        ({"port": 1, "model_tag": "m"}, "m --port 1"),
        ({"model_tag": "m", "model": "m"}, "m"),
        ({"model_tag": None, "model": "m"}, "m"),
        ({"model": 5, "a_b": 1}, "--model 5 --a-b 1"),
    ],
)
def test_the_model_in_a_log_is_the_first_word(arguments: dict[str, object], words: str) -> None:
    """Only one of its names is used."""
    found = documents.from_arguments(arguments)
    assert (found.kind, found.entry, seen(found)[2]) == ("log", "serve", words)


@pytest.mark.parametrize(
    ("words", "variables", "values", "texts"),
    [
        (["vllm", "serve", "m"], {}, ["m"], ["m"]),
        (["A=b c", "B=", "vllm", "serve", "a b"], {"A": "b c", "B": ""}, ["a b"], ["'a b'"]),
        (["vllm", "serve", "m", "A=1"], {}, ["m", "A=1"], ["m", "A=1"]),
        (["1A=2", "vllm", "serve", "m"], {}, ["m"], ["m"]),
    ],
)
def test_words_of_a_vector_have_places_in_the_joined_text(
    words: list[str], variables: dict[str, str], values: list[str], texts: list[str]
) -> None:
    """Words are joined with a blank and quoted if a shell needs it; leading ones set variables."""
    page = documents.from_argv(words)
    (found,) = page.starts

    assert (environment(found), [word.value for word in found.words]) == (variables, values)
    assert [page.text[word.start : word.end] for word in found.words] == texts == [word.raw for word in found.words]
    assert [word.at is not None for word in found.words] == [
        text == value for text, value in zip(texts, values, strict=True)
    ]
    assert all("".join(page.text[at] for at in word.at or ()) in {word.value, ""} for word in found.words)
    assert (page.kind, found.kind, found.language, [one.name for one in page.settings]) == (
        "argv",
        "argv",
        "argv",
        [*variables],
    )


@in_one_test(
    ("item", "expected"),
    [
        ("'--port 1'", ("--port", "1", "'--port 1'", "--port, 1")),
        ('"--port=1 --seed 2"', ("--port=1", "--seed 2", '"--port=1 --seed 2"', "--port=1, --seed, 2")),
        ("'--x {\"a\": 1}'", ("--x", '{"a": 1}', "'--x {\"a\": 1}'", None)),
        ("--x a b", ("--x", "a b", "--x a b", "--x, a, b")),
        ("--x 'a b'", ("--x", "'a b'", "--x 'a b'", "--x, a b")),
        ("-tp 2", ("-tp", "2", "-tp 2", "-tp, 2")),
        ("--x yes", ("--x", "yes", "--x yes", "--x, yes")),
        ("--x a\\b", ("--x", "a\\b", "--x a\\b", None)),
        ("--x=1", None),
        ("x --y", None),
    ],
)
@in_one_test("form", ["flow", "block"])
def test_an_item_of_two_words_is_split(form: str, item: str, expected: tuple[str, str, str, str | None] | None) -> None:
    """An option and its value, or two options, become separate items; intended quotes stay."""
    if form == "flow":
        text = pod(f"[--model, m, {item}]")
        if item.startswith("--x {") or (item[:1] not in "\"'" and " " in item and expected is None):
            return
    else:
        text = pod(f"\n    - --model\n    - m\n    - {item}")
    page = documents.read(text, "a.yaml")
    if expected is None:
        assert page.troubles == ()
        return
    option, value, whole, parted = expected
    (trouble,) = page.troubles
    fixed = applied(text, trouble.edits)
    again = documents.read(fixed, "a.yaml")

    assert (trouble.kind, trouble.says) == ("file.two-words-in-item", {"option": option, "value": value})
    assert text[trouble.start : trouble.end] == whole
    assert bool(trouble.edits) is (parted is not None)
    if parted is not None:
        assert [word.value for word in again.starts[0].words] == ["--model", "m", *parted.split(", ")]
        assert again.troubles == ()
        assert fixed.startswith(text[: trouble.start])
        assert fixed.endswith(text[trouble.end :])


@in_one_test(
    ("item", "kind", "type_"),
    [
        *(("1", "both", "number"), ("0x1F", "both", "number"), ("-1.5e3", "both", "number"), (".5", "both", "number")),
        *(
            ("1_000", "both", "number"),
            (".inf", "both", "number"),
            ("true", "both", "boolean"),
            ("False", "both", "boolean"),
        ),
        *(("yes", "kubernetes", "boolean"), ("off", "kubernetes", "boolean"), ("1.2.3", "", ""), ("1a", "", "")),
        *(("'1'", "", ""), ('"true"', "", ""), ("truex", "", ""), ("1-2", "", ""), ("_", "", "")),
    ],
)
def test_an_item_that_is_not_a_string_is_quoted(item: str, kind: str, type_: str) -> None:
    """YAML reads numbers and booleans; Kubernetes also reads `yes` as a boolean."""
    for name, text in (
        ("kubernetes", pod(f"[--model, m, {item}]")),
        ("compose", f"services:\n  a:\n    image: vllm/vllm-openai\n    command: [--model, m, {item}]\n"),
    ):
        page = documents.read(text, "a.yaml")
        if kind not in {"both", name}:
            assert page.troubles == ()
            continue
        (trouble,) = page.troubles
        by = {"compose": "docker compose", "kubernetes": "Kubernetes"}[name]
        assert (trouble.kind, trouble.says) == ("file.not-a-text", {"value": item, "type": type_, "by": by})
        assert applied(text, trouble.edits) == text.replace(f"m, {item}", f'm, "{item}"')


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("command: a ; b", [("compose-operator", ";")]),
        ("command: a|b", [("compose-operator", "|")]),
        ("command: 'a > b'", [("compose-operator", ">")]),
        ('command: "a # b"', [("compose-comment", "#")]),
        ("command: |\n      a \\\n      b", [("compose-backslash", "\\")]),
        ('command: a "b', [("compose-quote", '"b')]),
        ("command: ${x[@]}", [("compose-interpolation", "$")]),
        ("command: ${A:-${x!}}", [("compose-interpolation", "$")]),
        ("command: [a]\n    command: [b]", [("key-again", "command")]),
        ("environment: {A: 1, A: 2}\n    command: m", [("key-again", "A")]),
    ],
)
def test_an_error_in_a_compose_service_is_reported_at_its_character(
    lines: str, expected: list[tuple[str, str]]
) -> None:
    """At the operator, comment, backslash, open quote or repeated key."""
    text = f"services:\n  a:\n    image: vllm/vllm-openai\n    {lines}\n"

    assert expected == told(documents.read(text, "compose.yaml"), text)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("entrypoint: ''\n    command: vllm serve m", ("serve", "m")),
        ("entrypoint:\n    command: m", ("image", "m")),
        ("entrypoint: ~\n    command: m", ("image", "m")),
        ("entrypoint: []\n    command: vllm serve m", ("serve", "m")),
        ("entrypoint: vllm serve\n    command: m", ("serve", "m")),
        ("entrypoint: vllm serve\n    command:", ("serve", "")),
        ("command: ''", ("image", "")),
        ("image: {repository: x/vllm-openai, tag: v0.9.1}\n    command: m", ("image", "m")),
        ("command: [m, {a: b}]", ("image", "m")),
    ],
)
def test_a_service_has_its_own_or_its_images_entry_point(lines: str, expected: tuple[str, str]) -> None:
    """An empty string or list removes the image's; a key without a value keeps it."""
    image = "" if "image:" in lines else "image: vllm/vllm-openai\n    "
    (found,) = documents.read(f"services:\n  a:\n    {image}{lines}\n", "compose.yaml").starts

    assert seen(found)[1:] == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vllm serve a/b--port 1abc --seed 2", ["a/b", "--port", "1"]),
        ("vllm serve a/b--host 1:2--port 3", ["a/b", "--host", "1:2", "--port", "3"]),
        ("vllm serve a/b--host 1/2--port 3", ["a/b", "--host", "1/2", "--port", "3"]),
        ("vllm serve a/b--host 1_2--port 3", ["a/b", "--host", "1_2", "--port", "3"]),
        ("vllm serve a/b--host 1.2.x--port 3", ["a/b", "--host", "1.2.x", "--port", "3"]),
        ("vllm serve a/b--host a--b --port 3", ["a/b", "--host", "a", "--b", "--port", "3"]),
        ("docker run vllm/vllm-openai:v0.9.0--model m --port 1", ["--model", "m", "--port", "1"]),
        ("python3 -m vllm.entrypoints.openai.api_server--model m --port 1", ["--model", "m", "--port", "1"]),
    ],
)
def test_a_word_of_a_paste_may_continue_after_a_number(text: str, words: list[str]) -> None:
    """An address, path or name may continue; letters right after it are not part of the command."""
    for lead in ("", "I ran: "):
        starts = documents.read(f"{lead}{text}\n", "a.md").starts
        assert [word.value for word in starts[0].words] == words


@pytest.mark.parametrize("script", ['vllm serve \\"$X\\" --port 1', "A=1 vllm serve $X --port 1"])
def test_a_script_with_an_unknown_part_is_read(script: str) -> None:
    """Backslashes in double quotes are resolved; places refer to the file."""
    for text in (f'bash -c "{script}"\n', f'ssh h "{script}"\n'):
        (found,) = documents.read(text, "a.sh").starts
        assert seen(found)[2] == "? --port 1"
        for word in found.words[1:]:
            assert text[word.start : word.end] == word.value


@in_one_test(
    ("value", "expected"),
    [
        ("--gpus all", (None, None)),
        ("--gpus 'all,capabilities=compute'", (None, None)),
        ("--gpus none", None),
        ("--gpus 12345", None),
        ("--gpus 1234", (None, 1234)),
        ("--gpus '\"device=0,capabilities=utility\"'", (("0",), 1)),
        ("--device nvidia.com/gpu=GPU-1", (("GPU-1",), 1)),
        ("-e NVIDIA_VISIBLE_DEVICES=void", None),
        ("-e NVIDIA_VISIBLE_DEVICES=none", None),
        ("-e CUDA_VISIBLE_DEVICES=all -e HIP_VISIBLE_DEVICES=4", (("4",), 1)),
        ("-e CUDA_VISIBLE_DEVICES=", None),
        ("-e 'CUDA_VISIBLE_DEVICES= 1, 2,'", (("1", "2"), 2)),
        ("--gpus 2 -e CUDA_VISIBLE_DEVICES=2", (None, 2)),
        ("--gpus 3 -e CUDA_VISIBLE_DEVICES=2", (None, 1)),
    ],
)
def test_gpus_of_a_container_are_those_in_its_options(
    value: str, expected: tuple[tuple[str, ...] | None, int | None] | None
) -> None:
    """Words for none or all name no GPU; an impossible number is ignored."""
    (found,) = documents.read(f"docker run {value} vllm/vllm-openai m\n", "a.sh").starts

    assert (found.gpus and (found.gpus.devices, found.gpus.count)) == expected


@in_one_test(
    ("image", "release", "tag"),
    [
        ("vllm/vllm-openai:v0.9.1", "0.9.1", "v0.9.1"),
        ("vllm/vllm-openai", None, "latest"),
        ("vllm/vllm-openai:latest", None, "latest"),
        ("vllm/vllm-openai:nightly", None, None),
        ("docker.io/vllm/vllm-openai:v0.9.1", "0.9.1", "v0.9.1"),
        ("docker://vllm/vllm-openai:v0.9.1", "0.9.1", None),
        ("vllm/vllm-openai:v0.9.1@sha256:ab", "0.9.1", None),
        ("x/vllm-openai:v0.9.1", "0.9.1", None),
        ("vllm/vllm-openai-cpu:v0.9.1", "0.9.1", None),
        ("vllm/other:v0.9.1rc1", "0.9.1rc1", None),
        ("x/other:v0.9.1", None, None),
        ("x/vllm:v0.9.1", None, None),
        ("x/vllm:cuda-vllm_0.9.1", "0.9.1", None),
        ("vllm/vllm-openai:v0.10.1.1", "0.10.1.1", "v0.10.1.1"),
        ("vllm/vllm-openai:v0.9.1a", "0.9.1", "v0.9.1a"),
        ("a b", None, None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_a_tag_names_a_release_or_none(image: str | None, release: str | None, tag: str | None) -> None:
    """Tags of vLLM's own images, and of others that name vLLM's version."""
    assert (images.release_of(image), images.published_tag(image)) == (release, tag)
    assert images.has_entry_point(image) is ("/vllm-openai" in (image or ""))


@in_one_test(
    ("line", "is_command"),
    [
        ("vllm serve m --port 1", True),
        ("vllm serve a/b", True),
        ("vllm serve is a command", False),
        ("vllm serve model7", True),
        ("vllm serve qwen-large", True),
        ("vllm serve model --port 1", True),
        ("vllm serve model \\", True),
        ("vllm serve (see below) --x", False),
        ("vllm serve 是 --x", False),
        ("vllm serve", True),
        ("vllm serve $M", True),
        ("vllm serve .", False),
        ("docker run x", True),
        ("NAME=1 vllm serve model text", False),
        ("the vllm serve m --port 1", False),
        ("sudo vllm serve m/n", True),
    ],
)
def test_a_line_of_prose_is_a_command_if_an_argument_follows(line: str, is_command: bool) -> None:  # noqa: FBT001
    """An argument has a slash, digit, dash or quotes, or precedes an option."""
    assert pages._is_command(line) is is_command


@pytest.mark.parametrize(
    ("lines", "word", "edits"),
    [
        ("Environment=A=1 2 3", "2", (12, 19)),
        ("Environment=A=1 B=2 3", "3", ()),
        ("Environment=2 A=1", "2", ()),
        ('Environment=A=1 "2 3"', "2 3", ()),
        ("Environment=A=%i 2", "2", (12, 18)),
        ("Environment=A=1 %i", "%", (12, 18)),
        (f"Environment=A=1 {'2' * 81}", "2" * 80, (12, 97)),
    ],
)
def test_a_value_with_a_blank_in_a_unit_is_quoted(lines: str, word: str, edits: tuple[int, ...]) -> None:
    """If it is the only one, comes first and nothing is quoted yet."""
    text = f"[Service]\n{lines}\nExecStart=/bin/vllm serve m\n"
    (trouble,) = documents.read(text, "a.service").troubles

    assert trouble.says == {"word": word}
    assert [(one.start - 10, one.end - 10, one.new_text) for one in trouble.edits] == [(at, at, '"') for at in edits]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--a 1 2 --b -c x", ["--a 1 2", "--b", "-c x"]),
        ("--a", ["--a"]),
        ("--a -1", ["--a -1"]),
        ("--a '' x", ["--a  x"]),
    ],
)
def test_a_line_of_options_is_split_at_each_option(words: str, expected: list[str]) -> None:
    """Each option keeps everything up to the next."""
    loose = documents.read(f"```bash\n{words}\n```\n", "a.md").loose

    assert expected == [" ".join(word.value or "" for word in one.words) for one in loose]
    assert {one.where for one in loose} == {"bare"}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("['vllm', 'serve', '\\1011', 'x']", ["A1", "x"]),
        ("['vllm', 'serve', '\\18', '\\400']", ["\x018", "\u0100"]),
        ("['vllm', 'serve', '\\x411']", ["A1"]),
        ("['vllm', 'serve', '\\N{BULLET}', b'y']", ["\u2022", None]),
    ],
)
def test_escapes_in_python_have_their_maximum_length(code: str, words: list[str | None]) -> None:
    """At most three octal or two hexadecimal digits."""
    (found,) = documents.read(f"import subprocess\nsubprocess.run({code})\n", "a.py").starts

    assert words == [word.value for word in found.words]


@pytest.mark.parametrize("count", [1, 2, 1000, 1001])
def test_a_list_of_words_has_two_to_a_thousand(count: int) -> None:
    """A shorter list launches nothing, a longer one is data."""
    words = ["vllm", "serve", *["m"] * 998, "x"][:count]

    assert len(documents.read(f"x = {words!r}\n", "a.py").starts) == (count in {2, 1000})


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("services:\n  a:\n    image: vllm/vllm-openai\n    command: m\n", ["compose"]),
        ("kind: X\nservices:\n  a:\n    image: vllm/vllm-openai\n    args: [m]\n", ["kubernetes"]),
        ("a:\n  services:\n    b:\n      image: vllm/vllm-openai\n      args: [m]\n", ["kubernetes"]),
        ("services:\n  a:\n    b:\n      image: vllm/vllm-openai\n      args: [m]\n", ["kubernetes"]),
        ("a:\n  image: vllm/vllm-openai\n  entrypoint: [vllm, serve]\n  command: [m]\n", ["compose"]),
        ("a:\n  image: vllm/vllm-openai\n  environment: {A: 1}\n  command: [vllm, serve, m]\n", ["compose"]),
        ("a:\n  image: vllm/vllm-openai\n  env: []\n  command: [vllm, serve, m]\n", ["kubernetes"]),
        ("a:\n  image: vllm/vllm-openai\n  command: --model m\n", ["compose"]),
        ("# none\n---\na: {image: vllm/vllm-openai, args: [m]}\n---\n- {image: vllm/vllm-openai, args: [n]}\n",
         ["kubernetes", "kubernetes"]),
        ("a: 1\n---\nvllm: {{ x\n---\nb: {image: vllm/vllm-openai, args: [m]}\n", ["kubernetes"]),
    ],
)  # fmt: skip
def test_a_container_is_read_by_the_rules_of_its_runtime(text: str, kinds: list[str]) -> None:
    """Services and mappings with compose keys follow docker compose, others Kubernetes."""
    assert kinds == [one.kind for one in documents.read(text, "a.yaml").starts]


@in_one_test(
    ("text", "is_one"),
    [
        *(("vllm serve a/b --port 1", False), ("vllm serve a/b--port 1", True), ("vllm serve a/b--nope 1", False)),
        *(("vllm servea/b --nope 1", True), ("vllmserve a/b --nope 1", True), ("vllmserve a --nope 1", False)),
        *(("vllmserve a --port 1", True), ("vllm serve--port 1", True), ("vllm serve--nope 1", False)),
        *(("xvllm serve a/b --port 1", False), ("AB=xvllm serve a/b --port 1", True), (" vllm serve a/b", False)),
        *(("y AB=xvllm serve a/b --nope 1", True), ("A=xvllm serve a/b --port 1", False), ("", False)),
        *(('vllm serve "a"--nope', True), ('vllm serve x="--nope', False), ("vllm serve a --x 1--nope", True)),
        *(("vllm serve a --x v1--nope", False), ("vllm serve a \\--nope", True), ("vllm serve a \\ -x", True)),
        *(("docker run -p 80:80-e A=1 x", True), ("docker run -p 80:80-e a=1 x", False)),
        *(("vllm serve a/models--port 1", False), ("vllm serve a/b--port-x 1", False), ("vllm serve a/b--port", True)),
        *(("vllm serve m vllm serve a/b--port 1", True), ("vllm serve a/b --xvllm serve c", False)),
    ],
)
def test_a_line_is_a_paste_if_a_vllm_option_was_joined(text: str, is_one: bool) -> None:  # noqa: FBT001
    """A known option, a model with any option, or an option after a quote, number or backslash."""
    assert glued.is_glued(text) is is_one


@in_one_test(
    ("text", "word"),
    [
        *(("'a b' c", "'a b'"), ('"a b" c', '"a b"'), ('"a\\"b" c', '"a\\"b"'), ("'a\\'b' c", "'a\\'")),
        *(('"a', '"a'), ('"a\\', '"a\\'), ("x", "x"), ("--port=1--x", "--port=1"), ("--port=", "--port")),
        *(("--port x", "--port"), ("--a.b_c-d--e", "--a.b_c-d"), ("--x='a b'c", "--x='a b'"), ("-q 2", "-q")),
        *(("-q", "-q"), ("-qq 2", "-qq"), ("1.5k--x", "1.5k"), ("1.5kx", "1.5"), ("1.5/2 x", "1.5/2")),
        *(("10.0.0.1--x", "10.0.0.1"), ("10.0.0.1.2 x", "10.0.0.1.2"), ("a=10.0.0.1--x", "a=10.0.0.1")),
        *(("a;b", "a"), ("ab--cd", "ab"), ("ab--1", "ab--1"), ("a--", "a--"), ("ab\\c", "ab"), ('ab"c', "ab")),
    ],
)
def test_a_word_of_a_paste_ends_with_its_form(text: str, word: str) -> None:
    """Quotes end at the closing mark, options before the value, numbers after the unit."""
    assert text[: glued._end(text, 0, len(text))] == word


@pytest.mark.parametrize(
    ("text", "index", "runs_in", "is_apart"),
    [
        *(("vllm", 0, False, True), ("x vllm", 2, False, True), ("xvllm", 1, True, False), ("=vllm", 1, False, True)),
        *(("AB=1vllm", 4, True, True), ("a AB=1vllm", 6, True, True), ("a\tAB=1vllm", 6, True, True)),
        *(("AB =1vllm", 5, True, False), (".vllm", 1, True, False), ("-vllm", 1, True, False)),
        ("\u00e9vllm", 1, False, True),
    ],
)
def test_a_paste_begins_at_a_word_or_after_a_variable(
    text: str,
    index: int,
    runs_in: bool,  # noqa: FBT001
    is_apart: bool,  # noqa: FBT001
) -> None:
    """Text joined to the program is a variable's value, or part of another word."""
    assert (glued._runs_in(text, index), glued._is_apart(text, index)) == (runs_in, is_apart)


@in_one_test(
    ("command", "words", "troubles"),
    [
        *(("", [], []), ("  ", [], []), ("a", [("a", "a")], []), ("''", [("", "''")], [])),
        (" a\tb\r\nc ", [("a", "a"), ("b", "b"), ("c", "c")], []),
        ("'a b'c", [("a bc", "'a b'c")], []),
        ("\"a'b\" 'a\"b'", [("a'b", '"a\'b"'), ('a"b', "'a\"b'")], []),
        ('a\\ b \'a\\b\' "a\\"b"', [("a b", "a\\ b"), ("a\\b", "'a\\b'"), ('a"b', '"a\\"b"')], []),
        ("a\\", [("a", "a\\")], []),
        ("a\\\nb", [("a\nb", "a\\\nb")], [("backslash", "\\", {})]),
        ("#a b", [("#a", "#a"), ("b", "b")], [("comment", "#", {})]),
        ("a #b c#", [("a", "a"), ("#b", "#b"), ("c#", "c#")], [("comment", "#", {})]),
        ("a;b", [("a", "a")], [("operator", ";", {"operator": ";"})]),
        ("a & b", [("a", "a")], [("operator", "&", {"operator": "&"})]),
        ("; b", [], [("operator", ";", {"operator": ";"})]),
        ('a "b;c" d', [("a", "a"), ("b;c", '"b;c"'), ("d", "d")], []),
        ("a 'b", [("a", "a"), ("b", "'b")], [("quote", "'b", {"quote": "'"})]),
        ('"b c', [("b c", '"b c')], [("quote", '"b c', {"quote": '"'})]),
    ],
)
def test_a_string_is_split_as_compose_does(
    command: str, words: list[tuple[str, str]], troubles: list[tuple[str, str, dict[str, str]]]
) -> None:
    """At blanks outside quotes; a word is placed over all its characters."""
    found: list[Trouble] = []
    made = manifests._split([(character, 7 + at) for at, character in enumerate(command)], "", found)

    assert words == [(one.value, one.raw) for one in made]
    assert [command[one.start - 7 : one.end - 7] for one in made] == [one.raw for one in made]
    assert troubles == [
        (one.kind.removeprefix("file.compose-"), command[one.start - 7 : one.end - 7], one.says) for one in found
    ]


@pytest.mark.parametrize(
    ("text", "start", "closing"),
    [("{a}", 0, 2), ("${a}b}", 1, 3), ("${a${b}}c", 1, 7), ("${a{b}}c", 1, 5), ("${a", 1, 3), ("${a${b}", 1, 7)],
)
def test_a_default_ends_at_its_own_brace(text: str, start: int, closing: int) -> None:
    """Nested variable braces are skipped; without a closing brace it ends with the text."""
    assert manifests._closing(text, start, len(text)) == closing


@in_one_test(
    ("value", "raw", "program"),
    [
        *(("vllm", "vllm", "vllm"), ("/a/b/vllm", "x", "vllm"), ("a/", "a/", ""), (None, "$(which vllm)", "vllm")),
        *((None, '"$(command -v /a/python3)"', "python3"), (None, "`type -p vllm`", "vllm"), (None, "$A/$B", "")),
        *((None, "$(which vllm | x)", ""), (None, "$VLLM_BIN", "vllm"), (None, "${MY_PYTHON3}", "python")),
        *((None, '"$vllm"', "vllm"), (None, "$VLLM_X", ""), (None, "$A/bin/vllm", "vllm"), (None, '"$A/vllm"', "vllm")),
        (None, "$A", ""),
    ],
)
def test_a_program_is_identified_by_the_end_of_its_path(value: str | None, raw: str, program: str) -> None:
    """If the value is unknown, `which`, the variable's name or the path's end identifies it."""
    assert programs._program(Word(value, 0, 0, raw)) == program


@in_one_test(
    ("value", "is_python", "is_program"),
    [
        *(("python", True, True), ("python3.11", True, True), ("pypy3", True, True), ("python3.12.exe", True, True)),
        *(("ipython", False, False), ("python-x", False, False), ("", False, False), ("pythonx", False, False)),
        *(("vllm", False, True), ("/a/b/bash", False, True), ("ray", False, True), ("torchrun", False, True)),
        *(("org/vllm", False, True), ("vllm/m", False, False), ("bash/m", False, False), ("a/sudo/m", False, False)),
        *(("/opt/x/python", False, True), ("serve", False, False), (None, False, False), ("sudo", False, True)),
        *(("python3.1234", True, True), ("python3.12345", False, False)),
    ],
)
def test_a_first_argument_is_identified_as_a_program_by_its_name(
    value: str | None,
    is_python: bool,  # noqa: FBT001
    is_program: bool,  # noqa: FBT001
) -> None:
    """The last part of the path counts; a Python version has at most six characters."""
    assert (programs._is_python(value or ""), programs.is_program(value)) == (is_python, is_program)


@pytest.mark.parametrize(
    ("heads", "is_run"),
    [
        *(("", False), ("python", True), ("sudo python3", True), ("foo python3", False), ("python3 -u", True)),
        *(("python3 -W ignore", True), ("python3 x", False), ("env A python -u", True), ("foo", False)),
        *(("sudo", False), ("python -u x", False), ("foo python x", False)),
    ],
)
def test_python_runs_alone_or_after_a_wrapper(heads: str, is_run: bool) -> None:  # noqa: FBT001
    """Only its own options may precede what it runs."""
    assert programs._is_python_run(heads.split()) is is_run


def command_of(*values: str) -> programs._Command:
    words = tuple(Word(value, 0, 0, value) for value in values)
    return programs._Command(words, starts.Around(), starts.DocumentReading())


SERVER = "vllm.entrypoints.openai.api_server"


@in_one_test(
    ("words", "begun"),
    [
        *(("vllm", None), ("vllm serve", (0, "serve", 2)), ("vllm -- serve m", (0, "serve", 3)), ("vllm chat", None)),
        *(("vllm -- bench latency", (0, "bench latency", 4)), ("vllm bench latency", (0, "bench latency", 3))),
        *(("vllm bench", None), ("vllm bench serve", None), ("vllm x serve", None), ("vllm --", None)),
        *(("-m", None), (f"-m {SERVER}", (0, "api_server", 2)), ("-m vllm.scripts serve", (0, "serve", 3))),
        *(("-m vllm.scripts x", None), ("-m vllm", None), ("-m x", None), (f"-m{SERVER}", (0, "api_server", 1))),
        *(("-mvllm.x", None), ("python -m vllm.entrypoints.openai.run_batch", (1, "run-batch", 2))),
        *(("-m vllm.entrypoints.api_server x", (0, "demo_server", 2)), ("api_server.py", (0, "api_server", 1))),
        *(("python x/vllm/entrypoints/api_server.py", (1, "demo_server", 1)), ("x api_server.py", None)),
        *(("-u x/vllm/entrypoints/openai/api_server.py", (1, "api_server", 1)), ("a/vllm serve", (0, "serve", 2))),
        *(
            ("conda run -n vllm serve", None),
            ("x -n vllm serve", (2, "serve", 2)),
            ("x conda n vllm serve", (3, "serve", 2)),
        ),
        *(("conda run -p vllm serve", (3, "serve", 2)), ("sudo -u vllm vllm serve m", (3, "serve", 2))),
        *((f"sudo {'-E ' * 10}-u vllm serve m", None), (f"sudo {'-E ' * 11}-u vllm serve m", (13, "serve", 2))),
    ],
)
def test_a_launch_begins_at_the_program_and_includes_its_words(words: str, begun: tuple[int, str, int] | None) -> None:
    """It begins at the program or `-m`.

    Users and environments are not programs; an option is searched for in twelve words.
    """
    command = command_of(*words.split())
    found = [(index, *each) for index in range(len(command.words)) if (each := command._begun(index))]

    assert found == [begun] * (begun is not None)


@in_one_test(
    ("words", "script"),
    [
        *(("bash -c S", 2), ("bash -lc S", 2), ("bash -euo pipefail -c S", 4), ("bash -o x -c S", 4)),
        *(("bash -x S", None), ("bash S -c", None), ("bash - -c S", None), ("bash -c - S", 2), ("bash", None)),
        *(("bash --rcfile f -c S", 4), ("bash --norc -c S", 3), ("bash +x -c S", 3), ("bash --c S", None)),
        *(("bash -c", None), ("-bash -c S", None), ("fish -c S", None), ("bash +o c S", None)),
        *(("bash -c -o pipefail S", 4), ("/bin/sh -ec S x", 2)),
    ],
)
def test_a_script_follows_the_options_of_its_shell(words: str, script: int | None) -> None:
    """The first non-option if `-c` is present; some options have a value."""
    assert command_of(*words.split())._script_at(0) == script


@pytest.mark.parametrize(
    ("words", "code"),
    [
        *(("python -c C", "C"), ("python -u -B -c C", "C"), ("python -uc C x", "C"), ("python -c", None)),
        *(("python -W x -c C", None), ("python", None), ("python -cC", None), ("x -c C", None), ("python -u", None)),
        ("python C -c", None),
    ],
)
def test_code_follows_pythons_own_option(words: str, code: str | None) -> None:
    """`-c` alone, or joined with or after other switches."""
    command = command_of(*words.split())

    assert command._read_code(0) is (code is not None)
    assert [text.text for _, text, _ in command.reading.parts] == [code] * (code is not None)
    assert [around.depth for _, _, around in command.reading.parts] == [1] * (code is not None)


@pytest.mark.parametrize(
    ("kind", "start", "end", "stays"),
    [
        *(("", 5, 6, True), ("", 10, 20, False), ("", 10, 21, True), ("", 12, 15, False), ("", 9, 15, True)),
        *(("other", 12, 15, True), ("", 30, 31, False), ("", 35, 41, True), ("", 25, 26, True), ("", 39, 40, False)),
    ],
)
def test_an_issue_is_reported_once_per_script(kind: str, start: int, end: int, stays: bool) -> None:  # noqa: FBT001
    """For the command with the script as a word, not again inside the script."""
    trouble = Trouble(kind or "background-unwatched", start, end, {})

    assert [*programs._without_repeated([trouble], {30: 40, 10: 20})] == [trouble] * stays
    assert [*programs._without_repeated([trouble], {})] == [trouble]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        *(
            ([], []),
            (["a"], []),
            (["a", "--b"], [(["--b"], 10, 15)]),
            (["--b", "c", "d"], [(["--b", "c", "d"], 0, 25)]),
        ),
        *((["-b", "-1", "--"], [(["-b", "-1", "--"], 0, 25)]), (["--1"], []), (["---b"], []), (["b", "c"], [])),
        (["--b", None, "-c"], [(["--b", None], 0, 15), (["-c"], 20, 25)]),
    ],
)
def test_options_include_the_words_after_them(
    words: list[str | None], expected: list[tuple[list[str | None], int, int]]
) -> None:
    """Up to the next option; words before the first belong to none."""
    found = programs.options_of([Word(one, at * 10, at * 10 + 5, one or "") for at, one in enumerate(words)], "x")

    assert expected == [([word.value for word in one.words], one.start, one.end) for one in found]
    assert {one.where for one in found} <= {"x"}


@pytest.mark.parametrize(
    ("text", "is_value"),
    [
        *(("x vllm serve m", True), ("bash vllm serve m", False), ("vllm serve m", False), ("x echo", False)),
        *(("x", False), ("bash -c 'vllm serve m'", False), ("a/b vllm serve m", True)),
    ],
)
def test_an_assignment_before_a_command_has_its_own_value(text: str, is_value: bool) -> None:  # noqa: FBT001
    """Or the assignment names the command, which begins with a program."""
    assert programs._is_set_in_front(text) is is_value


@pytest.mark.parametrize(("offset", "expected"), [(2, None), (3, 0), (6, 0), (7, 2), (8, 2)])
def test_the_last_setting_before_a_command_counts(offset: int, expected: int | None) -> None:
    """A setting that begins at the same place counts; of several, the last."""
    settings = [starts.Setting(str(at), Word("x", at, at, "x"), at, at, "f") for at in (3, 7, 7)]
    found = programs._last_before(settings, offset)

    assert found is (None if expected is None else settings[expected])
    assert programs._last_before([], offset) is None


@in_one_test(
    ("text", "end"),
    [
        *(("for i in 1 2; do\n vllm serve m\ndone\nx", 3), ("for i in 1; do\n x\ndone\nvllm serve m\n", 4)),
        *(("for i in 1; do\n x\ndone\ny", 0), ("for i in 1; do\nThis is a sentence here.\n vllm serve m\ndone", 0)),
        *(("f() {\n vllm serve m\n}\nz", 3), ("f() {\n}\nvllm serve m", 3), ("function f() {\n vllm serve m\n}", 3)),
        *(("A=(\n--port 1\n)\nvllm serve m", 4), ("A=(--port 1)\nx\nvllm serve m \\\n --a\nz", 4)),
        *(("A=(--port 1)\nThis is a sentence here.\nvllm serve m", 0), ("A=(vllm serve m)", 0)),
        *(("if x; then\nvllm serve m\nfi", 3), ("case x in\nvllm) vllm serve m;;\nesac\n", 3)),
        *(("while x; do\n vllm serve m", 0), ("x\ndone", 0), ("for you vllm\ndone", 0)),
        *((f"for i in 1; do\n{'vllm serve m; ' * 2}\n" + "x\n" * 56 + "done\n", 59),),
        *((f"for i in 1; do\n{'vllm serve m; ' * 2}\n" + "x\n" * 57 + "done\n", 0),),
        *(("A=(1)\n" + "x=1\n" * 58 + "vllm serve m\n", 60), ("A=(1)\n" + "x=1\n" * 59 + "vllm serve m\n", 0)),
    ],
)
def test_a_part_of_a_script_ends_with_its_use(text: str, end: int) -> None:
    """A loop ends at its `done`, a definition at its use, and a sentence ends all."""
    assert pages._part_end(text, pages._lines(text), 0) == end


@pytest.mark.parametrize(
    ("text", "end"),
    [
        *(("services:\n a: vllm", 2), ("services:\n a: x\nb: vllm\nText vllm", 3), ("services: vllm", 1)),
        *(("services:x\n vllm", 0), ("apiVersion: v1\n\n- vllm\n# c\n---\nEnd it", 5), ("services:\nno vllm", 0)),
        *(("x-a: vllm\n  b\nkind: x\nand vllm", 3), ("a: vllm", 0), ("services:\n" + " vllm\n" * 500, 400)),
    ],
)
def test_a_manifest_in_prose_ends_before_the_first_other_line(text: str, end: int) -> None:
    """Keys, items, indented and empty lines belong to it; it counts only if it mentions vLLM."""
    assert pages._manifest_end(text, pages._lines(text), 0) == end


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        *(("a", "a"), ("a\\\nb", "a\\\nb"), ("a\\\nb\\\nc\nd", "a\\\nb\\\nc"), ("a\\", "a\\"), ("a\nb\\", "a")),
        *(("a\\\n", "a\\\n"), ("a\\\n" * 60 + "b", "a\\\n" * 60 + "b"), ("a\\\n" * 61 + "b", "a\\\n" * 60 + "a\\")),
    ],
)
def test_a_line_continues_after_its_backslash(text: str, whole: str) -> None:
    """At most sixty lines are joined."""
    assert pages._continued(text, pages._lines(text), 0) == whole


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        *(("", [(0, 0)]), ("a", [(0, 1)]), ("a\n", [(0, 1), (2, 2)]), ("a\r\nb", [(0, 1), (3, 4)])),
        *(("\r\n", [(0, 0), (2, 2)]), ("\n\n", [(0, 0), (1, 1), (2, 2)]), ("a\rb", [(0, 3)])),
    ],
)
def test_a_line_of_a_page_has_no_line_end(text: str, lines: list[tuple[int, int]]) -> None:
    """LF and CRLF both end a line; the empty text after the last one is a line."""
    assert pages._lines(text) == lines
    behind = [pages._behind(text, end) for _, end in lines]
    assert behind == [*(start for start, _ in lines[1:]), len(text)]


@in_one_test(
    ("line", "is_empty"),
    [
        *(("", True), (" ", True), ("\\", True), (" \\ ", True), ("# x", True), (" # x", True), ("> ", True)),
        *(
            (">  \\", True),
            ("> # c", True),
            ("x", False),
            ("> x", False),
            (">x", False),
            ("\\\\", True),
            ("x #", False),
        ),
    ],
)
def test_a_line_of_a_session_is_empty_without_a_command(line: str, is_empty: bool) -> None:  # noqa: FBT001
    """A prompt with nothing, a comment or a backslash after it is empty."""
    assert pages._is_empty(line) is is_empty


@pytest.mark.parametrize(
    ("text", "resumed"),
    [
        *(
            ("$ a\n--b\nx", [None, "option", ""]),
            ("$ a\n\n  b", [None, "indented", "indented"]),
            ("-x\ny", ["option", ""]),
        ),
        *(
            ("$ a\n# c\n--b", [None, "option", "option"]),
            ("x\n$ a\n > y", ["", None, "indented"]),
            ("> --b", ["option"]),
        ),
        ("$ a \\\n> b\n$ c", [None, "indented", None]),
    ],
)
def test_a_line_of_a_session_may_continue_a_command(text: str, resumed: list[str | None]) -> None:
    """An option or a deeper indentation continues it; empty lines and comments are skipped."""
    lines = pages._lines(text)
    prompts = [pages._PROMPT.match(text[start:end]) for start, end in lines]
    found = pages._resumed(text, lines, prompts)

    assert found == [*(one or "" for one in resumed), ""]
    assert [prompt is None for prompt in prompts] == [one is not None for one in resumed]


@in_one_test(
    ("word", "following", "is_one"),
    [
        *(
            (one, "", True)
            for one in ("-x", '"a', "'a", "$A", "<m>", "{m}", "/m", "\\", "~/m", "./m", "a/b", "m7", "a-b")
        ),
        *(
            ("a-", "", False),
            ("is", "a", False),
            ("m", "--x", True),
            ("m", "\\", True),
            ("m", "-x", False),
            ("m", "", False),
        ),
    ],
)
def test_a_word_is_an_argument_by_its_characters(word: str, following: str, is_one: bool) -> None:  # noqa: FBT001
    """Characters that prose lacks, or an option or the line's end after it."""
    assert pages._is_argument(word, following) is is_one


@in_one_test(
    ("line", "commands"),
    [
        *(("run: vllm serve m --port 1. Then", ["vllm serve m --port 1"]), ("run vllm serve m --port 1", [])),
        *(
            ("\u7528vllm serve m --port 1 \u662f", ["vllm serve m --port 1"]),
            ("\u201cvllm serve m\u201d", ["vllm serve m"]),
        ),
        *(('"vllm serve m --port 1", and', ["vllm serve m --port 1"]), ("a: vllm serve m! B", ["vllm serve m"])),
        ("a: docker run x vllm/vllm-openai --model m, then", ["docker run x vllm/vllm-openai --model m"]),
        ("a: vllm serve a/b or b: vllm serve c/d", ["vllm serve a/b", "vllm serve c/d"]),
        ("a: vllm serve a/b b: vllm serve c/d", ["vllm serve a/b b:", "vllm serve c/d"]),
        ("a: docker run x b: vllm serve c", ["docker run x b:", "vllm serve c"]),
        (f"a:{' ' * 7}vllm serve a/b", ["vllm serve a/b"]),
        (f"a:{' ' * 8}vllm serve a/b", []),
        *((": vllm serve m; then x", ["vllm serve m"]), (": vllm serve m;x", ["vllm serve m;x"])),
        *((': vllm serve m."', ["vllm serve m"]), ("a: vllm serve " + "x" * 5000, ["vllm serve " + "x" * 3989])),
    ],
)
def test_a_command_within_a_line_ends_with_the_sentence(line: str, commands: list[str]) -> None:
    """Or at the next command; it follows a colon or a quote, with at most seven blanks."""
    spans = pages._without_quotes(line, [*pages._WITHIN.finditer(line)])

    assert commands == [line[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("spans", "index", "is_within"),
    [
        *(([], 0, False), ([(2, 5)], 1, False), ([(2, 5)], 2, True), ([(2, 5)], 4, True), ([(2, 5)], 5, False)),
        *(([(2, 5), (7, 9)], 6, False), ([(2, 5), (7, 9)], 7, True), ([(2, 5), (7, 9)], 4, True)),
        *(([(0, 2), (5, 10), (6, 8)], 9, True), ([(0, 2), (5, 10), (6, 12)], 11, True)),
    ],
)
def test_a_place_is_within_a_span_up_to_its_end(spans: list[tuple[int, int]], index: int, is_within: bool) -> None:  # noqa: FBT001
    """The last span that begins at or before the place counts."""
    assert (Spans(spans).around(index) is not None) is is_within


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("`vllm serve m --port 1`", [("span", "vllm serve m --port 1", 1)]),
        ("`vllm serve m`", []),
        ("`a: vllm serve m --port 1` ``", []),
        (
            "a `x` `vllm serve m --port 1` b: vllm serve n --port 2",
            [("span", "vllm serve m --port 1", 7), ("span", "vllm serve n --port 2", 33)],
        ),
        ("`vllm serve m --p 1` " * 200, [("span", "vllm serve m --p 1", at * 21 + 1) for at in range(200)]),
        (
            "`vllm serve m --p 1` " * 202,
            [
                *(("span", "vllm serve m --p 1", at * 21 + 1) for at in range(200)),
                ("cut", "vllm serve m --p 1` `vllm serve m --p 1` ", 4201),
            ],
        ),
    ],
    ids=["one", "no option", "within", "two kinds", "200", "202"],
)
def test_commands_within_a_line_are_spans(line: str, expected: list[tuple[str, str, int]]) -> None:
    """At most two hundred commands with an option; the rest of the line is cut."""
    found = [(one.kind, one.text.text, one.text.at[0]) for one in pages._spans(Excerpt.whole(line), 0, len(line))]

    assert found == expected


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        *(("# a\nb # c\nd#e\n\t#f", [], [("# a", 0), ("# c", 6), ("#f", 15)]), ("#a #b", [], [("#a #b", 0)])),
        *(("ab #c", [(3, 5)], []), ("ab #c", [(0, 3)], [("#c", 3)]), ("ab #c", [(0, 4)], []), ("", [], [])),
        *(("ab #c", [(4, 5)], [("#c", 3)]), ("ab #c\n#d", [(0, 9), (1, 2)], []), ("a", [(0, 1)], [])),
        ("ab #c\n#d", [(0, 4), (1, 2)], [("#d", 6)]),
    ],
)
def test_a_comment_begins_at_a_separate_word(
    text: str, words: list[tuple[int, int]], expected: list[tuple[str, int]]
) -> None:
    """It runs to the end of the line; `#` inside a word of a command begins none."""
    assert expected == [(one.text, one.at[0]) for one in pages.comments(Excerpt.whole(text), words)]


@pytest.mark.parametrize(
    ("text", "value", "at"),
    [
        *(('"ab"', "ab", [1, 2]), ("'a'", "a", [1]), ('"a\\"b"', 'a"b', [1, 3, 4]), ('"a\\\\b"', "a\\b", [1, 3, 4])),
        *(
            ("'a\\b'", "a\\b", [1, 2, 3]),
            ('"', '"', [0]),
            ('""', "", []),
            ("ab", "ab", [0, 1]),
            ("'a\"", "'a\"", [0, 1, 2]),
        ),
    ],
)
def test_a_value_in_a_table_row_may_be_quoted(text: str, value: str, at: list[int]) -> None:
    """Quotes are part of its place; in double quotes so is a backslash with its character."""
    word = pages._quoted(Excerpt.whole(f"--{text} x"), 2, 2 + len(text))

    assert (word.value, word.start, word.end, word.raw) == (value, 2, 2 + len(text), text)
    assert [*(word.at or ())] == [place + 2 for place in at]


@in_one_test(
    ("text", "expected"),
    [
        *(("", [("prose", "", 0, 0)]), ("a\nb", [("prose", "a\nb", 0, 3)]), ("```\nx", [("", "x", 4, 5)])),
        ("a\n```py\n x\n```\nb", [("prose", "a\n", 0, 2), ("python", " x\n", 8, 11), ("prose", "b", 15, 16)]),
        ("> ```\n> x\n> ```\ny", [("", "x\n", 8, 10), ("prose", "y", 16, 17)]),
        ("> ```\n> x\ny", [("", "x\n", 8, 10), ("prose", "y", 10, 11)]),
        ("  ```\n    x\n y\n  ```", [("", "  x\ny\n", 8, 15)]),
        *(("- ```sh\n  x\n  ```", [("shell", "x\n", 10, 12)]), ("1. ```\n   x\n   ```", [("", "x\n", 10, 12)])),
        *(("````\n```\n````", [("", "```\n", 5, 9)]), ("```\nx\n~~~\n```", [("", "x\n~~~\n", 4, 10)])),
        *(
            ("``` a b\nx\n``` \n", [("", "x\n", 8, 10), ("prose", "", 15, 15)]),
            ("```a`b\nx", [("prose", "```a`b\nx", 0, 8)]),
        ),
        (".. code:: sh\n\n  x\n   y\nz", [("shell", "x\n y\n", 16, 23), ("prose", "z", 23, 24)]),
        (".. code-block:: py\n   :a: b\n\n   x\n\n\ny", [("python", "x\n\n\n", 32, 36), ("prose", "y", 36, 37)]),
        ("  .. code:: sh\n\n    x\n  y", [("shell", "x\n", 20, 22), ("prose", "  y", 22, 25)]),
        *((".. code::\n\n", [("", "", 0, 0)]), (".. code:: c", [("skip", "", 0, 0)])),
        ("```\r\nx\r\n```\r\n", [("", "x\r\n", 5, 8), ("prose", "", 13, 13)]),
        ("<html>a<pre>b</pre>c", [("prose", "a", 6, 7), ("", "b", 12, 13), ("prose", "c", 19, 20)]),
        ("<p>a</p><pre class='lang-sh'>b</pre>", [("prose", "\na\n", 0, 5), ("shell", "b", 29, 30)]),
        ("<p>a</p><pre><code class='language-py'>b</code></pre>", [("prose", "\na\n", 0, 5), ("python", "b", 39, 40)]),
        *(("<p>a<br>b</p>", [("prose", "\na\nb\n", 0, 10)]), ("<p>a&amp;b</p>", [("prose", "\na&b\n", 0, 11)])),
        *(("<p>a<!-- x -->b</p>", [("prose", "\nab\n", 0, 16)]), ("<p></p><style>x", [("prose", "\n\n", 0, 4)])),
        *(
            ("<p></p><script>x</script>y", [("prose", "\n\ny", 0, 26)]),
            ("<p></p><code>a</code>", [("prose", "\n\n`a`", 0, 15)]),
        ),
        ("<table><tr><td>a<td>b</table></td>", [("prose", "\n\n|a|b\n|", 0, 30)]),
        ("<p></p><pre>a<br>b<p>c</p></pre>", [("prose", "\n\n", 0, 4), ("", "a\nbc", 12, 22)]),
        *(("<p></p><pre>", [("prose", "\n\n", 0, 4)]), ("<html></pre>a", [("prose", "a", 12, 13)])),
        ("<html><pre lang=py>a</pre><pre>b</pre>", [("python", "a", 19, 20), ("", "b", 31, 32)]),
    ],
)
def test_a_page_is_split_into_its_blocks(text: str, expected: list[tuple[str, str, int, int]]) -> None:
    """Each has its kind, its dedented lines, and its first and last character."""
    found = pages.blocks(Excerpt.whole(text))

    assert expected == [(one.kind, one.text.text, one.text.at[0], one.text.at[-1]) for one in found]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        *(("", []), ("a", [("a", [0])]), (" a \n\nb", [(" a ", [0, 1, 2]), ("b", [5])]), ("  \n", [])),
        *(("a\\\nb", [("a\nb", [0, 2, 3])]), ("a\\\n# c\nb", [("a\nb", [0, 2, 7])]), ("# a\n;b", [])),
        *(("a\\\n;c\n b", [("a\n b", [0, 2, 6, 7])]), ("a\\", [("a", [0])]), ("a\\\n", [("a\n", [0, 2])])),
        *(("a\\\r\nb", [("a\nb", [0, 3, 4])]), ("\\\n", [("\n", [1])]), ("a\r\n\r", [("a", [0])])),
    ],
)
def test_a_line_of_a_unit_continues_after_a_backslash(text: str, lines: list[tuple[str, list[int]]]) -> None:
    """The line end becomes systemd's blank; comments in between are skipped."""
    assert lines == [(one.text, [*one.at][:-1]) for one in unit_files._lines(Excerpt.whole(text))]


@in_one_test(
    ("text", "words", "troubles"),
    [
        *(("", [], []), ("a", [("a", "a", "a")], []), (" a  b ", [("a", "a", "a"), ("b", "b", "b")], [])),
        *(("'a b'", [("a b", "a b", "'a b'")], []), ('"a\'b"', [("a'b", "a'b", '"a\'b"')], [])),
        *(("a'b c'd", [("ab cd", "ab cd", "a'b c'd")], []), ("''", [("", "", "''")], [])),
        *(("a\\sb", [("a b", "a\\b", "a\\sb")], []), ("\\101x", [("Ax", "\\x", "\\101x")], [])),
        ("\\u0041b\\U00000042", [("AbB", "\\b\\", "\\u0041b\\U00000042")], []),
        ("x \\q", [("x", "x", "x"), ("\\q", "\\\\", "\\q")], [("escape", "\\q", {"escape": "\\q"})]),
        ("a\\", [("a\\", "a\\", "a\\")], []),
        ("'a", [("a", "a", "'a")], [("quote", "'a", {"quote": "'"})]),
        ('x "a b', [("x", "x", "x"), ("a b", "a b", '"a b')], [("quote", '"a b', {"quote": '"'})]),
        *(("%i", [("\ufffc", "%", "%i")], []), ("%%", [("%", "%", "%%")], []), ("5%", [("5%", "5%", "5%")], [])),
        ("a%n'%n b'", [("a\ufffc\ufffc b", "a%% b", "a%n'%n b'")], []),
    ],
)
def test_a_line_of_a_unit_is_split_into_words(
    text: str, words: list[tuple[str, str, str]], troubles: list[tuple[str, str, dict[str, str]]]
) -> None:
    """At blanks outside quotes; each character is placed at its own or its escape's begin."""
    told: list[Trouble] = []
    found = unit_files._split(Excerpt(f"{text}", range(5, len(text) + 6)), told)

    assert words == [
        ("".join(one for one, _ in made), "".join(text[at - 5] for _, at in made), text[start - 5 : end - 5])
        for made, start, end in found
    ]
    assert troubles == [
        (one.kind.removeprefix("file.systemd-"), text[one.start - 5 : one.end - 5], one.says) for one in told
    ]


@pytest.mark.parametrize(
    ("value", "settings", "lost"),
    [
        *(("A=1", [("A", "1", "A=1", "1")], None), ("A=", [("A", "", "A=", "A=")], None)),
        ("'A=1 2' B=3", [("A", "1 2", "'A=1 2'", "1 2'"), ("B", "3", "B=3", "3")], None),
        ("A='1 2'", [("A", "1 2", "A='1 2'", "1 2'")], None),
        ("A=1 2 3", [("A", "1", "A=1", "1")], ("2 3", "2")),
        ("2 A=1 3", [("A", "1", "A=1", "1")], ("2 A=1 3", "2")),
        ("A=1 B=2 3", [("A", "1", "A=1", "1"), ("B", "2", "B=2", "2")], ("3", "3")),
        *(("1A=2", [], ("1A=2", "1A=2")), ("A=%i", [("A", None, "A=%i", "A=%i")], None)),
        ("A=\\x31", [("A", "1", "A=\\x31", "\\x31")], None),
    ],
)
def test_variables_of_a_unit_are_words_with_an_equals_sign(
    value: str, settings: list[tuple[str, str | None, str, str]], lost: tuple[str, str] | None
) -> None:
    """Words without `=` are lost, and reported from the first to the last."""
    told: list[Trouble] = []
    found = unit_files._settings(Excerpt.whole(value), told)

    assert settings == [
        (one.name, one.value.value, value[one.start : one.end], value[one.value.start : one.value.end]) for one in found
    ]
    assert [one.pair for one in found] == [(one.start, one.end) for one in found]
    assert [lost] * (lost is not None) == [(value[one.start : one.end], one.says["word"]) for one in told]


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("a: 1\nb: [x, 'y']\n", ["{a: 1\nb: [x, 'y']\n", "1", "F[[x, 'y']", "x", "'y'"]),
        ("- a\n- b: c\n", ["[- a\n- b: c\n", "a", "{b: c\n", "c"]),
        ("{a: {b: c}}", ["F{{a: {b: c}}", "F{{b: c}", "c"]),
        ("a: |\n  x\n\nb: 1\n", ["{a: |\n  x\n\nb: 1\n", "|\n  x\n\n", "1"]),
        *(("a:\nb: 2", ["{a:\nb: 2", "", "2"]), ("[]", ["F[[]"]), ("{}", ["F{{}"]), ("# x\n", []), ("", [])),
        *(("a: &x b\nc: *x\n", ["{a: &x b\nc: *x\n", "&x b", "&x b"]), ("a:   b   # c\n", ["{a:   b   # c\n", "b"])),
        *(("'a': \"b\"", ["{'a': \"b\"", '"b"']), ("a: !!str 1\n", ["{a: !!str 1\n", "!!str 1"])),
    ],
)
def test_a_node_extends_from_its_first_character_to_its_last(text: str, nodes: list[str]) -> None:
    """Quotes, tags and anchors are included; a block node ends before the next node."""
    root = yaml_places.read(Excerpt(text, range(3, len(text) + 4)))
    found = []
    for _, node in yaml_places.walk(root) if root is not None else ():
        is_flow = not isinstance(node, yaml_places.Scalar) and node.is_flow
        sign = "[" if isinstance(node, yaml_places.Sequence) else "{" * isinstance(node, yaml_places.Mapping)
        found.append("F" * is_flow + sign + text[node.start - 3 : node.end - 3])

    assert nodes == found


@pytest.mark.parametrize(
    ("text", "says", "at"),
    [
        ("[" * 61 + "]" * 61, "too large or too deep", 61),
        ("a: [", "expected the node content, but found '<stream end>'", 4),
        ("a: 'b", "found unexpected end of stream", 5),
        ("a\tb: c: d", "found character '\\t' that cannot start any token", 1),
        ("\0", "unacceptable character #x0000: special characters are not allowed", 0),
        ("a: \1", "unacceptable character #x0001: special characters are not allowed", 3),
        ("{a: b]", "expected ',' or '}', but got ']'", 5),
        ("*a", "unknown alias a", 0),
        ('a: "\\z"', "found unknown escape character 'z'", 5),
    ],
)
def test_invalid_yaml_is_reported_at_its_character(text: str, says: str, at: int) -> None:
    """The offset refers to the file, and the message is the parser's first line."""
    with pytest.raises(yaml_places.YamlError) as caught:
        yaml_places.read(Excerpt(text, range(9, len(text) + 10)))

    assert (str(caught.value), caught.value.at - 9) == (says, at)


def test_a_collection_in_sixty_others_is_the_deepest() -> None:
    """A deeper one is rejected."""
    node = yaml_places.read(Excerpt.whole("[" * 60 + "]" * 60))

    assert node is not None
    assert [len(path) for path, _ in yaml_places.walk(node)] == [*range(60)]


@pytest.mark.parametrize(("count", "is_found"), [(1, True), (19, True), (20, False)])
def test_a_mapping_merges_at_most_twenty(count: int, is_found: bool) -> None:  # noqa: FBT001
    """Nested merges count too, and the mapping itself."""
    text = "a0: &a0 {k: v}\n" + "".join(f"a{at}: &a{at} {{<<: *a{at - 1}}}\n" for at in range(1, count + 1))
    root = yaml_places.read(Excerpt.whole(text))
    assert isinstance(root, yaml_places.Mapping)
    last = root.get(f"a{count}")
    assert isinstance(last, yaml_places.Mapping)

    assert (last.get("k") is not None) is is_found
    assert [key.value for key, _ in last.items()] == ["k"] * is_found


@in_one_test(
    ("scalar", "value", "at"),
    [
        *(('"\n  ab"', " ab", "\nab"), ('"ab\n"', "ab ", "ab\n"), ('"ab\\\n  \\  cd"', "ab  cd", "ab\\ cd")),
        *(('"\\x41\\\n  b"', "Ab", "\\b"), ('"a\\\\\n  b"', "a\\ b", "a\\\nb"), ('" a"', " a", " a")),
        *(("' a\n  \n\n  b'", " a\n\nb", " a\n\nb"), ("'a  \n  b'", "a b", "a\nb"), ("''''", "'", "'")),
        *(("|-\n  a\n\n  b", "a\n\nb", "a\n\nb"), (">\n  a\n\n\n\n  b", "a\n\n\nb", "a\n\n\nb"), ("|+\n  a", "a", "a")),
        *((">-\n  a\n    b\n    c\n  d", "a\n  b\n  c\nd", "a\n  b\n  c\nd"), (">\n\n  a", "\na", "\na")),
        *(("|1\n   a\n  b\n", "  a\n b\n", "  a\n b\n"), ("a  b", "a  b", "a  b"), ("a\n\n\n  b", "a\n\nb", "a\n\nb")),
    ],
)
def test_a_scalar_of_several_lines_has_its_characters_in_their_places(scalar: str, value: str, at: str) -> None:
    """Leading and trailing blanks of a line are dropped, unless quoted."""
    text = f"k: {scalar}"
    node = yaml_places.read(Excerpt.whole(text))
    assert isinstance(node, yaml_places.Mapping)
    found = node.pairs[0][1]
    assert isinstance(found, yaml_places.Scalar)

    assert (found.value, "".join(text[place] for place in found.text.at[:-1])) == (value, at)
    assert (found.start, text[found.start : found.end]) == (3, scalar)


@in_one_test(
    ("before", "after", "inner", "most"),
    [
        *(("[", "]", "1", 40), ("(", ",)", "1", 40), ("{", "}", "1", 40), ("{'a': ", "}", "1", 40)),
        *(("dict(a=", ")", "1", 40), ("-", "", "1", 40), ("1 + (", ")", "1", 40), ("(", " + 1)", "1", 40)),
        *(("[", "]", "a0", 30), ("[", "]", "a1", 20), ("[", "]", "a2", 10), ("[", "]", "a3", 0)),
        *(("{'a': ", "}", "f'{a2}'", 9), ("{'a': ", "}", "{-1: 2}", 38), ("dict(a=", ")", "a2", 10)),
    ],
)
def test_a_value_nests_forty_deep(before: str, after: str, inner: str, most: int) -> None:
    """Each collection, operator and expression counts as one, a resolved name as ten."""
    for count in (most, most + 1):
        value = before * count + inner + after * count
        text = f"from vllm import LLM\na0 = 1\na1 = a0\na2 = a1\na3 = a2\nLLM('m', seed={value})\n"
        (found,) = documents.read(text, "a.py").starts
        assert (found.keywords[1].is_known, found.keywords[1].why) == (
            (True, "") if count == most else (False, "nested too deep")
        )


TOO_LONG = "it has more than 400000 characters"


@pytest.mark.parametrize(
    ("text", "says", "at"),
    [
        *(
            ("x = (\n", "'(' was never closed", 0),
            ("\n\nx = (", "'(' was never closed", 2),
            ("a b", "invalid syntax", 0),
        ),
        *(("a\nb c\nd", "invalid syntax", 2), ("a\r\nb c", "invalid syntax", 3), ("a\rb c", "invalid syntax", 2)),
        *(("#" * 400_001, TOO_LONG, 0), ("#" * 400_000, None, 0), ("", None, 0), ("a\0", None, 0)),
    ],
    ids=["open", "third", "one", "second", "crlf", "cr", "long", "not too long", "empty", "nul"],
)
def test_invalid_python_is_reported(text: str, says: str | None, at: int) -> None:
    """At the beginning of its line; code above the size limit is not parsed."""
    reading = starts.DocumentReading()
    source = Excerpt(text, range(4, len(text) + 5))
    is_python = python_calls.read(source, starts.Around(), reading)

    assert is_python is (says in {None, TOO_LONG} and "\0" not in text)
    if "\0" in text:
        (trouble,) = reading.troubles
        assert (trouble.kind, trouble.start, trouble.end) == ("file.not-python", 4, 4)
        return
    assert [("file.not-python", at + 4, at + 4)] * (says is not None) == [
        (one.kind, one.start, one.end) for one in reading.troubles
    ]
    told = [one.says.get("limit") or one.says["says"].partition(" (parsed as")[0] for one in reading.troubles]
    assert told == [says] * (says is not None)


@in_one_test(
    ("literal", "value", "at"),
    [
        *(("'ab'", "ab", "ab"), ("'a' 'b'", "ab", "ab"), ("'a'  # c 'x'\n'b'", "ab", "ab"), ("r'\\n'", "\\n", "\\n")),
        *(
            ("'''a\n'b'''", "a\n'b", "a\n'b"),
            ("'a\\\nb'", "ab", "ab"),
            ("'\\x41\\u0042'", "AB", "\\\\"),
            ("''", "", ""),
        ),
        *(("'\\''", "'", "\\"), ('"\\""', '"', "\\"), ("'\\101\\60'", "A0", "\\\\"), ("'\\q'", "\\q", "\\q")),
        *(("'\\N{BULLET}a'", "\u2022a", "''"), ("R'a\\'b'", "a\\'b", "a\\'b"), ("u'a'", "a", "a")),
        *(
            ("'''a\r\nb\rc'''", "a\nb\nc", "a\rb\rc"),
            ("'a\\\r\nb'", "ab", "ab"),
            ("r'''a\\\r\nb'''", "a\\\nb", "a\\\rb"),
        ),
    ],
)
def test_a_python_string_has_its_characters_in_their_places(literal: str, value: str, at: str) -> None:
    """An escape has its backslash's place, a character without a place that of the whole string."""
    text = f"x = ['vllm', 'serve', ({literal})]\n"
    (found,) = documents.read(text, "a.py").starts
    (word,) = found.words

    assert (word.value, "".join(text[place] for place in word.at or ())) == (value, at)
    assert text[word.start : word.end] == literal == word.raw


@in_one_test(
    ("call", "keywords", "is_elided"),
    [
        *(("LLM()", [], False), ("LLM('m')", ["model='m'"], False), ("LLM('m', 'n')", ["model='m'"], False)),
        *(("LLM(*a)", [], False), ("LLM(...)", [], True), ("LLM('m', ...)", ["model='m'"], True)),
        *(("LLM(x=..., y=1)", ["y=1"], False), ("LLM(**{'a': 1, b: 2, 3: 4})", ["a=1"], True)),
        *(("LLM(**dict(a=1, **b))", ["a=1"], True), ("LLM(**k)", ["c=5"], False), ("LLM(**f())", [], True)),
        *(("LLM(**u)", [], True), ("LLM(**{'a': 1, **b})", ["a=1"], True), ("LLM(a=1, **d)", ["a=1", "e=6"], False)),
    ],
)
def test_a_call_has_written_or_named_arguments(call: str, keywords: list[str], is_elided: bool) -> None:  # noqa: FBT001
    """The first argument is the model; an unpacked mapping is read if it is one literal, else arguments are missing."""
    text = f"from vllm import LLM\nk = {{'c': 5}}\nd = dict(e=6)\n{call}\n"
    (found,) = documents.read(text, "a.py").starts

    assert [f"{one.name}={one.value!r}" for one in found.keywords] == keywords
    assert all(one.is_known for one in found.keywords)
    assert (found.is_elided, text[found.start : found.end]) == (is_elided, call)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        *(("vllm/vllm-openai:v0.9.1", "vllm/vllm-openai:v0.9.1"), ("{repository: x/vllm, tag: a}", "x/vllm:a")),
        *(("{repository: x/vllm}", None), ("{tag: a}", None), ("{repository: [x], tag: a}", None), ("[x]", None)),
        *(("{repository: x/vllm, tag: [a]}", None), ("{repository: x/vllm, tag: '{{ a }}'}", None)),
        *(("{repository: '{{ x }}', tag: a}", None), ("'{{ x }}'", "?"), ("", "")),
    ],
)
def test_an_image_of_a_manifest_is_a_text_or_has_two_parts(image: str, expected: str | None) -> None:
    """Both parts must be strings without templates."""
    page = documents.read(f"a:\n  image: {image}\n  args: [--served-model-name, m]\n", "a.yaml")

    assert [expected] * (expected is not None) == ["?" if one.value is None else one.value for one in page.images]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        *(("modelFormat: {name: vLLM}", ["--x"]), ("modelFormat: {name: x}\n  runtime: my-vllm", ["--x"])),
        *(("modelFormat: {name: x}\n  runtime: y", []), ("runtime: my-vllm", []), ("modelFormat: {}", [])),
    ],
)
def test_a_model_is_served_by_vllm_if_its_format_or_runtime_says_so(given: str, words: list[str]) -> None:
    """The runtime counts only with a format; arguments that the runtime adds are unknown."""
    found = documents.read(f"model:\n  {given}\n  args: [--x]\n", "a.yaml").starts

    assert [word.value for one in found for word in one.words] == words
    assert all(one.is_elided for one in found)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        *(("[A, B=1, '2C', D=]", [("A", None, "A"), ("B", "1", "B=1"), ("D", "", "D=")]), ("[[A]]", [])),
        *(("['B=1 2']", [("B", "1 2", "'B=1 2'")]), ("{A: 1, B: , C: ~, D: 'null'}", None), ("x", [])),
        *(("[{name: A, value: 1}]", [("A", "1", "{name: A, value: 1")]), ("[{value: 1}]", [])),
        ("[{name: A, valueFrom: {b: c}}]", [("A", None, "{name: A")]),
    ],
)
def test_variables_of_a_service_are_a_mapping_or_a_list(
    form: str, expected: list[tuple[str, str | None, str]] | None
) -> None:
    """A list of pairs, of inherited names, or of both; a key without a value is inherited too."""
    text = f"services:\n  a:\n    image: vllm/vllm-openai\n    environment: {form}\n    command: m\n"
    settings = documents.read(text, "compose.yaml").settings
    if expected is None:
        expected = [("A", "1", "A: 1"), ("B", None, "B:"), ("C", None, "C: ~"), ("D", "null", "D: 'null'")]

    assert expected == [(one.name, one.value.value, text[one.start : one.end].rstrip(" ,")) for one in settings]


@pytest.mark.parametrize(
    ("key", "is_read"),
    [
        *(("run", True), ("RUN", True), ("a.sh", True), ("a.bash", True), ("text", False), ("sh.x", False)),
        *(("startCommand", True), ("runs", False), ("- run", True)),
    ],
)
def test_a_script_in_a_manifest_is_identified_by_its_key(key: str, is_read: bool) -> None:  # noqa: FBT001
    """A key that programs run, or a script's file name; list items inherit the key of the list."""
    for text in (f"{key}: vllm serve m\n", f"{key}:\n" + "  " * ("- " in key) + "  - vllm serve m\n"):
        found = documents.read(f"x:\n  {text}" if "\n  " not in text else text, "a.yaml").starts
        assert [seen(one)[2] for one in found] == ["m"] * is_read
        assert not any(one.is_certain for one in found)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        *(("vllmArgs: [--a, --b]", 2), ("x: {extra_args: [--a, --b]}", 0), ("vllm: {extraArgs: [--a]}", 1)),
        *(("extraArgs: [--served-model-name, m]", 1), ("vllm: {args2: [--a]}", 0), ("vllm: {more-args: [--a]}", 0)),
        *(
            ("my-VLLM: {moreFlags: [a, --b]}", 1),
            ("vllm: {extraArgs: --a}", 0),
            ("vllm: {x: {serverarguments: [--a]}}", 1),
        ),
    ],
)
def test_arguments_that_a_chart_adds_are_identified_by_key_or_option(text: str, count: int) -> None:
    """A parent key names vLLM, or the options are only vLLM's."""
    loose = documents.read(f"{text}\n", "values.yaml").loose

    assert [one.where for one in loose] == ["bare"] * count


def test_three_hundred_documents_of_a_stream_are_read() -> None:
    """Only relevant documents count; the first skipped one is reported."""
    text = "".join(f"--- {{run: --a{at}}}\n--- x\n" for at in range(301))
    (trouble,) = documents.read(text, "a.yaml").troubles

    assert (trouble.kind, trouble.says) == ("file.not-yaml", {"says": "more than 300 documents"})
    assert text[trouble.start :].startswith(" {run: --a300}")
    assert documents.read(text[: trouble.start - 3], "a.yaml").troubles == ()


@pytest.mark.parametrize(
    ("command", "words", "variables", "told_"),
    [
        ("foo 'vllm serve m )'", None, {}, []),
        ("tmux new 'vllm serve m )'", None, {}, [("unexpected-token", ")")]),
        *(
            ("foo --wrap='vllm serve m'", None, {}, []),
            ("sbatch --wrap='vllm serve m'", "m", {}, []),
            ("foo A='x vllm serve m'", "m", {"A": "x"}, []),
        ),
        *(
            ("foo 'vllm serve'", None, {}, []),
            ("echo 'vllm serve m'", None, {}, []),
            ('foo "vllm serve $X"', "?", {}, []),
        ),
        *(
            ("foo 'vllmserve m'", None, {}, []),
            ("foo vllm\\ serve", None, {}, []),
            ("foo 'A=1 vllm serve m'", "m", {"A": "1"}, []),
        ),
    ],
)
def test_a_word_of_another_program_is_read_as_a_script(
    command: str, words: str | None, variables: dict[str, str], told_: list[tuple[str, str]]
) -> None:
    """Shell errors in it are reported only if a shell certainly reads it; a program without arguments is a name."""
    text = f"{command}\n"
    page = documents.read(text, "a.sh")

    assert [seen(one)[2] for one in page.starts] == [words] * (words is not None)
    assert [environment(one) for one in page.starts] == [variables] * len(page.starts)
    assert told(page, text) == told_
    assert not any(one.is_certain for one in page.starts)


@pytest.mark.parametrize(("program", "count"), [("ssh h", 1), ("foo", 0)])
def test_options_in_a_script_argument_count_if_a_shell_reads_it(program: str, count: int) -> None:
    """Only options on their own line count; another program may read them differently."""
    page = documents.read(f"{program} '--x 1; vllm serve m'\n", "a.sh")

    assert [seen(one)[2] for one in page.starts] == ["m"]
    assert [[word.value for word in one.words] for one in page.loose] == [["--x", "1"]] * count


@in_one_test(
    ("command", "words", "variables", "image"),
    [
        ("A=1 docker run -e A vllm/vllm-openai m", "m", {"A": "1"}, "vllm/vllm-openai"),
        ("docker run -e A vllm/vllm-openai m", "m", {"A": None}, "vllm/vllm-openai"),
        ("A=1 docker run -e A=2 vllm/vllm-openai m", "m", {"A": "2"}, "vllm/vllm-openai"),
        ("A=1 docker run vllm/vllm-openai m", "m", {}, "vllm/vllm-openai"),
        *(
            ("apptainer run --env A=1,B=2 --env=C=3 x.sif vllm serve m", "m", {"A": "1", "B": "2", "C": "3"}, "x.sif"),
            (
                "kubectl run p --env A=1 --env=B=2 --image=x/vllm-openai -- m",
                "m",
                {"A": "1", "B": "2"},
                "x/vllm-openai",
            ),
        ),
        *(
            ("docker exec -e A=1 c sh -c 'vllm serve m'", "m", {"A": "1"}, None),
            ("A=1 docker exec c ls", None, {}, None),
        ),
        *(("A=1 docker exec c vllm serve m", "m", {}, None), ("A=1 kubectl exec p -- vllm serve m", "m", {}, None)),
        ("foo vllm/vllm-openai:v0.9.1 vllm serve m", "m", {}, "vllm/vllm-openai:v0.9.1"),
        ("foo vllm/vllm-openai vllm serve m", "m", {}, None),
        ("apptainer run docker://vllm/vllm-openai:v0.9.1", "", {}, "docker://vllm/vllm-openai:v0.9.1"),
        *(
            ("apptainer exec x.sif ls", None, {}, None),
            ("singularity exec x.sif bash -c 'vllm serve m'", "m", {}, "x.sif"),
        ),
        ("docker run ubuntu bash -c 'vllm serve m'", "m", {}, "ubuntu"),
        ("docker run ubuntu --served-model-name x", "--served-model-name x", {}, "ubuntu"),
        *(("docker run ubuntu m", None, {}, None), ("docker run --entrypoint '' u vllm serve m", "m", {}, "u")),
        *(("docker run --entrypoint vllm ubuntu", None, {}, None), ("docker run x/vllm", None, {}, None)),
        *(("docker run vllm/vllm-openai -h", None, {}, None), ("docker run x/vllm -x", "-x", {}, "x/vllm")),
        ("docker run vllm/vllm-openai vllm/m", "vllm/m", {}, "vllm/vllm-openai"),
    ],
)
def test_a_container_launches_its_command_with_its_own_variables(
    command: str, words: str | None, variables: dict[str, str | None], image: str | None
) -> None:
    """A bare name inherits the shell's value; only vLLM's images have a known entry point."""
    found = documents.read(f"{command}\n", "a.sh").starts

    assert [words] * (words is not None) == [seen(one)[2] for one in found]
    assert [(environment(one), one.image and one.image.value) for one in found] == [(variables, image)] * len(found)


@in_one_test(
    ("item", "made"),
    [
        *(("--x: 1", "'--x: 1'"), ("-a: {b: c}", "'-a: {b: c}'"), ("--x: '1'", None), ("--x:\n        1", "")),
        *(("{a: 1}", ""), ("x: 1", ""), ("[-a]", ""), (f"--x: {'1' * 90}", f"'--x: {'1' * 90}'")),
    ],
)
@in_one_test("by", ["Kubernetes", "docker compose"])
def test_an_option_that_yaml_reads_as_a_mapping_is_reported(item: str, made: str | None, by: str) -> None:
    """On one line; quotes make it a string, unless it already contains such quotes."""
    if by == "Kubernetes":
        text = f"spec:\n  containers:\n  - image: vllm/vllm-openai\n    args:\n    - m\n    - {item}\n"
    else:
        text = f"services:\n  a:\n    image: vllm/vllm-openai\n    command:\n    - m\n    - {item}\n"
    troubles = documents.read(text, "a.yaml").troubles

    assert [seen(one)[2] for one in documents.read(text, "a.yaml").starts] == ["m"]
    assert [(one.kind, text[one.start : one.end]) for one in troubles] == [("file.not-a-text", item)] * (made != "")
    for one in troubles:
        assert one.says == {"value": item[:80], "type": "mapping", "by": by}
        assert applied(text, one.edits) == text.replace(item, made or item)


def test_nine_nested_defaults_of_a_variable_are_too_many() -> None:
    """The ninth is rejected."""
    text = f"services:\n  a:\n    image: vllm/vllm-openai\n    command:\n    - '{'${A:-' * 9}b{'}' * 9}'\n"
    (trouble,) = documents.read(text, "compose.yaml").troubles

    assert (trouble.kind, text[trouble.start : trouble.end]) == ("file.compose-interpolation", "$")
    assert trouble.start == text.index("$") + 8 * len("${A:-")


@pytest.mark.parametrize(
    ("code", "count", "is_told"),
    [
        *(("# vllm\nx = (\n", 0, False), ("x = (\nvllm.LLM('m')\n", 1, False), ("x = (\nvllm.LLM('m' 1)\n", 0, True)),
        ("x = (\nvllm.LLM('m' 1)\nvllm.LLM('m')\n", 1, False),
    ],
)
def test_a_fragment_of_python_without_a_parsed_call_is_reported(code: str, count: int, is_told: bool) -> None:  # noqa: FBT001
    """Only if it contains a call; a file is always reported."""
    page = documents.read(f"```python\n{code}```\n", "a.md")

    assert (len(page.starts), [one.kind for one in page.troubles]) == (count, ["file.not-python"] * is_told)
    assert [one.kind for one in documents.read(code, "a.py").troubles] == ["file.not-python"]


def test_a_formatted_string_without_places_is_placed_at_its_begin() -> None:
    """All its characters have that place."""
    text = "import os\nos.system(f'vllm serve \\N{BULLET} {x} --port 1')\n"
    (found,) = documents.read(text, "a.py").starts

    assert [word.value for word in found.words] == ["\u2022", None, "--port", "1"]
    assert {word.start for word in (*found.prefix, *found.words)} == {text.index("f'")}


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        *(("<p>a</p>", True), ("<p>a", False), ("a</p>", False), ("<!DOCTYPE html", True), ("<HTML>", True)),
        *(("<b>a</p>", False), ("<div x>a</td>", True), (f"{'x' * 3995}<html", True), (f"{'x' * 3996}<html", False)),
        *(("<code>a</pre>", True), ("<pre>", False), ("<pretty>a</p>", False)),
    ],
)
def test_a_web_page_is_identified_by_its_beginning(text: str, is_one: bool) -> None:  # noqa: FBT001
    """The first 4000 characters declare HTML, or contain a text tag that is closed somewhere."""
    assert pages._is_html(text) is is_one


def test_a_scalar_that_crashes_the_parser_is_invalid_yaml() -> None:
    """It is reported at the beginning of the text."""
    with pytest.raises(yaml_places.YamlError, match=r"^no YAML$") as caught:
        yaml_places.read(Excerpt('a: "\\U00110000"', range(5, 21)))

    assert caught.value.at == 5


def test_streams_of_many_documents_take_linear_time() -> None:
    """A document of a stream is read without the rest of the file."""
    text = f"image: vllm/vllm-openai\n# {'ray srun headless ' * 300}\n---\n"

    assert growth(lambda more: documents.read(more, "a.yaml"), text * 60) < LIMIT
