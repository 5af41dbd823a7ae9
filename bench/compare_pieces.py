#!/usr/bin/env python3
"""Compares tokens of SentencePiece's models with those of PyPI's `sentencepiece`.

    bazel build -c opt //bench:encode_texts
    python3 bench/compare_pieces.py bazel-bin/bench/encode_texts MODEL... [--texts TEXT...]

Each MODEL is a file of SentencePiece's (PyPI's mistral-common and seqio hold some); the
same texts are encoded by it, and by a GGUF file that PyPI's `gguf` writes of it where that
says the same. TEXT and what is compared besides are those of bench/compare_tokens.py;
special tokens are text.
"""

import argparse
import pathlib
import sys
import tempfile

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

import compare_tokens


def proto_of(model):
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(pathlib.Path(model).read_bytes())
    return proto


def is_said_by_gguf(proto):
    """User-defined pieces are found otherwise, and of byte pair encoding no rules are kept."""
    rules = proto.normalizer_spec
    return not any(p.type == 4 for p in proto.pieces) and (
        proto.trainer_spec.model_type == 1
        or not rules.remove_extra_whitespaces and not rules.precompiled_charsmap)


def write_gguf(proto, path):
    """As llama.cpp's convert_hf_to_gguf.py does."""
    writer = gguf.GGUFWriter(path, "llama")
    is_unigram = proto.trainer_spec.model_type == 1
    writer.add_tokenizer_model("t5" if is_unigram else "llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([p.piece.encode() for p in proto.pieces])
    writer.add_token_scores([p.score for p in proto.pieces])
    writer.add_token_types([p.type for p in proto.pieces])
    writer.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    if is_unigram:
        writer.add_remove_extra_whitespaces(proto.normalizer_spec.remove_extra_whitespaces)
        if proto.normalizer_spec.precompiled_charsmap:
            writer.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def theirs(processor, rows):
    texts = [row.decode("utf-8", errors="replace") for row in rows]
    return [(ids, processor.decode(ids)) for ids in processor.encode(texts)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--texts", nargs="*", default=[])
    options = parser.parse_args()
    sets = {path: compare_tokens.files_of(path) for path in options.texts}
    sets["blocks"] = list(compare_tokens.blocks())
    sets["random"] = compare_tokens.random_strings()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models:
            processor = sentencepiece.SentencePieceProcessor(model_file=model)
            as_gguf = f"{folder}/model.gguf"
            proto = proto_of(model)
            write_gguf(proto, as_gguf)
            for what, rows in sets.items():
                want = theirs(processor, rows)
                for path in [model] + [as_gguf] * is_said_by_gguf(proto):
                    got, _ = compare_tokens.ours(options.program, path, rows, 1, ["plain"])
                    # Of a GGUF file unknown tokens are special, and left out of texts.
                    differ = [i for i, (one, other) in enumerate(zip(got, want))
                              if compare_tokens.differs(one, other)
                              and (path == model or one[0] != other[0])]
                    wrong += len(differ)
                    print(f"{path}, {what}: {len(differ)} of {len(rows)} texts differ; "
                          f"{sum(len(ids) for ids, _ in want)} tokens", flush=True)
                    for i in differ[:3]:
                        print("  ", rows[i][:200], got[i][0][:20], want[i][0][:20],
                              got[i][1][:100], want[i][1][:100])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
