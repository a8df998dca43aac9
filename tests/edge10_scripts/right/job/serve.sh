#!/bin/sh
python3 -m pip install 'vllm==0.11.0'
vllm serve /models/Qwen3-VL-4B-Instruct --served-model-name full --host 127.0.0.1 --port 7000 --limit-mm-per-prompt '{"image": 1, "video": 0}' &
vllm serve /models/Qwen3-VL-4B-Instruct-AWQ --served-model-name quarter --host 127.0.0.1 --port 7001 --limit-mm-per-prompt '{"image": 1, "video": 0}' &
wait
