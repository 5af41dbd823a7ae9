// copy, concat, reload and offload, by a strided copy of elements of any type as integers
// of their width; and pad with its gradient: a thread per element of the result, which for
// the gradient sums, in a fixed order, the elements of dy that repeat it.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/walk.h"
#include "gpu/simt.h"
#include "ir/windows.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kY = 0;
constexpr int kX = 1;

// The sides of a square that a block transposes.
constexpr int kSquare = 32;
constexpr int kRowsAtOnce = kThreads / kSquare;

// A matrix whose rows are contiguous in y and whose columns are contiguous in x.
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

// The axis along which x is contiguous if y is contiguous along the innermost one and both
// axes are long enough for squares; else 0.
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

// Copies the last operand to the result; between host and device memory both are
// contiguous, which needs no kernel.
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

namespace {

// Axes are numbered from the last.
struct PadParams {
  const std::byte* from;
  std::byte* to;
  Divisor dims[kMaxRank];   // of the result
  int32_t steps[kMaxRank];  // of the operand, in elements
  int32_t in[kMaxRank];     // elements that are not padding
  int32_t before[kMaxRank];
  int32_t after[kMaxRank];
  int32_t rank;
  int32_t mode;
  uint32_t count;  // elements of the result
  float value;
};

STOWAGE_DEVICE int32_t SourceOf(const PadParams& p, int axis, int32_t i) {
  const int32_t n = p.in[axis];
  const int32_t at = i - p.before[axis];
  if (at >= 0 && at < n) return at;
  switch (static_cast<PadMode>(p.mode)) {
    case PadMode::kReflect:
      return at < 0 ? -at : 2 * (n - 1) - at;
    case PadMode::kEdge:
      return at < 0 ? 0 : n - 1;
    default:
      return -1;
  }
}

template <typename T>
STOWAGE_KERNEL(kThreads)
PadKernel(STOWAGE_PARAMS(PadParams) p) {
  const uint32_t unit = static_cast<uint32_t>(BlockId()) * kThreads +
                        static_cast<uint32_t>(ThreadId());
  if (unit >= p.count) return;
  uint32_t rest = unit;
  int32_t offset = 0;
  bool inside = true;
  for (int axis = 0; axis < p.rank; ++axis) {
    const uint32_t above = p.dims[axis].Divide(rest);
    const int32_t source =
        SourceOf(p, axis, static_cast<int32_t>(rest - above * p.dims[axis].d));
    inside = inside && source >= 0;
    offset += source * p.steps[axis];
    rest = above;
  }
  reinterpret_cast<T*>(p.to)[unit] =
      inside ? reinterpret_cast<const T*>(p.from)[offset]
             : FromFloat<T>(p.value);
}

// The number of elements along the axis that repeat element i.
STOWAGE_DEVICE int32_t Repeats(const PadParams& p, int axis, int32_t i) {
  const int32_t n = p.in[axis];
  if (static_cast<PadMode>(p.mode) == PadMode::kEdge) {
    return 1 + (i == 0 ? p.before[axis] : 0) + (i == n - 1 ? p.after[axis] : 0);
  }
  const int32_t from_end = n - 1 - i;
  return 1 + (i >= 1 && i <= p.before[axis] ? 1 : 0) +
         (from_end >= 1 && from_end <= p.after[axis] ? 1 : 0);
}
// The k-th element that repeats element i.
STOWAGE_DEVICE int32_t Repeat(const PadParams& p, int axis, int32_t i,
                              int32_t k) {
  if (static_cast<PadMode>(p.mode) == PadMode::kEdge) {
    return (i == 0 ? 0 : i + p.before[axis]) + k;
  }
  const bool in_front = i >= 1 && i <= p.before[axis];
  if (in_front && k == 0) return p.before[axis] - i;
  if (k == (in_front ? 1 : 0)) return p.before[axis] + i;
  return p.before[axis] + 2 * (p.in[axis] - 1) - i;
}

template <typename T>
STOWAGE_KERNEL(kThreads)
PadGradKernel(STOWAGE_PARAMS(PadParams) p) {
  const uint32_t unit = static_cast<uint32_t>(BlockId()) * kThreads +
                        static_cast<uint32_t>(ThreadId());
  if (unit >= p.count) return;
  float sum = 0;
  int32_t turns = 1;
  for (int32_t turn = 0; turn < turns; ++turn) {
    // The digits of the iteration's number, axis by axis, select the repeats.
    int32_t which = turn;
    int32_t all = 1;
    uint32_t rest = unit;
    int32_t offset = 0;
    for (int axis = 0; axis < p.rank; ++axis) {
      const uint32_t above = p.dims[axis].Divide(rest);
      const auto i = static_cast<int32_t>(rest - above * p.dims[axis].d);
      const int32_t repeats = Repeats(p, axis, i);
      offset += Repeat(p, axis, i, which % repeats) * p.steps[axis];
      which /= repeats;
      all *= repeats;
      rest = above;
    }
    turns = all;
    sum += ToFloat(reinterpret_cast<const T*>(p.from)[offset]);
  }
  reinterpret_cast<T*>(p.to)[unit] = FromFloat<T>(sum);
}

PadParams ParamsOf(const Launch& launch, const Shape& x) {
  const TensorView& from = launch.inputs[0];
  const TensorView& to = launch.outputs[0];
  PadParams p = {};
  p.from = from.data;
  p.to = to.data;
  p.rank = x.rank();
  p.mode = static_cast<int32_t>(launch.attrs->Int("mode"));
  p.count = static_cast<uint32_t>(to.size());
  int64_t step = 1;
  for (int k = 0; k < p.rank; ++k) {
    const int axis = p.rank - 1 - k;
    p.dims[k] = Divisor::Of(static_cast<uint32_t>(to.shape()[axis]));
    p.steps[k] = static_cast<int32_t>(step);
    step *= from.shape()[axis];
    p.in[k] = static_cast<int32_t>(x[axis]);
    const auto at = static_cast<size_t>(axis);
    p.before[k] = static_cast<int32_t>(launch.attrs->Ints("before")[at]);
    p.after[k] = static_cast<int32_t>(launch.attrs->Ints("after")[at]);
  }
  return p;
}

void EnqueuePad(const Launch& launch, Queue& queue) {
  PadParams p = ParamsOf(launch, launch.inputs[0].shape());
  p.value = static_cast<float>(launch.attrs->Float("value"));
  OnFloat(launch.outputs[0].dtype(), [&](auto zero) {
    LaunchKernel(queue, "pad", PadKernel<decltype(zero)>, p,
                 {.x = BlocksFor(p.count, kThreads)}, kThreads);
  });
}

void EnqueuePadGrad(const Launch& launch, Queue& queue) {
  const PadParams p = ParamsOf(launch, launch.outputs[0].shape());
  OnFloat(launch.outputs[0].dtype(), [&](auto zero) {
    LaunchKernel(queue, "pad_grad", PadGradKernel<decltype(zero)>, p,
                 {.x = BlocksFor(p.count, kThreads)}, kThreads);
  });
}

// Element numbers have 32 bits, for the operand of pad and for its result, which has the size
// of dy.
std::string Excess(const OpArgs& args) {
  const bool is_grad = args.op == OpKind::kPadGrad;
  int64_t elements = 1;
  for (int i = 0; i < args.shape(0).rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t pads =
        args.attrs.Ints("before")[at] + args.attrs.Ints("after")[at];
    const int64_t dim = args.shape(0)[i] + (is_grad ? 0 : pads);
    if (dim > (kMaxReach - 1) / elements) {
      return StrCat("padded, ", args.Describe(0), " and has ", kMaxReach,
                    " elements or more; expected fewer");
    }
    elements *= dim;
  }
  return "";
}

}  // namespace

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

constinit const GpuKernel Pad = {.enqueue = EnqueuePad, .excess = Excess};
constinit const GpuKernel PadGrad = {.enqueue = EnqueuePadGrad,
                                     .excess = Excess};

// Views own no bytes and have no kernel.
constinit const GpuKernel Reshape = {};
constinit const GpuKernel Permute = {};
constinit const GpuKernel Slice = {};
constinit const GpuKernel Split = {};
constinit const GpuKernel Broadcast = {};
constinit const GpuKernel StopGradient = {};

}  // namespace kernels
}  // namespace stowage::gpu
