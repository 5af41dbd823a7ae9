#ifndef STOWAGE_IR_FUSED_H_
#define STOWAGE_IR_FUSED_H_

// Reads the attributes and operands of fused nodes. A `fused_elementwise` node is a chain of
// elementwise ops. `fused_matmul` and `epilogue_matmul` nodes are matmuls with an epilogue.
//
// The attribute "program" of `fused_elementwise` and `fused_matmul` is a graph whose nodes are the
// fused ops, in order. All values of the program have the same float type and the same shape. The
// first node reads leaf 0, and each further node reads the result of the previous node. Each node
// may read one more leaf. The first output is the result of the last node. Further outputs may be
// results of earlier nodes:
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
// The leaves correspond to the operands of the fused node, in order. In a `fused_matmul`, leaf 0
// corresponds to the result of the matmul, and the other leaves to the operands after a and b. The
// result of each fused op is rounded to the element type, as if the op were not fused, so fused and
// unfused results are identical, bit for bit.
//
//   const FusedChain chain = ChainOf(ProgramOf(attrs));
//   for (const FusedStep& step : chain.steps()) Apply(step.op, step.operand);
//
// The operands of `epilogue_matmul` are a (M, K), b (K, N), a bias (N), an addend and x. The last
// three are optional, and the attributes "bias", "addend" and "gelu_grad" state whether they exist.
// The addend and x have the result's shape. The bias and the addend are added to the matmul, and
// the sum is multiplied by the derivative of gelu_tanh at x. If none of the three exists, the op
// has a second result: the sum of each row of a (M) or of each column of b (N).
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

/// Returns whether `op` may be a node of a program: an elementwise op whose operands and result
/// have one float type.
bool MayBeFused(OpKind op);

/// One fused op, which is a node of a program. Each step reads the chain value: the result of the
/// previous step, or leaf 0 in the first step.
struct FusedStep {
  OpKind op = OpKind::kCopy;
  const Attrs* attrs = nullptr;
  /// Whether the op has two operands.
  bool is_binary = false;
  /// The index of the leaf that the op reads in addition to the chain value. -1 means that all
  /// operands are the chain value.
  int operand = -1;
  /// Whether the chain value is the second operand but not the first.
  bool is_second = false;
  /// The index of the fused node's result that this step computes. -1 means that this step's value
  /// is not a result.
  int result = -1;
};

/// The steps of a program.
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

/// Returns the program of a node. OpDef::infer must have accepted `attrs`.
inline const Graph& ProgramOf(const Attrs& attrs) {
  return *attrs.Graphs("program").front();
}
/// Returns the steps of `program`. They point into `program`, which must outlive them. Allocates
/// nothing.
FusedChain ChainOf(const Graph& program);

/// The number of required operands of a matmul with an epilogue: a and b.
inline constexpr size_t kProductOperands = 2;

/// The indices of the optional operands of an `epilogue_matmul`. 0, which is the index of a, means
/// that the operand is absent.
struct EpilogueOperands {
  size_t bias = 0;
  size_t addend = 0;
  size_t x = 0;
  size_t count = kProductOperands;  // the number of operands, including a and b
};

/// Returns the indices according to the attributes "bias", "addend" and "gelu_grad", which must
/// exist.
inline EpilogueOperands EpilogueOperandsOf(const Attrs& attrs) {
  EpilogueOperands at;
  if (attrs.Int("bias") == 1) at.bias = at.count++;
  if (attrs.Int("addend") == 1) at.addend = at.count++;
  if (attrs.Int("gelu_grad") == 1) at.x = at.count++;
  return at;
}

/// The operand whose sums are result 1 of an `epilogue_matmul`.
struct SummedOperand {
  size_t place = 0;  // operand index: 0 for a, 1 for b
  int axis = 0;      // the axis that is summed, k
};

/// Returns the operand whose sums the node computes: a if the attribute "a_sums" is set, b if
/// "b_sums" is set, or nullopt if neither is. Also reads the attribute "transpose_a" or
/// "transpose_b".
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
