#include "autodiff/loss_scaling.h"

#include <cmath>
#include <limits>
#include <string_view>

#include "base/strings.h"

namespace stowage {
namespace {

constexpr double kLeast = std::numeric_limits<float>::min();

template <typename T>
Status Check(std::string_view name, T value, bool holds,
             std::string_view expected) {
  if (holds) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[loss scale] ", name, " is ", value, "; expected ", expected)};
}

}  // namespace

Status CheckLossScaling(const LossScaling& scaling) {
  const auto& [init, is_dynamic, growth, backoff, interval] = scaling;
  STOWAGE_RETURN_IF_ERROR(Check("init_scale", init,
                                init >= kLeast && init <= 1 / kLeast,
                                "a number from 2^-126 to 2^126"));
  if (!is_dynamic) return {};
  STOWAGE_RETURN_IF_ERROR(Check("growth_factor", growth,
                                growth > 1 && std::isfinite(growth),
                                "a finite number above 1"));
  STOWAGE_RETURN_IF_ERROR(Check("backoff_factor", backoff,
                                backoff > 0 && backoff < 1,
                                "a number between 0 and 1"));
  return Check("growth_interval", interval, interval >= 1, "at least 1");
}

}  // namespace stowage
