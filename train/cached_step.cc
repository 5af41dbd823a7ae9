#include "train/cached_step.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/byte_stream.h"
#include "base/bytes.h"
#include "base/index.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/graph_bytes.h"
#include "planner/plan.h"
#include "planner/validate_plan.h"

namespace stowage {
namespace {

constexpr std::string_view kMagic = "stowage-step 3";
constexpr size_t kNumRegions = static_cast<size_t>(Region::kOutside) + 1;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();

// --- Writing ----------------------------------------------------------------

// A buffer is called like a value, mostly: 0 and its name, or the value's id + 1.
void WriteName(const std::string& name, const Graph& graph, ByteWriter* out) {
  const std::optional<ValueId> value = graph.Find(name);
  if (value && graph.value(*value).name == name) {
    out->Unsigned(Index(*value) + 1);
  } else {
    out->Unsigned(0);
    out->Text(name);
  }
}

void WritePlan(const Plan& plan, const Graph& graph, ByteWriter* out) {
  out->Text(plan.graph_name);
  out->Unsigned(plan.fingerprint);
  out->Signed(plan.alignment);
  const RegionBytes& regions = plan.regions;
  for (const Bytes bytes :
       {regions.weights, regions.state, regions.io, regions.activations,
        regions.workspace, regions.host_state, regions.host_stash,
        plan.lower_bound, plan.no_reuse, plan.caching_allocator}) {
    out->Signed(bytes);
  }
  out->Signed(plan.peak_time);
  out->Signed(plan.views);
  out->Signed(plan.in_place);
  out->Text(plan.packer);
  out->Text(plan.order);
  out->Unsigned(plan.optimal);
  out->Count(plan.buffers.size());
  for (const PlannedBuffer& buffer : plan.buffers) {
    WriteName(buffer.name, graph, out);
    out->Unsigned(static_cast<size_t>(buffer.region));
    out->Signed(buffer.offset);
    out->Signed(buffer.size);
    out->Signed(buffer.lower);
    out->Signed(buffer.upper);
    if (buffer.region == Region::kOutside) out->Signed(buffer.within);
  }
  out->Signed(plan.reserve);
  for (const auto* indices :
       {&plan.buffer_of, &plan.workspace_of, &plan.host_workspace_of}) {
    out->Count(indices->size());
    for (const int32_t index : *indices) out->Signed(index);
  }
  size_t next = 0;  // of the graph's bodies, there is a plan for each
  for (const Node& node : graph.nodes()) {
    for (const auto& body : BodiesOf(node)) {
      const BodyPlan& planned = plan.bodies[next++];
      WritePlan(planned.plan, *body, out);
      out->Count(planned.second_of.size());
      for (const int32_t index : planned.second_of) out->Signed(index);
    }
  }
}

void WritePrice(const FittedStep& step, ByteWriter* out) {
  const Price& price = step.price;
  out->Signed(price.pieces);
  out->Signed(price.host.values);
  out->Signed(price.host.bytes_per_step);
  out->Signed(price.recomputed_nodes);
  for (const double real :
       {price.extra_flops, price.extra_percent, price.extra_cost,
        price.least_extra_cost, step.flops, step.cost}) {
    out->Real(real);
  }
  out->Unsigned(step.order_bound.has_value());
  if (step.order_bound) out->Signed(*step.order_bound);
  out->Count(step.remade.size());
  for (const Remade& remade : step.remade) {
    out->Text(remade.name);
    out->Signed(remade.freed);
    out->Real(remade.flops);
    out->Signed(remade.times);
  }
}

// --- Reading ----------------------------------------------------------------

std::string ReadName(const Graph& graph, ByteReader* in) {
  const size_t value =
      in->Below(Index(graph.num_values()) + 1, "a buffer's value");
  if (value == 0) return std::string(in->Text());
  return graph.value(static_cast<ValueId>(value - 1)).name;
}

std::vector<int32_t> ReadIndices(size_t count, int64_t least, size_t end,
                                 ByteReader* in) {
  std::vector<int32_t> indices;
  if (const size_t given = in->Count("a number of indices"); given != count) {
    in->Fail(StrCat(given, " indices; the graph needs ", count));
  }
  if (!in->ok()) return indices;
  indices.resize(count);
  for (int32_t& index : indices) {
    index = static_cast<int32_t>(
        in->Int(least, static_cast<int64_t>(end) - 1, "a buffer's index"));
  }
  return indices;
}

// Sums of what it reads fit 64 bits, so that nobody need check again.
Plan ReadPlan(const Graph& graph, ByteReader* in) {
  Plan plan;
  plan.graph_name = in->Text();
  plan.fingerprint = in->Unsigned();
  plan.alignment = in->Int(1, Bytes{1} << 40, "the alignment");
  RegionBytes& regions = plan.regions;
  Bytes rest = kMax - plan.alignment;
  for (Bytes* bytes :
       {&regions.weights, &regions.state, &regions.io, &regions.activations,
        &regions.workspace, &regions.host_state, &regions.host_stash}) {
    *bytes = in->Int(0, rest, "a region");
    rest -= *bytes;
  }
  plan.lower_bound = in->Int(0, kMax, "the lower bound");
  plan.no_reuse = in->Int(0, kMax, "the arena without reuse");
  plan.caching_allocator = in->Int(0, kMax, "a caching allocator's arena");
  const int64_t nodes = graph.num_nodes();
  plan.peak_time = static_cast<Time>(in->Int(0, nodes, "the peak"));
  plan.views = static_cast<int>(in->Int(0, kMaxInt, "the views"));
  plan.in_place = static_cast<int>(in->Int(0, kMaxInt, "those in place"));
  plan.packer = in->Text();
  plan.order = in->Text();
  plan.optimal = in->Below(2, "a flag") != 0;
  plan.buffers.resize(in->Count("the number of buffers"));
  Bytes all = kMax;
  for (PlannedBuffer& buffer : plan.buffers) {
    if (!in->ok()) break;
    buffer.name = ReadName(graph, in);
    buffer.region = static_cast<Region>(in->Below(kNumRegions, "a region"));
    buffer.offset = in->Int(0, kMax, "an offset");
    buffer.size = in->Int(0, kMax - plan.alignment, "a size");
    buffer.lower = static_cast<Time>(in->Int(0, nodes, "a birth"));
    buffer.upper =
        static_cast<Time>(in->Int(buffer.lower, nodes + 1, "a death"));
    if (buffer.region == Region::kOutside) {
      buffer.within = static_cast<int32_t>(
          in->Int(-1, static_cast<int64_t>(plan.buffers.size()) - 1,
                  "the buffer around another"));
    }
    const Bytes padded = buffer.size + plan.alignment;
    if (buffer.offset > rest - buffer.size || padded > all) {
      in->Fail(StrCat("offset ", buffer.offset, " and size ", buffer.size,
                      " do not fit 64 bits"));
    }
    all -= padded;
  }
  plan.reserve = static_cast<int32_t>(
      in->Int(-1, static_cast<int64_t>(plan.buffers.size()) - 1,
              "the buffer of the reserve"));
  plan.buffer_of =
      ReadIndices(Index(graph.num_values()), 0, plan.buffers.size(), in);
  for (auto* indices : {&plan.workspace_of, &plan.host_workspace_of}) {
    *indices =
        ReadIndices(Index(graph.num_nodes()), -1, plan.buffers.size(), in);
  }
  for (NodeId n = 0; n < graph.num_nodes() && in->ok(); ++n) {
    const Node& node = graph.node(n);
    for (const auto& body : BodiesOf(node)) {
      BodyPlan& planned = plan.bodies.emplace_back();
      planned.node = n;
      planned.plan = ReadPlan(*body, in);
      const bool is_loop = node.op == OpKind::kLoop;
      planned.second_of =
          ReadIndices(is_loop ? PartsOfLoop(node).handed_on() : 0, -1,
                      planned.plan.buffers.size(), in);
    }
  }
  return plan;
}

void ReadPrice(FittedStep* step, ByteReader* in) {
  Price& price = step->price;
  price.pieces = in->Int(1, kMax, "the pieces");
  price.host.values =
      static_cast<int>(in->Int(0, kMaxInt, "the values on the host"));
  price.host.bytes_per_step = in->Int(0, kMax, "the bytes copied");
  price.recomputed_nodes =
      static_cast<int>(in->Int(0, kMaxInt, "the recomputed nodes"));
  for (double* real :
       {&price.extra_flops, &price.extra_percent, &price.extra_cost,
        &price.least_extra_cost, &step->flops, &step->cost}) {
    *real = in->Real();
  }
  if (in->Below(2, "a flag") != 0) {
    step->order_bound = in->Int(0, kMax, "the bound of all orders");
  }
  step->remade.resize(in->Count("the number of remade nodes"));
  for (Remade& remade : step->remade) {
    if (!in->ok()) break;
    remade.name = in->Text();
    remade.freed = in->Int(0, kMax, "what is freed");
    remade.flops = in->Real();
    remade.times = static_cast<int>(in->Int(0, kMaxInt, "the times"));
  }
}

Error Fail(std::string_view why) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[plan cache] an entry is no fitted step: ", why)};
}

}  // namespace

std::string FittedStepToBytes(const FittedStep& step) {
  ByteWriter out;
  out.Text(kMagic);
  out.Text(ToBytes(step.graph));
  WritePlan(step.plan, step.graph, &out);
  WritePrice(step, &out);
  return std::move(out).bytes();
}

Result<FittedStep> FittedStepFromBytes(std::string_view bytes) {
  ByteReader in(bytes, "plan cache");
  if (in.Text() != kMagic) in.Fail("a fitted step opens otherwise");
  const std::string_view graph_bytes = in.Text();
  STOWAGE_RETURN_IF_ERROR(in.status());
  Result<Graph> graph = GraphFromBytes(graph_bytes);
  if (!graph.ok()) return Fail(graph.error().message);
  FittedStep step;
  step.graph = *std::move(graph);
  step.plan = ReadPlan(step.graph, &in);
  ReadPrice(&step, &in);
  if (in.ok() && !in.AtEnd()) in.Fail("more follows the step");
  STOWAGE_RETURN_IF_ERROR(in.status());
  const std::vector<std::string> violations =
      ValidatePlanBeside(step.graph, step.plan);
  if (!violations.empty()) return Fail(violations.front());
  return step;
}

}  // namespace stowage
