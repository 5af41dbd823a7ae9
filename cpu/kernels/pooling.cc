// max_pool, avg_pool, resize and their gradients. A plane is the spatial axes of one example
// and channel.
//
// A row of pooled results is computed in two steps: first the rows of x under it are combined
// into one, whole registers at a time; then each window combines its few elements of that
// row. avg_pool_grad does the reverse.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/vec.h"
#include "ir/windows.h"
#include "math/resampling.h"

namespace stowage::cpu {

namespace {

struct Largest {
  // NaN where either is.
  template <typename T>
  static Vec<T> Join(Vec<T> a, Vec<T> b) {
    return Max(a, b);
  }
  // The first line is one instruction, and b where either is NaN; a branch by which is
  // larger would be mispredicted every other time.
  template <typename T>
  static T Join(T a, T b) {
    const T larger = a > b ? a : b;
    return a == a ? larger : a;
  }
};
struct Sum {
  template <typename N>
  static N Join(N a, N b) {
    return a + b;
  }
};

int64_t Elements(const WindowAxes& axes, int64_t WindowAxis::*size) {
  return axes[0].*size * (axes[1].*size) * (axes[2].*size);
}

// Scratch of one thread: a row of x.
Bytes RowBytes(DType dtype, int64_t row) {
  return AlignUp(row * SizeOf(dtype), kWorkspaceAlignment);
}
Bytes PoolWorkspace(const OpArgs& args, std::span<const TensorType>,
                    int threads) {
  return threads * RowBytes(args.type(0).dtype, args.shape(0).back());
}
Bytes PoolGradWorkspace(const OpArgs&, std::span<const TensorType> results,
                        int threads) {
  return threads * RowBytes(results[0].dtype, results[0].shape.back());
}

Bytes MaxPoolGradWorkspace(const OpArgs& args, std::span<const TensorType>,
                           int threads) {
  return threads * 2 * RowBytes(args.type(0).dtype, args.shape(0).back());
}

// Combines the rows of x under window (z, y) of a plane, in `row` unless there is only one.
template <typename Op, typename T>
const T* JoinRows(const WindowAxes& axes, Taps of_z, Taps of_y, int64_t z,
                  int64_t y, const T* plane, T* row) {
  const int64_t n = axes[2].in;
  const T* joined = nullptr;
  for (int64_t i = of_z.first; i < of_z.end; ++i) {
    for (int64_t j = of_y.first; j < of_y.end; ++j) {
      const T* from =
          plane + (axes[0].Place(z, i) * axes[1].in + axes[1].Place(y, j)) * n;
      if (joined == nullptr) {
        joined = from;
        continue;
      }
      ForEachVec<T>(n, [&](auto at) {
        at.Store(row, Op::Join(at.Load(joined), at.Load(from)));
      });
      joined = row;
    }
  }
  return joined;
}

// results[o - first] = row[o * kStride] of windows [first, end), combined with the previous
// result unless this is the first element.
template <typename Op, int kStride, typename T>
void JoinElement(const T* row, int64_t stride, int64_t windows, bool is_first,
                 T* results) {
  const int64_t step = kStride > 0 ? kStride : stride;
  if (is_first) {
    for (int64_t o = 0; o < windows; ++o) results[o] = row[o * step];
  } else {
    for (int64_t o = 0; o < windows; ++o) {
      results[o] = Op::Join(results[o], row[o * step]);
    }
  }
}

// The windows [first, end) that are entirely inside a line.
struct WholeWindows {
  explicit WholeWindows(const WindowAxis& axis) {
    first = std::min(axis.out, CeilDiv(axis.before, axis.stride));
    const int64_t room = axis.in + axis.before - axis.extent();
    end = room < 0
              ? first
              : std::max(first, std::min(axis.out, room / axis.stride + 1));
  }

  int64_t first, end;
};

// Computes the windows of a line from its combined rows, `row`. Windows entirely inside it are
// combined element by element, so that the compiler vectorizes the loops.
template <typename Op, typename T>
void JoinWindows(const WindowAxis& axis, const WholeWindows& whole,
                 const T* row, T* results) {
  const auto joins_some = [&](int64_t o) {  // beside padding
    const Taps taps = axis.TapsOf(o);
    T result = row[axis.Place(o, taps.first)];
    for (int64_t i = taps.first + 1; i < taps.end; ++i) {
      result = Op::Join(result, row[axis.Place(o, i)]);
    }
    results[o] = result;
  };
  const auto [first, end] = whole;
  for (int64_t o = 0; o < first; ++o) joins_some(o);
  for (int64_t i = 0; i < axis.kernel && first < end; ++i) {
    const T* from = row + axis.Place(first, i);
    if (axis.stride == 1) {
      JoinElement<Op, 1>(from, 1, end - first, i == 0, results + first);
    } else if (axis.stride == 2) {
      JoinElement<Op, 2>(from, 2, end - first, i == 0, results + first);
    } else {
      JoinElement<Op, 0>(from, axis.stride, end - first, i == 0,
                         results + first);
    }
  }
  for (int64_t o = end; o < axis.out; ++o) joins_some(o);
}

// Computes Op of each window, and calls finish(axes, z, y, line) for each line of results.
template <typename Op, typename F>
StepCode RunPool(const Launch& launch, ThreadPool& pool, const F& finish) {
  const TensorView& x = launch.inputs[0];
  const TensorView& y = launch.outputs[0];
  const WindowAxes axes = WindowAxesOf(*launch.attrs, x.shape(), y.shape());
  const WholeWindows whole(axes[2]);
  const int64_t row_size = axes[2].out;
  const int64_t rows = y.size() / row_size;
  const int64_t piece =
      RowsPerChunk(axes[2].in * std::min(axes[0].kernel, axes[0].in) *
                   std::min(axes[1].kernel, axes[1].in));
  OnFloat(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    pool.ParallelFor(CeilDiv(rows, piece), [&](int64_t chunk, int thread) {
      T* scratch = reinterpret_cast<T*>(
          launch.workspace.data() + thread * RowBytes(y.dtype(), axes[2].in));
      const int64_t end = std::min(rows, (chunk + 1) * piece);
      for (int64_t r = chunk * piece; r < end; ++r) {
        const int64_t of_y = r % axes[1].out;
        const int64_t of_z = r / axes[1].out % axes[0].out;
        const int64_t plane = r / axes[1].out / axes[0].out;
        const T* row = JoinRows<Op>(
            axes, axes[0].TapsOf(of_z), axes[1].TapsOf(of_y), of_z, of_y,
            x.as<const T>() + plane * Elements(axes, &WindowAxis::in), scratch);
        T* to = y.as<T>() + r * row_size;
        JoinWindows<Op>(axes[2], whole, row, to);
        finish(axes, of_z, of_y, to);
      }
    });
  });
  return StepCode::kOk;
}

StepCode RunMaxPool(const Launch& launch, ThreadPool& pool) noexcept {
  return RunPool<Largest>(launch, pool,
                          [](const WindowAxes&, int64_t, int64_t, auto*) {});
}

// The divisor of the mean of window o, along one axis.
int64_t CountAlong(const WindowAxis& axis, int64_t o, bool with_padding) {
  if (with_padding) {
    const int64_t start = axis.Place(o, 0);
    return std::min(start + axis.kernel, axis.in + axis.after) - start;
  }
  const Taps taps = axis.TapsOf(o);
  return taps.end - taps.first;
}

StepCode RunAvgPool(const Launch& launch, ThreadPool& pool) noexcept {
  const bool with_padding = launch.attrs->Int("count_include_pad") == 1;
  return RunPool<Sum>(
      launch, pool,
      [&]<typename T>(const WindowAxes& axes, int64_t z, int64_t y, T* line) {
        const int64_t count = CountAlong(axes[0], z, with_padding) *
                              CountAlong(axes[1], y, with_padding);
        for (int64_t o = 0; o < axes[2].out; ++o) {
          line[o] /=
              static_cast<T>(count * CountAlong(axes[2], o, with_padding));
        }
      });
}

// The combined rows of x under a window: the largest element of each column, NaN if there is
// one, and the first row that has it, as the bits of a T.
template <typename T>
struct LargestOfColumns {
  using RowNumber = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

  T* values;
  T* rows;

  LargestOfColumns(std::byte* scratch, Bytes of_values)
      : values(reinterpret_cast<T*>(scratch)),
        rows(reinterpret_cast<T*>(scratch + of_values)) {}

  int64_t RowOf(int64_t column) const {
    return std::bit_cast<RowNumber>(rows[column]);
  }

  // Row after row, in row-major order.
  void Add(const T* row, int64_t number, bool is_first, int64_t columns) {
    using V = Vec<T>;
    const V of_row = V::All(std::bit_cast<T>(static_cast<RowNumber>(number)));
    ForEachVec<T>(columns, [&](auto at) {
      const V value = at.Load(row);
      if (is_first) {
        at.Store(values, value);
        at.Store(rows, of_row);
        return;
      }
      const V best = at.Load(values);
      const V best_row = at.Load(rows);
      // Larger, or the first NaN.
      const V keeps = value <= best;
      const V is_number = best <= best;
      at.Store(values, Select(is_number, Select(keeps, best, value), best));
      at.Store(rows,
               Select(is_number, Select(keeps, best_row, of_row), best_row));
    });
  }

  // The place, in row-major order, of the first of the largest elements of window o's columns,
  // or of the first NaN. Branches would be mispredicted half of the time.
  int64_t PlaceOfLargest(const WindowAxis& axis, int64_t o) const {
    const Taps taps = axis.TapsOf(o);
    int64_t best = axis.Place(o, taps.first);
    const int64_t end = axis.Place(o, taps.end);
    for (int64_t at = best + axis.dilation; at < end; at += axis.dilation) {
      const T value = values[at];
      const T largest = values[best];
      const int is_better = static_cast<int>(largest == largest) &
                            static_cast<int>(!(value <= largest));
      const int is_same = static_cast<int>(value == largest) |
                          (static_cast<int>(value != value) &
                           static_cast<int>(largest != largest));
      const int comes_first = static_cast<int>(RowOf(at) < RowOf(best));
      const int64_t takes = is_better | (is_same & comes_first);
      best += (at - best) & -takes;
    }
    return RowOf(best) * axis.in + best;
  }
};

// Calls f(plane, thread) for each plane.
template <typename F>
void ForPlanes(ThreadPool& pool, int64_t planes, const WindowAxes& axes,
               const F& f) {
  const int64_t piece = RowsPerChunk(Elements(axes, &WindowAxis::in));
  pool.ParallelFor(CeilDiv(planes, piece), [&](int64_t chunk, int thread) {
    const int64_t end = std::min(planes, (chunk + 1) * piece);
    for (int64_t p = chunk * piece; p < end; ++p) f(p, thread);
  });
}

StepCode RunMaxPoolGrad(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& dy = launch.inputs[1];
  const WindowAxes axes = WindowAxesOf(*launch.attrs, x.shape(), dy.shape());
  const int64_t in = Elements(axes, &WindowAxis::in);
  const Bytes of_values = RowBytes(x.dtype(), axes[2].in);
  OnFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    ForPlanes(pool, x.size() / in, axes, [&](int64_t p, int thread) {
      LargestOfColumns<T> largest(
          launch.workspace.data() + thread * 2 * of_values, of_values);
      const T* from = x.as<const T>() + p * in;
      const T* next = dy.as<const T>() + p * Elements(axes, &WindowAxis::out);
      T* to = launch.outputs[0].as<T>() + p * in;
      std::fill(to, to + in, T(0));
      for (int64_t z = 0; z < axes[0].out; ++z) {
        const Taps of_z = axes[0].TapsOf(z);
        for (int64_t y = 0; y < axes[1].out; ++y) {
          const Taps of_y = axes[1].TapsOf(y);
          bool is_first = true;
          for (int64_t i = of_z.first; i < of_z.end; ++i) {
            for (int64_t j = of_y.first; j < of_y.end; ++j) {
              const int64_t row =
                  axes[0].Place(z, i) * axes[1].in + axes[1].Place(y, j);
              largest.Add(from + row * axes[2].in, row, is_first, axes[2].in);
              is_first = false;
            }
          }
          for (int64_t o = 0; o < axes[2].out; ++o) {
            to[largest.PlaceOfLargest(axes[2], o)] += *next++;
          }
        }
      }
    });
  });
  return StepCode::kOk;
}

StepCode RunAvgPoolGrad(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& dy = launch.inputs[0];
  const TensorView& dx = launch.outputs[0];
  const WindowAxes axes = WindowAxesOf(*launch.attrs, dx.shape(), dy.shape());
  const bool with_padding = launch.attrs->Int("count_include_pad") == 1;
  const int64_t in = Elements(axes, &WindowAxis::in);
  const int64_t n = axes[2].in;
  OnFloat(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    ForPlanes(pool, dx.size() / in, axes, [&](int64_t p, int thread) {
      T* row = reinterpret_cast<T*>(launch.workspace.data() +
                                    thread * RowBytes(dx.dtype(), n));
      const T* next = dy.as<const T>() + p * Elements(axes, &WindowAxis::out);
      T* to = dx.as<T>() + p * in;
      std::fill(to, to + in, T(0));
      for (int64_t z = 0; z < axes[0].out; ++z) {
        const Taps of_z = axes[0].TapsOf(z);
        for (int64_t y = 0; y < axes[1].out; ++y) {
          const Taps of_y = axes[1].TapsOf(y);
          const int64_t count = CountAlong(axes[0], z, with_padding) *
                                CountAlong(axes[1], y, with_padding);
          std::fill(row, row + n, T(0));
          for (int64_t o = 0; o < axes[2].out; ++o) {
            const Taps taps = axes[2].TapsOf(o);
            const T share =
                *next++ /
                static_cast<T>(count * CountAlong(axes[2], o, with_padding));
            for (int64_t i = taps.first; i < taps.end; ++i) {
              row[axes[2].Place(o, i)] += share;
            }
          }
          for (int64_t i = of_z.first; i < of_z.end; ++i) {
            for (int64_t j = of_y.first; j < of_y.end; ++j) {
              T* under =
                  to +
                  (axes[0].Place(z, i) * axes[1].in + axes[1].Place(y, j)) * n;
              ForEachVec<T>(n, [&](auto at) {
                at.Store(under, at.Load(under) + at.Load(row));
              });
            }
          }
        }
      }
    });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel MaxPool = {.run = RunMaxPool,
                                     .workspace = PoolWorkspace};
constinit const CpuKernel MaxPoolGrad = {.run = RunMaxPoolGrad,
                                         .workspace = MaxPoolGradWorkspace};
constinit const CpuKernel AvgPool = {.run = RunAvgPool,
                                     .workspace = PoolWorkspace};
constinit const CpuKernel AvgPoolGrad = {.run = RunAvgPoolGrad,
                                         .workspace = PoolGradWorkspace};

}  // namespace kernels

// resize and its gradient: a row of a plane is interpolated from at most four rows, whole
// registers at a time, then its elements.

namespace {

using math::Neighbours;
using math::ResampledAxis;

// The last spatial axis is the last; axes that the tensor does not have come first.
struct ResizedAxes {
  ResizedAxes(const Attrs& attrs, const Shape& x, const Shape& y) {
    const bool align = attrs.Int("align_corners") == 1;
    for (int i = 2; i < x.rank(); ++i) {
      axis[static_cast<size_t>(3 + i - x.rank())] =
          attrs.Int("mode") == 0 ? ResampledAxis::Nearest(x[i], y[i])
                                 : ResampledAxis::Linear(x[i], y[i], align);
    }
  }
  const ResampledAxis& operator[](size_t i) const { return axis[i]; }
  int64_t in_plane() const { return axis[0].in * axis[1].in * axis[2].in; }
  int64_t out_plane() const { return axis[0].out * axis[1].out * axis[2].out; }

  std::array<ResampledAxis, 3> axis;
};

// Scratch: the neighbours of each element of a row of the large side, for all
// threads, then a row of x for each.
struct Scratch {
  Scratch(DType dtype, int64_t in, int64_t out)
      : neighbours(AlignUp(out * static_cast<Bytes>(sizeof(Neighbours)),
                           kWorkspaceAlignment)),
        row(AlignUp(in * SizeOf(dtype), kWorkspaceAlignment)) {}
  Bytes bytes(int threads) const { return neighbours + threads * row; }

  Bytes neighbours;
  Bytes row;
};

Bytes ResizeWorkspace(const OpArgs& args, std::span<const TensorType> results,
                      int threads) {
  return Scratch(args.type(0).dtype, args.shape(0).back(),
                 results[0].shape.back())
      .bytes(threads);
}
Bytes ResizeGradWorkspace(const OpArgs& args,
                          std::span<const TensorType> results, int threads) {
  return Scratch(args.type(0).dtype, results[0].shape.back(),
                 args.shape(0).back())
      .bytes(threads);
}

// Calls f(offset, weight) for the rows of x that row (z, y) of the result is mixed
// from: one, two or four of them.
template <typename F>
void ForRows(const ResizedAxes& axes, int64_t z, int64_t y, const F& f) {
  const Neighbours of_z = axes[0].At(z);
  const Neighbours of_y = axes[1].At(y);
  for (const int i : {0, 1}) {
    if (i == 1 && of_z.weight == 0) break;
    for (const int j : {0, 1}) {
      if (j == 1 && of_y.weight == 0) break;
      f(((of_z.low + i) * axes[1].in + of_y.low + j) * axes[2].in,
        (i == 0 ? 1 - of_z.weight : of_z.weight) *
            (j == 0 ? 1 - of_y.weight : of_y.weight));
    }
  }
}

// The neighbours of each element of a row, in the scratch.
const Neighbours* FindNeighbours(const Launch& launch,
                                 const ResizedAxes& axes) {
  auto* neighbours = reinterpret_cast<Neighbours*>(launch.workspace.data());
  for (int64_t o = 0; o < axes[2].out; ++o) neighbours[o] = axes[2].At(o);
  return neighbours;
}

StepCode RunResize(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& y = launch.outputs[0];
  const ResizedAxes axes(*launch.attrs, x.shape(), y.shape());
  const int64_t in = axes[2].in;
  const int64_t out = axes[2].out;
  const int64_t rows = y.size() / out;
  const int64_t piece = RowsPerChunk(4 * in + out);
  const Scratch scratch(y.dtype(), in, out);
  const Neighbours* from = FindNeighbours(launch, axes);
  OnFloat(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    pool.ParallelFor(CeilDiv(rows, piece), [&](int64_t chunk, int thread) {
      T* row = reinterpret_cast<T*>(launch.workspace.data() +
                                    scratch.neighbours + thread * scratch.row);
      const int64_t end = std::min(rows, (chunk + 1) * piece);
      for (int64_t r = chunk * piece; r < end; ++r) {
        const int64_t of_y = r % axes[1].out;
        const int64_t of_z = r / axes[1].out % axes[0].out;
        const T* plane =
            x.as<const T>() + r / axes[1].out / axes[0].out * axes.in_plane();
        bool is_first = true;
        ForRows(axes, of_z, of_y, [&](int64_t offset, double weight) {
          const Vec<T> factor(weight);
          ForEachVec<T>(in, [&](auto at) {
            const Vec<T> part = at.Load(plane + offset) * factor;
            at.Store(row, is_first ? part : at.Load(row) + part);
          });
          is_first = false;
        });
        T* to = y.as<T>() + r * out;
        for (int64_t o = 0; o < out; ++o) {
          const auto weight = static_cast<T>(from[o].weight);
          const T low = row[from[o].low];
          // With weight 0 the neighbour may not exist.
          to[o] = weight == 0
                      ? low
                      : low * (1 - weight) + row[from[o].low + 1] * weight;
        }
      }
    });
  });
  return StepCode::kOk;
}

StepCode RunResizeGrad(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& dy = launch.inputs[0];
  const TensorView& dx = launch.outputs[0];
  const ResizedAxes axes(*launch.attrs, dx.shape(), dy.shape());
  const int64_t in = axes[2].in;
  const int64_t out = axes[2].out;
  const int64_t planes = dx.size() / axes.in_plane();
  const int64_t piece = RowsPerChunk(axes.in_plane() + axes.out_plane());
  const Scratch scratch(dx.dtype(), in, out);
  const Neighbours* from = FindNeighbours(launch, axes);
  OnFloat(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    pool.ParallelFor(CeilDiv(planes, piece), [&](int64_t chunk, int thread) {
      T* row = reinterpret_cast<T*>(launch.workspace.data() +
                                    scratch.neighbours + thread * scratch.row);
      const int64_t end = std::min(planes, (chunk + 1) * piece);
      for (int64_t p = chunk * piece; p < end; ++p) {
        T* plane = dx.as<T>() + p * axes.in_plane();
        const T* next = dy.as<const T>() + p * axes.out_plane();
        std::fill(plane, plane + axes.in_plane(), T(0));
        for (int64_t r = 0; r < axes[0].out * axes[1].out; ++r) {
          std::fill(row, row + in, T(0));
          for (int64_t o = 0; o < out; ++o, ++next) {
            const auto weight = static_cast<T>(from[o].weight);
            row[from[o].low] += *next * (1 - weight);
            if (weight != 0) row[from[o].low + 1] += *next * weight;
          }
          ForRows(axes, r / axes[1].out, r % axes[1].out,
                  [&](int64_t offset, double part) {
                    const Vec<T> factor(part);
                    ForEachVec<T>(in, [&](auto at) {
                      at.Store(plane + offset, MulAdd(at.Load(row), factor,
                                                      at.Load(plane + offset)));
                    });
                  });
        }
      }
    });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel Resize = {.run = RunResize,
                                    .workspace = ResizeWorkspace};
constinit const CpuKernel ResizeGrad = {.run = RunResizeGrad,
                                        .workspace = ResizeGradWorkspace};

}  // namespace kernels

}  // namespace stowage::cpu
