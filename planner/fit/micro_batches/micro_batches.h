#ifndef STOWAGE_PLANNER_FIT_MICRO_BATCHES_MICRO_BATCHES_H_
#define STOWAGE_PLANNER_FIT_MICRO_BATCHES_MICRO_BATCHES_H_

// Represents a training step with gradient accumulation over micro-batches, and the sample from
// which the step is planned.
//
// Micro-batches run one after the other, so the activations of only one micro-batch are live at a
// time. More micro-batches need less memory for activations, but gradient sums are live from one
// micro-batch to the next.
//
// Two micro-batches are alike if they have the same size and neither is the first or the last. A
// step is therefore planned from a *sample*, which has one micro-batch of each kind. The nodes of
// this micro-batch cost as much as all micro-batches of the kind together. The sample has the same
// peak as the whole step, and a choice for a micro-batch of the sample applies to all micro-batches
// like it. The search effort therefore does not grow with the number of micro-batches.
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

/// Describes how a loop repeats the single micro-batch of a graph (fit::RepeatMicroBatch).
struct MicroBatchLoop {
  /// Names of inputs that are split along the first axis. The micro-batch of the graph reads the
  /// first slice of them by a `slice` at index 0. Each iteration of the loop reads the next slice.
  std::vector<std::string> cut;
  /// Names of `fill` results into which the micro-batch of the graph writes the first slice, by a
  /// `slice_update` at index 0. Each iteration of the loop writes the next slice.
  std::vector<std::string> joined;
};

/// A step of one or more micro-batches.
struct SampledStep {
  Graph graph;
  /// The first node of each micro-batch of `graph`, in ascending order. The first entry is 0.
  std::vector<NodeId> begins = {0};
  /// For each micro-batch of `graph`, the number of micro-batches of the step that it represents.
  std::vector<int64_t> counts = {1};
  /// The origin (Node::origin) of nodes that run once, before the first micro-batch. Their results
  /// are kept for all micro-batches. "" if there are none.
  std::string before = {};
  /// Set if the graph contains a single micro-batch, which a loop repeats, followed by the updates.
  std::optional<MicroBatchLoop> loop = {};
};

/// The micro-batches that the graph of a step contains: all of them, one of each kind, or a single
/// one that a loop repeats.
enum class Sampling : uint8_t { kAll, kOneOfAKind, kOneForAll };

/// Returns the step with this number of micro-batches, for a sampling. Instead, the builder may
/// return the step for an earlier enumerator of Sampling. It returns kUnsupported if the step
/// cannot be split into this number of micro-batches.
using StepBuilder = std::function<Result<SampledStep>(int64_t micro_batches,
                                                      Sampling sampling)>;

/// Returns a builder that always returns `graph`, as a step of one micro-batch.
StepBuilder OfGraph(Graph graph);

}  // namespace stowage

namespace stowage::fit {

/// Returns whether `step` is the whole step, in which every micro-batch represents only itself.
bool IsWhole(const SampledStep& step);

/// Returns the number of nodes of the whole step that `node`, a node of `step`, represents.
int64_t CountOf(const SampledStep& step, NodeId node);

/// Returns the number of operations of the whole step that `step` represents.
double FlopsOf(const SampledStep& step);

/// Returns a script for `step` that applies `script`, a script for `sample`, to every micro-batch.
/// A micro-batch of `step` gets the recomputations of the micro-batch of `sample` that is like it:
/// without views, the nodes of both have the same ops and types in the same order. Returns
/// kInvalidArgument if no micro-batch of `sample` is like it, or if a recomputation of `script`
/// uses nodes of two micro-batches.
Result<Script> StretchScript(const SampledStep& sample, const Script& script,
                             const SampledStep& step);

/// Returns the names of the values of `graph` to which `names` refer. A name refers to the value
/// with this name. If there is none, it refers to the values "<name>/<number>" of all
/// micro-batches, where the numbers are 1 to `micro_batches`. A name that refers to nothing is
/// returned unmodified.
std::vector<std::string> NamesInMicroBatches(
    const Graph& graph, const std::vector<std::string>& names,
    int64_t micro_batches);

/// Merges the recomputations of corresponding nodes in all micro-batches. These nodes have the same
/// name except for the suffix "/<number>", which the result omits. Adds their operations and times,
/// and returns the largest of their freed bytes.
std::vector<RecomputedNode> InAllMicroBatches(
    std::vector<RecomputedNode> of_each);

// RepeatMicroBatch converts a step with one micro-batch to a step with a loop whose body is the
// micro-batch.
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
// loop is created last. At each time in its body, the live bytes are the live bytes of the sample
// at this time, because the gradient sums of the sample are leaves of role saved and therefore live
// from the start.
//
//   Result<Graph> step = RepeatMicroBatch(made.graph, *sample.loop, /*times=*/64);

/// Returns `graph` with its micro-batch in a loop that runs `times` times. The micro-batch consists
/// of all nodes except updates and nodes of the origin `before`. `times` must divide the first
/// dimension of the inputs in `loop.cut`. A leaf of role saved is an accumulator: the `add` whose
/// first operand it is becomes a sum over all micro-batches. The suffix "/1" of names in the
/// micro-batch is removed. Returns kInvalidArgument if the micro-batch reads a saved leaf in
/// another way, or if an update or output reads a value of a single micro-batch. Linear in the
/// number of nodes, times the number of values in `loop`.
Result<Graph> RepeatMicroBatch(const Graph& graph, const MicroBatchLoop& loop,
                               int64_t times, std::string_view before = {});

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_MICRO_BATCHES_MICRO_BATCHES_H_
