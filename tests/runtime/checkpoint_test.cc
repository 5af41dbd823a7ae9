#include "runtime/checkpoint.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "formats/safetensors.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan_memory.h"
#include "runtime/values.h"
#include "tests/support/files.h"
#include "tests/support/random_graph.h"
#include "tests/support/wrapped_backend.h"

namespace stowage {
namespace {

using testing::ReadAll;

using fit::FindOffloadable;
using fit::Offload;

std::string TemporaryPath(std::string_view name) {
  const char* const folder = std::getenv("TEST_TMPDIR");
  return StrCat(folder == nullptr ? "/tmp" : folder, "/", name);
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

TEST_CASE("params of a base are left out, and resumed beside that base alone") {
  const TrainOptions beside_base = {
      .groups = {{.pattern = "w1", .frozen = true}}};
  const Graph step = *BuildTrainStep(Model(5), "loss", beside_base);
  const CheckpointBase base = {.params = {"w1"}, .content = "7 bytes"};
  const std::string path = TemporaryPath("beside.safetensors");
  Trained first(step);
  first.Step(1, 3);
  REQUIRE(SaveCheckpoint(first.session.front(), path, 3, {}, base).ok());
  const auto file = SafetensorsFile::Open(path, "test");
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  CHECK(file->header().tensors.size() == 3);  // "w2" and its two states

  Trained second(step);
  second.session.Initialize(5);  // the base's values, as the first had them
  REQUIRE(LoadCheckpoint(second.session.front(), path, base).ok());
  first.Step(4, 6);
  second.Step(4, 6);
  for (const char* name : {"w1", "w2", "w2.m", "w2.v"}) {
    INFO(name);
    CHECK(second.Bytes(name) == first.Bytes(name));
  }

  const auto message = [&](const CheckpointBase& other) {
    const std::vector<std::byte> before = second.Bytes("w2");
    const auto loaded = LoadCheckpoint(second.session.front(), path, other);
    REQUIRE_FALSE(loaded.ok());
    CHECK(second.Bytes("w2") == before);
    return loaded.error().message;
  };
  const std::string start =
      StrCat("[checkpoint] ", Quoted(path),
             " is of params trained beside a base that it leaves out, 7 bytes");
  CHECK(message({.params = {"w1"}, .content = "8 bytes"})
            .starts_with(start + "; the base here is 8 bytes"));
  CHECK(message({}).starts_with(start + "; here there is no base"));
  CHECK(message({.params = {}, .content = "7 bytes"})
            .find("lacks the param \"w1\"") != std::string::npos);

  // What lacks a param without a base is of another model, whatever base is there.
  Trained whole(step);
  REQUIRE(SaveCheckpoint(whole.session.front(), path, 1).ok());
  Trained renamed(*BuildTrainStep(Model(5, "w3"), "loss", beside_base));
  const auto other = LoadCheckpoint(renamed.session.front(), path,
                                    {.params = {"w3"}, .content = "7 bytes"});
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().message.find("lacks the param \"w3\"") !=
        std::string::npos);
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
    CHECK(refusal("").find("has 0 bytes, too few for a header") !=
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
    CHECK(
        loaded.error().message.find(
            has_states
                ? "lacks the state \"w1.m\""
                : "has a param \"w2\" that program \"train\" lacks; "
                  "it is of another model, optimizer, loss scale or adapter") !=
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

TEST_CASE(
    "notes of the run come back, and are part of what the digest covers") {
  const std::string path = TemporaryPath("notes.safetensors");
  Trained model(Model(5));
  const RunNotes notes = {{"seed", "7"}, {"data", "a \"b\".csv"}};
  REQUIRE(SaveCheckpoint(model.session.front(), path, 3, notes).ok());
  const auto info = ReadCheckpointInfo(path);
  REQUIRE_MESSAGE(info.ok(), info.error().message);
  CHECK(info->step == 3);
  CHECK(info->notes == notes);
  CHECK(*info->Find("seed") == "7");
  CHECK(info->Find("lr") == nullptr);
  CHECK(*LoadCheckpoint(model.session.front(), path) == 3);

  std::string forged = ReadAll(path);
  forged.replace(forged.find("\"seed\":\"7\""), 10, "\"seed\":\"8\"");
  WriteAll(path, forged);
  const auto loaded = LoadCheckpoint(model.session.front(), path);
  REQUIRE_FALSE(loaded.ok());
  CHECK(loaded.error().message.find("is damaged") != std::string::npos);

  const Status own =
      SaveCheckpoint(model.session.front(), path, 3, {{"step", "4"}});
  REQUIRE_FALSE(own.ok());
  CHECK(own.error().message.find("has metadata of its own called \"step\"") !=
        std::string::npos);
}

// The checkpoint in `bytes` with another text under `key`, and a digest that is
// right again (FNV-1a of what the format says, computed here anew).
std::string Forge(const std::string& bytes, const std::string& key,
                  const std::string& text) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const std::string data = bytes.substr(8 + length);
  auto header =
      *ParseSafetensorsHeader(std::string_view(bytes).substr(8, length),
                              static_cast<Bytes>(data.size()));
  for (auto& [name, value] : header.metadata) {
    if (name == key) value = text;
  }
  uint64_t hash = 14695981039346656037u;
  const auto update = [&](const std::string& part) {
    for (const char c : part) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    }
  };
  update("step " + *header.Find("step") + ";params " + *header.Find("params") +
         ";");
  for (const SafeTensor& tensor : header.tensors) {
    update("\"" + tensor.name + "\"" + tensor.type.ToString() +
           std::to_string(tensor.begin) + "," + std::to_string(tensor.end) +
           ";");
  }
  update(data);
  for (auto& [name, value] : header.metadata) {
    if (name != "fnv1a64") continue;
    value.clear();
    for (int shift = 60; shift >= 0; shift -= 4) {
      value += "0123456789abcdef"[hash >> shift & 15];
    }
  }
  const std::string json = FormatSafetensorsHeader(header);
  std::string file(8, '\0');
  const uint64_t size = json.size();
  std::memcpy(file.data(), &size, 8);
  return file + json + data;
}

TEST_CASE("steps and numbers of params that cannot be are refused by value") {
  const std::string path = TemporaryPath("forged.safetensors");
  const Graph step = *BuildTrainStep(Model(5), "loss");
  Trained model(step);
  REQUIRE(SaveCheckpoint(model.session.front(), path, 3).ok());
  const std::string good = ReadAll(path);
  const auto before = model.Bytes("w1");
  const auto load = [&](const std::string& key, const std::string& text) {
    WriteAll(path, Forge(good, key, text));
    return LoadCheckpoint(model.session.front(), path);
  };
  CHECK(*load("step", "3") == 3);  // forging works
  CHECK(*load("step", "0") == 0);
  for (const char* bad :
       {"-5", "9223372036854775806", "9223372036854775808", "1e3", "", "x"}) {
    const auto loaded = load("step", bad);
    REQUIRE_FALSE(loaded.ok());
    CHECK(loaded.error().message.find(
              StrCat("is of step ", Quoted(bad),
                     "; expected a number from 0 to 1000000000000000")) !=
          std::string::npos);
  }
  for (const char* bad : {"-1", "99", "7"}) {
    const auto loaded = load("params", bad);
    REQUIRE_FALSE(loaded.ok());
    CHECK(loaded.error().message.find(
              StrCat("has ", Quoted(bad),
                     " params among 6 tensors; expected a "
                     "number from 0 to 6")) != std::string::npos);
  }
  for (const auto& [count, message] :
       {std::pair("0",
                  "has 0 params, so that \"w1\" is a state; in program "
                  "\"train\" it is a param"),
        std::pair("1", "has 1 params, so that \"w2\" is a state"),
        std::pair("6", "has 6 params, so that \"w2.m\" is a param")}) {
    const auto loaded = load("params", count);
    REQUIRE_FALSE(loaded.ok());
    CHECK(loaded.error().message.find(message) != std::string::npos);
  }
  CHECK(model.Bytes("w1") == before);
  for (const int64_t bad : {int64_t{-1}, kMaxCheckpointStep + 1}) {
    const Status saved = SaveCheckpoint(model.session.front(), path, bad);
    REQUIRE_FALSE(saved.ok());
    CHECK(saved.error().message.find(StrCat("cannot be of step ", bad)) !=
          std::string::npos);
  }
}

TEST_CASE("a tensor of a type that there is not here is in no checkpoint") {
  const std::string path = TemporaryPath("foreign.safetensors");
  Trained model(Model(5));
  REQUIRE(SaveCheckpoint(model.session.front(), path, 3).ok());
  std::string forged = ReadAll(path);
  forged.replace(forged.find("\"F32\""), 5, "\"F31\"");
  WriteAll(path, forged);
  const auto before = model.Bytes("w1");
  const auto loaded = LoadCheckpoint(model.session.front(), path);
  REQUIRE_FALSE(loaded.ok());
  CHECK(loaded.error().message.find(", which no checkpoint holds") !=
        std::string::npos);
  CHECK(loaded.error().message.find(" as F31(") != std::string::npos);
  CHECK(model.Bytes("w1") == before);
}

TEST_CASE("a step without states refuses the states of another optimizer") {
  const std::string path = TemporaryPath("adamw.safetensors");
  Trained adamw(*BuildTrainStep(Model(5), "loss"));
  REQUIRE(SaveCheckpoint(adamw.session.front(), path, 1).ok());
  Trained sgd(*BuildTrainStep(Model(5), "loss", {.optimizer = Sgd{}}));
  const auto loaded = LoadCheckpoint(sgd.session.front(), path);
  REQUIRE_FALSE(loaded.ok());
  CHECK(loaded.error().message.find("has a state \"w2.m\" that program "
                                    "\"train\" lacks") != std::string::npos);
}

TEST_CASE("what is not finite is never saved over what is") {
  const std::string path = TemporaryPath("finite.safetensors");
  Trained model(*BuildTrainStep(Model(5), "loss"));
  Runner& runner = model.session.front();
  CHECK(CheckFinite(runner).ok());
  REQUIRE(SaveCheckpoint(runner, path, 1).ok());
  const std::string good = ReadAll(path);
  std::vector<float> w2(35, 0.5f);
  w2[33] = -std::numeric_limits<float>::infinity();
  REQUIRE(runner.Write("w2", w2).ok());
  for (const Status& status :
       {SaveCheckpoint(runner, path, 2), CheckFinite(runner)}) {
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::kNotFinite);
    CHECK(status.error().message.starts_with(
        "[checkpoint] the param \"w2\" of program \"train\" is -inf at "
        "element 33 of 35"));
  }
  CHECK(ReadAll(path) == good);
  w2[33] = 0;
  REQUIRE(runner.Write("w2", w2).ok());
  std::vector<float> state(15, 0);
  state[0] = std::numeric_limits<float>::quiet_NaN();
  REQUIRE(runner.Write("w1.v", state).ok());
  CHECK(CheckFinite(runner).error().message.find(
            "the state \"w1.v\" of program \"train\" is nan at element 0") !=
        std::string::npos);
}

// A param of two parts and a little, so that what is saved and read is in parts.
Graph LargeModel() {
  GraphBuilder g("large");
  const int64_t size = 2 * kPartBytes / 4 + 10;
  Value w = g.Param("w", DType::kF32, {size}, Init::Normal(1));
  Value x = g.Input("x", DType::kF32, {size});
  g.Output("loss", ReduceSum(Mul(w, x)));
  return *g.Finish();
}

TEST_CASE("what is larger than a part is saved and read whole") {
  const std::string path = TemporaryPath("parts.safetensors");
  const Graph step = *BuildTrainStep(LargeModel(), "loss");
  Trained saved(step), other(step);
  saved.Step(1, 1);
  const std::vector<std::byte> w = saved.Bytes("w");
  REQUIRE(SaveCheckpoint(saved.session.front(), path, 1).ok());
  const auto file = SafetensorsFile::Open(path, "checkpoint");
  REQUIRE(file.ok());
  std::vector<std::byte> data(w.size());
  REQUIRE(file->Read(0, data).ok());
  CHECK(data == w);
  other.Step(1, 3);
  REQUIRE(LoadCheckpoint(other.session.front(), path).ok());
  for (const char* name : {"w", "w.m", "w.v"}) {
    CHECK(other.Bytes(name) == saved.Bytes(name));
  }
}

TEST_CASE("damage in a later part is refused, and nothing is touched") {
  const std::string path = TemporaryPath("later.safetensors");
  const Graph step = *BuildTrainStep(LargeModel(), "loss");
  Trained saved(step), other(step);
  saved.Step(1, 1);
  REQUIRE(SaveCheckpoint(saved.session.front(), path, 1).ok());
  std::string bytes = ReadAll(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  WriteAll(path, bytes);
  other.Step(1, 2);
  const std::vector<std::byte> before = other.Bytes("w");
  const auto loaded = LoadCheckpoint(other.session.front(), path);
  REQUIRE_FALSE(loaded.ok());
  CHECK(loaded.error().message.find("is damaged") != std::string::npos);
  CHECK(other.Bytes("w") == before);
}

TEST_CASE("a file that cannot be read twice leaves no mixture of values") {
  const std::string path = TemporaryPath("twice.safetensors");
  const Graph step = *BuildTrainStep(LargeModel(), "loss");
  Trained saved(step);
  saved.Step(1, 1);
  REQUIRE(SaveCheckpoint(saved.session.front(), path, 1).ok());
  const std::string good = ReadAll(path);

  const auto cpu = MakeCpuBackend({.threads = 1});
  testing::WatchedBackend backend(*cpu);
  Session session = Trained::Open(step, backend);
  session.Initialize(7);
  Runner& runner = session.front();
  testing::WriteRandomInputs(runner, 1, 1);
  REQUIRE(runner.Step() == StepCode::kOk);

  // What was checked changes before it is read again: a part of the first tensor is
  // written by then, and the file ends earlier, or has other bytes behind it.
  std::string expected;
  SUBCASE("it becomes shorter") {
    backend.on_copy = [&] {
      std::filesystem::resize_file(path, good.size() - 1);
    };
    expected = "cannot be read to its end: it has become shorter";
  }
  SUBCASE("a byte changes") {
    backend.on_copy = [&] {
      std::string other = good;
      other.back() = static_cast<char>(other.back() ^ 1);
      std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
          << other;
    };
    // The last of the three parts of the last state.
    expected = StrCat("has changed while it was read, in \"w.v\" behind byte ",
                      2 * kPartBytes);
  }
  const auto loaded = LoadCheckpoint(runner, path);
  REQUIRE_FALSE(loaded.ok());
  CHECK(loaded.error().code == ErrorCode::kIo);
  CHECK(loaded.error().message.find(expected) != std::string::npos);
  CHECK(loaded.error().message.find(
            "so the 3 params and states that they are of have none now") !=
        std::string::npos);
  backend.on_copy = nullptr;

  // No step, no file and no reader takes the values for any.
  const StepCode code = runner.Step();
  CHECK(code == StepCode::kInputsMissing);
  CHECK(runner.Explain(code).message.find("\"w\" has no values yet") !=
        std::string::npos);
  const std::string other = TemporaryPath("mixture.safetensors");
  std::filesystem::remove(other);
  for (const Status& status :
       {SaveCheckpoint(runner, other, 2), SaveWeights(runner, other),
        CheckFinite(runner)}) {
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message.find("has no values yet") !=
          std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(other));
  std::vector<float> w(2 * kPartBytes / 4 + 10);
  CHECK_FALSE(runner.Read("w", &w).ok());

  // Once all of them have values, all is as it was.
  WriteAll(path, good);
  REQUIRE(LoadCheckpoint(runner, path).ok());
  testing::WriteRandomInputs(runner, 1, 2);
  saved.Step(2, 2);
  REQUIRE(runner.Step() == StepCode::kOk);
  REQUIRE(runner.Read("w", &w).ok());
  const std::vector<std::byte> expected_w = saved.Bytes("w");
  CHECK(std::memcmp(w.data(), expected_w.data(), expected_w.size()) == 0);
}

TEST_CASE("what is not finite in a later part is named by its element") {
  const std::string path = TemporaryPath("later_finite.safetensors");
  Trained model(*BuildTrainStep(LargeModel(), "loss"));
  Runner& runner = model.session.front();
  const size_t size = 2 * kPartBytes / 4 + 10;
  std::vector<float> w(size, 1);
  w[size - 3] = std::numeric_limits<float>::infinity();
  REQUIRE(runner.Write("w", w).ok());
  const std::string says = StrCat("is inf at element ", size - 3, " of ", size);
  for (const Status& status :
       {SaveCheckpoint(runner, path, 1), SaveWeights(runner, path),
        CheckFinite(runner)}) {
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message.find(says) != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(path));
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
