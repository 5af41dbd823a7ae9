#ifndef STOWAGE_TESTS_COMPILE_LOSS_DIFFERENCE_H_
#define STOWAGE_TESTS_COMPILE_LOSS_DIFFERENCE_H_

// A step, trained by its C file and by the library from the same start on the same inputs.
//
//   LossDifference({.name = "mlp", .step = step, .learning_rate = rate}, 20) < 1e-6

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "planner/fit/fit.h"

namespace stowage::testing {

struct ComparedStep {
  std::string name;
  FittedStep step = {};  // planned for C
  int simd = 0;          // CompileOptions::simd
  /// The learning rate of step 1, 2, ...
  std::function<double(int64_t)> learning_rate = {};
  /// The bytes of params that do not start from their Init.
  std::map<std::string, std::string> contents = {};
  /// The bytes of inputs, the same in every step; empty: random (WriteRandomInputs).
  std::map<std::string, std::vector<std::byte>> inputs = {};
};

/// The largest relative difference of "loss" in `steps` steps; appends those in C to `losses`.
/// Fails the test where params and states in the arena do not begin with the library's bytes.
double LossDifference(const ComparedStep& compared, int steps,
                      std::vector<double>* losses = nullptr);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_COMPILE_LOSS_DIFFERENCE_H_
