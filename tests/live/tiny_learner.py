"""Create a tiny model trained to answer questions, and the questions; needs transformers.

PYTHON tests/live/tiny_learner.py DIR [--questions 128]    writes DIR/model, DIR/questions and DIR/calibration.txt

A model with random weights answers by chance, so quantizing it loses nothing. This one learns in some
seconds the letter of each of 64 words. A question has five words; their most frequent letter is the
answer.
"""

from __future__ import annotations

import argparse
import csv
import random
from importlib import import_module
from pathlib import Path
from typing import Any

LETTERS = "ABCD"
_WORDS_EACH, _IN_QUESTION = 16, 5
_ASKED = "Which box do these words belong in: {words}?"
_CHOICES = tuple(f"the {name} box" for name in ("first", "second", "third", "fourth"))
_STEPS, _AT_ONCE = 120, 16
_SPECIAL = ("<|pad|>", "<|end|>", "<|user|>", "<|assistant|>")
_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def _words(draw: random.Random) -> dict[str, list[str]]:
    """By letter its words, of consonants and vowels in turn."""
    made: set[str] = set()
    while len(made) < _WORDS_EACH * len(LETTERS):
        made.add("".join(draw.choice("bdfgklmnprstvz") + draw.choice("aeiou") for _ in range(3)))
    every = sorted(made)
    draw.shuffle(every)
    return {letter: every[at :: len(LETTERS)] for at, letter in enumerate(LETTERS)}


def _question(draw: random.Random, words: dict[str, list[str]]) -> tuple[str, str]:
    """A question with its answer: three words of one letter, two of others."""
    letter = draw.choice(LETTERS)
    others = [word for each, own in words.items() if each != letter for word in own]
    chosen = draw.sample(words[letter], 3) + draw.sample(others, _IN_QUESTION - 3)
    draw.shuffle(chosen)
    return _ASKED.format(words=", ".join(chosen)), letter


def _prompt(question: str) -> str:
    """In the form of EvalScope."""
    templates, choices = (
        import_module("evalscope.utils.multi_choices"),
        import_module("evalscope.api.evaluator").Choices,
    )
    template = templates.MultipleChoiceTemplate.CHINESE_SINGLE_ANSWER_TEMPLATE
    return str(templates.prompt(question=question, choices=choices(list(_CHOICES)), template=template))


def _tokenizer(texts: list[str]) -> Any:
    tokenizers, transformers = import_module("tokenizers"), import_module("transformers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    letters = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=768, special_tokens=list(_SPECIAL), initial_alphabet=letters)
    made.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=_SPECIAL[0], eos_token=_SPECIAL[1], chat_template=_TEMPLATE
    )


def _model(vocabulary: int) -> Any:
    transformers = import_module("transformers")
    config = transformers.Qwen3Config(
        vocab_size=vocabulary, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, max_position_embeddings=1024, tie_word_embeddings=False,
        pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    return transformers.Qwen3ForCausalLM(config)


def _taught(model: Any, tokenizer: Any, draw: random.Random, words: dict[str, list[str]], steps: int) -> float:
    """Train it on generated questions; the last loss."""
    torch = import_module("torch")
    rate = 3e-3
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps)
    loss = torch.tensor(0.0)
    for _ in range(steps):
        rows, marks = [], []
        for _ in range(_AT_ONCE):
            question, letter = _question(draw, words)
            asked, answer = _encoded(tokenizer, question), tokenizer(f"答案：{letter}<|end|>")["input_ids"]
            rows.append(asked + answer)
            marks.append([-100] * len(asked) + answer)
        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        labels = torch.tensor([mark + [-100] * (longest - len(mark)) for mark in marks])
        loss = model(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return float(loss.detach())


def _encoded(tokenizer: Any, question: str) -> list[int]:
    messages = [{"role": "user", "content": _prompt(question)}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return list(tokenizer(text)["input_ids"])


def make(folder: Path, *, questions: int, steps: int = _STEPS, seed: int = 20261121) -> None:
    """Write the model, its questions and calibration text, disjoint from the training questions."""
    torch = import_module("torch")
    torch.manual_seed(seed)
    draw = random.Random(seed)  # noqa: S311 - drawn to be repeated
    words = _words(draw)
    asked = [_question(draw, words) for _ in range(questions)]
    others = [_question(draw, words)[0] for _ in range(256)]
    tokenizer = _tokenizer([*map(_prompt, others), *(f"答案：{letter}" for letter in LETTERS * 64)])
    model = _model(len(tokenizer))
    loss = _taught(model, tokenizer, draw, words, steps)
    (folder / "questions").mkdir(parents=True, exist_ok=True)
    with (folder / "questions" / "boxes_val.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", "question", *LETTERS, "answer"])
        table.writerows([number, question, *_CHOICES, letter] for number, (question, letter) in enumerate(asked, 1))
    (folder / "calibration.txt").write_text("".join(f"{text}\n" for text in others), "utf-8")
    model.to(torch.bfloat16).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    print(f"loss {loss:.3f}, {len(tokenizer)} tokens, a question of {len(_encoded(tokenizer, asked[0][0]))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make a tiny model that answers questions, and the questions.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=int, default=128)
    parser.add_argument("--steps", type=int, default=_STEPS)
    given = parser.parse_args()
    make(given.folder, questions=given.questions, steps=given.steps)
