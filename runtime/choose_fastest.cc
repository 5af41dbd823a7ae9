#include "runtime/choose_fastest.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "base/check.h"

namespace stowage {
namespace {

constexpr int kRounds = 5;
constexpr double kGain = 0.98;  // of the best time before, for a later one

}  // namespace

Result<size_t> ChooseFastest(
    size_t count, const std::function<Result<double>(size_t)>& seconds) {
  STOWAGE_CHECK(count > 0);
  std::vector<double> best(count, std::numeric_limits<double>::infinity());
  std::vector<size_t> sound;
  std::optional<Error> failed;
  for (size_t i = 0; i < count; ++i) {
    const Result<double> run = seconds(i);
    if (run.ok()) sound.push_back(i);
    if (!run.ok() && !failed) failed = run.error();
  }
  if (sound.empty()) return *failed;
  for (int round = 0; round < kRounds; ++round) {
    for (const size_t i : sound) {
      STOWAGE_ASSIGN_OR_RETURN(const double time, seconds(i));
      best[i] = std::min(best[i], time);
    }
  }
  size_t fastest = sound.front();
  for (const size_t i : sound) {
    if (best[i] < kGain * best[fastest]) fastest = i;
  }
  return fastest;
}

}  // namespace stowage
