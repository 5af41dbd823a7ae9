#include "nn/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/strings.h"

namespace stowage {
namespace {

constexpr std::pair<std::string_view, ScheduleKind> kNames[] = {
    {"constant", ScheduleKind::kConstant},
    {"linear", ScheduleKind::kLinear},
    {"cosine", ScheduleKind::kCosine},
    {"wsd", ScheduleKind::kWsd},
    {"polynomial", ScheduleKind::kPolynomial},
    {"inverse_sqrt", ScheduleKind::kInverseSqrt},
};

// The time scale of kInverseSqrt without a warm-up.
constexpr int64_t kInverseSqrtSteps = 10'000;

// The completed fraction of the steps after `first`, at most 1.
double ShareDone(int64_t step, int64_t first, int64_t steps) {
  return std::clamp(
      static_cast<double>(step - first) /
          static_cast<double>(std::max<int64_t>(1, steps - first)),
      0.0, 1.0);
}

double HalfCosine(double done) {
  return 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace

double LearningRateSchedule::At(int64_t step, int64_t steps) const {
  const int64_t rise = warmup < steps ? warmup : steps / 10;
  const auto between = [&](double height) {
    return peak * (final_factor + (1 - final_factor) * height);
  };
  if (step <= rise) {
    const double risen = static_cast<double>(step) / static_cast<double>(rise);
    // In transformers, only get_wsd_schedule's warm-up begins at the final rate.
    return kind == ScheduleKind::kWsd ? between(risen) : peak * risen;
  }
  const double done = ShareDone(step, rise, steps);
  switch (kind) {
    case ScheduleKind::kConstant:
      return peak;
    case ScheduleKind::kLinear:
      return between(1 - done);
    case ScheduleKind::kCosine:
      return between(HalfCosine(done));
    case ScheduleKind::kWsd: {
      const auto share = std::llround(decay_share * static_cast<double>(steps));
      const int64_t decay = std::clamp<int64_t>(share, 1, steps - rise);
      return between(HalfCosine(ShareDone(step, steps - decay, steps)));
    }
    case ScheduleKind::kPolynomial:
      return between(std::pow(1 - done, power));
    case ScheduleKind::kInverseSqrt: {
      const auto scale =
          static_cast<double>(rise > 0 ? rise : kInverseSqrtSteps);
      const auto behind = static_cast<double>(std::min(step, steps) - rise);
      return peak *
             std::max(final_factor, 1 / std::sqrt((behind + scale) / scale));
    }
  }
  return peak;
}

std::string_view ScheduleName(ScheduleKind kind) {
  const auto* const found = std::ranges::find(
      kNames, kind, [](const auto& named) { return named.second; });
  return found->first;
}

std::string ScheduleChoices() {
  std::string choices;
  for (const auto& named : kNames) {
    const bool is_last = &named == std::end(kNames) - 1;
    choices += StrCat(choices.empty() ? ""
                      : is_last       ? " or "
                                      : ", ",
                      named.first);
  }
  return choices;
}

Result<ScheduleKind> ParseSchedule(std::string_view name) {
  for (const auto& [known, kind] : kNames) {
    if (known == name) return kind;
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[schedule] there is no schedule ", Quoted(name),
                      "; expected ", ScheduleChoices())};
}

}  // namespace stowage
