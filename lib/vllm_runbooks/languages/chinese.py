"""The fixed words of what is printed, in Chinese."""

from __future__ import annotations

WORDS: dict[str, str] = {
    # How a start stands, and how sure a finding is.
    "ready": "就绪",
    "running": "运行中",
    "failed": "失败",
    "hung": "卡住",
    "unknown": "未知",
    "confirmed": "已确认",
    "probable": "很可能",
    "possible": "可能",
    "fatal": "致命",
    "degraded": "降级",
    "hint": "提示",
    "printed": "日志中打印",
    "call-sites": "由日志的调用位置得知",
    "given": "由用户给出",
    "vLLM release unknown": "vLLM 版本未知",
    "vLLM release: {release}": "vLLM 版本：{release}",
    "unknown: the text does not print it": "未知：文本中没有打印",
    # Places.
    "line {number}": "第 {number} 行",
    "lines {first}-{last}": "第 {first}-{last} 行",
    "{file}, line {number}: ": "{file} 第 {number} 行：",
    " and ": "、",
    ", ": "、",
    ": ": "：",
    "; ": "；",
    "{who} ({why})": "{who}（{why}）",
    "{what} in {where}": "{what}（位置：{where}）",
    "node {number}": "节点 {number}",
    # The answer to a log.
    "The start is over several nodes; the log of node {missing} is not here, and may hold the cause.": (
        "这次启动跨多个节点，这里没有节点 {missing} 的日志：原因可能在那里。"
    ),
    "{files} and {count} more": "{files} 等，另有 {count} 个",
    "Without a line, and left out: {files}. A node whose log is empty never got to its start.": (
        "没有任何内容，已略去：{files}。日志为空的节点根本没有开始启动。"
    ),
    "`ray status`: lost lately: {nodes}.": "`ray status`：最近丢失的节点：{nodes}。",
    "`ray status`: nodes alive: {nodes}; GPUs in use: {gpus}; demands that wait: {demands}.": (
        "`ray status`：存活的节点：{nodes}；使用中的 GPU：{gpus}；等待中的需求：{demands}。"
    ),
    "The executor of this start is mp: of the Ray cluster only the host of the server took part.": (
        "这次启动的执行器是 mp：Ray 集群中只有服务所在的主机参与。"
    ),
    "The nodes were given different options: {options}.": "各节点的选项不同：{options}。",
    "The logs are of different releases of {software}: {releases}.": "这些日志来自不同的 {software} 版本：{releases}。",
    "No log here is of rank {ranks}: the cause may stand in theirs.": (
        "这里没有 rank {ranks} 的日志：原因可能在其中。"
    ),
    "The clock of {node} differs by {seconds} s from the first log's; the order of events heeds it.": (
        "{node} 的时钟与第一份日志相差 {seconds} 秒；事件的先后已按此校正。"
    ),
    "node {node}": "节点 {node}",
    "ROOT CAUSE": "根本原因",
    "CLOSEST TO THE CAUSE": "最接近原因的线索",
    "NOTICE OF THE FAILURE": "失败通知",
    "Why": "为什么",
    "Do first": "首先",
    "Do first.": "首先：",
    "Look for": "应查找",
    "Confirm": "如何确认",
    "Refute": "如何排除",
    "to confirm": "如何确认",
    "to refute": "如何排除",
    "Conditions": "条件",
    "fits": "符合",
    "speaks against it": "不符合",
    "not in this log": "日志中没有",
    "WAYS OUT, cheapest first": "解决办法（代价小的在前）",
    "Costs: ": "代价：",
    "remove option {name}": "移除选项 {name}",
    "environment variable {name} = {value}": "环境变量 {name} = {value}",
    "option {name} = {value}": "选项 {name} = {value}",
    "NOTE": "说明",
    "NOTES": "说明",
    "Note.": "说明：",
    "ALSO FOUND": "另外发现",
    "FACTS": "事实",
    "RANKS, in GiB": "各 rank（GiB）",
    "By rank, in GiB:": "各 rank（GiB）：",
    "rank": "rank",
    "figure": "数据",
    "finding": "发现",
    "start": "启动",
    "file": "文件",
    "lines": "行",
    "outcome": "结果",
    "root cause": "根本原因",
    "FIRST ERROR that no symptom explains: read this first": "第一个没有症状能解释的错误：请先看它",
    "The first error that no symptom explains:": "第一个没有症状能解释的错误：",
    "{count} STARTS ({which} is described; --start N chooses another)": (
        "{count} 次启动（以下描述{which}；用 --start N 选择另一次）"
    ),
    "the last": "最后一次",
    "the last of each file": "每个文件的最后一次",
    "{count} LOGS OF ONE START": "同一次启动的 {count} 份日志",
    "No cause was found in this text.": "在这段文本中没有找到原因。",
    "It does not look like the log of a vLLM start.": "它看起来不像 vLLM 启动的日志。",
    "The text ends before the start does: give the log up to its end, of all processes.": (
        "文本在启动结束之前就结束了：请提供所有进程直到末尾的日志。"
    ),
    "The first error is not in the catalog yet: its own words are the best lead.": (
        "第一个错误尚未收录：它本身的文字就是最好的线索。"
    ),
    "Give the log of every process and node; if it is complete, the symptom is not in the catalog yet.": (
        "请提供每个进程和节点的日志；如果日志已完整，说明该症状尚未收录。"
    ),
    "Read the first error: {place}: {words}": "请看第一个错误：{place}：{words}",
    "Recognised and left out: {what}.": "已识别并略去：{what}。",
    "harmless line": "行无害输出",
    "harmless lines": "行无害输出",
    "earlier start": "次更早的启动",
    "earlier starts": "次更早的启动",
    "line of a rank that only waits for another or lost it": "行只是等待或失去对端的 rank 的输出",
    "lines of ranks that only wait for others or lost them": "行只是等待或失去对端的 rank 的输出",
    "notice of another process's end": "条其他进程结束的通知",
    "notices of another process's end": "条其他进程结束的通知",
    "Nothing was left out.": "没有略去任何内容。",
    "Nothing else was found.": "没有发现其他问题。",
    "The start is healthy ({outcome}): there is no root cause.": "启动正常（{outcome}）：没有根本原因。",
    "Nothing to confirm: the start is healthy, there is no root cause.": "无需确认：启动正常，没有根本原因。",
    "Nothing to confirm: no root cause is known.": "无可确认：不知道根本原因。",
    "No way out is known.": "不知道解决办法。",
    "No change is needed.": "无需改动。",
    "no sign of vLLM yet": "还没有 vLLM 的迹象",
    "no cause is known yet": "还不知道原因",
    "nothing wrong so far": "目前没有问题",
    "the last start is cut off before its error; the start before it, with the same arguments, failed of this": (
        "最后一次启动的日志在出错之前就中断了；在它之前、参数相同的那次启动因此失败"
    ),
    "Start from the first error that no symptom explains, quoted with this notice: the notice only follows from it.": (
        "从第一个没有症状能解释的错误入手（与这条通知一同引用）：这条通知只是它的后果。"
    ),
    # What checked the ways out.
    "Checked by {who}.": "已检查：{who}。",
    "Not checked by {who}.": "未检查：{who}。",
    "the linter": "命令检查器",
    "the planner": "显存规划器",
    "vLLM's own parser": "vLLM 自己的解析器",
    "no command is changed": "没有改动命令",
    "no vLLM was asked": "没有询问任何 vLLM",
    "the log does not show the arguments; give the command with --command": (
        "日志没有显示参数；请用 --command 给出命令"
    ),
    "the change is none that a plan reckons with": "规划不涉及这项改动",
    "the change has a form that no plan takes": "这项改动的形式无法规划",
    "the release: name it with --vllm": "版本未知；请用 --vllm 指明",
    "the release is not known; name it with --vllm": "版本未知；请用 --vllm 指明",
    "the model: the log does not name it; give the command with --command": (
        "日志没有写出模型；请用 --command 给出命令"
    ),
    "the longest context: the model's configuration has no max_position_embeddings": (
        "最长上下文：模型的配置中没有 max_position_embeddings"
    ),
    "the configuration of {name}: it is no model of the catalog": "{name} 的配置未知：它不在模型目录中",
    "the plan says that this start fails before it gets as far as it got": (
        "按规划，这次启动在到达实际位置之前就会失败"
    ),
    "the start's options: one of them has a form that no plan takes": "启动选项中有一个的形式无法规划",
    "the command itself has errors ({rules})": "命令本身有错误（{rules}）",
    "the command itself has more than {count} errors": "命令本身有超过 {count} 个错误",
    "it takes {count} cards, and the start has {there}": "它需要 {count} 张卡，而这次启动有 {there} 张",
    "it asks for {asked} GiB of which {free} were free": "它要求 {asked} GiB，而当时只有 {free} 空闲",
    "it would fit on {count} cards alike; name those that are there with --gpus": (
        "在 {count} 张相同的卡上放得下；请用 --gpus 指明现有的卡"
    ),
    "Left out, since by the plan the start would fail all the same: {title}: {why}.": (
        "已略去，因为按规划启动仍会失败：{title}：{why}。"
    ),
    "The pack names cards that this catalog does not know; name them with --gpus.": (
        "该证据包给出的显卡不在此目录中；请用 --gpus 指明显卡。"
    ),
    "Left out, since the release refuses its command: {title}.": "已略去，因为该版本会拒绝改动后的命令：{title}。",
    "The command's text holds {starts} starts; that of line {line} is taken: {why}.": (
        "命令文本中有 {starts} 个启动；采用第 {line} 行的那个（{why}）。"
    ),
    "{title}, with {changes}": "{title}，并设 {changes}",
    "by the plan it leaves {expected} GiB ({low} at least) beside one request of the whole context": (
        "按规划，除一个占满上下文的请求外还剩 {expected} GiB（至少 {low}）"
    ),
    "less memory for other programs on the card": "留给该卡上其他程序的显存减少",
    "long prompts are read in more steps, a little slower": "长提示词分更多步读取，稍慢",
    "keys and values of 8 bits, a little less exact": "键和值为 8 位，精度略低",
    "at most {size} requests run at the same time": "同时最多运行 {size} 个请求",
    "no request longer than {length} tokens": "请求不能超过 {length} 个 token",
    "{need} cards instead of {had}, and their traffic in every layer": (
        "用 {need} 张卡代替 {had} 张，且每一层都有卡间通信"
    ),
    # Figures of a start.
    "model": "模型",
    "architecture": "架构",
    "quantisation": "量化",
    "weights": "权重",
    "activation peak": "激活峰值",
    "outside PyTorch": "PyTorch 之外",
    "CUDA graphs": "CUDA graph",
    "CUDA graphs, estimated": "CUDA graph（估算）",
    "KV cache": "KV 缓存",
    "concurrency": "并发",
    "GPU memory": "显存",
    "utilisation": "利用率",
    "context": "上下文",
    "tensor parallel": "张量并行",
    "pipeline parallel": "流水线并行",
    "data parallel": "数据并行",
    "executor": "执行器",
    "load": "加载",
    "start to ready": "启动到就绪",
    "generation, best": "最高生成速度",
    " of {count} tokens each": "，每个 {count} token",
    "slots of one layer group, not tokens of full-length requests: not comparable across models or releases": (
        "一个层组的槽位数，不是完整长度请求的 token 数：不能跨模型或版本比较"
    ),
    "tokens of full-length requests (concurrency x context)": "完整长度请求的 token 数（并发 x 上下文）",
    "The text holds none of vLLM's figures (weights, KV cache, concurrency).": (
        "文本中没有 vLLM 的数据（权重、KV 缓存、并发）。"
    ),
    "The text states no memory figures for the moment of the failure.": "文本没有写出失败时刻的显存数据。",
    "allocated by PyTorch": "PyTorch 已分配",
    "reserved by PyTorch, unallocated": "PyTorch 保留但未分配",
    "this process, outside PyTorch": "本进程，PyTorch 之外",
    "this process": "本进程",
    "other processes": "其他进程",
    "not stated": "未写明",
    "free": "空闲",
    "asked for": "所要",
    "total": "总计",
    # Phases of a start.
    "begun": "已开始",
    "configure": "配置",
    "start the engine": "启动引擎",
    "load the weights": "加载权重",
    "profile the encoder": "探测编码器",
    "compile": "编译",
    "profile memory": "探测显存",
    "size the KV cache": "确定 KV 缓存大小",
    "capture CUDA graphs": "捕获 CUDA graph",
    "warm up": "预热",
    "open the server": "开放服务",
    # Headings in the browser.
    "Answer": "诊断结果",
    "For and against": "支持与反对的依据",
    "Ways out": "解决办法",
    "Memory at the failure": "失败时的显存",
    "Plan against actual": "规划与实际对照",
    "The log": "日志",
    "The start's own figures": "启动自身给出的数据",
    "Starts in the text": "文本中的启动",
    "Other findings": "其他发现",
    "Findings": "发现的问题",
    "Corrected text": "修正后的文本",
    "Difference": "差异",
    "What is started": "所启动的内容",
    # The answer to a command.
    "no start of vLLM found, so nothing was judged": "没有找到 vLLM 的启动，因此没有检查",
    "{count} start of vLLM": "{count} 个 vLLM 启动",
    "{count} starts of vLLM": "{count} 个 vLLM 启动",
    "no start of vLLM": "没有 vLLM 的启动",
    "nothing wrong": "没有问题",
    "{count} error": "{count} 个 error",
    "{count} errors": "{count} 个 error",
    "{count} warning": "{count} 个 warning",
    "{count} warnings": "{count} 个 warning",
    "{count} info": "{count} 个 info",
    "{count} infos": "{count} 个 info",
    "vLLM {version}, {source}": "vLLM {version}，{source}",
    ", judged by the data of {version}": "，按 {version} 的数据检查",
    "as asked": "按要求",
    "from the image's tag": "由镜像标签得知",
    "from the log": "由日志得知",
    "the newest known; name yours with --vllm": "已知的最新版本；请用 --vllm 指明你的版本",
    "--fix mends it": "--fix 可修正",
    # Scripts for an edge chip's toolchain: what fills the sentences of its rules.
    "{first} and {second}": "{first}、{second}",
    "{first}; {second}": "{first}；{second}",
    "as an option": "写在选项里",
    "by a pipe, from a command that has it": "由写着它的命令经管道传入",
    "on standard input, from the script itself": "由脚本本身经标准输入传入",
    "within another word": "夹在另一个词里",
    "the command": "该命令",
    "password": "密码",
    "key or token": "密钥或令牌",
    "private key": "私钥",
    "cookie": "cookie",
    "address of a webhook, which is a secret,": "webhook 地址（它也是秘密）",
    "With a GPU, which the container is given here,": "这里给了容器 GPU，此时",
    "With a GPU, which the script takes where there is one,": "有 GPU 时脚本会使用它，此时",
    "With a GPU, which is used here,": "这里使用了 GPU，此时",
    "1 die": "1 个 die",
    "{count} dies": "{count} 个 die",
    "a program of the length {length}": "长度为 {length} 的程序",
    "no program of the length {length}": "没有长度为 {length} 的程序",
    "the folder {name}": "目录 {name}",
    "the default of {name}": "{name} 的默认值",
    "whichever release is the newest": "安装时最新的版本",
    "No server of port {port}": "端口 {port} 上没有服务器",
    "No server here": "这里没有服务器",
    "further down": "后面",
    "anywhere": "任何地方",
    "samples": "个样本",
    "tokens of a sample": "个 token 的样本",
    "load_dataset is given no split: it gives all of them, by name, and no texts": (
        "没有给 load_dataset 指定 split，它会按名字返回全部 split，而不是文本"
    ),
    "{dataset} has no column {column}: its columns are {columns}": "{dataset} 没有 {column} 这一列，它的列是 {columns}",
    "the whole model": "整个模型",
    "quantise": "量化",
    "the float model is read from": "读取浮点模型的目录",
    "the checkpoint is read from": "读取 checkpoint 的目录",
    "compiled": "编译",
    "served": "部署",
    "no step here converts it": "而这里没有转换它的步骤",
    "the command line is parsed": "解析了命令行",
    "{name} is imported": "导入了 {name}",
    "{name} is replaced": "替换了 {name}",
    "{name}(…) has made the engine": "由 {name}(…) 创建了引擎",
    "the model is built": "编译了模型",
    "it names {outside}, and there is die 0 alone": "写了 {outside}，而只有 die 0",
    "it names {outside}, and the dies are 0 to {last}": "写了 {outside}，而 die 是 0 到 {last}",
    "among its first {dies} entries, one for each die, {repeated} stands more than once": (
        "前 {dies} 个元素每个对应一个 die，其中 {repeated} 出现了不止一次"
    ),
    "behind its first {dies} entries, one for each die, stands {beyond} in place of 0": (
        "前 {dies} 个元素每个对应一个 die，其后应为 0，却有 {beyond}"
    ),
    "none": "（空）",
    "the length 1, by which every further token is made, is missing": "缺少长度 1，之后的每个 token 都靠它生成",
    "no length for the prompt is there beside 1: it would be taken in token by token": (
        "除 1 之外没有用于提示词的长度，提示词只能逐个 token 读入"
    ),
    "{length} is longer than the {tokens} tokens of {name}": "{length} 超过了 {name} 的 {tokens} 个 token",
    "a length below 1 is none": "小于 1 的长度无效",
    "the script compiles on the CPU": "脚本在 CPU 上编译",
    "the script takes what the host has": "脚本用的是主机上有的设备",
    "{told} dies, and {set} are set": "写的是 {told} 个 die，设的是 {set} 个",
    "{told} tokens, and {name} is {set}": "写的是 {told} 个 token，而 {name} 是 {set}",
    "the length {told}, and {set} are set": "写的是长度 {told}，设的是 {set}",
    "a width": "宽",
    "a height": "高",
    "{side} of {told}, and {set} is set": "写的是{side} {told}，设的是 {set}",
    "the order {told} of the dies, and {set} are set": "写的是 die 的顺序 {told}，设的是 {set}",
    "{told}, and {option} is {default} by default": "写的是 {told}，而 {option} 默认是 {default}",
    # What those scripts do.
    "host": "主机",
    "convert": "转换",
    "serve": "部署",
    "evaluate": "评估",
    "compile-llm": "编译语言模型",
    "compile-vlm": "编译视觉语言模型",
    "no step of the toolchain is recognised in it": "没有认出工具链的任何步骤",
    "nothing was judged": "没有检查任何内容",
    "{toolchain}; servers and evaluations by vLLM {version}": "{toolchain}；服务器和评估按 vLLM {version} 检查",
    "default of {option}": "{option} 的默认值",
    " (set in the rewritten script)": "（已在改写后的脚本中设置）",
    'the key "{key}" of {name}': '{name} 的键 "{key}"',
}
"""English, as the code says it, to Chinese; `{name}` is filled in both."""
