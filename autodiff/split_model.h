#ifndef STOWAGE_AUTODIFF_SPLIT_MODEL_H_
#define STOWAGE_AUTODIFF_SPLIT_MODEL_H_

// Rewrites models whose batch is split: builds the graph that a micro-batch runs in a training
// step, and the programs that evaluate a large batch in smaller ones.
//
// A micro-batch cannot compute the totals of autodiff/batch_analysis.h, such as the sum of a mask
// over the whole batch. They become leaves, "total:<value>", which are computed from the inputs of
// all micro-batches before the first one runs. Where a sum over the examples is combined with a
// mean, the mean is weighted by the micro-batch's share of the examples.
//
//   sum(loss * mask) / sum(mask)    of a batch of 8, as two micro-batches:
//
//   total:m = sum(mask[0:4]) + sum(mask[4:8])
//   loss    = sum(loss[0:4] * mask[0:4]) / total:m + sum(loss[4:8] * mask[4:8]) / total:m
//
// A loss that compares examples with each other is computed by gradient caching
// (autodiff/gradient_cache.h). Its gradients with respect to the values of all micro-batches are
// leaves, too, and each micro-batch reads its slice of them.
//
//   SplitModel model(whole, whole, "loss", {}, options);
//   for each micro-batch: STOWAGE_RETURN_IF_ERROR(model.Add(micro_batch));
//   model.EmitTotals(leaf, updater.Seed(), &g);
//   ... model.graph(micro_batch), model.total(leaf) ...
//
// An evaluation in smaller batches ("parts") has two programs. One computes the totals, and the
// other reads them.
//
//   SplitEvaluation split = *SplitForEvaluation(model(1000), model(8), 8.0 / 1000);
//   for (const EvaluationTotal& total : split.totals) {
//     ... run split.totals_graph on each part, join `total.output` by `total.kind`
//     (JoinPart), and write it to the input `total.input` of both graphs ...
//   }
//   ... run split.graph on each part, and join its outputs by split.outputs ...

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/batch_analysis.h"
#include "autodiff/gradient_cache.h"
#include "autodiff/step_parts.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

/// The Node::origin of the nodes that compute totals.
inline constexpr std::string_view kTotals = "totals";

/// Returns `micro_batch` in the form that a step runs. Totals and constants of the whole batch
/// become inputs (TotalName), and operands in `analysis.by_share` are multiplied by `share`, the
/// micro-batch's share of the examples. The result computes all outputs and `loss`.
Result<Graph> RewriteMicroBatch(const Graph& micro_batch,
                                const BatchAnalysis& analysis, double share,
                                std::string_view loss);

/// Returns the name of the input that replaces `value` of a micro-batch.
std::string TotalName(const Graph& micro_batch, ValueId value);

/// Returns the values that a micro-batch cannot compute itself: totals, followed by constants.
std::vector<ValueId> UnknownTo(const BatchAnalysis& analysis);

/// Returns, for each node, whether a value in `wanted` depends on it. Nodes are not needed for the
/// values that are `known`.
std::vector<bool> NodesFor(const Graph& graph, std::vector<ValueId> wanted,
                           const std::vector<bool>& known);

class SplitModel {
 public:
  /// The micro-batches make up `part`, which is the whole batch `whole` or one rank's shard of it.
  /// Of `options`, allow_batch_change, loss_scaling and the settings that select trained params are
  /// used. All arguments except `ranks` must outlive this.
  SplitModel(const Graph& whole, const Graph& part, std::string_view loss,
             const Ranks& ranks, const TrainOptions& options)
      : whole_(whole),
        loss_(loss),
        ranks_(ranks),
        options_(options),
        axes_(whole, part) {}

  /// Adds the next micro-batch. Returns kInvalidArgument if it is not a slice of the batch. Returns
  /// kUnsupported if it would change an output, and names the first value that differs.
  Status Add(const Graph& micro_batch);

  /// Returns whether there are totals or constants of the whole batch.
  bool has_totals() const;

  /// Emits the totals and the cached gradients, with nodes of origin kTotals. `leaf` returns the
  /// value of the leaf of `whole` with a given name. The gradient of the loss starts as `seed`.
  void EmitTotals(const std::function<Value(std::string_view)>& leaf,
                  const LossGradient& seed, GraphBuilder* g);

  /// Returns the graph that a step runs for `micro_batch` (RewriteMicroBatch).
  const Graph& graph(const Graph& micro_batch) const {
    return models_.at(&micro_batch).graph;
  }
  /// Returns how an output is computed from the micro-batches' outputs. Returns kMean for kMixed,
  /// and for kMax if there are several ranks.
  BatchKind KindOf(const Graph& micro_batch, std::string_view output) const;
  /// Returns the gradient from which the backward pass of a micro-batch starts. `share` is its
  /// share of the batch. The gradient is 1 if gradients are cached, because the seed of the step
  /// then applies to the head.
  LossGradient Seed(const Graph& micro_batch, double share,
                    const Updater& updater) const {
    if (has_cache()) return {};
    const bool is_sum = KindOf(micro_batch, loss_) == BatchKind::kSum;
    return updater.Seed(is_sum ? 1 : share);
  }
  /// Returns the value of a leaf that represents a total, or the slice of a cached gradient for the
  /// last micro-batch added to `axes`. Returns nothing for other leaves.
  std::optional<Value> total(std::string_view leaf,
                             const BatchAxes& axes) const;

  /// Returns whether gradients are cached (autodiff/gradient_cache.h).
  bool has_cache() const {
    return !models_.empty() && models_.begin()->second.cache.has_value();
  }
  /// Returns whether the head computes `output`.
  bool IsWholeOutput(std::string_view output) const;
  /// Returns the value of an output that the head computes, which EmitTotals emits.
  std::optional<Value> whole_output(std::string_view output) const;
  /// Returns the names of the cached gradients of which a micro-batch reads a slice. EmitTotals
  /// must have been called.
  std::vector<std::string> CachedNames(const GraphBuilder& g) const;
  /// Returns whether all of these are sliced along their first axis. EmitTotals must have been
  /// called.
  bool are_cached_first() const;

 private:
  struct Model {
    BatchAnalysis analysis;
    Graph graph = {};
    std::optional<GradientCache> cache = std::nullopt;
  };
  // A micro-batch and its slices of the inputs.
  struct Place {
    const Graph& micro_batch;
    BatchAxes axes;
  };

  // A cached gradient in the step.
  struct Cached {
    Value value;
    int axis = -1;  // the axis of the examples, or -1 if there is none
  };

  Result<Model> ModelOf(const Graph& micro_batch) const;
  Value Combined(size_t total, const std::vector<Value>& parts) const;
  void EmitPlainTotals(const std::function<Value(std::string_view)>& leaf,
                       GraphBuilder* g);
  void EmitCache(const std::function<Value(std::string_view)>& leaf,
                 const LossGradient& seed, GraphBuilder* g);

  const Graph& whole_;
  const std::string_view loss_;
  const Ranks ranks_;
  const TrainOptions& options_;
  BatchAxes axes_;
  std::map<const Graph*, Model> models_;
  std::vector<Place> places_;
  std::map<std::string, Value, std::less<>> totals_;   // by leaf
  std::map<std::string, Cached, std::less<>> cached_;  // by leaf
  std::map<std::string, Value, std::less<>> whole_outputs_;
};

/// A value that depends only on the inputs of all parts.
struct EvaluationTotal {
  std::string input;   // the input of both graphs that receives the total
  std::string output;  // the output of totals_graph for one part
  /// How the parts' values are joined. kSame means that all of them are equal.
  BatchKind kind = BatchKind::kSum;
  int round = 0;  // a total depends only on totals of lower rounds
  friend bool operator==(const EvaluationTotal&,
                         const EvaluationTotal&) = default;
};

/// How an output for all examples is computed from the outputs for the parts.
struct EvaluationOutput {
  BatchKind kind = BatchKind::kMean;
  std::string why = {};  // kMixed: the reason
};

struct SplitEvaluation {
  Graph graph;         // evaluates one part, with the totals as inputs
  Graph totals_graph;  // computes the totals of one part, if there are any
  std::vector<EvaluationTotal> totals = {};  // in ascending order of round
  std::map<std::string, EvaluationOutput, std::less<>> outputs = {};
};

/// Combines `next`, the elements of a part's value, with `so_far`, the combined elements of the
/// previous parts, and stores the result in `so_far`, which must be empty for the first part. Means
/// and kMixed values are weighted by `share`, the part's share of the examples. All parts must have
/// the same number of elements.
void JoinPart(BatchKind kind, double share, std::span<const double> next,
              std::vector<double>* so_far);

/// Returns the programs that evaluate `whole` in parts. `part` must be the same model for `share`
/// times as many examples as `whole`. An output that cannot be computed from the parts' outputs is
/// kMixed. Propagates errors of building the graphs. Linear in the number of nodes (AnalyzeBatch).
Result<SplitEvaluation> SplitForEvaluation(const Graph& whole,
                                           const Graph& part, double share);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_SPLIT_MODEL_H_
