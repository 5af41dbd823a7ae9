#ifndef STOWAGE_DATA_DIGITS_DATA_H_
#define STOWAGE_DATA_DIGITS_DATA_H_

// Reads 8 x 8 images of handwritten digits from CSV without a header. A row has 64 gray levels from
// 0 to 16, followed by the digit from 0 to 9. Gray levels are scaled to [0, 1]. The validation set
// is a fifth of the rows, chosen at random from the seed.
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

  /// Reads the file at `path`. Returns kNotFound or kIo if it cannot be read. Returns
  /// kInvalidArgument, with the line and column, for a malformed row. Returns kInvalidArgument if
  /// there are fewer than five rows.
  static Result<DigitsData> Load(const std::string& path, uint64_t seed);
  /// Parses the content of a file, as Load does. `origin` names the file in errors.
  static Result<DigitsData> FromCsv(std::string_view csv,
                                    std::string_view origin, uint64_t seed);
};
/// Samples `batch` rows of `set` with replacement. The seed and the step determine the rows. Writes
/// the images to `x` and the digits to `y`. Does not allocate. Requires that `set` is not empty,
/// that `x.size() == batch * 64`, and that `y.size() == batch`.
void SampleDigits(const DigitSet& set, int64_t batch, uint64_t seed,
                  uint64_t step, std::span<float> x, std::span<int32_t> y);

/// Copies rows first to first + batch - 1 of `set`, modulo its size, to `x` and `y`. Requires
/// `first >= 0`, that `set` is not empty, that `x.size() == batch * 64`, and that `y.size() ==
/// batch`.
void ReadDigits(const DigitSet& set, int64_t batch, int64_t first,
                std::span<float> x, std::span<int32_t> y);

}  // namespace stowage

#endif  // STOWAGE_DATA_DIGITS_DATA_H_
