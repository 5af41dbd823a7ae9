// Every row of the op test table, in f32 and f64, on the CPU kernels.

#include "tests/support/op_cases.h"

#include <doctest/doctest.h>

#include <vector>

#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "tests/cpu/run_graph.h"
#include "tests/support/elements.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

TEST_CASE("every op case agrees with the interpreter in f32") {
  for (const OpCase& c : OpCases(DType::kF32)) {
    CheckAgainstInterpreter(BuildCase(c), CaseLeaves(c), c.tolerance);
  }
}

TEST_CASE("every op case agrees with the interpreter in f64") {
  for (const OpCase& c : OpCases(DType::kF64)) {
    CheckAgainstInterpreter(BuildCase(c), CaseLeaves(c), c.tolerance);
  }
}

// The graph for kernels that compute in f32 and round what they store: f32 in
// place of bf16, every result rounded to bf16 and back.
Graph ByF32Kernels(const Graph& graph) {
  GraphBuilder g(graph.name());
  std::vector<Value> values(static_cast<size_t>(graph.num_values()));
  std::vector<Value> contents = values;  // as kernels make them, to write over
  const auto f32_for_bf16 = [](DType dtype) {
    return dtype == DType::kBF16 ? DType::kF32 : dtype;
  };
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& info = graph.value(id);
    if (!info.is_leaf()) continue;
    ValueInfo leaf = info;
    leaf.type.dtype = f32_for_bf16(info.type.dtype);
    values[static_cast<size_t>(id)] = g.LeafLike(leaf);
    contents[static_cast<size_t>(id)] = values[static_cast<size_t>(id)];
  }
  for (const Node& node : graph.nodes()) {
    std::vector<Value> inputs;
    for (const ValueId id : node.inputs) {
      const bool is_target =
          inputs.size() < static_cast<size_t>(GetOpDef(node.op).updates);
      inputs.push_back(
          (is_target ? contents : values)[static_cast<size_t>(id)]);
    }
    Attrs attrs = node.attrs;
    if (attrs.Find("dtype") != nullptr) {
      attrs.Set("dtype", f32_for_bf16(attrs.Type("dtype")));
    }
    const std::vector<Value> results = g.Emit(node.op, inputs, attrs);
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ValueInfo& info = graph.value(node.results[r]);
      contents[static_cast<size_t>(node.results[r])] = results[r];
      // What only moves is rounded already.
      const bool is_bf16 = info.type.dtype == DType::kBF16 && !info.on_host &&
                           node.op != OpKind::kFetch;
      values[static_cast<size_t>(node.results[r])] =
          is_bf16 && !GetOpDef(node.op).is_view()
              ? Cast(Cast(results[r], DType::kBF16), DType::kF32)
              : results[r];
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    g.Output(output.name, values[static_cast<size_t>(output.value)]);
  }
  Result<Graph> finished = g.Finish();
  REQUIRE_MESSAGE(finished.ok(), finished.error().message);
  return *std::move(finished);
}

TEST_CASE("bf16 op cases agree with kernels that compute in f32") {
  int64_t rounded = 0;  // outputs that f64 would not have given
  for (const OpCase& c : OpCases(DType::kBF16)) {
    if (c.op == OpKind::kAdamWSplitUpdate) continue;  // bf16 in every type
    CAPTURE(c.name);
    const Graph graph = BuildCase(c);
    const Tensors leaves = CaseLeaves(c);
    const Tensors want = Interpret(graph, leaves, Rounding::kTo16Bits);
    const Tensors exact = Interpret(graph, leaves);
    const CpuRun run = RunOnCpu(ByF32Kernels(graph), leaves);
    REQUIRE(run.code == StepCode::kOk);
    for (const auto& output : run.values) {
      CAPTURE(output.first);
      CHECK(LargestError(output.second, want.at(output.first)) <= c.tolerance);
      rounded += want.at(output.first) != exact.at(output.first);
    }
  }
  CHECK(rounded > 100);
}

TEST_CASE("some results of the op cases lie over their operands") {
  int overwritten = 0;
  for (const OpCase& c : OpCases(DType::kF32)) {
    overwritten +=
        RunOnCpu(BuildCase(c), CaseLeaves(c), {.overwrite = true}).overwritten;
  }
  CHECK(overwritten > 30);
}

}  // namespace
}  // namespace stowage
