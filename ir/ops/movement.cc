// Ops that move elements without computing: views, copies, padding.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {

// reshape, permute, slice, split, broadcast, stop_gradient: results that own no bytes.

namespace {

std::string ListText(const std::vector<int64_t>& list) {
  std::string out = "(";
  for (size_t i = 0; i < list.size(); ++i) {
    out += StrCat(i > 0 ? ", " : "", list[i]);
  }
  return out + ")";
}

// --- reshape ---

TypesResult InferReshape(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"shape", AttrKind::kInts}}));
  STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeAttr(args));
  const int64_t have = args.shape(0).num_elements();
  const int64_t want = shape.num_elements();
  if (have != want) {
    return args.Fail(StrCat("element counts differ: ", Operand(args, 0, "x"),
                            " with ", have, " elements, shape ",
                            shape.ToString(), " has ", want));
  }
  return Typed(args, {TensorType{args.type(0).dtype, shape}});
}

// Adjacent dimensions of the input that could be one dimension with one stride.
struct Run {
  int64_t extent;
  int64_t stride;
};

// Reading from the last axis, neighbouring input dimensions merge into runs
// (those of size 1 do not matter), and each result dimension must take a whole
// factor of the run it starts in. Linear in the two ranks.
std::optional<ViewLayout> ViewReshape(const OpArgs& args, int,
                                      const ViewLayout& input) {
  const Shape& from = args.shape(0);
  const Shape to{std::span<const int64_t>(args.attrs.Ints("shape"))};
  std::vector<Run> runs;
  for (int i = from.rank() - 1; i >= 0; --i) {
    if (from[i] == 1) continue;
    if (!runs.empty() &&
        input.strides[i] == runs.back().extent * runs.back().stride) {
      runs.back().extent *= from[i];
    } else {
      runs.push_back({from[i], input.strides[i]});
    }
  }
  ViewLayout layout = {Strides::Filled(to.rank(), 1), input.offset};
  size_t next_run = 0;
  Run rest = {1, 1};  // the rest of the run that is being cut
  for (int i = to.rank() - 1; i >= 0; --i) {
    if (to[i] != 1 && rest.extent == 1) rest = runs[next_run++];
    if (rest.extent % to[i] != 0) return std::nullopt;
    layout.strides[i] = rest.stride;
    rest.extent /= to[i];
    rest.stride *= to[i];
  }
  return layout;
}

// --- permute ---

TypesResult InferPermute(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"order", AttrKind::kInts}}));
  const Shape& shape = args.shape(0);
  const std::vector<int64_t>& order = args.attrs.Ints("order");
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool is_permutation = static_cast<int>(order.size()) == shape.rank();
  for (size_t i = 0; i < sorted.size(); ++i) {
    is_permutation &= sorted[i] == static_cast<int64_t>(i);
  }
  if (!is_permutation) {
    return args.Fail(
        StrCat("order ", ListText(order),
               " is no permutation of the axes: ", Operand(args, 0, "x"),
               "; expected each of its ", shape.rank(), " axes once"));
  }
  TensorType result = {args.type(0).dtype, {}};
  for (const int64_t axis : order) {
    result.shape.push_back(shape[static_cast<int>(axis)]);
  }
  return Typed(args, {result});
}

std::optional<ViewLayout> ViewPermute(const OpArgs& args, int,
                                      const ViewLayout& input) {
  ViewLayout layout = {{}, input.offset};
  for (const int64_t axis : args.attrs.Ints("order")) {
    layout.strides.push_back(input.strides[static_cast<int>(axis)]);
  }
  return layout;
}

// --- slice ---

TypesResult InferSlice(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"axis", AttrKind::kInt},
                                            {"start", AttrKind::kInt},
                                            {"end", AttrKind::kInt},
                                            {"step", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckAxis(args, 0, "x"));
  const int axis = static_cast<int>(args.attrs.Int("axis"));
  const int64_t start = args.attrs.Int("start");
  const int64_t end = args.attrs.Int("end");
  const int64_t step = args.attrs.Int("step");
  TensorType result = args.type(0);
  if (start < 0 || start >= end || end > result.shape[axis]) {
    return args.Fail(StrCat("range [", start, ", ", end,
                            ") is empty or outside axis ", axis, ": ",
                            Operand(args, 0, "x"),
                            "; expected 0 <= start < "
                            "end <= ",
                            result.shape[axis]));
  }
  if (step < 1) {
    return args.Fail(StrCat("step is ", step, "; expected at least 1"));
  }
  result.shape[axis] = (end - start - 1) / step + 1;
  return Typed(args, {result});
}

std::optional<ViewLayout> ViewSlice(const OpArgs& args, int,
                                    const ViewLayout& input) {
  const int axis = static_cast<int>(args.attrs.Int("axis"));
  const int64_t start = args.attrs.Int("start");
  const int64_t step = args.attrs.Int("step");
  ViewLayout layout = input;
  layout.offset += start * input.strides[axis];
  // A step past the end leaves one element, whose stride nothing reads.
  if (step < args.attrs.Int("end") - start) layout.strides[axis] *= step;
  return layout;
}

// --- split ---

TypesResult InferSplit(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrs(args, {{"axis", AttrKind::kInt}, {"sizes", AttrKind::kInts}}));
  STOWAGE_RETURN_IF_ERROR(CheckAxis(args, 0, "x"));
  const int axis = static_cast<int>(args.attrs.Int("axis"));
  const std::vector<int64_t>& sizes = args.attrs.Ints("sizes");
  std::optional<int64_t> sum = 0;
  std::vector<TensorType> types;
  for (const int64_t size : sizes) {
    if (sum) sum = size >= 1 ? CheckedAdd(*sum, size) : std::nullopt;
    types.push_back(args.type(0));
    types.back().shape[axis] = size;
  }
  if (sum != args.shape(0)[axis]) {
    return args.Fail(StrCat("sizes ", ListText(sizes), " do not cut axis ",
                            axis, ": ", Operand(args, 0, "x"),
                            "; expected sizes of at least 1 that sum to ",
                            args.shape(0)[axis]));
  }
  return Typed(args, std::move(types));
}

std::optional<ViewLayout> ViewSplit(const OpArgs& args, int r,
                                    const ViewLayout& input) {
  const int axis = static_cast<int>(args.attrs.Int("axis"));
  const std::vector<int64_t>& sizes = args.attrs.Ints("sizes");
  ViewLayout layout = input;
  for (int i = 0; i < r; ++i) {
    layout.offset += sizes[static_cast<size_t>(i)] * input.strides[axis];
  }
  return layout;
}

// --- broadcast ---

TypesResult InferBroadcast(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"shape", AttrKind::kInts}}));
  STOWAGE_ASSIGN_OR_RETURN(const Shape to, ShapeAttr(args));
  const Shape& from = args.shape(0);
  const int added = to.rank() - from.rank();
  bool fits = added >= 0;
  for (int i = 0; fits && i < from.rank(); ++i) {
    fits = from[i] == 1 || from[i] == to[added + i];
  }
  if (!fits) {
    return args.Fail(StrCat(Operand(args, 0, "x"),
                            "; it does not broadcast to ", to.ToString(),
                            ": counted from the last, each dimension of x must "
                            "be 1 or equal"));
  }
  return Typed(args, {TensorType{args.type(0).dtype, to}});
}

std::optional<ViewLayout> ViewBroadcast(const OpArgs& args, int,
                                        const ViewLayout& input) {
  const std::vector<int64_t>& to = args.attrs.Ints("shape");
  const Shape& from = args.shape(0);
  const int added = static_cast<int>(to.size()) - from.rank();
  ViewLayout layout = {Strides::Filled(static_cast<int>(to.size()), 0),
                       input.offset};
  for (int i = 0; i < from.rank(); ++i) {
    if (from[i] == to[static_cast<size_t>(added + i)]) {
      layout.strides[added + i] = input.strides[i];
    }
  }
  return layout;
}

// --- stop_gradient ---

TypesResult InferStopGradient(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  return Typed(args, {args.type(0)});
}

std::optional<ViewLayout> ViewStopGradient(const OpArgs&, int,
                                           const ViewLayout& input) {
  return input;
}

}  // namespace

// A view has no kernel, so it accepts any strides.
constinit const OpDef Reshape = {
    .infer = InferReshape, .view = ViewReshape, .accepts = AcceptAnyStrides};
constinit const OpDef Permute = {
    .infer = InferPermute, .view = ViewPermute, .accepts = AcceptAnyStrides};
constinit const OpDef Slice = {
    .infer = InferSlice, .view = ViewSlice, .accepts = AcceptAnyStrides};
constinit const OpDef Split = {
    .infer = InferSplit, .view = ViewSplit, .accepts = AcceptAnyStrides};
constinit const OpDef Broadcast = {.infer = InferBroadcast,
                                   .view = ViewBroadcast,
                                   .accepts = AcceptAnyStrides};
constinit const OpDef StopGradient = {.infer = InferStopGradient,
                                      .view = ViewStopGradient,
                                      .accepts = AcceptAnyStrides};

// copy, concat, and transfers to and from host memory.

namespace {

TypesResult InferCopy(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  return Typed(args, {args.type(0)});
}

TypesResult InferOffloadUpdate(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 0, "state", 1, "x"));
  return Typed(args, {args.type(0)});
}

std::string Part(int i) { return StrCat("part ", i); }

TypesResult InferConcat(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"axis", AttrKind::kInt}}));
  if (args.count() == 0) return args.Fail("has no parts; expected at least 1");
  STOWAGE_RETURN_IF_ERROR(CheckAxis(args, 0, Part(0)));
  const int axis = static_cast<int>(args.attrs.Int("axis"));
  TensorType result = args.type(0);
  for (int i = 1; i < args.count(); ++i) {
    STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, 0, Part(0), i, Part(i)));
    Shape shape = args.shape(i);
    shape[axis] = args.shape(0)[axis];  // in capacity whatever its rank
    if (shape != args.shape(0)) {
      return args.Fail(StrCat("shapes differ: ", Operand(args, 0, Part(0)),
                              ", ", Operand(args, i, Part(i)),
                              "; all dimensions but axis ", axis,
                              " must agree"));
    }
    const auto sum = CheckedAdd(result.shape[axis], args.shape(i)[axis]);
    if (!sum) {
      return args.Fail(StrCat("axis ", axis, " sums to more than 64 bits at ",
                              Operand(args, i, Part(i)),
                              "; join fewer or smaller parts"));
    }
    result.shape[axis] = *sum;
  }
  return Typed(args, {result});
}

}  // namespace

constinit const OpDef Copy = {.infer = InferCopy, .accepts = AcceptAnyStrides};
constinit const OpDef Reload = {.infer = InferCopy, .host_inputs = 0b1};
constinit const OpDef Offload = {.infer = InferCopy, .results_on_host = true};
constinit const OpDef OffloadUpdate = {.num_inputs = 2,
                                       .infer = InferOffloadUpdate,
                                       .updates = 1,
                                       .host_inputs = 0b1,
                                       .results_on_host = true};
constinit const OpDef Concat = {.num_inputs = kAnyNumber,
                                .infer = InferConcat,
                                .accepts = AcceptAnyStrides};

// pad and its gradient. The modes are those of PadMode (ir/windows.h): 0 constant, 1
// reflect, 2 edge.

namespace {

constexpr int64_t kConstant = 0;
constexpr int64_t kReflect = 1;
constexpr int64_t kEdge = 2;
constexpr int64_t kLargest = (int64_t{1} << 31) - 1;

// The attribute has an entry for each axis, of [0, kLargest].
Status CheckPads(const OpArgs& args, std::string_view name, int rank) {
  const std::vector<int64_t>& pads = args.attrs.Ints(name);
  if (static_cast<int>(pads.size()) != rank) {
    return args.Fail(StrCat(name, " has ", pads.size(), " entries; expected ",
                            rank, ", one for each axis"));
  }
  for (int i = 0; i < rank; ++i) {
    const int64_t pad = pads[static_cast<size_t>(i)];
    if (pad >= 0 && pad <= kLargest) continue;
    return args.Fail(StrCat(name, " is ", pad, " along axis ", i,
                            "; expected 0 to ", kLargest,
                            ": slice is what cuts off"));
  }
  return {};
}

Status CheckMode(const OpArgs& args, int64_t lowest) {
  const int64_t mode = args.attrs.Int("mode");
  if (mode >= lowest && mode <= kEdge) return {};
  return args.Fail(StrCat("mode is ", mode, "; expected ",
                          lowest == kConstant ? "0 (constant), " : "",
                          "1 (reflect) or 2 (edge)"));
}

// Error: fewer than `n` elements along an axis to reflect.
Status CheckReflection(const OpArgs& args, int axis, int64_t n) {
  if (args.attrs.Int("mode") != kReflect) return {};
  const auto at = static_cast<size_t>(axis);
  const int64_t before = args.attrs.Ints("before")[at];
  const int64_t after = args.attrs.Ints("after")[at];
  if (before < n && after < n) return {};
  return args.Fail(StrCat("cannot reflect ", n, " elements of axis ", axis,
                          " into padding of ", before, " and ", after,
                          "; expected at most ", n - 1));
}

TypesResult InferPad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"before", AttrKind::kInts},
                                            {"after", AttrKind::kInts},
                                            {"mode", AttrKind::kInt},
                                            {"value", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "x", 1));
  const int rank = args.shape(0).rank();
  STOWAGE_RETURN_IF_ERROR(CheckMode(args, kConstant));
  STOWAGE_RETURN_IF_ERROR(CheckPads(args, "before", rank));
  STOWAGE_RETURN_IF_ERROR(CheckPads(args, "after", rank));
  TensorType y = args.type(0);
  for (int i = 0; i < rank; ++i) {
    STOWAGE_RETURN_IF_ERROR(CheckReflection(args, i, y.shape[i]));
    const auto at = static_cast<size_t>(i);
    y.shape[i] += args.attrs.Ints("before")[at] + args.attrs.Ints("after")[at];
  }
  return Typed(args, {y});
}

TypesResult InferPadGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"before", AttrKind::kInts},
                                            {"after", AttrKind::kInts},
                                            {"mode", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "dy", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "dy", 1));
  const int rank = args.shape(0).rank();
  STOWAGE_RETURN_IF_ERROR(CheckMode(args, kReflect));
  STOWAGE_RETURN_IF_ERROR(CheckPads(args, "before", rank));
  STOWAGE_RETURN_IF_ERROR(CheckPads(args, "after", rank));
  TensorType dx = args.type(0);
  for (int i = 0; i < rank; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t pads =
        args.attrs.Ints("before")[at] + args.attrs.Ints("after")[at];
    if (dx.shape[i] <= pads) {
      return args.Fail(
          StrCat("padding takes all ", dx.shape[i], " elements of axis ", i,
                 ": ", Operand(args, 0, "dy"), "; expected more than ", pads));
    }
    dx.shape[i] -= pads;
    STOWAGE_RETURN_IF_ERROR(CheckReflection(args, i, dx.shape[i]));
  }
  return Typed(args, {dx});
}

}  // namespace

constinit const OpDef Pad = {.infer = InferPad};
constinit const OpDef PadGrad = {.infer = InferPadGrad,
                                 .flops = FlopsPerOperandElement<1>};

}  // namespace stowage::op_defs
