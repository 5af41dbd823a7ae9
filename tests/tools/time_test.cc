#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;

Json PlanAsJson(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  arguments.push_back("--json");
  const Outcome outcome = RunStowage(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return Json::parse(outcome.out);
}

TEST_CASE("times are never written over the data") {
  const std::string digits = WriteTemp("precious.csv", SomeDigits());
  const Outcome outcome =
      RunStowage({"time", "--model", "mlp", "--batch", "8", "--data", digits,
                  "--device", "cpu", "--steps", "2", "-o", digits});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("is what --data reads") != std::string::npos);
  CHECK(ReadAll(digits) == SomeDigits());
}

TEST_CASE("times are never written into the tokenizer's folder") {
  const std::string folder = TempPath("tokenizer");
  std::filesystem::create_directory(folder);
  const std::string config =
      WriteTemp("tokenizer/tokenizer_config.json", "precious");
  const std::string text = WriteTemp("text.txt", SomeText());
  const Outcome outcome = RunStowage(
      {"time", "--model", "lstm-char", "--batch", "1", "--seq", "8", "--data",
       text, "--tokenizer", folder, "--steps", "1", "-o", config});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("is in the folder that --tokenizer reads") !=
        std::string::npos);
  CHECK(ReadAll(config) == "precious");
}

TEST_CASE("the ops of a step are timed, and plans are made by the times") {
  const std::string digits = WriteTemp("time_digits.csv", SomeDigits());
  const std::string file = TempPath("mlp.times");
  const Outcome timed = RunStowage(
      {"time", "--model", "mlp", "--batch", "8", "--data", digits, "--device",
       "cpu", "--threads", "1", "--steps", "2", "-o", file});
  INFO(timed.err);
  REQUIRE(timed.exit_code == 0);
  CHECK(timed.out.empty());
  CHECK(timed.err.find("medians of 2 steps on cpu") != std::string::npos);
  const std::string text = ReadAll(file);
  CHECK(text.starts_with("stowage-op-times 2\n"));
  CHECK(text.find(" fused_matmul(f32(8, 64), f32(64, 128), "
                  "f32(8, 128)[0, 1]) -> f32(8, 128) ") !=
        std::string::npos);  // with the bias, which repeats

  const Outcome figures =
      RunStowage({"time", "--model", "mlp", "--batch", "8", "--data", digits,
                  "--device", "cpu", "--steps", "2", "--json"});
  REQUIRE(figures.exit_code == 0);
  const Json json = Json::parse(figures.out);
  CHECK(json["steps"] == 2);
  CHECK(json["device"] == "cpu");
  for (const char* field :
       {"step_seconds", "step_by_op_seconds", "ops_seconds"}) {
    CHECK(json[field] > 0);
  }
  CHECK(json["extra_time_percent"] == 0);  // there is no optimization
  CHECK(json["predicted_extra_time_percent"].is_null());

  const Json plan = PlanAsJson(
      {"--model", "mlp", "--batch", "8", "--threads", "1", "--op-times", file});
  CHECK(plan["predicted_step_seconds"] > 0);
  CHECK(plan["predicted_extra_time_percent"] == 0);
  CHECK(plan["estimated_op_times"] == 0);
  const Json larger = PlanAsJson({"--model", "mlp", "--batch", "16",
                                  "--threads", "1", "--op-times", file});
  CHECK(larger["estimated_op_times"] > 0);
  CHECK(larger["predicted_step_seconds"] > 0);
  const Json without = PlanAsJson({"--model", "mlp", "--batch", "8"});
  CHECK(without["predicted_step_seconds"].is_null());
  CHECK(without["predicted_extra_time_percent"].is_null());
  CHECK(without["estimated_op_times"].is_null());
  CHECK(without["recompute_least_time_percent"].is_null());

  const Outcome trained = RunStowage(
      {"train", "--model", "mlp", "--batch", "8", "--data", digits, "--device",
       "cpu", "--threads", "1", "--steps", "1", "--op-times", file, "--json"});
  REQUIRE(trained.exit_code == 0);
  const Json last = Json::parse(
      trained.out.substr(trained.out.rfind("\n", trained.out.size() - 2) + 1));
  CHECK(last["predicted_step_seconds"] == plan["predicted_step_seconds"]);
}

// A nanosecond for every two bytes of every op.
constexpr char kByBytes[] =
    "stowage-op-times 2\n1000000 500 0 1000 copy(f32(125)) -> f32(125)\n";

TEST_CASE("more examples are predicted to take longer") {
  const std::string file = WriteTemp("bytes.times", kByBytes);
  const auto seconds = [&](const char* batch) {
    const Json plan =
        PlanAsJson({"--model", "mlp", "--batch", batch, "--op-times", file});
    return plan["predicted_step_seconds"].get<double>();
  };
  CHECK(seconds("16") > seconds("8"));
}

TEST_CASE("what is predicted follows from the file alone") {
  const std::string file = WriteTemp("bytes.times", kByBytes);
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "--model", "gpt-nano",    "--batch", "4",          "--seq",
        "32",      "--recompute", "auto",    "--op-times", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const Json given = PlanAsJson(with({}));
  const std::string budget =
      StrCat((given["minimum_budget_bytes"].get<int64_t>() +
              given["arena_bytes"].get<int64_t>()) /
             2);
  const Json fitted = PlanAsJson(with({"--budget", budget}));
  CHECK(fitted["recomputed_nodes"] > 0);
  CHECK(fitted["recompute_least_flops_percent"].is_null());
  const double percent = fitted["predicted_extra_time_percent"];
  CHECK(percent > 0);
  CHECK(fitted["recompute_least_time_percent"] <= percent);
  CHECK(fitted["predicted_step_seconds"].get<double>() ==
        doctest::Approx(given["predicted_step_seconds"].get<double>() *
                        (1 + percent / 100)));
  CHECK(fitted == [&] {
    Json again = PlanAsJson(with({"--budget", budget, "--no-plan-cache"}));
    for (const char* of_run : {"plan_seconds", "cache"}) {
      again[of_run] = fitted[of_run];
    }
    return again;
  }());

  // Rows of an arena far from the budget say nothing of what to choose.
  const std::string with_far = WriteTemp(
      "far.times",
      StrCat(kByBytes,
             "1000000000000 5000 0 1000 copy(f32(125)) -> f32(125)\n"));
  const Json far = PlanAsJson({"--model", "gpt-nano", "--batch", "4", "--seq",
                               "32", "--recompute", "auto", "--budget", budget,
                               "--op-times", with_far});
  CHECK(far["recompute_least_time_percent"] ==
        fitted["recompute_least_time_percent"]);

  // The same on the frontier, which can be drawn.
  const std::string svg = TempPath("frontier.svg");
  std::vector<std::string> arguments =
      with({"--pareto", "--json", "--svg", svg});
  arguments.insert(arguments.begin(), "plan");
  const Outcome outcome = RunStowage(arguments);
  REQUIRE(outcome.exit_code == 0);
  const Json frontier = Json::parse(outcome.out)["frontier"];
  REQUIRE(frontier.size() > 2);
  CHECK(frontier[0]["predicted_step_seconds"] ==
        given["predicted_step_seconds"]);
  for (size_t k = 1; k < frontier.size(); ++k) {
    CHECK(frontier[k]["predicted_extra_time_percent"] >=
          frontier[k - 1]["predicted_extra_time_percent"]);
    CHECK(frontier[k]["recompute_least_time_percent"] <=
          frontier[k]["predicted_extra_time_percent"]);
  }
  const std::string image = ReadAll(svg);
  CHECK(image.starts_with("<svg "));
  CHECK(image.find("more time upwards") != std::string::npos);
  CHECK(image.find("<polyline class=\"found\"") != std::string::npos);
}

TEST_CASE("copies are as long as the file says, and no longer") {
  const std::vector<std::string> model = {
      "--model",    "gpt-nano",
      "--batch",    "4",
      "--seq",      "32",
      "--offload",  "auto",
      "--op-times", WriteTemp("c.times", kByBytes)};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = model;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  std::vector<std::string> arguments = with({"--pareto", "--json"});
  arguments.insert(arguments.begin(), "plan");
  const Outcome outcome = RunStowage(arguments);
  REQUIRE(outcome.exit_code == 0);
  const Json last = Json::parse(outcome.out)["frontier"].back();
  CHECK(last["offload_bytes_per_step"] > 0);
  const Json plan = PlanAsJson(
      with({"--budget", StrCat(last["budget_bytes"].get<int64_t>())}));
  CHECK(plan["offload_bytes_per_step"] == last["offload_bytes_per_step"]);
  CHECK(last["predicted_step_seconds"].get<double>() ==
        doctest::Approx(plan["predicted_step_seconds"].get<double>()));
}

TEST_CASE("what optimizations cost is timed against the step without") {
  const std::string text = WriteTemp("time_text.txt", SomeText());
  const std::string file = TempPath("both.times");
  const std::vector<std::string> model = {
      "--model", "gpt-nano", "--batch", "2", "--seq", "16", "--threads", "1"};
  const std::vector<std::string> optimizations = {
      "--recompute", "auto", "--recompute-always", "h.0.mlp.gelu"};
  const auto with = [](std::vector<std::string> all,
                       const std::vector<std::string>& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Outcome outcome = RunStowage(
      with(with(with({"time", "--data", text, "--device", "cpu", "--steps", "2",
                      "--json"},
                     model),
                optimizations),
           {"--op-times", WriteTemp("some.times", kByBytes), "-o", file}));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json json = Json::parse(outcome.out);
  CHECK(json["extra_time_percent"].is_number());
  CHECK(json["predicted_extra_time_percent"] > 0);

  // The file has the ops of both steps, each in its own arena.
  const Json given = PlanAsJson(with(model, {"--op-times", file}));
  const Json made =
      PlanAsJson(with(with(model, optimizations), {"--op-times", file}));
  CHECK(made["recomputed_nodes"] > 0);
  CHECK(made["arena_bytes"] != given["arena_bytes"]);
  std::set<int64_t> arenas;
  std::istringstream rows(ReadAll(file));
  std::string line;
  std::getline(rows, line);
  while (std::getline(rows, line)) arenas.insert(std::stoll(line));
  CHECK(arenas == std::set<int64_t>{given["arena_bytes"], made["arena_bytes"]});
  CHECK(given["predicted_extra_time_percent"] == 0);
  // Each is predicted by its own rows.
  CHECK(made["predicted_step_seconds"] == json["ops_seconds"]);
  CHECK(
      made["predicted_extra_time_percent"].get<double>() ==
      doctest::Approx(100 * (made["predicted_step_seconds"].get<double>() /
                                 given["predicted_step_seconds"].get<double>() -
                             1)));
  CHECK(made["recompute_least_time_percent"] <=
        made["predicted_extra_time_percent"]);
}

TEST_CASE("--svg draws a plan, too") {
  const std::string svg = TempPath("plan.svg");
  PlanAsJson({"--model", "mlp", "--svg", svg});
  CHECK(ReadAll(svg).find("<rect class=\"buffer\"") != std::string::npos);
}

TEST_CASE("files that hold no times are refused") {
  const std::string bad = WriteTemp("bad.times", "stowage-op-times 2\nfast\n");
  const Outcome outcome =
      RunStowage({"plan", "--model", "mlp", "--op-times", bad});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.starts_with("stowage: [op-times] line 2: expected bytes"));
  CHECK(outcome.err.find(StrCat("; in \"", bad, "\"")) != std::string::npos);
  const Outcome missing =
      RunStowage({"plan", "--model", "mlp", "--op-times", "/nowhere"});
  CHECK(missing.exit_code == 2);
  CHECK(missing.err.starts_with("stowage: [file] \"/nowhere\""));
}

}  // namespace
}  // namespace stowage::testing
