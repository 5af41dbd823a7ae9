// What a model of a file is trained for: each loss by its formula, and as f32 whatever
// the model computes in.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "formats/array.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/linear_model.h"
#include "tests/onnx/run_onnx.h"

namespace stowage {
namespace {

using onnx::pb::ModelProto;
using onnx::pb::TensorProto;

template <typename T>
Array ArrayOf(const Shape& shape, const std::vector<T>& values) {
  Array array{{DTypeOf<T>(), shape}, std::string(values.size() * sizeof(T), 0)};
  std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

ModelProto LinearModelOfDoubles() {
  ModelProto model = LinearModel();
  auto* const graph = model.mutable_graph();
  graph->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      TensorProto::DOUBLE);
  for (TensorProto& tensor : *graph->mutable_initializer()) {
    tensor.set_data_type(TensorProto::DOUBLE);
    for (const float value : tensor.float_data()) tensor.add_double_data(value);
    tensor.clear_float_data();
  }
  return model;
}

// The loss of both of `x`'s rows with those labels.
double LossOf(const ModelProto& proto, OnnxLossKind kind, const Array& x,
              const Array& labels) {
  const auto model = ReadOnnx(WrittenFile(proto.SerializeAsString()));
  REQUIRE(model.ok());
  const auto graph =
      model->Build({.dims = {{"batch", 2}}, .loss = OnnxLoss{.kind = kind}});
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const auto outputs = RunOnnx(*model, *graph, {{"x", x}, {"labels", labels}});
  REQUIRE_MESSAGE(outputs.ok(), outputs.error().message);
  REQUIRE(outputs->size() == 1);
  REQUIRE((*outputs)[0].type == TensorType{DType::kF32, {}});
  return ValuesOf<float>((*outputs)[0])[0];
}

// Its y are 2 and 2 for the first row, 1.5 and 1.5 for the second.
TEST_CASE("losses are what their formulas say") {
  const std::vector<double> y = {2, 2, 1.5, 1.5};
  const std::vector<double> targets = {0, 1, 0.25, 1};
  double squares = 0, crossed = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    squares += (y[i] - targets[i]) * (y[i] - targets[i]) / 4;
    const double p = 1 / (1 + std::exp(-y[i]));
    crossed -=
        (targets[i] * std::log(p) + (1 - targets[i]) * std::log(1 - p)) / 4;
  }
  const Array labels = ArrayOf<int64_t>({2}, {0, 1});
  const Array x = ArrayOf<float>({2, 2}, {1, 2, -1, 3});
  const Array t = ArrayOf<float>({2, 2}, {0, 1, 0.25, 1});
  const ModelProto model = LinearModel();
  const auto close = [](double expected) {
    return doctest::Approx(expected).epsilon(1e-6);
  };
  CHECK(LossOf(model, OnnxLossKind::kCrossEntropy, x, labels) ==
        close(std::log(2.0)));
  CHECK(LossOf(model, OnnxLossKind::kMse, x, t) == close(squares));
  CHECK(LossOf(model, OnnxLossKind::kBce, x, t) == close(crossed));

  const Array wide = ArrayOf<double>({2, 2}, {1, 2, -1, 3});
  const ModelProto doubles = LinearModelOfDoubles();
  CHECK(LossOf(doubles, OnnxLossKind::kCrossEntropy, wide, labels) ==
        close(std::log(2.0)));
  CHECK(LossOf(doubles, OnnxLossKind::kMse, wide,
               ArrayOf<double>({2, 2}, targets)) == close(squares));
}

}  // namespace
}  // namespace stowage
