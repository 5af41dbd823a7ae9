#include "ir/fused.h"

namespace stowage {

bool MayBeFused(OpKind op) {
  switch (op) {
    case OpKind::kNeg:
    case OpKind::kAbs:
    case OpKind::kSign:
    case OpKind::kExp:
    case OpKind::kLog:
    case OpKind::kSqrt:
    case OpKind::kRsqrt:
    case OpKind::kSquare:
    case OpKind::kReciprocal:
    case OpKind::kSin:
    case OpKind::kCos:
    case OpKind::kRelu:
    case OpKind::kSilu:
    case OpKind::kSigmoid:
    case OpKind::kTanh:
    case OpKind::kGeluTanh:
    case OpKind::kGeluErf:
    case OpKind::kExpm1:
    case OpKind::kLog1p:
    case OpKind::kErf:
    case OpKind::kFloor:
    case OpKind::kCeil:
    case OpKind::kRound:
    case OpKind::kSoftplus:
    case OpKind::kMish:
    case OpKind::kHardSwish:
    case OpKind::kLeakyRelu:
    case OpKind::kElu:
    case OpKind::kClamp:
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
    case OpKind::kDiv:
    case OpKind::kPow:
    case OpKind::kMaximum:
    case OpKind::kMinimum:
    case OpKind::kRemainder:
    case OpKind::kFmod:
    case OpKind::kReluGrad:
    case OpKind::kSigmoidGrad:
    case OpKind::kTanhGrad:
    case OpKind::kSiluGrad:
    case OpKind::kGeluTanhGrad:
    case OpKind::kGeluErfGrad:
    case OpKind::kMishGrad:
    case OpKind::kHardSwishGrad:
    case OpKind::kLeakyReluGrad:
    case OpKind::kEluGrad:
    case OpKind::kClampGrad:
      return true;
    default:
      return false;
  }
}

FusedChain ChainOf(const Graph& program) {
  FusedChain chain;
  ValueId before = 0;  // leaf 0, then the result of the step before
  for (const Node& node : program.nodes()) {
    FusedStep& step = chain.steps_[chain.num_steps_++];
    step = {.op = node.op,
            .attrs = &node.attrs,
            .is_binary = node.inputs.size() == 2,
            .is_second = node.inputs[0] != before};
    for (const ValueId input : node.inputs) {
      if (input != before) step.operand = input;
    }
    before = node.results[0];
    for (size_t r = 0; r < program.outputs().size(); ++r) {
      if (program.outputs()[r].value == before)
        step.result = static_cast<int>(r);
    }
  }
  return chain;
}

}  // namespace stowage
