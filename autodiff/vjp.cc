#include "autodiff/vjp.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/result.h"
#include "base/strings.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/uses.h"

namespace stowage {
namespace {

constexpr Vjp kNoneGiven = {
    .rule = nullptr,
    .refusal = "none is defined; DefineVjp gives an op its derivative"};

constinit std::array<std::optional<Vjp>, kMaxCustomOps> custom_vjps;

bool IsMadeAgain(OpKind op) {
  return op == OpKind::kFill || op == OpKind::kIota ||
         op == OpKind::kConstant || GetOpDef(op).is_view();
}

// Whether all elements of a value are this number.
bool IsFill(const Graph& graph, ValueId id, double number) {
  const ValueInfo& info = graph.value(id);
  if (info.is_leaf()) return false;
  const Node& node = graph.node(info.producer);
  return node.op == OpKind::kFill && node.attrs.Float("value") == number;
}

// By id: whether every reader of a value and of its views multiplies by it or saves nothing
// of it.
std::vector<bool> FindFactors(const Graph& graph) {
  std::vector<bool> is_factor(static_cast<size_t>(graph.num_values()), true);
  const auto deny = [&](ValueId id) {
    is_factor[static_cast<size_t>(id)] = false;
  };
  for (const GraphOutput& output : graph.outputs()) deny(output.value);
  for (NodeId id = graph.num_nodes() - 1; id >= 0; --id) {
    const Node& node = graph.node(id);
    if (node.op == OpKind::kMul || node.op == OpKind::kAdd ||
        node.op == OpKind::kSub) {
      continue;
    }
    const bool views = GetOpDef(node.op).is_view() &&
                       std::ranges::all_of(node.results, [&](ValueId result) {
                         return is_factor[static_cast<size_t>(result)];
                       });
    if (!views) std::ranges::for_each(node.inputs, deny);
  }
  return is_factor;
}

// Reading parts from a concatenation keeps it live longer, while the branches of its other
// parts run backward. It must be at most 1/16 of all forward values.
constexpr Bytes kConcatShare = 16;

// By id: the concatenation that is its only reader and may be read in its place; or kNoNode.
std::vector<NodeId> FindConcats(const Graph& graph) {
  std::vector<int> readers(static_cast<size_t>(graph.num_values()));
  std::vector<NodeId> concats(readers.size(), kNoNode);
  Bytes made = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    for (const ValueId input : node.inputs) {
      const auto i = static_cast<size_t>(input);
      const bool is_concat = node.op == OpKind::kConcat;
      concats[i] = ++readers[i] == 1 && is_concat ? id : kNoNode;
    }
    if (GetOpDef(node.op).is_view()) continue;
    for (const ValueId result : node.results) {
      made += graph.value(result).type.bytes();
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    concats[static_cast<size_t>(output.value)] = kNoNode;
  }
  for (NodeId& concat : concats) {
    if (concat == kNoNode) continue;
    const ValueId whole = graph.node(concat).results[0];
    if (graph.value(whole).type.bytes() > made / kConcatShare) concat = kNoNode;
  }
  return concats;
}

}  // namespace

void VjpContext::Refuse(std::string_view reason) {
  builder_.Fail(
      Error{ErrorCode::kUnsupported,
            StrCat("[autodiff] the way to the loss leads through ",
                   Quoted(forward_.value(node_.results.front()).name), ", a ",
                   OpName(node_.op), ", which has no gradient: ", reason)});
}

Status DefineVjp(OpKind op, const Vjp& vjp) {
  STOWAGE_ASSIGN_OR_RETURN(const size_t index, CustomOpIndex(op, "derivative"));
  custom_vjps[index] = vjp;
  return {};
}

const Vjp& GetVjp(OpKind op) {
  if (const auto index = CustomIndex(op)) {
    const std::optional<Vjp>& given = custom_vjps[*index];
    return given ? *given : kNoneGiven;
  }
  static constexpr std::array<const Vjp*, kNumOps> kVjps = {
#define STOWAGE_OP(kind, name) &kind##Vjp,
#include "ir/ops.def"
#undef STOWAGE_OP
  };
  return *kVjps[static_cast<size_t>(op)];
}

void Cotangents::Add(ValueId id, Value gradient) {
  if (!wanted(id)) return;
  STOWAGE_CHECK(!gradient.ok() || gradient.type() == forward_.value(id).type);
  std::optional<Value>& sum = sums_[static_cast<size_t>(id)];
  sum = sum ? stowage::Add(*sum, gradient) : gradient;
}

ForwardValues::ForwardValues(const Graph& forward, GraphBuilder* backward)
    : forward_(forward),
      backward_(*backward),
      values_(static_cast<size_t>(forward.num_values())),
      is_factor_(FindFactors(forward)),
      concat_(FindConcats(forward)),
      was_read_(static_cast<size_t>(forward.num_values()), false) {
  const Uses uses(forward, ComputeLayouts(forward));
  const auto declare = [&](ValueId id) {
    const ValueInfo& info = forward.value(id);
    const bool stays = info.is_leaf() && uses.overwriter(id) == kNoNode;
    const Role role = stays ? info.role : Role::kSaved;
    values_[static_cast<size_t>(id)] = DeclareLeaf(backward_, info, role);
  };
  // Leaves, then results in the order of execution.
  for (ValueId id = 0; id < forward.num_values(); ++id) {
    if (forward.value(id).is_leaf()) declare(id);
  }
  for (const Node& node : forward.nodes()) {
    if (IsMadeAgain(node.op)) continue;
    for (const ValueId id : node.results) declare(id);
  }
}

// The value as a slice of a concatenation that is saved anyway.
std::optional<Value> ForwardValues::InConcat(ValueId id) {
  const NodeId concat = concat_[static_cast<size_t>(id)];
  if (concat == kNoNode || forward_.value(id).is_leaf()) return {};
  const Node& node = forward_.node(concat);
  const ValueId whole = node.results[0];
  if (!was_read_[static_cast<size_t>(whole)]) return {};
  const int64_t axis = node.attrs.Int("axis");
  int64_t start = 0;
  for (const ValueId part : node.inputs) {
    const int64_t size =
        forward_.value(part).type.shape[static_cast<int>(axis)];
    if (part == id) return Slice(Read(whole), axis, start, start + size);
    start += size;
  }
  return {};
}

Value ForwardValues::Read(ValueId id) {
  if (!was_read_[static_cast<size_t>(id)]) {
    was_read_[static_cast<size_t>(id)] = true;
    if (const auto part = InConcat(id)) values_[static_cast<size_t>(id)] = part;
  }
  std::optional<Value>& value = values_[static_cast<size_t>(id)];
  if (value) return *value;
  const ValueInfo& info = forward_.value(id);
  const Node& node = forward_.node(info.producer);
  STOWAGE_CHECK(IsMadeAgain(node.op));
  std::vector<Value> inputs;
  bool is_of_this_node =
      (node.op == OpKind::kFill || node.op == OpKind::kIota) &&
      info.type.shape.num_elements() > 1;
  for (const ValueId input : node.inputs) {
    inputs.push_back(Read(input));
    is_of_this_node |= std::ranges::count(of_this_node_, input) > 0;
  }
  std::vector<Value> results = backward_.Emit(node.op, inputs, node.attrs);
  results.resize(node.results.size());  // after an error there may be fewer
  for (size_t r = 0; r < node.results.size(); ++r) {
    const ValueId result = node.results[r];
    values_[static_cast<size_t>(result)] = results[r];
    if (is_of_this_node) of_this_node_.push_back(result);
  }
  return *value;
}

// For rows (..., M) of x, or for groups (N, G, M) viewed as (N, C, spatial...), where C is a
// multiple of G.
std::optional<Value> ForwardValues::Normalized(ValueId id) {
  ValueId norm = id;
  while (!forward_.value(norm).is_leaf() &&
         forward_.node(forward_.value(norm).producer).op == OpKind::kReshape) {
    norm = forward_.node(forward_.value(norm).producer).inputs[0];
  }
  const ValueInfo& rows = forward_.value(norm);
  if (rows.is_leaf() || !is_factor_[static_cast<size_t>(norm)]) return {};
  const Node& node = forward_.node(rows.producer);
  if (node.op != OpKind::kLayerNorm || node.results[0] != norm ||
      !IsFill(forward_, node.inputs[1], 1) ||
      !IsFill(forward_, node.inputs[2], 0) ||
      forward_.value(node.results[1]).type.dtype != rows.type.dtype) {
    return {};
  }
  const Shape& from = rows.type.shape;
  const Shape& to = forward_.value(id).type.shape;
  const bool in_groups = from.rank() == 3 && to.rank() >= 2 &&
                         from[0] == to[0] && to[1] % from[1] == 0;
  if (from != to && !in_groups) return {};
  const auto spread = [&](ValueId of_rows) {
    Value value = Read(of_rows);
    if (from == to) {
      Shape row = from;
      row[row.rank() - 1] = 1;
      return BroadcastTo(Reshape(value, row), to);
    }
    value = BroadcastTo(Reshape(value, {from[0], from[1], 1}),
                        {from[0], from[1], to[1] / from[1]});
    Shape of_channels = to;
    for (int i = 2; i < to.rank(); ++i) of_channels[i] = 1;
    return BroadcastTo(Reshape(value, of_channels), to);
  };
  const Value x = Read(node.inputs[0]);
  return Mul(Sub(from == to ? x : Reshape(x, to), spread(node.results[1])),
             spread(node.results[2]));
}

Value ForwardValues::ReadFactor(ValueId id) {
  const std::optional<Value> normalized = Normalized(id);
  return normalized ? *normalized : Read(id);
}

void ForwardValues::BeginNode() {
  for (const ValueId id : of_this_node_) {
    values_[static_cast<size_t>(id)].reset();
  }
  of_this_node_.clear();
}

std::string GradientName(std::string_view name) {
  return StrCat("grad:", name);
}

void WantAllThatDepends(const Graph& forward, Cotangents* cotangents) {
  for (const Node& node : forward.nodes()) {
    if (GetVjp(node.op).is_zero()) continue;
    bool depends = false;
    for (const ValueId input : node.inputs) {
      depends |= cotangents->wanted(input);
    }
    if (!depends) continue;
    for (const ValueId result : node.results) {
      if (IsFloat(forward.value(result).type.dtype)) cotangents->Want(result);
    }
  }
}

void NameGradient(const ValueInfo& of, Value gradient, GraphBuilder* g) {
  if (!gradient.ok()) return;
  const ValueInfo& info = g->info(gradient);
  if (info.is_leaf() || info.role != Role::kActivation) return;
  g->SetRole(gradient, Role::kGradient);
  const std::string name = GradientName(of.name);
  if (!g->Find(name)) g->Name(name, gradient);
}

void Sweep(const Graph& forward, ForwardValues* values, Cotangents* cotangents,
           GraphBuilder* g) {
  for (NodeId id = forward.num_nodes() - 1; id >= 0; --id) {
    const Node& node = forward.node(id);
    bool matters = false;
    for (const ValueId result : node.results) {
      if (const auto gradient = cotangents->Find(result)) {
        NameGradient(forward.value(result), *gradient, g);
        matters = true;
      }
    }
    if (!matters) continue;
    const ValueInfo& made = forward.value(node.results.front());
    g->SetOrigin(Phase::kBackward, made.name, made.source);
    values->BeginNode();
    VjpContext context(forward, node, values, cotangents, g);
    const Vjp& vjp = GetVjp(node.op);
    if (vjp.refusal != nullptr) {
      context.Refuse(vjp.refusal);
    } else {
      vjp.rule(context);
    }
    if (g->error()) return;
  }
}

}  // namespace stowage
