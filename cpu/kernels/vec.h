#ifndef STOWAGE_CPU_KERNELS_VEC_H_
#define STOWAGE_CPU_KERNELS_VEC_H_

// Provides Vec<T>, a SIMD register with lanes of type T (float or double). It wraps Eigen's
// packets, which use the widest registers of each instruction set and have vectorized exp and log,
// and for float also tanh, sin and cos.
//
// Kernels use Vec<T> instead of Eigen's arrays. An assignment to an Eigen array computes the
// elements before the first aligned address one by one, and its scalar exp rounds differently from
// its vectorized exp. The results therefore depend on the address of a buffer. With Vec<T>, all
// elements are computed by the same instructions, at any address and even in a partly filled last
// register.
//
//   ForEachVec<T>(n, [&](auto at) {
//     at.Store(y, Exp(at.Load(x)));
//   });

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
// g++ warns that template arguments such as __m512 lose their alignment attribute. Eigen's
// functions do not rely on it.
#pragma GCC diagnostic ignored "-Wignored-attributes"
// g++ 12's own AVX-512 intrinsics have intentionally undefined operands.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace stowage::cpu {

template <typename T>
struct Vec {
  using Packet = typename Eigen::internal::packet_traits<T>::type;
  static constexpr int kLanes = Eigen::internal::packet_traits<T>::size;

  Packet v;

  Vec() = default;
  explicit Vec(Packet packet) : v(packet) {}
  /// Sets all lanes to `x`.
  explicit Vec(double x)
      : v(Eigen::internal::pset1<Packet>(static_cast<T>(x))) {}
  static Vec All(T x) { return Vec(Eigen::internal::pset1<Packet>(x)); }
  static Vec Zero() { return All(T(0)); }

  static Vec Load(const T* p) {
    return Vec(Eigen::internal::ploadu<Packet>(p));
  }
  void Store(T* p) const { Eigen::internal::pstoreu(p, v); }

  /// Loads the first `n` lanes and sets the others to `rest`.
  static Vec LoadFirst(const T* p, int64_t n, T rest) {
    T lanes[kLanes];
    std::fill(lanes, lanes + kLanes, rest);
    std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(T));
    return Load(lanes);
  }
  void StoreFirst(T* p, int64_t n) const {
    T lanes[kLanes];
    Store(lanes);
    std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(T));
  }

  friend Vec operator+(Vec a, Vec b) {
    return Vec(Eigen::internal::padd(a.v, b.v));
  }
  friend Vec operator-(Vec a, Vec b) {
    return Vec(Eigen::internal::psub(a.v, b.v));
  }
  friend Vec operator*(Vec a, Vec b) {
    return Vec(Eigen::internal::pmul(a.v, b.v));
  }
  friend Vec operator/(Vec a, Vec b) {
    return Vec(Eigen::internal::pdiv(a.v, b.v));
  }
  friend Vec operator-(Vec a) { return Vec(Eigen::internal::pnegate(a.v)); }
  Vec& operator+=(Vec b) { return *this = *this + b; }

  // Comparisons return a mask for Select, with all bits of a lane set or none. They are false
  // for NaN.
  friend Vec operator<(Vec a, Vec b) {
    return Vec(Eigen::internal::pcmp_lt(a.v, b.v));
  }
  friend Vec operator>(Vec a, Vec b) { return b < a; }
  friend Vec operator<=(Vec a, Vec b) {
    return Vec(Eigen::internal::pcmp_le(a.v, b.v));
  }
};

template <typename T>
Vec<T> Select(Vec<T> mask, Vec<T> yes, Vec<T> no) {
  return Vec<T>(Eigen::internal::pselect(mask.v, yes.v, no.v));
}
/// Returns a * b + c, with one rounding if the processor supports it.
template <typename T>
Vec<T> MulAdd(Vec<T> a, Vec<T> b, Vec<T> c) {
  return Vec<T>(Eigen::internal::pmadd(a.v, b.v, c.v));
}
/// Returns a. Prevents compilers from fusing the operation that computes a with the operation that
/// uses the result, so a is rounded.
template <typename T>
Vec<T> Rounded(Vec<T> a) {
#if defined(__x86_64__)
  asm("" : "+v"(a.v));
#elif defined(__aarch64__)
  asm("" : "+w"(a.v));
#endif
  return a;
}
template <typename T>
Vec<T> Abs(Vec<T> a) {
  return Vec<T>(Eigen::internal::pabs(a.v));
}
template <typename T>
Vec<T> Sqrt(Vec<T> a) {
  return Vec<T>(Eigen::internal::psqrt(a.v));
}
/// Returns the larger of a and b with one instruction. If one of them is NaN, returns either a or
/// b.
template <typename T>
Vec<T> Larger(Vec<T> a, Vec<T> b) {
  return Vec<T>(Eigen::internal::pmax(a.v, b.v));
}
/// Returns the larger of a and b, or NaN if either is NaN.
template <typename T>
Vec<T> Max(Vec<T> a, Vec<T> b) {
  return Select(a <= b, b, Select(b < a, a, a + b));
}
/// Returns the smaller of a and b, or NaN if either is NaN.
template <typename T>
Vec<T> Min(Vec<T> a, Vec<T> b) {
  return Select(a <= b, a, Select(b < a, b, a + b));
}

/// Returns the sum of the lanes, which are always added in the same order.
template <typename T>
T SumLanes(Vec<T> a) {
  return Eigen::internal::predux(a.v);
}
/// Returns the largest lane. The result is unspecified if a lane is NaN.
template <typename T>
T LargestLane(Vec<T> a) {
  return Eigen::internal::predux_max(a.v);
}
/// Returns whether a lane is NaN.
template <typename T>
bool AnyNaN(Vec<T> a) {
  // Only NaN is not <= itself.
  return SumLanes(Select(a <= a, Vec<T>::Zero(), Vec<T>(1))) != 0;
}

/// Transposes a square of kLanes by kLanes elements. Rows of `from` are `from_row` elements apart,
/// and rows of `to` are `to_row` elements apart.
template <typename T>
void TransposeSquare(const T* from, int64_t from_row, T* to, int64_t to_row) {
  constexpr int kLanes = Vec<T>::kLanes;
  Eigen::internal::PacketBlock<typename Vec<T>::Packet, kLanes> square;
  for (int i = 0; i < kLanes; ++i) {
    square.packet[i] = Vec<T>::Load(from + i * from_row).v;
  }
  Eigen::internal::ptranspose(square);
  for (int i = 0; i < kLanes; ++i) {
    Vec<T>(square.packet[i]).Store(to + i * to_row);
  }
}

/// Returns a register whose lanes are `f` of the lanes of the operands. Serves functions that have
/// no vector form.
template <typename T, typename F>
Vec<T> EachLane(Vec<T> a, F f) {
  T lanes[Vec<T>::kLanes];
  a.Store(lanes);
  for (T& lane : lanes) lane = f(lane);
  return Vec<T>::Load(lanes);
}
template <typename T, typename F>
Vec<T> EachLane(Vec<T> a, Vec<T> b, F f) {
  T lanes[Vec<T>::kLanes];
  T others[Vec<T>::kLanes];
  a.Store(lanes);
  b.Store(others);
  for (int i = 0; i < Vec<T>::kLanes; ++i) lanes[i] = f(lanes[i], others[i]);
  return Vec<T>::Load(lanes);
}

/// Returns e^a, within 3 units in the last place. Results below the smallest normal number are
/// replaced by 0, so that e^-infinity is 0.
inline Vec<float> Exp(Vec<float> a) {
  const Vec<float> lowest = Vec<float>::All(-87.33654f);
  return Select(a < lowest, Vec<float>::Zero(),
                Vec<float>(Eigen::internal::pexp(a.v)));
}
inline Vec<double> Exp(Vec<double> a) {
  const Vec<double> lowest = Vec<double>::All(-708.396418532264);
  return Select(a < lowest, Vec<double>::Zero(),
                Vec<double>(Eigen::internal::pexp(a.v)));
}
template <typename T>
Vec<T> Log(Vec<T> a) {
  return Vec<T>(Eigen::internal::plog(a.v));
}
inline Vec<float> Tanh(Vec<float> a) {
  return Vec<float>(Eigen::internal::ptanh(a.v));
}
inline Vec<double> Tanh(Vec<double> a) {
  return EachLane(a, [](double x) { return std::tanh(x); });
}

/// Returns 1 - erf(a). In f32, it is computed for x = |a| as exp(-x^2) times a polynomial in 1 / (1
/// + 0.4 x). The form is from Abramowitz & Stegun 7.1.26. The polynomial has degree 9 and is fitted
/// to minimize the relative error on [0, 10.5], which is 3e-8. Beyond this range the result is 0.
inline Vec<float> Erfc(Vec<float> a) {
  using V = Vec<float>;
  const V x = Abs(a);
  const V t = V(1) / (V(1) + V(0.4) * x);
  V sum(0.03027216904);
  sum = MulAdd(sum, t, V(-0.08312682286));
  sum = MulAdd(sum, t, V(-0.04444389414));
  sum = MulAdd(sum, t, V(0.250772213));
  sum = MulAdd(sum, t, V(-0.0483245223));
  sum = MulAdd(sum, t, V(0.2580877191));
  sum = MulAdd(sum, t, V(0.1809508788));
  sum = MulAdd(sum, t, V(0.2306223283));
  sum = MulAdd(sum, t, V(0.2251677908));
  sum = MulAdd(sum, t, V(2.217348478e-05));
  const V tail = sum * Exp(-(x * x));
  return Select(a < V::Zero(), V(2) - tail, tail);
}
inline Vec<double> Erfc(Vec<double> a) {
  return EachLane(a, [](double x) { return std::erfc(x); });
}
/// Returns erf(a). In f32, it is computed on [-1, 1] by a series of 12 terms with a relative error
/// of 2e-9, and elsewhere from Erfc.
inline Vec<float> Erf(Vec<float> a) {
  using V = Vec<float>;
  const V x = Abs(a);
  const V square = x * x;
  V sum(-1.229055530e-9);
  sum = MulAdd(sum, square, V(1.480719281e-8));
  sum = MulAdd(sum, square, V(-1.636584469e-7));
  sum = MulAdd(sum, square, V(1.646211437e-6));
  sum = MulAdd(sum, square, V(-1.492565036e-5));
  sum = MulAdd(sum, square, V(1.205533298e-4));
  sum = MulAdd(sum, square, V(-8.548327023e-4));
  sum = MulAdd(sum, square, V(5.223977625e-3));
  sum = MulAdd(sum, square, V(-2.686617065e-2));
  sum = MulAdd(sum, square, V(0.1128379167));
  sum = MulAdd(sum, square, V(-0.3761263890));
  sum = MulAdd(sum, square, V(1.128379167));
  const V outside = V(1) - Erfc(x);
  return Select(x <= V(1), sum * a, Select(a < V::Zero(), -outside, outside));
}
inline Vec<double> Erf(Vec<double> a) {
  return EachLane(a, [](double x) { return std::erf(x); });
}

/// Returns log(1 + a). With w = 1 + a, it is computed as a log(w) / (w - 1), in which the rounding
/// error of w cancels, or as a if w rounds to 1 (Goldberg 1991, theorem 4).
template <typename T>
Vec<T> Log1p(Vec<T> a) {
  using V = Vec<T>;
  const V w = V(1) + a;
  const V rest = w - V(1);
  const V small = Select(Abs(rest) <= V::Zero(), a, a * (Log(w) / rest));
  return Select(w < V(std::numeric_limits<double>::infinity()), small, w);
}

/// Returns e^a - 1. With u = e^a, it is computed as (u - 1) a / log(u), in which the rounding error
/// of u cancels, or as a if u rounds to 1 (Kahan).
template <typename T>
Vec<T> Expm1(Vec<T> a) {
  using V = Vec<T>;
  const V u = Exp(a);
  const V rest = u - V(1);
  const V near = Select(Abs(rest) <= V::Zero(), a, rest * (a / Log(u)));
  // For larger |a|, u - 1 has all the digits of u, which may be 0 or infinite.
  return Select(Abs(a) <= V(20), near, rest);
}

template <typename T>
Vec<T> Floor(Vec<T> a) {
  return Vec<T>(Eigen::internal::pfloor(a.v));
}
template <typename T>
Vec<T> Ceil(Vec<T> a) {
  return Vec<T>(Eigen::internal::pceil(a.v));
}
/// Rounds to the nearest integer, ties to even.
template <typename T>
Vec<T> Round(Vec<T> a) {
  return Vec<T>(Eigen::internal::print(a.v));
}

inline Vec<float> Sin(Vec<float> a) {
  return Vec<float>(Eigen::internal::psin(a.v));
}
inline Vec<float> Cos(Vec<float> a) {
  return Vec<float>(Eigen::internal::pcos(a.v));
}
inline Vec<double> Sin(Vec<double> a) {
  return EachLane(a, [](double x) { return std::sin(x); });
}
inline Vec<double> Cos(Vec<double> a) {
  return EachLane(a, [](double x) { return std::cos(x); });
}

/// ForEachVec divides a range of elements into registers. A WholeVec is a register that the range
/// fills, and a PartialVec is its last, partly filled register. `index` is the index of the
/// register's first element. The parameter `rest` of Load is the value of the lanes outside the
/// range.
template <typename T>
struct WholeVec {
  int64_t index;
  Vec<T> Load(const T* p, T = T(0)) const { return Vec<T>::Load(p + index); }
  void Store(T* p, Vec<T> value) const { value.Store(p + index); }
};
template <typename T>
struct PartialVec {
  int64_t index;
  int64_t count;
  Vec<T> Load(const T* p, T rest = T(0)) const {
    return Vec<T>::LoadFirst(p + index, count, rest);
  }
  void Store(T* p, Vec<T> value) const { value.StoreFirst(p + index, count); }
};

/// Calls f(place) for each register of a range of n elements, in order. `place` is a WholeVec or a
/// PartialVec.
template <typename T, typename F>
inline void ForEachVec(int64_t n, F&& f) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(WholeVec<T>{i});
  if (i < n) f(PartialVec<T>{i, n - i});
}

}  // namespace stowage::cpu

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif  // STOWAGE_CPU_KERNELS_VEC_H_
