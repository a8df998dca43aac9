"""Launches of vLLM in every format, and the replacements of a change in each.

A replacement is written `before[old→new]behind`, with up to nine characters on either side and ⏎ for a
line end. Each was reviewed: other text is unchanged, and the new word is quoted for its format.
"""

from __future__ import annotations

REPLACED: dict[str, tuple[str, str, dict[str, str]]] = {
    "script": (
        "a.sh",
        ("#!/bin/sh\nexport A=1\nvllm serve org/m --port 80 \\\n  --seed=5 \\\n  --enforce-eager # end\n"),
        {
            "port": "m --port [80→81] \\⏎  --se",
            "seed": "t 80 \\⏎  [--seed=5→--seed=6] \\⏎  --en",
            "model": "lm serve [org/m→org/n] --port 8",
            "new option": "rce-eager[→ \\⏎  --dtype half] # end⏎",
            "new mapping": "rce-eager[→ \\⏎  --limit-mm-per-prompt '{\"image\": 0}'] # end⏎",
            "new switch": "rce-eager[→ \\⏎  --trust-remote-code] # end⏎",
            "without port": "rve org/m[ --port 80→] \\⏎  --se",
            "without seed": "--port 80[ \\⏎  --seed=5→] \\⏎  --en",
            "without switch": " --seed=5[ \\⏎  --enforce-eager→] # end⏎",
            "old variable": "export A=[1→'2 3']⏎vllm ser",
            "new variable": "!/bin/sh⏎[→export N='$x'\"'\"''⏎]export A=",
            "new text": "rce-eager[→ \\⏎  --chat-template 'it'\"'\"'s $x \"q\" %i'] # end⏎",
        },
    ),
    "line": (
        "a.sh",
        ("A=1 nohup vllm serve org/m --port 80 --seed=5 --enforce-eager > x &\n"),
        {
            "port": "m --port [80→81] --seed=5",
            "seed": "-port 80 [--seed=5→--seed=6] --enforc",
            "model": "lm serve [org/m→org/n] --port 8",
            "new option": "rce-eager[→ --dtype half] > x &⏎",
            "new mapping": "rce-eager[→ --limit-mm-per-prompt '{\"image\": 0}'] > x &⏎",
            "new switch": "rce-eager[→ --trust-remote-code] > x &⏎",
            "without port": "rve org/m[ --port 80→] --seed=5",
            "without seed": "--port 80[ --seed=5→] --enforc",
            "without switch": " --seed=5[ --enforce-eager→] > x &⏎",
            "old variable": "A=[1→'2 3'] nohup vl",
            "new variable": "=1 nohup [→env N='$x'\"'\"'' ]vllm serv",
            "new text": "rce-eager[→ --chat-template 'it'\"'\"'s $x \"q\" %i'] > x &⏎",
        },
    ),
    "quotation": (
        "a.md",
        ("Run:\n\n> export A=1\n> vllm serve org/m --port 80 \\\n>   --seed=5 \\\n>   --enforce-eager\n"),
        {
            "port": "m --port [80→81] \\⏎>   --",
            "seed": "80 \\⏎>   [--seed=5→--seed=6] \\⏎>   --",
            "model": "lm serve [org/m→org/n] --port 8",
            "new option": "rce-eager[→ \\⏎>   --dtype half]⏎",
            "new mapping": "rce-eager[→ \\⏎>   --limit-mm-per-prompt '{\"image\": 0}']⏎",
            "new switch": "rce-eager[→ \\⏎>   --trust-remote-code]⏎",
            "without port": "rve org/m[ --port 80→] \\⏎>   --",
            "without seed": "--port 80[ \\⏎>   --seed=5→] \\⏎>   --",
            "without switch": " --seed=5[ \\⏎>   --enforce-eager→]⏎",
            "old variable": "export A=[1→'2 3']⏎> vllm s",
            "new variable": "Run:⏎⏎[→> export N='$x'\"'\"''⏎]> export ",
            "new text": "rce-eager[→ \\⏎>   --chat-template 'it'\"'\"'s $x \"q\" %i']⏎",
        },
    ),
    "double quotes": (
        "a.sh",
        ('ssh h "A=1 vllm serve org/m --port 80 --seed=5 --enforce-eager"\n'),
        {
            "port": "m --port [80→81] --seed=5",
            "seed": "-port 80 [--seed=5→--seed=6] --enforc",
            "model": "lm serve [org/m→org/n] --port 8",
            "new option": 'rce-eager[→ --dtype half]"⏎',
            "new mapping": 'rce-eager[→ --limit-mm-per-prompt \'{\\"image\\": 0}\']"⏎',
            "new switch": 'rce-eager[→ --trust-remote-code]"⏎',
            "without port": "rve org/m[ --port 80→] --seed=5",
            "without seed": "--port 80[ --seed=5→] --enforc",
            "without switch": ' --seed=5[ --enforce-eager→]"⏎',
            "old variable": "ssh h \"A=[1→'2 3'] vllm ser",
            "new variable": "h h \"A=1 [→N='\\$x'\\\"'\\\"'' ]vllm serv",
            "new text": "rce-eager[→ --chat-template 'it'\\\"'\\\"'s \\$x \\\"q\\\" %i']\"⏎",
        },
    ),
    "single quotes": (
        "a.sh",
        ("bash -c 'export A=1; vllm serve org/m --port 80 --seed=5 --enforce-eager'\n"),
        {
            "port": "m --port [80→81] --seed=5",
            "seed": "-port 80 [--seed=5→--seed=6] --enforc",
            "model": "lm serve [org/m→org/n] --port 8",
            "new option": "rce-eager[→ --dtype half]'⏎",
            "new mapping": "rce-eager[→ --limit-mm-per-prompt '\\''{\"image\": 0}'\\'']'⏎",
            "new switch": "rce-eager[→ --trust-remote-code]'⏎",
            "without port": "rve org/m[ --port 80→] --seed=5",
            "without seed": "--port 80[ --seed=5→] --enforc",
            "without switch": " --seed=5[ --enforce-eager→]'⏎",
            "old variable": "export A=[1→'\\''2 3'\\'']; vllm se",
            "new variable": "ort A=1; [→N='\\''$x'\\''\"'\\''\"'\\'''\\'' ]vllm serv",
            "new text": "rce-eager[→ --chat-template '\\''it'\\''\"'\\''\"'\\''s $x \"q\" %i'\\'']'⏎",
        },
    ),
    "docker": (
        "a.sh",
        ("docker run --rm \\\n  -e A=1 \\\n  vllm/vllm-openai org/m --port 80 \\\n  --seed=5 --enforce-eager\n"),
        {
            "port": "m --port [80→81] \\⏎  --se",
            "seed": "t 80 \\⏎  [--seed=5→--seed=6] --enforc",
            "model": "rce-eager[→ --model org/n]⏎",
            "new option": "rce-eager[→ --dtype half]⏎",
            "new mapping": "rce-eager[→ --limit-mm-per-prompt '{\"image\": 0}']⏎",
            "new switch": "rce-eager[→ --trust-remote-code]⏎",
            "without port": "nai org/m[ --port 80→] \\⏎  --se",
            "without seed": "--port 80[ \\⏎  --seed=5→] --enforc",
            "without switch": " --seed=5[ --enforce-eager→]⏎",
            "old variable": "m \\⏎  -e [A=1→'A=2 3'] \\⏎  vllm",
            "new variable": " A=1 \\⏎  [→-e 'N=$x'\"'\"'' \\⏎  ]vllm/vllm",
            "new text": "rce-eager[→ --chat-template 'it'\"'\"'s $x \"q\" %i']⏎",
        },
    ),
    "compose text": (
        "a.yaml",
        (
            "services:\n"
            "  a:\n"
            "    image: vllm/vllm-openai\n"
            "    environment:\n"
            "      A: 1\n"
            "    command: org/m --port 80 --seed=5 --enforce-eager\n"
        ),
        {
            "port": "m --port [80→81] --seed=5",
            "seed": "-port 80 [--seed=5→--seed=6] --enforc",
            "model": "rce-eager[→ --model org/n]⏎",
            "new option": "rce-eager[→ --dtype half]⏎",
            "new mapping": "rce-eager[→ --limit-mm-per-prompt '{\"image\":0}']⏎",
            "new switch": "rce-eager[→ --trust-remote-code]⏎",
            "without port": "nd: org/m[ --port 80→] --seed=5",
            "without seed": "--port 80[ --seed=5→] --enforc",
            "without switch": " --seed=5[ --enforce-eager→]⏎",
            "old variable": '      A: [1→"2 3"]⏎    comm',
            "new variable": '     A: 1[→⏎      N: "$$x\'"]⏎    comm',
            "new text": 'rce-eager[→ --chat-template "it\'s $$x \\"q\\" %i"]⏎',
        },
    ),
    "compose block": (
        "a.yaml",
        (
            "services:\n"
            "  a:\n"
            "    image: vllm/vllm-openai\n"
            "    environment: [A=1]\n"
            "    command: >\n"
            "      org/m --port 80\n"
            "      --seed=5\n"
            "      --enforce-eager\n"
        ),
        {
            "port": "m --port [80→81]⏎      --",
            "seed": "80⏎      [--seed=5→--seed=6]⏎      --",
            "model": "rce-eager[→⏎      --model org/n]⏎",
            "new option": "rce-eager[→⏎      --dtype half]⏎",
            "new mapping": "rce-eager[→⏎      --limit-mm-per-prompt '{\"image\": 0}']⏎",
            "new switch": "rce-eager[→⏎      --trust-remote-code]⏎",
            "without port": "    org/m[ --port 80→]⏎      --",
            "without seed": "--port 80[⏎      --seed=5→]⏎      --",
            "without switch": " --seed=5[⏎      --enforce-eager→]⏎",
            "old variable": 'onment: [[A=1→"A=2 3"]]⏎    com',
            "new variable": "",
            "new text": 'rce-eager[→⏎      --chat-template "it\'s $$x \\"q\\" %i"]⏎',
        },
    ),
    "compose list": (
        "a.yaml",
        (
            "services:\n"
            "  a:\n"
            "    image: vllm/vllm-openai\n"
            "    environment:\n"
            "    - A=1 # c\n"
            "    command:\n"
            "    - org/m\n"
            "    - --port\n"
            '    - "80"\n'
            "    - --seed=5 # why\n"
            "    - --enforce-eager\n"
        ),
        {
            "port": 'rt⏎    - ["80"→"81"]⏎    - --',
            "seed": '0"⏎    - [--seed=5→--seed=6] # why⏎  ',
            "model": "rce-eager[→⏎    - --model=org/n]⏎",
            "new option": "rce-eager[→⏎    - --dtype=half]⏎",
            "new mapping": 'rce-eager[→⏎    - "--limit-mm-per-prompt={\\"image\\": 0}"]⏎',
            "new switch": "rce-eager[→⏎    - --trust-remote-code]⏎",
            "without port": ' - org/m⏎[    - --port⏎    - "80"⏎→]    - --s',
            "without seed": '  - "80"⏎[    - --seed=5 # why⏎→    # why⏎]    - --e',
            "without switch": "=5 # why⏎[    - --enforce-eager⏎→]",
            "old variable": 't:⏎    - [A=1→"A=2 3"] # c⏎    ',
            "new variable": '- A=1 # c[→⏎    - "N=$$x\'"]⏎    comm',
            "new text": 'rce-eager[→⏎    - "--chat-template=it\'s $$x \\"q\\" %i"]⏎',
        },
    ),
    "compose flow": (
        "a.yaml",
        (
            "services:\n"
            "  a:\n"
            "    image: vllm/vllm-openai\n"
            "    command: [org/m, '--port', '80', --seed=5, --enforce-eager]\n"
        ),
        {
            "port": "--port', ['80'→'81'], --seed=",
            "seed": "', '80', [--seed=5→--seed=6], --enfor",
            "model": "rce-eager[→, --model, org/n]]⏎",
            "new option": "rce-eager[→, --dtype, half]]⏎",
            "new mapping": 'rce-eager[→, --limit-mm-per-prompt, "{\\"image\\": 0}"]]⏎',
            "new switch": "rce-eager[→, --trust-remote-code]]⏎",
            "without port": "d: [org/m[, '--port', '80'→], --seed=",
            "without seed": "rt', '80'[, --seed=5→], --enfor",
            "without switch": " --seed=5[, --enforce-eager→]]⏎",
            "old variable": 'enai⏎    [→environment:⏎      A: "2 3"⏎    ]command: ',
            "new variable": 'enai⏎    [→environment:⏎      N: "$$x\'"⏎    ]command: ',
            "new text": 'rce-eager[→, --chat-template, "it\'s $$x \\"q\\" %i"]]⏎',
        },
    ),
    "pod": (
        "a.yaml",
        (
            "apiVersion: v1\n"
            "kind: Pod\n"
            "spec:\n"
            "  containers:\n"
            "  - name: a\n"
            "    image: vllm/vllm-openai\n"
            '    args: ["org/m", "--port", "80",\n'
            '      "--seed=5", # why\n'
            '      "--enforce-eager"]\n'
            "    env:\n"
            "    - name: A\n"
            '      value: "1"\n'
        ),
        {
            "port": '--port", ["80"→"81"],⏎      "',
            "seed": '",⏎      ["--seed=5"→"--seed=6"], # why⏎ ',
            "model": 'ce-eager"[→, "--model", "org/n"]]⏎    env',
            "new option": 'ce-eager"[→, "--dtype", "half"]]⏎    env',
            "new mapping": 'ce-eager"[→, "--limit-mm-per-prompt", "{\\"image\\": 0}"]]⏎    env',
            "new switch": 'ce-eager"[→, "--trust-remote-code"]]⏎    env',
            "without port": ' ["org/m"[, "--port", "80"→],⏎      "',
            "without seed": 'rt", "80"[,⏎      "--seed=5"→], # why⏎ ',
            "without switch": '--seed=5"[,→] # why⏎   & hy⏎      ["--enforce-eager"→]]⏎    env',
            "old variable": '  value: ["1"→"2 3"]⏎',
            "new variable": 'alue: "1"[→⏎    - name: N⏎      value: "$x\'"]⏎',
            "new text": 'ce-eager"[→, "--chat-template", "it\'s $x \\"q\\" %i"]]⏎    env',
        },
    ),
    "pod script": (
        "a.yaml",
        (
            "apiVersion: v1\n"
            "kind: Pod\n"
            "spec:\n"
            "  containers:\n"
            "  - name: a\n"
            "    image: vllm/vllm-openai\n"
            "    command: [sh, -c]\n"
            "    args:\n"
            "    - |\n"
            "      vllm serve org/m --port 80 \\\n"
            "        --seed=5 --enforce-eager\n"
        ),
        {
            "port": "m --port [80→81] \\⏎      ",
            "seed": "⏎        [--seed=5→--seed=6] --enforc",
            "model": "lm serve [org/m→org/n] --port 8",
            "new option": "rce-eager[→ --dtype half]⏎",
            "new mapping": "rce-eager[→ --limit-mm-per-prompt '{\"image\": 0}']⏎",
            "new switch": "rce-eager[→ --trust-remote-code]⏎",
            "without port": "rve org/m[ --port 80→] \\⏎      ",
            "without seed": "--port 80[ \\⏎        --seed=5→] --enforc",
            "without switch": " --seed=5[ --enforce-eager→]⏎",
            "old variable": 'enai⏎    [→env:⏎    - name: A⏎      value: "2 3"⏎    ]command: ',
            "new variable": 'enai⏎    [→env:⏎    - name: N⏎      value: "$x\'"⏎    ]command: ',
            "new text": "rce-eager[→ --chat-template 'it'\"'\"'s $x \"q\" %i']⏎",
        },
    ),
    "unit": (
        "a.service",
        ("[Service]\nEnvironment=A=1 B=2\nExecStart=/bin/vllm serve org/m --port 80 \\\n  --seed=5 --enforce-eager\n"),
        {
            "port": "m --port [80→81] \\⏎  --se",
            "seed": "t 80 \\⏎  [--seed=5→--seed=6] --enforc",
            "model": "lm serve [org/m→org/n] --port 8",
            "new option": "rce-eager[→ --dtype half]⏎",
            "new mapping": 'rce-eager[→ --limit-mm-per-prompt "{\\"image\\": 0}"]⏎',
            "new switch": "rce-eager[→ --trust-remote-code]⏎",
            "without port": "rve org/m[ --port 80→] \\⏎  --se",
            "without seed": "--port 80[ \\⏎  --seed=5→] --enforc",
            "without switch": " --seed=5[ --enforce-eager→]⏎",
            "old variable": 'ironment=[A=1→"A=2 3"] B=2⏎Exec',
            "new variable": '=A=1 B=2⏎[→Environment="N=$x\'"⏎]ExecStart',
            "new text": 'rce-eager[→ --chat-template "it\'s $$x \\"q\\" %%i"]⏎',
        },
    ),
    "Dockerfile": (
        "Dockerfile",
        ('FROM vllm/vllm-openai\nENV A=1\nCMD ["org/m", "--port", "80", "--seed=5", "--enforce-eager"]\n'),
        {
            "port": '--port", ["80"→"81"], "--seed',
            "seed": '", "80", ["--seed=5"→"--seed=6"], "--enfo',
            "model": 'ce-eager"[→, "--model", "org/n"]]⏎',
            "new option": 'ce-eager"[→, "--dtype", "half"]]⏎',
            "new mapping": 'ce-eager"[→, "--limit-mm-per-prompt", "{\\"image\\": 0}"]]⏎',
            "new switch": 'ce-eager"[→, "--trust-remote-code"]]⏎',
            "without port": ' ["org/m"[, "--port", "80"→], "--seed',
            "without seed": 'rt", "80"[, "--seed=5"→], "--enfo',
            "without switch": '--seed=5"[, "--enforce-eager"→]]⏎',
            "old variable": "",
            "new variable": '⏎ENV A=1⏎[→ENV N="\\$x\'"⏎]CMD ["org',
            "new text": 'ce-eager"[→, "--chat-template", "it\'s $x \\"q\\" %i"]]⏎',
        },
    ),
    "list": (
        "a.py",
        (
            "import subprocess\n"
            "subprocess.run(['vllm', 'serve', 'org/m', '--port', '80', '--seed=5', '--enforce-eager'])\n"
        ),
        {
            "port": "--port', ['80'→'81'], '--seed",
            "seed": "', '80', ['--seed=5'→'--seed=6'], '--enfo",
            "model": "'serve', ['org/m'→'org/n'], '--port",
            "new option": "ce-eager'[→, '--dtype', 'half']])⏎",
            "new mapping": "ce-eager'[→, '--limit-mm-per-prompt', '{\"image\": 0}']])⏎",
            "new switch": "ce-eager'[→, '--trust-remote-code']])⏎",
            "without port": ", 'org/m'[, '--port', '80'→], '--seed",
            "without seed": "rt', '80'[, '--seed=5'→], '--enfo",
            "without switch": "--seed=5'[, '--enforce-eager'→]])⏎",
            "old variable": 'bprocess⏎[→import os⏎os.environ["A"] = "2 3"⏎]subproces',
            "new variable": 'bprocess⏎[→import os⏎os.environ["N"] = "$x\'"⏎]subproces',
            "new text": "ce-eager'[→, '--chat-template', \"it's $x \\\"q\\\" %i\"]])⏎",
        },
    ),
    "text": (
        "a.py",
        ('import os\nos.system("vllm serve org/m --port 80 --seed=5 --enforce-eager")\n'),
        {
            "port": "m --port [80→81] --seed=5",
            "seed": "-port 80 [--seed=5→--seed=6] --enforc",
            "model": "lm serve [org/m→org/n] --port 8",
            "new option": 'rce-eager[→ --dtype half]")⏎',
            "new mapping": 'rce-eager[→ --limit-mm-per-prompt \'{\\"image\\": 0}\']")⏎',
            "new switch": 'rce-eager[→ --trust-remote-code]")⏎',
            "without port": "rve org/m[ --port 80→] --seed=5",
            "without seed": "--port 80[ --seed=5→] --enforc",
            "without switch": ' --seed=5[ --enforce-eager→]")⏎',
            "old variable": ".system(\"[→A='2 3' ]vllm serv",
            "new variable": ".system(\"[→N='$x'\\\"'\\\"'' ]vllm serv",
            "new text": "rce-eager[→ --chat-template 'it'\\\"'\\\"'s $x \\\"q\\\" %i']\")⏎",
        },
    ),
    "call": (
        "a.py",
        ("import os\nfrom vllm import LLM\nos.environ['A'] = '1'\nLLM('org/m', port=80, seed=5, enforce_eager=True)\n"),
        {
            "port": "m', port=[80→81], seed=5,",
            "seed": "80, seed=[5→6], enforce",
            "model": " '1'⏎LLM(['org/m'→\"org/n\"], port=80",
            "new option": 'ager=True[→, dtype="half"])⏎',
            "new mapping": 'ager=True[→, limit_mm_per_prompt={"image": 0}])⏎',
            "new switch": "ager=True[→, trust_remote_code=True])⏎",
            "without port": "'org/m', [port=80, →]seed=5, e",
            "without seed": "port=80, [seed=5, →]enforce_e",
            "without switch": "0, seed=5[, enforce_eager=True→])⏎",
            "old variable": "n['A'] = ['1'→'2 3']⏎LLM('org",
            "new variable": 'mport os⏎[→os.environ["N"] = "$x\'"⏎]from vllm',
            "new text": 'ager=True[→, chat_template="it\'s $x \\"q\\" %i"])⏎',
        },
    ),
    "call of lines": (
        "a.py",
        (
            "from vllm import LLM\n"
            "x = LLM(\n"
            '    model="org/m",\n'
            "    port=80,  # c\n"
            "    seed=5,\n"
            "    enforce_eager=True\n"
            ")\n"
        ),
        {
            "port": "    port=[80→81],  # c⏎  ",
            "seed": "    seed=[5→6],⏎    enf",
            "model": '   model=["org/m"→"org/n"],⏎    por',
            "new option": 'ager=True[→,⏎    dtype="half"]⏎)⏎',
            "new mapping": 'ager=True[→,⏎    limit_mm_per_prompt={"image": 0}]⏎)⏎',
            "new switch": "ager=True[→,⏎    trust_remote_code=True]⏎)⏎",
            "without port": '/m",⏎    [port=80,  →]# c⏎    s',
            "without seed": "80,  # c⏎[    seed=5,⏎→]    enfor",
            "without switch": " seed=5,⏎[    enforce_eager=True⏎→])⏎",
            "old variable": '[→import os⏎os.environ["A"] = "2 3"⏎]from vllm',
            "new variable": '[→import os⏎os.environ["N"] = "$x\'"⏎]from vllm',
            "new text": 'ager=True[→,⏎    chat_template="it\'s $x \\"q\\" %i"]⏎)⏎',
        },
    ),
    "bare call": (
        "a.py",
        ("import vllm\nvllm.LLM()\n"),
        {
            "port": "vllm.LLM([→port=81])⏎",
            "seed": "vllm.LLM([→seed=6])⏎",
            "model": 'vllm.LLM([→model="org/n"])⏎',
            "new option": 'vllm.LLM([→dtype="half"])⏎',
            "new mapping": 'vllm.LLM([→limit_mm_per_prompt={"image": 0}])⏎',
            "new switch": "vllm.LLM([→trust_remote_code=True])⏎",
            "without port": "",
            "without seed": "",
            "without switch": "",
            "old variable": '[→import os⏎os.environ["A"] = "2 3"⏎]import vl',
            "new variable": '[→import os⏎os.environ["N"] = "$x\'"⏎]import vl',
            "new text": 'vllm.LLM([→chat_template="it\'s $x \\"q\\" %i"])⏎',
        },
    ),
    "trailing comma": (
        "a.py",
        ("from vllm import LLM\nLLM(\n    'org/m', seed=5,\n)\n"),
        {
            "port": "', seed=5[→, port=81],⏎)⏎",
            "seed": "m', seed=[5→6],⏎)⏎",
            "model": "LLM(⏎    ['org/m'→\"org/n\"], seed=5,",
            "new option": '\', seed=5[→, dtype="half"],⏎)⏎',
            "new mapping": '\', seed=5[→, limit_mm_per_prompt={"image": 0}],⏎)⏎',
            "new switch": "', seed=5[→, trust_remote_code=True],⏎)⏎",
            "without port": "",
            "without seed": "'org/m', [seed=5,→]⏎)⏎",
            "without switch": "",
            "old variable": '[→import os⏎os.environ["A"] = "2 3"⏎]from vllm',
            "new variable": '[→import os⏎os.environ["N"] = "$x\'"⏎]from vllm',
            "new text": '\', seed=5[→, chat_template="it\'s $x \\"q\\" %i"],⏎)⏎',
        },
    ),
}
