#include "compile/kernel_set.h"

#include <algorithm>

#include "compile/ops.h"

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
  Kernel kernel(graph, node, &layouts);
  OpInC(node.op).write(kernel);
  KernelCall call{.name = "",
                  .parameters = kernel.UsedParameters(),
                  .can_fail = kernel.can_fail(),
                  .real = kernel.real()};
  const std::string parameters = kernel.Parameters();
  const std::string rest = StrCat("(", parameters.empty() ? "void" : parameters,
                                  ") {\n", kernel.Body(), "}\n");
  auto [at, is_new] = names_.try_emplace(StrCat(OpName(node.op), rest));
  if (is_new) {
    at->second = StrCat(OpName(node.op), "_", ++counts_[node.op]);
    text_ += StrCat("/* ", TypesOf(graph, node), " */\nstatic ",
                    call.can_fail ? "int " : "void ", at->second, rest, "\n");
    stack_ = std::max(stack_, kernel.stack());
  }
  call.name = at->second;
  return call;
}

}  // namespace stowage::compile
