#ifndef STOWAGE_COMPILE_INTERFACE_H_
#define STOWAGE_COMPILE_INTERFACE_H_

// The functions through which an application reaches the values of a step.
//
//   float *mlp_input_x(void);  /* x: f32(32, 784) */

#include <string>
#include <vector>

#include "compile/compile.h"
#include "compile/constants.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage::compile {

struct Accessor {
  std::string declaration;  // "float *mlp_input_x(void)"
  std::string comment;      // "x: f32(32, 784)"
  std::string address;      // "arena + 256"
};

/// Inputs, outputs, params and states, in this order. Their names are those of the values,
/// with `_` for what cannot be part of a C identifier, and a number where two are equal. Of
/// a program beside the step, whose name is then in front, inputs and outputs alone. What is
/// not to be written is const.
std::vector<Accessor> AccessorsOf(const CProgram& program, bool is_step,
                                  const Constants& constants,
                                  const CompileOptions& options);

/// The parameters of a function that takes `more` besides the arena.
std::string ParametersOf(const CompileOptions& options,
                         const std::string& more = "");

/// Whether `text` is a C identifier.
bool IsIdentifier(std::string_view text);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_INTERFACE_H_
