#ifndef STOWAGE_ONNX_IMPORT_H_
#define STOWAGE_ONNX_IMPORT_H_

// A parsed file as a graph: names are looked up, functions and branches that are known
// are written out, each node is folded or converted (onnx/fold.h, onnx/ops.h).
//
//   Result<Graph> graph = Import(model, "models/resnet18.onnx", options);

#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "onnx/build_options.h"
#include "onnx/onnx.pb.h"

namespace stowage::onnx {

/// The inputs of the model that are no tensors of the file. Errors: one that is no
/// tensor, or of a type that is not supported.
Result<std::vector<OnnxInput>> InputsOf(const pb::ModelProto& model);

/// See OnnxModel::Build. `path` is where the file lies.
Result<Graph> Import(const pb::ModelProto& model, const std::string& path,
                     const OnnxBuildOptions& options);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_IMPORT_H_
