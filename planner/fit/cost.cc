#include "planner/fit/cost.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/attrs.h"
#include "ir/bodies.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/text.h"
#include "planner/fit/offload/offload.h"

namespace stowage::fit {

std::vector<double> FlopsOfNodes(const Graph& graph) {
  std::vector<double> flops;
  for (const Node& node : graph.nodes()) {
    flops.push_back(NodeFlops(graph, node));
  }
  return flops;
}

std::vector<double> CostsOfNodes(const Graph& graph, const CostFn& cost,
                                 double per_byte) {
  std::vector<double> costs = cost ? cost(graph) : FlopsOfNodes(graph);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    costs[static_cast<size_t>(id)] +=
        per_byte * static_cast<double>(BytesCopied(graph, graph.node(id)));
  }
  return costs;
}

bool HoldsCollectives(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return GetOpDef(node.op).collective ||
           std::ranges::any_of(BodiesOf(node), [](const auto& body) {
             return HoldsCollectives(*body);
           });
  });
}

}  // namespace stowage::fit

namespace stowage {

namespace {

constexpr Bytes kMaxBytes = Bytes{1} << 62;

// Ten days an op, and sums and ratios of the like of it are exact enough.
constexpr double kMaxNanoseconds = 1e15;
constexpr std::string_view kHeading = "stowage-op-times 2";

Error Fail(int line, std::string_view message) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[op-times] line ", line, ": ", message)};
}

// Attributes as the text of graphs has them, but for the contents of constants and
// bodies.
std::string AttrsOf(const Node& node) {
  Attrs attrs;
  for (const auto& [name, value] : node.attrs.entries()) {
    if (const auto* contents = std::get_if<std::string>(&value)) {
      attrs.Set(name, static_cast<int64_t>(contents->size()));
    } else if (const auto* bodies = std::get_if<SubGraphs>(&value)) {
      Fnv1a digest;
      for (const auto& body : *bodies) digest.Update(ToText(*body));
      attrs.Set(name, static_cast<int64_t>(digest.digest() >> 1));
    } else {
      attrs.Set(name, value);
    }
  }
  return AttrsText(attrs);
}

// Parts a signature into its form and the numbers of its types and strides.
void SplitSignature(std::string_view signature, std::string* form,
                    std::vector<double>* sizes) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t at = 0;
  for (; at < signature.size() && signature[at] != '{'; ++at) {
    if (!is_digit(signature[at])) {
      form->push_back(signature[at]);
      continue;
    }
    if (at == 0 || !is_digit(signature[at - 1])) sizes->push_back(0);
    sizes->back() = 10 * sizes->back() + (signature[at] - '0');
  }
  form->append(signature.substr(at));
}

double Distance(double a, double b) {
  return std::abs(std::log((1 + a) / (1 + b)));
}

double Median(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The number that `text` begins with; takes it and the space after it.
bool TakeNumber(std::string_view* text, double* number) {
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, *number);
  if (error != std::errc() || rest == end || *rest != ' ') return false;
  text->remove_prefix(static_cast<size_t>(rest - text->data()) + 1);
  return std::isfinite(*number) && *number >= 0;
}

}  // namespace

double OpTimes::Row::Nanoseconds(Bytes arena) const {
  STOWAGE_CHECK(!measured.empty());
  const auto distance = [&](const auto& entry) {
    return Distance(static_cast<double>(entry.first),
                    static_cast<double>(arena));
  };
  return Median(std::ranges::min_element(measured, {}, distance)->second);
}

// What identifies each node that is no view; empty for views.
std::vector<OpTimes::Signed> OpTimes::Sign(const Graph& graph) {
  const Layouts layouts = ComputeLayouts(graph);
  std::vector<Signed> all;
  for (const Node& node : graph.nodes()) {
    Signed& made = all.emplace_back();
    if (GetOpDef(node.op).is_view()) continue;
    made.row.op = OpName(node.op);
    made.row.flops = NodeFlops(graph, node);
    made.signature = StrCat(made.row.op, "(");
    for (const ValueId input : node.inputs) {
      const TensorType& type = graph.value(input).type;
      const Strides& strides = layouts[static_cast<size_t>(input)].strides;
      if (made.signature.back() != '(') made.signature += ", ";
      made.signature += type.ToString();
      if (!IsContiguous(type.shape, strides)) {
        const std::string text = strides.ToString();  // in parentheses
        made.signature += StrCat("[", text.substr(1, text.size() - 2), "]");
      }
      made.row.bytes += static_cast<double>(type.bytes());
    }
    made.signature += ") ->";
    for (const ValueId result : node.results) {
      const TensorType& type = graph.value(result).type;
      made.signature += StrCat(" ", type.ToString());
      made.row.bytes += static_cast<double>(type.bytes());
    }
    made.signature += AttrsOf(node);
    SplitSignature(made.signature, &made.row.form, &made.row.sizes);
  }
  return all;
}

void OpTimes::Add(const Graph& graph, Bytes arena,
                  std::span<const double> seconds) {
  STOWAGE_CHECK(seconds.size() == static_cast<size_t>(graph.num_nodes()));
  std::vector<Signed> nodes = Sign(graph);
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].signature.empty()) continue;
    const auto [entry, is_new] = rows_.try_emplace(
        std::move(nodes[n].signature), std::move(nodes[n].row));
    // What takes no time at all was measured by too coarse a clock.
    entry->second.measured[arena].push_back(
        std::max(1.0, std::round(1e9 * seconds[n])));
  }
}

std::string OpTimes::ToText() const {
  std::string text = StrCat(kHeading, "\n");
  for (const auto& [signature, row] : rows_) {
    for (const auto& [arena, nanoseconds] : row.measured) {
      text += StrCat(arena, " ", Fixed(Median(nanoseconds), 0), " ",
                     Fixed(row.flops, 0), " ", Fixed(row.bytes, 0), " ",
                     signature, "\n");
    }
  }
  return text;
}

Result<OpTimes> OpTimes::Parse(std::string_view text) {
  OpTimes times;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (number == 1) {
      if (line == kHeading) continue;
      return Fail(1, StrCat(Quoted(line.substr(0, 40)),
                            " is no heading of op "
                            "times; expected ",
                            Quoted(kHeading)));
    }
    if (line.empty() || line.front() == '#') continue;
    Row row;
    double arena = 0, nanoseconds = 0;
    if (!TakeNumber(&line, &arena) || !TakeNumber(&line, &nanoseconds) ||
        !TakeNumber(&line, &row.flops) || !TakeNumber(&line, &row.bytes) ||
        nanoseconds <= 0 || arena > kMaxBytes) {
      return Fail(number,
                  "expected bytes of the arena, nanoseconds above 0, "
                  "operations and bytes, then the op");
    }
    if (nanoseconds < 1 || nanoseconds > kMaxNanoseconds) {
      return Fail(number, StrCat(nanoseconds, " nanoseconds; expected 1 to ",
                                 kMaxNanoseconds));
    }
    for (const double amount : {row.flops, row.bytes}) {
      if (amount != std::floor(amount) || amount > kMaxBytes) {
        return Fail(number, StrCat(amount,
                                   " operations or bytes; expected a "
                                   "whole number, at most ",
                                   kMaxBytes));
      }
    }
    row.op = line.substr(0, line.find('('));
    SplitSignature(line, &row.form, &row.sizes);
    if (row.op.empty() || row.op.size() == line.size()) {
      return Fail(number, StrCat(Quoted(line.substr(0, 40)),
                                 " is no op with its operands"));
    }
    Row& of_op = times.rows_.try_emplace(std::string(line), std::move(row))
                     .first->second;
    std::vector<double>& measured = of_op.measured[static_cast<Bytes>(arena)];
    if (!measured.empty()) {
      return Fail(number, StrCat(Quoted(line), " stands here a second time"));
    }
    measured.push_back(nanoseconds);
  }
  if (times.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "[op-times] there are no rows; `stowage time` writes them"};
  }
  return times;
}

double OpTimes::Estimate(const Row& of, Bytes arena) const {
  enum Likeness { kUnlike, kSameOp, kSameForm };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto between_sizes = [&](const Row& row) {
    double sum = 0;
    for (size_t i = 0; i < of.sizes.size(); ++i) {
      sum += Distance(row.sizes[i], of.sizes[i]);
    }
    return sum;
  };
  STOWAGE_CHECK(!rows_.empty());
  Likeness best = kUnlike;
  double least_rank = kInfinity;
  double estimate = 0;
  double shortest = kInfinity;
  for (const auto& [signature, row] : rows_) {
    const double nanoseconds = row.Nanoseconds(arena);
    shortest = std::min(shortest, nanoseconds);
    // A row of a file may lack a size where the form has one.
    const Likeness likeness =
        row.form == of.form && row.sizes.size() == of.sizes.size() ? kSameForm
        : row.op == of.op                                          ? kSameOp
                                                                   : kUnlike;
    if (likeness < best) continue;
    const bool by_flops = likeness != kUnlike && of.flops > 0 && row.flops > 0;
    const double scaled =
        nanoseconds *
        (by_flops ? of.flops / row.flops : (1 + of.bytes) / (1 + row.bytes));
    const double rank =
        likeness == kSameForm ? between_sizes(row)
        : likeness == kSameOp
            ? scaled
            : Distance(row.bytes, of.bytes) + Distance(row.flops, of.flops);
    if (likeness == best && rank >= least_rank) continue;
    best = likeness;
    least_rank = rank;
    estimate = scaled;
  }
  return std::max(estimate, shortest);
}

std::vector<double> OpTimes::Nanoseconds(const Graph& graph,
                                         Bytes arena) const {
  std::vector<double> all;
  for (const Signed& node : Sign(graph)) {
    const Node& of = graph.node(static_cast<NodeId>(all.size()));
    const auto row = rows_.find(node.signature);
    if (node.signature.empty()) {
      all.push_back(0);
    } else if (row != rows_.end()) {
      all.push_back(row->second.Nanoseconds(arena));
    } else if (BodiesOf(of).empty()) {
      all.push_back(Estimate(node.row, arena));
    } else {  // by the ops of what it runs
      double longest = 0;
      for (const auto& body : BodiesOf(of)) {
        longest = std::max(longest, 1e9 * StepSeconds(*body, arena));
      }
      all.push_back(static_cast<double>(IterationsOf(of)) * longest);
    }
  }
  return all;
}

int OpTimes::CountEstimated(const Graph& graph) const {
  const std::vector<Signed> nodes = Sign(graph);
  return static_cast<int>(std::ranges::count_if(nodes, [&](const Signed& node) {
    return !node.signature.empty() && !rows_.contains(node.signature);
  }));
}

double OpTimes::StepSeconds(const Graph& graph, Bytes arena) const {
  const std::vector<double> nanoseconds = Nanoseconds(graph, arena);
  return 1e-9 * std::accumulate(nanoseconds.begin(), nanoseconds.end(), 0.0);
}

CostFn OpTimes::CostFunction(std::optional<Bytes> arena) const {
  return [times = *this, arena = arena.value_or(kMaxBytes)](
             const Graph& graph) { return times.Nanoseconds(graph, arena); };
}

}  // namespace stowage
