#ifndef STOWAGE_COMPILE_OPS_H_
#define STOWAGE_COMPILE_OPS_H_

// Lists the ops that are available in C, and for each op the function that writes its kernel.
//
// Each family of ops has a file, <family>.cc, with the same name as in ir/ops. Kernels comply with
// the OpDefs of ops (ir/op_def.h): they accept the strides that `accepts` allows, and result 0 may
// overwrite any operand in `may_overwrite`.
//
//   const COp op = OpInC(OpKind::kMatMul);
//   if (op.write != nullptr) op.write(kernel);

#include <cstdint>
#include <optional>
#include <span>

#include "compile/kernel.h"
#include "ir/attrs.h"
#include "ir/op_kind.h"

namespace stowage::compile {

/// The functions that write an op in C.
struct COp {
  /// Writes the body of the node's function. Null means that the op is not available in C.
  void (*write)(Kernel& k) = nullptr;
  /// Returns the number of elements of scratch memory that the kernel needs. The elements have the
  /// type Kernel::real(). Null means 0.
  int64_t (*scratch)(const Kernel& k) = nullptr;
  /// Whether the kernel accepts f16 and bf16 operands and results. It then must not accumulate in
  /// its results. Otherwise, the kernel receives f32 copies (KernelSet, compile/file_parts.h).
  bool takes_16_bits = false;
};

/// Returns the functions that write `op` in C. `write` is null if the op is not available in C.
COp OpInC(OpKind op);

// --- Families ---

// A function Write<Op> is COp::write of one or several ops, and a function ScratchOf<Op> is
// COp::scratch.

void WriteElementwise(Kernel& k);
void WriteCast(Kernel& k);
void WriteGlu(Kernel& k);
void WriteGluGrad(Kernel& k);
void WriteFusedElementwise(Kernel& k);
/// Returns whether ScalarExpr has an expression for `op`.
bool IsScalarOp(OpKind op);

/// Returns a C expression for one element of the result of an elementwise op, or nullopt for other
/// ops. The expression is used in the op's own kernel, in fused chains, and for activations inside
/// other ops. `args` are the operands. The expression may evaluate them several times, so they
/// should be variables or elements of arrays. `dtype` is the type of the operands. For integers,
/// only arithmetic and comparisons are supported.
///
///   ScalarExpr(OpKind::kMul, attrs, {"a", "b"}, dtype, k);  // "a * b"
std::optional<Expr> ScalarExpr(OpKind op, const Attrs& attrs,
                               std::span<const Expr> args, DType dtype,
                               const Kernel& k);
/// Returns `value`, rounded to `dtype` if that is f16 or bf16, as if it were stored in a tensor and
/// loaded.
Expr RoundedTo(DType dtype, const Expr& value);
/// Writes the chain of a fused node (ir/fused.h) for one element. `leaves` are variables with the
/// elements of the program's leaves, and `at` are the offsets of the element in the results.
void WriteChain(Kernel& k, std::span<const Expr> leaves,
                std::span<const Expr> at);

void WriteConstant(Kernel& k);
void WriteFill(Kernel& k);
void WriteIota(Kernel& k);
void WriteRandomUniform(Kernel& k);
void WriteRandomNormal(Kernel& k);
void WriteDropout(Kernel& k);

void WriteMove(Kernel& k);  // copy, reload, offload
void WriteConcat(Kernel& k);
void WritePad(Kernel& k);
void WritePadGrad(Kernel& k);

void WriteMatMul(Kernel& k);  // with and without fused ops
int64_t ScratchOfMatMul(const Kernel& k);
void WriteGroupedMatMul(Kernel& k);
void WriteGroupedMatMulWeightGrad(Kernel& k);

void WriteConv(Kernel& k);
void WriteConvTranspose(Kernel& k);
void WriteConvWeightGrad(Kernel& k);
int64_t ScratchOfConv(const Kernel& k);
int64_t ScratchOfConvTranspose(const Kernel& k);
int64_t ScratchOfConvWeightGrad(const Kernel& k);

void WriteMaxPool(Kernel& k);
void WriteMaxPoolGrad(Kernel& k);
void WriteAvgPool(Kernel& k);
void WriteAvgPoolGrad(Kernel& k);
void WriteResize(Kernel& k);
void WriteResizeGrad(Kernel& k);

void WriteReduce(Kernel& k);  // reduce_sum, reduce_mean, reduce_max
void WriteSumSquares(Kernel& k);
void WriteArgMax(Kernel& k);
void WriteCumSum(Kernel& k);
void WriteTopK(Kernel& k);
void WriteSumPartials(Kernel& k);

void WriteSoftmax(Kernel& k);      // and log_softmax
void WriteSoftmaxGrad(Kernel& k);  // and log_softmax_grad
void WriteCrossEntropy(Kernel& k);
void WriteCrossEntropyGrad(Kernel& k);
void WriteLinearCrossEntropy(Kernel& k);
void WriteLinearCrossEntropyGrad(Kernel& k);
int64_t ScratchOfLinearCrossEntropy(const Kernel& k);

void WriteBatchNorm(Kernel& k);
void WriteBatchNormGrad(Kernel& k);
void WriteLayerNorm(Kernel& k);
void WriteLayerNormGrad(Kernel& k);
void WriteRmsNorm(Kernel& k);
void WriteRmsNormGrad(Kernel& k);
void WriteLocalResponseNorm(Kernel& k);
void WriteLocalResponseNormGrad(Kernel& k);
int64_t ScratchOfLocalResponseNorm(const Kernel& k);

void WriteAttention(Kernel& k);
void WriteAttentionGrad(Kernel& k);
void WriteAttentionBiasGrad(Kernel& k);
int64_t ScratchOfAttention(const Kernel& k);
int64_t ScratchOfAttentionGrad(const Kernel& k);
void WriteRope(Kernel& k);

void WriteGather(Kernel& k);
void WriteScatterAdd(Kernel& k);
void WriteTakeAlongAxis(Kernel& k);
void WritePutAdd(Kernel& k);
void WriteAssign(Kernel& k);  // and offload_update
void WriteLerpUpdate(Kernel& k);
void WriteSliceUpdate(Kernel& k);

void WriteLstm(Kernel& k);
void WriteLstmGrad(Kernel& k);
int64_t ScratchOfLstmGrad(const Kernel& k);
void WriteLstmWeightGrad(Kernel& k);

void WriteUpdate(Kernel& k);  // optimizers with states of the weight's type
void WriteCompactUpdate(Kernel& k);  // optimizers with low-precision states
void WriteJoinWeight(Kernel& k);
void WriteSplitUpdate(Kernel& k);

void WriteQuantizedMatMul(Kernel& k);
void WriteQuantizedGather(Kernel& k);
int64_t ScratchOfQuantizedMatMul(const Kernel& k);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_OPS_H_
