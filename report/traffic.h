#ifndef STOWAGE_REPORT_TRAFFIC_H_
#define STOWAGE_REPORT_TRAFFIC_H_

// The memory traffic of a step, counted from its graph: every launch reads each of its
// operands once and writes each of its results once, and nothing stays in a cache between
// launches. A broadcast operand counts its distinct elements. A gather reads the rows
// that it takes. A linear_cross_entropy computes its logits in workspace, chunk by chunk:
// besides its matmuls these are read to be summed up, and by the gradient read and
// written once more. A loop counts its body in every iteration; a branch counts its
// largest body. Consecutive updates by one op are one launch, as on a GPU.
//
// A device cannot exceed its roofline (Williams, Waterman & Patterson 2009): a launch
// takes at least the time of its bytes at the memory's rate, and of its operations at the
// arithmetic's. The sum over all launches is a bound, not a measurement: kernels reach 60
// to 95 % of either rate.
//
//   const Traffic traffic = CountTraffic(step, *ParseRatedDevice("h100"));
//   traffic.total.read + traffic.total.written;  traffic.total.seconds;

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "report/numbers.h"

namespace stowage {

/// The rates of a device, according to its maker, without sparsity.
struct RatedDevice {
  std::string name;
  double bytes_per_second = 0;
  /// Operations of matmuls and attention, in 16-bit types with f32 sums and in f32; a
  /// multiply-add counts two. Everything else is assumed to run at the latter.
  double flops_16_bit = 0;
  double flops_f32 = 0;
  std::string source = {};  // the source of the rates
};

/// The names of known devices: "h100", "a100", "rtx4090" and so on.
const std::vector<RatedDevice>& RatedDevices();

/// A device by its name, or by its rates, "GB/s:GFLOP/s": "40:300" moves 40e9 bytes and
/// does 300e9 operations a second in every type. Error kInvalidArgument for anything
/// else.
Result<RatedDevice> ParseRatedDevice(std::string_view text);

struct TrafficRow {
  std::string family;  // "products", "elementwise", ...
  int64_t launches = 0;
  Bytes read = 0;
  Bytes written = 0;
  double flops = 0;
  double seconds = 0;  // at least, on the device; 0 without one

  Bytes moved() const { return read + written; }
};

struct Traffic {
  std::vector<TrafficRow> families;  // most bytes first
  TrafficRow total;                  // "all"
  /// All but matmuls and attention.
  TrafficRow rest;
  std::optional<RatedDevice> device;
};

/// The traffic of one run of `graph`. Linear in its nodes.
Traffic CountTraffic(const Graph& graph,
                     const std::optional<RatedDevice>& device = std::nullopt);

/// A table, a line a family.
std::string ToText(const Traffic& traffic);

/// The memory traffic of a step: `total_bytes`, read and written; `total`,
/// `without_products_and_attention`, and under `families` each family by its name, most
/// bytes first; with the roofline's seconds and `device`, if given.
nlohmann::ordered_json TrafficJson(const Traffic& traffic);

/// The plan as a trace that ui.perfetto.dev and chrome://tracing open ("JSON Object Format"
/// of the Trace Event Format document): one row of slices for each phase of the step, one
/// slice for each node, and a counter of live bytes with one series for each region. A plan
/// has no clock, so each node is drawn as one microsecond.
std::string ToChromeTrace(const Report& report);

}  // namespace stowage

#endif  // STOWAGE_REPORT_TRAFFIC_H_
