#include "tests/support/instances.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <vector>

#include "base/sanitizers.h"

namespace stowage::testing {
namespace {

TEST_CASE("only programs with the address sanitizer take fewer, unless told") {
  const bool all = std::getenv("STOWAGE_ALL_INSTANCES") != nullptr;
  CHECK(TakesAllInstances() == (!(STOWAGE_ASAN || STOWAGE_TSAN) || all));
}

TEST_CASE("some are always taken, and never more than all") {
  CHECK(Instances(0) == 0);
  CHECK(Instances(1) == 1);
  CHECK(Instances(400u) == (TakesAllInstances() ? 400u : 20u));
  CHECK(Instances(21) == (TakesAllInstances() ? 21 : 2));
}

TEST_CASE("of those that are listed the first are taken") {
  using Numbers = std::vector<int>;
  const Numbers all = {3, 1, 2};
  CHECK(Instances(all) == (TakesAllInstances() ? all : Numbers{3}));
  CHECK(Instances(all, 2) == (TakesAllInstances() ? all : Numbers{3, 1}));
  CHECK(Instances(all, 4) == all);
  CHECK(Instances(Numbers{}).empty());
}

}  // namespace
}  // namespace stowage::testing
