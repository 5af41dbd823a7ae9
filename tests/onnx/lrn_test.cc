// LRN of a file: one op, whose window is ONNX's.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "formats/array.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/linear_model.h"
#include "tests/onnx/run_onnx.h"

namespace stowage {
namespace {

using onnx::pb::AttributeProto;
using onnx::pb::ModelProto;

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
