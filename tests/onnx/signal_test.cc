// Spectra by what ONNX's own tests do not ask for: one side, lengths of their own, the
// axis as an operand, frames without a window. Expected numbers are worked out by hand.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/array.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/one_op.h"

namespace stowage {
namespace {

using onnx::pb::NodeProto;

void CheckSpectrum(const OneOp& op, const std::vector<float>& expected) {
  const auto y = Run(op);
  REQUIRE_MESSAGE(y.ok(), y.error().message);
  const std::vector<float> got = ValuesOf<float>((*y)[0]);
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got[i] - expected[i]) < 1e-5f);
  }
}

OneOp OneSide(int64_t length, bool inverse = false) {
  return {
      .op = "DFT",
      .operands = {"x", "length", "axis"},
      .inputs = {{"x", Floats({1, 4, 1}, {1, 2, 3, 4})}},
      .constants = {{"length", Ints({}, {length})}, {"axis", Ints({}, {-2})}},
      .attributes = [=](NodeProto& node) {
        SetInt(node, "onesided", 1);
        SetInt(node, "inverse", inverse);
      }};
}

TEST_CASE("a spectrum has one side, and is of as many elements as it is told") {
  CheckSpectrum(OneSide(4), {10, 0, -2, 2, -2, 0});
  CheckSpectrum(OneSide(2), {3, 0, -1, 0});
  // Four zeros follow; of every second frequency, those of above.
  const float h = std::sqrt(0.5f);
  CheckSpectrum(OneSide(8), {10, 0,                                  //
                             1 + 2 * h - 4 * h, -2 * h - 3 - 4 * h,  //
                             -2, 2,                                  //
                             1 - 2 * h + 4 * h, -2 * h + 3 - 4 * h,  //
                             -2, 0});
}

TEST_CASE("an inverse of one side is refused") {
  const auto y = Run(OneSide(4, true));
  REQUIRE(!y.ok());
  CHECK(y.error().message.find("(DFT) is the inverse of one side") !=
        std::string::npos);
}

OneOp Frames(int64_t length) {
  return {
      .op = "STFT",
      .operands = {"x", "step", "", "length"},
      .inputs = {{"x", Floats({1, 5, 1}, {1, 2, 3, 4, 5})}},
      .constants = {{"step", Ints({}, {2})}, {"length", Ints({}, {length})}}};
}

TEST_CASE("frames without a window end where the signal does") {
  CheckSpectrum(Frames(2), {3, 0, -1, 0,  //
                            7, 0, -1, 0});
  const auto y = Run(Frames(6));
  REQUIRE(!y.ok());
  CHECK(y.error().message.find("(STFT) takes frames of 6 from (1, 5, 1)") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage
