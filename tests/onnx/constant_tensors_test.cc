// Tensors of floats that are constants of the model's code: they are no params, and train
// only where that is asked for.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"
#include "onnx/tensor.h"
#include "tests/onnx/linear_model.h"

namespace stowage {
namespace {

using onnx::pb::ModelProto;
using onnx::pb::TensorProto;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void AddReals(ModelProto* model, const std::string& name,
              const std::vector<int64_t>& dims,
              const std::function<double(int64_t, int64_t)>& number) {
  TensorProto& tensor = *model->mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(TensorProto::DOUBLE);
  int64_t count = 1;
  for (const int64_t dim : dims) {
    tensor.add_dims(dim);
    count *= dim;
  }
  const int64_t columns = dims.empty() ? 1 : dims.back();
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(number(i / columns, i % columns));
  }
  tensor.set_double_data(PackedReals(numbers));
}

// What a tensor of that name and these numbers is, "" a weight; read by `op`.
std::string KindOf(const std::string& name, const std::vector<int64_t>& dims,
                   const std::function<double(int64_t, int64_t)>& number,
                   const std::string& op = "Add") {
  ModelProto model;
  AddReals(&model, name, dims, number);
  // By way of a node that turns it.
  auto* const nodes = model.mutable_graph()->mutable_node();
  AddNode(nodes, "Transpose", {name}, "turned");
  AddNode(nodes, op, {"turned", "x"}, "y");
  const auto constants = onnx::ConstantTensors(model.graph(), "");
  const auto found = constants.find(name);
  return found == constants.end() ? "" : found->second;
}

double One(int64_t, int64_t) { return 1; }

TEST_CASE("a number is a constant under a name that an exporter has numbered") {
  for (const char* const name :
       {"val_155", "_val_3", "onnx::Mul_12", "/h.0/attn/Constant_3_output_0",
        "model/scale/mul/y:0", "const_fold_opt__47", "scalar_tensor_1", "zeros",
        "full_3", "27", "p_cast", "scalar_tensor_default"}) {
    CAPTURE(name);
    CHECK(KindOf(name, {}, One) == "a number of the model's code");
    CHECK(KindOf(name, {1}, One) == "a number of the model's code");
  }
  for (const char* const name :
       {"logit_scale", "h.0.attn.temperature", "alpha_1", "val", "h.zeros",
        "h.p_cast", "forecast", "logit_scale_default", "onnx::PRelu_5", "b",
        "model/dense/BiasAdd/ReadVariableOp:0"}) {
    CAPTURE(name);
    CHECK(KindOf(name, {1}, One) == "");
  }
  // Of more numbers it may be a weight that the exporter has transposed.
  CHECK(KindOf("val_155", {2, 2}, [](int64_t i, int64_t j) {
          return 0.1 * static_cast<double>(i - j);
        }) == "");
}

TEST_CASE("zeros are the initial state of an LSTM, unless the module has it") {
  const auto kind_of = [](const std::string& name, size_t place, double state) {
    ModelProto model;
    AddReals(&model, name, {1, 2, 4}, [&](int64_t, int64_t) { return state; });
    std::vector<std::string> operands = {"x", "w", "r", "b", "", "h", "c"};
    operands[place] = name;
    AddNode(model.mutable_graph()->mutable_node(), "LSTM", operands, "y");
    const auto constants = onnx::ConstantTensors(model.graph(), "");
    const auto found = constants.find(name);
    return found == constants.end() ? "" : found->second;
  };
  CHECK(kind_of("val_15", 5, 0) == "an initial state of zeros");
  CHECK(kind_of("val_15", 6, 0) == "an initial state of zeros");
  CHECK(kind_of("val_15", 5, 0.5) == "");  // learned
  CHECK(kind_of("h0", 5, 0) == "");        // as it is when a net is new
  CHECK(kind_of("val_15", 2, 0) == "");    // weights
}

TEST_CASE("masks are known by their numbers") {
  for (const double never : {-kInfinity, -3.4e38, -1e4}) {
    CHECK(KindOf("m", {1, 1, 3, 3}, [&](int64_t row, int64_t column) {
            return column <= row ? 0 : never;
          }) == "a mask");
  }
  const auto triangle = [](int64_t row, int64_t column) {
    return column <= row % 3 ? 1.0 : 0.0;
  };
  CHECK(KindOf("bias", {1, 1, 3, 3}, triangle) == "a mask");
  CHECK(KindOf("bias", {2, 3, 3}, triangle) == "a mask");
  // Of Swin's windows: one number alone.
  const auto window = [](int64_t row, int64_t column) {
    return (row < 2) == (column < 2) ? 0.0 : -100.0;
  };
  CHECK(KindOf("m", {4, 4}, window) == "a mask");
  CHECK(KindOf("m", {4, 4}, [&](int64_t row, int64_t column) {
          const double x = window(row, column);
          return x == 0 ? 0 : x - static_cast<double>(row);
        }) == "");
  // Weights as they are when a net is new.
  CHECK(KindOf("w", {3, 3}, [](int64_t, int64_t) { return 0; }) == "");
  CHECK(KindOf("w", {3, 3}, One) == "");
  CHECK(KindOf("w", {3, 3}, [](int64_t row, int64_t column) {
          return row == column ? 1 : 0;
        }) == "");
  CHECK(KindOf("w", {3, 3}, [](int64_t row, int64_t column) {
          return column <= row ? 0 : -5;
        }) == "");
}

TEST_CASE("what nodes read as a weight is one, whatever it holds") {
  const auto past = [](int64_t row, int64_t column) {
    return column <= row % 3 ? 1.0 : 0.0;
  };
  for (const char* const op : {"MatMul", "Gemm", "Conv", "PRelu", "LSTM"}) {
    CAPTURE(op);
    CHECK(KindOf("w", {3, 3}, past, op) == "");
    CHECK(KindOf("val_1", {1}, One, op) == "");
    CHECK(KindOf(
              "w", {9, 2},
              [](int64_t row, int64_t) {
                return std::cos(static_cast<double>(row));
              },
              op) == "");
  }
  // A table is looked up by positions; no mask is.
  CHECK(KindOf("w", {3, 3}, past, "Gather") == "");
  CHECK(KindOf(
            "w", {9, 2},
            [](int64_t row, int64_t) {
              return std::cos(static_cast<double>(row));
            },
            "Gather") == "sines or cosines of positions");
  // Of more dimensions one number may be a weight that was given others.
  CHECK(KindOf("val_1", {1, 1, 1, 1}, One) == "");
}

TEST_CASE("a norm without a scale has ones, which do not train") {
  const auto kind = [](const std::string& name, double number,
                       const std::string& op) {
    ModelProto model;
    AddReals(&model, name, {6}, [&](int64_t, int64_t i) {
      return i == 5 ? number : std::min(number, 1.0);
    });
    AddNode(model.mutable_graph()->mutable_node(), op, {"x", name}, "y");
    return onnx::ConstantTensors(model.graph(), "").contains(name);
  };
  for (const char* const norm :
       {"LayerNormalization", "InstanceNormalization"}) {
    CHECK(kind("val_2", 1, norm));
    CHECK(kind("val_2", 0, norm));
    // Of several numbers, or under a name of the module's: a weight.
    CHECK(!kind("val_2", 1.5, norm));
    CHECK(!kind("norm.weight", 1, norm));
  }
  CHECK(!kind("val_2", 1, "Mul"));
}

TEST_CASE("tables of rotary embeddings are known by their numbers") {
  const auto angle = [](int64_t position, int64_t i) {
    return static_cast<double>(position) *
           std::pow(10000.0, -static_cast<double>(i % 4) / 4);
  };
  const auto cosine = [&](int64_t position, int64_t i) {
    return std::cos(angle(position, i));
  };
  const auto sine = [&](int64_t position, int64_t i) {
    return std::sin(angle(position, i));
  };
  CHECK(KindOf("cos", {1, 9, 8}, cosine) == "sines or cosines of positions");
  CHECK(KindOf("val_3", {9, 8}, sine) == "sines or cosines of positions");
  // One after the other, as in the first transformer.
  CHECK(KindOf("pe", {1, 9, 8}, [&](int64_t position, int64_t i) {
          return i % 2 == 0 ? sine(position, i / 2) : cosine(position, i / 2);
        }) == "sines or cosines of positions");
  CHECK(KindOf("w", {9, 8}, [&](int64_t position, int64_t i) {
          return cosine(position, i) + (position == 7 && i == 2 ? 0.1 : 0);
        }) == "");
  CHECK(KindOf("rotary_emb.inv_freq", {4}, [](int64_t, int64_t i) {
          return std::pow(10000.0, -static_cast<double>(i) / 4);
        }) == "frequencies of rotary embeddings");
}

// y = x * w + b, times a number and beside a mask.
ModelProto ModelWithConstants() {
  ModelProto model = LinearModel();
  const auto number = [&](const char* name, float value) {
    TensorProto& tensor = *model.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(TensorProto::FLOAT);
    tensor.set_float_data(
        std::string(reinterpret_cast<const char*>(&value), sizeof value));
  };
  number("val_1", 3);
  auto* const graph = model.mutable_graph();
  AddNode(graph->mutable_node(), "Mul", {"y", "val_1"}, "z");
  graph->mutable_output(0)->set_name("z");
  return model;
}

TEST_CASE("constants are no params, unless they are asked for") {
  const auto model =
      ReadOnnx(WrittenFile(ModelWithConstants().SerializeAsString()));
  REQUIRE_MESSAGE(model.ok(), model.error().message);
  std::vector<std::string> said;
  for (const OnnxTensor& tensor : model->tensors()) {
    said.push_back(tensor.name + ": " + tensor.constant);
  }
  CHECK(said == std::vector<std::string>{
                    "w: ", "b: ", "val_1: a number of the model's code"});
  OnnxBuildOptions options{.dims = {{"batch", 2}}, .loss = OnnxLoss{}};
  const auto graph = model->Build(options);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  CHECK(graph->Leaves(Role::kParam).size() == 2);
  options.trainable = {"val_*"};
  const auto trained = model->Build(options);
  REQUIRE_MESSAGE(trained.ok(), trained.error().message);
  CHECK(trained->Leaves(Role::kParam).size() == 3);
  options.trainable = {"no-such*"};
  const auto none = model->Build(options);
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message.starts_with("[trainable] no constant of "));
  CHECK(none.error().message.ends_with(
      " is called as \"no-such*\"; it has 1, and what is none trains already"));
  options.trainable = {"w"};
  CHECK_FALSE(model->Build(options).ok());
}

}  // namespace
}  // namespace stowage
