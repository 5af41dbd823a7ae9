#ifndef STOWAGE_AUTODIFF_BATCH_RULES_H_
#define STOWAGE_AUTODIFF_BATCH_RULES_H_

// How each op treats the examples of a batch: the rules from which
// autodiff/batch_analysis.h proves that a model may take its batch in micro-batches.
//
// A model is built twice, for the whole batch and for a micro-batch. A rule sees one node
// of both graphs and what is known of its operands, and says how the whole batch's result
// follows from the results of all micro-batches: it is the same in each, or has a slice
// from each, or is their sum, their mean or the largest of them. Where a rule cannot tell,
// the result is mixed, with the reason, and no micro-batch stands for the whole.
//
//   matmul(x per example, w same)    per example
//   reduce_sum(x per example)        sum, if it goes over the examples' axis
//   div(sum, same)                   sum
//   softmax(x per example)           mixed, if it runs along the examples' axis

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor_type.h"

namespace stowage {

/// How a value of the whole batch follows from those of its micro-batches.
enum class BatchKind : uint8_t {
  kSame,        // equal in all of them
  kPerExample,  // it has a slice from each
  kSum,
  kMean,  // each counts by its share of the examples
  kMax,   // element by element
  kMixed,
};

struct BatchValue {
  BatchKind kind = BatchKind::kSame;
  /// kPerExample: the axis that is the examples', and how often they come in it, all of
  /// them before any comes again: 2 for two batches one behind the other. A micro-batch
  /// has a slice of the axis if that is 1.
  int axis = 0;
  int64_t runs = 1;
  /// kPerExample: whether all slices along the axis are equal.
  bool is_uniform = false;
  /// Whether it depends on inputs and constants alone, so that it can be known before
  /// the first micro-batch.
  bool of_inputs = true;
  /// kSame: a constant that is another in the micro-batch's graph (1 / examples); the
  /// whole batch's counts.
  bool is_whole_constant = false;
  /// kSame: zeros that a loop's sum begins at, which are as well a sum and a mean.
  bool is_zero = false;
  /// kMixed: "softmax runs along the examples".
  std::string why = {};
  bool is_named = false;  // `why` says at which value it began

  bool is_whole_axis() const { return runs == 1 || is_uniform; }
};

/// One node in both graphs. Operands and results stand in order.
struct BatchNode {
  const Node& part;
  const Node& whole;
  std::span<const BatchValue> operands;
  std::span<const TensorType> operand_types, whole_operand_types;
  std::span<const TensorType> result_types, whole_result_types;
};

/// What a node makes, and how its operands must be changed for that to hold.
struct BatchRuling {
  std::vector<BatchValue> results;
  /// Operands that count in the result by the micro-batch's share: it multiplies them.
  std::vector<int> by_share = {};
};

/// What is known of the results of a node without bodies.
BatchRuling ApplyBatchRule(const BatchNode& node);

/// A value of both graphs that nothing more is known of.
BatchValue MixedBecause(std::string why);

/// The one axis in which the types of a value in both graphs differ; -1 if they are equal,
/// -2 if they differ in more.
int ExamplesAxis(const TensorType& part, const TensorType& whole);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_BATCH_RULES_H_
