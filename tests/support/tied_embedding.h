#ifndef STOWAGE_TESTS_SUPPORT_TIED_EMBEDDING_H_
#define STOWAGE_TESTS_SUPPORT_TIED_EMBEDDING_H_

// A table that is looked up by tokens, goes through a matrix and a tanh, and gives the
// logits, too, as GPT-2's does: how far its gradient in bf16 is from that in f64, beside
// PyTorch's on the same data (tests/goldens/make_tied_embedding_goldens.py). One draw may
// have luck, since what is rounded in one place may cancel what is rounded in another; so
// errors are compared over all draws.
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

/// Root mean squares, over the draws, of the norm of what the gradient differs by, as a
/// part of its norm.
struct TiedErrors {
  double ours = 0;
  double pytorch = 0;
};

/// Runs the step in bf16 for each draw: `run` returns its outputs. Logits come in chunks of
/// so many of the 256 tokens; 0: by a product of its own, all at once. Checks (doctest) that
/// the gradient in f64 is PyTorch's.
TiedErrors ErrorsOfTiedEmbedding(
    int64_t chunk,
    const std::function<Tensors(const Graph& step, const Tensors& leaves)>&
        run);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_TIED_EMBEDDING_H_
