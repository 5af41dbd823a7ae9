#include "compile/kernel_set.h"

#include <algorithm>

#include "compile/ops.h"
#include "compile/widened.h"

namespace stowage::compile {
namespace {

// "matmul: f32(2, 3), f32(3, 4) -> f32(2, 4)"
std::string TypesOf(const Graph& graph, const Node& node) {
  std::string text = StrCat(OpName(node.op), ":");
  const auto add = [&](const std::vector<ValueId>& ids) {
    const char* separator = " ";
    for (const ValueId id : ids) {
      text += separator + graph.value(id).type.ToString();
      separator = ", ";
    }
  };
  add(node.inputs);
  text += " ->";
  add(node.results);
  return text;
}

}  // namespace

KernelCall KernelSet::Add(const Graph& graph, const Node& node,
                          const Layouts& layouts) {
  const std::string types = TypesOf(graph, node);
  const bool is_widened = IsWidened(graph, node);
  Kernel kernel(graph, node, &layouts, is_widened);
  OpInC(node.op).write(kernel);
  KernelCall call = AddKernel(kernel, types);
  if (!is_widened) return call;
  Kernel outer(graph, node, &layouts);
  WriteWidened(outer, kernel, call.name);
  return AddKernel(outer, types);
}

KernelCall KernelSet::AddKernel(const Kernel& kernel,
                                const std::string& types) {
  KernelCall call{.name = "",
                  .parameters = kernel.UsedParameters(),
                  .can_fail = kernel.can_fail(),
                  .real = kernel.real()};
  const std::string parameters = kernel.Parameters();
  const std::string rest = StrCat("(", parameters.empty() ? "void" : parameters,
                                  ") {\n", kernel.Body(), "}\n");
  const OpKind op = kernel.op();
  auto [at, is_new] = names_.try_emplace(StrCat(OpName(op), rest));
  if (is_new) {
    at->second = StrCat(OpName(op), "_", ++counts_[op]);
    text_ += StrCat("/* ", types, " */\nstatic ",
                    call.can_fail ? "int " : "void ", at->second, rest, "\n");
    stack_ = std::max(stack_, kernel.stack());
  }
  call.name = at->second;
  return call;
}

}  // namespace stowage::compile
