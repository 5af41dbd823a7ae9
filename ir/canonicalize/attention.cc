// Attention (Vaswani et al. 2017) as models and torch's exporters write it:
// softmax(scale q k^T + masks) v. The scale multiplies the scores or q and k, and masks are
// added or selected by where. A constant mask that hides later keys, or those outside a
// window, becomes an attribute, so that no mask is stored; any other mask is a bias. A query
// that -inf hides from all keys gets weights of zero, which exporters put in place of NaN.

#include <algorithm>
#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "ir/canonicalize/expressions.h"
#include "ir/ops.h"

namespace stowage::canonical {
namespace {

constexpr double kNever =
    -1e4;  // a number that hides a key when added to its score
constexpr double kModest =
    -100;  // that f32 adds to a score and keeps most of both
constexpr int kMaxScoresDepth = 8;

// An operation on scores: an addition, or setting them to kNever where a condition fails.
struct Mask {
  ValueId value = 0;
  bool is_condition = false;
  bool holds = true;  // a condition: whether keys are read where it is true
  double never = 0;   // a condition: what scores are where they are not read
};

struct Scores {
  const Node* product = nullptr;  // q k^T
  double factor = 1;
  std::vector<Mask> masks = {};
};

std::optional<Scores> ScoresOf(const Expressions& e, ValueId id, int depth) {
  const Graph& graph = e.graph();
  const NodeId producer = graph.value(id).producer;
  if (producer == kNoNode || depth == kMaxScoresDepth || e.uses(id) != 1)
    return {};
  const Node& node = graph.node(producer);
  const auto below = [&](size_t i) {
    return ScoresOf(e, node.inputs[i], depth + 1);
  };
  const auto times = [](std::optional<Scores> scores,
                        double number) -> std::optional<Scores> {
    if (!scores || !scores->masks.empty()) return {};
    scores->factor *= number;
    return scores;
  };
  switch (node.op) {
    case OpKind::kMatMul:
      return Scores{.product = &node};
    case OpKind::kMul:
      for (const size_t i : {0, 1}) {
        const auto number = e.Number(node.inputs[i]);
        if (number) return times(below(1 - i), *number);
      }
      return {};
    case OpKind::kDiv: {
      const auto number = e.Number(node.inputs[1]);
      if (!number || *number == 0) return {};
      return times(below(0), 1 / *number);
    }
    case OpKind::kAdd:
      for (const size_t i : {0, 1}) {
        auto scores = below(i);
        if (!scores) continue;
        scores->masks.push_back({.value = node.inputs[1 - i]});
        return scores;
      }
      return {};
    case OpKind::kWhere:
      for (const size_t i : {1, 2}) {
        const auto number = e.Number(node.inputs[3 - i]);
        if (!number || *number > kNever) continue;
        auto scores = below(i);
        if (!scores) continue;
        scores->masks.push_back(
            {.value = node.inputs[0], .is_condition = true, .holds = i == 1});
        return scores;
      }
      return {};
    default:
      return {};
  }
}

// The weights of values: a softmax, perhaps with zeros in place of NaN.
const Node* Weights(const Expressions& e, ValueId id) {
  if (const Node* guard = e.Made(id, OpKind::kWhere)) {
    const Node* isnan = e.Made(guard->inputs[0], OpKind::kNotEqual);
    const auto zero = e.Number(guard->inputs[1]);
    const ValueId weights = guard->inputs[2];
    if (isnan == nullptr || !zero || *zero != 0 || e.uses(id) != 1 ||
        isnan->inputs[0] != weights || isnan->inputs[1] != weights ||
        e.uses(weights) != 3) {
      return nullptr;
    }
    return e.Made(weights, OpKind::kSoftmax);
  }
  return e.uses(id) == 1 ? e.Made(id, OpKind::kSoftmax) : nullptr;
}

// The keys that a constant mask lets each query read, as a table of queries and keys that
// is the same for all examples and heads; nothing for other masks.
std::optional<std::vector<bool>> ReadBy(const Expressions& e, const Mask& mask,
                                        int64_t queries, int64_t keys) {
  const Narrow* narrow = NarrowOf(e, mask.value);
  if (narrow == nullptr || narrow->dims.size() < 2) return {};
  const auto last = narrow->dims.end() - 2;
  if (!std::all_of(narrow->dims.begin(), last,
                   [](int64_t dim) { return dim == 1; })) {
    return {};
  }
  std::vector<bool> reads;
  for (const double x : narrow->numbers) {
    if (!mask.is_condition && x != 0 && !(x <= kNever)) return {};
    reads.push_back(mask.is_condition ? (x != 0) == mask.holds : x == 0);
  }
  if (last[0] == queries && last[1] == keys) return reads;
  std::vector<bool> all;
  for (int64_t i = 0; i < queries * keys; ++i) {
    const int64_t row = last[0] == 1 ? 0 : i / keys;
    const int64_t column = last[1] == 1 ? 0 : i % keys;
    all.push_back(reads[Index(row * last[1] + column)]);
  }
  return all;
}

struct Pattern {
  bool causal = false;
  int64_t window = 0;
};

// The attributes of attention that equal such a table.
std::optional<Pattern> PatternOf(const std::vector<bool>& reads,
                                 int64_t queries, int64_t keys) {
  const int64_t table = queries * keys;
  if (std::ranges::all_of(reads, [](bool read) { return read; })) {
    return Pattern{};
  }
  if (queries > keys) return {};
  // The last query is aligned with the last key.
  int64_t window = 0;
  while (window < keys && reads[Index(table - 1 - window)]) ++window;
  const auto is_all = [&](auto&& holds) {
    for (int64_t q = 0; q < queries; ++q) {
      for (int64_t k = 0; k < keys; ++k) {
        if (reads[Index(q * keys + k)] != holds(q + keys - queries - k)) {
          return false;
        }
      }
    }
    return true;
  };
  if (is_all([](int64_t behind) { return behind >= 0; })) {
    return Pattern{.causal = true};
  }
  if (window > 0 &&
      is_all([&](int64_t behind) { return behind >= 0 && behind < window; })) {
    return Pattern{.causal = true, .window = window};
  }
  return {};
}

// Axes (examples, positions, heads, features) of an operand with the axes
// ([examples, [heads,]] positions, features), or (.., features, positions).
std::vector<std::vector<int>> InOrder(const Layout& layout, bool features_first,
                                      bool has_groups) {
  const size_t rank = layout.axes.size();
  auto positions = layout.axes[rank - 2], features = layout.axes[rank - 1];
  if (features_first) std::swap(positions, features);
  auto heads = rank == 4 ? layout.axes[1] : std::vector<int>();
  // Each head of a group reads the same keys.
  while (has_groups && !heads.empty() &&
         layout.parts[Index(heads.back())].repeated) {
    heads.pop_back();
  }
  return {layout.axes[0], positions, heads, features};
}

// Whether a value depends on an input of the graph, as a padding mask does.
bool DependsOnInput(const Graph& graph, ValueId id) {
  std::vector<ValueId> open = {id};
  std::set<ValueId> seen;
  while (!open.empty()) {
    const ValueId at = open.back();
    open.pop_back();
    if (!seen.insert(at).second) continue;
    const ValueInfo& value = graph.value(at);
    if (value.role == Role::kInput || value.role == Role::kState) return true;
    if (value.producer == kNoNode) continue;
    const Node& node = graph.node(value.producer);
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  return false;
}

// Whether a constant mask leaves every query a key with an unchanged score. The hidden keys
// then have a weight of zero whatever replaces their scores.
bool LeavesAKey(const Narrow& narrow, const Mask& mask, bool of_all) {
  const int64_t keys = narrow.dims.back();
  const auto count = std::ssize(narrow.numbers);
  for (int64_t row = 0; row < count; row += keys) {
    bool is_any = false, is_all = true;
    for (int64_t key = 0; key < keys; ++key) {
      const double x = narrow.numbers[Index(row + key)];
      const bool leaves =
          mask.is_condition ? (x != 0) == mask.holds : x >= kModest;
      is_any = is_any || leaves;
      is_all = is_all && (leaves || x == -INFINITY);
    }
    if (!is_any || (of_all && !is_all)) return false;
  }
  return true;
}

// Why a mask cannot be a bias, or "". The weights of a query whose keys are all hidden depend
// on how: after a finite number they are uniform, or as if no key were hidden.
std::string_view WhyNoBias(const Expressions& e, const Mask& mask,
                           bool is_causal) {
  const bool is_exact = mask.is_condition && mask.never == -INFINITY;
  if (const Narrow* narrow = NarrowOf(e, mask.value)) {
    if (narrow->dims.empty()) return "a mask is one number";
    if (is_exact && !is_causal) return "";
    return LeavesAKey(*narrow, mask, is_causal)
               ? ""
               : "a mask of constants keeps a query from all keys";
  }
  if (mask.is_condition) {
    return is_exact && !is_causal ? ""
                                  : "a condition may keep a query from all "
                                    "keys by a number";
  }
  if (is_causal && DependsOnInput(e.graph(), mask.value)) {
    return "a mask that is given may keep a query from all earlier keys";
  }
  return "";
}

// A mask as the bias of attention: of rank 4, with keys.
Value BiasOf(Value mask, const Mask& kind, bool is_given, DType dtype,
             int64_t keys, size_t rank) {
  GraphBuilder& g = *mask.builder();
  const Shape given = mask.shape();
  std::vector<int64_t> sizes(given.begin(), given.end());
  while (sizes.size() < rank) sizes.insert(sizes.begin(), 1);
  if (rank == 3) sizes.insert(sizes.begin() + 1, 1);
  const Shape shape{std::span<const int64_t>(sizes)};
  if (mask.shape() != shape) mask = Reshape(mask, shape);
  if (kind.is_condition) {
    const Value zeros = Fill(g, 0, dtype, shape);
    const Value never = Fill(g, -INFINITY, dtype, shape);
    mask = kind.holds ? Where(mask, zeros, never) : Where(mask, never, zeros);
  } else if (is_given && sizes.back() > 1) {
    // For a query from which -1e9 hides all keys, the weights are those without the mask;
    // f32 cannot hold the sum of both.
    const Value largest = ReduceMax(mask, {3}, /*keep=*/true);
    const double lowest = dtype == DType::kF16 ? -65504.0 : -FLT_MAX;
    const Value finite =
        Maximum(largest, Fill(g, lowest, dtype, largest.shape()));
    mask = Sub(mask, BroadcastTo(finite, shape));
  }
  if (sizes.back() == keys) return mask;
  sizes.back() = keys;
  return BroadcastTo(mask, Shape{std::span<const int64_t>(sizes)});
}

}  // namespace

std::optional<Match> MatchAttention(const Expressions& e, NodeId id) {
  const Graph& graph = e.graph();
  const Node& node = graph.node(id);
  const TensorType& type = graph.value(node.results[0]).type;
  const size_t rank = static_cast<size_t>(type.shape.rank());
  if (node.op != OpKind::kMatMul || (rank != 3 && rank != 4) ||
      node.attrs.Int("transpose_a") == 1) {
    return {};
  }
  const Node* softmax = Weights(e, node.inputs[0]);
  if (softmax == nullptr) return {};
  const auto miss = [&](std::string_view why) -> std::optional<Match> {
    e.Miss("attention", node.results[0], why);
    return {};
  };
  const auto scores = ScoresOf(e, softmax->inputs[0], 0);
  if (!scores || scores->product->attrs.Int("transpose_a") == 1) {
    return miss("its scores are no product times a number, plus masks");
  }

  const Layout q = LayoutOf(e, scores->product->inputs[0]);
  const Layout k = LayoutOf(e, scores->product->inputs[1]);
  const Layout v = LayoutOf(e, node.inputs[1]);
  if (q.axes.size() != rank || k.axes.size() != rank || v.axes.size() != rank ||
      v.factor != 1) {
    return miss("its operands have other axes than its result");
  }
  const auto q_axes = InOrder(q, false, /*has_groups=*/false);
  const auto k_axes =
      InOrder(k, scores->product->attrs.Int("transpose_b") != 1, true);
  const auto v_axes = InOrder(v, node.attrs.Int("transpose_b") == 1, true);
  const int64_t queries = SizeOf(q, q_axes[1]), keys = SizeOf(k, k_axes[1]);
  const double scale = scores->factor * q.factor * k.factor;
  if (!(scale > 0)) return miss("its scale is not above 0");
  if (!IsWhole(q, q_axes) || !IsWhole(k, k_axes) || !IsWhole(v, v_axes)) {
    return miss("an operand is repeated along another axis than the heads");
  }
  if (SizeOf(q, q_axes[3]) != SizeOf(v, v_axes[3])) {
    return miss("values have other features than queries");
  }
  if (SizeOf(k, k_axes[2]) != SizeOf(v, v_axes[2]) ||
      keys != SizeOf(v, v_axes[1])) {
    return miss("keys and values have other heads");
  }

  Pattern pattern;
  std::optional<Mask> bias;
  for (const Mask& mask : scores->masks) {
    const auto reads = ReadBy(e, mask, queries, keys);
    const auto known = reads ? PatternOf(*reads, queries, keys) : std::nullopt;
    if (known && (!pattern.causal || !known->causal)) {
      if (known->causal) pattern = *known;
      continue;
    }
    if (bias) return miss("two of its masks are no causal ones");
    bias = mask;
  }
  bool is_given = false;
  if (bias) {
    const std::string_view why = WhyNoBias(e, *bias, pattern.causal);
    if (!why.empty()) return miss(why);
    is_given = DependsOnInput(graph, bias->value);
    bias->value = e.Unrepeated(bias->value);
  }
  std::vector<ValueId> operands = {q.source, k.source, v.source};
  if (bias) operands.push_back(bias->value);
  return Match{
      "attention", operands,
      [=, dtype = type.dtype, shape = type.shape](GraphBuilder&,
                                                  auto given) -> Value {
        AttentionOptions options{
            .scale = scale, .causal = pattern.causal, .window = pattern.window};
        if (bias)
          options.bias = BiasOf(given[3], *bias, is_given, dtype, keys, rank);
        const Value made = Attention(Arranged(q, q_axes, given[0]),
                                     Arranged(k, k_axes, given[1]),
                                     Arranged(v, v_axes, given[2]), options);
        const Value heads_first = Permute(made, {0, 2, 1, 3});
        return heads_first.shape() == shape ? heads_first
                                            : Reshape(heads_first, shape);
      }};
}

}  // namespace stowage::canonical
