#ifndef STOWAGE_ONNX_FUNCTIONS_H_
#define STOWAGE_ONNX_FUNCTIONS_H_

// Functions that a file brings itself: ops made of others.
//
//   const FunctionTable functions(model);
//   if (const pb::FunctionProto* function = functions.Find(node)) {
//     for (const pb::NodeProto& inner : BodyOf(node, *function)) ...

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "onnx/onnx.pb.h"

namespace stowage::onnx {

class FunctionTable {
 public:
  /// Of `model`, which must outlive this.
  explicit FunctionTable(const pb::ModelProto& model);

  /// The function that a node calls, or null.
  const pb::FunctionProto* Find(const pb::NodeProto& node) const;

  struct WrittenOut {
    int64_t nodes = 0;
    /// A function that calls itself, by way of others too; null where none does.
    const pb::FunctionProto* recursive = nullptr;
  };
  /// How many nodes these are once the functions that they call are written out,
  /// branches that may not be taken included; `most` where they are more. Calls of a
  /// function by itself, and deeper than `depth`, count as one node. Linear in the file.
  WrittenOut CountWrittenOut(
      const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
      int64_t most, size_t depth) const;

 private:
  // By domain, name and overload.
  std::map<std::tuple<std::string, std::string, std::string>,
           const pb::FunctionProto*>
      functions_;
};

/// The nodes of a function as a call means them: with the call's attributes, or the
/// function's defaults, where the body refers to them, and without the operands that
/// the call leaves out.
google::protobuf::RepeatedPtrField<pb::NodeProto> BodyOf(
    const pb::NodeProto& call, const pb::FunctionProto& function);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_FUNCTIONS_H_
