#ifndef STOWAGE_RUNTIME_CHECK_PROGRAMS_H_
#define STOWAGE_RUNTIME_CHECK_PROGRAMS_H_

// What programs must be, each by itself and beside the others, to work in one arena.
//
//   STOWAGE_RETURN_IF_ERROR(CheckPrograms({{"train", step, plan}}, backend));

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "runtime/session_program.h"

namespace stowage {

/// Errors, kInvalidArgument unless they are a callee's: no programs, two of one name, a
/// plan that is not for its graph or breaks a law (ValidatePlan), an op the backend
/// lacks, a plan made without this backend's scratch or reserve, programs that disagree
/// on where a param, a state or a cache of one name lies, or lay different params or
/// states over each other.
Status CheckPrograms(const std::vector<SessionProgram>& programs,
                     const Backend& backend);

// Whether a program may run on a backend that joins so many ranks.
//
//   STOWAGE_RETURN_IF_ERROR(
//       CheckRanks(program.graph(), {.ranks = 4, .room = "cpu", .given = "..."}));

struct JoinedRanks {
  int ranks = 1;                // of the backend
  std::string_view room = {};   // that errors begin with
  std::string_view given = {};  // what a backend is given that joins several
};

/// That what `graph` does among ranks, in bodies too, it does among as many as are
/// joined. Error kInvalidArgument naming the node, and both numbers. Linear in the nodes.
Status CheckRanks(const Graph& graph, const JoinedRanks& joined);

// Values of several params and states that belong together, as those of a checkpoint do.
// They are written one after the other, and an error on the way would leave some of them
// new and others old: a mixture that no step has made. To keep the old ones would take a
// second copy of all; so they count as never given, and no step and no file takes them.
//
//   Status loaded = AllOrNone(runner, {"w", "b"}, [&]() -> Status {
//     STOWAGE_RETURN_IF_ERROR(runner.Write("w", w));
//     return runner.Write("b", b);
//   });

/// Calls `write`, which gives params and states of `runner` values, `names` at most. Where
/// it ends in an error, none of these has values any more (Runner::Forget), and the error
/// says so.
Status AllOrNone(Runner& runner, const std::vector<std::string>& names,
                 const std::function<Status()>& write);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECK_PROGRAMS_H_
