// all_reduce, reduce_scatter, all_gather, all_gather_update, own_block: the collectives of a
// step. The queue only transfers bytes; sums are computed here, in rank order, by the
// algorithm of cluster/rank_collectives.h, so they have the bits of the CPU's.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/simt.h"
#include "ir/attrs.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;
// Bytes received from each other rank at once: enough for a link to run at its rate.
constexpr Bytes kMaxChunk = Bytes{4} << 20;

// The parts of a sum: this rank's, and those of the others in order.
struct SumPartsParams {
  const std::byte* own;
  const std::byte* received;
  std::byte* sum;  // may be where `own` is
  int64_t stride;  // bytes from one of the others' to the next
  int64_t n;       // elements
  int32_t rank, ranks;
};

// The type of sums: f32 for 16-bit floats, rounded each time.
template <typename T>
struct Summed {
  STOWAGE_DEVICE static T Load(T x) { return x; }
  STOWAGE_DEVICE static T Add(T a, T b) { return a + b; }
  STOWAGE_DEVICE static T Store(T x) { return x; }
};
template <typename T>
struct SummedInFloat {
  STOWAGE_DEVICE static float Load(T x) { return ToFloat(x); }
  STOWAGE_DEVICE static float Add(float a, float b) {
    return ToFloat(FromFloat<T>(a + b));
  }
  STOWAGE_DEVICE static T Store(float x) { return FromFloat<T>(x); }
};
template <>
struct Summed<BF16> : SummedInFloat<BF16> {};
template <>
struct Summed<F16> : SummedInFloat<F16> {};

template <typename T>
STOWAGE_KERNEL(kThreads)
SumPartsKernel(STOWAGE_PARAMS(SumPartsParams) p) {
  using S = Summed<T>;
  const T* own = reinterpret_cast<const T*>(p.own);
  T* sum = reinterpret_cast<T*>(p.sum);
  const int64_t step = int64_t{GridSize()} * BlockSize();
  for (int64_t i = int64_t{BlockId()} * BlockSize() + ThreadId(); i < p.n;
       i += step) {
    const auto part = [&](int rank) {
      if (rank == p.rank) return S::Load(own[i]);
      const int slot = rank < p.rank ? rank : rank - 1;
      const std::byte* other = p.received + slot * p.stride;
      return S::Load(reinterpret_cast<const T*>(other)[i]);
    };
    auto total = part(0);
    for (int rank = 1; rank < p.ranks; ++rank) {
      total = S::Add(total, part(rank));
    }
    sum[i] = S::Store(total);
  }
}

// f of a zero of the type that elements are loaded as. Integers wrap around, as those
// without a sign may.
template <typename F>
void OnSummed(DType dtype, F&& f) {
  if (dtype == DType::kI32) return f(uint32_t{});
  if (dtype == DType::kI64) return f(uint64_t{});
  OnFloat(dtype, f);
}

std::span<std::byte> BytesOf(const TensorView& view) {
  return {view.data, static_cast<size_t>(view.type.bytes())};
}

// Up to `count` bytes from `begin` on; fewer, or none, at the end.
std::span<std::byte> Part(std::span<std::byte> bytes, size_t begin,
                          size_t count) {
  begin = std::min(begin, bytes.size());
  return bytes.subspan(begin, std::min(count, bytes.size() - begin));
}

// This rank among those of a launch.
struct Among {
  Among(const Launch& launch, const Queue& queue)
      : ranks(static_cast<size_t>(launch.attrs->Int("ranks"))),
        rank(static_cast<size_t>(queue.rank())) {}
  std::span<std::byte> OwnPart(std::span<std::byte> values,
                               size_t block) const {
    return Part(values, rank * block, block);
  }

  const size_t ranks, rank;
};

// The sum of this rank's block of all ranks' `values`, to `sum`, which may be that part:
// chunk by chunk, as many as the scratch has room for.
void Reduce(const Launch& launch, const TensorView& values, size_t block,
            std::byte* sum, Queue& queue) {
  const Among among(launch, queue);
  const std::span<std::byte> bytes = BytesOf(values);
  const size_t others = among.ranks - 1;
  const auto line = static_cast<size_t>(kSlotAlignment);
  const size_t chunk =
      others == 0 ? block : launch.workspace.size() / others / line * line;
  for (size_t begin = 0; begin < block; begin += chunk) {
    const size_t size = std::min(chunk, block - begin);
    const std::span own = Part(bytes, among.rank * block + begin, size);
    std::vector<PeerMessages> messages;
    for (size_t peer = 0; peer < among.ranks; ++peer) {
      if (peer == among.rank) continue;
      const std::span sent = Part(bytes, peer * block + begin, size);
      messages.push_back({.peer = static_cast<int>(peer),
                          .sent = sent,
                          .received = launch.workspace.subspan(
                              messages.size() * chunk, own.size())});
    }
    queue.Exchange(messages);
    const int64_t n = static_cast<int64_t>(own.size()) / SizeOf(values.dtype());
    if (n == 0) continue;
    OnSummed(values.dtype(), [&](auto zero) {
      LaunchKernel(queue, "sum_parts", SumPartsKernel<decltype(zero)>,
                   {.own = own.data(),
                    .received = launch.workspace.data(),
                    .sum = sum + begin,
                    .stride = static_cast<int64_t>(chunk),
                    .n = n,
                    .rank = static_cast<int32_t>(among.rank),
                    .ranks = static_cast<int32_t>(among.ranks)},
                   {.x = BlocksFor(n, kThreads)}, kThreads);
    });
  }
}

// Every rank's part of `values` to all.
void Gather(const Launch& launch, std::span<std::byte> values, size_t block,
            Queue& queue) {
  const Among among(launch, queue);
  std::vector<PeerMessages> messages;
  for (size_t peer = 0; peer < among.ranks; ++peer) {
    if (peer == among.rank) continue;
    messages.push_back({.peer = static_cast<int>(peer),
                        .sent = among.OwnPart(values, block),
                        .received = Part(values, peer * block, block)});
  }
  queue.Exchange(messages);
}

void Copy(std::byte* to, std::span<const std::byte> from, Queue& queue) {
  if (to == from.data() || from.empty()) return;
  queue.Copy(to, from.data(), static_cast<Bytes>(from.size()));
}

// Clears the end of a block that is shorter than the others.
void ClearRest(std::span<std::byte> block, size_t part, Queue& queue) {
  if (part == block.size()) return;
  queue.Fill(block.data() + part, 0, static_cast<Bytes>(block.size() - part));
}

void EnqueueAllReduce(const Launch& launch, Queue& queue) {
  const TensorView& y = launch.outputs[0];
  const std::span<std::byte> values = BytesOf(y);
  Copy(y.data, BytesOf(launch.inputs[0]), queue);
  const Among among(launch, queue);
  const auto elements = static_cast<size_t>(y.size());
  const size_t block = (elements + among.ranks - 1) / among.ranks *
                       static_cast<size_t>(SizeOf(y.dtype()));
  Reduce(launch, y, block, among.OwnPart(values, block).data(), queue);
  Gather(launch, values, block, queue);
}

void EnqueueReduceScatter(const Launch& launch, Queue& queue) {
  const TensorView& values = launch.inputs[0];
  const std::span<std::byte> block = BytesOf(launch.outputs[0]);
  const Among among(launch, queue);
  ClearRest(block, among.OwnPart(BytesOf(values), block.size()).size(), queue);
  Reduce(launch, values, block.size(), block.data(), queue);
}

// Copies the last operand to the result, which is the target of an update.
void EnqueueAllGather(const Launch& launch, Queue& queue) {
  const std::span<std::byte> block = BytesOf(launch.inputs.back());
  const std::span<std::byte> values = BytesOf(launch.outputs[0]);
  const std::span own = Among(launch, queue).OwnPart(values, block.size());
  Copy(own.data(), block.first(own.size()), queue);
  Gather(launch, values, block.size(), queue);
}

void EnqueueOwnBlock(const Launch& launch, Queue& queue) {
  const std::span<std::byte> block = BytesOf(launch.outputs[0]);
  const std::span own =
      Among(launch, queue).OwnPart(BytesOf(launch.inputs[0]), block.size());
  Copy(block.data(), own, queue);
  ClearRest(block, own.size(), queue);
}

// Room for a chunk of each other rank.
Bytes ScratchFor(Bytes block, int64_t ranks) {
  const Bytes chunk = AlignUp(std::min(block, kMaxChunk), kSlotAlignment);
  return (ranks - 1) * chunk;
}
Bytes ScratchOfAllReduce(const OpArgs& args, std::span<const TensorType>) {
  const int64_t ranks = args.attrs.Int("ranks");
  const Bytes block = (args.type(0).bytes() + ranks - 1) / ranks + 8;
  return ScratchFor(block, ranks);
}
Bytes ScratchOfReduceScatter(const OpArgs& args,
                             std::span<const TensorType> blocks) {
  return ScratchFor(blocks[0].bytes(), args.attrs.Int("ranks"));
}

}  // namespace

namespace kernels {

constinit const GpuKernel AllReduce = {.enqueue = EnqueueAllReduce,
                                       .workspace = ScratchOfAllReduce,
                                       .supports = SupportsNumbers};
constinit const GpuKernel ReduceScatter = {.enqueue = EnqueueReduceScatter,
                                           .workspace = ScratchOfReduceScatter,
                                           .supports = SupportsNumbers};
constinit const GpuKernel AllGather = {.enqueue = EnqueueAllGather,
                                       .supports = SupportsAll};
constinit const GpuKernel AllGatherUpdate = {.enqueue = EnqueueAllGather,
                                             .supports = SupportsAll};
constinit const GpuKernel OwnBlock = {.enqueue = EnqueueOwnBlock,
                                      .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::gpu
