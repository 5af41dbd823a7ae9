#include "nn/initializers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ir/dtype.h"
#include "runtime/initial_values.h"

namespace stowage {
namespace {

struct Moments {
  double deviation = 0;
  double largest = 0;
};

Moments MomentsOf(const Init& init) {
  const ValueInfo value{.name = "w",
                        .type = {DType::kF64, {300, 400}},
                        .role = Role::kParam,
                        .init = init};
  std::vector<std::byte> bytes;
  MakeInitialValues(value, 1, [&](Bytes, std::span<const std::byte> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  });
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  Moments moments;
  for (const double v : values) {
    moments.deviation += v * v;
    moments.largest = std::max(moments.largest, std::abs(v));
  }
  moments.deviation =
      std::sqrt(moments.deviation / static_cast<double>(values.size()));
  return moments;
}

TEST_CASE("a weight's deviation is what its fans ask for") {
  // sqrt(2 / 300), sqrt(2 / 700), and a uniform's bound is sqrt(3) deviations.
  const double kaiming = 0.081650;
  const double xavier = 0.053452;
  const double within = 0.01;  // of 120,000 elements; five errors are 0.0102
  CHECK(MomentsOf(KaimingNormal(300)).deviation ==
        doctest::Approx(kaiming).epsilon(within));
  CHECK(MomentsOf(KaimingUniform(300)).deviation ==
        doctest::Approx(kaiming).epsilon(within));
  CHECK(MomentsOf(XavierNormal(300, 400)).deviation ==
        doctest::Approx(xavier).epsilon(within));
  CHECK(MomentsOf(XavierUniform(300, 400)).deviation ==
        doctest::Approx(xavier).epsilon(within));
  CHECK(MomentsOf(KaimingUniform(300)).largest ==
        doctest::Approx(0.141421).epsilon(1e-3));
  CHECK(MomentsOf(XavierUniform(300, 400)).largest ==
        doctest::Approx(0.092582).epsilon(1e-3));
  CHECK(MomentsOf(KaimingNormal(300, 1)).deviation ==
        doctest::Approx(kaiming / std::sqrt(2)).epsilon(within));
  CHECK(MomentsOf(XavierNormal(300, 400, 2)).deviation ==
        doctest::Approx(2 * xavier).epsilon(within));
}

}  // namespace
}  // namespace stowage
