#ifndef STOWAGE_AUTODIFF_BATCH_ANALYSIS_H_
#define STOWAGE_AUTODIFF_BATCH_ANALYSIS_H_

// Determines from a model's graph whether its batch can be split into micro-batches without
// changing the results.
//
// The caller builds the model twice, for the whole batch and for a micro-batch, and the two graphs
// are compared node by node. Each op has a rule (batch_rules.cc). Given a node in both graphs and
// the kinds of its operands, the rule derives how the result for the whole batch can be computed
// from the results of the micro-batches:
//
//   matmul(x per example, w same)    per example
//   reduce_sum(x per example)        sum, if it reduces the examples' axis
//   div(sum, same)                   sum
//   softmax(x per example)           mixed, if it runs along the examples' axis
//
// A batch can be split if its loss is a sum or a mean over the examples. It can also be split if
// its loss is a quotient of sums whose denominator depends only on inputs. Examples are a masked
// mean, sum(loss * mask) / sum(mask), and a cross-entropy with ignored labels or class weights.
// These denominators are *totals*: they are summed over all micro-batches before the first one
// runs, and every micro-batch uses the same total (autodiff/split_model.h).
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

/// How a value of the whole batch is computed from the values of the micro-batches.
enum class BatchKind : uint8_t {
  kSame,        // equal in all micro-batches
  kPerExample,  // the concatenation of the micro-batches' slices
  kSum,
  kMean,   // weighted by each micro-batch's share of the examples
  kMax,    // elementwise
  kMixed,  // cannot be computed from the micro-batches' values
};

struct BatchValue {
  BatchKind kind = BatchKind::kSame;
  /// For kPerExample: the axis of the examples.
  int axis = 0;
  /// For kPerExample: how many times the axis contains the batch, for example 2 if two batches are
  /// concatenated. Only if this is 1 are the examples of a micro-batch a contiguous slice of the
  /// axis.
  int64_t runs = 1;
  /// For kPerExample: whether all slices along the axis are equal.
  bool is_uniform = false;
  /// Whether the value depends only on inputs and constants, so that it can be computed before the
  /// first micro-batch.
  bool of_inputs = true;
  /// For kSame: whether the value is a constant that differs between the two graphs, such as
  /// 1 / examples. Micro-batches then use the constant of the whole batch.
  bool is_whole_constant = false;
  /// For kSame: whether the value is the initial zero of a sum that a loop accumulates. A zero may
  /// also be used as a kSum or a kMean.
  bool is_zero = false;
  /// For kMixed: the reason, for example "softmax runs along the examples".
  std::string why = {};
  bool is_named = false;  // whether `why` names the first mixed value

  /// Returns whether the examples of a micro-batch are a contiguous slice of the axis.
  bool is_whole_axis() const { return runs == 1 || is_uniform; }
};

/// A node of the micro-batch's graph and the corresponding node of the whole batch's graph.
struct BatchNode {
  const Node& part;
  const Node& whole;
  std::span<const BatchValue> operands;
  std::span<const TensorType> operand_types, whole_operand_types;
  std::span<const TensorType> result_types, whole_result_types;
};

/// What a rule returns: the kinds of a node's results, and the operands that must be scaled for
/// these kinds to be correct.
struct BatchRuling {
  std::vector<BatchValue> results;
  /// Indices of the operands that must be multiplied by the micro-batch's share of the examples.
  std::vector<int> by_share = {};
};

/// Applies the rule of the node's op. The node must not be a loop or a cond, which have bodies.
BatchRuling ApplyBatchRule(const BatchNode& node);

/// Returns a kMixed value with the reason `why`.
BatchValue MixedBecause(std::string why);

/// Returns the only axis in which the two types differ, -1 if the types are equal, or -2 if they
/// differ in any other way.
int ExamplesAxis(const TensorType& part, const TensorType& whole);

/// Finds the axis along which each input is split into micro-batches, and the slice of each
/// micro-batch, by comparing shapes.
///
///   BatchAxes axes(whole, whole);
///   for each micro-batch: STOWAGE_RETURN_IF_ERROR(axes.Add(micro_batch));
///                   ... axes.Part(micro_batch, input, whole_input) ...
///   STOWAGE_RETURN_IF_ERROR(axes.CheckComplete());
class BatchAxes {
 public:
  /// `whole` is the model for the whole batch. `part` is the model that the micro-batches make up:
  /// `whole` itself, or the model for one rank's shard of the batch. Both arguments must outlive
  /// this object.
  BatchAxes(const Graph& whole, const Graph& part)
      : whole_(whole), part_(part) {}

  /// Adds the next micro-batch. Its leaves must be those of `whole`, except that some inputs, at
  /// least one, have a smaller size along one axis. All of these inputs must contain the same share
  /// of the batch's examples. Returns kInvalidArgument otherwise.
  Status Add(const Graph& micro_batch);
  /// Returns kInvalidArgument if the micro-batches that were added do not make up `part`.
  Status CheckComplete() const;

  /// Returns the share of the whole batch's examples that the last added micro-batch contains.
  double weight() const { return weight_; }
  /// Returns the value of leaf `id` of `micro_batch`, the last added micro-batch. `whole` is the
  /// value of the leaf for `part`. The result is a slice of `whole`, or `whole` itself if the leaf
  /// is not split.
  Value Part(const Graph& micro_batch, ValueId id, Value whole) const;
  /// Returns the slice of `whole` along `axis` for the last added micro-batch. `axis` must contain
  /// all examples of the whole batch. Requires that a micro-batch was added.
  Value Part(Value whole, int axis) const;
  /// Returns whether every split input is split along its first axis.
  bool are_first() const {
    return std::ranges::all_of(
        splits_, [](const auto& split) { return split.second.axis == 0; });
  }
  /// Returns the names of the inputs that are split.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, split] : splits_) names.push_back(name);
    return names;
  }

 private:
  struct Split {
    int axis = 0;
    int64_t start = 0, end = 0;  // the last added micro-batch
  };

  Status Mismatch(const Graph& micro_batch, const ValueInfo& info,
                  std::string_view why) const;

  const Graph& whole_;
  const Graph& part_;
  std::map<std::string, Split, std::less<>> splits_;  // by input
  double weight_ = 1;
};

/// A value of a micro-batch's graph that depends only on inputs, and that must be computed for the
/// whole batch. It is the sum, mean or maximum of the micro-batches' values.
struct BatchTotal {
  ValueId value = 0;
  BatchKind kind = BatchKind::kSum;
};

/// A constant that differs between the micro-batch's graph and the whole batch's graph.
struct BatchConstant {
  ValueId value = 0;        // in the micro-batch's graph
  ValueId whole_value = 0;  // in the whole batch's graph
};

/// An operand of a node that must be multiplied by the micro-batch's share of the examples.
struct ByShare {
  NodeId node = 0;
  int operand = 0;
};

struct BatchAnalysisOptions {
  /// Whether the caller supports kMax, the elementwise maximum over micro-batches.
  bool has_max = true;
  /// Whether the caller can compute values that depend only on inputs for the whole batch first.
  bool has_totals = true;
  /// Whether the caller can multiply operands by the share of the examples (ByShare).
  bool has_shares = true;
  /// Whether micro-batches may change results. If true, a kMixed value is treated as kPerExample if
  /// it has an axis of examples. Otherwise, it is treated as kMean if its type is a float.
  bool allows_change = false;
};

struct BatchAnalysis {
  std::vector<BatchValue> values;  // by ValueId of the micro-batch's graph
  /// The corresponding value in the whole batch's graph, by ValueId of the micro-batch's graph, or
  /// -1 after the first node in which the graphs differ.
  std::vector<ValueId> whole = {};
  /// Totals in execution order. A total may depend on earlier totals.
  std::vector<BatchTotal> totals = {};
  std::vector<BatchConstant> constants = {};
  std::vector<ByShare> by_share = {};
  BatchAnalysisOptions options = {};
  /// The params, states and caches that the model writes.
  std::vector<ValueId> written = {};
};

/// Returns how each value of `whole` can be computed from the values of graphs like `part`, which
/// is the same model for fewer examples. Copies are ignored in the comparison of the two graphs,
/// and so are broadcasts that only `whole` contains. From the first node that differs otherwise,
/// all results are kMixed. Linear in the number of nodes, except that the body of a loop is
/// analyzed repeatedly until the kinds of its carried values no longer change.
BatchAnalysis AnalyzeBatch(const Graph& whole, const Graph& part,
                           const BatchAnalysisOptions& options = {});

/// An output that micro-batches would change, or a param, state or cache that the model writes.
struct BatchObstacle {
  std::string name;
  std::string why;
};

/// Returns the outputs of `part`, including `loss`, that cannot be computed from the outputs of
/// micro-batches, followed by all params, states and caches that the model writes. `analysis` must
/// be the result of AnalyzeBatch for `part`. The result is empty if the batch can be split.
std::vector<BatchObstacle> ObstaclesToSplit(const Graph& part,
                                            const BatchAnalysis& analysis,
                                            std::string_view loss);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_BATCH_ANALYSIS_H_
