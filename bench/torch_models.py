#!/usr/bin/env python3
"""Compares published architectures through stowage.from_torch with torch: with random weights, in
training mode, three steps of SGD beside torch's, both in double precision, and the arena of a
step in f32 with AdamW beside the most memory that torch holds in one.

    pip install torch torchvision timm transformers diffusers
    bench/torch_models.py [NAME]...

A row of Markdown for each: how long the import takes, how far the worst of three losses is from
torch's, which are reported in f32 (f32 itself would show little: deep batch norms of few images
magnify its rounding), the arena in MB, its share of torch's peak (MemTracker, fake tensors,
eager), the share of the smallest arena that recomputation reaches with up to 15 % more
operations, or the message that refuses it. Dropouts are set to 0.
"""

import copy
import sys
import time
import warnings

import torch
import transformers
from torch import nn
from torch.nn import functional as F

import stowage

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

BATCH, LENGTH, WORDS = 4, 128, 1000
RATE = 0.0078125  # the same number in any type
MORE_PERCENT = 15  # operations
TOKENS = dict(bos_token_id=1, eos_token_id=1, pad_token_id=0)
SMALL = dict(vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
             intermediate_size=128, max_position_embeddings=256)
GROUPS = dict(num_key_value_heads=2)


def words(length=LENGTH):
    return torch.randint(2, WORDS, (BATCH, length))


def of_transformers(kind, config, inputs=None, **options):
    config = getattr(transformers, config)
    return lambda: getattr(transformers, kind)(config(**options)), inputs or (
        lambda: {"input_ids": words()})


def causal(name, **options):
    return of_transformers(f"{name}ForCausalLM", f"{name}Config",
                           **{**SMALL, **TOKENS, **options})


def classifier(name, **options):
    return of_transformers(f"{name}ForSequenceClassification", f"{name}Config",
                           **{**SMALL, "num_labels": 4, **options})


def images(size):
    return lambda: {"pixel_values": torch.randn(BATCH, 3, size, size)}


def two_texts():
    return {"input_ids": words(), "decoder_input_ids": words(32)}


def of_torchvision(name, size=96, **options):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(weights=None, num_classes=4, **options)
    return make, lambda: torch.randn(BATCH, 3, size, size)


def of_timm(name, size=96):
    def make():
        import timm
        return timm.create_model(name, num_classes=4)
    return make, lambda: torch.randn(BATCH, 3, size, size)


class Denoiser(nn.Module):
    """A diffusion model by its loss: the noise that was added to an image is predicted."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image, noise, step, text=None):
        noisy = image + noise * (step[:, None, None, None] / 1000)
        more = (text,) if text is not None else ()
        return {"loss": F.mse_loss(self.net(noisy, step, *more).sample, noise)}


def of_diffusers(kind, text=None, **options):
    def make():
        import diffusers
        return Denoiser(getattr(diffusers, kind)(**options))

    def inputs():
        size, channels = options["sample_size"], options["in_channels"]
        made = {"image": torch.randn(BATCH, channels, size, size),
                "noise": torch.randn(BATCH, channels, size, size),
                "step": torch.arange(BATCH)}
        return {**made, "text": torch.randn(BATCH, *text)} if text else made
    return make, inputs


class Vae(nn.Module):
    """A variational autoencoder, whose noise is given: so that torch's can be the same."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.SiLU(),
                                     nn.Conv2d(32, 64, 4, 2, 1), nn.SiLU(), nn.Flatten(),
                                     nn.Linear(64 * 64, 64))
        self.decoder = nn.Sequential(nn.Linear(32, 64 * 64), nn.Unflatten(1, (64, 8, 8)),
                                     nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.SiLU(),
                                     nn.ConvTranspose2d(32, 3, 4, 2, 1))

    def forward(self, image, noise):
        mean, log_variance = self.encoder(image).chunk(2, 1)
        made = self.decoder(mean + (log_variance / 2).exp() * noise)
        apart = (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean() / 2
        return {"loss": F.mse_loss(made, image) + 1e-3 * apart}


class GraphNet(nn.Module):
    """Two rounds of messages along the edges of a graph, by index_add."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 64)
        self.head = nn.Linear(64, 8)

    def forward(self, nodes, ends):
        for layer in (self.first, self.second):
            sent = layer(nodes)
            nodes = F.relu(sent + torch.zeros_like(sent).index_add(0, ends[1], sent[ends[0]]))
        return self.head(nodes)


class TwoTowers(nn.Module):
    """Texts and images whose towers meet in a contrastive loss, as CLIP's do."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 64)
        self.text = nn.TransformerEncoderLayer(64, 4, 128, 0.0, batch_first=True)
        self.image = nn.Sequential(nn.Conv2d(3, 64, 8, 8), nn.GELU(), nn.AdaptiveAvgPool2d(1),
                                   nn.Flatten(), nn.Linear(64, 64))
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, ids, image):
        texts = F.normalize(self.text(self.words(ids)).mean(1), dim=-1)
        images = F.normalize(self.image(image), dim=-1)
        logits = self.scale.exp() * texts @ images.T
        labels = torch.arange(len(logits))
        return {"loss": (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2}


class Binary(nn.Module):
    """Layers whose weights are signs, trained straight through."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(3))
        self.head = nn.Linear(256, 8)

    def forward(self, x):
        for layer in self.layers:
            signs = layer.weight + (layer.weight.sign() - layer.weight).detach()
            x = F.hardtanh(F.linear(x, signs / 16, layer.bias))
        return self.head(x)


def edges():
    return {"nodes": torch.randn(256, 32), "ends": torch.randint(0, 256, (2, 1024))}


WITHOUT_HEADS = dict(aux_logits=False, init_weights=False)
MODELS = {
    "gpt2": of_transformers("GPT2LMHeadModel", "GPT2Config", n_layer=2, n_embd=64, n_head=4,
                            vocab_size=WORDS, n_positions=256, **TOKENS),
    "llama": causal("Llama", **GROUPS),
    "mistral": causal("Mistral", sliding_window=32, **GROUPS),
    "qwen2": causal("Qwen2", **GROUPS),
    "qwen3": causal("Qwen3", head_dim=16, **GROUPS),
    "gemma2": causal("Gemma2", head_dim=16, **GROUPS),
    "phi3": causal("Phi3", **GROUPS),
    "gpt_neox": causal("GPTNeoX"),
    "opt": of_transformers("OPTForCausalLM", "OPTConfig", vocab_size=WORDS, hidden_size=64,
                           num_hidden_layers=2, num_attention_heads=4, ffn_dim=128,
                           max_position_embeddings=256, word_embed_proj_dim=64, **TOKENS),
    "mamba": of_transformers("MambaForCausalLM", "MambaConfig",
                             lambda: {"input_ids": words(16)}, vocab_size=WORDS, hidden_size=64,
                             state_size=4, num_hidden_layers=2, **TOKENS),
    "bert": classifier("Bert"),
    "distilbert": of_transformers("DistilBertForSequenceClassification", "DistilBertConfig",
                                  vocab_size=WORDS, dim=64, n_layers=2, n_heads=4,
                                  hidden_dim=128, max_position_embeddings=256, num_labels=4),
    "roberta": classifier("Roberta", **TOKENS),
    "electra": classifier("Electra", embedding_size=32),
    "albert": classifier("Albert", embedding_size=32),
    "deberta": classifier("DebertaV2", relative_attention=True, position_buckets=32,
                          pos_att_type=["p2c", "c2p"]),
    "t5": of_transformers("T5ForConditionalGeneration", "T5Config", two_texts, vocab_size=WORDS,
                          d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
                          decoder_start_token_id=0),
    "bart": of_transformers("BartForConditionalGeneration", "BartConfig", two_texts,
                            vocab_size=WORDS, d_model=64, encoder_layers=2, decoder_layers=2,
                            encoder_attention_heads=4, decoder_attention_heads=4,
                            encoder_ffn_dim=128, decoder_ffn_dim=128,
                            max_position_embeddings=256, **TOKENS),
    "vit": of_transformers("ViTForImageClassification", "ViTConfig", images(32), hidden_size=64,
                           num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                           image_size=32, patch_size=4, num_labels=4),
    "swin": of_transformers("SwinForImageClassification", "SwinConfig", images(32),
                            image_size=32, patch_size=4, embed_dim=32, depths=[2, 2],
                            num_heads=[2, 2], window_size=4, num_labels=4),
    "mixtral": causal("Mixtral", num_local_experts=4, **GROUPS),
    "qwen3_moe": causal("Qwen3Moe", num_experts=4, num_experts_per_tok=2, head_dim=16,
                        moe_intermediate_size=32, **GROUPS),
    "gpt_oss": causal("GptOss", num_local_experts=4, num_experts_per_tok=2, head_dim=16,
                      sliding_window=32, **GROUPS),
    "resnet18": of_torchvision("resnet18"),
    "densenet121": of_torchvision("densenet121"),
    "efficientnet_v2_s": of_torchvision("efficientnet_v2_s"),
    "mobilenet_v3_small": of_torchvision("mobilenet_v3_small"),
    "regnet_y_400mf": of_torchvision("regnet_y_400mf"),
    "shufflenet_v2": of_torchvision("shufflenet_v2_x1_0"),
    "convnext_tiny": of_torchvision("convnext_tiny"),
    "swin_t": of_torchvision("swin_t"),
    "squeezenet": of_torchvision("squeezenet1_1"),
    "googlenet": of_torchvision("googlenet", **WITHOUT_HEADS),
    "resnext50": of_torchvision("resnext50_32x4d"),
    "vit_b_16": of_torchvision("vit_b_16", 224),
    "mobilenetv4": of_timm("mobilenetv4_conv_small"),
    "mixer_s32": of_timm("mixer_s32_224", 224),
    "resnetv2_50": of_timm("resnetv2_50"),
    "ghostnet": of_timm("ghostnet_100"),
    "levit_128": of_timm("levit_128", 224),
    "fastvit_t8": of_timm("fastvit_t8", 224),
    "unet2d": of_diffusers("UNet2DModel", sample_size=32, in_channels=3, out_channels=3,
                           block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
                           down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                           up_block_types=("AttnUpBlock2D", "UpBlock2D")),
    "unet2d_condition": of_diffusers(
        "UNet2DConditionModel", text=(16, 64), sample_size=16, in_channels=4, out_channels=4,
        block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
        cross_attention_dim=64, attention_head_dim=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")),
    "vae": (Vae, lambda: {"image": torch.randn(BATCH, 3, 32, 32),
                          "noise": torch.randn(BATCH, 32)}),
    "gnn": (GraphNet, edges),
    "two_towers": (TwoTowers, lambda: {"ids": words(32),
                                       "image": torch.randn(BATCH, 3, 32, 32)}),
    "straight_through": (Binary, lambda: torch.randn(64, 256)),
}


def call(net, inputs):
    """What a module is judged by: its logits, or its own loss."""
    output = net(**inputs) if isinstance(inputs, dict) else net(inputs)
    if isinstance(output, dict) and set(output) == {"loss"}:
        return output["loss"]
    return output.logits if hasattr(output, "logits") else output


def without_dropout(net):
    for part in net.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, float) and ("drop" in name or (
                    name == "p" and type(part).__name__ in ("Dropout", "StochasticDepth"))):
                setattr(part, name, 0.0)
    return net


def loss_of(net, inputs, labels):
    logits = call(net, inputs)
    if not logits.shape:
        return logits
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def of_doubles(net):
    """A copy, whose experts, if it has some, take doubles, as torch's grouped products do not."""
    made = copy.deepcopy(net)
    if hasattr(made, "set_experts_implementation"):
        made.set_experts_implementation("eager")
    return made


def imported(net, inputs):
    if isinstance(inputs, dict):
        with torch.no_grad():
            output = of_doubles(net)(**inputs)
        loss = ("cross_entropy" if isinstance(output, torch.Tensor)
                else "loss" if set(output) == {"loss"} else "cross_entropy:logits")
        return stowage.from_torch(net, kwargs=inputs, loss=loss, check=False)
    return stowage.from_torch(net, inputs, check=False)


def worst_loss(net, inputs, labels):
    """How far the worst of three losses is from torch's, both in f64."""
    net = copy.deepcopy(net).double()
    inputs = torch.utils._pytree.tree_map(
        lambda x: x.double() if x.is_floating_point() else x, inputs)
    given = list(inputs.values()) if isinstance(inputs, dict) else [inputs]
    made, worst = imported(net, inputs), 0.0
    net = of_doubles(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    with stowage.Trainer(made, optimizer="sgd", lr=RATE, optimizations="none",
                         device="cpu") as trainer:
        for _ in range(3):
            optimizer.zero_grad()
            loss = loss_of(net, inputs, labels)
            loss.backward()
            optimizer.step()
            made_loss = trainer.step(*given, *([] if labels is None else [labels]))
            worst = max(worst, abs(made_loss - loss.item())
                        / max(1, abs(loss.item())))
    return worst


def peak_of_torch(make, examples):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    with FakeTensorMode():
        net, inputs = without_dropout(make().train()), examples()
        optimizer = torch.optim.AdamW(net.parameters(), foreach=False)
        made = call(net, inputs)
        labels = torch.zeros(made.shape[:-1], dtype=torch.long) if made.shape else None
        tracker = MemTracker()
        tracker.track_external(net, optimizer, *([] if labels is None else [labels]),
                               *torch.utils._pytree.tree_leaves(inputs))
        with tracker:
            for step in range(2):
                if step:
                    tracker.reset_mod_stats()
                loss_of(net, inputs, labels).backward()
                optimizer.step()
                optimizer.zero_grad()
        return max(each["Total"] for each in tracker.get_tracker_snapshot("peak").values())


def smallest_arena(model, given):
    """The smallest that recomputation alone reaches with up to 15 % more operations, to a
    hundredth of the arena as it is."""
    low, high = 0, given
    while high - low > given // 100:
        budget = (low + high) // 2
        try:
            plan = stowage.plan(model, optimizer="adamw", budget=budget, device="cpu",
                                optimizations={"recompute": "auto", "micro_batches": 1,
                                               "offload": "none"})
        except stowage.BudgetTooSmall:
            low = budget
            continue
        if plan.extra_percent <= MORE_PERCENT:
            high = plan.arena_bytes
        else:
            low = budget
    return high


def row(name):
    make, examples = MODELS[name]
    torch.manual_seed(0)
    inputs = examples()
    net = without_dropout(make().train())
    start = time.perf_counter()
    try:
        model = imported(net, inputs)
        plan = stowage.plan(model, optimizer="adamw", optimizations="none", device="cpu")
    except stowage.StowageError as error:
        return f"| {name} | | | | | refused: {str(error).splitlines()[0][:160]} |"
    seconds = time.perf_counter() - start
    with torch.no_grad():
        logits = call(copy.deepcopy(net), inputs)
    labels = torch.randint(0, logits.shape[-1], logits.shape[:-1]) if logits.shape else None
    worst = worst_loss(net, inputs, labels)
    least = smallest_arena(model, plan.arena_bytes)
    try:
        peak = peak_of_torch(make, examples)
        shares = f"{plan.arena_bytes / peak:.2f} | {least / peak:.2f}"
    except Exception as error:  # what torch's tracker does not take
        shares = f"{type(error).__name__} | {least / 1e6:.1f} MB"
    return f"| {name} | {seconds:.1f} | {worst:.0e} | {plan.arena_bytes / 1e6:.1f} | {shares} |"


def main():
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, batch {BATCH}\n")
    print("| model | import, s | losses | arena, MB | of torch's peak | with recomputation |")
    print("|---|---|---|---|---|---|")
    for name in sys.argv[1:] or MODELS:
        print(row(name), flush=True)


if __name__ == "__main__":
    main()
