#include "ir/einsum.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/shape.h"

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

namespace {

bool Has(std::string_view labels, char label) {
  return labels.find(label) != std::string_view::npos;
}

// The labels of `of` that `f` takes, in their order.
template <typename F>
std::string Chosen(std::string_view of, F&& f) {
  std::string chosen;
  std::ranges::copy_if(of, std::back_inserter(chosen), f);
  return chosen;
}

// A tensor, and the letter of each of its axes.
struct Term {
  Value value;
  std::string labels;
};

class Contraction {
 public:
  Contraction(std::map<char, int64_t> sizes, SourceLoc loc)
      : sizes_(std::move(sizes)), loc_(loc) {}

  // Sums over the axes whose letters `kept` has not.
  Term Reduce(const Term& term, std::string_view kept) const {
    Axes axes;
    for (size_t i = 0; i < term.labels.size(); ++i) {
      if (!Has(kept, term.labels[i])) axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.empty()) return term;
    return {ReduceSum(term.value, axes, /*keep=*/false, loc_),
            Chosen(term.labels, [&](char c) { return Has(kept, c); })};
  }

  // The axes in the order of `labels`, which are the term's.
  Value InOrder(const Term& term, std::string_view labels) const {
    if (term.labels == labels) return term.value;
    Axes order;
    for (const char label : labels) {
      order.push_back(static_cast<int64_t>(term.labels.find(label)));
    }
    return Permute(term.value, order, loc_);
  }

  // One product, of which the letters in `kept` remain.
  Term Multiply(const Term& left, const Term& right,
                std::string_view kept) const {
    const Term a = Reduce(left, StrCat(right.labels, kept));
    const Term b = Reduce(right, StrCat(left.labels, kept));
    const auto both = [&](char c) { return Has(b.labels, c); };
    const std::string batch =
        Chosen(a.labels, [&](char c) { return both(c) && Has(kept, c); });
    const std::string summed =
        Chosen(a.labels, [&](char c) { return both(c) && !Has(kept, c); });
    const std::string rows = Chosen(a.labels, [&](char c) { return !both(c); });
    const std::string columns =
        Chosen(b.labels, [&](char c) { return !Has(a.labels, c); });
    const Value product = MatMul(
        Grouped(InOrder(a, StrCat(batch, rows, summed)), batch, rows, summed),
        Grouped(InOrder(b, StrCat(batch, summed, columns)), batch, summed,
                columns),
        /*transpose_a=*/false, /*transpose_b=*/false, loc_);
    const std::string labels = StrCat(batch, rows, columns);
    return {Reshape(product, ShapeOf(labels), loc_), labels};
  }

 private:
  int64_t Size(std::string_view labels) const {
    int64_t size = 1;
    for (const char label : labels) size *= sizes_.at(label);
    return size;
  }

  Shape ShapeOf(std::string_view labels) const {
    Shape shape;
    for (const char label : labels) shape.push_back(sizes_.at(label));
    return shape;
  }

  // (batch, rows, columns), or a single matrix where there is no batch.
  Value Grouped(Value x, std::string_view batch, std::string_view rows,
                std::string_view columns) const {
    Shape shape;
    if (!batch.empty()) shape.push_back(Size(batch));
    shape.push_back(Size(rows));
    shape.push_back(Size(columns));
    return Reshape(x, shape, loc_);
  }

  std::map<char, int64_t> sizes_;
  SourceLoc loc_;
};

std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

// What is wrong with letters that name the axes of one tensor; or nothing.
std::string WrongLabels(std::string_view labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(labels[i])) == 0) {
      return StrCat("has ", Quoted(labels.substr(i, 1)),
                    "; expected a letter for each axis, commas and one \"->\"");
    }
    if (Has(labels.substr(0, i), labels[i])) {
      return StrCat("has ", Quoted(labels.substr(i, 1)), " twice in ",
                    Quoted(labels), "; expected a letter for each axis");
    }
  }
  return "";
}

}  // namespace

Value Einsum(std::string_view equation, std::span<const Value> operands,
             SourceLoc loc) {
  if (operands.empty() || !std::ranges::all_of(operands, &Value::ok)) {
    return operands.empty() ? Value() : operands[0];
  }
  const auto fail = [&](const std::string& what) {
    return operands[0].builder()->Fail(
        StrCat("[einsum] ", Quoted(equation), " ", what), loc);
  };
  const size_t arrow = equation.find("->");
  if (arrow == std::string_view::npos) {
    return fail("has no \"->\"; expected the labels of the result after one");
  }
  const std::string result(equation.substr(arrow + 2));
  const std::vector<std::string> labels =
      SplitAtCommas(equation.substr(0, arrow));
  if (labels.size() != operands.size()) {
    return fail(StrCat("has labels for ", labels.size(), " operands and there ",
                       operands.size() == 1 ? "is " : "are ", operands.size()));
  }
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < labels.size(); ++i) {
    const Value x = operands[i];
    if (const std::string wrong = WrongLabels(labels[i]); !wrong.empty()) {
      return fail(wrong);
    }
    if (static_cast<int>(labels[i].size()) != x.rank()) {
      return fail(StrCat("has ", labels[i].size(), " labels for operand ", i,
                         ", which is ", x.type().ToString()));
    }
    for (int axis = 0; axis < x.rank(); ++axis) {
      const char label = labels[i][static_cast<size_t>(axis)];
      const auto [at, is_new] = sizes.emplace(label, x.dim(axis));
      if (!is_new && at->second != x.dim(axis)) {
        return fail(StrCat("has axes ", Quoted(std::string(1, label)), " of ",
                           at->second, " and ", x.dim(axis),
                           "; they must be equal"));
      }
    }
  }
  if (const std::string wrong = WrongLabels(result); !wrong.empty()) {
    return fail(wrong);
  }
  for (const char label : result) {
    if (!sizes.contains(label)) {
      return fail(StrCat("asks for ", Quoted(std::string(1, label)),
                         ", which no operand has"));
    }
  }

  const Contraction contraction(sizes, loc);
  Term term = {operands[0], labels[0]};
  for (size_t i = 1; i < labels.size(); ++i) {
    std::string kept = result;
    for (size_t k = i + 1; k < labels.size(); ++k) kept += labels[k];
    term = contraction.Multiply(term, {operands[i], labels[i]}, kept);
  }
  return contraction.InOrder(contraction.Reduce(term, result), result);
}

Value Einsum(std::string_view equation, std::initializer_list<Value> operands,
             SourceLoc loc) {
  return Einsum(equation, std::span(operands.begin(), operands.size()), loc);
}

}  // namespace stowage
