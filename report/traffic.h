#ifndef STOWAGE_REPORT_TRAFFIC_H_
#define STOWAGE_REPORT_TRAFFIC_H_

// Counts the memory traffic of a step from its graph. Every kernel launch reads each of its
// operands once and writes each of its results once, and no data stays in a cache between
// launches. A broadcast operand counts its distinct elements. A gather counts the rows that
// it reads. A linear_cross_entropy computes its logits in workspace, chunk by chunk. In
// addition to the traffic of its matmuls, the logits are read once for their sums, and the
// gradient reads and writes them once more. A loop counts its body in every iteration, and
// a branch counts its largest body. Consecutive updates by one op count as one launch, as
// on a GPU.
//
// A device cannot exceed its roofline (Williams, Waterman & Patterson 2009): the time of a
// launch is at least its bytes divided by the memory bandwidth, and at least its operations
// divided by the arithmetic rate. The sum over all launches is a lower bound, not a
// measurement. Kernels reach 60 to 95 % of either rate.
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

/// The rates of a device, according to its manufacturer, without sparsity.
struct RatedDevice {
  std::string name;
  double bytes_per_second = 0;
  /// The operations per second of matmuls and attention, in 16-bit types with f32 sums and
  /// in f32. A multiply-add counts as two. All other ops are assumed to run at the f32
  /// rate.
  double flops_16_bit = 0;
  double flops_f32 = 0;
  std::string source = {};  // The source of the rates.
};

/// Returns the known devices: "h100", "a100", "rtx4090" and so on.
const std::vector<RatedDevice>& RatedDevices();

/// Returns the device with this name, or with the rates "GB/s:GFLOP/s". For example,
/// "40:300" moves 40e9 bytes and performs 300e9 operations per second in every type.
/// Returns kInvalidArgument for any other text.
Result<RatedDevice> ParseRatedDevice(std::string_view text);

struct TrafficRow {
  std::string family;  // "products", "elementwise", ...
  int64_t launches = 0;
  Bytes read = 0;
  Bytes written = 0;
  double flops = 0;
  double seconds = 0;  // A lower bound on the device, or 0 without one.

  Bytes moved() const { return read + written; }
};

struct Traffic {
  std::vector<TrafficRow> families;  // Most bytes first.
  TrafficRow total;                  // The sum. Its family is "all".
  /// The sum of all families except matmuls and attention.
  TrafficRow rest;
  std::optional<RatedDevice> device;
};

/// Returns the traffic of one run of `graph`. Linear in the number of nodes.
Traffic CountTraffic(const Graph& graph,
                     const std::optional<RatedDevice>& device = std::nullopt);

/// Returns a table with one line per family.
std::string ToText(const Traffic& traffic);

/// Returns the traffic of a step as JSON. `total_bytes` is the number of bytes read and
/// written. `total`, `without_products_and_attention`, and each family in `families`, most
/// bytes first, have their own figures. If a device is given, the figures include the
/// seconds of the roofline, and `device` has its rates.
nlohmann::ordered_json TrafficJson(const Traffic& traffic);

/// Returns the plan as a trace for ui.perfetto.dev and chrome://tracing ("JSON Object
/// Format" of the Trace Event Format document). Each phase of the step is one row of
/// slices, and each node is one slice. A counter of live bytes has one series per region. A
/// plan has no clock, so each node is drawn as one microsecond.
std::string ToChromeTrace(const Report& report);

}  // namespace stowage

#endif  // STOWAGE_REPORT_TRAFFIC_H_
