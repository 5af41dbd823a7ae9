#include "ir/builder.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "ir/layout.h"
#include "ir/verify.h"

namespace stowage {

ValueId Value::id() const {
  STOWAGE_CHECK(ok());
  return id_;
}

TensorType Value::type() const {
  return ok() ? builder_->info(*this).type : TensorType();
}

GraphBuilder::GraphBuilder(std::string name) {
  graph_.Own().name = std::move(name);
}

const ValueInfo& GraphBuilder::info(Value value) const {
  STOWAGE_CHECK(value.ok() && value.builder() == this);
  return graph_.value(value.id());
}

Value GraphBuilder::Fail(Error error) {
  if (!error_) error_ = std::move(error);
  return Value(this, -1);
}

Value GraphBuilder::Fail(std::string_view message, SourceLoc loc) {
  std::string text(message);
  // An error in a body already names its place.
  const size_t place = text.rfind(" (at ");
  const bool is_placed =
      place != std::string::npos && text.find(')', place) == text.size() - 1;
  if (loc.line > 0 && !is_placed) {
    text += StrCat(" (at ", loc.file, ":", loc.line, ")");
  }
  return Fail(Error{ErrorCode::kInvalidArgument, std::move(text)});
}

bool GraphBuilder::NameIsFree(std::string_view name) const {
  return !graph_.parts_->by_name.contains(name);
}

std::string GraphBuilder::FreshName(std::string_view stem) {
  std::string name;
  do {
    name = StrCat(stem, "_", ++counters_[std::string(stem)]);
  } while (!NameIsFree(name) || kept_free_.contains(name));
  return name;
}

ValueId GraphBuilder::Add(ValueInfo info) {
  const auto id = graph_.num_values();
  graph_.Own().by_name.emplace(info.name, id);
  named_.push_back(info.is_leaf());
  graph_.Own().values.push_back(std::move(info));
  return id;
}

Value GraphBuilder::Leaf(ValueInfo leaf, SourceLoc loc) {
  const std::string_view kind = RoleName(leaf.role);
  const Shape& shape = leaf.type.shape;
  if (error_) return Value(this, -1);
  if (leaf.name.empty()) {
    return Fail(StrCat("[", kind, "] the name is empty; every ", kind,
                       " needs a name of its own"),
                loc);
  }
  if (!NameIsFree(leaf.name)) {
    return Fail(StrCat("[", kind, "] the name ", Quoted(leaf.name),
                       " is taken in graph ", Quoted(graph_.name()),
                       "; names must be unique"),
                loc);
  }
  if (shape.rank() > kMaxRank) {
    return Fail(StrCat("[", kind, "] ", Quoted(leaf.name), " has rank ",
                       shape.rank(), "; at most ", kMaxRank, " is supported"),
                loc);
  }
  const auto elements = shape.CheckedNumElements();
  if (!elements || !CheckedMul(*elements, SizeOf(leaf.type.dtype))) {
    return Fail(StrCat("[", kind, "] ", Quoted(leaf.name), " has shape ",
                       shape.ToString(),
                       "; every dimension must be at least 1 and the bytes "
                       "must fit 64 bits"),
                loc);
  }
  return Value(this, Add(std::move(leaf)));
}

Value GraphBuilder::Param(std::string_view name, DType dtype,
                          const Shape& shape, Init init, SourceLoc loc) {
  return Leaf({.name = std::string(name),
               .type = {dtype, shape},
               .role = Role::kParam,
               .init = init,
               .source = SourceOf(loc)},
              loc);
}
Value GraphBuilder::Input(std::string_view name, DType dtype,
                          const Shape& shape, SourceLoc loc) {
  return Leaf({.name = std::string(name),
               .type = {dtype, shape},
               .role = Role::kInput,
               .source = SourceOf(loc)},
              loc);
}
Value GraphBuilder::State(std::string_view name, DType dtype,
                          const Shape& shape, Init init, SourceLoc loc) {
  return Leaf({.name = std::string(name),
               .type = {dtype, shape},
               .role = Role::kState,
               .init = init,
               .source = SourceOf(loc)},
              loc);
}
Value GraphBuilder::Saved(std::string_view name, DType dtype,
                          const Shape& shape, SourceLoc loc) {
  return Leaf({.name = std::string(name),
               .type = {dtype, shape},
               .role = Role::kSaved,
               .source = SourceOf(loc)},
              loc);
}
Value GraphBuilder::Cache(std::string_view name, DType dtype,
                          const Shape& shape, SourceLoc loc) {
  return Leaf({.name = std::string(name),
               .type = {dtype, shape},
               .role = Role::kCache,
               .source = SourceOf(loc)},
              loc);
}
Value GraphBuilder::HostState(std::string_view name, DType dtype,
                              const Shape& shape, Init init, SourceLoc loc) {
  return Leaf({.name = std::string(name),
               .type = {dtype, shape},
               .role = Role::kState,
               .init = init,
               .on_host = true,
               .source = SourceOf(loc)},
              loc);
}
Value GraphBuilder::LeafLike(const ValueInfo& leaf, SourceLoc loc) {
  STOWAGE_CHECK(leaf.is_leaf());
  return Leaf(leaf, loc);
}

void GraphBuilder::Output(std::string_view name, Value value, SourceLoc loc) {
  if (error_) return;
  if (!value.ok() || value.builder() != this) {
    Fail(StrCat("[output] ", Quoted(name),
                " is given a value that is not of graph ",
                Quoted(graph_.name())),
         loc);
    return;
  }
  ValueInfo& info = graph_.Own().values[static_cast<size_t>(value.id())];
  for (const GraphOutput& output : graph_.outputs()) {
    if (output.name != name) continue;
    Fail(StrCat("[output] there is an output ", Quoted(name), " already"), loc);
    return;
  }
  if (info.name != name && !named_[static_cast<size_t>(value.id())]) {
    Name(name, value, loc);
  } else if (info.name != name) {
    if (!NameIsFree(name)) {
      Fail(StrCat("[output] the name ", Quoted(name),
                  " is another value's; an output's name must be its value's "
                  "or new"),
           loc);
      return;
    }
    graph_.Own().by_name.emplace(name, value.id());
  }
  if (info.role == Role::kActivation) info.role = Role::kOutput;
  graph_.Own().outputs.push_back({std::string(name), value.id()});
}

Value GraphBuilder::Name(std::string_view name, Value value, SourceLoc loc) {
  if (error_ || !value.ok()) return value;
  STOWAGE_CHECK(value.builder() == this);
  ValueInfo& info = graph_.Own().values[static_cast<size_t>(value.id())];
  named_[static_cast<size_t>(value.id())] = true;
  if (info.name == name) return value;
  if (name.empty() || !NameIsFree(name)) {
    return Fail(StrCat("[name] ", Quoted(name), " for value ",
                       Quoted(info.name), " is empty or taken in graph ",
                       Quoted(graph_.name()), "; names must be unique"),
                loc);
  }
  // An output that goes by the old name keeps it.
  const auto has_old_name = [&](const GraphOutput& output) {
    return output.name == info.name;
  };
  if (std::ranges::none_of(graph_.outputs(), has_old_name)) {
    graph_.Own().by_name.erase(info.name);
  }
  info.name = std::string(name);
  graph_.Own().by_name.emplace(info.name, value.id());
  return value;
}

std::vector<Value> GraphBuilder::Emit(OpKind op, std::span<const Value> inputs,
                                      Attrs attrs, SourceLoc loc) {
  return EmitImpl(op, inputs, std::move(attrs), std::nullopt, loc);
}

std::vector<Value> GraphBuilder::EmitNamed(OpKind op,
                                           std::span<const Value> inputs,
                                           Attrs attrs,
                                           std::span<const std::string> names,
                                           SourceLoc loc) {
  return EmitImpl(op, inputs, std::move(attrs), names, loc);
}

std::vector<Value> GraphBuilder::EmitImpl(
    OpKind op, std::span<const Value> inputs, Attrs attrs,
    std::optional<std::span<const std::string>> names, SourceLoc loc) {
  const auto fail = [&](std::string_view message) {
    Fail(StrCat("[", OpName(op), "] ", message), loc);
    return std::vector<Value>(kMaxResults, Value(this, -1));
  };
  if (error_) return std::vector<Value>(kMaxResults, Value(this, -1));
  const OpDef& def = GetOpDef(op);
  if (def.num_inputs != kAnyNumber &&
      def.num_inputs != static_cast<int>(inputs.size())) {
    return fail(StrCat("takes ", def.num_inputs, " operands, was given ",
                       inputs.size()));
  }
  Node node{.op = op,
            .inputs = {},
            .results = {},
            .attrs = std::move(attrs),
            .phase = phase_,
            .origin = origin_};
  for (const Value& input : inputs) {
    if (!input.ok() || input.builder() != this) {
      return fail(StrCat("operand ", node.inputs.size(),
                         " is not a value of graph ", Quoted(graph_.name())));
    }
    node.inputs.push_back(input.id());
  }
  if (const Status placed = VerifyMemory(graph_, node); !placed.ok()) {
    return fail(placed.error().message);
  }
  OpArgsStorage storage;
  auto types = def.infer(MakeOpArgs(graph_, node, &storage));
  if (!types.ok()) {
    Fail(types.error().message, loc);
    return std::vector<Value>(kMaxResults, Value(this, -1));
  }
  if (names && names->size() != types->size()) {
    return fail(StrCat("gives ", types->size(), " results, was given ",
                       names->size(), " names"));
  }
  std::vector<Value> results;
  for (size_t r = 0; r < types->size(); ++r) {
    const std::string name = names ? (*names)[r] : FreshName(OpName(op));
    if (name.empty() || !NameIsFree(name)) {
      return fail(StrCat("the name ", Quoted(name), " for result ", r,
                         " is empty or taken in graph ", Quoted(graph_.name()),
                         "; names must be unique"));
    }
    const int result = static_cast<int>(r);
    Role role = Role::kActivation;
    if (op == OpKind::kConstant) role = Role::kConstant;
    if (result < def.updates) role = graph_.value(node.inputs[r]).role;
    const ValueId id = Add(ValueInfo{.name = name,
                                     .type = (*types)[r],
                                     .role = role,
                                     .producer = graph_.num_nodes(),
                                     .result = result,
                                     .on_host = def.results_on_host,
                                     .source = SourceOf(loc)});
    named_.back() = names.has_value();
    node.results.push_back(id);
    results.push_back(Value(this, id));
  }
  graph_.Own().nodes.push_back(std::move(node));
  return results;
}

void GraphBuilder::SetOrigin(Phase phase, std::string_view origin,
                             SourceLoc source) {
  phase_ = phase;
  origin_ = std::string(origin);
  source_ = source;
}

void GraphBuilder::SetRole(Value value, Role role) {
  if (!value.ok()) return;
  STOWAGE_CHECK(value.builder() == this);
  graph_.Own().values[static_cast<size_t>(value.id())].role = role;
}

std::optional<Value> GraphBuilder::Find(std::string_view name) {
  const auto id = graph_.Find(name);
  if (!id) return std::nullopt;
  return Value(this, *id);
}

Result<Graph> GraphBuilder::Finish() {
  if (error_) return *error_;
  Graph graph = Legalize(std::move(graph_));
  STOWAGE_RETURN_IF_ERROR(Verify(graph));
  return graph;
}

}  // namespace stowage
