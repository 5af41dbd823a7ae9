// What a model of a file is trained for: each loss by its formula, and as f32 whatever
// the model computes in.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "autodiff/batch_analysis.h"
#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "formats/array.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
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

TEST_CASE("how nodes of a file that fixes its batch treat examples is known") {
  ModelProto model = LinearModel();
  auto* const graph = model.mutable_graph();
  graph->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(4);
  AddInts(&model, "axis", {1}, {0});
  AddNode(graph->mutable_node(), "ReduceMean", {"y", "axis"}, "mean");
  model.mutable_opset_import(0)->set_version(18);
  AddNode(graph->mutable_node(), "Sub", {"y", "mean"}, "centred");
  for (const char* const name : {"mean", "centred"}) {
    graph->add_output()->set_name(name);
  }
  std::string bytes;
  REQUIRE(model.SerializeToString(&bytes));
  const Result<OnnxModel> read = ParseOnnx(bytes, "fixed.onnx");
  REQUIRE_MESSAGE(read.ok(), read.error().message);
  const Result<OnnxStep> step = SizeOnnxStep(*read, {}, std::nullopt);
  REQUIRE(step.ok());
  CHECK(step->batch == 4);
  CHECK_FALSE(step->Build(8).ok());
  const Result<Graph> part = step->Build(4), whole = step->BuildResized(8);
  REQUIRE(part.ok());
  REQUIRE_MESSAGE(whole.ok(), whole.error().message);
  const BatchAnalysis analysis = AnalyzeBatch(*whole, *part);
  const auto kind_of = [&](std::string_view name) {
    for (const GraphOutput& output : part->outputs()) {
      if (output.name == name) {
        return analysis.values[static_cast<size_t>(output.value)].kind;
      }
    }
    return BatchKind::kMax;
  };
  CHECK(kind_of("y") == BatchKind::kPerExample);
  CHECK(kind_of("mean") != BatchKind::kPerExample);
  CHECK(kind_of("centred") == BatchKind::kMixed);
}

ModelProto LinearModelOfDoubles() {
  ModelProto model = LinearModel();
  auto* const graph = model.mutable_graph();
  graph->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      TensorProto::DOUBLE);
  for (TensorProto& tensor : *graph->mutable_initializer()) {
    tensor.set_data_type(TensorProto::DOUBLE);
    tensor.set_double_data(PackedReals(
        std::vector<double>(tensor.float_data().size() / sizeof(float), 0.5)));
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

// The largest of equal logits is the first.
TEST_CASE("a loss that judges tells which part is right") {
  const auto model = ReadOnnx(WrittenFile(LinearModel().SerializeAsString()));
  REQUIRE(model.ok());
  const auto graph = model->Build(
      {.dims = {{"batch", 3}}, .loss = OnnxLoss{}, .evaluation = true});
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const auto outputs =
      RunOnnx(*model, *graph,
              {{"x", ArrayOf<float>({3, 2}, {1, 2, -1, 3, 0, 0})},
               {"labels", ArrayOf<int64_t>({3}, {0, 1, 0})}});
  REQUIRE_MESSAGE(outputs.ok(), outputs.error().message);
  REQUIRE(graph->outputs().size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const bool is_loss = graph->outputs()[i].name == "loss";
    CHECK(ValuesOf<float>((*outputs)[i])[0] ==
          doctest::Approx(is_loss ? std::log(2.0) : 2.0 / 3).epsilon(1e-6));
  }
}

// A second head of the model, whose weight the loss of the first does not reach.
TEST_CASE("what a loss does not need is left out") {
  ModelProto model = LinearModel();
  auto* const graph = model.mutable_graph();
  TensorProto* const v = graph->add_initializer();
  *v = graph->initializer(0);
  v->set_name("v");
  AddNode(graph->mutable_node(), "MatMul", {"h", "v"}, "z");
  AddNode(graph->mutable_node(), "Relu", {"z"}, "head");
  graph->add_output()->set_name("head");
  const auto params = [&](const OnnxBuildOptions& options) {
    const auto read = ReadOnnx(WrittenFile(model.SerializeAsString()));
    REQUIRE(read.ok());
    const auto built = read->Build(options);
    REQUIRE_MESSAGE(built.ok(), built.error().message);
    return built->Leaves(Role::kParam).size();
  };
  const std::map<std::string, int64_t> dims = {{"batch", 2}};
  CHECK(params({.dims = dims}) == 3);
  CHECK(params({.dims = dims, .loss = OnnxLoss{}}) == 2);
  CHECK(params({.dims = dims, .loss = OnnxLoss{.output = "head"}}) == 2);
  // Its names are looked at all the same.
  graph->mutable_node(3)->set_input(0, "absent");
  CHECK(Said(model, {.dims = dims, .loss = OnnxLoss{}})
            .find("reads \"absent\", which no node before it makes") !=
        std::string::npos);
}

TEST_CASE("a text says which loss of which output is meant") {
  struct Row {
    std::string text;
    OnnxLossKind kind;
    std::string output;
  };
  const Row rows[] = {
      {"cross_entropy", OnnxLossKind::kCrossEntropy, ""},
      {"mse", OnnxLossKind::kMse, ""},
      {"bce:y", OnnxLossKind::kBce, "y"},
      {"cross_entropy:a:0", OnnxLossKind::kCrossEntropy, "a:0"},
      {"total", OnnxLossKind::kOutput, "total"},
      {"mse_of_all", OnnxLossKind::kOutput, "mse_of_all"},
      {"a:0", OnnxLossKind::kOutput, "a:0"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const OnnxLoss loss = ParseOnnxLoss(row.text);
    CHECK(loss.kind == row.kind);
    CHECK(loss.output == row.output);
  }
}

// A first output that is no logits, as of a module that returns a dict.
TEST_CASE("a loss of an output that cannot be trained names the others") {
  ModelProto model = LinearModel();
  auto* const graph = model.mutable_graph();
  AddNode(graph->mutable_node(), "Relu", {"x"}, "hidden");
  graph->mutable_output(0)->set_name("hidden");
  graph->add_output()->set_name("y");
  const std::map<std::string, int64_t> dims = {{"batch", 2}};
  CHECK(Said(model, {.dims = dims, .loss = OnnxLoss{}}) ==
        "[onnx] the output \"hidden\", which the loss is of, depends on no "
        "weight; the loss is of the output \"hidden\", and there are "
        "\"hidden\", \"y\": cross_entropy:OUTPUT, say, names another");
  CHECK(Said(model, {.dims = dims, .loss = OnnxLoss{.output = "y"}}) == "");
  OnnxLoss loss;
  loss.labels_shape = std::vector<int64_t>{5};
  CHECK(Said(model, {.dims = dims, .loss = loss})
            .find("; the loss is of the output \"hidden\", and there are ") !=
        std::string::npos);
}

// h needs w alone, y needs b, too, and head v.
TEST_CASE("outputs beside a loss are those whose weights it trains") {
  ModelProto model = LinearModel();
  auto* const graph = model.mutable_graph();
  *graph->add_initializer() = graph->initializer(0);
  graph->mutable_initializer(2)->set_name("v");
  AddNode(graph->mutable_node(), "MatMul", {"h", "v"}, "head");
  graph->add_output()->set_name("head");
  graph->add_output()->set_name("h");
  const auto read = ReadOnnx(WrittenFile(model.SerializeAsString()));
  REQUIRE(read.ok());
  const auto outputs = [&](const std::string& of) {
    const auto built = read->Build({.dims = {{"batch", 2}},
                                    .loss = OnnxLoss{.output = of},
                                    .trained_outputs = true});
    REQUIRE_MESSAGE(built.ok(), built.error().message);
    CHECK(!built->Find("labels"));
    std::vector<std::string> names;
    for (const GraphOutput& output : built->outputs()) {
      names.push_back(output.name);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(outputs("y") == Names{"y", "h"});
  CHECK(outputs("head") == Names{"head", "h"});
  CHECK(outputs("h") == Names{"h"});
}

// As of a net for super-resolution, whose input is of low resolution.
TEST_CASE("names that a step has of its own are free for a file's values") {
  for (const std::string name : {"lr", "step", "seed", "labels", "loss"}) {
    CAPTURE(name);
    ModelProto model = LinearModel();
    auto* const graph = model.mutable_graph();
    graph->mutable_input(0)->set_name(name);
    graph->mutable_node(0)->set_input(0, name);
    const auto read = ReadOnnx(WrittenFile(model.SerializeAsString()));
    REQUIRE(read.ok());
    const auto built =
        read->Build({.dims = {{"batch", 2}}, .loss = OnnxLoss{}});
    REQUIRE_MESSAGE(built.ok(), built.error().message);
    CHECK(built->Find(name + ".2"));
    const auto step = BuildTrainStep(*built, "loss", {.optimizer = AdamW{}});
    CHECK_MESSAGE(step.ok(), step.error().message);
    // Without a loss there is no step.
    const auto forward = read->Build({.dims = {{"batch", 2}}});
    REQUIRE_MESSAGE(forward.ok(), forward.error().message);
    CHECK(forward->Find(name));
  }
}

TEST_CASE("names that a step has of its own are free for a file's weights") {
  const ModelProto linear = LinearModel();
  for (const std::string name : {"lr", "step", "loss", "labels", "w.m"}) {
    CAPTURE(name);
    ModelProto model = linear;
    auto* const graph = model.mutable_graph();
    const std::string weight = graph->initializer(0).name();
    const std::string bias = graph->initializer(1).name();
    for (auto& node : *graph->mutable_node()) {
      for (auto& input : *node.mutable_input()) {
        if (input == bias) input = name;
        if (input == weight) input = "w";
      }
    }
    graph->mutable_initializer(0)->set_name("w");
    graph->mutable_initializer(1)->set_name(name);
    const auto read = ReadOnnx(WrittenFile(model.SerializeAsString()));
    REQUIRE(read.ok());
    const auto built =
        read->Build({.dims = {{"batch", 2}}, .loss = OnnxLoss{}});
    REQUIRE_MESSAGE(built.ok(), built.error().message);
    const auto step = BuildTrainStep(*built, "loss", {.optimizer = AdamW{}});
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    CHECK(step->Find("w.m"));
    CHECK(step->Find(name + ".2"));
    CHECK(step->Find(name + ".2.m"));
  }
}

TEST_CASE("values may be called as a step calls states") {
  ModelProto model = LinearModel();
  auto* const graph = model.mutable_graph();
  const std::string name = graph->initializer(0).name() + ".v";
  graph->mutable_input(0)->set_name(name);
  graph->mutable_node(0)->set_input(0, name);
  const auto read = ReadOnnx(WrittenFile(model.SerializeAsString()));
  REQUIRE(read.ok());
  const auto built = read->Build({.dims = {{"batch", 2}}, .loss = OnnxLoss{}});
  REQUIRE_MESSAGE(built.ok(), built.error().message);
  CHECK(built->Find(name + ".2"));
  const auto step = BuildTrainStep(*built, "loss", {.optimizer = AdamW{}});
  CHECK_MESSAGE(step.ok(), step.error().message);
}

TEST_CASE("an output that is called as a loss is may be judged") {
  for (const std::string name : {"loss", "labels", "lr"}) {
    CAPTURE(name);
    ModelProto model = LinearModel();
    auto* const graph = model.mutable_graph();
    graph->mutable_node(1)->set_output(0, name);
    graph->mutable_output(0)->set_name(name);
    CHECK(Said(model, {.dims = {{"batch", 2}}, .loss = OnnxLoss{}}) == "");
  }
}

}  // namespace
}  // namespace stowage
