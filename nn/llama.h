#ifndef STOWAGE_NN_LLAMA_H_
#define STOWAGE_NN_LLAMA_H_

// Llama (Touvron et al. 2023) at any size: token embedding, pre-norm blocks of causal
// attention with rotary positions, whose keys and values serve several heads each, and
// of a gated feed-forward part, a last norm, an output layer of its own or the
// embedding transposed. Norms have no mean, and nothing has a bias, unless the config
// says so: Mistral (Jiang et al. 2023), Qwen 2 and 3 (Yang et al. 2024, 2025) and Llama
// 3 are the same but for a few of its fields, which nn/pretrained.h takes from files.
//
// Params carry the names of Hugging Face's models: "model.embed_tokens.weight"
// (vocabulary, width), "model.layers.<i>.self_attn.q_proj.weight" (width, width), ...,
// "model.norm.weight", "lm_head.weight" (vocabulary, width). As everywhere here, a
// linear layer's weight is (in, out), where theirs is (out, in), unless `out_in` asks
// for theirs; the head, which is looked at by rows as the embedding is, lies as theirs.
//
//   Result<Graph> graph = BuildLlama({.name = "tiny", .layers = 2, .heads = 4,
//                                     .kv_heads = 2, .width = 32, .hidden = 88,
//                                     .vocabulary = 40, .max_seq = 24},
//                                    ModelPurpose::kTrain, {.batch = 3, .seq = 16});

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/model_options.h"

namespace stowage {

struct LlamaConfig {
  std::string name;
  int64_t layers = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;  // of keys and values; they divide the heads
  int64_t width = 1;
  int64_t hidden = 1;  // of the feed-forward part
  int64_t vocabulary = 1;
  int64_t max_seq = 1;
  double rope_base = 10000;
  double eps = 1e-5;
  bool tied_head = false;
  int64_t head_size = 0;  // elements of a head; 0 for width / heads
  /// Keys that a query reads, itself included; 0 for all before it.
  int64_t window = 0;
  bool qkv_bias = false;  // of the projections to queries, keys and values
  bool out_bias = false;  // of the projection behind attention
  bool mlp_bias = false;  // of the feed-forward part
  /// Queries and keys of each head are normalized before they turn, by params
  /// "model.layers.<i>.self_attn.q_norm.weight" (head_size) and "k_norm.weight".
  bool qk_norm = false;
  /// Of a pair of elements of a head, by how much slower it turns; empty for none
  /// (nn/scaled_rope.h).
  std::vector<double> rope_factors = {};
  double rope_gain =
      1;  // how much longer queries and keys become, where they turn so
  bool out_in = false;  // linear layers' weights lie (out, in)
};

/// The graph of a Llama, with the inputs, outputs, dropout and chunks of logits of
/// nn/gpt.h. Initial values are normal with deviation 0.02, those of projections into
/// the residual stream with 0.02 / sqrt(2 layers). Errors: batch or seq absent, below 1,
/// or seq above max_seq; a size of `config` below 1; an odd head_size, heads that do not
/// divide the width where none is given, kv_heads that do not divide the heads; a
/// negative window; rope_factors that are not one positive number a pair, a rope_gain that is none; dropout outside
/// [0, 1); an integer dtype; a negative logit_chunk.
Result<Graph> BuildLlama(const LlamaConfig& config, ModelPurpose purpose,
                         const ModelOptions& options);

/// Elements of all params of that Llama: with width C, vocabulary V, hidden F, and Q and
/// K elements of the queries and keys of a token, V C (twice if the head is not tied) +
/// layers (2 C Q + 2 C K + 3 C F + 2 C) + C, and what biases and norms of heads have.
int64_t LlamaParameterCount(const LlamaConfig& config);

}  // namespace stowage

#endif  // STOWAGE_NN_LLAMA_H_
