#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_SIMULATION_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_SIMULATION_H_

// Simulates a training step with recomputation of some forward values.
//
// A *gap* of a forward value lies between its last reader in forward and its first reader in a
// later phase, and between any two readers there. In each gap the value has a *fate*:
//
// - Kept: it stays live.
// - Recomputed: it dies, and is recomputed when the gap ends, or earlier if another
//   recomputation reads it; then it stays live.
// - Recomputed each time: it does not stay live after a recomputation that read it.
// - Recomputed late: it stays live only if it is recomputed once the backward pass has reached
//   its part of the network (SetStaysFrom).
//
// The operands of a recomputation are themselves kept or recomputed, so several dropped values
// are recomputed in the order of the graph. Views are created again from the current root.
//
// The result is a script: which nodes are recomputed, and when. Readers use the latest copy. A
// simulation gives the live bytes at each time and the extra cost by the rules of
// planner/lifetimes.h, in-place results included, without building a graph, in some tens of
// microseconds for a thousand nodes.
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
  Bytes alignment = 256;  // sizes are rounded up to it
  bool in_place = true;
  WorkspaceFn workspace = {};
  CostFn cost = {};  // empty: the ops' own counts of operations
  /// For a body (ir/bodies.h): its outputs are the results of its node and do not count.
  bool outputs_outside = false;
};

/// A gap of a forward value between the nodes that read it before and after; without a later
/// reader, `end` is the number of nodes.
struct Gap {
  ValueId value = 0;
  NodeId begin = 0;
  NodeId end = 0;
};

/// A node that is recomputed right before node `stage` of the graph runs.
struct Rerun {
  NodeId stage = 0;
  NodeId node = 0;
};

/// In execution order, without views.
using Script = std::vector<Rerun>;

/// Whether recomputation may drop the value `id`: a root that the forward pass computes, and
/// no output, on the host, or overwritten.
bool MayBeDropped(const Graph& graph, const Layouts& layouts, const Uses& uses,
                  ValueId id);

class Simulation {
 public:
  /// `graph` must outlive this.
  Simulation(const Graph& graph, const SimulationOptions& options);

  /// Values that may be dropped: results of forward nodes that own bytes and are not outputs.
  std::span<const ValueId> candidates() const { return candidates_; }
  bool is_candidate(ValueId id) const { return !gaps_of(id).empty(); }
  /// Whether a node of a later phase reads the candidate, or a view of it.
  bool is_saved(ValueId id) const {
    return is_candidate(id) && gaps_of(id).front().end < graph_.num_nodes();
  }
  /// All gaps, grouped by value, by time.
  std::span<const Gap> gaps() const { return gaps_; }
  std::span<const Gap> gaps_of(ValueId id) const {
    return std::span(gaps_).subspan(
        first_gap_[Index(id)],
        first_gap_[Index(id) + 1] - first_gap_[Index(id)]);
  }
  size_t first_gap(ValueId id) const { return first_gap_[Index(id)]; }

  /// By value: the node from which on a copy that is recomputed late stays live. Default 0: all
  /// copies stay live.
  void SetStaysFrom(std::vector<NodeId> stages) {
    stays_from_ = std::move(stages);
    base_.clear();
  }
  NodeId stays_from(ValueId id) const { return stays_from_[Index(id)]; }

  /// By gap: kept if a node of the graph reads the value at its end, else recomputed on demand.
  const std::vector<Fate>& AsGiven() const { return as_given_; }

  /// Simulates the step with a fate for every gap, or with a script. False if a recomputed node
  /// reads a param that has been updated by then, or a script reads a dead value. Linear in the
  /// nodes run, but for sorting.
  bool Run(std::span<const Fate> fates);
  bool Run(const Script& script);
  /// Run, for fates that the next runs differ little from: until the next RunBase, runs begin
  /// where they first depend on a fate that differs. The results are those of Run.
  bool RunBase(std::span<const Fate> fates);

  // Of the latest Run that returned true.

  /// One node run. Operands and results are instances: ids of values of the graph, or larger
  /// numbers for recomputed copies.
  struct Item {
    NodeId node = 0;
    NodeId stage = 0;          // the node of the graph that it runs for
    int32_t operands = 0;      // first of its operands in operands()
    int32_t first_result = 0;  // instance of result 0; the others follow
    bool again = false;
  };
  std::span<const Item> items() const { return now_.items; }
  std::span<const int32_t> operands() const { return now_.operands; }
  Script script() const;
  /// Live bytes by time; the last entry is after the end.
  std::span<const Bytes> live() const { return live_; }
  Bytes peak() const { return peak_; }
  double extra_cost() const { return now_.extra_cost; }
  int nodes_again() const {  // views and reloads not counted
    return now_.nodes_again;
  }

  // Of the graph.
  double node_cost(NodeId id) const { return nodes_[Index(id)].cost; }
  bool is_view(NodeId id) const { return nodes_[Index(id)].is_view; }
  double cost() const { return cost_; }
  Bytes workspace(NodeId id) const { return nodes_[Index(id)].workspace; }
  /// The last node right before which this one can be recomputed; later, a param that it reads,
  /// or its result, has been updated in place. Updates and copies to or from the host run once,
  /// except for reloads of params and states.
  NodeId last_stage(NodeId id) const { return nodes_[Index(id)].last_stage; }
  /// Whether result 0 of the node may be written over the root if that dies there (ir/uses.h).
  bool may_take_over(NodeId id, ValueId root) const;
  ValueId root(ValueId id) const { return values_[Index(id)].root; }
  const Uses& uses() const { return uses_; }
  /// In the arena, rounded up to the alignment.
  Bytes bytes(ValueId id) const { return values_[Index(id)].slot; }

 private:
  // The graph in a compact form for runs, of which a search makes a hundred thousand.
  struct NodeInfo {
    double cost = 0;
    Bytes workspace = 0;
    int32_t first_input = 0;  // in inputs_
    int32_t num_inputs = 0;
    int32_t first_check = 0;  // in checks_
    int32_t num_checks = 0;
    ValueId first_result = 0;  // the others follow
    int32_t num_results = 0;
    InPlace in_place = {};
    int32_t updates = 0;
    NodeId last_stage = 0;
    bool is_view = false;
    bool is_reload = false;
    bool is_output = false;    // a result is one of the graph
    bool is_exchange = false;  // ir/uses.h
  };
  struct ValueFacts {
    Bytes slot = 0;  // bytes rounded up; 0 on the host
    ValueId root = 0;
    ValueId content = 0;  // that its leaf must still hold
  };
  // An operand that may have to be recomputed, or may be overwritten. All others stay live.
  struct Check {
    ValueId value = 0;
    ValueId root = 0;
    ValueId content = 0;
    NodeId producer = kNoNode;
  };
  // The state of a run.
  struct Progress {
    std::vector<Item> items = {};
    std::vector<int32_t> operands = {};
    std::vector<uint8_t> has_run = {};  // per node
    std::vector<int32_t> latest = {};   // per value: its instance; -1: none yet
    std::vector<NodeId> made_at = {};   // per value: the stage of that
    std::vector<ValueId> holds = {};    // per leaf: whose content
    std::vector<int32_t> gap = {};      // per value: that the stage is in
    std::vector<ValueId> value_of = {};  // per instance
    std::vector<int32_t> root_of = {};   // per instance
    std::vector<int32_t> upper = {};  // per root instance: a time past its end
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
  std::vector<ValueId> inputs_;  // of all nodes
  std::vector<Check> checks_;    // of all nodes
  std::vector<ValueFacts> values_;
  std::vector<ValueId> leaves_;
  std::vector<ValueId> saved_;  // leaves that are packed
  std::vector<ValueId> candidates_;
  std::vector<Gap> gaps_;
  std::vector<size_t> first_gap_;  // per value, and one more
  std::vector<Fate> as_given_;
  std::vector<NodeId> stays_from_;  // per value
  double cost_ = 0;

  bool has_exchanges_ = false;

  // Forward nodes run in the same way for all fates; runs continue after them.
  NodeId forward_ = 0;  // their number
  Progress at_start_;
  Progress after_forward_;

  // Of the latest RunBase.
  struct Checkpoint {
    NodeId stage = 0;  // the next
    Progress progress = {};
  };
  std::vector<Fate> base_;  // empty: none
  std::vector<Checkpoint> checkpoints_;
  std::vector<NodeId>
      asked_at_;  // per gap: the first stage that depends on its fate

  // Of a run.
  bool is_base_ = false;
  std::vector<Fate> fates_;  // empty for a script
  Progress now_;
  std::vector<int32_t> wanted_;  // per node: the search that collected it
  int32_t searches_ = 0;
  std::vector<NodeId> missing_;
  std::vector<NodeId> stack_;
  std::vector<int32_t> buffer_of_;  // per root instance; -1: outside
  struct Buffer {
    int32_t lower, upper;
    Bytes size;
  };
  std::vector<Buffer> buffers_;  // that are packed
  struct Landing {
    int32_t item, lands;  // times
  };
  std::vector<Landing> landings_;  // of exchanges, in order
  std::vector<Bytes> live_;
  Bytes peak_ = 0;
};

/// The graph of the latest Run of `simulation` on `graph`, with recomputed nodes.
Result<Graph> Rewrite(const Graph& graph, const Simulation& simulation);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_SIMULATION_H_
