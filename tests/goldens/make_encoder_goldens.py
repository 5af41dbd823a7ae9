#!/usr/bin/env python3
"""Writes what tests/train/classifier_test.cc compares with: tiny encoders that classify
texts, as Hugging Face's transformers and PEFT train them.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install torch transformers peft safetensors tokenizers
    /tmp/venv/bin/python tests/goldens/make_encoder_goldens.py

Of each model: encoders/<name>/ is its folder, and encoders/training.csv has, a line each,
the logits of a batch of 3 before training, and the losses of four steps of AdamW at 0.01
without decay, in double: of all weights, and of adapters of rank 4 and alpha 6 with the
head; of bert the logits with the adapter in encoders/bert-adapter; and the rates of the dropouts of a training step, in order. Example b has 9, 5 and 7
tokens; its token t is 5 + (7 t + 11 b) mod 27, with type 1 from token 3 on, and its label is b
mod 3. bert-base and roberta-base are bare encoders, without a head but for the pooler. bert,
roberta and bert-base have tokenizers, whose encodings of texts and pairs are in
encodings.json; the evaluation of bert is that of every tenth row of rows.tsv: loss, accuracy, macro
F1.
"""

import json
import pathlib
import shutil

import peft
import tokenizers
import torch
import transformers as hf

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "encoders"
LENGTHS, SEQ = [9, 5, 7], 9
SIZES = dict(vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
             intermediate_size=24, max_position_embeddings=16, num_labels=3,
             hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.2,
             classifier_dropout=0.3)
MODELS = {
    "bert": lambda: hf.BertForSequenceClassification(hf.BertConfig(**SIZES)),
    "roberta": lambda: hf.RobertaForSequenceClassification(hf.RobertaConfig(
        **SIZES, type_vocab_size=1, pad_token_id=1)),
    "distilbert": lambda: hf.DistilBertForSequenceClassification(hf.DistilBertConfig(
        vocab_size=32, dim=16, n_layers=2, n_heads=2, hidden_dim=24,
        max_position_embeddings=16, num_labels=3, dropout=0.1, attention_dropout=0.2,
        seq_classif_dropout=0.3)),
    "electra": lambda: hf.ElectraForSequenceClassification(hf.ElectraConfig(
        **SIZES, embedding_size=8)),
}
TARGETS = {"distilbert": ["q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"]}
HEADS = {"bert": ["pooler", "classifier"], "distilbert": ["pre_classifier", "classifier"]}


def batch(name):
    ids = torch.tensor([[5 + (7 * t + 11 * b) % 27 if t < n else 1 for t in range(SEQ)]
                        for b, n in enumerate(LENGTHS)])
    mask = torch.tensor([[int(t < n) for t in range(SEQ)] for n in LENGTHS])
    inputs = dict(input_ids=ids, attention_mask=mask, labels=torch.tensor([0, 1, 2]))
    if name in ("bert", "electra"):
        inputs["token_type_ids"] = torch.tensor(
            [[int(3 <= t < n) for t in range(SEQ)] for n in LENGTHS])
    return inputs


def spread(model, seed):
    """Weights that make every part of the model count."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=random) * 0.1)
            p.copy_(p.half().float())
    return model


def losses(model, name):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.01, weight_decay=0.0)
    result = []
    for _ in range(4):
        loss = model(**batch(name)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result


def dropouts(folder):
    """The rates of all dropouts of a training step, in order."""
    rates = []

    def record(x, p=0.5, training=True, inplace=False):
        if training:
            rates.append(p)
        return x

    whole = torch.nn.functional.dropout
    torch.nn.functional.dropout = record
    model = hf.AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager").train()
    model(**batch(folder.name))
    torch.nn.functional.dropout = whole
    return rates


WORDS = ["the", "film", "is", "good", "bad", "fine", "dull", "long", "##er", "##s", "a", "and",
         "not", "it", "rain", "street", "wet", ".", ",", "!", "b", "c", "##t", "##a", "very", "so",
         "no"]


def word_piece():
    """32 tokens, of which the texts of the goldens are made."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(
        {word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(vocabulary[:5])
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def byte_level():
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *"abdefgilmnorstuw.", "\u0120", "\u0120t",
                  "er", "oo", "in", "go", "is", "he", "ai", "ll"]
    merges = [("\u0120", "t"), ("e", "r"), ("o", "o"), ("i", "n"), ("g", "o"), ("i", "s"),
              ("a", "i"), ("l", "l")]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(
        {word: i for i, word in enumerate(vocabulary)}, merges, unk_token="<unk>"))
    tokenizer.add_special_tokens(vocabulary[:4])
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.post_processor = tokenizers.processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer


TEXTS = [("The film is good.", None), ("It rains.", "The street is wet."),
         ("a good film and so very long a film and not dull", None),
         ("a good film and so very long a film", "it is not dull"),
         ("not dull", "a good film and so very long a film and it is"),
         ("a good film and so very long", "it is not good and not long ."),
         ("a good film and so very long", "it is not good and not long"), ("", "so"), ("no", "")]


def write_tokenizers():
    encodings = []
    for name, make in {"bert": word_piece, "bert-base": word_piece,
                       "roberta": byte_level}.items():
        tokenizer = make()
        tokenizer.save(str(OUT / name / "tokenizer.json"))
        of = {"bert": "Bert", "bert-base": "Bert", "roberta": "Roberta"}[name]
        special = ({"pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>"}
                   if of == "Roberta" else
                   {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"})
        (OUT / name / "tokenizer_config.json").write_text(json.dumps(
            {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 14, **special})
            + "\n")
        for longest in 14, 9, 8:
            tokenizer.enable_truncation(longest, strategy="longest_first")
            for first, second in TEXTS:
                encoded = tokenizer.encode(first, second)
                encodings.append(dict(tokenizer=name, longest=longest, text=first, pair=second,
                                      ids=encoded.ids, types=encoded.type_ids))
    (OUT / "encodings.json").write_text(
        "[\n" + ",\n".join(json.dumps(e) for e in encodings if e["tokenizer"] != "bert-base")
        + "\n]\n")


def save(model, folder):
    shutil.rmtree(folder, ignore_errors=True)
    model.half().save_pretrained(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config.pop("transformers_version", None)
    path.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def adapted(model, name):
    """Adapters that begin as ours do: lora_B of zeros; lora_A by a formula."""
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=4, lora_alpha=6, lora_dropout=0.0, task_type="SEQ_CLS",
        target_modules=TARGETS.get(name, r".*\.layer\.\d+\..*(query|key|value|dense)"),
        modules_to_save=HEADS.get(name, ["classifier"])))
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "lora_A" in key:
                p.copy_(torch.arange(p.numel()).reshape(p.shape) % 7 * 0.05 - 0.15)
    return model


def save_adapter(load):
    """An adapter of BERT's queries with the head that PEFT trains if nothing else is said: the
    classifier without the pooler. Returns the logits of the batch."""
    model = peft.get_peft_model(load(), peft.LoraConfig(
        r=2, lora_alpha=3, task_type="SEQ_CLS", target_modules=["query"]))
    random = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.copy_(torch.randn(p.shape, generator=random) * 0.3)
    folder = OUT / "bert-adapter"
    shutil.rmtree(folder, ignore_errors=True)
    logits = model.eval()(**batch("bert")).logits.flatten().tolist()
    model.float().save_pretrained(folder)
    (folder / "README.md").unlink()
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "bert"
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    return logits


def evaluate(model):
    """Writes 100 rows with labels; returns the mean loss of every tenth, accuracy and macro F1."""
    rows = [(" ".join(WORDS[(3 * i + i * i + 5 * k) % 22] for k in range(2 + i % 9)).replace("##", ""),
             (i * i + i // 7) % 3) for i in range(100)]
    (OUT / "rows.tsv").write_text(
        "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    tokenizer = word_piece()
    loss, pairs = 0, []
    for text, label in rows[9::10]:
        logits = model(torch.tensor([tokenizer.encode(text).ids])).logits[0]
        loss += -logits.log_softmax(-1)[label].item() / 10
        pairs.append((label, logits.argmax().item()))
    f1 = []
    for label in sorted({label for pair in pairs for label in pair}):
        both = sum(pair == (label, label) for pair in pairs)
        precision = both / max(1, sum(guess == label for _, guess in pairs))
        recall = both / max(1, sum(truth == label for truth, _ in pairs))
        f1.append(2 * precision * recall / max(precision + recall, 1e-9))
    return [loss, sum(truth == guess for truth, guess in pairs) / 10, sum(f1) / len(f1)]


def main():
    OUT.mkdir(exist_ok=True)
    with open(OUT / "training.csv", "w", encoding="ascii") as out:
        def write(name, what, numbers):
            out.write(f"{name},{what},{','.join(f'{v:.9g}' for v in numbers)}\n")

        for seed, (name, make) in enumerate(MODELS.items()):
            torch.manual_seed(seed)
            save(spread(make(), seed), OUT / name)

            def load():
                return hf.AutoModelForSequenceClassification.from_pretrained(
                    OUT / name, dtype=torch.float64).eval()

            write(name, "logits", load()(**batch(name)).logits.flatten().tolist())
            write(name, "losses", losses(load(), name))
            write(name, "losses of adapters", losses(adapted(load(), name).eval(), name))
            write(name, "dropouts", dropouts(OUT / name))
            if name == "bert":
                write(name, "logits of an adapter", save_adapter(load))
                write(name, "evaluation", evaluate(load()))
    torch.manual_seed(9)
    config = hf.BertConfig(**SIZES)
    config.num_labels = 2
    save(hf.BertModel(config), OUT / "bert-base")
    torch.manual_seed(10)
    save(hf.RobertaModel(hf.RobertaConfig(**SIZES, type_vocab_size=1, pad_token_id=1)),
         OUT / "roberta-base")
    write_tokenizers()


if __name__ == "__main__":
    main()
