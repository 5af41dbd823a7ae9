#ifndef STOWAGE_RUNTIME_CHECK_PROGRAMS_H_
#define STOWAGE_RUNTIME_CHECK_PROGRAMS_H_

// Checks that programs are valid, each by itself and together in one arena.
//
//   STOWAGE_RETURN_IF_ERROR(CheckPrograms({{"train", step, plan}}, backend));

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "runtime/backend.h"
#include "runtime/program.h"
#include "runtime/session.h"

namespace stowage {

/// Errors, kInvalidArgument unless they are a callee's: no programs, two of one name, a
/// plan that is not for its graph or breaks a law (ValidatePlan), an op the backend
/// lacks, a plan made without this backend's scratch or reserve, programs that disagree
/// on the address of a param, a state or a cache of one name, or place different params
/// or states over each other.
Status CheckPrograms(const std::vector<SessionProgram>& programs,
                     const Backend& backend);

// Checks whether a program may run on a backend with that many ranks.
//
//   STOWAGE_RETURN_IF_ERROR(
//       CheckRanks(program.graph(), {.ranks = 4, .room = "cpu", .given = "..."}));

struct JoinedRanks {
  int ranks = 1;                // of the backend
  std::string_view room = {};   // prefix of errors
  std::string_view given = {};  // the backend argument that has the ranks
};

/// Checks that the collectives of `graph`, also in bodies, are for as many ranks as are
/// connected. Error kInvalidArgument naming the node, and both numbers. Linear in the
/// nodes.
Status CheckRanks(const Graph& graph, const JoinedRanks& joined);

// Writes params and states that belong together, such as those of a checkpoint. They are
// written one after the other, and an error would leave a mixture of new and old values
// that no step has computed. Keeping the old values would take a second copy of all;
// instead they count as never given, and no step and no file uses them.
//
//   Status loaded = AllOrNone(runner, {"w", "b"}, [&]() -> Status {
//     STOWAGE_RETURN_IF_ERROR(runner.Write("w", w));
//     return runner.Write("b", b);
//   });

/// Calls `write`, which gives params and states of `runner` values, `names` at most. If
/// it fails, none of these has values any more (Runner::Forget), and the error says so.
Status AllOrNone(Runner& runner, const std::vector<std::string>& names,
                 const std::function<Status()>& write);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECK_PROGRAMS_H_
