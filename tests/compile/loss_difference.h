#ifndef STOWAGE_TESTS_COMPILE_LOSS_DIFFERENCE_H_
#define STOWAGE_TESTS_COMPILE_LOSS_DIFFERENCE_H_

// Compares training in compiled C with training in the library, from the same initial values and
// on the same inputs.
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
  /// Returns the learning rate of a step, counted from 1.
  std::function<double(int64_t)> learning_rate = {};
  /// The initial bytes of params that do not start from their Init.
  std::map<std::string, std::string> contents = {};
  /// The bytes of inputs, which are the same in every step. If empty, WriteRandomInputs writes the
  /// inputs.
  std::map<std::string, std::vector<std::byte>> inputs = {};
};

/// Returns the largest relative difference of "loss" in `steps` steps. Appends the losses of the C
/// file to `losses` unless it is null. Fails the running doctest case if a param or state in the
/// arena does not have the same initial bytes in C and in the library.
double LossDifference(const ComparedStep& compared, int steps,
                      std::vector<double>* losses = nullptr);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_COMPILE_LOSS_DIFFERENCE_H_
