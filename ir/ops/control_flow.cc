// Loops, branches, and values that stand in for others.

#include <numeric>
#include <optional>
#include <span>

#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {

// loop and cond: graphs inside a node.

namespace {

// `leaf "h" of body "cell" is f32(4)`.
std::string BodyValue(const Graph& body, ValueId id, std::string_view what) {
  const ValueInfo& value = body.value(id);
  return StrCat(what, " ", Quoted(value.name), " of body ", Quoted(body.name()),
                " is ", value.type.ToString());
}

Status CheckBodyType(const OpArgs& args, const Graph& body, ValueId id,
                     std::string_view what, const TensorType& type) {
  if (body.value(id).type == type) return {};
  return args.Fail(
      StrCat(BodyValue(body, id, what), "; expected ", type.ToString()));
}

Status CheckCount(const OpArgs& args, const Graph& body, std::string_view what,
                  size_t count, size_t expected) {
  if (count == expected) return {};
  return args.Fail(StrCat("body ", Quoted(body.name()), " has ", count, " ",
                          what, "; expected ", expected));
}

// Error: a leaf of the body is no input.
Status CheckLeaves(const OpArgs& args, const Graph& body) {
  for (const ValueId id : LeavesOf(body)) {
    if (body.value(id).role == Role::kInput) continue;
    return args.Fail(StrCat(
        "body ", Quoted(body.name()), " has the ",
        RoleName(body.value(id).role), " ", Quoted(body.value(id).name),
        "; a body has inputs alone: declare it outside, and hand it in"));
  }
  return {};
}

// `type` with one more axis in front.
std::optional<TensorType> Stacked(const TensorType& type, int64_t iterations) {
  if (type.shape.rank() >= kMaxRank) return std::nullopt;
  Shape shape = {iterations};
  for (const int64_t dim : type.shape) shape.push_back(dim);
  return TensorType{type.dtype, shape};
}

Status CheckSlice(const OpArgs& args, const LoopParts& loop, int i,
                  ValueId leaf) {
  const TensorType& type = args.type(i);
  if (type.shape.rank() == 0 || type.shape[0] != loop.iterations) {
    return args.Fail(StrCat("sliced ", args.Describe(i),
                            "; its first dimension must be the ",
                            loop.iterations, " iterations"));
  }
  TensorType slice{type.dtype, {}};
  for (int axis = 1; axis < type.shape.rank(); ++axis) {
    slice.shape.push_back(type.shape[axis]);
  }
  return CheckBodyType(args, loop.body, leaf, "leaf", slice);
}

TypesResult InferLoop(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"iterations", AttrKind::kInt},
                                            {"carried", AttrKind::kInt},
                                            {"sliced", AttrKind::kInt},
                                            {"summed", AttrKind::kInt},
                                            {"reverse", AttrKind::kFlag},
                                            {"bodies", AttrKind::kGraphs}}));
  for (const std::string_view name :
       {"iterations", "carried", "sliced", "summed"}) {
    const int64_t least = name == "iterations" ? 1 : 0;
    const int64_t value = args.attrs.Int(name);
    constexpr int64_t kMax = int64_t{1} << 31;
    if (value >= least && value <= kMax) continue;
    return args.Fail(
        StrCat(name, " is ", value, "; expected ", least, " to ", kMax));
  }
  const SubGraphs& bodies = args.attrs.Graphs("bodies");
  if (bodies.size() != 1) {
    return args.Fail(StrCat("has ", bodies.size(), " bodies; expected one"));
  }
  const Graph& body = *bodies.front();
  const int64_t from_outside =
      args.attrs.Int("carried") + args.attrs.Int("sliced");
  if (from_outside > args.count()) {
    return args.Fail(StrCat("has ", args.count(), " operands; ", from_outside,
                            " are carried and sliced"));
  }
  const int64_t handed_on =
      args.attrs.Int("carried") + args.attrs.Int("summed");
  if (handed_on > static_cast<int64_t>(body.outputs().size()) ||
      body.outputs().empty()) {
    return args.Fail(StrCat("body ", Quoted(body.name()), " has ",
                            body.outputs().size(), " outputs; ", handed_on,
                            " are carried and summed, and there must be one"));
  }
  STOWAGE_RETURN_IF_ERROR(CheckLeaves(args, body));
  const LoopParts loop = PartsOfLoop(args.attrs, args.types.size());
  const std::vector<ValueId> leaves = LeavesOf(body);
  STOWAGE_RETURN_IF_ERROR(CheckCount(args, body, "leaves", leaves.size(),
                                     loop.operands() + loop.summed));
  for (size_t i = 0; i < loop.operands(); ++i) {
    const int operand = static_cast<int>(i);
    if (loop.is_sliced(i)) {
      STOWAGE_RETURN_IF_ERROR(CheckSlice(args, loop, operand, leaves[i]));
    } else {
      STOWAGE_RETURN_IF_ERROR(
          CheckBodyType(args, body, leaves[i], "leaf", args.type(operand)));
    }
  }
  std::vector<TensorType> types;
  for (size_t r = 0; r < loop.outputs(); ++r) {
    const ValueId output = body.outputs()[r].value;
    const TensorType& type = body.value(output).type;
    if (r < loop.handed_on()) {
      STOWAGE_RETURN_IF_ERROR(
          CheckBodyType(args, body, output, "output",
                        body.value(leaves[loop.leaf_of(r)]).type));
      types.push_back(type);
      continue;
    }
    const std::optional<TensorType> stacked = Stacked(type, loop.iterations);
    if (!stacked) {
      return args.Fail(StrCat(BodyValue(body, output, "output"),
                              "; a stacked one has at most rank ",
                              kMaxRank - 1));
    }
    types.push_back(*stacked);
  }
  return Typed(args, std::move(types));
}

TypesResult InferCond(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"bodies", AttrKind::kGraphs}}));
  const SubGraphs& bodies = args.attrs.Graphs("bodies");
  if (bodies.size() < 2) {
    return args.Fail(
        StrCat("has ", bodies.size(), " bodies; expected at least two"));
  }
  if (args.count() == 0) {
    return args.Fail("has no index; its first operand says which body runs");
  }
  const TensorType& index = args.type(0);
  if (index.shape.rank() != 0 ||
      !(IsIndex(index.dtype) || index.dtype == DType::kBool)) {
    return args.Fail(StrCat("index ", args.Describe(0),
                            "; expected a scalar of i32, i64 or bool"));
  }
  std::vector<TensorType> types;
  for (const auto& body : bodies) {
    STOWAGE_RETURN_IF_ERROR(CheckLeaves(args, *body));
    const std::vector<ValueId> leaves = LeavesOf(*body);
    STOWAGE_RETURN_IF_ERROR(CheckCount(args, *body, "leaves", leaves.size(),
                                       args.types.size() - 1));
    for (size_t i = 0; i < leaves.size(); ++i) {
      STOWAGE_RETURN_IF_ERROR(
          CheckBodyType(args, *body, leaves[i], "leaf", args.types[i + 1]));
    }
    const auto outputs = body->outputs();
    if (outputs.empty()) {
      return args.Fail(StrCat("body ", Quoted(body->name()),
                              " has no outputs; expected at least one"));
    }
    if (types.empty()) {
      for (const GraphOutput& output : outputs) {
        types.push_back(body->value(output.value).type);
      }
    }
    STOWAGE_RETURN_IF_ERROR(
        CheckCount(args, *body, "outputs", outputs.size(), types.size()));
    for (size_t r = 0; r < types.size(); ++r) {
      STOWAGE_RETURN_IF_ERROR(
          CheckBodyType(args, *body, outputs[r].value, "output", types[r]));
    }
  }
  return Typed(args, std::move(types));
}

// Slices may be at any distance if each is contiguous; all else must be contiguous.
bool AcceptSlices(const OpArgs& args, int i, const Strides& strides) {
  const auto operand = static_cast<size_t>(i);
  if (!PartsOfLoop(args.attrs, args.types.size()).is_sliced(operand)) {
    return false;
  }
  Shape shape;
  Strides inner;
  for (int axis = 1; axis < args.shape(i).rank(); ++axis) {
    shape.push_back(args.shape(i)[axis]);
    inner.push_back(strides[axis]);
  }
  return IsContiguous(shape, inner);
}

}  // namespace

constinit const OpDef Loop = {
    .num_inputs = kAnyNumber, .infer = InferLoop, .accepts = AcceptSlices};
constinit const OpDef Cond = {.num_inputs = kAnyNumber, .infer = InferCond};

// stand_in: an op of which only the results' types and the cost are known.

namespace {

TypesResult InferStandIn(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"dtype", AttrKind::kDType},
                                            {"ranks", AttrKind::kInts},
                                            {"dims", AttrKind::kInts},
                                            {"flops", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckNotNegative(args, "flops"));
  const std::vector<int64_t>& ranks = args.attrs.Ints("ranks");
  if (ranks.empty() || ranks.size() > size_t{kMaxResults}) {
    return args.Fail(StrCat("ranks is a list of ", ranks.size(),
                            "; expected the ranks of 1 to ", kMaxResults,
                            " results"));
  }
  std::span<const int64_t> dims = args.attrs.Ints("dims");
  std::vector<TensorType> types;
  for (const int64_t rank : ranks) {
    if (rank < 0 || rank > kMaxRank) {
      return args.Fail(
          StrCat("ranks holds ", rank, "; expected 0 to ", kMaxRank));
    }
    const auto count = static_cast<size_t>(rank);
    if (dims.size() < count) break;
    types.push_back({args.attrs.Type("dtype"), Shape(dims.first(count))});
    dims = dims.subspan(count);
  }
  if (types.size() < ranks.size() || !dims.empty()) {
    return args.Fail(
        StrCat("dims is a list of ", args.attrs.Ints("dims").size(),
               "; the ranks add up to ",
               std::accumulate(ranks.begin(), ranks.end(), int64_t{0})));
  }
  for (const TensorType& type : types) {
    if (type.shape.CheckedNumElements()) continue;
    return args.Fail(StrCat("a result would be ", type.ToString(),
                            "; dimensions must be at least 1 and their "
                            "product fit 63 bits"));
  }
  return Typed(args, std::move(types));
}

}  // namespace

constinit const OpDef StandIn = {
    .num_inputs = kAnyNumber,
    .infer = InferStandIn,
    .flops = [](const OpArgs& args, std::span<const TensorType>) {
      return args.attrs.Float("flops");
    }};

}  // namespace stowage::op_defs
