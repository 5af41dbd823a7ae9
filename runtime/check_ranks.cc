#include "runtime/check_ranks.h"

#include <cstdint>

#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/op_def.h"

namespace stowage {

Status CheckRanks(const Graph& graph, const JoinedRanks& joined) {
  for (const Node& node : graph.nodes()) {
    for (const auto& body : BodiesOf(node)) {
      STOWAGE_RETURN_IF_ERROR(CheckRanks(*body, joined));
    }
    if (!GetOpDef(node.op).collective) continue;
    const int64_t wanted = node.attrs.Int("ranks");
    if (wanted == joined.ranks) continue;
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[", joined.room, "] ", OpName(node.op), " of ",
               Quoted(graph.value(node.results[0]).name), " is among ", wanted,
               " ranks; the backend joins ", joined.ranks,
               "; build the step for as many ranks as there are, and give the "
               "backend what joins them (",
               joined.given, ")")};
  }
  return {};
}

}  // namespace stowage
