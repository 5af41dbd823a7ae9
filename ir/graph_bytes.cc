#include "ir/graph_bytes.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/byte_stream.h"
#include "base/bytes.h"
#include "base/parallel.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/verify.h"

namespace stowage {
namespace {

constexpr std::string_view kBytesMagic = "stowage-graph 2";
constexpr size_t kNumRoles = static_cast<size_t>(Role::kOutput) + 1;
constexpr size_t kNumInits = static_cast<size_t>(Init::Kind::kConstant) + 1;
constexpr size_t kNumPhases = static_cast<size_t>(Phase::kUpdate) + 1;
constexpr size_t kNumDTypes = kAllDTypes.size();
constexpr size_t kMaxLine = std::numeric_limits<int>::max();

// The code of an op that the program defines, followed by its name. The code of an op of
// the list is its number + 1; 0 is a leaf.
constexpr size_t kCustomOp = static_cast<size_t>(kNumOps) + 1;

// The kind of an attribute: its index in AttrValue.
constexpr size_t kNumAttrKinds = std::variant_size_v<AttrValue>;

// A table of byte strings that occur many times, with the number of each.
class Table {
 public:
  // Writes the number of `bytes` and, at their first use, `bytes`.
  void Put(std::string bytes, ByteWriter* out) {
    const size_t count = numbers_.size();
    const auto [entry, is_new] = numbers_.try_emplace(std::move(bytes), count);
    out->Unsigned(entry->second);
    if (is_new) out->Text(entry->first);
  }

 private:
  std::unordered_map<std::string, size_t> numbers_;
};

// --- Writing ----------------------------------------------------------------

class GraphWriter {
 public:
  std::string Write(const Graph& graph) {
    out_.Text(kBytesMagic);
    out_.Interned(graph.name());
    out_.Count(graph.values().size());
    for (const ValueInfo& value : graph.values()) {
      if (value.is_leaf()) {
        WriteLeaf(value);
      } else if (value.result == 0) {
        WriteNode(graph, graph.node(value.producer));
      }
    }
    out_.Count(graph.outputs().size());
    for (const GraphOutput& output : graph.outputs()) {
      out_.Interned(output.name);
      out_.Unsigned(Index(output.value));
    }
    return std::move(out_).bytes();
  }

 private:
  void WriteValue(const ValueInfo& value) {
    out_.Interned(value.name);
    out_.Unsigned(static_cast<size_t>(value.role) * 2 + value.on_host);
    ByteWriter type;
    type.Unsigned(static_cast<size_t>(value.type.dtype));
    type.Count(Index(value.type.shape.rank()));
    for (const int64_t dim : value.type.shape) type.Signed(dim);
    types_.Put(std::move(type).bytes(), &out_);
    out_.Unsigned(Index(std::max(value.source.line, 0)));
    if (value.source.is_known()) out_.Interned(value.source.file);
  }

  void WriteLeaf(const ValueInfo& leaf) {
    out_.Unsigned(0);  // of a node, its op + 1
    WriteValue(leaf);
    const bool has_scale = std::bit_cast<uint64_t>(leaf.init.scale) != 0;
    out_.Unsigned(static_cast<size_t>(leaf.init.kind) * 2 + has_scale);
    if (has_scale) out_.Real(leaf.init.scale);
  }

  void WriteNode(const Graph& graph, const Node& node) {
    if (CustomIndex(node.op)) {
      // By name: kinds depend on the order in which a program defines ops.
      out_.Unsigned(kCustomOp);
      out_.Interned(OpName(node.op));
    } else {
      out_.Unsigned(static_cast<size_t>(node.op) + 1);
    }
    out_.Unsigned(static_cast<size_t>(node.phase));
    out_.Interned(node.origin);
    attrs_.Put(AttrsBytes(node.attrs), &out_);
    out_.Count(node.inputs.size());
    for (const ValueId input : node.inputs) {
      out_.Unsigned(Index(node.results[0] - input));
    }
    out_.Count(node.results.size());
    for (const ValueId result : node.results) WriteValue(graph.value(result));
  }

  static std::string AttrsBytes(const Attrs& attrs) {
    ByteWriter out;
    out.Count(attrs.entries().size());
    for (const auto& [name, value] : attrs.entries()) {
      out.Text(name);
      out.Unsigned(value.index());
      if (const auto* integer = std::get_if<int64_t>(&value)) {
        out.Signed(*integer);
      } else if (const auto* real = std::get_if<double>(&value)) {
        out.Real(*real);
      } else if (const auto* dtype = std::get_if<DType>(&value)) {
        out.Unsigned(static_cast<size_t>(*dtype));
      } else if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
        out.Count(list->size());
        for (const int64_t entry : *list) out.Signed(entry);
      } else if (const auto* bytes = std::get_if<std::string>(&value)) {
        out.Text(*bytes);
      } else {
        const auto& graphs = std::get<SubGraphs>(value);
        out.Count(graphs.size());
        for (const auto& graph : graphs) out.Text(ToBytes(*graph));
      }
    }
    return std::move(out).bytes();
  }

  ByteWriter out_;
  Table types_;
  Table attrs_;
};

// --- Reading ----------------------------------------------------------------

// Reads a type's, or a node's attributes', own bytes.
TensorType ReadType(ByteReader* in) {
  TensorType type;
  type.dtype = static_cast<DType>(in->Below(kNumDTypes, "an element type"));
  const size_t rank = in->Below(kMaxRank + 1, "a rank");
  for (size_t i = 0; i < rank; ++i) type.shape.push_back(in->Signed());
  return type;
}

// `depth`: the nesting depth of the current graph.
SubGraphs ReadGraphs(ByteReader* in, int depth) {
  SubGraphs graphs;
  const size_t count = in->Count("the number of bodies");
  if (depth == kMaxBodyDepth) in->Fail("bodies stand too deep in one another");
  for (size_t i = 0; i < count && in->ok(); ++i) {
    Result<Graph> graph = GraphFromBytes(in->Text(), depth + 1);
    if (!graph.ok()) {
      in->Fail(graph.error().message);
    } else {
      graphs.push_back(std::make_shared<const Graph>(*std::move(graph)));
    }
  }
  return graphs;
}

AttrValue ReadAttrValue(ByteReader* in, int depth) {
  static_assert(
      std::is_same_v<std::variant_alternative_t<0, AttrValue>, int64_t>);
  static_assert(
      std::is_same_v<std::variant_alternative_t<1, AttrValue>, double>);
  static_assert(
      std::is_same_v<std::variant_alternative_t<2, AttrValue>, DType>);
  static_assert(std::is_same_v<std::variant_alternative_t<3, AttrValue>,
                               std::vector<int64_t>>);
  static_assert(
      std::is_same_v<std::variant_alternative_t<4, AttrValue>, std::string>);
  switch (in->Below(kNumAttrKinds, "the kind of an attribute")) {
    case 0:
      return in->Signed();
    case 1:
      return in->Real();
    case 2:
      return static_cast<DType>(in->Below(kNumDTypes, "an element type"));
    case 3: {
      std::vector<int64_t> list(in->Count("the length of a list"));
      for (int64_t& entry : list) entry = in->Signed();
      return list;
    }
    case 4:
      return std::string(in->Text());
    default:
      return ReadGraphs(in, depth);
  }
}

Attrs ReadAttrs(ByteReader* in, int depth) {
  Attrs attrs;
  const size_t count = in->Count("the number of attributes");
  for (size_t i = 0; i < count && in->ok(); ++i) {
    const std::string_view name = in->Text();
    if (attrs.Find(name) != nullptr) in->Fail("an attribute comes twice");
    attrs.Set(name, ReadAttrValue(in, depth));
  }
  return attrs;
}

struct GraphParts {
  std::string name;
  std::vector<ValueInfo> values;
  std::vector<Node> nodes;
  std::vector<GraphOutput> outputs;
};

class GraphReader {
 public:
  GraphReader(std::string_view bytes, int depth)
      : in_(bytes, kRoom), depth_(depth) {}

  Result<GraphParts> Read() {
    if (in_.Text() != kBytesMagic) in_.Fail("a graph opens otherwise");
    parts_.name = in_.Interned();
    const size_t count = in_.Count("the number of values");
    parts_.values.reserve(count);
    parts_.nodes.reserve(count);  // or fewer
    while (parts_.values.size() < count && in_.ok()) {
      const size_t op = in_.Below(kCustomOp + 1, "an op");
      if (op == 0) {
        ReadLeaf();
      } else if (op == kCustomOp) {
        const std::string_view name = in_.Interned();
        const std::optional<OpKind> custom = FindOp(name);
        if (!custom) in_.Fail(StrCat("there is no op ", Quoted(name)));
        ReadNode(custom.value_or(OpKind::kCopy), count);
      } else {
        ReadNode(static_cast<OpKind>(op - 1), count);
      }
    }
    const size_t outputs = in_.Count("the number of outputs");
    for (size_t i = 0; i < outputs && in_.ok(); ++i) {
      const std::string_view name = in_.Interned();
      const size_t value = in_.Below(count, "an output's value");
      parts_.outputs.push_back(
          {std::string(name), static_cast<ValueId>(value)});
    }
    if (in_.ok() && !in_.AtEnd()) in_.Fail("more follows the graph");
    STOWAGE_RETURN_IF_ERROR(in_.status());
    return std::move(parts_);
  }

 private:
  static constexpr std::string_view kRoom = "graph bytes";

  // The next item of a table whose entries are written at their first use.
  template <typename T, typename ReadFn>
  const T& Get(std::vector<T>* table, ReadFn read) {
    const size_t number = in_.Below(table->size() + 1, "a number in a table");
    if (number == table->size()) {
      ByteReader own(in_.Text(), kRoom);
      table->push_back(read(&own));
      if (!own.ok()) in_.Fail(own.status().error().message);
      if (own.ok() && !own.AtEnd())
        in_.Fail("more follows a type or attributes");
    }
    return (*table)[number];
  }

  ValueInfo& ReadValue() {
    ValueInfo& value = parts_.values.emplace_back();
    value.name = in_.Interned();
    const size_t role = in_.Below(kNumRoles * 2, "a role");
    value.role = static_cast<Role>(role / 2);
    value.on_host = role % 2 != 0;
    value.type = Get(&types_, ReadType);
    const size_t line = in_.Below(kMaxLine + 1, "a source line");
    if (line > 0) {
      value.source = KeptSourceLoc(in_.Interned(), static_cast<int>(line));
    }
    return value;
  }

  void ReadLeaf() {
    ValueInfo& leaf = ReadValue();
    const size_t init = in_.Below(kNumInits * 2, "an init");
    leaf.init.kind = static_cast<Init::Kind>(init / 2);
    if (init % 2 != 0) leaf.init.scale = in_.Real();
  }

  void ReadNode(OpKind op, size_t most_values) {
    const size_t first = parts_.values.size();
    const auto id = static_cast<NodeId>(parts_.nodes.size());
    Node& node = parts_.nodes.emplace_back();
    node.op = op;
    node.phase = static_cast<Phase>(in_.Below(kNumPhases, "a phase"));
    node.origin = in_.Interned();
    node.attrs =
        Get(&attrs_, [&](ByteReader* in) { return ReadAttrs(in, depth_); });
    node.inputs.resize(in_.Count("the number of operands"));
    for (ValueId& input : node.inputs) {
      const size_t back = in_.Below(first + 1, "the distance of an operand");
      input = static_cast<ValueId>(first - back);
    }
    const size_t results =
        in_.Below(most_values - first + 1, "the number of results");
    if (results == 0) in_.Fail("a node has no results");
    node.results.reserve(results);
    for (size_t r = 0; r < results && in_.ok(); ++r) {
      node.results.push_back(static_cast<ValueId>(first + r));
      ValueInfo& result = ReadValue();
      result.producer = id;
      result.result = static_cast<int>(r);
    }
  }

  ByteReader in_;
  const int depth_;
  GraphParts parts_;
  std::vector<TensorType> types_;
  std::vector<Attrs> attrs_;
};

}  // namespace

std::string ToBytes(const Graph& graph) { return GraphWriter().Write(graph); }

Result<Graph> GraphFromBytes(std::string_view bytes, int depth) {
  STOWAGE_ASSIGN_OR_RETURN(GraphParts parts, GraphReader(bytes, depth).Read());
  Graph graph;
  Graph::Parts& own = graph.Own();
  own.name = std::move(parts.name);
  own.values = std::move(parts.values);
  own.nodes = std::move(parts.nodes);
  own.outputs = std::move(parts.outputs);
  Status names, nodes;
  ForEachInParallel(2, [&](size_t half) {
    if (half == 1) {
      nodes = VerifyNodes(graph);
      return;
    }
    own.by_name.reserve(own.values.size() + own.outputs.size());
    for (ValueId id = 0; id < graph.num_values(); ++id) {
      own.by_name.emplace(graph.value(id).name, id);
    }
    for (const GraphOutput& output : own.outputs) {
      own.by_name.emplace(output.name, output.value);
    }
    names = VerifyNames(graph);
  });
  STOWAGE_RETURN_IF_ERROR(names);
  STOWAGE_RETURN_IF_ERROR(nodes);
  return graph;
}

}  // namespace stowage
