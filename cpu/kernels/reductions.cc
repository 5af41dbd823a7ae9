// reduce_sum, reduce_mean, reduce_max, sum_squares, arg_max, of contiguous operands.
//
// Neighbouring axes that are all reduced, or all kept, are merged. Floats of the form (outer,
// reduced, inner) take one of two fast paths: rows (inner is 1) or columns. All other
// reductions, integers included, go element by element. Sums are divided into parts by shape
// alone, and the parts are added in order.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <type_traits>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/rows.h"
#include "cpu/kernels/strided.h"
#include "cpu/kernels/vec.h"
#include "ir/element_groups.h"

namespace stowage::cpu {

namespace {

struct Sum {
  template <typename T>
  static constexpr T Start() {
    return T(0);
  }
  template <typename V>
  static V Combine(V a, V b) {
    if constexpr (std::is_integral_v<V>) {  // wraps around
      return static_cast<V>(static_cast<uint64_t>(a) +
                            static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
  template <typename V>
  static V Term(V x) {
    return x;
  }
  template <typename T>
  static T Row(int64_t n, const T* x) {
    return RowSum<T>(n, [&](auto at) { return at.Load(x); });
  }
};

struct SumOfSquares : Sum {
  template <typename V>
  static V Term(V x) {
    return x * x;
  }
  template <typename T>
  static T Row(int64_t n, const T* x) {
    return RowSum<T>(n, [&](auto at) {
      const Vec<T> value = at.Load(x);
      return value * value;
    });
  }
};

// NaN if any is.
struct Largest {
  template <typename T>
  static constexpr T Start() {
    if constexpr (std::is_floating_point_v<T>) {
      return -std::numeric_limits<T>::infinity();
    } else {
      return std::numeric_limits<T>::min();
    }
  }
  template <typename T>
  static Vec<T> Combine(Vec<T> a, Vec<T> b) {
    return Max(a, b);
  }
  template <typename T>
  static T Combine(T a, T b) {
    return a >= b || a != a ? a : b;
  }
  template <typename V>
  static V Term(V x) {
    return x;
  }
  template <typename T>
  static T Row(int64_t n, const T* x) {
    constexpr T kStart = Start<T>();
    Vec<T> top = Vec<T>::All(kStart);
    ForEachVec<T>(n, [&](auto at) { top = Max(top, at.Load(x, kStart)); });
    if (AnyNaN(top)) return std::numeric_limits<T>::quiet_NaN();
    return LargestLane(top);
  }
};

AxisGroups GroupsOf(const Shape& shape, const Attrs& attrs) {
  return AxisGroups(shape, attrs.Ints("axes"));
}

// --- Rows: (outer, reduced) --------------------------------------------------

int64_t RowPieces(const AxisGroups& groups) {
  return CeilDiv(groups.reduced(), kChunkElements);
}

template <typename R, typename T>
void ReduceRows(const AxisGroups& groups, const T* x, T* y, double factor,
                std::span<std::byte> workspace, ThreadPool& pool) {
  const int64_t outer = groups.outer();
  const int64_t n = groups.reduced();
  const int64_t pieces = RowPieces(groups);
  if (pieces == 1) {
    ParallelRanges(pool, outer, RowsPerChunk(n),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       y[i] = static_cast<T>(R::Row(n, x + i * n) * factor);
                     }
                   });
    return;
  }
  double* partial = reinterpret_cast<double*>(workspace.data());
  pool.ParallelFor(outer * pieces, [&](int64_t task, int) {
    const int64_t begin = task % pieces * kChunkElements;
    const int64_t count = std::min(kChunkElements, n - begin);
    partial[task] = R::Row(count, x + task / pieces * n + begin);
  });
  for (int64_t i = 0; i < outer; ++i) {
    double total = partial[i * pieces];
    for (int64_t piece = 1; piece < pieces; ++piece) {
      total = R::Combine(total, partial[i * pieces + piece]);
    }
    y[i] = static_cast<T>(total * factor);
  }
}

// --- Columns: (outer, reduced, inner) ----------------------------------------

// How columns are divided: wide ones into bands of columns, narrow ones into ranges of rows
// with a partial result each.
struct ColumnPlan {
  explicit ColumnPlan(const AxisGroups& groups) {
    constexpr int64_t kWide = 2048;
    constexpr int64_t kBand = 512;
    constexpr int64_t kMaxPieces = 32;
    constexpr int64_t kEnoughTasks = 16;
    const int64_t inner = groups.inner();
    const int64_t rows = groups.reduced();
    band = inner >= kWide ? kBand : inner;
    rows_per_piece = rows;
    if (inner < kWide && groups.outer() < kEnoughTasks) {
      rows_per_piece = std::max(RowsPerChunk(inner), CeilDiv(rows, kMaxPieces));
    }
    bands = CeilDiv(inner, band);
    pieces = CeilDiv(rows, rows_per_piece);
  }
  int64_t band, bands;  // columns of a band
  int64_t rows_per_piece, pieces;
};

// y[j] = R over i < rows of x[i * row + j], times factor, for j < columns.
template <typename R, typename T>
void ReduceColumnBlock(int64_t rows, int64_t columns, const T* x, int64_t row,
                       T* y, T factor) {
  using V = Vec<T>;
  constexpr int kVecs = 4;
  constexpr int64_t kRun = 128;  // rows combined before they join the total
  const V start = V::All(R::template Start<T>());
  int64_t j = 0;
  for (; j + kVecs * V::kLanes <= columns; j += kVecs * V::kLanes) {
    V total[kVecs] = {start, start, start, start};
    for (int64_t i = 0; i < rows; i += kRun) {
      V part[kVecs] = {start, start, start, start};
      for (int64_t r = i; r < std::min(rows, i + kRun); ++r) {
        for (int v = 0; v < kVecs; ++v) {
          part[v] = R::Combine(
              part[v], R::Term(V::Load(x + r * row + j + v * V::kLanes)));
        }
      }
      for (int v = 0; v < kVecs; ++v) total[v] = R::Combine(total[v], part[v]);
    }
    for (int v = 0; v < kVecs; ++v) {
      (total[v] * V::All(factor)).Store(y + j + v * V::kLanes);
    }
  }
  ForEachVec<T>(columns - j, [&](auto at) {
    V total = start;
    for (int64_t i = 0; i < rows; i += kRun) {
      V part = start;
      for (int64_t r = i; r < std::min(rows, i + kRun); ++r) {
        part = R::Combine(part, R::Term(at.Load(x + r * row + j)));
      }
      total = R::Combine(total, part);
    }
    at.Store(y + j, total * V::All(factor));
  });
}

template <typename R, typename T>
void ReduceColumns(const AxisGroups& groups, const T* x, T* y, double factor,
                   std::span<std::byte> workspace, ThreadPool& pool) {
  const ColumnPlan plan(groups);
  const int64_t inner = groups.inner();
  const int64_t rows = groups.reduced();
  const bool whole = plan.pieces == 1;
  T* to = whole ? y : reinterpret_cast<T*>(workspace.data());
  pool.ParallelFor(
      groups.outer() * plan.pieces * plan.bands, [&](int64_t task, int) {
        const int64_t column = task % plan.bands * plan.band;
        const int64_t part = task / plan.bands;  // of to: (outer, piece)
        const int64_t first = part % plan.pieces * plan.rows_per_piece;
        const int64_t outer = part / plan.pieces;
        ReduceColumnBlock<R>(std::min(plan.rows_per_piece, rows - first),
                             std::min(plan.band, inner - column),
                             x + (outer * rows + first) * inner + column, inner,
                             to + part * inner + column,
                             static_cast<T>(whole ? factor : 1));
      });
  if (whole) return;
  for (int64_t outer = 0; outer < groups.outer(); ++outer) {
    const T* partial = to + outer * plan.pieces * inner;
    ForEachVec<T>(inner, [&](auto at) {
      Vec<T> total = at.Load(partial);
      for (int64_t piece = 1; piece < plan.pieces; ++piece) {
        total = R::Combine(total, at.Load(partial + piece * inner));
      }
      at.Store(y + outer * inner, total * Vec<T>(factor));
    });
  }
}

// --- Anything ----------------------------------------------------------------

template <typename R, typename T>
void ReduceEach(const AxisGroups& groups, const T* x, T* y, double factor,
                ThreadPool& pool) {
  // Floats add up in f64.
  using Total = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  const StridedWalk<1> kept(groups.kept_dims, {&groups.kept_strides});
  const StridedWalk<1> reduced(groups.reduced_dims, {&groups.reduced_strides});
  const int64_t n = groups.reduced();
  ParallelRanges(
      pool, groups.kept(), RowsPerChunk(n), [&](int64_t begin, int64_t end) {
        kept.Runs(begin, end,
                  [&](int64_t index, const auto& offsets, int64_t count) {
                    for (int64_t i = 0; i < count; ++i) {
                      const T* from = x + offsets[0] + i * kept.inner(0);
                      Total total = R::template Start<Total>();
                      reduced.Runs(
                          0, n, [&](int64_t, const auto& places, int64_t run) {
                            for (int64_t j = 0; j < run; ++j) {
                              const Total value =
                                  from[places[0] + j * reduced.inner(0)];
                              total = R::Combine(total, R::Term(value));
                            }
                          });
                      if constexpr (std::is_floating_point_v<T>)
                        total *= factor;
                      y[index + i] = static_cast<T>(total);
                    }
                  });
      });
}

template <typename R>
void Reduce(const AxisGroups& groups, const Launch& launch, double factor,
            ThreadPool& pool) {
  OnNumber(launch.inputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* x = launch.inputs[0].as<const T>();
    T* y = launch.outputs[0].as<T>();
    if constexpr (std::is_floating_point_v<T>) {
      if (groups.simple() && groups.inner() == 1) {
        return ReduceRows<R>(groups, x, y, factor, launch.workspace, pool);
      }
      if (groups.simple()) {
        return ReduceColumns<R>(groups, x, y, factor, launch.workspace, pool);
      }
    }
    ReduceEach<R>(groups, x, y, factor, pool);
  });
}

Bytes Workspace(const AxisGroups& groups, DType dtype) {
  if (!IsComputedFloat(dtype) || !groups.simple()) return 0;
  if (groups.inner() == 1) {
    const int64_t pieces = RowPieces(groups);
    return pieces == 1 ? 0 : groups.outer() * pieces * SizeOf(DType::kF64);
  }
  const ColumnPlan plan(groups);
  return plan.pieces == 1 ? 0 : groups.kept() * plan.pieces * SizeOf(dtype);
}

Bytes ReduceWorkspace(const OpArgs& args, std::span<const TensorType>, int) {
  return Workspace(GroupsOf(args.shape(0), args.attrs), args.type(0).dtype);
}
Bytes SumSquaresWorkspace(const OpArgs& args, std::span<const TensorType>,
                          int) {
  return Workspace(AxisGroups::AllReduced(args.shape(0)), args.type(0).dtype);
}

StepCode RunReduceSum(const Launch& launch, ThreadPool& pool) noexcept {
  Reduce<Sum>(GroupsOf(launch.inputs[0].shape(), *launch.attrs), launch, 1,
              pool);
  return StepCode::kOk;
}
StepCode RunReduceMean(const Launch& launch, ThreadPool& pool) noexcept {
  const AxisGroups groups = GroupsOf(launch.inputs[0].shape(), *launch.attrs);
  Reduce<Sum>(groups, launch, 1 / static_cast<double>(groups.reduced()), pool);
  return StepCode::kOk;
}
StepCode RunReduceMax(const Launch& launch, ThreadPool& pool) noexcept {
  Reduce<Largest>(GroupsOf(launch.inputs[0].shape(), *launch.attrs), launch, 1,
                  pool);
  return StepCode::kOk;
}
StepCode RunSumSquares(const Launch& launch, ThreadPool& pool) noexcept {
  Reduce<SumOfSquares>(AxisGroups::AllReduced(launch.inputs[0].shape()), launch,
                       1, pool);
  return StepCode::kOk;
}

// The first of equals, or the first NaN.
template <typename T>
int32_t IndexOfLargest(int64_t n, const T* x) {
  int64_t best = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] != x[i]) return static_cast<int32_t>(i);
    if (x[i] > x[best]) best = i;
  }
  return static_cast<int32_t>(best);
}

StepCode RunArgMax(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const int64_t n = x.shape().back();
  int32_t* y = launch.outputs[0].as<int32_t>();
  OnNumber(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    ParallelRanges(pool, x.size() / n, RowsPerChunk(n),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       y[i] = IndexOfLargest(n, x.as<const T>() + i * n);
                     }
                   });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel ReduceSum = {.run = RunReduceSum,
                                       .workspace = ReduceWorkspace,
                                       .supports = SupportsNumbers};
constinit const CpuKernel ReduceMean = {.run = RunReduceMean,
                                        .workspace = ReduceWorkspace};
constinit const CpuKernel ReduceMax = {.run = RunReduceMax,
                                       .workspace = ReduceWorkspace,
                                       .supports = SupportsNumbers};
constinit const CpuKernel SumSquares = {.run = RunSumSquares,
                                        .workspace = SumSquaresWorkspace};
constinit const CpuKernel ArgMax = {.run = RunArgMax,
                                    .supports = SupportsNumbers};

}  // namespace kernels

// sum_partials: of each operand the sum over its rows, in order, rounded once.

namespace {

void Store(const TensorView& to, int64_t first, std::span<const double> sums) {
  std::ranges::copy(sums, to.as<double>() + first);
}
void Store(const TensorView& to, int64_t first, std::span<const float> sums) {
  if (IsHalf(to.dtype())) {
    Narrow(to.dtype(), static_cast<int64_t>(sums.size()), sums.data(),
           to.data + first * SizeOf(to.dtype()));
  } else {
    std::ranges::copy(sums, to.as<float>() + first);
  }
}

template <typename T>
void SumRows(const TensorView& partial, const TensorView& to) {
  constexpr int64_t kColumns = 256;  // at a time, on the stack
  const int64_t parts = partial.shape()[0], n = partial.shape()[1];
  for (int64_t first = 0; first < n; first += kColumns) {
    const int64_t count = std::min(kColumns, n - first);
    std::array<T, kColumns> sums = {};
    for (int64_t part = 0; part < parts; ++part) {
      const T* row = partial.as<const T>() + part * n + first;
      for (int64_t i = 0; i < count; ++i)
        sums[static_cast<size_t>(i)] += row[i];
    }
    Store(to, first,
          std::span<const T>(sums).first(static_cast<size_t>(count)));
  }
}

StepCode RunSumPartials(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.inputs[0].dtype(), [&](auto zero) {
    ParallelRanges(pool, static_cast<int64_t>(launch.inputs.size()), 1,
                   [&](int64_t begin, int64_t end) {
                     for (auto i = static_cast<size_t>(begin);
                          i < static_cast<size_t>(end); ++i) {
                       SumRows<decltype(zero)>(launch.inputs[i],
                                               launch.outputs[i]);
                     }
                   });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel SumPartials = {.run = RunSumPartials};

}  // namespace kernels

// top_k: the places of a row's elements are sorted, in scratch.

namespace {

Bytes PlacesBytes(int64_t n) {
  return AlignUp(n * static_cast<Bytes>(sizeof(int32_t)), kWorkspaceAlignment);
}

Bytes TopKWorkspace(const OpArgs& args, std::span<const TensorType>,
                    int threads) {
  return threads * PlacesBytes(args.shape(0).back());
}

// Whether the element at place i stands before the one at j: a total order.
template <typename T>
struct Before {
  bool operator()(int32_t i, int32_t j) const {
    const T a = row[i];
    const T b = row[j];
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return a != a && b != b ? i < j : b != b;
    }
    if (a == b) return i < j;
    return descending ? a > b : a < b;
  }
  const T* row;
  bool descending;
};

StepCode RunTopK(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& values = launch.outputs[0];
  const TensorView& indices = launch.outputs[1];
  const int64_t n = x.shape().back();
  const int64_t k = launch.attrs->Int("k");
  const bool descending = launch.attrs->Int("descending") == 1;
  const int64_t rows = x.size() / n;
  const int64_t piece = RowsPerChunk(8 * n);
  OnNumber(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    pool.ParallelFor(CeilDiv(rows, piece), [&](int64_t chunk, int thread) {
      auto* places = reinterpret_cast<int32_t*>(launch.workspace.data() +
                                                thread * PlacesBytes(n));
      const int64_t end = std::min(rows, (chunk + 1) * piece);
      for (int64_t r = chunk * piece; r < end; ++r) {
        const Before<T> before = {x.as<const T>() + r * n, descending};
        std::iota(places, places + n, 0);
        if (k < n) {
          std::partial_sort(places, places + k, places + n, before);
        } else {
          std::sort(places, places + n, before);
        }
        for (int64_t i = 0; i < k; ++i) {
          values.as<T>()[r * k + i] = before.row[places[i]];
          indices.as<int32_t>()[r * k + i] = places[i];
        }
      }
    });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel TopK = {
    .run = RunTopK, .workspace = TopKWorkspace, .supports = SupportsNumbers};

}  // namespace kernels

// cumsum: a strip of neighbouring lines at a time, element after element.

namespace {

constexpr int64_t kStrip = 64;  // lines

// The type of sums: f64, or 64 bits, which wrap around, for integers.
template <typename T>
using Total = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

struct Direction {
  bool exclusive, reverse;
};

// `count` lines from x and y on, whose elements are `inner` apart. x may be y.
template <typename T>
void SumStrip(const T* x, T* y, int64_t length, int64_t inner, int64_t count,
              Direction direction) {
  Total<T> sums[kStrip] = {};
  for (int64_t i = 0; i < length; ++i) {
    const int64_t at = (direction.reverse ? length - 1 - i : i) * inner;
    for (int64_t j = 0; j < count; ++j) {
      const Total<T> before = sums[j];
      sums[j] += static_cast<Total<T>>(x[at + j]);
      y[at + j] = static_cast<T>(direction.exclusive ? before : sums[j]);
    }
  }
}

StepCode RunCumSum(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& y = launch.outputs[0];
  const AxisLines lines =
      AxisLines::Along(x.shape(), launch.attrs->Int("axis"));
  const Direction direction = {launch.attrs->Int("exclusive") == 1,
                               launch.attrs->Int("reverse") == 1};
  const int64_t strips = CeilDiv(lines.inner, kStrip);
  const int64_t in_strip = lines.length * std::min(lines.inner, kStrip);
  OnNumber(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    ParallelRanges(pool, lines.outer * strips, RowsPerChunk(in_strip),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t strip = begin; strip < end; ++strip) {
                       const int64_t first = strip % strips * kStrip;
                       const int64_t offset =
                           strip / strips * lines.length * lines.inner + first;
                       SumStrip(x.as<const T>() + offset, y.as<T>() + offset,
                                lines.length, lines.inner,
                                std::min(kStrip, lines.inner - first),
                                direction);
                     }
                   });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel CumSum = {.run = RunCumSum,
                                    .supports = SupportsNumbers};

}  // namespace kernels

}  // namespace stowage::cpu
