#ifndef STOWAGE_REPORT_NUMBERS_H_
#define STOWAGE_REPORT_NUMBERS_H_

// The figures of a plan as plain numbers and as JSON. Every output (table, map, JSON, SVG,
// trace) is printed from this struct and computes nothing of its own.
//
// All sizes are bytes. Times are positions in the schedule, intervals half-open. A view
// counts zero, padding to the alignment counts as used, weights count once, and the arena
// figure is the bytes that are allocated.
//
//   Report report = MakeReport(step, *plan);
//   std::cout << ToText(report);

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

struct ReportBuffer {
  std::string name;
  Region region = Region::kActivations;
  Bytes address =
      0;  // of its first byte, relative to the arena or the host memory
  Bytes size = 0;
  Time lower = 0;
  Time upper = 0;
};

struct ReportNode {
  std::string label;  // `backward of "fc2"`
  std::string op;
  Phase phase = Phase::kForward;
  double flops = 0;
};

struct Report {
  std::string graph_name;
  int64_t params = 0;  // elements of all params
  double flops = 0;    // of one run; a multiply-add counts two

  std::vector<ReportNode> nodes;      // the schedule
  std::vector<ReportBuffer> buffers;  // in the plan's order
  int views = 0;
  int in_place = 0;

  Bytes alignment = 0;
  RegionBytes regions;
  Bytes arena = 0;        // regions.total()
  Bytes host = 0;         // regions.host(), not in the arena
  Bytes lower_bound = 0;  // reserved regions + the largest live sum
  Bytes no_reuse = 0;
  Bytes caching_allocator = 0;
  std::string packer;
  std::string order;
  bool optimal = false;  // arena == lower_bound

  Time peak_time = 0;
  std::string peak_node;           // the label of the node at peak_time
  std::vector<int32_t> peak_live;  // indices of buffers, largest first
  std::vector<RegionBytes> live;   // bytes of live buffers, per node

  Bytes saved() const { return no_reuse - arena; }
  Bytes saved_over_caching() const { return caching_allocator - arena; }
  double saved_percent() const { return Percent(saved(), no_reuse); }
  double saved_over_caching_percent() const {
    return Percent(saved_over_caching(), caching_allocator);
  }
  /// arena / lower bound - 1, in percent: the most that a better packing could save.
  double fragmentation_percent() const {
    return Percent(arena - lower_bound, lower_bound);
  }

  /// 100 part / whole; 0 of nothing.
  static double Percent(Bytes part, Bytes whole) {
    return whole == 0
               ? 0.0
               : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  }
};

/// The figures of `plan`. Precondition: it was made for `graph` (CheckPlanIsFor); it may
/// be an invalid plan. Linear in nodes, values and buffers, except for sorting the live
/// set.
Report MakeReport(const Graph& graph, const Plan& plan);

/// The bytes of one region.
Bytes BytesOf(const RegionBytes& regions, Region region);

/// Every region of the arena, in its order.
inline constexpr Region kRegions[] = {Region::kWeights, Region::kState,
                                      Region::kIo, Region::kActivations,
                                      Region::kWorkspace};

/// The figures as one object under the names that `stowage plan --json` prints; `peak_live`
/// holds the `peak_limit` largest.
///
///   {"graph": "mlp", "params": 2410, "arena_bytes": 71680, ...,
///    "peak_live": [{"name": "h1", "bytes": 4096, "region": "activations"}],
///    ...}
nlohmann::ordered_json FiguresJson(const Report& report, size_t peak_limit);

/// The figures with everything that is live at the peak, and every buffer's name, region,
/// address, bytes and lifetime under `timeline`. Ends with a newline.
std::string ToJson(const Report& report);

/// A plan to compare with another.
struct NamedReport {
  std::string name;
  const Report* report;
};

/// The figures of two plans, with the difference of the second, as a table of at most 79
/// columns; longer names are cut.
///
///   std::cout << ComparisonText({"kept", &kept}, {"recomputed", &recomputed});
std::string ComparisonText(const NamedReport& a, const NamedReport& b);

/// {"plans": [{"name": ..., figures}, ...], "difference": {"arena_bytes": ...}}, where a
/// difference is the second plan's figure minus the first's.
nlohmann::ordered_json ComparisonJson(const NamedReport& a,
                                      const NamedReport& b);

}  // namespace stowage

#endif  // STOWAGE_REPORT_NUMBERS_H_
