set -e
pip install -U vllm
export LLM_USE_MODELSCOPE=True

CUDA_VISIBLE_DEVICES=0,1 vllm serve ./Qwen3-4B --served-model-name plain --host 127.0.0.1 --port 9001 --max-model-len 8196 &
CUDA_VISIBLE_DEVICES=2 vllm serve ./Qwen3-4B-AWQ --served-model-name small --quantization awq --host 127.0.0.1 --port 9002 &
wait_for() { until curl -sf "http://127.0.0.1:$1/health"; do sleep 5; done; }
wait_for 9001
wait_for 9002
evalscope eval --model small --api-url http://127.0.0.1:9003/v1/chat/completions --eval-type openai_api \
  --datasets mmlu --generation-config '{"temperature": 0.6, "max_tokens": 64}'
wait
