#include "nn/quantized_params.h"

#include <optional>

#include "base/result.h"
#include "base/strings.h"
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "nn/layers.h"

namespace stowage {
namespace {

// A stack of matrices as one matrix of all rows.
Shape AsMatrix(const Shape& shape) {
  if (shape.rank() < 3) return shape;
  return {shape.num_elements() / shape.back(), shape.back()};
}

class Pass {
 public:
  Pass(const Graph& graph, const WeightTypes& types)
      : graph_(graph),
        types_(types),
        g_(graph.name()),
        copy_(graph, &g_),
        blocks_(static_cast<size_t>(graph.num_values())) {}

  Result<Graph> Run() {
    STOWAGE_RETURN_IF_ERROR(DeclareLeaves());
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      STOWAGE_RETURN_IF_ERROR(CopyNode(id));
    }
    copy_.DeclareOutputs();
    return g_.Finish();
  }

 private:
  Status DeclareLeaves() {
    size_t found = 0;
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const ValueInfo& info = graph_.value(id);
      if (!info.is_leaf()) continue;
      const auto type = types_.find(info.name);
      if (type == types_.end() || info.role != Role::kParam) {
        copy_.DeclareLeaf(id);
        continue;
      }
      ++found;
      const std::optional<TensorType> bytes =
          BytesOfMatrix(type->second, AsMatrix(info.type.shape));
      if (!bytes) {
        return InvalidArgumentError(
            "[quantized] param ", Quoted(info.name), " is ",
            info.type.ToString(), "; a matrix in ", FormatOf(type->second).name,
            " has rows of ", FormatOf(type->second).numbers,
            " numbers or a multiple");
      }
      ValueInfo leaf = info;
      leaf.type = *bytes;
      leaf.init = Init::Zeros();
      copy_.Map(id, DeclareLeaf(g_, leaf, Role::kParam));
      blocks_[static_cast<size_t>(id)] = type->second;
    }
    if (found == types_.size()) return {};
    for (const auto& [name, type] : types_) {
      const std::optional<ValueId> id = graph_.Find(name);
      if (id && graph_.value(*id).role == Role::kParam) continue;
      return InvalidArgumentError("[quantized] ", Quoted(graph_.name()),
                                  " has no param ", Quoted(name));
    }
    return {};
  }

  const std::optional<WeightType>& BlocksOf(const Node& node, size_t i) const {
    return blocks_[static_cast<size_t>(node.inputs[i])];
  }

  Status CopyNode(NodeId id) {
    const Node& node = graph_.node(id);
    size_t at = 0;
    while (at < node.inputs.size() && !BlocksOf(node, at)) ++at;
    if (at == node.inputs.size()) {
      copy_.CopyNode(id);
      return {};
    }
    const WeightType type = *BlocksOf(node, at);
    if (!ReadsBlocks(node, at)) {
      return InvalidArgumentError(
          "[quantized] param ", Quoted(graph_.value(node.inputs[at]).name),
          " is operand ", at, " of ", OpName(node.op), " ", graph_.Describe(id),
          ", which does not read blocks of ", FormatOf(type).name);
    }
    copy_.SetOrigin(id);
    if (node.op == OpKind::kMatMul) {
      TakePlace(node,
                QuantizedMatMul(copy_[node.inputs[0]], copy_[node.inputs[1]],
                                type, node.attrs.Int("transpose_b") == 1));
      return {};
    }
    if (node.op == OpKind::kGather) {
      TakePlace(node, Cast(QuantizedGather(copy_[node.inputs[0]],
                                           copy_[node.inputs[1]], type),
                           graph_.value(node.results[0]).type.dtype));
      return {};
    }
    if (node.op == OpKind::kGroupedMatMul) {
      const TensorType& matrices = graph_.value(node.inputs[1]).type;
      const Value rows =
          Iota(g_, DType::kI32, 0, 1, AsMatrix(matrices.shape)[0]);
      const Value decoded = Reshape(
          QuantizedGather(copy_[node.inputs[1]], rows, type), matrices.shape);
      TakePlace(node, GroupedMatMul(copy_[node.inputs[0]],
                                    Cast(decoded, matrices.dtype),
                                    copy_[node.inputs[2]],
                                    node.attrs.Int("transpose_w") == 1));
      return {};
    }
    Attrs attrs = node.attrs;
    attrs.Set("blocks", static_cast<int64_t>(type));
    copy_.CopyNode(id, attrs);
    return {};
  }

  // Replaces the node's only result by `value`, under its name.
  void TakePlace(const Node& node, Value value) {
    const ValueInfo& info = graph_.value(node.results[0]);
    if (value.ok()) g_.Name(info.name, value);
    copy_.Map(node.results[0], value);
  }

  const Graph& graph_;
  const WeightTypes& types_;
  GraphBuilder g_;
  GraphCopy copy_;
  std::vector<std::optional<WeightType>> blocks_;  // by value
};

}  // namespace

bool ReadsBlocks(const Node& node, size_t i) {
  switch (node.op) {
    case OpKind::kMatMul:
      return i == 1 && node.attrs.Int("transpose_a") == 0;
    case OpKind::kGroupedMatMul:
      return i == 1;
    case OpKind::kGather:
      return i == 0;
    case OpKind::kLinearCrossEntropy:
      return i == 1 && node.attrs.Int("blocks") == kNoBlocks;
    default:
      return false;
  }
}

std::vector<std::string> ReadableInBlocks(const Graph& graph) {
  std::vector<bool> readable(static_cast<size_t>(graph.num_values()), true);
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!ReadsBlocks(node, i)) {
        readable[static_cast<size_t>(node.inputs[i])] = false;
      }
    }
  }
  std::vector<std::string> names;
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    const ValueInfo& info = graph.value(id);
    if (readable[static_cast<size_t>(id)] &&
        (info.type.shape.rank() == 2 || IsOfExperts(info.name))) {
      names.push_back(info.name);
    }
  }
  return names;
}

Result<Graph> WithQuantizedParams(const Graph& graph,
                                  const WeightTypes& types) {
  return Pass(graph, types).Run();
}

}  // namespace stowage
