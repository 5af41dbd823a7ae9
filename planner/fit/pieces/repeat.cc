#include "planner/fit/pieces/repeat.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/index.h"
#include "base/strings.h"
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph_copy.h"
#include "ir/ops.h"

namespace stowage::fit {
namespace {

constexpr std::string_view kSuffix = "/1";  // of the sample's names

// The first axis as two: which piece, which place in it.
Shape Divided(const Shape& whole, int64_t times) {
  Shape divided;
  divided.push_back(times);
  divided.push_back(whole[0] / times);
  for (int i = 1; i < whole.rank(); ++i) divided.push_back(whole[i]);
  return divided;
}

class Repeater {
 public:
  Repeater(const Graph& from, const PieceLoop& loop, int64_t times,
           std::string_view before)
      : from_(from),
        loop_(loop),
        before_(before),
        times_(times),
        body_(StrCat(from.name(), ".piece")),
        to_(from.name()),
        inner_(from, &body_),
        outer_(from, &to_) {}

  Result<Graph> Repeat() {
    STOWAGE_RETURN_IF_ERROR(FindRoles());
    DeclareLeaves();
    CopyPiece();
    if (body_.error()) return *body_.error();
    STOWAGE_RETURN_IF_ERROR(EmitLoop());
    for (NodeId id = 0; id < from_.num_nodes(); ++id) {
      if (IsInPiece(from_.node(id)) || IsBefore(from_.node(id))) continue;
      STOWAGE_RETURN_IF_ERROR(CheckAreThere(from_.node(id).inputs));
      outer_.CopyNode(id);
    }
    for (const GraphOutput& output : from_.outputs()) {
      STOWAGE_RETURN_IF_ERROR(CheckAreThere({&output.value, 1}));
    }
    outer_.DeclareOutputs();
    return to_.Finish();
  }

 private:
  // An input that is cut, and its part in the piece.
  struct Cut {
    ValueId input;
    TensorType part;
    Value leaf = {};  // of the body
  };

  const ValueInfo& info(ValueId id) const { return from_.value(id); }
  bool IsBefore(const Node& node) const {
    return !before_.empty() && node.origin == before_;
  }
  bool IsInPiece(const Node& node) const {
    return node.phase != Phase::kUpdate && !IsBefore(node);
  }
  // A leaf of the step, or something made before the first piece.
  bool IsOutside(ValueId id) const {
    return info(id).is_leaf() || IsBefore(from_.node(info(id).producer));
  }
  bool IsOneOf(ValueId id, const std::vector<std::string>& names) const {
    return std::ranges::find(names, info(id).name) != names.end();
  }
  bool IsSaved(ValueId id) const { return info(id).role == Role::kSaved; }

  // The input of which node `id` takes the part; nothing of other nodes.
  Cut* CutOf(const Node& node) {
    if (node.op != OpKind::kSlice) return nullptr;
    const auto at = std::ranges::find(cuts_, node.inputs[0], &Cut::input);
    return at == cuts_.end() ? nullptr : &*at;
  }

  Status FindRoles();
  void DeclareLeaves();
  void CopyPiece();
  Status EmitLoop();
  Status CheckAreThere(std::span<const ValueId> ids) const;

  const Graph& from_;
  const PieceLoop& loop_;
  const std::string_view before_;
  const int64_t times_;
  GraphBuilder body_, to_;
  GraphCopy inner_, outer_;
  std::vector<Cut> cuts_;
  std::vector<ValueId> whole_;   // of all pieces: leaves, or made before
  std::vector<NodeId> sums_;     // an add each
  std::vector<NodeId> joins_;    // a slice_update each
  std::vector<Value> operands_;  // of the loop, in the outer graph
  std::vector<ValueId> leaves_;  // of the body
};

Status Repeater::FindRoles() {
  std::vector<bool> is_whole(Index(from_.num_values()), false);
  for (NodeId id = 0; id < from_.num_nodes(); ++id) {
    const Node& node = from_.node(id);
    if (!IsInPiece(node)) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (IsOneOf(input, loop_.joined) && node.op == OpKind::kSliceUpdate) {
        joins_.push_back(id);
      }
      if (!IsOutside(input)) continue;
      if (IsSaved(input)) {
        if (node.op != OpKind::kAdd || i > 0) {
          return Error{ErrorCode::kInvalidArgument,
                       StrCat("[micro-batches] ", OpName(node.op), " reads ",
                              Quoted(info(input).name), " of graph ",
                              Quoted(from_.name()),
                              "; expected one add, which sums up")};
        }
        sums_.push_back(id);
      } else if (node.op == OpKind::kSlice && IsOneOf(input, loop_.cut)) {
        if (CutOf(node) == nullptr) {
          cuts_.push_back({.input = input, .part = info(node.results[0]).type});
        }
      } else {
        is_whole[Index(input)] = true;
      }
    }
  }
  for (ValueId id = 0; id < from_.num_values(); ++id) {
    if (is_whole[Index(id)]) whole_.push_back(id);
  }
  return {};
}

// Of the step, and of the body in the order in which a loop has them.
void Repeater::DeclareLeaves() {
  for (ValueId id = 0; id < from_.num_values(); ++id) {
    if (info(id).is_leaf() && !IsSaved(id)) outer_.DeclareLeaf(id);
  }
  for (NodeId id = 0; id < from_.num_nodes(); ++id) {
    if (IsBefore(from_.node(id))) outer_.CopyNode(id);
  }
  const auto declare = [&](ValueId like, TensorType type) {
    const Value leaf = body_.LeafLike({.name = info(like).name,
                                       .type = std::move(type),
                                       .role = Role::kInput,
                                       .source = info(like).source});
    if (leaf.ok()) leaves_.push_back(leaf.id());
    return leaf;
  };
  to_.SetOrigin(Phase::kForward, "");
  for (Cut& cut : cuts_) {
    cut.leaf = declare(cut.input, cut.part);
    operands_.push_back(Reshape(outer_[cut.input],
                                Divided(info(cut.input).type.shape, times_)));
  }
  for (const ValueId id : whole_) {
    inner_.Map(id, declare(id, info(id).type));
    operands_.push_back(outer_[id]);
  }
  for (const NodeId id : sums_) {
    const ValueId leaf = from_.node(id).inputs[0];
    inner_.Map(leaf, declare(leaf, info(leaf).type));
  }
}

void Repeater::CopyPiece() {
  for (NodeId id = 0; id < from_.num_nodes(); ++id) {
    const Node& node = from_.node(id);
    if (!IsInPiece(node) || std::ranges::count(joins_, id) > 0 ||
        IsOneOf(node.results[0], loop_.joined)) {
      continue;
    }
    if (const Cut* const cut = CutOf(node)) {
      inner_.Map(node.results[0], cut->leaf);
      continue;
    }
    inner_.CopyNode(id);
    for (const ValueId result : node.results) {
      std::string_view name = info(result).name;
      if (!name.ends_with(kSuffix)) continue;
      name.remove_suffix(kSuffix.size());
      if (!body_.Find(name)) body_.Name(name, inner_[result]);
    }
  }
}

Status Repeater::EmitLoop() {
  std::vector<ValueId> outputs;
  std::vector<std::string> names;
  for (const NodeId id : sums_) {
    const ValueId sum = from_.node(id).results[0];
    outputs.push_back(inner_[sum].id());
    names.push_back(info(sum).name);
  }
  for (const NodeId id : joins_) {
    outputs.push_back(inner_[from_.node(id).inputs[1]].id());
    names.push_back(StrCat(info(from_.node(id).results[0]).name, "@pieces"));
  }
  STOWAGE_ASSIGN_OR_RETURN(Graph body,
                           MakeBody(body_.graph(), leaves_, outputs));
  std::string origin;
  for (const Node& node : from_.nodes()) {
    if (origin.empty() && node.phase == Phase::kBackward) origin = node.origin;
  }
  to_.SetOrigin(Phase::kBackward, origin);
  const std::vector<Value> results = to_.EmitNamed(
      OpKind::kLoop, operands_,
      {{"trips", times_},
       {"carried", int64_t{0}},
       {"sliced", static_cast<int64_t>(cuts_.size())},
       {"summed", static_cast<int64_t>(sums_.size())},
       {"reverse", int64_t{0}},
       {"bodies", SubGraphs{std::make_shared<const Graph>(std::move(body))}}},
      names);
  if (to_.error()) return *to_.error();
  for (size_t i = 0; i < sums_.size(); ++i) {
    const ValueId sum = from_.node(sums_[i]).results[0];
    const Role role = info(sum).role;
    to_.SetRole(results[i], role == Role::kOutput ? Role::kActivation : role);
    outer_.Map(sum, results[i]);
  }
  for (size_t i = 0; i < joins_.size(); ++i) {
    const ValueId whole = from_.node(joins_[i]).results[0];
    outer_.Map(whole,
               Reshape(results[sums_.size() + i], info(whole).type.shape));
  }
  return {};
}

Status Repeater::CheckAreThere(std::span<const ValueId> ids) const {
  for (const ValueId id : ids) {
    if (outer_[id].ok() || to_.error()) continue;
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[micro-batches] ", Quoted(info(id).name), " of graph ",
                        Quoted(from_.name()),
                        " is of one piece, and wanted after all of them")};
  }
  return {};
}

}  // namespace

Result<Graph> RepeatPiece(const Graph& graph, const PieceLoop& loop,
                          int64_t times, std::string_view before) {
  return Repeater(graph, loop, times, before).Repeat();
}

}  // namespace stowage::fit
