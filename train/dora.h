#ifndef STOWAGE_TRAIN_DORA_H_
#define STOWAGE_TRAIN_DORA_H_

// The values that the params of DoRA (nn/lora.h) begin with. They come from the weights of
// the base: the squared norm of each output's weights, and magnitudes that are its root,
// with which an adapted layer begins as the layer.
//
//   Result<Graph> adapted = WithLora(graph, {.dora = true});
//   ...  // a session of it, or of its training step
//   runner.Initialize(/*seed=*/1);   // and the weights of the base
//   Status started = StartDora(*adapted, runner);
//
// FineTuning::LoadBase calls it.

#include "base/result.h"
#include "ir/graph.h"
#include "runtime/session.h"

namespace stowage {

/// Gives all magnitudes and squared norms of `runner` their values, from the weights it
/// has. `adapted` is a graph of WithLora or WithQuantizedParams that has the same params; it
/// says how they are read. Reads the weights once, a few hundred kilobytes at a time, in
/// their blocks, and sums in double precision. Errors: those of Runner::ReadPart and WritePart;
/// kInvalidArgument for an output all of whose weights are zero, which has no direction.
Status StartDora(const Graph& adapted, Runner& runner);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_DORA_H_
