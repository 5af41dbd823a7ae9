// What reading an ONNX file takes of the heap, at its peak: less than ten times the file
// of an exporter, whatever is wrong with it, and a bounded multiple of any other.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/linear_model.h"
#include "tests/support/heap_peak.h"

namespace stowage::testing {
namespace {

using onnx::pb::GraphProto;
using onnx::pb::ModelProto;
using onnx::pb::NodeProto;
using onnx::pb::TensorProto;

const std::vector<std::string>& Nets() {
  static const auto& nets = *new std::vector<std::string>{
      "bert_dynamo",   "bert_script",   "gpt2_dynamo",      "llama_dynamo",
      "images_dynamo", "images_script", "recurrent_dynamo", "recurrent_script",
      "vit_dynamo",    "vit_script"};
  return nets;
}

std::string BytesOf(const std::string& net) {
  std::ifstream file(StrCat("tests/goldens/onnx/", net, ".onnx"),
                     std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  REQUIRE(all.str().size() > 10'000);
  return all.str();
}

struct Reading {
  std::string said;  // "" where nothing is wrong
  double times = 0;  // the peak, of the file
};

// Reads the file and builds its graph, with a loss and without.
Reading Read(const std::string& bytes) {
  const std::string path = WrittenFile(bytes);
  Reading reading;
  for (const bool trains : {false, true}) {
    const HeapPeak peak;
    const auto model = ReadOnnx(path);
    std::string said = model.ok() ? "" : model.error().message;
    if (model.ok()) {
      OnnxBuildOptions options;
      for (const OnnxInput& input : model->inputs()) {
        for (const OnnxDim& dim : input.dims) {
          if (!dim.symbol.empty()) options.dims[dim.symbol] = 2;
        }
      }
      if (trains) options.loss = OnnxLoss{};
      const auto graph = model->Build(options);
      if (!graph.ok()) said = graph.error().message;
    }
    reading.said = said;
    reading.times =
        std::max(reading.times, static_cast<double>(peak.bytes().value_or(0)) /
                                    static_cast<double>(bytes.size()));
  }
  return reading;
}

void CheckRefused(const std::string& bytes, const std::string& message,
                  double most_times) {
  const Reading reading = Read(bytes);
  CAPTURE(message);
  CAPTURE(reading.said);
  CHECK(reading.said.find(message) != std::string::npos);
  CHECK(reading.times < most_times);
}

// The nets' tensors are small, so that messages are most of these files.
TEST_CASE("nets that are cut take less than twenty times what is left") {
  for (const std::string& net : Nets()) {
    const std::string bytes = BytesOf(net);
    for (size_t length = 997; length < bytes.size(); length += 997) {
      CAPTURE(net);
      CAPTURE(length);
      CheckRefused(bytes.substr(0, length), "is no ONNX file or ends early",
                   20);
    }
  }
}

struct Damage {
  std::function<void(ModelProto&)> change;
  std::string message;  // a part of it
};

// The first node that reads something, and the last but one.
NodeProto* EarlyNode(GraphProto* graph) {
  int at = 0;
  while (graph->node(at).input_size() == 0) ++at;
  return graph->mutable_node(at);
}
NodeProto* LateNode(GraphProto* graph) {
  int at = graph->node_size() - 2;
  while (graph->node(at).input_size() == 0) --at;
  return graph->mutable_node(at);
}

std::string LastResult(const ModelProto& model) {
  return model.graph().node(model.graph().node_size() - 1).output(0);
}

TensorProto* LastTensor(ModelProto& model) {
  GraphProto* const graph = model.mutable_graph();
  return graph->mutable_initializer(graph->initializer_size() - 1);
}

std::vector<Damage> Damages() {
  return {
      {[](ModelProto& m) {
         LateNode(m.mutable_graph())->set_input(0, LastResult(m));
       },
       "which no node before it makes"},
      {[](ModelProto& m) {
         EarlyNode(m.mutable_graph())->set_input(0, LastResult(m));
       },
       "which no node before it makes"},
      {[](ModelProto& m) {
         m.mutable_graph()->mutable_initializer()->RemoveLast();
       },
       "which no node before it makes"},
      {[](ModelProto& m) {
         *m.mutable_graph()->add_node() = m.graph().node(0);
       },
       "names must be unique"},
      {[](ModelProto& m) {
         TensorProto* const tensor = LastTensor(m);
         tensor->clear_raw_data();
         tensor->set_data_location(TensorProto::EXTERNAL);
         auto* const entry = tensor->add_external_data();
         entry->set_key("location");
         entry->set_value("../../../etc/passwd");
       },
       "expected a file in the folder of the model"},
      {[](ModelProto& m) {
         LastTensor(m)->clear_dims();
         LastTensor(m)->add_dims(int64_t{1} << 40);
       },
       "bytes of contents; "},
      {[](ModelProto& m) {
         // Each of two calls the other.
         for (const int i : {0, 1}) {
           auto* const function = m.add_functions();
           function->set_name(StrCat("F", i));
           function->set_domain("own");
           function->add_input("a");
           function->add_output("b");
           AddNode(function->mutable_node(), StrCat("F", 1 - i), {"a"}, "b")
               ->set_domain("own");
         }
         AddNode(m.mutable_graph()->mutable_node(), "F0", {LastResult(m)},
                 "called")
             ->set_domain("own");
       },
       "calls itself"},
  };
}

TEST_CASE("nets with one thing wrong take less than ten times the file") {
  for (const std::string& net : Nets()) {
    CAPTURE(net);
    const std::string bytes = BytesOf(net);
    CHECK(Read(bytes).said == "");
    for (const Damage& damage : Damages()) {
      ModelProto model;
      REQUIRE(model.ParseFromString(bytes));
      damage.change(model);
      CheckRefused(model.SerializeAsString(), damage.message, 10);
    }
  }
}

std::string Many(int field, const std::string& bytes) {
  std::string all;
  for (int i = 0; i < 300'000; ++i) all += Within(field, bytes);
  return all;
}

// Fields are numbers of onnx.proto.
std::vector<std::string> FilesOfManyFields() {
  const std::vector<std::vector<int>> empty_fields = {
      {7, 1},        // nodes
      {7, 1, 1},     // names of operands
      {7, 1, 2},     // and results
      {7, 1, 5},     // attributes
      {7, 1, 5, 9},  // texts
      {7, 1, 5, 6, 1},
      {7, 5},  // initializers
      {7, 5, 6},
      {7, 5, 13},
      {7, 11},  // inputs
      {7, 12},
      {7, 13},
      {7, 12, 2, 1, 2, 1},  // dimensions
      {7, 14},
      {7, 15},
      {8},
      {14},
      {20},
      {25},
      {25, 4},
      {25, 5},
      {25, 6},
      {25, 7},
      {25, 9},
      {25, 11},
      {25, 12},
  };
  std::vector<std::string> files;
  for (const std::vector<int>& fields : empty_fields) {
    std::string bytes = Many(fields.back(), "");
    for (size_t i = fields.size() - 1; i-- > 0;) {
      bytes = Within(fields[i], bytes);
    }
    files.push_back(bytes);
  }
  const auto attribute = [](const std::string& field) {
    return Within(7, Within(1, Within(5, field)));
  };
  const auto tensor = [](const std::string& field) {
    return Within(7, Within(5, field));
  };
  const std::string ones(400'000, '\1');
  files.insert(files.end(),
               {
                   attribute(Many(8, "\1")),    // lists of an integer
                   attribute(Within(8, ones)),  // integers
                   attribute(Within(7, ones)),  // floats
                   tensor(Many(1, "\1")),       // dimensions
                   tensor(Within(4, ones)),     // floats of a tensor
                   tensor(Within(7, ones)),     // integers of a tensor
                   Within(7, Many(13, std::string(20, 'x'))),  // declared types
                   Many(200, "x"),  // no field at all
               });
  return files;
}

// Without a limit empty tensors take a hundred times their file.
TEST_CASE("fields that are many and say nothing take a bounded amount") {
  int row = 0;
  for (const std::string& fields : FilesOfManyFields()) {
    CAPTURE(row);
    ++row;
    ModelProto version;
    version.set_ir_version(8);
    version.add_opset_import()->set_version(17);
    const std::string bytes = version.SerializeAsString() + fields;
    const HeapPeak peak;
    const auto model = ParseOnnx(bytes, "hostile.onnx");
    CHECK((!model.ok() || !model->Build().ok()));
    CHECK(peak.bytes().value_or(0) < 34 * std::ssize(bytes) + (2 << 20));
  }
}

TEST_CASE("messages beyond the limit are refused by name") {
  const std::string bytes = Within(7, Many(1, ""));
  const auto model = ParseOnnx(bytes, "hostile.onnx");
  REQUIRE(!model.ok());
  CHECK(model.error().message ==
        "[onnx] \"hostile.onnx\", 600004 bytes, holds messages that take more "
        "than 20248704 bytes of memory; expected at most that of an ONNX model "
        "of this size");
}

}  // namespace
}  // namespace stowage::testing
