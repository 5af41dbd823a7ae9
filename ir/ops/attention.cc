// attention, its gradient, and rotary embeddings.

#include "ir/attention.h"

#include <cstdint>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {

// attention and its gradients. Blockwise kernels keep one log-sum-exp a row and
// head, never the T x S probabilities.

namespace {

// Error: a query reads no key. The first query reads fewest.
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

// The number of required operands.
int Always(OpKind op) {
  return static_cast<int>(op == OpKind::kAttention ? kAttentionOperands
                                                   : kAttentionGradOperands);
}

// Error: not of the scores' shape (B, H, T, S), where the first three sizes may be 1.
Status CheckBias(const OpArgs& args, int i) {
  STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, 0, "q", i, "bias"));
  const Shape& q = args.shape(0);
  const Shape& bias = args.shape(i);
  const Shape scores = {q[0], q[2], q[1], args.shape(1)[1]};
  bool fits = bias.rank() == 4 && bias[3] == scores[3];
  for (int axis = 0; fits && axis < 3; ++axis) {
    fits = bias[axis] == 1 || bias[axis] == scores[axis];
  }
  if (fits) return Status();
  return args.Fail(StrCat(Operand(args, i, "bias"), "; expected (B, H, T, S), ",
                          scores.ToString(), " of ", Operand(args, 0, "q"),
                          " and ", Operand(args, 1, "k"),
                          ", or 1 for any of the first three"));
}

// Checks q, k, v and, after the required operands, a bias and then key lengths or segments.
Status CheckAttentionOperands(const OpArgs& args) {
  const int count = Always(args.op);
  const bool needs_bias = args.op == OpKind::kAttentionBiasGrad;
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrsAndSoftcap(args, {{"scale", AttrKind::kReal},
                                  {"causal", AttrKind::kFlag},
                                  {"window", AttrKind::kInt}}));
  if (args.count() < count + (needs_bias ? 1 : 0) || args.count() > count + 2) {
    return args.Fail(StrCat(
        "takes ", count, " operands and behind them a bias",
        needs_bias ? ", then perhaps key lengths or segments"
                   : ", key lengths or segments, or one of these behind a bias",
        "; got ", args.count()));
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
  const AttentionOptionals at = OptionalsBehind(
      static_cast<size_t>(count), args.types.size(),
      [&](size_t i) -> const TensorType& { return args.types[i]; });
  // If a bias is required, or there are two optional operands, the first one is the bias.
  if (at.bias != 0 || needs_bias || args.count() == count + 2) {
    STOWAGE_RETURN_IF_ERROR(CheckBias(args, count));
  }
  if (at.segments != 0) {
    if (q[1] != k[1]) {
      return args.Fail(StrCat("lengths differ: ", Operand(args, 0, "q"), ", ",
                              Operand(args, 1, "k"),
                              "; segments are of as many keys as queries"));
    }
    return CheckType(args, static_cast<int>(at.segments), "segments",
                     {DType::kI32, {q[0], 2, q[1]}},
                     "a first position and one behind the last for each of " +
                         Operand(args, 0, "q"));
  }
  if (at.key_lengths == 0) return Status();
  return CheckType(
      args, static_cast<int>(at.key_lengths), "key_lengths",
      {DType::kI32, {q[0]}},
      "a length for each of the batch of " + Operand(args, 0, "q"));
}

// (B, H, T)
TensorType AttentionLogSumExpType(const OpArgs& args) {
  const Shape& q = args.shape(0);
  return {StatisticsType(args.type(0).dtype), {q[0], q[2], q[1]}};
}

TypesResult InferAttention(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttentionOperands(args));
  return Typed(args, {args.type(0), AttentionLogSumExpType(args)});
}

Status CheckGradOperands(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttentionOperands(args));
  const std::string since = "since " + Operand(args, 0, "q");
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 3, "o", args.type(0), since));
  STOWAGE_RETURN_IF_ERROR(
      CheckType(args, 4, "log_sum_exp", AttentionLogSumExpType(args), since));
  return CheckType(args, 5, "d_o", args.type(0), since);
}

TypesResult InferAttentionGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckGradOperands(args));
  return Typed(args, {args.type(0), args.type(1), args.type(2)});
}

// dq, dk and dv side by side, as columns of one matrix.
TypesResult InferAttentionQkvGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckGradOperands(args));
  const Shape& q = args.shape(0);
  const Shape& k = args.shape(1);
  if (q[1] != k[1]) {
    return args.Fail(StrCat("lengths differ: ", Operand(args, 0, "q"), ", ",
                            Operand(args, 1, "k"),
                            "; gradients side by side have as many rows"));
  }
  return Typed(args,
               {{args.type(0).dtype, {q[0], q[1], (q[2] + 2 * k[2]) * q[3]}}});
}

TypesResult InferAttentionBiasGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckGradOperands(args));
  return Typed(args, {args.type(Always(args.op))});
}

// The number of scores that the mask leaves of T times S: half for a causal mask of T keys.
// Key lengths are unknown here.
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

// Two dot products of D for every score and head, as for the gradient of the bias; the
// gradient of the others has five.
double AttentionFlops(const OpArgs& args, std::span<const TensorType>) {
  const Shape& q = args.shape(0);
  return 4 * static_cast<double>(q[0] * q[2] * q[3]) * ScoresRead(args);
}
double AttentionGradFlops(const OpArgs& args,
                          std::span<const TensorType> results) {
  return 2.5 * AttentionFlops(args, results);
}

// Rows of D contiguous elements, at any distance, so that a packed qkv needs no copy. The
// log-sum-exp and the key lengths are contiguous. A bias has rows of S contiguous
// elements, which may repeat.
bool AcceptsAttention(const OpArgs& args, int i, const Strides& strides) {
  const Shape& shape = args.shape(i);
  if (shape.rank() != 4) return IsContiguous(shape, strides);
  const bool repeats = i >= Always(args.op);
  for (int axis = 0; axis < 3 && !repeats; ++axis) {
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
constinit const OpDef AttentionQkvGrad = {.num_inputs = kAnyNumber,
                                          .infer = InferAttentionQkvGrad,
                                          .flops = AttentionGradFlops,
                                          .accepts = AcceptsAttention};
constinit const OpDef AttentionBiasGrad = {.num_inputs = kAnyNumber,
                                           .infer = InferAttentionBiasGrad,
                                           .flops = AttentionFlops,
                                           .accepts = AcceptsAttention};

// rope: rotary position embedding. Its gradient is the rotation back.

namespace {

Status CheckPositions(const OpArgs& args) {
  const TensorType& positions = args.type(1);
  const Shape& x = args.shape(0);
  const bool fits =
      positions.shape == Shape{x[1]} || positions.shape == Shape{x[0], x[1]};
  if (positions.dtype == DType::kI32 && fits) return {};
  return args.Fail(StrCat(Operand(args, 1, "positions"), "; expected i32(",
                          x[1], ") or i32(", x[0], ", ", x[1], "), since ",
                          Operand(args, 0, "x")));
}

TypesResult InferRope(const OpArgs& args) {
  if (args.count() != 1 && args.count() != 2) {
    return args.Fail(StrCat("takes 1 operand, or 2 with positions; was given ",
                            args.count()));
  }
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"base", AttrKind::kReal},
                                            {"dims", AttrKind::kInt},
                                            {"interleaved", AttrKind::kFlag},
                                            {"inverse", AttrKind::kFlag}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  const Shape& x = args.shape(0);
  if (x.rank() != 4) {
    return args.Fail(
        StrCat(Operand(args, 0, "x"),
               "; expected (B, T, H, D): batch, time, heads, elements"));
  }
  const int64_t dims = args.attrs.Int("dims");
  if (dims < 2 || dims > x[3] || dims % 2 != 0) {
    return args.Fail(StrCat("dims is ", dims, ": ", Operand(args, 0, "x"),
                            "; expected an even number from 2 to its last "
                            "dimension, ",
                            x[3]));
  }
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "base"));
  if (args.count() == 2) STOWAGE_RETURN_IF_ERROR(CheckPositions(args));
  return Typed(args, {args.type(0)});
}

// Heads of contiguous elements, at any distance, so that a packed qkv needs no copy.
bool AcceptsRope(const OpArgs& args, int i, const Strides& strides) {
  return i == 0 ? strides[3] == 1 : IsContiguous(args.shape(i), strides);
}

}  // namespace

// Both elements of a pair are read before either is written.
constinit const OpDef Rope = {.num_inputs = kAnyNumber,
                              .infer = InferRope,
                              .flops = FlopsPerResultElement<3>,
                              .accepts = AcceptsRope,
                              .may_overwrite = 0b1};

}  // namespace stowage::op_defs
