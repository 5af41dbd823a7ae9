// attention and its gradients: which kernels compute them, and o . d_o,
// which all gradients need.

#include "ir/attention.h"

#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/attention_params.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/rows.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "runtime/kernel.h"

namespace stowage::gpu {
namespace {

constexpr int kDeltaThreads = 256;
constexpr int kDeltaRows = kDeltaThreads / kWarpSize;  // of a block

// A warp for every row of d_o, in the order of (B, T, H).
template <typename T>
STOWAGE_KERNEL(kDeltaThreads)
AttentionDelta(STOWAGE_PARAMS(AttentionParams) p) {
  const int64_t row = static_cast<int64_t>(BlockId()) * kDeltaRows + Warp();
  const int head = static_cast<int>(row % p.heads);
  const int time = static_cast<int>(row / p.heads % p.queries);
  const int batch = static_cast<int>(row / p.heads / p.queries);
  if (batch >= p.batch) return;
  const T* o = HeadOf<T>(p.o, batch, head) + time * p.o.row;
  const T* d_o = HeadOf<T>(p.d_o, batch, head) + time * p.d_o.row;
  float sum = 0;
  // Lanes take pairs, so that 16-bit elements are read 4 bytes a lane.
  for (int d = 2 * Lane(); d < p.depth; d += 2 * kWarpSize) {
    sum += ToFloat(o[d]) * ToFloat(d_o[d]);
    if (d + 1 < p.depth) sum += ToFloat(o[d + 1]) * ToFloat(d_o[d + 1]);
  }
  sum = WarpSum(sum);
  if (Lane() == 0) p.delta[StatisticsOf(p, batch, head) + time] = sum;
}

AttentionOperand Operand(const TensorView& x) {
  return {x.data, x.strides[0], x.strides[1], x.strides[2]};
}

// The steps of a bias (B, H, T, S), or of its gradient.
AttentionOperand BiasOperand(const TensorView& x) {
  const auto step = [&](int axis) {
    return x.shape()[axis] == 1 ? 0 : x.strides[axis];
  };
  return {x.data, step(0), step(2), step(1)};
}

bool IsPacked(const AttentionOperand& x, const Shape& shape, DType dtype) {
  const auto aligned = [&](int axis, int64_t stride) {
    return shape[axis] == 1 || stride * SizeOf(dtype) % 16 == 0;
  };
  return reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && aligned(0, x.batch) &&
         aligned(1, x.row) && aligned(2, x.head);
}

// `always` is the number of required operands.
SimtAttentionParams CommonParams(const Launch& launch, size_t always,
                                 const Queue& queue) {
  const TensorView& q = launch.inputs[0];
  const TensorView& k = launch.inputs[1];
  const TensorView& v = launch.inputs[2];
  SimtAttentionParams p;
  p.q = Operand(q);
  p.k = Operand(k);
  p.v = Operand(v);
  p.batch = static_cast<int>(q.shape()[0]);
  p.queries = static_cast<int>(q.shape()[1]);
  p.keys = static_cast<int>(k.shape()[1]);
  p.heads = static_cast<int>(q.shape()[2]);
  p.depth = static_cast<int>(q.shape()[3]);
  p.key_heads = static_cast<int>(k.shape()[2]);
  const AttentionBand band = BandOf(q.shape(), k.shape(), *launch.attrs);
  p.low = static_cast<int>(band.low);
  p.high = static_cast<int>(band.high);
  p.scale = static_cast<float>(launch.attrs->Float("scale"));
  const AttentionOptionals at = OptionalsBehind(
      always, launch.inputs.size(),
      [&](size_t i) -> const TensorType& { return launch.inputs[i].type; });
  if (at.bias != 0) p.bias = BiasOperand(launch.inputs[at.bias]);
  if (at.key_lengths != 0) {
    p.key_lengths = launch.inputs[at.key_lengths].as<const int32_t>();
    p.fault = queue.fault();
  }
  if (at.segments != 0) {
    p.segments = launch.inputs[at.segments].as<const int32_t>();
    p.fault = queue.fault();
  }
  p.packed = p.depth * SizeOf(q.dtype()) % 16 == 0 &&
             IsPacked(p.q, q.shape(), q.dtype()) &&
             IsPacked(p.k, k.shape(), k.dtype()) &&
             IsPacked(p.v, v.shape(), v.dtype());
  return p;
}

bool OnTensorCores(const Launch& launch, const SimtAttentionParams& p) {
  return SizeOf(launch.inputs[0].dtype()) == 2 && p.depth <= kTensorDepth &&
         p.bias.data == nullptr && p.segments == nullptr;
}

// Whether tensor maps can describe the rows; the op's `accepts` excludes steps of 0.
bool OnWarpgroups(const Launch& launch, const SimtAttentionParams& p) {
  return OnTensorCores(launch, p) && p.packed != 0;
}

bool TakesFive(const Launch& launch, const SimtAttentionParams& p) {
  return p.segments == nullptr &&
         TakesFiveProducts(launch.inputs[0].dtype(), p);
}

// An algorithm of a pass: the function that enqueues it, and its condition.
struct TensorPass {
  AttentionAlgorithm algorithm;
  bool (*takes)(const Launch&, const SimtAttentionParams&);
  void (*enqueue)(DType, const AttentionParams&, Queue&);
};
constexpr TensorPass kForward[] = {
    {AttentionAlgorithm::kWarps, OnTensorCores, EnqueueTensorAttention},
    {AttentionAlgorithm::kWarpgroups, OnWarpgroups, EnqueueWarpgroupAttention},
};
constexpr TensorPass kGrad[] = {
    {AttentionAlgorithm::kWarps, OnTensorCores, EnqueueTensorAttentionGrad},
    {AttentionAlgorithm::kWarpgroups, OnWarpgroups,
     EnqueueWarpgroupAttentionGrad},
    {AttentionAlgorithm::kFiveProducts, TakesFive,
     EnqueueFiveProductAttentionGrad},
};

// Enqueues the launch by the algorithm that the queue chooses. False: none supports it.
bool EnqueueOnTensorCores(const Launch& launch,
                          std::span<const TensorPass> passes,
                          const SimtAttentionParams& p, Queue& queue) {
  AttentionAlgorithms algorithms;
  for (const TensorPass& pass : passes) {
    if (pass.takes(launch, p)) algorithms.Add(pass.algorithm);
  }
  if (algorithms.empty()) return false;
  const AttentionAlgorithm algorithm =
      queue.ChooseAttention(launch, algorithms);
  for (const TensorPass& pass : passes) {
    if (pass.algorithm == algorithm)
      pass.enqueue(launch.inputs[0].dtype(), p, queue);
  }
  return true;
}

void EnqueueAttention(const Launch& launch, Queue& queue) {
  const TensorView& q = launch.inputs[0];
  SimtAttentionParams p = CommonParams(launch, kAttentionOperands, queue);
  p.out[0] = launch.outputs[0].data;
  p.out_row[0] = q.shape()[2] * q.shape()[3];
  p.log_sum_exp = launch.outputs[1].as<float>();
  if (EnqueueOnTensorCores(launch, kForward, p, queue)) return;
  EnqueueSimtAttention(q.dtype(), p, queue);
}

// dq, dk and dv, separate or adjacent in one result. The gradient of the bias takes dq's place.
void SetResults(const Launch& launch, AttentionParams* p) {
  const bool together = launch.op == OpKind::kAttentionQkvGrad;
  std::byte* data = launch.outputs[0].data;
  for (size_t i = 0; i < kAttentionOperands; ++i) {
    const Shape& shape = launch.inputs[i].shape();
    const int64_t row = shape[2] * shape[3];
    p->out_row[i] = together ? launch.outputs[0].shape().back() : row;
    if (together) {
      p->out[i] = data;
      data += row * SizeOf(launch.inputs[i].dtype());
    } else if (i < launch.outputs.size()) {
      p->out[i] = launch.outputs[i].data;
    }
  }
}

// The params of gradients; enqueues o . d_o.
SimtAttentionParams GradParams(const Launch& launch, Queue& queue) {
  const TensorView& q = launch.inputs[0];
  const TensorView& d_o = launch.inputs[5];
  SimtAttentionParams p = CommonParams(launch, kAttentionGradOperands, queue);
  p.o = Operand(launch.inputs[3]);
  p.d_o = Operand(d_o);
  p.packed = p.packed && IsPacked(p.d_o, d_o.shape(), d_o.dtype());
  SetResults(launch, &p);
  p.log_sum_exp = launch.inputs[4].as<float>();
  p.delta = reinterpret_cast<float*>(launch.workspace.data());
  const int64_t rows = static_cast<int64_t>(p.batch) * p.queries * p.heads;
  OnFloat(q.dtype(), [&](auto zero) {
    LaunchKernel(queue, "attention grad, o . d_o",
                 AttentionDelta<decltype(zero)>, p,
                 {.x = BlocksFor(rows, kDeltaRows)}, kDeltaThreads);
  });
  return p;
}

void EnqueueAttentionGrad(const Launch& launch, Queue& queue) {
  const SimtAttentionParams p = GradParams(launch, queue);
  if (EnqueueOnTensorCores(launch, kGrad, p, queue)) return;
  EnqueueSimtAttentionGrad(launch.inputs[0].dtype(), p, queue);
}

void EnqueueAttentionBiasGrad(const Launch& launch, Queue& queue) {
  const AttentionOperand d_bias = BiasOperand(launch.outputs[0]);
  EnqueueSimtAttentionBiasGrad(launch.inputs[0].dtype(),
                               {.attention = GradParams(launch, queue),
                                .batch = d_bias.batch,
                                .row = d_bias.row,
                                .head = d_bias.head},
                               queue);
}

// Workspace of delta; if it overflows 64 bits, more than any plan can hold.
Bytes GradWorkspace(const OpArgs& args, std::span<const TensorType>) {
  const TensorType& log_sum_exp = args.type(4);
  return CheckedMul(log_sum_exp.shape.num_elements(), sizeof(float))
      .value_or(std::numeric_limits<Bytes>::max());
}

std::string Excess(const OpArgs& args) {
  const int64_t depth = args.shape(0)[3];
  if (depth <= kSimtDepth) return "";
  return StrCat("a head of ", Quoted(args.names[0]), " has ", depth,
                " elements; expected at most ", kSimtDepth);
}

}  // namespace

namespace kernels {

constinit const GpuKernel Attention = {
    .enqueue = EnqueueAttention, .excess = Excess, .lacks = LacksSoftcap};
constinit const GpuKernel AttentionGrad = {.enqueue = EnqueueAttentionGrad,
                                           .workspace = GradWorkspace,
                                           .excess = Excess,
                                           .lacks = LacksSoftcap};
constinit const GpuKernel AttentionQkvGrad = {.enqueue = EnqueueAttentionGrad,
                                              .workspace = GradWorkspace,
                                              .excess = Excess,
                                              .lacks = LacksSoftcap};
constinit const GpuKernel AttentionBiasGrad = {
    .enqueue = EnqueueAttentionBiasGrad,
    .workspace = GradWorkspace,
    .excess = Excess,
    .lacks = LacksSoftcap};

}  // namespace kernels
}  // namespace stowage::gpu
