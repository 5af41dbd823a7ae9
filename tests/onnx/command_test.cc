// ONNX files by the command: with a checkpoint's weights, and planned around ops that
// are not known.

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/strings.h"
#include "formats/array.h"
#include "formats/npy.h"
#include "ir/tensor_type.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/linear_model.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;

constexpr char kNet[] = "tests/goldens/onnx/images_dynamo.onnx";
constexpr char kData[] = "tests/goldens/onnx/images.npz";

// Trains the net, three steps; returns what there is to say of it.
void Train(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "train",    "--onnx",        kNet,   "--data", kData,
      "--loss",   "cross_entropy", "--lr", "0.1",    "--optimizer",
      "momentum", "--steps",       "3"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = RunStowage(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
}

Outcome Export(const std::string& net, const std::string& weights,
               const std::string& output) {
  return RunStowage(
      {"export-onnx", "--onnx", net, "--checkpoint", weights, "-o", output});
}

TEST_CASE("a checkpoint gives the file that its run would have written") {
  const std::string checkpoint = TempPath("run.safetensors");
  const std::string weights = TempPath("weights.safetensors");
  const std::string arrays = TempPath("weights.npz");
  const std::string written = TempPath("written.onnx");
  Train({"--save", checkpoint, "--save-weights", weights, "--save-onnx",
         written});
  Train({"--save-weights", arrays});
  REQUIRE(ReadAll(written) != ReadAll(kNet));
  for (const std::string& from : {checkpoint, weights, arrays}) {
    CAPTURE(from);
    const std::string output = TempPath("exported.onnx");
    const Outcome outcome = Export(kNet, from, output);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out.empty());
    CHECK(ReadAll(output) == ReadAll(written));
  }
}

TEST_CASE("a checkpoint with a flipped bit is refused") {
  const std::string checkpoint = TempPath("run.safetensors");
  Train({"--save", checkpoint});
  std::string bytes = ReadAll(checkpoint);
  bytes[bytes.size() / 2] ^= 1;
  const std::string flipped = WriteTemp("flipped.safetensors", bytes);
  const std::string output = WriteTemp("untouched.onnx", "as it was");
  const Outcome outcome = Export(kNet, flipped, output);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("is damaged: its content has the digest") !=
        std::string::npos);
  CHECK(ReadAll(output) == "as it was");
}

std::string Npz(const std::string& name, const std::vector<float>& numbers,
                const Shape& shape) {
  NamedArray array{name, {{DType::kF32, shape}, {}}};
  array.array.bytes.assign(reinterpret_cast<const char*>(numbers.data()),
                           numbers.size() * sizeof(float));
  const auto bytes = NpzBytes(std::span(&array, 1));
  REQUIRE(bytes.ok());
  return WriteTemp(StrCat(name, ".npz"), *bytes);
}

// The model has w (2, 2) and b (2), all 0.5.
TEST_CASE("weights that a file lacks stay as they are") {
  const std::string net =
      WriteTemp("linear.onnx", LinearModel().SerializeAsString());
  const std::string output = TempPath("exported.onnx");
  const Outcome outcome = Export(net, Npz("b", {3, 4}, {2}), output);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.find("export-onnx: 1 weights of ") != std::string::npos);
  onnx::pb::ModelProto model;
  REQUIRE(model.ParseFromString(ReadAll(output)));
  const auto& w = model.graph().initializer(0);
  const auto& b = model.graph().initializer(1);
  CHECK(w.float_data().size() == 16);
  CHECK(b.float_data().empty());
  const std::vector<float> wanted = {3, 4};
  REQUIRE(b.raw_data().size() == 8);
  CHECK(std::memcmp(b.raw_data().data(), wanted.data(), 8) == 0);
}

TEST_CASE("weights of another model are refused, and nothing is written") {
  const std::string net =
      WriteTemp("linear.onnx", LinearModel().SerializeAsString());
  const std::string checkpoint = TempPath("run.safetensors");
  Train({"--save", checkpoint});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  struct Row {
    std::string weights, message;
    int exit_code = 2;
  };
  const std::vector<Row> rows = {
      {Npz("c", {1, 2}, {2}),
       "has 1 weights that the model has not, \"c\" the first of them by name, "
       "and 0 that it has"},
      {Npz("w", {1, 2}, {2}), "has \"w\" as f32(2); the model's is f32(2, 2)"},
      {Npz("b", {1, nan}, {2}), "has nan at element 1 of \"b\"", 1},
      {checkpoint, " weights that the model has not, "},
      {TempPath("nowhere.npz"), "nowhere.npz"},
  };
  const std::string output = TempPath("untouched.onnx");
  WriteTemp("untouched.onnx", "as it was");
  for (const Row& row : rows) {
    const Outcome outcome = Export(net, row.weights, output);
    CAPTURE(row.message);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == row.exit_code);
    CHECK(outcome.err.find(row.message) != std::string::npos);
    CHECK(ReadAll(output) == "as it was");
  }
  const Outcome same = Export(net, Npz("b", {3, 4}, {2}), net);
  CHECK(same.exit_code == 2);
  CHECK(ReadAll(net) == LinearModel().SerializeAsString());
}

// The linear model, and behind it an op that nobody knows, whose result is declared.
std::string WithForeignOp() {
  onnx::pb::ModelProto model = LinearModel();
  auto* const nodes = model.mutable_graph()->mutable_node();
  AddNode(nodes, "Frobnicate", {"y"}, "z");
  AddNode(nodes, "Relu", {"z"}, "r");
  model.mutable_graph()->mutable_output(0)->set_name("r");
  onnx::pb::ValueInfoProto info;
  info.set_name("z");
  auto* const type = info.mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::pb::TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_param("batch");
  type->mutable_shape()->add_dim()->set_dim_value(1000);
  model.mutable_graph()->add_value_info(info.SerializeAsString());
  return WriteTemp("foreign.onnx", model.SerializeAsString());
}

TEST_CASE("a plan stands in for ops that are not known, where it is asked to") {
  const std::string net = WithForeignOp();
  const Outcome refused = RunStowage({"plan", "--onnx", net, "--batch", "3"});
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("Frobnicate (1 node)") != std::string::npos);
  const Outcome planned = RunStowage(
      {"plan", "--onnx", net, "--batch", "3", "--stand-ins", "--json"});
  INFO(planned.err);
  REQUIRE(planned.exit_code == 0);
  // What it makes, 3 x 1000 floats, is there at least once, and what follows it is
  // planned.
  const Json forward = Json::parse(planned.out);
  CHECK(forward["lower_bound_bytes"] >= 12'000);
  CHECK(forward["valid"] == true);
  // In a step what it makes, its labels and its gradient are there, which is stood in
  // for, too.
  const Outcome step = RunStowage({"plan", "--onnx", net, "--batch", "3",
                                   "--loss", "mse", "--stand-ins", "--json"});
  INFO(step.err);
  REQUIRE(step.exit_code == 0);
  const Json trained = Json::parse(step.out);
  CHECK(trained["lower_bound_bytes"] >= 24'000);
  CHECK(trained["valid"] == true);
  const Outcome run = RunStowage({"train", "--onnx", net, "--stand-ins",
                                  "--data", kData, "--loss", "mse"});
  CHECK(run.exit_code == 2);
}

// y where a threshold is below it, else 0; times a number, which the exporter has named.
std::string WithConstants() {
  onnx::pb::ModelProto model = LinearModel();
  auto* const graph = model.mutable_graph();
  const auto add = [&](const char* name, float number) {
    onnx::pb::TensorProto* const tensor = graph->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::pb::TensorProto::FLOAT);
    tensor->set_float_data(
        std::string(reinterpret_cast<const char*>(&number), sizeof number));
  };
  add("val_3", 2);
  add("threshold", 0.25);
  add("zero", 0);
  auto* const nodes = graph->mutable_node();
  AddNode(nodes, "Greater", {"y", "threshold"}, "reads");
  AddNode(nodes, "Where", {"reads", "y", "zero"}, "kept");
  AddNode(nodes, "Mul", {"kept", "val_3"}, "z");
  graph->mutable_output(0)->set_name("z");
  return WriteTemp("constants.onnx", model.SerializeAsString());
}

TEST_CASE("what trains is listed, and what does not has its reason") {
  const std::string net = WithConstants();
  const auto list = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "plan", "--onnx", net, "--batch", "3", "--list-params", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = RunStowage(arguments);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    const Json listed = Json::parse(outcome.out);
    std::vector<std::string> said;
    for (const Json& row : listed["params"]) {
      said.push_back(StrCat(row["name"].get<std::string>(), " ",
                            row["becomes"].get<std::string>(), ": ",
                            row["why"].get<std::string>()));
    }
    return said;
  };
  using Said = std::vector<std::string>;
  CHECK(list({"--loss", "mse", "--freeze", "b*"}) ==
        Said{"w trained: ", "b frozen: --freeze b*",
             "val_3 constant: a number of the model's code",
             "threshold frozen: no gradient reaches it", "zero trained: "});
  CHECK(list({"--loss", "mse", "--trainable", "val_*"})[2] ==
        "val_3 trained: ");
  CHECK(list({})[0] == "w read: ");
  const Outcome table = RunStowage({"plan", "--onnx", net, "--batch", "3",
                                    "--loss", "mse", "--list-params"});
  CHECK(table.out.find("constant  f32()                   val_3: a number of "
                       "the model's code\n") != std::string::npos);
  // A step leaves the threshold as it is, which was an error.
  const Outcome planned = RunStowage(
      {"plan", "--onnx", net, "--batch", "3", "--loss", "mse", "--json"});
  INFO(planned.err);
  CHECK(planned.exit_code == 0);
  const Outcome unknown =
      RunStowage({"plan", "--onnx", net, "--batch", "3", "--trainable", "q"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err.find("is called as \"q\"; it has 1") != std::string::npos);
}

TEST_CASE("an explained plan says which canonical ops were found") {
  onnx::pb::ModelProto model = LinearModel();
  auto* const nodes = model.mutable_graph()->mutable_node();
  AddNode(nodes, "Sigmoid", {"y"}, "s");
  AddNode(nodes, "Mul", {"y", "s"}, "z");
  model.mutable_graph()->mutable_output(0)->set_name("z");
  const std::string net = WriteTemp("silu.onnx", model.SerializeAsString());
  const Outcome text =
      RunStowage({"plan", "--onnx", net, "--batch", "3", "--explain"});
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("\ncanonical ops: silu 1\n") != std::string::npos);
  const Outcome json = RunStowage(
      {"plan", "--onnx", net, "--batch", "3", "--explain", "--json"});
  REQUIRE(json.exit_code == 0);
  const Json canonical = Json::parse(json.out)["canonical"];
  CHECK(canonical["found"] == Json{{"silu", 1}});
  CHECK(canonical["misses"].empty());
}

}  // namespace
}  // namespace stowage::testing
