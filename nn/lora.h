#ifndef STOWAGE_NN_LORA_H_
#define STOWAGE_NN_LORA_H_

// Low-rank adapters (Hu et al. 2021): a linear layer whose weight stays as it is,
// and beside it a product of two thin matrices that learns. Either a layer has one from
// the start (Lora), or all layers of a graph are given theirs, whoever built it
// (WithLora).
//
//   Result<Graph> adapted = WithLora(*BuildLlama(...), {.rank = 8,
//                                                       .targets = {"q_proj", "v_proj"}});
//   BuildTrainStep(*adapted, "loss",
//                  {.groups = {{.pattern = "*.lora_?.weight"},
//                              {.pattern = "*", .frozen = true}}});
//
// What is frozen is for the training step to know (TrainOptions::groups), which then
// has neither gradients nor optimizer states for it, and keeps of the forward pass only
// what a gradient flows through.
//
// Names and layouts are those of Hugging Face's PEFT: beside "<layer>.weight" stand
// "<layer>.lora_A.weight" (rank, in), uniform in +-1/sqrt(in) at first, and
// "<layer>.lora_B.weight" (out, rank), zeros: an adapted layer begins as the layer.
//
// DoRA (Liu et al. 2024) also learns the length of each output's weights: with the row w of
// W + factor B A that makes an output, and its magnitude m, it is m w x / |w|, where |w| has
// no gradient. The matrix W + factor B A never exists: of a row of W and one of B,
//
//   |w + factor b A|^2 = |w|^2 + b (2 factor A w + factor^2 A A^T b),
//
// where |w|^2 of a frozen W is a constant of the step, "<layer>.lora_squared_norm" (out), a
// frozen param, and A W^T (rank, out) is one more matmul by W, in its blocks if it lies so.
// The magnitudes are "<layer>.lora_magnitude_vector" (out). StartDora (train/lora_weights.h) gives
// both their values; without them, results are NaN.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "nn/layers.h"

namespace stowage {

struct LoraOptions {
  int64_t rank = 8;
  double alpha = 16;  // the adapter counts alpha / rank
  LinearOptions base = {};
};

/// x (..., in) -> x W + b + alpha / rank (x A^T) B^T (..., out), with the params of a
/// linear layer of that name and the adapter's.
/// Errors: a rank below 1 or above `in` or `out`, an alpha that is not finite.
Value Lora(Value x, std::string_view name, int64_t out_features,
           const LoraOptions& options = {},
           SourceLoc loc = SourceLoc::Current());

struct LoraRules {
  int64_t rank = 8;
  double alpha = 16;
  /// The adapter counts alpha / sqrt(rank) (rsLoRA, Kalajdzievski 2023), not alpha / rank.
  bool rank_stabilized = false;
  /// Of what goes into an adapter, in [0, 1). Above 0, a graph has the inputs "seed" and
  /// "step" (nn/model_options.h). A graph that does not train wants 0.
  double dropout = 0;
  /// DoRA's magnitudes. With dropout, as in PEFT, a layer is W x + (m / |w| - 1) W x' +
  /// m / |w| factor B A x' of the dropped x': two matmuls by W.
  bool dora = false;
  /// Which layers to adapt, each by its name or the end of it behind a dot, as PEFT's
  /// target_modules are: "q_proj" is "model.layers.0.self_attn.q_proj", and "proj" is
  /// not. Patterns (base/strings.h) stand for several, and may be of weights, too:
  /// "*_proj.weight". Of what matches, all that is no matrix is left as it is, and of what
  /// matches a pattern, a table whose rows are read, as an embedding's are.
  std::vector<std::string> targets = {"*"};
};

/// What the product of an adapter's matrices is multiplied by.
double LoraFactor(const LoraRules& rules);

/// `graph` with an adapter beside every matmul by a target. The result of the matmul is
/// called as before, that with the adapter's share "<name>.adapted"; of an output the sum
/// keeps the name, and the result is "<name>.base". Params of the
/// adapters come after all others. Errors: those of Lora; a target that is no matrix of the
/// graph; one that another op than a matmul reads, as rows of a table are, or that
/// is its first operand; a dropout outside [0, 1). Takes time for every param and
/// target.
Result<Graph> WithLora(const Graph& graph, const LoraRules& rules);

/// What the params of the adapter beside the weight of that name are called.
struct LoraParams {
  std::string down, up;  // lora_A, lora_B
  std::string magnitude,
      squared_norm;  // of DoRA, each (out); the latter is frozen
};
LoraParams LoraParamsOf(std::string_view weight);

/// What the layer is called that a weight of that name belongs to: without ".weight".
std::string_view LayerOfWeight(std::string_view weight);

/// Whether `target` of LoraRules means the layer of a weight of that name.
bool MeansLayer(std::string_view target, std::string_view weight);

/// Whether a param of that name is an adapter's and trained.
bool IsLoraParam(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_NN_LORA_H_
