#ifndef STOWAGE_TRAIN_GRADIENT_CHECK_H_
#define STOWAGE_TRAIN_GRADIENT_CHECK_H_

// Whether a graph's gradient is the derivative of what it computes: for ops and
// derivatives of one's own (ir/op_def.h), and for anything else.
//
//   GraphBuilder g("huber");
//   const Value x = g.Input("x", DType::kF64, {5});
//   const Value y = g.Input("y", DType::kF64, {5});
//   g.Output("loss", ReduceSum(Apply(kHuber, {x, y}, {{"delta", 1.0}})));
//   const auto checked = CheckGradients(*g.Finish(), "loss", *cpu);
//   if (!checked.ok()) Print(checked.error().message);  // which leaf, which values

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "runtime/backend.h"
#include "runtime/session.h"

namespace stowage {

struct GradientCheckOptions {
  /// How far to either side the loss is looked at.
  double step = 1e-5;
  /// Most that the two may differ by, relative to the larger of 1 and the
  /// difference quotient. With the step above, differences of a smooth function
  /// are good to about 1e-9.
  double tolerance = 1e-7;
  /// Of the random leaves, in [-1, 1), and directions.
  uint64_t seed = 1;
  /// Writes what must not be random, labels and indices for example, after all
  /// float leaves have been written; a leaf of f64 that it writes is checked around
  /// what it wrote. May be empty.
  std::function<Status(Runner&)> write = {};
};

/// The slope of the loss along a random direction of one leaf.
struct CheckedGradient {
  std::string leaf;
  double gradient = 0;    // by the backward graph
  double difference = 0;  // by the loss at both sides: (f(x+h) - f(x-h)) / 2h
};

/// Differentiates `forward` by all its params and inputs of a float type, runs it
/// on `backend`, and compares each gradient, along a random direction, with central
/// differences: 2 runs a leaf, and one. Errors: those of BuildBackward, PlanMemory
/// and Session::Create; kInvalidArgument for a float leaf that is not f64, where
/// rounding would hide what is looked for, for an output `loss` that is missing, and
/// for a gradient that differs, with its leaf and both values.
Result<std::vector<CheckedGradient>> CheckGradients(
    const Graph& forward, std::string_view loss, Backend& backend,
    const GradientCheckOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_TRAIN_GRADIENT_CHECK_H_
