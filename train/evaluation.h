#ifndef STOWAGE_TRAIN_EVALUATION_H_
#define STOWAGE_TRAIN_EVALUATION_H_

// Computes metrics of classifiers, and records the evaluations of a run.
//
// Metrics (accuracy, F1, intersection over union) are defined as in scikit-learn. An evaluation
// program outputs three integers for each label (WithPredictions), and the host counts them by
// class. Neither logits nor a confusion matrix are stored. A label may belong to an example, a
// pixel or a token.
//
//   ProgramSpec evaluate{.name = "evaluate", .batch = 64};
//   evaluate.model = [](int64_t batch) {
//     STOWAGE_ASSIGN_OR_RETURN(const Graph graph, MyEvaluation(batch));
//     return WithPredictions(graph);
//   };
//   ...
//   ClassCounts counts(/*classes=*/10);
//   for (const Batch& batch : validation_set) {
//     ... write the batch, run the step, read the three outputs ...
//     counts.Add(predictions, label_classes, label_ranks);
//   }
//   double f1 = counts.Value(Metric::kF1Macro);
//
// EvaluationHistory records the lowest validation loss, for early stopping:
//
//   EvaluationHistory history;
//   if (history.Add(step, loss)) SaveBest();
//   if (history.since_best == patience) break;

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

enum class Metric : uint8_t {
  kAccuracy,  // fraction of labels that equal the prediction
  kTop5,      // fraction of labels whose logit is among the 5 largest
  kF1Macro,   // mean over classes of F1 = 2 TP / (2 TP + FP + FN)
  kF1Micro,   // F1 of the summed counts, which here equals the accuracy
  kMeanIou,   // mean over classes of TP / (TP + FP + FN)
};

/// Returns "accuracy", "top5", "f1_macro", "f1_micro" or "mean_iou".
std::string_view MetricName(Metric metric);
/// Returns all names, for messages: "accuracy, top5, ... or mean_iou".
std::string MetricChoices();
/// Returns the metric named `name`. Returns kInvalidArgument, listing the choices, if there is no
/// such metric.
Result<Metric> ParseMetric(std::string_view name);

/// Counts labels and predictions by class. Only the constructor allocates.
class ClassCounts {
 public:
  /// Creates counts for the labels 0 to classes - 1. Requires `classes >= 1`.
  explicit ClassCounts(int64_t classes)
      : classes_(static_cast<size_t>(classes)), sums_(3 * classes_ + 1) {}

  /// Counts one row: the predicted class, the class that is its label, and `rank`, the number of
  /// classes whose logit is larger than the label's logit. Requires that the prediction and the
  /// label are in [0, classes).
  void Add(int64_t prediction, int64_t label, int64_t rank) {
    sums_[static_cast<size_t>(label)] += 1;
    sums_[classes_ + static_cast<size_t>(prediction)] += 1;
    if (prediction == label)
      sums_[2 * classes_ + static_cast<size_t>(label)] += 1;
    if (rank < 5) sums_.back() += 1;
  }
  /// Counts the rows whose labels are in [0, classes). Other rows are skipped, as the loss ignores
  /// them. The spans must have equal sizes, and the predictions of counted rows must be in [0,
  /// classes).
  void Add(std::span<const int32_t> predictions,
           std::span<const int32_t> labels, std::span<const int32_t> ranks) {
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] < 0 || labels[i] >= classes()) continue;
      Add(predictions[i], labels[i], ranks[i]);
    }
  }
  void Clear() { sums_.assign(sums_.size(), 0); }

  /// Returns the metric over all rows counted so far, or NaN if there are none. Means over classes
  /// skip classes that are neither a label nor a prediction. Linear in the number of classes.
  double Value(Metric metric) const;

  int64_t classes() const { return static_cast<int64_t>(classes_); }
  /// Returns the counts, which may be changed. To combine the evaluations of several ranks, add
  /// their counts element by element.
  std::span<double> sums() { return sums_; }

 private:
  size_t classes_;
  std::vector<double>
      sums_;  // labels, predictions and hits by class, then top-5 hits
};

/// Returns the number of classes of the op CrossEntropy on which the output `loss` depends, or
/// nullopt if the output does not depend on exactly one CrossEntropy. Linear in the size of the
/// graph.
std::optional<int64_t> ClassesOf(const Graph& evaluation,
                                 std::string_view loss = "loss");

/// Returns `evaluation` with three additional outputs, which are i32 and have the shape of the
/// labels. "predictions" is the class of the largest logit. It is not added if the graph has an
/// output of this name. "label_classes" is the label. "label_ranks" is the number of classes whose
/// logit is larger than the label's logit. Returns the graph unchanged if ClassesOf returns
/// nullopt. Linear in the size of the graph.
Result<Graph> WithPredictions(const Graph& evaluation,
                              std::string_view loss = "loss");

/// The lowest validation loss of a run, and the number of evaluations after it. Checkpoints contain
/// the history, so a resumed run stops early at the same step as an uninterrupted run.
struct EvaluationHistory {
  int64_t last_step = 0;  // step of the last evaluation; 0 means none
  int64_t best_step = 0;  // step with the lowest loss; 0 means none
  double best_loss = 0;
  int64_t since_best = 0;  // number of evaluations after best_step

  /// Adds the loss of `step`, which must follow last_step. Returns whether the loss is finite and
  /// lower than all earlier losses.
  bool Add(int64_t step, double loss);

  friend bool operator==(const EvaluationHistory&,
                         const EvaluationHistory&) = default;
};

/// Returns the history as one line, which ParseEvaluationHistory parses.
std::string ToText(const EvaluationHistory& history);
/// Parses the result of ToText. Returns kInvalidArgument for any other string.
Result<EvaluationHistory> ParseEvaluationHistory(std::string_view text);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_EVALUATION_H_
