#ifndef STOWAGE_TESTS_SUPPORT_OP_CASES_H_
#define STOWAGE_TESTS_SUPPORT_OP_CASES_H_

// The op test table: small graphs, at least one for every op of ir/ops.def,
// with odd shapes, and with views and broadcasts as operands. Gradient checks
// and kernel comparisons run over all of its rows, so a new op gets its tests
// by a row here.
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

/// The content of a leaf.
enum class Content {
  kReal,     // uniform in [low, high)
  kInteger,  // uniform integers in [low, high); also for bool
  /// Odd multiples of kKinkDistance, each at most once in the case: no two
  /// elements are closer than twice that, and none is closer to 0 than that.
  /// For ops with kinks, where elements meet or cross 0.
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
  std::string name;  // unique; begins with the op's
  OpKind op;
  std::vector<LeafSpec> leaves;
  /// Builds the op on the leaves, in order; returns the results to compare.
  std::function<std::vector<Value>(GraphBuilder&, std::span<const Value>)>
      build;
  /// The first results that have gradients; the others are statistics (a log-sum-exp, a
  /// mean).
  int differentiable = 1;
  /// Largest error of a kernel that computes in the type of real operands (in
  /// f32 for bf16 and f16), relative to the largest element of the result or 1.
  double tolerance = 0;
};

/// All rows, with f32, f64, bf16 or f16 as the type of real operands. Rows of
/// bf16 and f16 are for kernels that compute in f32 and round what they store;
/// expect what Interpret gives with Rounding::kTo16Bits.
std::vector<OpCase> OpCases(DType real);

/// The rows for which the GPU has kernels: all but those with a softcap.
std::vector<OpCase> GpuOpCases(DType real);

/// The case's graph, of the case's name; its outputs are "y0", "y1", ...
Graph BuildCase(const OpCase& c);

/// The case's leaves, filled; the same for the same seed. Reals are f32
/// numbers, those of bf16 and f16 leaves numbers of their types.
Tensors CaseLeaves(const OpCase& c, uint64_t seed = 1);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_OP_CASES_H_
