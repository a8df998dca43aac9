"""No secret leaves the reader in any form, and look-alikes stay unchanged."""

from __future__ import annotations

import base64
import json
import random
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost import LIMIT, growth, seconds
from rows import in_one_test
from vllm_runbooks.catalog import compiled
from vllm_runbooks.catalog.authored import compiling
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.printed import Moment
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import Quote
from vllm_runbooks.core.redaction import parts as secret_parts
from vllm_runbooks.core.redaction import places as secret_places
from vllm_runbooks.core.redaction import redact
from vllm_runbooks.core.redaction.places import Secret, names_secret
from vllm_runbooks.core.redaction.redact import Redactor, redact_record, redact_text, watch
from vllm_runbooks.reading import startup_log

CANARY = "Zk3PqW9xLm2RtY7uB4vN"
ISSUED = [
    "hf_" + CANARY + "AbCdEfGhIj", "sk-" + CANARY, "sk-proj-" + CANARY + "_x-y",
    "nvapi-" + CANARY, "ghp_" + CANARY, "gho_" + CANARY,
    "github_pat_11A_" + CANARY, "glpat-" + CANARY, "AKIAZK3PQW9XLM2RTY7U", "AIza" + CANARY + "ABCDEFGHIJK12345",
    "xoxb-123456-" + CANARY,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + CANARY,
]  # fmt: skip
NAMED = [
    f"--api-key {CANARY}", f"--api-key={CANARY}", f"--api-key '{CANARY} with words'", f'--api-key "{CANARY}" --port 1',
    f"--hf-token {CANARY}", f"--token {CANARY}", f"api_key: {CANARY}", f"'api_key': ['{CANARY}']",
    f"'api_key': '{CANARY}'",
    f"'api_key': ('{CANARY}',)", f"api_keys=['a', '{CANARY}']", f"Namespace(host=None, api_key='{CANARY}', port=8000)",
    f"(port=1,api_key={CANARY},host=2)", f"OPENAI_API_KEY={CANARY}", f"export HF_TOKEN={CANARY}",
    f"HUGGING_FACE_HUB_TOKEN={CANARY}",
    f"MY_TOKEN={CANARY}", f"AWS_SECRET_ACCESS_KEY={CANARY}", f"AWS_SESSION_TOKEN={CANARY}", f"DB_PASS={CANARY}",
    f'declare -x WANDB_API_KEY="{CANARY}"', f'{{"user":"a","password":"{CANARY}","n":1}}',
    f'{{\\"api_key\\": \\"{CANARY}\\"}}',
    f"https://bob:{CANARY}@example.org/x", f"https://{CANARY}@example.org/x", f"Authorization: Bearer {CANARY}",
    f"'Authorization': 'Bearer {CANARY}'", f'-H "Authorization: Bearer {CANARY}"', f"Authorization: Basic {CANARY}==",
    f"x-api-key: {CANARY}", f"authorization: {CANARY}", f"api_key%3D{CANARY}&x=1", f"?token={CANARY}&a=b",
    f"Cookie: session={CANARY}",
    f"ssl_keyfile_password='{CANARY}'", f"password {CANARY}", f"api_key = {CANARY}", f"    api_key = '{CANARY}'",
    f"token={CANARY},", f"secret => {CANARY}",
    f"Authorization: Token {CANARY}", f"'Authorization': 'ApiKey {CANARY}'", f"--api-key \\\n  {CANARY}",
    f"--api-key\\\n  {CANARY}",
    f"api_key=SecretStr('{CANARY}')", f"api_key=b'{CANARY}'", f'"api_key": "abc\\"{CANARY}"',
    f"http://u:p@{CANARY}@host/",
    f"Cookie: a=12345678; session={CANARY}", f"MYSQL_PWD={CANARY}", f"PASS={CANARY}", f"OPENAI_KEY={CANARY}",
    f"SECRET_KEY_BASE={CANARY}", f"API_TOKEN_V2={CANARY}", f"my_token={CANARY}", f"huggingface_token={CANARY}",
    f"DefaultEndpointsProtocol=https;AccountKey={CANARY};x=1", f"AZURE_STORAGE_KEY={CANARY}",
    f"PRIVATE-TOKEN: {CANARY}", f"https://h/x?sv=1&sig={CANARY}&se=2", f"secret: {CANARY}ed",
    f"--api-key {CANARY}, {CANARY} again",
]  # fmt: skip
PEM = f"-----BEGIN RSA PRIVATE KEY-----\nMIIE{CANARY}\n{CANARY}\n-----END RSA PRIVATE KEY-----"
HARMLESS = [
    "RPC error: InvalidAuthToken: Authentication token is missing or incorrect", "VLLM_API_KEY: is not set",
    "secret: mounted at /run", "credentials: created", "the password for the database is stored in a vault",
    "<token>bos</token>",
    'export VLLM_API_KEY="${VLLM_API_KEY:?}"', r'"export VLLM_API_KEY=\"${VLLM_API_KEY:?is missing}\"\n"',
    "export VLLM_API_KEY=&quot;${VLLM_API_KEY:?}&quot;", "VLLM_API_KEY=&#34;$VLLM_API_KEY&#34; vllm serve m",
    "GPU-3f2a7c1e-9b1d-4c6e-8f00-1234567890ab", "commit 9c1b2e0f7c7a4b1d8e2f3a4b5c6d7e8f90a1b2c3",
    "vLLM 0.19.0rc1+g1234567", "npm_configCacheDirectoryLocation=/tmp xai-GrokModelForCausalLMWithLongName",
    "GPU KV cache size: 798,624 tokens", "eos_token='<|im_end|>'", "tokenizer='Qwen/Qwen2.5-0.5B', tokenizer_mode=auto",
    "return_tokens_as_token_ids=False", "token=5", "api_key=None,served_model_name=None", "max_num_batched_tokens=2048",
    "basic functionality of the engine", "Bearer tokens are accepted", "hf_token=None, api_key=[]",
    "--api-key $VLLM_API_KEY",
    'export VLLM_API_KEY="${VLLM_API_KEY:?}"',
    "export VLLM_API_KEY=&quot;${VLLM_API_KEY:?}&quot;",
    'export VLLM_API_KEY=\\"${VLLM_API_KEY}\\"',
    "--api-key <your-key>", "unexpected token id 12345", "pad_token_id=151643, stop_token_ids=[1, 2]",
    "special token <|x|>",
    "the key cache is on cuda:0", "Authorization header missing", "tcp://10.0.0.1:5555",
    "http://0.0.0.0:8000/v1/models",
    "image_token=abc12345xyz", "Waiting for token 12 of 15", "passed 12 checks, password policy unchanged",
    'api_key="EMPTY"',
    "/root/.cache/vllm/torch_compile_cache/53309fb7e3/rank_0_0",
    "a7c56a287d6bc73f13d9858ad8e60b103c9a539350d9acfe4f98c0a15ebd82e3",
    "http://user:***@host/x", "ftp://anonymous-nobody-here@host/x", "block hash 0x7f3a9c", "secret: null",
    "kv_cache_dtype=fp8_e4m3", "MAX_TOKEN=4096", "EOS_TOKEN=2", "PAD_TOKEN: 0", "secrets: 3", "ssh://git:22@x",
    "PWD=/root", "OLDPWD=/root", "PASS: 3 tests", "PUBLIC_KEY=abcdefgh12345678",
]  # fmt: skip


def test_the_end_of_a_key_whose_beginning_is_cut_off_is_hidden() -> None:
    """A log that was cut by `tail` shows the last lines of a key only; the lines before them stay."""
    tail = PEM.partition("\n")[2]

    assert redact_text(f"loading weights took 3\n{tail}\nready\n") == "loading weights took 3\n[secret-1]\nready\n"


@in_one_test("text", [*ISSUED, *NAMED, PEM, PEM.replace("\n", "\\n"), PEM.rpartition("\n")[0]])
def test_secrets_are_replaced(text: str) -> None:
    """Each kind of secret is removed, and replacing again changes nothing."""
    redact.forget()  # otherwise the first row would reveal the secrets of the others
    shown = redact_text(f"before {text} after")

    assert CANARY not in shown
    assert "ZK3PQW9XLM2RTY7U" not in shown
    assert "[secret-" in shown
    assert redact_text(shown) == shown


BODY = [f"{CANARY}{CANARY[::-1]}{number:024}" for number in range(3)] + [f"{CANARY[:14]}=="]
"""Lines of a private key, the last one short."""
HEADED = {
    "none": [],
    "of an encrypted key": ["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,0123456789ABCDEF", ""],
    "of PGP": ["Version: GnuPG v2", ""],
}


@in_one_test("ends", [True, False], ids=["whole", "cut off"])
@in_one_test("head", list(HEADED))
@in_one_test("line", ["{}", "    {}", "│ {:<80} │", "(APIServer pid=7) INFO 11-20 08:29:22 [utils.py:1] {}"])
def test_a_private_key_is_replaced_in_any_surroundings(line: str, head: str, ends: bool) -> None:  # noqa: FBT001
    """Indented, boxed or after a logger's prefix; as a document, as a stream, and repeated."""
    key = ["-----BEGIN RSA PRIVATE KEY-----", *HEADED[head], *BODY, *(["=aB3d"] if "PGP" in head else [])]
    lines = [line.format(part) for part in [*key, *(["-----END RSA PRIVATE KEY-----"] if ends else [])]]
    lines = [f"{text}\n" for text in ["INFO before", *lines, "Loading", "INFO done"]]
    redactor, live = Redactor(), Redactor()

    for shown in (redactor.text("".join(lines)), "".join(map(live.more, lines))):
        assert [part for part in (*BODY, CANARY[:14]) if part in shown] == []
        assert shown.startswith("INFO before\n")
        assert shown.endswith("Loading\nINFO done\n")
    assert redactor.text(f"bad line {BODY[1]} in the key").startswith("bad line [secret-")


@in_one_test("text", HARMLESS)
def test_look_alikes_stay(text: str) -> None:
    """Text that resembles a secret is shown unchanged."""
    assert redact_text(text) == text


def test_the_surroundings_of_a_secret_stay() -> None:
    """Names, quotes, hosts and the fields that follow are kept."""
    shown = [
        re.sub(r"secret-\d+", "secret", redact_text(text))
        for text in (
            f"--api-key={CANARY} --port 1", f'{{"password": "{CANARY}", "n": 1}}', f"https://bob:{CANARY}@h/x",
            f"(api_key={CANARY},port=2)", f"Authorization: Bearer {CANARY} rest",
        )
    ]  # fmt: skip

    assert shown == [
        "--api-key=[secret] --port 1",
        '{"password": "[secret]", "n": 1}',
        "https://bob:[secret]@h/x",
        "(api_key=[secret],port=2)",
        "Authorization: Bearer [secret] rest",
    ]


def test_one_secret_has_one_placeholder() -> None:
    """The same value is recognisable as the same, another as another."""
    one, again, other = (redact_text(f"--api-key={key}") for key in (CANARY, CANARY, CANARY[::-1]))

    assert one == again
    assert one != other


@in_one_test(
    ("name", "expected"),
    [
        ("api_key", True), ("hf_token", True), ("ssl_keyfile_password", True), ("VLLM_API_KEY", True),
        ("HF_TOKEN", True), ("redis_password", True), ("RAY_REDIS_PASSWORD", True), ("accessToken", True),
        ("x-api-key", True), ("token_budget", False), ("pad_token_id", False), ("max_token", False), ("key", False),
        ("CACHE_KEY", False), ("EOS_TOKEN", False),
        ("tokenizer", False), ("eos_token", False), ("max_tokens", False), ("port", False), ("api_key_file", False),
    ],
)  # fmt: skip
def test_names_identify_secrets(name: str, expected: bool) -> None:  # noqa: FBT001 - a table's column
    """A field's name decides where its value cannot."""
    assert names_secret(name) is expected


def lines_with_secrets() -> list[str]:
    """Log lines around every canary: quotes, warnings, arguments, commands, exceptions, traceback locals."""
    head = "(EngineCore_DP0 pid=7) ERROR 11-20 08:29:25 [core.py:12] "
    found = []
    for secret in (*ISSUED, *NAMED):
        found += [
            f"WARNING 11-20 08:29:25 [utils.py:1] odd value {secret}",
            f"\x1b[31mWARNING\x1b[0m 11-20 08:29:25 [utils.py:1] \x1b[1m{secret}\x1b[0m",
            f"INFO 11-20 08:29:25 [utils.py:233] non-default args: {{'model': 'm', {secret}}}",
            f"root@host:/# vllm serve m {secret}",
            f"{head}Traceback (most recent call last):",
            f'{head}  File "/x/core.py", line 3, in run',
            f"{head}    │ key = {secret}",
            f"{head}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB {secret}",
            f"ValueError: bad {secret}",
            f"INFO 11-20 08:29:25 [model.py:5] Starting vLLM server on http://u:{CANARY}@0.0.0.0:8000 {secret}",
        ]
    return found


@pytest.mark.slow
def test_no_secret_reaches_a_record() -> None:
    """No record contains a canary, for any line with one."""
    shelf = compiled.load(compiling.compile_index)
    text = "\n".join(
        ["INFO 11-20 08:29:25 [api_server.py:1] vLLM API server version 0.19.0", *lines_with_secrets(), PEM]
    )

    starts = startup_log.read(Evidence((Document("a.log", text),)), shelf)
    shown = json.dumps([document(start) for start in starts], ensure_ascii=False) + repr(starts)

    assert len(starts) > 10
    assert CANARY not in shown
    assert "ZK3PQW9XLM2RTY7U" not in shown


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200), st.sampled_from([*NAMED, *ISSUED]), st.text(max_size=50))
def test_any_text_can_be_redacted(before: str, secret: str, after: str) -> None:
    """No surroundings raise an error; after a blank the secret is found in all of them."""
    shown = redact_text(f"{before}\n{secret}\n{after}")

    assert CANARY not in shown or CANARY in before + after


def test_a_run_has_its_own_placeholders_and_counts() -> None:
    """They begin with 1 in each run, and a value keeps its own."""
    redactor = Redactor()
    first = redactor.text(f"--api-key {CANARY} 'password': 'xyz'")

    assert first == "--api-key [secret-1] 'password': '[secret-2]'"
    assert redactor.text(f"no name for {CANARY}") == "no name for [secret-1]"
    assert redactor.counts == {"key": 1, "password": 1, "repeated": 1}
    assert redactor.name(f"x-{CANARY}.log") == "x-[secret-1].log"


def test_a_value_before_its_name_is_replaced() -> None:
    """In a whole text, and in one that is cut inside the secret."""
    redactor = Redactor()

    assert redactor.text(f"{CANARY} was refused\n--api-key {CANARY}\n").count(CANARY) == 0
    assert redactor.text(f"cut off: {CANARY[:12]}") == "cut off: [secret-2]"
    assert redactor.text(f"{CANARY[9:]} was cut off") == "[secret-3] was cut off"
    assert redactor.text(f"{CANARY[:12]} is another") == f"{CANARY[:12]} is another"


def test_a_streamed_document_reveals_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts are unchanged; records are redacted after it, at a pause or at the end."""
    monkeypatch.setattr(redact, "_shared", Redactor())
    passing = watch(["--api-key ", f"{CANARY}\n", "", "more"])
    record = Quote(0, 1, 1, f"refused {CANARY}")
    parts = [next(passing) for _ in range(3)]

    assert parts == ["--api-key ", f"{CANARY}\n", ""]
    assert redact_record(record) == Quote(0, 1, 1, "refused [secret-1]")
    assert redact_record([{"a": (record,), "b": 1}]) == [{"a": (Quote(0, 1, 1, "refused [secret-1]"),), "b": 1}]
    assert redact_record(Moment(1.0, CANARY)) == Moment(1.0, "[secret-1]")
    assert list(passing) == ["more"]
    assert redact_record(other := Quote(0, 1, 1, "nothing")) is other


LONG = "".join(f"{CANARY}{number:04}" for number in range(120))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"api_key={LONG} end", "api_key=[secret-1] end"),
        (f"api_key=%5A{CANARY[1:]}", "api_key=[secret-1]"),
        (
            f"{(begin := '-----BEGIN PRIVATE KEY-----')}\n{BODY[0]}\n{begin}\n{BODY[1]}\n-----END PRIVATE KEY-----\n",
            "[secret-1]\n",
        ),
        ('{"auth": "bm90aGluZyBvZiB0aGF0"}', '{"auth": "bm90aGluZyBvZiB0aGF0"}'),
        (f"vllm serve --api-key{f' {CANARY}' * 17} end", f"vllm serve --api-key{' [secret-1]' * 17} end"),
        ("-----BEGIN PRIVATE KEY-----" + f"\n{'A' * 16}" * 20 + "\nend of it", "[secret-1]\nend of it"),
    ],
    ids=["a long value", "coded at its beginning", "two keys, one end", "no login", "many keys", "an open key"],
)
def test_the_edges_of_a_secret(text: str, shown: str) -> None:
    """It is replaced as a whole, without its neighbors."""
    assert Redactor().text(text) == shown


def test_hostile_input_has_bounded_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a limit they share a placeholder, and only the latest are remembered."""
    monkeypatch.setattr(redact, "_MAX_TOLD_APART", 300)
    redactor = Redactor()
    text = "".join(f"api_key={CANARY}{number} " for number in range(400))

    assert CANARY not in redactor.text(text)
    assert redactor.text(f"api_key={CANARY}x") == "api_key=[secret]"
    assert redactor.text(f"{CANARY}399") == "[secret]"


@pytest.mark.parametrize(
    "text",
    [
        "VLLM_API_KEY=env.8f7a9d2eQQ71zz", "--api-key app.k93jf02kdQ", "api_key=app.prod.8f7aK2",
        "PASSWORD=request.9f8sK2", "MY_API_KEY=config.Kd93jf", "password: os.Kd93jf02", "API_KEY=<abc8F7a9d2e",
        "API_KEY=<abc8F7a9d2e a -> b", "password=$(Kd93jf02kd", "password=your-9dk3jF02kdQ7", "api_key=get_8f7a9d2e(x",
        "api_key=config.get(x)8f7a9d2e", "api_key=list[8f7a9d2e",
    ],
)  # fmt: skip
def test_text_that_resembles_code_is_replaced(text: str) -> None:
    """Code has no digits in its names, and closes its brackets."""
    assert re.fullmatch(r"[\w-]+(?:=|: | )\[secret-1\](?: a -> b)?", Redactor().text(text))


@in_one_test(
    "text",
    [
        "api_key=os.getenv('A', x)", "api_key=config.get(name, 1)", "password=$(cat /run/secrets/x1)",
        "HF_TOKEN=$(HF_TOKEN_2)", "--api-key <your key here>", "api_key=<object at 0x7f3a9c>",
        "f(api_key=args.api_key)",
        "f(api_key=config.keys[0])", "api_key=os.environ.get(", "api_key=get_key(str(a1))", "api_key: <key-1>",
        "api_key: Optional[List[str]] = None", "api_key=your-api-key", "--api-key &lt;your-key&gt;",
        "docker login -u bob -p $(cat /x1) h", "api_key = settings.api_key;",
    ],
)  # fmt: skip
def test_code_and_placeholders_stay(text: str) -> None:
    """In one piece or with blanks in it."""
    assert Redactor().text(text) == text


def test_the_first_secrets_are_never_forgotten() -> None:
    """For any number of later ones; of those, the latest are remembered."""
    redactor = Redactor()
    redactor.text(f"--api-key {CANARY}\n")
    redactor.text("".join(f"GET /?token=k{number:05}{CANARY[::-1]}\n" for number in range(3000)))

    assert redactor.text(f"refused {CANARY}") == "refused [secret-1]"
    assert CANARY[::-1] not in redactor.text(f"refused k02999{CANARY[::-1]} again")
    assert len(redactor._again) == redact._MAX_AGAIN
    assert set(redactor._edges) == {edge for value in redactor._again for edge in (value[:8], value[-8:])}


@pytest.mark.parametrize("before", ["x" * 6000, "é ok", "日本 log " * 3])
def test_long_base64_is_decoded(before: str) -> None:
    """Also with non-ASCII text, and with one invalid byte."""
    for raw in (
        f"{before} --api-key {CANARY}".encode(),
        f"plain text and more {CANARY} --api-key {CANARY}".encode() + b"\xff",
    ):
        blob = base64.b64encode(raw).decode()
        assert Redactor().text(f"blob {blob} read") == "blob [secret-1] read"


@in_one_test(
    ("text", "shown"),
    [
        # A token of general name is a secret by its length, its digits or its letters.
        ("token: abcdefg1", "token: *"), ("token: abcdef1", None), ("token=abcdefghijkl", None),
         ("token=aBcDeFgH", "token=*"),
        ("token=" + "a" * 24, "token=*"), ("token=" + "a" * 23, None), ("token=abcdefg\u00e91", None),
         ("token=12345678901", None),
        ("TOKEN=abc", "TOKEN=*"), ("/x?token=abc", "/x?token=*"), ("/x?a=1&token=abc", "/x?a=1&token=*"),
        # A count has up to seven digits.
        ("secret=1234567", None), ("secret=12345678", "secret=*"), ("secrets: 1234567", None),
         ("api_key=123", "api_key=*"),
        # A secret in prose has to look like a value.
        ("password hunter2abc", "password *"), ("password hunter2a", "password *"), ("password hunter2", None),
        ("password hunterabc", None), ("password hunter-2abc", None), ("--password hunter", "--password *"),
        ("password is hunter2abc", "password is *"), ("password is weak", None),
        ("password is UTF-8-encoded", None), ("the token is gpt-4o-mini-2024", None), ("Jeton : 128009 ids", None),
        ("/metrics?key=vllm-0-19-0-cu128", None), ("/x?key=kv-cache-dtype-fp8-e5m2", None),
        ('<pad_token value="pad_12ab"/>', None),
        ("token is hunter2Abc", "token is *"), ("token is hunter2abc", None),
         ("token is model-v2-chat", None), ("token is abc12de", None),
        ("Das Passwort lautet: hunter2abc", "Das Passwort lautet: *"), ("el token es：hunter2Abc", "el token es：*"),
        ("Votre jeton est : hunter2Abc", "Votre jeton est : *"), ("el token es: valido", None),
        ('<secret value="hunter2"/>', '<secret value="*"/>'), ('<span value="hunter2"/>', None),
        ("https://x.y/?key=hunter2Abcde", "https://x.y/?key=*"), ("https://x.y/?key=layers-10", None),
        ("GET /v1/models?alt=json&key=hunter2Abcde", "GET /v1/models?alt=json&key=*"), ("?key=hunter2Abcde", "?key=*"),
        ("why?key=value", None), ("hits?key=num_cached_tokens_1", None),
        # Paths of files with secrets, and the file of accounts.
        ("credentials=/var/x1y2z3", None), ("secret=./x1abcdef", None), ("secret=~/abc1234", None),
         ("secret=../abc1234", None),
        ("password=/abc1234x", "password=*"), ("-v /etc/passwd:abc12345", None), ("passwd:abc12345", "passwd:*"),
        # A word that reports on a secret, only after a bare name and a colon.
        ("secret: mounted", None), ("the credential: missing", None), ("secret: keepwalking", "secret: *"),
        ("client_secret: created", "client_secret: *"), ("secret=mounted", "secret=*"),
        ('"secret": "mounted"', '"secret": "*"'), ('"client_secret": "keepwalking"', '"client_secret": "*"'),
        ("secret_key: keepwalking", "secret_key: *"), ("SECRET_KEY=keepwalking", "SECRET_KEY=*"),
        ("secret_access_key=sharing", "secret_access_key=*"), ("client_secret=plainlocked", "client_secret=*"),
        # Its own name, in a usage text or a line of code.
        ("--api-key API_KEY", None), ("api_key=my_api_key", None), ("api_key=my_api_key1", "api_key=*"),
         ("password=Password", None),
        ("password=pass", "password=*"),
        # Tokens of a tokenizer are short lower-case words.
        ("<token> eos </token>", None), ("<token>token</token>", None), ("<token>tokens</token>", "<token>*</token>"),
        ("<token>Pad</token>", "<token>*</token>"),
        ("<token>AbCdEfGhIjKlMnOpQrStUvWxYz</token>", "<token>*</token>"),
        # Words of a quoted passphrase.
        ('passphrase "correct horse"', 'passphrase "*"'), ('passphrase "for keys"', None),
        ('passphrase "to be of use"', 'passphrase "*"'), ('passphrase "required"', None),
        # Keys in OpenAI's form: one long piece with digits throughout.
        ("sk-abcdefghijklm123", "*"), ("sk-abcdefghijklmn12", None), ("sk-aBcDefghijklmn1x", "*"),
         ("sk-aBcDefghijklmnox", None),
        ("sk-abcdefg1234-abcdefg1234", None), ("sk-abcdefgh1234-abcd", "*"), ("sk-abcdefghijkl123", None),
        # Logins in addresses: a port is not one, nor a user without a digit.
        ("http://a:b1c@h/x", "http://a:*@h/x"), ("ssh://git:22@x", None), ("ssh://git:2a@x", "ssh://git:*@x"),
         ("http://a:22@x", "http://a:*@x"),
        ("https://abcdefghijklmno1@h/x", "https://*@h/x"), ("https://abcdefghijklmnop@h/x", None),
         ("https://abcdefghijklmn1@h/x", None),
        # Further keys of an option, in a command and in prose.
        ("vllm serve m --api-key abc12 def", "vllm serve m --api-key * *"),
         ("give --api-key abc12 def", "give --api-key * def"),
        ("give --api-key abc12 def345", "give --api-key * *"), ("give --api-key abc12 def34", "give --api-key * def34"),
        ("give --api-key abc12 def-345", "give --api-key * *"),
         ("give --api-key abc12 def!345", "give --api-key * def!345"),
        ("vllm serve m --api-key abc12 def.", "vllm serve m --api-key * def."),
         ("vllm serve m --api-key abc12 -x", "vllm serve m --api-key * -x"),
        ("vllm serve m --api-key abc12 'def' --port 1", "vllm serve m --api-key * '*' --port 1"),
        ("vllm serve m --api-key 'abc12' def --port 1", "vllm serve m --api-key '*' * --port 1"),
        ("vllm serve m --api-key abc12 $KEY def", "vllm serve m --api-key * $KEY def"),
        ("vllm serve m --hf-token abc12 def", "vllm serve m --hf-token * def"),
        # Lists of keys: numbers and names in them do not count.
        ("api_keys=['k1', 22, 'k3']", "api_keys=['*', 22, '*']"), ("api_key=[]", None),
         ("api_keys=('k1', api_keys)", "api_keys=('*', api_keys)"),
        # A variable that is read, and one with a default.
        ("$API_KEY abc12345", None), ("${API_KEY:-abc12345}", "${API_KEY:-*}"), ("${API_KEY} abc12345", None),
         ("${API_KEY:=abc12345}", "${API_KEY:=*}"),
        ("x ${API_KEY:-'abc12345'}", "x ${API_KEY:-'*'}"), ("${API_KEY:+--api-key $API_KEY}", None),
        # Cookies: each of them, except attributes for lifetime and scope.
        ("Cookie: a=b1c2; d=e3f4", "Cookie: *; d=*"),
         ("Set-Cookie: a=b1c2; path=/x; max-age=9", "Set-Cookie: *; path=/x; max-age=9"),
        ("Authorization: ApiKey abc1", "Authorization: ApiKey *"),
         ("Bearer abcdefg", None),
        ("Bearer abcdefg1", "Bearer *"), ("Bearer abcdefgh", None), ("Bearer Abcdefgh", "Bearer *"),
    ],
)  # fmt: skip
def test_the_border_between_secrets_and_other_text(text: str, shown: str | None) -> None:
    """Pairs on both sides of each limit; a star is a placeholder."""
    assert re.sub(r"\[secret-\d+\]", "*", Redactor().text(text)) == (text if shown is None else shown)


@in_one_test(
    ("text", "kind"),
    [
        ("DB_PASS=abc12345", "password"), ("MYSQL_PWD=abc12345", "password"), ("masterauth: abc12345", "password"),
        ("passphrase=abc12345", "password"), ("Cookie: a=abc12345", "cookie"),
         ("authorization: abc12345", "authorization"),
        ("/x?sig=abc12345", "authorization"), ("HF_TOKEN=abc12345", "token"), ("auth_token=abc12345", "token"),
        ("api_key=abc12345", "key"), ("auth_key=abc12345", "key"), ("secret=abc12345", "key"),
         ("http://a:abc1@h/", "url"),
        ("https://hooks.slack.com/services/T0000000000/B0000000000/x", "webhook"), ("Bearer abc12345", "authorization"),
        ("docker login -p abc12345 h", "password"), ("AKIA" + "A1" * 8, "aws"), ("hf_" + "aB1c" * 6, "huggingface"),
        ("sk-" + "ab1c" * 6, "openai"), (PEM, "private_key"),
         (base64.b64encode(b"API_KEY=abc12345xyz").decode(), "encoded"),
        ('{"auth": "' + base64.b64encode(b"bob:abc12345").decode() + '"}', "authorization"),
         ("('api_key', 'abc12345')", "key"),
        ("name: API_KEY, value: abc12345", "key"),
    ],
)  # fmt: skip
def test_each_replacement_is_counted_by_its_kind(text: str, kind: str) -> None:
    """By the issuer, the name next to it, or the form."""
    redactor = Redactor()
    redactor.text(text)

    assert redactor.counts == {kind: 1}


@pytest.mark.parametrize(
    ("value", "is_known"),
    [
        ("abcdefg1", False), ("abcdefghi1", True), ("abcdef1", False), ("abcdefgh", False), ("12345678", False),
         ("abcd!fgh", True),
         ("abcd_fgh", False),
        ("ab-c.d_e/f:g", False), ("aBcDefgh", True), ("abCDefGH", False), ("abCDefG1", True), ("a1" * 2000, True),
         ("a1" * 2000 + "b", False),
    ],
)  # fmt: skip
def test_a_value_is_recognized_if_it_is_unlike_a_word(value: str, is_known: bool) -> None:  # noqa: FBT001 - a table's column
    """From eight characters with a digit, a symbol, or alternating kinds."""
    redactor = Redactor()
    redactor.value(value)

    assert (value not in redactor.text(f"got {value} here")) is is_known


@pytest.mark.parametrize(
    ("text", "turns"),
    [("", 0), ("abc", 0), ("aB", 1), ("aBc1", 3), ("a-B-c", 2), ("1a1a", 3), ("AB12ab", 2), ("\u00e9E", 1)],
)
def test_changes_between_kinds_of_characters(text: str, turns: int) -> None:
    """Lower case, upper case and digits; other characters do not count."""
    assert secret_parts.turns(text) == turns


@pytest.mark.parametrize(
    ("shown", "value"),
    [
        ("abc", "abc"), ("a\x1b[1mbc\x1b[0m", "abc"), ("a%41b", "aAb"), ("a\\u0041b", "aAb"), ("a&amp;b", "a&b"),
         ("a&#39;b", "a'b"),
        # Joined across a line end, after a margin.
        ("abc\ndef", "abcdef"), ("abc  \u2502\n\u2502 def", "abcdef"), ("abc\r\n    def", "abcdef"),
         ("abc\nde", "abc\nde"),
        ("abc\n" + " " * 160 + "def", "abcdef"), ("abc\n" + " " * 161 + "def", "abc\n" + " " * 161 + "def"),
    ],
)  # fmt: skip
def test_a_secret_is_normalized(shown: str, value: str) -> None:
    """Without colors and escapes, in one piece."""
    assert secret_places.value_of(shown) == value


def spans(found: Iterable[Secret]) -> list[tuple[int, int]]:
    return [(secret.start, secret.end) for secret in found]


def test_places_and_parts_of_a_known_value() -> None:
    """All places; of the parts those at which a text begins or ends."""
    value = "abcdefgh12345678"

    assert spans(secret_places.places_of("aa", "aaaaa b aa")) == [(0, 2), (2, 4), (8, 10)]
    assert spans(secret_places.parts_of(value, f"x {value[:8]}")) == [(2, 10)]
    assert spans(secret_places.parts_of(value, f"x {value[:12]}\n")) == [(2, 14)]
    assert spans(secret_places.parts_of(value, f"x {value[:7]}")) == []
    assert spans(secret_places.parts_of(value, f"x {value[:9]}y")) == []
    assert spans(secret_places.parts_of(value, f"{value[8:]} x")) == [(0, 8)]
    assert spans(secret_places.parts_of(value, f" {value[4:]} x")) == [(1, 13)]
    assert spans(secret_places.parts_of(value, f"{value[9:]} x")) == []
    assert spans(secret_places.parts_of(value, f"y{value[7:]} x")) == []


def test_overlapping_secrets_are_one() -> None:
    """From the first begin to the last end, with the first one's kind; adjacent ones are two."""

    def secret(start: int, end: int, begin: int) -> Secret:
        return Secret(start, end, "key", begin)

    assert secret_places.merged([secret(5, 9, 2), secret(3, 6, 3)]) == [secret(3, 9, 2)]
    assert secret_places.merged([secret(3, 9, 1), secret(4, 6, 0)]) == [secret(3, 9, 0)]
    assert secret_places.merged([secret(3, 5, 3), secret(5, 9, 5)]) == [secret(3, 5, 3), secret(5, 9, 5)]
    assert secret_places.merged([secret(3, 5, 3), secret(3, 9, 3)]) == [secret(3, 9, 3)]
    assert secret_places.merged([]) == []


@pytest.mark.parametrize("lines", range(1, 7))
def test_a_value_may_follow_its_name_within_four_lines(lines: int) -> None:
    """A text that begins with a name is searched with the lines after it."""
    blocks = [f"a\nAPI_KEY=\\\n{'x ' * 9}\n" + "b\n" * lines + "end\n"]
    found = list(secret_places._stretches(blocks[0], ()))

    assert found == [(2, len("a\nAPI_KEY=\\\n") + 19 + 2 * min(lines, 3) + 4 * (lines < 3))]


@pytest.mark.parametrize(
    ("value", "decoded"),
    [
        ("YWJj", b"abc"),
        ("YWI=", b"ab"),
        ("YWI", b"ab"),
        ("YQ", b"a"),
        ("-_-_", b"\xfb\xff\xbf"),
        ("Y", b""),
        ("Y!Jj", b""),
    ],
)
def test_base64_is_decoded_with_or_without_its_end(value: str, decoded: bytes) -> None:
    """In both alphabets; empty if invalid."""
    assert secret_places._decoded(value) == decoded


@pytest.mark.slow
@pytest.mark.parametrize("length", [60_000, 500])
@pytest.mark.parametrize(
    "unit", ["eyJ-", "eyJ_", "-eyJ", "sk-", "hf_", "hf_-", "AIza-", "gsk_", "npm_", "eyJaaaaaaaa."]
)
def test_repeated_heads_are_quickly_read(unit: str, length: int) -> None:
    """In lines of any length; twice the text costs at most three times."""
    line = (unit * length)[:length] + "\n"

    assert growth(lambda text: Redactor().text(text), line * (60_000 // length)) <= LIMIT
    assert seconds(lambda text: Redactor().text(text), line * (240_000 // length)) < 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "a", "-", "_", "a-", "key", "token ", "api_key", "api_key=", "api_key='", '--api-key \\"', "https://",
        "https://a:", "a@", "Bearer ",
        "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaa.", "hf_", "password: [", "password: (", ",", "];", "\\", " ",
        "=", "%3D", "secret ", "│", "\n", "hf_\n", "hf_aA1\n", "%41", "\x1b[", "[0m", "&quot;", "\\u0022", "login ",
        "curl ",
        "name: token ", "('api_key', '", "--api-key a ", "--api-key \\\n", "- --api-key\n  - a1b2c3d4\n",
        "api_key:\n  ",
        "Cookie: a=b;", "authorization: a ", "api_key=abcdef12\n", "api_key=abcdef1z ", "sk-aB1cD2eF3gH4iJ5k ",
        "QUJDREVGR0hJSktMTU5PUFFS ", "-----BEGIN PRIVATE KEY-----\n", "mysql ", "token='",
        "-----BEGIN PRIVATE KEY-----\nQUJDREVGR0hJSktMTU5PUFFS\n", "-----BEGIN PRIVATE KEY----------END ",
        'pw="', "pw: a1B2c3D4,", "密码：", "密码 a1B2c3D4 ", "key: a, api_base: ", "key: a\napi_base: b\n",
        "spawn login ", "spawn ssh\n", 'assword" send "', '"--password",(a)', '"--password",', '"login -p {}".format("',
        "{}login -p ",
    ],
)  # fmt: skip
def test_redacting_is_linear(unit: str) -> None:
    """Doubling the text at most triples the cost, for any repetition."""
    assert growth(redact_text, f"api_key=x {unit * (16_000 // len(unit))}") <= LIMIT


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["x\n", "-----BEGIN PRIVATE KEY-----\n", "QUJDREVGR0hJSktMTU5PUFFS\n", "--api-key a\n"]
)
def test_redacting_line_by_line_is_linear(unit: str) -> None:
    """Also after a private key that is never closed."""

    def shown(text: str) -> None:
        redactor = Redactor()
        for start in range(0, len(text), 50):
            redactor.more(text[start : start + 50])

    assert growth(shown, f"-----BEGIN PRIVATE KEY-----\n{unit * (6_000 // len(unit))}") <= LIMIT


@pytest.mark.full
@pytest.mark.parametrize(
    "unit",
    [
        "--api-key a ",
        *(pytest.param(unit, marks=pytest.mark.full) for unit in ("password: (", "(authorization: ", "a")),
    ],
)
def test_a_line_of_megabytes_is_redacted_in_linear_time(unit: str) -> None:
    """Beyond the size that is searched in one piece."""
    assert growth(lambda text: Redactor().text(text), f"api_key=x {unit * (300_000 // len(unit))}") <= LIMIT


def test_a_text_without_secrets_is_returned_unchanged() -> None:
    """A common line only costs a scan."""
    text = "Model loading took 13.72 GiB memory and 62.336108 seconds"

    assert redact_text(text) is text


def test_every_trigger_is_lower_case() -> None:
    """The quick look compares with the lower-cased text."""
    assert [trigger for trigger in secret_places._TRIGGERS if trigger != trigger.lower()] == []


@pytest.mark.parametrize("escape", ["\\n", "\\t", "\\r", "\\\\n"])
def test_a_token_after_an_escape_is_replaced(escape: str) -> None:
    """In quoted text the escape's letter is not part of the next word."""
    token = "hf" + "_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"

    for text in (f"ValueError: 'bad{escape}{token}'", f'{{"log": "x{escape}--api-key hunter2abcdef y"}}'):
        assert not {token, "hunter2abcdef"} & set(re.split(r"[^\w]", redact_text(text).replace(escape, " ")))


@in_one_test(
    "text",
    [
        # Four turns between kinds of characters with a digit, sixteen characters with one, or six turns without.
        "key=x<\naB1c>", "key=x<\naB1", "key=x<\nabcdefghijklmno1>", "key=x<\nabcdefghijklmn1", "key=x<\naBcDeFg>",
        "key=x<\naBcDeF", "key=x<\n1234567890123456", "key=x<\nabcdefghijklmnop", "key=x<\n1a1a>\nnext",
        "key=x<\naB1c==> end",
        # After blanks, the side of a box, or a Windows line end.
        "key=x<  \n   aB1c>", "│ key=x< │\n│ aB1c> │", "key=x<\r\naB1c>\r\n", "key=x<" + " " * 200 + "\r\naB1c>",
        "key=x<" + " " * 201 + "\naB1c", "key=x<\n" + " " * 200 + "aB1c>", "key=x<\n" + " " * 201 + "aB1c",
        "key=x< y\naB1c", "key=x<\n\naB1c", "key=x<", "key=x<\n",
        # A name, a call or a path begins something else.
        *(f"key=x<\naB1c{sign}d" for sign in ":=.([\\@"), "key=x<\naB1c>,d", "key=x<\naB1c/d>", "key=x<\naB1c>)",
        # So does a date, an address, or the beginning of the previous line.
        "key=x<\n2026-11-20T1a2b", "key=x<\n2026-11-2aT1b2>", "key=x<\n0x7f3aB9c", "key=x<\n1x7f3aB9c>",
        "aB1c key=x<\naB1c tail", "aB1d key=x<\naB1c> tail", "x\naB1c key=x<\naB1c tail", "aB1c\nkey=x<\naB1c>",
        # 2000 characters.
        "key=x<\n" + "aB1c" * 500 + ">", "key=x<\n" + "aB1c" * 500 + "d",
        "[a] key=x<\n[a] " + "aB1c" * 500 + ">", "[a] key=x<\n[a] " + "aB1c" * 500 + "d",
        # After the same margin as the previous line of 4000 characters.
        "(W) [a.py:1] key=x<\n(W) [a.py:1] aB1c> end", "(W) [a.py:1] key=x<\n(V) [a.py:1] aB1c",
        "first\n[a] key=x<  \n[a] aB1c>", "first\n[a] key=x<\n[a] aB1c: end", "[a] \naB1c\n[a] key=x<",
        "p\n[a] " + "x" * 3995 + "<\n[a] " + "aB1c" * 50 + ">", "p\n[a] " + "x" * 3996 + "<\n[a] aB1c",
        "│ key=x<\n│   aB1c>", "x: key=x<\nx: aB1c>", "x | key=x<\nx | aB1c>",
        "w" * 159 + "] key=x<\n" + "w" * 159 + "] aB1c>", "w" * 161 + "] key=x<\n" + "w" * 161 + "] aB1c",
    ],
)  # fmt: skip
def test_where_a_secret_continues_in_the_next_line(text: str) -> None:
    """From the end of its first line, `<`, to `>`; none if absent."""
    end = text.index("<")
    plain = text.replace("<", "").replace(">", "")

    assert secret_places._turn(plain, end) == (text.index(">") - 1 if ">" in text else None)


FULL = "A" * 64


@in_one_test(
    ("rows", "kept"),
    [
        # The last line has any length, the others one.
        ([], 0), (["Loading weights"], 1), (["Loading weights", "AB"], 1), (["Loading weights", "A"], 2),
        (["Loading weights", FULL], 1), (["Loading weights", FULL, "AB=="], 1), (["AB=="], 0), ([FULL, FULL], 0),
        (["Loading weights", *[FULL] * 9, "A" * 65], 1), (["Loading weights", FULL[1:], FULL, FULL, "AB=="], 2),
        (["Loading weights", FULL + "B", FULL, FULL], 2), (["", FULL, "", FULL], 3),
        # At most 200 characters and two symbols, in a frame.
        (["Loading weights", "A" * 200 + "=="], 1), (["Loading weights", "A" * 201], 2),
        (["Loading weights", FULL + "==="], 2), (["Loading weights", f"│{' ' * 7}{FULL}    "], 1),
        (["Loading weights", f"│{' ' * 8}{FULL}"], 2), (["Loading weights", f"{FULL}     "], 2),
        (["Loading weights", f"> {FULL}\r", "> AB\r"], 1), (["Loading weights", f"{FULL} │"], 2),
        (["x y" * 100], 1), ([FULL] * 400, 0), ([FULL] * 401, 1), (["x" * 300, FULL], 1),
    ],
)  # fmt: skip
def test_where_a_key_without_its_first_line_begins(rows: list[str], kept: int) -> None:
    """After this many lines that do not belong to it."""
    lines = [f"{row}\n" for row in rows]
    text = "".join(lines)

    assert secret_places._start_of_key(f"{text}-----END PRIVATE KEY-----", len(text)) == len("".join(lines[:kept]))


BEGIN, END = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
OTHER = "-----END CERTIFICATE-----"


@in_one_test(
    ("key", "rest"),
    [
        # Its last line, if it follows within 20 000 characters.
        (f"{BEGIN}\n{FULL}\n{END}", "\nLoading"), (f"{BEGIN}{END}", END), (f"{BEGIN}{'!' * 19_992}{END}", "."),
        (BEGIN, f"{'!' * 19_993}{END}"), (f"{BEGIN}\n-----END RSA PRIVATE KEY-----", ""),
        (f"{BEGIN}\n-----END PGP PRIVATE KEY BLOCK-----", ""),
        # Otherwise all possible lines: of one length, and a shorter one.
        (f"{BEGIN}\n{FULL}", f"\n{OTHER}"), (BEGIN, ""), (BEGIN, "\n"), (f"{BEGIN}\n", "\n"), (BEGIN, " Loading"),
        (f"{BEGIN}\n{FULL}\n{FULL}\nAB==", "\nLoading"), (f"{BEGIN}\n{FULL}\nAB", "\nAB"),
        (f"{BEGIN}\n{'A' * 16}", "\n"), (BEGIN, f"\n{'A' * 15}\n"), (f"{BEGIN}\\n{FULL}\\n{FULL}", "\\nrest of it"),
        (f"{BEGIN}\n{FULL}", "\nnext line"), (f"{BEGIN}\n{FULL}", "\n"), (f"{BEGIN}\n{FULL}\nA", ""),
        # A checksum only after the shorter line.
        (f"{BEGIN}\n{FULL}\nAB\n=aB3d", "\nLoading"), (f"{BEGIN}\n{FULL}\n=aB3d", "\nLoading"),
        (f"{BEGIN}\n{FULL}\nAB\n=aB3d\n=aB3e", "\nAB"),
        # Headers and blank lines at its beginning, but not after its first line.
        (f"{BEGIN}\nVersion: 1\n\n{FULL}\nAB", "\nLoading"), (f"{BEGIN}\nVersion: 1\nComment: a b", "\n"),
        (f"{BEGIN}\nVersion: 1\n{FULL}", f"\n\n{FULL}"), (f"{BEGIN}\nVersion: 1\n{'A' * 16}", "\n"),
        (f"{BEGIN}\nVersion: 1", f"\n{'A' * 15}\n"), (BEGIN, f"\nOther: 1\n{FULL}"),
        (f"{BEGIN}\nVersion: 1\n{'A' * 200}==", "\n"), (f"{BEGIN}\nVersion: 1", f"\n{'A' * 201}\n"),
        (f"{BEGIN}\nVersion: 1\n{FULL}\n{FULL}", "\nVersion: 1"),
        (f"{BEGIN}{chr(10) + 'Hash: 1'}" + "\nHash: 1" * 399, "\nHash: 1\n"),
        (f"{BEGIN}\nHash: {'1' * 200}", "\n"), (BEGIN, f"\nHash: {'1' * 201}\n"),
        # Up to 199 blanks after a line.
        (f"{BEGIN}{' ' * 199}\nVersion: 1", "\n"), (BEGIN, f"{' ' * 200}\nVersion: 1\n"),
        (f"{BEGIN} │\nVersion: 1", "\n"), (BEGIN, " x\nVersion: 1\n"),
    ],
)  # fmt: skip
@in_one_test("before", ["", "first\n"])
def test_where_a_key_ends(before: str, key: str, rest: str) -> None:
    """At its last line, or after the last possible one."""
    begin = secret_places._PEM.search(f"{before}{key}{rest}")

    assert begin
    assert secret_places._end_of_key(begin.string, begin) == len(before + key)


@pytest.mark.parametrize(
    ("front", "others", "taken"),
    [
        ("> ", "> ", 2), ("a> ", "b> ", 2), ("a> ", "a>", 0), ("a> ", "a>  ", 2), ("a> ", "", 2), ("a> ", "aa> ", 0),
        (">", ">", 2), ("    ", "    ", 2), ("    ", "", 2), ("│ ", "│ ", 2), ("." * 398 + "> ", "." * 398 + "> ", 2),
    ],
)  # fmt: skip
def test_the_lines_of_a_key_have_the_margin_of_its_first(front: str, others: str, taken: int) -> None:
    """Equal width and equal last two characters, or none at all."""
    rows = [f"{front}{BEGIN}", f"{others}Version: 1", f"{others}{FULL}", f"{others}x y"]
    text = "\n".join(rows)
    begin = secret_places._PEM.search(text)

    assert begin
    assert secret_places._end_of_key(text, begin) == len("\n".join(rows[: taken + 1]))


def test_the_margin_of_a_key_is_that_of_its_own_line() -> None:
    """Earlier lines do not count."""
    key = f"> {BEGIN}\n> Version: 1\n> {FULL}"
    text = f"You wrote:\n{key}\n> x y"
    begin = secret_places._PEM.search(text)

    assert begin
    assert secret_places._end_of_key(text, begin) == len(f"You wrote:\n{key}")


@pytest.mark.parametrize(
    ("text", "begun"),
    [
        (BEGIN, 0), (f"a\n{BEGIN}", 2), (f"a\n> {BEGIN}\n", 2), (f"a\n{BEGIN}\n{FULL}\n", 2),
        (f"a\n{BEGIN}\n{FULL}\nx y", None), (f"a\n{BEGIN}\n{END}", None), (f"{BEGIN}\n{END}\nb\n{BEGIN} │\n", 56),
        ("a", None), ("", None), ("a\n-----BEGIN CERTIFICATE-----\n", None), (f"a\n{'x' * 399}{BEGIN}", 2),
        (f"{BEGIN}\n-----BEGIN CERTIFICATE-----", None),
    ],
)  # fmt: skip
def test_a_text_may_end_inside_a_key(text: str, begun: int | None) -> None:
    """It begins with the line of the last beginning that nothing closes."""
    assert secret_places.key_begun(text) == begun


@in_one_test(
    ("text", "plain", "places"),
    [
        ("", "", []), ("ab", "ab", [(0, 1), (1, 2)]),
        # A colour is nothing, an escape one character, at any place.
        ("a\x1b[1mbc%41d", "abcAd", [(0, 1), (5, 6), (6, 7), (7, 10), (10, 11)]),
        ("%41b", "Ab", [(0, 3), (3, 4)]), ("b%41", "bA", [(0, 1), (1, 4)]), ("%41%42", "AB", [(0, 3), (3, 6)]),
        ("\x1b[1m\x1b[0mab\x1b[0m", "ab", [(8, 9), (9, 10)]), ("&amp;\\u0041c", "&Ac", [(0, 5), (5, 11), (11, 12)]),
        ("a\u200bb", "ab", [(0, 1), (2, 3)]), ("\x00\x00", "", []), ("a%2541b", "aAb", [(0, 1), (1, 6), (6, 7)]),
        ("a[31mb", "ab", [(0, 1), (5, 6)]), ("^[[31mb", "b", [(6, 7)]), ("a%4", "a%4", [(0, 1), (1, 2), (2, 3)]),
    ],
)  # fmt: skip
def test_each_character_of_a_plain_text_has_its_place(text: str, plain: str, places: list[tuple[int, int]]) -> None:
    """Its begin and end in the colored, escaped text."""
    view = secret_places._DecodedText(text)

    assert view.text == plain
    assert [view._place(offset) for offset in range(len(plain))] == places


def test_a_secret_of_a_plain_text_is_placed_in_the_original() -> None:
    """From its first to its last character, without colors; its name has a place too."""
    view = secret_places._DecodedText("\x1b[1mkey\x1b[0m=%41\x1b[1mb\x1b[0m;")

    assert view.text == "key=Ab;"
    assert view.back(Secret(4, 6, "key", 0)) == Secret(12, 20, "key", 4)
    assert view.back(Secret(4, 5, "key", 3)) == Secret(12, 15, "key", 11)
    assert view.back(Secret(5, 6, "url", 5)) == Secret(19, 20, "url", 19)


MANY = [f"k{number:02}" for number in range(19)]


@in_one_test(
    ("text", "shown"),
    [
        # Sixteen further keys.
        (f"vllm serve --api-key {' '.join(MANY)}", f"vllm serve --api-key{' *' * 17} k17 k18"),
        # Words of a command in the line and the 2000 characters before it.
        ("vllm serve m\ngive --api-key k1 def", "vllm serve m\ngive --api-key * def"),
        (f"vllm{' ' * 1994}--api-key k1 def", f"vllm{' ' * 1994}--api-key * *"),
        (f"vllm{' ' * 1995}--api-key k1 def", f"vllm{' ' * 1995}--api-key * def"),
        ("$ x --api-key k1 def", "$ x --api-key * *"), ("x --model m --api-key k1 def", "x --model m --api-key * *"),
        ("docker run --api-key k1 def", "docker run --api-key * *"),
        ("x --api-key k1 def vllm", "x --api-key * def vllm"),
        # In the option's other spellings; of a name that takes one alone.
        ("vllm serve m --api_key k1 def", "vllm serve m --api_key * *"),
        ("vllm serve m --api-keys k1 def", "vllm serve m --api-keys * *"),
        ("vllm serve m --API-KEY k1 def", "vllm serve m --API-KEY * *"),
        ("vllm serve m --x-api-key k1 def", "vllm serve m --x-api-key * *"),
        ("vllm serve m --auth-key k1 def", "vllm serve m --auth-key * def"),
        ("vllm serve m api-key k1x2y3z4 def", "vllm serve m api-key * def"),
        # With quotes of either kind, or in a list.
        ("vllm serve m --api-key k1 'def' ghi -x", "vllm serve m --api-key * '*' * -x"),
        ("vllm serve m --api-key 'k1' \"def\" 'ghi' -x", "vllm serve m --api-key '*' \"*\" '*' -x"),
        ("vllm serve m --api-key k1 'def\" ghi -x", "vllm serve m --api-key * '*\" ghi -x"),
        ("['vllm', '--api-key', 'k1', 'def', '--port']", "['vllm', '--api-key', '*', '*', '--port']"),
        ('["--api-key", "k1", "def", "ghi", 7]', '["--api-key", "*", "*", "*", 7]'),
        ("- --api-key\n  - k1\n  - def\n  - 'ghi'\n  - --port", "- --api-key\n  - *\n  - *\n  - '*'\n  - --port"),
        ("- --api-key\n  - k1\n  - port: 7", "- --api-key\n  - *\n  - port: 7"),
        ("vllm serve m --api-key k1 \\\n  def \\\n  -x", "vllm serve m --api-key * \\\n  * \\\n  -x"),
        ("vllm serve m --api-key k1\ndef", "vllm serve m --api-key *\ndef"),
        ("vllm serve m --api-key=k1 def", "vllm serve m --api-key=* *"),
        # Up to the next command, or a word that ends a sentence.
        *((f"vllm serve m --api-key k1 {sign} def", f"vllm serve m --api-key * {sign} def") for sign in ";|&<>"),
        ("vllm serve m --api-key k1 def, ghi", "vllm serve m --api-key * def, ghi"),
        ("vllm serve m --api-key k1 None def", "vllm serve m --api-key * None def"),
        # In prose it has six characters, a digit, and only two kinds of symbols.
        ("give --api-key k1 d_ef345", "give --api-key * *"), ("give --api-key k1 defghi", "give --api-key * defghi"),
        ("give --api-key k1 def345, x", "give --api-key * def345, x"),
        ("give --api-key k1 def345 x", "give --api-key * * x"),
        ("give --api-key k1 __--12", "give --api-key * *"), ("give --api-key k1 __--__", "give --api-key * __--__"),
    ],
)  # fmt: skip
def test_several_keys_of_one_option(text: str, shown: str) -> None:
    """Each of them, in commands, lists and prose; a star is a placeholder."""
    assert re.sub(r"\[secret-\d+\]", "*", Redactor().text(text)) == shown


@in_one_test(
    ("text", "shown"),
    [
        # In prose, unless a line end or a scheme separates the name and the value.
        ("password\\\nhunter", "password\\\n*"), ("password\\ hunter", None), ("password\\ hunter2abc", "password\\ *"),
        ("api_key Bearer abcdefgh", "api_key Bearer *"), ("api_key abcdefgh", None), ("api_key abcdefg1", "api_key *"),
        ("api_key abcdef1", None), ('"api_key" abcdefgh', None), ("api_key: abc", "api_key: *"),
        ("-password hunter", "-password *"), ("my-password hunter", None),
        # A count, of every name that is also a counter's.
        ("FOO_TOKEN=1234567", None), ("FOO_TOKEN=12345678", "FOO_TOKEN=*"), ("FOO_TOKEN=123456a", "FOO_TOKEN=*"),
        ("TOKEN=12345678", None), ("TOKEN=1234567a", "TOKEN=*"), ("secrets: 12345678", "secrets: *"),
        ("?token=12345678", None), ("--token 12345678", "--token *"), ("hf_token=1234567", "hf_token=*"),
        # A token of general name: eight characters, with a digit, four turns, or 24 characters.
        ("token=abcdefg1", "token=*"), ("token=abcdef1", None), ("token=aBcDefgh", "token=*"), ("token=aBcdefgh", None),
        ("token=aBcDefg", None), ("token: Bearer abc", "token: Bearer *"), ("--token abc", "--token *"),
        ("Token=abc", None), ("#token=abc", None), ("token=abcdefghé1", None),
        # A path, for secrets in files.
        ("secret=/a", None), ("credentials=~x1", None), ("secret=.../x1abcdef", "secret=*"),
        ("secret=x/abc1", "secret=*"), ("secret_access_key=/abc1", None), ("access_key=/abc1", "access_key=*"),
        ("credential=./x", None), ("credential=.x1", "credential=*"), ("credential=..x1", "credential=*"),
        ("/passwd:ab1", None), ("/password:ab1", "/password:*"), (".passwd:ab1", ".passwd:*"),
    ],
)  # fmt: skip
def test_text_after_the_name_of_a_secret(text: str, shown: str | None) -> None:
    """A value, or prose, a count, a common word, a path; a star is a placeholder."""
    assert re.sub(r"\[secret-\d+\]", "*", Redactor().text(text)) == (text if shown is None else shown)


@in_one_test(
    "text",
    [
        # A row that only repeats the beginning of the previous one does not count.
        "api_key=<abc1\naB1cD>\naB1cD", "api_key=<abc1>\nloading\naB1cD", "api_key=<abc1>, x\naB1cD",
        # The head of a token at a line end is not a token without the rest.
        "x <hf_AbCd1\nEfGh2iJk3> y", "x hf_AbCd1\nnext line", "x <hf_AbCd1\r\n  EfGh2iJk3>", "x hf_AbCd1 y\nEfGh2iJk3",
        "x │ <sk-AbCd1 │\n  │ EfGh2iJk3> │", "xhf_AbCd1\nEfGh2iJk3", "<hf_AbCd1\nEfGh2iJk3>",
        "x <AKIA\nEfGh2iJk3>", "x AKI\nEfGh2iJk3",
        # Two of them, and one within another's value.
        "<hf_AbCd1\nEfGh2iJk3> x <hf_ZbCd1\nAfGh2iJk3>", "api_key=<hf_AbCd1\nEfGh2iJk3>", "api_key=<abc12>\nx",
        "api_key=<abc12> <hf_AbCd1\nEfGh2iJk3>",
    ],
)  # fmt: skip
def test_a_secret_that_is_wrapped_is_found_whole(text: str) -> None:
    """From `<` to `>`, each as one."""
    plain = re.sub("[<>]", "", text)
    marks = [mark.start() - before for before, mark in enumerate(re.finditer("[<>]", text))]

    assert spans(secret_places.find(plain)) == list(zip(marks[::2], marks[1::2], strict=True))


def test_a_secret_continues_for_sixty_four_lines() -> None:
    """Parts that begin within these lines belong to it."""
    text = "api_key=abc1\n" + "".join(f"aB1c{number}\n" for number in range(10, 80))
    found, other = Secret(8, 12, "key", 0), Secret(13, 19, "key", 13)

    assert secret_places._turned(text, [found]) == [found._replace(end=12 + 64 * 7)]
    assert secret_places._turned(text, [found, other]) == [found._replace(end=12 + 64 * 7)]
    assert secret_places._turned(text[:12], [found]) == [found]
    assert secret_places._turned(text, []) == []


@pytest.mark.parametrize(("key", "is_text"), [("API_KEY=abc12345wxyz", False), ("API_KEY=abc12345vwxyz", True)])
def test_text_with_a_fifth_of_unprintable_characters_is_binary(key: str, is_text: bool) -> None:  # noqa: FBT001 - a table's column
    """Random words decode to it; text with fewer is searched for secrets."""
    blob = base64.b64encode(b"\x01" * 5 + key.encode()).decode()

    assert Redactor().text(f"blob {blob} read") == f"blob {'[secret-1]' if is_text else blob} read"


@in_one_test("width", [80, 100, 132])
@in_one_test("length", [300, 430, 630, 1030, 3000])
@in_one_test("head", ["Authorization: Bearer ", "INFO token="])
def test_a_long_web_token_is_hidden_to_its_last_row(head: str, length: int, width: int) -> None:
    """For any number of wrapped rows, and without the text after it."""
    chance = random.Random(length + width)  # noqa: S311 - repeatable, not secret
    body = "".join(chance.choices("ABCXYZabcxyz0189_-", k=length))
    token = f"eyJhbGciOiJIUzI1NiJ9.{body}.{''.join(chance.choices('ABCabc0189_-', k=43))}"
    rows = [(head + token)[at : at + width] for at in range(0, len(head + token), width)]
    told = redact.redact_text("\n".join(["INFO before", *rows, "INFO after, 12 lines", "done"]))

    assert re.fullmatch(rf"INFO before\n{head}\[\S+\]\nINFO after, 12 lines\ndone", told), told


@pytest.fixture
def _restless() -> Iterator[None]:
    """Threads that switch as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.usefixtures("_restless")
def test_a_text_is_redacted_while_another_thread_learns() -> None:
    """As when a supervisor prints lines while the log is read."""
    redactor, errors, learned = Redactor(), list[RuntimeError](), threading.Event()
    redactor.learn(f"api_key={number:04}{CANARY}\n" for number in range(900))

    def learn() -> None:
        for number in range(100):
            redactor.learn([f"api_key={number:04}{CANARY[::-1]}\n"])
        learned.set()

    thread = threading.Thread(target=learn)
    thread.start()
    while not learned.is_set():
        try:
            redactor.text("load: took 3.0 s; usually 5.0 s, as in the last start with this command" * 20)
        except RuntimeError as error:
            errors.append(error)
    thread.join()

    assert errors == []


TOLD_BY_CONTEXT = [
    "model:\n  - type: x\n    api_base: http://localhost:9999/v1\n    key: S3cr3tPlanted77\n",
    '    - {type: x, name: C, api_base: "http://localhost:9999/v1", key: S3cr3tPlanted77, temperature: 0.9}',
    '"model": [{"key": "S3cr3tPlanted77", "api_base": "http://localhost/v1"}]',
    "model=[dict(type='x', key='S3cr3tPlanted77', api_base='http://localhost/v1')]",
    "      key: kiwi\n      api_base: http://localhost:9999/v1\n",
    "registry: {user: alice, pass: S3cr3tPlanted78}",
    "registry: {user: alice, pwd: S3cr3tPlanted78}",
    "user: alice\npass: kiwi\n",
    "user: alice\npwd: kiwi\n",
    "passwd: S3cr3tPlanted78\n",
    "pass: S3cr3tPlanted78\n",
    "pwd: S3cr3tPlanted78\n",
    'pw: str = "S3cr3tPlanted68"',
    'pw = "kiwi"',
    "pwd = 'kiwi7'",
    'passwd = "kiwi"',
    '密码 = "S3cr3tPlanted70"',
    "# 密码: S3cr3tPlanted71",
    "密码：S3cr3tPlanted71",
    "登录密码为：S3cr3tPlanted71",
    "口令: S3cr3tPlanted71",
    '密钥 = "S3cr3tPlanted71"',
    "令牌：S3cr3tPlanted71",
    "用户名：alice 密码：kiwi",
    "密码是 S3cr3tPlanted71",
    "{密码: S3cr3tPlanted80}",
    'p.add_argument("--password", default="kiwi")',
    'p.add_argument("-p", "--password", type=str, default="kiwi")',
    "p.add_argument('--passwd',\n    default='S3cr3tPlanted1')",
    '@click.option("--password", default="kiwi")',
    '@click.option("-p", "--pw", default="S3cr3tPlanted1")',
    'parser.add_argument("--registry_pass", help="x (y)", default="S3cr3tPlanted1")',
    "run(f\"docker login reg -u a -p {'S3cr3tPlanted56'}\")",
    "regctl registry login reg -u u -p S3cr3tPlanted30",
    "regctl registry login reg -u u --pass S3cr3tPlanted30",
    "ctr image pull --user alice:S3cr3tPlanted31 reg/x",
    "ctr -n k8s.io images pull -u alice:S3cr3tPlanted31 reg/x",
    "expect -c 'spawn docker login -u x reg; send \"S3cr3tPlanted33\\r\"'",
    'expect "*assword:*" { send "kiwi\\r" }',
    'expect "Password:"\nsend -- "S3cr3tPlanted33\\r"\n',
    'spawn ssh root@host\nexpect "*assword:*"\nsend "kiwi\\n"\n',
    'child.expect("[Pp]assword: ")\nchild.sendline("kiwi")',
    "child.expect('Password')\nchild.sendline('S3cr3tPlanted1')",
    'spawn docker login reg -u x\nsend "S3cr3tPlanted33\\r"\n',
    'cmd = "docker login -u a -p {}".format("S3cr3tPlanted1")',
    "'docker login -u {} -p {}'.format('a', 'S3cr3tPlanted1')",
    "auth = ('alice', 'S3cr3tPlanted57')",
    'secret = torch_edgex.login(password="S3cr3tPlanted68")',
    "login(password='kiwi')",
    "密码（S3cr3tPlanted71）",
    "账号 alice 密码 S3cr3tPlanted71",
    "账号/密码：alice/S3cr3tPlanted71",
    "PW=S3cr3tPlanted1",
    "export PW='kiwi'",
    '"source": ["pw = \\"kiwi\\"\\n", "密码 = \\"kiwi\\"\\n"]',
    'dict(\n    type="x",\n    key="kiwi",\n    api_base="http://localhost/v1",\n)',
    "child.expect('密码'); child.expect('assword:'); child.sendline('kiwi')",
]

NOT_TOLD_BY_CONTEXT = [
    "key: value\nother: 1\n",
    "  key: lm_head\n",
    "for key: str in x",
    "First pass: compile the graph",
    "pass: true",
    "pass: 12\nfail: 3\n",
    "fusion pass: RMSNormQuant",
    "pwd: /home/alice/work",
    "PWD=/root",
    "pwd=$(pwd)",
    "pw: 4",
    "pass_config: {enable_fusion: true}",
    "if x: pass",
    "        pass\n        pw = 3\n",
    "pass = compile_pass\n",
    "passes: [fusion]",
    "密码：请联系管理员",
    "密码: none",
    "密钥长度: 256",
    "令牌数：512",
    "密码不要写在脚本里",
    "请输入密码: ",
    "密码: $PASSWORD",
    '密码 = os.environ["P"]',
    '密码 = getpass.getpass("x")',
    "api_base: http://localhost:9999/v1\nkey: EMPTY\n",
    "api_base: http://localhost/v1\nname: Qwen3-VL-4B\nkey: null\n",
    'send "yes\\r"',
    'expect "yes/no"\nsend "yes\\r"\n',
    'spawn bash\nsend "ls -l\\r"',
    'socket.send("hello")',
    'p.add_argument("--password", default=None)',
    'p.add_argument("--password", help="give it")',
    'p.add_argument("--password", default="none")',
    'p.add_argument("--password", default="password")',
    'p.add_argument("--tokenizer", default="tokenizer.json")',
    'p.add_argument("--token_type", default="a")',
    "pw = get_pw()",
    "pw = args.pw",
    "the pass: see README",
    "pass: see README",
    "Compile pass 1: model",
    "pw: float = 0.3",
    "pass: compile\n",
    "1st pass: quantise\n",
    "key: prefix-cache-key, api: x",
    "令牌：每秒 512",
    "密钥：见 README",
    "password: str",
    "pass: AWQ\n",
    "pwd: build\n",
    "  pass: first-2\n",
    "- pass: 2026-11-22\n",
    "pass: model.layers.0\n",
    'pass: "12/14"\n',
    "pwd: '~/x'\n",
    "pass@1: 0.3456\n",
    "pass: 0.3456\n",
    "- key: kiwi\n- name: x\n  api_base: http://a/v1\n",
    "outer: {key: kiwi}\n  api_base: http://a/v1\n",
    "{key: kiwi, models: [{api_base: http://a/v1}]}",
    "sorted(models, key=len), api_base",
    '"login -u {} -p {}".format(user, password)',
    '"docker login {} -p {}".format("reg", pw)',
]


@in_one_test("text", TOLD_BY_CONTEXT)
def test_the_surroundings_identify_a_secret(text: str) -> None:
    """For short, common, Chinese and missing names, and values that look like words or secrets."""
    shown = Redactor().text(text)

    assert "[secret-1]" in shown
    assert not [word for word in ("S3cr3t", "kiwi") if word in shown]


@in_one_test("text", NOT_TOLD_BY_CONTEXT)
def test_a_short_name_alone_hides_nothing(text: str) -> None:
    """Passes of a compiler, folders, counts, sentences, code that reads the secret, keys of other mappings."""
    assert Redactor().text(text) == text


@in_one_test("text", [text for text in TOLD_BY_CONTEXT if "\n" not in text.strip("\n")])
@in_one_test("is_ascii", [True, False])
def test_a_secret_within_a_text_of_json_is_replaced_and_the_rest_stays_json(text: str, *, is_ascii: bool) -> None:
    """As in a notebook's cells: quotes are escaped there, and Chinese may be."""
    given = {"source": [text.strip("\n") + "\n", "other\n"]}
    shown = Redactor().text(json.dumps(given, ensure_ascii=is_ascii))
    read = json.loads(shown)

    assert not [word for word in ("S3cr3t", "kiwi") if word in shown]
    assert [line[-1] for line in read["source"]] == ["\n", "\n"]
    assert read["source"][1] == "other\n"


@in_one_test("text", [text for text in NOT_TOLD_BY_CONTEXT if "\n" not in text.strip("\n")])
def test_a_short_name_in_json_hides_nothing(text: str) -> None:
    """Even if a line ends with two letters."""
    given = json.dumps({"source": [text.strip("\n") + "\n", "other\n"]}, ensure_ascii=False)

    assert Redactor().text(given) == given


def test_a_name_is_searched_from_its_first_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from each of the 32 characters before its keyword, which may be other words; `key` alone is no name."""
    begun: list[int] = []
    monkeypatch.setattr(secret_places, "_NAMED", SimpleNamespace(match=lambda _, start: begun.append(start)))
    list(secret_places._named("many other words, MY_API_KEY=abc, key=def"))

    assert begun == [18, 19, 20, 21, 22, 23, 24, 25]


def test_a_name_that_ends_in_authorization_is_found() -> None:
    assert Redactor().text("proxy_authorization=abcdefgh1234567xyz") == "proxy_authorization=[secret-1]"
