#ifndef STOWAGE_PYTHON_TRAINERS_H_
#define STOWAGE_PYTHON_TRAINERS_H_

// A training at work, as a Trainer of Python holds it. Beside train/training.h it knows
// what a process of Python's may do to it: call it from several threads, which take
// turns; fork, after which the child is refused and takes nothing apart, since threads do not
// live on there; hold views of the arena, whose bytes stay for as long as there are any.
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
#include "python/evaluation_parts.h"
#include "python/plans.h"
#include "runtime/backend.h"
#include "runtime/checkpoint_file.h"
#include "runtime/weights.h"
#include "train/state_backup.h"
#include "train/training.h"

namespace stowage::python {

/// An open device, and why it was chosen.
struct Device {
  std::shared_ptr<Backend> backend;  // left alone in a forked child
  std::string why;
};

/// The memory of a session's programs, in the host's own.
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

/// A param or state where it lies. While there is one, its trainer cannot be closed.
struct ArenaValue {
  std::shared_ptr<HostArena> arena;
  TensorType type;
  std::span<std::byte> data;
};

/// The learning rate of every step of a run.
struct Rate {
  LearningRateSchedule schedule;
  int64_t steps = 1;

  double At(int64_t step) const { return schedule.At(step, steps); }
};

class Trainer {
 public:
  /// Raises what Training::Open refuses. Params and states are as `seed` says, or as the
  /// model's file has them.
  Trainer(std::shared_ptr<PlannedTraining> plan, const Device& device,
          uint64_t seed);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer();

  /// One step on the inputs, in their order or by name; its loss. Raises InvalidArgument
  /// for one that is missing or that there is not, and what ArrayView::CheckIs does.
  float Step(const pybind11::args& inputs, const pybind11::kwargs& named);
  /// A run of "evaluate" or "validate", a program beside the step; its outputs by name.
  pybind11::dict Evaluate(const std::string& program,
                          const std::vector<pybind11::object>& inputs);
  /// EvaluationParts (python/evaluation_parts.h) of such a program.
  pybind11::tuple EvaluationPartsOf(const std::string& program,
                                    bool is_partial);
  /// The inputs that a caller gives to a program: of each its name, the type of its
  /// elements and its dimensions.
  pybind11::list InputsOf(const std::string& program);
  /// The same of the step itself.
  const std::vector<ProgramInput>& step_inputs() const {
    return step_inputs_.inputs;
  }
  /// Of the labels of "validate" (ClassesOf, train/evaluation.h).
  std::optional<int64_t> Classes();
  /// ExampleAxes of the step's inputs.
  std::vector<int64_t> StepAxes() const {
    const TrainingSpec& spec = plan_->spec();
    return ExampleAxes(spec.model, spec.batch, step_inputs_.inputs);
  }
  /// Examples at a time that the program takes; 0 where there is no such program.
  int64_t evaluation_batch(const std::string& program) const {
    const auto found = programs_.find(program);
    return found == programs_.end() ? 0 : found->second.batch;
  }

  /// Names of the model's own params and states: none of the optimizer's.
  const std::vector<std::string>& weights() const { return weights_; }
  pybind11::object Read(const std::string& name);
  /// Params and states by their names, once all of them are known to fit.
  void Write(const std::map<std::string, pybind11::object>& arrays);
  ArenaValue View(const std::string& name);

  /// Of the steps that begin from now on; zero before it is set.
  void set_rate(const Rate& rate) { rate_ = rate; }
  /// Of the next step.
  double rate() const { return RateAt(steps_ + 1); }
  double RateAt(int64_t step) const { return rate_.At(step); }

  /// What the file at `path` has of the weights, by the rules.
  LoadedWeights LoadWeights(const std::string& path, const WeightRules& rules);
  void Save(const std::string& path);
  void SaveWeights(const std::string& path);
  int64_t Resume(const std::string& path);
  pybind11::bytes ToOnnx();

  /// What checkpoints note of this.
  RunNotes Notes() const;
  uint64_t seed() const { return seed_; }
  /// Raises Closed, or Forked in a child of the process that made this.
  void CheckUsable() const;

  /// What `run` returns of the training, a Result, as WithoutGil has it, in one turn, in
  /// which no other thread changes anything. The turn is given away in OutOfTurn alone.
  template <typename F>
  auto InRun(F&& run);
  /// Calls `f` in a run with the GIL and out of the run's turn, so that `f` may call what
  /// takes one, such as Evaluate and Save.
  template <typename F>
  void OutOfTurn(F&& f);

  /// Gives params the values of their averages (train/state_backup.h), and their own
  /// again. Meanwhile nothing changes params, and no checkpoint is saved. Raises
  /// InvalidArgument where there are no averages, or where they are used already.
  void UseAverages();
  void RestoreParams();
  /// That a run does so for its evaluation; in a turn.
  void set_uses_averages(bool uses) { uses_averages_ = uses; }

  int64_t steps() const { return steps_; }
  /// That so many were made before, by another program whose states this begins with.
  void SetSteps(int64_t steps) { steps_ = steps; }
  Bytes arena_bytes();
  std::string device();
  const std::shared_ptr<PlannedTraining>& plan() const { return plan_; }
  /// Raises BufferError where views of the arena are alive.
  void Close();
  bool is_closed() const { return training_ == nullptr; }

 private:
  struct ProgramInputs {
    std::vector<ProgramInput> inputs;  // that a caller gives
    StepInputs others;
  };
  struct Beside {
    ProgramInputs inputs;
    int64_t batch = 0;
  };
  /// What is done in a turn: kSaves reads what the next step is to go on from.
  enum class Turn : uint8_t { kReads, kSaves, kChanges };

  /// What `f` returns, a Result, as WithoutGil has it, in this thread's turn. Raises
  /// Closed where another thread's close came before, and InvalidArgument where `f`
  /// changes what a run under way does, or saves averages as if they were params.
  template <typename F>
  auto InTurn(Turn turn, F&& f);
  [[noreturn]] void RaiseNoTurn() const;
  Runner& RunnerOf(const std::string& program);
  static ProgramInputs FindInputs(const Graph& graph);
  static std::string ToText(const std::vector<ProgramInput>& inputs);

  std::shared_ptr<PlannedTraining> plan_;
  std::shared_ptr<Backend> backend_;
  // These two change only where the GIL and the turn are both held. The first is null on
  // a device of its own memory.
  std::shared_ptr<HostArena> arena_;
  std::unique_ptr<Training> training_;
  std::vector<std::string> weights_;
  ProgramInputs step_inputs_;
  std::map<std::string, Beside> programs_;  // beside the step
  uint64_t seed_;
  Rate rate_ = {};  // changes, and is looked at, under the GIL alone
  std::atomic<int64_t> steps_ = 0;  // changes in a turn; looked at without one
  pid_t process_;
  std::mutex turn_;
  // These change in turns.
  bool is_running_ = false;  // InRun
  bool uses_averages_ = false;
  std::unique_ptr<AveragedWeights> averaged_;  // of UseAverages
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

/// Adds the classes Device, ArenaValue and Trainer.
void BindTrainers(pybind11::module_& module);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_TRAINERS_H_
