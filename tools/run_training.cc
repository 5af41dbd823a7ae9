#include "tools/run_training.h"

#include <chrono>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/batch_analysis.h"
#include "autodiff/train_step.h"
#include "base/memory.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "report/report.h"
#include "runtime/values.h"
#include "tools/arrays_task.h"
#include "tools/budget.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/progress.h"
#include "tools/run_notes.h"
#include "tools/sample.h"
#include "tools/stop_signals.h"
#include "tools/task.h"
#include "tools/token_task.h"
#include "tools/train_files.h"
#include "tools/train_reports.h"
#include "tools/tuning.h"
#include "train/run.h"
#include "train/run_checkpoints.h"
#include "train/state_backup.h"
#include "train/step_builder.h"
#include "train/train.h"

namespace stowage::tools {

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// Reports the plan, or the refusal of a budget, also as JSON with --json.
Result<std::optional<Predicted>> Tell(const StepSpec& spec,
                                      TrainingPlanner& planner,
                                      const TrainingPlan& plan) {
  if (!plan.cache_note.empty()) std::cerr << plan.cache_note << std::endl;
  STOWAGE_ASSIGN_OR_RETURN(
      const std::optional<Predicted> predicted,
      Predict(spec.training.op_times, planner.step().fitter(), plan.step));
  std::cerr << FittedText(plan.step, predicted)
            << BatchChangesText(planner, plan.step);
  return predicted;
}

int Refuse(const TrainFlags& flags, const StepSpec& spec,
           TrainingPlanner& planner, WorkProgress& progress,
           const Error& error) {
  if (error.code != ErrorCode::kBudgetTooSmall) return Fail(error);
  StepFitter& fitter = planner.step().fitter();
  const Ranks& among = planner.spec().ranks;
  const int64_t batch =
      PartOfRank(spec.training.batch, among.ranks, among.rank).count;
  if (!flags.json) {
    const Error all = WithSmallestBudgets(fitter, batch, error);
    progress.Clear();
    return Fail(all);
  }
  const Result<FittedStep> given = fitter.AsGiven();
  if (!given.ok()) return Fail(given.error());
  Json refusal = FiguresJson(MakeReport(given->graph, given->plan), 20);
  refusal["budget_bytes"] = *spec.training.budget;
  refusal["fits"] = false;
  Error all = error;
  const Result<Json> budgets = RefusalJson(fitter, batch, &all);
  progress.Clear();
  if (!budgets.ok()) return Fail(budgets.error());
  refusal.update(*budgets);
  PrintJson(refusal);
  return Fail(all);
}

Result<std::unique_ptr<Task>> LoadTaskOf(const StepSpec& spec,
                                         const TrainFlags& flags,
                                         RankRun& ranks) {
  const auto seed = static_cast<uint64_t>(flags.seed);
  TaskShare share{.rank = ranks.rank(), .ranks = ranks.ranks()};
  if (!ranks.alone()) {
    share.sum = [&ranks](std::span<double> sums) { return ranks.Sum(sums); };
    share.any = [&ranks](int signal) { return ranks.AnyOf(signal); };
  }
  if (spec.tuning) {
    return MakeTokenTask(*spec.tuning, *spec.options.batch, seed, share);
  }
  if (!spec.onnx) return LoadTask(spec, flags.data, seed, share);
  STOWAGE_ASSIGN_OR_RETURN(const ExampleOrder order,
                           ParseExampleOrder(flags.arrays.shuffle));
  return LoadArraysTask(spec, {.order = order,
                               .hold_out = flags.arrays.hold_out.value_or(0),
                               .seed = seed,
                               .share = share});
}

// Sets the steps of an epoch, which depend on the data.
Status SetByData(const TrainFlags& flags, const StepSpec& spec,
                 const Task& task, RunSpec* run) {
  const int64_t examples = task.train_examples();
  const int64_t batch = *spec.options.batch;
  run->steps_per_epoch =
      static_cast<double>(examples) / static_cast<double>(batch);
  if (flags.eval_every > 0 && !task.has_held_out()) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[eval-every] nothing is held out to evaluate on every ",
               flags.eval_every, " steps; give --hold-out")};
  }
  if (!spec.metrics.empty() && !task.has_held_out()) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[metrics] nothing is held out to count ",
                        flags.metrics, " on; give --hold-out")};
  }
  if (!flags.epochs) return {};
  STOWAGE_ASSIGN_OR_RETURN(const int64_t steps,
                           StepsOfEpochs(*flags.epochs, examples, batch));
  return SetSteps(flags, steps, run);
}

// Whether the loss is per token, and so has a perplexity.
bool PredictsTokens(const StepSpec& spec) {
  if (spec.info.data != ModelData::kText) return false;
  return !spec.tuning || !(spec.tuning->model.options().preference ||
                           spec.tuning->classifies() || spec.tuning->embeds());
}

// Computes the reference of the published weights without adapters. A signal ends the process:
// there is nothing to save yet.
Status TakeReference(const TrainFlags& flags, const StepSpec& spec,
                     const RunSpec& run, int64_t batch, Task& task,
                     Training* training) {
  training->Initialize(static_cast<uint64_t>(flags.seed));
  STOWAGE_RETURN_IF_ERROR(spec.tuning->model.LoadBase(training->step()));
  WorkProgress progress("comparing", "batches");
  return task.TakeReference(*training->Find("evaluate"), batch, run.stop_at,
                            progress);
}

// The step, and the programs beside it.
std::vector<PageProgram> DescribePrograms(const TrainingPlan& plan) {
  std::vector<PageProgram> programs;
  programs.push_back(DescribeProgram("train", plan.step.graph, plan.step.plan));
  for (const PlannedShape& shape : plan.shapes) {
    programs.push_back(
        DescribeProgram(shape.name, shape.step.graph, shape.step.plan));
  }
  for (const PlannedProgram& program : plan.programs) {
    programs.push_back(
        DescribeProgram(program.name, program.graph, program.plan));
  }
  return programs;
}

// A training command from its options to its last line. Each stage returns the exit code if the
// command ends with it.
class TrainingCommand {
 public:
  TrainingCommand(const TrainFlags& flags, const StepSpec& spec, RankRun& ranks)
      : flags_(flags), spec_(spec), ranks_(ranks), training_(spec.training) {}

  int Run() {
    const Status loaded = Load();
    if (!loaded.ok()) return Fail(loaded.error());
    const Status asked = AskForPlan();
    if (!asked.ok()) return Fail(asked.error());
    std::optional<int> end = Plan();
    if (!end) end = Open();
    if (!end) end = TakeSteps();
    return *end;
  }

 private:
  using Exit = std::optional<int>;  // absent: the command continues

  Status Load();
  Status OpenDevice();
  Status AskForPlan();
  Exit Plan();
  Result<Graph> WholeStep();
  Exit Open();
  Exit Agree();
  Status ShowBefore(TaskData& data);
  int TakeSteps();
  int Stop(const RunResult& result);
  void TellOfEarlyStop(const RunResult& result);
  int EndBadly(Error error);
  int Finish(const RunResult& result, FilesSaver& saver,
             const RunReporter& reporter, std::unique_ptr<StopSignals> stop);
  bool samples() const {
    return flags_.sample_length() > 0 && sample_positions_ > 0;
  }

  const TrainFlags& flags_;
  const StepSpec& spec_;
  RankRun& ranks_;
  const Clock::time_point start_ = Clock::now();
  RunSpec run_;
  std::unique_ptr<Task> task_;
  std::optional<TrialFolders> trial_;
  Result<TrainFiles> files_ = Error{};
  ChosenDevice device_;
  int64_t sample_positions_ = 0;
  TrainingSpec training_;
  std::vector<Sharding> shardings_;
  std::shared_ptr<EvaluationSplits> splits_;
  std::shared_ptr<WorkProgress> progress_;
  Result<TrainingPlan> plan_ = Error{};
  std::optional<Predicted> predicted_;
  Report report_;
  Page page_;
  std::optional<Graph> whole_step_;
  Result<Training> opened_ = Error{};
  int64_t evaluation_batch_ = 0;
  std::optional<RankValues> values_;
  int64_t done_ = 0;
  MemoryFigures memory_;
  std::optional<Evaluation> base_;  // of the published model before tuning
};

// Opens data, files and device.
Status TrainingCommand::Load() {
  STOWAGE_ASSIGN_OR_RETURN(run_, ReadTrainFlags(flags_, spec_));
  STOWAGE_ASSIGN_OR_RETURN(task_, LoadTaskOf(spec_, flags_, ranks_));
  STOWAGE_RETURN_IF_ERROR(SetByData(flags_, spec_, *task_, &run_));
  if (!spec_.metrics.empty()) task_->CountClasses(spec_.classes);
  if (flags_.dry_run) {
    trial_.emplace(std::initializer_list<std::string>{
        flags_.save_adapter, flags_.save_merged, flags_.log});
  }
  files_ = TrainFiles::Open(flags_, spec_, run_, ranks_);
  if (!files_.ok()) return files_.error();
  return OpenDevice();
}

Status TrainingCommand::OpenDevice() {
  STOWAGE_ASSIGN_OR_RETURN(
      const std::string offload_folder,
      OffloadFolder(training_.optimizations.value_or(NoOptimizations()).offload,
                    flags_.offload_dir));
  STOWAGE_ASSIGN_OR_RETURN(
      device_, ChooseDevice({.name = flags_.device,
                             .dtype = spec_.options.dtype,
                             .threads = ranks_.Threads(flags_.model.threads),
                             .check = flags_.check,
                             .choice_folder = FolderOf(training_.cache),
                             .note =
                                 [](const std::string& line) {
                                   std::cerr << line << std::endl;
                                 },
                             .collectives = ranks_.collectives(),
                             .local_rank = ranks_.local_rank(),
                             .offload_folder = offload_folder}));
  if (!device_.why.empty()) std::cerr << device_.why << std::endl;
  return training_.budget ? device_.backend->CheckBudget(*training_.budget)
                          : Status();
}

// Sets up everything to plan before the arena is allocated.
Status TrainingCommand::AskForPlan() {
  sample_positions_ = SamplePositions(flags_, spec_);
  if (flags_.sample.value_or(0) > 0 && CannotDecode(flags_, spec_)) {
    return InvalidArgumentError(
        "[train] --sample ", *flags_.sample, " cannot decode the tokens of ",
        Quoted(flags_.data), "; give their tokenizer by --tokenizer");
  }
  if (flags_.sample.value_or(0) > 0 && sample_positions_ == 0) {
    return InvalidArgumentError(
        "[train] ", spec_.info.name, " is no model of text, and --sample ",
        *flags_.sample, " has nothing to generate; leave it out");
  }
  if (spec_.tuning) std::cerr << TuningText(*spec_.tuning);
  STOWAGE_ASSIGN_OR_RETURN(shardings_, ShardingsOf(flags_, ranks_));
  if (task_->has_reference()) {
    STOWAGE_RETURN_IF_ERROR(KeepWeightsWhole(&shardings_));
  }
  if (!ranks_.alone() && flags_.check && run_.skips_nonfinite) {
    return Error{ErrorCode::kUnsupported,
                 "[ranks] --check ends a step at one rank in the middle, and "
                 "the others wait there; leave --check or --on-nonfinite skip "
                 "away"};
  }
  SetRanks({.ranks = ranks_.ranks(), .rank = ranks_.rank()}, &training_);
  splits_ = std::make_shared<EvaluationSplits>(spec_, *task_);
  training_.programs =
      ProgramsBeside(spec_, *task_, splits_, sample_positions_);
  progress_ = WorkProgress::OfPlanning(&training_.on_choice);
  return {};
}

// Plans with the first sharding that fits, in ascending order of what is split.
TrainingCommand::Exit TrainingCommand::Plan() {
  const DeviceNeeds needs = device_.backend->Needs();
  if (flags_.fit_optimizer) {
    const auto fits = FitOptimizers(training_, needs);
    progress_->Clear();
    PrintOptimizerFits(fits, training_.budget, flags_.json);
    return kExitDone;
  }
  Result<TrainingPlanner> planner = Error{};
  for (const Sharding sharding : shardings_) {
    training_.ranks.shard = sharding;
    planner = TrainingPlanner::Make(training_, needs);
    if (!planner.ok()) return Fail(planner.error());
    plan_ = planner->Plan();
    if (plan_.ok() || plan_.error().code != ErrorCode::kBudgetTooSmall) break;
  }
  progress_->Clear();
  if (!plan_.ok()) {
    return Refuse(flags_, spec_, *planner, *progress_, plan_.error());
  }
  const auto predicted = Tell(spec_, *planner, *plan_);
  if (!predicted.ok()) return Fail(predicted.error());
  predicted_ = *predicted;
  report_ = MakeReport(plan_->step.graph, plan_->step.plan);
  page_ = {.title = report_.graph_name, .budget = training_.budget};
  if (!flags_.html.empty()) page_.programs = DescribePrograms(*plan_);
  if (!flags_.dry_run) return {};
  const Status drawn = FinishDryRun(flags_, *files_, report_, page_, ranks_);
  if (!drawn.ok()) return Fail(drawn.error());
  return ShowPlan(flags_, spec_, *planner, *plan_, report_, predicted_,
                  *device_.backend, *task_, ranks_);
}

// The graph of the step with one rank.
Result<Graph> TrainingCommand::WholeStep() {
  STOWAGE_ASSIGN_OR_RETURN(
      SampledStep whole,
      BuildSteps(training_.model, training_.batch, training_.loss,
                 training_.training)(1, Sampling::kAll));
  return std::move(whole.graph);
}

// Allocates the arena, opens its programs, and sets the initial values.
TrainingCommand::Exit TrainingCommand::Open() {
  if (flags_.chat && training_.ranks.shard == Sharding::kWeights) {
    return Fail({ErrorCode::kUnsupported,
                 "[ranks] rank 0 chats alone, and --shard weights gives it a "
                 "block of the weights; split less, or leave --chat away"});
  }
  if (!plan_->programs.empty()) {
    evaluation_batch_ = task_->EvaluationBatch(plan_->programs.front().batch);
  }
  if (training_.ranks.shard != Sharding::kNone) {
    Result<Graph> whole = WholeStep();
    if (!whole.ok()) return Fail(whole.error());
    whole_step_ = std::move(*whole);
  }
  // Drop cached plans, whose memory would add to the arena's.
  if (spec_.training.cache) spec_.training.cache->Forget();
  opened_ = Training::Open(*std::move(plan_), *device_.backend);
  ReturnFreeMemory();
  if (!opened_.ok()) return Fail(opened_.error());
  const Status prepared =
      PrepareEvaluation(*splits_, evaluation_batch_, task_.get(), &*opened_);
  if (!prepared.ok()) return Fail(prepared.error());
  if (const Exit end = Agree()) return end;
  values_.emplace(
      RankValues{.whole = whole_step_ ? *whole_step_ : opened_->step().graph(),
                 .rank = ranks_.rank(),
                 .ranks = ranks_.ranks(),
                 .own_name = whole_step_ ? &OwnName : nullptr});
  if (task_->has_reference()) {
    const Status taken = TakeReference(flags_, spec_, run_, evaluation_batch_,
                                       *task_, &*opened_);
    if (!taken.ok()) return Fail(taken.error());
  }
  const Result<int64_t> done =
      files_->Begin(flags_, spec_, run_, *opened_, ranks_, *values_);
  if (!done.ok()) return Fail(done.error());
  done_ = *done;
  memory_ = {.arena = opened_->session().arena_bytes(),
             .budget = training_.budget,
             .lower_bound = report_.lower_bound,
             .no_reuse = report_.no_reuse};
  return {};
}

// Makes the ranks agree on the run and on the evaluation.
TrainingCommand::Exit TrainingCommand::Agree() {
  const Result<bool> alike = AgreeOnRun(flags_, spec_, run_, opened_->plan(),
                                        evaluation_batch_, ranks_);
  if (!alike.ok()) {
    const int code = Fail(alike.error());
    return alike.error().code == ErrorCode::kInvalidArgument
               ? ranks_.EndTogether(code)
               : code;
  }
  const bool together = training_.ranks.shard == Sharding::kWeights;
  if (!*alike && together) {
    return ranks_.EndTogether(Fail(
        {ErrorCode::kUnsupported,
         StrCat("[ranks] with --shard weights all ranks evaluate together, "
                "and their plans leave room for batches of different sizes; "
                "choose a --batch that ",
                ranks_.ranks(), " ranks divide evenly")}));
  }
  if (!*alike) {
    task_->EvaluateAlone();
  } else if (together) {
    task_->EvaluateTogether();
  }
  return {};
}

// Handles errors, including non-finite values, which end the run.
int TrainingCommand::EndBadly(Error error) {
  if (error.code == ErrorCode::kNotFinite) {
    error.message += StrCat("; ", files_->WhatIsSaved());
  }
  return Fail(error);
}

// Ends the run after a signal.
int TrainingCommand::Stop(const RunResult& result) {
  if (RunLog* const log = files_->log()) log->End();
  if (!result.saved.ok()) return EndBadly(result.saved.error());
  const int64_t done = result.last_step;
  std::cerr << "stowage: stopped by " << SignalName(result.stopped)
            << " after step " << done << " of " << run_.stop_at << "; "
            << files_->WhatIsSaved();
  if (done == run_.stop_at) {
    std::cerr << "; this was the last step";
  } else if (files_->checkpoints()) {
    std::cerr << "; the same command";
    if (flags_.continued.empty()) {
      std::cerr << " with --resume " << files_->checkpoints()->path()
                << " and another --save";
    }
    std::cerr << " goes on from there";
  }
  std::cerr << std::endl;
  if (flags_.json) {
    Json json = Json::object();
    json["stopped"] = SignalName(result.stopped);
    json["steps"] = done;
    json["saved"] =
        files_->checkpoints() ? Json(files_->checkpoints()->path()) : Json();
    PrintJson(json);
  }
  return 128 + result.stopped;
}

// Prints the reason for an early stop, and where the best values are.
void TrainingCommand::TellOfEarlyStop(const RunResult& result) {
  const EvaluationHistory& history = result.history;
  const std::optional<CheckpointSeries>& series = files_->checkpoints();
  const bool is_kept = series && series->best_loss() == history.best_loss;
  std::cerr << "stowage: stopped early after step " << result.last_step
            << " of " << run_.stop_at << ": " << history.since_best
            << " evaluations have not lowered the validation loss; the best, "
            << Fixed(history.best_loss, 4) << ", was behind step "
            << history.best_step
            << (is_kept  ? StrCat(", and is kept as ",
                                  Quoted(BestPath(series->path())))
                : series ? std::string(", before this run went on")
                         : std::string(", and is not kept, since there is no "
                                       "--save"))
            << std::endl;
}

// Evaluates a published model before tuning, and prints a sample.
Status TrainingCommand::ShowBefore(TaskData& data) {
  STOWAGE_ASSIGN_OR_RETURN(base_, EvaluateRun(*opened_, data, 0));
  if (!samples() || flags_.json) return {};
  return PrintSample(flags_, spec_, *opened_, "Before, the model writes");
}

int TrainingCommand::TakeSteps() {
  TaskData data(*task_, evaluation_batch_, ranks_, spec_.metrics);
  RunReporter reporter({.run = run_,
                        .done = done_,
                        .memory = memory_,
                        .token_name = task_->token_name(),
                        .json = flags_.json,
                        .reads_text = PredictsTokens(spec_),
                        .shapes_differ = !spec_.training.shapes.empty(),
                        .keeps_losses = !flags_.html.empty(),
                        .log = files_->log()});
  FilesSaver saver(*files_, ranks_, *values_, !flags_.checkpoint().empty());
  if (spec_.tuning && done_ == 0) {
    const Status shown = ShowBefore(data);
    if (!shown.ok()) return EndBadly(shown.error());
  }
  auto stop = std::make_unique<StopSignals>();
  const Result<RunResult> result =
      stowage::Run(*opened_, run_,
                   {.data = data,
                    .observer = &reporter,
                    .saver = &saver,
                    .peers = ranks_.alone() ? nullptr : &ranks_},
                   {.done = done_, .history = files_->history()});
  if (!result.ok()) return EndBadly(result.error());
  if (result->stopped != 0) return Stop(*result);
  return Finish(*result, saver, reporter, std::move(stop));
}

int TrainingCommand::Finish(const RunResult& result, FilesSaver& saver,
                            const RunReporter& reporter,
                            std::unique_ptr<StopSignals> stop) {
  if (result.stops_early) TellOfEarlyStop(result);
  // Errors of writing are reported at the end, after the results.
  Status written = result.saved;
  if (result.last_step > done_) written = SavedByAll(written, ranks_);
  if (!written.ok() && written.error().code == ErrorCode::kNotFinite) {
    return EndBadly(written.error());
  }
  // All outputs are tried, even after errors.
  if (ModelExports::AreWanted(flags_)) {
    written = Both(written, saver.SaveForOthers(*opened_, spec_));
  }
  if (files_->log() != nullptr)
    written = Both(written, files_->log()->status());
  if (!flags_.svg.empty() && ranks_.speaks()) {
    written = Both(written, files_->svg().Write(ToSvg(report_)));
  }
  if (!flags_.html.empty() && ranks_.speaks()) {
    page_.losses = reporter.losses();
    if (result.evaluation) page_.held_out_loss = result.evaluation->loss;
    written = Both(written, files_->html().Write(ToHtml(page_)));
  }
  // Everything is saved: from here on, a signal ends the process at once.
  const Result<int> asked = ranks_.AnyOf(StopSignals::caught());
  if (!asked.ok()) return EndBadly(asked.error());
  stop.reset();

  const TrainResults results{
      .model = spec_.info.name,
      .steps = result.last_step,
      .history = run_.eval_every > 0 ? &result.history : nullptr,
      .stops_early = result.stops_early,
      .run = result.figures,
      .evaluation = result.evaluation,
      .base = base_,
      .tuning = spec_.tuning.get(),
      .memory = memory_,
      .session = opened_->session(),
      .report = report_,
      .predicted = predicted_,
      .seconds = std::chrono::duration<double>(Clock::now() - start_).count(),
      .ranks = ranks_.ranks()};
  if (flags_.json) {
    PrintJson(ToJson(results));
    return written.ok() ? kExitDone : Fail(written.error());
  }
  std::cout << Headline(results) << "\n\n";
  const Result<AveragedWeights> averaged =
      AveragedWeights::Use(opened_->step());
  if (!averaged.ok()) return Fail(averaged.error());
  if (samples() && *asked == 0) {
    const Status shown =
        PrintSample(flags_, spec_, *opened_, "The model writes");
    if (!shown.ok()) return Fail(shown.error());
  }
  std::cout << Details(results);
  if (flags_.chat && ranks_.speaks() && *asked == 0) {
    const Status chatted = Chat(flags_, spec_, *opened_);
    if (!chatted.ok()) return Fail(chatted.error());
  }
  return written.ok() ? kExitDone : Fail(written.error());
}

}  // namespace

int RunTraining(const TrainFlags& flags, const StepSpec& spec, RankRun& ranks) {
  return TrainingCommand(flags, spec, ranks).Run();
}

}  // namespace stowage::tools
