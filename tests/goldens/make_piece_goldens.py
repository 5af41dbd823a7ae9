#!/usr/bin/env python3
"""Writes pieces/, which tests/text/piece_goldens_test.cc compares with.

Small vocabularies of the families whose units are characters, trained by PyPI's `tokenizers`
(0.23.3) or `sentencepiece` (0.2.3): NAME.json. cases.json holds how published models use them: the parts that differ
from NAME.json, and for each text of texts.json (hexadecimal bytes, some of which are no
UTF-8) the ids that `tokenizers` gives for Python's decode("utf-8", errors="replace"):
"special" with special tokens taken as tokens, "plain", by number where it is something
else, with them taken as text and without what is put around a text; and "decoded", the
texts that it makes of those of "special". NAME.model are files of SentencePiece's, and
NAME.model.json the ids and texts that `sentencepiece` makes of the same texts.

    python3 tests/goldens/make_piece_goldens.py
"""

import base64
import io
import json
import pathlib
import random
import tempfile
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from tokenizers import (AddedToken, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, trainers)

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "pieces"
NOVEL = HERE.parents[1] / "examples/data/pride_and_prejudice.txt"
SOURCE = """for (int i = 0; i < 1024; ++i) {\n\tsum += values[i] * 3.14159;\n}\r\n
Größe, naïve, café, Ελληνικά, русский язык, 日本語のテキスト, 한국어 문장, हिन्दी, עברית\n"""
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPACE = "\u2581"


def corpus():
    lines = NOVEL.read_text(encoding="utf-8")[:80000].split("\n")
    return lines + SOURCE.split("\n") * 20


def texts():
    spaces = "\t\n\v\f\r\x85\xa0\u1680\u2003\u200b\u2028\u3000\ufeff"
    yield from ["", " ", "  ", "a", " a", "a ", "  a  b   ", "\n", "\n\n a\r\n\r\nb \n",
                "tab\t\tend\t", "a" * 33, "the " * 9, "x" * 101, " " * 40 + "x",
                SPACE, f"a{SPACE}b {SPACE} c", "It is a truth universally acknowledged,"
                " that a single man in possession of a good fortune, must be in want of a wife."]
    yield from [f"x{s}y {s}{s} z{s}" for s in spaces]
    yield from ["I'm you're don't O'S 'x ''s. do not", "1 12 123 3.14 1,000 ½²③ ٣٤٥ 一二三 Ⅷ",
                "snake_case camelCase x+=1;//c\r\n\r\n}", "Größe NAÏVE Café İstanbul ΣΑΣ ǅ ẞ",
                "e\u0301t\u00e9 A\u030a\u0323 q\u0323\u0307 q\u0307\u0323 \u212b \u0958 \u0344 \ufb01 ﷺ",
                "\u0301a \u1100\u1161\u11a8 \uac01 한국어 문장 日本語のテキスト 你好，世界。 हिन्दी किं ไม่ עברית",
                "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f \U0001f44d\U0001f3fd",
                "\0\1\2\x1b\x7f \u00ad\u200e\ufffd", "\ufffe\uffff\U0010ffff\ue000", "¿¡«»“”—…€$^`~|+<=>",
                "<0x0A> <0x41><0xE2> <unk>", "Ａｌｐｈａ ①②③ ㍿ ｶﾞ ℌ ａ\u0301"]
    yield from ["<s>a</s> <s>", "a <mask> b  <mask>  <mask>c", "tokenword tokenwords xtokenword tokenword",
                "<|user|>\n Hi<|end|>\n", "<s><s>x", "[CLS] hello [SEP][MASK] [UNK]", "a<|end|>  b"]
    every = [chr(c) for c in range(0, 0x20000, 0x300) if not 0xD800 <= c < 0xE000]
    for at in range(0, len(every), 24):
        yield "1 ".join(every[at:at + 24])
    rng = random.Random(1)
    alphabet = "aAzé1½ \n\tslt.,!_-<|>日\u0301\u0323\u200d\U0001f600\u00a0▁"
    for _ in range(30):
        yield "".join(rng.choices(alphabet, k=rng.randrange(1, 40)))
    for _ in range(30):
        yield rng.randbytes(rng.randrange(1, 24))
    yield from [b"\xe2\x82", b"a\xf0\x9f\x98b", b"\xed\xa0\x80", b"ok\xff"]


def added(token, number, **options):
    special = options.pop("special", True)
    return {"id": number, "content": token, "special": special, "single_word": False,
            "lstrip": False, "rstrip": False, "normalized": not special, **options}


def trained(tokenizer, trainer):
    tokenizer.train_from_iterator(corpus(), trainer)
    return json.loads(tokenizer.to_str())


def bpe():
    """Llama 2's: three special tokens, all bytes, then what is trained."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    file = trained(tokenizer, trainers.BpeTrainer(vocab_size=800, show_progress=False))
    vocab = file["model"]["vocab"]
    tokens = ["<unk>", "<s>", "</s>"] + BYTES + sorted(vocab, key=vocab.get)
    # As Gemma's has them: runs of spaces and of line ends.
    tokens += ["\n", "\t", "\n\n", SPACE * 2, SPACE * 4]
    tokens = list(dict.fromkeys(tokens))
    merges = file["model"]["merges"] + [["\n", "\n"], [SPACE, SPACE], [SPACE * 2, SPACE * 2]]
    file["model"].update(vocab={t: i for i, t in enumerate(tokens)}, merges=merges,
                         unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    file["added_tokens"] = [added(t, i) for i, t in enumerate(tokens[:3])]
    return file


def llama_decoder():
    return {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}


def prepended():
    return {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": SPACE}, replaced()]}


def replaced():
    return {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}


def metaspace(**options):
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always",
            "split": True, **options}


def bos():
    return {"type": "TemplateProcessing", "pair": [],
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                       {"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}


def bpe_cases(file):
    special = file["added_tokens"]
    size = len(file["model"]["vocab"])
    few_bytes = {t: i for t, i in file["model"]["vocab"].items() if t not in BYTES[128:160]}
    yield "Llama 2", dict(normalizer=prepended(), pre_tokenizer=None, decoder=llama_decoder(),
                          post_processor=bos())
    yield "Llama 2 without legacy", dict(
        pre_tokenizer=metaspace(prepend_scheme="first", split=False), decoder=llama_decoder(),
        added_tokens=special + [added("<mask>", size, lstrip=True)])
    yield "Gemma", dict(
        normalizer=replaced(), post_processor=bos(),
        pre_tokenizer={"type": "Split", "pattern": {"String": " "},
                       "behavior": "MergedWithPrevious", "invert": False},
        decoder={"type": "Sequence", "decoders": llama_decoder()["decoders"][:3]})
    yield "Phi-3", dict(
        normalizer=prepended(), decoder=llama_decoder(), added_tokens=special + [
            added("<|user|>", size, rstrip=True), added("<|end|>", size + 1, rstrip=True),
            added("tokenword", size + 2, special=False, single_word=True, normalized=False),
            added("universally", size + 3, special=False)])
    yield "few bytes", dict(
        pre_tokenizer=metaspace(split=True), decoder=metaspace(),
        model=dict(vocab=few_bytes, fuse_unk=False))
    yield "no bytes", dict(
        pre_tokenizer=metaspace(prepend_scheme="never"), decoder=None,
        model=dict(byte_fallback=False), normalizer={"type": "NFKC"})
    yield "ignored merges", dict(
        normalizer={"type": "Sequence", "normalizers": [
            {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "NFD"},
            {"type": "StripAccents"}, {"type": "Lowercase"}]},
        pre_tokenizer=metaspace(prepend_scheme="first"), decoder=metaspace(prepend_scheme="first"),
        model=dict(ignore_merges=True, fuse_unk=False, byte_fallback=False))


def rules():
    """A part of form KC, marks on letters, white space and control characters."""
    for code in [*range(0xA0, 0x180), *range(0x1E00, 0x1E20), *range(0xFB00, 0xFB07),
                 *range(0xFF01, 0xFF5F), *range(0x3300, 0x3340), 0x2460, 0x2103, 0x212B, 0xFDFA]:
        for form in ("NFC", "NFD"):
            text = unicodedata.normalize(form, chr(code))
            if text != unicodedata.normalize("NFKC", text):
                yield text, unicodedata.normalize("NFKC", text)
    yield from [("\t", " "), ("\n", " "), ("\r", " "), ("\u2003", " "), ("\u3000", " "),
                ("\u200b", " "), ("\ufeff", ""), ("\x7f", ""), ("\x01", ""), ("\u0344", "\u0308\u0301")]


def sentence_piece(model_type, **options):
    """A model as it is in a file of SentencePiece's, with these rules."""
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as table:
        for text, to in sorted(dict(rules()).items()):
            table.write("\t".join(" ".join(f"{ord(c):X}" for c in t) for t in (text, to)) + "\n")
        table.flush()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line for line in corpus() if line.strip()), model_writer=model,
            normalization_rule_tsv=table.name, model_type=model_type, character_coverage=0.99,
            minloglevel=2, num_threads=1, **options)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    proto.normalizer_spec.ClearField("normalization_rule_tsv")  # a name of this run's
    return proto


def sentence_pieces():
    """Files as models have them, by name."""
    pieces = dict(user_defined_symbols=["<sep>", "the", "ing", "\u2581\u2581"],
                  control_symbols=["<ctl>"])
    llama = sentence_piece("bpe", vocab_size=1000, byte_fallback=True,
                           remove_extra_whitespaces=False, **pieces)
    llama.normalizer_spec.ClearField("precompiled_charsmap")
    yield "llama", llama
    yield "bpe_spaces", sentence_piece("bpe", vocab_size=500, add_dummy_prefix=False)
    yield "t5", sentence_piece("unigram", vocab_size=700, **pieces)
    yield "unigram_bytes", sentence_piece("unigram", vocab_size=800, byte_fallback=True,
                                          remove_extra_whitespaces=False, unk_surface="<?>")


def by_sentence_piece(proto, rows):
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    ids = processor.encode([row.decode("utf-8", errors="replace") for row in rows])
    return {"ids": ids, "decoded": processor.decode(ids)}


def unigram():
    """T5's: the pieces of a model of SentencePiece's, and its table of characters."""
    proto = sentence_piece("unigram", vocab_size=900, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    table = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [
        added("<pad>", 0), added("</s>", 1), added("<unk>", 2)],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": table},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"}, metaspace()]},
        "post_processor": None, "decoder": metaspace(),
        "model": {"type": "Unigram", "unk_id": 2, "byte_fallback": False,
                  "vocab": [[p.piece, p.score] for p in proto.pieces]}}


def unigram_cases(file):
    vocab = file["model"]["vocab"]
    size = len(vocab)
    yield "T5", dict(post_processor={
        "type": "TemplateProcessing", "pair": [],
        "single": [{"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}})
    yield "XLM-R", dict(
        pre_tokenizer=metaspace(prepend_scheme="first"), normalizer={
            "type": "Sequence", "normalizers": [
                {"type": "Strip", "strip_left": False, "strip_right": True}, file["normalizer"]]},
        added_tokens=file["added_tokens"] + [added("<mask>", size, lstrip=True),
                                             added("tokenword", size + 1, special=False)])
    yield "bytes", dict(
        normalizer={"type": "NFKC"}, pre_tokenizer=metaspace(split=False),
        decoder=llama_decoder(),
        model=dict(byte_fallback=True, vocab=vocab + [[t, 0.0] for t in BYTES]))
    yield "no table", dict(normalizer={"type": "Sequence", "normalizers": [
        {"type": "Nmt"}, {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]})


def bert_normalizer(**options):
    return {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
            "strip_accents": None, "lowercase": True, **options}


def wordpiece():
    """BERT's, of both cases, so that a normalizer of each kind finds words."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    file = trained(tokenizer, trainers.WordPieceTrainer(
        vocab_size=900, special_tokens=special, show_progress=False, limit_alphabet=200))
    file["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    return file


def wordpiece_cases(file):
    cls, sep = (file["model"]["vocab"][t] for t in ("[CLS]", "[SEP]"))
    yield "BERT uncased", dict(
        normalizer=bert_normalizer(), post_processor={
            "type": "TemplateProcessing", "pair": [],
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                       {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]}
                               for t, i in (("[CLS]", cls), ("[SEP]", sep))}})
    yield "BERT cased", dict(
        normalizer=bert_normalizer(lowercase=False, strip_accents=False),
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": False},
        post_processor={"type": "BertProcessing", "cls": ["[CLS]", cls], "sep": ["[SEP]", sep]})
    yield "words", dict(
        normalizer=bert_normalizer(clean_text=False, handle_chinese_chars=False, strip_accents=False),
        pre_tokenizer={"type": "Whitespace"}, model=dict(max_input_chars_per_word=12),
        post_processor={"type": "RobertaProcessing", "cls": ["[CLS]", cls], "sep": ["[SEP]", sep],
                        "trim_offsets": True, "add_prefix_space": True})
    yield "splits", dict(
        normalizer={"type": "Sequence", "normalizers": [
            {"type": "NFKC"}, {"type": "Replace", "pattern": {"String": "a"}, "content": "ee"}]},
        pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "CharDelimiterSplit", "delimiter": " "},
            {"type": "Punctuation", "behavior": "MergedWithPrevious"}, {"type": "WhitespaceSplit"}]})


def with_parts(file, parts):
    file = json.loads(json.dumps(file))
    file["model"].update(parts.get("model", {}))
    file.update({k: v for k, v in parts.items() if k != "model"})
    return Tokenizer.from_str(json.dumps(file))


def result(name, base, parts, tokenizer, rows):
    given = [row.decode("utf-8", errors="replace") for row in rows]
    special = [tokenizer.encode(t).ids for t in given]
    tokenizer.encode_special_tokens = True
    plain = [tokenizer.encode(t, add_special_tokens=False).ids for t in given]
    return {"name": name, "base": base, "parts": parts, "special": special,
            "plain": {i: ids for i, ids in enumerate(plain) if ids != special[i]},
            "decoded": [tokenizer.decode(ids, skip_special_tokens=False) for ids in special]}


def write(name, value):
    with open(OUT / name, "w", encoding="utf-8") as file:
        json.dump(value, file, separators=(",", ":"), ensure_ascii=False)
        file.write("\n")


def blocks():
    """Those of planes that have characters."""
    for start in [*range(0, 0xD800, 0x100), *range(0xE000, 0x40000, 0x100),
                  *range(0xE0000, 0xE1000, 0x100)]:
        yield "".join(f"{chr(c)}1" for c in range(start, start + 0x100))


def fnv1a(texts):
    state = 14695981039346656037
    for text in texts:
        for byte in text.encode():
            state = (state ^ byte) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
    return f"{state:016x}"


def unicode_rows():
    """What each part makes of these code points, as a digest."""
    bert = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    for parts in [{"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"},
                  {"type": "Lowercase"}, {"type": "StripAccents"}, {"type": "Nmt"},
                  *({"type": "BertNormalizer", **bert, one: True} for one in bert),
                  {"type": "BertNormalizer", **bert, "strip_accents": None, "lowercase": True}]:
        tokenizer = with_parts(EMPTY, {"normalizer": parts})
        yield {"normalizer": parts,
               "digest": fnv1a(map(tokenizer.normalizer.normalize_str, blocks()))}
    for parts in [{"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"},
                  {"type": "Punctuation", "behavior": "Contiguous"}]:
        tokenizer = with_parts(EMPTY, {"pre_tokenizer": parts})
        yield {"pre_tokenizer": parts, "digest": fnv1a(
            word + "\n" for block in blocks()
            for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(block))}


EMPTY = json.loads(Tokenizer(models.BPE()).to_str())


def main():
    OUT.mkdir(exist_ok=True)
    rows = [t.encode() if isinstance(t, str) else t for t in texts()]
    write("texts.json", [row.hex() for row in rows])
    for name, make, cases in [("bpe", bpe, bpe_cases), ("unigram", unigram, unigram_cases),
                              ("wordpiece", wordpiece, wordpiece_cases)]:
        file = make()
        write(f"{name}.json", file)
        write(f"{name}.cases.json",
              [result(case, name, parts, with_parts(file, parts), rows)
               for case, parts in cases(file)])
    for name, proto in sentence_pieces():
        (OUT / f"{name}.model").write_bytes(proto.SerializeToString(deterministic=True))
        write(f"{name}.model.json", by_sentence_piece(proto, rows))
    write("unicode.json", list(unicode_rows()))


if __name__ == "__main__":
    main()
