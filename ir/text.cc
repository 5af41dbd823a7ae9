#include "ir/text.h"

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/text_scanner.h"

namespace stowage {
namespace {

constexpr std::string_view kTextMagic = "stowage-ir";
constexpr std::string_view kVersion = "1";
constexpr std::string_view kHostParam = "host_param";
constexpr std::string_view kHostState = "host_state";

// --- Printing ---------------------------------------------------------------

std::string InitText(Init init) {
  switch (init.kind) {
    case Init::Kind::kZeros:
      return "zeros";
    case Init::Kind::kOnes:
      return "ones";
    case Init::Kind::kNormal:
      return StrCat("normal(", FloatText(init.scale), ")");
    case Init::Kind::kUniform:
      return StrCat("uniform(", FloatText(init.scale), ")");
    case Init::Kind::kTruncatedNormal:
      return StrCat("truncated_normal(", FloatText(init.scale), ")");
    case Init::Kind::kOrthogonal:
      return StrCat("orthogonal(", FloatText(init.scale), ")");
    case Init::Kind::kConstant:
      return StrCat("constant(", FloatText(init.scale), ")");
  }
  return "";
}

// `graph "name" { ... }`, the closing brace `indent` levels in.
std::string GraphText(const Graph& graph, int indent);

struct AttrText {
  int indent;  // levels, of the line with the attributes
  std::string operator()(int64_t value) const { return StrCat(value); }
  std::string operator()(double value) const { return FloatText(value); }
  std::string operator()(DType value) const {
    return std::string(DTypeName(value));
  }
  std::string operator()(const std::vector<int64_t>& values) const {
    std::string out = "[";
    for (const int64_t value : values) {
      if (out.size() > 1) out += ", ";
      out += StrCat(value);
    }
    return out + "]";
  }
  std::string operator()(const std::string& bytes) const {
    return BytesText(bytes);
  }
  std::string operator()(const SubGraphs& graphs) const {
    std::string out = "(";
    for (const auto& graph : graphs) {
      if (out.size() > 1) out += ", ";
      out += GraphText(*graph, indent);
    }
    return out + ")";
  }
};

std::string AttrsTextAt(const Attrs& attrs, int indent) {
  if (attrs.entries().empty()) return "";
  std::string out = " {";
  for (const auto& [name, value] : attrs.entries()) {
    if (out.size() > 2) out += ", ";
    out += StrCat(NameText(name), "=", std::visit(AttrText{indent}, value));
  }
  return out + "}";
}

// The default role of result `r` of `node`.
Role DefaultRole(const Graph& graph, const Node& node, size_t r,
                 const std::vector<bool>& is_output) {
  const int updates = GetOpDef(node.op).updates;
  if (static_cast<int>(r) < updates) return graph.value(node.inputs[r]).role;
  if (node.op == OpKind::kConstant) return Role::kConstant;
  return is_output[static_cast<size_t>(node.results[r])] ? Role::kOutput
                                                         : Role::kActivation;
}

std::string NodeText(const Graph& graph, const Node& node,
                     const std::vector<bool>& is_output, int indent) {
  std::string out;
  for (size_t r = 0; r < node.results.size(); ++r) {
    const ValueInfo& result = graph.value(node.results[r]);
    out += StrCat(r == 0 ? "" : ", ", NameText(result.name), ": ",
                  result.type.ToString());
    if (result.role != DefaultRole(graph, node, r, is_output)) {
      out += StrCat(" ", RoleName(result.role));
    }
  }
  out += StrCat(" = ", OpName(node.op), "(");
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    out +=
        StrCat(i == 0 ? "" : ", ", NameText(graph.value(node.inputs[i]).name));
  }
  out += StrCat(")", AttrsTextAt(node.attrs, indent));
  if (node.phase != Phase::kForward || !node.origin.empty()) {
    out += StrCat(" @", PhaseName(node.phase));
    if (!node.origin.empty()) {
      out += StrCat("(", QuotedText(node.origin), ")");
    }
  }
  return out;
}

std::string LeafText(const ValueInfo& leaf) {
  std::string out =
      StrCat(NameText(leaf.name), ": ", leaf.type.ToString(), " = ",
             !leaf.on_host               ? RoleName(leaf.role)
             : leaf.role == Role::kParam ? kHostParam
                                         : kHostState);
  if (leaf.init.kind != Init::Kind::kZeros) {
    out += StrCat(" {init=", InitText(leaf.init), "}");
  }
  return out;
}

std::string GraphText(const Graph& graph, int indent) {
  std::vector<bool> is_output(static_cast<size_t>(graph.num_values()));
  for (const GraphOutput& output : graph.outputs()) {
    is_output[static_cast<size_t>(output.value)] = true;
  }
  const std::string margin(static_cast<size_t>(2 * indent), ' ');
  std::string out = StrCat("graph ", QuotedText(graph.name()), " {\n");
  for (const ValueInfo& value : graph.values()) {
    if (value.is_leaf()) {
      out += StrCat(margin, "  ", LeafText(value), "\n");
    } else if (value.result == 0) {
      out += StrCat(
          margin, "  ",
          NodeText(graph, graph.node(value.producer), is_output, indent + 1),
          "\n");
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    out += StrCat(margin, "  output ", QuotedText(output.name), " = ",
                  NameText(graph.value(output.value).name), "\n");
  }
  return StrCat(out, margin, "}");
}

// --- Graphviz ---------------------------------------------------------------

// `text` in double quotes; newlines become Graphviz's line breaks.
std::string DotLabel(std::string_view text) {
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

std::string_view PhaseColour(Phase phase) {
  static constexpr std::array<std::string_view, 3> kColours = {
      "#cfe2f3", "#fce5cd", "#d9ead3"};
  return kColours[static_cast<size_t>(phase)];
}

// Writes a graph's nodes and edges; `prefix` makes its names differ from those of others.
class DotWriter {
 public:
  explicit DotWriter(const Graph& graph, std::string prefix = {})
      : graph_(graph), prefix_(std::move(prefix)) {}

  std::string Write() const {
    std::string out;
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      if (graph_.value(id).is_leaf()) out += Leaf(id);
    }
    for (NodeId id = 0; id < graph_.num_nodes(); ++id)
      out += NodeStatements(id);
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const GraphOutput& output = graph_.outputs()[i];
      const std::string name = StrCat(prefix_, "o", i);
      out +=
          StrCat("  ", name, " [shape=plaintext, label=", DotLabel(output.name),
                 "];\n", Edge(output.value, name));
    }
    return out;
  }

 private:
  std::string Leaf(ValueId id) const {
    const ValueInfo& value = graph_.value(id);
    return StrCat("  ", prefix_, "v", id, " [shape=ellipse, label=",
                  DotLabel(StrCat(value.on_host ? "host " : "",
                                  RoleName(value.role), "\n", value.name)),
                  "];\n");
  }

  // A node, its operands and its bodies, each in a box.
  std::string NodeStatements(NodeId id) const {
    const Node& node = graph_.node(id);
    const std::string name = StrCat(prefix_, "n", id);
    const std::string_view style =
        GetOpDef(node.op).is_view() ? "filled,dashed" : "filled";
    std::string out = StrCat(
        "  ", name, " [shape=box, style=\"", style, "\", fillcolor=\"",
        PhaseColour(node.phase), "\", label=",
        DotLabel(StrCat(id, ": ", OpName(node.op), "\n", graph_.Describe(id))),
        "];\n");
    for (const ValueId input : node.inputs) out += Edge(input, name);
    int count = 0;
    for (const auto& body : BodiesOf(node)) {
      const std::string box = StrCat(name, "b", count++);
      out += StrCat("  subgraph cluster_", box,
                    " {\n  label=", DotLabel(body->name()), ";\n",
                    DotWriter(*body, box).Write(), "  }\n");
    }
    return out;
  }

  std::string Edge(ValueId id, const std::string& to) const {
    const ValueInfo& value = graph_.value(id);
    const std::string from =
        value.is_leaf() ? StrCat("v", id) : StrCat("n", value.producer);
    return StrCat("  ", prefix_, from, " -> ", to, " [label=",
                  DotLabel(StrCat(value.name, ": ", value.type.ToString())),
                  "];\n");
  }

  const Graph& graph_;
  const std::string prefix_;
};

// --- Parsing ----------------------------------------------------------------

// Recursive descent over the text, one statement a line.
class Parser {
 public:
  explicit Parser(std::string_view text) : scan_(text) {}

  Result<Graph> Parse();

 private:
  using Name = TextScanner::Name;
  using Roles = std::vector<std::pair<Value, Role>>;
  struct ResultDecl {
    Name name;
    TensorType type;
    size_t type_pos = 0;
    std::optional<Role> role;
  };

  Status ReadHeader();
  Result<Graph> ReadGraph();
  // Bodies between commas; the "(" has been read.
  Result<SubGraphs> ReadGraphs();
  Status ReadStatement(GraphBuilder* builder);
  Status ReadOutput(GraphBuilder* builder);
  Status ReadLeaf(GraphBuilder* builder, const ResultDecl& decl,
                  const Name& word);
  Status ReadNode(GraphBuilder* builder, const std::vector<ResultDecl>& decls,
                  const Name& word);
  Result<ResultDecl> ReadResultDecl(Name name);
  Result<TensorType> ReadType();
  // Integers between commas up to `close`, after the opening bracket.
  Result<std::vector<int64_t>> ReadInts(char close);
  Result<Init> ReadInit();
  Result<Attrs> ReadAttrs();
  Result<AttrValue> ReadAttrValue();
  Status ReadOrigin(GraphBuilder* builder);

  Result<Value> Lookup(GraphBuilder* builder, const Name& name) const;
  // The builder's error, if it has one, at `pos`.
  Status Check(const GraphBuilder& builder, size_t pos) const;

  TextScanner scan_;
  Roles roles_;    // that the text of the graph at hand states
  int depth_ = 0;  // of bodies
};

Result<TensorType> Parser::ReadType() {
  STOWAGE_ASSIGN_OR_RETURN(const Name name, scan_.ReadName("an element type"));
  const Result<DType> dtype = ParseDType(name.text);
  if (!dtype.ok() || name.quoted) {
    return scan_.Fail(name.pos,
                      StrCat(Quoted(name.text), " is not an element type"));
  }
  STOWAGE_RETURN_IF_ERROR(scan_.Expect('('));
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, ReadInts(')'));
  return TensorType{*dtype, Shape(dims)};
}

// Integers between commas up to `close`, after the opening bracket.
Result<std::vector<int64_t>> Parser::ReadInts(char close) {
  std::vector<int64_t> values;
  if (scan_.Accept(close)) return values;
  do {
    STOWAGE_ASSIGN_OR_RETURN(const int64_t value, scan_.ReadInt());
    values.push_back(value);
  } while (scan_.Accept(','));
  STOWAGE_RETURN_IF_ERROR(scan_.Expect(close));
  return values;
}

Result<Parser::ResultDecl> Parser::ReadResultDecl(Name name) {
  ResultDecl decl{
      .name = std::move(name), .type = {}, .type_pos = 0, .role = {}};
  STOWAGE_RETURN_IF_ERROR(scan_.Expect(':'));
  decl.type_pos = scan_.pos();
  STOWAGE_ASSIGN_OR_RETURN(decl.type, ReadType());
  if (scan_.AtLetter()) {
    STOWAGE_ASSIGN_OR_RETURN(const Name word, scan_.ReadName("a role"));
    decl.role = ParseRole(word.text);
    if (!decl.role) {
      return scan_.Fail(word.pos, StrCat(Quoted(word.text), " is not a role"));
    }
  }
  return decl;
}

Result<Init> Parser::ReadInit() {
  STOWAGE_RETURN_IF_ERROR(scan_.Expect('{'));
  STOWAGE_ASSIGN_OR_RETURN(const Name key, scan_.ReadName("init"));
  if (key.text != "init") {
    return scan_.Fail(key.pos, StrCat("unknown attribute ", Quoted(key.text),
                                      " of a leaf; there is only init"));
  }
  STOWAGE_RETURN_IF_ERROR(scan_.Expect('='));
  STOWAGE_ASSIGN_OR_RETURN(const Name kind, scan_.ReadName("a kind of init"));
  Init init;
  if (kind.text == "zeros") {
    init = Init::Zeros();
  } else if (kind.text == "ones") {
    init = Init::Ones();
  } else if (kind.text == "normal" || kind.text == "uniform" ||
             kind.text == "truncated_normal" || kind.text == "orthogonal" ||
             kind.text == "constant") {
    STOWAGE_RETURN_IF_ERROR(scan_.Expect('('));
    STOWAGE_ASSIGN_OR_RETURN(const double scale, scan_.ReadFloat());
    STOWAGE_RETURN_IF_ERROR(scan_.Expect(')'));
    init = kind.text == "normal"             ? Init::Normal(scale)
           : kind.text == "uniform"          ? Init::Uniform(scale)
           : kind.text == "truncated_normal" ? Init::TruncatedNormal(scale)
           : kind.text == "orthogonal"       ? Init::Orthogonal(scale)
                                             : Init::Constant(scale);
  } else {
    return scan_.Fail(kind.pos,
                      StrCat("unknown init ", Quoted(kind.text),
                             "; there are zeros, ones, normal(stddev), "
                             "uniform(bound), truncated_normal(stddev), "
                             "orthogonal(gain) and constant(value)"));
  }
  STOWAGE_RETURN_IF_ERROR(scan_.Expect('}'));
  return init;
}

Result<AttrValue> Parser::ReadAttrValue() {
  if (scan_.Accept('[')) {
    STOWAGE_ASSIGN_OR_RETURN(std::vector<int64_t> values, ReadInts(']'));
    return AttrValue(std::move(values));
  }
  if (scan_.Accept('(')) {
    STOWAGE_ASSIGN_OR_RETURN(SubGraphs graphs, ReadGraphs());
    return AttrValue(std::move(graphs));
  }
  if (scan_.Peek() == '0' && scan_.AcceptHere("0x")) {
    STOWAGE_ASSIGN_OR_RETURN(std::string bytes, scan_.ReadBytes());
    return AttrValue(std::move(bytes));
  }
  const std::string_view text = scan_.PeekNumber();
  if (const Result<DType> dtype = ParseDType(text); dtype.ok()) {
    scan_.TakeNumber();
    return AttrValue(*dtype);
  }
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (!digits.empty() &&
      digits.find_first_not_of("0123456789") == std::string_view::npos) {
    STOWAGE_ASSIGN_OR_RETURN(const int64_t value, scan_.ReadInt());
    return AttrValue(value);
  }
  if (text.empty()) return scan_.Expected("an attribute's value");
  STOWAGE_ASSIGN_OR_RETURN(const double value, scan_.ReadFloat());
  return AttrValue(value);
}

Result<Attrs> Parser::ReadAttrs() {
  Attrs attrs;
  if (!scan_.Accept('{')) return attrs;
  if (scan_.Accept('}')) return attrs;
  do {
    STOWAGE_ASSIGN_OR_RETURN(Name name, scan_.ReadName("an attribute's name"));
    // The former name of a loop's attribute, for one release.
    if (name.text == "trips") name.text = "iterations";
    if (attrs.Find(name.text) != nullptr) {
      return scan_.Fail(
          name.pos, StrCat("attribute ", Quoted(name.text), " is given twice"));
    }
    STOWAGE_RETURN_IF_ERROR(scan_.Expect('='));
    STOWAGE_ASSIGN_OR_RETURN(AttrValue value, ReadAttrValue());
    attrs.Set(name.text, std::move(value));
  } while (scan_.Accept(','));
  STOWAGE_RETURN_IF_ERROR(scan_.Expect('}'));
  return attrs;
}

Status Parser::ReadOrigin(GraphBuilder* builder) {
  if (!scan_.Accept('@')) {
    builder->SetOrigin(Phase::kForward, "");
    return {};
  }
  STOWAGE_ASSIGN_OR_RETURN(const Name word, scan_.ReadName("a phase"));
  std::optional<Phase> phase;
  for (const Phase candidate :
       {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
    if (word.text == PhaseName(candidate)) phase = candidate;
  }
  if (!phase) {
    return scan_.Fail(word.pos,
                      StrCat(Quoted(word.text),
                             " is not a phase; there are forward, backward "
                             "and update"));
  }
  std::string origin;
  if (scan_.Accept('(')) {
    STOWAGE_ASSIGN_OR_RETURN(origin, scan_.ReadQuoted());
    STOWAGE_RETURN_IF_ERROR(scan_.Expect(')'));
  }
  builder->SetOrigin(*phase, origin);
  return {};
}

Result<Value> Parser::Lookup(GraphBuilder* builder, const Name& name) const {
  const std::optional<Value> value = builder->Find(name.text);
  if (value) return *value;
  return scan_.Fail(
      name.pos, StrCat("no value is called ", Quoted(name.text), " so far"));
}

Status Parser::Check(const GraphBuilder& builder, size_t pos) const {
  if (!builder.error()) return {};
  return scan_.Fail(pos, builder.error()->message, builder.error()->code);
}

Status Parser::ReadOutput(GraphBuilder* builder) {
  const size_t start = scan_.pos();
  STOWAGE_ASSIGN_OR_RETURN(const std::string name, scan_.ReadQuoted());
  STOWAGE_RETURN_IF_ERROR(scan_.Expect('='));
  STOWAGE_ASSIGN_OR_RETURN(const Name source, scan_.ReadName("a value's name"));
  STOWAGE_ASSIGN_OR_RETURN(const Value value, Lookup(builder, source));
  builder->Output(name, value, SourceLoc{});
  return Check(*builder, start);
}

Status Parser::ReadLeaf(GraphBuilder* builder, const ResultDecl& decl,
                        const Name& word) {
  const std::string& name = decl.name.text;
  const auto [dtype, shape] = decl.type;
  const std::optional<Role> role = ParseRole(word.text);
  const bool on_host = word.text == kHostParam || word.text == kHostState;
  if (decl.role) {
    return scan_.Fail(word.pos, "a leaf has one role: the word after \"=\"");
  }
  Init init;
  if (scan_.Peek() == '{') {
    if (role != Role::kParam && role != Role::kState && !on_host) {
      return scan_.Expected(
          "the end of the line: only params and states have init");
    }
    STOWAGE_ASSIGN_OR_RETURN(init, ReadInit());
  }
  if (role == Role::kParam) {
    builder->Param(name, dtype, shape, init, SourceLoc{});
  } else if (role == Role::kState) {
    builder->State(name, dtype, shape, init, SourceLoc{});
  } else if (on_host) {
    builder->LeafLike(
        {.name = name,
         .type = {dtype, shape},
         .role = word.text == kHostParam ? Role::kParam : Role::kState,
         .init = init,
         .on_host = true},
        SourceLoc{});
  } else if (role == Role::kInput) {
    builder->Input(name, dtype, shape, SourceLoc{});
  } else if (role == Role::kSaved) {
    builder->Saved(name, dtype, shape, SourceLoc{});
  } else if (role == Role::kCache) {
    builder->Cache(name, dtype, shape, SourceLoc{});
  } else {
    return scan_.Fail(
        word.pos,
        StrCat(Quoted(word.text),
               " is not param, input, saved, state, host_param, host_state or "
               "cache, "
               "nor an op followed by its operands in parentheses"));
  }
  return Check(*builder, decl.name.pos);
}

Status Parser::ReadNode(GraphBuilder* builder,
                        const std::vector<ResultDecl>& decls,
                        const Name& word) {
  const std::optional<OpKind> op = FindOp(word.text);
  if (!op) {
    return scan_.Fail(word.pos, StrCat("there is no op ", Quoted(word.text)));
  }
  std::vector<Value> inputs;
  if (!scan_.Accept(')')) {
    do {
      STOWAGE_ASSIGN_OR_RETURN(const Name name,
                               scan_.ReadName("a value's name"));
      STOWAGE_ASSIGN_OR_RETURN(const Value input, Lookup(builder, name));
      inputs.push_back(input);
    } while (scan_.Accept(','));
    STOWAGE_RETURN_IF_ERROR(scan_.Expect(')'));
  }
  STOWAGE_ASSIGN_OR_RETURN(Attrs attrs, ReadAttrs());
  STOWAGE_RETURN_IF_ERROR(ReadOrigin(builder));

  std::vector<std::string> names;
  for (const ResultDecl& decl : decls) names.push_back(decl.name.text);
  const std::vector<Value> results =
      builder->EmitNamed(*op, inputs, std::move(attrs), names, SourceLoc{});
  STOWAGE_RETURN_IF_ERROR(Check(*builder, word.pos));
  for (size_t r = 0; r < decls.size(); ++r) {
    const ResultDecl& decl = decls[r];
    if (results[r].type() != decl.type) {
      return scan_.Fail(
          decl.type_pos,
          StrCat(Quoted(decl.name.text), " is said to be ",
                 decl.type.ToString(), "; ", OpName(*op),
                 " of these operands gives ", results[r].type().ToString()));
    }
    if (decl.role) roles_.emplace_back(results[r], *decl.role);
  }
  return {};
}

Status Parser::ReadStatement(GraphBuilder* builder) {
  STOWAGE_ASSIGN_OR_RETURN(Name first, scan_.ReadName("a value's name"));
  if (first.text == "output" && !first.quoted) return ReadOutput(builder);
  std::vector<ResultDecl> decls;
  STOWAGE_ASSIGN_OR_RETURN(ResultDecl decl, ReadResultDecl(std::move(first)));
  decls.push_back(std::move(decl));
  while (scan_.Accept(',')) {
    STOWAGE_ASSIGN_OR_RETURN(Name name, scan_.ReadName("a value's name"));
    STOWAGE_ASSIGN_OR_RETURN(ResultDecl next, ReadResultDecl(std::move(name)));
    decls.push_back(std::move(next));
  }
  STOWAGE_RETURN_IF_ERROR(scan_.Expect('='));
  STOWAGE_ASSIGN_OR_RETURN(const Name word,
                           scan_.ReadName("an op or a leaf's role"));
  if (scan_.Accept('(')) return ReadNode(builder, decls, word);
  if (decls.size() > 1) return scan_.Expected("\"(\" and operands");
  return ReadLeaf(builder, decls.front(), word);
}

Status Parser::ReadHeader() {
  if (!scan_.AcceptHere(kTextMagic)) {
    return scan_.Fail(0, StrCat("a graph's text opens with \"", kTextMagic, " ",
                                kVersion, "\""));
  }
  const size_t start = scan_.pos();
  const std::string_view version = scan_.TakeNumber();
  if (version != kVersion) {
    return scan_.Fail(
        start,
        StrCat("this is version ", Quoted(version),
               " of the text form; this build reads version ", kVersion),
        ErrorCode::kUnsupported);
  }
  return scan_.ExpectLineEnd();
}

Result<Graph> Parser::ReadGraph() {
  STOWAGE_ASSIGN_OR_RETURN(const Name keyword, scan_.ReadName("graph"));
  if (keyword.text != "graph") {
    return scan_.Fail(keyword.pos, "expected graph, its quoted name and \"{\"");
  }
  STOWAGE_ASSIGN_OR_RETURN(std::string name, scan_.ReadQuoted());
  GraphBuilder builder(std::move(name));
  // Roles that the text states. Set at the end, as an output line may still
  // turn an activation into an output.
  Roles roles;
  std::swap(roles, roles_);
  STOWAGE_RETURN_IF_ERROR(scan_.Expect('{'));
  STOWAGE_RETURN_IF_ERROR(scan_.ExpectLineEnd());
  while (!scan_.Accept('}')) {
    STOWAGE_RETURN_IF_ERROR(ReadStatement(&builder));
    STOWAGE_RETURN_IF_ERROR(scan_.ExpectLineEnd());
  }
  std::swap(roles, roles_);
  for (const auto& [value, role] : roles) builder.SetRole(value, role);
  return builder.Finish();
}

Result<SubGraphs> Parser::ReadGraphs() {
  SubGraphs graphs;
  if (++depth_ > kMaxBodyDepth) {
    return scan_.Expected(
        StrCat("bodies no deeper than ", kMaxBodyDepth, " in one another"));
  }
  do {
    STOWAGE_ASSIGN_OR_RETURN(Graph graph, ReadGraph());
    graphs.push_back(std::make_shared<const Graph>(std::move(graph)));
  } while (scan_.Accept(','));
  STOWAGE_RETURN_IF_ERROR(scan_.Expect(')'));
  --depth_;
  return graphs;
}

Result<Graph> Parser::Parse() {
  STOWAGE_RETURN_IF_ERROR(ReadHeader());
  STOWAGE_ASSIGN_OR_RETURN(Graph graph, ReadGraph());
  scan_.SkipBlankLines();
  if (!scan_.AtEnd()) return scan_.Expected("nothing after the graph");
  return graph;
}

}  // namespace

std::string AttrsText(const Attrs& attrs) { return AttrsTextAt(attrs, 0); }

std::string ToText(const Graph& graph) {
  return StrCat(kTextMagic, " ", kVersion, "\n", GraphText(graph, 0), "\n");
}

std::string ToDot(const Graph& graph) {
  return StrCat("digraph ", DotLabel(graph.name()), " {\n",
                "  node [fontname=\"Helvetica\"];\n",
                "  edge [fontname=\"Helvetica\", fontsize=9];\n",
                DotWriter(graph).Write(), "}\n");
}

Result<Graph> ParseGraph(std::string_view text) { return Parser(text).Parse(); }

}  // namespace stowage
