#include "tests/cpu/by_f32_kernels.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"

namespace stowage::testing {
namespace {

bool IsHalf(DType dtype) { return IsFloat(dtype) && SizeOf(dtype) == 2; }

DType F32ForHalf(DType dtype) { return IsHalf(dtype) ? DType::kF32 : dtype; }

}  // namespace

Graph ByF32Kernels(const Graph& graph) {
  GraphBuilder g(graph.name());
  std::vector<Value> values(static_cast<size_t>(graph.num_values()));
  std::vector<Value> contents = values;  // as kernels make them, to write over
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& info = graph.value(id);
    if (!info.is_leaf()) continue;
    ValueInfo leaf = info;
    leaf.type.dtype = F32ForHalf(info.type.dtype);
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
      attrs.Set("dtype", F32ForHalf(attrs.Type("dtype")));
    }
    const std::vector<Value> results = g.Emit(node.op, inputs, attrs);
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ValueInfo& info = graph.value(node.results[r]);
      const DType dtype = info.type.dtype;
      Value& content = contents[static_cast<size_t>(node.results[r])];
      content = results[r];
      // What only moves is rounded already.
      const bool is_rounded = IsHalf(dtype) && !GetOpDef(node.op).is_view() &&
                              !info.on_host && node.op != OpKind::kReload;
      values[static_cast<size_t>(node.results[r])] =
          is_rounded ? Cast(Cast(results[r], dtype), DType::kF32) : results[r];
      if (is_rounded && static_cast<int>(r) < GetOpDef(node.op).updates) {
        content = Assign(content, values[static_cast<size_t>(node.results[r])]);
      }
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    g.Output(output.name, values[static_cast<size_t>(output.value)]);
  }
  Result<Graph> finished = g.Finish();
  REQUIRE_MESSAGE(finished.ok(), finished.error().message);
  return *std::move(finished);
}

}  // namespace stowage::testing
