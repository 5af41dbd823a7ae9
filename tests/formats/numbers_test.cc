#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "formats/array.h"
#include "ir/tensor_type.h"

namespace stowage {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

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
  CHECK(IntsOf(ArrayOf(DType::kI64, {2}, std::vector{kMax, kMin})) ==
        std::vector{kMax, kMin});
  CHECK(IntsOf(ArrayOf(DType::kI16, {1}, std::vector<int64_t>{-7}))[0] == -7);
}

TEST_CASE("what is not finite in a type is named with its place") {
  const auto said = [](const Array& array, DType dtype) {
    const Status status = CheckFinite(array, dtype, "d.npz:x");
    return status.ok() ? "" : status.error().message;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> reals(24, 65504);  // the largest of f16
  const auto array = [&] { return ArrayOf(DType::kF64, {2, 3, 4}, reals); };
  for (const DType dtype :
       {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    CHECK(said(array(), dtype) == "");
  }
  reals[17] = 1e300;  // (1, 1, 1)
  CHECK(said(array(), DType::kF64) == "");
  CHECK(said(array(), DType::kF32) ==
        "[data] \"d.npz:x\" [1, 1, 1] is 1e+300, which is infinite in f32; "
        "expected finite numbers");
  reals[17] = 65520;
  CHECK(said(array(), DType::kF32) == "");
  CHECK(said(array(), DType::kF16) ==
        "[data] \"d.npz:x\" [1, 1, 1] is 65520, which is infinite in f16; "
        "expected finite numbers");
  reals[17] = -kInfinity;
  CHECK(said(array(), DType::kF64) ==
        "[data] \"d.npz:x\" [1, 1, 1] is -inf; expected finite numbers");
  const Array narrow =
      ArrayOf(DType::kF32, {2}, std::vector{0.0, std::nan("")});
  CHECK(said(narrow, DType::kF32) ==
        "[data] \"d.npz:x\" [1] is nan; expected finite numbers");
  CHECK(said(ArrayOf(DType::kI64, {1}, std::vector{kMax}), DType::kF16) == "");
}

TEST_CASE("whole numbers out of a range are named with their place") {
  const Array array =
      ArrayOf(DType::kI32, {2, 2}, std::vector<int64_t>{0, 4, 3, -1});
  const Status high = CheckRange(array, 4, "y");
  REQUIRE(!high.ok());
  CHECK(high.error().message == "[data] \"y\" [0, 1] is 4; expected 0 to 3");
  const Status low = CheckRange(array, 5, "y");
  REQUIRE(!low.ok());
  CHECK(low.error().message == "[data] \"y\" [1, 1] is -1; expected 0 to 4");
  CHECK(
      CheckRange(ArrayOf(DType::kI64, {2}, std::vector<int64_t>{0, 4}), 5, "y")
          .ok());
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
        std::vector<int64_t>{2, -2, kMax, kMin, 0, kMax});
  CHECK(IntsOf(ArrayOf(DType::kI64, {6}, reals)) ==
        std::vector<int64_t>{2, -2, kMax, kMin, 0, kMax});
  CHECK(IntsOf(ArrayOf(DType::kBool, {2}, std::vector<double>{0.25, 0})) ==
        std::vector<int64_t>{1, 0});
}

}  // namespace
}  // namespace stowage
