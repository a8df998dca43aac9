from evalscope import TaskConfig as Task
from evalscope import run_task as run

BASE = "http://localhost"
SAMPLING = dict(temperature=0.9, max_tokens=1024)


def task(name, port):
    return Task(model=name, api_url=f"{BASE}:{port}", eval_type="openai_api", datasets=["mmlu"], generation_config=SAMPLING)


for name, port in (("full", 7000), ("quarter", 7000)):
    run(task_cfg=task(name, port))
