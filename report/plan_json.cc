#include "report/plan_json.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/json.h"
#include "ir/bodies.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "ir/text.h"
#include "planner/lifetimes.h"
#include "planner/packing/packer.h"
#include "planner/plan.h"
#include "planner/validate_plan.h"

namespace stowage {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "stowage-plan";
constexpr int64_t kVersion = 4;
// The limit on nesting: a file with kMaxBodyDepth bodies nests fewer than a hundred
// levels.
constexpr int kMaxLevels = 128;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr size_t kMaxIndex = std::numeric_limits<int32_t>::max();

constexpr Region kAllRegions[] = {Region::kWeights,    Region::kState,
                                  Region::kIo,         Region::kActivations,
                                  Region::kWorkspace,  Region::kHostState,
                                  Region::kHostOffload};

// Reads the fields of one object; messages call the object `where`.
class Reader {
 public:
  Reader(const Json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  Status CheckIsObject() const {
    if (object_.is_object()) return {};
    return InvalidArgumentError("[plan file] ", where_, " is ",
                                object_.type_name(), "; expected an object");
  }

  bool Has(std::string_view name) const { return object_.contains(name); }

  Result<const Json*> Field(std::string_view name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) {
      return InvalidArgumentError("[plan file] ", where_, " has no ",
                                  Quoted(name));
    }
    return &*found;
  }

  Result<int64_t> Int(std::string_view name, int64_t least,
                      int64_t most) const {
    STOWAGE_ASSIGN_OR_RETURN(const Json* field, Field(name));
    return IntOf(*field, StrCat(where_, ": ", Quoted(name)), least, most);
  }

  Result<std::string> String(std::string_view name) const {
    STOWAGE_ASSIGN_OR_RETURN(const Json* field, Field(name));
    if (!field->is_string()) return WrongType(name, *field, "a string");
    return field->get<std::string>();
  }

  Result<bool> Bool(std::string_view name) const {
    STOWAGE_ASSIGN_OR_RETURN(const Json* field, Field(name));
    if (!field->is_boolean()) return WrongType(name, *field, "true or false");
    return field->get<bool>();
  }

  Result<const Json*> Array(std::string_view name) const {
    STOWAGE_ASSIGN_OR_RETURN(const Json* field, Field(name));
    if (!field->is_array()) return WrongType(name, *field, "an array");
    return field;
  }

  /// An array of `count` indices in [least, end).
  Result<std::vector<int32_t>> Indices(std::string_view name, size_t count,
                                       int64_t least, size_t end) const {
    STOWAGE_ASSIGN_OR_RETURN(const Json* array, Array(name));
    if (array->size() != count) {
      return InvalidArgumentError("[plan file] ", where_, ": ", Quoted(name),
                                  " has ", array->size(),
                                  " entries; the graph needs ", count);
    }
    std::vector<int32_t> indices;
    indices.reserve(count);
    for (const Json& entry : *array) {
      STOWAGE_ASSIGN_OR_RETURN(
          const int64_t index,
          IntOf(entry,
                StrCat(where_, ": ", Quoted(name), " entry ", indices.size()),
                least, static_cast<int64_t>(end) - 1));
      indices.push_back(static_cast<int32_t>(index));
    }
    return indices;
  }

 private:
  static Result<int64_t> IntOf(const Json& field, const std::string& what,
                               int64_t least, int64_t most) {
    const bool fits = field.is_number_unsigned()
                          ? field.get<uint64_t>() <= static_cast<uint64_t>(kMax)
                          : field.is_number_integer();
    const int64_t value = fits ? field.get<int64_t>() : 0;
    if (!fits || value < least || value > most) {
      return InvalidArgumentError(
          "[plan file] ",

          what, " is ",
          field.is_number() ? field.dump() : std::string(field.type_name()),
          "; expected an integer ",
          most == kMax ? StrCat("of at least ", least)
                       : StrCat("from ", least, " to ", most));
    }
    return value;
  }

  Error WrongType(std::string_view name, const Json& field,
                  std::string_view expected) const {
    return InvalidArgumentError("[plan file] ", where_, ": ", Quoted(name),
                                " is ", field.type_name(), "; expected ",
                                expected);
  }

  const Json& object_;
  const std::string where_;
};

std::optional<Region> ParseRegion(std::string_view name) {
  for (const Region region : kAllRegions) {
    if (RegionName(region) == name) return region;
  }
  if (name == RegionName(Region::kOutside)) return Region::kOutside;
  return std::nullopt;
}

Result<RegionBytes> ReadRegions(const Reader& file) {
  STOWAGE_ASSIGN_OR_RETURN(const Json* json, file.Field("regions"));
  const Reader reader(*json, "\"regions\"");
  STOWAGE_RETURN_IF_ERROR(reader.CheckIsObject());
  RegionBytes regions;
  Bytes* const fields[] = {&regions.weights,     &regions.state,
                           &regions.io,          &regions.activations,
                           &regions.workspace,   &regions.host_state,
                           &regions.host_offload};
  std::optional<Bytes> sum = 0;
  for (size_t i = 0; i < std::size(fields); ++i) {
    STOWAGE_ASSIGN_OR_RETURN(*fields[i],
                             reader.Int(RegionName(kAllRegions[i]), 0, kMax));
    sum = CheckedAdd(*sum, *fields[i]);
    if (!sum)
      return InvalidArgumentError(
          "[plan file] \"regions\": the sum does not fit 64 bits");
  }
  return regions;
}

Result<std::vector<PlannedBuffer>> ReadBuffers(const Reader& file,
                                               const Graph& graph,
                                               const RegionBytes& regions,
                                               Bytes alignment) {
  STOWAGE_ASSIGN_OR_RETURN(const Json* array, file.Array("buffers"));
  std::vector<PlannedBuffer> buffers;
  buffers.reserve(array->size());
  Bytes total = 0;
  for (const Json& json : *array) {
    const std::string where = StrCat("buffer ", buffers.size());
    const Reader reader(json, where);
    STOWAGE_RETURN_IF_ERROR(reader.CheckIsObject());
    PlannedBuffer buffer;
    STOWAGE_ASSIGN_OR_RETURN(buffer.name, reader.String("name"));
    STOWAGE_ASSIGN_OR_RETURN(const std::string region, reader.String("region"));
    const std::optional<Region> parsed = ParseRegion(region);
    if (!parsed) {
      return InvalidArgumentError(
          "[plan file] ", where, ": \"region\" is ", Quoted(region),
          "; expected weights, state, io, activations, workspace, "
          "host_state, host_offload or outside");
    }
    buffer.region = *parsed;
    STOWAGE_ASSIGN_OR_RETURN(buffer.offset, reader.Int("offset", 0, kMax));
    STOWAGE_ASSIGN_OR_RETURN(buffer.size, reader.Int("size", 0, kMax));
    STOWAGE_ASSIGN_OR_RETURN(buffer.lower,
                             reader.Int("lower", 0, graph.num_nodes()));
    STOWAGE_ASSIGN_OR_RETURN(
        buffer.upper, reader.Int("upper", buffer.lower, graph.num_nodes() + 1));
    if (json.contains("within")) {
      STOWAGE_ASSIGN_OR_RETURN(
          const int64_t within,
          reader.Int("within", 0, static_cast<int64_t>(array->size()) - 1));
      buffer.within = static_cast<int32_t>(within);
    }
    // Sums of base, offset and padding stay below 2^63.
    const auto end =
        CheckedAdd(buffer.offset, regions.total() + regions.host());
    const auto padded = CheckedAdd(buffer.size, alignment);
    const auto top =
        end && padded ? CheckedAdd(*end, *padded) : std::optional<Bytes>();
    const auto sum = padded ? CheckedAdd(total, *padded) : padded;
    if (!top || !sum) {
      return InvalidArgumentError("[plan file] ", where, ": offset ",
                                  buffer.offset, " and size ", buffer.size,
                                  " do not fit 64 bits");
    }
    total = *sum;
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

// Reads the source line of each value, which a file may omit.
Status ReadSources(const Json& json, Graph* graph) {
  const auto found = json.find("sources");
  if (found == json.end()) return {};
  const Reader reader(*found, "\"sources\"");
  STOWAGE_RETURN_IF_ERROR(reader.CheckIsObject());
  STOWAGE_ASSIGN_OR_RETURN(const Json* files, reader.Array("files"));
  for (const Json& file : *files) {
    if (!file.is_string()) {
      return InvalidArgumentError("[plan file] \"sources\": a file is ",
                                  file.type_name(), "; expected a string");
    }
  }
  const auto values = static_cast<size_t>(graph->num_values());
  STOWAGE_ASSIGN_OR_RETURN(
      const std::vector<int32_t> file_of,
      reader.Indices("file_of", values, -1, files->size()));
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int32_t> line_of,
                           reader.Indices("line_of", values, 0, kMaxIndex));
  for (size_t i = 0; i < values; ++i) {
    if (file_of[i] < 0) continue;
    const auto& file = (*files)[static_cast<size_t>(file_of[i])];
    graph->SetSource(
        static_cast<ValueId>(i),
        KeptSourceLoc(file.get_ref<const std::string&>(), line_of[i]));
  }
  return {};
}

template <typename List>
Json ArrayOf(const List& list) {
  Json array = Json::array();
  for (const auto entry : list) array.push_back(entry);
  return array;
}

// The properties of the graph that a plan verifier needs.
struct Facts {
  Json values = Json::array();
  Json nodes = Json::array();
  Json outputs = Json::array();
};

Facts FactsOf(const Graph& graph) {
  const Layouts layouts = ComputeLayouts(graph);
  Facts facts;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& value = graph.value(id);
    const Layout& layout = layouts[Index(id)];
    facts.values.push_back({{"name", value.name},
                            {"dtype", DTypeName(value.type.dtype)},
                            {"shape", ArrayOf(value.type.shape)},
                            {"bytes", value.type.bytes()},
                            {"role", RoleName(value.role)},
                            {"on_host", value.on_host},
                            {"root", layout.root},
                            {"offset", layout.byte_offset},
                            {"strides", ArrayOf(layout.strides)}});
  }
  for (const Node& node : graph.nodes()) {
    const OpDef& def = GetOpDef(node.op);
    Json may_overwrite = Json::array();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (def.may_overwrite_operand(i)) may_overwrite.push_back(i);
    }
    Json& fact = facts.nodes.emplace_back(
        Json({{"op", OpName(node.op)},
              {"inputs", node.inputs},
              {"results", node.results},
              {"view", def.is_view()},
              {"updates", def.updates},
              {"may_overwrite", std::move(may_overwrite)}}));
    if (const size_t bodies = BodiesOf(node).size(); bodies > 0) {
      fact["bodies"] = bodies;
    }
    if (node.op != OpKind::kLoop) continue;
    const LoopParts loop = PartsOfLoop(node);
    fact["loop"] = {{"iterations", loop.iterations},
                    {"carried", loop.carried},
                    {"sliced", loop.sliced},
                    {"summed", loop.summed},
                    {"reverse", loop.reverse}};
  }
  for (const GraphOutput& output : graph.outputs()) {
    facts.outputs.push_back(output.value);
  }
  return facts;
}

// Error: the file's statements about its graph are wrong.
Status CheckFacts(const Reader& file, const Graph& graph) {
  const Facts facts = FactsOf(graph);
  const std::pair<std::string_view, const Json*> parts[] = {
      {"values", &facts.values},
      {"nodes", &facts.nodes},
      {"outputs", &facts.outputs}};
  for (const auto& [name, expected] : parts) {
    STOWAGE_ASSIGN_OR_RETURN(const Json* found, file.Array(name));
    if (found->size() != expected->size()) {
      return InvalidArgumentError(
          "[plan file] ", Quoted(name), " has ", found->size(),
          " entries; the graph in the file has ", expected->size());
    }
    for (size_t i = 0; i < expected->size(); ++i) {
      // Compares regardless of the order of fields.
      if (nlohmann::json((*found)[i]) == nlohmann::json((*expected)[i])) {
        continue;
      }
      // Names that are not UTF-8 are written as JSON permits.
      const Json written = Json::parse(
          (*expected)[i].dump(-1, ' ', false, Json::error_handler_t::replace));
      if (nlohmann::json((*found)[i]) == nlohmann::json(written)) continue;
      return InvalidArgumentError(
          "[plan file] ", Quoted(name), " entry ", i, " is ",
          (*found)[i].dump(), "; the graph in the file says ", written.dump());
    }
  }
  return {};
}

Result<PlanRequest> ReadRequest(const Reader& file) {
  PlanRequest request;
  STOWAGE_ASSIGN_OR_RETURN(const Json* budget, file.Field("budget_bytes"));
  if (!budget->is_null()) {
    STOWAGE_ASSIGN_OR_RETURN(request.budget, file.Int("budget_bytes", 0, kMax));
  }
  STOWAGE_ASSIGN_OR_RETURN(request.optimizations, file.String("optimizations"));
  if (file.Has("device")) {
    STOWAGE_ASSIGN_OR_RETURN(request.device, file.String("device"));
  }
  return request;
}

Json SourcesJson(const Graph& graph) {
  Json files = Json::array();
  Json file_of = Json::array();
  Json line_of = Json::array();
  std::map<std::string_view, int> numbers;
  for (const ValueInfo& value : graph.values()) {
    const SourceLoc& source = value.source;
    line_of.push_back(source.is_known() ? source.line : 0);
    if (!source.is_known()) {
      file_of.push_back(-1);
      continue;
    }
    const auto [entry, is_new] =
        numbers.emplace(source.file, static_cast<int>(files.size()));
    if (is_new) files.push_back(source.file);
    file_of.push_back(entry->second);
  }
  Json json = Json::object();
  json["files"] = std::move(files);
  json["file_of"] = std::move(file_of);
  json["line_of"] = std::move(line_of);
  return json;
}

Result<Plan> ReadPlan(const Reader& file, const Graph& graph);

// Reads the plans of the bodies in `graph`.
Status ReadBodies(const Reader& file, const Graph& graph, Plan* plan) {
  size_t count = 0;
  for (const Node& node : graph.nodes()) count += BodiesOf(node).size();
  if (count == 0) return {};
  STOWAGE_ASSIGN_OR_RETURN(const Json* array, file.Array("bodies"));
  if (array->size() != count) {
    return InvalidArgumentError("[plan file] \"bodies\" has ", array->size(),
                                " entries; the graph needs ", count);
  }
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    for (const auto& body : BodiesOf(graph.node(n))) {
      const std::string where = StrCat("body ", plan->bodies.size());
      const Reader reader((*array)[plan->bodies.size()], where);
      STOWAGE_RETURN_IF_ERROR(reader.CheckIsObject());
      BodyPlan& planned = plan->bodies.emplace_back();
      STOWAGE_ASSIGN_OR_RETURN(const int64_t node, reader.Int("node", n, n));
      planned.node = static_cast<NodeId>(node);
      STOWAGE_ASSIGN_OR_RETURN(const Json* inner, reader.Field("plan"));
      const Reader inner_reader(*inner, StrCat(where, ": \"plan\""));
      STOWAGE_RETURN_IF_ERROR(inner_reader.CheckIsObject());
      STOWAGE_ASSIGN_OR_RETURN(planned.plan, ReadPlan(inner_reader, *body));
      const bool is_loop = graph.node(n).op == OpKind::kLoop;
      STOWAGE_ASSIGN_OR_RETURN(
          planned.second_of,
          reader.Indices("second_of",
                         is_loop ? PartsOfLoop(graph.node(n)).handed_on() : 0,
                         -1, planned.plan.buffers.size()));
    }
  }
  return {};
}

Result<Plan> ReadPlan(const Reader& file, const Graph& graph) {
  Plan plan;
  plan.graph_name = graph.name();
  STOWAGE_ASSIGN_OR_RETURN(const std::string fingerprint,
                           file.String("fingerprint"));
  plan.fingerprint = Fingerprint(graph);
  if (fingerprint != Hex(plan.fingerprint)) {
    return InvalidArgumentError(
        "[plan file] the fingerprint is ", Quoted(fingerprint),
        ", that of the graph in the file ", Quoted(Hex(plan.fingerprint)),
        "; the plan was made for another graph, or the file was "
        "altered");
  }
  STOWAGE_ASSIGN_OR_RETURN(plan.alignment,
                           file.Int("alignment", 1, Bytes{1} << 40));
  STOWAGE_ASSIGN_OR_RETURN(plan.regions, ReadRegions(file));
  for (const auto& [field, sum] :
       {std::pair("arena_bytes", plan.arena_bytes()),
        std::pair("host_bytes", plan.host_bytes())}) {
    STOWAGE_ASSIGN_OR_RETURN(const int64_t stated, file.Int(field, 0, kMax));
    if (stated == sum) continue;
    return InvalidArgumentError("[plan file] ", Quoted(field), " is ", stated,
                                ", the regions sum to ", sum,
                                "; they must be equal");
  }
  STOWAGE_ASSIGN_OR_RETURN(
      plan.buffers, ReadBuffers(file, graph, plan.regions, plan.alignment));
  STOWAGE_ASSIGN_OR_RETURN(
      plan.buffer_of,
      file.Indices("buffer_of", static_cast<size_t>(graph.num_values()), 0,
                   plan.buffers.size()));
  STOWAGE_ASSIGN_OR_RETURN(
      plan.workspace_of,
      file.Indices("workspace_of", static_cast<size_t>(graph.num_nodes()), -1,
                   plan.buffers.size()));
  plan.host_workspace_of.assign(Index(graph.num_nodes()), -1);
  if (file.Has("host_workspace_of")) {
    STOWAGE_ASSIGN_OR_RETURN(
        plan.host_workspace_of,
        file.Indices("host_workspace_of", Index(graph.num_nodes()), -1,
                     plan.buffers.size()));
  }
  STOWAGE_ASSIGN_OR_RETURN(
      const int64_t reserve,
      file.Int("reserve", -1, static_cast<int64_t>(plan.buffers.size()) - 1));
  plan.reserve = static_cast<int32_t>(reserve);
  STOWAGE_ASSIGN_OR_RETURN(plan.lower_bound,
                           file.Int("lower_bound_bytes", 0, kMax));
  STOWAGE_ASSIGN_OR_RETURN(plan.no_reuse, file.Int("no_reuse_bytes", 0, kMax));
  STOWAGE_ASSIGN_OR_RETURN(plan.caching_allocator,
                           file.Int("caching_allocator_bytes", 0, kMax));
  STOWAGE_ASSIGN_OR_RETURN(plan.peak_time,
                           file.Int("peak_time", 0, graph.num_nodes()));
  constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
  STOWAGE_ASSIGN_OR_RETURN(const int64_t views, file.Int("views", 0, kMaxInt));
  STOWAGE_ASSIGN_OR_RETURN(const int64_t in_place,
                           file.Int("in_place", 0, kMaxInt));
  plan.views = static_cast<int>(views);
  plan.in_place = static_cast<int>(in_place);
  STOWAGE_ASSIGN_OR_RETURN(plan.packer, file.String("packer"));
  STOWAGE_ASSIGN_OR_RETURN(plan.order, file.String("order"));
  STOWAGE_ASSIGN_OR_RETURN(plan.optimal, file.Bool("optimal"));
  STOWAGE_RETURN_IF_ERROR(ReadBodies(file, graph, &plan));
  STOWAGE_RETURN_IF_ERROR(CheckFacts(file, graph));
  return plan;
}

// Adds the violations in the figures of the plans of bodies, at any depth, which bound the
// packing of the whole plan.
void CheckBodies(const Plan& plan, std::vector<std::string>* violations) {
  for (const BodyPlan& body : plan.bodies) {
    const Plan& inner = body.plan;
    if (inner.lower_bound > inner.arena_bytes()) {
      violations->push_back(StrCat(
          "\"lower_bound_bytes\" of a body of node ", body.node, " is ",
          inner.lower_bound, ", above its arena of ", inner.arena_bytes()));
    }
    CheckBodies(inner, violations);
  }
}

// The number of values that a plan writes over their operands. Linear in the operands.
int64_t CountInPlace(const PlanFile& file, const Layouts& layouts) {
  const std::vector<int32_t>& buffer_of = file.plan.buffer_of;
  int64_t count = 0;
  for (const Node& node : file.graph.nodes()) {
    const ValueId result = node.results[0];
    if (layouts[Index(result)].root != result) continue;
    count += std::ranges::any_of(node.inputs, [&](ValueId input) {
      return buffer_of[Index(input)] == buffer_of[Index(result)];
    });
  }
  return count;
}

int64_t CountViews(const Graph& graph, const Layouts& layouts) {
  int64_t count = 0;
  for (const Node& node : graph.nodes()) {
    if (!GetOpDef(node.op).is_view()) continue;
    count += std::ranges::count_if(node.results, [&](ValueId result) {
      return layouts[Index(result)].root != result;
    });
  }
  return count;
}

// Whether a step with this request is planned as it was written: its memory
// optimizations, one a line, are all off.
bool IsAsWritten(std::string_view optimizations) {
  while (!optimizations.empty()) {
    const size_t end = std::min(optimizations.find('\n'), optimizations.size());
    const std::string_view line = optimizations.substr(0, end);
    optimizations.remove_prefix(std::min(end + 1, optimizations.size()));
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view choice =
        line.substr(std::min(space + 1, line.size()));
    constexpr std::string_view kLeftOut[] = {"", "none", "given", "1"};
    if (std::ranges::find(kLeftOut, choice) == std::end(kLeftOut)) return false;
  }
  return true;
}

// The violations in the figures of a plan, which follow from its slots, and in the names of
// its packer and order. A file has no figures of the step before it was fitted to a budget,
// so `no_reuse` is only checked to be at least the arena; nor has it a proof that a plan with
// bodies is optimal.
std::vector<std::string> FigureViolations(const PlanFile& file) {
  const Plan& plan = file.plan;
  std::vector<std::string> violations;
  const auto check = [&](std::string_view field, int64_t stated,
                         int64_t found) {
    if (stated == found) return;
    violations.push_back(
        StrCat(Quoted(field), " is ", stated, "; the slots give ", found));
  };
  CheckBodies(plan, &violations);
  if (!violations.empty()) return violations;  // sums of them may overflow
  const Layouts layouts = ComputeLayouts(file.graph);
  const packing::LowerBound bound = LowerBoundOf(plan);
  check("lower_bound_bytes", plan.lower_bound, bound.bytes);
  check("peak_time", plan.peak_time, bound.time);
  check("caching_allocator_bytes", plan.caching_allocator,
        CachingAllocatorBytes(plan));
  const bool is_as_written = IsAsWritten(file.request.optimizations);
  if (is_as_written) {
    check("no_reuse_bytes", plan.no_reuse,
          NoReuseBytes(file.graph, layouts, plan));
  } else if (plan.no_reuse < plan.arena_bytes()) {
    violations.push_back(StrCat("\"no_reuse_bytes\" is ", plan.no_reuse,
                                ", below the arena of ", plan.arena_bytes()));
  }
  check("views", plan.views, CountViews(file.graph, layouts));
  check("in_place", plan.in_place, CountInPlace(file, layouts));
  const bool is_least = plan.arena_bytes() == bound.bytes;
  if (is_least || plan.bodies.empty()) {
    check("optimal", plan.optimal, is_least);
  }
  const std::string packer = plan.packer.substr(0, plan.packer.find(": "));
  if (const auto known = packing::ParsePacker(packer); !known.ok()) {
    violations.push_back(known.error().message);
  }
  if (plan.order != "given" && is_as_written) {
    violations.push_back(StrCat("\"order\" is ", Quoted(plan.order),
                                " of a step that no optimization changed; "
                                "expected \"given\""));
  }
  return violations;
}

Json RegionsJson(const RegionBytes& bytes) {
  Json regions = Json::object();
  regions["weights"] = bytes.weights;
  regions["state"] = bytes.state;
  regions["io"] = bytes.io;
  regions["activations"] = bytes.activations;
  regions["workspace"] = bytes.workspace;
  regions["host_state"] = bytes.host_state;
  regions["host_offload"] = bytes.host_offload;
  return regions;
}

// The plan, and the properties of its graph that a verifier needs.
void WritePlan(const Plan& plan, const Graph& graph, Json* to) {
  Json& json = *to;
  Json buffers = Json::array();
  for (const PlannedBuffer& buffer : plan.buffers) {
    Json& slot =
        buffers.emplace_back(Json({{"name", buffer.name},
                                   {"region", RegionName(buffer.region)},
                                   {"offset", buffer.offset},
                                   {"size", buffer.size},
                                   {"lower", buffer.lower},
                                   {"upper", buffer.upper}}));
    if (buffer.within >= 0) slot["within"] = buffer.within;
  }
  json["arena_bytes"] = plan.arena_bytes();
  json["host_bytes"] = plan.host_bytes();
  json["lower_bound_bytes"] = plan.lower_bound;
  json["no_reuse_bytes"] = plan.no_reuse;
  json["caching_allocator_bytes"] = plan.caching_allocator;
  json["peak_time"] = plan.peak_time;
  json["views"] = plan.views;
  json["in_place"] = plan.in_place;
  json["packer"] = plan.packer;
  json["order"] = plan.order;
  json["optimal"] = plan.optimal;
  json["regions"] = RegionsJson(plan.regions);
  json["buffers"] = std::move(buffers);
  json["buffer_of"] = plan.buffer_of;
  json["workspace_of"] = plan.workspace_of;
  if (std::ranges::any_of(plan.host_workspace_of,
                          [](int32_t index) { return index >= 0; })) {
    json["host_workspace_of"] = plan.host_workspace_of;
  }
  json["reserve"] = plan.reserve;
  Facts facts = FactsOf(graph);
  json["values"] = std::move(facts.values);
  json["nodes"] = std::move(facts.nodes);
  json["outputs"] = std::move(facts.outputs);
  if (plan.bodies.empty()) return;
  Json bodies = Json::array();
  size_t next = 0;
  for (const Node& node : graph.nodes()) {
    for (const auto& body : BodiesOf(node)) {
      const BodyPlan& planned = plan.bodies[next++];
      Json inner = Json::object();
      inner["graph_name"] = planned.plan.graph_name;
      inner["fingerprint"] = Hex(planned.plan.fingerprint);
      inner["alignment"] = planned.plan.alignment;
      WritePlan(planned.plan, *body, &inner);
      Json entry = Json::object();
      entry["node"] = planned.node;
      entry["second_of"] = planned.second_of;
      entry["plan"] = std::move(inner);
      bodies.push_back(std::move(entry));
    }
  }
  json["bodies"] = std::move(bodies);
}

}  // namespace

std::string PlanToJson(const Plan& plan, const Graph& graph,
                       const PlanRequest& request) {
  Json json = Json::object();
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["graph_name"] = plan.graph_name;
  json["fingerprint"] = Hex(plan.fingerprint);
  json["alignment"] = plan.alignment;
  json["budget_bytes"] = request.budget ? Json(*request.budget) : Json();
  json["optimizations"] = request.optimizations;
  if (!request.device.empty()) json["device"] = request.device;
  WritePlan(plan, graph, &json);
  json["graph"] = ToText(graph);
  json["sources"] = SourcesJson(graph);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

Result<PlanFile> PlanFromJson(std::string_view text) {
  if (const Status checked = CheckJsonText(text, kMaxLevels); !checked.ok()) {
    return InvalidArgumentError("[plan file] the file ",
                                checked.error().message,
                                "; expected one that `stowage plan -o` wrote");
  }
  const Json json = Json::parse(text);
  const Reader file(json, "the file");
  STOWAGE_RETURN_IF_ERROR(file.CheckIsObject());
  STOWAGE_ASSIGN_OR_RETURN(const std::string format, file.String("format"));
  if (format != kFormat) {
    return InvalidArgumentError("[plan file] \"format\" is ", Quoted(format),
                                "; expected ", Quoted(kFormat));
  }
  STOWAGE_ASSIGN_OR_RETURN(const int64_t version, file.Int("version", 0, kMax));
  if (version != kVersion) {
    return InvalidArgumentError("[plan file] version ", version,
                                " is not known here; version ", kVersion,
                                " is");
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string graph_text, file.String("graph"));
  Result<Graph> graph = ParseGraph(graph_text);
  if (!graph.ok()) {
    return InvalidArgumentError("[plan file] the graph in it is wrong: ",
                                graph.error().message);
  }
  STOWAGE_RETURN_IF_ERROR(ReadSources(json, &*graph));
  STOWAGE_ASSIGN_OR_RETURN(Plan plan, ReadPlan(file, *graph));
  STOWAGE_ASSIGN_OR_RETURN(PlanRequest request, ReadRequest(file));
  return PlanFile{std::move(*graph), std::move(plan), std::move(request)};
}

std::vector<std::string> ViolationsOf(const PlanFile& file) {
  std::vector<std::string> violations = ValidatePlan(file.graph, file.plan);
  if (violations.empty()) violations = FigureViolations(file);
  const std::optional<Bytes>& budget = file.request.budget;
  if (budget && file.plan.arena_bytes() > *budget) {
    violations.push_back(StrCat("the arena of ", file.plan.arena_bytes(),
                                " bytes is above the budget of ", *budget));
  }
  return violations;
}

}  // namespace stowage
