#ifndef STOWAGE_NN_LORA_H_
#define STOWAGE_NN_LORA_H_

// Low-rank adapters (Hu et al. 2021): a linear layer with a frozen weight, plus the product of
// two trained low-rank matrices. Lora is a layer with an adapter; WithLora adds adapters to
// the layers of an existing graph.
//
//   Result<Graph> adapted = WithLora(*BuildLlama(...), {.rank = 8,
//                                                       .targets = {"q_proj", "v_proj"}});
//   BuildTrainStep(*adapted, "loss",
//                  {.groups = {{.pattern = "*.lora_?.weight"},
//                              {.pattern = "*", .frozen = true}}});
//
// The training step freezes params (TrainOptions::groups); frozen params have neither
// gradients nor optimizer states, and only values on a gradient's path are saved.
//
// Names and layouts are those of Hugging Face's PEFT: beside "<layer>.weight" there are
// "<layer>.lora_A.weight" (rank, in), initially uniform in +-1/sqrt(in), and
// "<layer>.lora_B.weight" (out, rank), initially zeros, so that the adapter starts at zero.
//
// DoRA (Liu et al. 2024) also trains the norm of each output's weights: for the row w of
// W + factor B A and its magnitude m, the output is m w x / |w|, where |w| has no gradient.
// The matrix W + factor B A is never computed: for a row of W and b of B,
//
//   |w + factor b A|^2 = |w|^2 + b (2 factor A w + factor^2 A A^T b),
//
// where |w|^2 of the frozen W is a frozen param, "<layer>.lora_squared_norm" (out), and
// A W^T (rank, out) is one more matmul by W, quantized or not. The magnitudes are
// "<layer>.lora_magnitude_vector" (out). StartDora (train/lora_weights.h) initializes both; without
// it, results are NaN.

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
  double alpha = 16;  // the adapter is scaled by alpha / rank
  LinearOptions base = {};
};

/// x (..., in) -> x W + b + alpha / rank (x A^T) B^T (..., out), with the params of Linear and
/// the adapter's. Errors: a rank below 1 or above `in` or `out`, an alpha that is not finite.
Value Lora(Value x, std::string_view name, int64_t out_features,
           const LoraOptions& options = {},
           SourceLoc loc = SourceLoc::Current());

struct LoraRules {
  int64_t rank = 8;
  double alpha = 16;
  /// Scales by alpha / sqrt(rank) (rsLoRA, Kalajdzievski 2023).
  bool rank_stabilized = false;
  /// Dropout of an adapter's input, in [0, 1). Above 0, the graph has the inputs "seed" and
  /// "step" (nn/model_options.h). Must be 0 for graphs that do not train.
  double dropout = 0;
  /// DoRA. With dropout, as in PEFT, a layer is W x + (m / |w| - 1) W x' +
  /// m / |w| factor B A x' for x' = dropout(x): two matmuls by W.
  bool dora = false;
  /// The layers to adapt, as PEFT's target_modules: by name or by its last components, so
  /// that "q_proj" matches "model.layers.0.self_attn.q_proj" and "proj" does not, or by a
  /// pattern (GlobMatches) of layers or weights, "*_proj.weight". Matches that are not
  /// matrices are ignored, as are embeddings that only a pattern matches.
  std::vector<std::string> targets = {"*"};
};

/// The scale of an adapter.
double LoraFactor(const LoraRules& rules);

/// `graph` with an adapter for every matmul by a target. The matmul's result keeps its name,
/// and the sum is "<name>.adapted"; for an output the sum keeps the name, and the matmul's
/// result is "<name>.base". The adapters' params come last. Errors: those of Lora; a target
/// that is not a matrix of the graph, that another op than a matmul reads, or that is a
/// matmul's first operand; a dropout outside [0, 1). O(params * targets).
Result<Graph> WithLora(const Graph& graph, const LoraRules& rules);

/// The names of the adapter's params for a weight.
struct LoraParams {
  std::string down, up;  // lora_A, lora_B
  std::string magnitude,
      squared_norm;  // DoRA, each (out); the latter is frozen
};
LoraParams LoraParamsOf(std::string_view weight);

/// The name of a weight's layer: without ".weight".
std::string_view LayerOfWeight(std::string_view weight);

/// Returns whether `target` of LoraRules matches the layer of the weight.
bool MeansLayer(std::string_view target, std::string_view weight);

/// Returns whether the name is that of a trained param of an adapter.
bool IsLoraParam(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_NN_LORA_H_
