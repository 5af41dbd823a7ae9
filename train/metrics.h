#ifndef STOWAGE_TRAIN_METRICS_H_
#define STOWAGE_TRAIN_METRICS_H_

// Metrics of a classifier: accuracy, F1, intersection over union. An evaluation program
// computes three integers for each label, and the host counts them class by class, so that
// neither logits nor a matrix of confusions are kept: the same for labels of examples, of
// pixels and of tokens.
//
//   ProgramSpec evaluate{.name = "evaluate", .batch = 64};
//   evaluate.model = [](int64_t batch) {
//     STOWAGE_ASSIGN_OR_RETURN(const Graph graph, MyEvaluation(batch));
//     return WithPredictions(graph);
//   };
//   ...
//   ClassCounts counts(/*classes=*/10);
//   for (const Batch& batch : held_out) {
//     ... write the batch, take the step, read the three outputs ...
//     counts.Add(predictions, label_classes, label_ranks);
//   }
//   double f1 = counts.Value(Metric::kF1Macro);
//
// The definitions are those of scikit-learn.

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
  kAccuracy,  // share of labels that are predicted
  kTop5,  // share of labels of which at most four other classes have a larger logit
  kF1Macro,  // mean of the classes' F1 = 2 TP / (2 TP + FP + FN)
  kF1Micro,  // F1 of the sums; with one label for each row the accuracy
  kMeanIou,  // mean of the classes' TP / (TP + FP + FN)
};

/// "accuracy", "top5", "f1_macro", "f1_micro" or "mean_iou".
std::string_view MetricName(Metric metric);
/// Their names: "accuracy, top5, ... or mean_iou".
std::string MetricChoices();
/// The metric of that name, or an error naming the choices.
Result<Metric> ParseMetric(std::string_view name);

/// Counts of labels and predictions by class. Allocates when it is made, and never again.
class ClassCounts {
 public:
  /// Of labels 0 to classes - 1. Precondition: classes >= 1.
  explicit ClassCounts(int64_t classes)
      : classes_(static_cast<size_t>(classes)), sums_(3 * classes_ + 1) {}

  /// Counts a row: its prediction, its label, and how many classes have a larger logit
  /// than the label's. Precondition: both are classes.
  void Add(int64_t prediction, int64_t label, int64_t rank) {
    sums_[static_cast<size_t>(label)] += 1;
    sums_[classes_ + static_cast<size_t>(prediction)] += 1;
    if (prediction == label)
      sums_[2 * classes_ + static_cast<size_t>(label)] += 1;
    if (rank < 5) sums_.back() += 1;
  }
  /// Counts rows whose labels are classes, and none whose label is not, which a loss has
  /// left out. Precondition: as many of each.
  void Add(std::span<const int32_t> predictions,
           std::span<const int32_t> labels, std::span<const int32_t> ranks) {
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] < 0 || labels[i] >= classes()) continue;
      Add(predictions[i], labels[i], ranks[i]);
    }
  }
  void Clear() { sums_.assign(sums_.size(), 0); }

  /// The metric of all rows so far; NaN if there are none. A mean over classes is over
  /// those that a label or a prediction has. Linear in the classes.
  double Value(Metric metric) const;

  int64_t classes() const { return static_cast<int64_t>(classes_); }
  /// Whole numbers that add up over the parts of an evaluation, such as those of ranks.
  std::span<double> sums() { return sums_; }

 private:
  size_t classes_;
  std::vector<double>
      sums_;  // labels, predictions and both by class; within the top 5
};

/// The classes of the logits that `loss`, an output, is the cross-entropy of; absent where
/// it is none, or one of several. Linear.
std::optional<int64_t> ClassesOf(const Graph& evaluation,
                                 std::string_view loss = "loss");

/// `evaluation` with the outputs "predictions", the class of the largest logit, unless it
/// has that, "label_classes", the labels, and "label_ranks", how many classes have a larger
/// logit than the label's: all i32, in the shape of the labels. The graph as it is where ClassesOf is absent. Linear.
Result<Graph> WithPredictions(const Graph& evaluation,
                              std::string_view loss = "loss");

}  // namespace stowage

#endif  // STOWAGE_TRAIN_METRICS_H_
