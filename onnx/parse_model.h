#ifndef STOWAGE_ONNX_PARSE_MODEL_H_
#define STOWAGE_ONNX_PARSE_MODEL_H_

// Parses a file before its nodes are converted. Provides parsing in bounded memory, the functions
// that the file defines, the nodes that an output needs, operator sets, and unknown ops.
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
/// Returns kInvalidArgument if `bytes` are not a ModelProto, are truncated, or contain too many
/// messages. An empty message takes two bytes of a file and 150 bytes of memory, so messages, other
/// than strings and weights, are limited to 32 times the file's size plus 1 MiB, and to 1 GiB.
Result<pb::ModelProto*> ParseModel(std::string_view bytes,
                                   const std::string& path,
                                   google::protobuf::Arena* arena);

/// The functions that a file defines, which are ops composed of other ops.
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
    /// A function that calls itself, directly or indirectly, or null.
    const pb::FunctionProto* recursive = nullptr;
  };
  /// Returns the number of nodes after inlining functions, at most `most`. All branches count,
  /// including branches that may not be executed. Recursive calls, and calls nested deeper than
  /// `depth`, count as one node. Linear in the size of the file.
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
/// values or the function's defaults, and operands that the call omits are removed.
google::protobuf::RepeatedPtrField<pb::NodeProto> BodyOf(
    const pb::NodeProto& call, const pb::FunctionProto& function);

/// Returns for each of `nodes`, which are in execution order, whether `value` depends on it. A node
/// also reads the values that its subgraphs read. Linear in the number of nodes.
std::vector<bool> NodesFor(
    const std::string& value,
    const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes);

/// Returns all values that the `needed` nodes may read.
std::unordered_set<std::string_view> ReadBy(
    const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
    const std::vector<bool>& needed);

/// Returns all values that a node of the model, of its subgraphs or of its functions may read, and
/// the outputs of these graphs. No node reads other results. The strings belong to `model`.
std::unordered_set<std::string_view> ReadIn(const pb::ModelProto& model);

/// The versions of the operator sets that a file imports, by domain. ONNX's own domain is "".
using Opsets = std::map<std::string, int64_t>;

/// Returns whether it is ONNX's own domain, "" or "ai.onnx".
bool IsOnnxDomain(std::string_view domain);

Opsets OpsetsOf(
    const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>& imports);

/// Returns kUnsupported for an unsupported version of ONNX's own operator set.
Status CheckOpset(const Opsets& opsets);

/// Unknown ops and their numbers of nodes. An op is identified by its name with the domain, or with
/// the operator set that changed it.
using MissingOps = std::map<std::string, int>;

/// Returns the name of the op of `node` in MissingOps, or "" if it is known.
std::string MissingName(const pb::NodeProto& node, const Opsets& opsets,
                        const FunctionTable& functions);

/// Returns all unknown ops of the model's graph, its subgraphs and functions.
MissingOps FindMissingOps(const pb::ModelProto& model,
                          const FunctionTable& functions);

std::string ToText(const MissingOps& missing);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_PARSE_MODEL_H_
