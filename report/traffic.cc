#include "report/traffic.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "planner/lifetimes.h"
#include "planner/placement.h"
#include "report/text.h"

namespace stowage {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kProducts = "products";
constexpr std::string_view kAttention = "attention";
constexpr std::string_view kCrossEntropy = "cross entropy";
constexpr std::string_view kElementwise = "elementwise";
constexpr std::string_view kOptimizer = "optimizer";

// The family of a node.
std::string_view FamilyOf(OpKind op) {
  switch (op) {
    case OpKind::kMatMul:
    case OpKind::kFusedMatMul:
    case OpKind::kEpilogueMatMul:
    case OpKind::kQuantizedMatMul:
    case OpKind::kGroupedMatMul:
    case OpKind::kGroupedMatMulWeightGrad:
    case OpKind::kConv:
    case OpKind::kConvTranspose:
    case OpKind::kConvWeightGrad:
    case OpKind::kLstm:
    case OpKind::kLstmGrad:
    case OpKind::kLstmWeightGrad:
      return kProducts;
    case OpKind::kAttention:
    case OpKind::kAttentionGrad:
    case OpKind::kAttentionQkvGrad:
    case OpKind::kAttentionBiasGrad:
      return kAttention;
    case OpKind::kCrossEntropy:
    case OpKind::kCrossEntropyGrad:
    case OpKind::kLinearCrossEntropy:
    case OpKind::kLinearCrossEntropyGrad:
      return kCrossEntropy;
    case OpKind::kLayerNorm:
    case OpKind::kLayerNormGrad:
    case OpKind::kLayerNormGradAdd:
    case OpKind::kRmsNorm:
    case OpKind::kRmsNormGrad:
    case OpKind::kSumPartials:
    case OpKind::kBatchNorm:
    case OpKind::kBatchNormGrad:
    case OpKind::kLocalResponseNorm:
    case OpKind::kLocalResponseNormGrad:
    case OpKind::kSoftmax:
    case OpKind::kSoftmaxGrad:
    case OpKind::kLogSoftmax:
    case OpKind::kLogSoftmaxGrad:
      return "norms, softmax";
    case OpKind::kReduceSum:
    case OpKind::kReduceMean:
    case OpKind::kReduceMax:
    case OpKind::kSumSquares:
    case OpKind::kArgMax:
      return "reductions";
    case OpKind::kConcat:
    case OpKind::kCopy:
    case OpKind::kCast:
    case OpKind::kPad:
    case OpKind::kPadGrad:
    case OpKind::kAssign:
    case OpKind::kSliceUpdate:
      return "movement";
    case OpKind::kGather:
    case OpKind::kQuantizedGather:
    case OpKind::kScatterAdd:
    case OpKind::kTakeAlongAxis:
    case OpKind::kPutAdd:
      return "embedding";
    case OpKind::kReload:
    case OpKind::kOffload:
    case OpKind::kOffloadUpdate:
      return "host copies";
    default:
      break;
  }
  const std::string_view name = OpName(op);
  const OpDef& def = GetOpDef(op);
  if (def.collective) return "among ranks";
  if (def.updates > 0 && name.ends_with("_update")) return kOptimizer;
  if (def.accepts == AcceptAnyStrides) return kElementwise;
  return "other";
}

TrafficRow CountNode(const Graph& graph, const Layouts& layouts,
                     const Node& node) {
  TrafficRow row;
  row.launches = 1;
  const NodeTraffic traffic = TrafficOf(graph, layouts, node, 0);
  for (const double bytes : traffic.operands) {
    row.read += static_cast<Bytes>(bytes);
  }
  for (const double bytes : traffic.results) {
    row.written += static_cast<Bytes>(bytes);
  }
  row.flops = NodeFlops(graph, node);
  return row;
}

void AddTo(TrafficRow* sum, const TrafficRow& row, int64_t times = 1) {
  sum->launches += times * row.launches;
  sum->read += times * row.read;
  sum->written += times * row.written;
  sum->flops += static_cast<double>(times) * row.flops;
  sum->seconds += static_cast<double>(times) * row.seconds;
}

class Counter {
 public:
  explicit Counter(const std::optional<RatedDevice>& device)
      : device_(device) {}

  using Rows = std::map<std::string, TrafficRow, std::less<>>;

  Rows Count(const Graph& graph) const {
    Rows rows;
    const Layouts layouts = ComputeLayouts(graph);
    OpKind last_update = OpKind::kCopy;  // of the node before; kCopy: none
    for (const Node& node : graph.nodes()) {
      if (GetOpDef(node.op).is_view()) continue;
      const bool is_update = FamilyOf(node.op) == kOptimizer;
      const bool goes_on = is_update && node.op == last_update;
      last_update = is_update ? node.op : OpKind::kCopy;
      if (!BodiesOf(node).empty()) {
        AddBodies(node, &rows);
        continue;
      }
      const DType dtype = node.inputs.empty()
                              ? DType::kF32
                              : graph.value(node.inputs[0]).type.dtype;
      TrafficRow row = CountNode(graph, layouts, node);
      if (goes_on) row.launches = 0;
      if (node.op == OpKind::kLinearCrossEntropy ||
          node.op == OpKind::kLinearCrossEntropyGrad) {
        AddLogits(graph, node, row, dtype, &rows);
      } else {
        Add(FamilyOf(node.op), row, dtype, &rows);
      }
    }
    return rows;
  }

 private:
  void Add(std::string_view family, TrafficRow row, DType dtype,
           Rows* rows) const {
    if (device_) row.seconds = Seconds(family, row, dtype);
    AddTo(&(*rows)[std::string(family)], row);
  }

  double Seconds(std::string_view family, const TrafficRow& row,
                 DType dtype) const {
    const bool multiplies = family == kProducts || family == kAttention;
    const double rate = multiplies && SizeOf(dtype) == 2 ? device_->flops_16_bit
                                                         : device_->flops_f32;
    return std::max(
        static_cast<double>(row.moved()) / device_->bytes_per_second,
        row.flops / rate);
  }

  // The node's matmuls, x w^T and its gradients, move the node's operands and results and the
  // logits, which are written once, and read twice if there is a gradient.
  void AddLogits(const Graph& graph, const Node& node, const TrafficRow& row,
                 DType dtype, Rows* rows) const {
    const TensorType& x = graph.value(node.inputs[0]).type;
    const TensorType& w = graph.value(node.inputs[1]).type;
    const Bytes logits =
        x.shape.num_elements() / x.shape.back() * w.shape[0] * SizeOf(x.dtype);
    const bool is_grad = node.op == OpKind::kLinearCrossEntropyGrad;
    TrafficRow products = row;
    products.written += logits;
    if (is_grad) products.read += 2 * logits;
    Add(kProducts, products, dtype, rows);
    TrafficRow sums;
    sums.read = (is_grad ? 2 : 1) * logits;
    sums.written = is_grad ? logits : 0;
    Add(kCrossEntropy, sums, dtype, rows);
  }

  void AddBodies(const Node& node, Rows* rows) const {
    Rows most;
    Bytes moved = -1;
    for (const auto& body : BodiesOf(node)) {
      Rows of_body = Count(*body);
      Bytes sum = 0;
      for (const auto& [family, row] : of_body) sum += row.moved();
      if (sum > moved) most = std::move(of_body);
      moved = std::max(moved, sum);
    }
    for (const auto& [family, row] : most) {
      AddTo(&(*rows)[family], row, IterationsOf(node));
    }
  }

  const std::optional<RatedDevice>& device_;
};

std::optional<double> ReadRate(std::string_view text) {
  double rate = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), rate);
  const bool is_whole =
      error == std::errc() && end == text.data() + text.size();
  if (!is_whole || !(rate > 0) || !std::isfinite(rate)) return std::nullopt;
  return rate * 1e9;
}

std::string Gigabytes(Bytes bytes) {
  return PadLeft(Fixed(static_cast<double>(bytes) / 1e9, 3), 12);
}

std::string RowText(const TrafficRow& row, bool has_device) {
  std::string text =
      StrCat(PadRight(row.family, 16), PadLeft(StrCat(row.launches), 9),
             Gigabytes(row.read), Gigabytes(row.written),
             Gigabytes(row.moved()), PadLeft(Fixed(row.flops / 1e9, 3), 14));
  if (has_device) text += PadLeft(Fixed(1e3 * row.seconds, 3), 12);
  return text + "\n";
}

Json TrafficRowJson(const TrafficRow& row, bool has_device) {
  Json json = {{"launches", row.launches},
               {"read_bytes", row.read},
               {"written_bytes", row.written},
               {"flops", row.flops}};
  if (has_device) json["roofline_seconds"] = row.seconds;
  return json;
}

constexpr int kProcess = 1;

Json Metadata(const char* what, int thread, std::string_view name) {
  return {{"ph", "M"},
          {"pid", kProcess},
          {"tid", thread},
          {"name", what},
          {"args", {{"name", name}}}};
}

int ThreadOf(Phase phase) { return static_cast<int>(phase) + 1; }

}  // namespace

const std::vector<RatedDevice>& RatedDevices() {
  static const auto& kRates = *new std::vector<RatedDevice>{
      {"a100", 2039e9, 312e12, 19.5e12,
       "NVIDIA A100 datasheet, 80 GB SXM (2021)"},
      {"h100", 3350e9, 989e12, 67e12, "NVIDIA H100 datasheet, SXM (2023)"},
      {"h200", 4800e9, 989e12, 67e12, "NVIDIA H200 datasheet, SXM (2024)"},
      {"rtx4090", 1008e9, 165.2e12, 82.6e12,
       "NVIDIA Ada GPU architecture whitepaper, appendix A (2022)"},
      {"rtx5090", 1792e9, 209.5e12, 104.8e12,
       "NVIDIA RTX Blackwell GPU architecture whitepaper, appendix (2025)"}};
  return kRates;
}

Result<RatedDevice> ParseRatedDevice(std::string_view text) {
  std::string names;
  for (const RatedDevice& rates : RatedDevices()) {
    if (rates.name == text) return rates;
    names += StrCat(names.empty() ? "" : ", ", rates.name);
  }
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    const auto bytes = ReadRate(text.substr(0, colon));
    const auto flops = ReadRate(text.substr(colon + 1));
    if (bytes && flops) {
      return RatedDevice{.name = std::string(text),
                         .bytes_per_second = *bytes,
                         .flops_16_bit = *flops,
                         .flops_f32 = *flops,
                         .source = "as given"};
    }
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[traffic] there is no device ", Quoted(text),
                      "; expected one of ", names,
                      ", or rates as GB/s:GFLOP/s, such as 40:300")};
}

Traffic CountTraffic(const Graph& graph,
                     const std::optional<RatedDevice>& device) {
  Traffic traffic;
  traffic.device = device;
  traffic.total.family = "all";
  traffic.rest.family = "all but products and attention";
  for (auto& [family, row] : Counter(device).Count(graph)) {
    row.family = family;
    AddTo(&traffic.total, row);
    if (family != kProducts && family != kAttention) {
      AddTo(&traffic.rest, row);
    }
    traffic.families.push_back(row);
  }
  std::ranges::stable_sort(traffic.families,
                           [](const TrafficRow& a, const TrafficRow& b) {
                             return a.moved() > b.moved();
                           });
  return traffic;
}

std::string ToText(const Traffic& traffic) {
  const bool has_device = traffic.device.has_value();
  std::string text = StrCat(
      "traffic          launches     GB read  GB written    GB moved"
      "       GFLOP",
      has_device ? "    at least ms" : "", "\n");
  for (const TrafficRow& row : traffic.families) {
    text += RowText(row, has_device);
  }
  text += RowText(traffic.total, has_device);
  text += StrCat(
      "all but products and attention: ", traffic.rest.launches, " launches, ",
      Fixed(static_cast<double>(traffic.rest.moved()) / 1e9, 3), " GB moved\n");
  if (has_device) {
    const RatedDevice& device = *traffic.device;
    text += StrCat("a bound, not a measurement, for ", device.name, ": ",
                   Fixed(device.bytes_per_second / 1e9, 0), " GB/s, ",
                   Fixed(device.flops_16_bit / 1e12, 3),
                   " TFLOP/s in 16 bits, ", Fixed(device.flops_f32 / 1e12, 3),
                   " in f32 (", device.source, ")\n");
  }
  return text;
}

Json TrafficJson(const Traffic& traffic) {
  const bool has_device = traffic.device.has_value();
  Json json = Json::object();
  json["total_bytes"] = traffic.total.moved();
  json["total"] = TrafficRowJson(traffic.total, has_device);
  json["without_products_and_attention"] =
      TrafficRowJson(traffic.rest, has_device);
  json["families"] = Json::object();
  for (const TrafficRow& row : traffic.families) {
    json["families"][row.family] = TrafficRowJson(row, has_device);
  }
  if (has_device) {
    const RatedDevice& rates = *traffic.device;
    json["device"] = {{"name", rates.name},
                      {"bytes_per_second", rates.bytes_per_second},
                      {"flops_16_bit_per_second", rates.flops_16_bit},
                      {"flops_f32_per_second", rates.flops_f32},
                      {"source", rates.source}};
  }
  return json;
}

std::string ToChromeTrace(const Report& report) {
  Json events = Json::array();
  events.push_back(Metadata("process_name", 0, report.graph_name));
  for (const Phase phase :
       {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
    events.push_back(
        Metadata("thread_name", ThreadOf(phase), PhaseName(phase)));
  }
  for (size_t time = 0; time < report.nodes.size(); ++time) {
    const ReportNode& node = report.nodes[time];
    events.push_back({{"ph", "X"},
                      {"pid", kProcess},
                      {"tid", ThreadOf(node.phase)},
                      {"ts", time},
                      {"dur", 1},
                      {"name", node.label},
                      {"cat", PhaseName(node.phase)},
                      {"args", {{"op", node.op}, {"flops", node.flops}}}});
    Json bytes = Json::object();
    for (const Region region : kRegions) {
      bytes[std::string(RegionName(region))] =
          BytesOf(report.live[time], region);
    }
    events.push_back({{"ph", "C"},
                      {"pid", kProcess},
                      {"ts", time},
                      {"name", "live bytes"},
                      {"args", std::move(bytes)}});
  }
  const Json trace = {{"traceEvents", std::move(events)},
                      {"displayTimeUnit", "ns"},
                      {"otherData",
                       {{"graph", report.graph_name},
                        {"arena_bytes", report.arena},
                        {"time", "one node is drawn as one microsecond"}}}};
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace stowage
