#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "compile/file_parts.h"
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

// The copies follow the workspace of the kernel itself.
int64_t OwnScratch(const Kernel& kernel) {
  const COp op = OpInC(kernel.op());
  return op.scratch == nullptr ? 0 : op.scratch(kernel);
}

// Whether the node has to be widened.
bool IsWidened(const Graph& graph, const Node& node) {
  if (OpInC(node.op).takes_16_bits) return false;
  for (const auto* const ids : {&node.inputs, &node.results}) {
    for (const ValueId id : *ids) {
      if (Is16Bits(graph.value(id).type.dtype)) return true;
    }
  }
  return false;
}

// Writes the body of `outer`, a node that is widened: copies, a call of `name`, the
// function of `inner`, and copies back.
void WriteWidened(Kernel& outer, const Kernel& inner, const std::string& name) {
  int64_t used = OwnScratch(inner);
  std::map<std::string, std::string> arguments;  // by the parameter of `inner`
  arguments[std::string(kScratch)] = kScratch;
  const auto place = [&](const Tensor& tensor) {
    const Tensor copy(StrCat("(", kScratch, " + ", used, ")"),
                      {DType::kF32, tensor.shape()},
                      ContiguousStrides(tensor.shape()));
    arguments[tensor.name()] = StrCat(kScratch, " + ", used);
    used += tensor.size();
    return copy;
  };
  const auto copy = [&](const Tensor& from, const Tensor& to) {
    const std::array both = {&from, &to};
    outer.ForElements(both, [&](std::span<const Expr> at) {
      outer.Store(to, at[1], outer.Load(from, at[0]));
    });
  };
  const std::vector<std::string> parameters = inner.UsedParameters();
  const auto is_used = [&](const Tensor& tensor) {
    return std::ranges::find(parameters, tensor.name()) != parameters.end();
  };
  for (size_t i = 0; i < outer.num_inputs(); ++i) {
    if (!is_used(outer.in(i))) continue;
    arguments[outer.in(i).name()] = outer.in(i).name();
    if (Is16Bits(outer.in(i).dtype())) copy(outer.in(i), place(outer.in(i)));
  }
  std::vector<std::pair<Tensor, const Tensor*>> results;
  for (size_t r = 0; r < outer.num_outputs(); ++r) {
    if (!is_used(outer.out(r))) continue;
    arguments[outer.out(r).name()] = outer.out(r).name();
    if (!Is16Bits(outer.out(r).dtype())) continue;
    results.emplace_back(place(outer.out(r)), &outer.out(r));
  }
  std::string list;
  for (const std::string& parameter : parameters) {
    list += (list.empty() ? "" : ", ") + arguments.at(parameter);
  }
  outer.Call(StrCat(name, "(", list, ")"), inner.can_fail());
  for (const auto& [from, to] : results) copy(from, *to);
}

}  // namespace

KernelCall KernelSet::Add(const Graph& graph, const Node& node,
                          const Layouts& layouts) {
  const std::string types = TypesOf(graph, node);
  const bool is_widened = IsWidened(graph, node);
  Kernel kernel(graph, node, &layouts,
                {.simd = simd_, .is_widened = is_widened});
  OpInC(node.op).write(kernel);
  KernelCall call = AddKernel(kernel, types);
  if (!is_widened) return call;
  Kernel outer(graph, node, &layouts, {.simd = simd_});
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
    text_ += StrCat("/* ", types, " */\nKERNEL ",
                    call.can_fail ? "int " : "void ", at->second, rest, "\n");
    stack_ = std::max(stack_, kernel.stack());
  }
  call.name = at->second;
  return call;
}

int64_t ScratchOf(const Graph& graph, const Node& node, int simd) {
  const bool is_widened = IsWidened(graph, node);
  int64_t elements = OwnScratch(
      Kernel(graph, node, nullptr, {.simd = simd, .is_widened = is_widened}));
  if (!is_widened) return elements;
  for (const auto* const ids : {&node.inputs, &node.results}) {
    for (const ValueId id : *ids) {
      const TensorType& type = graph.value(id).type;
      if (Is16Bits(type.dtype)) elements += type.shape.num_elements();
    }
  }
  return elements;
}

}  // namespace stowage::compile
