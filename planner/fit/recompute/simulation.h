#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_SIMULATION_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_SIMULATION_H_

// Simulates a training step in which some forward values are recomputed.
//
// A *gap* of a forward value is the time between two consecutive readers of the value, if the
// second reader runs after the forward pass. The first gap therefore begins at the last reader in
// the forward pass. In each gap the value has a *fate*:
//
// - Kept: The value stays live.
// - Recomputed: The value dies. It is recomputed when the gap ends, or earlier if another
//   recomputation reads it, and then stays live.
// - Recomputed each time: The value is recomputed for every recomputation that reads it, and dies
//   after each.
// - Recomputed late: The value is recomputed each time before the backward pass has reached a given
//   node, such as the first reader of any value of the same layer (SetStaysFrom). From this node
//   on, a recomputed value stays live.
//
// The operands of a recomputation are themselves kept or recomputed, so several dropped values are
// recomputed together, in the order of the graph. Views of a recomputed value are created a second
// time.
//
// The result of a simulation is a script that lists the recomputed nodes and the time of each
// recomputation. Readers use the latest copy of a value. The simulation computes the live bytes at
// each time and the extra cost without building a graph. It applies the rules of
// planner/lifetimes.h, including the rules for in-place results. For a thousand nodes it takes some
// tens of microseconds.
//
//   Simulation simulation(step, {});
//   std::vector<Fate> fates = simulation.AsGiven();
//   fates[simulation.gaps_of(ln_1).front()] = Fate::kRecomputed;
//   if (simulation.Run(fates)) simulation.peak();  // less than before, or not

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/uses.h"
#include "planner/fit/cost.h"
#include "planner/lifetimes.h"

namespace stowage::fit {

enum class Fate : uint8_t {
  kKept,
  kRecomputed,
  kRecomputedEachTime,
  kRecomputedLate,
};

struct SimulationOptions {
  /// Sizes are rounded up to a multiple of this number of bytes.
  Bytes alignment = 256;
  /// Whether results may overwrite operands that die.
  bool in_place = true;
  WorkspaceFn workspace = {};  // If empty, nodes need no workspace.
  /// The cost of each node. If empty, a node costs its number of operations.
  CostFn cost = {};
  /// If true, the outputs of the graph do not count as live bytes. Must be set for a body
  /// (ir/bodies.h), whose outputs are outside the body's arena.
  bool outputs_outside = false;
};

/// A gap of a forward value between the nodes `begin` and `end`, which read it. If no node after
/// the forward pass reads the value, `end` is the number of nodes. If no node of the forward pass
/// reads it, the first gap begins at its producer.
struct Gap {
  ValueId value = 0;
  NodeId begin = 0;
  NodeId end = 0;
};

/// The recomputation of `node` immediately before node `stage` of the graph.
struct Rerun {
  NodeId stage = 0;
  NodeId node = 0;
};

/// Recomputations in execution order, without views.
using Script = std::vector<Rerun>;

/// Returns whether recomputation may drop the value `id`. Such a value is a result of a forward
/// node and owns its bytes. It is not an output, in host memory, or updated in place.
bool MayBeDropped(const Graph& graph, const Layouts& layouts, const Uses& uses,
                  ValueId id);

class Simulation {
 public:
  /// Prepares simulations of `graph`, which must outlive this object.
  Simulation(const Graph& graph, const SimulationOptions& options);

  /// Returns the values that recomputation may drop (MayBeDropped), the candidates.
  std::span<const ValueId> candidates() const { return candidates_; }
  bool is_candidate(ValueId id) const { return !gaps_of(id).empty(); }
  /// Returns whether the value is a candidate, and a node after the forward pass reads it or a view
  /// of it.
  bool is_saved(ValueId id) const {
    return is_candidate(id) && gaps_of(id).front().end < graph_.num_nodes();
  }
  /// Returns the gaps of all candidates, grouped by value. The gaps of a value are in order of
  /// time.
  std::span<const Gap> gaps() const { return gaps_; }
  /// Returns the gaps of value `id`, which are empty unless it is a candidate.
  std::span<const Gap> gaps_of(ValueId id) const {
    return std::span(gaps_).subspan(
        first_gap_[Index(id)],
        first_gap_[Index(id) + 1] - first_gap_[Index(id)]);
  }
  /// Returns the index of the first gap of value `id` in gaps().
  size_t first_gap(ValueId id) const { return first_gap_[Index(id)]; }

  /// Sets, for each value, the node from which on the value stays live after it has been
  /// recomputed, if its fate is kRecomputedLate. The default, 0, means that it always stays live.
  void SetStaysFrom(std::vector<NodeId> stages) {
    stays_from_ = std::move(stages);
    base_.clear();
  }
  NodeId stays_from(ValueId id) const { return stays_from_[Index(id)]; }

  /// Returns, for each gap, the fate in the unmodified step: kKept if a node reads the value at the
  /// end of the gap, otherwise kRecomputed.
  const std::vector<Fate>& AsGiven() const { return as_given_; }

  /// Simulates the step with a fate for every gap, in the order of gaps(). Returns false if a
  /// recomputation would read a value that has been updated in place before. Linear in the number
  /// of nodes that run, except for sorting.
  bool Run(std::span<const Fate> fates);
  /// Simulates the step with the recomputations of `script`. Returns false if a recomputation would
  /// read a value that has been updated in place before, if the stages are not in ascending order,
  /// or if a node is recomputed before its first run. Linear in the number of nodes that run,
  /// except for sorting.
  bool Run(const Script& script);
  /// Like Run, for fates from which the fates of the next runs differ little. Until the next
  /// RunBase, every Run(fates) starts near the first stage that depends on a different fate. This
  /// does not change the results.
  bool RunBase(std::span<const Fate> fates);

  // The following describe the latest Run that returned true.

  /// One run of a node. Operands and results are instances. An instance is the id of a value of the
  /// graph, or a larger number for a recomputed copy.
  struct Item {
    NodeId node = 0;
    /// The node of the graph for which it runs: itself or a later node.
    NodeId stage = 0;
    int32_t operands = 0;  // The index of its first operand in operands().
    /// The instance of result 0. The other results follow.
    int32_t first_result = 0;
    bool again = false;  // Whether the run is a recomputation.
  };
  /// Returns all runs of nodes in execution order.
  std::span<const Item> items() const { return now_.items; }
  /// Returns the operands of all items, concatenated.
  std::span<const int32_t> operands() const { return now_.operands; }
  /// Returns the recomputations of the run as a script.
  Script script() const;
  /// Returns the live bytes during each item. The last entry is for the time after the last item.
  std::span<const Bytes> live() const { return live_; }
  Bytes peak() const { return peak_; }
  double extra_cost() const { return now_.extra_cost; }
  /// Returns the number of recomputations, without views and reloads.
  int nodes_again() const { return now_.nodes_again; }

  // The following describe the graph.
  double node_cost(NodeId id) const { return nodes_[Index(id)].cost; }
  bool is_view(NodeId id) const { return nodes_[Index(id)].is_view; }
  /// Returns the cost of all nodes of the graph, without recomputation.
  double cost() const { return cost_; }
  Bytes workspace(NodeId id) const { return nodes_[Index(id)].workspace; }
  /// Returns the last node immediately before which node `id` can be recomputed. This node updates
  /// a value in place that node `id` reads or produces. If no node does, returns the number of
  /// nodes. Updates, collectives, and copies to or from the host run only once, so the result for
  /// them is `id`. Reloads of params and states are an exception, and can run more than once.
  NodeId last_stage(NodeId id) const { return nodes_[Index(id)].last_stage; }
  /// Returns whether result 0 of node `id` may be written over `root` if `root` dies at the node
  /// (InPlace in ir/uses.h).
  bool may_take_over(NodeId id, ValueId root) const;
  /// Returns the value that owns the bytes of value `id`.
  ValueId root(ValueId id) const { return values_[Index(id)].root; }
  const Uses& uses() const { return uses_; }
  /// Returns the bytes of value `id`, rounded up to the alignment. Returns 0 if the value is in
  /// host memory, or is an output and SimulationOptions::outputs_outside is set.
  Bytes bytes(ValueId id) const { return values_[Index(id)].slot; }

 private:
  // The graph in a compact form for runs. A search makes about a hundred thousand runs.
  struct NodeInfo {
    double cost = 0;
    Bytes workspace = 0;
    int32_t first_input = 0;  // index in inputs_
    int32_t num_inputs = 0;
    int32_t first_check = 0;  // index in checks_
    int32_t num_checks = 0;
    ValueId first_result = 0;  // the other results follow
    int32_t num_results = 0;
    InPlace in_place = {};
    int32_t updates = 0;
    NodeId last_stage = 0;
    bool is_view = false;
    bool is_reload = false;
    bool is_output = false;    // a result is an output of the graph
    bool is_exchange = false;  // the node is a collective (ir/uses.h)
  };
  struct ValueFacts {
    Bytes slot = 0;  // bytes, rounded up; 0 if not in the arena
    ValueId root = 0;
    ValueId content = 0;  // the content that its root must still hold
  };
  // An operand that may have to be recomputed or may be updated in place. All other operands stay
  // live.
  struct Check {
    ValueId value = 0;
    ValueId root = 0;
    ValueId content = 0;
    NodeId producer = kNoNode;
  };
  // The state of a run in progress.
  struct Progress {
    std::vector<Item> items = {};
    std::vector<int32_t> operands = {};
    std::vector<uint8_t> has_run = {};   // by node
    std::vector<int32_t> latest = {};    // by value: its instance, -1 if none
    std::vector<NodeId> made_at = {};    // by value: the stage of `latest`
    std::vector<ValueId> holds = {};     // by leaf: the content it holds
    std::vector<int32_t> gap = {};       // by value: the current gap
    std::vector<ValueId> value_of = {};  // by instance
    std::vector<int32_t> root_of = {};   // by instance
    std::vector<int32_t> upper = {};     // by root: end of its live range
    double extra_cost = 0;
    int nodes_again = 0;
  };

  std::span<const ValueId> inputs(const NodeInfo& info) const {
    return std::span(inputs_).subspan(Index(info.first_input),
                                      Index(info.num_inputs));
  }
  std::span<const Check> checks(const NodeInfo& info) const {
    return std::span(checks_).subspan(Index(info.first_check),
                                      Index(info.num_checks));
  }
  void FindLastStages();
  void FindGaps();
  void FindChecks();
  void RunForward();

  void Start(const Progress& from);
  bool RunFrom(NodeId stage);
  bool IsCurrent(const Check& check, NodeId stage);
  bool CollectMissing(NodeId node, NodeId stage);
  void Emit(NodeId id, NodeId stage);
  bool RunNode(NodeId id, NodeId stage);
  bool RunStage(NodeId stage);
  void FindLandings();
  void MeasureLifetimes();
  int32_t BufferToTakeOver(const Item& item, int32_t time) const;

  const Graph& graph_;
  const SimulationOptions options_;
  const Layouts layouts_;
  const Uses uses_;
  std::vector<NodeInfo> nodes_;
  std::vector<ValueId> inputs_;  // of all nodes, concatenated
  std::vector<Check> checks_;    // of all nodes, concatenated
  std::vector<ValueFacts> values_;
  std::vector<ValueId> leaves_;
  std::vector<ValueId> saved_;  // leaves of role saved, which are packed
  std::vector<ValueId> candidates_;
  std::vector<Gap> gaps_;
  std::vector<size_t> first_gap_;  // by value, and one more entry
  std::vector<Fate> as_given_;
  std::vector<NodeId> stays_from_;  // by value
  double cost_ = 0;

  bool has_exchanges_ = false;

  // Forward nodes run in the same way for all fates. Runs continue after them.
  NodeId forward_ = 0;  // the number of these forward nodes
  Progress at_start_;
  Progress after_forward_;

  // The state of the latest RunBase.
  struct Checkpoint {
    NodeId stage = 0;  // the next stage
    Progress progress = {};
  };
  std::vector<Fate> base_;  // empty before the first RunBase
  std::vector<Checkpoint> checkpoints_;
  std::vector<NodeId>
      asked_at_;  // by gap: the first stage that depends on its fate

  // The state of the current run.
  bool is_base_ = false;
  std::vector<Fate> fates_;  // empty for a script
  Progress now_;
  std::vector<int32_t> wanted_;  // by node: the search that collected it
  int32_t searches_ = 0;
  std::vector<NodeId> missing_;
  std::vector<NodeId> stack_;
  std::vector<int32_t> buffer_of_;  // by root instance; -1 if not packed
  struct Buffer {
    int32_t lower, upper;
    Bytes size;
  };
  std::vector<Buffer> buffers_;  // that are packed
  struct Landing {
    int32_t item, lands;  // times of its start and its completion
  };
  std::vector<Landing> landings_;  // of collectives, in execution order
  std::vector<Bytes> live_;
  Bytes peak_ = 0;
};

/// Returns the graph of the latest Run of `simulation`, a simulation of `graph`, with recomputed
/// nodes. The Run must have returned true.
Result<Graph> Rewrite(const Graph& graph, const Simulation& simulation);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_SIMULATION_H_
