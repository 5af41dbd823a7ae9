// Training a model of an ONNX file by the command.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "formats/array.h"
#include "formats/npz.h"
#include "ir/dtype.h"
#include "tests/onnx/linear_model.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;

constexpr char kNet[] = "tests/goldens/onnx/pictures_dynamo.onnx";
constexpr char kData[] = "tests/goldens/onnx/pictures.npz";

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
      // Where a sanitizer has the allocator, nobody counts.
      const Json& allocations = json["heap_allocations_in_steps"];
      CHECK((allocations.is_null() || allocations == 0));
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
  const Outcome plan = RunStowage({"plan", "--onnx", kNet, "--batch", "4",
                                   "--loss", "cross_entropy", "--optimizer",
                                   "sgd", "--recompute", "auto", "--json"});
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
  // All but the weights is as it was.
  CHECK(ReadAll(saved).size() == ReadAll(kNet).size());
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
  // Labels come in pieces as the batch does.
  CHECK(arena(kData, {"--micro-batches", "2", "--allow-batch-statistics"}) <
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
      {{"train", "--data", kData}, "[train] nothing to train; give --model or"},
      {{"train", "--model", "mlp", "--onnx", kNet, "--data", kData},
       "[train] both --model and --onnx are given"},
      {{"train", "--onnx", kNet, "--data", kData},
       "[train] what the file's model is trained for is not told; give --loss"},
      {{"train", "--model", "mlp", "--data", kData, "--save-onnx", "x.onnx"},
       "[train] --save-onnx writes an ONNX file again; give it with --onnx"},
      {Command(kNet, 1, {"--input-map", "x=y"}),
       "[data] --input-map \"x=y\" is not INPUT=ARRAY with an array of"},
      {Command(kNet, 1, {"--input-map", "q=x"}),
       "[data] no array is called \"x\", as the input f32(4, 3, 16, 16) of the "
       "step is; there are"},
      {Command(kNet, 1, {"--batch", "5"}),
       "[data] the array \"x\" has 4 examples, the input f32(5, 3, 16, 16), "
       "for "
       "batches of 5"},
      {Command(kNet, 1, {"--dim", "batch"}), "[dim] \"batch\" is not NAME=N"},
      {Command(kNet, 1, {"--dim", "batch=0"}),
       "[dim] \"0\" is no size of at least 1"},
      {Command("tests/goldens/onnx/vit_dynamo.onnx", 1, {"--batch", "2"}),
       "[onnx] --batch 2 contradicts the first dimension of input \"x\", 4"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.message);
    const Outcome outcome = RunStowage(row.arguments);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find(row.message) != std::string::npos);
  }
}

}  // namespace
}  // namespace stowage::testing
