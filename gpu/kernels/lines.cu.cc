// cumsum and top_k, along the lines of an axis.
//
// cumsum: a thread per line if lines are neighbours in memory; along the last axis a warp
// per line, 32 elements at a time.
//
// top_k: a thread per element of a row counts the elements that precede it, which is its
// rank. A block has 256 neighbours of a row, and reads the row 256 elements at a time into
// shared memory. Comparisons are quadratic in the row, at one a cycle.

#include <cstdint>
#include <string>
#include <type_traits>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/walk.h"
#include "gpu/simt.h"
#include "ir/element_groups.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;

// y may be x: no element is read again after it has been written.
struct ScanParams {
  const void* x;
  void* y;
  int64_t lines, length, inner;
  int32_t exclusive, reverse;
};

template <typename T>
STOWAGE_KERNEL(kThreads)
ScanColumns(STOWAGE_PARAMS(ScanParams) p) {
  const int64_t line = int64_t{BlockId()} * kThreads + ThreadId();
  if (line >= p.lines) return;
  const int64_t outer = line / p.inner;
  const int64_t first = outer * p.length * p.inner + line - outer * p.inner;
  Total<T> sum = 0;
  for (int64_t i = 0; i < p.length; ++i) {
    const int64_t at =
        first + (p.reverse != 0 ? p.length - 1 - i : i) * p.inner;
    const Total<T> before = sum;
    sum += Widen(static_cast<const T*>(p.x)[at]);
    static_cast<T*>(p.y)[at] = Narrow<T>(p.exclusive != 0 ? before : sum);
  }
}

template <typename T>
STOWAGE_KERNEL(kThreads)
ScanRows(STOWAGE_PARAMS(ScanParams) p) {
  const int64_t line = int64_t{BlockId()} * kWarps + Warp();
  if (line >= p.lines) return;
  const T* x = static_cast<const T*>(p.x) + line * p.length;
  T* y = static_cast<T*>(p.y) + line * p.length;
  Total<T> before = 0;  // the sum of what came before these 32
  for (int64_t first = 0; first < p.length; first += kWarpSize) {
    const int64_t i = first + Lane();
    const int64_t at = p.reverse != 0 ? p.length - 1 - i : i;
    Total<T> sum = i < p.length ? Widen(x[at]) : Total<T>{0};
    for (int delta = 1; delta < kWarpSize; delta *= 2) {
      const bool has = Lane() >= delta;
      const Total<T> other = Shuffle(sum, has ? Lane() - delta : Lane());
      if (has) sum += other;
    }
    const Total<T> last = Shuffle(sum, Lane() > 0 ? Lane() - 1 : 0);
    const Total<T> without = Lane() > 0 ? last : Total<T>{0};
    if (i < p.length) {
      y[at] = Narrow<T>(before + (p.exclusive != 0 ? without : sum));
    }
    before += Shuffle(sum, kWarpSize - 1);
  }
}

void EnqueueCumSum(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const AxisLines lines =
      AxisLines::Along(x.shape(), launch.attrs->Int("axis"));
  const ScanParams p = {
      .x = x.data,
      .y = launch.outputs[0].data,
      .lines = lines.outer * lines.inner,
      .length = lines.length,
      .inner = lines.inner,
      .exclusive = static_cast<int32_t>(launch.attrs->Int("exclusive")),
      .reverse = static_cast<int32_t>(launch.attrs->Int("reverse"))};
  const bool rows = lines.inner == 1;
  OnNumber(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    LaunchKernel(queue, "cumsum", rows ? ScanRows<T> : ScanColumns<T>, p,
                 {.x = BlocksFor(p.lines, rows ? kWarps : kThreads)}, kThreads);
  });
}

// --- top_k -------------------------------------------------------------------

struct TopKParams {
  const void* x;
  void* values;
  int32_t* indices;
  Divisor blocks;  // of a row
  int32_t n, k;
  int32_t descending;
};

template <typename T>
using Key = std::conditional_t<std::is_integral_v<T>, int64_t, float>;

template <typename T>
STOWAGE_DEVICE Key<T> KeyOf(T x) {
  if constexpr (std::is_integral_v<T>) {
    return x;
  } else {
    return ToFloat(x);
  }
}

// Whether a precedes b: NaN is last, equals are in order of their places.
template <typename K>
STOWAGE_DEVICE bool IsBefore(K a, int32_t a_place, K b, int32_t b_place,
                             bool descending) {
  const bool a_is_last = a != a;
  const bool b_is_last = b != b;
  const bool less = descending ? a > b : a < b;
  const bool equal = a == b || (a_is_last && b_is_last);
  return less || (b_is_last && !a_is_last) || (equal && a_place < b_place);
}

template <typename T>
STOWAGE_KERNEL(kThreads)
TopKKernel(STOWAGE_PARAMS(TopKParams) p) {
  STOWAGE_SHARED(Key<T>, keys, kThreads);
  const auto block = static_cast<uint32_t>(BlockId());
  const uint32_t row = p.blocks.Divide(block);
  const T* x = static_cast<const T*>(p.x) + int64_t{row} * p.n;
  const int32_t place =
      static_cast<int32_t>(block - row * p.blocks.d) * kThreads + ThreadId();
  const Key<T> key = KeyOf(x[place < p.n ? place : 0]);
  int32_t rank = 0;
  for (int32_t first = 0; first < p.n; first += kThreads) {
    const int32_t count = p.n - first < kThreads ? p.n - first : kThreads;
    if (ThreadId() < count) keys[ThreadId()] = KeyOf(x[first + ThreadId()]);
    SyncThreads();
    for (int32_t i = 0; i < count; ++i) {
      rank +=
          IsBefore<Key<T>>(keys[i], first + i, key, place, p.descending != 0)
              ? 1
              : 0;
    }
    SyncThreads();
  }
  if (place >= p.n || rank >= p.k) return;
  const int64_t to = int64_t{row} * p.k + rank;
  static_cast<T*>(p.values)[to] = x[place];
  p.indices[to] = place;
}

void EnqueueTopK(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const int64_t n = x.shape().back();
  const uint32_t blocks = BlocksFor(n, kThreads);
  const TopKParams p = {
      .x = x.data,
      .values = launch.outputs[0].data,
      .indices = launch.outputs[1].as<int32_t>(),
      .blocks = Divisor::Of(blocks),
      .n = static_cast<int32_t>(n),
      .k = static_cast<int32_t>(launch.attrs->Int("k")),
      .descending = static_cast<int32_t>(launch.attrs->Int("descending"))};
  OnNumber(x.dtype(), [&](auto zero) {
    LaunchKernel(queue, "top_k", TopKKernel<decltype(zero)>, p,
                 {.x = BlocksFor(x.size() / n, 1) * blocks}, kThreads);
  });
}

// Block numbers have 32 bits; there are at most as many blocks as elements.
std::string Excess(const OpArgs& args) {
  const int64_t elements = args.shape(0).num_elements();
  if (elements < kMaxReach) return "";
  return StrCat(args.Describe(0), " and has ", elements,
                " elements; expected fewer than ", kMaxReach);
}

}  // namespace

namespace kernels {

constinit const GpuKernel CumSum = {.enqueue = EnqueueCumSum,
                                    .supports = SupportsNumbers};

constinit const GpuKernel TopK = {
    .enqueue = EnqueueTopK, .supports = SupportsNumbers, .excess = Excess};

}  // namespace kernels
}  // namespace stowage::gpu
