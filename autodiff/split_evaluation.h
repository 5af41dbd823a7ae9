#ifndef STOWAGE_AUTODIFF_SPLIT_EVALUATION_H_
#define STOWAGE_AUTODIFF_SPLIT_EVALUATION_H_

// The evaluation of many examples by a program that takes a part of them at a time, so
// that its outputs are those of all together. A mean over the examples is the mean of the
// parts' means; the loss of a model with a mask, or with labels that are ignored, is a
// quotient of sums, whose denominator is a total of all parts (autodiff/batch_analysis.h):
// one program makes the totals, and the other reads them.
//
//   SplitEvaluation split = *SplitForEvaluation(model(1000), model(8));
//   for (const EvaluationTotal& total : split.totals) {
//     ... run split.totals_graph on each part, join `total.output` by `total.kind`
//     (JoinPart), and write it to the input `total.input` of both graphs ...
//   }
//   ... run split.graph on each part, and join its outputs by split.outputs ...

#include <map>
#include <span>
#include <string>
#include <vector>

#include "autodiff/batch_analysis.h"
#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// A value that depends on the inputs of all parts alone.
struct EvaluationTotal {
  std::string input;   // of both graphs, that it is written to
  std::string output;  // of totals_graph: a part's
  BatchKind kind =
      BatchKind::kSum;  // how the parts' are put together: kSame, of one
  int round = 0;        // it reads totals of lower rounds alone
  friend bool operator==(const EvaluationTotal&,
                         const EvaluationTotal&) = default;
};

/// How an output of all parts follows from theirs.
struct EvaluationOutput {
  BatchKind kind = BatchKind::kMean;
  std::string why = {};  // of kMixed: what does not follow
};

struct SplitEvaluation {
  Graph graph;         // of a part, with the totals as inputs
  Graph totals_graph;  // where there are totals
  std::vector<EvaluationTotal> totals = {};  // by rising round
  std::map<std::string, EvaluationOutput, std::less<>> outputs = {};
};

/// Puts `next`, the elements of a part's value, together with `so_far` of those before, which
/// is empty before the first. Means count by the part's `share` of the examples, and so does
/// what does not follow from parts (kMixed): it is their mean. Precondition: as many elements
/// in each part.
void JoinPart(BatchKind kind, double share, std::span<const double> next,
              std::vector<double>* so_far);

/// How `part` evaluates `whole`, which is the same model for `1 / share` times as many
/// examples. An output that does not follow from those of parts is kMixed. Errors: those of
/// the graphs. Linear in the nodes, as AnalyzeBatch.
Result<SplitEvaluation> SplitForEvaluation(const Graph& whole,
                                           const Graph& part, double share);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_SPLIT_EVALUATION_H_
