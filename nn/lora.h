#ifndef STOWAGE_NN_LORA_H_
#define STOWAGE_NN_LORA_H_

// Adds low-rank adapters (LoRA, Hu et al. 2021) to models. The weight of an adapted linear layer is
// frozen, and the product of two trained low-rank matrices is added to it. Lora is a layer with an
// adapter, and WithLora adds adapters to the layers of an existing graph.
//
//   Result<Graph> adapted = WithLora(*BuildLlama(...), {.rank = 8,
//                                                       .targets = {"q_proj", "v_proj"}});
//   BuildTrainStep(*adapted, "loss",
//                  {.groups = {{.pattern = "*.lora_?.weight"},
//                              {.pattern = "*", .frozen = true}}});
//
// The training step freezes params (TrainOptions::groups). Frozen params have neither gradients
// nor optimizer states, and only values on the path of a gradient are saved.
//
// Names and layouts follow Hugging Face's PEFT. The params of an adapter are
// "<layer>.lora_A.weight" (rank, in), initially uniform in +-1/sqrt(in), and
// "<layer>.lora_B.weight" (out, rank), initially zeros. The adapter's initial output is thus zero.
//
// DoRA (Liu et al. 2024) also trains the norm of each output's weights. Let v be a row of
// W + factor B A, and m its magnitude. The output is m v x / |v|, where |v| has no gradient. The
// matrix W + factor B A is never computed. Instead, |v| follows from the rows w of W and b of B:
//
//   |v|^2 = |w + factor b A|^2 = |w|^2 + b (2 factor A w + factor^2 A A^T b),
//
// where |w|^2 of the frozen W is a frozen param, "<layer>.lora_squared_norm" (out), and A W^T
// (rank, out) is one additional matmul by W, quantized or not. The magnitudes are
// "<layer>.lora_magnitude_vector" (out). StartDora (train/lora_weights.h) initializes both params.
// Results are NaN until it does.

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

/// Returns x W + b + alpha / rank (x A^T) B^T of shape (..., out) for x (..., in). Declares the
/// params of Linear and of the adapter. Records an error if the rank is below 1 or above `in` or
/// `out`, or if alpha is 0 or not finite.
Value Lora(Value x, std::string_view name, int64_t out_features,
           const LoraOptions& options = {},
           SourceLoc loc = SourceLoc::Current());

struct LoraRules {
  int64_t rank = 8;
  double alpha = 16;
  /// Scales by alpha / sqrt(rank) instead of alpha / rank (rsLoRA, Kalajdzievski 2023).
  bool rank_stabilized = false;
  /// Dropout of an adapter's input, in [0, 1). If above 0, the graph has the inputs "seed" and
  /// "step" (nn/model_options.h). Must be 0 for graphs that do not train.
  double dropout = 0;
  /// Uses DoRA. With dropout, a layer is W x + (m / |v| - 1) W x' + m / |v| factor B A x', as in
  /// PEFT, where x' = dropout(x). It then has two matmuls by W.
  bool dora = false;
  /// The layers to adapt, as PEFT's target_modules. A target is the name of a layer, the last
  /// components of its name, or a pattern (GlobMatches) of layers or weights, such as
  /// "*_proj.weight". "q_proj" matches "model.layers.0.self_attn.q_proj", but "proj" does not.
  /// Matches that are not matrices are ignored, as are embeddings that only a pattern matches.
  std::vector<std::string> targets = {"*"};
};

/// Returns the scale of an adapter's output.
double LoraFactor(const LoraRules& rules);

/// Returns `graph` with an adapter for every matmul whose second operand is a target. The result of
/// the matmul keeps its name, and the adapted result is called "<name>.adapted". If the result is
/// an output of the graph, the adapted result has its name, and the matmul's is called
/// "<name>.base". The params of the adapters follow all others. Returns the errors of Lora, and
/// kInvalidArgument if a target matches no matrix of the graph, if a node other than a matmul reads
/// the matrix, if it is the first operand of a matmul or the matmul transposes its first operand,
/// or if the dropout is outside [0, 1). O(params * targets).
Result<Graph> WithLora(const Graph& graph, const LoraRules& rules);

/// The names of an adapter's params.
struct LoraParams {
  std::string down, up;  // lora_A, lora_B
  std::string magnitude,
      squared_norm;  // for DoRA, both (out); squared_norm is frozen
};
/// Returns the names of the params of the adapter for `weight`.
LoraParams LoraParamsOf(std::string_view weight);

/// Returns the name of a weight's layer, which is the name without ".weight".
std::string_view LayerOfWeight(std::string_view weight);

/// Returns whether `target`, an element of LoraRules::targets, matches the layer of `weight`.
bool MeansLayer(std::string_view target, std::string_view weight);

/// Returns whether `name` is the name of a trained param of an adapter.
bool IsLoraParam(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_NN_LORA_H_
