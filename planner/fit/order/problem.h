#ifndef STOWAGE_PLANNER_FIT_ORDER_PROBLEM_H_
#define STOWAGE_PLANNER_FIT_ORDER_PROBLEM_H_

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

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace stowage::fit {

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

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_ORDER_PROBLEM_H_
