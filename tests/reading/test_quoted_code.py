"""Makefiles, justfiles, and launches in the texts and lists of other languages."""

from __future__ import annotations

import pytest

from cost import LIMIT, growth
from rows import in_one_test
from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading import documents
from vllm_runbooks.reading.documents import quoted_code, templates
from vllm_runbooks.reading.documents.starts import Around, DocumentReading, WrittenLaunch


def written(launch: WrittenLaunch) -> str:
    """Entry and words of a launch; an unknown word is `?`."""
    return " ".join([launch.entry, *("?" if word.value is None else word.value for word in launch.words)])


MAKEFILE = """MODEL ?= org/m
PORT := 8000
ALL = $(MODEL) x
IMAGE = vllm/vllm-openai:v0.9.1
.PHONY: serve
serve: ## Start vllm serve
\t@vllm serve $(MODEL) --port ${PORT} \\
\t  --max-num-seqs 4
\t-ONE=1 vllm serve $(OTHER) --seed $$SEED --served-model-name $(ALL) $@
docker: serve
\tdocker run --gpus all -v $$HOME:/x $(IMAGE) --model $(MODEL)
# vllm serve comment
NOTE = vllm serve note
"""
JUSTFILE = """model := "org/m"
set dotenv-load
serve port="8000" *args:
    @vllm serve {{ model }} --port {{port}} {{args}}

script:
    #!/usr/bin/env bash
    set -e
    vllm serve {{model}} \\
      --seed 1

alias s := serve
"""


def test_each_line_of_a_makefile_is_a_script_with_its_variables_filled_in() -> None:
    """`$$` is the shell's `$`; a variable that is not set in the file, or not simply, is unknown."""
    page = documents.read(MAKEFILE, "Makefile")

    assert (page.kind, [written(launch) for launch in page.starts]) == ("make", [
        "serve org/m --port 8000 --max-num-seqs 4",
        "serve ? --seed ? --served-model-name ? ?",
        "image --model org/m",
    ])  # fmt: skip
    assert page.starts[2].release == "0.9.1"
    assert [MAKEFILE[launch.start : launch.start + 6] for launch in page.starts] == ["vllm s", "vllm s", "docker"]


def test_recipes_of_a_justfile_are_lines_or_scripts() -> None:
    """Variables of the file are filled in, parameters are unknown."""
    page = documents.read(JUSTFILE, "justfile")

    assert (page.kind, [written(launch) for launch in page.starts]) == (
        "just", ["serve org/m --port ? ?", "serve org/m --seed 1"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(
            ("org+repo@@vllm+justfile", "just"),
            ("GNUmakefile", "make"),
            ("a.mk", "make"),
            ("Makefile.gpu", "make"),
            (".justfile", "just"),
            ("a.just", "just"),
        ),
        *(
            ("vllm.service.j2", "unit"),
            ("a.sh.tmpl", "shell"),
            ("a.yaml.gotmpl", "yaml"),
            ("Dockerfile.in", "dockerfile"),
        ),
        *(("a.nomad.hcl.tpl", "code"), ("a.nix", "code"), ("a.ts", "code")),
    ],
)
def test_a_template_has_the_format_of_its_result(name: str, kind: str) -> None:
    """The suffix before that of the template counts."""
    assert documents.read("vllm serve m\n", name).kind == kind


CODE = {
    "image --model m --seed ?": (
        "a.nomad",
        """config {
  image = "vllm/vllm-openai:v1"
  args = [
    "--model", "m", # a
    "--seed", var.x,
  ]
}
""",
    ),
    "serve ? --port 1": (
        "a.hcl",
        """config {
  command = "/opt/bin/vllm"
  args = ["serve", "${var.m}", "--port", "1"]
}
""",
    ),
    "api_server --model ?": (
        "a.tf",
        """container {
  image = "vllm/vllm-openai:v1"
  command = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
  args = ["--model", tostring(var.m)]
}
""",
    ),
    "serve a --port 1": (
        "a.tf",
        """x {
  inline = [
    "pip install vllm",
    "nohup vllm serve a --port 1 &",
  ]
}
""",
    ),
    "serve ? --port 2": (
        "a.tf",
        """x {
  user_data = <<-EOF
    #!/bin/bash
    vllm serve ${var.m} --port 2
  EOF
}
""",
    ),
    "serve ? --seed 1": (
        "a.nix",
        """{
  ExecStart = ''
    ${pkgs.vllm}/bin/vllm serve ${m} \\
      --seed 1
  '';
}
""",
    ),
    "image --model m --seed 1": (
        "a.nix",
        """{
  image = "vllm/vllm-openai:v1";
  cmd = [ "--model" "m" "--seed" "1" ];
}
""",
    ),
    "serve m --seed 1": ("a.nix", '{\n  ExecStart = "${vllm}/bin/vllm serve m --seed 1";\n}\n'),
    "serve m --seed 2": ("a.toml", 'cmd = ["vllm", "serve", "m", "--seed", "2"]\n'),
    "serve m --seed 3": ("a.toml", 'run = """\nvllm serve m \\\n  --seed 3\n"""\n'),
    "serve ? --port ?": ("a.ts", 'const c = spawn("vllm", ["serve", model, "--port", String(port)]);\n'),
    "serve m --port 1": ("a.js", 'x = { script: "vllm", args: "serve m --port 1" };\n'),
    "serve ? --port 3": ("a.js", "exec(`vllm serve ${model} --port 3`);\n"),
}
"""By launch the name and text of a file with it."""
NO_CODE = {
    "a.go": 'exec.Command("echo", "run vllm serve to start")\n// vllm serve m\n',
    "a.tf": 'variable "x" {\n  description = "Model that vllm serve loads"\n}\n',
    "a.rs": 'let args = ["--model", "m"];\n',
}
"""By name the text of a file without a launch."""


@pytest.mark.parametrize("expected", CODE)
def test_texts_and_lists_of_other_languages_are_commands(expected: str) -> None:
    """With the image and command of their block; an expression is an unknown word."""
    name, text = CODE[expected]

    assert [written(launch) for launch in documents.read(text, name).starts] == [expected]


@pytest.mark.parametrize("name", NO_CODE)
def test_texts_that_mention_vllm_are_no_commands(name: str) -> None:
    """Prose, comments, and arguments that any program may have."""
    assert documents.read(NO_CODE[name], name).starts == ()


def test_statements_of_a_template_are_not_part_of_a_unit_or_script() -> None:
    """A line of them is removed, an expression is unknown, and both branches are read."""
    unit = """{{ managed | comment }}
[Service]
Environment="{{ item }}"
ExecStart={{ venv }}/bin/vllm serve {{ m | f('x') }} \\
{% if a %}
  --seed 1 \\
{% endif %}
  --port {{ port }}{% if b %} --dtype half{% endif %}
"""
    script = """{% if a %}
export A={{ a }}
{% endif %}
vllm serve {{ m }} \\
{{- if .x }}
  --seed 1 \\
{{- end }}
  --port 1
"""
    pages = [documents.read(unit, "a.service.j2"), documents.read(script, "a.sh.j2")]

    assert [[written(launch) for launch in page.starts] for page in pages] == [
        ["serve ? --seed 1 --port ? --dtype half"], ["serve ? --seed 1 --port 1"],
    ]  # fmt: skip
    assert [page.troubles for page in pages] == [(), ()]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("Makefile", "a:\n\tvllm serve $(M) \\\n"), ("justfile", "a:\n    vllm serve {{m}} \\\n")),
        *(
            ("a.tf", 'x = ["vllm", "serve", "m", y]\n'),
            ("a.nix", "''vllm serve m'' [ "),
            ("a.js", "{[(`${"),
            ("a.go", '"'),
        ),
        *(("a.service", "{% if a %}{{ b }}\n"), ("a.sh", "{% if a %}\nvllm serve {{ b\n"), ("a.service", "{{ a }} {#")),
    ],
)
def test_reading_takes_linear_time(name: str, text: str) -> None:
    """Also where brackets, quotes and templates do not end."""
    assert growth(lambda more: documents.read(more, name), text * 300) < LIMIT


@pytest.mark.parametrize("text", ["''$ ", "\\`", '"\\', '""" '])
def test_texts_that_do_not_end_take_linear_time(text: str) -> None:
    """A quote that closes no text is looked at once."""

    def read(more: str) -> None:
        quoted_code.read(Excerpt.whole(more), Around(), DocumentReading(), DocumentReading())

    assert growth(read, text * 2000) < LIMIT


def test_an_end_of_a_template_closes_the_statement_of_its_name() -> None:
    """One branch of a condition is read, also with a block in it."""
    text = "{% if a %}X{% raw %}Y{% endraw %}{% set b %}B{% endset %}{% else %}Z{% endif %}{{ c }}<%-= d %>"

    assert templates.rendered(Excerpt.whole(text)).text == "XYB{{ c }}<%-= d %>"


@pytest.mark.parametrize(
    "text",
    [
        "<% if a -%>X<% b.each do |c| -%>Y<%= c %><% end -%><% else -%>Z<% end -%>",
        "<%- if $a { -%>X<% $b.each |$c| { -%>Y<%= c %><% } -%><%- } else { -%>Z<%- } -%>",
        "<% if (a) { %>X<% b.forEach(function(c) { %>Y<%= c %><% }) %><% } elsif (d) { %>W<% } else { %>Z<% } %>",
    ],
)
def test_a_block_of_erb_or_puppet_is_rendered_once(text: str) -> None:
    """Its end does not close the condition around it, and its variable stays an expression."""
    assert templates.rendered(Excerpt.whole(text)).text == "XY<%= c %>"


def test_a_list_of_vllms_arguments_is_a_launch() -> None:
    """Another text runs it; the items that a program adds are unknown."""
    nix = """let args = [ "serve" inst.model "--max-model-len" (toString inst.length) "--max-num-seqs" "4" ]
      ++ optionals inst.eager [ "--enforce-eager" ];
    in "${vllm}/bin/vllm ${escapeShellArgs args}"
    """
    assert [written(launch) for launch in documents.read(nix, "vllm.nix").starts] == [
        "serve ? --max-model-len ? --max-num-seqs 4"
    ]
    assert documents.read(nix.replace("--max", "--min"), "vllm.nix").starts == ()


NIX = """{ pkgs, ... }: {
  systemd.services.other.environment = { A = "0"; };
  systemd.services.vllm = {
    environment = { A = "1"; lower = "2"; B = pkgs.x; };
    environment.C = "3";
    serviceConfig.ExecStart = "${pkgs.vllm}/bin/vllm serve m --port 1";
  };
  virtualisation.oci-containers.containers.x = {
    image = "vllm/vllm-openai:v0.29.0";
    cmd = [ "--model" "n" "-tp" "4" ];
    environment = { CUDA_VISIBLE_DEVICES = "0,1"; };
  };
}
"""


def test_a_block_of_nix_gives_its_launches_their_environment() -> None:
    """Whether the variables are written before or after the command, and only within the block."""
    service, container = documents.read(NIX, "vllm.nix").starts
    found = [{name: one.value.value for name, one in launch.environment.items()} for launch in (service, container)]

    assert found == [{"A": "1", "B": None, "C": "3"}, {"CUDA_VISIBLE_DEVICES": "0,1"}]
    assert container.gpus is not None
    assert container.gpus.devices == ("0", "1")


def _environments(text: str, name: str) -> list[dict[str, str | None]]:
    launches = documents.read(text, name).starts
    return [{name: one.value.value for name, one in launch.environment.items()} for launch in launches]


@in_one_test(
    ("environment", "expected"),
    [
        ('environment.A = if big then "0,1" else "0";', {"A": None}),
        ('environment.A = "0" + ",1";', {"A": None}),
        ('environment.A = "0"\n      + ",1";', {"A": None}),
        ('environment.A = lib.mkForce "0";', {"A": "0"}),
        ('environment = lib.mkForce { A = "0"; };', {"A": "0"}),
        ('environment = lib.mkIf big { A = "0"; };', {"A": None}),
        ('environment = if big then { A = "0,1"; } else { A = "0"; };', {"A": None}),
        ('environment = { A = "0"; } // others;', {"A": None}),
        ('environment = { A = x; B = "1"; };', {"A": None, "B": "1"}),
        ('env.A = "0";', {"A": "9"}),
    ],
)
def test_a_variable_of_a_block_is_known_if_its_value_is_one_literal(
    environment: str, expected: dict[str, str | None]
) -> None:
    """A part of an expression is no value, and hides that of an outer block."""
    text = f"""{{
  environment.A = "9";
  services.vllm = {{
    {environment}
    serviceConfig.ExecStart = "vllm serve m --port 1";
  }};
}}
"""

    assert _environments(text, "a.nix") == [expected]


@in_one_test(
    ("code", "expected"),
    [
        ('{ env: { A: big ? "0,1" : "0", B: "1" }, command: COMMAND }', {"A": None, "B": "1"}),
        ("{ env: { A: big ? ONE : TWO }, command: COMMAND }", {"A": None}),
        ('{ env: { ...process.env, A: "0" }, command: COMMAND }', {"A": "0"}),
        ('{ env: { A: "0", ...others }, command: COMMAND }', {"A": None}),
        ('{ env: big ? { A: "0,1" } : { A: "0" }, command: COMMAND }', {"A": None}),
        ('{ env: { A: "0" }, run: () => spawn("vllm", ARGUMENTS, { env: { A: "0,1" } }) }', {"A": "0,1"}),
        ('{ env: { A: "0" }, run: () => spawn("vllm", ARGUMENTS, { env }) }', {}),
        ('{ env: { A: "0" }, run: () => spawn("vllm", ARGUMENTS, f({ env: others })) }', {}),
        ('{ env: { A: "0" }, run: () => spawn("vllm", ARGUMENTS, { cwd: "/" }) }', {"A": "0"}),
        ('{ const env = { A: "0" }; if (big) { env.A = "0,1"; } spawn("vllm", ARGUMENTS, { env }); }', {}),
    ],
)
def test_an_object_of_javascript_gives_its_launch_its_environment(code: str, expected: dict[str, str | None]) -> None:
    """Only if a variable's value is one literal; the environment of a call replaces that of objects around it."""
    arguments = '["serve", "m", "--port", "1"]'
    code = code.replace("COMMAND", arguments.replace("[", '["vllm", ')).replace("ARGUMENTS", arguments)

    assert _environments(f"const a = {code};\n", "a.ts") == [expected]


def test_blocks_of_terraform_end_a_value_with_the_line() -> None:
    """A next name or bracket ends it, an operator does not."""
    text = """task "a" {
  env {
    A = "0"
    B = var.x
    C = "1" # one
  }
  config {
    command = ["vllm", "serve", "m", "--port", "1"]
  }
}
"""

    assert _environments(text, "a.hcl") == [{"A": "0", "B": None, "C": "1"}]
