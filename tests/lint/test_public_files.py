"""Files as they are in public repositories: what is not vLLM's, or is filled in later, is not checked."""

from __future__ import annotations

import textwrap

import pytest

from vllm_runbooks.lint import checking
from vllm_runbooks.lint.records import Issue


def issues(name: str, text: str) -> list[Issue]:
    """The issues of an indented text but for open ports and missing GPUs, which any server here would have."""
    linted = checking.lint_text(textwrap.dedent(text).lstrip("\n"), name=name)
    return [issue for issue in linted.issues if issue.rule not in {"safety.open-port", "container.no-gpus"}]


def found(name: str, text: str) -> list[str]:
    return [f"{issue.severity.value} {issue.rule} {issue.text}" for issue in issues(name, text)]


def launches(name: str, text: str) -> int:
    return len(checking.lint_text(textwrap.dedent(text).lstrip("\n"), name=name).deployments)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "vllm.service",
            r"""
            [Service]
            ExecStart=/usr/bin/docker run --rm --cidfile=%t/vllm-chat.cid --name vllm-chat \
              --gpus all --ipc host -p 10.0.0.2:18000:8000 -v %h/models:/models \
              -e HF_HUB_OFFLINE=1 -e MAX_JOBS=1 --memory-swappiness 0 \
              --entrypoint vllm vllm/vllm-openai:v0.11.0 \
              serve /models/chat --port 8000 --turbo 3
            """,
        ),
        (
            "vllm@.service",
            r"""
            [Service]
            ExecStart=podman run --name=%N --cgroups=no-conmon --replace $PODMAN_ARGS \
              --device nvidia.com/gpu=all -p${PORT}:8000 \
              docker.io/vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B --turbo 3
            """,
        ),
        (
            "run.sh",
            """
            docker run $EXTRA --name="$NAME" -v$HOME/.cache:/root "${MORE[@]}" -p${PORT}:8000 \\
              vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B --turbo 3
            """,
        ),
        ("run.sh", 'nerdctl run ${GPUS} --label="a=$B" "$IMAGE" vllm serve Qwen/Qwen3-8B --turbo 3'),
        ("run.sh", "docker compose -f a.yaml run --rm -e A=b --service-ports llm vllm serve Qwen/Qwen3-8B --turbo 3"),
        ("run.sh", 'docker-compose run --name vllm --entrypoint bash vllm -c "vllm serve Qwen/Qwen3-8B --turbo 3"'),
        ("run.sh", "docker service create --name vllm vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B --turbo 3"),
    ],
)
def test_options_of_a_container_command_are_not_checked(name: str, text: str) -> None:
    """Only the words after the image, or the service, are vLLM's; `--turbo 3` is one problem."""
    assert found(name, text) == ["error option.unknown --turbo"]


def test_other_programs_may_run_in_the_background() -> None:
    """Only a server of vLLM that nobody waits for is reported."""
    assert found("run.sh", "redis-server &\nvllm serve Qwen/Qwen3-8B\n") == []
    assert found("run.sh", "sleep 1 | cat &\nvllm serve Qwen/Qwen3-8B &\necho done\n") == [
        "warning shell.background-unwatched vllm serve Qwen/Qwen3-8B"
    ]


def test_compose_up_launches_what_its_file_says() -> None:
    """The names of services after `up` are no command."""
    assert launches("run.sh", "docker compose --profile gpu up -d --build vllm serve") == 0


_POD = """
    apiVersion: v1
    kind: Pod
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.11.0
          env:
            - name: VLLM_LOGGING_LEVEL
              value: "{0}"
          args: ["--model", "{0}", "--port={0}", "--max-model-len", "{0}", "--enforce-eager={0}", "--dtype={0}"]
"""


@pytest.mark.parametrize(
    "placeholder",
    ["<port>", "$(PORT)", "${PORT}", "${PORT:-8000}", "${vLLM.port}", "$PORT", "{{ .Values.port }}", "{{ port }}",
     "__PORT__", "@PORT@", "%PORT%", "REPLACE_ME", "YOUR-VALUE", "<%= @port %>", "${{ inputs.port }}"],
)  # fmt: skip
def test_a_placeholder_is_an_unknown_value(placeholder: str) -> None:
    """Whatever fills it in later: Kubernetes, Kustomize, envsubst, Helm, Jinja, ERB, a workflow, a person."""
    text = _POD.replace("{0}", placeholder)
    assert found("pod.yaml", text) == []
    assert launches("pod.yaml", text) == 1
    assert found("pod.yaml", text.replace("--max-model-len", "--max-modle-len"))[0].endswith('"--max-modle-len"')
    assert "--dtyp=" in found("pod.yaml", text.replace("--dtype=", "--dtyp="))[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "vllm.service.j2",
            r"""
            # {{ ansible_managed }}
            [Service]
            Environment="VLLM_LOGGING_LEVEL={{ vllm_level | default('INFO') }}"
            {% for item in vllm_environment %}
            Environment={{ item }}
            {% endfor %}
            ExecStart={{ vllm_home }}/bin/vllm serve {{ vllm_model }} --port {{ vllm_port }} \
              {% if vllm_key %}
              --api-key {{ vllm_key }} \
              {% endif %}
              --attention-backend {{ backend }}{% if lora %} --enable-lora{% endif %} --turbo 3
            """,
        ),
        (
            "start.sh.tpl",
            r"""
            #!/bin/bash
            {{- if .gpu }}
            vllm serve {{ .model }} --port {{ .port }} \
              {{- if .quantization }}
              --quantization {{ .quantization }} \
              {{- else }}
              --quantization none-at-all \
              {{- end }}
              --turbo 3
            {{- end }}
            """,
        ),
        (
            "start.sh.erb",
            r"""
            <% if @quiet %>
            export VLLM_LOGGING_LEVEL=<%= @level %>
            <% end %>
            vllm serve <%= @model %> --port <%= @port %> --turbo 3
            """,
        ),
        (
            "user_data.sh.tftpl",
            r"""
            %{ if gpu ~}
            vllm serve ${model} --port ${port} --turbo 3
            %{ else ~}
            echo "no GPU"
            %{ endif ~}
            """,
        ),
        (
            "templates/deployment.yaml",
            r"""
            apiVersion: apps/v1
            kind: Deployment
            spec:
              template:
                spec:
                  containers:
                    - name: vllm
                      {{- if .Values.digest }}
                      image: "{{ .Values.image }}@{{ .Values.digest }}"
                      {{- else }}
                      image: "{{ .Values.image }}:{{ .Values.tag }}"
                      {{- end }}
                      command: ["vllm", "serve", "{{ .Values.model }}"]
                      {{- if .Values.tp }}
                      args: ["--tensor-parallel-size={{ .Values.tp }}", "--turbo", "3"]
                      {{- else }}
                      args: ["--turbo", "3"]
                      {{- end }}
                      {{- with .Values.resources }}
                      resources:
                        {{- toYaml . | nindent 12 }}
                      {{- end }}
            """,
        ),
    ],
)
def test_a_template_is_checked_without_its_statements(name: str, text: str) -> None:
    """Its values are unknown, a key in two branches is no duplicate, and `--turbo` is found."""
    assert [line.split()[1] for line in found(name, text)] == ["option.unknown"]


def test_both_branches_of_a_template_are_searched_for_launches() -> None:
    """A launch in the branch that is not taken is checked too."""
    text = """
        [Service]
        {% if container %}
        ExecStart=docker run vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B
        {% else %}
        ExecStart=/opt/vllm/bin/vllm serve Qwen/Qwen3-8B
        {% endif %}
    """
    assert launches("vllm.service.j2", text) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("template: |\n    {%- if x %}\n   {{ y }}\n    {%- endif %}\nimage: vllm/vllm-openai\n", []),
        ("{{- if .Values.on }}\nargs:\n{{ toYaml .Values.vllm | indent 2 }}\n - --port\n{{- end }}\n", []),
        ("on: ${{ github.ref }}\nrun: vllm\n bad: [\n", ["error file.not-yaml "]),
    ],
)
def test_yaml_is_rejected_only_if_it_is_no_template(text: str, expected: list[str]) -> None:
    """A chart is YAML after it is rendered; a chat template in YAML is a text."""
    assert found("values.yaml", text) == expected


_GONE = "option.removed --swap-space"


@pytest.mark.parametrize(
    ("image", "expected", "source"),
    [
        ("vllm/vllm-openai:v0.11.0", ["error option.unknown --turbo"], "image"),
        ("registry.corp:5000/hub/vllm/vllm-openai:v0.11.0-cu130", ["error option.unknown --turbo"], "image"),
        ("vllm/vllm-openai", [f"error {_GONE}", "error option.unknown --turbo"], "newest"),
        ("vllm/vllm-openai:nightly-aarch64", [f"error {_GONE}", "error option.unknown --turbo"], "newest"),
        ("lmcache/vllm-openai:latest", [f"error {_GONE}", "info option.unknown --turbo"], "newest"),
        ("someone/vllm-openai:v0.11.0-fast", ["info option.unknown --turbo"], "image"),
        ("vllm/vllm-openai:qwen-preview", [f"info {_GONE}", "error option.unknown --turbo"], "unknown"),
        ("vllm/vllm-openai@sha256:1aa47363", [f"info {_GONE}", "error option.unknown --turbo"], "unknown"),
        *(
            (image, [f"info {_GONE}", "info option.unknown --turbo"], "unknown")
            for image in (
                "vllm/vllm-tpu:nightly",
                "lmcache/vllm-openai:2025-05-27-v1", "rocm/vllm-dev:open-mi300-08052025", "my-vllm:local",
            )
        ),
    ],
)  # fmt: skip
def test_the_image_tells_the_release(image: str, expected: list[str], source: str) -> None:
    """A build of somebody else may have its own options, and one of an unknown date those of any release."""
    text = f"docker run --entrypoint vllm {image} serve Qwen/Qwen3-8B --swap-space 4 --turbo 3\n"
    linted = checking.lint_text(text, name="run.sh", fix=True)

    assert [line for line in found("run.sh", text) if "without-effect" not in line] == expected
    assert linted.vllm.source == source
    assert source != "unknown" or linted.fixed == text


@pytest.mark.parametrize(
    ("name", "text", "release"),
    [
        ("a.sh", "pip install vllm==0.8.5\nvllm serve Qwen/Qwen3-8B\n", "0.8.5"),
        ("a.sh", "uv pip install 'vllm[audio]==0.8.5.post1'\nvllm serve Qwen/Qwen3-8B\n", "0.8.5.post1"),
        ("a.sh", "VLLM_VERSION=0.8.5\npip install vllm==${VLLM_VERSION}\nvllm serve Qwen/Qwen3-8B\n", "0.8.5"),
        ("a.sh", "docker run python:3.12 sh -c 'pip install vllm==0.8.5; vllm serve Qwen/Qwen3-8B'\n", "0.8.5"),
        ("Dockerfile", "FROM nvidia/cuda:12.8\nRUN pip install vllm==0.8.5\nCMD vllm serve Qwen/Qwen3-8B\n", "0.8.5"),
        ("a.py", "image = base.pip_install('vllm==0.8.5')\ncmd = ['vllm', 'serve', 'Qwen/Qwen3-8B']\n", "0.8.5"),
        ("a.sh", "# pip install vllm==0.8.5\nvllm serve Qwen/Qwen3-8B  # vllm==0.8.5\n", None),
        ("a.sh", "pip install vllm==0.8.5 || pip install vllm==0.9.1\nvllm serve Qwen/Qwen3-8B\n", None),
        ("a.sh", "pip install 'vllm>=0.8.5' vllm-flash-attn==2.6.1\nvllm serve Qwen/Qwen3-8B\n", None),
        ("a.sh", "pip install vllm==0.8.5\ndocker run vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B\n", "0.11.0"),
        ("a.md", "vllm==0.8.5 was slower.\n\n```bash\nvllm serve Qwen/Qwen3-8B\n```\n", None),
    ],
)  # fmt: skip
def test_a_pip_pin_tells_the_release(name: str, text: str, release: str | None) -> None:
    """Only what is installed counts: no comment, no prose, and not one of several."""
    vllm = checking.lint_text(text, name=name).vllm

    assert (vllm.version if vllm.source != "newest" else None) == release


def test_a_migration_changes_the_pin_and_no_prose() -> None:
    """A sentence about a release stays."""
    text = "Since vllm==0.6.0 this works.\n\n```bash\npip install vllm==0.8.5\nvllm serve Qwen/Qwen3-8B\n```\n"
    migrated = checking.migrate_text(text, from_="0.8.5", to="0.33.0", name="a.md")[1]

    assert (
        migrated.split("\n")[0], migrated.split("\n")[3],
    ) == ("Since vllm==0.6.0 this works.", "pip install vllm==0.33.0")  # fmt: skip


_LEADER = """
    apiVersion: leaderworkerset.x-k8s.io/v1
    kind: LeaderWorkerSet
    spec:
      leaderWorkerTemplate:
        size: 2
        leaderTemplate:
          spec:
            containers:
              - name: leader
                image: vllm/vllm-openai:v0.11.0
                command: ["sh", "-c", "{command}"]
                resources: {{limits: {{nvidia.com/gpu: 8}}}}
        workerTemplate:
          spec:
            containers:
              - name: worker
                image: vllm/vllm-openai:v0.11.0
                resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""
_RAY = """
    apiVersion: ray.io/v1
    kind: RayCluster
    spec:
      headGroupSpec:
        template:
          spec:
            containers:
              - name: head
                image: vllm/vllm-openai:v0.11.0
                args: ["{command}"]
                command: ["sh", "-c"]
                resources: {{limits: {{nvidia.com/gpu: 4}}}}
      workerGroupSpecs:
        - replicas: {replicas}
          template:
            spec:
              containers:
                - name: worker
                  resources: {{limits: {{nvidia.com/gpu: 4}}}}
"""
_TP = "vllm serve Qwen/Qwen3-32B --tensor-parallel-size"


@pytest.mark.parametrize(
    ("text", "is_error"),
    [
        (_LEADER.format(command=f"multi-node-serving.sh leader; {_TP} 8 --pipeline-parallel-size 2"), False),
        (_LEADER.format(command=f"{_TP} 8 --pipeline-parallel-size 2 --nnodes 2 --node-rank 0"), False),
        (_LEADER.format(command=f"multi-node-serving.sh leader; {_TP} 32"), True),
        (_RAY.format(command=f"{_TP} 16 --distributed-executor-backend ray", replicas=3), False),
        (_RAY.format(command=f"{_TP} 16 --distributed-executor-backend ray", replicas=2), True),
        (_RAY.format(command=f"{_TP} 16", replicas="${WORKERS}"), False),
        (
            f"""
            services:
              head:
                image: vllm/vllm-openai:v0.11.0
                entrypoint: ["bash", "-c", "ray start --head; {_TP} 8"]
                deploy: {{resources: {{reservations: {{devices: [{{count: 4, capabilities: [gpu]}}]}}}}}}
            """,
            False,
        ),
    ],
)
def test_the_gpus_of_all_pods_of_a_group_count(text: str, is_error: bool) -> None:  # noqa: FBT001
    """LeaderWorkerSet and KubeRay have the GPUs of a leader and its workers; a joined host's are unknown."""
    rules = [line.split()[:2] for line in found("a.yaml", text)]

    assert (["error", "meaning.more-gpus-than-given"] in rules) == is_error
    assert ["warning", "meaning.gpus-unused"] not in rules


@pytest.mark.parametrize(("inside", "is_error"), [("", True), ("ray start --head\n", False)])
def test_a_sentence_about_several_hosts_joins_none(inside: str, is_error: bool) -> None:  # noqa: FBT001
    """In a page, the code block of the launch counts."""
    run = "docker run --rm --gpus 2 vllm/vllm-openai:v0.24.0 --model Qwen/Qwen3-32B -tp 4\n"
    rules = [line.split()[1] for line in found("a.md", f"Use --nnodes for more hosts.\n\n```bash\n{inside}{run}```\n")]

    assert ("meaning.more-gpus-than-given" in rules) == is_error


def test_a_wrapper_of_vllm_passes_its_arguments_on() -> None:
    """A script that is named after vLLM and serves with its options; other programs have options of their own."""
    command = "python3 /opt/my_vllm_wrapper.py serve Qwen/Qwen3-8B --served-model-name a --turbo 3"

    assert launches("a.sh", command) == 1
    assert launches("a.sh", command.replace("wrapper.py", "with_cache.sh")) == 1
    assert launches("a.sh", command.replace("my_vllm_wrapper.py", "other.py")) == 0
    assert launches("a.sh", command.replace("my_vllm_wrapper.py", "vllm-router")) == 0
    assert launches("a.sh", "vllm-bench serve Qwen/Qwen3-8B --served-model-name a") == 0


_LAUNCH = "vllm serve Qwen/Qwen3-8B --host 127.0.0.1\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.sh", f"# docker compose --profile pd up; pytest --full --all\n{_LAUNCH}"),
        ("compose.yaml", "# docker compose --profile pd\nservices: {a: {image: vllm/vllm-openai, command: m}}\n"),
        ("a.md", "```text\n--dry-run    print only\n--resume     go on\n--run-name N name\n--seed N     a seed\n```\n"),
        ("a.md", "```text\nserve model\n--served-model-name\n--port\nbench --host\n--model\n```\n"),
        ("a.md", "| Flag | |\n|---|---|\n| `--gpu` | type |\n| `--scaling-policy` | file |\n| `--all` | `--model` |\n"),
        ("a.sh", 'python bench.py --num-gpus 8 --engine-args 3 --serve-cmd "vllm-bench serve"\n'),
        ("a.sh", 'python bench.py --serve-cmd "vllm serve org/m --bogus"\n'),
        ("a.sh", 'python bench.py --serve-cmd="vllm serve org/m --bogus"\n'),
    ],
)  # fmt: skip
def test_options_of_other_programs_are_not_checked(name: str, text: str) -> None:
    """Comments, lists and tables name options of any program."""
    linted = checking.lint_text(text, name=name, fix=True)

    assert found(name, text) == []
    assert linted.fixed == text


def test_the_server_of_vllms_own_benchmark_is_checked() -> None:
    """`vllm bench sweep serve` launches it."""
    text = 'vllm bench sweep serve --serve-cmd "vllm serve org/m --bogus" --bench-cmd "vllm bench serve"\n'

    assert found("a.sh", text) == ["error option.unknown --bogus"]


@pytest.mark.parametrize(
    "text", [f"# was --swap-space 4 --dtype int3\n{_LAUNCH}", f"{_LAUNCH}# then --max-modle-len 4\n"]
)
def test_a_comment_is_never_changed(text: str) -> None:
    """What it says about vLLM's options is information."""
    linted = checking.lint_text(text, name="a.sh", fix=True)

    comment = next(line for line in text.splitlines() if line.startswith("#"))
    assert {line.split()[0] for line in found("a.sh", text) if " option." in line} <= {"info"}
    assert linted.fixed == text
    assert comment in checking.migrate_text(text, from_="0.8.5", to="0.33.0", name="a.sh")[1].splitlines()


@pytest.mark.parametrize(
    ("name", "text", "severity"),
    [
        ("a.sh", "vllm serve Qwen/Qwen3-8B\n", "warning"),
        ("a.sh", "docker run -p 8000:8000 vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B\n", "warning"),
        ("compose.yaml", "services: {a: {image: vllm/vllm-openai:v0.11.0, command: --model m}}\n", "info"),
        (
            "compose.yaml",
            "services: {a: {network_mode: host, image: vllm/vllm-openai:v0.11.0, command: --model m}}\n",
            "warning",
        ),
        (
            "compose.yaml",
            "services: {a: {image: vllm/vllm-openai:v0.11.0, command: --model m}, b: {network_mode: host, image: c}}\n",
            "info",
        ),
        ("pod.yaml", _POD, "info"),
        ("pod.yaml", _POD.replace("spec:", "spec:\n      hostNetwork: true"), "warning"),
        ("Dockerfile", 'FROM vllm/vllm-openai:v0.11.0\nCMD ["--model", "m"]\n', "info"),
        (".dstack.yml", "image: vllm/vllm-openai:v0.11.0\ncommands: [vllm serve m]\n", "info"),
        ("a.hcl", 'config {\n  image = "vllm/vllm-openai:v0.11.0"\n  args = ["--model", "m"]\n}\n', "info"),
    ],
)
def test_an_open_port_in_a_private_network_is_information(name: str, text: str, severity: str) -> None:
    """Pods and services of a compose file are reached as their network allows; the host's network is open."""
    linted = checking.lint_text(textwrap.dedent(text), name=name)

    assert [issue.severity.value for issue in linted.issues if issue.rule == "safety.open-port"] == [severity]


@pytest.mark.parametrize(
    ("image", "moved"),
    [
        ("vllm/vllm-openai:v0.8.5", "vllm/vllm-openai:v0.33.0"),
        ("${IMAGE:-vllm/vllm-openai:v0.8.5}", "${IMAGE:-vllm/vllm-openai:v0.33.0}"),
        ("vllm/vllm-openai:latest", "vllm/vllm-openai:latest"),
        ("vllm/vllm-openai:v0.8.5@sha256:1aa47363", None),
        ("someone/vllm-openai:v0.8.5", None),
        ("rocm/vllm:rocm6.4_vllm_0.8.5", None),
    ],
)
def test_options_are_migrated_only_with_their_image(image: str, moved: str | None) -> None:
    """An image that stays keeps its options; a default stays a default, and a second run changes nothing."""
    text = f"""
        services:
          chat:
            # with --swap-space 4
            image: {image}
            command: --model Qwen/Qwen3-8B --swap-space 4 --port ${{PORT:-8000}}
    """
    text = textwrap.dedent(text).lstrip()
    _, migrated = checking.migrate_text(text, from_="0.8.5", to="0.33.0", name="compose.yaml")

    assert (migrated == text) == (moved is None)
    if moved is not None:
        assert f"image: {moved}\n" in migrated
        assert "# with --swap-space 4" in migrated
        assert "Qwen3-8B --swap-space" not in migrated
        assert "${PORT:-8000}" in migrated
        assert checking.migrate_text(migrated, from_="0.8.5", to="0.33.0", name="compose.yaml")[1] == migrated


def test_a_pin_is_migrated_with_its_options() -> None:
    """What a script installs, and how it launches it, stay together."""
    text = "pip install vllm==0.8.5  # not vllm==0.8.4\nvllm serve Qwen/Qwen3-8B --swap-space 4\n"
    _, migrated = checking.migrate_text(text, from_="0.8.5", to="0.33.0", name="a.sh")

    assert migrated.startswith("pip install vllm==0.33.0  # not vllm==0.8.4\n")
    assert "--swap-space" not in migrated


@pytest.mark.parametrize(
    "line",
    [
        "ExecStart=/opt/vllm serve {{ model }} {% for one in more %}{{ one }} {% endfor %}",
        "ExecStart=/opt/vllm serve {{ model }} {% if key %}--api-key {{ key }}{% endif %}",
    ],
)
def test_nothing_is_added_between_the_statements_of_a_template(line: str) -> None:
    """An option there would be repeated, or depend on a condition."""
    text = f"[Service]\n{line}\n"

    assert checking.migrate_text(text, from_="0.8.5", to="0.33.0", name="vllm.service.j2")[1] == text


@pytest.mark.parametrize(
    "text",
    [
        "type: service\nimage: rocm/vllm-dev:open-0805\ncommands:\n  - vllm serve Qwen/Qwen3-8B --swap-space 4\n",
        "resources:\n  image_id: docker:rocm/vllm-dev:open-0805\nrun: |\n  vllm serve Qwen/Qwen3-8B --swap-space 4\n",
        "jobs:\n a:\n  container: {image: rocm/vllm-dev:open-0805}\n  run: vllm serve Qwen/Qwen3-8B --swap-space 4\n",
    ],
)
def test_a_script_of_a_task_runs_in_its_image(text: str) -> None:
    """dstack, SkyPilot and workflows name the image next to the script, whose release is that of the image."""
    assert found("task.yaml", text) == ["info option.removed --swap-space"]


@pytest.mark.parametrize(
    "text",
    [
        "env:\n  VLLM_LOGGING_LEVL: DEBUG\njobs:\n  a:\n    steps:\n      - run: |\n          {launch}\n",
        "jobs:\n  a:\n    env: {{VLLM_LOGGING_LEVL: DEBUG}}\n    steps:\n      - run: |\n          {launch}\n",
        "a:\n  variables:\n    VLLM_LOGGING_LEVL: DEBUG\n  script:\n    - {launch}\n",
    ],
    ids=["workflow", "job", "GitLab"],
)
def test_variables_of_a_workflow_are_those_of_its_scripts(text: str) -> None:
    """Of the whole file and of the job."""
    launch = "vllm serve Qwen/Qwen3-8B --host 127.0.0.1"

    assert found("ci.yaml", text.format(launch=launch)) == ["warning environment.unknown VLLM_LOGGING_LEVL"]


@pytest.mark.parametrize(("value", "is_moved"), [("${BACKEND:-FLASH_ATTN}", False), ("FLASH_ATTN", True)])
def test_a_value_that_can_be_overridden_stays(value: str, is_moved: bool) -> None:  # noqa: FBT001
    """A variable that the environment sets is not replaced by an option with its default."""
    text = (
        "services:\n  chat:\n    image: vllm/vllm-openai:v0.8.5\n"
        f"    environment:\n      VLLM_ATTENTION_BACKEND: {value}\n      A: b\n    command: --model Qwen/Qwen3-8B\n"
    )
    _, migrated = checking.migrate_text(text, from_="0.8.5", to="0.33.0", name="compose.yaml")

    assert (value not in migrated or "--attention-backend" in migrated) == is_moved


@pytest.mark.parametrize(("tag", "severity"), [("2025-03-10", "info"), ("latest", "error")])
def test_arguments_of_a_chart_are_for_its_image(tag: str, severity: str) -> None:
    """The values of a chart name the image next to the arguments that it appends."""
    text = (
        f"modelSpec:\n  - repository: lmcache/vllm-openai\n    tag: '{tag}'\n"
        "    vllmConfig:\n      extraArgs: ['--max-model-len', '4096', '--swap-space', '4']\n"
    )

    assert found("values.yaml", text) == [f"{severity} option.removed '--swap-space'"]


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        (
            "Dockerfile",
            """
            FROM vllm/vllm-openai:v0.11.0
            ENTRYPOINT python3 -m vllm.entrypoints.openai.api_server \\
                --model ${MODEL:-Qwen/Qwen3-8B} \\

            """,
            1,
        ),
        (
            "vllm.nix",
            """
            let cfg = { model = "Qwen/Qwen3-8B"; image = "vllm/vllm-openai:v0.11.0"; };
            in {
              virtualisation.oci-containers.containers.vllm = {
                extraOptions = [ "--ipc=host" "--device=nvidia.com/gpu=all" ];
                cmd = [ "--model" cfg.model "--max-model-len" "8192" ];
                image = cfg.image;
              };
            }
            """,
            1,
        ),
        (
            "main.tf",
            """
            resource "helm_release" "chat" {
              values = [
                <<-EOT
                owner: "devops"
                command: "vllm serve ${var.model} --max-model-len 8192"
                EOT
              ]
            }
            """,
            1,
        ),
        (
            "values.yaml",
            """
            models:
              chat:
                image: {repository: vllm/vllm-openai, tag: v0.11.0}
                command: ["--model", "Qwen/Qwen3-8B", "--dtype", "bfloat16"]
                args: []
            """,
            1,
        ),
        (
            "values.yaml",
            """
            image: {repository: vllm/vllm-openai, tag: v0.11.0}
            command: "vllm serve Qwen/Qwen3-8B --dtype bfloat16"
            """,
            1,
        ),
        (
            "compose.yaml",
            """
            services:
              vllm:
                image: ${IMAGE:?name the image}
                entrypoint: [/opt/vllm_entrypoint.sh]
                command: [--model, "${MODEL}", --tensor-parallel-size, "${TP}", --max-model-len, "8192"]
            """,
            1,
        ),
        (
            "compose.yaml",
            """
            services:
              bench:
                image: ${IMAGE:?name the image}
                entrypoint: [python3, bench_vllm.py]
                command: [--model, "${MODEL}", --tensor-parallel-size, "${TP}", --max-model-len, "8192"]
            """,
            0,
        ),
        (
            "compose.yaml",
            """
            services:
              vllm:
                image: ${IMAGE}
                entrypoint: []
                command:
                  - bash
                  - -c
                  - >
                    NAME=$$(printf '%s' "$${MODEL:-Qwen/Qwen3-8B}");
                    exec vllm serve Qwen/Qwen3-8B --host ${HOST} --dtype bfloat16
            """,
            1,
        ),
        (
            "manifest.yaml",
            """
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: serve}
            data:
              serve.py: |
                from vllm.engine.arg_utils import AsyncEngineArgs
                args = AsyncEngineArgs(model="Qwen/Qwen3-8B", device="cuda")
            """,
            1,
        ),
        (
            "recipe.yaml",
            """
            model: {model_id: Qwen/Qwen3-8B}
            guide: |
              ## Overview
              Install vLLM first.

              ```bash
              vllm serve Qwen/Qwen3-8B --dtype bfloat16
              ```
            """,
            1,
        ),
        (
            "recipe.yaml",
            """
            guide: |
              Requests to vLLM:

              ```bash
              curl localhost:8000/v1/models
              ```
            """,
            0,
        ),
        (
            "config.yaml",
            """
            base_image: {image: "vllm/vllm-openai:v0.7.3"}
            docker_server:
              start_command: sh -c "vllm serve Qwen/Qwen2-VL-7B-Instruct --limit-mm-per-prompt image=4"
            """,
            1,
        ),
        ("package.json", '{"scripts": {"llm": "vllm serve Qwen/Qwen3-8B --dtype bfloat16"}}', 1),
        ("package.json", '{"config": {"llm": "vllm serve Qwen/Qwen3-8B --dtype bfloat16"}}', 0),
        (
            "rules",
            """
            .PHONY: serve
            serve:
            \tvllm serve Qwen/Qwen3-8B \\
            \t\t--dtype bfloat16 \\""",
            1,
        ),
        (
            "rules.mk",
            """
            MODEL ?= "Qwen/Qwen3-8B" # "Qwen/Qwen3-4B"
            serve:
            \tvllm serve $(MODEL) \\
            \t\t--dtype bfloat16
            """,
            1,
        ),
        (
            "main.sh",
            """
            main() {
              case ${1:-help} in
                start) vllm serve Qwen/Qwen3-8B --dtype bfloat16 ;;
                *) echo "usage: $0 start" ;;
              esac
            }
            main "$@"
            """,
            1,
        ),
        (
            "main.sh",
            """
            main() {
              case ${1:-help} in
                start) vllm serve Qwen/Qwen3-8B --dtype bfloat16 ;;
                *) echo "usage: $0 start" ;;
              esac
            }
            main help
            """,
            0,
        ),
        (
            "job.sh",
            """
            apptainer exec --env ROCR_VISIBLE_DEVICES=0,1,2,3,VLLM_CONFIGURE_LOGGING=0 vllm.sif \\
              bash -c 'exec vllm serve Qwen/Qwen3-8B --tensor-parallel-size 4'
            """,
            1,
        ),
        (
            "run.sh",
            """
            export MODEL="Qwen/Qwen3-8B" \\
            #export MODEL="Qwen/Qwen3-4B" \\
            HF_HUB_OFFLINE=1 \\
            #VLLM_LOGGING_LEVEL=DEBUG \\
            vllm serve $MODEL --dtype bfloat16
            """,
            1,
        ),
        (
            "sky.yaml",
            """
            envs: {KEY: "", MODEL: Qwen/Qwen3-8B}
            run: |
              : "${KEY:?set it in .env}"
              pkill -f 'vllm.entrypoints' || true
              vllm serve $MODEL --api-key "$KEY" --dtype bfloat16
            """,
            1,
        ),
        (
            "deploy.yaml",
            """
            version: "2.0"
            services:
              vllm:
                image: vllm/vllm-openai:v0.11.0
                command: [bash, -c]
                args:
                - >-
                  vllm serve Qwen/Qwen3-8B --dtype bfloat16
                env: ["HF_TOKEN="]
            """,
            1,
        ),
        (
            "compose.yaml",
            """
            services:
              small:
                image: vllm-cpu-env:latest
                command: Qwen/Qwen3-8B --dtype bfloat16 --tensor-parallel-size 1
              router:
                image: vllm-router:latest
                command: serve/router --dtype bfloat16
            """,
            1,
        ),
        (
            "server.sh",
            """
            stop_server() { is_running "vllm serve" "$PID_FILE" && stop_process "vllm serve" 60; }
            start_server() {
              cmd="vllm serve $(arguments | tr '\\n' ' ')"
              echo "running $cmd"
              screen -dmS vllm bash -c "
                source '$VENV/bin/activate'
                $(declare -p)
                $cmd 2>&1 | tee '$LOG'
              "
            }
            start_server
            """,
            1,
        ),
        (
            "server.sh",
            """
            command="vllm serve Qwen/Qwen3-8B --dtype bfloat16"
            if [ -n "$DETACH" ]; then
              eval $command &
              wait
            else
              eval $command
            fi
            """,
            1,
        ),
        (
            "head.sh",
            """
            NODES=$@
            vllm serve Qwen/Qwen3-8B --pipeline-parallel-size $NODES --distributed-executor-backend ray
            """,
            1,
        ),
    ],
)
def test_launches_of_many_forms_are_found_once_without_a_false_error(name: str, text: str, count: int) -> None:
    """Forms of public files, each with a file that resembles it and launches nothing."""
    assert launches(name, text) == count
    assert [line for line in found(name, text) if line.startswith("error")] == []


def test_a_comment_within_a_launch_still_ends_it() -> None:
    """Assignments before a comment end there, but so does a launch."""
    text = "HF_HUB_OFFLINE=1 vllm serve Qwen/Qwen3-8B \\\n#--seed 3 \\\n  --max-model-len 8192\n"
    assert [line.split()[1] for line in found("run.sh", text)] == ["shell.comment-line-after-continuation"]


def test_a_page_is_no_script_and_describes_other_programs() -> None:
    """A reader's shell stays open, a table lists a project's own variables, and a key is named without its value."""
    page = """
        Start `./run.sh`:

        | variable | meaning |
        |---|---|
        | `VLLM_EXTRA_FLAGS` | more options |
        | images fail | `--limit-mm-per-prompt` and `--mm-processor-kwargs max_pixels` |

        ```bash
        nohup vllm serve Qwen/Qwen3-8B --host 127.0.0.1 > vllm.log 2>&1 &
        ```
        """
    assert found("README.md", page) == []
    shown = page.replace("```bash\n", "```bash\n        #!/bin/bash\n")
    assert [line.split()[1] for line in found("README.md", shown)] == ["shell.background-unwatched"]
    script = "#!/bin/bash\nexport VLLM_EXTRA_FLAGS=1\nvllm serve Qwen/Qwen3-8B --mm-processor-kwargs max_pixels &\n"
    rules = {line.split()[1] for line in found("run.sh", script)}
    assert rules == {"environment.unknown", "option.bad-json", "shell.background-unwatched"}


def test_a_removed_argument_is_not_renamed_to_its_opposite() -> None:
    """`disable_log_requests=True` is removed; `enable_log_requests=True` would log them."""
    text = 'from vllm import AsyncEngineArgs\na = AsyncEngineArgs(model="m", disable_log_requests=True)\n'
    linted = checking.lint_text(text, name="serve.py", fix=True)
    assert [issue.rule for issue in linted.issues] == ["option.removed"]
    assert linted.fixed == 'from vllm import AsyncEngineArgs\na = AsyncEngineArgs(model="m")\n'
    wrong = 'from vllm import LLM\na = LLM("m", enable_log_stats=True)\n'
    assert checking.lint_text(wrong, name="serve.py", fix=True).fixed == wrong


@pytest.mark.parametrize(
    "text",
    [
        'exec vllm serve Qwen/Qwen3-8B "$@"',
        'A=()\nfor a in "$@"; do A+=("$a"); done\nexec vllm serve Qwen/Qwen3-8B "${A[@]}"',
    ],
)
def test_arguments_of_the_script_may_have_a_key(text: str) -> None:
    """Only the arguments that are in the text say that a server has no key."""
    assert [issue.rule for issue in checking.lint_text(f"{text}\n", name="run.sh").issues] == []
    closed = "".join(text.rsplit(' "$', 1)[:1])
    assert "safety.open-port" in [issue.rule for issue in checking.lint_text(f"{closed}\n", name="run.sh").issues]


def test_a_variable_of_another_program_is_not_checked() -> None:
    """A variable before a command is that command's, but a removed one of vLLM counts everywhere."""
    script = "vllm serve Qwen/Qwen3-8B &\nVLLM_HOST=localhost VLLM_USE_V1=1 python run.py\nwait\n"
    assert [line.split()[1] for line in found("run.sh", script)] == ["environment.removed"]


@pytest.mark.parametrize(("kind", "severity"), [("ConfigMap", "info"), ("Task", "warning")])
def test_a_script_in_a_config_map_runs_in_a_pod(kind: str, severity: str) -> None:
    """Its open port is the pod's; that of another program's task may be the host's."""
    text = f"kind: {kind}\ndata:\n  start.sh: |\n    #!/bin/bash\n    vllm serve Qwen/Qwen3-8B\n"
    (issue,) = checking.lint_text(text, name="a.yaml").issues
    assert (issue.rule, issue.severity.value) == ("safety.open-port", severity)


@pytest.mark.parametrize(
    ("image", "expected"), [("vllm/vllm-openai:v0.11.0", "error"), ("rayproject/ray-llm:2.46.0", "info")]
)
def test_options_of_ray_serve_are_those_of_the_workers_image(image: str, expected: str) -> None:
    """Ray rejects unknown arguments of the engine; without a release only a misspelt one is reported."""
    text = RAY_SERVICE.replace("IMAGE", image)
    unknown = [issue for issue in checking.lint_text(text, name="a.yaml").issues if issue.rule == "option.unknown"]
    assert [(issue.severity.value, issue.text) for issue in unknown] == [
        (expected, "max_modle_len"),
        *([("error", "foo_bar")] if expected == "error" else []),
    ]


@pytest.mark.parametrize(
    ("replicas", "parameters", "is_error"), [(4, "", False), (3, "", True), (4, "num-gpus: '2'", True)]
)
def test_the_parallel_sizes_of_ray_serve_need_the_gpus_of_the_cluster(
    replicas: int,
    parameters: str,
    is_error: bool,  # noqa: FBT001
) -> None:
    """The GPUs of all replicas of the worker groups, as their parameters or their pods offer them."""
    text = RAY_SERVICE.replace("replicas: 4", f"replicas: {replicas}").replace("{}", f"{{{parameters}}}")
    rules = [issue.rule for issue in checking.lint_text(text, name="a.yaml").issues]
    assert ("meaning.more-gpus-than-given" in rules) is is_error


RAY_SERVICE = """kind: RayService
spec:
  serveConfigV2: |
    applications:
    - args:
        llm_configs:
        - model_loading_config: {model_id: a, model_source: org/m}
          engine_kwargs: {tensor_parallel_size: 8, pipeline_parallel_size: 2, max_modle_len: 8, foo_bar: 2}
  rayClusterConfig:
    headGroupSpec: {template: {spec: {containers: [{name: head, image: IMAGE}]}}}
    workerGroupSpecs:
    - replicas: 4
      rayStartParams: {}
      template: {spec: {containers: [{name: worker, image: IMAGE, resources: {limits: {nvidia.com/gpu: 4}}}]}}
"""


def test_an_option_that_is_in_one_word_with_its_value_is_reported_once() -> None:
    """What follows of it, such as unused GPUs, is not."""
    text = """
        kind: Pod
        spec:
          containers:
          - image: vllm/vllm-openai:v0.11.0
            args: [--model=org/m, --tensor-parallel-size 2]
            resources: {limits: {nvidia.com/gpu: 2}}
        """
    assert found("pod.yaml", text) == ["error file.two-words-in-item --tensor-parallel-size 2"]


def test_a_row_that_says_what_is_wrong_is_not_corrected() -> None:
    """A table of removed options names them; another one recommends them."""
    page = "# vLLM\n\n| symptom | fix |\n|---|---|\n| `--swap-space` | {} |\n"
    assert found("README.md", page.format("Flag was removed: drop it")) == []
    assert [line.split()[1] for line in found("README.md", page.format("Set to 8"))] == ["option.removed"]


def test_options_around_launches_of_an_unknown_release_are_information() -> None:
    """A table of a page is about the image of its launches."""
    page = "```bash\ndocker run vllm/vllm-openai:{} --model org/m\n```\n\n| `--swap-space` | more |\n"
    for tag, severity in (("gptoss", "info"), ("latest", "warning")):
        assert f"{severity} option.removed --swap-space" in found("README.md", page.format(tag))


def test_a_launch_does_not_become_a_word_of_export() -> None:
    """Assignments before a comment get an export, and the launch behind it stays a command."""
    script = "HF_HUB_OFFLINE=1 \\\nVLLM_CONFIGURE_LOGGING=0 \\\n#VLLM_LOGGING_LEVEL=DEBUG \\\nvllm serve org/m\n"
    fixed = checking.fixed_text(script, name="run.sh")
    assert fixed == script.replace("HF_HUB", "export HF_HUB").replace("VLLM_CONF", "export VLLM_CONF")
    assert launches("run.sh", fixed) == 1


def test_a_key_that_a_template_fills_in_is_not_repeated() -> None:
    """Each loop has its own keys."""
    loop = '{% for k, v in %s.items() %}\n      {{ k }}: "{{ v }}"\n{% endfor %}\n'
    text = (
        "services:\n  a:\n    image: vllm/vllm-openai:v0.11.0\n    command: --model m\n    environment:\n"
        + loop.replace("%s", "a")
        + loop.replace("%s", "b")
    )
    assert [line for line in found("compose.yaml.j2", text) if line.startswith("error")] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "vllm==0.10.0\nfastapi-cli==0.0.8\nnvidia-nccl-cu12==2.26.2\n"),
        ("utils.sh", "VERBOSE=false\nexport VLLM_LOGGING_LEVEL=INFO\n"),
        ("swagger.json", '{"a": [1, 2\n'),
    ],
)
def test_files_of_a_tree_that_launch_nothing_have_no_errors(name: str, text: str) -> None:
    """Pins are no assignments, a script's own variable is not vLLM's, and other files are not checked."""
    assert found(name, text) == []


def test_variables_of_the_host_are_not_those_of_a_container() -> None:
    """`docker run` hands on only what its options name."""
    launch = "docker run --gpus all {} vllm/vllm-openai:v0.11.2 --model org/m\n"
    script = "export VLLM_SKIP_WARMUP=true VLLM_USE_V1=1\n" + launch
    for option, expected in (("", []), ("-e VLLM_USE_V1=1", ["warning environment.removed VLLM_USE_V1"])):
        assert [line for line in found("run.sh", script.format(option)) if "environment." in line] == expected


def test_a_variable_that_a_workflow_uses_itself_is_not_unknown() -> None:
    """`${{ env.NAME }}` is a use; a variable without any is meant for vLLM."""
    text = """
        env: {VLLM_MODEL_ID: org/m, VLLM_MODEL_IDS: org/m}
        jobs:
          a:
            steps:
              - run: vllm serve ${{ env.VLLM_MODEL_ID }}
        """
    assert found("a.yml", text) == ["warning environment.unknown VLLM_MODEL_IDS"]


@pytest.mark.parametrize(
    ("image", "severity"),
    [("{{ 'other/vllm:v0.6.3-cpu' if cpu else 'vllm/vllm-openai:latest' }}", "info"),
     ("vllm/vllm-openai:latest", "error")],
)  # fmt: skip
def test_an_image_that_is_filled_in_later_has_an_unknown_release(image: str, severity: str) -> None:
    """Its options may be those of an older release."""
    text = _POD.replace("vllm/vllm-openai:v0.11.0", f'"{image}"').replace('"--enforce-eager={0}"', '"--device=cpu"')
    removed = [line for line in found("pod.yaml.j2", text.replace("{0}", "{{ a }}")) if "removed" in line]
    assert removed == [f'{severity} option.removed "--device=cpu"']


def test_a_release_may_have_four_numbers() -> None:
    """`vllm==0.10.1.1` is a release, in which the model may follow an option."""
    code = 'PIP = "vllm=={}"\ncmd = ["vllm", "serve", "--seed=1", "org/m", "--served-model-name", "a"]\nrun(cmd)\n'
    assert found("a.py", code.format("0.10.1.1")) == []
    assert found("a.py", code.format("0.33.0"))[0].startswith("error option.conflict")


def test_vllms_own_program_rejects_unknown_options() -> None:
    """The server for demonstrations has no options besides those of vLLM; Dynamo's worker has."""
    assert found("run.sh", "python3 -m vllm.entrypoints.api_server --model m --ray-address a:1\n") == [
        "error option.foreign --ray-address"
    ]
    assert found("run.sh", "python3 -m dynamo.vllm --model m --ray-address a:1\n") == []


def test_a_container_of_amazon_ecs_is_a_launch() -> None:
    """Its entry point runs the command."""
    command = '"entryPoint": ["sh", "-c"], "command": ["cd a && vllm serve m --turbo"]'
    text = f'{{"containerDefinitions": [{{"image": "vllm/vllm-openai:v0.11.0", {command}}}]}}'
    assert found("task.json", text) == ["error option.unknown --turbo"]


def test_a_step_of_a_workflow_has_its_own_variables() -> None:
    """Those of another step are not the launch's."""
    text = """
        jobs:
          a:
            steps:
              - env: {{VLLM_ATTENTION_BACKEN: x}}
                run: {}
              - run: {}
        """
    launch, other = "vllm serve org/m", "echo"
    assert found("a.yml", text.format(launch, other)) == ["warning environment.unknown VLLM_ATTENTION_BACKEN"]
    (seen,) = checking.lint_text(textwrap.dedent(text.format(launch, other)), name="a.yml").deployments
    (unseen,) = checking.lint_text(textwrap.dedent(text.format(other, launch)), name="a.yml").deployments
    assert (seen.env, unseen.env) == ({"VLLM_ATTENTION_BACKEN": "x"}, {})


@pytest.mark.parametrize("inputs", ["args: --model m --turbo", 'entrypoint: bash, args: -c "vllm serve m --turbo"'])
def test_a_container_as_a_step_of_a_workflow_is_a_launch(inputs: str) -> None:
    """`uses: docker://IMAGE` runs it with the arguments and the entry point of `with`."""
    text = f"jobs: {{a: {{steps: [{{uses: 'docker://vllm/vllm-openai:v0.11.0', with: {{{inputs}}}}}]}}}}\n"
    assert [line for line in found("a.yml", text) if "as-option" not in line] == ["error option.unknown --turbo"]


def test_an_argument_that_a_server_ignores_is_information() -> None:
    """KServe's server has a known list of options of its own and ignores what it does not know."""
    text = """
        kind: InferenceService
        spec:
          predictor:
            model:
              modelFormat: {name: huggingface}
              args: [--model_name=a, --model_id=org/m, --return_raw_logits, --workers=1, --bogus_option=3]
        """
    unknown = [line for line in found("a.yaml", text) if "option.unknown" in line]
    assert unknown == ["info option.unknown --bogus_option=3"]


def test_a_command_that_a_program_splits_has_no_continuations() -> None:
    """A key of its own (`server_cmd`) is no script; a shell would end the command at the first line."""
    text = """
        deployment:
          - KEY: |
              vllm serve org/m
                --port 8000
                --turbo
        """
    assert found("a.yaml", text.replace("KEY", "server_cmd")) == ["error option.unknown --turbo"]
    two = text.replace("--turbo", "--turbo  # a comment\n              sleep 5").replace("KEY", "server_cmd")
    assert not [line for line in found("a.yaml", two) if "sleep" in line]
    rules = {line.split()[1] for line in found("a.yaml", text.replace("KEY", "run"))}
    assert "shell.missing-continuation" in rules


@pytest.mark.parametrize(("devices", "is_error"), [("0", True), ("0,1", False), ("${GPUS:?set it}", False)])
def test_devices_of_a_variable_are_not_counted(devices: str, is_error: bool) -> None:  # noqa: FBT001
    """It may name several."""
    text = f"""
        services:
          a:
            image: vllm/vllm-openai:v0.11.0
            command: --model org/m --tensor-parallel-size 2
            deploy: {{resources: {{reservations: {{devices: [{{device_ids: ["{devices}"]}}]}}}}}}
        """
    assert [line.split()[1] for line in found("compose.yaml", text) if line.startswith("error")] == (
        ["meaning.more-gpus-than-given"] if is_error else []
    )


def test_a_script_goes_on_with_the_variables_that_it_needs() -> None:
    """With `set -u` it stops without them; with them a function that looks for a program finds one."""
    script = """
        set -u
        echo "$NEEDED"
        find() { for name in python3 python; do if command -v "$name"; then return 0; fi; done; return 1; }
        if ! find; then exit 1; fi
        vllm serve org/m
        """
    assert launches("run.sh", script) == 1


@pytest.mark.parametrize(
    ("decorators", "is_error"),
    [
        ('@app.function(gpu="H100:2")', True),
        ('@app.function(image=image, gpu=f"H100:{COUNT}")', True),
        ('@app.function(gpu="H100:4")', False),
        ('@app.function(gpu=["H100:2", "A100:4"])', False),
        ('@app.function(gpu="H100:2")\n@modal.experimental.clustered(size=2)', False),
        ('@jobs.function(gpu="H100:2")', False),
        ('@app.function(gpu="H100:2")\ndef outer():\n    @app.function(gpu="H100:8")\n    def inner(): pass', False),
    ],
)
def test_the_parallel_sizes_of_a_function_on_modal_need_its_gpus(
    decorators: str,
    is_error: bool,  # noqa: FBT001
) -> None:
    """Of other functions, of several kinds of GPU and of several containers nothing is said."""
    command = 'cmd = ["vllm", "serve", "org/m"]\n    cmd += ["--tensor-parallel-size", "4"]\n'
    text = f"""import subprocess
import modal

COUNT = 2
app = modal.App("a")

@app.function(gpu="T4")
def other():
    pass

{decorators}
def serve():
    {command}    subprocess.Popen(cmd)
"""
    rules = [issue.rule for issue in checking.lint_text(text, name="a.py").issues]
    assert ("meaning.more-gpus-than-given" in rules) is is_error


_COMMAND = 'cmd = ["vllm", "serve", "Qwen/Qwen3-8B"]\n'


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        (_COMMAND + 'if x:\n    cmd.append("--enforce-eager")\n', True),
        (_COMMAND + "if x:\n    cmd.extend(x)\n", False),
        (f"def server():\n    {_COMMAND}def listing(x):\n    cmd = ['ls']\n    if x:\n        cmd.append(x)\n", True),
    ],
)
def test_an_open_port_is_reported_beside_conditional_options(text: str, is_open: bool) -> None:  # noqa: FBT001
    """Unless options that cannot be read are added to the command."""
    rules = [issue.rule for issue in checking.lint_text(text, name="a.py").issues]

    assert ("safety.open-port" in rules) is is_open


@pytest.mark.parametrize(("change", "is_unused"), [("opts['tensor_parallel_size'] = 2", False), ("print(opts)", True)])
def test_gpus_may_be_used_by_arguments_that_are_not_read(change: str, is_unused: bool) -> None:  # noqa: FBT001
    """Such as those of a mapping that code changes."""
    made = "import os\nfrom vllm import LLM\nos.environ['CUDA_VISIBLE_DEVICES'] = '0,1'\nopts = {'seed': 1}\n"
    text = f"{made}{change}\nLLM('org/m', **opts)\n"
    rules = [issue.rule for issue in checking.lint_text(text, name="a.py").issues]

    assert ("meaning.gpus-unused" in rules) is is_unused


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("run.sh", "docker run --gpus all vllm/vllm-openai:v${{ steps.a.outputs.b }} org/m --dtype half\n", 1),
        ("run.sh", "docker run --gpus all vllm/vllm-openai:$TAG org/m --dtype half\n", 1),
        (
            "parser.py",
            "def strip(tokens):\n    while tokens and tokens[0] in ('vllm', 'serve'):\n        tokens.pop(0)\n",
            0,
        ),
    ],
)
def test_launches_are_told_from_names_of_programs(name: str, text: str, count: int) -> None:
    """An image with an unknown tag is launched; words that a program compares are not a command."""
    assert launches(name, text) == count


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("app.toml", 'entrypoint = ["vllm", "serve", "{model}", "--max-model-len", "{length}", "--host", "::1"]\n'),
        (
            "run.sh",
            'bash -lc "\npython3 - <<\'PY\'\nprint({\n    \\"a\\": 1,\n})\nPY\nexec vllm serve org/m --host ::1\n"\n',
        ),
    ],
)
def test_values_that_a_program_fills_in_and_code_in_quotes_have_no_errors(name: str, text: str) -> None:
    """`{length}` is filled in later; in double quotes the shell removes the backslashes before quotes."""
    found = checking.lint_text(text, name=name)

    assert found.deployments
    assert [issue.message for issue in found.issues if issue.severity.value == "error"] == []


def test_a_background_command_of_a_formatted_text_is_named_by_a_known_word() -> None:
    """A word that the text fills in is not printed."""
    text = 'import subprocess\nsubprocess.run(f"""{A}\\\n{B} nohup vllm serve org/m --host ::1 &\n""", shell=True)\n'
    messages = [issue.message for issue in checking.lint_text(text, name="a.py").issues]

    assert "\ufffc" not in "".join(messages)
