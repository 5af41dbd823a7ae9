#ifndef STOWAGE_AUTODIFF_GRADIENT_CACHE_H_
#define STOWAGE_AUTODIFF_GRADIENT_CACHE_H_

// Splits the batch of a model whose loss compares examples with each other into micro-batches, by
// gradient caching (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory
// Limited Setup"). A contrastive loss of B embeddings depends on all of them, so the losses of
// micro-batches do not add up to the loss of the batch. Instead, the model is cut in two:
//
//   encoder   computes the embeddings of a micro-batch, each from a single example
//   head      computes the loss from the embeddings of the whole batch
//
// A step runs the micro-batches twice. In the first pass, the encoder runs forward and its
// embeddings are kept. Then the head runs once, forward and backward, and computes the gradient of
// every embedding. The second pass is an ordinary step with gradient accumulation whose loss is
// sum(embedding * gradient), where the gradient is a constant. By the chain rule, its gradients
// add up to the gradients of the whole batch. Only one micro-batch's activations are live at a
// time, and the overhead is one forward pass of the encoder.
//
//   STOWAGE_ASSIGN_OR_RETURN(
//       GradientCache cache,
//       CacheGradients(whole, part, rewritten, analysis, obstacles, share, "loss", {}));
//   cache.micro_batch;  // reads inputs "total:grad:encoded:<embedding>"
//
// SplitModel (autodiff/split_model.h) links the encoder, the head and the micro-batches into a
// step.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/batch_analysis.h"
#include "autodiff/step_parts.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

/// A value that the head reads from the encoder, or a param whose gradient the head computes.
struct CachedGradient {
  /// The name of the encoder's output, "encoded:<name>", or of the param. If the value contains
  /// concatenated batches, batch i is a separate output, "encoded:<name>#<i>", counting from 1.
  std::string value = {};
  /// The name of the head's output for the gradient. Empty if no gradient reaches the value.
  std::string gradient = {};
  /// The name of the micro-batch's input for the gradient. Empty if there is no gradient.
  std::string leaf = {};
  /// kPerExample, kSum or kMean for an output of the encoder, and kSame for a param.
  BatchKind kind = BatchKind::kSame;
  int axis = 0;  // kPerExample: the axis of the examples
};

struct GradientCache {
  /// Computes the encoder's outputs (CachedGradient::value) for a micro-batch.
  Graph encoder;
  /// Computes `outputs` and the gradients (CachedGradient::gradient) for the whole batch.
  Graph head;
  /// The encoder with a loss: the sum of each value times its gradient.
  Graph micro_batch;
  std::vector<CachedGradient> gradients = {};
  std::vector<std::string> outputs = {};  // outputs that compare examples
};

/// Cuts a model into an encoder and a head. `analysis` compares `part` with `whole`, and
/// `obstacles` must be the obstacles of `analysis`. `rewritten` is the result of RewriteMicroBatch
/// for `part`, and `share` is the share of the batch that `part` contains.
///
/// Returns kUnsupported if `loss` is not an obstacle, if the model writes a param, state or cache,
/// if the head reads no value that depends on single examples, or if the encoder computes less than
/// an eighth of the model's bytes. Propagates errors of BuildBackward. Linear in the number of
/// nodes.
Result<GradientCache> CacheGradients(
    const Graph& whole, const Graph& part, const Graph& rewritten,
    const BatchAnalysis& analysis, const std::vector<BatchObstacle>& obstacles,
    double share, std::string_view loss, const TrainOptions& options);

/// The encoder of a micro-batch, the micro-batch's slices of the inputs, and the number of dropout
/// ids that the micro-batch uses (DropoutIds).
struct EncoderPart {
  const Graph& encoder;
  BatchAxes axes;
  int64_t dropouts = 0;
};

/// The results of the head, in the order of GradientCache. The value is empty for an encoder output
/// or param without a gradient.
struct HeadValues {
  std::vector<Value> gradients;
  std::vector<Value> outputs;
};

/// The name of the head's input that scales the gradient of its loss. The input exists only with
/// loss scaling.
inline constexpr std::string_view kHeadScale = "total:loss_scale";

/// Emits the encoders of all micro-batches and then the head of `cache`. The encoders become a loop
/// if at least three micro-batches run the same encoder without dropout, split along the first
/// axis. `leaf` returns the value of a leaf of the whole batch. `known` returns the value of a
/// total, or nothing for other names. The gradient of the loss starts as `seed`. Nodes have the
/// origin kTotals (autodiff/split_model.h). A micro-batch draws the same dropout masks in both
/// passes.
HeadValues EmitHead(
    const GradientCache& cache, std::span<const EncoderPart> parts,
    const std::function<Value(std::string_view)>& leaf,
    const std::function<std::optional<Value>(std::string_view)>& known,
    const LossGradient& seed, GraphBuilder* g);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_GRADIENT_CACHE_H_
