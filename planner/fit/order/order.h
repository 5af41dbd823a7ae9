#ifndef STOWAGE_PLANNER_FIT_ORDER_ORDER_H_
#define STOWAGE_PLANNER_FIT_ORDER_ORDER_H_

// The order of execution that takes the least memory. A graph says what must
// come before what; within that, the order decides when values are born and
// when they die. PlanInMemoryOrder looks for an order with a small peak, plans
// it, and keeps whichever needs the smaller arena, it or the order given.
//
//   Result<OrderedPlan> ordered = PlanInMemoryOrder(step, options);
//   ordered->graph;  // run this one: the plan is for it
//   ordered->bound;  // no order of the step takes a smaller arena
//
// Three things work together. Minimum cuts (planner/fit/order/search.h) give the fewest
// bytes that can be alive at a task, whatever the order: a bound. A complete
// search (planner/fit/order/search.h) asks for the bound, then for the next height
// that is not refuted, as far as the effort goes, and in between for heights
// above. And where an order is highest, the cut there says which tasks to have
// run by then, which mostly lowers it.

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/lifetimes.h"
#include "planner/plan_memory.h"

namespace stowage::fit {

// The ordering problem by itself, free of graphs and tensors: tasks of which
// some must run before others, and contents, bytes that a task makes and others
// read. A content lives from its maker to the last of its readers, or to the
// end. Find an order of the tasks in which the bytes alive at once, the peak,
// are few. The problem is NP-hard (it contains register allocation and the
// pebble game).
//
//   tasks: a makes 8, b makes 8, c reads a's and makes 1, d reads b's and makes
//   1, e reads both ones.    a b c d e: peak 17    a c b d e: peak 10
//
// While a task runs, everything alive before it, what it makes and its scratch
// are there together. It may write its first result over a content that dies
// with it, if it is said to be able to.

struct OrderTask {
  std::vector<int32_t> after = {};  // tasks that must run before this one
  std::vector<int32_t> reads = {};  // contents, each once
  std::vector<int32_t> makes = {};  // contents
  Bytes scratch = 0;                // bytes that only this task needs
  // Contents, of the size of the first that it makes, one of which that one may
  // take the place of when this task is its last reader.
  std::vector<int32_t> may_replace = {};
};

struct OrderContent {
  Bytes size = 0;
  int32_t maker = -1;  // -1: there from the start
  bool kept = false;   // to the end
  std::vector<int32_t> readers = {};
};

struct OrderProblem {
  std::vector<OrderTask> tasks = {};
  std::vector<OrderContent> contents = {};

  int32_t num_tasks() const { return static_cast<int32_t>(tasks.size()); }
};

/// How far an order has come: a set of tasks that have run, and what is alive.
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

  /// Runs a ready task; takes back the one that was run last. Linear in what
  /// the task touches and in how many are ready.
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
  std::vector<std::vector<int32_t>> before_;  // tasks that wait for a task
  std::vector<int32_t> waits_;   // how many tasks a task still waits for
  std::vector<int32_t> unread_;  // how many readers of a content have not run
  std::vector<int32_t> ready_;
  std::vector<int32_t> ready_at_;  // of a ready task in ready_
  int32_t ran_ = 0;
  Bytes live_ = 0;
};

/// The most bytes alive at once when the tasks run in `order`, a permutation of
/// them that respects what must run before what.
Bytes PeakOf(const OrderProblem& problem, std::span<const int32_t> order);

/// The bytes alive during each task of `order`, by position.
std::vector<Bytes> LiveOver(const OrderProblem& problem,
                            std::span<const int32_t> order);

/// How much looking (OrderSearch::steps) FindMemoryOrder does at most, unless
/// more or less is asked for: about a second.
inline constexpr int64_t kOrderEffort = 100'000'000;

/// What ordering `graph` means: its nodes are the tasks, what the planner packs
/// (planner/lifetimes.h) are the contents, a view's readers its root's. An
/// update runs after all that read what it overwrites. Sizes are rounded up to
/// `alignment`. Linear in nodes and operands.
OrderProblem MakeOrderProblem(const Graph& graph, Bytes alignment,
                              const LifetimeOptions& options);

struct MemoryOrder {
  std::vector<int32_t> order;
  Bytes peak = 0;   // of `order`
  Bytes bound = 0;  // no order has a lower peak
};

/// An order of a small peak, never above that of 0, 1, 2, ..., which must be an
/// order. Deterministic.
MemoryOrder FindMemoryOrder(const OrderProblem& problem,
                            int64_t effort = kOrderEffort);

struct OrderedPlan {
  Graph graph;      // in the order that was chosen
  Plan plan;        // of that graph; plan.order is "memory"
  Bytes bound = 0;  // no order takes a smaller arena, however well packed
  bool optimal() const { return plan.arena_bytes() == bound; }
};

/// Plans `graph` in an order that takes little memory. The arena is never larger
/// than PlanMemory's for the given order, which is kept when nothing is gained.
/// Where the greedy packer leaves a gap in the new order, the best one is asked.
/// Errors: PlanMemory's. Deterministic like it.
Result<OrderedPlan> PlanInMemoryOrder(const Graph& graph,
                                      const PlanOptions& options = {},
                                      int64_t effort = kOrderEffort);

// The order of nodes inside the bodies of loops and branches.
//
// The arena of a body is the workspace of its node (planner/plan.h), so that an order in
// which the body needs less is one in which the node does. Outputs of a body lie outside
// of its arena and count nothing.
//
//   STOWAGE_ASSIGN_OR_RETURN(const Graph ordered, OrderBodies(step, options, effort));

/// `graph` with the nodes of its bodies, at any depth, in an order in which the body takes
/// a smaller arena, where one is found with so much effort for each (FindMemoryOrder).
/// Bodies that hold collectives stay as they are. Errors: those of reordering a body,
/// which there should be none of. Deterministic.
Result<Graph> OrderBodies(const Graph& graph, const PlanOptions& options,
                          int64_t effort);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_ORDER_ORDER_H_
