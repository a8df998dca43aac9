"""No planted secret is in any output or file of a command, and look-alikes stay unchanged.

Every secret is assembled from pieces here, so that no scanner takes this file for a leak. A secret
counts as leaked if any eight characters of its random part are found.
"""

from __future__ import annotations

import base64
import json
import random
import string
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote as percent

import pytest

from rows import in_one_test
from vllm_runbooks import cli
from vllm_runbooks.core import evidence as evidence_records
from vllm_runbooks.core.redaction import redact
from vllm_runbooks.core.redaction.redact import Redactor, redact_name, redact_text
from vllm_runbooks.reading.startup_log import log_lines

ALNUM = string.ascii_letters + string.digits
PART = 8
"""Characters of a secret that are too many to be shown."""


def core(seed: str, length: int = 32, letters: str = ALNUM) -> str:
    """The random part of a secret: the same in every run of the tests."""
    chance = random.Random(seed)  # noqa: S311 - no secret depends on it
    return (
        "a7Q" + "".join(chance.choice(letters) for _ in range(length - 3))
        if letters is ALNUM
        else "".join(chance.choice(letters) for _ in range(length))
    )


def parts(secret: str) -> set[str]:
    """Every piece of a secret that would give it away."""
    return {secret[i : i + PART] for i in range(len(secret) - PART + 1)}


def leaked(secret: str, shown: str) -> list[str]:
    """The pieces of a secret that a text shows."""
    return sorted(part for part in parts(secret) if part in shown)


ISSUED: dict[str, tuple[str, Callable[[str], str]]] = {
    "huggingface": ("hf" + "_", lambda seed: core(seed, 34)),
    "huggingface org": ("api" + "_org_", lambda seed: core(seed, 34)),
    "openai": ("sk" + "-", lambda seed: core(seed, 48)),
    "openai project": ("sk" + "-proj-", lambda seed: core(seed, 60)),
    "anthropic": ("sk" + "-ant-", lambda seed: core(seed, 60)),
    "deepseek": ("sk" + "-", lambda seed: core(seed, 32, "0123456789abcdef")),
    "nvidia": ("nvapi" + "-", lambda seed: core(seed, 64)),
    "github": ("ghp" + "_", lambda seed: core(seed, 36)),
    "github app": ("ghs" + "_", lambda seed: core(seed, 36)),
    "github fine": ("github" + "_pat_", lambda seed: core(seed, 60)),
    "gitlab": ("glpat" + "-", lambda seed: core(seed, 20)),
    "aws": ("AK" + "IA", lambda seed: core(seed, 16, string.ascii_uppercase + string.digits)),
    "google": ("AI" + "za", lambda seed: core(seed, 35)),
    "slack": ("xox" + "b-", lambda seed: core(seed, 40)),
    "wandb": ("wandb" + "_v1_", lambda seed: core(seed, 60)),
    "docker": ("dckr" + "_pat_", lambda seed: core(seed, 27)),
    "groq": ("gs" + "k_", lambda seed: core(seed, 52)),
    "npm": ("np" + "m_", lambda seed: core(seed, 36)),
    "jwt": ("ey" + "J", lambda seed: f"{core(seed, 30)}.{core(seed + '1', 40)}.{core(seed + '2', 43)}"),
}  # fmt: skip
"""Tokens with their issuer's prefix, and the rest."""
BARE: dict[str, str] = {
    "in prose": "the request with {} was refused",
    "quoted": "unexpected value '{}' for this field",
    "coloured": "\x1b[1;36mgot \x1b[32m{}\x1b[0m here",
    "coloured inside": "got <coloured>{}</coloured> here",
    "as JSON": '{{"event":"login","value":"{}","n":1}}',
    "encoded": "GET /x?u=<percent>{}</percent>",
    "in base64": "blob <base64>{}</base64> read",
    "as a local": "    value = '{}'",
}
"""Places where only the form of the token identifies it."""
NAMED: dict[str, str] = {
    "option": "vllm serve m --api-key {} --port 8000",
    "option with =": "vllm serve m --api-key={} --port 8000",
    "option, second key": "vllm serve m --api-key abc {} --port 8000",
    "option, third key": "vllm serve m --port 1 --api-key abc1 def2 {}",
    "option on the next line": "vllm serve m --api-key \\\n  {} \\\n  --port 8000",
    "second key on the next line": "vllm serve m --api-key abc \\\n  {} \\\n  --port 8000",
    "option of a list": "['vllm', 'serve', 'm', '--api-key', '{}', '--port', '1']",
    "option of a JSON list": '{{"Cmd":["serve","m","--api-key","abc","{}"]}}',
    "option of a YAML list": "args:\n  - --api-key\n  - {}\n  - --port",
    "field": "api_key: {}",
    "field in a list": "non-default args: {{'model': 'm', 'api_key': ['k1', '{}'], 'port': 1}}",
    "field of a Namespace": "args: Namespace(host=None, api_key=['{}'], hf_token=None, port=8000)",
    "hf_token": "non-default args: {{'hf_token': '{}', 'seed': 0}}",
    "hf_token=": "LLM(model='m', hf_token='{}', seed=0)",
    "variable": "HF_TOKEN={}",
    "variable of vLLM": "export VLLM_API_KEY={}",
    "environment": "environ({{'HOME': '/root', 'HUGGING_FACE_HUB_TOKEN': '{}', 'TERM': 'xterm'}})",
    "docker run -e": "docker run -e HF_TOKEN={} vllm/vllm-openai:v0.11.0 --model m",
    "Kubernetes": "    - name: HF_TOKEN\n      value: {}\n    - name: HOME",
    "Kubernetes as JSON": '{{"env":[{{"name":"HF_TOKEN","value":"{}"}}]}}',
    "JSON": '{{"user":"a","password":"{}","n":1}}',
    "JSON in JSON": '{{"log":"{{\\"api_key\\": \\"{}\\"}}"}}',
    "pretty JSON": '{{\n  "api_key":\n    "{}"\n}}',
    "YAML": "password: >-\n  {}\nport: 1",
    "YAML list": "api_key:\n  - {}\nport: 1",
    "URL": "https://bob:{}@example.org/data",
    "URL, token alone": "https://{}@github.com/a/b.git",
    "URL of PostgreSQL": "postgresql+psycopg://vllm:{}@db:5432/x?sslmode=require",
    "URL of Redis": "redis://:{}@10.0.0.7:6379/0",
    "URL, percent-encoded": "proxy=https%3A%2F%2Fbob%3A{}%40example.org%2F",
    "DSN": "host=db user=vllm password={} dbname=x",
    "query": "GET /v1/models?token={}&n=1",
    "query, encoded": "GET /login?next=%2Fx%3Fapi_key%3D{}%26n%3D1",
    "query, escaped": '"url": "https://h/x?a=1\\u0026sig={}\\u0026se=2"',
    "query in HTML": "&quot;api_key&quot;: &quot;{}&quot;",
    "Azure SAS": "https://a.blob.core.windows.net/m?sv=2022&sig={}&se=2025",
    "Azure key": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=core.windows.net",
    "AWS": "aws_secret_access_key = {}",
    "AWS session": "AWS_SESSION_TOKEN={}",
    "S3": "S3 client: {{'aws_access_key_id': 'x', 'aws_secret_access_key': '{}'}}",
    "signed URL": "https://b.s3.amazonaws.com/k?X-Amz-Date=20251120&X-Amz-Signature={}&x=1",
    "header": "Authorization: Bearer {}",
    "header, other scheme": "authorization: ApiKey {}",
    "header of a dict": "headers={{'Authorization': 'Bearer {}', 'Accept': '*/*'}}",
    "header of ASGI": "[(b'host', b'x'), (b'x-api-key', b'{}'), (b'accept', b'*/*')]",
    "header, x-api-key": "x-api-key: {}",
    "header of curl": 'curl -H "Authorization: Bearer {}" http://0.0.0.0:8000/v1/models',
    "Basic": "Authorization: Basic <base64>bob:{}</base64>",
    "Basic, encoded": "Authorization%3A%20Basic%20<base64>bob:{}</base64>",
    "login of curl": "curl -u bob:{} http://h/x",
    "cookie": "Cookie: theme=dark; session={}",
    "registry": '{{"auths":{{"nvcr.io":{{"auth":"<base64>$oauthtoken:{}</base64>"}}}}}}',
    "registry, inline": '{{"auths":{{"ghcr.io":{{"username":"bob","password":"{}"}}}}}}',
    "docker login": "docker login -u bob -p {} ghcr.io",
    "docker login --password": "docker login --username bob --password {} ghcr.io",
    "docker login over lines": "docker login ghcr.io \\\n  -u bob \\\n  -p '{}'\n",
    "docker login, piped": "echo '{}' | sudo docker login -u bob --password-stdin ghcr.io",
    "docker login, printf": 'printf "%s" {} | podman login -u bob --password-stdin ghcr.io',
    "docker login, here-string": 'docker login -u bob --password-stdin ghcr.io <<< "{}"',
    "docker login, here-document": "docker login -u bob --password-stdin ghcr.io <<EOF\n{}\nEOF\n",
    "docker login, list": "run(['docker', 'login', 'ghcr.io', '-u', 'bob', '-p', '{}'])",
    "docker login, input": 'run(["docker", "login", "-u", "bob", "--password-stdin"], input=b"{}")',
    "skopeo --src-creds": "skopeo copy --src-creds bob:{} docker://a/b dir:/x",
    "podman --creds": "podman pull --creds=bob:{} a/b",
    "image's address": "docker pull bob:{}@registry.example.org/a/b:v1",
    "address without a scheme": "mirror = bob:{}@registry.example.org:8091",
    ".dockerconfigjson": '.dockerconfigjson: <base64>{{"auths":{{"x.io":{{"auth":"abc","password":"{}"}}}}}}</base64>',
    ".netrc": "machine huggingface.co login bob password {}",
    ".npmrc": "//packages.example.org/:_authToken={}",
    "Slack": "https://hooks.slack.com/services/T00000000/B00000000/{}",
    "W&B": "WANDB_API_KEY={}",
    "W&B login": "wandb login {}",
    "NGC": "NGC_API_KEY={}",
    "Ray": "RAY_REDIS_PASSWORD={}",
    "Ray's option": "ray start --head --redis-password='{}'",
    "Redis": "redis_password: {}",
    "ModelScope": "MODELSCOPE_API_TOKEN={}",
    "SecretStr": "api_key=SecretStr('{}')",
    "annotated": "api_key: str = '{}'",
    "Google": "x-goog-api-key: {}",
    "GitLab": "PRIVATE-TOKEN: {}",
    "Azure OpenAI": "api-key: {}",
    "base64 of a variable": "blob <base64>HF_TOKEN={}</base64>",
    "a box of locals": "│ api_key = '{}' │",
    "an env dump": 'declare -x OPENAI_API_KEY="{}"',
    "a coloured option": "\x1b[36mvllm serve m --api-key \x1b[1m{}\x1b[0m --port 8000",
    "colours inside": "api_key=<coloured>{}</coloured>",
    "wrapped": "api_key=<wrapped>{}</wrapped>",
    "wrapped in a box": "│ api_key = '<boxed>{}</boxed>' │",
}  # fmt: skip
"""Places where a name identifies any value as a secret."""


def marked(text: str, name: str, change: Callable[[str], str]) -> str:
    """The text with the marked parts changed."""
    before, opened, rest = text.partition(f"<{name}>")
    inside, _, after = rest.partition(f"</{name}>")
    return f"{before}{change(inside)}{after}" if opened else text


def planted(place: str, secret: str) -> str:
    """A place with the secret in it."""
    text = place.format(secret)
    text = marked(text, "coloured", lambda inside: f"{inside[:9]}\x1b[0m\x1b[1;31m{inside[9:]}\x1b[0m")
    text = marked(text, "percent", lambda inside: percent(inside, safe="").replace("-", "%2D").replace("_", "%5F"))
    text = marked(text, "base64", lambda inside: base64.b64encode(inside.encode()).decode())
    text = marked(text, "wrapped", lambda inside: f"{inside[:18]}\n{inside[18:]}")
    return marked(text, "boxed", lambda inside: f"{inside[:18]}   │\n│ {inside[18:]}")


def plants() -> list[tuple[str, str, str]]:
    """Every planted secret: its place, its random part, and the text."""
    places = list(BARE.items())
    found = []
    for index, (kind, (prefix, make)) in enumerate(ISSUED.items()):
        for name, place in (places[index % len(places)], places[(index + 3) % len(places)]):
            secret = make(f"{kind} {name}")
            found.append((f"{kind} {name}", secret, planted(place, prefix + secret)))
    for name, place in NAMED.items():
        secret = core(name, 40 if "wrapped" in name else 24)
        found.append((name, secret, planted(place, secret)))
    secret = core("key", 64)
    body = "\n".join([secret[:32], secret[32:]])
    for kind in ("RSA ", "", "OPENSSH "):
        pem = f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"
        found.append((f"PEM {kind}", secret, pem))
    found.append(("PEM in a variable", secret, f'TLS="{pem}"'.replace("\n", "\\n")))
    found.append(("PEM, cut off", secret, pem.rpartition("\n")[0]))
    return found


PLANTS = plants()
IDS = [name for name, _, _ in PLANTS]
LOOK_ALIKES = [
    "GPU-3f2a7c1e-9b1d-4c6e-8f00-1234567890ab", "MIG-5f2a7c1e-9b1d-4c6e-8f00-1234567890ab",
    "UUID: 3f2a7c1e9b1d4c6e8f001234567890ab", "commit 9c1b2e0f7c7a4b1d8e2f3a4b5c6d7e8f90a1b2c3",
    "vLLM 0.19.0rc1+g1234567", "v0.11.1rc2.dev91+g4cf56c9e1.d20251001",
    "Initializing a V1 LLM engine (v0.10.1.dev1+gbcc0a3cbe)", "CUDA 12.8.93, driver 570.86.15, NCCL 2.27.3+cuda12.9",
    "tcp://10.0.0.1:5555", "http://0.0.0.0:8000/v1/models", "http://[::1]:8000/health",
    "listening on 192.168.10.21:29500", "Received request cmpl-4f1a2b3c4d5e6f708192a3b4c5d6e7f8-0: prompt: 'x'",
    "chatcmpl-9c1b2e0f7c7a4b1d8e2f3a4b5c6d7e8f", "request_id=chatcmpl-tool-53309fb7e3a94d1c",
    "x-request-id: 3f2a7c1e-9b1d-4c6e-8f00-1234567890ab", "model='my-org/sk-model-large-v2'",
    "served_model_name=['sk-llama3instructv2']", "--model sk-hynix/sk-model-for-all-purposes-2",
    "model='org/secret-llm-7B'", "served_model_name=['secret']", "model=/models/secret/token-classifier-v2",
    "hf_hub_download(repo_id='a/b')", "hf_transfer is not installed",
    "hf_overrides={'architectures': ['Qwen2ForCausalLM']}", "hf_config_path=None", "HF_HUB_OFFLINE=1",
    "HF_HOME=/root/.cache/huggingface", "api_server.py:1289] vLLM API server version 0.11.0", "tokens: 512",
    "max_tokens=4096", "max_num_batched_tokens=2048", "'max_tokens': 16, 'min_tokens': 0",
    "num_tokens: 1024 (prefill)", "eos_token='<|im_end|>'", "pad_token_id=151643", "pad_token='[PAD]'",
    "bos_token_id: 1, eos_token_id: [2, 32000]", "stop_token_ids=[1, 2]", "token_budget=8192", "image_token=<image>",
    "image_token_index: 32000", "EOS_TOKEN=2", "MAX_TOKEN=4096", "PAD_TOKEN: 0", "special_tokens_map.json",
    "tokenizer='Qwen/Qwen2.5-0.5B-Instruct', tokenizer_mode=auto, tokenizer_revision=None", "tokenizer_config.json",
    "tokenizer_class: Qwen2TokenizerFast", "skip_tokenizer_init=False", "TOKENIZERS_PARALLELISM=false",
    "GPU KV cache size: 798,624 tokens", "Maximum concurrency for 40,960 tokens per request: 19.50x",
    "return_tokens_as_token_ids=False",
    "Avg prompt throughput: 12.3 tokens/s, Avg generation throughput: 45.6 tokens/s", "unexpected token id 12345",
    "Waiting for token 12 of 15", "Unexpected token '<' at position 0", '"token": "Hello", "logprob": -0.1',
    "kv_cache_dtype=fp8_e4m3", "key='value'", "the key cache is on cuda:0",
    "KeyError: 'layers.0.mlp.gate_up_proj.weight'", "KeyError: 'model.layers.53.self_attn.qkv_proj.k_scale'",
    "missing key lm_head.weight", "cache key: 53309fb7e3a94d1c8e2f3a4b5c6d7e8f", "CACHE_KEY=53309fb7e3a94d1c",
    "PUBLIC_KEY=abcdefgh12345678", "key_cache.shape=torch.Size([2, 16])", "prefix_caching_hash_algo='sha256'",
    "block hash 0x7f3a9c", "BlockHash(hash_value=-8132407152861327, token_ids=(1, 2))", "block_ids=[1, 2, 3]",
    "image vllm/vllm-openai@sha256:a7c56a287d6bc73f13d9858ad8e60b103c9a539350d9acfe4f98c0a15ebd82e3",
    "sha256-a7c56a287d6bc73f13d9858ad8e60b103c", "/root/.cache/vllm/torch_compile_cache/53309fb7e3/rank_0_0",
    "/root/.cache/huggingface/hub/models--Qwen--Qwen2.5-7B/snapshots/a09a35458c702b33eeacc393d103063234e8bc28",
    "/usr/local/lib/python3.12/dist-packages/vllm/v1/worker/gpu_worker.py",
    "a7c56a287d6bc73f13d9858ad8e60b103c9a539350d9acfe4f98c0a15ebd82e3", "api_key=None", "api_key=[]", "hf_token=None",
    "hf_token=True", 'api_key="EMPTY"', "--api-key $VLLM_API_KEY", "--api-key <your-key>",
    "--api-key API_KEY [API_KEY ...]", "[--hf-token [HF_TOKEN]]", "HF_TOKEN=${HF_TOKEN}", "api_key=api_key,",
    "token=self.token", "def f(api_key: str | None = None):", "api_key=os.environ['OPENAI_API_KEY']",
    'headers = {"Authorization": f"Bearer {api_key}"}', "password: null", "password=********",
    "Bearer tokens are accepted", "http://user:***@host/x", "special token <|x|>",
    "passed 12 checks, password policy unchanged", "Authorization header missing", "secret: null", "secrets: 3",
    "PASS: 3 tests", "PWD=/root", "OLDPWD=/root", "ssh://git:22@x", "-v /etc/passwd:/etc/passwd:ro",
    'echo "$REGISTRY_PASSWORD" | docker login -u bob --password-stdin ghcr.io', "echo done | docker logs -f server",
    'docker login -u bob --password-stdin ghcr.io <<< "$REGISTRY_PASSWORD"', "git:v2@example.org/x",
    "docker pull vllm/vllm-openai:v0.11.0@sha256:a7c56a287d6bc73f13d9858ad8e60b103c9a539350d9acfe4f98c0a15ebd82e3",
    "skopeo copy --src-creds $USER:$PASSWORD docker://a/b dir:/x", "mailto:bob.42@example.org/x",
    "Signed-off-by:bob@example.org", "scp model.bin:/data bob@node1.example.org:/data",
    "docker run -u 1000:1000 vllm/vllm-openai:v0.11.0", "basic functionality of the engine",
    "GOOGLE_APPLICATION_CREDENTIALS=/var/run/key.json", "secretKeyRef: {name: hf-secret, key: token}",
    "imagePullSecrets: []", "GPU 0: NVIDIA H200 (UUID: GPU-8f6e4c2a-1b3d-4e5f-9a7b-0c1d2e3f4a5b)",
    "NCCL_SOCKET_IFNAME=eth0, NCCL_DEBUG=INFO", "rank 3 of 8 at node-7f9c4d5b8-x2k9q", "pod/vllm-6d4b75cb6d-hwlkj",
    "container 4f1a2b3c4d5e", "safetensors 100% 4/4 [00:12<00:00, 3.1s/it]", "sk-learn 1.5.2",
    "msgspec==0.19.0, xgrammar==0.1.25", "task-0123456789abcdef0123", "disk-usage-of-the-whole-cluster-20251120",
    "ETag: 33a64df551425fcc55e4d42a148795d9f25f89d4", "Qwen/Qwen3-30B-A3B-Instruct-2507-FP8",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the secrets of earlier tests."""
    monkeypatch.setattr(redact, "_shared", Redactor())


def log(text: str, *, name: str = "") -> str:
    """The log of a failed launch with a text in its command, arguments, errors and locals."""
    flat = text.replace("\n", " ")
    head = "(EngineCore_DP0 pid=7) ERROR 11-20 08:29:25 [core.py:12] "
    lines = [
        text if text.startswith("vllm serve") else f"$ vllm serve m --port 1 {flat}",
        "INFO 11-20 08:29:20 [api_server.py:1] vLLM API server version 0.11.0",
        f"INFO 11-20 08:29:21 [utils.py:233] non-default args: {{'model': 'm', 'x': {flat!r}}}",
        f"WARNING 11-20 08:29:22 [utils.py:1] odd: {text}",
        f"{head}Traceback (most recent call last):",
        f'{head}  File "/x/vllm/v1/engine/core.py", line 3, in run{name}',
        f"{head}    start({flat})",
        f"{head}ValueError: cannot go on: {text}",
    ]
    return "\n".join([*lines, ""])


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """Standard output and standard error of a command."""
    cli.run(list(arguments))
    captured = capsys.readouterr()
    return captured.out, captured.err


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """All that a command writes to both streams."""
    return "".join(printed(capsys, *arguments))


def everything(folder: Path) -> str:
    """Every byte of every file in a folder, and the names."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return "\n".join(f"{path.relative_to(folder)}\n{path.read_bytes().decode('utf-8', 'replace')}" for path in files)


def test_there_are_a_hundred_of_each() -> None:
    """Secrets and look-alikes; no secret is another's part."""
    assert len(PLANTS) >= 100
    assert len(set(LOOK_ALIKES)) == len(LOOK_ALIKES) >= 100


@in_one_test(("name", "secret", "text"), PLANTS, ids=IDS)
def test_a_secret_is_replaced_in_a_text(name: str, secret: str, text: str) -> None:
    """By the function and by a run's redactor, in one piece or in many; replacing again changes nothing."""
    del name
    whole = f"INFO first line\n{text}\nINFO last line\n"
    redactor = Redactor()

    assert leaked(secret, redact_text(text)) == []
    assert leaked(secret, redactor.text(whole)) == []
    assert sum(redactor.counts.values()) > 0
    assert redactor.text(redactor.text(whole)) == redactor.text(whole)
    assert "".join(Redactor().pieces(whole)) == Redactor().text(whole)


@in_one_test("text", LOOK_ALIKES)
def test_a_look_alike_is_unchanged_in_a_text(text: str) -> None:
    """Plain, inside a line, and colored."""
    whole = f"INFO 11-20 08:29:25 [utils.py:1] {text}\n"
    coloured = f"\x1b[36mINFO\x1b[0m \x1b[1m{text}\x1b[0m rest"

    assert Redactor().text(text) == text
    assert Redactor().text(whole) == whole
    assert Redactor().text(coloured) == coloured


@pytest.mark.slow
@pytest.mark.parametrize(("name", "secret", "text"), PLANTS, ids=IDS)
def test_a_secret_is_not_diagnosed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, secret: str, text: str
) -> None:
    """Not in text or JSON, for any place in the log."""
    del name
    (tmp_path / "a.log").write_text(log(text))

    for form in ("text", "json"):
        assert leaked(secret, shown(capsys, "diagnose", str(tmp_path / "a.log"), "--format", form)) == []


_OFFSETS = (0, 1, 8, 20, 40, 60)


@pytest.mark.slow
@pytest.mark.parametrize("told", ["--api-key ", "hf" + "_", "invalid key "])
@pytest.mark.parametrize(
    ("border", "offset"),
    [
        *((log_lines.MAX_LINE, offset) for offset in _OFFSETS),
        *((evidence_records.PIECE, offset) for offset in _OFFSETS),
    ],
)
def test_a_secret_across_the_readers_border_is_not_diagnosed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, told: str, offset: int, border: int
) -> None:
    """A line that is read in several pieces is cut inside the secret, and the second piece is quoted."""
    secret = core(f"{told} {offset}", 40)
    text = log("x") + ("" if told != "invalid key " else f"$ export VLLM_API_KEY={secret}\n")
    head = "ERROR 11-20 08:29:22 [utils.py:1] "
    filler = "x " * ((border - len(head) - offset) // 2)
    line = f"{head}{filler}{told}{secret} [Errno 98] Address already in use"
    (tmp_path / "a.log").write_text(f"{line}\n{text}")

    for form in ("text", "json"):
        assert leaked(secret, shown(capsys, "diagnose", str(tmp_path / "a.log"), "--format", form)) == []


@pytest.mark.parametrize("kind", list(ISSUED))
def test_a_secret_in_a_files_name_is_not_diagnosed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str
) -> None:
    """Neither of a file that is read nor of a rejected one."""
    prefix, make = ISSUED[kind]
    secret = make(f"file {kind}")
    (tmp_path / f"start-{prefix}{secret}.log").write_text(log("x"))

    for path in (*tmp_path.iterdir(), tmp_path / f"none-{prefix}{secret}.log"):
        for form in ("text", "json"):
            assert leaked(secret, shown(capsys, "diagnose", str(path), "--format", form)) == []
        assert leaked(secret, redact_name(path.name)) == []
        assert redact_name(path.name).endswith(".log")


def test_a_value_named_once_is_never_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Not even if an exception repeats it without its name."""
    secret = core("named once")
    text = log(f"the server refused {secret}") + f"$ export VLLM_API_KEY={secret}\n"
    (tmp_path / "a.log").write_text(text)

    for form in ("text", "json"):
        assert leaked(secret, shown(capsys, "diagnose", str(tmp_path / "a.log"), "--format", form)) == []


@pytest.mark.slow
@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_a_look_alike_is_diagnosed_unchanged(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> None:
    """The error is quoted with its own words."""
    (tmp_path / "a.log").write_text(log(text))
    found = json.loads(printed(capsys, "diagnose", str(tmp_path / "a.log"), "--format", "json")[0])

    assert "[secret" not in json.dumps(found)
    assert text in json.dumps(found, ensure_ascii=False).replace('\\"', '"')


def planted_log() -> str:
    """One log with every planted secret."""
    return "".join(f"WARNING 11-20 08:29:22 [utils.py:1] plant {n}\n{text}\n" for n, (_, _, text) in enumerate(PLANTS))


def all_leaked(text: str) -> list[str]:
    """The plants of which a text shows anything."""
    return [name for name, secret, _ in PLANTS if leaked(secret, text)]


@pytest.mark.slow
def test_a_document_is_redacted_equally_in_any_parts() -> None:
    """All secrets in one text above the block size, in parts of many sizes."""
    text = "x" * 1000 + "\n" + (planted_log() + "INFO filler of no meaning\n" * 8000) * 2
    whole = "".join(Redactor().pieces([text]))

    assert len(text) > 400_000
    assert all_leaked(whole) == []
    for size in (1000, 4097, 65_536, 300_000):
        assert "".join(Redactor().pieces(text[i : i + size] for i in range(0, len(text), size))) == whole


def test_a_streamed_output_is_redacted() -> None:
    """Line by line: secrets from earlier lines are known, those from later lines are not."""
    redactor = Redactor()
    shown = "".join(redactor.more(line) for line in planted_log().splitlines(keepends=True))

    assert all_leaked(shown) == []


@pytest.mark.skipif("record" not in cli._COMMANDS, reason="there is no such command")
@pytest.mark.parametrize("live", [False, True], ids=["a log", "a command"])
def test_no_secret_is_recorded(capfd: pytest.CaptureFixture[str], tmp_path: Path, live: bool) -> None:  # noqa: FBT001
    """Not in the case's files, nor in the output while a command runs."""
    log_file = tmp_path / "all.log"
    log_file.write_text(planted_log())
    what = ["--", sys.executable, "-c", f"print(open({str(log_file)!r}).read())"] if live else ["--log", str(log_file)]
    status = cli.run(["record", "--out", str(tmp_path / "case"), *what])
    captured = capfd.readouterr()

    assert status == 0
    assert all_leaked(captured.out + captured.err) == []
    assert all_leaked(everything(tmp_path / "case")) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "check"])
def test_no_secret_is_in_the_results_of_a_runbook(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    """Not in notebook, results, report, pages or either stream."""
    prefix, make = ISSUED["github"]
    named = make("a folder's name")
    folder = tmp_path / f"in-{prefix}{named}"
    case = folder / "planted"
    case.mkdir(parents=True)
    (case / "startup.log").write_text(planted_log() + log(NAMED["option"].format(named)))
    (case / "case.yaml").write_text(
        "id: planted\ntitle: A log full of secrets\nfiles: [startup.log]\nrunbooks: [single-gpu-oom]\n"
        "source: made for a test\nexpect: {outcome: failed}\n"
    )
    out = tmp_path / "out"
    arguments = ["-p", "evidence", str(case / "startup.log")] if command == "run" else ["--cases", str(folder)]
    cli.run([command, *(["single-gpu-oom"] if command == "run" else []), *arguments, "--out", str(out)])
    captured = capfd.readouterr()
    text = everything(out) + captured.out + captured.err

    assert (out / "results.json").is_file()
    assert [path.name for path in out.glob("*.ipynb")] != []
    assert all_leaked(text) == []
    assert leaked(named, text) == []
