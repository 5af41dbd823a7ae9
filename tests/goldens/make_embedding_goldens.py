#!/usr/bin/env python3
"""Writes what tests of models that embed texts compare with: tiny models, as
sentence-transformers trains and evaluates them.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install sentence-transformers
    /tmp/venv/bin/python tests/goldens/make_embedding_goldens.py

embeddings/<name>/ is a folder of sentence-transformers: bert pools by mean and normalizes, and
has prompts; roberta takes the first token, and its similarity is the dot product; qwen3 is a
decoder that takes the last token. embeddings/training.csv has, a line each, in double:

  <name>,embeddings,...         of a batch of 3 queries, each with 2 documents
  <name>,<loss>,...             the losses of three steps of AdamW at 0.01 without decay by
                                MultipleNegativesRankingLoss: "pairs" without the second
                                document, "negatives" with it, "symmetric" of pairs in both
                                directions, "adapters" of pairs by adapters of rank 4
  bert,evaluation,...           loss, recall at 1 and mean reciprocal rank of every tenth row
                                of rows.jsonl, encoded by encode_query and encode_document

Text k of example b has 4 + (2 b + 3 k) mod 5 tokens; its token t is
5 + (7 t + 11 b + 3 k) mod 27.
"""

import json
import pathlib
import shutil

import peft
import sentence_transformers as st
import torch
import transformers as hf
from sentence_transformers import losses, models
from sentence_transformers.util import dot_score

from make_encoder_goldens import WORDS, byte_level, spread, word_piece

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "embeddings"
BATCH, TEXTS = 3, 3
SIZES = dict(vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
             intermediate_size=24, max_position_embeddings=16, hidden_dropout_prob=0.1,
             attention_probs_dropout_prob=0.2)
MODELS = {
    "bert": lambda: hf.BertModel(hf.BertConfig(**SIZES)),
    "roberta": lambda: hf.RobertaModel(hf.RobertaConfig(
        **SIZES, type_vocab_size=1, pad_token_id=1)),
    "qwen3": lambda: hf.Qwen3Model(hf.Qwen3Config(
        vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, intermediate_size=24, max_position_embeddings=16,
        use_sliding_window=False)),
}
POOLING = {"bert": "mean", "roberta": "cls", "qwen3": "lasttoken"}
PROMPTS = {"bert": {"query": "film :", "document": "so ", "other": "b"}}
SIMILARITY = {"roberta": "dot"}
ALL_LINEAR = r"(?!pooler).*(query|key|value|dense|_proj)"


def make(name, seed):
    """Saves a model with its tokenizer as a folder of sentence-transformers."""
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    parts = OUT / "parts"
    torch.manual_seed(seed)
    spread(MODELS[name](), seed).half().save_pretrained(parts)
    tokenizer = byte_level() if name == "roberta" else word_piece()
    special = (dict(pad_token="<pad>", cls_token="<s>", sep_token="</s>") if name == "roberta"
               else dict(pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"))
    hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=14,
                               **special).save_pretrained(parts)
    modules = [models.Transformer(str(parts)),
               models.Pooling(16, pooling_mode=POOLING[name])]
    if name == "bert":
        modules.append(models.Normalize())
    model = st.SentenceTransformer(modules=modules, prompts=PROMPTS.get(name), device="cpu",
                                   similarity_fn_name=SIMILARITY.get(name))
    model.save_pretrained(str(folder), create_model_card=False)
    shutil.rmtree(parts)
    for path in folder.glob("*.json"):
        settings = json.loads(path.read_text())
        if isinstance(settings, dict):
            settings.pop("transformers_version", None)
            settings.pop("__version__", None)
            path.write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n")


def load(name):
    return st.SentenceTransformer(str(OUT / name), device="cpu",
                                  model_kwargs={"dtype": torch.float64}).eval()


def features():
    """The batch: of queries, of their documents, and of other documents."""
    batch = []
    for k in range(TEXTS):
        lengths = [4 + (2 * b + 3 * k) % 5 for b in range(BATCH)]
        ids = torch.tensor([[5 + (7 * t + 11 * b + 3 * k) % 27 if t < n else 1
                             for t in range(max(lengths))] for b, n in enumerate(lengths)])
        mask = torch.tensor([[int(t < n) for t in range(max(lengths))] for n in lengths])
        batch.append(dict(input_ids=ids, attention_mask=mask))
    return batch


def train(model, name, texts=2, **options):
    """The losses of three steps."""
    if SIMILARITY.get(name) == "dot":
        options["similarity_fct"] = dot_score
    loss_of = losses.MultipleNegativesRankingLoss(model, **options)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.01, weight_decay=0.0)
    result = []
    for _ in range(3):
        loss = loss_of([dict(each) for each in features()[:texts]], None)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result


def adapted(model):
    """Adapters that begin as ours do: lora_B of zeros; lora_A by a formula."""
    transformer = model[0].model if hasattr(model[0], "model") else model[0].auto_model
    peft.inject_adapter_in_model(
        peft.LoraConfig(r=4, lora_alpha=6, target_modules=ALL_LINEAR), transformer)
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.requires_grad_("lora_" in key)
            if "lora_A" in key:
                p.copy_(torch.arange(p.numel()).reshape(p.shape) % 7 * 0.05 - 0.15)
    return model


def write_rows():
    """50 rows, of which every tenth is held out; some have more negatives than others."""
    text = lambda i, n: " ".join(WORDS[(3 * i + i * i + 5 * k) % 22] for k in range(n)).replace(
        "##", "")
    rows = []
    for i in range(50):
        negatives = [text(i + 100 + j, 2 + (i + j) % 4) for j in range(1 + i % 2)]
        rows.append(dict(query=text(i, 2 + i % 3), pos=[text(i, 4 + i % 5)], neg=negatives))
    (OUT / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def evaluate(model, rows):
    rows = rows[9::10]
    queries = model.encode_query([row["query"] for row in rows], convert_to_tensor=True)
    documents = model.encode_document([row["pos"][0] for row in rows]
                                      + [row["neg"][0] for row in rows], convert_to_tensor=True)
    scores = st.util.cos_sim(queries, documents)
    own = scores.diagonal()
    ranks = (scores >= own[:, None]).sum(1).double()
    loss = torch.nn.functional.cross_entropy(20 * scores, torch.arange(len(rows)))
    return [loss.item(), (ranks == 1).double().mean().item(), (1 / ranks).mean().item()]


def main():
    OUT.mkdir(exist_ok=True)
    rows = write_rows()
    with open(OUT / "training.csv", "w", encoding="ascii") as out:
        def write(name, what, numbers):
            out.write(f"{name},{what},{','.join(f'{v:.9g}' for v in numbers)}\n")

        for seed, name in enumerate(MODELS):
            make(name, seed + 20)
            model = load(name)
            embeddings = [model(dict(each))["sentence_embedding"] for each in features()]
            write(name, "embeddings", torch.stack(embeddings, 1).flatten().tolist())
            write(name, "pairs", train(load(name), name))
            write(name, "negatives", train(load(name), name, texts=3))
            write(name, "symmetric", train(
                load(name), name, directions=("query_to_doc", "doc_to_query"),
                partition_mode="per_direction"))
            write(name, "adapters", train(adapted(load(name)), name))
            if name == "bert":
                write(name, "evaluation", evaluate(model, rows))


if __name__ == "__main__":
    main()
