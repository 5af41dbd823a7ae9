// cast between all element types.
//
// Floats round once to nearest, ties to even. A float to an integer truncates; a value outside
// the integer's range becomes the nearest bound, and NaN 0. An integer to a narrower one wraps
// around. Bool is whether the value is not zero.
//
// Casts among f32, f16 and bf16 have their own kernels. The other 72 pairs share one kernel
// that dispatches on the types at run time.

#include <limits>
#include <type_traits>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/walk.h"
#include "math/small_floats.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;

struct CastParams {
  MapParams<2> map;
  // DTypes. Behind anything narrower there would be padding, with stale bytes.
  int32_t from, to;
};

template <typename T>
STOWAGE_DEVICE T Element(const std::byte* data, int32_t offset) {
  return reinterpret_cast<const T*>(data)[offset];
}
template <typename T>
STOWAGE_DEVICE void SetElement(std::byte* data, int32_t offset, T x) {
  reinterpret_cast<T*>(data)[offset] = x;
}

// A number of a float type, exactly.
STOWAGE_DEVICE double Real(DType dtype, const std::byte* data, int32_t offset) {
  switch (dtype) {
    case DType::kF16:
      return ToFloat(Element<F16>(data, offset));
    case DType::kBF16:
      return ToFloat(Element<BF16>(data, offset));
    case DType::kF32:
      return Element<float>(data, offset);
    default:
      return Element<double>(data, offset);
  }
}
// A number of an integer type; a bool is 0 or 1.
STOWAGE_DEVICE int64_t Integer(DType dtype, const std::byte* data,
                               int32_t offset) {
  switch (dtype) {
    case DType::kI16:
      return Element<int16_t>(data, offset);
    case DType::kI32:
      return Element<int32_t>(data, offset);
    case DType::kU8:
      return Element<uint8_t>(data, offset);
    case DType::kBool:
      return Element<uint8_t>(data, offset) != 0 ? 1 : 0;
    default:
      return Element<int64_t>(data, offset);
  }
}

// A float that rounds to 16 bits as `x` does: x itself or, if a float cannot hold it, one with
// a sticky last bit.
STOWAGE_DEVICE float Sticky(double x) { return math::RoundToOddFloat(x); }
STOWAGE_DEVICE float Sticky(int64_t x) {
  // A double holds 53 bits; gather any lower ones in the last of those.
  const uint64_t magnitude =
      x < 0 ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  uint64_t kept = magnitude;
  if (magnitude >> 53 != 0) {
    constexpr uint64_t kLow = (uint64_t{1} << 12) - 1;
    kept = (magnitude & ~kLow) | ((magnitude & kLow) != 0 ? kLow + 1 : 0);
  }
  const auto number = static_cast<double>(kept);
  return math::RoundToOddFloat(x < 0 ? -number : number);
}

template <typename To>
STOWAGE_DEVICE To ToInteger(double x) {
  // -2^k or 0, and 2^k: exact.
  constexpr auto kLowest = static_cast<double>(std::numeric_limits<To>::min());
  constexpr double kBeyond =
      2.0 *
      static_cast<double>(uint64_t{1} << (std::numeric_limits<To>::digits - 1));
  if (x != x) return 0;
  if (x <= kLowest) return std::numeric_limits<To>::min();
  if (x >= kBeyond) return std::numeric_limits<To>::max();
  return static_cast<To>(x);
}
template <typename To>
STOWAGE_DEVICE To ToInteger(int64_t x) {
  return static_cast<To>(x);
}

template <typename N>
STOWAGE_DEVICE void Put(DType dtype, std::byte* data, int32_t offset, N x) {
  switch (dtype) {
    case DType::kF32:
      return SetElement(data, offset, static_cast<float>(x));
    case DType::kF64:
      return SetElement(data, offset, static_cast<double>(x));
    case DType::kF16:
      return SetElement(data, offset, FromFloat<F16>(Sticky(x)));
    case DType::kBF16:
      return SetElement(data, offset, FromFloat<BF16>(Sticky(x)));
    case DType::kI16:
      return SetElement(data, offset, ToInteger<int16_t>(x));
    case DType::kI32:
      return SetElement(data, offset, ToInteger<int32_t>(x));
    case DType::kI64:
      return SetElement(data, offset, ToInteger<int64_t>(x));
    case DType::kU8:
      return SetElement(data, offset, ToInteger<uint8_t>(x));
    case DType::kBool:
      return SetElement(data, offset, static_cast<uint8_t>(x != N(0)));
  }
}

STOWAGE_KERNEL(kThreads) CastKernel(STOWAGE_PARAMS(CastParams) p) {
  const auto unit = static_cast<uint32_t>(BlockId()) * kThreads +
                    static_cast<uint32_t>(ThreadId());
  if (unit >= p.map.units) return;
  int32_t offset[1][2];
  p.map.walk.Locate({unit}, offset);
  const std::byte* x = p.map.data[1];
  std::byte* y = p.map.data[0];
  const auto from = static_cast<DType>(p.from);
  const auto to = static_cast<DType>(p.to);
  if (IsFloat(from)) {
    Put(to, y, offset[0][0], Real(from, x, offset[0][1]));
  } else {
    Put(to, y, offset[0][0], Integer(from, x, offset[0][1]));
  }
}

void EnqueueCast(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const TensorView& y = launch.outputs[0];
  if (x.dtype() == y.dtype()) {
    CopyStrided("cast", queue, y, x);
    return;
  }
  if (IsComputedFloat(x.dtype()) && IsComputedFloat(y.dtype())) {
    OnFloat(x.dtype(), [&](auto from) {
      OnFloat(y.dtype(), [&](auto to) {
        using From = decltype(from);
        using To = decltype(to);
        if constexpr (!std::is_same_v<From, To>) {
          EnqueueMap<SameFn, To, From>("cast", queue, y, {&x});
        }
      });
    });
    return;
  }
  ForEachGrid<2>(y, {&x}, 1, [&](const MapParams<2>& map, bool, int64_t) {
    CastParams params = {};
    params.map = map;
    params.from = static_cast<int32_t>(x.dtype());
    params.to = static_cast<int32_t>(y.dtype());
    LaunchKernel(queue, "cast", CastKernel, params,
                 {.x = BlocksFor(map.units, kThreads)}, kThreads);
  });
}

}  // namespace

namespace kernels {

constinit const GpuKernel Cast = {.enqueue = EnqueueCast,
                                  .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::gpu
