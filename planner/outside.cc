#include "planner/outside.h"

#include "base/index.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/in_place.h"
#include "ir/uses.h"

namespace stowage {
namespace {

// Whether `output` can be made where `leaf` lies: nothing reads the leaf once
// something has been written to the output's buffer.
bool CanShare(const Graph& body, const Uses& uses, const Lifetimes& lifetimes,
              bool in_place, ValueId leaf, ValueId output) {
  const int32_t buffer = lifetimes.buffer_of[Index(output)];
  const Time first = lifetimes.buffers[Index(buffer)].lower;
  const NodeId last_use = uses.last_use(leaf);
  if (last_use < first) return true;
  if (last_use > first || !in_place) return false;
  const Node& node = body.node(static_cast<NodeId>(first));
  return lifetimes.buffer_of[Index(node.results[0])] == buffer &&
         InPlace(body, lifetimes.layouts, node)
             .MayTakeOver(lifetimes.layouts, node, leaf);
}

// Where `output` has taken over what another operand of its node lay in, and could have
// taken over `leaf` as well: leaves the former to what was there, and gives the output
// a buffer that begins with it. A sum then lies where the sum so far does, rather than
// where the latest addend was.
void PreferLeaf(const Graph& body, const Uses& uses, ValueId leaf,
                ValueId output, Lifetimes* lifetimes) {
  const auto index = Index(lifetimes->buffer_of[Index(output)]);
  const NodeId producer = body.value(output).producer;
  const Node& node = body.node(producer);
  if (lifetimes->buffers[index].lower == producer ||
      node.results[0] != output || uses.last_use(leaf) != producer ||
      !InPlace(body, lifetimes->layouts, node)
           .MayTakeOver(lifetimes->layouts, node, leaf)) {
    return;
  }
  LiveBuffer own = lifetimes->buffers[index];
  own.name = body.value(output).name;
  own.lower = producer;
  own.size = body.value(output).type.bytes();
  lifetimes->buffers[index].upper = producer + 1;
  const auto moved = static_cast<int32_t>(lifetimes->buffers.size());
  lifetimes->buffers.push_back(std::move(own));
  for (ValueId id = 0; id < body.num_values(); ++id) {
    if (lifetimes->layouts[Index(id)].root == output) {
      lifetimes->buffer_of[Index(id)] = moved;
    }
  }
}

// Takes out the buffers that no value is in any more.
void DropUnused(Lifetimes* lifetimes) {
  std::vector<bool> used(lifetimes->buffers.size(), false);
  const auto each_index = [&](const auto& visit) {
    for (int32_t& index : lifetimes->buffer_of) visit(index);
    for (int32_t& index : lifetimes->workspace_of) {
      if (index >= 0) visit(index);
    }
  };
  each_index([&](int32_t& index) { used[Index(index)] = true; });
  std::vector<int32_t> moved;
  std::vector<LiveBuffer> buffers;
  for (size_t i = 0; i < used.size(); ++i) {
    moved.push_back(static_cast<int32_t>(buffers.size()));
    if (used[i]) buffers.push_back(std::move(lifetimes->buffers[i]));
  }
  each_index([&](int32_t& index) { index = moved[Index(index)]; });
  lifetimes->buffers = std::move(buffers);
}

}  // namespace

std::vector<int32_t> MoveOutside(const Graph& body, const Node& node,
                                 bool in_place, Lifetimes* lifetimes) {
  const std::vector<ValueId> leaves = LeavesOf(body);
  const Time end = body.num_nodes() + 1;
  std::vector<int32_t> second_of;
  if (node.op == OpKind::kLoop) {
    const LoopParts loop = PartsOfLoop(node);
    const Uses uses(body, lifetimes->layouts);
    second_of.assign(loop.handed_on(), -1);
    for (size_t i = 0; i < loop.handed_on(); ++i) {
      const ValueId leaf = leaves[loop.leaf_of(i)];
      const ValueId output = body.outputs()[i].value;
      if (in_place) PreferLeaf(body, uses, leaf, output, lifetimes);
      if (CanShare(body, uses, *lifetimes, in_place, leaf, output)) {
        const int32_t from = lifetimes->buffer_of[Index(output)];
        for (int32_t& index : lifetimes->buffer_of) {
          if (index == from) index = lifetimes->buffer_of[Index(leaf)];
        }
      } else if (loop.trips > 1 || i >= loop.carried) {
        second_of[i] = 0;
      }
    }
  }
  DropUnused(lifetimes);
  const auto move = [&](ValueId id) {
    LiveBuffer& buffer =
        lifetimes->buffers[Index(lifetimes->buffer_of[Index(id)])];
    const bool is_leaf = body.value(id).is_leaf();
    const bool dies = is_leaf && buffer.region == Region::kActivations;
    buffer.region = Region::kOutside;
    if (is_leaf || node.op == OpKind::kLoop) buffer.lower = 0;
    if (!dies) buffer.upper = end;
  };
  for (const ValueId leaf : leaves) move(leaf);
  for (const GraphOutput& output : body.outputs()) move(output.value);
  for (size_t i = 0; i < second_of.size(); ++i) {
    if (second_of[i] < 0) continue;
    second_of[i] = static_cast<int32_t>(lifetimes->buffers.size());
    const ValueInfo& value = body.value(body.outputs()[i].value);
    lifetimes->buffers.push_back(
        {StrCat("second place of ", Quoted(value.name)), Region::kIo, 0, end,
         value.type.bytes()});
  }
  return second_of;
}

}  // namespace stowage
