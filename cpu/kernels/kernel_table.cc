#include "cpu/kernels/kernel_table.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/strided.h"
#include "ir/op_def.h"

namespace stowage::cpu {
namespace {

#if defined(__AVX512F__)
[[maybe_unused]] constexpr std::string_view kVectors = "AVX-512";
#elif defined(__AVX2__) && defined(__FMA__)
[[maybe_unused]] constexpr std::string_view kVectors = "AVX2";
#elif defined(__aarch64__)
[[maybe_unused]] constexpr std::string_view kVectors = "NEON";
#else
[[maybe_unused]] constexpr std::string_view kVectors = "SSE";
#endif

constexpr std::array<const CpuKernel*, kNumOps> kOfOps = {
#define STOWAGE_OP(kind, name) &kernels::kind,
#include "ir/ops.def"
#undef STOWAGE_OP
};

#ifdef STOWAGE_CPU_BF16_PAIRS
constexpr std::array<const CpuKernel*, kNumOps> WithPairs() {
  auto of_ops = kOfOps;
#define STOWAGE_CPU_BF16_KERNEL(op) \
  of_ops[static_cast<size_t>(OpKind::k##op)] = &bf16_kernels::op;
  STOWAGE_CPU_BF16_KERNELS(STOWAGE_CPU_BF16_KERNEL)
#undef STOWAGE_CPU_BF16_KERNEL
  return of_ops;
}

constexpr KernelTable kByPairs = {.vectors = "AVX512-BF16",
                                  .of_op = WithPairs(),
                                  .widened = &kernels::Widened};
#endif

}  // namespace
}  // namespace stowage::cpu

constinit const stowage::cpu::KernelTable STOWAGE_CPU_KERNEL_TABLE =
#ifdef __AVX512BF16__
    stowage::cpu::kByPairs;
#else
    {.vectors = stowage::cpu::kVectors,
     .of_op = stowage::cpu::kOfOps,
     .widened = &stowage::cpu::kernels::Widened,
#ifdef STOWAGE_CPU_BF16_PAIRS
     .by_pairs = &stowage::cpu::kByPairs
#endif
};
#endif

namespace stowage::cpu::kernels {

// loop and cond have no kernel: LaunchList runs their bodies. stand_in has none either; a
// session refuses it.
constinit const CpuKernel Loop = {};
constinit const CpuKernel Cond = {};
constinit const CpuKernel StandIn = {};

}  // namespace stowage::cpu::kernels

namespace stowage::cpu {
namespace {

// Bytes of the f32 copy of an f16 or bf16 operand.
Bytes CopyBytes(const TensorType& type) {
  return IsHalf(type.dtype) ? AlignUp(Wide(type).bytes(), kWorkspaceAlignment)
                            : 0;
}

Bytes Workspace(const OpArgs& args, std::span<const TensorType> results,
                int threads) {
  Bytes copies = 0;
  for (const TensorType& type : args.types) copies += CopyBytes(type);
  for (const TensorType& type : results) copies += CopyBytes(type);
  const auto own = OwnKernel(args.op).workspace;
  if (own == nullptr) return copies;
  const std::vector<TensorType> wide = Wide(args.types);
  return copies +
         own({args.op, wide, args.names, args.attrs}, Wide(results), threads);
}

// Converts `from` to f32, at `to`.
TensorView WideCopy(const TensorView& from, std::byte* to, ThreadPool& pool) {
  TensorView copy = {to, Wide(from.type), from.strides};
  // The axes from the outermost in memory to the innermost, those aside along which
  // nothing changes.
  std::array<int, kMaxRank> axes = {};
  size_t count = 0;
  for (int axis = 0; axis < from.shape().rank(); ++axis) {
    if (from.strides[axis] == 0 || from.shape()[axis] == 1) continue;
    size_t at = count++;
    for (; at > 0 && from.strides[axes[at - 1]] < from.strides[axis]; --at) {
      axes[at] = axes[at - 1];
    }
    axes[at] = axis;
  }
  Shape shape;
  Strides strides;
  for (const int axis : std::span(axes).first(count)) {
    shape.push_back(from.shape()[axis]);
    strides.push_back(from.strides[axis]);
  }
  int64_t step = 1;
  while (count > 0) {
    const int axis = axes[--count];
    copy.strides[axis] = step;
    step *= from.shape()[axis];
  }
  const StridedWalk<1> walk(shape, {&strides});
  ParallelRanges(pool, shape.num_elements(), kChunkElements,
                 [&](int64_t begin, int64_t stop) {
                   walk.Runs(
                       begin, stop,
                       [&](int64_t index, const auto& offsets, int64_t count) {
                         Widen(from.dtype(), count,
                               from.data + offsets[0] * SizeOf(from.dtype()),
                               walk.inner(0), copy.as<float>() + index);
                       });
                 });
  return copy;
}

void NarrowAll(const TensorView& from, const TensorView& to, ThreadPool& pool) {
  ParallelRanges(pool, to.size(), kChunkElements,
                 [&](int64_t begin, int64_t end) {
                   Narrow(to.dtype(), end - begin, from.as<float>() + begin,
                          to.data + begin * SizeOf(to.dtype()));
                 });
}

// Adds `other` to x rounded to `dtype`.
void AddToRounded(DType dtype, const TensorView& x, const TensorView& other,
                  ThreadPool& pool) {
  ParallelRanges(pool, x.size(), kChunkElements,
                 [&](int64_t begin, int64_t end) {
                   constexpr int64_t kBlock = 256;
                   std::array<std::byte, 2 * kBlock> rounded;
                   std::array<float, kBlock> wide;
                   for (int64_t first = begin; first < end; first += kBlock) {
                     const int64_t count = std::min(kBlock, end - first);
                     float* const sum = x.as<float>() + first;
                     Narrow(dtype, count, sum, rounded.data());
                     Widen(dtype, count, rounded.data(), 1, wide.data());
                     for (int64_t i = 0; i < count; ++i) {
                       sum[i] = wide[static_cast<size_t>(i)] +
                                other.as<const float>()[first + i];
                     }
                   }
                 });
}

StepCode Run(const Launch& launch, ThreadPool& pool) noexcept {
  std::array<TensorView, kMaxWidenedOperands> operands;
  std::array<TensorView, kMaxResults> results;
  std::span<std::byte> rest = launch.workspace;
  const auto take = [&rest](const TensorType& type) {
    std::byte* const start = rest.data();
    rest = rest.subspan(static_cast<size_t>(CopyBytes(type)));
    return start;
  };
  for (size_t i = 0; i < launch.inputs.size(); ++i) {
    const TensorView& x = launch.inputs[i];
    operands[i] = IsHalf(x.dtype()) ? WideCopy(x, take(x.type), pool) : x;
  }
  const auto updates = static_cast<size_t>(GetOpDef(launch.op).updates);
  for (size_t r = 0; r < launch.outputs.size(); ++r) {
    results[r] = launch.outputs[r];
    if (!IsHalf(results[r].dtype())) continue;
    std::byte* const wide = take(results[r].type);
    results[r] = {r < updates ? operands[r].data : wide, Wide(results[r].type),
                  results[r].strides};
  }
  Launch wide = launch;
  wide.inputs = std::span(operands).first(launch.inputs.size());
  wide.outputs = std::span(results).first(launch.outputs.size());
  wide.workspace = rest;
  // The gradient is rounded before this sum, as by a separate node.
  const bool adds = launch.op == OpKind::kLayerNormGradAdd;
  if (adds) {
    wide.op = OpKind::kLayerNormGrad;
    wide.inputs = wide.inputs.first(wide.inputs.size() - 1);
  }
  const StepCode code = OwnKernel(wide.op).run(wide, pool);
  if (code != StepCode::kOk) return code;
  if (adds) {
    AddToRounded(launch.outputs[0].dtype(), results[0],
                 operands[launch.inputs.size() - 1], pool);
  }
  for (size_t r = 0; r < launch.outputs.size(); ++r) {
    if (IsHalf(launch.outputs[r].dtype())) {
      NarrowAll(results[r], launch.outputs[r], pool);
    }
  }
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel Widened = {.run = Run, .workspace = Workspace};

}  // namespace kernels
}  // namespace stowage::cpu
