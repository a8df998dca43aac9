from datasets import load_dataset
from quant_toolchain import get_dataloader, get_gptq_config, quantize_model, save_quantized_model
from transformers import AutoModelForCausalLM, AutoTokenizer


def load(name):
    return AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)


def samples(tokenizer):
    news = load_dataset("cnn_dailymail", "3.0.0", split="train[:1%]")
    return get_dataloader(news, tokenizer, num_max_orig_samples=16, max_sequence_length=512)


def main():
    model, tokenizer = load("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B")
    small = quantize_model(model, get_gptq_config(), samples(tokenizer), tokenizer)
    save_quantized_model(small, "DeepSeek-R1-Distill-Qwen-7B-GPTQ")


if __name__ == "__main__":
    main()
