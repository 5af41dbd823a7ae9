#ifndef STOWAGE_TRAIN_EVALUATION_H_
#define STOWAGE_TRAIN_EVALUATION_H_

// Metrics of classifiers, and the history of a run's evaluations.
//
// Metrics (accuracy, F1, intersection over union) are defined as in scikit-learn. An
// evaluation program computes three integers for each label, and the host counts them by
// class, so that neither logits nor a confusion matrix are kept. Labels may be of examples,
// pixels or tokens.
//
//   ProgramSpec evaluate{.name = "evaluate", .batch = 64};
//   evaluate.model = [](int64_t batch) {
//     STOWAGE_ASSIGN_OR_RETURN(const Graph graph, MyEvaluation(batch));
//     return WithPredictions(graph);
//   };
//   ...
//   ClassCounts counts(/*classes=*/10);
//   for (const Batch& batch : validation_set) {
//     ... write the batch, take the step, read the three outputs ...
//     counts.Add(predictions, label_classes, label_ranks);
//   }
//   double f1 = counts.Value(Metric::kF1Macro);
//
// EvaluationHistory holds the lowest validation loss, by which early stopping decides:
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
  kTop5,      // fraction of labels with at most four larger logits
  kF1Macro,   // mean of the classes' F1 = 2 TP / (2 TP + FP + FN)
  kF1Micro,   // F1 of the sums; the accuracy if each row has one label
  kMeanIou,   // mean of the classes' TP / (TP + FP + FN)
};

/// "accuracy", "top5", "f1_macro", "f1_micro" or "mean_iou".
std::string_view MetricName(Metric metric);
/// All names, for messages: "accuracy, top5, ... or mean_iou".
std::string MetricChoices();
/// The metric of that name, or an error naming the choices.
Result<Metric> ParseMetric(std::string_view name);

/// Counts of labels and predictions by class. Allocates only in its constructor.
class ClassCounts {
 public:
  /// For labels 0 to classes - 1. Precondition: classes >= 1.
  explicit ClassCounts(int64_t classes)
      : classes_(static_cast<size_t>(classes)), sums_(3 * classes_ + 1) {}

  /// Counts a row: its prediction, its label, and `rank`, the number of classes with a larger
  /// logit than the label's. Precondition: both are classes.
  void Add(int64_t prediction, int64_t label, int64_t rank) {
    sums_[static_cast<size_t>(label)] += 1;
    sums_[classes_ + static_cast<size_t>(prediction)] += 1;
    if (prediction == label)
      sums_[2 * classes_ + static_cast<size_t>(label)] += 1;
    if (rank < 5) sums_.back() += 1;
  }
  /// Counts the rows whose labels are classes; the loss ignores the others. Precondition: the
  /// spans have equal sizes.
  void Add(std::span<const int32_t> predictions,
           std::span<const int32_t> labels, std::span<const int32_t> ranks) {
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] < 0 || labels[i] >= classes()) continue;
      Add(predictions[i], labels[i], ranks[i]);
    }
  }
  void Clear() { sums_.assign(sums_.size(), 0); }

  /// The metric of all rows so far; NaN if there are none. Means over classes skip classes
  /// without labels and predictions. Linear in the number of classes.
  double Value(Metric metric) const;

  int64_t classes() const { return static_cast<int64_t>(classes_); }
  /// The counts: those of the parts of an evaluation, such as ranks, may be added.
  std::span<double> sums() { return sums_; }

 private:
  size_t classes_;
  std::vector<double>
      sums_;  // labels, predictions and both by class; within the top 5
};

/// The number of classes of the cross-entropy that is the output `loss`; absent if the output
/// is not one cross-entropy. Linear.
std::optional<int64_t> ClassesOf(const Graph& evaluation,
                                 std::string_view loss = "loss");

/// `evaluation` with three more outputs, i32 in the shape of the labels: "predictions", the
/// class of the largest logit, unless the graph has it; "label_classes", the labels;
/// "label_ranks", the number of classes with a larger logit than the label's. Returns the
/// graph unchanged if ClassesOf is absent. Linear.
Result<Graph> WithPredictions(const Graph& evaluation,
                              std::string_view loss = "loss");

/// The lowest validation loss of a run, and the number of evaluations since. Checkpoints save
/// it, so that a resumed run stops where an uninterrupted one would.
struct EvaluationHistory {
  int64_t last_step = 0;  // the last evaluated; 0: none
  int64_t best_step = 0;  // the one of the lowest loss; 0: none
  double best_loss = 0;
  int64_t since_best = 0;  // evaluations after best_step

  /// Adds the loss of `step`, which is later than last_step. Returns whether it is finite and
  /// lower than all before.
  bool Add(int64_t step, double loss);

  friend bool operator==(const EvaluationHistory&,
                         const EvaluationHistory&) = default;
};

/// The history in one line, which ParseEvaluationHistory parses.
std::string ToText(const EvaluationHistory& history);
/// Error kInvalidArgument for other texts.
Result<EvaluationHistory> ParseEvaluationHistory(std::string_view text);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_EVALUATION_H_
