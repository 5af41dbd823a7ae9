// What stops a training run, and what it leaves: losses that are no numbers, signals,
// checkpoints on the way, and going on from them.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;
TEST_CASE("a loss that is no number ends the run, which names the step") {
  const Outcome outcome =
      RunStowage(Mlp({"--optimizer", "sgd", "--lr", "1e30", "--steps", "20"}));
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.err.find("[train] the loss is ") != std::string::npos);
  CHECK(outcome.err.find(" at step 2, with a learning rate of ") !=
        std::string::npos);
  CHECK(outcome.err.find("nothing was saved, since there is no --save") !=
        std::string::npos);
  const Outcome checked = RunStowage(
      Mlp({"--optimizer", "sgd", "--lr", "1e30", "--steps", "20", "--check"}));
  CHECK(checked.exit_code == 1);
  CHECK(checked.err.find("failed at \"fc") != std::string::npos);
  CHECK(checked.err.find("is the first that does; this was step 2, with a "
                         "learning rate of ") != std::string::npos);
}

TEST_CASE("a run that diverges, in its last step too, leaves the checkpoint") {
  const std::string path = TempPath("good.safetensors");
  TrainMlp({"--save", path});
  const std::string good = ReadAll(path);
  const std::vector<std::string> rows[] = {
      {"--steps", "1", "--lr", "1e30", "--optimizer", "sgd"},
      {"--steps", "2", "--lr", "1e30", "--optimizer", "sgd"},
      {"--steps", "1", "--lr", "1e38", "--optimizer", "momentum"},
      {"--steps", "20", "--lr", "1e30", "--optimizer", "sgd"},
  };
  for (std::vector<std::string> more : rows) {
    CHECK(RunStowage(Mlp(more)).exit_code == 1);
    more.insert(more.end(), {"--save", path});
    const Outcome outcome = RunStowage(Mlp(more));
    INFO(outcome.err);
    CHECK(outcome.exit_code == 1);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find("this run has saved nothing to ") !=
          std::string::npos);
    CHECK(ReadAll(path) == good);
  }
}

// Whether there is a whole checkpoint of some step.
bool Loads(const std::string& path, const std::string& optimizer = "adamw") {
  const Outcome outcome = RunStowage(
      Mlp({"--resume", path, "--steps", "1", "--optimizer", optimizer}));
  return outcome.err.find(
             "nothing is left to do: the checkpoint is at step ") !=
         std::string::npos;
}

TEST_CASE("the last good checkpoint is what a run that diverges leaves") {
  const std::string path = TempPath("last_good.safetensors");
  const Outcome outcome =
      RunStowage(Mlp({"--lr", "1e6", "--optimizer", "sgd", "--steps", "100",
                      "--save", path, "--save-every", "1"}));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 1);
  CHECK(outcome.err.find(", is of step ") != std::string::npos);
  CHECK(Loads(path, "sgd"));
}

TEST_CASE("steps that make values that are no numbers can be skipped") {
  const std::vector<Json> lines =
      TrainMlp({"--on-nonfinite", "skip", "--steps", "12"});
  CHECK(lines[0].size() == 12);
  CHECK_FALSE(lines.back().contains("skipped_steps"));
  const std::vector<Json> plain = TrainMlp({"--steps", "12"});
  for (size_t i = 0; i < 12; ++i) CHECK(lines[i]["loss"] == plain[i]["loss"]);

  // At this rate no step is ever good again, which ends the run.
  const Outcome all = RunStowage(
      Mlp({"--on-nonfinite", "skip", "--optimizer", "sgd", "--lr", "1e30",
           "--steps", "20", "--save", TempPath("skip.ck"), "--json"}));
  INFO(all.err);
  CHECK(all.exit_code == 1);
  CHECK(all.err.find("[train] the loss is ") != std::string::npos);
  CHECK(all.err.find("; skipped: all is as before that step") !=
        std::string::npos);
  CHECK(all.err.find("10 steps one after the other were skipped") !=
        std::string::npos);
  CHECK(JsonLines(all.out).back()["skipped"] == true);
  CHECK(ReadAll(TempPath("skip.ck")).empty());
}

// The 64-bit number of JSON at the end of `out`, under `key`.
int64_t Last(const Outcome& outcome, const char* key) {
  return JsonLines(outcome.out).back()[key];
}

TEST_CASE("a signal ends the step and saves; the resumed run ends the same") {
  struct Row {
    int signal;
    const char* name;
    int exit_code;
  };
  for (const Row& row :
       {Row{SIGINT, "SIGINT", 130}, Row{SIGTERM, "SIGTERM", 143},
        Row{SIGHUP, "SIGHUP", 129}, Row{SIGPIPE, "SIGPIPE", 141}}) {
    INFO(row.name);
    const std::string part = TempPath(StrCat(row.name, ".ck"));
    const std::string rest = TempPath("rest.ck");
    const std::string whole = TempPath("whole.ck");
    // The best of step 1000 is the last that is written for a while: the signal
    // comes in the midst of the steps after it, of which none is saved by itself.
    const Outcome stopped =
        RunAndSignal(Mlp({"--steps", "1000000", "--save", part, "--save-every",
                          "1000", "--json"}),
                     TempPath(StrCat(row.name, ".best.ck")), row.signal);
    INFO(stopped.err);
    REQUIRE(stopped.exit_code == row.exit_code);
    const int64_t done = Last(stopped, "steps");
    CHECK(JsonLines(stopped.out).back()["stopped"] == row.name);
    CHECK(stopped.err.find(StrCat("stopped by ", row.name, " after step ", done,
                                  " of 1000000; the last checkpoint, ",
                                  Quoted(part), ", is of step ", done,
                                  "; the same command with --resume ", part)) !=
          std::string::npos);
    const std::string end = StrCat(done + 5);
    TrainMlp({"--steps", "1000000", "--stop-at", end, "--resume", part,
              "--save", rest});
    TrainMlp({"--steps", "1000000", "--stop-at", end, "--save", whole});
    CHECK(ReadAll(rest) == ReadAll(whole));
  }
}

// As those of a script's background jobs are.
TEST_CASE("a signal that is ignored at the start stops nothing") {
  for (const int number : {SIGINT, SIGHUP}) {
    CAPTURE(number);
    const std::string path = TempPath(StrCat("ignored-", number, ".ck"));
    std::signal(number, SIG_IGN);  // which the program inherits
    const Outcome outcome =
        RunAndSignal(Mlp({"--steps", "4000", "--save", path, "--save-every",
                          "1000", "--json"}),
                     path, number);
    std::signal(number, SIG_DFL);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(Last(outcome, "steps") == 4000);
  }
}

TEST_CASE("a run whose output nobody reads any more saves, and ends") {
  const std::string pipe = TempPath("pipe"), path = TempPath("unread.ck");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  std::thread reader([&] {
    std::ifstream in(pipe);
    std::string line;
    std::getline(in, line);
  });
  const Outcome stopped = RunStowageInto(
      pipe, Mlp({"--steps", "1000000", "--save", path, "--json"}));
  reader.join();
  CHECK(stopped.exit_code == 141);
  CHECK(stopped.err.find("stopped by SIGPIPE after step ") !=
        std::string::npos);
  CHECK(Loads(path));
}

// A pager at rest, mpirun while it ends a job, a terminal after Ctrl-S.
TEST_CASE("a signal saves and ends the run while nobody reads its output") {
  const std::string pipe = TempPath("full");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  for (const bool is_terminal : {false, true}) {
    for (const int number : {SIGTERM, SIGINT}) {
      CAPTURE(is_terminal);
      CAPTURE(number);
      const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
      REQUIRE(terminal >= 0);
      REQUIRE(grantpt(terminal) == 0);
      REQUIRE(unlockpt(terminal) == 0);
      const std::string path = TempPath("unread-output.ck");
      std::filesystem::remove(path);
      const Outcome stopped = RunUnreadAndSignal(
          is_terminal ? ptsname(terminal) : pipe,
          Mlp({"--steps", "1000000", "--save", path, "--json"}), number);
      close(terminal);
      INFO(stopped.err);
      CHECK(stopped.exit_code == 128 + number);
      CHECK(stopped.err.find("after step ") != std::string::npos);
      CHECK(Loads(path));
    }
  }
}

TEST_CASE("a run that is killed leaves a checkpoint that loads") {
  const std::string path = TempPath("killed.ck");
  for (int kill = 0; kill < 5; ++kill) {
    std::filesystem::remove(path);
    const Outcome killed =
        RunAndSignal(Mlp({"--steps", "1000000", "--save", path, "--save-every",
                          "1", "--keep-last", "2"}),
                     path, SIGKILL);
    REQUIRE(killed.exit_code == -1);
    CHECK(Loads(path));
  }
}

TEST_CASE("one command, killed and started over, ends where one run ends") {
  const std::string path = TempPath("continued.ck");
  const std::string whole = TempPath("not_continued.ck");
  const std::string most = "1000000";
  int64_t saved = 0;
  for (int kill = 0; kill < 4; ++kill) {
    // Once it has saved something of its own. Each file of a step goes when two later ones
    // are there, which may be before it is looked for.
    const auto has_saved = [&] {
      for (const auto& entry :
           std::filesystem::directory_iterator(TempPath(""))) {
        const std::string name = entry.path().filename().string();
        int64_t step = 0;
        if (std::sscanf(name.c_str(), "continued.step-%" SCNd64 ".ck", &step) ==
                1 &&
            name.ends_with(".ck") && step > saved) {
          return true;
        }
      }
      return false;
    };
    const Outcome killed =
        RunAndSignal(Mlp({"--steps", most, "--continue", path, "--save-every",
                          "10", "--keep-last", "2"}),
                     has_saved, SIGKILL);
    INFO(killed.err);
    REQUIRE(killed.exit_code == -1);
    CHECK((killed.err.find(StrCat("continue: ", path, " is of step ", saved,
                                  " of ", most, "\n")) != std::string::npos) ==
          (kill > 0));
    const Outcome is_at =
        RunStowage(Mlp({"--steps", most, "--stop-at", "1", "--resume", path}));
    const std::string words = "the checkpoint is at step ";
    const size_t at = is_at.err.find(words);
    REQUIRE(at != std::string::npos);
    const int64_t step = std::stoll(is_at.err.substr(at + words.size()));
    CHECK(step % 10 == 0);
    CHECK(step > saved);
    saved = step;
  }
  const std::vector<std::string> end = {"--steps", most, "--stop-at",
                                        StrCat(saved + 15)};
  const auto to_end = [&](std::vector<std::string> more) {
    more.insert(more.end(), end.begin(), end.end());
    return more;
  };
  const std::vector<Json> last = TrainMlp(to_end({"--continue", path}));
  CHECK(last.size() == 16);
  TrainMlp(to_end({"--save", whole}));
  CHECK(ReadAll(path) == ReadAll(whole));

  // Started once more it has nothing to do, which is no error, and has results.
  const std::vector<Json> done = TrainMlp(to_end({"--continue", path}));
  REQUIRE(done.size() == 1);
  CHECK(done[0]["steps"] == saved + 15);
  CHECK(done[0]["validation_loss"] == last.back()["validation_loss"]);
  CHECK(RunStowage(Mlp(to_end({"--continue", path})))
            .out.find(" on cpu: held-out loss ") != std::string::npos);
  CHECK(ReadAll(path) == ReadAll(whole));
}

TEST_CASE("what a run cannot continue from stays as it is") {
  const std::string path = WriteTemp("no_checkpoint.ck", "a text of some kind");
  const Outcome refused = RunStowage(Mlp({"--continue", path}));
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("[checkpoint] ") != std::string::npos);
  CHECK(ReadAll(path) == "a text of some kind");

  const std::string good = TempPath("continued_good.ck");
  TrainMlp({"--continue", good, "--stop-at", "4"});
  const std::string before = ReadAll(good);
  REQUIRE_FALSE(before.empty());
  const Outcome diverged =
      RunStowage(Mlp({"--continue", good, "--lr", "1e38", "--steps", "40"}));
  CHECK(diverged.exit_code == 1);
  CHECK(ReadAll(good) == before);
  const Outcome beyond =
      RunStowage(Mlp({"--continue", good, "--stop-at", "3"}));
  CHECK(beyond.exit_code == 2);
  CHECK(beyond.err.find("the checkpoint is at step 4 and the run ends at 3") !=
        std::string::npos);
  const Outcome itself =
      RunStowage(Mlp({"--continue", TempPath("digits.csv")}));
  CHECK(itself.err.find("[continue] ") != std::string::npos);
  CHECK(itself.err.find("is what --data reads") != std::string::npos);
  for (const char* other : {"--save", "--resume"}) {
    const Outcome both = RunStowage(Mlp({"--continue", good, other, path}));
    CHECK(both.exit_code == 2);
    CHECK(both.err.find("[train] --continue resumes from its file and saves to "
                        "it") != std::string::npos);
  }
  CHECK(ReadAll(good) == before);
  CHECK(ReadAll(TempPath("digits.csv")) == SomeDigits());
}

TEST_CASE("a signal says that the same command goes on from there") {
  const std::string path = TempPath("signalled.ck");
  const Outcome stopped = RunAndSignal(
      Mlp({"--steps", "1000000", "--continue", path, "--save-every", "1"}),
      path, SIGTERM);
  CHECK(stopped.exit_code == 143);
  CHECK(stopped.err.find("; the same command goes on from there\n") !=
        std::string::npos);
}

TEST_CASE("checkpoints are saved on the way, the last few and the best kept") {
  const std::string path = TempPath("kept/model.safetensors");
  std::filesystem::create_directories(TempPath("kept"));
  const std::vector<Json> with =
      TrainMlp({"--steps", "60", "--save", path, "--save-every", "20",
                "--keep-last", "2"});
  const std::vector<Json> without = TrainMlp({"--steps", "60"});
  // Saving and judging change nothing.
  REQUIRE(with.size() == without.size());
  for (size_t i = 0; i < 60; ++i) CHECK(with[i]["loss"] == without[i]["loss"]);
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(TempPath("kept"))) {
    names.insert(entry.path().filename().string());
  }
  CHECK(names == std::set<std::string>{
                     "model.best.safetensors", "model.safetensors",
                     "model.step-40.safetensors", "model.step-60.safetensors"});
  CHECK(ReadAll(path) == ReadAll(TempPath("kept/model.step-60.safetensors")));
  // The one of step 40 is that of a run that went as far.
  const std::string until40 = TempPath("until40.safetensors");
  TrainMlp({"--steps", "60", "--stop-at", "40", "--save", until40});
  CHECK(ReadAll(until40) ==
        ReadAll(TempPath("kept/model.step-40.safetensors")));
}

TEST_CASE("a run goes on when a checkpoint on the way cannot be written") {
  const std::string path = TempPath("no_room.ck");
  const Outcome outcome = RunStowage(Mlp({"--save", path, "--save-every", "2"}),
                                     {.largest_file = 20'000});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("File too large; training goes on") !=
        std::string::npos);
  CHECK(outcome.out.starts_with("mlp, 6 steps on cpu: training loss "));
  CHECK(ReadAll(path).empty());
}

TEST_CASE("two runs on one file: one is refused, and nothing is lost") {
  const std::string path = TempPath("shared.ck");
  const pid_t other = fork();
  REQUIRE(other >= 0);
  if (other == 0) {
    RunAndSignal(
        Mlp({"--steps", "1000000", "--save", path, "--save-every", "1"}),
        TempPath("release"), SIGTERM);
    _exit(0);
  }
  while (ReadAll(path).empty()) usleep(1000);
  const Outcome refused = RunStowage(Mlp({"--save", path}));
  WriteTemp("release", "");
  REQUIRE(waitpid(other, nullptr, 0) == other);
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("another run has claimed it") != std::string::npos);
  CHECK(Loads(path));
}

TEST_CASE("a resumed run says what its checkpoint's run had otherwise") {
  const std::string path = TempPath("noted.ck");
  TrainMlp({"--stop-at", "2", "--save", path, "--optimizer", "momentum"});
  const auto resume = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--resume", path});
    return RunStowage(Mlp(more));
  };
  const Outcome same = resume({"--optimizer", "momentum"});
  CHECK(same.exit_code == 0);
  CHECK(same.err.find("resume: ") == std::string::npos);

  const Outcome other =
      resume({"--optimizer", "momentum", "--seed", "7", "--lr", "0.125",
              "--batch", "4", "--steps", "9", "--data",
              WriteTemp("other.csv", SomeDigits() + SomeDigits())});
  INFO(other.err);
  CHECK(other.exit_code == 0);
  for (const char* line :
       {"resume: seed was 1, is 7\n", "resume: batch was 8, is 4\n",
        "resume: steps was 6, is 9\n", ", is 0.125\n",
        "resume: data was digits.csv (", ", is other.csv ("}) {
    INFO(line);
    CHECK(other.err.find(line) != std::string::npos);
  }
  for (const char* optimizer : {"sgd", "adamw"}) {
    const Outcome wrong = resume({"--optimizer", optimizer});
    CHECK(wrong.exit_code == 2);
    CHECK(wrong.err.find(StrCat("is of a run with --optimizer momentum, this "
                                "one has ",
                                optimizer)) != std::string::npos);
  }
  // What else its values are of is named by its option.
  const std::pair<std::vector<std::string>, std::string> wrong[] = {
      {{"--dtype", "bf16"}, "--dtype f32, this one has bf16"},
      {{"--loss-scale", "dynamic"}, "--loss-scale none, this one has dynamic"},
      {{"--lora-rank", "2"},
       "--lora-rank none, this one has 2, whose adapters have other shapes; "
       "train without adapters, as finetune --full does"},
  };
  for (const auto& [more, words] : wrong) {
    std::vector<std::string> all = {"--optimizer", "momentum"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome refused = resume(all);
    INFO(refused.err);
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find(words) != std::string::npos);
  }
  // A budget may choose other micro-batches, by which sums are rounded otherwise.
  const Outcome rounded =
      resume({"--optimizer", "momentum", "--micro-batches", "2"});
  CHECK(rounded.exit_code == 0);
  CHECK(rounded.err.find("resume: micro-batches was 1, is 2\n") !=
        std::string::npos);
}

TEST_CASE("adapters beside other layers are named where a run resumes") {
  const std::string path = TempPath("targets.ck");
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--lora-rank", "2"});
    return RunStowage(Mlp(more));
  };
  REQUIRE(
      run({"--stop-at", "2", "--save", path, "--lora-targets", "fc1.weight"})
          .exit_code == 0);
  const Outcome refused =
      run({"--resume", path, "--lora-targets", "fc2.weight"});
  INFO(refused.err);
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find(
            "; resume: lora-targets was fc1.weight, is fc2.weight\n") !=
        std::string::npos);
}

TEST_CASE("a signal in the last step advises nothing that would be refused") {
  const std::string path = TempPath("last.safetensors");
  const std::vector<std::string> arguments = {"train",
                                              "--model",
                                              "gpt-nano",
                                              "--data",
                                              WriteTemp("t.txt", SomeText()),
                                              "--batch",
                                              "32",
                                              "--seq",
                                              "128",
                                              "--steps",
                                              "2",
                                              "--save-every",
                                              "1",
                                              "--save",
                                              path,
                                              "--sample",
                                              "0",
                                              "--threads",
                                              "1",
                                              "--device",
                                              "cpu"};
  // It is sent once the first step is saved, and may come before the second begins.
  Outcome stopped;
  for (int after = 20;; after *= 2) {
    std::filesystem::remove(path);
    const auto is_second = [&] {
      if (!std::filesystem::exists(path)) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(after));
      return true;
    };
    stopped = RunAndSignal(arguments, is_second, SIGTERM);
    INFO(stopped.err);
    REQUIRE(stopped.exit_code == 143);
    if (stopped.err.find(" after step 1 of 2; ") == std::string::npos) break;
  }
  INFO(stopped.err);
  CHECK(stopped.err.find(" after step 2 of 2; ") != std::string::npos);
  CHECK(stopped.err.find("; this was the last step\n") != std::string::npos);
  CHECK(stopped.err.find("--resume") == std::string::npos);
}

TEST_CASE("a run goes on with another fixed loss scale, and says so") {
  const std::string path = TempPath("scaled.ck");
  TrainMlp({"--stop-at", "2", "--save", path, "--loss-scale", "8"});
  const Outcome other =
      RunStowage(Mlp({"--resume", path, "--loss-scale", "16"}));
  INFO(other.err);
  CHECK(other.exit_code == 0);
  CHECK(other.err.find("resume: loss-scale was 8, is 16\n") !=
        std::string::npos);
  const Outcome none = RunStowage(Mlp({"--resume", path}));
  CHECK(none.exit_code == 2);
  CHECK(none.err.find("--loss-scale 8, this one has none") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage::testing
