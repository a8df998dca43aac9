"""Rules about the containers of launches, and about names that the engine looks up."""

from __future__ import annotations

import time

import pytest

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.lint import checking

RUN = "docker run --gpus all {options} vllm/vllm-openai:v0.24.0 --model Qwen/Qwen3-8B {arguments}\n"
SERVICE = """\
services:
  chat:
    image: vllm/vllm-openai:v0.24.0
    command: --model Qwen/Qwen3-8B {arguments}
{keys}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: chat
  labels: {{app: chat}}
spec:
{pod}
  containers:
    - name: chat
      image: vllm/vllm-openai:v0.24.0
      args: [--model, Qwen/Qwen3-8B{arguments}]
      resources: {{limits: {{nvidia.com/gpu: 2}}}}
{container}
"""
FORWARDING = """\
---
apiVersion: v1
kind: Service
metadata: {{name: chat}}
spec:
{spec}
  selector: {{app: chat}}
  ports: [{{port: 80, targetPort: {target}}}]
"""


def found(name: str, text: str, group: str = "container.") -> list[str]:
    """Rules of a group that a text breaks, without the group."""
    issues = checking.lint_text(text, name=name, vllm="0.24.0").issues
    return [issue.rule.removeprefix(group) for issue in issues if issue.rule.startswith(group)]


@pytest.mark.parametrize(
    ("options", "arguments", "rules"),
    [
        ("-p 8000:8080", "", ["port-mapping"]),
        ("-p 127.0.0.1:9000:9000/tcp", "--port 8000", ["port-mapping"]),
        ("--publish=8080", "", ["port-mapping"]),
        ("-p [::1]:80:8000", "", []),
        ("-p 8000:8080", "--port 8080", []),
        ("-p 8000:8080", "--uds /run/vllm.sock", []),
        ("-p 8000:8080 --network host", "", []),
        ("-p 8000:8080 -P", "", []),
        ("-p 9000:9000/udp", "", []),
        ("-p 8000-8010:8000-8010", "", []),
        ("-p $PORT:$PORT", "", []),
        ('-p "127.0.0.1:${PORT:-80}:8080"', "", ["port-mapping"]),
        ("-p %PORT%:8080", "", ["port-mapping"]),
        ('-p 8000:8080 "${OPTIONS[@]}"', "", ["port-mapping"]),
        ("-p 8000:8080", "--foo 1", ["port-mapping"]),
        ("-p 8000:8080", "--prot 8080", []),
        ("-p 8000:8080", "--port $PORT", []),
        ("-p 8000:8080", "$MORE", []),
        ("-p 8000:8080", "--max-model-len $MORE", []),
        ("-p 8000:8080", '--max-model-len "$MORE"', ["port-mapping"]),
        ("", "--tensor-parallel-size 2", ["shared-memory"]),
        ("", "--pipeline-parallel-size 2", ["shared-memory"]),
        ("--ipc=private", "-tp 2", ["shared-memory"]),
        ("--ipc=shareable", "-tp 2", ["shared-memory"]),
        ("--ipc=host", "-tp 2", []),
        ("--shm-size 1g", "-tp 2", []),
        ("-v /dev/shm:/dev/shm", "-tp 2", []),
        ("--tmpfs /dev/shm:size=8g", "-tp 2", []),
    ],
)
def test_the_options_of_docker_run(options: str, arguments: str, rules: list[str]) -> None:
    """Ports and shared memory; nothing if an unknown word may set them. An unset array is empty."""
    assert found("run.sh", RUN.format(options=options, arguments=arguments)) == rules


@pytest.mark.parametrize(
    ("image", "options", "rules"),
    [
        ("vllm/vllm-openai:v0.24.0", "", ["no-gpus"]),
        ("vllm/vllm-openai:v0.24.0", "--device /dev/kfd", []),
        ("vllm/vllm-openai:v0.24.0", "--runtime=nvidia", []),
        ("vllm/vllm-openai:v0.24.0", "-e NVIDIA_VISIBLE_DEVICES=0", []),
        ("vllm/vllm-openai-cpu:v0.24.0", "", []),
        ("vllm/vllm-openai:v0.24.0-cpu", "", []),
        ("house/vllm-openai-rocm:1", "", []),
    ],
)
def test_a_container_without_gpus(image: str, options: str, rules: list[str]) -> None:
    """Only of vLLM's own image for NVIDIA GPUs."""
    assert found("run.sh", f"docker run {options} --ipc=host {image} --model Qwen/Qwen3-8B\n") == rules


@pytest.mark.parametrize(
    ("keys", "rules"),
    [
        ("", ["no-gpus"]),
        ("    runtime: nvidia", []),
        ("    gpus: all\n    ports: [{target: 8080, published: 8000}]", ["port-mapping"]),
        ("    gpus: all\n    ports: [{target: 8080, protocol: udp}]", []),
        ("    gpus: all\n    ports: [{target: 8080}, '8000:8000']", []),
        ("    gpus: all\n    ports: ['${PORT}:8080', '8000-8001:8000-8001']", []),
        ("    gpus: all\n    ports: ['${PORT}:8080']", ["port-mapping"]),
        ("    gpus: all\n    ports: ['${PORT}:8080']\n    extends: {file: a.yaml, service: b}", []),
        ("    gpus: all\n    ports: ['8000:8080']\n    network_mode: host", []),
        ("    gpus: all\n    healthcheck: {test: 'curl localhost:9000/health'}", ["probe-port"]),
        ("    gpus: all\n    environment: [PROXY=9000]\n    healthcheck: {test: 'curl localhost:9000/health'}", []),
        ("    gpus: all\n    healthcheck: {test: 'curl localhost:8000/health', retries: 1}", []),
        ("    gpus: all\n    labels: {autoheal: 'true'}\n    healthcheck: {test: [NONE], retries: 1}", []),
        (
            "    gpus: all\n    labels: {autoheal: 'true'}\n    healthcheck: {test: 'curl localhost:8000', retries: 1}",
            ["probe-too-short"],
        ),
        ("    gpus: all\n    labels: [autoheal]\n    healthcheck: {test: x, interval: 1h30m}", []),
        ("    gpus: all\n    labels: [autoheal]\n    healthcheck: {test: x, interval: $EVERY}", []),
    ],
)
def test_the_keys_of_a_compose_service(keys: str, rules: list[str]) -> None:
    """GPUs, ports and health checks."""
    assert found("compose.yaml", SERVICE.format(arguments="", keys=keys)) == rules


@pytest.mark.parametrize(
    ("pod", "container", "arguments", "rules"),
    [
        ("", "", ", --tensor-parallel-size=2", ["shared-memory"]),
        ("  hostIPC: true", "", ", --tensor-parallel-size=2", []),
        ("", "      volumeMounts: [{name: shm, mountPath: /dev/shm/}]", ", --tensor-parallel-size=2", []),
        ("", "      readinessProbe: {tcpSocket: {port: 9000}}", "", ["probe-port"]),
        ("", "      readinessProbe: {tcpSocket: {port: 9000, host: other}}", "", []),
        ("", "      readinessProbe: {tcpSocket: {port: '${PORT}'}}", "", []),
        ("", "      readinessProbe: {tcpSocket: {port: 9000}}", ", --port=9000", []),
        ("", "      readinessProbe: {exec: {command: [curl, 'localhost:9000/health']}}", "", ["probe-port"]),
        ("", "      ports: $PORTS\n      readinessProbe: {tcpSocket: {port: http}}", "", []),
        (
            "  initContainers: [{name: proxy, image: envoy, restartPolicy: Always}]",
            "      readinessProbe: {tcpSocket: {port: 9000}}",
            "",
            [],
        ),
        ("", "      livenessProbe: {tcpSocket: {port: 8000}, failureThreshold: 1}", "", ["probe-too-short"]),
        ("", "      livenessProbe: {tcpSocket: {port: 8000}, initialDelaySeconds: 600}", "", []),
        ("", "      livenessProbe: {tcpSocket: {port: 8000}, periodSeconds: $EVERY}", "", []),
        (
            "",
            "      livenessProbe: {tcpSocket: {port: 8000}, failureThreshold: 4}",
            ", --load-format=dummy, --enforce-eager",
            [],
        ),
    ],
)
def test_the_keys_of_a_pod(pod: str, container: str, arguments: str, rules: list[str]) -> None:
    """Shared memory and probes."""
    assert found("pod.yaml", POD.format(pod=pod, container=container, arguments=arguments)) == rules


@pytest.mark.parametrize(
    ("spec", "target", "container", "rules"),
    [
        ("", "80", "", ["service-port"]),
        ("", "8000", "", []),
        ("", "http", "", ["service-port"]),
        ("", "http", "      ports: [{name: http, containerPort: 8000}]", []),
        ("", "http", "      ports: [{name: http, containerPort: 8080}]", ["service-port"]),
        ("", "'{{ .Values.port }}'", "", []),
        ("  clusterIP: None", "80", "", []),
        ("", "80", "    - {name: proxy, image: envoy}", []),
    ],
)
def test_the_port_of_a_service(spec: str, target: str, container: str, rules: list[str]) -> None:
    """A number, or the name of a container's port."""
    text = POD.format(pod="", container=container, arguments="") + FORWARDING.format(spec=spec, target=target)
    assert found("chat.yaml", text) == rules


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        ("--load-format safetensor", ["wrong-choice"]),
        ("--tokenizer-mode mistrall", ["wrong-choice"]),
        ("--tokenizer-mode house", []),
        ("--distributed-executor-backend rya", ["wrong-choice"]),
        ("--distributed-executor-backend house.Executor", []),
        ("--quantization pf8", ["wrong-choice"]),
        ("--quantization house", ["wrong-choice"]),
        ("--quantization ascend", []),
        ("--quantization gguf", []),
        ('--kv-transfer-config \'{"kv_connector": "NixlConnectorV2", "kv_role": "kv_both"}\'', []),
        (
            (
                '--kv-transfer-config \'{"kv_connector": "MultiConnector", "kv_role": "kv_both",'
                ' "kv_connector_extra_config": {"connectors": [{"kv_connector": "NixlConector"}]}}\''
            ),
            ["wrong-choice"],
        ),
        ('--speculative-config \'{"method": "mtp", "num_speculative_tokens": 1}\'', []),
        ('--speculative-config \'{"method": "<method>", "num_speculative_tokens": 1}\'', []),
        ('--speculative-config \'{"method": "ngram", "num_speculative_tokens": 0}\'', ["wrong-key-type"]),
        ('--speculative-config \'{"method": "ngram"}\'', ["conflict"]),
        ('--speculative-config \'{"model": "draft", "num_speculative_token": 1}\'', ["unknown-key"]),
        (
            '--speculative-config \'{"method": "ngramm", "num_speculative_token": 1, "prompt_lookup": 1}\'',
            ["unknown-key", "unknown-key", "wrong-choice"],
        ),
        ('--compilation-config \'{"levell": 3, "cudagraph_mod": "FULL"}\'', ["unknown-key", "unknown-key"]),
        ("--load-format Safetensors", []),
        ("--mm-encoder-attn-backend flash_atn", ["wrong-choice"]),
        ("--mamba-backend tritn", ["wrong-choice"]),
        ('--compilation-config \'{"backend": "inducter"}\'', ["wrong-choice"]),
        ('--compilation-config \'{"backend": "house.compile"}\'', []),
        ('--kv-transfer-config \'{"kv_connector": "PyNcclConnector", "kv_role": "kv_both"}\'', ["wrong-choice"]),
        (
            (
                '--kv-transfer-config \'{"kv_connector": "OffloadingConnector", "kv_role": "kv_both",'
                ' "kv_connector_extra_config": {"spec_name": "TieringOfloadingSpec"}}\''
            ),
            ["wrong-choice"],
        ),
        ('--structured-outputs-config \'{"reasoning_parser": "deepsek_r1"}\'', ["wrong-choice"]),
        (
            (
                '--speculative-config \'{"method": "eagle3", "model": "d", "num_speculative_tokens": 2,'
                ' "rejection_sample_method": "fly"}\''
            ),
            ["wrong-choice"],
        ),
        ("--spec-method eagle3 --spec-model draft --spec-tokens 2", []),
        ("--spec-method ngram", ["conflict"]),
    ],
)
def test_names_that_the_engine_looks_up(options: str, rules: list[str]) -> None:
    """An unknown name is reported if it is close to a known one, or if the list is closed."""
    assert found("run.sh", f"vllm serve Qwen/Qwen3-8B --host 127.0.0.1 {options}\n", "option.") == rules


def test_a_name_of_other_releases_is_reported_if_the_release_is_known() -> None:
    """The message names the releases; an image without one, or one between two of the catalog, may have the name."""
    text = "docker run --device /dev/x --ipc=host {} Qwen/Qwen3-8B --host 127.0.0.1 --load-format instanttensor\n"

    def messages(image: str, vllm: str | None = None) -> list[str]:
        issues = checking.lint_text(text.format(image), name="run.sh", vllm=vllm).issues
        return [issue.message for issue in issues if issue.rule == "option.wrong-choice"]

    (message,) = messages("vllm/vllm-openai:v0.17.1")

    assert "vLLM 0.18.1 to 0.33.0 accepts it." in message
    assert messages("vllm/vllm-openai:v0.24.0") == messages("vllm/vllm-openai@sha256:" + "0" * 64) == []
    assert messages("house/vllm-openai:v0.17.1") == messages("vllm/vllm-openai:v0.17.0") == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('"method": "eagel3", "model": "d"', "does not accept eagel3 in vLLM 0.24.0. Did you mean eagle3?"),
        ('"metod": "ngram"', "has no key metod in vLLM 0.24.0. Did you mean method?"),
    ],
)
def test_a_typing_error_in_speculative_decoding(config: str, message: str) -> None:
    """The message has the intended name instead of all names."""
    text = f"vllm serve m --host ::1 --speculative-config '{{{config}, \"num_speculative_tokens\": 2}}'\n"
    (issue,) = checking.lint_text(text, name="run.sh", vllm="0.24.0").issues
    assert message in issue.message


def test_an_image_of_another_vendor_has_its_own_methods() -> None:
    """Its names are not reported unless they are typing errors."""
    text = "docker run --device /dev/x --ipc=host house/vllm:1 vllm serve m --host 127.0.0.1 --quantization {}\n"
    assert found("run.sh", text.format("house"), "option.") == []
    assert found("run.sh", text.format("compresed-tensors"), "option.") == ["wrong-choice"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.sh", "docker run --env-file vllm.env vllm/vllm-openai:v0.24.0 --model Qwen/Qwen3-8B\n"),
        ("compose.yaml", SERVICE.format(arguments="", keys="    env_file: vllm.env")),
        ("pod.yaml", POD.format(pod="", arguments="", container="      envFrom: [{secretRef: {name: key}}]")),
    ],
)
def test_a_file_of_variables_may_set_the_key(name: str, text: str) -> None:
    """A port is not reported as open to everyone then."""
    assert "open-port" in found(name, text.replace("env", "x-env"), "safety.")
    assert "open-port" not in found(name, text, "safety.")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.sh", ("podman run --device nvidia.com/gpu=0 --device nvidia.com/gpu=1 "
                  "vllm/vllm-openai:v0.24.0 --model m -tp {}")),
        ("a.container", ("[Container]\nImage=vllm/vllm-openai:v0.24.0\nAddDevice=nvidia.com/gpu=0\n"
         "AddDevice=nvidia.com/gpu=1\nExec=--model m -tp {}")),
        ("task.json", ('{{"containerDefinitions": [{{"image": "vllm/vllm-openai:v0.24.0", "command": ["--model", "m", '
         '"-tp", "{}"], "resourceRequirements": [{{"type": "GPU", "value": "2"}}]}}]}}')),
    ],
)  # fmt: skip
def test_each_gpu_of_a_container_counts(name: str, text: str) -> None:
    """Podman and Quadlet name one device each; a task of ECS has a number of them."""
    assert found(name, text.format(2) + "\n", "meaning.more-gpus") == []
    assert found(name, text.format(4) + "\n", "meaning.more-gpus") == ["-than-given"]


@pytest.mark.parametrize(
    ("job", "command", "is_error"),
    [
        ("--gres=gpu:4", "srun vllm serve", True),
        ("--gres=gpu:a100:4", "vllm serve", True),
        ("--gpus-per-node 4", "apptainer exec x.sif vllm serve", True),
        ("--gres=gpu:8", "vllm serve", False),
        ("--gres=gpu:4\n#SBATCH --nodes=2", "srun vllm serve", False),
        ("--gres=gpu:4 --nodes=2", "srun vllm serve", False),
        ("--gres=gpu:4 # --nodes=2", "vllm serve", True),
        ("-N2 --gres=gpu:4", "srun vllm serve", False),
        ("--gres=gpu:4 --ntasks=2 --ntasks-per-node=1", "srun vllm serve", False),
        ("--gres=gpu:4,nvme:8 --ntasks=1", "vllm serve", True),
        ("--gres=gpu:a100:4,gpu:v100:4", "vllm serve", False),
        ("--gres=lscratch:4", "vllm serve", False),
        ("--gres=gpu:4", "srun --gpus 8 vllm serve", False),
        ("--gres=gpu:4", "docker run --gpus all vllm/vllm-openai:v0.24.0 --model", False),
    ],
)
def test_the_gpus_of_a_slurm_job(job: str, command: str, is_error: bool) -> None:  # noqa: FBT001 - a column
    """A launch on one host has the GPUs of its job, and the message names the directive."""
    text = f"#!/bin/bash\n#SBATCH {job}\n{command} Qwen/Qwen3-8B --tensor-parallel-size 8\n"
    issues = checking.lint_text(text, name="job.sh").issues
    messages = [issue.message for issue in issues if issue.rule == "meaning.more-gpus-than-given"]

    assert [job.split(maxsplit=1)[0] in message for message in messages] == [True] * is_error


def test_many_options_of_a_container_are_read_in_linear_time() -> None:
    """Each is looked at once."""
    begin = time.process_time()
    checking.lint_text(f"docker run {'-v /a:/b ' * 2000} vllm/vllm-openai:v0.24.0 m\n", name="run.sh")
    assert time.process_time() - begin < 2


_CPU_POD = 'env: [{name: VLLM_CPU_KVCACHE_SPACE, value: "30"}]'
_LIMITED = "{VLLM_CPU_KVCACHE_SPACE: 30}\n    deploy: {resources: {limits: {memory: 16384m}}}"


@pytest.mark.parametrize(
    ("name", "form", "options", "memory"),
    [
        ("compose.yaml", SERVICE, "environment: [VLLM_CPU_KVCACHE_SPACE=30]\n    mem_limit: 24g", "24.0"),
        ("compose.yaml", SERVICE, f"environment: {_LIMITED}", "16.0"),
        ("pod.yaml", POD.replace("nvidia.com/gpu: 2", "memory: 16G"), f"  {_CPU_POD}", "14.9"),
        ("pod.yaml", POD.replace("nvidia.com/gpu: 2", "memory: 16Gi"), f"  {_CPU_POD}", "16.0"),
        ("pod.yaml", POD.replace("nvidia.com/gpu: 2", "memory: 17179869184000m"), f"  {_CPU_POD}", "16.0"),
        ("run.sh", RUN, "-m 16gb -e VLLM_CPU_KVCACHE_SPACE=30", "16.0"),
        ("run.sh", RUN, "-m 0 -e VLLM_CPU_KVCACHE_SPACE=30", ""),
        ("run.sh", RUN, "-m $LIMIT -e VLLM_CPU_KVCACHE_SPACE=30", ""),
        ("run.sh", RUN, "-m 16gb -e VLLM_CPU_KVCACHE_SPACE=lots", ""),
    ],
)
def test_the_cache_on_a_cpu_is_compared_with_the_limit_of_its_container(
    name: str, form: str, options: str, memory: str
) -> None:
    """Units as Docker and Kubernetes read them; no limit, an unknown one, or an image for GPUs is no error."""
    text = form.format(options=options, keys=f"    {options}", container=f"    {options}", arguments="", pod="")
    on_gpus, on_cpu = (
        [
            issue.message
            for issue in checking.lint_text(script, name=name, vllm="0.24.0").issues
            if issue.rule == "environment.cpu-cache-too-large"
        ]
        for script in (text, text.replace("vllm-openai", "vllm-openai-cpu"))
    )
    assert on_gpus == []
    assert [f"has {memory} GiB" in message for message in on_cpu] == ([True] if memory else [])


@pytest.mark.parametrize(
    ("gpus", "space", "is_wrong"),
    [("cpu", 1_000_000, True), ("cpu-24GB", 4000, True), ("CPU 64 GiB", 40, False), ("RTX3090", 4000, False)],
)
def test_the_cache_on_a_cpu_is_compared_with_the_memory_of_its_host(gpus: str, space: int, *, is_wrong: bool) -> None:
    """Of this host, or of the given size."""
    text = f"VLLM_CPU_KVCACHE_SPACE={space} vllm serve Qwen/Qwen3-8B --host 127.0.0.1\n"
    rules = [issue.rule for issue in checking.lint_text(text, vllm="0.24.0", gpus=gpus).issues]
    assert ("environment.cpu-cache-too-large" in rules) is is_wrong


@pytest.mark.parametrize("gpus", ["cpu8", "cpu-2TB", "cpu@node1", "cpu-0GB"])
def test_another_form_of_a_cpu_is_rejected_with_the_right_one(gpus: str) -> None:
    """Its memory would be unknown."""
    with pytest.raises(InputError, match="use cpu, or cpu-64GB"):
        checking.lint_text("vllm serve Qwen/Qwen3-8B\n", gpus=gpus)
