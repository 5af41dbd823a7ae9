#include "tests/support/tied_embedding.h"

#include <doctest/doctest.h>

#include <cstdint>

#include "ir/graph.h"
#include "runtime/kernel.h"
#include "tests/cpu/run_graph.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

TEST_CASE("the gradient of a tied embedding is as near as PyTorch's in bf16") {
  for (const int64_t chunk : {0, 64}) {
    const TiedErrors errors = ErrorsOfTiedEmbedding(
        chunk, [](const Graph& step, const Tensors& leaves) {
          const CpuRun run = RunOnCpu(step, leaves);
          REQUIRE(run.code == StepCode::kOk);
          return run.values;
        });
    CAPTURE(chunk);
    MESSAGE("error ", errors.ours, ", PyTorch's ", errors.pytorch);
    CHECK(errors.ours <= errors.pytorch);
  }
}

}  // namespace
}  // namespace stowage
