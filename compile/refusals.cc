#include "compile/refusals.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/strings.h"
#include "compile/ops.h"
#include "ir/bodies.h"
#include "ir/op_def.h"

namespace stowage::compile {
namespace {

// "" if the node can be written.
std::string Refusal(const Node& node) {
  if (GetOpDef(node.op).is_view() || !BodiesOf(node).empty()) return "";
  const COp op = OpInC(node.op);
  if (op.write == nullptr) return std::string(OpName(node.op));
  return "";
}

class Refusals {
 public:
  explicit Refusals(const std::map<std::string, std::string>& contents)
      : contents_(contents) {}

  void AddGraph(const Graph& graph) {
    for (const ValueInfo& value : graph.values()) {
      const bool starts =
          value.role == Role::kParam || value.role == Role::kState;
      if (contents_.contains(value.name)) continue;
      if (starts && value.init.kind == Init::Kind::kOrthogonal) {
        Add("orthogonal initial values", value.name);
      }
    }
    for (const Node& node : graph.nodes()) {
      const std::string refusal = Refusal(node);
      if (!refusal.empty()) {
        Add(refusal,
            node.results.empty() ? "" : graph.value(node.results.front()).name);
      }
      for (const auto& body : BodiesOf(node)) AddGraph(*body);
    }
  }

  std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    for (const Kind& kind : kinds_) {
      texts.push_back(StrCat(kind.text, " (", kind.count,
                             kind.count == 1 ? ": " : ", the first is ",
                             Quoted(kind.first), ")"));
    }
    return texts;
  }

 private:
  struct Kind {
    std::string text, first;
    int count = 0;
  };

  void Add(const std::string& text, const std::string& name) {
    auto at = std::ranges::find(kinds_, text, &Kind::text);
    if (at == kinds_.end()) at = kinds_.insert(at, {text, name});
    ++at->count;
  }

  const std::map<std::string, std::string>& contents_;
  std::vector<Kind> kinds_;
};

}  // namespace

std::vector<std::string> RefusalsOf(
    const Graph& graph, const std::map<std::string, std::string>& contents) {
  Refusals refusals(contents);
  refusals.AddGraph(graph);
  return refusals.Texts();
}

}  // namespace stowage::compile
