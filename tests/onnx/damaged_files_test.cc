// A damaged ONNX file costs one message, exit code 2 and a bounded amount of memory:
// less than ten times the file.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/linear_model.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

using onnx::pb::FunctionProto;
using onnx::pb::ModelProto;
using onnx::pb::TensorProto;

constexpr int64_t kBallast = 8 << 20;

// The model with one more weight, of so many bytes that all else is small beside it.
// Protobuf joins messages that follow each other; the weight is never in this process,
// whose memory would count as that of those it starts.
std::string WithBallast(const ModelProto& model) {
  TensorProto tensor;
  tensor.set_name("ballast");
  tensor.set_data_type(TensorProto::FLOAT);
  tensor.add_dims(kBallast / 4);
  const std::string head = tensor.SerializeAsString() +
                           Header(TensorProto::kRawDataFieldNumber, kBallast);
  const auto length = head.size() + static_cast<size_t>(kBallast);
  const std::string initializer =
      Header(onnx::pb::GraphProto::kInitializerFieldNumber, length) + head;
  const std::string path = TempPath("damaged.onnx");
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << model.SerializeAsString()
       << Header(ModelProto::kGraphFieldNumber,
                 initializer.size() + static_cast<size_t>(kBallast))
       << initializer;
  const std::string block(1 << 16, '\0');
  for (int64_t i = 0; i < kBallast; i += std::ssize(block)) file << block;
  REQUIRE(file.flush());
  return path;
}

// The most that any program had that was started here.
int64_t PeakBytes() {
  rusage usage = {};
  getrusage(RUSAGE_CHILDREN, &usage);
  return int64_t{usage.ru_maxrss} * 1024;  // Linux counts KiB
}

void Call(google::protobuf::RepeatedPtrField<onnx::pb::NodeProto>* nodes,
          const std::string& name, const std::string& operand,
          const std::string& result) {
  AddNode(nodes, name, {operand}, result)->set_domain("own");
}

// Functions of which each calls the next eight times, and the last itself or an op.
void Nest(ModelProto& model, int depth, bool recursive) {
  for (int i = 0; i < depth; ++i) {
    FunctionProto* const function = model.add_functions();
    function->set_name(StrCat("F", i));
    function->set_domain("own");
    function->add_input("a");
    function->add_output("c7");
    function->add_opset_import()->set_version(17);
    for (int call = 0; call < 8; ++call) {
      const std::string from = call == 0 ? "a" : StrCat("c", call - 1);
      const int callee = i + 1 < depth ? i + 1 : i;
      if (callee > i || recursive) {
        Call(function->mutable_node(), StrCat("F", callee), from,
             StrCat("c", call));
      } else {
        AddNode(function->mutable_node(), "Relu", {from}, StrCat("c", call));
      }
    }
  }
  Call(model.mutable_graph()->mutable_node(), "F0", "y", "z");
  model.mutable_graph()->mutable_output(0)->set_name("z");
}

struct Damage {
  std::function<void(ModelProto&)> change;
  std::string message;  // a part of it
};

std::vector<Damage> Damages() {
  return {
      {[](ModelProto& m) {
         m.mutable_graph()->mutable_node(0)->set_input(0, "y");
       },
       "reads \"y\", which no node before it makes"},
      {[](ModelProto& m) {
         m.mutable_graph()->mutable_initializer()->DeleteSubrange(0, 1);
       },
       "reads \"w\", which no node before it makes"},
      {[](ModelProto& m) {
         TensorProto* const w = m.mutable_graph()->mutable_initializer(0);
         w->clear_float_data();
         w->set_data_location(TensorProto::EXTERNAL);
         auto* const entry = w->add_external_data();
         entry->set_key("location");
         entry->set_value("../../../etc/passwd");
       },
       "expected a file in the folder of the model"},
      {[](ModelProto& m) {
         m.mutable_graph()->mutable_initializer(0)->set_dims(1,
                                                             int64_t{1} << 40);
       },
       "has 16 bytes of contents; f32(2, 1099511627776) takes"},
      {[](ModelProto& m) { Nest(m, 3, /*recursive=*/true); }, "calls itself"},
      {[](ModelProto& m) { Nest(m, 65, /*recursive=*/false); },
       "has more than 1000000 nodes once its functions are written out"},
      {[](ModelProto& m) { Nest(m, 7, /*recursive=*/false); },
       "has more than 1000000 nodes once its functions are written out"},
  };
}

const std::vector<std::vector<std::string>>& Uses() {
  static const auto& uses = *new std::vector<std::vector<std::string>>{
      {"--batch", "3"}, {"--batch", "3", "--loss", "mse"}};
  return uses;
}

// Peaks only rise, so what needs least comes first.
TEST_CASE("damaged files are refused in less than ten times their size") {
  CHECK(RunStowage({"plan", "--onnx", WriteTemp("empty.onnx", "")}).exit_code ==
        2);
  const int64_t base = PeakBytes();
  const auto check = [&](const std::string& path, const std::string& message) {
    const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
    for (const std::vector<std::string>& use : Uses()) {
      std::vector<std::string> arguments = {"plan", "--onnx", path};
      arguments.insert(arguments.end(), use.begin(), use.end());
      const Outcome outcome = RunStowage(arguments);
      CAPTURE(message);
      CAPTURE(outcome.err);
      CHECK(outcome.exit_code == 2);
      CHECK(outcome.out.empty());
      CHECK(outcome.err.find(message) != std::string::npos);
      CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
      CHECK(PeakBytes() - base < 10 * size);
    }
  };
  // The ballast is zeros, which growing a file again puts back.
  const std::string whole = WithBallast(LinearModel());
  for (const int64_t at : {1000, 4000, 8000}) {
    std::filesystem::resize_file(whole, static_cast<uintmax_t>(997 * at));
    check(whole, "is no ONNX file or ends early");
  }
  for (const Damage& damage : Damages()) {
    ModelProto model = LinearModel();
    damage.change(model);
    check(WithBallast(model), damage.message);
  }
}

}  // namespace
}  // namespace stowage::testing
