#ifndef STOWAGE_STOWAGE_H_
#define STOWAGE_STOWAGE_H_

// Stowage trains neural networks inside a memory budget that is fixed before the first step.
//
// This is the umbrella header of the library. It includes the entry point, Train
// (train/training.h), which trains a model within a budget. It also includes the packages that
// Train is built on: graphs, training steps, plans, sessions, backends, models and reports.
// README.md has examples.

// Some compilers with preliminary support for C++20 define __cplusplus as 201709L.
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
