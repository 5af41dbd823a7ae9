#ifndef STOWAGE_COMPILE_STEP_WRITER_H_
#define STOWAGE_COMPILE_STEP_WRITER_H_

// The body of the step function: the launches of the plan's stream, in order.
//
//   /* fc1: mlp.cc:12 */
//   matmul_1(AT(f32, arena + 0), AT(f32, arena + 401408), AT(f32, arena + 532480));
//
// A loop is a for statement, a cond a chain of if statements; a body accesses memory outside
// it through pointers that are set for each iteration.

#include <string>

#include "compile/initial_values.h"
#include "compile/kernel_set.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage::compile {

struct StepText {
  std::string body;  // indented by two spaces
  int launches = 0;
  bool can_fail = false;  // then it uses `int status`
};

/// Precondition: every op is in OpInC.
StepText WriteStep(const Graph& graph, const Plan& plan,
                   const Constants& constants, KernelSet* kernels);

/// `text` as part of a C comment.
std::string InComment(std::string_view text);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_STEP_WRITER_H_
