#ifndef STOWAGE_TESTS_SUPPORT_INTERPRET_CALL_H_
#define STOWAGE_TESTS_SUPPORT_INTERPRET_CALL_H_

// Declares the interpreter's op implementations and their argument: a node with its operands and
// results as plain arrays. The implementations declared at the end of this header are in files
// named interpret_<kind>.cc, and all others are in interpret.cc.
//
//   void Negate(Call& c) {
//     for (int64_t i = 0; i < c.out[0].size(); ++i) c.out[0][i] = -c.input(0)[i];
//   }

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "tests/support/interpret.h"

namespace stowage::interpret {

using Numbers = std::vector<double>;

/// A tensor, with its elements in row-major order.
struct Array {
  Shape shape;
  Numbers data;

  explicit Array(const Shape& s = {})
      : shape(s), data(static_cast<size_t>(s.num_elements()), 0.0) {}
  double& operator[](int64_t i) { return data.at(static_cast<size_t>(i)); }
  double operator[](int64_t i) const { return data.at(static_cast<size_t>(i)); }
  int64_t size() const { return static_cast<int64_t>(data.size()); }
};

/// Returns the row-major position of the element with coordinates `index`.
inline int64_t Position(const Shape& shape, const Dims& index) {
  int64_t position = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    position = position * shape[i] + index[i];
  }
  return position;
}

/// Returns the coordinates of the element with row-major position `position`.
inline Dims Coordinates(const Shape& shape, int64_t position) {
  Dims index = Dims::Filled(shape.rank(), 0);
  for (int i = shape.rank() - 1; i >= 0; --i) {
    index[i] = position % shape[i];
    position /= shape[i];
  }
  return index;
}

/// Returns element `i` of an index operand. Aborts if the element is not in [0, limit).
inline int64_t IndexAt(const Array& indices, int64_t i, int64_t limit) {
  const auto index = static_cast<int64_t>(indices[i]);
  STOWAGE_CHECK(index >= 0 && index < limit);
  return index;
}

/// Calls visit(row, position) for each row, where `position` is the row-major position of the
/// row's first element. A row is a run of elements along the last dimension.
template <typename Visit>
void ForRows(const Array& x, const Visit& visit) {
  const int64_t n = x.shape.back();
  for (int64_t row = 0; row < x.size() / n; ++row) visit(row, row * n);
}

/// A node, its operands, and the results to fill in.
struct Call {
  const Node& node;
  std::vector<const Array*> in;
  std::vector<Array> out;  // have their shapes, and are all zero
  const Graph& graph;
  Rounding rounding = Rounding::kNone;  // for the values of nested bodies

  const Array& input(size_t i) const { return *in.at(i); }
  int64_t Int(const char* name) const { return node.attrs.Int(name); }
  double Float(const char* name) const { return node.attrs.Float(name); }
  const std::vector<int64_t>& Ints(const char* name) const {
    return node.attrs.Ints(name);
  }
  DType dtype(size_t i) const {
    return graph.value(node.inputs.at(i)).type.dtype;
  }
};

/// Returns the derivative of gelu_tanh at `x`.
double GeluTanhSlope(double x);

/// Returns the four Philox words for elements `4 * quad` to `4 * quad + 3` of the op with this
/// id. `stream` distinguishes ops that have the same id.
std::array<uint32_t, 4> RandomWords(uint64_t seed, uint64_t step, uint32_t id,
                                    int64_t quad, uint32_t stream);

// --- Implementations in interpret_<kind>.cc ---

void AdagradUpdate(Call& c);
void AdamUpdate(Call& c);
void AdamWUpdate(Call& c);
void Attention(Call& c);
void AttentionBiasGrad(Call& c);
void AttentionGrad(Call& c);
void AttentionQkvGrad(Call& c);
void BatchNorm(Call& c);
void BatchNormGrad(Call& c);
void Broadcast(Call& c);
void CompactUpdate(Call& c);  // low-precision states, split weights
void Cond(Call& c);
void Constant(Call& c);
void Convolution(Call& c);  // conv, conv_transpose, conv_weight_grad
void CrossEntropy(Call& c);
void CrossEntropyGrad(Call& c);
void CumSum(Call& c);
void EpilogueMatMul(Call& c);
void FusedAfter(Call& c,
                const Array& product);  // the epilogue of a fused_matmul
void FusedElementwise(Call& c);
void Glu(Call& c);
void GluGrad(Call& c);
void GroupedMatMul(Call& c);
void GroupedMatMulWeightGrad(Call& c);
void Iota(Call& c);
void LayerNorm(Call& c);
void LayerNormGrad(Call& c);
void LinearCrossEntropy(Call& c);
void LinearCrossEntropyGrad(Call& c);
void LocalResponseNorm(Call& c);
void LocalResponseNormGrad(Call& c);
void Loop(Call& c);
void Lstm(Call& c);
void LstmGrad(Call& c);
void LstmWeightGrad(Call& c);
void MatMul(Call& c);
void MomentumUpdate(Call& c);
void NesterovUpdate(Call& c);
void Padding(Call& c);  // pad and its gradient
void Permute(Call& c);
void Pooling(Call& c);  // max_pool, avg_pool and their gradients
void PutAdd(Call& c);
void QuantizedGather(Call& c);
void QuantizedMatMul(Call& c);
void Resizing(Call& c);  // resize and its gradient
void RmsNorm(Call& c);
void RmsNormGrad(Call& c);
void RmsPropUpdate(Call& c);
void Rope(Call& c);
void SgdUpdate(Call& c);
void Slice(Call& c);
void Softmax(Call& c, bool takes_log);
void SoftmaxGrad(Call& c, bool took_log);
void Split(Call& c);
void TakeAlongAxis(Call& c);
void TopK(Call& c);

}  // namespace stowage::interpret

#endif  // STOWAGE_TESTS_SUPPORT_INTERPRET_CALL_H_
