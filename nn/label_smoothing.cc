#include "nn/label_smoothing.h"

#include <algorithm>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/graph_copy.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/weight_type.h"

namespace stowage {
namespace {

constexpr std::string_view kLoss = "loss";

// In the type that losses are computed in.
Value Wide(Value x) {
  const bool is_wide =
      x.ok() && (x.dtype() == DType::kF64 || x.dtype() == DType::kF32);
  return is_wide ? x : Cast(x, DType::kF32);
}

// (1 - s) times the cross-entropy plus s times the mean of -log softmax over all classes.
Value Smoothed(Value logits, Value labels, double smoothing) {
  const Value others = MulScalar(ReduceMean(LogSoftmax(Wide(logits))), -1);
  return Add(MulScalar(Wide(CrossEntropy(logits, labels)), 1 - smoothing),
             MulScalar(others, smoothing));
}

// The same by what the logit of the label is above the mean of all logits of its row, x
// (w_label - mean of w): the log of the sum of exponentials is in both terms.
Value SmoothedLinear(Value x, Value w, Value labels, Value weights,
                     int64_t chunk, double smoothing) {
  const Value loss =
      LinearCrossEntropy(x, w, labels, chunk, {.weights = weights});
  const Value wide = Wide(w);
  const Value above = Sub(Gather(wide, labels), ReduceMean(wide, {0}));
  Value rows = ReduceSum(Mul(Wide(x), above), {-1});
  if (weights.builder() != nullptr) rows = Mul(rows, weights);
  return Add(Wide(loss), MulScalar(ReduceMean(rows), smoothing));
}

}  // namespace

Result<Graph> WithLabelSmoothing(const Graph& graph, double smoothing) {
  if (!(smoothing >= 0 && smoothing < 1)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[label-smoothing] ", smoothing,
                        " is out of range; expected at least 0 and below 1")};
  }
  const auto output =
      std::ranges::find(graph.outputs(), kLoss, &GraphOutput::name);
  const NodeId producer = output == graph.outputs().end()
                              ? kNoNode
                              : graph.value(output->value).producer;
  const auto unsupported = [&](std::string_view what) {
    return Error{
        ErrorCode::kUnsupported,
        StrCat("[label-smoothing] ", what, " in graph ", Quoted(graph.name()),
               "; expected a loss that is a cross_entropy, or a "
               "linear_cross_entropy by a matrix of floats")};
  };
  if (producer == kNoNode) return unsupported("no op makes the loss");
  const Node& made = graph.node(producer);
  const bool is_linear = made.op == OpKind::kLinearCrossEntropy;
  if (!is_linear && made.op != OpKind::kCrossEntropy) {
    return unsupported(StrCat("the loss is made by ", OpName(made.op)));
  }
  if (is_linear && made.attrs.Int("blocks") != kNoBlocks) {
    return unsupported("the loss reads a matrix in blocks");
  }
  if (smoothing == 0) return graph;
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  copy.DeclareLeaves();
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (id != producer) {
      copy.CopyNode(id);
      continue;
    }
    copy.SetOrigin(id);
    const auto input = [&](size_t i) { return copy[made.inputs[i]]; };
    const Value loss =
        is_linear ? SmoothedLinear(input(0), input(1), input(2),
                                   made.inputs.size() > 3 ? input(3) : Value(),
                                   made.attrs.Int("chunk"), smoothing)
                  : Smoothed(input(0), input(1), smoothing);
    const std::string& name = graph.value(made.results[0]).name;
    copy.Map(made.results[0], g.Name(name, loss));
  }
  copy.DeclareOutputs();
  return g.Finish();
}

}  // namespace stowage
