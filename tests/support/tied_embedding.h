#ifndef STOWAGE_TESTS_SUPPORT_TIED_EMBEDDING_H_
#define STOWAGE_TESTS_SUPPORT_TIED_EMBEDDING_H_

// The gradient of a tied embedding in bf16: its error against f64, beside PyTorch's on the same
// data (tests/goldens/make_tied_embedding_goldens.py). As in GPT-2, one table is looked up by
// tokens, goes through a matrix and a tanh, and gives the logits too. Rounding errors of one
// random draw may cancel, so errors are compared over all draws.
//
//   const TiedErrors errors = ErrorsOfTiedEmbedding(64, [](const Graph& step, const Tensors& leaves) {
//     return RunOnCpu(step, leaves).values;
//   });
//   CHECK(errors.ours <= errors.pytorch);

#include <cstdint>
#include <functional>

#include "ir/graph.h"
#include "tests/support/interpret.h"

namespace stowage {

/// Root mean squares, over the draws, of the gradient's relative error in norm.
struct TiedErrors {
  double ours = 0;
  double pytorch = 0;
};

/// Runs the step in bf16 for each draw; `run` returns its outputs. Logits are computed in chunks
/// of `chunk` of the 256 tokens; 0: by one matmul. Checks (doctest) that the gradient in f64 is
/// PyTorch's.
TiedErrors ErrorsOfTiedEmbedding(
    int64_t chunk,
    const std::function<Tensors(const Graph& step, const Tensors& leaves)>&
        run);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_TIED_EMBEDDING_H_
