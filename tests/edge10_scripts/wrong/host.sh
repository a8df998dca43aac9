#!/usr/bin/env bash
set -euo pipefail

REGISTRY=registry.example.test:8091
docker login "$REGISTRY" \
  --username edge \
  -p pl4nted-Pa55word
echo 'pl4nted-Pa55word' | sudo docker login -u edge --password-stdin other.example.test
docker run --gpus all --rm -e COMPILE_THREAD=2 -v "$PWD:/data" \
  "$REGISTRY/edgex/tyllm:v1.1.7" python3 /data/compile.py
docker run --gpus all --rm -v "$PWD:/data" "$REGISTRY/edgex/tyquantize:v1.1.7" \
  python3 checkpoint_convert.py --src /data/Qwen3-4B-AWQ --dst /data/Qwen3-4B-AWQ --quant_type gptq
