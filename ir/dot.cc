#include "ir/dot.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/op_def.h"

namespace stowage {
namespace {

// `text` in double quotes; newlines become Graphviz's line breaks.
std::string Label(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + '"';
}

std::string_view Colour(Phase phase) {
  static constexpr std::array<std::string_view, 3> kColours = {
      "#cfe2f3", "#fce5cd", "#d9ead3"};
  return kColours[static_cast<size_t>(phase)];
}

// Writes a graph's nodes and edges; `prefix` tells its names from those of others.
class DotWriter {
 public:
  explicit DotWriter(const Graph& graph, std::string prefix = {})
      : graph_(graph), prefix_(std::move(prefix)) {}

  std::string Write() const {
    std::string out;
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      if (graph_.value(id).is_leaf()) out += Leaf(id);
    }
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) out += NodeText(id);
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const GraphOutput& output = graph_.outputs()[i];
      const std::string name = StrCat(prefix_, "o", i);
      out += StrCat("  ", name, " [shape=plaintext, label=", Label(output.name),
                    "];\n", Edge(output.value, name));
    }
    return out;
  }

 private:
  std::string Leaf(ValueId id) const {
    const ValueInfo& value = graph_.value(id);
    return StrCat("  ", prefix_, "v", id, " [shape=ellipse, label=",
                  Label(StrCat(value.on_host ? "host " : "",
                               RoleName(value.role), "\n", value.name)),
                  "];\n");
  }

  // A node, what it reads, and its bodies in boxes of their own.
  std::string NodeText(NodeId id) const {
    const Node& node = graph_.node(id);
    const std::string name = StrCat(prefix_, "n", id);
    const std::string_view style =
        GetOpDef(node.op).is_view() ? "filled,dashed" : "filled";
    std::string out = StrCat(
        "  ", name, " [shape=box, style=\"", style, "\", fillcolor=\"",
        Colour(node.phase), "\", label=",
        Label(StrCat(id, ": ", OpName(node.op), "\n", graph_.Describe(id))),
        "];\n");
    for (const ValueId input : node.inputs) out += Edge(input, name);
    int count = 0;
    for (const auto& body : BodiesOf(node)) {
      const std::string box = StrCat(name, "b", count++);
      out += StrCat("  subgraph cluster_", box,
                    " {\n  label=", Label(body->name()), ";\n",
                    DotWriter(*body, box).Write(), "  }\n");
    }
    return out;
  }

  std::string Edge(ValueId id, const std::string& to) const {
    const ValueInfo& value = graph_.value(id);
    const std::string from =
        value.is_leaf() ? StrCat("v", id) : StrCat("n", value.producer);
    return StrCat("  ", prefix_, from, " -> ", to, " [label=",
                  Label(StrCat(value.name, ": ", value.type.ToString())),
                  "];\n");
  }

  const Graph& graph_;
  const std::string prefix_;
};

}  // namespace

std::string ToDot(const Graph& graph) {
  return StrCat("digraph ", Label(graph.name()), " {\n",
                "  node [fontname=\"Helvetica\"];\n",
                "  edge [fontname=\"Helvetica\", fontsize=9];\n",
                DotWriter(graph).Write(), "}\n");
}

}  // namespace stowage
