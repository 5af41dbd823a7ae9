#ifndef STOWAGE_COMPILE_WIDENED_H_
#define STOWAGE_COMPILE_WIDENED_H_

// Nodes of bf16 and f16 whose op adds up into its results: they compute on f32 copies of
// their operands and results, in scratch memory, and round once at the end. So does the CPU
// backend (cpu/kernel.h).
//
//   static void layer_norm_2(const bf16 *x0, ..., bf16 *y0, f32 *scratch) {
//     for (...) scratch[i] = bfloat16_to_float(x0[i]);
//     layer_norm_1(scratch, ..., scratch + 64, scratch + 128);
//     for (...) y0[i] = float_to_bfloat16(scratch[128 + i]);
//   }

#include <string>

#include "compile/kernel.h"

namespace stowage::compile {

/// Whether the node has to be widened.
bool IsWidened(const Graph& graph, const Node& node);

/// Elements of `real` that a node needs of scratch memory, copies included.
int64_t ScratchOf(const Graph& graph, const Node& node);

/// Writes the body of `outer`, a node that is widened: copies, a call of `name`, the
/// function of `inner`, and copies back.
void WriteWidened(Kernel& outer, const Kernel& inner, const std::string& name);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_WIDENED_H_
