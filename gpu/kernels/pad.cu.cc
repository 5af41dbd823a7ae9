// pad and its gradient: a thread for each element of the result. For the gradient
// it adds up, in a fixed order, the elements of dy that repeat its own.

#include <cstdint>
#include <string>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/walk.h"
#include "gpu/simt.h"
#include "ir/windows.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;

// Axes are counted from the last.
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

// How many elements along the axis repeat element i.
STOWAGE_DEVICE int32_t Repeats(const PadParams& p, int axis, int32_t i) {
  const int32_t n = p.in[axis];
  if (static_cast<PadMode>(p.mode) == PadMode::kEdge) {
    return 1 + (i == 0 ? p.before[axis] : 0) + (i == n - 1 ? p.after[axis] : 0);
  }
  const int32_t from_end = n - 1 - i;
  return 1 + (i >= 1 && i <= p.before[axis] ? 1 : 0) +
         (from_end >= 1 && from_end <= p.after[axis] ? 1 : 0);
}
// The k-th of them.
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
    // The turn's number, axis by axis, says which of the repeats.
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

// Element numbers are of 32 bits. Of the operand of pad, and of what it is to be:
// dy of its gradient is as large.
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

constinit const GpuKernel Pad = {.enqueue = EnqueuePad, .excess = Excess};
constinit const GpuKernel PadGrad = {.enqueue = EnqueuePadGrad,
                                     .excess = Excess};

}  // namespace kernels
}  // namespace stowage::gpu
