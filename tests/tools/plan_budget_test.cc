// How `stowage plan` meets budgets: by order, micro-batches, recomputation and the host's memory,
// and what it says where they are not met.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "tests/support/instances.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

TEST_CASE("the order for memory needs less, and a plan of it is valid") {
  const Json given = PlanAsJson({"--model", "mlp"});
  const std::string file = TempPath("ordered.plan");
  const Json plan =
      PlanAsJson({"--model", "mlp", "--order", "memory", "-o", file});
  CHECK(given["order_bound_bytes"].is_null());
  CHECK(plan["order"] == "memory");
  CHECK(plan["valid"] == true);
  CHECK(plan["nodes"] == given["nodes"]);
  CHECK(plan["arena_bytes"] < given["arena_bytes"]);
  CHECK(plan["order_bound_bytes"] <= plan["arena_bytes"]);
  CHECK(RunStowage({"check", file}).exit_code == 0);
}

TEST_CASE("the order for memory moves what fits" *
          doctest::skip(!TakesAllInstances())) {
  // No more micro-batches than without the order. A small batch splits in few ways.
  CHECK(PlanAsJson({"--model", "mlp", "--batch", "4", "--order", "memory",
                    "--micro-batches", "auto"})["micro_batches"] == 1);

  const Json plan = PlanAsJson({"--model", "mlp", "--order", "memory"});
  const std::string budget = StrCat(plan["arena_bytes"].get<int64_t>());
  CHECK(PlanAsJson({"--model", "mlp", "--order", "memory", "--budget",
                    budget})["fits"] == true);
}

TEST_CASE("a refusal names what the order for memory reaches") {
  const Json ordered =
      PlanAsJson({"--model", "mlp", "--batch", "4", "--order", "memory"});
  const int64_t need = ordered["arena_bytes"];
  const Outcome refused =
      RunStowage({"plan", "--model", "mlp", "--batch", "4", "--order", "memory",
                  "--budget", StrCat(need - 1), "--fit", "none", "--json"});
  CHECK(refused.exit_code == 1);
  const Json json = Json::parse(refused.out);
  CHECK(json["minimum_budget_bytes"] == need);
  CHECK(json["minimum_budgets"]["none"] == need);
  CHECK_MESSAGE(refused.err.find(
                    StrCat("(", need, " bytes) with nodes in another order")) !=
                    std::string::npos,
                refused.err);
}

TEST_CASE("the smallest budget works, and one byte less does not") {
  const int64_t need = PlanAsJson({"--model", "mlp"})["minimum_budget_bytes"];
  const Json plan = PlanAsJson({"--model", "mlp", "--budget", StrCat(need)});
  CHECK(plan["budget_bytes"] == need);
  CHECK(plan["fits"] == true);

  const Outcome refused =
      RunStowage({"plan", "--model", "mlp", "--budget", StrCat(need - 1),
                  "--fit", "none", "--json"});
  CHECK(refused.exit_code == 1);
  CHECK(Json::parse(refused.out)["minimum_budget_bytes"] == need);
  CHECK(refused.err.find("largest live: ") != std::string::npos);
}

TEST_CASE("a budget is answered in the unit that it was asked in") {
  const auto answer = [](const char* budget) {
    const Outcome outcome = RunStowage(
        {"plan", "--model", "mlp", "--budget", budget, "--fit", "none"});
    CHECK(outcome.exit_code == 1);
    return outcome.err;
  };
  const std::string tens = answer("100KB");
  CHECK(tens.find("budget 100.0 KB is below the ") != std::string::npos);
  CHECK(tens.find("iB") == std::string::npos);
  CHECK(answer("100KiB").find("budget 100.0 KiB is below the ") !=
        std::string::npos);
  CHECK(answer("102400").find("budget 100.0 KiB is below the ") !=
        std::string::npos);
}

TEST_CASE("with --json an infeasible budget is told in JSON, and exits 1") {
  const Outcome outcome = RunStowage({"plan", "--model", "mlp", "--budget",
                                      "100KiB", "--fit", "none", "--json"});
  CHECK(outcome.exit_code == 1);
  const Json json = Json::parse(outcome.out);
  CHECK(json["budget_bytes"] == 102400);
  CHECK(json["fits"] == false);
  CHECK(json["minimum_budget_bytes"] > 102400);
  CHECK(json["minimum_budgets"]["none"] == json["minimum_budget_bytes"]);
  CHECK(json["minimum_budgets"]["recompute"] <= json["minimum_budget_bytes"]);
  CHECK(json["minimum_budgets"]["micro_batches"] <=
        json["minimum_budget_bytes"]);
  CHECK(json["peak_node"].is_string());
  CHECK(json["peak_live"].size() > 0);
  const std::string error = json["error"];
  CHECK(error.starts_with("[plan] budget 100.0 KiB is below the "));
  CHECK(outcome.err == StrCat("stowage: ", error, "\n"));
}

TEST_CASE(
    "a batch in micro-batches fits a budget that the whole batch misses") {
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"plan",    "--model", "gpt-nano",
                                          "--batch", "12",      "--seq",
                                          "64",      "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = RunStowage(arguments);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    return Json::parse(outcome.out);
  };
  const Json whole = with({});
  CHECK(whole["micro_batches"] == 1);
  const Json three = with({"--micro-batches", "3"});
  CHECK(three["micro_batches"] == 3);
  CHECK(three["valid"] == true);
  CHECK(three["arena_bytes"] < whole["arena_bytes"]);
  // 1, 2, 4, 8 and 12 micro-batches are tried; the fewest that fit are taken.
  const Json two = with({"--micro-batches", "2"});
  CHECK(two["arena_bytes"] < whole["arena_bytes"]);
  const Json chosen =
      with({"--micro-batches", "auto", "--budget", two["arena_bytes"].dump()});
  CHECK(chosen["micro_batches"] == 2);
  CHECK(chosen["arena_bytes"] == two["arena_bytes"]);
  const Json unneeded = with(
      {"--micro-batches", "auto", "--budget", whole["arena_bytes"].dump()});
  CHECK(unneeded["micro_batches"] == 1);
}

TEST_CASE("micro-batches and the host's memory work together" *
          doctest::skip(!TakesAllInstances())) {
  for (const char* micro_batches : {"4", "auto"}) {
    CAPTURE(micro_batches);
    // Less than the weights, the states and the sums of gradients.
    const Json plan =
        PlanAsJson({"--model", "gpt-nano", "--batch", "8", "--seq", "32",
                    "--offload", "auto", "--micro-batches", micro_batches,
                    "--budget", "9MB", "--threads", "2"});
    CHECK(plan["fits"] == true);
    CHECK(plan["arena_bytes"] <= 9'000'000);
    CHECK(plan["offloaded_values"] > 0);
    CHECK(plan["micro_batches"] > 1);
    CHECK(plan["valid"] == true);
  }
}

TEST_CASE("recomputation fits a budget that keeping everything misses") {
  const std::vector<std::string> nano = {"--model", "gpt-nano", "--batch",
                                         "4",       "--seq",    "32"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), nano.begin(), nano.end());
    return more;
  };
  const Json given = PlanAsJson(nano);
  const int64_t need = given["arena_bytes"];
  const Json any = PlanAsJson(with({"--recompute", "auto"}));
  CHECK(any["recompute"] == "auto");
  CHECK(any["arena_bytes"] == need);  // no budget, nothing to gain
  CHECK(any["recomputed_nodes"] == 0);
  const int64_t smallest = any["minimum_budget_bytes"];
  CHECK(smallest < need);

  const std::string file = TempPath("recomputed.plan");
  const Json least = PlanAsJson(
      with({"--recompute", "auto", "--budget", StrCat(smallest), "-o", file}));
  CHECK(least["fits"] == true);
  CHECK(least["arena_bytes"] == smallest);
  CHECK(least["valid"] == true);
  CHECK(least["recomputed_nodes"] > 0);
  CHECK(least["recompute_flops_percent"] > 0);
  CHECK(least["recompute_least_flops_percent"] <=
        least["recompute_flops_percent"]);
  CHECK(least["nodes"] > given["nodes"]);
  double percent = 0;
  int64_t times = 0;
  for (const Json& recomputed : least["recomputed"]) {
    CHECK(recomputed["bytes_freed"] >= 0);
    percent += recomputed["flops_percent"].get<double>();
    times += recomputed["times"].get<int64_t>();
  }
  CHECK(percent ==
        doctest::Approx(least["recompute_flops_percent"].get<double>()));
  CHECK(times <= least["recomputed_nodes"]);
  CHECK(RunStowage({"check", file}).exit_code == 0);

  if (!TakesAllInstances()) return;  // the same search with another limit
  // Cheap stays under 1 %, and so needs more bytes.
  const Json cheap = PlanAsJson(with({"--recompute", "cheap"}));
  CHECK(cheap["minimum_budget_bytes"] > smallest);
  CHECK(cheap["minimum_budget_bytes"] < need);
  const Json fits =
      PlanAsJson(with({"--recompute", "cheap", "--budget",
                       StrCat(cheap["minimum_budget_bytes"].get<int64_t>())}));
  CHECK(fits["recompute_flops_percent"] <= 1);
  CHECK(fits["fits"] == true);
}

TEST_CASE("a refusal names the smallest budget with recomputation" *
          doctest::skip(!TakesAllInstances())) {
  const Json any = PlanAsJson({"--model", "gpt-nano", "--batch", "4", "--seq",
                               "32", "--recompute", "auto"});
  const int64_t smallest = any["minimum_budget_bytes"];
  for (const char* recompute : {"none", "auto"}) {
    const Outcome refused = RunStowage(
        {"plan", "--model", "gpt-nano", "--batch", "4", "--seq", "32",
         "--recompute", recompute, "--budget", StrCat(smallest - 1), "--json"});
    CHECK(refused.exit_code == 1);
    const Json json = Json::parse(refused.out);
    CHECK(json["minimum_budgets"]["none"] == any["arena_bytes"]);
    CHECK(json["minimum_budgets"]["recompute"] == smallest);
    CHECK(json["minimum_budget_bytes"] ==
          json["minimum_budgets"]
              [std::string(recompute) == "none" ? "none" : "recompute"]);
    CHECK(refused.err.find(StrCat(" (", smallest, " bytes) with recompute")) !=
          std::string::npos);
  }
}

TEST_CASE("values named on the command line are kept or recomputed" *
          doctest::skip(!TakesAllInstances())) {
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"--model", "gpt-nano", "--batch",
                                          "4",       "--seq",    "32"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const auto recomputed = [](const Json& plan) {
    std::vector<std::string> names;
    for (const Json& entry : plan["recomputed"]) names.push_back(entry["name"]);
    return names;
  };
  using Names = std::vector<std::string>;
  // Without a budget nothing runs again but what is named.
  const Json named =
      PlanAsJson(with({"--recompute", "auto", "--recompute-always",
                       "h.0.mlp.gelu", "--recompute-always", "h.2.mlp.gelu"}));
  CHECK(recomputed(named) == Names{"h.0.mlp.gelu", "h.2.mlp.gelu"});
  CHECK(named["recomputed_nodes"] == 2);

  const int64_t smallest =
      PlanAsJson(with({"--recompute", "auto"}))["minimum_budget_bytes"];
  const Json keeping = PlanAsJson(
      with({"--recompute", "auto", "--recompute-keep", "h.0.mlp.gelu"}));
  const int64_t with_it = keeping["minimum_budget_bytes"];
  CHECK(with_it >= smallest);
  const Names kept = recomputed(
      PlanAsJson(with({"--recompute", "auto", "--recompute-keep",
                       "h.0.mlp.gelu", "--budget", StrCat(with_it)})));
  CHECK(std::ranges::count(kept, "h.0.mlp.gelu") == 0);
  CHECK(std::ranges::count(kept, "h.1.mlp.gelu") == 1);

  // In every micro-batch of a batch.
  const Names micro_batches =
      recomputed(PlanAsJson(with({"--recompute", "cheap", "--micro-batches",
                                  "2", "--recompute-always", "h.1.mlp.gelu"})));
  CHECK(micro_batches == Names{"h.1.mlp.gelu/1", "h.1.mlp.gelu/2"});
}

TEST_CASE("--offload fits a budget that the arena alone misses" *
          doctest::skip(!TakesAllInstances())) {
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"--model", "gpt-nano", "--batch",
                                          "2",       "--seq",    "32"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const Json any = PlanAsJson(with({"--offload", "auto"}));
  CHECK(any["offload"] == "auto");
  CHECK(any["host_bytes"] == 0);
  CHECK(any["offloaded_values"] == 0);
  CHECK(any["offload_bytes_per_step"] == 0);
  const int64_t need = any["arena_bytes"];
  const int64_t smallest = any["minimum_budget_bytes"];
  // Of weights and two states as large, the states can go.
  CHECK(smallest < need / 2);

  const std::string file = TempPath("offloaded.plan");
  const Json least = PlanAsJson(
      with({"--offload", "auto", "--budget", StrCat(smallest), "-o", file}));
  CHECK(least["arena_bytes"] <= smallest);
  CHECK(least["valid"] == true);
  CHECK(least["recomputed_nodes"] == 0);
  CHECK(least["regions"]["state"] == 0);
  CHECK(least["host_bytes"] > any["regions"]["state"]);
  CHECK(least["offloaded_values"] > 0);
  // Each state is reloaded and offloaded, padding not copied.
  CHECK(least["offload_bytes_per_step"] > 0);
  const Outcome checked = RunStowage({"check", file});
  CHECK(checked.exit_code == 0);
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = with(std::move(more));
    arguments.insert(arguments.begin(), "plan");
    return RunStowage(arguments);
  };
  const Outcome text = run({"--offload", "auto", "--budget", StrCat(smallest)});
  CHECK(text.out.find("| host memory ") != std::string::npos);
  CHECK(text.out.find("kept outside the arena, in ") != std::string::npos);

  const Outcome refused =
      run({"--offload", "auto", "--budget", StrCat(smallest - 1), "--json"});
  CHECK(refused.exit_code == 1);
  const Json json = Json::parse(refused.out);
  CHECK(json["minimum_budget_bytes"] == smallest);
  CHECK(json["minimum_budgets"]["none"] == need);
  CHECK(json["minimum_budgets"]["offload"] == smallest);
  CHECK(json["minimum_budgets"]["all"] <= smallest);
  CHECK(refused.err.find(StrCat(" (", smallest, " bytes) with offload")) !=
        std::string::npos);
}

TEST_CASE(
    "a refusal tells what each optimization alone would do, and all together" *
    doctest::skip(!TakesAllInstances())) {
  const std::vector<std::string> micro_batches = {"--micro-batches", "auto"};
  const std::vector<std::string> recompute = {"--recompute", "auto"};
  const std::vector<std::string> offload = {"--offload", "auto"};
  const auto with =
      [](const std::vector<std::vector<std::string>>& optimizations) {
        std::vector<std::string> all = {"--model", "mlp", "--batch", "512"};
        for (const auto& flags : optimizations) {
          all.insert(all.end(), flags.begin(), flags.end());
        }
        return all;
      };
  const auto smallest = [&](const std::vector<std::vector<std::string>>& of) {
    return PlanAsJson(with(of))["minimum_budget_bytes"].get<int64_t>();
  };
  const Json expected = {
      {"none", smallest({})},
      {"recompute", smallest({recompute})},
      {"micro_batches", smallest({micro_batches})},
      {"offload", smallest({offload})},
      {"all", smallest({recompute, micro_batches, offload})}};
  std::set<int64_t> different;
  for (const auto& [optimization, bytes] : expected.items())
    different.insert(bytes.get<int64_t>());
  CHECK(different.size() == 5);
  // Whatever is allowed.
  for (const auto& optimizations : {std::vector<std::vector<std::string>>{},
                                    {micro_batches},
                                    {recompute, offload}}) {
    std::vector<std::string> arguments = with(optimizations);
    arguments.insert(arguments.begin(), "plan");
    if (optimizations.empty())
      arguments.insert(arguments.end(), {"--fit", "none"});
    arguments.insert(arguments.end(), {"--budget", "10000", "--json"});
    const Outcome refused = RunStowage(arguments);
    CHECK(refused.exit_code == 1);
    CHECK(Json::parse(refused.out)["minimum_budgets"] == expected);
  }
}

TEST_CASE("a budget by itself makes the step fit, and --fit narrows by what") {
  const auto with = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--model", "gpt-nano", "--batch",
                                          "4",       "--seq",    "32"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const auto smallest = [&](const std::vector<std::string>& more) {
    return PlanAsJson(with(more))["minimum_budget_bytes"].get<int64_t>();
  };
  const int64_t all = smallest({"--fit", "auto"});
  CHECK(all == smallest({"--recompute", "auto", "--offload", "auto",
                         "--micro-batches", "auto"}));
  CHECK(smallest({"--fit", "recompute,offload"}) ==
        smallest({"--recompute", "auto", "--offload", "auto"}));
  CHECK(smallest({"--fit", "micro-batches"}) ==
        smallest({"--micro-batches", "auto"}));
  CHECK(smallest({"--fit", "none"}) == smallest({}));

  const Json fitted = PlanAsJson(with({"--budget", StrCat(all)}));
  CHECK(fitted["fits"] == true);
  CHECK(fitted["arena_bytes"] <= all);
  const Json as_written = PlanAsJson(with({}));
  CHECK(fitted["no_reuse_bytes"] == as_written["no_reuse_bytes"]);
  // Micro-batches that are asked for are no step as it is written either.
  CHECK(PlanAsJson(with({"--micro-batches", "2"}))["no_reuse_bytes"] ==
        as_written["no_reuse_bytes"]);
  std::vector<std::string> none =
      with({"--budget", StrCat(all), "--fit", "none"});
  none.insert(none.begin(), "plan");
  const Outcome refused = RunStowage(none);
  CHECK(refused.exit_code == 1);
  for (const std::string flag :
       {"none", "recompute", "micro-batches", "offload", "auto"}) {
    CHECK_MESSAGE(
        refused.err.find(StrCat(" with --fit ", flag)) != std::string::npos,
        refused.err);
  }
  CHECK(refused.err.find(StrCat("(", all, " bytes) with --fit auto")) !=
        std::string::npos);
  // What the step needs as it is written, whatever is allowed.
  std::vector<std::string> tight = with({"--budget", StrCat(all - 1)});
  tight.insert(tight.begin(), "plan");
  const Outcome too_small = RunStowage(tight);
  CHECK(too_small.exit_code == 1);
  const std::string need =
      FormatBytes(as_written["arena_bytes"].get<int64_t>());
  CHECK_MESSAGE(too_small.err.find(StrCat("below the ", need, " this step")) !=
                    std::string::npos,
                too_small.err);
}

TEST_CASE(
    "a refused budget names options that the smallest budgets work with") {
  struct Case {
    std::vector<std::string> step, narrow;
  };
  const Case cases[] = {
      {{"plan", "--model", "mlp", "--batch", "64", "--no-plan-cache"},
       {"--micro-batches", "2", "--fit", "auto"}},
      {{"plan", "--model", "gpt-nano", "--batch", "2", "--seq", "32",
        "--no-plan-cache"},
       {"--recompute", "cheap"}}};
  for (const auto& [step, narrow] : cases) {
    std::vector<std::string> asked = step;
    asked.insert(asked.end(), narrow.begin(), narrow.end());
    asked.insert(asked.end(), {"--budget", "1"});
    const Outcome refused = RunStowage(asked);
    REQUIRE(refused.exit_code == 1);
    const size_t at = refused.err.find("; the smallest budgets: ");
    REQUIRE(at != std::string::npos);
    // "27.0 MiB (27748096 bytes) with --fit none, ..."
    std::istringstream rows(refused.err.substr(at));
    int tried = 0;
    for (std::string row; std::getline(rows, row, ',');) {
      INFO(row);
      const size_t begin = row.find('(') + 1, with = row.find(" with ");
      REQUIRE(with != std::string::npos);
      const int64_t bytes = std::stoll(row.substr(begin));
      std::istringstream words(row.substr(with + 6));
      std::vector<std::string> flags;
      for (std::string word; words >> word;) flags.push_back(word);
      REQUIRE(flags.size() >= 2);
      // As a user would change what was asked; --fit none takes no other choice.
      const bool is_none = flags[1] == "none";
      std::vector<std::string> given = step;
      for (size_t i = 0; i < narrow.size(); i += 2) {
        if (std::ranges::find(flags, narrow[i]) != flags.end()) continue;
        if (is_none && narrow[i] == "--recompute") continue;
        given.insert(given.end(), {narrow[i], narrow[i + 1]});
      }
      given.insert(given.end(), flags.begin(), flags.end());
      given.insert(given.end(), {"--budget", StrCat(bytes)});
      CHECK(RunStowage(given).exit_code == 0);
      ++tried;
    }
    CHECK(tried == 5);
  }
}

TEST_CASE("--max plans the largest setting that fits, and says why not more") {
  const auto with = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"plan", "--model", "gpt-nano",
                                          "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunStowage(arguments);
  };
  const auto fits = [&](std::vector<std::string> more, const char* option,
                        int64_t value) {
    more.insert(more.end(), {option, StrCat(value)});
    return with(more).exit_code == 0;
  };
  struct Row {
    const char *setting, *option;
    std::vector<std::string> others;
    int64_t step = 1;
  };
  const Row rows[] = {
      {"batch",
       "--batch",
       {"--seq", "16", "--fit", "none", "--budget", "14MB"}},
      {"batch",
       "--batch",
       {"--seq", "16", "--fit", "recompute,offload", "--budget", "6MB"}},
      {"batch",
       "--batch",
       {"--seq", "16", "--fit", "none", "--ranks", "2", "--budget", "14MB"},
       2},
      {"seq", "--seq", {"--batch", "2", "--fit", "none", "--budget", "14MB"}},
      {"lora-rank",
       "--lora-rank",
       {"--batch", "2", "--seq", "16", "--fit", "none", "--budget", "8MB"}},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.setting));
    std::vector<std::string> arguments = row.others;
    arguments.insert(arguments.end(), {"--max", row.setting});
    const Outcome outcome = with(arguments);
    REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
    const Json plan = Json::parse(outcome.out);
    CHECK(plan["fits"] == true);
    CHECK(plan["largest"]["setting"] == row.setting);
    const auto value = plan["largest"]["value"].get<int64_t>();
    CHECK(value > 1);
    if (row.setting != std::string("lora-rank")) {
      CHECK(plan[row.setting] == value);
    }
    CHECK(fits(row.others, row.option, value));
    CHECK(value % row.step == 0);
    CHECK(plan["largest"]["next"] == value + row.step);
    std::vector<std::string> next = row.others;
    next.insert(next.end(), {row.option, StrCat(value + row.step)});
    const Outcome refused = with(next);
    CHECK(refused.exit_code != 0);
    CHECK(Json::parse(refused.out)["minimum_budget_bytes"] ==
          plan["largest"]["next_minimum_budget_bytes"]);
  }
  // Beyond what the model takes there is no budget to name.
  const Outcome whole =
      with({"--max", "seq", "--batch", "1", "--budget", "1GB"});
  REQUIRE(whole.exit_code == 0);
  CHECK(Json::parse(whole.out)["largest"]["value"] == 256);
  CHECK(
      Json::parse(whole.out)["largest"]["next_refusal"].get<std::string>().find(
          "out of range") != std::string::npos);
  // In micro-batches of one size.
  const Outcome split = with({"--max", "batch", "--seq", "16", "--budget",
                              "16MB", "--micro-batches", "3"});
  REQUIRE(split.exit_code == 0);
  CHECK(Json::parse(split.out)["largest"]["value"].get<int64_t>() % 3 == 0);
  const std::pair<std::vector<std::string>, const char*> refused[] = {
      {{"--max", "depth", "--budget", "9MB"}, "there is no setting \"depth\""},
      {{"--max", "batch"}, "nothing bounds the batch; give --budget"},
      {{"--max", "seq", "--seq", "8", "--budget", "9MB"},
       "--seq 8 is given, and --max seq looks for it"},
      {{"--max", "batch", "--batch", "4", "--budget", "9MB"},
       "--batch 4 is given, and --max batch looks for it"},
      {{"--max", "batch", "--fit", "auto", "--budget", "9MB"},
       "any batch fits; give --micro-batches a number"},
      {{"--max", "batch", "--budget", "1MB"},
       "[max] batch: [largest] the least value, 1, needs "},
  };
  for (const auto& [more, message] : refused) {
    const Outcome outcome = with(more);
    CHECK(outcome.exit_code != 0);
    CHECK_MESSAGE(outcome.err.find(message) != std::string::npos, outcome.err);
  }
}

TEST_CASE("--pareto lists budgets by falling bytes and rising cost") {
  const Outcome outcome =
      RunStowage({"plan", "--model", "gpt-nano", "--batch", "4", "--seq", "32",
                  "--recompute", "auto", "--pareto", "--json"});
  REQUIRE(outcome.exit_code == 0);
  const Json frontier = Json::parse(outcome.out)["frontier"];
  REQUIRE(frontier.size() > 2);
  CHECK(frontier[0]["recompute_flops_percent"] == 0);
  for (size_t k = 1; k < frontier.size(); ++k) {
    CHECK(frontier[k]["budget_bytes"] < frontier[k - 1]["budget_bytes"]);
    CHECK(frontier[k]["recompute_flops_percent"] >
          frontier[k - 1]["recompute_flops_percent"]);
    CHECK(frontier[k]["recompute_least_flops_percent"] <=
          frontier[k]["recompute_flops_percent"]);
  }
  const Json smallest = PlanAsJson({"--model", "gpt-nano", "--batch", "4",
                                    "--seq", "32", "--recompute", "auto"});
  CHECK(frontier.back()["budget_bytes"] == smallest["minimum_budget_bytes"]);
}

TEST_CASE("--fit-optimizer tells what the step takes with each optimizer") {
  const std::vector<std::string> of_nano = {"--model",   "gpt-nano", "--batch",
                                            "2",         "--dtype",  "bf16",
                                            "--threads", "2"};
  std::vector<std::string> arguments = of_nano;
  arguments.insert(arguments.end(),
                   {"--budget", "10MB", "--fit", "none", "--fit-optimizer"});
  const Json told = PlanAsJson(arguments);
  CHECK(told["budget_bytes"] == 10000000);
  std::map<std::string, Json> lines;
  for (const Json& line : told["optimizers"]) {
    const std::string name = line["optimizer"];
    lines[name] = line;
    CAPTURE(name);
    CHECK(line["fits"] == (line["arena_bytes"] <= 10000000));
    if (name != "adamw8bit" && name != "adamw") continue;
    // What is told is what a plan with that optimizer has.
    std::vector<std::string> chosen = of_nano;
    chosen.insert(chosen.end(), {"--optimizer", name});
    const Json plan = PlanAsJson(chosen);
    CHECK(line["arena_bytes"] == plan["arena_bytes"]);
    CHECK(line["bytes_per_param"] == plan["bytes_per_param"]);
  }
  CHECK(lines.size() == 20);
  CHECK(lines["adamw8bit"]["fits"] == true);
  CHECK(lines["adamw"]["fits"] == false);
  const Json& bytes = lines["adamw8bit"]["bytes_per_param"];
  CHECK(bytes["weights"] == doctest::Approx(2).epsilon(0.01));
  // A byte of the weight, two of moments, and 1/32 of scales; some params are small.
  CHECK(bytes["states"] > 3.03);
  CHECK(bytes["states"] < 3.2);
  CHECK(bytes["gradients"] > 0);
  CHECK(bytes["total"] < 7);
  CHECK(lines["adamw"]["bytes_per_param"]["states"] ==
        doctest::Approx(10).epsilon(0.01));
  // What a bf16 weight lacks of an f32, and little more; and a whole moment.
  CHECK(lines["adafactor"]["bytes_per_param"]["states"] ==
        doctest::Approx(2.05).epsilon(0.02));
  CHECK(lines["lion"]["bytes_per_param"]["states"] ==
        doctest::Approx(6).epsilon(0.01));
}

TEST_CASE("--pareto lists what is kept on the host, where that is allowed" *
          doctest::skip(!TakesAllInstances())) {
  std::vector<std::string> arguments = {
      "plan", "--model", "gpt-nano", "--batch", "4", "--seq", "32", "--pareto"};
  const Outcome without = RunStowage(arguments);
  REQUIRE(without.exit_code == 0);
  CHECK(without.out.find("bytes copied") == std::string::npos);
  const std::string svg = TempPath("copies.svg");
  arguments.insert(arguments.end(), {"--offload", "auto", "--svg", svg});
  const Outcome table = RunStowage(arguments);
  REQUIRE(table.exit_code == 0);
  CHECK(table.out.find("micro-batches    bytes copied\n") != std::string::npos);
  CHECK(ReadAll(svg).find(" values on the host, ") != std::string::npos);
  // Nothing runs again, and copies are no operations.
  const auto count = [&](const std::string& text) {
    const std::string image = ReadAll(svg);
    int found = 0;
    for (size_t at = 0; (at = image.find(text, at)) != std::string::npos;) {
      ++found;
      at += text.size();
    }
    return found;
  };
  CHECK(count(" % more operations, at least ") > 10);
  CHECK(count("\n0.000 % more operations, at least 0.000 %\n") ==
        count(" % more operations, at least "));
  arguments.push_back("--json");
  const Json frontier = Json::parse(RunStowage(arguments).out)["frontier"];
  CHECK(frontier.front()["offloaded_values"] == 0);
  const Json& last = frontier.back();
  CHECK(last["offloaded_values"] > 0);
  const Json plan = PlanAsJson({"--model", "gpt-nano", "--batch", "4", "--seq",
                                "32", "--offload", "auto", "--budget",
                                StrCat(last["budget_bytes"].get<int64_t>())});
  for (const char* field :
       {"offloaded_values", "offload_bytes_per_step", "recomputed_nodes"}) {
    CHECK(plan[field] == last[field]);
  }
  // One line for each, and the heading.
  CHECK(std::ranges::count(table.out, '\n') ==
        static_cast<std::ptrdiff_t>(frontier.size()) + 1);
}

TEST_CASE("names mean on GPUs what they mean elsewhere") {
  // Of a bias that is named the sum alone runs again, not its product.
  const Json recomputed =
      PlanAsJson({"--model", "gpt-nano", "--dtype", "bf16", "--recompute",
                  "auto", "--recompute-always", "h.0.mlp.c_fc"});
  CHECK(recomputed["recomputed_nodes"] > 0);
  CHECK(recomputed["recompute_flops_percent"] < 0.1);
  // What is named in one micro-batch of several kinds changes no other micro-batch.
  const Json micro_batches = PlanAsJson(
      {"--model", "gpt-nano", "--dtype", "bf16", "--batch", "9",
       "--micro-batches", "4", "--recompute", "auto", "--budget", "16MiB",
       "--threads", "2", "--recompute-keep", "h.0.mlp.c_fc.matmul/2"});
  CHECK(micro_batches["arena_bytes"] <= 16 << 20);
}

}  // namespace
}  // namespace stowage::testing
