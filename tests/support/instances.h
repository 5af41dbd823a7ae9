#ifndef STOWAGE_TESTS_SUPPORT_INSTANCES_H_
#define STOWAGE_TESTS_SUPPORT_INSTANCES_H_

// How many instances of a kind a test takes that could take any number of them:
// random graphs, budgets, lengths of rows.
//
// All of them, except in programs built with the address or thread sanitizer. Those run
// ten times as long, and look for faults of memory and races, which the first graphs that
// take a path show as well as the next four hundred: there it is one in twenty. So it is
// where STOWAGE_FEW_INSTANCES is set, as for an emulated processor, on which they run tens
// of times as long. Where STOWAGE_ALL_INSTANCES is set, as by .ci/nightly, they take all,
// too.
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

/// `all`, or the first `some` of them, which see all that the others do.
template <typename T>
std::vector<T> Instances(std::vector<T> all, size_t some = 1) {
  while (!TakesAllInstances() && all.size() > some) all.pop_back();
  return all;
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_INSTANCES_H_
