// batch_norm and its gradient. A block has a channel to itself, whose elements its
// threads take in turn: once for the mean, once for the variance, once to write.

#include <cmath>

#include "gpu/block_reduce.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/walk.h"
#include "gpu/simt.h"

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

// Where element i of the block's channel is.
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

}  // namespace

namespace kernels {

constinit const GpuKernel BatchNorm = {.enqueue = EnqueueBatchNorm,
                                       .supports = SupportsChannels};
constinit const GpuKernel BatchNormGrad = {.enqueue = EnqueueBatchNormGrad,
                                           .supports = SupportsChannels};

}  // namespace kernels
}  // namespace stowage::gpu
