#ifndef STOWAGE_GPU_KERNELS_ELEMENTWISE_H_
#define STOWAGE_GPU_KERNELS_ELEMENTWISE_H_

// Provides the kernels of elementwise ops: y = f(operands...). The operands have the shape of y,
// and any strides. The result may overwrite an operand whose elements have the same size.
//
//   struct AddFn {
//     template <typename N>
//     STOWAGE_DEVICE N operator()(N a, N b) const { return a + b; }
//   };
//   EnqueueMap<AddFn, BF16, BF16, BF16>("add", queue, y, {&a, &b});
//
// A thread computes units. If every operand is contiguous along the innermost axis and aligned, a
// unit has 16 / size adjacent elements, where size is the largest element size in bytes. Otherwise
// a unit is one element. An operand that has stride 0 along the innermost axis is read once per
// unit, so scalars, biases and operands with one number per row also permit wide units. The unit is
// chosen when the launch is enqueued, since the addresses are then fixed.
//
// f receives elements of f32 as float, elements of bf16 and f16 as RoughFloat (below), and integers
// unchanged. For ops with numeric attributes, f is constructed from the attributes and receives all
// elements as float:
//
//   struct ClampFn {
//     explicit ClampFn(const Attrs& attrs)
//         : min(Number(attrs, "min")), max(Number(attrs, "max")) {}
//     STOWAGE_DEVICE float operator()(float x) const;
//     float min, max;
//   };
//   constinit const GpuKernel Clamp = {.enqueue = EnqueueWithAttrs<ClampFn, 1>};

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/walk.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "ir/attrs.h"
#include "ir/op_kind.h"
#include "math/portable.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

/// A float for computing results that are rounded to 16 bits. Its Exp, Tanh and division take a
/// fraction of the instructions of the accurate functions. With the accurate functions,
/// instructions would limit the speed of kernels that read few bytes per element. The formulas of
/// math/activations.h are templates over the number type, and find these functions by
/// argument-dependent lookup.
///
///   RoughFloat y = math::GeluTanh(RoughFloat(ToFloat(x)));
///   FromFloat<BF16>(y);
struct RoughFloat {
  float value;

  RoughFloat() = default;
  STOWAGE_HOST_DEVICE constexpr RoughFloat(float x) : value(x) {}
  STOWAGE_HOST_DEVICE constexpr explicit RoughFloat(double x)
      : value(static_cast<float>(x)) {}
  STOWAGE_HOST_DEVICE constexpr explicit RoughFloat(int x)
      : value(static_cast<float>(x)) {}
  STOWAGE_HOST_DEVICE constexpr operator float() const { return value; }
};

STOWAGE_DEVICE RoughFloat operator-(RoughFloat a) { return -a.value; }
STOWAGE_DEVICE RoughFloat operator+(RoughFloat a, RoughFloat b) {
  return a.value + b.value;
}
STOWAGE_DEVICE RoughFloat operator-(RoughFloat a, RoughFloat b) {
  return a.value - b.value;
}
STOWAGE_DEVICE RoughFloat operator*(RoughFloat a, RoughFloat b) {
  return a.value * b.value;
}
/// Returns a / b, with a relative error below 2^-21 if neither b nor 1 / b is subnormal.
STOWAGE_DEVICE RoughFloat operator/(RoughFloat a, RoughFloat b) {
  return a.value * Reciprocal(b.value);
}

/// Returns e^x, with a relative error below 2^-20 + |x| 2^-23.
STOWAGE_DEVICE RoughFloat Exp(RoughFloat x) {
  return Exp2(x.value * 1.44269504088896341f);  // 1 / log 2
}
/// Returns tanh(x), with an absolute error below 2^-19. The relative error is not bounded near 0.
/// This suffices for formulas that add 1 to the result.
STOWAGE_DEVICE RoughFloat Tanh(RoughFloat x) {
  return 1.0f - 2.0f * Reciprocal(1.0f + Exp(x + x).value);
}
STOWAGE_DEVICE RoughFloat Erfc(RoughFloat x) { return math::Erfc(x.value); }

// --- Units ---

/// `n` elements of T, which are loaded or stored with one instruction. They must have at most 16
/// bytes together.
template <typename T, int n>
struct alignas(sizeof(T) * n) Elements {
  T value[n];
};

namespace internal {

template <typename T, int n>
STOWAGE_DEVICE Elements<T, n> FromPack(const Pack<T>& pack) {
  Elements<T, n> x;
  for (int i = 0; i < n; ++i) x.value[i] = pack.value[i];
  return x;
}
template <typename T, int n>
STOWAGE_DEVICE Pack<T> ToPack(const Elements<T, n>& x) {
  Pack<T> pack;
  for (int i = 0; i < n; ++i) pack.value[i] = x.value[i];
  return pack;
}

}  // namespace internal

/// These functions load and store `n` elements. The address must be aligned to their total size.
/// The functions whose names end in Once are for data that is used only once (LoadPackOnce).
template <typename T, int n>
STOWAGE_DEVICE Elements<T, n> LoadElements(const T* from) {
  if constexpr (n == kPackSize<T>) {
    return internal::FromPack<T, n>(LoadPack(from));
  } else {
    return *reinterpret_cast<const Elements<T, n>*>(from);
  }
}
template <typename T, int n>
STOWAGE_DEVICE Elements<T, n> LoadElementsOnce(const T* from) {
  if constexpr (n == kPackSize<T>) {
    return internal::FromPack<T, n>(LoadPackOnce(from));
  } else {
    return LoadElements<T, n>(from);
  }
}
template <typename T, int n>
STOWAGE_DEVICE void StoreElements(T* to, const Elements<T, n>& y) {
  if constexpr (n == kPackSize<T>) {
    StorePack(to, internal::ToPack<T, n>(y));
  } else {
    *reinterpret_cast<Elements<T, n>*>(to) = y;
  }
}
template <typename T, int n>
STOWAGE_DEVICE void StoreElementsOnce(T* to, const Elements<T, n>& y) {
  if constexpr (n == kPackSize<T>) {
    StorePackOnce(to, internal::ToPack<T, n>(y));
  } else {
    StoreElements(to, y);
  }
}

/// ToNumber converts an element to the type in which it is computed. FromNumber converts it back.
template <typename T>
STOWAGE_DEVICE auto ToNumber(T x) {
  if constexpr (std::is_same_v<T, BF16> || std::is_same_v<T, F16>) {
    return RoughFloat(ToFloat(x));
  } else {
    return x;
  }
}
template <typename T, typename N>
STOWAGE_DEVICE T FromNumber(N y) {
  if constexpr (std::is_same_v<T, BF16> || std::is_same_v<T, F16>) {
    return FromFloat<T>(static_cast<float>(y));
  } else {
    return static_cast<T>(y);
  }
}

/// A function that returns its argument. It serves copies and casts, in which FromNumber converts
/// the result.
struct SameFn {
  template <typename N>
  STOWAGE_DEVICE N operator()(N x) const {
    return x;
  }
};

template <int kOperands>
struct MapParams {
  Walk<kOperands> walk;
  std::byte* data[kOperands];  // the result, then the operands
  uint32_t units;
  uint32_t tail;      // elements after the last unit, for a loop of rank 1
  uint32_t repeated;  // bit k is set if operand k has stride 0 along a unit
};

/// Loads a unit of operand `k` at `offset`. Returns n elements, or the first one repeated n times
/// if bit k of `repeated` is set.
template <int k, typename T, int n, typename Params>
STOWAGE_DEVICE Elements<T, n> LoadOperand(const Params& p, int32_t offset) {
  const T* from = reinterpret_cast<const T*>(p.data[k]) + offset;
  if (n > 1 && (p.repeated >> k & 1) != 0) {
    const T first = *from;
    Elements<T, n> x;
    for (int i = 0; i < n; ++i) x.value[i] = first;
    return x;
  }
  return LoadElements<T, n>(from);
}

/// Returns the offset of element `at`, which is in the tail, in operand `k`.
template <typename Params>
STOWAGE_DEVICE int32_t TailOffset(const Params& p, int k, int32_t at) {
  return (p.repeated >> k & 1) != 0 ? 0 : at;
}

namespace internal {

inline constexpr int kMapThreads = 256;
// Returns the number of units per thread. With more units, more loads are in flight. With fewer
// units, a thread uses fewer registers.
constexpr int MapUnits(int width) {
  return width == 1 ? 4 : width == 16 ? 1 : 2;
}

template <size_t k, typename T, int n>
struct MapSlot {
  Elements<T, n> elements;
};

template <typename Sequence, int n, typename... In>
struct MapOperands;

// A unit of every operand.
template <size_t... k, int n, typename... In>
struct MapOperands<std::index_sequence<k...>, n, In...> : MapSlot<k, In, n>... {
  template <typename Params>
  STOWAGE_DEVICE void Load(const Params& p, const int32_t* offset) {
    ((MapSlot<k, In, n>::elements =
          LoadOperand<static_cast<int>(k) + 1, In, n>(p, offset[k + 1])),
     ...);
  }
  template <typename Out, typename F>
  STOWAGE_DEVICE Elements<Out, n> Map(const F& f) const {
    Elements<Out, n> y;
    STOWAGE_UNROLL
    for (int i = 0; i < n; ++i) {
      y.value[i] =
          FromNumber<Out>(f(ToNumber(MapSlot<k, In, n>::elements.value[i])...));
    }
    return y;
  }
};

template <typename F, int kWidth, typename Out, typename... In>
STOWAGE_KERNEL(kMapThreads)
MapKernel(STOWAGE_PARAMS(MapParams<1 + sizeof...(In)>) p) {
  constexpr int kOperands = 1 + sizeof...(In);
  constexpr int kUnits = MapUnits(kWidth);
  using Indices = std::index_sequence_for<In...>;
  Out* y = reinterpret_cast<Out*>(p.data[0]);
  const auto thread = static_cast<uint32_t>(ThreadId());
  const uint32_t first =
      static_cast<uint32_t>(BlockId()) * (kMapThreads * kUnits) + thread;
  uint32_t units[kUnits];
  for (int i = 0; i < kUnits; ++i) {
    units[i] = first + static_cast<uint32_t>(i * kMapThreads);
  }
  // Offsets of units past the end are unused.
  int32_t offsets[kUnits][kOperands];
  p.walk.Locate(units, offsets);

  // All loads come first, so that they are in flight together.
  MapOperands<Indices, kWidth, In...> x[kUnits] = {};
  STOWAGE_UNROLL
  for (int i = 0; i < kUnits; ++i) {
    if (units[i] < p.units) x[i].Load(p, offsets[i]);
  }
  STOWAGE_UNROLL
  for (int i = 0; i < kUnits; ++i) {
    if (units[i] < p.units) {
      StoreElements(y + offsets[i][0], x[i].template Map<Out>(F()));
    }
  }

  if (kWidth > 1 && BlockId() == 0 && thread < p.tail) {
    const auto at = static_cast<int32_t>(p.units * kWidth + thread);
    int32_t offset[kOperands];
    for (int k = 0; k < kOperands; ++k) offset[k] = TailOffset(p, k, at);
    MapOperands<Indices, 1, In...> one;
    one.Load(p, offset);
    StoreElements(y + at, one.template Map<Out>(F()));
  }
}

}  // namespace internal

/// Returns whether units of `width` elements of every operand can be loaded or stored with one
/// instruction. Operand `k` has elements of `bytes[k]` bytes and starts at `data[k]`.
template <int kOperands>
bool TakesUnits(
    const StridedLoop<kOperands>& loop,
    const std::array<std::byte*, static_cast<size_t>(kOperands)>& data,
    const std::array<int, static_cast<size_t>(kOperands)>& bytes, int width) {
  for (int k = 0; k < kOperands; ++k) {
    const auto i = static_cast<size_t>(k);
    if (k > 0 && loop.steps[0][k] == 0) continue;  // repeated
    const auto unit = static_cast<uintptr_t>(bytes[i] * width);
    if (loop.steps[0][k] != 1) return false;
    if (reinterpret_cast<uintptr_t>(data[i]) % unit != 0) return false;
    for (int axis = 1; axis < loop.rank; ++axis) {
      if (loop.steps[axis][k] % width != 0) return false;
    }
  }
  return loop.rank == 1 || loop.dims[0] % width == 0;
}

/// Returns the params of one kernel launch that computes `loop` in units of `width` elements.
template <int kOperands>
MapParams<kOperands> MapParamsOf(
    const StridedLoop<kOperands>& loop,
    const std::array<std::byte*, static_cast<size_t>(kOperands)>& data,
    int width) {
  const int64_t elements = loop.elements();
  MapParams<kOperands> p = {};
  p.walk = Walk<kOperands>::Over(loop, width);
  p.units = static_cast<uint32_t>(elements / width);
  p.tail = static_cast<uint32_t>(elements % width);
  for (int k = 0; k < kOperands; ++k) {
    p.data[k] = data[static_cast<size_t>(k)];
    if (k > 0 && loop.steps[0][k] == 0) p.repeated |= 1u << k;
  }
  return p;
}

/// Calls `f(params, wide, first)` for each kernel launch of an elementwise op with result `y` and
/// operands `x`. If `wide` is true, units have `width` elements, and otherwise one. `first` is the
/// offset of the launch's first element in the result.
template <int kOperands, typename F>
void ForEachGrid(
    const TensorView& y,
    const std::array<const TensorView*, static_cast<size_t>(kOperands - 1)>& x,
    int width, const F& f) {
  constexpr auto kCount = static_cast<size_t>(kOperands);
  std::array<const TensorView*, kCount> views = {&y};
  for (size_t k = 1; k < kCount; ++k) views[k] = x[k - 1];
  std::array<const Strides*, kCount> strides;
  std::array<int, kCount> bytes;
  for (size_t k = 0; k < kCount; ++k) {
    strides[k] = &views[k]->strides;
    bytes[k] = static_cast<int>(SizeOf(views[k]->dtype()));
  }
  ForEachPiece(MergeAxes<kOperands>(y.shape(), strides),
               [&](const StridedLoop<kOperands>& piece,
                   const std::array<int64_t, kCount>& first) {
                 std::array<std::byte*, kCount> data;
                 for (size_t k = 0; k < kCount; ++k) {
                   data[k] = views[k]->data + first[k] * bytes[k];
                 }
                 const bool wide = TakesUnits(piece, data, bytes, width);
                 f(MapParamsOf(piece, data, wide ? width : 1), wide, first[0]);
               });
}

/// Enqueues y = F()(x...), where `y` has elements of type Out and the operands have elements of
/// types In. All operands must have the shape of `y`. If an operand is a signed integer, units are
/// single elements, to avoid compiling a second kernel.
template <typename F, typename Out, typename... In>
void EnqueueMap(const char* name, Queue& queue, const TensorView& y,
                const std::array<const TensorView*, sizeof...(In)>& x) {
  constexpr int kOperands = 1 + sizeof...(In);
  constexpr bool kSigned =
      ((std::is_integral_v<In> && std::is_signed_v<In>) || ...);
  constexpr int kWidth =
      kSigned ? 1
              : 16 / static_cast<int>(std::max({sizeof(Out), sizeof(In)...}));
  ForEachGrid<kOperands>(
      y, x, kWidth, [&](const MapParams<kOperands>& p, bool wide, int64_t) {
        const int width = wide ? kWidth : 1;
        LaunchKernel(queue, name,
                     wide ? internal::MapKernel<F, kWidth, Out, In...>
                          : internal::MapKernel<F, 1, Out, In...>,
                     p,
                     {.x = BlocksFor(p.units, internal::kMapThreads *
                                                  internal::MapUnits(width))},
                     internal::kMapThreads);
      });
}

/// Implements GpuKernel::enqueue for an op whose result 0, of type Out, is F() of its first one or
/// two operands (`kInputs`), of type In.
template <typename F, typename Out, typename In, int kInputs>
void EnqueueLike(const Launch& launch, Queue& queue) {
  const char* name = OpName(launch.op).data();
  const TensorView& y = launch.outputs[0];
  if constexpr (kInputs == 1) {
    EnqueueMap<F, Out, In>(name, queue, y, {&launch.inputs[0]});
  } else {
    EnqueueMap<F, Out, In, In>(name, queue, y,
                               {&launch.inputs[0], &launch.inputs[1]});
  }
}

/// EnqueueFloats and EnqueueNumbers implement GpuKernel::enqueue for an op whose result 0 is F() of
/// its first one or two operands of the same type. EnqueueFloats supports f32, f16 and bf16.
/// EnqueueNumbers supports all types except f64.
template <typename F, int kInputs>
void EnqueueFloats(const Launch& launch, Queue& queue) {
  OnFloat(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    EnqueueLike<F, T, T, kInputs>(launch, queue);
  });
}
template <typename F, int kInputs>
void EnqueueNumbers(const Launch& launch, Queue& queue) {
  OnNumber(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    EnqueueLike<F, T, T, kInputs>(launch, queue);
  });
}

// --- Elementwise functions of one or two float operands, whose constructors take attributes ---

inline float Number(const Attrs& attrs, std::string_view name) {
  return static_cast<float>(attrs.Float(name));
}

template <typename F, int inputs>
struct AttrsMapParams {
  static constexpr int kInputs = inputs;
  MapParams<1 + inputs> map;
  F f;
};

namespace internal {

inline constexpr int kAttrsMapThreads = 256;

// Returns the unit of n results for the operands at these offsets.
template <typename T, int n, typename Params>
STOWAGE_DEVICE Elements<T, n> MapWithAttrs(const Params& p,
                                           const int32_t* offset) {
  const auto a = LoadOperand<1, T, n>(p.map, offset[1]);
  Elements<T, n> y;
  if constexpr (Params::kInputs == 1) {
    for (int i = 0; i < n; ++i) {
      y.value[i] = FromFloat<T>(p.f(ToFloat(a.value[i])));
    }
  } else {
    const auto b = LoadOperand<2, T, n>(p.map, offset[2]);
    for (int i = 0; i < n; ++i) {
      y.value[i] = FromFloat<T>(p.f(ToFloat(a.value[i]), ToFloat(b.value[i])));
    }
  }
  return y;
}

template <typename Params, typename T, int kWidth>
STOWAGE_KERNEL(kAttrsMapThreads)
AttrsMapKernel(STOWAGE_PARAMS(Params) p) {
  constexpr int kInputs = Params::kInputs;
  T* y = reinterpret_cast<T*>(p.map.data[0]);
  const auto thread = static_cast<uint32_t>(ThreadId());
  const uint32_t unit =
      static_cast<uint32_t>(BlockId()) * kAttrsMapThreads + thread;
  if (unit < p.map.units) {
    int32_t offset[1][1 + kInputs];
    p.map.walk.Locate({unit}, offset);
    StoreElements(y + offset[0][0], MapWithAttrs<T, kWidth>(p, offset[0]));
  }
  if (kWidth > 1 && BlockId() == 0 && thread < p.map.tail) {
    const auto at = static_cast<int32_t>(p.map.units * kWidth + thread);
    int32_t offset[1 + kInputs];
    for (int k = 0; k <= kInputs; ++k) offset[k] = TailOffset(p.map, k, at);
    StoreElements(y + at, MapWithAttrs<T, 1>(p, offset));
  }
}

}  // namespace internal

/// Implements GpuKernel::enqueue for an op whose result 0 is F(attributes) of its first one or two
/// operands (`kInputs`). They must be f32, f16 or bf16.
template <typename F, int kInputs>
void EnqueueWithAttrs(const Launch& launch, Queue& queue) {
  std::array<const TensorView*, static_cast<size_t>(kInputs)> x;
  for (size_t k = 0; k < x.size(); ++k) x[k] = &launch.inputs[k];
  OnFloat(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    constexpr int kWidth = kPackSize<T>;
    ForEachGrid<1 + kInputs>(
        launch.outputs[0], x, kWidth,
        [&](const MapParams<1 + kInputs>& map, bool wide, int64_t) {
          using Params = AttrsMapParams<F, kInputs>;
          const Params p = {map, F(*launch.attrs)};
          LaunchKernel(queue, OpName(launch.op).data(),
                       wide ? internal::AttrsMapKernel<Params, T, kWidth>
                            : internal::AttrsMapKernel<Params, T, 1>,
                       p,
                       {.x = BlocksFor(map.units, internal::kAttrsMapThreads)},
                       internal::kAttrsMapThreads);
        });
  });
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_ELEMENTWISE_H_
