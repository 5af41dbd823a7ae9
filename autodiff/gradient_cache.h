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
// A step runs the micro-batches twice. In the first pass, the encoder runs forward for each
// micro-batch, and only its embeddings are kept. Then the head runs once, forward and backward, and
// computes the gradient of every embedding. The second pass is an ordinary step with gradient
// accumulation whose loss is sum(embedding * gradient), where the gradient is a constant. By the
// chain rule, the gradients of the second pass add up to the gradients of the whole batch. Only one
// micro-batch's activations of the encoder are live at a time, and the overhead is one forward pass
// of the encoder.
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
  /// The name of the encoder's output, "encoded:<name>", or of the param. If the value is a
  /// concatenation of several batches, each of them is a separate output, "encoded:<name>#<i>",
  /// where i counts from 1.
  std::string value = {};
  /// The name of the head's output that is the gradient. Empty if no gradient reaches the value.
  std::string gradient = {};
  /// The name of the micro-batch's input that receives the gradient. Empty if there is no gradient.
  std::string leaf = {};
  /// kPerExample, kSum or kMean for an output of the encoder, and kSame for a param.
  BatchKind kind = BatchKind::kSame;
  int axis = 0;  // for kPerExample: the axis of the examples
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

/// Cuts a model into an encoder and a head. `part` is a micro-batch of `whole`, and `share` is its
/// share of the batch's examples. `analysis` must be the result of AnalyzeBatch for the two graphs,
/// `obstacles` the result of ObstaclesToSplit, and `rewritten` the result of RewriteMicroBatch for
/// `part`. `options` selects the params to train and states whether the loss is scaled.
///
/// Returns kUnsupported if `loss` is not an obstacle, if the model writes a param, state or cache,
/// if the head reads no value that micro-batches can compute, or if the encoder computes less than
/// an eighth of the model's bytes. Propagates errors of BuildBackward. Linear in the number of
/// nodes.
Result<GradientCache> CacheGradients(
    const Graph& whole, const Graph& part, const Graph& rewritten,
    const BatchAnalysis& analysis, const std::vector<BatchObstacle>& obstacles,
    double share, std::string_view loss, const TrainOptions& options);

/// The encoder of a micro-batch, and what EmitHead needs to know about the micro-batch.
struct EncoderPart {
  const Graph& encoder;
  BatchAxes axes;        // to which the micro-batch was added last
  int64_t dropouts = 0;  // the number of ids that it uses (DropoutIds)
};

/// The results of the head, in the order of GradientCache::gradients and GradientCache::outputs. A
/// value without a gradient has an inert Value in `gradients`.
struct HeadValues {
  std::vector<Value> gradients;
  std::vector<Value> outputs;
};

/// The name of the head's input that scales the gradient of its loss. The input exists only with
/// loss scaling.
inline constexpr std::string_view kHeadScale = "total:loss_scale";

/// Emits the encoders of all micro-batches and then the head of `cache`. The encoders become a loop
/// if at least three micro-batches run the same encoder without dropout and all inputs are split
/// along their first axis. `leaf` must return the value of the leaf of the whole batch with a given
/// name. `known` must return the value of a total, or nullopt for other names. The backward pass of
/// the head starts from `seed`. Nodes have the origin kTotals (autodiff/split_model.h). A
/// micro-batch uses the same dropout masks in both passes.
HeadValues EmitHead(
    const GradientCache& cache, std::span<const EncoderPart> parts,
    const std::function<Value(std::string_view)>& leaf,
    const std::function<std::optional<Value>(std::string_view)>& known,
    const LossGradient& seed, GraphBuilder* g);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_GRADIENT_CACHE_H_
