#ifndef STOWAGE_CPU_WIDENED_H_
#define STOWAGE_CPU_WIDENED_H_

// Nodes of f16 and bf16 by kernels that compute in f32.
//
// Where the processor multiplies bf16 itself, matmuls and convolutions of bf16 are none of
// these (cpu/kernels/bf16_kernels.h). Elementwise kernels and matmul widen what they read, and narrow what they write, a
// block at a time. Every other kernel sees f32 copies of a node's f16 and
// bf16 operands and writes f32 results, both in the node's workspace; the results
// are then rounded, once; of layer_norm_grad_add the gradient is before the sum, too, as
// where that is a node of its own. So a kernel is written and compiled for f32 and f64
// alone.
//
// A copy has its operand's axes in the operand's order in memory without what lies
// between them, and does not repeat what the operand repeats: a kernel that takes
// the operand's strides takes the copy's.
//
//   if (RunsWidened(graph, node, table)) kernel = table.widened;

#include <cstddef>
#include <span>
#include <vector>

#include "cpu/kernel.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"

namespace stowage::cpu {

/// More operands than any op of ours has.
inline constexpr size_t kMaxWidenedOperands = 16;

/// Whether the kernel of `node`'s op in `table`, which does not take the node's types, takes
/// them with f32 in place of f16 and bf16, and has the same results then but for
/// those types.
bool RunsWidened(const Graph& graph, const Node& node,
                 const KernelTable& table);

/// `type` with f32 in place of f16 and bf16.
TensorType Wide(const TensorType& type);
std::vector<TensorType> Wide(std::span<const TensorType> types);

namespace kernels {
/// Runs such nodes. Its workspace is an f32 copy of each f16 or bf16 operand and
/// result, in whole, and the workspace of the op's own kernel.
extern const CpuKernel Widened;
}  // namespace kernels

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_WIDENED_H_
