#ifndef STOWAGE_REPORT_NUMBERS_H_
#define STOWAGE_REPORT_NUMBERS_H_

// Computes the figures of a plan (planner/plan.h) as plain numbers, and writes them as JSON. The
// other outputs (table, map, SVG, page, trace) are generated from the struct Report and compute no
// further figures.
//
// All sizes are in bytes. Times are positions in the schedule, and intervals are half-open. A view
// counts as 0 bytes, and weights count once. The size of the arena is the number of bytes that are
// allocated, which includes padding to the alignment. The sizes of buffers, and the sums of live
// buffers, do not include padding.
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
  /// The address of the first byte, in the arena or in host memory.
  Bytes address = 0;
  Bytes size = 0;
  Time lower = 0;
  Time upper = 0;
};

struct ReportNode {
  /// The description of the node, for example `backward of "fc2"`.
  std::string label;
  std::string op;
  Phase phase = Phase::kForward;
  double flops = 0;
};

struct Report {
  std::string graph_name;
  int64_t params = 0;  // The number of elements of all params.
  /// The operations of one run. A multiply-add counts as two.
  double flops = 0;

  std::vector<ReportNode> nodes;      // The schedule.
  std::vector<ReportBuffer> buffers;  // In the order of the plan.
  int views = 0;
  int in_place = 0;

  Bytes alignment = 0;
  RegionBytes regions;
  Bytes arena = 0;  // regions.total().
  Bytes host = 0;   // regions.host(). Not in the arena.
  // The next six fields are copied from the plan, which describes them.
  Bytes lower_bound = 0;
  Bytes no_reuse = 0;
  Bytes caching_allocator = 0;
  std::string packer;
  std::string order;
  bool optimal = false;

  Time peak_time = 0;  // The time at which the lower bound is reached.
  /// The label of the node at peak_time. Empty after the last node.
  std::string peak_node;
  /// Indices of live buffers at peak_time, largest first.
  std::vector<int32_t> peak_live;
  /// Per node, the bytes of live buffers in each region.
  std::vector<RegionBytes> live;

  Bytes saved() const { return no_reuse - arena; }
  Bytes saved_over_caching() const { return caching_allocator - arena; }
  double saved_percent() const { return Percent(saved(), no_reuse); }
  double saved_over_caching_percent() const {
    return Percent(saved_over_caching(), caching_allocator);
  }
  /// Returns by how many percent the arena exceeds the lower bound. No better packing can save more
  /// than this excess.
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

/// Returns the figures of `plan`, which must be for `graph` (CheckPlanIsFor). The plan need not be
/// valid otherwise: slots may overlap or be misaligned. Linear in the number of nodes, values and
/// buffers, except for sorting the live set.
Report MakeReport(const Graph& graph, const Plan& plan);

/// Returns the bytes of `region` in `regions`.
Bytes BytesOf(const RegionBytes& regions, Region region);

/// The regions of the arena, in order.
inline constexpr Region kRegions[] = {Region::kWeights, Region::kState,
                                      Region::kIo, Region::kActivations,
                                      Region::kWorkspace};

/// Returns the figures as one object, with the names that `stowage plan --json` prints. "peak_live"
/// contains at most `peak_limit` buffers, the largest ones.
///
///   {"graph": "mlp", "params": 2410, "arena_bytes": 71680, ...,
///    "peak_live": [{"name": "h1", "bytes": 4096, "region": "activations"}],
///    ...}
nlohmann::ordered_json FiguresJson(const Report& report, size_t peak_limit);

/// Returns the object of FiguresJson as text, with all buffers that are live at the peak, and with
/// two more fields: "alignment", and "timeline", which contains the name, region, address, bytes
/// and lifetime of every buffer. The text ends with a newline.
std::string ToJson(const Report& report);

/// A plan to compare with another plan.
struct NamedReport {
  std::string name;
  const Report* report;
};

/// Returns the figures of two plans, and the second plan's figures minus the first plan's, as a
/// table of 79 columns. Names that are too long are truncated.
///
///   std::cout << ComparisonText({"kept", &kept}, {"recomputed", &recomputed});
std::string ComparisonText(const NamedReport& a, const NamedReport& b);

/// Returns an object of the form
/// {"plans": [{"name": ..., figures}, ...], "difference": {"arena_bytes": ...}}. A difference is
/// the second plan's figure minus the first plan's. Only integer figures have differences.
nlohmann::ordered_json ComparisonJson(const NamedReport& a,
                                      const NamedReport& b);

}  // namespace stowage

#endif  // STOWAGE_REPORT_NUMBERS_H_
