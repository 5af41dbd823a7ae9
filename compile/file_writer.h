#ifndef STOWAGE_COMPILE_FILE_WRITER_H_
#define STOWAGE_COMPILE_FILE_WRITER_H_

// Writes the source and the header: types, memory, helpers, kernels, the functions of initial
// values, programs, saving and loading, and the functions through which an application
// accesses values:
//
//   float *mlp_input_x(void);  /* x: f32(32, 784) */

#include <span>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "compile/initial_values.h"
#include "planner/plan.h"

namespace stowage::compile {

/// Precondition: the programs have been checked as CompileToC does.
CompiledStep WriteFile(std::span<const CProgram> programs,
                       const CompileOptions& options);

struct Accessor {
  std::string declaration;  // "float *mlp_input_x(void)"
  std::string comment;      // "x: f32(32, 784)"
  std::string address;      // "arena + 256"
};

/// The accessors of inputs, outputs, params and states, in this order. Their names are those
/// of the values, with `_` for characters that a C identifier cannot have and a number where
/// two would be equal. Programs other than the step have only inputs and outputs, with the
/// program's name in front. Values that the application may not write are const.
std::vector<Accessor> AccessorsOf(const CProgram& program, bool is_step,
                                  const Constants& constants,
                                  const CompileOptions& options);

/// The parameters of a function that takes `more` besides the arena.
std::string ParametersOf(const CompileOptions& options,
                         const std::string& more = "");

/// Whether `text` is a C identifier.
bool IsIdentifier(std::string_view text);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_FILE_WRITER_H_
