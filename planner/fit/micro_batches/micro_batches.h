#ifndef STOWAGE_PLANNER_FIT_MICRO_BATCHES_MICRO_BATCHES_H_
#define STOWAGE_PLANNER_FIT_MICRO_BATCHES_MICRO_BATCHES_H_

// Represents a step in micro-batches with gradient accumulation, and the sample from which it is
// planned.
//
// Micro-batches run one after the other, so the activations of only one micro-batch are live at a
// time. More micro-batches need less memory for activations, but gradient sums are live from one
// micro-batch to the next.
//
// Micro-batches of the same size between the first and the last are alike. A step is therefore
// planned from a *sample*, which has one micro-batch of each kind. The nodes of that micro-batch
// cost as much as all micro-batches of the kind together. The sample has the same peak as the whole
// step, and a choice for one of its micro-batches applies to all micro-batches that are alike. The
// search effort therefore does not grow with the number of micro-batches.
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

/// Describes how a loop repeats the single micro-batch of a graph
/// (planner/fit/micro_batches/micro_batches.h).
struct MicroBatchLoop {
  /// Names of inputs that are split along the first axis. The micro-batch reads its slice of them
  /// by a `slice` at index 0. Each following micro-batch reads the next slice.
  std::vector<std::string> cut;
  /// Names of fills into which the micro-batch writes its slice, by a `slice_update` at index 0.
  /// Each following micro-batch writes the next slice.
  std::vector<std::string> joined;
};

/// A step of one or more micro-batches.
struct SampledStep {
  Graph graph;
  /// By micro-batch: its first node, and the number of micro-batches of the step that it
  /// represents.
  std::vector<NodeId> begins = {0};
  std::vector<int64_t> counts = {1};
  /// The origin (Node::origin) of nodes that run once, before the first micro-batch. Their results
  /// are kept for all micro-batches. "" if there are none.
  std::string before = {};
  /// Set if the graph contains a single micro-batch, which a loop repeats, followed by the updates.
  std::optional<MicroBatchLoop> loop = {};
};

/// The micro-batches that a StepBuilder includes: all of them, one of each kind, or a single one
/// that a loop repeats. A builder may always return the step for an earlier enumerator instead.
enum class Sampling : uint8_t { kAll, kOneOfAKind, kOneForAll };
using StepBuilder = std::function<Result<SampledStep>(int64_t micro_batches,
                                                      Sampling sampling)>;

/// Returns a builder of an unmodified graph as a step of one micro-batch.
StepBuilder OfGraph(Graph graph);

}  // namespace stowage

namespace stowage::fit {

/// Returns whether every micro-batch of `step` represents exactly one micro-batch.
bool IsWhole(const SampledStep& step);

/// Returns the number of nodes of the whole step that `node` represents.
int64_t CountOf(const SampledStep& step, NodeId node);

/// Returns the operations of the whole step.
double FlopsOf(const SampledStep& step);

/// Returns the recomputations of `script`, a script for `sample`, for every micro-batch of `step`.
/// A micro-batch of `step` uses the recomputations of the micro-batch of `sample` that is like it,
/// that is, whose nodes, without views, have the same ops and types. Returns kInvalidArgument if
/// there is none, or if a recomputation of the script uses nodes of two micro-batches.
Result<Script> StretchScript(const SampledStep& sample, const Script& script,
                             const SampledStep& step);

/// Returns the names of the values of `graph` to which `names` refer. A name refers to the value of
/// that name, or to the values of that name in each micro-batch ("<name>/<number>"). A name that
/// refers to nothing is returned unmodified.
std::vector<std::string> NamesInMicroBatches(
    const Graph& graph, const std::vector<std::string>& names,
    int64_t micro_batches);

/// Merges the recomputations of many micro-batches by name, without the suffix for the micro-batch.
std::vector<RecomputedNode> InAllMicroBatches(
    std::vector<RecomputedNode> of_each);

// Represents the step as a loop whose body is one micro-batch.
//
//   sample                                  step
//   part = slice(ids, 0, 0, 1)              view = reshape(ids, (64, 1, 1024))
//   ...                                     sums = loop 64 times (view sliced; params)
//   dw = matmul(...)                          ...
//   grad:w = add(sum:w, dw)                   dw = matmul(...)
//   w, m = update(w, m, grad:w)               grad:w = add(sum:w, dw)
//                                           w, m = update(w, m, grad:w)
//
// Memory optimizations apply to the sample, in which a micro-batch consists of ordinary nodes. The
// loop is created last. At each time in its body, the step has the live bytes of the sample,
// because the gradient sums are live from the start, as leaves of role saved.
//
//   Result<Graph> step = RepeatMicroBatch(made.graph, *sample.loop, /*times=*/64);

/// Returns `graph` with its micro-batch in a loop that runs `times` times. The micro-batch consists
/// of all nodes except updates and nodes of the origin `before`. A leaf of role saved is an
/// accumulator: the `add` that reads it becomes a sum over all micro-batches. The suffix "/1" of
/// names in the micro-batch is removed. Returns kInvalidArgument if a saved leaf is read in any
/// other way, or if an update or output reads a value of a single micro-batch. Linear.
Result<Graph> RepeatMicroBatch(const Graph& graph, const MicroBatchLoop& loop,
                               int64_t times, std::string_view before = {});

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_MICRO_BATCHES_MICRO_BATCHES_H_
