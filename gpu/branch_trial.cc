#include "gpu/branch_trial.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/strings.h"
#include "gpu/enqueue.h"
#include "gpu/graph_choice.h"
#include "gpu/queue.h"
#include "gpu/step_graphs.h"
#include "ir/tensor_type.h"
#include "runtime/kernel.h"

namespace stowage::gpu {
namespace {

// What lies in the scratch.
struct BranchTrial {
  int32_t outer = 0, inner = 0;
  uint32_t fault = kNoFault;
  // A letter for each part that has run, and those that had when the last one did.
  uint8_t ran[4] = {};
  uint8_t seen[4] = {};
};
static_assert(sizeof(BranchTrial) <= kBranchTrialBytes);

constexpr Bytes kRanAt = offsetof(BranchTrial, ran);
constexpr Bytes kSeenAt = offsetof(BranchTrial, seen);

// outer is 0: a; 1: b or c, as inner is; without a fault, d.
struct Case {
  int32_t outer, inner;
  const char* ran;
  bool has_fault;
};
constexpr Case kCases[] = {{0, 1, "ad", false}, {1, 0, "bd", false},
                           {2, 0, "", true},    {1, 1, "cd", false},
                           {1, 5, "", true},    {-1, 1, "", true},
                           {0, 0, "ad", false}};

TensorView Index(std::byte* at) { return {at, {DType::kI32, {}}, {}}; }

Status Give(std::byte* at, DeviceQueue& queue) {
  const auto run = [&](Bytes letter) {
    queue.Fill(at + kRanAt + letter, static_cast<uint8_t>('a' + letter), 1);
  };
  const TensorView outer = Index(at + offsetof(BranchTrial, outer));
  const TensorView inner = Index(at + offsetof(BranchTrial, inner));
  queue.Branch(outer, 2, [&](size_t body) {
    if (body == 0) return run(0);
    queue.Branch(inner, 2, [&](size_t in) { run(1 + static_cast<Bytes>(in)); });
  });
  queue.UnlessFault([&] { run(3); });
  queue.Copy(at + kSeenAt, at + kRanAt, sizeof(BranchTrial::seen));
  return queue.status();
}

Status RunCase(const Case& wanted, const StepGraphs& graph, Device& device,
               Stream stream, std::byte* at) {
  BranchTrial trial = {.outer = wanted.outer, .inner = wanted.inner};
  STOWAGE_RETURN_IF_ERROR(device.Copy(at, &trial, sizeof(trial), stream));
  STOWAGE_RETURN_IF_ERROR(graph.Launch(nullptr));
  STOWAGE_RETURN_IF_ERROR(device.Copy(&trial, at, sizeof(trial), stream));
  STOWAGE_RETURN_IF_ERROR(device.Synchronize(stream));
  std::string ran;
  for (const uint8_t letter : trial.seen) {
    if (letter != 0) ran += static_cast<char>(letter);
  }
  const bool has_fault = trial.fault != kNoFault;
  if (ran == wanted.ran && has_fault == wanted.has_fault) return {};
  return Error{
      ErrorCode::kUnsupported,
      StrCat("[gpu] a graph's branches ran ", Quoted(ran),
             has_fault ? " with" : " without", " a fault for the choices ",
             wanted.outer, ", ", wanted.inner, "; expected ",
             Quoted(wanted.ran), wanted.has_fault ? " with one" : " without")};
}

}  // namespace

Status TryGraphBranches(Device& device, Stream stream,
                        std::span<std::byte, kBranchTrialBytes> scratch) {
  STOWAGE_RETURN_IF_ERROR(device.HasBranches());
  std::byte* const at = scratch.data();
  auto* const fault =
      reinterpret_cast<uint32_t*>(at + offsetof(BranchTrial, fault));
  DeviceQueue prepare(device, stream, fault, DeviceQueue::Mode::kPrepare);
  EnqueueGraphChoice(DType::kI32, at, 2, {}, prepare);
  EnqueueSoundChoice({}, prepare);
  STOWAGE_RETURN_IF_ERROR(prepare.status());
  StepGraphs graph(device, stream, StepGraphs::Branches::kInGraph);
  DeviceQueue queue(device, stream, fault, DeviceQueue::Mode::kRun);
  queue.set_choice(nullptr, nullptr, &graph);
  STOWAGE_RETURN_IF_ERROR(graph.Capture([&] { return Give(at, queue); }));
  for (const Case& wanted : kCases) {
    STOWAGE_RETURN_IF_ERROR(RunCase(wanted, graph, device, stream, at));
  }
  return {};
}

}  // namespace stowage::gpu
