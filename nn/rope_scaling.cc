#include "nn/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "math/trigonometry.h"

namespace stowage {

std::vector<double> Llama3RopeFactors(int64_t dims, double base,
                                      const Llama3RopeScaling& scaling) {
  std::vector<double> factors;
  for (int64_t pair = 0; pair < dims / 2; ++pair) {
    // The number of wavelengths in the original positions.
    const double waves =
        scaling.original_positions * math::RopeTurns(base, dims, pair);
    if (waves < scaling.low_frequency_factor) {
      factors.push_back(scaling.factor);
    } else if (waves > scaling.high_frequency_factor) {
      factors.push_back(1);
    } else {
      const double smooth =
          (waves - scaling.low_frequency_factor) /
          (scaling.high_frequency_factor - scaling.low_frequency_factor);
      factors.push_back(1 / ((1 - smooth) / scaling.factor + smooth));
    }
  }
  return factors;
}

namespace {

// The settings of a scaling, by name.
using RopeNumbers = std::initializer_list<std::pair<std::string_view, double>>;

Status CheckPositive(std::string_view scaling, RopeNumbers numbers) {
  for (const auto& [name, number] : numbers) {
    if (std::isfinite(number) && number > 0) continue;
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] a ", scaling, " scaling of rope has a ", name,
                        " of ", number, "; expected a finite number above 0")};
  }
  return {};
}

}  // namespace

Status CheckLlama3Rope(const Llama3RopeScaling& scaling) {
  STOWAGE_RETURN_IF_ERROR(CheckPositive(
      "Llama 3",
      {{"factor", scaling.factor},
       {"low_freq_factor", scaling.low_frequency_factor},
       {"high_freq_factor", scaling.high_frequency_factor},
       {"number of original positions", scaling.original_positions}}));
  if (scaling.high_frequency_factor > scaling.low_frequency_factor) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[model] a Llama 3 scaling of rope has a "
             "high_freq_factor of ",
             scaling.high_frequency_factor, " and a low_freq_factor of ",
             scaling.low_frequency_factor,
             "; expected the first above the second")};
}

Status CheckYarn(const YarnRopeScaling& scaling) {
  return CheckPositive(
      "YaRN", {{"factor", scaling.factor},
               {"number of original positions", scaling.original_positions},
               {"beta_fast", scaling.fast_turns},
               {"beta_slow", scaling.slow_turns}});
}

std::vector<double> YarnRopeFactors(int64_t dims, double base,
                                    const YarnRopeScaling& scaling) {
  // The pair with that number of turns in the original positions.
  const auto pair_of = [&](double turns) {
    return static_cast<double>(dims) *
           std::log(scaling.original_positions /
                    (turns * 2 * std::numbers::pi)) /
           (2 * std::log(base));
  };
  double low = pair_of(scaling.fast_turns), high = pair_of(scaling.slow_turns);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dims - 1));
  if (low == high) high += 0.001;
  std::vector<double> factors;
  for (int64_t pair = 0; pair < dims / 2; ++pair) {
    const double slow =
        std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
    factors.push_back(1 / (slow / scaling.factor + 1 - slow));
  }
  return factors;
}

double YarnGain(double factor, double weight) {
  return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
}

double LongRopeGain(double factor, double original_positions) {
  STOWAGE_CHECK(original_positions > 1);
  return factor <= 1
             ? 1
             : std::sqrt(1 + std::log(factor) / std::log(original_positions));
}

Status CheckRopeFactors(std::string_view model, int64_t dims,
                        std::span<const double> factors) {
  if (factors.empty()) return {};
  if (std::ssize(factors) != dims / 2) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] ", model, " has ", factors.size(),
                        " factors of rope for heads of ", dims,
                        " elements; expected one a pair, ", dims / 2)};
  }
  for (const double factor : factors) {
    if (std::isfinite(factor) && factor > 0) continue;
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] ", model, " has a factor of rope of ", factor,
                        "; expected finite numbers above 0")};
  }
  return {};
}

RopeTable ScaledRopeTable(GraphBuilder& g, int64_t positions, int64_t dims,
                          double base, std::span<const double> factors,
                          double gain, SourceLoc loc) {
  STOWAGE_CHECK(std::ssize(factors) == dims / 2);
  std::vector<float> cos, sin;
  for (int64_t position = 0; position < positions; ++position) {
    for (int64_t pair = 0; pair < dims / 2; ++pair) {
      const double turns = math::RopeTurns(base, dims, pair) /
                           factors[static_cast<size_t>(pair)];
      const double angle =
          math::RopeAngle(static_cast<int32_t>(position), turns);
      cos.push_back(static_cast<float>(gain * std::cos(angle)));
      sin.push_back(static_cast<float>(gain * std::sin(angle)));
    }
  }
  const Shape shape{positions, 1, dims / 2};
  const auto constant = [&](std::string_view name,
                            const std::vector<float>& numbers) {
    return g.Name(
        name,
        Constant(g, DType::kF32, shape, std::as_bytes(std::span(numbers)), loc),
        loc);
  };
  return {constant("rope.cos", cos), constant("rope.sin", sin)};
}

RopeTable RowsOf(const RopeTable& table, Value positions, SourceLoc loc) {
  return {Gather(table.cos, positions, loc), Gather(table.sin, positions, loc)};
}

Value Rope(Value x, const RopeTable& table, SourceLoc loc) {
  if (!x.ok() || !table.cos.ok()) return x;
  const int64_t pairs = table.cos.shape().back(), size = x.shape().back();
  const Value wide = Cast(x, DType::kF32, loc);
  const Value a = Slice(wide, -1, 0, pairs, 1, loc);
  const Value b = Slice(wide, -1, pairs, 2 * pairs, 1, loc);
  std::vector<Value> parts = {
      Sub(Mul(a, table.cos, loc), Mul(b, table.sin, loc), loc),
      Add(Mul(b, table.cos, loc), Mul(a, table.sin, loc), loc)};
  if (2 * pairs < size) {
    parts.push_back(Slice(wide, -1, 2 * pairs, size, 1, loc));
  }
  return Cast(Concat(parts, -1, loc), x.dtype(), loc);
}

}  // namespace stowage
