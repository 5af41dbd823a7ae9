// constant, fill, iota, random_uniform, random_normal and dropout.
//
// Random numbers and dropout's mask are functions of the element's number (math/random.h);
// a thread computes four elements. The mask is computed where it is used, never stored.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/bytes.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/simt.h"
#include "math/random.h"
#include "math/small_floats.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;

// --- constant -----------------------------------------------------------------

// The constant's bytes are part of the kernel's params, so no host memory has to outlive the
// queue.
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

// The bits of one element with the value `value`.
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

// Integers are computed in 64 bits, which may wrap around.
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

// --- random_uniform, random_normal ---------------------------------------------

struct RandomParams {
  void* y;
  const int64_t* seed;
  const int64_t* step;
  int64_t id;
  int64_t count;  // elements
};

// The bits of a fraction that the type holds exactly.
template <typename T>
inline constexpr int kFractionBits = std::is_same_v<T, float> ? 24
                                     : std::is_same_v<T, F16> ? 11
                                                              : 8;

template <typename T, math::RandomStream kStream>
STOWAGE_KERNEL(kThreads)
RandomKernel(STOWAGE_PARAMS(RandomParams) p) {
  const int64_t quad = int64_t{BlockId()} * kThreads + ThreadId();
  if (quad * 4 >= p.count) return;
  const math::Philox4 words =
      math::Philox4x32(math::RandomCounter(kStream, *p.step, quad),
                       math::DropoutKey(*p.seed, p.id));
  float numbers[4];
  if constexpr (kStream == math::RandomStream::kNormal) {
    math::NormalPair(words.word[0], words.word[1], &numbers[0], &numbers[1]);
    math::NormalPair(words.word[2], words.word[3], &numbers[2], &numbers[3]);
  } else {
    STOWAGE_UNROLL
    for (int i = 0; i < 4; ++i) {
      numbers[i] = math::Fraction<float, kFractionBits<T>>(words.word[i]);
    }
  }
  T* y = static_cast<T*>(p.y) + quad * 4;
  STOWAGE_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (quad * 4 + i < p.count) y[i] = FromFloat<T>(numbers[i]);
  }
}

template <math::RandomStream kStream>
void Enqueue(const Launch& launch, Queue& queue) {
  const TensorView& y = launch.outputs[0];
  const RandomParams p = {.y = y.data,
                          .seed = launch.inputs[0].as<const int64_t>(),
                          .step = launch.inputs[1].as<const int64_t>(),
                          .id = launch.attrs->Int("id"),
                          .count = y.size()};
  OnFloat(y.dtype(), [&](auto zero) {
    LaunchKernel(queue, OpName(launch.op).data(),
                 RandomKernel<decltype(zero), kStream>, p,
                 {.x = BlocksFor(p.count, 4 * kThreads)}, kThreads);
  });
}

bool SupportsRandom(const OpArgs& args) {
  return IsComputedFloat(args.attrs.Type("dtype"));
}

// --- dropout -----------------------------------------------------------------

struct DropoutParams {
  MapParams<2> map;
  const int64_t* seed;
  const int64_t* step;
  int64_t id;
  int64_t first;       // the number of the element at data[0]
  uint64_t threshold;  // of the words that keep an element
  float scale;         // of what is kept
};

// Element i of a quad takes word i.
STOWAGE_DEVICE uint32_t Word(const math::Philox4& words, int i) {
  return i == 0   ? words.word[0]
         : i == 1 ? words.word[1]
         : i == 2 ? words.word[2]
                  : words.word[3];
}

// Elements from `number` on: whole quads, or one element.
template <typename T, int n>
STOWAGE_DEVICE Elements<T, n> Drop(const DropoutParams& p,
                                   const Elements<T, n>& x, int64_t number) {
  const math::PhiloxKey key = math::DropoutKey(*p.seed, p.id);
  const int64_t step = *p.step;
  Elements<T, n> y;
  for (int i = 0; i < n; i += 4) {
    const int64_t quad = (number + i) / 4;
    const math::Philox4 words =
        math::Philox4x32(math::DropoutCounter(step, quad), key);
    for (int j = 0; j < (n < 4 ? n : 4); ++j) {
      const uint32_t word =
          Word(words, n == 1 ? static_cast<int>(number % 4) : j);
      const float kept = ToFloat(x.value[i + j]) * p.scale;
      y.value[i + j] = FromFloat<T>(word >= p.threshold ? kept : 0.0f);
    }
  }
  return y;
}

template <typename T, int kWidth>
STOWAGE_KERNEL(kThreads)
DropoutKernel(STOWAGE_PARAMS(DropoutParams) p) {
  T* y = reinterpret_cast<T*>(p.map.data[0]);
  const auto thread = static_cast<uint32_t>(ThreadId());
  const uint32_t unit = static_cast<uint32_t>(BlockId()) * kThreads + thread;
  if (unit < p.map.units) {
    int32_t offset[1][2];
    p.map.walk.Locate({unit}, offset);
    const auto x = LoadOperand<1, T, kWidth>(p.map, offset[0][1]);
    StoreElements(y + offset[0][0],
                  Drop<T, kWidth>(p, x, p.first + offset[0][0]));
  }
  if (kWidth > 1 && BlockId() == 0 && thread < p.map.tail) {
    const auto at = static_cast<int32_t>(p.map.units * kWidth + thread);
    const auto x = LoadOperand<1, T, 1>(p.map, TailOffset(p.map, 1, at));
    StoreElements(y + at, Drop<T, 1>(p, x, p.first + at));
  }
}

void EnqueueDropout(const Launch& launch, Queue& queue) {
  const double drop = launch.attrs->Float("p");
  DropoutParams p = {};
  p.seed = launch.inputs[1].as<const int64_t>();
  p.step = launch.inputs[2].as<const int64_t>();
  p.id = launch.attrs->Int("id");
  p.threshold = math::DropoutThreshold(drop);
  p.scale = static_cast<float>(1 / (1 - drop));
  OnFloat(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    ForEachGrid<2>(launch.outputs[0], {&launch.inputs[0]}, kPackSize<T>,
                   [&](const MapParams<2>& map, bool wide, int64_t first) {
                     p.map = map;
                     p.first = first;
                     LaunchKernel(queue, "dropout",
                                  wide ? DropoutKernel<T, kPackSize<T>>
                                       : DropoutKernel<T, 1>,
                                  p, {.x = BlocksFor(map.units, kThreads)},
                                  kThreads);
                   });
  });
}

}  // namespace

namespace kernels {

constinit const GpuKernel Constant = {.enqueue = EnqueueConstant,
                                      .supports = SupportsAll};
constinit const GpuKernel Fill = {.enqueue = EnqueueFill,
                                  .supports = SupportsAll};
constinit const GpuKernel Iota = {.enqueue = EnqueueIota,
                                  .supports = SupportsIota};

constinit const GpuKernel RandomUniform = {
    .enqueue = Enqueue<math::RandomStream::kUniform>,
    .supports = SupportsRandom};
constinit const GpuKernel RandomNormal = {
    .enqueue = Enqueue<math::RandomStream::kNormal>,
    .supports = SupportsRandom};

constinit const GpuKernel Dropout = {.enqueue = EnqueueDropout};

}  // namespace kernels
}  // namespace stowage::gpu
