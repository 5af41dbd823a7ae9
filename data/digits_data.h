#ifndef STOWAGE_DATA_DIGITS_DATA_H_
#define STOWAGE_DATA_DIGITS_DATA_H_

// Images of handwritten digits in CSV without a header: rows of 64 grey levels 0 to 16 (8 x 8
// pixels) and the digit 0 to 9. Levels are scaled to [0, 1]. A fifth of the rows, drawn by the
// seed, is the validation set.
//
//   Result<DigitsData> digits = DigitsData::Load("digits.csv", /*seed=*/1);
//   SampleDigits(digits->train, 64, seed, step, x, y);

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/image.h"

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

  /// Errors: kNotFound or kIo if the file cannot be read; kInvalidArgument for a malformed row,
  /// with line and column, and for fewer than five rows.
  static Result<DigitsData> Load(const std::string& path, uint64_t seed);
  /// The same for the content of a file; `origin` names it in errors.
  static Result<DigitsData> FromCsv(std::string_view csv,
                                    std::string_view origin, uint64_t seed);
};

/// Draws `batch` rows of a set with repetition, a function of the seed and the step. Allocates
/// nothing. Preconditions: x.size() == batch * 64, y.size() == batch.
void SampleDigits(const DigitSet& set, int64_t batch, uint64_t seed,
                  uint64_t step, std::span<float> x, std::span<int32_t> y);

/// Reads rows first, first + 1, ... of a set, modulo its size. Preconditions: as SampleDigits.
void ReadDigits(const DigitSet& set, int64_t batch, int64_t first,
                std::span<float> x, std::span<int32_t> y);

}  // namespace stowage

#endif  // STOWAGE_DATA_DIGITS_DATA_H_
