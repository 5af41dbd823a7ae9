// pad and its gradient, a row of the result or of dy at a time.

#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "ir/padding.h"

namespace stowage::cpu {
namespace {

// The axes between x and what is padded.
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
  // Where the row of x begins that row `r` of y repeats; below 0 where that holds
  // the constant.
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

// Leading axes without padding are cut among the threads; within what is left, dy
// is added in its order.
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
