// If, Loop and Scan of a file: what they give is what their definitions say, whatever
// they become; weights within them train and are written back; what cannot be is told.

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "cpu/cpu_backend.h"
#include "formats/array.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/linear_model.h"
#include "tests/onnx/run_onnx.h"
#include "train/training.h"

namespace stowage {
namespace {

using onnx::pb::AttributeProto;
using onnx::pb::GraphProto;
using onnx::pb::ModelProto;
using onnx::pb::NodeProto;
using onnx::pb::TensorProto;

using Floats = std::vector<float>;

template <typename T>
Array ArrayOf(const Shape& shape, const std::vector<T>& values) {
  Array array{{DTypeOf<T>(), shape}, std::string(values.size() * sizeof(T), 0)};
  std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

void AddInput(GraphProto* graph, const std::string& name,
              TensorProto::DataType type, const std::vector<int64_t>& dims) {
  auto* const input = graph->add_input();
  input->set_name(name);
  auto* const tensor = input->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  for (const int64_t dim : dims) {
    tensor->mutable_shape()->add_dim()->set_dim_value(dim);
  }
}

// A tensor that a graph holds, as bytes, so that it is written back as it was.
template <typename T>
void AddTensor(GraphProto* graph, const std::string& name,
               const std::vector<int64_t>& dims, const std::vector<T>& values) {
  TensorProto* const tensor = graph->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(std::is_same_v<T, float> ? TensorProto::FLOAT
                                                 : TensorProto::INT64);
  for (const int64_t dim : dims) tensor->add_dims(dim);
  tensor->set_raw_data(ArrayOf<T>({}, values).bytes);
}

NodeProto* Op(GraphProto* graph, const std::string& op,
              const std::vector<std::string>& operands,
              const std::string& result) {
  return AddNode(graph->mutable_node(), op, operands, result);
}

void SetInts(NodeProto* node, const std::string& name,
             const std::vector<int64_t>& ints) {
  AttributeProto* const attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::INTS);
  for (const int64_t i : ints) attribute->add_ints(i);
}
void SetInt(NodeProto* node, const std::string& name, int64_t value) {
  AttributeProto* const attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::INT);
  attribute->set_i(value);
}

// The graph `name` of a node, with those inputs, whose types nobody needs, and outputs.
GraphProto* Within(NodeProto* node, const std::string& name,
                   const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs) {
  AttributeProto* const attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::GRAPH);
  GraphProto* const graph = attribute->mutable_g();
  graph->set_name(name);
  for (const std::string& input : inputs) graph->add_input()->set_name(input);
  for (const std::string& output : outputs) {
    graph->add_output()->set_name(output);
  }
  return graph;
}

ModelProto Empty(const std::vector<std::string>& outputs, int64_t opset = 17) {
  ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(opset);
  model.mutable_graph()->set_name("m");
  for (const std::string& output : outputs) {
    model.mutable_graph()->add_output()->set_name(output);
  }
  return model;
}

OnnxModel Read(const ModelProto& proto) {
  const auto model = ParseOnnx(proto.SerializeAsString(), "m.onnx");
  REQUIRE_MESSAGE(model.ok(), model.error().message);
  return *model;
}

Graph Built(const OnnxModel& model, const OnnxBuildOptions& options = {}) {
  const auto graph = model.Build(options);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

int Count(const Graph& graph, OpKind op) {
  int count = 0;
  for (const Node& node : graph.nodes()) count += node.op == op ? 1 : 0;
  return count;
}

std::vector<Floats> Run(const OnnxModel& model, const Graph& graph,
                        const std::vector<NamedArray>& inputs) {
  const auto outputs = RunOnnx(model, graph, inputs);
  REQUIRE_MESSAGE(outputs.ok(), outputs.error().message);
  std::vector<Floats> values;
  for (const Array& output : *outputs) {
    values.push_back(ValuesOf<float>(output));
  }
  return values;
}

std::string Told(const ModelProto& proto, const OnnxBuildOptions& options) {
  const auto graph = Read(proto).Build(options);
  return graph.ok() ? "" : graph.error().message;
}
std::string ToldOf(const ModelProto& proto) { return Told(proto, {}); }

bool Says(const std::string& said, std::string_view part) {
  CAPTURE(said);
  return said.find(part) != std::string::npos;
}

// --- Scan ---

// Sums of x's three slices of two, from `h0` on; each is stacked before it is handed on.
ModelProto Sums(int64_t input_axis, int64_t input_direction,
                int64_t output_axis, int64_t output_direction) {
  ModelProto model = Empty({"h", "all"});
  GraphProto* const graph = model.mutable_graph();
  AddInput(graph, "h0", TensorProto::FLOAT, {2});
  AddInput(graph, "x", TensorProto::FLOAT,
           input_axis == 0 ? std::vector<int64_t>{3, 2}
                           : std::vector<int64_t>{2, 3});
  NodeProto* const scan = Op(graph, "Scan", {"h0", "x"}, "h");
  scan->add_output("all");
  SetInt(scan, "num_scan_inputs", 1);
  SetInts(scan, "scan_input_axes", {input_axis});
  SetInts(scan, "scan_input_directions", {input_direction});
  SetInts(scan, "scan_output_axes", {output_axis});
  SetInts(scan, "scan_output_directions", {output_direction});
  GraphProto* const body = Within(scan, "body", {"a", "b"}, {"sum", "same"});
  Op(body, "Add", {"a", "b"}, "sum");
  Op(body, "Identity", {"sum"}, "same");
  return model;
}

TEST_CASE("a scan goes along any axis, in any direction") {
  for (int64_t code = 0; code < 16; ++code) {
    const int64_t input_axis = code & 1, input_direction = code >> 1 & 1,
                  output_axis = code >> 2 & 1, output_direction = code >> 3;
    CAPTURE(code);
    // Slice t of x is (t + 1, 10 (t + 1)).
    Floats x(6), expected_all(6);
    for (size_t t = 0; t < 3; ++t) {
      for (size_t i = 0; i < 2; ++i) {
        x[input_axis == 0 ? 2 * t + i : 3 * i + t] =
            static_cast<float>((t + 1) * (i == 0 ? 1 : 10));
      }
    }
    float sum = 0.5f;
    for (size_t iteration = 0; iteration < 3; ++iteration) {
      sum += static_cast<float>(input_direction == 0 ? iteration + 1
                                                     : 3 - iteration);
      const size_t row = output_direction == 0 ? iteration : 2 - iteration;
      for (size_t i = 0; i < 2; ++i) {
        expected_all[output_axis == 0 ? 2 * row + i : 3 * i + row] =
            i == 0 ? sum : 10 * (sum - 0.5f) + 5;
      }
    }
    const OnnxModel model =
        Read(Sums(input_axis, input_direction, output_axis, output_direction));
    const Graph graph = Built(model);
    CHECK(Count(graph, OpKind::kLoop) == 1);
    const auto got =
        Run(model, graph,
            {{"h0", ArrayOf<float>({2}, {0.5f, 5})},
             {"x",
              ArrayOf<float>(input_axis == 0 ? Shape{3, 2} : Shape{2, 3}, x)}});
    CHECK(got[0] == Floats{6.5f, 65});
    CHECK(got[1] == expected_all);
  }
}

TEST_CASE("inputs of a scan may go in different directions") {
  ModelProto model = Empty({"all"});
  GraphProto* const graph = model.mutable_graph();
  for (const char* const name : {"a", "b"}) {
    AddInput(graph, name, TensorProto::FLOAT, {3, 1});
  }
  NodeProto* const scan = Op(graph, "Scan", {"a", "b"}, "all");
  SetInt(scan, "num_scan_inputs", 2);
  SetInts(scan, "scan_input_directions", {0, 1});
  Op(Within(scan, "body", {"p", "q"}, {"r"}), "Sub", {"p", "q"}, "r");
  const OnnxModel read = Read(model);
  const auto got = Run(read, Built(read),
                       {{"a", ArrayOf<float>({3, 1}, {10, 20, 30})},
                        {"b", ArrayOf<float>({3, 1}, {1, 2, 3})}});
  CHECK(got[0] == Floats{7, 18, 29});
}

TEST_CASE("a scan of operator set 8 takes each example by itself") {
  ModelProto model = Sums(0, 0, 0, 0);
  model.mutable_opset_import(0)->set_version(8);
  GraphProto* const graph = model.mutable_graph();
  NodeProto* const scan = graph->mutable_node(0);
  scan->clear_input();
  for (const char* const name : {"", "h0", "x"}) scan->add_input(name);
  for (int i = 0; i < 2; ++i) {
    auto* const shape = graph->mutable_input(i)
                            ->mutable_type()
                            ->mutable_tensor_type()
                            ->mutable_shape();
    const auto dims = shape->dim();
    shape->clear_dim();
    shape->add_dim()->set_dim_value(2);
    for (const auto& dim : dims) *shape->add_dim() = dim;
  }
  const OnnxModel read = Read(model);
  const auto got = Run(
      read, Built(read),
      {{"h0", ArrayOf<float>({2, 2}, {0, 0, 100, 200})},
       {"x", ArrayOf<float>({2, 3, 2}, {1, 2, 3, 4, 5, 6, 1, 1, 1, 1, 1, 1})}});
  CHECK(got[0] == Floats{9, 12, 103, 203});
  CHECK(got[1] == Floats{1, 2, 4, 6, 9, 12, 101, 201, 102, 202, 103, 203});
}

// --- Loop ---

// n iterations (an input), each of which makes h into h w + the iteration's number.
ModelProto Counting(bool with_condition = false) {
  ModelProto model = Empty({"last", "all"});
  GraphProto* const graph = model.mutable_graph();
  AddInput(graph, "n", TensorProto::INT64, {});
  AddInput(graph, "h0", TensorProto::FLOAT, {2});
  AddTensor<float>(graph, "w", {2}, {2, 3});
  if (with_condition) AddInput(graph, "go", TensorProto::BOOL, {});
  NodeProto* const loop =
      Op(graph, "Loop", {"n", with_condition ? "go" : "", "h0"}, "last");
  loop->add_output("all");
  GraphProto* const body =
      Within(loop, "body", {"i", "holds", "h"}, {"goes_on", "next", "row"});
  Op(body, "Identity", {"holds"}, "goes_on");
  Op(body, "CastLike", {"i", "h"}, "number");
  Op(body, "Mul", {"h", "w"}, "scaled");
  Op(body, "Add", {"scaled", "number"}, "next");
  Op(body, "Neg", {"next"}, "row");
  return model;
}

OnnxBuildOptions Iterations(int64_t n) {
  return {.constants = {{"n", ArrayOf<int64_t>({}, {n})}}};
}

TEST_CASE("a loop of known iterations is a loop, which weights go into") {
  const OnnxModel model = Read(Counting());
  const Graph graph = Built(model, Iterations(3));
  CHECK(Count(graph, OpKind::kLoop) == 1);
  REQUIRE(graph.Find("w"));
  CHECK(graph.value(*graph.Find("w")).role == Role::kParam);
  const auto got = Run(model, graph, {{"h0", ArrayOf<float>({2}, {1, 1})}});
  // ((1 w + 0) w + 1) w + 2
  CHECK(got[0] == Floats{12, 32});
  CHECK(got[1] == Floats{-2, -3, -5, -10, -12, -32});
}

TEST_CASE("what a loop does not know is told") {
  CHECK(Says(
      ToldOf(Counting()),
      "node \"the_Loop\" (Loop) takes its number of iterations from \"n\", "
      "which is computed in each step"));
  CHECK(Says(Told(Counting(), Iterations(0)),
             "runs no iteration, so that its result 1 has no elements"));
  CHECK(Says(Told(Counting(/*with_condition=*/true), Iterations(7)),
             "stacks \"row\" while a computed condition holds, for at most 7 "
             "iterations"));
  ModelProto endless = Counting(/*with_condition=*/true);
  endless.mutable_graph()->mutable_node(0)->set_input(0, "");
  CHECK(Says(ToldOf(endless),
             "goes on by what is computed in each step, without a number of "
             "iterations that it has at most"));
  ModelProto narrow = Counting();
  narrow.mutable_graph()
      ->mutable_node(0)
      ->mutable_attribute(0)
      ->mutable_g()
      ->mutable_input()
      ->RemoveLast();
  CHECK(Says(Told(narrow, Iterations(3)),
             "has a graph of 2 inputs and 3 outputs; expected 3, and at least "
             "2"));
}

// h is doubled while it is below the input `limit`, at most ten times.
ModelProto Doubling(bool known_first = true) {
  ModelProto model = Empty({"last"});
  GraphProto* const graph = model.mutable_graph();
  AddInput(graph, "h0", TensorProto::FLOAT, {1});
  AddInput(graph, "limit", TensorProto::FLOAT, {1});
  AddTensor<int64_t>(graph, "most", {}, {10});
  AddTensor<float>(graph, "two", {1}, {2});
  if (!known_first) Op(graph, "Less", {"h0", "limit"}, "first");
  NodeProto* const loop =
      Op(graph, "Loop", {"most", known_first ? "" : "first", "h0"}, "last");
  if (known_first) {
    Op(graph, "Not", {"never"}, "always");
    TensorProto* const never = graph->add_initializer();
    never->set_name("never");
    never->set_data_type(TensorProto::BOOL);
    never->set_raw_data(std::string(1, '\0'));
    graph->mutable_node()->SwapElements(0, 1);
    graph->mutable_node(1)->set_input(1, "always");
  }
  GraphProto* const body =
      Within(known_first ? graph->mutable_node(1) : loop, "body",
             {"i", "holds", "h"}, {"goes_on", "next"});
  Op(body, "Mul", {"h", "two"}, "next");
  Op(body, "Less", {"next", "limit"}, "goes_on");
  return model;
}

TEST_CASE("a condition ends a loop, at most when its iterations do") {
  struct Row {
    bool known_first;
    float h, limit, last;
  };
  for (const Row& row : std::vector<Row>{{true, 3, 20, 24},
                                         {true, 3, 1, 6},
                                         {true, 1, 1e9f, 1024},
                                         {false, 3, 20, 24},
                                         {false, 3, 1, 3}}) {
    CAPTURE(row.known_first);
    CAPTURE(row.limit);
    const OnnxModel model = Read(Doubling(row.known_first));
    const Graph graph = Built(model);
    CHECK(Count(graph, OpKind::kLoop) == 1);
    const auto got = Run(model, graph,
                         {{"h0", ArrayOf<float>({1}, {row.h})},
                          {"limit", ArrayOf<float>({1}, {row.limit})}});
    CHECK(got[0] == Floats{row.last});
  }
}

// What its condition would be for a second iteration is no matter to it.
TEST_CASE("a loop of one iteration is written out") {
  ModelProto model = Doubling();
  model.mutable_graph()->mutable_initializer(0)->set_raw_data(
      ArrayOf<int64_t>({}, {1}).bytes);
  const OnnxModel read = Read(model);
  const Graph graph = Built(read);
  CHECK(Count(graph, OpKind::kLoop) == 0);
  CHECK(Run(read, graph,
            {{"h0", ArrayOf<float>({1}, {3})},
             {"limit", ArrayOf<float>({1}, {20})}})[0] == Floats{6});
}

// The derivative of the last h by h0 is two to the number of iterations that were run.
TEST_CASE("a loop that a condition has ended is differentiated") {
  ModelProto model = Doubling(/*known_first=*/false);
  GraphProto* const graph = model.mutable_graph();
  graph->mutable_input()->DeleteSubrange(0, 1);
  AddTensor<float>(graph, "h0", {1}, {3});
  Op(graph, "ReduceSum", {"last"}, "total");
  graph->mutable_output(0)->set_name("total");
  const OnnxModel read = Read(model);
  const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec{
      .model =
          [&](int64_t) {
            return read.Build({.loss = OnnxLoss{.kind = OnnxLossKind::kOutput,
                                                .output = "total"}});
          },
      .batch = 1};
  spec.training.optimizer = Sgd{};
  spec.training.groups = {{.pattern = "two", .frozen = true}};
  auto training = Train(spec, *cpu);
  REQUIRE_MESSAGE(training.ok(), training.error().message);
  training->Initialize(/*seed=*/1);
  Runner& step = training->step();
  REQUIRE(read.ForEachWeight(step.graph(),
                             [&](const NamedArray& weight) {
                               return step.WriteBytes(weight.name,
                                                      weight.array.type.dtype,
                                                      weight.array.data());
                             })
              .ok());
  const float limit = 20;
  REQUIRE(
      step.WriteBytes("limit", DType::kF32, std::as_bytes(std::span(&limit, 1)))
          .ok());
  REQUIRE(step.Write("lr", 0.125f).ok());
  REQUIRE(step.Write("step", int64_t{1}).ok());
  REQUIRE(step.Step() == StepCode::kOk);
  CHECK(*step.ReadScalar("loss") == 24);
  float h0 = 0;
  REQUIRE(step.ReadBytes("h0", DType::kF32,
                         std::as_writable_bytes(std::span(&h0, 1)))
              .ok());
  CHECK(h0 == 3 - 0.125f * 8);
}

// The sizes that an iteration takes depend on its number, and what is carried grows.
ModelProto Growing() {
  ModelProto model = Empty({"last"});
  GraphProto* const graph = model.mutable_graph();
  AddInput(graph, "n", TensorProto::INT64, {});
  AddInput(graph, "x", TensorProto::FLOAT, {4});
  AddTensor<int64_t>(graph, "zero", {1}, {0});
  AddTensor<int64_t>(graph, "one", {1}, {1});
  Op(graph, "Slice", {"x", "zero", "one"}, "h0");
  NodeProto* const loop = Op(graph, "Loop", {"n", "", "h0"}, "last");
  GraphProto* const body =
      Within(loop, "body", {"i", "holds", "h"}, {"holds", "next"});
  Op(body, "Unsqueeze", {"i", "zero"}, "from");
  Op(body, "Add", {"from", "one"}, "to");
  Op(body, "Slice", {"x", "from", "to"}, "part");
  SetInt(Op(body, "Concat", {"h", "part"}, "next"), "axis", 0);
  return model;
}

TEST_CASE("what cannot be one body is written out") {
  const OnnxModel model = Read(Growing());
  const Graph graph = Built(model, Iterations(3));
  CHECK(Count(graph, OpKind::kLoop) == 0);
  const auto got =
      Run(model, graph, {{"x", ArrayOf<float>({4}, {1, 2, 3, 4})}});
  CHECK(got[0] == Floats{1, 1, 2, 3});
  // Of a loop that is too long for that, what it lacks as a loop is told.
  CHECK(Says(Told(Growing(), Iterations(1'000'000)),
             "takes its starts from \"from\", which is computed in each step"));
}

// Files of a `while` count by themselves, up to what is known.
TEST_CASE("a loop that ends by what is known needs no number of iterations") {
  ModelProto model = Empty({"last"});
  GraphProto* const graph = model.mutable_graph();
  AddInput(graph, "h0", TensorProto::FLOAT, {1});
  AddTensor<int64_t>(graph, "start", {}, {0});
  AddTensor<int64_t>(graph, "one", {}, {1});
  AddTensor<int64_t>(graph, "end", {}, {4});
  NodeProto* const loop = Op(graph, "Loop", {"", "", "start", "h0"}, "count");
  loop->add_output("last");
  GraphProto* const body =
      Within(loop, "body", {"i", "holds", "k", "h"}, {"goes_on", "k1", "h1"});
  Op(body, "Add", {"k", "one"}, "k1");
  Op(body, "Add", {"h", "h"}, "h1");
  Op(body, "Less", {"k1", "end"}, "goes_on");
  // Without a condition that the node looks at, it has no end.
  CHECK(Says(ToldOf(model), "iterations, and has no number of them"));
  Op(graph, "Less", {"start", "end"}, "first");
  graph->mutable_node()->SwapElements(0, 1);
  graph->mutable_node(1)->set_input(1, "first");
  const OnnxModel read = Read(model);
  const auto got = Run(read, Built(read), {{"h0", ArrayOf<float>({1}, {1})}});
  CHECK(got[0] == Floats{16});
}

TEST_CASE("a dropout in a loop draws in each iteration anew") {
  ModelProto model = Empty({"all"});
  GraphProto* const graph = model.mutable_graph();
  AddInput(graph, "x", TensorProto::FLOAT, {3, 64});
  NodeProto* const scan = Op(graph, "Scan", {"x"}, "all");
  SetInt(scan, "num_scan_inputs", 1);
  GraphProto* const body = Within(scan, "body", {"slice"}, {"y"});
  Op(body, "Dropout", {"slice"}, "y");
  const OnnxModel read = Read(model);
  const Graph built =
      Built(read, {.loss = OnnxLoss{.kind = OnnxLossKind::kMse, .output = ""}});
  // The loss alone is an output; what is scanned is seen through it.
  CHECK(Count(built, OpKind::kLoop) == 1);
  std::vector<double> losses;
  for (int64_t row = -1; row < 3; ++row) {
    // Labels zero and x one in one row: the loss counts what has passed in it.
    Floats x(192, row < 0 ? 1.0f : 0.0f);
    for (size_t i = 0; row >= 0 && i < 64; ++i) {
      x[static_cast<size_t>(row) * 64 + i] = static_cast<float>(1 << (i % 12));
    }
    const auto got = Run(read, built,
                         {{"x", ArrayOf<float>({3, 64}, x)},
                          {"labels", ArrayOf<float>({3, 64}, Floats(192, 0))},
                          {"seed", ArrayOf<int64_t>({}, {1})},
                          {"step", ArrayOf<int64_t>({}, {5})}});
    losses.push_back(got[0][0]);
  }
  CHECK(losses[1] != losses[2]);
  CHECK(losses[2] != losses[3]);
}

TEST_CASE("a dropout gives the mask that it drew, where it is read") {
  for (const bool reads_mask : {false, true}) {
    CAPTURE(reads_mask);
    ModelProto model = Empty({"out"});
    GraphProto* const graph = model.mutable_graph();
    AddInput(graph, "x", TensorProto::FLOAT, {512});
    // y is 2 x mask, and out 0, or y.
    Op(graph, "Dropout", {"x"}, reads_mask ? "y" : "out")->add_output("mask");
    if (reads_mask) {
      SetInt(Op(graph, "Cast", {"mask"}, "kept"), "to", TensorProto::FLOAT);
      Op(graph, "Mul", {"x", "kept"}, "once");
      Op(graph, "Add", {"once", "once"}, "twice");
      Op(graph, "Sub", {"y", "twice"}, "out");
    }
    const OnnxModel read = Read(model);
    const Graph built = Built(
        read, {.loss = OnnxLoss{.kind = OnnxLossKind::kMse, .output = ""}});
    CHECK(Count(built, OpKind::kDropout) == (reads_mask ? 2 : 1));
    const auto got = Run(read, built,
                         {{"x", ArrayOf<float>({512}, Floats(512, 1))},
                          {"labels", ArrayOf<float>({512}, Floats(512, 0))},
                          {"seed", ArrayOf<int64_t>({}, {1})},
                          {"step", ArrayOf<int64_t>({}, {5})}});
    // Of 512 numbers about half are 2.
    if (reads_mask) {
      CHECK(got[0] == Floats{0});
    } else {
      CHECK(got[0][0] == doctest::Approx(2).epsilon(0.2));
    }
  }
}

// --- If ---

// y = x w, or x v + v: by whether the sum of x is above 0, within a scan of one more
// axis if asked for. w and v are within the branches, and called alike.
GraphProto* AddChoice(GraphProto* graph) {
  Op(graph, "ReduceSum", {"x"}, "sum");
  Op(graph, "Greater", {"sum", "zero"}, "is_above");
  NodeProto* const choice = Op(graph, "If", {"is_above"}, "y");
  GraphProto* const then = Within(choice, "then_branch", {}, {"a"});
  AddTensor<float>(then, "w", {2}, {2, 3});
  Op(then, "Mul", {"x", "w"}, "a");
  GraphProto* const otherwise = Within(choice, "else_branch", {}, {"c"});
  AddTensor<float>(otherwise, "w", {2}, {5, 7});
  Op(otherwise, "Mul", {"x", "w"}, "b");
  Op(otherwise, "Add", {"b", "w"}, "c");
  return graph;
}
ModelProto Choice() {
  ModelProto model = Empty({"y"});
  AddInput(model.mutable_graph(), "x", TensorProto::FLOAT, {2});
  AddTensor<float>(model.mutable_graph(), "zero", {}, {0});
  AddChoice(model.mutable_graph());
  return model;
}

TEST_CASE("a branch is taken by what is computed") {
  const OnnxModel model = Read(Choice());
  const Graph graph = Built(model);
  CHECK(Count(graph, OpKind::kCond) == 1);
  for (const char* const name : {"w", "w.2"}) {
    REQUIRE(graph.Find(name));
    CHECK(graph.value(*graph.Find(name)).role == Role::kParam);
  }
  CHECK(Run(model, graph, {{"x", ArrayOf<float>({2}, {1, 2})}})[0] ==
        Floats{2, 6});
  CHECK(Run(model, graph, {{"x", ArrayOf<float>({2}, {-1, -2})}})[0] ==
        Floats{0, -7});
}

TEST_CASE("a branch that is known is written out, weights and all") {
  for (const bool is_above : {false, true}) {
    CAPTURE(is_above);
    ModelProto proto = Choice();
    GraphProto* const graph = proto.mutable_graph();
    TensorProto* const known = graph->add_initializer();
    known->set_name("known");
    known->set_data_type(TensorProto::BOOL);
    known->set_raw_data(std::string(1, is_above ? '\1' : '\0'));
    graph->mutable_node(2)->set_input(0, "known");
    const OnnxModel model = Read(proto);
    const Graph built = Built(model);
    CHECK(Count(built, OpKind::kCond) == 0);
    CHECK(built.Find("w").has_value() == is_above);
    CHECK(built.Find("w.2").has_value() != is_above);
    CHECK(Run(model, built, {{"x", ArrayOf<float>({2}, {1, 2})}})[0] ==
          (is_above ? Floats{2, 6} : Floats{10, 21}));
  }
}

TEST_CASE(
    "weights within branches are written back, and all else is as it was") {
  const ModelProto proto = Choice();
  const std::string bytes = proto.SerializeAsString();
  const OnnxModel model = Read(proto);
  const Graph graph = Built(model);
  std::map<std::string, Array> weights;
  REQUIRE(model
              .ForEachWeight(graph,
                             [&](const NamedArray& weight) {
                               weights[weight.name] = weight.array;
                               return Status();
                             })
              .ok());
  CHECK(ValuesOf<float>(weights.at("w.2")) == Floats{5, 7});
  const auto give = [&](NamedArray& weight) {
    weight.array = weights.at(weight.name);
    return Status();
  };
  const auto same = model.WithWeights(graph, give);
  REQUIRE(same.ok());
  CHECK(*same == bytes);
  weights["w.2"] = ArrayOf<float>({2}, {11, 13});
  const auto changed = model.WithWeights(graph, give);
  REQUIRE(changed.ok());
  ModelProto expected = proto;
  expected.mutable_graph()
      ->mutable_node(2)
      ->mutable_attribute(1)
      ->mutable_g()
      ->mutable_initializer(0)
      ->set_raw_data(weights["w.2"].bytes);
  CHECK(*changed == expected.SerializeAsString());
}

TEST_CASE("a branch within a scan reads what is around both") {
  ModelProto model = Empty({"all"});
  GraphProto* const graph = model.mutable_graph();
  AddInput(graph, "xs", TensorProto::FLOAT, {3, 2});
  AddTensor<float>(graph, "zero", {}, {0});
  NodeProto* const scan = Op(graph, "Scan", {"xs"}, "all");
  SetInt(scan, "num_scan_inputs", 1);
  AddChoice(Within(scan, "body", {"x"}, {"y"}));
  const OnnxModel read = Read(model);
  const auto got = Run(read, Built(read),
                       {{"xs", ArrayOf<float>({3, 2}, {1, 2, -1, -2, 3, 0})}});
  CHECK(got[0] == Floats{2, 6, 0, -7, 6, 0});
}

TEST_CASE("what branches cannot be is told") {
  ModelProto shapes = Choice();
  GraphProto* const then = shapes.mutable_graph()
                               ->mutable_node(2)
                               ->mutable_attribute(0)
                               ->mutable_g();
  Op(then, "ReduceSum", {"a"}, "total");
  then->mutable_output(0)->set_name("total");
  CHECK(Says(ToldOf(shapes),
             "node \"the_If\" (If) gives \"y\" as f32(1) in one branch and as "
             "f32(2) in the other; a plan must know one of them"));
  ModelProto missing = Choice();
  missing.mutable_graph()->mutable_node(2)->mutable_attribute(1)->set_name("x");
  CHECK(Says(ToldOf(missing), "has no graph \"else_branch\""));
  ModelProto unmade = Choice();
  unmade.mutable_graph()
      ->mutable_node(2)
      ->mutable_attribute(0)
      ->mutable_g()
      ->mutable_output(0)
      ->set_name("q");
  CHECK(Says(ToldOf(unmade),
             "the graph \"then_branch\" within a node does not make its output "
             "\"q\""));
  ModelProto number = Choice();
  number.mutable_graph()->mutable_node(2)->set_input(0, "sum");
  CHECK(Says(ToldOf(number), "has the condition f32(1); expected one bool"));
}

TEST_CASE("a batch norm follows nothing from within a branch") {
  ModelProto model = Choice();
  GraphProto* const then =
      model.mutable_graph()->mutable_node(2)->mutable_attribute(0)->mutable_g();
  AddTensor<int64_t>(then, "as_channels", {2}, {1, 2});
  AddTensor<int64_t>(then, "as_row", {1}, {2});
  Op(then, "Reshape", {"a", "as_channels"}, "rows");
  Op(then, "BatchNormalization", {"rows", "w", "w", "mean", "variance"},
     "normed");
  AddTensor<float>(model.mutable_graph(), "mean", {2}, {0, 0});
  AddTensor<float>(model.mutable_graph(), "variance", {2}, {1, 1});
  Op(then, "Reshape", {"normed", "as_row"}, "out");
  then->mutable_output(0)->set_name("out");
  CHECK(ToldOf(model) == "");
  CHECK(Says(Told(model, {.loss = OnnxLoss{.kind = OnnxLossKind::kMse}}),
             "follows \"mean\" within a loop or a branch, which cannot keep "
             "anything"));
}

}  // namespace
}  // namespace stowage
