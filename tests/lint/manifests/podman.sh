#!/bin/sh
exec podman run --rm \
  --device nvidia.com/gpu=all \
  --shm-size 8g \
  --env VLLM_API_KEY \
  --publish 8000:8000 \
  docker.io/vllm/vllm-openai:v0.24.0 \
  --model Qwen/Qwen3-8B \
  --tensor-parallel-size 2 \
  --reasoning-parser qwen3 \
  --speculative-config '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}'
