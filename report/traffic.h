#ifndef STOWAGE_REPORT_TRAFFIC_H_
#define STOWAGE_REPORT_TRAFFIC_H_

// Counts the memory traffic of a step from its graph. Every kernel launch is assumed to read each
// of its operands once and to write each of its results once, and no data stays in a cache between
// launches. Of a broadcast operand, only the distinct elements count. Of the table of a gather,
// only the rows that the gather reads count. A linear_cross_entropy computes its logits in
// workspace, chunk by chunk. In addition to the traffic of its matmuls, the logits are read once
// for their sums, and the gradient reads and writes them once more. The traffic of a loop's body is
// multiplied by the number of iterations. For a branch, the body with the most traffic is counted.
// Consecutive updates by one op count as one launch, as on a GPU.
//
// A device cannot exceed its roofline (Williams, Waterman & Patterson 2009): the time of a
// launch is at least its bytes divided by the memory bandwidth, and at least its operations
// divided by the arithmetic rate. The sum over all launches is a lower bound of the time of the
// step, not a measurement. Kernels reach 60 to 95 % of one of the two rates.
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
  /// The operations per second of matmuls and attention in 16-bit types with f32 sums. A
  /// multiply-add counts as two.
  double flops_16_bit = 0;
  /// The operations per second of matmuls and attention in other types, and of all other ops.
  double flops_f32 = 0;
  std::string source = {};  // The document that states the rates.
};

/// Returns the devices with known rates: "h100", "a100", "rtx4090" and others.
const std::vector<RatedDevice>& RatedDevices();

/// Returns the device with this name, or a device with the rates `text` in the form "GB/s:GFLOP/s".
/// For example, "40:300" moves 40e9 bytes and performs 300e9 operations per second in every type.
/// Returns kInvalidArgument for any other text.
Result<RatedDevice> ParseRatedDevice(std::string_view text);

struct TrafficRow {
  /// "products" (matmuls, convolutions and LSTMs), "elementwise" and others.
  std::string family;
  int64_t launches = 0;
  Bytes read = 0;
  Bytes written = 0;
  double flops = 0;
  /// A lower bound of the time on the device, or 0 if there is no device.
  double seconds = 0;

  Bytes moved() const { return read + written; }
};

struct Traffic {
  std::vector<TrafficRow> families;  // Most bytes first.
  /// The sum of all families, with the name "all".
  TrafficRow total;
  /// The sum of all families except "products" and "attention".
  TrafficRow rest;
  std::optional<RatedDevice> device;
};

/// Returns the traffic of one run of `graph`, with lower bounds of the time on `device` if it is
/// given. Linear in the number of nodes.
Traffic CountTraffic(const Graph& graph,
                     const std::optional<RatedDevice>& device = std::nullopt);

/// Returns a table with one line per family.
std::string ToText(const Traffic& traffic);

/// Returns the traffic of a step as JSON. "total_bytes" is the number of bytes read and written.
/// "total" (Traffic::total), "without_products_and_attention" (Traffic::rest), and each family in
/// "families", most bytes first, have the figures of a TrafficRow. If there is a device, the
/// figures include the seconds of the roofline, and "device" contains the device's rates.
nlohmann::ordered_json TrafficJson(const Traffic& traffic);

/// Returns the plan of `report` as a trace for ui.perfetto.dev and chrome://tracing ("JSON Object
/// Format" of the Trace Event Format document). Each phase of the step is one row of
/// slices, and each node is one slice. A counter of live bytes has one series per region. A plan
/// does not contain times of execution, so each node is drawn as one microsecond.
std::string ToChromeTrace(const Report& report);

}  // namespace stowage

#endif  // STOWAGE_REPORT_TRAFFIC_H_
