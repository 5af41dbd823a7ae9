#ifndef STOWAGE_PYTHON_COMPILED_H_
#define STOWAGE_PYTHON_COMPILED_H_

// Plans of steps in C (compile/compile.h), the device "c" of `stowage.plan`, and the files that
// Plan.to_c writes.
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

/// The requirements of the device "c". Raises InvalidArgument for threads or a CPU target.
DeviceNeeds NeedsOfDeviceC(int threads, const std::string& cpu_target);

/// Whether these are its requirements.
bool IsC(const DeviceNeeds& needs);

/// `spec` with slots aligned for C and the model's evaluation as the only program beside the
/// step. Frozen params take nothing of the arena: they are constants of the file. Errors: those
/// of TrainingPlanner::Make and of the model.
Result<TrainingSpec> SpecOfC(TrainingSpec spec);

/// The source and the header, and their figures, by name. Params and states start from
/// `weights`, else from the model's ONNX file, else from their Init. Raises InvalidArgument for
/// a plan of another device, and for weights that are no param or state or of another shape;
/// WrongDType; and the errors of CompileToC.
pybind11::dict Compile(const PlannedTraining& plan, const std::string& prefix,
                       const std::string& header, bool caller_arena,
                       const std::map<std::string, pybind11::object>& weights);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_COMPILED_H_
