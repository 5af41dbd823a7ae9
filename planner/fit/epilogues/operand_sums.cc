#include "planner/fit/epilogues/operand_sums.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "base/index.h"
#include "ir/attrs.h"
#include "ir/dtype.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/shape.h"

namespace stowage::fit {
namespace {

class Finder {
 public:
  Finder(const Graph& graph, const Layouts& layouts, std::vector<bool> taken)
      : graph_(graph), layouts_(layouts), taken_(std::move(taken)) {
    for (ValueId id = 0; id < graph_.num_values(); ++id) source_.push_back(id);
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
      const Node& node = graph_.node(n);
      if (GetOpDef(node.op).is_view()) {
        for (const ValueId view : node.results) {
          source_[Index(view)] = source_[Index(node.inputs[0])];
        }
      }
      if (IsSumOfRows(node)) {
        sums_of_[source_[Index(node.inputs[0])]].push_back(n);
      }
    }
  }

  std::vector<OperandSums> Find() {
    std::vector<OperandSums> all;
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
      if (taken_[Index(n)] || !IsProduct(graph_.node(n))) continue;
      for (const bool of_a : {false, true}) {
        const NodeId sum = SumBeside(n, of_a);
        if (sum == kNoNode) continue;
        taken_[Index(sum)] = true;
        all.push_back({.product = n, .sum = sum, .of_a = of_a});
        break;
      }
    }
    return all;
  }

 private:
  const TensorType& TypeOf(ValueId id) const { return graph_.value(id).type; }
  bool IsStored(ValueId id) const {
    return IsContiguous(TypeOf(id).shape, layouts_[Index(id)].strides);
  }
  bool IsOfBackward(const Node& node) const {
    const DType dtype = TypeOf(node.results[0]).dtype;
    return node.phase == Phase::kBackward && IsFloat(dtype) &&
           dtype != DType::kF64;
  }

  // Over all axes but the last, of what lies row after row.
  bool IsSumOfRows(const Node& node) const {
    if (node.op != OpKind::kReduceSum || !IsOfBackward(node)) return false;
    const auto axes = static_cast<int>(node.attrs.Ints("axes").size());
    const int rank = TypeOf(node.inputs[0]).shape.rank();
    return axes > 0 && axes == rank - 1 &&
           node.attrs.Ints("axes").back() == rank - 2 &&
           node.attrs.Int("keep") == 0 && IsStored(node.inputs[0]);
  }

  bool IsProduct(const Node& node) const {
    return node.op == OpKind::kMatMul && IsOfBackward(node) &&
           TypeOf(node.inputs[0]).shape.rank() == 2 &&
           TypeOf(node.inputs[1]).shape.rank() == 2;
  }

  // The sum over the rows, along which the product adds up, of the same bytes.
  NodeId SumBeside(NodeId product, bool of_a) const {
    const Node& node = graph_.node(product);
    if (node.attrs.Int(of_a ? "transpose_a" : "transpose_b") !=
        (of_a ? 1 : 0)) {
      return kNoNode;
    }
    const ValueId matrix = node.inputs[of_a ? 0 : 1];
    const auto sums = sums_of_.find(source_[Index(matrix)]);
    if (sums == sums_of_.end() || !IsStored(matrix)) return kNoNode;
    for (const NodeId sum : sums->second) {
      if (!taken_[Index(sum)] && IsSame(graph_.node(sum).inputs[0], matrix) &&
          MayBeOne(product, sum)) {
        return sum;
      }
    }
    return kNoNode;
  }

  // Of values of one source that both lie row after row.
  bool IsSame(ValueId x, ValueId matrix) const {
    const Shape& shape = TypeOf(x).shape;
    return layouts_[Index(x)].byte_offset ==
               layouts_[Index(matrix)].byte_offset &&
           shape.back() == TypeOf(matrix).shape.back() &&
           shape.num_elements() == TypeOf(matrix).shape.num_elements();
  }

  // Whether the later of the two may stand where the earlier stands: what it reads is
  // there.
  bool MayBeOne(NodeId product, NodeId sum) const {
    const auto [first, last] = std::minmax(product, sum);
    return std::ranges::all_of(
        graph_.node(last).inputs, [&, first = first](ValueId id) {
          return graph_.value(source_[Index(id)]).producer < first;
        });
  }

  const Graph& graph_;
  const Layouts& layouts_;
  std::vector<bool> taken_;      // per node
  std::vector<ValueId> source_;  // per value: what it is a view of, or itself
  std::map<ValueId, std::vector<NodeId>> sums_of_;  // by the source
};

}  // namespace

std::vector<OperandSums> FindOperandSums(const Graph& graph,
                                         const Layouts& layouts,
                                         std::vector<bool> taken) {
  return Finder(graph, layouts, std::move(taken)).Find();
}

}  // namespace stowage::fit
