#ifndef STOWAGE_COMPILE_INITIAL_VALUES_H_
#define STOWAGE_COMPILE_INITIAL_VALUES_H_

// The body of the function that fills params and states before the first step.
//
// Elements are the same functions of seed, name and index as those of Session::Initialize
// (runtime/values.h), so that a compiled step starts where the library's does.
//
//   first_normal_f32(AT(f32, arena + 0), 100352, 0x1F2E..., 0.05, seed);  /* fc1.w */

#include <map>
#include <string>

#include "compile/constants.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage::compile {

struct InitialText {
  std::string functions;  // that the body calls
  std::string body;       // uses `uint64_t seed`
};

/// Params of `contents` begin with those bytes; constants are left out.
InitialText WriteInitialValues(
    const Graph& graph, const Plan& plan, const Constants& constants,
    const std::map<std::string, std::string>& contents);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_INITIAL_VALUES_H_
