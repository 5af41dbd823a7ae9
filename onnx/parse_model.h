#ifndef STOWAGE_ONNX_PARSE_MODEL_H_
#define STOWAGE_ONNX_PARSE_MODEL_H_

// Parses the bytes of an ONNX file within bounded memory. A message of no fields takes two
// bytes of a file and a hundred and fifty of memory, so the memory that the messages take
// is read from their arena while they are parsed, and parsing stops at the limit.
//
//   google::protobuf::Arena arena;
//   Result<pb::ModelProto*> model = ParseModel(file, path, &arena);

#include <google/protobuf/arena.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "onnx/onnx.pb.h"

namespace stowage::onnx {

/// The model, a message of `arena`, which must be new; `path` names the file in errors.
/// kInvalidArgument: `bytes` are no ModelProto, end early, or hold more messages than the
/// models of any exporter: they may take 32 times the file and 1 MiB of memory, 1 GiB at
/// most, beside texts and weights, which take their size in the file.
Result<pb::ModelProto*> ParseModel(std::string_view bytes,
                                   const std::string& path,
                                   google::protobuf::Arena* arena);

// Functions that a file brings itself: ops made of others.
//
//   const FunctionTable functions(model);
//   if (const pb::FunctionProto* function = functions.Find(node)) {
//     for (const pb::NodeProto& inner : BodyOf(node, *function)) ...

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

// Which nodes of a graph one of its values comes from: the rest is of no use to who
// wants that value alone, as a loss does of a model with several outputs.
//
//   const std::vector<bool> needed = NodesFor("logits", model.graph().node());

/// For each of `nodes`, which stand in execution order, whether `value` depends on it;
/// what the graphs within a node read counts as read by the node. Linear in the nodes.
std::vector<bool> NodesFor(
    const std::string& value,
    const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes);

/// All that the nodes among `nodes` that are `needed` may read.
std::unordered_set<std::string_view> ReadBy(
    const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
    const std::vector<bool>& needed);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_PARSE_MODEL_H_
