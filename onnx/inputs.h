#ifndef STOWAGE_ONNX_INPUTS_H_
#define STOWAGE_ONNX_INPUTS_H_

// The inputs of a model, and the shapes that they are given.
//
//   Result<std::vector<OnnxInput>> inputs = InputsOf(model);
//   Status asked = CheckOptions(*inputs, options);
//   Result<Shape> shape = ShapeOfInput((*inputs)[0], options);

#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "ir/shape.h"
#include "onnx/build_options.h"
#include "onnx/onnx.pb.h"

namespace stowage::onnx {

/// The inputs of the model that are no tensors of the file. Errors: one that is no
/// tensor, or of a type that is not supported.
Result<std::vector<OnnxInput>> InputsOf(const pb::ModelProto& model);

/// That what is given by name, sizes, shapes and values, is for inputs that are there.
Status CheckOptions(const std::vector<OnnxInput>& inputs,
                    const OnnxBuildOptions& options);

/// The shape of an input: what is given for it, else what the file says, with sizes for
/// dimensions that have a name there. Errors: a size that is not known; a given shape of
/// another rank.
Result<Shape> ShapeOfInput(const OnnxInput& input,
                           const OnnxBuildOptions& options);

/// What a value of the file is called in the graph: "lr.2", say, where there is a loss and
/// its step has a value of its own of that name (onnx/weights.h; the labels), or may give
/// it to a state of one of `tensors`.
std::string NameInGraph(const std::string& name,
                        const std::unordered_set<std::string>& tensors,
                        const OnnxBuildOptions& options);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_INPUTS_H_
