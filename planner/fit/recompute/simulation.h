#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_SIMULATION_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_SIMULATION_H_

// Simulates a training step in which some forward values are recomputed.
//
// A *gap* of a forward value is the time between two consecutive readers of the value, if the
// second reader is in a phase after forward. The first gap therefore begins at the last reader in
// forward. In each gap the value has a *fate*:
//
// - Kept: The value stays live.
// - Recomputed: The value dies. It is recomputed when the gap ends, or earlier if another
//   recomputation reads it, and then stays live.
// - Recomputed each time: The value dies after every recomputation that reads it, and is
//   recomputed for the next one.
// - Recomputed late: The value stays live only if it is recomputed after the backward pass has
//   reached a given node, for example the first reader of any value of its layer (SetStaysFrom).
//
// The operands of a recomputation are themselves kept or recomputed, so several dropped values are
// recomputed together, in the order of the graph. Views of a recomputed value are created a second
// time.
//
// The result is a script that lists the recomputed nodes and the time of each. Readers use the
// latest copy of a value. A simulation computes the live bytes at each time and the extra cost
// without building a graph. It follows the rules of planner/lifetimes.h, including those for
// in-place results. For a thousand nodes it takes some tens of microseconds.
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
  bool in_place = true;
  WorkspaceFn workspace = {};
  /// The cost of each node. If empty, a node costs its number of operations.
  CostFn cost = {};
  /// Excludes the outputs of the graph. Set for a body (ir/bodies.h), whose outputs are results of
  /// the node and not in the body's arena.
  bool outputs_outside = false;
};

/// A gap of a forward value between two nodes that read it. If the value has no later reader, `end`
/// is the number of nodes. If it has no reader in forward, its first gap begins at its producer.
struct Gap {
  ValueId value = 0;
  NodeId begin = 0;
  NodeId end = 0;
};

/// A node that is recomputed immediately before node `stage` of the graph.
struct Rerun {
  NodeId stage = 0;
  NodeId node = 0;
};

/// Recomputations in execution order, without views.
using Script = std::vector<Rerun>;

/// Returns whether recomputation may drop the value `id`. It must be the result of a forward node
/// and own its bytes (a root). It must not be an output, in host memory, or updated in place.
bool MayBeDropped(const Graph& graph, const Layouts& layouts, const Uses& uses,
                  ValueId id);

class Simulation {
 public:
  /// `graph` must outlive the simulation.
  Simulation(const Graph& graph, const SimulationOptions& options);

  /// Returns the values that recomputation may drop (MayBeDropped).
  std::span<const ValueId> candidates() const { return candidates_; }
  bool is_candidate(ValueId id) const { return !gaps_of(id).empty(); }
  /// Returns whether a node of a later phase reads the candidate or a view of it.
  bool is_saved(ValueId id) const {
    return is_candidate(id) && gaps_of(id).front().end < graph_.num_nodes();
  }
  /// Returns all gaps, grouped by value. The gaps of a value are in order of time.
  std::span<const Gap> gaps() const { return gaps_; }
  std::span<const Gap> gaps_of(ValueId id) const {
    return std::span(gaps_).subspan(
        first_gap_[Index(id)],
        first_gap_[Index(id) + 1] - first_gap_[Index(id)]);
  }
  size_t first_gap(ValueId id) const { return first_gap_[Index(id)]; }

  /// Sets, for each value, the first node of the graph from which on a copy that is recomputed late
  /// stays live. The default, 0, keeps all copies live.
  void SetStaysFrom(std::vector<NodeId> stages) {
    stays_from_ = std::move(stages);
    base_.clear();
  }
  NodeId stays_from(ValueId id) const { return stays_from_[Index(id)]; }

  /// Returns, for each gap, the fate in the unmodified step: kKept if a node of the graph reads the
  /// value at its end, otherwise kRecomputed.
  const std::vector<Fate>& AsGiven() const { return as_given_; }

  /// Simulates the step with a fate for every gap, or with a script. Returns false if a
  /// recomputation reads a value that has been updated in place before it. Also returns false if a
  /// script is not in ascending order of stages, or recomputes a node before its first run. Linear
  /// in the number of nodes run, except for sorting.
  bool Run(std::span<const Fate> fates);
  bool Run(const Script& script);
  /// Like Run, for fates from which the next runs differ little. Until the next RunBase, every
  /// Run(fates) starts at the first stage that depends on a different fate. Its results do not
  /// change.
  bool RunBase(std::span<const Fate> fates);

  // The following describe the latest Run that returned true.

  /// One run of a node. Operands and results are instances. An instance is the id of a value of the
  /// graph, or a larger number for a recomputed copy.
  struct Item {
    NodeId node = 0;
    NodeId stage = 0;          // the node of the graph it runs for
    int32_t operands = 0;      // index of its first operand in operands()
    int32_t first_result = 0;  // the instance of result 0; the others follow
    bool again = false;
  };
  std::span<const Item> items() const { return now_.items; }
  std::span<const int32_t> operands() const { return now_.operands; }
  Script script() const;
  /// Returns the live bytes at each time. The last entry is for the time after the last node.
  std::span<const Bytes> live() const { return live_; }
  Bytes peak() const { return peak_; }
  double extra_cost() const { return now_.extra_cost; }
  int nodes_again() const {  // views and reloads do not count
    return now_.nodes_again;
  }

  // The following describe the graph.
  double node_cost(NodeId id) const { return nodes_[Index(id)].cost; }
  bool is_view(NodeId id) const { return nodes_[Index(id)].is_view; }
  double cost() const { return cost_; }
  Bytes workspace(NodeId id) const { return nodes_[Index(id)].workspace; }
  /// Returns the last node immediately before which node `id` can be recomputed. After it, a value
  /// that node `id` reads or produces has been updated in place. Updates, collectives, and copies
  /// to or from the host run once, and `id` itself is returned for them. Reloads of params and
  /// states can run more than once.
  NodeId last_stage(NodeId id) const { return nodes_[Index(id)].last_stage; }
  /// Returns whether result 0 of the node may be written over `root` if `root` dies at the node
  /// (ir/uses.h).
  bool may_take_over(NodeId id, ValueId root) const;
  ValueId root(ValueId id) const { return values_[Index(id)].root; }
  const Uses& uses() const { return uses_; }
  /// Returns the bytes of the value in the arena, rounded up to the alignment.
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

/// Returns the graph of the latest Run of `simulation` on `graph`, with recomputed nodes.
Result<Graph> Rewrite(const Graph& graph, const Simulation& simulation);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_SIMULATION_H_
