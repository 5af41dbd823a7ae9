// Resize by what came with operator sets 18 and 19, which ONNX's tests of version 1.12 do
// not have. Expected numbers are worked out by hand from the definition.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "formats/array.h"
#include "ir/shape.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/one_op.h"

namespace stowage {
namespace {

using onnx::pb::NodeProto;

void CheckResized(const OneOp& op, const Shape& shape,
                  const std::vector<float>& expected) {
  const auto y = Run(op);
  REQUIRE_MESSAGE(y.ok(), y.error().message);
  CHECK((*y)[0].type.shape == shape);
  const std::vector<float> got = ValuesOf<float>((*y)[0]);
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got[i] - expected[i]) < 1e-5f);
  }
}

const Array kFour = Floats({1, 1, 4}, {1, 2, 3, 4});

TEST_CASE("a smaller image is smoothed where the file asks for it") {
  // Around 1/2, at half the distance: 3/4, 3/4, 1/4, and 1/4 beyond the edge.
  CheckResized({.op = "Resize",
                .operands = {"x", "", "", "sizes"},
                .inputs = {{"x", kFour}},
                .constants = {{"sizes", Ints({3}, {1, 1, 2})}},
                .attributes =
                    [](NodeProto& node) {
                      SetText(node, "mode", "linear");
                      SetInt(node, "antialias", 1);
                    }},
               {1, 1, 2}, {1.625f, 3.375f});
  // Without what is beyond the edge, weights are 3/7, 3/7 and 1/7.
  CheckResized({.op = "Resize",
                .operands = {"x", "", "", "sizes"},
                .inputs = {{"x", kFour}},
                .constants = {{"sizes", Ints({3}, {1, 1, 2})}},
                .attributes =
                    [](NodeProto& node) {
                      SetText(node, "mode", "linear");
                      SetInt(node, "antialias", 1);
                      SetInt(node, "exclude_outside", 1);
                    }},
               {1, 1, 2}, {12.0f / 7, 23.0f / 7});
}

// 4 x 0.6 are 2.4 elements, of which 2 are there: 1/3 and 1/3 are left out.
TEST_CASE("an image that is cut off is cut off at both ends") {
  CheckResized({.op = "Resize",
                .operands = {"x", "", "scales"},
                .inputs = {{"x", kFour}},
                .constants = {{"scales", Floats({3}, {1, 1, 0.6f})}},
                .attributes =
                    [](NodeProto& node) {
                      SetText(node, "mode", "linear");
                      SetText(node, "coordinate_transformation_mode",
                              "half_pixel_symmetric");
                    }},
               {1, 1, 2}, {5.0f / 3, 10.0f / 3});
}

// 2.4 elements are 2, whose corners are the first and the last, as in PyTorch.
TEST_CASE("corners are those of the whole result") {
  const auto resized = [](const char* mode, float scale, const Shape& shape,
                          const std::vector<float>& expected) {
    CheckResized({.op = "Resize",
                  .operands = {"x", "", "scales"},
                  .inputs = {{"x", kFour}},
                  .constants = {{"scales", Floats({3}, {1, 1, scale})}},
                  .attributes =
                      [&](NodeProto& node) {
                        SetText(node, "mode", mode);
                        SetText(node, "coordinate_transformation_mode",
                                "align_corners");
                      }},
                 shape, expected);
  };
  resized("linear", 0.6f, {1, 1, 2}, {1, 4});
  resized("nearest", 0.6f, {1, 1, 2}, {1, 4});
  resized("linear", 0.9f, {1, 1, 3}, {1, 2.5f, 4});
  resized("linear", 0.3f, {1, 1, 1}, {1});
}

// The middle of seven is 3; 0.5 / (1 / 7) - 0.5 in floats is just below.
TEST_CASE("the nearest element is found in floats, as ONNX Runtime does") {
  CheckResized(
      {.op = "Resize",
       .operands = {"x", "", "", "sizes"},
       .inputs = {{"x", Floats({1, 1, 7}, {1, 2, 3, 4, 5, 6, 7})}},
       .constants = {{"sizes", Ints({3}, {1, 1, 1})}},
       .attributes =
           [](NodeProto& node) { SetText(node, "nearest_mode", "floor"); }},
      {1, 1, 1}, {3});
}

// (2, 4) into (3, 3): by 3/4, which gives (1.5, 3), or by 3/2, which gives (3, 6).
TEST_CASE("an image keeps its aspect where the file asks for it") {
  const auto resized = [](const char* policy) {
    const auto y =
        Run({.op = "Resize",
             .operands = {"x", "", "", "sizes"},
             .inputs = {{"x", Floats({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})}},
             .constants = {{"sizes", Ints({2}, {3, 3})}},
             .attributes = [&](NodeProto& node) {
               SetText(node, "keep_aspect_ratio_policy", policy);
               SetInts(node, "axes", {0, 1});
             }});
    REQUIRE_MESSAGE(y.ok(), y.error().message);
    return (*y)[0].type.shape;
  };
  CHECK(resized("not_larger") == Shape({2, 3}));
  CHECK(resized("not_smaller") == Shape({3, 6}));
  CHECK(resized("stretch") == Shape({3, 3}));
}

TEST_CASE("what Resize cannot do is told") {
  const auto said = [](const std::vector<int64_t>& sizes, const char* name,
                       const char* value) {
    const auto y =
        Run({.op = "Resize",
             .operands = {"x", "", "", "sizes"},
             .inputs = {{"x", kFour}},
             .constants = {{"sizes",
                            Ints({static_cast<int64_t>(sizes.size())}, sizes)}},
             .attributes = [&](NodeProto& node) {
               if (*name) SetText(node, name, value);
             }});
    return y.ok() ? std::string() : y.error().message;
  };
  CHECK(said({1, 1, 5}, "mode", "linear") == "");
  CHECK(said({1, 5}, "", "").find("has 2 sizes for 3 axes") !=
        std::string::npos);
  CHECK(said({1, 1, 0}, "", "").find("resizes an axis of 4 to 0") !=
        std::string::npos);
  CHECK(
      said({1, 1, 5}, "mode", "lanczos")
          .find("resizes by \"lanczos\"; expected nearest, linear or cubic") !=
      std::string::npos);
  CHECK(said({1, 1, 5}, "coordinate_transformation_mode", "guess")
            .find("finds elements by \"guess\"") != std::string::npos);
  CHECK(said({1, 1, int64_t{1} << 30}, "mode", "cubic")
            .find("mixes 4 elements into 1073741824; at most 16777216 weights "
                  "can be") != std::string::npos);
}

}  // namespace
}  // namespace stowage
