// conv, its gradient to x, which is also the transposed convolution, and its
// gradient to w (ir/windows.h). Attributes have a number for each spatial
// dimension; `padding` has two: the zeros before, then those after.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

// The limit on strides, paddings and dilations, with which their sums and products with
// sizes fit 63 bits.
constexpr int64_t kMax = INT32_MAX;

using Ints = std::vector<int64_t>;

// "(2, 2)".
std::string List(const Ints& values) {
  std::string list = "(";
  for (const int64_t value : values) {
    list += StrCat(list.size() > 1 ? ", " : "", value);
  }
  return list + ")";
}

Status CheckList(const OpArgs& args, const char* name, size_t count,
                 int64_t least, const char* what) {
  const Ints& values = args.attrs.Ints(name);
  if (values.size() != count) {
    return args.Fail(StrCat(name, " is ", List(values), "; expected ", count,
                            " numbers: ", what));
  }
  for (const int64_t value : values) {
    if (value >= least && value <= kMax) continue;
    return args.Fail(
        StrCat(name, " is ", List(values), "; expected ", least, " to ", kMax));
  }
  return {};
}

// The attributes that all three have, for operand 0's spatial dimensions.
Status CheckWindow(const OpArgs& args) {
  const int rank = args.shape(0).rank();
  if (rank < 3 || rank > 5) {
    return args.Fail(
        StrCat(Operand(args, 0, "x"),
               "; expected (N, C, ...) with 1 to 3 spatial dimensions"));
  }
  const auto spatial = static_cast<size_t>(rank - 2);
  constexpr const char* kEach = "one for each spatial dimension";
  STOWAGE_RETURN_IF_ERROR(CheckList(args, "stride", spatial, 1, kEach));
  STOWAGE_RETURN_IF_ERROR(
      CheckList(args, "padding", 2 * spatial, 0,
                "before each spatial dimension, then after each"));
  STOWAGE_RETURN_IF_ERROR(CheckList(args, "dilation", spatial, 1, kEach));
  const int64_t groups = args.attrs.Int("groups");
  if (groups >= 1) return {};
  return args.Fail(StrCat("groups is ", groups, "; expected at least 1"));
}

// Dimension `axis` of operand i, the channels, divides by groups.
Status CheckDivides(const OpArgs& args, int i, const char* label, int axis) {
  const int64_t groups = args.attrs.Int("groups");
  if (args.shape(i)[axis] % groups == 0) return {};
  return args.Fail(StrCat("dimension ", axis, " does not divide by groups: ",
                          Operand(args, i, label), ", groups is ", groups,
                          "; expected a multiple of ", groups));
}

Status CheckSameRank(const OpArgs& args, int i, const char* label) {
  const int rank = args.shape(0).rank();
  if (args.shape(i).rank() == rank) return {};
  return args.Fail(StrCat(Operand(args, i, label), "; expected rank ", rank,
                          ", since ", Operand(args, 0, "x")));
}

// Spatial dimension i: the zeros around it, and the extent of a kernel.
int64_t Padding(const OpArgs& args, int i) {
  const Ints& padding = args.attrs.Ints("padding");
  const auto at = static_cast<size_t>(i);
  return padding[at] + padding[at + padding.size() / 2];
}
Result<int64_t> Reach(const OpArgs& args, int i, int64_t kernel) {
  const int64_t dilation = args.attrs.Ints("dilation")[static_cast<size_t>(i)];
  const auto reach = CheckedMul(dilation, kernel - 1);
  if (reach && *reach < INT64_MAX) return *reach + 1;
  return args.Fail(StrCat("a kernel of ", kernel, " with dilation ", dilation,
                          " reaches over more elements than 63 bits count"));
}

// The number of positions of a kernel along spatial dimension i of an image of `in`.
Result<int64_t> Places(const OpArgs& args, int i, int64_t in, int64_t kernel) {
  STOWAGE_ASSIGN_OR_RETURN(const int64_t reach, Reach(args, i, kernel));
  const auto padded = CheckedAdd(in, Padding(args, i));
  if (!padded || *padded < reach) {
    return args.Fail(StrCat(
        "the kernel is larger than the padded image along dimension ", i + 2,
        ": a kernel of ", kernel, " with dilation ",
        args.attrs.Ints("dilation")[static_cast<size_t>(i)], " reaches over ",
        reach, ", an image of ", in, " with padding of ", Padding(args, i),
        " has ", padded.value_or(INT64_MAX), "; expected at least ", reach));
  }
  const int64_t stride = args.attrs.Ints("stride")[static_cast<size_t>(i)];
  return (*padded - reach) / stride + 1;
}

TypesResult InferConv(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"stride", AttrKind::kInts},
                                            {"padding", AttrKind::kInts},
                                            {"dilation", AttrKind::kInts},
                                            {"groups", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, 0, "x", 1, "w"));
  STOWAGE_RETURN_IF_ERROR(CheckWindow(args));
  STOWAGE_RETURN_IF_ERROR(CheckSameRank(args, 1, "w"));
  STOWAGE_RETURN_IF_ERROR(CheckDivides(args, 0, "x", 1));
  STOWAGE_RETURN_IF_ERROR(CheckDivides(args, 1, "w", 0));
  const Shape& x = args.shape(0);
  const Shape& w = args.shape(1);
  const int64_t groups = args.attrs.Int("groups");
  if (w[1] != x[1] / groups) {
    return args.Fail(StrCat(Operand(args, 1, "w"), "; expected (O, ",
                            x[1] / groups, ", ...), since ",
                            Operand(args, 0, "x"), " and groups is ", groups));
  }
  TensorType y = {args.type(0).dtype, {x[0], w[0]}};
  for (int i = 0; i < x.rank() - 2; ++i) {
    STOWAGE_ASSIGN_OR_RETURN(const int64_t out,
                             Places(args, i, x[i + 2], w[i + 2]));
    y.shape.push_back(out);
  }
  return Typed(args, {y});
}

TypesResult InferConvTranspose(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"size", AttrKind::kInts},
                                            {"stride", AttrKind::kInts},
                                            {"padding", AttrKind::kInts},
                                            {"dilation", AttrKind::kInts},
                                            {"groups", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, 0, "x", 1, "w"));
  STOWAGE_RETURN_IF_ERROR(CheckWindow(args));
  const Shape& x = args.shape(0);
  const Shape& w = args.shape(1);
  const int spatial = x.rank() - 2;
  STOWAGE_RETURN_IF_ERROR(CheckList(args, "size", static_cast<size_t>(spatial),
                                    1, "one for each spatial dimension"));
  STOWAGE_RETURN_IF_ERROR(CheckSameRank(args, 1, "w"));
  STOWAGE_RETURN_IF_ERROR(CheckDivides(args, 0, "x", 1));
  if (w[0] != x[1]) {
    return args.Fail(StrCat(Operand(args, 1, "w"), "; expected (", x[1],
                            ", ...), since ", Operand(args, 0, "x")));
  }
  const auto channels = CheckedMul(w[1], args.attrs.Int("groups"));
  if (!channels) {
    return args.Fail(StrCat("too many channels: ", Operand(args, 1, "w"),
                            ", groups is ", args.attrs.Int("groups"),
                            "; expected a product that fits 63 bits"));
  }
  TensorType y = {args.type(0).dtype, {x[0], *channels}};
  for (int i = 0; i < spatial; ++i) {
    const int64_t size = args.attrs.Ints("size")[static_cast<size_t>(i)];
    STOWAGE_ASSIGN_OR_RETURN(const int64_t places,
                             Places(args, i, size, w[i + 2]));
    if (places != x[i + 2]) {
      return args.Fail(StrCat(
          "size is ", List(args.attrs.Ints("size")), ": dimension ", i + 2,
          " of it is convolved to ", places, "; expected ", x[i + 2],
          ", since ", Operand(args, 0, "x"), ", ", Operand(args, 1, "w"),
          ", stride is ", List(args.attrs.Ints("stride")), ", padding ",
          List(args.attrs.Ints("padding")), ", dilation ",
          List(args.attrs.Ints("dilation"))));
    }
    y.shape.push_back(size);
  }
  return Typed(args, {y});
}

TypesResult InferConvWeightGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"kernel", AttrKind::kInts},
                                            {"stride", AttrKind::kInts},
                                            {"padding", AttrKind::kInts},
                                            {"dilation", AttrKind::kInts},
                                            {"groups", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, 0, "x", 1, "dy"));
  STOWAGE_RETURN_IF_ERROR(CheckWindow(args));
  const Shape& x = args.shape(0);
  const Shape& dy = args.shape(1);
  const int spatial = x.rank() - 2;
  STOWAGE_RETURN_IF_ERROR(CheckList(args, "kernel",
                                    static_cast<size_t>(spatial), 1,
                                    "one for each spatial dimension"));
  STOWAGE_RETURN_IF_ERROR(CheckSameRank(args, 1, "dy"));
  STOWAGE_RETURN_IF_ERROR(CheckDivides(args, 0, "x", 1));
  STOWAGE_RETURN_IF_ERROR(CheckDivides(args, 1, "dy", 1));
  Shape expected = {x[0], dy[1]};
  TensorType dw = {args.type(0).dtype,
                   {dy[1], x[1] / args.attrs.Int("groups")}};
  for (int i = 0; i < spatial; ++i) {
    const int64_t kernel = args.attrs.Ints("kernel")[static_cast<size_t>(i)];
    STOWAGE_ASSIGN_OR_RETURN(const int64_t out,
                             Places(args, i, x[i + 2], kernel));
    expected.push_back(out);
    dw.shape.push_back(kernel);
  }
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 1, "dy",
                                    TensorType{args.type(0).dtype, expected},
                                    "since " + Operand(args, 0, "x")));
  return Typed(args, {dw});
}

// A multiply-add for each element of y, each channel of its group and each
// element of the kernel; zeros around the image count.
double Flops(const TensorType& y, const Shape& w) {
  double terms = 1;
  for (int i = 1; i < w.rank(); ++i) terms *= static_cast<double>(w[i]);
  return 2 * Elements(y) * terms;
}
double ConvFlops(const OpArgs& args, std::span<const TensorType> results) {
  return Flops(results[0], args.shape(1));
}
double ConvTransposeFlops(const OpArgs& args, std::span<const TensorType>) {
  return Flops(args.type(0), args.shape(1));
}
double ConvWeightGradFlops(const OpArgs& args,
                           std::span<const TensorType> results) {
  return Flops(args.type(1), results[0].shape);
}

}  // namespace

constinit const OpDef Conv = {
    .num_inputs = 2, .infer = InferConv, .flops = ConvFlops};
constinit const OpDef ConvTranspose = {
    .num_inputs = 2, .infer = InferConvTranspose, .flops = ConvTransposeFlops};
constinit const OpDef ConvWeightGrad = {.num_inputs = 2,
                                        .infer = InferConvWeightGrad,
                                        .flops = ConvWeightGradFlops};

}  // namespace stowage::op_defs
