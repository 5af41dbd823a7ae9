#include "gpu/step_kernels.h"

#include <algorithm>

#include "base/result.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/simt.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1024;  // threads take several items beyond that

uint32_t Blocks(int64_t items) {
  return static_cast<uint32_t>(
      std::min<int64_t>(BlocksFor(items, kThreads), kMaxBlocks));
}

struct BeginParams {
  StepRecord* record;
  const std::byte* slots;
  std::byte* to;
  int64_t slot_bytes;
  int64_t packs;  // of 16 bytes, to copy
};

STOWAGE_KERNEL(kThreads) BeginStep(STOWAGE_PARAMS(BeginParams) p) {
  const auto slot = static_cast<int64_t>(p.record->step % 2);
  const auto* from =
      reinterpret_cast<const uint32_t*>(p.slots + slot * p.slot_bytes);
  auto* to = reinterpret_cast<uint32_t*>(p.to);
  for (int64_t i = int64_t{BlockId()} * BlockSize() + ThreadId(); i < p.packs;
       i += int64_t{GridSize()} * BlockSize()) {
    StorePack(to + 4 * i, LoadPackOnce(from + 4 * i));
  }
  if (BlockId() == 0 && ThreadId() == 0) p.record->fault = kNoFault;
}

constexpr int kScalarsPerGrid = 128;

struct EndParams {
  StepRecord* record;
  std::byte* ring;
  int64_t stride;
  uint32_t entries;
  int32_t first;  // of the scalars, in this grid
  int32_t count;
  int32_t last;  // 1: no grid follows
  const float* scalars[kScalarsPerGrid];
};

// One block, so that the step's number is written last.
STOWAGE_KERNEL(kScalarsPerGrid) EndStep(STOWAGE_PARAMS(EndParams) p) {
  const uint64_t step = p.record->step;
  std::byte* entry = p.ring + static_cast<int64_t>(step % p.entries) * p.stride;
  const int i = ThreadId();
  if (i < p.count) {
    auto* scalars = reinterpret_cast<float*>(entry + sizeof(RingEntry));
    scalars[p.first + i] = *p.scalars[i];
  }
  SystemFence();
  SyncThreads();
  if (i != 0 || p.last == 0) return;
  auto* head = reinterpret_cast<volatile RingEntry*>(entry);
  head->fault = p.record->fault;
  SystemFence();
  head->step = step;
  p.record->step = step + 1;
}

struct ChoiceParams {
  BodyIndex index;
  uint32_t* chosen;
};

STOWAGE_KERNEL(kWarpSize) Choose(STOWAGE_PARAMS(ChoiceParams) p) {
  if (ThreadId() != 0) return;
  *reinterpret_cast<volatile uint32_t*>(p.chosen) = ChosenBody(p.index);
  SystemFence();
}

struct ScanParams {
  const std::byte* x;
  int64_t n;
  uint32_t* found;
};

template <typename T>
STOWAGE_KERNEL(kThreads)
FindNonFinite(STOWAGE_PARAMS(ScanParams) p) {
  const T* x = reinterpret_cast<const T*>(p.x);
  bool found = false;
  for (int64_t i = int64_t{BlockId()} * BlockSize() + ThreadId(); i < p.n;
       i += int64_t{GridSize()} * BlockSize()) {
    const float value = ToFloat(x[i]);
    found = found || !(value - value == 0.0f);  // NaN for NaN and infinity
  }
  if (found) AtomicOr(p.found, 1u);
}

}  // namespace

void EnqueueBeginStep(StepRecord* record, const std::byte* slots,
                      Bytes slot_bytes, std::byte* to, Bytes bytes,
                      Queue& queue) {
  const int64_t packs = bytes / 16;
  LaunchKernel(queue, "begin step", BeginStep,
               {record, slots, to, slot_bytes, packs}, {.x = Blocks(packs)},
               kThreads);
}

void EnqueueEndStep(StepRecord* record, std::byte* ring, uint32_t entries,
                    std::span<const float* const> scalars, Queue& queue) {
  size_t first = 0;
  do {
    const size_t count =
        std::min<size_t>(scalars.size() - first, kScalarsPerGrid);
    EndParams params = {.record = record,
                        .ring = ring,
                        .stride = RingStride(scalars.size()),
                        .entries = entries,
                        .first = static_cast<int32_t>(first),
                        .count = static_cast<int32_t>(count),
                        .last = first + count == scalars.size() ? 1 : 0,
                        .scalars = {}};
    std::copy_n(scalars.begin() + static_cast<std::ptrdiff_t>(first), count,
                params.scalars);
    LaunchKernel(queue, "end step", EndStep, params, {}, kScalarsPerGrid);
    first += count;
  } while (first < scalars.size());
}

void EnqueueChoice(DType dtype, const std::byte* index, size_t bodies,
                   uint32_t* chosen, Queue& queue) {
  LaunchKernel(
      queue, "choose", Choose,
      {{index, dtype, static_cast<int64_t>(bodies), queue.fault()}, chosen}, {},
      kWarpSize);
}

void EnqueueFindNonFinite(DType dtype, const std::byte* x, int64_t n,
                          uint32_t* found, Queue& queue) {
  const ScanParams params{x, n, found};
  const Grid grid{.x = Blocks(n)};
  const char* name = "find non-finite";
  switch (dtype) {
    case DType::kF32:
      LaunchKernel(queue, name, FindNonFinite<float>, params, grid, kThreads);
      return;
    case DType::kBF16:
      LaunchKernel(queue, name, FindNonFinite<BF16>, params, grid, kThreads);
      return;
    case DType::kF16:
      LaunchKernel(queue, name, FindNonFinite<F16>, params, grid, kThreads);
      return;
    default:
      STOWAGE_CHECK(false);
  }
}

}  // namespace stowage::gpu
