"""What is said of findings in trees and checkpoints: by id how much it matters, what comes of it and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_runbooks.catalog.toolchains import ToolchainFinding
from vllm_runbooks.core.records import Severity

_AGAIN = "delete what the compile left and run it again"
_LOADS = "the board's program does not find what it loads"
_LISTED = "{guide}: the listing of what a compile writes"
_LAST = "{guide}: the last part of the compile script, which renames"
_REMARKS = "{guide}: the remarks on compiling"
_FAQ = "{guide}: the remarks on compiling: missing files are copied from the float model"
_INCOMPLETE = "edge10.checkpoint_incomplete"
_VLLM = "vllm 0.11.0 model_executor/layers/quantization/awq.py"
_VLLM_MODEL = "vllm 0.11.0 model_executor/models/qwen2.py, load_weights"
_VLLM_LOADER = "vllm 0.11.0 model_executor/model_loader/default_loader.py, load_weights"
_VLLM_WIDTHS = "vllm 0.11.0 model_executor/layers/quantization, get_supported_act_dtypes of awq.py and awq_marlin.py"
_FORMAT = "https://github.com/huggingface/safetensors, README.md, Format"
_INDEX = "https://huggingface.co/docs/transformers/big_models, on sharded checkpoints"
_CONVERT = "run checkpoint_convert.py with --quant_type awq on the quantised checkpoint, into a new folder"
_TREE_SYSTEM = "what the file system said"


@dataclass(frozen=True)
class _Meaning:
    severity: Severity
    effect: str
    do: str
    source: str
    """`{guide}` stands for the source of the toolchain's facts."""
    symptom: str = ""


_F, _D, _H = Severity.FATAL, Severity.DEGRADED, Severity.HINT
MEANINGS: dict[str, _Meaning] = {
    # compiled trees
    "edge10.tree_level": _Meaning(
        _F,
        "what a compile writes cannot be judged from there",
        "give the folder of the compiled model, in which the folder of its dies lies",
        _LISTED,
    ),
    "edge10.tree_dies_contradict": _Meaning(
        _D,
        "one of them is not what was compiled, and a board that has other dies cannot run it",
        "find out which number is meant; rename the folder, or compile again",
        _LISTED,
    ),
    "edge10.tree_job_differs": _Meaning(
        _D,
        "the board gets another model than the job is for, or the same with other settings; or the name lies",
        "give the folder that belongs to the job; else correct the one that is wrong, and compile again",
        "{guide}: the compile script, which writes its settings into the name",
    ),
    "edge10.tree_kind_contradicts": _Meaning(
        _D,
        "files of a model with pictures are looked for, or are not",
        "give the folder that belongs to the job, or correct the job",
        _LISTED,
    ),
    "edge10.tree_lengths_contradict": _Meaning(
        _D,
        "the lengths that are wanted were not compiled, others were",
        "rename the folder if its name is wrong; else compile again with the lengths that are wanted",
        _LISTED,
    ),
    "edge10.tree_die_missing": _Meaning(
        _F,
        "a model on several dies runs on all of them or not at all",
        f"{_AGAIN}, or copy again if it was copied",
        _LISTED,
    ),
    "edge10.tree_die_differs": _Meaning(
        _F,
        _LOADS,
        "see whether the files are of this compile; then rename them, or delete all and compile again",
        _LISTED,
    ),
    "edge10.tree_die_beyond": _Meaning(
        _D,
        "it is of another compile, and the next script that takes the first file that fits may take it",
        "delete it if it is of an earlier compile",
        _REMARKS,
    ),
    "edge10.tree_length_missing": _Meaning(
        _F,
        "no program of that length can be run",
        f"{_AGAIN} with that length",
        _LISTED,
    ),
    "edge10.tree_length_beyond": _Meaning(
        _D,
        "it is what an earlier or broken compile left: not complete, and not asked for",
        "delete it if it is of an earlier compile",
        _REMARKS,
    ),
    "edge10.tree_length_differs": _Meaning(
        _F,
        _LOADS,
        "rename the folder to the length that its constants have, if they were compiled together; else compile again",
        _LISTED,
    ),
    "edge10.tree_length_idle": _Meaning(
        _F,
        "nothing runs at that length",
        _AGAIN,
        _LISTED,
    ),
    "edge10.tree_folder_missing": _Meaning(
        _F,
        _LOADS,
        f"{_AGAIN}, or copy again if it was copied",
        _LISTED,
    ),
    "edge10.tree_file_missing": _Meaning(
        _F,
        _LOADS,
        f"copy it again if it was copied; else {_AGAIN}",
        _LISTED,
    ),
    "edge10.tree_not_renamed": _Meaning(
        _F,
        _LOADS,
        "rename it, which `--repair` does",
        _LAST,
    ),
    "edge10.tree_twice": _Meaning(
        _D,
        "one is of this compile and one is not, and which is not told",
        f"see which of them is newer; or {_AGAIN}",
        _LAST,
    ),
    "edge10.tree_misnamed": _Meaning(
        _F,
        _LOADS,
        "rename it if it is that file",
        _LISTED,
    ),
    "edge10.tree_misplaced": _Meaning(
        _F,
        _LOADS,
        "move it if it is that file",
        _LISTED,
    ),
    "edge10.tree_mixed": _Meaning(
        _D,
        "files of an earlier compile lie among those of this one, and which of them were renamed is not told",
        _AGAIN,
        _REMARKS,
    ),
    "edge10.tree_leftover": _Meaning(
        _D,
        "a compile, a copy or a program broke off, so that other files may be cut off too",
        "see what broke off; delete it, and compile or copy again",
        _REMARKS,
    ),
    "edge10.tree_unknown_file": _Meaning(
        _H,
        "nothing is known that reads it",
        "leave it if it is yours",
        _LISTED,
    ),
    "edge10.tree_other_dies": _Meaning(
        _D,
        "two compiles lie in one folder",
        "delete the one that is not wanted",
        _LISTED,
    ),
    "edge10.tree_file_empty": _Meaning(
        _F,
        "there is nothing in it to load; a full disk leaves such files",
        f"look for room on the disk; {_AGAIN}, or copy again if it was copied",
        _LISTED,
    ),
    "edge10.tree_files_empty": _Meaning(
        _F,
        "they are names without content: nothing can be loaded",
        "copy them again, with their content",
        _LISTED,
    ),
    "edge10.tree_sizes_apart": _Meaning(
        _D,
        "a model is divided over its dies in like parts: the smaller one may be cut off",
        "compare it with what was compiled, as by sha256sum; copy or compile again",
        "how tensor parallelism divides weights",
    ),
    "edge10.tree_json_damaged": _Meaning(
        _F,
        "whoever reads it stops",
        f"copy it again if it was copied; else {_AGAIN}",
        _LISTED,
    ),
    "edge10.tree_remap": _Meaning(
        _D,
        "the folder's name says another order of dies than was compiled",
        "compile again with one order, or rename the folder",
        "{guide}: the compile script, which writes the order into the name",
    ),
    "edge10.tree_name_rest": _Meaning(
        _D,
        "the board's program asks for a folder of a certain name, and the listing of a compile has none that goes on",
        "rename the folder",
        _REMARKS,
    ),
    "edge10.tree_name_model": _Meaning(
        _D,
        "the board's program asks for names whose parts are joined by dashes",
        "rename the folder",
        _REMARKS,
    ),
    "edge10.tree_name_modality": _Meaning(
        _D,
        "the board's programme asks for a folder of a certain name, and no compile gives this one",
        "see with which modality it was compiled, and rename the folder",
        "the compile script, which writes the modality into the name",
    ),
    "edge10.tree_context_differs": _Meaning(
        _D,
        "the name tells a context that was not compiled, or the files are of an earlier compile",
        "compare both with the compile script; then rename the folder, or compile again",
        _LISTED,
    ),
    # any folder
    "edge10.tree_unread": _Meaning(
        _D,
        "what lies there is not judged",
        "mend its permissions and check again",
        _TREE_SYSTEM,
    ),
    "edge10.tree_cut": _Meaning(
        _D,
        "what is missing cannot be told",
        "give the folder of one model",
        _TREE_SYSTEM,
    ),
    "edge10.tree_link": _Meaning(
        _F,
        "there is no file behind the name",
        "copy the file itself",
        _TREE_SYSTEM,
    ),
    "edge10.tree_no_file": _Meaning(
        _F,
        "whoever reads it waits for ever, or stops",
        "put the file itself there",
        _TREE_SYSTEM,
    ),
    "edge10.tree_linked_folder": _Meaning(
        _D,
        "a link to a folder is not followed: what lies there is not judged",
        "give that folder itself, or put it in the link's place",
        _TREE_SYSTEM,
    ),
    # checkpoints
    "edge10.checkpoint_file_missing": _Meaning(
        _F,
        "the compile may stop while it traces the model; a server does not start, or answers in another way",
        "copy it from the float model, which `--repair --float FOLDER` does",
        _FAQ,
        _INCOMPLETE,
    ),
    "edge10.checkpoint_json_damaged": _Meaning(
        _F,
        "whoever reads it stops",
        "copy it from the float model; config.json comes from quantising",
        _FAQ,
        _INCOMPLETE,
    ),
    "edge10.checkpoint_weights_missing": _Meaning(
        _F,
        "there is nothing to load",
        "quantise again, or copy again",
        _INDEX,
    ),
    "edge10.checkpoint_shard_missing": _Meaning(
        _F,
        "transformers stops there; vLLM 0.11.0 loads a quantised model without it, and answers are senseless",
        "copy it again; else quantise again",
        _VLLM_LOADER,
    ),
    "edge10.checkpoint_shard_damaged": _Meaning(
        _F,
        "loading stops at that file",
        "copy it again; else quantise again",
        _FORMAT,
    ),
    "edge10.checkpoint_index_missing": _Meaning(
        _F,
        "transformers does not load it, and which files belong together is not told",
        "copy it again; else quantise again",
        _INDEX,
    ),
    "edge10.checkpoint_index_differs": _Meaning(
        _F,
        "a tensor that lies in no other file is not loaded, and has whatever values it was made with",
        "the index and the files are of two saves: quantise or convert again into a new folder",
        _VLLM_LOADER,
    ),
    "edge10.checkpoint_index_empty": _Meaning(
        _F,
        "vLLM 0.11.0 reads the files that the index names, and so none",
        "copy the index again; else quantise or convert again into a new folder",
        "vllm 0.11.0 model_executor/model_loader/weight_utils.py, filter_duplicate_safetensors_files",
    ),
    "edge10.checkpoint_other_tokenizer": _Meaning(
        _F,
        "tokens have other numbers than the model was trained with: answers are senseless",
        "copy the tokenizer's files from the float model that was quantised",
        "tokenizer of both",
    ),
    "edge10.checkpoint_shards_mixed": _Meaning(
        _D,
        "two saves lie in one folder, and a loader that takes every file of weights reads both",
        "delete those of the earlier save, or convert again into a new folder",
        _INDEX,
    ),
    "edge10.checkpoint_leftover": _Meaning(
        _D,
        "a copy or a save broke off, so that other files may be cut off too",
        "see what broke off; delete it, and copy or save again",
        _INDEX,
    ),
    "edge10.checkpoint_not_converted": _Meaning(
        _F,
        "vLLM and the compiler read another form",
        _CONVERT,
        "{guide}: format conversion",
    ),
    "edge10.checkpoint_unsaid": _Meaning(
        _F,
        "vLLM takes the packed weights for a model of 16 bits and stops at the first of them",
        f"take config.json from the conversion; else {_CONVERT}",
        _VLLM_MODEL,
    ),
    "edge10.checkpoint_method": _Meaning(
        _F,
        "asked for awq vLLM refuses it: `Quantization method specified in the model config (…) does not match`; "
        "else the method that stands there is taken, or is not known",
        _CONVERT,
        "vllm 0.11.0 config/model.py",
    ),
    "edge10.checkpoint_bits": _Meaning(
        _F,
        "vLLM refuses it: `Currently, only 4-bit weight quantization is supported for AWQ`, or, where nothing is said, "
        "`Cannot find any of ['w_bit', 'bits'] in the model's quantization config`",
        _CONVERT,
        _VLLM,
    ),
    "edge10.checkpoint_group_size": _Meaning(
        _F,
        "scales are read for other weights than they belong to: loading stops, or answers are senseless",
        "take config.json and weights of one conversion",
        "vllm 0.11.0 model_executor/parameter.py",
    ),
    "edge10.checkpoint_tensor_missing": _Meaning(
        _F,
        "a packed weight needs its zero points and its scales; vLLM 0.11.0 does not see that one is missing",
        f"copy the file again; else {_CONVERT}",
        _VLLM_LOADER,
    ),
    "edge10.checkpoint_layer_missing": _Meaning(
        _F,
        "the model has fewer layers than its configuration says",
        "copy the weights again; else quantise again",
        "num_hidden_layers of config.json",
    ),
    "edge10.checkpoint_head_missing": _Meaning(
        _F,
        "no token can be chosen without it",
        "copy the weights again; else quantise again",
        "tie_word_embeddings of config.json",
    ),
    "edge10.checkpoint_vision_quantised": _Meaning(
        _F,
        "the toolchain does not quantise the vision part, and its compiler does not read it so",
        "quantise the language part alone",
        "{guide}: quantising a model with pictures",
    ),
    "edge10.checkpoint_vision_not_excepted": _Meaning(
        _D,
        "vLLM looks for packed weights in the vision part as well, and stops",
        'write "visual" into modules_to_not_convert of quantization_config',
        _VLLM,
    ),
    "edge10.checkpoint_vision_missing": _Meaning(
        _F,
        "a model with pictures cannot be loaded without its vision part",
        "save the whole model after its language part was quantised",
        "{guide}: quantising a model with pictures",
    ),
    "edge10.checkpoint_partly_quantised": _Meaning(
        _F,
        "vLLM looks for packed weights in every linear layer that is not excepted, and stops",
        "quantise again; or name the module in modules_to_not_convert",
        _VLLM,
    ),
    "edge10.checkpoint_dtype": _Meaning(
        _H,
        "with --quantization awq vLLM takes float16 alone, with its kernel awq_marlin bfloat16 as well",
        "start it with --dtype float16, as every command of the guide does",
        _VLLM_WIDTHS,
    ),
    "edge10.checkpoint_is_float": _Meaning(
        _F,
        "a model compared with itself loses nothing, and a conversion into its own source overwrites it",
        "give each step a folder of its own",
        "{guide}: format conversion",
    ),
    "edge10.checkpoint_other_model": _Meaning(
        _F,
        "files copied from there, and scores compared with it, are of another model",
        "give the float model that was quantised",
        "config.json of both",
    ),
    "edge10.checkpoint_size": _Meaning(
        _D,
        "some of it is not as wide as it should be, or is missing",
        "compare the tensors with the float model's; quantise again",
        "{guide}: 4 bits for weights of the language part, 16 for the rest",
    ),
}


def finding(of: str, path: str | None, text: str, *, do: str = "", source: str) -> ToolchainFinding:
    """A finding with what is known of its kind.

    Args:
        of: Its id.
        path: What it is about; None: nothing in particular.
        text: What is wrong, in this case.
        do: What to do about this one; empty: what is done about its kind.
        source: Of the toolchain's facts.
    """
    known = MEANINGS[of]
    return ToolchainFinding(
        id=of,
        severity=known.severity,
        path=path,
        text=text,
        effect=known.effect,
        do=do or known.do,
        source=known.source.replace("{guide}", source),
        symptom=known.symptom,
    )
