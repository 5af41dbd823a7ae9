// batch_norm, local_response_norm and their gradients.
//
// batch_norm: a block per channel reads its elements three times: for the mean, for the
// variance, to write.
//
// local_response_norm: a thread per position goes along its channels. The values that later
// channels need of earlier ones are in shared memory, so results may overwrite operands.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/rows.h"
#include "gpu/kernels/walk.h"
#include "gpu/simt.h"
#include "ir/element_groups.h"
#include "ir/windows.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 512;

struct NormParams {
  const void* x;
  const void* gamma;
  const void* beta;
  void* y;
  float* mean;
  float* variance;
  Divisor length;  // of a run: neighbouring elements of a channel
  int64_t stride;  // from one run of a channel to the next
  int32_t n;       // elements of a channel
  float eps;
};

struct NormGradParams {
  const void* x;
  const void* gamma;
  const float* mean;
  const float* variance;
  const void* dy;
  void* dx;
  void* dgamma;
  void* dbeta;
  Divisor length;
  int64_t stride;
  int32_t n;
  float eps;
};

// The place of element i of the block's channel.
template <typename Params>
STOWAGE_DEVICE int64_t Place(const Params& p, int32_t i) {
  const uint32_t run = p.length.Divide(static_cast<uint32_t>(i));
  return run * p.stride + int64_t{BlockId()} * p.length.d +
         (static_cast<uint32_t>(i) - run * p.length.d);
}

template <typename T>
STOWAGE_KERNEL(kThreads)
NormChannels(STOWAGE_PARAMS(NormParams) p) {
  STOWAGE_SHARED(float, scratch, kWarpSize);
  const T* x = static_cast<const T*>(p.x);
  T* y = static_cast<T*>(p.y);
  const auto inverse_n = 1 / static_cast<float>(p.n);
  float sum = 0;
  for (int32_t i = ThreadId(); i < p.n; i += kThreads) {
    sum += ToFloat(x[Place(p, i)]);
  }
  const float mean = BlockSum(sum, &scratch[0]) * inverse_n;
  float squares = 0;
  for (int32_t i = ThreadId(); i < p.n; i += kThreads) {
    const float centred = ToFloat(x[Place(p, i)]) - mean;
    squares = fmaf(centred, centred, squares);
  }
  const float variance = BlockSum(squares, &scratch[0]) * inverse_n;
  const float factor = ToFloat(static_cast<const T*>(p.gamma)[BlockId()]) /
                       sqrtf(variance + p.eps);
  const float beta = ToFloat(static_cast<const T*>(p.beta)[BlockId()]);
  for (int32_t i = ThreadId(); i < p.n; i += kThreads) {
    const int64_t at = Place(p, i);
    y[at] = FromFloat<T>(fmaf(ToFloat(x[at]) - mean, factor, beta));
  }
  if (ThreadId() == 0) {
    p.mean[BlockId()] = mean;
    p.variance[BlockId()] = variance;
  }
}

template <typename T>
STOWAGE_KERNEL(kThreads)
NormChannelsGrad(STOWAGE_PARAMS(NormGradParams) p) {
  STOWAGE_SHARED(float, scratch, kWarpSize);
  const T* x = static_cast<const T*>(p.x);
  const T* dy = static_cast<const T*>(p.dy);
  T* dx = static_cast<T*>(p.dx);
  const float mean = p.mean[BlockId()];
  const float rstd = 1 / sqrtf(p.variance[BlockId()] + p.eps);
  float sum = 0;
  float products = 0;
  for (int32_t i = ThreadId(); i < p.n; i += kThreads) {
    const int64_t at = Place(p, i);
    const float d = ToFloat(dy[at]);
    sum += d;
    products = fmaf(d, (ToFloat(x[at]) - mean) * rstd, products);
  }
  sum = BlockSum(sum, &scratch[0]);
  products = BlockSum(products, &scratch[0]);
  const auto inverse_n = 1 / static_cast<float>(p.n);
  const float factor =
      ToFloat(static_cast<const T*>(p.gamma)[BlockId()]) * rstd;
  const float mean_dy = sum * inverse_n;
  const float mean_dy_h = products * inverse_n;
  for (int32_t i = ThreadId(); i < p.n; i += kThreads) {
    const int64_t at = Place(p, i);
    const float h = (ToFloat(x[at]) - mean) * rstd;
    dx[at] = FromFloat<T>(factor * (ToFloat(dy[at]) - mean_dy - h * mean_dy_h));
  }
  if (ThreadId() == 0) {
    static_cast<T*>(p.dgamma)[BlockId()] = FromFloat<T>(products);
    static_cast<T*>(p.dbeta)[BlockId()] = FromFloat<T>(sum);
  }
}

// Elements of a channel, and of one of its runs.
int64_t ChannelSize(const Shape& x) { return x.num_elements() / x[1]; }
int64_t RunLength(const Shape& x) { return ChannelSize(x) / x[0]; }

template <typename Params>
void FillPlaces(const Shape& x, const Launch& launch, Params* p) {
  p->length = Divisor::Of(static_cast<uint32_t>(RunLength(x)));
  p->stride = RunLength(x) * x[1];
  p->n = static_cast<int32_t>(ChannelSize(x));
  p->eps = static_cast<float>(launch.attrs->Float("eps"));
}

void EnqueueBatchNorm(const Launch& launch, Queue& queue) {
  const Shape& shape = launch.inputs[0].shape();
  NormParams p = {};
  p.x = launch.inputs[0].data;
  p.gamma = launch.inputs[1].data;
  p.beta = launch.inputs[2].data;
  p.y = launch.outputs[0].data;
  p.mean = launch.outputs[1].as<float>();
  p.variance = launch.outputs[2].as<float>();
  FillPlaces(shape, launch, &p);
  OnFloat(launch.inputs[0].dtype(), [&](auto zero) {
    LaunchKernel(queue, "batch_norm", NormChannels<decltype(zero)>, p,
                 {.x = static_cast<uint32_t>(shape[1])}, kThreads);
  });
}

void EnqueueBatchNormGrad(const Launch& launch, Queue& queue) {
  const Shape& shape = launch.inputs[0].shape();
  NormGradParams p = {};
  p.x = launch.inputs[0].data;
  p.gamma = launch.inputs[1].data;
  p.mean = launch.inputs[2].as<const float>();
  p.variance = launch.inputs[3].as<const float>();
  p.dy = launch.inputs[4].data;
  p.dx = launch.outputs[0].data;
  p.dgamma = launch.outputs[1].data;
  p.dbeta = launch.outputs[2].data;
  FillPlaces(shape, launch, &p);
  OnFloat(launch.inputs[0].dtype(), [&](auto zero) {
    LaunchKernel(queue, "batch_norm_grad", NormChannelsGrad<decltype(zero)>, p,
                 {.x = static_cast<uint32_t>(shape[1])}, kThreads);
  });
}

// Places in a channel are counted in 31 bits.
bool SupportsChannels(const OpArgs& args) {
  return IsComputedFloat(args.type(0).dtype) &&
         ChannelSize(args.shape(0)) < int64_t{1} << 31;
}

// --- local_response_norm -----------------------------------------------------

constexpr int kResponseThreads = 128;
// Floats of shared memory that every GPU provides to a block.
constexpr int64_t kShared = (48 << 10) / sizeof(float);

struct ResponseParams {
  const void* x;
  const void* dy;  // of the gradient alone
  void* to;
  int64_t positions, channels, inner;
  int32_t before, after;
  int32_t of_block;  // positions
  float scale;       // alpha / size
  float beta, bias;
};

// A ring of the last `size` channels' numbers of one position, `step` apart.
struct Ring {
  float* data;
  int32_t size, step;
  int32_t held = 0, next = 0;

  STOWAGE_DEVICE void Push(float value) {
    data[next * step] = value;
    next = next + 1 == size ? 0 : next + 1;
    held = held == size ? size : held + 1;
  }
  // The sum of a full ring.
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

// b^-beta, by two square roots for the common beta of 0.75.
STOWAGE_DEVICE float Power(float b, float beta) {
  if (beta == 0.75f) {
    const float root = ::sqrtf(b);
    return 1 / (root * ::sqrtf(root));
  }
  return ::powf(b, -beta);
}

// The place of this thread's position in channel 0.
STOWAGE_DEVICE bool Find(const ResponseParams& p, int64_t* offset) {
  const int64_t position = int64_t{BlockId()} * p.of_block + ThreadId();
  if (ThreadId() >= p.of_block || position >= p.positions) return false;
  const int64_t example = position / p.inner;
  *offset = position + example * (p.channels - 1) * p.inner;
  return true;
}

STOWAGE_DEVICE Ring RingOf(const ResponseParams& p, int32_t size,
                           int32_t first) {
  return {DynamicShared<float>() + first * p.of_block + ThreadId(), size,
          p.of_block};
}

// `to` may be x: a channel is overwritten once its square is in the ring.
template <typename T>
STOWAGE_KERNEL(kResponseThreads)
LocalResponseKernel(STOWAGE_PARAMS(ResponseParams) p) {
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
// the sum over the channels whose windows contain this one: the mirrored window. `to` may be
// x or dy: a channel is written when no base needs it any more.
template <typename T>
STOWAGE_KERNEL(kResponseThreads)
LocalResponseGradKernel(STOWAGE_PARAMS(ResponseParams) p) {
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
      static_cast<int32_t>(std::min<int64_t>(kResponseThreads, kShared / rows));
  const ResponseParams p = {
      .x = x.data,
      .dy = is_grad ? launch.inputs[1].data : nullptr,
      .to = launch.outputs[0].data,
      .positions = lines.outer * lines.inner,
      .channels = lines.length,
      .inner = lines.inner,
      .before = static_cast<int32_t>(window.before),
      .after = static_cast<int32_t>(window.after),
      .of_block = of_block,
      .scale =
          static_cast<float>(attrs.Float("alpha") / static_cast<double>(size)),
      .beta = static_cast<float>(attrs.Float("beta")),
      .bias = static_cast<float>(attrs.Float("bias"))};
  OnFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    LaunchKernel(queue, OpName(launch.op).data(),
                 is_grad ? LocalResponseGradKernel<T> : LocalResponseKernel<T>,
                 p, {.x = BlocksFor(p.positions, of_block)}, kResponseThreads,
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

constinit const GpuKernel BatchNorm = {.enqueue = EnqueueBatchNorm,
                                       .supports = SupportsChannels};
constinit const GpuKernel BatchNormGrad = {.enqueue = EnqueueBatchNormGrad,
                                           .supports = SupportsChannels};

constinit const GpuKernel LocalResponseNorm = {.enqueue = Enqueue,
                                               .excess = Excess};
constinit const GpuKernel LocalResponseNormGrad = {.enqueue = Enqueue,
                                                   .excess = Excess};

}  // namespace kernels
}  // namespace stowage::gpu
