#ifndef STOWAGE_COMPILE_KERNEL_SET_H_
#define STOWAGE_COMPILE_KERNEL_SET_H_

// The kernels of a file: nodes whose functions have the same text share one.
//
// Nodes of bf16 and f16 whose op accumulates in its results are widened, as in the CPU
// backend (cpu/kernel.h): they compute on f32 copies of their operands and results, in
// workspace, and round once at the end.
//
//   static void layer_norm_2(const bf16 *x0, ..., bf16 *y0, f32 *scratch) {
//     for (...) scratch[i] = bfloat16_to_float(x0[i]);
//     layer_norm_1(scratch, ..., scratch + 64, scratch + 128);
//     for (...) y0[i] = float_to_bfloat16(scratch[128 + i]);
//   }
//
//   KernelSet kernels;
//   const KernelCall& call = kernels.Add(graph, node, layouts);
//   call.name;        // "matmul_1"
//   call.parameters;  // "x0", "x1", "y0"

#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "compile/kernel.h"
#include "ir/graph.h"
#include "ir/layout.h"

namespace stowage::compile {

struct KernelCall {
  std::string name;
  std::vector<std::string> parameters;
  bool can_fail = false;
  DType real = DType::kF32;  // of scratch memory
};

class KernelSet {
 public:
  /// Precondition: OpInC has the op.
  KernelCall Add(const Graph& graph, const Node& node, const Layouts& layouts);

  /// The definitions, in the order in which they were first needed.
  const std::string& text() const { return text_; }
  int count() const { return static_cast<int>(names_.size()); }
  /// The most stack that the arrays of one kernel take.
  Bytes stack() const { return stack_; }

 private:
  KernelCall AddKernel(const Kernel& kernel, const std::string& types);

  std::string text_;
  std::map<std::string, std::string> names_;  // by the text after the name
  std::map<OpKind, int> counts_;
  Bytes stack_ = 0;
};

/// Whether the node has to be widened.
bool IsWidened(const Graph& graph, const Node& node);

/// Elements of `real` of a node's workspace, copies included.
int64_t ScratchOf(const Graph& graph, const Node& node);

/// Writes the body of `outer`, a node that is widened: copies, a call of `name`, the
/// function of `inner`, and copies back.
void WriteWidened(Kernel& outer, const Kernel& inner, const std::string& name);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_KERNEL_SET_H_
