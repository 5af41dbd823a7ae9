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
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/schedule.h"
#include "python/plans.h"
#include "runtime/backend.h"
#include "runtime/weights.h"
#include "train/step_inputs.h"
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
  /// A run of the program called "evaluate"; its outputs by name.
  pybind11::dict Evaluate(const std::vector<pybind11::object>& inputs);
  /// How an output of all examples follows from those of several evaluations: by name
  /// ("examples", "sum", "mean", "max", "same", or a reason why it does not; the axis of
  /// the examples; how often they come in it; with `is_partial`, where one of the batches
  /// is to have fewer examples, why it must not, or ""). And of each input the axis that
  /// its examples are along; -1: it has none.
  pybind11::tuple EvaluationParts(bool is_partial);
  /// The inputs that a caller gives to a program: of each its name, the type of its
  /// elements and its dimensions.
  pybind11::list InputsOf(const std::string& program);
  /// Examples at a time that "evaluate" takes; 0 where there is no such program.
  int64_t evaluation_batch() const { return evaluation_batch_; }

  /// Names of the model's own params and states: none of the optimizer's.
  const std::vector<std::string>& weights() const { return weights_; }
  pybind11::object Read(const std::string& name);
  /// Params and states by their names, once all of them are known to fit.
  void Write(const std::map<std::string, pybind11::object>& arrays);
  ArenaValue View(const std::string& name);

  /// Of the steps that begin from now on; zero before it is set.
  void set_rate(const Rate& rate) { rate_ = rate; }
  /// Of the next step.
  double rate() const { return rate_.At(steps_ + 1); }

  /// What the file at `path` has of the weights, by the rules.
  LoadedWeights LoadWeights(const std::string& path, const WeightRules& rules);
  void Save(const std::string& path);
  void SaveWeights(const std::string& path);
  int64_t Resume(const std::string& path);
  pybind11::bytes ToOnnx();

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
  struct Input {
    std::string name;
    TensorType type;
  };
  struct ProgramInputs {
    std::vector<Input> inputs;  // that a caller gives
    StepInputs others;
  };

  void CheckUsable() const;
  /// What `f` returns, a Result, as WithoutGil has it, in this thread's turn. Raises
  /// Closed where another thread's close came before.
  template <typename F>
  auto InTurn(F&& f);
  Runner& RunnerOf(const std::string& program);
  static ProgramInputs FindInputs(const Graph& graph);
  static std::string ToText(const std::vector<Input>& inputs);

  std::shared_ptr<PlannedTraining> plan_;
  std::shared_ptr<Backend> backend_;
  // These two change only where the GIL and the turn are both held. The first is null on
  // a device of its own memory.
  std::shared_ptr<HostArena> arena_;
  std::unique_ptr<Training> training_;
  std::vector<std::string> weights_;
  ProgramInputs step_inputs_, evaluation_inputs_;
  int64_t evaluation_batch_ = 0;
  uint64_t seed_;
  Rate rate_ = {};  // changes, and is looked at, under the GIL alone
  std::atomic<int64_t> steps_ = 0;  // changes in a turn; looked at without one
  pid_t process_;
  std::mutex turn_;
};

/// Adds the classes Device, ArenaValue and Trainer.
void BindTrainers(pybind11::module_& module);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_TRAINERS_H_
