#ifndef STOWAGE_TRAIN_TRAINING_H_
#define STOWAGE_TRAIN_TRAINING_H_

// Train is the entry point of this library: a model, a batch, an optimizer and a budget
// become something that trains inside the budget, whatever optimizations that takes, on
// the device that works. The programs beside training, such as evaluation, share its
// weights and the same budget.
//
//   Result<Training> training = Train(
//       {.model = [](int64_t batch) { return MyModel(batch); },
//        .batch = 64,
//        .training = {.optimizer = AdamW{},
//                     .groups = {{.pattern = "*.bias", .decay = 0}}},
//        .programs = {{.name = "evaluate", .model = MyEvaluation, .batch = 64}},
//        .budget = 8'000'000'000});
//   if (!training.ok()) Print(training.error().message);  // names what would fit
//   training->Initialize(/*seed=*/1);
//   Runner& step = training->step();
//   step.Write("x", images);  step.Write("y", labels);
//   step.Write("lr", 1e-3);  step.Write("step", 1);
//   step.Step();
//   Print(training->plan().Explain());  // what each pass did, and what every program takes
//
// Everything is planned before the first byte of the arena is taken. To plan
// without a device, for frontiers and smallest budgets, there is TrainingPlanner;
// to place graphs of one's own, PlanProgram (planner/fit/fit.h) and StepFitter
// (planner/fit/fit.h).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/batch_analysis.h"
#include "autodiff/ranks.h"
#include "autodiff/train_options.h"
#include "base/bytes.h"
#include "base/result.h"
#include "planner/fit/cost.h"
#include "planner/fit/fit.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "train/device.h"
#include "train/plan_cache.h"
#include "train/step_builder.h"
#include "train/step_planner.h"

namespace stowage {

/// A program beside the training step.
struct ProgramSpec {
  std::string name;  // of its runner
  ModelFn model;     // its graph; params as the training step's
  int64_t batch =
      1;  // the most examples at a time; fewer where these do not fit
};

/// The training step for inputs of another shape: a shorter sequence, say, or the fewer
/// examples that an epoch ends with.
struct ShapeSpec {
  std::string name;  // of its runner
  ModelFn model;     // as the spec's own, with the same params
  /// Examples a step, of all ranks together; absent: as many as the spec has. Fewer are
  /// taken in no more micro-batches than they are.
  std::optional<int64_t> batch = {};
};

struct TrainingSpec {
  ModelFn model;  // of the forward pass
  /// Steps over the same params, states and arena, each with its own plan, for batches
  /// that need less than the model above, which should be the largest.
  std::vector<ShapeSpec> shapes = {};
  int64_t batch = 1;  // examples a step, of all ranks together
  /// Those that take a step together, which rank this is, and what each keeps.
  Ranks ranks = {};
  std::string loss = "loss";  // a scalar output of the model
  TrainOptions training = {};
  std::vector<ProgramSpec> programs = {};
  /// The most bytes the arena may take, all programs included; absent: what they
  /// need as they are.
  std::optional<Bytes> budget = {};
  /// What may be done to fit; absent: everything (AllOptimizations). Micro-batches are of this rank's
  /// part of the batch.
  std::optional<MemoryOptimizations> optimizations = {};
  /// Of this machine's ops, to choose optimizations by time instead of operations.
  std::optional<OpTimes> op_times = {};
  /// Packer, alignment. Its budget, weights and device are filled in.
  PlanOptions planning = {};
  /// FitOptions::on_choice.
  std::function<void()> on_choice = {};
  /// Where plans are kept, so that one found once is found again; absent: nowhere.
  std::optional<PlanCache> cache = {};
};

/// One program beside training, planned.
struct PlannedProgram {
  std::string name;
  int64_t batch = 1;  // examples at a time: as many as fit
  int64_t asked = 1;  // that the spec has
  Graph graph;
  Plan plan;
};

/// The step of another shape, planned.
struct PlannedShape {
  std::string name;
  FittedStep step;
};

/// What a training takes, before any byte of it is taken.
struct TrainingPlan {
  FittedStep step;
  std::vector<PlannedShape> shapes = {};
  std::vector<PlannedProgram> programs = {};  // those beside the step
  CacheUse cache = CacheUse::kOff;            // of the step
  std::string cache_note = {};                // what was wrong with an entry
  /// The params of which this rank keeps its block alone, as the model has them.
  std::vector<ValueInfo> split = {};
  int64_t rank = 0;

  /// Of the largest program.
  Bytes arena_bytes() const;
  /// Beside it, in the host's memory.
  Bytes host_bytes() const;
  /// What each pass of the planner did, what that costs, and what each program takes, as
  /// lines of text. A program that takes fewer examples at a time than the spec has is
  /// said to.
  std::string Explain() const;
};

/// Plans trainings, for a device that need not be there.
class TrainingPlanner {
 public:
  /// For kernels that need what `device` says. What it points at must outlive
  /// this. Errors: the model's; kInvalidArgument for a batch below 1, or below the
  /// ranks, numbers of micro-batches that do not rise, or lie beyond 1 and the batch, or are
  /// more than 1 where the model normalizes by its batch; CheckRanks.
  static Result<TrainingPlanner> Make(TrainingSpec spec, DeviceNeeds device);

  /// The cheapest plan found that fits the budget of the spec. A program beside
  /// the step that does not fit takes half as many examples, and half of those,
  /// until it does; without a budget, until it fits into what the step takes, or
  /// is one. Errors: kBudgetTooSmall, naming the program and the smallest budgets
  /// that work; those of StepFitter::Fit. Other shapes have the same budget, or without
  /// one what the step takes, and keep the states on the host that the step keeps there.
  Result<TrainingPlan> Plan();

  /// What it changes that the batch is taken in `micro_batches` by each rank, where that
  /// is allowed (TrainOptions::allow_batch_change): values, with the reason of each, that
  /// no longer are those of the whole batch. Errors: the model's.
  Result<std::vector<BatchObstacle>> BatchChanges(int64_t micro_batches) const;

  /// Of the step alone: what other budgets cost, and the smallest that work.
  StepPlanner& step() { return *step_; }
  const TrainingSpec& spec() const { return spec_; }

 private:
  TrainingPlanner() = default;
  Result<PlannedShape> PlanShape(const ShapeSpec& shape,
                                 const FittedStep& step) const;
  Result<PlannedProgram> PlanBeside(const ProgramSpec& program,
                                    const FittedStep& step) const;

  TrainingSpec spec_;
  std::unique_ptr<StepPlanner> step_;
};

/// A model being trained: its programs over one arena, on one device.
class Training {
 public:
  /// Opens a session on `backend`, which must outlive this, with all programs of
  /// `plan`. Errors: those of Session::Create.
  static Result<Training> Open(TrainingPlan plan, Backend& backend,
                               const SessionOptions& options = {});

  Training(Training&&) noexcept = default;
  Training& operator=(Training other) noexcept;

  /// Fills params and states as their Init says; see Session::Initialize. A block of a
  /// param starts as that part of the whole does, which is made for it, param by param.
  void Initialize(uint64_t seed);

  /// The training step, and any program by name; null when there is none.
  Runner& step() { return session_->front(); }
  Runner* Find(std::string_view name) { return session_->Find(name); }

  const TrainingPlan& plan() const { return plan_; }
  Session& session() { return *session_; }
  Backend& backend() { return session_->backend(); }
  /// Which device was chosen and why, for people; empty when it was given.
  const std::string& why() const { return why_; }

 private:
  friend Result<Training> Train(TrainingSpec, const DeviceFlags&);
  Training() = default;

  std::string why_;
  // Absent when it was given. It outlives the session, being declared before it.
  std::unique_ptr<Backend> owned_;
  TrainingPlan plan_;
  std::unique_ptr<Session> session_;
};

/// Plans, and opens a session on `backend`, which must outlive it. Errors: those
/// of TrainingPlanner and Training::Open; kDevice for a budget that the device can
/// never have.
Result<Training> Train(TrainingSpec spec, Backend& backend);

/// On the device that works: a GPU, else the CPU (train/device.h).
Result<Training> Train(TrainingSpec spec, const DeviceFlags& device = {});

}  // namespace stowage

#endif  // STOWAGE_TRAIN_TRAINING_H_
