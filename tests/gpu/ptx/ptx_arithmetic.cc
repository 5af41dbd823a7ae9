// What a lane computes on its own: integers, floating point, comparisons. PTX ISA
// 9.0, sections 9.7.1 to 9.7.6 and 9.7.8.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/strings.h"
#include "tests/gpu/ptx/ptx_module.h"
#include "tests/gpu/ptx/ptx_numbers.h"
#include "tests/gpu/ptx/ptx_warp.h"

namespace stowage::testing::ptx {
namespace {

template <typename T, typename F>
void Compare(Warp& warp, const Instruction& in) {
  const T* a = warp.Read<T>(in.slots[1]);
  const T* b = warp.Read<T>(in.slots[2]);
  uint32_t lanes = 0;
  for (int i = 0; i < kLanes; ++i) {
    lanes |= static_cast<uint32_t>(F()(a[i], b[i])) << i;
  }
  warp.WritePredicate(in.slots[0], lanes);
}

template <typename F>
void Combine(Warp& warp, const Instruction& in) {
  const uint32_t a = warp.ReadPredicate(in.slots[1]);
  const uint32_t b = warp.ReadPredicate(in.slots[in.count - 1]);
  warp.WritePredicate(in.slots[0], F()(a, b));
}

template <typename T>
void Select(Warp& warp, const Instruction& in) {
  const T* a = warp.Read<T>(in.slots[1]);
  const T* b = warp.Read<T>(in.slots[2]);
  warp.unwritten = 0;  // of the one that is not chosen nothing matters
  const uint32_t p = warp.ReadPredicate(in.slots[3]);
  warp.unwritten |=
      (p & warp.Unwritten(in.slots[1])) | (~p & warp.Unwritten(in.slots[2]));
  alignas(64) T d[kLanes];
  for (int i = 0; i < kLanes; ++i) d[i] = (p >> i & 1) != 0 ? a[i] : b[i];
  warp.Write(in.slots[0], d);
}

// --- Integers -------------------------------------------------------------------

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Sub {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a - b);
  }
};
struct Mul {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) *
                            static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
struct Mad {
  template <typename T>
  T operator()(T a, T b, T c) const {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) +
                          static_cast<uint64_t>(c));
  }
};
template <typename W>
struct Wide {
  template <typename T>
  W operator()(T a, T b) const {
    return static_cast<W>(static_cast<W>(a) * static_cast<W>(b));
  }
  template <typename T>
  W operator()(T a, T b, W c) const {
    using U = std::make_unsigned_t<W>;
    return static_cast<W>(
        static_cast<U>(static_cast<W>(a) * static_cast<W>(b)) +
        static_cast<U>(c));
  }
};
struct High {
  template <typename T>
  T operator()(T a, T b) const {
    using W =
        std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >>
                          (8 * sizeof(T)));
  }
};
struct Quotient {
  template <typename T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(~T{0});  // reported where it matters
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(0 - static_cast<Unsigned<T>>(a));
    }
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <typename T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
template <typename T, typename F>
void Divide(Warp& warp, const Instruction& in) {
  const T* b = warp.Read<T>(in.slots[2]);
  for (int i = 0; i < kLanes; ++i) {
    if ((warp.mask >> i & 1) != 0 && b[i] == 0) warp.Report("division by zero");
  }
  Map2<T, T, T, F>(warp, in);
}
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return std::min(a, b);
    } else {
      if (a != a) return b;
      if (b != b) return a;
      if (a == b) return std::signbit(a) ? a : b;
      return a < b ? a : b;
    }
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return std::max(a, b);
    } else {
      if (a != a) return b;
      if (b != b) return a;
      if (a == b) return std::signbit(a) ? b : a;
      return a > b ? a : b;
    }
  }
};
struct And {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
  uint32_t operator()(uint32_t a, uint32_t) const { return ~a; }
};
struct Negate {
  template <typename T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(0 - static_cast<Unsigned<T>>(a));
    } else {
      return -a;
    }
  }
};
struct Abs {
  template <typename T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>) {
      return a < 0 ? Negate()(a) : a;
    } else {
      return std::fabs(a);
    }
  }
};
// Shifts by 32 bits or more of b are as by the width.
struct ShiftLeft {
  template <typename T>
  T operator()(T a, uint32_t b) const {
    return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << b);
  }
};
struct ShiftRight {
  template <typename T>
  T operator()(T a, uint32_t b) const {
    constexpr uint32_t kBits = 8 * sizeof(T);
    if (b < kBits) return static_cast<T>(a >> b);
    return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
  }
};
struct PopCount {
  template <typename T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::popcount(a));
  }
};
struct LeadingZeros {
  template <typename T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};

// bfi.b32 d, a, b, c, l: the low l bits of a, put into b from bit c on.
void InsertBits(Warp& warp, const Instruction& in) {
  const auto* a = warp.Read<uint32_t>(in.slots[1]);
  const auto* b = warp.Read<uint32_t>(in.slots[2]);
  const auto* c = warp.Read<uint32_t>(in.slots[3]);
  const auto* l = warp.Read<uint32_t>(in.slots[4]);
  alignas(64) uint32_t d[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t at = c[i] & 0xFF, length = std::min(l[i] & 0xFF, 32u);
    const uint64_t field = ((uint64_t{1} << length) - 1) << std::min(at, 32u);
    d[i] = static_cast<uint32_t>(
        (b[i] & ~field) |
        ((static_cast<uint64_t>(a[i]) << std::min(at, 32u)) & field));
  }
  warp.Write(in.slots[0], d);
}

// prmt.b32 d, a, b, c: each 4 bits of c choose a byte of {b, a}, or its sign.
struct Permute {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    uint32_t d = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t choice = c >> (4 * i) & 15;
      uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (choice & 7))) & 0xFF;
      if ((choice & 8) != 0) byte = (byte & 0x80) != 0 ? 0xFF : 0;
      d |= byte << (8 * i);
    }
    return d;
  }
};

// --- Floating point ---------------------------------------------------------------

struct FusedNear {
  template <typename T>
  T operator()(T a, T b, T c) const {
    return std::fma(a, b, c);
  }
};
struct FusedZero {
  float operator()(float a, float b, float c) const {
    return FusedToZero(a, b, c);
  }
  float operator()(float a, float b) const { return FusedToZero(a, 1, b); }
};
struct FusedFloor {
  float operator()(float a, float b, float c) const {
    return FusedDown(a, b, c);
  }
};
struct Ratio {
  template <typename T>
  T operator()(T a, T b) const {
    return a / b;
  }
};
struct RoughRatio {
  float operator()(float a, float b) const { return DivideApproximately(a, b); }
};
struct Reciprocal {
  template <typename T>
  T operator()(T a) const {
    return 1 / a;
  }
};
struct RoughReciprocal {
  template <typename T>
  T operator()(T a) const {
    return ReciprocalFlushing(a);
  }
};
struct SquareRoot {
  template <typename T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct Power {
  float operator()(float a) const { return Exp2(a); }
};
struct PowerFlushing {
  float operator()(float a) const { return Exp2Flushing(a); }
};
struct CopySign {  // of a, to b
  template <typename T>
  T operator()(T a, T b) const {
    return std::copysign(b, a);
  }
};

// --- Comparisons -------------------------------------------------------------------

struct Equal {
  template <typename T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqual {  // of numbers: a NaN makes it false
  template <typename T>
  bool operator()(T a, T b) const {
    return a != b && a == a && b == b;
  }
};
struct Less {
  template <typename T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessOrEqual {
  template <typename T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Greater {
  template <typename T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterOrEqual {
  template <typename T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct AreNumbers {
  template <typename T>
  bool operator()(T a, T b) const {
    return a == a && b == b;
  }
};
// True where the other is false: "ltu" of "ge".
template <typename F>
struct Opposite {
  template <typename T>
  bool operator()(T a, T b) const {
    return !F()(a, b);
  }
};

// --- The table ---------------------------------------------------------------------

class ArithmeticTable : public LaneTable {
 public:
  template <typename T, typename F>
  void SetP(const std::string& name) {
    Row(name, Compare<T, F>, {kPredicate, Size<T>(), Size<T>()});
  }

  // Of signed and unsigned types.
  template <typename T>
  void Integer(const std::string& type) {
    using U = Unsigned<T>;
    Two<U, U, U, Add>("add." + type);
    Two<U, U, U, Sub>("sub." + type);
    Two<U, U, U, Mul>("mul.lo." + type);
    Three<U, U, U, Mad>("mad.lo." + type);
    Two<T, T, T, High>("mul.hi." + type);
    Row("div." + type, Divide<T, Quotient>, {Size<T>(), Size<T>(), Size<T>()});
    Row("rem." + type, Divide<T, Remainder>, {Size<T>(), Size<T>(), Size<T>()});
    Two<T, T, T, Min>("min." + type);
    Two<T, T, T, Max>("max." + type);
    Two<T, T, uint32_t, ShiftRight>("shr." + type);
    Ordered<T>(type);
    SetP<T, NotEqual>("setp.ne." + type);
    Choice<T>(type);
  }
  template <typename T>
  void Signed(const std::string& type) {
    Integer<T>(type);
    One<T, T, Negate>("neg." + type);
    One<T, T, Abs>("abs." + type);
  }
  template <typename T, typename W>
  void Widening(const std::string& type) {
    Two<W, T, T, Wide<W>>("mul.wide." + type);
    Three<W, T, W, Wide<W>>("mad.wide." + type);
  }
  template <typename T>
  void Bits(const std::string& type) {
    Two<T, T, T, And>("and." + type);
    Two<T, T, T, Or>("or." + type);
    Two<T, T, T, Xor>("xor." + type);
    One<T, T, Not>("not." + type);
    Two<T, T, uint32_t, ShiftLeft>("shl." + type);
    SetP<T, Equal>("setp.eq." + type);
    SetP<T, NotEqual>("setp.ne." + type);
    Choice<T>(type);
  }
  template <typename T>
  void Choice(const std::string& type) {
    Row("selp." + type, Select<T>,
        {Size<T>(), Size<T>(), Size<T>(), kPredicate});
  }
  template <typename T>
  void Ordered(const std::string& type) {
    SetP<T, Equal>("setp.eq." + type);
    SetP<T, Less>("setp.lt." + type);
    SetP<T, LessOrEqual>("setp.le." + type);
    SetP<T, Greater>("setp.gt." + type);
    SetP<T, GreaterOrEqual>("setp.ge." + type);
  }
  template <typename T>
  void Float(const std::string& type) {
    for (const char* const rounding : {"", "rn."}) {
      Two<T, T, T, Add>(StrCat("add.", rounding, type));
      Two<T, T, T, Sub>(StrCat("sub.", rounding, type));
      Two<T, T, T, Mul>(StrCat("mul.", rounding, type));
    }
    Three<T, T, T, FusedNear>("fma.rn." + type);
    Two<T, T, T, Ratio>("div.rn." + type);
    One<T, T, Reciprocal>("rcp.rn." + type);
    One<T, T, SquareRoot>("sqrt.rn." + type);
    One<T, T, Negate>("neg." + type);
    One<T, T, Abs>("abs." + type);
    Two<T, T, T, Min>("min." + type);
    Two<T, T, T, Max>("max." + type);
    Two<T, T, T, CopySign>("copysign." + type);
    Choice<T>(type);
    Ordered<T>(type);
    SetP<T, NotEqual>("setp.ne." + type);
    SetP<T, Opposite<NotEqual>>("setp.equ." + type);
    SetP<T, Opposite<Equal>>("setp.neu." + type);
    SetP<T, Opposite<GreaterOrEqual>>("setp.ltu." + type);
    SetP<T, Opposite<Greater>>("setp.leu." + type);
    SetP<T, Opposite<LessOrEqual>>("setp.gtu." + type);
    SetP<T, Opposite<Less>>("setp.geu." + type);
    SetP<T, AreNumbers>("setp.num." + type);
    SetP<T, Opposite<AreNumbers>>("setp.nan." + type);
  }
};

}  // namespace

std::vector<Operation> ArithmeticOperations() {
  ArithmeticTable t;
  t.Signed<int16_t>("s16");
  t.Signed<int32_t>("s32");
  t.Signed<int64_t>("s64");
  t.Integer<uint16_t>("u16");
  t.Integer<uint32_t>("u32");
  t.Integer<uint64_t>("u64");
  t.Widening<int16_t, int32_t>("s16");
  t.Widening<int32_t, int64_t>("s32");
  t.Widening<uint16_t, uint32_t>("u16");
  t.Widening<uint32_t, uint64_t>("u32");
  t.Bits<uint16_t>("b16");
  t.Bits<uint32_t>("b32");
  t.Bits<uint64_t>("b64");
  t.One<uint32_t, uint32_t, PopCount>("popc.b32");
  t.One<uint32_t, uint32_t, LeadingZeros>("clz.b32");
  t.Three<uint32_t, uint32_t, uint32_t, Permute>("prmt.b32");
  t.Row("bfi.b32", InsertBits, {4, 4, 4, 4, 4});

  t.Float<float>("f32");
  t.Float<double>("f64");
  t.Two<float, float, float, FusedZero>("add.rz.f32");
  t.Three<float, float, float, FusedZero>("fma.rz.f32");
  t.Three<float, float, float, FusedFloor>("fma.rm.f32");
  t.Two<float, float, float, RoughRatio>("div.approx.f32");
  t.One<float, float, RoughReciprocal>("rcp.approx.ftz.f32");
  t.One<double, double, RoughReciprocal>("rcp.approx.ftz.f64");
  t.One<float, float, Power>("ex2.approx.f32");
  t.One<float, float, PowerFlushing>("ex2.approx.ftz.f32");

  t.Row("not.pred", Combine<Not>, {kPredicate, kPredicate});
  t.Row("and.pred", Combine<And>, {kPredicate, kPredicate, kPredicate});
  t.Row("or.pred", Combine<Or>, {kPredicate, kPredicate, kPredicate});
  t.Row("xor.pred", Combine<Xor>, {kPredicate, kPredicate, kPredicate});
  return t.Take();
}

}  // namespace stowage::testing::ptx
