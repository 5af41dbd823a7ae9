#ifndef STOWAGE_TRAIN_EVALUATION_H_
#define STOWAGE_TRAIN_EVALUATION_H_

// Computes metrics of classifiers, and records the evaluations of a run.
//
// Metrics (accuracy, F1, intersection over union) are defined as in scikit-learn. An evaluation
// program outputs three integers for each label, and the host counts them by class. Neither logits
// nor a confusion matrix are stored. Examples, pixels or tokens may have labels.
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
// EvaluationHistory records the lowest validation loss, on which early stopping depends:
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
  kAccuracy,  // fraction of labels that are predicted
  kTop5,      // fraction of labels whose logit is among the 5 largest
  kF1Macro,   // mean over classes of F1 = 2 TP / (2 TP + FP + FN)
  kF1Micro,   // F1 of the summed counts, which here equals the accuracy
  kMeanIou,   // mean over classes of TP / (TP + FP + FN)
};

/// Returns "accuracy", "top5", "f1_macro", "f1_micro" or "mean_iou".
std::string_view MetricName(Metric metric);
/// Returns all names, for messages: "accuracy, top5, ... or mean_iou".
std::string MetricChoices();
/// Returns the metric named `name`, or kInvalidArgument, listing the choices, if there is none.
Result<Metric> ParseMetric(std::string_view name);

/// Counts labels and predictions by class. Only the constructor allocates.
class ClassCounts {
 public:
  /// Creates counts for the labels 0 to classes - 1. Requires `classes >= 1`.
  explicit ClassCounts(int64_t classes)
      : classes_(static_cast<size_t>(classes)), sums_(3 * classes_ + 1) {}

  /// Counts a row with its prediction, its label, and `rank`, the number of classes with a larger
  /// logit than the label's. The prediction and the label must be classes.
  void Add(int64_t prediction, int64_t label, int64_t rank) {
    sums_[static_cast<size_t>(label)] += 1;
    sums_[classes_ + static_cast<size_t>(prediction)] += 1;
    if (prediction == label)
      sums_[2 * classes_ + static_cast<size_t>(label)] += 1;
    if (rank < 5) sums_.back() += 1;
  }
  /// Counts the rows whose labels are classes. The loss ignores other rows. The spans must have
  /// equal sizes.
  void Add(std::span<const int32_t> predictions,
           std::span<const int32_t> labels, std::span<const int32_t> ranks) {
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] < 0 || labels[i] >= classes()) continue;
      Add(predictions[i], labels[i], ranks[i]);
    }
  }
  void Clear() { sums_.assign(sums_.size(), 0); }

  /// Returns the metric of all rows so far, or NaN if there are none. Means over classes skip
  /// classes without labels and predictions. Linear in the number of classes.
  double Value(Metric metric) const;

  int64_t classes() const { return static_cast<int64_t>(classes_); }
  /// Returns the counts. Counts of several shards of an evaluation, for example of ranks, may be
  /// added.
  std::span<double> sums() { return sums_; }

 private:
  size_t classes_;
  std::vector<double>
      sums_;  // labels, predictions and hits by class, then top-5 hits
};

/// Returns the number of classes of the cross-entropy on which the output `loss` depends, or
/// nullopt if it does not depend on exactly one cross-entropy. Linear in the size of the graph.
std::optional<int64_t> ClassesOf(const Graph& evaluation,
                                 std::string_view loss = "loss");

/// Returns `evaluation` with three additional outputs, i32 in the shape of the labels.
/// "predictions" is the class of the largest logit, and is not added if the graph has it.
/// "label_classes" are the labels, and "label_ranks" the numbers of classes with a larger logit
/// than the label's. Returns the graph unchanged if ClassesOf returns nullopt. Linear in the size
/// of the graph.
Result<Graph> WithPredictions(const Graph& evaluation,
                              std::string_view loss = "loss");

/// The lowest validation loss of a run, and the number of evaluations since then. Checkpoints save
/// the history, so a resumed run stops at the same step as an uninterrupted run.
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
