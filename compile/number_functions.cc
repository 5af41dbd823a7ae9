// Functions of numbers, in C: the formulas of math/activations.h and math/random.h, and those
// of initial values.

#include "compile/helper_texts.h"

namespace stowage::compile {
namespace {

constexpr HelperText kNumberFunctions[] = {
    {"sign@", R"(static real sign@(real x) {
  return x > 0 ? 1 : x < 0 ? -1 : x;
}
)"},
    {"maximum@", R"(static real maximum@(real a, real b) {
  return a > b || a != a ? a : b;
}
)"},
    {"minimum@", R"(static real minimum@(real a, real b) {
  return a < b || a != a ? a : b;
}
)"},
    {"remainder_floor@", R"(static real remainder_floor@(real a, real b) {
  const real rest = fmod@(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
)"},
    {"silu@", R"(static real silu@(real x) {
  return x / (1 + exp@(-x));
}
)"},
    {"silu_slope@", R"(static real silu_slope@(real x) {
  const real s = 1 / (1 + exp@(-x));
  return s + x * s * (1 - s);
}
)"},
    {"gelu_tanh@", R"(/* x/2 (1 + tanh(u)) = x / (1 + exp(-2 u)). */
static real gelu_tanh@(real x) {
  const real u = 0.79788456080286535588@ * x * (1 + 0.044715@ * x * x);
  return x / (1 + exp@(-2 * u));
}
)"},
    {"gelu_tanh_slope@", R"(static real gelu_tanh_slope@(real x) {
  const real root = 0.79788456080286535588@;
  const real square = 0.044715@ * x * x;
  const real s = 1 / (1 + exp@(-2 * (root * x * (1 + square))));
  return s + 2 * x * s * (1 - s) * (root * (1 + 3 * square));
}
)"},
    {"gelu_erf@", R"(static real gelu_erf@(real x) {
  return 0.5@ * x * erfc@(x * -0.70710678118654752440@);
}
)"},
    {"gelu_erf_slope@", R"(static real gelu_erf_slope@(real x) {
  return 0.5@ * erfc@(x * -0.70710678118654752440@) +
         x * (0.39894228040143267794@ * exp@(-0.5@ * x * x));
}
)"},
    {"mish@", R"(static real mish@(real x) {
  const real e = exp@(x <= 20 ? x : 20);
  const real n = e * (e + 2);
  return x * (n / (n + 2));
}
)"},
    {"mish_slope@", R"(static real mish_slope@(real x) {
  const real e = exp@(x <= 20 ? x : 20);
  const real n = e * (e + 2);
  const real part = e / (n + 2);
  return n / (n + 2) + 4 * x * part * ((1 + e) / (n + 2));
}
)"},
    {"hard_swish@", R"(static real hard_swish@(real x) {
  if (x <= -3) return 0;
  return x >= 3 ? x : x * (x + 3) * (1 / 6.0@);
}
)"},
    {"hard_swish_slope@", R"(static real hard_swish_slope@(real x) {
  if (x <= -3) return 0;
  return x >= 3 ? 1 : (x + x + 3) * (1 / 6.0@);
}
)"},
    {"philox4x32", R"(/* Philox4x32-10 (Salmon et al. 2011). */
static void philox4x32(const uint32_t counter[4], uint32_t key0, uint32_t key1,
                       uint32_t words[4]) {
  for (int i = 0; i < 4; ++i) words[i] = counter[i];
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = (uint64_t)0xD2511F53U * words[0];
    const uint64_t b = (uint64_t)0xCD9E8D57U * words[2];
    words[0] = (uint32_t)(b >> 32) ^ words[1] ^ key0;
    words[1] = (uint32_t)b;
    words[2] = (uint32_t)(a >> 32) ^ words[3] ^ key1;
    words[3] = (uint32_t)a;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
}
)"},
    {"random_words",
     R"(/* The words of elements 4 * quad to 4 * quad + 3 of op `id`. */
static void random_words(int64_t seed, int64_t step, uint32_t id,
                         uint32_t stream, int64_t quad, uint32_t words[4]) {
  const uint64_t s = (uint64_t)step;
  const uint64_t q = (uint64_t)quad;
  const uint64_t key = (uint64_t)seed;
  const uint32_t counter[4] = {(uint32_t)q, (uint32_t)(q >> 32), (uint32_t)s,
                               (uint32_t)(s >> 32) ^ stream << 30};
  philox4x32(counter, (uint32_t)key,
             (uint32_t)(key >> 32) ^ id * 0x9E3779B1U, words);
}
)"},
    {"one_minus_power", R"(/* 1 - beta^t without cancellation. */
static double one_minus_power(double beta, double t) {
  return -expm1(t * log(beta));
}
)"},
    {"first_uniforms",
     R"(/* Two uniform numbers in (0, 1) of element `index`. */
static void first_uniforms(uint64_t seed, uint64_t stream, uint64_t index,
                           double u[2]) {
  const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32),
                               (uint32_t)stream, (uint32_t)(stream >> 32)};
  uint32_t words[4];
  philox4x32(counter, (uint32_t)seed, (uint32_t)(seed >> 32), words);
  for (int i = 0; i < 2; ++i) {
    const uint64_t high = words[2 * i];
    const uint64_t bits = (high << 32 | words[2 * i + 1]) >> 11;
    u[i] = ((double)bits + 0.5) * 0x1p-53;
  }
}
)"},
    {"first_uniform",
     R"(static double first_uniform(uint64_t seed, uint64_t stream, uint64_t index) {
  double u[2];
  first_uniforms(seed, stream, index, u);
  return u[0];
}
)"},
    {"first_normal", R"(/* A normal number (Box & Muller 1958). */
static double first_normal(uint64_t seed, uint64_t stream, uint64_t index) {
  double u[2];
  first_uniforms(seed, stream, index, u);
  return sqrt(-2 * log(u[0])) * cos(2 * 3.141592653589793116 * u[1]);
}
)"},
    {"first_truncated", R"(/* A normal number within two standard deviations. */
static double first_truncated(uint64_t seed, uint64_t stream, uint64_t index) {
  for (uint64_t draw = 0; draw < 32; ++draw) {
    const double x = first_normal(seed, stream, index | draw << 58);
    if (fabs(x) <= 2) return x;
  }
  return 0;
}
)"},
};

}  // namespace

std::span<const HelperText> NumberFunctions() { return kNumberFunctions; }

}  // namespace stowage::compile
