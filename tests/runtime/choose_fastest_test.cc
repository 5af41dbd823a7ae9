#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "runtime/autotune_cache.h"

namespace stowage {
namespace {

TEST_CASE("the fastest by its shortest time is chosen, an earlier one by 2 %") {
  using Times = std::vector<double>;
  // Each candidate takes its time, and ten times that when it runs first.
  const auto choose = [](const Times& times) {
    std::vector<int> runs(times.size());
    const auto fastest =
        ChooseFastest(times.size(), [&](size_t i) -> Result<double> {
          if (times[i] < 0) {
            return Error{ErrorCode::kDevice, StrCat("refused ", i)};
          }
          return times[i] * (runs[i]++ == 0 ? 10 : 1);
        });
    REQUIRE(fastest.ok());
    return *fastest;
  };
  CHECK(choose({3, 2, 1, 4}) == 2);
  CHECK(choose({1, 2}) == 0);
  CHECK(choose({1, 0.99}) == 0);
  CHECK(choose({1, 0.97}) == 1);
  CHECK(choose({1, 0.985, 0.975}) == 2);
  CHECK(choose({-1, 2, -1, 1.5}) == 3);
  CHECK(choose({5}) == 0);

  // One slow moment decides nothing.
  int calls = 0;
  const auto calm = ChooseFastest(2, [&](size_t i) -> Result<double> {
    ++calls;
    if (i == 1) return calls < 5 ? 100.0 : 1.0;
    return 2.0;
  });
  REQUIRE(calm.ok());
  CHECK(*calm == 1);

  const auto none = ChooseFastest(3, [](size_t i) -> Result<double> {
    return Error{ErrorCode::kDevice, StrCat("refused ", i)};
  });
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message == "refused 0");
}

}  // namespace
}  // namespace stowage
