#ifndef STOWAGE_RUNTIME_SESSION_H_
#define STOWAGE_RUNTIME_SESSION_H_

// Runs one or more programs in one arena.
//
// A session contains the arena, the host memory of the plans, and one or more programs with the
// same weights, such as train, eval and generate. The arena is memory of the caller, or one aligned
// block that the session allocates once. It is as large as the largest plan. The programs share
// weights and states.
//
// The programs also share the rest of the arena. The inputs, activations, outputs and caches of a
// program are therefore lost when another program is stepped or given an input. A cache is not lost
// if the other program has a cache of the same name. However, the contents of all caches are lost
// when a param or state is written. A step is refused if its inputs or caches are lost, or if its
// params or states have never been set.
//
// Only one thread at a time may use a session, or a backend that several sessions share.
//
// An asynchronous device runs while the caller prepares the next step. The caller can start a step
// while the previous step is still running.
//
//   Result<Session> session = Session::Create({{"train", step, plan}}, backend);
//   session->Initialize(/*seed=*/1);
//   Runner& train = session->front();
//   train.Write("x", images);  train.Write("y", labels);
//   train.Write("lr", 1e-3);  train.Write("step", 1);
//   train.Step();
//   Result<float> loss = train.ReadScalar("loss");
//
//   const uint64_t step = train.Start();           // The next batch can now be written.
//   loss = train.ReadScalar("loss", step);         // Waits for this step, not for later ones.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "runtime/backend.h"
#include "runtime/program.h"
#include "runtime/program.h"  // IWYU pragma: export

namespace stowage {

struct SessionOptions {
  /// The memory to use as the arena. If empty, the session allocates the arena. The memory must be
  /// at least as large as the largest plan, aligned as the plans require, of a kind that the
  /// backend supports (Backend::CheckArena), and must outlive the session.
  std::span<std::byte> arena = {};
  /// If true, the session poisons: it fills the arena and host memory with 0xFF (NaN) first, and
  /// each slot when it dies, to reveal reads of dead bytes. This is slow and intended for tests.
  bool poison = false;
};

class Session;

/// One program of a session, which owns the Runner. Pointers to it remain valid when the session is
/// moved. Unless stated otherwise, errors are kInvalidArgument, or kDevice if the device fails.
class Runner {
 public:
  /// Copies `data` to the input, saved value, param, state or cache called `name`. Returns an
  /// error if there is no such leaf, or if `data` does not have its type and exact size.
  template <typename T>
  Status Write(std::string_view name, std::span<const T> data) {
    return WriteBytes(name, DTypeOf<T>(), std::as_bytes(data));
  }
  template <typename T>
  Status Write(std::string_view name, const std::vector<T>& data) {
    return Write(name, std::span<const T>(data));
  }
  /// Writes a number to a leaf of one element, such as 3e-4 to an f32 or 7 to an i64. Converts the
  /// number to the leaf's type. Returns the errors of Write for arrays, and an error if the type
  /// cannot represent the number, such as 1e39 for f32 or 0.5 for i64. Floats may be rounded.
  template <typename T>
  requires std::is_arithmetic_v<T> Status Write(std::string_view name,
                                                T value) {
    if constexpr (std::is_floating_point_v<T>) {
      return WriteReal(name, static_cast<double>(value));
    } else {
      return WriteWhole(name, static_cast<int64_t>(value),
                        std::in_range<int64_t>(value));
    }
  }
  /// Like Write, for data of type `dtype` as bytes.
  Status WriteBytes(std::string_view name, DType dtype,
                    std::span<const std::byte> data);
  /// Copies `data` to the range of a param or state that starts at byte `begin`. The values of a
  /// file can thus be loaded in small parts. A write up to the end of the value marks the value as
  /// set, so this part must be written last. Returns an error if there is no such param or state,
  /// or if it does not have this type and these bytes.
  Status WritePart(std::string_view name, DType dtype, Bytes begin,
                   std::span<const std::byte> data);

  /// Marks a param or state as not set, in all programs. Until it is written or the session is
  /// initialized, it cannot be read, and programs that have it refuse to step. The contents of all
  /// caches are lost. Does nothing else if no program has a param or state of this name.
  void Forget(std::string_view name);

  /// Fills all caches of this program with zeros, so that a step can run. The previous contents of
  /// the caches are lost, also for other programs. Returns kDevice if the device fails.
  Status ClearCaches();
  /// Returns whether no cache of this program has lost its contents since it was cleared or
  /// written. If so, a step can continue from the contents.
  bool keeps_caches() const;

  /// Runs one step by Start and Wait. Inputs keep their content from step to step, until
  /// another program is stepped or given an input. Saved values must be written before each
  /// step.
  StepCode Step() noexcept;

  /// Runs one step, launch by launch, and writes the time of each node of the graph to
  /// `seconds`. The time includes waiting for the device, and is 0 for views. `seconds` must
  /// have one element per node. The session must not poison (SessionOptions::poison). Allocates
  /// nothing and throws nothing.
  StepCode StepTimed(std::span<double> seconds) noexcept;

  /// Starts a step with the current inputs. Returns the number of the step. The first step of the
  /// program has number 1. On an asynchronous device, returns before the step is done, but waits
  /// for the step that was started kStepsInFlight steps earlier. Allocates nothing and throws
  /// nothing.
  uint64_t Start() noexcept;
  /// Returns the number of started steps, including refused steps.
  uint64_t started() const;
  /// Waits for step `step` and returns its outcome. Does not wait for later steps. Returns
  /// kStepUnknown unless it is one of the last kStepsInFlight started steps. A step with an index
  /// out of range updates no param or state. A failed step does not stop the steps that were
  /// started after it. Allocates nothing and throws nothing.
  StepCode Wait(uint64_t step) noexcept;

  /// Returns an error that describes `code`, the outcome of the step that was last waited for, and
  /// names the node or input that caused it.
  Error Explain(StepCode code) const;

  /// Waits for all started steps and copies an output, input, param, state or cache to `data`.
  /// Returns an error if there is no such value, if its type or size differs, if it is dead at the
  /// end of the step, or if it has no content. A param or state has no content if it was never set.
  /// Another value has no content if the last step of the program failed, or another program has
  /// been used since, unless it is an input or cache that has been written.
  template <typename T>
  Status Read(std::string_view name, std::span<T> data) const {
    return ReadBytes(name, DTypeOf<T>(), std::as_writable_bytes(data));
  }
  template <typename T>
  Status Read(std::string_view name, std::vector<T>* data) const {
    return Read(name, std::span<T>(*data));
  }
  /// Like Read, for data of type `dtype` as bytes.
  Status ReadBytes(std::string_view name, DType dtype,
                   std::span<std::byte> data) const;
  /// Waits for all started steps and copies the range of a param or state that starts at byte
  /// `begin` to `data`. A value can thus be saved in small parts. Returns the errors of WritePart,
  /// and an error if the value was never set.
  Status ReadPart(std::string_view name, DType dtype, Bytes begin,
                  std::span<std::byte> data) const;
  /// Returns a scalar output of type f32, such as the loss. Propagates errors of Read.
  Result<float> ReadScalar(std::string_view name) const;
  /// Returns a scalar output of step `step`. Waits for this step, but not for later steps. Returns
  /// an error if no f32 output of one element has this name, or if `step` is not one of the last
  /// kStepsInFlight started steps. Returns the error of Explain if the step failed.
  Result<float> ReadScalar(std::string_view name, uint64_t step) const;

  const std::string& name() const;
  const Graph& graph() const;
  const Plan& plan() const;

 private:
  friend class Session;
  struct State;
  explicit Runner(std::unique_ptr<State> state);
  Status WriteReal(std::string_view name, double number);
  Status WriteWhole(std::string_view name, int64_t number, bool fits);
  Status WriteElement(std::string_view name, double real,
                      std::optional<int64_t> whole);
  std::unique_ptr<State> state_;

 public:
  Runner(Runner&&) noexcept;
  Runner& operator=(Runner&&) noexcept;
  ~Runner();
};

class Session {
 public:
  /// Creates a session of `programs` in one arena. `backend` must outlive the session. Propagates
  /// errors of CheckPrograms and of Backend::Bind. Returns kInvalidArgument if `options.arena` is
  /// too small, misaligned or of the wrong kind, and kDevice if an allocation fails.
  static Result<Session> Create(std::vector<SessionProgram> programs,
                                Backend& backend,
                                const SessionOptions& options = {});

  /// Sets all params and states to their initial values (ValueInfo::init). Each element is a
  /// function of only the seed, the value's name and the element's index (Philox). A param
  /// therefore has the same initial values in every program, layout and backend. If the device
  /// fails during this call, the next step returns the failure.
  void Initialize(uint64_t seed);

  /// Returns the program called `name`, or null if there is none.
  Runner* Find(std::string_view name);
  /// Returns the first program.
  Runner& front();

  /// Returns the number of bytes of the arena that the programs use, which is the arena size of the
  /// largest plan. If the session allocated the arena, the arena has this size.
  Bytes arena_bytes() const;
  /// Returns the size of the host memory that the session has allocated.
  Bytes host_bytes() const;
  Backend& backend() const;

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

 private:
  friend class Runner;
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_SESSION_H_
