#ifndef STOWAGE_COMPILE_FILE_WRITER_H_
#define STOWAGE_COMPILE_FILE_WRITER_H_

// The source and the header, put together: types, memory, helpers, kernels, the functions of
// initial values, programs, saving and loading, and access to values.
//
//   CompiledStep step = WriteFile(programs, options);

#include <span>

#include "compile/compile.h"

namespace stowage::compile {

/// Precondition: the programs have been checked as CompileToC does.
CompiledStep WriteFile(std::span<const CProgram> programs,
                       const CompileOptions& options);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_FILE_WRITER_H_
