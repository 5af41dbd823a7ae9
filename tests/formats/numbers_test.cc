#include "formats/numbers.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "formats/array.h"
#include "ir/dtype.h"

namespace stowage {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

TEST_CASE("what a type holds exactly comes back, whatever the type") {
  for (const DType dtype : kAllDTypes) {
    CAPTURE(DTypeName(dtype));
    const std::vector<int64_t> ints = {1, 0, 1};
    const Array array = ArrayOf(dtype, {3}, ints);
    CHECK(static_cast<Bytes>(array.bytes.size()) == array.type.bytes());
    CHECK(IntsOf(array) == ints);
    CHECK(RealsOf(array) == std::vector<double>{1, 0, 1});
    CHECK(ArrayOf(dtype, {3}, RealsOf(array)) == array);
  }
  CHECK(IntsOf(ArrayOf(DType::kI64, {2}, std::vector{kMost, kLeast})) ==
        std::vector{kMost, kLeast});
  CHECK(IntsOf(ArrayOf(DType::kI16, {1}, std::vector<int64_t>{-7}))[0] == -7);
}

TEST_CASE("halves are widened, and rounded to even") {
  // 0x3E00 is 1.5 in f16, 0xBFC0 is -1.5 in bf16.
  CHECK(RealsOf({{DType::kF16, {1}}, std::string("\x00\x3E", 2)})[0] == 1.5);
  CHECK(RealsOf({{DType::kBF16, {1}}, std::string("\xC0\xBF", 2)})[0] == -1.5);
  // 2049 lies between 2048 and 2050 in f16.
  CHECK(RealsOf(ArrayOf(DType::kF16, {1}, std::vector<double>{2049}))[0] ==
        2048);
}

TEST_CASE("reals become the integers towards zero, and nothing overflows") {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> reals = {2.9, -2.9, 1e300, -infinity, NAN, 0x1p63};
  CHECK(IntsOf(ArrayOf(DType::kF64, {6}, reals)) ==
        std::vector<int64_t>{2, -2, kMost, kLeast, 0, kMost});
  CHECK(IntsOf(ArrayOf(DType::kI64, {6}, reals)) ==
        std::vector<int64_t>{2, -2, kMost, kLeast, 0, kMost});
  CHECK(IntsOf(ArrayOf(DType::kBool, {2}, std::vector<double>{0.25, 0})) ==
        std::vector<int64_t>{1, 0});
}

}  // namespace
}  // namespace stowage
