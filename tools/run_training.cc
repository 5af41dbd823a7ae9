#include "tools/run_training.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/batch_analysis.h"
#include "autodiff/ranks.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/index.h"
#include "base/memory.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "report/report.h"
#include "runtime/initial_values.h"
#include "runtime/session.h"
#include "tools/budget.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/model_flags.h"
#include "tools/onnx_flags.h"
#include "tools/progress.h"
#include "tools/rank_run.h"
#include "tools/task.h"
#include "tools/token_task.h"
#include "tools/train_files.h"
#include "tools/train_flags.h"
#include "tools/train_run.h"
#include "tools/tuning.h"
#include "train/checkpoint_series.h"
#include "train/step_builder.h"
#include "train/train.h"

namespace stowage::tools {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMin = 2, kMax = 20;
constexpr double kSeconds = 2;

// Writes a scalar that only some steps read.
Status WriteIfRead(Runner& step, std::string_view name, int64_t value) {
  const std::optional<ValueId> id = step.graph().Find(name);
  if (!id || step.graph().value(*id).role != Role::kInput) return {};
  return step.Write(name, value);
}

Status TakeOne(Runner& step, Task& task, int64_t number, int64_t seed) {
  STOWAGE_RETURN_IF_ERROR(task.WriteBatch(step, number));
  STOWAGE_RETURN_IF_ERROR(step.Write("lr", 0.0f));
  STOWAGE_RETURN_IF_ERROR(WriteIfRead(step, "step", number));
  STOWAGE_RETURN_IF_ERROR(WriteIfRead(step, "seed", seed));
  return TakeStep(step);
}

}  // namespace

Result<Trial> TrySteps(Training& training, Task& task, int64_t seed) {
  std::vector<Runner*> steps = {&training.step()};
  for (const PlannedShape& shape : training.plan().shapes) {
    steps.push_back(training.Find(shape.name));
  }
  STOWAGE_RETURN_IF_ERROR(TakeOne(*steps[task.ShapeOf(1)], task, 1, seed));
  Trial trial;
  double seconds = 0, tokens = 0;
  while (trial.steps < kMin || (trial.steps < kMax && seconds < kSeconds)) {
    const int64_t number = ++trial.steps + 1;
    const size_t shape = task.ShapeOf(number);
    const Clock::time_point start = Clock::now();
    STOWAGE_RETURN_IF_ERROR(TakeOne(*steps[shape], task, number, seed));
    seconds += std::chrono::duration<double>(Clock::now() - start).count();
    tokens += static_cast<double>(task.tokens_per_step(shape));
  }
  trial.step_seconds = seconds / static_cast<double>(trial.steps);
  trial.tokens_per_second = tokens / seconds;
  return trial;
}

using Json = nlohmann::ordered_json;

Result<Runner*> Savable(const Work& work, std::optional<WholeValues>* whole) {
  Runner& step = work.training.step();
  if (work.values.own_name == nullptr) return &step;
  STOWAGE_ASSIGN_OR_RETURN(
      *whole, WholeValues::Make(work.values.whole, work.training.backend(),
                                *work.ranks.collectives()));
  STOWAGE_RETURN_IF_ERROR((*whole)->Gather(step));
  Session* const session = (*whole)->session();
  return session == nullptr ? &step : &session->front();
}

Status Save(const Work& work, int64_t step, std::optional<double> held_out_loss,
            bool best_alone) {
  const Runner& own = work.training.step();
  if (work.files.saves_shards()) {
    return work.files.SaveShards(own, work.values, work.ranks.collectives(),
                                 step, held_out_loss, best_alone);
  }
  if (!work.saves) return CheckFinite(own);  // each rank what it keeps
  std::optional<WholeValues> whole;
  STOWAGE_ASSIGN_OR_RETURN(const Runner* const values, Savable(work, &whole));
  return work.files.Save(*values, step, held_out_loss, best_alone);
}

Result<std::optional<Evaluation>> Judge(const Work& work, int64_t step) {
  if (!work.task.has_held_out()) return std::optional<Evaluation>();
  WorkProgress progress("evaluating", "batches");
  STOWAGE_ASSIGN_OR_RETURN(const Evaluation evaluation,
                           work.task.Evaluate(*work.training.Find("evaluate"),
                                              work.evaluation_batch, progress));
  // Ranks that evaluate alone end at signals of their own.
  STOWAGE_ASSIGN_OR_RETURN(
      const int stopped,
      work.ranks.AnyOf(progress.is_stopped() ? StopSignals::caught() : 0));
  if (stopped != 0) return std::optional<Evaluation>();
  if (std::isfinite(evaluation.loss)) return std::optional(evaluation);
  return Error{ErrorCode::kNotFinite,
               StrCat("[train] the held-out loss is ", evaluation.loss,
                      " after step ", step, "; a lower --lr may help")};
}

std::optional<double> LossOf(const std::optional<Evaluation>& evaluation) {
  return evaluation ? std::optional(evaluation->loss) : std::nullopt;
}

namespace {

// Tells of an evaluation on the way.
void ShowEvaluation(const Work& work, int64_t step,
                    const Evaluation& evaluation) {
  if (work.json) {
    Json json = {{"step", step}, {"validation_loss", evaluation.loss}};
    if (work.reads_text) json["perplexity"] = std::exp(evaluation.loss);
    if (evaluation.accuracy) json["accuracy"] = *evaluation.accuracy;
    PrintJson(json);
    return;
  }
  std::cerr << "step " << step << "  validation loss "
            << Fixed(evaluation.loss, 4);
  if (evaluation.accuracy) {
    std::cerr << "  accuracy " << Fixed(100 * *evaluation.accuracy, 1) << " %";
  }
  std::cerr << std::endl;
}

}  // namespace

void RecordEvaluation(const Work& work, int64_t step,
                      const std::optional<Evaluation>& evaluation) {
  if (StepLog* const log = work.files.log()) {
    log->AddEvaluation(LossOf(evaluation));
  }
  const RunSpec& run = work.run;
  // One where a run is interrupted is none of the whole run.
  const bool counts =
      run.eval_every > 0 && (step % run.eval_every == 0 || step == run.steps);
  if (!evaluation || !counts) return;
  EvaluationHistory history = work.files.history();
  history.Add(step, evaluation->loss);
  work.files.set_history(history);
  ShowEvaluation(work, step, *evaluation);
}

bool IsOutOfPatience(const Work& work) {
  return work.run.patience > 0 &&
         work.files.history().since_best >= work.run.patience;
}

namespace {

// A full disk may have room for the next checkpoint.
Status GoOnUnsaved(const Status& saved) {
  if (saved.ok() || saved.error().code != ErrorCode::kIo) return saved;
  std::cerr << "stowage: " << saved.error().message << "; training goes on"
            << std::endl;
  return {};
}

// Evaluates behind `done` where that is due, and saves where that is.
Status EvaluateAndSave(const Work& work, int64_t done, bool evaluates,
                       bool saves) {
  if (!evaluates && !saves) return {};
  STOWAGE_ASSIGN_OR_RETURN(const auto evaluation, Judge(work, done));
  if (evaluates) RecordEvaluation(work, done, evaluation);
  const bool is_best = work.files.history().best_step == done;
  if (!saves && !(evaluates && is_best && work.saves)) return {};
  return GoOnUnsaved(Save(work, done, LossOf(evaluation), !saves));
}

}  // namespace

Result<int64_t> RunSteps(const Work& work, int64_t done, StepLoop& loop,
                         const StopSignals& stop) {
  const RunSpec& run = work.run;
  const auto next = [&](int64_t every) {
    return every > 0 ? std::min(run.stop_at, (done / every + 1) * every)
                     : run.stop_at;
  };
  // What a signal has kept from being evaluated.
  const bool is_due = done > work.files.history().last_step &&
                      done < run.stop_at && done > 0 && run.EvaluatesAt(done);
  STOWAGE_RETURN_IF_ERROR(EvaluateAndSave(work, done, is_due, false));
  while (done < run.stop_at && !IsOutOfPatience(work)) {
    const int64_t until = std::min(next(run.save_every), next(run.eval_every));
    STOWAGE_ASSIGN_OR_RETURN(done, loop.RunTo(until, stop));
    if (loop.signal() != 0 || done == run.stop_at) return done;
    STOWAGE_RETURN_IF_ERROR(
        EvaluateAndSave(work, done, run.EvaluatesAt(done),
                        run.save_every > 0 && done % run.save_every == 0));
  }
  return done;
}

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// The collectives of a step, in their order: ranks whose plans have others would wait
// for each other, or add what does not belong together.
std::string CollectivesText(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) {
    if (!GetOpDef(node.op).collective) continue;
    text += StrCat(OpName(node.op), " ",
                   graph.value(node.inputs[0]).type.ToString(), "; ");
  }
  return StrCat(std::ranges::count(text, ';'), " collectives (XXH64 ",
                HexDigest(Xxh64(text)), ")");
}

// What --shard means to the ranks there are, one after the other until a plan fits.
Result<std::vector<Sharding>> ShardingsOf(const TrainFlags& flags,
                                          const RankRun& ranks) {
  STOWAGE_ASSIGN_OR_RETURN(std::vector<Sharding> shardings,
                           ReadShard(flags.shard));
  if (!ranks.alone() || shardings.front() == Sharding::kNone) {
    if (ranks.alone()) shardings.resize(1);
    return shardings;
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[ranks] --shard ", flags.shard,
                      " splits among ranks, and there is one; start several: "
                      "mpirun -n 4 stowage train ...")};
}

// What the ranks of a run must have in common. Returns whether all evaluate by batches
// of one size. Errors: those of NotesOf and of RankRun::Agree.
Result<bool> AgreeOnRun(const TrainFlags& flags, const StepSpec& spec,
                        const RunSpec& run, const TrainingPlan& plan,
                        int64_t evaluation_batch, RankRun& ranks) {
  if (ranks.alone()) return true;
  cluster::Facts facts;
  STOWAGE_ASSIGN_OR_RETURN(const RunNotes notes, NotesOf(spec, run, flags));
  for (const auto& [name, value] : notes) {
    facts.emplace_back(StrCat("the ", name), value);
  }
  if (spec.tuning) {
    STOWAGE_ASSIGN_OR_RETURN(const CheckpointBase base,
                             spec.tuning->model.BaseOfCheckpoints());
    facts.emplace_back("the base", base.content);
  }
  facts.emplace_back("the plan", CollectivesText(plan.step.graph));
  STOWAGE_RETURN_IF_ERROR(ranks.Agree(facts));
  // Numbers are all the same where the square of their sum is N times that of their
  // squares.
  const auto size = static_cast<double>(evaluation_batch);
  std::array<double, 2> sums = {size, size * size};
  STOWAGE_RETURN_IF_ERROR(ranks.Sum(sums));
  return sums[0] * sums[0] == ranks.ranks() * sums[1];
}

// What is said of a plan that was found, and of a budget that was refused: also as
// JSON, if that is wanted.
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

// What the data decides of a run: how many steps an epoch has.
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
  if (!flags.epochs) return {};
  STOWAGE_ASSIGN_OR_RETURN(const int64_t steps,
                           StepsOfEpochs(*flags.epochs, examples, batch));
  return SetSteps(flags, steps, run);
}

// How an evaluation of what the task holds out follows from parts of it, by the examples of
// a part; each is found once.
class EvaluationSplits {
 public:
  /// Both must outlive this.
  EvaluationSplits(const StepSpec& spec, const Task& task)
      : evaluate_(ModelOf(spec, ModelPurpose::kEvaluate)), task_(task) {}

  /// Whether so many examples are a part: of other tasks' programs none are.
  bool IsPart(int64_t examples) const {
    return examples < task_.EvaluationExamples();
  }
  /// Errors: those of the graphs, as of a file that fixes its batch; kUnsupported where its
  /// totals are others than those of the first that was asked for.
  const Result<SplitEvaluation>& Of(int64_t examples) {
    const auto found = splits_.find(examples);
    if (found != splits_.end()) return found->second;
    Result<SplitEvaluation> split = Find(examples);
    if (split.ok() && !totals_) totals_ = split->totals;
    if (split.ok() && split->totals != *totals_) {
      split = Error{ErrorCode::kUnsupported,
                    StrCat("batches of ", examples, " have other totals")};
    }
    return splits_.emplace(examples, std::move(split)).first->second;
  }
  /// Into parts of at most so many examples, and of fewer than all.
  const Result<SplitEvaluation>& OfAtMost(int64_t most) {
    const int64_t fewer = task_.EvaluationExamples() - 1;
    return Of(
        task_.EvaluationBatch(std::max<int64_t>(1, std::min(most, fewer))));
  }

 private:
  Result<SplitEvaluation> Find(int64_t examples) const {
    const int64_t all = task_.EvaluationExamples();
    STOWAGE_ASSIGN_OR_RETURN(const Graph part, evaluate_(examples));
    STOWAGE_ASSIGN_OR_RETURN(const Graph whole, evaluate_(all));
    return SplitForEvaluation(
        whole, part, static_cast<double>(examples) / static_cast<double>(all));
  }

  const ModelFn evaluate_;
  const Task& task_;
  std::map<int64_t, Result<SplitEvaluation>> splits_;
  std::optional<std::vector<EvaluationTotal>> totals_;
};

constexpr std::string_view kTotalsProgram = "evaluate totals";

// Beside the training step: evaluation, and generation for models of text.
std::vector<ProgramSpec> ProgramsBeside(
    const StepSpec& spec, const Task& task,
    const std::shared_ptr<EvaluationSplits>& splits, int64_t sample_positions) {
  if (!task.has_held_out()) return {};
  const ModelFn evaluate = ModelOf(spec, ModelPurpose::kEvaluate);
  const int64_t batch = *spec.options.batch;
  std::vector<ProgramSpec> programs;
  programs.push_back(
      {.name = "evaluate",
       .model = [&task, evaluate, splits](int64_t most) -> Result<Graph> {
         const int64_t examples = task.EvaluationBatch(most);
         if (!splits->IsPart(examples)) return evaluate(examples);
         const Result<SplitEvaluation>& split = splits->Of(examples);
         return split.ok() ? split->graph : evaluate(examples);
       },
       .batch = batch});
  std::ranges::move(SamplePrograms(spec, sample_positions),
                    std::back_inserter(programs));
  if (!splits->IsPart(1)) return programs;
  if (const auto& split = splits->OfAtMost(batch);
      split.ok() && !split->totals.empty()) {
    programs.push_back({.name = std::string(kTotalsProgram),
                        .model = [splits](int64_t most) -> Result<Graph> {
                          const Result<SplitEvaluation>& of_most =
                              splits->OfAtMost(most);
                          if (!of_most.ok()) return of_most.error();
                          return of_most->totals_graph;
                        },
                        .batch = batch});
  }
  return programs;
}

// Tells the task how its evaluation follows from parts of `batch` examples, and says where
// it does not: then it is judged by the mean of the parts' losses.
Status PrepareEvaluation(EvaluationSplits& splits, int64_t batch, Task* task,
                         Training* training) {
  if (batch == 0 || !splits.IsPart(batch)) return {};
  const Result<SplitEvaluation>& split = splits.Of(batch);
  std::string why = split.ok() ? "" : split.error().message;
  if (split.ok()) {
    int64_t totals_batch = batch;
    for (const PlannedProgram& program : training->plan().programs) {
      if (program.name != kTotalsProgram) continue;
      totals_batch = task->EvaluationBatch(std::min(
          program.batch, std::max<int64_t>(1, task->EvaluationExamples() - 1)));
    }
    STOWAGE_RETURN_IF_ERROR(task->PrepareEvaluation(
        *split, training->Find(kTotalsProgram), totals_batch));
    const auto loss = split->outputs.find("loss");
    if (loss == split->outputs.end() ||
        loss->second.kind != BatchKind::kMixed) {
      return {};
    }
    why = loss->second.why;
  }
  std::cerr << StrCat("[hold-out] the loss of ", task->EvaluationExamples(),
                      " examples does not follow from batches of ", batch, " (",
                      why, "); the held-out loss is the mean of theirs")
            << std::endl;
  return {};
}

bool IsOfPreferences(const StepSpec& spec) {
  return spec.tuning && spec.tuning->model.options().preference;
}

// Without those that leave no rank the weights from which a reference comes. Error
// kUnsupported: there is no other.
Status KeepWeightsWhole(std::vector<Sharding>* shardings) {
  std::erase(*shardings, Sharding::kWeights);
  if (!shardings->empty()) return {};
  return Error{ErrorCode::kUnsupported,
               "[ranks] with --shard weights no rank has the weights from "
               "which the reference of this --objective comes; split less, "
               "or choose orpo or simpo"};
}

// What the published weights, without adapters, say of the examples. A signal ends the
// process: there is nothing to save yet.
Status TakeReference(const TrainFlags& flags, const StepSpec& spec,
                     const RunSpec& run, int64_t batch, Task& task,
                     Training* training) {
  training->Initialize(static_cast<uint64_t>(flags.seed));
  STOWAGE_RETURN_IF_ERROR(spec.tuning->model.LoadBase(training->step()));
  WorkProgress progress("comparing", "batches");
  return task.TakeReference(*training->Find("evaluate"), batch, run.stop_at,
                            progress);
}

// The step, and what runs over its arena beside it.
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

// How rank 0 has saved, which writes what the others do not, is how all have.
Status SavedByAll(const Status& own, RankRun& ranks) {
  constexpr int64_t kGood = -1;
  int64_t code = own.ok() ? kGood : static_cast<int64_t>(own.error().code);
  STOWAGE_RETURN_IF_ERROR(ranks.Share(&code));
  if (!own.ok() || code == kGood) return own;
  return Error{static_cast<ErrorCode>(code), "[ranks] rank 0 has not saved"};
}

// Weights and adapters, for other programs.
Status SaveForOthers(const Work& work, const StepSpec& spec) {
  std::optional<WholeValues> whole;
  STOWAGE_ASSIGN_OR_RETURN(const Runner* const values, Savable(work, &whole));
  return work.files.SaveForOthers(*values, spec);
}

// Values that are no numbers end the run; so do errors.
int EndBadly(const TrainFiles& files, Error error) {
  if (error.code == ErrorCode::kNotFinite) {
    error.message += StrCat("; ", files.WhatIsSaved());
  }
  return Fail(error);
}

// As a signal asked for.
int Stop(const TrainFlags& flags, const Work& work, int64_t done, int signal) {
  if (StepLog* const log = work.files.log()) {
    log->AddEvaluation(std::nullopt);
  }
  const Status saved = Save(work, done);
  if (!saved.ok()) return EndBadly(work.files, saved.error());
  std::cerr << "stowage: stopped by " << SignalName(signal) << " after step "
            << done << " of " << work.run.stop_at << "; "
            << work.files.WhatIsSaved();
  if (done == work.run.stop_at) {
    std::cerr << "; this was the last step";
  } else if (work.files.checkpoints()) {
    std::cerr << "; the same command";
    if (flags.continued.empty()) {
      std::cerr << " with --resume " << work.files.checkpoints()->path()
                << " and another --save";
    }
    std::cerr << " goes on from there";
  }
  std::cerr << std::endl;
  if (flags.json) {
    Json json = Json::object();
    json["stopped"] = SignalName(signal);
    json["steps"] = done;
    json["saved"] = work.files.checkpoints()
                        ? Json(work.files.checkpoints()->path())
                        : Json();
    PrintJson(json);
  }
  return 128 + signal;
}

// Why a run ends before its last step, and where its best values are.
void TellOfEarlyStop(const Work& work, int64_t last) {
  const EvaluationHistory& history = work.files.history();
  const std::optional<CheckpointSeries>& series = work.files.checkpoints();
  const bool is_kept = series && series->best_loss() == history.best_loss;
  std::cerr << "stowage: stopped early after step " << last << " of "
            << work.run.stop_at << ": " << history.since_best
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

// How fast a run is, and how that is known.
struct Speed {
  double step_seconds = 0, tokens_per_second = 0;
  std::string_view by;  // for programs
  std::string how;      // for people
};

// Steps that take longer by the rates of the device are not tried.
constexpr double kMaxToTry = 20;

// By a few of its steps, where the memory for them is there and they take no minutes;
// else by what the device does in a second. Ranks would each try as many steps as their
// own clock says, and wait for each other for ever.
Result<Speed> Gauge(const TrainFlags& flags, const StepSpec& spec,
                    const TrainingPlan& plan, Backend& backend, Task& task,
                    const RankRun& ranks) {
  STOWAGE_ASSIGN_OR_RETURN(const DeviceRates rates,
                           MeasureRates(backend, spec.options.dtype));
  const double seconds = StepSeconds(plan.step.graph, rates);
  const Speed guess{
      .step_seconds = seconds,
      .tokens_per_second =
          static_cast<double>(task.tokens_per_step(0)) / seconds,
      .by = "rates",
      .how =
          "predicted by its operations and bytes, and what this device does of "
          "them in a second"};
  if (!spec.tuning || !ranks.alone() || seconds > kMaxToTry) return guess;
  Result<Training> opened = Training::Open(plan, backend);
  if (!opened.ok()) {
    return opened.error().code == ErrorCode::kDevice ? Result<Speed>(guess)
                                                     : opened.error();
  }
  opened->Initialize(static_cast<uint64_t>(flags.seed));
  STOWAGE_RETURN_IF_ERROR(spec.tuning->model.LoadBase(opened->step()));
  STOWAGE_ASSIGN_OR_RETURN(const Trial trial,
                           TrySteps(*opened, task, flags.seed));
  return Speed{.step_seconds = trial.step_seconds,
               .tokens_per_second = trial.tokens_per_second,
               .by = "trial",
               .how = StrCat("tried: ", trial.steps,
                             " of its steps, which change nothing")};
}

// What the run would take, without taking it.
int ShowPlan(const TrainFlags& flags, const StepSpec& spec,
             TrainingPlanner& planner, const TrainingPlan& plan,
             const Report& report, const std::optional<Predicted>& predicted,
             Backend& backend, Task& task, const RankRun& ranks) {
  Result<Speed> speed = Error{};
  if (predicted) {
    speed = Speed{
        .step_seconds = predicted->step_seconds,
        .tokens_per_second = static_cast<double>(task.tokens_per_step(0)) /
                             predicted->step_seconds,
        .by = "op_times",
        .how = "predicted by the times of its ops"};
  } else {
    speed = Gauge(flags, spec, plan, backend, task, ranks);
  }
  if (!speed.ok()) return Fail(speed.error());
  const Result<Bytes> smallest = planner.step().SmallestBudget();
  if (!smallest.ok()) return Fail(smallest.error());
  const std::optional<Bytes>& budget = spec.training.budget;
  if (flags.json) {
    Json json = FiguresJson(report, 20);
    json["arena_bytes"] = plan.arena_bytes();
    json["host_bytes"] = plan.host_bytes();
    json["budget_bytes"] = budget ? Json(*budget) : Json();
    json["fits"] = true;
    json["minimum_budget_bytes"] = *smallest;
    for (const PlannedShape& shape : plan.shapes) {
      json["programs"].push_back(
          {{"name", shape.name},
           {"arena_bytes", shape.step.plan.arena_bytes()}});
    }
    for (const PlannedProgram& program : plan.programs) {
      json["programs"].push_back({{"name", program.name},
                                  {"arena_bytes", program.plan.arena_bytes()}});
    }
    json.update(PredictedJson(predicted));
    json["predicted_step_seconds"] = speed->step_seconds;
    json["predicted_tokens_per_second"] = speed->tokens_per_second;
    json["predicted_by"] = speed->by;
    if (spec.tuning) json.update(TuningJson(*spec.tuning));
    PrintJson(json);
    return kExitDone;
  }
  std::cout << ToText(report) << "\narena of all programs "
            << FormatBytes(plan.arena_bytes()) << " (" << plan.arena_bytes()
            << " bytes)";
  if (budget) std::cout << ", within a budget of " << FormatBytes(*budget);
  std::cout
      << "; the smallest budget that works with these memory optimizations is "
      << FormatBytes(*smallest) << " (" << *smallest << " bytes)\n"
      << speed->how << ": a step takes about " << Fixed(speed->step_seconds, 3)
      << " s, " << Fixed(speed->tokens_per_second, 0) << " "
      << task.token_name() << "/s\n";
  return kExitDone;
}

// What a dry run has of a run's outputs, its plan, and whether what it would resume is there.
Status FinishDryRun(const TrainFlags& flags, const TrainFiles& files,
                    const Report& report, const Page& page,
                    const RankRun& ranks) {
  if (!ranks.speaks()) return {};
  if (!flags.resume.empty()) {
    STOWAGE_RETURN_IF_ERROR(files.CheckResumed());
  }
  if (!flags.svg.empty()) {
    STOWAGE_RETURN_IF_ERROR(files.svg().Write(ToSvg(report)));
  }
  if (!flags.html.empty()) {
    STOWAGE_RETURN_IF_ERROR(files.html().Write(ToHtml(page)));
  }
  const std::pair<std::string_view, const std::string&> others[] = {
      {"--save", flags.save},
      {"--continue", flags.continued},
      {"--save-weights", flags.save_weights},
      {"--save-adapter", flags.save_adapter},
      {"--save-merged", flags.save_merged},
      {"--log", flags.log}};
  for (const auto& [option, path] : others) {
    if (path.empty()) continue;
    std::cerr << "dry run: " << option << " " << Quoted(path)
              << " can be written, and is not\n";
  }
  std::cerr << std::flush;
  return {};
}

}  // namespace

int RunTraining(const TrainFlags& flags, const StepSpec& spec, RankRun& ranks) {
  const Clock::time_point start = Clock::now();
  Result<RunSpec> run = ReadTrainFlags(flags, spec);
  if (!run.ok()) return Fail(run.error());
  const Result<std::unique_ptr<Task>> task = LoadTaskOf(spec, flags, ranks);
  if (!task.ok()) return Fail(task.error());
  const Status by_data = SetByData(flags, spec, **task, &*run);
  if (!by_data.ok()) return Fail(by_data.error());
  std::optional<TrialFolders> trial;
  if (flags.dry_run)
    trial.emplace(
        std::initializer_list<std::string>{flags.save_adapter, flags.log});
  Result<TrainFiles> files = TrainFiles::Open(flags, spec, *run, ranks);
  if (!files.ok()) return Fail(files.error());

  const Result<std::string> offload_folder = OffloadFolder(
      spec.training.optimizations.value_or(NoOptimizations()).offload,
      flags.offload_dir);
  if (!offload_folder.ok()) return Fail(offload_folder.error());
  const Result<ChosenDevice> device = ChooseDevice(
      {.name = flags.device,
       .dtype = spec.options.dtype,
       .threads = ranks.Threads(flags.model.threads),
       .check = flags.check,
       .choice_folder = FolderOf(spec.training.cache),
       .note = [](const std::string& line) { std::cerr << line << std::endl; },
       .collectives = ranks.collectives(),
       .local_rank = ranks.local_rank(),
       .offload_folder = *offload_folder});
  if (!device.ok()) return Fail(device.error());
  if (!device->why.empty()) std::cerr << device->why << std::endl;
  Backend* const backend = device->backend.get();
  if (spec.training.budget) {
    const Status possible = backend->CheckBudget(*spec.training.budget);
    if (!possible.ok()) return Fail(possible.error());
  }

  // Everything is planned before the first byte of the arena is taken.
  const int64_t sample_positions = SamplePositions(flags, spec);
  if (flags.sample.value_or(0) > 0 && sample_positions == 0) {
    return Fail(InvalidArgumentError(
        "[train] ", spec.info.name, " is no model of text, and --sample ",
        *flags.sample, " has nothing to generate; leave it out"));
  }
  if (spec.tuning) std::cerr << TuningText(*spec.tuning);
  TrainingSpec training = spec.training;
  Result<std::vector<Sharding>> shardings = ShardingsOf(flags, ranks);
  if (!shardings.ok()) return Fail(shardings.error());
  if ((*task)->has_reference()) {
    const Status whole = KeepWeightsWhole(&*shardings);
    if (!whole.ok()) return Fail(whole.error());
  }
  if (!ranks.alone() && flags.check && run->skips_nonfinite) {
    return Fail({ErrorCode::kUnsupported,
                 "[ranks] --check ends a step at one rank in the middle, and "
                 "the others wait there; leave --check or --on-nonfinite skip "
                 "away"});
  }
  SetRanks({.ranks = ranks.ranks(), .rank = ranks.rank()}, &training);
  const auto splits = std::make_shared<EvaluationSplits>(spec, **task);
  training.programs = ProgramsBeside(spec, **task, splits, sample_positions);
  const std::shared_ptr<WorkProgress> progress =
      WorkProgress::OfPlanning(&training.on_choice);
  if (flags.fit_optimizer) {
    const auto fits = FitOptimizers(training, backend->Needs());
    progress->Clear();
    PrintOptimizerFits(fits, training.budget, flags.json);
    return kExitDone;
  }
  // Of several shardings the first that fits, which splits the least.
  Result<TrainingPlanner> planner = Error{};
  Result<TrainingPlan> plan = Error{};
  for (const Sharding sharding : *shardings) {
    training.ranks.shard = sharding;
    planner = TrainingPlanner::Make(training, backend->Needs());
    if (!planner.ok()) return Fail(planner.error());
    plan = planner->Plan();
    if (plan.ok() || plan.error().code != ErrorCode::kBudgetTooSmall) break;
  }
  progress->Clear();
  if (!plan.ok()) {
    return Refuse(flags, spec, *planner, *progress, plan.error());
  }
  const auto predicted = Tell(spec, *planner, *plan);
  if (!predicted.ok()) return Fail(predicted.error());
  const Report report = MakeReport(plan->step.graph, plan->step.plan);
  Page page{.title = report.graph_name, .budget = spec.training.budget};
  if (!flags.html.empty()) page.programs = DescribePrograms(*plan);
  if (flags.dry_run) {
    const Status drawn = FinishDryRun(flags, *files, report, page, ranks);
    if (!drawn.ok()) return Fail(drawn.error());
    return ShowPlan(flags, spec, *planner, *plan, report, *predicted, *backend,
                    **task, ranks);
  }
  if (flags.chat && training.ranks.shard == Sharding::kWeights) {
    return Fail({ErrorCode::kUnsupported,
                 "[ranks] rank 0 chats alone, and --shard weights gives it a "
                 "block of the weights; split less, or leave --chat away"});
  }
  const int64_t evaluation_batch =
      plan->programs.empty()
          ? 0
          : (*task)->EvaluationBatch(plan->programs.front().batch);
  std::optional<Graph> whole_step;
  if (training.ranks.shard != Sharding::kNone) {
    Result<SampledStep> whole =
        BuildSteps(training.model, training.batch, training.loss,
                   training.training)(1, Sampling::kAll);
    if (!whole.ok()) return Fail(whole.error());
    whole_step = std::move(*whole).graph;
  }
  // What only the search for a plan needed would count beside the arena.
  planner = Error{};
  if (spec.training.cache) spec.training.cache->Forget();
  Result<Training> opened = Training::Open(*std::move(plan), *backend);
  ReturnFreeMemory();
  if (!opened.ok()) return Fail(opened.error());
  const Status prepared =
      PrepareEvaluation(*splits, evaluation_batch, task->get(), &*opened);
  if (!prepared.ok()) return Fail(prepared.error());

  const Result<bool> evaluates_alike =
      AgreeOnRun(flags, spec, *run, opened->plan(), evaluation_batch, ranks);
  if (!evaluates_alike.ok()) {
    const Error& error = evaluates_alike.error();
    return error.code == ErrorCode::kInvalidArgument
               ? ranks.EndTogether(Fail(error))
               : Fail(error);
  }
  if (!*evaluates_alike) {
    if (training.ranks.shard == Sharding::kWeights) {
      return ranks.EndTogether(Fail(
          {ErrorCode::kUnsupported,
           StrCat("[ranks] with --shard weights all ranks evaluate together, "
                  "and their plans leave room for batches of different sizes; "
                  "choose a --batch that ",
                  ranks.ranks(), " ranks divide evenly")}));
    }
    (*task)->EvaluateAlone();
  } else if (training.ranks.shard == Sharding::kWeights) {
    (*task)->EvaluateTogether();
  }

  const RankValues values{
      .whole = whole_step ? *whole_step : opened->step().graph(),
      .rank = ranks.rank(),
      .ranks = ranks.ranks(),
      .own_name = whole_step ? &OwnName : nullptr};
  if ((*task)->has_reference()) {
    const Status taken =
        TakeReference(flags, spec, *run, evaluation_batch, **task, &*opened);
    if (!taken.ok()) return Fail(taken.error());
  }
  const Result<int64_t> done =
      files->Begin(flags, spec, *run, *opened, ranks, values);
  if (!done.ok()) return Fail(done.error());
  const MemoryFigures memory{.arena = opened->session().arena_bytes(),
                             .budget = spec.training.budget,
                             .lower_bound = report.lower_bound,
                             .no_reuse = report.no_reuse};
  const Work work{
      *run,       *opened,
      **task,     evaluation_batch,
      *files,     ranks,
      values,     !flags.checkpoint().empty(),
      flags.json, spec.info.data == ModelData::kText && !IsOfPreferences(spec)};
  std::vector<Runner*> steps = {&opened->step()};
  for (const ShapeSpec& shape : spec.training.shapes) {
    steps.push_back(opened->Find(shape.name));
  }
  StepLoop loop(std::move(steps), **task, *run, *done + 1,
                backend->works_on_its_own() ? 1 : 0, memory, flags.json, ranks,
                files->log());
  // What is tuned is judged and shown as it was, too.
  std::optional<Evaluation> base;
  if (spec.tuning && *done == 0) {
    const Result<std::optional<Evaluation>> judged = Judge(work, 0);
    if (!judged.ok()) return EndBadly(*files, judged.error());
    base = *judged;
    if (flags.sample_length() > 0 && sample_positions > 0 && !flags.json) {
      const Status shown =
          PrintSample(flags, spec, *opened, "Before, the model writes");
      if (!shown.ok()) return Fail(shown.error());
    }
  }
  auto stop = std::make_unique<StopSignals>();
  const Result<int64_t> last = RunSteps(work, *done, loop, *stop);
  if (!last.ok()) return EndBadly(*files, last.error());
  if (loop.signal() != 0) return Stop(flags, work, *last, loop.signal());
  const Result<std::optional<Evaluation>> evaluation = Judge(work, *last);
  if (!evaluation.ok()) return EndBadly(*files, evaluation.error());
  const Result<int> signal = ranks.AnyOf(StopSignals::caught());
  if (!signal.ok()) return EndBadly(*files, signal.error());
  if (*signal != 0 && (*task)->has_held_out() && !*evaluation) {
    return Stop(flags, work, *last, *signal);
  }
  if (*last > files->history().last_step && *last > *done) {
    RecordEvaluation(work, *last, *evaluation);
  }
  const bool stops_early = *last < run->stop_at;
  if (stops_early) TellOfEarlyStop(work, *last);
  // What cannot be written is told at the end; the results are printed anyway.
  // Where no step was left to do, what is there stays.
  Status written;
  if (*last > *done) {
    written = SavedByAll(Save(work, *last, LossOf(*evaluation)), ranks);
  }
  if (!written.ok() && written.error().code == ErrorCode::kNotFinite) {
    return EndBadly(*files, written.error());
  }
  // Each is tried, whatever became of those before.
  if (TrainFiles::SavesForOthers(flags)) {
    written = Both(written, SaveForOthers(work, spec));
  }
  if (files->log() != nullptr) written = Both(written, files->log()->status());
  if (!flags.svg.empty() && ranks.speaks()) {
    written = Both(written, files->svg().Write(ToSvg(report)));
  }
  if (!flags.html.empty() && ranks.speaks()) {
    page.losses = loop.figures().losses;
    page.held_out_loss = LossOf(*evaluation);
    written = Both(written, files->html().Write(ToHtml(page)));
  }
  // All is saved: from here on a signal ends the process at once.
  const Result<int> asked = ranks.AnyOf(StopSignals::caught());
  if (!asked.ok()) return EndBadly(*files, asked.error());
  stop.reset();

  const TrainResults results{
      .model = spec.info.name,
      .steps = *last,
      .history = run->eval_every > 0 ? &files->history() : nullptr,
      .stops_early = stops_early,
      .run = loop.figures(),
      .evaluation = *evaluation,
      .base = base,
      .tuning = spec.tuning.get(),
      .memory = memory,
      .session = opened->session(),
      .report = report,
      .predicted = *predicted,
      .seconds = std::chrono::duration<double>(Clock::now() - start).count(),
      .ranks = ranks.ranks()};
  if (flags.json) {
    PrintJson(ToJson(results));
    return written.ok() ? kExitDone : Fail(written.error());
  }
  std::cout << Headline(results) << "\n\n";
  if (flags.sample_length() > 0 && sample_positions > 0 && *asked == 0) {
    const Status shown = PrintSample(flags, spec, *opened, "The model writes");
    if (!shown.ok()) return Fail(shown.error());
  }
  std::cout << Details(results);
  if (flags.chat && ranks.speaks() && *asked == 0) {
    const Status chatted = Chat(flags, spec, *opened);
    if (!chatted.ok()) return Fail(chatted.error());
  }
  return written.ok() ? kExitDone : Fail(written.error());
}

}  // namespace stowage::tools
