"""Fake of the text batching."""

from __future__ import annotations

from typing import Any

from recorded import call


def get_dataloader(  # noqa: PLR0917 - the toolchain's own
    dataset: Any,
    tokenizer: Any,
    num_max_orig_samples: int = 128,
    max_sequence_length: int = 512,
    column: str = "text",
    concat_data: bool = False,  # noqa: FBT001, FBT002
    pad_to_max_length: bool = True,  # noqa: FBT001, FBT002
) -> str:
    call(
        "get_dataloader",
        dataset,
        tokenizer,
        samples=num_max_orig_samples,
        tokens=max_sequence_length,
        column=column,
        concat=concat_data,
        pad=pad_to_max_length,
    )
    return "batches"
