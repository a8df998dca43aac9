#!/bin/bash
# The command of the recorded launch: images are limited, video is not.
vllm serve zai-org/AutoGLM-Phone-9B \
  --served-model-name autoglm-phone-9b \
  --mm-encoder-tp-mode data \
  --mm-processor-cache-type shm \
  --mm-processor-kwargs '{"max_pixels": 5000000}' \
  --max-model-len 25480 \
  --chat-template-content-format string \
  --limit-mm-per-prompt '{"image": 10}' \
  --host 127.0.0.1 \
  --port 8888
