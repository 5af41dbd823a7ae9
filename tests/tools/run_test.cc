#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// `stowage run` of `command` with a capacity of 10 bytes, unless `more` says another.
Words Run(const std::string& ledger, const Words& more, const Words& command) {
  Words words = {"run", "--ledger", ledger, "--device", "0"};
  words.insert(words.end(), more.begin(), more.end());
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::string NewLedger(const std::string& name) {
  const std::string path = TempPath(name);
  std::filesystem::remove(path);
  return path;
}

// The only job of the ledger that `command`, itself the job, prints.
Json OnlyJob(const Outcome& outcome) {
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json all = Json::parse(outcome.out);
  REQUIRE(all["resources"].size() == 1);
  REQUIRE(all["resources"][0]["jobs"].size() == 1);
  return all["resources"][0]["jobs"][0];
}

TEST_CASE("the command has its words, its output and its exit code") {
  const std::string ledger = NewLedger("words.ledger");
  const Outcome outcome = RunStowage(
      Run(ledger, {"--capacity", "10", "--bytes", "6", "--name", "a"},
          {"sh", "-c", "for w; do echo \"<$w>\"; done; exit 7", "sh", "--json",
           "--config=nowhere", "", "--", "--bytes", "11", "[x,y]"}));
  CHECK(outcome.exit_code == 7);
  CHECK(outcome.out ==
        "<--json>\n<--config=nowhere>\n<>\n<-->\n<--bytes>\n<11>\n<[x,y]>\n");
  CHECK(outcome.err ==
        "stowage: \"a\" holds 6 B (6 bytes) of \"device:0\", from --bytes\n");
  const Outcome empty = RunStowage({"ledger", ledger});
  CHECK(empty.out == "no job holds or waits\n");
  CHECK(Json::parse(RunStowage({"ledger", ledger, "--json"}).out) ==
        Json::parse("{\"resources\": []}"));
}

TEST_CASE("the bytes are held while the command runs, and listed") {
  const std::string ledger = NewLedger("held.ledger");
  const Words more = {"--capacity", "10", "--bytes", "6"};
  const Outcome json = RunStowage(
      Run(ledger, more, {"tools/stowage", "ledger", ledger, "--json"}));
  const Json job = OnlyJob(json);
  CHECK(job["name"] == StrCat("tools/stowage ledger ", ledger, " --json"));
  CHECK(job["state"] == "held");
  CHECK(job["bytes"] == 6);
  CHECK(job["process"].is_number_integer());
  const Json resource = Json::parse(json.out)["resources"][0];
  CHECK(resource["resource"] == "device:0");
  CHECK(resource["capacity_bytes"] == 10);
  CHECK(resource["held_bytes"] == 6);
  CHECK(resource["free_bytes"] == 4);

  const Outcome text = RunStowage(
      Run(ledger, {"--capacity", "10", "--bytes", "6", "--name", "a job"},
          {"tools/stowage", "ledger", ledger}));
  CHECK(
      text.out.starts_with("device:0: 6 B (6 bytes) of 10 B (10 bytes) held\n"
                           "  held by \"a job\" 6 B (6 bytes) since 20"));
}

TEST_CASE("a job that does not fit is refused by what holds the bytes") {
  const std::string ledger = NewLedger("refused.ledger");
  struct Row {
    Words more;
    int exit_code;
    std::string message;
  };
  const Row rows[] = {
      {{"--capacity", "10", "--bytes", "4", "--wait", "none"}, 0, "holds 4 B"},
      {{"--capacity", "10", "--bytes", "5", "--wait", "none"},
       3,
       "stowage: [admission] \"true\" needs 5 B (5 bytes) of \"device:0\", "
       "which has 4 B (4 bytes) free of 10 B (10 bytes); held by \"outer\" 6 "
       "B (6 bytes) since 20"},
      {{"--capacity", "10", "--bytes", "5", "--wait", "0.05"},
       3,
       "stowage: \"true\" waits for 5 B (5 bytes) of \"device:0\", of which 6 "
       "B (6 bytes) of 10 B (10 bytes) are held; `stowage ledger "},
      {{"--capacity", "10", "--bytes", "11"},
       1,
       "\"true\" needs 11 B (11 bytes), more than the 10 B (10 bytes) of "
       "\"device:0\""},
      {{"--capacity", "12", "--bytes", "1"},
       2,
       "gives \"device:0\" a capacity of 12 B (12 bytes), and \"outer\", which "
       "is there already, one of 10 B (10 bytes)"},
  };
  for (const Row& row : rows) {
    Words inner = Run(ledger, row.more, {"true"});
    inner.insert(inner.begin(), "tools/stowage");
    const Outcome outcome = RunStowage(
        Run(ledger, {"--capacity", "10", "--bytes", "6", "--name", "outer"},
            inner));
    INFO(outcome.err);
    CAPTURE(row.message);
    CHECK(outcome.exit_code == row.exit_code);
    CHECK(Contains(outcome.err, row.message));
  }
}

TEST_CASE("a plan's arena is reserved, its host bytes but for a device") {
  const std::string plan = TempPath("step.plan");
  const Outcome planned =
      RunStowage({"plan", "--model", "gpt-nano", "--batch", "2", "--seq", "16",
                  "--threads", "2", "--offload", "auto", "--budget", "6MiB",
                  "--json", "-o", plan});
  REQUIRE_MESSAGE(planned.exit_code == 0, planned.err);
  const auto arena = Json::parse(planned.out)["arena_bytes"].get<int64_t>();
  const auto host = Json::parse(planned.out)["host_bytes"].get<int64_t>();
  REQUIRE(host > 0);
  const std::string ledger = NewLedger("plan.ledger");
  const auto bytes_by = [&](const Words& more) {
    Words words = {"run",  "--ledger", ledger, "--capacity",
                   "1GiB", "--plan",   plan};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(),
                 {"--", "tools/stowage", "ledger", ledger, "--json"});
    return OnlyJob(RunStowage(words))["bytes"].get<int64_t>();
  };
  CHECK(bytes_by({"--device", "3"}) == arena);
  CHECK(bytes_by({"--resource", "shared"}) == arena + host);
  CHECK(bytes_by({}) == arena + host);
  CHECK(bytes_by({"--overhead", "1000"}) == arena + host + 1000);
}

TEST_CASE("what a plan offloads to disk is no memory to reserve") {
  const std::string plan = TempPath("disk.plan");
  const Outcome planned =
      RunStowage({"plan", "--model", "gpt-nano", "--batch", "2", "--seq", "16",
                  "--threads", "2", "--offload", "disk", "--budget", "5MiB",
                  "--json", "-o", plan});
  REQUIRE_MESSAGE(planned.exit_code == 0, planned.err);
  REQUIRE(Json::parse(planned.out)["host_bytes"] > 0);
  const std::string ledger = NewLedger("disk.ledger");
  const Outcome run =
      RunStowage({"run", "--ledger", ledger, "--capacity", "1GiB", "--plan",
                  plan, "--", "tools/stowage", "ledger", ledger, "--json"});
  CHECK(OnlyJob(run)["bytes"] == Json::parse(planned.out)["arena_bytes"]);
}

TEST_CASE("the budget of a command of ours is reserved") {
  const std::string ledger = NewLedger("budget.ledger");
  const std::string digits = WriteTemp("digits.csv", SomeDigits());
  const Outcome trained =
      RunStowage(Run(ledger, {"--capacity", "1GiB", "--overhead", "10MB"},
                     {"tools/stowage", "train", "--model", "mlp", "--data",
                      digits, "--steps", "1", "--device", "cpu", "--budget",
                      "200MB", "--budget=300MB", "--json"}));
  CHECK(trained.exit_code == 0);
  CHECK(Contains(trained.err,
                 "310.0 MB (310000000 bytes) of \"device:0\", from the "
                 "command's --budget 300MB and --overhead\n"));
  CHECK(Contains(trained.out, "\"arena_bytes\""));
}

TEST_CASE("what cannot be reserved or run is refused by the actual values") {
  const std::string ledger = NewLedger("usage.ledger");
  const std::string other = WriteTemp("other.txt", "losses of a month\n");
  const std::string capacity = "--capacity";
  struct Row {
    Words words;
    std::string message;
  };
  const Row rows[] = {
      {{"run", "--ledger", ledger, "--bytes", "1"},
       "[run] there is no command to run; write it behind --"},
      {{"run", "--ledger", ledger, "--bytes", "1", "--"},
       "[run] there is no command to run"},
      {{"run", "--ledger", ledger, "--bytes", "1", "true"},
       "run takes no argument \"true\"; the command to run stands behind --"},
      {{"run", "--bytes", "1", "--", "true"}, "--ledger is required"},
      {Run(ledger, {"--bytes", "1"}, {"true"}),
       "[run] the capacity of \"device:0\" is not given; give by --capacity"},
      {Run(ledger, {capacity, "0", "--bytes", "1"}, {"true"}),
       "[capacity] the size is 0"},
      {Run(ledger, {capacity, "9", "--bytes", "many"}, {"true"}), "[bytes] "},
      {Run(ledger, {capacity, "9"}, {"true"}),
       "[run] how many bytes to reserve is not known: give --bytes, or the "
       "command's --plan\n"},
      {Run(ledger, {capacity, "9"}, {"tools/stowage", "train"}),
       "--plan, or the command a --budget\n"},
      {Run(ledger, {capacity, "9"}, {"tools/stowage", "models", "--budget=1"}),
       "how many bytes to reserve is not known"},
      {Run(ledger, {capacity, "9"},
           {"tools/stowage", "train", "--budget", "60%"}),
       "of the command, for which --bytes is left out"},
      {Run(ledger, {capacity, "9", "--bytes", "1", "--plan", other}, {"true"}),
       "--bytes excludes --plan"},
      {Run(ledger, {capacity, "9", "--plan", other}, {"true"}), "[plan file] "},
      {Run(ledger, {capacity, "9", "--plan", "nowhere"}, {"true"}), "nowhere"},
      {Run(ledger, {capacity, "9", "--bytes", "1", "--wait", "soon"}, {"true"}),
       "[wait] \"soon\" is neither none nor a number of seconds from 0 to "
       "1000000000"},
      {Run(ledger, {capacity, "9", "--bytes", "1", "--wait", "-1"}, {"true"}),
       "[wait] \"-1\" is neither"},
      {Run(ledger, {capacity, "9", "--bytes", "1"}, {"nowhere-to-be-found"}),
       "[run] there is no program \"nowhere-to-be-found\" in the folders of "
       "PATH"},
      {Run(ledger, {capacity, "9", "--bytes", "1"}, {other}),
       "is no file that can be run"},
      {Run(other, {capacity, "9", "--bytes", "1"}, {"true"}),
       "is no ledger: it begins with \"losses of a mont\"; expected "
       "\"stowage-ledger 1\""},
      {Run(ledger, {capacity, "9", "--bytes", "1", "--name", "a\x1b[m"},
           {"true"}),
       "the job's name \"a\\x1b[m\" has 4 bytes"},
      {{"ledger", other}, "is no ledger"},
      {{"ledger", TempPath("nowhere.ledger")}, "No such file"},
  };
  for (const Row& row : rows) {
    const Outcome outcome = RunStowage(row.words);
    CAPTURE(row.message);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(Contains(outcome.err, row.message));
  }
  CHECK(ReadAll(other) == "losses of a month\n");
}

TEST_CASE("a signal reaches the command itself, and frees its bytes") {
  const std::string ledger = NewLedger("signals.ledger");
  for (const int signal : {SIGTERM, SIGKILL}) {
    CAPTURE(signal);
    const std::string started = TempPath("started");
    std::filesystem::remove(started);
    const Outcome outcome =
        RunAndSignal(Run(ledger, {"--capacity", "10", "--bytes", "6"},
                         {"sh", "-c",
                          "trap 'exit 9' TERM; echo $$ > \"$0\"; while :; do "
                          "sleep 0.01; done",
                          started}),
                     started, signal);
    CHECK(outcome.exit_code == (signal == SIGTERM ? 9 : -1));
    const Outcome next = RunStowage(
        Run(ledger, {"--capacity", "10", "--bytes", "10"}, {"true"}));
    CHECK(next.exit_code == 0);
  }
}

TEST_CASE("a job that waits is stopped by a signal, and leaves the queue") {
  const std::string ledger = NewLedger("queue.ledger");
  // The outer job looks at the ledger until the inner one waits, and stops it.
  const std::string script =
      "\"$0\" run --ledger \"$1\" --device 0 --capacity 10 --bytes 5 -- true & "
      "until \"$0\" ledger \"$1\" | grep -q waiting; do sleep 0.01; done; "
      "kill -TERM $!; wait $!; \"$0\" ledger \"$1\" --json";
  const Outcome outcome =
      RunStowage(Run(ledger, {"--capacity", "10", "--bytes", "6"},
                     {"sh", "-c", script, "tools/stowage", ledger}));
  CHECK(OnlyJob(outcome)["bytes"] == 6);
}

TEST_CASE("the command has the signals and one descriptor of the ledger") {
  const std::string ledger = NewLedger("clean.ledger");
  const Words more = {"--capacity", "10", "--bytes", "6"};
  const Outcome ignored =
      RunStowage(Run(ledger, more, {"grep", "SigIgn", "/proc/self/status"}));
  REQUIRE(ignored.out.starts_with("SigIgn:"));
  const uint64_t mask = std::stoull(ignored.out.substr(7), nullptr, 16);
  CHECK((mask >> (SIGXFSZ - 1) & 1) == 0);
  const Outcome links =
      RunStowage(Run(ledger, more, {"sh", "-c", "readlink /proc/$$/fd/*"}));
  int ledgers = 0;
  std::istringstream lines(links.out);
  for (std::string line; std::getline(lines, line);) {
    if (line == std::filesystem::canonical(ledger)) ++ledgers;
  }
  CHECK(ledgers == 1);
}

TEST_CASE("flags of run are read from a file, the command's are not") {
  const std::string ledger = NewLedger("config.ledger");
  const std::string config = WriteTemp(
      "run.toml", StrCat("[run]\nledger = \"", ledger,
                         "\"\nresource = \"r\"\ncapacity = \"10\"\n"));
  const Outcome outcome =
      RunStowage({"run", "--config", config, "--bytes", "3", "--", "echo",
                  "--config", "nowhere", "--resource", "x"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == "--config nowhere --resource x\n");
  CHECK(Contains(outcome.err, " of \"r\", from --bytes"));
}

}  // namespace
}  // namespace stowage::testing
