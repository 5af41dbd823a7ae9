// --offload disk: runs whose weights, states and waiting values lie in a file.

#include <doctest/doctest.h>

#include <filesystem>
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

using Json = nlohmann::json;

std::string Story() {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += StrCat("The ship sails at noon. ", "The cook reads. ",
                   i % 2 == 0 ? "Then he sleeps.\n" : "Nobody sings.\n");
  }
  return WriteTemp("story.txt", text);
}

std::string Folder() {
  const std::string folder = TempPath("disk");
  std::filesystem::create_directories(folder);
  return folder;
}

Outcome Run(std::vector<std::string> arguments,
            const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunStowage(arguments);
}

// Losses by step, and the last line.
std::map<int64_t, double> LossesOf(const std::vector<Json>& lines) {
  std::map<int64_t, double> losses;
  for (const Json& line : lines) {
    if (line.contains("loss")) losses[line["step"]] = line["loss"];
  }
  return losses;
}

// The smallest budget that a command names when it refuses a budget of next to nothing.
int64_t SmallestBudget(const std::vector<std::string>& arguments,
                       const std::vector<std::string>& more) {
  std::vector<std::string> with = more;
  with.insert(with.end(), {"--budget", "1KB"});
  const Outcome refused = Run(arguments, with);
  REQUIRE_MESSAGE(refused.exit_code == 1, refused.err);
  return JsonLines(refused.out).back()["minimum_budget_bytes"];
}

TEST_CASE("frozen weights are read from disk, and losses keep their bits") {
  const std::vector<std::string> finetune = {"finetune",
                                             "--weights",
                                             "tests/goldens/pretrained/"
                                             "llama.gguf",
                                             "--tokenizer",
                                             LettersTokenizer(),
                                             "--data",
                                             Story(),
                                             "--threads",
                                             "2",
                                             "--seq",
                                             "16",
                                             "--batch",
                                             "1",
                                             "--steps",
                                             "4",
                                             "--sample",
                                             "0",
                                             "--json"};
  const Outcome resident = Run(finetune, {});
  REQUIRE_MESSAGE(resident.exit_code == 0, resident.err);
  const int64_t in_memory =
      SmallestBudget(finetune, {"--fit", "auto", "--offload", "none"});
  const std::vector<std::string> to_disk = {
      "--fit", "auto", "--offload", "disk", "--offload-dir", Folder()};
  const int64_t on_disk = SmallestBudget(finetune, to_disk);
  CHECK(on_disk < in_memory);

  std::vector<std::string> fitted = to_disk;
  fitted.insert(fitted.end(), {"--budget", StrCat(on_disk)});
  const Outcome run = Run(finetune, fitted);
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const std::vector<Json> lines = JsonLines(run.out);
  const std::vector<Json> resident_lines = JsonLines(resident.out);
  CHECK(LossesOf(lines) == LossesOf(resident_lines));
  CHECK(lines.back()["validation_loss"] ==
        resident_lines.back()["validation_loss"]);
  CHECK(lines.back()["arena_bytes"] <= on_disk);
  CHECK(lines.back()["host_bytes"] >= lines.back()["frozen_bytes"]);
  CHECK(AllocatedNothing(lines.back()));
  CHECK(std::filesystem::is_empty(Folder()));  // the file had no name
}

TEST_CASE("trained weights are read and written, and resume from checkpoints") {
  const std::vector<std::string> train = {
      "train", "--model", "gpt-nano", "--data",  Story(),     "--batch",
      "2",     "--seq",   "16",       "--steps", "6",         "--sample",
      "0",     "--json",  "--device", "cpu",     "--threads", "2"};
  const Outcome resident = Run(train, {});
  REQUIRE_MESSAGE(resident.exit_code == 0, resident.err);
  std::vector<std::string> to_disk = {"--fit", "auto",          "--offload",
                                      "disk",  "--offload-dir", Folder()};
  const int64_t smallest = SmallestBudget(train, to_disk);
  to_disk.insert(to_disk.end(), {"--budget", StrCat(smallest)});

  // No weight is in the arena from step to step.
  const std::string plan = TempPath("disk.plan");
  const Outcome planned =
      RunStowage({"plan", "--model", "gpt-nano", "--train", "--batch", "2",
                  "--seq", "16", "--threads", "2", "--fit", "auto", "--offload",
                  "disk", "--budget", StrCat(smallest), "--json", "-o", plan});
  REQUIRE_MESSAGE(planned.exit_code == 0, planned.err);
  const Json json = Json::parse(planned.out);
  CHECK(json["regions"]["weights"] == 0);
  CHECK(json["offload"] == "disk");
  CHECK(RunStowage({"check", plan}).exit_code == 0);

  const std::string checkpoint = TempPath("disk.st");
  std::vector<std::string> first = to_disk;
  first.insert(first.end(), {"--save", checkpoint, "--stop-at", "3"});
  const Outcome begun = Run(train, first);
  REQUIRE_MESSAGE(begun.exit_code == 0, begun.err);
  std::vector<std::string> second = to_disk;
  second.insert(second.end(), {"--resume", checkpoint});
  const Outcome resumed = Run(train, second);
  REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
  std::map<int64_t, double> losses = LossesOf(JsonLines(begun.out));
  losses.merge(LossesOf(JsonLines(resumed.out)));
  CHECK(losses == LossesOf(JsonLines(resident.out)));
}

TEST_CASE("what cannot be offloaded to disk is refused before the first step") {
  const std::vector<std::string> train = {"train",  "--model", "gpt-nano",
                                          "--data", Story(),   "--batch",
                                          "2",      "--seq",   "16"};
  const Outcome no_disk = Run(train, {"--offload-dir", Folder()});
  CHECK(no_disk.exit_code == 2);
  CHECK(no_disk.err.find("is given, and nothing is offloaded to disk; give "
                         "offload disk with it, not none") !=
        std::string::npos);
  const Outcome gpu = Run(train, {"--offload", "disk", "--device", "cuda"});
  CHECK(gpu.exit_code == 2);
  CHECK(gpu.err.find("[offload] values of a GPU are offloaded to host memory, "
                     "not to a file in ") != std::string::npos);
  const Outcome plan = Run({"plan", "--model", "gpt-nano", "--budget", "20MB"},
                           {"--offload", "disk", "--device", "cuda"});
  CHECK(plan.exit_code == 2);
  CHECK(plan.err.find("[offload] values of a GPU are offloaded to host memory, "
                      "not to a file; give --offload auto, or --device cpu") !=
        std::string::npos);
  const std::string nowhere = TempPath("nowhere");
  const Outcome no_folder =
      Run(train, {"--fit", "auto", "--offload", "disk", "--offload-dir",
                  nowhere, "--budget", "1KB", "--sample", "0"});
  CHECK(no_folder.exit_code == 2);  // before that budget is refused
  CHECK(no_folder.err.find(
            StrCat("[offload] no file for offloaded values can be made in ",
                   Quoted(nowhere), ": No such file or directory")) !=
        std::string::npos);
  CHECK_FALSE(std::filesystem::exists(nowhere));
}

}  // namespace
}  // namespace stowage::testing
