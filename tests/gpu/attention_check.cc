#include "tests/gpu/attention_check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gpu/attention_autotuner.h"
#include "gpu/gpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "tests/gpu/op_check.h"
#include "tests/support/elements.h"

namespace stowage::testing {
namespace {

// Of bf16 in the op table; of f32 that was summed in another order.
constexpr double kTolerance = 1.0 / 128;
constexpr double kStatisticsTolerance = 1e-5;

using Bytes16 = std::map<std::string, std::vector<std::byte>>;

Result<Graph> BuildAttention(const AttentionCheck& check) {
  GraphBuilder g("attention");
  const Shape shape{check.batch, check.length, check.heads, check.depth};
  std::vector<Value> qkv;
  for (const char* name : {"q", "k", "v"}) {
    qkv.push_back(g.Input(name, DType::kBF16, shape));
  }
  const double scale = 1 / std::sqrt(static_cast<double>(check.depth));
  const std::vector<Value> forward = g.Emit(
      OpKind::kAttention, qkv,
      {{"scale", scale}, {"causal", int64_t{1}}, {"window", int64_t{0}}});
  const AttentionGrads grads = AttentionGrad(
      qkv[0], qkv[1], qkv[2], forward[0], forward[1],
      g.Input("d_o", DType::kBF16, shape), {.scale = scale, .causal = true});
  g.Output("o", forward[0]);
  g.Output("log_sum_exp", forward[1]);
  g.Output("dq", grads.dq);
  g.Output("dk", grads.dk);
  g.Output("dv", grads.dv);
  return g.Finish();
}

Bytes16 NormalInputs(const Graph& graph) {
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  Bytes16 inputs;
  for (const ValueInfo& value : graph.values()) {
    if (!value.is_leaf()) continue;
    std::vector<std::byte>& bytes = inputs[value.name];
    bytes.resize(static_cast<size_t>(value.type.bytes()));
    for (size_t i = 0; i < bytes.size(); i += 2) {
      EncodeElement(DType::kBF16, normal(random), &bytes[i]);
    }
  }
  return inputs;
}

double Median(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Found {
  OutputBytes outputs;
  std::map<OpKind, double> seconds;  // the median
};

Result<Found> RunAttention(const AttentionCheck& check, const Graph& graph,
                           const Bytes16& inputs, Backend& backend) {
  STOWAGE_ASSIGN_OR_RETURN(Plan plan,
                           PlanMemory(graph, {.device = backend.Needs()}));
  STOWAGE_ASSIGN_OR_RETURN(
      Session session,
      Session::Create({{"attention", graph, std::move(plan)}}, backend));
  Runner& op = session.front();
  for (const auto& [name, bytes] : inputs) {
    STOWAGE_RETURN_IF_ERROR(op.WriteBytes(name, DType::kBF16, bytes));
  }
  Found found;
  std::vector<double> seconds(static_cast<size_t>(graph.num_nodes()));
  std::vector<std::vector<double>> of_node(seconds.size());
  for (int64_t step = 0; step < check.warm_up + check.steps; ++step) {
    if (const StepCode code = op.StepTimed(seconds); code != StepCode::kOk) {
      return op.Explain(code);
    }
    if (step < check.warm_up) continue;
    for (size_t n = 0; n < seconds.size(); ++n) {
      of_node[n].push_back(seconds[n]);
    }
  }
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    found.seconds[graph.node(n).op] = Median(of_node[static_cast<size_t>(n)]);
  }
  for (const GraphOutput& output : graph.outputs()) {
    const TensorType& type = graph.value(output.value).type;
    std::vector<std::byte>& bytes = found.outputs[output.name];
    bytes.resize(static_cast<size_t>(type.bytes()));
    STOWAGE_RETURN_IF_ERROR(op.ReadBytes(output.name, type.dtype, bytes));
  }
  return found;
}

}  // namespace

std::string AttentionName(const AttentionCheck& check) {
  return StrCat(check.batch, " x ", check.length, ", ", check.heads,
                " heads of ", check.depth);
}

Status CheckAttention(const AttentionCheck& check,
                      const std::vector<AttentionBackend>& ways,
                      Backend* trying, CheckRow* row) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, BuildAttention(check));
  const Bytes16 inputs = NormalInputs(graph);
  row->data = {{"timed_steps", check.steps}};
  Found first;
  for (const AttentionBackend& each : ways) {
    STOWAGE_ASSIGN_OR_RETURN(Found found,
                             RunAttention(check, graph, inputs, *each.backend));
    const std::string by = StrCat("by ", gpu::AttentionAlgorithmName(each.way));
    const double seconds = found.seconds[OpKind::kAttention];
    const double of_grad = found.seconds[OpKind::kAttentionGrad];
    row->figure += StrCat(row->figure.empty() ? "" : "; ", by, " ",
                          Fixed(1e3 * seconds, 3), " ms, gradient ",
                          Fixed(1e3 * of_grad, 3), " ms");
    std::string key = by;
    std::ranges::replace(key, ' ', '_');
    row->data[StrCat("seconds_", key)] = seconds;
    row->data[StrCat("gradient_seconds_", key)] = of_grad;
    if (first.outputs.empty()) {
      first = std::move(found);
      continue;
    }
    row->figure += ", relative differences";
    for (const GraphOutput& output : graph.outputs()) {
      const DType dtype = graph.value(output.value).type.dtype;
      const double tolerance =
          dtype == DType::kF32 ? kStatisticsTolerance : kTolerance;
      const double difference =
          LargestError(DecodeElements(dtype, found.outputs.at(output.name)),
                       DecodeElements(dtype, first.outputs.at(output.name)));
      row->figure += StrCat(" ", output.name, " ", difference);
      row->data[StrCat(output.name, "_difference_", key)] = difference;
      if (difference <= tolerance) continue;  // which NaN is not
      row->Fail(StrCat(output.name, " ", by, " differs by ", difference,
                       ", more than ", tolerance));
    }
  }
  if (trying == nullptr) return {};
  const auto tried = RunAttention(check, graph, inputs, *trying);
  const std::string description = trying->description();
  const size_t at = description.find(gpu::kAttentionTried);
  if (at != std::string::npos) {
    const std::string found = description.substr(at);
    row->figure += StrCat("; ", found);
    row->data["tried"] = found;
    if (found.find("left out") != std::string::npos) row->Fail(found);
  }
  return tried.ok() ? Status() : tried.error();
}

}  // namespace stowage::testing
