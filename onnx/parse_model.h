#ifndef STOWAGE_ONNX_PARSE_MODEL_H_
#define STOWAGE_ONNX_PARSE_MODEL_H_

// Parses a file in bounded memory, and analyzes it before its nodes are converted. Finds the
// functions that the file defines, the nodes on which an output depends, the operator sets, and
// unknown ops.
//
//   google::protobuf::Arena arena;
//   Result<pb::ModelProto*> model = ParseModel(file, path, &arena);
//   const FunctionTable functions(**model);
//   const Opsets opsets = OpsetsOf((*model)->opset_import());
//   const std::vector<bool> needed = NodesFor("logits", (*model)->graph().node());
//   ToText(FindMissingOps(**model, functions))   // "com.microsoft.Attention (12 nodes)"

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

/// Parses `bytes` to a message of `arena`, which must be new. `path` names the file in errors.
/// Returns kInvalidArgument if `bytes` are not a ModelProto, are truncated, have 2 GiB or more, or
/// contain too many messages. An empty message takes two bytes in a file but 150 bytes of memory.
/// Therefore the memory of messages, without strings and weights, is limited to 32 times the file's
/// size plus 1 MiB, and to 1 GiB.
Result<pb::ModelProto*> ParseModel(std::string_view bytes,
                                   const std::string& path,
                                   google::protobuf::Arena* arena);

/// The functions that a file defines. A function is an op that is composed of other ops.
///
///   const FunctionTable functions(model);
///   if (const pb::FunctionProto* function = functions.Find(node)) {
///     for (const pb::NodeProto& inner : BodyOf(node, *function)) ...
class FunctionTable {
 public:
  /// `model` must outlive this object.
  explicit FunctionTable(const pb::ModelProto& model);

  /// Returns the function that a node calls, or null.
  const pb::FunctionProto* Find(const pb::NodeProto& node) const;

  struct WrittenOut {
    int64_t nodes = 0;
    /// A function that calls itself, directly or indirectly. Null if there is none.
    const pb::FunctionProto* recursive = nullptr;
  };
  /// Returns an upper bound of the number of nodes after inlining functions, but at most `most`.
  /// Counts calls in addition to the nodes of the called functions, and all branches, including
  /// branches that are not executed. A recursive call, and a call within `depth` others, count as
  /// one node. Linear in the size of the file.
  WrittenOut CountWrittenOut(
      const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
      int64_t most, size_t depth) const;

 private:
  // Keyed by domain, name and overload.
  std::map<std::tuple<std::string, std::string, std::string>,
           const pb::FunctionProto*>
      functions_;
};

/// Returns the nodes of a function for a call. References to attributes are replaced by the call's
/// values or the function's defaults, or removed if there is neither. Names of operands that the
/// call omits are replaced by "".
google::protobuf::RepeatedPtrField<pb::NodeProto> BodyOf(
    const pb::NodeProto& call, const pb::FunctionProto& function);

/// Returns for each of `nodes` whether `value` depends on it. `nodes` must be in execution order. A
/// node also depends on the values that its subgraphs read. Linear in the number of nodes.
std::vector<bool> NodesFor(
    const std::string& value,
    const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes);

/// Returns the names of all values that the nodes for which `needed` is true, or their subgraphs,
/// may read.
std::unordered_set<std::string_view> ReadBy(
    const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
    const std::vector<bool>& needed);

/// Returns the names of all values that a node of the model, of its subgraphs or of its functions
/// may read, and of the outputs of subgraphs and functions. Other results are not read. The model's
/// own outputs are included. The strings belong to `model`.
std::unordered_set<std::string_view> ReadIn(const pb::ModelProto& model);

/// The versions of the operator sets that a file imports, by domain. ONNX's own domain is "".
using Opsets = std::map<std::string, int64_t>;

/// Returns whether `domain` is ONNX's own domain, which is called "" or "ai.onnx".
bool IsOnnxDomain(std::string_view domain);

/// Returns the versions in `imports`. If a domain is repeated, the last version counts.
Opsets OpsetsOf(
    const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>& imports);

/// Returns kUnsupported if `opsets` contains an unsupported version of ONNX's own operator set.
Status CheckOpset(const Opsets& opsets);

/// The numbers of nodes of unknown ops, by op. An op of another domain is called "DOMAIN.NAME". An
/// op of ONNX's own domain is called "NAME", or "NAME of operator set N" if only its definition in
/// the file's operator set is not supported.
using MissingOps = std::map<std::string, int>;

/// Returns the name in MissingOps of the op of `node`, or "" if the op is known or is a function of
/// the file.
std::string MissingName(const pb::NodeProto& node, const Opsets& opsets,
                        const FunctionTable& functions);

/// Returns all unknown ops in the model's graph, its subgraphs and its functions, called or not.
MissingOps FindMissingOps(const pb::ModelProto& model,
                          const FunctionTable& functions);

/// Returns a list for messages, such as "Celu (1 node), com.microsoft.Attention (12 nodes)".
std::string ToText(const MissingOps& missing);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_PARSE_MODEL_H_
