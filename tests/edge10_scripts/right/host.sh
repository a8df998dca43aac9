#!/usr/bin/env bash
set -euo pipefail

REGISTRY=registry.example.test:8091
docker login "$REGISTRY" --username edge --password-stdin <<< "$EDGE_REGISTRY_PASSWORD"
docker run --gpus all --rm -e COMPILE_THREAD=1 -v "$PWD:/data" \
  "$REGISTRY/edgex/tyllm:v1.1.7" python3 /data/compile.py
docker run --gpus all --rm -v "$PWD:/data" "$REGISTRY/edgex/tyquantize:v1.1.7" \
  python3 checkpoint_convert.py --src /data/Qwen3-4B-AWQ --dst /data/Qwen3-4B-AWQ-vllm --quant_type awq
