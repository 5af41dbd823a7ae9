#ifndef STOWAGE_NN_DIGITS_DATA_H_
#define STOWAGE_NN_DIGITS_DATA_H_

// Images of handwritten digits: rows of 64 grey levels 0..16, eight lines of
// eight pixels, and the digit 0..9, as comma-separated integers without a
// header. Levels are scaled to 0..1. A fifth of the rows, chosen by the seed,
// is held out.
//
//   Result<DigitsData> digits = DigitsData::Load("digits.csv", /*seed=*/1);
//   SampleDigits(digits->train, 64, seed, step, x, y);

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "nn/model_options.h"

namespace stowage {

inline constexpr int64_t kDigitPixels = 64;
inline constexpr ImageShape kDigitImages = {
    .channels = 1, .height = 8, .width = 8, .classes = 10};

struct DigitSet {
  std::vector<float> x;    // (size, 64), row-major, in [0, 1]
  std::vector<int32_t> y;  // (size), in [0, 10)

  int64_t size() const { return static_cast<int64_t>(y.size()); }
};

struct DigitsData {
  DigitSet train;
  DigitSet held_out;

  /// Errors: kNotFound or kIo when the file cannot be read; a malformed row,
  /// with line and column; fewer than five rows.
  static Result<DigitsData> Load(const std::string& path, uint64_t seed);
  /// The same for text in hand; `origin` names it in errors.
  static Result<DigitsData> FromCsv(std::string_view csv,
                                    std::string_view origin, uint64_t seed);
};

/// Draws `batch` rows of a set, with repetition, by the seed and the step
/// alone. Precondition: x holds batch * 64 and y batch. Allocates nothing.
void SampleDigits(const DigitSet& set, int64_t batch, uint64_t seed,
                  uint64_t step, std::span<float> x, std::span<int32_t> y);

/// Rows first, first + 1, ... of a set, from its start again past the end.
/// Preconditions as SampleDigits.
void ReadDigits(const DigitSet& set, int64_t batch, int64_t first,
                std::span<float> x, std::span<int32_t> y);

}  // namespace stowage

#endif  // STOWAGE_NN_DIGITS_DATA_H_
