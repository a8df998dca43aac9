from datasets import load_dataset
from quant_toolchain import get_awq_config, get_dataloader, quantize_model, save_quantized_model
from transformers import AutoModelForCausalLM, AutoTokenizer


def load(name):
    return AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)


def samples(tokenizer):
    news = load_dataset("cnn_dailymail", "3.0.0", split="train[:1%]")
    return get_dataloader(news, tokenizer, num_max_orig_samples=256, max_sequence_length=512, column="article")


def main():
    model, tokenizer = load("Qwen/Qwen3-4B")
    small = quantize_model(model, get_awq_config(), samples(tokenizer), tokenizer)
    save_quantized_model(small, "Qwen3-4B-AMTC-AWQ")


if __name__ == "__main__":
    main()
