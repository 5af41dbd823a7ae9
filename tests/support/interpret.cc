#include "tests/support/interpret.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "base/result.h"
#include "ir/op_def.h"
#include "tests/support/interpret_call.h"

namespace stowage {
namespace {

using interpret::Array;
using interpret::Call;
using interpret::Coordinates;
using interpret::Numbers;
using interpret::Position;

// --- Elementwise ---

void Map(Call& c, const std::function<double(double)>& f) {
  for (int64_t i = 0; i < c.out[0].size(); ++i) c.out[0][i] = f(c.input(0)[i]);
}

void Map2(Call& c, const std::function<double(double, double)>& f) {
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    c.out[0][i] = f(c.input(0)[i], c.input(1)[i]);
  }
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double SiluSlope(double x) { return Sigmoid(x) * (1 + x * (1 - Sigmoid(x))); }

constexpr double kPi = 3.14159265358979323846;

double GeluTanh(double x) {
  return x / 2 *
         (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x)));
}

double NormalCdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }
double GeluErfSlope(double x) {
  return NormalCdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * kPi);
}

double Mish(double x) { return x * std::tanh(std::log1p(std::exp(x))); }
double MishSlope(double x) {
  const double t = std::tanh(std::log1p(std::exp(x)));
  return t + x * (1 - t * t) * Sigmoid(x);
}

double HardSwish(double x) {
  return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
}
double HardSwishSlope(double x) {
  if (x <= -3) return 0;
  return x >= 3 ? 1 : (2 * x + 3) / 6;
}

double RoundToEven(double x) {
  const double down = std::floor(x);
  const double above = x - down;
  if (above == 0.5) return 2 * std::floor((down + 1) / 2);
  return above < 0.5 ? down : down + 1;
}

void EluGrad(Call& c) {
  const double alpha = c.Float("alpha");
  const double scale = c.Float("scale");
  Map2(c, [=](double y, double dy) {
    return y > 0 ? dy * scale : dy * (y + scale * alpha);
  });
}

double CastTo(DType dtype, double x) {
  if (IsFloat(dtype)) return x;
  return dtype == DType::kBool ? static_cast<double>(x != 0) : std::trunc(x);
}

void Where(Call& c) {
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    c.out[0][i] = c.input(0)[i] != 0 ? c.input(1)[i] : c.input(2)[i];
  }
}

// Philox4x32-10 (Salmon et al. 2011), written from the paper.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> x, uint32_t key0,
                               uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = 0xD2511F53ull * x[0];
    const uint64_t b = 0xCD9E8D57ull * x[2];
    x = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ x[3] ^ key1,
         static_cast<uint32_t>(a)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return x;
}

// The words for an op with operands seed and step from `operand` on.
std::array<uint32_t, 4> RandomWords(const Call& c, size_t operand, int64_t quad,
                                    uint32_t stream) {
  return interpret::RandomWords(static_cast<uint64_t>(c.input(operand)[0]),
                                static_cast<uint64_t>(c.input(operand + 1)[0]),
                                static_cast<uint32_t>(c.Int("id")), quad,
                                stream);
}

void Dropout(Call& c) {
  const double p = c.Float("p");
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const auto random = RandomWords(c, 1, i / 4, 0);
    const bool keeps = random[static_cast<size_t>(i % 4)] / 0x1p32 >= p;
    c.out[0][i] = keeps ? c.input(0)[i] / (1 - p) : 0;
  }
}

void RandomUniform(Call& c) {
  const DType dtype = c.node.attrs.Type("dtype");
  const double parts = dtype == DType::kF64   ? 0x1p32
                       : dtype == DType::kF32 ? 0x1p24
                       : dtype == DType::kF16 ? 0x1p11
                                              : 0x1p8;
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const auto random = RandomWords(c, 0, i / 4, 2);
    const double y = random[static_cast<size_t>(i % 4)] / 0x1p32;
    c.out[0][i] = std::floor(y * parts) / parts;
  }
}

// Box & Muller, of the first two words and of the last two.
void RandomNormal(Call& c) {
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const auto random = RandomWords(c, 0, i / 4, 3);
    const auto pair = static_cast<size_t>(i % 4 / 2 * 2);
    const double u = (std::floor(random[pair] / 256.0) + 1) / 0x1p24;
    const double turn = std::floor(random[pair + 1] / 256.0) / 0x1p24;
    const double angle = 2 * std::acos(-1.0) * turn;
    c.out[0][i] = std::sqrt(-2 * std::log(u)) *
                  (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }
}

// --- Creation and movement ---

void Gather(Call& c) {
  const Array& table = c.input(0);
  const int64_t row = table.size() / table.shape[0];
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    c.out[0][i] =
        table[interpret::IndexAt(c.input(1), i / row, table.shape[0]) * row +
              i % row];
  }
}

void ScatterAdd(Call& c) {
  c.out[0] = c.input(0);
  const Array& updates = c.input(2);
  const int64_t row = c.out[0].size() / c.out[0].shape[0];
  for (int64_t i = 0; i < updates.size(); ++i) {
    const int64_t index =
        interpret::IndexAt(c.input(1), i / row, c.out[0].shape[0]);
    c.out[0][index * row + i % row] += updates[i];
  }
}

void Concat(Call& c) {
  const int axis = static_cast<int>(c.Int("axis"));
  int64_t start = 0;
  for (const Array* part : c.in) {
    for (int64_t i = 0; i < part->size(); ++i) {
      Dims index = Coordinates(part->shape, i);
      index[axis] += start;
      c.out[0][Position(c.out[0].shape, index)] = (*part)[i];
    }
    start += part->shape[axis];
  }
}

// --- Reductions ---

// Folds every element into the element of out[0] that it reduces to.
void Fold(Call& c, const std::function<double(double, double)>& f) {
  const Array& x = c.input(0);
  Shape kept = x.shape;
  for (const int64_t axis : c.Ints("axes")) kept[static_cast<int>(axis)] = 1;
  std::vector<bool> seen(c.out[0].data.size(), false);
  for (int64_t i = 0; i < x.size(); ++i) {
    Dims index = Coordinates(x.shape, i);
    for (const int64_t axis : c.Ints("axes")) index[static_cast<int>(axis)] = 0;
    const int64_t target = Position(kept, index);
    auto first = seen.begin() + target;
    c.out[0][target] = *first ? f(c.out[0][target], x[i]) : x[i];
    *first = true;
  }
}

void ReduceMean(Call& c) {
  Fold(c, std::plus<>());
  const auto count = static_cast<double>(c.input(0).size() / c.out[0].size());
  for (double& y : c.out[0].data) y /= count;
}

void ArgMax(Call& c) {
  const Array& x = c.input(0);
  interpret::ForRows(x, [&](int64_t row, int64_t begin) {
    const auto first = x.data.begin() + begin;
    c.out[0][row] = static_cast<double>(
        std::max_element(first, first + x.shape.back()) - first);
  });
}

// --- Updates ---

void SliceUpdate(Call& c) {
  c.out[0].data = c.input(0).data;
  for (int64_t i = 0; i < c.input(1).size(); ++i) {
    Dims index = Coordinates(c.input(1).shape, i);
    index[static_cast<int>(c.Int("axis"))] +=
        c.Int("start") +
        (c.in.size() == 3 ? static_cast<int64_t>(c.input(2)[0]) : 0);
    c.out[0][Position(c.out[0].shape, index)] = c.input(1)[i];
  }
}

// --- Rounding ---

// x to a float type of so many significant bits, whose smallest number is
// 2^lowest and whose largest is below 2^limit: to the nearest, ties to even.
double RoundTo(double x, int bits, int lowest, int limit) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;  // |x| is in [2^(exponent - 1), 2^exponent)
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - bits, lowest));
  const double rounded = std::nearbyint(x / unit) * unit;
  if (std::abs(rounded) < std::ldexp(1.0, limit)) return rounded;
  return std::copysign(std::numeric_limits<double>::infinity(), x);
}

void RoundAll(DType dtype, Numbers* numbers) {
  for (double& x : *numbers) {
    if (dtype == DType::kBF16) x = RoundTo(x, 8, -133, 128);
    if (dtype == DType::kF16) x = RoundTo(x, 11, -24, 16);
  }
}

// A switch without default: the compiler names an op that is missing.
void Run(Call& c) {
  switch (c.node.op) {
    case OpKind::kConstant:
      return interpret::Constant(c);
    case OpKind::kFill:
      std::ranges::fill(c.out[0].data, c.Float("value"));
      return;
    case OpKind::kCopy:
    case OpKind::kReshape:
    case OpKind::kReload:
    case OpKind::kOffload:
      c.out[0].data = c.input(0).data;
      return;
    case OpKind::kOffloadUpdate:
    case OpKind::kAssign:
      c.out[0].data = c.input(1).data;
      return;
    case OpKind::kLerpUpdate:
      for (int64_t i = 0; i < c.out[0].size(); ++i) {
        const double w = c.input(2)[i];
        const double from = c.input(0)[i];
        c.out[0][i] = std::isinf(w) ? from : (1 - w) * from + w * c.input(1)[i];
      }
      return;
    case OpKind::kSliceUpdate:
      return SliceUpdate(c);
    case OpKind::kCast:
      return Map(
          c, [&](double x) { return CastTo(c.node.attrs.Type("dtype"), x); });
    case OpKind::kConcat:
      return Concat(c);
    case OpKind::kIota:
      return interpret::Iota(c);
    case OpKind::kCumSum:
      return interpret::CumSum(c);
    case OpKind::kTakeAlongAxis:
      return interpret::TakeAlongAxis(c);
    case OpKind::kPutAdd:
      return interpret::PutAdd(c);
    case OpKind::kTopK:
      return interpret::TopK(c);
    case OpKind::kRandomUniform:
      return RandomUniform(c);
    case OpKind::kRandomNormal:
      return RandomNormal(c);
    case OpKind::kGather:
      return Gather(c);
    case OpKind::kScatterAdd:
      return ScatterAdd(c);
    case OpKind::kPermute:
      return interpret::Permute(c);
    case OpKind::kSlice:
      return interpret::Slice(c);
    case OpKind::kSplit:
      return interpret::Split(c);
    case OpKind::kBroadcast:
      return interpret::Broadcast(c);
    case OpKind::kStopGradient:
      return Map(c, [](double x) { return x; });
    case OpKind::kNeg:
      return Map(c, [](double x) { return -x; });
    case OpKind::kAbs:
      return Map(c, [](double x) { return std::abs(x); });
    case OpKind::kSign:
      return Map(c, [](double x) { return double((x > 0) - (x < 0)); });
    case OpKind::kExp:
      return Map(c, [](double x) { return std::exp(x); });
    case OpKind::kLog:
      return Map(c, [](double x) { return std::log(x); });
    case OpKind::kSqrt:
      return Map(c, [](double x) { return std::sqrt(x); });
    case OpKind::kRsqrt:
      return Map(c, [](double x) { return 1 / std::sqrt(x); });
    case OpKind::kSquare:
      return Map(c, [](double x) { return x * x; });
    case OpKind::kReciprocal:
      return Map(c, [](double x) { return 1 / x; });
    case OpKind::kSin:
      return Map(c, [](double x) { return std::sin(x); });
    case OpKind::kCos:
      return Map(c, [](double x) { return std::cos(x); });
    case OpKind::kRelu:
      return Map(c, [](double x) { return std::max(x, 0.0); });
    case OpKind::kSilu:
      return Map(c, [](double x) { return x * Sigmoid(x); });
    case OpKind::kSigmoid:
      return Map(c, Sigmoid);
    case OpKind::kTanh:
      return Map(c, [](double x) { return std::tanh(x); });
    case OpKind::kGeluTanh:
      return Map(c, GeluTanh);
    case OpKind::kGeluErf:
      return Map(c, [](double x) { return x * NormalCdf(x); });
    case OpKind::kLogicalNot:
      return Map(c, [](double x) { return double(x == 0); });
    case OpKind::kExpm1:
      return Map(c, [](double x) { return std::expm1(x); });
    case OpKind::kLog1p:
      return Map(c, [](double x) { return std::log1p(x); });
    case OpKind::kErf:
      return Map(c, [](double x) { return std::erf(x); });
    case OpKind::kFloor:
      return Map(c, [](double x) { return std::floor(x); });
    case OpKind::kCeil:
      return Map(c, [](double x) { return std::ceil(x); });
    case OpKind::kRound:
      return Map(c, RoundToEven);
    case OpKind::kSoftplus:
      return Map(c, [](double x) { return std::log1p(std::exp(x)); });
    case OpKind::kMish:
      return Map(c, Mish);
    case OpKind::kHardSwish:
      return Map(c, HardSwish);
    case OpKind::kLeakyRelu:
      return Map(c, [&](double x) { return x > 0 ? x : c.Float("slope") * x; });
    case OpKind::kElu:
      return Map(c, [&](double x) {
        const double y = x > 0 ? x : c.Float("alpha") * (std::exp(x) - 1);
        return c.Float("scale") * y;
      });
    case OpKind::kClamp:
      return Map(c, [&](double x) {
        return std::min(std::max(x, c.Float("min")), c.Float("max"));
      });
    case OpKind::kRemainder:
      return Map2(c,
                  [](double a, double b) { return a - b * std::floor(a / b); });
    case OpKind::kFmod:
      return Map2(c,
                  [](double a, double b) { return a - b * std::trunc(a / b); });
    case OpKind::kMishGrad:
      return Map2(c, [](double x, double dy) { return dy * MishSlope(x); });
    case OpKind::kHardSwishGrad:
      return Map2(c,
                  [](double x, double dy) { return dy * HardSwishSlope(x); });
    case OpKind::kLeakyReluGrad:
      return Map2(c, [&](double y, double dy) {
        return y > 0 ? dy : dy * c.Float("slope");
      });
    case OpKind::kEluGrad:
      return EluGrad(c);
    case OpKind::kClampGrad:
      return Map2(c, [&](double y, double dy) {
        return y > c.Float("min") && y < c.Float("max") ? dy : 0;
      });
    case OpKind::kAdd:
      return Map2(c, std::plus<>());
    case OpKind::kSub:
      return Map2(c, std::minus<>());
    case OpKind::kMul:
      return Map2(c, std::multiplies<>());
    case OpKind::kDiv:
      return Map2(c, std::divides<>());
    case OpKind::kPow:
      return Map2(c, [](double a, double b) { return std::pow(a, b); });
    case OpKind::kMaximum:
      return Map2(c, [](double a, double b) { return std::max(a, b); });
    case OpKind::kMinimum:
      return Map2(c, [](double a, double b) { return std::min(a, b); });
    case OpKind::kEqual:
      return Map2(c, std::equal_to<>());
    case OpKind::kNotEqual:
      return Map2(c, std::not_equal_to<>());
    case OpKind::kLess:
      return Map2(c, std::less<>());
    case OpKind::kLessEqual:
      return Map2(c, std::less_equal<>());
    case OpKind::kGreater:
      return Map2(c, std::greater<>());
    case OpKind::kGreaterEqual:
      return Map2(c, std::greater_equal<>());
    case OpKind::kLogicalAnd:
      return Map2(c, [](double a, double b) { return double(a && b); });
    case OpKind::kLogicalOr:
      return Map2(c, [](double a, double b) { return double(a || b); });
    case OpKind::kReluGrad:
      return Map2(c, [](double y, double dy) { return y > 0 ? dy : 0; });
    case OpKind::kSigmoidGrad:
      return Map2(c, [](double y, double dy) { return dy * y * (1 - y); });
    case OpKind::kTanhGrad:
      return Map2(c, [](double y, double dy) { return dy * (1 - y * y); });
    case OpKind::kSiluGrad:
      return Map2(c, [](double x, double dy) { return dy * SiluSlope(x); });
    case OpKind::kGeluTanhGrad:
      return Map2(c, [](double x, double dy) {
        return dy * interpret::GeluTanhSlope(x);
      });
    case OpKind::kGeluErfGrad:
      return Map2(c, [](double x, double dy) { return dy * GeluErfSlope(x); });
    case OpKind::kWhere:
      return Where(c);
    case OpKind::kDropout:
      return Dropout(c);
    case OpKind::kReduceSum:
      return Fold(c, std::plus<>());
    case OpKind::kReduceMean:
      return ReduceMean(c);
    case OpKind::kReduceMax:
      return Fold(c, [](double a, double b) { return std::max(a, b); });
    case OpKind::kSumSquares:
      for (const double x : c.input(0).data) c.out[0][0] += x * x;
      return;
    case OpKind::kArgMax:
      return ArgMax(c);
    case OpKind::kMatMul:
      return interpret::MatMul(c);
    case OpKind::kEpilogueMatMul:
      return interpret::EpilogueMatMul(c);
    case OpKind::kGroupedMatMul:
      return interpret::GroupedMatMul(c);
    case OpKind::kGroupedMatMulWeightGrad:
      return interpret::GroupedMatMulWeightGrad(c);
    case OpKind::kSoftmax:
      return interpret::Softmax(c, /*takes_log=*/false);
    case OpKind::kSoftmaxGrad:
      return interpret::SoftmaxGrad(c, /*took_log=*/false);
    case OpKind::kLogSoftmax:
      return interpret::Softmax(c, /*takes_log=*/true);
    case OpKind::kLogSoftmaxGrad:
      return interpret::SoftmaxGrad(c, /*took_log=*/true);
    case OpKind::kCrossEntropy:
      return interpret::CrossEntropy(c);
    case OpKind::kCrossEntropyGrad:
      return interpret::CrossEntropyGrad(c);
    case OpKind::kLinearCrossEntropy:
      return interpret::LinearCrossEntropy(c);
    case OpKind::kLinearCrossEntropyGrad:
      return interpret::LinearCrossEntropyGrad(c);
    case OpKind::kQuantizedMatMul:
      return interpret::QuantizedMatMul(c);
    case OpKind::kQuantizedGather:
      return interpret::QuantizedGather(c);
    case OpKind::kBatchNorm:
      return interpret::BatchNorm(c);
    case OpKind::kBatchNormGrad:
      return interpret::BatchNormGrad(c);
    case OpKind::kLocalResponseNorm:
      return interpret::LocalResponseNorm(c);
    case OpKind::kLocalResponseNormGrad:
      return interpret::LocalResponseNormGrad(c);
    case OpKind::kLstm:
      return interpret::Lstm(c);
    case OpKind::kLstmGrad:
      return interpret::LstmGrad(c);
    case OpKind::kLstmWeightGrad:
      return interpret::LstmWeightGrad(c);
    case OpKind::kLayerNorm:
      return interpret::LayerNorm(c);
    case OpKind::kLayerNormGrad:
      return interpret::LayerNormGrad(c);
    case OpKind::kLayerNormGradAdd:
      interpret::LayerNormGrad(c);
      for (int64_t i = 0; i < c.out[0].size(); ++i) {
        c.out[0][i] += c.input(5)[i];
      }
      return;
    case OpKind::kSumPartials:
      for (size_t i = 0; i < c.in.size(); ++i) {
        for (int64_t j = 0; j < c.input(i).size(); ++j) {
          c.out[i][j % c.out[i].size()] += c.input(i)[j];
        }
      }
      return;
    case OpKind::kFusedElementwise:
      return interpret::FusedElementwise(c);
    case OpKind::kFusedMatMul: {
      Call product{c.node, {c.in[0], c.in[1]}, {}, c.graph, c.rounding};
      product.out.emplace_back(c.out[0].shape);
      interpret::MatMul(product);
      return interpret::FusedAfter(c, product.out[0]);
    }
    case OpKind::kAttention:
      return interpret::Attention(c);
    case OpKind::kAttentionGrad:
      return interpret::AttentionGrad(c);
    case OpKind::kAttentionQkvGrad:
      return interpret::AttentionQkvGrad(c);
    case OpKind::kAttentionBiasGrad:
      return interpret::AttentionBiasGrad(c);
    case OpKind::kRmsNorm:
      return interpret::RmsNorm(c);
    case OpKind::kRmsNormGrad:
      return interpret::RmsNormGrad(c);
    case OpKind::kRope:
      return interpret::Rope(c);
    case OpKind::kGlu:
      return interpret::Glu(c);
    case OpKind::kGluGrad:
      return interpret::GluGrad(c);
    case OpKind::kConv:
    case OpKind::kConvTranspose:
    case OpKind::kConvWeightGrad:
      return interpret::Convolution(c);
    case OpKind::kMaxPool:
    case OpKind::kMaxPoolGrad:
    case OpKind::kAvgPool:
    case OpKind::kAvgPoolGrad:
      return interpret::Pooling(c);
    case OpKind::kPad:
    case OpKind::kPadGrad:
      return interpret::Padding(c);
    case OpKind::kResize:
    case OpKind::kResizeGrad:
      return interpret::Resizing(c);
    case OpKind::kSgdUpdate:
      return interpret::SgdUpdate(c);
    case OpKind::kMomentumUpdate:
      return interpret::MomentumUpdate(c);
    case OpKind::kNesterovUpdate:
      return interpret::NesterovUpdate(c);
    case OpKind::kRmsPropUpdate:
      return interpret::RmsPropUpdate(c);
    case OpKind::kAdagradUpdate:
      return interpret::AdagradUpdate(c);
    case OpKind::kAdamUpdate:
      return interpret::AdamUpdate(c);
    case OpKind::kAdamWUpdate:
      return interpret::AdamWUpdate(c);
    case OpKind::kAdamWSplitUpdate:
    case OpKind::kAdamWBf16Update:
    case OpKind::kAdamWBf16SplitUpdate:
    case OpKind::kAdamW8BitUpdate:
    case OpKind::kAdamW8BitSplitUpdate:
    case OpKind::kMomentumBf16Update:
    case OpKind::kMomentumBf16SplitUpdate:
    case OpKind::kJoinWeight:
    case OpKind::kSplitUpdate:
      return interpret::CompactUpdate(c);
    case OpKind::kLoop:
      return interpret::Loop(c);
    case OpKind::kCond:
      return interpret::Cond(c);
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
    case OpKind::kAllGather:
    case OpKind::kAllGatherUpdate:
    case OpKind::kOwnBlock:
      break;  // are of several ranks
    case OpKind::kStandIn:
      break;  // cannot be run
  }
  STOWAGE_CHECK(false);
}

}  // namespace

std::array<uint32_t, 4> interpret::RandomWords(uint64_t seed, uint64_t step,
                                               uint32_t id, int64_t quad,
                                               uint32_t stream) {
  const auto q = static_cast<uint64_t>(quad);
  return Philox({static_cast<uint32_t>(q), static_cast<uint32_t>(q >> 32),
                 static_cast<uint32_t>(step),
                 static_cast<uint32_t>(step >> 32) ^ (stream << 30)},
                static_cast<uint32_t>(seed),
                static_cast<uint32_t>(seed >> 32) ^ (id * 0x9E3779B1u));
}

Tensors Interpret(const Graph& graph, const Tensors& leaves,
                  Rounding rounding) {
  std::vector<Array> arrays;
  const auto round = [&](ValueId id) {
    if (rounding == Rounding::kNone) return;
    RoundAll(graph.value(id).type.dtype, &arrays[static_cast<size_t>(id)].data);
  };
  for (const ValueInfo& info : graph.values()) {
    arrays.emplace_back(info.type.shape);
    if (!info.is_leaf()) continue;
    const auto leaf = leaves.find(info.name);
    STOWAGE_CHECK(leaf != leaves.end());
    STOWAGE_CHECK(leaf->second.size() == arrays.back().data.size());
    arrays.back().data = leaf->second;
    round(static_cast<ValueId>(arrays.size()) - 1);
  }
  for (const Node& node : graph.nodes()) {
    Call call{node, {}, {}, graph, rounding};
    for (const ValueId id : node.inputs) {
      call.in.push_back(&arrays[static_cast<size_t>(id)]);
    }
    for (const ValueId id : node.results) {
      call.out.emplace_back(graph.value(id).type.shape);
    }
    Run(call);
    for (size_t r = 0; r < node.results.size(); ++r) {
      arrays[static_cast<size_t>(node.results[r])].data = call.out[r].data;
      round(node.results[r]);
    }
  }
  Tensors values;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    values[graph.value(id).name] = arrays[static_cast<size_t>(id)].data;
  }
  for (const GraphOutput& output : graph.outputs()) {
    values[output.name] = arrays[static_cast<size_t>(output.value)].data;
  }
  return values;
}

void CarryOver(const Graph& graph, const Tensors& values, Tensors* leaves) {
  for (const Node& node : graph.nodes()) {
    for (int r = 0; r < GetOpDef(node.op).updates; ++r) {
      const auto i = static_cast<size_t>(r);
      (*leaves)[graph.value(node.inputs[i]).name] =
          values.at(graph.value(node.results[i]).name);
    }
  }
}

}  // namespace stowage
