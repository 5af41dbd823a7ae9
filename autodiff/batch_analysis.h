#ifndef STOWAGE_AUTODIFF_BATCH_ANALYSIS_H_
#define STOWAGE_AUTODIFF_BATCH_ANALYSIS_H_

// Proves from a model's graph whether its batch may be split into micro-batches.
//
// The model is built for the whole batch and for a micro-batch, and the two graphs are read
// side by side, node by node. A rule for each op (batch_rules.cc) sees one node of both
// graphs and the kinds of its operands, and derives how the whole batch's result follows
// from the results of all micro-batches:
//
//   matmul(x per example, w same)    per example
//   reduce_sum(x per example)        sum, if it reduces the examples' axis
//   div(sum, same)                   sum
//   softmax(x per example)           mixed, if it runs along the examples' axis
//
// A loss that is a sum or a mean over the examples can be split, and so can a quotient of
// sums whose denominator depends on inputs alone, such as that of a masked mean,
// sum(loss * mask) / sum(mask), or of a cross-entropy with ignored labels or class weights.
// Such denominators are *totals*: they are summed over all micro-batches before the first
// one runs, and are equal in all (autodiff/split_model.h).
//
//   const BatchAnalysis analysis = AnalyzeBatch(whole, part);
//   analysis.values[Index(*part.Find("loss"))].kind == BatchKind::kSum;

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"

namespace stowage {

/// How a value of the whole batch follows from those of its micro-batches.
enum class BatchKind : uint8_t {
  kSame,        // equal in all of them
  kPerExample,  // a slice from each
  kSum,
  kMean,  // weighted by the share of the examples
  kMax,   // elementwise
  kMixed,
};

struct BatchValue {
  BatchKind kind = BatchKind::kSame;
  /// kPerExample: the examples' axis, and how many times it holds the batch: 2 for two
  /// concatenated batches. A micro-batch has a slice of the axis if that is 1.
  int axis = 0;
  int64_t runs = 1;
  /// kPerExample: whether all slices along the axis are equal.
  bool is_uniform = false;
  /// Whether it depends on inputs and constants alone, so that it can be computed before the
  /// first micro-batch.
  bool of_inputs = true;
  /// kSame: a constant that differs in the micro-batch's graph (1 / examples); that of the
  /// whole batch is used.
  bool is_whole_constant = false;
  /// kSame: the zeros at which a loop's sum begins, which are also a sum and a mean.
  bool is_zero = false;
  /// kMixed: "softmax runs along the examples".
  std::string why = {};
  bool is_named = false;  // `why` names the value at which mixing began

  bool is_whole_axis() const { return runs == 1 || is_uniform; }
};

/// One node in both graphs.
struct BatchNode {
  const Node& part;
  const Node& whole;
  std::span<const BatchValue> operands;
  std::span<const TensorType> operand_types, whole_operand_types;
  std::span<const TensorType> result_types, whole_result_types;
};

/// The kinds of a node's results, and how its operands must be changed for them to hold.
struct BatchRuling {
  std::vector<BatchValue> results;
  /// Operands that must be multiplied by the micro-batch's share.
  std::vector<int> by_share = {};
};

/// The rule of a node without bodies.
BatchRuling ApplyBatchRule(const BatchNode& node);

/// A kMixed value.
BatchValue MixedBecause(std::string why);

/// The one axis in which the types of a value in both graphs differ; -1 if they are equal,
/// -2 if they differ otherwise.
int ExamplesAxis(const TensorType& part, const TensorType& whole);

/// The axis along which each input is cut into micro-batches, and the slice of each
/// micro-batch, found by comparing shapes. `part` is all or some of the batch `whole`.
///
///   BatchAxes axes(whole, whole);
///   for each micro-batch: STOWAGE_RETURN_IF_ERROR(axes.Add(micro_batch));
///                   ... axes.Part(micro_batch, input, whole_input) ...
///   STOWAGE_RETURN_IF_ERROR(axes.CheckComplete());
class BatchAxes {
 public:
  /// Both must outlive this.
  BatchAxes(const Graph& whole, const Graph& part)
      : whole_(whole), part_(part) {}

  /// Adds the next micro-batch. Error: it is not a part of the batch.
  Status Add(const Graph& micro_batch);
  /// Error: the micro-batches do not make up the part.
  Status CheckComplete() const;

  /// The last added micro-batch's share of the batch.
  double weight() const { return weight_; }
  /// The value of the leaf `id` of the last added micro-batch: a slice of `whole`.
  Value Part(const Graph& micro_batch, ValueId id, Value whole) const;
  /// The slice of `whole` for that micro-batch, where `whole` has every example of the batch
  /// along `axis`.
  Value Part(Value whole, int axis) const;
  /// Whether every input that is cut is cut along its first axis.
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

/// A value of a micro-batch's graph that depends on inputs alone and is needed for the whole
/// batch: the sum, mean or maximum of the micro-batches' values.
struct BatchTotal {
  ValueId value = 0;
  BatchKind kind = BatchKind::kSum;
};

/// A constant that differs in the graph of the whole batch.
struct BatchConstant {
  ValueId value = 0;        // of the micro-batch's graph
  ValueId whole_value = 0;  // of the whole batch's
};

/// An operand of a node that is weighted by the micro-batch's share of the examples.
struct ByShare {
  NodeId node = 0;
  int operand = 0;
};

struct BatchAnalysisOptions {
  /// Whether the caller can join micro-batches by the maximum of their values.
  bool has_max = true;
  /// Whether values that depend on inputs alone can be computed for the whole batch first.
  bool has_totals = true;
  /// Whether an operand can be weighted by the share of the examples (ByShare).
  bool has_shares = true;
  /// Whether micro-batches may change results: a mixed value is taken per micro-batch, or as
  /// the mean of them, so that the analysis continues.
  bool allows_change = false;
};

struct BatchAnalysis {
  std::vector<BatchValue> values;  // by ValueId of the micro-batch's graph
  /// By ValueId of the micro-batch's graph: the same value in the whole batch's graph, or -1
  /// behind the first difference.
  std::vector<ValueId> whole = {};
  /// In execution order: later ones may depend on earlier ones.
  std::vector<BatchTotal> totals = {};
  std::vector<BatchConstant> constants = {};
  std::vector<ByShare> by_share = {};
  BatchAnalysisOptions options = {};
  /// Params, states and caches that the model writes.
  std::vector<ValueId> written = {};
};

/// How the values of `whole` follow from those of graphs like `part`, the same model for
/// fewer examples. If their nodes differ other than by copies, everything after the first
/// difference is mixed. Linear in the nodes, times the depth of nested loops.
BatchAnalysis AnalyzeBatch(const Graph& whole, const Graph& part,
                           const BatchAnalysisOptions& options = {});

/// An output of a model that micro-batches would change, or a value that it writes.
struct BatchObstacle {
  std::string name;
  std::string why;
};

/// The outputs and written values of `part`, of which this is the analysis, that do not
/// follow from those of micro-batches; empty if the batch may be split.
std::vector<BatchObstacle> ObstaclesToSplit(const Graph& part,
                                            const BatchAnalysis& analysis,
                                            std::string_view loss);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_BATCH_ANALYSIS_H_
