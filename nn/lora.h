#ifndef STOWAGE_NN_LORA_H_
#define STOWAGE_NN_LORA_H_

// Low-rank adapters (Hu et al. 2021): a linear layer whose weight stays as it is,
// and beside it a product of two thin matrices that learns. Names are those of
// Hugging Face's PEFT; as everywhere here, matrices are laid out (in, out).
//
// What is frozen is for the training step to know (TrainOptions::groups), which then
// has neither gradients nor optimizer states for it. The base weights come from a file
// that has no adapters (LoadWeights, allow_missing "*.lora_?.weight").
//
//   Value y = Lora(x, "q_proj", 128, {.rank = 8});
//   BuildTrainStep(graph, "loss",
//                  {.groups = {{.pattern = "*.lora_?.weight"},
//                              {.pattern = "*", .frozen = true}}});

#include <cstdint>
#include <string_view>

#include "ir/builder.h"
#include "nn/layers.h"

namespace stowage {

struct LoraOptions {
  int64_t rank = 8;
  double alpha = 16;  // the adapter counts alpha / rank
  LinearOptions base = {};
};

/// x (..., in) -> x W + b + alpha / rank (x A) B (..., out). Params those of a linear
/// layer of that name, "<name>.lora_A.weight" (in, rank), uniform in +-1/sqrt(in) at
/// first, and "<name>.lora_B.weight" (rank, out), zeros: it begins as the linear layer.
/// Errors: a rank below 1 or above `in` or `out`, an alpha that is not finite.
Value Lora(Value x, std::string_view name, int64_t out_features,
           const LoraOptions& options = {},
           SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_NN_LORA_H_
