"""Mixtures of experts of transformers: three steps are those of torch in double precision,
where each expert takes its tokens one after the other. Runs where both are installed
(tests/using/torch.sh)."""

import copy
import importlib.util
import unittest

import support

import stowage

RATE = 0.0625  # the same number in any type
WORDS, LENGTH = 100, 24
SMALL = dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, intermediate_size=48, max_position_embeddings=64,
             bos_token_id=1, eos_token_id=1, pad_token_id=0, num_experts_per_tok=2)
MODELS = {
    "Mixtral": dict(num_local_experts=3),
    "Qwen3Moe": dict(num_experts=4, moe_intermediate_size=16, head_dim=8, decoder_sparse_step=1),
    "GptOss": dict(num_local_experts=4, head_dim=8, sliding_window=8),
    "DeepseekV3": dict(n_routed_experts=4, n_group=1, topk_group=1, moe_intermediate_size=16,
                       q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8,
                       v_head_dim=8, first_k_dense_replace=1, num_key_value_heads=4),
    "GraniteMoe": dict(num_local_experts=3),
}


@unittest.skipUnless(importlib.util.find_spec("torch") and
                     importlib.util.find_spec("transformers"), "torch is not installed")
class TorchExpertsTest(support.TestCase):
    def test_three_steps_are_those_of_torch(self):
        import torch
        import transformers
        for name, options in MODELS.items():
            with self.subTest(name):
                torch.manual_seed(0)
                config = getattr(transformers, name + "Config")(**{**SMALL, **options})
                net = getattr(transformers, name + "ForCausalLM")(config).double().train()
                ids = torch.randint(2, WORDS, (2, LENGTH))
                labels = torch.randint(0, WORDS, (2, LENGTH))
                model = stowage.from_torch(net, kwargs={"input_ids": ids},
                                           loss="cross_entropy:logits", check=False)
                # torch's own grouped products take no doubles.
                net = copy.deepcopy(net)
                net.set_experts_implementation("eager")
                optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
                with stowage.Trainer(model, optimizer="sgd", lr=RATE,
                                     optimizations="none") as trainer:
                    for _ in range(3):
                        optimizer.zero_grad()
                        logits = net(input_ids=ids, use_cache=False).logits
                        loss = torch.nn.functional.cross_entropy(
                            logits.reshape(-1, WORDS), labels.reshape(-1))
                        loss.backward()
                        optimizer.step()
                        self.assertAlmostEqual(trainer.step(ids, labels), loss.item(), places=5)


if __name__ == "__main__":
    unittest.main()
