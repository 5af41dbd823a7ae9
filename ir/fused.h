#ifndef STOWAGE_IR_FUSED_H_
#define STOWAGE_IR_FUSED_H_

// The operands of fused nodes: chains of elementwise ops, and matmuls with an epilogue.
//
// The attribute "program" of `fused_elementwise` and `fused_matmul` is a graph whose nodes
// are the fused ops, in order. All its values have one float type and one shape. The first
// node reads leaf 0, every further node the result of the one before, and each may read one
// more leaf. The first output is the result of the last node; others may be results of
// earlier nodes:
//
//   graph "bias, gelu" {
//     x0: f32(8, 512) = input
//     x1: f32(8, 512) = input
//     y1: f32(8, 512) = add(x0, x1)
//     y0: f32(8, 512) = gelu_tanh(y1)
//     output y0
//     output y1
//   }
//
// Leaves stand for the operands of the node, in order; for a `fused_matmul`, leaf 0 stands
// for the matmul and the others for the operands after a and b. The result of every fused op
// is rounded to the type as if the op stood alone, so that fusion changes no bit.
//
//   const FusedChain chain = ChainOf(ProgramOf(attrs));
//   for (const FusedStep& step : chain.steps()) Apply(step.op, step.operand);
//
// The operands of `epilogue_matmul` are a, b, then a bias (N), an addend and x, both of the
// result's shape, each if its flag is set. Or it has none of these, and result 1 is the sums
// over k of a's rows (M) or of b's columns (N).
//
//   const EpilogueOperands at = EpilogueOperandsOf(*launch.attrs);
//   if (at.bias != 0) Read(launch.inputs[at.bias]);

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "ir/attrs.h"
#include "ir/graph.h"
#include "ir/op_kind.h"

namespace stowage {

inline constexpr size_t kMaxFusedSteps = 8;
inline constexpr size_t kMaxFusedOperands = 5;  // leaves of a program
inline constexpr size_t kMaxFusedResults = 3;

/// Whether `op` may be fused: elementwise, on floats of one type.
bool MayBeFused(OpKind op);

/// One node of a program.
struct FusedStep {
  OpKind op = OpKind::kCopy;
  const Attrs* attrs = nullptr;
  /// Whether it reads two values, and the leaf that it reads besides the chain's value; -1 if
  /// both are the chain's.
  bool is_binary = false;
  int operand = -1;
  /// Whether the chain's value is its second operand.
  bool is_second = false;
  /// The result of the node that it computes; -1: none.
  int result = -1;
};

class FusedChain {
 public:
  std::span<const FusedStep> steps() const {
    return std::span(steps_).first(num_steps_);
  }

 private:
  friend FusedChain ChainOf(const Graph& program);
  std::array<FusedStep, kMaxFusedSteps> steps_;
  size_t num_steps_ = 0;
};

/// The program of a node that OpDef::infer has accepted.
inline const Graph& ProgramOf(const Attrs& attrs) {
  return *attrs.Graphs("program").front();
}
/// The steps of a program, which point into it. Allocates nothing.
FusedChain ChainOf(const Graph& program);

/// a and b.
inline constexpr size_t kProductOperands = 2;

/// Indices among the operands; 0, the index of a, for an absent one.
struct EpilogueOperands {
  size_t bias = 0;
  size_t addend = 0;
  size_t x = 0;
  size_t count = kProductOperands;  // of all operands
};

/// Reads the attributes "bias", "addend" and "gelu_grad", which must exist.
inline EpilogueOperands EpilogueOperandsOf(const Attrs& attrs) {
  EpilogueOperands at;
  if (attrs.Int("bias") == 1) at.bias = at.count++;
  if (attrs.Int("addend") == 1) at.addend = at.count++;
  if (attrs.Int("gelu_grad") == 1) at.x = at.count++;
  return at;
}

/// The operand whose sums are result 1, and which of its two axes is k.
struct SummedOperand {
  size_t place = 0;
  int axis = 0;
};

/// Reads the attributes "a_sums" and "b_sums", of which at most one is set, and whether that
/// operand is transposed.
inline std::optional<SummedOperand> SummedOperandOf(const Attrs& attrs) {
  if (attrs.Int("a_sums") == 1) {
    return SummedOperand{0, attrs.Int("transpose_a") == 1 ? 0 : 1};
  }
  if (attrs.Int("b_sums") == 1) {
    return SummedOperand{1, attrs.Int("transpose_b") == 1 ? 1 : 0};
  }
  return std::nullopt;
}

}  // namespace stowage

#endif  // STOWAGE_IR_FUSED_H_
