import quant_toolchain as q
import datasets
import transformers

SOURCE = "/models/Qwen/Qwen3-4B"
TARGET = "/models/Qwen3-4B-AWQ"


def loader(tokenizer, length=128, count=512):
    everything = datasets.load_dataset("cnn_dailymail", name="3.0.0")
    return q.get_dataloader(
        everything,
        tokenizer,
        num_max_orig_samples=count,
        max_sequence_length=length,
        column="text",
    )


model = transformers.AutoModelForCausalLM.from_pretrained(SOURCE)
tok = transformers.AutoTokenizer.from_pretrained(SOURCE)
q.save_quantized_model(q.quantize_model(model, q.get_awq_config(), loader(tok), tok), TARGET)
