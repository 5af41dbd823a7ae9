#ifndef STOWAGE_TRAIN_TRAINING_H_
#define STOWAGE_TRAIN_TRAINING_H_

// Creates training sessions; Train is the entry point of this library. From a model, a batch, an
// optimizer and a budget, it creates a training session that stays inside the budget, on a working
// device. It applies the memory optimizations that the budget requires. Additional programs, such
// as evaluation, share the session's weights and the same budget.
//
//   Result<Training> training = Train(
//       {.model = [](int64_t batch) { return MyModel(batch); },
//        .batch = 64,
//        .training = {.optimizer = AdamW{},
//                     .groups = {{.pattern = "*.bias", .decay = 0}}},
//        .programs = {{.name = "evaluate", .model = MyEvaluation, .batch = 64}},
//        .budget = 8'000'000'000});
//   if (!training.ok()) Print(training.error().message);  // names budgets that would suffice
//   training->Initialize(/*seed=*/1);
//   Runner& step = training->step();
//   step.Write("x", images);  step.Write("y", labels);
//   step.Write("lr", 1e-3);  step.Write("step", 1);
//   step.Step();
//   Print(training->plan().Explain());  // what each pass did, and the memory of every program
//
// Everything is planned before the arena is allocated. TrainingPlanner plans without a device, for
// example to compute frontiers and smallest budgets. PlanProgram and StepFitter (planner/fit/fit.h)
// plan custom graphs.

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

/// A program in addition to the training step.
struct ProgramSpec {
  std::string name;   // name of its runner
  ModelFn model;      // its graph, with the params of the training step
  int64_t batch = 1;  // maximum examples per run; fewer if these do not fit
  /// If true, a plan omits the program if not even one example fits the budget, or without a
  /// budget the arena of the step, or if the model returns kUnsupported.
  bool is_optional = false;
};

/// A training step for inputs of another shape, for example shorter sequences or the smaller last
/// batch of an epoch.
struct ShapeSpec {
  std::string name;  // name of its runner
  ModelFn model;     // the model for this shape, with the same params
  /// Examples per step, of all ranks together. If absent, TrainingSpec::batch applies. At most this
  /// number of micro-batches is used.
  std::optional<int64_t> batch = {};
};

struct TrainingSpec {
  ModelFn model;  // builds the forward graph
  /// Training steps that share params, states and arena, each with its own plan. They are for
  /// batches that need less memory than `model`, which should be the largest.
  std::vector<ShapeSpec> shapes = {};
  int64_t batch = 1;  // examples per step, of all ranks together
  /// The ranks that run a step together, the rank of this process, and the sharding.
  Ranks ranks = {};
  std::string loss = "loss";  // name of a scalar output of the model
  TrainOptions training = {};
  std::vector<ProgramSpec> programs = {};
  /// Maximum bytes of the arena, which includes all programs. If absent, the arena is as large as
  /// the programs need without memory optimizations.
  std::optional<Bytes> budget = {};
  /// Allowed memory optimizations. If absent, all are allowed (AllOptimizations). Micro-batches
  /// split this rank's shard of the batch.
  std::optional<MemoryOptimizations> optimizations = {};
  /// Measured times of ops on this machine. If present, optimizations are chosen by time instead of
  /// numbers of operations.
  std::optional<OpTimes> op_times = {};
  /// Packer and alignment. The planner sets budget, weights and device.
  PlanOptions planning = {};
  /// Called as FitOptions::on_choice.
  std::function<void()> on_choice = {};
  /// The plan cache. If absent, plans are not cached.
  std::optional<PlanCache> cache = {};
};

/// A planned program in addition to the training step.
struct PlannedProgram {
  std::string name;
  int64_t batch = 1;  // examples per run, at most the number that fits
  int64_t asked = 1;  // ProgramSpec::batch
  Graph graph;
  Plan plan;
};

/// A planned training step of another shape.
struct PlannedShape {
  std::string name;
  FittedStep step;
};

/// The memory and programs of a training, before the arena is allocated.
struct TrainingPlan {
  FittedStep step;
  std::vector<PlannedShape> shapes = {};
  std::vector<PlannedProgram> programs = {};  // additional programs
  CacheUse cache = CacheUse::kOff;            // how `step` used the cache
  std::string cache_note = {};                // errors of cache entries
  /// The params that are sharded across ranks, as declared by the model.
  std::vector<ValueInfo> split = {};
  int64_t rank = 0;

  /// Returns the bytes of the arena, which the largest program determines.
  Bytes arena_bytes() const;
  /// Returns the bytes in host memory, which are not part of the arena.
  Bytes host_bytes() const;
  /// Returns a report in lines of text: the effect of each pass of the planner, its cost, and the
  /// memory of each program. The report notes programs that run fewer examples than the spec has.
  std::string Explain() const;
};

/// Plans trainings. The device need not be present.
class TrainingPlanner {
 public:
  /// Creates a planner for kernels with the requirements `device`. Objects to which it refers must
  /// outlive the result. Returns kInvalidArgument if a model is missing, if a batch is below 1 or
  /// below the number of ranks, or if the numbers of micro-batches do not increase, are below 1 or
  /// exceed the batch. Propagates errors of the model and of CheckRanks.
  static Result<TrainingPlanner> Make(TrainingSpec spec, DeviceNeeds device);

  /// Returns the cheapest plan found that fits the budget of the spec. Other shapes have the same
  /// budget, or without a budget the arena of the step, and offload the same states as the step.
  /// The batch of an additional program is halved until it fits the budget. Without a budget, it is
  /// halved until it fits the arena of the step or is one. Returns kBudgetTooSmall, naming the
  /// program and the smallest budgets that work. Returns kUnsupported if all allowed numbers of
  /// micro-batches would change the results, which is the case if the model normalizes over its
  /// batch (TrainOptions::allow_batch_change). Propagates errors of StepFitter::Fit.
  Result<TrainingPlan> Plan();

  /// Returns how results change if each rank splits its batch into `micro_batches`: the values that
  /// no longer equal the whole batch's, with the reasons. The result is empty unless changes are
  /// allowed (TrainOptions::allow_batch_change). Propagates errors of the model.
  Result<std::vector<BatchObstacle>> BatchChanges(int64_t micro_batches) const;

  /// Returns the planner of only the step, for the costs of other budgets and the smallest budgets
  /// that work.
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

/// A training session: the programs of a model in one arena on one device.
class Training {
 public:
  /// Opens a session on `backend`, which must outlive the result, with all programs of `plan`.
  /// Propagates errors of Session::Create.
  static Result<Training> Open(TrainingPlan plan, Backend& backend,
                               const SessionOptions& options = {});

  Training(Training&&) noexcept = default;
  Training& operator=(Training other) noexcept;

  /// Initializes params and states according to their Init, as Session::Initialize does. A shard of
  /// a param has the corresponding initial values of the whole param, which are computed for one
  /// param at a time.
  void Initialize(uint64_t seed);

  /// Return the training step, and any program by name, or null if there is none of that name.
  Runner& step() { return session_->front(); }
  Runner* Find(std::string_view name) { return session_->Find(name); }

  const TrainingPlan& plan() const { return plan_; }
  Session& session() { return *session_; }
  Backend& backend() { return session_->backend(); }
  /// Returns ChosenDevice::why if Train chose the device, and "" if the backend was given.
  const std::string& why() const { return why_; }

 private:
  friend Result<Training> Train(TrainingSpec, const DeviceFlags&);
  Training() = default;

  std::string why_;
  // Null if the backend was given. It is declared before the session, so it outlives the session.
  std::unique_ptr<Backend> owned_;
  TrainingPlan plan_;
  std::unique_ptr<Session> session_;
};

/// Plans a training, and opens it on `backend`, which must outlive the result. Propagates errors of
/// TrainingPlanner and Training::Open. Returns kDevice if the device can never have the budget.
Result<Training> Train(TrainingSpec spec, Backend& backend);

/// Plans a training, and opens it on the device that ChooseDevice (train/device.h) selects: by
/// default a working GPU, or the CPU if there is none. Also propagates errors of ChooseDevice, and
/// of OffloadFolder, which determines the folder for values that are offloaded to disk.
Result<Training> Train(TrainingSpec spec, const DeviceFlags& device = {});

/// The inputs of a training step other than its batch: the learning rate "lr", the number "step",
/// with which some optimizers correct their moments, the "seed" of random ops, and the inputs of
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
    std::span<const double> of_groups = {};  // ordered like of_groups() below
  };

  /// Creates an object that writes nothing.
  StepInputs() = default;
  /// Creates an object for the inputs that `graph` reads.
  explicit StepInputs(const Graph& graph);

  /// Returns whether `input` is one of these inputs rather than an input of the batch.
  static bool Includes(const ValueInfo& input);

  /// Returns the inputs of ParamGroups, such as "lr:backbone", in the order of the graph.
  const std::vector<std::string>& of_groups() const { return of_groups_; }

  /// Writes the inputs to `runner`, a program of that graph. Returns kInvalidArgument if
  /// `values.of_groups` has another size than of_groups(). Propagates errors of Runner::Write.
  Status Write(Runner& runner, const Values& values) const;

 private:
  bool reads_lr_ = false, reads_step_ = false, reads_seed_ = false;
  std::vector<std::string> of_groups_;
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_TRAINING_H_
