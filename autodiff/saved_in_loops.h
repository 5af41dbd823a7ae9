#ifndef STOWAGE_AUTODIFF_SAVED_IN_LOOPS_H_
#define STOWAGE_AUTODIFF_SAVED_IN_LOOPS_H_

// What the body of a loop makes and the backward loop reads has to be kept for every
// iteration: the forward loop hands it back, stacked.
//
// A backward graph calls such a result "<value>@<loop>", where the loop goes by the name
// of its first result, and of a loop in a loop "<value>@<inner>@<outer>". SaveInLoops
// makes the forward graph that has them, once it is known which there are.
//
//   Result<Graph> backward = BuildBackward(forward, "loss");
//   Result<Graph> saving = SaveInLoops(forward, *backward);

#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// The name of what keeps `value` of the body of the loop called `loop`.
std::string SavedInLoopName(std::string_view value, std::string_view loop);

/// `forward`, whose loops also hand back what `backward` has saved leaves of, stacked.
/// The same graph where it has them all. Leaves, names and outputs stay; ids of values
/// change. Linear but for the loops that each name is compared with.
Result<Graph> SaveInLoops(const Graph& forward, const Graph& backward);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_SAVED_IN_LOOPS_H_
