// The definitions of matmuls with their epilogues, of matmuls by quantized weights, and of fused
// chains of elementwise ops.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "ir/weight_type.h"
#include "tests/support/interpret.h"
#include "tests/support/interpret_call.h"

namespace stowage::interpret {

void MatMul(Call& c) {
  const Array& a = c.input(0);
  const Array& b = c.input(1);
  Array& y = c.out[0];
  const bool ta = c.Int("transpose_a") != 0;
  const bool tb = c.Int("transpose_b") != 0;
  const int64_t m = y.shape[y.shape.rank() - 2];
  const int64_t n = y.shape.back();
  const int64_t k = a.shape[a.shape.rank() - (ta ? 2 : 1)];
  const bool shares_b = b.shape.rank() == 2;
  for (int64_t batch = 0; batch < y.size() / (m * n); ++batch) {
    const int64_t a0 = batch * m * k;
    const int64_t b0 = shares_b ? 0 : batch * k * n;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          sum += a[a0 + (ta ? l * m + i : i * k + l)] *
                 b[b0 + (tb ? j * k + l : l * n + j)];
        }
        y[(batch * m + i) * n + j] = sum;
      }
    }
  }
}

namespace {

// The group of a row: the first whose end is behind it; their number where none is.
int64_t GroupOf(const Array& ends, int64_t row) {
  int64_t group = 0;
  while (group < ends.size() && ends[group] <= static_cast<double>(row)) {
    ++group;
  }
  return group;
}

}  // namespace

void GroupedMatMul(Call& c) {
  const Array& x = c.input(0);
  const Array& w = c.input(1);
  Array& y = c.out[0];
  const bool transposed = c.Int("transpose_w") != 0;
  const int64_t k = x.shape[1], n = y.shape[1];
  for (int64_t row = 0; row < x.shape[0]; ++row) {
    const int64_t group = GroupOf(c.input(2), row);
    if (group == w.shape[0]) continue;
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t l = 0; l < k; ++l) {
        y[row * n + j] +=
            x[row * k + l] *
            w[group * k * n + (transposed ? j * k + l : l * n + j)];
      }
    }
  }
}

void GroupedMatMulWeightGrad(Call& c) {
  const Array& x = c.input(0);
  const Array& dy = c.input(1);
  Array& dw = c.out[0];
  const int64_t k = x.shape[1], n = dy.shape[1];
  for (int64_t row = 0; row < x.shape[0]; ++row) {
    const int64_t group = GroupOf(c.input(2), row);
    if (group == dw.shape[0]) continue;
    for (int64_t l = 0; l < k; ++l) {
      for (int64_t j = 0; j < n; ++j) {
        dw[(group * k + l) * n + j] += x[row * k + l] * dy[row * n + j];
      }
    }
  }
}

void EpilogueMatMul(Call& c) {
  MatMul(c);
  Array& y = c.out[0];
  const int64_t n = y.shape.back();
  size_t next = 2;
  if (c.Int("bias") == 1) {
    const Array& bias = c.input(next++);
    for (int64_t i = 0; i < y.size(); ++i) y[i] += bias[i % n];
  }
  if (c.Int("addend") == 1) {
    const Array& addend = c.input(next++);
    for (int64_t i = 0; i < y.size(); ++i) y[i] += addend[i];
  }
  if (c.Int("gelu_grad") == 1) {
    const Array& x = c.input(next++);
    for (int64_t i = 0; i < y.size(); ++i) y[i] *= GeluTanhSlope(x[i]);
  }
  if (c.Int("a_sums") == 1) {  // of the rows of a, which may lie as columns
    const Array& a = c.input(0);
    for (int64_t i = 0; i < a.size(); ++i) {
      const Dims at = Coordinates(a.shape, i);
      c.out[1][at[c.Int("transpose_a") == 1 ? 1 : 0]] += a[i];
    }
  }
  if (c.Int("b_sums") == 1) {  // of the columns of b, which may lie as rows
    const Array& b = c.input(1);
    for (int64_t i = 0; i < b.size(); ++i) {
      const Dims at = Coordinates(b.shape, i);
      c.out[1][at[c.Int("transpose_b") == 1 ? 0 : 1]] += b[i];
    }
  }
}

double GeluTanhSlope(double x) {
  const double root = std::sqrt(8 / std::acos(-1.0)) / 2;  // of 2 / pi
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  const double du = root * (1 + 3 * 0.044715 * x * x);
  return (1 + t) / 2 + x / 2 * (1 - t * t) * du;
}

// --- quantized_matmul, quantized_gather, linear_cross_entropy (of either kind) --------

namespace {

// The numbers of rows of blocks, as tests/formats/quantized_test.cc has compared them
// with those of ggml's package.
Array NumbersOfBlocks(const Array& bytes, int64_t blocks) {
  const auto type = static_cast<WeightType>(blocks);
  std::vector<std::byte> raw;
  for (const double byte : bytes.data) {
    raw.push_back(static_cast<std::byte>(byte));
  }
  std::vector<float> numbers(
      static_cast<size_t>(bytes.shape[0] * *NumbersOf(type, bytes.shape[1])));
  Dequantize(type, raw, numbers);
  Array array(Shape{bytes.shape[0], std::ssize(numbers) / bytes.shape[0]});
  array.data.assign(numbers.begin(), numbers.end());
  return array;
}

struct Loss {
  Array w;          // (V, C)
  Array softmax;    // (rows, V)
  Array slopes;     // (rows, V), of capped logits by logits
  Numbers of_rows;  // before weights
  double mean = 0;
};

int64_t Label(const Call& c, int64_t row) {
  return static_cast<int64_t>(c.input(2)[row]);
}

double Weight(const Call& c, size_t operand, int64_t row) {
  return operand < c.in.size() ? c.input(operand)[row] : 1;
}

// Chunks change nothing of what is defined. `weights` is the operand that has them, if
// it is there.
Loss LossOf(const Call& c, size_t weights) {
  Loss loss;
  const Array& x = c.input(0);
  loss.w = c.Int("blocks") == kNoBlocks
               ? c.input(1)
               : NumbersOfBlocks(c.input(1), c.Int("blocks"));
  const int64_t width = x.shape.back(), vocabulary = loss.w.shape[0];
  const int64_t rows = x.size() / width;
  loss.softmax = Array(Shape{rows, vocabulary});
  loss.slopes = Array(Shape{rows, vocabulary});
  for (double& slope : loss.slopes.data) slope = 1;
  for (int64_t row = 0; row < rows; ++row) {
    Numbers logits(static_cast<size_t>(vocabulary), 0.0);
    for (int64_t j = 0; j < vocabulary; ++j) {
      for (int64_t k = 0; k < width; ++k) {
        logits[static_cast<size_t>(j)] +=
            x[row * width + k] * loss.w[j * width + k];
      }
    }
    const double cap = c.node.attrs.FloatOr("softcap", 0);
    for (int64_t j = 0; cap > 0 && j < vocabulary; ++j) {
      double& logit = logits[static_cast<size_t>(j)];
      const double bent = std::tanh(logit / cap);
      logit = cap * bent;
      loss.slopes[row * vocabulary + j] = 1 - bent * bent;
    }
    const double largest = *std::ranges::max_element(logits);
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - largest);
    const double log_sum_exp = largest + std::log(sum);
    for (int64_t j = 0; j < vocabulary; ++j) {
      loss.softmax[row * vocabulary + j] =
          std::exp(logits[static_cast<size_t>(j)] - log_sum_exp);
    }
    loss.of_rows.push_back(log_sum_exp -
                           logits.at(static_cast<size_t>(Label(c, row))));
    loss.mean += Weight(c, weights, row) * loss.of_rows.back() /
                 static_cast<double>(rows);
  }
  return loss;
}

}  // namespace

void QuantizedMatMul(Call& c) {
  const Array& x = c.input(0);
  const Array w = NumbersOfBlocks(c.input(1), c.Int("blocks"));
  const bool transposed = c.Int("transpose_w") == 1;
  const int64_t depth = x.shape.back(), n = c.out[0].shape.back();
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    for (int64_t k = 0; k < depth; ++k) {
      c.out[0][i] += x[i / n * depth + k] *
                     (transposed ? w[i % n * depth + k] : w[k * n + i % n]);
    }
  }
}

void QuantizedGather(Call& c) {
  const Array table = NumbersOfBlocks(c.input(0), c.Int("blocks"));
  const int64_t width = table.shape[1];
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const auto row = static_cast<int64_t>(c.input(1)[i / width]);
    c.out[0][i] = table[row * width + i % width];
  }
}

void LinearCrossEntropy(Call& c) {
  const Loss loss = LossOf(c, 3);
  c.out[0][0] = loss.mean;
  c.out[1].data = loss.of_rows;
}

void LinearCrossEntropyGrad(Call& c) {
  const Loss loss = LossOf(c, 4);
  c.out[0][0] = loss.mean;
  const Array& x = c.input(0);
  const int64_t width = x.shape.back(), vocabulary = loss.w.shape[0];
  const int64_t rows = x.size() / width;
  for (int64_t i = 0; i < loss.softmax.size(); ++i) {
    const int64_t row = i / vocabulary, word = i % vocabulary;
    const double d = (loss.softmax[i] - (word == Label(c, row))) *
                     loss.slopes[i] * c.input(3)[0] * Weight(c, 4, row) /
                     static_cast<double>(rows);
    for (int64_t k = 0; k < width; ++k) {
      c.out[1][row * width + k] += d * loss.w[word * width + k];
      if (c.out.size() > 2) {
        c.out[2][word * width + k] += d * x[row * width + k];
      }
    }
  }
}

// --- Fused chains ---------------------------------------------------------------------
// The node's attribute is decoded here again, not by ir/fused.h.

namespace {

void RunProgram(Call& c, const std::vector<Numbers>& leaves) {
  const Graph& program = *c.node.attrs.Graphs("program").at(0);
  Tensors given;
  size_t next = 0;
  for (const ValueInfo& value : program.values()) {
    if (value.is_leaf()) given[value.name] = leaves.at(next++);
  }
  STOWAGE_CHECK(next == leaves.size());
  const Tensors values = Interpret(program, given, c.rounding);
  for (size_t r = 0; r < c.out.size(); ++r) {
    c.out[r].data = values.at(program.outputs()[r].name);
  }
}

}  // namespace

void FusedElementwise(Call& c) {
  std::vector<Numbers> leaves;
  for (const Array* operand : c.in) leaves.push_back(operand->data);
  RunProgram(c, leaves);
}

void FusedAfter(Call& c, const Array& product) {
  std::vector<Numbers> leaves = {product.data};
  for (size_t i = 2; i < c.in.size(); ++i) leaves.push_back(c.input(i).data);
  RunProgram(c, leaves);
}

}  // namespace stowage::interpret
