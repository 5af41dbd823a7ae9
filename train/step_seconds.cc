#include "train/step_seconds.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/bytes.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"

namespace stowage {
namespace {

// Seconds of a run of what `build` makes, the median of a few.
template <typename Build>
Result<double> Seconds(Backend& backend, Build&& build) {
  using Clock = std::chrono::steady_clock;
  GraphBuilder g("rates");
  g.Output("y", build(g));
  STOWAGE_ASSIGN_OR_RETURN(Graph graph, g.Finish());
  STOWAGE_ASSIGN_OR_RETURN(Plan plan,
                           PlanMemory(graph, {.device = backend.Needs()}));
  std::vector<SessionProgram> programs;
  programs.push_back({"rates", std::move(graph), std::move(plan)});
  STOWAGE_ASSIGN_OR_RETURN(Session session,
                           Session::Create(std::move(programs), backend));
  session.Initialize(/*seed=*/0);
  Runner& runner = session.front();
  std::array<double, 7> seconds;
  runner.Step();  // finds the pages and the clock of the device
  for (double& of_run : seconds) {
    const Clock::time_point start = Clock::now();
    if (const StepCode code = runner.Step(); code != StepCode::kOk) {
      return runner.Explain(code);
    }
    of_run = std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::ranges::nth_element(seconds, seconds.begin() + 3);
  return std::max(seconds[3], 1e-9);
}

double BytesOf(const Graph& graph, const Node& node) {
  double bytes = 0;
  const auto add = [&](const auto& values) {
    for (const ValueId id : values) {
      bytes += static_cast<double>(graph.value(id).type.bytes());
    }
  };
  add(node.inputs);
  add(node.results);
  return bytes;
}

}  // namespace

Result<DeviceRates> MeasureRates(Backend& backend, DType dtype) {
  constexpr int64_t kRows = 256, kDepth = 512, kColumns = 1536;
  STOWAGE_ASSIGN_OR_RETURN(
      const double product, Seconds(backend, [&](GraphBuilder& g) {
        return MatMul(g.Param("a", dtype, {kRows, kDepth}),
                      g.Param("b", dtype, {kColumns, kDepth}), false, true);
      }));
  constexpr Bytes kVector = Bytes{16} << 20;
  const int64_t elements = kVector / SizeOf(dtype);
  STOWAGE_ASSIGN_OR_RETURN(const double sum,
                           Seconds(backend, [&](GraphBuilder& g) {
                             return Add(g.Param("a", dtype, {elements}),
                                        g.Param("b", dtype, {elements}));
                           }));
  return DeviceRates{
      .flops_per_second =
          2.0 * static_cast<double>(kRows * kDepth * kColumns) / product,
      .bytes_per_second = 3.0 * static_cast<double>(kVector) / sum};
}

double StepSeconds(const Graph& graph, const DeviceRates& rates) {
  double seconds = 0;
  for (const Node& node : graph.nodes()) {
    if (GetOpDef(node.op).is_view()) continue;
    double of_bodies = 0;  // the longest of them
    for (const auto& body : BodiesOf(node)) {
      of_bodies = std::max(of_bodies, StepSeconds(*body, rates));
    }
    seconds += static_cast<double>(TripsOf(node)) * of_bodies;
    if (!BodiesOf(node).empty()) continue;
    seconds += std::max(NodeFlops(graph, node) / rates.flops_per_second,
                        BytesOf(graph, node) / rates.bytes_per_second);
  }
  return seconds;
}

}  // namespace stowage
