#ifndef STOWAGE_TRAIN_GRADIENT_CHECK_H_
#define STOWAGE_TRAIN_GRADIENT_CHECK_H_

// Checks gradients against central differences, for custom ops and derivatives (ir/op_def.h) or
// for any graph.
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
  /// The step h of the differences.
  double step = 1e-5;
  /// The maximum difference, relative to the difference quotient or 1, whichever is larger. With
  /// the step above, quotients of a smooth function are exact to about 1e-9.
  double tolerance = 1e-7;
  /// The seed of the random leaves and directions, whose elements are in [-1, 1).
  uint64_t seed = 1;
  /// Writes leaves that must not be random, such as labels and indices, after all floating-point
  /// leaves have been written. If it writes a floating-point leaf, the gradient is checked at that
  /// value. May be empty.
  std::function<Status(Runner&)> write = {};
};

/// The derivative of the loss in a random direction of one leaf.
struct CheckedGradient {
  std::string leaf;
  double gradient = 0;    // from the backward graph
  double difference = 0;  // (f(x+h) - f(x-h)) / 2h
};

/// Differentiates `forward` with respect to all its floating-point params and inputs, runs it on
/// `backend`, and compares each gradient with a central difference in a random direction. The graph
/// runs once, and twice more for each leaf. Returns kInvalidArgument if a floating-point leaf is
/// not f64, since rounding would hide errors, and if `loss` is not an output. Also returns
/// kInvalidArgument if a gradient differs, with its leaf and both values. Propagates errors of
/// BuildBackward, PlanMemory and Session::Create.
Result<std::vector<CheckedGradient>> CheckGradients(
    const Graph& forward, std::string_view loss, Backend& backend,
    const GradientCheckOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_TRAIN_GRADIENT_CHECK_H_
