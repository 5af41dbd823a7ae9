#ifndef STOWAGE_RUNTIME_SESSION_H_
#define STOWAGE_RUNTIME_SESSION_H_

// Programs that run in one arena.
//
// A session holds the arena (the caller's bytes, or one aligned block that it allocates
// once), the host memory of the plans, and one or more programs over the same weights:
// train, eval, generate. The arena is as large as the largest of their plans. Weights and
// states are shared. Inputs, activations, outputs and caches of one program last until
// another program is stepped or given an input. A step whose inputs or caches are lost,
// or whose params or states were never given values, is refused. A cache survives if the
// other program also has it, by name, until a param or state is written. One thread at a
// time may use a session, and a backend that several sessions share.
//
// An asynchronous device need not wait for its caller: start a step while the previous
// one is still running.
//
//   Result<Session> session = Session::Create({{"train", step, plan}}, backend);
//   session->Initialize(/*seed=*/1);
//   Runner& train = session->front();
//   train.Write("x", images);  train.Write("y", labels);
//   train.Write("lr", 1e-3);  train.Write("step", 1);
//   train.Step();
//   Result<float> loss = train.ReadScalar("loss");
//
//   const uint64_t step = train.Start();           // and write the next batch
//   loss = train.ReadScalar("loss", step);         // waits for this step alone

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
  /// Bytes to use as the arena; empty: the session allocates them. Must be at least as
  /// large as the largest plan, aligned, of a kind that the backend supports, and outlive
  /// the session.
  std::span<std::byte> arena = {};
  /// Fills the arena with 0xFF (NaN) first and every slot again at its death, to reveal
  /// reads of dead bytes. For tests; slow.
  bool poison = false;
};

class Session;

/// One program of a session. Belongs to its session and moves with it.
class Runner {
 public:
  /// Copies `data` to the input, saved value, param, state or cache called `name`.
  /// Errors: no such leaf, or `data` does not have its type and exact size.
  template <typename T>
  Status Write(std::string_view name, std::span<const T> data) {
    return WriteBytes(name, DTypeOf<T>(), std::as_bytes(data));
  }
  template <typename T>
  Status Write(std::string_view name, const std::vector<T>& data) {
    return Write(name, std::span<const T>(data));
  }
  /// Writes a number to a leaf of one element, converted to its type: 3e-4 for an f32, 7
  /// for an i64. Errors: as for arrays; a number that the type cannot hold, such as 1e39
  /// for f32 and 0.5 for i64.
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
  /// Copies `data` to a part of a param or state, from byte `begin` on, so that a file's
  /// values can be loaded in small parts. The value counts as given with its last byte.
  /// Errors: no such param or state, or it does not have these bytes.
  Status WritePart(std::string_view name, DType dtype, Bytes begin,
                   std::span<const std::byte> data);

  /// Marks the values of a param or state as never given, in all programs: no step runs,
  /// and it cannot be read, until it is given values again or the session is initialized.
  /// Does nothing if no program has one of that name.
  void Forget(std::string_view name);

  /// Fills all caches with zeros, after which a step may run. Their previous contents,
  /// also for other programs, are lost. Error kDevice.
  Status ClearCaches();
  /// Returns whether all caches hold the contents left by steps since they were cleared
  /// or written, so that another step can continue from them.
  bool keeps_caches() const;

  /// Runs one step: Start, then Wait. Inputs keep their content from step to step, until
  /// another program is stepped or given an input.
  StepCode Step() noexcept;

  /// Runs one step, launch by launch: `seconds` receives the time of each node of the
  /// graph, including waiting for the device, and 0 for views. Preconditions: a number
  /// for every node; no poison. Allocates nothing, throws nothing.
  StepCode StepTimed(std::span<double> seconds) noexcept;

  /// Starts a step with the current inputs, and returns its number, which counts from 1.
  /// Returns before the step is done on an asynchronous device; waits for the step
  /// kStepsInFlight before it. Allocates nothing, throws nothing.
  uint64_t Start() noexcept;
  /// The number of started steps, including refused ones.
  uint64_t started() const;
  /// Waits for one of the last kStepsInFlight started steps, and not for later ones;
  /// returns how it ended. A step with an index out of range updates no param or state. A
  /// failed step does not stop those started after it. Allocates nothing, throws nothing.
  StepCode Wait(uint64_t step) noexcept;

  /// The failure of the last awaited step, as an error naming the node or input.
  Error Explain(StepCode code) const;

  /// Copies an output, input, param, state or cache to `data`, as of after all started
  /// steps. Errors: no such value, wrong type or size, a value that is dead by the end of
  /// the step, or one without content: no step has succeeded, an input was not written, a
  /// param or state was never given values, or another program has been used since.
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
  /// Copies a part of a param or state, from byte `begin` on, so that it can be saved in
  /// small parts. Errors as WritePart's; a value that was never given.
  Status ReadPart(std::string_view name, DType dtype, Bytes begin,
                  std::span<std::byte> data) const;
  /// A scalar output of type f32: the loss. Error as Read.
  Result<float> ReadScalar(std::string_view name) const;
  /// As above, for one of the last kStepsInFlight started steps, for which it waits,
  /// though not for later ones. Errors: no f32 output of one element has that name, or
  /// the step failed.
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
  /// Binds `programs` over one arena. Errors: no programs, two of one name, a plan that
  /// is not for its graph or breaks a law (ValidatePlan), programs that disagree on the
  /// address of a weight or state, or place different ones over each other, an op the
  /// backend lacks, a plan made without this backend's scratch or reserve, an arena that
  /// is too small, misaligned or of the wrong kind, or a failed allocation. `backend`
  /// must outlive the session.
  static Result<Session> Create(std::vector<SessionProgram> programs,
                                Backend& backend,
                                const SessionOptions& options = {});

  /// Fills params and states according to their Init. Each element is a function of only
  /// seed, the value's name and its index (Philox), so a param has the same initial
  /// values in every program, layout and backend. A device that fails here fails the next
  /// step.
  void Initialize(uint64_t seed);

  /// The program called `name`; null if there is none.
  Runner* Find(std::string_view name);
  /// The first program.
  Runner& front();

  /// Bytes of the arena in use: the largest plan's. Exactly the allocated bytes if the
  /// session allocated it.
  Bytes arena_bytes() const;
  /// Bytes of host memory, allocated with the arena.
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
