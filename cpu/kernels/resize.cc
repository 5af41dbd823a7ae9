// resize and its gradient. A plane is what the spatial axes span, for one example
// and channel; a row of it is mixed from at most four, whole registers at a time,
// before its elements are.

#include <algorithm>
#include <array>
#include <span>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/vec.h"
#include "math/resampling.h"

namespace stowage::cpu {
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
          // Where the weight is 0 there may be no other.
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
