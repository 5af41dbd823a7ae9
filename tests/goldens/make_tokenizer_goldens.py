#!/usr/bin/env python3
"""Writes tokens/, which tests/text/tokenizer_goldens_test.cc compares with.

Four tokenizers of a few hundred merges, as the families have them, are trained by PyPI's
`tokenizers` (0.23.3): NAME.json. texts.json holds texts as hexadecimal bytes, some of
which are no UTF-8; NAME.ids.json, for each of them, the ids that `tokenizers` gives for
Python's decode("utf-8", errors="replace"), which is what it can be given: "special" with
special tokens taken as tokens, "plain" with them taken as text and without what is put
around a text, for those texts alone, by number, for which that is something else.

    python3 tests/goldens/make_tokenizer_goldens.py
"""

import json
import pathlib
import random

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "tokens"
NOVEL = HERE.parents[1] / "examples/data"
SOURCE = """for (int i = 0; i < 1024; ++i) {\n\tsum += values[i] * 3.14159;\n}\r\n
Größe, naïve, café, Ελληνικά, русский язык, 日本語のテキスト, 한국어 문장, हिन्दी, עברית\n"""
LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA.replace("{1,3}", "")


def byte_level(regex, space=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=space, use_regex=regex)


def train(pre_tokenizer, special, normalizer=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + 300 + len(special), special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    text = (NOVEL / "pride_and_prejudice.txt").read_text(encoding="utf-8")[:60000]
    tokenizer.train_from_iterator([text] + [SOURCE] * 40, trainer)
    return tokenizer


def gpt2():
    tokenizer = train(byte_level(True, space=True), ["<|endoftext|>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.add_tokens([AddedToken("tokenword", normalized=True)])
    return tokenizer


def llama3():
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|eot|>"]
    tokenizer = train(
        pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(LLAMA), "isolated"), byte_level(False)]), [])
    # Tokens that no merge gives, so that ignoring merges is seen.
    written = json.loads(tokenizer.to_str())
    written["model"]["ignore_merges"] = True
    for token in ("Ġunreachable", "qqq"):
        written["model"]["vocab"][token] = len(written["model"]["vocab"])
    tokenizer = Tokenizer.from_str(json.dumps(written))
    tokenizer.add_special_tokens([AddedToken(s, special=True) for s in special])
    begin = tokenizer.token_to_id(special[0])
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{special[0]} $A",
                                      special_tokens=[(special[0], begin)])])
    return tokenizer


def smollm():
    tokenizer = train(
        pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), byte_level(True)]),
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    written = json.loads(tokenizer.to_str())
    # As in SmolLM2's, these bytes have no token: 0x04, 0xF1 and 0xF2.
    for character in "Ąñò":
        del written["model"]["vocab"][character]
    written["model"]["merges"] = [" ".join(m) for m in written["model"]["merges"]]
    return Tokenizer.from_str(json.dumps(written)), written


def qwen():
    tokenizer = train(
        pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(QWEN), "isolated"), byte_level(False)]),
        [], normalizers.NFC())
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True),
                                  AddedToken("<|im_start|>", special=True),
                                  AddedToken("<|im_end|>", special=True)])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False),
                          AddedToken("e\u0301t\u00e9", normalized=True)])
    return tokenizer


def texts():
    spaces = "\t\n\v\f\r \x85\xa0\u1680\u180e\u2000\u2003\u200a\u200b\u2028\u202f\u205f\u3000\ufeff"
    yield from ["", " ", "  ", "a", " a", "a ", "  a  b   ", "\n", "\n\n a\r\n\r\nb \n",
                "   \n\n   x", "tab\t\tend\t", "a" * 31, "a" * 32, "a" * 33, "ab" * 700,
                "the " * 50, " " * 100 + "x"]
    yield from [f"x{s}y {s}{s} z{s}" for s in spaces]
    yield from ["I'm you're we'll it's I'd they've don't O'S I'M YOU'RE 'LL'VE 'x ''s",
                "'\u017f 'S '\u212a ’s", "1 12 123 1234 12345 3.14 1,000,000 ½²③ ٣٤٥ 一二三 Ⅷ",
                "qqq qqq unreachable unreachable", "snake_case camelCase x+=1;//c\r\n\r\n}",
                "e\u0301t\u00e9 \u00e9te\u0301 A\u030a\u0323 q\u0323\u0307 q\u0307\u0323 \u1e0b\u0323 \u212b",
                "\u0958 \u1100\u1161\u11a8 \uac00\u11a8 \u0344 \u2126 \ufb1d \U0001d15e a\u1dfa\u0323",
                "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f3f3\ufe0f\u200d\U0001f308 "
                "\U0001f1e9\U0001f1ea \u2764\ufe0f \U0001f44d\U0001f3fd",
                "\0\1\2\4\x1b\x7f", "\ufffe\uffff\U0010ffff", "नमस्ते किं", "ภาษาไทย ไม่"]
    yield from ["<|im_start|>user\nHi<|im_end|>\n<|im_start|>", "<|begin_of_text|>a<|eot_id|><|eot|><|eot",
                "a <mask> b  <mask>  <mask>", "tokenwordtokenword tokenwor", "<think>\n</think>",
                "<|endoftext|><|endoftext|>", "x<|endoftext|>y", "<|<|im_end|>|>"]
    every = [chr(c) for start in range(0, 0x20000, 0x80) for c in (start, start + 1)
             if not 0xD800 <= c < 0xE000]
    for at in range(0, len(every), 64):
        yield " 1".join(every[at:at + 64])
    rng = random.Random(1)
    alphabet = "aAzé1½ \n\t\r'slt.,!_-<|>日\u0301\u0323\u200d\U0001f600\u00a0"
    for _ in range(100):
        yield "".join(rng.choices(alphabet, k=rng.randrange(1, 40)))
    for _ in range(100):
        yield rng.randbytes(rng.randrange(1, 24))
    yield from [b"\xe2\x82", b"a\xf0\x9f\x98b", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80",
                b"\xe2\x28\xa1", b"ok\xff", b"\xf0\x80\x80\x80", b"\x80\x80"]


def main():
    OUT.mkdir(exist_ok=True)
    rows = [t.encode() if isinstance(t, str) else t for t in texts()]

    def write(name, value):
        with open(OUT / name, "w", encoding="utf-8") as file:
            json.dump(value, file, separators=(",", ":"), ensure_ascii=False)
            file.write("\n")

    write("texts.json", [row.hex() for row in rows])
    small, written = smollm()
    for name, tokenizer, file in [
            ("gpt2", gpt2(), None), ("llama3", llama3(), None),
            ("smollm", small, written), ("qwen", qwen(), None)]:
        write(f"{name}.json", file or json.loads(tokenizer.to_str()))
        given = [row.decode("utf-8", errors="replace") for row in rows]
        special = [tokenizer.encode(t).ids for t in given]
        tokenizer.encode_special_tokens = True
        plain = [tokenizer.encode(t, add_special_tokens=False).ids for t in given]
        others = {i: ids for i, ids in enumerate(plain) if ids != special[i]}
        write(f"{name}.ids.json", {"special": special, "plain": others})


if __name__ == "__main__":
    main()
