#include "planner/fit/offload/offload.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/attrs.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/uses.h"
#include "planner/fit/cost.h"
#include "planner/lifetimes.h"

namespace stowage::fit {

namespace {

// Forward values so many times smaller than the largest are not worth a copy.
constexpr Bytes kMuchSmaller = 1000;

// The nodes among `readers` since whose last one a node has made something of at least
// so many bytes: a value that comes back for the first had better not wait for them.
std::vector<NodeId> FarApart(const Graph& graph,
                             std::span<const NodeId> readers, Bytes bytes) {
  std::vector<NodeId> far;
  for (size_t k = 1; k < readers.size(); ++k) {
    for (NodeId n = readers[k - 1] + 1; n < readers[k]; ++n) {
      const Node& between = graph.node(n);
      if (GetOpDef(between.op).is_view() ||
          std::ranges::none_of(between.results, [&](ValueId result) {
            return graph.value(result).type.bytes() >= bytes;
          })) {
        continue;
      }
      far.push_back(readers[k]);
      break;
    }
  }
  return far;
}

// What `count` says of the nodes in a body of `node`, in all its iterations; of several bodies,
// where it says most.
template <typename CountFn>
auto InBodies(const Node& node, const CountFn& count) {
  decltype(count(Graph(), node)) most = 0;
  for (const auto& body : BodiesOf(node)) {
    decltype(most) sum = 0;
    for (const Node& inner : body->nodes()) sum += count(*body, inner);
    most = std::max(most, sum);
  }
  return static_cast<decltype(most)>(IterationsOf(node)) * most;
}

class CopyMover {
 public:
  CopyMover(const Graph& from, std::span<const Offloadable> moved)
      : from_(from),
        moved_(moved),
        layouts_(ComputeLayouts(from)),
        to_(from.name()),
        now_(Index(from.num_values())),
        offloaded_(Index(from.num_values())),
        views_of_(Index(from.num_values())) {}

  Result<Graph> Move(std::span<NodeId> places);

 private:
  std::string Fresh(const std::string& of, std::string_view suffix) const;
  Value Copy(OpKind op, std::vector<Value> operands, const std::string& of,
             std::string_view suffix);
  Value Read(ValueId id);
  SourceLoc SourceOf(const Node& node) const {
    return from_.value(node.results.front()).source;
  }
  void Run(NodeId id);
  ValueId ContentOf(ValueId leaf, const Node& update) const;

  const Graph& from_;
  const std::span<const Offloadable> moved_;
  const Layouts layouts_;
  GraphBuilder to_;
  std::vector<Value> now_;  // per value: what its readers read; inert: not yet
  std::vector<Value> offloaded_;  // per value: what of it lies on the host
  std::vector<std::vector<ValueId>> views_of_;  // per root
};

std::string CopyMover::Fresh(const std::string& of,
                             std::string_view suffix) const {
  const std::string stem = StrCat(of, suffix);
  std::string name = stem;
  for (int i = 2; to_.graph().Find(name) || from_.Find(name); ++i) {
    name = StrCat(stem, i);
  }
  return name;
}

Value CopyMover::Copy(OpKind op, std::vector<Value> operands,
                      const std::string& of, std::string_view suffix) {
  const std::string name = Fresh(of, suffix);
  return to_.EmitNamed(op, operands, {}, std::span(&name, 1))[0];
}

// The value as it is by now. A view is taken when somebody wants it: its root
// may have been reloaded since it was taken last.
Value CopyMover::Read(ValueId id) {
  if (!now_[Index(id)].ok() && !to_.error()) Run(from_.value(id).producer);
  return now_[Index(id)];
}

void CopyMover::Run(NodeId id) {
  const Node& node = from_.node(id);
  std::vector<Value> operands;
  for (const ValueId input : node.inputs) operands.push_back(Read(input));
  std::vector<std::string> names;
  for (const ValueId result : node.results) {
    const std::string& name = from_.value(result).name;
    names.push_back(to_.Find(name) ? Fresh(name, "~reloaded") : name);
  }
  to_.SetOrigin(node.phase, node.origin, SourceOf(node));
  std::vector<Value> results =
      to_.EmitNamed(node.op, operands, node.attrs, names);
  results.resize(node.results.size());  // after an error there may be more
  const auto updates = static_cast<size_t>(GetOpDef(node.op).updates);
  for (size_t r = 0; r < node.results.size(); ++r) {
    const Role role = from_.value(node.results[r]).role;
    now_[Index(node.results[r])] = results[r];
    // Outputs become outputs where they are declared as such.
    if (r >= updates) {
      to_.SetRole(results[r], role == Role::kOutput ? Role::kActivation : role);
    }
  }
}

// What `update` has made of the param or state.
ValueId CopyMover::ContentOf(ValueId leaf, const Node& update) const {
  return *std::ranges::find_if(update.results, [&](ValueId result) {
    return layouts_[Index(result)].root == leaf;
  });
}

Result<Graph> CopyMover::Move(std::span<NodeId> places) {
  std::vector<std::vector<const Offloadable*>> before(
      Index(from_.num_nodes()));  // what is reloaded before a node
  std::vector<std::vector<const Offloadable*>> after(Index(from_.num_nodes()));
  std::vector<uint8_t> on_host(Index(from_.num_values()), 0);
  for (const Offloadable& moved : moved_) {
    before[Index(moved.to)].push_back(&moved);
    for (const NodeId reader : moved.again) {
      before[Index(reader)].push_back(&moved);
    }
    const NodeId last = moved.persists() ? moved.updated : moved.from;
    if (last != kNoNode) after[Index(last)].push_back(&moved);
    on_host[Index(moved.value)] = moved.persists();
  }
  for (ValueId id = 0; id < from_.num_values(); ++id) {
    const ValueId root = layouts_[Index(id)].root;
    if (root != id) views_of_[Index(root)].push_back(id);
    if (!from_.value(id).is_leaf()) continue;
    ValueInfo leaf = from_.value(id);
    if (on_host[Index(id)] != 0) leaf.on_host = true;
    (on_host[Index(id)] != 0 ? offloaded_ : now_)[Index(id)] =
        to_.LeafLike(leaf);
  }
  std::vector<uint8_t> is_output(Index(from_.num_values()), 0);
  for (const GraphOutput& output : from_.outputs()) {
    is_output[Index(output.value)] = 1;
  }
  std::vector<NodeId> begins(Index(from_.num_nodes()));
  for (NodeId n = 0; n < from_.num_nodes(); ++n) {
    begins[Index(n)] = to_.graph().num_nodes();
    const Node& node = from_.node(n);
    for (const Offloadable* moved : before[Index(n)]) {
      to_.SetOrigin(node.phase, node.origin, SourceOf(node));
      now_[Index(moved->value)] =
          Copy(OpKind::kReload, {offloaded_[Index(moved->value)]},
               from_.value(moved->value).name, "~reloaded");
      for (const ValueId view : views_of_[Index(moved->value)]) {
        now_[Index(view)] = Value();
      }
    }
    const bool waits = GetOpDef(node.op).is_view() &&
                       std::ranges::none_of(node.results, [&](ValueId result) {
                         return is_output[Index(result)] != 0;
                       });
    if (!waits) Run(n);
    for (const Offloadable* moved : after[Index(n)]) {
      to_.SetOrigin(node.phase, node.origin, SourceOf(node));
      Value& offloaded = offloaded_[Index(moved->value)];
      const std::string& name = from_.value(moved->value).name;
      offloaded = moved->persists()
                      ? Copy(OpKind::kOffloadUpdate,
                             {offloaded, Read(ContentOf(moved->value, node))},
                             name, "~offloaded")
                      : Copy(OpKind::kOffload, {Read(moved->value)}, name,
                             "~offloaded");
    }
  }
  for (const GraphOutput& output : from_.outputs()) {
    to_.Output(output.name, Read(output.value));
  }
  for (NodeId& place : places) place = begins[Index(place)];
  return to_.Finish();
}

}  // namespace

std::vector<Offloadable> FindOffloadable(const Graph& graph) {
  const Layouts layouts = ComputeLayouts(graph);
  const Uses uses(graph, layouts);
  std::vector<Offloadable> states, values;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& value = graph.value(id);
    if (layouts[Index(id)].root != id || value.on_host || uses.is_output(id)) {
      continue;
    }
    if (value.is_leaf()) {
      // One that a single node reads, and writes anew.
      const NodeId update = uses.overwriter(id);
      if (value.role != Role::kState || update == kNoNode ||
          uses.uses(id).size() != 1) {
        continue;
      }
      states.push_back({.value = id,
                        .bytes = value.type.bytes(),
                        .to = update,
                        .updated = update});
      continue;
    }
    const std::span<const NodeId> forward = uses.forward_readers(id);
    const std::span<const NodeId> later = uses.later_readers(id);
    // Nor what is reloaded already, as a state is, or written anew: a copy of it would be of
    // what it was.
    const Node& producer = graph.node(value.producer);
    if (producer.phase != Phase::kForward || later.empty() ||
        value.role == Role::kConstant || producer.op == OpKind::kReload ||
        uses.overwriter(id) != kNoNode) {
      continue;
    }
    const NodeId from = forward.empty() ? value.producer : forward.back();
    if (later.front() <= from + 1) continue;
    values.push_back({.value = id,
                      .bytes = value.type.bytes(),
                      .from = from,
                      .to = later.front(),
                      .again = FarApart(graph, later, value.type.bytes())});
  }
  std::ranges::stable_sort(states, std::ranges::greater(), &Offloadable::bytes);
  std::ranges::stable_sort(values, std::ranges::greater(),
                           [](const Offloadable& v) { return v.to - v.from; });
  const auto largest =
      std::ranges::max_element(values, {}, &Offloadable::bytes);
  const Bytes least = values.empty() ? 0 : largest->bytes / kMuchSmaller;
  std::ranges::copy_if(values, std::back_inserter(states),
                       [&](const Offloadable& v) { return v.bytes >= least; });
  return states;
}

namespace {

// Whether, since one reader of a param of so many bytes and before the next, nodes make, or
// read of other params, as many bytes.
bool IsFar(const Graph& graph, const Layouts& layouts, NodeId one, NodeId next,
           Bytes bytes) {
  Bytes between = 0;
  for (NodeId n = one + 1; n < next && between < bytes; ++n) {
    const Node& node = graph.node(n);
    if (GetOpDef(node.op).is_view()) continue;
    for (const ValueId result : node.results) {
      between += graph.value(result).type.bytes();
    }
    for (const ValueId input : node.inputs) {
      const ValueInfo& root = graph.value(layouts[Index(input)].root);
      if (root.is_leaf() && root.role == Role::kParam) {
        between += root.type.bytes();
      }
    }
  }
  return between >= bytes;
}

// How `param` is moved; no reader: nothing reads it, or not only before its update.
Offloadable MoveOfParam(const Graph& graph, const Layouts& layouts,
                        const Uses& uses, ValueId param) {
  const NodeId update = uses.overwriter(param);
  const std::span<const NodeId> readers = uses.readers(param);
  Offloadable moved = {.value = param,
                       .bytes = graph.value(param).type.bytes(),
                       .updated = update};
  const bool ends_with_update =
      update == kNoNode || (!readers.empty() && readers.back() == update);
  if (readers.empty() || uses.is_output(param) || !ends_with_update) {
    return moved;
  }
  moved.to = readers.front();
  for (size_t k = 1; k < readers.size(); ++k) {
    const NodeId reader = readers[k];
    const bool was_forward =
        graph.node(readers[k - 1]).phase == Phase::kForward;
    const bool is_forward = graph.node(reader).phase == Phase::kForward;
    const bool is_far =
        IsFar(graph, layouts, readers[k - 1], reader, moved.bytes);
    // A forward reader after one of backward is of the next micro-batch.
    const bool always =
        reader == update || (is_forward && (is_far || !was_forward));
    if (always) moved.always.push_back(reader);
    if (always || is_far) moved.again.push_back(reader);
  }
  return moved;
}

}  // namespace

std::vector<Offloadable> FindOffloadableParams(const Graph& graph,
                                               bool trained) {
  const Layouts layouts = ComputeLayouts(graph);
  const Uses uses(graph, layouts);
  std::vector<Offloadable> params;
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    if (graph.value(id).on_host) continue;
    if (!trained && uses.overwriter(id) != kNoNode) continue;
    Offloadable moved = MoveOfParam(graph, layouts, uses, id);
    if (moved.to != kNoNode) params.push_back(std::move(moved));
  }
  std::ranges::stable_sort(params, std::ranges::greater(), &Offloadable::bytes);
  return params;
}

Result<Graph> Offload(const Graph& graph, std::span<const Offloadable> moved,
                      std::span<NodeId> places) {
  return CopyMover(graph, moved).Move(places);
}

Bytes BytesCopied(const Graph& graph, const Node& node) {
  if (node.op == OpKind::kReload || node.op == OpKind::kOffload ||
      node.op == OpKind::kOffloadUpdate) {
    return graph.value(node.results[0]).type.bytes();
  }
  return InBodies(node, BytesCopied);
}

int ValuesOffloaded(const Node& node) {
  if (node.op == OpKind::kOffload) return 1;
  return InBodies(node, [](const Graph&, const Node& inner) {
    return ValuesOffloaded(inner);
  });
}

HostUse FindHostUse(const Graph& graph) {
  HostUse use;
  for (const ValueInfo& value : graph.values()) {
    use.values += value.is_leaf() && value.on_host;
  }
  for (const Node& node : graph.nodes()) {
    use.values += ValuesOffloaded(node);
    use.bytes_per_step += BytesCopied(graph, node);
  }
  return use;
}

namespace {

bool WaitsIn(const Graph& body) {
  if (HoldsCollectives(body)) return false;
  return !FindOffloadable(body).empty() || WaitsInBodies(body);
}

Result<Graph> OffloadInBody(const Graph& body) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph inside, OffloadInBodies(body));
  return Offload(inside, FindOffloadable(inside));
}

}  // namespace

bool WaitsInBodies(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return std::ranges::any_of(BodiesOf(node),
                               [](const auto& body) { return WaitsIn(*body); });
  });
}

Result<Graph> OffloadInBodies(const Graph& graph) {
  if (!WaitsInBodies(graph)) return graph;
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  copy.DeclareLeaves();
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const Node& node = graph.node(n);
    Attrs attrs = node.attrs;
    SubGraphs bodies;
    for (const auto& body : BodiesOf(node)) {
      bodies.push_back(body);
      if (!WaitsIn(*body)) continue;
      STOWAGE_ASSIGN_OR_RETURN(Graph moved, OffloadInBody(*body));
      bodies.back() = std::make_shared<const Graph>(std::move(moved));
    }
    if (!bodies.empty()) attrs.Set("bodies", std::move(bodies));
    copy.CopyNode(n, attrs);
  }
  copy.DeclareOutputs();
  return g.Finish();
}

namespace {

// The last of `users`, of the state `root`, that updates it.
NodeId LastUpdate(const Graph& graph, const Layouts& layouts,
                  std::span<const NodeId> users, ValueId root) {
  NodeId last = kNoNode;
  for (const NodeId id : users) {
    const Node& node = graph.node(id);
    for (size_t r = 0; r < Index(GetOpDef(node.op).updates); ++r) {
      if (layouts[Index(node.inputs[r])].root == root) last = id;
    }
  }
  return last;
}

}  // namespace

Result<Graph> MoveGiven(const Graph& graph, const WeightLayout& layout,
                        std::span<NodeId> places) {
  if (layout.on_host().empty()) return graph;
  const Layouts layouts = ComputeLayouts(graph);
  const Uses uses(graph, layouts);
  std::vector<Offloadable> moved;
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    const ValueInfo& param = graph.value(id);
    if (param.on_host || uses.uses(id).empty() ||
        !layout.on_host().contains(param.name)) {
      continue;
    }
    moved.push_back(MoveOfParam(graph, layouts, uses, id));
    if (moved.back().to != kNoNode) continue;
    return Error{
        ErrorCode::kUnsupported,
        StrCat("[offload] param ", Quoted(param.name), " of graph ",
               Quoted(graph.name()),
               " lies in host memory, and is an output or is read after its "
               "update, or nothing but views are taken of it; give the step a "
               "larger budget, or --offload none")};
  }
  for (const ValueId id : graph.Leaves(Role::kState)) {
    const ValueInfo& state = graph.value(id);
    const std::span<const NodeId> users = uses.uses(id);
    if (state.on_host || users.empty() ||
        !layout.on_host().contains(state.name)) {
      continue;
    }
    moved.push_back({.value = id,
                     .bytes = state.type.bytes(),
                     .to = users.front(),
                     .updated = LastUpdate(graph, layouts, users, id)});
  }
  return Offload(graph, moved, places);
}

namespace {

constexpr int kHalves = 2;

// How many of the first have so many halves of all bytes.
size_t CountHalves(std::span<const Offloadable> all, int halves) {
  Bytes sum = 0, part = 0;
  for (const Offloadable& each : all) sum += each.bytes;
  size_t count = 0;
  while (count < all.size() && kHalves * part < halves * sum) {
    part += all[count++].bytes;
  }
  return count;
}

}  // namespace

size_t CountStates(std::span<const Offloadable> all) {
  return static_cast<size_t>(
      std::ranges::count_if(all, &Offloadable::persists));
}

namespace {

// With all params, from all states on; the last as it is and reloaded anew.
void AddWithParams(std::vector<Share>& shares, bool trained) {
  const Share most = shares.back();
  std::vector<Share> with = {{.states = most.states}, most, most};
  with.back().again = true;
  with.erase(std::unique(with.begin(), with.end()), with.end());
  for (Share& share : with) {
    share.params = true;
    share.trained = trained;
    shares.push_back(share);
  }
}

}  // namespace

std::vector<Share> SharesToTry(std::span<const Offloadable> all, bool bodies,
                               bool params, bool trained) {
  const size_t states = CountStates(all);
  std::vector<Share> shares = {
      {},
      {.states = CountHalves(all.first(states), 1)},
      {.states = states},
      {.states = states, .halves = 1},
      {.states = states, .halves = kHalves},
      {.states = states, .halves = kHalves, .again = true}};
  if (std::ranges::all_of(
          all, [](const Offloadable& each) { return each.again.empty(); })) {
    shares.pop_back();
  }
  if (states == all.size()) shares.resize(3);  // no forward value may move
  shares.erase(std::unique(shares.begin(), shares.end()), shares.end());
  const Share most = shares.back();
  if (bodies) {
    for (Share share : {Share{}, Share{.states = states}, most}) {
      share.inside = true;
      if (share != shares.back()) shares.push_back(share);
    }
  }
  if (params) AddWithParams(shares, trained);
  return shares;
}

std::vector<Offloadable> Select(std::span<const Offloadable> all, Share share,
                                int64_t micro_batches) {
  const auto states = all.first(CountStates(all));
  const auto values = all.subspan(states.size());
  const int halves =
      micro_batches > 1 && share.halves > 0 ? kHalves : share.halves;
  const auto moved_states = states.first(std::min(share.states, states.size()));
  const auto moved_values = values.first(CountHalves(values, halves));
  std::vector<Offloadable> moved(moved_states.begin(), moved_states.end());
  moved.insert(moved.end(), moved_values.begin(), moved_values.end());
  if (!share.again) {
    for (Offloadable& each : moved) each.again.clear();
  }
  return moved;
}

std::vector<Offloadable> SelectParams(std::vector<Offloadable> params,
                                      Share share) {
  if (!share.again) {
    for (Offloadable& each : params) each.again = each.always;
  }
  return params;
}

namespace {

constexpr int kAttempts = 4;  // at packing what is alive in the budget

// Bytes that the budget leaves while each node runs.
std::vector<Bytes> RoomOf(const Graph& graph, const Plan& plan, Bytes budget) {
  std::vector<Bytes> live(Index(graph.num_nodes()) + 1, 0);
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.region != Region::kActivations &&
        buffer.region != Region::kWorkspace) {
      continue;
    }
    const Time end = std::min<Time>(buffer.upper, graph.num_nodes());
    if (buffer.lower >= end) continue;
    live[static_cast<size_t>(buffer.lower)] += buffer.size;
    live[static_cast<size_t>(end)] -= buffer.size;
  }
  std::vector<Bytes> room;
  Bytes sum = plan.arena_bytes() - plan.regions.span();
  for (size_t n = 0; n + 1 < live.size(); ++n) {
    sum += live[n];
    room.push_back(budget - sum);
  }
  return room;
}

// Before which node each reload is to stand; of other nodes, themselves. From the
// last to the first: a copy is to end when it is wanted, and when the link is
// wanted by the next.
std::vector<NodeId> Places(const Graph& graph, std::span<const double> costs,
                           Bytes alignment, std::vector<Bytes> room) {
  std::vector<double> work(1, 0);  // before each node, of all but copies
  std::vector<NodeId> places;
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const Node& node = graph.node(n);
    const bool copies = BodiesOf(node).empty() && BytesCopied(graph, node) > 0;
    work.push_back(work.back() + (copies ? 0 : costs[Index(n)]));
    places.push_back(n);
  }
  double link_free = std::numeric_limits<double>::infinity();
  for (NodeId n = graph.num_nodes() - 1; n >= 0; --n) {
    const Node& node = graph.node(n);
    if (node.op != OpKind::kReload) continue;
    const double start = std::min(work[Index(n)], link_free) - costs[Index(n)];
    const Bytes bytes =
        AlignUp(graph.value(node.results[0]).type.bytes(), alignment);
    const NodeId offloaded = graph.value(node.inputs[0]).producer;
    NodeId& place = places[Index(n)];
    while (place - 1 > offloaded && work[Index(place)] > start &&
           room[Index(place - 1)] >= bytes) {
      --place;
      room[Index(place)] -= bytes;
    }
    link_free = std::max(start, work[Index(place)]);
  }
  return places;
}

std::vector<NodeId> OrderOf(const std::vector<NodeId>& places) {
  std::vector<std::vector<NodeId>> reloaded(places.size());  // before a node
  std::vector<NodeId> order;
  for (NodeId n = 0; n < static_cast<NodeId>(places.size()); ++n) {
    if (places[Index(n)] < n) reloaded[Index(places[Index(n)])].push_back(n);
  }
  for (NodeId n = 0; n < static_cast<NodeId>(places.size()); ++n) {
    order.insert(order.end(), reloaded[Index(n)].begin(),
                 reloaded[Index(n)].end());
    if (places[Index(n)] == n) order.push_back(n);
  }
  return order;
}

struct Moved {
  Graph graph;
  int reloads = 0;
};

// Moves reloads up, those in bodies aside.
Result<Moved> MoveUp(const Graph& graph, const Plan& plan, Bytes budget,
                     const CostFn& cost) {
  const std::vector<NodeId> places =
      Places(graph, cost(graph), plan.alignment, RoomOf(graph, plan, budget));
  Moved moved;
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    moved.reloads += places[Index(n)] < n;
  }
  if (moved.reloads == 0) return Moved{.graph = graph};
  STOWAGE_ASSIGN_OR_RETURN(moved.graph, Reorder(graph, OrderOf(places)));
  return moved;
}

// Moves those in bodies up, and no others.
Result<Moved> MoveUpInBodies(const Graph& graph, const Plan& plan, Bytes budget,
                             const CostFn& cost) {
  const std::vector<Bytes> room = RoomOf(graph, plan, budget);
  Moved moved;
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  copy.DeclareLeaves();
  auto planned = plan.bodies.begin();
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const Node& node = graph.node(n);
    const int32_t scratch = plan.workspace_of[Index(n)];
    SubGraphs bodies;
    const int before = moved.reloads;
    for (const auto& body : BodiesOf(node)) {
      const Plan& of_body = (planned++)->plan;
      bodies.push_back(body);
      if (scratch < 0 || BytesCopied(graph, node) == 0) continue;
      // All that is not taken by what is around the body.
      const Bytes most = room[Index(n)] + plan.buffers[Index(scratch)].size;
      STOWAGE_ASSIGN_OR_RETURN(const Moved inside,
                               MoveUpInBodies(*body, of_body, most, cost));
      STOWAGE_ASSIGN_OR_RETURN(Moved all,
                               MoveUp(inside.graph, of_body, most, cost));
      bodies.back() = std::make_shared<const Graph>(std::move(all.graph));
      moved.reloads += inside.reloads + all.reloads;
    }
    Attrs attrs = node.attrs;
    if (moved.reloads > before) attrs.Set("bodies", std::move(bodies));
    copy.CopyNode(n, attrs);
  }
  if (moved.reloads == 0) return Moved{.graph = graph};
  copy.DeclareOutputs();
  STOWAGE_ASSIGN_OR_RETURN(moved.graph, g.Finish());
  return moved;
}

}  // namespace

Result<Prefetched> Prefetch(const Graph& graph, const Plan& plan, Bytes budget,
                            const CostFn& cost, PlanOptions options) {
  STOWAGE_CHECK(plan.arena_bytes() <= budget);
  options.budget.reset();
  Prefetched early{.graph = graph, .plan = plan};
  for (const auto move : {MoveUpInBodies, MoveUp}) {
    // What is alive fits; what is packed may not, and is then given less.
    Bytes most = budget;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      STOWAGE_ASSIGN_OR_RETURN(Moved moved,
                               move(early.graph, early.plan, most, cost));
      if (moved.reloads == 0) break;
      STOWAGE_ASSIGN_OR_RETURN(Plan anew, PlanMemory(moved.graph, options));
      if (anew.arena_bytes() > budget) {
        most -= anew.arena_bytes() - budget;
        continue;
      }
      early = {.graph = std::move(moved.graph),
               .plan = std::move(anew),
               .moved = early.moved + moved.reloads};
      break;
    }
  }
  return early;
}

}  // namespace stowage::fit
