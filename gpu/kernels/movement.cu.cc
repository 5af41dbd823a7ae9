// copy, concat, reload and offload, and the strided copy under them: elements of any
// type, as
// integers of their width.

#include "gpu/kernels/movement.h"

#include <cstddef>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/walk.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kY = 0;
constexpr int kX = 1;

// Elements along the sides of a square that is transposed as one.
constexpr int kSquare = 32;
constexpr int kRowsAtOnce = kThreads / kSquare;

// A matrix of which y has the rows, and x the columns, in neighbouring elements.
struct TransposeParams {
  std::byte* data[2];
  Walk<2> matrices;  // over all other axes
  int32_t dim[2];    // along the axis where the operand is contiguous
  int32_t step[2];   // of the operand, along the other axis
  Divisor squares_y, squares_x;  // along dim[kY], dim[kX]
};

template <typename T>
STOWAGE_KERNEL(kThreads)
TransposeKernel(STOWAGE_PARAMS(TransposeParams) p) {
  // A column more, so that neither direction meets one bank again and again.
  STOWAGE_SHARED(T, square, kSquare * (kSquare + 1));
  constexpr int kRow = kSquare + 1;
  const auto block = static_cast<uint32_t>(BlockId());
  const uint32_t rest = p.squares_y.Divide(block);
  const uint32_t matrix = p.squares_x.Divide(rest);
  const int along_y = static_cast<int>(block - rest * p.squares_y.d) * kSquare;
  const int along_x = static_cast<int>(rest - matrix * p.squares_x.d) * kSquare;
  int32_t offset[1][2];
  p.matrices.Locate({matrix}, offset);
  const T* x = reinterpret_cast<const T*>(p.data[kX]) + offset[0][kX];
  T* y = reinterpret_cast<T*>(p.data[kY]) + offset[0][kY];

  const int fast = ThreadId() % kSquare;
  const int slow = ThreadId() / kSquare;
  for (int i = slow; i < kSquare; i += kRowsAtOnce) {
    const int at_x = along_x + fast, at_y = along_y + i;
    if (at_x < p.dim[kX] && at_y < p.dim[kY]) {
      square[i * kRow + fast] = x[at_x + at_y * p.step[kX]];
    }
  }
  SyncThreads();
  for (int i = slow; i < kSquare; i += kRowsAtOnce) {
    const int at_x = along_x + i, at_y = along_y + fast;
    if (at_x < p.dim[kX] && at_y < p.dim[kY]) {
      y[at_y + at_x * p.step[kY]] = square[fast * kRow + i];
    }
  }
}

// The axis along which x is contiguous, where y is so along the innermost one
// and both are long enough for squares; else 0.
int TransposedAxis(const StridedLoop<2>& loop) {
  constexpr int64_t kLong = kSquare / 2;
  if (loop.steps[0][kY] != 1 || loop.steps[0][kX] <= 1) return 0;
  if (loop.dims[0] < kLong) return 0;
  for (int axis = 1; axis < loop.rank; ++axis) {
    if (loop.steps[axis][kX] == 1 && loop.dims[axis] >= kLong) return axis;
  }
  return 0;
}

Divisor SquaresAlong(int64_t dim) {
  return Divisor::Of(BlocksFor(dim, kSquare));
}

template <typename T>
void EnqueueTranspose(const char* name, Queue& queue,
                      const StridedLoop<2>& loop, int axis, std::byte* y,
                      std::byte* x) {
  TransposeParams p = {};
  p.data[kY] = y;
  p.data[kX] = x;
  p.dim[kY] = static_cast<int32_t>(loop.dims[0]);
  p.dim[kX] = static_cast<int32_t>(loop.dims[axis]);
  p.step[kX] = static_cast<int32_t>(loop.steps[0][kX]);
  p.step[kY] = static_cast<int32_t>(loop.steps[axis][kY]);
  p.squares_y = SquaresAlong(loop.dims[0]);
  p.squares_x = SquaresAlong(loop.dims[axis]);
  StridedLoop<2> rest = loop;
  rest.dims[0] = rest.dims[axis] = 1;
  p.matrices = Walk<2>::Over(rest, 1);
  const auto matrices = static_cast<uint32_t>(rest.elements());
  LaunchKernel(queue, name, TransposeKernel<T>, p,
               {.x = matrices * p.squares_y.d * p.squares_x.d}, kThreads);
}

// The last operand to the result. Between the host's memory and the device's both
// are contiguous, and no kernel is wanted.
void EnqueueCopy(const Launch& launch, Queue& queue) {
  CopyStrided("copy", queue, launch.outputs[0], launch.inputs.back());
}

void EnqueueConcat(const Launch& launch, Queue& queue) {
  const TensorView& y = launch.outputs[0];
  const auto axis = static_cast<int>(launch.attrs->Int("axis"));
  TensorView part = y;
  for (const TensorView& x : launch.inputs) {
    part.type.shape = x.shape();
    CopyStrided("concat", queue, part, x);
    part.data += x.shape()[axis] * y.strides[axis] * SizeOf(y.dtype());
  }
}

}  // namespace

void CopyStrided(const char* name, Queue& queue, const TensorView& y,
                 const TensorView& x) {
  if (x.contiguous() && y.contiguous()) {
    if (y.data != x.data) queue.Copy(y.data, x.data, y.type.bytes());
    return;
  }
  OnWidth(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto loop = MergeAxes<2>(y.shape(), {&y.strides, &x.strides});
    if (TransposedAxis(loop) == 0) {
      EnqueueMap<SameFn, T, T>(name, queue, y, {&x});
      return;
    }
    ForEachPiece(loop, [&](const StridedLoop<2>& piece, const auto& first) {
      EnqueueTranspose<T>(name, queue, piece, TransposedAxis(loop),
                          y.data + first[kY] * static_cast<int64_t>(sizeof(T)),
                          x.data + first[kX] * static_cast<int64_t>(sizeof(T)));
    });
  });
}

namespace kernels {

constinit const GpuKernel Copy = {.enqueue = EnqueueCopy,
                                  .supports = SupportsAll};
constinit const GpuKernel Reload = {.enqueue = EnqueueCopy,
                                    .supports = SupportsAll};
constinit const GpuKernel Offload = {.enqueue = EnqueueCopy,
                                     .supports = SupportsAll};
constinit const GpuKernel OffloadUpdate = {.enqueue = EnqueueCopy,
                                           .supports = SupportsAll};
constinit const GpuKernel Concat = {.enqueue = EnqueueConcat,
                                    .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::gpu
