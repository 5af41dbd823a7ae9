#ifndef STOWAGE_PLANNER_REHEARSAL_H_
#define STOWAGE_PLANNER_REHEARSAL_H_

// A training step played through with some of its forward values made twice.
//
// Every forward value that owns bytes has a fate. *Kept*, it stays from its
// making to its last reader, as in the graph. *Remade*, it dies after the last
// forward node that reads it, and is made again right before the first later
// node that wants it; then it stays. *Remade each time*, it is made again for
// every later node that wants it. What remaking reads is itself kept or remade,
// so chains through several dropped values follow of themselves, in the order
// of the graph; views are taken again from whatever their root is by then.
//
// A rehearsal gives the schedule, the live bytes at each of its times and the
// extra operations, by the rules of planner/lifetimes.h, in-place results
// included, without making a graph: a search can rehearse thousands of fates.
//
//   Rehearsal rehearsal(step, {});
//   std::vector<Fate> fates = rehearsal.AsGiven();
//   fates[ln_1] = Fate::kRemade;
//   if (rehearsal.Run(fates)) rehearsal.peak();  // less than before, or not

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "planner/lifetimes.h"

namespace stowage {

enum class Fate : uint8_t { kKept, kRemade, kRemadeEachTime };

struct RehearsalOptions {
  Bytes alignment = 256;  // sizes are rounded up to it
  bool in_place = true;
  WorkspaceFn workspace = {};
};

class Rehearsal {
 public:
  /// `graph` must outlive this.
  Rehearsal(const Graph& graph, const RehearsalOptions& options);

  /// By value: everything that the graph itself keeps for later phases is kept,
  /// all other forward values would be remade if a chain wanted them.
  const std::vector<Fate>& AsGiven() const { return as_given_; }

  /// Values whose fate matters: results of forward nodes that own bytes and are
  /// no outputs, in order.
  std::span<const ValueId> candidates() const { return candidates_; }
  /// Whether a node of a later phase reads the candidate, or a view of it.
  bool is_saved(ValueId id) const {
    return is_candidate_[Index(id)] && as_given_[Index(id)] == Fate::kKept;
  }

  /// Plays the step through. False when a node that has to run again reads a
  /// param that has been updated by then. Fates of other values than candidates
  /// are not looked at. Linear in the nodes run, but for the sorting of each
  /// chain.
  bool Run(std::span<const Fate> fates);

  // Of the latest Run that was true.

  /// One node run; operands and results are instances: the values of the graph
  /// by their ids, and beyond these, what was made again.
  struct Item {
    NodeId node = 0;
    int32_t operands = 0;      // first of its operands in operands()
    int32_t first_result = 0;  // instance of result 0; the others follow
    bool again = false;
  };
  std::span<const Item> items() const { return items_; }
  std::span<const int32_t> operands() const { return operands_; }
  bool is_dropped(ValueId id) const {
    return is_candidate_[Index(id)] && fates_[Index(id)] != Fate::kKept;
  }
  /// Live bytes of all that is packed, by time, the moment after the end last.
  std::span<const Bytes> live() const { return live_; }
  Bytes peak() const { return peak_; }
  double extra_flops() const { return extra_flops_; }
  int nodes_again() const { return nodes_again_; }  // views not counted

  // Of the graph.
  double node_flops(NodeId id) const { return nodes_[Index(id)].flops; }
  bool is_view(NodeId id) const { return nodes_[Index(id)].is_view; }
  double flops() const { return flops_; }
  ValueId root(ValueId id) const { return layouts_[Index(id)].root; }
  /// Rounded up to the alignment.
  Bytes bytes(ValueId id) const { return sizes_[Index(id)]; }
  /// The last node that wants the value before a later phase does.
  NodeId last_forward_use(ValueId id) const {
    return last_forward_use_[Index(id)];
  }

 private:
  struct NodeInfo {
    double flops = 0;
    Bytes workspace = 0;
    uint32_t may_overwrite = 0;
    int32_t updates = 0;
    bool is_view = false;
  };

  static size_t Index(int32_t id) { return static_cast<size_t>(id); }
  void FindCandidates();

  bool IsCurrent(ValueId id, NodeId stage) const;
  bool CollectMissing(NodeId stage);
  void Emit(NodeId id, NodeId stage);
  void MeasureLifetimes();
  int32_t BufferToTakeOver(const Item& item, int32_t time) const;

  const Graph& graph_;
  const RehearsalOptions options_;
  const Layouts layouts_;
  std::vector<NodeInfo> nodes_;
  std::vector<Bytes> sizes_;          // per value
  std::vector<uint8_t> covers_root_;  // per value: whole, in order
  std::vector<ValueId> content_;      // per value: what a leaf must still hold
  std::vector<NodeId> last_forward_use_;
  std::vector<uint8_t> is_candidate_;
  std::vector<ValueId> candidates_;
  std::vector<Fate> as_given_;
  double flops_ = 0;

  // Of a run.
  std::vector<Fate> fates_;
  std::vector<Item> items_;
  std::vector<int32_t> operands_;
  std::vector<int32_t> current_;   // per value: its instance, or -1
  std::vector<NodeId> made_at_;    // per value: the stage of that instance
  std::vector<ValueId> holds_;     // per leaf: whose content
  std::vector<uint8_t> has_run_;   // per node
  std::vector<NodeId> wanted_at_;  // per node: the stage that collected it
  std::vector<NodeId> missing_;
  std::vector<NodeId> stack_;
  std::vector<ValueId> value_of_;   // per instance
  std::vector<int32_t> root_of_;    // per instance
  std::vector<int32_t> upper_;      // per root instance
  std::vector<int32_t> buffer_of_;  // per root instance
  struct Buffer {
    int32_t lower, upper;
    Bytes size;
    bool packed;
  };
  std::vector<Buffer> buffers_;
  std::vector<Bytes> live_;
  Bytes peak_ = 0;
  double extra_flops_ = 0;
  int nodes_again_ = 0;
};

/// The graph that the latest Run of `rehearsal` on `graph` played through.
Result<Graph> Rewrite(const Graph& graph, const Rehearsal& rehearsal);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_REHEARSAL_H_
