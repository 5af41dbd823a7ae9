#include "gpu/gpu_backend.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "gpu/attention_autotuner.h"
#include "gpu/gpu_executable.h"
#include "gpu/gpu_needs.h"
#include "gpu/kernel.h"
#include "gpu/step_kernels.h"
#include "ir/layout.h"
#include "runtime/program.h"

namespace stowage::gpu {
namespace {

class GpuBackend final : public Backend {
 public:
  ~GpuBackend() override {
    if (state_.compute.handle != nullptr) device().Destroy(state_.compute);
    if (state_.copy.handle != nullptr) device().Destroy(state_.copy);
    if (state_.exchange.handle != nullptr) device().Destroy(state_.exchange);
  }

  Status Open(std::unique_ptr<Device> device, const BackendOptions& options) {
    state_.device = std::move(device);
    state_.check = options.check;
    if (options.branches_by_host) {
      state_.branches = Error{ErrorCode::kUnsupported, "[gpu] it was told to"};
    }
    STOWAGE_ASSIGN_OR_RETURN(
        state_.attention,
        AttentionAutotuner::Open(options.attention, options.algorithm_folder,
                                 this->device().traits()));
    STOWAGE_ASSIGN_OR_RETURN(state_.compute, this->device().CreateStream());
    STOWAGE_ASSIGN_OR_RETURN(state_.copy, this->device().CreateStream());
    if (this->device().ranks() > 1) {
      STOWAGE_ASSIGN_OR_RETURN(state_.exchange, this->device().CreateStream());
    }
    STOWAGE_ASSIGN_OR_RETURN(at_open_, this->device().Memory());
    return {};
  }

  std::string_view name() const override { return "cuda"; }
  std::string description() const override {
    const DeviceTraits& traits = device().traits();
    return StrCat("cuda, ", traits.name, " (sm_", traits.major, traits.minor,
                  ", ", FormatBytes(at_open_.free), " free), ", traits.software,
                  " of ", traits.matmul_library, BranchesNote(),
                  AttentionNote());
  }

  bool works_on_its_own() const override { return !state_.check; }

  Bytes Workspace(const Graph& graph, const Node& node) const override {
    return GpuWorkspace(graph, node);
  }
  Fusions FusesOps() const override { return GpuFusions(); }
  Bytes Reserve(const Graph& graph, Bytes alignment) const override {
    return GpuReserve(graph, alignment);
  }
  Status Supports(const Graph& graph) const override {
    return GpuSupports(graph);
  }

  Status CheckBudget(Bytes budget) const override {
    if (budget <= at_open_.total) return {};
    return Error{ErrorCode::kDevice,
                 StrCat("[gpu] budget ", FormatBytes(budget), " (", budget,
                        " bytes) is above the ", FormatBytes(at_open_.total),
                        " (", at_open_.total, " bytes) of ",
                        device().traits().name, "; give a smaller one")};
  }
  Status CheckArena(std::span<std::byte>) const override {
    return Error{ErrorCode::kInvalidArgument,
                 "[gpu] the arena of a device is allocated there; leave "
                 "SessionOptions::arena empty"};
  }

  Result<std::byte*> Allocate(Bytes bytes, Bytes alignment) override {
    if (alignment > kSlotAlignment) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[gpu] the plan is aligned to ", alignment,
                 " bytes; a device gives blocks at multiples of ",
                 kSlotAlignment, "; plan with alignment ", kSlotAlignment)};
    }
    STOWAGE_ASSIGN_OR_RETURN(std::byte * block, device().Allocate(bytes));
    arena_bytes_ += bytes;
    return block;
  }
  void Free(std::byte* block, Bytes bytes, Bytes) noexcept override {
    device().Free(block);
    arena_bytes_ -= bytes;
  }

  Result<std::byte*> AllocateHost(Bytes bytes, Bytes) override {
    STOWAGE_ASSIGN_OR_RETURN(const PinnedBlock block,
                             device().AllocatePinned(bytes));
    state_.pinned_bytes += bytes;
    offloaded_.push_back(block);
    return block.host;
  }
  void FreeHost(std::byte* block, Bytes bytes, Bytes) noexcept override {
    const auto found = std::ranges::find(offloaded_, block, &PinnedBlock::host);
    STOWAGE_CHECK(found != offloaded_.end());
    device().FreePinned(*found);
    offloaded_.erase(found);
    state_.pinned_bytes -= bytes;
  }

  Status CopyIn(std::byte* to, std::span<const std::byte> host) override {
    return Done(device().Copy(to, host.data(), static_cast<Bytes>(host.size()),
                              state_.compute));
  }
  Status CopyOut(std::span<std::byte> host, const std::byte* from) override {
    return Done(device().Copy(host.data(), from,
                              static_cast<Bytes>(host.size()), state_.compute));
  }
  Status FillBytes(std::byte* to, Bytes bytes, uint8_t value) override {
    return Done(device().Fill(to, value, bytes, state_.compute));
  }

  Result<std::unique_ptr<Executable>> Bind(const Program& program) override {
    STOWAGE_RETURN_IF_ERROR(Supports(program.graph()));
    STOWAGE_RETURN_IF_ERROR(
        CheckRanks(program.graph(), {.ranks = device().ranks(),
                                     .room = "gpu",
                                     .given = "GpuOptions::collectives"}));
    return BindProgram(program, state_);
  }

  std::vector<MemoryNote> MemoryBesideArena() const override {
    std::vector<MemoryNote> notes = {
        {"pinned memory of the host", state_.pinned_bytes},
        {"on the device when it was opened, its context included",
         at_open_.total - at_open_.free}};
    if (const auto now = device().Memory(); now.ok()) {
      notes.push_back({"on the device since, beside the arena",
                       at_open_.free - now->free - arena_bytes_});
    }
    return notes;
  }

 private:
  // Once the host takes branches.
  std::string BranchesNote() const {
    if (!state_.branches.has_value() || state_.branches->ok()) return {};
    return StrCat("; ", kBranchesByHost, state_.branches->error().message);
  }

  // After trials of attention.
  std::string AttentionNote() const {
    std::string note;
    for (const std::string& found : state_.attention.found()) {
      note += StrCat("; ", note.empty() ? kAttentionTried : "", found);
    }
    return note;
  }

  Device& device() const { return *state_.device; }

  // Waits for the work that has just been enqueued on the stream.
  Status Done(const Status& given) {
    const Status done =
        given.ok() ? device().Synchronize(state_.compute) : given;
    state_.Ok(done);
    return done;
  }

  DeviceState state_;
  DeviceMemory at_open_;
  std::vector<PinnedBlock> offloaded_;  // what AllocateHost gave
  Bytes arena_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<Backend>> MakeGpuBackend(std::unique_ptr<Device> device,
                                                const BackendOptions& options) {
  auto backend = std::make_unique<GpuBackend>();
  STOWAGE_RETURN_IF_ERROR(backend->Open(std::move(device), options));
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace stowage::gpu

namespace stowage {

Bytes GpuWorkspace(const Graph& graph, const Node& node) {
  const auto workspace = gpu::GetKernel(node.op).workspace;
  if (workspace == nullptr) return 0;
  // A node without a kernel needs no scratch; a session refuses it.
  if (!gpu::Supports(graph, node).ok()) return 0;
  OpArgsStorage storage;
  const OpArgs args = MakeOpArgs(graph, node, &storage);
  std::vector<TensorType> results;
  for (const ValueId id : node.results) {
    results.push_back(graph.value(id).type);
  }
  return workspace(args, results);
}

Bytes GpuReserve(const Graph& graph, Bytes alignment) {
  const Bytes slot = gpu::SlotBytes(graph, alignment);
  const auto slots = CheckedMul(2, slot);
  const auto bytes =
      slots ? CheckedAdd(*slots, gpu::ReserveBytes(0)) : std::nullopt;
  return bytes.value_or(slot);  // the plan finds the sum too large
}

Status GpuSupports(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    STOWAGE_RETURN_IF_ERROR(gpu::Supports(graph, node));
  }
  return {};
}

Fusions GpuFusions() {
  return {
      .elementwise = gpu::FusesOp,
      .epilogues = true,
      .updates =
          [](OpKind op) { return gpu::GetKernel(op).enqueue_many != nullptr; },
      .sum_parts = gpu::SumPartsOf};
}

DeviceNeeds GpuNeeds() {
  return {.workspace = GpuWorkspace,
          .reserve = GpuReserve,
          .fusions = GpuFusions(),
          .device = "cuda"};
}

}  // namespace stowage
