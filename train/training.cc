#include "train/training.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "autodiff/param_groups.h"
#include "autodiff/rank_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "planner/fit/fit.h"
#include "planner/fit/offload/offload.h"
#include "planner/fit/tiles/tiles.h"
#include "runtime/values.h"

namespace stowage {
namespace {

Status CheckMicroBatches(const std::vector<int64_t>& micro_batches,
                         int64_t batch) {
  const auto invalid = [&](std::string_view what) {
    return Error{ErrorCode::kInvalidArgument, StrCat("[micro-batches] ", what)};
  };
  if (micro_batches.empty())
    return invalid("no number of micro-batches is given; give 1");
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    if (micro_batches[i] < 1 || micro_batches[i] > batch) {
      return invalid(
          StrCat(micro_batches[i], " micro-batches of a batch of ", batch,
                 "; expected at ",
                 micro_batches[i] < 1 ? "least 1" : StrCat("most ", batch)));
    }
    if (i > 0 && micro_batches[i] <= micro_batches[i - 1]) {
      return invalid(StrCat(micro_batches[i], " micro-batches follow ",
                            micro_batches[i - 1], "; expected rising numbers"));
    }
  }
  return {};
}

// The number of examples of a batch that this rank takes.
int64_t PartOf(const TrainingSpec& spec) {
  return PartOfRank(spec.batch, spec.ranks.ranks, spec.ranks.rank).count;
}

Status Check(const TrainingSpec& spec) {
  if (!spec.model)
    return InvalidArgumentError("[train] there is no model; give a function");
  if (spec.batch < 1) {
    return InvalidArgumentError("[train] batch ", spec.batch, " is below 1");
  }
  STOWAGE_RETURN_IF_ERROR(CheckRanks(spec.ranks));
  if (spec.ranks.ranks > spec.batch) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[ranks] ", spec.ranks.ranks, " ranks take a batch of ",
               spec.batch, "; expected at least one example for each")};
  }
  if (spec.optimizations) {
    STOWAGE_RETURN_IF_ERROR(
        CheckMicroBatches(spec.optimizations->micro_batches, PartOf(spec)));
  }
  for (const ShapeSpec& shape : spec.shapes) {
    if (!shape.model) {
      return InvalidArgumentError("[train] shape ", Quoted(shape.name),
                                  " has no model; give a function");
    }
    if (const int64_t batch = shape.batch.value_or(spec.batch);
        batch < spec.ranks.ranks) {
      return InvalidArgumentError(
          "[train] shape ", Quoted(shape.name), ": batch ", batch,
          " is below 1, or below the ", spec.ranks.ranks, " ranks");
    }
  }
  for (const ProgramSpec& program : spec.programs) {
    if (!program.model) {
      return InvalidArgumentError("[train] program ", Quoted(program.name),
                                  " has no model; give a function");
    }
    if (program.batch < 1) {
      return InvalidArgumentError("[train] program ", Quoted(program.name),
                                  ": batch ", program.batch, " is below 1");
    }
  }
  return {};
}

// The step of the whole batch, which shows the optimizer, and the model for every size of
// micro-batches.
Result<std::vector<Graph>> SourcesOf(const TrainingSpec& spec,
                                     const StepBuilder& build) {
  std::vector<Graph> graphs;
  STOWAGE_ASSIGN_OR_RETURN(SampledStep step, build(1, Sampling::kAll));
  graphs.push_back(std::move(step.graph));
  std::vector<int64_t> sizes;
  for (const int64_t micro_batches : spec.optimizations->micro_batches) {
    sizes.push_back(LargestMicroBatch(PartOf(spec), micro_batches));
    sizes.push_back(PartOf(spec) / micro_batches);
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  for (const int64_t size : sizes) {
    Result<Graph> micro_batch = spec.model(size);
    // A model of a fixed batch has no micro-batches.
    if (!micro_batch.ok() &&
        micro_batch.error().code == ErrorCode::kUnsupported)
      continue;
    if (!micro_batch.ok()) return micro_batch.error();
    graphs.push_back(*std::move(micro_batch));
  }
  return graphs;
}

// The forward graph over the weights that this rank keeps.
Result<Graph> OverOwnWeights(Graph forward, const Ranks& ranks) {
  if (ranks.ranks == 1 || ranks.shard != Sharding::kWeights) return forward;
  return ShardWeights(forward, ranks.ranks);
}

// Everything that plans depend on besides graphs and optimizations.
std::string SettingsOf(const TrainingSpec& spec) {
  const Ranks& ranks = spec.ranks;
  return StrCat(spec.training.allow_batch_change ? "changed " : "", "batch ",
                spec.batch, " rank ", ranks.rank, " of ", ranks.ranks,
                " shard ", ShardingName(ranks.shard), " bucket ",
                ranks.bucket_bytes);
}

}  // namespace

Bytes TrainingPlan::arena_bytes() const {
  Bytes most = step.plan.arena_bytes();
  for (const PlannedShape& shape : shapes) {
    most = std::max(most, shape.step.plan.arena_bytes());
  }
  for (const PlannedProgram& program : programs) {
    most = std::max(most, program.plan.arena_bytes());
  }
  return most;
}

Bytes TrainingPlan::host_bytes() const {
  Bytes most = step.plan.host_bytes();
  for (const PlannedShape& shape : shapes) {
    most = std::max(most, shape.step.plan.host_bytes());
  }
  for (const PlannedProgram& program : programs) {
    most = std::max(most, program.plan.host_bytes());
  }
  return most;
}

Result<TrainingPlanner> TrainingPlanner::Make(TrainingSpec spec,
                                              DeviceNeeds device) {
  STOWAGE_RETURN_IF_ERROR(Check(spec));
  // The forward plan decides the weight layout of all programs.
  PlanOptions& options = spec.planning;
  options.device = std::move(device);
  options.budget.reset();
  options.weights.reset();
  STOWAGE_ASSIGN_OR_RETURN(Graph model, spec.model(PartOf(spec)));
  if (!spec.optimizations) spec.optimizations = AllOptimizations(PartOf(spec));
  STOWAGE_ASSIGN_OR_RETURN(const Graph forward,
                           OverOwnWeights(std::move(model), spec.ranks));
  STOWAGE_ASSIGN_OR_RETURN(const stowage::Plan forward_plan,
                           PlanMemory(forward, options));
  // The step has optimizer states besides the model's, and places all.
  options.weights =
      WeightLayout::FromForward(forward, forward_plan).WithoutStates();

  const StepBuilder build = BuildRankSteps(spec.model, spec.batch, spec.ranks,
                                           spec.loss, spec.training);
  TrainingPlanner planner;
  planner.step_ = std::make_unique<StepPlanner>(
      StepQuestion{.build = build,
                   .sources = [spec, build] { return SourcesOf(spec, build); },
                   .settings = SettingsOf(spec),
                   .fit = {.plan = options,
                           .optimizations = *spec.optimizations,
                           .on_choice = spec.on_choice},
                   .budget = spec.budget,
                   .op_times = spec.op_times,
                   .cache = spec.cache});
  planner.spec_ = std::move(spec);
  return planner;
}

Result<TrainingPlan> TrainingPlanner::Plan() {
  TrainingPlan plan;
  STOWAGE_ASSIGN_OR_RETURN(PlannedStep step, step_->Plan());
  plan.step = std::move(step.step);
  plan.cache = step.cache;
  plan.cache_note = std::move(step.cache_note);
  const Ranks& ranks = spec_.ranks;
  if (ranks.ranks > 1 && ranks.shard == Sharding::kWeights) {
    STOWAGE_ASSIGN_OR_RETURN(const Graph model, spec_.model(1));
    for (const ValueId id : model.Leaves(Role::kParam)) {
      plan.split.push_back(model.value(id));
    }
    plan.rank = ranks.rank;
  }
  for (const ShapeSpec& shape : spec_.shapes) {
    STOWAGE_ASSIGN_OR_RETURN(PlannedShape planned, PlanShape(shape, plan.step));
    plan.shapes.push_back(std::move(planned));
  }
  for (const ProgramSpec& program : spec_.programs) {
    Result<PlannedProgram> planned = PlanBeside(program, plan.step);
    if (!planned.ok()) {
      const ErrorCode code = planned.error().code;
      const bool may_lack =
          code == ErrorCode::kBudgetTooSmall || code == ErrorCode::kUnsupported;
      if (program.is_optional && may_lack) continue;
      return planned.error();
    }
    plan.programs.push_back(*std::move(planned));
  }
  return plan;
}

Result<std::vector<BatchObstacle>> TrainingPlanner::BatchChanges(
    int64_t micro_batches) const {
  const int64_t parts = micro_batches * spec_.ranks.ranks;
  if (!spec_.training.allow_batch_change || parts == 1) {
    return std::vector<BatchObstacle>();
  }
  STOWAGE_ASSIGN_OR_RETURN(const Graph whole, spec_.model(spec_.batch));
  STOWAGE_ASSIGN_OR_RETURN(const Graph part,
                           spec_.model((spec_.batch + parts - 1) / parts));
  const BatchAnalysis analysis =
      AnalyzeBatch(whole, part, {.has_max = spec_.ranks.ranks == 1});
  return ObstaclesToSplit(part, analysis, spec_.loss);
}

// Plans around the params and states that the step has placed in the arena or on the host.
Result<PlannedShape> TrainingPlanner::PlanShape(const ShapeSpec& shape,
                                                const FittedStep& step) const {
  TrainingSpec spec = spec_;
  spec.model = shape.model;
  spec.batch = shape.batch.value_or(spec_.batch);
  std::vector<int64_t>& micro_batches = spec.optimizations->micro_batches;
  std::erase_if(micro_batches,
                [&](int64_t count) { return count > PartOf(spec); });
  if (micro_batches.empty()) micro_batches = {PartOf(spec)};
  StepQuestion question = step_->question();
  question.build = BuildRankSteps(spec.model, spec.batch, spec.ranks, spec.loss,
                                  spec.training);
  question.settings = SettingsOf(spec);
  question.fit.optimizations = *spec.optimizations;
  question.sources = [spec, build = question.build] {
    return SourcesOf(spec, build);
  };
  question.fit.plan.weights = WeightLayout::FromForward(step.graph, step.plan);
  question.budget = spec_.budget.value_or(step.plan.arena_bytes());
  Result<PlannedStep> planned = StepPlanner(std::move(question)).Plan();
  if (!planned.ok()) {
    const RegionBytes& regions = step.plan.regions;
    return Error{
        planned.error().code,
        StrCat(planned.error().message, "; this is shape ", Quoted(shape.name),
               ", beside ", regions.weights, " bytes of weights, ",
               regions.state, " of state and ", regions.host_state,
               " of state on the host, as the first step has them")};
  }
  return PlannedShape{.name = shape.name, .step = std::move(planned->step)};
}

// Plans with the largest batch that fits beside the weights and states of the step.
Result<PlannedProgram> TrainingPlanner::PlanBeside(
    const ProgramSpec& program, const FittedStep& step) const {
  PlanOptions options = spec_.planning;
  options.weights = WeightLayout::FromForward(step.graph, step.plan);
  // Without a budget, the largest batch that fits the step's arena, or one.
  options.budget = spec_.budget.value_or(step.plan.arena_bytes());
  int64_t batch = program.batch;
  size_t tiling = 0;  // of kTileParts
  while (true) {
    STOWAGE_ASSIGN_OR_RETURN(Graph model, program.model(batch));
    STOWAGE_ASSIGN_OR_RETURN(Graph built,
                             OverOwnWeights(std::move(model), spec_.ranks));
    if (tiling > 0) {
      STOWAGE_ASSIGN_OR_RETURN(fit::Tiled tiled,
                               fit::TileLogits(built, fit::kTileParts[tiling]));
      built = std::move(tiled.graph);
    }
    // It reloads the values that the step keeps on the host.
    STOWAGE_ASSIGN_OR_RETURN(const Graph graph,
                             fit::MoveGiven(built, *options.weights));
    if (batch == 1 && !spec_.budget && !program.is_optional) {
      options.budget.reset();
    }
    Result<PlannedGraph> planned = PlanProgram(graph, options);
    if (planned.ok()) {
      return PlannedProgram{.name = program.name,
                            .batch = batch,
                            .asked = program.batch,
                            .graph = std::move(planned->graph),
                            .plan = std::move(planned->plan)};
    }
    if (planned.error().code != ErrorCode::kBudgetTooSmall) {
      return planned.error();
    }
    if (batch > 1) {
      batch = (batch + 1) / 2;
      continue;
    }
    const bool has_tiles = spec_.optimizations->tiles == Tiles::kAuto;
    if (has_tiles && ++tiling < fit::kTileParts.size()) continue;
    return Error{ErrorCode::kBudgetTooSmall,
                 StrCat(planned.error().message, "; this is program ",
                        Quoted(program.name), ", at 1 example of ",
                        program.batch, " at a time")};
  }
}

std::string TrainingPlan::Explain() const {
  const Price& price = step.price;
  std::string text;
  for (const PassReport& pass : step.passes) {
    text +=
        StrCat("pass ", pass.name, ": ",
               pass.changed   ? "changed the step"
               : pass.applied ? "changed nothing"
                              : "did not apply",
               "; ", pass.arena, " bytes, ", Fixed(pass.seconds, 3), " s\n");
  }
  text +=
      StrCat("step: ", step.plan.arena_bytes(), " bytes in ",
             price.micro_batches, " micro-batches; ", price.recomputed_nodes,
             " nodes recomputed, ", Fixed(price.extra_percent, 2),
             " % more operations; ", price.host.values, " values offloaded, ",
             price.host.bytes_per_step, " bytes copied a step\n");
  for (const PlannedShape& shape : shapes) {
    text += StrCat(shape.name, ": ", shape.step.plan.arena_bytes(), " bytes\n");
  }
  for (const PlannedProgram& program : programs) {
    text += StrCat(program.name, ": ", program.plan.arena_bytes(), " bytes, ",
                   program.batch, " examples at a time");
    if (program.batch < program.asked) {
      text += StrCat(", of the ", program.asked,
                     " asked for: more do not fit beside the weights");
    }
    text += "\n";
  }
  return text + StrCat("arena: ", arena_bytes(),
                       " bytes; on the host: ", host_bytes(), " bytes\n");
}

// The old members are destroyed with `other`: the session first, then its backend.
Training& Training::operator=(Training other) noexcept {
  std::swap(why_, other.why_);
  std::swap(owned_, other.owned_);
  std::swap(plan_, other.plan_);
  std::swap(session_, other.session_);
  return *this;
}

void Training::Initialize(uint64_t seed) {
  session_->Initialize(seed);
  for (const ValueInfo& param : plan_.split) {
    const std::string name = OwnName(param.name);
    const ValueInfo& own = step().graph().value(*step().graph().Find(name));
    std::vector<std::byte> whole = InitialValues(param, seed);
    const auto block = static_cast<size_t>(own.type.bytes());
    whole.resize(std::max(whole.size(), block * Index(plan_.rank + 1)));
    const auto bytes =
        std::span(whole).subspan(block * Index(plan_.rank), block);
    // A device failure here is reported by the next step.
    static_cast<void>(step().WriteBytes(name, param.type.dtype, bytes).ok());
  }
}

Result<Training> Training::Open(TrainingPlan plan, Backend& backend,
                                const SessionOptions& options) {
  std::vector<SessionProgram> programs;
  programs.push_back({"train", plan.step.graph, plan.step.plan});
  for (const PlannedShape& shape : plan.shapes) {
    programs.push_back({shape.name, shape.step.graph, shape.step.plan});
  }
  for (const PlannedProgram& program : plan.programs) {
    programs.push_back({program.name, program.graph, program.plan});
  }
  STOWAGE_ASSIGN_OR_RETURN(
      Session session, Session::Create(std::move(programs), backend, options));
  Training training;
  training.plan_ = std::move(plan);
  training.session_ = std::make_unique<Session>(std::move(session));
  return training;
}

Result<Training> Train(TrainingSpec spec, Backend& backend) {
  if (spec.budget) {
    STOWAGE_RETURN_IF_ERROR(backend.CheckBudget(*spec.budget));
  }
  STOWAGE_ASSIGN_OR_RETURN(
      TrainingPlanner planner,
      TrainingPlanner::Make(std::move(spec), backend.Needs()));
  STOWAGE_ASSIGN_OR_RETURN(TrainingPlan plan, planner.Plan());
  return Training::Open(std::move(plan), backend);
}

Result<Training> Train(TrainingSpec spec, const DeviceFlags& device) {
  DeviceFlags flags = device;
  const OffloadChoice offload =
      spec.optimizations ? spec.optimizations->offload : OffloadChoice::kAuto;
  STOWAGE_ASSIGN_OR_RETURN(flags.offload_folder,
                           OffloadFolder(offload, device.offload_folder));
  STOWAGE_ASSIGN_OR_RETURN(ChosenDevice chosen, ChooseDevice(flags));
  STOWAGE_ASSIGN_OR_RETURN(Training training,
                           Train(std::move(spec), *chosen.backend));
  training.owned_ = std::move(chosen.backend);
  training.why_ = std::move(chosen.why);
  return training;
}

namespace {

constexpr std::array<std::string_view, 3> kNames = {"lr", "step", "seed"};

bool Reads(const Graph& graph, std::string_view name) {
  const std::optional<ValueId> id = graph.Find(name);
  return id && StepInputs::Includes(graph.value(*id));
}

}  // namespace

StepInputs::StepInputs(const Graph& graph)
    : reads_lr_(Reads(graph, "lr")),
      reads_step_(Reads(graph, "step")),
      reads_seed_(Reads(graph, "seed")) {
  for (const ValueId id : graph.Leaves(Role::kInput)) {
    const std::string& name = graph.value(id).name;
    if (IsGroupInput(name) && Reads(graph, name)) of_groups_.push_back(name);
  }
}

bool StepInputs::Includes(const ValueInfo& input) {
  if (input.role != Role::kInput || input.type.shape.rank() != 0) return false;
  for (const std::string_view name : kNames) {
    if (input.name == name) return true;
  }
  return IsFloat(input.type.dtype) && IsGroupInput(input.name);
}

Status StepInputs::Write(Runner& runner, const Values& values) const {
  if (reads_lr_) {
    STOWAGE_RETURN_IF_ERROR(runner.Write("lr", static_cast<float>(values.lr)));
  }
  if (values.of_groups.size() != of_groups_.size()) {
    return InvalidArgumentError(
        "[step] ", values.of_groups.size(), " values are given for the ",
        of_groups_.size(), " inputs of param groups",
        of_groups_.empty() ? "" : ", the first of which is ",
        of_groups_.empty() ? "" : Quoted(of_groups_.front()));
  }
  for (size_t i = 0; i < of_groups_.size(); ++i) {
    STOWAGE_RETURN_IF_ERROR(runner.Write(of_groups_[i], values.of_groups[i]));
  }
  if (reads_step_) STOWAGE_RETURN_IF_ERROR(runner.Write("step", values.step));
  if (!reads_seed_) return {};
  return runner.Write("seed", values.seed);
}

}  // namespace stowage
