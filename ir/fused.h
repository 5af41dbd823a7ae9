#ifndef STOWAGE_IR_FUSED_H_
#define STOWAGE_IR_FUSED_H_

// Chains of elementwise ops as one node.
//
// The attribute "program" of `fused_elementwise` and `fused_matmul` is a graph whose
// nodes are the parts, in order. All its values are of one float type and one shape.
// The first node works on leaf 0, every further node on the result of the one before;
// what else they read are leaves. The first output is the result of the last node, and
// others may be those of nodes before it:
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
// Leaves stand for the operands of the node, by their order; of a `fused_matmul` leaf 0
// stands for the product, and the others for what follows a and b. The result of every
// part is rounded to the type, as it is where the parts stand alone: whether ops are
// fused shows in no bit.
//
//   const FusedChain chain = ChainOf(ProgramOf(attrs));
//   for (const FusedStep& step : chain.steps()) Apply(step.op, step.operand);

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

/// Whether `op` may be a part: elementwise, of floats of one type alone.
bool MayBeFused(OpKind op);

/// One node of a program.
struct FusedStep {
  OpKind op = OpKind::kCopy;
  const Attrs* attrs = nullptr;
  /// Whether it reads two values, and the leaf that it reads beside the chain's value;
  /// -1 where both are the chain's.
  bool is_binary = false;
  int operand = -1;
  /// Whether the chain's value is the second of the two.
  bool is_second = false;
  /// Which result of the node it makes; -1: none.
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

/// The program of a node that OpDef::infer took.
inline const Graph& ProgramOf(const Attrs& attrs) {
  return *attrs.Graphs("program").front();
}
/// Its steps. They point into it. Allocates nothing.
FusedChain ChainOf(const Graph& program);

// Which operands of `epilogue_matmul` are which: behind a and b stand a bias (N), an addend
// and x, both of the product's shape, in this order, each where its flag says so. Or it has
// none of them, and result 1 is the sums over k of one of the two: of a's rows (M) or of
// b's columns (N).
//
//   const EpilogueOperands at = EpilogueOperandsOf(*launch.attrs);
//   if (at.bias != 0) Read(launch.inputs[at.bias]);

/// a and b.
inline constexpr size_t kProductOperands = 2;

/// Places among the operands; 0, where a stands, if there is none.
struct EpilogueOperands {
  size_t bias = 0;
  size_t addend = 0;
  size_t x = 0;
  size_t count = kProductOperands;  // of all operands
};

/// By the flags "bias", "addend" and "gelu_grad", which must be there.
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

/// By the flags "a_sums" and "b_sums", of which at most one is set, and by how that
/// operand enters the product.
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
