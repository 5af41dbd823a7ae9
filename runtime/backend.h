#ifndef STOWAGE_RUNTIME_BACKEND_H_
#define STOWAGE_RUNTIME_BACKEND_H_

// What a device must offer: memory, copies, the scratch its kernels need, and a
// way to run a bound program. The CPU backend (cpu/cpu_backend.h) is always
// there; gpu/gpu_backend.h is another.
//
//   Plan plan = *PlanMemory(step, {.device = backend.Needs()});
//   Session session = *Session::Create({{"train", step, plan}}, backend);

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/dtype.h"
#include "planner/lifetimes.h"
#include "runtime/kernel.h"
#include "runtime/program.h"

namespace stowage {

// What the kernels of collective ops ask of whoever joins the ranks of a step: threads
// of one process, MPI, another network.
//
// Every rank makes the same calls in the same order. What is split among ranks is split
// into blocks of one size, one a rank, in order; the last ones are shorter, or empty,
// where that does not come out even.
//
//   if (!collectives.AllReduce(DType::kF32, gradient, scratch)) {
//     return StepCode::kRankLost;
//   }

/// Implementations allocate nothing once they are made. Calls come one at a time, from
/// threads that may differ. A call that returns false has lost a rank or its link: none
/// after it need do better. Scratch is as large as CollectiveScratch says, and aligned to
/// 64 bytes.
class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// Sums over ranks, in place, in rank order: ((v0 + v1) + v2) + ..., each sum rounded
  /// to the type, so that every run has the same bits, and they are those of one rank
  /// that takes as many micro-batches one after the other. For floats, i32 and i64.
  virtual bool AllReduce(DType dtype, std::span<std::byte> values,
                         std::span<std::byte> scratch) noexcept = 0;

  /// The same sums, of which this rank gets its block alone, at the front of `block`,
  /// whose size is that of a whole one and at least that of the values over ranks. It is
  /// left as it was behind a shorter one.
  virtual bool ReduceScatter(DType dtype, std::span<const std::byte> values,
                             std::span<std::byte> block,
                             std::span<std::byte> scratch) noexcept = 0;

  /// `values` become what the ranks have in their blocks; `block.size()` bytes are a
  /// whole one, so that rank r's part of `values` begins at byte r * block.size(). The
  /// two do not overlap.
  virtual bool AllGather(std::span<const std::byte> block,
                         std::span<std::byte> values) noexcept = 0;
};

/// Scratch of AllReduce for `bytes` bytes of values, and of ReduceScatter for blocks that
/// have so many bytes together: a chunk of every other rank's, of a block or of 256 KiB
/// where that is less, each in whole lines of 64 bytes.
inline Bytes CollectiveScratch(Bytes bytes, int64_t ranks) {
  constexpr Bytes kMaxChunk = Bytes{256} << 10;
  const Bytes block = (bytes + ranks - 1) / ranks;
  const Bytes chunk = (std::min(block, kMaxChunk) + 63) / 64 * 64;
  return (ranks - 1) * chunk;
}

// The ranks of a step that has one: every sum is what it sums, every block the whole.
//
//   OneRank alone;
//   alone.AllGather(block, values);  // a copy

class OneRank final : public Collectives {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 1; }

  bool AllReduce(DType, std::span<std::byte>,
                 std::span<std::byte>) noexcept override {
    return true;
  }
  bool ReduceScatter(DType, std::span<const std::byte> values,
                     std::span<std::byte> block,
                     std::span<std::byte>) noexcept override {
    return AllGather(values, block);
  }
  bool AllGather(std::span<const std::byte> block,
                 std::span<std::byte> values) noexcept override {
    if (!values.empty())
      std::memcpy(values.data(), block.data(), values.size());
    return true;
  }
};

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
  /// The name, and what else scratch depends on: DeviceNeeds::device.
  virtual std::string planned_for() const { return std::string(name()); }

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
            .fusions = FusesOps(),
            .device = planned_for()};
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

  /// The same, of memory of the host that kernels of reload and offload copy from
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
