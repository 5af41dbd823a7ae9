#ifndef STOWAGE_RUNTIME_BACKEND_H_
#define STOWAGE_RUNTIME_BACKEND_H_

// The interface of a device: memory, copies, the workspace its kernels need, and
// execution of a bound program. The CPU backend (cpu/cpu_backend.h) always exists;
// gpu/gpu_backend.h is another.
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
#include "ir/tensor_type.h"
#include "planner/lifetimes.h"
#include "runtime/kernel.h"
#include "runtime/program.h"

namespace stowage {

// Collectives between the ranks of a step, for the kernels of collective ops: implemented
// by threads of one process, MPI, another network.
//
// Every rank makes the same calls in the same order. A value is split among ranks into
// equal blocks, one per rank, in order; the last ones are shorter, or empty, if it does
// not divide evenly.
//
//   if (!collectives.AllReduce(DType::kF32, gradient, scratch)) {
//     return StepCode::kRankLost;
//   }

/// Implementations allocate nothing once they are constructed. Calls come one at a time,
/// from threads that may differ. A call returns false if a rank or its link is lost; all
/// later calls may then fail. Scratch has the size of CollectiveScratch, and is aligned
/// to 64 bytes.
class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// Sums over ranks, in place, in rank order: ((v0 + v1) + v2) + ..., each sum rounded
  /// to the type, so that every run has the same bits, those of one rank with as many
  /// micro-batches. For floats, i32 and i64.
  virtual bool AllReduce(DType dtype, std::span<std::byte> values,
                         std::span<std::byte> scratch) noexcept = 0;

  /// As above, but this rank only gets its block, at the front of `block`. The size of
  /// `block` is that of a full block, at least the values' size over the number of ranks.
  /// Bytes after a shorter block are unchanged.
  virtual bool ReduceScatter(DType dtype, std::span<const std::byte> values,
                             std::span<std::byte> block,
                             std::span<std::byte> scratch) noexcept = 0;

  /// Gathers the ranks' blocks into `values`; `block.size()` bytes are a full block, so
  /// that rank r's part of `values` begins at byte r * block.size(). The two do not
  /// overlap.
  virtual bool AllGather(std::span<const std::byte> block,
                         std::span<std::byte> values) noexcept = 0;
};

/// Scratch of AllReduce for `bytes` bytes of values, and of ReduceScatter for blocks of
/// that many bytes in total: for every other rank a chunk of a block, at most 256 KiB,
/// rounded up to lines of 64 bytes.
inline Bytes CollectiveScratch(Bytes bytes, int64_t ranks) {
  constexpr Bytes kMaxChunk = Bytes{256} << 10;
  const Bytes block = (bytes + ranks - 1) / ranks;
  const Bytes chunk = (std::min(block, kMaxChunk) + 63) / 64 * 64;
  return (ranks - 1) * chunk;
}

// The ranks of a step with one rank: every sum is its addend, every block the whole.
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

/// Maximum number of steps of one program in flight, and of results that are kept.
inline constexpr uint64_t kStepsInFlight = 4;

/// A program bound to a device: kernels chosen, addresses fixed.
class Executable {
 public:
  virtual ~Executable() = default;

  /// Runs launches [first, last) of the program in order and waits for them; a range from
  /// 0 uses the inputs as last written. Allocates nothing, throws nothing. On failure
  /// *failed is the launch's index, or the number of launches if the failure is of none.
  virtual StepCode Run(size_t first, size_t last, size_t* failed) noexcept = 0;

  /// Runs only launch `index`; if it has bodies, and the device supports it, fills
  /// buffers in them with `poison` at their death. For sessions that poison.
  virtual StepCode RunPoisoned(size_t index, uint8_t /*poison*/,
                               size_t* failed) noexcept {
    return Run(index, index + 1, failed);
  }

  /// Starts all launches, as step `step`, and returns before they are done. Returns
  /// false, with nothing done, on a synchronous device: use Run there. The step
  /// kStepsInFlight before it must be done. Allocates nothing, throws nothing.
  virtual bool Start(uint64_t) noexcept { return false; }
  /// Waits for one of the last kStepsInFlight started steps, and not for later ones.
  /// `scalars` receives Program::scalars(). *failed as in Run. Allocates nothing, throws
  /// nothing.
  virtual StepCode Wait(uint64_t /*step*/, std::span<float> /*scalars*/,
                        size_t* /*failed*/) noexcept {
    return StepCode::kStepUnknown;
  }

  // Sets an input's content for all steps started from now on; the size is that of its
  // type. No allocation.
  virtual void WriteInput(ValueId input, std::span<const std::byte> data) = 0;
  virtual void ReadInput(ValueId input, std::span<std::byte> data) const = 0;

  /// The device's message for a kDeviceFault.
  virtual std::string fault() const { return {}; }
};

/// Memory that a backend takes outside the arena.
struct MemoryNote {
  std::string what;
  Bytes bytes = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  /// The name, and further details of the device for users.
  virtual std::string description() const { return std::string(name()); }
  /// The name, and all else that workspace depends on: DeviceNeeds::device.
  virtual std::string planned_for() const { return std::string(name()); }

  /// Returns true if Executable::Start returns before the step is done.
  virtual bool works_on_its_own() const { return false; }

  /// Workspace bytes of the kernel for `node`; the plan must be made with it.
  virtual Bytes Workspace(const Graph& graph, const Node& node) const = 0;

  /// Bytes in the arena that the backend reserves beside the values of `graph`, for slots
  /// of `alignment`; the plan must also be made with them.
  virtual Bytes Reserve(const Graph&, Bytes /*alignment*/) const { return 0; }
  /// The ops that the kernels fuse into one node.
  virtual Fusions FusesOps() const { return {}; }
  /// All of these, for PlanOptions::device. Not to be called after this object is
  /// destroyed.
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

  /// Error kDevice if an arena of `budget` bytes can never be allocated.
  virtual Status CheckBudget(Bytes /*budget*/) const { return {}; }
  /// Error kInvalidArgument if the caller's bytes cannot be the arena.
  virtual Status CheckArena(std::span<std::byte>) const { return {}; }

  /// One block of at least `bytes` bytes at a multiple of `alignment`. Error kDevice if
  /// the allocation fails. Release with Free.
  virtual Result<std::byte*> Allocate(Bytes bytes, Bytes alignment) = 0;
  virtual void Free(std::byte* block, Bytes bytes,
                    Bytes alignment) noexcept = 0;

  /// As above, for host memory that kernels of reload and offload copy to and from. The
  /// caller accesses it by the copies below alone: it may be a file
  /// (runtime/host_file.h). Release with FreeHost.
  virtual Result<std::byte*> AllocateHost(Bytes bytes, Bytes alignment) = 0;
  virtual void FreeHost(std::byte* block, Bytes bytes,
                        Bytes alignment) noexcept = 0;

  // Copies between the caller's memory and host memory, which no step that runs may
  // access; no allocation. Error kDevice.
  virtual Status WriteHost(std::byte* host, std::span<const std::byte> from) {
    if (!from.empty()) std::memcpy(host, from.data(), from.size());
    return {};
  }
  virtual Status ReadHost(std::span<std::byte> to, const std::byte* host) {
    if (!to.empty()) std::memcpy(to.data(), host, to.size());
    return {};
  }
  virtual Status FillHost(std::byte* host, Bytes bytes, uint8_t value) {
    std::memset(host, value, static_cast<size_t>(bytes));
    return {};
  }

  // Copies between the caller's memory and the device's, after all steps that were
  // started; no allocation. Error kDevice.
  virtual Status CopyIn(std::byte* device, std::span<const std::byte> host) = 0;
  virtual Status CopyOut(std::span<std::byte> host,
                         const std::byte* device) = 0;
  virtual Status FillBytes(std::byte* device, Bytes bytes, uint8_t value) = 0;

  /// `program` must outlive the executable.
  virtual Result<std::unique_ptr<Executable>> Bind(const Program& program) = 0;

  /// The memory that it currently takes outside arenas.
  virtual std::vector<MemoryNote> MemoryBesideArena() const { return {}; }
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_BACKEND_H_
