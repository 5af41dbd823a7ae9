// Windows, spectra and mel weights: constants, and matmuls by them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "base/strings.h"
#include "formats/array.h"
#include "ir/ops.h"
#include "onnx/ops.h"
#include "onnx/tensor.h"

namespace stowage::onnx {
namespace {

using Reals = std::vector<double>;

constexpr double kTurn = 2 * std::numbers::pi;
// The maximum size of a constant.
constexpr int64_t kMaxNumbers = int64_t{1} << 24;

Value ConstantReals(GraphBuilder& g, DType dtype, const Shape& shape,
                    const Reals& reals) {
  const Array array = ArrayOf(dtype, shape, reals);
  return Constant(g, array.type.dtype, array.type.shape, array.data());
}

// The constant scalar of operand i, in [least, kMaxNumbers].
Result<int64_t> NumberOf(ImportedNode& node, int i, std::string_view what,
                         int64_t least) {
  STOWAGE_ASSIGN_OR_RETURN(const auto numbers, node.Ints(i, what));
  if (numbers.size() != 1 || numbers[0] < least || numbers[0] > kMaxNumbers) {
    return node.Wrong(StrCat("has ", numbers.empty() ? 0 : numbers[0],
                             " for its ", what, "; expected ", least, " to ",
                             kMaxNumbers));
  }
  return numbers[0];
}

// A cosine-sum window: a0 - a1 cos(turn n / N) + a2 cos(2 turn n / N).
Result<Values> Window(ImportedNode& node, double a0, double a1, double a2) {
  STOWAGE_ASSIGN_OR_RETURN(const int64_t size, NumberOf(node, 0, "size", 1));
  STOWAGE_ASSIGN_OR_RETURN(
      const DType dtype,
      DTypeOfElement(static_cast<int32_t>(node.Int("output_datatype", 1))));
  const bool periodic = node.Int("periodic", 1) != 0;
  const double period = static_cast<double>(periodic ? size : size - 1);
  Reals reals;
  for (int64_t n = 0; n < size; ++n) {
    const double angle =
        period == 0 ? 0 : kTurn * static_cast<double>(n) / period;
    reals.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  return Values{ConstantReals(node.graph(), dtype, {size}, reals)};
}

// The matrices (from, to) of cosines and sines of k n turns / length.
struct Waves {
  Value cosines, sines;
};
Result<Waves> WavesOf(ImportedNode& node, int64_t from, int64_t to,
                      int64_t length, double scale) {
  if (from > kMaxNumbers / to) {
    return node.Unsupported(StrCat("makes ", to, " frequencies of ", from,
                                   " elements; their product may be ",
                                   kMaxNumbers));
  }
  Reals cosines, sines;
  for (int64_t n = 0; n < from; ++n) {
    for (int64_t k = 0; k < to; ++k) {
      const auto turns = static_cast<double>(k * n % length);
      const double angle = kTurn * turns / static_cast<double>(length);
      cosines.push_back(scale * std::cos(angle));
      sines.push_back(scale * std::sin(angle));
    }
  }
  const DType dtype = node.Type(0).dtype;
  return Waves{ConstantReals(node.graph(), dtype, {from, to}, cosines),
               ConstantReals(node.graph(), dtype, {from, to}, sines)};
}

// Real and imaginary parts; the second is inert if it is zero.
struct Complex {
  Value real, imaginary;
};

// The parts of x (..., 1 or 2), without that dimension.
Complex ComplexPartsOf(Value x) {
  if (!x.ok()) return {x, {}};
  Shape shape;
  for (int i = 0; i + 1 < x.rank(); ++i) shape.push_back(x.dim(i));
  if (x.shape().back() == 1) return {Reshape(x, shape), {}};
  return {Reshape(Slice(x, -1, 0, 1), shape),
          Reshape(Slice(x, -1, 1, 2), shape)};
}

Value JoinedParts(const Complex& x) {
  if (!x.real.ok()) return x.real;
  Shape shape = x.real.shape();
  shape.push_back(1);
  return Concat(Values{Reshape(x.real, shape), Reshape(x.imaginary, shape)},
                -1);
}

// The spectrum of the last axis: the sum of x e^(-+ i angle).
Complex Spectrum(const Complex& x, const Waves& waves, bool inverse) {
  Complex y = {MatMul(x.real, waves.cosines), MatMul(x.real, waves.sines)};
  if (!inverse) y.imaginary = Neg(y.imaginary);
  if (!x.imaginary.ok()) return y;
  const Value across = MatMul(x.imaginary, waves.sines);
  y.real = inverse ? Sub(y.real, across) : Add(y.real, across);
  y.imaginary = Add(y.imaginary, MatMul(x.imaginary, waves.cosines));
  return y;
}

Status CheckIsComplex(const ImportedNode& node, const Shape& x) {
  if (x.rank() >= 2 && (x.back() == 1 || x.back() == 2)) return {};
  return node.Wrong(StrCat("is of ", x.ToString(),
                           "; expected real parts, or real and imaginary ones, "
                           "as the last dimension"));
}

}  // namespace

Result<Values> ConvertHannWindow(ImportedNode& node) {
  return Window(node, 0.5, 0.5, 0);
}
Result<Values> ConvertHammingWindow(ImportedNode& node) {
  return Window(node, 25.0 / 46, 21.0 / 46, 0);
}
Result<Values> ConvertBlackmanWindow(ImportedNode& node) {
  return Window(node, 0.42, 0.5, 0.08);
}

Result<Values> ConvertDFT(ImportedNode& node) {
  const Shape& x = node.ShapeOf(0);
  STOWAGE_RETURN_IF_ERROR(CheckIsComplex(node, x));
  int64_t axis = node.Int("axis", 1);
  if (node.version() >= 20) {
    axis = -2;
    if (node.Has(2)) {
      STOWAGE_ASSIGN_OR_RETURN(const auto axes, node.Ints(2, "axis"));
      if (axes.size() != 1) return node.Wrong("has no single axis");
      axis = axes[0];
    }
  }
  STOWAGE_ASSIGN_OR_RETURN(axis, node.Axis(axis, x.rank()));
  if (axis + 1 == x.rank()) {
    return node.Wrong("runs along the dimension of its complex parts");
  }
  int64_t length = x[static_cast<int>(axis)];
  if (node.Has(1)) {
    STOWAGE_ASSIGN_OR_RETURN(length, NumberOf(node, 1, "dft_length", 1));
  }
  const bool inverse = node.Int("inverse", 0) != 0;
  const bool onesided = node.Int("onesided", 0) != 0;
  if (inverse && onesided) {
    return node.Unsupported("is the inverse of one side; expected both");
  }
  // A longer signal is truncated, a shorter one padded with zeros.
  const int64_t used = std::min(length, x[static_cast<int>(axis)]);
  STOWAGE_ASSIGN_OR_RETURN(
      const Waves waves,
      WavesOf(node, used, onesided ? length / 2 + 1 : length, length,
              inverse ? 1 / static_cast<double>(length) : 1));
  const Axes order = SwappedWithLast(x.rank() - 1, axis);
  Complex parts = ComplexPartsOf(Slice(node.In(0), axis, 0, used));
  parts.real = Permute(parts.real, order);
  if (parts.imaginary.ok()) parts.imaginary = Permute(parts.imaginary, order);
  Complex y = Spectrum(parts, waves, inverse);
  return Values{
      JoinedParts({Permute(y.real, order), Permute(y.imaginary, order)})};
}

Result<Values> ConvertSTFT(ImportedNode& node) {
  Shape x = node.ShapeOf(0);
  Value signal = node.In(0);
  if (x.rank() == 2) {
    x.push_back(1);
    signal = Reshape(signal, x);
  }
  STOWAGE_RETURN_IF_ERROR(CheckIsComplex(node, x));
  STOWAGE_ASSIGN_OR_RETURN(const int64_t step,
                           NumberOf(node, 1, "frame_step", 1));
  int64_t length = node.Has(2) ? node.ShapeOf(2).num_elements() : 0;
  if (node.Has(3)) {
    STOWAGE_ASSIGN_OR_RETURN(length, NumberOf(node, 3, "frame_length", 1));
  }
  if (x.rank() != 3 || length < 1 || length > x[1] ||
      (node.Has(2) && node.ShapeOf(2).num_elements() != length)) {
    return node.Wrong(StrCat("takes frames of ", length, " from ", x.ToString(),
                             "; expected batches of signals that are as long, "
                             "and a window of that length if any"));
  }
  const int64_t frames = 1 + (x[1] - length) / step;
  const bool onesided = node.Int("onesided", 1) != 0;
  STOWAGE_ASSIGN_OR_RETURN(
      const Waves waves,
      WavesOf(node, length, onesided ? length / 2 + 1 : length, length, 1));
  if (frames > kMaxNumbers / length) {
    return node.Unsupported(StrCat("takes ", frames, " frames of ", length,
                                   "; together they may have ", kMaxNumbers,
                                   " elements"));
  }
  std::vector<int64_t> places;
  for (int64_t frame = 0; frame < frames; ++frame) {
    for (int64_t i = 0; i < length; ++i) places.push_back(frame * step + i);
  }
  const Value indices =
      Reshape(ConstantInts(node.graph(), places), {frames, length});
  // (batch, signal) -> (frames, length, batch) -> (batch, frames, length)
  const auto framed = [&](Value part) {
    Value cut = Permute(Gather(Transpose(part), indices), {2, 0, 1});
    return node.Has(2) ? Mul(cut, Reshape(node.In(2), {length})) : cut;
  };
  Complex parts = ComplexPartsOf(signal);
  parts.real = framed(parts.real);
  if (parts.imaginary.ok()) parts.imaginary = framed(parts.imaginary);
  return Values{JoinedParts(Spectrum(parts, waves, /*inverse=*/false))};
}

// By ONNX's definition, which rounds the edges of the triangles to bins.
Result<Values> ConvertMelWeightMatrix(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const int64_t bands,
                           NumberOf(node, 0, "num_mel_bins", 1));
  STOWAGE_ASSIGN_OR_RETURN(const int64_t length,
                           NumberOf(node, 1, "dft_length", 1));
  STOWAGE_ASSIGN_OR_RETURN(const int64_t rate,
                           NumberOf(node, 2, "sample_rate", 1));
  STOWAGE_ASSIGN_OR_RETURN(const auto lower, node.Reals(3, "lower edge"));
  STOWAGE_ASSIGN_OR_RETURN(const auto upper, node.Reals(4, "upper edge"));
  STOWAGE_ASSIGN_OR_RETURN(
      const DType dtype,
      DTypeOfElement(static_cast<int32_t>(node.Int("output_datatype", 1))));
  const int64_t bins = length / 2 + 1;
  if (lower.size() != 1 || upper.size() != 1 || bands > kMaxNumbers / bins) {
    return node.Wrong(StrCat("makes ", bands, " bands of ", bins, " bins from ",
                             lower.size(), " lower and ", upper.size(),
                             " upper edges; expected one each"));
  }
  const auto mel = [](double hertz) {
    return 2595 * std::log10(1 + hertz / 700);
  };
  const double first = mel(lower[0]);
  const double width = (mel(upper[0]) - first) / static_cast<double>(bands + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double hertz =
        700 *
        (std::pow(10, (static_cast<double>(i) * width + first) / 2595) - 1);
    const double bin = std::floor(static_cast<double>(length + 1) * hertz /
                                  static_cast<double>(rate));
    if (!(bin >= 0 && bin < static_cast<double>(bins))) {
      return node.Wrong(StrCat("has a band that ends at ", hertz,
                               " Hz, which is none of ", bins,
                               " bins at a rate of ", rate));
    }
    edges.push_back(static_cast<int64_t>(bin));
  }
  Reals weights(static_cast<size_t>(bins * bands), 0.0);
  for (int64_t band = 0; band < bands; ++band) {
    const auto at = static_cast<size_t>(band);
    const int64_t left = edges[at], middle = edges[at + 1],
                  right = edges[at + 2];
    const auto weight = [&](int64_t bin) -> double& {
      return weights[static_cast<size_t>(bin * bands + band)];
    };
    for (int64_t bin = left; bin <= middle; ++bin) {
      weight(bin) = left == middle ? 1
                                   : static_cast<double>(bin - left) /
                                         static_cast<double>(middle - left);
    }
    for (int64_t bin = middle; bin < right; ++bin) {
      weight(bin) = static_cast<double>(right - bin) /
                    static_cast<double>(right - middle);
    }
  }
  return Values{ConstantReals(node.graph(), dtype, {bins, bands}, weights)};
}

}  // namespace stowage::onnx
