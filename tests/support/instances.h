#ifndef STOWAGE_TESTS_SUPPORT_INSTANCES_H_
#define STOWAGE_TESTS_SUPPORT_INSTANCES_H_

// Chooses the number of instances (random graphs, budgets, row lengths) that a test runs.
//
// A program built with the address or thread sanitizer runs only one instance in twenty. Such a
// program is ten times slower, and its first few instances reveal memory errors and data races
// as well as the next four hundred would. A program on an emulated processor, for which
// STOWAGE_FEW_INSTANCES is set, also runs one instance in twenty. All other programs run every
// instance. If STOWAGE_ALL_INSTANCES is set, as .ci/nightly does, every program runs every
// instance.
//
//   for (int64_t seed = 0; seed < Instances(400); ++seed) { ... }
//   CHECK(found > Instances(1000));
//   for (const int threads : Instances<int>({3, 1, 2})) { ... }
//   TEST_CASE("of a hundred layers" * doctest::skip(!TakesAllInstances())) ...

#include <concepts>
#include <cstddef>
#include <vector>

namespace stowage::testing {

/// Returns whether this program runs every instance.
bool TakesAllInstances();

/// Returns `all` if this program runs every instance, and otherwise a twentieth of it, rounded
/// up.
template <std::integral T>
T Instances(T all) {
  return TakesAllInstances() ? all : static_cast<T>((all + 19) / 20);
}

/// Returns `all` if this program runs every instance, and otherwise its first `some` elements.
/// List first the elements that cover all code paths.
template <typename T>
std::vector<T> Instances(std::vector<T> all, size_t some = 1) {
  while (!TakesAllInstances() && all.size() > some) all.pop_back();
  return all;
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_INSTANCES_H_
