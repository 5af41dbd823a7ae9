#include "train/step_planner.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "autodiff/rank_step.h"
#include "autodiff/split_model.h"
#include "base/byte_stream.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "base/version.h"
#include "ir/graph_bytes.h"
#include "planner/plan_memory.h"
#include "train/plan_cache.h"

namespace stowage {

namespace {

// Incremented when planning changes its answer to a question.
constexpr int kPlanningVersion = 8;

// Writes the workspace of every node of `graph` and its bodies.
void WriteScratch(const Graph& graph, const DeviceNeeds& device,
                  ByteWriter* out) {
  for (const Node& node : graph.nodes()) {
    out->Signed(device.workspace ? device.workspace(graph, node) : 0);
    for (const auto& body : BodiesOf(node)) WriteScratch(*body, device, out);
  }
}

// Writes the workspace that kernels need for `graph`, and the ops that they fuse.
void WriteNeeds(const Graph& graph, const PlanOptions& options,
                ByteWriter* out) {
  const DeviceNeeds& device = options.device;
  out->Signed(device.reserve ? device.reserve(graph, options.alignment) : 0);
  WriteScratch(graph, device, out);
  const Fusions& fusions = device.fusions;
  out->Unsigned(fusions.products ? 1 : 0);
  out->Unsigned(fusions.epilogues ? 1 : 0);
  for (const Node& node : graph.nodes()) {
    const bool fuses =
        fusions.elementwise != nullptr && fusions.elementwise(node.op);
    out->Unsigned(fuses ? 1 : 0);
    OpArgsStorage storage;
    out->Signed(fusions.sum_parts == nullptr
                    ? 0
                    : fusions.sum_parts(MakeOpArgs(graph, node, &storage)));
  }
}

std::string LayoutText(const WeightLayout& layout) {
  std::vector<std::string> slots;
  for (const auto* of_kind :
       {&layout.weights(), &layout.states(), &layout.on_host()}) {
    for (const auto& [name, slot] : *of_kind) {
      slots.push_back(StrCat(Quoted(name), " ", slot.offset));
    }
  }
  std::ranges::sort(slots);
  std::string text =
      StrCat("weights ", layout.weight_bytes(), " ", layout.state_bytes(), " ",
             layout.host_state_bytes(), "\n");
  for (const std::string& slot : slots) text += StrCat(slot, "\n");
  return text;
}

FitOptions FitOptionsOf(const StepQuestion& question) {
  FitOptions options = question.fit;
  if (question.op_times) {
    options.cost = question.op_times->CostFunction(question.budget);
    options.cost_per_byte = 0;  // measured times include those of copies
  }
  return options;
}

}  // namespace

StepPlanner::StepPlanner(StepQuestion question)
    : question_(std::move(question)),
      fitter_(question_.build, FitOptionsOf(question_)) {}

// The results of a deadline vary, and custom cost functions cannot be compared.
bool StepPlanner::HasCache() const {
  const bool has_own_cost = question_.fit.cost && !question_.op_times;
  return question_.cache && !question_.fit.plan.deadline && !has_own_cost;
}

// Everything that the answer depends on, except the budget. The learning rate is an input of the
// step.
Result<std::string> StepPlanner::WriteQuestion() const {
  const FitOptions& fit = question_.fit;
  const PlanOptions& options = fit.plan;
  ByteWriter out;
  out.Text(StrCat(
      "stowage ", kVersion, " plans ", kPlanningVersion, "\n",
      ToText(fit.optimizations), "alignment ", options.alignment, " packer ",
      packing::PackerName(options.packer), " in place ",
      static_cast<int>(options.in_place), " effort ", Fixed(fit.effort, 9),
      " copies ", Fixed(fit.CostPerByte(), 9), "\n",
      options.weights ? LayoutText(*options.weights) : "", "costs ",
      question_.op_times ? question_.op_times->ToText() : "operations", "\n",
      "settings ", question_.settings, "\n"));
  for (const std::string& name : options.outside) {
    out.Text(StrCat("outside ", name, "\n"));
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Graph> graphs,
                           question_.sources());
  for (const Graph& graph : graphs) {
    out.Text(ToBytes(graph));
    WriteNeeds(graph, options, &out);
  }
  return std::move(out).bytes();
}

Result<std::string> StepPlanner::Key(std::string_view what) {
  if (written_.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(written_, WriteQuestion());
  }
  return StrCat(what, "\n", written_);
}

Result<PlannedStep> StepPlanner::Plan() {
  PlannedStep planned;
  if (!HasCache()) {
    STOWAGE_ASSIGN_OR_RETURN(planned.step, fitter_.Fit(question_.budget));
    return planned;
  }
  STOWAGE_ASSIGN_OR_RETURN(
      const std::string key,
      Key(question_.budget ? StrCat("budget ", *question_.budget)
                           : "no budget"));
  PlanCache::Lookup found = question_.cache->Find(key);
  planned.cache_note = std::move(found.note);
  if (found.content) {
    Result<FittedStep> step = FittedStepFromBytes(*found.content);
    if (step.ok()) {
      planned.step = *std::move(step);
      planned.cache = CacheUse::kHit;
      return planned;
    }
    planned.cache_note = StrCat(step.error().message, "; it is planned anew");
  }
  planned.cache = CacheUse::kMiss;
  STOWAGE_ASSIGN_OR_RETURN(planned.step, fitter_.Fit(question_.budget));
  const Status stored =
      question_.cache->Store(key, FittedStepToBytes(planned.step));
  if (!stored.ok()) planned.cache_note = stored.error().message;
  return planned;
}

Result<Bytes> StepPlanner::SmallestBudget() {
  if (!HasCache()) return fitter_.SmallestBudget();
  STOWAGE_ASSIGN_OR_RETURN(const std::string key, Key("smallest budget"));
  const PlanCache::Lookup found = question_.cache->Find(key);
  if (found.content) {
    Bytes bytes = 0;
    const std::string& text = *found.content;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, bytes);
    if (parsed.ec == std::errc() && parsed.ptr == end && bytes > 0) {
      return bytes;
    }
  }
  STOWAGE_ASSIGN_OR_RETURN(const Bytes bytes, fitter_.SmallestBudget());
  // If it cannot be stored, it is computed again.
  static_cast<void>(question_.cache->Store(key, StrCat(bytes)).ok());
  return bytes;
}

}  // namespace stowage
