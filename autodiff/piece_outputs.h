#ifndef STOWAGE_AUTODIFF_PIECE_OUTPUTS_H_
#define STOWAGE_AUTODIFF_PIECE_OUTPUTS_H_

// What a step gives out whose batch is taken in pieces: the outputs of the pieces
// put together to those of the batch.
//
// How an output follows from those of the pieces is known (autodiff/batch_analysis.h). One
// with a dimension that is the batch's is joined from its parts, in one buffer that is
// there from the start. Means are added up by the pieces' shares, sums as they are; of a
// maximum the largest stays, and of what is equal in all pieces, or of a state, the last
// piece's.
//
// Where the pieces are those of one rank, they are put together to the outputs of its
// part of the batch; means and sums are then added up over the ranks.
//
//   PieceOutputs outputs(whole, whole, model, "loss", &g);
//   outputs.Begin(first_piece);
//   for each piece: outputs.Add(piece, share, linker);  // after its forward part
//                   outputs.AddLoss(piece, share, linker);
//   STOWAGE_RETURN_IF_ERROR(outputs.Finish());

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/linker.h"
#include "autodiff/split_model.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

class PieceOutputs {
 public:
  /// All must outlive this. The pieces, which `model` knows, make up `part` of the batch
  /// `whole`, or all of it.
  PieceOutputs(const Graph& whole, const Graph& part, const SplitModel& model,
               std::string_view loss, GraphBuilder* g);

  /// Decides by any of the pieces how outputs are put together, and emits what has
  /// to be there before the first. Errors: an output that the piece lacks or that
  /// differs in more than one dimension; a sum or mean of bools, or mean of integers.
  Status Begin(const Graph& piece);
  /// The same for a piece that stands for all: what adds up begins as leaves of role
  /// saved, "sum:<output>". Returns what the parts of outputs are put into, by name:
  /// fills called "joined:<output>".
  Result<std::vector<std::string>> BeginRepeated(const Graph& piece);

  /// Whether all outputs that are joined are so along their first axis.
  bool join_first() const;

  /// Adds the outputs of `piece`, which is `share` of the batch, but for its loss:
  /// as soon as `linker` has copied the forward graph, since parts die with it.
  /// Error: an output with another share of its dimension.
  Status Add(const Graph& piece, double share, const Linker& linker);
  /// Adds the loss, which may have been made on the way back.
  void AddLoss(const Graph& piece, double share, const Linker& linker);
  /// Goes past a piece that is not built.
  void Skip(const Graph& piece);

  /// Declares the outputs, of which so many ranks have each a part. Error: the parts do
  /// not make up the whole.
  Status Finish(int64_t ranks = 1);

 private:
  enum class Kind : uint8_t { kMean, kSum, kMax, kJoined, kLast };
  struct Made {
    GraphOutput output;  // of whole
    Kind kind = Kind::kMean;
    int axis = 0;       // kJoined
    int64_t taken = 0;  // kJoined: places along the axis so far
    Value value = {};   // so far
  };

  Result<Made> Decide(const GraphOutput& output, const Graph& piece) const;
  bool IsLoss(const Made& made) const;
  // The part of `piece`; marks what is emitted next as being for it.
  Value PartOf(const Made& made, const Graph& piece, const Linker& linker,
               Phase phase);
  int64_t PlacesOf(const Made& made, const Graph& piece) const;

  TensorType PartType(const Made& made) const;

  const Graph& whole_;
  const Graph& part_;
  const SplitModel& model_;
  const std::string_view loss_;
  GraphBuilder& g_;
  std::vector<Made> made_;
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_PIECE_OUTPUTS_H_
