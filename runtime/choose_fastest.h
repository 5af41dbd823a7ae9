#ifndef STOWAGE_RUNTIME_CHOOSE_FASTEST_H_
#define STOWAGE_RUNTIME_CHOOSE_FASTEST_H_

// The fastest of some ways to do the same.
//
//   STOWAGE_ASSIGN_OR_RETURN(const size_t fastest, ChooseFastest(8, seconds));

#include <cstddef>
#include <functional>

#include "base/result.h"

namespace stowage {

/// The index of the fastest of `count` candidates. `seconds(i)` runs the i-th and says
/// how long it took: once for nothing, then all in turn for a few rounds, of which the
/// shortest time of each counts. One that fails is left out. Earlier candidates are
/// preferred by 2 %, which is more than the same work differs by. Error: that of the
/// first candidate, when all fail. Precondition: count > 0.
Result<size_t> ChooseFastest(
    size_t count, const std::function<Result<double>(size_t)>& seconds);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHOOSE_FASTEST_H_
