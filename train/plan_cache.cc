#include "train/plan_cache.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/byte_stream.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/graph_bytes.h"
#include "planner/plan.h"
#include "planner/validate_plan.h"

namespace stowage {

namespace {

namespace fs = std::filesystem;

// The first line: "stowage-plan-cache 2 <bytes of key> <bytes of content>
// <digest of both>"; then the key, and the content.
constexpr std::string_view kMagic = "stowage-plan-cache 2 ";

uint64_t DigestOf(std::string_view key, std::string_view content) {
  return Xxh64(content, Xxh64(key));
}

std::string HeaderOf(std::string_view key, std::string_view content) {
  return StrCat(kMagic, key.size(), " ", content.size(), " ",
                Hex(DigestOf(key, content)), "\n");
}

}  // namespace

struct PlanCache::Memory {
  std::map<std::string, std::string, std::less<>> entries;
};

std::string_view CacheUseName(CacheUse use) {
  switch (use) {
    case CacheUse::kOff:
      return "off";
    case CacheUse::kMiss:
      return "miss";
    case CacheUse::kHit:
      return "hit";
  }
  STOWAGE_CHECK(false);
}

PlanCache::PlanCache(std::string folder)
    : folder_(std::move(folder)), memory_(std::make_shared<Memory>()) {}

std::string PlanCache::PathOf(std::string_view key) const {
  return (fs::path(folder_) / StrCat(Hex(DigestOf(key, "")), ".stowage"))
      .string();
}

PlanCache::Lookup PlanCache::Find(std::string_view key) const {
  const auto known = memory_->entries.find(key);
  if (known != memory_->entries.end()) return {.content = known->second};
  if (folder_.empty()) return {};
  const std::string path = PathOf(key);
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  const auto refuse = [&](std::string_view why) {
    return Lookup{.note = StrCat("[plan cache] ", Quoted(path), " ", why,
                                 "; it is planned anew")};
  };
  std::string header;
  std::getline(file, header);
  uint64_t key_bytes = 0, content_bytes = 0;
  const char* at = header.data() + std::min(header.size(), kMagic.size());
  const char* const end = header.data() + header.size();
  const auto read = [&](uint64_t* number) {
    const auto parsed = std::from_chars(at, end, *number);
    at = parsed.ptr == end ? end : parsed.ptr + 1;
    return parsed.ec == std::errc();
  };
  if (!header.starts_with(kMagic) || !read(&key_bytes) ||
      !read(&content_bytes)) {
    return refuse("is no entry of a plan cache of this version");
  }
  // Bounded by the size of the open file, whatever the header says; by descriptor, since another
  // file may replace it.
  const std::streamoff start = file.tellg();
  file.seekg(0, std::ios::end);
  const std::streamoff end_of_file = file.tellg();
  file.seekg(start);
  const uint64_t rest = file && end_of_file >= start
                            ? static_cast<uint64_t>(end_of_file - start)
                            : 0;
  if (key_bytes > rest || content_bytes != rest - key_bytes) {
    return refuse("is damaged: it is not as long as it says");
  }
  std::string its_key(key_bytes, '\0'), content(content_bytes, '\0');
  file.read(its_key.data(), static_cast<std::streamsize>(key_bytes));
  file.read(content.data(), static_cast<std::streamsize>(content_bytes));
  if (!file) return refuse("cannot be read");
  if (HeaderOf(its_key, content) != header + "\n") {
    return refuse("is damaged: its digest is not what it says");
  }
  if (its_key != key) return refuse("is of another plan");
  memory_->entries[std::move(its_key)] = content;
  return {.content = std::move(content)};
}

Status PlanCache::Store(std::string_view key, std::string content) {
  const std::string& kept = memory_->entries[std::string(key)] =
      std::move(content);
  if (folder_.empty()) return {};
  const auto fail = [&](std::string_view what, const std::string& path,
                        const std::string& why) {
    return Error{ErrorCode::kIo, StrCat("[plan cache] cannot ", what, " ",
                                        Quoted(path), ": ", why)};
  };
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return fail("make the folder", folder_, error.message());
  const std::string path = PathOf(key);
  // A unique file for every writer of any process.
  static std::atomic<uint64_t> count = 0;
  const std::string written =
      StrCat(path, ".", ::getpid(), ".", ++count, ".new");
  {
    std::ofstream file(written, std::ios::binary | std::ios::trunc);
    file << HeaderOf(key, kept) << key << kept;
    file.close();
    if (!file) {
      const std::string why = std::strerror(errno);
      fs::remove(written, error);
      return fail("write", written, why);
    }
  }
  fs::rename(written, path, error);
  if (!error) return {};
  const std::string why = error.message();
  fs::remove(written, error);
  return fail("write", path, why);
}

void PlanCache::Forget() const { memory_->entries.clear(); }

std::string DefaultPlanCacheFolder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return StrCat(cache, "/stowage");
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return StrCat(home, "/.cache/stowage");
  return {};
}

namespace {

constexpr std::string_view kStepMagic = "stowage-step 3";
constexpr size_t kNumRegions = static_cast<size_t>(Region::kOutside) + 1;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();

// Writes the name of a buffer, which usually is a value's: its id + 1, or 0 and the name.
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
        regions.workspace, regions.host_state, regions.host_offload,
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
  size_t next = 0;  // of the graph's bodies, each of which has a plan
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
  out->Signed(price.micro_batches);
  out->Signed(price.host.values);
  out->Signed(price.host.bytes_per_step);
  out->Signed(price.tile_rows);
  out->Signed(price.recomputed_nodes);
  for (const double real :
       {price.extra_flops, price.extra_percent, price.extra_cost,
        price.least_extra_cost, step.flops, step.cost}) {
    out->Real(real);
  }
  out->Unsigned(step.order_bound.has_value());
  if (step.order_bound) out->Signed(*step.order_bound);
  out->Count(step.recomputed.size());
  for (const RecomputedNode& recomputed : step.recomputed) {
    out->Text(recomputed.name);
    out->Signed(recomputed.freed);
    out->Real(recomputed.flops);
    out->Signed(recomputed.times);
  }
}

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

// Reads numbers so bounded that their sums fit 64 bits.
Plan ReadPlan(const Graph& graph, ByteReader* in) {
  Plan plan;
  plan.graph_name = in->Text();
  plan.fingerprint = in->Unsigned();
  plan.alignment = in->Int(1, Bytes{1} << 40, "the alignment");
  RegionBytes& regions = plan.regions;
  Bytes rest = kMax - plan.alignment;
  for (Bytes* bytes :
       {&regions.weights, &regions.state, &regions.io, &regions.activations,
        &regions.workspace, &regions.host_state, &regions.host_offload}) {
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
  price.micro_batches = in->Int(1, kMax, "the micro-batches");
  price.host.values =
      static_cast<int>(in->Int(0, kMaxInt, "the values on the host"));
  price.host.bytes_per_step = in->Int(0, kMax, "the bytes copied");
  price.tile_rows = in->Int(0, kMax, "the rows of a tile");
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
  step->recomputed.resize(in->Count("the number of recomputed nodes"));
  for (RecomputedNode& recomputed : step->recomputed) {
    if (!in->ok()) break;
    recomputed.name = in->Text();
    recomputed.freed = in->Int(0, kMax, "what is freed");
    recomputed.flops = in->Real();
    recomputed.times = static_cast<int>(in->Int(0, kMaxInt, "the times"));
  }
}

}  // namespace

std::string FittedStepToBytes(const FittedStep& step) {
  ByteWriter out;
  out.Text(kStepMagic);
  out.Text(ToBytes(step.graph));
  WritePlan(step.plan, step.graph, &out);
  WritePrice(step, &out);
  return std::move(out).bytes();
}

Result<FittedStep> FittedStepFromBytes(std::string_view bytes) {
  ByteReader in(bytes, "plan cache");
  if (in.Text() != kStepMagic) in.Fail("a fitted step opens otherwise");
  const std::string_view graph_bytes = in.Text();
  STOWAGE_RETURN_IF_ERROR(in.status());
  Result<Graph> graph = GraphFromBytes(graph_bytes);
  if (!graph.ok())
    return InvalidArgumentError("[plan cache] an entry is no fitted step: ",
                                graph.error().message);
  FittedStep step;
  step.graph = *std::move(graph);
  step.plan = ReadPlan(step.graph, &in);
  ReadPrice(&step, &in);
  if (in.ok() && !in.AtEnd()) in.Fail("more follows the step");
  STOWAGE_RETURN_IF_ERROR(in.status());
  const std::vector<std::string> violations =
      ValidatePlanBeside(step.graph, step.plan);
  if (!violations.empty())
    return InvalidArgumentError("[plan cache] an entry is no fitted step: ",
                                violations.front());
  return step;
}

}  // namespace stowage
