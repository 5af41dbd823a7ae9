#ifndef STOWAGE_PLANNER_FIT_COST_H_
#define STOWAGE_PLANNER_FIT_COST_H_

// What optimizations are priced in: operations, unless a table of measured times
// (planner/fit/cost.h) gives nanoseconds.
//
//   CostFn cost = times.CostFunction(budget);
//   std::vector<double> of_nodes = CostsOfNodes(step, cost, /*per_byte=*/0);

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// What every node of a graph costs to run, in any unit of which an op takes
/// some: operations, nanoseconds.
using CostFn = std::function<std::vector<double>(const Graph&)>;

/// What copying a byte between arena and host is taken to cost, in operations:
/// a device that does 200 TFLOP/s in matrix products beside a link of 25 GB/s
/// (PCIe 4.0), or one of 400 beside 50.
inline constexpr double kOffloadFlopsPerByte = 8000;
/// The same where host memory is a file: a processor that does 200 GFLOP/s beside a disk
/// of 2 GB/s.
inline constexpr double kDiskFlopsPerByte = 100;

}  // namespace stowage

namespace stowage::fit {

/// The ops' own counts of operations.
std::vector<double> FlopsOfNodes(const Graph& graph);

/// By `cost`, or in operations where that is empty, and beside it `per_byte` for
/// every byte that a node copies between arena and host.
std::vector<double> CostsOfNodes(const Graph& graph, const CostFn& cost,
                                 double per_byte);

// Whether ranks meet in a graph: what every rank must run as often, and in the same order
// (OpDef::collective), optimizations leave where it is.
//
//   if (HoldsCollectives(body)) return;

/// Whether a node of `graph`, or one in a body at any depth, is a collective. Linear.
bool HoldsCollectives(const Graph& graph);

}  // namespace stowage::fit

namespace stowage {

// How long the ops of a step take on one machine, measured.
//
// Operations say little of the time of an elementwise op, which waits for
// memory. So ops are timed where a step runs them, and their times stand in a
// table, a row for each op with the types, strides and attributes it was run
// with, and for each size of the arena it was run in: where results go to bytes
// that were in use a moment ago, writing them takes less. Plans are made from the
// table, not from the clock: the same table gives the same plan. Its text form is
// meant to be kept in files:
//
//   stowage-op-times 2
//   27731712 21503 524288 98304 matmul(f32(64, 64), f32(64, 64)[1, 64]) -> f32(64, 64) {...}
//
// bytes of the arena, nanoseconds, operations and bytes of operands and results,
// then the op; strides stand in brackets where an operand is not contiguous. Of the
// rows of an op the one with the nearest arena counts. Where an op was not timed as
// it is, its time is estimated from other rows. Of rows that differ in nothing but
// sizes the one with the nearest sizes counts; else of those of the same op the
// fastest, because what is slow has mostly strides of its own; else the nearest
// of all. It is scaled by operations where it is of the same op and has some,
// else by bytes, and is no less than the shortest time in the table.
//
//   OpTimes times;
//   train.StepTimed(seconds);  times.Add(train.graph(), arena, seconds);
//   StepFitter fitter(OfGraph(step), {.cost = times.CostFunction(budget)});

class OpTimes {
 public:
  /// Adds one measurement: seconds of each node of `graph`, of which views are
  /// not looked at, in an arena of so many bytes. Of many measurements of an op
  /// in one arena the median counts.
  void Add(const Graph& graph, Bytes arena, std::span<const double> seconds);

  /// The table in its text form, rows by op and arena.
  std::string ToText() const;
  /// Errors name the line. Lines that begin with # are comments.
  static Result<OpTimes> Parse(std::string_view text);

  bool empty() const { return rows_.empty(); }

  /// Nanoseconds of every node of `graph` in an arena of so many bytes, 0 for
  /// views. Precondition: not empty. O(nodes * rows).
  std::vector<double> Nanoseconds(const Graph& graph, Bytes arena) const;
  /// Nodes of `graph` whose times are estimated.
  int CountEstimated(const Graph& graph) const;
  /// Seconds of one run of `graph`, op after op.
  double StepSeconds(const Graph& graph, Bytes arena) const;

  /// Nanoseconds(), of a copy of the table as it is now; without an arena, in
  /// the largest there is.
  CostFn CostFunction(std::optional<Bytes> arena) const;

 private:
  struct Row {
    std::string op;
    std::string form;  // the op with its operands and attributes, but no sizes
    std::vector<double> sizes;  // that the form leaves out
    double flops = 0;
    double bytes = 0;
    std::map<Bytes, std::vector<double>> measured = {};  // ns, by arena

    // Of the arena nearest to this one.
    double Nanoseconds(Bytes arena) const;
  };
  struct Signed {
    std::string signature;
    Row row;
  };

  static std::vector<Signed> Sign(const Graph& graph);
  double Estimate(const Row& of, Bytes arena) const;

  std::map<std::string, Row> rows_;  // by signature
};

}  // namespace stowage

#endif  // STOWAGE_PLANNER_FIT_COST_H_
