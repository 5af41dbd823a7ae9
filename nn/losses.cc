#include "nn/losses.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "ir/weight_type.h"

namespace stowage {

namespace {

// Records an error of the loss called `name`.
Value FailLoss(Value at, std::string_view name, std::string_view message,
               SourceLoc loc) {
  return at.builder()->Fail(StrCat("[", name, "] ", message), loc);
}

// Returns whether two operands are valid and of one type; else an error is recorded.
bool Agree(Value a, Value b, std::string_view name, SourceLoc loc) {
  if (!a.ok() || !b.ok()) return false;
  if (a.shape() == b.shape() && a.dtype() == b.dtype() && IsFloat(a.dtype())) {
    return true;
  }
  FailLoss(a, name,
           StrCat("the operands are ", a.type().ToString(), " and ",
                  b.type().ToString(), "; expected one shape and float type"),
           loc);
  return false;
}

bool IsPositive(Value at, std::string_view name, std::string_view what,
                double value, SourceLoc loc) {
  if (value > 0 && std::isfinite(value)) return true;
  if (at.ok()) {
    FailLoss(at, name,
             StrCat(what, " is ", value, "; expected a finite number above 0"),
             loc);
  }
  return false;
}

Value Reduce(Value x, Reduction reduction, SourceLoc loc) {
  return reduction == Reduction::kMean ? ReduceMean(x, {}, false, loc)
                                       : ReduceSum(x, {}, false, loc);
}

// A scalar of x's type, for broadcasting.
Value Scalar(Value x, double value, SourceLoc loc) {
  return Fill(*x.builder(), value, x.dtype(), {}, loc);
}

// c - x.
Value From(double c, Value x, SourceLoc loc) {
  return AddScalar(Neg(x, loc), c, loc);
}

// d^2 / 2 up to |d| = edge, and its tangent beyond. With c = min(|d|, edge) this is
// c (|d| - c / 2): no branch, and at |d| = edge both derivatives of the minimum agree.
Value Rounded(Value d, double edge, SourceLoc loc) {
  const Value size = Abs(d, loc);
  const Value c = Minimum(size, Scalar(d, edge, loc), loc);
  return Mul(c, Sub(size, MulScalar(c, 0.5, loc), loc), loc);
}

// log(1 + e^-x) = max(-x, 0) + log(1 + e^-|x|). At 0 the maximum's derivative is
// -1/2 and that of the rest 0, with the correct sum.
Value SoftplusOfNegative(Value x, SourceLoc loc) {
  const Value tail =
      Log(AddScalar(Exp(Neg(Abs(x, loc), loc), loc), 1, loc), loc);
  return Add(Maximum(Neg(x, loc), Scalar(x, 0, loc), loc), tail, loc);
}

// The last axis of a tensor, and the number of its rows.
struct Rows {
  int64_t count = 1;
  int64_t width = 1;
};
Rows LossRowsOf(const Shape& shape) {
  Rows rows{.count = 1, .width = shape.back()};
  for (int i = 0; i + 1 < shape.rank(); ++i) rows.count *= shape[i];
  return rows;
}

template <typename T>
Value ConstantOf(GraphBuilder& g, const std::vector<T>& values, SourceLoc loc) {
  return Constant(g, DTypeOf<T>(), {static_cast<int64_t>(values.size())},
                  std::as_bytes(std::span(values)), loc);
}

// Shared by NllLoss and ClassCrossEntropy.
class ClassLoss {
 public:
  ClassLoss(std::string_view name, Value rows, Value labels,
            const ClassLossOptions& options, SourceLoc loc)
      : name_(name), options_(options), loc_(loc) {
    if (!rows.ok() || !labels.ok()) return;
    if (Check(rows, labels)) Prepare(rows, labels);
  }

  bool ok() const { return weights_.ok(); }

  // The weighted sum or mean of -log_probabilities[label] over the rows.
  Value Negative(Value log_probabilities) const {
    const Value rows =
        Reshape(log_probabilities, {size_.count, size_.width}, loc_);
    const Value picked =
        Reshape(TakeAlongAxis(rows, column_, -1, loc_), {size_.count}, loc_);
    return Divided(
        Neg(ReduceSum(Mul(picked, weights_, loc_), {}, false, loc_), loc_));
  }

  // The sum of the above over all classes in place of the label.
  Value NegativeOfAll(Value log_probabilities) const {
    Value rows = Reshape(log_probabilities, {size_.count, size_.width}, loc_);
    if (!options_.class_weights.empty()) rows = Mul(rows, table_, loc_);
    Value sums = ReduceSum(rows, {1}, false, loc_);
    if (counts_.ok()) sums = Mul(sums, counts_, loc_);
    return Divided(Neg(ReduceSum(sums, {}, false, loc_), loc_));
  }

 private:
  bool Check(Value rows, Value labels) const {
    const auto fail = [&](std::string_view message) {
      FailLoss(rows, name_, message, loc_);
      return false;
    };
    const Shape& shape = rows.shape();
    Shape outer;
    for (int i = 0; i + 1 < shape.rank(); ++i) outer.push_back(shape[i]);
    if (shape.rank() < 1 || !IsFloat(rows.dtype()) ||
        !IsIndex(labels.dtype()) || labels.shape() != outer) {
      return fail(StrCat("the rows are ", rows.type().ToString(),
                         " and the labels ", labels.type().ToString(),
                         "; expected floats (..., V) and i32 or i64 (...)"));
    }
    const std::vector<double>& weights = options_.class_weights;
    if (!weights.empty() && std::ssize(weights) != shape.back()) {
      return fail(StrCat(weights.size(), " class weights are given for ",
                         shape.back(), " classes"));
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      if (!(weights[i] >= 0) || !std::isfinite(weights[i])) {
        return fail(StrCat("class weight ", i, " is ", weights[i],
                           "; expected a finite number of at least 0"));
      }
    }
    const double smoothing = options_.label_smoothing;
    if (!(smoothing >= 0 && smoothing < 1)) {
      return fail(StrCat("label smoothing is ", smoothing,
                         "; expected at least 0 and below 1"));
    }
    return true;
  }

  void Prepare(Value rows, Value labels) {
    GraphBuilder& g = *rows.builder();
    const DType dtype = rows.dtype();
    size_ = LossRowsOf(rows.shape());
    Value label = Reshape(Cast(labels, DType::kI64, loc_), {size_.count}, loc_);
    if (options_.ignored_label) {
      const Value ignored =
          Fill(g, static_cast<double>(*options_.ignored_label), DType::kI64, {},
               loc_);
      const Value counts = NotEqual(label, ignored, loc_);
      label = Where(counts, label, Fill(g, 0, DType::kI64, {}, loc_), loc_);
      counts_ = Cast(counts, dtype, loc_);
    }
    // The gather of the weights also detects labels out of range.
    if (options_.class_weights.empty()) {
      table_ = Fill(g, 1, dtype, {size_.width}, loc_);
    } else {
      table_ = Cast(ConstantOf(g, options_.class_weights, loc_), dtype, loc_);
    }
    weights_ = Gather(table_, label, loc_);
    if (counts_.ok()) weights_ = Mul(weights_, counts_, loc_);
    column_ = Reshape(label, {size_.count, 1}, loc_);
  }

  Value Divided(Value sum) const {
    if (options_.reduction == Reduction::kSum) return sum;
    // If all rows are ignored, divides 0 by the smallest positive f16.
    const Value total = ReduceSum(weights_, {}, false, loc_);
    return Div(sum, Maximum(total, Scalar(total, 0x1p-24, loc_), loc_), loc_);
  }

  std::string_view name_;
  const ClassLossOptions& options_;
  SourceLoc loc_;
  Rows size_;
  Value table_;    // the weight of each class (V)
  Value counts_;   // 1 or 0 for each row, absent where all count
  Value weights_;  // of each row's class, 0 where the row does not count
  Value column_;   // of each row's label
};

}  // namespace

Value L1Loss(Value x, Value y, Reduction reduction, SourceLoc loc) {
  if (!Agree(x, y, "l1_loss", loc)) return {};
  return Reduce(Abs(Sub(x, y, loc), loc), reduction, loc);
}

Value MseLoss(Value x, Value y, Reduction reduction, SourceLoc loc) {
  if (!Agree(x, y, "mse_loss", loc)) return {};
  return Reduce(Square(Sub(x, y, loc), loc), reduction, loc);
}

Value HuberLoss(Value x, Value y, double delta, Reduction reduction,
                SourceLoc loc) {
  if (!IsPositive(x, "huber_loss", "delta", delta, loc) ||
      !Agree(x, y, "huber_loss", loc)) {
    return {};
  }
  return Reduce(Rounded(Sub(x, y, loc), delta, loc), reduction, loc);
}

Value SmoothL1Loss(Value x, Value y, double beta, Reduction reduction,
                   SourceLoc loc) {
  if (!IsPositive(x, "smooth_l1_loss", "beta", beta, loc) ||
      !Agree(x, y, "smooth_l1_loss", loc)) {
    return {};
  }
  return MulScalar(Reduce(Rounded(Sub(x, y, loc), beta, loc), reduction, loc),
                   1 / beta, loc);
}

Value BceWithLogits(Value logits, Value targets, const BceOptions& options,
                    SourceLoc loc) {
  if (!IsPositive(logits, "bce_with_logits", "positive_weight",
                  options.positive_weight, loc) ||
      !Agree(logits, targets, "bce_with_logits", loc)) {
    return {};
  }
  // (1 - y) x + (1 + (p - 1) y) log(1 + e^-x)
  Value rest = SoftplusOfNegative(logits, loc);
  if (options.positive_weight != 1) {
    const Value weight =
        AddScalar(MulScalar(targets, options.positive_weight - 1, loc), 1, loc);
    rest = Mul(weight, rest, loc);
  }
  const Value all = Add(Mul(From(1, targets, loc), logits, loc), rest, loc);
  return Reduce(all, options.reduction, loc);
}

Value KlDivergence(Value log_probabilities, Value probabilities,
                   Reduction reduction, SourceLoc loc) {
  if (!Agree(log_probabilities, probabilities, "kl_divergence", loc)) return {};
  // Where y is 0, takes log 1 and multiplies it by 0.
  const Value y = probabilities;
  const Value is_some = Greater(y, Scalar(y, 0, loc), loc);
  const Value log_y = Log(Where(is_some, y, Scalar(y, 1, loc), loc), loc);
  return Reduce(Mul(y, Sub(log_y, log_probabilities, loc), loc), reduction,
                loc);
}

Value CosineSimilarity(Value x, Value y, double eps, SourceLoc loc) {
  if (!IsPositive(x, "cosine_similarity", "eps", eps, loc) ||
      !Agree(x, y, "cosine_similarity", loc)) {
    return {};
  }
  if (x.rank() < 1) {
    return FailLoss(x, "cosine_similarity",
                    "the operands are scalars; expected "
                    "rows (..., C)",
                    loc);
  }
  const Axes last = {x.rank() - 1};
  const auto norm = [&](Value v) {
    // At least eps^2, so that the derivative of the root is finite.
    const Value squares = ReduceSum(Square(v, loc), last, false, loc);
    return Sqrt(Maximum(squares, Scalar(squares, eps * eps, loc), loc), loc);
  };
  return Div(ReduceSum(Mul(x, y, loc), last, false, loc),
             Mul(norm(x), norm(y), loc), loc);
}

Value CosineEmbeddingLoss(Value x, Value y, Value sides,
                          const CosineEmbeddingOptions& options,
                          SourceLoc loc) {
  // PyTorch adds eps to the squares here instead, with the same effect on rows that
  // are not 0.
  const Value cosine = CosineSimilarity(x, y, 1e-6, loc);
  if (!(options.margin >= -1 && options.margin <= 1) && cosine.ok()) {
    return FailLoss(cosine, "cosine_embedding_loss",
                    StrCat("margin is ", options.margin, "; expected -1 to 1"),
                    loc);
  }
  if (!Agree(cosine, sides, "cosine_embedding_loss", loc)) return {};
  const Value zero = Scalar(cosine, 0, loc);
  const Value apart = Relu(AddScalar(cosine, -options.margin, loc), loc);
  const Value loss =
      Where(Greater(sides, zero, loc), From(1, cosine, loc), apart, loc);
  return Reduce(loss, options.reduction, loc);
}

Value HingeLoss(Value scores, Value sides, Reduction reduction, SourceLoc loc) {
  if (!Agree(scores, sides, "hinge_loss", loc)) return {};
  return Reduce(Relu(From(1, Mul(scores, sides, loc), loc), loc), reduction,
                loc);
}

Value NllLoss(Value log_probabilities, Value labels,
              const ClassLossOptions& options, SourceLoc loc) {
  if (options.label_smoothing != 0 && log_probabilities.ok()) {
    return FailLoss(log_probabilities, "nll_loss",
                    StrCat("label smoothing is ", options.label_smoothing,
                           "; it is for class_cross_entropy, expected 0"),
                    loc);
  }
  const ClassLoss loss("nll_loss", log_probabilities, labels, options, loc);
  return loss.ok() ? loss.Negative(log_probabilities) : Value();
}

Value ClassCrossEntropy(Value logits, Value labels,
                        const ClassLossOptions& options, SourceLoc loc) {
  const ClassLoss loss("class_cross_entropy", logits, labels, options, loc);
  if (!loss.ok()) return {};
  const Value logs = LogSoftmax(logits, -1, loc);
  const Value nll = loss.Negative(logs);
  const double smoothing = options.label_smoothing;
  if (smoothing == 0) return nll;
  const double share = smoothing / static_cast<double>(logits.shape().back());
  return Add(MulScalar(nll, 1 - smoothing, loc),
             MulScalar(loss.NegativeOfAll(logs), share, loc), loc);
}

namespace {

constexpr std::string_view kLoss = "loss";

// Casts to the type in which losses are computed.
Value Wide(Value x) {
  const bool is_wide =
      x.ok() && (x.dtype() == DType::kF64 || x.dtype() == DType::kF32);
  return is_wide ? x : Cast(x, DType::kF32);
}

// (1 - s) times the cross-entropy plus s times the mean of -log softmax over all classes.
Value Smoothed(Value logits, Value labels, double smoothing) {
  const Value others = MulScalar(ReduceMean(LogSoftmax(Wide(logits))), -1);
  return Add(MulScalar(Wide(CrossEntropy(logits, labels)), 1 - smoothing),
             MulScalar(others, smoothing));
}

// As above, without the logits: both terms contain the log-sum-exp, so only the difference of
// the label's logit and the row's mean, x (w_label - mean of w), is needed.
Value SmoothedLinear(Value x, Value w, Value labels, Value weights,
                     int64_t chunk, double smoothing) {
  const Value loss =
      LinearCrossEntropy(x, w, labels, chunk, {.weights = weights});
  const Value wide = Wide(w);
  const Value above = Sub(Gather(wide, labels), ReduceMean(wide, {0}));
  Value rows = ReduceSum(Mul(Wide(x), above), {-1});
  if (weights.builder() != nullptr) rows = Mul(rows, weights);
  return Add(Wide(loss), MulScalar(ReduceMean(rows), smoothing));
}

}  // namespace

Result<Graph> WithLabelSmoothing(const Graph& graph, double smoothing) {
  if (!(smoothing >= 0 && smoothing < 1)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[label-smoothing] ", smoothing,
                        " is out of range; expected at least 0 and below 1")};
  }
  const auto output =
      std::ranges::find(graph.outputs(), kLoss, &GraphOutput::name);
  const NodeId producer = output == graph.outputs().end()
                              ? kNoNode
                              : graph.value(output->value).producer;
  const auto unsupported = [&](std::string_view what) {
    return Error{
        ErrorCode::kUnsupported,
        StrCat("[label-smoothing] ", what, " in graph ", Quoted(graph.name()),
               "; expected a loss that is a cross_entropy, or a "
               "linear_cross_entropy by a matrix of floats")};
  };
  if (producer == kNoNode) return unsupported("no op makes the loss");
  const Node& made = graph.node(producer);
  const bool is_linear = made.op == OpKind::kLinearCrossEntropy;
  if (!is_linear && made.op != OpKind::kCrossEntropy) {
    return unsupported(StrCat("the loss is made by ", OpName(made.op)));
  }
  if (is_linear && made.attrs.Int("blocks") != kNoBlocks) {
    return unsupported("the loss reads a matrix in blocks");
  }
  if (made.attrs.Find("softcap") != nullptr) {
    return unsupported("the loss caps its logits");
  }
  if (smoothing == 0) return graph;
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  copy.DeclareLeaves();
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (id != producer) {
      copy.CopyNode(id);
      continue;
    }
    copy.SetOrigin(id);
    const auto input = [&](size_t i) { return copy[made.inputs[i]]; };
    const Value loss =
        is_linear ? SmoothedLinear(input(0), input(1), input(2),
                                   made.inputs.size() > 3 ? input(3) : Value(),
                                   made.attrs.Int("chunk"), smoothing)
                  : Smoothed(input(0), input(1), smoothing);
    const std::string& name = graph.value(made.results[0]).name;
    copy.Map(made.results[0], g.Name(name, loss));
  }
  copy.DeclareOutputs();
  return g.Finish();
}

namespace {

constexpr std::array<std::string_view, 5> kObjectives = {"dpo", "ipo", "orpo",
                                                         "simpo", "kto"};

// Column i of (B, 2), as (B).
Value Column(Value pairs, int64_t i, SourceLoc loc) {
  if (!pairs.ok()) return pairs;
  return Reshape(Slice(pairs, 1, i, i + 1, 1, loc), {pairs.dim(0)}, loc);
}

// The chosen minus the rejected answer of each pair.
Value Difference(Value pairs, SourceLoc loc) {
  return Sub(Column(pairs, 0, loc), Column(pairs, 1, loc), loc);
}

// log(p / (1 - p)) of a log-probability, which is clamped slightly below 0.
Value LogOdds(Value log_prob, SourceLoc loc) {
  constexpr double kMin = 1e-7;
  const Value rest = AddScalar(Neg(Exp(log_prob, loc), loc), 1, loc);
  return Sub(log_prob, Log(Clamp(rest, kMin, 1, loc), loc), loc);
}

PreferenceResults Kto(const PreferenceInputs& inputs, double beta,
                      SourceLoc loc) {
  const Value above = Sub(inputs.log_probs, inputs.reference, loc);
  const Value mean = ReduceMean(Column(above, 1, loc), {}, false, loc);
  const Value k = StopGradient(Relu(mean, loc), loc);
  const Value margins =
      Mul(MulScalar(Sub(Column(above, 0, loc), k, loc), beta, loc),
          Sign(inputs.sides, loc), loc);
  return {.losses =
              Mul(Sigmoid(Neg(margins, loc), loc), Abs(inputs.sides, loc), loc),
          .margins = margins};
}

}  // namespace

std::optional<PreferenceObjective> FindPreferenceObjective(
    std::string_view name) {
  for (size_t i = 0; i < kObjectives.size(); ++i) {
    if (kObjectives[i] == name) return static_cast<PreferenceObjective>(i);
  }
  return std::nullopt;
}

std::string_view PreferenceObjectiveName(PreferenceObjective objective) {
  return kObjectives[static_cast<size_t>(objective)];
}

double UsualBeta(PreferenceObjective objective) {
  return objective == PreferenceObjective::kSimpo ? 2 : 0.1;
}

bool HasReference(PreferenceObjective objective) {
  return objective != PreferenceObjective::kOrpo &&
         objective != PreferenceObjective::kSimpo;
}

bool IsMeanOverTokens(PreferenceObjective objective) {
  return objective != PreferenceObjective::kDpo &&
         objective != PreferenceObjective::kKto;
}

bool IsPaired(PreferenceObjective objective) {
  return objective != PreferenceObjective::kKto;
}

Status CheckPreference(const PreferenceRules& rules) {
  const auto refuse = [&](std::string_view name, double value,
                          std::string_view expected) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[preference] ", name, " of ",
                        PreferenceObjectiveName(rules.objective), " is ", value,
                        "; expected a finite number ", expected)};
  };
  // In f32, as its factor.
  const auto beta = static_cast<float>(rules.beta);
  if (!std::isfinite(beta) || beta <= 0) {
    return refuse("beta", rules.beta, "above 0");
  }
  // IPO: the squared difference to 1 / (2 beta).
  if (rules.objective == PreferenceObjective::kIpo &&
      !std::isfinite(1 / (2 * beta) * (1 / (2 * beta)))) {
    return refuse("beta", rules.beta, "whose inverse has a square in f32");
  }
  const auto gamma = static_cast<float>(rules.gamma);
  if (!std::isfinite(gamma) || gamma < 0) {
    return refuse("gamma", rules.gamma, "of at least 0");
  }
  return {};
}

PreferenceResults PreferenceLoss(const PreferenceInputs& inputs,
                                 const PreferenceRules& rules, SourceLoc loc) {
  const double beta = rules.beta;
  if (rules.objective == PreferenceObjective::kKto) {
    return Kto(inputs, beta, loc);
  }
  const Value above = HasReference(rules.objective)
                          ? Sub(inputs.log_probs, inputs.reference, loc)
                          : inputs.log_probs;
  const Value margins = MulScalar(Difference(above, loc), beta, loc);
  switch (rules.objective) {
    case PreferenceObjective::kIpo: {
      const Value off = AddScalar(Difference(above, loc), -1 / (2 * beta), loc);
      return {.losses = Mul(off, off, loc), .margins = margins};
    }
    case PreferenceObjective::kOrpo: {
      const Value odds = Difference(LogOdds(inputs.log_probs, loc), loc);
      const Value of_odds = MulScalar(Softplus(Neg(odds, loc), loc), beta, loc);
      return {.losses = Add(inputs.nll, of_odds, loc), .margins = margins};
    }
    case PreferenceObjective::kSimpo:
      return {.losses =
                  Softplus(AddScalar(Neg(margins, loc), rules.gamma, loc), loc),
              .margins = margins};
    case PreferenceObjective::kDpo:
    case PreferenceObjective::kKto:  // above
      break;
  }
  return {.losses = Softplus(Neg(margins, loc), loc), .margins = margins};
}

}  // namespace stowage
