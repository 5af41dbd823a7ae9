#ifndef STOWAGE_TESTS_SUPPORT_TIED_EMBEDDING_H_
#define STOWAGE_TESTS_SUPPORT_TIED_EMBEDDING_H_

// Measures the error of the gradient of a tied embedding in bf16 relative to f64, next to
// PyTorch's error on the same data (tests/goldens/make_tied_embedding_goldens.py). As in GPT-2, the
// same table embeds the tokens and computes the logits. A matrix and a tanh are in between.
// Rounding errors may cancel in a single random draw, so errors are averaged over several draws.
//
//   const TiedErrors errors =
//       ErrorsOfTiedEmbedding(64, [](const Graph& step, const Tensors& leaves) {
//         return RunOnCpu(step, leaves).values;
//       });
//   CHECK(errors.ours <= errors.pytorch);

#include <cstdint>
#include <functional>

#include "ir/graph.h"
#include "tests/support/interpret.h"

namespace stowage {

/// Relative errors of the gradient: the norm of the difference from f64 over the norm in f64. They
/// are root mean squares over the draws.
struct TiedErrors {
  double ours = 0;
  double pytorch = 0;
};

/// Runs the step in bf16 for each draw and returns the errors. `run` must return the outputs of
/// the step. The logits are computed in chunks of `chunk` of the 256 tokens. If `chunk` is 0, one
/// matmul computes them all. Also checks, as a doctest assertion, that the norm of the gradient in
/// f64 equals PyTorch's.
TiedErrors ErrorsOfTiedEmbedding(
    int64_t chunk,
    const std::function<Tensors(const Graph& step, const Tensors& leaves)>&
        run);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_TIED_EMBEDDING_H_
