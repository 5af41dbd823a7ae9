#ifndef STOWAGE_NN_EXPERTS_H_
#define STOWAGE_NN_EXPERTS_H_

// A mixture of experts (Shazeer et al. 2017): a router chooses a few of many gated
// feed-forward parts for each token, and adds up their outputs by its probabilities.
//
//   const ExpertsOptions experts = {.count = 8, .per_token = 2, .hidden = 14336};
//   Value y = Experts(h, "model.layers.0.block_sparse_moe", experts);
//
// Tokens are sorted by expert, and grouped_matmul multiplies each group by its expert's
// matrices, so a step computes what the router chose and no more. No expert has a capacity:
// no token is dropped, whatever the router does. The shapes are those of all choices, tokens
// times `per_token` rows, so a plan holds for every routing.
//
// A token's output depends on no other token, so micro-batches compute what the whole batch
// does. The analysis of the batch (autodiff/batch_analysis.h) does not see it, since the sort
// mixes tokens, and asks for TrainOptions::allow_batch_change.

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"

namespace stowage {

struct ExpertsOptions {
  int64_t count = 0;      // of experts; 0 where a model has none
  int64_t per_token = 1;  // experts that a token meets
  int64_t hidden = 1;     // width inside an expert
  /// Width inside the expert that every token meets, beside the chosen ones; 0 for none.
  int64_t shared_hidden = 0;
  /// Divide the chosen probabilities by their sum.
  bool normalized = true;
  GluActivation activation = GluActivation::kSilu;
  // Names of an expert's matrices.
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
  Init init = Init::Normal(0.02);
  Init down_init = Init::Normal(0.02);  // of the projections back
};

/// x (B, T, C) -> (B, T, C). Params: the router "<name>.gate.weight" (count, C); of all
/// experts "<name>.experts.<gate>.weight" and "<name>.experts.<up>.weight" (count, hidden, C)
/// and "<name>.experts.<down>.weight" (count, C, hidden); with a shared expert, the layers of
/// GatedMlp under "<name>.shared_expert", and "<name>.shared_expert_gate.weight" (1, C), the
/// sigmoid of which multiplies its output. Matrices lie (out, in). Probabilities are a
/// softmax over all experts in f32. Errors: as TopK, for
/// a per_token below 1 or above `count`.
Value Experts(Value x, std::string_view name, const ExpertsOptions& options);

/// The param of all experts that holds a matrix, called as the matrix of expert `expert`:
/// "a.experts.w1.weight" and 3 give "a.experts.3.w1.weight". Precondition: the param is one.
std::string NameOfExpert(std::string_view param, int64_t expert);

/// Whether a param of that name holds a matrix of each expert.
bool IsOfExperts(std::string_view param);

/// Elements of the params of Experts, of a width C.
int64_t ExpertsParameterCount(const ExpertsOptions& options, int64_t width);

}  // namespace stowage

#endif  // STOWAGE_NN_EXPERTS_H_
