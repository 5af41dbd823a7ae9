// copy, concat, reload and offload, and the strided copy under them.

#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/strided.h"
#include "ir/windows.h"

namespace stowage::cpu {

namespace {

constexpr int kFrom = 0;
constexpr int kTo = 1;
using Walk = StridedWalk<2>;

// Elements along the sides of a square that is moved as one.
constexpr int64_t kSquare = 16;

template <typename T>
void CopyRun(int64_t n, const T* from, int64_t from_step, T* to,
             int64_t to_step) {
  if (from_step == 1 && to_step == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
}

// Whether the last two axes are a transposition: unit steps along the last axis
// of one operand and the last but one of the other.
bool Transposes(const Walk& walk) {
  return walk.rank() >= 2 && walk.inner(kFrom) != 1 && walk.inner(kTo) == 1 &&
         walk.step(walk.rank() - 2, kFrom) == 1;
}

// Rows [row, row + rows) of the matrix that the last two axes are, in squares,
// so that a cache line of `from` is used while it is there.
template <typename T>
void CopySquares(int64_t rows, int64_t columns, const T* from,
                 int64_t from_step, T* to, int64_t to_step) {
  for (int64_t r = 0; r < rows; r += kSquare) {
    const int64_t r_end = std::min(rows, r + kSquare);
    for (int64_t c = 0; c < columns; c += kSquare) {
      const int64_t c_end = std::min(columns, c + kSquare);
      for (int64_t i = r; i < r_end; ++i) {
        for (int64_t j = c; j < c_end; ++j) {
          to[i * to_step + j] = from[i + j * from_step];
        }
      }
    }
  }
}

template <typename T>
void CopyTransposed(const Walk& walk, const T* from, T* to, int64_t elements,
                    ThreadPool& pool) {
  const int last = walk.rank() - 1;
  const int64_t rows = walk.dim(last - 1);
  const int64_t columns = walk.dim(last);
  const int64_t bands = CeilDiv(rows, kSquare);
  const int64_t matrices = elements / (rows * columns);
  const int64_t piece = CeilDiv(RowsPerChunk(columns), kSquare);
  ParallelRanges(
      pool, matrices * bands, piece, [&](int64_t begin, int64_t end) {
        for (int64_t band = begin; band < end; ++band) {
          int64_t rest = band / bands;
          int64_t from_offset = 0;
          int64_t to_offset = 0;
          for (int axis = last - 2; axis >= 0; --axis) {
            const int64_t place = rest % walk.dim(axis);
            rest /= walk.dim(axis);
            from_offset += place * walk.step(axis, kFrom);
            to_offset += place * walk.step(axis, kTo);
          }
          const int64_t row = band % bands * kSquare;
          CopySquares(std::min(kSquare, rows - row), columns,
                      from + from_offset + row, walk.inner(kFrom),
                      to + to_offset + row * walk.step(last - 1, kTo),
                      walk.step(last - 1, kTo));
        }
      });
}

// The last operand to the result; the host's memory is memory like any other.
StepCode RunCopy(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs.back();
  const TensorView& y = launch.outputs[0];
  CopyStrided(y.shape(), SizeOf(y.dtype()), x.data, x.strides, y.data,
              y.strides, pool);
  return StepCode::kOk;
}

StepCode RunConcat(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& y = launch.outputs[0];
  const int axis = static_cast<int>(launch.attrs->Int("axis"));
  std::byte* to = y.data;
  for (const TensorView& part : launch.inputs) {
    CopyStrided(part.shape(), SizeOf(y.dtype()), part.data, part.strides, to,
                y.strides, pool);
    to += part.shape()[axis] * y.strides[axis] * SizeOf(y.dtype());
  }
  return StepCode::kOk;
}

}  // namespace

void CopyStrided(const Shape& shape, Bytes width, const std::byte* from,
                 const Strides& from_strides, std::byte* to,
                 const Strides& to_strides, ThreadPool& pool) {
  const Walk walk(shape, {&from_strides, &to_strides});
  const int64_t elements = shape.num_elements();
  const auto copy = [&](auto zero) {
    using T = decltype(zero);
    const T* typed_from = reinterpret_cast<const T*>(from);
    T* typed_to = reinterpret_cast<T*>(to);
    if (Transposes(walk)) {
      CopyTransposed(walk, typed_from, typed_to, elements, pool);
      return;
    }
    ParallelRanges(
        pool, elements, kChunkElements, [&](int64_t begin, int64_t end) {
          walk.Runs(
              begin, end, [&](int64_t, const auto& offsets, int64_t count) {
                CopyRun(count, typed_from + offsets[kFrom], walk.inner(kFrom),
                        typed_to + offsets[kTo], walk.inner(kTo));
              });
        });
  };
  switch (width) {
    case 1:
      return copy(uint8_t{});
    case 2:
      return copy(uint16_t{});
    case 4:
      return copy(uint32_t{});
    case 8:
      return copy(uint64_t{});
  }
  STOWAGE_CHECK(false);
}

namespace kernels {

constinit const CpuKernel Copy = {.run = RunCopy, .supports = SupportsAll};
constinit const CpuKernel Reload = {.run = RunCopy, .supports = SupportsAll};
constinit const CpuKernel Offload = {.run = RunCopy, .supports = SupportsAll};
constinit const CpuKernel OffloadUpdate = {.run = RunCopy,
                                           .supports = SupportsAll};
constinit const CpuKernel Concat = {.run = RunConcat, .supports = SupportsAll};

}  // namespace kernels

// pad and its gradient, a row of the result or of dy at a time.

namespace {

// The axes of x and of the padded result.
struct Padding {
  Padding(const Attrs& attrs, const Shape& x, const Shape& y)
      : mode(static_cast<PadMode>(attrs.Int("mode"))),
        padded(y),
        row(y.back()),
        rows(y.num_elements() / row) {
    for (int i = 0; i < x.rank(); ++i) {
      axes[static_cast<size_t>(i)] = {
          x[i], attrs.Ints("before")[static_cast<size_t>(i)]};
    }
  }
  const PaddedAxis& last() const {
    return axes[static_cast<size_t>(padded.rank()) - 1];
  }
  // The row of x that row `r` of y repeats, by its start; negative if row `r` is the constant.
  int64_t RowOf(int64_t r) const {
    int64_t offset = 0;
    int64_t step = last().in;
    for (int i = padded.rank() - 2; i >= 0; --i) {
      const PaddedAxis& axis = axes[static_cast<size_t>(i)];
      const int64_t source = SourceOfPadded(axis, mode, r % padded[i]);
      if (source < 0) return -1;
      offset += source * step;
      step *= axis.in;
      r /= padded[i];
    }
    return offset;
  }

  PadMode mode;
  Shape padded;
  int64_t row;   // elements of a row of y
  int64_t rows;  // of y
  std::array<PaddedAxis, kMaxRank> axes;
};

StepCode RunPad(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& y = launch.outputs[0];
  const Padding p(*launch.attrs, x.shape(), y.shape());
  OnFloat(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T value = static_cast<T>(launch.attrs->Float("value"));
    const PaddedAxis& last = p.last();
    ParallelRanges(
        pool, p.rows, RowsPerChunk(p.row), [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) {
            T* to = y.as<T>() + r * p.row;
            const int64_t offset = p.RowOf(r);
            if (offset < 0) {
              std::fill(to, to + p.row, value);
              continue;
            }
            const T* from = x.as<const T>() + offset;
            const auto put = [&](int64_t first, int64_t behind) {
              for (int64_t i = first; i < behind; ++i) {
                const int64_t source = SourceOfPadded(last, p.mode, i);
                to[i] = source < 0 ? value : from[source];
              }
            };
            put(0, last.before);
            std::memcpy(to + last.before, from,
                        static_cast<size_t>(last.in) * sizeof(T));
            put(last.before + last.in, p.row);
          }
        });
  });
  return StepCode::kOk;
}

// Leading axes without padding are divided among the threads; within the rest, dy is added in
// order.
StepCode RunPadGrad(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& dy = launch.inputs[0];
  const TensorView& dx = launch.outputs[0];
  const Padding p(*launch.attrs, dx.shape(), dy.shape());
  int64_t parts = 1;
  for (int i = 0; i + 1 < dx.shape().rank(); ++i) {
    if (dx.shape()[i] != dy.shape()[i]) break;
    parts *= dx.shape()[i];
  }
  const int64_t rows = p.rows / parts;
  const int64_t size = dx.size() / parts;
  OnFloat(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    ParallelRanges(pool, parts, RowsPerChunk(rows * p.row),
                   [&](int64_t begin, int64_t end) {
                     T* to = dx.as<T>();
                     std::fill(to + begin * size, to + end * size, T(0));
                     for (int64_t r = begin * rows; r < end * rows; ++r) {
                       T* row = to + p.RowOf(r);
                       const T* from = dy.as<const T>() + r * p.row;
                       for (int64_t i = 0; i < p.row; ++i) {
                         row[SourceOfPadded(p.last(), p.mode, i)] += from[i];
                       }
                     }
                   });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel Pad = {.run = RunPad};
constinit const CpuKernel PadGrad = {.run = RunPadGrad};

}  // namespace kernels

}  // namespace stowage::cpu

namespace stowage::cpu::kernels {

// Views own no bytes and have no kernel.

constinit const CpuKernel Reshape = {};
constinit const CpuKernel Permute = {};
constinit const CpuKernel Slice = {};
constinit const CpuKernel Split = {};
constinit const CpuKernel Broadcast = {};
constinit const CpuKernel StopGradient = {};

}  // namespace stowage::cpu::kernels
