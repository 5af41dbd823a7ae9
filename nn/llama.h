#ifndef STOWAGE_NN_LLAMA_H_
#define STOWAGE_NN_LLAMA_H_

// Llama (Touvron et al. 2023) at any size: token embedding, pre-norm blocks of causal
// attention with rotary positions, whose keys and values serve several heads each, and
// of a gated feed-forward part, a last norm, an output layer of its own or the
// embedding transposed. Norms have no mean, and nothing has a bias.
//
// Params carry the names of Hugging Face's models: "model.embed_tokens.weight"
// (vocabulary, width), "model.layers.<i>.self_attn.q_proj.weight" (width, width), ...,
// "model.norm.weight", "lm_head.weight" (vocabulary, width). As everywhere here, a
// linear layer's weight is (in, out), where theirs is (out, in); the head, which is
// looked at by rows as the embedding is, lies as theirs.
//
//   Result<Graph> graph = BuildLlama({.name = "tiny", .layers = 2, .heads = 4,
//                                     .kv_heads = 2, .width = 32, .hidden = 88,
//                                     .vocabulary = 40, .max_seq = 24},
//                                    ModelPurpose::kTrain, {.batch = 3, .seq = 16});

#include <cstdint>
#include <string>

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
};

/// The graph of a Llama, with the inputs, outputs, dropout and chunks of logits of
/// nn/gpt.h. Initial values are normal with deviation 0.02, those of projections into
/// the residual stream with 0.02 / sqrt(2 layers). Errors: batch or seq absent, below 1,
/// or seq above max_seq; a size of `config` below 1; heads that do not divide the width
/// into even parts, kv_heads that do not divide the heads; dropout outside [0, 1); an
/// integer dtype; a negative logit_chunk.
Result<Graph> BuildLlama(const LlamaConfig& config, ModelPurpose purpose,
                         const ModelOptions& options);

/// Elements of all params of that Llama: with width C, vocabulary V, hidden F and K
/// elements of the keys of a token, V C (twice if the head is not tied) +
/// layers (2 C^2 + 2 C K + 3 C F + 2 C) + C.
int64_t LlamaParameterCount(const LlamaConfig& config);

}  // namespace stowage

#endif  // STOWAGE_NN_LLAMA_H_
