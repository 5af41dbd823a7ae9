#ifndef STOWAGE_AUTODIFF_SPLIT_MODEL_H_
#define STOWAGE_AUTODIFF_SPLIT_MODEL_H_

// Models whose batch is split: the graph that a micro-batch runs in a training step, and the
// programs that evaluate many examples in parts.
//
// A micro-batch does not know the totals of autodiff/batch_analysis.h, such as the sum of a
// mask over the whole batch. They become leaves, "total:<value>", computed from the inputs
// of all micro-batches before the first one runs. Where a sum over the examples meets a
// mean, the mean is weighted by the micro-batch's share.
//
//   sum(loss * mask) / sum(mask)    of a batch of 8, as two micro-batches:
//
//   total:m = sum(mask[0:4]) + sum(mask[4:8])
//   loss    = sum(loss[0:4] * mask[0:4]) / total:m + sum(loss[4:8] * mask[4:8]) / total:m
//
// A loss that compares examples with each other is made by gradient caching
// (autodiff/gradient_cache.h): its gradients by the values of all micro-batches are
// leaves, too, of which each micro-batch reads its part.
//
//   SplitModel model(whole, whole, "loss", {}, options);
//   for each micro-batch: STOWAGE_RETURN_IF_ERROR(model.Add(micro_batch));
//   model.EmitTotals(leaf, updater.Seed(), &g);
//   ... model.graph(micro_batch), model.total(leaf) ...
//
// An evaluation in parts has two programs: one computes the totals, the other reads them.
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

/// Node::origin of the nodes that compute totals.
inline constexpr std::string_view kTotals = "totals";

/// `micro_batch`, which is `share` of the batch, as a step runs it: totals and constants of
/// the whole batch are inputs (TotalName), and operands in analysis.by_share are multiplied
/// by the share. It has all outputs and `loss`.
Result<Graph> RewriteMicroBatch(const Graph& micro_batch,
                                const BatchAnalysis& analysis, double share,
                                std::string_view loss);

/// The name of the input that replaces `value` of a micro-batch.
std::string TotalName(const Graph& micro_batch, ValueId value);

/// The values of `analysis` that a micro-batch cannot know: totals, then constants.
std::vector<ValueId> UnknownTo(const BatchAnalysis& analysis);

/// By node: whether one of `wanted` depends on it. Values that are `known` need no node.
std::vector<bool> NodesFor(const Graph& graph, std::vector<ValueId> wanted,
                           const std::vector<bool>& known);

class SplitModel {
 public:
  /// The micro-batches make up `part` of the batch `whole`, or all of it; other ranks have
  /// the rest. `options`: allow_batch_change, and the params that are trained. All must
  /// outlive this.
  SplitModel(const Graph& whole, const Graph& part, std::string_view loss,
             const Ranks& ranks, const TrainOptions& options)
      : whole_(whole),
        loss_(loss),
        ranks_(ranks),
        options_(options),
        axes_(whole, part) {}

  /// Adds the next micro-batch. Errors: it is not a part of the batch; kUnsupported if it
  /// would change an output, naming the first value that differs.
  Status Add(const Graph& micro_batch);

  /// Whether there are totals or constants of the whole batch.
  bool has_totals() const;

  /// Emits the totals and the cached gradients, from nodes of origin kTotals; `leaf` maps the
  /// name of a leaf of `whole` to its value. The gradient of the loss starts as `seed`.
  void EmitTotals(const std::function<Value(std::string_view)>& leaf,
                  const LossGradient& seed, GraphBuilder* g);

  /// The graph that a step runs for `micro_batch` (RewriteMicroBatch).
  const Graph& graph(const Graph& micro_batch) const {
    return models_.at(&micro_batch).graph;
  }
  /// How an output follows from those of the micro-batches; a mean for kMixed.
  BatchKind KindOf(const Graph& micro_batch, std::string_view output) const;
  /// The gradient of the loss of a micro-batch that is `share` of the batch; 1 for cached
  /// gradients, which start at the head.
  LossGradient Seed(const Graph& micro_batch, double share,
                    const Updater& updater) const {
    if (has_cache()) return {};
    const bool is_sum = KindOf(micro_batch, loss_) == BatchKind::kSum;
    return updater.Seed(is_sum ? 1 : share);
  }
  /// The value of a leaf that stands for a total, or for the part of a cached gradient that
  /// belongs to the micro-batch last added to `axes`; nothing for other leaves.
  std::optional<Value> total(std::string_view leaf,
                             const BatchAxes& axes) const;

  /// Whether gradients are cached (autodiff/gradient_cache.h).
  bool has_cache() const {
    return !models_.empty() && models_.begin()->second.cache.has_value();
  }
  /// Whether the head computes `output`, and its value, which EmitTotals emits.
  bool IsWholeOutput(std::string_view output) const;
  std::optional<Value> whole_output(std::string_view output) const;
  /// The names of the cached gradients of which a micro-batch reads a part, and whether each
  /// part is a slice of the first axis. Precondition: EmitTotals.
  std::vector<std::string> CachedNames(const GraphBuilder& g) const;
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

  // A cached gradient in the step; `axis` is that of the examples, or -1.
  struct Cached {
    Value value;
    int axis = -1;
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
  std::map<std::string, Cached, std::less<>> cached_;  // likewise
  std::map<std::string, Value, std::less<>> whole_outputs_;
};

/// A value that depends on the inputs of all parts alone.
struct EvaluationTotal {
  std::string input;   // of both graphs, which reads it
  std::string output;  // of totals_graph, for one part
  /// How the parts' values are joined; kSame: take any.
  BatchKind kind = BatchKind::kSum;
  int round = 0;  // it reads only totals of lower rounds
  friend bool operator==(const EvaluationTotal&,
                         const EvaluationTotal&) = default;
};

/// How an output for all examples follows from those of the parts.
struct EvaluationOutput {
  BatchKind kind = BatchKind::kMean;
  std::string why = {};  // kMixed: the reason
};

struct SplitEvaluation {
  Graph graph;         // for one part, with the totals as inputs
  Graph totals_graph;  // if there are totals
  std::vector<EvaluationTotal> totals = {};  // by rising round
  std::map<std::string, EvaluationOutput, std::less<>> outputs = {};
};

/// Joins `next`, the elements of a part's value, to `so_far`, the joined elements of the parts
/// before, empty before the first. Means, and kMixed, are weighted by the part's `share` of
/// the examples. Precondition: every part has as many elements.
void JoinPart(BatchKind kind, double share, std::span<const double> next,
              std::vector<double>* so_far);

/// How `part` evaluates `whole`, the same model for `1 / share` times as many examples. An
/// output that does not follow from those of the parts is kMixed. Errors: those of building
/// the graphs. Linear in the nodes (AnalyzeBatch).
Result<SplitEvaluation> SplitForEvaluation(const Graph& whole,
                                           const Graph& part, double share);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_SPLIT_MODEL_H_
