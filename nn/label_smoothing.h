#ifndef STOWAGE_NN_LABEL_SMOOTHING_H_
#define STOWAGE_NN_LABEL_SMOOTHING_H_

// Label smoothing (Szegedy et al. 2016) of a graph that is there already: its loss
// becomes that of torch.nn.CrossEntropyLoss(label_smoothing=...), the share `smoothing` of
// every target spread evenly over all classes.
//
//   Result<Graph> smoothed = WithLabelSmoothing(*forward, 0.1);

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// `graph` with its output "loss" smoothed, which must come from a cross_entropy or a
/// linear_cross_entropy. Composed of other ops: the first makes its softmax once more, and
/// the second still never holds its logits. Errors: a smoothing outside [0, 1);
/// kUnsupported for a loss of another kind, or whose weight is in blocks.
Result<Graph> WithLabelSmoothing(const Graph& graph, double smoothing);

}  // namespace stowage

#endif  // STOWAGE_NN_LABEL_SMOOTHING_H_
