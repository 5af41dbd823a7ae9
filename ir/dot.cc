#include "ir/dot.h"

#include <array>
#include <string_view>

#include "base/strings.h"
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

// Where the edges of a value start.
std::string Source(const Graph& graph, ValueId id) {
  const ValueInfo& value = graph.value(id);
  return value.is_leaf() ? StrCat("v", id) : StrCat("n", value.producer);
}

std::string Edge(const Graph& graph, ValueId id, const std::string& to) {
  const ValueInfo& value = graph.value(id);
  return StrCat("  ", Source(graph, id), " -> ", to, " [label=",
                Label(StrCat(value.name, ": ", value.type.ToString())), "];\n");
}

}  // namespace

std::string ToDot(const Graph& graph) {
  std::string out = StrCat("digraph ", Label(graph.name()), " {\n",
                           "  node [fontname=\"Helvetica\"];\n",
                           "  edge [fontname=\"Helvetica\", fontsize=9];\n");
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& value = graph.value(id);
    if (!value.is_leaf()) continue;
    out += StrCat("  v", id, " [shape=ellipse, label=",
                  Label(StrCat(value.on_host ? "host " : "",
                               RoleName(value.role), "\n", value.name)),
                  "];\n");
  }
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const std::string_view style =
        GetOpDef(node.op).is_view() ? "filled,dashed" : "filled";
    out += StrCat(
        "  n", id, " [shape=box, style=\"", style, "\", fillcolor=\"",
        Colour(node.phase), "\", label=",
        Label(StrCat(id, ": ", OpName(node.op), "\n", graph.Describe(id))),
        "];\n");
    for (const ValueId input : node.inputs) {
      out += Edge(graph, input, StrCat("n", id));
    }
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const GraphOutput& output = graph.outputs()[i];
    out += StrCat("  o", i, " [shape=plaintext, label=", Label(output.name),
                  "];\n", Edge(graph, output.value, StrCat("o", i)));
  }
  return out + "}\n";
}

}  // namespace stowage
