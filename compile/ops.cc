#include "compile/ops.h"

namespace stowage::compile {

COp OpInC(OpKind op) {
  switch (op) {
    case OpKind::kConstant:
      return {.write = WriteConstant, .takes_16_bits = true};
    case OpKind::kFill:
      return {.write = WriteFill, .takes_16_bits = true};
    case OpKind::kIota:
      return {.write = WriteIota, .takes_16_bits = true};
    case OpKind::kRandomUniform:
      return {.write = WriteRandomUniform, .takes_16_bits = true};
    case OpKind::kRandomNormal:
      return {.write = WriteRandomNormal, .takes_16_bits = true};
    case OpKind::kDropout:
      return {.write = WriteDropout, .takes_16_bits = true};

    case OpKind::kCopy:
    case OpKind::kReload:
    case OpKind::kOffload:
      return {.write = WriteMove, .takes_16_bits = true};
    case OpKind::kConcat:
      return {.write = WriteConcat, .takes_16_bits = true};
    case OpKind::kPad:
      return {.write = WritePad, .takes_16_bits = true};
    case OpKind::kPadGrad:
      return {.write = WritePadGrad};

    case OpKind::kCast:
      return {.write = WriteCast, .takes_16_bits = true};
    case OpKind::kGlu:
      return {.write = WriteGlu, .takes_16_bits = true};
    case OpKind::kGluGrad:
      return {.write = WriteGluGrad, .takes_16_bits = true};
    case OpKind::kFusedElementwise:
      return {.write = WriteFusedElementwise, .takes_16_bits = true};

    case OpKind::kMatMul:
    case OpKind::kEpilogueMatMul:
    case OpKind::kFusedMatMul:
      return {.write = WriteMatMul,
              .scratch = ScratchOfMatMul,
              .takes_16_bits = true};
    case OpKind::kGroupedMatMul:
      return {.write = WriteGroupedMatMul, .takes_16_bits = true};
    case OpKind::kGroupedMatMulWeightGrad:
      return {.write = WriteGroupedMatMulWeightGrad, .takes_16_bits = true};

    case OpKind::kConv:
      return {
          .write = WriteConv, .scratch = ScratchOfConv, .takes_16_bits = true};
    case OpKind::kConvTranspose:
      return {.write = WriteConvTranspose,
              .scratch = ScratchOfConvTranspose,
              .takes_16_bits = true};
    case OpKind::kConvWeightGrad:
      return {.write = WriteConvWeightGrad,
              .scratch = ScratchOfConvWeightGrad,
              .takes_16_bits = true};

    case OpKind::kMaxPool:
      return {.write = WriteMaxPool, .takes_16_bits = true};
    case OpKind::kMaxPoolGrad:
      return {.write = WriteMaxPoolGrad};
    case OpKind::kAvgPool:
      return {.write = WriteAvgPool, .takes_16_bits = true};
    case OpKind::kAvgPoolGrad:
      return {.write = WriteAvgPoolGrad};
    case OpKind::kResize:
      return {.write = WriteResize, .takes_16_bits = true};
    case OpKind::kResizeGrad:
      return {.write = WriteResizeGrad};

    case OpKind::kReduceSum:
    case OpKind::kReduceMean:
    case OpKind::kReduceMax:
      return {.write = WriteReduce, .takes_16_bits = true};
    case OpKind::kSumSquares:
      return {.write = WriteSumSquares, .takes_16_bits = true};
    case OpKind::kArgMax:
      return {.write = WriteArgMax, .takes_16_bits = true};
    case OpKind::kCumSum:
      return {.write = WriteCumSum, .takes_16_bits = true};
    case OpKind::kTopK:
      return {.write = WriteTopK};
    case OpKind::kSumPartials:
      return {.write = WriteSumPartials, .takes_16_bits = true};

    case OpKind::kSoftmax:
    case OpKind::kLogSoftmax:
      return {.write = WriteSoftmax};
    case OpKind::kSoftmaxGrad:
    case OpKind::kLogSoftmaxGrad:
      return {.write = WriteSoftmaxGrad, .takes_16_bits = true};
    case OpKind::kCrossEntropy:
      return {.write = WriteCrossEntropy, .takes_16_bits = true};
    case OpKind::kCrossEntropyGrad:
      return {.write = WriteCrossEntropyGrad, .takes_16_bits = true};
    case OpKind::kLinearCrossEntropy:
      return {.write = WriteLinearCrossEntropy,
              .scratch = ScratchOfLinearCrossEntropy};
    case OpKind::kLinearCrossEntropyGrad:
      return {.write = WriteLinearCrossEntropyGrad,
              .scratch = ScratchOfLinearCrossEntropy};

    case OpKind::kBatchNorm:
      return {.write = WriteBatchNorm};
    case OpKind::kBatchNormGrad:
      return {.write = WriteBatchNormGrad};
    case OpKind::kLayerNorm:
      return {.write = WriteLayerNorm};
    case OpKind::kLayerNormGrad:
    case OpKind::kLayerNormGradAdd:
      return {.write = WriteLayerNormGrad};
    case OpKind::kRmsNorm:
      return {.write = WriteRmsNorm};
    case OpKind::kRmsNormGrad:
      return {.write = WriteRmsNormGrad};
    case OpKind::kLocalResponseNorm:
      return {.write = WriteLocalResponseNorm,
              .scratch = ScratchOfLocalResponseNorm};
    case OpKind::kLocalResponseNormGrad:
      return {.write = WriteLocalResponseNormGrad,
              .scratch = ScratchOfLocalResponseNorm};

    case OpKind::kAttention:
      return {.write = WriteAttention, .scratch = ScratchOfAttention};
    case OpKind::kAttentionGrad:
    case OpKind::kAttentionQkvGrad:
      return {.write = WriteAttentionGrad, .scratch = ScratchOfAttentionGrad};
    case OpKind::kAttentionBiasGrad:
      return {.write = WriteAttentionBiasGrad};
    case OpKind::kRope:
      return {.write = WriteRope};

    case OpKind::kGather:
      return {.write = WriteGather, .takes_16_bits = true};
    case OpKind::kScatterAdd:
      return {.write = WriteScatterAdd};
    case OpKind::kTakeAlongAxis:
      return {.write = WriteTakeAlongAxis, .takes_16_bits = true};
    case OpKind::kPutAdd:
      return {.write = WritePutAdd};
    case OpKind::kAssign:
    case OpKind::kOffloadUpdate:
      return {.write = WriteAssign, .takes_16_bits = true};
    case OpKind::kLerpUpdate:
      return {.write = WriteLerpUpdate, .takes_16_bits = true};
    case OpKind::kSliceUpdate:
      return {.write = WriteSliceUpdate, .takes_16_bits = true};

    case OpKind::kLstm:
      return {.write = WriteLstm};
    case OpKind::kLstmGrad:
      return {.write = WriteLstmGrad, .scratch = ScratchOfLstmGrad};
    case OpKind::kLstmWeightGrad:
      return {.write = WriteLstmWeightGrad};

    case OpKind::kSgdUpdate:
    case OpKind::kMomentumUpdate:
    case OpKind::kNesterovUpdate:
    case OpKind::kRmsPropUpdate:
    case OpKind::kAdagradUpdate:
    case OpKind::kAdamUpdate:
    case OpKind::kAdamWUpdate:
      return {.write = WriteUpdate, .takes_16_bits = true};

    case OpKind::kQuantizedMatMul:
      return {.write = WriteQuantizedMatMul,
              .scratch = ScratchOfQuantizedMatMul};
    case OpKind::kQuantizedGather:
      return {.write = WriteQuantizedGather};

    case OpKind::kAdamWSplitUpdate:
    case OpKind::kAdamWBf16Update:
    case OpKind::kAdamWBf16SplitUpdate:
    case OpKind::kAdamW8BitUpdate:
    case OpKind::kAdamW8BitSplitUpdate:
    case OpKind::kMomentumBf16Update:
    case OpKind::kMomentumBf16SplitUpdate:
      return {.write = WriteCompactUpdate, .takes_16_bits = true};
    case OpKind::kJoinWeight:
      return {.write = WriteJoinWeight, .takes_16_bits = true};
    case OpKind::kSplitUpdate:
      return {.write = WriteSplitUpdate, .takes_16_bits = true};

    default:
      break;
  }
  if (IsScalarOp(op)) return {.write = WriteElementwise, .takes_16_bits = true};
  return {};
}

}  // namespace stowage::compile
