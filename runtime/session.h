#ifndef STOWAGE_RUNTIME_SESSION_H_
#define STOWAGE_RUNTIME_SESSION_H_

// Runs one or more programs in one arena.
//
// A session holds the arena, the host memory of the plans, and one or more programs over the
// same weights, such as train, eval and generate. The arena is memory of the caller, or one
// aligned block that the session allocates once. It is as large as the largest plan. Weights
// and states are shared.
//
// The inputs, activations, outputs and caches of a program last until another program is
// stepped or given an input. A step is refused if its inputs or caches are lost, or if its
// params or states have never been set. A cache survives if the other program has a cache of
// the same name, until a param or state is written.
//
// Only one thread at a time may use a session, or a backend that several sessions share.
//
// An asynchronous device can run ahead of its caller. Start a step while the previous step is
// still running.
//
//   Result<Session> session = Session::Create({{"train", step, plan}}, backend);
//   session->Initialize(/*seed=*/1);
//   Runner& train = session->front();
//   train.Write("x", images);  train.Write("y", labels);
//   train.Write("lr", 1e-3);  train.Write("step", 1);
//   train.Step();
//   Result<float> loss = train.ReadScalar("loss");
//
//   const uint64_t step = train.Start();           // Then write the next batch.
//   loss = train.ReadScalar("loss", step);         // Waits only for this step.

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
  /// The memory to use as the arena. If empty, the session allocates it. It must be at least as
  /// large as the largest plan, aligned, of a kind that the backend supports, and must outlive
  /// the session.
  std::span<std::byte> arena = {};
  /// If true, fills the arena with 0xFF (NaN) first, and each slot when it dies, to reveal
  /// reads of dead bytes. This is slow and intended for tests.
  bool poison = false;
};

class Session;

/// One program of a session. Belongs to its session and moves with it.
class Runner {
 public:
  /// Copies `data` to the input, saved value, param, state or cache called `name`. Returns an
  /// error if there is no such leaf, or `data` does not have its type and exact size.
  template <typename T>
  Status Write(std::string_view name, std::span<const T> data) {
    return WriteBytes(name, DTypeOf<T>(), std::as_bytes(data));
  }
  template <typename T>
  Status Write(std::string_view name, const std::vector<T>& data) {
    return Write(name, std::span<const T>(data));
  }
  /// Writes a number to a leaf of one element, converted to the leaf's type, such as 3e-4 for
  /// an f32 or 7 for an i64. Returns the errors of Write for arrays, and an error if the type
  /// cannot hold the number, such as 1e39 for f32 or 0.5 for i64.
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
  Status WriteBytes(std::string_view name, DType dtype,
                    std::span<const std::byte> data);
  /// Copies `data` to a range of a param or state that starts at byte `begin`. The values of a
  /// file can thus be loaded in small parts. Writing the last byte marks the value as set.
  /// Returns an error if there is no such param or state, or it does not have these bytes.
  Status WritePart(std::string_view name, DType dtype, Bytes begin,
                   std::span<const std::byte> data);

  /// Marks a param or state as not set, in all programs. It cannot be read, and no step runs,
  /// until it is written or the session is initialized. Does nothing if no program has a param
  /// or state of this name.
  void Forget(std::string_view name);

  /// Fills all caches with zeros, after which a step may run. Their previous contents are lost,
  /// also for other programs. Returns kDevice if the device fails.
  Status ClearCaches();
  /// Returns whether all caches hold the contents of steps since they were cleared or written.
  /// Another step can then continue from them.
  bool keeps_caches() const;

  /// Runs one step with Start and Wait. Inputs keep their content from step to step, until
  /// another program is stepped or given an input. Saved values must be written before each
  /// step.
  StepCode Step() noexcept;

  /// Runs one step, launch by launch, and writes the time of each node of the graph to
  /// `seconds`. The time includes waiting for the device, and is 0 for views. `seconds` must
  /// have one element per node. The session must not poison. Allocates nothing and throws
  /// nothing.
  StepCode StepTimed(std::span<double> seconds) noexcept;

  /// Starts a step with the current inputs. Returns its number, which counts from 1. On an
  /// asynchronous device, returns before the step is done, but waits for the step that was
  /// started kStepsInFlight steps earlier. Allocates nothing and throws nothing.
  uint64_t Start() noexcept;
  /// Returns the number of started steps, including refused steps.
  uint64_t started() const;
  /// Waits for one of the last kStepsInFlight started steps, but not for later steps. Returns
  /// its outcome. A step with an index out of range updates no param or state. A failed step
  /// does not stop the steps that were started after it. Allocates nothing and throws nothing.
  StepCode Wait(uint64_t step) noexcept;

  /// Returns an error that describes the failure of the last awaited step and names the node or
  /// input.
  Error Explain(StepCode code) const;

  /// Copies an output, input, param, state or cache to `data`, after all started steps. Returns
  /// an error if there is no such value, its type or size differs, it is dead at the end of the
  /// step, or it has no content. A value has no content if no step has succeeded, its input was
  /// not written, its param or state was never set, or another program has been used since.
  template <typename T>
  Status Read(std::string_view name, std::span<T> data) const {
    return ReadBytes(name, DTypeOf<T>(), std::as_writable_bytes(data));
  }
  template <typename T>
  Status Read(std::string_view name, std::vector<T>* data) const {
    return Read(name, std::span<T>(*data));
  }
  Status ReadBytes(std::string_view name, DType dtype,
                   std::span<std::byte> data) const;
  /// Copies the range of a param or state that starts at byte `begin` to `data`. A value can
  /// thus be saved in small parts. Returns the errors of WritePart, and an error if the value
  /// was never set.
  Status ReadPart(std::string_view name, DType dtype, Bytes begin,
                  std::span<std::byte> data) const;
  /// Returns a scalar output of type f32, such as the loss. Propagates errors of Read.
  Result<float> ReadScalar(std::string_view name) const;
  /// Returns a scalar output of one of the last kStepsInFlight started steps. Waits for this
  /// step, but not for later steps. Returns an error if no f32 output of one element has this
  /// name, or the step failed.
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
  /// Binds `programs` over one arena. Propagates errors of CheckPrograms. Returns an error if
  /// the arena is too small, misaligned or of the wrong kind, or if an allocation fails.
  /// `backend` must outlive the session.
  static Result<Session> Create(std::vector<SessionProgram> programs,
                                Backend& backend,
                                const SessionOptions& options = {});

  /// Fills params and states according to their Init. Each element is a function of only the
  /// seed, the value's name and the element's index (Philox). A param therefore has the same
  /// initial values in every program, layout and backend. If the device fails here, the next
  /// step fails.
  void Initialize(uint64_t seed);

  /// Returns the program called `name`, or null if there is none.
  Runner* Find(std::string_view name);
  /// Returns the first program.
  Runner& front();

  /// Returns the number of bytes of the arena in use, which is the size of the largest plan. If
  /// the session allocated the arena, this is exactly its allocated size.
  Bytes arena_bytes() const;
  /// Returns the size of host memory, which is allocated with the arena.
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
