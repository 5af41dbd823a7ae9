// Chains of elementwise ops: one kernel, which is given the ops at run time. A thread has its
// elements of the chain's value in registers, loads those of another operand one op ahead,
// and stores results. All threads execute the same op at the same time, and dispatch once for
// all elements of a thread, so the dispatch costs a few instructions.
//
// After a matmul the chain is a separate kernel, on the matmul's result in result 0: the
// library computes and stores matmuls.

#include "ir/fused.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/matmul.h"
#include "ir/op_kind.h"
#include "math/activations.h"
#include "math/portable.h"

namespace stowage::gpu {
namespace {

constexpr int kFusedThreads = 256;
constexpr int kSlots = 1 + static_cast<int>(kMaxFusedOperands);

struct Part {
  int16_t op = 0;       // an OpKind
  int8_t operand = -1;  // slot of the other operand; -1: the chain's value
  int8_t is_second = 0;
  int32_t result = -1;
};

struct FusedParams {
  MapParams<kSlots> map;  // result 0, then the leaves
  std::byte* results[kMaxFusedResults] = {};
  Part parts[kMaxFusedSteps] = {};
  int32_t num_parts = 0;
  int32_t unused = 0;
};

// f of all elements of `value`, and of `other` where it reads two numbers; the results
// take the place of `value`. Numbers are float, or RoughFloat for types of 16 bits.
template <typename T, int n, typename F>
STOWAGE_DEVICE void ApplyToEach(Elements<T, n>* value,
                                const Elements<T, n>& other, const F& f) {
  STOWAGE_UNROLL
  for (int i = 0; i < n; ++i) {
    const auto a = ToNumber(value->value[i]);
    if constexpr (std::is_invocable_v<F, decltype(a)>) {
      value->value[i] = FromFloat<T>(f(a));
    } else {
      value->value[i] = FromFloat<T>(f(a, ToNumber(other.value[i])));
    }
  }
}

// One part, by the formulas of the kernels of single ops.
template <typename T, int n>
STOWAGE_DEVICE void Apply(OpKind op, Elements<T, n>* value,
                          const Elements<T, n>& other) {
  const auto each = [&](const auto& f) { ApplyToEach(value, other, f); };
  switch (op) {
    case OpKind::kAdd:
      return each([](float x, float y) { return x + y; });
    case OpKind::kSub:
      return each([](float x, float y) { return x - y; });
    case OpKind::kMul:
      return each([](float x, float y) { return x * y; });
    case OpKind::kDiv:
      return each([](float x, float y) { return x / y; });
    case OpKind::kMaximum:
      return each([](float x, float y) {
        return x <= y ? y : y < x ? x : x + y;
      });
    case OpKind::kMinimum:
      return each([](float x, float y) {
        return x <= y ? x : y < x ? y : x + y;
      });
    case OpKind::kNeg:
      return each([](float x) { return -x; });
    case OpKind::kAbs:
      return each([](float x) { return ::fabsf(x); });
    case OpKind::kSquare:
      return each([](float x) { return x * x; });
    case OpKind::kSqrt:
      return each([](float x) { return ::sqrtf(x); });
    case OpKind::kRsqrt:
      return each([](float x) { return 1.0f / ::sqrtf(x); });
    case OpKind::kReciprocal:
      return each([](float x) { return 1.0f / x; });
    case OpKind::kExp:
      return each([](auto x) {
        using math::Exp;
        return Exp(x);
      });
    case OpKind::kRelu:
      return each([](float x) { return x <= 0 ? 0.0f : x; });
    case OpKind::kTanh:
      return each([](float x) { return math::Tanh(x); });
    case OpKind::kSilu:
      return each([](auto x) { return math::Silu(x); });
    case OpKind::kSigmoid:
      return each([](auto x) { return math::Sigmoid(x); });
    case OpKind::kGeluTanh:
      return each([](auto x) { return math::GeluTanh(x); });
    case OpKind::kGeluErf:
      return each([](auto x) { return math::GeluErf(x); });
    case OpKind::kReluGrad:
      return each([](float x, float dy) { return x > 0 ? dy : 0.0f; });
    case OpKind::kSigmoidGrad:
      return each([](auto y, auto dy) {
        return dy * math::SigmoidDerivativeFromOutput(y);
      });
    case OpKind::kTanhGrad:
      return each([](auto y, auto dy) {
        return dy * math::TanhDerivativeFromOutput(y);
      });
    case OpKind::kSiluGrad:
      return each([](auto x, auto dy) { return dy * math::SiluDerivative(x); });
    case OpKind::kGeluTanhGrad:
      return each(
          [](auto x, auto dy) { return dy * math::GeluTanhDerivative(x); });
    case OpKind::kGeluErfGrad:
      return each(
          [](auto x, auto dy) { return dy * math::GeluErfDerivative(x); });
    default:
      return;  // FusesOp lets no other pass
  }
}

// The unit of n elements of slot `slot` at the offset that it has there.
template <typename T, int n>
STOWAGE_DEVICE Elements<T, n> LoadSlot(const FusedParams& p, int slot,
                                       const int32_t (&offsets)[kSlots]) {
  int32_t offset = offsets[1];
  STOWAGE_UNROLL
  for (int k = 2; k < kSlots; ++k) {
    if (k == slot) offset = offsets[k];
  }
  const T* from = reinterpret_cast<const T*>(p.map.data[slot]) + offset;
  if (n > 1 && (p.map.repeated >> slot & 1) != 0) {
    const T first = *from;
    Elements<T, n> x;
    for (int i = 0; i < n; ++i) x.value[i] = first;
    return x;
  }
  return LoadElements<T, n>(from);
}

// Loads the next op's operand while an op is computed.
template <typename T, int n>
STOWAGE_DEVICE void RunParts(const FusedParams& p,
                             const int32_t (&offsets)[kSlots]) {
  Elements<T, n> value = LoadSlot<T, n>(p, 1, offsets);
  const auto operand_of = [&](int s) {
    const int slot = s < p.num_parts ? p.parts[s].operand : -1;
    return slot >= 0 ? LoadSlot<T, n>(p, slot, offsets) : Elements<T, n>{};
  };
  Elements<T, n> next = operand_of(0);
  for (int s = 0; s < p.num_parts; ++s) {
    const Part part = p.parts[s];
    Elements<T, n> other = part.operand >= 0 ? next : value;
    if (part.is_second != 0) {
      const Elements<T, n> second = value;
      value = other;
      other = second;
    }
    next = operand_of(s + 1);
    Apply(static_cast<OpKind>(part.op), &value, other);
    if (part.result >= 0) {
      StoreElements(reinterpret_cast<T*>(p.results[part.result]) + offsets[0],
                    value);
    }
  }
}

template <typename T, int kWidth>
STOWAGE_KERNEL(kFusedThreads)
FusedKernel(STOWAGE_PARAMS(FusedParams) p) {
  const auto thread = static_cast<uint32_t>(ThreadId());
  const uint32_t unit =
      static_cast<uint32_t>(BlockId()) * kFusedThreads + thread;
  if (unit < p.map.units) {
    int32_t offsets[1][kSlots];
    p.map.walk.Locate({unit}, offsets);
    RunParts<T, kWidth>(p, offsets[0]);
  }
  if (kWidth > 1 && BlockId() == 0 && thread < p.map.tail) {
    const auto at = static_cast<int32_t>(p.map.units * kWidth + thread);
    int32_t offsets[kSlots];
    for (int k = 0; k < kSlots; ++k) offsets[k] = TailOffset(p.map, k, at);
    RunParts<T, 1>(p, offsets);
  }
}

// The ops of `launch` over `leaves`, of which the first is the chain's first value.
void EnqueueParts(
    const Launch& launch,
    const std::array<const TensorView*, kMaxFusedOperands>& leaves,
    Queue& queue) {
  const TensorView& y = launch.outputs[0];
  const FusedChain chain = ChainOf(ProgramOf(*launch.attrs));
  FusedParams params;
  for (const FusedStep& step : chain.steps()) {
    params.parts[params.num_parts++] = {
        .op = static_cast<int16_t>(step.op),
        .operand =
            static_cast<int8_t>(step.operand < 0 ? -1 : step.operand + 1),
        .is_second = static_cast<int8_t>(step.is_second ? 1 : 0),
        .result = step.result};
  }
  bool aligned = true;
  for (const TensorView& result : launch.outputs) {
    aligned = aligned && IsPackAligned(result.data);
  }
  OnFloat(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    constexpr int kWidth = kPackSize<T>;
    ForEachGrid<kSlots>(
        y, leaves, aligned ? kWidth : 1,
        [&](const MapParams<kSlots>& map, bool wide, int64_t first) {
          params.map = map;
          for (size_t r = 0; r < launch.outputs.size(); ++r) {
            params.results[r] =
                launch.outputs[r].data + first * SizeOf(y.dtype());
          }
          LaunchKernel(
              queue, OpName(launch.op).data(),
              wide && aligned ? FusedKernel<T, kWidth> : FusedKernel<T, 1>,
              params, {.x = BlocksFor(map.units, kFusedThreads)},
              kFusedThreads);
        });
  });
}

void EnqueueElementwise(const Launch& launch, Queue& queue) {
  std::array<const TensorView*, kMaxFusedOperands> leaves;
  leaves.fill(&launch.inputs[0]);
  for (size_t i = 0; i < launch.inputs.size(); ++i) {
    leaves[i] = &launch.inputs[i];
  }
  EnqueueParts(launch, leaves, queue);
}

void EnqueueAfterProduct(const Launch& launch, Queue& queue) {
  EnqueueProduct(launch, queue);
  std::array<const TensorView*, kMaxFusedOperands> leaves;
  leaves.fill(&launch.outputs[0]);
  for (size_t i = 2; i < launch.inputs.size(); ++i) {
    leaves[i - 1] = &launch.inputs[i];
  }
  EnqueueParts(launch, leaves, queue);
}

bool SupportsParts(const OpArgs& args) {
  if (!IsComputedFloat(args.type(0).dtype)) return false;
  for (const Node& node : ProgramOf(args.attrs).nodes()) {
    if (!FusesOp(node.op)) return false;
  }
  return true;
}

Bytes ProductWorkspace(const OpArgs&, std::span<const TensorType> results) {
  return MatMulWorkspace(results[0].shape.num_elements());
}

}  // namespace

bool FusesOp(OpKind op) {
  switch (op) {
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
    case OpKind::kDiv:
    case OpKind::kMaximum:
    case OpKind::kMinimum:
    case OpKind::kNeg:
    case OpKind::kAbs:
    case OpKind::kSquare:
    case OpKind::kSqrt:
    case OpKind::kRsqrt:
    case OpKind::kReciprocal:
    case OpKind::kExp:
    case OpKind::kRelu:
    case OpKind::kTanh:
    case OpKind::kSilu:
    case OpKind::kSigmoid:
    case OpKind::kGeluTanh:
    case OpKind::kGeluErf:
    case OpKind::kReluGrad:
    case OpKind::kSigmoidGrad:
    case OpKind::kTanhGrad:
    case OpKind::kSiluGrad:
    case OpKind::kGeluTanhGrad:
    case OpKind::kGeluErfGrad:
      return true;
    default:
      return false;
  }
}

namespace kernels {

constinit const GpuKernel FusedElementwise = {.enqueue = EnqueueElementwise,
                                              .supports = SupportsParts};
constinit const GpuKernel FusedMatMul = {.enqueue = EnqueueAfterProduct,
                                         .workspace = ProductWorkspace,
                                         .supports = SupportsParts};

}  // namespace kernels
}  // namespace stowage::gpu
