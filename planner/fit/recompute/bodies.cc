#include "planner/fit/recompute/bodies.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/strings.h"
#include "ir/attrs.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "planner/fit/cost.h"
#include "planner/fit/recompute/recompute.h"
#include "planner/lifetimes.h"

namespace stowage::fit {
namespace {

constexpr double kEffortInBody = 0.1;  // of each search, of those for a step
constexpr Bytes kMinShare = 64;  // of the peak, that a body takes at least
constexpr size_t kMaxRungs = 4;  // of a body, beside it as it is
constexpr size_t kMaxTries = 6;  // of what was found for a body

bool HasBodies(const Graph& graph) {
  return std::ranges::any_of(
      graph.nodes(), [](const Node& node) { return !BodiesOf(node).empty(); });
}

// Whether a node in a body of `node`, at any depth, makes what is called so.
bool MakesInside(const Node& node, std::string_view name) {
  return std::ranges::any_of(BodiesOf(node), [&](const auto& body) {
    const auto id = body->Find(name);
    return (id && !body->value(*id).is_leaf()) || IsMadeInBody(*body, name);
  });
}

// Equal for bodies that differ in names and attributes alone.
uint64_t LikenessOf(const Graph& body) {
  Fnv1a hash;
  for (const ValueInfo& value : body.values()) {
    hash.Update(StrCat(value.type.ToString(), " ", value.producer, " "));
  }
  for (const Node& node : body.nodes()) {
    hash.Update(
        StrCat(OpName(node.op), " ", static_cast<int>(node.phase), " "));
    for (const ValueId input : node.inputs) hash.Update(StrCat(input, " "));
    for (const auto& inner : BodiesOf(node)) {
      hash.Update(StrCat(LikenessOf(*inner), " "));
    }
  }
  for (const GraphOutput& output : body.outputs()) {
    hash.Update(StrCat(output.value, " "));
  }
  return hash.digest();
}

Attrs WithBodies(const Node& node, SubGraphs bodies) {
  Attrs attrs = node.attrs;
  attrs.Set("bodies", std::move(bodies));
  return attrs;
}

// What runs again in one body in one run of it.
struct Again {
  double cost = 0;
  double flops = 0;
  int nodes = 0;
  std::vector<RecomputedNode> told = {};
};

struct LoweredBody {
  Graph graph;
  Again again;
};

Result<LoweredBody> LowerBody(const Graph& body, const BodyChange& change,
                              const std::string& node, const CostFn& cost) {
  STOWAGE_ASSIGN_OR_RETURN(LoweredBodies inside,
                           LowerBodies(body, change.inside, cost));
  LoweredBody lowered;
  Again& again = lowered.again;
  for (LoweredNode& each : inside.nodes) {
    again.cost += each.extra_cost;
    again.flops += each.flops_again;
    again.nodes += each.nodes_again;
    std::ranges::move(each.told, std::back_inserter(again.told));
  }
  if (change.script.empty()) {
    lowered.graph = std::move(inside.graph);
    return lowered;
  }
  Simulation simulation(inside.graph, {.cost = cost});
  if (!simulation.Run(change.script)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[recompute] body ", Quoted(body.name()),
                        " cannot run again what is asked for; expected what "
                        "was found for a body that is like it")};
  }
  again.cost += simulation.extra_cost();
  again.nodes += simulation.nodes_again();
  for (const Simulation::Item& item : simulation.items()) {
    if (!item.again) continue;
    again.flops += NodeFlops(inside.graph, inside.graph.node(item.node));
  }
  for (RecomputedNode& recomputed : ExplainRun(inside.graph, simulation)) {
    recomputed.name = StrCat(recomputed.name, "@", node);
    again.told.push_back(std::move(recomputed));
  }
  STOWAGE_ASSIGN_OR_RETURN(lowered.graph, Rewrite(inside.graph, simulation));
  return lowered;
}

// Of points by falling bytes and rising cost, as many as `most`: the first, the last, and
// of those between them the corners that save the most.
template <typename T>
std::vector<T> Corners(std::vector<T> points, size_t most) {
  const auto depth = [&](size_t i) {  // below what joins the neighbours
    const T &a = points[i - 1], &b = points[i], &c = points[i + 1];
    const auto bytes = [](const T& from, const T& to) {
      return static_cast<double>(from.bytes - to.bytes);
    };
    return bytes(a, b) * (c.cost - b.cost) - bytes(b, c) * (b.cost - a.cost);
  };
  while (points.size() > std::max<size_t>(most, 2)) {
    size_t least = 1;
    for (size_t i = 2; i + 1 < points.size(); ++i) {
      if (depth(i) < depth(least)) least = i;
    }
    points.erase(points.begin() + static_cast<std::ptrdiff_t>(least));
  }
  return points;
}

// One way to run a body: what runs again in it.
struct Rung {
  Bytes bytes = 0;  // its arena
  double cost = 0;  // of one run, extra
  BodyChange change = {};
};

class LevelFinder {
 public:
  explicit LevelFinder(const BodyLevelOptions& options)
      : options_(options), workspace_(NodeWorkspace(options.plan)) {}

  // Those of a graph, or of a body.
  Result<std::vector<BodyLevel>> Find(const Graph& graph, bool is_body) {
    std::vector<BodyLevel> levels;
    if (!HasBodies(graph)) return levels;
    std::vector<Place> places;
    STOWAGE_RETURN_IF_ERROR(FindPlaces(graph, is_body, &places));
    // From one height to the next, the highest there are first.
    std::set<Bytes> heights;
    for (const Place& place : places) {
      for (const Rung& rung : ladders_.at(place.likeness)) {
        heights.insert(place.outside + rung.bytes);
      }
    }
    std::vector<Level> all;
    for (auto height = heights.rbegin(); height != heights.rend(); ++height) {
      Level level = LevelAt(*height, places);
      if (!all.empty() && level.rungs == all.back().rungs) continue;
      all.push_back(std::move(level));
    }
    for (const Level& level : Corners(std::move(all), kMaxBodyLevels + 1)) {
      BodyLevel changes;
      for (const auto& [likeness, rung] : level.rungs) {
        if (rung > 0) changes.push_back(ladders_[likeness][rung].change);
      }
      if (!changes.empty()) levels.push_back(std::move(changes));
    }
    return levels;
  }

 private:
  // A body in a graph.
  struct Place {
    uint64_t likeness = 0;
    Bytes outside = 0;  // live bytes of the graph around it
    double times = 0;   // that it runs
  };
  // The rung of each body, by its likeness.
  struct Level {
    Bytes bytes = 0;  // the height that it keeps to
    double cost = 0;
    std::map<uint64_t, size_t> rungs = {};
  };

  Status FindPlaces(const Graph& graph, bool is_body,
                    std::vector<Place>* places) {
    Simulation simulation(graph, {.alignment = options_.plan.alignment,
                                  .in_place = options_.plan.in_place,
                                  .workspace = workspace_,
                                  .cost = options_.cost,
                                  .outputs_outside = is_body});
    if (!simulation.Run(simulation.AsGiven())) return {};
    for (size_t time = 0; time < simulation.items().size(); ++time) {
      const NodeId id = simulation.items()[time].node;
      const Node& node = graph.node(id);
      const Bytes outside = simulation.live()[time] - simulation.workspace(id);
      for (const auto& body : BodiesOf(node)) {
        const uint64_t likeness = LikenessOf(*body);
        places->push_back({.likeness = likeness,
                           .outside = outside,
                           .times = static_cast<double>(IterationsOf(node))});
        if (ladders_.contains(likeness)) continue;
        STOWAGE_ASSIGN_OR_RETURN(
            ladders_[likeness],
            LadderOf(graph, node, *body, simulation.peak() / kMinShare));
        for (Rung& rung : ladders_[likeness]) rung.change.likeness = likeness;
      }
    }
    return {};
  }

  // Every body on the first rung that keeps to the height, or on its last one.
  Level LevelAt(Bytes height, const std::vector<Place>& places) const {
    Level level = {.bytes = height};
    for (const Place& place : places) {
      const std::vector<Rung>& ladder = ladders_.at(place.likeness);
      const auto fits = std::ranges::find_if(ladder, [&](const Rung& rung) {
        return place.outside + rung.bytes <= height;
      });
      const auto rung = Index((fits == ladder.end() ? std::prev(fits) : fits) -
                              ladder.begin());
      size_t& chosen = level.rungs[place.likeness];
      chosen = std::max(chosen, rung);
    }
    for (const Place& place : places) {
      level.cost +=
          place.times *
          ladders_.at(place.likeness)[level.rungs[place.likeness]].cost;
    }
    return level;
  }

  // Of the body, were it the only one of the node.
  Bytes ArenaOf(const Graph& graph, const Node& node, Graph body) const {
    Node alone = node;
    alone.attrs = WithBodies(
        node, SubGraphs{std::make_shared<const Graph>(std::move(body))});
    return workspace_(graph, alone);
  }

  // By falling arena and rising cost; the first is the body as it is.
  Result<std::vector<Rung>> LadderOf(const Graph& graph, const Node& node,
                                     const Graph& body, Bytes least) {
    std::vector<Rung> rungs = {{.bytes = ArenaOf(graph, node, body)}};
    if (rungs[0].bytes <= least || HoldsCollectives(body)) return rungs;
    // With the bodies in it as they are, and as low as they get.
    std::vector<BodyLevel> versions = {{}};
    STOWAGE_ASSIGN_OR_RETURN(std::vector<BodyLevel> inside,
                             LevelFinder(options_).Find(body, true));
    if (!inside.empty()) versions.push_back(std::move(inside.back()));
    for (const BodyLevel& version : versions) {
      STOWAGE_RETURN_IF_ERROR(TryScripts(graph, node, body, version, &rungs));
    }
    std::ranges::stable_sort(rungs, {}, &Rung::cost);
    std::vector<Rung> falling;
    for (Rung& rung : rungs) {
      if (falling.empty() || rung.bytes < falling.back().bytes) {
        falling.push_back(std::move(rung));
      }
    }
    return Corners(std::move(falling), kMaxRungs + 1);
  }

  // What was found for the body, with these changes of the bodies in it.
  Status TryScripts(const Graph& graph, const Node& node, const Graph& body,
                    const BodyLevel& inside, std::vector<Rung>* rungs) const {
    STOWAGE_ASSIGN_OR_RETURN(const LoweredBodies lowered,
                             LowerBodies(body, inside, options_.cost));
    double of_inside = 0;
    for (const LoweredNode& each : lowered.nodes) of_inside += each.extra_cost;
    Simulation simulation(lowered.graph, {.alignment = options_.plan.alignment,
                                          .in_place = options_.plan.in_place,
                                          .workspace = workspace_,
                                          .cost = options_.cost,
                                          .outputs_outside = true});
    std::vector<uint8_t> kept(Index(lowered.graph.num_values()), 0);
    for (const std::string& name : options_.always_kept) {
      const auto id = lowered.graph.Find(name);
      if (id) kept[Index(simulation.root(*id))] = 1;
    }
    struct Try {
      Bytes bytes = 0;
      double cost = 0;
      Script script = {};
    };
    std::vector<Try> tries;
    for (FoundScript& each :
         SearchRecompute(lowered.graph, simulation,
                         {.always_kept = kept,
                         .effort = kEffortInBody * options_.effort,
                         .on_choice = options_.on_choice})) {
      tries.push_back({each.peak, each.cost, std::move(each.script)});
    }
    for (Try& each : Corners(std::move(tries), kMaxTries)) {
      if (each.script.empty() && inside.empty()) continue;
      if (!simulation.Run(each.script)) continue;
      STOWAGE_ASSIGN_OR_RETURN(Graph again, Rewrite(lowered.graph, simulation));
      rungs->push_back(
          {.bytes = ArenaOf(graph, node, std::move(again)),
           .cost = of_inside + each.cost,
           .change = {.script = std::move(each.script), .inside = inside}});
    }
    return {};
  }

  const BodyLevelOptions& options_;
  const WorkspaceFn workspace_;
  std::map<uint64_t, std::vector<Rung>> ladders_;  // by likeness
};

}  // namespace

Result<std::vector<BodyLevel>> FindBodyLevels(const Graph& graph,
                                              const BodyLevelOptions& options) {
  BodyLevelOptions in_bodies = options;
  std::erase_if(in_bodies.always_kept, [&](const std::string& name) {
    return graph.Find(name).has_value();
  });
  return LevelFinder(in_bodies).Find(graph, /*is_body=*/false);
}

Result<LoweredBodies> LowerBodies(const Graph& graph, const BodyLevel& level,
                                  const CostFn& cost) {
  LoweredBodies made;
  if (level.empty()) {
    made.graph = graph;
    return made;
  }
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  copy.DeclareLeaves();
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const std::string& name = graph.value(node.results[0]).name;
    SubGraphs bodies;
    Again most;  // of its bodies
    bool changes = false;
    for (const auto& body : BodiesOf(node)) {
      bodies.push_back(body);
      const auto change =
          std::ranges::find(level, LikenessOf(*body), &BodyChange::likeness);
      if (change == level.end()) continue;
      STOWAGE_ASSIGN_OR_RETURN(LoweredBody lowered,
                               LowerBody(*body, *change, name, cost));
      bodies.back() = std::make_shared<const Graph>(std::move(lowered.graph));
      if (!changes || lowered.again.cost > most.cost) {
        most = std::move(lowered.again);
      }
      changes = true;
    }
    if (!changes) {
      copy.CopyNode(id);
      continue;
    }
    copy.CopyNode(id, WithBodies(node, std::move(bodies)));
    const int64_t iterations = IterationsOf(node);
    for (RecomputedNode& recomputed : most.told) {
      recomputed.times *= static_cast<int>(iterations);
      recomputed.flops *= static_cast<double>(iterations);
    }
    made.nodes.push_back(
        {.node = name,
         .extra_cost = static_cast<double>(iterations) * most.cost,
         .flops_again = static_cast<double>(iterations) * most.flops,
         .nodes_again = static_cast<int>(iterations) * most.nodes,
         .told = std::move(most.told)});
  }
  copy.DeclareOutputs();
  STOWAGE_ASSIGN_OR_RETURN(made.graph, g.Finish());
  return made;
}

bool IsMadeInBody(const Graph& graph, std::string_view name) {
  return std::ranges::any_of(
      graph.nodes(), [&](const Node& node) { return MakesInside(node, name); });
}

std::vector<std::string> WithNodesThatMake(const Graph& graph,
                                           std::span<const std::string> names) {
  std::vector<std::string> all(names.begin(), names.end());
  for (const Node& node : graph.nodes()) {
    const bool makes = std::ranges::any_of(names, [&](const auto& name) {
      return !graph.Find(name) && MakesInside(node, name);
    });
    if (makes) all.push_back(graph.value(node.results[0]).name);
  }
  return all;
}

}  // namespace stowage::fit
