// On a GPU the gradient is rounded once a chunk, where PyTorch's is rounded once; in GPT-2's
// step of 64 x 1024 tokens there are sixteen chunks.

#include "tests/support/tied_embedding.h"

#include <doctest/doctest.h>

#include <cstdint>

#include "ir/graph.h"
#include "tests/gpu/run_graph.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

TEST_CASE("the gradient of a tied embedding is as near as PyTorch's in bf16") {
  for (const int64_t chunk : {0, 64, 16}) {
    const TiedErrors errors = ErrorsOfTiedEmbedding(
        chunk, [](const Graph& step, const Tensors& leaves) {
          const GpuRun run = RunInEmulator(step, leaves);
          REQUIRE(run.wrong == "");
          return run.values;
        });
    CAPTURE(chunk);
    MESSAGE("error ", errors.ours, ", PyTorch's ", errors.pytorch);
    CHECK(errors.ours <= errors.pytorch);
  }
}

}  // namespace
}  // namespace stowage
