// local_response_norm and its gradient: each element over a power of the sum of
// squares of its channel, axis 1, and those around it (Krizhevsky et al. 2012, section
// 3.3). The gradient computes the sums again: kept, they would be as large as x.

#include <cmath>
#include <span>
#include <string_view>

#include "base/strings.h"
#include "ir/channel_window.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

constexpr int64_t kLargestSize = (int64_t{1} << 31) - 1;

Status CheckX(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"size", AttrKind::kInt},
                                            {"alpha", AttrKind::kReal},
                                            {"beta", AttrKind::kReal},
                                            {"bias", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "x", 2));
  const int64_t size = args.attrs.Int("size");
  if (size < 1 || size > kLargestSize) {
    return args.Fail(
        StrCat("size is ", size, "; expected 1 to ", kLargestSize));
  }
  for (const std::string_view name : {"alpha", "beta", "bias"}) {
    STOWAGE_RETURN_IF_ERROR(CheckReal(
        args, name, std::isfinite(args.attrs.Float(name)), "a finite number"));
  }
  return {};
}

TypesResult InferLocalResponseNorm(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckX(args));
  return Typed(args, {args.type(0)});
}

TypesResult InferLocalResponseNormGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckX(args));
  STOWAGE_RETURN_IF_ERROR(
      CheckType(args, 1, "dy", args.type(0), "since " + Operand(args, 0, "x")));
  return Typed(args, {args.type(0)});
}

// `sums` over the window of each element, the power, and `others`.
double Flops(const OpArgs& args, int sums, int others) {
  const ChannelWindow window =
      ChannelWindow::Of(args.attrs.Int("size"), args.shape(0)[1]);
  return Elements(args.type(0)) * (sums * static_cast<double>(window.length()) +
                                   2 * kTranscendentalFlops + others);
}

}  // namespace

// A kernel keeps the squares of the channels that later ones need.
constinit const OpDef LocalResponseNorm = {
    .infer = InferLocalResponseNorm,
    .flops = [](const OpArgs& args,
                std::span<const TensorType>) { return Flops(args, 2, 3); },
    .may_overwrite = 0b1};
// dx over x or dy: likewise, what it has made of those channels.
constinit const OpDef LocalResponseNormGrad = {
    .num_inputs = 2,
    .infer = InferLocalResponseNormGrad,
    .flops = [](const OpArgs& args,
                std::span<const TensorType>) { return Flops(args, 3, 8); },
    .may_overwrite = 0b11};

}  // namespace stowage::op_defs
