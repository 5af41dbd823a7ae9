#ifndef STOWAGE_TESTS_SUPPORT_OP_CASE_TABLE_H_
#define STOWAGE_TESTS_SUPPORT_OP_CASE_TABLE_H_

// Builds the rows of the op test table (op_cases.h). The functions declared at the end of this
// header add the rows in files named op_cases_<kind>.cc, and op_cases.cc adds all other rows.
//
//   void AddPooling(OpCaseTable& t) {
//     t.Add(OpKind::kMaxPool, " of a row", {t.Spread("x", {1, 1, 9})},
//           [](GraphBuilder&, In in) { return Out{MaxPool(in[0], {{2}})}; });
//   }

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/support/op_cases.h"

namespace stowage::testing {

using In = std::span<const Value>;
using Out = std::vector<Value>;
using Unary = Value (*)(Value, SourceLoc);
using Binary = Value (*)(Value, Value, SourceLoc);

inline constexpr SourceLoc kLoc;
inline constexpr auto kInteger = Content::kInteger;
inline constexpr auto kSpread = Content::kSpread;

/// Returns the default tolerance of the rows of `op`.
inline double Tolerance(DType real, OpKind op) {
  if (real == DType::kF64) return 1e-12;
  if (real == DType::kF32) return 1e-5;
  // The significand has 8 bits in bf16 and 11 bits in f16. If an f32 error
  // changes the direction of the rounding, the result is off by at most this.
  const double last_bit = real == DType::kF16 ? 0x1p-10 : 0x1p-7;
  switch (op) {
    // Scores, probabilities and logits may also be rounded to 16 bits.
    case OpKind::kAttention:
    case OpKind::kLinearCrossEntropy:
      return 2 * last_bit;
    // The result of each fused op is rounded.
    case OpKind::kFusedElementwise:
    case OpKind::kFusedMatMul:
    // The same, if the device's library does not support the epilogue.
    case OpKind::kEpilogueMatMul:
      return 4 * last_bit;
    // The states that a time step reads from the previous one are rounded.
    case OpKind::kLstm:
      return 2 * last_bit;
    // Intermediate values are rounded, and sums accumulate their errors.
    case OpKind::kAttentionGrad:
    case OpKind::kAttentionQkvGrad:
    case OpKind::kAttentionBiasGrad:
    case OpKind::kLinearCrossEntropyGrad:
    case OpKind::kLstmGrad:
      return 4 * last_bit;
    default:
      return last_bit;
  }
}

class OpCaseTable {
 public:
  explicit OpCaseTable(DType real) : real_(real) {}

  LeafSpec Real(const char* name, const Shape& shape, double low = -1,
                double high = 1, Role role = Role::kInput) const {
    return {name, real_, shape, Content::kReal, low, high, role};
  }
  LeafSpec Spread(const char* name, const Shape& shape) const {
    return {name, real_, shape, kSpread};
  }
  static LeafSpec Index(const char* name, const Shape& shape, double limit,
                        DType dtype = DType::kI32) {
    return {name, dtype, shape, kInteger, 0, limit};
  }
  static LeafSpec Bool(const char* name, const Shape& shape) {
    return {name, DType::kBool, shape, kInteger, 0, 2};
  }
  // Returns a statistic of real operands. It is f32 if they are bf16 or f16.
  LeafSpec Statistic(const char* name, const Shape& shape) const {
    return {name, real_ == DType::kF64 ? DType::kF64 : DType::kF32, shape};
  }
  static LeafSpec Scalar(const char* name, DType dtype, double value) {
    return {name, dtype, {}, Content::kReal, value, value};
  }

  const std::vector<OpCase>& rows() const { return rows_; }

  OpCase& Add(OpKind op, const std::string& variant,
              std::vector<LeafSpec> leaves,
              std::function<Out(GraphBuilder&, In)> build) {
    rows_.push_back({.name = StrCat(OpName(op), variant),
                     .op = op,
                     .leaves = std::move(leaves),
                     .build = std::move(build),
                     .tolerance = Tolerance(real_, op)});
    return rows_.back();
  }

  // Adds rows of an elementwise op with a contiguous operand, a view, and a
  // scalar.
  void AddUnary(OpKind op, Unary f, LeafSpec x) {
    x.shape = {3, 5};
    Add(op, "", {x}, [f](GraphBuilder&, In in) { return Out{f(in[0], kLoc)}; });
    x.shape = {4, 5, 7};
    Add(op, " of a view", {x}, [f](GraphBuilder&, In in) {
      return Out{f(Permute(Slice(in[0], 2, 1, 7, 2), {2, 0, 1}), kLoc)};
    });
    x.shape = {};
    Add(op, " of a scalar", {x},
        [f](GraphBuilder&, In in) { return Out{f(in[0], kLoc)}; });
  }

  // Adds rows of an elementwise op with two contiguous operands, with views,
  // and with broadcasting.
  void AddBinary(OpKind op, Binary f, LeafSpec a, LeafSpec b,
                 const std::string& variant = "") {
    const auto plain = [f](GraphBuilder&, In in) {
      return Out{f(in[0], in[1], kLoc)};
    };
    a.shape = b.shape = {3, 5};
    Add(op, variant, {a, b}, plain);
    a.shape = {5, 3};
    b.shape = {3, 9};
    Add(op, variant + " of views", {a, b}, [f](GraphBuilder&, In in) {
      return Out{f(Transpose(in[0]), Slice(in[1], 1, 2, 7), kLoc)};
    });
    a.shape = {2, 1, 7};
    b.shape = {3, 1};
    Add(op, variant + " with broadcasting", {a, b}, plain);
  }

  // Adds rows of the gradient of a unary op, which reads the op's input or its
  // output.
  void AddUnaryGrad(OpKind op, Binary f, LeafSpec x_or_y) {
    x_or_y.shape = {5, 3};
    Add(op, "", {x_or_y, Real("dy", {5, 3})},
        [f](GraphBuilder&, In in) { return Out{f(in[0], in[1], kLoc)}; });
    Add(op, " of views", {x_or_y, Real("dy", {3, 1})},
        [f](GraphBuilder&, In in) {
          return Out{f(Transpose(in[0]), BroadcastTo(in[1], {3, 5}), kLoc)};
        });
  }

  DType real() const { return real_; }
  std::vector<OpCase> Take() { return std::move(rows_); }

 private:
  DType real_;
  std::vector<OpCase> rows_;
};

// --- Rows in op_cases_<kind>.cc ---

void AddAttention(OpCaseTable& t);
void AddBatchNorm(OpCaseTable& t);
void AddCompactUpdates(OpCaseTable& t);
void AddConvolutions(OpCaseTable& t);
void AddFused(OpCaseTable& t);
void AddGlu(OpCaseTable& t);
void AddIndexing(OpCaseTable& t);
void AddLocalResponseNorm(OpCaseTable& t);
void AddLstm(OpCaseTable& t);
void AddPad(OpCaseTable& t);
void AddMatMul(OpCaseTable& t);
void AddPooling(OpCaseTable& t);
void AddQuantized(OpCaseTable& t);
void AddResize(OpCaseTable& t);
void AddLayerNorm(OpCaseTable& t);
void AddPartialSums(OpCaseTable& t);
void AddRmsNorm(OpCaseTable& t);
void AddRope(OpCaseTable& t);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_OP_CASE_TABLE_H_
