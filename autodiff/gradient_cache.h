#ifndef STOWAGE_AUTODIFF_GRADIENT_CACHE_H_
#define STOWAGE_AUTODIFF_GRADIENT_CACHE_H_

// Micro-batches for a loss that compares examples with each other, by gradient caching
// (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited
// Setup"). A contrastive loss of B embeddings needs all of them, so the loss of a
// micro-batch would be another loss. Instead the model is cut in two:
//
//   encoder   computes what depends on one example: the embeddings of a micro-batch
//   head      compares examples: the loss, from the embeddings of the whole batch
//
// A step makes two passes over the micro-batches. The first runs the encoder forward
// and keeps its embeddings; the head runs once, forward and backward, and yields the
// gradient of every embedding. The second pass is an ordinary step in micro-batches whose
// loss is sum(embedding * gradient), the gradient a constant: by the chain rule, its
// gradients add up to those of the whole batch. The activations of one micro-batch are
// live at a time; the overhead is one more forward pass.
//
//   STOWAGE_ASSIGN_OR_RETURN(GradientCache cache,
//                            CacheGradients(whole, part, analysis, share, "loss", {}));
//   cache.micro_batch;  // reads inputs "total:grad:<embedding>"
//
// SplitModel (autodiff/split_model.h) links the parts into a step.

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

/// A value that the head reads from the encoder, or a param whose gradient it computes.
struct CachedGradient {
  /// The output of the encoder, "encoded:<name>", or the param's name.
  std::string value = {};
  /// The output of the head; empty if no gradient reaches the value.
  std::string gradient = {};
  /// The input of the micro-batch that reads the gradient.
  std::string leaf = {};
  /// kPerExample, kSum or kMean; kSame: a param.
  BatchKind kind = BatchKind::kSame;
  int axis = 0;  // kPerExample: the examples' axis
};

struct GradientCache {
  /// For a micro-batch: computes CachedGradient::value.
  Graph encoder;
  /// For the whole batch: computes `outputs` and CachedGradient::gradient.
  Graph head;
  /// The encoder, whose loss is the sum of each value times its gradient.
  Graph micro_batch;
  std::vector<CachedGradient> gradients = {};
  std::vector<std::string> outputs = {};  // of `whole`, that compare examples
};

/// Cuts a model whose loss is among the `obstacles` of `analysis`, that of `part` beside
/// `whole`. `rewritten` is `part` as RewriteMicroBatch has made it, `share` its share of the
/// batch. Error kUnsupported: the model writes a value itself, nothing per example reaches
/// the head, or the encoder computes less than an eighth of the model's bytes. Errors of
/// BuildBackward. Linear in the nodes.
Result<GradientCache> CacheGradients(
    const Graph& whole, const Graph& part, const Graph& rewritten,
    const BatchAnalysis& analysis, const std::vector<BatchObstacle>& obstacles,
    double share, std::string_view loss, const TrainOptions& options);

/// A micro-batch's encoder, its slice of the batch, and its number of dropouts.
struct EncoderPart {
  const Graph& encoder;
  BatchAxes axes;
  int64_t dropouts = 0;
};

/// The head's results, in the order of GradientCache; an inert value for an empty gradient.
struct HeadValues {
  std::vector<Value> gradients;
  std::vector<Value> outputs;
};

/// The input of the head that multiplies the gradient of its loss, if losses are scaled.
inline constexpr std::string_view kHeadScale = "total:loss_scale";

/// Emits the encoders of all micro-batches, in a loop if they are alike, and then the head of
/// `cache`. `leaf` maps a leaf of the whole batch to its value, `known` a total to its value
/// or nothing; the gradient of the loss starts as `seed`. Nodes have the origin kTotals (autodiff/split_model.h). Dropouts are those
/// that the same micro-batches draw when they run for their gradients.
HeadValues EmitHead(
    const GradientCache& cache, std::span<const EncoderPart> parts,
    const std::function<Value(std::string_view)>& leaf,
    const std::function<std::optional<Value>(std::string_view)>& known,
    const LossGradient& seed, GraphBuilder* g);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_GRADIENT_CACHE_H_
