#ifndef STOWAGE_TRAIN_TRAINING_H_
#define STOWAGE_TRAIN_TRAINING_H_

// Train is the entry point of this library: it turns a model, a batch, an optimizer and a
// budget into a training session that stays inside the budget, with the memory
// optimizations that this needs, on a working device. Programs beside training, such as
// evaluation, share its weights and the same budget.
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
// Everything is planned before the arena is allocated. TrainingPlanner plans without a
// device, for frontiers and smallest budgets; PlanProgram and StepFitter
// (planner/fit/fit.h) plan custom graphs.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/batch_analysis.h"
#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
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
  std::string name;   // of its runner
  ModelFn model;      // its graph; params as the training step's
  int64_t batch = 1;  // maximum examples at a time; fewer if these do not fit
  /// Whether a plan goes without it where not even one example fits the budget, or without
  /// one the step's arena, or where the model is kUnsupported.
  bool is_optional = false;
};

/// The training step for inputs of another shape, for example a shorter sequence, or the
/// smaller last batch of an epoch.
struct ShapeSpec {
  std::string name;  // of its runner
  ModelFn model;     // as the spec's own, with the same params
  /// Examples a step, of all ranks together; absent: as many as the spec has. At most as
  /// many micro-batches are used.
  std::optional<int64_t> batch = {};
};

struct TrainingSpec {
  ModelFn model;  // of the forward pass
  /// Steps over the same params, states and arena, each with its own plan, for batches
  /// that need less memory than the model above, which should be the largest.
  std::vector<ShapeSpec> shapes = {};
  int64_t batch = 1;  // examples a step, of all ranks together
  /// The ranks that take a step together, which of them this is, and the sharding.
  Ranks ranks = {};
  std::string loss = "loss";  // a scalar output of the model
  TrainOptions training = {};
  std::vector<ProgramSpec> programs = {};
  /// Maximum bytes of the arena, all programs included; absent: as many as they need
  /// unmodified.
  std::optional<Bytes> budget = {};
  /// Allowed memory optimizations; absent: everything (AllOptimizations). Micro-batches
  /// are of this rank's part of the batch.
  std::optional<MemoryOptimizations> optimizations = {};
  /// Measured times of this machine's ops, to choose optimizations by time instead of
  /// operations.
  std::optional<OpTimes> op_times = {};
  /// Packer, alignment. Its budget, weights and device are filled in.
  PlanOptions planning = {};
  /// FitOptions::on_choice.
  std::function<void()> on_choice = {};
  /// The plan cache; absent: none.
  std::optional<PlanCache> cache = {};
};

/// One program beside training, planned.
struct PlannedProgram {
  std::string name;
  int64_t batch = 1;  // examples at a time: as many as fit
  int64_t asked = 1;  // the spec's batch
  Graph graph;
  Plan plan;
};

/// The step of another shape, planned.
struct PlannedShape {
  std::string name;
  FittedStep step;
};

/// The memory and programs of a training, before the arena is allocated.
struct TrainingPlan {
  FittedStep step;
  std::vector<PlannedShape> shapes = {};
  std::vector<PlannedProgram> programs = {};  // programs beside the step
  CacheUse cache = CacheUse::kOff;            // of the step
  std::string cache_note = {};                // errors of cache entries
  /// The params of which this rank only keeps its block, as declared by the model.
  std::vector<ValueInfo> split = {};
  int64_t rank = 0;

  /// The arena of the largest program.
  Bytes arena_bytes() const;
  /// In host memory, not in the arena.
  Bytes host_bytes() const;
  /// A report in lines of text: what each pass of the planner did, its cost, and the
  /// memory of each program, including programs that take fewer examples at a time than
  /// the spec has.
  std::string Explain() const;
};

/// Plans trainings; the device need not be present.
class TrainingPlanner {
 public:
  /// Plans for kernels with the requirements `device`; objects that it refers to must
  /// outlive this. Errors: the model's; kInvalidArgument for a batch below 1 or below the
  /// number of ranks; kInvalidArgument for numbers of micro-batches that do not increase,
  /// are below 1 or above the batch, or are above 1 if the model normalizes over its
  /// batch; CheckRanks.
  static Result<TrainingPlanner> Make(TrainingSpec spec, DeviceNeeds device);

  /// The cheapest plan found that fits the budget of the spec. The batch of a program
  /// beside the step is halved until it fits the budget; without a budget, until it fits
  /// into the step's arena, or is one. Errors: kBudgetTooSmall, naming the program and
  /// the smallest budgets that work; those of StepFitter::Fit. Other shapes have the same
  /// budget, or without one the step's arena, and offload the same states as the step.
  Result<TrainingPlan> Plan();

  /// The changes if each rank splits its batch into `micro_batches`, if that is allowed
  /// (TrainOptions::allow_batch_change): the values that are no longer those of the whole
  /// batch, with the reasons. Errors: the model's.
  Result<std::vector<BatchObstacle>> BatchChanges(int64_t micro_batches) const;

  /// Plans only the step: the costs of other budgets, and the smallest that work.
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

  /// Initializes params and states by their Init; see Session::Initialize. A block of a
  /// param gets that part of the whole's initial values, computed param by param.
  void Initialize(uint64_t seed);

  /// The training step, and any program by name; null if there is none.
  Runner& step() { return session_->front(); }
  Runner* Find(std::string_view name) { return session_->Find(name); }

  const TrainingPlan& plan() const { return plan_; }
  Session& session() { return *session_; }
  Backend& backend() { return session_->backend(); }
  /// The chosen device and the reason, as text; empty if it was given.
  const std::string& why() const { return why_; }

 private:
  friend Result<Training> Train(TrainingSpec, const DeviceFlags&);
  Training() = default;

  std::string why_;
  // Absent if it was given. Declared before the session, so that it outlives it.
  std::unique_ptr<Backend> owned_;
  TrainingPlan plan_;
  std::unique_ptr<Session> session_;
};

/// Plans, and opens a session on `backend`, which must outlive it. Errors: those of
/// TrainingPlanner and Training::Open; kDevice for a budget that the device can never
/// have.
Result<Training> Train(TrainingSpec spec, Backend& backend);

/// As above, on a working device: a GPU, else the CPU (train/device.h). Errors also of
/// OffloadFolder, which says where a step that offloads to disk keeps its file.
Result<Training> Train(TrainingSpec spec, const DeviceFlags& device = {});

/// The inputs of a training step besides its batch: the learning rate "lr"; the number "step",
/// by which some optimizers correct their moments; the "seed" of random ops; and those of
/// ParamGroups. A graph reads some of them.
///
///   const StepInputs inputs(training.step().graph());
///   Status written = inputs.Write(training.step(), {.step = 7, .lr = 3e-4, .seed = 1});
class StepInputs {
 public:
  struct Values {
    int64_t step = 1;  // counts from 1
    double lr = 0;
    int64_t seed = 1;
    std::span<const double> of_groups = {};  // in the order of of_groups()
  };

  /// Writes nothing.
  StepInputs() = default;
  /// The inputs that `graph` reads.
  explicit StepInputs(const Graph& graph);

  /// Whether `input` is one of them, rather than a part of the batch.
  static bool Includes(const ValueInfo& input);

  /// The inputs of ParamGroups, such as "lr:backbone", in the order of the graph.
  const std::vector<std::string>& of_groups() const { return of_groups_; }

  /// Writes them to `runner`, a program of that graph. Errors: kInvalidArgument for another
  /// number of values than of_groups(); those of Runner::Write.
  Status Write(Runner& runner, const Values& values) const;

 private:
  bool reads_lr_ = false, reads_step_ = false, reads_seed_ = false;
  std::vector<std::string> of_groups_;
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_TRAINING_H_
