"""A launch is edited exactly as requested or not at all, and the result is valid."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from rows import in_one_test
from test_documents import TEXTS
from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.options import ReleaseData
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.excerpt import applied
from vllm_runbooks.core.records import Edit
from vllm_runbooks.reading import arguments, deployment, documents
from vllm_runbooks.reading.deployment import Deployment, editing, forms
from vllm_runbooks.reading.documents.starts import WrittenLaunch
from written_edits import REPLACED

ODD = 'it\'s "$HOME" `x` \\ {% é %} %i *'


@pytest.fixture(scope="module")
def release() -> ReleaseData:
    return options.load("0.11.0")


def edited(text: str, name: str, changes: list[Edit], release: ReleaseData, index: int = 0) -> str:
    page = documents.read(text, name)
    return applied(text, editing.edits(page, page.starts[index], changes, release))


def setting(name: str, value: Any) -> Edit:
    return Edit("set", name, value)


SERVICE = "services:\n  a:\n    image: vllm/vllm-openai\n"
SCRIPT = """# first
export HF_HOME=/data  # where models lie
vllm serve org/model \\
  --port 8000 \\
  --max_model_len=8192 \\
  --gpu-memory-utilization 0.9 > log 2>&1 &  # last
"""


@pytest.mark.parametrize(
    ("change", "line", "expected"),
    [
        (setting("port", 9000), 4, "  --port 9000 \\"),
        (setting("max_model_len", 4096), 5, "  --max_model_len=4096 \\"),
        (
            setting("limit_mm_per_prompt", {"video": 0}),
            7,
            "  --limit-mm-per-prompt '{\"video\": 0}' > log 2>&1 &  # last",
        ),
        (setting("enforce_eager", True), 6, "  --gpu-memory-utilization 0.9 \\"),
        (setting("model", "org/other"), 3, "vllm serve org/other \\"),
        (Edit("remove", "max_model_len"), 5, "  --gpu-memory-utilization 0.9 > log 2>&1 &  # last"),
        (Edit("remove", "gpu_memory_utilization"), 5, "  --max_model_len=8192 > log 2>&1 &  # last"),
        (Edit("env", "HF_HOME", "/other place"), 2, "export HF_HOME='/other place'  # where models lie"),
        (Edit("env", "VLLM_LOGGING_LEVEL", "DEBUG"), 2, "export VLLM_LOGGING_LEVEL=DEBUG"),
    ],
)
def test_a_script_keeps_its_form(change: Edit, line: int, expected: str, release: ReleaseData) -> None:
    """A value is replaced in its place, a new option gets its own line, and comments stay."""
    assert expected == edited(SCRIPT, "a.sh", [change], release).split("\n")[line - 1]


@in_one_test(
    ("name", "text", "change", "expected"),
    [
        ("a.sh", "vllm serve m --port 1\n", setting("seed", 7), "vllm serve m --port 1 --seed 7\n"),
        ("a.sh", "vllm serve m --port 1\n", Edit("remove", "port"), "vllm serve m\n"),
        ("a.sh", "sudo vllm serve m\n", Edit("env", "A", "b c"), "sudo env A='b c' vllm serve m\n"),
        ("a.sh", "vllm serve m\n", Edit("env", "A", "b"), "A=b vllm serve m\n"),
        ("a.sh", "A=1 vllm serve m\n", Edit("env", "A", "b"), "A=b vllm serve m\n"),
        (
            "a.sh",
            "docker run -e A=1 vllm/vllm-openai --model m\n",
            Edit("env", "B", "2"),
            "docker run -e A=1 -e B=2 vllm/vllm-openai --model m\n",
        ),
        (
            "a.sh",
            "bash -c 'vllm serve m --port 1'\n",
            setting("chat_template", "a'b"),
            "bash -c 'vllm serve m --port 1 --chat-template '\\''a'\\''\"'\\''\"'\\''b'\\'''\n",
        ),
        (
            "a.yaml",
            f"{SERVICE}    command:\n      - --model=m # c\n      - --port=1\n",
            setting("seed", 7),
            f"{SERVICE}    command:\n      - --model=m # c\n      - --port=1\n      - --seed=7\n",
        ),
        (
            "a.yaml",
            f"{SERVICE}    command:\n      - --model\n      - m\n      - --port\n      - '1'\n",
            Edit("remove", "port"),
            f"{SERVICE}    command:\n      - --model\n      - m\n",
        ),
        (
            "a.yaml",
            f"{SERVICE}    command: ['--model', 'm']\n",
            Edit("env", "A", "$b"),
            f"{SERVICE}    environment:\n      A: \"$$b\"\n    command: ['--model', 'm']\n",
        ),
        (
            "a.service",
            "[Service]\nExecStart=/bin/vllm serve m \\\n  --port 1\n",
            setting("chat_template", "100% $a"),
            '[Service]\nExecStart=/bin/vllm serve m \\\n  --port 1 \\\n  --chat-template "100%% $$a"\n',
        ),
        (
            "a.service",
            "[Service]\nExecStart=/bin/vllm serve m\n",
            Edit("env", "A", "b c"),
            '[Service]\nEnvironment="A=b c"\nExecStart=/bin/vllm serve m\n',
        ),
        (
            "a.py",
            "from vllm import LLM\nLLM(\n    model='m',  # c\n    dtype='half',\n)\n",
            setting("max_model_len", 4096),
            "from vllm import LLM\nLLM(\n    model='m',  # c\n    dtype='half',\n    max_model_len=4096,\n)\n",
        ),
        ("a.py", "from vllm import LLM\nLLM('m')\n", setting("seed", 1), "from vllm import LLM\nLLM('m', seed=1)\n"),
        (
            "a.py",
            "from vllm import LLM\nLLM('m', seed=1, dtype='half')\n",
            Edit("remove", "seed"),
            "from vllm import LLM\nLLM('m', dtype='half')\n",
        ),
        (
            "a.py",
            "from vllm import LLM\nLLM('m')\n",
            Edit("env", "A", "b"),
            'import os\nos.environ["A"] = "b"\nfrom vllm import LLM\nLLM(\'m\')\n',
        ),
        (
            "Dockerfile",
            'FROM vllm/vllm-openai\nCMD ["--model", "m"]\n',
            setting("seed", 1),
            'FROM vllm/vllm-openai\nCMD ["--model", "m", "--seed", "1"]\n',
        ),
        (
            "a.md",
            "> ```bash\n> vllm serve m \\\n>   --port 1\n> ```\n",
            setting("seed", 7),
            "> ```bash\n> vllm serve m \\\n>   --port 1 \\\n>   --seed 7\n> ```\n",
        ),
    ],
)
def test_every_format_is_edited_in_its_own_way(
    name: str, text: str, change: Edit, expected: str, release: ReleaseData
) -> None:
    """Options, keywords and variables have the format's syntax and quotes."""
    assert expected == edited(text, name, [change], release)


CHANGES = [
    setting("max_model_len", 4096),
    setting("limit_mm_per_prompt", {"image": 2, "video": 0}),
    setting("port", 9001),
    setting("enforce_eager", True),
    setting("served_model_name", ["a", "b c"]),
    setting("chat_template", ODD),
    setting("model", "org/new"),
    Edit("remove", "port"),
    Edit("remove", "max_model_len"),
    Edit("env", "VLLM_LOGGING_LEVEL", "DEBUG"),
    Edit("env", "CUDA_VISIBLE_DEVICES", "3"),
    Edit("env", "NEW", ODD),
]


def words(found: WrittenLaunch) -> list[str | None]:
    return [word.value for word in found.words]


@pytest.mark.parametrize("name", TEXTS)
def test_an_edit_changes_only_the_requested_part(name: str, release: ReleaseData) -> None:
    """The launch has the new argument or variable; all other launches are unchanged."""
    text = TEXTS[name]
    page = documents.read(text, name)
    made = 0
    for number, found in enumerate(page.starts):
        for change in CHANGES:
            edits = editing.edits(page, found, [change], release)
            if not edits:
                continue
            made += 1
            again = documents.read(page.changed(edits), name)
            assert len(page.starts) == len(again.starts)
            after = again.starts[number]
            if change.op == "env":
                assert change.value == after.environment[change.name].value.value
                assert words(found) == words(after)
            elif found.keywords:
                values = {one.name: one.value for one in after.keywords}
                assert change.op == "remove" or change.value == values[change.name]
                assert {one.name for one in found.keywords} - {change.name} == set(values) - {change.name}
            else:
                wanted = Deployment.of(found).edited([change], release).words
                assert meaning(wanted, found.entry, release) == meaning(words(after), found.entry, release)
            for other, same in zip(page.starts, again.starts, strict=True):
                assert other.start == found.start or words(other) == words(same)
    assert made >= (0 if name == "glued.md" else 5)


def meaning(given: Sequence[str | None], entry: str, release: ReleaseData) -> tuple[Any, ...]:
    """Parse the words with the release's parser."""
    parsed = arguments.parse(list(given), release, deployment.parser_entry(entry, list(given), release))
    return parsed.flags, parsed.model, [problem.kind for problem in parsed.problems if problem.is_refusal]


def test_edits_are_made_together(release: ReleaseData) -> None:
    """Several changes of one launch are one set of replacements."""
    changes = [setting("seed", 1), setting("enforce_eager", True), Edit("remove", "port"), Edit("env", "A", "b")]
    expected = "A=b vllm serve m --seed 1 --enforce-eager\n"
    assert expected == edited("vllm serve m --port 1\n", "a.sh", changes, release)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", 'x vllm serve "m"--tensor-parallel-size 2--port 1\n'),
        ("a.sh", 'A=(--port 1 --seed 2)\nvllm serve m "${A[@]}"\n'),
        ("a.py", "import os\nos.system(r'vllm serve m ' '--port 1')\n"),
    ],
)
def test_an_uncertain_edit_is_rejected(name: str, text: str, release: ReleaseData) -> None:
    """Reconstructed words, words from an expansion and raw strings are never damaged."""
    page = documents.read(text, name)
    assert editing.edits(page, page.starts[0], [setting("port", 9)], release) == ()


@pytest.mark.parametrize("change", CHANGES)
def test_data_is_edited_as_a_document_is(change: Edit, release: ReleaseData) -> None:
    """The same change of a deployment's data gives the same words."""
    page = documents.read(SCRIPT, "a.sh")
    found = page.starts[0]
    again = documents.read(applied(SCRIPT, editing.edits(page, found, [change], release)), "a.sh").starts[0]
    data = Deployment.of(found).edited([change], release)
    assert meaning(data.words, found.entry, release) == meaning(words(again), found.entry, release)
    assert {name: one.value.value for name, one in again.environment.items()} == dict(data.environment)


# Writing

ARGUMENTS = (
    "org/model",
    "--port",
    "8001",
    "--enforce-eager",
    "--chat-template",
    ODD,
    "--limit-mm-per-prompt",
    '{"a": 1}',
)
DEPLOYMENTS = [
    Deployment("serve", ARGUMENTS, (("A", "b"), ("NEW", ODD)), "vllm/vllm-openai:v0.11.0", ("0", "1"), "main"),
    Deployment("api_server", ("--model", "m", "--served-model-name", "a", "b c", ""), (), None, 2, release="0.11.0"),
    Deployment("image", ("--model", "m", "--x=\ttab\nline"), (), "vllm/vllm-openai:v0.9.2"),
]


def argv(script: str, program: str) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment that real bash passes to a program."""
    told = f"{program}() {{ printf '%s\\0' \"$@\"; printf '\\0END\\0'; env -0; }}\n{script}"
    done = subprocess.run(["bash", "-c", told], capture_output=True, check=True, text=True)
    given, _, environment = done.stdout.partition("\0END\0")
    return given.split("\0")[:-1] if given else [], dict(
        line.partition("=")[::2] for line in environment.split("\0") if line
    )


@pytest.mark.parametrize("one", DEPLOYMENTS)
def test_bash_reads_the_written_script_as_intended(one: Deployment) -> None:
    """Real bash passes the very words, and exports the very values."""
    program, *first = one.command or ("vllm", "serve")
    given, environment = argv(deployment.to_shell(one), program)
    assert [*first, *one.words] == given
    assert {name: environment.get(name) for name, _ in one.environment} == dict(one.environment)


@pytest.mark.parametrize("one", DEPLOYMENTS)
def test_bash_reads_the_written_docker_command_as_intended(one: Deployment) -> None:
    """The words after the image are the deployment's."""
    given, _ = argv(deployment.to_docker(one), "docker")
    image = one.image or f"vllm/vllm-openai:v{one.release}"
    assert [*one.command[1:], *one.words] == given[given.index(image) + 1 :]
    assert [f"{name}={value}" for name, value in one.environment] == [
        value for option, value in pairwise(given) if option == "-e"
    ]


@pytest.mark.parametrize("one", DEPLOYMENTS)
@pytest.mark.parametrize("form", ["to_shell", "to_docker", "to_compose", "to_systemd"])
def test_a_written_deployment_is_read_back_unchanged(one: Deployment, form: str) -> None:
    """Every format returns the same words and variables."""
    name = {"to_compose": "compose.yaml", "to_systemd": "a.service"}.get(form, "a.sh")
    (found,) = documents.read(getattr(deployment, form)(one), name).starts
    assert list(one.words) == words(found)
    assert dict(one.environment) == {name: setting.value.value for name, setting in found.environment.items()}
    assert one.entry in {found.entry, "image"}


@pytest.mark.parametrize("form", ["to_shell", "to_docker", "to_compose", "to_systemd"])
def test_a_secret_is_written_as_a_reference(form: str) -> None:
    """The value of a token is replaced by a variable everywhere."""
    token = "hf_" + "AbCdEfGh1234567890IjKl"
    arguments = ("m", "--api-key", "sesame-open-42", "--port=1")
    one = Deployment("serve", arguments, (("HF_TOKEN", token), ("A", "b")), release="0.11.0")
    written = getattr(deployment, form)(one)
    assert token not in written
    assert "sesame" not in written
    assert "VLLM_API_KEY" in written
    if form in {"to_shell", "to_compose"}:
        assert "${VLLM_API_KEY:?}" in written
        assert "${HF_TOKEN:?}" in written


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("$MODEL --dtype $DTYPE", ['"${MODEL:?}"', '--dtype "${DTYPE:?}"']),
        ('"${A:?first}" --port="$PORT"', ['"${A:?}"', '--port="${PORT:?}"']),
        ("$1 --seed $(date) --lora-modules $(a) $(b)", [
            '"${VALUE_1:?}"',
            '--seed "${ARG_SEED:?}"',
            '--lora-modules "${ARG_LORA_MODULES:?}" "${ARG_LORA_MODULES_1:?}"',
        ]),
        ("$(a) --model=$D/x $SEED", ['"${VALUE_1:?}"', '--model="${ARG_MODEL:?}" "${SEED:?}"']),
    ],
)  # fmt: skip
def test_an_unknown_word_keeps_its_name(command: str, expected: list[str]) -> None:
    """The original variable's name, else one from the option or a number, each used once."""
    (found,) = documents.read(f"vllm serve {command}\n", "a.sh").starts
    written = deployment.to_shell(Deployment.of(found))

    assert written == " \\\n  ".join(["vllm serve", *expected]) + "\n"
    (again,) = documents.read(written, "a.sh").starts
    assert len(again.words) == len(found.words)


def test_an_edit_keeps_the_names_of_other_words(release: ReleaseData) -> None:
    """Names stay with their words when other words change."""
    (found,) = documents.read("vllm serve $MODEL --port 1 --dtype $DTYPE\n", "a.sh").starts
    changed = Deployment.of(found).edited([Edit("remove", "port"), setting("seed", 1)], release)

    assert deployment.to_shell(changed).split() == [
        *("vllm", "serve", "\\", '"${MODEL:?}"', "\\", "--dtype", '"${DTYPE:?}"', "\\", "--seed", "1"),
    ]


@pytest.mark.parametrize("form", ["to_docker", "to_compose"])
@pytest.mark.parametrize("known", [None, "latest", "0.11.0.dev3+g1"])
def test_no_image_is_invented(form: str, known: str | None) -> None:
    """If image and release are unknown, none is written."""
    with pytest.raises(InputError, match="neither an image nor a vLLM release is given"):
        getattr(deployment, form)(Deployment("serve", ("m",), release=known))
    assert "vllm/vllm-openai:v0.11.0" in getattr(deployment, form)(Deployment("serve", ("m",), release="0.11.0"))


def test_writing_is_deterministic_with_one_option_a_line() -> None:
    """The same data gives the same text."""
    assert deployment.to_shell(Deployment("serve", ARGUMENTS[:4], (("A", "b"),))).splitlines() == [
        "export A=b",
        "vllm serve \\",
        "  org/model \\",
        "  --port 8001 \\",
        "  --enforce-eager",
    ]


SERVICE = "services:\n  a:\n    image: vllm/vllm-openai\n"


def test_two_secrets_have_two_names() -> None:
    """The environment's key is another one than the option's; one value has one name; no name is vLLM's own."""
    text = "export VLLM_API_KEY=first-secret-1\nvllm serve m --api-key second-secret-2 --port $(a)\n"
    (found,) = documents.read(text, "a.sh").starts
    one = Deployment.of(found)
    same = Deployment.of(documents.read(text.replace("second-secret-2", "first-secret-1"), "a.sh").starts[0])

    assert deployment.references(one) == ("VLLM_API_KEY", "ARG_API_KEY", "ARG_PORT")
    assert deployment.references(same) == ("VLLM_API_KEY", "ARG_PORT")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.sh", "export A=1\nvllm serve m\n", "vllm serve m\n"),
        ("a.sh", "export A=1 # why\nvllm serve m\n", None),
        ("a.sh", "A=1 B=2 vllm serve m\n", "B=2 vllm serve m\n"),
        ("a.sh", "export A=1\nvllm serve m --port $A\n", None),
        (
            "a.sh",
            "docker run -e A=1 \\\n  -e B=2 vllm/vllm-openai:v0.9.2 --model m\n",
            "docker run \\\n  -e B=2 vllm/vllm-openai:v0.9.2 --model m\n",
        ),
        (
            "a.service",
            "[Service]\nEnvironment=A=1\nExecStart=/bin/vllm serve m\n",
            "[Service]\nExecStart=/bin/vllm serve m\n",
        ),
        (
            "c.yaml",
            f"{SERVICE}    environment:\n      A: 1\n      B: 2\n    command: --model m\n",
            f"{SERVICE}    environment:\n      B: 2\n    command: --model m\n",
        ),
        (
            "c.yaml",
            f"{SERVICE}    environment:\n      A: 1\n    command: --model m\n",
            f"{SERVICE}    command: --model m\n",
        ),
        (
            "a.py",
            "import os\nos.environ['A'] = '1'\nfrom vllm import LLM\nLLM(model='m')\n",
            "import os\nfrom vllm import LLM\nLLM(model='m')\n",
        ),
    ],
)
def test_a_variable_is_removed_with_its_whole_entry(name: str, text: str, expected: str | None) -> None:
    """Its line, option, item or key; nothing if a comment or another use depends on it."""
    page = documents.read(text, name)
    setting = page.starts[0].environment["A"]
    made = editing.unset(page, setting)

    assert (applied(text, made) if made else None) == expected


DOCKER = "docker run {} vllm/vllm-openai:v0.9.1 --model m\n"
RESERVED = "    deploy: {resources: {reservations: {devices: [{device_ids: ['4', '5']}]}}}\n"


@in_one_test(
    ("name", "text", "inside", "outside"),
    [
        ("a.sh", "CUDA_VISIBLE_DEVICES=2,3 vllm serve m\n", "2,3", "2,3"),
        ("a.sh", DOCKER.format("--gpus device=4"), "4", "4"),
        ("a.sh", DOCKER.format("""--gpus '"device=4,5"' -e CUDA_VISIBLE_DEVICES=1"""), "5", "5"),
        ("a.sh", DOCKER.format("--gpus all -e CUDA_VISIBLE_DEVICES=2,3"), "2,3", "2,3"),
        ("a.sh", DOCKER.format("--gpus all"), None, None),
        ("c.yaml", f"{SERVICE}    command: --model m\n{RESERVED}", "4,5", "4,5"),
        ("c.yaml", f"{SERVICE}    command: --model m\n    environment: [NVIDIA_VISIBLE_DEVICES=3]\n", "3", "3"),
    ],
)
@in_one_test("to", forms.WRITERS)
def test_a_launch_keeps_its_gpus_in_every_format(
    name: str, text: str, inside: str | None, outside: str | None, to: str
) -> None:
    """A container gets the GPUs and counts from 0; other formats set a variable."""
    release = options.load("0.9.2")
    written, _ = forms.converted(documents.read(text, name).starts[0], to, release)
    (found,) = documents.read(written, forms.FILES[to]).starts
    is_contained = to in ("docker", "compose")
    given = found.gpus and found.gpus.devices

    assert (",".join(given) if given else None) == (inside if is_contained else outside)
    assert ("VISIBLE_DEVICES" in written) is (not is_contained and outside is not None)


@pytest.mark.parametrize(
    ("given", "left"),
    [("--gpus all", ()), ("--gpus device=4", ()), ("--gpus 2", ("number of GPUs",))],
)
def test_gpus_that_a_variable_cannot_select_are_left_out(given: str, left: tuple[str, ...]) -> None:
    """Outside a container, no runtime excludes them."""
    (found,) = documents.read(DOCKER.format(given), "a.sh").starts

    assert tuple(one.split(";")[0] for one in forms.left_out(found, "shell")) == left
    assert forms.left_out(found, "compose") == ()


def test_only_vllms_own_image_is_replaced_by_that_of_the_release() -> None:
    """A mirror, a build of another kind and an image of a digest are kept."""
    (found,) = documents.read("docker run vllm/vllm-openai:v0.8.5 --model m\n", "a.sh").starts
    own = "vllm/vllm-openai"
    kept = [f"a.example/{own}:v0.8.5", f"{own}:nightly", f"{own}:v0.8.5-x86_64", f"{own}:v0.8.5@sha256:00", "me/vllm:1"]
    release = options.load("0.9.2")

    assert "vllm/vllm-openai:v0.9.2" in forms.converted(found, "docker", release)[0]
    for image in kept:
        other = replace(found, image=replace(found.image, value=image)) if found.image else found
        assert image in forms.converted(other, "docker", release)[0]


COMMENTED = {
    "an item": (
        "c.yaml",
        SERVICE + "    command:\n      - --model=m\n      - --swap-space=4 # keep why\n      - --port=1\n",
        SERVICE + "    command:\n      - --model=m\n      # keep why\n      - --port=1\n",
    ),
    "an item and its value": (
        "c.yaml",
        SERVICE + '    command:\n    - --model=m\n    - --swap-space   # swap\n    # more\n    - "4" # four\n',
        SERVICE + "    command:\n    - --model=m\n    # swap\n    # more\n    # four\n",
    ),
    "between brackets": (
        "c.yaml",
        SERVICE + '    command: ["--model=m", # model\n      "--swap-space",  # gone\n      "4",\n      "--port=1"]\n',
        SERVICE + '    command: ["--model=m", # model\n      # gone\n      "--port=1"]\n',
    ),
    "a container file": (
        "Dockerfile",
        'FROM vllm/vllm-openai\nENTRYPOINT ["vllm","serve","m", \\\n  # keep why\n  "--swap-space","4"]\n',
        'FROM vllm/vllm-openai\nENTRYPOINT ["vllm","serve","m" \\\n  # keep why\n  ]\n',
    ),
    "Python": (
        "a.py",
        'import subprocess\nsubprocess.run(["vllm", "serve", "m",  # model\n    "--swap-space", "4",  # keep\n])\n',
        'import subprocess\nsubprocess.run(["vllm", "serve", "m",  # model\n    # keep\n])\n',
    ),
}


@pytest.mark.parametrize("kind", COMMENTED)
def test_comments_of_removed_options_stay(kind: str, release: ReleaseData) -> None:
    """Each becomes a separate line with the same indentation."""
    name, text, expected = COMMENTED[kind]

    assert expected == edited(text, name, [Edit("remove", "swap_space")], release)


def test_an_option_is_removed_from_a_quotation() -> None:
    """The quote marks of its line are removed too."""
    text = "> vllm serve m \\\n>   --swap-space 4 \\\n>   --port 8000\n"

    assert edited(text, "a.txt", [Edit("remove", "swap_space")], options.load("0.11.0")) == (
        "> vllm serve m \\\n>   --port 8000\n"
    )


POD = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: vllm/vllm-openai\n"
HEADS = {
    "c.yaml": SERVICE,
    "k.yaml": POD,
    "Dockerfile": "FROM vllm/vllm-openai\n",
    "a.service": "[Service]\n",
    "call.py": "from vllm import LLM\n",
    "list.py": "import subprocess\n",
    "pod.yaml": POD.partition("  -")[0],
}
"""# Prefixes of the texts below."""
EDITED: dict[str, list[tuple[str, Edit, str | None]]] = {
    "a.sh": [
        ("vllm serve m --port=1 --seed 2\n", Edit("remove", "port"), "vllm serve m --seed 2\n"),
        ("vllm serve m --port 1 --seed 2 --port 3\n", setting("port", 9), "vllm serve m --seed 2 --port 9\n"),
        ("vllm serve m --port 1 --seed 2 --port 3\n", Edit("remove", "port"), "vllm serve m --seed 2\n"),
        (
            "vllm serve m --served-model-name a --port 1\n", setting("served_model_name", ["a", "b c"]),
            "vllm serve m --served-model-name a 'b c' --port 1\n",
        ),
        (
            "vllm serve m --served-model-name a b --port 1\n", setting("served_model_name", "c"),
            "vllm serve m --served-model-name c --port 1\n",
        ),
        (
            "vllm serve m --enforce-eager --port 1\n", setting("enforce_eager", False),
            "vllm serve m --no-enforce-eager --port 1\n",
        ),
        ("vllm serve m --enforce-eager --port 1\n", Edit("remove", "enforce_eager"), "vllm serve m --port 1\n"),
        ("vllm serve --model=m --port 1\n", setting("model", "n"), "vllm serve n --port 1\n"),
        ("vllm serve $M --port 1\n", setting("model", "n"), "vllm serve n --port 1\n"),
        ("vllm serve m\n", setting("nothing_known", "n"), None),
        (
            "  vllm serve m \\\n    --port 1 # c\n", setting("seed", 2),
            "  vllm serve m \\\n    --port 1 \\\n    --seed 2 # c\n",
        ),
        ("vllm serve m --port 1 && echo x\n", setting("seed", 2), "vllm serve m --port 1 --seed 2 && echo x\n"),
        ("vllm serve m --port 1;\n", Edit("remove", "port"), "vllm serve m;\n"),
        (
            'bash -c "vllm serve m --port 1"\n', setting("chat_template", 'a"b\'c $d `e` \\f %g'),
            'bash -c "vllm serve m --port 1 --chat-template \'a\\"b\'\\"\'\\"\'c \\$d \\`e\\` \\\\f %g\'"\n',
        ),
        (
            "bash -c 'vllm serve m --port 1'\n", setting("chat_template", 'a"b\'c $d `e` \\f %g'),
            (
                'bash -c \'vllm serve m --port 1 --chat-template \'\\\'\'a"b\'\\\'\'"\'\\\'\'"\'\\\'\'c $d `e` \\f '
                '%g\'\\\'\'\'\n'
            ),
        ),
        (
            'ssh h "bash -c \'vllm serve m --port 1\'"\n', setting("seed", 2),
            'ssh h "bash -c \'vllm serve m --port 1 --seed 2\'"\n',
        ),
        (
            'vllm serve m --limit-mm-per-prompt \'{"image": 1}\'\n',
            setting("limit_mm_per_prompt", {"image": 2, "video": 0}),
            'vllm serve m --limit-mm-per-prompt \'{"image": 2, "video": 0}\'\n',
        ),
        (
            "export A=1\nexport B=2\nvllm serve m\n", Edit("env", "C", "3"),
            "export A=1\nexport C=3\nexport B=2\nvllm serve m\n",
        ),
        ("  export A=1\n  vllm serve m\n", Edit("env", "C", "3"), "  export C=3\n  export A=1\n  vllm serve m\n"),
        ("A=1\nexport A\nvllm serve m\n", Edit("env", "A", "3"), None),
        ("export A='1 2'\nvllm serve m\n", Edit("env", "A", None), "vllm serve m\n"),
        ("export A='1 2'\nvllm serve m\n", Edit("env", "A", ""), "export A=''\nvllm serve m\n"),
        (
            "nohup python3 -m vllm.entrypoints.openai.api_server --model m\n", Edit("env", "C", "3"),
            "nohup env C=3 python3 -m vllm.entrypoints.openai.api_server --model m\n",
        ),
        ("/opt/bin/vllm serve m\n", Edit("env", "C", "3 4"), "C='3 4' /opt/bin/vllm serve m\n"),
        (
            "sudo env A=1 /opt/bin/vllm serve m\n", Edit("env", "C", "3 4"),
            "sudo env A=1 env C='3 4' /opt/bin/vllm serve m\n",
        ),
        ("bash -c 'vllm serve m'\n", Edit("env", "C", "3 4"), "bash -c 'C='\\''3 4'\\'' vllm serve m'\n"),
        ("bash -c 'export A=1; vllm serve m'\n", Edit("env", "C", "3"), "bash -c 'export A=1; C=3 vllm serve m'\n"),
        (
            "bash -c 'export A=1; vllm serve m'\n", Edit("env", "A", "3 4"),
            "bash -c 'export A='\\''3 4'\\''; vllm serve m'\n",
        ),
        ('bash -c "A=1 vllm serve m"\n', Edit("env", "A", "$3"), 'bash -c "A=\'\\$3\' vllm serve m"\n'),
        ("uv run x serve\n$VLLM_BIN serve m\n", Edit("env", "C", "3"), None),
        (
            "docker run --gpus all \\\n  vllm/vllm-openai --model m\n", Edit("env", "C", "3 4"),
            "docker run --gpus all \\\n  -e 'C=3 4' \\\n  vllm/vllm-openai --model m\n",
        ),
        (
            "docker run -e A=1 vllm/vllm-openai --model m\n", Edit("env", "A", "3 4"),
            "docker run -e 'A=3 4' vllm/vllm-openai --model m\n",
        ),
        (
            "docker run -e 'A=1 2' vllm/vllm-openai --model m\n", Edit("env", "A", "3"),
            "docker run -e A=3 vllm/vllm-openai --model m\n",
        ),
        (
            "docker run --env=A=1 vllm/vllm-openai --model m\n", Edit("env", "A", "3"),
            "docker run --env=A=3 vllm/vllm-openai --model m\n",
        ),
        ("docker run -e A vllm/vllm-openai --model m\n", Edit("env", "A", "3"), None),
    ],
    "c.yaml": [
        (
            "    command: [--model=m, --port=1, --seed=2]\n", Edit("remove", "port"),
            "    command: [--model=m, --seed=2]\n",
        ),
        (
            "    command: [--model=m, --port=1, --seed=2]\n", Edit("remove", "seed"),
            "    command: [--model=m, --port=1]\n",
        ),
        (
            "    command: [--model=m, --port=1]\n", setting("seed", 3),
            '    command: [--model=m, --port=1, --seed, "3"]\n',
        ),
        (
            "    command: ['--model', 'm', '--port', '1']\n", setting("port", 2),
            "    command: ['--model', 'm', '--port', '2']\n",
        ),
        ("    command: [--port=1, --model=m]\n", Edit("remove", "port"), "    command: [--model=m]\n"),
        ("    command:\n      - --port=1\n", Edit("remove", "port"), None),
        (
            "    command:\n      - --model=m\n      - --port=1", Edit("remove", "port"),
            "    command:\n      - --model=m\n",
        ),
        (
            "    command:\n      - --model=m\n      - --port=1", setting("seed", 2),
            "    command:\n      - --model=m\n      - --port=1\n      - --seed=2",
        ),
        (
            "    command:\r\n      - --model=m # x\r\n      - --port=1 # y\r\n", Edit("remove", "port"),
            "    command:\r\n      - --model=m # x\r\n      # y\r\n",
        ),
        (
            "    command:\r\n      - --model=m\r\n      - --port=1\r\n", setting("seed", 2),
            "    command:\r\n      - --model=m\r\n      - --port=1\r\n      - --seed=2\r\n",
        ),
        (
            "    command:\n      - --model=m\n      - --served-model-name\n      - a\n",
            setting("served_model_name", ["a", "b"]),
            None,
        ),
        (
            "    command:\n      - --model=m\n      - >-\n        --chat-template=x\n", setting("seed", 2),
            "    command:\n      - --model=m\n      - >-\n        --chat-template=x\n      - --seed=2\n",
        ),
        (
            "    command:\n      - --model\n      - m\n", setting("seed", 2),
            '    command:\n      - --model\n      - m\n      - --seed\n      - "2"\n',
        ),
        (
            "    command:\n      - --model=m\n      - --enforce-eager\n", setting("enforce_eager", False),
            "    command:\n      - --model=m\n      - --no-enforce-eager\n",
        ),
        (
            "    command:\n      - --model=m\n", setting("chat_template", "a $b"),
            '    command:\n      - --model=m\n      - "--chat-template=a $$b"\n',
        ),
        (
            "    command:\n      - '--model=m'\n", setting("chat_template", "it's"),
            "    command:\n      - '--model=m'\n      - '--chat-template=it''s'\n",
        ),
        (
            '    command:\n      - "--model=m"\n', setting("chat_template", "a\x85\u2028é"),
            '    command:\n      - "--model=m"\n      - "--chat-template=a\\u0085\\u2028é"\n',
        ),
        ("    command: --model m --port 1\n", setting("seed", 2), "    command: --model m --port 1 --seed 2\n"),
        ("    command: --model m --port 1\n", setting("chat_template", "a: b"), None),
        (
            "    command: --model m --port 1\n", setting("limit_mm_per_prompt", {"image": 1, "video": 2}),
            '    command: --model m --port 1 --limit-mm-per-prompt \'{"image":1,"video":2}\'\n',
        ),
        (
            "    command: '--model m --port 1'\n", setting("chat_template", "a b"),
            "    command: '--model m --port 1 --chat-template ''a b'''\n",
        ),
        (
            '    command: "--model m --port 1"\n', setting("chat_template", "a 'b\\"),
            '    command: "--model m --port 1 --chat-template \\"a \'b\\\\\\\\\\""\n',
        ),
        (
            "    command: >\n      --model m\n      --port 1\n", setting("chat_template", "$x y"),
            "    command: >\n      --model m\n      --port 1\n      --chat-template '$$x y'\n",
        ),
        (
            "    command: |\n      --model m\n      --port 1\n", Edit("remove", "port"),
            "    command: |\n      --model m\n",
        ),
        (
            '    entrypoint: [bash, -c]\n    command: ["vllm serve m --port 1"]\n',
            setting("chat_template", 'a"b\'c $d `e` \\f %g'),
            (
                '    entrypoint: [bash, -c]\n'
                '    command: ["vllm serve m --port 1 --chat-template \'a\\"b\'\\"\'\\"\'c $$d `e` \\\\f %g\'"]\n'
            ),
        ),
        (
            "    entrypoint: [bash, -c]\n    command:\n    - |\n      vllm serve m \\\n        --port 1\n",
            setting("seed", 2),
            (
                "    entrypoint: [bash, -c]\n    command:\n    - |\n      vllm serve m \\\n        --port 1 \\\n"
                "        --seed 2\n"
            ),
        ),
        (
            "    environment:\n      A: 1\n    command: --model m\n", Edit("env", "A", "$b"),
            '    environment:\n      A: "$$b"\n    command: --model m\n',
        ),
        (
            "    environment:\n      A: 1 # x\n    command: --model m\n", Edit("env", "B", "2"),
            '    environment:\n      A: 1 # x\n      B: "2"\n    command: --model m\n',
        ),
        (
            "    environment:\n      - A=1\n    command: --model m\n", Edit("env", "A", "b c"),
            '    environment:\n      - "A=b c"\n    command: --model m\n',
        ),
        (
            '    environment:\n      - "A=1"\n    command: --model m\n', Edit("env", "B", "b: c"),
            '    environment:\n      - "A=1"\n      - "B=b: c"\n    command: --model m\n',
        ),
        (
            "    environment:\n      - A=1\n    command: --model m\n", Edit("env", "B", "$c"),
            '    environment:\n      - A=1\n      - "B=$$c"\n    command: --model m\n',
        ),
        ("    environment: {A: 1}\n    command: --model m\n", Edit("env", "B", "2"), None),
        ("    environment:\n      - A\n    command: --model m\n", Edit("env", "A", "2"), None),
        (
            "    command: --model m\n    environment:\n      A: 1", Edit("env", "B", "2"),
            '    command: --model m\n    environment:\n      A: 1\n      B: "2"',
        ),
        (
            "    environment:\r\n      A: 1\r\n    command: --model m\r\n", Edit("env", "B", "2"),
            '    environment:\r\n      A: 1\r\n      B: "2"\r\n    command: --model m\r\n',
        ),
    ],
    "k.yaml": [
        (
            "    args:\n    - --model=m\n", setting("chat_template", "$(A) $b"),
            '    args:\n    - --model=m\n    - "--chat-template=$$(A) $b"\n',
        ),
        ("    args: [--model, m]\n", setting("chat_template", "no"), '    args: [--model, m, --chat-template, "no"]\n'),
        ("    args: [--model, m]\n", setting("port", 8000), '    args: [--model, m, --port, "8000"]\n'),
        (
            "    command: [sh, -c]\n    args: ['vllm serve m --port 1']\n", setting("chat_template", "a 'b"),
            '    command: [sh, -c]\n    args: [\'vllm serve m --port 1 --chat-template \'\'a \'\'"\'\'"\'\'b\'\'\']\n',
        ),
        ("    command: [sh, -c]\n    args: [vllm serve m --port 1]\n", setting("chat_template", "a #b"), None),
        (
            "    command: [sh, -c]\n    args:\n    - |\n      vllm serve m \\\n        --port 1\n",
            Edit("remove", "port"),
            "    command: [sh, -c]\n    args:\n    - |\n      vllm serve m\n",
        ),
        (
            '    args: [--model, m]\n    env:\n    - name: A\n      value: "1"\n', Edit("env", "A", "b"),
            '    args: [--model, m]\n    env:\n    - name: A\n      value: "b"\n',
        ),
        (
            '    args: [--model, m]\n    env:\n    - name: A\n      value: "1"\n', Edit("env", "B", "b $c"),
            '    args: [--model, m]\n    env:\n    - name: A\n      value: "1"\n    - name: B\n      value: "b $c"\n',
        ),
        (
            "    args: [--model, m]\n    env:\n    - {name: A, value: '1'}\n", Edit("env", "B", "b"),
            '    args: [--model, m]\n    env:\n    - {name: A, value: \'1\'}\n    - name: B\n      value: "b"\n',
        ),
        (
            "    args: [--model, m]\n", Edit("env", "B", "b"),
            '    env:\n    - name: B\n      value: "b"\n    args: [--model, m]\n',
        ),
    ],
    "Dockerfile": [
        (
            'CMD ["--model", "m", "--port", "1", "--seed", "2"]\n', Edit("remove", "port"),
            'CMD ["--model", "m", "--seed", "2"]\n',
        ),
        ('CMD ["--port=1", "--model", "m"]\n', Edit("remove", "port"), 'CMD ["--model", "m"]\n'),
        ('CMD ["--port=1"]\n', Edit("remove", "port"), None),
        (
            'CMD ["--model", "m"]\n', setting("chat_template", 'a"b\'c $d `e` \\f %g'),
            'CMD ["--model", "m", "--chat-template", "a\\"b\'c $d `e` \\\\f %g"]\n',
        ),
        ("ENTRYPOINT vllm serve m --port 1\n", setting("seed", 2), "ENTRYPOINT vllm serve m --port 1 --seed 2\n"),
        ('ENV A=1\nCMD ["--model", "m"]\n', Edit("env", "A", "b c"), None),
        (
            'CMD ["--model", "m"]\n', Edit("env", "B", 'c "$d" \\e'),
            'ENV B="c \\"\\$d\\" \\\\e"\nCMD ["--model", "m"]\n',
        ),
    ],
    "list.py": [
        (
            "subprocess.run(['vllm', 'serve', 'm', '--port', '1'])\n", Edit("remove", "port"),
            "subprocess.run(['vllm', 'serve', 'm'])\n",
        ),
        (
            "subprocess.run(['vllm', 'serve', 'm', '--port', '1'])\n",
            setting("chat_template", 'a"b\'c $d `e` \\f %g'),
            (
                'subprocess.run([\'vllm\', \'serve\', \'m\', \'--port\', \'1\', \'--chat-template\', "a\\"b\'c $d `e` '
                '\\\\f %g"])\n'
            ),
        ),
        (
            'subprocess.run(["vllm", "serve", "m"])\n', setting("chat_template", "a\nb"),
            'subprocess.run(["vllm", "serve", "m", "--chat-template", \'a\\nb\'])\n',
        ),
    ],
    "a.py": [
        (
            "import os\nos.system('vllm serve m --port 1')\n", setting("chat_template", "a 'b\\"),
            'import os\nos.system(\'vllm serve m --port 1 --chat-template \\\'a \\\'"\\\'"\\\'b\\\\\\\'\')\n',
        ),
        (
            "import os\nos.system('''vllm serve m --port 1''')\n", setting("seed", 2),
            "import os\nos.system('''vllm serve m --port 1 --seed 2''')\n",
        ),
        ("import os\nos.system(f'vllm serve m --port 1')\n", setting("seed", 2), None),
        (
            "import os\nos.environ['A'] = '1'\nfrom vllm import LLM\nLLM('m')\n", Edit("env", "A", "it's"),
            'import os\nos.environ[\'A\'] = "it\'s"\nfrom vllm import LLM\nLLM(\'m\')\n',
        ),
        (
            'import os\nos.environ["A"] = "1"\nfrom vllm import LLM\nLLM(\'m\')\n', Edit("env", "A", "b"),
            'import os\nos.environ["A"] = "b"\nfrom vllm import LLM\nLLM(\'m\')\n',
        ),
        (
            "import os\nfrom vllm import LLM\nLLM('m')\n", Edit("env", "A", "b\t"),
            'import os\nos.environ["A"] = \'b\\t\'\nfrom vllm import LLM\nLLM(\'m\')\n',
        ),
        (
            "import os\nimport vllm\nvllm.LLM('m')\n", Edit("env", "A", "b"),
            'import os\nos.environ["A"] = "b"\nimport vllm\nvllm.LLM(\'m\')\n',
        ),
    ],
    "call.py": [
        ("LLM('m', seed=1)\n", Edit("remove", "seed"), "LLM('m')\n"),
        ("LLM(seed=1)\n", Edit("remove", "seed"), "LLM()\n"),
        (
            "LLM(model='m',\n    seed=1,\n    dtype='half')\n", Edit("remove", "seed"),
            "LLM(model='m',\n    dtype='half')\n",
        ),
        ("LLM(model='m',\n    seed=1)\n", Edit("remove", "seed"), "LLM(model='m')\n"),
        (
            "LLM(model='m',\n    seed=1, dtype='half',\n)\n", Edit("remove", "seed"),
            "LLM(model='m',\n    dtype='half',\n)\n",
        ),
        ("LLM('m')\n", Edit("remove", "seed"), None),
        ("LLM('m', seed=1)\n", setting("seed", 2), "LLM('m', seed=2)\n"),
        ("LLM('m', dtype='half')\n", setting("dtype", None), "LLM('m', dtype=None)\n"),
        ("LLM()\n", setting("model", "n"), 'LLM(model="n")\n'),
        ("LLM(**k)\n", setting("seed", 2), "LLM(**k, seed=2)\n"),
        (
            "LLM(\n    model='m'\n)\n", setting("limit_mm_per_prompt", {"image": 1}),
            'LLM(\n    model=\'m\',\n    limit_mm_per_prompt={"image": 1}\n)\n',
        ),
        (
            "LLM(\n    model='m', seed=1,\n)\n", setting("served_model_name", ["a", "b"]),
            'LLM(\n    model=\'m\', seed=1, served_model_name=["a", "b"],\n)\n',
        ),
        (
            "LLM(\n    model='m',\n    seed=1,  # c\n)\n", setting("enforce_eager", True),
            "LLM(\n    model='m',\n    seed=1,  # c\n    enforce_eager=True,\n)\n",
        ),
        (
            "LLM(\n    model='m',\n    seed=1,)\n", setting("dtype", "a\nb"),
            "LLM(\n    model='m',\n    seed=1, dtype='a\\nb',)\n",
        ),
        ("LLM(\n    model='m',)\n", setting("seed", 2), "LLM(\n    model='m', seed=2,)\n"),
    ],
    "a.service": [
        (
            "Environment=A=1 B=2\nExecStart=/bin/vllm serve m\n", Edit("env", "A", "3 4"),
            'Environment="A=3 4" B=2\nExecStart=/bin/vllm serve m\n',
        ),
        (
            'Environment="A=1 2"\nExecStart=/bin/vllm serve m\n', Edit("env", "A", '"$3" 100%'),
            'Environment="A=\\"$3\\" 100%%"\nExecStart=/bin/vllm serve m\n',
        ),
        (
            "ExecStart=/bin/bash -c 'vllm serve m'\n", setting("chat_template", "a'b$c 1%\\"),
            'ExecStart=/bin/bash -c \'vllm serve m --chat-template \\\'a\\\'"\\\'"\\\'b$$c 1%%\\\\\\\'\'\n',
        ),
        (
            'ExecStart=/bin/bash -c "vllm serve m"\n', setting("chat_template", "a'b$c 1%\\"),
            'ExecStart=/bin/bash -c "vllm serve m --chat-template \'a\'\\"\'\\"\'b$$c 1%%\\\\\'"\n',
        ),
        (
            "ExecStart=/bin/vllm serve m --port 1\n", setting("chat_template", 'a"b\tc'),
            'ExecStart=/bin/vllm serve m --port 1 --chat-template "a\\"b\\tc"\n',
        ),
    ],
    "pod.yaml": [
        (
            "  - image: vllm/vllm-openai\n    name: a\n    args: [--model, m]\n", Edit("env", "B", "b"),
            (
                '  - image: vllm/vllm-openai\n    name: a\n    env:\n    - name: B\n      value: "b"\n'
                '    args: [--model, m]\n'
            ),
        ),
        (
            "  - args: [--model, m]\n    image: vllm/vllm-openai\n", Edit("env", "B", "b"),
            '  - env:\n    - name: B\n      value: "b"\n    args: [--model, m]\n    image: vllm/vllm-openai\n',
        ),
    ],
    "a.md": [
        (
            "```python\nfrom vllm import LLM\nLLM('m')\n```\n", Edit("env", "A", "b"),
            '```python\nimport os\nos.environ["A"] = "b"\nfrom vllm import LLM\nLLM(\'m\')\n```\n',
        ),
    ],
}  # fmt: skip
"""Document, edit and result; None: the edit is rejected."""


@in_one_test(
    ("name", "text", "change", "expected"),
    [(name, *case) for name, cases in EDITED.items() for case in cases],
)
def test_each_level_of_quoting_is_applied(
    name: str, text: str, change: Edit, expected: str | None, release: ReleaseData
) -> None:
    """Nested languages are each quoted; a value without a certain form is left alone."""
    head = HEADS.get(name, "")

    assert head + (text if expected is None else expected) == edited(head + text, name, [change], release)


TOKEN = "hf_" + "AbCdEfGh1234567890IjKl"
WHOLE = Deployment(
    "api_server",
    (
        *("--model", "org/m", "--port=8001", "--api-key=sesame-open-42", "--chat-template", "a $b 'c' %d \\ \"é\u2028"),
        *(None, "-x", None),
    ),
    (("A", "b $c"), ("B", None), ("HF_TOKEN", TOKEN)),
    "me/vllm:1",
    ("0", "1"),
    "my server",
    raws=("",) * 6 + ("$MORE", "", "--y=$(z)"),
)
SHELL_ARGUMENTS = """  --model org/m \\
  --port=8001 \\
  --api-key="${VLLM_API_KEY:?}" \\
  --chat-template 'a $b '"'"'c'"'"' %d \\ "é\u2028' "${MORE:?}" \\
  -x \\
  --y="${ARG_Y:?}"
"""
WRITTEN = {
    "to_shell": f"""export A='b $c'
export B="${{B:?}}"
export HF_TOKEN="${{HF_TOKEN:?}}"
python3 -m vllm.entrypoints.openai.api_server \\
{SHELL_ARGUMENTS}""",
    "to_docker": f"""docker run --rm \\
  --gpus '"device=0,1"' \\
  --ipc=host \\
  -p 8001:8001 \\
  -e 'A=b $c' \\
  -e B \\
  -e HF_TOKEN \\
  --entrypoint python3 \\
  me/vllm:1 \\
  -m vllm.entrypoints.openai.api_server \\
{SHELL_ARGUMENTS}""",
    "to_compose": r"""services:
  my-server:
    image: "me/vllm:1"
    entrypoint: ["python3", "-m", "vllm.entrypoints.openai.api_server"]
    command:
      - "--model"
      - "org/m"
      - "--port=8001"
      - "--api-key=${VLLM_API_KEY:?}"
      - "--chat-template"
      - "a $$b 'c' %d \\ \"é\u2028"
      - "${MORE:?}"
      - "-x"
      - "--y=${ARG_Y:?}"
    environment:
      A: "b $$c"
      B: "${B:?}"
      HF_TOKEN: "${HF_TOKEN:?}"
    ports:
      - "8001:8001"
    ipc: host
    deploy:
      resources:
        reservations:
          devices:
            - driver: nvidia
              device_ids: ["0", "1"]
              capabilities: [gpu]
""",
    "to_systemd": """[Unit]
Description=vLLM
After=network-online.target

[Service]
Environment="A=b $c"
EnvironmentFile=/etc/vllm.env
ExecStart=/usr/bin/env python3 -m vllm.entrypoints.openai.api_server \\
  --model org/m \\
  --port=8001 \\
  --api-key=${VLLM_API_KEY} \\
  --chat-template "a $$b 'c' %%d \\\\ \\"é\u2028" ${MORE} \\
  -x \\
  --y=${ARG_Y}
Restart=on-failure

[Install]
WantedBy=multi-user.target
""",
}


@pytest.mark.parametrize("form", WRITTEN)
def test_a_whole_deployment_is_written_in_each_format(form: str) -> None:
    """Image, GPUs, port, variables, secrets and unknown words are in place and quoted."""
    assert WRITTEN[form] == getattr(deployment, form)(WHOLE)


@pytest.mark.parametrize(
    ("gpus", "option", "line"), [(None, "--gpus all ", "count: all"), (2, "--gpus 2 ", "count: 2")]
)
def test_a_number_of_gpus_is_written_as_a_number(gpus: int | None, option: str, line: str) -> None:
    """Or all GPUs, if none is specified."""
    one = Deployment("image", ("m",), image="i", gpus=gpus)

    assert option in deployment.to_docker(one)
    assert f"              {line}\n              capabilities: [gpu]\n" in deployment.to_compose(one)


@pytest.mark.parametrize(
    ("words", "raws", "port"),
    [
        (("m", "--port", "x"), (), "8000"),
        (("m", "--port"), (), "8000"),
        (("m", "--seed", "5"), (), "8000"),
        (("m", "--port=9"), (), "9"),
        (("m", "--port", "7", "--port", "8"), (), "8"),
        (("m", "--port", "7", "--port", "x"), (), "7"),
        (("m", "--port", None), ("", "", "$P"), "${P:?}"),
        (("m", None), ("", "--port=$P"), "${P:?}"),
        (("m", "--port", None), (), "${ARG_PORT:?}"),
    ],
)
def test_the_published_port_is_the_listening_port(
    words: tuple[str | None, ...], raws: tuple[str, ...], port: str
) -> None:
    """The last value, as in vLLM's parser, else vLLM's default."""
    one = Deployment("serve", words, image="i", raws=raws)
    quote = '"' * (not port.isdecimal())

    assert f"  -p {quote}{port}:{port}{quote} \\\n" in deployment.to_docker(one)
    assert f'      - "{port}:{port}"\n' in deployment.to_compose(one)


@pytest.mark.parametrize(
    ("name", "text", "to", "expected"),
    [
        (
            "a.sh",
            "docker run --rm -it --name x -v /a:/b --shm-size=8g --privileged --network h -e A=1 vllm/vllm-openai m\n",
            "shell",
            ("-v /a:/b", "--shm-size=8g", "--privileged", "--network h"),
        ),
        ("a.sh", "nohup taskset -c 0-3 env A=1 vllm serve m &\n", "docker", ("taskset -c 0-3",)),
        (
            "a.sh",
            "sudo -u a python3 -u -m vllm.entrypoints.openai.api_server --model m\n",
            "compose",
            ("sudo -u a",),
        ),
        ("a.sh", "A=1 nohup vllm serve m\n", "docker", ()),
        ("a.sh", "vllm serve m\n", "docker", ()),
        (
            "c.yaml",
            f"{SERVICE}    command: --model m\n    restart: always\n    ports: ['1:1']\n    volumes: [a]\n",
            "shell",
            ("restart", "volumes"),
        ),
        ("c.yaml", f"{SERVICE}    command: --model m\n", "shell", ()),
    ],
)
def test_parts_without_an_equivalent_are_reported(name: str, text: str, to: str, expected: tuple[str, ...]) -> None:
    """Options with their values, wrappers and service keys, unless they are written elsewhere."""
    (found,) = documents.read(text, name).starts

    assert forms.left_out(found, to) == expected


@pytest.mark.parametrize(
    ("entry", "words", "asked", "expected"),
    [
        ("serve", ("--model", "m"), "0.7.2", "serve"),
        ("api_server", ("m",), "0.33.0", "api_server"),
        ("LLM", (), "0.33.0", "api_server"),
        ("image", ("--model", "m"), "0.33.0", "serve"),
        ("image", ("m",), "0.7.2", "api_server"),
        ("image", ("m",), "99.0.0", "serve"),
        ("image", ("--model", "m"), "99.0.0", "api_server"),
        ("image", (None, "m"), "99.0.0", "api_server"),
        ("image", (), "99.0.0", "api_server"),
    ],
)
def test_the_parser_is_that_of_the_images_entry_point(
    entry: str, words: tuple[str | None, ...], asked: str, expected: str
) -> None:
    """The release's entry point; without a release the model argument decides."""
    assert deployment.parser_entry(entry, words, options.load(asked)) == expected


@pytest.mark.parametrize(
    ("name", "text", "span", "expected"),
    [
        ("a.sh", "vllm serve m --port 1 --seed 2\n", (1, 3), "vllm serve m --seed 2\n"),
        ("a.sh", "vllm serve m --port 1\n", (0, 1), "vllm serve --port 1\n"),
        ("Dockerfile", 'FROM vllm/vllm-openai\nCMD ["--model", "m", "x"]\n', (2, 3), '["--model", "m"]\n'),
        ("a.sh", 'A=(--port 1 --seed 2)\nvllm serve m "${A[@]}"\n', (1, 3), None),
        ("a.py", "from vllm import LLM\nLLM('m', seed=1)\n", (0, 1), None),
        ("a.md", 'x vllm serve "m"--tensor-parallel-size 2--port 1\n', (1, 3), None),
    ],
)
def test_words_are_removed_from_a_launch(
    name: str, text: str, span: tuple[int, int], expected: str | None, release: ReleaseData
) -> None:
    """A range of words; nothing is removed if the other words would change."""
    page = documents.read(text, name)
    made = editing.without(page, page.starts[0], *span, release)

    assert (applied(text, made)[-len(expected) :] if made and expected else None) == expected
    assert bool(made) is (expected is not None)


@pytest.mark.parametrize(
    ("text", "change", "expected"),
    [
        ("k = {'seed': 1}\nLLM('m', **k)\n", setting("seed", 2), "k = {'seed': 2}\nLLM('m', **k)\n"),
        (
            "k = {'seed': 1}\nLLM('m', **k)\n",
            setting("dtype", "half"),
            "k = {'seed': 1}\nLLM('m', dtype=\"half\", **k)\n",
        ),
        ("k = {'seed': 1}\nLLM(**k)\n", setting("dtype", "half"), "k = {'seed': 1}\nLLM(**k, dtype=\"half\")\n"),
        (
            "k = {'seed': 1, 'dtype': 'half'}\nLLM('m', **k)\n",
            Edit("remove", "seed"),
            "k = {'dtype': 'half'}\nLLM('m', **k)\n",
        ),
    ],
)
def test_arguments_of_a_mapping_are_edited_in_it(text: str, change: Edit, expected: str, release: ReleaseData) -> None:
    """Existing keys are edited in the mapping; new ones become arguments of the call."""
    head = "from vllm import LLM\n"

    assert edited(head + text, "a.py", [change], release) == head + expected


CHANGE = {
    "port": setting("port", 81),
    "seed": setting("seed", 6),
    "model": setting("model", "org/n"),
    "new option": setting("dtype", "half"),
    "new mapping": setting("limit_mm_per_prompt", {"image": 0}),
    "new switch": setting("trust_remote_code", True),
    "new text": setting("chat_template", 'it\'s $x "q" %i'),
    "without port": Edit("remove", "port"),
    "without seed": Edit("remove", "seed"),
    "without switch": Edit("remove", "enforce_eager"),
    "old variable": Edit("env", "A", "2 3"),
    "new variable": Edit("env", "N", "$x'"),
}


@in_one_test("change", CHANGE)
@in_one_test("form", REPLACED)
def test_a_change_replaces_no_more_than_it_has_to(form: str, change: str, release: ReleaseData) -> None:
    """A value inside its quotes, an option with its blank, a variable next to others."""
    name, text, expected = REPLACED[form]
    page = documents.read(text, name)
    made = [
        f"{text[max(start - 9, 0) : start]}[{text[start:end]}→{new}]{text[end : end + 9]}".replace("\n", "⏎")
        for start, end, new in editing.edits(page, page.starts[0], [CHANGE[change]], release)
    ]

    assert expected[change] == " & ".join(made)
