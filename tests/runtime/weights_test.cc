#include "runtime/weights.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "formats/array.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "runtime/checkpoint.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

using testing::ReadAll;

std::string TemporaryPath(std::string_view name) {
  const char* const folder = std::getenv("TEST_TMPDIR");
  return StrCat(folder == nullptr ? "/tmp" : folder, "/", name);
}

// A tensor for a file: its type, and its elements' bits.
struct Tensor {
  std::string name;
  TensorType type;
  std::string bytes;
};

template <typename T>
Tensor Make(std::string name, DType dtype, Shape shape,
            const std::vector<T>& elements) {
  return {std::move(name),
          {dtype, shape},
          {reinterpret_cast<const char*>(elements.data()),
           elements.size() * sizeof(T)}};
}

Tensor F32(std::string name, Shape shape, const std::vector<float>& elements) {
  return Make(std::move(name), DType::kF32, shape, elements);
}

// Writes them to a file and returns its path.
std::string Write(const std::vector<Tensor>& tensors,
                  std::string_view name = "weights.safetensors") {
  SafetensorsHeader header;
  std::string data;
  for (const Tensor& tensor : tensors) {
    const auto begin = static_cast<Bytes>(data.size());
    data += tensor.bytes;
    header.tensors.push_back(
        {tensor.name, tensor.type, begin, static_cast<Bytes>(data.size())});
  }
  const std::string text = FormatSafetensorsHeader(header);
  std::string file(8, '\0');
  const uint64_t length = text.size();
  std::memcpy(file.data(), &length, 8);
  const std::string path = TemporaryPath(name);
  std::ofstream(path, std::ios::binary) << file << text << data;
  return path;
}

// Params "a" (2, 3) and "b" (2), of a type.
class Model {
 public:
  explicit Model(DType dtype = DType::kF32, bool trains = false)
      : session_(Open(dtype, trains, *cpu_)) {
    session_.Initialize(1);
  }
  Runner& runner() { return session_.front(); }
  template <typename T = float>
  std::vector<T> Get(const char* name, DType dtype = DType::kF32) {
    const TensorType type =
        runner().graph().value(*runner().graph().Find(name)).type;
    std::vector<T> values(static_cast<size_t>(type.shape.num_elements()));
    REQUIRE(
        runner()
            .ReadBytes(name, dtype, std::as_writable_bytes(std::span(values)))
            .ok());
    return values;
  }
  Error Refusal(const std::string& path, const WeightRules& rules = {}) {
    const auto loaded = LoadWeights(runner(), path, rules);
    REQUIRE_FALSE(loaded.ok());
    return loaded.error();
  }

 private:
  static Session Open(DType dtype, bool trains, Backend& backend) {
    GraphBuilder g("model");
    const Value a = g.Param("a", dtype, {2, 3}, Init::Ones());
    const Value b = g.Param("b", dtype, {2}, Init::Ones());
    const Value sum =
        Add(ReduceSum(Cast(a, DType::kF32)), ReduceSum(Cast(b, DType::kF32)));
    g.Output("loss", sum);
    Graph graph = *g.Finish();
    if (trains) graph = *BuildTrainStep(graph, "loss");
    auto session = Session::Create(
        {{"p", graph, *PlanMemory(graph, {.device = backend.Needs()})}},
        backend);
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    return std::move(*session);
  }
  std::unique_ptr<Backend> cpu_ = MakeCpuBackend({.threads = 1});
  Session session_;
};

const std::vector<float> kA = {1, 2, 3, 4, 5, 6};
const std::vector<float> kB = {7, 8};

TEST_CASE("tensors go to params by name, in whatever order") {
  const std::string path = Write({F32("b", {2}, kB), F32("a", {2, 3}, kA)});
  Model model;
  const auto loaded = LoadWeights(model.runner(), path);
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  CHECK(loaded->loaded == 2);
  CHECK(model.Get("a") == kA);
  CHECK(model.Get("b") == kB);
}

TEST_CASE("a graph's weights are read as a program has them") {
  const std::string path =
      Write({F32("B", {2}, kB), F32("a", {3, 2}, {1, 4, 2, 5, 3, 6})});
  const WeightRules rules{.rename = {{"B", "b"}}, .transpose = {"a"}};
  Model model;
  REQUIRE(LoadWeights(model.runner(), path, rules).ok());
  std::map<std::string, std::vector<float>> read;
  const auto take = [&](const ValueInfo& param,
                        std::span<const std::byte> bytes) -> Status {
    std::vector<float>& to = read[param.name];
    to.resize(bytes.size() / sizeof(float));
    std::memcpy(to.data(), bytes.data(), bytes.size());
    return {};
  };
  const auto loaded = ReadWeights(model.runner().graph(), path, rules, take);
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  CHECK(loaded->loaded == 2);
  CHECK(read ==
        std::map<std::string, std::vector<float>>{{"a", kA}, {"b", kB}});
  CHECK(read["a"] == model.Get("a"));
  // The first error of the caller ends it.
  const auto stopped =
      ReadWeights(model.runner().graph(), path, rules,
                  [](const ValueInfo& param, std::span<const std::byte>) {
                    return InvalidArgumentError("no room for ", param.name);
                  });
  REQUIRE(!stopped.ok());
  CHECK(stopped.error().message == "no room for a");
}

TEST_CASE("rules rename, one after the other") {
  const std::string path =
      Write({F32("net.0.a_", {2, 3}, kA), F32("net.1.b_", {2}, kB)});
  Model model;
  const auto loaded = LoadWeights(
      model.runner(), path, {.rename = {{"net.*.*", "*/*"}, {"?/*_", "*"}}});
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  CHECK(model.Get("a") == kA);
  CHECK(model.Get("b") == kB);
  CHECK(model.Refusal(path, {.rename = {{"net.*", "a"}}}).message ==
        StrCat("[weights] ", Quoted(path),
               " has \"net.0.a_\" and \"net.1.b_\", which the rules both call "
               "\"a\""));
  CHECK(model.Refusal(path, {.rename = {{"a", "b*"}}})
            .message.find("there are more * after the = than before it") !=
        std::string::npos);
  for (const char* bad : {"ab", "=b", "a=", ""}) {
    CHECK_FALSE(ParseRenameRule(bad).ok());
  }
  CHECK(ParseRenameRule("a*=b*")->to == "b*");
}

TEST_CASE("missing and extra tensors are named, unless they are allowed") {
  Model model;
  const std::string lacks = Write({F32("a", {2, 3}, kA)}, "lacks");
  CHECK(
      model.Refusal(lacks).message ==
      StrCat("[weights] ", Quoted(lacks),
             " lacks 1 of 2 params: \"b\"; rename what is called otherwise, or "
             "allow params to be missing and tensors to be unused"));
  const auto base =
      LoadWeights(model.runner(), lacks, {.allow_missing = {"b*"}});
  REQUIRE_MESSAGE(base.ok(), base.error().message);
  CHECK(base->missing == std::vector<std::string>{"b"});
  CHECK(model.Get("a") == kA);
  CHECK(model.Get("b") == std::vector<float>{1, 1});  // as initialized

  const std::string extra = Write(
      {F32("a", {2, 3}, kA), F32("b", {2}, kB), F32("c", {1}, {9})}, "extra");
  CHECK(
      model.Refusal(extra).message ==
      StrCat("[weights] ", Quoted(extra),
             " has 1 tensors that no param takes: \"c\"; rename what is called "
             "otherwise, or allow params to be missing and tensors to be "
             "unused"));
  const auto more = LoadWeights(model.runner(), extra, {.allow_unused = {"c"}});
  REQUIRE(more.ok());
  CHECK(more->unused == std::vector<std::string>{"c"});
  CHECK(model.Get("b") == kB);

  CHECK(model
            .Refusal(lacks, {.rename = {{"a", "z"}},
                             .allow_missing = {"*"},
                             .allow_unused = {"*"}})
            .message.find("has no tensor for any of the 2 params of program "
                          "\"p\"") != std::string::npos);
}

TEST_CASE("a rule that matches nothing is refused by name") {
  Model model;
  const std::string path = Write({F32("a", {2, 3}, kA), F32("b", {2}, kB)});
  const auto message = [&](const WeightRules& rules) {
    return model.Refusal(path, rules).message;
  };
  CHECK(message({.rename = {{"net.*", "*"}}}) ==
        StrCat("[weights] ", Quoted(path),
               " has no tensor that the rule \"net.*=*\" renames, each rule in "
               "turn; it has \"a\", \"b\""));
  // A rule sees what the rules before it made.
  CHECK(message({.rename = {{"a", "c"}, {"a", "d"}}}).find("\"a=d\"") !=
        std::string::npos);
  CHECK(message({.transpose = {"wieght"}}) ==
        StrCat("[weights] ", Quoted(path),
               " is read by a rule that transposes \"wieght\", which matches "
               "none of the 1 matrices of the program: \"a\""));
  CHECK(message({.transpose = {"b"}}).find("transposes \"b\"") !=
        std::string::npos);
  CHECK(message({.allow_missing = {"b", "c*"}})
            .find("allows to lack \"c*\", which matches none of the 2 params "
                  "of the program: \"a\", \"b\"") != std::string::npos);
  CHECK(message({.allow_unused = {"c"}})
            .find("allows to leave \"c\", which matches none of the 2 tensors "
                  "of the file") != std::string::npos);
  CHECK(model.Get("a") == std::vector<float>(6, 1));
}

TEST_CASE("a matrix that fits only transposed wants a rule that says so") {
  Model model;
  const std::string path =
      Write({F32("a", {3, 2}, {1, 4, 2, 5, 3, 6}), F32("b", {2}, kB)});
  CHECK(model.Refusal(path).message ==
        StrCat("[weights] ", Quoted(path),
               " has \"a\" as f32(3, 2), the param \"a\" is f32(2, 3): it fits "
               "only transposed; if the file has it so, give a rule that "
               "transposes \"a\""));
  CHECK(model.Get("a") == std::vector<float>(6, 1));
  // What is no matrix is left as it is.
  REQUIRE(LoadWeights(model.runner(), path, {.transpose = {"*"}}).ok());
  CHECK(model.Get("a") == kA);
  CHECK(model.Get("b") == kB);

  const std::string straight = Write({F32("a", {2, 3}, kA), F32("b", {2}, kB)});
  CHECK(model.Refusal(straight, {.transpose = {"a"}})
            .message.find("and a rule transposes it, though it fits as it is; "
                          "take that rule away") != std::string::npos);
}

TEST_CASE("other shapes are refused, and nothing is written") {
  Model model;
  const std::string flat = Write({F32("a", {6}, kA), F32("b", {2}, kB)});
  CHECK(model.Refusal(flat).message ==
        StrCat("[weights] ", Quoted(flat),
               " has \"a\" as f32(6), the param \"a\" is f32(2, 3); the shapes "
               "must be equal"));
  const std::string longer =
      Write({F32("a", {2, 3}, kA), F32("b", {3}, {7, 8, 9})});
  CHECK(model.Refusal(longer).message.find(
            "has \"b\" as f32(3), the param \"b\" is f32(2)") !=
        std::string::npos);
  CHECK(model.Get("a") == std::vector<float>(6, 1));
}

TEST_CASE(
    "floats of any size are cast, rounded once; other types are refused") {
  // 1 + 2^-8 lies between two bf16, 1 and 1 + 2^-7: to even. In double, a bit more
  // than the tie goes up, though f32 would not see it.
  const std::vector<double> doubles = {
      1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-40, -2, 0, 0x1p-20, 65504};
  const std::vector<uint16_t> halves = {0x3C00, 0xC000};  // 1, -2 as f16
  const std::string path = Write({Make("a", DType::kF64, {2, 3}, doubles),
                                  Make("b", DType::kF16, {2}, halves)});
  Model f32;
  REQUIRE(LoadWeights(f32.runner(), path).ok());
  CHECK(f32.Get("a") ==
        std::vector<float>{1 + 0x1p-8f, 1 + 0x1p-8f, -2, 0, 0x1p-20f, 65504});
  CHECK(f32.Get("b") == std::vector<float>{1, -2});
  Model bf16(DType::kBF16);
  REQUIRE(LoadWeights(bf16.runner(), path).ok());
  CHECK(bf16.Get<uint16_t>("a", DType::kBF16) ==
        std::vector<uint16_t>{0x3F80, 0x3F81, 0xC000, 0, 0x3580, 0x4780});
  const std::vector<uint16_t> brains = {0x3F80, 0x4000};
  const std::string brain =
      Write({F32("a", {2, 3}, kA), Make("b", DType::kBF16, {2}, brains)});
  REQUIRE(LoadWeights(f32.runner(), brain).ok());
  CHECK(f32.Get("b") == std::vector<float>{1, 2});

  const std::string integers = Write(
      {F32("a", {2, 3}, kA), Make<int32_t>("b", DType::kI32, {2}, {7, 8})});
  CHECK(
      f32.Refusal(integers).message ==
      StrCat("[weights] ", Quoted(integers),
             " has \"b\" as i32(2), the param \"b\" is f32(2); only floats are "
             "cast, to floats of another size"));
}

TEST_CASE(
    "what has no type here is in the way only of a param that it is for") {
  const std::vector<uint8_t> bytes = {1, 2};
  const std::string path = Write({F32("a", {2, 3}, kA), F32("b", {2}, kB),
                                  Make("scale", DType::kU8, {1, 2}, bytes)});
  std::string file = ReadAll(path);
  file.replace(file.find("\"U8\""), 4, "\"I8\"");
  std::ofstream(path, std::ios::binary) << file;
  Model model;
  CHECK(model.Refusal(path).message.find(
            " has 1 tensors that no param takes: \"scale\"; ") !=
        std::string::npos);
  const auto loaded =
      LoadWeights(model.runner(), path, {.allow_unused = {"scale"}});
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  CHECK(loaded->unused == std::vector<std::string>{"scale"});
  CHECK(model.Get("a") == kA);
  CHECK(model.Get("b") == kB);

  Model other;
  CHECK(other
            .Refusal(path, {.rename = {{"b", "c"}, {"scale", "b"}},
                            .allow_unused = {"b"}})
            .message ==
        StrCat("[weights] ", Quoted(path),
               " has \"scale\" as I8(1, 2), which is no type here; the param "
               "\"b\" is f32(2)"));
  CHECK(other.Get("a") == std::vector<float>(6, 1));
}

TEST_CASE("values that are no numbers, or become none, are refused") {
  Model model;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Error error = model.Refusal(
      Write({F32("a", {2, 3}, {1, 2, 3, 4, nan, 6}), F32("b", {2}, kB)}));
  CHECK(error.code == ErrorCode::kInvalidArgument);
  CHECK(error.message.find("has nan at element 4 of \"a\"") !=
        std::string::npos);
  const Error large = model.Refusal(
      Write({Make<double>("a", DType::kF64, {2, 3}, {1, 2, 1e300, 4, 5, 6}),
             F32("b", {2}, kB)}));
  CHECK(large.code == ErrorCode::kInvalidArgument);
  CHECK(large.message.find("of \"a\", f64(2, 3), that f32 cannot hold: it is "
                           "inf as element 2 of the param") !=
        std::string::npos);
}

TEST_CASE("weights are saved for others, and a checkpoint's are taken") {
  Model trained(DType::kF32, /*trains=*/true);
  REQUIRE(trained.runner().Write("a", kA).ok());
  REQUIRE(trained.runner().Write("b", kB).ok());
  const std::string weights = TemporaryPath("alone.safetensors");
  const std::string checkpoint = TemporaryPath("with_states.safetensors");
  REQUIRE(SaveWeights(trained.runner(), weights).ok());
  REQUIRE(SaveCheckpoint(trained.runner(), checkpoint, 3).ok());
  for (const std::string& path : {weights, checkpoint}) {
    Model model;
    const auto loaded = LoadWeights(model.runner(), path);
    REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
    CHECK(loaded->loaded == 2);
    CHECK(model.Get("a") == kA);
  }
  // No more than its tensors and what PyTorch's readers ask for.
  const std::string file = ReadAll(weights);
  CHECK(file.find(
            "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":"
            "\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"b\":{"
            "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}}") == 8);
  Model other;
  CHECK(other.Refusal(TemporaryPath("none")).code == ErrorCode::kNotFound);
  // Of a checkpoint each bit is known.
  std::string bytes = ReadAll(checkpoint);
  bytes.back() ^= 1;
  std::ofstream(checkpoint, std::ios::binary) << bytes;
  CHECK(other.Refusal(checkpoint).message.find("is damaged") !=
        std::string::npos);
  CHECK(other.Get("a") == std::vector<float>(6, 1));
}

// --- States that the model keeps itself ---

// A param "w" (2), and a state "mean" (2) that the forward part writes or reads.
Result<Graph> Keeping(bool trains) {
  GraphBuilder g("keeping");
  const Value x = g.Input("x", DType::kF32, {2});
  const Value w = g.Param("w", DType::kF32, {2}, Init::Ones());
  const Value mean = g.State("mean", DType::kF32, {2});
  g.Output("loss", ReduceSum(Mul(w, Sub(x, mean))));
  if (!trains) return g.Finish();
  LerpUpdate(mean, x, Fill(g, 0.5, DType::kF32, {}));
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, g.Finish());
  return BuildTrainStep(graph, "loss", {.optimizer = Momentum{}});
}

Session Open(const Graph& graph, Backend& backend) {
  auto session = Session::Create(
      {{"p", graph, *PlanMemory(graph, {.device = backend.Needs()})}}, backend);
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  session->Initialize(1);
  return std::move(*session);
}

std::vector<float> Pair(Runner& runner, std::string_view name) {
  std::vector<float> values(2);
  REQUIRE(runner.Read(name, &values).ok());
  return values;
}

TEST_CASE("an NPZ file gives weights by the same rules") {
  // "b" in f64, "a" transposed.
  const auto array = [](std::string name, const Tensor& tensor) {
    return NamedArray{std::move(name), {tensor.type, tensor.bytes}};
  };
  const NamedArray arrays[] = {
      array("b", Make<double>("", DType::kF64, {2}, {7, 8})),
      array("a.T", F32("", {3, 2}, {1, 4, 2, 5, 3, 6}))};
  const std::string path = TemporaryPath("weights.npz");
  std::ofstream(path, std::ios::binary) << *NpzBytes(arrays);
  Model model;
  const auto loaded = LoadWeights(
      model.runner(), path, {.rename = {{"*.T", "*"}}, .transpose = {"a"}});
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  CHECK(loaded->loaded == 2);
  CHECK(model.Get("a") == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(model.Get("b") == std::vector<float>{7, 8});

  const auto refused = LoadWeights(model.runner(), path);
  REQUIRE(!refused.ok());
  CHECK(refused.error().message.find("weights.npz\" lacks 1 of 2 params") !=
        std::string::npos);
  std::filesystem::resize_file(path, 40);
  const auto cut = LoadWeights(model.runner(), path);
  REQUIRE(!cut.ok());
  CHECK(cut.error().code == ErrorCode::kInvalidArgument);
  CHECK(cut.error().message.find("[npz]") == 0);
}

TEST_CASE("weights are saved as NPZ where the path says so") {
  const std::string path = TemporaryPath("saved.npz");
  Model model;
  const Status saved = SaveWeights(model.runner(), path);
  REQUIRE_MESSAGE(saved.ok(), saved.error().message);
  const auto arrays = ParseNpz(ReadAll(path), path);
  REQUIRE_MESSAGE(arrays.ok(), arrays.error().message);
  REQUIRE(arrays->size() == 2);
  for (const NamedArray& array : *arrays) {
    CHECK(ValuesOf<float>(array.array) == model.Get(array.name.c_str()));
  }
  // NumPy has no bf16; what is there already stays.
  Model narrow(DType::kBF16);
  const Status refused = SaveWeights(narrow.runner(), path);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kUnsupported);
  CHECK(ParseNpz(ReadAll(path), path).ok());
}

TEST_CASE("what a model keeps goes into its weights, an optimizer's does not") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  Session trained = Open(*Keeping(/*trains=*/true), *cpu);
  Runner& step = trained.front();
  REQUIRE(step.Write("x", std::vector<float>{4, -6}).ok());
  REQUIRE(step.Write("lr", 0.25f).ok());
  REQUIRE(step.Write("step", int64_t{1}).ok());
  REQUIRE(step.Step() == StepCode::kOk);
  const std::vector<float> mean = {2, -3}, w = Pair(step, "w");
  CHECK(Pair(step, "mean") == mean);

  const std::string weights = TemporaryPath("kept.safetensors");
  const std::string checkpoint = TemporaryPath("kept_all.safetensors");
  REQUIRE(SaveWeights(step, weights).ok());
  REQUIRE(SaveCheckpoint(step, checkpoint, 1).ok());
  CHECK(ReadAll(weights).find("\"mean\"") != std::string::npos);
  CHECK(ReadAll(weights).find("velocity") == std::string::npos);
  CHECK(ReadAll(checkpoint).find("velocity") != std::string::npos);

  // By name from either file, and as a checkpoint of what trained.
  for (const std::string& path : {weights, checkpoint}) {
    Session evaluation = Open(*Keeping(/*trains=*/false), *cpu);
    const auto loaded = LoadWeights(evaluation.front(), path);
    REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
    CHECK(loaded->loaded == 2);
    CHECK(Pair(evaluation.front(), "mean") == mean);
    CHECK(Pair(evaluation.front(), "w") == w);
  }
  Session evaluation = Open(*Keeping(/*trains=*/false), *cpu);
  const auto from = LoadCheckpoint(evaluation.front(), checkpoint);
  REQUIRE_MESSAGE(from.ok(), from.error().message);
  CHECK(Pair(evaluation.front(), "mean") == mean);
  // To go on, though, weights alone leave the optimizer's state as it was.
  Session anew = Open(*Keeping(/*trains=*/true), *cpu);
  REQUIRE(LoadWeights(anew.front(), weights).ok());
  CHECK(Pair(anew.front(), "mean") == mean);
  CHECK(Pair(anew.front(), "w.velocity") == std::vector<float>{0, 0});
}

TEST_CASE("what a model keeps is missed like a param") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  Session evaluation = Open(*Keeping(/*trains=*/false), *cpu);
  const std::string lacks = Write({F32("w", {2}, {1, 2})});
  const auto refused = LoadWeights(evaluation.front(), lacks);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("lacks 1 of 2 params: \"mean\"") !=
        std::string::npos);
  REQUIRE(
      LoadWeights(evaluation.front(), lacks, {.allow_missing = {"mean"}}).ok());
  CHECK(Pair(evaluation.front(), "mean") == std::vector<float>{0, 0});
}

}  // namespace
}  // namespace stowage
