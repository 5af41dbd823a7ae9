#ifndef STOWAGE_AUTODIFF_SPLIT_MODEL_H_
#define STOWAGE_AUTODIFF_SPLIT_MODEL_H_

// A model as its micro-batches run it. What they cannot know alone, the totals of
// autodiff/batch_analysis.h, are leaves, "total:<value>", which are made of the inputs of
// all micro-batches before the first of them; and where a sum over the examples meets a
// mean, the mean counts by the micro-batch's share.
//
//   sum(loss * mask) / sum(mask)    of a batch of 8, as two micro-batches:
//
//   total:m = sum(mask[0:4]) + sum(mask[4:8])
//   loss    = sum(loss[0:4] * mask[0:4]) / total:m + sum(loss[4:8] * mask[4:8]) / total:m
//
//   SplitModel model(whole, whole, "loss", {});
//   for each micro-batch: STOWAGE_RETURN_IF_ERROR(model.Add(micro_batch));
//   STOWAGE_RETURN_IF_ERROR(model.EmitTotals(leaf, &g));
//   ... model.graph(micro_batch), model.total(leaf) ...

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/batch_analysis.h"
#include "autodiff/ranks.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

/// What nodes that make totals say that they are for (Node::origin).
inline constexpr std::string_view kTotals = "totals";

/// The graph that runs in the place of `micro_batch`, which is `share` of the batch: what
/// it cannot know (totals, constants of the whole batch) are inputs, TotalName, and what
/// counts by the share does. It has all outputs, and `loss`.
Result<Graph> RewriteMicroBatch(const Graph& micro_batch,
                                const BatchAnalysis& analysis, double share,
                                std::string_view loss);

/// The name of the input that stands for `value` of a micro-batch.
std::string TotalName(const Graph& micro_batch, ValueId value);

/// What `analysis` says that a micro-batch cannot know: totals, then constants.
std::vector<ValueId> UnknownTo(const BatchAnalysis& analysis);

/// By node: whether one of `wanted` follows from it. What is `known`, by value, needs no
/// node.
std::vector<bool> NodesFor(const Graph& graph, std::vector<ValueId> wanted,
                           const std::vector<bool>& known);

class SplitModel {
 public:
  /// The micro-batches make up `part` of the batch `whole`, or all of it; other ranks have
  /// the rest. With `allows_change`, outputs are split that micro-batches change. All
  /// graphs must outlive this.
  SplitModel(const Graph& whole, const Graph& part, std::string_view loss,
             const Ranks& ranks, bool allows_change)
      : whole_(whole),
        loss_(loss),
        ranks_(ranks),
        allows_change_(allows_change),
        axes_(whole, part) {}

  /// Notes the next micro-batch. Errors: it is not a part; kUnsupported for one that
  /// changes an output, with the value where that begins.
  Status Add(const Graph& micro_batch);

  /// Whether there is anything that one micro-batch cannot know.
  bool has_totals() const;

  /// Emits the totals, whose nodes have the origin kTotals, given what stands for a leaf
  /// of `whole` by its name.
  void EmitTotals(const std::function<Value(std::string_view)>& leaf,
                  GraphBuilder* g);

  /// The graph that runs in the place of `micro_batch`.
  const Graph& graph(const Graph& micro_batch) const {
    return models_.at(&micro_batch).graph;
  }
  /// How an output follows from those of the micro-batches. Mixed counts as a mean.
  BatchKind KindOf(const Graph& micro_batch, std::string_view output) const;
  /// What the gradient of the loss of a micro-batch counts for that is `share` of the
  /// batch.
  double LossWeight(const Graph& micro_batch, double share) const {
    return KindOf(micro_batch, loss_) == BatchKind::kSum ? 1 : share;
  }
  /// What stands for a leaf that a graph has for a total; nothing for other leaves.
  std::optional<Value> total(std::string_view leaf) const;

 private:
  struct Model {
    BatchAnalysis analysis;
    Graph graph = {};
  };
  // A micro-batch, and where in the inputs it lies.
  struct Place {
    const Graph& micro_batch;
    BatchAxes axes;
  };

  Value Combined(size_t total, const std::vector<Value>& parts) const;

  const Graph& whole_;
  const std::string_view loss_;
  const Ranks ranks_;
  const bool allows_change_;
  BatchAxes axes_;
  std::map<const Graph*, Model> models_;
  std::vector<Place> places_;
  std::map<std::string, Value, std::less<>> totals_;  // by leaf
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_SPLIT_MODEL_H_
