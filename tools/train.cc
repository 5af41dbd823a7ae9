// stowage train: a training run inside a memory budget.

#include "train/train.h"

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/output_file.h"
#include "base/strings.h"
#include "report/report.h"
#include "runtime/checkpoint.h"
#include "runtime/session.h"
#include "tools/budget.h"
#include "tools/command.h"
#include "tools/heap_counter.h"
#include "tools/model_flags.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/sample.h"
#include "tools/task.h"

namespace stowage::tools {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr double kTemperature = 0.8;
constexpr int64_t kMaxSampleSeq = 64;  // each character costs a forward run

struct Flags : RunFlags {
  std::optional<int64_t> steps;
  std::optional<int64_t> stop_at;
  std::optional<double> lr;
  std::string save, resume, svg, html;
  int64_t sample = 200;
  bool check = false;
  bool json = false;
};

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Error Invalid(std::string_view message) {
  return {ErrorCode::kInvalidArgument, StrCat("[train] ", message)};
}

// How long and how fast to train.
struct RunSpec {
  int64_t steps = 0;  // of the whole run, which the schedule spans
  int64_t stop_at = 0;
  LearningRateSchedule schedule;
};

Result<RunSpec> ReadRunFlags(const Flags& flags, const StepSpec& spec) {
  const TrainingDefaults& defaults = spec.info.training;
  RunSpec run;
  run.steps = flags.steps.value_or(defaults.steps);
  if (run.steps < 1) {
    return Invalid(StrCat("steps ", run.steps, " is below 1"));
  }
  run.stop_at = flags.stop_at.value_or(run.steps);
  if (run.stop_at < 1 || run.stop_at > run.steps) {
    return Invalid(StrCat("stop-at ", run.stop_at,
                          " is out of range; expected 1 to ", run.steps));
  }
  run.schedule = defaults.schedule;
  const Optimizer& optimizer = spec.training.training.optimizer;
  if (OptimizerName(optimizer) != defaults.optimizer) {
    // The model's rate is for the model's optimizer.
    run.schedule.peak = DefaultLearningRate(optimizer);
  }
  if (flags.lr) {
    if (!(*flags.lr > 0) || !std::isfinite(*flags.lr)) {
      return Invalid(
          StrCat("learning rate ", *flags.lr, " is not a positive number"));
    }
    run.schedule.peak = *flags.lr;
  }
  if (flags.sample < 0) {
    return Invalid(StrCat("sample ", flags.sample, " is negative"));
  }
  return run;
}

// What is said of a plan that was found, and of a budget that was refused: also as
// JSON, if that is wanted.
Result<std::optional<Foretold>> Tell(const StepSpec& spec,
                                     TrainingPlanner& planner,
                                     const TrainingPlan& plan) {
  if (!plan.cache_note.empty()) std::cerr << plan.cache_note << std::endl;
  STOWAGE_ASSIGN_OR_RETURN(
      const std::optional<Foretold> foretold,
      Foretell(spec.training.op_times, planner.step().fitter(), plan.step));
  std::cerr << FittedText(plan.step, foretold);
  return foretold;
}

int Refuse(const Flags& flags, const StepSpec& spec, TrainingPlanner& planner,
           const Error& error) {
  if (error.code != ErrorCode::kBudgetTooSmall || !flags.json) {
    return Fail(error);
  }
  StepFitter& fitter = planner.step().fitter();
  const Result<FittedStep> given = fitter.AsGiven();
  if (!given.ok()) return Fail(given.error());
  Json refusal = FiguresJson(MakeReport(given->graph, given->plan), 20);
  refusal["budget_bytes"] = *spec.training.budget;
  refusal["fits"] = false;
  const Result<Json> budgets = RefusalJson(fitter, spec.training.batch, error);
  if (!budgets.ok()) return Fail(budgets.error());
  refusal.update(*budgets);
  PrintJson(refusal);
  return Fail(error);
}

Json StepJson(const StepFigures& figures, const MemoryFigures& memory) {
  Json json = Json::object();
  json["step"] = figures.step;
  json["loss"] = figures.loss;
  json["lr"] = figures.lr;
  json["step_seconds"] = figures.seconds;
  json["tokens_per_second"] = figures.tokens_per_second;
  json["arena_bytes"] = memory.arena;
  json["budget_bytes"] = memory.budget ? Json(*memory.budget) : Json();
  json["lower_bound_bytes"] = memory.lower_bound;
  json["no_reuse_bytes"] = memory.no_reuse;
  json["saved_bytes"] = memory.saved();
  return json;
}

// What the steps of a run came to.
struct RunFigures {
  double loss = 0;  // of the last step
  std::vector<PageLoss> losses;
  std::optional<int64_t> heap_allocations = 0;
};

// A step that was started and whose loss has not been read.
struct StartedStep {
  uint64_t number = 0;  // of the runner
  double lr = 0;
  Clock::time_point start;
};

// `ahead`: how many steps are started before the loss of one is read, so that
// the device never waits.
Result<RunFigures> RunSteps(Runner& train, Task& task, const RunSpec& run,
                            int64_t done, int64_t ahead,
                            const MemoryFigures& memory, bool json) {
  const bool reads_step = [&] {
    const std::optional<ValueId> id = train.graph().Find("step");
    return id && train.graph().value(*id).role == Role::kInput;
  }();
  Progress progress(done + 1, run.stop_at, task.token_name(), memory);
  RunFigures total;
  std::array<StartedStep, kStepsInFlight> steps;
  const auto started = [&](int64_t step) -> StartedStep& {
    return steps[static_cast<size_t>(step) % steps.size()];
  };
  Clock::time_point end;  // of the step before
  for (int64_t next = done + 1; next <= run.stop_at + ahead; ++next) {
    const std::optional<int64_t> allocations = HeapAllocations();
    if (next <= run.stop_at) {
      StartedStep& step = started(next);
      step.start = Clock::now();
      step.lr = run.schedule.At(next, run.steps);
      STOWAGE_RETURN_IF_ERROR(task.WriteBatch(train, next));
      STOWAGE_RETURN_IF_ERROR(train.Write("lr", static_cast<float>(step.lr)));
      if (reads_step) STOWAGE_RETURN_IF_ERROR(train.Write("step", next));
      step.number = train.Start();
    }
    const int64_t step = next - ahead;
    const bool reads = step > done;
    float loss = 0;
    if (reads) {
      STOWAGE_ASSIGN_OR_RETURN(loss,
                               train.ReadScalar("loss", started(step).number));
    }
    if (allocations) {
      *total.heap_allocations += *HeapAllocations() - *allocations;
    } else {
      total.heap_allocations.reset();
    }
    if (!reads) continue;

    const double lr = started(step).lr;
    const double seconds = SecondsSince(std::max(started(step).start, end));
    end = Clock::now();
    const StepFigures figures{
        .step = step,
        .loss = loss,
        .lr = lr,
        .seconds = seconds,
        .tokens_per_second =
            static_cast<double>(task.tokens_per_step()) / seconds};
    if (json) {
      PrintJson(StepJson(figures, memory));
    } else {
      progress.Show(figures);
    }
    if (!std::isfinite(loss)) {
      return Invalid(StrCat("the loss is ", loss, " at step ", step,
                            "; a lower learning rate than ", lr, " may help"));
    }
    total.loss = loss;
    total.losses.push_back({.step = step, .loss = loss});
  }
  return total;
}

// Beside the training step: evaluation, and generation for models of text.
std::vector<ProgramSpec> ProgramsBeside(const StepSpec& spec, const Task& task,
                                        int64_t sample_seq) {
  const ModelFn evaluate = ModelOf(spec, ModelPurpose::kEvaluate);
  std::vector<ProgramSpec> programs;
  programs.push_back({.name = "evaluate",
                      .model =
                          [&task, evaluate](int64_t batch) {
                            return evaluate(task.EvaluationBatch(batch));
                          },
                      .batch = *spec.options.batch});
  if (sample_seq == 0) return programs;
  StepSpec of_sample = spec;
  of_sample.options.seq = sample_seq;
  programs.push_back({.name = "generate",
                      .model = ModelOf(of_sample, ModelPurpose::kGenerate),
                      .batch = 1});
  return programs;
}

// The step, and what runs over its arena beside it.
std::vector<PageProgram> DescribePrograms(const TrainingPlan& plan) {
  std::vector<PageProgram> programs;
  programs.push_back(DescribeProgram("train", plan.step.graph, plan.step.plan));
  for (const PlannedProgram& program : plan.programs) {
    programs.push_back(
        DescribeProgram(program.name, program.graph, program.plan));
  }
  return programs;
}

Bytes PeakResidentBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return Bytes{usage.ru_maxrss} * 1024;  // Linux counts KiB
}

Result<std::optional<OutputFile>> ClaimSave(const std::string& path) {
  if (path.empty()) return std::optional<OutputFile>();
  STOWAGE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Claim(path));
  return std::optional<OutputFile>(std::move(file));
}

int Run(const Flags& flags) {
  const Clock::time_point start = Clock::now();
  const Result<StepSpec> spec = ReadRunFlags(flags);
  if (!spec.ok()) return Fail(spec.error());
  const Result<RunSpec> run = ReadRunFlags(flags, *spec);
  if (!run.ok()) return Fail(run.error());
  const Status paths = CheckPaths({{"save", flags.save}, {"svg", flags.svg}},
                                  {{"data", flags.data},
                                   {"resume", flags.resume},
                                   {"op-times", flags.model.op_times}});
  if (!paths.ok()) return Fail(paths.error());
  // Claimed before the first step: no run ends with nowhere to write.
  const Result<std::optional<OutputFile>> save = ClaimSave(flags.save);
  if (!save.ok()) return Fail(save.error());
  const Result<Output> svg = Output::Open(flags.svg);
  if (!svg.ok()) return Fail(svg.error());
  const auto seed = static_cast<uint64_t>(flags.seed);
  const Result<std::unique_ptr<Task>> task = LoadTask(*spec, flags.data, seed);
  if (!task.ok()) return Fail(task.error());

  const Result<ChosenDevice> device =
      ChooseDevice({.name = flags.device,
                    .dtype = spec->options.dtype,
                    .threads = flags.model.threads,
                    .check = flags.check});
  if (!device.ok()) return Fail(device.error());
  if (!device->why.empty()) std::cerr << device->why << std::endl;
  Backend* const backend = device->backend.get();

  if (spec->training.budget) {
    const Status possible = backend->CheckBudget(*spec->training.budget);
    if (!possible.ok()) return Fail(possible.error());
  }

  // Everything is planned before the first byte of the arena is taken.
  const int64_t sample_seq =
      spec->info.data == ModelData::kText && flags.sample > 0
          ? std::min(*spec->options.seq, kMaxSampleSeq)
          : 0;
  TrainingSpec training = spec->training;
  training.programs = ProgramsBeside(*spec, **task, sample_seq);
  Result<TrainingPlanner> planner =
      TrainingPlanner::Make(std::move(training), backend->Needs());
  if (!planner.ok()) return Fail(planner.error());
  Result<TrainingPlan> plan = planner->Plan();
  if (!plan.ok()) return Refuse(flags, *spec, *planner, plan.error());
  const auto foretold = Tell(*spec, *planner, *plan);
  if (!foretold.ok()) return Fail(foretold.error());
  const Report report = MakeReport(plan->step.graph, plan->step.plan);
  Page page{.title = report.graph_name, .budget = spec->training.budget};
  if (!flags.html.empty()) page.programs = DescribePrograms(*plan);
  const int64_t evaluation_batch =
      (*task)->EvaluationBatch(plan->programs.front().batch);
  Result<Training> opened = Training::Open(*std::move(plan), *backend);
  if (!opened.ok()) return Fail(opened.error());
  Session* const session = &opened->session();

  Runner& train = *session->Find("train");
  int64_t done = 0;
  if (flags.resume.empty()) {
    session->Initialize(seed);
  } else {
    const Result<int64_t> loaded = LoadCheckpoint(train, flags.resume);
    if (!loaded.ok()) return Fail(loaded.error());
    done = *loaded;
    if (done >= run->stop_at) {
      return Fail(Invalid(StrCat(
          "nothing is left to do: the checkpoint is at "
          "step ",
          done, " and the run ends at ", run->stop_at, "; give more --steps")));
    }
  }

  const MemoryFigures memory{.arena = session->arena_bytes(),
                             .budget = spec->training.budget,
                             .lower_bound = report.lower_bound,
                             .no_reuse = report.no_reuse};
  const Result<RunFigures> figures =
      RunSteps(train, **task, *run, done, backend->works_on_its_own() ? 1 : 0,
               memory, flags.json);
  if (!figures.ok()) return Fail(figures.error());
  // What cannot be written is told at the end; the results are printed anyway.
  Status written;
  if (*save) written = SaveCheckpoint(train, **save, run->stop_at);
  const Result<Evaluation> evaluation =
      (*task)->Evaluate(*session->Find("evaluate"), evaluation_batch);
  if (!evaluation.ok()) return Fail(evaluation.error());

  if (!flags.svg.empty()) {
    const Status drawn = svg->Write(ToSvg(report));
    if (written.ok()) written = drawn;
  }
  if (!flags.html.empty()) {
    page.losses = figures->losses;
    page.held_out_loss = evaluation->loss;
    const Status written = WriteOutput(flags.html, ToHtml(page));
    if (!written.ok()) return Fail(written.error());
  }
  if (flags.json) {
    Json json = Json::object();
    json["done"] = true;
    json["steps"] = run->stop_at;
    json["validation_loss"] = evaluation->loss;
    if (evaluation->accuracy) {
      json["validation_accuracy"] = *evaluation->accuracy;
    }
    json["arena_bytes"] = memory.arena;
    json["host_bytes"] = session->host_bytes();
    json["peak_rss_bytes"] = PeakResidentBytes();
    json["heap_allocations_in_steps"] =
        figures->heap_allocations ? Json(*figures->heap_allocations) : Json();
    json["seconds"] = SecondsSince(start);
    json.update(ForetoldJson(*foretold));
    json["device"] = backend->name();
    for (const MemoryNote& note : backend->MemoryBesideArena()) {
      json["beside_arena_bytes"][note.what] = note.bytes;
    }
    PrintJson(json);
    return written.ok() ? kExitDone : Fail(written.error());
  }

  std::cout << spec->info.name << ", " << run->stop_at << " steps on "
            << backend->name() << ": training loss " << Fixed(figures->loss, 4)
            << ", held-out loss " << Fixed(evaluation->loss, 4);
  if (evaluation->accuracy) {
    std::cout << ", held-out accuracy " << Fixed(100 * *evaluation->accuracy, 1)
              << " %";
  }
  std::cout << "\n\n";
  if (sample_seq > 0) {
    const Result<std::string> text =
        SampleText(*session->Find("generate"), sample_seq, flags.sample,
                   kTemperature, seed);
    if (!text.ok()) return Fail(text.error());
    std::cout << "The model writes (temperature " << Fixed(kTemperature, 1)
              << "):\n"
              << *text << "\n\n";
  }
  std::cout << ToText(report) << "\narena of the run "
            << FormatBytes(memory.arena) << " (" << memory.arena
            << " bytes, all programs), peak memory of the process "
            << FormatBytes(PeakResidentBytes());
  if (figures->heap_allocations) {
    std::cout << ", heap allocations in steps " << *figures->heap_allocations;
  }
  std::cout << ", " << Fixed(SecondsSince(start), 1) << " s\n";
  for (const MemoryNote& note : backend->MemoryBesideArena()) {
    std::cout << note.what << ": " << FormatBytes(note.bytes) << " ("
              << note.bytes << " bytes)\n";
  }
  return written.ok() ? kExitDone : Fail(written.error());
}

}  // namespace

void AddTrain(CLI::App& app, int* exit_code) {
  CLI::App* command = AddSubcommand(
      app, "train", "Train a model inside a memory budget",
      "stowage train --model mlp --data digits.csv --steps 200 --budget 4MiB");
  const auto flags = std::make_shared<Flags>();
  AddRunOptions(*command, flags.get());
  command->add_option("--steps", flags->steps,
                      "Steps of the whole run, which the learning rate's "
                      "schedule spans; default: the model's");
  command->add_option("--stop-at", flags->stop_at,
                      "End after this step, as if interrupted; --save and "
                      "--resume continue bit for bit");
  command->add_option("--lr", flags->lr,
                      "Peak of the learning rate; default: the model's");
  command->add_flag("--check", flags->check,
                    "On the GPU: run op by op, and name the op that fails or "
                    "makes the first value that is not finite; slow");
  command->add_option("--save", flags->save,
                      "Write a checkpoint to this file at the end");
  command->add_option("--resume", flags->resume,
                      "Continue from this checkpoint");
  command
      ->add_option("--sample", flags->sample,
                   "Characters to generate at the end (gpt models)")
      ->capture_default_str();
  command->add_option("--svg", flags->svg,
                      "Write a picture of the plan to this file");
  command->add_option("--html", flags->html,
                      "Write the plans of the run and its losses to this file, "
                      "as a page to zoom, search and pin in");
  command->add_flag("--json", flags->json,
                    "Print one JSON object a step, and one at the end");
  command->callback([flags, exit_code] { *exit_code = Run(*flags); });
}

}  // namespace stowage::tools
