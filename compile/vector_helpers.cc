// Types and functions of vectors, by the extensions of gcc and clang: loads and stores at any
// address, and functions of math.h as polynomials, which compilers do not vectorize.

#include <array>
#include <cctype>
#include <span>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "compile/helpers.h"
#include "compile/kernel.h"

namespace stowage::compile {
namespace {

struct VectorFunction {
  std::string_view name;  // without the suffix of its lanes
  // `real`, `ints` and LANES stand for the type, the type of as many integers and their number.
  // It may call functions above it.
  std::string_view text;
};

constexpr VectorFunction kFunctions[] = {
    {"load", R"(static ALWAYS_INLINE real load@(const f32 *from) {
  return *(const real *)from;
}
)"},
    {"store", R"(static ALWAYS_INLINE void store@(f32 *to, real x) {
  *(real *)to = x;
}
)"},
    {"splat", R"(static ALWAYS_INLINE real splat@(float x) {
  return x - (real){0};
}
)"},
    {"select", R"(static ALWAYS_INLINE real select@(ints mask, real a, real b) {
  HIDE(mask);
  return (real)(((ints)a & mask) | ((ints)b & ~mask));
}
)"},
    {"fabs", R"(static ALWAYS_INLINE real fabs@(real x) {
  return (real)((ints)x & INT32_MAX);
}
)"},
    {"maximum", R"(static ALWAYS_INLINE real maximum@(real a, real b) {
  return select@(a != a, a, select@(a > b, a, b));
}
)"},
    {"minimum", R"(static ALWAYS_INLINE real minimum@(real a, real b) {
  return select@(a != a, a, select@(a < b, a, b));
}
)"},
    {"sqrt",
     R"(/* Newton's method for 1 / sqrt(x), and a last step for the root itself. */
static ALWAYS_INLINE real sqrt@(real x) {
  const ints is_small = x < 0x1p-100f;
  const real a = select@(is_small, x * 0x1p+100f, x);
  real r = (real)(0x5F375A86 - ((ints)a >> 1));
  for (int i = 0; i < 3; ++i) r = r * (1.5f - 0.5f * a * r * r);
  real root = a * r;
  root = root + 0.5f * r * (a - root * root);
  root = select@(is_small, root * 0x1p-50f, root);
  root = select@(x > 3.4028235e38f, x, root);
  return select@(x < 0, splat@(NAN), root);
}
)"},
    {"exp", R"(/* 2^n e^r with |r| <= log(2) / 2, e^r as in Cephes. */
static ALWAYS_INLINE real exp@(real x) {
  x = select@(x < -105.0f, splat@(-105.0f), x);
  x = select@(x > 89.0f, splat@(89.0f), x);
  /* Adding 1.5 * 2^23 rounds to an integer, which is in the low bits. */
  const real shifted = x * 1.44269504f + 12582912.0f;
  const real n = shifted - 12582912.0f;
  const ints exponent = (ints)shifted - 0x4B400000;
  const real r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  real p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  /* Two factors, since 2^n may be no normal number. */
  const ints half = exponent >> 1;
  return p * (real)((half + 127) << 23) * (real)((exponent - half + 127) << 23);
}
)"},
    {"tanh",
     R"(/* Below 0.625 a polynomial of Cephes, from there on 1 - 2 / (e^2|x| + 1). */
static ALWAYS_INLINE real tanh@(real x) {
  const real z = x * x, magnitude = fabs@(x);
  real p = z * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const real far = 1.0f - 2.0f / (exp@(2.0f * magnitude) + 1.0f);
  return select@(magnitude < 0.625f, x + x * z * p,
                 (real)((ints)far | ((ints)x & INT32_MIN)));
}
)"},
    {"silu_slope", R"(static ALWAYS_INLINE real silu_slope@(real x) {
  const real s = 1.0f / (1.0f + exp@(-x));
  return s + x * s * (1.0f - s);
}
)"},
    {"gelu_tanh", R"(/* x/2 (1 + tanh(u)) = x / (1 + exp(-2 u)). */
static ALWAYS_INLINE real gelu_tanh@(real x) {
  const real u = 0.79788456080286535588@ * x * (1.0f + 0.044715@ * x * x);
  return x / (1.0f + exp@(-2.0f * u));
}
)"},
    {"gelu_tanh_slope", R"(static ALWAYS_INLINE real gelu_tanh_slope@(real x) {
  const real square = 0.044715@ * x * x;
  const real u = 0.79788456080286535588@ * x * (1.0f + square);
  const real s = 1.0f / (1.0f + exp@(-2.0f * u));
  return s + 2.0f * x * s * (1.0f - s) *
                 (0.79788456080286535588@ * (1.0f + 3.0f * square));
}
)"},
};

// Functions of one number of lanes, and macros.
struct FoldFunction {
  std::string_view name, text;
};

constexpr FoldFunction kFolds[] = {
    {"LOADED",
     R"(/* Loads above it are not repeated below, so that their vectors stay in registers: gcc
 * would read them again for each use. */
#define LOADED() __asm__ volatile("" ::: "memory")
)"},
    {"SHUFFLE", R"(#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (i32x4){__VA_ARGS__})
#endif
)"},
    {"sum_x4", R"(static ALWAYS_INLINE float sum_x4(f32x4 x) {
  return (x[0] + x[2]) + (x[1] + x[3]);
}
)"},
    {"fold_x8", R"(static ALWAYS_INLINE f32x4 fold_x8(f32x8 x) {
  f32x4 halves[2];
  memcpy(halves, &x, sizeof x);
  return halves[0] + halves[1];
}
)"},
    {"fold_x16", R"(static ALWAYS_INLINE f32x4 fold_x16(f32x16 x) {
  f32x8 halves[2];
  memcpy(halves, &x, sizeof x);
  return fold_x8(halves[0] + halves[1]);
}
)"},
    {"sum_x8", R"(static ALWAYS_INLINE float sum_x8(f32x8 x) {
  return sum_x4(fold_x8(x));
}
)"},
    {"sum_x16", R"(static ALWAYS_INLINE float sum_x16(f32x16 x) {
  return sum_x4(fold_x16(x));
}
)"},
    {"sums_x4", R"(/* The sums of four vectors. */
static ALWAYS_INLINE f32x4 sums_x4(f32x4 a, f32x4 b, f32x4 c, f32x4 d) {
  const f32x4 ab = SHUFFLE(a, b, 0, 4, 1, 5) + SHUFFLE(a, b, 2, 6, 3, 7);
  const f32x4 cd = SHUFFLE(c, d, 0, 4, 1, 5) + SHUFFLE(c, d, 2, 6, 3, 7);
  return SHUFFLE(ab, cd, 0, 1, 4, 5) + SHUFFLE(ab, cd, 2, 3, 6, 7);
}
)"},
    {"sums_x8",
     R"(static ALWAYS_INLINE f32x4 sums_x8(f32x8 a, f32x8 b, f32x8 c, f32x8 d) {
  return sums_x4(fold_x8(a), fold_x8(b), fold_x8(c), fold_x8(d));
}
)"},
    {"sums_x16",
     R"(static ALWAYS_INLINE f32x4 sums_x16(f32x16 a, f32x16 b, f32x16 c,
                                     f32x16 d) {
  return sums_x4(fold_x16(a), fold_x16(b), fold_x16(c), fold_x16(d));
}
)"},
    {"largest_x4", R"(/* The largest element. */
static ALWAYS_INLINE float largest_x4(f32x4 x) {
  return maximumf(maximumf(x[0], x[2]), maximumf(x[1], x[3]));
}
)"},
    {"largest_x8", R"(static ALWAYS_INLINE float largest_x8(f32x8 x) {
  f32x4 halves[2];
  memcpy(halves, &x, sizeof x);
  return largest_x4(maximum_x4(halves[0], halves[1]));
}
)"},
    {"largest_x16", R"(static ALWAYS_INLINE float largest_x16(f32x16 x) {
  f32x8 halves[2];
  memcpy(halves, &x, sizeof x);
  return largest_x8(maximum_x8(halves[0], halves[1]));
}
)"},
};

constexpr std::array<int64_t, 3> kLanesOfTypes = {4, 8, 16};

std::string WithLanes(std::string_view text, int64_t lanes) {
  std::string result;
  constexpr std::string_view kInts = "ints";
  for (size_t at = 0; at < text.size(); ++at) {
    const bool begins = at == 0 || !IsPartOfName(text[at - 1]);
    if (begins && text.substr(at).starts_with(kInts)) {
      result += StrCat("i32x", lanes);
      at += kInts.size() - 1;
    } else {
      result += text[at];
    }
  }
  return ForVectorType(result, lanes);
}

// gcc joins the masks of two `select` to one comparison.
constexpr std::string_view kHide =
    R"(/* gcc 12 loses lanes where it joins comparisons for Helium. */
#if defined(__ARM_FEATURE_MVE) && !defined(__clang__)
#define HIDE(mask) __asm__("" : "+m"(mask))
#else
#define HIDE(mask) ((void)0)
#endif

)";

std::string TypesFor(std::string_view text) {
  std::string types;
  for (const int64_t lanes : kLanesOfTypes) {
    for (const auto& [name, element] :
         {std::pair("f32x", "float"), std::pair("i32x", "int32_t")}) {
      if (!Mentions(text, StrCat(name, lanes))) continue;
      types += StrCat("typedef ", element, " ", name, lanes, " VECTOR(",
                      4 * lanes, ");\n");
    }
  }
  if (types.empty()) return "";
  return StrCat(R"(/* Vectors, at any address of elements. */
#define VECTOR(bytes) \
  __attribute__((__vector_size__(bytes), __aligned__(4), __may_alias__))
#define ALWAYS_INLINE inline __attribute__((__always_inline__))
/* All functions of vectors are inline, so that no vector is passed by an ABI. */
#pragma GCC diagnostic ignored "-Wpsabi"
)",
                types, "\n", Calls(text, "HIDE") ? kHide : "");
}

}  // namespace

bool HasVectorFunctions(std::string_view text) {
  for (size_t at = text.find("_x"); at != std::string_view::npos;
       at = text.find("_x", at + 1)) {
    size_t end = at + 2, begin = at;
    while (end < text.size() &&
           std::isdigit(static_cast<unsigned char>(text[end]))) {
      ++end;
    }
    if (end == at + 2 || end == text.size() || text[end] != '(') continue;
    while (begin > 0 && IsPartOfName(text[begin - 1])) --begin;
    const std::string_view name = text.substr(begin, at - begin);
    bool is_known = false;
    for (const VectorFunction& function : kFunctions) {
      is_known = is_known || function.name == name;
    }
    if (!is_known) return false;
  }
  return true;
}

std::string VectorHelpersFor(std::string_view text) {
  std::string result, all(text);
  const auto add = [&](const std::string& definition) {
    all += definition;
    result = definition + "\n" + result;
  };
  for (size_t i = std::size(kFolds); i-- > 0;) {
    const FoldFunction& fold = kFolds[i];
    if (Calls(all, fold.name)) add(std::string(fold.text));
  }
  for (size_t i = std::size(kFunctions); i-- > 0;) {
    for (const int64_t lanes : kLanesOfTypes) {
      const VectorFunction& function = kFunctions[i];
      if (!Calls(all, StrCat(function.name, "_x", lanes))) continue;
      add(WithLanes(function.text, lanes));
    }
  }
  return TypesFor(all) + result;
}

}  // namespace stowage::compile
