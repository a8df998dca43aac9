"""Every kind of secret is redacted in its example, and its look-alike is left as it is."""

from __future__ import annotations

import json
import time

import pytest

from vllm_runbooks.core.redaction import issuers, kinds
from vllm_runbooks.core.redaction.redact import Redactor

SECRET = "Zk9-Qw4x8Rt2Lm6Vb1"  # noqa: S105 - made up
ENCODED = "WmsDUXc0eDhSdDJMbTZWYjE="


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.example[:40])
def test_a_secret_without_a_name_is_redacted(kind: kinds.Kind) -> None:
    """By the program, sentence or markup around it; a look-alike is unchanged."""
    value = SECRET if SECRET in kind.example else next(kind.pattern.finditer(kind.example))["value"]
    redacted = Redactor().text(f"first\n{kind.example}\nlast\n")
    assert value not in redacted
    assert redacted.startswith("first\n")
    assert redacted.endswith("\nlast\n")
    assert Redactor().text(f"first\n{kind.harmless}\nlast\n") == f"first\n{kind.harmless}\nlast\n"


@pytest.mark.parametrize(("kind", "prefixes", "rest"), issuers.ISSUERS, ids=lambda value: str(value)[:20])
def test_a_token_with_its_issuers_prefix_is_redacted(kind: str, prefixes: str, rest: issuers.Rest) -> None:
    """Without any name beside it; words after the prefix, or a letter before it, are no token."""
    for prefix in prefixes.split():
        redactor = Redactor()
        assert redactor.text(f"client('{prefix}{rest.example}')") == "client('[secret-1]')"
        assert set(redactor.counts) == {kind}
        harmless = f"client('{prefix}tensor-parallel-size', '{prefix}')"
        assert Redactor().text(harmless) == harmless


def test_a_digit_may_be_late() -> None:
    """Signs of base64 before the first digit do not end the search for it."""
    text = "client('glc_aB/cD+eFaB/cD+eFaB/cD+eFa1a1a1a1a1a1')"
    assert Redactor().text(text) == "client('[secret-1]')"


MANIFESTS = {
    "data": f"kind: Secret\nmetadata:\n  name: hub\n  labels:\n    color: blue\ndata:\n  color: {ENCODED}\n",
    "before its kind": f'data:\n  color: "{ENCODED}"\n  shade: {ENCODED}\nkind: Secret\nmetadata:\n  name: hub\n',
    "stringData": f"kind: Secret\nstringData:\n  color: {SECRET}\n  file.conf: |\n    first={SECRET}\n\n    {SECRET}\n",
    "in a list": f"items:\n- apiVersion: v1\n  kind: Secret\n  data:\n    color: {ENCODED}\n- kind: Pod\n",
    "of an item": f"items:\n  - data:\n      color: {ENCODED}\n    kind: Secret\n  - kind: Pod\n",
    "with comments": f"kind: Secret # of the hub\nstringData: # as text\n  color: {SECRET} # blue\n",
    "quoted": f'kind: Secret\nstringData:\n  color: "a \\" {SECRET}" # blue\n  "my shade": {SECRET}\n',
    "on the next line": f"kind: Secret\nstringData:\n  color:\n    {SECRET}\n  shade: a\n    {SECRET}\n",
    "below a comment": f"kind: Secret\nstringData:\n# blue\n{{{{- if .Values.on }}}}\n  color: {SECRET}\n",
    "in a block": f"kind: Secret\nstringData:\n  file: |2-\n    # {SECRET}\n",
    "in braces": f'kind: Secret\nstringData: {{color: {SECRET}, shade: "{SECRET}"}}\n',
    "in one line": f'- {{apiVersion: v1, kind: Secret, stringData: {{color: {SECRET}, shade: "{SECRET}"}}}}\n',
    "in braces, wrapped": f'kind: Secret\nstringData: {{color: a, shade: "first\n    {SECRET}", more: {SECRET}}}\n',
    "with explicit keys": f"kind: Secret\nstringData:\n  ? color\n  : {SECRET}\n",
    "JSON": json.dumps({"kind": "Secret", "metadata": {"labels": {"a": "blue"}}, "data": {"color": ENCODED}}),
    "JSON, sorted": json.dumps({"items": [{"data": {"color": ENCODED}, "kind": "Secret"}]}, indent=1),
    "JSON with quotes and braces": json.dumps(
        {"kind": "Secret", "stringData": {"a": f"it's {{{SECRET}", "b": f'"{SECRET}'}}
    ),
    "JSON in JSON": json.dumps({"a": json.dumps({"data": {"b": None, "color": ENCODED}, "kind": "Secret"}, indent=1)}),
}


PARAMETERS = {
    f"{name}, as a parameter": "log = " + json.dumps(text)
    for name, text in MANIFESTS.items()
    if not name.startswith("JSON") and '"' not in text
}


@pytest.mark.parametrize("text", [*MANIFESTS.values(), *PARAMETERS.values()], ids=[*MANIFESTS, *PARAMETERS])
def test_all_values_of_a_kubernetes_secret_are_redacted(text: str) -> None:
    """Whatever their keys are; labels and other objects stay."""
    redacted = Redactor().text(text)
    assert SECRET not in redacted
    assert ENCODED not in redacted
    assert ("blue" in redacted) == ("blue" in text)
    assert "Secret" in redacted
    assert ("Pod" in redacted) == ("Pod" in text)


@pytest.mark.parametrize(
    "text",
    [
        "kubectl create secret generic s --from-literal='color=my own {}'", 'ipmitool -H host -P "my own {}" power on',
        'kubectl create secret generic s --from-literal=color="my own {}"',
        "kubectl create secret generic s --from-literal=color=-{}",
    ],
)  # fmt: skip
def test_an_argument_in_quotes_is_redacted_to_its_end(text: str) -> None:
    """With the blanks in it; a literal may begin with a dash."""
    redacted = Redactor().text(text.format(SECRET))
    assert SECRET not in redacted
    assert "my own" not in redacted


def test_many_objects_of_json_are_read_in_linear_time() -> None:
    """Secrets and data that belong to other objects."""
    text = '{"kind": "Secret",\n' + '"data": {"a": "b"}}\n' * 10_000
    begin = time.process_time()
    Redactor().text(text)
    assert time.process_time() - begin < 2


def test_many_lists_of_secrets_are_read_in_linear_time() -> None:
    """A document is read once, however many times it says that it is a list."""
    text = "kind: SecretList\n  data:\n    a: b\n" * 10_000
    begin = time.process_time()
    Redactor().text(text)
    assert time.process_time() - begin < 4


def test_a_wrapped_token_is_redacted_in_a_parameter() -> None:
    """Its second row is found although the line's end is escaped."""
    token = "hf_Zk9Qw4x8Rt2Lm6Vb1Zk9Qw4x8Rt2Lm6Vb1"  # noqa: S105 - made up
    redacted = Redactor().text(f'pasted_log = "HF_TOKEN={token[:20]}\\n{token[20:]}\\nnext line"')
    assert token[20:] not in redacted
    assert redacted.endswith(' line"')


@pytest.mark.parametrize(
    "text",
    [
        "kind: ConfigMap\ndata:\n  color: blue-And-Green-12345\n---\nkind: Secret\nmetadata:\n  name: hub\n",
        'kind: Secret\ndata:\n  color: {{ .Values.color }}\n  shade: ${SHADE}\n  none: ""\n',
        '{"items": [{"kind": "ConfigMap", "data": {"color": "blue12345"}}, {"kind": "Secret"}]}',
        "- {kind: ConfigMap, data: {color: blue-And-Green-12345}}\n- {kind: Secret, metadata: {name: hub}}\n",
        "kind: SecretProviderClass\ndata:\n  color: blue-And-Green-12345\n",
        "        - name: VLLM_LOGGING_LEVEL\n          value: DEBUG\n        - name: HF_TOKEN\n",
    ],
)
def test_what_is_like_a_kubernetes_secret_is_not_redacted(text: str) -> None:
    """Values of other objects, templates, and references."""
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        f"HF_TOKEN1={SECRET}", f"password0={SECRET}", f"hf_token_v2: {SECRET}", f"export S3_SECRET_KEY2={SECRET}",
        f"    - value: {SECRET}\n      name: HF_TOKEN\n", f'{{"value": "{SECRET}", "name": "HF_TOKEN"}}',
        f"PuTTY-User-Key-File-3: x\nPrivate-Lines: 1\n{ENCODED}\nPrivate-MAC: 0a1b2c3d4e5f60718293a4b5c6d7e8f9\n",
    ],
)  # fmt: skip
def test_numbered_names_and_reversed_fields_are_secret(text: str) -> None:
    """A number at the end of a name, a value before its name, and PuTTY's files."""
    redacted = Redactor().text(text)
    assert not any(value in redacted for value in (SECRET, ENCODED, "0a1b2c3d4e5f60718293a4b5c6d7e8f9"))


@pytest.mark.parametrize(
    "text",
    [
        "num_tokens2=4096 max_token1: 12", "password: (not set)", "authorization: required",
        "GPU-8f7f2c4e-1111-2222-3333-444455556666",
        "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", "vllm 0.32.0+cu130 torch==2.9.1", "api_key: str | None = None",
        "/var/run/secrets/kubernetes.io/serviceaccount/token", "the token is invalid", "The API key is missing.",
        "password is required", "eos_token1: </s>", "the next token is 151645", "tokens per second: 1234.5",
    ],
)  # fmt: skip
def test_harmless_text_is_unchanged(text: str) -> None:
    """Types, paths, names of models, GPUs, versions and sentences about secrets."""
    assert Redactor().text(text) == text
