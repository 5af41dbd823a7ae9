#include "train/evaluation.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/ops.h"

namespace stowage {
namespace {

constexpr std::array<std::pair<Metric, std::string_view>, 5> kMetrics = {
    {{Metric::kAccuracy, "accuracy"},
     {Metric::kTop5, "top5"},
     {Metric::kF1Macro, "f1_macro"},
     {Metric::kF1Micro, "f1_micro"},
     {Metric::kMeanIou, "mean_iou"}}};

// The only cross-entropy on which an output depends.
const Node* CrossEntropyOf(const Graph& graph, std::string_view loss) {
  std::vector<bool> is_needed(Index(graph.num_values()), false);
  for (const GraphOutput& output : graph.outputs()) {
    if (output.name == loss) is_needed[Index(output.value)] = true;
  }
  const Node* found = nullptr;
  for (NodeId id = graph.num_nodes(); id-- > 0;) {
    const Node& node = graph.node(id);
    const bool is_read = std::ranges::any_of(
        node.results, [&](ValueId result) { return is_needed[Index(result)]; });
    if (!is_read) continue;
    if (node.op == OpKind::kCrossEntropy) {
      if (found != nullptr) return nullptr;
      found = &node;
    }
    for (const ValueId input : node.inputs) is_needed[Index(input)] = true;
  }
  return found;
}

// A copy of an input, which may not be an output itself.
Value AsI32(Value labels) {
  return labels.dtype() == DType::kI32 ? Copy(labels)
                                       : Cast(labels, DType::kI32);
}

// The number of logits (..., C) that are larger than the label's.
Value LabelRanks(Value logits, Value labels) {
  const Shape shape = labels.shape();
  Shape column = shape;
  column.push_back(1);
  const int64_t axis = logits.shape().rank() - 1;
  const Value own = TakeAlongAxis(logits, Reshape(labels, column), axis);
  const Value larger = Greater(logits, BroadcastTo(own, logits.shape()));
  return Reshape(ReduceSum(Cast(larger, DType::kI32), {axis}), shape);
}

}  // namespace

std::string_view MetricName(Metric metric) {
  return std::ranges::find(kMetrics, metric,
                           &decltype(kMetrics)::value_type::first)
      ->second;
}

std::string MetricChoices() {
  std::string choices;
  for (size_t i = 0; i < kMetrics.size(); ++i) {
    choices += StrCat(i == 0                    ? ""
                      : i + 1 < kMetrics.size() ? ", "
                                                : " or ",
                      kMetrics[i].second);
  }
  return choices;
}

Result<Metric> ParseMetric(std::string_view name) {
  for (const auto& [metric, known] : kMetrics) {
    if (known == name) return metric;
  }
  return InvalidArgumentError("[metrics] there is no metric ", Quoted(name),
                              "; expected ", MetricChoices());
}

double ClassCounts::Value(Metric metric) const {
  double rows = 0, both = 0, f1 = 0, iou = 0, seen = 0;
  for (size_t i = 0; i < classes_; ++i) {
    const double labels = sums_[i], predictions = sums_[classes_ + i];
    const double hits = sums_[2 * classes_ + i];
    rows += labels;
    both += hits;
    if (labels + predictions == 0) continue;
    seen += 1;
    f1 += 2 * hits / (labels + predictions);
    iou += hits / (labels + predictions - hits);
  }
  if (rows == 0) return std::numeric_limits<double>::quiet_NaN();
  switch (metric) {
    case Metric::kAccuracy:
    case Metric::kF1Micro:
      return both / rows;
    case Metric::kTop5:
      return sums_.back() / rows;
    case Metric::kF1Macro:
      return f1 / seen;
    case Metric::kMeanIou:
      return iou / seen;
  }
  return 0;
}

std::optional<int64_t> ClassesOf(const Graph& evaluation,
                                 std::string_view loss) {
  const Node* const node = CrossEntropyOf(evaluation, loss);
  if (node == nullptr) return std::nullopt;
  return evaluation.value(node->inputs[0]).type.shape.back();
}

Result<Graph> WithPredictions(const Graph& evaluation, std::string_view loss) {
  const Node* const node = CrossEntropyOf(evaluation, loss);
  if (node == nullptr) return evaluation;
  GraphBuilder g(evaluation.name());
  GraphCopy copy(evaluation, &g);
  copy.DeclareLeaves();
  for (NodeId id = 0; id < evaluation.num_nodes(); ++id) copy.CopyNode(id);
  copy.DeclareOutputs();
  const Value logits = copy[node->inputs[0]], labels = copy[node->inputs[1]];
  const bool has_predictions = std::ranges::any_of(
      evaluation.outputs(),
      [](const GraphOutput& output) { return output.name == "predictions"; });
  if (!has_predictions) g.Output("predictions", ArgMax(logits));
  g.Output("label_classes", AsI32(labels));
  g.Output("label_ranks", LabelRanks(logits, labels));
  return g.Finish();
}

namespace {

// Parses a number, and a space or the end, from the front of `text`.
template <typename T>
bool Take(std::string_view* text, T* value) {
  const char* const end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, *value);
  if (parsed.ec != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(parsed.ptr - text->data()));
  if (text->starts_with(' ')) text->remove_prefix(1);
  return true;
}

}  // namespace

bool EvaluationHistory::Add(int64_t step, double loss) {
  last_step = step;
  const bool is_best =
      std::isfinite(loss) && (best_step == 0 || loss < best_loss);
  if (!is_best) {
    ++since_best;
    return false;
  }
  best_step = step;
  best_loss = loss;
  since_best = 0;
  return true;
}

std::string ToText(const EvaluationHistory& history) {
  return StrCat(history.last_step, " ", history.best_step, " ",
                history.best_loss, " ", history.since_best);
}

Result<EvaluationHistory> ParseEvaluationHistory(std::string_view text) {
  EvaluationHistory history;
  std::string_view rest = text;
  const bool is_one =
      Take(&rest, &history.last_step) && Take(&rest, &history.best_step) &&
      Take(&rest, &history.best_loss) && Take(&rest, &history.since_best) &&
      rest.empty() && history.best_step >= 0 && history.since_best >= 0 &&
      history.last_step >= history.best_step &&
      std::isfinite(history.best_loss);
  if (is_one) return history;
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[evaluations] ", Quoted(text),
                      " is no history of evaluations; expected the last step, "
                      "the best one, its loss and the evaluations since")};
}

}  // namespace stowage
