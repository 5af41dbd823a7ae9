// What is wrong with a file, or with what is asked of it, gets a message that names it.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/linear_model.h"

namespace stowage {
namespace {

using onnx::pb::ModelProto;
using onnx::pb::NodeProto;
using onnx::pb::TensorProto;

TEST_CASE("a good file is taken") { CHECK(Said(LinearModel()) == ""); }

// The sanitizers see whether a new input moves what the loss looks at.
TEST_CASE("the smallest graph takes a loss") {
  ModelProto model = LinearModel();
  auto* const graph = model.mutable_graph();
  graph->clear_initializer();
  graph->mutable_node()->DeleteSubrange(1, 1);
  graph->mutable_node(0)->set_op_type("Abs");
  graph->mutable_node(0)->mutable_input()->DeleteSubrange(1, 1);
  graph->mutable_output(0)->set_name("h");
  for (const OnnxLossKind kind :
       {OnnxLossKind::kCrossEntropy, OnnxLossKind::kMse, OnnxLossKind::kBce}) {
    CAPTURE(static_cast<int>(kind));
    CHECK(Said(model,
               {.dims = {{"batch", 3}}, .loss = OnnxLoss{.kind = kind}}) == "");
  }
}

TEST_CASE("what is wrong is named") {
  struct Row {
    std::function<void(ModelProto&)> change;
    std::string message;  // a part of it
  };
  const std::vector<Row> rows = {
      {[](ModelProto& m) { m.clear_graph(); }, "holds no graph with nodes"},
      {[](ModelProto& m) { m.set_ir_version(2); },
       "is of IR version 2; 3 to 14 are supported"},
      {[](ModelProto& m) { m.mutable_opset_import(0)->set_version(0); },
       "the file asks for operator set 0; 1 to 28 are supported"},
      {[](ModelProto& m) {
         m.mutable_opset_import(0)->set_version(3);
         m.mutable_graph()->mutable_node(0)->set_op_type("Concat");
       },
       "has ops that are not known: Add of operator set 3 (1 node), Concat of "
       "operator set 3 (1 node); "},
      {[](ModelProto& m) { m.clear_opset_import(); },
       "does not say which operator set"},
      {[](ModelProto& m) {
         m.mutable_graph()->mutable_node(0)->clear_op_type();
       },
       "has ops that are not known: an op without a name (1 node); "},
      {[](ModelProto& m) {
         m.mutable_graph()->mutable_node(0)->set_op_type("Foo");
         m.mutable_graph()->mutable_node(1)->set_op_type("Bar");
         m.mutable_graph()->mutable_node(1)->set_domain("com.example");
       },
       "has ops that are not known: Foo (1 node), com.example.Bar (1 node); "},
      {[](ModelProto& m) {
         m.mutable_graph()->mutable_node(0)->set_input(1, "q");
       },
       "node \"the_MatMul\" (MatMul) reads \"q\", which no node before it "
       "makes"},
      {[](ModelProto& m) {
         m.mutable_graph()->mutable_node(0)->set_input(0, "y");
       },
       "reads \"y\", which no node before it makes"},
      {[](ModelProto& m) {
         m.mutable_graph()->mutable_node(1)->set_output(0, "h");
       },
       "two values are called \"h\""},
      {[](ModelProto& m) {
         m.mutable_graph()->mutable_output(0)->set_name("z");
       },
       "the graph's output \"z\" is made by no node"},
      {[](ModelProto& m) { m.mutable_graph()->mutable_node(0)->clear_input(); },
       "node \"the_MatMul\" (MatMul) has 0 operands; expected at least 2"},
      {[](ModelProto& m) {
         m.mutable_graph()->mutable_initializer(0)->set_dims(0, 4);
         m.mutable_graph()->mutable_initializer(0)->set_dims(1, 1);
       },
       "node \"the_MatMul\" (MatMul) [matmul] inner sizes differ"},
      {[](ModelProto& m) {
         m.mutable_graph()->mutable_initializer(0)->set_dims(0,
                                                             int64_t{1} << 40);
         m.mutable_graph()->mutable_initializer(0)->set_dims(1,
                                                             int64_t{1} << 40);
       },
       "tensor \"w\" has the dimension 1099511627776 after 4398046511104 "
       "bytes"},
      {[](ModelProto& m) {
         m.mutable_graph()->mutable_initializer(0)->set_dims(0, -1);
       },
       "tensor \"w\" has the dimension -1"},
      {[](ModelProto& m) {
         m.mutable_graph()
             ->mutable_initializer(0)
             ->mutable_float_data()
             ->append(4, '\0');
       },
       "tensor \"w\" has 20 bytes of contents; f32(2, 2) takes 16"},
      {[](ModelProto& m) {
         m.mutable_graph()
             ->mutable_initializer(0)
             ->mutable_float_data()
             ->append(3, '\0');
       },
       "tensor \"w\" has a list that ends within a number"},
      {[](ModelProto& m) {
         m.mutable_graph()->mutable_initializer(0)->set_data_type(
             TensorProto::STRING);
       },
       "elements of type STRING are not supported"},
      {[](ModelProto& m) {
         onnx::pb::ValueInfoProto info;
         info.set_name("h");
         auto* const type = info.mutable_type()->mutable_tensor_type();
         type->set_elem_type(TensorProto::FLOAT);
         type->mutable_shape()->add_dim()->set_dim_value(3);
         type->mutable_shape()->add_dim()->set_dim_value(7);
         m.mutable_graph()->add_value_info(info.SerializeAsString());
       },
       "the file declares \"h\" with 7 in dimension 1; its node makes f32(3, "
       "2)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.message);
    ModelProto model = LinearModel();
    row.change(model);
    const std::string said = Said(model);
    CAPTURE(said);
    CHECK(said.find(row.message) != std::string::npos);
  }
}

TEST_CASE("what is asked for has to be there") {
  const auto said = [](OnnxBuildOptions options) {
    return Said(LinearModel(), std::move(options));
  };
  CHECK(said({.dims = {{"time", 3}}})
            .find("a size is given for the dimension "
                  "\"time\", which no input has; there are \"batch\"") !=
        std::string::npos);
  CHECK(said({.dims = {{"batch", 3}}, .shapes = {{"z", {1}}}})
            .find("a shape is given for \"z\", which is no input; there are "
                  "\"x\"") != std::string::npos);
  CHECK(said({.dims = {{"batch", 3}},
              .loss = OnnxLoss{.kind = OnnxLossKind::kOutput, .output = "z"}})
            .find("the model has no output \"z\" to train for; its outputs are "
                  "\"y\"") != std::string::npos);
  CHECK(said({.dims = {{"batch", 3}}, .shapes = {{"x", {4, 2}}}})
            .find("dimension 0 of input \"x\", called \"batch\", is 4 by the "
                  "shape that is given and 3 by the size that is") !=
        std::string::npos);
  CHECK(said({.dims = {{"batch", 4}}, .shapes = {{"x", {4, 2}}}}) == "");
  OnnxLoss loss;
  loss.labels_shape = std::vector<int64_t>{5};
  CHECK(said({.dims = {{"batch", 3}}, .loss = loss})
            .find("labels (5) do not go with logits (3, 2)") !=
        std::string::npos);
  const auto model = ReadOnnx(WrittenFile(LinearModel().SerializeAsString()));
  REQUIRE(model.ok());
  CHECK(model->Build().error().message.find(
            "dimension 0 of input \"x\" is called \"batch\"; give its size") !=
        std::string::npos);
}

TEST_CASE("tensors beside the model lie in its folder") {
  std::ofstream(TempFolder() + "/weights.bin", std::ios::binary)
      << std::string(16, '\0');
  const auto at = [](const std::string& location, const std::string& offset,
                     const std::string& length = "16") {
    ModelProto model = LinearModel();
    TensorProto* const w = model.mutable_graph()->mutable_initializer(0);
    w->clear_float_data();
    w->set_data_location(TensorProto::EXTERNAL);
    auto* entry = w->add_external_data();
    entry->set_key("location");
    entry->set_value(location);
    entry = w->add_external_data();
    entry->set_key("offset");
    entry->set_value(offset);
    entry = w->add_external_data();
    entry->set_key("length");
    entry->set_value(length);
    return Said(model);
  };
  CHECK(at("weights.bin", "0") == "");
  CHECK(
      at("weights.bin", "1")
          .find("takes 16 bytes from 1 on of \"weights.bin\", which has 16") !=
      std::string::npos);
  CHECK(at("weights.bin", "-1").find("expected a number of bytes") !=
        std::string::npos);
  CHECK(at("weights.bin", "0", "12")
            .find("has 12 bytes in \"weights.bin\"; its shape takes 16") !=
        std::string::npos);
  const std::string absent = at("absent.bin", "0");
  CHECK(absent.find("absent.bin\" cannot be opened: No such file") !=
        std::string::npos);
  CHECK(absent.find("tensor \"w\" lies there") != std::string::npos);
  for (const char* const outside :
       {"../weights.bin", "/etc/passwd", "a/../../weights.bin", ""}) {
    CAPTURE(outside);
    CHECK(at(outside, "0").find("expected a file in the folder of the model") !=
          std::string::npos);
  }
}

// As Hugging Face keeps files: names are links to contents in a folder of their own.
TEST_CASE("links of a cache of files are followed to where the model lies") {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(TempFolder()) / "cache";
  const fs::path blobs = root / "blobs", names = root / "snapshots" / "1";
  fs::create_directories(blobs);
  fs::create_directories(names);
  ModelProto model = LinearModel();
  TensorProto* const w = model.mutable_graph()->mutable_initializer(0);
  w->clear_float_data();
  w->set_data_location(TensorProto::EXTERNAL);
  auto* const entry = w->add_external_data();
  entry->set_key("location");
  entry->set_value("model.onnx_data");
  std::ofstream(blobs / "a", std::ios::binary) << model.SerializeAsString();
  std::ofstream(blobs / "b", std::ios::binary) << std::string(16, '\0');
  std::ofstream(root / "c", std::ios::binary) << std::string(16, '\0');
  const auto link = [&](const char* target, const char* name) {
    fs::remove(names / name);
    fs::create_symlink(target, names / name);
  };
  const auto said = [&]() -> std::string {
    const auto read = ReadOnnx((names / "model.onnx").string());
    if (!read.ok()) return read.error().message;
    const auto graph = read->Build({.dims = {{"batch", 3}}});
    if (!graph.ok()) return graph.error().message;
    int count = 0;
    const Status weights = read->ForEachWeight(*graph, [&](const NamedArray&) {
      ++count;
      return Status();
    });
    return weights.ok() ? StrCat(count, " weights") : weights.error().message;
  };
  link("../../blobs/a", "model.onnx");
  link("../../blobs/b", "model.onnx_data");
  CHECK(said() == "2 weights");
  link("../../c", "model.onnx_data");
  CHECK(said().find("expected a file in the folder of the model") !=
        std::string::npos);
}

// A plan reads none of them.
TEST_CASE("tensors are checked before they are read") {
  const auto said = [](const std::function<void(TensorProto&)>& change) {
    ModelProto model = LinearModel();
    change(*model.mutable_graph()->mutable_initializer(0));
    const auto read = ParseOnnx(model.SerializeAsString(), "/folder/a.onnx");
    REQUIRE(read.ok());
    const auto graph = read->Build({.dims = {{"batch", 3}}});
    return graph.ok() ? "" : graph.error().message;
  };
  const auto place = [](const char* location) {
    return [location](TensorProto& w) {
      w.clear_float_data();
      w.set_data_location(TensorProto::EXTERNAL);
      auto* const entry = w.add_external_data();
      entry->set_key("location");
      entry->set_value(location);
    };
  };
  CHECK(said(place("weights.bin")) == "");
  CHECK(said(place("../weights.bin"))
            .find("tensor \"w\" lies in \"../weights.bin\"; expected a file") !=
        std::string::npos);
  // 2^40 columns, which every op here would take.
  CHECK(said([](TensorProto& w) { w.set_dims(1, int64_t{1} << 40); })
            .find("tensor \"w\" has 16 bytes of contents; f32(2, "
                  "1099511627776) takes 8796093022208") != std::string::npos);
  CHECK(said([](TensorProto& w) {
          w.set_raw_data(std::string(15, 0));
        }).find("has 15 bytes of contents; f32(2, 2) takes 16") !=
        std::string::npos);
}

TEST_CASE("functions are written out, and do not call themselves") {
  ModelProto model = LinearModel();
  auto* const function = model.add_functions();
  function->set_name("Twice");
  function->set_domain("own");
  function->add_input("a");
  function->add_output("b");
  function->add_opset_import()->set_version(17);
  NodeProto* const inner = function->add_node();
  inner->set_op_type("Add");
  inner->add_input("a");
  inner->add_input("a");
  inner->add_output("b");
  NodeProto* const call = model.mutable_graph()->add_node();
  call->set_op_type("Twice");
  call->set_domain("own");
  call->add_input("y");
  call->add_output("twice");
  model.mutable_graph()->mutable_output(0)->set_name("twice");
  CHECK(Said(model) == "");
  inner->set_op_type("Twice");
  inner->set_domain("own");
  CHECK(Said(model).find("the function \"Twice\" calls itself") !=
        std::string::npos);
}

TEST_CASE("a file that is cut anywhere is refused, or is one that ends there") {
  std::ifstream file("tests/goldens/onnx/images_dynamo.onnx", std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  const std::string bytes = all.str();
  REQUIRE(bytes.size() > 10'000);
  int taken = 0;
  for (size_t length = 0; length < bytes.size(); length += 97) {
    const auto model = ReadOnnx(WrittenFile(bytes.substr(0, length)));
    if (!model.ok()) continue;
    taken += model->Build({.dims = {{"batch", 2}}}).ok();
  }
  CHECK(taken == 0);
}

}  // namespace
}  // namespace stowage
