#ifndef STOWAGE_AUTODIFF_BATCH_ANALYSIS_H_
#define STOWAGE_AUTODIFF_BATCH_ANALYSIS_H_

// Whether a model may take its batch in micro-batches, proved from its graph.
//
// The model is built for the whole batch and for a micro-batch, and the two graphs are
// read side by side, node by node, by the rules of autodiff/batch_rules.h. A loss that is
// a sum or a mean over the examples can be split, and so can a quotient of sums whose
// denominator depends on inputs alone, as that of a masked mean does: sum(loss * mask) /
// sum(mask), a cross-entropy with ignored labels or class weights. Such denominators are
// *totals*: they are summed over all micro-batches before the first of them runs, and are
// the same in all (autodiff/split_model.h).
//
//   const BatchAnalysis analysis = AnalyzeBatch(whole, part);
//   analysis.values[Index(*part.Find("loss"))].kind == BatchKind::kSum;

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/batch_rules.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

// Along which dimension each input of a model is cut where its batch is taken in
// micro-batches, and where in it a micro-batch lies. Found by comparing shapes.
//
//   BatchAxes axes(whole, whole);
//   for each micro-batch: STOWAGE_RETURN_IF_ERROR(axes.Add(micro_batch));
//                   ... axes.Part(micro_batch, input, whole_input) ...
//   STOWAGE_RETURN_IF_ERROR(axes.CheckComplete());

/// Where the micro-batches of `part`, which is all or some of the batch `whole`, lie in its
/// inputs.
class BatchAxes {
 public:
  /// Both must outlive this.
  BatchAxes(const Graph& whole, const Graph& part)
      : whole_(whole), part_(part) {}

  /// Notes where `micro_batch`, the next one, lies. Error: it is not a part.
  Status Add(const Graph& micro_batch);
  /// Error: the micro-batches do not make up the part.
  Status CheckComplete() const;

  /// The last added micro-batch's share of the batch.
  double weight() const { return weight_; }
  /// What stands in it for the leaf `id` of `micro_batch`, given the whole's.
  Value Part(const Graph& micro_batch, ValueId id, Value whole) const;
  /// Whether all inputs that are cut are so along their first axis.
  bool are_first() const {
    return std::ranges::all_of(
        splits_, [](const auto& split) { return split.second.axis == 0; });
  }
  /// The inputs that are cut.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, split] : splits_) names.push_back(name);
    return names;
  }

 private:
  struct Split {
    int axis = 0;
    int64_t start = 0, end = 0;  // of the last added micro-batch
  };

  Status Mismatch(const Graph& micro_batch, const ValueInfo& info,
                  std::string_view why) const;

  const Graph& whole_;
  const Graph& part_;
  std::map<std::string, Split, std::less<>> splits_;  // by input
  double weight_ = 1;
};

/// A value of a micro-batch's graph that depends on inputs alone and whose whole is wanted:
/// the sum, mean or maximum of the micro-batches' values.
struct BatchTotal {
  ValueId value = 0;
  BatchKind kind = BatchKind::kSum;
};

/// A constant that is another in the graph of the whole batch.
struct BatchConstant {
  ValueId value = 0;        // of the micro-batch's graph
  ValueId whole_value = 0;  // of the whole batch's
};

/// An operand of a node that counts by the micro-batch's share of the examples.
struct ByShare {
  NodeId node = 0;
  int operand = 0;
};

struct BatchAnalysisOptions {
  /// Whether whoever puts micro-batches together can take the larger of two values.
  bool has_max = true;
  /// Whether what depends on inputs alone is known of the whole batch.
  bool has_totals = true;
  /// Whether an operand can be made to count by the share of the examples (ByShare).
  bool has_shares = true;
  /// Whether micro-batches may change results: what a node mixes counts as each
  /// micro-batch's own, or as their mean, so that what follows from it is known.
  bool allows_change = false;
};

struct BatchAnalysis {
  std::vector<BatchValue> values;  // by ValueId of the micro-batch's graph
  /// In the order in which they are made: later ones may read earlier ones.
  std::vector<BatchTotal> totals = {};
  std::vector<BatchConstant> constants = {};
  std::vector<ByShare> by_share = {};
  BatchAnalysisOptions options = {};
  /// Params, states and caches that the model writes itself.
  std::vector<ValueId> written = {};
};

/// How the values of `whole` follow from those of graphs like `part`, which is the same
/// model for fewer examples. Where the graphs are not made of the same nodes, but for
/// copies, everything behind the first difference is mixed. Linear in the nodes, times the
/// depth of loops in loops.
BatchAnalysis AnalyzeBatch(const Graph& whole, const Graph& part,
                           const BatchAnalysisOptions& options = {});

/// An output of a model that micro-batches would change, or a value that it writes.
struct BatchObstacle {
  std::string name;
  std::string why;
};

/// What keeps `part`, of which this is the analysis, from being a micro-batch; nothing
/// where every output follows from those of micro-batches.
std::vector<BatchObstacle> ObstaclesToSplit(const Graph& part,
                                            const BatchAnalysis& analysis,
                                            std::string_view loss);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_BATCH_ANALYSIS_H_
