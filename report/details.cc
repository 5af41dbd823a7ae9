#include "report/details.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "ir/layout.h"
#include "ir/rewrite.h"
#include "ir/uses.h"
#include "planner/lifetimes.h"

namespace stowage {
namespace {

BufferKind KindOfValue(const Graph& graph, const Uses& uses, ValueId id) {
  const ValueInfo& value = graph.value(id);
  if (value.role == Role::kSaved) return BufferKind::kSaved;
  if (value.role == Role::kGradient) return BufferKind::kGradients;
  if (value.name.find(kRunAgainSuffix) != std::string::npos) {
    return BufferKind::kRemade;
  }
  const bool is_read_later = !uses.later_readers(id).empty();
  if (value.is_leaf()) {
    return is_read_later ? BufferKind::kSaved : BufferKind::kTemporary;
  }
  const Node& producer = graph.node(value.producer);
  const bool is_fetched = producer.op == OpKind::kFetch;
  switch (producer.phase) {
    case Phase::kForward:
      return is_read_later ? BufferKind::kSaved : BufferKind::kTemporary;
    case Phase::kBackward:
      return is_fetched ? BufferKind::kSaved : BufferKind::kGradients;
    case Phase::kUpdate:
      return is_fetched ? BufferKind::kState : BufferKind::kTemporary;
  }
  STOWAGE_CHECK(false);
}

// Of the values that take over a buffer one from another, the one that has it for
// the longest.
ValueId LongestIn(const Graph& graph, std::span<const ValueId> values,
                  Time upper) {
  ValueId longest = values.front();
  Time most = -1;
  for (size_t i = 0; i < values.size(); ++i) {
    const Time end = i + 1 < values.size()
                         ? Time{graph.value(values[i + 1]).producer}
                         : upper;
    const Time length = end - graph.value(values[i]).producer;
    if (length <= most) continue;
    most = length;
    longest = values[i];
  }
  return longest;
}

BufferKind KindOfBuffer(const Graph& graph, const Uses& uses,
                        const PlannedBuffer& buffer,
                        std::span<const ValueId> values) {
  switch (buffer.region) {
    case Region::kWeights:
      return BufferKind::kWeights;
    case Region::kState:
      return BufferKind::kState;
    case Region::kIo:
      return BufferKind::kInputs;
    case Region::kWorkspace:
      return BufferKind::kScratch;
    case Region::kHostState:
    case Region::kHostStash:
    case Region::kOutside:
      return BufferKind::kHost;
    case Region::kActivations:
      break;
  }
  if (values.empty()) return BufferKind::kTemporary;
  return KindOfValue(graph, uses, LongestIn(graph, values, buffer.upper));
}

}  // namespace

std::string_view BufferKindName(BufferKind kind) {
  switch (kind) {
    case BufferKind::kWeights:
      return "weights";
    case BufferKind::kState:
      return "state";
    case BufferKind::kInputs:
      return "inputs";
    case BufferKind::kSaved:
      return "saved";
    case BufferKind::kGradients:
      return "gradients";
    case BufferKind::kRemade:
      return "remade";
    case BufferKind::kTemporary:
      return "temporary";
    case BufferKind::kScratch:
      return "scratch";
    case BufferKind::kHost:
      return "host";
  }
  STOWAGE_CHECK(false);
}

std::vector<BufferDetails> MakeDetails(const Graph& graph, const Plan& plan) {
  const Layouts layouts = ComputeLayouts(graph);
  const Uses uses(graph, layouts);
  std::vector<std::vector<ValueId>> values(plan.buffers.size());
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const auto v = static_cast<size_t>(id);
    if (layouts[v].root != id) continue;
    values[static_cast<size_t>(plan.buffer_of[v])].push_back(id);
  }
  std::vector<BufferDetails> details(plan.buffers.size());
  for (size_t b = 0; b < details.size(); ++b) {
    details[b].kind = KindOfBuffer(graph, uses, plan.buffers[b], values[b]);
    std::vector<NodeId>& readers = details[b].readers;
    for (const ValueId id : values[b]) {
      const ValueInfo& value = graph.value(id);
      details[b].values.push_back({.name = value.name,
                                   .type = value.type.ToString(),
                                   .made = value.producer,
                                   .source = value.source});
      const std::span<const NodeId> more = uses.readers(id);
      readers.insert(readers.end(), more.begin(), more.end());
    }
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  }
  for (const auto* scratch_of : {&plan.workspace_of, &plan.host_workspace_of}) {
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const int32_t scratch = (*scratch_of)[static_cast<size_t>(id)];
      if (scratch < 0) continue;
      details[static_cast<size_t>(scratch)].readers.push_back(id);
    }
  }
  return details;
}

}  // namespace stowage
