// lstm, a whole sequence of an LSTM's cells (Hochreiter & Schmidhuber 1997, with the
// forget gates of Gers et al. 2000), its gradient and that of its recurrent weights.
//
// The inputs' contribution to the gates, 4H numbers a position, is overwritten by the
// activated gates, which the gradient reads besides h and c: 6H saved numbers a position.
// Saving the inputs' 4H instead would cost the gradient the matmul of all states again.

#include <span>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"
#include "ir/tensor_type.h"

namespace stowage::op_defs {
namespace {

constexpr int kGates = 4;

// Operand 0 as (B, T, 4H). H follows from it alone.
Status CheckGates(const OpArgs& args, std::string_view label) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"reverse", AttrKind::kFlag}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, label, DTypes::kFloat));
  const Shape& gates = args.shape(0);
  if (gates.rank() == 3 && gates[2] % kGates == 0) return Status();
  return args.Fail(
      StrCat(Operand(args, 0, label), "; expected (batch, time, 4 hidden)"));
}

// The types of h, c and their gradients; of a state; of the weights.
TensorType SequenceType(const OpArgs& args) {
  const Shape& gates = args.shape(0);
  return {args.type(0).dtype, {gates[0], gates[1], gates[2] / kGates}};
}
TensorType StateType(const OpArgs& args) {
  const Shape& gates = args.shape(0);
  return {args.type(0).dtype, {gates[0], gates[2] / kGates}};
}
TensorType LstmWeightType(const OpArgs& args) {
  const int64_t width = args.shape(0)[2];
  return {args.type(0).dtype, {width, width / kGates}};
}

TypesResult InferLstm(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckGates(args, "gates"));
  const std::string since = "since " + Operand(args, 0, "gates");
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 1, "h0", StateType(args), since));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 2, "c0", StateType(args), since));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 3, "w", LstmWeightType(args), since));
  return Typed(args, {args.type(0), SequenceType(args), SequenceType(args)});
}

TypesResult InferLstmGrad(const OpArgs& args) {
  if (args.count() != 5 && args.count() != 6) {
    return args.Fail(
        StrCat("takes 5 operands, or 6 with dc; got ", args.count()));
  }
  STOWAGE_RETURN_IF_ERROR(CheckGates(args, "gates"));
  const std::string since = "since " + Operand(args, 0, "gates");
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 1, "c0", StateType(args), since));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 2, "w", LstmWeightType(args), since));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 3, "c", SequenceType(args), since));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 4, "dh", SequenceType(args), since));
  if (args.count() == 6) {
    STOWAGE_RETURN_IF_ERROR(
        CheckType(args, 5, "dc", SequenceType(args), since));
  }
  return Typed(args, {args.type(0), StateType(args), StateType(args)});
}

TypesResult InferLstmWeightGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckGates(args, "dgates"));
  const std::string since = "since " + Operand(args, 0, "dgates");
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 1, "h0", StateType(args), since));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 2, "h", SequenceType(args), since));
  return Typed(args, {LstmWeightType(args)});
}

// One dot product of H for each of the gates' numbers.
double ProductFlops(const OpArgs& args) {
  return Elements(args.type(0)) *
         (2 * static_cast<double>(args.shape(0)[2]) / kGates);
}

// Three sigmoids, two tanh, and eight more for each of h; in the gradient, one tanh and
// 25 more.
double LstmFlops(const OpArgs& args, std::span<const TensorType>) {
  return ProductFlops(args) +
         Elements(SequenceType(args)) * (5 * kTranscendentalFlops + 8);
}
double LstmGradFlops(const OpArgs& args, std::span<const TensorType>) {
  return ProductFlops(args) +
         Elements(SequenceType(args)) * (kTranscendentalFlops + 25);
}
double LstmWeightGradFlops(const OpArgs& args, std::span<const TensorType>) {
  return ProductFlops(args);
}

// Sequences may have their positions and examples in any order, if none is another:
// an operand of (T, B, ...) seen as (B, T, ...) costs no copy.
bool AcceptsRows(const OpArgs& args, int i, const Strides& strides) {
  const Shape& shape = args.shape(i);
  for (int axis = 0; axis < 2; ++axis) {
    if (shape[axis] != 1 && strides[axis] == 0) return false;
  }
  return strides[2] == 1 || shape[2] == 1;
}
bool AcceptsLstm(const OpArgs& args, int i, const Strides& strides) {
  return i == 0 ? AcceptsRows(args, i, strides)
                : IsContiguous(args.shape(i), strides);
}
bool AcceptsLstmGrad(const OpArgs& args, int i, const Strides& strides) {
  return i >= 4 ? AcceptsRows(args, i, strides)
                : IsContiguous(args.shape(i), strides);
}

}  // namespace

// A position's gates overwrite the inputs' contribution to them.
constinit const OpDef Lstm = {.num_inputs = 4,
                              .infer = InferLstm,
                              .flops = LstmFlops,
                              .accepts = AcceptsLstm,
                              .may_overwrite = 0b1};
// The gradients of the gates overwrite the gates.
constinit const OpDef LstmGrad = {.num_inputs = kAnyNumber,
                                  .infer = InferLstmGrad,
                                  .flops = LstmGradFlops,
                                  .accepts = AcceptsLstmGrad,
                                  .may_overwrite = 0b1};
constinit const OpDef LstmWeightGrad = {.num_inputs = 3,
                                        .infer = InferLstmWeightGrad,
                                        .flops = LstmWeightGradFlops};

}  // namespace stowage::op_defs
