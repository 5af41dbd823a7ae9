#ifndef STOWAGE_NN_GPT_H_
#define STOWAGE_NN_GPT_H_

// Builds GPT-2 (Radford et al. 2019) at any size. The model consists of token and position
// embeddings, pre-norm transformer blocks, a final norm, and an output layer whose weight is
// the token embedding.
//
// Params have GPT-2's names: "wte" (vocabulary, width), "wpe" (max_seq, width),
// "h.<i>.ln_1.weight", "h.<i>.attn.c_attn.weight" (width, 3 width), ..., "ln_f.bias". Initial
// values are also GPT-2's: normal with standard deviation 0.02, or 0.02 / sqrt(2 layers) for the
// projections into the residual stream.
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
  /// The output layer shares the token embedding's matrix. If false, it has its own param,
  /// "lm_head.weight" (vocabulary, width).
  bool tied_head = true;
};

/// Returns the graph of a GPT. The inputs are "tokens" and, except for generation, "targets". Both
/// are i32 (B, T) in [0, vocabulary), and targets[b, t] is the token that follows tokens[b, t]. The
/// output is "loss", the mean of -log p in nats per token. For generation, the output is instead
/// "logits" (B, T, vocabulary), whose row t predicts token t + 1 from tokens 0..t. Options may add
/// inputs and outputs (nn/model_options.h).
///
/// Dropout follows the embedding and every projection into the residual stream. Dropout is not
/// applied to attention probabilities, which are never stored. Logits of a large vocabulary are
/// computed in chunks (FinishText in nn/model_parts.h).
///
/// Returns kInvalidArgument if a size of `config` is below 1 or the heads do not divide the width.
/// Propagates errors of CheckTextModelOptions, for example if `seq` is absent or above `max_seq`,
/// and of CheckNoEmbedding.
Result<Graph> BuildGpt(const GptConfig& config, ModelPurpose purpose,
                       const ModelOptions& options);

/// Returns the number of elements of all params. With width C and vocabulary V, the number is (V +
/// max_seq) C + layers (12 C^2 + 13 C) + 2 C, plus V C if the head is not tied. The smallest GPT-2
/// has 124,439,808 elements.
int64_t GptParameterCount(const GptConfig& config);

}  // namespace stowage

#endif  // STOWAGE_NN_GPT_H_
