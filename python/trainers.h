#ifndef STOWAGE_PYTHON_TRAINERS_H_
#define STOWAGE_PYTHON_TRAINERS_H_

// Implements the Python class Trainer. It adds the following to Training (train/training.h).
// - Calls may come from several threads. They are executed one at a time.
// - The process may fork. A child process cannot use the trainer and does not release its memory,
//   since the child does not have the trainer's threads.
// - Python can view params in the arena. A view keeps the arena's memory alive.
//
//   Trainer trainer(plan, OpenDevice("cpu", "f32", 2), /*seed=*/1);
//   trainer.set_rate({.schedule = {.peak = 0.1}});
//   trainer.Step(args, kwargs);

#include <pybind11/pybind11.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/schedule.h"
#include "python/errors.h"
#include "python/models.h"
#include "python/plans.h"
#include "runtime/backend.h"
#include "runtime/checkpoint_file.h"
#include "runtime/weights.h"
#include "train/state_backup.h"
#include "train/training.h"

namespace stowage::python {

/// An open device, and the reason why it was chosen.
struct Device {
  std::shared_ptr<Backend> backend;  // created by OfThisProcess
  std::string why;
};

/// The arena of a session, in host memory.
class HostArena {
 public:
  static Result<std::shared_ptr<HostArena>> Make(
      std::shared_ptr<Backend> backend, Bytes bytes, Bytes alignment);
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;
  ~HostArena();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  HostArena(std::shared_ptr<Backend> backend, std::span<std::byte> bytes,
            Bytes alignment);

  std::shared_ptr<Backend> backend_;
  std::span<std::byte> bytes_;
  Bytes alignment_;
  pid_t process_;
};

/// A view of a param or state in the arena. While a view exists, Trainer::Close raises BufferError.
struct ArenaValue {
  std::shared_ptr<HostArena> arena;
  TensorType type;
  std::span<std::byte> data;
};

/// The learning rates of the steps of a run.
struct Rate {
  LearningRateSchedule schedule;
  int64_t steps = 1;

  double At(int64_t step) const { return schedule.At(step, steps); }
};

class Trainer {
 public:
  /// Opens the plan on `device`. Initializes params and states with `seed`, and then sets the
  /// weights in the model's ONNX file, if it is from one. Raises the errors of
  /// Backend::CheckBudget, Training::Open and OnnxModel::ForEachWeight.
  Trainer(std::shared_ptr<PlannedTraining> plan, const Device& device,
          uint64_t seed);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer();

  /// Executes a training step on the inputs, which are given by position or name, and returns the
  /// loss. Raises InvalidArgument for a missing or unknown input, the exceptions of ArrayView and
  /// ArrayView::As, and the errors of Runner::Explain.
  float Step(const pybind11::args& inputs, const pybind11::kwargs& named);
  /// Runs the program "evaluate" or "validate" and returns its outputs by name.
  pybind11::dict Evaluate(const std::string& program,
                          const std::vector<pybind11::object>& inputs);
  /// Returns EvaluationParts (python/models.h) for the program "evaluate" or "validate".
  pybind11::tuple EvaluationPartsOf(const std::string& program,
                                    bool is_partial);
  /// Returns the name, element type and dimensions of each input that the caller must supply to a
  /// program, "train", "evaluate" or "validate".
  pybind11::list InputsOf(const std::string& program);
  /// Returns the inputs that the caller must supply to the training step.
  const std::vector<ProgramInput>& step_inputs() const {
    return step_inputs_.inputs;
  }
  /// Returns the number of classes of the program "validate" (ClassesOf in train/evaluation.h).
  std::optional<int64_t> Classes();
  /// Returns ExampleAxes for the inputs of the step.
  std::vector<int64_t> StepAxes() const {
    const TrainingSpec& spec = plan_->spec();
    return ExampleAxes(spec.model, spec.batch, step_inputs_.inputs);
  }
  /// Returns the batch size of the program named `program`, or 0 if there is no such program.
  int64_t evaluation_batch(const std::string& program) const {
    const auto found = programs_.find(program);
    return found == programs_.end() ? 0 : found->second.batch;
  }

  /// Returns the names of the model's params and states, without states of the optimizer.
  const std::vector<std::string>& weights() const { return weights_; }
  pybind11::object Read(const std::string& name);
  /// Writes params and states by name. Checks all arrays before it writes the first one. bf16
  /// values may be given as float32.
  void Write(const std::map<std::string, pybind11::object>& arrays);
  ArenaValue View(const std::string& name);

  /// Sets the learning rates of all later steps. Before the first call, they are zero.
  void set_rate(const Rate& rate) { rate_ = rate; }
  /// Returns the learning rate of the next step.
  double rate() const { return RateAt(steps_ + 1); }
  double RateAt(int64_t step) const { return rate_.At(step); }

  /// Returns the names of the inputs of ParamGroups (StepInputs::of_groups).
  const std::vector<std::string>& group_inputs() const {
    return step_inputs_.others.of_groups();
  }
  /// Sets the values of the inputs group_inputs() for all later steps. Before the first call, they
  /// are zero.
  void set_group_values(const std::vector<double>& values) {
    group_values_ = values;
  }
  const std::vector<double>& group_values() const { return group_values_; }

  /// Loads weights from the file at `path` according to `rules` (runtime/weights.h).
  LoadedWeights LoadWeights(const std::string& path, const WeightRules& rules);
  void Save(const std::string& path);
  void SaveWeights(const std::string& path);
  int64_t Resume(const std::string& path);
  pybind11::bytes ToOnnx();

  /// Returns the notes that checkpoints of this trainer have.
  RunNotes Notes() const;
  uint64_t seed() const { return seed_; }
  /// Raises Closed if the trainer is closed, and Forked in a child of the process that created it.
  void CheckUsable() const;

  /// Returns run(training), which is called by WithoutGil (python/errors.h). Holds the lock, except
  /// during OutOfTurn. `run` must not throw.
  template <typename F>
  auto InRun(F&& run);
  /// Calls `f`, from `run` of InRun, with the GIL and without the lock, so `f` may call functions
  /// that acquire the lock, such as Evaluate and Save. `f` must not throw, since the lock would not
  /// be acquired again.
  template <typename F>
  void OutOfTurn(F&& f);

  /// UseAverages replaces params by their averages (AveragedWeights in train/state_backup.h), and
  /// RestoreParams restores them. In between, functions that change or save params and states raise
  /// InvalidArgument. UseAverages raises InvalidArgument if there are no averages, or if they are
  /// already in use.
  void UseAverages();
  void RestoreParams();
  /// Sets whether a run uses averages for an evaluation. The caller must hold the lock.
  void set_uses_averages(bool uses) { uses_averages_ = uses; }

  int64_t steps() const { return steps_; }
  /// Sets the number of executed steps, for example after loading the states of another program.
  void SetSteps(int64_t steps) { steps_ = steps; }
  Bytes arena_bytes();
  std::string device();
  const std::shared_ptr<PlannedTraining>& plan() const { return plan_; }
  /// Closes the trainer and releases its memory. Raises BufferError if views of the arena exist,
  /// and InvalidArgument during a run.
  void Close();
  bool is_closed() const { return training_ == nullptr; }

 private:
  struct ProgramInputs {
    std::vector<ProgramInput> inputs;  // supplied by the caller
    StepInputs others;
  };
  struct Beside {
    ProgramInputs inputs;
    int64_t batch = 0;
  };
  /// The purpose of locking. kSaves reads the params and states from which training continues, so
  /// it is not allowed while averages replace the params.
  enum class Turn : uint8_t { kReads, kSaves, kChanges };

  /// Calls f() without the GIL and with the lock held, and returns its result, or raises its error
  /// (as WithoutGil does). `f` must not throw. Raises Closed if another thread has closed the
  /// trainer. Raises InvalidArgument if `turn` is kChanges during a run, or is not kReads while
  /// averages replace the params.
  template <typename F>
  auto InTurn(Turn turn, F&& f);
  [[noreturn]] void RaiseNoTurn() const;
  Runner& RunnerOf(const std::string& program);
  static ProgramInputs FindInputs(const Graph& graph);
  static std::string ToText(const std::vector<ProgramInput>& inputs);

  std::shared_ptr<PlannedTraining> plan_;
  std::shared_ptr<Backend> backend_;
  // These two members change only while both the GIL and the lock are held. The arena is null for a
  // device with its own memory.
  std::shared_ptr<HostArena> arena_;
  std::unique_ptr<Training> training_;
  std::vector<std::string> weights_;
  ProgramInputs step_inputs_;
  std::map<std::string, Beside> programs_;  // other than the step
  uint64_t seed_;
  Rate rate_ = {};                    // guarded by the GIL
  std::vector<double> group_values_;  // guarded by the GIL
  std::atomic<int64_t> steps_ = 0;    // written with the lock held
  pid_t process_;
  std::mutex turn_;
  // Guarded by the lock.
  bool is_running_ = false;  // during InRun
  bool uses_averages_ = false;
  std::unique_ptr<AveragedWeights> averaged_;  // set by UseAverages
};

template <typename F>
auto Trainer::InTurn(Turn turn, F&& f) {
  bool has_turn = true;
  const auto in_turn = [&]() -> decltype(f()) {
    const std::lock_guard<std::mutex> lock(turn_);
    has_turn = !is_closed() && !(is_running_ && turn == Turn::kChanges) &&
               !(uses_averages_ && turn != Turn::kReads);
    if (!has_turn) return Error{ErrorCode::kInvalidArgument, {}};
    return f();
  };
  auto result = ResultWithoutGil(in_turn);
  if (!has_turn) RaiseNoTurn();
  return ValueOf(std::move(result));
}

template <typename F>
auto Trainer::InRun(F&& run) {
  return InTurn(Turn::kChanges, [&] {
    is_running_ = true;
    auto result = run(*training_);
    is_running_ = false;
    return result;
  });
}

template <typename F>
void Trainer::OutOfTurn(F&& f) {
  turn_.unlock();
  {
    pybind11::gil_scoped_acquire held;
    f();
  }
  turn_.lock();
}

/// Adds the Python classes Device, ArenaValue and Trainer to `module`.
void BindTrainers(pybind11::module_& module);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_TRAINERS_H_
