#ifndef STOWAGE_ONNX_SCOPE_H_
#define STOWAGE_ONNX_SCOPE_H_

// The names in force at a node: those of its graph, and of the graphs around it.
//
//   Scope inner{.outer = &scope, .opsets = scope.opsets, .body = &body};
//   Operand* x = inner.Find("x");  // of `body`, wherever it was made

#include <string>
#include <unordered_map>

#include "onnx/node.h"
#include "onnx/opsets.h"

namespace stowage::onnx {

struct Scope {
  const Scope* outer = nullptr;
  const Opsets* opsets = nullptr;
  bool is_model = false;  // of the model's own graph
  /// The body that the names are of, where it begins with this scope.
  Body* body = nullptr;
  std::unordered_map<std::string, Operand*> names = {};

  /// What a name stands for; null where nothing before has made it.
  Operand* Find(const std::string& name) const {
    const auto found = names.find(name);
    if (found != names.end()) return found->second;
    Operand* const outside = outer ? outer->Find(name) : nullptr;
    return outside && body ? body->Capture(outside) : outside;
  }
};

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_SCOPE_H_
