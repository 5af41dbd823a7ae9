#ifndef STOWAGE_ONNX_NEEDED_NODES_H_
#define STOWAGE_ONNX_NEEDED_NODES_H_

// Which nodes of a graph one of its values comes from: the rest is of no use to who
// wants that value alone, as a loss does of a model with several outputs.
//
//   const std::vector<bool> needed = NodesFor("logits", model.graph().node());

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "onnx/onnx.pb.h"

namespace stowage::onnx {

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

#endif  // STOWAGE_ONNX_NEEDED_NODES_H_
