#ifndef STOWAGE_PLANNER_FIT_COST_H_
#define STOWAGE_PLANNER_FIT_COST_H_

// The cost of nodes: operations, or nanoseconds from a table of measured times (OpTimes).
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

/// Returns the cost of every node of a graph, in any unit: operations, nanoseconds.
using CostFn = std::function<std::vector<double>(const Graph&)>;

/// The cost of copying a byte between arena and host, in operations: a device of 200 TFLOP/s with
/// a link of 25 GB/s (PCIe 4.0), or of 400 TFLOP/s with 50 GB/s.
inline constexpr double kOffloadFlopsPerByte = 8000;
/// The same if host memory is a file: a processor of 200 GFLOP/s with a disk of 2 GB/s.
inline constexpr double kDiskFlopsPerByte = 100;

}  // namespace stowage

namespace stowage::fit {

/// The ops' own counts of operations.
std::vector<double> FlopsOfNodes(const Graph& graph);

/// The costs by `cost`, or operations if that is empty, plus `per_byte` for every byte that a node
/// copies between arena and host.
std::vector<double> CostsOfNodes(const Graph& graph, const CostFn& cost,
                                 double per_byte);

/// Whether a node of `graph`, or one in a body at any depth, is a collective, which every rank
/// must run equally often and in the same order (OpDef::collective). Linear.
bool HoldsCollectives(const Graph& graph);

}  // namespace stowage::fit

namespace stowage {

// Measured times of the ops of a step on one machine.
//
// Operations do not predict the time of memory-bound ops. Ops are therefore timed in a step, and
// kept in a table with a row for each op with its types, strides and attributes, and for each
// size of the arena, since results in recently used bytes are written faster. Plans use the table
// and no clock: the same table gives the same plan. It has a text form for files:
//
//   stowage-op-times 2
//   27731712 21503 524288 98304 matmul(f32(64, 64), f32(64, 64)[1, 64]) -> f32(64, 64) {...}
//
// A row has the bytes of the arena, nanoseconds, operations, bytes of operands and results, and
// the op; strides of operands that are not contiguous are in brackets. The row with the nearest
// arena counts. The time of an op without a row is estimated from the row that differs in sizes
// alone, the nearest in size; else from the fastest of the same op, because slow ones mostly have
// unusual strides; else from the nearest of all. It is scaled by operations if the op is the same
// and has any, else by bytes, and is at least the shortest time in the table.
//
//   OpTimes times;
//   train.StepTimed(seconds);  times.Add(train.graph(), arena, seconds);
//   StepFitter fitter(OfGraph(step), {.cost = times.CostFunction(budget)});

class OpTimes {
 public:
  /// Adds one measurement: seconds of each node of `graph`, views ignored, in an arena of this
  /// size. The median of several measurements of an op counts.
  void Add(const Graph& graph, Bytes arena, std::span<const double> seconds);

  /// The table in its text form, rows by op and arena.
  std::string ToText() const;
  /// Errors name the line. Lines that begin with # are comments.
  static Result<OpTimes> Parse(std::string_view text);

  bool empty() const { return rows_.empty(); }

  /// Nanoseconds of every node of `graph` in an arena of this size, 0 for views. Precondition:
  /// not empty. O(nodes * rows).
  std::vector<double> Nanoseconds(const Graph& graph, Bytes arena) const;
  /// The number of nodes of `graph` whose times are estimated.
  int CountEstimated(const Graph& graph) const;
  /// Seconds of one sequential run of `graph`.
  double StepSeconds(const Graph& graph, Bytes arena) const;

  /// Nanoseconds() of a copy of the table; without an arena, in the largest one.
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
