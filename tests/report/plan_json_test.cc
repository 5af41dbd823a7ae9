#include "report/plan_json.h"

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "tests/report/example.h"

namespace stowage {
namespace {

using Json = nlohmann::json;

std::string Example() {
  return PlanToJson(testing::ExamplePlan(), testing::ExampleGraph());
}

TEST_CASE("a plan file loads back equal") {
  const Plan plan = testing::ExamplePlan();
  const Result<PlanFile> file = PlanFromJson(Example());
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  CHECK(Equal(file->graph, testing::ExampleGraph()));
  const Plan& loaded = file->plan;
  CHECK(CheckPlanIsFor(loaded, file->graph).ok());
  CHECK(loaded.graph_name == plan.graph_name);
  CHECK(loaded.fingerprint == plan.fingerprint);
  CHECK(loaded.alignment == plan.alignment);
  CHECK(loaded.regions == plan.regions);
  CHECK(loaded.buffer_of == plan.buffer_of);
  CHECK(loaded.workspace_of == plan.workspace_of);
  CHECK(loaded.reserve == plan.reserve);
  CHECK(loaded.lower_bound == plan.lower_bound);
  CHECK(loaded.no_reuse == plan.no_reuse);
  CHECK(loaded.caching_allocator == plan.caching_allocator);
  CHECK(loaded.peak_time == plan.peak_time);
  CHECK(loaded.views == plan.views);
  CHECK(loaded.in_place == plan.in_place);
  CHECK(loaded.packer == plan.packer);
  CHECK(loaded.order == plan.order);
  CHECK(loaded.optimal == plan.optimal);
  REQUIRE(loaded.buffers.size() == plan.buffers.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    CHECK(loaded.buffers[i].name == plan.buffers[i].name);
    CHECK(loaded.buffers[i].region == plan.buffers[i].region);
    CHECK(loaded.buffers[i].offset == plan.buffers[i].offset);
    CHECK(loaded.buffers[i].size == plan.buffers[i].size);
    CHECK(loaded.buffers[i].lower == plan.buffers[i].lower);
    CHECK(loaded.buffers[i].upper == plan.buffers[i].upper);
  }
  CHECK(PlanToJson(loaded, file->graph) == Example());
  CHECK(file->request == PlanRequest{});
}

TEST_CASE("a plan file keeps names that are no UTF-8") {
  const std::string name = "w\xff\xfe";
  GraphBuilder g("g");
  const Value x = g.Input("x", DType::kF32, {2, 4});
  g.Output("y", MatMul(x, g.Param(name, DType::kF32, {4, 3})));
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  const Result<Plan> plan = PlanMemory(*graph);
  REQUIRE(plan.ok());
  const Result<PlanFile> file = PlanFromJson(PlanToJson(*plan, *graph));
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  CHECK(file->graph.Find(name));
  CHECK(Equal(file->graph, *graph));
}

TEST_CASE("a plan file says what was asked for") {
  const PlanRequest request = {.budget = 1000,
                               .optimizations = "recompute auto"};
  const Result<PlanFile> file = PlanFromJson(
      PlanToJson(testing::ExamplePlan(), testing::ExampleGraph(), request));
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  CHECK(file->request == request);
}

TEST_CASE("a plan file keeps the source lines, and need not have them") {
  const Graph graph = testing::ExampleGraph();
  const Result<PlanFile> file = PlanFromJson(Example());
  REQUIRE(file.ok());
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const SourceLoc& source = file->graph.value(id).source;
    CHECK(source.line == graph.value(id).source.line);
    CHECK(source.line > 0);
    CHECK(std::string(source.file).ends_with("tests/report/example.cc"));
  }
  Json json = Json::parse(Example());
  json.erase("sources");
  const Result<PlanFile> without = PlanFromJson(json.dump());
  REQUIRE_MESSAGE(without.ok(), without.error().message);
  CHECK_FALSE(without->graph.value(0).source.is_known());
}

TEST_CASE("what is wrong with a plan file is named") {
  struct Row {
    std::function<void(Json&)> corrupt;
    const char* message;
  };
  const Row rows[] = {
      {[](Json& j) { j.erase("format"); }, "the file has no \"format\""},
      {[](Json& j) { j["format"] = "other"; },
       "\"format\" is \"other\"; expected \"stowage-plan\""},
      {[](Json& j) { j["version"] = 1; },
       "version 1 is not known here; version 4 is"},
      {[](Json& j) { j["version"] = "1"; },
       "the file: \"version\" is string; expected an integer of at least 0"},
      {[](Json& j) { j["graph"] = "stowage-ir 1\ngraph \"g\" {"; },
       "the graph in it is wrong: "},
      {[](Json& j) { j["fingerprint"] = "0"; },
       "the fingerprint is \"0\", that of the graph in the file "},
      {[](Json& j) { j["alignment"] = 0; },
       "the file: \"alignment\" is 0; expected an integer from 1 to "},
      {[](Json& j) { j["alignment"] = 1.5; },
       "the file: \"alignment\" is 1.5; expected an integer from 1 to "},
      {[](Json& j) { j["regions"] = 3; },
       "\"regions\" is number; expected an object"},
      {[](Json& j) { j["regions"].erase("io"); }, "\"regions\" has no \"io\""},
      {[](Json& j) { j["regions"]["state"] = -1; },
       "\"regions\": \"state\" is -1; expected an integer of at least 0"},
      {[](Json& j) { j["regions"]["state"] = INT64_MAX; },
       "\"regions\": the sum does not fit 64 bits"},
      {[](Json& j) { j["regions"]["state"] = 1e300; },
       "\"regions\": \"state\" is 1e+300; expected an integer of at least 0"},
      {[](Json& j) { j["regions"]["state"] = UINT64_MAX; },
       "\"regions\": \"state\" is 18446744073709551615; expected an integer "
       "of at least 0"},
      {[](Json& j) { j["buffers"] = nullptr; },
       "the file: \"buffers\" is null; expected an array"},
      {[](Json& j) { j["buffers"][1] = 7; },
       "buffer 1 is number; expected an object"},
      {[](Json& j) { j["buffers"][1].erase("offset"); },
       "buffer 1 has no \"offset\""},
      {[](Json& j) { j["buffers"][2]["region"] = "heap"; },
       "buffer 2: \"region\" is \"heap\"; expected weights, state, io, "
       "activations, workspace, host_state, host_offload or outside"},
      {[](Json& j) { j["buffers"][2]["name"] = 1; },
       "buffer 2: \"name\" is number; expected a string"},
      {[](Json& j) { j["buffers"][2]["upper"] = 5; },
       "buffer 2: \"upper\" is 5; expected an integer from 0 to 4"},
      {[](Json& j) { j["buffers"][2]["within"] = 99; },
       "buffer 2: \"within\" is 99; expected an integer from 0 to 5"},
      {[](Json& j) { j["buffers"][3]["upper"] = 0; },
       "buffer 3: \"upper\" is 0; expected an integer from 1 to 4"},
      {[](Json& j) { j["buffers"][3]["offset"] = INT64_MAX - 8; },
       "buffer 3: offset 9223372036854775799 and size 16 do not fit 64 bits"},
      {[](Json& j) { j["buffers"][3]["size"] = -16; },
       "buffer 3: \"size\" is -16; expected an integer of at least 0"},
      {[](Json& j) { j["buffer_of"].push_back(0); },
       "the file: \"buffer_of\" has 6 entries; the graph needs 5"},
      {[](Json& j) { j["buffer_of"][4] = 6; },
       "the file: \"buffer_of\" entry 4 is 6; expected an integer from 0 to 5"},
      {[](Json& j) { j["workspace_of"][0] = -2; },
       "the file: \"workspace_of\" entry 0 is -2; expected an integer from -1 "
       "to 5"},
      {[](Json& j) { j["peak_time"] = 99; },
       "the file: \"peak_time\" is 99; expected an integer from 0 to 3"},
      {[](Json& j) { j["optimal"] = 1; },
       "the file: \"optimal\" is number; expected true or false"},
      {[](Json& j) { j.erase("budget_bytes"); },
       "the file has no \"budget_bytes\""},
      {[](Json& j) { j["budget_bytes"] = "all"; },
       "the file: \"budget_bytes\" is string; expected an integer of at least "
       "0"},
      {[](Json& j) { j["optimizations"] = 1; },
       "the file: \"optimizations\" is number; expected a string"},
      {[](Json& j) { j["values"].erase(0); },
       "\"values\" has 4 entries; the graph in the file has 5"},
      {[](Json& j) { j["values"][1]["offset"] = 4; }, "\"values\" entry 1 is "},
      {[](Json& j) { j["nodes"][0]["may_overwrite"] = {7}; },
       "\"nodes\" entry 0 is "},
      {[](Json& j) { j["outputs"] = {0}; }, "\"outputs\" entry 0 is "},
      {[](Json& j) { j["sources"] = 1; },
       "\"sources\" is number; expected an object"},
      {[](Json& j) { j["sources"]["files"][0] = 2; },
       "\"sources\": a file is number; expected a string"},
      {[](Json& j) { j["sources"]["file_of"][0] = 1; },
       "\"sources\": \"file_of\" entry 0 is 1; expected an integer from -1 "
       "to 0"},
      {[](Json& j) { j["sources"]["line_of"].push_back(1); },
       "\"sources\": \"line_of\" has 6 entries; the graph needs 5"},
      {[](Json& j) { j["arena_bytes"] = 81; },
       "\"arena_bytes\" is 81, the regions sum to 80; they must be equal"},
      {[](Json& j) { j = Json::array(); },
       "the file is array; expected an object"},
  };
  for (const Row& row : rows) {
    Json json = Json::parse(Example());
    row.corrupt(json);
    const Result<PlanFile> file = PlanFromJson(json.dump());
    INFO(row.message);
    REQUIRE(!file.ok());
    CHECK(file.error().code == ErrorCode::kInvalidArgument);
    const std::string expected = StrCat("[plan file] ", row.message);
    INFO(file.error().message);
    // Exact, but for messages that end in a figure or another room's words.
    if (expected.back() == ' ') {
      CHECK(file.error().message.starts_with(expected));
    } else {
      CHECK(file.error().message == expected);
    }
  }
}

TEST_CASE("a plan file that nests deep is refused before it is read") {
  const std::string whole = Example();
  const std::string key = "\"values\":[";
  const size_t at = whole.find(key) + key.size();
  const std::string deep = whole.substr(0, at) + std::string(60'000, '[') +
                           std::string(60'000, ']') + "," + whole.substr(at);
  const Result<PlanFile> file = PlanFromJson(deep);
  REQUIRE(!file.ok());
  CHECK(file.error().message.find("the file nests deeper than 128 "
                                  "levels") != std::string::npos);
}

TEST_CASE("figures that the slots of a plan do not give are a violation") {
  const Graph graph = testing::ExampleGraph();
  const Result<Plan> good = PlanMemory(graph, {.alignment = 16});
  REQUIRE(good.ok());
  const auto found = [&](auto alter, const PlanRequest& request) {
    Plan plan = *good;
    alter(plan);
    const Result<PlanFile> file =
        PlanFromJson(PlanToJson(plan, graph, request));
    REQUIRE_MESSAGE(file.ok(), file.error().message);
    const std::vector<std::string> violations = ViolationsOf(*file);
    return violations.empty() ? "" : violations.front();
  };
  const PlanRequest fitted = {.optimizations = "recompute auto"};
  const Bytes arena = good->arena_bytes();
  CHECK(found([](Plan&) {}, {}) == "");
  CHECK(found([](Plan&) {}, {.budget = arena}) == "");
  CHECK(found([](Plan&) {}, {.budget = arena - 1}) ==
        StrCat("the arena of ", arena, " bytes is above the budget of ",
               arena - 1));
  const Bytes bound = good->lower_bound;
  CHECK(found([](Plan& p) { p.lower_bound += 1; }, {}) ==
        StrCat("\"lower_bound_bytes\" is ", bound + 1, "; the slots give ",
               bound));
  CHECK(found([](Plan& p) { p.lower_bound = 0; }, fitted) ==
        StrCat("\"lower_bound_bytes\" is 0; the slots give ", bound));
  CHECK(found([](Plan& p) { p.peak_time -= 1; }, {}) ==
        StrCat("\"peak_time\" is ", good->peak_time - 1, "; the slots give ",
               good->peak_time));
  CHECK(found([](Plan& p) { p.caching_allocator = INT64_MAX; }, fitted) ==
        "\"caching_allocator_bytes\" is 9223372036854775807; the slots give "
        "2097152");
  CHECK(found([](Plan& p) { p.no_reuse = INT64_MAX; }, {}) ==
        StrCat("\"no_reuse_bytes\" is 9223372036854775807; the slots give ",
               good->no_reuse));
  CHECK(found([](Plan& p) { p.views += 1; }, fitted) ==
        StrCat("\"views\" is ", good->views + 1, "; the slots give ",
               good->views));
  CHECK(found([](Plan& p) { p.in_place += 1; }, fitted) ==
        StrCat("\"in_place\" is ", good->in_place + 1, "; the slots give ",
               good->in_place));
  CHECK(found([](Plan& p) { p.packer = "best"; }, {}) == "");
  CHECK(found([](Plan& p) { p.packer = "bestest"; }, {})
            .find("there is no packer \"bestest\"; expected one of: ") !=
        std::string::npos);
  CHECK(found([](Plan& p) { p.order = "memory"; }, fitted) == "");
  CHECK(found([](Plan& p) { p.order = "memory"; }, {}) ==
        "\"order\" is \"memory\" of a step that no optimization changed; "
        "expected \"given\"");
  // What a fitted step took before is in no file.
  CHECK(found([](Plan& p) { p.no_reuse += 1; }, fitted) == "");
  CHECK(found([&](Plan& p) { p.no_reuse = arena - 1; }, fitted) ==
        StrCat("\"no_reuse_bytes\" is ", arena - 1, ", below the arena of ",
               arena));
}

TEST_CASE("a plan file that says a thing twice, or goes on, is refused") {
  const std::string whole = Example();
  const auto message = [](const std::string& text) {
    const Result<PlanFile> file = PlanFromJson(text);
    REQUIRE(!file.ok());
    return file.error().message;
  };
  CHECK(message("{\"alignment\":64," + whole.substr(1))
            .find("has the key \"alignment\" twice") != std::string::npos);
  CHECK(message(whole + std::string("\0{}", 3)).find(": a NUL") !=
        std::string::npos);
  CHECK(PlanFromJson("\xEF\xBB\xBF" + whole).ok());
}

TEST_CASE("a plan file cut short anywhere is refused") {
  const std::string whole = Example();
  for (size_t length = 0; length + 2 < whole.size(); length += 7) {
    const Result<PlanFile> file = PlanFromJson(whole.substr(0, length));
    REQUIRE(!file.ok());
    CHECK(file.error().message.starts_with(
        "[plan file] the file is no JSON, at byte "));
  }
}

TEST_CASE("a plan file with any one byte changed loads sound or not at all") {
  const std::string whole = Example();
  int refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ 1);
    const Result<PlanFile> file = PlanFromJson(altered);
    if (!file.ok()) {
      ++refused;
    } else {
      CHECK(CheckPlanIsFor(file->plan, file->graph).ok());
    }
  }
  CHECK(refused > static_cast<int>(whole.size()) / 2);
}

}  // namespace
}  // namespace stowage
