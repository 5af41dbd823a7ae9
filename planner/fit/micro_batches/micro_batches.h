#ifndef STOWAGE_PLANNER_FIT_MICRO_BATCHES_MICRO_BATCHES_H_
#define STOWAGE_PLANNER_FIT_MICRO_BATCHES_MICRO_BATCHES_H_

// A step in micro-batches with gradient accumulation, and the sample by which it is planned.
//
// Micro-batches run one after the other, and only one micro-batch's activations are live at a
// time. More micro-batches need less memory for these, but the gradient sums are live from one to
// the next.
//
// Micro-batches of one size between the first and the last are alike. A step is therefore planned
// by a *sample* that has one micro-batch of each kind, whose nodes cost as much as all
// micro-batches of the kind together. The sample has the peak of the whole step, and choices for
// one of its micro-batches apply to all alike: the effort does not grow with their number.
//
//   StepBuilder build = ...;  // passed by the caller
//   Result<SampledStep> sample = build(8, Sampling::kOneOfAKind);
//   Result<Script> script = StretchScript(*sample, chosen, *build(8, Sampling::kAll));

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/recompute/simulation.h"

namespace stowage {

/// How the first micro-batch of a graph is repeated (planner/fit/micro_batches/micro_batches.h).
struct MicroBatchLoop {
  /// Inputs of which the micro-batch reads the first part, by a `slice` of the first axis, and
  /// the following micro-batches the next parts.
  std::vector<std::string> cut;
  /// Fills into which the micro-batch writes its part, by a `slice_update` at place 0; those of
  /// the following micro-batches come next.
  std::vector<std::string> joined;
};

/// A step of one or more micro-batches.
struct SampledStep {
  Graph graph;
  /// By micro-batch: its first node, and how many micro-batches of the step it stands for.
  std::vector<NodeId> begins = {0};
  std::vector<int64_t> counts = {1};
  /// The origin (Node::origin) of what is made once, before the first micro-batch, and stays; ""
  /// for nothing.
  std::string before = {};
  /// Where one micro-batch is all there is, and the rest are the updates.
  std::optional<MicroBatchLoop> loop = {};
};

/// Builds the step of so many micro-batches: all of them, one of each kind, or one for all
/// that a loop repeats. It may always build what comes before in this list.
enum class Sampling : uint8_t { kAll, kOneOfAKind, kOneForAll };
using StepBuilder = std::function<Result<SampledStep>(int64_t micro_batches,
                                                      Sampling sampling)>;

/// An unmodified graph as a step of one micro-batch.
StepBuilder OfGraph(Graph graph);

}  // namespace stowage

namespace stowage::fit {

/// Whether every micro-batch of the sample represents one of the step.
bool IsWhole(const SampledStep& step);

/// The number of nodes of the whole step that a node represents.
int64_t CountOf(const SampledStep& step, NodeId node);

/// Operations of the whole step.
double FlopsOf(const SampledStep& step);

/// The recomputations of `script` in a micro-batch of `sample`, applied to every micro-batch of
/// `step` that is alike: whose nodes, without views, have the same ops and types. Error
/// kInvalidArgument: a micro-batch of `step` has none alike, or the script mixes micro-batches.
Result<Script> StretchScript(const SampledStep& sample, const Script& script,
                             const SampledStep& step);

/// The names of values of `graph` to which `names` refer: a name itself, or its name in each of
/// the micro-batches. A name that refers to nothing stays as it is.
std::vector<std::string> NamesInMicroBatches(
    const Graph& graph, const std::vector<std::string>& names,
    int64_t micro_batches);

/// The recomputations of many micro-batches merged by names without the micro-batch.
std::vector<RecomputedNode> InAllMicroBatches(
    std::vector<RecomputedNode> of_each);

// The step of all micro-batches as a loop whose body is one micro-batch.
//
//   sample                                  step
//   part = slice(ids, 0, 0, 1)              view = reshape(ids, (64, 1, 1024))
//   ...                                     sums = loop 64 times (view sliced; params)
//   dw = matmul(...)                          ...
//   grad:w = add(sum:w, dw)                   dw = matmul(...)
//   w, m = update(w, m, grad:w)               grad:w = add(sum:w, dw)
//                                           w, m = update(w, m, grad:w)
//
// Memory optimizations apply to the sample, in which a micro-batch is ordinary nodes; the loop is
// made last. The live bytes of the step at each time of its body are those of the sample, since
// the gradient sums are live from the start, as leaves of role saved.
//
//   Result<Graph> step = RepeatMicroBatch(made.graph, *sample.loop, /*times=*/64);

/// `graph` with all its nodes but those of updates, and of the origin `before`, which are a
/// micro-batch, in a loop that runs `times` times. A leaf of role saved is where something adds up: an `add` reads
/// it, and becomes a sum over all micro-batches. Values of the micro-batch lose a "/1" at the end of
/// their names. Error kInvalidArgument: a saved leaf that is read otherwise, or an
/// update or output that reads what one micro-batch alone made. Linear.
Result<Graph> RepeatMicroBatch(const Graph& graph, const MicroBatchLoop& loop,
                               int64_t times, std::string_view before = {});

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_MICRO_BATCHES_MICRO_BATCHES_H_
