// local_response_norm and its gradient: a thread goes along the channels of each
// position. What later channels need of earlier ones is in shared memory, so that
// results may lie over the operands.

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/simt.h"
#include "ir/element_groups.h"
#include "ir/windows.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 128;
// Floats of shared memory that every GPU gives a block.
constexpr int64_t kShared = (48 << 10) / sizeof(float);

struct NormParams {
  const void* x;
  const void* dy;  // of the gradient alone
  void* to;
  int64_t positions, channels, inner;
  int32_t before, after;
  int32_t of_block;  // positions
  float scale;       // alpha / size
  float beta, bias;
};

// Numbers of the last `size` channels, for one position; `step` apart.
struct Ring {
  float* data;
  int32_t size, step;
  int32_t held = 0, next = 0;

  STOWAGE_DEVICE void Push(float value) {
    data[next * step] = value;
    next = next + 1 == size ? 0 : next + 1;
    held = held == size ? size : held + 1;
  }
  // Of a ring that is full.
  STOWAGE_DEVICE float Oldest() const { return data[next * step]; }
  // In the order in which they came.
  STOWAGE_DEVICE float Sum() const {
    int32_t at = held == size ? next : 0;
    float sum = 0;
    for (int32_t i = 0; i < held; ++i) {
      sum += data[at * step];
      at = at + 1 == size ? 0 : at + 1;
    }
    return sum;
  }
};

// b^-beta. At 0.75, as the nets of that time have it, by two roots.
STOWAGE_DEVICE float Power(float b, float beta) {
  if (beta == 0.75f) {
    const float root = ::sqrtf(b);
    return 1 / (root * ::sqrtf(root));
  }
  return ::powf(b, -beta);
}

// The place of this thread's position in channel 0.
STOWAGE_DEVICE bool Find(const NormParams& p, int64_t* offset) {
  const int64_t position = int64_t{BlockId()} * p.of_block + ThreadId();
  if (ThreadId() >= p.of_block || position >= p.positions) return false;
  const int64_t example = position / p.inner;
  *offset = position + example * (p.channels - 1) * p.inner;
  return true;
}

STOWAGE_DEVICE Ring RingOf(const NormParams& p, int32_t size, int32_t first) {
  return {DynamicShared<float>() + first * p.of_block + ThreadId(), size,
          p.of_block};
}

// `to` may be x: a channel is overwritten once its square is in the ring.
template <typename T>
STOWAGE_KERNEL(kThreads)
LocalResponseKernel(STOWAGE_PARAMS(NormParams) p) {
  int64_t offset;
  if (!Find(p, &offset)) return;
  const T* x = static_cast<const T*>(p.x) + offset;
  T* y = static_cast<T*>(p.to) + offset;
  Ring squares = RingOf(p, p.before + 1 + p.after, 0);
  for (int64_t next = 0; next < p.channels + p.after; ++next) {
    const float ahead = next < p.channels ? ToFloat(x[next * p.inner]) : 0.0f;
    squares.Push(ahead * ahead);
    const int64_t at = (next - p.after) * p.inner;
    if (at < 0) continue;
    const float base = ::fmaf(squares.Sum(), p.scale, p.bias);
    y[at] = FromFloat<T>(ToFloat(x[at]) * Power(base, p.beta));
  }
}

// With b the base of each channel's power and u = dy b^-beta,
//   dx = u - 2 beta alpha / size x sum(u x / b),
// the sum over the channels whose windows have this one: the same window, turned
// round. `to` may be x or dy: a channel is written when no base needs it any more.
template <typename T>
STOWAGE_KERNEL(kThreads)
LocalResponseGradKernel(STOWAGE_PARAMS(NormParams) p) {
  int64_t offset;
  if (!Find(p, &offset)) return;
  const T* x = static_cast<const T*>(p.x) + offset;
  const T* dy = static_cast<const T*>(p.dy) + offset;
  T* dx = static_cast<T*>(p.to) + offset;
  const int32_t length = p.before + 1 + p.after;
  Ring shares = RingOf(p, length, 0);             // u x / b
  Ring scaled = RingOf(p, p.before + 1, length);  // u
  const float factor = -2 * p.beta * p.scale;
  for (int64_t next = 0; next < p.channels + p.before; ++next) {
    float u = 0;
    float share = 0;
    if (next < p.channels) {
      const int64_t behind = next - p.before;
      const int64_t end = next + p.after + 1;
      float sum = 0;
      for (int64_t i = behind < 0 ? 0 : behind;
           i < (end < p.channels ? end : p.channels); ++i) {
        const float v = ToFloat(x[i * p.inner]);
        sum = ::fmaf(v, v, sum);
      }
      const float base = ::fmaf(sum, p.scale, p.bias);
      const int64_t at = next * p.inner;
      u = ToFloat(dy[at]) * Power(base, p.beta);
      share = u * ToFloat(x[at]) / base;
    }
    scaled.Push(u);
    shares.Push(share);
    const int64_t at = (next - p.before) * p.inner;
    if (at < 0) continue;
    dx[at] = FromFloat<T>(
        ::fmaf(ToFloat(x[at]) * factor, shares.Sum(), scaled.Oldest()));
  }
}

int64_t RowsOf(OpKind op, ChannelWindow window) {
  const bool is_grad = op == OpKind::kLocalResponseNormGrad;
  return window.length() + (is_grad ? window.before + 1 : 0);
}

void Enqueue(const Launch& launch, Queue& queue) {
  const bool is_grad = launch.op == OpKind::kLocalResponseNormGrad;
  const TensorView& x = launch.inputs[0];
  const Attrs& attrs = *launch.attrs;
  const AxisLines lines = AxisLines::Along(x.shape(), 1);
  const int64_t size = attrs.Int("size");
  const ChannelWindow window = ChannelWindow::Of(size, lines.length);
  const int64_t rows = RowsOf(launch.op, window);
  const auto of_block =
      static_cast<int32_t>(std::min<int64_t>(kThreads, kShared / rows));
  const NormParams p = {.x = x.data,
                        .dy = is_grad ? launch.inputs[1].data : nullptr,
                        .to = launch.outputs[0].data,
                        .positions = lines.outer * lines.inner,
                        .channels = lines.length,
                        .inner = lines.inner,
                        .before = static_cast<int32_t>(window.before),
                        .after = static_cast<int32_t>(window.after),
                        .of_block = of_block,
                        .scale = static_cast<float>(attrs.Float("alpha") /
                                                    static_cast<double>(size)),
                        .beta = static_cast<float>(attrs.Float("beta")),
                        .bias = static_cast<float>(attrs.Float("bias"))};
  OnFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    LaunchKernel(queue, OpName(launch.op).data(),
                 is_grad ? LocalResponseGradKernel<T> : LocalResponseKernel<T>,
                 p, {.x = BlocksFor(p.positions, of_block)}, kThreads,
                 static_cast<uint32_t>(rows * of_block * sizeof(float)));
  });
}

// A position's numbers must fit a block's shared memory.
std::string Excess(const OpArgs& args) {
  const int64_t size = args.attrs.Int("size");
  const int64_t channels = args.shape(0)[1];
  const int64_t rows = RowsOf(args.op, ChannelWindow::Of(size, channels));
  if (rows <= kShared) return "";
  return StrCat("size ", size, " among ", channels, " channels takes ", rows,
                " numbers of shared memory; expected at most ", kShared);
}

}  // namespace

namespace kernels {

constinit const GpuKernel LocalResponseNorm = {.enqueue = Enqueue,
                                               .excess = Excess};
constinit const GpuKernel LocalResponseNormGrad = {.enqueue = Enqueue,
                                                   .excess = Excess};

}  // namespace kernels
}  // namespace stowage::gpu
