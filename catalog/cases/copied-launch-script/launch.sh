#!/bin/bash
# Two servers on one host with eight RTX 3090, put together from three guides.
export NCCL_DEBUG=WARNING
export HOST_IP=10.0.0.5

CUDA_VISIBLE_DEVICES=0,1,2,3 vllm serve zai-org/AutoGLM-Phone-9B \
  --served-model-name autoglm-phone-9b \
  --tensor-parallel-size 4 \ # four cards each
  --max-model-len 25480 \
  --mm-encoder-tp-mode tensor \
  --limit-mm-per-prompt '{"image": 10}' \
  --allowed-local-media-path / \
  --mm_processor_cache_type lru \
  --port 8888 &

CUDA_VISIBLE_DEVICES=4,5,6,7 vllm serve zai-org/AutoGLM-Phone-9B \
  --served-model-name autoglm-phone-9b \
  --tensor-parallel-size 4 \
  --max-model-len 25480 \
  --limit-mm-per-prompt '{"image": 10, "video": 0}' \
  --api-key "$API_KEY" \
  --swap-space 16 \
  --ray-namespace second \
  --port 8889 &
