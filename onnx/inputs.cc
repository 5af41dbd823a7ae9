#include "onnx/inputs.h"

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/strings.h"
#include "ir/dtype.h"
#include "onnx/tensor.h"
#include "onnx/weights.h"

namespace stowage::onnx {
namespace {

Error Wrong(std::string message) {
  return {ErrorCode::kInvalidArgument, StrCat("[onnx] ", message)};
}
Error Unsupported(std::string message) {
  return {ErrorCode::kUnsupported, StrCat("[onnx] ", message)};
}

}  // namespace

std::string NameInGraph(const std::string& name,
                        const std::unordered_set<std::string>& tensors,
                        const OnnxBuildOptions& options) {
  if (!options.loss) return name;
  const bool is_free = !IsNameOfStep(name) && name != options.loss->labels &&
                       !MayNameState(name, tensors);
  return is_free ? name : StrCat(name, ".2");
}

Result<Shape> ShapeOfInput(const OnnxInput& input,
                           const OnnxBuildOptions& options) {
  const auto given = options.shapes.find(input.name);
  Shape shape;
  if (given != options.shapes.end()) {
    shape = Shape(std::span<const int64_t>(given->second));
    if (given->second.size() != input.dims.size()) {
      return Wrong(StrCat("the shape ", shape.ToString(), " for input ",
                          Quoted(input.name), " has ", given->second.size(),
                          " dimensions; the file declares ",
                          input.dims.size()));
    }
    return shape;
  }
  for (size_t i = 0; i < input.dims.size(); ++i) {
    const OnnxDim& dim = input.dims[i];
    const auto known = options.dims.find(dim.symbol);
    if (dim.size > 0) {
      shape.push_back(dim.size);
    } else if (!dim.symbol.empty() && known != options.dims.end()) {
      shape.push_back(known->second);
    } else {
      return Wrong(
          StrCat("dimension ", i, " of input ", Quoted(input.name), " is ",
                 dim.symbol.empty() ? "not told"
                                    : StrCat("called ", Quoted(dim.symbol)),
                 "; give its size (--dim ",
                 dim.symbol.empty() ? "" : StrCat(dim.symbol, "=N, or "),
                 "--shape ", input.name, "=...)"));
    }
  }
  return shape;
}

Status CheckOptions(const std::vector<OnnxInput>& inputs,
                    const OnnxBuildOptions& options) {
  std::set<std::string> names, symbols;
  for (const OnnxInput& input : inputs) {
    names.insert(input.name);
    for (const OnnxDim& dim : input.dims) {
      if (!dim.symbol.empty()) symbols.insert(dim.symbol);
    }
  }
  const auto list = [](const std::set<std::string>& all) {
    std::string text;
    for (const std::string& name : all) {
      text += StrCat(text.empty() ? "" : ", ", Quoted(name));
    }
    return text.empty() ? std::string("none") : text;
  };
  for (const auto& [name, shape] : options.shapes) {
    if (!names.contains(name)) {
      return Wrong(StrCat("a shape is given for ", Quoted(name),
                          ", which is no input; there are ", list(names)));
    }
  }
  for (const auto& [name, array] : options.constants) {
    if (!names.contains(name)) {
      return Wrong(StrCat("a value is given for ", Quoted(name),
                          ", which is no input; there are ", list(names)));
    }
  }
  for (const auto& [name, size] : options.dims) {
    if (!symbols.contains(name)) {
      return Wrong(StrCat("a size is given for the dimension ", Quoted(name),
                          ", which no input has; there are ", list(symbols)));
    }
  }
  return {};
}

Result<std::vector<OnnxInput>> InputsOf(const pb::ModelProto& model) {
  std::set<std::string> held;
  for (const pb::TensorProto& tensor : model.graph().initializer()) {
    held.insert(tensor.name());
  }
  std::vector<OnnxInput> inputs;
  for (const pb::ValueInfoProto& info : model.graph().input()) {
    // Up to IR version 3 the file's tensors are inputs, too.
    if (held.contains(info.name())) continue;
    if (!info.type().has_tensor_type()) {
      return Unsupported(
          StrCat("input ", Quoted(info.name()), " is no dense tensor"));
    }
    OnnxInput input{.name = info.name()};
    const Result<DType> dtype =
        DTypeOfElement(info.type().tensor_type().elem_type());
    if (!dtype.ok()) {
      return Unsupported(
          StrCat("input ", Quoted(info.name()), ": ", dtype.error().message));
    }
    input.dtype = *dtype;
    for (const auto& dim : info.type().tensor_type().shape().dim()) {
      input.dims.push_back({dim.has_dim_value() ? dim.dim_value() : 0,
                            dim.has_dim_param() ? dim.dim_param() : ""});
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace stowage::onnx
