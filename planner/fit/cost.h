#ifndef STOWAGE_PLANNER_FIT_COST_H_
#define STOWAGE_PLANNER_FIT_COST_H_

// Computes the cost of nodes, either in operations, or in nanoseconds from a table of measured
// times (OpTimes).
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

/// Returns the cost of each node of a graph. All costs have one unit, for example operations or
/// nanoseconds.
using CostFn = std::function<std::vector<double>(const Graph&)>;

/// The cost of copying a byte between arena and host, in operations. It corresponds to a device of
/// 200 TFLOP/s with a link of 25 GB/s (PCIe 4.0), or of 400 TFLOP/s with a link of 50 GB/s.
inline constexpr double kOffloadFlopsPerByte = 8000;
/// The cost of copying a byte if host memory is a file, in operations. It corresponds to a
/// processor of 200 GFLOP/s with a disk of 2 GB/s.
inline constexpr double kDiskFlopsPerByte = 100;

}  // namespace stowage

namespace stowage::fit {

/// Returns the number of operations of each node of `graph`, as defined by its op.
std::vector<double> FlopsOfNodes(const Graph& graph);

/// Returns the cost of each node of `graph` according to `cost`, or its number of operations if
/// `cost` is empty. Adds `per_byte` for every byte that the node copies between arena and host.
std::vector<double> CostsOfNodes(const Graph& graph, const CostFn& cost,
                                 double per_byte);

/// Returns whether a node of `graph`, or of a body at any depth, is a collective. All ranks must
/// run the same collectives in the same order (OpDef::collective). Linear.
bool HoldsCollectives(const Graph& graph);

}  // namespace stowage::fit

namespace stowage {

// OpTimes holds measured times of the ops of a step on one machine.
//
// The number of operations does not predict the time of memory-bound ops. The ops of a step are
// therefore timed and entered into a table. The table has a row for each op with its types, strides
// and attributes, and for each size of the arena. The time depends on the arena's size because
// writing to recently used bytes is faster. Planning reads the table and does not measure, so equal
// tables give equal plans. The table has a text form for files:
//
//   stowage-op-times 2
//   27731712 21503 524288 98304 matmul(f32(64, 64), f32(64, 64)[1, 64]) -> f32(64, 64) {...}
//
// A row contains the bytes of the arena, the nanoseconds, the operations, the bytes of operands and
// results, and the op. Strides of operands that are not contiguous are in brackets. If an op has
// rows for several arena sizes, the row with the nearest size is used.
//
// The time of an op without a row is estimated from one row. In order of preference, this is
//
// 1. the row with the nearest sizes among rows that differ from the op only in sizes
// 2. the row of the same op that gives the shortest estimate, because long times mostly come from
//    unusual strides
// 3. the row of any op with the nearest numbers of bytes and operations
//
// The time of the row is scaled by operations if the row is of the same op and both numbers of
// operations are above 0, and otherwise by bytes. An estimate is at least the shortest time in the
// table. A loop without a row costs as much as the nodes of its body, times the number of
// iterations. A branch without a row costs as much as the nodes of its most expensive body.
//
//   OpTimes times;
//   train.StepTimed(seconds);  times.Add(train.graph(), arena, seconds);
//   StepFitter fitter(OfGraph(step), {.cost = times.CostFunction(budget)});

class OpTimes {
 public:
  /// Adds one measurement: the seconds of each node of `graph`, in an arena of `arena` bytes.
  /// `seconds` must have one entry per node. Views are ignored. Shorter times than a nanosecond are
  /// rounded up to it. If an op is measured several times, the median is used.
  void Add(const Graph& graph, Bytes arena, std::span<const double> seconds);

  /// Returns the table in its text form, with rows sorted by op and arena size.
  std::string ToText() const;
  /// Parses the text form. The first line must be the heading. Empty lines and lines that begin
  /// with # are skipped. Returns kInvalidArgument if the text is not valid, naming the line, or if
  /// it has no rows.
  static Result<OpTimes> Parse(std::string_view text);

  bool empty() const { return rows_.empty(); }

  /// Returns the nanoseconds of every node of `graph` in an arena of `arena` bytes, 0 for views.
  /// The table must not be empty, here and in the next functions. O(nodes * rows).
  std::vector<double> Nanoseconds(const Graph& graph, Bytes arena) const;
  /// Returns the number of nodes of `graph` whose times are estimated.
  int CountEstimated(const Graph& graph) const;
  /// Returns the seconds of one run of `graph` without overlap, which is the sum of Nanoseconds().
  double StepSeconds(const Graph& graph, Bytes arena) const;

  /// Returns a function that calls Nanoseconds() on a copy of the table. If `arena` is absent, the
  /// function uses the measurements in the largest arena.
  CostFn CostFunction(std::optional<Bytes> arena) const;

 private:
  struct Row {
    std::string op;
    // The op with its operands and attributes, without sizes.
    std::string form;
    std::vector<double> sizes;  // the sizes that `form` omits
    double flops = 0;
    double bytes = 0;
    std::map<Bytes, std::vector<double>> measured = {};  // nanoseconds by arena

    // Returns the time in the measured arena whose size is nearest to `arena`.
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
