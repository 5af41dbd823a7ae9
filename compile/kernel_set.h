#ifndef STOWAGE_COMPILE_KERNEL_SET_H_
#define STOWAGE_COMPILE_KERNEL_SET_H_

// The kernels of a file: nodes whose functions have the same text share one.
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
  /// The most that one needs of the stack for its arrays.
  Bytes stack() const { return stack_; }

 private:
  KernelCall AddKernel(const Kernel& kernel, const std::string& types);

  std::string text_;
  std::map<std::string, std::string> names_;  // by what follows the name
  std::map<OpKind, int> counts_;
  Bytes stack_ = 0;
};

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_KERNEL_SET_H_
