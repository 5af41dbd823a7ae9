#ifndef STOWAGE_PLANNER_FIT_ORDER_ORDER_H_
#define STOWAGE_PLANNER_FIT_ORDER_ORDER_H_

// The order of execution that takes the least memory. A graph constrains the order of its nodes
// only partially, and the order decides when values are live. PlanInMemoryOrder searches for an
// order with a small peak, plans it, and keeps it if its arena is smaller than that of the given
// order.
//
//   Result<OrderedPlan> ordered = PlanInMemoryOrder(step, options);
//   ordered->graph;  // the plan is for this graph
//   ordered->bound;  // no order of the step takes a smaller arena
//
// Three methods work together (planner/fit/order/search.h). Minimum cuts bound the bytes live at
// a task in every order. A complete search tries the bound, then the next height that is not
// refuted, as far as the effort goes, and heights in between. The cut at the peak of an order
// says which tasks to run before it, which mostly lowers the peak.

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/lifetimes.h"
#include "planner/plan_memory.h"

namespace stowage::fit {

// The ordering problem without graphs and tensors: tasks with predecessors, and contents, bytes
// that one task makes and others read. A content is live from its maker to its last reader, or
// to the end. Find an order of the tasks with a small peak of live bytes. The problem is NP-hard
// (it contains register allocation and the pebble game).
//
//   tasks: a makes 8, b makes 8, c reads a's and makes 1, d reads b's and makes
//   1, e reads both ones.    a b c d e: peak 17    a c b d e: peak 10
//
// While a task runs, all contents live before it, those it makes and its workspace are live
// together. It may write its first result over a content that dies with it, if `may_replace`
// lists it.

struct OrderTask {
  std::vector<int32_t> after = {};  // tasks that must run before this one
  std::vector<int32_t> reads = {};  // contents, each once
  std::vector<int32_t> makes = {};  // contents
  Bytes scratch = 0;                // workspace
  // Contents of the size of the first that it makes, which may replace one of them if this task
  // is its last reader.
  std::vector<int32_t> may_replace = {};
};

struct OrderContent {
  Bytes size = 0;
  int32_t maker = -1;  // -1: live from the start
  bool kept = false;   // to the end
  std::vector<int32_t> readers = {};
};

struct OrderProblem {
  std::vector<OrderTask> tasks = {};
  std::vector<OrderContent> contents = {};

  int32_t num_tasks() const { return static_cast<int32_t>(tasks.size()); }
};

/// The state of an order in progress: the tasks that have run, and the live bytes.
class OrderState {
 public:
  /// Nothing has run. Keeps a reference to `problem`.
  explicit OrderState(const OrderProblem& problem);

  /// The tasks that may run next, in no particular order.
  std::span<const int32_t> ready() const { return ready_; }
  bool done() const { return ran_ == problem_.num_tasks(); }
  Bytes live() const { return live_; }

  /// The bytes alive while `task`, which is ready, runs next; and after it.
  Bytes LiveDuring(int32_t task) const;
  Bytes LiveAfter(int32_t task) const;

  /// Runs a ready task; undoes the task that was run last. Linear in the contents of the task
  /// and in the number of ready tasks.
  void Run(int32_t task);
  void TakeBack(int32_t task);

 private:
  bool DiesWith(int32_t content) const {
    return !problem_.contents[static_cast<size_t>(content)].kept &&
           unread_[static_cast<size_t>(content)] == 1;
  }
  void AddReady(int32_t task);
  void RemoveReady(int32_t task);

  const OrderProblem& problem_;
  std::vector<std::vector<int32_t>> before_;  // successors of a task
  std::vector<int32_t> waits_;   // predecessors of a task that have not run
  std::vector<int32_t> unread_;  // readers of a content that have not run
  std::vector<int32_t> ready_;
  std::vector<int32_t> ready_at_;  // of a ready task in ready_
  int32_t ran_ = 0;
  Bytes live_ = 0;
};

/// The peak of live bytes when the tasks run in `order`, a permutation that respects
/// predecessors.
Bytes PeakOf(const OrderProblem& problem, std::span<const int32_t> order);

/// The live bytes during each task of `order`, by position.
std::vector<Bytes> LiveOver(const OrderProblem& problem,
                            std::span<const int32_t> order);

/// The default effort of FindMemoryOrder in steps of OrderSearch: about a second.
inline constexpr int64_t kOrderEffort = 100'000'000;

/// The problem of ordering `graph`: tasks are its nodes, contents the buffers that the planner
/// packs (planner/lifetimes.h); readers of a view read its root. An update runs after all readers
/// of the value that it overwrites. Sizes are rounded up to `alignment`. Linear in nodes and
/// operands.
OrderProblem MakeOrderProblem(const Graph& graph, Bytes alignment,
                              const LifetimeOptions& options);

struct MemoryOrder {
  std::vector<int32_t> order;
  Bytes peak = 0;   // of `order`
  Bytes bound = 0;  // no order has a lower peak
};

/// An order with a small peak, at most that of 0, 1, 2, ..., which must be an order.
/// Deterministic.
MemoryOrder FindMemoryOrder(const OrderProblem& problem,
                            int64_t effort = kOrderEffort);

struct OrderedPlan {
  Graph graph;                      // in the chosen order
  Plan plan;                        // of that graph; plan.order is "memory"
  Packer packer = Packer::kGreedy;  // of that plan
  Bytes bound = 0;  // no order takes a smaller arena, however well packed
  bool optimal() const { return plan.arena_bytes() == bound; }
};

/// Plans `graph` in an order that takes little memory. The given order is kept unless the arena
/// gets smaller. If the greedy packer leaves a gap in the new order, the best packer is used.
/// Errors: PlanMemory's. Deterministic.
Result<OrderedPlan> PlanInMemoryOrder(const Graph& graph,
                                      const PlanOptions& options = {},
                                      int64_t effort = kOrderEffort);

/// `graph` with the nodes of its bodies, at any depth, in an order in which the body takes a
/// smaller arena, if one is found with this effort for each (FindMemoryOrder). The arena of a
/// body is the workspace of its node (planner/plan.h); outputs of a body are outside of it.
/// Bodies with collectives stay as they are. Errors: those of Reorder, in case of a bug.
/// Deterministic.
Result<Graph> OrderBodies(const Graph& graph, const PlanOptions& options,
                          int64_t effort);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_ORDER_ORDER_H_
