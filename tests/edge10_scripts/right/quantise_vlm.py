import torch
from datasets import load_dataset
from quant_toolchain import quantize_model, save_quantized_model
from quant_toolchain.configs.dataset_utils import get_dataloader as feed
from quant_toolchain.configs.get_config import get_awq_config
from transformers import AutoProcessor, AutoTokenizer, Qwen2_5_VLForConditionalGeneration as Net

HERE, THERE = "Qwen2.5-VL-3B-Instruct", "Qwen2.5-VL-3B-Instruct-AWQ"
net = Net.from_pretrained(HERE, torch_dtype=torch.float16)
words = AutoTokenizer.from_pretrained(HERE)
prepare = AutoProcessor.from_pretrained(HERE)
# On a machine without a GPU, change "cuda" below to "cpu".
inputs = prepare(text="A", return_tensors="pt").to("cuda")
net.generate(**inputs, max_new_tokens=4)

texts = load_dataset("cnn_dailymail", "3.0.0", split="train")
batches = feed(texts, words, column="article", num_max_orig_samples=128, max_sequence_length=512)
quantize_model(net.language_model, get_awq_config(apply_clip=True), batches)
save_quantized_model(net, THERE, words)
