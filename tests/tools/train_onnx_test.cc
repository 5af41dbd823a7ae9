// Training a model of an ONNX file by the command.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "formats/array.h"
#include "formats/npy.h"
#include "ir/tensor_type.h"
#include "onnx/onnx.h"
#include "tests/onnx/linear_model.h"
#include "tests/onnx/run_onnx.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;

constexpr char kNet[] = "tests/goldens/onnx/images_dynamo.onnx";
constexpr char kData[] = "tests/goldens/onnx/images.npz";

std::vector<std::string> Command(const std::string& net, int steps,
                                 const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {
      "train",         "--onnx", net,       "--data",     kData,  "--loss",
      "cross_entropy", "--lr",   "0.1",     "--shuffle",  "none", "--optimizer",
      "sgd",           "--json", "--steps", StrCat(steps)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<double> Losses(const std::vector<std::string>& arguments) {
  const Outcome outcome = RunStowage(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  std::vector<double> losses;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    if (json.contains("loss")) losses.push_back(json["loss"]);
    if (json.contains("done")) {
      CHECK(json["validation_loss"].is_null());
      CHECK(AllocatedNothing(json));
    }
  }
  return losses;
}

std::string FloatBytes(size_t count, float value) {
  const std::vector<float> values(count, value);
  std::string bytes(count * sizeof(float), 0);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST_CASE("five steps of an ONNX file's model are PyTorch's") {
  const auto arrays = ParseNpz(ReadAll(kData), kData);
  REQUIRE(arrays.ok());
  std::vector<float> expected;
  for (const NamedArray& array : *arrays) {
    if (array.name == "losses") expected = ValuesOf<float>(array.array);
  }
  const std::vector<double> losses = Losses(Command(kNet, 5));
  REQUIRE(losses.size() == expected.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(losses[i] - expected[i]) < 1e-4);
  }
  // The same from less memory.
  const Outcome plan = RunStowage(
      {"plan", "--onnx", kNet, "--batch", "4", "--train", "--loss",
       "cross_entropy", "--optimizer", "sgd", "--recompute", "auto", "--json"});
  REQUIRE(plan.exit_code == 0);
  const Json planned = Json::parse(plan.out);
  CHECK(planned["batch"] == 4);
  CHECK(planned["optimizer"] == "sgd");
  const int64_t least = planned["minimum_budget_bytes"];
  CHECK(least < planned["arena_bytes"]);
  CHECK(Losses(Command(kNet, 5,
                       {"--recompute", "auto", "--budget", StrCat(least)})) ==
        losses);
}

TEST_CASE("a file that is written back goes on where training ended") {
  const std::string saved = TempPath("trained.onnx");
  const std::vector<double> whole = Losses(Command(kNet, 4));
  const std::vector<double> first =
      Losses(Command(kNet, 3, {"--save-onnx", saved}));
  const std::vector<double> then = Losses(Command(saved, 1));
  REQUIRE(then.size() == 1);
  CHECK(first == std::vector<double>(whole.begin(), whole.begin() + 3));
  CHECK(then[0] == whole[3]);
  CHECK(ReadAll(saved).size() == ReadAll(kNet).size());
}

// Steps that are too small to change a weight.
TEST_CASE("all but the weights is written back byte for byte") {
  for (const std::string file :
       {"vit_dynamo", "vit_script", "scanned_dynamo"}) {
    CAPTURE(file);
    const std::string net = StrCat("tests/goldens/onnx/", file, ".onnx");
    const std::string data =
        StrCat("tests/goldens/onnx/", file.substr(0, file.find('_')), ".npz");
    const std::string saved = TempPath("unchanged.onnx");
    Losses({"train", "--onnx", net, "--data", data, "--loss", "cross_entropy",
            "--lr", "1e-38", "--optimizer", "sgd", "--shuffle", "none",
            "--steps", "1", "--json", "--save-onnx", saved});
    CHECK(ReadAll(saved) == ReadAll(net));
  }
}

// The arrays of the golden data, so many times over.
std::string DataOf(int times) {
  const auto arrays = ParseNpz(ReadAll(kData), kData);
  REQUIRE(arrays.ok());
  std::vector<NamedArray> more;
  for (const NamedArray& array : *arrays) {
    if (array.name != "x" && array.name != "labels") continue;
    more.push_back(array);
    more.back().array.type.shape[0] *= times;
    more.back().array.bytes.clear();
    for (int i = 0; i < times; ++i) {
      more.back().array.bytes += array.array.bytes;
    }
  }
  const auto bytes = NpzBytes(more);
  REQUIRE(bytes.ok());
  return WriteTemp("more.npz", *bytes);
}

// What the model of a file gives for x, and how that judges labels: the cross-entropy
// and the part that is right, as their formulas say.
struct Judged {
  double loss = 0, accuracy = 0;
};
Judged JudgedBy(const std::string& net, const Array& x, const Array& labels) {
  const auto model = ReadOnnx(net);
  REQUIRE(model.ok());
  OnnxBuildOptions options;
  if (!model->inputs()[0].dims[0].symbol.empty()) {
    options.dims["batch"] = x.type.shape[0];
  }
  const auto graph = model->Build(options);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const auto outputs = RunOnnx(*model, *graph, {{"x", x}});
  REQUIRE_MESSAGE(outputs.ok(), outputs.error().message);
  const std::vector<float> logits = ValuesOf<float>((*outputs)[0]);
  const std::vector<int64_t> right = ValuesOf<int64_t>(labels);
  const size_t classes = logits.size() / right.size();
  Judged judged;
  for (size_t i = 0; i < right.size(); ++i) {
    const float* const row = logits.data() + i * classes;
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(double{row[c]});
    const auto label = static_cast<size_t>(right[i]);
    judged.loss += std::log(sum) - row[label];
    judged.accuracy += std::max_element(row, row + classes) == row + label;
  }
  judged.loss /= static_cast<double>(right.size());
  judged.accuracy /= static_cast<double>(right.size());
  return judged;
}

// Rows [first, last) of an array.
Array Rows(const Array& array, int64_t first, int64_t last) {
  const auto size =
      static_cast<size_t>(array.type.bytes() / array.type.shape[0]);
  Array rows = array;
  rows.type.shape[0] = last - first;
  rows.bytes = array.bytes.substr(static_cast<size_t>(first) * size,
                                  static_cast<size_t>(last - first) * size);
  return rows;
}

std::string Npz(const char* name, const Array& x, const Array& labels) {
  const auto bytes =
      NpzBytes(std::vector<NamedArray>{{"x", x}, {"labels", labels}});
  REQUIRE(bytes.ok());
  return WriteTemp(name, *bytes);
}

// Fourteen examples of which no two are the same.
struct Examples {
  Array x{{DType::kF32, {14, 3, 16, 16}}, {}};
  Array labels{{DType::kI64, {14}}, {}};
  Examples() {
    std::vector<float> pixels(14 * 3 * 16 * 16);
    for (size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i) +
                                              static_cast<double>(i / 768)));
    }
    std::vector<int64_t> classes;
    for (int64_t i = 0; i < 14; ++i) classes.push_back(i * 3 % 5);
    x.bytes.assign(reinterpret_cast<const char*>(pixels.data()),
                   pixels.size() * sizeof(float));
    labels.bytes.assign(reinterpret_cast<const char*>(classes.data()),
                        classes.size() * sizeof(int64_t));
  }
};

Json LastLine(const std::vector<std::string>& arguments) {
  const Outcome outcome = RunStowage(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const std::string& out = outcome.out;
  return Json::parse(out.substr(out.rfind('\n', out.size() - 2) + 1));
}

TEST_CASE("arrays are looked at before the first step") {
  const auto arrays = ParseNpz(ReadAll(kData), kData);
  REQUIRE(arrays.ok());
  const auto refused = [&](const std::string& name, size_t at, double value) {
    std::vector<NamedArray> changed = *arrays;
    for (NamedArray& array : changed) {
      if (array.name != name) continue;
      std::vector<double> numbers = RealsOf(array.array);
      numbers[at] = value;
      array.array =
          ArrayOf(array.array.type.dtype, array.array.type.shape, numbers);
    }
    std::vector<std::string> arguments = Command(kNet, 2);
    std::replace(arguments.begin(), arguments.end(), std::string(kData),
                 WriteTemp("changed.npz", *NpzBytes(changed)));
    const Outcome outcome = RunStowage(arguments);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    return outcome.err;
  };
  CHECK(refused("x", 3 * 16 * 16 + 2, std::nan("")) ==
        "stowage: [data] \"x\" [1, 0, 0, 2] is nan; expected finite numbers\n");
  const std::string label = refused("labels", 2, 1'000'000);
  CHECK(label.starts_with(
      "stowage: [data] \"labels\" [2] is 1000000; expected 0 to "));
  CHECK(refused("labels", 1, -1)
            .starts_with("stowage: [data] \"labels\" [1] is -1; "));
}

TEST_CASE("arrays that no input reads are listed") {
  auto arrays = ParseNpz(ReadAll(kData), kData);
  REQUIRE(arrays.ok());
  arrays->push_back({"weights of examples", arrays->front().array});
  std::vector<std::string> arguments = Command(kNet, 1);
  const Outcome all = RunStowage(arguments);
  CHECK(all.err.find("weights of examples") == std::string::npos);
  std::replace(arguments.begin(), arguments.end(), std::string(kData),
               WriteTemp("more.npz", *NpzBytes(*arrays)));
  const Outcome outcome = RunStowage(arguments);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.find("[data] no input reads these arrays: ") !=
        std::string::npos);
  CHECK(outcome.err.find("\"weights of examples\"") != std::string::npos);
  arguments.insert(arguments.end(), {"--dim", "N=4", "--dim", "N=8"});
  const Outcome twice = RunStowage(arguments);
  CHECK(twice.exit_code == 2);
  CHECK(twice.err.find("[dim] \"N\" is given twice") != std::string::npos);
}

TEST_CASE("arrays may change names") {
  const auto arrays = ParseNpz(ReadAll(kData), kData);
  REQUIRE(arrays.ok());
  std::vector<NamedArray> turned;
  for (NamedArray array : *arrays) {
    if (array.name != "x" && array.name != "labels") continue;
    array.name = array.name == "x" ? "labels" : "x";
    turned.push_back(array);
  }
  const auto bytes = NpzBytes(turned);
  REQUIRE(bytes.ok());
  const std::string data = WriteTemp("turned.npz", *bytes);
  std::vector<std::string> arguments =
      Command(kNet, 2, {"--input-map", "x=labels", "--input-map", "labels=x"});
  std::replace(arguments.begin(), arguments.end(), std::string(kData), data);
  CHECK(Losses(arguments) == Losses(Command(kNet, 2)));
}

TEST_CASE("what is held out judges the model that was trained") {
  const Examples all;
  const std::string data = Npz("all.npz", all.x, all.labels);
  const std::string saved = TempPath("judged.onnx");
  const std::vector<std::string> common = {
      "train", "--onnx", kNet,        "--loss", "cross_entropy",
      "--lr",  "0.1",    "--batch",   "4",      "--steps",
      "5",     "--json", "--shuffle", "none",   "--optimizer",
      "sgd"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = common;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  // The last six of fourteen, in two batches of three.
  const Json end = LastLine(
      with({"--data", data, "--hold-out", "0.43", "--save-onnx", saved}));
  // Batch norms of the file that was written back use what they have followed.
  const Judged judged =
      JudgedBy(saved, Rows(all.x, 8, 14), Rows(all.labels, 8, 14));
  CHECK(end["validation_loss"].get<double>() ==
        doctest::Approx(judged.loss).epsilon(1e-5));
  CHECK(end["accuracy"].get<double>() == doctest::Approx(judged.accuracy));
  // Metrics are counted in the same two batches.
  const Json counted = LastLine(with({"--data", data, "--hold-out", "0.43",
                                      "--metrics", "f1_micro,mean_iou"}));
  CHECK(counted["validation_loss"] == end["validation_loss"]);
  CHECK(counted["f1_micro"].get<double>() == doctest::Approx(judged.accuracy));
  CHECK(counted["mean_iou"].get<double>() <= judged.accuracy);
  // The rest is what it learns from, and judging changes nothing of that.
  const std::string rest =
      Npz("rest.npz", Rows(all.x, 0, 8), Rows(all.labels, 0, 8));
  const std::string alone = TempPath("alone.onnx");
  LastLine(with({"--data", rest, "--save-onnx", alone}));
  CHECK(ReadAll(saved) == ReadAll(alone));

  // The same in the smallest budget of the step, which is the program's beside it, too.
  const Outcome plan = RunStowage({"plan", "--onnx", kNet, "--batch", "4",
                                   "--loss", "cross_entropy", "--optimizer",
                                   "sgd", "--recompute", "auto", "--json"});
  const int64_t least = Json::parse(plan.out)["minimum_budget_bytes"];
  const Json tight =
      LastLine(with({"--data", data, "--hold-out", "0.43", "--recompute",
                     "auto", "--budget", StrCat(least)}));
  CHECK(tight["validation_loss"] == end["validation_loss"]);
  CHECK(tight["arena_bytes"] <= least);
  CHECK(tight["arena_bytes"] < end["arena_bytes"]);
}

// y = (x0 + x1 + 1) / 2, twice; losses of its squares and of a mask.
std::string FileOfLosses() {
  onnx::pb::ModelProto model = LinearModel();
  auto* const graph = model.mutable_graph();
  auto* const mask = graph->add_input();
  *mask = graph->input(0);
  mask->set_name("mask");
  auto* const nodes = graph->mutable_node();
  AddNode(nodes, "Mul", {"y", "y"}, "e");
  AddNode(nodes, "Mul", {"e", "mask"}, "counted");
  AddNode(nodes, "ReduceSum", {"counted"}, "above");
  AddNode(nodes, "ReduceSum", {"mask"}, "below");
  AddNode(nodes, "Div", {"above", "below"}, "masked");
  AddNode(nodes, "ReduceSum", {"e"}, "sum");
  AddNode(nodes, "ReduceMax", {"e"}, "largest");
  AddNode(nodes, "ReduceMean", {"e"}, "mean");
  AddNode(nodes, "Sqrt", {"mean"}, "root");
  graph->clear_output();
  for (const char* const name : {"masked", "sum", "largest", "mean", "root"}) {
    graph->add_output()->set_name(name);
  }
  return WrittenFile(model.SerializeAsString());
}

TEST_CASE("what is held out is judged as one batch") {
  constexpr int64_t kExamples = 17, kHeldOut = 12;  // in three batches of four
  std::vector<float> x, mask;
  for (int64_t i = 0; i < kExamples; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      x.push_back(static_cast<float>((i * 7 + j * 3) % 11) / 8 - 0.5f);
      // Nothing counts in the first batch of what is held out.
      const bool counts = i < 5 || i >= 9;
      mask.push_back(counts ? static_cast<float>(i % 3 + j) : 0);
    }
  }
  const auto array = [&](const std::vector<float>& values) {
    const std::vector<double> reals(values.begin(), values.end());
    return ArrayOf(DType::kF32, {kExamples, 2}, reals);
  };
  const auto bytes =
      NpzBytes(std::vector<NamedArray>{{"x", array(x)}, {"mask", array(mask)}});
  REQUIRE(bytes.ok());
  const std::string data = WriteTemp("losses.npz", *bytes);
  double above = 0, below = 0, sum = 0, largest = 0;
  for (size_t i = kExamples - kHeldOut; i < kExamples; ++i) {
    const double y = (x[2 * i] + x[2 * i + 1] + 1) / 2;
    for (size_t j = 0; j < 2; ++j) {
      above += y * y * mask[2 * i + j];
      below += mask[2 * i + j];
      sum += y * y;
      largest = std::max(largest, y * y);
    }
  }
  const std::string net = FileOfLosses();
  const auto run = [&](const std::string& loss) {
    const Outcome outcome = RunStowage(
        {"train", "--onnx",      net,   "--data",     data,       "--loss",
         loss,    "--batch",     "4",   "--steps",    "1",        "--lr",
         "1e-20", "--optimizer", "sgd", "--schedule", "constant", "--shuffle",
         "none",  "--hold-out",  "0.7", "--json",     "--device", "cpu"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    const std::string& out = outcome.out;
    const Json last =
        Json::parse(out.substr(out.rfind('\n', out.size() - 2) + 1));
    return std::pair(last["validation_loss"].get<double>(), outcome.err);
  };
  for (const auto& row :
       {std::pair("masked", above / below), std::pair("sum", sum),
        std::pair("mean", sum / (2 * kHeldOut)),
        std::pair("largest", largest)}) {
    const std::string loss = row.first;
    const double expected = row.second;
    CAPTURE(loss);
    const auto [found, printed] = run(loss);
    CHECK(found == doctest::Approx(expected).epsilon(1e-6));
    CHECK(printed.find("[hold-out]") == std::string::npos);
  }
  // The root of a mean is taken of the whole batch; micro-batches that may change it make
  // the mean of their roots, which is said.
  const std::vector<std::string> cut = {
      "plan", "--onnx",          net, "--loss", "root", "--batch",
      "4",    "--micro-batches", "2"};
  std::vector<std::string> allowed = cut;
  allowed.push_back("--allow-batch-change");
  CHECK(RunStowage(cut).exit_code == 0);
  const Outcome changed = RunStowage(allowed);
  CHECK(changed.exit_code == 0);
  CHECK(
      changed.out.find("taken in parts, the batch gives another \"loss\" (") !=
      std::string::npos);
  // A root of a mean is no mean of roots, which is said.
  const auto [root, note] = run("root");
  CHECK(root != doctest::Approx(std::sqrt(sum / (2 * kHeldOut))).epsilon(1e-6));
  CHECK(note.find("[hold-out] the loss of 12 examples does not follow from "
                  "batches of 4 (") != std::string::npos);
}

TEST_CASE("an array is called as the file calls its input") {
  for (const std::string name : {"step", "labels"}) {
    CAPTURE(name);
    onnx::pb::ModelProto model = LinearModel();
    auto* const graph = model.mutable_graph();
    graph->mutable_input(0)->set_name(name);
    graph->mutable_node(0)->set_input(0, name);
    AddNode(graph->mutable_node(), "ReduceMean", {"y"}, "mean");
    graph->mutable_output(0)->set_name("mean");
    const auto bytes = NpzBytes(std::vector<NamedArray>{
        {name, ArrayOf(DType::kF32, {6, 2}, std::vector<double>(12, 0.5))}});
    REQUIRE(bytes.ok());
    const Outcome outcome = RunStowage(
        {"train", "--onnx", WrittenFile(model.SerializeAsString()), "--data",
         WriteTemp("own.npz", *bytes), "--loss", "mean", "--batch", "2",
         "--steps", "1", "--optimizer", "sgd", "--json", "--device", "cpu"});
    CHECK_MESSAGE(outcome.exit_code == 0, outcome.err);
  }
}

TEST_CASE("what the seed draws is held out") {
  const Examples all;
  const std::string data = Npz("drawn.npz", all.x, all.labels);
  const auto loss = [&](const char* seed) -> double {
    return LastLine({"train", "--onnx", kNet, "--data", data, "--loss",
                     "cross_entropy", "--batch", "4", "--steps", "1", "--lr",
                     "1e-9", "--hold-out", "0.3", "--seed", seed,
                     "--json"})["validation_loss"];
  };
  CHECK(loss("1") == loss("1"));
  CHECK(loss("1") != loss("2"));
}

// A run that goes on with other numbers says so.
TEST_CASE("a resumed run tells what of the file and the examples changed") {
  const Examples all;
  const std::string data = Npz("changed.npz", all.x, all.labels);
  const std::string path = TempPath("changed.ck");
  const auto arguments = [&](const std::string& net,
                             const std::vector<std::string>& more) {
    std::vector<std::string> whole = {
        "train",         "--onnx",  net, "--data", data,   "--loss",
        "cross_entropy", "--batch", "4", "--lr",   "1e-9", "--json"};
    whole.insert(whole.end(), more.begin(), more.end());
    return whole;
  };
  REQUIRE(
      RunStowage(arguments(kNet, {"--steps", "1", "--save", path})).exit_code ==
      0);
  // The same model, but for what its file says of where it comes from.
  onnx::pb::ModelProto model;
  REQUIRE(model.ParseFromString(ReadAll(kNet)));
  model.set_producer_name("another");
  const std::string other = WriteTemp("other.onnx", model.SerializeAsString());
  const Outcome resumed = RunStowage(
      arguments(other, {"--steps", "2", "--resume", path, "--hold-out", "0.3",
                        "--shuffle", "none", "--input-map", "x=x"}));
  INFO(resumed.err);
  CHECK(resumed.exit_code == 0);
  for (const char* const line :
       {"resume: onnx was images_dynamo.onnx (", ", is other.onnx (",
        "resume: hold-out was 0, is 0.3\n",
        "resume: input-map was none, is x=x\n",
        "resume: shuffle was seed, is none\n"}) {
    INFO(line);
    CHECK(resumed.err.find(line) != std::string::npos);
  }
}

// Moves the contents of the file's tensors into a file beside it.
std::string WithTensorsBeside(const std::string& name,
                              const std::string& beside) {
  onnx::pb::ModelProto model;
  REQUIRE(model.ParseFromString(ReadAll(kNet)));
  std::string bytes;
  for (auto& tensor : *model.mutable_graph()->mutable_initializer()) {
    if (!tensor.has_raw_data()) continue;
    for (const auto& [key, value] : std::vector<std::pair<std::string, size_t>>{
             {"offset", bytes.size()}, {"length", tensor.raw_data().size()}}) {
      auto* const entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(StrCat(value));
    }
    auto* const location = tensor.add_external_data();
    location->set_key("location");
    location->set_value(beside);
    bytes += tensor.raw_data();
    tensor.clear_raw_data();
    tensor.set_data_location(onnx::pb::TensorProto::EXTERNAL);
  }
  REQUIRE(bytes.size() > 4);
  WriteTemp(beside, bytes);
  return WriteTemp(name, model.SerializeAsString());
}

TEST_CASE("a resumed run tells that tensors beside the file changed") {
  const std::string net = WithTensorsBeside("parts.onnx", "parts.bin");
  const std::string path = TempPath("parts.ck");
  REQUIRE(RunStowage(Command(net, 1, {"--save", path})).exit_code == 0);
  const Outcome same = RunStowage(Command(net, 2, {"--resume", path}));
  CHECK(same.exit_code == 0);
  CHECK(same.err.find("resume: onnx") == std::string::npos);
  std::string bytes = ReadAll(TempPath("parts.bin"));
  bytes[0] = static_cast<char>(bytes[0] ^ 1);
  WriteTemp("parts.bin", bytes);
  const Outcome changed = RunStowage(Command(net, 2, {"--resume", path}));
  CHECK(changed.err.find("resume: onnx parts.bin was parts.bin (") !=
        std::string::npos);
}

TEST_CASE("tensors beside a file that a checkpoint replaces stay") {
  const std::string net = WithTensorsBeside("whole.onnx", "whole.bin");
  const std::string beside = TempPath("whole.bin"), bytes = ReadAll(beside);
  const std::string path = TempPath("whole.ck");
  REQUIRE(RunStowage(Command(net, 1, {"--save", path})).exit_code == 0);
  const Outcome over = RunStowage(
      {"export-onnx", "--onnx", net, "--checkpoint", path, "-o", beside});
  CHECK(over.exit_code == 2);
  CHECK(over.err.find("whole.bin\"") != std::string::npos);
  CHECK(ReadAll(beside) == bytes);
}

TEST_CASE("a batch that the file fixes is that of what is held out") {
  const std::string net = "tests/goldens/onnx/vit_dynamo.onnx";
  const Examples all;
  const std::string data = Npz("fixed.npz", all.x, all.labels);
  const auto run = [&](const char* fraction) {
    return RunStowage({"train", "--onnx", net, "--data", data, "--loss",
                       "cross_entropy", "--steps", "1", "--lr", "1e-9",
                       "--shuffle", "none", "--hold-out", fraction, "--json"});
  };
  // Six of fourteen: one batch of four.
  const Outcome taken = run("0.43");
  CAPTURE(taken.err);
  REQUIRE(taken.exit_code == 0);
  const std::string& out = taken.out;
  const Json end = Json::parse(out.substr(out.rfind('\n', out.size() - 2) + 1));
  const Judged judged =
      JudgedBy(net, Rows(all.x, 10, 14), Rows(all.labels, 10, 14));
  CHECK(end["validation_loss"].get<double>() ==
        doctest::Approx(judged.loss).epsilon(1e-5));
  const Outcome refused = run("0.2");
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("[hold-out] 0.2 of 14 examples is 3") !=
        std::string::npos);
}

TEST_CASE("a batch is as many examples as there are, up to 32") {
  const auto arena = [](const std::string& data,
                        const std::vector<std::string>& more) -> int64_t {
    std::vector<std::string> arguments = {
        "train",  "--onnx",        kNet,      "--data", data,
        "--loss", "cross_entropy", "--steps", "1",      "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = RunStowage(arguments);
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return Json::parse(
        outcome.out.substr(0, outcome.out.find('\n')))["arena_bytes"];
  };
  CHECK(arena(kData, {}) == arena(kData, {"--batch", "4"}));
  const std::string many = DataOf(10);
  const int64_t usual = arena(many, {});
  CHECK(usual == arena(many, {"--batch", "32"}));
  CHECK(usual > arena(many, {"--batch", "31"}));
  // Labels come in micro-batches as the batch does.
  CHECK(arena(kData, {"--micro-batches", "2", "--allow-batch-change"}) <
        arena(kData, {}));
}

TEST_CASE("frozen params have no states") {
  const auto state = [](const std::vector<std::string>& more) -> int64_t {
    std::vector<std::string> arguments = {
        "plan",   "--onnx",        kNet,          "--batch", "4",
        "--loss", "cross_entropy", "--optimizer", "adamw",   "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = RunStowage(arguments);
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return Json::parse(outcome.out)["regions"]["state"];
  };
  const int64_t all = state({});
  const int64_t some = state({"--freeze", "*.weight"});
  CHECK(some < all);
  CHECK(state({"--freeze", "*.weight", "--freeze", "stem.*"}) < some);
  // Beside adapters all is frozen.
  const int64_t adapters =
      state({"--lora-rank", "1", "--lora-targets", "head.weight"});
  CHECK(adapters > 0);
  CHECK(adapters < some);
}

TEST_CASE("dropout draws by the seed") {
  auto model = LinearModel();
  AddNode(model.mutable_graph()->mutable_node(), "Dropout", {"y"}, "z");
  model.mutable_graph()->mutable_output(0)->set_name("z");
  const std::string net = WriteTemp("dropout.onnx", model.SerializeAsString());
  const Array ones{{DType::kF32, {64, 2}}, FloatBytes(128, 1.0f)};
  const auto bytes =
      NpzBytes(std::vector<NamedArray>{{"x", ones}, {"labels", ones}});
  REQUIRE(bytes.ok());
  const std::string data = WriteTemp("ones.npz", *bytes);
  const auto losses = [&](const char* seed) {
    return Losses({"train", "--onnx", net, "--data", data, "--loss", "mse",
                   "--batch", "64", "--shuffle", "none", "--steps", "2",
                   "--seed", seed, "--json"});
  };
  CHECK(losses("1") == losses("1"));
  CHECK(losses("1") != losses("2"));
}

TEST_CASE("what a run of an ONNX file lacks is told") {
  struct Row {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::vector<Row> rows = {
      {{"train", "--data", kData},
       "[train] there is no model; give --model or"},
      {{"train", "--model", "mlp", "--onnx", kNet, "--data", kData},
       "[train] both --model and --onnx are given"},
      {{"train", "--onnx", kNet, "--data", kData},
       "[train] what the file's model is trained for is not told; give --loss"},
      {{"train", "--model", "mlp", "--data", kData, "--save-onnx", "x.onnx"},
       "--save-onnx applies where --onnx is given"},
      {Command(kNet, 1, {"--input-map", "x=y"}),
       "[data] --input-map \"x=y\" is not INPUT=ARRAY with an array of"},
      {Command(kNet, 1, {"--input-map", "q=x"}),
       "[data] no array is called \"x\", as the input f32(4, 3, 16, 16) of the "
       "step is; there are"},
      {Command(kNet, 1, {"--input-map", "x=x", "--input-map", "labels=x"}),
       "[data] --input-map \"labels=x\" names an input or an array a second "
       "time"},
      {Command(kNet, 1, {"--batch", "5"}),
       "[data] the array \"x\" has 4 examples, the input f32(5, 3, 16, 16), "
       "for "
       "batches of 5"},
      {{"plan", "--onnx", kNet, "--batch", "4", "--train"},
       "[plan] what the training step is for is not told; give --loss"},
      {{"plan", "--graph", "any", "--train"},
       "[plan] a graph is planned as it is; leave --train away"},
      {Command(kNet, 1, {"--hold-out", "1"}),
       "[hold-out] 1 is no fraction from 0 up to 1"},
      {Command(kNet, 1, {"--hold-out", "-0.1"}),
       "[hold-out] -0.1 is no fraction from 0 up to 1"},
      {Command(kNet, 1, {"--hold-out", "0.1", "--batch", "3"}),
       "[hold-out] 0.1 of 4 examples is 0, which leaves 4 to train on"},
      {Command(kNet, 1, {"--hold-out", "0.5", "--batch", "3"}),
       "[hold-out] 0.5 of 4 examples is 2, which leaves 2 to train on in "
       "batches of 3"},
      {{"train", "--model", "mlp", "--data", kData, "--hold-out", "0.1"},
       "--hold-out applies where --onnx is given"},
      {Command(kNet, 1, {"--metrics", "accuracy"}),
       "[metrics] nothing is held out to count accuracy on; give --hold-out"},
      {Command(kNet, 1, {"--dim", "batch"}), "[dim] \"batch\" is not NAME=N"},
      {Command(kNet, 1, {"--dim", "batch=0"}),
       "[dim] \"0\" is no size of at least 1"},
      {Command("tests/goldens/onnx/vit_dynamo.onnx", 1, {"--batch", "2"}),
       "[onnx] a batch of 2 contradicts the first dimension of input \"x\", 4"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.message);
    const Outcome outcome = RunStowage(row.arguments);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find(row.message) != std::string::npos);
  }
}

TEST_CASE("the ops of an ONNX file's step are timed, for plans of it") {
  const std::string times = TempPath("images.times");
  const Outcome timed = RunStowage(
      {"time", "--onnx", kNet, "--data", kData, "--loss", "cross_entropy",
       "--optimizer", "sgd", "--batch", "4", "--device", "cpu", "--threads",
       "1", "--steps", "1", "-o", times});
  INFO(timed.err);
  REQUIRE(timed.exit_code == 0);
  CHECK(timed.err.find("medians of 1 steps on cpu") != std::string::npos);
  CHECK(ReadAll(times).find(" conv(") != std::string::npos);
  const Outcome plan = RunStowage(
      {"plan", "--onnx", kNet, "--batch", "4", "--loss", "cross_entropy",
       "--optimizer", "sgd", "--threads", "1", "--op-times", times, "--json"});
  REQUIRE(plan.exit_code == 0);
  CHECK(Json::parse(plan.out)["estimated_op_times"] == 0);

  const Outcome neither = RunStowage({"time", "--data", kData});
  CHECK(neither.exit_code == 2);
  CHECK(neither.err.find("[time] there is no model; give --model or --onnx") !=
        std::string::npos);
  const Outcome both =
      RunStowage({"time", "--model", "mlp", "--onnx", kNet, "--data", kData});
  CHECK(both.exit_code == 2);
  CHECK(both.err.find("[time] both --model and --onnx are given") !=
        std::string::npos);
}

TEST_CASE("names of a file's values move no cursor") {
  auto model = LinearModel();
  const std::string evil = "w\x1b[31m\x1b]0;title\x07";
  model.mutable_graph()->mutable_initializer(0)->set_name(evil);
  model.mutable_graph()->mutable_node(0)->set_input(1, evil);
  const std::string net = WriteTemp("evil.onnx", model.SerializeAsString());
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--budget", "100"}, {"--json"}}) {
    std::vector<std::string> plan = {"plan",    "--onnx", net,  "--dim",
                                     "batch=3", "--loss", "mse"};
    plan.insert(plan.end(), more.begin(), more.end());
    const Outcome outcome = RunStowage(plan);
    CHECK(outcome.exit_code == (more.empty() || more[0] == "--json" ? 0 : 1));
    const std::string printed = outcome.out + outcome.err;
    CHECK(std::ranges::none_of(printed, [](char c) {
      return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
    }));
  }
}

// The weights beside an ONNX file are named by that file, by no option.
TEST_CASE("tensors beside a file are never written over") {
  auto model = LinearModel();
  auto* const w = model.mutable_graph()->mutable_initializer(0);
  const std::string bytes = FloatBytes(4, 0.5f);
  const std::string beside = WriteTemp("beside.bin", bytes);
  w->clear_float_data();
  w->clear_raw_data();
  w->set_data_location(onnx::pb::TensorProto::EXTERNAL);
  auto* const place = w->add_external_data();
  place->set_key("location");
  place->set_value("beside.bin");
  const std::string net = WriteTemp("beside.onnx", model.SerializeAsString());
  const std::vector<std::string> plan = {"plan", "--onnx", net, "--dim",
                                         "batch=3"};
  REQUIRE(RunStowage(plan).exit_code == 0);
  for (const char* const option : {"-o", "--svg", "--html"}) {
    CAPTURE(option);
    std::vector<std::string> over = plan;
    over.insert(over.end(), {option, beside});
    const Outcome outcome = RunStowage(over);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find("beside.bin\", which it would write over") !=
          std::string::npos);
    CHECK(ReadAll(beside) == bytes);
  }
  const auto array = [](DType dtype, const Shape& shape) {
    return ArrayOf(
        dtype, shape,
        std::vector<int64_t>(static_cast<size_t>(shape.num_elements()), 1));
  };
  const Array reals =
      ArrayOf(DType::kF32, {6, 2}, std::vector<double>(12, 0.5));
  const auto npz = NpzBytes(std::vector<NamedArray>{
      {"x", reals}, {"labels", array(DType::kI64, {6})}});
  REQUIRE(npz.ok());
  for (const char* const option :
       {"--save", "--save-weights", "--save-onnx", "--svg", "--html"}) {
    CAPTURE(option);
    const Outcome outcome = RunStowage(
        {"train", "--onnx", net, "--data", WriteTemp("ones.npz", *npz),
         "--loss", "cross_entropy", "--steps", "1", option, beside});
    CHECK(outcome.exit_code == 2);
    CHECK_MESSAGE(outcome.err.find("beside.bin\"") != std::string::npos,
                  outcome.err);
    CHECK(ReadAll(beside) == bytes);
  }
}

}  // namespace
}  // namespace stowage::testing
