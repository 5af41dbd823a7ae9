#ifndef STOWAGE_RUNTIME_CHECK_PROGRAMS_H_
#define STOWAGE_RUNTIME_CHECK_PROGRAMS_H_

// What programs must be, each by itself and beside the others, to work in one arena.
//
//   STOWAGE_RETURN_IF_ERROR(CheckPrograms({{"train", step, plan}}, backend));

#include <vector>

#include "base/result.h"
#include "runtime/backend.h"
#include "runtime/session_program.h"

namespace stowage {

/// Errors, kInvalidArgument unless they are a callee's: no programs, two of one name, a
/// plan that is not for its graph or breaks a law (ValidatePlan), an op the backend
/// lacks, a plan made without this backend's scratch or reserve, programs that disagree
/// on where a param, a state or a cache of one name lies, or lay different params or
/// states over each other.
Status CheckPrograms(const std::vector<SessionProgram>& programs,
                     const Backend& backend);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECK_PROGRAMS_H_
