// What a file may make of few bytes is bounded, and each limit says what was met.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/graph.h"
#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/linear_model.h"

namespace stowage {
namespace {

using onnx::pb::FunctionProto;
using onnx::pb::ModelProto;
using onnx::pb::NodeProto;

void CheckSays(const ModelProto& model, const std::string& part) {
  const std::string said = Said(model);
  CAPTURE(said);
  CHECK(said.find(part) != std::string::npos);
}

// So many nodes in a chain, with names as short as they may be.
ModelProto Chain(int count) {
  ModelProto model = LinearModel();
  auto* const nodes = model.mutable_graph()->mutable_node();
  std::string last = "y";
  for (int i = 0; i < count; ++i) {
    const std::string next = StrCat("n", i);
    NodeProto* const node = nodes->Add();
    node->set_op_type(i % 2 == 0 ? "Tanh" : "Add");
    node->add_input(last);
    if (i % 2 == 1) node->add_input("b");
    node->add_output(next);
    last = next;
  }
  model.mutable_graph()->mutable_output(0)->set_name(last);
  return model;
}

// Their messages take 15 times the file.
TEST_CASE("a graph of many small nodes is read") {
  for (const int count : {10'000, 100'000}) {
    const auto read = ParseOnnx(Chain(count).SerializeAsString(), "chain.onnx");
    REQUIRE_MESSAGE(read.ok(), read.error().message);
    const auto graph = read->Build({.dims = {{"batch", 3}}});
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    CHECK(graph->num_nodes() > count);
  }
}

// The function NAME of a, which gives b.
FunctionProto* AddFunction(ModelProto* model, const std::string& name) {
  FunctionProto* const function = model->add_functions();
  function->set_name(name);
  function->set_domain("own");
  function->add_input("a");
  function->add_output("b");
  function->add_opset_import()->set_version(17);
  return function;
}

void Call(google::protobuf::RepeatedPtrField<NodeProto>* nodes,
          const std::string& name, const std::string& operand,
          const std::string& result) {
  AddNode(nodes, name, {operand}, result)->set_domain("own");
}

// Functions of which each calls the next so many times, and the last is one op.
ModelProto Nested(int depth, int calls) {
  ModelProto model = LinearModel();
  for (int i = 0; i < depth; ++i) {
    auto* const body = AddFunction(&model, StrCat("F", i))->mutable_node();
    for (int call = 0; call < calls; ++call) {
      const std::string from = call == 0 ? "a" : StrCat("c", call - 1);
      const std::string to = call == calls - 1 ? "b" : StrCat("c", call);
      if (i + 1 < depth) {
        Call(body, StrCat("F", i + 1), from, to);
      } else {
        AddNode(body, "Identity", {from}, to);
      }
    }
  }
  Call(model.mutable_graph()->mutable_node(), "F0", "y", "z");
  model.mutable_graph()->mutable_output(0)->set_name("z");
  return model;
}

TEST_CASE("functions call each other so deep and no deeper") {
  CHECK(Said(Nested(64, 1)) == "");
  CheckSays(
      Nested(65, 1),
      "node \"the_F64\" (F64) calls a function within 64 others, the most "
      "there may be");
}

// Eight functions of a few bytes would come to sixteen million nodes.
TEST_CASE("functions do not make a small file a large model") {
  CHECK(Said(Nested(3, 8)) == "");
  CheckSays(
      Nested(8, 8),
      "the model has more than 1000000 nodes once its functions are written "
      "out");
}

TEST_CASE("an operand that a call leaves out is left out in the function") {
  ModelProto model = LinearModel();
  FunctionProto* const function = AddFunction(&model, "Clamp");
  function->add_input("least");
  function->add_input("most");
  AddNode(function->mutable_node(), "Clip", {"a", "least", "most"}, "b");
  Call(model.mutable_graph()->mutable_node(), "Clamp", "y", "z");
  model.mutable_graph()->mutable_output(0)->set_name("z");
  CHECK(Said(model) == "");
  auto* const call = model.mutable_graph()->mutable_node(2);
  for (const char* const operand : {"", "b", "x"}) call->add_input(operand);
  CheckSays(model, "gives 4 operands to a function of 3");
}

TEST_CASE("an op that a newer operator set changed is not known there") {
  ModelProto model = LinearModel();
  AddNode(model.mutable_graph()->mutable_node(), "Celu", {"y"}, "z");
  model.mutable_graph()->mutable_output(0)->set_name("z");
  model.mutable_opset_import(0)->set_version(27);
  CHECK(Said(model) == "");
  model.mutable_opset_import(0)->set_version(28);
  CheckSays(model, "ops that are not known: Celu of operator set 28 (1 node)");
}

TEST_CASE("an axis is cut into so many parts") {
  ModelProto model = LinearModel();
  AddInts(&model, "repeats", {2}, {1, int64_t{1} << 16});
  AddInts(&model, "one", {}, {1});
  auto* const nodes = model.mutable_graph()->mutable_node();
  AddNode(nodes, "Tile", {"y", "repeats"}, "wide");
  auto* const split =
      AddNode(nodes, "SplitToSequence", {"wide", "one"}, "parts");
  auto* const axis = split->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::pb::AttributeProto::INT);
  axis->set_i(1);
  AddNode(nodes, "SequenceAt", {"parts", "one"}, "z");
  model.mutable_graph()->mutable_output(0)->set_name("z");
  CheckSays(
      model,
      "cuts 131072 elements into parts of 1; at most 65536 parts are made");
}

TEST_CASE("an output that is a sequence is refused by name") {
  ModelProto model = LinearModel();
  AddInts(&model, "one", {}, {1});
  auto* const nodes = model.mutable_graph()->mutable_node();
  AddNode(nodes, "SplitToSequence", {"y", "one"}, "parts");
  model.mutable_graph()->mutable_output(0)->set_name("parts");
  CheckSays(model,
            "the output \"parts\" is a sequence of tensors; expected a tensor");
}

struct RecurrentLayer {
  std::string op;
  int64_t gates = 1;
  int64_t steps = 2;
  onnx::pb::TensorProto::DataType type = onnx::pb::TensorProto::FLOAT;  // of W
  int first_batch = 0;  // of its first state; 0: there is none
  int64_t directions = 1;
};

// A layer of two features over so many steps of a batch of one.
ModelProto Over(const RecurrentLayer& of) {
  ModelProto model = LinearModel();
  auto* const nodes = model.mutable_graph()->mutable_node();
  AddInts(&model, "shape", {3}, {-1, 1, 2});
  AddInts(&model, "repeats", {3}, {of.steps, 1, 1});
  AddNode(nodes, "Reshape", {"y", "shape"}, "row");
  AddNode(nodes, "Tile", {"row", "repeats"}, "long");
  const auto add = [&](const std::string& name, std::vector<int64_t> dims,
                       onnx::pb::TensorProto::DataType type) {
    auto* const tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    size_t count = 1;
    for (const int64_t dim : dims) {
      tensor->add_dims(dim);
      count *= static_cast<size_t>(dim);
    }
    if (type == onnx::pb::TensorProto::FLOAT) {
      tensor->set_float_data(PackedReals(std::vector<float>(count, 0.5f)));
    } else {
      tensor->set_double_data(PackedReals(std::vector<double>(count, 0.5)));
    }
  };
  add("W", {of.directions, of.gates * 2, 2}, of.type);
  add("R", {of.directions, of.gates * 2, 2}, onnx::pb::TensorProto::FLOAT);
  std::vector<std::string> operands = {"long", "W", "R"};
  if (of.first_batch > 0) {
    add("first", {of.directions, of.first_batch, 2},
        onnx::pb::TensorProto::FLOAT);
    operands.insert(operands.end(), {"", "", "first"});
  }
  auto* const layer = AddNode(nodes, of.op, operands, "z");
  auto* const hidden = layer->add_attribute();
  hidden->set_name("hidden_size");
  hidden->set_type(onnx::pb::AttributeProto::INT);
  hidden->set_i(2);
  if (of.directions == 2) {
    auto* const direction = layer->add_attribute();
    direction->set_name("direction");
    direction->set_type(onnx::pb::AttributeProto::STRING);
    direction->set_s("bidirectional");
  }
  model.mutable_graph()->mutable_output(0)->set_name("z");
  return model;
}

int64_t NodesOf(const RecurrentLayer& layer) {
  const auto read = ReadOnnx(WrittenFile(Over(layer).SerializeAsString()));
  REQUIRE(read.ok());
  const auto graph = read->Build({.dims = {{"batch", 3}}});
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return graph->num_nodes();
}

TEST_CASE("a layer over many steps has the nodes of one over few") {
  for (const auto& each : {std::pair{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}}) {
    const char* const op = each.first;
    const int gates = each.second;
    CHECK(NodesOf({op, gates, 1 << 14}) == NodesOf({op, gates, 2}));
  }
}

TEST_CASE("a recurrent layer whose operands do not fit is refused") {
  for (const auto& each : {std::pair{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}}) {
    const char* const op = each.first;
    const int gates = each.second;
    for (const int64_t directions : {1, 2}) {
      CAPTURE(op);
      CAPTURE(directions);
      RecurrentLayer layer = {
          .op = op, .gates = gates, .directions = directions};
      CHECK(Said(Over(layer)) == "");
      layer.first_batch = 1;
      CHECK(Said(Over(layer)) == "");
      layer.first_batch = 5;
      CHECK(Said(Over(layer)) != "");
      layer.first_batch = 0;
      layer.type = onnx::pb::TensorProto::DOUBLE;
      CHECK(Said(Over(layer)) != "");
    }
  }
}

// How many ops remain of `count` additions of a constant of half a mebibyte.
int64_t Left(int count) {
  ModelProto model = LinearModel();
  auto* const nodes = model.mutable_graph()->mutable_node();
  AddInts(&model, "shape", {1}, {1 << 16});
  AddInts(&model, "one", {}, {1});
  AddNode(nodes, "Expand", {"one", "shape"}, "n0");
  for (int i = 0; i < count; ++i) {
    AddNode(nodes, "Add", {StrCat("n", i), "one"}, StrCat("n", i + 1));
  }
  AddNode(nodes, "ReduceSum", {StrCat("n", count)}, "z");
  model.mutable_graph()->mutable_output(0)->set_name("z");
  const auto read = ReadOnnx(WrittenFile(model.SerializeAsString()));
  REQUIRE(read.ok());
  const auto graph = read->Build({.dims = {{"batch", 3}}});
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return graph->num_nodes();
}

TEST_CASE("what is computed ahead takes 64 MiB at most") {
  const int64_t all_known = Left(100);
  const int64_t beyond = Left(200);
  CHECK(beyond >= all_known + 72);
  CHECK(beyond < all_known + 200);
}

}  // namespace
}  // namespace stowage
