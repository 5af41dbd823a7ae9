// Resize, GridSample and LRN in cases that ONNX's tests of version 1.12 leave out: Resize of
// operator sets 18 and 19, lines, volumes and the modes of operator set 20 in GridSample.
// Expected numbers are worked out by hand.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "formats/array.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/linear_model.h"
#include "tests/onnx/one_op.h"
#include "tests/onnx/run_onnx.h"

namespace stowage {
namespace {

using onnx::pb::AttributeProto;
using onnx::pb::ModelProto;
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

// --- GridSample -----------------------------------------------------------------------

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

// --- LRN ------------------------------------------------------------------------------

// z = LRN(x) of x (1, 2).
ModelProto LrnModel(int64_t size) {
  ModelProto model = LinearModel();
  model.mutable_graph()->clear_initializer();
  auto* const nodes = model.mutable_graph()->mutable_node();
  nodes->Clear();
  auto* const lrn = AddNode(nodes, "LRN", {"x"}, "z");
  auto* const attr = lrn->add_attribute();
  attr->set_name("size");
  attr->set_type(AttributeProto::INT);
  attr->set_i(size);
  const auto add = [&](const char* name, float value) {
    auto* const number = lrn->add_attribute();
    number->set_name(name);
    number->set_type(AttributeProto::FLOAT);
    number->set_f(value);
  };
  add("alpha", 2);
  add("beta", 0.5);
  add("bias", 0);
  model.mutable_graph()->mutable_output(0)->set_name("z");
  return model;
}

TEST_CASE("LRN is one op, and the longer half of an even window lies behind") {
  const auto model = ReadOnnx(WrittenFile(LrnModel(2).SerializeAsString()));
  REQUIRE(model.ok());
  const auto graph = model->Build({.dims = {{"batch", 1}}});
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  REQUIRE(graph->num_nodes() == 1);
  CHECK(graph->nodes()[0].op == OpKind::kLocalResponseNorm);

  Array x{{DType::kF32, {1, 2}}, std::string(8, '\0')};
  const float numbers[] = {3, 4};
  std::memcpy(x.bytes.data(), numbers, sizeof(numbers));
  const auto outputs = RunOnnx(*model, *graph, {{"x", x}});
  REQUIRE_MESSAGE(outputs.ok(), outputs.error().message);
  const std::vector<float> z = ValuesOf<float>((*outputs)[0]);
  REQUIRE(z.size() == 2);
  CHECK(std::abs(z[0] - 3.0f / 5) < 1e-6f);  // of 3 and 4
  CHECK(std::abs(z[1] - 4.0f / 4) < 1e-6f);  // of 4 alone
}

TEST_CASE("LRN over no channels is refused") {
  const std::string said = Said(LrnModel(0));
  CAPTURE(said);
  CHECK(said.find("the_LRN") != std::string::npos);
  CHECK(said.find("size is 0; expected 1 to 2147483647") != std::string::npos);
}

}  // namespace
}  // namespace stowage
