// take_along_axis and put_add: a thread per element of the result. A thread of put_add reads
// all indices of its line and sums, in their order, the values for its element: no two
// threads write one element, at the cost of reading a line of indices per element.
//
// assign, lerp_update and slice_update: in place of params and states.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/walk.h"
#include "gpu/simt.h"
#include "ir/element_groups.h"
#include "math/optimizer.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;

struct TakeParams {
  const void* x;
  void* y;
  Indices indices;
  uint32_t count;  // elements of y
  Walk<2>
      walk;  // over y: of the indices, and to the first elements of x's lines
  int32_t length;  // of x's lines
  int32_t step;    // along them
  FaultSlot fault;
};

struct PutParams {
  const void* base;
  const void* updates;
  void* y;
  Indices indices;
  uint32_t count;         // elements of y
  Divisor length, inner;  // of y's lines
  Walk<2> lines;          // to the first indices and updates of each
  int32_t put;            // indices of a line
  int32_t index_step, update_step;
  FaultSlot fault;
};

STOWAGE_DEVICE uint32_t Unit() {
  return static_cast<uint32_t>(BlockId()) * kThreads +
         static_cast<uint32_t>(ThreadId());
}

// 0 if the index is out of range.
template <typename T>
STOWAGE_KERNEL(kThreads)
TakeKernel(STOWAGE_PARAMS(TakeParams) p) {
  const uint32_t unit = Unit();
  if (unit >= p.count) return;
  int32_t at[1][2];
  p.walk.Locate({unit}, at);
  const int64_t index = p.indices.At(at[0][0]);
  const bool good = index >= 0 && index < p.length;
  if (!good) ReportFault(p.fault);
  const int64_t place = at[0][1] + (good ? index : 0) * p.step;
  static_cast<T*>(p.y)[unit] = good ? static_cast<const T*>(p.x)[place] : T{0};
}

// y may be the base.
template <typename T>
STOWAGE_KERNEL(kThreads)
PutAddKernel(STOWAGE_PARAMS(PutParams) p) {
  const uint32_t unit = Unit();
  if (unit >= p.count) return;
  const uint32_t row = p.inner.Divide(unit);
  const uint32_t part = p.length.Divide(row);
  const uint32_t column = unit - row * p.inner.d;
  const auto own = static_cast<int32_t>(row - part * p.length.d);
  int32_t first[1][2];
  p.lines.Locate({part * p.inner.d + column}, first);
  const auto* updates = static_cast<const T*>(p.updates) + first[0][1];
  Total<T> sum = 0;
  bool good = true;
  for (int32_t i = 0; i < p.put; ++i) {
    const int64_t index = p.indices.At(first[0][0] + int64_t{i} * p.index_step);
    good = good && index >= 0 && index < p.length.d;
    if (index == own) sum += Widen(updates[int64_t{i} * p.update_step]);
  }
  if (!good && own == 0) ReportFault(p.fault);
  static_cast<T*>(p.y)[unit] =
      AddTotal(static_cast<const T*>(p.base)[unit], sum);
}

// `strides` with 0 along the axis.
Strides StepsToLines(Strides strides, int axis) {
  strides[axis] = 0;
  return strides;
}

void EnqueueTakeAlongAxis(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const TensorView& indices = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  const auto axis = static_cast<int>(launch.attrs->Int("axis"));
  const Strides lines = StepsToLines(x.strides, axis);
  const TakeParams p = {
      .x = x.data,
      .y = y.data,
      .indices = Indices(indices),
      .count = static_cast<uint32_t>(y.size()),
      .walk =
          Walk<2>::Over(MergeAxes<2>(y.shape(), {&indices.strides, &lines}), 1),
      .length = static_cast<int32_t>(x.shape()[axis]),
      .step = static_cast<int32_t>(x.strides[axis]),
      .fault = queue.fault()};
  OnWidth(launch.inputs[0].dtype(), [&](auto zero) {
    LaunchKernel(queue, "take_along_axis", TakeKernel<decltype(zero)>, p,
                 {.x = BlocksFor(p.count, kThreads)}, kThreads);
  });
}

void EnqueuePutAdd(const Launch& launch, Queue& queue) {
  const TensorView& indices = launch.inputs[1];
  const TensorView& updates = launch.inputs[2];
  const TensorView& y = launch.outputs[0];
  const auto axis = static_cast<int>(launch.attrs->Int("axis"));
  const AxisLines of_y = AxisLines::Along(y.shape(), axis);
  Shape lines = y.shape();
  lines[axis] = 1;
  const PutParams p = {
      .base = launch.inputs[0].data,
      .updates = updates.data,
      .y = y.data,
      .indices = Indices(indices),
      .count = static_cast<uint32_t>(y.size()),
      .length = Divisor::Of(static_cast<uint32_t>(of_y.length)),
      .inner = Divisor::Of(static_cast<uint32_t>(of_y.inner)),
      .lines = Walk<2>::Over(
          MergeAxes<2>(lines, {&indices.strides, &updates.strides}), 1),
      .put = static_cast<int32_t>(indices.shape()[axis]),
      .index_step = static_cast<int32_t>(indices.strides[axis]),
      .update_step = static_cast<int32_t>(updates.strides[axis]),
      .fault = queue.fault()};
  OnNumber(launch.outputs[0].dtype(), [&](auto zero) {
    LaunchKernel(queue, "put_add", PutAddKernel<decltype(zero)>, p,
                 {.x = BlocksFor(p.count, kThreads)}, kThreads);
  });
}

// Element numbers have 32 bits.
std::string Excess(const OpArgs& args) {
  for (const int i : {0, 1}) {
    const int64_t elements = args.shape(i).num_elements();
    if (elements >= kMaxReach) {
      return StrCat(args.Describe(i), " and has ", elements,
                    " elements; expected fewer than ", kMaxReach);
    }
  }
  return "";
}

// --- assign, lerp_update, slice_update ---------------------------------------

struct LerpFn {
  STOWAGE_DEVICE float operator()(float target, float x, float weight) const {
    return math::SkipsUpdate(weight) ? target : target + weight * (x - target);
  }
};

void EnqueueAssign(const Launch& launch, Queue& queue) {
  CopyStrided("assign", queue, launch.outputs[0], launch.inputs[1]);
}

void EnqueueLerpUpdate(const Launch& launch, Queue& queue) {
  OnFloat(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    EnqueueMap<LerpFn, T, T, T, T>(
        "lerp_update", queue, launch.outputs[0],
        {&launch.inputs[0], &launch.inputs[1], &launch.inputs[2]});
  });
}

constexpr int kPlaceThreads = 256;

struct PlaceParams {
  std::byte* y;  // its element 0 for a start of 0
  const std::byte* x;
  Walk<2> walk;  // of y and x
  int64_t count;
  Indices start;
  int64_t places;  // where x may start
  int64_t step;    // of y, from place to place, in elements
  FaultSlot fault;
};

// Copies x to a part of y whose start is in device memory.
template <typename T>
STOWAGE_KERNEL(kPlaceThreads)
PlaceKernel(STOWAGE_PARAMS(PlaceParams) p) {
  const int64_t i = int64_t{BlockId()} * kPlaceThreads + ThreadId();
  if (i >= p.count) return;
  const int64_t start = p.start.At(0);
  if (start < 0 || start >= p.places) {
    if (i == 0) ReportFault(p.fault);
    return;
  }
  int32_t offset[1][2];
  p.walk.Locate({static_cast<uint32_t>(i)}, offset);
  reinterpret_cast<T*>(p.y)[offset[0][0] + start * p.step] =
      reinterpret_cast<const T*>(p.x)[offset[0][1]];
}

// `part` is the part of y for a start of 0.
void EnqueuePlace(const TensorView& part, const TensorView& x,
                  const TensorView& start, int64_t places, int64_t step,
                  Queue& queue) {
  const auto loop = MergeAxes<2>(x.shape(), {&part.strides, &x.strides});
  OnWidth(part.dtype(), [&](auto zero) {
    using T = decltype(zero);
    ForEachPiece(loop, [&](const StridedLoop<2>& piece, const auto& first) {
      constexpr auto kSize = static_cast<int64_t>(sizeof(T));
      const PlaceParams params = {.y = part.data + first[0] * kSize,
                                  .x = x.data + first[1] * kSize,
                                  .walk = Walk<2>::Over(piece, 1),
                                  .count = piece.elements(),
                                  .start = Indices(start),
                                  .places = places,
                                  .step = step,
                                  .fault = queue.fault()};
      LaunchKernel(queue, "slice_update", PlaceKernel<T>, params,
                   {.x = BlocksFor(params.count, kPlaceThreads)},
                   kPlaceThreads);
    });
  });
}

void EnqueueSliceUpdate(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[1];
  TensorView part = launch.outputs[0];
  const auto axis = static_cast<int>(launch.attrs->Int("axis"));
  const int64_t places =
      part.shape()[axis] - x.shape()[axis] - launch.attrs->Int("start") + 1;
  part.data +=
      launch.attrs->Int("start") * part.strides[axis] * SizeOf(part.dtype());
  part.type.shape = x.shape();
  if (launch.inputs.size() == 3) {
    return EnqueuePlace(part, x, launch.inputs[2], places, part.strides[axis],
                        queue);
  }
  CopyStrided("slice_update", queue, part, x);
}

}  // namespace

namespace kernels {

constinit const GpuKernel TakeAlongAxis = {
    .enqueue = EnqueueTakeAlongAxis, .supports = SupportsAll, .excess = Excess};
constinit const GpuKernel PutAdd = {
    .enqueue = EnqueuePutAdd, .supports = SupportsNumbers, .excess = Excess};

constinit const GpuKernel Assign = {.enqueue = EnqueueAssign,
                                    .supports = SupportsAll};
constinit const GpuKernel LerpUpdate = {.enqueue = EnqueueLerpUpdate};
constinit const GpuKernel SliceUpdate = {.enqueue = EnqueueSliceUpdate,
                                         .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::gpu
