// pad and its gradient. The modes are those of PadMode (ir/padding.h): 0 constant, 1
// reflect, 2 edge.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
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

// That `n` elements along an axis can be reflected.
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
