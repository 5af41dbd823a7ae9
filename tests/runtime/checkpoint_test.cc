#include "runtime/checkpoint.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan_memory.h"
#include "runtime/safetensors.h"
#include "tests/support/random_graph.h"

namespace stowage {
namespace {

using fit::FindOffloadable;
using fit::Offload;

std::string TemporaryPath(std::string_view name) {
  const char* const folder = std::getenv("TEST_TMPDIR");
  return StrCat(folder == nullptr ? "/tmp" : folder, "/", name);
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void WriteAll(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

Graph Model(int64_t hidden, std::string_view second = "w2") {
  GraphBuilder g("model");
  Value x = g.Input("x", DType::kF32, {4, 3});
  Value y = g.Input("labels", DType::kI32, {4});
  Value w1 = g.Param("w1", DType::kF32, {3, hidden}, Init::Normal(1));
  Value w2 = g.Param(second, DType::kF32, {hidden, 7}, Init::Normal(1));
  g.Output("loss", CrossEntropy(MatMul(Tanh(MatMul(x, w1)), w2), y));
  return *g.Finish();
}

struct Trained {
  std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 1});
  Session session;

  explicit Trained(const Graph& graph) : session(Open(graph, *cpu)) {
    session.Initialize(5);
  }
  static Session Open(const Graph& graph, Backend& backend) {
    auto plan = PlanMemory(graph, {.device = backend.Needs()});
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    auto session = Session::Create({{"train", graph, *plan}}, backend);
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    return std::move(*session);
  }
  void Step(int64_t from, int64_t to) {
    for (int64_t step = from; step <= to; ++step) {
      testing::WriteRandomInputs(session.front(), 1, step);
      REQUIRE(session.front().Step() == StepCode::kOk);
    }
  }
  std::vector<std::byte> Bytes(const std::string& name) {
    const Runner& runner = session.front();
    const TensorType type =
        runner.graph().value(*runner.graph().Find(name)).type;
    std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
    REQUIRE(runner.ReadBytes(name, type.dtype, bytes).ok());
    return bytes;
  }
};

constexpr const char* kPersistent[] = {"w1",   "w2",   "w1.m",
                                       "w1.v", "w2.m", "w2.v"};

TEST_CASE("a resumed run ends, bit for bit, where an uninterrupted one ends") {
  const Graph step = *BuildTrainStep(Model(5), "loss");
  const std::string path = TemporaryPath("resume.safetensors");
  Trained whole(step);
  whole.Step(1, 20);

  Trained first(step);
  first.Step(1, 11);
  REQUIRE(SaveCheckpoint(first.session.front(), path, 11).ok());
  Trained second(step);
  second.session.Initialize(99);  // another start, which loading replaces
  const auto resumed = LoadCheckpoint(second.session.front(), path);
  REQUIRE_MESSAGE(resumed.ok(), resumed.error().message);
  CHECK(*resumed == 11);
  second.Step(12, 20);
  for (const char* name : kPersistent) {
    INFO(name);
    CHECK(second.Bytes(name) == whole.Bytes(name));
  }
}

TEST_CASE("a run with states on the host and one without resume each other") {
  const Graph step = *BuildTrainStep(Model(5), "loss");
  const Graph moved = *Offload(step, FindOffloadable(step));
  const std::string path = TemporaryPath("host.safetensors");
  Trained whole(step);
  whole.Step(1, 20);
  for (const bool first_moves : {true, false}) {
    Trained first(first_moves ? moved : step);
    first.Step(1, 11);
    REQUIRE(SaveCheckpoint(first.session.front(), path, 11).ok());
    Trained second(first_moves ? step : moved);
    second.session.Initialize(99);
    CHECK(*LoadCheckpoint(second.session.front(), path) == 11);
    second.Step(12, 20);
    for (const char* name : kPersistent) {
      INFO(name);
      CHECK(second.Bytes(name) == whole.Bytes(name));
    }
  }
}

TEST_CASE("a bf16 param is resumed with what its f32 weight has beyond bf16") {
  GraphBuilder g("split");
  const Value w = g.Param("w", DType::kBF16, {40}, Init::Normal(1));
  const AdamWSplitResults updated = AdamWSplitUpdate(
      w, g.State("w.delta", DType::kI16, {40}),
      g.State("w.m", DType::kF32, {40}), g.State("w.v", DType::kF32, {40}),
      Cast(g.Input("g", DType::kF32, {40}), DType::kBF16),
      g.Input("lr", DType::kF32, {}), g.Input("step", DType::kI64, {}), Value(),
      0.9, 0.999, 1e-8, 0.01);
  CHECK(updated.w.ok());
  const Graph step = *g.Finish();
  const std::string path = TemporaryPath("split.safetensors");
  Trained whole(step);
  CHECK(whole.Bytes("w.delta") == std::vector<std::byte>(80));
  whole.Step(1, 6);
  Trained first(step);
  first.Step(1, 3);
  CHECK(first.Bytes("w.delta") != std::vector<std::byte>(80));
  REQUIRE(SaveCheckpoint(first.session.front(), path, 3).ok());
  Trained second(step);
  REQUIRE(LoadCheckpoint(second.session.front(), path).ok());
  second.Step(4, 6);
  for (const char* name : {"w", "w.delta", "w.m", "w.v"}) {
    INFO(std::string(name));
    CHECK(second.Bytes(name) == whole.Bytes(name));
  }
}

TEST_CASE("the file is in the safetensors layout") {
  Trained model(*BuildTrainStep(Model(5), "loss"));
  const std::string path = TemporaryPath("layout.safetensors");
  REQUIRE(SaveCheckpoint(model.session.front(), path, 3).ok());
  const std::string file = ReadAll(path);
  REQUIRE(file.size() > 8);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  // w1 (3, 5), w2 (5, 7) and two states each, of four bytes an element.
  const size_t data = 3 * (15 + 35) * 4;
  REQUIRE(file.size() == 8 + length + data);
  const auto header = ParseSafetensorsHeader(
      std::string_view(file).substr(8, length), static_cast<Bytes>(data));
  REQUIRE_MESSAGE(header.ok(), header.error().message);
  CHECK(header->tensors.size() == 6);
  CHECK(header->tensors[0].name == "w1");
  CHECK(header->tensors[0].type == TensorType{DType::kF32, {3, 5}});
  CHECK(*header->Find("step") == "3");
  const auto w1 = model.Bytes("w1");
  CHECK(std::memcmp(file.data() + 8 + length, w1.data(), w1.size()) == 0);
}

TEST_CASE("damaged files are refused whole, and nothing is touched") {
  const Graph step = *BuildTrainStep(Model(5), "loss");
  const std::string path = TemporaryPath("damaged.safetensors");
  Trained model(step);
  model.Step(1, 3);
  REQUIRE(SaveCheckpoint(model.session.front(), path, 3).ok());
  const std::string good = ReadAll(path);
  model.Step(4, 6);
  const auto before = model.Bytes("w1");

  const auto refusal = [&](std::string_view bytes) {
    WriteAll(path, bytes);
    const auto loaded = LoadCheckpoint(model.session.front(), path);
    REQUIRE_FALSE(loaded.ok());
    CHECK(loaded.error().code == ErrorCode::kInvalidArgument);
    CHECK(model.Bytes("w1") == before);
    return loaded.error().message;
  };
  SUBCASE("empty") {
    CHECK(refusal("").find("has 0 bytes, too few for a checkpoint") !=
          std::string::npos);
  }
  SUBCASE("truncated anywhere") {
    for (size_t size = 0; size < good.size(); size += 7) {
      refusal(std::string_view(good).substr(0, size));
    }
    CHECK(refusal(std::string_view(good).substr(0, good.size() - 1))
              .find("truncated") != std::string::npos);
  }
  SUBCASE("a byte too many") {
    CHECK(refusal(good + "x").find("bytes too many") != std::string::npos);
  }
  SUBCASE("any one bit flipped in the data") {
    for (size_t at = good.size() - 600; at < good.size(); at += 13) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 16);
      CHECK(refusal(bad).find("is damaged: its content has the digest") !=
            std::string::npos);
    }
  }
  SUBCASE("any one bit flipped in the header") {
    uint64_t length = 0;
    std::memcpy(&length, good.data(), 8);
    for (size_t at = 0; at < 8 + length; ++at) {
      if (good[at] == ' ') continue;  // padding: white space for white space
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 4);
      refusal(bad);
    }
  }
}

TEST_CASE("a checkpoint of another model or optimizer is refused by name") {
  const std::string path = TemporaryPath("other.safetensors");
  Trained saved(*BuildTrainStep(Model(5), "loss"));
  REQUIRE(SaveCheckpoint(saved.session.front(), path, 1).ok());
  const auto message = [&](const Graph& graph) {
    Trained other(graph);
    const auto loaded = LoadCheckpoint(other.session.front(), path);
    REQUIRE_FALSE(loaded.ok());
    return loaded.error().message;
  };
  CHECK(
      message(*BuildTrainStep(Model(6), "loss"))
          .find("has \"w1\" as f32(3, 5), program \"train\" has f32(3, 6); it "
                "is of another model") != std::string::npos);
  CHECK(message(*BuildTrainStep(Model(5, "w3"), "loss"))
            .find("lacks the param \"w3\"") != std::string::npos);
  CHECK(message(*BuildTrainStep(Model(5), "loss", {.optimizer = Momentum{}}))
            .find("lacks the state \"w2.velocity\"") != std::string::npos);
}

TEST_CASE("a checkpoint with a param too many is refused by any program") {
  const std::string path = TemporaryPath("deeper.safetensors");
  Trained deeper(*BuildTrainStep(Model(5), "loss", {.optimizer = Sgd{}}));
  REQUIRE(SaveCheckpoint(deeper.session.front(), path, 1).ok());
  // Here "w2" is an input, no param.
  GraphBuilder g("shallow");
  Value x = g.Input("x", DType::kF32, {4, 3});
  Value w1 = g.Param("w1", DType::kF32, {3, 5}, Init::Normal(1));
  Value w2 = g.Input("w2", DType::kF32, {5});
  g.Output("loss", ReduceMean(Mul(MatMul(x, w1), w2)));
  const Graph shallow = *g.Finish();
  for (const Graph& graph :
       {shallow, *BuildTrainStep(shallow, "loss"),
        *BuildTrainStep(shallow, "loss", {.optimizer = Sgd{}})}) {
    Trained other(graph);
    const auto before = other.Bytes("w1");
    const bool has_states = !graph.Leaves(Role::kState).empty();
    const auto loaded = LoadCheckpoint(other.session.front(), path);
    REQUIRE_FALSE(loaded.ok());
    CHECK(loaded.error().message.find(
              has_states ? "lacks the state \"w1.m\""
                         : "has a param \"w2\" that program \"train\" lacks; "
                           "it is of another model or optimizer") !=
          std::string::npos);
    CHECK(other.Bytes("w1") == before);
  }
}

TEST_CASE("an evaluation program loads the weights of a training checkpoint") {
  const std::string path = TemporaryPath("eval.safetensors");
  Trained train(*BuildTrainStep(Model(5), "loss"));
  train.Step(1, 2);
  REQUIRE(SaveCheckpoint(train.session.front(), path, 2).ok());
  Trained eval(Model(5));
  REQUIRE(LoadCheckpoint(eval.session.front(), path).ok());
  CHECK(eval.Bytes("w2") == train.Bytes("w2"));
}

TEST_CASE("files that cannot be read or written are named") {
  Trained model(Model(5));
  const auto missing =
      LoadCheckpoint(model.session.front(), "/nonexistent/a.safetensors");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK(missing.error().message ==
        "[checkpoint] \"/nonexistent/a.safetensors\" cannot be opened: No such "
        "file or directory");
  const auto folder = LoadCheckpoint(model.session.front(), TemporaryPath(""));
  REQUIRE_FALSE(folder.ok());
  CHECK(folder.error().code == ErrorCode::kIo);
  CHECK(folder.error().message.find("cannot be read: Is a directory") !=
        std::string::npos);
  const Status unwritable =
      SaveCheckpoint(model.session.front(), "/nonexistent/a.safetensors", 1);
  REQUIRE_FALSE(unwritable.ok());
  CHECK(unwritable.error().code == ErrorCode::kIo);
}

TEST_CASE("a claimed file is saved to by who claimed it, and by nobody else") {
  const std::string path = TemporaryPath("claimed.safetensors");
  std::filesystem::remove(path);
  Trained model(Model(5));
  // Some other program's, by the name that a temporary file might have.
  WriteAll(path + ".tmp", "not ours");
  {
    const auto file = OutputFile::Claim(path);
    REQUIRE(file.ok());
    REQUIRE(SaveCheckpoint(model.session.front(), *file, 7).ok());
    const Status other = SaveCheckpoint(model.session.front(), path, 8);
    REQUIRE_FALSE(other.ok());
    CHECK(other.error().message.find("another run has claimed it") !=
          std::string::npos);
  }
  CHECK(*LoadCheckpoint(model.session.front(), path) == 7);
  REQUIRE(SaveCheckpoint(model.session.front(), path, 8).ok());
  CHECK(*LoadCheckpoint(model.session.front(), path) == 8);
  CHECK(ReadAll(path + ".tmp") == "not ours");
}

}  // namespace
}  // namespace stowage
