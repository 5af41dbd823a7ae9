// Which blocking is taken, what is kept of it, and that steps are run by it. Times are
// those of a stopwatch that says what the test wants.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "cpu/blocking.h"
#include "cpu/cpu_backend.h"
#include "cpu/kernel.h"
#include "cpu/targets.h"
#include "cpu/thread_pool.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "tests/support/files.h"

namespace stowage::cpu {
namespace {

using testing::NewFolder;
using testing::ReadAll;

namespace fs = std::filesystem;

const std::vector<Blocking> kCandidates = {
    {}, {.packs = false}, {.strip = 3, .packs = false}, {.task_rows = 512}};

// A trial that counts its runs by candidate, and says which ran last.
struct Runs {
  std::vector<int> of = std::vector<int>(kCandidates.size());
  size_t last = 0;

  BlockingTrial Trial(int64_t number) {
    BlockingTrial trial;
    trial.key[0] = number;
    trial.candidates = kCandidates;
    trial.bytes = 4096;
    trial.run = [this](std::byte* memory, const Blocking& blocking,
                       ThreadPool&) {
      CHECK(reinterpret_cast<uintptr_t>(memory) % 64 == 0);
      std::memset(memory, 1, 4096);
      const auto at = std::ranges::find(kCandidates, blocking);
      REQUIRE(at != kCandidates.end());
      last = static_cast<size_t>(at - kCandidates.begin());
      ++of[last];
    };
    return trial;
  }
};

// The vectors that this process computes by, as its backend names them.
std::string_view Vectors() { return RunningCpuTarget().kernels->vectors; }

// By a stopwatch for which candidate i takes times[i].
BlockingAutotuner Opened(const std::string& folder, Runs& runs,
                         std::vector<double> times) {
  return BlockingAutotuner::Open(
      folder, Vectors(), [&runs, times](const std::function<void()>& run) {
        run();
        return times[runs.last];
      });
}

Blocking Chosen(BlockingAutotuner& autotuner, const BlockingTrial& trial) {
  ThreadPool pool(1);
  return autotuner.Choose(trial, pool);
}

// The one file in the folder.
std::string FileIn(const std::string& folder) {
  std::string path;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    CHECK(path == "");
    path = entry.path();
  }
  return path;
}

TEST_CASE("the fastest is chosen, the default by 2 %, and is timed once") {
  const std::string folder = NewFolder("autotuned");
  Runs runs;
  BlockingAutotuner autotuner = Opened(folder, runs, {4, 2, 1, 3});
  CHECK(Chosen(autotuner, runs.Trial(7)) == kCandidates[2]);
  // Once for nothing and five times.
  CHECK(runs.of == std::vector<int>{6, 6, 6, 6});
  CHECK(Chosen(autotuner, runs.Trial(7)) == kCandidates[2]);
  CHECK(runs.of == std::vector<int>{6, 6, 6, 6});
  BlockingAutotuner next = Opened(folder, runs, {1, 2, 3, 4});
  CHECK(Chosen(next, runs.Trial(7)) == kCandidates[2]);
  CHECK(runs.of == std::vector<int>{6, 6, 6, 6});
  CHECK(Chosen(next, runs.Trial(8)) == kCandidates[0]);
  CHECK(runs.of == std::vector<int>{12, 12, 12, 12});
  BlockingAutotuner even = Opened(folder, runs, {1, 0.99, 1, 1.01});
  CHECK(Chosen(even, runs.Trial(9)) == kCandidates[0]);
  BlockingAutotuner rows = Opened(folder, runs, {1, 1, 1, 0.97});
  CHECK(Chosen(rows, runs.Trial(10)) == kCandidates[3]);
}

TEST_CASE("what is kept is of a processor, its vectors and these loops") {
  const std::string folder = NewFolder("autotuned");
  Runs runs;
  BlockingAutotuner autotuner = Opened(folder, runs, {4, 2, 1, 3});
  CHECK_FALSE(fs::exists(folder));  // to look makes nothing
  Chosen(autotuner, runs.Trial(7));
  std::string line = "7 ";
  for (size_t i = 1; i < kBlockingKeyNumbers; ++i) line += "0 ";
  CHECK(ReadAll(FileIn(folder)) ==
        StrCat("stowage blockings 1\n", line, "3 0 0 ;\n"));
  const std::string name = fs::path(FileIn(folder)).filename();
  CHECK(name.starts_with("blockings-"));
  CHECK(name.ends_with(StrCat("-", Vectors(), "-loops-1.txt")));
  std::ifstream info("/proc/cpuinfo");
  for (std::string text; std::getline(info, text);) {
    if (!text.starts_with("model name") && !text.starts_with("CPU part")) {
      continue;
    }
    // "AMD EPYC 9B14" as a part of the name.
    std::string model = text.substr(text.find(": ") + 2);
    model = model.substr(0, model.find_first_of(" (@"));
    CHECK(name.find(StrCat("blockings-", model, "-")) == 0);
    break;
  }
}

TEST_CASE("of two processes that choose at once, both take what one wrote") {
  const std::string folder = NewFolder("autotuned");
  Runs one_runs, other_runs;
  BlockingAutotuner one = Opened(folder, one_runs, {4, 2, 1, 3});
  BlockingAutotuner other = Opened(folder, other_runs, {1, 2, 3, 4});
  CHECK(Chosen(one, one_runs.Trial(7)) == kCandidates[2]);
  CHECK(Chosen(other, other_runs.Trial(7)) == kCandidates[2]);
  CHECK(other_runs.of[0] == 6);

  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&folder, t] {
      Runs runs;
      std::vector<double> times(4, 1);
      times[t] = 0.5;
      const auto last = [&runs, times](const std::function<void()>& run) {
        run();
        return times[runs.last];
      };
      BlockingAutotuner own = BlockingAutotuner::Open(folder, Vectors(), last);
      ThreadPool pool(1);
      for (int64_t key = 100; key < 120; ++key) {
        (void)own.Choose(runs.Trial(key), pool);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = ReadAll(FileIn(folder));
  CHECK(std::count(text.begin(), text.end(), '\n') == 1 + 1 + 20);
}

// What a backend that keeps choices in `folder` tells when a product is bound twice.
std::vector<std::string> NotesOfBackend(const std::string& folder) {
  GraphBuilder g("product");
  g.Output("y", MatMul(g.Input("a", DType::kF32, {128, 128}),
                       g.Input("b", DType::kF32, {128, 128})));
  const Graph graph = *g.Finish();
  std::vector<std::string> notes;
  const auto cpu = MakeCpuBackend(
      {.threads = 1,
       .blocking_folder = folder,
       .note = [&notes](const std::string& note) { notes.push_back(note); }});
  for (int i = 0; i < 2; ++i) {
    const auto session = Session::Create(
        {{"product", graph, *PlanMemory(graph, {.device = cpu->Needs()})}},
        *cpu);
    CHECK(session.ok());
  }
  return notes;
}

TEST_CASE("without a file to keep them, choices are made for the process") {
  const std::string folder = NewFolder("autotuned");
  CHECK(NotesOfBackend(folder).empty());
  Runs runs;
  BlockingAutotuner autotuner = Opened(folder, runs, {4, 2, 1, 3});
  Chosen(autotuner, runs.Trial(7));
  const std::string path = FileIn(folder);
  const std::string text = ReadAll(path);

  // The file is damaged.
  const std::string words = text + "words\n";
  std::ofstream(path, std::ios::binary | std::ios::trunc) << words;
  Runs again;
  BlockingAutotuner damaged = Opened(folder, again, {3, 2, 4, 4});
  const auto lines = std::count(words.begin(), words.end(), '\n');
  CHECK(damaged.note() ==
        StrCat("[cpu] \"", path, "\" is damaged at line ", lines,
               "; it says how products are cut: put it back from a copy, or "
               "remove it to have them timed again, which changes no bit of a "
               "result"));
  CHECK(Chosen(damaged, again.Trial(7)) == kCandidates[1]);
  CHECK(Chosen(damaged, again.Trial(7)) == kCandidates[1]);
  CHECK(again.of == std::vector<int>{6, 6, 6, 6});
  CHECK(ReadAll(path) == words);
  CHECK(NotesOfBackend(folder) == std::vector<std::string>{damaged.note()});

  // The folder is a file, as one is that cannot be written.
  const std::string file = NewFolder("autotuned");
  std::ofstream(file) << "a file";
  Runs nowhere_runs;
  BlockingAutotuner nowhere = Opened(file, nowhere_runs, {3, 2, 4, 4});
  CHECK(Chosen(nowhere, nowhere_runs.Trial(7)) == kCandidates[1]);
  CHECK(Chosen(nowhere, nowhere_runs.Trial(7)) == kCandidates[1]);
  CHECK(nowhere_runs.of == std::vector<int>{6, 6, 6, 6});
  CHECK(nowhere.note().find(file) != std::string::npos);
  CHECK(NotesOfBackend(file) == std::vector<std::string>{nowhere.note()});
}

TEST_CASE("a kept choice that is no candidate any more is made anew") {
  const std::string folder = NewFolder("autotuned");
  Runs runs;
  BlockingAutotuner autotuner = Opened(folder, runs, {4, 2, 1, 3});
  Chosen(autotuner, runs.Trial(7));
  std::string text = ReadAll(FileIn(folder));
  text.replace(text.find("3 0 0 ;"), 7, "5 0 1 ;");
  std::ofstream(FileIn(folder), std::ios::binary | std::ios::trunc) << text;
  BlockingAutotuner strange = Opened(folder, runs, {3, 2, 4, 4});
  CHECK(Chosen(strange, runs.Trial(7)) == kCandidates[1]);
  CHECK(strange.note() == "");
  CHECK(ReadAll(FileIn(folder)) == text);
}

// --- Steps ---------------------------------------------------------------------

// A copy that notes by which blocking it ran, and how often its trial did.
std::vector<Blocking> ran_by;
Runs of_copies;

StepCode RunCopy(const Launch& launch, ThreadPool&,
                 const Blocking& blocking) noexcept {
  std::memcpy(launch.outputs[0].data, launch.inputs[0].data,
              static_cast<size_t>(launch.inputs[0].type.bytes()));
  ran_by.push_back(blocking);
  return StepCode::kOk;
}
std::optional<BlockingTrial> TrialOfCopy(const Launch& launch, int threads) {
  return of_copies.Trial(launch.inputs[0].size() * 10 + threads);
}

const OpKind kNotedCopy = *DefineOp(
    "noted_copy_for_test",
    {.infer = [](const OpArgs& args) -> Result<std::vector<TensorType>> {
      return std::vector<TensorType>{args.type(0)};
    }});
const Status kNotedCopyRuns =
    DefineKernel(kNotedCopy, {.run = RunByDefault<RunCopy>,
                              .run_blocked = RunCopy,
                              .trial = TrialOfCopy});

// Binds the graph and steps once; by what its copies ran.
std::vector<Blocking> Step(const Graph& graph, const std::string& folder,
                           const std::string& target = "") {
  const auto cpu = MakeCpuBackend(
      {.threads = 1, .target = target, .blocking_folder = folder});
  auto session = Session::Create(
      {{"copies", graph, *PlanMemory(graph, {.device = cpu->Needs()})}}, *cpu);
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  for (const char* name : {"x", "y"}) {
    const std::vector<float> numbers(name[0] == 'x' ? 3 : 5, 1.0F);
    REQUIRE(session->front().Write(name, numbers).ok());
  }
  ran_by.clear();
  REQUIRE(session->front().Step() == StepCode::kOk);
  return ran_by;
}

TEST_CASE("a step runs by what was chosen when it was bound") {
  REQUIRE(kNotedCopyRuns.ok());
  GraphBuilder g("copies");
  const auto copy = [](const Value& x) { return Apply(kNotedCopy, {x}); };
  const Value x = g.Input("x", DType::kF32, {3});
  const Value y = g.Input("y", DType::kF32, {5});
  g.Output("of_y", copy(y));
  g.Output("of_x", copy(copy(x)));
  const Graph graph = *g.Finish();
  const std::string folder = NewFolder("autotuned");

  // Without a folder, nothing is timed.
  CHECK(Step(graph, "") == std::vector<Blocking>(3));
  CHECK(of_copies.of == std::vector<int>(4));

  BlockingAutotuner autotuner = Opened(folder, of_copies, {4, 2, 1, 3});
  Chosen(autotuner, of_copies.Trial(31));
  BlockingAutotuner other = Opened(folder, of_copies, {4, 1, 2, 3});
  Chosen(other, of_copies.Trial(51));
  const std::string text = ReadAll(FileIn(folder));
  of_copies.of.assign(4, 0);
  std::vector<Blocking> want = {kCandidates[1], kCandidates[2], kCandidates[2]};
  CHECK(Step(graph, folder) == want);
  CHECK(of_copies.of == std::vector<int>(4));  // none is timed again
  CHECK(ReadAll(FileIn(folder)) == text);

  // By the clock, whatever it says: each shape once, for all launches of it.
  const std::string fresh = NewFolder("autotuned");
  Step(graph, fresh);
  CHECK(of_copies.of == std::vector<int>{12, 12, 12, 12});
  Step(graph, fresh);
  CHECK(of_copies.of == std::vector<int>{12, 12, 12, 12});
}

TEST_CASE("each target keeps choices of its own") {
  GraphBuilder g("copies");
  const Value x = g.Input("x", DType::kF32, {3});
  g.Output("of_y", g.Input("y", DType::kF32, {5}));
  g.Output("of_x", Apply(kNotedCopy, {x}));
  const Graph graph = *g.Finish();
  for (const CpuTarget& target : CpuTargets()) {
    if (!target.runs) continue;
    INFO(target.name);
    const std::string folder = NewFolder("autotuned");
    Step(graph, folder, std::string(target.name));
    const std::string name = fs::path(FileIn(folder)).filename();
    CHECK(name.ends_with(StrCat("-", target.kernels->vectors, "-loops-1.txt")));
  }
}

TEST_CASE("what a loop's iterations multiply runs by what was chosen, too") {
  GraphBuilder g("copies");
  const Value x = g.Input("x", DType::kF32, {3});
  g.Output("of_y", g.Input("y", DType::kF32, {5}));
  const LoopResults run = Loop(g, 2, {.carried = {x}}, [](LoopBody& body) {
    body.Next(0, Apply(kNotedCopy, {body.carried(0)}));
  });
  g.Output("of_x", run.carried[0]);
  const Graph graph = *g.Finish();
  const std::string folder = NewFolder("autotuned");
  BlockingAutotuner autotuner = Opened(folder, of_copies, {4, 2, 1, 3});
  Chosen(autotuner, of_copies.Trial(31));
  CHECK(Step(graph, folder) == std::vector<Blocking>(2, kCandidates[2]));
}

}  // namespace
}  // namespace stowage::cpu
