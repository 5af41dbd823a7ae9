// Ops over windows of images: pooling, and resizing.

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

// max_pool, avg_pool and their gradients: windows along the spatial axes of
// x (N, C, spatial...). ir/windows.h defines the attributes.

namespace {

// Sums of a few such numbers and their products fit 63 bits.
constexpr int64_t kLargestEntry = (int64_t{1} << 31) - 1;

Status CheckImage(const OpArgs& args, std::string_view operand,
                  const Shape& shape) {
  if (shape.rank() >= 3 && shape.rank() <= 2 + kMaxSpatialAxes) return {};
  return args.Fail(
      StrCat(operand,
             "; expected rank 3 to 5: examples, channels, and 1 to "
             "3 spatial axes"));
}

// The attribute has an entry for each spatial axis, of [lowest, kLargestEntry].
Status CheckEntries(const OpArgs& args, std::string_view name, int spatial,
                    int64_t lowest) {
  const std::vector<int64_t>& entries = args.attrs.Ints(name);
  if (static_cast<int>(entries.size()) != spatial) {
    return args.Fail(StrCat(name, " has ", entries.size(),
                            " entries; expected ", spatial,
                            ", one for each spatial axis"));
  }
  for (int i = 0; i < spatial; ++i) {
    const int64_t entry = entries[static_cast<size_t>(i)];
    if (entry >= lowest && entry <= kLargestEntry) continue;
    return args.Fail(StrCat(name, " is ", entry, " along axis ", 2 + i,
                            "; expected ", lowest, " to ", kLargestEntry));
  }
  return {};
}

// The number of windows along an axis whose `out` is not known yet.
Result<int64_t> CountWindows(const OpArgs& args, const WindowAxis& axis,
                             int number) {
  const int64_t padded = axis.in + axis.before + axis.after;
  const auto where = [&] {
    return StrCat(" along axis ", number, " of ", axis.in,
                  " elements, padded by ", axis.before, " and ", axis.after);
  };
  if (axis.extent() > padded) {
    return args.Fail(StrCat("kernel ", axis.kernel, " with dilation ",
                            axis.dilation, " reaches over ", axis.extent(),
                            where(), "; expected at most ", padded));
  }
  // Then every window has an element that is no padding: its last or a later
  // one where it starts in front, else its first.
  if (axis.before >= axis.extent() || axis.after >= axis.extent()) {
    return args.Fail(StrCat("a window that reaches over ", axis.extent(),
                            " may lie in the padding alone", where(),
                            "; expected less padding on either side"));
  }
  if (axis.before > 0 && axis.dilation > axis.in) {
    return args.Fail(StrCat("a window with dilation ", axis.dilation,
                            " may lie in the padding alone", where(),
                            "; expected a dilation of at most ", axis.in));
  }
  const int64_t rest = padded - axis.extent();
  int64_t count = rest / axis.stride + 1;
  const bool up = args.attrs.Int("ceil_mode") == 1;
  // One more window, past the end, if it starts before the padding there.
  if (up && rest % axis.stride != 0 &&
      count * axis.stride < axis.in + axis.before) {
    ++count;
  }
  return count;
}

// The type of the pooled `x`, which is operand 0 or the attribute "shape" of a gradient.
Result<TensorType> PooledType(const OpArgs& args, const TensorType& x) {
  const int spatial = x.shape.rank() - 2;
  const bool dilates = args.attrs.Find("dilation") != nullptr;
  STOWAGE_RETURN_IF_ERROR(CheckEntries(args, "kernel", spatial, 1));
  STOWAGE_RETURN_IF_ERROR(CheckEntries(args, "stride", spatial, 1));
  STOWAGE_RETURN_IF_ERROR(CheckEntries(args, "pad_before", spatial, 0));
  STOWAGE_RETURN_IF_ERROR(CheckEntries(args, "pad_after", spatial, 0));
  if (dilates) {
    STOWAGE_RETURN_IF_ERROR(CheckEntries(args, "dilation", spatial, 1));
  }
  TensorType y = x;
  const WindowAxes axes = WindowAxesOf(args.attrs, x.shape, x.shape);
  for (int i = 0; i < spatial; ++i) {
    const auto at = static_cast<size_t>(kMaxSpatialAxes - spatial + i);
    const Result<int64_t> count = CountWindows(args, axes[at], 2 + i);
    if (!count.ok()) return count.error();
    y.shape[2 + i] = *count;
  }
  return y;
}

Status CheckMaxAttrs(const OpArgs& args) {
  return CheckAttrs(args, {{"kernel", AttrKind::kInts},
                           {"stride", AttrKind::kInts},
                           {"pad_before", AttrKind::kInts},
                           {"pad_after", AttrKind::kInts},
                           {"dilation", AttrKind::kInts},
                           {"ceil_mode", AttrKind::kFlag}});
}

Status CheckX(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  return CheckImage(args, Operand(args, 0, "x"), args.shape(0));
}

TypesResult InferMaxPool(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckMaxAttrs(args));
  STOWAGE_RETURN_IF_ERROR(CheckX(args));
  const Result<TensorType> y = PooledType(args, args.type(0));
  if (!y.ok()) return y.error();
  return Typed(args, {*y});
}

TypesResult InferMaxPoolGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckMaxAttrs(args));
  STOWAGE_RETURN_IF_ERROR(CheckX(args));
  const Result<TensorType> y = PooledType(args, args.type(0));
  if (!y.ok()) return y.error();
  STOWAGE_RETURN_IF_ERROR(
      CheckType(args, 1, "dy", *y, "since " + Operand(args, 0, "x")));
  return Typed(args, {args.type(0)});
}

TypesResult InferAvgPool(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrs(args, {{"kernel", AttrKind::kInts},
                        {"stride", AttrKind::kInts},
                        {"pad_before", AttrKind::kInts},
                        {"pad_after", AttrKind::kInts},
                        {"ceil_mode", AttrKind::kFlag},
                        {"count_include_pad", AttrKind::kFlag}}));
  STOWAGE_RETURN_IF_ERROR(CheckX(args));
  const Result<TensorType> y = PooledType(args, args.type(0));
  if (!y.ok()) return y.error();
  return Typed(args, {*y});
}

TypesResult InferAvgPoolGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrs(args, {{"shape", AttrKind::kInts},
                        {"kernel", AttrKind::kInts},
                        {"stride", AttrKind::kInts},
                        {"pad_before", AttrKind::kInts},
                        {"pad_after", AttrKind::kInts},
                        {"ceil_mode", AttrKind::kFlag},
                        {"count_include_pad", AttrKind::kFlag}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "dy", DTypes::kFloat));
  const Result<Shape> shape = ShapeAttr(args);
  if (!shape.ok()) return shape.error();
  STOWAGE_RETURN_IF_ERROR(
      CheckImage(args, StrCat("shape is ", shape->ToString()), *shape));
  const TensorType x = {args.type(0).dtype, *shape};
  const Result<TensorType> y = PooledType(args, x);
  if (!y.ok()) return y.error();
  STOWAGE_RETURN_IF_ERROR(CheckType(
      args, 0, "dy", *y, StrCat("since shape is ", shape->ToString())));
  return Typed(args, {x});
}

// One for each element of each window, of type `y`.
double WindowFlops(const OpArgs& args, const TensorType& y) {
  double flops = Elements(y);
  for (const int64_t size : args.attrs.Ints("kernel")) {
    flops *= static_cast<double>(size);
  }
  return flops;
}
double PoolFlops(const OpArgs& args, std::span<const TensorType> results) {
  return WindowFlops(args, results[0]);
}
double PoolGradFlops(const OpArgs& args, std::span<const TensorType>) {
  return WindowFlops(args, args.types.back());
}

}  // namespace

constinit const OpDef MaxPool = {.infer = InferMaxPool, .flops = PoolFlops};
constinit const OpDef MaxPoolGrad = {
    .num_inputs = 2, .infer = InferMaxPoolGrad, .flops = PoolGradFlops};
constinit const OpDef AvgPool = {.infer = InferAvgPool, .flops = PoolFlops};
constinit const OpDef AvgPoolGrad = {.infer = InferAvgPoolGrad,
                                     .flops = PoolGradFlops};

// resize and its gradient: other sizes of the spatial axes of x (N, C, spatial...).
// The modes are those of ResizeMode (ir/ops.h): 0 nearest, 1 linear.

namespace {

// Products of two of these, and twice that, fit 63 bits.
constexpr int64_t kLongestAxis = int64_t{1} << 30;

Status CheckPoolMode(const OpArgs& args) {
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
Status CheckResized(const OpArgs& args, std::string_view operand,
                    const Shape& shape) {
  if (shape.rank() < 3 || shape.rank() > 2 + kMaxSpatialAxes) {
    return args.Fail(StrCat(operand,
                            "; expected rank 3 to 5: examples, channels, and 1 "
                            "to 3 spatial axes"));
  }
  for (int i = 2; i < shape.rank(); ++i) {
    if (shape[i] <= kLongestAxis) continue;
    return args.Fail(StrCat("axis ", i, " is too long: ", operand,
                            "; expected at most ", kLongestAxis));
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
      CheckResized(args, Operand(args, 0, "x"), args.shape(0)));
  STOWAGE_RETURN_IF_ERROR(CheckPoolMode(args));
  const std::vector<int64_t>& sizes = args.attrs.Ints("sizes");
  TensorType y = args.type(0);
  if (static_cast<int>(sizes.size()) != y.shape.rank() - 2) {
    return args.Fail(StrCat("there are ", sizes.size(),
                            " sizes: ", Operand(args, 0, "x"), "; expected ",
                            y.shape.rank() - 2, ", one for each spatial axis"));
  }
  for (int i = 2; i < y.shape.rank(); ++i) {
    const int64_t size = sizes[static_cast<size_t>(i) - 2];
    if (size < 1 || size > kLongestAxis) {
      return args.Fail(StrCat("the size of axis ", i, " is ", size,
                              "; expected 1 to ", kLongestAxis));
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
      CheckResized(args, Operand(args, 0, "dy"), args.shape(0)));
  STOWAGE_RETURN_IF_ERROR(CheckPoolMode(args));
  const Result<Shape> shape = ShapeAttr(args);
  if (!shape.ok()) return shape.error();
  const std::string text = StrCat("shape is ", shape->ToString());
  STOWAGE_RETURN_IF_ERROR(CheckResized(args, text, *shape));
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
