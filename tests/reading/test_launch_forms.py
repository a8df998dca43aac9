"""Launches that charts, operators, runtimes and servers with vLLM inside build: each form by an example."""

from __future__ import annotations

import pytest

from cost import LIMIT, growth
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.reading import documents
from vllm_runbooks.reading.documents import launch_forms
from vllm_runbooks.reading.documents.engine_classes import EngineClass
from vllm_runbooks.reading.documents.engine_programs import EngineProgram
from vllm_runbooks.reading.documents.launch_forms import LaunchForm
from vllm_runbooks.reading.documents.starts import WrittenLaunch

FORMS = {
    "production_stack_one_node": (
        """servingEngineSpec:
  modelSpec:
  - name: a
    repository: vllm/vllm-openai
    tag: v0.9.1
    modelURL: org/m
    requestGPU: 2
    env: [{name: VLLM_LOGGING_LEVEL, value: INFO}]
    vllmConfig: {enablePrefixCaching: false, maxModelLen: 4096, extraArgs: ["--seed", 0]}
""",
        "serve org/m --no-enable-prefix-caching --max-model-len 4096 --seed 0",
    ),
    "production_stack": (
        "servingEngineSpec: {modelSpec: [{modelURL: org/m, raySpec: {headNode: {requestGPU: 2}}, requestGPU: 2}]}\n",
        "serve org/m",
    ),
    "production_stack_runtime": (
        """apiVersion: production-stack.vllm.ai/v1alpha1
kind: VLLMRuntime
spec:
  model: {modelURL: org/m, maxModelLen: 512}
  vllmConfig: {tensorParallelSize: 2, extraArgs: [--enforce-eager]}
""",
        "serve org/m --max-model-len 512 --tensor-parallel-size 2 --enforce-eager",
    ),
    "llm_d_modelservice": (
        """modelArtifacts: {uri: "hf://org/m", name: org/m}
decode:
  parallelism: {tensor: 2}
  containers: [{name: vllm, image: ghcr.io/llm-d/llm-d-cuda:v1, modelCommand: vllmServe, args: [--enforce-eager]}]
""",
        "serve org/m --tensor-parallel-size 2 --enforce-eager",
    ),
    "kserve_llm_container": (
        """kind: LLMInferenceService
spec:
  model: {uri: "hf://org/m", name: org/m}
  parallelism: {data: 4, expert: true}
  template:
    containers:
    - name: main
      env: [{name: VLLM_ADDITIONAL_ARGS, value: --max-model-len 512 --seed '1 2'}]
""",
        "serve org/m --data-parallel-size 4 --enable-expert-parallel --max-model-len 512 --seed 1 2",
    ),
    "kserve_llm": (
        "# vLLM\nkind: LLMInferenceService\nspec: {model: {uri: 'hf://org/m'}, parallelism: {tensor: 2}}\n",
        "serve org/m --tensor-parallel-size 2",
    ),
    "kserve_huggingface": (
        """kind: InferenceService
spec:
  predictor:
    model:
      modelFormat: {name: huggingface}
      args: [--model_name=a, --model_id=org/m, --max-model-len=512]
      resources: {limits: {nvidia.com/gpu: "1"}}
""",
        "api_server --model=org/m --max-model-len=512",
    ),
    "kubeai": (
        """apiVersion: kubeai.org/v1
kind: Model
spec: {engine: VLLM, url: "hf://org/m", args: [--max-model-len=512], resourceProfile: "nvidia-gpu-l4:2", env: {A: b}}
""",
        "serve org/m --max-model-len=512",
    ),
    "kubeai_values": (
        "catalog: {a: {engine: VLLM, url: 'hf://org/m', args: [--max-model-len=512]}}\n",
        "serve org/m --max-model-len=512",
    ),
    "kaito": (
        """kind: ConfigMap
data:
  inference_config.yaml: |
    vllm:
      max-model-len: 512
      enable-prefix-caching: true
      enforce-eager: false
      hf-overrides: {a: [1, 2.5, b]}
      seed:
""",
        'serve ? --max-model-len 512 --enable-prefix-caching --no-enforce-eager --hf-overrides {"a": [1, 2.5, "b"]}',
    ),
    "ray_serve_llm": (
        """kind: RayService
spec:
  serveConfigV2: |
    applications:
    - args:
        llm_configs:
        - model_loading_config: {model_id: a, model_source: org/m}
          engine_kwargs: {max_model_len: 512, tensor_parallel_size: 2}
""",
        "serve org/m --max-model-len 512 --tensor-parallel-size 2",
    ),
    "ray_serve_llm_value": (
        "args: {prefill_config: {model_loading_config: {model_id: org/m}, engine_kwargs: {data_parallel_size: 16}}}\n",
        "serve org/m --data-parallel-size 16",
    ),
    "ray_serve_llm_model": (
        "model_loading_config: {model_id: org/m}\nengine_kwargs: {dtype: bfloat16}\n",
        "serve org/m --dtype bfloat16",
    ),
    "ray_llm": (
        """kind: ConfigMap
data:
  org--m.yaml: |
    engine_config: {model_id: a, hf_model_id: org/m, type: VLLMEngine, engine_kwargs: {max_num_seqs: 64}}
""",
        "serve org/m --max-num-seqs 64",
    ),
    "gpustack": (
        "models: [{backend: vLLM, huggingface_repo_id: org/m, backend_parameters: [--max-model-len=512]}]\n",
        "serve org/m --max-model-len=512",
    ),
    "gpustack_model": (
        "backend: vLLM\nhuggingface_repo_id: org/m\nbackend_parameters: [--max-model-len=512]\n",
        "serve org/m --max-model-len=512",
    ),
    "llmaz": (
        "kind: Playground\nspec: {backendRuntimeConfig: {backendName: vllm, args: [--max-model-len, '512']}}\n",
        "serve ? --max-model-len 512",
    ),
    "kthena": (
        """kind: ModelBooster
spec:
  backend:
    modelURI: hf://org/m
    workers: [{image: "vllm/vllm-openai:v0.9.1", config: {max-model-len: 512}}]
""",
        "serve org/m --max-model-len 512",
    ),
    "aibrix_claim": (
        """kind: ModelClaim
spec: {engine: vllm, artifactURL: "huggingface://org/m", engineConfig: {args: {--max-model-len: "512"}}}
""",
        "serve org/m --max-model-len 512",
    ),
    "aibrix_batch": (
        """data:
  templates.yaml: |
    - spec:
        engine: {type: vllm, image: "vllm/vllm-openai:v0.9.1", serve_args: [--seed=1]}
        parallelism: {tp: 2}
        engine_args: {max_num_seqs: 4}
        accelerator: {count: 2}
""",
        "serve ? --tensor-parallel-size 2 --max-num-seqs 4 --seed=1",
    ),
    "runpod": (
        '{"imageName": "vllm/vllm-openai:v0.9.1", "dockerArgs": "--model org/m --seed 1", "gpuCount": 1}\n',
        "image --model org/m --seed 1",
    ),
    "oci_blueprint": (
        '{"recipe_image_uri": "vllm/vllm-openai:v0.9.1", "recipe_container_command_args": ["--model", "$(name)"]}\n',
        "image --model $(name)",
    ),
    "llama_swap": (
        "models:\n  a:\n    cmd: |\n      vllm serve org/m\n      --port ${PORT}\n      --max-model-len 512\n",
        "serve org/m --port ? --max-model-len 512",
    ),
    "values_of_image": (
        "engine: {image: {repository: vllm/vllm-openai, tag: v0.9.1}, model: org/m, extraArgs: [--seed 1]}\n",
        "serve org/m --seed 1",
    ),
    "values_of_image_name": (
        "engine: {image: 'vllm/vllm-openai:v0.9.1', modelName: org/m, maxModelLen: 512}\n",
        "serve org/m --max-model-len 512",
    ),
    "values_of_image_name_at_root": (
        "image: vllm/vllm-openai:v0.9.1\nmodel: {name: org/m, args: ['--dtype \"half\"']}\n",
        "serve org/m --dtype half",
    ),
    "values_of_image_at_root": (
        "image: {repository: vllm/vllm-openai}\nmodel: {name: org/m}\nvllm: {gpuMemoryUtilization: 0.5, x: 1}\n",
        "serve org/m --gpu-memory-utilization 0.5",
    ),
    "values_of_backend": (
        "backend: vllm\nvllm: {maxModelLen: 512, extraArgs: [--seed, '1']}\n",
        "serve ? --max-model-len 512 --seed 1",
    ),
    "values_of_engine": ("engine: vllm\nvllm: {model: org/m}\n", "serve org/m"),
    "values_of_server": ("vllm: {enabled: true, model: org/m, dtype: half}\n", "serve org/m --dtype half"),
}
"""By id of the form a document and the launch in it."""
BUILDERS = {
    "kserve_huggingface": "huggingfaceserver", "llama_swap": "", "ray_llm": "ray_serve_llm",
    "ray_serve_llm_model": "ray_serve_llm", "ray_serve_llm_value": "ray_serve_llm",
}  # fmt: skip
"""What builds the launch of some forms: a program of the catalog, or nothing but the words of the document."""


def written(launch: WrittenLaunch) -> str:
    """Entry and words of a launch; an unknown word is `?`."""
    return " ".join([launch.entry, *("?" if word.value is None else word.value for word in launch.words)])


def test_each_form_of_the_catalog_has_an_example() -> None:
    """A form without one is not tested."""
    assert sorted(FORMS) == sorted(load_table("launch_forms", LaunchForm))


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_values_is_read_as_the_launch_that_is_built_of_them(form: str) -> None:
    """The model, the options of values and the arguments, marked with what builds them: a program, or the form."""
    text, expected = FORMS[form]
    (launch,) = documents.read(text, "a.yaml").starts
    builder = BUILDERS.get(form, form)

    assert (written(launch), launch.builder, launch.is_elided) == (expected, builder, bool(builder))
    for word in launch.words:
        assert word.at is None or "".join(text[place] for place in word.at) == word.value
        assert text[word.start : word.end] or word.value is None


def test_parts_of_a_form_are_context_of_the_launch() -> None:
    """The image, its release, the GPUs and the variables; not those that hold arguments."""
    (stack,) = documents.read(FORMS["production_stack_one_node"][0], "a.yaml").starts
    (nodes,) = documents.read(FORMS["production_stack"][0], "a.yaml").starts
    (kubeai,) = documents.read(FORMS["kubeai"][0], "a.yaml").starts
    kserve = documents.read(FORMS["kserve_llm_container"][0], "a.yaml")

    assert stack.image is not None
    assert (stack.image.value, stack.release, list(stack.environment)) == (
        "vllm/vllm-openai:v0.9.1", "0.9.1", ["VLLM_LOGGING_LEVEL"],
    )  # fmt: skip
    assert [launch.gpus and launch.gpus.count for launch in (stack, nodes, kubeai)] == [2, None, 2]
    assert (kserve.settings, dict(kserve.starts[0].environment)) == ((), {})


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("servingEngineSpec: {modelSpec: [{modelURL: org/m, enabled: false}]}\n", 0),
        ("spec: {engine: VLLM, url: a}\n", 0),
        ("# vllm\nengine_kwargs: {a: 1}\nllm_engine: SGLang\nmodel_loading_config: {model_id: a}\n", 0),
        ("image: {repository: vllm/vllm-openai}\nservice: {port: 1}\n", 0),
        ("backend: sglang\nvllm: {extraArgs: [--seed, '1']}\n", 0),
        ("prefill: {create: false, containers: [{image: vllm, modelCommand: vllmServe}]}\n", 0),
        ("prefill: {containers: [{image: 'x/llm-d-inference-sim:v1', modelCommand: vllmServe}]}\n", 0),
        ('data: {other.yaml: "vllm:\\n  max-model-len: 1\\n"}\n', 0),
    ],
)
def test_a_document_that_starts_nothing_has_no_form(text: str, count: int) -> None:
    """What is switched off, another engine, a simulator, and another kind of document."""
    assert len(documents.read(text, "a.yaml").starts) == count


@pytest.mark.parametrize(
    ("model", "word"),
    [
        *(("hf://org/m", "org/m"), ("org/m", "org/m"), ("s3://bucket/m", "s3://bucket/m"), ("/models/m", "/models/m")),
        *(("pvc://claim/m", "?"), ("ollama://m", "?"), ("hf://org/m?rev=1", "org/m"), ("'{{ .Values.m }}'", "?")),
    ],
)
def test_a_model_is_known_if_vllm_gets_it_as_written(model: str, word: str) -> None:
    """What is mounted has another path in the container."""
    (launch,) = documents.read(f"modelSpec: [{{modelURL: {model}}}]\n", "a.yaml").starts

    assert written(launch) == f"serve {word}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model: org/m\nmax-model-len: 512\nmax_num_seqs: 2\n", "serve org/m --max-model-len 512 --max-num-seqs 2"),
        ("max-model-len: 512\nmax-num-seqs: 4\nport: 1\n", "serve ? --max-model-len 512 --max-num-seqs 4 --port 1"),
        ("max-model-len: 512\nmax-num-seqs: 4\ngpu-memory-utilisation: 1\n",
         "serve ? --max-model-len 512 --max-num-seqs 4 --gpu-memory-utilisation 1"),
        ("served-model-name: [a, b]\nmax-model-len: 512\n", "serve ? --served-model-name a b --max-model-len 512"),
        ("name: x\nmax-model-len: 512\nmax-num-seqs: 4\ntitle: y\n", None),
        ("model: org/m\nmax-modl-len: 512\n", "serve org/m --max-modl-len 512"),
        ("model: org/m\nmax-len: 512\n", None),
        ("model: org/m\ntokenizers: a\n", None),
        ("model: org/m\ndtypes: [fp16, bf16]\n", None),
        ("model: m\nmax-modl-len: 512\n", None),
        ("max-model-len: 512\nport: 1\n", None),
        ("max-model-len: 512\nmax-num-seqs: 4\ndataset: y\n", None),
    ],
)  # fmt: skip
def test_a_file_with_options_alone_is_for_config(text: str, expected: str | None) -> None:
    """Each key must be an option or a misspelt one; settings of another tool are no launch."""
    found = documents.read(text, "config.yaml").starts

    assert [written(launch) for launch in found] == [expected] * (expected is not None)
    assert all(launch.kind == "config" and launch.is_elided and not launch.builder for launch in found)


PROGRAMS = {
    "demo_server": ("python -m vllm.entrypoints.api_server --model m", "api_server --model m"),
    "render": ("vllm launch render m --port 1", "serve m --port 1"),
    "dynamo": ("python3 -m dynamo.vllm --model m --is-prefill-worker", "api_server --model m --is-prefill-worker"),
    "huggingfaceserver": (
        "python -m huggingfaceserver --model_id=m --model_name a --dtype half",
        "api_server --model=m --dtype half",
    ),
    "ipex_llm": (
        "python -m ipex_llm.vllm.xpu.entrypoints.openai.api_server --load-in-low-bit fp8 --model m",
        "api_server --model m",
    ),
    "fastchat": ("python3 -m fastchat.serve.vllm_worker --model-path m --model-names=a", "api_server --model m"),
    "tgis_adapter": ("python -m vllm_tgis_adapter --model m", "api_server --model m"),
    "trl": ("trl vllm-serve --model m", "api_server --model m"),
}
"""By id of a program its command and the launch."""


def test_each_program_of_the_catalog_has_an_example() -> None:
    """Except a program that no command runs."""
    rows = load_table("engine_programs", EngineProgram)

    assert sorted(PROGRAMS) == sorted(name for name, row in rows.items() if row.modules or row.commands)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_server_with_vllm_inside_is_a_launch_with_the_options_of_vllm(program: str) -> None:
    """Renamed options become vLLM's; its own with a known number of values are left out."""
    command, expected = PROGRAMS[program]
    (launch,) = documents.read(f"{command}\n", "a.sh").starts
    (inner,) = documents.read(f"a:\n  run: |\n    {command}\n", "a.yaml").starts

    has_own = not load_table("engine_programs", EngineProgram)[program].rejects_unknown
    assert (written(launch), launch.builder, launch.has_own_options) == (expected, program, has_own)
    assert written(inner) == expected


def test_an_image_of_such_a_server_runs_it() -> None:
    """Its arguments are those of the server."""
    text = "containers: [{image: 'kserve/huggingfaceserver:v1-gpu', args: [--model_id=m]}]\n# vllm\n"
    (launch,) = documents.read(text, "a.yaml").starts

    assert (written(launch), launch.builder) == ("api_server --model=m", "huggingfaceserver")


CLASSES = {
    "ipex_llm": "from ipex_llm.vllm.xpu.engine import IPEXLLMClass as LLM\nLLM('m', dtype='half', low_bit='x')\n",
    "ray_serve_llm": (
        "from ray.serve.llm import LLMConfig\n"
        "LLMConfig(model_loading_config={'model_id': 'a', 'model_source': 'm'}, engine_kwargs=dict(dtype='half'))\n"
    ),
    "ray_data_llm": (
        "import ray.data.llm\nray.data.llm.vLLMEngineProcessorConfig('m', engine_kwargs={'dtype': 'half'})\n"
    ),
    "langchain": "from langchain_community.llms import VLLM\nVLLM(model='m', top_k=1, vllm_kwargs={'dtype': 'half'})\n",
    "llama_index": "from llama_index.llms.vllm import Vllm\nVllm('m', dtype='half', max_new_tokens=1)\n",
    "distilabel": "from distilabel.models import vLLM\nvLLM(model='m', extra_kwargs={'dtype': 'half'})\n",
}
"""By id of the class a program with the model m and the type half."""


@pytest.mark.parametrize("name", sorted(load_table("engine_classes", EngineClass)))
def test_an_engine_of_another_package_is_a_launch_with_the_arguments_of_the_engine(name: str) -> None:
    """The model and the engine's arguments, wherever the class has them."""
    (launch,) = documents.read(CLASSES[name], "a.py").starts
    values = {keyword.name: keyword.value for keyword in launch.keywords}

    assert {key: values.get(key) for key in ("model", "dtype")} == {"model": "m", "dtype": "half"}
    assert (launch.builder, launch.has_own_options, launch.is_elided) == (name, True, True)


def test_a_class_of_the_same_name_elsewhere_is_another() -> None:
    """Its package must be the one that has it."""
    text = (
        "from mine import VLLM, LLMConfig\nimport other\nVLLM(a='m')\nother.LLMConfig(engine_kwargs={})\nx().VLLM()\n"
    )

    assert documents.read(text, "a.py").starts == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("args: [--model=$(M), '--max-model-len=$(N)', --max-num-seqs=2]", "image ? ? --max-num-seqs=2"),
        ("image: vllm/x\n      args: [--model, '$(M)', --max-model-len=1]", "image --model $(M) --max-model-len=1"),
        ("image: vllm/x\n      envFrom: [{}]\n      args: [--model, '$(M)', --max-model-len=1]",
         "image --model ? --max-model-len=1"),
    ],
)  # fmt: skip
def test_a_variable_of_a_container_may_be_set_elsewhere(text: str, expected: str) -> None:
    """In a patch, and with `envFrom`; else Kubernetes passes the reference on."""
    (launch,) = documents.read(f"spec:\n  containers:\n    - name: a\n      {text}\n", "a.yaml").starts

    assert written(launch) == expected


def test_a_patch_of_kustomize_has_the_arguments_of_a_launch() -> None:
    """A JSON patch in a file, or in a text of `kustomization.yaml`; not one of other arguments."""
    patch = "- op: replace\n  path: /spec/template/spec/containers/0/args\n  value: [--model=m, --max-model-len=512]\n"
    inner = "patches:\n- patch: |-\n" + "".join(f"    {line}\n" for line in patch.splitlines())
    other = patch.replace("/args", "/command").replace("--model=m", "vllm")
    found = [documents.read(text, "a.yaml").starts for text in (patch, inner, other)]

    assert [[written(launch) for launch in starts] for starts in found] == [
        ["image --model=m --max-model-len=512"], ["image --model=m --max-model-len=512"], [],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: {argv: [docker, run, vllm/vllm-openai, --model, m]}\n", ["image --model m"]),
        ("a: {argv: [echo, vllm]}\n", []),
        ("content: |\n  [Service]\n  ExecStart=/a/vllm serve {{ m }} --seed 1\n", ["serve ? --seed 1"]),
        ("content: |\n  [Container]\n  Image=vllm/vllm-openai\n  Exec=--model m\n", ["image --model m"]),
        ("helm:\n  values: |\n    modelSpec:\n    - modelURL: org/m\n", ["serve org/m"]),
        ("source: |\n  vllm serve m --seed 1\n", ["serve m --seed 1"]),
        ("anything: |\n  #!/bin/sh\n  vllm serve m --seed 1\n", ["serve m --seed 1"]),
        ("serve_command: vllm serve m --seed 1\n", ["serve m --seed 1"]),
        ("description: |\n  vllm serve m --seed 1\n", []),
        ("anything: Run vllm serve m --seed 1\n", []),
        ("anything: |\n  Run it with\n  vllm serve m --seed 1\n", []),
    ],
)
def test_texts_of_a_document_are_read_if_they_are_run(text: str, expected: list[str]) -> None:
    """Scripts, units, commands as lists and further documents, but no descriptions."""
    assert [written(launch) for launch in documents.read(text, "a.yaml").starts] == expected


def test_containers_of_a_document_that_is_no_yaml_are_read() -> None:
    """The error is reported, and the launch is found in the part that is YAML."""
    containers = (
        "        containers:\n        - name: a\n          image: vllm/x\n\n          args: [--model, m, --seed, '1']\n"
    )
    page = documents.read(f"apiVersion: v1\n    kind: x\n{containers}    b: c\n# vllm\n", "a.yaml")

    assert [written(launch) for launch in page.starts] == ["image --model m --seed 1"]
    assert [trouble.kind for trouble in page.troubles] == ["file.not-yaml"]


def test_a_command_as_one_text_is_a_script() -> None:
    """Recipes of other tools have one; the image is the one that they name."""
    text = "container: x/vllm-fork:v1\ncommand: |\n  vllm serve m \\\n    --max-model-len 512\n"
    (launch,) = documents.read(text, "a.yaml").starts

    assert launch.image is not None
    assert (written(launch), launch.image.value) == ("serve m --max-model-len 512", "x/vllm-fork:v1")


@pytest.mark.parametrize(
    ("image", "expected"), [("x/vllm-dgx:v1", ["serve --model m"]), ("'{{ x }}'", []), ("x/other", [])]
)
def test_an_image_of_vllm_gets_serve_as_its_first_argument(image: str, expected: list[str]) -> None:
    """Its entry point is `vllm`, or a script that passes arguments on."""
    text = f"services: {{a: {{image: {image}, command: [serve, --model, m]}}}}\n"

    assert [written(launch) for launch in documents.read(text, "a.yaml").starts] == expected


def test_a_command_kept_for_eval_is_read() -> None:
    """At its assignment, if a part of it is unknown."""
    text = 'C="vllm serve \\"$MODEL\\" --port $(port) --seed 1"\nC="$C --x"\neval $C > log &\n'

    assert "serve ? --port ? --seed 1" in [written(launch) for launch in documents.read(text, "a.sh").starts]


def test_a_script_that_an_image_contains_is_read() -> None:
    """Written by `COPY` or `RUN` from a here-document."""
    text = (
        "FROM x\nCOPY <<EOF /a.sh\n#!/bin/sh\nvllm serve a --seed 1\nEOF\n"
        "RUN cat > /b.sh <<'X' && chmod +x /b.sh\nvllm serve b\nX\nCMD [\"/a.sh\"]\n"
    )

    assert [written(launch) for launch in documents.read(text, "Dockerfile").starts] == ["serve a --seed 1", "serve b"]


def test_help_as_the_default_argument_of_an_image_is_replaced() -> None:
    """The entry point is the launch."""
    text = 'FROM x\nENTRYPOINT ["python", "-m", "vllm.entrypoints.openai.api_server"]\nCMD ["--help"]\n'
    (launch,) = documents.read(text, "Dockerfile").starts

    assert (written(launch), launch.is_elided) == ("api_server", True)


def test_reading_forms_takes_linear_time() -> None:
    """Also with many items, keys and arguments."""
    item = "- {modelURL: org/m, vllmConfig: {maxModelLen: 1, extraArgs: [--a, '--b c']}}\n"
    settings = "  a{a: [1, {b: 1}]}\n".replace("{a", ": {a")

    assert growth(lambda text: documents.read(f"modelSpec:\n{text}", "a.yaml"), item * 40) < LIMIT
    assert growth(lambda text: documents.read(f"vllm:\n{text}", "inference_config.yaml"), settings * 400) < LIMIT
    assert launch_forms.option_of_key("maxModelLen") == launch_forms.option_of_key("max_model_len") == "--max-model-len"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('kind: ModelBooster\nspec: {backend: {workers: [{image: vllm, config: {enforce-eager: "", dtype: ""}}]}}\n',
         "serve ? --enforce-eager"),
        ('image: {repository: vllm/vllm-openai}\nmodel: org/m\nvllm: {dtype: "", enforceEager: ""}\n', "serve org/m"),
        ("image: {repository: vllm/vllm-openai}\nmodel: org/m\nvllm: {trustRemoteCode: false}\n", "serve org/m"),
        ('modelSpec: [{modelURL: org/m, vllmConfig: {dtype: "", enablePrefixCaching: false}}]\n',
         "serve org/m --no-enable-prefix-caching"),
    ],
)  # fmt: skip
def test_an_empty_value_sets_a_flag_or_nothing(text: str, expected: str) -> None:
    """Charts leave out what is empty or false, unless their rules are known to negate it."""
    (launch,) = documents.read(text, "values.yaml").starts

    assert written(launch) == expected
