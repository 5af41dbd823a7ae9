#ifndef STOWAGE_PLANNER_FIT_ORDER_ORDER_H_
#define STOWAGE_PLANNER_FIT_ORDER_ORDER_H_

// Finds an execution order of a graph that needs little memory.
//
// A graph constrains the order of its nodes only partially, and the order determines when values
// are live. PlanInMemoryOrder searches for an order with a small peak and plans it. The order is
// used if its arena is smaller than the arena of the given order.
//
//   Result<OrderedPlan> ordered = PlanInMemoryOrder(step, options);
//   ordered->graph;  // the plan is for this graph
//   ordered->bound;  // no order of the step needs a smaller arena
//
// Three methods are combined (planner/fit/order/search.h):
//
//   - Minimum cuts give a lower bound on the bytes that are live at a task, over all orders. The
//     cut at the peak of an order also determines which tasks to run before the peak, which usually
//     lowers the peak.
//   - A complete search tries the bound as a limit of the peak. If it proves that no order has a
//     peak within the limit, it tries the next possible limit, as long as the effort permits. The
//     search then tries limits between the bound and the peak of the best order.
//   - A local search moves tasks across the peak.

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/lifetimes.h"
#include "planner/plan_memory.h"

namespace stowage::fit {

// OrderProblem is the ordering problem without reference to graphs and tensors. It consists of
// tasks, which have predecessors, and of contents. A content is a buffer that one task (its maker)
// writes and other tasks read. The content is live from its maker to its last reader, or to the
// end. The problem is to find a topological order of the tasks with a small peak of live bytes. It
// is NP-hard, because it contains register allocation and the pebble game.
//
//   Tasks: a writes 8 bytes. b writes 8 bytes. c reads a's result and writes 1 byte.
//          d reads b's result and writes 1 byte. e reads the results of c and d.
//   Peaks: a b c d e: 17 bytes    a c b d e: 10 bytes
//
// While a task runs, its workspace, the contents it writes and all contents that were live before
// it are live together. If a content in `may_replace` dies with the task, the task may write its
// first result over it.

struct OrderTask {
  std::vector<int32_t> after = {};  // Tasks that must run before this one.
  /// Contents that the task reads, each listed once.
  std::vector<int32_t> reads = {};
  std::vector<int32_t> makes = {};  // Contents that the task writes.
  Bytes scratch = 0;                // Workspace.
  // Contents that the task reads and that have the size of makes[0]. makes[0] may be written over
  // one of them if this task is the last reader.
  std::vector<int32_t> may_replace = {};
};

struct OrderContent {
  Bytes size = 0;
  int32_t maker = -1;  // -1 if the content is live from the start.
  bool kept = false;   // Whether the content is live to the end.
  std::vector<int32_t> readers = {};
};

struct OrderProblem {
  std::vector<OrderTask> tasks = {};
  std::vector<OrderContent> contents = {};

  int32_t num_tasks() const { return static_cast<int32_t>(tasks.size()); }
};

/// The state after a prefix of an order: the tasks that have run, and the live bytes.
class OrderState {
 public:
  /// Creates the state in which no task has run. Keeps a reference to `problem`.
  explicit OrderState(const OrderProblem& problem);

  /// Returns the tasks that may run next, in no particular order.
  std::span<const int32_t> ready() const { return ready_; }
  /// Returns whether all tasks have run.
  bool done() const { return ran_ == problem_.num_tasks(); }
  Bytes live() const { return live_; }

  /// Returns the bytes that would be live while `task` runs next. `task` must be ready.
  Bytes LiveDuring(int32_t task) const;
  /// Returns the bytes that would be live after `task` has run next. `task` must be ready.
  Bytes LiveAfter(int32_t task) const;

  /// Runs `task`, which must be ready. Linear in the contents and successors of the task.
  void Run(int32_t task);
  /// Undoes `task`, which must be the task that ran last. Linear in the contents and successors of
  /// the task.
  void TakeBack(int32_t task);

 private:
  bool DiesWith(int32_t content) const {
    return !problem_.contents[static_cast<size_t>(content)].kept &&
           unread_[static_cast<size_t>(content)] == 1;
  }
  void AddReady(int32_t task);
  void RemoveReady(int32_t task);

  const OrderProblem& problem_;
  std::vector<std::vector<int32_t>> before_;  // by task: its successors
  std::vector<int32_t> waits_;   // by task: number of predecessors to run
  std::vector<int32_t> unread_;  // by content: number of readers to run
  std::vector<int32_t> ready_;
  std::vector<int32_t> ready_at_;  // by ready task: its index in ready_
  int32_t ran_ = 0;
  Bytes live_ = 0;
};

/// Returns the peak of live bytes if the tasks run in `order`, which must be a topological order.
Bytes PeakOf(const OrderProblem& problem, std::span<const int32_t> order);

/// Returns the live bytes during each task of `order`, which must be a topological order. The
/// result is in the order of `order`.
std::vector<Bytes> LiveOver(const OrderProblem& problem,
                            std::span<const int32_t> order);

/// The default effort of FindMemoryOrder, in steps of OrderSearch. The search then takes a few
/// seconds at most.
inline constexpr int64_t kOrderEffort = 100'000'000;

/// Returns the problem of ordering the nodes of `graph`. Tasks are the nodes, and contents are the
/// values that the planner packs (planner/lifetimes.h). A reader of a view is a reader of the
/// view's root. An update must run after all nodes that read the value it overwrites. Sizes are
/// rounded up to `alignment`. Reads only LifetimeOptions::workspace and LifetimeOptions::in_place.
/// Linear in the number of nodes and operands, except for sorting.
OrderProblem MakeOrderProblem(const Graph& graph, Bytes alignment,
                              const LifetimeOptions& options);

struct MemoryOrder {
  std::vector<int32_t> order;
  Bytes peak = 0;   // The peak of `order`.
  Bytes bound = 0;  // No order has a lower peak.
};

/// Returns an order with a small peak, which is at most the peak of the order 0, 1, 2, ... of the
/// tasks. The order 0, 1, 2, ... must be a topological order. `effort` limits the steps of the
/// search. Deterministic.
MemoryOrder FindMemoryOrder(const OrderProblem& problem,
                            int64_t effort = kOrderEffort);

struct OrderedPlan {
  Graph graph;  // The graph in the chosen order.
  /// The plan of `graph`. Plan::order is "memory".
  Plan plan;
  Packer packer = Packer::kGreedy;  // The packer of `plan`.
  // A lower bound: no order needs a smaller arena, with any packing.
  Bytes bound = 0;
  /// Returns whether no order needs a smaller arena.
  bool optimal() const { return plan.arena_bytes() == bound; }
};

/// Plans `graph` in an order that needs little memory. The given order is kept unless the new order
/// has a smaller arena. If `options.packer` is kGreedy and the greedy packing of the new order is
/// not optimal, the new order is packed with Packer::kBest. Propagates errors of PlanMemory.
/// `options.budget` applies to the result. Deterministic unless the deadline passes.
Result<OrderedPlan> PlanInMemoryOrder(const Graph& graph,
                                      const PlanOptions& options = {},
                                      int64_t effort = kOrderEffort);

/// Returns `graph` with reordered bodies, at any depth. A body is reordered only if it then needs a
/// smaller arena. A body within another body is reordered only if the arena of the other body also
/// becomes smaller. `effort` applies to each body (FindMemoryOrder). The arena of a body is the
/// workspace of its node (planner/plan.h), and does not include the outputs of the body. Bodies
/// with collectives are unmodified. Propagates errors of Reorder, which indicate a bug.
/// Deterministic unless PlanOptions::deadline passes.
Result<Graph> OrderBodies(const Graph& graph, const PlanOptions& options,
                          int64_t effort);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_ORDER_ORDER_H_
