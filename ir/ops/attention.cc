// causal_attention and its gradient. Blockwise kernels keep one log-sum-exp a
// row and head, never the T x T probabilities.

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

Status CheckQKV(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"scale", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "q", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, 0, "q", 1, "k"));
  const Shape& q = args.shape(0);
  const Shape& k = args.shape(1);
  const bool fits = q.rank() == 4 && k.rank() == 4 && q[0] == k[0] &&
                    q[1] == k[1] && q[3] == k[3] && q[2] % k[2] == 0;
  if (!fits) {
    return args.Fail(StrCat("heads do not match: ", Operand(args, 0, "q"), ", ",
                            Operand(args, 1, "k"),
                            "; expected q (B, T, H, D) and k (B, T, Hkv, D) "
                            "with Hkv dividing H"));
  }
  STOWAGE_RETURN_IF_ERROR(
      CheckType(args, 2, "v", args.type(1), "since " + Operand(args, 1, "k")));
  return CheckPositive(args, "scale");
}

// (B, H, T)
TensorType LogSumExpType(const OpArgs& args) {
  const Shape& q = args.shape(0);
  return {StatisticsType(args.type(0).dtype), {q[0], q[2], q[1]}};
}

TypesResult InferAttention(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckQKV(args));
  return Typed(args, {args.type(0), LogSumExpType(args)});
}

TypesResult InferAttentionGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckQKV(args));
  const std::string since = "since " + Operand(args, 0, "q");
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 3, "o", args.type(0), since));
  STOWAGE_RETURN_IF_ERROR(
      CheckType(args, 4, "log_sum_exp", LogSumExpType(args), since));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 5, "d_o", args.type(0), since));
  return Typed(args, {args.type(0), args.type(1), args.type(2)});
}

// Two T x T x D products for every head, of which the mask leaves half; the
// gradient has five.
double AttentionFlops(const OpArgs& args, std::span<const TensorType>) {
  return 2 * Elements(args.type(0)) * static_cast<double>(args.shape(0)[1]);
}
double AttentionGradFlops(const OpArgs& args,
                          std::span<const TensorType> results) {
  return 2.5 * AttentionFlops(args, results);
}

constexpr int kLogSumExp = 4;  // operand of the gradient

// Rows of D contiguous elements, anywhere; so a packed qkv needs no copy.
bool AcceptsAttention(const OpArgs& args, int i, const Strides& strides) {
  const Shape& shape = args.shape(i);
  if (i == kLogSumExp) return IsContiguous(shape, strides);
  for (int axis = 0; axis < 3; ++axis) {
    if (shape[axis] != 1 && strides[axis] == 0) return false;
  }
  return strides[3] == 1;
}

}  // namespace

constinit const OpDef CausalAttention = {.num_inputs = 3,
                                         .infer = InferAttention,
                                         .flops = AttentionFlops,
                                         .accepts = AcceptsAttention};
constinit const OpDef CausalAttentionGrad = {.num_inputs = 6,
                                             .infer = InferAttentionGrad,
                                             .flops = AttentionGradFlops,
                                             .accepts = AcceptsAttention};

}  // namespace stowage::op_defs
