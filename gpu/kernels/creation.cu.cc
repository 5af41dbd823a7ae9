// constant, fill, iota.

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/bytes.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "math/small_floats.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;

// --- constant -----------------------------------------------------------------

// What a grid writes travels in its params: nothing of the host's memory has to
// stay where it is for as long as the queue lives.
struct ConstantParams {
  std::byte* to;
  int32_t bytes;
  uint8_t data[kMaxParamBytes - sizeof(std::byte*) - sizeof(int32_t) - 4];
};

STOWAGE_KERNEL(kThreads) WriteConstant(STOWAGE_PARAMS(ConstantParams) p) {
  for (int i = ThreadId(); i < p.bytes; i += BlockSize()) {
    p.to[i] = static_cast<std::byte>(p.data[i]);
  }
}

bool AllBytesAre(uint8_t byte, std::string_view data) {
  return std::all_of(data.begin(), data.end(), [byte](char c) {
    return static_cast<uint8_t>(c) == byte;
  });
}

void EnqueueConstant(const Launch& launch, Queue& queue) {
  const std::string_view data = launch.attrs->Data("data");
  std::byte* to = launch.outputs[0].data;
  const auto first = static_cast<uint8_t>(data[0]);
  if (AllBytesAre(first, data)) {
    queue.Fill(to, first, static_cast<Bytes>(data.size()));
    return;
  }
  for (size_t at = 0; at < data.size(); at += sizeof(ConstantParams::data)) {
    const std::string_view part = data.substr(at, sizeof(ConstantParams::data));
    ConstantParams p = {};
    p.to = to + at;
    p.bytes = static_cast<int32_t>(part.size());
    std::memcpy(p.data, part.data(), part.size());
    LaunchKernel(queue, "constant", WriteConstant, p, {}, kThreads);
  }
}

// --- fill ---------------------------------------------------------------------

template <typename T>
struct FillParams {
  T* y;
  int64_t n;
  int64_t head;  // elements before the first pack
  T value;
};

template <typename T>
STOWAGE_KERNEL(kThreads)
FillKernel(STOWAGE_PARAMS(FillParams<T>) p) {
  constexpr int64_t kPack = kPackSize<T>;
  const int64_t thread = int64_t{BlockId()} * BlockSize() + ThreadId();
  const int64_t at = p.head + thread * kPack;
  if (at + kPack <= p.n) {
    Pack<T> pack;
    for (int i = 0; i < kPackSize<T>; ++i) pack.value[i] = p.value;
    StorePack(p.y + at, pack);
  } else {
    for (int64_t i = at; i < p.n; ++i) p.y[i] = p.value;
  }
  if (thread < p.head) p.y[thread] = p.value;
}

// The bits of one element that is `value`.
uint64_t ElementBits(DType dtype, double value) {
  uint64_t bits = 0;
  const auto keep = [&bits](auto element) {
    std::memcpy(&bits, &element, sizeof(element));
  };
  switch (dtype) {
    case DType::kF32:
      keep(static_cast<float>(value));
      break;
    case DType::kF64:
      keep(value);
      break;
    case DType::kF16:
      keep(math::FloatToHalf(math::RoundToOddFloat(value)));
      break;
    case DType::kBF16:
      keep(math::FloatToBFloat16(math::RoundToOddFloat(value)));
      break;
    case DType::kI16:
      keep(static_cast<int16_t>(value));
      break;
    case DType::kI32:
      keep(static_cast<int32_t>(value));
      break;
    case DType::kI64:
      keep(static_cast<int64_t>(value));
      break;
    case DType::kU8:
    case DType::kBool:
      keep(static_cast<uint8_t>(value));
      break;
  }
  return bits;
}

void EnqueueFill(const Launch& launch, Queue& queue) {
  const TensorView& y = launch.outputs[0];
  const uint64_t bits = ElementBits(y.dtype(), launch.attrs->Float("value"));
  OnWidth(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto value = static_cast<T>(bits);
    // All bytes alike: 0x0101...01 times the lowest.
    const auto byte = static_cast<uint8_t>(value);
    if (value == static_cast<T>(static_cast<T>(~T{0}) / 0xFF * byte)) {
      queue.Fill(y.data, byte, y.type.bytes());
      return;
    }
    if constexpr (sizeof(T) > 1) {
      const auto past = reinterpret_cast<uintptr_t>(y.data) % 16;
      const auto head =
          static_cast<int64_t>((past == 0 ? 0 : 16 - past) / sizeof(T));
      const int64_t n = y.size();
      FillParams<T> params = {};
      params.y = y.as<T>();
      params.n = n;
      params.head = std::min(head, n);
      params.value = value;
      LaunchKernel(queue, "fill", FillKernel<T>, params,
                   {.x = BlocksFor(n, int64_t{kThreads} * kPackSize<T>)},
                   kThreads);
    }
  });
}

// --- iota ---------------------------------------------------------------------

// Integers are counted in 64 bits, which may wrap around between the ends.
template <typename T>
using Counted = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

template <typename T>
struct IotaParams {
  T* y;
  int64_t n;
  Counted<T> start, step;
};

template <typename T>
STOWAGE_KERNEL(kThreads)
IotaKernel(STOWAGE_PARAMS(IotaParams<T>) p) {
  const int64_t i = int64_t{BlockId()} * kThreads + ThreadId();
  if (i >= p.n) return;
  if constexpr (std::is_integral_v<T>) {
    p.y[i] = static_cast<T>(static_cast<uint64_t>(p.start) +
                            static_cast<uint64_t>(p.step) *
                                static_cast<uint64_t>(i));
  } else {
    p.y[i] = FromFloat<T>(
        static_cast<float>(p.start + p.step * static_cast<double>(i)));
  }
}

void EnqueueIota(const Launch& launch, Queue& queue) {
  const TensorView& y = launch.outputs[0];
  OnNumber(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const IotaParams<T> p = {
        .y = y.as<T>(),
        .n = y.size(),
        .start = static_cast<Counted<T>>(launch.attrs->Float("start")),
        .step = static_cast<Counted<T>>(launch.attrs->Float("step"))};
    LaunchKernel(queue, "iota", IotaKernel<T>, p,
                 {.x = BlocksFor(p.n, kThreads)}, kThreads);
  });
}

bool SupportsIota(const OpArgs& args) {
  return args.attrs.Type("dtype") != DType::kF64;
}

}  // namespace

namespace kernels {

constinit const GpuKernel Constant = {.enqueue = EnqueueConstant,
                                      .supports = SupportsAll};
constinit const GpuKernel Fill = {.enqueue = EnqueueFill,
                                  .supports = SupportsAll};
constinit const GpuKernel Iota = {.enqueue = EnqueueIota,
                                  .supports = SupportsIota};

}  // namespace kernels
}  // namespace stowage::gpu
