#ifndef STOWAGE_TESTS_SUPPORT_OP_CASES_H_
#define STOWAGE_TESTS_SUPPORT_OP_CASES_H_

// Provides the op test table, a list of small graphs with at least one for every op of
// ir/ops.def. Shapes are odd, and operands include views and broadcasts. Gradient checks and
// kernel comparisons run on all rows, so a row is all that a new op needs to be tested.
//
//   for (const OpCase& c : OpCases(DType::kF32)) {
//     const Graph graph = BuildCase(c);
//     Tensors expected = Interpret(graph, CaseLeaves(c));
//   }

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "tests/support/interpret.h"

namespace stowage {

/// The distribution of a leaf's elements.
enum class Content {
  kReal,     // uniform in [low, high)
  kInteger,  // uniform integers in [low, high); also used for bool
  /// Distinct odd multiples of kKinkDistance, for ops with kinks at 0 or where
  /// two elements are equal. Every element is at least kKinkDistance away from
  /// 0, and at least twice that away from every other element of the case.
  kSpread,
};
inline constexpr double kKinkDistance = 1.0 / 64;

struct LeafSpec {
  std::string name;
  DType dtype;
  Shape shape;
  Content content = Content::kReal;
  double low = -1;
  double high = 1;
  Role role = Role::kInput;
  bool on_host = false;
};

struct OpCase {
  std::string name;  // unique; begins with the name of the op
  OpKind op;
  std::vector<LeafSpec> leaves;
  /// Builds the op on the leaves, in order, and returns the results to compare.
  std::function<std::vector<Value>(GraphBuilder&, std::span<const Value>)>
      build;
  /// The number of differentiable results. They come first, and statistics (a log-sum-exp, a
  /// mean) follow.
  int differentiable = 1;
  /// The largest permitted error, as LargestError defines it, of a kernel that computes in the
  /// type of the real operands, or in f32 if they are bf16 or f16.
  double tolerance = 0;
};

/// Returns all rows, with f32, f64, bf16 or f16 as the type of real operands. Rows of bf16 and
/// f16 are for kernels that compute in f32 and round what they store. Compare such kernels with
/// Interpret under Rounding::kTo16Bits.
std::vector<OpCase> OpCases(DType real);

/// Returns the rows for which the GPU has kernels, which are all except those with a softcap.
std::vector<OpCase> GpuOpCases(DType real);

/// Returns the graph of the case. It has the name of the case and outputs "y0", "y1", ...
Graph BuildCase(const OpCase& c);

/// Returns the leaves of the case, filled with random elements that depend only on `seed`. Reals
/// are representable in f32, and in the leaf's type if that is bf16 or f16.
Tensors CaseLeaves(const OpCase& c, uint64_t seed = 1);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_OP_CASES_H_
