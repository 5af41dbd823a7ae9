#ifndef STOWAGE_PYTHON_COMPILED_H_
#define STOWAGE_PYTHON_COMPILED_H_

// Plans training steps for the device "c" of `stowage.plan`, for which steps are compiled to C
// source (compile/compile.h). Compile returns the contents of the files that Plan.to_c writes.
//
//   spec = ValueOf(SpecOfC(std::move(spec)));
//   ...
//   pybind11::dict files = Compile(plan, "step", "step.h", /*caller_arena=*/false, weights);
//   files["source"];

#include <pybind11/pybind11.h>

#include <map>
#include <string>

#include "base/result.h"
#include "planner/lifetimes.h"
#include "python/plans.h"
#include "train/training.h"

namespace stowage::python {

/// Returns the requirements of the device "c". Raises InvalidArgument if threads or a CPU target
/// are given.
DeviceNeeds NeedsOfDeviceC(int threads, const std::string& cpu_target);

/// Returns whether these are the requirements of the device "c".
bool IsC(const DeviceNeeds& needs);

/// Returns `spec` with the alignment for C, and with the program "evaluate", if any, as the only
/// program in addition to the step. Frozen params are planned outside of the arena, since they are
/// constants in the C source. Propagates errors of TrainingPlanner::Make and of the model.
Result<TrainingSpec> SpecOfC(TrainingSpec spec);

/// Returns the C source, the header, and figures such as "arena_bytes", by name. `prefix`, `header`
/// and `caller_arena` are as in CompileOptions. The initial value of a param or state is in
/// `weights`, or else in the model's ONNX file, or else given by its Init. Raises InvalidArgument
/// if the plan is for another device, or if an array in `weights` has a wrong shape or does not
/// belong to a param or state. Raises WrongDType if it has a wrong element type. Also raises the
/// errors of CompileToC.
pybind11::dict Compile(const PlannedTraining& plan, const std::string& prefix,
                       const std::string& header, bool caller_arena,
                       const std::map<std::string, pybind11::object>& weights);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_COMPILED_H_
