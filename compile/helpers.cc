// The text of the helpers follows math/small_floats.h, math/weight_blocks.h,
// math/optimizer.h, math/activations.h and math/random.h.

#include "compile/helpers.h"

#include <algorithm>
#include <span>

#include "base/strings.h"
#include "compile/kernel.h"
#include "ir/tensor_type.h"

namespace stowage::compile {
namespace {

// The text of one C function. It may call functions above it in its list, and those of
// kNumberFunctions may call those of kNumberFormats.
struct HelperText {
  std::string_view name;  // with @ if it is for both number types
  std::string_view text;
};

constexpr std::string_view kMathFunctions[] = {
    "ceil",  "cos",    "erf",   "erfc",  "exp",   "expm1",  "fabs",   "floor",
    "fmod",  "log",    "log1p", "pow",   "rint",  "sin",    "sqrt",   "tanh",
    "trunc", "ceilf",  "cosf",  "erff",  "erfcf", "expm1f", "fabsf",  "floorf",
    "fmodf", "log1pf", "powf",  "rintf", "sinf",  "sqrtf",  "truncf",
};

constexpr HelperText kNumberFormats[] = {
    {"copy_data",
     R"(/* By an address that compilers do not follow: of 40 and 48 bytes, gcc 12 would store
 * others for AVX-512. */
static void copy_data(void *to, const uint8_t *data, size_t bytes) {
  const uint8_t *const volatile from = data;
  memcpy(to, from, bytes);
}
)"},
    {"float_bits", R"(static uint32_t float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
)"},
    {"bits_float", R"(static float bits_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
)"},
    {"exp_f32", R"(/* 2^n e^r with |r| <= log(2) / 2, e^r as in Cephes. */
static float exp_f32(float x) {
  if (x != x) return x;
  const float a = x < -105.0f ? -105.0f : x > 89.0f ? 89.0f : x;
  /* Adding 1.5 * 2^23 rounds to an integer. */
  const float n = (a * 1.44269504f + 12582912.0f) - 12582912.0f;
  const float r = (a - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  /* Two factors, since 2^n may be no normal number. */
  const int32_t exponent = (int32_t)n, half = exponent / 2;
  return p * bits_float((uint32_t)(half + 127) << 23) *
         bits_float((uint32_t)(exponent - half + 127) << 23);
}
)"},
    {"log_f32",
     R"(/* n log(2) + log(1 + r) with 1 + r from sqrt(1/2) to sqrt(2), as in Cephes. */
static float log_f32(float x) {
  if (!(x > 0)) return x < 0 ? NAN : x == 0 ? -INFINITY : x;
  if (x > 3.4028235e38f) return x;
  const int is_small = x < 0x1p-126f;
  const uint32_t root = 0x3F3504F3U; /* of 1/2 */
  const uint32_t bits = float_bits(is_small ? x * 0x1p+24f : x) + (0x3F800000U - root);
  const float n = (float)((int32_t)(bits >> 23) - 127 - (is_small ? 24 : 0));
  const float r = bits_float((bits & 0x7FFFFFU) + root) - 1.0f;
  const float z = r * r;
  float p = r * 7.0376836292e-2f - 1.1514610310e-1f;
  p = p * r + 1.1676998740e-1f;
  p = p * r - 1.2420140846e-1f;
  p = p * r + 1.4249322787e-1f;
  p = p * r - 1.6668057665e-1f;
  p = p * r + 2.0000714765e-1f;
  p = p * r - 2.4999993993e-1f;
  p = p * r + 3.3333331174e-1f;
  return r + (p * r * z - n * 2.12194440e-4f - 0.5f * z) + n * 0.693359375f;
}
)"},
    {"tanh_f32",
     R"(/* Below 0.625 a polynomial of Cephes, from there on 1 - 2 / (e^2|x| + 1). */
static float tanh_f32(float x) {
  const float z = x * x, magnitude = x < 0 ? -x : x;
  float p = z * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  if (magnitude < 0.625f) return x + x * z * p;
  const float far = 1.0f - 2.0f / (exp_f32(2.0f * magnitude) + 1.0f);
  return x < 0 ? -far : far;
}
)"},
    {"bfloat16_to_float", R"(static float bfloat16_to_float(uint16_t bits) {
  return bits_float((uint32_t)bits << 16);
}
)"},
    {"float_to_bfloat16", R"(static uint16_t float_to_bfloat16(float x) {
  const uint32_t bits = float_bits(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return (uint16_t)(bits >> 16 | 0x40U);
  return (uint16_t)((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}
)"},
    {"half_to_float", R"(static float half_to_float(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000U) << 16;
  const uint32_t exponent = bits >> 10 & 0x1FU;
  const uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {
    return bits_float(sign | float_bits((float)fraction * 0x1p-24f));
  }
  if (exponent == 0x1FU) return bits_float(sign | 0x7F800000U | fraction << 13);
  return bits_float(sign | (exponent + 112U) << 23 | fraction << 13);
}
)"},
    {"float_to_half", R"(static uint16_t float_to_half(float x) {
  const uint32_t bits = float_bits(x);
  const uint32_t sign = bits >> 16 & 0x8000U;
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return (uint16_t)(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U) return (uint16_t)(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {
    const float sum = bits_float(magnitude) + 0.5f;
    return (uint16_t)(sign | (float_bits(sum) - 0x3F000000U));
  }
  return (uint16_t)(sign | (magnitude - (112U << 23) + 0xFFFU +
                            (magnitude >> 13 & 1U)) >> 13);
}
)"},
    {"round_to_odd",
     R"(/* A float whose last bit says whether anything was cut off. */
static float round_to_odd(double x) {
  const float nearest = (float)x;
  const double back = (double)nearest;
  if (back == x || x != x) return nearest;
  uint32_t bits = float_bits(nearest);
  if ((x > 0) == (back > x)) bits -= 1;
  return bits_float(bits | 1U);
}
)"},
    {"load_word", R"(static uint32_t load_word(const uint8_t *from) {
  return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
         (uint32_t)from[3] << 24;
}
)"},
    {"accumulate@",
     R"(/* Adds to a sum and keeps what rounding cuts off (Kahan 1965). */
static void accumulate@(real *sum, real *rest, real term) {
  const real whole_term = term - *rest;
  const real next = *sum + whole_term;
  *rest = (next - *sum) - whole_term;
  *sum = next;
}
)"},
    {"decode_f32@",
     R"(/* Blocks of files of weights, little-endian (math/weight_blocks.h): one to numbers. */
static void decode_f32@(const uint8_t *from, real *to) {
  to[0] = bits_float(load_word(from));
}
)"},
    {"load_half", R"(static float load_half(const uint8_t *from) {
  return half_to_float((uint16_t)(from[0] | from[1] << 8));
}
)"},
    {"decode_f16@", R"(static void decode_f16@(const uint8_t *from, real *to) {
  to[0] = load_half(from);
}
)"},
    {"decode_bf16@",
     R"(static void decode_bf16@(const uint8_t *from, real *to) {
  to[0] = bfloat16_to_float((uint16_t)(from[0] | from[1] << 8));
}
)"},
    {"decode_nibbles@",
     R"(/* 32 numbers d q + m of nibbles, with a fifth bit each. */
static void decode_nibbles@(const uint8_t *nibbles, uint32_t high, float d,
                            float m, real *to) {
  for (int j = 0; j < 16; ++j) {
    const uint32_t low_q = (nibbles[j] & 15U) | (high >> j & 1U) << 4;
    const uint32_t high_q = (uint32_t)nibbles[j] >> 4 | (high >> (j + 16) & 1U) << 4;
    to[j] = d * (float)low_q + m;
    to[j + 16] = d * (float)high_q + m;
  }
}
)"},
    {"decode_q4_0@",
     R"(static void decode_q4_0@(const uint8_t *from, real *to) {
  const float d = load_half(from);
  decode_nibbles@(from + 2, 0, d, -8 * d, to);
}
)"},
    {"decode_q4_1@",
     R"(static void decode_q4_1@(const uint8_t *from, real *to) {
  decode_nibbles@(from + 4, 0, load_half(from), load_half(from + 2), to);
}
)"},
    {"decode_q5_0@",
     R"(static void decode_q5_0@(const uint8_t *from, real *to) {
  const float d = load_half(from);
  decode_nibbles@(from + 6, load_word(from + 2), d, -16 * d, to);
}
)"},
    {"decode_q5_1@",
     R"(static void decode_q5_1@(const uint8_t *from, real *to) {
  decode_nibbles@(from + 8, load_word(from + 4), load_half(from),
                  load_half(from + 2), to);
}
)"},
    {"decode_q8_0@",
     R"(static void decode_q8_0@(const uint8_t *from, real *to) {
  const float d = load_half(from);
  for (int j = 0; j < 32; ++j) {
    const int q = from[2 + j] < 128 ? from[2 + j] : from[2 + j] - 256;
    to[j] = d * (float)q;
  }
}
)"},
    {"decode_k@",
     R"(/* 256 numbers in eight groups of a scale and a minimum; `high` may be null. */
static void decode_k@(const uint8_t *from, const uint8_t *high,
                      const uint8_t *nibbles, real *to) {
  const float d = load_half(from), m = load_half(from + 2);
  const uint8_t *scales = from + 4;
  for (int g = 0; g < 8; ++g) {
    int scale = scales[g] & 63, minimum = scales[g + 4] & 63;
    if (g >= 4) {
      scale = (scales[g + 4] & 15) | scales[g - 4] >> 6 << 4;
      minimum = scales[g + 4] >> 4 | scales[g] >> 6 << 4;
    }
    const float ds = d * (float)scale, mt = m * (float)minimum;
    for (int j = 0; j < 32; ++j) {
      int q = nibbles[g / 2 * 32 + j] >> (g % 2 * 4) & 15;
      if (high != NULL) q |= (high[j] >> g & 1) << 4;
      to[32 * g + j] = ds * (float)q - mt;
    }
  }
}
)"},
    {"decode_q4_k@",
     R"(static void decode_q4_k@(const uint8_t *from, real *to) {
  decode_k@(from, NULL, from + 16, to);
}
)"},
    {"decode_q5_k@",
     R"(static void decode_q5_k@(const uint8_t *from, real *to) {
  decode_k@(from, from + 16, from + 48, to);
}
)"},
    {"decode_q6_k@",
     R"(static void decode_q6_k@(const uint8_t *from, real *to) {
  const float d = load_half(from + 208);
  for (int g = 0; g < 8; ++g) {
    const uint8_t *nibbles = from + g / 4 * 64 + g % 2 * 32;
    const uint8_t *high = from + 128 + g / 4 * 32;
    for (int j = 0; j < 32; ++j) {
      const uint8_t scale = from[192 + 2 * g + j / 16];
      const int q = (nibbles[j] >> (g % 4 / 2 * 4) & 15) |
                    (high[j] >> (2 * (g % 4)) & 3) << 4;
      const float ds = d * (float)(scale < 128 ? scale : scale - 256);
      to[32 * g + j] = ds * (float)(q - 32);
    }
  }
}
)"},
    {"pair_of", R"(/* Number i of a block of 256 pairs of bits. */
static int pair_of(const uint8_t *pairs, int i) {
  return pairs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}
)"},
    {"decode_q2_k@",
     R"(static void decode_q2_k@(const uint8_t *from, real *to) {
  const float d = load_half(from + 80), m = load_half(from + 82);
  for (int i = 0; i < 256; ++i) {
    const float ds = d * (float)(from[i / 16] & 15);
    to[i] = ds * (float)pair_of(from + 16, i) - m * (float)(from[i / 16] >> 4);
  }
}
)"},
    {"decode_q3_k@",
     R"(static void decode_q3_k@(const uint8_t *from, real *to) {
  const float d = load_half(from + 108);
  const uint8_t *scales = from + 96;
  for (int i = 0; i < 256; ++i) {
    const int s = i / 16;
    const int low = scales[s % 8] >> (s / 8 * 4) & 15;
    const int high = scales[8 + s % 4] >> (s / 4 * 2) & 3;
    const int q = pair_of(from + 32, i) | (from[i % 32] >> (i / 32) & 1) << 2;
    to[i] = d * (float)((low | high << 4) - 32) * (float)(q - 4);
  }
}
)"},
    {"decode_levels@",
     R"(/* 32 numbers of nibbles that choose one of 16 levels. */
static void decode_levels@(const uint8_t *nibbles, float d, real *to) {
  static const int8_t levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};
  for (int j = 0; j < 16; ++j) {
    to[j] = d * (float)levels[nibbles[j] & 15];
    to[j + 16] = d * (float)levels[nibbles[j] >> 4];
  }
}
)"},
    {"decode_iq4_nl@",
     R"(static void decode_iq4_nl@(const uint8_t *from, real *to) {
  decode_levels@(from + 2, load_half(from), to);
}
)"},
    {"decode_iq4_xs@",
     R"(static void decode_iq4_xs@(const uint8_t *from, real *to) {
  const float d = load_half(from);
  for (int g = 0; g < 8; ++g) {
    const int low = from[4 + g / 2] >> (g % 2 * 4) & 15;
    const int high = from[2 + g / 4] >> (g % 4 * 2) & 3;
    decode_levels@(from + 8 + 16 * g, d * (float)((low | high << 4) - 32), to + 32 * g);
  }
}
)"},
    {"decode_tq1_0@",
     R"(static void decode_tq1_0@(const uint8_t *from, real *to) {
  static const uint8_t powers[5] = {1, 3, 9, 27, 81};
  const float d = load_half(from + 52);
  for (int i = 0; i < 256; ++i) {
    const int begin = i < 160 ? 0 : i < 240 ? 160 : 240;
    const int count = i < 160 ? 32 : i < 240 ? 16 : 4;
    const uint8_t byte = from[begin / 5 + (i - begin) % count];
    const int fraction = byte * powers[(i - begin) / count] & 255;
    to[i] = d * (float)((fraction * 3 >> 8) - 1);
  }
}
)"},
    {"decode_tq2_0@",
     R"(static void decode_tq2_0@(const uint8_t *from, real *to) {
  const float d = load_half(from + 64);
  for (int i = 0; i < 256; ++i) to[i] = d * (float)(pair_of(from, i) - 1);
}
)"},
    {"decode_mxfp4@",
     R"(static void decode_mxfp4@(const uint8_t *from, real *to) {
  static const int8_t twice[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                   0, -1, -2, -3, -4, -6, -8, -12};
  const uint32_t e = from[0];
  const float d = bits_float(e < 2 ? 0x00200000U << e : (e - 1) << 23);
  for (int j = 0; j < 16; ++j) {
    to[j] = d * (float)twice[from[1 + j] & 15];
    to[j + 16] = d * (float)twice[from[1 + j] >> 4];
  }
}
)"},
    {"stochastic_bfloat16",
     R"(/* Up if the bits that are cut off and `random` make 2^16. */
static uint16_t stochastic_bfloat16(float x, uint32_t random) {
  const uint32_t bits = float_bits(x);
  if ((bits & 0x7FFFFFFFU) >= 0x7F800000U) return float_to_bfloat16(x);
  return (uint16_t)((bits + random) >> 16);
}
)"},
    {"join_weight_32",
     R"(static float join_weight_32(uint16_t weight, int16_t delta) {
  return bits_float(((uint32_t)weight << 16) + (uint32_t)(int32_t)delta);
}
)"},
    {"split_weight_32",
     R"(/* A bf16 weight, to the nearest, and the rest of the bits. */
static void split_weight_32(float master, bf16 *weight, i16 *delta) {
  const uint32_t bits = float_bits(master);
  const int is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  const uint16_t low = (uint16_t)bits;
  *weight = is_nan ? float_to_bfloat16(master) : (uint16_t)((bits + 0x8000U) >> 16);
  *delta = (int16_t)(is_nan ? 0 : low < 0x8000U ? (int)low : (int)low - 0x10000);
}
)"},
    {"join_weight_24",
     R"(static float join_weight_24(uint16_t weight, uint8_t delta) {
  const int rest = delta < 128 ? delta : delta - 256;
  return bits_float(((uint32_t)weight << 16) + (uint32_t)(int32_t)(rest * 256));
}
)"},
    {"split_weight_24", R"(/* The same of the nearest float of 24 bits. */
static void split_weight_24(float master, bf16 *weight, u8 *delta) {
  uint32_t bits = float_bits(master);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    *weight = float_to_bfloat16(master);
    *delta = 0;
    return;
  }
  bits = (bits + 0x80U) & 0xFFFFFF00U;
  *weight = (uint16_t)((bits + 0x8000U) >> 16);
  *delta = (uint8_t)(bits >> 8);
}
)"},
    {"dynamic_number",
     R"(/* Number j of seven decades (Dettmers et al. 2022); `more` is 1 without a sign. */
static float dynamic_number(int more, int j) {
  if (j == 0) return 0;
  if (j == (128 << more) - more) return 1;
  int n = 64 << more;
  float power = 1;
  for (; n > j + more; n /= 2) power *= 10;
  return (0.1f + 0.9f * ((float)(j + more - n) + 0.5f) / (float)n) / power;
}
)"},
    {"dynamic_nearest",
     R"(/* The number that is nearest to x, of two the lower. */
static int dynamic_nearest(int more, float x) {
  const int one = (128 << more) - more;
  if (!(x > 0)) return 0;
  if (x >= 1) return one;
  int n = 64 << more;
  float in_decade = x;
  for (int decade = 1; decade < 7 && in_decade < 0.1f; ++decade) {
    n /= 2;
    in_decade *= 10;
  }
  const float cell = (in_decade - 0.1f) * ((float)n * (1 / 0.9f));
  int k = cell > 0 ? (int)cell : 0;
  if (k > n - 1) k = n - 1;
  const int j = n - more + k;
  if (k == 0 && x - dynamic_number(more, j - 1) <= dynamic_number(more, j) - x) {
    return j - 1;
  }
  return j + 1 == one && 1 - x < x - dynamic_number(more, j) ? one : j;
}
)"},
    {"signed_dynamic_decode",
     R"(static float signed_dynamic_decode(uint8_t code) {
  if (code == 128) return 1;
  return code < 128 ? dynamic_number(0, code) : -dynamic_number(0, 256 - code);
}
)"},
    {"signed_dynamic_encode", R"(static uint8_t signed_dynamic_encode(float x) {
  const int j = dynamic_nearest(0, fabsf(x));
  if (x < 0) return (uint8_t)(j == 128 ? 1 - j : -j);
  return (uint8_t)j;
}
)"},
    {"dynamic_decode", R"(static float dynamic_decode(uint8_t code) {
  return dynamic_number(1, code);
}
)"},
    {"dynamic_encode", R"(static uint8_t dynamic_encode(float x) {
  const int j = dynamic_nearest(1, x);
  return (uint8_t)(j == 0 && x > 0 ? 1 : j);
}
)"},
    {"signed_companded_decode",
     R"(static float signed_companded_decode(uint8_t code) {
  const float z = (float)(code < 128 ? code : code - 256) * (1.0f / 127);
  return z / (2 - fabsf(z));
}
)"},
    {"signed_companded_encode",
     R"(static uint8_t signed_companded_encode(float x) {
  const float magnitude = fabsf(x);
  if (!(magnitude > 0)) return 0;
  const float z = magnitude < 1 ? 2 * magnitude / (1 + magnitude) : 1;
  const int j = (int)(127 * z + 0.5f);
  return (uint8_t)(x < 0 ? -j : j);
}
)"},
    {"companded_decode", R"(static float companded_decode(uint8_t code) {
  const float root = (float)code * (1.0f / 255);
  return root * root;
}
)"},
    {"companded_encode", R"(static uint8_t companded_encode(float x) {
  if (!(x > 0)) return 0;
  const int j = x < 1 ? (int)(255 * sqrtf(x) + 0.5f) : 255;
  return (uint8_t)(j == 0 ? 1 : j);
}
)"},
};

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

bool Calls(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const bool begins = at == 0 || !IsPartOfName(text[at - 1]);
    if (begins && text.substr(at + name.size()).starts_with('(')) return true;
  }
  return false;
}

std::string HelpersFor(std::string_view text) {
  const std::string vectors = VectorHelpersFor(text);
  std::string result;
  std::string all = StrCat(text, vectors);
  for (const std::span<const HelperText> helpers :
       {std::span<const HelperText>(kNumberFunctions),
        std::span<const HelperText>(kNumberFormats)}) {
    for (size_t i = helpers.size(); i-- > 0;) {
      const HelperText& helper = helpers[i];
      const bool is_for_both = helper.name.ends_with('@');
      std::string definitions;
      for (const DType type : {DType::kF32, DType::kF64}) {
        if (type == DType::kF64 && !is_for_both) continue;
        if (!Calls(all, ForType(helper.name, type))) continue;
        definitions += ForType(helper.text, type) + "\n";
      }
      all += definitions;
      result = definitions + result;
    }
  }
  return result + vectors;
}

std::vector<std::string_view> MathFunctionsIn(std::string_view text) {
  std::vector<std::string_view> called;
  for (const std::string_view name : kMathFunctions) {
    if (Calls(text, name)) called.push_back(name);
  }
  std::ranges::sort(called);
  return called;
}

std::string BytesInC(std::string_view bytes) {
  constexpr size_t kLine = 88;
  std::string text = "  ";
  size_t line = 0;
  for (const char c : bytes) {
    if (text.size() - line > kLine) {
      text += "\n  ";
      line = text.size();
    }
    text += StrCat(static_cast<int>(static_cast<unsigned char>(c)), ",");
  }
  return text + "\n";
}

}  // namespace stowage::compile
