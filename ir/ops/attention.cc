// attention and its gradient. Blockwise kernels keep one log-sum-exp a row and
// head, never the T x S probabilities.

#include <algorithm>

#include "base/strings.h"
#include "ir/attention_band.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

// That every query reads a key. The first is the one that reads fewest.
Status CheckBand(const OpArgs& args) {
  const Shape& q = args.shape(0);
  const Shape& k = args.shape(1);
  const int64_t window = args.attrs.Int("window");
  if (window < 0) {
    return args.Fail(
        StrCat("window is ", window, "; expected at least 1, or 0 for none"));
  }
  if (BandOf(q, k, args.attrs).high >= 0) return Status();
  const bool causal = args.attrs.Int("causal") == 1;
  return args.Fail(StrCat(
      "the first query reads no key: ", Operand(args, 0, "q"), ", ",
      Operand(args, 1, "k"), causal ? ", causal" : StrCat(", window ", window),
      ": ", q[1], " queries end at the last of ", k[1], " keys; expected ",
      causal ? StrCat("at least ", q[1], " keys")
             : StrCat("a window above ", q[1] - k[1])));
}

// q, k, v and, behind the `count` operands that there always are, key lengths.
Status CheckOperands(const OpArgs& args, int count) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"scale", AttrKind::kReal},
                                            {"causal", AttrKind::kFlag},
                                            {"window", AttrKind::kInt}}));
  if (args.count() != count && args.count() != count + 1) {
    return args.Fail(StrCat("takes ", count, " operands, or ", count + 1,
                            " with key lengths; got ", args.count()));
  }
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "q", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, 0, "q", 1, "k"));
  const Shape& q = args.shape(0);
  const Shape& k = args.shape(1);
  const bool fits = q.rank() == 4 && k.rank() == 4 && q[0] == k[0] &&
                    q[3] == k[3] && q[2] % k[2] == 0;
  if (!fits) {
    return args.Fail(StrCat("heads do not match: ", Operand(args, 0, "q"), ", ",
                            Operand(args, 1, "k"),
                            "; expected q (B, T, H, D) and k (B, S, G, D) "
                            "with G dividing H"));
  }
  STOWAGE_RETURN_IF_ERROR(
      CheckType(args, 2, "v", args.type(1), "since " + Operand(args, 1, "k")));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "scale"));
  STOWAGE_RETURN_IF_ERROR(CheckBand(args));
  if (args.count() == count) return Status();
  return CheckType(
      args, count, "key_lengths", {DType::kI32, {q[0]}},
      "a length for each of the batch of " + Operand(args, 0, "q"));
}

// (B, H, T)
TensorType LogSumExpType(const OpArgs& args) {
  const Shape& q = args.shape(0);
  return {StatisticsType(args.type(0).dtype), {q[0], q[2], q[1]}};
}

TypesResult InferAttention(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckOperands(args, 3));
  return Typed(args, {args.type(0), LogSumExpType(args)});
}

TypesResult InferAttentionGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckOperands(args, 6));
  const std::string since = "since " + Operand(args, 0, "q");
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 3, "o", args.type(0), since));
  STOWAGE_RETURN_IF_ERROR(
      CheckType(args, 4, "log_sum_exp", LogSumExpType(args), since));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 5, "d_o", args.type(0), since));
  return Typed(args, {args.type(0), args.type(1), args.type(2)});
}

// Of the T by S square of scores, the area that the mask leaves: half for a causal
// mask of T keys. Key lengths are not known here.
double ScoresRead(const OpArgs& args) {
  const auto queries = static_cast<double>(args.shape(0)[1]);
  const auto keys = static_cast<double>(args.shape(1)[1]);
  const auto window = static_cast<double>(args.attrs.Int("window"));
  const auto triangle = [](double side) {
    return side > 0 ? side * side / 2 : 0;
  };
  double area = queries * keys;
  if (args.attrs.Int("causal") == 1) {
    area -= triangle(queries);
  } else if (window > 0) {
    area -= triangle(queries - window);
  }
  if (window > 0) {
    area -= triangle(keys - window) - triangle(keys - queries - window);
  }
  return area;
}

// Two products of D for every score and head; the gradient has five.
double AttentionFlops(const OpArgs& args, std::span<const TensorType>) {
  const Shape& q = args.shape(0);
  return 4 * static_cast<double>(q[0] * q[2] * q[3]) * ScoresRead(args);
}
double AttentionGradFlops(const OpArgs& args,
                          std::span<const TensorType> results) {
  return 2.5 * AttentionFlops(args, results);
}

// Rows of D contiguous elements, anywhere; so a packed qkv needs no copy. The
// log-sum-exp and the key lengths are contiguous.
bool AcceptsAttention(const OpArgs& args, int i, const Strides& strides) {
  const Shape& shape = args.shape(i);
  if (shape.rank() != 4) return IsContiguous(shape, strides);
  for (int axis = 0; axis < 3; ++axis) {
    if (shape[axis] != 1 && strides[axis] == 0) return false;
  }
  return strides[3] == 1;
}

}  // namespace

constinit const OpDef Attention = {.num_inputs = kAnyNumber,
                                   .infer = InferAttention,
                                   .flops = AttentionFlops,
                                   .accepts = AcceptsAttention};
constinit const OpDef AttentionGrad = {.num_inputs = kAnyNumber,
                                       .infer = InferAttentionGrad,
                                       .flops = AttentionGradFlops,
                                       .accepts = AcceptsAttention};

}  // namespace stowage::op_defs
