#ifndef STOWAGE_PLANNER_OP_TIMES_H_
#define STOWAGE_PLANNER_OP_TIMES_H_

// How long the ops of a step take on one machine, measured.
//
// Operations say little of the time of an elementwise op, which waits for
// memory. So ops are timed where a step runs them, and their times stand in a
// table, a row for each op with the types, strides and attributes it was run
// with. Plans are made from the table, not from the clock: the same table gives
// the same plan. Its text form is meant to be kept in files:
//
//   stowage-op-times 1
//   21503 524288 98304 matmul(f32(64, 64), f32(64, 64)[1, 64]) -> f32(64, 64) {...}
//
// nanoseconds, operations and bytes of operands and results, then the op; strides
// stand in brackets where an operand is not contiguous. Where an op was not
// timed as it is, its time is estimated from other rows. Of rows that differ in
// nothing but sizes the one with the nearest sizes counts; else of those of the same op the
// fastest, because what is slow has mostly strides of its own; else the nearest
// of all. It is scaled by operations where it is of the same op and has some,
// else by bytes, and is no less than the shortest time in the table.
//
//   OpTimes times;
//   train.StepTimed(seconds);  times.Add(train.graph(), seconds);
//   RecomputePlanner planner(step, {}, {.cost = times.CostFunction()});

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/rehearsal.h"

namespace stowage {

class OpTimes {
 public:
  /// Adds one measurement: seconds of each node of `graph`, of which views are
  /// not looked at. Of many measurements of an op the median counts.
  void Add(const Graph& graph, std::span<const double> seconds);

  /// The table in its text form, rows by op.
  std::string ToText() const;
  /// Errors name the line. Lines that begin with # are comments.
  static Result<OpTimes> Parse(std::string_view text);

  bool empty() const { return rows_.empty(); }

  /// Nanoseconds of every node of `graph`, 0 for views. Precondition: not empty.
  /// O(nodes * rows).
  std::vector<double> Nanoseconds(const Graph& graph) const;
  /// Nodes of `graph` whose times are estimated.
  int CountEstimated(const Graph& graph) const;
  /// Seconds of one run of `graph`, op after op.
  double StepSeconds(const Graph& graph) const;

  /// Nanoseconds(), of a copy of the table as it is now.
  CostFn CostFunction() const;

 private:
  struct Row {
    std::string op;
    std::string form;  // the op with its operands and attributes, but no sizes
    std::vector<double> sizes;  // that the form leaves out
    double flops = 0;
    double bytes = 0;
    std::vector<double> nanoseconds = {};  // as measured

    double median() const;
  };
  struct Signed {
    std::string signature;
    Row row;
  };

  static std::vector<Signed> Sign(const Graph& graph);
  double Estimate(const Row& of) const;

  std::map<std::string, Row> rows_;  // by signature
};

}  // namespace stowage

#endif  // STOWAGE_PLANNER_OP_TIMES_H_
