#ifndef STOWAGE_ONNX_IMPORT_H_
#define STOWAGE_ONNX_IMPORT_H_

// A parsed file as a graph: its inputs, its nodes (onnx/node_importer.h), and its outputs
// or a loss of one.
//
//   Result<Graph> graph = Import(model, "models/resnet18.onnx", options);

#include <string>

#include "base/result.h"
#include "ir/graph.h"
#include "onnx/build_options.h"
#include "onnx/onnx.pb.h"

namespace stowage::onnx {

/// See OnnxModel::Build. `path` is where the file lies.
Result<Graph> Import(const pb::ModelProto& model, const std::string& path,
                     const OnnxBuildOptions& options);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_IMPORT_H_
