#ifndef STOWAGE_TESTS_SUPPORT_INSTANCES_H_
#define STOWAGE_TESTS_SUPPORT_INSTANCES_H_

// The number of instances (random graphs, budgets, lengths of rows) that a test runs.
//
// Programs built with the address or thread sanitizer run ten times as long, and the first
// graphs that take a path show faults of memory and races as well as the next four hundred: they
// run one instance in twenty. So does an emulated processor, for which STOWAGE_FEW_INSTANCES is
// set. All other programs run all instances, and so do sanitized ones where
// STOWAGE_ALL_INSTANCES is set, as by .ci/nightly.
//
//   for (int64_t seed = 0; seed < Instances(400); ++seed) { ... }
//   CHECK(found > Instances(1000));
//   for (const int threads : Instances<int>({3, 1, 2})) { ... }
//   TEST_CASE("of a hundred layers" * doctest::skip(!TakesAllInstances())) ...

#include <concepts>
#include <cstddef>
#include <vector>

namespace stowage::testing {

bool TakesAllInstances();

/// `all`, or a twentieth of it, rounded up.
template <std::integral T>
T Instances(T all) {
  return TakesAllInstances() ? all : static_cast<T>((all + 19) / 20);
}

/// `all`, or the first `some` of them, which cover the same paths.
template <typename T>
std::vector<T> Instances(std::vector<T> all, size_t some = 1) {
  while (!TakesAllInstances() && all.size() > some) all.pop_back();
  return all;
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_INSTANCES_H_
