#ifndef STOWAGE_TRAIN_GRADIENT_CHECK_H_
#define STOWAGE_TRAIN_GRADIENT_CHECK_H_

// Compares gradients with central differences, to test the derivatives of custom ops (ir/op_def.h)
// or of any graph.
//
//   GraphBuilder g("huber");
//   const Value x = g.Input("x", DType::kF64, {5});
//   const Value y = g.Input("y", DType::kF64, {5});
//   g.Output("loss", ReduceSum(Apply(kHuber, {x, y}, {{"delta", 1.0}})));
//   const auto checked = CheckGradients(*g.Finish(), "loss", *cpu);
//   if (!checked.ok()) Print(checked.error().message);  // names the leaf and both values

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
  /// The step h of the difference quotient.
  double step = 1e-5;
  /// The maximum deviation of a gradient from the difference quotient, relative to the quotient or
  /// to 1, whichever is larger. With the default step, the quotient of a smooth function is exact
  /// to about 1e-9.
  double tolerance = 1e-7;
  /// The seed of the random values of leaves and of the random directions. All elements are in [-1,
  /// 1).
  uint64_t seed = 1;
  /// Writes the inputs that must not be random, such as labels and indices. Called after all
  /// floating-point params and inputs have random values. A floating-point leaf that it writes has
  /// its gradient checked at the written value. May be empty.
  std::function<Status(Runner&)> write = {};
};

/// The derivative of the loss with respect to one leaf, in a random direction.
struct CheckedGradient {
  std::string leaf;
  double gradient = 0;    // from the backward graph
  double difference = 0;  // (f(x+h) - f(x-h)) / 2h
};

/// Differentiates `forward` with respect to all its floating-point params and inputs, runs it on
/// `backend`, and compares each gradient with a central difference in a random direction. The graph
/// runs once for the gradients, and twice for the difference of each leaf. Returns kInvalidArgument
/// if a floating-point param or input is not f64, since rounding would hide errors, or if `loss` is
/// not an output. Also returns kInvalidArgument, with the leaf and both values, if a gradient
/// deviates by more than the tolerance. Propagates errors of BuildBackward, PlanMemory and
/// Session::Create.
Result<std::vector<CheckedGradient>> CheckGradients(
    const Graph& forward, std::string_view loss, Backend& backend,
    const GradientCheckOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_TRAIN_GRADIENT_CHECK_H_
