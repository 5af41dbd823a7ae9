// reduce_sum, reduce_mean, reduce_max, sum_squares, arg_max, of contiguous
// operands.
//
// Neighbouring axes that are all reduced, or all kept, are merged. Floats of the form
// (outer, reduced, inner) take one of two fast paths: rows (inner is 1) or columns. Both
// divide long sums, by shape alone, into partial sums in f32 that a second kernel adds up.
// All other reductions, integers included, are one kernel with a warp or a block per
// element. sum_partials adds up the partial sums of the gradients of norms.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/rows.h"
#include "gpu/simt.h"
#include "ir/element_groups.h"

namespace stowage::gpu {
namespace {

template <typename T>
inline constexpr bool kIsInteger = std::is_integral_v<T>;

// The type computed in: f32, or 64 bits for integers.
template <typename T>
STOWAGE_DEVICE auto Widened(T x) {
  if constexpr (kIsInteger<T>) {
    return static_cast<int64_t>(x);
  } else {
    return ToFloat(x);
  }
}
template <typename T, typename Total>
STOWAGE_DEVICE T Narrowed(Total total, float factor) {
  if constexpr (kIsInteger<T>) {
    return static_cast<T>(total);
  } else {
    return FromFloat<T>(total * factor);
  }
}

struct Sum {
  // Integers wrap around.
  template <typename T>
  using Total = std::conditional_t<kIsInteger<T>, uint64_t, float>;
  using Again = Sum;  // reduces partial results

  template <typename V>
  static STOWAGE_DEVICE V Start() {
    return V(0);
  }
  template <typename V>
  static STOWAGE_DEVICE V Add(V total, V x) {
    return total + x;
  }
  template <typename V>
  static STOWAGE_DEVICE V Combine(V a, V b) {
    return a + b;
  }
  template <typename V>
  static STOWAGE_DEVICE V OverWarp(V v) {
    return WarpSum(v);
  }
  template <typename V>
  static STOWAGE_DEVICE V OverBlock(V v, V* scratch) {
    return BlockSum(v, scratch);
  }
};

struct SumOfSquares : Sum {
  static STOWAGE_DEVICE float Add(float total, float x) {
    return fmaf(x, x, total);
  }
};

// NaN if any is.
struct Largest {
  template <typename T>
  using Total = std::conditional_t<kIsInteger<T>, int64_t, float>;
  using Again = Largest;

  template <typename V>
  static STOWAGE_DEVICE V Start() {
    if constexpr (kIsInteger<V>) {
      return std::numeric_limits<V>::min();
    } else {
      return -std::numeric_limits<V>::infinity();
    }
  }
  template <typename V>
  static STOWAGE_DEVICE V Add(V total, V x) {
    return Larger(total, x);
  }
  template <typename V>
  static STOWAGE_DEVICE V Combine(V a, V b) {
    return Larger(a, b);
  }
  template <typename V>
  static STOWAGE_DEVICE V OverWarp(V v) {
    return WarpMax(v);
  }
  template <typename V>
  static STOWAGE_DEVICE V OverBlock(V v, V* scratch) {
    return BlockMax(v, scratch);
  }
};

AxisGroups GroupsOf(const Shape& shape, const Attrs& attrs) {
  return AxisGroups(shape, attrs.Ints("axes"));
}

// --- Rows: (outer, reduced) --------------------------------------------------

// How rows are divided, so that a thread sums at most 128 elements.
struct RowPlan {
  explicit RowPlan(const AxisGroups& groups) {
    constexpr int64_t kShortest = 4096;
    constexpr int64_t kLongest = 32768;
    constexpr int64_t kEnoughBlocks = 1024;
    const int64_t n = groups.reduced();
    const int64_t even = CeilDiv(n * groups.outer(), kEnoughBlocks);
    piece = std::clamp(AlignUp(even, kShortest), kShortest, kLongest);
    pieces = CeilDiv(n, piece);
  }
  int64_t piece, pieces;
};

struct RowParams {
  const void* x;
  void* y;         // of type Y, or
  float* partial;  // where this is not null: not scaled
  int64_t rows;
  int64_t n;
  int64_t piece, pieces;
  float factor;
};

// This thread's elements of a row, `threads` threads of which it is number
// `thread`.
template <typename R, bool kPacked, typename T>
STOWAGE_DEVICE float ReduceOwn(const T* x, int64_t n, int thread, int threads) {
  constexpr int kWidth = kPackSize<T>;
  float total[kWidth];
  for (int j = 0; j < kWidth; ++j) total[j] = R::template Start<float>();
  for (int64_t i = thread * kWidth; i < n; i += threads * kWidth) {
    const Pack<T> pack = LoadOfRow<kPacked>(x, i, n, T{});
    for (int j = 0; j < kWidth; ++j) {
      if (i + j >= n) continue;
      total[j] = R::Add(total[j], ToFloat(pack.value[j]));
    }
  }
  for (int width = kWidth / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) {
      total[j] = R::Combine(total[j], total[j + width]);
    }
  }
  return total[0];
}

template <typename R, typename T, typename Y, bool kPacked>
STOWAGE_KERNEL(kRowThreads)
ReduceWarpRows(STOWAGE_PARAMS(RowParams) p) {
  const int64_t row = int64_t{BlockId()} * kRowWarps + Warp();
  if (row >= p.rows) return;
  const T* x = static_cast<const T*>(p.x) + row * p.n;
  const float total =
      R::OverWarp(ReduceOwn<R, kPacked>(x, p.n, Lane(), kWarpSize));
  if (Lane() == 0) static_cast<Y*>(p.y)[row] = Narrowed<Y>(total, p.factor);
}

template <typename R, typename T, typename Y, bool kPacked>
STOWAGE_KERNEL(kRowThreads)
ReduceBlockRows(STOWAGE_PARAMS(RowParams) p) {
  STOWAGE_SHARED(float, scratch, kWarpSize);
  const int64_t row = BlockId() / p.pieces;
  const int64_t first = BlockId() % p.pieces * p.piece;
  const T* x = static_cast<const T*>(p.x) + row * p.n + first;
  const int64_t rest = p.n - first;
  const int64_t n = rest < p.piece ? rest : p.piece;
  const float total = R::OverBlock(
      ReduceOwn<R, kPacked>(x, n, ThreadId(), kRowThreads), &scratch[0]);
  if (ThreadId() != 0) return;
  if (p.partial != nullptr) {
    p.partial[BlockId()] = total;
  } else {
    static_cast<Y*>(p.y)[row] = Narrowed<Y>(total, p.factor);
  }
}

template <typename R, typename T, typename Y, bool kPacked>
void LaunchRows(const RowParams& params, Queue& queue) {
  if (params.n <= kMaxWarpRow) {
    LaunchKernel(queue, "reduce rows", ReduceWarpRows<R, T, Y, kPacked>, params,
                 {.x = BlocksFor(params.rows, kRowWarps)}, kRowThreads);
  } else {
    LaunchKernel(queue, "reduce rows", ReduceBlockRows<R, T, Y, kPacked>,
                 params, {.x = BlocksFor(params.rows * params.pieces, 1)},
                 kRowThreads);
  }
}

template <typename R, typename T, typename Y>
void ReduceRows(const AxisGroups& groups, const Launch& launch, float factor,
                Queue& queue) {
  const RowPlan plan(groups);
  RowParams params = {.x = launch.inputs[0].data,
                      .y = launch.outputs[0].data,
                      .partial = nullptr,
                      .rows = groups.outer(),
                      .n = groups.reduced(),
                      .piece = plan.piece,
                      .pieces = plan.pieces,
                      .factor = factor};
  if (plan.pieces > 1) {
    params.partial = reinterpret_cast<float*>(launch.workspace.data());
  }
  if (RowsArePacked<T>(params.rows, params.n, launch.inputs[0].data)) {
    LaunchRows<R, T, Y, true>(params, queue);
  } else {
    LaunchRows<R, T, Y, false>(params, queue);
  }
  if (plan.pieces == 1) return;
  params.x = params.partial;
  params.partial = nullptr;
  params.n = params.piece = plan.pieces;
  params.pieces = 1;
  LaunchRows<typename R::Again, float, Y, false>(params, queue);
}

// --- Columns: (outer, reduced, inner) ----------------------------------------

// Rows are divided if there are few columns, so that all of the device has work; partial
// sums stay near 1 MiB.
struct ColumnPlan {
  explicit ColumnPlan(const AxisGroups& groups) {
    constexpr int64_t kEnoughBlocks = 1024;
    constexpr int64_t kMinRows = 64;
    const int64_t rows = groups.reduced();
    const int64_t strips = CeilDiv(groups.inner(), 256) * groups.outer();
    piece = std::max(kMinRows, CeilDiv(rows * strips, kEnoughBlocks));
    piece = std::min(piece, rows);
    pieces = CeilDiv(rows, piece);
  }
  int64_t piece, pieces;
};

struct ColumnParams {
  const void* x;
  void* y;         // of type Y, or
  float* partial;  // where this is not null: not scaled
  int64_t outer, rows, columns;
  int64_t piece, pieces;
  float factor;
};

// A block sums a strip of 32 * kWidth columns of one piece; its warps take rows in turn.
template <typename R, typename T, typename Y, int kWidth>
STOWAGE_KERNEL(kRowThreads)
ReduceColumns(STOWAGE_PARAMS(ColumnParams) p) {
  constexpr int kStrip = kWarpSize * kWidth;
  constexpr int64_t kRun = 64;  // rows combined before they join the total
  STOWAGE_SHARED(float, of_warp, kRowWarps* kStrip);
  const int64_t strips = (p.columns + kStrip - 1) / kStrip;
  const int64_t strip = BlockId() % strips;
  const int64_t part = BlockId() / strips;  // (outer, piece)
  const int64_t first = part % p.pieces * p.piece;
  const int64_t end = first + p.piece < p.rows ? first + p.piece : p.rows;
  const int64_t column = strip * kStrip + Lane() * kWidth;
  const T* x = static_cast<const T*>(p.x) +
               part / p.pieces * p.rows * p.columns + column;

  float total[kWidth];
  for (int j = 0; j < kWidth; ++j) total[j] = R::template Start<float>();
  if (column < p.columns) {
    const int64_t stride = kRowWarps * p.columns;
    const T* at = x + (first + Warp()) * p.columns;
    // Rows of this warp that are left.
    for (int64_t rows = (end - first - Warp() + kRowWarps - 1) / kRowWarps;
         rows > 0; rows -= kRun) {
      float sum[kWidth];
      for (int j = 0; j < kWidth; ++j) sum[j] = R::template Start<float>();
      const int run = static_cast<int>(rows < kRun ? rows : kRun);
      // This many loads are under way at once.
      STOWAGE_UNROLL_BY(kWidth == 1 ? 16 : 8)
      for (int row = 0; row < run; ++row, at += stride) {
        if constexpr (kWidth == 1) {
          sum[0] = R::Add(sum[0], ToFloat(*at));
        } else {
          const Pack<T> pack = LoadPack(at);
          for (int j = 0; j < kWidth; ++j) {
            sum[j] = R::Add(sum[j], ToFloat(pack.value[j]));
          }
        }
      }
      for (int j = 0; j < kWidth; ++j) total[j] = R::Combine(total[j], sum[j]);
    }
  }
  for (int j = 0; j < kWidth; ++j) {
    of_warp[Warp() * kStrip + Lane() * kWidth + j] = total[j];
  }
  SyncThreads();
  for (int i = ThreadId(); i < kStrip; i += kRowThreads) {
    const int64_t to = strip * kStrip + i;
    if (to >= p.columns) continue;
    float all = of_warp[i];
    for (int warp = 1; warp < kRowWarps; ++warp) {
      all = R::Combine(all, of_warp[warp * kStrip + i]);
    }
    if (p.partial != nullptr) {
      p.partial[part * p.columns + to] = all;
    } else {
      static_cast<Y*>(p.y)[part * p.columns + to] = Narrowed<Y>(all, p.factor);
    }
  }
}

template <typename R, typename T, typename Y, int kWidth>
void LaunchColumns(const ColumnParams& params, Queue& queue) {
  const int64_t strips = CeilDiv(params.columns, kWarpSize * kWidth);
  LaunchKernel(queue, "reduce columns", ReduceColumns<R, T, Y, kWidth>, params,
               {.x = BlocksFor(strips * params.outer * params.pieces, 1)},
               kRowThreads);
}

template <typename R, typename T>
void ReduceColumns(const AxisGroups& groups, const Launch& launch, float factor,
                   Queue& queue) {
  const ColumnPlan plan(groups);
  ColumnParams params = {.x = launch.inputs[0].data,
                         .y = launch.outputs[0].data,
                         .partial = nullptr,
                         .outer = groups.outer(),
                         .rows = groups.reduced(),
                         .columns = groups.inner(),
                         .piece = plan.piece,
                         .pieces = plan.pieces,
                         .factor = factor};
  if (plan.pieces > 1) {
    params.partial = reinterpret_cast<float*>(launch.workspace.data());
  }
  if (IsPackAligned(params.x) && params.columns % kPackSize<T> == 0) {
    LaunchColumns<R, T, T, kPackSize<T>>(params, queue);
  } else {
    LaunchColumns<R, T, T, 1>(params, queue);
  }
  if (plan.pieces == 1) return;
  params.x = params.partial;
  params.partial = nullptr;
  params.rows = params.piece = plan.pieces;
  params.pieces = 1;
  LaunchColumns<typename R::Again, float, T, 1>(params, queue);
}

// --- Anything ----------------------------------------------------------------

inline constexpr int kMaxGroups = kMaxRank / 2;

struct Axes {
  Axes(const Shape& dims, const Strides& steps) : rank(dims.rank()) {
    for (int i = 0; i < rank; ++i) {
      size[i] = dims[i];
      stride[i] = steps[i];
    }
  }
  STOWAGE_HOST_DEVICE int64_t Offset(int64_t index) const {
    int64_t offset = 0;
    for (int i = rank - 1; i >= 0; --i) {
      offset += index % size[i] * stride[i];
      index /= size[i];
    }
    return offset;
  }
  int rank;
  int64_t size[kMaxGroups] = {};
  int64_t stride[kMaxGroups] = {};
};

struct EachParams {
  const void* x;
  void* y;
  Axes kept, reduced;
  int64_t results;
  int64_t n;  // elements that make one result
  float factor;
};

template <typename R, typename T>
STOWAGE_KERNEL(kRowThreads)
ReduceEach(STOWAGE_PARAMS(EachParams) p) {
  using Total = typename R::template Total<T>;
  constexpr int64_t kRun = 64;  // elements combined before they join the total
  STOWAGE_SHARED(Total, scratch, kWarpSize);
  const RowPlace at(p.n);
  if (at.row >= p.results) return;  // of all of a warp
  const T* x = static_cast<const T*>(p.x) + p.kept.Offset(at.row);
  Total total = R::template Start<Total>();
  for (int64_t run = at.thread; run < p.n; run += kRun * at.threads) {
    Total sum = R::template Start<Total>();
    const int64_t end = run + kRun * at.threads;
    for (int64_t i = run; i < (end < p.n ? end : p.n); i += at.threads) {
      const Total value = static_cast<Total>(Widened(x[p.reduced.Offset(i)]));
      sum = R::Add(sum, value);
    }
    total = R::Combine(total, sum);
  }
  total = at.of_block ? R::OverBlock(total, &scratch[0]) : R::OverWarp(total);
  if (at.thread == 0)
    static_cast<T*>(p.y)[at.row] = Narrowed<T>(total, p.factor);
}

template <typename R, typename T>
void ReduceEach(const AxisGroups& groups, const Launch& launch, float factor,
                Queue& queue) {
  const int64_t n = groups.reduced();
  const EachParams params = {
      .x = launch.inputs[0].data,
      .y = launch.outputs[0].data,
      .kept = Axes(groups.kept_dims, groups.kept_strides),
      .reduced = Axes(groups.reduced_dims, groups.reduced_strides),
      .results = groups.kept(),
      .n = n,
      .factor = factor};
  LaunchKernel(queue, "reduce", ReduceEach<R, T>, params,
               RowGrid(params.results, n), kRowThreads);
}

template <typename R, typename T>
void ReduceTyped(const AxisGroups& groups, const Launch& launch, float factor,
                 Queue& queue) {
  if constexpr (!kIsInteger<T>) {
    if (groups.simple() && groups.inner() == 1) {
      return ReduceRows<R, T, T>(groups, launch, factor, queue);
    }
    if (groups.simple()) {
      return ReduceColumns<R, T>(groups, launch, factor, queue);
    }
  }
  ReduceEach<R, T>(groups, launch, factor, queue);
}

template <typename R>
void Reduce(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  OnNumber(x.dtype(), [&](auto zero) {
    ReduceTyped<R, decltype(zero)>(GroupsOf(x.shape(), *launch.attrs), launch,
                                   1.0f, queue);
  });
}

void EnqueueMean(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const AxisGroups groups = GroupsOf(x.shape(), *launch.attrs);
  const float factor = 1.0f / static_cast<float>(groups.reduced());
  OnFloat(x.dtype(), [&](auto zero) {
    ReduceTyped<Sum, decltype(zero)>(groups, launch, factor, queue);
  });
}

void EnqueueSumSquares(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  OnFloat(x.dtype(), [&](auto zero) {
    ReduceRows<SumOfSquares, decltype(zero), float>(
        AxisGroups::AllReduced(x.shape()), launch, 1.0f, queue);
  });
}

Bytes Workspace(const AxisGroups& groups, DType dtype) {
  if (!IsComputedFloat(dtype) || !groups.simple()) return 0;
  const int64_t pieces =
      groups.inner() == 1 ? RowPlan(groups).pieces : ColumnPlan(groups).pieces;
  return pieces == 1 ? 0 : groups.kept() * pieces * SizeOf(DType::kF32);
}
Bytes ReduceWorkspace(const OpArgs& args, std::span<const TensorType>) {
  return Workspace(GroupsOf(args.shape(0), args.attrs), args.type(0).dtype);
}
Bytes SumSquaresWorkspace(const OpArgs& args, std::span<const TensorType>) {
  return Workspace(AxisGroups::AllReduced(args.shape(0)), args.type(0).dtype);
}

// --- arg_max -----------------------------------------------------------------

struct ArgMaxParams {
  const void* x;
  int32_t* y;
  int64_t rows;
  int64_t n;
};

// An element and its place. Of equals the first is larger; the first NaN is the largest.
template <typename V>
struct Candidate {
  V value;
  int32_t index;
};
template <typename V>
STOWAGE_DEVICE bool Beats(const Candidate<V>& a, const Candidate<V>& b) {
  const bool a_nan = a.value != a.value;
  const bool b_nan = b.value != b.value;
  if (a_nan != b_nan) return a_nan;
  if (!a_nan && a.value != b.value) return a.value > b.value;
  return a.index < b.index;
}
template <typename V>
STOWAGE_DEVICE Candidate<V> BestOfWarp(Candidate<V> best) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
    const Candidate<V> other = {ShuffleXor(best.value, mask),
                                ShuffleXor(best.index, mask)};
    if (Beats(other, best)) best = other;
  }
  return best;
}

template <typename T>
STOWAGE_KERNEL(kRowThreads)
ArgMaxRows(STOWAGE_PARAMS(ArgMaxParams) p) {
  using V = decltype(Widened(T{}));
  STOWAGE_SHARED(V, values, kRowWarps);
  STOWAGE_SHARED(int32_t, indices, kRowWarps);
  const RowPlace at(p.n);
  if (at.row >= p.rows) return;  // of all of a warp
  const T* x = static_cast<const T*>(p.x) + at.row * p.n;
  // A thread without elements takes the row's first.
  Candidate<V> best = {Widened(x[0]), 0};
  for (int64_t i = at.thread; i < p.n; i += at.threads) {
    const Candidate<V> next = {Widened(x[i]), static_cast<int32_t>(i)};
    if (Beats(next, best)) best = next;
  }
  best = BestOfWarp(best);
  if (at.of_block) {
    if (Lane() == 0) {
      values[Warp()] = best.value;
      indices[Warp()] = best.index;
    }
    SyncThreads();
    const int from = Lane() % kRowWarps;
    best = BestOfWarp(Candidate<V>{values[from], indices[from]});
  }
  if (at.thread == 0) p.y[at.row] = best.index;
}

void EnqueueArgMax(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const int64_t n = x.shape().back();
  const ArgMaxParams params = {.x = x.data,
                               .y = launch.outputs[0].as<int32_t>(),
                               .rows = x.size() / n,
                               .n = n};
  OnNumber(x.dtype(), [&](auto zero) {
    LaunchKernel(queue, "arg_max", ArgMaxRows<decltype(zero)>, params,
                 RowGrid(params.rows, n), kRowThreads);
  });
}

// --- sum_partials ------------------------------------------------------------

constexpr size_t kMax = kMaxParamBytes / sizeof(ColumnSum);

void EnqueueSumPartials(const Launch& launch, Queue& queue) {
  for (size_t first = 0; first < launch.inputs.size(); first += kMax) {
    std::array<ColumnSum, kMax> sums = {};
    const size_t count = std::min(kMax, launch.inputs.size() - first);
    for (size_t i = 0; i < count; ++i) {
      const TensorView& partial = launch.inputs[first + i];
      sums[i] = {.partial = partial.as<const float>(),
                 .to = launch.outputs[first + i].data,
                 .n = partial.shape()[1],
                 .blocks = partial.shape()[0]};
    }
    OnFloat(launch.outputs[0].dtype(), [&](auto zero) {
      EnqueueColumnSums<decltype(zero), kMax>(
          "sum_partials", std::span(sums).first(count), queue);
    });
  }
}

}  // namespace

int64_t SumPartsOf(const OpArgs& args) {
  if (args.op != OpKind::kLayerNormGrad &&
      args.op != OpKind::kLayerNormGradAdd && args.op != OpKind::kRmsNormGrad) {
    return 0;
  }
  return SumBlocks(args.shape(0).num_elements() / args.shape(0).back());
}

namespace kernels {

constinit const GpuKernel ReduceSum = {.enqueue = Reduce<Sum>,
                                       .workspace = ReduceWorkspace,
                                       .supports = SupportsNumbers};
constinit const GpuKernel ReduceMean = {.enqueue = EnqueueMean,
                                        .workspace = ReduceWorkspace};
constinit const GpuKernel ReduceMax = {.enqueue = Reduce<Largest>,
                                       .workspace = ReduceWorkspace,
                                       .supports = SupportsNumbers};
constinit const GpuKernel SumSquares = {.enqueue = EnqueueSumSquares,
                                        .workspace = SumSquaresWorkspace};
constinit const GpuKernel ArgMax = {.enqueue = EnqueueArgMax,
                                    .supports = SupportsNumbers};

constinit const GpuKernel SumPartials = {.enqueue = EnqueueSumPartials};

}  // namespace kernels
}  // namespace stowage::gpu
