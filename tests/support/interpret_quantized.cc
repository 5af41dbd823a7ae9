// The definitions of what reads matrices in blocks: quantized_matmul, quantized_gather,
// and linear_cross_entropy with its gradient, whose matrix may be of either kind.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/gguf.h"
#include "ir/weight_type.h"
#include "tests/support/interpret_call.h"

namespace stowage::interpret {
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

}  // namespace stowage::interpret
