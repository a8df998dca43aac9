#!/usr/bin/env bash
# Serve the float and the quantized model side by side.
export LLM_USE_MODELSCOPE=True
CUDA_VISIBLE_DEVICES=0 vllm serve Qwen/Qwen3-VL-4B-Instruct \
    --host 127.0.0.1 --port 8000 --served-model-name float --dtype float16 --max-model-len 8192 &
CUDA_VISIBLE_DEVICES=1 vllm serve ./Qwen3-VL-4B-Instruct-AWQ \
    --host 127.0.0.1 --port 8001 --served-model-name awq --quantization awq --dtype float16 --max-model-len 8192 &
wait
