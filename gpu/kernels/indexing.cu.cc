// take_along_axis, put_add: a thread for each element of the result. That of put_add
// goes through all the indices of its line, and adds up, in their order, what is for
// it: no two threads write one element, at the cost of reading a line of indices for
// each of its elements.

#include <cstdint>
#include <string>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/indices.h"
#include "gpu/kernels/totals.h"
#include "gpu/kernels/walk.h"
#include "gpu/simt.h"
#include "ir/element_groups.h"

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

// 0 where the index is out of range.
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
  static_cast<T*>(p.y)[unit] = Sum(static_cast<const T*>(p.base)[unit], sum);
}

// `strides` with none along the axis.
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

// Elements are numbered by 32 bits.
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

}  // namespace

namespace kernels {

constinit const GpuKernel TakeAlongAxis = {
    .enqueue = EnqueueTakeAlongAxis, .supports = SupportsAll, .excess = Excess};
constinit const GpuKernel PutAdd = {
    .enqueue = EnqueuePutAdd, .supports = SupportsNumbers, .excess = Excess};

}  // namespace kernels
}  // namespace stowage::gpu
