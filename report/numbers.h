#ifndef STOWAGE_REPORT_NUMBERS_H_
#define STOWAGE_REPORT_NUMBERS_H_

// Computes the figures of a plan as plain numbers, and writes them as JSON. Every output
// (table, map, JSON, SVG, trace) is generated from the struct Report and computes no
// figures of its own.
//
// All sizes are in bytes. Times are positions in the schedule, and intervals are half-open.
// A view counts as 0 bytes, padding to the alignment counts as used, and weights count
// once. The arena figure is the number of bytes that are allocated.
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
      0;  // The address of the first byte in the arena or in host memory.
  Bytes size = 0;
  Time lower = 0;
  Time upper = 0;
};

struct ReportNode {
  std::string label;  // For example `backward of "fc2"`.
  std::string op;
  Phase phase = Phase::kForward;
  double flops = 0;
};

struct Report {
  std::string graph_name;
  int64_t params = 0;  // The number of elements of all params.
  double flops = 0;    // Operations of one run. A multiply-add counts as two.

  std::vector<ReportNode> nodes;      // The schedule.
  std::vector<ReportBuffer> buffers;  // In the order of the plan.
  int views = 0;
  int in_place = 0;

  Bytes alignment = 0;
  RegionBytes regions;
  Bytes arena = 0;        // regions.total().
  Bytes host = 0;         // regions.host(). Not in the arena.
  Bytes lower_bound = 0;  // Reserved regions + the largest live sum.
  Bytes no_reuse = 0;
  Bytes caching_allocator = 0;
  std::string packer;
  std::string order;
  bool optimal = false;  // True if it is proven that no packing is lower.

  Time peak_time = 0;
  std::string peak_node;           // The label of the node at peak_time.
  std::vector<int32_t> peak_live;  // Indices of buffers, largest first.
  std::vector<RegionBytes> live;   // Bytes of live buffers, per node.

  Bytes saved() const { return no_reuse - arena; }
  Bytes saved_over_caching() const { return caching_allocator - arena; }
  double saved_percent() const { return Percent(saved(), no_reuse); }
  double saved_over_caching_percent() const {
    return Percent(saved_over_caching(), caching_allocator);
  }
  /// Returns arena / lower bound - 1 in percent, which is an upper bound of the savings by
  /// a better packing.
  double fragmentation_percent() const {
    return Percent(arena - lower_bound, lower_bound);
  }

  /// Returns 100 part / whole, or 0 if `whole` is 0.
  static double Percent(Bytes part, Bytes whole) {
    return whole == 0
               ? 0.0
               : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  }
};

/// Returns the figures of `plan`, which must be for `graph` (CheckPlanIsFor) but may be
/// invalid. Linear in nodes, values and buffers, except for sorting the live set.
Report MakeReport(const Graph& graph, const Plan& plan);

/// Returns the bytes of one region.
Bytes BytesOf(const RegionBytes& regions, Region region);

/// The regions of the arena, in order.
inline constexpr Region kRegions[] = {Region::kWeights, Region::kState,
                                      Region::kIo, Region::kActivations,
                                      Region::kWorkspace};

/// Returns the figures as one object, with the names that `stowage plan --json` prints.
/// `peak_live` contains the `peak_limit` largest buffers.
///
///   {"graph": "mlp", "params": 2410, "arena_bytes": 71680, ...,
///    "peak_live": [{"name": "h1", "bytes": 4096, "region": "activations"}],
///    ...}
nlohmann::ordered_json FiguresJson(const Report& report, size_t peak_limit);

/// Returns the figures with all buffers that are live at the peak, and the alignment.
/// `timeline` contains the name, region, address, bytes and lifetime of every buffer. Ends
/// with a newline.
std::string ToJson(const Report& report);

/// A plan to compare with another plan.
struct NamedReport {
  std::string name;
  const Report* report;
};

/// Returns the figures of two plans, and the differences of the second plan, as a table of
/// at most 79 columns. Longer names are truncated.
///
///   std::cout << ComparisonText({"kept", &kept}, {"recomputed", &recomputed});
std::string ComparisonText(const NamedReport& a, const NamedReport& b);

/// Returns {"plans": [{"name": ..., figures}, ...], "difference": {"arena_bytes": ...}}. A
/// difference is the second plan's figure minus the first's. Only integer figures have
/// differences.
nlohmann::ordered_json ComparisonJson(const NamedReport& a,
                                      const NamedReport& b);

}  // namespace stowage

#endif  // STOWAGE_REPORT_NUMBERS_H_
