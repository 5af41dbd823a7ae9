#include "planner/fit/epilogues/epilogues.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"

namespace stowage::fit {

namespace {

class EpilogueFinder {
 public:
  EpilogueFinder(const Graph& graph, const Layouts& layouts,
                 std::vector<bool> taken)
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
  return EpilogueFinder(graph, layouts, std::move(taken)).Find();
}

namespace {

constexpr ValueId kNone = -1;

// A product, and what becomes part of it.
struct Epilogue {
  std::vector<NodeId> parts = {};  // in order, behind the product
  ValueId bias = kNone;
  ValueId addend = kNone;
  ValueId gelu_x = kNone;
  ValueId result = kNone;
  ValueId sums = kNone;  // of a, or else of b
  bool sums_a = false;
};

class Former {
 public:
  Former(const SampledStep& step, std::span<const std::string> named)
      : step_(step),
        graph_(step.graph),
        layouts_(ComputeLayouts(graph_)),
        readers_(Index(graph_.num_values())),
        stays_(Index(graph_.num_values()), false),
        is_named_(Index(graph_.num_values()), false),
        epilogues_(Index(graph_.num_nodes())),
        product_at_(Index(graph_.num_nodes()), kNoNode),
        absorbed_(Index(graph_.num_nodes()), false) {
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
      for (const ValueId input : graph_.node(n).inputs) {
        readers_[Index(input)].push_back(n);
      }
    }
    for (const GraphOutput& output : graph_.outputs()) {
      stays_[Index(output.value)] = true;
    }
    for (const std::string& name : named) {
      if (const auto id = graph_.Find(name)) is_named_[Index(*id)] = true;
    }
  }

  Result<SampledStep> Form() {
    bool any = false;
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
      any = Find(n, &epilogues_[Index(n)]) || any;
    }
    any = FindOperandSums() || any;
    if (!any) return step_;
    DropViews();
    return Write();
  }

 private:
  const TensorType& TypeOf(ValueId id) const { return graph_.value(id).type; }

  // One product of two matrices, the leading dimensions of a being rows, too.
  bool IsOneProduct(const Node& node) const {
    if (node.op != OpKind::kMatMul) return false;
    const TensorType& y = TypeOf(node.results[0]);
    return IsFloat(y.dtype) && y.dtype != DType::kF64 &&
           TypeOf(node.inputs[1]).shape.rank() == 2 &&
           (y.shape.rank() == 2 || node.attrs.Int("transpose_a") == 0);
  }

  // The node that may become a part with what makes `id`: it alone reads that, once.
  NodeId NextPart(ValueId id) const {
    const std::vector<NodeId>& readers = readers_[Index(id)];
    if (readers.size() != 1 || stays_[Index(id)] || is_named_[Index(id)]) {
      return kNoNode;
    }
    const ValueId next = graph_.node(readers[0]).results[0];
    return is_named_[Index(next)] ? kNoNode : readers[0];
  }

  // The vector that `id` repeats in all rows.
  ValueId RowOf(ValueId id) const {
    const NodeId producer = graph_.value(id).producer;
    if (producer == kNoNode) return kNone;
    const Node& view = graph_.node(producer);
    if (view.op != OpKind::kBroadcast) return kNone;
    const ValueId row = view.inputs[0];
    const Shape& shape = TypeOf(row).shape;
    const bool is_row =
        shape.rank() == 1 && shape[0] == TypeOf(id).shape.back();
    return is_row && IsStored(row) ? row : kNone;
  }
  bool IsStored(ValueId id) const {
    return IsContiguous(TypeOf(id).shape, layouts_[Index(id)].strides);
  }

  bool Find(NodeId n, Epilogue* epilogue) {
    const Node& product = graph_.node(n);
    if (!IsOneProduct(product)) return false;
    epilogue->result = product.results[0];
    FindSums(n, epilogue);
    if (epilogue->parts.empty()) FindGeluGrad(n, epilogue);
    if (epilogue->parts.empty()) return false;
    product_at_[Index(n)] = n;
    for (const NodeId part : epilogue->parts) absorbed_[Index(part)] = true;
    for (const ValueId read :
         {epilogue->bias, epilogue->addend, epilogue->gelu_x}) {
      if (read != kNone) stays_[Index(read)] = true;
    }
    return true;
  }

  void FindSums(NodeId head, Epilogue* epilogue) const {
    for (;;) {
      const NodeId n = NextPart(epilogue->result);
      if (n == kNoNode) return;
      const Node& add = graph_.node(n);
      if (add.op != OpKind::kAdd || add.phase != Phase::kForward) return;
      const bool is_first = add.inputs[0] == epilogue->result;
      const ValueId other = add.inputs[is_first ? 1 : 0];
      const ValueId row = RowOf(other);
      if (row != kNone && graph_.value(row).producer < head &&
          epilogue->bias == kNone && epilogue->addend == kNone) {
        epilogue->bias = row;
      } else if (graph_.value(other).producer < head && IsStored(other) &&
                 epilogue->addend == kNone) {
        epilogue->addend = other;
      } else {
        return;
      }
      epilogue->parts.push_back(n);
      epilogue->result = add.results[0];
    }
  }

  void FindGeluGrad(NodeId head, Epilogue* epilogue) const {
    const NodeId n = NextPart(epilogue->result);
    if (n == kNoNode) return;
    const Node& grad = graph_.node(n);
    if (grad.op != OpKind::kGeluTanhGrad ||
        grad.inputs[1] != epilogue->result ||
        grad.phase != graph_.node(head).phase) {
      return;
    }
    const ValueId x = grad.inputs[0];
    if (graph_.value(x).producer >= head || !IsStored(x)) return;
    epilogue->gelu_x = x;
    epilogue->parts.push_back(n);
    epilogue->result = grad.results[0];
  }

  // Of products that have no epilogue yet.
  bool FindOperandSums() {
    std::vector<bool> taken(Index(graph_.num_nodes()));
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
      taken[Index(n)] = product_at_[Index(n)] != kNoNode ||
                        absorbed_[Index(n)] ||
                        is_named_[Index(graph_.node(n).results[0])];
    }
    const std::vector<OperandSums> all =
        fit::FindOperandSums(graph_, layouts_, std::move(taken));
    for (const OperandSums& found : all) {
      Epilogue& epilogue = epilogues_[Index(found.product)];
      epilogue.parts = {found.sum};
      epilogue.result = graph_.node(found.product).results[0];
      epilogue.sums = graph_.node(found.sum).results[0];
      epilogue.sums_a = found.of_a;
      absorbed_[Index(found.product)] = absorbed_[Index(found.sum)] = true;
      product_at_[Index(std::min(found.product, found.sum))] = found.product;
    }
    return !all.empty();
  }

  // Broadcasts of biases that nothing reads any more.
  void DropViews() {
    for (NodeId n = graph_.num_nodes() - 1; n >= 0; --n) {
      const Node& node = graph_.node(n);
      if (node.op != OpKind::kBroadcast || stays_[Index(node.results[0])]) {
        continue;
      }
      const std::vector<NodeId>& readers = readers_[Index(node.results[0])];
      absorbed_[Index(n)] =
          !readers.empty() && std::ranges::all_of(readers, [&](NodeId reader) {
            return absorbed_[Index(reader)];
          });
    }
  }

  Result<SampledStep> Write() const {
    GraphBuilder g(graph_.name());
    GraphCopy copy(graph_, &g);
    copy.DeclareLeaves();
    SampledStep formed = step_;
    size_t micro_batch = 0;
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
      for (;
           micro_batch < step_.begins.size() && step_.begins[micro_batch] == n;
           ++micro_batch) {
        formed.begins[micro_batch] = g.graph().num_nodes();
      }
      if (const NodeId product = product_at_[Index(n)]; product != kNoNode) {
        STOWAGE_RETURN_IF_ERROR(WriteProduct(product, &copy, &g));
      } else if (!absorbed_[Index(n)] &&
                 !copy[graph_.node(n).results[0]].ok()) {
        copy.CopyNode(n);
      }
    }
    copy.DeclareOutputs();
    STOWAGE_ASSIGN_OR_RETURN(formed.graph, g.Finish());
    return formed;
  }

  // Views that a product reads before they have their turn.
  void WriteViews(ValueId id, GraphCopy* copy) const {
    if ((*copy)[id].ok()) return;
    const NodeId producer = graph_.value(id).producer;
    WriteViews(graph_.node(producer).inputs[0], copy);
    copy->CopyNode(producer);
  }

  Status WriteProduct(NodeId n, GraphCopy* copy, GraphBuilder* g) const {
    const Node& product = graph_.node(n);
    const Epilogue& epilogue = epilogues_[Index(n)];
    for (const ValueId operand : product.inputs) WriteViews(operand, copy);
    std::vector<Value> operands = {(*copy)[product.inputs[0]],
                                   (*copy)[product.inputs[1]]};
    Attrs attrs = product.attrs;
    for (const auto& [name, operand] :
         {std::pair("bias", epilogue.bias),
          std::pair("addend", epilogue.addend),
          std::pair("gelu_grad", epilogue.gelu_x)}) {
      attrs.Set(name, int64_t{operand == kNone ? 0 : 1});
      if (operand != kNone) operands.push_back((*copy)[operand]);
    }
    const bool has_sums = epilogue.sums != kNone;
    attrs.Set("a_sums", int64_t{has_sums && epilogue.sums_a ? 1 : 0});
    attrs.Set("b_sums", int64_t{has_sums && !epilogue.sums_a ? 1 : 0});
    copy->SetOrigin(has_sums ? n : epilogue.parts.back());
    std::vector<ValueId> results = {epilogue.result};
    if (has_sums) results.push_back(epilogue.sums);
    std::vector<std::string> names;
    for (const ValueId id : results) names.push_back(graph_.value(id).name);
    const std::vector<Value> made = g->EmitNamed(
        OpKind::kEpilogueMatMul, operands, std::move(attrs), names);
    if (g->error()) return *g->error();
    for (size_t i = 0; i < results.size(); ++i) {
      const Role role = graph_.value(results[i]).role;
      g->SetRole(made[i], role == Role::kOutput ? Role::kActivation : role);
      copy->Map(results[i], made[i]);
    }
    return {};
  }

  const SampledStep& step_;
  const Graph& graph_;
  const Layouts layouts_;
  std::vector<std::vector<NodeId>> readers_;  // per value, with each use
  std::vector<bool> stays_;                   // per value: it must be there
  std::vector<bool> is_named_;                // per value: by a node of its own
  std::vector<Epilogue> epilogues_;           // per node: of a product
  std::vector<NodeId> product_at_;            // per node: what stands there
  std::vector<bool> absorbed_;                // per node
};

}  // namespace

Result<SampledStep> FormEpilogues(SampledStep step, const Fusions& fusions,
                                  std::span<const std::string> named) {
  if (!fusions.epilogues) return step;
  return Former(step, named).Form();
}

}  // namespace stowage::fit
