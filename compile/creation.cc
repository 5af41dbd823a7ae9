// Ops without operands, and ops on random numbers.

#include <cmath>
#include <string>

#include "compile/helpers.h"
#include "compile/ops.h"

namespace stowage::compile {
namespace {

constexpr uint32_t kUniformStream = 2;  // math::RandomStream
constexpr uint32_t kNormalStream = 3;

// An integer that `dtype` holds, or a real.
Expr NumberOf(const Kernel& k, DType dtype, double value) {
  if (IsFloat(dtype)) return k.Real(value);
  const auto integer = static_cast<int64_t>(value);
  // The smallest 64-bit integer has no literal.
  return integer == INT64_MIN ? "INT64_MIN" : StrCat(integer);
}

// Loops over elements 4 * quad + lane; `body` gets the element, its word and, for
// values computed in pairs, the lane.
void ForWords(
    Kernel& k, size_t seed, uint32_t stream, int64_t size,
    const std::function<void(const Expr& i, const Expr& lane)>& body) {
  k.Line("uint32_t words[4];");
  k.For("quad", (size + 3) / 4, [&](const Expr& quad) {
    k.Line("random_words(", k.in(seed).name(), "[0], ", k.in(seed + 1).name(),
           "[0], ", static_cast<uint32_t>(k.Int("id")), "U, ", stream, "U, ",
           quad, ", words);");
    const Expr lane = k.Fresh("lane");
    const int64_t rest = size % 4;
    const Expr count =
        rest == 0   ? "4"
        : size <= 4 ? StrCat(rest)
                    : StrCat("(", quad, " < ", size / 4, " ? 4 : ", rest, ")");
    k.Block(StrCat("for (dim_t ", lane, " = 0; ", lane, " < ", count, "; ++",
                   lane, ")"),
            [&] {
              body(Plus({Times(quad, 4), lane}), lane);
            });
  });
}

}  // namespace

// The bytes are data of the file.
void WriteConstant(Kernel& k) {
  const std::string& data = k.attrs().Data("data");
  k.Line("static const uint8_t data[", data.size(), "] = {\n", BytesInC(data),
         "  };");
  k.Line("copy_data(", k.out(0).name(), ", data, sizeof data);");
}

void WriteFill(Kernel& k) {
  const Expr value = NumberOf(k, k.out(0).dtype(), k.attrs().Float("value"));
  k.For("i", k.out(0).size(),
        [&](const Expr& i) { k.Store(k.out(0), i, value); });
}

void WriteIota(Kernel& k) {
  const double start = k.attrs().Float("start"), step = k.attrs().Float("step");
  k.For("i", k.out(0).size(), [&](const Expr& i) {
    if (IsFloat(k.out(0).dtype())) {
      k.Line("const double number = ", StrCat(start), " + ", StrCat(step),
             " * (double)", i, ";");
      const std::string_view name = k.out(0).name();
      switch (k.out(0).dtype()) {
        case DType::kF16:
          return k.Line(name, "[", i,
                        "] = float_to_half(round_to_odd(number));");
        case DType::kBF16:
          return k.Line(name, "[", i,
                        "] = float_to_bfloat16(round_to_odd(number));");
        default:
          return k.Line(name, "[", i, "] = (real)number;");
      }
    } else {
      k.Line(k.out(0).name(), "[", i, "] = (", CType(k.out(0).dtype()), ")(",
             NumberOf(k, DType::kI64, start), " + (int64_t)", i, " * ",
             NumberOf(k, DType::kI64, step), ");");
    }
  });
}

void WriteRandomUniform(Kernel& k) {
  const bool is_f64 = k.real() == DType::kF64;
  // As many bits as the type holds; the rest is truncated.
  const DType dtype = k.out(0).dtype();
  const int bits = dtype == DType::kF16 ? 11 : dtype == DType::kBF16 ? 8 : 24;
  ForWords(k, 0, kUniformStream, k.out(0).size(),
           [&](const Expr& i, const Expr& lane) {
             const Expr word = StrCat("words[", lane, "]");
             k.Store(k.out(0), i,
                     is_f64 ? StrCat("(double)", word, " * 0x1p-32")
                            : StrCat("(float)(", word, " >> ", 32 - bits,
                                     ") * 0x1p-", bits, "f"));
           });
}

// Box & Muller 1958: each pair of words is two numbers.
void WriteRandomNormal(Kernel& k) {
  ForWords(k, 0, kNormalStream, k.out(0).size(),
           [&](const Expr& i, const Expr& lane) {
             const Expr pair = StrCat("(", lane, " & 2)");
             k.Line("const real u = (real)((words[", pair,
                    "] >> 8) + 1) * 0x1p-24@;");
             k.Line("const real angle = (real)(words[", pair,
                    " + 1] >> 8) * 0x1p-24@ * 6.283185307179586477@;");
             k.Store(k.out(0), i,
                     StrCat("sqrt@(-2 * log@(u)) * (", lane,
                            " % 2 == 0 ? cos@(angle) : sin@(angle))"));
           });
}

// The mask is a function of seed, op, step and element; it is never stored.
void WriteDropout(Kernel& k) {
  const double p = k.attrs().Float("p");
  const auto threshold = static_cast<uint64_t>(std::ceil(p * 4294967296.0));
  const Tensor* const both[] = {&k.in(0), &k.out(0)};
  if (threshold == 0) return WriteMove(k);
  k.Line("uint32_t words[4] = {0, 0, 0, 0};");
  k.Line("int64_t element = 0;");
  k.ForElements(both, [&](std::span<const Expr> at) {
    k.Block("if (element % 4 == 0)", [&] {
      k.Line("random_words(", k.in(1).name(), "[0], ", k.in(2).name(), "[0], ",
             static_cast<uint32_t>(k.Int("id")), "U, 0U, element / 4, words);");
    });
    k.Store(k.out(0), at[1],
            StrCat("words[element % 4] >= ", threshold, "U ? ",
                   k.Load(k.in(0), at[0]), " * ", k.Real(1 / (1 - p)), " : 0"));
    k.Line("++element;");
  });
}

}  // namespace stowage::compile
