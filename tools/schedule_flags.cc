#include "tools/schedule_flags.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

#include "base/strings.h"

namespace stowage::tools {
namespace {

Error Invalid(std::string_view message) {
  return {ErrorCode::kInvalidArgument, std::string(message)};
}

template <typename T>
std::optional<T> Parse(std::string_view text) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

Status SetMinimum(double min_lr, LearningRateSchedule* schedule) {
  if (schedule->kind == ScheduleKind::kConstant) {
    return Invalid(
        StrCat("[min-lr] a constant rate stays at its peak, and "
               "--min-lr ",
               min_lr,
               " says nothing; leave it away, or give another "
               "--schedule"));
  }
  if (!(min_lr >= 0 && min_lr <= schedule->peak)) {
    return Invalid(StrCat("[min-lr] ", min_lr,
                          " is out of range; expected 0 to the learning "
                          "rate's peak, ",
                          schedule->peak));
  }
  schedule->final_factor = min_lr / schedule->peak;
  return {};
}

Status SetPower(double power, LearningRateSchedule* schedule) {
  if (schedule->kind != ScheduleKind::kPolynomial) {
    return Invalid(StrCat("[power] a ", ScheduleName(schedule->kind),
                          " rate has no power to set to ", power,
                          "; give --schedule polynomial with --power"));
  }
  if (!(power > 0 && std::isfinite(power))) {
    return Invalid(
        StrCat("[power] ", power, " is not a finite number above 0"));
  }
  schedule->power = power;
  return {};
}

}  // namespace

void AddScheduleOptions(Options& options, ScheduleFlags* flags) {
  options.Group("optimization");
  options.Add("--lr", &flags->lr,
              "Peak of the learning rate; default: the model's");
  options.Add("--schedule", &flags->schedule,
              StrCat("How the learning rate goes on behind the warm-up: ",
                     ScheduleChoices(),
                     ", as in transformers; wsd keeps the peak and falls in "
                     "the last fifth of the steps; default: the model's, "
                     "cosine"));
  options.Add("--warmup", &flags->warmup,
              "Steps in which the rate rises to its peak, or below 1 a share "
              "of all steps; default: 0 with --schedule, else the model's");
  options.Add("--min-lr", &flags->min_lr,
              "Learning rate of the last step, and of inverse_sqrt the lowest; "
              "default: 0 with --schedule, else the model's");
  options.Add("--power", &flags->power,
              "Of --schedule polynomial; default: 1, which is linear");
}

Result<LearningRateSchedule> ReadSchedule(
    const ScheduleFlags& flags, const LearningRateSchedule& defaults) {
  LearningRateSchedule schedule = defaults;
  if (flags.lr) {
    if (!(*flags.lr > 0) || !std::isfinite(*flags.lr)) {
      return Invalid(StrCat("[train] learning rate ", *flags.lr,
                            " is not a positive number"));
    }
    schedule.peak = *flags.lr;
  }
  if (!flags.schedule.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(schedule.kind, ParseSchedule(flags.schedule));
    schedule.warmup = 0;
    schedule.final_factor = 0;
  }
  if (flags.min_lr) {
    STOWAGE_RETURN_IF_ERROR(SetMinimum(*flags.min_lr, &schedule));
  }
  if (flags.power) STOWAGE_RETURN_IF_ERROR(SetPower(*flags.power, &schedule));
  return schedule;
}

Result<int64_t> ReadWarmup(const std::string& text, int64_t steps) {
  std::optional<int64_t> warmup = Parse<int64_t>(text);
  if (!warmup) {
    const std::optional<double> share = Parse<double>(text);
    if (!share || !(*share >= 0 && *share < 1)) {
      return Invalid(StrCat("[warmup] ", Quoted(text),
                            " is no number of steps, and no share of them "
                            "from 0 up to 1"));
    }
    warmup =
        static_cast<int64_t>(std::ceil(*share * static_cast<double>(steps)));
  }
  if (*warmup < 0 || (*warmup > 0 && *warmup >= steps)) {
    return Invalid(StrCat("[warmup] a warm-up of ", *warmup,
                          " steps in a run of ", steps,
                          "; expected at least 0, and fewer than the run has"));
  }
  return *warmup;
}

}  // namespace stowage::tools
