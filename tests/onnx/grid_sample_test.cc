// GridSample of what ONNX's own tests do not have: lines, volumes, and the names of modes
// since operator set 20.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "formats/array.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/one_op.h"

namespace stowage {
namespace {

using onnx::pb::NodeProto;

OneOp Sampled(const Array& x, const Array& grid, const char* mode) {
  return {.op = "GridSample",
          .operands = {"x", "grid"},
          .inputs = {{"x", x}, {"grid", grid}},
          .attributes = [=](NodeProto& node) {
            SetText(node, "mode", mode);
            SetInt(node, "align_corners", 1);
          }};
}

void CheckSampled(const OneOp& op, const std::vector<float>& expected) {
  const auto y = Run(op);
  REQUIRE_MESSAGE(y.ok(), y.error().message);
  const std::vector<float> got = ValuesOf<float>((*y)[0]);
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got[i] - expected[i]) < 1e-5f);
  }
}

const Array kLine = Floats({1, 1, 4}, {1, 2, 3, 5});
const Array kPlaces = Floats({1, 4, 1}, {-1, 0, 1, 2});

TEST_CASE("a line is sampled between its elements, and is 0 beyond them") {
  // 2 lies at 4.5, behind the last one.
  CheckSampled(Sampled(kLine, kPlaces, "linear"), {1, 2.5f, 5, 0});
  // Halfway, a cubic with a = -3/4 has the weights -3, 19, 19 and -3 of 32.
  CheckSampled(
      Sampled(kLine, kPlaces, "cubic"),
      {1, (-3 * 1 + 19 * 2 + 19 * 3 - 3 * 5) / 32.0f, 5, -3 * 5 / 32.0f});
}

TEST_CASE("a volume is sampled, and a place names the last axis first") {
  const Array volume = Floats({1, 1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Array places = Floats({1, 1, 1, 3, 3}, {0, 0, 0,    //
                                                1, -1, -1,  //
                                                -1, -1, 1});
  CheckSampled(Sampled(volume, places, "linear"), {4.5f, 2, 5});
  CheckSampled(Sampled(volume, places, "nearest"), {1, 2, 5});
}

TEST_CASE("what GridSample cannot do is told") {
  const auto said = [](const Array& grid, const char* mode) {
    const auto y = Run(Sampled(kLine, grid, mode));
    return y.ok() ? std::string() : y.error().message;
  };
  CHECK(said(kPlaces, "lanczos")
            .find("(GridSample) samples by \"lanczos\"; expected linear, cubic "
                  "or nearest") != std::string::npos);
  CHECK(said(Floats({1, 2, 2}, {0, 0, 0, 0}), "linear")
            .find("samples (1, 1, 4) at places (1, 2, 2); expected 1 to 3 "
                  "spatial dimensions") != std::string::npos);
}

}  // namespace
}  // namespace stowage
