#ifndef STOWAGE_NN_GPT_H_
#define STOWAGE_NN_GPT_H_

// GPT-2 (Radford et al. 2019) at any size: token and position embeddings, pre-norm transformer
// blocks, a final norm, and the transposed token embedding as output layer.
//
// Params have GPT-2's names: "wte" (vocabulary, width), "wpe" (max_seq,
// width), "h.<i>.ln_1.weight", "h.<i>.attn.c_attn.weight" (width, 3 width),
// ..., "ln_f.bias". Initial values are GPT-2's too: normal with deviation 0.02,
// the projections into the residual stream with 0.02 / sqrt(2 layers).
//
//   Result<Graph> graph = BuildGpt({.name = "tiny", .layers = 2, .heads = 2,
//                                   .width = 32, .vocabulary = 40,
//                                   .max_seq = 16},
//                                  ModelPurpose::kTrain,
//                                  {.batch = 3, .seq = 16});

#include <cstdint>
#include <string>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/model_options.h"

namespace stowage {

struct GptConfig {
  std::string name;
  int64_t layers = 1;
  int64_t heads = 1;
  int64_t width = 1;
  int64_t vocabulary = 1;
  int64_t max_seq = 1;  // rows of the position embedding
  /// The head is the token embedding; false: it is a param, "lm_head.weight" (vocabulary,
  /// width).
  bool tied_head = true;
};

/// The graph of a GPT. Inputs: "tokens" and, unless generating, "targets", both
/// i32 (B, T) in [0, vocabulary), where targets[i] is the token that follows
/// tokens[i]. Outputs: "loss", the mean of -log p in nats per token; when
/// generating "logits" (B, T, vocabulary), of which row t predicts token t + 1
/// from tokens 0..t. Dropout follows the embedding and every projection into
/// the residual stream, but not attention probabilities, which are never stored. Errors: batch or seq absent, below 1, or seq above max_seq; a size of
/// `config` below 1; heads that do not divide the width; dropout outside
/// [0, 1); an integer dtype; a negative logit_chunk. Logits of a large vocabulary are
/// computed in chunks (FinishText in nn/model_parts.h).
Result<Graph> BuildGpt(const GptConfig& config, ModelPurpose purpose,
                       const ModelOptions& options);

/// Elements of all params of that GPT: with width C and vocabulary V,
/// (V + max_seq) C + layers (12 C^2 + 13 C) + 2 C, plus V C if the head is not tied:
/// 124,439,808 for the smallest GPT-2.
int64_t GptParameterCount(const GptConfig& config);

}  // namespace stowage

#endif  // STOWAGE_NN_GPT_H_
