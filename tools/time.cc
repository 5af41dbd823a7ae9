// stowage time measures each op of a training step on this machine.

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "planner/fit/cost.h"
#include "runtime/session.h"
#include "tools/arrays_task.h"
#include "tools/budget.h"
#include "tools/command.h"
#include "tools/model_flags.h"
#include "tools/onnx_flags.h"
#include "tools/options.h"
#include "tools/progress.h"
#include "tools/task.h"
#include "train/device.h"
#include "train/train.h"

namespace stowage::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kWarmUp = 3;  // steps before the first that counts
constexpr int kRuns = 3;        // of a step; the last counts

struct TimeFlags : RunFlags {
  OnnxFlags onnx;
  ArrayFlags arrays;
  std::string output;
  int64_t steps = 20;
  bool json = false;
};

double Median(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The time of reading the clock, which is part of every op's time.
double ClockSeconds() {
  std::vector<double> seconds(1000);
  Clock::time_point before = Clock::now();
  for (double& between : seconds) {
    const Clock::time_point now = Clock::now();
    between = std::chrono::duration<double>(now - before).count();
    before = now;
  }
  return Median(std::move(seconds));
}

struct Measured {
  OpTimes times;
  double step_seconds = 0;   // of a step as a whole
  double by_op_seconds = 0;  // of a step run op by op
  double extra_percent = 0;  // beyond the step without optimizations
};

// Times steps as a whole and op by op, with and without optimizations in turn, so that all see the
// same state of the machine. Each kind runs three times in a row, and the last run counts: like a
// step of a training, it finds the caches that its own kind left. `without` may equal `train`.
Result<Measured> Measure(Runner& train, Runner& without, Task& task,
                         const StepSpec& spec, int64_t steps) {
  std::vector<double> whole, by_op, ratios;
  Measured measured;
  const double clock = ClockSeconds();
  const auto run_once = [&](Runner& runner, int64_t step,
                            auto&& go) -> Result<double> {
    STOWAGE_RETURN_IF_ERROR(task.WriteBatch(runner, step));
    STOWAGE_RETURN_IF_ERROR(runner.Write(
        "lr", static_cast<float>(spec.info.training.schedule.At(step, steps))));
    if (runner.graph().Find("step")) {
      STOWAGE_RETURN_IF_ERROR(runner.Write("step", step));
    }
    if (runner.graph().Find("seed")) {
      STOWAGE_RETURN_IF_ERROR(runner.Write("seed", int64_t{1}));
    }
    const Clock::time_point start = Clock::now();
    if (const StepCode code = go(); code != StepCode::kOk) {
      return runner.Explain(code);
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto run = [&](Runner& runner, int64_t step,
                       auto&& go) -> Result<double> {
    for (int run = 1; run < kRuns; ++run) {
      STOWAGE_RETURN_IF_ERROR(run_once(runner, step, go));
    }
    return run_once(runner, step, go);
  };
  const auto run_whole = [&](Runner& runner, int64_t step) {
    return run(runner, step, [&] { return runner.Step(); });
  };
  const auto run_by_op = [&](Runner& runner, int64_t step) -> Result<double> {
    std::vector<double> seconds(
        static_cast<size_t>(runner.graph().num_nodes()));
    STOWAGE_ASSIGN_OR_RETURN(const double sum, run(runner, step, [&] {
                               return runner.StepTimed(seconds);
                             }));
    for (double& of_op : seconds) of_op = std::max(of_op - clock, 0.0);
    if (step > kWarmUp) {
      measured.times.Add(runner.graph(), runner.plan().arena_bytes(), seconds);
    }
    return sum;
  };
  for (int64_t step = 1; step <= kWarmUp + steps; ++step) {
    STOWAGE_ASSIGN_OR_RETURN(const double before, run_whole(without, step));
    STOWAGE_ASSIGN_OR_RETURN(const double as_whole, run_whole(train, step));
    if (&train != &without) {
      STOWAGE_RETURN_IF_ERROR(run_by_op(without, step));
    }
    STOWAGE_ASSIGN_OR_RETURN(const double op_by_op, run_by_op(train, step));
    if (step <= kWarmUp) continue;
    ratios.push_back(as_whole / before);
    whole.push_back(as_whole);
    by_op.push_back(op_by_op);
  }
  measured.step_seconds = Median(std::move(whole));
  measured.by_op_seconds = Median(std::move(by_op));
  if (&train != &without) {
    measured.extra_percent = 100 * (Median(std::move(ratios)) - 1);
  }
  return measured;
}

Result<Session> Open(FittedStep step, Backend& backend, int64_t seed,
                     const StepSpec& spec) {
  std::vector<SessionProgram> programs;
  programs.push_back({"train", std::move(step.graph), std::move(step.plan)});
  STOWAGE_ASSIGN_OR_RETURN(Session session,
                           Session::Create(std::move(programs), backend));
  session.Initialize(static_cast<uint64_t>(seed));
  STOWAGE_RETURN_IF_ERROR(WriteOnnxWeights(spec, session.front()));
  return session;
}

int RunTime(const TimeFlags& flags) {
  // Before any file is claimed, since a folder created later could take its place.
  if (!flags.model.plan_cache.empty()) {
    const Status noted = NoteFolder(flags.model.plan_cache);
    if (!noted.ok()) return Fail(noted.error());
  }
  const Status tried = TryOutputs({{"output", flags.output}},
                                  {{"data", flags.data},
                                   {"onnx", flags.onnx.file},
                                   {"tokenizer", flags.tokenizer},
                                   {"op-times", flags.model.op_times}});
  if (!tried.ok()) return Fail(tried.error());
  const Result<StepSpec> spec =
      ReadStep("time", flags, flags.onnx, flags.arrays);
  if (!spec.ok()) return Fail(spec.error());
  const auto seed = static_cast<uint64_t>(flags.seed);
  const Result<std::unique_ptr<Task>> task =
      spec->onnx ? LoadArraysTask(*spec, {.seed = seed})
                 : LoadTask(*spec, flags.data, seed);
  if (!task.ok()) return Fail(task.error());
  const Result<std::string> offload_folder = OffloadFolder(
      spec->training.optimizations.value_or(NoOptimizations()).offload,
      flags.offload_dir);
  if (!offload_folder.ok()) return Fail(offload_folder.error());
  const Result<ChosenDevice> device = ChooseDevice(
      {.name = flags.device,
       .dtype = spec->options.dtype,
       .threads = flags.model.threads,
       .choice_folder = FolderOf(spec->training.cache),
       .note = [](const std::string& line) { std::cerr << line << std::endl; },
       .offload_folder = *offload_folder});
  if (!device.ok()) return Fail(device.error());
  Backend* const backend = device->backend.get();
  TrainingSpec training = spec->training;
  const std::shared_ptr<WorkProgress> progress =
      WorkProgress::OfPlanning(&training.on_choice);
  Result<TrainingPlanner> planner =
      TrainingPlanner::Make(std::move(training), backend->Needs());
  if (!planner.ok()) return Fail(planner.error());
  Result<TrainingPlan> plan = planner->Plan();
  progress->Clear();
  if (!plan.ok()) return Fail(plan.error());

  StepFitter& fitter = planner->step().fitter();
  const Result<std::optional<Predicted>> predicted =
      Predict(spec->training.op_times, fitter, plan->step);
  if (!predicted.ok()) return Fail(predicted.error());
  Result<FittedStep> given = fitter.AsGiven();
  if (!given.ok()) return Fail(given.error());
  const bool is_as_given = Equal(plan->step.graph, given->graph);
  Result<Session> session =
      Open(std::move(plan->step), *backend, flags.seed, *spec);
  if (!session.ok()) return Fail(session.error());
  std::optional<Session> without;
  if (!is_as_given) {
    Result<Session> made = Open(*std::move(given), *backend, flags.seed, *spec);
    if (!made.ok()) return Fail(made.error());
    without = *std::move(made);
  }
  Runner& train = session->front();
  const Result<Measured> measured = Measure(
      train, without ? without->front() : train, **task, *spec, flags.steps);
  if (!measured.ok()) return Fail(measured.error());

  // With --json, stdout has only JSON.
  if (!flags.output.empty() || !flags.json) {
    const Status written = WriteOutput(flags.output, measured->times.ToText());
    if (!written.ok()) return Fail(written.error());
  }
  const double sum =
      measured->times.StepSeconds(train.graph(), train.plan().arena_bytes());
  if (flags.json) {
    nlohmann::ordered_json json = {
        {"steps", flags.steps},
        {"device", backend->name()},
        {"step_seconds", measured->step_seconds},
        {"step_by_op_seconds", measured->by_op_seconds},
        {"ops_seconds", sum},
        {"extra_time_percent", measured->extra_percent}};
    json.update(PredictedJson(*predicted));
    PrintJson(json);
    return kExitDone;
  }
  std::cerr << "medians of " << flags.steps << " steps on "
            << backend->description() << ": a step takes "
            << Fixed(1e3 * measured->step_seconds, 3) << " ms, op by op "
            << Fixed(1e3 * measured->by_op_seconds, 3)
            << " ms; the ops' times add up to " << Fixed(1e3 * sum, 3)
            << " ms\n";
  if (without) {
    std::cerr << Fixed(measured->extra_percent, 2)
              << " % more than without memory optimizations, by pairs of steps";
    if (*predicted) {
      std::cerr << "; predicted " << Fixed((*predicted)->extra_percent, 2)
                << " %";
    }
    std::cerr << "\n";
  }
  return kExitDone;
}

}  // namespace

void AddTime(Program& program) {
  Options options = program.AddSubcommand(
      "time", "Measure the ops of a training step, for --op-times",
      "stowage time --model mlp --data digits.csv -o mlp.times");
  const auto flags = std::make_shared<TimeFlags>();
  AddRunOptions(options, flags.get());
  AddOnnxOptions(options, &flags->onnx);
  options.Group("data");
  AddInputMapOption(options, &flags->arrays);
  options.ApplyTo({"--model"}, {"--dtype", "--seq", "--tokenizer"});
  options.ApplyTo({"--onnx"}, {"--dim", "--shape", "--loss", "--freeze",
                               "--trainable", "--input-map"});
  options.Group("run");
  options.Add("--steps", &flags->steps,
              "Steps to measure, each as a whole and op by op");
  options.Limit("--steps", 1, 100'000);
  options.Group("output");
  options.AddOutput("-o,--output", &flags->output,
                    "Write the times to this file; default: stdout");
  options.AddFlag(
      "--json", &flags->json,
      "Print one JSON object: the time of a step, as a whole and op by op");
  options.OnRun([flags] { return RunTime(*flags); });
}

}  // namespace stowage::tools
