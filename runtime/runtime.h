#ifndef STOWAGE_RUNTIME_RUNTIME_H_
#define STOWAGE_RUNTIME_RUNTIME_H_

// The umbrella header of the package. The package runs programs in one arena, defines the interface
// of a backend, saves and loads checkpoints, and loads the weights of other programs.

#include "runtime/backend.h"     // IWYU pragma: export
#include "runtime/checkpoint.h"  // IWYU pragma: export
#include "runtime/kernel.h"      // IWYU pragma: export
#include "runtime/program.h"     // IWYU pragma: export
#include "runtime/session.h"     // IWYU pragma: export
#include "runtime/values.h"      // IWYU pragma: export
#include "runtime/weights.h"     // IWYU pragma: export

#endif  // STOWAGE_RUNTIME_RUNTIME_H_
