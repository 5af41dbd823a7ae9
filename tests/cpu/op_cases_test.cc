// Every row of the op test table on the CPU kernels, in every float type.

#include "tests/support/op_cases.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "cpu/kernel.h"
#include "cpu/targets.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "tests/cpu/run_graph.h"
#include "tests/support/instances.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

TEST_CASE("every op case agrees with the interpreter in f32") {
  for (const OpCase& c : OpCases(DType::kF32)) {
    CheckAgainstInterpreter(BuildCase(c), CaseLeaves(c), c.tolerance);
  }
}

TEST_CASE("every op case agrees with the interpreter in f64") {
  for (const OpCase& c : OpCases(DType::kF64)) {
    CheckAgainstInterpreter(BuildCase(c), CaseLeaves(c), c.tolerance);
  }
}

// The rows in f16 or bf16; under the address sanitizer the first of each op alone.
std::vector<OpCase> HalfCases(DType half) {
  std::vector<OpCase> cases = OpCases(half);
  if (testing::TakesAllInstances()) return cases;
  std::set<OpKind> seen;
  std::erase_if(cases,
                [&](const OpCase& c) { return !seen.insert(c.op).second; });
  return cases;
}

TEST_CASE("every op case agrees with the interpreter in f16 and bf16") {
  for (const DType half : {DType::kF16, DType::kBF16}) {
    for (const OpCase& c : HalfCases(half)) {
      CheckAgainstInterpreter(BuildCase(c), CaseLeaves(c), c.tolerance);
    }
  }
}

// Whether its operands have types of their own, whatever that of reals is.
bool HasOwnTypes(OpKind op) {
  switch (op) {
    case OpKind::kAdamWSplitUpdate:
    case OpKind::kAdamWBf16Update:
    case OpKind::kAdamWBf16SplitUpdate:
    case OpKind::kAdamW8BitUpdate:
    case OpKind::kAdamW8BitSplitUpdate:
    case OpKind::kMomentumBf16Update:
    case OpKind::kMomentumBf16SplitUpdate:
    case OpKind::kJoinWeight:
    case OpKind::kSplitUpdate:
      return true;
    default:
      return false;
  }
}

// Whether what lies between its parts is rounded, too.
bool RoundsBetween(OpKind op) {
  return op == OpKind::kFusedElementwise || op == OpKind::kFusedMatMul ||
         op == OpKind::kLayerNormGradAdd;
}

// Whether the processor multiplies pairs of bf16 for it (tests/cpu/bf16_pairs_test.cc).
bool IsByPairs(OpKind op, DType half) {
  if (half != DType::kBF16) return false;
  const cpu::KernelTable& table = *cpu::RunningCpuTarget().kernels;
  if (table.vectors != "AVX512-BF16") return false;
  switch (op) {
    case OpKind::kAttention:
    case OpKind::kAttentionGrad:
    case OpKind::kAttentionQkvGrad:
    case OpKind::kConv:
    case OpKind::kConvTranspose:
    case OpKind::kConvWeightGrad:
    case OpKind::kEpilogueMatMul:
    case OpKind::kLinearCrossEntropy:
    case OpKind::kLinearCrossEntropyGrad:
    case OpKind::kMatMul:
      return true;
    default:
      return false;
  }
}

TEST_CASE("in f16 and bf16, it is what f32 kernels give, rounded once") {
  for (const DType half : {DType::kF16, DType::kBF16}) {
    for (const OpCase& c : HalfCases(half)) {
      // Of their own types in every type; of as many bits as the type holds.
      if (HasOwnTypes(c.op) || RoundsBetween(c.op)) continue;
      if (c.op == OpKind::kRandomUniform || IsByPairs(c.op, half)) continue;
      CAPTURE(c.name);
      const Graph graph = BuildCase(c);
      const Tensors leaves = CaseLeaves(c);
      const CpuRun wide = RunOnCpu(testing::ByF32Kernels(graph), leaves);
      REQUIRE(wide.code == StepCode::kOk);
      CHECK(RunOnCpu(graph, leaves).values == wide.values);
    }
  }
}

TEST_CASE("some results of the op cases lie over their operands") {
  int overwritten = 0;
  for (const OpCase& c : OpCases(DType::kF32)) {
    overwritten +=
        RunOnCpu(BuildCase(c), CaseLeaves(c), {.overwrite = true}).overwritten;
  }
  CHECK(overwritten > 30);
}

}  // namespace
}  // namespace stowage
