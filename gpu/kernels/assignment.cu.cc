// assign, lerp_update, slice_update: in place of params and states.

#include <cstddef>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/indices.h"
#include "gpu/kernels/movement.h"
#include "gpu/kernels/walk.h"
#include "gpu/simt.h"
#include "math/optimizer.h"

namespace stowage::gpu {
namespace {

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

// x goes to a part of y that begins where the device's own memory says.
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

// `part` is where x goes for a start of 0.
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

constinit const GpuKernel Assign = {.enqueue = EnqueueAssign,
                                    .supports = SupportsAll};
constinit const GpuKernel LerpUpdate = {.enqueue = EnqueueLerpUpdate};
constinit const GpuKernel SliceUpdate = {.enqueue = EnqueueSliceUpdate,
                                         .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::gpu
