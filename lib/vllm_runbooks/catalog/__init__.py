"""The data of `catalog/`: symptoms, rules, models, GPUs and the options of each vLLM release."""
