#ifndef STOWAGE_AUTODIFF_DIFFERENTIATED_H_
#define STOWAGE_AUTODIFF_DIFFERENTIATED_H_

// A model's graph and its backward graph, ready to be linked into a step, and which
// params it trains.
//
//   STOWAGE_ASSIGN_OR_RETURN(const Differentiated model,
//                            Differentiate(forward, "loss", options));
//   Linker linker(model.forward, model.backward, "loss", &g);
//   ... linker.CopyForward(), linker.WireUp() ...
//   CopyBackward(model, linker, [&](size_t i) { /* model.trained[i] is there */ });

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/linker.h"
#include "autodiff/train_options.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

/// A param to train, and the last backward node (kNoNode: none) that makes its
/// gradient or reads what the update overwrites.
struct Trained {
  ValueId param;     // in the forward graph
  ValueId gradient;  // in the backward graph
  NodeId last;
};

/// Differentiated once, however often it runs.
struct Differentiated {
  Graph forward;  // which saves in its loops what backward reads
  Graph backward;
  std::vector<Trained> trained;  // in one order for all pieces of a batch
};

/// Errors: those of BuildBackward and WithoutFrozen; a pattern in options.gradients
/// that no trained param has.
Result<Differentiated> Differentiate(const Graph& forward,
                                     std::string_view loss,
                                     const TrainOptions& options);

/// Copies the backward nodes by `linker`; `made` is told of each gradient, as an index
/// of model.trained, once it is there and nothing will read its param any more.
void CopyBackward(const Differentiated& model, Linker& linker,
                  const std::function<void(size_t)>& made);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_DIFFERENTIATED_H_
