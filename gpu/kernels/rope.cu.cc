// rope. A thread turns the same pairs of several heads, of which it computes the
// angles once: a pack of elements and the pack of their partners where heads
// consist of whole packs, single pairs elsewhere.

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "math/trigonometry.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kMaxPairs = 256;
constexpr int64_t kHeadsOfThread = 4;

struct RopeParams {
  const void* x;
  void* y;
  const int32_t* positions;            // null: 0, 1, ...
  int64_t tokens;                      // of the batch
  int64_t length;                      // of an example
  int64_t of_batch, of_time, of_head;  // steps in x
  int32_t heads;
  int32_t groups;  // the grid's second dimension: it takes turns at the heads
  int32_t depth;
  int32_t pairs;
  int32_t units;       // threads of a token, of a group
  bool own_positions;  // of each example
  bool inverse;
  double turns[kMaxPairs];
};

template <typename T, bool kPacked, bool kInterleaved>
STOWAGE_KERNEL(kThreads)
Rotate(STOWAGE_PARAMS(RopeParams) p) {
  constexpr int kWidth = kPacked ? kPackSize<T> : 1;
  const int64_t thread = int64_t{BlockId()} * kThreads + ThreadId();
  const int64_t token = thread / p.units;
  if (token >= p.tokens) return;
  const int pair = static_cast<int>(thread - token * p.units) * kWidth;
  const int64_t batch = token / p.length;
  const int64_t time = token - batch * p.length;
  const T* x =
      static_cast<const T*>(p.x) + batch * p.of_batch + time * p.of_time;
  T* y = static_cast<T*>(p.y) + token * p.heads * p.depth;
  if (pair >= p.pairs) {  // what does not turn
    const int at = pair + p.pairs;
    for (int head = BlockIdY(); head < p.heads; head += p.groups) {
      StoreElements(y + head * p.depth + at,
                    LoadElements<T, kWidth>(x + head * p.of_head + at));
    }
    return;
  }
  const auto position = p.positions == nullptr
                            ? static_cast<int32_t>(time)
                            : p.positions[p.own_positions ? token : time];
  float cosines[kWidth];
  float sines[kWidth];
  STOWAGE_UNROLL
  for (int j = 0; j < kWidth; ++j) {
    const auto angle =
        static_cast<float>(math::RopeAngle(position, p.turns[pair + j]));
    cosines[j] = math::Cos(angle);
    sines[j] = math::Sin(p.inverse ? -angle : angle);
  }
  const int first = kInterleaved ? 2 * pair : pair;
  const int second = kInterleaved ? 2 * pair + kWidth : pair + p.pairs;
  for (int head = BlockIdY(); head < p.heads; head += p.groups) {
    const T* from = x + head * p.of_head;
    T* to = y + head * p.depth;
    const auto a = LoadElements<T, kWidth>(from + first);
    const auto b = LoadElements<T, kWidth>(from + second);
    T both[2 * kWidth];
    STOWAGE_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      both[j] = a.value[j];
      both[kWidth + j] = b.value[j];
    }
    STOWAGE_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      const int one = kInterleaved ? 2 * j : j;
      const int other = kInterleaved ? 2 * j + 1 : j + kWidth;
      const float u = ToFloat(both[one]);
      const float v = ToFloat(both[other]);
      both[one] = FromFloat<T>(fmaf(u, cosines[j], -(v * sines[j])));
      both[other] = FromFloat<T>(fmaf(v, cosines[j], u * sines[j]));
    }
    Elements<T, kWidth> turned_a, turned_b;
    STOWAGE_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      turned_a.value[j] = both[j];
      turned_b.value[j] = both[kWidth + j];
    }
    StoreElements(to + first, turned_a);
    StoreElements(to + second, turned_b);
  }
}

// Whether packs of `width` elements are whole and aligned.
bool TakesPacks(const RopeParams& p, int64_t width) {
  return IsPackAligned(p.x) && IsPackAligned(p.y) && p.pairs % width == 0 &&
         p.depth % width == 0 && p.of_batch % width == 0 &&
         p.of_time % width == 0 && p.of_head % width == 0;
}

template <typename T, bool kPacked>
void LaunchRotate(RopeParams p, bool interleaved, Queue& queue) {
  constexpr int kWidth = kPacked ? kPackSize<T> : 1;
  p.units = (p.depth - p.pairs) / kWidth;
  const Grid grid = {.x = BlocksFor(p.tokens * p.units, kThreads),
                     .y = static_cast<uint32_t>(p.groups)};
  LaunchKernel(
      queue, "rope",
      interleaved ? Rotate<T, kPacked, true> : Rotate<T, kPacked, false>, p,
      grid, kThreads);
}

void EnqueueRope(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const Attrs& attrs = *launch.attrs;
  const int64_t dims = attrs.Int("dims");
  const int64_t heads = x.shape()[2];
  RopeParams p = {};
  p.x = x.data;
  p.y = launch.outputs[0].data;
  p.tokens = x.shape()[0] * x.shape()[1];
  p.length = x.shape()[1];
  p.of_batch = x.strides[0];
  p.of_time = x.strides[1];
  p.of_head = x.strides[2];
  p.heads = static_cast<int32_t>(heads);
  p.groups = static_cast<int32_t>(
      std::min((heads + kHeadsOfThread - 1) / kHeadsOfThread, kMaxGridY));
  p.depth = static_cast<int32_t>(x.shape()[3]);
  p.pairs = static_cast<int32_t>(dims / 2);
  p.inverse = attrs.Int("inverse") != 0;
  if (launch.inputs.size() == 2) {
    p.positions = launch.inputs[1].as<const int32_t>();
    p.own_positions = launch.inputs[1].shape().rank() == 2;
  }
  for (int64_t pair = 0; pair < dims / 2; ++pair) {
    p.turns[pair] = math::RopeTurns(attrs.Float("base"), dims, pair);
  }
  const bool interleaved = attrs.Int("interleaved") != 0;
  OnFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (TakesPacks(p, kPackSize<T>)) {
      LaunchRotate<T, true>(p, interleaved, queue);
    } else {
      LaunchRotate<T, false>(p, interleaved, queue);
    }
  });
}

std::string RopeExcess(const OpArgs& args) {
  const int64_t dims = args.attrs.Int("dims");
  if (dims <= 2 * kMaxPairs) return "";
  return StrCat(dims, " elements of a head turn; expected at most ",
                2 * kMaxPairs);
}

}  // namespace

namespace kernels {

constinit const GpuKernel Rope = {.enqueue = EnqueueRope, .excess = RopeExcess};

}  // namespace kernels
}  // namespace stowage::gpu
