#ifndef STOWAGE_AUTODIFF_SPLIT_MODEL_H_
#define STOWAGE_AUTODIFF_SPLIT_MODEL_H_

// Rewrites models whose batch is split. Builds the graph that a micro-batch runs in a training
// step, and the programs that evaluate a large batch in smaller batches.
//
// A micro-batch cannot compute the totals of autodiff/batch_analysis.h, such as the sum of a mask
// over the whole batch. They become leaves, "total:<value>", which are computed from the inputs of
// all micro-batches before the first micro-batch runs. Where a sum over the examples is added to a
// mean, the mean is multiplied by the micro-batch's share of the examples.
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
//   ... model.graph(micro_batch), model.total(leaf, axes) ...
//
// An evaluation in smaller batches ("parts") has two programs: one that computes the totals, and
// one that reads them and computes the outputs.
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
/// micro-batch's share of the examples. `analysis` must be the result of AnalyzeBatch for
/// `micro_batch`. The result computes all outputs, `loss` and all updates of states.
Result<Graph> RewriteMicroBatch(const Graph& micro_batch,
                                const BatchAnalysis& analysis, double share,
                                std::string_view loss);

/// Returns the name of the input that replaces `value` of a micro-batch.
std::string TotalName(const Graph& micro_batch, ValueId value);

/// Returns the values that a micro-batch cannot compute itself: the totals, followed by the
/// constants that differ between the graphs.
std::vector<ValueId> UnknownTo(const BatchAnalysis& analysis);

/// Returns, for each node, whether it is needed to compute the values in `wanted`. `known`, indexed
/// by value, states which values need not be computed.
std::vector<bool> NodesFor(const Graph& graph, std::vector<ValueId> wanted,
                           const std::vector<bool>& known);

/// A model whose batch is split into micro-batches for a training step.
class SplitModel {
 public:
  /// `whole` is the model for the whole batch. The micro-batches make up `part`, which is `whole`
  /// or the model for one rank's shard of the batch. Only allow_batch_change, loss_scaling and the
  /// settings that select trained params are read from `options`. All arguments except `ranks` must
  /// outlive this object.
  SplitModel(const Graph& whole, const Graph& part, std::string_view loss,
             const Ranks& ranks, const TrainOptions& options)
      : whole_(whole),
        loss_(loss),
        ranks_(ranks),
        options_(options),
        axes_(whole, part) {}

  /// Adds the next micro-batch, which must outlive this object. Returns kInvalidArgument if it is
  /// not a slice of the batch (BatchAxes::Add). Returns kUnsupported if the split would change an
  /// output, with the first such value in the message, or if the model writes a param, state or
  /// cache, unless options.allow_batch_change is set. Also returns kUnsupported if an input pairs
  /// examples, or if micro-batches of different sizes would sum different values.
  Status Add(const Graph& micro_batch);

  /// Returns whether there are totals or constants of the whole batch.
  bool has_totals() const;

  /// Emits the totals and the cached gradients. The nodes have the origin kTotals. `leaf` must
  /// return the value of the leaf with a given name. If gradients are cached, their backward pass
  /// starts from `seed`.
  void EmitTotals(const std::function<Value(std::string_view)>& leaf,
                  const LossGradient& seed, GraphBuilder* g);

  /// Returns the graph that a step runs for `micro_batch`, which must have been added
  /// (RewriteMicroBatch, or GradientCache::micro_batch if gradients are cached).
  const Graph& graph(const Graph& micro_batch) const {
    return models_.at(&micro_batch).graph;
  }
  /// Returns how `output` is computed from the micro-batches' outputs. Returns kMean instead of
  /// kMixed, and instead of kMax if there are several ranks.
  BatchKind KindOf(const Graph& micro_batch, std::string_view output) const;
  /// Returns the seed of the backward pass of a micro-batch. `share` is the micro-batch's share of
  /// the batch. If gradients are cached, the seed is 1, because the seed of the step is then the
  /// seed of the head.
  LossGradient Seed(const Graph& micro_batch, double share,
                    const Updater& updater) const {
    if (has_cache()) return {};
    const bool is_sum = KindOf(micro_batch, loss_) == BatchKind::kSum;
    return updater.Seed(is_sum ? 1 : share);
  }
  /// Returns the value of a leaf of a micro-batch that represents a total or a cached gradient. A
  /// cached gradient is sliced for the last micro-batch added to `axes`. Returns nullopt for other
  /// leaves.
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
  /// Returns the names of the cached gradients of which a micro-batch reads only a slice.
  /// EmitTotals must have been called.
  std::vector<std::string> CachedNames(const GraphBuilder& g) const;
  /// Returns whether all of these gradients are sliced along their first axis. EmitTotals must have
  /// been called.
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

/// A total of an evaluation: a value that depends only on the inputs of all parts.
struct EvaluationTotal {
  std::string input;   // the input of both graphs that receives the total
  std::string output;  // the output of totals_graph for one part
  /// How the parts' values are joined. kSame means that all parts compute the same value.
  BatchKind kind = BatchKind::kSum;
  int round = 0;  // a total depends only on totals of lower rounds
  friend bool operator==(const EvaluationTotal&,
                         const EvaluationTotal&) = default;
};

/// How an output for all examples is computed from the outputs for the parts.
struct EvaluationOutput {
  BatchKind kind = BatchKind::kMean;
  std::string why = {};  // for kMixed: the reason
};

struct SplitEvaluation {
  Graph graph;         // evaluates one part, with the totals as inputs
  Graph totals_graph;  // computes the totals of one part, if there are any
  std::vector<EvaluationTotal> totals = {};  // in ascending order of round
  std::map<std::string, EvaluationOutput, std::less<>> outputs = {};
};

/// Combines `next`, the elements of a part's value, with `so_far`, the combined elements of the
/// previous parts, and stores the result in `so_far`. For the first part, `so_far` must be empty.
/// Means and kMixed values are weighted by `share`, the part's share of the examples. Other kinds
/// than kMean, kMixed, kSum and kMax keep the first part's elements. The values of all parts must
/// have the same number of elements.
void JoinPart(BatchKind kind, double share, std::span<const double> next,
              std::vector<double>* so_far);

/// Returns the programs that evaluate `whole` in parts. `part` must be the same model for fewer
/// examples, `share` times the examples of `whole`. An output that cannot be computed from the
/// parts' outputs is kMixed. Returns the errors of GraphBuilder::Finish. As fast as AnalyzeBatch.
Result<SplitEvaluation> SplitForEvaluation(const Graph& whole,
                                           const Graph& part, double share);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_SPLIT_MODEL_H_
