#ifndef STOWAGE_TRAIN_TRAINING_H_
#define STOWAGE_TRAIN_TRAINING_H_

// Creates training sessions. Train is the entry point of this library: from a model, a batch size,
// an optimizer and a budget, it creates a training session on a CPU or GPU whose memory stays
// inside the budget. It applies the memory optimizations that the budget requires. Additional
// programs, such as evaluation, share the session's weights and the budget.
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
// All memory is planned before the arena is allocated. TrainingPlanner plans without a device, for
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
  int64_t batch = 1;  // maximum examples per run, reduced if they do not fit
  /// If true, the plan omits the program if one example does not fit the budget, or if the model
  /// returns kUnsupported. Without a budget, one example must fit the arena of the step.
  bool is_optional = false;
};

/// A training step for inputs of another shape, for example shorter sequences or the smaller last
/// batch of an epoch.
struct ShapeSpec {
  std::string name;  // name of its runner
  ModelFn model;     // the model for this shape, with the same params
  /// Examples per step, of all ranks together. If absent, TrainingSpec::batch applies. Numbers of
  /// micro-batches in TrainingSpec::optimizations that exceed the examples of this rank are
  /// ignored.
  std::optional<int64_t> batch = {};
};

struct TrainingSpec {
  ModelFn model;  // builds the forward graph
  /// Additional training steps, for batches of other shapes. They share params, states and arena
  /// with the step of `model`, but have their own plans. `model` should be the shape that needs the
  /// most memory.
  std::vector<ShapeSpec> shapes = {};
  int64_t batch = 1;  // examples per step, of all ranks together
  /// The number of ranks that run a step together, the rank of this process, and the sharding
  /// (autodiff/rank_step.h).
  Ranks ranks = {};
  std::string loss = "loss";  // name of a scalar output of the model
  TrainOptions training = {};
  std::vector<ProgramSpec> programs = {};
  /// Maximum bytes of the arena, which all programs use in turn. If absent, the arena has the size
  /// that the training step needs without memory optimizations, or the size of a larger program.
  std::optional<Bytes> budget = {};
  /// Allowed memory optimizations. If absent, all are allowed (AllOptimizations). Micro-batches
  /// split this rank's shard of the batch.
  std::optional<MemoryOptimizations> optimizations = {};
  /// Measured times of ops on this machine. If present, memory optimizations are chosen by time
  /// instead of by the number of operations.
  std::optional<OpTimes> op_times = {};
  /// The packer, the alignment and other options of planning. TrainingPlanner replaces `budget`,
  /// `weights` and `device`.
  PlanOptions planning = {};
  /// Called by the planner as FitOptions::on_choice (planner/fit/fit.h).
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

/// The planned programs of a training, and their memory.
struct TrainingPlan {
  FittedStep step;
  std::vector<PlannedShape> shapes = {};
  std::vector<PlannedProgram> programs = {};  // additional programs
  CacheUse cache = CacheUse::kOff;            // how `step` used the cache
  std::string cache_note = {};                // errors of cache entries
  /// The params that are sharded across ranks (Sharding::kWeights), with the shapes that the model
  /// declares.
  std::vector<ValueInfo> split = {};
  int64_t rank = 0;

  /// Returns the bytes of the arena, which is as large as the largest program requires.
  Bytes arena_bytes() const;
  /// Returns the bytes of host memory for offloaded values, which are not part of the arena.
  Bytes host_bytes() const;
  /// Returns a report, one line per item: the effect and the time of each pass of the planner, the
  /// cost of the memory optimizations, and the memory of each program. The report notes programs
  /// that run fewer examples at a time than ProgramSpec::batch.
  std::string Explain() const;
};

/// Plans trainings. Does not need the device.
class TrainingPlanner {
 public:
  /// Creates a planner for kernels with the requirements `device`, such as Backend::Needs().
  /// Objects to which `device` refers must outlive the result. Returns kInvalidArgument if a model
  /// is missing, if a batch is below 1, if the batch of a training step is below the number of
  /// ranks, or if the numbers of micro-batches are empty, do not increase, are below 1 or exceed
  /// this rank's examples. Propagates errors of the model, CheckRanks and PlanMemory.
  static Result<TrainingPlanner> Make(TrainingSpec spec, DeviceNeeds device);

  /// Returns the cheapest plan found that fits the budget of the spec. The steps of other shapes
  /// have the same budget, or the arena of the first step if there is no budget, and offload the
  /// same states as the first step. The batch of an additional program is halved until it fits the
  /// budget. Without a budget, it is halved until it fits the arena of the first step or is 1.
  /// Returns kBudgetTooSmall, naming the program and the smallest budgets that work, if a program
  /// does not fit. Returns kUnsupported if all allowed numbers of micro-batches would change the
  /// results, as in a model with batch normalization, and TrainOptions::allow_batch_change is
  /// false. Propagates errors of StepFitter::Fit.
  Result<TrainingPlan> Plan();

  /// Returns the values whose results change if each rank splits its examples into `micro_batches`
  /// micro-batches, with the reasons. `micro_batches` must be at least 1. The result is empty
  /// unless TrainOptions::allow_batch_change is true. Propagates errors of the model.
  Result<std::vector<BatchObstacle>> BatchChanges(int64_t micro_batches) const;

  /// Returns the planner of the training step without the other programs. It computes the costs of
  /// other budgets and the smallest budget that works.
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

  /// Initializes params and states according to their Init (ir/graph.h), as Session::Initialize
  /// does. A rank that has a shard of a param computes the initial values of the whole param, one
  /// param at a time, and keeps the values of its shard.
  void Initialize(uint64_t seed);

  /// step returns the training step. Find returns the program named `name`, or null if there is no
  /// such program. The training step is named "train".
  Runner& step() { return session_->front(); }
  Runner* Find(std::string_view name) { return session_->Find(name); }

  const TrainingPlan& plan() const { return plan_; }
  Session& session() { return *session_; }
  Backend& backend() { return session_->backend(); }
  /// Returns ChosenDevice::why (train/device.h) if Train chose the device, and "" if the backend
  /// was given.
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
/// Backend::CheckBudget, which fails if the device does not have memory for the budget, and of
/// TrainingPlanner and Training::Open.
Result<Training> Train(TrainingSpec spec, Backend& backend);

/// Plans a training, and opens it on the device that ChooseDevice (train/device.h) selects: by
/// default a working GPU, or the CPU if there is none. Returns the errors of the overload above.
/// Also propagates errors of ChooseDevice, and of OffloadFolder, which determines the folder for
/// values that are offloaded to disk.
Result<Training> Train(TrainingSpec spec, const DeviceFlags& device = {});

/// Writes the inputs of a training step other than its batch: the learning rate "lr", the number
/// "step", which some optimizers need for bias correction, the "seed" of random ops, and the inputs
/// of ParamGroups. Inputs that the graph does not have are skipped.
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

  /// Creates an object that writes nothing.
  StepInputs() = default;
  /// Creates an object for the inputs that `graph` reads.
  explicit StepInputs(const Graph& graph);

  /// Returns whether `input` is one of the inputs above rather than an input of the batch.
  static bool Includes(const ValueInfo& input);

  /// Returns the inputs of ParamGroups, such as "lr:backbone", in the order of the graph.
  const std::vector<std::string>& of_groups() const { return of_groups_; }

  /// Writes the inputs to `runner`, which must be a program of the graph that was passed to the
  /// constructor. Returns kInvalidArgument if `values.of_groups` has another size than of_groups().
  /// Propagates errors of Runner::Write.
  Status Write(Runner& runner, const Values& values) const;

 private:
  bool reads_lr_ = false, reads_step_ = false, reads_seed_ = false;
  std::vector<std::string> of_groups_;
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_TRAINING_H_
