#ifndef STOWAGE_STOWAGE_H_
#define STOWAGE_STOWAGE_H_

// Stowage: train neural networks inside a memory budget fixed before the first
// step. This header brings in all that a program needs: the verb that turns a model
// and a budget into something that trains, and what it is made of: graphs, training
// steps, plans, sessions, backends, models and reports. README.md shows it at work.

// Some compilers call their C++20 of before its last touches 201709.
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
