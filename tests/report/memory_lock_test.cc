#include "report/memory_lock.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "report/plan_json.h"

namespace stowage {
namespace {

// x of n numbers, its exponential, and their product: all live together.
PlanFile PlanOf(int64_t n, const std::string& device = "cpu, 1 thread") {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {n}, {"net.cc", 3});
  const Value a = Exp(x, {"net.cc", 4});
  g.Output("y", Mul(a, x, {"net.cc", 5}));
  Graph graph = g.Finish().value();
  Plan plan = PlanMemory(graph, {}).value();
  return {.graph = std::move(graph),
          .plan = std::move(plan),
          .request = {.device = device}};
}

MemoryLock LockOf(const PlanFile& file) {
  return {.programs = {LockProgram("train", file)}};
}

TEST_CASE("a lock keeps the arena, and what is live at the peak of a phase") {
  const PlanFile file = PlanOf(64);
  const LockedProgram program = LockProgram("train", file);
  CHECK(program.name == "train");
  CHECK(program.device == "cpu, 1 thread");
  CHECK(program.arena == file.plan.arena_bytes());
  CHECK(program.lower_bound == file.plan.lower_bound);
  REQUIRE(program.phases.size() == 1);
  const LockedPhase& forward = program.phases[0];
  CHECK(forward.phase == "forward");
  Bytes sum = 0;
  bool has_x = false;
  for (const LockedBuffer& buffer : forward.live) {
    sum += buffer.bytes;
    if (buffer.name == "x") {
      has_x = true;
      CHECK(buffer.bytes == 256);
      CHECK(buffer.source == "net.cc:3");
    }
  }
  CHECK(has_x);
  CHECK(sum == forward.peak);
  CHECK(forward.peak <= program.arena);
}

TEST_CASE("what is written is read back equal, a line a buffer") {
  MemoryLock lock = LockOf(PlanOf(64));
  lock.programs.push_back(LockProgram("a \"name\"", PlanOf(8)));
  const std::string text = ToText(lock);
  const auto read = ParseMemoryLock(text);
  REQUIRE_MESSAGE(read.ok(), read.error().message);
  CHECK(*read == lock);
  CHECK(ToText(*read) == text);
  for (const LockedBuffer& buffer : lock.programs[0].phases[0].live) {
    CHECK(text.find(StrCat("\n    {\"name\": \"", buffer.name, "\", ")) !=
          std::string::npos);
  }
}

TEST_CASE("a step that grows is named by figure, buffer and line") {
  const auto same = CompareLocks(LockOf(PlanOf(64)), LockOf(PlanOf(64)));
  REQUIRE(same.ok());
  CHECK_FALSE(same->grew);
  CHECK(same->figures.empty());
  CHECK(ToText(*same).empty());

  const MemoryLock small = LockOf(PlanOf(64)), large = LockOf(PlanOf(320));
  const auto more = CompareLocks(small, large);
  REQUIRE(more.ok());
  CHECK(more->grew);
  REQUIRE(more->figures.size() == 2);
  CHECK(more->figures[0].figure == "arena_bytes");
  CHECK(more->figures[0].before == small.programs[0].arena);
  CHECK(more->figures[0].now == large.programs[0].arena);
  CHECK(more->figures[1].figure == "forward");
  const std::vector<GrownBuffer>& grown = more->figures[1].buffers;
  REQUIRE(grown.size() >= 2);
  // 256 numbers more of four bytes.
  for (const GrownBuffer& buffer : grown) {
    CHECK(buffer.now - buffer.before == 1024);
    CHECK(buffer.source.starts_with("net.cc:"));
  }
  const std::string text = ToText(*more);
  CHECK(text.find("train: peak of forward ") != std::string::npos);
  CHECK(text.find("\n  +1024  x, made at net.cc:3\n") != std::string::npos);
  CHECK(ToText(*more, 1).find(StrCat("\n  and ", grown.size() - 1,
                                     " more\n")) != std::string::npos);
  CHECK(ToJson(*more)["grew"] == true);
  CHECK(ToJson(*more)["changes"][1]["buffers"].size() == grown.size());
  CHECK(ToHtml(*more).find("<td>x</td><td>256</td><td>1,280</td>") !=
        std::string::npos);

  const auto less = CompareLocks(large, small);
  REQUIRE(less.ok());
  CHECK_FALSE(less->grew);
  CHECK(less->figures.size() == 2);
}

TEST_CASE("what cannot be compared is refused by name") {
  const MemoryLock lock = LockOf(PlanOf(64));
  const auto error = [](const Result<MemoryChanges>& changes) {
    REQUIRE_FALSE(changes.ok());
    CHECK(changes.error().code == ErrorCode::kInvalidArgument);
    return changes.error().message;
  };
  CHECK(error(CompareLocks(lock, {}))
            .find("has a program \"train\", and no plan of it is given") !=
        std::string::npos);
  CHECK(error(CompareLocks({}, lock)).find("has no program \"train\"") !=
        std::string::npos);
  const std::string device =
      error(CompareLocks(lock, LockOf(PlanOf(64, "cpu, 4 threads"))));
  CHECK(device.find("cpu, 4 threads") != std::string::npos);
  CHECK(device.find("cpu, 1 thread ") != std::string::npos);
}

TEST_CASE("a damaged lock is refused, and says what is wrong") {
  const std::string good = ToText(LockOf(PlanOf(64)));
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const auto read = ParseMemoryLock(text);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().message.starts_with("[lock] "));
    return read.error().message;
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(error("{\"format\"", "[\"format\""), "is no JSON"));
  CHECK(has(error("\"version\": 1", "\"version\": 2"), "of version 2"));
  CHECK(has(error("stowage-memory-lock", "other"), "\"other\" of version 1"));
  CHECK(has(error("\"arena_bytes\": ", "\"arena_bytes\": -"),
            "has no whole number from 0 on as \"arena_bytes\""));
  CHECK(has(error("\"arena_bytes\"", "\"bytes_of_arena\""),
            "has no whole number from 0 on as \"arena_bytes\""));
  CHECK(
      has(error("\"bytes\": 256", "\"bytes\": 1.5"),
          "a buffer of \"train\" has no whole number from 0 on as \"bytes\""));
  CHECK(has(error("\"live\": [", "\"live\": [7, "),
            "lacks a list of objects \"live\""));
  CHECK_FALSE(ParseMemoryLock("[]").ok());
  CHECK_FALSE(ParseMemoryLock("").ok());
  CHECK_FALSE(ParseMemoryLock(std::string(100000, '[')).ok());
  // 2^64 - 1, which no file of ours holds.
  CHECK_FALSE(
      ParseMemoryLock("{\"format\": \"stowage-memory-lock\", \"version\": "
                      "18446744073709551615, \"programs\": []}")
          .ok());
}

}  // namespace
}  // namespace stowage
