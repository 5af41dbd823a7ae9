#ifndef STOWAGE_NN_LORA_H_
#define STOWAGE_NN_LORA_H_

// Adds low-rank adapters (LoRA, Hu et al. 2021) to models. The weight of an adapted linear layer is
// frozen, and the product of two trained low-rank matrices is added to it. Lora adds a linear layer
// with an adapter to a graph. WithLora adds adapters to the linear layers of an existing graph.
//
//   Result<Graph> adapted = WithLora(*BuildLlama(...), {.rank = 8,
//                                                       .targets = {"q_proj", "v_proj"}});
//   BuildTrainStep(*adapted, "loss",
//                  {.groups = {{.pattern = "*.lora_?.weight"},
//                              {.pattern = "*", .frozen = true}}});
//
// The training step freezes params (TrainOptions::groups). Frozen params have neither gradients nor
// optimizer states, and only values that a gradient needs are saved for the backward pass.
//
// Names and layouts follow Hugging Face's PEFT. The params of an adapter are
// "<layer>.lora_A.weight" (rank, in), initially uniform in +-1/sqrt(in), and
// "<layer>.lora_B.weight" (out, rank), initially zeros. The initial output of an adapter is
// therefore zero.
//
// DoRA (Liu et al. 2024) also trains a magnitude for each output, which replaces the norm of the
// output's weights. Let v be the row of W + factor B A for an output, and m its magnitude. The
// output is m v x / |v|, where |v| has no gradient. The matrix W + factor B A is never computed.
// Instead, |v| is computed from the rows w of W and b of B:
//
//   |v|^2 = |w + factor b A|^2 = |w|^2 + b (2 factor A w + factor^2 A A^T b),
//
// where |w|^2 is a frozen param, "<layer>.lora_squared_norm" (out), since W is frozen. A W^T (rank,
// out) is one additional matmul by W, which may be quantized. The magnitudes are
// "<layer>.lora_magnitude_vector" (out). StartDora (train/lora_weights.h) initializes both params.
// Before, results are NaN.

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
  double alpha = 16;  // the output of the adapter is scaled by alpha / rank
  LinearOptions base = {};
};

/// Returns x W + b + alpha / rank (x A^T) B^T, of shape (..., out), for x (..., in). `name` is the
/// name of the layer. Declares the params of Linear and of the adapter. Records an error if the
/// rank is below 1 or above `in` or `out`, or if alpha is 0 or not finite.
Value Lora(Value x, std::string_view name, int64_t out_features,
           const LoraOptions& options = {},
           SourceLoc loc = SourceLoc::Current());

struct LoraRules {
  int64_t rank = 8;
  double alpha = 16;
  /// Scales by alpha / sqrt(rank) instead of alpha / rank (rsLoRA, Kalajdzievski 2023).
  bool rank_stabilized = false;
  /// The dropout rate of an adapter's input, in [0, 1). If it is above 0, the graph has the inputs
  /// "seed" and "step" (nn/model_options.h). Must be 0 for graphs that are not for training.
  double dropout = 0;
  /// Whether to use DoRA. With dropout, a layer computes W x + (m / |v| - 1) W x' + m / |v| factor
  /// B A x', as in PEFT, where x' = dropout(x). This needs two matmuls by W.
  bool dora = false;
  /// The layers to adapt, as PEFT's target_modules. A target is the name of a layer, the last
  /// components of its name, or a pattern (GlobMatches) of layers or weights, such as
  /// "*_proj.weight". "q_proj" matches "model.layers.0.self_attn.q_proj", but "proj" does not.
  /// Matched params that are not matrices are ignored. An embedding that only a pattern matches is
  /// ignored, too.
  std::vector<std::string> targets = {"*"};
};

/// Returns the factor of an adapter's output: alpha / rank, or alpha / sqrt(rank) if
/// `rank_stabilized`.
double LoraFactor(const LoraRules& rules);

/// Returns `graph` with an adapter for every matmul whose second operand is a target. The adapted
/// result is called "<name>.adapted", where <name> is the name of the matmul's result. If the
/// matmul's result is an output of the graph, the adapted result is called <name> instead, and the
/// result of the matmul "<name>.base". The params of the adapters follow all other params. Returns
/// kInvalidArgument for a rank or alpha that Lora rejects, and if the dropout is outside [0, 1).
/// Also returns kInvalidArgument if a target matches no matrix of the graph, if a node other than a
/// matmul reads a target, or if a target is the first operand of a matmul, or the second operand of
/// a matmul that transposes its first operand. O(nodes + params * targets).
Result<Graph> WithLora(const Graph& graph, const LoraRules& rules);

/// The names of an adapter's params.
struct LoraParams {
  std::string down, up;  // lora_A, lora_B
  std::string magnitude,
      squared_norm;  // for DoRA, both (out); squared_norm is frozen
};
/// Returns the names of the params of the adapter for the param `weight`.
LoraParams LoraParamsOf(std::string_view weight);

/// Returns the name of the layer of the param `weight`, which is `weight` without the suffix
/// ".weight".
std::string_view LayerOfWeight(std::string_view weight);

/// Returns whether `target`, an element of LoraRules::targets, matches the layer of `weight`.
bool MeansLayer(std::string_view target, std::string_view weight);

/// Returns whether `name` is the name of a trained param of an adapter. DoRA's squared norms are
/// not trained.
bool IsLoraParam(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_NN_LORA_H_
