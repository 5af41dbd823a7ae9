// Moves and conversions. PTX ISA 9.0, section 9.7.9.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/gpu/ptx/ptx_module.h"
#include "tests/gpu/ptx/ptx_numbers.h"
#include "tests/gpu/ptx/ptx_warp.h"

namespace stowage::testing::ptx {
namespace {

struct Copy {
  template <typename T>
  T operator()(T a) const {
    return a;
  }
};

// The elements of an operand of any size; constants of these have 64 bits.
template <typename T>
void ReadAnySize(Warp& warp, const Slot& slot, T (&to)[kLanes]) {
  const bool is_wide = slot.number == kConstant && slot.bytes == 8;
  const uint64_t constant = is_wide ? *warp.Read<uint64_t>(slot) : 0;
  const T* from = warp.Read<T>(slot);
  for (int i = 0; i < kLanes; ++i) {
    to[i] = is_wide ? static_cast<T>(constant) : from[i];
  }
}

// mov.b32 d, a   mov.b32 d, {a, b}   mov.b32 {d, e}, a
template <typename T, typename Half>
void MoveBits(Warp& warp, const Instruction& in) {
  alignas(64) T d[kLanes];
  if (in.count == 2) {
    ReadAnySize(warp, in.slots[1], d);
    return warp.Write(in.slots[0], d);
  }
  if (in.slots[0].bytes == sizeof(T)) {
    alignas(64) Half low[kLanes], high[kLanes];
    ReadAnySize(warp, in.slots[1], low);
    ReadAnySize(warp, in.slots[2], high);
    for (int i = 0; i < kLanes; ++i) {
      d[i] = static_cast<T>(static_cast<T>(low[i]) | static_cast<T>(high[i])
                                                         << (8 * sizeof(Half)));
    }
    return warp.Write(in.slots[0], d);
  }
  const T* from = warp.Read<T>(in.slots[2]);
  alignas(64) Half low[kLanes], high[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    low[i] = static_cast<Half>(from[i]);
    high[i] = static_cast<Half>(from[i] >> (8 * sizeof(Half)));
  }
  warp.Write(in.slots[0], low);
  warp.Write(in.slots[1], high);
}

void MovePredicate(Warp& warp, const Instruction& in) {
  warp.WritePredicate(in.slots[0], warp.ReadPredicate(in.slots[1]));
}

// Where a register is wider than the type: its low bits.
template <typename To, typename From>
struct Convert {
  To operator()(From a) const { return static_cast<To>(a); }
};
template <typename To, typename From, typename Register>
void ConvertLowBits(Warp& warp, const Instruction& in) {
  const auto* a = warp.Read<Register>(in.slots[1]);
  alignas(64) To d[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    d[i] = static_cast<To>(static_cast<From>(a[i]));
  }
  warp.Write(in.slots[0], d);
}
template <typename To, typename From>
void ConvertIntegers(Warp& warp, const Instruction& in) {
  const auto bytes = static_cast<size_t>(in.slots[1].bytes);
  if (bytes == sizeof(From)) {
    return Map1<To, From, Convert<To, From>>(warp, in);
  }
  if (bytes < sizeof(From)) return warp.Report("an operand of another size");
  switch (bytes) {
    case 2:
      return ConvertLowBits<To, From, uint16_t>(warp, in);
    case 4:
      return ConvertLowBits<To, From, uint32_t>(warp, in);
    case 8:
      return ConvertLowBits<To, From, uint64_t>(warp, in);
    default:
      return warp.Report("an operand of another size");
  }
}

struct ToNearestInteger {
  template <typename T>
  T operator()(T a) const {
    return std::nearbyint(a);
  }
};
struct ToZero {
  template <typename T>
  T operator()(T a) const {
    return std::trunc(a);
  }
};
struct Floor {
  template <typename T>
  T operator()(T a) const {
    return std::floor(a);
  }
};
struct Ceiling {
  template <typename T>
  T operator()(T a) const {
    return std::ceil(a);
  }
};
struct Saturate {
  float operator()(float a) const { return a > 0 ? std::min(a, 1.0f) : 0.0f; }
};

// What does not fit becomes the nearest that does; NaN 0, or the number whose
// highest bit alone is set where one of the types has 64 bits.
template <typename To, typename From, typename Round>
struct ToInteger {
  To operator()(From a) const {
    using Limits = std::numeric_limits<To>;
    if (a != a) {
      const bool wide = sizeof(From) == 8 || sizeof(To) == 8;
      return wide ? static_cast<To>(Unsigned<To>{1} << (8 * sizeof(To) - 1))
                  : To{0};
    }
    const From x = Round()(a);
    // 2^bits is a float, the largest integer may not be.
    const From above = std::ldexp(From{1}, Limits::digits);
    if (x >= above) return Limits::max();
    if (x < static_cast<From>(Limits::min())) return Limits::min();
    return static_cast<To>(x);
  }
};

struct HalfFromFloat {
  uint16_t operator()(float a) const { return ToF16(a); }
};
struct FloatFromHalf {
  float operator()(uint16_t a) const { return FromF16(a); }
};
struct BrainFromFloat {
  uint16_t operator()(float a) const { return ToBF16(a); }
};
struct FloatFromBrain {
  float operator()(uint16_t a) const { return FromBF16(a); }
};
struct TwoBrains {  // a in the upper half
  uint32_t operator()(float a, float b) const {
    return static_cast<uint32_t>(ToBF16(a)) << 16 | ToBF16(b);
  }
};

class ConversionTable : public LaneTable {
 public:
  template <typename T>
  void Move(const std::string& type) {
    One<T, T, Copy>("mov." + type);
  }
  template <typename To, typename From>
  void ConvertInteger(const std::string& name) {
    Row("cvt." + name, ConvertIntegers<To, From>, {Size<To>(), kAnySize});
  }
  template <typename F>
  void IntegersToFloat(const std::string& type) {
    One<F, int16_t, Copy>(StrCat("cvt.rn.", type, ".s16"));
    One<F, uint16_t, Copy>(StrCat("cvt.rn.", type, ".u16"));
    One<F, int32_t, Copy>(StrCat("cvt.rn.", type, ".s32"));
    One<F, uint32_t, Copy>(StrCat("cvt.rn.", type, ".u32"));
    One<F, int64_t, Copy>(StrCat("cvt.rn.", type, ".s64"));
    One<F, uint64_t, Copy>(StrCat("cvt.rn.", type, ".u64"));
  }
  template <typename F, typename Round>
  void FloatToIntegers(const std::string& rounding, const std::string& type) {
    const auto name = [&](const char* to) {
      return StrCat("cvt.", rounding, ".", to, ".", type);
    };
    One<int32_t, F, ToInteger<int32_t, F, Round>>(name("s32"));
    One<uint32_t, F, ToInteger<uint32_t, F, Round>>(name("u32"));
    One<int64_t, F, ToInteger<int64_t, F, Round>>(name("s64"));
    One<uint64_t, F, ToInteger<uint64_t, F, Round>>(name("u64"));
  }
  template <typename T>
  void RoundToIntegers(const std::string& type) {
    const std::string both = StrCat(type, ".", type);
    One<T, T, ToNearestInteger>("cvt.rni." + both);
    One<T, T, ToZero>("cvt.rzi." + both);
    One<T, T, Floor>("cvt.rmi." + both);
    One<T, T, Ceiling>("cvt.rpi." + both);
  }
};

}  // namespace

std::vector<Operation> ConversionOperations() {
  ConversionTable t;
  t.Move<int16_t>("s16");
  t.Move<int32_t>("s32");
  t.Move<int64_t>("s64");
  t.Move<uint16_t>("u16");
  t.Move<uint32_t>("u32");
  t.Move<uint64_t>("u64");
  t.Move<float>("f32");
  t.Move<double>("f64");
  t.Row("mov.b16", MoveBits<uint16_t, uint16_t>, {2, 2});
  t.Row("mov.b32", MoveBits<uint32_t, uint16_t>, {kAnySize, kAnySize});
  t.Row("mov.b64", MoveBits<uint64_t, uint32_t>, {kAnySize, kAnySize});
  t.Row("mov.pred", MovePredicate, {kPredicate, kPredicate});

  t.ConvertInteger<int16_t, int8_t>("s16.s8");
  t.ConvertInteger<int32_t, int8_t>("s32.s8");
  t.ConvertInteger<int32_t, int16_t>("s32.s16");
  t.ConvertInteger<int64_t, int16_t>("s64.s16");
  t.ConvertInteger<int64_t, int32_t>("s64.s32");
  t.ConvertInteger<uint16_t, uint32_t>("u16.u32");
  t.ConvertInteger<uint16_t, uint64_t>("u16.u64");
  t.ConvertInteger<uint32_t, uint16_t>("u32.u16");
  t.ConvertInteger<uint32_t, uint64_t>("u32.u64");
  t.ConvertInteger<uint64_t, uint16_t>("u64.u16");
  t.ConvertInteger<uint64_t, uint32_t>("u64.u32");
  t.IntegersToFloat<float>("f32");
  t.IntegersToFloat<double>("f64");
  t.FloatToIntegers<float, ToZero>("rzi", "f32");
  t.FloatToIntegers<double, ToZero>("rzi", "f64");
  t.FloatToIntegers<float, ToNearestInteger>("rni", "f32");
  t.FloatToIntegers<double, ToNearestInteger>("rni", "f64");
  t.RoundToIntegers<float>("f32");
  t.RoundToIntegers<double>("f64");
  t.One<double, float, Copy>("cvt.f64.f32");
  t.One<float, double, Copy>("cvt.rn.f32.f64");
  t.One<float, float, Saturate>("cvt.sat.f32.f32");
  t.One<float, uint16_t, FloatFromHalf>("cvt.f32.f16");
  t.One<float, uint16_t, FloatFromBrain>("cvt.f32.bf16");
  t.One<uint16_t, float, HalfFromFloat>("cvt.rn.f16.f32");
  t.One<uint16_t, float, BrainFromFloat>("cvt.rn.bf16.f32");
  t.Two<uint32_t, float, float, TwoBrains>("cvt.rn.bf16x2.f32");
  return t.Take();
}

}  // namespace stowage::testing::ptx
