#ifndef STOWAGE_TRAIN_GRADIENT_CHECK_H_
#define STOWAGE_TRAIN_GRADIENT_CHECK_H_

// Compares gradients with central differences, for custom ops and derivatives
// (ir/op_def.h) or any graph.
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
  /// The distance h of the differences.
  double step = 1e-5;
  /// The maximum difference, relative to the larger of 1 and the difference quotient. With the
  /// step above, quotients of a smooth function are exact to about 1e-9.
  double tolerance = 1e-7;
  /// The seed of the random leaves, in [-1, 1), and directions.
  uint64_t seed = 1;
  /// Writes leaves that must not be random, such as labels and indices, after all float leaves
  /// have been written. A float leaf that it writes is checked at that value. May be empty.
  std::function<Status(Runner&)> write = {};
};

/// The slope of the loss along a random direction of one leaf.
struct CheckedGradient {
  std::string leaf;
  double gradient = 0;    // by the backward graph
  double difference = 0;  // (f(x+h) - f(x-h)) / 2h
};

/// Differentiates `forward` by all its float params and inputs, runs it on `backend`, and
/// compares each gradient, along a random direction, with a central difference: two runs per
/// leaf, and one more. Errors: those of BuildBackward, PlanMemory and Session::Create;
/// kInvalidArgument for a float leaf that is not f64, where rounding would hide errors, for a
/// missing output `loss`, and for a gradient that differs, with its leaf and both values.
Result<std::vector<CheckedGradient>> CheckGradients(
    const Graph& forward, std::string_view loss, Backend& backend,
    const GradientCheckOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_TRAIN_GRADIENT_CHECK_H_
