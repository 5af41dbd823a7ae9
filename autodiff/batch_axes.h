#ifndef STOWAGE_AUTODIFF_BATCH_AXES_H_
#define STOWAGE_AUTODIFF_BATCH_AXES_H_

// Along which dimension each input of a model is cut where its batch is taken in
// pieces, and where in it a piece lies. Found by comparing shapes.
//
//   BatchAxes axes(whole, whole);
//   for each piece: STOWAGE_RETURN_IF_ERROR(axes.Add(piece));
//                   ... axes.Part(piece, input, whole_input) ...
//   STOWAGE_RETURN_IF_ERROR(axes.CheckComplete());

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

/// Where the pieces of `part`, which is all or some of the batch `whole`, lie in its
/// inputs.
class BatchAxes {
 public:
  /// Both must outlive this.
  BatchAxes(const Graph& whole, const Graph& part)
      : whole_(whole), part_(part) {}

  /// Notes where `piece`, the next one, lies. Error: it is not a part.
  Status Add(const Graph& piece);
  /// Error: the pieces do not make up the part.
  Status CheckComplete() const;

  /// The last added piece's share of the batch.
  double weight() const { return weight_; }
  /// What stands in it for the leaf `id` of `piece`, given the whole's.
  Value Part(const Graph& piece, ValueId id, Value whole) const;
  /// Whether all inputs that are cut are so along their first axis.
  bool are_first() const {
    return std::ranges::all_of(
        splits_, [](const auto& split) { return split.second.axis == 0; });
  }
  /// The inputs that are cut.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, split] : splits_) names.push_back(name);
    return names;
  }

 private:
  struct Split {
    int axis = 0;
    int64_t start = 0, end = 0;  // of the last added piece
  };

  Status Mismatch(const Graph& piece, const ValueInfo& info,
                  std::string_view why) const;

  const Graph& whole_;
  const Graph& part_;
  std::map<std::string, Split, std::less<>> splits_;  // by input
  double weight_ = 1;
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_BATCH_AXES_H_
