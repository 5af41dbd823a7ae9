#ifndef STOWAGE_ONNX_ONNX_H_
#define STOWAGE_ONNX_ONNX_H_

// The package's umbrella header: models of ONNX files.
//
//   Result<OnnxModel> model = ReadOnnx("resnet18.onnx");

#include "onnx/onnx_model.h"  // IWYU pragma: export
#include "onnx/onnx_step.h"   // IWYU pragma: export

#endif  // STOWAGE_ONNX_ONNX_H_
