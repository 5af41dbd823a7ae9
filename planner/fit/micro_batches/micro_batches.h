#ifndef STOWAGE_PLANNER_FIT_MICRO_BATCHES_MICRO_BATCHES_H_
#define STOWAGE_PLANNER_FIT_MICRO_BATCHES_MICRO_BATCHES_H_

// A step that takes its batch in micro-batches, and the sample it is planned by.
//
// Micro-batches run one after the other, their gradients add up, and only one micro-batch's
// activations are alive at a time. More micro-batches need less for these, but the sums
// of gradients have to live from one to the next.
//
// Between the first micro-batch and the last, micro-batches of one size do the same. So a
// step is planned as a *sample* that has one micro-batch of each kind, whose nodes cost
// as much as all micro-batches of the kind together. The sample has the peak of the
// whole step, and what is chosen for one of its micro-batches is done in all that are
// like it: the effort does not grow with the number of micro-batches.
//
//   StepBuilder build = ...;  // who builds a step is not known here
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
  /// Inputs of which the micro-batch takes the first part, by a `slice` of the first axis;
  /// the next micro-batch takes the next.
  std::vector<std::string> cut;
  /// Fills that the micro-batch puts its part into, by a `slice_update` at place 0; the next
  /// micro-batch's follows.
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

/// A graph as it is, as a step of one micro-batch.
StepBuilder OfGraph(Graph graph);

}  // namespace stowage

namespace stowage::fit {

/// Whether every micro-batch stands for itself alone.
bool IsWhole(const SampledStep& step);

/// How many nodes of the whole step a node stands for.
int64_t CountOf(const SampledStep& step, NodeId node);

/// Operations of the whole step.
double FlopsOf(const SampledStep& step);

/// What `script` runs again in a micro-batch of `sample`, run again in every micro-batch of
/// `step` that is like it: whose nodes, views aside, have the same ops and types.
/// Error kInvalidArgument: a micro-batch of `step` is like none, or the script mixes
/// micro-batches.
Result<Script> StretchScript(const SampledStep& sample, const Script& script,
                             const SampledStep& step);

/// The names of values of `graph` that `names` mean: a name, or what each of the
/// micro-batches calls it. A name that means nothing stays as it is.
std::vector<std::string> NamesInMicroBatches(
    const Graph& graph, const std::vector<std::string>& names,
    int64_t micro_batches);

/// What runs again in many micro-batches, told once, by its name without the micro-batch's.
std::vector<RecomputedNode> InAllMicroBatches(
    std::vector<RecomputedNode> of_each);

// From one micro-batch of a batch to the step of all: a loop whose body is the micro-batch.
//
//   sample                                  step
//   part = slice(ids, 0, 0, 1)              view = reshape(ids, (64, 1, 1024))
//   ...                                     sums = loop 64 times (view sliced; params)
//   dw = matmul(...)                          ...
//   grad:w = add(sum:w, dw)                   dw = matmul(...)
//   w, m = update(w, m, grad:w)               grad:w = add(sum:w, dw)
//                                           w, m = update(w, m, grad:w)
//
// Memory optimizations do what they do to the sample, in which a micro-batch is nodes like any others, and
// the loop is made last. The live bytes of the step at each time of its body are those
// of the sample: what adds up lies there from the start, as leaves of role saved.
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
