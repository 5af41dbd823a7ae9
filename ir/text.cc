#include "ir/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/op_def.h"

namespace stowage {
namespace {

constexpr std::string_view kMagic = "stowage-ir";
constexpr std::string_view kVersion = "1";
constexpr std::string_view kHostState = "host_state";
constexpr std::string_view kHexDigits = "0123456789abcdef";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsNameChar(char c) {
  return IsLetter(c) || IsDigit(c) || c == '.' || c == ':' || c == '/' ||
         c == '-';
}

// --- Printing ---------------------------------------------------------------

std::string QuotedWithEscapes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHexDigits[byte >> 4];
      out += kHexDigits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

// A name as it is where the parser can tell its end: a colon at the end would
// read as the one before a type, and `output` opens an output line.
std::string NameText(std::string_view name) {
  const bool plain = !name.empty() && IsLetter(name.front()) &&
                     std::ranges::all_of(name, IsNameChar) &&
                     name.back() != ':' && name != "output";
  return plain ? std::string(name) : QuotedWithEscapes(name);
}

// Shortest form that parses back equal, never looking like an integer.
std::string FloatText(double value) {
  std::string text = StrCat(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

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
  }
  return "";
}

struct AttrText {
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
    std::string out = "0x";
    out.reserve(2 + 2 * bytes.size());
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      out += kHexDigits[byte >> 4];
      out += kHexDigits[byte & 15];
    }
    return out;
  }
};

}  // namespace

std::string AttrsText(const Attrs& attrs) {
  if (attrs.entries().empty()) return "";
  std::string out = " {";
  for (const auto& [name, value] : attrs.entries()) {
    if (out.size() > 2) out += ", ";
    out += StrCat(NameText(name), "=", std::visit(AttrText(), value));
  }
  return out + "}";
}

namespace {

// The role that the parser gives to result `r` of `node` unasked.
Role DefaultRole(const Graph& graph, const Node& node, size_t r,
                 const std::vector<bool>& is_output) {
  const int updates = GetOpDef(node.op).updates;
  if (static_cast<int>(r) < updates) return graph.value(node.inputs[r]).role;
  if (node.op == OpKind::kConstant) return Role::kConstant;
  return is_output[static_cast<size_t>(node.results[r])] ? Role::kOutput
                                                         : Role::kActivation;
}

std::string NodeText(const Graph& graph, const Node& node,
                     const std::vector<bool>& is_output) {
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
  out += StrCat(")", AttrsText(node.attrs));
  if (node.phase != Phase::kForward || !node.origin.empty()) {
    out += StrCat(" @", PhaseName(node.phase));
    if (!node.origin.empty()) {
      out += StrCat("(", QuotedWithEscapes(node.origin), ")");
    }
  }
  return out;
}

std::string LeafText(const ValueInfo& leaf) {
  std::string out =
      StrCat(NameText(leaf.name), ": ", leaf.type.ToString(), " = ",
             leaf.on_host ? kHostState : RoleName(leaf.role));
  if (leaf.init.kind != Init::Kind::kZeros) {
    out += StrCat(" {init=", InitText(leaf.init), "}");
  }
  return out;
}

// --- Parsing ----------------------------------------------------------------

// Recursive descent over the text, one statement a line. A function that reads
// something skips blanks before it; `pos_` stands after what was read.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Graph> Parse();

 private:
  struct Name {
    std::string text;
    bool quoted = false;
    size_t pos = 0;
  };
  struct ResultDecl {
    Name name;
    TensorType type;
    size_t type_pos = 0;
    std::optional<Role> role;
  };

  // Scanning.
  char Peek() const { return pos_ < text_.size() ? text_[pos_] : '\0'; }
  bool AtEnd() const { return pos_ >= text_.size(); }
  void SkipBlanks();
  void SkipBlankLines();
  bool Accept(char c);
  Status Expect(char c);
  Status ExpectLineEnd();
  Result<Name> ReadName(std::string_view what);
  Result<std::string> ReadQuoted();
  std::string_view ReadNumberText();
  Result<int64_t> ReadInt();
  Result<double> ReadFloat();
  Result<std::vector<int64_t>> ReadInts(char close);

  // Grammar.
  Status ReadHeader();
  Status ReadStatement(GraphBuilder* builder);
  Status ReadOutput(GraphBuilder* builder);
  Status ReadLeaf(GraphBuilder* builder, const ResultDecl& decl,
                  const Name& word);
  Status ReadNode(GraphBuilder* builder, const std::vector<ResultDecl>& decls,
                  const Name& word);
  Result<ResultDecl> ReadResultDecl(Name name);
  Result<TensorType> ReadType();
  Result<Init> ReadInit();
  Result<Attrs> ReadAttrs();
  Result<AttrValue> ReadAttrValue();
  Result<std::string> ReadBytes();
  Status ReadOrigin(GraphBuilder* builder);

  Result<Value> Lookup(GraphBuilder* builder, const Name& name) const;
  // The builder's error, if it has one, at `pos`.
  Status Check(const GraphBuilder& builder, size_t pos) const;

  Error Fail(size_t pos, std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const;
  Error Expected(std::string_view what) const;

  std::string_view text_;
  size_t pos_ = 0;
  // Roles that the text states. Given at the end, as an output line may still
  // turn an activation into an output.
  std::vector<std::pair<Value, Role>> roles_;
};

Error Parser::Fail(size_t pos, std::string_view message, ErrorCode code) const {
  const std::string_view before = text_.substr(0, pos);
  const auto line = 1 + std::ranges::count(before, '\n');
  const size_t newline = before.rfind('\n');
  const size_t column =
      newline == std::string_view::npos ? pos + 1 : pos - newline;
  return Error{code,
               StrCat("[ir] line ", line, ", column ", column, ": ", message)};
}

Error Parser::Expected(std::string_view what) const {
  std::string found = "the end of the text";
  if (!AtEnd()) {
    const char c = Peek();
    found = c == '\n' ? "the end of the line"
                      : QuotedWithEscapes(std::string_view(&c, 1));
  }
  return Fail(pos_, StrCat("expected ", what, ", found ", found));
}

void Parser::SkipBlanks() {
  while (Peek() == ' ' || Peek() == '\t' || Peek() == '\r') ++pos_;
}

void Parser::SkipBlankLines() {
  SkipBlanks();
  while (Peek() == '\n') {
    ++pos_;
    SkipBlanks();
  }
}

bool Parser::Accept(char c) {
  SkipBlanks();
  if (AtEnd() || Peek() != c) return false;
  ++pos_;
  return true;
}

Status Parser::Expect(char c) {
  if (Accept(c)) return {};
  return Expected(QuotedWithEscapes(std::string_view(&c, 1)));
}

Status Parser::ExpectLineEnd() {
  SkipBlanks();
  if (!AtEnd() && Peek() != '\n') return Expected("the end of the line");
  SkipBlankLines();
  return {};
}

Result<std::string> Parser::ReadQuoted() {
  SkipBlanks();
  const size_t start = pos_;
  if (Peek() != '"') return Expected("a quoted name");
  std::string out;
  for (++pos_; !AtEnd() && Peek() != '\n'; ++pos_) {
    const char c = Peek();
    if (c == '"') {
      ++pos_;
      return out;
    }
    if (c != '\\') {
      out += c;
      continue;
    }
    ++pos_;
    if (Peek() == '"' || Peek() == '\\') {
      out += Peek();
    } else if (Peek() == 'n') {
      out += '\n';
    } else {
      const std::string_view hex = text_.substr(std::min(pos_, text_.size()));
      const size_t high =
          hex.size() < 3 ? std::string_view::npos : kHexDigits.find(hex[1]);
      const size_t low =
          hex.size() < 3 ? std::string_view::npos : kHexDigits.find(hex[2]);
      if (Peek() != 'x' || high == std::string_view::npos ||
          low == std::string_view::npos) {
        return Fail(pos_ - 1,
                    "unknown escape; there are \\\", \\\\, \\n and \\x with "
                    "two hexadecimal digits");
      }
      out += static_cast<char>(high << 4 | low);
      pos_ += 2;
    }
  }
  return Fail(start, "this quoted name has no end on its line");
}

Result<Parser::Name> Parser::ReadName(std::string_view what) {
  SkipBlanks();
  Name name{.text = {}, .quoted = Peek() == '"', .pos = pos_};
  if (name.quoted) {
    STOWAGE_ASSIGN_OR_RETURN(name.text, ReadQuoted());
    return name;
  }
  if (!IsLetter(Peek())) return Expected(what);
  const size_t start = pos_;
  while (!AtEnd() && IsNameChar(Peek())) ++pos_;
  while (text_[pos_ - 1] == ':') --pos_;
  name.text = std::string(text_.substr(start, pos_ - start));
  return name;
}

std::string_view Parser::ReadNumberText() {
  SkipBlanks();
  const size_t start = pos_;
  const auto in_number = [](char c) {
    return IsLetter(c) || IsDigit(c) || c == '.' || c == '+' || c == '-';
  };
  while (!AtEnd() && in_number(Peek())) ++pos_;
  return text_.substr(start, pos_ - start);
}

Result<int64_t> Parser::ReadInt() {
  SkipBlanks();
  const size_t start = pos_;
  if (Peek() != '-' && !IsDigit(Peek())) return Expected("an integer");
  const std::string_view number = ReadNumberText();
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc::result_out_of_range) {
    return Fail(start, StrCat(number, " does not fit 64 bits"));
  }
  if (error != std::errc() || end != number.data() + number.size()) {
    return Fail(start, StrCat(Quoted(number), " is not an integer"));
  }
  return value;
}

Result<double> Parser::ReadFloat() {
  SkipBlanks();
  const size_t start = pos_;
  const std::string_view number = ReadNumberText();
  if (number.empty()) return Expected("a number");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (number == "inf") return kInfinity;
  if (number == "-inf") return -kInfinity;
  if (number == "nan") return kNan;
  if (number == "-nan") return std::copysign(kNan, -1.0);
  double value = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc::result_out_of_range) {
    return Fail(start, StrCat(number, " does not fit a double"));
  }
  if (error != std::errc() || end != number.data() + number.size() ||
      !std::isfinite(value)) {
    return Fail(start, StrCat(Quoted(number), " is not a number"));
  }
  return value;
}

// Integers between commas up to `close`; what opens the list has been read.
Result<std::vector<int64_t>> Parser::ReadInts(char close) {
  std::vector<int64_t> values;
  if (Accept(close)) return values;
  do {
    STOWAGE_ASSIGN_OR_RETURN(const int64_t value, ReadInt());
    values.push_back(value);
  } while (Accept(','));
  STOWAGE_RETURN_IF_ERROR(Expect(close));
  return values;
}

Result<TensorType> Parser::ReadType() {
  STOWAGE_ASSIGN_OR_RETURN(const Name name, ReadName("an element type"));
  const Result<DType> dtype = ParseDType(name.text);
  if (!dtype.ok() || name.quoted) {
    return Fail(name.pos, StrCat(Quoted(name.text), " is not an element type"));
  }
  STOWAGE_RETURN_IF_ERROR(Expect('('));
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, ReadInts(')'));
  return TensorType{*dtype, Shape(dims)};
}

Result<Parser::ResultDecl> Parser::ReadResultDecl(Name name) {
  ResultDecl decl{
      .name = std::move(name), .type = {}, .type_pos = 0, .role = {}};
  STOWAGE_RETURN_IF_ERROR(Expect(':'));
  SkipBlanks();
  decl.type_pos = pos_;
  STOWAGE_ASSIGN_OR_RETURN(decl.type, ReadType());
  SkipBlanks();
  if (IsLetter(Peek())) {
    STOWAGE_ASSIGN_OR_RETURN(const Name word, ReadName("a role"));
    decl.role = ParseRole(word.text);
    if (!decl.role) {
      return Fail(word.pos, StrCat(Quoted(word.text), " is not a role"));
    }
  }
  return decl;
}

Result<Init> Parser::ReadInit() {
  STOWAGE_RETURN_IF_ERROR(Expect('{'));
  STOWAGE_ASSIGN_OR_RETURN(const Name key, ReadName("init"));
  if (key.text != "init") {
    return Fail(key.pos, StrCat("unknown attribute ", Quoted(key.text),
                                " of a leaf; there is only init"));
  }
  STOWAGE_RETURN_IF_ERROR(Expect('='));
  STOWAGE_ASSIGN_OR_RETURN(const Name kind, ReadName("a kind of init"));
  Init init;
  if (kind.text == "zeros") {
    init = Init::Zeros();
  } else if (kind.text == "ones") {
    init = Init::Ones();
  } else if (kind.text == "normal" || kind.text == "uniform") {
    STOWAGE_RETURN_IF_ERROR(Expect('('));
    STOWAGE_ASSIGN_OR_RETURN(const double scale, ReadFloat());
    STOWAGE_RETURN_IF_ERROR(Expect(')'));
    init = kind.text == "normal" ? Init::Normal(scale) : Init::Uniform(scale);
  } else {
    return Fail(kind.pos, StrCat("unknown init ", Quoted(kind.text),
                                 "; there are zeros, ones, normal(stddev) and "
                                 "uniform(bound)"));
  }
  STOWAGE_RETURN_IF_ERROR(Expect('}'));
  return init;
}

Result<std::string> Parser::ReadBytes() {
  pos_ += 2;  // 0x
  const size_t start = pos_;
  while (!AtEnd() && kHexDigits.find(Peek()) != std::string_view::npos) ++pos_;
  const std::string_view hex = text_.substr(start, pos_ - start);
  if (hex.size() % 2 != 0) {
    return Fail(start, StrCat("bytes need two hexadecimal digits each; here "
                              "are ",
                              hex.size(), " digits"));
  }
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(kHexDigits.find(hex[i]) << 4 |
                               kHexDigits.find(hex[i + 1]));
  }
  return bytes;
}

Result<AttrValue> Parser::ReadAttrValue() {
  if (Accept('[')) {
    STOWAGE_ASSIGN_OR_RETURN(std::vector<int64_t> values, ReadInts(']'));
    return AttrValue(std::move(values));
  }
  SkipBlanks();
  const size_t start = pos_;
  if (text_.substr(pos_, 2) == "0x") {
    STOWAGE_ASSIGN_OR_RETURN(std::string bytes, ReadBytes());
    return AttrValue(std::move(bytes));
  }
  const std::string_view text = ReadNumberText();
  if (const Result<DType> dtype = ParseDType(text); dtype.ok()) {
    return AttrValue(*dtype);
  }
  pos_ = start;
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (!digits.empty() && std::ranges::all_of(digits, IsDigit)) {
    STOWAGE_ASSIGN_OR_RETURN(const int64_t value, ReadInt());
    return AttrValue(value);
  }
  if (text.empty()) return Expected("an attribute's value");
  STOWAGE_ASSIGN_OR_RETURN(const double value, ReadFloat());
  return AttrValue(value);
}

Result<Attrs> Parser::ReadAttrs() {
  Attrs attrs;
  if (!Accept('{')) return attrs;
  if (Accept('}')) return attrs;
  do {
    STOWAGE_ASSIGN_OR_RETURN(const Name name, ReadName("an attribute's name"));
    if (attrs.Find(name.text) != nullptr) {
      return Fail(name.pos,
                  StrCat("attribute ", Quoted(name.text), " is given twice"));
    }
    STOWAGE_RETURN_IF_ERROR(Expect('='));
    STOWAGE_ASSIGN_OR_RETURN(AttrValue value, ReadAttrValue());
    attrs.Set(name.text, std::move(value));
  } while (Accept(','));
  STOWAGE_RETURN_IF_ERROR(Expect('}'));
  return attrs;
}

Status Parser::ReadOrigin(GraphBuilder* builder) {
  if (!Accept('@')) {
    builder->SetOrigin(Phase::kForward, "");
    return {};
  }
  STOWAGE_ASSIGN_OR_RETURN(const Name word, ReadName("a phase"));
  std::optional<Phase> phase;
  for (const Phase candidate :
       {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
    if (word.text == PhaseName(candidate)) phase = candidate;
  }
  if (!phase) {
    return Fail(word.pos, StrCat(Quoted(word.text),
                                 " is not a phase; there are forward, backward "
                                 "and update"));
  }
  std::string origin;
  if (Accept('(')) {
    STOWAGE_ASSIGN_OR_RETURN(origin, ReadQuoted());
    STOWAGE_RETURN_IF_ERROR(Expect(')'));
  }
  builder->SetOrigin(*phase, origin);
  return {};
}

Result<Value> Parser::Lookup(GraphBuilder* builder, const Name& name) const {
  const std::optional<Value> value = builder->Find(name.text);
  if (value) return *value;
  return Fail(name.pos,
              StrCat("no value is called ", Quoted(name.text), " so far"));
}

Status Parser::Check(const GraphBuilder& builder, size_t pos) const {
  if (!builder.error()) return {};
  return Fail(pos, builder.error()->message, builder.error()->code);
}

Status Parser::ReadOutput(GraphBuilder* builder) {
  SkipBlanks();
  const size_t start = pos_;
  STOWAGE_ASSIGN_OR_RETURN(const std::string name, ReadQuoted());
  STOWAGE_RETURN_IF_ERROR(Expect('='));
  STOWAGE_ASSIGN_OR_RETURN(const Name source, ReadName("a value's name"));
  STOWAGE_ASSIGN_OR_RETURN(const Value value, Lookup(builder, source));
  builder->Output(name, value, SourceLoc{});
  return Check(*builder, start);
}

Status Parser::ReadLeaf(GraphBuilder* builder, const ResultDecl& decl,
                        const Name& word) {
  const std::string& name = decl.name.text;
  const auto [dtype, shape] = decl.type;
  const std::optional<Role> role = ParseRole(word.text);
  const bool on_host = word.text == kHostState;
  if (decl.role) {
    return Fail(word.pos, "a leaf has one role: the word after \"=\"");
  }
  Init init;
  SkipBlanks();
  if (Peek() == '{') {
    if (role != Role::kParam && role != Role::kState && !on_host) {
      return Expected("the end of the line: only params and states have init");
    }
    STOWAGE_ASSIGN_OR_RETURN(init, ReadInit());
  }
  if (role == Role::kParam) {
    builder->Param(name, dtype, shape, init, SourceLoc{});
  } else if (role == Role::kState) {
    builder->State(name, dtype, shape, init, SourceLoc{});
  } else if (on_host) {
    builder->HostState(name, dtype, shape, init, SourceLoc{});
  } else if (role == Role::kInput) {
    builder->Input(name, dtype, shape, SourceLoc{});
  } else if (role == Role::kSaved) {
    builder->Saved(name, dtype, shape, SourceLoc{});
  } else {
    return Fail(word.pos,
                StrCat(Quoted(word.text),
                       " is not param, input, saved, state or host_state, nor "
                       "an op followed by its operands in parentheses"));
  }
  return Check(*builder, decl.name.pos);
}

Status Parser::ReadNode(GraphBuilder* builder,
                        const std::vector<ResultDecl>& decls,
                        const Name& word) {
  const std::optional<OpKind> op = FindOp(word.text);
  if (!op) {
    return Fail(word.pos, StrCat("there is no op ", Quoted(word.text)));
  }
  std::vector<Value> inputs;
  if (!Accept(')')) {
    do {
      STOWAGE_ASSIGN_OR_RETURN(const Name name, ReadName("a value's name"));
      STOWAGE_ASSIGN_OR_RETURN(const Value input, Lookup(builder, name));
      inputs.push_back(input);
    } while (Accept(','));
    STOWAGE_RETURN_IF_ERROR(Expect(')'));
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
      return Fail(
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
  STOWAGE_ASSIGN_OR_RETURN(Name first, ReadName("a value's name"));
  if (first.text == "output" && !first.quoted) return ReadOutput(builder);
  std::vector<ResultDecl> decls;
  STOWAGE_ASSIGN_OR_RETURN(ResultDecl decl, ReadResultDecl(std::move(first)));
  decls.push_back(std::move(decl));
  while (Accept(',')) {
    STOWAGE_ASSIGN_OR_RETURN(Name name, ReadName("a value's name"));
    STOWAGE_ASSIGN_OR_RETURN(ResultDecl next, ReadResultDecl(std::move(name)));
    decls.push_back(std::move(next));
  }
  STOWAGE_RETURN_IF_ERROR(Expect('='));
  STOWAGE_ASSIGN_OR_RETURN(const Name word, ReadName("an op or a leaf's role"));
  if (Accept('(')) return ReadNode(builder, decls, word);
  if (decls.size() > 1) return Expected("\"(\" and operands");
  return ReadLeaf(builder, decls.front(), word);
}

Status Parser::ReadHeader() {
  if (text_.substr(0, kMagic.size()) != kMagic) {
    return Fail(
        0, StrCat("a graph's text opens with \"", kMagic, " ", kVersion, "\""));
  }
  pos_ = kMagic.size();
  SkipBlanks();
  const size_t start = pos_;
  const std::string_view version = ReadNumberText();
  if (version != kVersion) {
    return Fail(
        start,
        StrCat("this is version ", Quoted(version),
               " of the text form; this build reads version ", kVersion),
        ErrorCode::kUnsupported);
  }
  return ExpectLineEnd();
}

Result<Graph> Parser::Parse() {
  STOWAGE_RETURN_IF_ERROR(ReadHeader());
  STOWAGE_ASSIGN_OR_RETURN(const Name keyword, ReadName("graph"));
  if (keyword.text != "graph") {
    return Fail(keyword.pos, "expected graph, its quoted name and \"{\"");
  }
  STOWAGE_ASSIGN_OR_RETURN(std::string name, ReadQuoted());
  GraphBuilder builder(std::move(name));
  STOWAGE_RETURN_IF_ERROR(Expect('{'));
  STOWAGE_RETURN_IF_ERROR(ExpectLineEnd());
  while (!Accept('}')) {
    STOWAGE_RETURN_IF_ERROR(ReadStatement(&builder));
    STOWAGE_RETURN_IF_ERROR(ExpectLineEnd());
  }
  SkipBlankLines();
  if (!AtEnd()) return Expected("nothing after the graph");
  for (const auto& [value, role] : roles_) builder.SetRole(value, role);
  return builder.Finish();
}

}  // namespace

std::string ToText(const Graph& graph) {
  std::vector<bool> is_output(static_cast<size_t>(graph.num_values()));
  for (const GraphOutput& output : graph.outputs()) {
    is_output[static_cast<size_t>(output.value)] = true;
  }
  std::string out = StrCat(kMagic, " ", kVersion, "\ngraph ",
                           QuotedWithEscapes(graph.name()), " {\n");
  for (const ValueInfo& value : graph.values()) {
    if (value.is_leaf()) {
      out += StrCat("  ", LeafText(value), "\n");
    } else if (value.result == 0) {
      out += StrCat(
          "  ", NodeText(graph, graph.node(value.producer), is_output), "\n");
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    out += StrCat("  output ", QuotedWithEscapes(output.name), " = ",
                  NameText(graph.value(output.value).name), "\n");
  }
  return out + "}\n";
}

Result<Graph> ParseGraph(std::string_view text) { return Parser(text).Parse(); }

}  // namespace stowage
