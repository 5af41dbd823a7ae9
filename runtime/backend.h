#ifndef STOWAGE_RUNTIME_BACKEND_H_
#define STOWAGE_RUNTIME_BACKEND_H_

// What a device must offer: memory, copies, the scratch its kernels need, and a
// way to run a bound program. The CPU backend (cpu/cpu_backend.h) is always
// there; gpu/gpu_backend.h is another.
//
//   Plan plan = *PlanMemory(step, {.device = backend.Needs()});
//   Session session = *Session::Create({{"train", step, plan}}, backend);

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "planner/lifetimes.h"
#include "runtime/kernel.h"
#include "runtime/program.h"

namespace stowage {

/// The most steps of one program that may be started and not yet done, and of
/// how many the results are kept.
inline constexpr uint64_t kStepsInFlight = 4;

/// A program bound to a device: kernels chosen, addresses fixed.
class Executable {
 public:
  virtual ~Executable() = default;

  /// Runs launches [first, last) of the program in order and waits for them; a
  /// range from 0 takes the inputs as they were written last. Allocates nothing,
  /// throws nothing. On failure *failed is the launch's index; the number of
  /// launches, where none is to blame.
  virtual StepCode Run(size_t first, size_t last, size_t* failed) noexcept = 0;

  /// Runs launch `index` alone; where it has bodies, and the device can, fills with
  /// `poison` what dies in them, once it is dead. For sessions that poison.
  virtual StepCode RunPoisoned(size_t index, uint8_t /*poison*/,
                               size_t* failed) noexcept {
    return Run(index, index + 1, failed);
  }

  /// Starts all launches, as step `step`, and returns before they are done.
  /// False, with nothing done, where the device works only while it is waited
  /// for: then use Run. The step kStepsInFlight before it must be done.
  /// Allocates nothing, throws nothing.
  virtual bool Start(uint64_t) noexcept { return false; }
  /// Waits for a step that Start started, one of the last kStepsInFlight, and
  /// not for those after it. `scalars` receives Program::scalars(). *failed as
  /// in Run. Allocates nothing, throws nothing.
  virtual StepCode Wait(uint64_t /*step*/, std::span<float> /*scalars*/,
                        size_t* /*failed*/) noexcept {
    return StepCode::kStepUnknown;
  }

  // An input's content for the steps that are started from now on, as large as
  // its type says. No allocation.
  virtual void WriteInput(ValueId input, std::span<const std::byte> data) = 0;
  virtual void ReadInput(ValueId input, std::span<std::byte> data) const = 0;

  /// What the device said of a kDeviceFault.
  virtual std::string fault() const { return {}; }
};

/// Memory that a backend takes beside the arena.
struct MemoryNote {
  std::string what;
  Bytes bytes = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  /// The name, and what else a user may want to know of the device.
  virtual std::string description() const { return std::string(name()); }

  /// Whether Executable::Start returns before the step is done.
  virtual bool works_on_its_own() const { return false; }

  /// Scratch bytes of the kernel for `node`; what the plan must be made with.
  virtual Bytes Workspace(const Graph& graph, const Node& node) const = 0;

  /// Bytes in the arena that the backend keeps beside the values of `graph`,
  /// for slots of `alignment`; the plan must be made with them, too.
  virtual Bytes Reserve(const Graph&, Bytes /*alignment*/) const { return 0; }
  /// What the kernels do in one node.
  virtual Fusions FusesOps() const { return {}; }
  /// All of these, for PlanOptions::device. Not to be called once this is gone.
  DeviceNeeds Needs() const {
    return {.workspace =
                [this](const Graph& graph, const Node& node) {
                  return Workspace(graph, node);
                },
            .reserve =
                [this](const Graph& graph, Bytes alignment) {
                  return Reserve(graph, alignment);
                },
            .fusions = FusesOps()};
  }

  /// Error kUnsupported naming the first node this backend has no kernel for.
  virtual Status Supports(const Graph& graph) const = 0;

  /// Error kDevice when an arena of `budget` bytes can never be had.
  virtual Status CheckBudget(Bytes /*budget*/) const { return {}; }
  /// Error kInvalidArgument when the caller's bytes cannot be the arena.
  virtual Status CheckArena(std::span<std::byte>) const { return {}; }

  /// One block of at least `bytes` bytes at a multiple of `alignment`. Error
  /// kDevice when it cannot be had. Release with Free.
  virtual Result<std::byte*> Allocate(Bytes bytes, Bytes alignment) = 0;
  virtual void Free(std::byte* block, Bytes bytes,
                    Bytes alignment) noexcept = 0;

  /// The same, of memory of the host that kernels of fetch and stash copy from
  /// and to, and the caller reads and writes. Release with FreeHost.
  virtual Result<std::byte*> AllocateHost(Bytes bytes, Bytes alignment) = 0;
  virtual void FreeHost(std::byte* block, Bytes bytes,
                        Bytes alignment) noexcept = 0;

  // Between the caller's memory and the device's, after all steps that were
  // started; no allocation. Error kDevice.
  virtual Status CopyIn(std::byte* device, std::span<const std::byte> host) = 0;
  virtual Status CopyOut(std::span<std::byte> host,
                         const std::byte* device) = 0;
  virtual Status FillBytes(std::byte* device, Bytes bytes, uint8_t value) = 0;

  /// `program` must outlive the executable.
  virtual Result<std::unique_ptr<Executable>> Bind(const Program& program) = 0;

  /// What it takes beside arenas, measured now.
  virtual std::vector<MemoryNote> MemoryBesideArena() const { return {}; }
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_BACKEND_H_
