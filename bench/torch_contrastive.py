"""A contrastive loss over a large batch in the memory of a small one, by gradient caching.

    bench/torch_contrastive.py [--batch 1024] [--micro-batches 32] [--tokens 32]

An encoder of MiniLM's size (6 layers, width 384, 30,522 words) embeds queries and documents;
the loss is InfoNCE over all pairs of the batch. Prints the arena of the batch whole, in
micro-batches, and of a batch of one micro-batch's size; then, for an encoder of two layers
in f64, the largest difference of any param after a step from torch's step of the whole batch.
"""

import argparse
import warnings

import torch
import torch.nn.functional as F
from transformers import BertConfig, BertModel

import stowage

warnings.filterwarnings("ignore")


class Contrastive(torch.nn.Module):
    """InfoNCE of mean-pooled, normalized embeddings, with a trained temperature."""

    def __init__(self, **sizes):
        super().__init__()
        config = BertConfig(hidden_dropout_prob=0, attention_probs_dropout_prob=0,
                            max_position_embeddings=512, **sizes)
        self.encoder = BertModel(config, add_pooling_layer=False)
        self.scale = torch.nn.Parameter(torch.tensor(3.0))

    def embed(self, ids):
        hidden = self.encoder(ids).last_hidden_state
        return F.normalize(hidden.mean(1), dim=-1)

    def forward(self, queries, documents):
        scores = self.embed(queries) @ self.embed(documents).T * self.scale.exp()
        labels = torch.arange(queries.shape[0])
        return (F.cross_entropy(scores, labels) + F.cross_entropy(scores.T, labels)) / 2


def pairs(batch, tokens, words):
    torch.manual_seed(1)
    return tuple(torch.randint(0, words, (batch, tokens)) for _ in range(2))


def arenas(batch, micro_batches, tokens):
    net = Contrastive(hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
                      intermediate_size=1536)
    part = batch // micro_batches
    for name, size, count in ((f"batch {part}", part, 1), (f"batch {batch}", batch, 1),
                              (f"batch {batch} in {micro_batches}", batch, micro_batches)):
        model = stowage.from_torch(net, pairs(size, tokens, 1000), loss="output", check=False)
        plan = stowage.plan(model, optimizer="adamw", device="cpu", threads=2,
                            optimizations={"micro_batches": count})
        print(f"{name:24} {plan.arena_bytes / 1e6:10.1f} MB", flush=True)


def difference(batch=32, micro_batches=8, tokens=12):
    words, lr = 200, 0.1
    net = Contrastive(vocab_size=words, hidden_size=64, num_hidden_layers=2,
                      num_attention_heads=4, intermediate_size=128).double()
    inputs = pairs(batch, tokens, words)
    model = stowage.from_torch(net, inputs, loss="output")
    with stowage.Trainer(model, optimizer="sgd", lr=lr, device="cpu", threads=2,
                         optimizations={"micro_batches": micro_batches}) as trainer:
        loss = trainer.step(*(each.numpy() for each in inputs))
        trained = trainer.state_dict()
    expected = net(*inputs)
    expected.backward()
    largest = max((p - lr * p.grad - torch.from_numpy(trained[name])).abs().max().item()
                  for name, p in net.named_parameters())
    print(f"batch {batch} in {micro_batches}, f64: loss {loss:.9f}, torch's "
          f"{expected.item():.9f}; params differ by at most {largest:.1e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--micro-batches", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=32)
    options = parser.parse_args()
    difference()
    arenas(options.batch, options.micro_batches, options.tokens)
