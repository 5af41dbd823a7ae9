// resize and its gradient: other sizes of the spatial axes of x (N, C, spatial...).
// The modes are those of ResizeMode (ir/ops.h): 0 nearest, 1 linear.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"
#include "ir/windows.h"

namespace stowage::op_defs {
namespace {

// Products of two of these, and twice that, fit 63 bits.
constexpr int64_t kLargest = int64_t{1} << 30;

Status CheckMode(const OpArgs& args) {
  const int64_t mode = args.attrs.Int("mode");
  if (mode != 0 && mode != 1) {
    return args.Fail(
        StrCat("mode is ", mode, "; expected 0 (nearest) or 1 (linear)"));
  }
  if (mode == 0 && args.attrs.Int("align_corners") == 1) {
    return args.Fail(
        "align_corners is 1 and mode 0 (nearest); expected mode 1 (linear) or "
        "align_corners 0");
  }
  return {};
}

// `shape` has examples, channels and 1 to 3 spatial axes that are not too large.
Status CheckPicture(const OpArgs& args, std::string_view operand,
                    const Shape& shape) {
  if (shape.rank() < 3 || shape.rank() > 2 + kMaxSpatialAxes) {
    return args.Fail(StrCat(operand,
                            "; expected rank 3 to 5: examples, channels, and 1 "
                            "to 3 spatial axes"));
  }
  for (int i = 2; i < shape.rank(); ++i) {
    if (shape[i] <= kLargest) continue;
    return args.Fail(StrCat("axis ", i, " is too long: ", operand,
                            "; expected at most ", kLargest));
  }
  return {};
}

TypesResult InferResize(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrs(args, {{"sizes", AttrKind::kInts},
                        {"mode", AttrKind::kInt},
                        {"align_corners", AttrKind::kFlag}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(
      CheckPicture(args, Operand(args, 0, "x"), args.shape(0)));
  STOWAGE_RETURN_IF_ERROR(CheckMode(args));
  const std::vector<int64_t>& sizes = args.attrs.Ints("sizes");
  TensorType y = args.type(0);
  if (static_cast<int>(sizes.size()) != y.shape.rank() - 2) {
    return args.Fail(StrCat("there are ", sizes.size(),
                            " sizes: ", Operand(args, 0, "x"), "; expected ",
                            y.shape.rank() - 2, ", one for each spatial axis"));
  }
  for (int i = 2; i < y.shape.rank(); ++i) {
    const int64_t size = sizes[static_cast<size_t>(i) - 2];
    if (size < 1 || size > kLargest) {
      return args.Fail(StrCat("the size of axis ", i, " is ", size,
                              "; expected 1 to ", kLargest));
    }
    y.shape[i] = size;
  }
  return Typed(args, {y});
}

TypesResult InferResizeGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrs(args, {{"shape", AttrKind::kInts},
                        {"mode", AttrKind::kInt},
                        {"align_corners", AttrKind::kFlag}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "dy", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(
      CheckPicture(args, Operand(args, 0, "dy"), args.shape(0)));
  STOWAGE_RETURN_IF_ERROR(CheckMode(args));
  const Result<Shape> shape = ShapeAttr(args);
  if (!shape.ok()) return shape.error();
  const std::string text = StrCat("shape is ", shape->ToString());
  STOWAGE_RETURN_IF_ERROR(CheckPicture(args, text, *shape));
  if (shape->rank() != args.shape(0).rank() ||
      (*shape)[0] != args.shape(0)[0] || (*shape)[1] != args.shape(0)[1]) {
    return args.Fail(StrCat(text, " and ", Operand(args, 0, "dy"),
                            "; expected as many axes, examples and channels"));
  }
  return Typed(args, {TensorType{args.type(0).dtype, *shape}});
}

// Two for each neighbour of each element that is made, or that one is made of.
double ResizeFlops(const OpArgs& args, const TensorType& y) {
  if (args.attrs.Int("mode") == 0) return 0;
  return 2 * Elements(y) * static_cast<double>(1 << (y.shape.rank() - 2));
}

}  // namespace

constinit const OpDef Resize = {
    .infer = InferResize,
    .flops = [](const OpArgs& args, std::span<const TensorType> results) {
      return ResizeFlops(args, results[0]);
    }};
constinit const OpDef ResizeGrad = {
    .infer = InferResizeGrad,
    .flops = [](const OpArgs& args, std::span<const TensorType>) {
      return ResizeFlops(args, args.type(0));
    }};

}  // namespace stowage::op_defs
