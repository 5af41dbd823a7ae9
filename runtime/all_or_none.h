#ifndef STOWAGE_RUNTIME_ALL_OR_NONE_H_
#define STOWAGE_RUNTIME_ALL_OR_NONE_H_

// Values of several params and states that belong together, as those of a checkpoint do.
// They are written one after the other, and an error on the way would leave some of them
// new and others old: a mixture that no step has made. To keep the old ones would take a
// second copy of all; so they count as never given, and no step and no file takes them.
//
//   Status loaded = AllOrNone(runner, {"w", "b"}, [&]() -> Status {
//     STOWAGE_RETURN_IF_ERROR(runner.Write("w", w));
//     return runner.Write("b", b);
//   });

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/session.h"

namespace stowage {

/// Calls `write`, which gives params and states of `runner` values, `names` at most. Where
/// it ends in an error, none of these has values any more (Runner::Forget), and the error
/// says so.
Status AllOrNone(Runner& runner, const std::vector<std::string>& names,
                 const std::function<Status()>& write);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_ALL_OR_NONE_H_
