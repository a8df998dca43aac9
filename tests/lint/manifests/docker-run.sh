#!/bin/bash
set -euo pipefail
: "${VLLM_API_KEY:?}"

docker run -d --name vllm \
  --gpus all \
  --ipc=host \
  -e VLLM_API_KEY \
  -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \
  -p 8080:8000 \
  vllm/vllm-openai:v0.24.0 \
  --model meta-llama/Llama-3.1-70B-Instruct \
  --tensor-parallel-size 4 \
  --max-model-len 16384 \
  --speculative-config '{"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B", "num_speculative_tokens": 3}'
