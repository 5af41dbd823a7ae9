#include "tests/docs/op_table.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "autodiff/backward.h"
#include "autodiff/vjp.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/support/op_cases.h"

namespace stowage::testing {
namespace {

constexpr std::string_view kIntroduction = R"(# Ops

This page lists all ops by the sections of `ir/ops.def`. `ir/ops.h` has a function for each op that
users call, with its shapes and its formula:

    Value y = MatMul(x, w);

Operands and results are followed by their types. T is one element type in a row, from the set in the
column T: *float* is f32, f64, f16 or bf16, *numeric* all types except bool, *index* i32 or i64, and
*any* all types. S is f64 if T is f64, else f32: the type of statistics. *dtype* is the attribute of
that name. A graph may have these types; a backend may support fewer. An operand or attribute with a
question mark is optional; dots stand for any number. With the attribute *parts*, dgamma and dbeta are
partial sums of type S, with one row per part (`ir/element_groups.h`).

In the column "in memory", a *view* owns no bytes. A result *over* operands may overwrite one of them
that has the same number of bytes and dies there. An *update* is the new content of its operands. All
other results have bytes of their own.

The last column lists the operands that get a gradient, always of float types. *Zero* means that no
gradient flows, because the derivative is zero where it exists. *None* means an error if a gradient
would have to flow. The column also states the value at points without a derivative.

This page is made by `bazel run //tests/docs:write_op_table > docs/reference/ops.md` and checked by
`tests/docs/op_table_test.cc`.
)";

// What the derivative rules (autodiff/vjps) give where there is no derivative, or
// an infinite one; tests/autodiff/gradients_test.cc holds them to it.
std::string LimitsOf(OpKind op) {
  switch (op) {
    case OpKind::kAbs:
    case OpKind::kRelu:
      return "0 at 0";
    case OpKind::kLeakyRelu:
      return "slope at 0";
    case OpKind::kElu:
      return "scale alpha at 0";
    case OpKind::kClamp:
      return "0 at min and max";
    case OpKind::kHardSwish:
      return "0 at -3, 1 at 3";
    case OpKind::kLog1p:
      return "infinite at -1";
    case OpKind::kRemainder:
    case OpKind::kFmod:
      return "of b minus the whole quotient";
    case OpKind::kLog:
    case OpKind::kSqrt:
    case OpKind::kRsqrt:
    case OpKind::kReciprocal:
      return "infinite at 0";
    case OpKind::kDiv:
      return "infinite or NaN where b is 0";
    case OpKind::kPow:
      return "of a infinite where a is 0 and b below 1 and not 0; of b "
             "infinite "
             "where a is 0 and b below 0, NaN where a is below 0";
    case OpKind::kMaximum:
    case OpKind::kMinimum:
      return "equal operands get half each";
    case OpKind::kMaxPool:
      return "the first of equal maxima gets it";
    case OpKind::kReduceMax:
      return "equal maxima get equal shares";
    default:
      return "";
  }
}

// --- The text of ir/ops.def ---

struct Label {
  std::string name;
  bool optional = false;  // written [, name]
  bool repeated = false;  // written name...
};

struct Signature {
  std::vector<Label> operands;
  std::vector<Label> results;
  std::vector<Label> attrs;
};

struct Entry {
  std::string section;  // its title
  Signature signature;
};

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

void Remove(std::string* text, std::string_view part) {
  const size_t at = text->find(part);
  if (at != std::string::npos) text->erase(at, part.size());
}

std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    parts.emplace_back(Trimmed(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

// "w, g[, lr][, scale]". A bracket opens behind the label before, before the comma.
std::vector<Label> ParseLabels(std::string_view text) {
  std::vector<Label> labels;
  for (std::string part : SplitAtCommas(text)) {
    Label label;
    Remove(&part, " on the host");
    Remove(&part, "[");
    if (part.ends_with("]")) {
      label.optional = true;
      Remove(&part, "]");
    }
    if (part.ends_with("...")) {
      label.repeated = true;
      Remove(&part, "...");
    }
    label.name = part;
    if (!part.empty()) labels.push_back(label);
  }
  return labels;
}

// "x -> y (a word) {axis}"
Signature ParseSignature(std::string text) {
  Signature signature;
  const size_t brace = text.find('{');
  if (brace != std::string::npos) {
    const size_t end = text.find('}', brace);
    signature.attrs = ParseLabels(text.substr(brace + 1, end - brace - 1));
    text.erase(brace);
  }
  const size_t word = text.find('(');
  if (word != std::string::npos) text.erase(word);
  const size_t arrow = text.find("->");
  STOWAGE_CHECK(arrow != std::string::npos);
  signature.operands = ParseLabels(text.substr(0, arrow));
  signature.results = ParseLabels(text.substr(arrow + 2));
  return signature;
}

// The "x -> y" in the comment that opens a section, for ops without their own.
std::string SignatureIn(const std::string& comment) {
  const size_t arrow = comment.find(" -> ");
  if (arrow == std::string::npos) return "";
  const size_t colon = comment.rfind(':', arrow);
  const size_t end = comment.find_first_of(".;", arrow);
  return comment.substr(colon + 1, end - colon - 1);
}

std::map<std::string, Entry> ParseOpsDef(std::string_view text) {
  std::map<std::string, Entry> entries;
  std::string comment;  // that opens the section
  bool in_comment = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("//")) {
      if (!in_comment) comment.clear();
      comment += StrCat(comment.empty() ? "" : " ", Trimmed(line.substr(2)));
    }
    in_comment = line.starts_with("//");
    // STOWAGE_OP, STOWAGE_UNARY_OP, ...: what has a name behind the bracket.
    const size_t bracket = line.find("OP(");
    if (!line.starts_with("STOWAGE_") || bracket == std::string::npos) continue;
    const size_t quote = line.find('"');
    const size_t close = line.find('"', quote + 1);
    const size_t own = line.find("//");
    Entry entry;
    entry.section = comment.substr(0, comment.find_first_of(".:"));
    entry.signature = ParseSignature(
        own == std::string::npos ? SignatureIn(comment) : line.substr(own + 2));
    entries[line.substr(quote + 1, close - quote - 1)] = entry;
  }
  return entries;
}

// --- Samples ---

// A node of the op: what it is applied to.
struct Sample {
  std::vector<TensorType> operands;
  Attrs attrs;
  std::vector<TensorType> results;
};

Sample SampleFrom(const Graph& graph, const Node& node) {
  Sample sample;
  for (const ValueId input : node.inputs) {
    sample.operands.push_back(graph.value(input).type);
  }
  for (const ValueId result : node.results) {
    sample.results.push_back(graph.value(result).type);
  }
  sample.attrs = node.attrs;
  return sample;
}

struct Samples {
  Sample whole;       // with the most operands
  Sample of_results;  // with the most results
};

// Of each op, from the nodes of the op test table.
std::map<OpKind, Samples> MakeSamples() {
  std::map<OpKind, Samples> samples;
  const auto add = [&](const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      const Sample sample = SampleFrom(graph, node);
      Samples& known =
          samples.try_emplace(node.op, Samples{sample, sample}).first->second;
      if (known.whole.operands.size() < sample.operands.size()) {
        known.whole = sample;
      }
      if (known.of_results.results.size() < sample.results.size()) {
        known.of_results = sample;
      }
    }
  };
  for (const OpCase& c : OpCases(DType::kF32)) add(BuildCase(c));
  GraphBuilder g("stand_in");
  const Value x = g.Input("x", DType::kF32, {2});
  const Shape shape = {3};
  StandIn(std::vector{x}, DType::kF32, {&shape, 1}, 1);
  add(*g.Finish());
  GraphBuilder among("ranks");
  const Value whole = among.Param("w", DType::kF32, {6}, Init::Zeros());
  const Value block = ReduceScatter(AllReduce(whole, 2), 2);
  AllGather(block, 2, {6});
  AllGatherUpdate(whole, OwnBlock(whole, 2), 2);
  add(*among.Finish());
  // Of which any type has one.
  samples[OpKind::kFill].whole.attrs.Set("value", 1.0);
  return samples;
}

// --- Element types ---

// Element types that the op takes together, and those of its results.
struct Typing {
  std::vector<DType> operands;
  std::vector<DType> results;
  std::optional<DType> attr;  // the attribute `dtype`
};

std::optional<Typing> TypingOf(OpKind op, const Sample& sample,
                               const std::vector<DType>& operands,
                               std::optional<DType> attr) {
  std::vector<TensorType> types = sample.operands;
  for (size_t i = 0; i < types.size(); ++i) types[i].dtype = operands[i];
  Attrs attrs = sample.attrs;
  if (attr) attrs.Set("dtype", *attr);
  if (attr && attrs.Find("data") != nullptr) {
    const TensorType type{*attr, sample.results[0].shape};
    attrs.Set("data", std::string(static_cast<size_t>(type.bytes()), '\0'));
  }
  const std::vector<std::string_view> names(types.size(), "x");
  const auto results = GetOpDef(op).infer(OpArgs{op, types, names, attrs});
  if (!results.ok()) return std::nullopt;
  Typing typing{operands, {}, attr};
  for (const TensorType& type : *results) {
    typing.results.push_back(type.dtype);
  }
  return typing;
}

// What the op takes among all ways to put one other type in the place of some of
// the sample's.
std::vector<Typing> TypingsOf(OpKind op, const Sample& sample) {
  const size_t count = sample.operands.size();
  std::vector<std::optional<DType>> attrs = {std::nullopt};
  if (sample.attrs.Find("dtype") != nullptr) {
    attrs.assign(kAllDTypes.begin(), kAllDTypes.end());
  }
  std::vector<Typing> typings;
  for (const std::optional<DType> attr : attrs) {
    for (const DType dtype : kAllDTypes) {
      for (uint32_t mask = 0; mask < uint32_t{1} << count; ++mask) {
        std::vector<DType> operands;
        for (size_t i = 0; i < count; ++i) {
          operands.push_back((mask >> i & 1) != 0 ? dtype
                                                  : sample.operands[i].dtype);
        }
        const auto typing = TypingOf(op, sample, operands, attr);
        if (typing) typings.push_back(*typing);
      }
    }
  }
  STOWAGE_CHECK(!typings.empty());
  return typings;
}

using Column = std::function<DType(const Typing&)>;

std::set<DType> SetOf(const std::vector<Typing>& typings,
                      const Column& column) {
  std::set<DType> set;
  for (const Typing& typing : typings) set.insert(column(typing));
  return set;
}

std::string SetName(const std::set<DType>& set) {
  const auto is = [&](auto holds) {
    return std::ranges::all_of(kAllDTypes, [&](DType dtype) {
      return set.contains(dtype) == holds(dtype);
    });
  };
  if (is([](DType) { return true; })) return "any";
  if (is([](DType dtype) { return dtype != DType::kBool; })) return "numeric";
  if (is(IsFloat)) return "float";
  if (is(IsIndex)) return "index";
  std::string names;
  for (const DType dtype : set) {
    names += StrCat(names.empty() ? "" : " or ", DTypeName(dtype));
  }
  return names;
}

// The words for the types of one op.
class TypeWords {
 public:
  explicit TypeWords(std::vector<Typing> typings)
      : typings_(std::move(typings)) {
    const Typing& first = typings_.front();
    for (size_t i = 0; i < first.operands.size() && !t_; ++i) {
      if (SetOf(typings_, Operand(i)).size() > 1) t_ = Operand(i);
    }
  }

  static Column Operand(size_t i) {
    return [i](const Typing& typing) { return typing.operands[i]; };
  }
  static Column Result(size_t r) {
    return [r](const Typing& typing) { return typing.results[r]; };
  }

  std::string Of(const Column& column) const {
    const auto equals = [&](const Column& other) {
      return std::ranges::all_of(typings_, [&](const Typing& typing) {
        return column(typing) == other(typing);
      });
    };
    const std::set<DType> set = SetOf(typings_, column);
    if (set.size() == 1) return std::string(DTypeName(*set.begin()));
    if (t_ && equals(t_)) return "T";
    if (t_ && equals([&](const Typing& typing) {
          return t_(typing) == DType::kF64 ? DType::kF64 : DType::kF32;
        })) {
      return "S";
    }
    if (typings_.front().attr &&
        equals([](const Typing& typing) { return *typing.attr; })) {
      return "dtype";
    }
    return SetName(set);
  }

  size_t results() const { return typings_.front().results.size(); }

  std::string OfT() const { return t_ ? SetName(SetOf(typings_, t_)) : ""; }

 private:
  std::vector<Typing> typings_;
  Column t_;  // of the first operand that takes several types
};

// --- Gradients ---

// Whether the gradient of result `r` gets to operand `i`.
bool HasGradient(OpKind op, const Sample& sample, size_t i, size_t r) {
  // What is written in place is a state, which has none.
  const auto updates = static_cast<size_t>(GetOpDef(op).updates);
  if (i < updates) return false;
  GraphBuilder g("gradient");
  std::vector<Value> operands;
  for (size_t n = 0; n < sample.operands.size(); ++n) {
    const std::string name = StrCat("operand", n);
    const auto& [dtype, shape] = sample.operands[n];
    operands.push_back(n < updates ? g.State(name, dtype, shape)
                                   : g.Input(name, dtype, shape));
  }
  const std::vector<Value> results = g.Emit(op, operands, sample.attrs);
  g.Output("loss", ReduceSum(results[r]));
  const Result<Graph> graph = g.Finish();
  STOWAGE_CHECK(graph.ok());
  return BuildBackward(*graph, "loss", {.wrt = {StrCat("operand", i)}}).ok();
}

std::string Join(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) {
    out += StrCat(out.empty() ? "" : ", ", part);
  }
  return out;
}

const Label& LabelOf(const std::vector<Label>& labels, size_t i) {
  const Label& label = labels[std::min(i, labels.size() - 1)];
  STOWAGE_CHECK(i < labels.size() || label.repeated);
  return label;
}

std::string GradientText(OpKind op, const Sample& sample,
                         const Signature& signature) {
  const Vjp& vjp = GetVjp(op);
  if (vjp.refusal != nullptr) return StrCat("none: ", vjp.refusal);
  if (vjp.is_zero()) return "zero";
  std::vector<std::string> to;
  std::vector<std::string> from;
  bool from_all = true;
  for (size_t r = 0; r < sample.results.size(); ++r) {
    std::vector<std::string> reached;
    for (size_t i = 0; i < sample.operands.size(); ++i) {
      if (!IsFloat(sample.operands[i].dtype) ||
          !HasGradient(op, sample, i, r)) {
        continue;
      }
      const std::string& name = LabelOf(signature.operands, i).name;
      if (std::ranges::find(reached, name) == reached.end()) {
        reached.push_back(name);
      }
    }
    if (reached.empty()) {
      from_all = false;
      continue;
    }
    STOWAGE_CHECK(to.empty() || to == reached);
    to = reached;
    from.push_back(LabelOf(signature.results, r).name);
  }
  STOWAGE_CHECK(!to.empty());
  const std::string limits = LimitsOf(op);
  return StrCat(Join(to),
                from_all ? std::string() : StrCat(", from ", Join(from)),
                limits.empty() ? "" : "; ", limits);
}

// --- The table ---

std::string MemoryText(OpKind op, const Signature& signature) {
  const OpDef& def = GetOpDef(op);
  std::vector<std::string> names;
  if (def.is_view()) return StrCat("view of ", signature.operands[0].name);
  for (size_t i = 0; i < signature.operands.size(); ++i) {
    const bool named = def.updates > 0 ? static_cast<int>(i) < def.updates
                                       : HasInput(def.may_overwrite, i);
    if (named) names.push_back(signature.operands[i].name);
  }
  if (names.empty()) return "";
  return StrCat(def.updates > 0 ? "update of " : "over ", Join(names));
}

// `of_results` has the words for results that `words` has none for.
std::string ValuesText(const std::vector<Label>& labels, bool operands,
                       uint32_t on_host, const TypeWords& words,
                       const TypeWords& of_results) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::string type = operands
                                 ? words.Of(TypeWords::Operand(i))
                                 : (i < words.results() ? words : of_results)
                                       .Of(TypeWords::Result(i));
    texts.push_back(StrCat(labels[i].name, labels[i].optional ? "?" : "",
                           labels[i].repeated ? "..." : "", ": ", type,
                           HasInput(on_host, i) ? " on the host" : ""));
  }
  return Join(texts);
}

std::string AttrsText(const Signature& signature) {
  std::vector<std::string> texts;
  for (const Label& attr : signature.attrs) {
    texts.push_back(StrCat(attr.name, attr.optional ? "?" : ""));
  }
  return Join(texts);
}

std::string Row(OpKind op, const Samples& samples, const Signature& signature) {
  const OpDef& def = GetOpDef(op);
  const Sample& sample = samples.whole;
  const size_t most_results = samples.of_results.results.size();
  LabelOf(signature.results, most_results - 1);
  STOWAGE_CHECK(sample.operands.size() >= signature.operands.size());
  STOWAGE_CHECK(most_results >= signature.results.size());
  if (!sample.operands.empty()) {
    LabelOf(signature.operands, sample.operands.size() - 1);
  }
  size_t listed = 0;  // of the sample's attributes
  for (const Label& attr : signature.attrs) {
    const bool is_there = sample.attrs.Find(attr.name) != nullptr;
    STOWAGE_CHECK(is_there || attr.optional);
    listed += is_there ? 1 : 0;
  }
  STOWAGE_CHECK(listed == sample.attrs.entries().size());
  const TypeWords words(TypingsOf(op, sample));
  const bool has_all = sample.results.size() >= signature.results.size();
  const TypeWords of_results(
      TypingsOf(op, has_all ? sample : samples.of_results));
  const std::string operands =
      ValuesText(signature.operands, true, def.host_inputs, words, words);
  const std::string results =
      ValuesText(signature.results, false,
                 def.results_on_host ? ~uint32_t{0} : 0, words, of_results);
  return StrCat("| `", OpName(op), "` | ", operands,
                operands.empty() ? "→ " : " → ", results, " | ", words.OfT(),
                " | ", AttrsText(signature), " | ", MemoryText(op, signature),
                " | ", GradientText(op, sample, signature), " |\n");
}

bool HasGraphs(OpKind op) {
  return op == OpKind::kLoop || op == OpKind::kCond ||
         op == OpKind::kFusedElementwise || op == OpKind::kFusedMatMul;
}

// Of an op with graphs in it, whose types are what these make of them.
std::string RowOfGraphs(OpKind op, const Signature& signature) {
  const auto names = [](const std::vector<Label>& labels) {
    std::vector<std::string> texts;
    for (const Label& label : labels) {
      texts.push_back(StrCat(label.name, label.repeated ? "..." : ""));
    }
    return Join(texts);
  };
  const Vjp& vjp = GetVjp(op);
  return StrCat("| `", OpName(op), "` | ", names(signature.operands), " → ",
                names(signature.results), " |  | ", AttrsText(signature),
                " |  | ",
                vjp.refusal != nullptr
                    ? StrCat("none: ", vjp.refusal)
                    : std::string("operands with a gradient in a body"),
                " |\n");
}

}  // namespace

std::string MakeOpTable(std::string_view ops_def) {
  const std::map<std::string, Entry> entries = ParseOpsDef(ops_def);
  const std::map<OpKind, Samples> samples = MakeSamples();
  std::string out(kIntroduction);
  std::string section;
  for (int i = 0; i < kNumOps; ++i) {
    const auto op = static_cast<OpKind>(i);
    const Entry& entry = entries.at(std::string(OpName(op)));
    if (entry.section != section) {
      section = entry.section;
      out += StrCat("\n## ", section,
                    "\n\n| op | operands → results | T | attributes | in "
                    "memory | gradient |\n|---|---|---|---|---|---|\n");
    }
    out += HasGraphs(op) ? RowOfGraphs(op, entry.signature)
                         : Row(op, samples.at(op), entry.signature);
  }
  return out;
}

}  // namespace stowage::testing
