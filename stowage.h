#ifndef STOWAGE_STOWAGE_H_
#define STOWAGE_STOWAGE_H_

// Stowage trains neural networks inside a memory budget fixed before the first
// step. This umbrella header includes everything that a program needs. The entry
// point is Train (train/training.h), which plans a model for a budget and returns
// a training session. The header also includes the components that Train uses:
// graphs, training steps, plans, sessions, backends, models and reports. README.md
// has examples.

// Some compilers predate the final C++20 standard and define __cplusplus as 201709.
#if __cplusplus < 201709L
#error \
    "Stowage needs C++20: compile with -std=c++20 (Bazel: --cxxopt=-std=c++20)"
#endif

#include "admission/admission.h"  // IWYU pragma: export
#include "autodiff/autodiff.h"    // IWYU pragma: export
#include "base/base.h"            // IWYU pragma: export
#include "compile/compile.h"      // IWYU pragma: export
#include "cpu/cpu.h"              // IWYU pragma: export
#include "data/data.h"            // IWYU pragma: export
#include "formats/formats.h"      // IWYU pragma: export
#include "gpu/gpu.h"              // IWYU pragma: export
#include "ir/ir.h"                // IWYU pragma: export
#include "nn/nn.h"                // IWYU pragma: export
#include "onnx/onnx.h"            // IWYU pragma: export
#include "planner/fit/fit.h"      // IWYU pragma: export
#include "planner/planner.h"      // IWYU pragma: export
#include "report/report.h"        // IWYU pragma: export
#include "runtime/runtime.h"      // IWYU pragma: export
#include "text/text.h"            // IWYU pragma: export
#include "train/train.h"          // IWYU pragma: export

#endif  // STOWAGE_STOWAGE_H_
