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
#include "ir/lines.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;

struct AlongParams {
  const void* x;        // what is taken from, or added to
  const void* updates;  // of put_add
  void* y;
  Indices indices;
  uint32_t count;         // elements of y
  Divisor length, inner;  // of y's lines
  int32_t x_length;
  int32_t indices_length;
  FaultSlot fault;
};

// Element `place` of line (outer, column) of y.
struct Spot {
  STOWAGE_DEVICE Spot(const AlongParams& p, uint32_t unit) {
    const uint32_t row = p.inner.Divide(unit);
    const uint32_t part = p.length.Divide(row);
    column = static_cast<int32_t>(unit - row * p.inner.d);
    place = static_cast<int32_t>(row - part * p.length.d);
    outer = static_cast<int32_t>(part);
  }
  int32_t outer, place, column;
};

STOWAGE_DEVICE uint32_t Unit() {
  return static_cast<uint32_t>(BlockId()) * kThreads +
         static_cast<uint32_t>(ThreadId());
}

// 0 where the index is out of range.
template <typename T>
STOWAGE_KERNEL(kThreads)
TakeKernel(STOWAGE_PARAMS(AlongParams) p) {
  const uint32_t unit = Unit();
  if (unit >= p.count) return;
  const Spot at(p, unit);
  const int64_t index = p.indices.At(unit);
  const bool good = index >= 0 && index < p.x_length;
  if (!good) ReportFault(p.fault);
  const int64_t row = int64_t{at.outer} * p.x_length + (good ? index : 0);
  const auto* x = static_cast<const T*>(p.x);
  static_cast<T*>(p.y)[unit] = good ? x[row * p.inner.d + at.column] : T{0};
}

// y may be x.
template <typename T>
STOWAGE_KERNEL(kThreads)
PutAddKernel(STOWAGE_PARAMS(AlongParams) p) {
  const uint32_t unit = Unit();
  if (unit >= p.count) return;
  const Spot at(p, unit);
  const auto inner = static_cast<int32_t>(p.inner.d);
  const int64_t first =
      int64_t{at.outer} * p.indices_length * inner + at.column;
  const auto* updates = static_cast<const T*>(p.updates) + first;
  Total<T> sum = 0;
  bool good = true;
  for (int32_t i = 0; i < p.indices_length; ++i) {
    const int64_t index = p.indices.At(first + int64_t{i} * inner);
    good = good && index >= 0 && index < p.x_length;
    if (index == at.place) sum += Widen(updates[int64_t{i} * inner]);
  }
  if (!good && at.place == 0) ReportFault(p.fault);
  static_cast<T*>(p.y)[unit] = Sum(static_cast<const T*>(p.x)[unit], sum);
}

AlongParams ParamsOf(const Launch& launch, const Queue& queue) {
  const TensorView& y = launch.outputs[0];
  const int64_t axis = launch.attrs->Int("axis");
  const Lines of_x = Lines::Along(launch.inputs[0].shape(), axis);
  const Lines of_indices = Lines::Along(launch.inputs[1].shape(), axis);
  const Lines of_y = Lines::Along(y.shape(), axis);
  return {.x = launch.inputs[0].data,
          .updates = nullptr,
          .y = y.data,
          .indices = Indices(launch.inputs[1]),
          .count = static_cast<uint32_t>(y.size()),
          .length = Divisor::Of(static_cast<uint32_t>(of_y.length)),
          .inner = Divisor::Of(static_cast<uint32_t>(of_y.inner)),
          .x_length = static_cast<int32_t>(of_x.length),
          .indices_length = static_cast<int32_t>(of_indices.length),
          .fault = queue.fault()};
}

void EnqueueTakeAlongAxis(const Launch& launch, Queue& queue) {
  const AlongParams p = ParamsOf(launch, queue);
  OnWidth(launch.inputs[0].dtype(), [&](auto zero) {
    LaunchKernel(queue, "take_along_axis", TakeKernel<decltype(zero)>, p,
                 {.x = BlocksFor(p.count, kThreads)}, kThreads);
  });
}

void EnqueuePutAdd(const Launch& launch, Queue& queue) {
  AlongParams p = ParamsOf(launch, queue);
  p.updates = launch.inputs[2].data;
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
