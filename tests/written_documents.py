"""Texts of every format that launches vLLM, each with all of its parts as in the file.

A launch is a line with its kind, entry point and language, and its certain facts; below it, from
`name` to `container`, its places: the part of the text, and after ` = ` the value if it differs
(`?`: unknown). A setting has its value after ` : `, and so has an argument of a call; ‖ ends a pair of
a container. `at` has the characters of the file for those of a word, if they differ. ⏎ is a line end.
Other parts of a page follow `-`.
"""

from __future__ import annotations

WRITTEN = {
    "command": (
        "a.sh",
        r"""HF_HOME=/h exec numactl -N 0 vllm serve org/m --port=81 \
  --seed 5 'a b' > log 2>&1 &
wait
""",
        r"""- shell serve shell certain
whole: exec numactl -N 0 vllm serve org/m --port=81 \⏎  --seed 5 'a b'
prefix: exec | numactl | -N | 0 | vllm | serve
words: org/m | --port=81 | --seed | 5 | 'a b' = a b
variable: HF_HOME=/h : /h
-
setting: assignment HF_HOME=/h
""",
    ),
    "docker": (
        "a.sh",
        """\
sudo docker run --gpus device=3 -e B=7 -eC=8 --name x vllm/vllm-openai:v0.9.1 --model org/m
""",
        """\
- docker image shell certain
whole: sudo docker run --gpus device=3 -e B=7 -eC=8 --name x vllm/vllm-openai:v0.9.1 --model org/m
prefix: sudo | docker | run | --gpus | device=3 | -e | B=7 | -eC=8 | --name | x | vllm/vllm-openai:v0.9.1
words: --model | org/m
variable: -e B=7 : 7
variable: -eC=8 : 8
image: vllm/vllm-openai:v0.9.1
gpus: --gpus device=3
container: --gpus | device=3 | -e | B=7 | -eC=8 | --name | x
-
setting: option -e B=7
setting: option -eC=8
images: vllm/vllm-openai:v0.9.1
""",
    ),
    "docker with an entry point": (
        "a.sh",
        """\
docker run --entrypoint /bin/sh -e B=7 img -c 'export D=9; vllm serve org/m --seed "$D"'
""",
        """\
- docker serve shell certain
whole: docker run --entrypoint /bin/sh -e B=7 img -c 'export D=9; vllm serve org/m --seed "$D"'
prefix: docker | run | --entrypoint | /bin/sh | -e | B=7 | img | vllm | serve
words: org/m | --seed | "$D" = 9
variable: -e B=7 : 7
variable: D=9 : 9
image: img
within: shell 'export D=9; vllm serve org/m --seed "$D"'
container: --entrypoint | /bin/sh | -e | B=7
-
setting: option -e B=7
setting: assignment D=9
images: img
""",
    ),
    "docker exec": (
        "a.sh",
        """\
docker exec -e B=7 -it c env C=8 vllm serve org/m
docker exec d bash -c 'vllm serve org/n'
""",
        """\
- shell serve shell certain
whole: env C=8 vllm serve org/m
prefix: env | C=8 | vllm | serve
words: org/m
variable: -e B=7 : 7
variable: C=8 : 8
- shell serve shell certain
whole: vllm serve org/n
prefix: vllm | serve
words: org/n
within: shell 'vllm serve org/n'
-
setting: option -e B=7
setting: option C=8
""",
    ),
    "cluster": (
        "a.sh",
        """\
bash run_cluster.sh vllm/vllm-openai:v0.9.3 10.0.0.1 --head /hf -e B=7 --gpus 2
""",
        """\
- docker node shell certain
whole: bash run_cluster.sh vllm/vllm-openai:v0.9.3 10.0.0.1 --head /hf -e B=7 --gpus 2
prefix: bash | run_cluster.sh | vllm/vllm-openai:v0.9.3 | 10.0.0.1 | --head | /hf | -e | B=7 | --gpus | 2
variable: -e B=7 : 7
image: vllm/vllm-openai:v0.9.3
gpus: --gpus 2
container: vllm/vllm-openai:v0.9.3 | 10.0.0.1 | --head | /hf | -e | B=7 | --gpus | 2
-
setting: option -e B=7
images: vllm/vllm-openai:v0.9.3
""",
    ),
    "cluster in docker": (
        "a.sh",
        """\
docker run -d -e B=7 vllm/vllm-openai:v0.9.3 bash -c 'ray start --head'
""",
        """\
- docker node shell certain
whole: docker run -d -e B=7 vllm/vllm-openai:v0.9.3 bash -c 'ray start --head'
prefix: docker | run | -d | -e | B=7 | vllm/vllm-openai:v0.9.3 | bash | -c | 'ray start --head' = ray start --head
variable: -e B=7 : 7
image: vllm/vllm-openai:v0.9.3
container: -d | -e | B=7
-
setting: option -e B=7
images: vllm/vllm-openai:v0.9.3
""",
    ),
    "kubectl": (
        "a.sh",
        """\
kubectl run v --image=vllm/vllm-openai:v0.9.2 --env=B=7 -- --model org/m
""",
        """\
- kubernetes image shell certain
whole: kubectl run v --image=vllm/vllm-openai:v0.9.2 --env=B=7 -- --model org/m
prefix: kubectl | run | v | --image=vllm/vllm-openai:v0.9.2 | --env=B=7 | --
words: --model | org/m
variable: --env=B=7 : 7
image: vllm/vllm-openai:v0.9.2
-
setting: option --env=B=7
images: vllm/vllm-openai:v0.9.2
""",
    ),
    "apptainer run": (
        "a.sh",
        """\
srun -n 1 apptainer run --nv docker://vllm/vllm-openai:v0.8.1 --model org/m --seed 5
""",
        """\
- docker image shell certain
whole: srun -n 1 apptainer run --nv docker://vllm/vllm-openai:v0.8.1 --model org/m --seed 5
prefix: srun | -n | 1 | apptainer | run | --nv | docker://vllm/vllm-openai:v0.8.1
words: --model | org/m | --seed | 5
image: docker://vllm/vllm-openai:v0.8.1
-
images: docker://vllm/vllm-openai:v0.8.1
""",
    ),
    "apptainer exec": (
        "a.sh",
        """\
nice apptainer exec --nv x.sif env A=b vllm serve org/m
""",
        """\
- shell serve shell certain
whole: nice apptainer exec --nv x.sif env A=b vllm serve org/m
prefix: nice | apptainer | exec | --nv | x.sif | env | A=b | vllm | serve
words: org/m
variable: A=b : b
image: x.sif
-
setting: option A=b
images: x.sif
""",
    ),
    "another shell": (
        "a.sh",
        """\
ssh host 'A=b vllm serve org/m --seed 5'
""",
        """\
- shell serve shell
whole: vllm serve org/m --seed 5
prefix: vllm | serve
words: org/m | --seed | 5
variable: A=b : b
within: shell 'A=b vllm serve org/m --seed 5'
-
setting: assignment A=b
""",
    ),
    "for each": (
        "a.sh",
        """\
parallel -j 2 vllm serve {} --seed 5 ::: u v
echo u | xargs -n 1 vllm serve --port 6
""",
        """\
- shell serve shell
whole: parallel -j 2 vllm serve {} --seed 5
prefix: parallel | -j | 2 | vllm | serve
words: {} = ? | --seed | 5
- shell serve shell elided
whole: xargs -n 1 vllm serve --port 6
prefix: xargs | -n | 1 | vllm | serve
words: --port | 6
-
""",
    ),
    "code": (
        "a.sh",
        """\
env A=b python3 -c 'from vllm import LLM; LLM(model="org/m", seed=5)'
""",
        """\
- python LLM python certain
whole: LLM(model="org/m", seed=5)
keyword: model="org/m" : "org/m"
keyword: seed=5 : 5
variable: A=b : b
within: shell 'from vllm import LLM; LLM(model="org/m", seed=5)'
-
setting: option A=b
""",
    ),
    "script in a word": (
        "a.sh",
        """\
A=1 bash -c 'vllm serve org/m'
bash -c 'vllm serve "$1"' x org/n
""",
        """\
- shell serve shell certain
whole: vllm serve org/m
prefix: vllm | serve
words: org/m
variable: A=1 : 1
within: shell 'vllm serve org/m'
- shell serve shell certain
whole: vllm serve "$1"
prefix: vllm | serve
words: "$1" = org/n
within: shell 'vllm serve "$1"'
-
setting: assignment A=1
""",
    ),
    "compose": (
        "compose.yaml",
        """\
services:
  one:
    image: vllm/vllm-openai:v0.9.1
    environment: {HF_HOME: /h, B: "7"}
    gpus: 2
    command: >-
      --model org/m
      --seed "5 6"
  two:
    image: "vllm/vllm-openai:v0.9.2"
    environment:
      - C=8
      - "D=9 10"
      - E
    entrypoint: [vllm, serve]
    command:
      - org/n
      - '--port=${P:-81}'
  three:
    image: img
    entrypoint: bash -c
    command: ["export F=1; vllm serve org/o --seed 5"]
""",
        """\
- compose image compose certain
name: one
whole: --model org/m⏎      --seed "5 6"
words: --model | org/m | --seed | "5 6" = 5 6
variable: HF_HOME: /h : /h
variable: B: "7" : "7" = 7
image: vllm/vllm-openai:v0.9.1
gpus: 2
within: yaml >-⏎      --model org/m⏎      --seed "5 6"⏎
key: image: vllm/vllm-openai:v0.9.1‖
key: environment: {HF_HOME: /h, B: "7"}‖
key: gpus: 2‖
key: command: >-⏎      --model org/m⏎      --seed "5 6"⏎‖
- compose serve yaml certain
name: two
whole: vllm, serve]⏎    command:⏎      - org/n⏎      - '--port=${P:-81}'
prefix: vllm | serve
words: org/n | '--port=${P:-81}' = --port=81
variable: C=8 : 8
variable: "D=9 10" : 9 10
variable: E : E = ?
image: "vllm/vllm-openai:v0.9.2" = vllm/vllm-openai:v0.9.2
key: image: "vllm/vllm-openai:v0.9.2"‖
key: environment:⏎      - C=8⏎      - "D=9 10"⏎      - E⏎    ‖
key: entrypoint: [vllm, serve]‖
key: command:⏎      - org/n⏎      - '--port=${P:-81}'⏎  ‖
- compose serve shell certain
name: three
whole: vllm serve org/o --seed 5
prefix: vllm | serve
words: org/o | --seed | 5
variable: F=1 : 1
image: img
within: yaml "export F=1; vllm serve org/o --seed 5"
key: image: img‖
key: entrypoint: bash -c‖
key: command: ["export F=1; vllm serve org/o --seed 5"]‖
-
setting: map HF_HOME: /h
setting: map B: "7"
setting: list C=8
setting: list "D=9 10"
setting: list E
setting: assignment F=1
images: vllm/vllm-openai:v0.9.1 | "vllm/vllm-openai:v0.9.2" | img
""",
    ),
    "Kubernetes": (
        "pod.yaml",
        """\
apiVersion: v1
kind: Pod
spec:
  containers:
  - name: cont
    image: vllm/vllm-openai:v0.9.3
    env:
    - name: A
      value: "7"
    - {name: S}
    args: ["--model", org/m, '--seed', "$(A)"]
    resources: {limits: {nvidia.com/gpu: 2}}
  - image: vllm/vllm-openai
    name: bare
""",
        """\
- kubernetes image yaml certain
name: cont
whole: "--model", org/m, '--seed', "$(A)"
words: "--model" = --model | org/m | '--seed' = --seed | "$(A)" = 7
variable: name: A⏎      value: "7" : "7" = 7
variable: {name: S : S = ?
image: vllm/vllm-openai:v0.9.3
gpus: 2
key: name: cont‖
key: image: vllm/vllm-openai:v0.9.3‖
key: env:⏎    - name: A⏎      value: "7"⏎    - {name: S}⏎    ‖
key: args: ["--model", org/m, '--seed', "$(A)"]‖
key: resources: {limits: {nvidia.com/gpu: 2}}‖
at: 7 $
-
setting: entry name: A⏎      value: "7"
setting: entry {name: S
images: vllm/vllm-openai:v0.9.3
""",
    ),
    "exec form": (
        "Dockerfile",
        r"""ARG T=v0.9.1
FROM vllm/vllm-openai:$T
ENV A=1 B="2 3" \
    C='4'
ENTRYPOINT ["vllm", "serve", "org/m", \
  "--name", "a\"b"]
""",
        r"""- dockerfile serve json certain
whole: "vllm", "serve", "org/m", \⏎  "--name", "a\"b"
prefix: "vllm" = vllm | "serve" = serve
words: "org/m" = org/m | "--name" = --name | "a\"b" = a"b
variable: A=1 : 1
variable: B="2 3" : "2 3" = 2 3
variable: C='4' : '4' = 4
image: vllm/vllm-openai:$T = vllm/vllm-openai:v0.9.1
at: a"b a\b
-
setting: dockerfile A=1
setting: dockerfile B="2 3"
setting: dockerfile C='4'
images: vllm/vllm-openai:$T
""",
    ),
    "shell form": (
        "Dockerfile",
        """\
FROM img
ENV D 5 6
CMD vllm serve org/m --seed $D
""",
        """\
- dockerfile serve shell certain
whole: vllm serve org/m --seed $D
prefix: vllm | serve
words: org/m | --seed | $D = 5 | $D = 6
variable: D 5 6 : 5 6
image: img
at: 5 None
at: 6 None
-
setting: dockerfile D 5 6
images: img
""",
    ),
    "unit": (
        "a.service",
        r"""[Service]
Environment="A=1 2" B=\x33
ExecStart=-/opt/vllm serve org/m --name '${A}' "q r" \
  --port=$B $A
""",
        r"""- systemd serve systemd certain
whole: /opt/vllm serve org/m --name '${A}' "q r" \⏎  --port=$B $A
prefix: /opt/vllm | serve
words: org/m | --name | '${A}' = 1 2 | "q r" = q r | --port=$B | $A = 1 | $A = 2
variable: "A=1 2" : 1 2" = 1 2
variable: B=\x33 : \x33 = 3
at: 1 2 $$$
at: 1 None
at: 2 None
-
setting: unit "A=1 2"
setting: unit B=\x33
""",
    ),
    "unit of podman": (
        "a.service",
        """\
[Container]
Image=vllm/vllm-openai:v0.9.0
Environment=A=1
Entrypoint=vllm
Exec=serve org/m --seed ${A}
""",
        """\
- systemd serve systemd certain
whole: vllm⏎Exec=serve org/m --seed ${A}
prefix: vllm | serve
words: org/m | --seed | ${A} = 1
variable: A=1 : 1
image: vllm/vllm-openai:v0.9.0
at: 1 $
-
setting: unit A=1
images: vllm/vllm-openai:v0.9.0
""",
    ),
    "chart": (
        "values.yaml",
        """\
servers:
  - model:
      modelFormat: {name: vLLM}
      args: [--seed=1]
    name: x
extraArgs: [--max-model-len, '2', --seed=3]
chart:
  image: {repository: vllm/vllm-openai, tag: v0.9.4}
  args: ["--model=org/m"]
""",
        """\
- kubernetes image yaml elided
whole: --seed=1
words: --seed=1
key: modelFormat: {name: vLLM}‖
key: args: [--seed=1]‖
- kubernetes image yaml certain
whole: "--model=org/m"
words: "--model=org/m" = --model=org/m
image: vllm/vllm-openai = vllm/vllm-openai:v0.9.4
key: image: {repository: vllm/vllm-openai, tag: v0.9.4}‖
key: args: ["--model=org/m"]‖
-
images: vllm/vllm-openai
loose: bare --max-model-len + '2' = 2 | bare --seed=3
""",
    ),
    "workflow": (
        "wf.yaml",
        """\
jobs:
  a:
    steps:
    - run: |
        A=1
        vllm serve org/m --seed $A
""",
        """\
- shell serve shell
whole: vllm serve org/m --seed $A
prefix: vllm | serve
words: org/m | --seed | $A = 1
within: yaml |⏎        A=1⏎        vllm serve org/m --seed $A⏎
-
setting: assignment A=1
""",
    ),
    "Python": (
        "a.py",
        """\
import os, subprocess, shlex
from vllm import LLM
os.environ["A"] = "1"
kw = dict(seed=5, dtype="half")
more = {"max_model_len": 6}
LLM("org/m", **kw, **more, quantization=q, trust_remote_code=True)
e = {"E": "7"}
subprocess.run(["vllm", "serve", "org/n", "--port", str(81)], env=e)
os.environ.update({"B": "2"}, C="3")
os.putenv("D", str(4))
os.system("F=8 vllm serve org/o --seed 5")
subprocess.Popen(shlex.split("vllm serve org/p --seed 9"))
cmd = ["vllm", "serve", "org/q"]
cmd += ["--seed", "10"]
if x:
    cmd.extend(["--enforce-eager"])
cmd.append("-O2")
""",
        """\
- python LLM python certain
whole: LLM("org/m", **kw, **more, quantization=q, trust_remote_code=True)
keyword: "org/m" : "org/m"
keyword: seed=5 : 5
keyword: dtype="half" : "half"
keyword: "max_model_len": 6 : 6
keyword: quantization=q : q variable q
keyword: trust_remote_code=True : True
variable: os.environ["A"] = "1" : "1" = 1
- python serve python certain
whole: "vllm", "serve", "org/n", "--port", str(81)
prefix: "vllm" = vllm | "serve" = serve
words: "org/n" = org/n | "--port" = --port | str(81) = 81
variable: os.environ["A"] = "1" : "1" = 1
variable: "E": "7" : "7" = 7
at: 81 None
- python serve shell certain
whole: vllm serve org/o --seed 5
prefix: vllm | serve
words: org/o | --seed | 5
variable: os.environ["A"] = "1" : "1" = 1
variable: "B": "2" : "2" = 2
variable: C="3" : "3" = 3
variable: os.putenv("D", str(4)) : str(4) = 4
variable: F=8 : 8
within: python "F=8 vllm serve org/o --seed 5"
- python serve python certain
whole: vllm serve org/p --seed 9
prefix: vllm | serve
words: org/p | --seed | 9
variable: os.environ["A"] = "1" : "1" = 1
variable: "B": "2" : "2" = 2
variable: C="3" : "3" = 3
variable: os.putenv("D", str(4)) : str(4) = 4
- python serve python
whole: "vllm", "serve", "org/q"]⏎cmd += ["--seed", "10"]⏎if x:⏎    cmd.extend(["--enforce-eager"])⏎cmd.append("-O2"
prefix: "vllm" = vllm | "serve" = serve
words: "org/q" = org/q | "--seed" = --seed | "10" = 10 | "-O2" = -O2
variable: os.environ["A"] = "1" : "1" = 1
variable: "B": "2" : "2" = 2
variable: C="3" : "3" = 3
variable: os.putenv("D", str(4)) : str(4) = 4
-
setting: python os.environ["A"] = "1"
setting: python "E": "7"
setting: python "B": "2"
setting: python C="3"
setting: python os.putenv("D", str(4))
setting: assignment F=8
loose: bare "--enforce-eager" = --enforce-eager
""",
    ),
    "page": (
        "a.md",
        r"""# T

Run: vllm serve org/a --port 1. Or `vllm serve org/b --port 2`!

```bash
$ A=1 vllm serve org/c \
>   --port 3
out
```

> vllm serve org/d \
>   --port 4

| `--seed 5` | `VLLM_X` | `9` |

--swap-space 4 # four
""",
        r"""- shell serve shell
whole: vllm serve org/a --port 1
prefix: vllm | serve
words: org/a | --port | 1
- shell serve shell
whole: vllm serve org/b --port 2
prefix: vllm | serve
words: org/b | --port | 2
- shell serve shell certain
whole: vllm serve org/c \⏎>   --port 3
prefix: vllm | serve
words: org/c | --port | 3
variable: A=1 : 1
- shell serve shell certain
whole: vllm serve org/d \⏎>   --port 4
prefix: vllm | serve
words: org/d | --port | 4
-
setting: assignment A=1
loose: table --seed + 5 | bare --swap-space + 4
""",
    ),
    "notebook": (
        "a.ipynb",
        r"""{"cells": [
{"cell_type": "code", "source": ["!A=1 vllm serve org/a --port 1\n", "import vllm\n", "vllm.LLM('org/b', seed=5)"]},
{"cell_type": "markdown", "source": "Run `vllm serve org/c --port 2`"}]}
""",
        r"""- shell serve shell certain
whole: vllm serve org/a --port 1
prefix: vllm | serve
words: org/a | --port | 1
variable: A=1 : 1
- python LLM python certain
whole: vllm.LLM('org/b', seed=5)
keyword: 'org/b' : 'org/b'
keyword: seed=5 : 5
- shell serve shell
whole: vllm serve org/c --port 2
prefix: vllm | serve
words: org/c | --port | 2
-
setting: assignment A=1
""",
    ),
    "paste": (
        "g.md",
        """\
export NCCL_DEBUG=INFOvllm serve org/M--seed 2 --name "a b"--port=3--x="c"INFO 02-23 up
""",
        """\
- shell serve glued reconstructed
whole: vllm serve org/M--seed 2 --name "a b"--port=3--x="c"
prefix: vllm | serve
words: org/M | --seed | 2 | --name | "a b" = a b | --port=3 | --x="c" = --x=c
variable: NCCL_DEBUG=INFO : INFO
-
setting: assignment NCCL_DEBUG=INFO
""",
    ),
    "here-documents": (
        "a.sh",
        """\
cat > x.py <<EOF
from vllm import LLM
LLM('org/a', seed=5)
EOF
cat > y.sh <<'EOF'
A=1 vllm serve org/b --seed 5
EOF
""",
        """\
- python LLM python certain
whole: LLM('org/a', seed=5)
keyword: 'org/a' : 'org/a'
keyword: seed=5 : 5
- shell serve shell
whole: vllm serve org/b --seed 5
prefix: vllm | serve
words: org/b | --seed | 5
variable: A=1 : 1
-
setting: assignment A=1
""",
    ),
    "reStructuredText": (
        "a.rst",
        r""".. code-block:: bash

   $ vllm serve org/a \
       --port 1

Then::

  vllm serve org/b --port 2
""",
        r"""- shell serve shell certain
whole: vllm serve org/a \⏎       --port 1
prefix: vllm | serve
words: org/a | --port | 1
- shell serve shell certain
whole: vllm serve org/b --port 2
prefix: vllm | serve
words: org/b | --port | 2
-
""",
    ),
    "supervisor": (
        "s.conf",
        """\
[program:v]
environment=A=1
command=/bin/vllm serve org/m --seed 5 %%x
[unix_http_server]
command=vllm serve org/n
""",
        """\
- systemd serve systemd certain
whole: /bin/vllm serve org/m --seed 5 %%x
prefix: /bin/vllm | serve
words: org/m | --seed | 5 | %%x = %x
-
""",
    ),
    "KServe": (
        "k.yaml",
        """\
apiVersion: v1
kind: InferenceService
spec:
  predictor:
    model:
      modelFormat: {name: x}
      runtime: vllm
      env: [{name: A, value: b}]
      args: [--seed, "5"]
      resources: {limits: {nvidia.com/gpu: "1"}}
""",
        """\
- kubernetes image yaml elided
whole: --seed, "5"
words: --seed | "5" = 5
variable: {name: A, value: b : b
gpus: "1"
key: modelFormat: {name: x}‖
key: runtime: vllm‖
key: env: [{name: A, value: b}]‖
key: args: [--seed, "5"]‖
key: resources: {limits: {nvidia.com/gpu: "1"}}‖
-
setting: entry {name: A, value: b
""",
    ),
    "kubectl exec": (
        "a.sh",
        """\
kubectl exec -it p -c d -- env A=b vllm serve org/m --seed 5
kubectl run v --image=img --env=A=1 --command -- vllm serve org/n
""",
        """\
- shell serve shell certain
whole: env A=b vllm serve org/m --seed 5
prefix: env | A=b | vllm | serve
words: org/m | --seed | 5
variable: A=b : b
- kubernetes serve shell certain
whole: vllm serve org/n
prefix: vllm | serve
words: org/n
variable: --env=A=1 : 1
image: img
-
setting: option A=b
setting: option --env=A=1
images: img
""",
    ),
    "images alone": (
        "a.sh",
        """\
ssh h "docker run -e A=1 vllm/vllm-openai:v0.9.0 --model org/m"
docker run img
docker run vllm/vllm-openai
""",
        """\
- docker image shell
whole: docker run -e A=1 vllm/vllm-openai:v0.9.0 --model org/m
prefix: docker | run | -e | A=1 | vllm/vllm-openai:v0.9.0
words: --model | org/m
variable: -e A=1 : 1
image: vllm/vllm-openai:v0.9.0
within: shell "docker run -e A=1 vllm/vllm-openai:v0.9.0 --model org/m"
container: -e | A=1
- docker image shell certain
whole: docker run vllm/vllm-openai
prefix: docker | run | vllm/vllm-openai
image: vllm/vllm-openai
-
setting: option -e A=1
images: vllm/vllm-openai:v0.9.0 | img | vllm/vllm-openai
""",
    ),
    "wrappers": (
        "a.sh",
        """\
sudo -u vllm A=1 nice -n 5 python3 -u -m vllm.entrypoints.openai.api_server --model org/m
poetry run vllm bench latency --model org/n
foo vllm serve org/o
tmux new -d -s v 'vllm serve org/p'
sbatch --wrap="vllm serve org/q --seed 5"
""",
        """\
- shell api_server shell certain
whole: sudo -u vllm A=1 nice -n 5 python3 -u -m vllm.entrypoints.openai.api_server --model org/m
prefix: sudo | -u | vllm | A=1 | nice | -n | 5 | python3 | -u | -m | vllm.entrypoints.openai.api_server
words: --model | org/m
variable: A=1 : 1
- shell bench latency shell certain
whole: poetry run vllm bench latency --model org/n
prefix: poetry | run | vllm | bench | latency
words: --model | org/n
- shell serve shell
whole: foo vllm serve org/o
prefix: foo | vllm | serve
words: org/o
- shell serve shell
whole: vllm serve org/p
prefix: vllm | serve
words: org/p
within: shell 'vllm serve org/p'
- shell serve shell
whole: vllm serve org/q --seed 5
prefix: vllm | serve
words: org/q | --seed | 5
within: shell vllm serve org/q --seed 5"
-
setting: option A=1
""",
    ),
    "entry point again": (
        "a.sh",
        """\
docker run vllm/vllm-openai:v0.9.0 vllm serve org/m --seed 5
docker run vllm/vllm-openai bash -c 'vllm serve org/n'
""",
        """\
- docker serve shell certain
whole: docker run vllm/vllm-openai:v0.9.0 vllm serve org/m --seed 5
prefix: docker | run | vllm/vllm-openai:v0.9.0 | vllm | serve
words: org/m | --seed | 5
image: vllm/vllm-openai:v0.9.0
- docker serve shell certain
whole: docker run vllm/vllm-openai bash -c 'vllm serve org/n'
prefix: docker | run | vllm/vllm-openai | vllm | serve
words: org/n
image: vllm/vllm-openai
within: shell 'vllm serve org/n'
-
images: vllm/vllm-openai:v0.9.0 | vllm/vllm-openai
troubles: file.entry-point-again vllm serve | file.entry-point-again bash -c 'vllm serve org/n'
""",
    ),
    "compose lists": (
        "compose.yaml",
        """\
services:
  a:
    image: vllm/vllm-openai
    environment:
      B: "$$x"
    deploy: {resources: {reservations: {devices: [{device_ids: ["1", '2']}]}}}
    command: [--model, "org/m", --port 81, {a: b}]
  b:
    image: vllm/vllm-openai
""",
        """\
- compose image yaml certain
name: a
whole: --model, "org/m", --port 81
words: --model | "org/m" = org/m | --port 81
variable: B: "$$x" : "$$x" = $x
image: vllm/vllm-openai
gpus: "1", '2'
key: image: vllm/vllm-openai‖
key: environment:⏎      B: "$$x"⏎    ‖
key: deploy: {resources: {reservations: {devices: [{device_ids: ["1", '2']}]}}}‖
key: command: [--model, "org/m", --port 81, {a: b}]‖
- compose image yaml certain
name: b
whole: image: vllm/vllm-openai⏎
image: vllm/vllm-openai
key: image: vllm/vllm-openai‖
-
setting: map B: "$$x"
images: vllm/vllm-openai | vllm/vllm-openai
troubles: file.two-words-in-item --port 81
""",
    ),
    "stream": (
        "s.yaml",
        r"""kind: ConfigMap
data:
  run.sh: |
    A=1 vllm serve org/m \
      --seed 5
---
kind: Pod
apiVersion: v1
spec:
  containers:
  - image: vllm/vllm-openai:v0.9.1
    env: [{name: B, value: 7}]
    command:
    - vllm
    - serve
    - org/n
    args:
    - --port 81
    - 9
    - -x {a: 1}
""",
        r"""- shell serve shell
whole: vllm serve org/m \⏎      --seed 5
prefix: vllm | serve
words: org/m | --seed | 5
variable: A=1 : 1
within: yaml |⏎    A=1 vllm serve org/m \⏎      --seed 5⏎
- kubernetes serve yaml certain
whole: vllm⏎    - serve⏎    - org/n⏎    args:⏎    - --port 81⏎    - 9
prefix: vllm | serve
words: org/n | --port 81 | 9
variable: {name: B, value: 7 : 7
image: vllm/vllm-openai:v0.9.1
key: image: vllm/vllm-openai:v0.9.1‖
key: env: [{name: B, value: 7}]‖
key: command:⏎    - vllm⏎    - serve⏎    - org/n⏎    ‖
key: args:⏎    - --port 81⏎    - 9⏎    - -x {a: 1}⏎‖
-
setting: assignment A=1
setting: entry {name: B, value: 7
images: vllm/vllm-openai:v0.9.1
troubles: file.not-a-text 7 | file.two-words-in-item --port 81 | file.not-a-text 9 | file.not-a-text -x {a: 1}
""",
    ),
    "Python names": (
        "a.py",
        """\
from vllm import AsyncEngineArgs as E
M = "org/m"
K = {"seed": 5, "x": y}
CMD = "A=1 vllm serve org/n --port 2"
import subprocess
subprocess.run(CMD, shell=True, env=dict(B="2"))
E(model=M, **K)
W = ["python", "-m", "vllm.entrypoints.openai.api_server", "--model", M, *rest]
subprocess.Popen(W)
subprocess.run(["bash", "-c", "vllm serve org/n"])
""",
        """\
- python serve shell certain
whole: vllm serve org/n --port 2
prefix: vllm | serve
words: org/n | --port | 2
variable: B="2" : "2" = 2
variable: A=1 : 1
within: python "A=1 vllm serve org/n --port 2"
- python AsyncEngineArgs python certain
whole: E(model=M, **K)
keyword: model=M : M
keyword: "seed": 5 : 5
keyword: "x": y : y variable y
- python api_server python elided
whole: "python", "-m", "vllm.entrypoints.openai.api_server", "--model", M
prefix: "python" = python | "-m" = -m | "vllm.entrypoints.openai.api_server" = vllm.entrypoints.openai.api_server
words: "--model" = --model | M = org/m
at: org/m None
- python serve shell certain
whole: vllm serve org/n
prefix: vllm | serve
words: org/n
within: python "vllm serve org/n"
-
setting: assignment A=1
setting: python B="2"
troubles: option.added-unread rest
""",
    ),
    "table and prose": (
        "a.md",
        r"""| Option | Value |
|---|---|
| `--seed` | 5 |
| `--max-model-len 6` | `VLLM_USE_V1=1` |

Use "vllm serve org/m --port 1", or docker run: docker run vllm/vllm-openai --model org/n.

for p in 1 2; do
  vllm serve org/o --port $p
done

1. $ vllm serve org/p \
   --port 3
""",
        r"""- shell serve shell
whole: vllm serve org/m --port 1
prefix: vllm | serve
words: org/m | --port | 1
- docker image shell
whole: docker run vllm/vllm-openai --model org/n
prefix: docker | run | vllm/vllm-openai
words: --model | org/n
image: vllm/vllm-openai
- shell serve shell certain
whole: vllm serve org/o --port $p
prefix: vllm | serve
words: org/o | --port | $p = 1
- shell serve shell certain
whole: vllm serve org/o --port $p
prefix: vllm | serve
words: org/o | --port | $p = 2
- shell serve shell certain
whole: vllm serve org/p \⏎   --port 3
prefix: vllm | serve
words: org/p | --port | 3
-
setting: table VLLM_USE_V1=1
images: vllm/vllm-openai
loose: table --seed | table --max-model-len + 6
""",
    ),
}
