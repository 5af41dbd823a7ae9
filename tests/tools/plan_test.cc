#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

TEST_CASE("plan --ranks tells what each rank needs, sends and waits for") {
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"--model",   "mlp",         "--batch",
                                          "256",       "--recompute", "none",
                                          "--offload", "none"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const Json alone = PlanAsJson(with({}));
  CHECK(alone["ranks"] == 1);
  CHECK(alone["shard"] == "none");
  CHECK(alone["wire_bytes_per_step"] == 0);
  CHECK(alone["link"].is_null());
  CHECK(alone["wire_seconds_per_step"].is_null());

  std::map<std::string, int64_t> arenas;
  for (const std::string shard : {"none", "states", "gradients", "weights"}) {
    const Json plan =
        PlanAsJson(with({"--ranks", "4", "--shard", shard, "--link", "1MB/s"}));
    CAPTURE(shard);
    CHECK(plan["ranks"] == 4);
    CHECK(plan["shard"] == shard);
    CHECK(plan["batch"] == 256);
    arenas[shard] = plan["arena_bytes_per_rank"];
    CHECK(plan["arena_bytes"] == arenas[shard]);
    const double wire = plan["wire_bytes_per_step"];
    // 26,122 params and the loss: 3/4 of them out and 3/4 of the sums; of split weights
    // some are read twice.
    CHECK(wire >= 2 * 0.75 * 4 * 26122);
    CHECK(wire <= (shard == "weights" ? 3 : 2.001) * 0.75 * 4 * 26122);
    CHECK(plan["wire_seconds_per_step"].get<double>() ==
          doctest::Approx(wire / 1e6));
  }
  CHECK(arenas["none"] < alone["arena_bytes"]);  // a quarter of the batch
  CHECK(arenas["states"] < arenas["none"]);
  CHECK(arenas["gradients"] <= arenas["states"]);
  CHECK(arenas["weights"] < arenas["gradients"]);

  // As little sharding as fits.
  const auto sharding = [&](int64_t budget) {
    return PlanAsJson(with({"--ranks", "4", "--shard", "auto", "--budget",
                            std::to_string(budget)}))["shard"];
  };
  CHECK(sharding(arenas["none"]) == "none");
  CHECK(sharding(arenas["none"] - 1) == "states");
  CHECK(sharding(arenas["weights"]) == "weights");
  std::vector<std::string> refused =
      with({"--ranks", "4", "--shard", "auto", "--budget", "10KiB", "--json"});
  refused.insert(refused.begin(), "plan");
  const Outcome outcome = RunStowage(refused);
  CHECK(outcome.exit_code == 1);
  CHECK(Json::parse(outcome.out)["shard"] == "weights");

  const auto error = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"plan", "--model", "mlp"});
    const Outcome wrong = RunStowage(arguments);
    CHECK(wrong.exit_code == 2);
    return wrong.err;
  };
  CHECK(error({"--shard", "states"})
            .find("one rank has nothing to split by --shard states") !=
        std::string::npos);
  CHECK(error({"--ranks", "2", "--link", "string"})
            .find("[link] there is no link \"string\"; expected 1GbE, ") !=
        std::string::npos);
  CHECK(error({"--ranks", "65"}).find("65 ranks take a batch of 64") !=
        std::string::npos);
}

TEST_CASE("plan --json has every field, and figures that agree") {
  const Json plan = PlanAsJson({"--model", "mlp", "--batch", "32"});
  CHECK(plan["model"] == "mlp");
  // 64 -> 128 -> 128 -> 10, with biases.
  CHECK(plan["params"] == 64 * 128 + 128 + 128 * 128 + 128 + 128 * 10 + 10);
  CHECK(plan["batch"] == 32);
  CHECK(plan["seq"].is_null());
  CHECK(plan["dtype"] == "f32");
  CHECK(plan["optimizer"] == "adamw");
  const int64_t arena = plan["arena_bytes"];
  int64_t sum = 0;
  for (const char* region :
       {"weights", "state", "io", "activations", "workspace"}) {
    sum += plan["regions"][region].get<int64_t>();
  }
  CHECK(sum == arena);
  CHECK(plan["lower_bound_bytes"] <= arena);
  CHECK(plan["no_reuse_bytes"] >= arena);
  CHECK(plan["saved_bytes"] == plan["no_reuse_bytes"].get<int64_t>() - arena);
  CHECK(plan["caching_allocator_bytes"] > 0);
  // Weights, padded to slots, and AdamW's two moments of each.
  CHECK(plan["regions"]["weights"] >= 4 * plan["params"].get<int64_t>());
  CHECK(plan["regions"]["state"] ==
        2 * plan["regions"]["weights"].get<int64_t>());
  CHECK(plan["nodes"] > 0);
  CHECK(plan["buffers"] > 0);
  CHECK(plan["views"] >= 0);
  CHECK(plan["in_place"] >= 0);
  CHECK(plan["peak_time"] >= 0);
  CHECK(plan["peak_node"].is_string());
  CHECK(plan["peak_live"].size() > 0);
  for (const char* field : {"name", "bytes", "region"}) {
    CHECK(plan["peak_live"][0].contains(field));
  }
  CHECK(plan["packer"].is_string());
  CHECK(plan["order"] == "given");
  CHECK(plan["optimal"] == (plan["lower_bound_bytes"] == arena));
  CHECK(plan["recompute"] == "none");
  CHECK(plan["recomputed_nodes"] == 0);
  CHECK(plan["recompute_flops_percent"] == 0);
  CHECK(plan["micro_batches"] == 1);
  CHECK(plan["budget_bytes"].is_null());
  CHECK(plan["fits"] == true);
  CHECK(plan["minimum_budget_bytes"] == arena);
  CHECK(plan["plan_seconds"] >= 0);
  CHECK(plan["valid"] == true);
}

// Of the passes, in the order in which they ran.
std::vector<std::string> PassNames(const Json& plan) {
  std::vector<std::string> names;
  for (const Json& pass : plan["passes"]) names.push_back(pass["name"]);
  return names;
}

TEST_CASE("--explain lists the passes in order, with the arena after each") {
  const std::vector<std::string> mlp = {
      "plan", "--model",  "mlp",    "--recompute", "auto",      "--offload",
      "auto", "--budget", "400000", "--explain",   "--threads", "2"};
  const std::vector<std::string> order = {
      "given",     "choose", "micro_batches", "offload",
      "recompute", "fuse",   "prefetch",      "validate"};
  // Anew, as a plan that was found has no passes to tell of.
  std::vector<std::string> anew = mlp;
  anew.insert(anew.end(), {"--no-plan-cache", "--json"});
  const Outcome json = RunStowage(anew);
  REQUIRE_MESSAGE(json.exit_code == 0, json.err);
  const Json plan = Json::parse(json.out);
  CHECK(PassNames(plan) == order);
  const Json& passes = plan["passes"];
  const int64_t given = PlanAsJson({"--model", "mlp"})["arena_bytes"];
  CHECK(passes.front()["arena_bytes"] == given);
  CHECK(passes.front()["applied"] == true);
  CHECK(passes.front()["changed"] == false);
  CHECK(passes[2]["applied"] == false);  // micro-batches were not allowed
  CHECK(passes[3]["applied"] == true);
  CHECK(passes[3]["changed"] == (plan["offloaded_values"] > 0));
  CHECK(passes[4]["changed"] == (plan["recomputed_nodes"] > 0));
  CHECK(plan["arena_bytes"] < given);
  CHECK(passes.back()["arena_bytes"] == plan["arena_bytes"]);
  for (const Json& pass : passes) CHECK(pass["seconds"] >= 0);

  anew.pop_back();
  const Outcome text = RunStowage(anew);
  REQUIRE(text.exit_code == 0);
  size_t at = text.out.find("pass           applied  changed ");
  REQUIRE(at != std::string::npos);
  for (const Json& pass : passes) {
    const std::string name = pass["name"];
    const std::string line = StrCat("\n", name, " ");
    INFO(name);
    at = text.out.find(line, at);
    REQUIRE(at != std::string::npos);
    const std::string row =
        text.out.substr(at + 1, text.out.find('\n', at + 1) - at - 1);
    CHECK(row.find(StrCat(" ", pass["arena_bytes"].get<int64_t>(), " ")) !=
          std::string::npos);
    CHECK((row.find(" yes ") != std::string::npos) == pass["applied"]);
  }
  // Only where it is asked for.
  CHECK(!PlanAsJson({"--model", "mlp"}).contains("passes"));
  CHECK(RunStowage({"plan", "--model", "mlp"}).out.find("\nvalidate ") ==
        std::string::npos);
}

TEST_CASE("a plan is found again where one cache is named, and is the same") {
  const std::string folder = TempPath("named_cache");
  std::filesystem::remove_all(folder);
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "plan", "--model",  "mlp",    "--recompute", "auto",      "--offload",
        "auto", "--budget", "400000", "--explain",   "--threads", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = RunStowage(arguments);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return outcome;
  };
  const auto plan = [&](const Outcome& outcome, std::string_view use) {
    Json json = Json::parse(outcome.out);
    CHECK(json["cache"] == use);
    CHECK(json["plan_seconds"] >= 0);
    for (const char* field : {"cache", "plan_seconds", "passes"}) {
      CHECK(json.erase(field) == 1);
    }
    return json;
  };
  const Json off = plan(run({"--no-plan-cache", "--json"}), "off");
  CHECK(!std::filesystem::exists(folder));
  const Outcome first = run({"--plan-cache", folder, "--json"});
  CHECK(first.err == "");
  CHECK(plan(first, "miss") == off);
  const Outcome second = run({"--plan-cache", folder, "--json"});
  CHECK(second.err == "");
  CHECK(plan(second, "hit") == off);
  const Outcome text = run({"--plan-cache", folder});
  CHECK(text.out.find(" s, found in the plan cache; smallest budget") !=
        std::string::npos);
  CHECK(
      text.out.find("\nno pass ran: the plan was found in the plan cache\n") !=
      std::string::npos);
  // Another budget is another plan, and so are other optimizations.
  plan(run({"--plan-cache", folder, "--json", "--budget", "399999"}), "miss");
  plan(run({"--plan-cache", folder, "--json", "--micro-batches", "2"}), "miss");

  // What is damaged is said, made anew, and mended.
  int damaged = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::string content = ReadAll(entry.path().string());
    content[content.size() / 2] ^= 1;
    std::ofstream(entry.path(), std::ios::binary) << content;
    ++damaged;
  }
  CHECK(damaged >= 3);
  const Outcome anew = run({"--plan-cache", folder, "--json"});
  CHECK(anew.err.starts_with("[plan cache] \""));
  CHECK(anew.err.ends_with(
      "is damaged: its digest is not what it says; it is planned anew\n"));
  CHECK(plan(anew, "miss") == off);
  const Outcome mended = run({"--plan-cache", folder, "--json"});
  CHECK(mended.err == "");
  CHECK(plan(mended, "hit") == off);
}

TEST_CASE("without --plan-cache plans are kept in the user's cache folder") {
  std::filesystem::remove_all(TempPath("cache"));
  CHECK(PlanAsJson({"--model", "mlp"})["cache"] == "miss");
  CHECK(PlanAsJson({"--model", "mlp"})["cache"] == "hit");
  CHECK(PlanAsJson({"--model", "mlp", "--no-plan-cache"})["cache"] == "off");
  CHECK(std::filesystem::exists(TempPath("cache/stowage")));
  const Outcome both = RunStowage({"plan", "--model", "mlp", "--plan-cache",
                                   TempPath("x"), "--no-plan-cache"});
  CHECK(both.exit_code == 2);
  CHECK(both.out.empty());
  // A folder that cannot be written costs a note and no plan.
  const std::string file = WriteTemp("no_folder", "");
  const Outcome noted =
      RunStowage({"plan", "--model", "mlp", "--plan-cache", file, "--json"});
  CHECK(noted.exit_code == 0);
  CHECK(noted.err.starts_with(
      StrCat("[plan cache] cannot make the folder \"", file, "\": ")));
  CHECK(Json::parse(noted.out)["cache"] == "miss");
}

TEST_CASE("--traffic tells the bytes of each family, and their sum") {
  const Json traffic = PlanAsJson({"--model", "mlp", "--traffic"})["traffic"];
  int64_t moved = 0;
  for (const Json& family : traffic["families"]) {
    moved += family["read_bytes"].get<int64_t>() +
             family["written_bytes"].get<int64_t>();
  }
  CHECK(traffic["families"].contains("products"));
  CHECK(moved > 0);
  CHECK(traffic["total_bytes"] == moved);
}

TEST_CASE("bf16 halves the weights") {
  const Json f32 = PlanAsJson({"--model", "gpt-nano"});
  const Json bf16 = PlanAsJson({"--model", "gpt-nano", "--dtype", "bf16"});
  CHECK(bf16["dtype"] == "bf16");
  CHECK(2 * bf16["regions"]["weights"].get<int64_t>() <=
        f32["regions"]["weights"].get<int64_t>() + 256 * 100);
}

TEST_CASE("the linear packer is the baseline without reuse") {
  const Json linear = PlanAsJson({"--model", "mlp", "--packer", "linear"});
  const Json greedy = PlanAsJson({"--model", "mlp", "--packer", "greedy"});
  CHECK(linear["arena_bytes"] > greedy["arena_bytes"]);
  CHECK(linear["lower_bound_bytes"] == greedy["lower_bound_bytes"]);
}

TEST_CASE("a plan file is checked and reported in every form") {
  const std::string path = TempPath("mlp.plan");
  const Json plan = PlanAsJson({"--model", "mlp", "-o", path});

  const Outcome valid = RunStowage({"check", path});
  CHECK(valid.exit_code == 0);
  CHECK(valid.out.find("valid") != std::string::npos);

  const Outcome json = RunStowage({"report", path, "--format", "json"});
  CHECK(json.exit_code == 0);
  CHECK(Json::parse(json.out)["arena_bytes"] == plan["arena_bytes"]);

  const Outcome peak =
      RunStowage({"report", path, "--format", "json", "--at-peak"});
  CHECK(peak.exit_code == 0);
  CHECK(Json::parse(peak.out)["peak_live"][0] == plan["peak_live"][0]);

  CHECK(RunStowage({"report", path}).out.find("| arena ") != std::string::npos);
  CHECK(RunStowage({"report", path, "--at-peak"}).out.find("| peak: time ") !=
        std::string::npos);
  CHECK(
      RunStowage({"report", path, "--format", "svg"}).out.starts_with("<svg "));
  CHECK(RunStowage({"report", path, "--format", "html"})
            .out.starts_with("<!DOCTYPE html>"));
  CHECK(Json::accept(RunStowage({"report", path, "--format", "trace"}).out));
  CHECK(RunStowage({"report", path, "--format", "stream"})
            .out.starts_with(StrCat("stream of \"mlp.step\": arena ",
                                    plan["arena_bytes"].get<int64_t>(),
                                    " bytes, host 0 bytes, ")));

  const std::string svg = TempPath("mlp.svg");
  const Outcome to_file =
      RunStowage({"report", path, "--format", "svg", "-o", svg});
  CHECK(to_file.exit_code == 0);
  CHECK(to_file.out.empty());
  CHECK(ReadAll(svg).starts_with("<svg "));
}

TEST_CASE("check names the violations of a bad plan and exits 1") {
  const std::string path = TempPath("moved.plan");
  PlanAsJson({"--model", "mlp", "-o", path});
  Json file = Json::parse(ReadAll(path));
  for (Json& buffer : file["buffers"]) {
    if (buffer["region"] == "activations") buffer["offset"] = 0;
  }
  WriteTemp("moved.plan", file.dump());
  const Outcome outcome = RunStowage({"check", path});
  CHECK(outcome.exit_code == 1);
  CHECK(!outcome.out.empty());
}

TEST_CASE("a plan with another graph in its file is refused and exits 2") {
  const std::string small = TempPath("batch32.plan");
  const std::string large = TempPath("batch64.plan");
  PlanAsJson({"--model", "mlp", "--batch", "32", "-o", small});
  PlanAsJson({"--model", "mlp", "--batch", "64", "-o", large});
  Json file = Json::parse(ReadAll(small));
  file["graph"] = Json::parse(ReadAll(large))["graph"];
  const std::string mixed = WriteTemp("mixed.plan", file.dump());
  for (const char* command : {"check", "report"}) {
    const Outcome outcome = RunStowage({command, mixed});
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find("the plan was made for another graph") !=
          std::string::npos);
  }
}

TEST_CASE("a plan for a GPU needs none, and holds what a GPU wants") {
  const auto plan = [](const char* dtype, std::vector<std::string> device) {
    std::vector<std::string> arguments = {"--model", "mlp",     "--batch",
                                          "32",      "--dtype", dtype};
    arguments.insert(arguments.end(), device.begin(), device.end());
    return PlanAsJson(arguments);
  };
  const auto io = [](const Json& json) {
    return json["regions"]["io"].get<int64_t>();
  };
  const Json cpu = plan("f32", {"--device", "cpu"});
  const Json gpu = plan("f32", {"--device", "cuda"});
  // Beside the inputs: a step record of 256 bytes, and the inputs twice again.
  CHECK(io(gpu) == 3 * io(cpu) + 256);
  CHECK(gpu["valid"] == true);
  // By default f32 is for the CPU and bf16 for the GPU.
  CHECK(plan("f32", {})["arena_bytes"] == cpu["arena_bytes"]);
  CHECK(plan("bf16", {})["arena_bytes"] ==
        plan("bf16", {"--device", "cuda"})["arena_bytes"]);
  CHECK(io(plan("bf16", {})) == io(gpu));
  CHECK(io(plan("bf16", {"--device", "cpu"})) == io(cpu));
}

TEST_CASE("a graph in its text form is planned as it will run") {
  const std::string path = WriteTemp("g.txt", SomeGraph());
  const Json plan = PlanAsJson({"--graph", path});
  CHECK(plan["model"] == "small");
  CHECK(plan["params"] == 0);
  CHECK(plan["nodes"] == 1);  // exp and relu run as one
  CHECK(plan["in_place"] == 0);
  // 256 bytes of input, 256 for y; h has none.
  CHECK(plan["arena_bytes"] == 512);
}

TEST_CASE("bad input exits 2 and says what is wrong") {
  const std::string empty = WriteTemp("empty", "");
  const std::string cut = WriteTemp("cut.plan", "{\"format\": \"stowage-");
  const std::string folder = TempPath("plans-or-a-plan");
  struct Row {
    std::vector<std::string> arguments;
    std::string message;
  };
  const Row rows[] = {
      {{"plan"}, "[plan] nothing to plan; give --model, --onnx or --graph"},
      {{"plan", "--model", "mlp", "--graph", empty},
       "[plan] --model, --onnx and --graph exclude each other; give one"},
      {{"plan", "--model", "mlp", "--device", "auto"},
       "[device] there is no device \"auto\"; expected cpu or cuda"},
      {{"plan", "--model", "nope"},
       "[model] there is no model \"nope\"; the models are mlp, cnn-small, "
       "lstm-char, llama-nano, gpt-nano, mobilenet-v2, vit-tiny, resnet18, "
       "resnet50, unet, gpt2-124m, vgg19"},
      {{"plan", "--model", "cnn-small", "--batch", "4", "--micro-batches", "2"},
       "[micro-batches] graph \"cnn-small\" cannot take its batch in parts "
       "like \"cnn-small\": they would change the loss, \"loss\" (\"bn1_1\": "
       "batch_norm normalizes by all examples of the batch) and 8 more; take "
       "the batch whole, or allow the change (allow_batch_change, "
       "--allow-batch-change)"},
      {{"plan", "--model", "mlp", "--fit", "recompute,offlod"},
       "[fit] there is no \"offlod\"; expected none, or a list of auto, "
       "recompute, micro-batches, offload, tiles and order"},
      {{"plan", "--model", "mlp", "--fit", "none", "--recompute", "auto"},
       "[fit] --fit none allows no memory optimization, and --recompute auto "
       "asks for one; leave one of them out"},
      {{"plan", "--model", "mlp", "--fit", "none", "--micro-batches", "auto"},
       "[fit] --fit none allows no memory optimization, and --micro-batches "
       "auto"},
      {{"plan", "--model", "mlp", "--svg", "a.svg", "--svg", "b.svg"},
       "--svg is given as \"a.svg\" and as \"b.svg\", and one of them is "
       "written; give it once"},
      {{"plan", "--model", "mlp", "-o", "a.plan", "--output=b.plan"},
       "--output is given as \"a.plan\" and as \"b.plan\""},
      {{"plan", "--model", "mlp", "--plan-cache", folder, "-o", folder},
       "[file] "},
      {{"plan", "--graph", empty, "--fit", "micro-batches"},
       "[micro-batches] a graph from a file is planned as it is"},
      {{"plan", "--model", "mlp", "--batch", "0"},
       "[model] batch 0 for mlp is below 1"},
      {{"plan", "--model", "mlp", "--batch", "-3"},
       "[model] batch -3 for mlp is below 1"},
      {{"plan", "--model", "mlp", "--seq", "8"},
       "[model] seq 8 is given, but mlp has no sequence"},
      {{"plan", "--model", "gpt-nano", "--seq", "257"},
       "[model] seq 257 for gpt-nano is out of range; expected 1 to 256"},
      {{"plan", "--model", "gpt-nano", "--batch", "4611686018427387904"}, ""},
      {{"plan", "--model", "mlp", "--budget", "abc"}, "[budget] "},
      {{"plan", "--model", "mlp", "--budget", "0"}, "[budget] the size is 0"},
      {{"plan", "--model", "mlp", "--budget=-5"}, "[budget] "},
      {{"plan", "--model", "mlp", "--budget", "9999999999999GiB"}, "[budget] "},
      {{"plan", "--model", "mlp", "--dtype", "f8"}, ""},
      {{"plan", "--model", "mlp", "--optimizer", "lamb"},
       "[optimizer] there is no optimizer \"lamb\""},
      {{"plan", "--model", "mlp", "--recompute-keep", "h1"},
       "[recompute] --recompute-keep \"h1\" says nothing"},
      {{"plan", "--model", "mlp", "--recompute-always", "h1"},
       "[recompute] --recompute-always \"h1\" says nothing"},
      {{"plan", "--model", "mlp", "--recompute", "auto", "--recompute-keep",
        "h1"},
       "[recompute] graph \"mlp.step\" has no value \"h1\" to be always kept"},
      {{"plan", "--model", "mlp", "--recompute", "auto", "--recompute-always",
        "x"},
       "[recompute] \"x\" cannot be always recomputed"},
      {{"plan", "--model", "mlp", "--recompute", "all"},
       "[recompute] there is no choice \"all\""},
      {{"plan", "--model", "mlp", "--offload", "all"},
       "[offload] there is no choice \"all\""},
      {{"plan", "--model", "mlp", "--batch", "3", "--micro-batches", "4"},
       "[micro-batches] 4 micro-batches of a batch of 3; expected at most 3"},
      {{"plan", "--model", "gpt-nano", "--batch", "1000000", "--seq", "8",
        "--micro-batches", "100000"},
       "[micro-batches] 100000 micro-batches; at most 1024 are planned"},
      {{"plan", "--model", "mlp", "--micro-batches", "0"},
       "[micro-batches] \"0\" is no number of at least 1, nor auto"},
      {{"plan", "--model", "mlp", "--order", "random"},
       "[order] there is no order \"random\""},
      {{"plan", "--model", "mlp", "--packer", "x"},
       "[packer] there is no packer \"x\""},
      {{"plan", "--model", "mlp", "--time-limit", "3"},
       "[time-limit] the greedy packer does not search"},
      {{"plan", "--graph", "/nowhere/g.txt"},
       "[file] \"/nowhere/g.txt\" cannot be read: No such file or directory"},
      {{"plan", "--graph", empty}, ""},
      {{"plan", "--model", "mlp", "-o", "/nowhere/mlp.plan"},
       "[file] \"/nowhere/mlp.plan\" cannot be written: "},
      {{"report", "/nowhere/p"}, "[file] \"/nowhere/p\" cannot be read: "},
      {{"report", cut}, "[plan file] the file is no JSON, at byte 21: "},
      {{"check", cut}, "[plan file] the file is no JSON, at byte 21: "},
      {{"check", "/tmp"}, "[file] \"/tmp\" cannot be read: it is a directory"},
  };
  for (const Row& row : rows) {
    const Outcome outcome = RunStowage(row.arguments);
    std::string line;
    for (const std::string& argument : row.arguments) line += argument + " ";
    INFO(line);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.starts_with(StrCat("stowage: ", row.message)));
  }
}

TEST_CASE("two plans are compared as text and as JSON") {
  const std::string kept = TempPath("kept.plan");
  const std::string recomputed = TempPath("recomputed.plan");
  const Json a = PlanAsJson({"--model", "gpt-nano", "-o", kept});
  const Json b =
      PlanAsJson({"--model", "gpt-nano", "--budget", "16MiB", "--recompute",
                  "auto", "--threads", "2", "-o", recomputed});
  const Outcome text = RunStowage({"report", kept, recomputed});
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("  kept.plan | recomputed.plan | ") != text.out.npos);
  const Outcome json =
      RunStowage({"report", kept, recomputed, "--format", "json"});
  REQUIRE(json.exit_code == 0);
  const Json compared = Json::parse(json.out);
  CHECK(compared["plans"][0]["arena_bytes"] == a["arena_bytes"]);
  CHECK(compared["plans"][1]["arena_bytes"] == b["arena_bytes"]);
  CHECK(compared["difference"]["nodes"] ==
        b["nodes"].get<int>() - a["nodes"].get<int>());
}

// How many values of a plan file are for no line; every other must be for one of
// the model, or of the step's own inputs.
int CountUnknownLines(const std::string& path) {
  const Json sources = Json::parse(ReadAll(path))["sources"];
  for (const Json& file : sources["files"]) {
    const auto name = file.get<std::string>();
    const bool is_model = name.starts_with("nn/");
    const bool is_of_step = name == "autodiff/step_parts.cc";
    CHECK_MESSAGE((is_model || is_of_step), name);
  }
  int unknown = 0;
  for (const Json& line : sources["line_of"]) unknown += line == 0;
  return unknown;
}

TEST_CASE(
    "values keep their lines through every optimization, and in the cache") {
  const std::string path = TempPath("optimizations.plan");
  for (const char* const cache : {"miss", "hit"}) {
    INFO(cache);
    const Json plan =
        PlanAsJson({"--model", "gpt-nano", "--budget", "10MiB", "--threads",
                    "2", "--recompute", "auto", "--offload", "auto",
                    "--micro-batches", "2", "-o", path});
    CHECK(plan["cache"] == cache);
    CHECK(plan["host_bytes"].get<int64_t>() > 0);
    CHECK(plan["recomputed_nodes"].get<int>() > 0);
    CHECK(CountUnknownLines(path) < 10);  // of what takes the batch apart
  }
  PlanAsJson({"--model", "mlp", "--order", "memory", "-o", path});
  CHECK(CountUnknownLines(path) == 0);
}

TEST_CASE("a report has the forms it names and no others") {
  const std::string path = TempPath("forms.plan");
  PlanAsJson({"--model", "mlp", "-o", path});
  const Outcome unknown = RunStowage({"report", path, "--format", "pdf"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err ==
        "stowage: [report] there is no format \"pdf\"; expected text, json, "
        "svg, html, trace or stream\n");
  const Outcome two = RunStowage({"report", path, path, "--format", "svg"});
  CHECK(two.exit_code == 2);
  CHECK(two.err ==
        "stowage: [report] two plans have no form \"svg\"; expected text, json "
        "or html\n");
  const Outcome two_peaks = RunStowage({"report", path, path, "--at-peak"});
  CHECK(two_peaks.exit_code == 2);
  CHECK(two_peaks.err ==
        "stowage: [report] --at-peak has no form for two plans; give one\n");
  const Outcome peak =
      RunStowage({"report", path, "--format", "svg", "--at-peak"});
  CHECK(peak.exit_code == 2);
  CHECK(peak.err ==
        "stowage: [report] --at-peak has no form svg; expected text or "
        "json\n");
}

TEST_CASE("flags have their former names for one release") {
  for (const auto& [before, now] :
       {std::pair{"--keep", "--recompute-keep"},
        std::pair{"--remake", "--recompute-always"}}) {
    const auto plan = [](const std::string& name) {
      return RunStowage({"plan", "--model", "gpt-nano", "--batch", "2", "--seq",
                         "8", "--recompute", "auto", "--no-plan-cache", name,
                         "h.0.mlp.gelu", "--json"});
    };
    const auto without_time = [](const Outcome& outcome) {
      Json json = Json::parse(outcome.out);
      json.erase("plan_seconds");
      return json;
    };
    const Outcome former = plan(before);
    CHECK(former.exit_code == 0);
    CHECK(former.err == StrCat("stowage: ", before, " is now ", now, "\n"));
    CHECK(without_time(former) == without_time(plan(now)));
  }
}

// Files that are plans, of a folder that may hold other choices.
size_t PlansIn(const std::string& folder) {
  size_t plans = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    plans += entry.path().extension() == ".stowage" ? 1 : 0;
  }
  return plans;
}

TEST_CASE("train takes the plan that was made for its CPU target") {
  const std::string text = WriteTemp("text.txt", SomeText());
  const std::vector<std::string> step = {
      "--model", "gpt-nano", "--batch", "2",         "--seq",
      "8",       "--device", "cpu",     "--threads", "1"};
  int targets = 0;
  for (const std::string target :
       {"native", "v2", "v3", "v4", "v4-bf16", "armv8"}) {
    INFO(target);
    const std::string folder = TempPath(StrCat("plans_", target));
    std::vector<std::string> plan = {"plan", "--cpu-target", target,
                                     "--plan-cache", folder};
    plan.insert(plan.end(), step.begin(), step.end());
    if (RunStowage(plan).exit_code != 0) continue;  // not of this build
    ++targets;
    const size_t plans = PlansIn(folder);
    CHECK(plans > 0);
    std::vector<std::string> train = {"train", "--data",   text, "--steps",
                                      "1",     "--sample", "0",  "--plan-cache",
                                      folder};
    train.insert(train.end(), step.begin(), step.end());
    const Outcome trained = RunStowage(train, {.cpu_target = target});
    CHECK_MESSAGE(trained.exit_code == 0, trained.err);
    CHECK(PlansIn(folder) == plans);
  }
  CHECK(targets > 0);
}

}  // namespace
}  // namespace stowage::testing
